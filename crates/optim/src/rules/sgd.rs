//! Gradient descent and what is near to it: SGD, averaged SGD, RMSprop, Rprop.
use super::{common, decayed, not_negative, rule};
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

rule! {
    /// Stochastic gradient descent with momentum and Nesterov's look-ahead (Sutskever et al. 2013, as `torch.optim.SGD`).
    Sgd { lr: 1e-3,
        /// the part of the last update that is kept
        momentum: f64 = 0.0,
        /// the part of the gradient that momentum leaves out
        dampening: f64 = 0.0,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// look ahead along the momentum
        nesterov: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Sgd {
    common!("SGD");
    fn set_momentum(&mut self, momentum: f64) {
        self.momentum = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("momentum", self.momentum)?;
        not_negative("weight_decay", self.weight_decay)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) { Err("nesterov needs a momentum and no dampening".into()) } else { Ok(()) }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let mut g = decayed(g, p, self.weight_decay);
        if self.momentum != 0.0 {
            let first = slots.step() == 1.0;
            let buffer = slots.zeros("momentum_buffer")?;
            let buffer = if first { g.clone() } else { buffer * self.momentum + &g * (1.0 - self.dampening) };
            slots.set("momentum_buffer", &buffer)?;
            g = if self.nesterov { g + buffer * self.momentum } else { buffer };
        }
        Ok(p - g * self.lr)
    }
}

rule! {
    /// Averaged stochastic gradient descent (Polyak and Juditsky 1992). The average is in the slot `ax`.
    Asgd { lr: 1e-2,
        /// decay of the weights and of the step size
        lambd: f64 = 1e-4,
        /// power of the step size's decay
        alpha: f64 = 0.75,
        /// the step at which averaging begins
        t0: f64 = 1e6,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Asgd {
    common!("ASGD");
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("weight_decay", self.weight_decay)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let g = decayed(g, p, self.weight_decay);
        let step = slots.step();
        let (eta, mu) = (*slots.number("eta", self.lr as f32 as f64), *slots.number("mu", 1.0));
        let next = p * (1.0 - self.lambd * eta) - g * eta;
        let average = slots.zeros("ax")?;
        let average = if mu == 1.0 { next.clone() } else { &average + (&next - &average) * mu };
        slots.set("ax", &average)?;
        // PyTorch keeps both in f32.
        *slots.number("eta", 0.0) = (self.lr / (1.0 + self.lambd * self.lr * step).powf(self.alpha)) as f32 as f64;
        *slots.number("mu", 0.0) = (1.0 / (step - self.t0).max(1.0)) as f32 as f64;
        Ok(next)
    }
}

rule! {
    /// RMSprop (Hinton, lecture 6e; centered: Graves 2013).
    RmsProp { lr: 1e-2,
        /// smoothing of the squared gradient
        alpha: f64 = 0.99,
        /// added to the denominator
        eps: f64 = 1e-8,
        /// L2 penalty, added to the gradient
        weight_decay: f64 = 0.0,
        /// the part of the last update that is kept
        momentum: f64 = 0.0,
        /// divide by the standard deviation instead of the root mean square
        centered: bool = false,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for RmsProp {
    common!("RMSprop");
    fn set_momentum(&mut self, momentum: f64) {
        self.momentum = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("alpha", self.alpha)?;
        not_negative("eps", self.eps)?;
        not_negative("momentum", self.momentum)?;
        not_negative("weight_decay", self.weight_decay)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let g = decayed(g, p, self.weight_decay);
        let square = slots.zeros("square_avg")? * self.alpha + &g * &g * (1.0 - self.alpha);
        slots.set("square_avg", &square)?;
        let spread = if self.centered {
            let mean = super::lerp(&slots.zeros("grad_avg")?, &g, 1.0 - self.alpha);
            slots.set("grad_avg", &mean)?;
            (square - &mean * &mean).sqrt()
        } else {
            square.sqrt()
        } + self.eps;
        if self.momentum == 0.0 {
            return Ok(p - g * self.lr / spread);
        }
        let buffer = slots.zeros("momentum_buffer")? * self.momentum + g / spread;
        slots.set("momentum_buffer", &buffer)?;
        Ok(p - buffer * self.lr)
    }
}

rule! {
    /// Resilient propagation: each weight has a step size of its own, which grows while the gradient keeps its sign
    /// (Riedmiller and Braun 1993).
    Rprop { lr: 1e-2,
        /// factors by which step sizes shrink and grow
        etas: (f64, f64) = (0.5, 1.2),
        /// smallest and largest step size
        step_sizes: (f64, f64) = (1e-6, 50.0),
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for Rprop {
    common!("Rprop");
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        if 0.0 < self.etas.0 && self.etas.0 < 1.0 && 1.0 < self.etas.1 {
            Ok(())
        } else {
            Err(format!("etas are {:?}, the first must be in (0, 1), the second above 1", self.etas))
        }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
        let previous = slots.zeros("prev")?;
        let size = slots.get_or("step_size", &p.full_like(self.lr))?;
        let agreement = g * previous;
        let (up, down) = (agreement.gt(0.0), agreement.lt(0.0));
        let factor = up.select(p.full_like(self.etas.1), down.select(p.full_like(self.etas.0), p.ones_like()));
        let low = p.full_like(self.step_sizes.0);
        // min(a, high) as -max(-a, -high)
        let size = (size * factor).maximum(&low).neg().maximum(-self.step_sizes.1).neg();
        // Where the sign turned, this step is left out.
        let g = g.masked_fill(&down, 0.0);
        slots.set("prev", &g)?;
        slots.set("step_size", &size)?;
        Ok(p - g.sign() * size)
    }
}
