//! Element-wise loops compiled when they are first needed. A program whose registers lie in vector registers reads each element once and
//! writes each result once, where the interpreter writes and reads a tile for every instruction.
//!
//! The way of a loop: [`trace`] runs the formulas of a program over a vector that writes down what is done with it, [`graph`] holds
//! these operations, [`assemble`] places them into the registers of AVX2 or AVX-512, [`LoopCode`] keeps the instructions in memory that is
//! first written and then executed, never both, and [`LoopCall`] calls them over slices. The operations are those of the other
//! sets, so the bits are. A loop may combine the elements of blocks in lanes instead of writing them. `ADAMANT_JIT=0` leaves all to the interpreter, as do processors other than x86-64 with AVX2 and systems that
//! give no memory to execute; `always` compiles what runs once.
//!
//! Must not know programs, tiles or layouts.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled on this processor"))]

#[cfg(target_arch = "x86_64")]
mod assemble;
mod call;
mod frame;
pub(crate) mod graph;
#[cfg(target_arch = "x86_64")]
mod instructions;
pub(crate) mod trace;

use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use assemble::{AssembledLoop, CarriedLanes, LoopStore, LoopText, Unassembled};
pub(crate) use call::{LaneBlocks, LoopCall};
pub(crate) use frame::{LANES, POINTERS};
use frame::{LoopFrame, NUMBERS};
#[cfg(target_arch = "x86_64")]
use graph::LoopOp;
use graph::{ElementFormat, LoopGraph, LoopValue};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// What `ADAMANT_JIT` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Never,
    WhenWorth,
    Always,
}
impl Wanted {
    fn parse(word: Option<&str>) -> Result<Wanted, String> {
        match word {
            None => Ok(Wanted::WhenWorth),
            Some("0") => Ok(Wanted::Never),
            Some("always") => Ok(Wanted::Always),
            Some(other) => Err(format!("ADAMANT_JIT={other} says nothing about loops: use 0 or always, or unset it")),
        }
    }
}
static WANTED: LazyLock<Result<Wanted, String>> =
    LazyLock::new(|| Wanted::parse(std::env::var_os("ADAMANT_JIT").map(|word| word.to_string_lossy().into_owned()).as_deref()));

/// Looks at `ADAMANT_JIT`, for whoever opens a device.
///
/// # Errors
/// It holds an unknown word.
pub(crate) fn check_wanted() -> Result<(), String> {
    WANTED.as_ref().map(|_| ()).map_err(Clone::clone)
}
/// Whether programs are compiled on this set: the processor can, and `ADAMANT_JIT` is not 0.
pub(crate) fn is_on(isa: Isa) -> bool {
    let may = cfg!(all(target_arch = "x86_64", not(miri))) && !matches!(isa, Isa::Scalar) && isa.is_available();
    may && matches!(*WANTED, Ok(Wanted::WhenWorth | Wanted::Always))
}
/// Whether they are compiled when they first run, be it worth it or not: `ADAMANT_JIT=always`, for tests.
pub(crate) fn is_eager() -> bool {
    cfg!(test) || matches!(*WANTED, Ok(Wanted::Always))
}

/// A loop as an assembler takes it.
pub(crate) struct LoopPlan {
    pub graph: LoopGraph,
    /// how the elements of the streams that it reads lie in memory
    pub reads: SmallVec<[ElementFormat; 8]>,
    /// the values that it writes, and how they lie
    pub writes: SmallVec<[(LoopValue, ElementFormat); 4]>,
    /// how many numbers it takes
    pub numbers: usize,
    /// lanes of 64 bits instead of 32
    pub is_double: bool,
    /// vectors of AVX-512 instead of AVX2
    pub is_wide: bool,
    /// plain outputs by non-temporal stores
    pub past_caches: bool,
    /// where the elements of a block are combined: the constant that its lanes begin with. The one value that is written is what an
    /// iteration leaves in place of [`graph::LoopOp::Carried`], and only the [`LANES`] of each block are written
    pub identity: Option<LoopValue>,
}

