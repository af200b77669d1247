//! Indexing along one axis: gather and scatter, rows by number, embeddings. An index out of range is found when the
//! data is read: a typed error that names the index, the bound and its position.
use super::{
    Tensor,
    compose::{Built, compose, compose1, on_an_axis, refuse},
};
use crate::{Arg, DType, ErrorKind, Op, Scalar, SegmentReduce, Segments, Shape, op::ScatterMode, shape::Axis};

/// How [`Tensor::scatter_reduce`] combines what falls on one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterReduce {
    /// the sum
    Sum,
    /// the product
    Prod,
    /// the mean
    Mean,
    /// the maximum
    Amax,
    /// the minimum
    Amin,
}
/// How [`Tensor::embedding_bag`] combines the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BagMode {
    /// their sum
    Sum,
    /// their mean
    Mean,
    /// their maximum
    Max,
}

impl Tensor {
    /// `out[i][j][k] = self[index[i][j][k]][j][k]` for axis 0, and so on. The result has the index's shape.
    #[track_caller]
    pub fn gather(&self, axis: impl Axis, index: &Tensor) -> Tensor {
        compose("gather", &[self, index], || {
            let (x, scalar) = on_an_axis(self);
            let at = if scalar { index.atleast_1d() } else { index.clone() };
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let out = Tensor::apply(Op::Gather { axis: axis as u8 }, Arg::None, &[&x, &at]);
            Ok(if index.rank() == 0 { out.reshape(()) } else { out })
        })
    }
    /// `out[index[i][j][k]][j][k] = source[i][j][k]` for axis 0, and so on; of equal indices the last wins.
    #[track_caller]
    pub fn scatter(&self, axis: impl Axis, index: &Tensor, source: &Tensor) -> Tensor {
        self.scattered("scatter", ScatterMode::Set, axis, index, source)
    }
    /// As [`Tensor::scatter`] with one number everywhere.
    #[track_caller]
    pub fn scatter_value(&self, axis: impl Axis, index: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose("scatter_value", &[self, index], || {
            let source = Tensor::full_on(index.meta().shape, value, self.meta().dtype, self.meta().device);
            Ok(self.scatter(axis, index, &source))
        })
    }
    /// As [`Tensor::scatter`], adding.
    #[track_caller]
    pub fn scatter_add(&self, axis: impl Axis, index: &Tensor, source: &Tensor) -> Tensor {
        self.scattered("scatter_add", ScatterMode::Add, axis, index, source)
    }
    /// As [`Tensor::scatter`], combining; `include_self` says whether what was there before takes part.
    #[track_caller]
    pub fn scatter_reduce(&self, axis: impl Axis, index: &Tensor, source: &Tensor, reduce: ScatterReduce, include_self: bool) -> Tensor {
        compose("scatter_reduce", &[self, index, source], || {
            let meta = self.meta();
            let axis = on_an_axis(self).0.meta().shape.axis(axis.to_axis())?;
            let (mode, identity) = match reduce {
                ScatterReduce::Sum | ScatterReduce::Mean => (ScatterMode::Add, Scalar::Int(0)),
                ScatterReduce::Prod => (ScatterMode::Mul, Scalar::Int(1)),
                ScatterReduce::Amax => (ScatterMode::Max, extreme_of(meta.dtype, false)),
                ScatterReduce::Amin => (ScatterMode::Min, extreme_of(meta.dtype, true)),
            };
            let base = if include_self { self.clone() } else { self.scatter_value(axis, index, identity) };
            let combined = base.scattered("scatter_reduce", mode, axis, index, source);
            if reduce != ScatterReduce::Mean {
                return Ok(combined);
            }
            let ones = |s: &Tensor| Tensor::full_on(s.meta().shape, 1i64, meta.dtype, meta.device);
            let start = if include_self { ones(self) } else { self.detach().zeros_like() };
            let counts = start.scatter_add(axis, index, &ones(index)).maximum(1i64);
            Ok(if meta.dtype.is_float() { combined / counts } else { combined.floor_divide(counts) })
        })
    }
    /// The parts at the given indices (a vector of integers) of an axis.
    #[track_caller]
    pub fn index_select(&self, axis: impl Axis, index: &Tensor) -> Tensor {
        compose("index_select", &[self, index], || {
            let (x, scalar) = on_an_axis(self);
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let at = spread(index, &shape, axis)?;
            let out = x.gather(axis, &at);
            if scalar && index.meta().shape.elements() != 1 {
                return Err(ErrorKind::Shape { shape: index.meta().shape, expected: "one place in a tensor without axes".into() }.into());
            }
            Ok(if scalar { out.reshape(()) } else { out })
        })
    }
    /// `alpha * source` added to the parts at the given indices of an axis.
    #[track_caller]
    pub fn index_add(&self, axis: impl Axis, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Tensor {
        let alpha = alpha.into();
        compose("index_add", &[self, index, source], || {
            let source = if alpha.to_f64() == 1.0 { source.clone() } else { source * alpha };
            self.put_rows("index_add", ScatterMode::Add, axis, index, &source)
        })
    }
    /// The parts at the given indices of an axis replaced by `source`.
    #[track_caller]
    pub fn index_copy(&self, axis: impl Axis, index: &Tensor, source: &Tensor) -> Tensor {
        compose("index_copy", &[self, index, source], || self.put_rows("index_copy", ScatterMode::Set, axis, index, source))
    }
    /// The parts at the given indices of an axis filled with a number; a negative index counts from the end.
    #[track_caller]
    pub fn index_fill(&self, axis: impl Axis, index: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        compose("index_fill", &[self, index], || {
            let (x, scalar) = on_an_axis(self);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let at = wrap(index, x.meta().shape[axis])?;
            let out = x.scatter_value(axis, &spread(&at, &x.meta().shape, axis)?, value);
            Ok(if scalar { out.reshape(()) } else { out })
        })
    }
    /// The elements at row-major positions; a negative one counts from the end. The result has the index's shape.
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Tensor {
        compose("take", &[self, index], || {
            let flat = self.ravel();
            let at = wrap(index, flat.meta().shape[0])?;
            Ok(flat.gather(0, &at.ravel()).reshape(index.meta().shape))
        })
    }
    /// As [`Tensor::gather`], with index and tensor broadcast against each other on the other axes.
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor, axis: impl Axis) -> Tensor {
        compose("take_along_dim", &[self, index], || {
            let (a, b) = (self.meta().shape, index.meta().shape);
            let axis = a.axis(axis.to_axis())?;
            if a.rank() != b.rank() {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: None, expected: "index and tensor must have the same number of axes" }.into());
            }
            let common = crate::op::broadcast(&a.with(axis, 1), &b.with(axis, 1))?;
            Ok(self.expand(common.with(axis, a[axis])).gather(axis, &index.expand(common.with(axis, b[axis]))))
        })
    }
    /// Rows of a table combined by bags: bag b holds the ids from `offsets[b]` up to the next offset (ids `[n]`, result
    /// `[bags, width]`). Without offsets each row of ids `[bags, n]` is a bag. An empty bag is zero.
    #[track_caller]
    pub fn embedding_bag(&self, ids: &Tensor, offsets: Option<&Tensor>, mode: BagMode) -> Tensor {
        let mut inputs = vec![self, ids];
        inputs.extend(offsets);
        compose("embedding_bag", &inputs, || {
            let rows = crate::functional::embedding(ids, self, None);
            let Some(offsets) = offsets else {
                if ids.rank() != 2 {
                    return Err(ErrorKind::Shape { shape: ids.meta().shape, expected: "ids of two axes, or offsets beside a vector of ids".into() }.into());
                }
                if ids.meta().shape[1] == 0 {
                    return Ok(rows.sum(1));
                }
                return Ok(match mode {
                    BagMode::Sum => rows.sum(1),
                    BagMode::Mean => rows.mean(1),
                    BagMode::Max => rows.max_dim(1).0,
                });
            };
            if ids.rank() != 1 || offsets.rank() != 1 || !offsets.meta().dtype.is_int() {
                return Err(ErrorKind::ShapeMismatch {
                    left: ids.meta().shape,
                    right: offsets.meta().shape,
                    axes: None,
                    expected: "a vector of ids and a vector of integer offsets",
                }
                .into());
            }
            let (n, bags, meta) = (ids.meta().shape[0], offsets.meta().shape[0], rows.try_meta()?);
            if mode != BagMode::Max {
                let cuts = Tensor::cat(&[offsets.cast(DType::I64), Tensor::full_on([1], n, DType::I64, meta.device)], 0);
                let (reduce, of_nothing) = if mode == BagMode::Sum { (SegmentReduce::Sum, None) } else { (SegmentReduce::Mean, Some(0.0)) };
                return Ok(rows.segment_reduce(reduce, Segments::Offsets(&cuts), 0, of_nothing));
            }
            let place = Tensor::arange_on(0, n, 1, DType::I64, meta.device);
            let bag = offsets.cast(DType::I64).searchsorted(&place, true) - 1i64;
            let zeros = Tensor::zeros_on([bags, meta.shape[1]], meta.dtype, meta.device);
            let at = spread(&bag, &meta.shape, 0)?;
            Ok(zeros.scatter_reduce(0, &at, &rows, ScatterReduce::Amax, false))
        })
    }
    /// A one at each class number, zeros elsewhere, on a new last axis; i64. A number outside `0..classes` is an error.
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        compose1("one_hot", self, |x| {
            let meta = x.meta();
            if !meta.dtype.is_int() {
                return Err(ErrorKind::Dtype(format!("class numbers are integers, not {}", meta.dtype)).into());
            }
            if classes == 0 && meta.shape.elements() > 0 {
                return refuse("there must be at least one class");
            }
            // The gather is there for a number that is none: it has no other effect.
            let numbers = Tensor::arange_on(0, classes as i64, 1, DType::I64, meta.device);
            let own = numbers.index_select(0, &x.ravel()).reshape(meta.shape);
            Ok(own.unsqueeze(-1).eq(&numbers).cast(DType::I64))
        })
    }

    #[track_caller]
    fn scattered(&self, name: &'static str, mode: ScatterMode, axis: impl Axis, index: &Tensor, source: &Tensor) -> Tensor {
        compose(name, &[self, index, source], || {
            let (x, scalar) = on_an_axis(self);
            let (index, mut source) = if scalar { (index.atleast_1d(), source.atleast_1d()) } else { (index.clone(), source.clone()) };
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let (i, s) = (index.meta().shape, source.meta().shape);
            // A source may be larger than the index: only the part under it is read.
            if i.rank() == s.rank() && i != s && i.elements() > 0 {
                for k in 0..i.rank() {
                    if i[k] < s[k] {
                        source = source.narrow(k, 0, i[k]);
                    }
                }
            } else if i.elements() == 0 {
                return Ok(self.clone());
            }
            let out = Tensor::apply(Op::Scatter { axis: axis as u8, mode }, Arg::None, &[&x, &index, &source]);
            Ok(if scalar { out.reshape(()) } else { out })
        })
    }
    fn put_rows(&self, name: &'static str, mode: ScatterMode, axis: impl Axis, index: &Tensor, source: &Tensor) -> Built<Tensor> {
        let (x, scalar) = on_an_axis(self);
        let source = if scalar { source.atleast_1d() } else { source.clone() };
        let (shape, from) = (x.meta().shape, source.meta().shape);
        let axis = shape.axis(axis.to_axis())?;
        let at = spread(index, &shape, axis)?;
        if from != at.meta().shape {
            return Err(ErrorKind::ShapeMismatch {
                left: at.meta().shape,
                right: from,
                axes: None,
                expected: "the source must have the tensor's shape, with one part for each index",
            }
            .into());
        }
        let out = x.scattered(name, mode, axis, &at, &source);
        Ok(if scalar { out.reshape(()) } else { out })
    }
}

