//! A weight divided by its largest singular value.
use super::{Parametrization, register_parametrization};
use crate::{Module, Param, Site, Walk, init};
use adamant_core::{Error, ErrorKind, Result, Shape, Tensor, grad::no_grad};

/// Options of [`spectral_norm`]; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct SpectralNormOptions {
    /// steps of the power method each time the weight is read in training
    pub n_power_iterations: usize,
    /// a length below it counts as it
    pub eps: f64,
    /// The axis of outputs, which becomes that of the matrix's rows. `None`: 1 for transposed convolutions, 0 for all else.
    pub dim: Option<usize>,
}
impl Default for SpectralNormOptions {
    fn default() -> SpectralNormOptions {
        SpectralNormOptions { n_power_iterations: 1, eps: 1e-12, dim: None }
    }
}
/// `w / σ(w)`, σ the largest singular value, which the power method follows as the weight is read in training (Miyato et al.
/// 2018). A vector is divided by its length.
#[derive(Clone, Module)]
pub struct SpectralNorm {
    site: Site,
    #[module(rename = "_u")]
    u: Option<Param>,
    #[module(rename = "_v")]
    v: Option<Param>,
    #[module(skip)]
    options: SpectralNormOptions,
}
impl SpectralNorm {
    /// Of a weight, whose singular vectors are looked for by 15 steps of the power method.
    ///
    /// # Errors
    /// No such axis, no steps; a weight that cannot be read.
    #[track_caller]
    pub fn new(weight: &Tensor, options: SpectralNormOptions) -> Result<SpectralNorm> {
        let (shape, dim) = (weight.shape()?, options.dim.unwrap_or(0));
        if dim >= shape.rank() {
            return Err(Error::new("spectral_norm", ErrorKind::Axis { axis: dim as isize, rank: shape.rank() }));
        }
        if options.n_power_iterations == 0 {
            return Err(Error::new("spectral_norm", ErrorKind::Argument("no power iterations: at least one is needed".into())));
        }
        let site = Site::new("SpectralNorm");
        if shape.rank() == 1 {
            return Ok(SpectralNorm { site, u: None, v: None, options });
        }
        let (rows, columns) = sides(&shape, dim);
        let drawn = |n: usize| -> Result<Param> {
            let vector = init::normal(n, 0.0, 1.0)?.cast(weight.dtype()?).to(weight.device()?);
            Param::buffer(&vector.normalize(2.0, 0, options.eps))
        };
        let norm = SpectralNorm { site, u: Some(drawn(rows)?), v: Some(drawn(columns)?), options };
        norm.iterate(&norm.matrix(&weight.detach())?, 15)?;
        Ok(norm)
    }
    #[track_caller]
    fn matrix(&self, weight: &Tensor) -> Result<Tensor> {
        let (shape, dim) = (weight.shape()?, self.options.dim.unwrap_or(0));
        let (rows, columns) = sides(&shape, dim);
        let first = if dim == 0 { weight.clone() } else { weight.movedim([dim as isize], [0]) };
        first.reshape([rows, columns]).ok()
    }
    #[track_caller]
    fn iterate(&self, matrix: &Tensor, steps: usize) -> Result<()> {
        let (Some(u), Some(v)) = (&self.u, &self.v) else { return Ok(()) };
        no_grad(|| {
            let (matrix, mut left, mut right) = (matrix.detach(), u.detached(), v.detached());
            for _ in 0..steps {
                left = times(&matrix, &right).normalize(2.0, 0, self.options.eps);
                right = times(&matrix.transpose(0, 1), &left).normalize(2.0, 0, self.options.eps);
            }
            u.set(&left)?;
            v.set(&right)
        })
    }
}
/// Rows and columns of the matrix.
fn sides(shape: &Shape, dim: usize) -> (usize, usize) {
    (shape[dim], shape.elements() / shape[dim].max(1))
}
#[track_caller]
fn times(matrix: &Tensor, vector: &Tensor) -> Tensor {
    matrix.matmul(vector.unsqueeze(1)).squeeze(1)
}
impl Parametrization for SpectralNorm {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [weight] = originals else {
            return Err(Error::new("spectral_norm", ErrorKind::Argument(format!("it is computed from one tensor, not {}", originals.len()))));
        };
        let (Some(u), Some(v)) = (&self.u, &self.v) else { return weight.normalize(2.0, 0, self.options.eps).ok() };
        let matrix = self.matrix(weight)?;
        if self.site.is_training() {
            self.iterate(&matrix, self.options.n_power_iterations)?;
        }
        let sigma = (u.detached() * times(&matrix, &v.detached())).sum(..);
        (weight / sigma).ok()
    }
}
/// Has a weight be divided by its largest singular value.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Walk, parametrize::{SpectralNormOptions, spectral_norm}};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(4, 3)?;
/// spectral_norm(&layer, "weight", SpectralNormOptions::default())?;
/// for _ in 0..50 {
///     layer.weight.detached().to_vec::<f32>()?; // in training, each time it is read the estimate is better
/// }
/// let largest = layer.weight.detached().svdvals().amax(..).item::<f32>()?;
/// assert!((largest - 1.0).abs() < 1e-3);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`register_parametrization`]; no such axis, no power iterations.
///
/// Source: `torch.nn.utils.parametrizations.spectral_norm`.
#[track_caller]
pub fn spectral_norm(module: &(impl Walk + ?Sized), name: &str, options: SpectralNormOptions) -> Result<()> {
    let holder = name.rsplit_once('.').map_or("", |(of, _)| of);
    let transposed = module.get_submodule(holder).is_ok_and(|m| m.kind.starts_with("ConvTranspose"));
    let options = SpectralNormOptions { dim: Some(options.dim.unwrap_or(usize::from(transposed))), ..options };
    let weight = super::find(module, name, "spectral_norm")?.detached();
    register_parametrization(module, name, SpectralNorm::new(&weight, options)?)
}
