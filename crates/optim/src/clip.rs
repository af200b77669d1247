//! Gradient clipping. Nothing is clipped unless it is asked for.
use adamant_core::{Error, ErrorKind, Grads, Result, Tensor};
use adamant_nn::Param;

/// What is done to gradients before a step. The default, also of the trainer, is nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum ClipPolicy {
    /// Gradients are used as they are.
    #[default]
    Off,
    /// If the norm of all gradients together is above this, all are scaled down to it: the direction stays.
    Norm(f64),
    /// Every element is cut off at ± this: the direction may change.
    Value(f64),
}
impl ClipPolicy {
    /// Applies the policy to the gradients of the parameters.
    ///
    /// # Errors
    /// A limit that is not a positive number.
    #[track_caller]
    pub fn apply(self, grads: &mut Grads, parameters: &[Param]) -> Result<()> {
        match self {
            ClipPolicy::Off => Ok(()),
            ClipPolicy::Norm(max) => clip_grad_norm(grads, parameters, max).map(|_| ()),
            ClipPolicy::Value(max) => clip_grad_value(grads, parameters, max),
        }
    }
}
impl std::fmt::Display for ClipPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClipPolicy::Off => f.write_str("off"),
            ClipPolicy::Norm(max) => write!(f, "norm {max}"),
            ClipPolicy::Value(max) => write!(f, "value {max}"),
        }
    }
}
#[track_caller]
fn positive(called: &'static str, limit: f64) -> Result<()> {
    if limit > 0.0 {
        Ok(())
    } else {
        Err(Error::new(called, ErrorKind::Argument(format!("gradients cannot be clipped at {limit}, only at a positive number"))))
    }
}
/// Scales all gradients by min(1, max / (norm + 1e-6)), as `torch.nn.utils.clip_grad_norm_`; returns the norm
/// before, a 0-d tensor that need not be read.
///
/// # Errors
/// A limit that is not positive; no gradient at all.
#[track_caller]
pub fn clip_grad_norm(grads: &mut Grads, parameters: &[Param], max: f64) -> Result<Tensor> {
    positive("clip_grad_norm", max)?;
    let mut total: Option<Tensor> = None;
    for g in parameters.iter().filter_map(|p| grads.of(&p.cell())) {
        // The norm of the norms, in the order of the parameters.
        let norm = (g * g).sum(..).sqrt();
        let square = &norm * &norm;
        total = Some(match total {
            Some(sum) => sum + square,
            None => square,
        });
    }
    let Some(total) = total else {
        return Err(Error::new("clip_grad_norm", ErrorKind::Argument("none of the parameters has a gradient".into())));
    };
    let norm = total.sqrt().ok()?;
    // min(1, r) as -max(-1, -r)
    let scale = (&norm + 1e-6).binary_reversed(adamant_core::scalar::Binary::Div, max).neg().maximum(-1.0).neg();
    for p in parameters {
        if let Some(g) = grads.of(&p.cell()) {
            let clipped = (g * scale.cast(g.dtype()?)).ok()?;
            grads.set(&p.cell(), clipped);
        }
    }
    Ok(norm)
}
/// Cuts every element off at ± `max`.
///
/// # Errors
/// A limit that is not positive.
#[track_caller]
pub fn clip_grad_value(grads: &mut Grads, parameters: &[Param], max: f64) -> Result<()> {
    positive("clip_grad_value", max)?;
    for p in parameters {
        if let Some(g) = grads.of(&p.cell()) {
            let clipped = g.maximum(-max).neg().maximum(-max).neg().ok()?;
            grads.set(&p.cell(), clipped);
        }
    }
    Ok(())
}
