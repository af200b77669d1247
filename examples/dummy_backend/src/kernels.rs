//! The six families as nested loops. A step first fetches what it reads, row-major, then computes, then stores: so an output
//! may lie in an input's buffer, and no lock is held while another is taken.
use crate::{
    element::{combine, decode, encode, fitted},
    outside, words, words_mut,
};
use adamant_runtime::{
    DType, ErrorKind, MAX_RANK, Op, Scalar, Shape,
    expr::{Expr, Instr},
    kernel::{Fault, KernelKind, Operand, Step},
    op::{ReduceOp, ScatterMode},
    philox, reference,
};

type Done = Result<(), ErrorKind>;

/// Runs a step.
pub fn run(step: &Step<'_>) -> Done {
    match (&step.kernel.kind, step.inputs, step.outputs) {
        (KernelKind::Map { expr, outputs }, _, _) => map(step, expr, outputs),
        (KernelKind::Reduce { expr, value, op, axes }, _, [out]) => reduce(step, expr, *value, *op, |axis| axes.has(axis), out),
        (KernelKind::Copy, [from], [to]) => store(to, &fetch(from)?),
        (KernelKind::Matmul, [a, b], [out]) => matmul(a, b, out),
        (KernelKind::Primitive(Op::Gather { axis }), [x, index], [out]) => gather(step, *axis as usize, x, index, out),
        (KernelKind::Scatter { axis, mode }, [index, source], [out]) => scatter(step, *axis as usize, *mode, index, source, out),
        (other, ..) => Err(ErrorKind::Internal(format!("{} was never claimed", other.family()))),
    }
}

/// Coordinates of the k-th element of a shape in row-major order.
fn coordinates(shape: &Shape, mut k: usize) -> [usize; MAX_RANK] {
    let mut at = [0; MAX_RANK];
    for axis in (0..shape.rank()).rev() {
        (at[axis], k) = (k % shape[axis], k / shape[axis]);
    }
    at
}
/// Row-major index of coordinates.
fn index_of(shape: &Shape, at: &[usize; MAX_RANK]) -> usize {
    shape.iter().zip(at).fold(0, |index, (size, at)| index * size + at)
}
/// Calls `f` with the byte at which each element of the operand lies, in row-major order.
fn each_place(o: &Operand<'_>, mut f: impl FnMut(usize) -> Done) -> Done {
    let (inner, stride) = o.shape.last().map_or((1, 0), |&size| (size, o.strides[o.shape.rank() - 1]));
    for row in 0..o.shape.elements() / inner.max(1) {
        let at = coordinates(&o.shape, row * inner);
        let start = (0..o.shape.rank()).fold(o.offset as isize, |sum, axis| sum + at[axis] as isize * o.strides[axis]);
        for k in 0..inner as isize {
            f(usize::try_from(start + k * stride).map_err(|_| outside())? * o.dtype.size())?;
        }
    }
    Ok(())
}
/// The operand's elements, row-major.
fn fetch(o: &Operand<'_>) -> Result<Vec<u8>, ErrorKind> {
    let (guard, size) = (o.buffer.read(), o.dtype.size());
    let all = words(guard.as_deref().ok_or_else(outside)?)?;
    let mut bytes = Vec::with_capacity(o.shape.elements() * size);
    each_place(o, |at| {
        bytes.extend_from_slice(all.get(at..at + size).ok_or_else(outside)?);
        Ok(())
    })?;
    Ok(bytes)
}
/// Puts row-major elements where the operand's lie.
fn store(o: &Operand<'_>, bytes: &[u8]) -> Done {
    let (mut guard, size) = (o.buffer.write(), o.dtype.size());
    let all = words_mut(guard.as_deref_mut().ok_or_else(outside)?)?;
    let mut elements = bytes.chunks_exact(size);
    each_place(o, |at| {
        let (to, from) = (all.get_mut(at..at + size).ok_or_else(outside)?, elements.next().ok_or_else(outside)?);
        to.copy_from_slice(from);
        Ok(())
    })
}
/// The operand's elements as numbers, row-major.
pub fn scalars(o: &Operand<'_>) -> Result<Vec<Scalar>, ErrorKind> {
    Ok(fetch(o)?.chunks_exact(o.dtype.size()).map(|b| decode(o.dtype, b)).collect())
}
/// Puts row-major numbers where the operand's elements lie, rounded or wrapped to its dtype.
pub fn store_scalars(o: &Operand<'_>, values: impl Iterator<Item = Scalar>) -> Done {
    let mut bytes = Vec::with_capacity(o.shape.elements() * o.dtype.size());
    values.for_each(|v| encode(o.dtype, v, &mut bytes));
    store(o, &bytes)
}

