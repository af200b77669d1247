//! Watching gradients: the norm of each parameter's, and which are too large.
//!
//! [`grad_norms`] records the norms of all parameters and reads them from the device at once; [`GradMonitor`] looks at
//! the numbers. Invariant: watching changes no gradient.
use adamant_core::{DType, Grads, Result, Tensor};
use adamant_nn::Param;

/// The Euclidean norm of each parameter's gradient, in the order of `parameters`, with one read of the device. A
/// parameter without a gradient is left out. Sums run in f32 or wider; a norm above f32's range is infinite.
///
/// # Errors
/// An error that a gradient carries.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(2, 1)?;
/// let grads = layer.forward(&Tensor::ones([1, 2]))?.sum(..).backward()?;
/// let norms = adamant_train::monitor::grad_norms(&grads, &layer.named_parameters())?;
/// assert_eq!(norms[1], ("bias".to_string(), 1.0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn grad_norms(grads: &Grads, parameters: &[(String, Param)]) -> Result<Vec<(String, f64)>> {
    read_norms(&norms(grads, parameters)?, parameters)
}
/// What a parameter without a gradient has in the place of a norm.
pub(crate) const NONE: f64 = -1.0;
/// The norm of each parameter's gradient, `[parameters]`, not yet computed.
#[track_caller]
pub(crate) fn norms(grads: &Grads, parameters: &[(String, Param)]) -> Result<Tensor> {
    let mut norms: Vec<Tensor> = Vec::with_capacity(parameters.len());
    for (_, parameter) in parameters {
        let Some(gradient) = grads.of(&parameter.cell()) else {
            norms.push(Tensor::full_on([1], NONE, DType::F32, parameter.meta().device));
            continue;
        };
        let wide = if gradient.dtype()? == DType::F64 { gradient.clone() } else { gradient.cast(DType::F32) };
        norms.push((&wide * &wide).sum(..).sqrt().cast(DType::F32).reshape([1]));
    }
    if norms.is_empty() { Tensor::zeros([0]).ok() } else { Tensor::cat(&norms, 0).ok() }
}
/// Reads what [`norms`] gave.
pub(crate) fn read_norms(norms: &Tensor, parameters: &[(String, Param)]) -> Result<Vec<(String, f64)>> {
    let values = norms.to_vec::<f32>()?.into_iter().map(f64::from);
    Ok(parameters.iter().map(|(name, _)| name.clone()).zip(values).filter(|(_, v)| *v != NONE).collect())
}
/// The same by names alone.
pub(crate) fn read_named(norms: &Tensor, names: &[String]) -> Result<Vec<(String, f64)>> {
    let values = norms.to_vec::<f32>()?.into_iter().map(f64::from);
    Ok(names.iter().cloned().zip(values).filter(|(_, v)| *v != NONE).collect())
}

/// Reports gradients whose norm is above a threshold.
///
/// ```
/// let monitor = adamant_train::monitor::GradMonitor { threshold: 10.0 };
/// let found = monitor.check(&[("0.weight".into(), 0.5), ("2.weight".into(), 70.0)]);
/// assert_eq!(found[0].to_string(), "the gradient of 2.weight has norm 70, above 10");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GradMonitor {
    /// the largest norm that is not reported
    pub threshold: f64,
}
impl Default for GradMonitor {
    /// A threshold of 10.
    fn default() -> GradMonitor {
        GradMonitor { threshold: 10.0 }
    }
}
/// A gradient that is too large.
#[derive(Clone, PartialEq, Debug)]
pub struct LargeGradient {
    /// the parameter's path
    pub name: String,
    /// the norm of its gradient
    pub norm: f64,
    /// what it was compared with
    pub threshold: f64,
}
impl std::fmt::Display for LargeGradient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the gradient of {} has norm {}, above {}", self.name, Short(self.norm), self.threshold)
    }
}
/// A norm without needless zeros.
struct Short(f64);
impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounded: f64 = format!("{:.4e}", self.0).parse().unwrap_or(self.0);
        if (1e-3..1e6).contains(&rounded.abs()) { write!(f, "{rounded}") } else { write!(f, "{rounded:e}") }
    }
}
impl GradMonitor {
    /// The norms above the threshold, in their order. A norm that is no number is above any threshold.
    pub fn check(&self, norms: &[(String, f64)]) -> Vec<LargeGradient> {
        let above = |norm: f64| norm.is_nan() || norm > self.threshold;
        let large = norms.iter().filter(|(_, norm)| above(*norm));
        large.map(|(name, norm)| LargeGradient { name: name.clone(), norm: *norm, threshold: self.threshold }).collect()
    }
    /// The gradients above the threshold, with one read of the device.
    ///
    /// # Errors
    /// As [`grad_norms`].
    #[track_caller]
    pub fn watch(&self, grads: &Grads, parameters: &[(String, Param)]) -> Result<Vec<LargeGradient>> {
        Ok(self.check(&grad_norms(grads, parameters)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;
    use adamant_nn::{Linear, Module, Sequential, Walk};

    #[test]
    fn a_planted_gradient_that_is_missed_and_a_healthy_one_that_is_reported() {
        Device::reference().make_current();
        let model = Sequential::new().add(Linear::new(4, 8).unwrap()).add(Linear::new(8, 2).unwrap());
        let parameters = model.named_parameters();
        let x = Tensor::ones([3, 4]);
        let mut grads = model.forward(&x).unwrap().sum(..).backward().unwrap();
        let norms = grad_norms(&grads, &parameters).unwrap();
        assert_eq!(norms.len(), 4);
        assert_eq!(norms[3], ("1.bias".into(), 18f64.sqrt() as f32 as f64));
        let monitor = GradMonitor { threshold: 30.0 };
        assert_eq!(monitor.check(&norms), []);
        let (_, planted) = &parameters[2];
        let large = grads.of(&planted.cell()).unwrap() * 100.0;
        grads.set(&planted.cell(), large);
        let found = monitor.watch(&grads, &parameters).unwrap();
        assert_eq!(found.iter().map(|f| &*f.name).collect::<Vec<_>>(), ["1.weight"]);
        assert!((found[0].norm / norms[2].1 - 100.0).abs() < 1e-3);
    }
    #[test]
    fn a_norm_that_is_no_number_and_passes() {
        let norms = [("a".to_string(), f64::NAN), ("b".to_string(), f64::INFINITY), ("c".to_string(), 10.0)];
        assert_eq!(GradMonitor::default().check(&norms).len(), 2);
    }
    #[test]
    fn parameters_without_gradients() {
        Device::reference().make_current();
        let layer = Linear::new(2, 2).unwrap();
        assert_eq!(grad_norms(&Grads::default(), &layer.named_parameters()).unwrap(), []);
    }
}
