//! Rates from accumulated squares: Adagrad and Adadelta.
use super::{common, decayed, not_negative, rule};
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

rule! {
    /// Adagrad (Duchi et al. 2011).
    Adagrad { lr: 1e-2,
        /// decay of the learning rate by step
        lr_decay: f64 = 0.0,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// what the sum of squares starts from
        initial_accumulator_value: f64 = 0.0,
        /// added to the denominator
        eps: f64 = 1e-10,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adagrad {
    common!("Adagrad");
    const IS_ELEMENTWISE: bool = true;
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("lr_decay", self.lr_decay)?;
        not_negative("weight_decay", self.weight_decay)?;
        not_negative("initial_accumulator_value", self.initial_accumulator_value)?;
        not_negative("eps", self.eps)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        let rate = if slots.decide(|r| r.lr_decay == 0.0) {
            slots.rate("lr", |r| r.lr)?
        } else {
            slots.once("lr", |s| Ok(s.rate(|r| r.lr) / ((s.step() - 1.0) * s.rate(|r| r.lr_decay) + 1.0)))?
        };
        let sum = slots.filled("sum", p.shape()?, |r| r.initial_accumulator_value)? + &g * &g;
        slots.set("sum", &sum)?;
        Ok(p - g * rate / (sum.sqrt() + slots.rate("eps", |r| r.eps)?))
    }
}
rule! {
    /// Adadelta (Zeiler 2012).
    Adadelta { lr: 1.0,
        /// smoothing of the squares
        rho: f64 = 0.9,
        /// added to the squares
        eps: f64 = 1e-6,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Adadelta {
    common!("Adadelta");
    const IS_ELEMENTWISE: bool = true;
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("eps", self.eps)?;
        not_negative("weight_decay", self.weight_decay)?;
        if (0.0..=1.0).contains(&self.rho) { Ok(()) } else { Err(format!("rho is {}, it must be in [0, 1]", self.rho)) }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        let (rho, rest) = (slots.rate("rho", |r| r.rho)?, slots.rate("rest", |r| 1.0 - r.rho)?);
        let eps = slots.rate("eps", |r| r.eps)?;
        let square = slots.zeros("square_avg")? * &rho + &g * &g * &rest;
        let moved = slots.zeros("acc_delta")?;
        let delta = (&moved + &eps).sqrt() / (&square + &eps).sqrt() * g;
        slots.set("square_avg", &square)?;
        slots.set("acc_delta", &(moved * rho + &delta * &delta * rest))?;
        Ok(p - delta * slots.rate("lr", |r| r.lr)?)
    }
}
