//! Shapes: views that move nothing where strides allow, padding with a constant, updating a slice.
use super::{
    Tensor,
    compose::{Built, compose, compose1, refuse},
};
use crate::{
    Arg, DType, ErrorKind, Op, Origin, Scalar, Shape, TensorType,
    op::{PadSpec, View},
    scope::call,
    shape::{Axes, Axis, Dims, MAX_RANK, ToSizes},
};
use smallvec::SmallVec;

impl Tensor {
    #[track_caller]
    pub(super) fn as_view(&self, view: View, arg: Arg) -> Tensor {
        Tensor::apply_at(Op::View(view), arg, &[self], Origin::here())
    }
    /// The same elements in row-major order under another shape; one size may be -1.
    #[doc(alias = "view")]
    #[track_caller]
    pub fn reshape(&self, sizes: impl ToSizes) -> Tensor {
        compose1("reshape", self, |x| {
            let (from, sizes) = (x.meta().shape, sizes.to_sizes());
            let known = sizes.iter().filter(|&&s| s >= 0).fold(1usize, |n, &s| n.saturating_mul(s as usize));
            let open = sizes.iter().filter(|&&s| s < 0).count();
            let fits = match open {
                0 => known == from.elements(),
                1 => sizes.iter().all(|&s| s >= -1) && known > 0 && from.elements() % known == 0,
                _ => false,
            };
            if !fits {
                return Err(
                    ErrorKind::Shape { shape: from, expected: format!("a shape of {} elements; {sizes:?} does not have as many", from.elements()) }.into()
                );
            }
            let dims: Dims = sizes.iter().map(|&s| if s < 0 { from.elements() / known.max(1) } else { s as usize }).collect();
            let to = Shape::new(&dims)?;
            Ok(if to == from { x.clone() } else { x.as_view(View::Reshape(to), Arg::None) })
        })
    }
    /// Axis k of the result is axis `axes[k]`.
    #[track_caller]
    pub fn permute(&self, axes: impl ToSizes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let shape = self.meta().shape;
        let axes = axes.to_sizes();
        if axes.len() != shape.rank() {
            return self.refused("permute", ErrorKind::Argument(format!("{} axes for a tensor of {}: {axes:?}", axes.len(), shape.rank())));
        }
        let mut perm = [0u8; 8];
        for (k, &a) in axes.iter().enumerate() {
            match shape.axis(a) {
                Ok(a) => perm[k] = a as u8,
                Err(kind) => return self.refused("permute", kind),
            }
        }
        if (0..shape.rank()).all(|k| perm[k] as usize == k) {
            return self.clone();
        }
        self.as_view(View::Permute(perm), Arg::None)
    }
    /// The last two axes exchanged (the transpose of each matrix).
    #[track_caller]
    pub fn mt(&self) -> Tensor {
        let rank = self.rank() as isize;
        if rank < 2 {
            return if self.error().is_some() {
                self.clone()
            } else {
                self.refused("mt", ErrorKind::Shape { shape: self.meta().shape, expected: "at least two axes".into() })
            };
        }
        let mut perm: SmallVec<[isize; MAX_RANK]> = (0..rank).collect();
        perm.swap(rank as usize - 1, rank as usize - 2);
        self.permute(&perm[..])
    }
    /// Broadcast to a shape; -1 keeps a size.
    #[doc(alias = "broadcast_to")]
    #[track_caller]
    pub fn expand(&self, sizes: impl ToSizes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let from = self.meta().shape;
        let sizes = sizes.to_sizes();
        let lead = sizes.len().saturating_sub(from.rank());
        let mut dims = Dims::new();
        for (k, &s) in sizes.iter().enumerate() {
            match s {
                -1 if k >= lead => dims.push(from[k - lead]),
                s if s < 0 => return self.refused("expand", ErrorKind::Argument(format!("{s} is no size for a new axis"))),
                s => dims.push(s as usize),
            }
        }
        match Shape::new(&dims) {
            Ok(to) if to == from => self.clone(),
            Ok(to) => self.as_view(View::Expand(to), Arg::None),
            Err(kind) => self.refused("expand", kind),
        }
    }
    /// `len` elements of an axis from `start` on.
    #[track_caller]
    pub fn narrow(&self, axis: impl Axis, start: usize, len: usize) -> Tensor {
        let _call = call("narrow");
        self.slice(axis, start, start.saturating_add(len), 1)
    }
    /// Elements `start..end` of an axis, every `step`-th. Nothing outside the axis may be named.
    #[track_caller]
    pub fn slice(&self, axis: impl Axis, start: usize, end: usize, step: usize) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let shape = self.meta().shape;
        let axis = match shape.axis(axis.to_axis()) {
            Ok(a) => a,
            Err(kind) => return self.refused("slice", kind),
        };
        if start > end || end > shape[axis] || step == 0 {
            let size = shape[axis];
            let kind = match step {
                0 => ErrorKind::Argument("a step of 0 goes nowhere".into()),
                _ if end.max(start) > size => {
                    // The last element that was asked for.
                    let last = start.max(end - usize::from(end > start));
                    ErrorKind::Index { index: i64::try_from(last).unwrap_or(i64::MAX), axis: Some(axis), bound: size, position: None }
                }
                _ => ErrorKind::Argument(format!("{start}..{end} ends before it begins")),
            };
            return Tensor::failed(
                crate::Error::new("slice", kind)
                    .given([self.meta().ty()])
                    .hint(format!("axis {axis} has {size} elements; {start}..{end} was asked for, whose end is left out")),
            );
        }
        let len = (end - start).div_ceil(step);
        if len == shape[axis] && step == 1 {
            return self.clone();
        }
        self.as_view(View::Slice { axis: axis as u8, len, step }, Arg::Start(start))
    }
    /// The axes reversed.
    #[track_caller]
    pub fn flip(&self, axes: impl Axes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        match axes.to_axes(&self.meta().shape) {
            Ok(axes) if axes.0 == 0 => self.clone(),
            Ok(axes) => self.as_view(View::Flip(axes), Arg::None),
            Err(kind) => self.refused("flip", kind),
        }
    }
    /// 0, 1, 2, ... along an axis, in this tensor's shape and on its device.
    #[track_caller]
    pub fn iota_like(&self, axis: impl Axis, dtype: DType) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let m = self.meta();
        match m.shape.axis(axis.to_axis()) {
            Ok(axis) => Tensor::source(Op::Iota { axis: axis as u8, ty: TensorType { dtype, shape: m.shape } }, Arg::None, m.device, Origin::here()),
            Err(kind) => self.refused("iota_like", kind),
        }
    }

    /// [`Tensor::reshape`] to the shape of another tensor.
    #[doc(alias = "view_as")]
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Tensor {
        compose("reshape_as", &[self, other], || Ok(self.reshape(other.meta().shape)))
    }
    /// [`Tensor::expand`] to the shape of another tensor.
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Tensor {
        compose("expand_as", &[self, other], || Ok(self.expand(other.meta().shape)))
    }
    /// The tensor itself: where elements lie is the scheduler's affair. Kept so that code written for PyTorch reads the same.
    #[must_use]
    pub fn contiguous(&self) -> Tensor {
        self.clone()
    }
    /// Axes `start..=end` merged into one; a scalar becomes `[1]`.
    #[track_caller]
    pub fn flatten(&self, start: impl Axis, end: impl Axis) -> Tensor {
        compose1("flatten", self, |x| {
            let shape = if x.rank() == 0 { Shape::new(&[1])? } else { x.meta().shape };
            let (start, end) = (shape.axis(start.to_axis())?, shape.axis(end.to_axis())?);
            if start > end {
                return refuse(format!("flatten from axis {start} to axis {end}: the start comes after the end"));
            }
            let mut dims = Dims::from_slice(&shape[..start]);
            dims.push(shape[start..=end].iter().product());
            dims.extend_from_slice(&shape[end + 1..]);
            Ok(x.reshape(&dims[..]))
        })
    }
    /// All elements on one axis.
    #[track_caller]
    #[must_use]
    pub fn ravel(&self) -> Tensor {
        let _call = call("ravel");
        self.reshape([-1isize])
    }
    /// One axis split into several; one size may be -1.
    #[track_caller]
    pub fn unflatten(&self, axis: impl Axis, sizes: impl ToSizes) -> Tensor {
        compose1("unflatten", self, |x| {
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let mut sizes = sizes.to_sizes();
            let known = sizes.iter().filter(|&&s| s >= 0).fold(1isize, |n, &s| n.saturating_mul(s));
            let open = sizes.iter().filter(|&&s| s < 0).count();
            let size = shape[axis] as isize;
            let fits = match open {
                0 => known == size,
                1 => !sizes.iter().any(|&s| s < -1) && known > 0 && size % known == 0,
                _ => false,
            };
            if !fits || sizes.is_empty() {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} of size {size} does not split into {sizes:?}") }.into());
            }
            for s in &mut sizes {
                if *s < 0 {
                    *s = size / known;
                }
            }
            let dims: Vec<isize> = shape[..axis].iter().map(|&d| d as isize).chain(sizes).chain(shape[axis + 1..].iter().map(|&d| d as isize)).collect();
            Ok(x.reshape(dims))
        })
    }
    /// Without those of the axes (`..` for all) that have size 1; others stay.
    #[track_caller]
    pub fn squeeze(&self, axes: impl Axes) -> Tensor {
        compose1("squeeze", self, |x| {
            let shape = x.meta().shape;
            let axes = axes.to_axes(&shape)?;
            let dims: Vec<usize> = (0..shape.rank()).filter(|&k| !(axes.has(k) && shape[k] == 1)).map(|k| shape[k]).collect();
            Ok(x.reshape(dims))
        })
    }
    /// With a new axis of size 1 at `axis` of the result.
    #[track_caller]
    pub fn unsqueeze(&self, axis: impl Axis) -> Tensor {
        compose1("unsqueeze", self, |x| {
            let (shape, axis) = (x.meta().shape, axis.to_axis());
            let rank = shape.rank() as isize;
            let at = if axis < 0 { axis + rank + 1 } else { axis };
            if !(0..=rank).contains(&at) {
                return Err(ErrorKind::Axis { axis, rank: shape.rank() + 1 }.into());
            }
            Ok(x.reshape(shape.insert(at as usize, 1)?))
        })
    }
    /// Two axes exchanged.
    #[doc(alias = "swapaxes")]
    #[doc(alias = "swapdims")]
    #[track_caller]
    pub fn transpose(&self, a: impl Axis, b: impl Axis) -> Tensor {
        compose1("transpose", self, |x| {
            let (a, b) = (a.to_axis(), b.to_axis());
            if x.rank() == 0 && (-1..=0).contains(&a) && (-1..=0).contains(&b) {
                return Ok(x.clone());
            }
            let shape = x.meta().shape;
            let mut perm: SmallVec<[isize; MAX_RANK]> = (0..shape.rank() as isize).collect();
            perm.swap(shape.axis(a)?, shape.axis(b)?);
            Ok(x.permute(&perm[..]))
        })
    }
    /// The transpose of a matrix; a vector or a scalar is its own.
    #[track_caller]
    #[must_use]
    pub fn t(&self) -> Tensor {
        compose1("t", self, |x| match x.rank() {
            0 | 1 => Ok(x.clone()),
            2 => Ok(x.permute([1usize, 0])),
            _ => Err(ErrorKind::Shape { shape: x.meta().shape, expected: "at most two axes; `mt` transposes the last two".into() }.into()),
        })
    }
    /// The conjugate transpose of each matrix; for real numbers [`Tensor::mt`].
    #[track_caller]
    #[must_use]
    pub fn adjoint(&self) -> Tensor {
        let _call = call("adjoint");
        self.mt()
    }
    /// The axes `source` moved to the places `destination`; the others keep their order.
    #[doc(alias = "moveaxis")]
    #[track_caller]
    pub fn movedim(&self, source: impl ToSizes, destination: impl ToSizes) -> Tensor {
        compose1("movedim", self, |x| {
            let shape = x.meta().shape;
            let resolve = |axes: SmallVec<[isize; 8]>| -> Built<Vec<usize>> {
                // A scalar has one axis to be named, which goes nowhere.
                if shape.rank() == 0 && matches!(axes[..], [0 | -1]) {
                    return Ok(vec![0]);
                }
                let axes = axes.iter().map(|&a| shape.axis(a)).collect::<Result<Vec<_>, _>>()?;
                if (1..axes.len()).any(|k| axes[..k].contains(&axes[k])) {
                    return refuse(format!("an axis is named twice in {axes:?}"));
                }
                Ok(axes)
            };
            let (from, to) = (resolve(source.to_sizes())?, resolve(destination.to_sizes())?);
            if from.len() != to.len() {
                return refuse(format!("{} axes cannot move to {} places", from.len(), to.len()));
            }
            let mut rest = (0..shape.rank()).filter(|k| !from.contains(k));
            let perm: Vec<usize> = (0..shape.rank()).filter_map(|k| to.iter().position(|&t| t == k).map(|p| from[p]).or_else(|| rest.next())).collect();
            Ok(x.permute(perm))
        })
    }
    /// At least one axis: a scalar becomes `[1]`.
    #[track_caller]
    #[must_use]
    pub fn atleast_1d(&self) -> Tensor {
        let _call = call("atleast_1d");
        if self.rank() == 0 { self.reshape([1usize]) } else { self.clone() }
    }
    /// At least two axes: new ones come first.
    #[track_caller]
    #[must_use]
    pub fn atleast_2d(&self) -> Tensor {
        compose1("atleast_2d", self, |x| {
            Ok(match *x.meta().shape {
                [] => x.reshape([1usize, 1]),
                [n] => x.reshape([1, n]),
                _ => x.clone(),
            })
        })
    }
    /// At least three axes: a vector becomes `[1, n, 1]`, a matrix `[m, n, 1]`.
    #[track_caller]
    #[must_use]
    pub fn atleast_3d(&self) -> Tensor {
        compose1("atleast_3d", self, |x| {
            Ok(match *x.meta().shape {
                [] => x.reshape([1usize, 1, 1]),
                [n] => x.reshape([1, n, 1]),
                [m, n] => x.reshape([m, n, 1]),
                _ => x.clone(),
            })
        })
    }

    /// The part of the tensor at one index of an axis, without that axis. A negative index counts from the end.
    #[doc(alias = "select_index")]
    #[track_caller]
    pub fn select(&self, axis: impl Axis, index: impl Axis) -> Tensor {
        compose1("select", self, |x| {
            let (shape, index) = (x.meta().shape, index.to_axis());
            let axis = shape.axis(axis.to_axis())?;
            let size = shape[axis] as isize;
            let at = if index < 0 { index + size } else { index };
            if !(0..size).contains(&at) {
                return Err(ErrorKind::Index { index: index as i64, axis: Some(axis), bound: shape[axis], position: None }.into());
            }
            Ok(x.narrow(axis, at as usize, 1).reshape(shape.without(axis)))
        })
    }
    /// `x[index]`: the part at one index of the first axis.
    #[track_caller]
    pub fn get(&self, index: impl Axis) -> Tensor {
        let _call = call("get");
        self.select(0, index)
    }
    /// `x[start:end:step]` along an axis as Python reads it: negative bounds count from the end, bounds outside are clamped.
    #[track_caller]
    pub fn slice_signed(&self, axis: impl Axis, start: Option<isize>, end: Option<isize>, step: usize) -> Tensor {
        compose1("slice_signed", self, |x| {
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if step == 0 {
                return refuse("the step of a slice is at least 1");
            }
            let size = shape[axis] as isize;
            let clamp = |bound: isize| (if bound < 0 { bound.saturating_add(size) } else { bound }).clamp(0, size) as usize;
            let start = clamp(start.unwrap_or(0));
            let end = clamp(end.unwrap_or(size)).max(start);
            Ok(x.slice(axis, start, end, step))
        })
    }
    /// The tensor with `source` written into it from `start` on along an axis; on the other axes their sizes are equal.
    #[track_caller]
    pub fn update_slice(&self, axis: impl Axis, start: usize, source: &Tensor) -> Tensor {
        super::compose::compose("update_slice", &[self, source], || {
            let shape = self.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let len = source.meta().shape.get(axis).copied().unwrap_or(0);
            if start.saturating_add(len) > shape[axis] {
                return Err(ErrorKind::Index { index: start.saturating_add(len) as i64 - 1, axis: Some(axis), bound: shape[axis], position: None }.into());
            }
            Ok(Tensor::apply(Op::UpdateSlice { axis: axis as u8 }, Arg::Start(start), &[self, source]))
        })
    }
    /// Surrounded with a number. `widths` are (before, after) of the last axis, then of the one before it, and so on
    /// (PyTorch's order); negative widths cut off.
    #[track_caller]
    pub fn pad_constant(&self, widths: impl ToSizes, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose1("pad_constant", self, |x| {
            let (meta, flat) = (x.meta(), widths.to_sizes());
            let rank = meta.shape.rank();
            if flat.len() % 2 != 0 || flat.len() > 2 * rank {
                return refuse(format!("{} widths: two for each padded axis are needed, of at most {rank} axes", flat.len()));
            }
            let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), rank);
            for (k, pair) in flat.chunks_exact(2).enumerate() {
                widths[rank - 1 - k] = (pair[0], pair[1]);
            }
            if widths.iter().all(|w| *w == (0, 0)) {
                return Ok(x.clone());
            }
            Ok(Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(value.fit(meta.dtype)?), &[x]))
        })
    }
}
