//! Products with ends as plain loops: each program over its whole space, the sums by the reference's meaning between them. With a
//! planted fault one of the promises is broken, to show that the judge of products sees it.
use super::{read, run_program};
use adamant_core::{
    Arg, ErrorKind, HostArray, Op, TensorType,
    expr::Instr,
    kernel::Step,
    product::{Product, Sums},
    reference::{self, HostData},
    scalar::Binary,
};

/// What a backend could get wrong about the ends of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndFault {
    /// the epilogue runs after each block of the inner axis
    EpilogueInEachBlock,
    /// what is added to each column is added to each row
    WrongAxis,
    /// the epilogue sees the sum before it was rounded
    NotRounded,
    /// what is there is overwritten and not added to
    NotAdded,
    /// an operand is converted and its program left out
    PrologueDropped,
}
impl EndFault {
    /// All of them.
    pub const ALL: [EndFault; 5] = [EndFault::EpilogueInEachBlock, EndFault::WrongAxis, EndFault::NotRounded, EndFault::NotAdded, EndFault::PrologueDropped];
}

/// The result of a product with ends.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run(product: &Product, step: &Step<'_>, fault: Option<EndFault>) -> Result<HostArray, ErrorKind> {
    let is = |f: EndFault| fault == Some(f);
    let inputs: Vec<HostArray> = step.inputs.iter().map(read).collect::<Result<_, _>>()?;
    let (first, second) = (product.loads(0), product.loads(1));
    let operand = |k: usize, from: usize, to: usize| -> Result<HostArray, ErrorKind> {
        let end = &product.prologue[k];
        let loaded = &inputs[from..to];
        if is(EndFault::PrologueDropped) && !end.is_identity() {
            return Ok(as_type(&loaded[0], TensorType { shape: loaded[0].shape, dtype: end.dtype() }));
        }
        let args = &step.args[product.arguments_before(k)..];
        Ok(run_program(&end.expr, &loaded[0].shape, loaded, args, step.fault)?.swap_remove(end.value as usize))
    };
    let (a, b) = (operand(0, 0, first)?, operand(1, first, first + second)?);
    let (op, of) = match &product.sums {
        Sums::Matmul => (Op::Matmul, a.shape.rank() - 1),
        Sums::Conv(spec) => (Op::Conv(spec.clone()), 1),
    };
    let types = [&a, &b].map(|x| TensorType { shape: x.shape, dtype: x.dtype });
    let dtype = if is(EndFault::NotRounded) { product.acc } else { product.dtype };
    let ty = TensorType { dtype, ..op.infer_first(&types)? };
    let sums = |a: &HostArray| -> Result<HostArray, ErrorKind> { Ok(reference::run(&op, Arg::None, &[a.clone(), b.clone()], &[ty])?.0.swap_remove(0)) };
    let others = &inputs[first + second..];
    let mut epilogue = product.epilogue.expr.clone();
    if is(EndFault::NotRounded) {
        let loads = epilogue.instrs.iter().zip(&mut epilogue.dtypes).filter(|(i, _)| **i == Instr::Load(0));
        loads.for_each(|(_, d)| *d = product.acc);
    }
    let behind = |sum: HostArray| -> Result<HostArray, ErrorKind> {
        let mut loaded = vec![HostArray { shape: step.space, ..sum }];
        loaded.extend(others.iter().enumerate().map(|(k, x)| match x.shape.rank() {
            _ if is(EndFault::NotAdded) && product.accumulate && k + 1 == others.len() => as_type(&zeros(x), TensorType { shape: x.shape, dtype: x.dtype }),
            2.. if is(EndFault::WrongAxis) => transposed(x),
            _ => x.clone(),
        }));
        let args = &step.args[product.arguments_before(2)..];
        Ok(run_program(&epilogue, &step.space, &loaded, args, step.fault)?.swap_remove(product.epilogue.value as usize))
    };
    if is(EndFault::EpilogueInEachBlock) && a.shape[of] > 1 && product.epilogue.dtype() == product.dtype {
        let half = a.shape[of] / 2;
        let inner: usize = a.shape[of + 1..].iter().product();
        let part = |low: bool| masked(&a, |k| (k / inner % a.shape[of] < half) == low);
        let before = behind(sums(&part(true))?)?;
        let sum = sums(&part(false))?;
        let both = (0..sum.shape.elements()).map(|k| reference::binary(Binary::Add, before.scalar(k), sum.scalar(k), ty.dtype).unwrap_or(before.scalar(k)));
        let data = if ty.dtype.is_float() { HostData::Float(both.map(|s| s.to_f64()).collect()) } else { HostData::Int(both.map(|s| s.to_i64()).collect()) };
        return behind(as_type(&HostArray { shape: sum.shape, dtype: ty.dtype, data }, ty));
    }
    behind(sums(&a)?)
}
/// The elements converted.
fn as_type(x: &HostArray, ty: TensorType) -> HostArray {
    let n = x.shape.elements();
    let data = if ty.dtype.is_float() {
        HostData::Float((0..n).map(|k| reference::round_float(x.scalar(k).to_f64(), ty.dtype)).collect())
    } else {
        HostData::Int((0..n).map(|k| reference::wrap_int(x.scalar(k).to_i64(), ty.dtype)).collect())
    };
    HostArray { shape: ty.shape, dtype: ty.dtype, data }
}
fn zeros(x: &HostArray) -> HostArray {
    masked(x, |_| false)
}
/// Zero but where `keep` says.
fn masked(x: &HostArray, keep: impl Fn(usize) -> bool) -> HostArray {
    let data = match &x.data {
        HostData::Float(v) => HostData::Float(v.iter().enumerate().map(|(k, &v)| if keep(k) { v } else { 0.0 }).collect()),
        HostData::Int(v) => HostData::Int(v.iter().enumerate().map(|(k, &v)| if keep(k) { v } else { 0 }).collect()),
    };
    HostArray { data, ..x.clone() }
}
/// Each matrix read along its columns, as far as they go.
fn transposed(x: &HostArray) -> HostArray {
    let r = x.shape.rank();
    let (m, n) = (x.shape[r - 2], x.shape[r - 1]);
    let from = |k: usize| {
        let (matrix, i, j) = (k / (m * n), k / n % m, k % n);
        matrix * m * n + j % m * n + i % n
    };
    let data = match &x.data {
        HostData::Float(v) => HostData::Float((0..v.len()).map(|k| v[from(k)]).collect()),
        HostData::Int(v) => HostData::Int((0..v.len()).map(|k| v[from(k)]).collect()),
    };
    HostArray { data, ..x.clone() }
}
