//! Convolutions of 8-bit codes. Each sample of x becomes codes, which are laid out so that the quads of adjacent windows are adjacent
//! ([`layout`], [`planes`]): rows of the weight ([`mod@kernel`]) are multiplied with them where they lie, and no window is gathered. Sums are
//! exact and the f32 steps are those of the body: the bits are the body's.
//!
//! Groups of columns, other numbers of bits and inputs that stay numbers have the body.
mod kernel;
mod layout;
mod planes;

use super::{
    known,
    quantized_linear::{CodedLayer, CodedRows, CodedWeight, Coding, RowCode, RowScale},
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::bytes::{
        self, PackScratch, is_serial,
        micro::{ByteContext, QUAD},
        packed_stride,
    },
    isa::ByteIsa,
    operand::internal,
    scratch::{ScratchVec, filled},
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind, Shape, TensorType,
    composite::packed::{Activations, CodeLevels, MOST_COLUMNS, QuantizedConv},
    kernel::FaultWord,
};
use kernel::KernelRows;
use layout::{ConvSizes, PlaceRun, PlaneLayout};
use planes::{CodedSamples, QuadPlanes};

pub(super) struct QuantizedConvKernel;
/// Places whose results are made at a time.
const PLACES: usize = 64;
/// Elements of x that become codes together.
const CODED: usize = 8192;
/// The most rows of a tile.
const ROWS: usize = 6;

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
        let CodedLayer { weight, by } = CodedLayer::new(&layer.codes, CodeLevels::Even, [rows, window], operands, &mut own, &runtime.threads, false)?;
        let ty = |shape| TensorType { shape, dtype: DType::F32 };
        let made = layer.conv.infer(&[ty(shape), ty(layer.weight)])?;
        let sizes = ConvSizes::new(&layer.conv, &shape, &layer.weight, &made);
        let by = by.ok_or_else(|| internal("a convolution of numbers"))?;
        let out = operands.output::<f32>(0)?;
        if out.is_empty() {
            return Ok(());
        }
        let sample = sizes.channels * sizes.area();
        if sample == 0 || !weight.fits() || out.len() != shape[0] * rows * sizes.places() || x.len() != shape[0] * sample || sizes.window() != window {
            return Err(internal("a convolution of codes whose operands do not fit"));
        }
        let context = bytes::context(ByteIsa::of(runtime.isa));
        // One sample is shared out by its channels, which go together in whole tiles.
        let alone = runtime.threads.count() == 1 || is_serial(2, (out.len() / shape[0]).saturating_mul(window));
        let threads = if alone { Threads::alone() } else { &runtime.threads };
        let layout = PlaneLayout::new(sizes)?;
        let kernel = KernelRows::new(&layout, context, &weight, runtime.isa, threads)?;
        let ones = if weight.zero_point.is_some() { Some(KernelRows::ones(&layout, context, runtime.isa)?) } else { None };
        CodedConv { runtime, threads, context, weight: &weight, layout: &layout, kernel, ones, by }.run(x, out)
    }
}

