//! Resampling of spatial axes, one after the other, with PyTorch's coordinates: the positions are computed in the dtype
//! that the tensor computes in, so that borders fall where PyTorch's do.
use super::adaptive_avg_pool;
use crate::{
    DType, ErrorKind, Meta, Shape, Tensor,
    composite::{loss::gather, taps::Taps, wide::floats},
    tensor::compose::{Built, compose, refuse},
};

/// How values between elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InterpolateMode {
    /// The element whose cell holds the position, by PyTorch's older rule.
    #[default]
    Nearest,
    /// The element nearest to the position, as Pillow and scikit-image do.
    NearestExact,
    /// Linear along one, two (bilinear) or three (trilinear) axes.
    Linear,
    /// Cubic convolution with a = -0.75 (Keys, 1981) along two axes.
    Bicubic,
    /// The mean over the covered area.
    Area,
}
impl std::str::FromStr for InterpolateMode {
    type Err = crate::Error;
    /// From PyTorch's word: `nearest`, `nearest-exact`, `linear`, `bilinear`, `trilinear`, `bicubic`, `area`.
    #[track_caller]
    fn from_str(s: &str) -> crate::Result<InterpolateMode> {
        Ok(match s {
            "nearest" => InterpolateMode::Nearest,
            "nearest-exact" => InterpolateMode::NearestExact,
            "linear" | "bilinear" | "trilinear" => InterpolateMode::Linear,
            "bicubic" => InterpolateMode::Bicubic,
            "area" => InterpolateMode::Area,
            _ => return Err(crate::Error::new("interpolate", ErrorKind::Argument(format!("there is no interpolation `{s}`")))),
        })
    }
}
/// How large the result is.
#[derive(Clone, Debug, PartialEq)]
pub enum Resize {
    /// These sizes.
    Size(Vec<usize>),
    /// The sizes times these factors (one for all, or one for each axis), rounded down; positions use the factors too.
    Scale(Vec<f64>),
}
/// Options of [`interpolate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterpolateOptions {
    /// how values are found
    pub mode: InterpolateMode,
    /// do the centres of the first and last elements meet those of the result (linear and cubic)?
    pub align_corners: bool,
}

