//! Regression of a table with missing values: rents of flats. What is missing is filled with the median, and a column more says
//! that it was; the quarter of the town is a word, and becomes a learned vector.
//!
//!     cargo run --release -p tabular [SEED]
mod flats;

use adamant::{
    DType, Error, ErrorKind, Result, Tensor,
    data::{Becomes, CsvOptions, DataLoader, Frame, FrameFile, FrameOptions, Habit, Kind, Missing, Scale, ScaleBy, TensorDataset, learn},
    functional::{self as F, Reduction},
    metrics::{Metric, OutputAveraging, R2Score},
    nn,
    nn::{Embedding, Linear, Module, Walk},
    no_grad,
    optim::{AdamW, UpdateRule, schedule::CosineAnnealingLr},
    train::trainer::{EarlyStopping, Monitor, Trainer},
};
use std::sync::Arc;

const QUARTER: usize = 0;
/// area, floor, age, renovated
const NUMBERS: std::ops::Range<usize> = 1..5;
const RENT: usize = 5;
const BATCH: usize = 128;

/// What a run is made of; the test below makes a smaller one.
struct Settings {
    seed: u64,
    rows: usize,
    epochs: u64,
}
/// R² on the rows that were held out: 1 is perfect, 0 is what the mean alone has.
#[derive(Debug)]
struct Scores {
    mean: f64,
    linear: f64,
    network: f64,
    formula: f64,
}

/// The table as tensors. All that is learned here (medians, scales, the words) comes from the training part.
struct Prepared {
    /// of each row, the number of its quarter; 0 where it is missing: `i64[rows]`
    quarters: Tensor,
    /// scaled numbers, then for each of them whether it was missing: `f32[rows, 8]`
    numbers: Tensor,
    /// the rents, scaled: `f32[rows, 1]`
    rents: Tensor,
    words: usize,
}
fn prepare(frame: &Frame, train: std::ops::Range<usize>) -> Result<Prepared> {
    let habit = Habit { by: ScaleBy::Standard, fixed: Scale::default(), missing: Missing::Median };
    let rows = frame.len();
    let number = |column: usize| -> Result<Vec<[f32; 2]>> {
        let Becomes::Number { mean, std, fill, .. } = learn(frame, column, train.clone(), habit)?.becomes else {
            return Err(Error::new("tabular", ErrorKind::Argument(format!("column {} is no number", frame.name(column)))));
        };
        let field = |row| {
            let value = frame.value(row, column);
            let missing = value.is_nan();
            [(if missing { fill.unwrap_or(mean) } else { value } - mean) / std, f32::from(u8::from(missing))]
        };
        Ok((0..rows).map(field).collect())
    };
    let columns = NUMBERS.map(number).collect::<Result<Vec<_>>>()?;
    let numbers: Vec<f32> = (0..rows)
        .flat_map(|row| [0, 1].into_iter().flat_map(move |part| (0..NUMBERS.len()).map(move |c| (row, c, part))))
        .map(|(row, c, part)| columns[c][row][part])
        .collect();
    let rents: Vec<f32> = number(RENT)?.into_iter().map(|[rent, _]| rent).collect();
    // A word's number is its place among those of the training part, from 1 on; 0 is for rows without one and words never seen.
    let Becomes::Text { levels, .. } = learn(frame, QUARTER, train.clone(), habit)?.becomes else {
        return Err(Error::new("tabular", ErrorKind::Argument("the quarter is no text".into())));
    };
    let place = |row| frame.level(row, QUARTER).and_then(|word| levels.iter().position(|l| l == word)).map_or(0, |k| k as i64 + 1);
    Ok(Prepared {
        quarters: Tensor::from_vec((0..rows).map(place).collect::<Vec<i64>>(), [rows]),
        numbers: Tensor::from_vec(numbers, [rows, 2 * NUMBERS.len()]),
        rents: Tensor::from_vec(rents, [rows, 1]),
        words: levels.len() + 1,
    })
}

/// A vector for the quarter beside the numbers, and two hidden layers.
#[derive(Module)]
struct RentModel {
    quarter: Embedding,
    first: Linear,
    second: Linear,
    head: Linear,
}
impl RentModel {
    fn new(words: usize) -> Result<RentModel> {
        let inputs = 4 + 2 * NUMBERS.len();
        Ok(RentModel { quarter: Embedding::new(words, 4)?, first: Linear::new(inputs, 64)?, second: Linear::new(64, 64)?, head: Linear::new(64, 1)? })
    }
    fn forward(&self, quarters: &Tensor, numbers: &Tensor) -> Result<Tensor> {
        let x = Tensor::cat(&[&self.quarter.forward(quarters)?, numbers], 1);
        let x = self.second.forward(&self.first.forward(&x)?.relu())?.relu();
        self.head.forward(&x)
    }
}

