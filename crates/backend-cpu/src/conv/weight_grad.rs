//! The weight gradient: the role that reduces over images and positions, with the gathered operand on the left.
//!
//! Must not know the other roles; it shares their lowering only.

use super::lowering::{Gather, Lowering};
use super::multiplier::Multiplier;
use super::{ConvShape, SERIAL_WORK, depthwise};
use crate::gemm::Accumulator;
use crate::gemm::context::GemmContext;
use crate::gemm::driver::{PlainOutput, Size};
use crate::gemm::micro::{Block, CHUNK};
use crate::gemm::pack::PackB;
use crate::isa::Isa;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;

/// `dw`, the gradient of `w` for the cotangent `g` of y.
///
/// Computed as its transpose, `[in · taps, out]`: there the gathered rows of x are contiguous along the reduction.
///
/// # Errors
/// A slice whose length is not that of the shape; memory for what is gathered.
pub fn weight_grad<T: Accumulator>(threads: &Threads, isa: Isa, shape: &ConvShape, x: &[T], g: &[T], dw: &mut [T]) -> Result<(), ErrorKind> {
    shape.check("weight_grad", x, dw, g)?;
    if depthwise::is_depthwise(shape) {
        return depthwise::weight_grad(threads, isa, shape, x, g, dw);
    }
    let [input, taps, output] = shape.spatial();
    let (ins, outs) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    if shape.batch == 0 || dw.is_empty() {
        dw.fill(T::default());
        return Ok(());
    }
    let multiplier = Multiplier::<T>::new(isa, shape);
    let lowering = Lowering::new(shape.forward_axes()?, shape.input);
    // Images of a group: enough for one chunk of the reduction. A function of the shape alone.
    let together = CHUNK.div_ceil(output).min(shape.batch);
    let work = shape.batch * dw.len() * output;
    let count = if work < SERIAL_WORK { 1 } else { threads.count() };
    // A task is a range of channels of x: it pads only those.
    let share = if count > 1 { ins.div_ceil(2 * count) } else { ins };
    let threads = if count > 1 { threads } else { Threads::alone() };
    let rows = ins * taps;
    T::with_scratch(|scratch| {
        for group in 0..shape.groups {
            let transposed = scratch.c.take(rows * outs)?;
            threads.try_for_chunks_mut(transposed, share * taps * outs, |index, transposed| {
                let channels = transposed.len() / (taps * outs);
                let first_channel = group * ins + index * share;
                let lines = lowering.lines(channels)?;
                let in_place = lowering.in_place.is_some();
                let image = if in_place { shape.in_channels * input } else { channels * lowering.plane };
                let runs = lowering.runs(together, image)?;
                T::with_scratch(|scratch| {
                    for first in (0..shape.batch).step_by(together) {
                        let images = together.min(shape.batch - first);
                        let x = &x[(first * shape.in_channels + first_channel) * input..];
                        let source: &[T] = if in_place {
                            x
                        } else {
                            let padded = scratch.gather.take(images * image)?;
                            for (index, padded) in padded.chunks_mut(image).enumerate() {
                                let x = &x[index * shape.in_channels * input..][..channels * input];
                                lowering.pad(x, padded);
                            }
                            padded
                        };
                        let a = Gather { source, lines: &lines, runs: &runs, first: 0 };
                        let b = Cotangent { g: &g[(first * shape.out_channels + group * outs) * output..], image: shape.out_channels * output, output };
                        let size = Size { m: channels * taps, n: outs, k: images * output };
                        let block = Block::new(transposed, size.m, outs, outs);
                        let mut out = PlainOutput { block, finish: |_: usize, _: usize, _: &mut [T]| Ok(()) };
                        multiplier.multiply(size, &a, &b, &mut out, first > 0, &mut scratch.a, &mut scratch.b)?;
                    }
                    Ok::<(), ErrorKind>(())
                })
            })?;
            multiplier.context.transpose(transposed, outs, &mut dw[group * outs * rows..], rows, rows, outs);
        }
        Ok(())
    })
}

/// `B[(image, position)][out] = g[image][out][position]`.
struct Cotangent<'a, T> {
    g: &'a [T],
    image: usize,
    output: usize,
}

impl<T: Accumulator> PackB<T> for Cotangent<'_, T> {
    fn pack(&self, context: &GemmContext<T>, column: usize, columns: usize, k: usize, length: usize, target: &mut [T]) {
        let width = context.columns();
        let mut done = 0;
        while done < length {
            let (image, within) = ((k + done) / self.output, (k + done) % self.output);
            let piece = (self.output - within).min(length - done);
            let source = &self.g[image * self.image + column * self.output + within..];
            context.transpose(source, self.output, &mut target[done * width..], width, columns, piece);
            done += piece;
        }
    }
}
