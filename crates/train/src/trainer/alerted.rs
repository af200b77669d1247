//! What a program is told of its run while it lasts.
use super::Trainer;
use crate::{
    Failure,
    alerts::{Alerts, KeptAlerts},
    folder::RunFolder,
    watch::Watch,
};

impl<M, B> Trainer<M, B> {
    /// Rules on what the run logs, and who is told where one is met ([`crate::alerts`]). They change no bit of the run, and need its folder.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{Sgd, UpdateRule};
    /// # use adamant_train::Trainer;
    /// use adamant_train::alerts::{AlertRule, AlertWhen, Alerts};
    /// # adamant_core::Device::reference().make_current();
    /// # let model = Linear::new(2, 1)?;
    /// # let optimizer = Sgd::new(0.1).over(model.parameters());
    /// # let loss = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.forward(x)? - y).square().mean(..).ok();
    /// let alerts = Alerts::new().rule(AlertRule::new("jump", "train/loss", AlertWhen::Rises { percent: 50.0, steps: 100 }));
    /// let trainer = Trainer::new(model, optimizer, loss).alerts(alerts);
    /// # let _ = trainer;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    pub fn alerts(self, alerts: Alerts) -> Self {
        Trainer { alerts, ..self }
    }
}
/// Begins to watch, from what the checkpoint kept that the run goes on from.
pub(super) fn begin(
    alerts: &Alerts,
    folder: Option<&mut RunFolder>,
    (kept, resumed): (Option<KeptAlerts>, Option<u64>),
    watch: &mut dyn Watch,
) -> Result<(), Failure> {
    alerts.check()?;
    alerts.doubts().iter().for_each(|doubt| watch.warn(doubt));
    match folder {
        Some(folder) => folder.watch_for(alerts, resumed.map(|step| (kept.unwrap_or_default(), step))),
        None if alerts.is_empty() => Ok(()),
        None => {
            watch.warn("alerts are told by runs with a folder, and this one has none");
            Ok(())
        }
    }
}
