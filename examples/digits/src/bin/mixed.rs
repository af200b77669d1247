//! The digits in mixed precision: products in 16 bits, weights and losses in f32.
//!
//!     cargo run --release -p digits --bin mixed -- [f32|bf16|f16] [SEED]
#[path = "../net.rs"]
mod net;

use adamant::{
    DType, Result, Tensor,
    amp::{Autocast, GradScaler, MixedPrecisionTrainer, ScalerOptions},
    data::{DataLoader, Scale, Table, examples, split_by_rule},
    functional, nn,
    nn::{Module, Walk},
    no_grad,
    optim::{
        AdamW, UpdateRule,
        schedule::{CosineAnnealingLr, Scheduler},
    },
};
use net::Net;
use std::sync::Arc;

const EPOCHS: u64 = 30;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_else(|| "f16".into());
    let seed = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let region = match mode.as_str() {
        "f32" => Autocast::new(DType::BF16)?.enabled(false),
        "bf16" => Autocast::new(DType::BF16)?,
        _ => Autocast::new(DType::F16)?,
    };
    // bf16 has f32's range: its gradients do not vanish.
    let scaler = GradScaler::with(ScalerOptions { enabled: region.is_enabled() && region.dtype() == DType::F16, ..ScalerOptions::default() })?;

    nn::manual_seed(seed);
    let table = Table::read_csv(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz"))?;
    let all = examples(table.classification(64, 10, Scale { divide: 16.0, ..Scale::default() })?);
    let (train, test) = split_by_rule(all, 10, 5, 4)?;
    let mut loader = DataLoader::new(Arc::new(train)).batch_size(64).shuffle(seed).build()?;
    let net = Net::new()?;
    let mut optimizer = AdamW::new(2e-3).weight_decay(1e-2).over(net.parameters());
    let mut schedule = Scheduler::new(CosineAnnealingLr { t_max: EPOCHS * loader.batches() as u64, eta_min: 0.0 }, &mut optimizer);
    let mut trainer = MixedPrecisionTrainer::with(net, optimizer, region.clone(), scaler);
    let mut last = Tensor::scalar(0f32);
    for _ in 0..EPOCHS {
        for batch in loader.epoch() {
            let (x, y) = batch?;
            last = trainer.train_step(|net| Ok(functional::cross_entropy(&net.forward(&x)?, &y, &Default::default())))?;
            schedule.step(trainer.optimizer());
        }
    }
    println!("{mode}, seed {seed}: the last loss is {:.4}; {:?}", last.item::<f32>()?, trainer.scaler().stats()?);

    trainer.model().eval();
    let (mut right, mut rows) = (0, 0);
    let mut tests = DataLoader::new(Arc::new(test)).batch_size(256).build()?;
    for batch in tests.epoch() {
        let (x, y) = batch?;
        right += no_grad(|| region.run(|| trainer.model().forward(&x)))?.argmax(-1).eq(&y).sum(..).item::<i64>()?;
        rows += y.shape()?[0];
    }
    println!("test accuracy {:.2} % ({right} of {rows} rows)", 100.0 * right as f64 / rows as f64);
    Ok(())
}
