//! Memory that a kernel needs while it runs, as large as its operands make it. Where the system has no more, the kernel
//! answers with the error that a missing result would give; core sees to it that nothing is lost by then.
use adamant_runtime::{
    ErrorKind, bf16, f16,
    recycle::{SpareLists, emptied, give_back, take},
};
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    thread::LocalKey,
};

/// An empty list with capacity for `n` elements, which the thread keeps from one kernel to the next.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn scratch_vec<T: KeptElement>(n: usize) -> Result<ScratchVec<T>, ErrorKind> {
    let mut scratch = ScratchVec(take(T::spare_vecs()));
    reserve(&mut scratch.0, n)?;
    Ok(scratch)
}
/// As [`scratch_vec`], of what no thread keeps.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn list<T>(n: usize) -> Result<Vec<T>, ErrorKind> {
    let mut list = Vec::new();
    reserve(&mut list, n)?;
    Ok(list)
}
/// Capacity for `n` elements in all.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn reserve<T>(scratch: &mut Vec<T>, n: usize) -> Result<(), ErrorKind> {
    let more = n.saturating_sub(scratch.len());
    scratch.try_reserve_exact(more).map_err(|_| refused::<T>(more))
}
/// Calls `f` with a buffer of this thread. It is taken out while in use, so that a kernel inside of another gets one of its own,
/// of which there is one.
pub(crate) fn with_buffer<T: Default, R>(buffers: &'static LocalKey<RefCell<Vec<T>>>, f: impl FnOnce(&mut T) -> R) -> R {
    // A thread that ends keeps none.
    let mut buffer = buffers.try_with(|kept| kept.borrow_mut().pop()).ok().flatten().unwrap_or_default();
    let result = f(&mut buffer);
    let _ = buffers.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < 2 {
            kept.push(buffer)
        }
    });
    result
}
fn refused<T>(n: usize) -> ErrorKind {
    ErrorKind::OutOfMemory { asked: n.saturating_mul(size_of::<T>()), in_use: 0, cap: None }
}
/// As [`list`], of what there is rarely more of than `N`, which take no memory.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn few<T, const N: usize>(n: usize) -> Result<SmallVec<[T; N]>, ErrorKind> {
    let mut few = SmallVec::new();
    few.try_reserve(n).map_err(|_| refused::<T>(n))?;
    Ok(few)
}
/// `n` times `value`.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn filled<T: KeptElement>(value: T, n: usize) -> Result<ScratchVec<T>, ErrorKind> {
    let mut all = scratch_vec(n)?;
    all.0.resize(n, value);
    Ok(all)
}
/// What a kernel needs while it runs.
#[derive(Debug)]
pub(crate) struct ScratchVec<T: KeptElement>(Vec<T>);
impl<T: KeptElement> Default for ScratchVec<T> {
    fn default() -> ScratchVec<T> {
        ScratchVec(Vec::new())
    }
}
impl<T: KeptElement> Deref for ScratchVec<T> {
    type Target = Vec<T>;
    #[inline(always)]
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}
impl<T: KeptElement> DerefMut for ScratchVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}
impl<'a, T: KeptElement> IntoIterator for &'a ScratchVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
impl<'a, T: KeptElement> IntoIterator for &'a mut ScratchVec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
impl<T: KeptElement> Drop for ScratchVec<T> {
    fn drop(&mut self) {
        give_back(T::spare_vecs(), std::mem::take(&mut self.0));
    }
}
/// An empty list with capacity for `n` parts of what a kernel writes.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn parts<'a, T: KeptElement>(n: usize) -> Result<ScratchParts<'a, T>, ErrorKind> {
    let mut parts = ScratchParts(emptied(take(T::spare_parts())));
    reserve(&mut parts.0, n)?;
    Ok(parts)
}
/// Parts of what a kernel writes.
pub(crate) struct ScratchParts<'a, T: KeptElement>(Vec<&'a mut [T]>);
impl<'a, T: KeptElement> Deref for ScratchParts<'a, T> {
    type Target = Vec<&'a mut [T]>;
    fn deref(&self) -> &Vec<&'a mut [T]> {
        &self.0
    }
}
impl<'a, T: KeptElement> DerefMut for ScratchParts<'a, T> {
    fn deref_mut(&mut self) -> &mut Vec<&'a mut [T]> {
        &mut self.0
    }
}
impl<T: KeptElement> Drop for ScratchParts<'_, T> {
    fn drop(&mut self) {
        give_back(T::spare_parts(), emptied(std::mem::take(&mut self.0)));
    }
}
/// Elements of lists whose memory is kept.
pub trait KeptElement: Copy + 'static {
    fn spare_vecs() -> &'static LocalKey<SpareLists<Vec<Self>>>;
    fn spare_parts() -> &'static LocalKey<SpareLists<Vec<&'static mut [Self]>>>;
}
/// Lists of these keep their memory.
macro_rules! kept {
    ($($t:ty),*) => { $(
        impl $crate::scratch::KeptElement for $t {
            fn spare_vecs() -> &'static std::thread::LocalKey<adamant_runtime::recycle::SpareLists<Vec<$t>>> {
                thread_local! {
                    static SPARE: adamant_runtime::recycle::SpareLists<Vec<$t>> = const { std::cell::RefCell::new(Vec::new()) };
                }
                &SPARE
            }
            fn spare_parts() -> &'static std::thread::LocalKey<adamant_runtime::recycle::SpareLists<Vec<&'static mut [$t]>>> {
                thread_local! {
                    static SPARE: adamant_runtime::recycle::SpareLists<Vec<&'static mut [$t]>> = const { std::cell::RefCell::new(Vec::new()) };
                }
                &SPARE
            }
        }
    )* };
}
kept!(f32, f64, f16, bf16, i8, u8, i16, i32, u32, i64, u64, usize, isize, bool, Option<u8>);
pub(crate) use kept;
/// The items, of which there are `n`.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn collected<T: KeptElement>(n: usize, items: impl Iterator<Item = T>) -> Result<ScratchVec<T>, ErrorKind> {
    let mut all = scratch_vec(n)?;
    all.0.extend(items.take(n));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_machine_has_ends_the_process() {
        let oom = |e: ErrorKind| matches!(e, ErrorKind::OutOfMemory { .. });
        assert!(oom(filled(0f32, usize::MAX).err().unwrap()) && oom(scratch_vec::<i64>(1 << 60).err().unwrap()) && oom(list::<u64>(1 << 60).unwrap_err()));
        assert!(oom(few::<u64, 2>(1 << 60).unwrap_err()) && few::<u64, 2>(2).unwrap().capacity() == 2);
        assert!(oom(collected(1 << 60, std::iter::once(0i64)).err().unwrap()));
        assert_eq!((filled(3u8, 2).unwrap().to_vec(), collected(2, 0..9usize).unwrap().to_vec()), (vec![3, 3], vec![0, 1]));
    }
}
