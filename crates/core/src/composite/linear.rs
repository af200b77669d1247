//! `y = x wᵀ + b`, the affine map of every dense layer. A composite, because autocast and quantization must see it whole.
use super::{Compound, RuleArgs, Saves, StackedInput, of_first};
use crate::{Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::linear::*;
use smallvec::smallvec;

impl Compound for Linear {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, w) = (&inputs[0], &inputs[1]);
        let m = x.meta();
        let shape = m.shape.with(m.shape.rank() - 1, w.meta().shape[0]);
        // A product alone rounds once by itself; with a bias the sum is what is rounded.
        Ok(vec![match inputs.get(2) {
            Some(b) => (rows(&x.widened()).matmul(w.widened().mt()).reshape(shape) + b.widened()).cast(m.dtype),
            None => rows(x).matmul(w.mt()).reshape(shape),
        }])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(2))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let g = rows(g);
        if args.needs[0] {
            out[0] = Some(g.matmul(args.input(1)?).reshape(args.metas[0].shape));
        }
        if args.needs[1] {
            out[1] = Some(args.operand(1, &g).mt().matmul(args.operand(1, &rows(args.input(0)?))));
        }
        if args.needs.get(2) == Some(&true) {
            out[2] = Some(args.rounded(2, g.widened().sum(0)));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(*self, inputs)
    }
}
/// All leading axes as one.
pub(super) fn rows(x: &Tensor) -> Tensor {
    let shape: Shape = x.meta().shape;
    let last = shape.rank() - 1;
    let n: usize = shape[..last].iter().product();
    x.reshape([n, shape[last]])
}
