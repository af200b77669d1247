//! Runs a launch: its blocks, in an order drawn from a seed, over threads of the host.
use super::{
    Conduct, Launch, Ran,
    arena::Arenas,
    block::{KernelFault, LaunchShape, RunningBlock, SplitMix},
    finding::{Finding, FindingKind, OtherParty},
    module::{Kernel, Loaded},
    step::Program,
    watch::{Launched, RaceReach, Serials},
};
use crate::memory::DeviceMemory;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The most threads of a block.
const MOST_THREADS: u64 = 1024;
/// The most shared memory of a block; what a profile allows is the driver's to say.
const MOST_SHARED: u64 = 256 << 10;
/// Instructions after which a block that is not done makes way for the next: it may wait for that one.
const FIRST_TURN: u64 = 1 << 18;
/// The same where several are under way already.
const TURN: u64 = 1 << 15;
/// Blocks that a thread of the host keeps going at once.
const RESIDENT: usize = 64;

/// Runs one launch to its end.
///
/// # Errors
/// The launch does not fit its kernel, or the kernel did something that it must not do: the first such thing that was met.
pub fn run(loaded: &Loaded, launch: &Launch<'_>, memory: &DeviceMemory, conduct: &Conduct) -> Result<Ran, Box<Finding>> {
    run_unordered(loaded, launch, memory, conduct, &[])
}
/// The same, where nothing orders it with some earlier launches: what both touch, one of them writing, is found.
pub(crate) fn run_unordered(
    loaded: &Loaded,
    launch: &Launch<'_>,
    memory: &DeviceMemory,
    conduct: &Conduct,
    unordered: &[Serials],
) -> Result<Ran, Box<Finding>> {
    let refused = |what: String| {
        Box::new(Finding {
            kind: FindingKind::BadParameter,
            kernel: launch.kernel.to_string(),
            line: 0,
            instruction: String::new(),
            block: [0; 3],
            thread: [0; 3],
            address: None,
            other: None,
            note: what,
        })
    };
    let kernel = loaded.module().kernel(launch.kernel).ok_or_else(|| refused("the module has no kernel of that name".into()))?;
    let blocks = fits(kernel, launch).map_err(refused)?;
    let program = &kernel.program;
    let shape = LaunchShape {
        grid: launch.grid,
        block: launch.block,
        dynamic_shared: launch.dynamic_shared,
        seed: conduct.seed,
        budget: conduct.budget,
        wrong_matrices: conduct.wrong_matrices,
        constants: loaded.constants(program),
    };
    let crew = HostThreads {
        program,
        shape: &shape,
        launched: Launched::new(program.has_fences, unordered),
        memory,
        parameters: launch.parameters,
        blocks,
        order: BlockOrder::new(blocks, conduct.seed),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        ran: Mutex::new(Ran::default()),
        found: Mutex::new(None),
        doubt: Mutex::new(None),
    };
    let threads = (conduct.threads.max(1) as u64).min(blocks);
    if threads == 1 {
        crew.work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| crew.work());
            }
        });
    }
    let (found, doubt) = (crew.found.lock().take(), crew.doubt.lock().take());
    let told = match (found, doubt) {
        (Some(found), Some(doubt)) => Some(if found.fault.kind.is_race() { found } else { doubt }),
        (found, doubt) => found.or(doubt),
    };
    match told {
        Some(found) => Err(Box::new(crew.tell(launch.kernel, &found))),
        None => Ok(*crew.ran.lock()),
    }
}

/// How many blocks there are, or what does not fit.
fn fits(kernel: &Kernel, launch: &Launch<'_>) -> Result<u64, String> {
    let product = |size: [u32; 3]| size.iter().try_fold(1u64, |p, n| p.checked_mul(u64::from(*n)));
    let (blocks, threads) = (product(launch.grid).unwrap_or(u64::MAX), product(launch.block).unwrap_or(u64::MAX));
    let most = kernel.max_threads.map_or(MOST_THREADS, |m| MOST_THREADS.min(m.into()));
    let wanted = kernel.parameter_bytes() as usize;
    let shared = u64::from(kernel.program.dynamic) + u64::from(launch.dynamic_shared);
    match () {
        () if blocks == 0 || threads == 0 => Err(format!("a grid of {:?} blocks of {:?} threads is empty", launch.grid, launch.block)),
        () if blocks > u64::from(u32::MAX) => Err(format!("a grid of {:?} blocks is too large", launch.grid)),
        () if threads > most => Err(format!("a block of {:?} threads; at most {most} can be", launch.block)),
        () if launch.parameters.len() < wanted => Err(format!("{} bytes of parameters; the kernel has {wanted}", launch.parameters.len())),
        () if shared > MOST_SHARED => Err(format!("{shared} bytes of shared memory are more than any block has")),
        () => Ok(blocks),
    }
}

/// An order of blocks: each once, by multiplication with a number that shares no factor with their count.
struct BlockOrder {
    count: u64,
    step: u64,
    start: u64,
}

impl BlockOrder {
    fn new(count: u64, seed: u64) -> BlockOrder {
        let mut random = SplitMix(seed);
        let divisor = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let start = random.next() % count;
        let mut step = random.next() % count;
        // Seed 0 keeps them as they are, which is what a card mostly does.
        if seed == 0 {
            return BlockOrder { count, step: 1, start: 0 };
        }
        while step == 0 || divisor(step, count) != 1 {
            step += 1;
        }
        BlockOrder { count, step, start }
    }
    fn at(&self, k: u64) -> u64 {
        ((u128::from(k) * u128::from(self.step) + u128::from(self.start)) % u128::from(self.count)) as u64
    }
}

