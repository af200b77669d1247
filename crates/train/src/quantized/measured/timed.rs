//! How long layers take, each waited for to its end. A layer's time is without that of layers in it.
use super::{BothWays, WARM_UP, faster_half, mean, noise::Attached, run};
use crate::{Failure, Trained};
use adamant_core::{Error, Tensor};
use adamant_nn::{Submodule, Walk};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Seconds of layers, of what is in none, and of all.
pub(super) struct TimedLayers {
    pub layers: Vec<Option<BothWays<f64>>>,
    pub rest: BothWays<f64>,
    pub whole: BothWays<f64>,
}
/// A layer that is at work: when it began, and how long layers in it took.
struct OpenCall {
    begun: Instant,
    within: Duration,
}
struct LayerClock {
    open: Vec<OpenCall>,
    taken: Vec<Duration>,
}
impl LayerClock {
    fn of(layers: usize) -> LayerClock {
        LayerClock { open: Vec::new(), taken: vec![Duration::ZERO; layers] }
    }
}
type Shared = Arc<Mutex<LayerClock>>;
fn locked(of: &Mutex<LayerClock>) -> MutexGuard<'_, LayerClock> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
fn waited(tensors: &[Tensor]) -> Result<(), Error> {
    tensors.iter().try_for_each(|t| t.materialize().map(drop))
}
fn attach(layer: &Submodule, k: usize, clock: &Shared, hooks: &mut Attached) -> Result<(), Error> {
    let (before, after) = (clock.clone(), clock.clone());
    hooks.0.push(layer.site()?.register_forward_pre_hook(move |_, inputs| {
        waited(inputs)?;
        locked(&before).open.push(OpenCall { begun: Instant::now(), within: Duration::ZERO });
        Ok(None)
    })?);
    hooks.0.push(layer.site()?.register_forward_hook(move |_, _, outputs| {
        waited(outputs)?;
        let mut clock = locked(&after);
        if let Some(OpenCall { begun, within }) = clock.open.pop() {
            let all = begun.elapsed();
            if let Some(taken) = clock.taken.get_mut(k) {
                *taken += all.saturating_sub(within);
            }
            if let Some(outer) = clock.open.last_mut() {
                outer.within += all;
            }
        }
        Ok(None)
    })?);
    Ok(())
}
/// The times of one model's layers, and its runs.
struct TimedModel<'a> {
    trained: &'a Trained,
    clock: Shared,
    by_layer: Vec<Vec<f64>>,
    rests: Vec<f64>,
    runs: Vec<f64>,
    _hooks: Attached,
}
impl TimedModel<'_> {
    fn of<'a>(trained: &'a Trained, layers: &[Submodule]) -> Result<TimedModel<'a>, Failure> {
        let own: HashMap<String, Submodule> = trained.model.modules().into_iter().map(|m| (m.path().to_string(), m)).collect();
        let clock = Arc::new(Mutex::new(LayerClock::of(layers.len())));
        let mut hooks = Attached::default();
        for (k, layer) in layers.iter().enumerate() {
            if let Some(layer) = own.get(layer.path()).filter(|m| m.site().is_ok_and(|site| site.runs_hooks())) {
                attach(layer, k, &clock, &mut hooks)?;
            }
        }
        Ok(TimedModel { trained, clock, by_layer: vec![Vec::new(); layers.len()], rests: Vec::new(), runs: Vec::new(), _hooks: hooks })
    }
    fn take(&mut self, x: &Tensor, counts: bool) -> Result<(), Failure> {
        *locked(&self.clock) = LayerClock::of(self.by_layer.len());
        let all = run(self.trained, x)?;
        if counts {
            let taken = std::mem::take(&mut locked(&self.clock).taken);
            self.rests.push(all - taken.iter().map(Duration::as_secs_f64).sum::<f64>());
            self.by_layer.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken.as_secs_f64()));
            self.runs.push(all);
        }
        Ok(())
    }
}
/// Means over the faster half of runs of the two models in turn.
pub(super) fn by_layer(models: &BothWays<Trained>, layers: &[Submodule], x: &Tensor, times: usize) -> Result<TimedLayers, Failure> {
    let (mut codes, mut floats) = (TimedModel::of(&models.codes, layers)?, TimedModel::of(&models.floats, layers)?);
    for k in 0..times + WARM_UP {
        codes.take(x, k >= WARM_UP)?;
        floats.take(x, k >= WARM_UP)?;
    }
    let chosen = BothWays { codes: faster_half(&codes.runs), floats: faster_half(&floats.runs) };
    let means = |of_codes: &[f64], of_floats: &[f64]| BothWays { codes: mean(of_codes, &chosen.codes), floats: mean(of_floats, &chosen.floats) };
    let of_layer =
        |(layer, (codes, floats)): (&Submodule, (&Vec<f64>, &Vec<f64>))| layer.site().is_ok_and(|site| site.runs_hooks()).then(|| means(codes, floats));
    Ok(TimedLayers {
        layers: layers.iter().zip(codes.by_layer.iter().zip(&floats.by_layer)).map(of_layer).collect(),
        rest: means(&codes.rests, &floats.rests),
        whole: means(&codes.runs, &floats.runs),
    })
}
