//! A convolution as a matrix product whose second operand is gathered, never stored.
//!
//! The source image is copied once with its zeros around it, each row split by its position modulo the stride; then
//! what a tap sees along an output row is contiguous, whatever the stride, padding or dilation: element
//! (tap, output) lies at `lines[tap] + runs[output]`. If nothing needs padding or splitting the image is read in place.
//! Must not know what the product is for: forward, input gradient and weight gradient all come here.

use crate::gemm::context::{Accumulator, GemmContext};
use crate::gemm::micro::Segment;
use crate::gemm::pack::{PackA, PackB};
use crate::scratch::{ScratchVec, collected, scratch_vec};
use adamant_runtime::ErrorKind;

/// One spatial axis of a lowered convolution.
#[derive(Debug)]
pub(crate) struct LoweredAxis {
    /// The source coordinate of padded coordinate 0; negative where zeros come first.
    pub(crate) origin: isize,
    /// Padded coordinates that are looked at.
    pub(crate) extent: usize,
    /// Outputs along the axis.
    pub(crate) count: usize,
    /// Padded coordinates from an output to the next.
    pub(crate) step: usize,
    /// The padded coordinate of each tap at output 0.
    pub(crate) taps: ScratchVec<usize>,
}
impl LoweredAxis {
    /// Another of it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn twin(&self) -> Result<LoweredAxis, ErrorKind> {
        Ok(LoweredAxis { taps: collected(self.taps.len(), self.taps.iter().copied())?, ..*self })
    }
}

/// Where things lie for one group of channels of one image.
#[derive(Debug)]
pub(crate) struct Lowering {
    pub(crate) axes: [LoweredAxis; 3],
    source: [usize; 3],
    /// The source is read where it is, from this offset on; `None`: it is copied with padding.
    pub(crate) in_place: Option<usize>,
    /// Elements between two channels of the (padded) source.
    pub(crate) plane: usize,
    row: usize,
    rows: usize,
    phase: usize,
}

impl Lowering {
    pub(crate) fn new(axes: [LoweredAxis; 3], source: [usize; 3]) -> Lowering {
        let split = axes[2].step;
        let inside = |(axis, &size): (&LoweredAxis, &usize)| axis.origin >= 0 && axis.origin as usize + axis.extent <= size;
        if split == 1 && axes.iter().zip(&source).all(inside) {
            let at = |index: usize| axes[index].origin as usize;
            let base = (at(0) * source[1] + at(1)) * source[2] + at(2);
            let plane = source.iter().product();
            let [_, rows, row] = source;
            return Lowering { axes, source, in_place: Some(base), plane, row, rows, phase: 0 };
        }
        let phase = axes[2].extent.div_ceil(split);
        let (row, rows) = (split * phase, axes[1].extent);
        let plane = axes[0].extent * rows * row;
        Lowering { axes, source, in_place: None, plane, row, rows, phase }
    }

