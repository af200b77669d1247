//! Matrix products: strides become gemm operands, batches with strides of their own become calls.
mod integers;

use crate::{
    device::Runtime,
    ends::{self, ColumnBias, EndPrograms, Finish, InPlace},
    gemm::{
        Blas, Epilogue, GemmElement, MatRef, NoEpilogue,
        apart::{Apart, Matrices, SumKind, WidenedElements},
        gemm,
    },
    isa::Isa,
    map,
    matmul::integers::IntegerElement,
    nest::Nest,
    operand::{In, Out, cast, internal},
};
use adamant_runtime::{DType, ErrorKind, kernel::Step, product::Product};
use half::{bf16, f16};

struct MatmulSizes {
    m: usize,
    n: usize,
    k: usize,
    /// the batch axes: strides of a and b
    batch: Nest,
    rank: usize,
}
impl MatmulSizes {
    fn new(a: &In<'_>, b: &In<'_>) -> Result<MatmulSizes, ErrorKind> {
        let rank = a.shape.rank();
        if rank < 2 || b.shape.rank() != rank {
            return Err(internal("a product of other shapes"));
        }
        let batch = Nest::new(&a.shape, 0..rank - 2, &[&a.layout.strides, &b.layout.strides]);
        Ok(MatmulSizes { m: a.shape[rank - 2], n: b.shape[rank - 1], k: a.shape[rank - 1], batch, rank })
    }
    fn elements(&self) -> usize {
        self.batch.len() * self.m * self.n
    }
}

