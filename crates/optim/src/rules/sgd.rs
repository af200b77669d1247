//! Gradient descent and what is near to it: SGD, averaged SGD, RMSprop, Rprop.
use super::{common, decayed, not_negative, rule};
use crate::{Slots, UpdateRule};
use adamant_core::{DType, Result, Tensor};

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
    const IS_ELEMENTWISE: bool = true;
    fn set_momentum(&mut self, momentum: f64) {
        self.momentum = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("momentum", self.momentum)?;
        not_negative("weight_decay", self.weight_decay)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) { Err("nesterov needs a momentum and no dampening".into()) } else { Ok(()) }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let mut g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        if slots.decide(|r| r.momentum != 0.0) {
            let (buffer, momentum) = (slots.zeros("momentum_buffer")?, slots.rate("momentum", |r| r.momentum)?);
            let buffer = if slots.decide(|r| r.dampening == 0.0) {
                // The first step's buffer is the gradient: the zeros add nothing.
                buffer * &momentum + &g
            } else {
                let first = slots.once("first", |s| Ok(s.step().eq(1.0).cast(DType::F32)))?.gt(0.5);
                first.where_(&g, buffer * &momentum + &g * slots.rate("taken", |r| 1.0 - r.dampening)?)
            };
            slots.set("momentum_buffer", &buffer)?;
            g = if slots.decide(|r| r.nesterov) { g + buffer * momentum } else { buffer };
        }
        Ok(p - g * slots.rate("lr", |r| r.lr)?)
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
    const IS_ELEMENTWISE: bool = true;
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("weight_decay", self.weight_decay)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        // What stood before this step, for PyTorch sets both after it, in f32.
        let eta = slots.once("eta", |s| {
            let eta = s.number("eta", |r| r.lr)?;
            let base = (s.step() * s.rate(|r| r.lambd * r.lr)).log1p() * s.rate(|r| r.alpha);
            s.set_number("eta", &(base.neg().exp() * s.rate(|r| r.lr)))?;
            Ok(eta.cast(base.dtype()?))
        })?;
        let mu = slots.once("mu", |s| {
            let mu = s.number("mu", |_| 1.0)?;
            let behind = (s.step() - s.rate(|r| r.t0)).maximum(1.0);
            s.set_number("mu", &behind.reciprocal())?;
            Ok(mu.cast(behind.dtype()?))
        })?;
        let now = eta.clone();
        let shrink = slots.once("shrink", move |s| Ok((now.cast(s.dtype()) * s.rate(|r| r.lambd)).neg() + 1.0))?;
        let next = p * shrink - g * eta;
        let average = slots.zeros("ax")?;
        let average = mu.eq(1.0).where_(&next, &average + (&next - &average) * mu);
        slots.set("ax", &average)?;
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
    const IS_ELEMENTWISE: bool = true;
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let g = decayed(g, p, |r: &Self| r.weight_decay, slots)?;
        let (alpha, rest) = (slots.rate("alpha", |r| r.alpha)?, slots.rate("rest", |r| 1.0 - r.alpha)?);
        let square = slots.zeros("square_avg")? * alpha + &g * &g * rest;
        slots.set("square_avg", &square)?;
        let spread = if slots.decide(|r| r.centered) {
            let mean = super::toward(&slots.zeros("grad_avg")?, &g, "taken", |r| 1.0 - r.alpha, slots)?;
            slots.set("grad_avg", &mean)?;
            (square - &mean * &mean).sqrt()
        } else {
            square.sqrt()
        } + slots.rate("eps", |r| r.eps)?;
        let lr = slots.rate("lr", |r| r.lr)?;
        if slots.decide(|r| r.momentum == 0.0) {
            return Ok(p - g * lr / spread);
        }
        let buffer = slots.zeros("momentum_buffer")? * slots.rate("momentum", |r| r.momentum)? + g / spread;
        slots.set("momentum_buffer", &buffer)?;
        Ok(p - buffer * lr)
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
    const IS_ELEMENTWISE: bool = true;
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        if 0.0 < self.etas.0 && self.etas.0 < 1.0 && 1.0 < self.etas.1 {
            Ok(())
        } else {
            Err(format!("etas are {:?}, the first must be in (0, 1), the second above 1", self.etas))
        }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let previous = slots.zeros("prev")?;
        let size = slots.filled("step_size", p.shape()?, |r| r.lr)?;
        let agreement = g * previous;
        let (up, down) = (agreement.gt(0.0), agreement.lt(0.0));
        let one = slots.once("one", |s| Ok(s.rate(|_| 1.0)))?;
        let factor = up.where_(slots.rate("grow", |r| r.etas.1)?, down.where_(slots.rate("fall", |r| r.etas.0)?, one));
        let low = slots.rate("smallest", |r| r.step_sizes.0)?;
        // min(a, high) as -max(-a, -high)
        let size = (size * factor).maximum(&low).neg().maximum(slots.rate("largest", |r| -r.step_sizes.1)?).neg();
        // Where the sign changed, this step is left out.
        let g = g.masked_fill(&down, 0.0);
        slots.set("prev", &g)?;
        slots.set("step_size", &size)?;
        Ok(p - g.sign() * size)
    }
}
