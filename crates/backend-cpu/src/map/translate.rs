//! A program's instructions as operations of a compiled loop. Each is the interpreter's loop of that instruction, over a traced
//! vector: rounded once, to the register's dtype. Must not know where values lie.
use super::{
    held::HeldIntegers,
    integers::{IntBinary, IntPredicate, IntTest, IntUnary},
    loops::{Compare, RealBinary, RealPredicate, RealTest, RealUnary},
    program::{Code, Program, TileKind},
};
use crate::{
    jit::{
        graph::{ElementFormat, LoopOp, LoopValue, PairOp},
        trace::{self, Traced, TracedMask},
    },
    math::{
        self, MathFn,
        pairs::{self, PairFn},
    },
    simd::{Arithmetic, Integer, Mask},
};
use adamant_runtime::{DType, expr::Reg, op::ReduceOp};

/// How elements of a dtype lie in memory, for loops with such lanes that read them there.
pub(super) fn read_format(dtype: DType, lanes: TileKind) -> Option<ElementFormat> {
    match (dtype, lanes) {
        (DType::I32, TileKind::F64) => Some(ElementFormat::WidenedI32),
        (DType::F32, TileKind::F64) => Some(ElementFormat::WidenedF32),
        _ => format(dtype),
    }
}
/// The same for loops that write them there, in lanes of the width that they have.
pub(super) fn format(dtype: DType) -> Option<ElementFormat> {
    Some(match dtype {
        DType::F32 => ElementFormat::F32,
        DType::F64 => ElementFormat::F64,
        DType::BF16 => ElementFormat::Bf16,
        DType::F16 => ElementFormat::F16,
        DType::Bool => ElementFormat::Bool,
        DType::U8 => ElementFormat::U8,
        DType::I8 => ElementFormat::I8,
        DType::U16 => ElementFormat::U16,
        DType::I16 => ElementFormat::I16,
        DType::I32 | DType::U32 => ElementFormat::I32,
        DType::I64 => ElementFormat::I64,
        _ => return None,
    })
}
/// How the values of a register lie in a tile, for loops with such lanes.
pub(super) fn tile_format(kind: TileKind, lanes: TileKind) -> Option<ElementFormat> {
    match kind {
        TileKind::F32 => Some(ElementFormat::F32),
        TileKind::F64 => Some(ElementFormat::F64),
        TileKind::Bool => Some(ElementFormat::Bool),
        TileKind::I64 => (lanes == TileKind::F64).then_some(ElementFormat::I64),
    }
}

/// Can a loop with such lanes, wide or not, compute this register, from values of the kinds that it has?
pub(super) fn is_known(program: &Program, r: usize, (lanes, is_wide): (TileKind, bool), integers: &HeldIntegers) -> bool {
    let register = &program.registers[r];
    let kind = |x: Reg| program.registers[x as usize].kind;
    let dtype = |x: Reg| program.registers[x as usize].dtype;
    let fits = |x: Reg| match kind(x) {
        TileKind::I64 => integers.has(x),
        k => k == lanes || k == TileKind::Bool,
    };
    if !fits(r as Reg) || matches!(register.dtype, DType::F8E4M3 | DType::F8E5M2) || !program.reads[r].iter().flatten().all(|&x| fits(x)) {
        return false;
    }
    match register.code {
        Code::RealUnary(f, _) => match f {
            // Of f64 they have ranges that hardly any number needs, and a loop computes them all.
            RealUnary::Math(MathFn::Ndtri | MathFn::Erfinv) => lanes == TileKind::F32,
            RealUnary::Math(f) => !matches!(f, MathFn::Sin | MathFn::Cos | MathFn::Tan),
            RealUnary::Times(_) | RealUnary::Special(..) | RealUnary::Exact(_) => false,
            _ => true,
        },
        Code::RealBinary(f, ..) => !matches!(f, RealBinary::DivTrunc | RealBinary::Partial(..) | RealBinary::Exact(_)),
        Code::RealTest(f, _) => !matches!(f, RealTest::Exact(_)),
        Code::RealPredicate(f, ..) => !matches!(f, RealPredicate::Exact(_)),
        Code::Compare(_, x, _) => kind(x) != TileKind::Bool,
        Code::IntBinary(f, ..) => match f {
            IntBinary::Mul | IntBinary::ShiftRight => lanes == TileKind::F32 || is_wide,
            f => !matches!(f, IntBinary::Heaviside | IntBinary::Divide(..) | IntBinary::Exact(_)),
        },
        Code::IntUnary(f, _) => match f {
            IntUnary::Square => lanes == TileKind::F32 || is_wide,
            f => !matches!(f, IntUnary::Exact(_)),
        },
        Code::IntTest(f, _) => !matches!(f, IntTest::Exact(_)),
        Code::IntPredicate(f, ..) => !matches!(f, IntPredicate::Exact(_)),
        Code::Cast(x) => match (kind(x), register.kind) {
            (TileKind::F32 | TileKind::F64, TileKind::I64) | (TileKind::I64, TileKind::F64) => false,
            (TileKind::I64, TileKind::I64) if dtype(x) == DType::U32 => register.dtype != DType::I64,
            // Rounded once.
            (TileKind::I64, TileKind::F32) => register.dtype == DType::F32 || integers.are_exact(x),
            _ => true,
        },
        Code::Bitcast(x) => lanes == TileKind::F32 && has_bits(dtype(x)) && has_bits(register.dtype) || kind(x) != TileKind::Bool && lanes == TileKind::F64,
        Code::BoolUnary(..) | Code::BoolBinary(..) | Code::Select(..) => true,
        _ => false,
    }
}
/// Do lanes of 32 bits give the bits of this dtype, and take them?
fn has_bits(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32)
}

