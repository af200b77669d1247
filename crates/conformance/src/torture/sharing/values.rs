//! Threads that share what nobody writes: tensors in memory, pending, deferred, adopted, views, results of compiled functions,
//! those of threads that have ended; tapes; compiled functions; the weights of a model. Each thread does its own tasks and
//! writes its own cells. The same tasks are done by one thread alone in a world that was made alike; the bits are the same.
use super::{Around, Pace, WIDTH, together, vector};
use crate::random::Random;
use adamant_core::{Cell, Compiled, DType, Device, Error, Grads, Result, Rng, Tensor, checkpoint, compile, consistent, flush, step, step_when};
use std::thread;

type Function = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;
/// What is shared.
struct World {
    device: Device,
    tensors: Vec<Tensor>,
    weights: Vec<Cell>,
    losses: Vec<Tensor>,
    compiled: Compiled<Function>,
}
/// How a shared tensor comes to be.
#[derive(Clone, Copy, Debug)]
enum TensorKind {
    Full,
    Adopted,
    Pending,
    View,
    ViewOfPending,
    Compiled,
    /// recorded by a thread that has ended
    Orphaned,
}
const KINDS: [TensorKind; 7] =
    [TensorKind::Full, TensorKind::Adopted, TensorKind::Pending, TensorKind::View, TensorKind::ViewOfPending, TensorKind::Compiled, TensorKind::Orphaned];