/// A convolution of codes.
struct CodedConv<'a> {
    runtime: &'a Runtime,
    threads: &'a Threads,
    context: &'static ByteContext,
    weight: &'a CodedWeight<'a>,
    layout: &'a PlaneLayout,
    kernel: KernelRows<'a>,
    /// where the weight's codes count from something
    ones: Option<KernelRows<'a>>,
    by: RowScale,
}
impl CodedConv<'_> {
    fn run(&self, x: &[f32], out: &mut [f32]) -> Result<(), ErrorKind> {
        let sizes = &self.layout.sizes;
        let sample = sizes.channels * sizes.area();
        let per_sample = sizes.made_channels * sizes.places();
        // So many at a time that each thread has one.
        let some = self.threads.count();
        x.chunks(some * sample).zip(out.chunks_mut(some * per_sample)).try_for_each(|(x, out)| {
            PackScratch::with(|scratch| {
                // What has one scale is shared out by channels.
                let block = match self.by {
                    RowScale::Given { .. } => {
                        let most = (CODED / sizes.area()).clamp(1, sizes.channels);
                        (1..=most).rev().find(|block| sizes.channels.is_multiple_of(*block)).unwrap_or(1)
                    }
                    _ => sizes.channels,
                };
                let columns = block * sizes.area();
                let codes = scratch.rows.take((x.len() / columns + 1) * packed_stride(columns))?;
                let rows = CodedRows::new(self.runtime, x, columns, Coding { by: self.by, signed: false }, codes)?;
                let samples = CodedSamples { rows, block };
                // A tile reads as many places as it has, of which the last may lie behind the planes.
                let (group, count) = (self.layout.group_bytes(), x.len() / sample);
                let planes = scratch.widened.take(count * sizes.groups * group + (self.layout.steps.reach() + 2 * PLACES * QUAD))?;
                self.lay_out(&samples, &mut planes[..count * sizes.groups * group])?;
                self.multiply(&samples, planes, out)
            })
        })
    }
    fn lay_out(&self, samples: &CodedSamples<'_>, planes: &mut [u8]) -> Result<(), ErrorKind> {
        let (layout, quads, groups) = (self.layout, self.layout.quads(), self.layout.sizes.groups);
        let per_quad = layout.group_bytes() / quads;
        let flip = self.context.window_flip();
        self.threads.try_for_chunks_mut(planes, per_quad, |index, planes| {
            let (sample, group, quad) = (index / quads / groups, index / quads % groups, index % quads);
            let mut scratch = filled(0u8, QUAD * layout.plane_places())?;
            dispatch(self.runtime.isa, QuadPlanes { layout, samples, sample, group, quad, flip, scratch: &mut scratch, planes });
            Ok(())
        })
    }
    fn multiply(&self, samples: &CodedSamples<'_>, planes: &[u8], out: &mut [f32]) -> Result<(), ErrorKind> {
        let sizes = &self.layout.sizes;
        let (made, places, group) = (sizes.group_made(), sizes.places(), self.layout.group_bytes());
        let of_groups = out.len() / (made * places);
        let shares = if self.threads.count() == 1 { 1 } else { (2 * self.threads.count()).div_ceil(of_groups) };
        let some = made.div_ceil(shares).next_multiple_of(self.context.rows).min(made);
        let parts = out.chunks_mut(made * places).enumerate().flat_map(|(index, out)| {
            let channels = out.chunks_mut(some * places).enumerate();
            channels.map(move |(k, out)| (index, k * some, out))
        });
        self.threads.try_for_parts(parts, |_, (index, first, out)| {
            let (sample, of_group) = (index / sizes.groups, index % sizes.groups);
            let code = samples.code(sample, sizes.channels);
            self.channels(&code, &planes[index * group..], of_group * made + first, out)
        })
    }
    /// The results of some channels from one on.
    fn channels(&self, code: &RowCode, planes: &[u8], first: usize, out: &mut [f32]) -> Result<(), ErrorKind> {
        let (context, layout) = (self.context, self.layout);
        let (places, count) = (layout.sizes.places(), out.len() / layout.sizes.places());
        let zero = code.zero - i32::from(context.window_flip());
        // Few rows have more places each.
        let tile = ROWS / count.min(context.rows) * PLACES;
        let (mut sums, mut of_x, mut line) = ([0i32; ROWS * PLACES], [0i32; ROWS * PLACES], [0f32; ROWS * PLACES]);
        for place in (0..layout.places()).step_by(tile) {
            let end = layout.places().min(place + tile);
            let runs = layout.runs(place..end)?;
            let (planes, some) = (&planes[place * QUAD..], (end - place).next_multiple_of(context.window_places()));
            if let Some(ones) = &self.ones {
                context.windows(&layout.steps, ones.from(0), 1, planes, some, &mut of_x, tile);
                let from_zero = zero.wrapping_mul(layout.sizes.window() as i32);
                of_x.iter_mut().for_each(|sum| *sum = sum.wrapping_sub(from_zero));
            }
            for row in (0..count).step_by(context.rows) {
                let rows = context.rows.min(count - row);
                context.windows(&layout.steps, self.kernel.from(first + row), rows, planes, some, &mut sums, tile);
                let (channel, out) = (first + row, &mut out[row * places..(row + rows) * places]);
                let of_weight = &self.kernel.sums[channel..];
                dispatch(
                    self.runtime.isa,
                    ScaledPlaces {
                        weight: self.weight,
                        channel,
                        scale: code.scale,
                        zero,
                        of_weight,
                        of_x: &of_x[..tile],
                        sums: sums.chunks_exact_mut(tile),
                        runs: &runs,
                        line: &mut line[..tile],
                        places,
                        out,
                    },
                );
            }
        }
        Ok(())
    }
}
/// Results of some channels at adjacent places from their sums.
struct ScaledPlaces<'s> {
    weight: &'s CodedWeight<'s>,
    /// the first
    channel: usize,
    scale: f32,
    /// what x's bytes count from
    zero: i32,
    /// of each channel's codes
    of_weight: &'s [i32],
    /// `Σ (code - zero)` of the windows, where the weight's codes count from something
    of_x: &'s [i32],
    /// a row of them for each channel
    sums: std::slice::ChunksExactMut<'s, i32>,
    runs: &'s [PlaceRun],
    line: &'s mut [f32],
    /// of a channel in all
    places: usize,
    /// `[channels, places]`
    out: &'s mut [f32],
}
impl SimdKernel for ScaledPlaces<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ScaledPlaces { weight, channel, scale, zero, of_weight, of_x, sums, runs, line, places, out } = self;
        for (k, (sums, out)) in sums.zip(out.chunks_exact_mut(places)).enumerate() {
            let channel = channel + k;
            let start = zero.wrapping_mul(of_weight[k]);
            if weight.zero_point.is_some() {
                let base = weight.base(channel, 0);
                sums.iter_mut().zip(of_x).for_each(|(sum, &of_x)| *sum = sum.wrapping_sub(of_x.wrapping_mul(base)));
            }
            let scale = scale * weight.scale[channel];
            match weight.bias {
                Some(bias) => {
                    let bias = bias[channel];
                    line.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = sum.wrapping_sub(start) as f32 * scale + bias);
                }
                None => line.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = sum.wrapping_sub(start) as f32 * scale),
            }
            for run in runs {
                out[run.to..run.to + run.length].copy_from_slice(&line[run.place..run.place + run.length]);
            }
        }
    }
}
