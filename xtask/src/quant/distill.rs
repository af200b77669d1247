//! Distillation: a small student with labels of a tenth of the images, by these labels alone and with what a teacher says of all
//! images. The teacher's bytes are afterwards what they were.
use super::{DistillOptions, described::JudgedExample, prune::Draws};
use crate::exit::Exit;
use adamant::{
    Device, Tensor,
    data::{DataLoader, Examples},
    functional::{self, CrossEntropyOptions},
    nn::{Conv2d, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, Walk, manual_seed},
    no_grad,
    optim::{AdamW, Optimizer, UpdateRule},
    quant::distill::Distiller,
};
use adamant_train::{Failure, Trained, evaluate};

const TEACHER: JudgedExample = JudgedExample { name: "mnist", text: include_str!("../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") };
/// Images with a label that the student is told.
const LABELLED: usize = 1000;
/// Percentage points of accuracy that the teacher's outputs win, as the mean of all seeds.
const LEAST_WON: f64 = 1.5;
const TEMPERATURE: f64 = 4.0;
/// The teacher's share of the loss.
const ALPHA: f64 = 0.9;
const BATCH: usize = 64;
/// Steps of a student, with the teacher and without.
const STEPS: usize = 1600;
const RATE: f64 = 4e-3;

/// Images, their labels, and what the teacher says of them.
struct TaughtImages {
    images: Tensor,
    labels: Tensor,
    taught: Tensor,
    count: usize,
}

