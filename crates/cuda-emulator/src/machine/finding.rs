//! What the machine finds wrong with a kernel: which instruction, which thread, which address, and who else.
use std::{error::Error, fmt};

/// What a kernel did that it must not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// An address behind which there is no memory.
    OutOfBounds,
    /// An address that is no multiple of the size of the access.
    Misaligned,
    /// A byte was read that nobody wrote.
    ReadBeforeWritten,
    /// Shared memory was read while an asynchronous copy to it was under way: a wait is missing.
    CopyNotAwaited,
    /// Memory that was freed, or unmapped.
    UseAfterFree,
    /// Two threads of a block, in two warps, met in a place with no barrier between.
    RaceOfThreads,
    /// Two lanes of a warp met in a place with no synchronisation of the warp between.
    RaceOfLanes,
    /// Two blocks of a launch met in a place.
    RaceOfBlocks,
    /// Not all threads that a barrier waits for come to it.
    DivergentBarrier,
    /// A mask names a lane that is not there, or a lane is there that its mask does not name.
    MissingLane,
    /// A write to constant memory.
    WriteToConstant,
    /// The launch does not fit the kernel: its parameters, its block or its grid.
    BadParameter,
    /// The kernel gave up: `trap`, or an assertion.
    Trap,
    /// The budget of instructions is used up.
    Hung,
    /// The host read bytes that nobody wrote.
    HostReadUnwritten,
    /// Work of two streams touched the same bytes, and no event orders the two.
    MissingEvent,
    /// A copy that ran after the host's memory had been given back.
    HostMemoryGone,
    /// The host changed locked memory after it had asked for a copy from there, and before the copy ran.
    StagingReused,
    /// The emulator itself failed in a call.
    EmulatorFailed,
}

impl FindingKind {
    /// Whether it is a race, be it with an asynchronous copy.
    pub fn is_race(self) -> bool {
        matches!(self, FindingKind::RaceOfThreads | FindingKind::RaceOfLanes | FindingKind::RaceOfBlocks | FindingKind::CopyNotAwaited)
    }
    /// What it means, for a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            FindingKind::OutOfBounds => "an address behind which there is no memory",
            FindingKind::Misaligned => "an address that is no multiple of the access's size",
            FindingKind::ReadBeforeWritten => "a read of bytes that nobody wrote",
            FindingKind::CopyNotAwaited => "an access to shared memory while an asynchronous copy to it is under way (cp.async.wait_group is missing)",
            FindingKind::UseAfterFree => "an access to memory that was freed",
            FindingKind::RaceOfThreads => "a race of threads of a block (no barrier between)",
            FindingKind::RaceOfLanes => "a race of lanes of a warp (no __syncwarp between)",
            FindingKind::RaceOfBlocks => "a race of blocks of a launch",
            FindingKind::DivergentBarrier => "a barrier that not all threads come to",
            FindingKind::MissingLane => "a mask and the lanes that are there differ",
            FindingKind::WriteToConstant => "a write to constant memory",
            FindingKind::BadParameter => "a launch that does not fit its kernel",
            FindingKind::Trap => "the kernel gave up (trap)",
            FindingKind::Hung => "the budget of instructions is used up",
            FindingKind::HostReadUnwritten => "the host reads bytes that nobody wrote",
            FindingKind::MissingEvent => "work of two streams on the same bytes, with no event between",
            FindingKind::HostMemoryGone => "a copy that runs after the host's memory was given back",
            FindingKind::StagingReused => "locked memory that was changed before the copy from it ran",
            FindingKind::EmulatorFailed => "the emulator itself failed",
        }
    }
}

/// The other party of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherParty {
    /// Its line in the PTX; 0 if that is not known.
    pub line: u32,
    /// Its instruction; empty if that is not known.
    pub instruction: String,
    /// Its block, if that is known.
    pub block: Option<[u32; 3]>,
    /// Its thread, if that is known.
    pub thread: Option<[u32; 3]>,
    /// Whether it wrote.
    pub wrote: bool,
}

/// Something a kernel did that it must not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The kernel's name.
    pub kernel: String,
    /// The line of the PTX, from 1; 0 if it is none of a single instruction.
    pub line: u32,
    /// The instruction's text.
    pub instruction: String,
    /// The block's place in the grid.
    pub block: [u32; 3],
    /// The thread's place in its block.
    pub thread: [u32; 3],
    /// The address, where there is one: of global memory the device address, else the offset in its space.
    pub address: Option<u64>,
    /// Who else took part.
    pub other: Option<OtherParty>,
    /// What else is to say; may be empty.
    pub note: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} in kernel `{}`", self.kind, self.kind.meaning(), self.kernel)?;
        if self.line > 0 {
            write!(f, ", line {}: `{}`", self.line, self.instruction)?;
        }
        write!(f, ", block {:?}, thread {:?}", self.block, self.thread)?;
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        if let Some(other) = &self.other {
            write!(f, "; the other {}", if other.wrote { "wrote" } else { "read" })?;
            if other.line > 0 {
                write!(f, " in line {}: `{}`", other.line, other.instruction)?;
            }
            if let Some(block) = other.block {
                write!(f, ", block {block:?}")?;
            }
            if let Some(thread) = other.thread {
                write!(f, ", thread {thread:?}")?;
            }
        }
        if !self.note.is_empty() {
            write!(f, "; {}", self.note)?;
        }
        Ok(())
    }
}

impl Error for Finding {}
