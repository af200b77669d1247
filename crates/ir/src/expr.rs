//! The one kernel expression: a straight-line scalar SSA program. The CPU interprets it over tiles, `kernels`
//! writes it as WGSL or C. Every instruction rounds once to its dtype, so the bits of a value do not
//! depend on what it was fused with.
use crate::{
    DType, Scalar,
    hash::mix,
    scalar::{Binary, Unary},
};

/// A register: the index of the instruction that computes it.
pub type Reg = u16;

/// One instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Instr {
    /// The element of input k at this position.
    Load(u16),
    /// Argument k of the step: the same for all elements, new at each replay.
    Arg(u16),
    /// A constant of the program.
    Const(Scalar),
    /// The coordinate along an axis of the index space.
    Index(u8),
    /// Philox bits of (the key that input k holds; the row-major index of the element in the space).
    Random(u16),
    /// A unary function.
    Unary(Unary, Reg),
    /// A binary function.
    Binary(Binary, Reg, Reg),
    /// condition, then, else
    Select(Reg, Reg, Reg),
    /// Converts to this register's dtype. Between floats: to nearest, ties to even, NaN stays NaN. Floats to integers: toward
    /// zero into i64, where too large stays at the end of the range and NaN is 0, then the low bits. Between integers: the low
    /// bits. To bool: `x != 0`, so NaN is true.
    Cast(Reg),
    /// Reads the bits as this register's dtype, of the same size: nothing is converted.
    Bitcast(Reg),
}

/// The program: instruction k computes register k, whose dtype is `dtypes[k]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expr {
    /// the instructions, in order
    pub instrs: Vec<Instr>,
    /// the dtype of each register
    pub dtypes: Vec<DType>,
}

impl Expr {
    /// Appends an instruction; an equal one is reused.
    pub fn push(&mut self, instr: Instr, dtype: DType) -> Reg {
        let same = |(i, d): (&Instr, &DType)| *d == dtype && same_bits(i, &instr);
        match self.instrs.iter().zip(&self.dtypes).position(same) {
            Some(k) => k as Reg,
            None => {
                self.instrs.push(instr);
                self.dtypes.push(dtype);
                (self.instrs.len() - 1) as Reg
            }
        }
    }
    /// How many inputs are loaded.
    pub fn inputs(&self) -> usize {
        self.instrs.iter().map(|i| if let Instr::Load(k) | Instr::Random(k) = i { *k as usize + 1 } else { 0 }).max().unwrap_or(0)
    }
    /// A key of the program.
    pub fn key(&self) -> u64 {
        self.instrs.iter().zip(&self.dtypes).fold(0xE4, |h, (i, d)| {
            let (a, b) = match *i {
                Instr::Load(k) => (1, k as u64),
                Instr::Arg(k) => (2, k as u64),
                Instr::Const(s) => (3, s.bits()),
                Instr::Index(a) => (4, a as u64),
                Instr::Random(k) => (5, k as u64),
                Instr::Unary(f, x) => (6 | (f as u64) << 8, x as u64),
                Instr::Binary(f, x, y) => (7 | (f as u64) << 8, x as u64 | (y as u64) << 16),
                Instr::Select(c, x, y) => (8, c as u64 | (x as u64) << 16 | (y as u64) << 32),
                Instr::Cast(x) => (9, x as u64),
                Instr::Bitcast(x) => (10, x as u64),
            };
            mix(mix(h, a | (*d as u64) << 32), b)
        })
    }
}
/// Equality that tells 0.0 from -0.0 and NaN from NaN by their bits.
fn same_bits(a: &Instr, b: &Instr) -> bool {
    match (a, b) {
        (Instr::Const(x), Instr::Const(y)) => std::mem::discriminant(x) == std::mem::discriminant(y) && x.bits() == y.bits(),
        _ => a == b,
    }
}
