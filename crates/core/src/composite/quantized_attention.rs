//! Attention over codes: what it means in ops, in the one order of f32 steps that a kernel keeps. The gradient of q is that of the
//! body: codes are constants.
use super::{Compound, attention::repeat_heads};
use crate::{AxisSet, DType, Error, Result, Tensor, composite::packed::unpacked, op::ReduceOp};
use adamant_ir::composite::packed::Packing;
pub use adamant_ir::composite::quantized_attention::*;

/// Codes of rows of so many features less the codes of 0, as f32 `[.., tokens, features]`: whole numbers.
pub(crate) fn centered(packing: &Packing, rows: &RowCodes<'_, Tensor>, features: usize) -> Tensor {
    let shape = rows.codes.meta().shape;
    let last = shape.rank() - 1;
    let flat = rows.codes.reshape([shape[..last].iter().product(), shape[last]]);
    let codes = unpacked(packing, &flat, features).cast(DType::F32).reshape(shape.with(last, features));
    match (rows.zero_point, packing.offset()) {
        (Some(zero_point), _) => codes - zero_point.cast(DType::F32),
        (None, 0) => codes,
        (None, offset) => codes - f64::from(offset),
    }
}
/// True where a query sees a key that there is: `[queries, keys]`, or `[1, keys]` where all see the same.
fn visible(of: &QuantizedAttention, tokens: &Tensor, queries: usize, keys: usize) -> Tensor {
    let device = tokens.meta().device;
    let columns = Tensor::arange_on(0, keys as i64, 1, DType::I32, device).reshape([1, keys]);
    if !of.causal {
        return columns.lt(tokens);
    }
    let rows = Tensor::arange_on(1 - queries as i64, 1, 1, DType::I32, device).reshape([queries, 1]);
    columns.lt(rows + tokens)
}
impl Compound for QuantizedAttention {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let of = self.roles(inputs).map_err(|kind| Error::new("adamant.quantized_attention", kind))?;
        let m = of.q.meta();
        let last = m.shape.rank() - 1;
        let (queries, keys) = (m.shape[last - 1], of.keys.codes.meta().shape[last - 1]);
        let heads = |t: Tensor| repeat_heads(&t, &m.shape);
        let rows = |rows: &RowCodes<'_, Tensor>, features: usize| -> Result<[Tensor; 2]> {
            Ok([heads(centered(&self.packing, rows, features))?, heads(rows.scale.cast(DType::F32))?.mt()])
        };
        let [k, k_scale] = rows(&of.keys, m.shape[last])?;
        let [v, v_scale] = rows(&of.values, self.features)?;
        let mut seen = visible(self, of.tokens, queries, keys);
        let mut s = of.q.cast(DType::F32).matmul(k.mt()) * (k_scale * self.scale);
        match of.mask {
            Some(mask) if mask.meta().dtype == DType::Bool => seen = seen.logical_and(mask),
            Some(mask) => s = s + mask.cast(DType::F32),
            None => {}
        }
        if keys == 0 {
            return Ok(vec![s.matmul(&v).cast(m.dtype)]);
        }
        let s = seen.where_(&s, f64::NEG_INFINITY);
        let axis = AxisSet::one(last);
        let most = s.reduce(ReduceOp::Max, axis, true).detach();
        let most = most.eq(f64::NEG_INFINITY).where_(0.0, &most);
        let e = (&s - &most).exp();
        let sum = e.sum_keepdim(axis);
        let p = &e / sum.eq(0.0).where_(1.0, &sum);
        // What is not seen has no part, whatever its scale.
        let weights = seen.where_(p * v_scale, 0.0);
        Ok(vec![weights.matmul(&v).cast(m.dtype)])
    }
}
