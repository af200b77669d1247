//! Linear maps.
use crate::{Module, Param, Role, Site, folded::LateBias, init};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor, ToShape, grad::no_grad};

/// y = x Wᵀ + b. Input `[.., in_features]`, output `[.., out_features]`; weight `[out_features, in_features]`.
///
/// Weight and bias start uniform in ±1/√in_features, as PyTorch's. A clone is the same layer, with these parameters; one with
/// parameters of its own is [`deep_copy`](crate::Walk::deep_copy)'s.
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
    #[module(flatten)]
    late_bias: LateBias,
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
        Ok(Linear::of(weight, None))
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
    /// With a bias, of as many input features as its first input has. Until then its parameters have no values, which is the error
    /// of reading them, of a state dict's tensors and of an optimizer's step; to load a state dict gives them theirs too.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let layer = Linear::lazy(2)?;
    /// assert!(layer.state_dict()[0].1.to_vec::<f32>().is_err());
    /// layer.forward(&Tensor::ones([5, 3]))?;
    /// assert_eq!(*layer.weight.meta().shape, [2, 3]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no device.
    ///
    /// Source: `torch.nn.LazyLinear`.
    #[track_caller]
    #[doc(alias = "LazyLinear")]
    pub fn lazy(out_features: usize) -> Result<Linear> {
        let layer = Linear::lazy_no_bias(out_features)?;
        Ok(Linear { bias: Some(lazy(out_features)?), ..layer })
    }
    /// As [`Linear::lazy`], without a bias.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn lazy_no_bias(out_features: usize) -> Result<Linear> {
        Ok(Linear::of(lazy([out_features, 0])?, None))
    }
    /// Gives a lazy layer its parameters by its first input.
    #[cold]
    #[track_caller]
    fn materialize(&self, x: &Tensor) -> Result<()> {
        let shape = x.shape()?;
        let Some(in_features) = shape.last() else {
            return Err(Error::new("linear", ErrorKind::Shape { shape, expected: "[.., in_features]".into() }));
        };
        let shape = [self.weight.meta().shape[0], *in_features];
        materialize_default(shape.as_slice(), &self.weight, self.bias.as_ref())
    }
    /// Of given parameters.
    pub(crate) fn of(weight: Param, bias: Option<Param>) -> Linear {
        let site = Site::taking_bias("Linear");
        Linear { late_bias: LateBias::at(&site), site, weight, bias }
    }
}
impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        if self.weight.is_uninitialized() {
            self.materialize(x)?;
        }
        let y = self.weight.linear(x, self.late_bias.or(self.bias.as_ref()).as_ref()).ok()?;
        call.end(y)
    }
}

/// A trainable parameter whose shape follows from a layer's first input: the sizes that do are 0.
#[track_caller]
pub(crate) fn lazy(shape: impl ToShape) -> Result<Param> {
    Param::uninitialized(shape, DType::F32, Role::Trainable)
}
/// Gives a lazy weight and its bias the values that PyTorch's layers start with.
#[track_caller]
pub(crate) fn materialize_default(shape: &[usize], weight: &Param, bias: Option<&Param>) -> Result<()> {
    no_grad(|| {
        weight.materialize(&init::default_weight(shape)?)?;
        match bias {
            Some(bias) => bias.materialize(&init::default_bias(bias.elements(), shape)?),
            None => Ok(()),
        }
    })
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
        Ok(Bilinear { site: Site::with_hooks("Bilinear"), weight, bias: None })
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
        let call = self.site.begin(&[left, right])?;
        let (left, right) = (call.input(0, left), call.input(1, right));
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
        let y = y.reshape(shape).ok()?;
        call.end(y)
    }
}
