//! Fourier transforms of several axes and of signals with a real spectrum, what goes with them (shifts, frequencies, windows),
//! and complex numbers as pairs. Axes of complex numbers count without the last, which is (real, imaginary).
//!
//! The functions are those of PyTorch's `torch.fft`, `torch.signal.windows` and `torch.polar`.
use super::{
    FftNorm, Tensor,
    compose::{Built, compose, compose1, refuse},
    fourier::pairs,
};
use crate::{DType, Device, ErrorKind, Shape, composite::wide::floats, scope::call, shape::ToSizes};
use std::f64::consts::TAU;

impl FftNorm {
    /// The one that divides the other direction.
    fn flipped(self) -> FftNorm {
        match self {
            FftNorm::Backward => FftNorm::Forward,
            FftNorm::Ortho => FftNorm::Ortho,
            FftNorm::Forward => FftNorm::Backward,
        }
    }
}
/// The axes that are named, each once, from the front; no names: all of them.
fn resolved(axes: &[isize], shape: &Shape) -> Built<Vec<usize>> {
    if axes.is_empty() {
        return Ok((0..shape.rank()).collect());
    }
    let mut all = Vec::with_capacity(axes.len());
    for &axis in axes {
        let axis = shape.axis(axis)?;
        if all.contains(&axis) {
            return refuse(format!("axis {axis} stands twice in {axes:?}"));
        }
        all.push(axis);
    }
    Ok(all)
}
/// Axes with their numbers of points, which are as many as the axes or none.
fn sized(sizes: &[usize], axes: &[isize], shape: &Shape) -> Built<Vec<(usize, Option<usize>)>> {
    // Sizes alone belong to the last axes.
    let axes = match (axes, sizes.len()) {
        ([], n) if n > 0 && n <= shape.rank() => (shape.rank() - n..shape.rank()).collect(),
        _ => resolved(axes, shape)?,
    };
    match sizes {
        [] => Ok(axes.into_iter().map(|axis| (axis, None)).collect()),
        _ if sizes.len() == axes.len() => Ok(axes.into_iter().zip(sizes.iter().map(|&n| Some(n))).collect()),
        _ => refuse(format!("{} sizes for {} axes", sizes.len(), axes.len())),
    }
}
/// `x` without the points that a transform of these axes would leave out: a transform of another axis need not go over them.
fn cut(x: &Tensor, axes: &[(usize, Option<usize>)]) -> Tensor {
    axes.iter().fold(x.clone(), |x, &(axis, n)| match (x.meta().shape[axis], n) {
        (have, Some(n)) if n > 0 && n < have => x.narrow(axis, 0, n),
        _ => x,
    })
}
/// The shape that complex numbers have without their last axis.
fn lead(x: &Tensor) -> Built<Shape> {
    let shape = x.meta().shape;
    match shape.last() {
        Some(2) => Ok(shape.without(shape.rank() - 1)),
        _ => Err(ErrorKind::Shape { shape, expected: "complex numbers: a last axis of 2".into() }.into()),
    }
}