/// One of the functions of a [`LoopCode`].
#[derive(Clone, Copy)]
struct LoopEntry {
    /// where it begins
    at: usize,
    /// elements of an iteration
    elements: usize,
}
/// A loop in memory that can be executed.
pub(crate) struct LoopCode {
    #[cfg(target_arch = "x86_64")]
    memory: memmap2::Mmap,
    /// several vectors at a time
    unrolled: LoopEntry,
    /// one at a time
    single: LoopEntry,
    reads: SmallVec<[ElementFormat; 8]>,
    writes: SmallVec<[ElementFormat; 4]>,
    numbers: usize,
    is_double: bool,
    /// bytes of a vector
    width: usize,
    past_caches: bool,
    /// it combines the elements of blocks
    has_blocks: bool,
}
/// Vectors of an iteration, at most: while one waits for what comes before, the others are computed.
#[cfg(target_arch = "x86_64")]
const PARTS: usize = 4;
/// An iteration of fewer instructions, with elements that lie in memory as in registers, is as well done by loops over memory.
#[cfg(target_arch = "x86_64")]
const LEAST: usize = 4;
/// From so many instructions on they wait for each other longer than an iteration takes.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 16;
impl LoopCode {
    /// Compiles a loop. `None`: it has too many streams or numbers, it is not worth it, or the system gives no memory to execute.
    pub fn new(plan: &LoopPlan) -> Option<LoopCode> {
        if plan.reads.len() + plan.writes.len() > POINTERS || plan.numbers > NUMBERS || plan.writes.is_empty() {
            return None;
        }
        LoopCode::assembled(plan)
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn assembled(_: &LoopPlan) -> Option<LoopCode> {
        None
    }
    #[cfg(target_arch = "x86_64")]
    fn assembled(plan: &LoopPlan) -> Option<LoopCode> {
        let codes = match (plan.is_wide, plan.is_double) {
            (false, false) => &instructions::SINGLE_256,
            (false, true) => &instructions::DOUBLE_256,
            (true, false) => &instructions::SINGLE_512,
            (true, true) => &instructions::DOUBLE_512,
        };
        let lanes = codes.width / codes.lane;
        let of_parts = |parts: usize| {
            let results: Vec<LoopValue> = plan.writes.iter().map(|w| w.0).chain(plan.identity).collect();
            let (graph, places) = plan.graph.unrolled(parts as u8, &results);
            let (mut stores, mut carried) = (Vec::new(), Vec::new());
            for (part, places) in places.iter().enumerate() {
                if let (Some(_), &[next, identity]) = (plan.identity, &places[..]) {
                    let of_part = graph.ops().iter().position(|op| *op == LoopOp::Carried(part as u8));
                    carried.extend(of_part.map(|place| CarriedLanes { carried: place as LoopValue, next, identity }));
                    continue;
                }
                for (k, (&value, write)) in places.iter().zip(&plan.writes).enumerate() {
                    stores.push(LoopStore { value, format: write.1, stream: plan.reads.len() + k, part: part as u8 });
                }
            }
            let streams = plan.reads.len() + plan.writes.len();
            let assembled =
                assemble::assemble(&LoopText { graph: &graph, streams, stores: &stores, carried: &carried, codes, parts, past_caches: plan.past_caches });
            if let Err(Unassembled::Encoding(error)) = &assembled {
                debug_assert!(false, "{error}");
            }
            assembled.ok()
        };
        let has_blocks = plan.identity.is_some();
        // Where blocks are combined, an iteration is of as many elements as there are lanes.
        let least = if has_blocks { LANES / lanes } else { 1 };
        let one = of_parts(least)?;
        let is_tile = plan.reads.iter().chain(plan.writes.iter().map(|w| &w.1)).all(|f| f.is_tile());
        if !has_blocks && is_tile && one.length < LEAST {
            return None;
        }
        // Where registers are scarce, it is the traffic between them and the frame that counts.
        let is_light = |all: &AssembledLoop, parts: usize| all.length * 8 <= one.length * parts * 9;
        let counts = [PARTS, PARTS / 2].into_iter().skip(usize::from(one.length < LONG));
        let more = counts.filter(|_| !has_blocks).find_map(|parts| Some((of_parts(parts).filter(|all| is_light(all, parts))?, parts)));
        let mut bytes = one.bytes;
        let single = LoopEntry { at: one.entry, elements: least * lanes };
        let unrolled = more.map_or(single, |(more, parts)| {
            bytes.resize(bytes.len().next_multiple_of(frame::WIDEST), 0);
            let at = bytes.len() + more.entry;
            bytes.extend(more.bytes);
            LoopEntry { at, elements: parts * lanes }
        });
        let mut memory = memmap2::MmapMut::map_anon(bytes.len()).ok()?;
        memory.copy_from_slice(&bytes);
        Some(LoopCode {
            memory: memory.make_exec().ok()?,
            unrolled,
            single,
            reads: plan.reads.clone(),
            writes: plan.writes.iter().map(|w| w.1).collect(),
            numbers: plan.numbers,
            is_double: plan.is_double,
            width: codes.width,
            past_caches: plan.past_caches,
            has_blocks,
        })
    }
    /// Calls the instructions.
    ///
    /// # Safety
    /// Each of the frame's streams has `frame.count` elements of its format, a multiple of those of an iteration and not 0; plain outputs
    /// written by non-temporal stores begin at multiples of a vector; and the processor has the set. A loop over blocks: `frame.count` is
    /// that of blocks times the distance of their beginnings, all streams that are read have what the blocks hold, a multiple of
    /// [`LANES`] and not 0 each, and the last stream has as many lanes for each block.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn enter(&self, entry: LoopEntry, frame: &mut LoopFrame) {
        // SAFETY: the memory holds the function that the assembler made, which reads what the frame names and keeps to the
        // convention of calls.
        unsafe {
            let function: extern "sysv64" fn(*mut LoopFrame) = std::mem::transmute(self.memory.as_ptr().add(entry.at));
            function(frame);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    #[allow(unsafe_code)]
    unsafe fn enter(&self, _: LoopEntry, _: &mut LoopFrame) {}
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn a_word_of_the_environment_that_nobody_knows() {
        assert_eq!([None, Some("0"), Some("always")].map(Wanted::parse), [Ok(Wanted::WhenWorth), Ok(Wanted::Never), Ok(Wanted::Always)]);
        assert!(
            ["", "1", "off", "Always"].into_iter().all(|word| Wanted::parse(Some(word)).is_err_and(|why| why.contains(word) && why.contains("ADAMANT_JIT")))
        );
    }
}
