//! Matrix products: strides become gemm operands, batches with strides of their own become calls.
use crate::{
    device::Runtime,
    element::{Number, Wide},
    gemm::{Epilogue, EpilogueProgram, GemmElement, MatRef, gemm},
    nest::Nest,
    operand::{In, Out, internal},
};
use adamant_runtime::{DType, ErrorKind};
use half::{bf16, f16};

struct Sizes {
    m: usize,
    n: usize,
    k: usize,
    /// the batch axes: strides of a and b
    batch: Nest,
    rank: usize,
}

/// Runs a Matmul step.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([a, b], [out]) = (inputs, outputs) else { return Err(internal("a product has two inputs and one output")) };
    let rank = out.shape.rank();
    if rank < 2 || a.shape.rank() != rank || b.shape.rank() != rank || a.dtype != out.dtype || b.dtype != out.dtype {
        return Err(internal("a product of other shapes or dtypes"));
    }
    let batch = Nest::new(&out.shape, 0..rank - 2, &[&a.layout.strides, &b.layout.strides]);
    let sizes = Sizes { m: out.shape[rank - 2], n: out.shape[rank - 1], k: a.shape[rank - 1], batch, rank };
    if out.shape.elements() == 0 {
        return Ok(());
    }
    match out.dtype {
        DType::F32 => floats::<f32>(runtime, &sizes, a, b, out),
        DType::F64 => floats::<f64>(runtime, &sizes, a, b, out),
        DType::BF16 => floats::<bf16>(runtime, &sizes, a, b, out),
        DType::F16 => floats::<f16>(runtime, &sizes, a, b, out),
        DType::U8 => integers::<u8>(runtime, &sizes, a, b, out),
        DType::I8 => integers::<i8>(runtime, &sizes, a, b, out),
        DType::I32 => integers::<i32>(runtime, &sizes, a, b, out),
        DType::U32 => integers::<u32>(runtime, &sizes, a, b, out),
        DType::I64 => integers::<i64>(runtime, &sizes, a, b, out),
        d => Err(ErrorKind::Internal(format!("a product of {d}"))),
    }
}
fn floats<T: GemmElement + bytemuck::Pod>(runtime: &Runtime, s: &Sizes, a: &In<'_>, b: &In<'_>, out: &mut Out<'_>) -> Result<(), ErrorKind> {
    let plane = s.m * s.n;
    let out: &mut [T] = out.dense()?;
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
        product(runtime, inner, [s.m, s.n, s.k], a, b, c, &EpilogueProgram::default())?;
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
    epilogue: &EpilogueProgram<'_, T>,
) -> Result<(), ErrorKind> {
    if runtime.blas.multiply(&runtime.threads, batch, m, n, k, a, b, c)? {
        crate::trace::by(|| runtime.blas.name().into());
        if !epilogue.is_identity() {
            c.chunks_exact_mut(n).enumerate().for_each(|(row, values)| epilogue.apply(row / m, row % m, 0, values));
        }
        return Ok(());
    }
    crate::trace::by(|| format!("own {:?}", runtime.isa).to_lowercase());
    gemm(&runtime.threads, runtime.isa, batch, m, n, k, a, b, c, epilogue)
}
fn integers<T: Number<Wide = i64>>(runtime: &Runtime, s: &Sizes, a: &In<'_>, b: &In<'_>, out: &mut Out<'_>) -> Result<(), ErrorKind> {
    let out: &mut [T] = out.dense()?;
    let (x, y) = (a.elements::<T>()?, b.elements::<T>()?);
    let strides = |i: &In<'_>| (i.layout.offset as isize, i.layout.strides[s.rank - 2], i.layout.strides[s.rank - 1]);
    let ((a0, a_row, a_column), (b0, b_row, b_column)) = (strides(a), strides(b));
    let rows = (64 * 1024 / (s.n * s.k).max(1)).max(1);
    runtime.threads.try_for_chunks_mut(out, rows * s.n, |task, out| {
        let mut acc = crate::scratch::filled(i64::ZERO, s.n)?;
        for (r, out) in out.chunks_mut(s.n).enumerate() {
            let row = task * rows + r;
            let (batch, i) = (row / s.m, row % s.m);
            let a_at = a0 + s.batch.offset(0, batch) + i as isize * a_row;
            let b_at = b0 + s.batch.offset(1, batch);
            acc.fill(0);
            for p in 0..s.k as isize {
                let v = x[(a_at + p * a_column) as usize].wide();
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = acc.plus(v.times(y[(b_at + p * b_row + j as isize * b_column) as usize].wide()));
                }
            }
            out.iter_mut().zip(&acc).for_each(|(o, &v)| *o = T::narrow(v));
        }
        Ok(())
    })
}
