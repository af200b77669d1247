//! Convolutions of one, two or three spatial axes over `[batch, channels, spatial..]`: the three roles of one
//! bilinear form, each a matrix product with a gathered operand (implicit im2col).
//!
//! Every output is summed as in [`gemm`](crate::gemm): in chunks of the reduction, in order, by fma. The order depends
//! on the shape only, so bits depend neither on threads nor on the instruction set, and those of an image (forward and
//! input gradient) do not depend on the batch. The weight gradient reduces over (image, position), its chunks ending
//! at fixed groups of images.
//! Must not know tensors or layers. Types other than f32 and f64 are widened by the caller.

pub(crate) mod depthwise;
mod lowering;
mod multiplier;
#[cfg(test)]
mod tests;
mod weight_grad;

pub(crate) use weight_grad::weight_grad;

use crate::gemm::Accumulator;
use crate::gemm::context::GemmContext;
use crate::gemm::driver::{BLOCK_COLUMNS, PlainOutput, Size, TileOutput};
use crate::gemm::micro::{Block, TileOperands};
use crate::gemm::pack::{MatrixView, PackA};
use crate::isa::Isa;
use crate::scratch::{ScratchVec, collected, few, scratch_vec};
use crate::threads::Threads;
use adamant_runtime::ErrorKind;
use lowering::{Gather, LoweredAxis, Lowering, Runs};
use multiplier::Multiplier;
use smallvec::SmallVec;

/// The sizes of a convolution. One- and two-dimensional ones have leading axes of size 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Images.
    pub batch: usize,
    /// Channels of x.
    pub in_channels: usize,
    /// Channels of y.
    pub out_channels: usize,
    /// Groups of channels; each sees only its own share of x.
    pub groups: usize,
    /// Spatial size of x.
    pub input: [usize; 3],
    /// Spatial size of w.
    pub kernel: [usize; 3],
    /// From an output to the next, in elements of x.
    pub stride: [usize; 3],
    /// Zeros before and after each axis of x.
    pub padding: [(usize, usize); 3],
    /// From a tap to the next, in elements of x.
    pub dilation: [usize; 3],
    output: [usize; 3],
    are_bf16: bool,
}

