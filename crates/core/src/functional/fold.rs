//! Windows as columns (`unfold`, im2col) and back (`fold`, col2im), and the shuffles between channels and space. Each
//! is one gather, one scatter or a view.
use super::Sizes;
use crate::{
    Arg, DType, Error, ErrorKind, Meta, Op, Origin, Shape, Tensor,
    op::{PadSpec, ScatterMode, window_size},
    scope::call,
};
use crate::{Scalar, composite::loss::gather};
use smallvec::SmallVec;

/// Windows of two spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldOptions {
    /// size of the window
    pub kernel_size: Sizes,
    /// its step
    pub stride: Sizes,
    /// zeros on both sides
    pub padding: Sizes,
    /// spacing inside the window
    pub dilation: Sizes,
}
impl UnfoldOptions {
    /// Windows at every position.
    pub fn new(kernel_size: impl Into<Sizes>) -> UnfoldOptions {
        UnfoldOptions { kernel_size: kernel_size.into(), stride: 1.into(), padding: 0.into(), dilation: 1.into() }
    }
}
/// The windows over a plane and where they read it.
struct WindowPlan {
    kernel: [usize; 2],
    counts: [usize; 2],
    pad: [usize; 2],
    padded: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
}
impl WindowPlan {
    fn new(o: &UnfoldOptions, plane: [usize; 2]) -> Result<WindowPlan, ErrorKind> {
        let two = |s: &Sizes, what| -> Result<[usize; 2], ErrorKind> { s.each(2, what).map(|s| [s[0], s[1]]) };
        let (kernel, stride) = (two(&o.kernel_size, "kernel_size")?, two(&o.stride, "stride")?);
        let (pad, dilation) = (two(&o.padding, "padding")?, two(&o.dilation, "dilation")?);
        if [kernel, stride, dilation].iter().flatten().any(|&v| v == 0) {
            return Err(ErrorKind::Argument("size, stride and dilation of a window are at least 1".into()));
        }
        let mut counts = [0; 2];
        for k in 0..2 {
            counts[k] = window_size(plane[k], kernel[k], stride[k], (pad[k], pad[k]), dilation[k])
                .ok_or_else(|| ErrorKind::Argument(format!("a window of {kernel:?} spaced by {dilation:?} does not fit into {plane:?} padded by {pad:?}")))?;
        }
        let padded = [plane[0] + 2 * pad[0], plane[1] + 2 * pad[1]];
        Ok(WindowPlan { kernel, counts, pad, padded, stride, dilation })
    }
    fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
    fn positions(&self) -> usize {
        self.counts[0] * self.counts[1]
    }
    /// Flat positions in the padded plane, `[kernel h, kernel w, rows, columns]` in one axis.
    fn index(&self, like: &Meta) -> Tensor {
        let space = Tensor::full_on([self.kernel[0], self.kernel[1], self.counts[0], self.counts[1]], 0, DType::I32, like.device);
        let at = |axis: usize, by: usize| space.iota_like(axis, DType::I32) * by as i32;
        let row = at(0, self.dilation[0]) + at(2, self.stride[0]);
        let column = at(1, self.dilation[1]) + at(3, self.stride[1]);
        (row * self.padded[1] as i32 + column).reshape([self.window() * self.positions()])
    }
}
/// x `[batch, channels, height, width]` (the batch may be missing) to `[batch, channels · window, positions]`.
#[track_caller]
pub fn unfold(x: &Tensor, options: &UnfoldOptions) -> Tensor {
    let _call = call("unfold");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let m = x.meta();
    let run = || -> Result<Tensor, ErrorKind> {
        let r = m.shape.rank();
        if r != 3 && r != 4 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "[batch, channels, height, width], or without the batch".into() });
        }
        let p = WindowPlan::new(options, [m.shape[r - 2], m.shape[r - 1]])?;
        let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), r);
        for k in 0..2 {
            widths[r - 2 + k] = (p.pad[k] as isize, p.pad[k] as isize);
        }
        let padded = Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Int(0).fit(m.dtype)?), &[x]);
        let lines: usize = m.shape[..r - 2].iter().product();
        let n = p.window() * p.positions();
        let columns = gather(&padded.reshape([lines, p.padded[0] * p.padded[1]]), 1, &p.index(&m).reshape([1, n]).expand([lines, n]));
        let mut dims = m.shape[..r - 2].to_vec();
        dims[r - 3] *= p.window();
        dims.push(p.positions());
        Ok(columns.reshape(dims))
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("unfold", kind, origin).given([x.meta().ty()])))
}
/// x `[batch, channels · window, positions]` (the batch may be missing) to `[batch, channels, ..output_size]`: every
/// column added back where its window lay.
#[track_caller]
pub fn fold(x: &Tensor, output_size: [usize; 2], options: &UnfoldOptions) -> Tensor {
    let _call = call("fold");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let m = x.meta();
    let run = || -> Result<Tensor, ErrorKind> {
        let r = m.shape.rank();
        if r != 2 && r != 3 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "[batch, channels · window, positions], or without the batch".into() });
        }
        let p = WindowPlan::new(options, output_size)?;
        if !m.shape[r - 2].is_multiple_of(p.window()) || m.shape[r - 1] != p.positions() {
            return Err(ErrorKind::Shape {
                shape: m.shape,
                expected: format!("axis {} divisible by the window's {} elements, and {} positions on axis {}", r - 2, p.window(), p.positions(), r - 1),
            });
        }
        let channels = m.shape[r - 2] / p.window();
        let lines = channels * m.shape[..r - 2].iter().product::<usize>();
        let n = p.window() * p.positions();
        let columns = x.widened().reshape([lines, n]);
        let plane = Tensor::full_on([lines, p.padded[0] * p.padded[1]], 0, columns.meta().dtype, m.device);
        let sum =
            Tensor::apply(Op::Scatter { axis: 1, mode: ScatterMode::Add }, Arg::None, &[&plane, &p.index(&m).reshape([1, n]).expand([lines, n]), &columns]);
        let mut dims = m.shape[..r - 2].to_vec();
        dims.extend([channels, p.padded[0], p.padded[1]]);
        let whole = sum.reshape(dims);
        Ok(whole.narrow(r - 1, p.pad[0], output_size[0]).narrow(r, p.pad[1], output_size[1]).cast(m.dtype))
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("fold", kind, origin).given([x.meta().ty()])))
}

