//! Shapes: views that move nothing, padding, joining, updating.
use super::Tensor;
use crate::{Arg, DType, Error, ErrorKind, Meta, Op, Origin, Shape, op::View, shape::{Axes, Axis, ToShape, ToSizes}};

impl Tensor {
    #[track_caller]
    fn view(&self, view: View, arg: Arg) -> Tensor {
        Tensor::apply_at(Op::View(view), arg, &[self], Origin::here())
    }
    /// The same elements in row-major order under another shape; one size may be -1.
    #[track_caller]
    pub fn reshape(&self, sizes: impl ToSizes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let from = self.meta().shape;
        let sizes = sizes.to_sizes();
        let known: usize = sizes.iter().filter(|&&s| s >= 0).map(|&s| s as usize).product();
        let open = sizes.iter().filter(|&&s| s < 0).count();
        let bad = || Tensor::fail("reshape", ErrorKind::Shape { shape: from, expected: format!("a shape of {} elements; {sizes:?} does not have as many", from.elements()) });
        if open > 1 || sizes.iter().any(|&s| s < -1) || (open == 1 && (known == 0 || from.elements() % known != 0)) {
            return bad();
        }
        let dims: Vec<usize> = sizes.iter().map(|&s| if s < 0 { from.elements() / known.max(1) } else { s as usize }).collect();
        match Shape::new(&dims) {
            Ok(to) if to == from => self.clone(),
            Ok(to) if to.elements() != from.elements() => bad(),
            Ok(to) => self.view(View::Reshape(to), Arg::None),
            Err(kind) => Tensor::fail("reshape", kind),
        }
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
            return Tensor::fail("permute", ErrorKind::Argument(format!("{} axes for a tensor of {}: {axes:?}", axes.len(), shape.rank())));
        }
        let mut perm = [0u8; 8];
        for (k, &a) in axes.iter().enumerate() {
            match shape.axis(a) {
                Ok(a) => perm[k] = a as u8,
                Err(kind) => return Tensor::fail("permute", kind),
            }
        }
        if (0..shape.rank()).all(|k| perm[k] as usize == k) {
            return self.clone();
        }
        self.view(View::Permute(perm), Arg::None)
    }
    /// The last two axes exchanged (the transpose of each matrix).
    #[track_caller]
    pub fn mt(&self) -> Tensor {
        let rank = self.rank() as isize;
        if rank < 2 {
            return if self.error().is_some() { self.clone() } else { Tensor::fail("mt", ErrorKind::Shape { shape: self.meta().shape, expected: "at least two axes".into() }) };
        }
        let mut perm: Vec<isize> = (0..rank).collect();
        perm.swap(rank as usize - 1, rank as usize - 2);
        self.permute(perm)
    }
    /// Broadcast to a shape; -1 keeps a size.
    #[track_caller]
    pub fn expand(&self, sizes: impl ToSizes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let from = self.meta().shape;
        let sizes = sizes.to_sizes();
        let lead = sizes.len().saturating_sub(from.rank());
        let mut dims = Vec::new();
        for (k, &s) in sizes.iter().enumerate() {
            match s {
                -1 if k >= lead => dims.push(from[k - lead]),
                s if s < 0 => return Tensor::fail("expand", ErrorKind::Argument(format!("{s} is no size for a new axis"))),
                s => dims.push(s as usize),
            }
        }
        match Shape::new(&dims) {
            Ok(to) if to == from => self.clone(),
            Ok(to) => self.view(View::Expand(to), Arg::None),
            Err(kind) => Tensor::fail("expand", kind),
        }
    }
    /// `len` elements of an axis from `start` on.
    #[track_caller]
    pub fn narrow(&self, axis: impl Axis, start: usize, len: usize) -> Tensor {
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
            Err(kind) => return Tensor::fail("slice", kind),
        };
        if start > end || end > shape[axis] || step == 0 {
            return Tensor::fail("slice", ErrorKind::Index { index: end.max(start) as i64, bound: shape[axis] + 1, position: None });
        }
        let len = (end - start).div_ceil(step);
        if len == shape[axis] && step == 1 {
            return self.clone();
        }
        self.view(View::Slice { axis: axis as u8, len, step }, Arg::Start(start))
    }
    /// The axes reversed.
    #[track_caller]
    pub fn flip(&self, axes: impl Axes) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        match axes.to_axes(&self.meta().shape) {
            Ok(axes) if axes.0 == 0 => self.clone(),
            Ok(axes) => self.view(View::Flip(axes), Arg::None),
            Err(kind) => Tensor::fail("flip", kind),
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
            Ok(axis) => Tensor::apply_at(Op::Iota { axis: axis as u8, meta: Meta { dtype, ..m } }, Arg::None, &[], Origin::here()),
            Err(kind) => Tensor::fail("iota", kind),
        }
    }
}
#[allow(unused)]
fn _unused(_: &dyn Fn(&dyn std::any::Any) -> Error, s: &impl ToShape) {}