/// Runs a Matmul step.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([a, b], [out]) = (inputs, outputs) else { return Err(internal("a product has two inputs and one output")) };
    let sizes = MatmulSizes::new(a, b)?;
    if out.shape.elements() != sizes.elements() || a.dtype != out.dtype || b.dtype != out.dtype {
        return Err(internal("a product of another size or of two dtypes"));
    }
    let dtype = out.dtype;
    if let (DType::I8 | DType::U8, Some(kept), true) = (dtype, handed_on(runtime, a, b, dtype), out.shape.elements() > 0) {
        return apart(runtime, &sizes, [a, b], dtype, kept, out.dense_bytes()?, dtype.size(), None);
    }
    sums(runtime, &sizes, a, b, dtype, out.dense_bytes()?, None)
}
/// Runs a product with ends: operands are made where they have programs, the epilogue runs where the sums are stored if the
/// result is of their dtype, and over all of them if not.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn with_ends(runtime: &Runtime, step: &Step<'_>, product: &Product, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let [out] = outputs else { return Err(internal("a product has one output")) };
    let programs = ends::programs(step.kernel, product, runtime.isa)?;
    if few_with_ends(runtime, step, product, programs, inputs, out)? {
        return Ok(());
    }
    let made = ends::operands(runtime, step, product, programs, inputs, |dtype| widens(runtime, product, dtype))?;
    let (a, b, others) = (made.first(), made.second(), made.others);
    let sizes = MatmulSizes::new(&a, &b)?;
    if out.shape.elements() != sizes.elements() {
        return Err(internal("a product of another size"));
    }
    if out.shape.elements() == 0 {
        return Ok(());
    }
    if out.dtype != product.epilogue.dtype() {
        return Err(internal("a product of another dtype than its epilogue's"));
    }
    let is_apart = out.dtype != product.dtype || !out.dtype.is_float() || others.iter().any(|i| i.in_place.is_some());
    let dtype = product.dtype;
    let wide = matches!(dtype, DType::F32 | DType::F64) && !is_apart && !made.are_narrow(dtype);
    if wide && programs.epilogue.is_some() && ends::is_column_bias(&product.epilogue, others, sizes.n) {
        let out = out.dense_bytes()?;
        return match dtype {
            DType::F32 => biased::<f32>(runtime, &sizes, &a, &b, out, &others[0]),
            _ => biased::<f64>(runtime, &sizes, &a, &b, out, &others[0]),
        };
    }
    let reads = ends::reads(&out.shape, product.dtype, others, is_apart || made.are_narrow(product.dtype));
    let bind = |program| Finish::new(runtime.isa, program, &product.epilogue, &out.shape, &reads, ends::arguments(step, product, 2), step.fault);
    let finish = programs.epilogue.as_ref().map(bind).transpose()?;
    if (is_apart || made.are_narrow(dtype))
        && let Some(kept) = handed_on(runtime, &a, &b, dtype)
    {
        let stored = out.dtype.size();
        return apart(runtime, &sizes, [&a, &b], dtype, kept, out.dense_bytes()?, stored, finish.as_ref());
    }
    match &finish {
        Some(finish) if is_apart => finish.behind(runtime, sizes.elements(), out.dense_bytes()?, |bytes| sums(runtime, &sizes, &a, &b, dtype, bytes, None)),
        finish => sums(runtime, &sizes, &a, &b, dtype, out.dense_bytes()?, finish.as_ref()),
    }
}
/// Runs a product of few f32 whose operands are read as they lie. Its epilogue runs over all of them: to make operands ready
/// for programs, or to bind one, would cost more than the elements do. False: it is another, and nothing was done.
fn few_with_ends(
    runtime: &Runtime,
    step: &Step<'_>,
    product: &Product,
    programs: &EndPrograms,
    inputs: &[In<'_>],
    out: &mut Out<'_>,
) -> Result<bool, ErrorKind> {
    let (EndPrograms { prologue: [None, None], epilogue: Some(program), .. }, [a, b, others @ ..]) = (programs, inputs) else { return Ok(false) };
    let is_plain = [a.dtype, b.dtype, product.dtype, product.epilogue.dtype(), out.dtype].iter().all(|&d| d == DType::F32);
    if !is_plain || !(1..=map::direct::FEW).contains(&out.shape.elements()) || others.iter().any(|i| i.in_place.is_some()) {
        return Ok(false);
    }
    let sizes = MatmulSizes::new(a, b)?;
    if out.shape.elements() != sizes.elements() {
        return Err(internal("a product of another size"));
    }
    if ends::is_column_bias(&product.epilogue, others, sizes.n) {
        biased::<f32>(runtime, &sizes, a, b, out.dense_bytes()?, &others[0])?;
        return Ok(true);
    }
    sums(runtime, &sizes, a, b, DType::F32, out.dense_bytes()?, None)?;
    let args = ends::arguments(step, product, 2);
    if map::direct::run_behind(program, runtime.isa, args, others, out.dense()?, sizes.n).is_none() {
        let reads = ends::reads(&out.shape, DType::F32, others, false);
        Finish::new(runtime.isa, program, &product.epilogue, &out.shape, &reads, args, step.fault)?.in_place(0, out.dense_bytes()?)?;
    }
    Ok(true)
}
/// Is an operand of `dtype` widened where it is packed, and not made by its program?
fn widens(runtime: &Runtime, product: &Product, dtype: DType) -> bool {
    let byte = |d: DType| matches!(d, DType::I8 | DType::U8);
    match product.dtype {
        DType::F32 => runtime.blas == Blas::Own && (byte(dtype) || matches!(dtype, DType::BF16 | DType::F16)),
        DType::I32 | DType::U32 => product.prologue.iter().all(|p| p.converts().is_some_and(byte)),
        _ => false,
    }
}
/// What the sums of these operands are kept in, if they can be handed on.
fn handed_on(runtime: &Runtime, a: &In<'_>, b: &In<'_>, dtype: DType) -> Option<SumKind> {
    let byte = |i: &In<'_>| matches!(i.dtype, DType::I8 | DType::U8);
    let float = |i: &In<'_>| matches!(i.dtype, DType::F32 | DType::BF16 | DType::F16) || byte(i);
    match dtype {
        // A library knows f32 alone.
        DType::F32 if a.dtype == dtype && b.dtype == dtype && runtime.blas != Blas::Own => None,
        DType::F32 if float(a) && float(b) => Some(SumKind::Floats),
        DType::BF16 | DType::F16 if a.dtype == dtype && b.dtype == dtype => Some(SumKind::Floats),
        DType::I32 | DType::U32 | DType::I8 | DType::U8 if byte(a) && byte(b) => Some(SumKind::Integers),
        _ => None,
    }
}
/// Sums that are handed on, part by part: rounded or wrapped to the product's dtype, then to the epilogue or to their place.
#[allow(clippy::too_many_arguments)]
fn apart(
    runtime: &Runtime,
    s: &MatmulSizes,
    [a, b]: [&In<'_>; 2],
    dtype: DType,
    kept: SumKind,
    out: &mut [u8],
    stored: usize,
    finish: Option<&Finish<'_>>,
) -> Result<(), ErrorKind> {
    let inner = *s.batch.dims.last().unwrap_or(&1);
    let plane = s.m * s.n;
    for (o, c) in out.chunks_mut(inner * plane * stored).enumerate() {
        let at = o * inner;
        let hand_on = |place: usize, sums: &mut [u8], out: &mut [u8]| hand_on(runtime.isa, dtype, finish, at * plane + place, sums, out);
        let product = Apart { batch: inner, size: [s.m, s.n, s.k], a: matrices(s, a, 0, at)?, b: matrices(s, b, 1, at)?, kept, stored, hand_on: &hand_on };
        crate::trace::by(|| format!("own {:?}", runtime.isa).to_lowercase());
        product.run(&runtime.threads, runtime.isa, c)?;
    }
    Ok(())
}
/// Operand `k` from matrix `at` of the batch on.
fn matrices<'a>(s: &MatmulSizes, i: &In<'a>, k: usize, at: usize) -> Result<Matrices<'a>, ErrorKind> {
    let last = s.batch.dims.len() - 1;
    let elements = match i.dtype {
        DType::F32 => WidenedElements::F32(i.elements()?),
        DType::BF16 => WidenedElements::BF16(i.elements()?),
        DType::F16 => WidenedElements::F16(i.elements()?),
        DType::I8 => WidenedElements::I8(i.elements()?),
        DType::U8 => WidenedElements::U8(i.elements()?),
        d => return Err(ErrorKind::Internal(format!("a product of {d}"))),
    };
    Ok(Matrices {
        elements,
        offset: (i.layout.offset as isize + s.batch.offset(k, at)) as usize,
        row_stride: i.layout.strides[s.rank - 2],
        col_stride: i.layout.strides[s.rank - 1],
        batch_stride: s.batch.strides[k][last],
    })
}
fn hand_on(isa: Isa, dtype: DType, finish: Option<&Finish<'_>>, at: usize, sums: &mut [u8], out: &mut [u8]) -> Result<(), ErrorKind> {
    let finished = |at: usize, product: &mut [u8], out: &mut [u8]| match finish {
        Some(finish) => finish.apart(at, product, out),
        None => {
            out.copy_from_slice(product);
            Ok(())
        }
    };
    if dtype.size() == 4 {
        return finished(at, sums, out);
    }
    const SOME: usize = 512;
    let stored = out.len() / (sums.len() / 4).max(1);
    let mut buffer = [0u16; SOME];
    for (k, (sums, out)) in sums.chunks_mut(SOME * 4).zip(out.chunks_mut(SOME * stored)).enumerate() {
        let n = sums.len() / 4;
        let product = &mut bytemuck::cast_slice_mut::<u16, u8>(&mut buffer)[..n * dtype.size()];
        match dtype {
            DType::BF16 => <bf16 as GemmElement>::narrow(isa, bytemuck::cast_slice(sums), bytemuck::cast_slice_mut(product)),
            DType::F16 => <f16 as GemmElement>::narrow(isa, bytemuck::cast_slice(sums), bytemuck::cast_slice_mut(product)),
            // The low bits are those of either sign.
            _ => product.iter_mut().zip(bytemuck::cast_slice::<u8, i32>(sums)).for_each(|(to, &v)| *to = v as u8),
        }
        finished(at + k * SOME, product, out)?;
    }
    Ok(())
}
/// The sums, and the epilogue where they are stored if there is one.
fn sums(runtime: &Runtime, s: &MatmulSizes, a: &In<'_>, b: &In<'_>, dtype: DType, out: &mut [u8], finish: Option<&Finish<'_>>) -> Result<(), ErrorKind> {
    if out.is_empty() {
        return Ok(());
    }
    match dtype {
        DType::F32 => floats::<f32>(runtime, s, a, b, out, finish),
        DType::F64 => floats::<f64>(runtime, s, a, b, out, finish),
        DType::BF16 => floats::<bf16>(runtime, s, a, b, out, finish),
        DType::F16 => floats::<f16>(runtime, s, a, b, out, finish),
        DType::I32 => integers::<i32>(runtime, s, a, b, out),
        DType::U32 => integers::<u32>(runtime, s, a, b, out),
        DType::I64 => integers::<i64>(runtime, s, a, b, out),
        d => Err(ErrorKind::Internal(format!("a product of {d}"))),
    }
}
fn floats<T: GemmElement + bytemuck::Pod>(
    runtime: &Runtime,
    s: &MatmulSizes,
    a: &In<'_>,
    b: &In<'_>,
    out: &mut [u8],
    finish: Option<&Finish<'_>>,
) -> Result<(), ErrorKind> {
    let rows = |first| finish.map(|finish| InPlace { finish, first, rows: s.m, columns: s.n });
    each_batch(s, a, b, out, |first, batch, a, b, c| match rows(first) {
        Some(epilogue) => product(runtime, batch, [s.m, s.n, s.k], a, b, c, &epilogue),
        None => product::<T>(runtime, batch, [s.m, s.n, s.k], a, b, c, &NoEpilogue),
    })
}
/// As `floats`, with an addend for each column.
fn biased<T: GemmElement + bytemuck::Pod + std::ops::AddAssign>(
    runtime: &Runtime,
    s: &MatmulSizes,
    a: &In<'_>,
    b: &In<'_>,
    out: &mut [u8],
    bias: &In<'_>,
) -> Result<(), ErrorKind> {
    let all: &[T] = bias.elements()?;
    let bias = all.get(bias.layout.offset..bias.layout.offset + s.n).ok_or_else(|| internal("an operand leaves its buffer"))?;
    each_batch(s, a, b, out, |_, batch, a, b, c| product(runtime, batch, [s.m, s.n, s.k], a, b, c, &ColumnBias(bias)))
}
/// Calls `f(first element of the result, matrices, a, b, c)` for each stretch of the batch that one call of gemm computes.
fn each_batch<T: bytemuck::Pod>(
    s: &MatmulSizes,
    a: &In<'_>,
    b: &In<'_>,
    out: &mut [u8],
    f: impl Fn(usize, usize, MatRef<'_, T>, MatRef<'_, T>, &mut [T]) -> Result<(), ErrorKind>,
) -> Result<(), ErrorKind> {
    let plane = s.m * s.n;
    let out: &mut [T] = cast(out)?;
    let (a_all, b_all) = (a.elements::<T>()?, b.elements::<T>()?);
    // The innermost batch axis is gemm's own; the others are calls.
    let inner = *s.batch.dims.last().unwrap_or(&1);
    let last = s.batch.dims.len() - 1;
    let matrix = |data, i: &In<'_>, k: usize, at: isize| MatRef {
        data,
        offset: (i.layout.offset as isize + at) as usize,
        row_stride: i.layout.strides[s.rank - 2],
        col_stride: i.layout.strides[s.rank - 1],
        batch_stride: s.batch.strides[k][last],
    };
    for (o, c) in out.chunks_mut(inner * plane).enumerate() {
        let at = o * inner;
        let (a, b) = (matrix(a_all, a, 0, s.batch.offset(0, at)), matrix(b_all, b, 1, s.batch.offset(1, at)));
        f(at * plane, inner, a, b, c)?;
    }
    Ok(())
}
/// `batch` products of `[m, n, k]` by the library that was chosen, or by our own where it cannot; then the epilogue.
///
/// # Errors
/// Memory; operands that do not fit.
pub(crate) fn product<T: GemmElement>(
    runtime: &Runtime,
    batch: usize,
    [m, n, k]: [usize; 3],
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: &mut [T],
    epilogue: &dyn Epilogue<T>,
) -> Result<(), ErrorKind> {
    if runtime.blas.multiply(&runtime.threads, batch, m, n, k, a, b, c)? {
        crate::trace::by(|| runtime.blas.name().into());
        if epilogue.is_identity() {
            return Ok(());
        }
        let rows = (map::TASK / n.max(1)).clamp(1, m);
        return c
            .chunks_mut(m * n)
            .enumerate()
            .try_for_each(|(index, c)| runtime.threads.try_for_chunks_mut(c, rows * n, |part, values| epilogue.apply(index, part * rows, 0, values)));
    }
    crate::trace::by(|| format!("own {:?}", runtime.isa).to_lowercase());
    gemm(&runtime.threads, runtime.isa, batch, m, n, k, a, b, c, epilogue)
}
fn integers<T: IntegerElement>(runtime: &Runtime, s: &MatmulSizes, a: &In<'_>, b: &In<'_>, out: &mut [u8]) -> Result<(), ErrorKind> {
    each_batch::<T>(s, a, b, out, |_, _, a, b, out| T::products(&runtime.threads, runtime.isa, [s.m, s.n, s.k], a, b, out))
}
