//! Views: the same elements, found by other strides.
use super::{
    form,
    rules::{arity, axis_in},
};
use crate::{Attr, Attrs, AxisSet, ErrorKind, HostArray, MAX_RANK, Op, Shape, TensorType, host::map};
use smallvec::{SmallVec, smallvec};

/// A view: the same elements, found by other strides.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View {
    /// The same row-major order in another shape.
    Reshape(Shape),
    /// Axis k of the output is axis `perm[k]` of the input.
    Permute([u8; MAX_RANK]),
    /// Broadcasts to the shape.
    Expand(Shape),
    /// `len` elements of an axis from the start argument on, every `step`-th.
    Slice { axis: u8, len: usize, step: usize },
    /// Reverses the axes.
    Flip(AxisSet),
    /// The main diagonal of the plane of two axes. Both leave; a new last axis runs along it.
    Diagonal(AxisSet),
    /// Windows of `size` elements every `step` along an axis: the axis counts them, a new last axis runs inside each. They may overlap.
    Windows { axis: u8, size: usize, step: usize },
}

impl View {
    pub(super) fn infer(&self, inputs: &[TensorType]) -> Result<Shape, ErrorKind> {
        arity("view", 1, inputs)?;
        let shape = &inputs[0].shape;
        match self {
            View::Reshape(to) => {
                if to.elements() != shape.elements() {
                    return Err(ErrorKind::ShapeMismatch { left: *shape, right: *to, axes: None, expected: "the number of elements must stay the same" });
                }
                Ok(*to)
            }
            View::Permute(perm) => {
                let mut seen = 0u16;
                let mut out = [1; MAX_RANK];
                for k in 0..shape.rank() {
                    let p = perm[k] as usize;
                    if p >= shape.rank() || seen >> p & 1 == 1 {
                        return Err(ErrorKind::Argument(format!("{:?} is no permutation of {} axes", &perm[..shape.rank()], shape.rank())));
                    }
                    seen |= 1 << p;
                    out[k] = shape[p];
                }
                Shape::new(&out[..shape.rank()])
            }
            View::Expand(to) => {
                if shape.broadcast(to) == Some(*to) {
                    Ok(*to)
                } else {
                    Err(ErrorKind::ShapeMismatch { left: *shape, right: *to, axes: None, expected: "only axes of size 1 expand, and leading axes are added" })
                }
            }
            View::Slice { axis, len, step } => {
                let a = axis_in(*axis, shape)?;
                if *step == 0 {
                    return Err(ErrorKind::Argument("the step of a slice is at least 1".into()));
                }
                // Where it starts is an argument and is checked by the caller.
                if *len > 0 && (len - 1).saturating_mul(*step) >= shape[a] {
                    return Err(ErrorKind::Index { index: ((len - 1).saturating_mul(*step)) as i64, axis: Some(a), bound: shape[a], position: None });
                }
                Ok(shape.with(a, *len))
            }
            View::Flip(axes) => {
                all_in(*axes, shape)?;
                Ok(*shape)
            }
            View::Diagonal(axes) => {
                let count = all_in(*axes, shape)?;
                if count != 2 {
                    return Err(ErrorKind::Argument(format!("a diagonal lies in the plane of two axes, not of {count}")));
                }
                let along = axes.iter().map(|a| shape[a]).min().unwrap_or(0);
                let rest = (0..shape.rank()).filter(|&a| !axes.has(a)).map(|a| shape[a]);
                Shape::new(&rest.chain([along]).collect::<SmallVec<[usize; MAX_RANK]>>())
            }
            View::Windows { axis, size, step } => {
                let a = axis_in(*axis, shape)?;
                if *step == 0 {
                    return Err(ErrorKind::Argument("the step between windows is at least 1".into()));
                }
                let Some(span) = shape[a].checked_sub(*size) else {
                    return Err(ErrorKind::Shape { shape: *shape, expected: format!("axis {a} to hold a window of {size}") });
                };
                shape.with(a, span / step + 1).insert(shape.rank(), *size)
            }
        }
    }
}