/// Is register `r` a number of f64 that memory holds as an f32? Lanes of 64 bits read it so.
pub(super) fn widens(program: &Program, r: usize, lanes: TileKind) -> Option<Reg> {
    let Code::Cast(x) = program.registers[r].code else { return None };
    let from = &program.registers[x as usize];
    let is_wider = program.registers[r].dtype == DType::F64 && from.dtype == DType::F32 && lanes == TileKind::F64;
    (is_wider && matches!(from.code, Code::Load(_))).then_some(x)
}
/// Enters what combines two values in a reduction.
pub(super) fn combine<const DOUBLE: bool>(op: ReduceOp, a: LoopValue, b: LoopValue) -> LoopValue {
    let f = match op {
        ReduceOp::Sum => RealBinary::Add,
        ReduceOp::Prod => RealBinary::Mul,
        ReduceOp::Max => RealBinary::Max,
        ReduceOp::Min => RealBinary::Min,
    };
    binary(f, Traced::<DOUBLE>(a), Traced(b)).0
}
/// Enters what a reduction begins with.
pub(super) fn identity<const DOUBLE: bool>(op: ReduceOp) -> LoopValue {
    Traced::<DOUBLE>::constant(match op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
    })
    .0
}

/// A power that is a product, as the formula has it, too.
#[derive(Clone, Copy)]
pub(super) enum SmallPower {
    Square,
    Cube,
}
/// Enters register `r`, which [`is_known`], from the values of what it reads; `power`: it is one of these.
pub(super) fn enter<const DOUBLE: bool>(program: &Program, r: usize, power: Option<SmallPower>, value: impl Fn(Reg) -> LoopValue) -> LoopValue {
    let register = &program.registers[r];
    let real = |x: Reg| Traced::<DOUBLE>(value(x));
    let mask = |x: Reg| TracedMask(value(x));
    let kind = |x: Reg| program.registers[x as usize].kind;
    let dtype = |x: Reg| program.registers[x as usize].dtype;
    match register.code {
        Code::RealUnary(f, x) => rounded(unary(f, real(x)), register.dtype).0,
        Code::RealBinary(RealBinary::Pair(PairFn::Pow), x, y) => {
            let x = real(x);
            let product = match power {
                Some(SmallPower::Square) => x.mul(x),
                Some(SmallPower::Cube) => x.mul(x).mul(x),
                None => pairs::meaning(PairFn::Pow, x, real(y)),
            };
            rounded(product, register.dtype).0
        }
        Code::RealBinary(f, x, y) => rounded(binary(f, real(x), real(y)), register.dtype).0,
        Code::RealTest(f, x) => test(f, real(x)).0,
        Code::RealPredicate(f, x, y) => {
            let zero = Traced::constant(0.0);
            let (x, y) = (real(x).eq(zero), real(y).eq(zero));
            match f {
                RealPredicate::And => x.or(y).not().0,
                RealPredicate::Or => x.and(y).not().0,
                _ => differ(x, y).0,
            }
        }
        Code::Compare(f, x, y) if kind(x) == TileKind::I64 => compare_integers::<DOUBLE>(f, value(x), value(y), dtype(x)).0,
        Code::IntBinary(f, x, y) => wrapped::<DOUBLE>(integers::<DOUBLE>(f, value(x), value(y), register.dtype), register.dtype),
        Code::IntUnary(f, x) => wrapped::<DOUBLE>(integer::<DOUBLE>(f, value(x), register.dtype), register.dtype),
        Code::IntTest(f, x) => match f {
            IntTest::Zero => is_zero::<DOUBLE>(value(x)).0,
            IntTest::Negative if dtype(x).is_signed() => compare_integers::<DOUBLE>(Compare::Lt, value(x), whole::<DOUBLE>(0), dtype(x)).0,
            IntTest::Always => trace::enter(LoopOp::Constant(u64::MAX)),
            _ => trace::enter(LoopOp::Constant(0)),
        },
        Code::IntPredicate(f, x, y) => {
            let (x, y) = (is_zero::<DOUBLE>(value(x)), is_zero::<DOUBLE>(value(y)));
            match f {
                IntPredicate::And => x.or(y).not().0,
                IntPredicate::Or => x.and(y).not().0,
                _ => differ(x, y).0,
            }
        }
        Code::Compare(f, x, y) => {
            let (x, y) = (real(x), real(y));
            match f {
                Compare::Eq => x.eq(y),
                Compare::Ne => x.eq(y).not(),
                Compare::Lt => x.lt(y),
                Compare::Le => x.le(y),
                Compare::Gt => y.lt(x),
                Compare::Ge => y.le(x),
            }
            .0
        }
        Code::BoolUnary(table, x) => table_of_one(table, mask(x)).0,
        Code::BoolBinary(table, x, y) => {
            let (x, y) = (mask(x), mask(y));
            let (where_not, where_so) = (table_of_one(table & 3, y), table_of_one(table >> 2, y));
            x.and(where_so).or(x.not().and(where_not)).0
        }
        Code::Select(c, x, y) => trace::enter(LoopOp::Select(value(c), value(x), value(y))),
        Code::Cast(x) => match (kind(x), register.kind) {
            (TileKind::Bool, TileKind::Bool) => value(x),
            (TileKind::Bool, TileKind::I64) => trace::enter(LoopOp::Select(value(x), whole::<DOUBLE>(1), whole::<DOUBLE>(0))),
            (TileKind::I64, TileKind::I64) => wrapped::<DOUBLE>(value(x), register.dtype),
            (TileKind::I64, TileKind::Bool) => compare_integers::<DOUBLE>(Compare::Ne, value(x), whole::<DOUBLE>(0), dtype(x)).0,
            (TileKind::I64, _) if dtype(x) == DType::U32 => float_of_unsigned(value(x)),
            (TileKind::I64, _) => rounded(Traced::<DOUBLE>(trace::enter(LoopOp::ToFloat(value(x)))), register.dtype).0,
            (TileKind::Bool, _) => Traced::<DOUBLE>::select(mask(x), Traced::constant(1.0), Traced::constant(0.0)).0,
            (_, TileKind::Bool) => real(x).eq(Traced::constant(0.0)).not().0,
            _ => rounded(real(x), register.dtype).0,
        },
        Code::Bitcast(x) if DOUBLE => value(x),
        Code::Bitcast(x) => of_bits(bits_of(value(x), dtype(x), register.dtype), dtype(x), register.dtype),
        // What is not known is no operation of a loop.
        _ => value(r as Reg),
    }
}
/// The truth table of one value: bit 0 where it is false, bit 1 where it is true.
fn table_of_one(table: u8, x: TracedMask) -> TracedMask {
    match table & 3 {
        0 => TracedMask(trace::enter(LoopOp::Constant(0))),
        1 => x.not(),
        2 => x,
        _ => TracedMask(trace::enter(LoopOp::Constant(u64::MAX))),
    }
}
fn differ(x: TracedMask, y: TracedMask) -> TracedMask {
    x.and(y.not()).or(x.not().and(y))
}
/// A whole number in every lane.
fn whole<const DOUBLE: bool>(v: i64) -> LoopValue {
    trace::enter(LoopOp::Constant(if DOUBLE { v as u64 } else { (v as u32).into() }))
}
/// The bits of a value as an integer in a lane of 32 bits; only those that `to` keeps say something.
fn bits_of(x: LoopValue, from: DType, to: DType) -> LoopValue {
    match from {
        DType::BF16 if to == DType::I16 => trace::enter(LoopOp::ShiftRightSigned(x, 16)),
        DType::BF16 => trace::enter(LoopOp::ShiftRight(x, 16)),
        DType::F16 => trace::enter(LoopOp::BitsOfF16(x)),
        _ => x,
    }
}
/// The value of a dtype that has these bits.
fn of_bits(bits: LoopValue, from: DType, to: DType) -> LoopValue {
    match to {
        DType::BF16 => trace::enter(LoopOp::ShiftLeft(bits, 16)),
        DType::F16 => trace::enter(LoopOp::F16OfBits(wrapped::<false>(bits, DType::U16))),
        // As a shift with the sign gave it.
        DType::I16 if from == DType::BF16 => bits,
        _ => wrapped::<false>(bits, to),
    }
}
/// A u32 in a lane of 32 bits, rounded once: both halves are floats as they are.
fn float_of_unsigned(x: LoopValue) -> LoopValue {
    let high = trace::enter(LoopOp::ToFloat(trace::enter(LoopOp::ShiftRight(x, 16))));
    let low = trace::enter(LoopOp::ToFloat(wrapped::<false>(x, DType::U16)));
    Traced::<false>(high).mul_add(Traced::constant(65536.0), Traced(low)).0
}
/// Numbers whose order as those with a sign is that of the dtype.
fn ordered<const DOUBLE: bool>(x: LoopValue, dtype: DType) -> LoopValue {
    match dtype {
        DType::U32 => trace::enter(LoopOp::Pair(PairOp::Xor, x, whole::<DOUBLE>(i32::MIN.into()))),
        _ => x,
    }
}
fn compare_integers<const DOUBLE: bool>(f: Compare, x: LoopValue, y: LoopValue, dtype: DType) -> TracedMask {
    let pair = |op, x, y| TracedMask(trace::enter(LoopOp::Pair(op, x, y)));
    let (x, y) = if matches!(f, Compare::Eq | Compare::Ne) { (x, y) } else { (ordered::<DOUBLE>(x, dtype), ordered::<DOUBLE>(y, dtype)) };
    match f {
        Compare::Eq => pair(PairOp::IntEqual, x, y),
        Compare::Ne => pair(PairOp::IntEqual, x, y).not(),
        Compare::Lt => pair(PairOp::IntGreater, y, x),
        Compare::Le => pair(PairOp::IntGreater, x, y).not(),
        Compare::Gt => pair(PairOp::IntGreater, x, y),
        Compare::Ge => pair(PairOp::IntGreater, y, x).not(),
    }
}
fn is_zero<const DOUBLE: bool>(x: LoopValue) -> TracedMask {
    TracedMask(trace::enter(LoopOp::Pair(PairOp::IntEqual, x, whole::<DOUBLE>(0))))
}
/// A function of one integer; its bits beyond the dtype's are anything.
fn integer<const DOUBLE: bool>(f: IntUnary, x: LoopValue, dtype: DType) -> LoopValue {
    let zero = whole::<DOUBLE>(0);
    let pair = |op, x, y| trace::enter(LoopOp::Pair(op, x, y));
    let select = |c: LoopValue, x, y| trace::enter(LoopOp::Select(c, x, y));
    let is_signed = dtype.is_signed();
    match f {
        IntUnary::Neg => pair(PairOp::IntSub, zero, x),
        IntUnary::Not => pair(PairOp::Xor, x, whole::<DOUBLE>(-1)),
        IntUnary::Square => pair(PairOp::IntMul, x, x),
        IntUnary::Abs if is_signed => select(pair(PairOp::IntGreater, zero, x), pair(PairOp::IntSub, zero, x), x),
        IntUnary::Relu if is_signed => select(pair(PairOp::IntGreater, x, zero), x, zero),
        IntUnary::Sign => {
            let size = select(is_zero::<DOUBLE>(x).0, zero, whole::<DOUBLE>(1));
            if is_signed { select(pair(PairOp::IntGreater, zero, x), whole::<DOUBLE>(-1), size) } else { size }
        }
        IntUnary::Abs | IntUnary::Relu | IntUnary::Same | IntUnary::Exact(_) => x,
    }
}
fn integers<const DOUBLE: bool>(f: IntBinary, x: LoopValue, y: LoopValue, dtype: DType) -> LoopValue {
    let is_greater = || compare_integers::<DOUBLE>(Compare::Gt, x, y, dtype).0;
    let pair = |op| trace::enter(LoopOp::Pair(op, x, y));
    match f {
        IntBinary::Add => pair(PairOp::IntAdd),
        IntBinary::Sub => pair(PairOp::IntSub),
        IntBinary::Mul => pair(PairOp::IntMul),
        IntBinary::And => pair(PairOp::And),
        IntBinary::Or => pair(PairOp::Or),
        IntBinary::Xor => pair(PairOp::Xor),
        IntBinary::Max => trace::enter(LoopOp::Select(is_greater(), x, y)),
        IntBinary::Min => trace::enter(LoopOp::Select(is_greater(), y, x)),
        // Counts beyond the width, negative ones too, leave nothing or the sign.
        IntBinary::ShiftLeft => pair(PairOp::ShiftLeftBy),
        IntBinary::ShiftRight if dtype == DType::U32 => pair(PairOp::ShiftRightZerosBy),
        IntBinary::ShiftRight => pair(PairOp::ShiftRightBy),
        IntBinary::Heaviside | IntBinary::Divide(..) | IntBinary::Exact(_) => x,
    }
}
/// The low bits of an integer, as its dtype has them.
fn wrapped<const DOUBLE: bool>(x: LoopValue, dtype: DType) -> LoopValue {
    let low = |mask: i64| trace::enter(LoopOp::Pair(PairOp::And, x, whole::<DOUBLE>(mask)));
    let signed = |by: u8| trace::enter(LoopOp::ShiftRightSigned(trace::enter(LoopOp::ShiftLeft(x, by)), by));
    match dtype {
        DType::U8 => low(u8::MAX.into()),
        DType::U16 => low(u16::MAX.into()),
        DType::I8 => signed(24),
        DType::I16 => signed(16),
        _ => x,
    }
}
fn rounded<const DOUBLE: bool>(x: Traced<DOUBLE>, dtype: DType) -> Traced<DOUBLE> {
    match dtype {
        DType::F16 => Traced(trace::enter(LoopOp::ThroughF16(x.0))),
        DType::BF16 => {
            let int = |v: i64| <Traced<DOUBLE> as Arithmetic>::Int::constant(v);
            let (bits, upper) = (x.to_bits(), int(0xFFFF_0000));
            let nearest = bits.add(int(0x7FFF)).add(bits.shr(16).and(int(1)));
            let quiet = bits.or(int(0x0040_0000));
            // Cut off once, whichever it is.
            let either = Traced::select(x.is_nan(), Traced::from_bits(quiet), Traced::from_bits(nearest));
            Traced::from_bits(either.to_bits().and(upper))
        }
        _ => x,
    }
}
fn unary<V: Arithmetic>(f: RealUnary, x: V) -> V {
    let (zero, one) = (V::constant(0.0), V::constant(1.0));
    match f {
        RealUnary::Neg => x.neg(),
        RealUnary::Abs => x.abs(),
        RealUnary::Square => x.mul(x),
        RealUnary::Sign => V::select(zero.lt(x), one, V::select(x.lt(zero), one.neg(), zero)),
        RealUnary::Floor => x.floor(),
        RealUnary::Ceil => x.ceil(),
        RealUnary::Trunc => x.trunc(),
        RealUnary::Round => x.round(),
        RealUnary::Relu => V::select(x.le(zero), zero, x),
        RealUnary::Frac => x.sub(x.trunc()),
        RealUnary::Math(f) => math::meaning(f, x),
        RealUnary::Times(_) | RealUnary::Special(..) | RealUnary::Exact(_) => x,
    }
}
fn binary<V: Arithmetic>(f: RealBinary, x: V, y: V) -> V {
    let (zero, one) = (V::constant(0.0), V::constant(1.0));
    match f {
        RealBinary::Add => x.add(y),
        RealBinary::Sub => x.sub(y),
        RealBinary::Mul => x.mul(y),
        RealBinary::Div => x.div(y),
        RealBinary::Max => V::select(x.is_nan(), x, x.max(y)),
        RealBinary::Min => V::select(x.is_nan(), x, x.min(y)),
        RealBinary::LargerNumber => V::select(y.is_nan(), x, x.max(y)),
        RealBinary::SmallerNumber => V::select(y.is_nan(), x, x.min(y)),
        RealBinary::CopySign => x.copysign(y),
        RealBinary::Heaviside => V::select(x.eq(zero), y, V::select(zero.lt(x), one, zero)),
        RealBinary::Pair(f) => pairs::meaning(f, x, y),
        _ => x,
    }
}
fn test<V: Arithmetic>(f: RealTest, x: V) -> V::Mask {
    let infinite = V::constant(f64::INFINITY);
    match f {
        RealTest::Nan => x.is_nan(),
        RealTest::Infinite => x.abs().eq(infinite),
        RealTest::Finite => x.abs().lt(infinite),
        RealTest::Equal(v) => x.eq(V::constant(v)),
        RealTest::Negative | RealTest::Exact(_) => V::Int::constant(0).gt(x.to_bits()),
    }
}
