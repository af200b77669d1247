//! Combining runs of neighbours along an axis, and the function of tensors that is made of it.
use super::{Backward, Batching, Body, Forward, Stacks, gather::gather, one, scan::scan, scatter::scatter};
use crate::{
    Arg, AxisSet, DType, ErrorKind, Op, Result, Scalar, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::{ScanOp, ScatterMode, SegmentOp},
    shape::Axis,
    tensor::compose::{Built, compose},
};

type Fields<'a> = (&'a SegmentOp, &'a u8);

fn reduced(op: SegmentOp, axis: u8, x: &Tensor, offsets: &Tensor) -> Tensor {
    Tensor::apply(Op::SegmentReduce { op, axis }, Arg::None, &[x, offsets])
}
/// The shape with other axes behind one.
fn with_rest(lead: &[usize], rest: &[usize]) -> Result<Shape> {
    Shape::new(&[lead, rest].concat()).map_err(|k| crate::Error::new("segment_reduce", k))
}
/// What has a place for each segment, spread over the elements of the segments: of the data's shape.
fn spread(axis: u8, y: &Tensor, offsets: &Tensor, data: &Shape) -> Result<Tensor> {
    let a = axis as usize;
    let (n, segments) = (data[a], y.meta().shape[a]);
    if data.elements() == 0 {
        return Ok(Tensor::full_on(*data, 0, y.meta().dtype, y.meta().device));
    }
    // The number of each element's segment: the last that begins at it or before.
    let of_each = |n: usize| Ok::<_, crate::Error>(Tensor::full_on(with_rest(&data[..a], &[n])?, 0, DType::I32, y.meta().device));
    let mut number = of_each(n)?;
    if segments > 1 {
        let begins = offsets.narrow(a, 1, segments - 1);
        let numbers = of_each(segments - 1)?.iota_like(a, DType::I32) + 1i32;
        let marked = scatter(axis, ScatterMode::Max, &of_each(n + 1)?, &begins, &numbers);
        number = scan(ScanOp::Max, axis, false, &[&marked]).narrow(a, 0, n);
    }
    let ones = vec![1; data.rank() - a - 1];
    let index = number.reshape(with_rest(&data[..=a], &ones)?).expand(*data);
    Ok(gather(axis, y, &index))
}
/// Which elements are the extreme of their segment, in a dtype; NaN where NaN won.
fn hits(axis: u8, x: &Tensor, offsets: &Tensor, y: &Tensor, dtype: DType) -> Result<Tensor> {
    let y = spread(axis, y, offsets, &x.meta().shape)?;
    Ok(x.eq(&y).logical_or(&x.isnan().logical_and(&y.isnan())).cast(dtype))
}
/// How many there are in each segment, one at least, so that nothing is divided by zero.
fn counted(axis: u8, hit: &Tensor, offsets: &Tensor) -> Tensor {
    reduced(SegmentOp::Sum, axis, hit, offsets).maximum(1.0)
}