#[derive(Clone, Copy, Debug)]
enum SharingTask {
    Read(usize),
    Mix(usize, usize),
    Chain(usize, usize),
    Gradients(usize),
    SecondOrder(usize),
    Atop(usize, usize),
    Own(usize),
    Checkpoint(usize),
    Compiled(usize, usize),
    Derived(usize),
    Set(usize),
    Step(usize),
    StepWhen(usize),
    Nested(usize),
    CompiledStep(usize),
    Draw,
    Section,
    Orphan(usize),
    Flush,
}
#[derive(Debug)]
struct SharingProgram {
    kinds: Vec<TensorKind>,
    /// by loss: how long its chain is, whether it has a checkpoint in it, whether it is read before it is shared
    losses: Vec<(usize, bool, bool)>,
    made_with: Pace,
    threads: Vec<(Pace, Vec<SharingTask>)>,
}
fn draw(seed: u64) -> SharingProgram {
    let random = &mut Random::new(seed);
    let kinds: Vec<TensorKind> = (0..random.between(2, 6)).map(|_| *random.pick(&KINDS)).collect();
    let losses: Vec<_> = (0..random.between(1, 3)).map(|_| (random.between(1, 6), random.one_in(3), random.one_in(2))).collect();
    let (tensors, tapes) = (kinds.len(), losses.len());
    let task = |random: &mut Random| {
        let (t, l) = (random.below(tensors), random.below(tapes));
        match random.below(22) {
            0 => SharingTask::Read(t),
            1 => SharingTask::Mix(t, random.below(tensors)),
            2 => SharingTask::Chain(t, random.between(1, 9)),
            3..=5 => SharingTask::Gradients(l),
            6 | 7 => SharingTask::SecondOrder(l),
            8 => SharingTask::Atop(l, t),
            9 => SharingTask::Own(t),
            10 => SharingTask::Checkpoint(t),
            11 | 12 => SharingTask::Compiled(t, random.between(1, 3)),
            13 => SharingTask::Derived(random.below(2)),
            14 => SharingTask::Set(t),
            15 => SharingTask::Step(t),
            16 => SharingTask::StepWhen(t),
            17 => SharingTask::Nested(t),
            18 => SharingTask::CompiledStep(t),
            19 => SharingTask::Draw,
            20 => *random.pick(&[SharingTask::Section, SharingTask::Flush]),
            _ => SharingTask::Orphan(t),
        }
    };
    let made_with = Pace::draw(random);
    let threads = (0..random.between(2, 8))
        .map(|_| {
            let n = random.between(1, 6);
            (Pace::draw(random), (0..n).map(|_| task(random)).collect())
        })
        .collect();
    SharingProgram { kinds, losses, made_with, threads }
}
fn panicked() -> Error {
    Error::new("thread", adamant_core::ErrorKind::Internal("it panicked".into()))
}
/// What a thread of its own makes, which has ended.
fn by_another(f: impl FnOnce() -> Tensor + Send) -> Result<Tensor> {
    thread::scope(|s| s.spawn(f).join()).map_err(|_| panicked())
}
impl World {
    fn new(device: Device, program: &SharingProgram) -> Result<World> {
        let weights: Vec<Cell> = (0..2).map(|k| Cell::new(&vector(0.3 + k as f32, device), true)).collect::<Result<_>>()?;
        let inside = weights[0].clone();
        let compiled: Function = Box::new(move |x| Ok(vec![(&x[0] * inside.detached()).sin() + 0.5f32, x[0].sum(..)]));
        let mut world = World { device, tensors: Vec::new(), weights, losses: Vec::new(), compiled: compile(compiled) };
        for (k, kind) in program.kinds.iter().enumerate() {
            let made = world.make(*kind, 0.1 + 0.3 * k as f32)?;
            world.tensors.push(made);
        }
        for &(length, checkpointed, read) in &program.losses {
            let x = world.tensors[length % world.tensors.len()].clone();
            let loss = world.loss(&x, length, checkpointed)?;
            if read {
                loss.materialize()?;
            }
            world.losses.push(loss);
        }
        Ok(world)
    }
    fn make(&self, kind: TensorKind, first: f32) -> Result<Tensor> {
        let device = self.device;
        let pending = || (vector(first, device) * 1.5f32).sin() + 0.25f32;
        Ok(match kind {
            TensorKind::Full => Tensor::full_on([WIDTH], f64::from(first), DType::F32, device),
            TensorKind::Adopted => vector(first, device),
            TensorKind::Pending => pending(),
            TensorKind::View => Tensor::cat(&[vector(first, device), vector(first + 1.0, device)], 0).reshape([WIDTH, 2]).t().get(0),
            TensorKind::ViewOfPending => pending().flip(0),
            TensorKind::Compiled => self.compiled.call(&[&vector(first, device)])?[0].clone(),
            TensorKind::Orphaned => by_another(pending)?,
        })
    }
    /// Maps whose results only the tape wants, so that they are deferred.
    fn loss(&self, x: &Tensor, length: usize, checkpointed: bool) -> Result<Tensor> {
        let mut y = x.clone();
        for k in 0..length {
            y = (y * self.weights[k % 2].get()).sin().exp().sigmoid() * 1.5f32;
            if checkpointed && k == length / 2 {
                let inside = self.weights[1].clone();
                y = checkpoint(&[&y], move |x| Ok((&x[0] * inside.get()).sin().exp()))?;
            }
        }
        Ok(y.sum(..))
    }
}
/// What a thread has of its own.
struct ThreadOwn {
    cell: Cell,
    rng: Rng,
    compiled: Compiled<Function>,
    seen: Vec<f32>,
}
impl ThreadOwn {
    fn new(world: &World, number: usize) -> Result<ThreadOwn> {
        let cell = Cell::new(&vector(number as f32, world.device), true)?;
        let rng = Rng::new_on(7, number as u32, world.device)?;
        let (inside, weight) = (cell.clone(), world.weights[1].clone());
        let compiled: Function = Box::new(move |x| {
            inside.set(&(inside.detached() * 0.5f32 + &x[0] * weight.detached()))?;
            Ok(vec![])
        });
        Ok(ThreadOwn { cell, rng, compiled: compile(compiled), seen: Vec::new() })
    }
    fn see(&mut self, x: &Tensor) -> Result<()> {
        self.seen.extend(x.to_vec::<f32>()?);
        Ok(())
    }
    fn see_gradients(&mut self, world: &World, grads: &Grads) -> Result<()> {
        world.weights.iter().filter_map(|w| grads.of(w)).try_for_each(|g| self.see(g))
    }
    fn act(&mut self, world: &World, task: SharingTask) -> Result<()> {
        let tensor = |t: usize| &world.tensors[t];
        let cell = self.cell.clone();
        match task {
            SharingTask::Read(t) => self.see(tensor(t))?,
            SharingTask::Mix(a, b) => self.see(&(tensor(a) * 0.5f32 + tensor(b)).sin())?,
            SharingTask::Chain(t, n) => self.see(&(0..n).fold(tensor(t).clone(), |x, k| (x * (1.0 + k as f32 * 0.125)).sin()))?,
            SharingTask::Gradients(l) => self.see_gradients(world, &world.losses[l].backward_keep()?)?,
            SharingTask::SecondOrder(l) => {
                let first = world.losses[l].backward_graph()?;
                let norms = world.weights.iter().filter_map(|w| first.of(w)).map(|g| (g * g).sum(..)).reduce(|a, b| a + b);
                if let Some(norm) = norms {
                    self.see_gradients(world, &norm.backward_keep()?)?;
                }
            }
            SharingTask::Atop(l, t) => self.see_gradients(world, &(&world.losses[l] * tensor(t)).sin().sum(..).backward_keep()?)?,
            SharingTask::Own(t) => self.see_gradients(world, &world.loss(tensor(t), 3, false)?.backward()?)?,
            SharingTask::Checkpoint(t) => self.see_gradients(world, &world.loss(tensor(t), 2, true)?.backward()?)?,
            SharingTask::Compiled(t, size) => {
                let x = if size == 1 { tensor(t).clone() } else { Tensor::stack(&vec![tensor(t).clone(); size], 0) };
                let out = world.compiled.call(&[&x])?;
                out.iter().try_for_each(|y| self.see(y))?;
            }
            SharingTask::Derived(w) => self.see(&world.weights[w].derived("twice", |x| (x * 2.0f32).ok())?)?,
            SharingTask::Set(t) => cell.set(&(cell.detached() * 0.5f32 + tensor(t)))?,
            SharingTask::Step(t) => step(|| cell.set(&(cell.detached() * 0.25f32 + tensor(t))))?,
            SharingTask::StepWhen(t) => step_when(|| {
                cell.set(&(cell.detached() + tensor(t)))?;
                Ok((tensor(t).sum(..).gt(2.0f32), ()))
            })?,
            SharingTask::Nested(t) => step(|| {
                let tried = step(|| cell.set(&(cell.detached() * 8.0f32)).and_then(|()| Err::<(), _>(panicked())));
                debug_assert!(tried.is_err());
                step(|| cell.set(&(cell.detached() * 0.5f32))).and_then(|()| cell.set(&(cell.detached() + tensor(t))))
            })?,
            SharingTask::CompiledStep(t) => drop(self.compiled.call(&[tensor(t)])?),
            SharingTask::Draw => {
                let drawn = self.rng.normal([3], DType::F32);
                self.see(&drawn)?;
            }
            SharingTask::Section => {
                let sum = consistent(|| world.weights.iter().map(Cell::detached).reduce(|a, b| a * b));
                sum.iter().try_for_each(|x| self.see(x))?;
            }
            SharingTask::Orphan(t) => {
                let made = by_another(|| (tensor(t) * 3.0f32).sin())?;
                self.see(&made)?;
            }
            SharingTask::Flush => flush()?,
        }
        Ok(())
    }
}
/// The tasks of one thread: all that it read, and what its cell holds in the end.
fn work(world: &World, number: usize, pace: Pace, tasks: &[SharingTask]) -> Result<Vec<u32>> {
    pace.run(|| {
        let mut own = ThreadOwn::new(world, number)?;
        tasks.iter().try_for_each(|task| own.act(world, *task))?;
        let last = own.cell.detached();
        own.see(&last)?;
        Ok(own.seen.iter().map(|x| x.to_bits()).collect())
    })
}
/// The program of a seed.
pub(super) fn program(device: Device, seed: u64, around: &Around) -> std::result::Result<(), String> {
    let program = draw(seed);
    let told = |e: Error| format!("alone: {e}; {program:?}");
    let world = World::new(device, &program).map_err(told)?;
    let alone = program.threads.iter().enumerate().map(|(k, (pace, tasks))| work(&world, k, *pace, tasks));
    let alone: Vec<Vec<u32>> = alone.collect::<Result<_>>().map_err(told)?;
    let shared = program.made_with.run(|| World::new(device, &program)).map_err(told)?;
    let all = together(program.threads.len(), around, |k| work(&shared, k, program.threads[k].0, &program.threads[k].1));
    let all = all.map_err(|why| format!("{why}; {program:?}"))?;
    match all.iter().zip(&alone).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(k) => Err(format!("thread {k} gets {:?} where {:?} was due; {program:?}", all[k], alone[k])),
    }
}
