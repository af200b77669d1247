//! Padding by a constant, by reflection, by repeating the edge, or around the circle.
use crate::{Arg, Error, ErrorKind, Op, Origin, Scalar, Tensor, op::PadSpec, scope::call};
use smallvec::SmallVec;

/// What stands beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// One number.
    Constant(Scalar),
    /// The tensor mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first and the last element.
    Replicate,
    /// The tensor again, from its other end.
    Circular,
}
impl Default for PadMode {
    fn default() -> PadMode {
        PadMode::Constant(Scalar::Int(0))
    }
}

/// Widths before and after each axis, from the LAST axis on, as PyTorch gives them: `[left, right, top, bottom, ..]`.
/// Negative widths cut off. The modes other than a constant pad the spatial axes of `[batch, channels, ..]` (the
/// batch may be missing).
#[track_caller]
pub fn pad(x: &Tensor, widths: &[isize], mode: PadMode) -> Tensor {
    let _call = call("pad");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let shape = x.meta().shape;
    let run = || -> Result<Tensor, ErrorKind> {
        let n = widths.len() / 2;
        if widths.len() % 2 == 1 || n > shape.rank() {
            return Err(ErrorKind::Argument(format!("{} widths: an even number is needed, two for each of at most {} axes", widths.len(), shape.rank())));
        }
        let axes = (0..n).map(|k| (shape.rank() - 1 - k, widths[2 * k], widths[2 * k + 1]));
        if let PadMode::Constant(value) = mode {
            let mut all: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), shape.rank());
            for (axis, lo, hi) in axes {
                all[axis] = (lo, hi);
            }
            let value = value.fit(x.meta().dtype)?;
            return Ok(Tensor::apply(Op::Pad(Box::new(PadSpec { widths: all })), Arg::Scalar(value), &[x]));
        }
        if !(1..=3).contains(&n) || (shape.rank() != n + 1 && shape.rank() != n + 2) {
            return Err(ErrorKind::Shape { shape, expected: format!("{} or {} axes, to pad the last {n} by more than a constant", n + 1, n + 2) });
        }
        let mut y = x.clone();
        for (axis, lo, hi) in axes {
            y = pad_axis(&y, axis, lo, hi, mode)?;
        }
        Ok(y)
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("pad", kind, origin).given([x.meta().ty()])))
}
#[track_caller]
fn pad_axis(x: &Tensor, axis: usize, lo: isize, hi: isize, mode: PadMode) -> Result<Tensor, ErrorKind> {
    if lo == 0 && hi == 0 {
        return Ok(x.clone());
    }
    let shape = x.meta().shape;
    let size = shape[axis];
    // What is cut off is cut first; what is added comes from the tensor as it was.
    let (cut_lo, cut_hi) = ((-lo).max(0) as usize, (-hi).max(0) as usize);
    let (lo, hi) = (lo.max(0) as usize, hi.max(0) as usize);
    let limit = match mode {
        PadMode::Reflect => size.saturating_sub(1),
        PadMode::Circular => size,
        _ if size > 0 => usize::MAX,
        _ => 0,
    };
    if lo > limit || hi > limit || cut_lo + cut_hi > size {
        return Err(ErrorKind::Argument(format!(
            "padding ({lo}, {hi}) is too wide for axis {axis} of size {size}: at most {limit}, and no more may be cut than is there"
        )));
    }
    let edge = |start: usize, len: usize| x.narrow(axis, start, 1).expand(shape.with(axis, len));
    let (before, after) = match mode {
        PadMode::Constant(_) => return Err(ErrorKind::Internal("a constant is padded on all axes at once".into())),
        PadMode::Reflect => ((lo > 0).then(|| x.narrow(axis, 1, lo).flip(axis)), (hi > 0).then(|| x.narrow(axis, size - 1 - hi, hi).flip(axis))),
        PadMode::Replicate => ((lo > 0).then(|| edge(0, lo)), (hi > 0).then(|| edge(size - 1, hi))),
        PadMode::Circular => ((lo > 0).then(|| x.narrow(axis, size - lo, lo)), (hi > 0).then(|| x.narrow(axis, 0, hi))),
    };
    let middle = x.narrow(axis, cut_lo, size - cut_lo - cut_hi);
    let parts: Vec<&Tensor> = before.iter().chain([&middle]).chain(&after).collect();
    Ok(Tensor::apply(Op::Concat { axis: axis as u8 }, Arg::None, &parts))
}
