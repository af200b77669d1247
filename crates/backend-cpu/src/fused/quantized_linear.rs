//! Linear layers of codes in one pass over the codes as they are stored. Where x stays numbers, the weight's codes become numbers
//! strip by strip ([`numbers`]). Where x becomes codes ([`rows`]), these are multiplied as bytes and the sums, which are exact, are
//! scaled while they are in cache: those of whole rows ([`mod@whole`]), or of each group of columns ([`grouped`]), where codes of fewer
//! than 8 bits become bytes on the way. The f32 steps are those of the body, in its order: the bits are the body's.
mod few;
mod grouped;
mod numbers;
mod rows;
mod weight;
mod whole;

use super::known;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::{
        GemmElement,
        bytes::{self, PackScratch, direct::MOST_LINE_ROWS, groups::CodedGroups, packed_stride},
        context::MatrixElement,
    },
    isa::ByteIsa,
    operand::internal,
    scratch::{ScratchVec, filled},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind, bf16,
    composite::packed::{Activations, CodeLevels, CodedInputs, QuantizedLinear},
    f16,
    kernel::FaultWord,
};
use grouped::GroupedProduct;
pub(super) use rows::{CodedRows, Coding, RowCode, RowScale};
pub(super) use weight::CodedWeight;
use whole::CodedProduct;

pub(super) struct QuantizedLinearKernel;
/// Rows of x up to which the memory bounds a product.
const FEW_ROWS: usize = 4;

