//! A kernel expression, resolved once: which loop each instruction is, and in which tile its result waits. Free of
//! sizes, layouts and values. Must not know memory.
use super::{
    compiled::CompiledLoops,
    direct::Single,
    drawn::{Uniform, uniforms},
    few,
    integers::{DivisionFn, IntBinary, IntPredicate, IntTest, IntUnary},
    loops::{Compare, RealBinary, RealPredicate, RealTest, RealUnary},
    prefused::{self, Loop},
};
use crate::{
    isa::Isa,
    math::{MathFn, pairs::PairFn, partial::PartialFn, special::SpecialFn},
};
use adamant_runtime::{
    DType, Scalar,
    expr::{Expr, Instr, Reg},
    scalar::{Binary, Class, Unary},
};
use smallvec::SmallVec;

/// What a register's tile holds: 16- and 8-bit floats are computed as f32, integers as i64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TileKind {
    F32,
    F64,
    I64,
    Bool,
}
impl TileKind {
    pub fn of(dtype: DType) -> TileKind {
        match dtype {
            DType::F64 => TileKind::F64,
            DType::Bool => TileKind::Bool,
            d if d.is_float() => TileKind::F32,
            _ => TileKind::I64,
        }
    }
    /// Does memory of `dtype` look like a tile?
    pub fn is_memory_of(dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64 | DType::I64 | DType::Bool)
    }
}

/// How a function is computed, by the kind of its operands.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    Load(u16),
    Arg(u16),
    Const(Scalar),
    Index(u16),
    Random {
        key: u16,
        place: u16,
    },
    RealUnary(RealUnary, Reg),
    /// float to bool
    RealTest(RealTest, Reg),
    IntUnary(IntUnary, Reg),
    IntTest(IntTest, Reg),
    /// truth table
    BoolUnary(u8, Reg),
    RealBinary(RealBinary, Reg, Reg),
    RealPredicate(RealPredicate, Reg, Reg),
    Compare(Compare, Reg, Reg),
    IntBinary(IntBinary, Reg, Reg),
    IntPredicate(IntPredicate, Reg, Reg),
    /// truth table
    BoolBinary(u8, Reg, Reg),
    Select(Reg, Reg, Reg),
    Cast(Reg),
    Bitcast(Reg),
}

/// One register.
pub(crate) struct Register {
    pub code: Code,
    pub dtype: DType,
    pub kind: TileKind,
    /// which tile of its kind it waits in
    pub slot: u16,
    /// it is the same for all elements, whatever the layouts
    pub constant: bool,
}

