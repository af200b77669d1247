//! The handwritten digits of the examples as tensors, and how the rows about smaller models train on them: seconds, not minutes.
use crate::workspace;
use adamant::{
    Tensor,
    data::{DataLoader, Examples},
    functional::{self, CrossEntropyOptions},
    grad::no_grad,
    nn::Module,
    optim::{AdamW, Optimizer, UpdateRule},
};
use adamant_conformance::random::Random;
use adamant_train::{Document, dataset::Parts};
use std::error::Error;

/// Images `[rows, 64]` and their classes `[rows]`.
pub struct DigitRows {
    pub images: Tensor,
    pub classes: Tensor,
    pub count: usize,
}
pub struct Digits {
    pub train: DigitRows,
    pub test: DigitRows,
}
const BATCH: usize = 64;

impl DigitRows {
    fn of(part: &Examples) -> Result<DigitRows, Box<dyn Error>> {
        let count = part.len();
        let mut loader = DataLoader::new(part.clone()).batch_size(count).build()?;
        let (images, classes) = loader.epoch().next().ok_or("there are no digits")??;
        Ok(DigitRows { images: images.ok()?, classes: classes.ok()?, count })
    }
    /// Some of them.
    pub fn rows(&self, rows: &[i64]) -> (Tensor, Tensor) {
        let at = Tensor::from_slice(rows, [rows.len()]);
        (self.images.index_select(0, &at), self.classes.index_select(0, &at))
    }
    /// The first of them.
    pub fn first(&self, count: usize) -> DigitRows {
        let count = count.min(self.count);
        DigitRows { images: self.images.narrow(0, 0, count), classes: self.classes.narrow(0, 0, count), count }
    }
}
impl Digits {
    pub fn read() -> Result<Digits, Box<dyn Error>> {
        let folder = workspace::root().join("examples/digits");
        let document = Document::read(&folder.join("digits.toml")).map_err(|e| e.to_string())?;
        let parts = || -> Result<Parts, adamant_train::Failure> {
            let root = document.root()?;
            Parts::of(root.need("data", root.section("data")?)?, &folder, 1)
        };
        let parts = parts().map_err(|e| e.to_string())?;
        Ok(Digits { train: DigitRows::of(&parts.train)?, test: DigitRows::of(&parts.test)? })
    }
}
/// Rows in an order that a seed gives.
pub fn order(count: usize, seed: u64) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut order: Vec<i64> = (0..count as i64).collect();
    (1..count).rev().for_each(|k| order.swap(k, random.below(k + 1)));
    order
}
/// Trains a model for some epochs by AdamW, whose rate falls to nothing; `loss` is that of outputs for rows of these numbers.
pub fn train_by(
    model: &dyn Module,
    rows: &DigitRows,
    epochs: usize,
    rate: f64,
    loss: &dyn Fn(&Tensor, &Tensor, &[i64]) -> adamant::Result<Tensor>,
) -> adamant::Result<()> {
    let mut optimizer = AdamW::new(rate).over(model.trainable_parameters()).ok()?;
    model.train();
    let steps = epochs * rows.count.div_ceil(BATCH);
    let mut step = 0;
    for epoch in 0..epochs {
        for chosen in order(rows.count, epoch as u64).chunks(BATCH) {
            let (x, y) = rows.rows(chosen);
            let way = step as f64 / steps as f64;
            optimizer.set_lr(rate * (10.0 * way).clamp(0.05, 1.0) * (1.0 - way));
            let grads = loss(&model.forward(&x)?, &y, chosen)?.backward()?;
            optimizer.step(&grads)?;
            step += 1;
        }
    }
    model.eval();
    Ok(())
}
/// By its classes.
pub fn train(model: &dyn Module, rows: &DigitRows, epochs: usize, rate: f64) -> adamant::Result<()> {
    train_by(model, rows, epochs, rate, &|outputs, classes, _| functional::cross_entropy(outputs, classes, &CrossEntropyOptions::default()).ok())
}
/// Per cent of the rows that a model answers right.
pub fn accuracy(model: &dyn Module, rows: &DigitRows) -> adamant::Result<f64> {
    let was_training = model.is_training();
    model.eval();
    let answers = no_grad(|| model.forward(&rows.images))?.argmax(1).to_vec::<i64>()?;
    model.set_training(was_training);
    let right = answers.iter().zip(rows.classes.to_vec_as::<i64>()?).filter(|(a, b)| **a == *b).count();
    Ok(100.0 * right as f64 / rows.count.max(1) as f64)
}
