//! Convolutions: the three roles of core's spec as calls of `conv`; 16-bit floats go through f32 and round once.
use crate::{
    conv::{self, Behind, ConvShape},
    device::Runtime,
    ends::{self, Finish},
    fused::rows::{StoredElement, widened},
    gemm::Accumulator,
    map::loops::round_to_bf16,
    operand::{In, Out, cast, internal},
    scratch::{ScratchVec, filled},
    threads::Threads,
};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    kernel::Step,
    op::{ConvRole, ConvSpec},
    product::Product,
};
use half::{bf16, f16, slice::HalfFloatSliceExt};
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
    let widens = |dtype| product.dtype == DType::F32 && matches!(dtype, DType::BF16 | DType::F16);
    let made = ends::operands(runtime, step, product, programs, inputs, widens)?;
    let [a, b] = [made.first(), made.second()];
    if [&a, &b].iter().any(|i| i.dtype != product.dtype && !widens(i.dtype)) || out.dtype != product.epilogue.dtype() {
        return Err(internal("a convolution of two dtypes"));
    }
    let types = [&a, &b].map(|i| adamant_runtime::TensorType { shape: i.shape, dtype: product.dtype });
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
/// The sums, and the epilogue where they are stored if there is one, which is there for f32 and f64. Operands of f32's sums may be of 16 bits.
fn sums(
    runtime: &Runtime,
    spec: &ConvSpec,
    shapes: [Shape; 3],
    [a, b]: [&In<'_>; 2],
    dtype: DType,
    out: &mut [u8],
    finish: Option<&Finish<'_>>,
) -> Result<(), ErrorKind> {
    let are_bf16 = a.dtype == DType::BF16 && b.dtype == DType::BF16;
    match dtype {
        DType::F64 => return roles::<f64>(runtime, spec, shapes, a.dense()?, b.dense()?, cast(out)?, finish, false),
        DType::F32 if spec.role == ConvRole::WeightGrad && a.dtype == b.dtype && a.dtype != dtype && finish.is_none() => {
            let Some(shape) = conv_shape(spec, shapes)? else {
                out.fill(0);
                return Ok(());
            };
            let (threads, isa) = (&runtime.threads, runtime.isa);
            return if are_bf16 {
                conv::weight_grad::<bf16>(threads, isa, &shape.of_bf16(), a.dense()?, b.dense()?, cast(out)?)
            } else {
                conv::weight_grad::<f16>(threads, isa, &shape, a.dense()?, b.dense()?, cast(out)?)
            };
        }
        DType::F32 => {}
        DType::BF16 if spec.role != ConvRole::WeightGrad => return by_images::<bf16>(runtime, spec, shapes, [a, b], cast(out)?),
        DType::F16 if spec.role != ConvRole::WeightGrad => return by_images::<f16>(runtime, spec, shapes, [a, b], cast(out)?),
        DType::BF16 | DType::F16 => {
            let mut wide = filled(0f32, shapes[2].elements())?;
            sums(runtime, spec, shapes, [a, b], DType::F32, bytemuck::cast_slice_mut(&mut wide), None)?;
            if dtype == DType::BF16 {
                round_to_bf16(runtime.isa, &wide, cast(out)?);
            } else {
                cast::<f16>(out)?.convert_from_f32_slice(&wide);
            }
            return Ok(());
        }
        d => return Err(ErrorKind::Internal(format!("a convolution of {d}"))),
    }
    let mut scratch = <[ScratchVec<f32>; 2]>::default();
    let [of_a, of_b] = &mut scratch;
    roles::<f32>(runtime, spec, shapes, floats(runtime, a, of_a)?, floats(runtime, b, of_b)?, cast(out)?, finish, are_bf16)
}
/// An operand as f32, in `scratch` if memory holds 16 bits.
fn floats<'a>(runtime: &Runtime, i: &'a In<'_>, scratch: &'a mut ScratchVec<f32>) -> Result<&'a [f32], ErrorKind> {
    match i.dtype {
        DType::BF16 => widened::<bf16>(runtime.isa, i.dense()?, scratch),
        DType::F16 => widened::<f16>(runtime.isa, i.dense()?, scratch),
        _ => i.dense(),
    }
}
/// The roles whose images know nothing of each other, of 16 bits: some images at a time are widened, multiplied and rounded, so that no
/// more than these lie in memory as f32. Their sums do not depend on how many they are.
fn by_images<M: StoredElement<Real = f32>>(
    runtime: &Runtime,
    spec: &ConvSpec,
    shapes: [Shape; 3],
    [a, b]: [&In<'_>; 2],
    out: &mut [M],
) -> Result<(), ErrorKind> {
    /// Elements that are computed with at a time.
    const TOGETHER: usize = 1 << 17;
    let Some(shape) = conv_shape(spec, shapes)? else {
        out.fill(M::zeroed());
        return Ok(());
    };
    let (threads, isa) = (&runtime.threads, runtime.isa);
    let (source, weights): (&[M], &[M]) = (a.dense()?, b.dense()?);
    let mut scratch = ScratchVec::default();
    let weights = widened(isa, weights, &mut scratch)?;
    let (of_source, of_target) = (source.len() / shape.batch, out.len() / shape.batch);
    let shape = if a.dtype == DType::BF16 { shape.of_bf16() } else { shape };
    // As many as a thread would compute at a time, some times over; but a few parts for each thread.
    let block = ConvShape::images_of_a_block(shapes[2][2..].iter().product());
    let images = (TOGETHER / (block * of_source.max(of_target)).max(1)).max(1) * block;
    let images = images.min(shape.batch.div_ceil(if threads.count() > 1 { 2 * threads.count() } else { 1 }));
    let some = |threads: &Threads, index: usize, out: &mut [M]| {
        let (first, count) = (index * images, out.len() / of_target);
        let (mut read, mut sums) = (ScratchVec::default(), filled(0f32, out.len())?);
        let source = widened(isa, &source[first * of_source..][..count * of_source], &mut read)?;
        let shape = shape.clone().of_images(count);
        let mut computed = Ok(());
        M::write(isa, out, &mut sums, |out| {
            computed = match spec.role {
                ConvRole::InputGrad => conv::input_grad(threads, isa, &shape, source, weights, out),
                _ => conv::forward(threads, isa, &shape, source, weights, out),
            }
        });
        computed
    };
    // Few images: all threads at each.
    if shape.batch < threads.count() {
        return out.chunks_mut(images * of_target).enumerate().try_for_each(|(index, out)| some(threads, index, out));
    }
    threads.try_for_chunks_mut(out, images * of_target, |index, out| some(Threads::alone(), index, out))
}
/// The sizes; none where nothing is computed or summed over.
fn conv_shape(spec: &ConvSpec, shapes: [Shape; 3]) -> Result<Option<ConvShape>, ErrorKind> {
    let (x, w) = match spec.role {
        ConvRole::Forward => (shapes[0], shapes[1]),
        ConvRole::InputGrad => (shapes[2], shapes[1]),
        ConvRole::WeightGrad => (shapes[0], shapes[2]),
    };
    if shapes.iter().any(|shape| shape.elements() == 0) {
        return Ok(None);
    }
    let shape = ConvShape::new(x[0], x[1], w[0], spec.groups, &x[2..], &w[2..], &spec.stride, &spec.padding, &spec.dilation);
    shape.map(Some).map_err(ErrorKind::Internal)
}
#[allow(clippy::too_many_arguments)]
fn roles<T: Accumulator + StoredElement<Real = T>>(
    runtime: &Runtime,
    spec: &ConvSpec,
    shapes: [Shape; 3],
    a: &[T],
    b: &[T],
    out: &mut [T],
    finish: Option<&Finish<'_>>,
    are_bf16: bool,
) -> Result<(), ErrorKind> {
    let Some(shape) = conv_shape(spec, shapes)? else {
        // Nothing, or sums over nothing.
        out.fill(T::default());
        return finish.filter(|_| !out.is_empty()).map_or(Ok(()), |finish| finish.in_place(0, bytemuck::cast_slice_mut(out)));
    };
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
