//! Sampling at given positions (spatial transformers: Jaderberg et al., 2015), differentiable in values and positions.
use super::interpolate::cubic_weights;
use crate::{
    DType, ErrorKind, Shape, Tensor,
    composite::{
        loss::gather,
        wide::{floats, same_dtype},
    },
    tensor::compose::{compose, refuse},
};

/// How [`grid_sample`] finds values between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sampling {
    /// Linear along every axis.
    #[default]
    Bilinear,
    /// The nearest element, ties to the even one.
    Nearest,
    /// Cubic convolution along two axes.
    Bicubic,
}
/// What [`grid_sample`] finds beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Beyond {
    /// Zeros.
    #[default]
    Zeros,
    /// The nearest element of the edge.
    Border,
    /// The tensor mirrored.
    Reflection,
}
/// Options of [`grid_sample`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridSampleOptions {
    /// how values between elements are found
    pub mode: Sampling,
    /// what lies beyond the edge
    pub padding: Beyond,
    /// are -1 and 1 the centres of the first and last elements (or their outer edges)?
    pub align_corners: bool,
}

/// Values of x `[batch, channels, ..spatial]` at positions `[batch, ..out, axes]` in -1..1, the last spatial axis
/// first: `[batch, channels, ..out]`. Two or three spatial axes.
#[track_caller]
pub fn grid_sample(x: &Tensor, grid: &Tensor, options: GridSampleOptions) -> Tensor {
    compose("grid_sample", &[x, grid], || {
        let m = floats(&x.meta())?;
        same_dtype(&m, &grid.meta())?;
        let (s, gs) = (m.shape, grid.meta().shape);
        let n = s.rank().saturating_sub(2);
        if !(2..=3).contains(&n) || gs.rank() != n + 2 || gs[0] != s[0] || gs[n + 1] != n {
            return Err(ErrorKind::ShapeMismatch {
                left: s,
                right: gs,
                axes: None,
                expected: "[batch, channels, ..] with two or three spatial axes and positions [batch, .., as many]",
            }
            .into());
        }
        if s[2..].contains(&0) {
            return Err(ErrorKind::Shape { shape: s, expected: "spatial axes that are not empty".into() }.into());
        }
        if options.mode == Sampling::Bicubic && n != 2 {
            return refuse("bicubic sampling is defined on two spatial axes");
        }
        let (batch, channels) = (s[0], s[1]);
        let points: usize = gs[1..=n].iter().product();
        let plane: usize = s[2..].iter().product();
        let field = Field { flat: x.widened().reshape([batch, channels, plane]), spatial: Shape::new(&s[2..])?, batch, channels, points };
        let positions = grid.widened().reshape([batch, points, n]);
        // The grid names the last axis first.
        let at: Vec<Tensor> =
            (0..n).map(|k| unnormalize(&positions.narrow(2, n - 1 - k, 1).reshape([batch, points]), s[2 + k], options.align_corners)).collect();
        let padded = |k: usize, at: &Tensor| beyond(at, s[2 + k], options);
        let y = match options.mode {
            Sampling::Nearest => {
                let at: Vec<Tensor> = at.iter().enumerate().map(|(k, t)| padded(k, t).round()).collect();
                let detached: Vec<Tensor> = at.iter().map(Tensor::detach).collect();
                // A step function of the positions: their gradient is there, and it is zero.
                let zero = at
                    .iter()
                    .zip(&detached)
                    .fold(field.flat.full_like(0.0).narrow(1, 0, 1).sum([1, 2]).reshape([batch, 1]), |sum, (t, d)| sum + d.isfinite().where_(t - d, 0.0));
                field.at(&detached) + zero.reshape([batch, 1, points])
            }
            Sampling::Bilinear => {
                let at: Vec<Tensor> = at.iter().enumerate().map(|(k, t)| padded(k, t)).collect();
                let low: Vec<Tensor> = at.iter().map(|t| t.floor().detach()).collect();
                let mut sum: Option<Tensor> = None;
                for corner in 0..1usize << n {
                    let up = |k: usize| corner >> (n - 1 - k) & 1 == 1;
                    let places: Vec<Tensor> = (0..n).map(|k| if up(k) { &low[k] + 1.0 } else { low[k].clone() }).collect();
                    let mut weight: Option<Tensor> = None;
                    for k in 0..n {
                        let t = &at[k] - &low[k];
                        let w = if up(k) { t } else { 1.0 - t };
                        weight = Some(match weight {
                            Some(all) => all * w,
                            None => w,
                        });
                    }
                    let part = field.at(&places);
                    let part = weight.map_or_else(|| part.clone(), |w| &part * w.reshape([batch, 1, points]));
                    sum = Some(match sum {
                        Some(s) => s + part,
                        None => part,
                    });
                }
                sum.unwrap_or_else(|| field.flat.clone())
            }
            Sampling::Bicubic => {
                let low: Vec<Tensor> = at.iter().map(|t| t.floor().detach()).collect();
                let weights: Vec<[Tensor; 4]> = (0..2).map(|k| cubic_weights(&(&at[k] - &low[k]))).collect();
                let mut sum: Option<Tensor> = None;
                for i in 0..4 {
                    for j in 0..4 {
                        let place = |k: usize, step: usize| padded(k, &(&low[k] + (step as f64 - 1.0))).detach();
                        let part = field.at(&[place(0, i), place(1, j)]) * (&weights[0][i] * &weights[1][j]).reshape([batch, 1, points]);
                        sum = Some(match sum {
                            Some(s) => s + part,
                            None => part,
                        });
                    }
                }
                sum.unwrap_or_else(|| field.flat.clone())
            }
        };
        let mut dims = vec![batch, channels];
        dims.extend_from_slice(&gs[1..=n]);
        Ok(y.reshape(dims).cast(m.dtype))
    })
}
struct Field {
    flat: Tensor,
    spatial: Shape,
    batch: usize,
    channels: usize,
    points: usize,
}
impl Field {
    /// The elements at whole-numbered positions (floats `[batch, points]`), 0 outside.
    fn at(&self, places: &[Tensor]) -> Tensor {
        let mut inside: Option<Tensor> = None;
        let mut index: Option<Tensor> = None;
        for (k, p) in places.iter().enumerate() {
            let size = self.spatial[k];
            let here = p.ge(0.0).logical_and(p.lt(size as f64));
            // Only a position inside becomes an integer: NaN and what is far away do not.
            let i = here.where_(p, 0.0).cast(DType::I32);
            index = Some(match index {
                Some(all) => all * size as i32 + i,
                None => i,
            });
            inside = Some(match inside {
                Some(all) => all.logical_and(here),
                None => here,
            });
        }
        let (Some(inside), Some(index)) = (inside, index) else { return self.flat.clone() };
        let spread = |t: Tensor| t.reshape([self.batch, 1, self.points]).expand([self.batch, self.channels, self.points]);
        let values = gather(&self.flat, 2, &spread(index));
        inside.reshape([self.batch, 1, self.points]).where_(&values, 0.0)
    }
}
fn unnormalize(g: &Tensor, size: usize, align: bool) -> Tensor {
    if align { (g + 1.0) * 0.5 * (size as f64 - 1.0) } else { ((g + 1.0) * size as f64 - 1.0) * 0.5 }
}
fn beyond(at: &Tensor, size: usize, options: GridSampleOptions) -> Tensor {
    let top = size as f64 - 1.0;
    // Beyond the edge the value no longer depends on the position; at the edge itself it counts as beyond.
    let clip = |at: &Tensor| at.le(0.0).where_(0.0, at.ge(top).where_(top, at));
    match options.padding {
        Beyond::Zeros => at.clone(),
        Beyond::Border => clip(at),
        Beyond::Reflection => {
            let (low, span) = if options.align_corners { (0.0, top) } else { (-0.5, size as f64) };
            if span == 0.0 {
                return at.zeros_like();
            }
            let from = (at - low).abs();
            let flips = (&from / span).floor().detach();
            let extra = &from - &flips * span;
            let even = flips.remainder(2.0).eq(0.0);
            clip(&even.where_(&extra + low, (span + low) - &extra))
        }
    }
}

