//! Fourier transforms. Complex values are a last axis of 2, (real, imaginary).
use super::{
    Tensor,
    compose::{Built, compose, compose1, refuse},
};
use crate::{
    DType, ErrorKind, Shape,
    composite::fourier::{Fourier, FourierKind},
    promotion::alike,
    shape::Axis,
};

/// What a transform is divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FftNorm {
    /// the inverse by n
    #[default]
    Backward,
    /// both by the root of n
    Ortho,
    /// the forward one by n
    Forward,
}
impl FftNorm {
    fn factor(self, n: usize, inverse: bool) -> f64 {
        match self {
            FftNorm::Ortho => (n as f64).sqrt().recip(),
            FftNorm::Backward if inverse => (n as f64).recip(),
            FftNorm::Forward if !inverse => (n as f64).recip(),
            _ => 1.0,
        }
    }
}
/// A transform along the last axis of what it takes.
fn transform(x: &Tensor, kind: FourierKind, n: usize, norm: FftNorm, inverse: bool) -> Tensor {
    Tensor::composite1(Fourier { kind, n, inverse, scale: norm.factor(n, inverse) }, &[x])
}
/// Cut or filled with zeros to a length.
fn resized(x: &Tensor, axis: usize, n: usize) -> Built<Tensor> {
    let size = x.try_meta()?.shape[axis];
    if n == 0 {
        return Err(ErrorKind::Argument("a transform has at least one point".into()).into());
    }
    if n <= size {
        return Ok(x.narrow(axis, 0, n));
    }
    let mut widths = vec![0isize; 2 * (x.rank() - axis)];
    if let Some(last) = widths.last_mut() {
        *last = (n - size) as isize;
    }
    Ok(x.pad_constant(widths, 0))
}
fn floats(x: &Tensor) -> Built<Tensor> {
    let dtype = x.meta().dtype;
    match dtype {
        DType::F32 | DType::F64 => Ok(x.clone()),
        d if d.is_float() => Err(ErrorKind::Dtype(format!("transforms are made of f32 and f64, not of {d}")).into()),
        _ => Ok(x.cast(DType::F32)),
    }
}
pub(super) fn pairs(x: &Tensor) -> Built<Tensor> {
    let shape = x.meta().shape;
    if shape.rank() < 2 || shape[shape.rank() - 1] != 2 {
        return Err(ErrorKind::Shape { shape, expected: "complex numbers: a last axis of 2, and one to transform".into() }.into());
    }
    floats(x)
}

