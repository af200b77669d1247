//! Rows of a table by index. The rule adds the rows' cotangents back; those of the padding row are left out.
use super::{Attr, Attrs, Composite, RuleArgs, Saves, StackedInput, whole, wide::one_device};
use crate::{Arg, DType, ErrorKind, Meta, Op, Result, Shape, Tensor, composite::Cotangents, op::Metas, op::ScatterMode};
use smallvec::smallvec;

/// Inputs: the table `[rows, ..features]` and integer indices of any shape; output `[..indices, ..features]`.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// the row that gets no gradient
    pub padding_idx: Option<usize>,
}
/// Inputs: the cotangent of the output, and the indices; output: that of the table.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingBackward {
    /// how many rows the table has
    pub rows: usize,
    /// the row that gets no gradient
    pub padding_idx: Option<usize>,
}
/// Where there is one.
fn padding(row: Option<usize>) -> Option<(&'static str, Attr)> {
    row.map(|r| ("padding_idx", Attr::Int(r as i64)))
}
/// The indices as a column, repeated for each feature.
fn spread(ids: &Tensor, features: usize) -> Tensor {
    let n = ids.meta().shape.elements();
    ids.reshape([n, 1]).expand([n, features])
}

impl Composite for Embedding {
    fn name(&self) -> &'static str {
        "adamant.embedding"
    }
    fn attrs(&self) -> Attrs {
        padding(self.padding_idx).into_iter().collect()
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let (table, ids) = (&inputs[0], &inputs[1]);
        if table.shape.rank() != 2 {
            return Err(ErrorKind::Shape { shape: table.shape, expected: "a table [rows, features]".into() });
        }
        if !ids.dtype.is_int() {
            return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", ids.dtype)));
        }
        if let Some(p) = self.padding_idx.filter(|&p| p >= table.shape[0]) {
            return Err(ErrorKind::Index { index: p as i64, bound: table.shape[0], position: None });
        }
        let shape = ids.shape.insert(ids.shape.rank(), table.shape[1])?;
        Ok(smallvec![Meta { shape, ..*table }])
    }
    fn can_fault(&self) -> bool {
        true
    }
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
impl Composite for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "adamant.embedding_backward"
    }
    fn attrs(&self) -> Attrs {
        [("rows", Attr::Int(self.rows as i64))].into_iter().chain(padding(self.padding_idx)).collect()
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        let g = inputs[0];
        let features = g.shape[g.shape.rank() - 1];
        Ok(smallvec![Meta { shape: Shape::new(&[self.rows, features])?, ..g }])
    }
    fn can_fault(&self) -> bool {
        true
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (g, ids) = (&inputs[0], &inputs[1]);
        let meta = g.meta();
        let features = meta.shape[meta.shape.rank() - 1];
        let n = ids.meta().shape.elements();
        // Equal rows add up in the dtype that holds many of them.
        let mut flat = g.reshape([n, features]).widened();
        if let Some(p) = self.padding_idx {
            flat = ids.cast(DType::I64).reshape([n, 1]).eq(p as i64).select(0.0, &flat);
        }
        let zeros = Tensor::full_on([self.rows, features], 0, flat.meta().dtype, meta.device);
        let sum = Tensor::apply(Op::Scatter { axis: 0, mode: ScatterMode::Add }, Arg::None, &[&zeros, &spread(ids, features), &flat]);
        Ok(vec![sum.cast(meta.dtype)])
    }
}