fn r2(foretold: &Tensor, true_rents: &Tensor) -> Result<f64> {
    let mut score = R2Score::new(1, OutputAveraging::Uniform)?;
    score.update(foretold, true_rents)?;
    score.compute()?.item::<f64>()
}
/// The best a straight line can do: least squares over the same columns, with one column for each word.
fn linear_model(all: &Prepared, train: &std::ops::Range<usize>, test: &std::ops::Range<usize>) -> Result<f64> {
    let rows = all.rents.size(0)?;
    let x = Tensor::cat(&[&all.quarters.one_hot(all.words).cast(DType::F32), &all.numbers, &Tensor::ones([rows, 1])], 1);
    let part = |t: &Tensor, r: &std::ops::Range<usize>| t.narrow(0, r.start, r.len());
    let weights = part(&x, train).lstsq(&part(&all.rents, train), None);
    r2(&part(&x, test).matmul(&weights), &part(&all.rents, test))
}

fn run(settings: &Settings) -> std::result::Result<Scores, Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("adamant-flats-{}-{}.csv", settings.seed, std::process::id()));
    let formula = flats::write(&path, settings.seed, settings.rows)?;
    let columns = (0..6).map(|c| (c, if c == QUARTER { Kind::Text } else { Kind::Number })).collect();
    let frame = FrameFile::open(&path, &CsvOptions::default())?.read(&FrameOptions { columns, missing_is_bad: false, allow_nonfinite: false })?;
    std::fs::remove_file(&path)?;
    let holes = (0..frame.len()).filter(|row| frame.row_has_missing(*row)).count();
    println!("{} flats, {holes} of them with something missing", frame.len());

    // The rows come in no order, so parts are cut: 70 % to learn from, 10 % to say when to stop, 20 % to test.
    let (a, b) = (frame.len() * 7 / 10, frame.len() * 8 / 10);
    let (train, valid, test) = (0..a, a..b, b..frame.len());
    let all = prepare(&frame, train.clone())?;
    let part = |t: &Tensor, r: &std::ops::Range<usize>| t.narrow(0, r.start, r.len());
    let set = |r| Ok::<_, Error>(Arc::new(TensorDataset::new(&[&part(&all.quarters, r), &part(&all.numbers, r), &part(&all.rents, r)])?));

    nn::manual_seed(settings.seed);
    let model = RentModel::new(all.words)?;
    let optimizer = AdamW::new(5e-3).weight_decay(1e-3).over(model.parameters());
    let batches = DataLoader::new(set(&train)?).batch_size(BATCH).shuffle(settings.seed).build()?;
    let steps = settings.epochs * batches.batches() as u64;
    let loss = |model: &RentModel, batch: &Vec<Tensor>| F::mse_loss(&model.forward(&batch[0], &batch[1])?, &batch[2], Reduction::Mean).ok();
    let fitted = Trainer::new(model, optimizer, loss)
        .epochs(settings.epochs)
        .schedule(CosineAnnealingLr { t_max: steps, eta_min: 0.0 })
        .valid(DataLoader::new(set(&valid)?).batch_size(1024).build()?)
        .early_stopping(EarlyStopping::new(Monitor::ValidLoss, 10).restore_best(true))
        .fit(batches, &mut ())?;
    println!("{} epochs, loss {:.4}; {}", fitted.losses.len(), fitted.losses.last().unwrap_or(&f64::NAN), fitted.stopped.as_deref().unwrap_or("to the end"));

    fitted.model.eval();
    let true_rents = part(&all.rents, &test);
    let foretold = no_grad(|| fitted.model.forward(&part(&all.quarters, &test), &part(&all.numbers, &test)))?;
    let mean = Tensor::zeros([test.len(), 1]) + part(&all.rents, &train).mean(..);
    Ok(Scores { mean: r2(&mean, &true_rents)?, linear: linear_model(&all, &train, &test)?, network: r2(&foretold, &true_rents)?, formula })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let scores = run(&Settings { seed, rows: 10_000, epochs: 60 })?;
    println!("R² on flats held out:");
    println!("  the mean rent        {:>7.4}", scores.mean);
    println!("  a linear model       {:>7.4}", scores.linear);
    println!("  the network          {:>7.4}", scores.network);
    println!("  the formula, whole   {:>7.4}  (it has seen what is missing)", scores.formula);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_no_better_than_a_straight_line() {
        let scores = run(&Settings { seed: 1, rows: 3_000, epochs: 20 }).unwrap();
        assert!(scores.mean.abs() < 0.02, "{scores:?}");
        assert!(scores.network > scores.linear + 0.03 && scores.network < scores.formula, "{scores:?}");
    }
}