impl ConvShape {
    /// A convolution over `input.len()` (1 to 3) spatial axes: x is `[batch, in_channels, input..]`, w is
    /// `[out_channels, in_channels / groups, kernel..]`, y is `[batch, out_channels, output..]`.
    ///
    /// # Errors
    /// Lists of different lengths, a zero stride, dilation, kernel or group count, channels that the groups do not
    /// divide, or a kernel wider than the padded input.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        batch: usize,
        in_channels: usize,
        out_channels: usize,
        groups: usize,
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        padding: &[(usize, usize)],
        dilation: &[usize],
    ) -> Result<ConvShape, String> {
        let rank = input.len();
        if !(1..=3).contains(&rank) || [kernel.len(), stride.len(), padding.len(), dilation.len()] != [rank; 4] {
            return Err(format!(
                "conv: {rank} spatial axes with {} kernel sizes, {} strides, {} paddings and {} dilations; \
                 1 to 3 axes, one of each for every axis",
                kernel.len(),
                stride.len(),
                padding.len(),
                dilation.len()
            ));
        }
        if groups == 0 || !in_channels.is_multiple_of(groups) || !out_channels.is_multiple_of(groups) {
            return Err(format!("conv: {groups} groups do not divide {in_channels} and {out_channels} channels"));
        }
        let mut shape = ConvShape {
            batch,
            in_channels,
            out_channels,
            groups,
            input: [1; 3],
            kernel: [1; 3],
            stride: [1; 3],
            padding: [(0, 0); 3],
            dilation: [1; 3],
            output: [1; 3],
            are_bf16: false,
        };
        for axis in 0..rank {
            let at = 3 - rank + axis;
            let (size, taps, step, gap) = (input[axis], kernel[axis], stride[axis], dilation[axis]);
            if taps == 0 || step == 0 || gap == 0 {
                return Err(format!("conv: kernel {taps}, stride {step}, dilation {gap} on axis {axis}: none may be 0"));
            }
            let padded = size.checked_add(padding[axis].0).and_then(|sum| sum.checked_add(padding[axis].1));
            let span = (taps - 1).checked_mul(gap).and_then(|span| span.checked_add(1));
            let (Some(padded), Some(span)) = (padded, span) else {
                return Err(format!("conv: sizes of axis {axis} overflow"));
            };
            if size == 0 || span > padded {
                return Err(format!("conv: a kernel that spans {span} on axis {axis} of {padded} padded elements"));
            }
            shape.input[at] = size;
            shape.kernel[at] = taps;
            shape.stride[at] = step;
            shape.padding[at] = padding[axis];
            shape.dilation[at] = gap;
            shape.output[at] = (padded - span) / step + 1;
        }
        Ok(shape)
    }

    /// The same convolution of operands that are bf16 widened: where the instruction set multiplies those by pairs, it does.
    pub fn of_bf16(self) -> ConvShape {
        ConvShape { are_bf16: true, ..self }
    }

    /// Spatial size of y.
    pub fn output(&self) -> [usize; 3] {
        self.output
    }

    /// Elements of x, w and y.
    pub fn lengths(&self) -> [usize; 3] {
        let [input, taps, output] = self.spatial();
        [self.batch * self.in_channels * input, self.out_channels * (self.in_channels / self.groups) * taps, self.batch * self.out_channels * output]
    }

    fn spatial(&self) -> [usize; 3] {
        [self.input, self.kernel, self.output].map(|axes| axes.iter().product())
    }

    /// The same of fewer images or more.
    pub fn of_images(self, batch: usize) -> ConvShape {
        ConvShape { batch, ..self }
    }

    /// How many images give a block of columns of the products that compute this role's planes of `outputs`.
    pub fn images_of_a_block(outputs: usize) -> usize {
        (BLOCK_COLUMNS / outputs.max(1)).max(1)
    }

    fn check(&self, role: &str, got: [usize; 3]) -> Result<(), ErrorKind> {
        let wanted = self.lengths();
        if wanted != got {
            return Err(ErrorKind::Internal(format!("conv {role}: x, w and y have {got:?} elements, the shape asks for {wanted:?}")));
        }
        Ok(())
    }

    /// What y reads of x.
    fn forward_axes(&self) -> Result<[LoweredAxis; 3], ErrorKind> {
        let along = |axis: usize| -> Result<LoweredAxis, ErrorKind> {
            let (taps, gap, step, count) = (self.kernel[axis], self.dilation[axis], self.stride[axis], self.output[axis]);
            Ok(LoweredAxis {
                origin: -(self.padding[axis].0 as isize),
                extent: (count - 1) * step + (taps - 1) * gap + 1,
                count,
                step,
                taps: collected(taps, (0..taps).map(|tap| tap * gap))?,
            })
        };
        Ok([along(0)?, along(1)?, along(2)?])
    }
}

/// Below this many multiplications a convolution runs on the calling thread.
const SERIAL_WORK: usize = 1 << 20;

/// What happens to finished parts of y while they are in cache: `(place of the first element in y, elements)`.
pub type Behind<'a, T> = &'a (dyn Fn(usize, &mut [T]) -> Result<(), ErrorKind> + Sync);

