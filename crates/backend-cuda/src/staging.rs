//! Pinned memory of the host, through which all bytes go to a device and come from it: a copy from it runs when the stream comes
//! to it, and the host does not wait. A piece is used again when the copy that uses it has passed.
//!
//! A turn of a stream gives pieces back, and whether a piece is free is asked of the streams: so the list is never locked while
//! they are.
use crate::{
    driver::{self, Pinned},
    opened::{CudaContext, Opened},
};
use adamant_runtime::{
    ErrorKind,
    backend::{Event, HostBytes, PinnedMemory},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, slice, sync::Arc};

/// The smallest piece, and the largest that is kept for others.
const LEAST: usize = 64 * 1024;
const LARGEST: usize = 8 * 1024 * 1024;
/// The most bytes that are kept for others, and that copies are under way from before the host waits for the first of them.
const KEPT: usize = 32 * LARGEST;
/// Bytes that one copy takes to the device.
pub(crate) const PIECE: usize = LARGEST;

/// Pieces that are not in use, or will not be when an event has passed.
pub(crate) struct Staging {
    free: Mutex<Vec<(Pinned, Event)>>,
    /// pinned memory of users from which copies are on their way, each until an event has passed
    leaving: Mutex<Vec<(HostBytes, Event)>>,
    users: Arc<UsersPinned>,
    context: Arc<CudaContext>,
}
impl Staging {
    pub fn new(context: &Arc<CudaContext>) -> Staging {
        Staging { free: Mutex::default(), leaving: Mutex::default(), users: Arc::default(), context: context.clone() }
    }
    /// Pinned memory for a user.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn pin(&self, bytes: usize) -> Result<CudaPinned, ErrorKind> {
        let piece = self.fresh(bytes.max(1))?;
        self.users.0.lock().insert(piece.start as usize, piece.bytes);
        Ok(CudaPinned { piece, bytes, users: self.users.clone(), context: self.context.clone() })
    }
    /// The same bytes as pinned memory, where they lie in some that a user has.
    pub fn as_pinned(&self, bytes: &[u8]) -> Option<Pinned> {
        let (from, to) = (bytes.as_ptr() as usize, bytes.as_ptr() as usize + bytes.len());
        let users = self.users.0.lock();
        let (start, length) = users.range(..=from).next_back()?;
        (!bytes.is_empty() && to <= start + length).then(|| Pinned { start: bytes.as_ptr().cast_mut(), bytes: bytes.len() })
    }
    /// Keeps a user's pinned memory until an event has passed, and lets go of what has been waited for.
    pub fn hold(&self, opened: &Opened, bytes: HostBytes, until: Event) {
        self.leaving.lock().push((bytes, until));
        self.let_go(opened);
    }
    /// Lets go of users' pinned memory that no copy needs any more.
    pub fn let_go(&self, opened: &Opened) {
        // What is let go may be pinned memory's last owner: no lock is held then.
        let gone: Vec<_> = self.leaving.lock().extract_if(.., |(_, until)| opened.is_done(*until)).collect();
        drop(gone);
    }
    /// A piece of at least so many bytes, which nobody uses.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn take(&self, opened: &Opened, bytes: usize) -> Result<Pinned, ErrorKind> {
        let size = bytes.next_power_of_two().max(LEAST);
        if size <= LARGEST
            && let Some((piece, after)) = self.free_piece(opened, size)
        {
            return match opened.wait(after) {
                Ok(()) => Ok(piece),
                Err(e) => {
                    self.give(piece, after);
                    Err(e)
                }
            };
        }
        self.fresh(if size <= LARGEST { size } else { bytes })
    }
    /// A piece of this size that is free; with as many as are kept, the one that has been given back first, which may be in use
    /// still.
    fn free_piece(&self, opened: &Opened, size: usize) -> Option<(Pinned, Event)> {
        let (mut fitting, kept) = {
            let mut free = self.free.lock();
            let kept: usize = free.iter().map(|(p, _)| p.bytes).sum();
            let (fitting, others): (Vec<_>, Vec<_>) = free.drain(..).partition(|(p, _)| p.bytes == size);
            *free = others;
            (fitting, kept)
        };
        let ready = fitting.iter().position(|(_, after)| opened.is_done(*after));
        let waited = (kept + size > KEPT && !fitting.is_empty()).then_some(0);
        let found = ready.or(waited).map(|at| fitting.remove(at));
        self.free.lock().extend(fitting);
        found
    }
    /// A piece that was not there before.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn fresh(&self, bytes: usize) -> Result<Pinned, ErrorKind> {
        self.context.call(|| driver::pin(bytes)).map_err(|kind| match kind {
            ErrorKind::OutOfMemory { .. } => ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None },
            other => other,
        })
    }
    /// A piece that nobody needs behind an event.
    pub fn give(&self, piece: Pinned, after: Event) {
        self.free.lock().push((piece, after));
    }
    /// Gives up what is beyond what is kept, and has passed.
    pub fn trim(&self, opened: &Opened) {
        let large = {
            let mut free = self.free.lock();
            if free.iter().map(|(p, _)| p.bytes).sum::<usize>() <= KEPT {
                return;
            }
            let (large, others): (Vec<_>, Vec<_>) = free.drain(..).partition(|(p, _)| p.bytes > LARGEST);
            *free = others;
            large
        };
        let (passed, used): (Vec<_>, Vec<_>) = large.into_iter().partition(|(_, after)| opened.is_done(*after));
        self.free.lock().extend(used);
        for (piece, _) in passed {
            let _ = self.context.call(|| driver::unpin(&piece));
        }
    }
}
impl Drop for Staging {
    fn drop(&mut self) {
        for (piece, _) in self.free.get_mut().drain(..) {
            let _ = self.context.call(|| driver::unpin(&piece));
        }
    }
}
/// Where users' pinned memory begins, and its bytes.
#[derive(Default)]
struct UsersPinned(Mutex<BTreeMap<usize, usize>>);
/// Pinned memory of a user.
pub(crate) struct CudaPinned {
    piece: Pinned,
    bytes: usize,
    users: Arc<UsersPinned>,
    context: Arc<CudaContext>,
}
impl PinnedMemory for CudaPinned {
    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are pinned until this is dropped; the device reads them alone, and who writes them has `&mut`.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.piece.start, self.bytes)
        }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; whatever copies from them on its way holds a share of this, and then nobody has `&mut`.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts_mut(self.piece.start, self.bytes)
        }
    }
}
impl Drop for CudaPinned {
    fn drop(&mut self) {
        self.users.0.lock().remove(&(self.piece.start as usize));
        let _ = self.context.call(|| driver::unpin(&self.piece));
    }
}