/// x `[batch, channels, ..spatial]` resampled to other spatial sizes. 16-bit floats compute in f32 and round once.
#[track_caller]
pub fn interpolate(x: &Tensor, to: &Resize, options: InterpolateOptions) -> Tensor {
    compose("interpolate", &[x], || {
        let m = floats(&x.meta())?;
        let rank = m.shape.rank();
        if !(3..=5).contains(&rank) {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "[batch, channels, ..] with one to three spatial axes".into() }.into());
        }
        let n = rank - 2;
        if options.mode == InterpolateMode::Bicubic && n != 2 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "two spatial axes for a bicubic interpolation".into() }.into());
        }
        if options.align_corners && !matches!(options.mode, InterpolateMode::Linear | InterpolateMode::Bicubic) {
            return refuse("align_corners belongs to linear and cubic interpolation");
        }
        let (sizes, scales) = target(&m, to, n)?;
        if m.shape[2..].contains(&0) || sizes.contains(&0) {
            return Err(ErrorKind::Argument(format!("sizes are greater than 0: from {} to {sizes:?}", m.shape)).into());
        }
        if options.mode == InterpolateMode::Area {
            return Ok(adaptive_avg_pool(x, &sizes.iter().map(|&s| Some(s)).collect::<Vec<_>>()));
        }
        let mut y = x.widened();
        for k in 0..n {
            let ratio = Ratio { from: m.shape[2 + k], to: sizes[k], scale: scales[k], align: options.align_corners };
            // A size that stays is copied, unless a scale moves the positions.
            if ratio.from == ratio.to && scales[k].is_none_or(|s| s == 1.0) {
                continue;
            }
            y = match options.mode {
                InterpolateMode::Linear => linear(&y, 2 + k, ratio),
                InterpolateMode::Bicubic => cubic(&y, 2 + k, ratio),
                _ => nearest(&y, 2 + k, ratio, options.mode == InterpolateMode::NearestExact),
            };
        }
        Ok(y.cast(m.dtype))
    })
}
fn target(m: &Meta, to: &Resize, n: usize) -> Built<(Vec<usize>, Vec<Option<f64>>)> {
    let each = |len: usize, what: &str| if len == 1 || len == n { Ok(()) } else { Err(ErrorKind::Argument(format!("{len} {what} for {n} spatial axes"))) };
    Ok(match to {
        Resize::Size(sizes) => {
            each(sizes.len(), "sizes")?;
            ((0..n).map(|k| sizes[if sizes.len() == 1 { 0 } else { k }]).collect(), vec![None; n])
        }
        Resize::Scale(scales) => {
            each(scales.len(), "scales")?;
            let scales: Vec<f64> = (0..n).map(|k| scales[if scales.len() == 1 { 0 } else { k }]).collect();
            if scales.iter().any(|s| !s.is_finite() || *s <= 0.0) {
                return refuse(format!("scales are greater than 0, not {scales:?}"));
            }
            (scales.iter().enumerate().map(|(k, s)| (m.shape[2 + k] as f64 * s).floor() as usize).collect(), scales.into_iter().map(Some).collect())
        }
    })
}
/// One axis of a resampling.
#[derive(Clone, Copy)]
struct Ratio {
    from: usize,
    to: usize,
    scale: Option<f64>,
    align: bool,
}
impl Ratio {
    /// Elements of the input per element of the output, rounded as PyTorch rounds it.
    fn step(&self, dtype: DType) -> f64 {
        let divide = |a: f64, b: f64| if dtype == DType::F64 { a / b } else { (a as f32 / b as f32) as f64 };
        if self.align {
            return if self.to > 1 { divide(self.from as f64 - 1.0, self.to as f64 - 1.0) } else { 0.0 };
        }
        match self.scale {
            Some(s) => {
                if dtype == DType::F64 {
                    1.0 / s
                } else {
                    (1.0 / s) as f32 as f64
                }
            }
            None => divide(self.from as f64, self.to as f64),
        }
    }
    /// 0, 1, 2, .. of the output.
    fn outputs(&self, x: &Tensor) -> Tensor {
        let m = x.meta();
        Tensor::full_on([self.to], 0, m.dtype, m.device).iota_like(0, m.dtype)
    }
    /// The positions of the output's elements in the input.
    fn positions(&self, x: &Tensor) -> Tensor {
        let step = self.step(x.meta().dtype);
        let i = self.outputs(x);
        if self.align { i * step } else { (i + 0.5) * step - 0.5 }
    }
}
/// Elements of an axis by indices `[to]` that lie inside.
fn take(x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    let (shape, to) = (x.meta().shape, index.meta().shape[0]);
    let dims = Shape::along(axis, to, shape.rank());
    gather(x, axis, &index.reshape(dims).expand(shape.with(axis, to)))
}
fn inside(index: &Tensor, size: usize) -> Tensor {
    index.maximum(0i32).minimum(size as i32 - 1)
}
fn nearest(x: &Tensor, axis: usize, ratio: Ratio, exact: bool) -> Tensor {
    let (i, step) = (ratio.outputs(x), ratio.step(x.meta().dtype));
    let at = if exact { (i + 0.5) * step } else { i * step };
    take(x, axis, &inside(&at.floor().cast(DType::I32), ratio.from))
}
/// Sums of elements of an axis, by indices and weights `[to]`, one of each for a tap.
fn taps(x: &Tensor, axis: usize, index: &[Tensor], weights: &[Tensor]) -> Tensor {
    Tensor::composite1(Taps { axis }, &[x, &Tensor::stack(index, 0), &Tensor::stack(weights, 0)])
}
fn linear(x: &Tensor, axis: usize, ratio: Ratio) -> Tensor {
    let at = ratio.positions(x).maximum(0.0);
    let low = inside(&at.floor().cast(DType::I32), ratio.from);
    let high = (&low + 1i32).minimum(ratio.from as i32 - 1);
    let t = (&at - low.cast(at.meta().dtype)).maximum(0.0).minimum(1.0);
    taps(x, axis, &[low, high], &[1.0 - &t, t])
}
fn cubic(x: &Tensor, axis: usize, ratio: Ratio) -> Tensor {
    let at = ratio.positions(x);
    let floor = at.floor();
    let base = floor.cast(DType::I32);
    let index: Vec<Tensor> = (0..4).map(|k| inside(&(&base + (k - 1)), ratio.from)).collect();
    taps(x, axis, &index, &cubic_weights(&(at - floor)))
}
/// Weights of the elements at -1, 0, 1, 2 from a position's floor, t beyond it.
pub(super) fn cubic_weights(t: &Tensor) -> [Tensor; 4] {
    const A: f64 = -0.75;
    let near = |t: &Tensor| (t * (A + 2.0) - (A + 3.0)) * t * t + 1.0;
    let far = |t: &Tensor| ((t * A - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
    let rest = 1.0 - t;
    [far(&(t + 1.0)), near(t), near(&rest), far(&(&rest + 1.0))]
}