/// `y = conv(x, w)`.
///
/// # Errors
/// A slice whose length is not that of the shape; memory for what is gathered.
pub fn forward<T: Accumulator>(threads: &Threads, isa: Isa, shape: &ConvShape, x: &[T], w: &[T], y: &mut [T]) -> Result<(), ErrorKind> {
    forward_with(threads, isa, shape, x, w, y, None)
}
/// As [`forward`], with `behind` run on each part of y behind its last sum.
///
/// # Errors
/// As [`forward`]; what `behind` returns.
pub fn forward_with<T: Accumulator>(
    threads: &Threads,
    isa: Isa,
    shape: &ConvShape,
    x: &[T],
    w: &[T],
    y: &mut [T],
    behind: Option<Behind<'_, T>>,
) -> Result<(), ErrorKind> {
    shape.check("forward", [x.len(), w.len(), y.len()])?;
    if depthwise::is_depthwise(shape) {
        return depthwise::forward(threads, isa, shape, x, w, y, behind);
    }
    let [input, taps, output] = shape.spatial();
    let (ins, outs) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    let lowering = Lowering::new(shape.forward_axes()?, shape.input);
    let lines = lowering.lines(ins)?;
    let k = ins * taps;
    let product = ConvProduct {
        multiplier: Multiplier::new(isa, shape),
        lowering: &lowering,
        lines: &lines,
        batch: shape.batch,
        groups: shape.groups,
        source_image: shape.in_channels * input,
        source_channels: ins,
        source_plane: input,
        target_rows: outs,
        target_plane: output,
        place: Place { first: 0, steps: [shape.output[1] * shape.output[2], shape.output[2], 1] },
        behind,
    };
    let weights = |group: usize| MatrixView { data: w, base: (group * outs * k) as isize, row_stride: k as isize, column_stride: 1 };
    product.run(threads, x, weights, y)
}

/// `dx`, the gradient of `x` for the cotangent `g` of y.
///
/// A stride splits x by position modulo the stride: each part is a dense convolution of g with its own taps.
///
/// # Errors
/// A slice whose length is not that of the shape; memory for what is gathered.
pub fn input_grad<T: Accumulator>(threads: &Threads, isa: Isa, shape: &ConvShape, g: &[T], w: &[T], dx: &mut [T]) -> Result<(), ErrorKind> {
    shape.check("input_grad", [dx.len(), w.len(), g.len()])?;
    if depthwise::has_input_grad(shape) {
        return depthwise::input_grad(threads, isa, shape, g, w, dx);
    }
    let [input, taps, output] = shape.spatial();
    let (ins, outs) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    let parts = [gradient_axes(shape, 0)?, gradient_axes(shape, 1)?, gradient_axes(shape, 2)?];
    let complete = parts.iter().all(|parts| parts.iter().all(|part| !part.axis.taps.is_empty()));
    if !complete || shape.stride != [1; 3] {
        dx.fill(T::default());
    }
    let row_lines = collected(ins, (0..ins).map(|channel| channel * taps))?;
    for d in &parts[0] {
        for h in &parts[1] {
            for w_part in &parts[2] {
                let chosen = [d, h, w_part];
                if chosen.iter().any(|part| part.axis.taps.is_empty() || part.axis.count == 0) {
                    continue;
                }
                let lowering = Lowering::new([d.axis.twin()?, h.axis.twin()?, w_part.axis.twin()?], shape.output);
                let lines = lowering.lines(outs)?;
                let strides = [shape.input[1] * shape.input[2], shape.input[2], 1];
                let first = (0..3).map(|axis| chosen[axis].first * strides[axis]).sum();
                // An axis of one position takes no step: the plane is then one run, which its stride must not stretch.
                let steps = [0, 1, 2].map(|axis| strides[axis] * if chosen[axis].axis.count > 1 { shape.stride[axis] } else { 1 });
                let product = ConvProduct {
                    multiplier: Multiplier::new(isa, shape),
                    lowering: &lowering,
                    lines: &lines,
                    batch: shape.batch,
                    groups: shape.groups,
                    source_image: shape.out_channels * output,
                    source_channels: outs,
                    source_plane: output,
                    target_rows: ins,
                    target_plane: input,
                    place: Place { first, steps },
                    behind: None,
                };
                // A[in][(out, tap)] = w[out][in][tap], read in runs of neighbouring taps.
                let mut tap_offsets = scratch_vec(chosen.iter().map(|part| part.taps.len()).product())?;
                for d in &chosen[0].taps {
                    for h in &chosen[1].taps {
                        for w in &chosen[2].taps {
                            tap_offsets.push((d * shape.kernel[1] + h) * shape.kernel[2] + w);
                        }
                    }
                }
                let dense = tap_offsets.len() == taps;
                let mut runs = Runs { length: if dense { taps } else { 1 }, offsets: scratch_vec(outs * if dense { 1 } else { tap_offsets.len() })? };
                for out in 0..outs {
                    let base = out * ins * taps;
                    if dense {
                        runs.offsets.push(base);
                    } else {
                        runs.offsets.extend(tap_offsets.iter().map(|offset| base + offset));
                    }
                }
                let weights = |group: usize| Gather { source: &w[group * outs * ins * taps..], lines: &row_lines, runs: &runs, first: 0 };
                product.run(threads, g, weights, dx)?;
            }
        }
    }
    Ok(())
}

