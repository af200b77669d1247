//! Images in folders, one for each class, and few of them: a small CNN learns them as they are, and again with each image moved,
//! rotated and resized anew in each epoch.
//!
//!     cargo run --release -p image_folder [SEED]
mod shapes;

use adamant::{
    Result, Tensor,
    data::{Compose, DataLoader, Dataset, ImageFolder, ImageOptions, RandomAffine, Scale, Transformed},
    functional, nn,
    nn::{AdaptiveAvgPool2d, BatchNorm2d, Conv2d, ConvOptions, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, Walk},
    no_grad,
    optim::{
        AdamW, Optimizer, UpdateRule,
        schedule::{CosineAnnealingLr, Scheduler},
    },
};
use shapes::{CLASSES, SIDE};
use std::{path::Path, sync::Arc};

const BATCH: usize = 32;

/// What a run is made of; the test below makes a smaller one.
struct Settings {
    seed: u64,
    /// images of each class to learn from, and to test
    train: usize,
    test: usize,
    epochs: u64,
}

fn open(folder: &Path) -> Result<ImageFolder> {
    // Grey, from about -1 to 1.
    ImageFolder::open(folder, ImageOptions { channels: 1, size: Some((SIDE, SIDE)), scale: Scale { divide: 255.0, mean: 0.35, std: 0.3 } })
}
/// What is drawn for an image follows from (seed, epoch, number of the image): the same for any number of workers, and after
/// an interruption.
fn augmented(images: ImageFolder) -> Result<Transformed<ImageFolder, Compose>> {
    let moved = RandomAffine { translate: (0.15, 0.15), scale: (0.8, 1.25), ..RandomAffine::new(35.0) };
    Transformed::new(images, Compose::new().then(moved), [1, SIDE, SIDE])
}
fn network() -> Result<Sequential> {
    let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    Ok(Sequential::new()
        .add(Conv2d::with(1, 16, 3, same())?)
        .add(BatchNorm2d::new(16)?)
        .add(Relu::new())
        .add(MaxPool2d::new(2))
        .add(Conv2d::with(16, 32, 3, same())?)
        .add(BatchNorm2d::new(32)?)
        .add(Relu::new())
        .add(MaxPool2d::new(2))
        .add(Conv2d::with(32, 64, 3, same())?)
        .add(BatchNorm2d::new(64)?)
        .add(Relu::new())
        .add(AdaptiveAvgPool2d::new(2))
        .add(Flatten::new())
        .add(Linear::new(256, CLASSES.len())?))
}
/// Trains a network of its own on the images, and returns its share of right answers on the test's.
fn learn<D: Dataset<Batch = (Tensor, Tensor)> + 'static>(images: D, test: &Arc<ImageFolder>, settings: &Settings) -> Result<f64> {
    nn::manual_seed(settings.seed);
    let net = network()?;
    let mut loader = DataLoader::new(Arc::new(images)).batch_size(BATCH).shuffle(settings.seed).workers(2).build()?;
    let mut optimizer = AdamW::new(3e-3).weight_decay(1e-2).over(net.parameters());
    let steps = settings.epochs * loader.batches() as u64;
    let mut schedule = Scheduler::new(CosineAnnealingLr { t_max: steps, eta_min: 0.0 }, &mut optimizer);
    for epoch in 1..=settings.epochs {
        let mut losses = Vec::new();
        for batch in loader.epoch() {
            let (x, y) = batch?;
            let loss = functional::cross_entropy(&net.forward(&x)?, &y, &Default::default());
            optimizer.step(&loss.backward()?)?;
            schedule.step(&mut optimizer);
            losses.push(loss.detach());
        }
        if epoch % 40 == 0 {
            println!("  epoch {epoch:>3}/{}  loss {:.4}", settings.epochs, Tensor::stack(&losses, 0).mean(..).item::<f64>()?);
        }
    }
    net.eval();
    let mut right = 0;
    for batch in DataLoader::new(test.clone()).batch_size(256).build()?.epoch() {
        let (x, y) = batch?;
        right += no_grad(|| net.forward(&x)?.argmax(-1).eq(&y).sum(..).item::<i64>())?;
    }
    Ok(right as f64 / test.len() as f64)
}

/// The accuracies on the test's images, without augmentation and with it.
fn run(settings: &Settings) -> std::result::Result<[f64; 2], Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("adamant-shapes-{}-{}", settings.seed, std::process::id()));
    shapes::write(&folder.join("train"), settings.seed, settings.train)?;
    shapes::write(&folder.join("test"), settings.seed + 1_000_000, settings.test)?;
    let (train, test) = (open(&folder.join("train"))?, Arc::new(open(&folder.join("test"))?));
    println!("classes {:?}, {} images to learn from, {} to test", train.classes(), train.len(), test.len());
    println!("as they are");
    let plain = learn(train.clone(), &test, settings)?;
    println!("augmented");
    let with = learn(augmented(train)?, &test, settings)?;
    std::fs::remove_dir_all(&folder)?;
    Ok([plain, with])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let [plain, with] = run(&Settings { seed, train: 16, test: 200, epochs: 200 })?;
    println!("test accuracy {:.2} % as they are, {:.2} % augmented; chance is {:.0} %", 100.0 * plain, 100.0 * with, 100.0 / CLASSES.len() as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_teach_nothing_and_an_augmentation_that_does_not_help() {
        let [plain, with] = run(&Settings { seed: 1, train: 6, test: 20, epochs: 80 }).unwrap();
        assert!(plain > 0.3 && with > plain + 0.05, "{plain} {with}");
    }
    #[test]
    fn an_image_that_changes_with_who_reads_it() {
        let folder = std::env::temp_dir().join(format!("adamant-shapes-order-{}", std::process::id()));
        shapes::write(&folder, 1, 3).unwrap();
        let pixels = |workers: usize| -> Result<Vec<f32>> {
            let mut loader = DataLoader::new(Arc::new(augmented(open(&folder)?)?)).batch_size(4).workers(workers).build()?;
            let mut all = Vec::new();
            for _ in 0..2 {
                for batch in loader.epoch() {
                    all.extend(batch?.0.to_vec::<f32>()?);
                }
            }
            Ok(all)
        };
        let alone = pixels(0).unwrap();
        assert_eq!(alone, pixels(2).unwrap());
        let (first, second) = alone.split_at(alone.len() / 2);
        assert_ne!(first, second);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
