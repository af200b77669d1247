//! Products and convolutions with an epilogue, against their ops one by one.
use crate::cases::{Case, Check, Maker, expr, ty};
use adamant_conformance::data::{Spread, same_bits};
use adamant_ir::{
    Arg, DType, HostArray, MAX_RANK, Op, Scalar, Shape, TensorType,
    expr::Instr,
    kernel::KernelKind,
    op::{ConvRole, ConvSpec},
    product::{End, Product, Sums},
    reference::{self, HostData, round_float, wrap_int},
    scalar::{Binary, Unary},
};
use adamant_kernels::Array;
use std::sync::Arc;

/// `relu(product * column's number + whole)` in the product's dtype, then in another.
fn behind(dtype: DType, to: DType) -> (End, Meaning) {
    let mul = Instr::Binary(Binary::Mul, 0, 1);
    let add = Instr::Binary(Binary::Add, 2, 3);
    let load = |k: u16| (Instr::Load(k), dtype);
    let expr = expr(&[load(0), load(1), (mul, dtype), load(2), (add, dtype), (Instr::Unary(Unary::Relu, 4), dtype), (Instr::Cast(5), to)]);
    let means = move |sum: Scalar, factor: Scalar, addend: Scalar| {
        let rounded = |s: Scalar, d: DType| {
            if d.is_float() { Scalar::Float(round_float(s.to_f64(), d)) } else { Scalar::Int(wrap_int(s.to_i64(), d)) }
        };
        let scaled = rounded(reference::binary(Binary::Mul, sum, factor, dtype).unwrap(), dtype);
        let added = rounded(reference::binary(Binary::Add, scaled, addend, dtype).unwrap(), dtype);
        rounded(rounded(reference::unary(Unary::Relu, added, dtype), dtype), to)
    };
    let value = (expr.instrs.len() - 1) as u16;
    (End { expr, value }, Box::new(means))
}
type Meaning = Box<dyn Fn(Scalar, Scalar, Scalar) -> Scalar>;
/// A product with an epilogue whose column's numbers are broadcast and whose addend lies anyhow.
fn with_ends(mut m: Maker, sums: Sums, name: &str, operands: [(Array, HostArray); 2], dtype: DType) -> Case {
    let [(x, a), (y, b)] = operands;
    let op = match &sums {
        Sums::Matmul => Op::Matmul,
        Sums::Conv(spec) => Op::Conv(spec.clone()),
    };
    let space = op.infer_first(&[ty(&a), ty(&b)]).unwrap().shape;
    let rank = space.rank();
    let to = *m.random.pick(if dtype.is_float() { &[DType::F32, DType::BF16, DType::F16, DType::I32] } else { &[DType::F32, DType::I32] });
    // Whole numbers: the sum's own bound is the product's affair, and is judged there.
    let axis = if sums == Sums::Matmul { rank - 1 } else { 1 };
    let mut of_column = Shape::new(&vec![1; rank]).unwrap();
    of_column = of_column.with(axis, space[axis]);
    let (factor, factors) = m.dense(of_column, dtype, Spread::Coarse);
    let mut strides = [0; MAX_RANK];
    strides[axis] = 1;
    let factor = Array { shape: space, strides, dense: false, ..factor };
    let (addend, addends) = m.laid(space, dtype, Spread::Coarse);
    let (epilogue, means) = behind(dtype, to);
    let product =
        Product { sums, acc: Product::accumulator(dtype), dtype, prologue: [End::identity(dtype), End::identity(dtype)], epilogue, accumulate: false };
    let out = m.output(space, to);
    let inner: usize = space[axis + 1..].iter().product();
    let check: Check = Box::new(move |got, _| {
        let want = reference::run(&op, Arg::None, &[a.clone(), b.clone()], &[TensorType { shape: space, dtype }]).map_err(|e| e.to_string())?.0;
        let column = |k: usize| k / inner.max(1) % space[axis].max(1);
        let all = (0..space.elements()).map(|k| means(want[0].scalar(k), factors.scalar(column(k)), addends.scalar(k)));
        let data = if to.is_float() { HostData::Float(all.map(|s| s.to_f64()).collect()) } else { HostData::Int(all.map(|s| s.to_i64()).collect()) };
        if same_bits(&got[0], &HostArray { shape: space, dtype: to, data }) { Ok(()) } else { Err("not what its ops give one by one".into()) }
    });
    let target = m.target();
    m.case(format!("{name} of {dtype} to {to} over {space}"), target, KernelKind::Product(Arc::new(product)), vec![x, y, factor, addend], vec![out], check)
}
pub fn product(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&[DType::F32, DType::F16, DType::BF16, DType::I32]);
    let extents = [0, 1, 2, 3, 5, 16, 17, 33, 50];
    let (rows, columns, depth) = (*m.random.pick(&extents), *m.random.pick(&extents), *m.random.pick(&[0, 1, 7, 16, 17, 600]));
    let batch: Vec<usize> = (0..m.random.below(3)).map(|_| m.random.between(1, 3)).collect();
    let shape = |a: usize, b: usize| Shape::new(&[&batch[..], &[a, b]].concat()).unwrap();
    // Multiples of an eighth: every order of addition gives the same sum.
    let operands = [m.laid(shape(rows, depth), dtype, Spread::Coarse), m.laid(shape(depth, columns), dtype, Spread::Coarse)];
    with_ends(m, Sums::Matmul, "product", operands, dtype)
}
pub fn conv_with_ends(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&[DType::F32, DType::F16, DType::BF16]);
    let (images, groups, ci, co) = (m.random.between(0, 3), m.random.between(1, 2), m.random.between(1, 3), m.random.between(1, 9));
    let (stride, padding, kernel, side) = (m.random.between(1, 2), m.random.below(2), m.random.between(1, 3), m.random.between(4, 9));
    let spec = ConvSpec {
        role: ConvRole::Forward,
        stride: [stride; 2].into_iter().collect(),
        padding: [(padding, padding); 2].into_iter().collect(),
        dilation: [1; 2].into_iter().collect(),
        groups,
        open: Default::default(),
    };
    let shape = |sizes: [usize; 4]| Shape::new(&sizes).unwrap();
    let operands =
        [m.dense(shape([images, groups * ci, side, side]), dtype, Spread::Coarse), m.dense(shape([groups * co, ci, kernel, kernel]), dtype, Spread::Coarse)];
    with_ends(m, Sums::Conv(Arc::new(spec)), "conv", operands, dtype)
}
