//! Ranks as threads: random programs of collectives between kernels, whose answers are known, on any device; and whether a
//! collective begins as soon as its input is ready and the device goes on meanwhile.
//!
//! All ranks draw the same program. What differs is the data, and when a rank reads: each cuts its windows elsewhere, lets go
//! of values at other times, and must exchange in the order that all have in common. A rank that waits in vain is told so after a
//! while, so that nothing hangs.
use crate::random::Random;
use adamant_core::{
    Arg, Attr, Attrs, Cell, Composite, DType, Device, Element, Error, ErrorKind, HostArray, Op, Result, Tensor, TensorType, Types,
    communicator::{self, CollectiveCall, Communicator, GroupState},
    composite::Compound,
    op::{CollectiveKind, Group, RankUse, ReduceOp},
    step, with_window,
};
use parking_lot::{Condvar, Mutex};
use smallvec::smallvec;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

type Seen<T> = std::result::Result<T, String>;
fn text(e: Error) -> String {
    e.to_string()
}
/// So long a rank waits for the others before it is told that they are lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// What each rank brought, for one rank or for each, and how many have taken all of it.
type Round = (Vec<Option<Vec<Vec<u8>>>>, usize);
/// Where threads meet: round by round, everybody's bytes.
#[derive(Default)]
struct Meeting {
    rounds: Mutex<HashMap<u64, Round>>,
    came: Condvar,
    /// by sender and receiver
    sent: Mutex<HashMap<(usize, usize), VecDeque<Vec<u8>>>>,
    came_one: Condvar,
    /// who ended it, and why
    ended: Mutex<Option<(usize, String)>>,
}
/// One thread of a group of threads.
pub struct Rank {
    meeting: Arc<Meeting>,
    rank: usize,
    size: usize,
    round: AtomicU64,
    state: GroupState,
}
/// So many ranks that belong together.
pub fn group_of(size: usize) -> Vec<Arc<dyn Communicator>> {
    let meeting = Arc::<Meeting>::default();
    let rank = |rank| Arc::new(Rank { meeting: meeting.clone(), rank, size, round: AtomicU64::new(0), state: GroupState::default() }) as Arc<dyn Communicator>;
    (0..size).map(rank).collect()
}
impl Rank {
    /// Everybody's blocks for everybody, round by round.
    fn meet(&self, call: &CollectiveCall, own: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<Vec<u8>>>, ErrorKind> {
        let round = self.round.fetch_add(1, Relaxed);
        let mut rounds = self.meeting.rounds.lock();
        let (brought, _) = rounds.entry(round).or_insert_with(|| (vec![None; self.size], 0));
        brought[self.rank] = Some(own);
        self.meeting.came.notify_all();
        loop {
            let Some((brought, taken)) = rounds.get_mut(&round) else { return Err(lost("a round that is over")) };
            if let Some(all) = brought.iter().cloned().collect::<Option<Vec<_>>>() {
                *taken += 1;
                if *taken == self.size {
                    rounds.remove(&round);
                }
                return Ok(all);
            }
            if let Some(ended) = self.meeting.ended.lock().clone() {
                return Err(ErrorKind::PeerFailed { rank: ended.0, message: ended.1 });
            }
            if self.meeting.came.wait_for(&mut rounds, PATIENCE).timed_out() {
                return Err(lost(&format!("the other ranks did not come to {call}")));
            }
        }
    }
}
/// Copies a block to where it is wanted.
fn copy(block: &[u8], to: &mut [u8]) -> std::result::Result<(), ErrorKind> {
    if block.len() != to.len() {
        return Err(lost(&format!("{} bytes came where {} were to come", block.len(), to.len())));
    }
    to.copy_from_slice(block);
    Ok(())
}
impl Communicator for Rank {
    fn engine(&self) -> &'static str {
        "threads of a test"
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> std::result::Result<(), ErrorKind> {
        let all = self.meet(call, vec![own.to_vec()])?;
        all.iter().zip(blocks).try_for_each(|(brought, block)| copy(&brought[0], block))
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> std::result::Result<(), ErrorKind> {
        let all = self.meet(call, to.iter().map(|block| block.to_vec()).collect())?;
        all.iter().zip(from).try_for_each(|(brought, block)| copy(&brought[self.rank], block))
    }
    fn send(&self, _: &CollectiveCall, to: usize, bytes: &[u8]) -> std::result::Result<(), ErrorKind> {
        let mut sent = self.meeting.sent.lock();
        sent.entry((self.rank, to)).or_default().push_back(bytes.to_vec());
        self.meeting.came_one.notify_all();
        Ok(())
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> std::result::Result<(), ErrorKind> {
        let mut sent = self.meeting.sent.lock();
        loop {
            if let Some(block) = sent.get_mut(&(from, self.rank)).and_then(VecDeque::pop_front) {
                return copy(&block, bytes);
            }
            if self.meeting.came_one.wait_for(&mut sent, PATIENCE).timed_out() {
                return Err(lost(&format!("rank {from} did not send for {call}")));
            }
        }
    }
    fn split(&self, _: &CollectiveCall, _: &[usize]) -> std::result::Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        Err(lost("threads of a test are one group"))
    }
    fn abort(&self, why: &str) {
        self.meeting.ended.lock().get_or_insert_with(|| (self.rank, why.into()));
        self.meeting.came.notify_all();
    }
}
fn lost(why: &str) -> ErrorKind {
    ErrorKind::Internal(why.into())
}
fn collective(kind: CollectiveKind, group: &Group, x: &Tensor) -> Tensor {
    Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[x])
}
const ALL_REDUCE: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };

/// What a program does next; operands by number.
#[derive(Clone, Debug)]
enum Act {
    /// data of the rank's own: shape, whole numbers or not
    Data([usize; 2], bool),
    Map(usize),
    Add(usize, usize),
    Transposed(usize),
    Flipped(usize),
    Half(usize),
    Total(usize),
    Joined(usize, usize),
    Collective(CollectiveKind, usize),
    /// from one rank to another, which has it instead of its own
    Passed([usize; 2], usize),
    /// one rank has a constant instead of its own, so that it has other things to do than the others
    Blank(usize, usize),
    /// nobody of the program holds it any more
    Dropped(usize),
    /// cells get these values, all or none
    Step(Vec<(usize, usize)>),
}
/// A program for so many ranks, and the shapes of its values.
struct RankProgram {
    acts: Vec<Act>,
    cells: Vec<[usize; 2]>,
    ranks: usize,
}
fn draw(random: &mut Random) -> RankProgram {
    let ranks = random.between(2, 5);
    let mut acts = vec![Act::Data([2, 3], false)];
    // By value: its shape, and whether it is of whole numbers; none once it is dropped.
    let mut values: Vec<Option<([usize; 2], bool)>> = vec![Some(([2, 3], false))];
    let mut cells: Vec<[usize; 2]> = Vec::new();
    for _ in 0..random.between(6, 28) {
        let held: Vec<usize> = (0..values.len()).filter(|&k| values[k].is_some()).collect();
        let any = held[random.below(held.len())];
        let Some((shape, whole)) = values[any] else { continue };
        let alike: Vec<usize> = held.iter().copied().filter(|&k| values[k] == Some((shape, whole))).collect();
        let other = alike[random.below(alike.len())];
        let (act, made) = match random.below(14) {
            0 => {
                let (shape, whole) = ([random.between(0, 4), random.between(1, 5)], random.one_in(3));
                (Act::Data(shape, whole), Some((shape, whole)))
            }
            1 | 2 => (Act::Map(any), Some((shape, whole))),
            3 => (Act::Add(any, other), Some((shape, whole))),
            4 => (Act::Transposed(any), Some(([shape[1], shape[0]], whole))),
            5 => (Act::Flipped(any), Some((shape, whole))),
            6 if shape[0] >= 2 => (Act::Half(any), Some(([shape[0] / 2, shape[1]], whole))),
            7 if whole => (Act::Total(any), Some(([1, shape[1]], whole))),
            8 => (Act::Joined(any, other), Some(([shape[0], 2 * shape[1]], whole))),
            9 if held.len() > 2 => {
                values[any] = None;
                (Act::Dropped(any), None)
            }
            10 => {
                let writes = alike.iter().filter(|_| !whole).take(3).map(|&k| {
                    cells.push(shape);
                    (cells.len() - 1, k)
                });
                (Act::Step(writes.collect()), None)
            }
            11 => {
                let from = random.below(ranks);
                (Act::Passed([from, (from + random.between(1, ranks - 1)) % ranks], any), Some((shape, whole)))
            }
            12 => (Act::Blank(random.below(ranks), any), Some((shape, whole))),
            _ => {
                let (kind, shape) = draw_collective(random, shape, ranks);
                (Act::Collective(kind, any), Some((shape, whole)))
            }
        };
        values.extend(made.map(Some));
        acts.push(act);
    }
    RankProgram { acts, cells, ranks }
}
/// One that takes this shape, and the shape that comes out.
fn draw_collective(random: &mut Random, [n, width]: [usize; 2], ranks: usize) -> (CollectiveKind, [usize; 2]) {
    let used = *random.pick(&[RankUse::Alike, RankUse::Apart]);
    let reduce = *random.pick(&[ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
    let cut = n % ranks == 0;
    match random.below(9) {
        0 => (CollectiveKind::Broadcast { root: random.below(ranks), used }, [n, width]),
        1 if n * ranks <= 40 => (CollectiveKind::AllGather { used }, [n * ranks, width]),
        2 | 3 if cut => (CollectiveKind::ReduceScatter { reduce, parts: 0 }, [n / ranks, width]),
        4 | 5 if cut => (CollectiveKind::AllToAll, [n, width]),
        6 => (*random.pick(&[CollectiveKind::Barrier, CollectiveKind::Replicate]), [n, width]),
        _ => (CollectiveKind::AllReduce { reduce, parts: 0, used }, [n, width]),
    }
}
fn data(shape: [usize; 2], whole: bool, random: &mut Random, device: Device) -> Tensor {
    let n = shape[0] * shape[1];
    match whole {
        true => Tensor::from_vec_on((0..n).map(|_| random.below(2000) as i64 - 1000).collect(), shape, device),
        false => Tensor::from_vec_on((0..n).map(|_| random.unit() as f32 - 0.5).collect(), shape, device),
    }
}
/// One act that needs no other rank.
fn apply(act: &Act, values: &[Option<Tensor>], random: &mut Random, device: Device) -> Option<Tensor> {
    let of = |k: &usize| values.get(*k).and_then(Option::as_ref);
    Some(match act {
        Act::Data(shape, whole) => data(*shape, *whole, random, device),
        Act::Map(a) => of(a)?.neg() + of(a)?,
        Act::Add(a, b) => of(a)? + of(b)?,
        Act::Transposed(a) => of(a)?.mt(),
        Act::Flipped(a) => of(a)?.flip(1),
        Act::Half(a) => of(a)?.narrow(0, 0, of(a)?.shape().ok()?[0] / 2),
        Act::Total(a) => of(a)?.sum_keepdim(0),
        Act::Joined(a, b) => Tensor::cat(&[of(a)?, of(b)?], 1),
        Act::Collective(..) | Act::Passed(..) | Act::Blank(..) | Act::Dropped(_) | Act::Step(_) => return None,
    })
}
/// What a rank ends with: the bits of its values and of its cells.
type Ends = Vec<Vec<u64>>;
fn bits(t: &Tensor) -> Result<Vec<u64>> {
    Ok(match t.dtype()? {
        DType::I64 => t.to_vec::<i64>()?.into_iter().map(|x| x as u64).collect(),
        _ => t.to_vec::<f32>()?.into_iter().map(|x| u64::from(x.to_bits())).collect(),
    })
}
/// What a collective gives each rank.
fn together(kind: CollectiveKind, parts: &[&Tensor]) -> Result<Vec<Tensor>> {
    if parts[0].dtype()? == DType::I64 {
        gathered::<i64>(kind, parts, |a, b| a.wrapping_add(b), (i64::max, i64::min))
    } else {
        gathered::<f32>(kind, parts, |a, b| a + b, (f32::max, f32::min))
    }
}
/// Added in halves, of which the left one is a power of two.
fn halved<T: Copy>(values: &[T], add: fn(T, T) -> T) -> T {
    match values {
        [one] => *one,
        values => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            add(halved(left, add), halved(right, add))
        }
    }
}
type Extremes<T> = (fn(T, T) -> T, fn(T, T) -> T);
fn gathered<T: Element + Copy>(kind: CollectiveKind, parts: &[&Tensor], add: fn(T, T) -> T, (max, min): Extremes<T>) -> Result<Vec<Tensor>> {
    let all: Vec<Vec<T>> = parts.iter().map(|part| part.to_vec()).collect::<Result<_>>()?;
    let (ranks, shape) = (parts.len(), parts[0].shape()?);
    let reduced = |reduce: ReduceOp| -> Vec<T> {
        let put = [add, max, min][match reduce {
            ReduceOp::Max => 1,
            ReduceOp::Min => 2,
            _ => 0,
        }];
        (0..all[0].len()).map(|k| halved(&all.iter().map(|own| own[k]).collect::<Vec<T>>(), put)).collect()
    };
    let block = |of: &[T], rank: usize| of[rank * of.len() / ranks..(rank + 1) * of.len() / ranks].to_vec();
    let made = |rank: usize| -> (Vec<T>, usize) {
        match kind {
            CollectiveKind::AllReduce { reduce, .. } => (reduced(reduce), shape[0]),
            CollectiveKind::ReduceScatter { reduce, .. } => (block(&reduced(reduce), rank), shape[0] / ranks),
            CollectiveKind::AllGather { .. } => (all.concat(), shape[0] * ranks),
            CollectiveKind::Broadcast { root, .. } => (all[root].clone(), shape[0]),
            CollectiveKind::AllToAll => (all.iter().flat_map(|own| block(own, rank)).collect(), shape[0]),
            _ => (all[rank].clone(), shape[0]),
        }
    };
    Ok((0..ranks).map(made).map(|(values, first)| Tensor::from_vec(values, [first, shape[1]])).collect())
}
/// What all ranks end with, one act after the other on the reference device.
fn meant(program: &RankProgram, seed: u64) -> Result<Vec<Ends>> {
    let device = Device::reference();
    device.scoped(|| {
        let mut randoms: Vec<Random> = (0..program.ranks).map(|rank| Random::new(seed).part(rank as u64 + 1)).collect();
        let mut values: Vec<Vec<Option<Tensor>>> = vec![Vec::new(); program.ranks];
        let mut cells: Vec<Vec<Tensor>> = vec![program.cells.iter().map(|shape| Tensor::zeros(*shape)).collect(); program.ranks];
        for act in &program.acts {
            match act {
                Act::Dropped(k) => values.iter_mut().for_each(|values| values[*k] = None),
                Act::Step(writes) => {
                    for (rank, cells) in cells.iter_mut().enumerate() {
                        writes.iter().for_each(|(cell, k)| cells[*cell] = values[rank][*k].clone().unwrap_or_else(|| Tensor::zeros([0])));
                    }
                }
                Act::Collective(kind, k) => {
                    let parts: Vec<&Tensor> = values.iter().filter_map(|values| values[*k].as_ref()).collect();
                    let together = together(*kind, &parts)?;
                    values.iter_mut().zip(together).for_each(|(values, made)| values.push(Some(made)));
                }
                Act::Blank(blank, k) => {
                    for (rank, values) in values.iter_mut().enumerate() {
                        let own = values[*k].as_ref().map(|x| if rank == *blank { x.zeros_like() } else { x.clone() });
                        values.push(own);
                    }
                }
                Act::Passed([from, to], k) => {
                    let passed = values[*from][*k].clone();
                    for (rank, values) in values.iter_mut().enumerate() {
                        let own = values[*k].clone();
                        values.push(if rank == *to { passed.clone() } else { own });
                    }
                }
                act => {
                    for (values, random) in values.iter_mut().zip(&mut randoms) {
                        let made = apply(act, values, random, device);
                        values.push(made);
                    }
                }
            }
        }
        values.iter().zip(&cells).map(|(values, cells)| values.iter().flatten().chain(cells).map(bits).collect()).collect()
    })
}
/// One rank's run on a device: `own` draws when it reads.
fn run(program: &RankProgram, seed: u64, rank: usize, group: &Group, device: Device) -> Result<Ends> {
    let (mut random, mut own) = (Random::new(seed).part(rank as u64 + 1), Random::new(seed).part(1000 + rank as u64));
    let window = if own.one_in(2) { own.between(1, 9) } else { 2048 };
    let cells: Vec<Cell> = program.cells.iter().map(|shape| Cell::new(&Tensor::zeros(*shape), false)).collect::<Result<_>>()?;
    let mut values: Vec<Option<Tensor>> = Vec::new();
    with_window(window, || -> Result<()> {
        for act in &program.acts {
            match act {
                Act::Dropped(k) => values[*k] = None,
                Act::Step(writes) => step(|| writes.iter().try_for_each(|(cell, k)| values[*k].as_ref().map_or(Ok(()), |value| cells[*cell].set(value))))?,
                Act::Collective(kind, k) => {
                    let made = values[*k].as_ref().map(|x| collective(*kind, group, x));
                    values.push(made);
                }
                Act::Blank(blank, k) => {
                    let made = values[*k].as_ref().map(|x| if rank == *blank { x.zeros_like() } else { x.clone() });
                    values.push(made);
                }
                Act::Passed([from, to], k) => {
                    let pass = |x: &Tensor| match rank {
                        rank if rank == *from => collective(CollectiveKind::Send { to: *to }, group, x),
                        rank if rank == *to => collective(CollectiveKind::Receive { from: *from }, group, x),
                        _ => x.clone(),
                    };
                    let made = values[*k].as_ref().map(pass);
                    values.push(made);
                }
                act => {
                    let made = apply(act, &values, &mut random, device);
                    values.push(made);
                }
            }
            if own.one_in(6)
                && let Some(value) = values.last().and_then(Option::as_ref)
            {
                value.materialize()?;
            }
        }
        Ok(())
    })?;
    let cells: Vec<Tensor> = cells.iter().map(Cell::detached).collect();
    values.iter().flatten().chain(&cells).map(bits).collect()
}
/// Runs `f` for each rank on a thread of its own.
fn each<R: Send>(groups: &[Arc<dyn Communicator>], f: impl Fn(usize, &Group) -> Result<R> + Sync) -> Result<Vec<R>> {
    thread::scope(|scope| {
        let f = &f;
        let ranks: Vec<_> = groups.iter().enumerate().map(|(rank, group)| scope.spawn(move || f(rank, &communicator::group(group)))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(Error::new("rank", ErrorKind::Internal("a rank panicked".into()))))).collect()
    })
}
/// How a rank gets its device, or why it does not.
pub type Open<'o> = dyn Fn(usize) -> std::result::Result<Device, String> + Sync + 'o;
/// A random program on a device that `open` gives each rank: every rank ends with what it is to end with. `around` runs each rank's
/// part.
///
/// # Errors
/// What differs, with the seed's program.
pub fn program(seed: u64, open: &Open<'_>, around: &Around<'_>) -> Seen<()> {
    let program = draw(&mut Random::new(seed));
    let wants = meant(&program, seed).map_err(text)?;
    let ran = each(&group_of(program.ranks), |rank, group| {
        let device = open(rank).map_err(|why| Error::new("open", lost(&why)))?;
        let mut result = Err(Error::new("run", lost("nobody ran it")));
        around(&mut || result = device.scoped(|| run(&program, seed, rank, group, device)));
        result
    });
    let got = ran.map_err(|e| format!("seed {seed}: {e}\n{:?}", program.acts))?;
    match got.iter().zip(&wants).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(rank) => Err(format!("seed {seed}: rank {rank} of {} ends with other values\n{:?}", program.ranks, program.acts)),
    }
}
/// What a rank's part is run in: a planted fault is the thread's.
pub type Around<'a> = dyn Fn(&mut dyn FnMut()) + Sync + 'a;

