//! The one place where MPI is called from: a thread at a time, and no buffer is given back that MPI may still use.
//!
//! - **One thread at a time.** MPI is asked for `MPI_THREAD_SERIALIZED`; every call is made by whoever holds the [`MpiTurn`].
//! - **Received into buffers of this crate alone**, which are given away when the request is done and never before.
//! - **Sent from where the bytes lie**, which are borrowed as long as the call lasts. A call that fails may leave such requests
//!   behind, as nobody can take back what a lost peer was to fetch: then the wire is *dead*, and MPI is not called again by this process, so
//!   nothing of its own reads those bytes later. (The peer's kernel or network card may; it gets other bytes or an error, of a message
//!   whose call has failed.)
//!
//! [`PendingRequest`] is never forgotten (`mem::forget`) in this crate: dropped with its request open it makes the wire dead.
use crate::{
    abi::Predefined,
    functions::{MpiFunctions, MpiRequest, MpiResult},
};
use adamant_ir::ErrorKind;
use parking_lot::{Mutex, MutexGuard};
use std::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

/// The library's functions, and whose turn it is. One a process, for as long as it lives.
pub(crate) struct Wire {
    mpi: Mutex<Box<dyn MpiFunctions>>,
    is_dead: AtomicBool,
    why: Mutex<Option<ErrorKind>>,
}
impl Wire {
    pub(crate) fn new(mpi: Box<dyn MpiFunctions>) -> Wire {
        Wire { mpi: Mutex::new(mpi), is_dead: AtomicBool::new(false), why: Mutex::new(None) }
    }
    /// From now on nobody calls MPI in this process.
    pub(crate) fn kill(&self, why: &ErrorKind) {
        self.why.lock().get_or_insert_with(|| why.clone());
        self.is_dead.store(true, SeqCst);
    }
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(SeqCst)
    }
    /// The right to call MPI; none in so long.
    ///
    /// # Errors
    /// The wire is dead.
    pub(crate) fn turn(&'static self, patience: Duration) -> Result<Option<MpiTurn>, ErrorKind> {
        let mpi = self.mpi.try_lock_for(patience);
        if self.is_dead() {
            let why = self.why.lock().clone();
            return Err(why.unwrap_or_else(|| ErrorKind::Internal("MPI is called no more".into())));
        }
        Ok(mpi.map(|mpi| MpiTurn { wire: self, mpi }))
    }
}

/// A request whose bytes MPI may read or write until it is done.
pub(crate) struct PendingRequest<'b> {
    wire: &'static Wire,
    request: Option<MpiRequest>,
    /// a buffer of its own
    buffer: Option<*mut [u8]>,
    /// Can it be cancelled?
    receives: bool,
    /// bytes of somebody else's, which it reads
    reads: PhantomData<&'b [u8]>,
}
// SAFETY: the pointer is a box that it alone owns.
unsafe impl Send for PendingRequest<'_> {}
impl PendingRequest<'_> {
    /// Its buffer, if it is done.
    pub(crate) fn into_buffer(mut self) -> Option<Box<[u8]>> {
        self.request.is_none().then(|| self.take_buffer()).flatten()
    }
    fn take_buffer(&mut self) -> Option<Box<[u8]>> {
        // SAFETY: it was a box when it was given, and is taken once; callers have seen that MPI is done with it.
        self.buffer.take().map(|buffer| unsafe { Box::from_raw(buffer) })
    }
}
impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if self.request.is_some() {
            // The buffer is never given back: MPI may still write there.
            self.wire.kill(&ErrorKind::Internal("an earlier call failed and left MPI with a message that nobody fetches".into()));
        } else {
            drop(self.take_buffer());
        }
    }
}

