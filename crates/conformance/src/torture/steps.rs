//! Steps that fail in the middle. A case is a random program of steps, one inside the other up to three deep, whose every
//! write, read and op is a place where it may panic or return an error. A few lines of plain Rust say what the cells hold at
//! every moment: a step that fails leaves them as it found them, and until the outermost one commits nobody else sees anything.
use crate::random::Random;
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, compile, step};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Elements of a cell.
const WIDTH: usize = 3;
/// Cells of a program.
const CELLS: usize = 4;
/// The deepest step inside steps.
const DEPTH: usize = 3;

/// How the case is judged: as it should be, or against a world in which a fault was planted, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// a step that fails leaves cells as they were
    Right,
    /// as if a failed inner step left its writes behind
    KeepsInnerWrites,
    /// as if a failed outermost step did
    KeepsOuterWrites,
}

#[derive(Clone, Debug)]
enum Act {
    /// `cell = cell + number`, computed when the step commits
    Add(usize, f32),
    /// `cell = cell / 2 + other`
    Mix(usize, usize),
    /// as `Add`, computed before it is written
    AddNow(usize, f32),
    /// data of the host
    Load(usize, f32),
    /// written by a compiled function
    Compiled(usize),
    /// the cell is read
    Read(usize),
    /// an op whose result nobody wants
    Op(usize),
    /// another thread looks
    Look(usize),
    /// a value that turns out to be bad when it is computed
    Bad(usize),
    /// a step inside, and whether the step around it goes on when it fails
    Step(Vec<Act>, bool),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    Panic,
    Error,
}
/// What a planted panic carries.
struct Planted;

fn actions(random: &mut Random, depth: usize) -> Vec<Act> {
    let n = random.between(2, 5);
    (0..n)
        .map(|_| {
            let (cell, number) = (random.below(CELLS), random.between(1, 8) as f32 * 0.25);
            match random.below(if depth < DEPTH { 14 } else { 11 }) {
                0 | 1 => Act::Add(cell, number),
                2 => Act::Mix(cell, random.below(CELLS)),
                3 => Act::AddNow(cell, number),
                4 => Act::Load(cell, number),
                5 => Act::Compiled(cell),
                6 | 7 => Act::Read(cell),
                8 => Act::Op(cell),
                9 => Act::Look(cell),
                10 if random.one_in(4) => Act::Bad(cell),
                10 => Act::Add(cell, -number),
                _ => Act::Step(actions(random, depth + 1), !random.one_in(3)),
            }
        })
        .collect()
}
fn count(actions: &[Act]) -> usize {
    actions.iter().map(|a| if let Act::Step(inner, _) = a { 1 + count(inner) } else { 1 }).sum()
}

