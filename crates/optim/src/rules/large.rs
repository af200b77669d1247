//! For large models: Adafactor, Lion, LAMB.
use super::{below_one, common, decayed, lerp_from, not_negative, rule, weight};
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

/// √(sum of squares), a 0-d tensor.
#[track_caller]
fn norm(x: &Tensor) -> Tensor {
    (x * x).sum(..).sqrt()
}

rule! {
    /// Adafactor: the second moment of a matrix as a row and a column (Shazeer and Stern 2018), as `torch.optim.Adafactor`.
    Adafactor { lr: 1e-2,
        /// power by which the smoothing of the second moment grows
        beta2_decay: f64 = -0.8,
        /// floors of the squared gradient (`None`: the dtype's epsilon) and of the parameter's scale
        eps: (Option<f64>, f64) = (None, 1e-3),
        /// largest root mean square of an update
        d: f64 = 1.0,
        /// the weights shrink by this part of the learning rate
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adafactor {
    common!("Adafactor");
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("weight_decay", self.weight_decay)?;
        if self.beta2_decay > 0.0 { Err(format!("beta2_decay is {}, it must not be positive", self.beta2_decay)) } else { Ok(()) }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let meta = p.try_meta()?;
        let epsilon = match meta.dtype {
            adamant_core::DType::F64 => f64::EPSILON,
            adamant_core::DType::F16 => 2f64.powi(-10),
            adamant_core::DType::BF16 => 2f64.powi(-7),
            _ => f32::EPSILON as f64,
        };
        let count = (meta.shape.elements() as f64).sqrt();
        let least = slots.rate("least_scale", |r| r.eps.1)?;
        let rate = slots.once("relative_lr", |s| {
            let (lr, falling) = (s.rate(|r| r.lr), s.step().sqrt().reciprocal());
            Ok(lr.lt(&falling).where_(&lr, &falling))
        })?;
        let alpha = (norm(p) / count).maximum(&least) * rate;
        let p = if slots.decide(|r| r.weight_decay == 0.0) { p.clone() } else { p * slots.rate("shrink", |r| 1.0 - r.lr * r.weight_decay)? };
        // The step to the power of the decay: how much of the mean is fresh.
        let fresh = slots.once("fresh", |s| Ok((s.step().log() * s.rate(|r| r.beta2_decay)).exp()))?;
        let fresh = weight(&fresh);
        let fresh = (&fresh.0, &fresh.1);
        let floor = slots.rate("floor", move |r| r.floor(epsilon))?;
        let variance = if meta.shape.rank() > 1 {
            let mean_square = |axis: isize| -> Result<Tensor> {
                let len = meta.shape[meta.shape.axis(axis).unwrap_or(0)] as f64;
                ((g * g).sum_keepdim(axis) / len).ok()
            };
            let (row, col) = (mean_square(-1)?, mean_square(-2)?);
            let row = lerp_from(fresh, &slots.filled("row_var", row.shape()?, |_| 0.0)?, &row);
            let col = lerp_from(fresh, &slots.filled("col_var", col.shape()?, |_| 0.0)?, &col);
            slots.set("row_var", &row)?;
            slots.set("col_var", &col)?;
            let rows = meta.shape[meta.shape.rank() - 2] as f64;
            &row * &col / (row.sum_keepdim(-2) / rows).maximum(&floor)
        } else {
            let variance = lerp_from(fresh, &slots.zeros("variance")?, &(g * g));
            slots.set("variance", &variance)?;
            variance
        };
        let least = slots.rate("least_variance", move |r| r.floor(epsilon).powi(2))?;
        let update = g / variance.maximum(&least).sqrt();
        let clip = (norm(&update) / (slots.rate("d", |r| r.d)? * count)).maximum(1.0);
        Ok(p - update * (alpha / clip))
    }
}
impl Adafactor {
    fn floor(&self, epsilon: f64) -> f64 {
        self.eps.0.unwrap_or(epsilon)
    }
}
rule! {
    /// Lion: the sign of an interpolated momentum (Chen et al. 2023, algorithm 2).
    Lion { lr: 1e-4,
        /// interpolation for the update and smoothing of the momentum
        betas: (f64, f64) = (0.9, 0.99),
        /// decoupled decay of the weights
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Lion {
    common!("Lion");
    const IS_ELEMENTWISE: bool = true;
    fn set_momentum(&mut self, momentum: f64) {
        self.betas.0 = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("weight_decay", self.weight_decay)?;
        below_one("the first beta", self.betas.0)?;
        below_one("the second beta", self.betas.1)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let mean = slots.zeros("exp_avg")?;
        let (beta1, rest1) = (slots.rate("beta1", |r| r.betas.0)?, slots.rate("rest1", |r| 1.0 - r.betas.0)?);
        let (beta2, rest2) = (slots.rate("beta2", |r| r.betas.1)?, slots.rate("rest2", |r| 1.0 - r.betas.1)?);
        let direction = (&mean * beta1 + g * rest1).sign();
        slots.set("exp_avg", &(mean * beta2 + g * rest2))?;
        Ok(p - decayed(&direction, p, |r: &Self| r.weight_decay, slots)? * slots.rate("lr", |r| r.lr)?)
    }
}
rule! {
    /// LAMB: Adam's direction at the length of the layer's weights (You et al. 2020, algorithm 2).
    Lamb { lr: 1e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator
        eps: f64 = 1e-6,
        /// decay of the weights, inside the trust ratio
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Lamb {
    common!("LAMB");
    fn set_momentum(&mut self, momentum: f64) {
        self.betas.0 = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("eps", self.eps)?;
        not_negative("weight_decay", self.weight_decay)?;
        below_one("the first beta", self.betas.0)?;
        below_one("the second beta", self.betas.1)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let (beta1, rest1) = (slots.rate("beta1", |r| r.betas.0)?, slots.rate("rest1", |r| 1.0 - r.betas.0)?);
        let (beta2, rest2) = (slots.rate("beta2", |r| r.betas.1)?, slots.rate("rest2", |r| 1.0 - r.betas.1)?);
        let mean = slots.zeros("exp_avg")? * beta1 + g * rest1;
        let square = slots.zeros("exp_avg_sq")? * beta2 + g * g * rest2;
        slots.set("exp_avg", &mean)?;
        slots.set("exp_avg_sq", &square)?;
        let mean = mean / slots.once("correction1", |s| Ok(s.correction(|r| r.betas.0)))?;
        let square = square / slots.once("correction2", |s| Ok(s.correction(|r| r.betas.1)))?;
        let update = mean / (square.sqrt() + slots.rate("eps", |r| r.eps)?);
        let update = decayed(&update, p, |r: &Self| r.weight_decay, slots)?;
        let (weights, length) = (norm(p), norm(&update));
        // The trust ratio is 1 where either norm is 0.
        let ratio = weights.gt(0.0).logical_and(length.gt(0.0)).where_(&weights / &length, 1.0);
        Ok(p - update * (ratio * slots.rate("lr", |r| r.lr)?))
    }
}
