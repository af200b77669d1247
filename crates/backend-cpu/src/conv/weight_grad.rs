//! The weight gradient: the role that reduces over images and positions, with the gathered operand on the left.
//!
//! Must not know the other roles; it shares their lowering only.

use super::lowering::{Gather, Lowering};
use super::multiplier::Multiplier;
use super::{ConvShape, SERIAL_WORK, depthwise};
use crate::fused::rows::{StoredElement, widened};
use crate::gemm::Accumulator;
use crate::gemm::context::GemmContext;
use crate::gemm::driver::{PlainOutput, Size};
use crate::gemm::micro::{Block, CHUNK};
use crate::gemm::pack::PackB;
use crate::isa::Isa;
use crate::scratch::ScratchVec;
use crate::threads::Threads;
use adamant_runtime::ErrorKind;

/// `dw`, the gradient of `w` for the cotangent `g` of y. What memory holds in 16 bits is widened as it is gathered.
///
/// Computed as its transpose, `[in · taps, out]`: there the gathered rows of x are contiguous along the reduction.
///
/// # Errors
/// A slice whose length is not that of the shape; memory for what is gathered.
pub(crate) fn weight_grad<M: StoredElement>(threads: &Threads, isa: Isa, shape: &ConvShape, x: &[M], g: &[M], dw: &mut [M::Real]) -> Result<(), ErrorKind>
where
    M::Real: Accumulator,
{
    shape.check("weight_grad", [x.len(), dw.len(), g.len()])?;
    if depthwise::is_depthwise(shape) {
        let mut scratch = <[ScratchVec<M::Real>; 2]>::default();
        let [x_scratch, g_scratch] = &mut scratch;
        return depthwise::weight_grad(threads, isa, shape, widened(isa, x, x_scratch)?, widened(isa, g, g_scratch)?, dw);
    }
    let [input, taps, output] = shape.spatial();
    let (ins, outs) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    if shape.batch == 0 || dw.is_empty() {
        dw.fill(M::Real::default());
        return Ok(());
    }
    let multiplier = Multiplier::<M::Real>::new(isa, shape);
    let lowering = Lowering::new(shape.forward_axes()?, shape.input);
    // Images of a group: enough for one chunk of the reduction. A function of the shape alone.
    let together = CHUNK.div_ceil(output).min(shape.batch);
    let work = shape.batch * dw.len() * output;
    let count = if work < SERIAL_WORK { 1 } else { threads.count() };
    // A task is a range of channels of x: it pads only those.
    let share = if count > 1 { ins.div_ceil(2 * count) } else { ins };
    let threads = if count > 1 { threads } else { Threads::alone() };
    let rows = ins * taps;
    M::Real::with_scratch(|scratch| {
        for group in 0..shape.groups {
            let transposed = scratch.c.take(rows * outs)?;
            threads.try_for_chunks_mut(transposed, share * taps * outs, |index, transposed| {
                let channels = transposed.len() / (taps * outs);
                let first_channel = group * ins + index * share;
                let lines = lowering.lines(channels)?;
                let in_place = lowering.in_place.is_some();
                let image = match in_place {
                    true if M::AS_IS => shape.in_channels * input,
                    true => channels * input,
                    false => channels * lowering.plane,
                };
                // Of 16 bits, what a chunk reads: channels of x, and the group's of g.
                let mut x_scratch = M::scratch_vec(channels * input * if in_place { together } else { 1 })?;
                let mut g_scratch = M::scratch_vec(outs * output * together)?;
                let runs = lowering.runs(together, image)?;
                M::Real::with_scratch(|scratch| {
                    for first in (0..shape.batch).step_by(together) {
                        let images = together.min(shape.batch - first);
                        let x = &x[(first * shape.in_channels + first_channel) * input..];
                        let source: &[M::Real] = if in_place {
                            images_of(isa, x, [images, shape.in_channels * input, channels * input], &mut x_scratch).0
                        } else {
                            let padded = scratch.gather.take(images * image)?;
                            for (index, padded) in padded.chunks_mut(image).enumerate() {
                                let x = &x[index * shape.in_channels * input..][..channels * input];
                                lowering.pad(M::read(isa, x, &mut x_scratch), padded);
                            }
                            padded
                        };
                        let a = Gather { source, lines: &lines, runs: &runs, first: 0 };
                        let g = &g[(first * shape.out_channels + group * outs) * output..];
                        let (g, image) = images_of(isa, g, [images, shape.out_channels * output, outs * output], &mut g_scratch);
                        let b = Cotangent { g, image, output };
                        let size = Size { m: channels * taps, n: outs, k: images * output };
                        let block = Block::new(transposed, size.m, outs, outs);
                        let mut out = PlainOutput { block, finish: |_: usize, _: usize, _: &mut [M::Real]| Ok(()) };
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

/// The first `read` of each image's `all` elements, and how far apart the images are: where they lie, or widened in `scratch`.
fn images_of<'a, M: StoredElement>(isa: Isa, source: &'a [M], [images, all, read]: [usize; 3], scratch: &'a mut [M::Real]) -> (&'a [M::Real], usize) {
    if M::AS_IS {
        return (M::read(isa, source, scratch), all);
    }
    for (source, scratch) in source.chunks(all).zip(scratch.chunks_mut(read)).take(images) {
        M::read(isa, &source[..read], scratch);
    }
    (scratch, read)
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
