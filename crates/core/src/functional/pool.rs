//! Pooling over windows in one to three dimensions, over the Window primitive; adaptive pooling to any output size.
use super::Sizes;
use crate::{
    Arg, DType, Error, ErrorKind, Meta, Op, Origin, Shape, Tensor,
    composite::{loss::gather, taps::Taps},
    op::{ArgOp, ScatterMode, WindowOp, WindowSpec},
    record::context,
    scope::call,
    tensor::compose::compose,
};
use smallvec::SmallVec;

/// Options of a max pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPoolOptions {
    /// size of the window
    pub kernel_size: Sizes,
    /// its step; the kernel's size if it is not given
    pub stride: Option<Sizes>,
    /// -inf on both sides, at most half a window
    pub padding: Sizes,
    /// spacing inside the window
    pub dilation: Sizes,
    /// may the last window reach past the end?
    pub ceil_mode: bool,
}
impl MaxPoolOptions {
    /// Windows side by side.
    pub fn new(kernel_size: impl Into<Sizes>) -> MaxPoolOptions {
        MaxPoolOptions { kernel_size: kernel_size.into(), stride: None, padding: 0.into(), dilation: 1.into(), ceil_mode: false }
    }
}
/// Options of an average pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvgPoolOptions {
    /// size of the window
    pub kernel_size: Sizes,
    /// its step; the kernel's size if it is not given
    pub stride: Option<Sizes>,
    /// zeros on both sides, at most half a window
    pub padding: Sizes,
    /// may the last window reach past the end?
    pub ceil_mode: bool,
    /// do the zeros of the padding count?
    pub count_include_pad: bool,
    /// divide by this instead
    pub divisor_override: Option<usize>,
}
impl AvgPoolOptions {
    /// Windows side by side.
    pub fn new(kernel_size: impl Into<Sizes>) -> AvgPoolOptions {
        AvgPoolOptions { kernel_size: kernel_size.into(), stride: None, padding: 0.into(), ceil_mode: false, count_include_pad: true, divisor_override: None }
    }
}

macro_rules! dimensions {
    ($($n:literal $max:ident $avg:ident $lp:ident $shape:literal;)*) => { $(
        #[doc = concat!("The maximum of each window of x `[batch, channels, ", $shape, "]` (the batch may be missing), and its index in the flat plane, i64.")]
        #[track_caller]
        pub fn $max(x: &Tensor, options: &MaxPoolOptions) -> (Tensor, Tensor) {
            let _call = call(stringify!($max));
            let origin = Origin::here();
            if x.error().is_some() {
                return (x.clone(), x.clone());
            }
            max_pool(x, options, $n, origin).unwrap_or_else(|kind| {
                let failed = Tensor::failed(Error::at(stringify!($max), kind, origin).given([x.meta().ty()]));
                (failed.clone(), failed)
            })
        }
        #[doc = concat!("The mean of each window of x `[batch, channels, ", $shape, "]` (the batch may be missing).")]
        #[track_caller]
        pub fn $avg(x: &Tensor, options: &AvgPoolOptions) -> Tensor {
            let _call = call(stringify!($avg));
            let origin = Origin::here();
            if x.error().is_some() {
                return x.clone();
            }
            avg_pool(x, options, $n).unwrap_or_else(|kind| Tensor::failed(Error::at(stringify!($avg), kind, origin).given([x.meta().ty()])))
        }
        #[doc = concat!("The p-norm of each window of x `[batch, channels, ", $shape, "]` (the batch may be missing), of the signed sum of the p-th powers as in PyTorch.")]
        #[track_caller]
        pub fn $lp(x: &Tensor, p: f64, kernel_size: impl Into<Sizes>, stride: Option<Sizes>, ceil_mode: bool) -> Tensor {
            let options = AvgPoolOptions { stride, ceil_mode, ..AvgPoolOptions::new(kernel_size) };
            compose(stringify!($lp), &[x], || {
                let count: usize = options.kernel_size.each($n, "kernel_size")?.iter().product();
                let dtype = x.meta().dtype.to_float();
                let mean = $avg(&x.cast(dtype).widened().pow(p), &options);
                Ok((mean.sign() * mean.abs().relu() * count as f64).pow(1.0 / p).cast(dtype))
            })
        }
    )* };
}
dimensions! {
    1 max_pool1d avg_pool1d lp_pool1d "length";
    2 max_pool2d avg_pool2d lp_pool2d "height, width";
    3 max_pool3d avg_pool3d lp_pool3d "depth, height, width";
}