type Row = [f32; WIDTH];
struct World {
    device: Device,
    cells: Vec<Cell>,
    /// what this thread is to see
    now: Vec<Row>,
    /// what everybody else is to see
    committed: Vec<Row>,
    compiled: Vec<Box<dyn Fn() -> Result<()>>>,
    /// a value that cannot be computed was written, so the outermost step cannot commit
    bad: Vec<bool>,
    at: usize,
    plant: Option<(usize, Plant)>,
    judge: Judge,
    wrong: Vec<String>,
}
impl World {
    fn new(device: Device, plant: Option<(usize, Plant)>, judge: Judge) -> Result<World> {
        let now: Vec<Row> = (0..CELLS).map(|c| std::array::from_fn(|k| c as f32 + k as f32 * 0.5)).collect();
        let cells = now.iter().map(|row| Cell::new(&Tensor::from_vec_on(row.to_vec(), [WIDTH], device), false)).collect::<Result<Vec<_>>>()?;
        let halved = |cell: &Cell| -> Box<dyn Fn() -> Result<()>> {
            let cell = cell.clone();
            let none = Tensor::from_vec_on(vec![0.0f32; WIDTH], [WIDTH], device);
            let f = compile(move |x: &[Tensor]| {
                cell.set(&(cell.detached() * 0.5f32 + &x[0]))?;
                Ok(vec![])
            });
            Box::new(move || f.call(&[&none]).map(drop))
        };
        let compiled = cells.iter().map(halved).collect();
        Ok(World { device, committed: now.clone(), now, cells, compiled, bad: vec![false; CELLS], at: 0, plant, judge, wrong: Vec::new() })
    }
    fn tensor(&self, row: Row) -> Tensor {
        Tensor::from_vec_on(row.to_vec(), [WIDTH], self.device)
    }
    fn expect(&mut self, what: &str, cell: usize, seen: Result<Vec<f32>>, want: Row) {
        match seen {
            Ok(seen) if seen == want => {}
            Ok(seen) => self.wrong.push(format!("{what} of cell {cell} at action {}: {seen:?} where {want:?} was due", self.at)),
            Err(e) => self.wrong.push(format!("{what} of cell {cell} at action {}: {e}", self.at)),
        }
    }
    /// Comes by a place where something may be planted.
    fn pass(&mut self) -> Result<()> {
        let here = self.at;
        self.at += 1;
        match self.plant {
            Some((at, Plant::Panic)) if at == here => resume_unwind(Box::new(Planted)),
            Some((at, Plant::Error)) if at == here => Err(planted()),
            _ => Ok(()),
        }
    }
    fn act(&mut self, action: &Act, depth: usize) -> Result<()> {
        self.pass()?;
        match action {
            Act::Add(c, x) => {
                self.cells[*c].set(&(self.cells[*c].detached() + *x))?;
                self.now[*c] = self.now[*c].map(|v| v + x);
            }
            Act::Mix(c, other) => {
                self.cells[*c].set(&(self.cells[*c].detached() * 0.5f32 + self.cells[*other].detached()))?;
                let (row, bad) = (self.now[*other], self.bad[*other]);
                self.now[*c] = std::array::from_fn(|k| self.now[*c][k] * 0.5 + row[k]);
                self.bad[*c] |= bad;
            }
            Act::AddNow(c, x) => {
                let sum = self.cells[*c].detached() + *x;
                // Of bad data it is an error to ask for.
                if sum.materialize().is_err() || self.bad[*c] {
                    return Err(planted());
                }
                self.cells[*c].set(&sum)?;
                self.now[*c] = self.now[*c].map(|v| v + x);
            }
            Act::Load(c, x) => {
                self.cells[*c].set(&self.tensor([*x; WIDTH]))?;
                (self.now[*c], self.bad[*c]) = ([*x; WIDTH], false);
            }
            Act::Compiled(c) => {
                // A compiled function runs at once, so it may meet bad data.
                (self.compiled[*c])()?;
                self.now[*c] = self.now[*c].map(|v| v * 0.5);
            }
            Act::Read(c) => {
                let seen = self.cells[*c].detached().to_vec::<f32>();
                if self.bad[*c] {
                    if seen.is_ok() {
                        self.wrong.push(format!("bad data of cell {c} is read at action {}", self.at));
                    }
                } else {
                    self.expect("its own read", *c, seen, self.now[*c]);
                }
            }
            Act::Op(c) => drop((self.cells[*c].detached() * 3.0f32).exp().sum(..)),
            Act::Look(c) => {
                let cell = self.cells[*c].clone();
                let seen = std::thread::scope(|s| s.spawn(|| cell.detached().to_vec::<f32>()).join()).unwrap_or_else(|_| Err(planted()));
                self.expect("another thread's read", *c, seen, if depth == 0 { self.now[*c] } else { self.committed[*c] });
            }
            Act::Bad(c) => {
                let none = Tensor::from_vec_on(vec![0i64, 7, 1], [WIDTH], self.device);
                self.cells[*c].set(&self.cells[*c].detached().gather(0, &none))?;
                self.bad[*c] = true;
            }
            Act::Step(inner, goes_on) => {
                let done = self.step(inner, depth + 1);
                self.pass()?;
                match done {
                    Err(e) if !*goes_on => return Err(e),
                    _ => {}
                }
            }
        }
        self.pass()
    }
    /// A step, in which what panics is caught as a program would that goes on.
    fn step(&mut self, inner: &[Act], depth: usize) -> Result<()> {
        let before = (self.now.clone(), self.bad.clone());
        let ran = catch_unwind(AssertUnwindSafe(|| step(|| inner.iter().try_for_each(|action| self.act(action, depth)))));
        let done = match ran {
            Ok(done) => done,
            Err(panic) if panic.is::<Planted>() => Err(planted()),
            Err(panic) => resume_unwind(panic),
        };
        let (fails, keeps) = match depth {
            1 => (done.is_err() || self.bad.contains(&true), Judge::KeepsOuterWrites),
            _ => (done.is_err(), Judge::KeepsInnerWrites),
        };
        if fails && done.is_ok() {
            self.wrong.push("a step committed what could not be computed".into());
        }
        if fails && self.judge != keeps {
            (self.now, self.bad) = before;
        }
        if depth == 1 {
            self.bad.fill(false);
            self.committed = self.now.clone();
        }
        done
    }
    /// What everybody sees when all is over.
    fn look_around(&mut self) {
        for c in 0..CELLS {
            let cell = self.cells[c].clone();
            let own = cell.detached().to_vec::<f32>();
            self.expect("the last read", c, own, self.committed[c]);
            let other = std::thread::scope(|s| s.spawn(|| cell.detached().to_vec::<f32>()).join()).unwrap_or_else(|_| Err(planted()));
            self.expect("another thread's last read", c, other, self.committed[c]);
        }
    }
}
fn planted() -> Error {
    Error::new("planted", ErrorKind::Argument("planted".into()))
}

/// How many places a seed's program has at which something may be planted: before and behind each action.
pub fn places(seed: u64) -> usize {
    2 * count(&actions(&mut Random::new(seed), 0))
}
/// One program, with a panic or an error planted at a place that the seed draws.
///
/// # Errors
/// What was seen that should not have been.
pub fn case(device: Device, seed: u64, judge: Judge) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let program = actions(&mut random, 0);
    let place = random.below(2 * count(&program));
    let plant = Some((place, if random.one_in(2) { Plant::Panic } else { Plant::Error }));
    let told = |e: Error| e.to_string();
    let mut world = World::new(device, plant, judge).map_err(told)?;
    // Twice: the second time plans are known, captures are replayed, and nothing of the first may be left on the thread.
    for _ in 0..2 {
        world.at = 0;
        let _ = world.step(&program, 1);
        world.look_around();
        world.plant = None;
        if !world.wrong.is_empty() {
            return Err(format!("seed {seed}, {plant:?}: {}; the program: {program:?}", world.wrong.join("; ")));
        }
    }
    let dtype = world.cells[0].meta().dtype;
    (dtype == DType::F32).then_some(()).ok_or_else(|| "a cell changed its dtype".into())
}
/// `n` programs from a seed on, on so many threads at once: what did not hold.
pub fn run(device: Device, from: u64, n: usize, threads: usize, judge: Judge) -> Vec<String> {
    let of = |thread: usize| move || (thread..n).step_by(threads).filter_map(|k| case(device, from + k as u64, judge).err()).collect::<Vec<_>>();
    std::thread::scope(|s| {
        let running: Vec<_> = (0..threads).map(|thread| s.spawn(of(thread))).collect();
        running.into_iter().flat_map(|t| t.join().unwrap_or_else(|_| vec!["a thread panicked".into()])).collect()
    })
}
