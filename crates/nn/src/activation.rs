//! Activations as layers. The functions are methods of `Tensor`; a layer adds its place in a model.
use crate::{Module, Param, Site, init};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor, shape::Axis};

/// Activation layers. `new` takes what PyTorch requires (before the semicolon), `with` all of PyTorch's options.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident $kind:literal ($($need:ident: $need_ty:ty = $usual:expr),*; $($field:ident: $ty:ty = $default:expr),*) |$self:ident, $x:ident| $body:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            site: Site,
            $(#[module(skip)] $need: $need_ty,)*
            $(#[module(skip)] $field: $ty,)*
        }
        impl $name {
            #[doc = concat!("The layer", $(" with ", stringify!($need),)* " and PyTorch's defaults.")]
            #[allow(clippy::new_without_default)]
            pub fn new($($need: $need_ty),*) -> $name {
                $name { site: Site::with_hooks($kind), $($need,)* $($field: $default),* }
            }
            activations!(@with $name $kind ($($need: $need_ty),*) ($($field: $ty),*));
        }
        impl Default for $name {
            #[doc = concat!("PyTorch's defaults" $(, "; ", stringify!($need), " = ", stringify!($usual))*, ".")]
            fn default() -> $name {
                $name::new($($usual),*)
            }
        }
        impl Module for $name {
            fn forward(&$self, $x: &Tensor) -> Result<Tensor> {
                crate::site::run!($self.site, $x => $body)
            }
        }
    )* };
    (@with $name:ident $kind:literal ($($need:ident: $need_ty:ty),*) ()) => {};
    (@with $name:ident $kind:literal ($($need:ident: $need_ty:ty),*) ($($field:ident: $ty:ty),+)) => {
        #[doc = concat!("The layer", $(" with ", stringify!($need),)* $(" with ", stringify!($field),)+ ".")]
        pub fn with($($need: $need_ty,)* $($field: $ty),+) -> $name {
            $name { site: Site::with_hooks($kind), $($need,)* $($field),+ }
        }
    };
}
activations! {
    /// The input itself.
    Identity "Identity" (;) |self, x| x.clone();
    /// max(x, 0).
    Relu "ReLU" (;) |self, x| x.relu();
    /// min(max(x, 0), 6).
    Relu6 "ReLU6" (;) |self, x| x.relu6();
    /// x above 0, negative_slope · x below.
    LeakyRelu "LeakyReLU" (; negative_slope: f64 = 0.01) |self, x| x.leaky_relu(self.negative_slope);
    /// x above 0, alpha (eˣ - 1) below (Clevert et al. 2016).
    Elu "ELU" (; alpha: f64 = 1.0) |self, x| x.elu(self.alpha);
    /// As ELU, continuously differentiable for every alpha (Barron 2017).
    Celu "CELU" (; alpha: f64 = 1.0) |self, x| x.celu(self.alpha);
    /// The self-normalising ELU (Klambauer et al. 2017).
    Selu "SELU" (;) |self, x| x.selu();
    /// x times the normal distribution function, or its tanh approximation (Hendrycks and Gimpel 2016).
    Gelu "GELU" (; tanh: bool = false) |self, x| if self.tanh { x.gelu_tanh() } else { x.gelu() };
    /// x · sigmoid(x).
    Silu "SiLU" (;) |self, x| x.silu();
    /// x · tanh(softplus(x)) (Misra 2019).
    Mish "Mish" (;) |self, x| x.mish();
    /// 1 / (1 + e⁻ˣ).
    Sigmoid "Sigmoid" (;) |self, x| x.sigmoid();
    /// The logarithm of the sigmoid.
    LogSigmoid "LogSigmoid" (;) |self, x| x.log_sigmoid();
    /// The hyperbolic tangent.
    Tanh "Tanh" (;) |self, x| x.tanh();
    /// x - tanh(x).
    Tanhshrink "Tanhshrink" (;) |self, x| x.tanhshrink();
    /// x / (1 + |x|).
    Softsign "Softsign" (;) |self, x| x.softsign();
    /// log(1 + exp(beta x)) / beta; x itself where beta · x is above the threshold.
    Softplus "Softplus" (; beta: f64 = 1.0, threshold: f64 = 20.0) |self, x| x.softplus_with(self.beta, self.threshold);
    /// x cut off at both ends.
    Hardtanh "Hardtanh" (; min_val: f64 = -1.0, max_val: f64 = 1.0) |self, x| x.hardtanh(self.min_val, self.max_val);
    /// The sigmoid in three straight pieces.
    Hardsigmoid "Hardsigmoid" (;) |self, x| x.hardsigmoid();
    /// x · hardsigmoid(x) (Howard et al. 2019).
    Hardswish "Hardswish" (;) |self, x| x.hardswish();
    /// x outside ±lambda, 0 inside.
    Hardshrink "Hardshrink" (; lambda: f64 = 0.5) |self, x| x.hardshrink(self.lambda);
    /// x moved toward 0 by lambda, 0 inside ±lambda.
    Softshrink "Softshrink" (; lambda: f64 = 0.5) |self, x| x.softshrink(self.lambda);
    /// x above the threshold, else the value.
    Threshold "Threshold" (threshold: f64 = 0.0, value: f64 = 0.0; ) |self, x| x.threshold(self.threshold, self.value);
    /// The first half along an axis times the sigmoid of the second (Dauphin et al. 2017).
    Glu "GLU" (; dim: isize = -1) |self, x| x.glu(self.dim);
    /// Exponentials along an axis, divided by their sum.
    Softmax "Softmax" (dim: isize = -1; ) |self, x| x.softmax(self.dim);
    /// The logarithm of the softmax.
    LogSoftmax "LogSoftmax" (dim: isize = -1; ) |self, x| x.log_softmax(self.dim);
    /// The softmax of the negative.
    Softmin "Softmin" (dim: isize = -1; ) |self, x| x.softmin(self.dim);
    /// The softmax over the channels of `[batch, channels, height, width]` (the batch may be missing).
    Softmax2d "Softmax2d" (;) |self, x| channels(x)?;
    /// As LeakyReLU, with a slope drawn for each element in training (Xu et al. 2015).
    RRelu "RReLU" (; lower: f64 = 1.0 / 8.0, upper: f64 = 1.0 / 3.0) |self, x| if self.site.is_training() { drawn_slope(x, self.lower, self.upper)? } else { x.leaky_relu((self.lower + self.upper) / 2.0) };
}
#[track_caller]
fn channels(x: &Tensor) -> Result<Tensor> {
    let shape = x.shape()?;
    if !(3..=4).contains(&shape.rank()) {
        return Err(Error::new("Softmax2d", ErrorKind::Shape { shape, expected: "[batch, channels, height, width] or [channels, height, width]".into() }));
    }
    x.softmax((-3isize).to_axis()).ok()
}
#[track_caller]
fn drawn_slope(x: &Tensor, lower: f64, upper: f64) -> Result<Tensor> {
    let slope = (init::generator(x.device()?)?.uniform(x.shape()?, DType::F32) * (upper - lower) + lower).cast(x.dtype()?);
    x.gt(0.0).where_(x, &(x * slope)).ok()
}

/// x above 0, a trained slope times x below: one slope, or one for each channel (He et al. 2015).
#[derive(Clone, Module)]
pub struct PRelu {
    site: Site,
    /// `[num_parameters]`
    pub weight: Param,
}
impl PRelu {
    /// One slope for all channels, starting at 0.25.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new() -> Result<PRelu> {
        PRelu::with(1, 0.25)
    }
    /// One slope or one for each channel, starting at `init`.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(num_parameters: usize, init: f64) -> Result<PRelu> {
        Ok(PRelu { site: Site::with_hooks("PReLU"), weight: Param::new(&init::constant(num_parameters, init)?)? })
    }
}
impl Module for PRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = x.prelu(&self.weight.get()).ok()?;
        call.end(y)
    }
}
