//! A short training of a model that is there already, step by step, and how fast models answer beside each other.
use adamant::{
    Result, Tensor,
    data::DataLoader,
    nn::{Sequential, Walk},
    no_grad,
    optim::Optimizer,
};
use adamant_train::{Failure, Objective, dataset::Parts};
use std::time::Instant;

/// A training, and where it is.
pub struct Tuning<'a> {
    pub parts: &'a Parts,
    pub objective: &'a Objective,
    /// rows of a step
    pub batch: usize,
    /// the largest rate, which falls to 0 in a line over all steps behind a short rise
    pub lr: f64,
    pub epochs: u64,
    pub seed: u64,
}
impl Tuning<'_> {
    /// Steps of an epoch.
    pub fn steps(&self) -> usize {
        self.parts.train.len().div_ceil(self.batch)
    }
    /// One epoch, or its first `most` steps. `after` is called behind each.
    pub fn epoch(
        &self,
        model: &Sequential,
        optimizer: &mut dyn Optimizer,
        epoch: u64,
        most: usize,
        after: &mut dyn FnMut() -> Result<()>,
    ) -> std::result::Result<(), Failure> {
        model.train();
        let total = (self.steps() as u64 * self.epochs) as f64;
        let mut loader = DataLoader::new(self.parts.train.clone()).batch_size(self.batch).shuffle(self.seed).build()?;
        loader.start_epoch(epoch);
        for (k, batch) in loader.epoch().take(most).enumerate() {
            let (x, y) = batch?;
            let way = (epoch as f64 * self.steps() as f64 + k as f64) / total;
            optimizer.set_lr(self.lr * (10.0 * way).clamp(0.02, 1.0) * (1.0 - way));
            let loss = self.objective.loss(&adamant::nn::Module::forward(model, &x)?, &y)?;
            optimizer.step(&loss.backward()?)?;
            after()?;
        }
        model.eval();
        Ok(())
    }
}
/// The median time of several closures, in seconds, called in turn so that what slows the machine down slows all of them.
pub fn interleaved<const N: usize>(rounds: usize, mut calls: [&mut dyn FnMut() -> Result<Tensor>; N]) -> Result<[f64; N]> {
    let mut seconds = [(); N].map(|()| Vec::new());
    for round in 0..rounds + 2 {
        for (call, seconds) in calls.iter_mut().zip(&mut seconds) {
            let started = Instant::now();
            no_grad(|| call()?.materialize())?;
            if round >= 2 {
                seconds.push(started.elapsed().as_secs_f64());
            }
        }
    }
    Ok(seconds.map(|mut of| {
        of.sort_by(f64::total_cmp);
        of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
    }))
}