impl CpuKernel for QuantizedLinearKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        let Some(layer) = known::<QuantizedLinear>(composite) else { return false };
        let [inputs @ .., result] = dtypes else { return false };
        let Ok(of) = layer.roles(inputs) else { return false };
        // Sums of wide rows leave 32 bits.
        let fits = layer.activations == Activations::Float || !layer.wide;
        fits && of.x == result && matches!(result, DType::F32 | DType::F16 | DType::BF16) && matches!(of.scale, DType::F32 | DType::F16)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let layer = known::<QuantizedLinear>(composite).ok_or_else(|| internal("a layer of codes of another make"))?;
        match operands.dtype(0)? {
            DType::F32 => {
                let x = operands.input(0)?;
                run(layer, operands, runtime, x, |operands, layer| layer(operands.output(0)?))
            }
            DType::F16 => rounded::<f16>(layer, operands, runtime),
            _ => rounded::<bf16>(layer, operands, runtime),
        }
    }
}
/// A layer whose x and result have half precision: all is computed in f32 and rounded once.
fn rounded<T: GemmElement<Acc = f32> + bytemuck::AnyBitPattern + bytemuck::NoUninit>(
    layer: &QuantizedLinear,
    operands: &mut KernelOperands<'_, '_, '_>,
    runtime: &Runtime,
) -> Result<(), ErrorKind> {
    let halves: &[T] = operands.input(0)?;
    let mut x = filled(0f32, halves.len())?;
    T::widen(halves, &mut x);
    run(layer, operands, runtime, &x, |operands, layer| {
        let out = operands.output::<T>(0)?;
        let mut numbers = filled(0f32, out.len())?;
        layer(&mut numbers)?;
        T::narrow(runtime.isa, &numbers, out);
        Ok(())
    })
}
/// Numbers of an input in f32.
fn widened<'a>(operands: &KernelOperands<'_, 'a, '_>, k: usize, own: &'a mut ScratchVec<f32>, threads: &Threads) -> Result<&'a [f32], ErrorKind> {
    const TASK: usize = 32 << 10;
    let dtype = operands.dtype(k)?;
    if dtype == DType::F32 {
        return operands.input(k);
    }
    fn all<T: MatrixElement<Acc = f32> + Sync>(data: &[T], own: &mut ScratchVec<f32>, threads: &Threads) -> Result<(), ErrorKind> {
        *own = filled(0f32, data.len())?;
        threads.for_parts(own.chunks_mut(TASK).zip(data.chunks(TASK)), |_, (to, from)| T::widen(from, to));
        Ok(())
    }
    if dtype == DType::F16 {
        all::<f16>(operands.input(k)?, own, threads)?
    } else {
        all::<bf16>(operands.input(k)?, own, threads)?
    }
    Ok(own)
}
/// The weight of a layer, and how its input becomes codes, if it does.
pub(super) struct CodedLayer<'a> {
    pub(super) weight: CodedWeight<'a>,
    pub(super) by: Option<RowScale>,
}
impl<'a> CodedLayer<'a> {
    /// Of inputs in the order of their roles. What has another float dtype than f32 is widened into `own`, but for scales that are kept
    /// as `halves`.
    ///
    /// # Errors
    /// `OutOfMemory`; inputs that are not there.
    pub(super) fn new(
        codes: &CodedInputs,
        levels: CodeLevels,
        [rows, columns]: [usize; 2],
        operands: &KernelOperands<'_, 'a, '_>,
        own: &'a mut [ScratchVec<f32>; 2],
        threads: &Threads,
        halves: bool,
    ) -> Result<CodedLayer<'a>, ErrorKind> {
        let places: smallvec::SmallVec<[usize; 8]> = (0..operands.inputs()).collect();
        let of = codes.roles(&places)?;
        let [own_scale, own_bias] = own;
        let halves: Option<&[f16]> = if halves && operands.dtype(*of.scale)? == DType::F16 { Some(operands.input(*of.scale)?) } else { None };
        let scale = if halves.is_some() { &[] } else { widened(operands, *of.scale, own_scale, threads)? };
        let bias = match of.bias {
            Some(bias) => Some(widened(operands, *bias, own_bias, threads)?),
            None => None,
        };
        let zero_point: Option<&[u8]> = of.zero_point.map(|z| operands.input(*z)).transpose()?;
        let by = match (codes.activations, of.given) {
            (Activations::PerToken { symmetric: true }, _) => Some(RowScale::Symmetric),
            (Activations::PerToken { symmetric: false }, _) => Some(RowScale::Affine),
            (Activations::Given, Some((scale, zero))) => {
                let (scale, zero): (&[f32], &[i32]) = (operands.input(*scale)?, operands.input(*zero)?);
                let one = || internal("an input's scale or zero point without a number");
                Some(RowScale::Given { scale: *scale.first().ok_or_else(one)?, zero: (*zero.first().ok_or_else(one)?).clamp(0, 255) })
            }
            _ => None,
        };
        let weight = CodedWeight { packing: codes.packing, levels, bytes: operands.input(*of.codes)?, scale, halves, zero_point, bias, rows, columns };
        Ok(CodedLayer { weight, by })
    }
}
/// Reads a layer's inputs by their roles; `write` is given what computes the layer into f32.
fn run<'o>(
    layer: &QuantizedLinear,
    operands: &mut KernelOperands<'_, 'o, '_>,
    runtime: &Runtime,
    x: &[f32],
    write: impl FnOnce(&mut KernelOperands<'_, 'o, '_>, &dyn Fn(&mut [f32]) -> Result<(), ErrorKind>) -> Result<(), ErrorKind>,
) -> Result<(), ErrorKind> {
    let columns = operands.shape(0)?.last().copied().ok_or_else(|| internal("a layer of codes of a number"))?;
    let rows = operands.shape(2)?.first().copied().ok_or_else(|| internal("scales of a number"))?;
    let mut own = <[ScratchVec<f32>; 2]>::default();
    let halves = widens_by_rows(layer, ByteIsa::of(runtime.isa), x.len() / columns.max(1), columns);
    let CodedLayer { weight, by } = CodedLayer::new(&layer.coded_inputs(), layer.levels, [rows, columns], operands, &mut own, &runtime.threads, halves)?;
    write(operands, &|out| {
        if out.is_empty() || columns == 0 {
            return Ok(());
        }
        let m = x.len() / columns;
        if !weight.fits() || out.len() != m * rows {
            return Err(internal("a layer of codes whose operands do not fit"));
        }
        match by {
            None if few::takes(&layer.packing, layer.levels, columns, m) => few::of_numbers(runtime, x, &weight, out),
            None => numbers::product(runtime, x, &weight, out),
            Some(by) if weight.groups() == 1 && layer.packing.bits == 8 => whole(runtime, x, by, &weight, out),
            Some(by) => GroupedProduct::run(runtime, x, by, &weight, out),
        }
    })
}
/// Is the layer computed by a kernel that widens the scales of some rows at a time?
fn widens_by_rows(layer: &QuantizedLinear, isa: ByteIsa, m: usize, columns: usize) -> bool {
    let groups = layer.packing.groups(columns);
    let codes = layer.activations != Activations::Float;
    groups > 1 && (few::takes(&layer.packing, layer.levels, columns, m) || codes && CodedGroups::suit(isa, columns / groups, layer.packing.bits as usize))
}
/// A layer of 8 bits with one scale a row.
fn whole(runtime: &Runtime, x: &[f32], by: RowScale, weight: &CodedWeight<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
    let m = x.len() / weight.columns;
    let by_lines = m <= MOST_LINE_ROWS;
    // Blocks have all codes signed.
    let base = if by_lines { 0 } else { 128 };
    let mut from_zero_point = filled(0i32, weight.zero_point.map_or(0, <[u8]>::len))?;
    from_zero_point.iter_mut().zip(weight.zero_point.unwrap_or_default()).for_each(|(to, &z)| *to = base - i32::from(z));
    let context = bytes::context(ByteIsa::of(runtime.isa));
    PackScratch::with(|scratch| {
        // Signed codes need no sums of the weight's rows, but where bytes are not widened their products take a step more.
        let signed = matches!(by, RowScale::Symmetric) && by_lines && (m <= FEW_ROWS || context.width == 2);
        let stride = packed_stride(weight.columns);
        let rows = CodedRows::new(runtime, x, weight.columns, Coding { by, signed }, scratch.rows.take((m + 1) * stride)?)?;
        CodedProduct { runtime, context, weight, from_zero_point: &from_zero_point, rows, by_lines }.run(out)
    })
}
