//! Dropout. The draws come from the thread's generator of the input's device (see [`crate::manual_seed`]).
use crate::{Module, Site, init};
use adamant_core::{Error, ErrorKind, Result, Tensor, functional};

#[track_caller]
fn probability(p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(Error::new("dropout", ErrorKind::Argument(format!("p is {p}, a probability is from 0 to 1")))) }
}
macro_rules! dropout {
    ($(#[$doc:meta])* $name:ident $kind:literal: |$x:ident, $p:ident| $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            site: Site,
            p: f64,
        }
        impl $name {
            /// With probability `p` of dropping.
            ///
            /// # Errors
            /// A number that is no probability.
            #[track_caller]
            pub fn new(p: f64) -> Result<$name> {
                Ok($name { site: Site::with_hooks($kind), p: probability(p)? })
            }
        }
        impl Module for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                crate::site::run!(self.site, $x => if !self.site.is_training() || self.p == 0.0 {
                    $x.clone()
                } else {
                    let $p = self.p;
                    $body
                })
            }
        }
    };
}
dropout! {
    /// In training each element is zero with probability p, else divided by 1 - p (Srivastava et al. 2014).
    Dropout "Dropout": |x, p| functional::dropout(x, p, &init::generator(x.device()?)?)
}
/// One factor for each channel of each sample: zero or 1 / (1 - p).
#[track_caller]
fn by_channel(x: &Tensor, p: f64, spatial: usize) -> Result<Tensor> {
    let shape = x.shape()?;
    if shape.rank() < spatial + 1 || shape.rank() > spatial + 2 {
        return Err(Error::new("dropout", ErrorKind::Shape { shape, expected: format!("{} or {} axes", spatial + 1, spatial + 2) }));
    }
    let mut mask = shape.to_vec();
    let channel = shape.rank() - spatial;
    mask[channel..].fill(1);
    let ones = Tensor::full_on(mask, 1.0, x.dtype()?, x.device()?);
    (x * functional::dropout(&ones, p, &init::generator(x.device()?)?)).ok()
}
dropout! {
    /// In training whole channels of `[batch, channels, length]` are zero with probability p.
    Dropout1d "Dropout1d": |x, p| by_channel(x, p, 1)?
}
dropout! {
    /// In training whole channels of `[batch, channels, height, width]` are zero with probability p (Tompson et al. 2015).
    Dropout2d "Dropout2d": |x, p| by_channel(x, p, 2)?
}
dropout! {
    /// In training whole channels of `[batch, channels, depth, height, width]` are zero with probability p.
    Dropout3d "Dropout3d": |x, p| by_channel(x, p, 3)?
}
dropout! {
    /// As [`AlphaDropout`], of whole channels of `[batch, channels, ..]`.
    ///
    /// Source: `torch.nn.FeatureAlphaDropout`.
    FeatureAlphaDropout "FeatureAlphaDropout": |x, p| functional::feature_alpha_dropout(x, p, &init::generator(x.device()?)?)
}
dropout! {
    /// Dropout for networks of SELU: dropped elements become SELU's lower limit, and mean and variance stay
    /// (Klambauer et al. 2017).
    AlphaDropout "AlphaDropout": |x, p| {
        // SELU's -scale · alpha
        let low = -1.758_099_340_847_376_6;
        let a = ((1.0 - p) * (1.0 + p * low * low)).sqrt().recip();
        let uniform = init::generator(x.device()?)?.uniform(x.shape()?, adamant_core::DType::F32);
        let kept = uniform.ge(p).where_(x, x.full_like(low));
        kept * a - a * p * low
    }
}