pub(super) fn reads((op, _): Fields<'_>) -> Option<Saves> {
    Some(match op {
        SegmentOp::Sum => Saves { inputs: 0b10, outputs: 0 },
        SegmentOp::Max | SegmentOp::Min => Saves { inputs: 0b11, outputs: 1 },
    })
}
pub(super) fn gradient((op, axis): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, args, axis) = (back.cotangent, back.args, *axis);
    let offsets = args.input(1)?;
    let mut all = match op {
        SegmentOp::Sum => one(spread(axis, g, offsets, &back.shape(0))?)?,
        // Equal extremes share, as torch.segment_reduce has it.
        SegmentOp::Max | SegmentOp::Min => {
            let hit = hits(axis, args.input(0)?, offsets, args.output(0)?, g.meta().dtype)?;
            let share = g / counted(axis, &hit, offsets);
            one(hit * spread(axis, &share, offsets, &back.shape(0))?)?
        }
    };
    all.push(None);
    Ok(all)
}
pub(super) fn tangent((op, axis): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let (Some(t), offsets, axis) = (forward.tangent(0), forward.primal(1), *axis) else { return Ok(None) };
    Ok(Some(match op {
        SegmentOp::Sum => reduced(SegmentOp::Sum, axis, t, offsets),
        SegmentOp::Max | SegmentOp::Min => {
            let hit = hits(axis, forward.primal(0), offsets, &forward.outputs[0], t.meta().dtype)?;
            reduced(SegmentOp::Sum, axis, &(&hit * t), offsets) / counted(axis, &hit, offsets)
        }
    }))
}
pub(super) fn batched((op, axis): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_stacks(Op::SegmentReduce { op: *op, axis: axis + 1 })
}
/// Each segment as a reduction of all elements of which others count for nothing: as many times the work as there are segments.
pub(super) fn body((op, axis): Fields<'_>) -> Option<Body> {
    let (op, axis) = (*op, *axis);
    Some(Box::new(move |x| Ok(vec![by_masks(op, axis, &x[0], &x[1])?])))
}
fn by_masks(op: SegmentOp, axis: u8, x: &Tensor, offsets: &Tensor) -> Result<Tensor> {
    let (a, m) = (axis as usize, x.meta());
    let (n, segments) = (m.shape[a], offsets.meta().shape[a] - 1);
    let to = if op == SegmentOp::Sum { m.dtype.sum_dtype() } else { m.dtype };
    let made = m.shape.with(a, segments);
    let cuts = offsets.cast(DType::I32);
    let (low, high) = (cuts.narrow(a, 0, segments), cuts.narrow(a, 1, segments));
    let (number, n_i32) = (low.iota_like(a, DType::I32), n as i32);
    let begins = low.ge(0i32).logical_and(low.le(n_i32)).logical_and(number.gt(0i32).logical_or(low.eq(0i32)));
    let ends = high.ge(&low).logical_and(high.le(n_i32)).logical_and(number.lt(segments as i32 - 1).logical_or(high.eq(n_i32)));
    // A wrong offset becomes an index that is out of range, -1; the others find a zero.
    let zeros = Tensor::full_on(with_rest(&m.shape[..a], &[1])?, 0, DType::I32, m.device);
    let zero = gather(axis, &zeros, &(begins.logical_and(&ends).cast(DType::I32) - 1i32));
    // [lead.., segments, n, rest..]
    let ones = vec![1; m.shape.rank() - a - 1];
    let column = |t: &Tensor, ones: &[usize]| -> Result<Tensor> { Ok(t.reshape(with_rest(&made[..=a], ones)?)) };
    let nothing = Tensor::full_on(made, op.of_nothing(to), to, m.device);
    if n == 0 {
        return Ok(column(&zero, &ones)?.eq(0i32).where_(&nothing, &nothing));
    }
    let ones = [&[1][..], &ones].concat();
    let wide = m.shape.insert(a, 1).map_err(|k| crate::Error::new(op.name(), k))?;
    let place = x.iota_like(a, DType::I32).reshape(wide);
    let inside = place.ge(column(&(&low + &zero), &ones)?).logical_and(place.lt(column(&high, &ones)?));
    let masked = inside.where_(x.cast(to).reshape(wide), op.of_nothing(to));
    Ok(masked.reduce(op.of_two(), AxisSet::one(a + 1), false))
}

