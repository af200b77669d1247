//! Element-wise loops compiled when they are first needed. A program whose registers lie in vector registers reads each element once and
//! writes each result once, where the interpreter writes and reads a tile for every instruction.
//!
//! The way of a loop: [`trace`] runs the formulas of a program over a vector that writes down what is done with it, [`graph`] holds
//! these operations, [`assemble`] places them into the registers of AVX2 or AVX-512, [`LoopCode`] keeps the instructions in memory that is
//! first written and then executed, never both, and [`LoopCall`] calls them over slices. The operations are those of the other
//! sets, so the bits are; `ADAMANT_JIT=0` leaves all to the interpreter (`always` compiles what runs once), as do processors other than x86-64 with AVX2 and
//! systems that give no memory to execute.
//!
//! Must not know programs, tiles or layouts.
#[cfg(target_arch = "x86_64")]
mod assemble;
mod frame;
pub(crate) mod graph;
#[cfg(target_arch = "x86_64")]
mod instructions;
pub(crate) mod trace;

use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use assemble::{AssembledLoop, LoopStore, LoopText, Unassembled};
use frame::{LoopFrame, NUMBERS, POINTERS, WIDEST};
use graph::{ElementFormat, LoopGraph, LoopValue};
use smallvec::SmallVec;
use std::{marker::PhantomData, sync::LazyLock};

/// What `ADAMANT_JIT` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Never,
    WhenWorth,
    Always,
}
static WANTED: LazyLock<Wanted> = LazyLock::new(|| match std::env::var("ADAMANT_JIT").as_deref() {
    Ok("0") => Wanted::Never,
    Ok("always") => Wanted::Always,
    _ => Wanted::WhenWorth,
});
/// Whether programs are compiled on this set: the processor can, and `ADAMANT_JIT` is not 0.
pub(crate) fn is_on(isa: Isa) -> bool {
    cfg!(target_arch = "x86_64") && !matches!(isa, Isa::Scalar) && isa.is_available() && *WANTED != Wanted::Never
}
/// Whether they are compiled when they first run, be it worth it or not: `ADAMANT_JIT=always`, for tests.
pub(crate) fn is_eager() -> bool {
    cfg!(test) || *WANTED == Wanted::Always
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
}