/// The lowest (highest) number of a dtype: what an extreme starts from.
pub(super) fn extreme_of(dtype: DType, highest: bool) -> Scalar {
    match dtype.int_range() {
        Some((low, high)) => Scalar::Int(if highest { high } else { low }.clamp(i64::MIN as i128, i64::MAX as i128) as i64),
        None if dtype == DType::Bool => Scalar::Bool(highest),
        None => Scalar::Float(if highest { f64::INFINITY } else { f64::NEG_INFINITY }),
    }
}
/// A vector of indices along an axis, read as one index for each element of the parts it selects.
pub(super) fn spread(index: &Tensor, shape: &Shape, axis: usize) -> Built<Tensor> {
    let meta = index.meta();
    if meta.shape.rank() > 1 {
        return Err(ErrorKind::Shape { shape: meta.shape, expected: "a vector of indices".into() }.into());
    }
    if !meta.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", meta.dtype)).into());
    }
    let n = meta.shape.elements();
    let mut dims = vec![1usize; shape.rank()];
    dims[axis] = n;
    Ok(index.reshape(dims).expand(shape.with(axis, n)))
}
/// Negative indices counted from the end; those out of range stay as they are, so that the error names them.
pub(super) fn wrap(index: &Tensor, size: usize) -> Built<Tensor> {
    let dtype = index.meta().dtype;
    if !dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {dtype}")).into());
    }
    if !dtype.is_signed() {
        return Ok(index.clone());
    }
    let index = index.cast(DType::I64);
    let size = size as i64;
    let from_end = index.lt(0i64).logical_and(index.lt(-size).logical_not());
    Ok(from_end.where_(&index + size, &index))
}
