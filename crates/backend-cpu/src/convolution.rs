//! Convolutions: the three roles of core's spec as calls of `conv`; 16-bit floats go through f32 and round once.
use crate::{
    conv::{self, Behind, ConvShape},
    device::Runtime,
    ends::{self, Finish},
    gemm::Accumulator,
    map::loops::{convert, round_to_bf16},
    operand::{In, Out, cast, internal},
    scratch::{ScratchVec, filled},
};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    kernel::Step,
    op::{ConvRole, ConvSpec},
    product::Product,
};
use half::slice::HalfFloatSliceExt;
use std::sync::Arc;

/// Runs a Conv step.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, spec: &ConvSpec, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([a, b], [out]) = (inputs, outputs) else { return Err(internal("a convolution has two inputs and one output")) };
    if a.dtype != out.dtype || b.dtype != out.dtype {
        return Err(internal("a convolution of two dtypes"));
    }
    let shapes = [a.shape, b.shape, out.shape];
    let dtype = out.dtype;
    sums(runtime, spec, shapes, [a, b], dtype, out.dense_bytes()?, None)
}
/// Runs a forward convolution with ends: the epilogue where the sums are stored if the result is of their dtype, and over all
/// of them if not.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn with_ends(
    runtime: &Runtime,
    step: &Step<'_>,
    product: &Product,
    spec: &Arc<ConvSpec>,
    inputs: &[In<'_>],
    outputs: &mut [Out<'_>],
) -> Result<(), ErrorKind> {
    let [out] = outputs else { return Err(internal("a convolution has one output")) };
    let programs = ends::programs(step.kernel, product, runtime.isa)?;
    let made = ends::operands(runtime, step, product, programs, inputs, |_| false)?;
    let [a, b] = [made.first(), made.second()];
    if a.dtype != product.dtype || b.dtype != product.dtype || out.dtype != product.epilogue.dtype() {
        return Err(internal("a convolution of two dtypes"));
    }
    let types = [&a, &b].map(|i| adamant_runtime::TensorType { shape: i.shape, dtype: i.dtype });
    let shape = adamant_runtime::Op::Conv(spec.clone()).infer_first(&types)?.shape;
    if shape.elements() != out.shape.elements() {
        return Err(internal("a convolution of another size"));
    }
    if shape.elements() == 0 {
        return Ok(());
    }
    let shapes = [a.shape, b.shape, shape];
    let Some(program) = &programs.epilogue else { return sums(runtime, spec, shapes, [&a, &b], product.dtype, out.dense_bytes()?, None) };
    let (dtype, others) = (product.dtype, made.others);
    let apart = out.dtype != dtype || !matches!(dtype, DType::F32 | DType::F64) || others.iter().any(|i| i.in_place.is_some());
    let reads = ends::reads(&out.shape, dtype, others, apart);
    let finish = Finish::new(runtime.isa, program, &product.epilogue, &out.shape, &reads, ends::arguments(step, product, 2), step.fault)?;
    if !apart {
        return sums(runtime, spec, shapes, [&a, &b], dtype, out.dense_bytes()?, Some(&finish));
    }
    finish.behind(runtime, shape.elements(), out.dense_bytes()?, |bytes| sums(runtime, spec, shapes, [&a, &b], dtype, bytes, None))
}
/// The sums, and the epilogue where they are stored if there is one, which is there for f32 and f64.
fn sums(
    runtime: &Runtime,
    spec: &ConvSpec,
    shapes: [Shape; 3],
    [a, b]: [&In<'_>; 2],
    dtype: DType,
    out: &mut [u8],
    finish: Option<&Finish<'_>>,
) -> Result<(), ErrorKind> {
    match dtype {
        DType::F32 => roles::<f32>(runtime, spec, shapes, a.dense()?, b.dense()?, cast(out)?, finish, false),
        DType::F64 => roles::<f64>(runtime, spec, shapes, a.dense()?, b.dense()?, cast(out)?, finish, false),
        DType::BF16 | DType::F16 => {
            let (x, y) = (widen(runtime, a)?, widen(runtime, b)?);
            let mut sums = filled(0f32, shapes[2].elements())?;
            roles::<f32>(runtime, spec, shapes, &x, &y, &mut sums, None, dtype == DType::BF16)?;
            if dtype == DType::BF16 {
                round_to_bf16(runtime.isa, &sums, cast(out)?);
            } else {
                cast::<half::f16>(out)?.convert_from_f32_slice(&sums);
            }
            Ok(())
        }
        d => Err(ErrorKind::Internal(format!("a convolution of {d}"))),
    }
}
fn widen(runtime: &Runtime, i: &In<'_>) -> Result<ScratchVec<f32>, ErrorKind> {
    let mut out = filled(0f32, i.shape.elements())?;
    if i.dtype == DType::BF16 {
        convert(runtime.isa, i.dense::<u16>()?, &mut out, |v| f32::from_bits((v as u32) << 16));
    } else {
        i.dense::<half::f16>()?.convert_to_f32_slice(&mut out);
    }
    Ok(out)
}
#[allow(clippy::too_many_arguments)]
fn roles<T: Accumulator + bytemuck::Pod>(
    runtime: &Runtime,
    spec: &ConvSpec,
    shapes: [Shape; 3],
    a: &[T],
    b: &[T],
    out: &mut [T],
    finish: Option<&Finish<'_>>,
    are_bf16: bool,
) -> Result<(), ErrorKind> {
    let (x, w) = match spec.role {
        ConvRole::Forward => (shapes[0], shapes[1]),
        ConvRole::InputGrad => (shapes[2], shapes[1]),
        ConvRole::WeightGrad => (shapes[0], shapes[2]),
    };
    if out.is_empty() {
        return Ok(());
    }
    if a.is_empty() || b.is_empty() {
        // A sum over nothing.
        out.fill(T::default());
        return finish.map_or(Ok(()), |finish| finish.in_place(0, bytemuck::cast_slice_mut(out)));
    }
    let shape = ConvShape::new(x[0], x[1], w[0], spec.groups, &x[2..], &w[2..], &spec.stride, &spec.padding, &spec.dilation).map_err(ErrorKind::Internal)?;
    let shape = if are_bf16 { shape.of_bf16() } else { shape };
    let (threads, isa) = (&runtime.threads, runtime.isa);
    match spec.role {
        ConvRole::Forward => match finish {
            Some(finish) => {
                let behind: Behind<'_, T> = &|at, values| finish.in_place(at, bytemuck::cast_slice_mut(values));
                conv::forward_with(threads, isa, &shape, a, b, out, Some(behind))
            }
            None => conv::forward(threads, isa, &shape, a, b, out),
        },
        ConvRole::InputGrad => conv::input_grad(threads, isa, &shape, a, b, out),
        ConvRole::WeightGrad => conv::weight_grad(threads, isa, &shape, a, b, out),
    }
}
