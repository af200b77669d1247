//! What a compiled loop does with one vector of elements: a straight line of operations, each named by its place. No branch, no
//! layout, no instruction set.
use std::collections::HashMap;

/// The outcome of an operation, by its place in the line.
pub(crate) type LoopValue = u16;

/// How an element lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ElementFormat {
    F32,
    F64,
    Bf16,
    F16,
    /// A byte that is 0 or 1; in a vector, a mask.
    Bool,
    U8,
    I8,
    U16,
    I16,
    I32,
    /// for lanes of 64 bits
    WidenedI32,
    WidenedF32,
    I64,
}
impl ElementFormat {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            ElementFormat::F32 | ElementFormat::I32 | ElementFormat::WidenedI32 | ElementFormat::WidenedF32 => 4,
            ElementFormat::F64 | ElementFormat::I64 => 8,
            ElementFormat::Bf16 | ElementFormat::F16 | ElementFormat::U16 | ElementFormat::I16 => 2,
            ElementFormat::Bool | ElementFormat::U8 | ElementFormat::I8 => 1,
        }
    }
    /// Does a vector of it lie in memory as in a register?
    pub fn is_plain(self) -> bool {
        matches!(self, ElementFormat::F32 | ElementFormat::F64 | ElementFormat::I32 | ElementFormat::I64)
    }
    /// Is it written from lanes of 64 bits, or of 32?
    pub fn is_of(self, is_double: bool) -> bool {
        match self {
            ElementFormat::Bool => true,
            ElementFormat::F64 | ElementFormat::I64 | ElementFormat::WidenedI32 | ElementFormat::WidenedF32 => is_double,
            _ => !is_double,
        }
    }
    /// Does a vector of it lie in memory as in the interpreter's tiles?
    pub fn is_tile(self) -> bool {
        matches!(self, ElementFormat::F32 | ElementFormat::F64 | ElementFormat::I64)
    }
}