pub(super) fn check_rank(shape: &Shape, n: usize) -> Result<(), ErrorKind> {
    if shape.rank() == n + 1 || shape.rank() == n + 2 {
        Ok(())
    } else {
        Err(ErrorKind::Shape { shape: *shape, expected: format!("{} axes: batch, channels and {n} spatial ones (or without the batch)", n + 2) })
    }
}
/// Windows along one axis: how many, and the padding after. PyTorch's rule: in ceil mode the last window may reach
/// past the end, but must start inside the input or the padding before it.
fn windows(shape: &Shape, axis: usize, kernel: usize, stride: usize, pad: usize, dilation: usize, ceil: bool) -> Result<usize, ErrorKind> {
    if kernel == 0 || stride == 0 || dilation == 0 {
        return Err(ErrorKind::Argument("size, stride and dilation of a window are at least 1".into()));
    }
    let reach = dilation.saturating_mul(kernel - 1).saturating_add(1);
    if pad > reach / 2 {
        return Err(ErrorKind::Argument(format!("padding {pad} is more than half of the window's reach {reach}")));
    }
    let size = shape[axis];
    let short =
        || ErrorKind::Shape { shape: *shape, expected: format!("axis {axis} padded by {pad} on both sides must hold a window that reaches over {reach}") };
    if size == 0 {
        return Err(short());
    }
    let padded = size + 2 * pad;
    if !ceil {
        return padded.checked_sub(reach).map(|span| span / stride + 1).ok_or_else(short);
    }
    // A window may be larger than all that there is, as long as it is not so by a whole stride.
    let count = (padded + stride).checked_sub(reach).map(|span| span.div_ceil(stride)).filter(|&count| count > 0).ok_or_else(short)?;
    Ok(if (count - 1) * stride >= size + pad { count - 1 } else { count })
}
/// The padding after that makes exactly `count` windows.
fn pad_after(size: usize, count: usize, kernel: usize, stride: usize, pad: usize, dilation: usize) -> usize {
    ((count - 1) * stride + dilation * (kernel - 1) + 1).saturating_sub(size + pad)
}
type Sized3 = SmallVec<[usize; 3]>;
struct Windows {
    size: Sized3,
    stride: Sized3,
    pad: Sized3,
    dilation: Sized3,
    after: Sized3,
}
#[allow(clippy::too_many_arguments)]
fn plan(shape: &Shape, n: usize, kernel: &Sizes, stride: Option<&Sizes>, padding: &Sizes, dilation: &Sizes, ceil: bool) -> Result<Windows, ErrorKind> {
    check_rank(shape, n)?;
    let size = kernel.each(n, "kernel_size")?;
    let stride = stride.map_or_else(|| Ok(size.clone()), |s| s.each(n, "stride"))?;
    let (pad, dilation) = (padding.each(n, "padding")?, dilation.each(n, "dilation")?);
    let lead = shape.rank() - n;
    let counts: Sized3 = (0..n).map(|k| windows(shape, lead + k, size[k], stride[k], pad[k], dilation[k], ceil)).collect::<Result<_, _>>()?;
    let after = (0..n).map(|k| pad_after(shape[lead + k], counts[k], size[k], stride[k], pad[k], dilation[k])).collect();
    Ok(Windows { size, stride, pad, dilation, after })
}
fn window(op: WindowOp, w: &Windows, padding: SmallVec<[(usize, usize); 3]>) -> Op {
    crate::specs::window_op(WindowSpec { op, size: w.size.clone(), stride: w.stride.clone(), padding, dilation: w.dilation.clone(), open: SmallVec::new() })
}

fn max_pool(x: &Tensor, options: &MaxPoolOptions, n: usize, origin: Origin) -> Result<(Tensor, Tensor), ErrorKind> {
    let shape = x.meta().shape;
    let w = plan(&shape, n, &options.kernel_size, options.stride.as_ref(), &options.padding, &options.dilation, options.ceil_mode)?;
    let padding = w.pad.iter().zip(&w.after).map(|(&lo, &hi)| (lo, hi)).collect();
    let mut out = Tensor::apply_many(window(WindowOp::Max, &w, padding), Arg::None, &[x], origin).into_iter();
    match (out.next(), out.next()) {
        (Some(values), Some(indices)) => Ok((values, indices)),
        _ => Err(ErrorKind::Internal("a max pooling has two outputs".into())),
    }
}