/// The host's threads, and what they share.
struct HostThreads<'r> {
    program: &'r Program,
    shape: &'r LaunchShape,
    launched: Launched,
    memory: &'r DeviceMemory,
    parameters: &'r [u8],
    blocks: u64,
    order: BlockOrder,
    next: AtomicU64,
    stop: AtomicBool,
    ran: Mutex<Ran>,
    found: Mutex<Option<FoundFault>>,
    doubt: Mutex<Option<FoundFault>>,
}

/// What was found, with where.
struct FoundFault {
    fault: KernelFault,
    block: [u32; 3],
    thread: [u32; 3],
}

impl HostThreads<'_> {
    fn make(&self) -> Option<RunningBlock<'_>> {
        let shared = u64::from(self.program.dynamic) + u64::from(self.shape.dynamic_shared);
        let warps = self.shape.block.iter().product::<u32>().div_ceil(32) as usize;
        let arenas = Arenas::new(self.memory, shared, self.program.local.into(), warps, self.parameters)?;
        Some(RunningBlock::new(self.program, self.shape, &self.launched, arenas))
    }
    /// Takes blocks until there are none.
    fn work(&self) {
        let mut going: Vec<RunningBlock<'_>> = Vec::new();
        let mut idle: Vec<RunningBlock<'_>> = Vec::new();
        let mut turn = 0;
        while !self.stop.load(Relaxed) {
            if going.len() < RESIDENT && (going.is_empty() || turn == 0) {
                let next = self.next.fetch_add(1, Relaxed);
                if next < self.blocks {
                    let Some(mut block) = idle.pop().or_else(|| self.make()) else {
                        self.give_up();
                        return;
                    };
                    block.begin(self.order.at(next) as u32);
                    going.push(block);
                    turn = going.len() - 1;
                } else if going.is_empty() {
                    return;
                }
            }
            turn %= going.len().max(1);
            let slice = if going.len() == 1 { FIRST_TURN } else { TURN };
            let Some(block) = going.get_mut(turn) else { return };
            match block.run(slice) {
                Ok(true) => {
                    let mut ran = self.ran.lock();
                    ran.instructions += block.executed;
                    ran.global_bytes += block.global_bytes;
                    drop(ran);
                    match block.doubt.take() {
                        // Nobody else can still write there.
                        Some((fault, true)) => self.found(block, *fault),
                        Some((fault, false)) => self.doubts(block, *fault),
                        None => {}
                    }
                    idle.push(going.swap_remove(turn));
                    turn = 0;
                }
                // Whom it waits for may be another thread's block.
                Ok(false) => {
                    std::thread::yield_now();
                    turn = (turn + 1) % (going.len() + 1) % going.len().max(1);
                }
                Err(fault) => {
                    // A race explains what was read too early; all else may come of it.
                    match block.doubt.take() {
                        Some((doubt, _)) if !fault.kind.is_race() => self.found(block, *doubt),
                        _ => self.found(block, *fault),
                    }
                }
            }
        }
    }
    fn found(&self, block: &RunningBlock<'_>, fault: KernelFault) {
        let found = FoundFault { block: block.place, thread: block.thread(fault.warp, fault.lane), fault };
        self.found.lock().get_or_insert(found);
        self.stop.store(true, Relaxed);
    }
    /// Device memory was read before it was written: if no other block writes there, that is what is told.
    fn doubts(&self, block: &RunningBlock<'_>, fault: KernelFault) {
        let found = FoundFault { block: block.place, thread: block.thread(fault.warp, fault.lane), fault };
        self.doubt.lock().get_or_insert(found);
    }
    /// The host itself has no memory for a block.
    fn give_up(&self) {
        let note = "the host has no memory for a block".to_string();
        let fault = KernelFault { kind: FindingKind::BadParameter, warp: 0, lane: 0, pc: 0, address: None, meeting: None, note };
        *self.found.lock() = Some(FoundFault { fault, block: [0; 3], thread: [0; 3] });
        self.stop.store(true, Relaxed);
    }
    fn tell(&self, kernel: &str, found: &FoundFault) -> Finding {
        let origin = |pc: u32| self.program.origins.get(pc as usize).map_or((0, String::new()), |(line, text)| (*line, text.to_string()));
        let (line, instruction) = origin(found.fault.pc);
        let [x, y, _] = self.shape.grid;
        let other = found.fault.meeting.map(|m| {
            if m.kind == RaceReach::Launches {
                return OtherParty { line: 0, instruction: String::new(), block: None, thread: None, wrote: m.wrote };
            }
            let (line, instruction) = if m.instruction == 0 { (0, String::new()) } else { origin(m.instruction) };
            let block = self.launched.serials.read().get(&m.serial).map(|n| [n % x, n / x % y, n / x / y]);
            let [bx, by, _] = self.shape.block;
            let thread = 32 * m.warp + m.lane;
            OtherParty { line, instruction, block, thread: Some([thread % bx, thread / bx % by, thread / bx / by]), wrote: m.wrote }
        });
        Finding {
            kind: found.fault.kind,
            kernel: kernel.to_string(),
            line,
            instruction,
            block: found.block,
            thread: found.thread,
            address: found.fault.address,
            other,
            note: found.fault.note.clone(),
        }
    }
}
