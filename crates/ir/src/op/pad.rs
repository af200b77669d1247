//! Surrounding with one number, and cutting off.
use super::rules::arity;
use crate::{ErrorKind, HostArray, MAX_RANK, Scalar, Shape, TensorType, host::map};
use smallvec::SmallVec;

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
