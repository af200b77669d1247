//! Tensors with a part replaced, places as coordinates, and rows held to a norm.
use super::{
    Operand, ScatterReduce, Tensor,
    compose::{compose, compose1, refuse},
};
use crate::{
    AxisSet, DType, ErrorKind,
    composite::{
        distances::Distances,
        wide::{floats, same_dtype},
    },
    shape::Axis,
};

impl Tensor {
    /// The tensor with `source` (without that axis) at one place of an axis; negative places count from the end.
    #[track_caller]
    pub fn select_scatter(&self, source: &Tensor, axis: impl Axis, index: isize) -> Tensor {
        compose("select_scatter", &[self, source], || {
            let shape = self.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let size = shape[axis] as isize;
            let at = if index < 0 { index + size } else { index };
            if !(0..size).contains(&at) {
                return Err(ErrorKind::Index { index: index as i64, axis: Some(axis), bound: size as usize, position: None }.into());
            }
            Ok(self.update_slice(axis, at as usize, &source.unsqueeze(axis)))
        })
    }
    /// The tensor with `source` in the places `start`, `start + step`, ... below `end` of an axis.
    #[track_caller]
    pub fn slice_scatter(&self, source: &Tensor, axis: impl Axis, start: Option<isize>, end: Option<isize>, step: usize) -> Tensor {
        compose("slice_scatter", &[self, source], || {
            same_dtype(&self.meta(), &source.meta())?;
            let axis = self.meta().shape.axis(axis.to_axis())?;
            let places = Tensor::arange_on(0, self.meta().shape[axis], 1, DType::I64, self.meta().device).slice_signed(0, start, end, step);
            Ok(self.index_copy(axis, &places.ok()?, source))
        })
    }
    /// The tensor with `source` on a diagonal of the plane of two axes: of the shape that [`Tensor::diagonal`] gives.
    #[track_caller]
    pub fn diagonal_scatter(&self, source: &Tensor, offset: isize, a: impl Axis, b: impl Axis) -> Tensor {
        compose("diagonal_scatter", &[self, source], || {
            same_dtype(&self.meta(), &source.meta())?;
            let shape = self.meta().shape;
            let (a, b) = (shape.axis(a.to_axis())?, shape.axis(b.to_axis())?);
            let places = Tensor::arange_on(0, shape.elements(), 1, DType::I64, self.meta().device).reshape(shape).diagonal(offset, a, b).ok()?;
            if places.meta().shape != source.meta().shape {
                let (left, right) = (places.meta().shape, source.meta().shape);
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "the shape of the diagonal" }.into());
            }
            Ok(self.ravel().index_copy(0, &places.ravel(), &source.ravel()).reshape(shape))
        })
    }
    /// The tensor with `source` combined into the places that `index` (a vector) names along an axis; `include_self` says whether
    /// what was there takes part.
    #[track_caller]
    pub fn index_reduce(&self, axis: impl Axis, index: &Tensor, source: &Tensor, reduce: ScatterReduce, include_self: bool) -> Tensor {
        compose("index_reduce", &[self, index, source], || {
            let shape = source.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if *index.meta().shape != [shape[axis]] {
                let (left, right) = (shape, index.meta().shape);
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "one index for each place of the source along the axis" }.into());
            }
            let mut sizes = vec![1; shape.rank()];
            sizes[axis] = shape[axis];
            Ok(self.scatter_reduce(axis, &index.reshape(sizes).expand(shape), source, reduce, include_self))
        })
    }
    /// The coordinates (i64, one tensor for each axis) of places counted in row-major order in `shape`; places are not checked.
    ///
    /// # Errors
    /// The error this tensor carries; places that are no integers; a shape without elements.
    #[track_caller]
    pub fn unravel_index(&self, shape: &[usize]) -> crate::Result<Vec<Tensor>> {
        compose1("unravel_index", self, |x| {
            if x.meta().dtype.is_float() || x.meta().dtype == DType::Bool {
                return Err(ErrorKind::Dtype(format!("a place is an integer, not {}", x.meta().dtype)).into());
            }
            if shape.contains(&0) {
                return refuse(format!("there are no places in {shape:?}"));
            }
            let (mut step, place) = (shape.iter().product::<usize>(), x.cast(DType::I64));
            let along = shape.iter().map(|&size| {
                step /= size;
                place.floor_divide(step).remainder(size).ok()
            });
            Ok(along.collect())
        })
    }
    /// Each part along an axis scaled down to the norm `max_norm` of order `ord`, where its own is larger.
    #[track_caller]
    pub fn renorm(&self, ord: f64, axis: impl Axis, max_norm: f64) -> Tensor {
        compose1("renorm", self, |x| {
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if max_norm.is_nan() || max_norm < 0.0 || shape.rank() < 2 {
                return refuse(format!("parts of {shape:?} along axis {axis} held to {max_norm}"));
            }
            let others = (0..shape.rank()).filter(|&a| a != axis).fold(AxisSet(0), |set, a| AxisSet(set.0 | AxisSet::one(a).0));
            let norm = x.vector_norm_keepdim(ord, others);
            Ok(x * norm.gt(max_norm).where_((&norm + 1e-7).reciprocal() * max_norm, norm.ones_like()))
        })
    }
    /// The distances of order `ord` of all pairs of rows, `[n (n - 1) / 2]`: the upper triangle of [`Tensor::cdist`].
    #[track_caller]
    pub fn pdist(&self, ord: f64) -> Tensor {
        compose1("pdist", self, |x| {
            let shape = x.meta().shape;
            if shape.rank() != 2 {
                return Err(ErrorKind::Shape { shape, expected: "a matrix of rows".into() }.into());
            }
            if ord.is_nan() || ord < 0.0 {
                return refuse(format!("distances of order {ord}: the order is not negative"));
            }
            let dtype = floats(&x.meta())?.dtype;
            Ok(Tensor::composite1(Distances { ord, among: true }, &[&x.wide()]).cast(dtype))
        })
    }
    /// The power, computed and returned in f64.
    #[track_caller]
    pub fn float_power(&self, exponent: impl Operand) -> Tensor {
        compose1("float_power", self, |x| {
            Ok(match exponent.operand() {
                super::OperandRef::Tensor(t) => x.double().pow(t.double()),
                super::OperandRef::Scalar(s) => x.double().pow(s.to_f64()),
            })
        })
    }
}
