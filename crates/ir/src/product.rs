//! A product with ends: what one kernel does before, during and after the sums of a matrix product or a convolution. It means
//! its unfused form, bit for bit where a backend promises bits: each operand's program, element by element; the sums, kept in
//! `acc` and rounded to `dtype` as the product alone would round them; then the epilogue's program on the rounded value. Must
//! not know sizes or memory.
use crate::{
    DType,
    expr::{Expr, Instr, Reg},
    hash::mix,
    op::ConvSpec,
};
use std::sync::Arc;

/// Which sums are taken.
#[derive(Clone, PartialEq, Debug)]
pub enum Sums {
    /// of rows by columns: `[.., m, k]` and `[.., k, n]`
    Matmul,
    /// of windows by kernels, in the forward role
    Conv(Arc<ConvSpec>),
}

/// A program at one end, with the register that is its value.
#[derive(Clone, PartialEq, Debug)]
pub struct End {
    /// what is computed for each element
    pub expr: Expr,
    /// the register that is handed on
    pub value: Reg,
}
impl End {
    /// The value as it is loaded.
    pub fn identity(dtype: DType) -> End {
        End { expr: Expr { instrs: vec![Instr::Load(0)], dtypes: vec![dtype] }, value: 0 }
    }
    /// Is nothing computed?
    pub fn is_identity(&self) -> bool {
        matches!(self.expr.instrs.get(self.value as usize), Some(Instr::Load(0)))
    }
    /// The dtype of its value.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.expr.dtypes.get(self.value as usize).copied().unwrap_or(DType::F32)
    }
    /// Is it one conversion of what is loaded, or nothing: the dtype that is loaded.
    pub fn converts(&self) -> Option<DType> {
        let dtype = |r: Reg| self.expr.dtypes.get(r as usize).copied();
        match self.expr.instrs.get(self.value as usize)? {
            Instr::Load(0) => dtype(self.value),
            Instr::Cast(x) if matches!(self.expr.instrs.get(*x as usize), Some(Instr::Load(0))) => dtype(*x),
            _ => None,
        }
    }
}

/// A product with ends. The inputs of its kernel are those of the first operand's program, those of the second's, and those
/// of the epilogue but its `Load(0)`, which is the product's element. The operands' inputs are seen in the operands' shapes,
/// all others in the shape of the output, whose elements are the product's in the same order.
#[derive(Clone, PartialEq, Debug)]
pub struct Product {
    /// the sums
    pub sums: Sums,
    /// what sums are kept in; integers wrap in any dtype that is wide enough
    pub acc: DType,
    /// what a sum is rounded to before anything else: the dtype of the product alone, and of its operands
    pub dtype: DType,
    /// the operands' programs
    pub prologue: [End; 2],
    /// what becomes of the product's element; its arguments come after those of the prologues
    pub epilogue: End,
    /// The epilogue ends by adding its last input, and the output may be that input's memory: then it adds to what is there.
    pub accumulate: bool,
}
impl Product {
    /// What the sums of a product of `dtype` are kept in.
    pub fn accumulator(dtype: DType) -> DType {
        match dtype {
            DType::F16 | DType::BF16 => DType::F32,
            DType::U8 | DType::I8 => DType::I32,
            other => other,
        }
    }
    /// How many inputs operand `k` is made of.
    pub fn loads(&self, k: usize) -> usize {
        self.prologue[k].expr.inputs()
    }
    /// How many arguments the programs before the epilogue take.
    pub fn arguments_before(&self, end: usize) -> usize {
        self.prologue.iter().take(end).map(|p| arguments(&p.expr)).sum()
    }
    /// A key of all of it.
    pub fn key(&self) -> u64 {
        let ends = self.prologue.iter().chain([&self.epilogue]).fold(self.accumulate as u64, |h, e| mix(mix(h, e.expr.key()), e.value as u64));
        let sums = match &self.sums {
            Sums::Matmul => 1,
            Sums::Conv(spec) => crate::hash::hash_of(spec),
        };
        mix(mix(ends, sums), (self.dtype as u64) << 8 | self.acc as u64)
    }
}
/// How many arguments a program takes.
fn arguments(expr: &Expr) -> usize {
    expr.instrs.iter().map(|i| if let Instr::Arg(k) = i { *k as usize + 1 } else { 0 }).max().unwrap_or(0)
}