    /// Outputs of one image.
    pub(crate) fn outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// The offset of each (channel, tap), channel first.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn lines(&self, channels: usize) -> Result<ScratchVec<usize>, ErrorKind> {
        let [deep, high, wide] = &self.axes;
        let split = wide.step;
        let mut lines = scratch_vec(channels * deep.taps.len() * high.taps.len() * wide.taps.len())?;
        for channel in 0..channels {
            for d in &deep.taps {
                for h in &high.taps {
                    for w in &wide.taps {
                        let column = if split == 1 { *w } else { (w % split) * self.phase + w / split };
                        lines.push(channel * self.plane + (d * self.rows + h) * self.row + column);
                    }
                }
            }
        }
        Ok(lines)
    }

    /// The runs of outputs of `images` images that are `image` elements apart.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn runs(&self, images: usize, image: usize) -> Result<Runs, ErrorKind> {
        let [deep, high, wide] = &self.axes;
        let mut runs = Runs { length: wide.count, offsets: scratch_vec(images * deep.count * high.count)? };
        for index in 0..images {
            for d in 0..deep.count {
                for h in 0..high.count {
                    let row = (d * deep.step * self.rows + h * high.step) * self.row;
                    runs.offsets.push(self.in_place.unwrap_or(0) + index * image + row);
                }
            }
        }
        let rows = deep.count * high.count;
        let seamless = rows > 1 && runs.offsets.chunks_exact(rows).all(|rows| rows.windows(2).all(|pair| pair[1] - pair[0] == wide.count));
        if seamless {
            let mut index = 0;
            runs.offsets.retain(|_| {
                index += 1;
                (index - 1) % rows == 0
            });
            runs.length *= rows;
        }
        Ok(runs)
    }

    /// Copies channels (each `source` elements) with their padding, rows split by stride.
    pub(crate) fn pad<T: Copy + Default>(&self, channels: &[T], target: &mut [T]) {
        let [deep, high, wide] = &self.axes;
        let [depth, height, width] = self.source;
        let zero = T::default();
        let size = depth * height * width;
        for (source, plane) in channels.chunks_exact(size).zip(target.chunks_exact_mut(self.plane)) {
            for (index, row) in plane.chunks_exact_mut(self.row).enumerate() {
                let d = (index / self.rows) as isize + deep.origin;
                let h = (index % self.rows) as isize + high.origin;
                if d < 0 || d >= depth as isize || h < 0 || h >= height as isize {
                    row.fill(zero);
                    continue;
                }
                let source = &source[(d as usize * height + h as usize) * width..][..width];
                if wide.step == 1 {
                    // Padded coordinates [left, right) are inside the source.
                    let left = (-wide.origin).clamp(0, row.len() as isize) as usize;
                    let right = (width as isize - wide.origin).clamp(left as isize, row.len() as isize) as usize;
                    row[..left].fill(zero);
                    if left < right {
                        let first = (left as isize + wide.origin) as usize;
                        row[left..right].copy_from_slice(&source[first..first + right - left]);
                    }
                    row[right..].fill(zero);
                } else {
                    for (phase, values) in row.chunks_exact_mut(self.phase).enumerate() {
                        let mut at = phase as isize + wide.origin;
                        for value in values {
                            let inside = at >= 0 && at < width as isize;
                            *value = if inside { source[at as usize] } else { zero };
                            at += wide.step as isize;
                        }
                    }
                }
            }
        }
    }
}

/// Positions in runs of equal length: position p is at `offsets[p / length] + p % length * step`, step 1 if read.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) length: usize,
    pub(crate) offsets: ScratchVec<usize>,
}

/// A matrix whose element (line, position) is `source[lines[line] + runs[position]]`.
pub(crate) struct Gather<'a, T> {
    pub(crate) source: &'a [T],
    pub(crate) lines: &'a [usize],
    pub(crate) runs: &'a Runs,
    /// Position 0 of the matrix among those of the runs.
    pub(crate) first: usize,
}

impl<T: Accumulator> Gather<'_, T> {
    #[allow(clippy::too_many_arguments)]
    fn pack_lines(&self, context: &GemmContext<T>, line: usize, lines: usize, position: usize, positions: usize, target: &mut [T], target_stride: usize) {
        const MOST: usize = 256;
        let mut segments = [Segment::default(); MOST];
        let length = self.runs.length;
        let mut done = 0;
        while done < positions {
            let mut count = 0;
            let begun = done;
            while done < positions && count < MOST {
                let at = self.first + position + done;
                let (run, within) = (at / length, at % length);
                let piece = (length - within).min(positions - done);
                segments[count] = Segment { target: done - begun, source: self.runs.offsets[run] + within, length: piece };
                count += 1;
                done += piece;
            }
            let lines = &self.lines[line..line + lines];
            context.gather(self.source, lines, &segments[..count], &mut target[begun..], target_stride);
        }
    }
}

impl<T: Accumulator> PackB<T> for Gather<'_, T> {
    fn pack(&self, context: &GemmContext<T>, column: usize, columns: usize, k: usize, length: usize, target: &mut [T]) {
        self.pack_lines(context, k, length, column, columns, target, context.columns());
    }
}

impl<T: Accumulator> PackA<T> for Gather<'_, T> {
    fn pack(&self, context: &GemmContext<T>, row: usize, rows: usize, k: usize, length: usize, target: &mut [T]) {
        self.pack_lines(context, row, rows, k, length, target, crate::gemm::micro::A_STRIDE);
    }
}
