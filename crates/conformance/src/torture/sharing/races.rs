//! Threads that write what they share. Which comes first is open, so the judge asks what holds either way: three cells that every
//! write leaves equal are read equal in a section, also through what is derived from them and by a thread that enters the same
//! snapshot; calls of a compiled function that counts lose no count, and none that draws draws what another drew; what is held
//! keeps its bits; what is trained without asking anybody stays finite.
use super::{Around, Pace, WIDTH, together, vector};
use crate::random::Random;
use adamant_core::{Cell, Compiled, DType, Device, Error, ErrorKind, Result, Rng, Snapshot, Tensor, compile, consistent, step, step_when, with_eager};
use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

type Function = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;
struct World {
    device: Device,
    one: Tensor,
    /// equal in every version
    equal: Vec<Cell>,
    /// adds to all of `equal`
    add: Compiled<Function>,
    /// is written by `tally` alone
    sum: Cell,
    tally: Compiled<Function>,
    calls: AtomicUsize,
    turns: Mutex<()>,
    dice: Rng,
    /// draws from `dice`
    throw: Compiled<Function>,
    /// drawn from without a function around
    rng: Rng,
    model: Vec<Cell>,
}
#[derive(Clone, Copy, Debug)]
enum Act {
    Load(u8),
    Section(bool),
    Snapshot,
    Derived,
    Tally(usize),
    Monotone,
    Throw,
    Draw,
    Train,
    /// a write outside of any step, of a value that is pending
    Loose,
    /// the same by a thread that ends at once
    Orphan,
    /// a value of the cell that is tallied is held, while the thread does more
    Hold,
    /// it is taken and let go of all the time
    Touch(usize),
}
fn draw(random: &mut Random) -> Vec<Act> {
    let act = |random: &mut Random| match random.below(20) {
        0..=3 => Act::Load(random.below(6) as u8),
        4 | 5 => Act::Section(random.one_in(2)),
        6 => Act::Snapshot,
        7 => Act::Derived,
        8..=10 => Act::Tally(random.between(1, 3)),
        11 => Act::Monotone,
        12 => Act::Throw,
        13 => Act::Draw,
        14 => Act::Train,
        15 => Act::Loose,
        16 => Act::Orphan,
        17 => Act::Hold,
        _ => Act::Touch(random.below(60)),
    };
    (0..random.between(4, 16)).map(|_| act(random)).collect()
}
fn wrong(what: String) -> Error {
    Error::new("judge", ErrorKind::Argument(what))
}
/// The number that all elements are.
fn number(x: &Tensor) -> Result<f32> {
    let all = x.to_vec::<f32>()?;
    if all.iter().all(|v| v.to_bits() == all[0].to_bits()) { Ok(all[0]) } else { Err(wrong(format!("torn: {all:?}"))) }
}
fn finite(x: &Tensor) -> Result<()> {
    let all = x.to_vec::<f32>()?;
    if all.iter().all(|v| v.is_finite()) { Ok(()) } else { Err(wrong(format!("not finite: {all:?}"))) }
}
impl World {
    fn new(device: Device) -> Result<World> {
        let cell = |x: f64| Cell::new(&Tensor::full_on([WIDTH], x, DType::F32, device), true);
        let (sum, dice) = (cell(0.0)?, Rng::new_on(3, 0, device)?);
        let equal: Vec<Cell> = (0..3).map(|_| cell(0.0)).collect::<Result<_>>()?;
        let (all, one_of, generator) = (equal.clone(), sum.clone(), dice.clone());
        let add: Function = Box::new(move |x| all.iter().try_for_each(|c| c.set(&(c.detached() + &x[0]))).map(|()| vec![]));
        // Of other sizes it is another capture.
        let tally: Function = Box::new(move |x| one_of.set(&(one_of.detached() + x[0].amax(..))).map(|()| vec![]));
        let throw: Function = Box::new(move |x| Ok(vec![generator.uniform([WIDTH], DType::F32) + x[0].sum(..) * 0.0f32]));
        let model = (0..2).map(|k| Cell::new(&vector(0.2 + k as f32, device), true)).collect::<Result<_>>()?;
        let (add, tally, throw) = (compile(add), compile(tally), compile(throw));
        let one = Tensor::full_on([WIDTH], 1.0, DType::F32, device);
        Ok(World {
            device,
            one,
            equal,
            add,
            sum,
            tally,
            calls: AtomicUsize::new(0),
            turns: Mutex::new(()),
            dice,
            throw,
            rng: Rng::new_on(5, 0, device)?,
            model,
        })
    }
    /// A call of a compiled function that writes what it reads. Where nothing is planned it is a step like any other, which no
    /// other thread may come between.
    fn call(&self, f: &Compiled<Function>, x: &Tensor) -> Result<Vec<Tensor>> {
        if !self.device.is_reference() {
            return with_eager(false, || f.call(&[x])).map(|out| out.to_vec());
        }
        let _turn = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        consistent(|| f.call(&[x])).map(|out| out.to_vec())
    }
    /// The next version, by one of the ways in which weights are written. What a step reads is of one version in a section alone.
    fn load(&self, way: u8) -> Result<()> {
        let by = |x: f32| self.equal.iter().try_for_each(|c| c.set(&(c.detached() + x)));
        match way {
            0 => step(|| self.equal.iter().try_for_each(|c| c.set(&Tensor::full_on([WIDTH], 7.0, DType::F32, self.device)))),
            1 => consistent(|| step(|| by(1.0))),
            2 => self.call(&self.add, &self.one).map(drop),
            3 => consistent(|| {
                step(|| self.equal.iter().try_for_each(|c| step(|| c.set(&(c.detached() + 0.5f32))).and_then(|()| c.set(&(c.detached() + 0.5f32)))))
            }),
            4 => consistent(|| {
                step_when(|| {
                    by(1.0)?;
                    Ok((self.equal[0].detached().sum(..).gt(20.0f32), ()))
                })
            }),
            _ => consistent(|| step(|| self.add.call(&[&self.one]).map(drop))),
        }
    }
    fn versions(&self, waits: bool) -> Result<Vec<f32>> {
        let read = |c: &Cell| {
            if waits {
                thread::yield_now();
            }
            number(&(c.get() * 1.0f32))
        };
        self.equal.iter().map(read).collect()
    }
    fn same(&self, what: &str, seen: &[f32]) -> Result<()> {
        if seen.iter().all(|v| *v == seen[0]) { Ok(()) } else { Err(wrong(format!("{what} of several versions: {seen:?}"))) }
    }
    fn train(&self) -> Result<()> {
        let x = &self.one * 0.5f32;
        let loss = self.model.iter().fold(x, |x, w| (x * w.get()).sin().exp().sigmoid()).sum(..);
        let grads = loss.backward()?;
        step(|| self.model.iter().try_for_each(|w| grads.of(w).map_or(Ok(()), |g| w.set(&(w.detached() - g * 1e-3f32)))))?;
        self.model.iter().try_for_each(|w| finite(&w.detached()))
    }
}
/// One thread's part; the draws that nobody else may have drawn.
fn work(world: &World, pace: Pace, acts: &[Act]) -> Result<Vec<Vec<u32>>> {
    let (mut thrown, mut last, mut held) = (Vec::new(), 0.0f32, Vec::new());
    let mut act = |act: &Act| -> Result<()> {
        match *act {
            Act::Load(way) => world.load(way)?,
            Act::Section(waits) => world.same("a section reads", &consistent(|| world.versions(waits))?)?,
            Act::Snapshot => {
                let snapshot = Snapshot::now();
                let mut all = snapshot.read(|| world.versions(false))?;
                let other = thread::scope(|s| s.spawn(|| snapshot.read(|| world.versions(true))).join());
                all.extend(other.map_err(|_| wrong("a thread in a snapshot panicked".into()))??);
                world.same("two threads in a snapshot read", &all)?;
            }
            Act::Derived => {
                let twice = |c: &Cell| number(&c.derived("twice", |x| (x * 2.0f32).ok())?);
                let seen = consistent(|| Ok::<_, Error>((world.versions(false)?, world.equal.iter().map(twice).collect::<Result<Vec<_>>>()?)))?;
                let all: Vec<f32> = seen.0.into_iter().chain(seen.1.into_iter().map(|x| x / 2.0)).collect();
                world.same("a section derives", &all)?;
            }
            Act::Tally(size) => {
                let x = Tensor::full_on([size, WIDTH], 1.0, DType::F32, world.device);
                world.call(&world.tally, &x)?;
                world.calls.fetch_add(1, SeqCst);
            }
            Act::Monotone => {
                let now = number(&world.sum.detached())?;
                if now < last {
                    return Err(wrong(format!("the sum went back from {last} to {now}")));
                }
                last = now;
            }
            Act::Throw => thrown.push(world.call(&world.throw, &world.one)?[0].to_vec::<f32>()?.into_iter().map(f32::to_bits).collect()),
            Act::Draw => {
                let drawn = world.rng.uniform([WIDTH], DType::F32).to_vec::<f32>()?;
                if !drawn.iter().all(|x| (0.0..1.0).contains(x)) {
                    return Err(wrong(format!("drawn outside: {drawn:?}")));
                }
            }
            Act::Train => world.train()?,
            Act::Loose => world.model[0].set(&(world.model[0].detached() * 0.5f32).sin())?,
            Act::Orphan => {
                let write = || world.model[1].set(&(world.model[1].detached() * 0.5f32).sin());
                thread::scope(|s| s.spawn(write).join()).map_err(|_| wrong("a thread that writes panicked".into()))??;
                finite(&world.model[1].detached())?;
            }
            Act::Hold => {
                let now = world.sum.detached();
                held.push((now.to_vec::<f32>()?, now));
            }
            Act::Touch(spins) => (0..20).for_each(|_| {
                let _touched = world.sum.detached();
                (0..spins).for_each(|_| std::hint::spin_loop());
            }),
        }
        held.iter().try_for_each(|(was, is): &(Vec<f32>, Tensor)| match is.to_vec::<f32>()? {
            now if now == *was => Ok(()),
            now => Err(wrong(format!("what is held was {was:?} and is {now:?}"))),
        })
    };
    pace.run(|| acts.iter().try_for_each(&mut act))?;
    Ok(thrown)
}
/// The program of a seed.
pub(super) fn program(device: Device, seed: u64, around: &Around) -> std::result::Result<(), String> {
    let random = &mut Random::new(seed);
    let threads: Vec<(Pace, Vec<Act>)> = (0..random.between(2, 8)).map(|_| (Pace::draw(random), draw(random))).collect();
    let told = |what: String| format!("{what}; {threads:?}");
    let world = World::new(device).map_err(|e| told(e.to_string()))?;
    let thrown = together(threads.len(), around, |k| work(&world, threads[k].0, &threads[k].1)).map_err(told)?;
    let thrown: Vec<_> = thrown.into_iter().flatten().collect();
    let end = || {
        let (sum, calls) = (number(&world.sum.detached())?, world.calls.load(SeqCst));
        if sum != calls as f32 {
            return Err(wrong(format!("{calls} calls counted {sum}")));
        }
        if thrown.iter().collect::<HashSet<_>>().len() != thrown.len() {
            return Err(wrong("two calls drew the same".into()));
        }
        let next = world.dice.cell().detached().to_vec::<u32>()?;
        if next[3] as usize != thrown.len() {
            return Err(wrong(format!("{} draws, and the generator stands at {next:?}", thrown.len())));
        }
        world.same("all is over, and cells are", &world.versions(false)?)
    };
    end().map_err(|e: Error| told(e.to_string()))
}
