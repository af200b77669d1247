//! Adam and its family.
use super::{below_one, common, decayed, lerp, not_negative, rule};
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

/// Checks the hyper-parameters that the family shares, and lets schedules cycle the first beta.
macro_rules! family {
    ($name:literal) => {
        common!($name);
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
    };
}
/// The running means of the gradient and of its square.
#[track_caller]
fn moments(g: &Tensor, betas: (f64, f64), slots: &mut Slots<'_>) -> Result<(Tensor, Tensor)> {
    let mean = lerp(&slots.zeros("exp_avg")?, g, 1.0 - betas.0);
    let square = slots.zeros("exp_avg_sq")? * betas.1 + g * g * (1.0 - betas.1);
    slots.set("exp_avg", &mean)?;
    slots.set("exp_avg_sq", &square)?;
    Ok((mean, square))
}
/// The step that Adam and AdamW share.
#[track_caller]
fn adam(p: &Tensor, g: &Tensor, lr: f64, betas: (f64, f64), eps: f64, amsgrad: bool, slots: &mut Slots<'_>) -> Result<Tensor> {
    let step = slots.step();
    let (mean, mut square) = moments(g, betas, slots)?;
    if amsgrad {
        square = slots.zeros("max_exp_avg_sq")?.maximum(&square);
        slots.set("max_exp_avg_sq", &square)?;
    }
    let (correction1, correction2) = (1.0 - betas.0.powf(step), 1.0 - betas.1.powf(step));
    // Both sides of the quotient times the root of the correction, as the paper's section 2 does: a division less for each
    // element.
    let root = correction2.sqrt();
    Ok(p - mean * (lr * root / correction1) / (square.sqrt() + eps * root))
}

rule! {
    /// Adam (Kingma and Ba 2015); `amsgrad`: Reddi et al. 2018.
    Adam { lr: 1e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator
        eps: f64 = 1e-8,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// divide by the largest second moment so far
        amsgrad: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adam {
    family!("Adam");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        adam(p, &decayed(g, p, self.weight_decay), self.lr, self.betas, self.eps, self.amsgrad, slots)
    }
}
rule! {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    AdamW { lr: 1e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator
        eps: f64 = 1e-8,
        /// the weights shrink by this part of the learning rate
        weight_decay: f64 = 1e-2,
        /// divide by the largest second moment so far
        amsgrad: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for AdamW {
    family!("AdamW");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        adam(&(p * (1.0 - self.lr * self.weight_decay)), g, self.lr, self.betas, self.eps, self.amsgrad, slots)
    }
}
rule! {
    /// Adam by the infinity norm (Kingma and Ba 2015, section 7.1).
    Adamax { lr: 2e-3,
        /// smoothing of the gradient and of its largest size
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the gradient's size
        eps: f64 = 1e-8,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adamax {
    family!("Adamax");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let g = decayed(g, p, self.weight_decay);
        let mean = lerp(&slots.zeros("exp_avg")?, &g, 1.0 - self.betas.0);
        let largest = (slots.zeros("exp_inf")? * self.betas.1).maximum(g.abs() + self.eps);
        slots.set("exp_avg", &mean)?;
        slots.set("exp_inf", &largest)?;
        let rate = self.lr / (1.0 - self.betas.0.powf(slots.step()));
        Ok(p - mean * rate / largest)
    }
}
rule! {
    /// Adam with Nesterov's look-ahead (Dozat 2016).
    NAdam { lr: 2e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator
        eps: f64 = 1e-8,
        /// L2 penalty, added to the gradient unless decoupled
        weight_decay: f64 = 0.0,
        /// how fast the momentum rises
        momentum_decay: f64 = 4e-3,
        /// decay the weights as AdamW does
        decoupled_weight_decay: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for NAdam {
    family!("NAdam");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let step = slots.step();
        let (p, g) =
            if self.decoupled_weight_decay { (p * (1.0 - self.lr * self.weight_decay), g.clone()) } else { (p.clone(), decayed(g, p, self.weight_decay)) };
        let momentum = |t: f64| self.betas.0 * (1.0 - 0.5 * 0.96f64.powf(t * self.momentum_decay));
        let (mu, mu_next) = (momentum(step), momentum(step + 1.0));
        let product = slots.number("mu_product", 1.0);
        // PyTorch keeps the product in f32.
        *product = (*product as f32 * mu as f32) as f64;
        let product = *product;
        let (mean, square) = moments(&g, self.betas, slots)?;
        let spread = (square / (1.0 - self.betas.1.powf(step))).sqrt() + self.eps;
        let p = p - g * (self.lr * (1.0 - mu) / (1.0 - product)) / &spread;
        Ok(p - mean * (self.lr * mu_next / (1.0 - product * mu_next)) / spread)
    }
}
rule! {
    /// Adam whose adaptive rate is rectified while its variance is large (Liu et al. 2020).
    RAdam { lr: 1e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator
        eps: f64 = 1e-8,
        /// L2 penalty, added to the gradient unless decoupled
        weight_decay: f64 = 0.0,
        /// decay the weights as AdamW does
        decoupled_weight_decay: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for RAdam {
    family!("RAdam");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let step = slots.step();
        let (p, g) =
            if self.decoupled_weight_decay { (p * (1.0 - self.lr * self.weight_decay), g.clone()) } else { (p.clone(), decayed(g, p, self.weight_decay)) };
        let (mean, square) = moments(&g, self.betas, slots)?;
        let beta2_t = self.betas.1.powf(step);
        let (correction1, correction2) = (1.0 - self.betas.0.powf(step), 1.0 - beta2_t);
        let mean = mean / correction1;
        let rho_inf = 2.0 / (1.0 - self.betas.1) - 1.0;
        let rho = rho_inf - 2.0 * step * beta2_t / correction2;
        if rho <= 5.0 {
            return Ok(p - mean * self.lr);
        }
        let rectify = ((rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho)).sqrt();
        let adapt = (square.sqrt() + self.eps).binary_reversed(adamant_core::scalar::Binary::Div, correction2.sqrt());
        Ok(p - mean * self.lr * adapt * rectify)
    }
}
