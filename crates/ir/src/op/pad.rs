//! Surrounding with one number, and cutting off.
use super::{form, rules::arity};
use crate::{Attr, Attrs, ErrorKind, HostArray, MAX_RANK, Op, Scalar, Shape, TensorType, host::map};
use smallvec::{SmallVec, smallvec};

/// How many elements are added before and after each axis (negative: cut off).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PadSpec {
    /// (before, after) for each axis
    pub widths: SmallVec<[(isize, isize); MAX_RANK]>,
}

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(p: &PadSpec, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("pad", 1, inputs)?;
    if p.widths.len() != inputs[0].shape.rank() {
        return Err(ErrorKind::Argument(format!("{} pairs of widths for {} axes", p.widths.len(), inputs[0].shape.rank())));
    }
    let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::new();
    for (&d, &(lo, hi)) in inputs[0].shape.iter().zip(&p.widths) {
        let size = (d as i128) + lo as i128 + hi as i128;
        // A cut may not reach past what is there, even if the other side adds it back.
        if size < 0 || (d as i128 + lo as i128) < 0 || (d as i128 + hi as i128) < 0 {
            return Err(ErrorKind::Argument(format!("padding ({lo}, {hi}) leaves nothing of an axis of size {d}")));
        }
        dims.push(usize::try_from(size).map_err(|_| ErrorKind::Argument("padding is too large".into()))?);
    }
    Ok(TensorType { shape: Shape::new(&dims)?, ..inputs[0] })
}

/// The result in plain f64.
pub(crate) fn run(p: &PadSpec, fill: Scalar, x: &HostArray, ty: &TensorType) -> HostArray {
    map(ty, |i| {
        let from: Option<Vec<usize>> =
            i.iter().enumerate().map(|(k, &v)| usize::try_from(v as isize - p.widths[k].0).ok().filter(|&v| v < x.shape[k])).collect();
        from.map_or(fill, |f| x.scalar(x.at(&f)))
    })
}

/// The attributes in a graph's text.
pub(crate) fn attributes(pad: &PadSpec, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![("widths", Attr::Ints(pad.widths.iter().flat_map(|&(lo, hi)| [lo as i64, hi as i64]).collect()))]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("pad", |m| {
    let widths = m.given.ints("widths")?;
    if widths.len() % 2 != 0 {
        return Err(ErrorKind::Argument("`widths` has two numbers for each axis".into()));
    }
    Ok(Op::Pad(Box::new(PadSpec { widths: widths.chunks(2).map(|w| (w[0] as isize, w[1] as isize)).collect() })))
})];
