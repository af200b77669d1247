//! Convolutions of 8-bit codes. Each sample of x becomes codes; windows of them are gathered as rows, channels innermost, and
//! multiplied as bytes by the weight, which is packed once. Few output channels a group are computed tap by tap. Sums are exact and the
//! f32 steps are those of the body: the bits are the body's.
//!
//! Groups of columns, other numbers of bits and inputs that stay numbers have the body.
use super::{
    known,
    quantized_linear::{CodedLayer, CodedRows, CodedWeight, Coding, RowCode},
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::{
        bytes::{
            self, BlockScratch, ByteBlocks, ByteRows, PackScratch, SumsPart,
            micro::{BLOCK, ByteContext, QUAD},
            multiply_blocks,
            pack::pack_blocks,
            packed_stride, sum_columns,
        },
        pack::MatrixView,
    },
    isa::ByteIsa,
    operand::internal,
    scratch::{ScratchVec, filled},
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    Composite, DType, ErrorKind, Shape, TensorType,
    composite::packed::{Activations, MOST_COLUMNS, QuantizedConv},
    kernel::FaultWord,
    op::ConvSpec,
};

pub(super) struct QuantizedConvKernel;
/// Places whose windows are gathered at a time.
const PLACES: usize = 48;
/// Output channels of a group from which on windows are gathered.
const LEAST_GATHERED: usize = 8;

/// The sizes of a convolution over three axes, of which the first may be of size 1.
#[derive(Clone, Copy)]
struct ConvSizes {
    channels: usize,
    made_channels: usize,
    groups: usize,
    x: [usize; 3],
    kernel: [usize; 3],
    made: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
    /// before each axis
    padding: [usize; 3],
    /// sizes of x with what is padded
    padded: [usize; 3],
}
impl ConvSizes {
    fn new(conv: &ConvSpec, x: &Shape, weight: &Shape, made: &Shape) -> ConvSizes {
        let axes = conv.spatial();
        let three = |of: &dyn Fn(usize) -> usize, missing: usize| std::array::from_fn(|k| if k + axes < 3 { missing } else { of(k + axes - 3) });
        let (before, after) = (three(&|k| conv.padding[k].0, 0), three(&|k| conv.padding[k].1, 0));
        let x_sizes: [usize; 3] = three(&|k| x[2 + k], 1);
        ConvSizes {
            channels: x[1],
            made_channels: weight[0],
            groups: conv.groups,
            x: x_sizes,
            kernel: three(&|k| weight[2 + k], 1),
            made: three(&|k| made[2 + k], 1),
            stride: three(&|k| conv.stride[k], 1),
            dilation: three(&|k| conv.dilation[k], 1),
            padding: before,
            padded: std::array::from_fn(|k| before[k] + x_sizes[k] + after[k]),
        }
    }
    fn places(&self) -> usize {
        self.made.iter().product()
    }
    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
    fn group_channels(&self) -> usize {
        self.channels / self.groups
    }
    fn group_made(&self) -> usize {
        self.made_channels / self.groups
    }
    /// Elements of a window of one group.
    fn window(&self) -> usize {
        self.group_channels() * self.taps()
    }
}

impl CpuKernel for QuantizedConvKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        let Some(layer) = known::<QuantizedConv>(composite) else { return false };
        let [inputs @ .., DType::F32] = dtypes else { return false };
        let Ok(of) = layer.codes.roles(inputs) else { return false };
        let window: usize = layer.weight[1..].iter().product();
        let packing = layer.codes.packing;
        let of_bytes = packing.bits == 8 && packing.group.is_none() && layer.codes.activations != Activations::Float;
        of_bytes && window <= MOST_COLUMNS && *of.x == DType::F32
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let layer = known::<QuantizedConv>(composite).ok_or_else(|| internal("a convolution of codes of another make"))?;
        let (x, shape): (&[f32], Shape) = (operands.input(0)?, operands.shape(0)?);
        let (window, rows) = (layer.weight[1..].iter().product(), layer.weight[0]);
        let mut own = <[ScratchVec<f32>; 2]>::default();
        let CodedLayer { weight, by } = CodedLayer::new(&layer.codes, [rows, window], operands, &mut own, &runtime.threads)?;
        let ty = |shape| TensorType { shape, dtype: DType::F32 };
        let made = layer.conv.infer(&[ty(shape), ty(layer.weight)])?;
        let sizes = ConvSizes::new(&layer.conv, &shape, &layer.weight, &made);
        let by = by.ok_or_else(|| internal("a convolution of numbers"))?;
        let out = operands.output::<f32>(0)?;
        if out.is_empty() {
            return Ok(());
        }
        let sample = x.len() / shape[0];
        if sample == 0 || !weight.fits() || out.len() != shape[0] * rows * sizes.places() || sample != sizes.channels * sizes.x.iter().product::<usize>() {
            return Err(internal("a convolution of codes whose operands do not fit"));
        }
        PackScratch::with(|scratch| {
            let bytes = scratch.rows.take((shape[0] + 1) * packed_stride(sample))?;
            let samples = CodedRows::new(runtime, x, sample, Coding { by, signed: false }, bytes)?;
            CodedConv { runtime, context: bytes::context(ByteIsa::of(runtime.isa)), sizes, weight: &weight, samples }.run(out)
        })
    }
}

