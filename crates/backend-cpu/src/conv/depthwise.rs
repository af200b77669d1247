//! Depthwise convolutions: a channel of y sees one channel of x, so that a product would gather far more than it multiplies. A plane is
//! copied into a frame of zeros instead, each of its rows split by position modulo the stride: what a tap sees of a row then lies
//! side by side. Sums of y and dx are in the order of the taps, those of dw in 16 lanes for each image.
//! Must not know products.
use super::{Behind, ConvShape, SERIAL_WORK};
use crate::{
    gemm::Accumulator,
    isa::Isa,
    reduce::tree::{LANES, write_lanes},
    scratch::{ScratchVec, collected, filled},
    simd::{self, Float, Simd, SimdKernel},
    threads::Threads,
};
use adamant_runtime::ErrorKind;

/// Vectors of a row that are summed at a time.
const VECTORS: usize = 4;
/// What a row of a frame has behind its last element, so that whole vectors may be read there.
const SLACK: usize = VECTORS * LANES;

/// How planes lie in a frame.
struct PlaneFrame {
    /// sizes of a plane that is copied
    plane: [usize; 3],
    /// where its first element goes
    first: [usize; 3],
    /// from an element to the next, in places of the frame
    step: [usize; 3],
    /// places of the frame
    places: [usize; 3],
    /// of the last axis, how often it is split, and the length of each part
    phases: usize,
    part: usize,
}
impl PlaneFrame {
    fn new(plane: [usize; 3], first: [usize; 3], step: [usize; 3], places: [usize; 3], phases: usize) -> PlaneFrame {
        PlaneFrame { plane, first, step, places, phases, part: places[2].div_ceil(phases) + SLACK }
    }
    fn row(&self) -> usize {
        self.phases * self.part
    }
    fn len(&self) -> usize {
        self.places[0] * self.places[1] * self.row()
    }
    /// Where a tap that many places away is, from where the first is.
    fn tap(&self, at: [usize; 3]) -> usize {
        (at[0] * self.places[1] + at[1]) * self.row() + at[2] % self.phases * self.part + at[2] / self.phases
    }
    /// Copies a plane to its places; what lies between them stays zero.
    fn fill<T: Copy>(&self, plane: &[T], frame: &mut [T]) {
        let [_, height, width] = self.plane;
        for (r, row) in plane.chunks_exact(width).enumerate() {
            let [d, h] = [r / height * self.step[0] + self.first[0], r % height * self.step[1] + self.first[1]];
            if d >= self.places[0] || h >= self.places[1] {
                continue;
            }
            let to = &mut frame[(d * self.places[1] + h) * self.row()..][..self.row()];
            if self.phases == 1 && self.step[2] == 1 {
                let count = width.min(self.places[2] - self.first[2]);
                to[self.first[2]..][..count].copy_from_slice(&row[..count]);
                continue;
            }
            let (first, step) = (self.first[2], self.step[2]);
            let count = width.min((self.places[2] - first).div_ceil(step));
            if self.phases == 1 {
                to[first..].iter_mut().step_by(step).zip(&row[..count]).for_each(|(to, &v)| *to = v);
                continue;
            }
            // A row that is split has no gaps.
            for phase in 0..self.phases {
                let begin = (phase + self.phases - first % self.phases) % self.phases;
                let to = &mut to[phase * self.part + (first + begin) / self.phases..];
                to.iter_mut().zip(row[..count].iter().skip(begin).step_by(self.phases)).for_each(|(to, &v)| *to = v);
            }
        }
    }
}
/// Where the rows of what is computed of a frame are.
#[derive(Clone, Copy)]
pub(crate) struct FramedRows {
    /// planes of rows, rows, elements
    size: [usize; 3],
    /// from a plane and a row to the next, in elements of the frame
    steps: [usize; 2],
}
impl FramedRows {
    fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.size[0]).flat_map(move |d| (0..self.size[1]).map(move |h| d * self.steps[0] + h * self.steps[1]))
    }
}
/// What is computed of a frame.
pub(crate) enum FramedJob<'a, T> {
    /// `out = Σ weight · frame` over taps
    Sums { frame: &'a [T], taps: &'a [usize], weights: &'a [T], rows: FramedRows, out: &'a mut [T] },
    /// `sums[tap] += Σ g · frame` over positions
    Weights { frame: &'a [T], taps: &'a [usize], rows: FramedRows, g: &'a [T], sums: &'a mut [T] },
}

