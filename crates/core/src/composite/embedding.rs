//! Rows of a table by index. The rule adds the rows' cotangents back; those of the padding row are left out.
use super::{Compound, RuleArgs, Saves, StackedInput, whole};
use crate::{Arg, DType, Op, Result, Tensor, composite::Cotangents, op::ScatterMode};
pub use adamant_ir::composite::embedding::*;
use smallvec::smallvec;

/// The indices as a column, repeated for each feature.
fn spread(ids: &Tensor, features: usize) -> Tensor {
    let n = ids.meta().shape.elements();
    ids.reshape([n, 1]).expand([n, features])
}

impl Compound for Embedding {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (table, ids) = (&inputs[0], &inputs[1]);
        let features = table.meta().shape[1];
        let flat = Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[table, &spread(ids, features)]);
        let shape = ids.meta().shape;
        Ok(vec![flat.reshape(shape.insert(shape.rank(), features).map_err(|k| crate::Error::new("adamant.embedding", k))?)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 0b10, outputs: 0 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None, None]) };
        let backward = EmbeddingBackward { rows: args.metas[0].shape[0], padding_idx: self.padding_idx };
        Ok(smallvec![Some(Tensor::composite1(backward, &[g, args.input(1)?])), None])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        let [StackedInput { tensor: table, batched: false }, StackedInput { tensor: ids, batched: true }] = inputs else { return None };
        Some(Ok(whole(*self, &[table, ids])))
    }
}
impl Compound for EmbeddingBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (g, ids) = (&inputs[0], &inputs[1]);
        let meta = g.meta();
        let features = meta.shape[meta.shape.rank() - 1];
        let n = ids.meta().shape.elements();
        // Equal rows add up in the dtype that holds many of them.
        let mut flat = g.reshape([n, features]).widened();
        if let Some(p) = self.padding_idx {
            flat = ids.cast(DType::I64).reshape([n, 1]).eq(p as i64).where_(0.0, &flat);
        }
        let zeros = Tensor::full_on([self.rows, features], 0, flat.meta().dtype, meta.device);
        let sum = Tensor::apply(Op::Scatter { axis: 0, mode: ScatterMode::Add }, Arg::None, &[&zeros, &spread(ids, features), &flat]);
        Ok(vec![sum.cast(meta.dtype)])
    }
}