/// A view through more axes: reshape, permute, reshape.
#[track_caller]
fn rearrange(x: &Tensor, apart: &[usize], order: &[isize], joined: &[usize]) -> Result<Tensor, ErrorKind> {
    Ok(x.reshape(Shape::new(apart)?).permute(order).reshape(Shape::new(joined)?))
}
/// x `[.., channels · r², height, width]` to `[.., channels, height · r, width · r]` (Shi et al., 2016).
#[track_caller]
pub fn pixel_shuffle(x: &Tensor, upscale_factor: usize) -> Tensor {
    let _call = call("pixel_shuffle");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let (s, r) = (x.meta().shape, upscale_factor);
    let run = || -> Result<Tensor, ErrorKind> {
        if s.rank() < 3 || r == 0 || !s[s.rank() - 3].is_multiple_of(r * r) {
            return Err(ErrorKind::Shape { shape: s, expected: format!("[.., channels, height, width] with channels divisible by the square of {r}") });
        }
        let (lead, [c, h, w]) = (s[..s.rank() - 3].iter().product(), [s[s.rank() - 3] / (r * r), s[s.rank() - 2], s[s.rank() - 1]]);
        let mut dims = s[..s.rank() - 3].to_vec();
        dims.extend([c, h * r, w * r]);
        rearrange(x, &[lead, c, r, r, h, w], &[0, 1, 4, 2, 5, 3], &dims)
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("pixel_shuffle", kind, origin).given([x.meta().ty()])))
}
/// The inverse of [`pixel_shuffle`].
#[track_caller]
pub fn pixel_unshuffle(x: &Tensor, downscale_factor: usize) -> Tensor {
    let _call = call("pixel_unshuffle");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let (s, r) = (x.meta().shape, downscale_factor);
    let run = || -> Result<Tensor, ErrorKind> {
        let n = s.rank();
        if n < 3 || r == 0 || !s[n - 2].is_multiple_of(r) || !s[n - 1].is_multiple_of(r) {
            return Err(ErrorKind::Shape { shape: s, expected: format!("[.., channels, height, width] with height and width divisible by {r}") });
        }
        let (lead, [c, h, w]) = (s[..n - 3].iter().product(), [s[n - 3], s[n - 2] / r, s[n - 1] / r]);
        let mut dims = s[..n - 3].to_vec();
        dims.extend([c * r * r, h, w]);
        rearrange(x, &[lead, c, h, r, w, r], &[0, 1, 3, 5, 2, 4], &dims)
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("pixel_unshuffle", kind, origin).given([x.meta().ty()])))
}
/// Channel g · n + k of x `[batch, channels, ..]` becomes channel k · groups + g, n channels per group (Zhang et al.,
/// "ShuffleNet", 2018).
#[track_caller]
pub fn channel_shuffle(x: &Tensor, groups: usize) -> Tensor {
    let _call = call("channel_shuffle");
    let origin = Origin::here();
    if x.error().is_some() {
        return x.clone();
    }
    let s = x.meta().shape;
    let run = || -> Result<Tensor, ErrorKind> {
        if s.rank() < 3 || groups == 0 || !s[1].is_multiple_of(groups) {
            return Err(ErrorKind::Shape { shape: s, expected: format!("[batch, channels, ..] with channels divisible into {groups} groups") });
        }
        rearrange(x, &[s[0], groups, s[1] / groups, s[2..].iter().product()], &[0, 2, 1, 3], &s)
    };
    run().unwrap_or_else(|kind| Tensor::failed(Error::at("channel_shuffle", kind, origin).given([x.meta().ty()])))
}
