//! `y = x wᵀ + b`, the affine map of every dense layer. A composite, because autocast and quantization must see it whole.
use super::{
    Composite, RuleArgs, Saves, StackedInput, of_first,
    wide::{one_device, same_dtype},
};
use crate::{ErrorKind, Meta, Result, Shape, Tensor, composite::Cotangents, op::Metas};
use smallvec::smallvec;

/// Inputs: x `[.., in]`, weight `[out, in]`, and bias `[out]` if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Composite for Linear {
    fn name(&self) -> &'static str {
        "adamant.linear"
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let (x, w) = (&inputs[0], &inputs[1]);
        let rank = x.shape.rank();
        if rank == 0 || w.shape.rank() != 2 {
            return Err(ErrorKind::ShapeMismatch { left: x.shape, right: w.shape, axes: None, expected: "an input [.., in] and a weight [out, in]" });
        }
        if x.shape[rank - 1] != w.shape[1] {
            return Err(ErrorKind::ShapeMismatch {
                left: x.shape,
                right: w.shape,
                axes: Some((rank - 1, 1)),
                expected: "the input's last axis must be the weight's last",
            });
        }
        same_dtype(x, w)?;
        if let Some(b) = inputs.get(2) {
            same_dtype(x, b)?;
            if *b.shape != [w.shape[0]] {
                return Err(ErrorKind::ShapeMismatch { left: w.shape, right: b.shape, axes: None, expected: "the bias has one element per row of the weight" });
            }
        }
        Ok(smallvec![Meta { shape: x.shape.with(rank - 1, w.shape[0]), ..*x }])
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, w) = (&inputs[0], &inputs[1]);
        let m = x.meta();
        let shape = m.shape.with(m.shape.rank() - 1, w.meta().shape[0]);
        // A product alone rounds once by itself; with a bias the sum is what is rounded.
        Ok(vec![match inputs.get(2) {
            Some(b) => (rows(&x.widened()).matmul(w.widened().mt()) + b.widened()).reshape(shape).cast(m.dtype),
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
            out[1] = Some(g.mt().matmul(rows(args.input(0)?)));
        }
        if args.needs.get(2) == Some(&true) {
            out[2] = Some(g.widened().sum(0).cast(args.metas[2].dtype));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(*self, inputs)
    }
}
/// All leading axes as one.
fn rows(x: &Tensor) -> Tensor {
    let shape: Shape = x.meta().shape;
    let last = shape.rank() - 1;
    let n: usize = shape[..last].iter().product();
    x.reshape([n, shape[last]])
}
