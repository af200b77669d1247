//! Gather: elements of a tensor picked by an index tensor along an axis. Whole rows are copied where the index is
//! broadcast along the axes behind it (an embedding).
use super::Call;
use crate::{
    device::Runtime,
    element::{indices, with_bits},
    lines::AxisLines,
    operand::{In, Out, internal},
    simd::stream::{self, ReadAhead, STREAMED},
};
use adamant_runtime::{
    DType, ErrorKind,
    kernel::{Fault, FaultWord},
};

/// An index may be of any integer dtype, and moved elements of any.
pub(super) fn supports(_: &u8, _: &[DType]) -> bool {
    true
}

/// Runs a Gather step. Bad indices give zero and a fault.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run(axis: &u8, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x, index], [out]) = (inputs, outputs) else { return Err(internal("a gather has two inputs and one output")) };
    let (runtime, axis, fault) = (call.runtime, *axis as usize, call.fault);
    if x.shape.rank() != out.shape.rank() || index.shape != out.shape || axis >= out.shape.rank() || x.dtype.size() != out.dtype.size() {
        return Err(internal("a gather of other shapes"));
    }
    if out.shape.elements() == 0 {
        return Ok(());
    }
    let dtype = x.dtype;
    with_bits!(dtype, T => gather::<T>(runtime, axis, x, index, out, fault))
}
fn gather<T: bytemuck::Pod + Send + Sync>(
    runtime: &Runtime,
    axis: usize,
    x: &In<'_>,
    index: &In<'_>,
    out: &mut Out<'_>,
    fault: &FaultWord,
) -> Result<(), ErrorKind> {
    let lines = AxisLines::new(&out.shape, axis, &[&x.layout.strides, &index.layout.strides]);
    let bound = x.shape[axis];
    let along = lines.steps[0];
    let elements = x.elements::<T>()?;
    let read = indices(index.bytes, index.dtype);
    let inner = lines.inner.len();
    let rows_are_whole = lines.inner.is_uniform(1);
    let contiguous = lines.inner.is_dense(0);
    let places = if rows_are_whole && contiguous { Default::default() } else { [lines.inner_offsets(0)?, lines.inner_offsets(1)?] };
    let out: &mut [T] = out.dense()?;
    let rows = (64 * 1024 / inner).max(1);
    let ahead = rows_are_whole && contiguous && inner * size_of::<T>() >= 256;
    let streamed = ahead && size_of_val(out) >= STREAMED;
    // The first bad index in row-major order is reported, whichever task meets one first.
    let worst = parking_lot::Mutex::new(None::<(usize, i64)>);
    runtime.threads.for_chunks_mut(out, rows * inner, |task, out| {
        let mut bad: Option<(usize, i64)> = None;
        // Where what a row picks begins for index 0, and where its first index is.
        let place = |row: usize| {
            let (o, k) = (row / lines.n, (row % lines.n) as isize);
            let at = index.layout.offset as isize + lines.outer.offset(1, o) + k * lines.steps[1];
            (x.layout.offset as isize + lines.outer.offset(0, o), at)
        };
        // A row that lies anywhere is nothing that a processor fetches by itself before its turn.
        let picked = |row: usize| {
            let (from, at) = place(row);
            let i = usize::try_from(read(at as usize)).ok().filter(|&i| i < bound);
            ReadAhead::of(i.map_or(&[], |i| &elements[(from + i as isize * along) as usize..][..inner]))
        };
        let count = out.len() / inner;
        for (r, out) in out.chunks_mut(inner).enumerate() {
            let row = task * rows + r;
            let (from, at) = place(row);
            let next = if ahead && r + 1 < count { picked(row + 1) } else { ReadAhead::of::<T>(&[]) };
            if !streamed {
                next.fetch_all();
            }
            let mut in_range = |j: usize, i: i64| {
                let inside = usize::try_from(i).ok().filter(|&i| i < bound);
                if inside.is_none() {
                    bad.get_or_insert((row * inner + j, i));
                }
                inside
            };
            if rows_are_whole {
                match in_range(0, read(at as usize)) {
                    None => out.fill(T::zeroed()),
                    Some(i) => {
                        let start = from + i as isize * along;
                        if streamed {
                            let row = &elements[start as usize..start as usize + inner];
                            stream::copy(bytemuck::cast_slice(row), bytemuck::cast_slice_mut(out), &[next]);
                        } else if contiguous {
                            out.copy_from_slice(&elements[start as usize..start as usize + inner]);
                        } else {
                            out.iter_mut().zip(&places[0]).for_each(|(o, p)| *o = elements[(start + p) as usize]);
                        }
                    }
                }
                continue;
            }
            for (j, o) in out.iter_mut().enumerate() {
                *o = match in_range(j, read((at + places[1][j]) as usize)) {
                    Some(i) => elements[(from + i as isize * along + places[0][j]) as usize],
                    None => T::zeroed(),
                };
            }
        }
        if streamed {
            stream::publish();
        }
        if let Some(found) = bad {
            let mut worst = worst.lock();
            if worst.is_none_or(|w| found.0 < w.0) {
                *worst = Some(found);
            }
        }
    });
    if let Some((position, index)) = worst.into_inner() {
        fault.set(Fault::Index { index, bound, position });
    }
    Ok(())
}
