//! Ops that make elements or map them one by one, and those that pass a value on as it is. Numbers are drawn so that a function
//! is asked where it is defined: which NaN comes out elsewhere is nobody's promise.
use super::{
    super::{
        coverage::Layout,
        program::{NodeKind, Ref, alone},
    },
    Builder, FirstOperand,
};
use crate::{data::Spread, random::Random};
use adamant_core::{
    Arg, DType, Op, Scalar, Shape, TensorType,
    op::{CollectiveKind, RankUse, ReduceOp, Side},
    scalar::{Binary, Class, Unary},
};

impl Builder {
    pub(super) fn constant(&mut self, FirstOperand { dtype, layout, .. }: FirstOperand) -> Option<Ref> {
        let shape = self.shape_for(layout, 0);
        self.apply(Op::Const(TensorType { shape, dtype }), any_number(dtype), &[])
    }
    pub(super) fn iota(&mut self, FirstOperand { dtype, layout, .. }: FirstOperand) -> Option<Ref> {
        let shape = self.shape_for(layout, 1);
        let axis = self.random.below(shape.rank()) as u8;
        self.plain(Op::Iota { axis, ty: TensorType { shape, dtype } }, &[])
    }
    pub(super) fn random_bits(&mut self, first: FirstOperand) -> Option<Ref> {
        let four = Shape::new(&[4]).unwrap_or(Shape::SCALAR);
        let key = self.make(four, DType::U32, first.layout, Spread::Below(1000));
        let shape = self.shape(1, 3);
        self.plain(Op::RandomBits { shape }, &[key])
    }
    /// A drawn value that nobody reads but its own norm and what comes of both, as in a first step with a new weight.
    pub(super) fn weight_by_its_norm(&mut self) -> Option<()> {
        let bits = self.random_bits(FirstOperand { dtype: DType::U32, layout: Layout::Dense, is_exact: true })?;
        let small = self.apply(Op::BinaryScalar(Binary::ShiftRight, Side::Right), |_| Arg::Scalar(Scalar::Int(28)), &[bits])?;
        let weight = self.plain(Op::Cast(self.float), &[small])?;
        let square = self.plain(Op::Binary(Binary::Mul), &[weight, weight])?;
        let axes = self.some_axes(self.shape_of(square).rank());
        let norm = self.plain(Op::Reduce { op: ReduceOp::Sum, axes }, &[square])?;
        let next = self.plain(Op::Binary(Binary::Sub), &[weight, norm])?;
        self.program.nodes[next.node].held = true;
        Some(())
    }
    pub(super) fn unary(&mut self, f: Unary, first: FirstOperand) -> Option<Ref> {
        let a = if first.dtype.is_float() && self.random.one_in(2) {
            let (low, high) = f.row().domain;
            self.made(first, Spread::Within(low, high))
        } else {
            self.first(first, 0, 4)
        };
        self.plain(Op::Unary(f), &[a])
    }
    pub(super) fn binary(&mut self, f: Binary, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 0, 4);
        let spread = if divides(f) {
            Spread::NonZero
        } else if shifts(f, first.dtype) {
            Spread::Below(7)
        } else {
            Spread::Coarse
        };
        let b = self.beside(self.shape_of(a), first.dtype, spread);
        let is_ordered = divides(f) || shifts(f, first.dtype);
        if is_ordered || self.random.one_in(2) { self.plain(Op::Binary(f), &[a, b]) } else { self.plain(Op::Binary(f), &[b, a]) }
    }
    pub(super) fn binary_scalar(&mut self, f: Binary, first: FirstOperand) -> Option<Ref> {
        let dtype = first.dtype;
        let left = self.random.one_in(3);
        if left && (divides(f) || shifts(f, dtype)) && !dtype.is_float() {
            let a = self.made(first, if divides(f) { Spread::NonZero } else { Spread::Below(7) });
            return self.apply(Op::BinaryScalar(f, Side::Left), any_number(dtype), &[a]);
        }
        let a = self.first(first, 0, 4);
        let (zero, small) = (!divides(f), shifts(f, dtype));
        let side = if left { Side::Left } else { Side::Right };
        let number = move |r: &mut Random| Arg::Scalar(if small { Scalar::Int(r.below(7) as i64) } else { number(dtype, r, zero) });
        self.apply(Op::BinaryScalar(f, side), number, &[a])
    }
    pub(super) fn select(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 0, 4);
        let shape = self.shape_of(a);
        let (c, b) = (self.beside(shape, DType::Bool, Spread::Coarse), self.beside(shape, first.dtype, Spread::Coarse));
        if self.random.one_in(2) { self.plain(Op::Select, &[c, a, b]) } else { self.plain(Op::Select, &[c, b, a]) }
    }
    pub(super) fn cast(&mut self, first: FirstOperand) -> Option<Ref> {
        let to = *self.random.pick(&DType::ALL);
        // Out of range, NaN and fp8 of large numbers are the device's own affair for integers.
        let a = if first.dtype.is_float() && !to.is_float() && to != DType::Bool {
            self.made(first, if to.is_signed() { Spread::Within(-100.0, 100.0) } else { Spread::Within(0.0, 100.0) })
        } else {
            self.first(first, 0, 4)
        };
        let narrow = self.plain(Op::Cast(to), &[a])?;
        if to.computes() { Some(narrow) } else { self.plain(Op::Cast(first.dtype), &[narrow]) }
    }
    pub(super) fn bitcast(&mut self, first: FirstOperand) -> Option<Ref> {
        let partners: &[DType] = match first.dtype {
            DType::U8 | DType::I8 | DType::Bool => &[DType::U8, DType::I8],
            DType::F16 | DType::BF16 => &[DType::F16, DType::BF16],
            DType::F32 | DType::I32 | DType::U32 => &[DType::F32, DType::I32, DType::U32],
            _ => &[DType::F64, DType::I64],
        };
        let to = *self.random.pick(partners);
        // No NaN: which of them it is, is nobody's promise.
        let a = self.made(first, if first.dtype.is_float() { Spread::Within(0.5, 1.0) } else { Spread::Below(100) });
        self.plain(Op::Bitcast(to), &[a])
    }
    pub(super) fn transfer(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 0, 4);
        let meta = self.meta(a);
        Some(self.push(NodeKind::Transfer, vec![a], vec![meta], Layout::Dense))
    }
    pub(super) fn collective(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 0, 4);
        let (used, reduce) = (*self.random.pick(&[RankUse::Alike, RankUse::Apart]), *self.random.pick(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]));
        let meta = self.meta(a);
        let (group, given) = (alone(), TensorType { shape: meta.0, dtype: meta.1 });
        let all = [
            CollectiveKind::AllReduce { reduce, parts: 0, used },
            CollectiveKind::AllReduce { reduce, parts: self.random.between(1, 5) as u32, used },
            CollectiveKind::ReduceScatter { reduce, parts: 0 },
            CollectiveKind::ReduceScatter { reduce, parts: self.random.between(1, 5) as u32 },
            CollectiveKind::AllGather { used },
            CollectiveKind::AllToAll,
            CollectiveKind::Broadcast { root: 0, used },
            CollectiveKind::Replicate,
            CollectiveKind::Barrier,
        ];
        let fit: Vec<CollectiveKind> = all.into_iter().filter(|kind| kind.infer(&group, &given).is_ok()).collect();
        let kind = *self.random.pick(&fit);
        self.plain(Op::Collective { kind, group }, &[a])
    }
    /// A first operand that is new, of these numbers.
    fn made(&mut self, first: FirstOperand, spread: Spread) -> Ref {
        let shape = self.shape_for(first.layout, 0);
        self.make(shape, first.dtype, first.layout, spread)
    }
}

fn divides(f: Binary) -> bool {
    matches!(f.name(), "div" | "floor_divide" | "remainder" | "fmod")
}
fn shifts(f: Binary, dtype: DType) -> bool {
    f.row().class == Class::Integer || f.name().contains("shift") || (f.name() == "pow" && !dtype.is_float())
}
/// Any number of a dtype, as an op's argument.
pub(super) fn any_number(dtype: DType) -> impl Fn(&mut Random) -> Arg {
    move |r| Arg::Scalar(number(dtype, r, true))
}
/// A number of a dtype.
fn number(dtype: DType, r: &mut Random, zero: bool) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(r.one_in(2) || !zero),
        d if d.is_float() => Scalar::Float(if r.one_in(10) && zero {
            *r.pick(&[0.0, -0.0, 1.0, 3.0])
        } else {
            (r.between(1, 16) as f64 / 8.0) * if r.one_in(2) { 1.0 } else { -1.0 }
        }),
        d => Scalar::Int(r.between(!zero as usize, 5) as i64 * if d.is_signed() && r.one_in(3) { -1 } else { 1 }),
    }
}
