//! Memory that all ranks of a group see, and everything that is unsafe about it.
//!
//! | ranks are | the memory is |
//! |---|---|
//! | threads of one process | anonymous |
//! | processes (Linux) | a memory file without a name, sealed against shrinking, which the others open by `/proc/PID/fd/FD` while it is set up |
//!
//! Nothing of it has a name, so nothing is left when the ranks are gone, however they went.
//!
//! Who writes where, and when, is not known here: callers take turns as [`super::stage`] and [`super::ring`] say. Places are computed
//! from the group's size alone, never from what lies in the memory, and are checked.
#![allow(unsafe_code)]
use super::{
    ring::{RingBytes, RingWords},
    word::SharedWord,
};
use crate::ErrorKind;
use memmap2::{MmapOptions, MmapRaw};
use std::sync::{Arc, atomic::AtomicU64};

/// Shared memory, zeroed when it is made.
pub(crate) struct SharedSegment {
    map: MmapRaw,
    #[cfg(target_os = "linux")]
    file: Option<std::fs::File>,
}
fn failed(what: &str, e: impl std::fmt::Display) -> ErrorKind {
    ErrorKind::Argument(format!("shared memory: {what}: {e}"))
}
impl SharedSegment {
    /// For threads of this process.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn anonymous(bytes: usize) -> Result<Arc<SharedSegment>, ErrorKind> {
        let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().map_err(|e| failed("it cannot be had", e))?;
        Ok(Arc::new(SharedSegment {
            map: map.into(),
            #[cfg(target_os = "linux")]
            file: None,
        }))
    }
    /// For other processes too; `at_once` bytes of it are there at once, the rest when it is first written.
    ///
    /// # Errors
    /// No memory; systems other than Linux.
    #[cfg(target_os = "linux")]
    pub(crate) fn shared(bytes: usize, at_once: usize) -> Result<Arc<SharedSegment>, ErrorKind> {
        use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create};
        let file = memfd_create("adamant-ranks", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(|e| failed("it cannot be made", e))?;
        ftruncate(&file, bytes as u64).map_err(|e| failed("it cannot be sized", e))?;
        // A page that cannot be had when it is written would end the process.
        fallocate(&file, FallocateFlags::empty(), 0, at_once.min(bytes) as u64).map_err(|e| failed("there is not enough", e))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(|e| failed("it cannot be sealed", e))?;
        SharedSegment::of_file(file.into(), bytes)
    }
    /// What another process made.
    ///
    /// # Errors
    /// It cannot be opened, or is something else.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(process: u32, descriptor: i32, bytes: usize) -> Result<Arc<SharedSegment>, ErrorKind> {
        use rustix::fs::{SealFlags, fcntl_get_seals};
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).map_err(|e| failed(&path, e))?;
        let length = file.metadata().map_err(|e| failed(&path, e))?.len();
        let seals = fcntl_get_seals(&file).map_err(|e| failed(&path, e))?;
        if length != bytes as u64 || !seals.contains(SealFlags::SHRINK) {
            return Err(failed(&path, "it is not what was to be opened"));
        }
        SharedSegment::of_file(file, bytes)
    }
    #[cfg(target_os = "linux")]
    fn of_file(file: std::fs::File, bytes: usize) -> Result<Arc<SharedSegment>, ErrorKind> {
        let map = MmapOptions::new().len(bytes).map_raw(&file).map_err(|e| failed("it cannot be mapped", e))?;
        Ok(Arc::new(SharedSegment { map, file: Some(file) }))
    }
    /// The descriptor by which others open it.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> i32 {
        use std::os::fd::AsRawFd;
        self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
    /// The pointer to a place that has so many bytes left.
    #[inline]
    fn at(&self, place: usize, bytes: usize) -> *mut u8 {
        assert!(place.checked_add(bytes).is_some_and(|end| end <= self.map.len()), "a place beyond the shared memory");
        // SAFETY: it lies in the mapping, as was just seen.
        unsafe { self.map.as_mut_ptr().add(place) }
    }
    fn object<T>(&self, place: usize) -> &T {
        let pointer = self.at(place, size_of::<T>()).cast::<T>();
        assert!(pointer.is_aligned(), "a place that is not aligned");
        // SAFETY: in the mapping and aligned; only called for types that are atomics throughout, of which all bits are a value.
        unsafe { &*pointer }
    }
    /// The number at a place.
    pub(crate) fn word(&self, place: usize) -> &SharedWord {
        self.object(place)
    }
    /// The two numbers of a ring.
    pub(crate) fn ring_words(&self, place: usize) -> &RingWords {
        self.object(place)
    }
    /// A number that nobody waits for.
    pub(crate) fn number(&self, place: usize) -> &AtomicU64 {
        self.object(place)
    }
    /// Writes bytes. Nobody may read or write them until a word is published that says so.
    #[inline]
    pub(crate) fn write(&self, place: usize, bytes: &[u8]) {
        // SAFETY: in the mapping; by the protocol nobody else touches the place now, and `bytes` are not shared memory.
        unsafe { self.at(place, bytes.len()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
    /// Reads bytes, which nobody may write meanwhile.
    #[inline]
    pub(crate) fn bytes(&self, place: usize, n: usize) -> &[u8] {
        // SAFETY: in the mapping, which `self` keeps; by the protocol nobody writes the place before this rank's next stage. A process
        // that breaks the protocol can change what is read, not where.
        unsafe { std::slice::from_raw_parts(self.at(place, n), n) }
    }
}

/// The bytes of a ring in shared memory.
pub(crate) struct SegmentRing<'s> {
    pub(crate) segment: &'s SharedSegment,
    pub(crate) place: usize,
    pub(crate) len: usize,
}
impl RingBytes for SegmentRing<'_> {
    fn len(&self) -> usize {
        self.len
    }
    fn put(&self, at: usize, bytes: &[u8]) {
        self.segment.write(self.place + at, bytes);
    }
    fn take(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.segment.bytes(self.place + at, bytes.len()));
    }
}
