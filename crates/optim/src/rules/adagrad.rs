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
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("lr_decay", self.lr_decay)?;
        not_negative("weight_decay", self.weight_decay)?;
        not_negative("initial_accumulator_value", self.initial_accumulator_value)?;
        not_negative("eps", self.eps)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let g = decayed(g, p, self.weight_decay);
        let rate = self.lr / (1.0 + (slots.step() - 1.0) * self.lr_decay);
        let sum = slots.get_or("sum", &p.full_like(self.initial_accumulator_value))? + &g * &g;
        slots.set("sum", &sum)?;
        Ok(p - g * rate / (sum.sqrt() + self.eps))
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
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("eps", self.eps)?;
        not_negative("weight_decay", self.weight_decay)?;
        if (0.0..=1.0).contains(&self.rho) { Ok(()) } else { Err(format!("rho is {}, it must be in [0, 1]", self.rho)) }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let g = decayed(g, p, self.weight_decay);
        let square = slots.zeros("square_avg")? * self.rho + &g * &g * (1.0 - self.rho);
        let moved = slots.zeros("acc_delta")?;
        let delta = (&moved + self.eps).sqrt() / (&square + self.eps).sqrt() * g;
        slots.set("square_avg", &square)?;
        slots.set("acc_delta", &(moved * self.rho + &delta * &delta * (1.0 - self.rho)))?;
        Ok(p - delta * self.lr)
    }
}