#[inline(always)]
fn sums<V: Float, const N: usize>(frame: &[V::Elem], taps: &[usize], weights: &[V::Elem], out: &mut [V::Elem]) {
    let lanes = V::LANES;
    for (block, out) in out.chunks_mut(N * lanes).enumerate() {
        let mut acc = [V::splat(V::Elem::default()); N];
        for (&tap, &weight) in taps.iter().zip(weights) {
            let (x, weight) = (&frame[tap + block * N * lanes..][..N * lanes], V::splat(weight));
            for v in 0..N {
                acc[v] = weight.mul_add(V::from_slice(&x[v * lanes..]), acc[v]);
            }
        }
        if out.len() == N * lanes {
            for v in 0..N {
                acc[v].write(&mut out[v * lanes..]);
            }
        } else {
            for (acc, out) in acc.iter().zip(out.chunks_mut(lanes)) {
                acc.write_partial(out);
            }
        }
    }
}
#[inline(always)]
fn weights<V: Float, const N: usize>(frame: &[V::Elem], taps: [usize; N], rows: FramedRows, g: &[V::Elem]) -> [V::Group; N] {
    let (lanes, width) = (V::LANES, rows.size[2]);
    let mut acc = [V::group(V::splat(V::Elem::default())); N];
    for (start, g) in rows.starts().zip(g.chunks_exact(width)) {
        for (block, g) in g.chunks(LANES).enumerate() {
            let at = start + block * LANES;
            for (v, g) in g.chunks(lanes).enumerate() {
                let is_whole = g.len() == lanes;
                let value = if is_whole { V::from_slice(g) } else { V::from_partial(g) };
                for n in 0..N {
                    let x = &frame[taps[n] + at + v * lanes..][..g.len()];
                    // What lies behind the row's end meets nothing, whatever it is.
                    let x = if is_whole { V::from_slice(x) } else { V::from_partial(x) };
                    let acc = &mut acc[n].as_mut()[v];
                    *acc = value.mul_add(x, *acc);
                }
            }
        }
    }
    acc
}
macro_rules! framed {
    ($t:ident, $vector:ident) => {
        impl SimdKernel for FramedJob<'_, $t> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self) {
                type V<S> = <S as Simd>::$vector;
                match self {
                    FramedJob::Sums { frame, taps, weights, rows, out } => {
                        let width = rows.size[2];
                        for (start, out) in rows.starts().zip(out.chunks_exact_mut(width)) {
                            match width.div_ceil(V::<S>::LANES) {
                                1 => sums::<V<S>, 1>(&frame[start..], taps, weights, out),
                                2 => sums::<V<S>, 2>(&frame[start..], taps, weights, out),
                                _ => sums::<V<S>, VECTORS>(&frame[start..], taps, weights, out),
                            }
                        }
                    }
                    FramedJob::Weights { frame, taps, rows, g, sums } => {
                        let folded = |group: &<V<S> as Float>::Group| {
                            let mut lanes = [0.0; LANES];
                            write_lanes::<V<S>>(group, &mut lanes);
                            simd::fold(
                                lanes,
                                #[inline(always)]
                                |a, b| a + b,
                            )
                        };
                        let (quads, rest) = taps.as_chunks::<4>();
                        let (of_quads, of_rest) = sums.split_at_mut(4 * quads.len());
                        for (taps, sums) in quads.iter().zip(of_quads.chunks_exact_mut(4)) {
                            for (sum, group) in sums.iter_mut().zip(&weights::<V<S>, 4>(frame, *taps, rows, g)) {
                                *sum += folded(group);
                            }
                        }
                        for (&tap, sum) in rest.iter().zip(of_rest) {
                            *sum += folded(&weights::<V<S>, 1>(frame, [tap], rows, g)[0]);
                        }
                    }
                }
            }
        }
    };
}
framed!(f32, F32);
framed!(f64, F64);

