//! The training of examples/digits on any device, with what the device was asked to run. Shared by the program that trains
//! to the end and the test that takes a few steps.
#[path = "../../../digits/src/net.rs"]
mod net;

use adamant::{
    Device, Result, Tensor,
    data::{DataLoader, Scale, Table, examples, split_by_rule},
    functional, nn,
    nn::{Module, Walk},
    no_grad,
    optim::{
        AdamW, Optimizer, UpdateRule,
        schedule::{CosineAnnealingLr, Scheduler},
    },
    schedule::{Stats, take_stats},
};
use net::Net;
use std::sync::Arc;

/// What a run came to.
pub struct Outcome {
    /// the loss of each step
    pub losses: Vec<f64>,
    /// test rows that the model has right, of how many
    pub right: i64,
    pub rows: usize,
    /// what the scheduler says that it ran
    pub stats: Stats,
}

/// Trains for `epochs`, at most `steps`, and tests. After each epoch `told(epoch, mean loss)`.
///
/// # Errors
/// The data cannot be read, or the device fails.
pub fn train(device: Device, seed: u64, epochs: u64, steps: usize, mut told: impl FnMut(u64, f64)) -> Result<Outcome> {
    device.scoped(|| {
        take_stats();
        nn::manual_seed(seed);
        let table = Table::read_csv(concat!(env!("CARGO_MANIFEST_DIR"), "/../digits/data/digits.csv.gz"))?;
        let all = examples(table.classification(64, 10, Scale { divide: 16.0, ..Scale::default() })?);
        // Row i is tested on if (i / 10) mod 5 = 4.
        let (train, test) = split_by_rule(all, 10, 5, 4)?;
        let mut loader = DataLoader::new(Arc::new(train)).batch_size(64).shuffle(seed).build()?;

        let net = Net::new()?;
        let mut optimizer = AdamW::new(2e-3).weight_decay(1e-2).over(net.parameters());
        let mut schedule = Scheduler::new(CosineAnnealingLr { t_max: epochs * loader.batches() as u64, eta_min: 0.0 }, &mut optimizer);
        let mut losses: Vec<f64> = Vec::new();
        for epoch in 1..=epochs {
            let before = losses.len();
            for batch in loader.epoch().take(steps - before) {
                let (x, y) = batch?;
                let loss = functional::cross_entropy(&net.forward(&x)?, &y, &Default::default());
                optimizer.step(&loss.backward()?)?;
                schedule.step(&mut optimizer);
                losses.push(loss.item()?);
            }
            told(epoch, losses[before..].iter().sum::<f64>() / (losses.len() - before).max(1) as f64);
        }

        net.eval();
        let (mut right, mut rows) = (0, 0);
        for batch in DataLoader::new(Arc::new(test)).batch_size(256).build()?.epoch() {
            let (x, y) = batch?;
            let hits: Tensor = no_grad(|| Ok::<_, adamant::Error>(net.forward(&x)?.argmax(-1).eq(&y).sum(..)))?;
            right += hits.item::<i64>()?;
            rows += y.shape()?[0];
        }
        Ok(Outcome { losses, right, rows, stats: take_stats() })
    })
}