pub fn run(options: &DistillOptions) -> Result<Exit, String> {
    let Some(data) = &options.data else {
        println!("skipped: --data names no folder of data sets");
        return Ok(Exit::Skipped);
    };
    let device = Device::current().map_err(|e| e.to_string())?;
    judge(options, &data.join("mnist-20k"), device).map_err(|e| e.to_string())
}
fn bytes(model: &Sequential) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(model.state_dict().iter().map(|(_, t)| t.to_bytes()).collect::<adamant::Result<_>>()?)
}
fn judge(options: &DistillOptions, data: &std::path::Path, device: Device) -> Result<Exit, Failure> {
    let run = TEACHER.trained(data, 1, &options.runs)?;
    let trained = Trained::open(&run)?;
    let (objective, parts) = trained.data(data)?;
    let figures = |model: &Sequential| -> Result<f64, Failure> {
        Ok(100.0 * evaluate(model, &objective, &parts.test, device, &parts.evaluation())?.accuracy.unwrap_or(f64::NAN))
    };
    let (of_teacher, before) = (figures(&trained.model)?, bytes(&trained.model)?);
    let distiller = Distiller::new(trained.model, TEMPERATURE)?.alpha(ALPHA)?;
    let mut all = read(&parts.train, &distiller, device)?;
    if options.plant {
        // What the teacher says of one image, told of the next.
        let n = all.count;
        all.taught = Tensor::cat(&[all.taught.narrow(0, 1, n - 1), all.taught.narrow(0, 0, 1)], 0).ok()?;
    }
    let (mut alone, mut taught) = (0.0, 0.0);
    for seed in &options.seeds {
        let by_labels = figures(&student(*seed, &all, &distiller, false)?)?;
        let by_both = figures(&student(*seed, &all, &distiller, true)?)?;
        println!("seed {seed}: {by_labels:.2} % by {LABELLED} labels, {by_both:.2} % with the teacher's outputs on {} images", all.count);
        alone += by_labels / options.seeds.len() as f64;
        taught += by_both / options.seeds.len() as f64;
    }
    let is_untouched = bytes(distiller.teacher())? == before;
    let passed = taught - alone >= LEAST_WON && is_untouched;
    println!(
        "{} a student of conv 4, conv 8, dense 16: {alone:.2} -> {taught:.2} %, {:+.2} points (at least {LEAST_WON}), mean of {} seeds; the teacher has {of_teacher:.2} % and is {}",
        if passed { "passed" } else { "failed" },
        taught - alone,
        options.seeds.len(),
        if is_untouched { "untouched" } else { "CHANGED" },
    );
    Ok(if passed { Exit::Passed } else { Exit::Failed })
}
/// All images of a part, with what the teacher says.
fn read(part: &Examples, teacher: &Distiller<Sequential>, device: Device) -> Result<TaughtImages, Failure> {
    let (mut images, mut labels, mut taught) = (Vec::new(), Vec::new(), Vec::new());
    for batch in DataLoader::new(part.clone()).batch_size(200).build()?.epoch() {
        let (x, y) = batch?;
        let x = x.to(device).ok()?;
        let outputs = teacher.teacher_forward(&x)?;
        outputs.materialize()?;
        taught.push(outputs);
        images.push(x);
        labels.push(y.to(device).ok()?);
    }
    let whole = |parts: &[Tensor]| -> Result<Tensor, Failure> {
        let all = no_grad(|| Tensor::cat(parts, 0)).ok()?;
        all.materialize()?;
        Ok(all)
    };
    let (images, labels, taught) = (whole(&images)?, whole(&labels)?, whole(&taught)?);
    let count = labels.shape()?.first().copied().unwrap_or(0);
    if count < LABELLED {
        return Err(Failure::Input(format!("there are {count} images, and {LABELLED} must have a label")));
    }
    Ok(TaughtImages { images, labels, taught, count })
}
/// Numbers below one, each once before any comes again.
struct Shuffled {
    draws: Draws,
    order: Vec<i64>,
    at: usize,
}
impl Shuffled {
    fn new(count: usize, seed: u64) -> Shuffled {
        Shuffled { draws: Draws(seed), order: (0..count as i64).collect(), at: count }
    }
    fn next(&mut self, count: usize) -> Tensor {
        if self.at + count > self.order.len() {
            (1..self.order.len()).rev().for_each(|k| self.order.swap(k, self.draws.below(k + 1)));
            self.at = 0;
        }
        self.at += count;
        Tensor::from_slice(&self.order[self.at - count..self.at], [count])
    }
}
fn student(seed: u64, all: &TaughtImages, distiller: &Distiller<Sequential>, is_taught: bool) -> Result<Sequential, Failure> {
    manual_seed(seed);
    let model = Sequential::new().add(Conv2d::new(1, 4, 3)?).add(Relu::new()).add(MaxPool2d::new(2));
    let model = model.add(Conv2d::new(4, 8, 3)?).add(Relu::new()).add(MaxPool2d::new(2)).add(Flatten::new());
    let model = model.add(Linear::new(200, 16)?).add(Relu::new()).add(Linear::new(16, 10)?);
    let mut optimizer = AdamW::new(RATE).over(model.parameters()).ok()?;
    let (mut labelled, mut any) = (Shuffled::new(LABELLED, seed), Shuffled::new(all.count, seed ^ 0x7ea));
    for step in 0..STEPS {
        let way = step as f64 / STEPS as f64;
        optimizer.set_lr(RATE * (20.0 * way).clamp(0.05, 1.0) * (1.0 - way));
        let rows = labelled.next(BATCH);
        let outputs = model.forward(&all.images.index_select(0, &rows))?;
        let by_labels = functional::cross_entropy(&outputs, &all.labels.index_select(0, &rows), &CrossEntropyOptions::default());
        let loss = if is_taught {
            let rows = any.next(BATCH);
            let outputs = model.forward(&all.images.index_select(0, &rows))?;
            distiller.soft_loss(&outputs, &all.taught.index_select(0, &rows))? * ALPHA + by_labels * (1.0 - ALPHA)
        } else {
            by_labels
        };
        let grads = loss.backward()?;
        if distiller.teacher().parameters().iter().any(|p| grads.of(&p.cell()).is_some()) {
            return Err(Failure::Run("the teacher has a gradient".into()));
        }
        optimizer.step(&grads)?;
    }
    model.eval();
    Ok(model)
}