/// Taps in the order of the kernel, and where `at` puts each.
fn taps(shape: &ConvShape, at: impl Fn([usize; 3]) -> usize) -> Result<ScratchVec<usize>, ErrorKind> {
    let [depth, height, width] = shape.kernel;
    let all = (0..depth).flat_map(|d| (0..height).flat_map(move |h| (0..width).map(move |w| [d, h, w])));
    collected(depth * height * width, all.map(at))
}
/// Does a channel of y see one channel of x, and is there anything to see?
pub(super) fn is_depthwise(shape: &ConvShape) -> bool {
    shape.groups > 1 && shape.in_channels == shape.groups && shape.batch > 0
}
/// The frame of x, and what y sees of it.
fn of_input(shape: &ConvShape) -> Result<(PlaneFrame, ScratchVec<usize>, FramedRows), ErrorKind> {
    let along = |axis: usize| (shape.output[axis] - 1) * shape.stride[axis] + (shape.kernel[axis] - 1) * shape.dilation[axis] + 1;
    let reach = |axis: usize| along(axis).max(shape.input[axis] + shape.padding[axis].0);
    let first = [0, 1, 2].map(|axis| shape.padding[axis].0);
    let frame = PlaneFrame::new(shape.input, first, [1; 3], [reach(0), reach(1), reach(2)], shape.stride[2]);
    let taps = taps(shape, |t| frame.tap([0, 1, 2].map(|axis| t[axis] * shape.dilation[axis])))?;
    let rows = FramedRows { size: shape.output, steps: [shape.stride[0] * frame.places[1] * frame.row(), shape.stride[1] * frame.row()] };
    Ok((frame, taps, rows))
}
/// Planes for each task.
fn share(threads: &Threads, planes: usize, work: usize) -> usize {
    if planes.saturating_mul(work) < SERIAL_WORK { planes } else { planes.div_ceil(4 * threads.count()) }
}
/// As [`super::forward_with`].
pub(super) fn forward<T: Accumulator>(
    threads: &Threads,
    isa: Isa,
    shape: &ConvShape,
    x: &[T],
    w: &[T],
    y: &mut [T],
    behind: Option<Behind<'_, T>>,
) -> Result<(), ErrorKind> {
    let [input, count, output] = shape.spatial();
    let (frame, places, rows) = of_input(shape)?;
    let outs = shape.out_channels / shape.groups;
    let some = share(threads, shape.batch * shape.out_channels, count * output);
    threads.try_for_chunks_mut(y, some * output, |task, y| {
        let mut buffer = filled(T::default(), frame.len())?;
        for (k, y) in y.chunks_mut(output).enumerate() {
            let plane = task * some + k;
            let (image, channel) = (plane / shape.out_channels, plane % shape.out_channels);
            if k == 0 || channel % outs == 0 {
                frame.fill(&x[(image * shape.in_channels + channel / outs) * input..][..input], &mut buffer);
            }
            let weights = &w[channel * count..][..count];
            T::framed(isa, FramedJob::Sums { frame: &buffer, taps: &places, weights, rows, out: &mut *y });
            behind.map_or(Ok(()), |behind| behind(plane * output, y))?;
        }
        Ok(())
    })
}
/// Is the gradient of x the sum of a frame of g?
pub(super) fn has_input_grad(shape: &ConvShape) -> bool {
    let fits = |axis: usize| shape.padding[axis].0 <= (shape.kernel[axis] - 1) * shape.dilation[axis];
    is_depthwise(shape) && shape.out_channels == shape.groups && (0..3).all(fits)
}
/// As [`super::input_grad`]: of g with zeros between its elements, by the kernel from its end.
pub(super) fn input_grad<T: Accumulator>(threads: &Threads, isa: Isa, shape: &ConvShape, g: &[T], w: &[T], dx: &mut [T]) -> Result<(), ErrorKind> {
    let [input, count, output] = shape.spatial();
    let span = [0, 1, 2].map(|axis| (shape.kernel[axis] - 1) * shape.dilation[axis]);
    let first = [0, 1, 2].map(|axis| span[axis] - shape.padding[axis].0);
    let frame = PlaneFrame::new(shape.output, first, shape.stride, [0, 1, 2].map(|axis| shape.input[axis] + span[axis]), 1);
    let places = taps(shape, |t| frame.tap([0, 1, 2].map(|axis| span[axis] - t[axis] * shape.dilation[axis])))?;
    let rows = FramedRows { size: shape.input, steps: [frame.places[1] * frame.row(), frame.row()] };
    let some = share(threads, shape.batch * shape.groups, count * input);
    threads.try_for_chunks_mut(dx, some * input, |task, dx| {
        let mut buffer = filled(T::default(), frame.len())?;
        for (k, dx) in dx.chunks_mut(input).enumerate() {
            let plane = task * some + k;
            let channel = plane % shape.groups;
            frame.fill(&g[plane * output..][..output], &mut buffer);
            let weights = &w[channel * count..][..count];
            T::framed(isa, FramedJob::Sums { frame: &buffer, taps: &places, weights, rows, out: dx });
        }
        Ok(())
    })
}
/// As [`super::weight_grad()`].
pub(super) fn weight_grad<T: Accumulator>(threads: &Threads, isa: Isa, shape: &ConvShape, x: &[T], g: &[T], dw: &mut [T]) -> Result<(), ErrorKind> {
    let [input, count, output] = shape.spatial();
    let (frame, taps, rows) = of_input(shape)?;
    let outs = shape.out_channels / shape.groups;
    let some = share(threads, shape.out_channels, shape.batch * count * output);
    threads.try_for_chunks_mut(dw, some * count, |task, dw| {
        let mut buffer = filled(T::default(), frame.len())?;
        for (k, sums) in dw.chunks_mut(count).enumerate() {
            let channel = task * some + k;
            sums.fill(T::default());
            for image in 0..shape.batch {
                frame.fill(&x[(image * shape.in_channels + channel / outs) * input..][..input], &mut buffer);
                let g = &g[(image * shape.out_channels + channel) * output..][..output];
                T::framed(isa, FramedJob::Weights { frame: &buffer, taps: &taps, rows, g, sums: &mut *sums });
            }
        }
        Ok(())
    })
}