/// The resolved program.
pub(crate) struct Program {
    pub registers: Vec<Register>,
    /// which registers an instruction reads
    pub reads: Vec<[Option<Reg>; 3]>,
    /// how many inputs there are
    pub inputs: usize,
    /// axes whose coordinate is read, in the order of their places behind the inputs
    pub indices: Vec<u8>,
    /// some instruction draws random bits: the element's own number has the place behind the coordinates
    pub draws: bool,
    /// the program as one function, if it is one
    pub single: Option<Single>,
    /// few elements are computed without a nest
    pub few: bool,
    /// its loop, if one was compiled ahead of time, and what that one writes
    pub ahead: Option<Loop>,
    pub results: SmallVec<[Reg; 3]>,
    /// what an element costs, in additions
    pub weight: usize,
    /// random numbers between 0 and 1, if their scalars are as expected
    pub uniforms: Vec<Uniform>,
    /// the loops that were compiled for it
    pub compiled: CompiledLoops,
}
impl Program {
    /// Resolves an expression whose `results` are wanted after the last instruction.
    pub fn new(expr: &Expr, results: &[Reg], isa: Isa) -> Program {
        Program::with_loop(expr, results, prefused::find(expr, results, isa))
    }
    /// With the loop that was compiled ahead of time for it, or without one.
    pub fn with_loop(expr: &Expr, results: &[Reg], ahead: Option<Loop>) -> Program {
        let n = expr.instrs.len();
        let inputs = expr.inputs();
        let mut indices: Vec<u8> = Vec::new();
        let draws = expr.instrs.iter().any(|i| matches!(i, Instr::Random(_)));
        for i in &expr.instrs {
            match i {
                Instr::Index(a) if !indices.contains(a) => indices.push(*a),
                _ => {}
            }
        }
        let mut last = vec![0usize; n];
        let mut reads = Vec::with_capacity(n);
        for (k, i) in expr.instrs.iter().enumerate() {
            let read = match *i {
                Instr::Unary(_, x) | Instr::Cast(x) | Instr::Bitcast(x) => [Some(x), None, None],
                Instr::Binary(_, x, y) => [Some(x), Some(y), None],
                Instr::Select(c, x, y) => [Some(c), Some(x), Some(y)],
                _ => [None; 3],
            };
            for r in read.into_iter().flatten() {
                last[r as usize] = k;
            }
            reads.push(read);
        }
        for &r in results {
            last[r as usize] = usize::MAX;
        }
        let mut free: [Vec<u16>; 4] = Default::default();
        let mut made = [0u16; 4];
        let mut registers: Vec<Register> = Vec::with_capacity(n);
        for (k, (instr, &dtype)) in expr.instrs.iter().zip(&expr.dtypes).enumerate() {
            let kind = TileKind::of(dtype);
            // The result's tile is chosen before those of the operands are free: no loop writes what it reads.
            // A load may run before everything else (its memory is about to be overwritten), so its tile is nobody's before.
            // A loop compiled ahead of time holds all else in registers, and reads and writes tiles that are each one's own.
            let in_registers = ahead.is_some() && !matches!(instr, Instr::Load(_)) && !results.contains(&(k as Reg));
            let reused = if matches!(instr, Instr::Load(_)) { None } else { free[kind as usize].pop() };
            let slot = reused.or(in_registers.then_some(0)).unwrap_or_else(|| {
                made[kind as usize] += 1;
                made[kind as usize] - 1
            });
            let of = |r: Reg| (registers[r as usize].kind, registers[r as usize].dtype);
            let code = match *instr {
                Instr::Load(i) => Code::Load(i),
                Instr::Arg(i) => Code::Arg(i),
                Instr::Const(s) => Code::Const(s),
                Instr::Index(a) => Code::Index((inputs + indices.iter().position(|&i| i == a).unwrap_or(0)) as u16),
                Instr::Random(key) => Code::Random { key, place: (inputs + indices.len()) as u16 },
                Instr::Unary(f, x) => unary(f, x, of(x)),
                Instr::Binary(f, x, y) => binary(f, x, y, of(x).0),
                Instr::Select(c, x, y) => Code::Select(c, x, y),
                Instr::Cast(x) => Code::Cast(x),
                Instr::Bitcast(x) => Code::Bitcast(x),
            };
            let constant = match instr {
                Instr::Arg(_) | Instr::Const(_) => true,
                Instr::Load(_) | Instr::Index(_) | Instr::Random(_) => false,
                _ => reads[k].iter().flatten().all(|&r| registers[r as usize].constant),
            };
            registers.push(Register { code, dtype, kind, slot, constant });
            for r in reads[k].iter().flatten() {
                let register = &registers[*r as usize];
                if last[*r as usize] == k && ahead.is_none() {
                    let slots = &mut free[register.kind as usize];
                    if !slots.contains(&register.slot) {
                        slots.push(register.slot);
                    }
                }
            }
        }
        let (single, few) = (Single::of(&registers, results), ahead.is_none() && few::fits(&registers, results));
        let weight = registers.iter().map(|r| r.code.weight()).sum::<usize>().max(1);
        let uniforms = uniforms(expr, &registers, &reads, results);
        Program {
            registers,
            reads,
            inputs,
            indices,
            draws,
            single,
            few,
            uniforms,
            ahead,
            results: SmallVec::from_slice(results),
            weight,
            compiled: CompiledLoops::default(),
        }
    }
}
impl Code {
    /// What an element costs, in additions, about: from times of single functions.
    pub fn weight(&self) -> usize {
        match self {
            Code::Load(_) | Code::Arg(_) | Code::Const(_) => 0,
            Code::RealUnary(RealUnary::Math(MathFn::Sqrt), _) | Code::RealBinary(RealBinary::Div, ..) => 2,
            Code::RealUnary(RealUnary::Math(_), _) | Code::RealBinary(RealBinary::Pair(_), ..) | Code::Random { .. } => 4,
            Code::RealUnary(RealUnary::Special(..), _) | Code::RealBinary(RealBinary::Partial(..), ..) => 16,
            Code::RealUnary(RealUnary::Exact(_), _) | Code::RealBinary(RealBinary::Exact(_), ..) => 64,
            Code::IntBinary(IntBinary::Divide(..), ..) => 4,
            Code::IntUnary(IntUnary::Exact(_), _) | Code::IntTest(IntTest::Exact(_), _) => 8,
            Code::IntPredicate(IntPredicate::Exact(_), ..) | Code::IntBinary(IntBinary::Exact(_), ..) => 8,
            Code::RealTest(RealTest::Exact(_), _) | Code::RealPredicate(RealPredicate::Exact(_), ..) => 8,
            _ => 1,
        }
    }
}

