//! Handwritten digits with a small CNN: data, loop and test, all in sight; the model is in net.rs.
//!
//!     cargo run --release -p digits [SEED]
mod net;

use adamant::{
    Device, Result, Tensor,
    data::{DataLoader, Scale, Table, examples, split_by_rule},
    formats::safetensors,
    functional, nn,
    nn::{Module, Walk},
    no_grad,
    optim::{
        AdamW, Optimizer, UpdateRule,
        schedule::{CosineAnnealingLr, Scheduler},
    },
};
use net::Net;
use std::{collections::BTreeMap, sync::Arc};

const EPOCHS: u64 = 30;
const BATCH: usize = 64;

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("on {}", Device::current()?);
    nn::manual_seed(seed);
    let table = Table::read_csv(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz"))?;
    let all = examples(table.classification(64, 10, Scale { divide: 16.0, ..Scale::default() })?);
    // Row i is tested on if (i / 10) mod 5 = 4.
    let (train, test) = split_by_rule(all, 10, 5, 4)?;
    let mut loader = DataLoader::new(Arc::new(train)).batch_size(BATCH).shuffle(seed).build()?;

    let net = Net::new()?;
    let mut optimizer = AdamW::new(2e-3).weight_decay(1e-2).over(net.parameters());
    let mut schedule = Scheduler::new(CosineAnnealingLr { t_max: EPOCHS * loader.batches() as u64, eta_min: 0.0 }, &mut optimizer);
    for epoch in 1..=EPOCHS {
        let mut losses = Vec::new();
        for batch in loader.epoch() {
            let (x, y) = batch?;
            let loss = functional::cross_entropy(&net.forward(&x)?, &y, &Default::default());
            optimizer.step(&loss.backward()?)?;
            schedule.step(&mut optimizer);
            losses.push(loss.detach());
        }
        // A read is a wait, so losses are read when the epoch is over.
        let mean = Tensor::stack(&losses, 0).mean(..).item::<f64>()?;
        println!("epoch {epoch:>2}/{EPOCHS}  loss {mean:.4}");
    }

    net.eval();
    let mut right = 0;
    let mut rows = 0;
    let mut tests = DataLoader::new(Arc::new(test)).batch_size(256).build()?;
    for batch in tests.epoch() {
        let (x, y) = batch?;
        right += no_grad(|| net.forward(&x)?.argmax(-1).eq(&y).sum(..).item::<i64>())?;
        rows += y.shape()?[0];
    }
    println!("test accuracy {:.2} % ({right} of {rows} rows)", 100.0 * right as f64 / rows as f64);
    safetensors::save("digits.safetensors", net.state_dict(), &BTreeMap::new())?;
    println!("weights in digits.safetensors");
    Ok(())
}
