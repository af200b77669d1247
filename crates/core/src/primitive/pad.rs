//! Surrounding with a number; negative widths cut off.
use super::{Backward, Batching, Forward, Stacks, form, one};
use crate::{
    Arg, Attrs, ErrorKind, Op, Result, Scalar, Tensor, TensorType,
    composite::{Attr, Cotangents, Saves},
    op::PadSpec,
};
use smallvec::smallvec;

fn with_zeros(x: &Tensor, widths: PadSpec) -> Tensor {
    Tensor::apply(Op::Pad(Box::new(widths)), Arg::Scalar(Scalar::Float(0.0)), &[x])
}
pub(super) fn reads(_: &PadSpec) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(pad: &PadSpec, back: &Backward<'_>) -> Result<Cotangents> {
    one(with_zeros(back.cotangent, PadSpec { widths: pad.widths.iter().map(|(a, b)| (-a, -b)).collect() }))
}
pub(super) fn tangent(pad: &PadSpec, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.tangent(0).map(|t| with_zeros(t, pad.clone())))
}
pub(super) fn batched(pad: &PadSpec, batch: &Batching<'_>) -> Result<Stacks> {
    let widths = std::iter::once((0, 0)).chain(pad.widths.iter().copied()).collect();
    batch.on_first(Op::Pad(Box::new(PadSpec { widths })))
}
pub(super) fn attributes(pad: &PadSpec, _: &[TensorType], _: &mut form::FormContext) -> Attrs {
    smallvec![("widths", Attr::Ints(pad.widths.iter().flat_map(|&(lo, hi)| [lo as i64, hi as i64]).collect()))]
}
pub(super) const MAKERS: form::Makers = &[("pad", |m| {
    let widths = m.given.ints("widths")?;
    if widths.len() % 2 != 0 {
        return Err(ErrorKind::Argument("`widths` has two numbers for each axis".into()));
    }
    Ok(Op::Pad(Box::new(PadSpec { widths: widths.chunks(2).map(|w| (w[0] as isize, w[1] as isize)).collect() })))
})];