/// What a communicator and an op of the same run tell each other.
#[derive(Default, Debug)]
struct Signal {
    state: Mutex<[bool; 2]>,
    changed: Condvar,
}
#[derive(Clone, Copy, PartialEq)]
enum SignalEvent {
    Begun = 0,
    Computed = 1,
}
impl Signal {
    fn raise(&self, event: SignalEvent) {
        self.state.lock()[event as usize] = true;
        self.changed.notify_all();
    }
    fn wait(&self, event: SignalEvent) -> std::result::Result<(), ErrorKind> {
        let mut state = self.state.lock();
        while !state[event as usize] {
            if self.changed.wait_for(&mut state, PATIENCE / 4).timed_out() {
                return Err(ErrorKind::Internal(["the collective did not begin", "the device did not go on"][event as usize].into()));
            }
        }
        Ok(())
    }
}
/// A group of one that says when it is asked, and answers when it may.
struct WatchedGroup {
    signal: Arc<Signal>,
    waits: bool,
    state: GroupState,
}
impl Communicator for WatchedGroup {
    fn engine(&self) -> &'static str {
        "watched"
    }
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, _: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> std::result::Result<(), ErrorKind> {
        blocks.iter_mut().try_for_each(|block| copy(own, block))
    }
    fn all_to_all(&self, _: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> std::result::Result<(), ErrorKind> {
        self.signal.raise(SignalEvent::Begun);
        if self.waits {
            self.signal.wait(SignalEvent::Computed)?;
        }
        to.iter().zip(from).try_for_each(|(block, to)| copy(block, to))
    }
    fn send(&self, call: &CollectiveCall, _: usize, _: &[u8]) -> std::result::Result<(), ErrorKind> {
        Err(lost(&format!("{call} in a group of one")))
    }
    fn receive(&self, call: &CollectiveCall, _: usize, _: &mut [u8]) -> std::result::Result<(), ErrorKind> {
        Err(lost(&format!("{call} in a group of one")))
    }
    fn split(&self, call: &CollectiveCall, _: &[usize]) -> std::result::Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        Err(lost(&format!("{call} in a group of one")))
    }
    fn abort(&self, _: &str) {}
}
/// An op on the host that says that it runs, or waits until a collective has begun. It gives what it gets.
#[derive(Debug)]
struct GateOp {
    signal: Arc<Signal>,
    waits: bool,
    number: i64,
}
impl Composite for GateOp {
    fn name(&self) -> &'static str {
        "conformance.gate"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("number", Attr::Int(self.number))]
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(smallvec![inputs[0]])
    }
    fn is_host(&self) -> bool {
        true
    }
    fn host(&self, inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        self.signal.raise(SignalEvent::Computed);
        let begun = if self.waits { self.signal.wait(SignalEvent::Begun) } else { Ok(()) };
        Some(begun.map(|()| inputs.to_vec()))
    }
}
impl Compound for GateOp {
    fn body(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::new(self.name(), ErrorKind::Internal("it is defined on the host".into())))
    }
}
static GATES: AtomicU64 = AtomicU64::new(0);
/// Does a device go on while ranks exchange, and does an exchange begin when its input is ready, however late it was recorded?
///
/// # Errors
/// Which of them does not hold.
pub fn overlap(device: Device) -> Seen<()> {
    for waits_for_collective in [false, true] {
        let signal = Arc::<Signal>::default();
        let group: Arc<dyn Communicator> = Arc::new(WatchedGroup { signal: signal.clone(), waits: !waits_for_collective, state: GroupState::default() });
        let group = communicator::group(&group);
        let gate = |x: &Tensor| {
            let number = GATES.fetch_add(1, Relaxed) as i64;
            Tensor::composite1(GateOp { signal: signal.clone(), waits: waits_for_collective, number }, &[x])
        };
        let got = device.scoped(|| {
            let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]).cumsum(0);
            let exchange = || collective(ALL_REDUCE, &group, &x);
            let (there, here) = if waits_for_collective {
                let here = gate(&x);
                (exchange(), here)
            } else {
                let there = exchange();
                (there, gate(&x))
            };
            (there + here).to_vec::<f32>()
        });
        match got.map_err(|e| format!("{}: {e}", if waits_for_collective { "begun early" } else { "went on" }))? {
            got if got == [2.0, 6.0, 12.0] => {}
            got => return Err(format!("{got:?}")),
        }
    }
    Ok(())
}