/// The part of an axis of x whose positions (plus padding) leave one remainder modulo the stride.
struct GradientAxis {
    axis: LoweredAxis,
    /// The first position of x in the part.
    first: usize,
    /// The taps that reach it.
    taps: ScratchVec<usize>,
}

fn gradient_axes(shape: &ConvShape, axis: usize) -> Result<SmallVec<[GradientAxis; 2]>, ErrorKind> {
    let (size, low, step) = (shape.input[axis], shape.padding[axis].0, shape.stride[axis]);
    let mut parts = few::<GradientAxis, 2>(step.min(size))?;
    // x position i meets tap t of output o where i + low = o * step + t * dilation.
    for first in 0..step.min(size) {
        let remainder = (first + low) % step;
        let quotient = (first + low) / step;
        let count = (size - first).div_ceil(step);
        let reach = |tap: &usize| tap * shape.dilation[axis];
        let reached = (0..shape.kernel[axis]).filter(|tap| reach(tap) % step == remainder);
        let taps = collected(reached.clone().count(), reached)?;
        // Output o = quotient - shift, for each tap, in rising order.
        let shift = |tap: &usize| reach(tap) / step;
        let (nearest, farthest) = (taps.first().map_or(0, shift), taps.last().map_or(0, shift));
        let axis = LoweredAxis {
            origin: quotient as isize - farthest as isize,
            extent: count + farthest - nearest,
            count,
            step: 1,
            taps: collected(taps.len(), taps.iter().map(|tap| farthest - shift(tap)))?,
        };
        parts.push(GradientAxis { axis, first, taps });
    }
    Ok(parts)
}

/// Where output (d, h, w) lies in its plane.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    steps: [usize; 3],
}

/// `target[image][group][row][output] = Σ A[group][row][line] · source[image][group][line, output]`.
struct ConvProduct<'a, T: 'static> {
    multiplier: Multiplier<T>,
    lowering: &'a Lowering,
    lines: &'a [usize],
    batch: usize,
    groups: usize,
    source_image: usize,
    source_channels: usize,
    source_plane: usize,
    target_rows: usize,
    target_plane: usize,
    place: Place,
    /// where the planes lie without gaps
    behind: Option<Behind<'a, T>>,
}