/// A loop in memory that can be executed.
pub(crate) struct LoopCode {
    #[cfg(target_arch = "x86_64")]
    memory: memmap2::Mmap,
    #[cfg(target_arch = "x86_64")]
    entry: usize,
    reads: SmallVec<[ElementFormat; 8]>,
    writes: SmallVec<[ElementFormat; 4]>,
    numbers: usize,
    is_double: bool,
    /// bytes of a vector
    width: usize,
    /// elements of a turn
    elements: usize,
    past_caches: bool,
}
/// Vectors of a turn, at most: while one waits for what comes before, the others are computed.
const PARTS: usize = 4;
/// A turn of fewer instructions, with elements that lie in memory as in registers, is as well done by loops over memory.
#[cfg(target_arch = "x86_64")]
const LEAST: usize = 4;
/// From so many instructions on they wait for each other longer than a turn takes.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 16;
impl LoopCode {
    /// Compiles a loop. `None`: it has too many streams or numbers, or the system gives no memory to execute.
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
        let of_parts = |parts: usize| {
            let results: Vec<LoopValue> = plan.writes.iter().map(|w| w.0).collect();
            let (graph, places) = plan.graph.unrolled(parts as u8, &results);
            let mut stores = Vec::new();
            for (part, places) in places.iter().enumerate() {
                for (k, (&value, write)) in places.iter().zip(&plan.writes).enumerate() {
                    stores.push(LoopStore { value, format: write.1, stream: plan.reads.len() + k, part: part as u8 });
                }
            }
            let streams = plan.reads.len() + plan.writes.len();
            let assembled = assemble::assemble(&LoopText { graph: &graph, streams, stores: &stores, codes, parts, past_caches: plan.past_caches });
            debug_assert!(!matches!(assembled, Err(Unassembled::Encoding(_))), "{:?}", assembled.err());
            assembled.ok()
        };
        let one = of_parts(1)?;
        let is_plain = plan.reads.iter().chain(plan.writes.iter().map(|w| &w.1)).all(|f| f.is_plain());
        if is_plain && one.length < LEAST {
            return None;
        }
        // Where registers are scarce, it is the traffic between them and the frame that counts.
        let is_light = |all: &AssembledLoop, parts: usize| all.length * 8 <= one.length * parts * 9;
        let most = if one.length < LONG { PARTS / 2 } else { PARTS };
        let more = [most, PARTS / 2].into_iter().find_map(|parts| Some((of_parts(parts).filter(|all| is_light(all, parts))?, parts)));
        let (assembled, parts) = more.unwrap_or((one, 1));
        let mut memory = memmap2::MmapMut::map_anon(assembled.bytes.len()).ok()?;
        memory.copy_from_slice(&assembled.bytes);
        Some(LoopCode {
            memory: memory.make_exec().ok()?,
            entry: assembled.entry,
            reads: plan.reads.clone(),
            writes: plan.writes.iter().map(|w| w.1).collect(),
            numbers: plan.numbers,
            is_double: plan.is_double,
            width: codes.width,
            elements: parts * codes.width / codes.lane,
            past_caches: plan.past_caches,
        })
    }
    /// Calls the instructions.
    ///
    /// # Safety
    /// Each of the frame's streams has `frame.count` elements of its format, a multiple of those of a turn and not 0; plain outputs
    /// that go past the caches begin at multiples of a vector; and the processor has the set.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn enter(&self, frame: &mut LoopFrame) {
        // SAFETY: the memory holds the function that the assembler made, which reads what the frame names and keeps to the
        // convention of calls.
        unsafe {
            let function: extern "sysv64" fn(*mut LoopFrame) = std::mem::transmute(self.memory.as_ptr().add(self.entry));
            function(frame);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    #[allow(unsafe_code)]
    unsafe fn enter(&self, _: &mut LoopFrame) {}
}

