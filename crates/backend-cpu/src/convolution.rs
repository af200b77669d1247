//! Convolutions: the three roles of core's spec as calls of `conv`; 16-bit floats go through f32 and round once.
use crate::{
    conv::{self, ConvShape},
    device::Runtime,
    gemm::Accumulator,
    map::loops::convert,
    operand::{In, Out, internal},
    scratch::{Room, filled},
};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    op::{ConvRole, ConvSpec},
};
use half::slice::HalfFloatSliceExt;

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
    match out.dtype {
        DType::F32 => roles::<f32>(runtime, spec, shapes, a.dense()?, b.dense()?, out.dense()?),
        DType::F64 => roles::<f64>(runtime, spec, shapes, a.dense()?, b.dense()?, out.dense()?),
        DType::BF16 | DType::F16 => {
            let (x, y) = (widen(runtime, a)?, widen(runtime, b)?);
            let mut sums = filled(0f32, out.shape.elements())?;
            roles::<f32>(runtime, spec, shapes, &x, &y, &mut sums)?;
            if out.dtype == DType::BF16 {
                let to: &mut [u16] = out.dense()?;
                convert(runtime.isa, &sums, to, |v| (crate::map::loops::to_bf16(v).to_bits() >> 16) as u16);
            } else {
                out.dense::<half::f16>()?.convert_from_f32_slice(&sums);
            }
            Ok(())
        }
        d => Err(ErrorKind::Internal(format!("a convolution of {d}"))),
    }
}
fn widen(runtime: &Runtime, i: &In<'_>) -> Result<Room<f32>, ErrorKind> {
    let mut out = filled(0f32, i.shape.elements())?;
    if i.dtype == DType::BF16 {
        convert(runtime.isa, i.dense::<u16>()?, &mut out, |v| f32::from_bits((v as u32) << 16));
    } else {
        i.dense::<half::f16>()?.convert_to_f32_slice(&mut out);
    }
    Ok(out)
}
fn roles<T: Accumulator>(runtime: &Runtime, spec: &ConvSpec, shapes: [Shape; 3], a: &[T], b: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
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
        return Ok(());
    }
    let shape = ConvShape::new(x[0], x[1], w[0], spec.groups, &x[2..], &w[2..], &spec.stride, &spec.padding, &spec.dilation).map_err(ErrorKind::Internal)?;
    let (threads, isa) = (&runtime.threads, runtime.isa);
    match spec.role {
        ConvRole::Forward => conv::forward(threads, isa, &shape, a, b, out),
        ConvRole::InputGrad => conv::input_grad(threads, isa, &shape, a, b, out),
        ConvRole::WeightGrad => conv::weight_grad(threads, isa, &shape, a, b, out),
    }
}
