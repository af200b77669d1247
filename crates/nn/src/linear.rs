//! Linear maps.
use crate::{Module, Param, Site, init};
use adamant_core::{Error, ErrorKind, Result, Tensor};

/// y = x Wᵀ + b. Input `[.., in_features]`, output `[.., out_features]`; weight `[out_features, in_features]`.
///
/// Weight and bias start uniform in ±1/√in_features, as PyTorch's.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(3, 2)?;
/// assert_eq!(layer.forward(&Tensor::ones([5, 3]))?.dims()?, [5, 2]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct Linear {
    site: Site,
    /// `[out_features, in_features]`
    pub weight: Param,
    /// `[out_features]`
    pub bias: Option<Param>,
}
impl Linear {
    /// With a bias.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        let layer = Linear::no_bias(in_features, out_features)?;
        let bias = init::default_bias(out_features, [out_features, in_features])?;
        Ok(Linear { bias: Some(Param::new(&bias)?), ..layer })
    }
    /// Without a bias.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn no_bias(in_features: usize, out_features: usize) -> Result<Linear> {
        let weight = Param::new(&init::default_weight([out_features, in_features])?)?;
        Ok(Linear { site: Site::new("Linear"), weight, bias: None })
    }
}
impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        linear(x, &self.weight.get(), self.bias.as_ref().map(Param::get).as_ref()).ok()
    }
}
/// x Wᵀ + b over the last axis.
#[track_caller]
fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let (Ok(shape), Ok(w)) = (x.shape(), weight.shape()) else { return if x.error().is_some() { x.clone() } else { weight.clone() } };
    if shape.rank() == 0 || shape[shape.rank() - 1] != w[1] {
        let last = shape.rank().saturating_sub(1);
        return Tensor::failed(Error::new(
            "linear",
            ErrorKind::ShapeMismatch { left: shape, right: w, axes: Some((last, 1)), expected: "the input's last axis must be in_features" },
        ));
    }
    let rows: usize = shape[..shape.rank() - 1].iter().product();
    let mut out = shape.to_vec();
    out[shape.rank() - 1] = w[0];
    let y = x.reshape([rows, w[1]]).matmul(weight.mt());
    match bias {
        Some(b) => y + b,
        None => y,
    }
    .reshape(out)
}