/// The right to call MPI, which one thread has at a time.
pub(crate) struct MpiTurn {
    wire: &'static Wire,
    mpi: MutexGuard<'static, Box<dyn MpiFunctions>>,
}
impl MpiTurn {
    fn pending<'b>(&self, request: MpiResult<MpiRequest>, buffer: Option<*mut [u8]>) -> MpiResult<PendingRequest<'b>> {
        // One that did not begin drops its buffer.
        let mut pending = PendingRequest { wire: self.wire, request: None, buffer, receives: false, reads: PhantomData };
        pending.request = Some(request?);
        Ok(pending)
    }
    /// Sends bytes that stay where they are until it is done.
    pub(crate) fn send<'b>(&self, comm: usize, to: usize, tag: i32, bytes: &'b [u8]) -> MpiResult<PendingRequest<'b>> {
        // SAFETY: it is this thread's turn; the bytes are borrowed for as long as the request lives, or the wire is dead after.
        let request = unsafe { self.mpi.begin_send(bytes.as_ptr(), bytes.len(), to, tag, comm) };
        self.pending(request, None)
    }
    /// Sends the first bytes of a buffer that it takes.
    pub(crate) fn send_owned(&self, comm: usize, to: usize, tag: i32, bytes: Box<[u8]>, n: usize) -> MpiResult<PendingRequest<'static>> {
        let (n, buffer) = (n.min(bytes.len()), Box::into_raw(bytes));
        // SAFETY: it is this thread's turn; the buffer is given back when the request is done, else never.
        let request = unsafe { self.mpi.begin_send(buffer.cast(), n, to, tag, comm) };
        self.pending(request, Some(buffer))
    }
    /// Receives into the first bytes of a buffer that it takes.
    pub(crate) fn receive(&self, comm: usize, from: usize, tag: i32, buffer: Box<[u8]>, n: usize) -> MpiResult<PendingRequest<'static>> {
        let (n, buffer) = (n.min(buffer.len()), Box::into_raw(buffer));
        // SAFETY: as above.
        let request = unsafe { self.mpi.begin_receive(buffer.cast(), n, from, tag, comm) };
        let mut pending = self.pending(request, Some(buffer))?;
        pending.receives = true;
        Ok(pending)
    }
    /// Adds up by MPI's own sum: `own` of all ranks into the buffer that it takes.
    pub(crate) fn begin_sum<'b>(&self, comm: usize, own: &'b [u8], dtype: Predefined, element: usize, buffer: Box<[u8]>) -> MpiResult<PendingRequest<'b>> {
        if own.len() > buffer.len() {
            return Err(format!("{} bytes do not fit into {}", own.len(), buffer.len()));
        }
        let (dtype, buffer) = (self.mpi.predefined(dtype), Box::into_raw(buffer));
        // SAFETY: as above, and the buffer is as long as what is added.
        let request = unsafe { self.mpi.begin_sum(own.as_ptr(), buffer.cast(), own.len() / element, dtype, comm) };
        self.pending(request, Some(buffer))
    }
    /// `MPI_Allreduce` itself. Waits inside MPI.
    pub(crate) fn sum(&self, comm: usize, own: &[u8], dtype: Predefined, element: usize, sum: &mut [u8]) -> MpiResult<()> {
        if own.len() != sum.len() {
            return Err(format!("{} bytes are added into {}", own.len(), sum.len()));
        }
        // SAFETY: it is this thread's turn; both are as long as is said, and no request is left.
        unsafe { self.mpi.sum(own.as_ptr(), sum.as_mut_ptr(), own.len() / element, self.mpi.predefined(dtype), comm) }
    }
    /// Waits for all ranks inside MPI.
    pub(crate) fn barrier(&self, comm: usize) -> MpiResult<()> {
        // SAFETY: it is this thread's turn.
        unsafe { self.mpi.barrier(comm) }
    }
    /// Is it done? A request that failed is done.
    pub(crate) fn is_done(&self, pending: &mut PendingRequest<'_>) -> MpiResult<bool> {
        let Some(request) = &mut pending.request else { return Ok(true) };
        // SAFETY: it is this thread's turn; the request is live.
        let done = unsafe { self.mpi.is_done(request) };
        if !matches!(done, Ok(false)) {
            pending.request = None;
        }
        done
    }
    /// Asks for the end of a request, if it is a receive: it has to be tested after. What is sent cannot be taken back.
    pub(crate) fn cancel_receive(&self, pending: &mut PendingRequest<'_>) {
        if pending.receives
            && let Some(request) = &mut pending.request
        {
            // SAFETY: it is this thread's turn; the request is live.
            unsafe { self.mpi.cancel(request) };
        }
    }
    /// Reads a message that is there; gives its sender.
    pub(crate) fn take(&self, comm: usize, tag: i32, bytes: &mut [u8]) -> MpiResult<Option<usize>> {
        // SAFETY: it is this thread's turn.
        unsafe { self.mpi.take(bytes, tag, comm) }
    }
    /// Begins a copy of `MPI_COMM_WORLD`, or of another communicator.
    pub(crate) fn begin_dup(&self, comm: Option<usize>) -> MpiResult<PendingRequest<'static>> {
        let comm = comm.unwrap_or_else(|| self.world());
        // A word, aligned as one: the buffer is a box of bytes whose first aligned word is written.
        let buffer = Box::into_raw(vec![0u8; 2 * size_of::<usize>()].into_boxed_slice());
        // SAFETY: as above; an aligned word lies in twice as many bytes.
        let request = unsafe { self.mpi.begin_dup(comm, aligned_word(buffer)) };
        self.pending(request, Some(buffer))
    }
    /// The communicator that was made, if it is done.
    pub(crate) fn dup_made(&self, mut pending: PendingRequest<'_>) -> Option<usize> {
        let buffer = pending.request.is_none().then(|| pending.take_buffer()).flatten()?;
        let buffer = Box::into_raw(buffer);
        // SAFETY: the word that `begin_dup` gave to MPI, in a buffer that is live until it is dropped below.
        let made = unsafe { self.mpi.dup_made(aligned_word(buffer)) };
        // SAFETY: made from a box, two lines above.
        drop(unsafe { Box::from_raw(buffer) });
        Some(made)
    }
    fn world(&self) -> usize {
        self.mpi.predefined(self.mpi.table().world)
    }
    /// This rank, and how many there are.
    pub(crate) fn rank_and_size(&self, comm: Option<usize>) -> MpiResult<(usize, usize)> {
        // SAFETY: it is this thread's turn.
        unsafe { self.mpi.rank_and_size(comm.unwrap_or_else(|| self.world())) }
    }
    /// Errors on it are told, not the end of the program.
    pub(crate) fn errors_return(&self, comm: Option<usize>) -> MpiResult<()> {
        // SAFETY: it is this thread's turn.
        unsafe { self.mpi.errors_return(comm.unwrap_or_else(|| self.world())) }
    }
    /// A communicator of the members, of which this rank is the `member`th. Waits for all ranks.
    pub(crate) fn split(&self, comm: usize, member: Option<usize>) -> MpiResult<usize> {
        // SAFETY: it is this thread's turn.
        unsafe { self.mpi.split(comm, member) }
    }
    /// Initialises MPI, if nobody has: were we it? Waits for all ranks.
    ///
    /// # Errors
    /// MPI was ended before; it does not let the threads of this process take turns.
    pub(crate) fn init(&self) -> MpiResult<bool> {
        let table = self.mpi.table();
        // SAFETY: it is this thread's turn, and the function may be called at any time.
        let (initialised, finalised) = unsafe { self.mpi.state() };
        if finalised {
            return Err("MPI has been ended in this process and cannot be initialised again".into());
        }
        let (ours, needed, level) = if initialised {
            // Somebody else calls it too, and does not know of our turns.
            // SAFETY: it is initialised.
            (false, table.multiple, unsafe { self.mpi.thread_level() }?)
        } else {
            // SAFETY: it is not initialised, and this is the process' only wire.
            (true, table.serialized, unsafe { self.mpi.init(table.serialized) }?)
        };
        if level < needed {
            return Err(format!("it lets threads call it at level {level}, and {needed} is needed"));
        }
        Ok(ours)
    }
    /// Ends MPI. Waits for all ranks; nobody calls it after.
    pub(crate) fn finalize(self) -> MpiResult<()> {
        self.wire.kill(&ErrorKind::Internal("MPI has been ended in this process".into()));
        // SAFETY: it is this thread's turn, and it was the last.
        unsafe { self.mpi.finalize() }
    }
}
fn aligned_word(buffer: *mut [u8]) -> *mut usize {
    let bytes = buffer.cast::<u8>();
    let skip = bytes.align_offset(align_of::<usize>());
    bytes.wrapping_add(skip).cast()
}
/// Has a function called when the process ends in order (not when it is killed).
pub(crate) fn at_exit(what: extern "C" fn()) {
    // SAFETY: a function that lives as long as the process, and does not unwind.
    unsafe { libc::atexit(what) };
}