/// The slices and numbers of one call, in the order of the plan: first what is read, then what is written.
pub(crate) struct LoopCall<'a> {
    code: &'a LoopCode,
    n: usize,
    frame: LoopFrame,
    read: usize,
    written: usize,
    numbers: usize,
    slices: PhantomData<&'a mut [u8]>,
}
impl<'a> LoopCall<'a> {
    /// A call over `n` elements.
    pub fn new(code: &'a LoopCode, n: usize) -> LoopCall<'a> {
        LoopCall { code, n, frame: LoopFrame::new(), read: 0, written: 0, numbers: 0, slices: PhantomData }
    }
    fn place(&mut self, k: usize, bytes: usize, format: ElementFormat, at: *mut u8) {
        assert!(bytes >= self.n * format.size(), "a stream of {bytes} bytes for {} elements", self.n);
        self.frame.pointers[k] = at;
    }
    /// The next stream that is read.
    pub fn read(&mut self, bytes: &'a [u8]) {
        let k = self.read;
        self.place(k, bytes.len(), self.code.reads[k], bytes.as_ptr().cast_mut());
        self.read += 1;
    }
    /// The next stream that is read is what output `k` holds before it is written; for what is set by [`LoopCall::write`] later.
    pub fn read_output(&mut self, k: usize) {
        assert_eq!(self.code.reads[self.read].size(), self.code.writes[k].size(), "an output of another size than what is read there");
        // Found when all outputs are there.
        self.frame.pointers[self.read] = std::ptr::without_provenance_mut(k + 1);
        self.read += 1;
    }
    /// The next stream that is written.
    pub fn write(&mut self, bytes: &'a mut [u8]) {
        let k = self.written;
        self.place(self.code.reads.len() + k, bytes.len(), self.code.writes[k], bytes.as_mut_ptr());
        self.written += 1;
    }
    /// The next number, as the bits of a lane.
    pub fn number(&mut self, bits: u64) {
        assert!(self.numbers < self.code.numbers);
        self.frame.set_number(self.numbers, bits, self.code.is_double);
        self.numbers += 1;
    }
    /// Runs the loop.
    pub fn run(mut self) {
        let code = self.code;
        assert!(self.read == code.reads.len() && self.written == code.writes.len() && self.numbers == code.numbers, "a call without all of its streams");
        for k in 0..code.reads.len() {
            let output = self.frame.pointers[k].addr();
            if (1..=code.writes.len()).contains(&output) {
                self.frame.pointers[k] = self.frame.pointers[code.reads.len() + output - 1];
            }
        }
        let head = if code.past_caches { self.head() } else { 0 };
        let whole = (self.n - head) / code.elements * code.elements;
        for at in (0..head).step_by(code.elements) {
            self.part(at, code.elements.min(head - at));
        }
        if whole > 0 {
            let streams = self.frame.pointers;
            self.frame.count = whole;
            for ((k, format), at) in self.formats().enumerate().zip(streams) {
                self.frame.pointers[k] = at.wrapping_add(head * format.size());
            }
            // SAFETY: every stream has n elements of its format: `read` and `write` have seen to it. Loops are made where `is_on`.
            #[allow(unsafe_code)]
            unsafe {
                code.enter(&mut self.frame);
            }
            self.frame.pointers = streams;
        }
        let rest = self.n - head - whole;
        if rest > 0 {
            self.part(head + whole, rest);
        }
    }
    fn formats(&self) -> impl Iterator<Item = ElementFormat> + use<'a> {
        self.code.reads.iter().chain(&self.code.writes).copied()
    }
    /// Elements before the first at which every plain output begins at a multiple of a vector; all of them where there is none.
    fn head(&self) -> usize {
        let first = self.code.reads.len();
        let before = |(k, f): (usize, &ElementFormat)| {
            let bytes = self.frame.pointers[first + k].addr().wrapping_neg() % self.code.width;
            bytes.is_multiple_of(f.size()).then_some(bytes / f.size())
        };
        let mut all = self.code.writes.iter().enumerate().filter(|(_, f)| f.is_plain()).map(before);
        let one = all.next().unwrap_or(Some(0));
        let head = if all.all(|other| other == one) { one } else { None };
        head.unwrap_or(self.n).min(self.n)
    }
    /// Fewer elements than a turn has, by way of vectors of their own.
    fn part(&mut self, at: usize, count: usize) {
        #[repr(C, align(64))]
        #[derive(Clone, Copy)]
        struct Padded([u8; PARTS * WIDEST]);
        let mut padded = [Padded([0; PARTS * WIDEST]); POINTERS];
        let streams = self.frame.pointers;
        self.frame.count = self.code.elements;
        for ((k, format), padded) in self.formats().enumerate().zip(&mut padded) {
            self.frame.pointers[k] = padded.0.as_mut_ptr();
            if k < self.code.reads.len() {
                // SAFETY: the stream has n elements, `at + count` at most; a stream's vectors hold as many as a turn has.
                #[allow(unsafe_code)]
                unsafe {
                    std::ptr::copy_nonoverlapping(streams[k].add(at * format.size()), padded.0.as_mut_ptr(), count * format.size());
                }
            }
        }
        // SAFETY: every stream has the vectors of a turn.
        #[allow(unsafe_code)]
        unsafe {
            self.code.enter(&mut self.frame);
        }
        for (k, format) in self.formats().enumerate().skip(self.code.reads.len()) {
            // SAFETY: as above.
            #[allow(unsafe_code)]
            unsafe {
                std::ptr::copy_nonoverlapping(padded[k].0.as_ptr(), streams[k].add(at * format.size()), count * format.size());
            }
        }
        self.frame.pointers = streams;
    }
}
