//! A weight as its length and its direction.
use super::{Parametrization, register_parametrization};
use crate::{Module, Walk};
use adamant_core::{Error, ErrorKind, Result, Tensor};

/// `w = g v / |v|`, the length of each slice along an axis, or that of all (Salimans and Kingma 2016).
#[derive(Clone, Debug, Module)]
pub struct WeightNorm {
    dim: Option<usize>,
}
impl WeightNorm {
    /// Of slices along an axis; `None`: of the whole weight.
    pub fn new(dim: Option<usize>) -> WeightNorm {
        WeightNorm { dim }
    }
    #[track_caller]
    fn length(&self, v: &Tensor) -> Result<Tensor> {
        let shape = v.shape()?;
        match self.dim {
            None => v.square().sum(..).sqrt().ok(),
            Some(dim) if dim < shape.rank() => {
                let mut lengths = vec![1; shape.rank()];
                lengths[dim] = shape[dim];
                let rows = v.movedim([dim as isize], [0]).reshape([shape[dim] as isize, -1]);
                rows.square().sum(1).sqrt().reshape(lengths).ok()
            }
            Some(dim) => Err(Error::new("weight_norm", ErrorKind::Axis { axis: dim as isize, rank: shape.rank() })),
        }
    }
}
impl Parametrization for WeightNorm {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [g, v] = originals else {
            return Err(Error::new("weight_norm", ErrorKind::Argument("it is computed from two tensors and comes before others".into())));
        };
        (v * (g / self.length(v)?)).ok()
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Vec<Tensor>> {
        Ok(vec![self.length(value)?, value.clone()])
    }
}
/// Has a weight be computed from its length, `original0`, and its direction, `original1`. PyTorch's default is a length for each
/// slice along axis 0; `None` is one for all.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Lstm, Module, Walk, parametrize::weight_norm};
/// # adamant_core::Device::reference().make_current();
/// let lstm = Lstm::new(3, 4)?;
/// weight_norm(&lstm, "weight_hh_l0", Some(0))?;
/// let names: Vec<String> = lstm.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names[1], "parametrizations.weight_hh_l0.original0");
/// assert_eq!(lstm.forward(&Tensor::ones([5, 2, 3]))?.dims()?, [5, 2, 4]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`register_parametrization`]; no such axis.
///
/// Source: `torch.nn.utils.parametrizations.weight_norm`.
#[track_caller]
pub fn weight_norm(module: &(impl Walk + ?Sized), name: &str, dim: Option<usize>) -> Result<()> {
    register_parametrization(module, name, WeightNorm::new(dim))
}