/// Of two vectors. What is below [`PairOp::Max`] keeps to bits, the rest counts as floating point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PairOp {
    Add,
    Sub,
    Mul,
    Div,
    /// The second where either is NaN.
    Min,
    /// The second where either is NaN.
    Max,
    And,
    Or,
    Xor,
    IntAdd,
    IntSub,
    /// The lower half of each product.
    IntMul,
    /// By the count in each lane.
    ShiftLeftBy,
    /// With the sign; AVX2 has none for lanes of 64 bits.
    ShiftRightBy,
    /// Fills with zeros.
    ShiftRightZerosBy,
    IntEqual,
    /// Signed.
    IntGreater,
    Less,
    LessEqual,
    Equal,
    Unordered,
}
impl PairOp {
    /// Are the two alike?
    pub fn commutes(self) -> bool {
        !matches!(
            self,
            PairOp::Sub
                | PairOp::Div
                | PairOp::Min
                | PairOp::Max
                | PairOp::IntSub
                | PairOp::ShiftLeftBy
                | PairOp::ShiftRightBy
                | PairOp::ShiftRightZerosBy
                | PairOp::IntGreater
                | PairOp::Less
                | PairOp::LessEqual
        )
    }
}
/// To a whole number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum WholeRule {
    Nearest,
    Floor,
    Ceil,
    Trunc,
}
/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LoopOp {
    /// the next elements of a stream, or those so many vectors further on
    Stream(u8, ElementFormat, u8),
    /// a number of the call, in every lane
    Number(u8),
    /// these bits in every lane
    Constant(u64),
    /// what the iteration before left, of the vector so many further on
    Carried(u8),
    Sqrt(LoopValue),
    Whole(WholeRule, LoopValue),
    /// rounded to f16
    ThroughF16(LoopValue),
    /// the bits of the f16 that a float is, and back, with zeros above them; lanes of 32 bits
    BitsOfF16(LoopValue),
    F16OfBits(LoopValue),
    ShiftLeft(LoopValue, u8),
    /// fills with zeros
    ShiftRight(LoopValue, u8),
    /// fills with the sign; lanes of 32 bits
    ShiftRightSigned(LoopValue, u8),
    /// the float nearest to a whole number; lanes of 32 bits
    ToFloat(LoopValue),
    Pair(PairOp, LoopValue, LoopValue),
    /// the first times the second plus the third, rounded once
    MulAdd(LoopValue, LoopValue, LoopValue),
    /// where the first, a mask, is true the second, else the third
    Select(LoopValue, LoopValue, LoopValue),
}
impl LoopOp {
    /// What it takes.
    pub fn operands(&self) -> impl Iterator<Item = LoopValue> + use<> {
        let of = match *self {
            LoopOp::Stream(..) | LoopOp::Number(_) | LoopOp::Constant(_) | LoopOp::Carried(_) => [None; 3],
            LoopOp::Sqrt(x) | LoopOp::Whole(_, x) | LoopOp::ToFloat(x) => [Some(x), None, None],
            LoopOp::ThroughF16(x) | LoopOp::BitsOfF16(x) | LoopOp::F16OfBits(x) => [Some(x), None, None],
            LoopOp::ShiftLeft(x, _) | LoopOp::ShiftRight(x, _) | LoopOp::ShiftRightSigned(x, _) => [Some(x), None, None],
            LoopOp::Pair(_, x, y) => [Some(x), Some(y), None],
            LoopOp::MulAdd(x, y, z) | LoopOp::Select(x, y, z) => [Some(x), Some(y), Some(z)],
        };
        of.into_iter().flatten()
    }
    /// The same operation on what `of` says of its operands, and of elements `part` vectors further on.
    fn moved(self, part: u8, of: impl Fn(LoopValue) -> LoopValue) -> LoopOp {
        match self {
            LoopOp::Stream(k, format, _) => LoopOp::Stream(k, format, part),
            LoopOp::Number(_) | LoopOp::Constant(_) => self,
            LoopOp::Carried(_) => LoopOp::Carried(part),
            LoopOp::Sqrt(x) => LoopOp::Sqrt(of(x)),
            LoopOp::Whole(rule, x) => LoopOp::Whole(rule, of(x)),
            LoopOp::ThroughF16(x) => LoopOp::ThroughF16(of(x)),
            LoopOp::BitsOfF16(x) => LoopOp::BitsOfF16(of(x)),
            LoopOp::F16OfBits(x) => LoopOp::F16OfBits(of(x)),
            LoopOp::ShiftLeft(x, by) => LoopOp::ShiftLeft(of(x), by),
            LoopOp::ShiftRight(x, by) => LoopOp::ShiftRight(of(x), by),
            LoopOp::ShiftRightSigned(x, by) => LoopOp::ShiftRightSigned(of(x), by),
            LoopOp::ToFloat(x) => LoopOp::ToFloat(of(x)),
            LoopOp::Pair(op, x, y) => LoopOp::Pair(op, of(x), of(y)),
            LoopOp::MulAdd(x, y, z) => LoopOp::MulAdd(of(x), of(y), of(z)),
            LoopOp::Select(x, y, z) => LoopOp::Select(of(x), of(y), of(z)),
        }
    }
    /// Can it be had again from memory, at no more cost than a read?
    pub fn is_in_memory(&self) -> bool {
        match self {
            LoopOp::Number(_) | LoopOp::Constant(_) => true,
            LoopOp::Stream(_, format, _) => format.is_plain(),
            _ => false,
        }
    }
}

/// The line of operations. An operation that was there before is not entered again.
#[derive(Default, Debug)]
pub(crate) struct LoopGraph {
    ops: Vec<LoopOp>,
    known: HashMap<LoopOp, LoopValue>,
}
impl LoopGraph {
    /// The value of an operation on values that are there.
    pub fn enter(&mut self, op: LoopOp) -> LoopValue {
        let next = self.ops.len() as LoopValue;
        *self.known.entry(op).or_insert_with(|| {
            self.ops.push(op);
            next
        })
    }
    pub fn ops(&self) -> &[LoopOp] {
        &self.ops
    }
    /// Which operations some of `results` stand on.
    pub fn live(&self, results: &[LoopValue]) -> Vec<bool> {
        let mut live = vec![false; self.ops.len()];
        results.iter().for_each(|&r| live[r as usize] = true);
        for k in (0..self.ops.len()).rev() {
            if live[k] {
                self.ops[k].operands().for_each(|x| live[x as usize] = true);
            }
        }
        live
    }
    /// The line over `parts` vectors at a time, what `results` stand on alone, and the results of each part. The parts alternate, so that
    /// one is computed while another waits.
    pub fn unrolled(&self, parts: u8, results: &[LoopValue]) -> (LoopGraph, Vec<Vec<LoopValue>>) {
        let live = self.live(results);
        let mut graph = LoopGraph::default();
        let mut places: Vec<Vec<LoopValue>> = vec![Vec::new(); parts.into()];
        for (k, op) in self.ops.iter().enumerate() {
            for (part, places) in places.iter_mut().enumerate() {
                let place = if live[k] { graph.enter(op.moved(part as u8, |x| places[x as usize])) } else { LoopValue::MAX };
                places.push(place);
            }
        }
        let of = places.iter().map(|places| results.iter().map(|&r| places[r as usize]).collect()).collect();
        (graph, of)
    }
}
