//! A kernel as the machine runs it: instructions with their operands found, registers numbered as rows, labels as places.
use super::{
    compare::Relation,
    convert::Conversion,
    registers::{Plain, RowOperands},
};
use crate::ptx::{PtxType, StateSpace};

/// An instruction and the predicate it depends on.
pub struct Instruction {
    /// The lanes that take part are those of the predicate, exclusive-or `negated`.
    pub guard: u32,
    pub negated: u32,
    pub step: MachineStep,
}

/// What an instruction does.
pub enum MachineStep {
    Plain(Plain, RowOperands),
    /// Sets a predicate, `d`; `x` is a [`Combination`].
    Set(Relation, RowOperands),
    /// Sets words to ones or 1.0 where the relation holds.
    SetWord(Relation, RowOperands, u32),
    Convert(Box<ConvertStep>),
    /// Several registers into one, and one into several: rows and their widths in bits.
    Pack(Box<RegisterParts>),
    Unpack(Box<RegisterParts>),
    Clock(u32, bool),
    Branch(u32),
    /// By the row, one of the places.
    BranchTable(u32, Box<[u32]>),
    Exit,
    Trap,
    /// Goes to a function; `copies` are parameters, from the caller's frame to the function's.
    Call(Box<FunctionCall>),
    /// Back to where the row says.
    Return(u32),
    /// Results, from the function's frame to the caller's.
    Copies(Box<[FrameCopy]>),
    Load(Box<AccessStep>),
    Store(Box<AccessStep>),
    Atomic(Box<AtomicStep>),
    Fence(bool),
    CopyAsync(Box<CopyAsync>),
    CommitAsync,
    /// All groups but the newest so many are waited for; `None`: all copies.
    WaitAsync(Option<u32>),
    Barrier(Box<Barrier>),
    Collective(Box<Collective>),
    ActiveMask(u32),
    LoadMatrix(Box<MatrixAccess>),
    StoreMatrix(Box<MatrixAccess>),
    Multiply(Box<Multiply>),
    Nothing,
}

/// How `setp` puts its relation together with another predicate, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Combination {
    /// 0: not at all, 1: and, 2: or, 3: exclusive or.
    pub with: u32,
    /// The other predicate counts negated.
    pub negated: bool,
    /// Where the opposite goes.
    pub second: u32,
}

impl Combination {
    pub fn word(self) -> u32 {
        self.with | u32::from(self.negated) << 2 | self.second << 3
    }
    pub fn of(word: u32) -> Combination {
        Combination { with: word & 3, negated: word >> 2 & 1 == 1, second: word >> 3 }
    }
}

/// A conversion with its rows. Two sources make the upper and the lower half.
pub struct ConvertStep {
    pub conversion: Conversion,
    pub d: u32,
    pub d_wide: bool,
    pub sources: Vec<u32>,
    pub source_wide: bool,
    /// Both halves of the one source are converted, and make a word of twice that width.
    pub halves: bool,
    /// Bits of one converted value in a packed result; 0 for one alone.
    pub packed: u32,
}

/// Registers that make up another.
pub struct RegisterParts {
    pub whole: u32,
    pub whole_wide: bool,
    pub parts: Vec<(u32, bool)>,
    pub bits: u32,
}

/// An address: a row and an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub space: StateSpace,
    pub base: u32,
    pub wide: bool,
    pub offset: i64,
}

/// Which promise of order an access carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strength {
    /// It is none that races with others of its kind: volatile, relaxed and stronger.
    pub strong: bool,
    pub acquire: bool,
    pub release: bool,
}

/// A load or a store.
pub struct AccessStep {
    pub place: Place,
    /// Bytes of an element.
    pub bytes: u32,
    pub signed: bool,
    /// A row for each element, and whether it is of 64 bits.
    pub values: Vec<(u32, bool)>,
    pub strength: Strength,
}

/// What an atomic instruction makes of what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    Compare,
    Increment,
    Decrement,
}

/// An atomic instruction.
pub struct AtomicStep {
    pub place: Place,
    pub update: Update,
    pub of: PtxType,
    /// Where the old value goes.
    pub d: Option<u32>,
    pub b: u32,
    pub c: u32,
    pub strength: Strength,
}

/// A copy between two frames of a thread: from, to, bytes.
pub type FrameCopy = (u32, u32, u32);

pub struct FunctionCall {
    pub target: u32,
    pub copies: Vec<FrameCopy>,
    /// The row that remembers where to go on.
    pub back: u32,
}

pub struct CopyAsync {
    pub to: Place,
    pub from: Place,
    pub bytes: u32,
    /// How many bytes are really read; the rest are zeros.
    pub read: Option<u32>,
    /// Nothing is read where this predicate holds (or does not, if negated).
    pub ignore: Option<(u32, bool)>,
}

/// What a barrier counts over its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierCount {
    None,
    Population(u32),
    And(u32),
    Or(u32),
}

pub struct Barrier {
    /// The row of its number.
    pub id: u32,
    /// The row of how many threads take part.
    pub threads: Option<u32>,
    /// It only announces that the thread was there.
    pub arrive: bool,
    pub count: BarrierCount,
    /// The predicate counted, and whether negated.
    pub predicate: (u32, bool),
}

/// What the lanes of a mask do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpAct {
    Sync,
    Up,
    Down,
    Butterfly,
    Index,
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    MatchAll,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}

pub struct Collective {
    pub what: WarpAct,
    /// The row of the mask.
    pub mask: u32,
    /// A row or, of a vote, a predicate.
    pub d: u32,
    /// A predicate beside it.
    pub p: Option<u32>,
    pub a: u32,
    pub a_wide: bool,
    pub negated: bool,
    pub b: u32,
    pub c: u32,
    pub signed: bool,
}

pub struct MatrixAccess {
    pub place: Place,
    pub registers: Vec<u32>,
    pub transposed: bool,
}

/// `mma.sync`: d = a b + c, of 16 rows and 8 columns.
pub struct Multiply {
    pub k: u32,
    pub a_type: PtxType,
    pub b_type: PtxType,
    pub c_type: PtxType,
    pub d_type: PtxType,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
    pub d: Vec<u32>,
    pub saturate: bool,
}

/// Registers that the machine fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
    Warp,
    Warps,
    MaskEq,
    MaskLe,
    MaskLt,
    MaskGe,
    MaskGt,
    Multiprocessor,
    Multiprocessors,
    DynamicShared,
    TotalShared,
    Zero,
    One,
}

/// What a constant row holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RowConstant {
    Word(u32),
    Wide(u64),
    /// The device address of a variable, plus an offset.
    Address(String, i64),
}

/// A kernel, ready to run.
#[derive(Default)]
pub struct Program {
    pub instructions: Vec<Instruction>,
    /// Of each instruction: its line and its text.
    pub origins: Vec<(u32, std::sync::Arc<str>)>,
    pub entry: u32,
    pub specials: Vec<(Special, u32)>,
    pub constants: Vec<(RowConstant, u32)>,
    /// Rows from this one on are registers.
    pub rows: usize,
    pub predicates: usize,
    /// Bytes of local memory of a thread, frames of functions included.
    pub local: u32,
    /// Of these, the ones that hold parameters of functions, which may be copied as they are.
    pub shared: u32,
    /// Where memory begins whose length the launch gives.
    pub dynamic: u32,
    pub has_fences: bool,
}