/// The grid that an affine map theta `[batch, axes, axes + 1]` gives over an output of `[batch, channels, ..out]`:
/// `[batch, ..out, axes]`, for [`grid_sample`].
#[track_caller]
pub fn affine_grid(theta: &Tensor, size: &[usize], align_corners: bool) -> Tensor {
    compose("affine_grid", &[theta], || {
        let m = floats(&theta.meta())?;
        let n = size.len().saturating_sub(2);
        if !(2..=3).contains(&n) || *m.shape != [size[0], n, n + 1] || size.contains(&0) {
            return Err(ErrorKind::Shape {
                shape: m.shape,
                expected: format!("[batch, axes, axes + 1] for an output of {size:?} with two or three spatial axes"),
            }
            .into());
        }
        let out = Shape::new(&size[2..])?;
        let base = Tensor::full_on(out, 0, m.dtype, m.device);
        // Positions of the last axis first, then a column of ones.
        let mut columns = Vec::new();
        for k in (0..n).rev() {
            let (i, len) = (base.iota_like(k, m.dtype), out[k] as f64);
            let position = match (len > 1.0, align_corners) {
                (false, _) => i * 0.0,
                (true, true) => i * (2.0 / (len - 1.0)) - 1.0,
                (true, false) => (i * 2.0 + (1.0 - len)) * (1.0 / len),
            };
            columns.push(position.reshape([out.elements(), 1]));
        }
        columns.push(base.ones_like().reshape([out.elements(), 1]));
        let base = Tensor::cat(&columns, 1).reshape([1, out.elements(), n + 1]).expand([size[0], out.elements(), n + 1]);
        let mut dims = vec![size[0]];
        dims.extend_from_slice(&out);
        dims.push(n);
        Ok(base.matmul(theta.mt()).reshape(dims))
    })
}