/// Transforms of several axes.
impl Tensor {
    /// [`Tensor::fft`] over `axes` (none named: all), each cut or filled to its number in `sizes` (none given: as it is).
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor::FftNorm};
    /// # Device::reference().make_current();
    /// let ones = Tensor::ones([2, 2, 2]); // four complex numbers 1 + 1i
    /// let spectrum = ones.fftn(&[], [0, 1], FftNorm::Backward);
    /// assert_eq!(spectrum.i((0, 0)).to_vec::<f32>()?, [4.0, 4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn fftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        self.complex_axes("fftn", sizes, &axes.to_sizes(), norm, Tensor::fft)
    }
    /// The inverse of [`Tensor::fftn`].
    #[track_caller]
    pub fn ifftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        self.complex_axes("ifftn", sizes, &axes.to_sizes(), norm, Tensor::ifft)
    }
    #[track_caller]
    fn complex_axes(
        &self,
        name: &'static str,
        sizes: &[usize],
        axes: &[isize],
        norm: FftNorm,
        one: fn(&Tensor, Option<usize>, usize, FftNorm) -> Tensor,
    ) -> Tensor {
        compose1(name, self, |x| {
            let axes = sized(sizes, axes, &lead(x)?)?;
            Ok(axes.iter().fold(cut(x, &axes), |x, &(axis, n)| one(&x, n, axis, norm)))
        })
    }
    /// [`Tensor::rfft`] over the last of `axes`, then [`Tensor::fft`] over the others, as in [`Tensor::fftn`].
    #[track_caller]
    pub fn rfftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        compose1("rfftn", self, |x| {
            let axes = sized(sizes, &axes.to_sizes(), &x.meta().shape)?;
            let Some((&(axis, n), others)) = axes.split_last() else { return refuse("a transform has at least one axis") };
            Ok(others.iter().fold(cut(x, others).rfft(n, axis, norm), |x, &(axis, n)| x.fft(n, axis, norm)))
        })
    }
    /// The inverse of [`Tensor::rfftn`]; the last of `sizes` is the number of real points (none given: 2 (m - 1)).
    #[track_caller]
    pub fn irfftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        compose1("irfftn", self, |x| {
            let axes = sized(sizes, &axes.to_sizes(), &lead(x)?)?;
            let Some((&(axis, n), others)) = axes.split_last() else { return refuse("a transform has at least one axis") };
            // Of real points, half as many frequencies and one are read.
            let half = [(axis, n.map(|n| n / 2 + 1))];
            Ok(others.iter().fold(cut(&cut(x, others), &half), |x, &(axis, n)| x.ifft(n, axis, norm)).irfft(n, axis, norm))
        })
    }
    /// [`Tensor::fft`] over the last two axes.
    #[track_caller]
    pub fn fft2(&self, norm: FftNorm) -> Tensor {
        let _call = call("fft2");
        self.fftn(&[], [-2, -1], norm)
    }
    /// The inverse of [`Tensor::fft2`].
    #[track_caller]
    pub fn ifft2(&self, norm: FftNorm) -> Tensor {
        let _call = call("ifft2");
        self.ifftn(&[], [-2, -1], norm)
    }
    /// [`Tensor::rfft`] over the last axis, then [`Tensor::fft`] over the one before it.
    #[track_caller]
    pub fn rfft2(&self, norm: FftNorm) -> Tensor {
        let _call = call("rfft2");
        self.rfftn(&[], [-2, -1], norm)
    }
    /// The inverse of [`Tensor::rfft2`], to `n` real columns.
    #[track_caller]
    pub fn irfft2(&self, n: Option<usize>, norm: FftNorm) -> Tensor {
        compose1("irfft2", self, |x| {
            let lead = lead(x)?;
            let rows = lead[lead.axis(-2)?];
            let sizes = n.map(|n| [rows, n]);
            Ok(x.irfftn(sizes.as_ref().map_or(&[], |sizes| sizes), [-2, -1], norm))
        })
    }
    /// The first half of a signal with a real spectrum to that spectrum, `n` real numbers (default: 2 (m - 1)).
    #[track_caller]
    pub fn hfft(&self, n: Option<usize>, axis: isize, norm: FftNorm) -> Tensor {
        compose1("hfft", self, |x| Ok(x.conj().irfft(n, axis, norm.flipped())))
    }
    /// The inverse of [`Tensor::hfft`]: real numbers to the first half of the signal of which they are the spectrum.
    #[track_caller]
    pub fn ihfft(&self, n: Option<usize>, axis: isize, norm: FftNorm) -> Tensor {
        compose1("ihfft", self, |x| Ok(x.rfft(n, axis, norm.flipped()).conj()))
    }
    /// [`Tensor::hfft`] over the last of `axes`, after [`Tensor::fft`] over the others: sizes and axes as in [`Tensor::irfftn`].
    #[track_caller]
    pub fn hfftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        compose1("hfftn", self, |x| Ok(x.conj().irfftn(sizes, axes, norm.flipped())))
    }
    /// The inverse of [`Tensor::hfftn`].
    #[track_caller]
    pub fn ihfftn(&self, sizes: &[usize], axes: impl ToSizes, norm: FftNorm) -> Tensor {
        compose1("ihfftn", self, |x| Ok(x.rfftn(sizes, axes, norm.flipped()).conj()))
    }
    /// [`Tensor::hfftn`] over the last two axes.
    #[track_caller]
    pub fn hfft2(&self, norm: FftNorm) -> Tensor {
        let _call = call("hfft2");
        self.hfftn(&[], [-2, -1], norm)
    }
    /// [`Tensor::ihfftn`] over the last two axes.
    #[track_caller]
    pub fn ihfft2(&self, norm: FftNorm) -> Tensor {
        let _call = call("ihfft2");
        self.ihfftn(&[], [-2, -1], norm)
    }
    /// The zero frequency in the middle of `axes` (none named: all). Of complex numbers name the axes, or shift their parts.
    #[track_caller]
    pub fn fftshift(&self, axes: impl ToSizes) -> Tensor {
        self.shifted("fftshift", &axes.to_sizes(), |n| n / 2)
    }
    /// The inverse of [`Tensor::fftshift`].
    #[track_caller]
    pub fn ifftshift(&self, axes: impl ToSizes) -> Tensor {
        self.shifted("ifftshift", &axes.to_sizes(), |n| n.div_ceil(2))
    }
    #[track_caller]
    fn shifted(&self, name: &'static str, axes: &[isize], by: fn(usize) -> usize) -> Tensor {
        compose1(name, self, |x| {
            let shape = x.meta().shape;
            let axes = resolved(axes, &shape)?;
            Ok(axes.into_iter().fold(x.clone(), |x, axis| x.roll(by(shape[axis]) as isize, axis as isize)))
        })
    }
    /// The frequencies of the points of a transform of `n` points that lie `spacing` apart: f32 `[n]`.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(Tensor::fftfreq(4, 0.5).to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn fftfreq(n: usize, spacing: f64) -> Tensor {
        let signed = |k: usize| if k < n.div_ceil(2) { k as f64 } else { k as f64 - n as f64 };
        frequencies("fftfreq", n, n, spacing, signed)
    }
    /// The frequencies of the points that [`Tensor::rfft`] gives: f32 `[n / 2 + 1]`.
    #[track_caller]
    pub fn rfftfreq(n: usize, spacing: f64) -> Tensor {
        frequencies("rfftfreq", n, n / 2 + 1, spacing, |k| k as f64)
    }
}
#[track_caller]
fn frequencies(name: &'static str, n: usize, count: usize, spacing: f64, of: impl Fn(usize) -> f64) -> Tensor {
    compose(name, &[], || {
        if spacing == 0.0 {
            return refuse("points that are 0 apart have no frequencies");
        }
        let all: Vec<f32> = (0..count).map(|k| (of(k) / (n as f64 * spacing)) as f32).collect();
        Ok(Tensor::from_vec(all, [count]))
    })
}

