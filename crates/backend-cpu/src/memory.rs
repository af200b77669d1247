//! Host memory of a device: aligned to cache lines, zeroed by the system page by page as it is touched, in huge pages
//! where it is large, or adopted from the user's vector where it lies. Must not know what is in it.
use adamant_runtime::{
    ErrorKind, HostVec,
    backend::{ALIGNMENT, Memory, PinnedMemory},
};
use bytemuck::allocation::{try_cast_vec, try_zeroed_vec};
use std::{any::Any, sync::Arc};

/// Memory of the CPU backend.
pub(crate) struct CpuMemory(Store);
enum Store {
    /// Owned: `bytes` from `start` on. Words of 16 bytes and a start of our own, because the system's allocator
    /// gives untouched zero pages only for its natural alignment.
    Own { words: Vec<u128>, start: usize, bytes: usize },
    /// A vector of the user.
    Adopted(HostVec),
    /// Memory that another device pinned.
    Pinned(Arc<dyn PinnedMemory>),
}

impl CpuMemory {
    /// Zeroed memory.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(bytes: usize) -> Result<CpuMemory, ErrorKind> {
        let oom = || ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None };
        let count = bytes.checked_add(ALIGNMENT).ok_or_else(oom)?.div_ceil(16);
        let words: Vec<u128> = try_zeroed_vec(count).map_err(|()| oom())?;
        ask_for_huge_pages(&words);
        let start = words.as_ptr().cast::<u8>().align_offset(ALIGNMENT);
        // Only an interpreter of Rust may decline to tell; then the start is as aligned as a word.
        let start = if start < ALIGNMENT { start } else { 0 };
        Ok(CpuMemory(Store::Own { words, start, bytes }))
    }
    /// Takes over a vector.
    pub fn adopt(data: HostVec) -> CpuMemory {
        // Any byte may be written later, which a vector of bool would not allow.
        let data = match data {
            HostVec::Bool(v) => match try_cast_vec(v) {
                Ok(bytes) => HostVec::U8(bytes),
                Err((_, v)) => HostVec::U8(v.iter().map(|&b| b as u8).collect()),
            },
            other => other,
        };
        CpuMemory(Store::Adopted(data))
    }
    /// Takes over memory that another device pinned.
    pub fn pinned(memory: Arc<dyn PinnedMemory>) -> CpuMemory {
        CpuMemory(Store::Pinned(memory))
    }
    /// The bytes.
    pub fn slice(&self) -> &[u8] {
        match &self.0 {
            Store::Own { words, start, bytes } => &bytemuck::cast_slice(words)[*start..start + bytes],
            Store::Adopted(v) => v.bytes(),
            Store::Pinned(memory) => memory.bytes(),
        }
    }
    /// The bytes, to write.
    pub fn slice_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Store::Own { words, start, bytes } => &mut bytemuck::cast_slice_mut(words)[*start..*start + *bytes],
            // `adopt` leaves no vector of bool.
            Store::Adopted(v) => v.bytes_mut(),
            // While a device copies from it, its buffer has a second owner, and what has two is given to nobody to write.
            Store::Pinned(memory) => Arc::get_mut(memory).map_or(&mut [], |m| m.bytes_mut()),
        }
    }
}
/// A huge page of x86-64, and a multiple of every other page.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;
/// Asks the system to back memory by huge pages as it is touched: the first touch is then several times as fast, and
/// finding a page costs less ever after. A system that has none leaves everything as it was.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn ask_for_huge_pages(words: &[u128]) {
    let start = words.as_ptr().cast::<u8>();
    let lead = start.align_offset(HUGE);
    let whole = size_of_val(words).saturating_sub(lead) / HUGE * HUGE;
    if whole >= 2 * HUGE {
        // SAFETY: the range lies inside the vector. The advice changes neither content nor access of its pages.
        unsafe { libc::madvise(start.add(lead).cast_mut().cast(), whole, libc::MADV_HUGEPAGE) };
    }
}
#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: &[u128]) {}

impl Memory for CpuMemory {
    fn bytes(&self) -> usize {
        self.slice().len()
    }
    fn host(&self) -> Option<&[u8]> {
        Some(self.slice())
    }
    fn pinned(&self) -> Option<Arc<dyn PinnedMemory>> {
        if let Store::Pinned(memory) = &self.0 { Some(memory.clone()) } else { None }
    }
    fn take_host(&mut self) -> Option<HostVec> {
        match &mut self.0 {
            Store::Own { .. } | Store::Pinned(_) => None,
            Store::Adopted(v) => Some(std::mem::replace(v, HostVec::U8(Vec::new()))),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_of_the_size_asked() {
        for bytes in [0, 1, 64, 100, 1 << 20] {
            let mut memory = CpuMemory::new(bytes).unwrap();
            assert_eq!(memory.slice().as_ptr() as usize % 64, 0);
            assert!(memory.slice().len() == bytes && memory.slice().iter().all(|&b| b == 0));
            memory.slice_mut().fill(7);
            assert!(memory.slice().iter().all(|&b| b == 7));
        }
    }
    #[test]
    fn an_impossible_size_is_a_typed_error() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
            assert!(matches!(CpuMemory::new(bytes), Err(ErrorKind::OutOfMemory { asked, .. }) if asked == bytes));
        }
    }
    #[test]
    fn adoption_moves_nothing() {
        let v = vec![1.0f32; 1000];
        let at = v.as_ptr() as usize;
        assert_eq!(CpuMemory::adopt(HostVec::F32(v)).slice().as_ptr() as usize, at);
        let v = vec![true; 100];
        let at = v.as_ptr() as usize;
        let mut m = CpuMemory::adopt(HostVec::Bool(v));
        assert_eq!(m.slice_mut().as_ptr() as usize, at);
    }
}