/// A convolution of codes.
struct CodedConv<'a> {
    runtime: &'a Runtime,
    context: &'static ByteContext,
    sizes: ConvSizes,
    weight: &'a CodedWeight<'a>,
    /// samples of x
    samples: CodedRows<'a>,
}
impl CodedConv<'_> {
    fn run(&self, out: &mut [f32]) -> Result<(), ErrorKind> {
        let sizes = &self.sizes;
        let gathered = sizes.group_made() >= LEAST_GATHERED;
        let packed = if gathered { Some(PackedKernel::new(self.context, sizes, self.weight)?) } else { None };
        let per_sample = sizes.made_channels * sizes.places();
        self.runtime.threads.try_for_chunks_mut(out, per_sample, |index, out| {
            let code = self.samples.rows[index];
            let padded = self.padded(index, &code, gathered)?;
            match &packed {
                Some(packed) => self.by_windows(packed, &code, &padded, out),
                None => self.by_taps(&code, &padded, out),
            }
        })
    }
    /// Codes of a sample with the code of 0 around them: `[groups, depth, height, width, channels of a group]` where channels are
    /// innermost, else `[channels, depth, height, width]`.
    fn padded(&self, index: usize, code: &RowCode, innermost: bool) -> Result<ScratchVec<u8>, ErrorKind> {
        let sizes = &self.sizes;
        let codes = &self.samples.bytes[index * self.samples.stride..];
        let ([depth, height, width], [_, high, wide]) = (sizes.x, sizes.padded);
        let (inner, area) = (sizes.group_channels(), sizes.padded.iter().product::<usize>());
        // A vector of bytes may begin at the last.
        let mut all = filled(code.zero as u8, sizes.channels * area + 64)?;
        for channel in 0..sizes.channels {
            let (first, step) = if innermost { (channel / inner * inner * area + channel % inner, inner) } else { (channel * area, 1) };
            for d in 0..depth {
                for y in 0..height {
                    let from = &codes[((channel * depth + d) * height + y) * width..][..width];
                    let to = ((d + sizes.padding[0]) * high + y + sizes.padding[1]) * wide + sizes.padding[2];
                    let to = &mut all[first + to * step..];
                    if step == 1 {
                        to[..width].copy_from_slice(from);
                    } else {
                        to.iter_mut().step_by(step).zip(from).for_each(|(to, &code)| *to = code);
                    }
                }
            }
        }
        Ok(all)
    }
    fn by_windows(&self, packed: &PackedKernel, code: &RowCode, padded: &[u8], out: &mut [f32]) -> Result<(), ErrorKind> {
        let sizes = &self.sizes;
        let (places, window, made) = (sizes.places(), sizes.window(), sizes.group_made());
        let (stride, area) = (packed_stride(window), sizes.padded.iter().product::<usize>());
        let (starts, zeros) = ([0i32; PLACES], [code.zero; PLACES]);
        let (mut rows, mut results, mut by_channel) = (filled(0u8, PLACES * stride)?, filled(0f32, PLACES * made)?, filled(0f32, PLACES * made)?);
        let mut scratch = BlockScratch::default();
        for group in 0..sizes.groups {
            let codes = &padded[group * sizes.group_channels() * area..];
            for first in (0..places).step_by(PLACES) {
                let count = PLACES.min(places - first);
                let mut sums = [0i32; PLACES];
                for (k, row) in rows.chunks_exact_mut(stride).enumerate().take(count) {
                    self.gather(first + k, codes, row);
                    if self.weight.zero_point.is_some() {
                        sums[k] = row[..window].iter().map(|&code| i32::from(code)).sum::<i32>() - code.zero * window as i32;
                    }
                }
                let a = ByteRows { bytes: &rows, stride, rows: count, starts: &starts, zeros: &zeros };
                multiply_blocks(self.context, a, packed.blocks(sizes, group), 0..made, &mut scratch, &mut |part: SumsPart<'_>| {
                    let rows = ScaledPlaces { weight: self.weight, first: group * made, scale: code.scale, of_x: &sums, part, results: &mut results, made };
                    dispatch(self.runtime.isa, rows);
                    Ok(())
                })?;
                transposed(&results[..count * made], made, &mut by_channel);
                for (channel, line) in by_channel.chunks_exact(count).enumerate().take(made) {
                    out[(group * made + channel) * places + first..][..count].copy_from_slice(line);
                }
            }
        }
        Ok(())
    }
    /// The window of a place as a row, channels innermost.
    fn gather(&self, place: usize, codes: &[u8], row: &mut [u8]) {
        let sizes = &self.sizes;
        let (inner, [_, high, wide], [kd, kh, kw]) = (sizes.group_channels(), sizes.padded, sizes.kernel);
        let [_, rows, columns] = sizes.made;
        let at = [place / (rows * columns), place / columns % rows, place % columns];
        let origin: [usize; 3] = std::array::from_fn(|k| at[k] * sizes.stride[k]);
        let together = if sizes.dilation[2] == 1 { kw } else { 1 };
        let mut runs = row.chunks_exact_mut(together * inner);
        for d in 0..kd {
            for y in 0..kh {
                let line = ((origin[0] + d * sizes.dilation[0]) * high + origin[1] + y * sizes.dilation[1]) * wide + origin[2];
                for x in (0..kw).step_by(together) {
                    if let Some(run) = runs.next() {
                        run.copy_from_slice(&codes[(line + x * sizes.dilation[2]) * inner..][..run.len()]);
                    }
                }
            }
        }
    }
    fn by_taps(&self, code: &RowCode, padded: &[u8], out: &mut [f32]) -> Result<(), ErrorKind> {
        let (sizes, weight) = (&self.sizes, self.weight);
        let mut sums = filled(0i32, sizes.places())?;
        for (channel, out) in out.chunks_exact_mut(sizes.places()).enumerate() {
            dispatch(self.runtime.isa, ChannelTaps { conv: self, channel, zero: code.zero, padded, sums: &mut sums });
            let scale = code.scale * weight.scale[channel];
            match weight.bias {
                Some(bias) => out.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = sum as f32 * scale + bias[channel]),
                None => out.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = sum as f32 * scale),
            }
        }
        Ok(())
    }
}
/// The weight as blocks of each group, channels innermost, with the sums of its columns.
struct PackedKernel {
    blocks: ScratchVec<i8>,
    column_sums: ScratchVec<i32>,
    /// from a group to the next
    stride: usize,
}
impl PackedKernel {
    fn new(context: &ByteContext, sizes: &ConvSizes, weight: &CodedWeight<'_>) -> Result<PackedKernel, ErrorKind> {
        let (inner, taps, window, made) = (sizes.group_channels(), sizes.taps(), sizes.window(), sizes.group_made());
        let mut lines = filled(0u8, sizes.made_channels * window)?;
        for (line, codes) in lines.chunks_exact_mut(window).zip(weight.bytes.chunks_exact(window)) {
            for (channel, codes) in codes.chunks_exact(taps).enumerate() {
                line[channel..].iter_mut().step_by(inner).zip(codes).for_each(|(to, &code)| *to = code);
            }
        }
        let stride = made.next_multiple_of(BLOCK) * window.next_multiple_of(QUAD);
        let (mut blocks, mut column_sums, mut scratch) = (filled(0i8, sizes.groups * stride)?, filled(0i32, sizes.made_channels)?, BlockScratch::default());
        let per_group = blocks.chunks_exact_mut(stride).zip(lines.chunks_exact(made * window)).zip(column_sums.chunks_exact_mut(made));
        for ((blocks, lines), sums) in per_group {
            let view = MatrixView { data: lines, base: 0, row_stride: 1, column_stride: window as isize };
            pack_blocks(&view, 0, made, window, weight.flip(), blocks);
            sum_columns(context, blocks, window, sums, &mut scratch)?;
        }
        Ok(PackedKernel { blocks, column_sums, stride })
    }
    fn blocks(&self, sizes: &ConvSizes, group: usize) -> ByteBlocks<'_> {
        let made = sizes.group_made();
        ByteBlocks {
            blocks: &self.blocks[group * self.stride..][..self.stride],
            column_sums: &self.column_sums[group * made..][..made],
            k: sizes.window(),
            n: made,
        }
    }
}
/// Results of some places and channels from their sums: `results[place][channel of the group]`.
struct ScaledPlaces<'s> {
    weight: &'s CodedWeight<'s>,
    /// the group's first channel
    first: usize,
    scale: f32,
    /// `Σ (code - zero)` of the windows, where the weight's codes count from something
    of_x: &'s [i32],
    part: SumsPart<'s>,
    results: &'s mut [f32],
    made: usize,
}
impl SimdKernel for ScaledPlaces<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ScaledPlaces { weight, first, scale, of_x, part: SumsPart { row, column, rows, columns, sums, stride }, results, made } = self;
        let channel = first + column;
        for (place, sums) in (row..row + rows).zip(sums.chunks_mut(stride)) {
            let sums = &mut sums[..columns];
            if weight.zero_point.is_some() {
                sums.iter_mut().enumerate().for_each(|(c, sum)| *sum = sum.wrapping_sub(of_x[place].wrapping_mul(weight.base(channel + c, 0))));
            }
            let out = &mut results[place * made + column..][..columns];
            let scaled = sums.iter().zip(&weight.scale[channel..]).map(|(&sum, &of_weight)| sum as f32 * (scale * of_weight));
            match weight.bias {
                Some(bias) => out.iter_mut().zip(scaled.zip(&bias[channel..])).for_each(|(to, (v, bias))| *to = v + bias),
                None => out.iter_mut().zip(scaled).for_each(|(to, v)| *to = v),
            }
        }
    }
}
/// The sums of one output channel at all places.
struct ChannelTaps<'s> {
    conv: &'s CodedConv<'s>,
    channel: usize,
    zero: i32,
    padded: &'s [u8],
    sums: &'s mut [i32],
}
impl SimdKernel for ChannelTaps<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ChannelTaps { conv, channel, zero, padded, sums } = self;
        let sizes = &conv.sizes;
        let ([_, high, wide], [kd, kh, kw], [_, rows, columns]) = (sizes.padded, sizes.kernel, sizes.made);
        let (area, inner) = (sizes.padded.iter().product::<usize>(), sizes.group_channels());
        let (base, window) = (conv.weight.base(channel, 0), sizes.window());
        let codes = &conv.weight.bytes[channel * window..][..window];
        let flip = conv.weight.flip();
        sums.fill(0);
        for (place, sums) in sums.chunks_exact_mut(columns).enumerate() {
            let (d, y) = (place / rows * sizes.stride[0], place % rows * sizes.stride[1]);
            let mut codes = codes.iter();
            for c in 0..inner {
                let channel = channel / sizes.group_made() * inner + c;
                for (a, b) in (0..kd).flat_map(|a| (0..kh).map(move |b| (a, b))) {
                    let line = channel * area + ((d + a * sizes.dilation[0]) * high + y + b * sizes.dilation[1]) * wide;
                    for x in 0..kw {
                        let Some(&code) = codes.next() else { return };
                        let factor = i32::from((code ^ flip) as i8) - base;
                        let from = &padded[line + x * sizes.dilation[2]..];
                        if sizes.stride[2] == 1 {
                            sums.iter_mut().zip(from).for_each(|(sum, &code)| *sum += (i32::from(code) - zero) * factor);
                        } else {
                            sums.iter_mut().zip(from.iter().step_by(sizes.stride[2])).for_each(|(sum, &code)| *sum += (i32::from(code) - zero) * factor);
                        }
                    }
                }
            }
        }
    }
}
/// `to[c][r] = from[r][c]` of rows of so many columns.
fn transposed(from: &[f32], columns: usize, to: &mut [f32]) {
    let rows = from.len() / columns;
    for (r, row) in from.chunks_exact(columns).enumerate() {
        row.iter().enumerate().for_each(|(c, &v)| to[c * rows + r] = v);
    }
}