/// Complex numbers as pairs: a last axis of 2, (real, imaginary).
impl Tensor {
    /// Complex numbers `[.., 2]` of their parts, which broadcast and meet in one dtype.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let z = Tensor::complex(&Tensor::full([2], 3.0, adamant_core::DType::F32), &Tensor::full([1], 4.0, adamant_core::DType::F32));
    /// assert_eq!(z.complex_abs().to_vec::<f32>()?, [5.0, 5.0]);
    /// assert_eq!(z.conj().imag().to_vec::<f32>()?, [-4.0, -4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "view_as_complex")]
    #[track_caller]
    pub fn complex(real: &Tensor, imaginary: &Tensor) -> Tensor {
        compose("complex", &[real, imaginary], || {
            let [real, imaginary] = crate::promotion::alike([real, imaginary])?;
            floats(&real.meta())?;
            Ok(Tensor::stack(&Tensor::broadcast_tensors(&[real, imaginary])?, -1))
        })
    }
    /// The complex numbers of these magnitudes and angles (in radians).
    #[track_caller]
    pub fn polar(magnitude: &Tensor, angle: &Tensor) -> Tensor {
        compose("polar", &[magnitude, angle], || Ok(Tensor::complex(&(magnitude * angle.cos()), &(magnitude * angle.sin()))))
    }
    /// The real parts of complex numbers `[.., 2]`.
    #[track_caller]
    #[must_use]
    pub fn real(&self) -> Tensor {
        compose1("real", self, |x| lead(x).map(|_| x.select(-1, 0)))
    }
    /// The imaginary parts of complex numbers `[.., 2]`.
    #[track_caller]
    #[must_use]
    pub fn imag(&self) -> Tensor {
        compose1("imag", self, |x| lead(x).map(|_| x.select(-1, 1)))
    }
    /// Complex numbers `[.., 2]` with the imaginary parts negated.
    #[track_caller]
    #[must_use]
    pub fn conj(&self) -> Tensor {
        compose1("conj", self, |x| {
            lead(x)?;
            Ok(x * Tensor::from_vec_on(vec![1i8, -1], [2], x.meta().device).cast(x.meta().dtype))
        })
    }
    /// The angles of complex numbers `[.., 2]`, in radians from -π to π.
    #[doc(alias = "angle")]
    #[track_caller]
    #[must_use]
    pub fn complex_angle(&self) -> Tensor {
        compose1("complex_angle", self, |x| Ok(x.imag().atan2(x.real())))
    }
    /// The products of complex numbers `[.., 2]`, broadcast.
    #[track_caller]
    pub fn complex_mul(&self, other: &Tensor) -> Tensor {
        compose("complex_mul", &[self, other], || {
            lead(self)?;
            lead(other)?;
            let (parts, others) = (self.unbind(-1)?, other.unbind(-1)?);
            let [a, b, c, d] = crate::promotion::alike([&parts[0], &parts[1], &others[0], &others[1]])?;
            let dtype = a.meta().dtype;
            // Products of 16 bits may cancel: they are rounded after they met.
            let [a, b, c, d] = if dtype.is_float() { [a, b, c, d].map(|t| t.widened()) } else { [a, b, c, d] };
            Ok(Tensor::complex(&(&a * &c - &b * &d), &(a * d + b * c)).cast(dtype))
        })
    }
    /// The magnitudes of complex numbers `[.., 2]`.
    #[track_caller]
    #[must_use]
    pub fn complex_abs(&self) -> Tensor {
        compose1("complex_abs", self, |x| Ok(pairs(&x.unsqueeze(0))?.squeeze(0).vector_norm(2.0, -1)))
    }
}