#[track_caller]
fn avg_pool(x: &Tensor, options: &AvgPoolOptions, n: usize) -> Result<Tensor, ErrorKind> {
    let m = x.meta();
    let shape = m.shape;
    if !m.dtype.is_float() {
        return Err(ErrorKind::Dtype(format!("an average pooling needs floats, not {}", m.dtype)));
    }
    if options.divisor_override == Some(0) {
        return Err(ErrorKind::Argument("divisor_override may not be zero".into()));
    }
    let w = plan(&shape, n, &options.kernel_size, options.stride.as_ref(), &options.padding, &1.into(), options.ceil_mode)?;
    let padding = w.pad.iter().zip(&w.after).map(|(&lo, &hi)| (lo, hi)).collect();
    let x = x.widened();
    let sums = Tensor::apply(window(WindowOp::Sum, &w, padding), Arg::None, &[&x]);
    let all: usize = w.size.iter().product();
    let means = match options.divisor_override {
        Some(d) => sums / d as f64,
        None => {
            // A window counts fully if no part of it lies outside: outside the padding if that counts, else outside the input.
            let padded = |k: usize| if options.count_include_pad { w.after[k] > w.pad[k] } else { w.pad[k] + w.after[k] > 0 };
            if (0..n).any(padded) { sums / counts(&w, &shape, n, options.count_include_pad, &x.meta())? } else { sums / all as f64 }
        }
    };
    Ok(means.cast(m.dtype))
}
/// How many elements each window covers: the sums of the windows over ones.
#[track_caller]
fn counts(w: &Windows, shape: &Shape, n: usize, include: bool, like: &Meta) -> Result<Tensor, ErrorKind> {
    let lead = shape.rank() - n;
    let mut plane = Vec::new();
    let mut padding = SmallVec::new();
    for k in 0..n {
        let size = shape[lead + k];
        if include {
            plane.push(size + w.pad[k] + w.after[k].min(w.pad[k]));
            padding.push((0, w.after[k].saturating_sub(w.pad[k])));
        } else {
            plane.push(size);
            padding.push((w.pad[k], w.after[k]));
        }
    }
    let ones = Tensor::full_on(plane, 1, like.dtype, like.device);
    Ok(Tensor::apply(window(WindowOp::Sum, w, padding), Arg::None, &[&ones]))
}

