//! Copies between strided layouts: whole runs where both sides have them, square blocks where they are transposed.
use crate::{
    device::Runtime,
    gemm::Accumulator,
    isa::Isa,
    nest::{Nest, Strides, offset, runs},
    operand::{In, Out, internal, whole_mut},
    simd::stream::{self, EqualLines, STREAMED},
};
use adamant_runtime::{ErrorKind, MAX_RANK, Shape};
use smallvec::SmallVec;

/// Elements below which a copy is one task.
const TASK: usize = 24 * 1024;
/// Side of a transposed block: it is written transposed into a place of its own in the L1 cache, because its lines lie a power of two
/// apart all too often, where few of them fit in a cache side by side.
pub(crate) const SIDE: usize = 64;

/// Runs a Copy step.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, space: &Shape, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([from], [to]) = (inputs, outputs) else { return Err(internal("a copy has one input and one output")) };
    if from.dtype.size() != to.dtype.size() || *from.shape != **space && from.shape.elements() != space.elements() {
        return Err(internal("a copy between different elements"));
    }
    if space.elements() == 0 {
        return Ok(());
    }
    // In the order of the output's memory.
    let mut axes: SmallVec<[usize; MAX_RANK]> = (0..space.rank()).filter(|&a| space[a] != 1).collect();
    axes.sort_by_key(|&a| std::cmp::Reverse(to.layout.strides[a].unsigned_abs()));
    let mut nest = Nest::new(space, axes.into_iter(), &[&from.layout.strides, &to.layout.strides]);
    let mut offsets = [from.layout.offset, to.layout.offset];
    let size = from.dtype.size();
    match size * together(&mut nest, &mut offsets, size, [from.bytes.as_ptr().addr(), to.bytes.as_ptr().addr()]) {
        1 => copy::<u8>(runtime, &nest, from.elements()?, whole_mut(to.bytes)?, offsets),
        2 => copy::<u16>(runtime, &nest, from.elements()?, whole_mut(to.bytes)?, offsets),
        4 => copy::<u32>(runtime, &nest, from.elements()?, whole_mut(to.bytes)?, offsets),
        8 => copy::<u64>(runtime, &nest, from.elements()?, whole_mut(to.bytes)?, offsets),
        _ => copy::<u128>(runtime, &nest, from.elements()?, whole_mut(to.bytes)?, offsets),
    }
}
/// The largest element that is moved at once, in bytes.
const WORD: usize = size_of::<u128>();
/// Elements that lie side by side on both sides and move together, as the two parts of a complex number do, are one element: the
/// nest loses that axis. How many they are; 1 if they do not.
fn together(nest: &mut Nest, offsets: &mut [usize; 2], size: usize, addresses: [usize; 2]) -> usize {
    let last = nest.dims.len() - 1;
    let count = nest.dims[last];
    let bytes = count * size;
    let outer = || nest.strides.iter().flat_map(|s| &s[..last]);
    let fits = last > 0 && count > 1 && bytes <= WORD && bytes.is_power_of_two() && nest.strides.iter().all(|s| s[last] == 1);
    let lies = addresses.iter().all(|at| at % bytes == 0) && offsets.iter().all(|at| at % count == 0);
    if !(fits && lies && outer().all(|s| s % count as isize == 0)) {
        return 1;
    }
    nest.dims.truncate(last);
    for stride in nest.strides.iter_mut().flat_map(|s| &mut s[..last]) {
        *stride /= count as isize;
    }
    for at in offsets {
        *at /= count;
    }
    count
}
fn copy<T: bytemuck::Pod + Send + Sync>(runtime: &Runtime, nest: &Nest, from: &[T], to: &mut [T], [from_at, to_at]: [usize; 2]) -> Result<(), ErrorKind> {
    let n = nest.len();
    let how = TransposeHow { isa: runtime.isa, streamed: n * size_of::<T>() >= STREAMED };
    let (source, target) = (nest.strides[0], nest.strides[1]);
    // One part of the outermost axis stays within its stride: parts of the output are slices of their own.
    let within: isize = 1 + nest.dims[1..].iter().zip(&target[1..]).map(|(&d, &s)| (d as isize - 1) * s).sum::<isize>();
    let upward = target[..nest.dims.len()].iter().all(|&s| s > 0);
    if runtime.threads.count() == 1 || n < 2 * TASK || !upward || within > target[0] || nest.dims[0] == 1 {
        part(how, nest, &nest.dims, &source, &target, from, from_at as isize, to, to_at as isize);
        return Ok(());
    }
    let per = n / nest.dims[0];
    let rows = nest.dims[0].div_ceil(runtime.threads.count() * 4).max(TASK.div_ceil(per));
    let mut parts = Vec::new();
    let (mut first, mut rest, mut taken) = (0, to, 0);
    while first < nest.dims[0] {
        let count = rows.min(nest.dims[0] - first);
        let start = to_at + first * target[0] as usize;
        let end = start + (count - 1) * target[0] as usize + within as usize;
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(end - taken);
        let skip = start - taken;
        parts.push((first, count, &mut head[skip..]));
        (rest, taken) = (tail, end);
        first += count;
    }
    runtime.threads.for_parts(parts, |_, (first, count, to)| {
        let mut dims = nest.dims.clone();
        dims[0] = count;
        part(how, nest, &dims, &source, &target, from, from_at as isize + first as isize * source[0], to, 0);
    });
    Ok(())
}
/// With which instructions blocks are transposed, and whether they are written by non-temporal stores.
#[derive(Clone, Copy)]
struct TransposeHow {
    isa: Isa,
    streamed: bool,
}
#[allow(clippy::too_many_arguments)]
fn part<T: bytemuck::Pod>(
    how: TransposeHow,
    nest: &Nest,
    dims: &[usize],
    source: &Strides,
    target: &Strides,
    from: &[T],
    from_at: isize,
    to: &mut [T],
    to_at: isize,
) {
    debug_assert!(dims.len() == nest.dims.len());
    let rank = dims.len();
    let inner = rank - 1;
    let n: usize = dims.iter().product();
    // The axis along which the input is contiguous, if it is another than the output's.
    let transposed = (0..inner).rev().find(|&a| source[a] == 1).filter(|_| source[inner] != 1 && target[inner] == 1 && dims[inner] >= 8);
    if let Some(a) = transposed {
        let mut outer: SmallVec<[usize; MAX_RANK]> = SmallVec::from_slice(&dims[..inner]);
        outer[a] = 1;
        let total: usize = outer.iter().product();
        let (rows, columns) = (dims[a], dims[inner]);
        for o in 0..total {
            let (s, t) = (from_at + offset(&outer, source, o), to_at + offset(&outer, target, o));
            transpose(how, from, s, source[inner], to, t, target[a], rows, columns);
        }
        if how.streamed {
            stream::publish();
        }
        return;
    }
    // Few elements side by side, again and again without a gap.
    if inner > 0 && dims[inner] <= FEW && target[inner] == 1 && target[inner - 1] == dims[inner] as isize {
        let lines = &dims[..inner - 1];
        for o in 0..lines.iter().product() {
            let (s, t) = (from_at + offset(lines, source, o), to_at + offset(lines, target, o));
            let to = &mut to[t as usize..][..dims[inner - 1] * dims[inner]];
            interleave(from, s, [source[inner - 1], source[inner]], to, dims[inner]);
        }
        return;
    }
    // Both sides are cut at the same inner lines, so their runs go in step.
    let mut places: SmallVec<[isize; 64]> = SmallVec::new();
    let mut at = 0;
    let lines = (64 * dims[inner]).max(1);
    while at < n {
        let count = lines.min(n - at);
        places.clear();
        runs(dims, source, at, count, |_, _, offset, _| places.push(offset));
        let mut line = 0;
        runs(dims, target, at, count, |_, count, offset, stride| {
            let (s, t) = (from_at + places[line], to_at + offset);
            line += 1;
            run_of(from, s, source[inner], to, t, stride, count);
        });
        at += count;
    }
}
/// Up to so many elements side by side are no run of their own.
const FEW: usize = 8;
/// `to[k * count + j] = from[s + k * along + j * across]` for j < count.
fn interleave<T: Copy>(from: &[T], s: isize, [along, across]: [isize; 2], to: &mut [T], count: usize) {
    match (count, along) {
        (2, 1) => interleave_lines::<T, 2>(from, s, across, to),
        (3, 1) => interleave_lines::<T, 3>(from, s, across, to),
        (4, 1) => interleave_lines::<T, 4>(from, s, across, to),
        _ => {
            for (k, to) in to.chunks_exact_mut(count).enumerate() {
                let first = s + k as isize * along;
                to.iter_mut().enumerate().for_each(|(j, to)| *to = from[(first + j as isize * across) as usize]);
            }
        }
    }
}
/// One of each line, then the next ones.
fn interleave_lines<T: Copy, const N: usize>(from: &[T], s: isize, across: isize, to: &mut [T]) {
    let (to, _) = to.as_chunks_mut::<N>();
    let lines: [&[T]; N] = std::array::from_fn(|j| &from[(s + j as isize * across) as usize..][..to.len()]);
    for (k, to) in to.iter_mut().enumerate() {
        *to = std::array::from_fn(|j| lines[j][k]);
    }
}
fn run_of<T: Copy>(from: &[T], s: isize, source: isize, to: &mut [T], t: isize, target: isize, count: usize) {
    if target == 1 {
        let to = &mut to[t as usize..t as usize + count];
        match source {
            1 => to.copy_from_slice(&from[s as usize..s as usize + count]),
            0 => to.fill(from[s as usize]),
            _ => to.iter_mut().enumerate().for_each(|(k, o)| *o = from[(s + k as isize * source) as usize]),
        }
        return;
    }
    if target > 1 && matches!(source, 0 | 1) {
        let line = &from[s as usize..][..if source == 0 { 1 } else { count }];
        let to = &mut to[t as usize..][..(count - 1) * target as usize + 1];
        return match target {
            2 => spaced::<T, 2>(line, to),
            3 => spaced::<T, 3>(line, to),
            4 => spaced::<T, 4>(line, to),
            _ => to.chunks_mut(target as usize).zip(line.iter().cycle()).for_each(|(to, v)| to[0] = *v),
        };
    }
    for k in 0..count as isize {
        to[(t + k * target) as usize] = from[(s + k * source) as usize];
    }
}
/// A line, or one element again and again, to every `N`-th place.
fn spaced<T: Copy, const N: usize>(line: &[T], to: &mut [T]) {
    let (places, last) = to.as_chunks_mut::<N>();
    match line {
        [one] => places.iter_mut().for_each(|to| to[0] = *one),
        _ => places.iter_mut().zip(line).for_each(|(to, v)| to[0] = *v),
    }
    if let (Some(to), Some(v)) = (last.first_mut(), line.last()) {
        *to = *v;
    }
}
/// `to[t + i * row + j] = from[s + j * column + i]` for i < rows, j < columns, by blocks that stay in cache.
#[allow(clippy::too_many_arguments)]
fn transpose<T: bytemuck::Pod>(how: TransposeHow, from: &[T], s: isize, column: isize, to: &mut [T], t: isize, row: isize, rows: usize, columns: usize) {
    if row > 0 && rows * columns < SIDE * SIDE {
        return turn(how.isa, from, s, column, &mut to[t as usize..], row as usize, columns, rows);
    }
    let mut block = SquareBlock([T::zeroed(); SIDE * SIDE]);
    let block = &mut block.0;
    // Along the lines of the input: a processor follows what is read, and what is written waits for nobody.
    for j0 in (0..columns).step_by(SIDE) {
        let width = SIDE.min(columns - j0);
        for i0 in (0..rows).step_by(SIDE) {
            let height = SIDE.min(rows - i0);
            turn(how.isa, from, s + j0 as isize * column + i0 as isize, column, block, SIDE, width, height);
            let start = (t + i0 as isize * row) as usize + j0;
            if how.streamed && row > 0 {
                // The block that comes next: to the right, or the first of those below.
                let (i, j) = if i0 + SIDE < rows { (i0 + SIDE, j0) } else { (0, j0 + SIDE) };
                let soon = from.as_ptr().wrapping_offset(s + j as isize * column + i as isize);
                let lines = EqualLines { from: &*block, step: SIDE, length: width, count: height };
                stream::lines(lines, &mut to[start..], row as usize, (soon, column));
            } else {
                for (i, line) in block.chunks_exact(SIDE).enumerate().take(height) {
                    let start = (start as isize + i as isize * row) as usize;
                    to[start..start + width].copy_from_slice(&line[..width]);
                }
            }
        }
    }
}
/// A block on its way to lines of its own.
#[repr(align(64))]
struct SquareBlock<T>([T; SIDE * SIDE]);
/// `to[c * to_stride + r] = from[s + r * stride + c]`: in vectors of floats where elements are as large as those, whose
/// bits stay as they are.
#[allow(clippy::too_many_arguments)]
pub(crate) fn turn<T: bytemuck::Pod>(isa: Isa, from: &[T], s: isize, stride: isize, to: &mut [T], to_stride: usize, rows: usize, columns: usize) {
    match size_of::<T>() {
        4 if stride > 0 => {
            let (from, to) = (bytemuck::cast_slice(&from[s as usize..]), bytemuck::cast_slice_mut(to));
            f32::context(isa).transpose(from, stride as usize, to, to_stride, rows, columns);
        }
        8 if stride > 0 => {
            let (from, to) = (bytemuck::cast_slice(&from[s as usize..]), bytemuck::cast_slice_mut(to));
            f64::context(isa).transpose(from, stride as usize, to, to_stride, rows, columns);
        }
        _ => {
            for r in 0..rows {
                let line = &from[(s + r as isize * stride) as usize..][..columns];
                for (c, &v) in line.iter().enumerate() {
                    to[c * to_stride + r] = v;
                }
            }
        }
    }
}
