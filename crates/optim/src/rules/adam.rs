//! Adam and its family.
use super::{RuleNumber, below_one, common, decayed, not_negative, rule, toward};
use crate::{Scalars, Slots, UpdateRule};
use adamant_core::{DType, Result, Tensor};

/// What the family shares: its hyper-parameters.
trait MomentRule: UpdateRule {
    fn betas(&self) -> (f64, f64);
    fn eps(&self) -> f64;
}
macro_rules! moments {
    ($($name:ident)*) => { $(
        impl MomentRule for $name {
            fn betas(&self) -> (f64, f64) {
                self.betas
            }
            fn eps(&self) -> f64 {
                self.eps
            }
        }
    )* };
}
moments! { Adam AdamW Adamax NAdam RAdam }
/// Checks the hyper-parameters that the family shares, and lets schedules cycle the first beta.
macro_rules! family {
    ($name:literal) => {
        common!($name);
        const IS_ELEMENTWISE: bool = true;
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
/// The running mean of the square: v <- β₂ v + (1 - β₂) g².
#[track_caller]
fn square<R: MomentRule>(g: &Tensor, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    let (beta, rest) = (slots.rate("beta2", |r| r.betas().1)?, slots.rate("rest2", |r| 1.0 - r.betas().1)?);
    let square = slots.zeros("exp_avg_sq")? * beta + g * g * rest;
    slots.set("exp_avg_sq", &square)?;
    Ok(square)
}
/// The running mean of the gradient.
#[track_caller]
fn mean<R: MomentRule>(g: &Tensor, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    let mean = toward(&slots.zeros("exp_avg")?, g, "rest1", |r| 1.0 - r.betas().0, slots)?;
    slots.set("exp_avg", &mean)?;
    Ok(mean)
}
/// √(1 - β₂ᵗ)
#[track_caller]
fn root<R: MomentRule>(s: &mut Scalars<'_, R>) -> Result<Tensor> {
    s.once("root", |s| Ok(s.correction(|r| r.betas().1).sqrt()))
}
/// The step that Adam and AdamW share.
#[track_caller]
fn adam<R: MomentRule>(p: &Tensor, g: &Tensor, amsgrad: impl Fn(&R) -> bool + Send + Sync + 'static, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    let (mean, mut square) = (mean(g, slots)?, square(g, slots)?);
    if slots.decide(amsgrad) {
        square = slots.zeros("max_exp_avg_sq")?.maximum(&square);
        slots.set("max_exp_avg_sq", &square)?;
    }
    // Both sides of the quotient times the root of the correction, as the paper's section 2 does: a division less for each
    // element.
    let rate = slots.once("corrected_lr", |s| Ok(root(s)? * s.rate(R::lr) / s.correction(|r| r.betas().0)))?;
    let floor = slots.once("corrected_eps", |s| Ok(root(s)? * s.rate(R::eps)))?;
    Ok(p - mean * rate / (square.sqrt() + floor))
}
/// Weights that shrink by a part of the learning rate.
#[track_caller]
fn shrunk<R: UpdateRule>(p: &Tensor, weight_decay: impl RuleNumber<R>, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    Ok(p * slots.rate("shrink", move |r| 1.0 - r.lr() * weight_decay(r))?)
}
/// The weights and the gradient of which one has the decay: the weights if it is decoupled.
#[track_caller]
fn either_decayed<R: UpdateRule>(
    p: &Tensor,
    g: &Tensor,
    is_decoupled: impl Fn(&R) -> bool + Send + Sync + 'static,
    weight_decay: impl RuleNumber<R>,
    slots: &mut Slots<'_, R>,
) -> Result<(Tensor, Tensor)> {
    Ok(if slots.decide(is_decoupled) { (shrunk(p, weight_decay, slots)?, g.clone()) } else { (p.clone(), decayed(g, p, weight_decay, slots)?) })
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
        /// the weights shrink instead, as in [`AdamW`]
        decoupled_weight_decay: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adam {
    family!("Adam");
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let (p, g) = either_decayed(p, g, |r: &Self| r.decoupled_weight_decay, |r: &Self| r.weight_decay, slots)?;
        adam(&p, &g, |r| r.amsgrad, slots)
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        adam(&shrunk(p, |r: &Self| r.weight_decay, slots)?, g, |r| r.amsgrad, slots)
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        let mean = mean(&g, slots)?;
        let beta = slots.rate("beta2", |r| r.betas.1)?;
        let largest = (slots.zeros("exp_inf")? * beta).maximum(g.abs() + slots.rate("eps", |r| r.eps)?);
        slots.set("exp_inf", &largest)?;
        let rate = slots.once("corrected_lr", |s| Ok(s.rate(|r| r.lr) / s.correction(|r| r.betas.0)))?;
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let (p, g) = either_decayed(p, g, |r: &Self| r.decoupled_weight_decay, |r: &Self| r.weight_decay, slots)?;
        let (mean, square) = (mean(&g, slots)?, square(&g, slots)?);
        let own = slots.once("own_lr", |s| {
            let (mu, product) = nesterov(s)?;
            Ok((mu.neg() + 1.0) * s.rate(|r| r.lr) / (product.neg() + 1.0))
        })?;
        let ahead = slots.once("ahead_lr", |s| {
            let (_, product) = nesterov(s)?;
            let mu_next = momentum(s, 1.0);
            Ok(&mu_next * s.rate(|r| r.lr) / ((product * &mu_next).neg() + 1.0))
        })?;
        let root = slots.once("root", |s| root(s))?;
        let spread = (square.sqrt() / root) + slots.rate("eps", |r| r.eps)?;
        Ok(p - g * own / &spread - mean * ahead / spread)
    }
}
/// The momentum of the step that is so many ahead.
#[track_caller]
fn momentum(s: &Scalars<'_, NAdam>, ahead: f64) -> Tensor {
    // 0.96 to the power of the step times the decay.
    let falling = ((s.step() + ahead) * s.rate(|r| r.momentum_decay * 0.96f64.ln())).exp();
    (falling * -0.5 + 1.0) * s.rate(|r| r.betas.0)
}
/// The momentum of this step and the product of all of them until now, which PyTorch keeps in f32.
#[track_caller]
fn nesterov(s: &mut Scalars<'_, NAdam>) -> Result<(Tensor, Tensor)> {
    let mu = s.once("mu", |s| Ok(momentum(s, 0.0)))?;
    let product = s.once("mu_product", |s| {
        let product = s.number("mu_product", |_| 1.0)? * mu.cast(DType::F32);
        s.set_number("mu_product", &product)?;
        Ok(product.cast(mu.dtype()?))
    })?;
    Ok((mu, product))
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let (p, g) = either_decayed(p, g, |r: &Self| r.decoupled_weight_decay, |r: &Self| r.weight_decay, slots)?;
        let (mean, square) = (mean(&g, slots)?, square(&g, slots)?);
        let rate = slots.once("corrected_lr", |s| Ok(s.rate(|r| r.lr) / s.correction(|r| r.betas.0)))?;
        let rectifies = slots.once("rectifies", |s| Ok(length(s)?.gt(5.0).cast(DType::F32)))?.gt(0.5);
        let factor = slots.once("factor", |s| {
            let rho = length(s)?;
            // Where nothing is rectified the formula may have no root, nor this denominator.
            let scale = |r: &RAdam| if r.longest() > 5.0 { (r.longest() - 4.0) * (r.longest() - 2.0) } else { 1.0 };
            let (infinite, scale) = (s.rate(RAdam::longest), s.rate(scale));
            Ok(((&rho - 4.0) * (&rho - 2.0) * infinite / (rho * scale)).maximum(0.0).sqrt() * root(s)?)
        })?;
        let adapt = factor / (square.sqrt() + slots.rate("eps", |r| r.eps)?);
        Ok(p - mean * rate * rectifies.where_(adapt, 1.0))
    }
}
impl RAdam {
    /// The length of the moving average after many steps (section 3.1 of the paper).
    fn longest(&self) -> f64 {
        2.0 / (1.0 - self.betas.1) - 1.0
    }
}
/// The length after t steps: ρ∞ - 2 t βᵗ / (1 - βᵗ), a small difference of large numbers at first. With x = -t ln β the quotient
/// is 1 / expm1(x) = 1 / x - 1 / 2 + q(x), of which 1 / x goes with ρ∞ in f64; q begins with x / 12 (Bernoulli's numbers).
#[track_caller]
fn length(s: &mut Scalars<'_, RAdam>) -> Result<Tensor> {
    s.once("length", |s| {
        let t = s.step();
        let x = &t * s.rate(|r| -r.betas.1.ln());
        let y = &x * &x;
        let series = &x * ((((&y * (1.0 / 47_900_160.0) - 1.0 / 1_209_600.0) * &y + 1.0 / 30_240.0) * &y - 1.0 / 720.0) * &y + 1.0 / 12.0);
        let plain = x.expm1().reciprocal() - x.reciprocal() + 0.5;
        let q = x.lt(0.25).where_(series, plain);
        Ok(s.rate(|r| r.longest() + 2.0 / r.betas.1.ln()) + &t - t * q * 2.0)
    })
}
