//! A piece of physical memory: its bytes, whether each was written, and what the machine notes of accesses to it. Many
//! threads touch it at once, as blocks of a launch do: each access is one of the processor's own, relaxed.
#![allow(unsafe_code, reason = "memory that many threads touch at once, in accesses of many widths")]
use super::POISON;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

/// The state of a byte that somebody wrote; that of one that nobody wrote is 0.
pub(crate) const WRITTEN: u8 = 1;

/// Bytes that begin as zeros and cost nothing until touched.
pub(crate) struct ZeroedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes belong to this value alone, and all access to them is atomic or copies that the callers keep apart.
unsafe impl Send for ZeroedBytes {}
// SAFETY: as above.
unsafe impl Sync for ZeroedBytes {}

impl ZeroedBytes {
    /// `bytes`, rounded up so that whole words can be read at the end; none if the system has no more.
    pub fn new(bytes: u64) -> Option<ZeroedBytes> {
        let bytes = usize::try_from(bytes.checked_next_multiple_of(16)?.max(16)).ok()?;
        // More than this alignment would make the allocator touch every page.
        let layout = Layout::from_size_align(bytes, 16).ok()?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(ZeroedBytes { start, layout })
    }
    /// The pointer to `bytes` bytes at `at`.
    #[inline(always)]
    fn at(&self, at: u64, bytes: u64) -> *mut u8 {
        assert!(at.saturating_add(bytes) <= self.layout.size() as u64, "an access beyond a chunk");
        // SAFETY: within the allocation, as just checked.
        unsafe { self.start.as_ptr().add(at as usize) }
    }
    #[inline(always)]
    pub fn word8(&self, at: u64) -> &AtomicU8 {
        // SAFETY: in bounds; any bytes are a value; alive as long as `self`.
        unsafe { AtomicU8::from_ptr(self.at(at, 1)) }
    }
    #[inline(always)]
    pub fn word16(&self, at: u64) -> &AtomicU16 {
        // SAFETY: in bounds, and aligned: the start is, and `at` is made so.
        unsafe { AtomicU16::from_ptr(self.at(at & !1, 2).cast()) }
    }
    #[inline(always)]
    pub fn word32(&self, at: u64) -> &AtomicU32 {
        // SAFETY: in bounds, and aligned: the start is, and `at` is made so.
        unsafe { AtomicU32::from_ptr(self.at(at & !3, 4).cast()) }
    }
    #[inline(always)]
    pub fn word64(&self, at: u64) -> &AtomicU64 {
        // SAFETY: in bounds, and aligned: the start is, and `at` is made so.
        unsafe { AtomicU64::from_ptr(self.at(at & !7, 8).cast()) }
    }
    fn copy_out(&self, at: u64, to: &mut [u8]) {
        let from = self.at(at, to.len() as u64);
        // SAFETY: both are that long, and apart: a slice of the caller's is no part of an allocation of ours.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }
    fn copy_in(&self, at: u64, from: &[u8]) {
        let to = self.at(at, from.len() as u64);
        // SAFETY: both are that long, and apart: a slice of the caller's is no part of an allocation of ours.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }
    pub fn fill(&self, at: u64, bytes: u64, value: u8) {
        let to = self.at(at, bytes);
        // SAFETY: in bounds.
        unsafe { std::ptr::write_bytes(to, value, bytes as usize) }
    }
}

impl Drop for ZeroedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody else has it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A piece of physical memory.
pub(crate) struct MemoryChunk {
    bytes: u64,
    data: ZeroedBytes,
    /// One byte for each: 0 or `WRITTEN`.
    written: ZeroedBytes,
    /// What the machine notes of accesses, made when it first asks.
    notes: OnceLock<Option<ZeroedBytes>>,
    in_use: Arc<AtomicU64>,
}

impl MemoryChunk {
    /// Memory of `bytes`, counted in `in_use` by the caller and taken out of it when it ends.
    pub fn new(bytes: u64, in_use: Arc<AtomicU64>) -> Option<MemoryChunk> {
        // The last bytes may be read as a whole word; of the data that is harmless, of `written` it is 0.
        Some(MemoryChunk { bytes, data: ZeroedBytes::new(bytes)?, written: ZeroedBytes::new(bytes)?, notes: OnceLock::new(), in_use })
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn data(&self) -> &ZeroedBytes {
        &self.data
    }
    /// A number that no other byte of any chunk that is alive has: where it is mapped is another matter.
    pub fn place(&self, at: u64) -> u64 {
        self.data.start.addr().get() as u64 + at
    }
    pub fn written(&self) -> &ZeroedBytes {
        &self.written
    }
    /// `per_word` bytes of notes for each four bytes; none if the system has no more memory.
    pub fn notes(&self, per_word: u64) -> Option<&ZeroedBytes> {
        self.notes.get_or_init(|| ZeroedBytes::new(self.bytes.div_ceil(4).checked_mul(per_word)?)).as_ref()
    }
    /// The notes, if the machine ever asked for them.
    pub fn notes_so_far(&self) -> Option<&ZeroedBytes> {
        self.notes.get()?.as_ref()
    }
    pub fn read(&self, at: u64, to: &mut [u8]) {
        self.data.copy_out(at, to);
        for (k, byte) in to.iter_mut().enumerate() {
            if self.written.word8(at + k as u64).load(Relaxed) == 0 {
                *byte = POISON;
            }
        }
    }
    pub fn write(&self, at: u64, from: &[u8]) {
        self.data.copy_in(at, from);
        self.written.fill(at, from.len() as u64, WRITTEN);
    }
    /// Reads bytes and their states.
    pub fn take(&self, at: u64, data: &mut [u8], written: &mut [u8]) {
        self.data.copy_out(at, data);
        self.written.copy_out(at, written);
    }
    /// Writes bytes and their states.
    pub fn put(&self, at: u64, data: &[u8], written: &[u8]) {
        self.data.copy_in(at, data);
        self.written.copy_in(at, written);
    }
    pub fn forget(&self, at: u64, bytes: u64) {
        self.written.fill(at, bytes, 0);
    }
    pub fn is_written(&self, at: u64, bytes: u64) -> bool {
        (at..at + bytes).all(|k| self.written.word8(k).load(Relaxed) == WRITTEN)
    }
}

impl Drop for MemoryChunk {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.bytes, Relaxed);
    }
}