/// Windows of `n` points: periodic, for [`Tensor::stft`], or symmetric, for filters.
impl Tensor {
    /// `0.5 (1 - cos(2π k / n))`.
    #[track_caller]
    pub fn hann_window(n: usize, periodic: bool, dtype: DType) -> Tensor {
        window("hann_window", n, periodic, dtype, |t| 0.5 - 0.5 * (TAU * t).cos())
    }
    /// `0.54 - 0.46 cos(2π k / n)`.
    #[track_caller]
    pub fn hamming_window(n: usize, periodic: bool, dtype: DType) -> Tensor {
        window("hamming_window", n, periodic, dtype, |t| 0.54 - 0.46 * (TAU * t).cos())
    }
    /// `0.42 - 0.5 cos(2π k / n) + 0.08 cos(4π k / n)`.
    #[track_caller]
    pub fn blackman_window(n: usize, periodic: bool, dtype: DType) -> Tensor {
        window("blackman_window", n, periodic, dtype, |t| 0.42 - 0.5 * (TAU * t).cos() + 0.08 * (2.0 * TAU * t).cos())
    }
    /// A triangle from 0 to 1 and back.
    #[track_caller]
    pub fn bartlett_window(n: usize, periodic: bool, dtype: DType) -> Tensor {
        window("bartlett_window", n, periodic, dtype, |t| 1.0 - (2.0 * t - 1.0).abs())
    }
    /// `i0(beta √(1 - (2 k / n - 1)²)) / i0(beta)` (Kaiser, 1966); PyTorch's beta is 12.
    #[track_caller]
    pub fn kaiser_window(n: usize, periodic: bool, beta: f64, dtype: DType) -> Tensor {
        let i0 = adamant_ir::special::i0;
        window("kaiser_window", n, periodic, dtype, |t| i0(beta * (1.0 - (2.0 * t - 1.0).powi(2)).max(0.0).sqrt()) / i0(beta))
    }
}
/// A window whose value is a function of the place from 0 to 1.
#[track_caller]
fn window(name: &'static str, n: usize, periodic: bool, dtype: DType, f: impl Fn(f64) -> f64) -> Tensor {
    compose(name, &[], || {
        if !dtype.is_float() {
            return Err(ErrorKind::Dtype(format!("a window is made of floats, not of {dtype}")).into());
        }
        let device = Device::current()?;
        let last = if periodic { n } else { n.saturating_sub(1) };
        let all: Vec<f64> = (0..n).map(|k| if n == 1 { 1.0 } else { f(k as f64 / last as f64) }).collect();
        Ok(match dtype {
            DType::F64 => Tensor::from_vec_on(all, [n], device),
            _ => Tensor::from_vec_on(all.into_iter().map(|v| v as f32).collect::<Vec<_>>(), [n], device).cast(dtype),
        })
    })
}