fn unary(f: Unary, x: Reg, (kind, dtype): (TileKind, DType)) -> Code {
    let row = f.row();
    let test = row.class == Class::ToBool;
    match kind {
        TileKind::F32 | TileKind::F64 if test => Code::RealTest(real_test(row.name, row.exact), x),
        TileKind::F32 | TileKind::F64 => Code::RealUnary(real_unary(f, dtype), x),
        TileKind::I64 => match row.int {
            Some(int) if test => Code::IntTest(int_test(row.name, int), x),
            Some(int) => Code::IntUnary(int_unary(row.name, int), x),
            None => Code::Cast(x),
        },
        TileKind::Bool => {
            let at = |v: i64| match row.int {
                Some(int) => int(v) != 0,
                None => (row.exact)(v as f64) != 0.0,
            };
            Code::BoolUnary(at(0) as u8 | (at(1) as u8) << 1, x)
        }
    }
}
fn int_test(name: &str, exact: fn(i64) -> i64) -> IntTest {
    match name {
        "logical_not" => IntTest::Zero,
        "signbit" => IntTest::Negative,
        "isfinite" => IntTest::Always,
        "isnan" | "isinf" | "isposinf" | "isneginf" => IntTest::Never,
        _ => IntTest::Exact(exact),
    }
}
fn int_unary(name: &str, exact: fn(i64) -> i64) -> IntUnary {
    match name {
        "neg" => IntUnary::Neg,
        "abs" => IntUnary::Abs,
        "sign" => IntUnary::Sign,
        "square" => IntUnary::Square,
        "bitwise_not" => IntUnary::Not,
        "relu" => IntUnary::Relu,
        "floor" | "ceil" | "trunc" | "round" => IntUnary::Same,
        _ => IntUnary::Exact(exact),
    }
}
fn real_test(name: &str, exact: fn(f64) -> f64) -> RealTest {
    match name {
        "isnan" => RealTest::Nan,
        "isinf" => RealTest::Infinite,
        "isfinite" => RealTest::Finite,
        "isposinf" => RealTest::Equal(f64::INFINITY),
        "isneginf" => RealTest::Equal(f64::NEG_INFINITY),
        "logical_not" => RealTest::Equal(0.0),
        "signbit" => RealTest::Negative,
        _ => RealTest::Exact(exact),
    }
}
fn real_unary(f: Unary, dtype: DType) -> RealUnary {
    let row = f.row();
    // By name, so that a function the table gains later is at once computed by its exact meaning.
    match row.name {
        "neg" => RealUnary::Neg,
        "abs" => RealUnary::Abs,
        "square" => RealUnary::Square,
        "sign" => RealUnary::Sign,
        "floor" => RealUnary::Floor,
        "ceil" => RealUnary::Ceil,
        "trunc" => RealUnary::Trunc,
        "round" => RealUnary::Round,
        "relu" => RealUnary::Relu,
        "frac" => RealUnary::Frac,
        "deg2rad" => RealUnary::Times(std::f64::consts::PI / 180.0),
        "rad2deg" => RealUnary::Times(180.0 / std::f64::consts::PI),
        name => match (math(name), SpecialFn::named(name)) {
            (Some(m), _) => RealUnary::Math(m),
            (None, Some(f)) => RealUnary::Special(f, row.exact_in(dtype)),
            (None, None) => RealUnary::Exact(row.exact_in(dtype)),
        },
    }
}
fn math(name: &str) -> Option<MathFn> {
    Some(match name {
        "exp" => MathFn::Exp,
        "exp2" => MathFn::Exp2,
        "expm1" => MathFn::Expm1,
        "log" => MathFn::Log,
        "log2" => MathFn::Log2,
        "log10" => MathFn::Log10,
        "log1p" => MathFn::Log1p,
        "tanh" => MathFn::Tanh,
        "sigmoid" => MathFn::Sigmoid,
        "silu" => MathFn::Silu,
        "gelu" => MathFn::Gelu,
        "gelu_tanh" => MathFn::GeluTanh,
        "erf" => MathFn::Erf,
        "erfc" => MathFn::Erfc,
        "sin" => MathFn::Sin,
        "cos" => MathFn::Cos,
        "tan" => MathFn::Tan,
        "asin" => MathFn::Asin,
        "acos" => MathFn::Acos,
        "atan" => MathFn::Atan,
        "sinh" => MathFn::Sinh,
        "cosh" => MathFn::Cosh,
        "asinh" => MathFn::Asinh,
        "acosh" => MathFn::Acosh,
        "atanh" => MathFn::Atanh,
        "ndtr" => MathFn::Ndtr,
        "ndtri" => MathFn::Ndtri,
        "erfcx" => MathFn::Erfcx,
        "tanhshrink" => MathFn::Tanhshrink,
        "erfinv" => MathFn::Erfinv,
        "softplus" => MathFn::Softplus,
        "mish" => MathFn::Mish,
        "logit" => MathFn::Logit,
        "entr" => MathFn::Entr,
        "sinc" => MathFn::Sinc,
        "softsign" => MathFn::Softsign,
        "sqrt" => MathFn::Sqrt,
        "rsqrt" => MathFn::Rsqrt,
        "reciprocal" => MathFn::Reciprocal,
        "logsigmoid" | "log_sigmoid" => MathFn::LogSigmoid,
        _ => return None,
    })
}
fn comparison(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" => Compare::Lt,
        "le" => Compare::Le,
        "gt" => Compare::Gt,
        "ge" => Compare::Ge,
        _ => return None,
    })
}
fn real_binary(name: &str, exact: fn(f64, f64) -> f64) -> RealBinary {
    match name {
        "add" => RealBinary::Add,
        "sub" => RealBinary::Sub,
        "mul" => RealBinary::Mul,
        "div" => RealBinary::Div,
        "maximum" => RealBinary::Max,
        "minimum" => RealBinary::Min,
        "fmax" => RealBinary::LargerNumber,
        "fmin" => RealBinary::SmallerNumber,
        "copysign" => RealBinary::CopySign,
        "heaviside" => RealBinary::Heaviside,
        "div_trunc" => RealBinary::DivTrunc,
        "pow" => RealBinary::Pair(PairFn::Pow),
        "atan2" => RealBinary::Pair(PairFn::Atan2),
        "hypot" => RealBinary::Pair(PairFn::Hypot),
        "xlogy" => RealBinary::Pair(PairFn::Xlogy),
        "xlog1py" => RealBinary::Pair(PairFn::Xlog1py),
        name => match PartialFn::named(name) {
            Some(f) => RealBinary::Partial(f, exact),
            None => RealBinary::Exact(exact),
        },
    }
}
fn real_predicate(name: &str, exact: fn(f64, f64) -> f64) -> RealPredicate {
    match name {
        "logical_and" => RealPredicate::And,
        "logical_or" => RealPredicate::Or,
        "logical_xor" => RealPredicate::Xor,
        _ => RealPredicate::Exact(exact),
    }
}
fn int_binary(name: &str, exact: fn(i64, i64) -> Option<i64>) -> IntBinary {
    match name {
        "add" => IntBinary::Add,
        "sub" => IntBinary::Sub,
        "mul" => IntBinary::Mul,
        "maximum" | "fmax" => IntBinary::Max,
        "minimum" | "fmin" => IntBinary::Min,
        "bitwise_and" => IntBinary::And,
        "bitwise_or" => IntBinary::Or,
        "bitwise_xor" => IntBinary::Xor,
        "bitwise_left_shift" => IntBinary::ShiftLeft,
        "bitwise_right_shift" => IntBinary::ShiftRight,
        "heaviside" => IntBinary::Heaviside,
        "div_trunc" => IntBinary::Divide(DivisionFn::Truncated, exact),
        "floor_divide" => IntBinary::Divide(DivisionFn::Floor, exact),
        "fmod" => IntBinary::Divide(DivisionFn::Fmod, exact),
        "remainder" => IntBinary::Divide(DivisionFn::Remainder, exact),
        _ => IntBinary::Exact(exact),
    }
}
fn int_predicate(name: &str, exact: fn(i64, i64) -> Option<i64>) -> IntPredicate {
    match name {
        "logical_and" => IntPredicate::And,
        "logical_or" => IntPredicate::Or,
        "logical_xor" => IntPredicate::Xor,
        _ => IntPredicate::Exact(exact),
    }
}
fn binary(f: Binary, x: Reg, y: Reg, kind: TileKind) -> Code {
    let row = f.row();
    let test = row.class == Class::ToBool;
    match kind {
        TileKind::F32 | TileKind::F64 => match (comparison(row.name), test) {
            (Some(c), _) => Code::Compare(c, x, y),
            (None, true) => Code::RealPredicate(real_predicate(row.name, row.exact), x, y),
            (None, false) => Code::RealBinary(real_binary(row.name, row.exact), x, y),
        },
        TileKind::I64 => match (comparison(row.name), row.int) {
            (Some(c), _) => Code::Compare(c, x, y),
            (None, Some(int)) if test => Code::IntPredicate(int_predicate(row.name, int), x, y),
            // Every function of integers has its meaning on them; core refuses the others.
            (None, int) => Code::IntBinary(int_binary(row.name, int.unwrap_or(|_, _| None)), x, y),
        },
        TileKind::Bool => {
            let at = |a: i64, b: i64| match row.int {
                Some(int) => int(a, b).unwrap_or(0) != 0,
                None => (row.exact)(a as f64, b as f64) != 0.0,
            };
            Code::BoolBinary(at(0, 0) as u8 | (at(0, 1) as u8) << 1 | (at(1, 0) as u8) << 2 | (at(1, 1) as u8) << 3, x, y)
        }
    }
}

#[cfg(test)]
mod tests;