/// How many axes there are, all of them the shape's.
fn all_in(axes: AxisSet, shape: &Shape) -> Result<usize, ErrorKind> {
    axes.iter().try_fold(0, |count, axis| axis_in(axis as u8, shape).map(|_| count + 1))
}
/// The same elements in their new order.
pub(crate) fn run(v: &View, start: usize, x: &HostArray, ty: &TensorType) -> HostArray {
    match v {
        View::Reshape(shape) => HostArray { shape: *shape, ..x.clone() },
        View::Permute(p) => map(ty, |i| {
            let mut from = vec![0; i.len()];
            for k in 0..i.len() {
                from[p[k] as usize] = i[k];
            }
            x.scalar(x.at(&from))
        }),
        View::Expand(_) => map(ty, |i| x.scalar(x.at_broadcast(i))),
        View::Slice { axis, step, .. } => map(ty, |i| {
            let mut from = i.to_vec();
            from[*axis as usize] = start + i[*axis as usize] * step;
            x.scalar(x.at(&from))
        }),
        View::Flip(axes) => map(ty, |i| {
            let from: Vec<usize> = i.iter().enumerate().map(|(k, &v)| if axes.has(k) { x.shape[k] - 1 - v } else { v }).collect();
            x.scalar(x.at(&from))
        }),
        View::Diagonal(axes) => map(ty, |i| {
            let (rest, along) = i.split_at(i.len() - 1);
            let mut rest = rest.iter();
            let from: Vec<usize> = (0..x.shape.rank()).filter_map(|a| if axes.has(a) { Some(along[0]) } else { rest.next().copied() }).collect();
            x.scalar(x.at(&from))
        }),
        View::Windows { axis, step, .. } => map(ty, |i| {
            let (outer, inside) = i.split_at(i.len() - 1);
            let mut from = outer.to_vec();
            from[*axis as usize] = outer[*axis as usize] * step + inside[0];
            x.scalar(x.at(&from))
        }),
    }
}

/// The attributes in a graph's text.
pub(crate) fn attributes(view: &View, inputs: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    match view {
        View::Reshape(_) | View::Expand(_) => Attrs::new(),
        View::Permute(perm) => {
            let rank = inputs.first().map_or(0, |t| t.shape.rank());
            smallvec![("perm", form::ints(perm[..rank].iter().map(|&p| p as usize)))]
        }
        // How many elements are taken says the output's type.
        View::Slice { axis, step, .. } => smallvec![form::axis(*axis), ("step", Attr::Int(*step as i64))],
        View::Flip(axes) | View::Diagonal(axes) => smallvec![("axes", form::ints(axes.iter()))],
        // The output's type says the size of a window.
        View::Windows { axis, step, .. } => smallvec![form::axis(*axis), ("step", Attr::Int(*step as i64))],
    }
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[
    ("reshape", |m| Ok(Op::View(View::Reshape(m.output.shape)))),
    ("expand", |m| Ok(Op::View(View::Expand(m.output.shape)))),
    ("permute", |m| {
        let given = m.given.sizes("perm")?;
        let mut perm = [0u8; MAX_RANK];
        if given.len() > MAX_RANK || given.len() != m.inputs.first().map_or(0, |t| t.shape.rank()) {
            return Err(ErrorKind::Argument("`perm` names each axis of the input once".into()));
        }
        for (to, from) in perm.iter_mut().zip(given) {
            *to = u8::try_from(from).map_err(|_| ErrorKind::Argument(format!("there is no axis {from}")))?;
        }
        Ok(Op::View(View::Permute(perm)))
    }),
    ("slice", |m| {
        let axis = m.axis()?;
        let len = m.output.shape.get(usize::from(axis)).copied();
        let len = len.ok_or(ErrorKind::Axis { axis: axis.into(), rank: m.output.shape.rank() })?;
        Ok(Op::View(View::Slice { axis, len, step: m.given.size("step")? }))
    }),
    ("flip", |m| Ok(Op::View(View::Flip(m.axes()?)))),
    ("diagonal", |m| Ok(Op::View(View::Diagonal(m.axes()?)))),
    ("windows", |m| {
        let size = m.output.shape.last().copied().ok_or(ErrorKind::Axis { axis: -1, rank: 0 })?;
        Ok(Op::View(View::Windows { axis: m.axis()?, size, step: m.given.size("step")? }))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn an_axis_that_fits_once_and_not_twice_is_permuted() -> Result<(), ErrorKind> {
        let long = 1usize << 40;
        let x = TensorType { shape: Shape::new(&[4, long])?, dtype: DType::F32 };
        let mut perm = [0; MAX_RANK];
        perm[0] = 1;
        let view = View::Permute(perm);
        assert_eq!(view.infer(&[x])?, Shape::new(&[long, 4])?);
        Ok(())
    }
}