impl Tensor {
    /// The transform of complex numbers `[.., 2]` along an axis (counted without the last), cut or filled to `n` points.
    #[track_caller]
    pub fn fft(&self, n: Option<usize>, axis: impl Axis, norm: FftNorm) -> Tensor {
        self.complex_transform("fft", n, axis, norm, false)
    }
    /// The inverse of [`Tensor::fft`].
    #[track_caller]
    pub fn ifft(&self, n: Option<usize>, axis: impl Axis, norm: FftNorm) -> Tensor {
        self.complex_transform("ifft", n, axis, norm, true)
    }
    #[track_caller]
    fn complex_transform(&self, name: &'static str, n: Option<usize>, axis: impl Axis, norm: FftNorm, inverse: bool) -> Tensor {
        compose1(name, self, |x| {
            let x = pairs(x)?;
            let lead = x.meta().shape.without(x.rank() - 1);
            let axis = lead.axis(axis.to_axis())?;
            let x = resized(&x, axis, n.unwrap_or(lead[axis]))?;
            let n = x.meta().shape[axis];
            Ok(transform(&x.movedim(axis, -2), FourierKind::Complex, n, norm, inverse).movedim(-2isize, axis))
        })
    }
    /// Real numbers to the first half of their transform: `[.., n]` gives `[.., n / 2 + 1, 2]` (n along `axis`).
    #[track_caller]
    pub fn rfft(&self, n: Option<usize>, axis: impl Axis, norm: FftNorm) -> Tensor {
        compose1("rfft", self, |x| {
            let x = floats(x)?;
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let n = n.unwrap_or(x.meta().shape[axis]);
            let x = resized(&x, axis, n)?.movedim(axis, -1);
            Ok(transform(&x, FourierKind::RealToHalf, n, norm, false).movedim(-2isize, axis))
        })
    }
    /// The first half of a transform back to `n` real numbers (default: 2 (m - 1) for m of them along `axis`, which counts
    /// without the last axis).
    #[track_caller]
    pub fn irfft(&self, n: Option<usize>, axis: impl Axis, norm: FftNorm) -> Tensor {
        compose1("irfft", self, |x| {
            let x = pairs(x)?;
            let lead = x.meta().shape.without(x.rank() - 1);
            let axis = lead.axis(axis.to_axis())?;
            let n = n.unwrap_or(2 * (lead[axis].max(1) - 1));
            if n == 0 {
                return refuse("a transform has at least one point");
            }
            let half = resized(&x, axis, n / 2 + 1)?.movedim(axis, -2);
            Ok(transform(&half, FourierKind::HalfToReal, n, norm, true).movedim(-1isize, axis))
        })
    }
    /// Transforms of windows that slide over a signal `[.., time]`: `[.., n_fft / 2 + 1, frames, 2]`. A window shorter than
    /// `n_fft` is centred; `center` reflects half a window at both ends first.
    #[track_caller]
    pub fn stft(&self, n_fft: usize, hop: usize, window: &Tensor, center: bool, norm: FftNorm) -> Tensor {
        compose("stft", &[self, window], || {
            let x = floats(self)?;
            let shape = x.meta().shape;
            let Some(&time) = shape.last() else { return Err(ErrorKind::Shape { shape, expected: "a signal of at least one axis".into() }.into()) };
            let w = window.meta().shape;
            if n_fft == 0 || hop == 0 || w.rank() != 1 || w[0] > n_fft {
                return refuse(format!("windows of {n_fft} every {hop}, shaped by {w}: the window's length is at most n_fft, and both are at least 1"));
            }
            let half = n_fft / 2;
            let signal = if center {
                if half >= time {
                    return refuse(format!("{half} elements cannot be reflected from a signal of {time}"));
                }
                let (front, back) = (x.narrow(-1, 1, half).flip(-1), x.narrow(-1, time - 1 - half, half).flip(-1));
                Tensor::cat(&[front, x, back], -1)
            } else {
                x
            };
            let left = (n_fft - w[0]) / 2;
            let shaped = window.pad_constant([left as isize, (n_fft - w[0] - left) as isize], 0);
            let frames = signal.unfold(-1, n_fft, hop) * shaped;
            Ok(frames.rfft(None, -1, norm).movedim(-2isize, -3isize))
        })
    }
    /// The signal that [`Tensor::stft`] (centred) was made of: windows are added back and divided by the sum of squared
    /// window shapes. `length`: how many samples, default as many as the frames cover.
    #[track_caller]
    pub fn istft(&self, n_fft: usize, hop: usize, window: &Tensor, length: Option<usize>, norm: FftNorm) -> Tensor {
        compose("istft", &[self, window], || {
            let [spectrum, window] = alike([self, window])?;
            let (shape, w) = (self.meta().shape, window.meta().shape);
            if shape.rank() < 3 || shape[shape.rank() - 1] != 2 || shape[shape.rank() - 3] != n_fft / 2 + 1 {
                return Err(ErrorKind::Shape { shape, expected: format!("[.., {}, frames, 2]", n_fft / 2 + 1) }.into());
            }
            if n_fft == 0 || hop == 0 || w.rank() != 1 || w[0] > n_fft {
                return refuse(format!("windows of {n_fft} every {hop}, shaped by {w}: the window's length is at most n_fft, and both are at least 1"));
            }
            let count = shape[shape.rank() - 2];
            let left = (n_fft - w[0]) / 2;
            let shaped = window.pad_constant([left as isize, (n_fft - w[0] - left) as isize], 0);
            let frames = spectrum.movedim(-3isize, -2isize).irfft(Some(n_fft), -1, norm) * &shaped;
            let meta = frames.try_meta()?;
            let (total, lead): (usize, usize) = (n_fft + hop * count.saturating_sub(1), meta.shape[..meta.shape.rank() - 2].iter().product());
            let grid = Tensor::zeros_on([count, n_fft], DType::I64, meta.device);
            let place = (grid.iota_like(0, DType::I64) * hop + grid.iota_like(1, DType::I64)).ravel();
            let add = |parts: Tensor, rows: usize| Tensor::zeros_on([rows, total], meta.dtype, meta.device).index_add(1, &place, &parts, 1i64);
            let sum = add(frames.reshape([lead, count * n_fft]), lead);
            let weight = add(shaped.square().expand([count, n_fft]).reshape([1, count * n_fft]), 1);
            let half = n_fft / 2;
            let wanted = length.unwrap_or(total.saturating_sub(2 * half)).min(total - half);
            // Divided is what is kept: at the ends, which are cut off, no window may reach.
            let signal = sum.narrow(1, half, wanted) / weight.narrow(1, half, wanted);
            let out = Shape::new(&meta.shape[..meta.shape.rank() - 2].iter().copied().chain([wanted]).collect::<Vec<_>>())?;
            Ok(signal.reshape(out))
        })
    }
}