/// The mean of each of `output_size` windows that cover an axis evenly, for as many trailing axes as there are
/// sizes; `None` keeps an axis. Window i of n over a size reaches from floor(i·size/n) to ceil((i+1)·size/n).
#[track_caller]
pub fn adaptive_avg_pool(x: &Tensor, output_size: &[Option<usize>]) -> Tensor {
    let _call = call("adaptive_avg_pool");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    if let Err(e) = context(|c| c.alive("adaptive_avg_pool")) {
        return Tensor::failed(e);
    }
    adaptive_avg(x, output_size).unwrap_or_else(|kind| Tensor::failed(Error::at("adaptive_avg_pool", kind, origin).given([x.meta().ty()])))
}
/// The maximum of each window as in [`adaptive_avg_pool`], and its index in the flat plane, i64.
#[track_caller]
pub fn adaptive_max_pool(x: &Tensor, output_size: &[Option<usize>]) -> (Tensor, Tensor) {
    let _call = call("adaptive_max_pool");
    let origin = Origin::here();
    if x.error().is_some() {
        return (x.clone(), x.clone());
    }
    if let Err(e) = context(|c| c.alive("adaptive_max_pool")) {
        return (Tensor::failed(e.clone()), Tensor::failed(e));
    }
    adaptive_max(x, output_size, origin).unwrap_or_else(|kind| {
        let failed = Tensor::failed(Error::at("adaptive_max_pool", kind, origin).given([x.meta().ty()]));
        (failed.clone(), failed)
    })
}
fn adaptive_sizes(x: &Meta, output: &[Option<usize>]) -> Result<Sized3, ErrorKind> {
    let n = output.len();
    check_rank(&x.shape, n)?;
    if !x.dtype.is_float() {
        return Err(ErrorKind::Dtype(format!("an adaptive pooling needs floats, not {}", x.dtype)));
    }
    let lead = x.shape.rank() - n;
    if (0..n).any(|k| x.shape[lead + k] == 0) {
        return Err(ErrorKind::Shape { shape: x.shape, expected: "spatial axes that are not empty".into() });
    }
    Ok((0..n).map(|k| output[k].unwrap_or(x.shape[lead + k])).collect())
}
/// The uniform windows that the adaptive ones are, if they are.
fn uniform(shape: &Shape, out: &[usize]) -> Option<Windows> {
    let lead = shape.rank() - out.len();
    if out.iter().enumerate().any(|(k, &o)| o == 0 || !shape[lead + k].is_multiple_of(o)) {
        return None;
    }
    let size: Sized3 = out.iter().enumerate().map(|(k, &o)| shape[lead + k] / o).collect();
    let zeros = SmallVec::from_elem(0, out.len());
    Some(Windows { stride: size.clone(), size, pad: zeros.clone(), dilation: SmallVec::from_elem(1, out.len()), after: zeros })
}
/// Where window i of `out` over an axis of a size begins, and where it ends.
fn bounds(size: usize, out: usize, i: usize) -> (usize, usize) {
    (i * size / out, ((i + 1) * size).div_ceil(out))
}
fn longest(size: usize, out: usize) -> usize {
    (0..out).map(|i| bounds(size, out, i)).map(|(start, end)| end - start).max().unwrap_or(1)
}
/// The means of the windows along one axis: sums of as many elements as the longest has. Of a shorter one the last element is taken
/// in parts, which together are all of it.
#[track_caller]
fn even_means(x: &Tensor, axis: usize, size: usize, out: usize) -> Tensor {
    let (m, longest) = (x.meta(), longest(size, out));
    let (mut index, mut weights) = (Vec::with_capacity(longest * out), Vec::with_capacity(longest * out));
    for k in 0..longest {
        for (start, end) in (0..out).map(|i| bounds(size, out, i)) {
            let last = end - 1 - start;
            index.push((start + k.min(last)) as i32);
            weights.push(if k < last { 1.0 } else { 1.0 / (longest - last) as f64 });
        }
    }
    let lengths: Vec<f64> = (0..out).map(|i| bounds(size, out, i)).map(|(start, end)| (end - start) as f64).collect();
    let of_axis = |v: Vec<f64>, shape: Shape| Tensor::from_vec(v, shape).cast(m.dtype).to(m.device);
    let table = Shape::along(0, longest, 2).with(1, out);
    let index = Tensor::from_vec(index, table).to(m.device);
    let sums = Tensor::composite1(Taps { axis }, &[x, &index, &of_axis(weights, table)]);
    sums / of_axis(lengths, Shape::along(0, out, m.shape.rank() - axis))
}
/// The windows along one axis spread out: `[.., out, longest, ..]`. Elements past a window's end repeat its last one.
struct SpreadWindows {
    /// where each begins
    start: Tensor,
    index: Tensor,
    longest: usize,
}
fn spread(size: usize, out: usize, like: &Meta) -> SpreadWindows {
    let longest = longest(size, out);
    let grid = Tensor::full_on([out, longest], 0, DType::I32, like.device);
    let row = grid.iota_like(0, DType::I32);
    let (size, out) = (size as i32, out as i32);
    let start = (&row * size).floor_divide(out);
    let end = ((row + 1) * size + (out - 1)).floor_divide(out);
    let at = &start + grid.iota_like(1, DType::I32);
    SpreadWindows { index: at.minimum(&(end - 1)), start: start.narrow(1, 0, 1), longest }
}
/// x with an axis replaced by `[out, longest]`.
#[track_caller]
fn spread_axis(x: &Tensor, axis: usize, s: &SpreadWindows, out: usize) -> Result<Tensor, ErrorKind> {
    let shape = x.meta().shape;
    let dims = Shape::along(axis, out * s.longest, shape.rank());
    let index = s.index.reshape(dims).expand(shape.with(axis, out * s.longest));
    Ok(gather(x, axis, &index).reshape(shape.with(axis, out).insert(axis + 1, s.longest)?))
}
#[track_caller]
fn adaptive_avg(x: &Tensor, output: &[Option<usize>]) -> Result<Tensor, ErrorKind> {
    let m = x.meta();
    let out = adaptive_sizes(&m, output)?;
    let mut y = x.widened();
    if out.iter().all(|&o| o == 1) && m.shape.elements() > 0 {
        let last = m.shape.rank() as isize;
        return Ok(y.mean_keepdim((last - out.len() as isize..last).collect::<Vec<_>>()).cast(m.dtype));
    }
    if let Some(w) = uniform(&m.shape, &out) {
        let count: usize = w.size.iter().product();
        return Ok((Tensor::apply(window(WindowOp::Sum, &w, SmallVec::from_elem((0, 0), out.len())), Arg::None, &[&y]) / count as f64).cast(m.dtype));
    }
    // The mean over a box of windows is the mean over one axis after the other.
    let lead = m.shape.rank() - out.len();
    for (k, &o) in out.iter().enumerate() {
        let axis = lead + k;
        let size = m.shape[axis];
        if o == size {
            continue;
        }
        if o == 0 {
            y = y.narrow(axis, 0, 0);
            continue;
        }
        y = even_means(&y, axis, size, o);
    }
    Ok(y.cast(m.dtype))
}

