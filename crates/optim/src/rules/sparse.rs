//! For tables of which a step touches few rows: SparseAdam.
use super::{below_one, common, rule};
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

rule! {
    /// Adam that leaves the rows alone which a step did not touch: their weights and their running means (as `torch.optim.SparseAdam`).
    ///
    /// Tensors are dense here, so a row (an index of the first axis) counts as touched if any element of its gradient is not 0; a row
    /// that was looked up and whose gradient is 0 all over is one that PyTorch's would still move by its running mean. A gradient
    /// without such rows, of a layer that is no table, is therefore taken as it is: each row moves as by [`Adam`](crate::Adam). Steps
    /// are counted for the whole table, as PyTorch's are.
    SparseAdam { lr: 1e-3,
        /// smoothing of the gradient and of its square
        betas: (f64, f64) = (0.9, 0.999),
        /// added to the denominator, above 0
        eps: f64 = 1e-8,
        /// climb instead of descend
        maximize: bool = false,
    }
}
impl UpdateRule for SparseAdam {
    common!("SparseAdam");
    fn set_momentum(&mut self, momentum: f64) {
        self.betas.0 = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        for (name, v) in [("lr", self.lr), ("eps", self.eps)] {
            if !(v.is_finite() && v > 0.0) {
                return Err(format!("{name} is {v}, it must be above 0"));
            }
        }
        below_one("the first beta", self.betas.0)?;
        below_one("the second beta", self.betas.1)
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let rank = p.rank();
        let touched = if rank > 1 { g.abs().amax_keepdim((1..rank as isize).collect::<Vec<_>>()) } else { g.clone() };
        let touched = touched.ne(0.0);
        let (old_mean, old_square) = (slots.zeros("exp_avg")?, slots.zeros("exp_avg_sq")?);
        let mean = &old_mean + (g - &old_mean) * slots.rate("rest1", |r| 1.0 - r.betas.0)?;
        let square = &old_square + (g * g - &old_square) * slots.rate("rest2", |r| 1.0 - r.betas.1)?;
        slots.set("exp_avg", &touched.where_(&mean, &old_mean))?;
        slots.set("exp_avg_sq", &touched.where_(&square, &old_square))?;
        let rate = slots.once("corrected_lr", |s| Ok(s.correction(|r| r.betas.1).sqrt() * s.rate(|r| r.lr) / s.correction(|r| r.betas.0)))?;
        let moved = p - mean / (square.sqrt() + slots.rate("eps", |r| r.eps)?) * rate;
        Ok(touched.where_(moved, p))
    }
}
