//! A block of a launch as it runs: its warps in turn, each until it waits, in an order drawn from a seed.
use super::{
    arena::Arenas,
    finding::FindingKind,
    registers::{ALL, LANES, lanes},
    step::{Barrier, BarrierCount, Combination, MachineStep, Program, Special},
    warp::{Warp, WarpState},
    watch::{Encounter, Launched, Party, RaceWatch, WARPS},
};

/// Instructions that a warp runs before another has its turn, at least.
const QUANTUM: u64 = 512;

/// What went wrong, before it is told with names.
pub struct KernelFault {
    pub kind: FindingKind,
    pub warp: usize,
    pub lane: usize,
    pub pc: u32,
    pub address: Option<u64>,
    pub meeting: Option<Encounter>,
    pub note: String,
}

pub type Outcome<T> = Result<T, Box<KernelFault>>;

/// What comes after an instruction.
pub enum Flow {
    Next,
    /// The lanes that run are elsewhere, or others.
    Elsewhere,
    /// The warp waits or is done.
    Pause,
}

/// A barrier of a block.
#[derive(Clone)]
struct Meet {
    arrived: u32,
    waiting: u32,
    handed: [u32; WARPS],
    population: u32,
    and: bool,
    or: bool,
}

impl Meet {
    const EMPTY: Meet = Meet { arrived: 0, waiting: 0, handed: [0; WARPS], population: 0, and: true, or: false };
}

/// Numbers drawn from a seed (SplitMix64, by Steele, Lea and Flood).
#[derive(Clone, Copy)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// What all blocks of a launch share.
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub seed: u64,
    pub budget: u64,
    pub wrong_matrices: bool,
    /// The program's constants, addresses found.
    pub constants: Vec<(u32, u64, bool)>,
}

/// A block of a launch.
pub struct RunningBlock<'r> {
    pub program: &'r Program,
    pub shape: &'r LaunchShape,
    launched: &'r Launched,
    pub arenas: Arenas<'r>,
    pub watch: RaceWatch<'r>,
    pub warps: Vec<Warp>,
    pub place: [u32; 3],
    meets: Vec<Meet>,
    pub random: SplitMix,
    /// Asynchronous copies land when they are waited for, not at once.
    pub late: bool,
    pub executed: u64,
    pub global_bytes: u64,
    threads: u32,
    /// A read of bytes that nobody had written then, and whether they are of shared memory.
    pub doubt: Option<(Box<KernelFault>, bool)>,
}

