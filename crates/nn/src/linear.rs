//! Linear maps.
use crate::{Module, Param, Site, init};
use adamant_core::{Error, ErrorKind, Result, Tensor, functional};

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
    /// Without a bias, over a weight that another layer has too: the table `[out_features, in_features]` of an embedding
    /// that also reads the answer out (Press and Wolf 2017). Both places train one parameter.
    ///
    /// # Errors
    /// A weight that has not two axes.
    #[track_caller]
    pub fn tied(weight: &Param) -> Result<Linear> {
        let shape = weight.meta().shape;
        if shape.rank() != 2 {
            return Err(Error::new("linear", ErrorKind::Shape { shape, expected: "2 axes: [out_features, in_features]".into() }));
        }
        Ok(Linear::of(weight.clone(), None))
    }
    /// Of given parameters.
    pub(crate) fn of(weight: Param, bias: Option<Param>) -> Linear {
        Linear { site: Site::new("Linear"), weight, bias }
    }
}
impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        functional::linear(x, &self.weight.get(), self.bias.as_ref().map(Param::get).as_ref()).ok()
    }
}

/// y = x₁ᵀ A x₂ + b. Inputs `[.., in1_features]` and `[.., in2_features]`, output `[.., out_features]`; weight
/// `[out_features, in1_features, in2_features]`.
#[derive(Clone, Module)]
pub struct Bilinear {
    site: Site,
    /// `[out_features, in1_features, in2_features]`
    pub weight: Param,
    /// `[out_features]`
    pub bias: Option<Param>,
}
impl Bilinear {
    /// With a bias; both start uniform in ±1/√in1_features.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize) -> Result<Bilinear> {
        let layer = Bilinear::no_bias(in1_features, in2_features, out_features)?;
        let bound = Bilinear::bound(in1_features);
        Ok(Bilinear { bias: Some(Param::new(&init::uniform(out_features, -bound, bound)?)?), ..layer })
    }
    /// Without a bias.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn no_bias(in1_features: usize, in2_features: usize, out_features: usize) -> Result<Bilinear> {
        let bound = Bilinear::bound(in1_features);
        let weight = Param::new(&init::uniform([out_features, in1_features, in2_features], -bound, bound)?)?;
        Ok(Bilinear { site: Site::new("Bilinear"), weight, bias: None })
    }
    fn bound(in1_features: usize) -> f64 {
        1.0 / (in1_features.max(1) as f64).sqrt()
    }
    /// The output for two inputs with the same leading axes.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let weight = self.weight.get();
        let [out, in1, in2] = weight.dims()?;
        let (a, b) = (left.shape()?, right.shape()?);
        let fits = a.rank() >= 1 && a.rank() == b.rank() && a[..a.rank() - 1] == b[..b.rank() - 1] && a[a.rank() - 1] == in1 && b[b.rank() - 1] == in2;
        if !fits {
            return Err(Error::new(
                "bilinear",
                ErrorKind::ShapeMismatch { left: a, right: b, axes: None, expected: "inputs with equal leading axes, in1_features and in2_features last" },
            ));
        }
        let rows: usize = a[..a.rank() - 1].iter().product();
        // [rows, in1] x [in1, out·in2] → [rows, out, in2], then with the second input over in2.
        let half = left.reshape([rows, in1]).matmul(weight.permute([1, 0, 2]).reshape([in1, out * in2])).reshape([rows, out, in2]);
        let y = half.matmul(right.reshape([rows, in2, 1])).reshape([rows, out]);
        let y = match &self.bias {
            Some(b) => y + b.get(),
            None => y,
        };
        let mut shape = a.to_vec();
        shape[a.rank() - 1] = out;
        y.reshape(shape).ok()
    }
}