/// Runs the program on each element of the space: `f(element number, registers)`.
fn each_element(step: &Step<'_>, expr: &Expr, mut f: impl FnMut(usize, &[Scalar])) -> Done {
    let inputs: Vec<Vec<Scalar>> = step.inputs.iter().map(scalars).collect::<Result<_, _>>()?;
    let mut regs: Vec<Scalar> = Vec::with_capacity(expr.instrs.len());
    for k in 0..step.space.elements() {
        regs.clear();
        for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes) {
            let value = instruction(step, expr, &inputs, k, &regs, *instr, dtype);
            regs.push(fitted(value, dtype));
        }
        f(k, &regs);
    }
    Ok(())
}
fn instruction(step: &Step<'_>, expr: &Expr, inputs: &[Vec<Scalar>], k: usize, regs: &[Scalar], instr: Instr, dtype: DType) -> Scalar {
    let reg = |r: u16| regs[r as usize];
    match instr {
        Instr::Load(input) => inputs[input as usize][k],
        Instr::Arg(arg) => step.args[arg as usize],
        Instr::Const(value) => value,
        Instr::Index(axis) => Scalar::Int(coordinates(&step.space, k)[axis as usize] as i64),
        Instr::Random(key) => Scalar::Int(philox::element_bits([0, 1, 2, 3].map(|w| inputs[key as usize][w].to_i64() as u32), k as u64) as i64),
        Instr::Unary(f, x) => reference::unary(f, reg(x), expr.dtypes[x as usize]),
        Instr::Binary(f, x, y) => reference::binary(f, reg(x), reg(y), expr.dtypes[x as usize]).unwrap_or_else(|| {
            step.fault.set(Fault::DivisionByZero);
            Scalar::Int(0)
        }),
        Instr::Select(condition, x, y) => reg(if reg(condition).to_i64() != 0 { x } else { y }),
        Instr::Cast(x) if dtype == DType::Bool => Scalar::Int((reg(x).to_f64() != 0.0) as i64),
        Instr::Cast(x) => reg(x),
        Instr::Bitcast(x) => {
            let mut bytes = Vec::new();
            encode(expr.dtypes[x as usize], reg(x), &mut bytes);
            decode(dtype, &bytes)
        }
    }
}
fn map(step: &Step<'_>, expr: &Expr, outputs: &[u16]) -> Done {
    let mut results: Vec<Vec<u8>> = vec![Vec::new(); outputs.len()];
    each_element(step, expr, |_, regs| {
        for ((bytes, o), &reg) in results.iter_mut().zip(step.outputs).zip(outputs) {
            encode(o.dtype, regs[reg as usize], bytes);
        }
    })?;
    step.outputs.iter().zip(&results).try_for_each(|(o, bytes)| store(o, bytes))
}
/// Elements are combined in their row-major order, in f64 or i64, and rounded once: the same bits whatever is fused.
fn reduce(step: &Step<'_>, expr: &Expr, value: u16, op: ReduceOp, reduced: impl Fn(usize) -> bool, out: &Operand<'_>) -> Done {
    let mut sums: Vec<Option<Scalar>> = vec![None; out.shape.elements()];
    each_element(step, expr, |k, regs| {
        let mut at = coordinates(&step.space, k);
        (0..step.space.rank()).filter(|&axis| reduced(axis)).for_each(|axis| at[axis] = 0);
        let sum = &mut sums[index_of(&out.shape, &at)];
        *sum = Some(sum.map_or(regs[value as usize], |s| combine(op, s, regs[value as usize])));
    })?;
    // The sum of nothing is zero, its product one; there is no extreme of nothing.
    let nothing = Scalar::Int((op == ReduceOp::Prod) as i64);
    store_scalars(out, sums.into_iter().map(|s| fitted(s.unwrap_or(nothing), out.dtype)))
}
fn matmul(a: &Operand<'_>, b: &Operand<'_>, out: &Operand<'_>) -> Done {
    let r = out.shape.rank();
    let (m, n, depth) = (out.shape[r - 2], out.shape[r - 1], a.shape[r - 1]);
    let (x, y, sizes) = (scalars(a)?, scalars(b)?, [out.shape.elements() / n.max(1), m, n, depth]);
    if out.dtype.is_float() {
        store_scalars(out, product(&x, &y, sizes, Scalar::to_f64, |c, a, b| c + a * b).into_iter().map(Scalar::Float))
    } else {
        let multiply_add = |c: i64, a: i64, b| c.wrapping_add(a.wrapping_mul(b));
        store_scalars(out, product(&x, &y, sizes, Scalar::to_i64, multiply_add).into_iter().map(Scalar::Int))
    }
}
/// Batches of `[m, depth] x [depth, n]`: each result is one sum in the order of the depth, so it depends on no other row.
fn product<T: Copy + Default>(x: &[Scalar], y: &[Scalar], sizes: [usize; 4], number: fn(Scalar) -> T, multiply_add: impl Fn(T, T, T) -> T) -> Vec<T> {
    let [rows, m, n, depth] = sizes;
    let y: Vec<T> = y.iter().map(|&v| number(v)).collect();
    let mut c = vec![T::default(); rows * n];
    for (row, c) in c.chunks_exact_mut(n.max(1)).enumerate() {
        for p in 0..depth {
            let (a, b) = (number(x[row * depth + p]), &y[(row / m * depth + p) * n..][..n]);
            c.iter_mut().zip(b).for_each(|(c, &b)| *c = multiply_add(*c, a, b));
        }
    }
    c
}
/// The index if it is in range; else the step's fault, of which core makes the user's error.
fn in_range(step: &Step<'_>, index: Scalar, bound: usize, position: usize) -> Option<usize> {
    let found = usize::try_from(index.to_i64()).ok().filter(|&i| i < bound);
    if found.is_none() {
        step.fault.set(Fault::Index { index: index.to_i64(), bound, position });
    }
    found
}
fn gather(step: &Step<'_>, axis: usize, x: &Operand<'_>, index: &Operand<'_>, out: &Operand<'_>) -> Done {
    let (values, indices) = (scalars(x)?, scalars(index)?);
    let picked = indices.iter().enumerate().map(|(k, &i)| {
        let Some(found) = in_range(step, i, x.shape[axis], k) else { return Scalar::Int(0) };
        let mut at = coordinates(&index.shape, k);
        at[axis] = found;
        values[index_of(&x.shape, &at)]
    });
    store_scalars(out, picked)
}
fn scatter(step: &Step<'_>, axis: usize, mode: ScatterMode, index: &Operand<'_>, source: &Operand<'_>, out: &Operand<'_>) -> Done {
    let (indices, values, mut results) = (scalars(index)?, scalars(source)?, scalars(out)?);
    for (k, (&i, &v)) in indices.iter().zip(&values).enumerate() {
        let Some(found) = in_range(step, i, out.shape[axis], k) else { continue };
        let mut at = coordinates(&index.shape, k);
        at[axis] = found;
        let to = &mut results[index_of(&out.shape, &at)];
        *to = match mode {
            ScatterMode::Set => v,
            ScatterMode::Add => combine(ReduceOp::Sum, *to, v),
            ScatterMode::Mul => combine(ReduceOp::Prod, *to, v),
            ScatterMode::Max => combine(ReduceOp::Max, *to, v),
            ScatterMode::Min => combine(ReduceOp::Min, *to, v),
        };
    }
    store_scalars(out, results.into_iter())
}