/// What [`Tensor::segment_reduce`] makes of each segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentReduce {
    /// the sum; 0 of nothing
    Sum,
    /// the mean; NaN of nothing
    Mean,
    /// the maximum; the lowest number of the dtype, minus infinity of floats, of nothing
    Max,
    /// the minimum; the highest number of the dtype, infinity of floats, of nothing
    Min,
}
/// Where [`Tensor::segment_reduce`] cuts an axis of `n` elements. The tensors have the axes of the data up to that one, or that
/// one alone where all lines are cut alike.
#[derive(Clone, Copy, Debug)]
pub enum Segments<'a> {
    /// how many elements each segment has: `[.., segments]`, with the sum `n`
    Lengths(&'a Tensor),
    /// where each segment begins, and `n` behind the last: `[.., segments + 1]`, from 0 on and nowhere less than before
    Offsets(&'a Tensor),
    /// the segment of each element: `[.., n]`, below the number of segments and nowhere less than before
    Ids(&'a Tensor, usize),
}
impl Tensor {
    /// Combines runs of neighbours along an axis: `[.., n, ..]` becomes `[.., segments, ..]`. `initial` takes part in each segment,
    /// and is what a segment of nothing gives (the mean counts it as no element); without it, what [`SegmentReduce`] says. Sums of bool
    /// and integers are i64; a mean wants floats. Equal extremes share the gradient.
    ///
    /// ```
    /// # use adamant_core::{Device, SegmentReduce, Segments, Tensor};
    /// # Device::reference().make_current();
    /// let tokens = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0], [5]);
    /// let lengths = Tensor::from_vec(vec![2i64, 0, 3], [3]);
    /// let sums = tokens.segment_reduce(SegmentReduce::Sum, Segments::Lengths(&lengths), 0, None);
    /// assert_eq!(sums.to_vec::<f32>()?, [3.0, 0.0, 12.0]);
    /// let of = Tensor::from_vec(vec![0i64, 0, 2, 2, 2], [5]);
    /// let largest = tokens.segment_reduce(SegmentReduce::Max, Segments::Ids(&of, 3), 0, Some(0.0));
    /// assert_eq!(largest.to_vec::<f32>()?, [2.0, 0.0, 5.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: shapes that do not go together. When it is read, an `Index` error that names the first one that is wrong and
    /// its position: an offset (of lengths, their running sum) that is outside of 0 to `n`, less than the one before, or does not
    /// begin with 0 or end with `n`; an id that is out of range, or -1 for one that is less than the one before.
    ///
    /// Source: `torch.segment_reduce`; `jax.ops.segment_sum` with sorted ids.
    #[track_caller]
    pub fn segment_reduce(&self, reduce: SegmentReduce, segments: Segments<'_>, axis: impl Axis, initial: Option<f64>) -> Tensor {
        let (Segments::Lengths(cuts) | Segments::Offsets(cuts) | Segments::Ids(cuts, _)) = segments;
        compose("segment_reduce", &[self, cuts], || {
            let m = self.meta();
            let a = m.shape.axis(axis.to_axis())?;
            if reduce == SegmentReduce::Mean && !m.dtype.is_float() {
                return Err(ErrorKind::Dtype(format!("a mean wants floats, not {}; cast first", m.dtype)).into());
            }
            let offsets = of_lines(offsets(segments, a, m.shape[a])?, &m.shape, a)?;
            let op = match reduce {
                SegmentReduce::Sum | SegmentReduce::Mean => SegmentOp::Sum,
                SegmentReduce::Max => SegmentOp::Max,
                SegmentReduce::Min => SegmentOp::Min,
            };
            // A mean of 16-bit floats is rounded once.
            let x = if reduce == SegmentReduce::Mean && m.dtype.size() == 2 { &self.cast(DType::F32) } else { self };
            let y = reduced(op, a as u8, x, &offsets);
            if y.error().is_some() {
                return Ok(y);
            }
            let number = initial.map(|initial| of_result(initial, y.meta().dtype)).transpose()?;
            Ok(match (reduce, number) {
                (SegmentReduce::Sum, None) | (SegmentReduce::Max, None) | (SegmentReduce::Min, None) => y,
                (SegmentReduce::Sum, Some(initial)) => y + initial,
                (SegmentReduce::Max, Some(initial)) => y.maximum(initial),
                (SegmentReduce::Min, Some(initial)) => y.minimum(initial),
                (SegmentReduce::Mean, _) => {
                    let count = offsets.narrow(a, 1, y.meta().shape[a]) - offsets.narrow(a, 0, y.meta().shape[a]);
                    let ones = vec![1; m.shape.rank() - a - 1];
                    let count = count.reshape(with_rest(&y.meta().shape[..=a], &ones)?).cast(y.meta().dtype);
                    let mean = initial.map_or(&y / &count, |initial| (&y + initial) / count.maximum(1.0));
                    mean.cast(m.dtype)
                }
            })
        })
    }
}
/// The initial number as one of the result's dtype.
fn of_result(initial: f64, dtype: DType) -> Built<Scalar> {
    match dtype.is_float() {
        true => Ok(Scalar::Float(initial)),
        false if initial as i64 as f64 == initial => Ok(Scalar::Int(initial as i64)),
        false => Err(ErrorKind::Argument(format!("segments of {dtype} begin with a whole number, not {initial}")).into()),
    }
}
/// The offsets of segments along an axis of `n` elements.
fn offsets(segments: Segments<'_>, axis: usize, n: usize) -> Built<Tensor> {
    let given = match segments {
        Segments::Lengths(t) | Segments::Offsets(t) | Segments::Ids(t, _) => t.meta(),
    };
    if !given.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("segments are given by an integer tensor, not {}", given.dtype)).into());
    }
    let Some(own) = given.shape.rank().checked_sub(1).filter(|&own| own == 0 || own == axis) else {
        return Err(ErrorKind::Shape { shape: given.shape, expected: format!("a vector, or the axes of the data up to axis {axis}") }.into());
    };
    // Zero, and the running sum.
    let summed = |lengths: &Tensor| -> Built<Tensor> {
        let sums = lengths.cast(DType::I64).cumsum(own);
        Ok(Tensor::cat(&[Tensor::zeros_on(given.shape.with(own, 1), DType::I64, given.device), sums], own))
    };
    match segments {
        Segments::Offsets(offsets) => Ok(offsets.detach()),
        Segments::Lengths(lengths) => summed(&lengths.detach()),
        Segments::Ids(ids, count) => {
            if given.shape[own] != n {
                return Err(ErrorKind::Shape { shape: given.shape, expected: format!("an id for each of {n} elements") }.into());
            }
            let mut ids = ids.detach().cast(DType::I64);
            if n > 1 {
                // One that is less than the one before points nowhere.
                let falls = ids.narrow(own, 1, n - 1).lt(ids.narrow(own, 0, n - 1));
                let first = Tensor::zeros_on(given.shape.with(own, 1), DType::Bool, given.device);
                ids = Tensor::cat(&[first, falls], own).where_(-1i64, &ids);
            }
            let none = Tensor::zeros_on(given.shape.with(own, count), DType::I64, given.device);
            summed(&scatter(own as u8, ScatterMode::Add, &none, &ids, &ids.ones_like()))
        }
    }
}
/// The offsets for each line: those that are given once stand for all.
fn of_lines(offsets: Tensor, data: &Shape, axis: usize) -> Built<Tensor> {
    let shape = offsets.meta().shape;
    if axis == 0 || shape.rank() > 1 {
        return Ok(offsets);
    }
    Ok(offsets.expand(with_rest(&data[..axis], &shape)?))
}