impl<T: Accumulator> ConvProduct<'_, T> {
    fn run<A: PackA<T>>(&self, threads: &Threads, source: &[T], weights: impl Fn(usize) -> A + Sync, target: &mut [T]) -> Result<(), ErrorKind> {
        let outputs = self.lowering.outputs();
        let image = self.groups * self.target_rows * self.target_plane;
        if self.batch == 0 || image == 0 {
            return Ok(());
        }
        if self.lines.is_empty() {
            target.fill(T::default());
            return self.behind.map_or(Ok(()), |behind| behind(0, target));
        }
        let work = self.batch * self.groups * self.target_rows * outputs * self.lines.len();
        let count = if work < SERIAL_WORK { 1 } else { threads.count() };
        let contiguous = self.place.first == 0 && outputs == self.target_plane;
        if count > 1 && self.batch < count && contiguous {
            for (index, (source, target)) in source.chunks(self.source_image).zip(target.chunks_mut(image)).enumerate() {
                self.run_image(threads, source, &weights, target, index * image)?;
            }
            return Ok(());
        }
        // Enough images at a time to fill a block of columns, but a few parts for every thread.
        let images = ConvShape::images_of_a_block(outputs);
        let images = if count > 1 { images.min(self.batch.div_ceil(2 * count)) } else { images.min(self.batch) };
        let part = |index: usize, target: &mut [T]| {
            let source = &source[index * images * self.source_image..][..target.len() / image * self.source_image];
            self.run_images(source, &weights, target, index * images * image)
        };
        let threads = if count > 1 { threads } else { Threads::alone() };
        threads.try_for_chunks_mut(target, images * image, part)
    }

    /// Some whole images on one thread.
    fn run_images<A: PackA<T>>(&self, source: &[T], weights: &impl Fn(usize) -> A, target: &mut [T], first: usize) -> Result<(), ErrorKind> {
        let lowering = self.lowering;
        let images = source.len() / self.source_image;
        let outputs = lowering.outputs();
        let channels = self.source_channels * lowering.plane;
        let source_group = self.source_channels * self.source_plane;
        let in_place = lowering.in_place.is_some();
        let runs = lowering.runs(images, if in_place { self.source_image } else { channels })?;
        let image = self.groups * self.target_rows * self.target_plane;
        let places = self.places(images, image)?;
        let size = Size { m: self.target_rows, n: images * outputs, k: self.lines.len() };
        T::with_scratch(|scratch| {
            for group in 0..self.groups {
                let gathered: &[T] = if in_place {
                    &source[group * source_group..]
                } else {
                    let padded = scratch.gather.take(images * channels)?;
                    for (source, padded) in source.chunks(self.source_image).zip(padded.chunks_mut(channels)) {
                        lowering.pad(&source[group * source_group..][..source_group], padded);
                    }
                    padded
                };
                let b = Gather { source: gathered, lines: self.lines, runs: &runs, first: 0 };
                let mut out = Scattered {
                    target: &mut target[group * self.target_rows * self.target_plane..],
                    row_stride: self.target_plane,
                    places: &places,
                    step: self.place.steps[2],
                    behind: self.behind,
                    first: first + group * self.target_rows * self.target_plane,
                };
                let a = weights(group);
                self.multiplier.multiply(size, &a, &b, &mut out, false, &mut scratch.a, &mut scratch.b)?;
            }
            Ok(())
        })
    }

    /// One image on all threads: the padded source is shared, tasks are rectangles of the output.
    fn run_image<A: PackA<T>>(
        &self,
        threads: &Threads,
        source: &[T],
        weights: &(impl Fn(usize) -> A + Sync),
        target: &mut [T],
        first: usize,
    ) -> Result<(), ErrorKind> {
        let lowering = self.lowering;
        let (m, n) = (self.target_rows, lowering.outputs());
        let runs = lowering.runs(1, 0)?;
        let channels = self.source_channels * lowering.plane;
        let source_group = self.source_channels * self.source_plane;
        let context = self.multiplier.context;
        T::with_scratch(|scratch| {
            for (group, target) in target.chunks_mut(m * self.target_plane).enumerate() {
                let source = &source[group * source_group..][..source_group];
                let gathered: &[T] = if lowering.in_place.is_some() {
                    source
                } else {
                    let padded = scratch.gather.take(channels)?;
                    threads.for_chunks_mut(padded, self.source_channels.div_ceil(threads.count()) * lowering.plane, {
                        let share = self.source_channels.div_ceil(threads.count()) * self.source_plane;
                        move |index, padded| {
                            let channels = padded.len() / lowering.plane;
                            lowering.pad(&source[index * share..][..channels * self.source_plane], padded);
                        }
                    });
                    padded
                };
                let (rows, columns) = crate::gemm::part_size(threads.count(), 1, m, n, context.rows, context.columns());
                let parts = Block::new(target, m, n, self.target_plane).cut(rows, columns);
                threads.try_for_parts(parts, |_, (i, j, block)| {
                    let a = Offset { a: weights(group), row: i };
                    let b = Gather { source: gathered, lines: self.lines, runs: &runs, first: j };
                    let size = Size { m: block.rows, n: block.columns, k: self.lines.len() };
                    let corner = first + group * m * self.target_plane + i * self.target_plane + j;
                    let finish = |row: usize, column: usize, values: &mut [T]| match self.behind {
                        Some(behind) => behind(corner + row * self.target_plane + column, values),
                        None => Ok(()),
                    };
                    let mut out = PlainOutput { block, finish };
                    T::with_scratch(|scratch| self.multiplier.multiply(size, &a, &b, &mut out, false, &mut scratch.a, &mut scratch.b))
                })?;
            }
            Ok(())
        })
    }

    /// The outputs of the images as runs in the target.
    fn places(&self, images: usize, image: usize) -> Result<Runs, ErrorKind> {
        let counts = self.lowering.axes.each_ref().map(|axis| axis.count);
        let Place { first, steps } = self.place;
        if first == 0 && self.lowering.outputs() == self.target_plane {
            return Ok(Runs { length: self.target_plane, offsets: collected(images, (0..images).map(|index| index * image))? });
        }
        let mut runs = Runs { length: counts[2], offsets: scratch_vec(images * counts[0] * counts[1])? };
        for index in 0..images {
            for d in 0..counts[0] {
                for h in 0..counts[1] {
                    runs.offsets.push(index * image + first + d * steps[0] + h * steps[1]);
                }
            }
        }
        Ok(runs)
    }
}

