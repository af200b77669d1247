//! The rate of stochastic weight averaging: from wherever it is to a constant one.
use super::{Anneal, Schedule};
use std::f64::consts::PI;

/// Goes from the rate that it finds to `swa_lr` within `anneal_epochs` steps and stays there (Izmailov et al. 2018, as
/// `torch.optim.swa_utils.SWALR`). Step it once for each epoch in which weights are averaged
/// ([`AveragedModel::swa`](crate::AveragedModel::swa)).
///
/// ```
/// use adamant_optim::schedule::{Anneal, Schedule, SwaLr};
///
/// let rates = SwaLr { swa_lr: 0.05, anneal_epochs: 2, anneal: Anneal::Linear }.rates(0.25, 4);
/// assert!(rates.iter().zip([0.25, 0.15, 0.05, 0.05]).all(|(got, want)| (got - want).abs() < 1e-15));
/// ```
#[doc(alias = "SWALR")]
#[derive(Clone, Debug)]
pub struct SwaLr {
    /// the rate at the end
    pub swa_lr: f64,
    /// steps on the way there
    pub anneal_epochs: u64,
    /// the shape of the way
    pub anneal: Anneal,
}
impl SwaLr {
    /// PyTorch's defaults: ten steps along half a cosine.
    pub fn new(swa_lr: f64) -> SwaLr {
        SwaLr { swa_lr, anneal_epochs: 10, anneal: Anneal::Cos }
    }
    /// How much of the way is behind after so many steps.
    fn share(&self, steps: f64) -> f64 {
        let t = (steps / self.anneal_epochs.max(1) as f64).clamp(0.0, 1.0);
        match self.anneal {
            Anneal::Linear => t,
            Anneal::Cos => (1.0 - (PI * t).cos()) / 2.0,
        }
    }
}
impl Schedule for SwaLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        let t = if self.anneal_epochs == 0 { t.max(1) } else { t } as f64;
        // Where it would have begun, from where it is.
        let behind = self.share(t - 1.0);
        let start = if behind == 1.0 { self.swa_lr } else { (present - behind * self.swa_lr) / (1.0 - behind) };
        let share = self.share(t);
        self.swa_lr * share + start * (1.0 - share)
    }
    fn restart(&self, base: f64, present: f64) -> f64 {
        self.lr(0, base, present)
    }
}