/// Windows that are as long along the last axis are lines whose extreme is sought, each by itself.
const LONG: usize = 8;
fn adaptive_max(x: &Tensor, output: &[Option<usize>], origin: Origin) -> Result<(Tensor, Tensor), ErrorKind> {
    let m = x.meta();
    let n = output.len();
    let out = adaptive_sizes(&m, output)?;
    if let Some(w) = uniform(&m.shape, &out).filter(|w| w.size.last().is_some_and(|&size| size < LONG)) {
        let mut both = Tensor::apply_many(window(WindowOp::Max, &w, SmallVec::from_elem((0, 0), n)), Arg::None, &[x], origin).into_iter();
        return match (both.next(), both.next()) {
            (Some(values), Some(indices)) => Ok((values, indices)),
            _ => Err(ErrorKind::Internal("a max pooling has two outputs".into())),
        };
    }
    // Where each window's maximum lies: the best of each line, then of each column of lines. The first of equals
    // stays, as in a walk over the window row by row.
    let lead = m.shape.rank() - n;
    let plane: usize = m.shape[lead..].iter().product();
    let mut best = x.detach();
    // The place in the plane of what is the best so far, but for the axes that are still to come.
    let mut at: Option<Tensor> = None;
    for k in (0..n).rev() {
        let axis = lead + k;
        let (shape, o) = (best.meta().shape, out[k]);
        let size = shape[axis];
        let step: usize = m.shape[axis + 1..].iter().product();
        let place = if o == size {
            best.iota_like(axis, DType::I64)
        } else if o == 0 {
            (best, at) = (best.narrow(axis, 0, 0), at.map(|at| at.narrow(axis, 0, 0)));
            continue;
        } else {
            let (values, start) = if size.is_multiple_of(o) {
                let each = size / o;
                let start = Tensor::full_on([o], 0, DType::I64, m.device).iota_like(0, DType::I64) * each as i64;
                (best.reshape(shape.with(axis, o).insert(axis + 1, each)?), start)
            } else {
                let s = spread(size, o, &m);
                (spread_axis(&best, axis, &s, o)?, s.start.cast(DType::I64))
            };
            let winner = Tensor::apply(Op::ArgReduce { op: ArgOp::Max, axis: axis as u8 + 1 }, Arg::None, &[&values]);
            let made = shape.with(axis, o);
            best = gather(&values, axis + 1, &winner).reshape(made);
            let place = winner.reshape(made) + start.reshape(Shape::along(0, o, shape.rank() - axis));
            at = at.map(|at| gather(&at, axis, &place));
            place
        };
        let here = if step == 1 { place } else { place * step as i64 };
        at = Some(match at {
            Some(at) => at + here,
            None => here,
        });
    }
    let at = at.unwrap_or_else(|| best.iota_like(lead, DType::I64));
    let shape = at.meta().shape;
    let mut lines = m.shape[..lead].to_vec();
    lines.push(plane);
    let mut picks = m.shape[..lead].to_vec();
    picks.push(shape[lead..].iter().product());
    let values = gather(&x.reshape(lines), lead, &at.reshape(picks)).reshape(shape);
    Ok((values, at))
}

/// The inverse of a max pooling as far as it can be: each value at its index in a plane of zeros of `output_size`, for
/// as many trailing axes as there are sizes.
#[track_caller]
pub fn max_unpool(x: &Tensor, indices: &Tensor, output_size: &[usize]) -> Tensor {
    compose("max_unpool", &[x, indices], || {
        let m = x.meta();
        check_rank(&m.shape, output_size.len())?;
        if m.shape != indices.meta().shape {
            return Err(
                ErrorKind::ShapeMismatch { left: m.shape, right: indices.meta().shape, axes: None, expected: "values and indices have one shape" }.into()
            );
        }
        let lead = m.shape.rank() - output_size.len();
        let lines: usize = m.shape[..lead].iter().product();
        let flat = |t: &Tensor| t.reshape([lines, m.shape[lead..].iter().product::<usize>()]);
        let plane = Tensor::full_on([lines, output_size.iter().product()], 0, m.dtype, m.device);
        let spread = Tensor::apply(Op::Scatter { axis: 1, mode: ScatterMode::Set }, Arg::None, &[&plane, &flat(indices), &flat(x)]);
        let mut dims = m.shape[..lead].to_vec();
        dims.extend_from_slice(output_size);
        Ok(spread.reshape(dims))
    })
}