/// Rows of A from one on.
struct Offset<A> {
    a: A,
    row: usize,
}

impl<T, A: PackA<T>> PackA<T> for Offset<A> {
    fn pack(&self, context: &GemmContext<T>, row: usize, rows: usize, k: usize, length: usize, target: &mut [T]) {
        self.a.pack(context, self.row + row, rows, k, length, target);
    }
}

/// C whose columns lie in runs, one plane a row.
struct Scattered<'a, T> {
    target: &'a mut [T],
    row_stride: usize,
    places: &'a Runs,
    step: usize,
    behind: Option<Behind<'a, T>>,
    /// where the target begins in the result
    first: usize,
}

impl<T: Accumulator> TileOutput<T> for Scattered<'_, T> {
    fn tile(&mut self, context: &GemmContext<T>, operands: TileOperands<'_, T>, i: usize, rows: usize, j: usize, columns: usize, accumulate: bool) {
        let length = self.places.length;
        if self.step == 1 && j % length + columns <= length {
            let first = i * self.row_stride + self.places.offsets[j / length] + j % length;
            let mut block = Block::new(&mut self.target[first..], rows, columns, self.row_stride);
            context.run_tile(operands, &mut block, 0, rows, 0, columns, accumulate);
            return;
        }
        const MOST: usize = 12 * 32;
        let width = context.columns();
        let mut sums = [T::default(); MOST];
        let mut block = Block::new(&mut sums, rows, columns, width);
        context.run_tile(operands, &mut block, 0, rows, 0, columns, false);
        let mut done = 0;
        while done < columns {
            let (run, within) = ((j + done) / length, (j + done) % length);
            let piece = (length - within).min(columns - done);
            let first = self.places.offsets[run] + within * self.step;
            for row in 0..rows {
                let sums = &sums[row * width + done..][..piece];
                let target = &mut self.target[(i + row) * self.row_stride + first..];
                if self.step == 1 {
                    let target = &mut target[..piece];
                    for (total, &sum) in target.iter_mut().zip(sums) {
                        *total = if accumulate { total.add(sum) } else { sum };
                    }
                } else {
                    for (total, &sum) in target.iter_mut().step_by(self.step).zip(sums) {
                        *total = if accumulate { total.add(sum) } else { sum };
                    }
                }
            }
            done += piece;
        }
    }

    fn finish(&mut self, i: usize, rows: usize, j: usize, columns: usize) -> Result<(), ErrorKind> {
        let Some(behind) = self.behind else { return Ok(()) };
        let length = self.places.length;
        let mut done = 0;
        while done < columns {
            let (run, within) = ((j + done) / length, (j + done) % length);
            let piece = (length - within).min(columns - done);
            let at = self.places.offsets[run] + within;
            // Whole planes of neighbouring channels follow each other.
            let (together, count) = if piece == self.row_stride { (1, rows * piece) } else { (rows, piece) };
            for row in 0..together {
                let at = at + (i + row) * self.row_stride;
                behind(self.first + at, &mut self.target[at..at + count])?;
            }
            done += piece;
        }
        Ok(())
    }
}
