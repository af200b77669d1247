//! MNIST with a CNN of layers in a row, batches read ahead by two workers.
//!
//!     cargo run --release -p mnist -- DIR [SEED]
//!
//! DIR holds the four IDX files of MNIST, gzipped, under their usual names.
use adamant::{
    Error, ErrorKind, Result, Tensor,
    data::{DataLoader, Dataset, Examples, Idx, Labelled, Scale, examples},
    functional::{self, CrossEntropyOptions},
    nn,
    nn::{Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, Walk},
    no_grad,
    optim::{
        AdamW, Optimizer, UpdateRule,
        schedule::{OneCycleLr, Scheduler},
    },
};
use std::{path::Path, time::Instant};

const EPOCHS: u64 = 8;
const BATCH: usize = 64;

fn images(folder: &Path, part: &str) -> Result<Examples> {
    let images = Idx::read(folder.join(format!("{part}-images-idx3-ubyte.gz")))?.into_rows()?;
    let labels = Idx::read(folder.join(format!("{part}-labels-idx1-ubyte.gz")))?.into_classes(10)?;
    let pixels = images.shaped([1, 28, 28])?.scaled(Scale { divide: 255.0, mean: 0.1307, std: 0.3081 })?;
    Ok(examples(Labelled::new(pixels, labels)?))
}
fn network() -> Result<Sequential> {
    Ok(Sequential::new()
        .add(Conv2d::new(1, 32, 3)?)
        .add(Relu::new())
        .add(Conv2d::new(32, 64, 3)?)
        .add(Relu::new())
        .add(MaxPool2d::new(2))
        .add(Dropout::new(0.25)?)
        .add(Flatten::with(1, -1))
        .add(Linear::new(9216, 128)?)
        .add(Relu::new())
        .add(Dropout::new(0.5)?)
        .add(Linear::new(128, 10)?))
}
/// The share of right answers.
fn accuracy(net: &Sequential, data: Examples) -> Result<f64> {
    net.eval();
    let rows = data.len();
    let mut right = 0;
    for batch in DataLoader::new(data).batch_size(256).build()?.epoch() {
        let (x, y) = batch?;
        right += no_grad(|| net.forward(&x)?.argmax(-1).eq(&y).sum(..).item::<i64>())?;
    }
    net.train();
    Ok(right as f64 / rows as f64)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        return Err(Error::new("mnist", ErrorKind::Argument("name the folder of the IDX files: cargo run --release -p mnist -- DIR".into())));
    };
    let seed = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (train, test) = (images(folder.as_ref(), "train")?, images(folder.as_ref(), "t10k")?);
    nn::manual_seed(seed);
    let net = network()?;
    println!("{} parameters, {} images to learn from, {} to test", net.parameter_count(), train.len(), test.len());

    let mut loader = DataLoader::new(train).batch_size(BATCH).shuffle(seed).workers(2).build()?;
    let mut optimizer = AdamW::new(3e-3).weight_decay(5e-2).over(net.parameters());
    let mut schedule = Scheduler::new(OneCycleLr::new(3e-3, EPOCHS * loader.batches() as u64), &mut optimizer);
    let smoothed = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
    let begun = Instant::now();
    for epoch in 1..=EPOCHS {
        let mut losses: Vec<Tensor> = Vec::new();
        for batch in loader.epoch() {
            let (x, y) = batch?;
            let loss = functional::cross_entropy(&net.forward(&x)?, &y, &smoothed);
            optimizer.step(&loss.backward()?)?;
            schedule.step(&mut optimizer);
            losses.push(loss.detach());
        }
        println!("epoch {epoch}/{EPOCHS}  loss {:.4}  {:.1} s", Tensor::stack(&losses, 0).mean(..).item::<f64>()?, begun.elapsed().as_secs_f64());
    }
    println!("test accuracy {:.2} %", 100.0 * accuracy(&net, test)?);
    Ok(())
}