impl<'r> RunningBlock<'r> {
    pub fn new(program: &'r Program, shape: &'r LaunchShape, launched: &'r Launched, arenas: Arenas<'r>) -> RunningBlock<'r> {
        let threads = shape.block.iter().product::<u32>();
        let count = threads.div_ceil(32) as usize;
        let warps = (0..count).map(|_| Warp::new(program.rows, program.predicates)).collect();
        RunningBlock {
            program,
            shape,
            launched,
            arenas,
            watch: RaceWatch::new(launched, 0, count),
            warps,
            place: [0; 3],
            meets: vec![Meet::EMPTY; 16],
            random: SplitMix(0),
            late: false,
            executed: 0,
            global_bytes: 0,
            threads,
            doubt: None,
        }
    }
    /// Becomes the block of that number.
    pub fn begin(&mut self, number: u32) {
        let [x, y, _] = self.shape.grid;
        self.place = [number % x, number / x % y, number / x / y];
        self.watch = RaceWatch::new(self.launched, number, self.warps.len());
        self.arenas.begin();
        self.meets.fill(Meet::EMPTY);
        self.random = SplitMix(self.shape.seed ^ u64::from(number) << 20);
        self.late = self.random.next() & 1 == 1;
        (self.executed, self.global_bytes) = (0, 0);
        self.doubt = None;
        for w in 0..self.warps.len() {
            let lanes = (self.threads - 32 * w as u32).min(32);
            let mask = if lanes == 32 { ALL } else { (1 << lanes) - 1 };
            self.warps[w].begin(self.program.entry, mask);
            self.fill(w);
        }
    }
    /// Constants and special registers of a warp.
    fn fill(&mut self, w: usize) {
        let (shape, place) = (self.shape, self.place);
        let (program, warps) = (self.program, self.warps.len() as u32);
        let r = &mut self.warps[w].registers;
        for (row, value, wide) in &shape.constants {
            if *wide {
                r.fill(*row, *value);
            } else {
                r.fill(*row, *value as u32);
            }
        }
        let [x, y, _] = shape.block;
        for (special, row) in &program.specials {
            let mut each = |f: &dyn Fn(u32) -> u32| *r.words_mut(*row) = std::array::from_fn(|lane| f(lane as u32));
            let thread = |lane: u32| 32 * w as u32 + lane;
            match *special {
                Special::Thread(0) => each(&|lane| thread(lane) % x),
                Special::Thread(1) => each(&|lane| thread(lane) / x % y),
                Special::Thread(_) => each(&|lane| thread(lane) / x / y),
                Special::Threads(axis) => each(&|_| shape.block[axis]),
                Special::Block(axis) => each(&|_| place[axis]),
                Special::Blocks(axis) => each(&|_| shape.grid[axis]),
                Special::Lane => each(&|lane| lane),
                Special::Warp => each(&|_| w as u32),
                Special::Warps => each(&|_| warps),
                Special::MaskEq => each(&|lane| 1 << lane),
                Special::MaskLe => each(&|lane| ALL >> (31 - lane)),
                Special::MaskLt => each(&|lane| (1 << lane) - 1),
                Special::MaskGe => each(&|lane| ALL << lane),
                Special::MaskGt => each(&|lane| !(ALL >> (31 - lane))),
                Special::DynamicShared => each(&|_| shape.dynamic_shared),
                Special::TotalShared => each(&|_| program.dynamic + shape.dynamic_shared),
                Special::Multiprocessor | Special::Zero => each(&|_| 0),
                Special::Multiprocessors | Special::One => each(&|_| 1),
            }
        }
    }
    /// Where a thread is in its block.
    pub fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        let [x, y, _] = self.shape.block;
        let thread = 32 * warp as u32 + lane as u32;
        [thread % x, thread / x % y, thread / x / y]
    }
    pub fn fault<T>(&self, kind: FindingKind, warp: usize, lane: usize, note: impl Into<String>) -> Outcome<T> {
        let pc = self.warps[warp].pc;
        Err(Box::new(KernelFault { kind, warp, lane, pc, address: None, meeting: None, note: note.into() }))
    }
    pub fn party(&self, warp: usize, lane: usize) -> Party {
        Party { warp: warp as u32, lane: lane as u32, instruction: self.warps[warp].pc }
    }
    /// Runs for some instructions; whether the block is done.
    pub fn run(&mut self, instructions: u64) -> Outcome<bool> {
        let end = self.executed.saturating_add(instructions);
        loop {
            let ready = self.warps.iter().filter(|w| w.state == WarpState::Ready).count();
            if ready == 0 {
                return self.rest();
            }
            if self.executed >= end {
                return Ok(false);
            }
            let chosen = self.random.next() % ready as u64;
            let found = self.warps.iter().enumerate().filter(|(_, w)| w.state == WarpState::Ready).nth(chosen as usize).map(|(w, _)| w);
            let quantum = QUANTUM + self.random.next() % (4 * QUANTUM);
            self.run_warp(found.unwrap_or(0), quantum)?;
            if self.executed > self.shape.budget {
                return self.fault(FindingKind::Hung, found.unwrap_or(0), 0, "");
            }
        }
    }
    /// No warp can go on: all are done, or some wait for those that left.
    fn rest(&self) -> Outcome<bool> {
        for (w, warp) in self.warps.iter().enumerate() {
            if let WarpState::AtBarrier(_) = warp.state {
                let note = "it waits, and no other thread comes";
                let (lane, pc) = (warp.mask.trailing_zeros() as usize & 31, warp.pc - 1);
                return Err(Box::new(KernelFault { kind: FindingKind::DivergentBarrier, warp: w, lane, pc, address: None, meeting: None, note: note.into() }));
            }
        }
        Ok(true)
    }
    /// Runs a warp until it waits, is done, or others have their turn.
    fn run_warp(&mut self, w: usize, quantum: u64) -> Outcome<()> {
        let program = self.program;
        let mut left = quantum;
        let outcome = loop {
            let warp = &mut self.warps[w];
            let instruction = &program.instructions[warp.pc as usize];
            let active = warp.mask & (warp.registers.predicates[instruction.guard as usize] ^ instruction.negated);
            left -= 1;
            match &instruction.step {
                MachineStep::Plain(run, operands) => {
                    if active != 0 {
                        run(&mut warp.registers, operands, active);
                    }
                }
                MachineStep::Set(relation, operands) => {
                    let holds = relation(&warp.registers, operands);
                    let r = &mut warp.registers;
                    let combination = Combination::of(operands.x);
                    let other = if combination.with > 0 { r.predicate(operands.c) ^ if combination.negated { ALL } else { 0 } } else { 0 };
                    let put = |holds: u32| match combination.with {
                        0 => holds,
                        1 => holds & other,
                        2 => holds | other,
                        _ => holds ^ other,
                    };
                    r.put_predicate(operands.d, active, put(holds));
                    r.put_predicate(combination.second, active, put(!holds));
                }
                MachineStep::Branch(to) => {
                    if active == warp.mask {
                        warp.pc = *to;
                    } else {
                        warp.pc += 1;
                        if active != 0 {
                            warp.split(active, *to);
                        }
                    }
                    if !warp.others.is_empty() {
                        warp.regroup();
                    }
                    if left == 0 {
                        break Ok(());
                    }
                    continue;
                }
                step => match self.step(w, step, active) {
                    Ok(Flow::Next) => {}
                    Ok(Flow::Elsewhere) => {
                        if left == 0 {
                            break Ok(());
                        }
                        continue;
                    }
                    Ok(Flow::Pause) => break Ok(()),
                    Err(fault) => break Err(fault),
                },
            }
            let warp = &mut self.warps[w];
            warp.pc += 1;
            if warp.pc >= warp.limit {
                warp.regroup();
            }
            if left == 0 {
                break Ok(());
            }
        };
        self.executed += quantum - left;
        outcome
    }
    /// All instructions but the plainest.
    fn step(&mut self, w: usize, step: &MachineStep, active: u32) -> Outcome<Flow> {
        let together = matches!(
            step,
            MachineStep::Barrier(_) | MachineStep::Collective(_) | MachineStep::LoadMatrix(_) | MachineStep::StoreMatrix(_) | MachineStep::Multiply(_)
        );
        if active == 0 {
            return Ok(Flow::Next);
        }
        let warp = &mut self.warps[w];
        if together && active != warp.mask {
            // Those that a predicate keeps out go on alone.
            let pc = warp.pc + 1;
            warp.split(warp.mask & !active, pc);
            warp.limit = warp.limit.min(pc);
        }
        match step {
            MachineStep::Plain(..) | MachineStep::Set(..) | MachineStep::Branch(_) | MachineStep::Nothing => {}
            MachineStep::SetWord(relation, o, ones) => {
                let holds = relation(&warp.registers, o);
                let words: [u32; LANES] = std::array::from_fn(|lane| if holds >> lane & 1 == 1 { *ones } else { 0 });
                warp.registers.put(o.d, active, &words);
            }
            MachineStep::Convert(convert) => super::moves::convert(&mut warp.registers, convert, active),
            MachineStep::Pack(parts) => super::moves::pack(&mut warp.registers, parts, active),
            MachineStep::Unpack(parts) => super::moves::unpack(&mut warp.registers, parts, active),
            MachineStep::Clock(d, wide) => {
                let now = self.executed;
                if *wide {
                    warp.registers.put(*d, active, &[now; LANES]);
                } else {
                    warp.registers.put(*d, active, &[now as u32; LANES]);
                }
            }
            MachineStep::ActiveMask(d) => warp.registers.put(*d, active, &[active; LANES]),
            MachineStep::BranchTable(..) | MachineStep::Call(_) | MachineStep::Return(_) | MachineStep::Exit => return self.jump(w, step, active),
            MachineStep::Copies(copies) => {
                for lane in lanes(active) {
                    for copy in copies {
                        self.arenas.copy_local(w, lane, *copy);
                    }
                }
            }
            MachineStep::Trap => return self.fault(FindingKind::Trap, w, active.trailing_zeros() as usize, ""),
            MachineStep::Load(access) => self.load(w, access, active)?,
            MachineStep::Store(access) => self.store(w, access, active)?,
            MachineStep::Atomic(atomic) => self.atomic(w, atomic, active)?,
            MachineStep::Fence(device) => {
                if *device {
                    self.watch.fence(w);
                }
            }
            MachineStep::CopyAsync(copy) => self.copy_async(w, copy, active)?,
            MachineStep::CommitAsync => {
                for lane in lanes(active) {
                    warp.open[lane] += 1;
                }
            }
            MachineStep::WaitAsync(newest) => self.wait_async(w, *newest, active)?,
            MachineStep::Barrier(barrier) => return self.barrier(w, barrier, active),
            MachineStep::Collective(collective) => return self.collective(w, collective),
            MachineStep::LoadMatrix(access) => return self.load_matrix(w, access),
            MachineStep::StoreMatrix(access) => return self.store_matrix(w, access),
            MachineStep::Multiply(multiply) => {
                if !self.gather(w, ALL)? {
                    return Ok(Flow::Elsewhere);
                }
                let registers = &mut self.warps[w].registers;
                super::matrix::multiply(registers, multiply);
                if let (true, Some(row)) = (self.shape.wrong_matrices, multiply.d.first()) {
                    registers.set_lane(*row, 0, 0u32);
                }
            }
        }
        Ok(Flow::Next)
    }
    /// Instructions after which lanes may be in several places.
    fn jump(&mut self, w: usize, step: &MachineStep, active: u32) -> Outcome<Flow> {
        let warp = &mut self.warps[w];
        let next = warp.pc + 1;
        let mut targets: [u32; LANES] = [next; LANES];
        match step {
            MachineStep::BranchTable(row, table) => {
                let index = *warp.registers.words(*row);
                for lane in lanes(active) {
                    match table.get(index[lane] as usize) {
                        Some(to) => targets[lane] = *to,
                        None => return self.fault(FindingKind::OutOfBounds, w, lane, format!("branch {} of {}", index[lane], table.len())),
                    }
                }
            }
            MachineStep::Return(back) => {
                let back = *warp.registers.words(*back);
                lanes(active).for_each(|lane| targets[lane] = back[lane]);
            }
            MachineStep::Call(call) => {
                warp.registers.put(call.back, active, &[next; LANES]);
                lanes(active).for_each(|lane| targets[lane] = call.target);
                for lane in lanes(active) {
                    for copy in &call.copies {
                        self.arenas.copy_local(w, lane, *copy);
                    }
                }
            }
            _ => {
                // Exit: what the lanes had copied asynchronously is theirs no more.
                if active != warp.mask {
                    let rest = warp.mask & !active;
                    warp.split(rest, next);
                }
                if !warp.leave(active) {
                    warp.state = WarpState::Done;
                    return Ok(Flow::Pause);
                }
                return Ok(Flow::Elsewhere);
            }
        }
        let warp = &mut self.warps[w];
        let mut rest = warp.mask;
        let first = targets[rest.trailing_zeros() as usize & 31];
        while rest != 0 {
            let to = targets[rest.trailing_zeros() as usize];
            let same = lanes(rest).filter(|lane| targets[*lane] == to).fold(0, |m, lane| m | 1 << lane);
            if to != first {
                warp.split(same, to);
            }
            rest &= !same;
        }
        warp.pc = first;
        warp.regroup();
        Ok(Flow::Elsewhere)
    }
    /// Whether all lanes that are wanted are here; if not, who is here waits, and others go.
    pub fn gather(&mut self, w: usize, wanted: u32) -> Outcome<bool> {
        let warp = &mut self.warps[w];
        let (mask, live, there) = (warp.mask, warp.live, warp.there);
        let gone = wanted & there & !live;
        if gone != 0 {
            let lane = mask.trailing_zeros() as usize;
            return self.fault(FindingKind::MissingLane, w, lane, format!("the mask {wanted:#010x} names lane {}, which has left", gone.trailing_zeros()));
        }
        if wanted & live & !mask == 0 {
            return Ok(true);
        }
        if warp.park() {
            return Ok(false);
        }
        Err(self.stuck(w, wanted))
    }
    /// All lanes of a warp wait for others: for whom, is told of the first group that waits for lanes of a mask; if all wait
    /// at barriers, of those.
    fn stuck(&self, w: usize, wanted: u32) -> Box<KernelFault> {
        let warp = &self.warps[w];
        let mine = super::warp::Group { pc: warp.pc, mask: warp.mask, parked: true };
        let at_barrier = |pc: u32| matches!(self.program.instructions.get(pc as usize).map(|i| &i.step), Some(MachineStep::Barrier(_)));
        let told = std::iter::once(&mine).chain(&warp.others).find(|g| !at_barrier(g.pc));
        let (group, kind) = told.map_or((mine, FindingKind::DivergentBarrier), |g| (*g, FindingKind::MissingLane));
        let missing = wanted & warp.live & !group.mask;
        let note = match missing {
            0 => format!("only the lanes {:#010x} are here; the others wait elsewhere", group.mask),
            _ => format!("only the lanes {:#010x} are here; lane {} waits elsewhere", group.mask, missing.trailing_zeros()),
        };
        Box::new(KernelFault { kind, warp: w, lane: group.mask.trailing_zeros() as usize & 31, pc: group.pc, address: None, meeting: None, note })
    }
    fn barrier(&mut self, w: usize, barrier: &Barrier, active: u32) -> Outcome<Flow> {
        let live = self.warps[w].live;
        if !self.gather(w, live)? {
            return Ok(Flow::Elsewhere);
        }
        let warp = &mut self.warps[w];
        let lane = active.trailing_zeros() as usize;
        let id = warp.registers.words(barrier.id)[lane];
        let wanted = barrier.threads.map(|row| warp.registers.words(row)[lane]);
        let holds = (warp.registers.predicate(barrier.predicate.0) ^ if barrier.predicate.1 { ALL } else { 0 }) & warp.mask;
        let (mask, there) = (warp.mask, warp.there);
        let full = wanted.is_none_or(|t| t == self.threads.next_multiple_of(32) || t == self.threads) && !barrier.arrive;
        if id > 15 || wanted.is_some_and(|t| t == 0 || t % 32 != 0 || t > self.threads.next_multiple_of(32)) {
            return self.fault(FindingKind::DivergentBarrier, w, lane, format!("barrier {id} of {wanted:?} threads there is not"));
        }
        if full && mask != there {
            let left = (there & !mask).trailing_zeros();
            return self.fault(FindingKind::DivergentBarrier, w, lane, format!("lane {left} of the warp has left before"));
        }
        let (threads, all) = (self.threads.div_ceil(32) * 32, self.warps.len() as u32);
        let meet = &mut self.meets[id as usize];
        meet.arrived += 32;
        meet.population += holds.count_ones();
        meet.and &= holds == mask;
        meet.or |= holds != 0;
        if !full {
            self.watch.hand_over(w, &mut meet.handed);
        }
        let warp = &mut self.warps[w];
        warp.pc += 1;
        if !barrier.arrive {
            meet.waiting |= 1 << w;
            warp.counts = barrier.count;
            warp.state = WarpState::AtBarrier(id as usize);
        }
        if warp.pc >= warp.limit {
            warp.regroup();
        }
        if meet.arrived < wanted.unwrap_or(threads).next_multiple_of(32) {
            return Ok(if barrier.arrive { Flow::Elsewhere } else { Flow::Pause });
        }
        let meet = std::mem::replace(meet, Meet::EMPTY);
        if full && meet.waiting.count_ones() == all {
            self.watch.sync_all();
        } else {
            lanes(meet.waiting).for_each(|w| self.watch.take_over(w, &meet.handed));
        }
        for passed in lanes(meet.waiting) {
            let warp = &mut self.warps[passed];
            warp.state = WarpState::Ready;
            match warp.counts {
                BarrierCount::None => {}
                BarrierCount::Population(d) => warp.registers.put(d, warp.mask, &[meet.population; LANES]),
                BarrierCount::And(d) => warp.registers.put_predicate(d, warp.mask, if meet.and { ALL } else { 0 }),
                BarrierCount::Or(d) => warp.registers.put_predicate(d, warp.mask, if meet.or { ALL } else { 0 }),
            }
        }
        Ok(Flow::Elsewhere)
    }
}
