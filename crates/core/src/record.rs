//! Recording: each thread has a stream per device, a stream has one open window, and a window is a flat log of
//! records whose key is hashed as it grows. Nothing runs here; closing a window is the scheduler's affair.
use crate::{
    Device, Error, ErrorKind, Meta,
    cell::CellWrite,
    error::Origin,
    op::{Arg, Metas, Op, mix, shape_hash},
    schedule,
    value::{Kept, State, Value},
};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// One recorded op. Outputs are consecutive slots.
#[derive(Clone)]
pub(crate) struct Record {
    pub op: Op,
    pub arg: Arg,
    pub inputs: SmallVec<[u32; 3]>,
    pub first: u32,
    pub outputs: u8,
    /// Running hashes of structure and sizes, up to and including this record.
    pub structure: u64,
    pub sizes: u64,
}

/// The open window of a stream.
pub(crate) struct Log {
    pub device: Device,
    pub records: Vec<Record>,
    pub values: Vec<Kept>,
    pub writes: Vec<CellWrite>,
    pub epoch: u32,
    pub structure: u64,
    pub sizes: u64,
    pub bytes: usize,
    /// After a window could not close for want of memory: try again at this many records.
    pub retry_at: usize,
    /// Capturing: no window closes and reads are errors.
    pub capture: bool,
    /// Pending ops and bytes after which the window closes.
    pub window_ops: usize,
    pub window_bytes: usize,
    /// The plans this stream replayed last, by a few bits of their key.
    pub recent: schedule::Recent,
}
/// A stream: the window of one thread on one device.
pub(crate) struct Stream {
    pub id: u32,
    pub log: Mutex<Log>,
}

#[derive(Default)]
struct Streams {
    all: Vec<Arc<Stream>>,
    /// Streams whose thread has ended: the next thread goes on with them, pending work and all.
    orphans: Vec<u32>,
}
static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Default::default);
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// The longest Map chain that a cut may not split.
pub(crate) const OPEN_CHAIN: usize = 128;

/// The recording state of a thread.
pub(crate) struct Context {
    own: RefCell<OwnStreams>,
    captures: RefCell<Vec<Arc<Stream>>>,
    pub grad_off: Cell<bool>,
    pub inherit: Cell<Option<Origin>>,
    /// Inside `backward`: windows are eight times as long. Inside `step`: they never close.
    pub hold: Cell<u32>,
    pub step_group: Cell<u64>,
    pub eager: Cell<bool>,
    pub window: Cell<usize>,
    pub below_door: Cell<u32>,
}
struct OwnStreams(SmallVec<[(Device, Arc<Stream>); 2]>);
impl Drop for OwnStreams {
    fn drop(&mut self) {
        let mut streams = STREAMS.lock();
        for (_, s) in self.0.drain(..) {
            streams.orphans.push(s.id);
        }
    }
}
thread_local! {
    pub(crate) static CONTEXT: Context = Context {
        own: RefCell::new(OwnStreams(SmallVec::new())), captures: RefCell::new(Vec::new()), grad_off: Cell::new(false), inherit: Cell::new(None),
        hold: Cell::new(0), step_group: Cell::new(0), eager: Cell::new(std::env::var_os("ADAMANT_EAGER").is_some_and(|v| v != "0")), window: Cell::new(0), below_door: Cell::new(0),
    };
}

impl Stream {
    fn new(device: Device, capture: bool, id: u32) -> Arc<Stream> {
        Arc::new(Stream { id, log: Mutex::new(Log::new(device, capture)) })
    }
    fn acquire(device: Device) -> Arc<Stream> {
        let mut streams = STREAMS.lock();
        let orphan = streams.orphans.iter().position(|&id| streams.all[id as usize].log.lock().device == device);
        if let Some(k) = orphan {
            let id = streams.orphans.swap_remove(k);
            return streams.all[id as usize].clone();
        }
        let s = Stream::new(device, false, streams.all.len() as u32);
        streams.all.push(s.clone());
        s
    }
}
/// The stream with this number.
pub(crate) fn stream(id: u32) -> Option<Arc<Stream>> {
    STREAMS.lock().all.get(id as usize).cloned()
}
/// A capture's stream is in no table: its values are read by nobody else.
pub(crate) const CAPTURE: u32 = u32::MAX;

impl Context {
    /// The stream that this thread records on for a device.
    pub fn stream(&self, device: Device) -> Arc<Stream> {
        if let Some(s) = self.captures.borrow().last() {
            return s.clone();
        }
        let own = &mut self.own.borrow_mut().0;
        if let Some((_, s)) = own.iter().find(|(d, _)| *d == device) {
            return s.clone();
        }
        let s = Stream::acquire(device);
        own.push((device, s.clone()));
        s
    }
    /// This thread's stream of that number, found without the table of all.
    fn own_stream(&self, id: u32) -> Option<Arc<Stream>> {
        self.own.borrow().0.iter().find(|(_, s)| s.id == id).map(|(_, s)| s.clone())
    }
    /// This thread's streams (none while capturing).
    pub fn streams(&self) -> SmallVec<[Arc<Stream>; 2]> {
        if !self.captures.borrow().is_empty() {
            return SmallVec::new();
        }
        self.own.borrow().0.iter().map(|(_, s)| s.clone()).collect()
    }
    pub fn capturing(&self) -> bool {
        !self.captures.borrow().is_empty()
    }
}
/// Records what `f` does into a window of its own, which is returned; nothing runs.
pub(crate) fn capture<R>(device: Device, f: impl FnOnce() -> R) -> (R, Arc<Stream>) {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            CONTEXT.with(|c| c.captures.borrow_mut().pop());
        }
    }
    let s = Stream::new(device, true, CAPTURE);
    CONTEXT.with(|c| c.captures.borrow_mut().push(s.clone()));
    let pop = Pop;
    let r = f();
    drop(pop);
    (r, s)
}

impl Log {
    fn new(device: Device, capture: bool) -> Log {
        Log {
            device,
            records: Vec::new(),
            values: Vec::new(),
            writes: Vec::new(),
            epoch: EPOCH.fetch_add(1, Relaxed),
            structure: 0,
            sizes: 0,
            bytes: 0,
            retry_at: 0,
            capture,
            window_ops: device.info().window_ops,
            window_bytes: device.info().window_bytes,
            recent: schedule::Recent::default(),
        }
    }
    /// Starts an empty window.
    pub fn clear(&mut self) {
        self.epoch = EPOCH.fetch_add(1, Relaxed);
        self.records.clear();
        self.values.clear();
        self.writes.clear();
        (self.structure, self.sizes, self.bytes, self.retry_at) = (0, 0, 0, 0);
    }
    /// The slot of a value in this window. One that is in memory becomes an input; a deferred one is recorded
    /// again, which is its recomputation.
    pub fn slot_of(&mut self, value: &Arc<Value>) -> Result<u32, ErrorKind> {
        if let Some(slot) = value.slot(self.epoch) {
            return Ok(slot);
        }
        let mut state = value.state.lock();
        match &*state {
            State::Ready(stored) => {
                let dense = stored.layout.is_dense(&value.meta.shape);
                let mut sizes = 0;
                if !dense {
                    for k in 0..value.meta.shape.rank() {
                        sizes = mix(sizes, stored.layout.strides[k] as u64);
                    }
                }
                drop(state);
                Ok(self.push(Op::Input, Arg::None, SmallVec::new(), std::slice::from_ref(value), dense as u64, sizes))
            }
            State::Deferred(_) => {
                let State::Deferred(recipe) = std::mem::replace(&mut *state, State::Pending) else {
                    return Err(ErrorKind::Internal("a deferred value changed its mind".into()));
                };
                drop(state);
                let inputs = recipe.inputs.iter().map(|k| self.slot_of(k)).collect::<Result<_, _>>()?;
                schedule::count(|s| s.recomputed += 1);
                Ok(self.push(recipe.op, recipe.arg, inputs, std::slice::from_ref(value), 0, 0))
            }
            State::Pending => Err(ErrorKind::Internal("a value pending on another stream was recorded".into())),
            State::Donated => Err(ErrorKind::Internal("a value whose buffer was reused was read".into())),
            State::Failed(e) => Err(e.kind().clone()),
        }
    }
    /// Appends a record and hashes it.
    pub fn push(&mut self, op: Op, arg: Arg, inputs: SmallVec<[u32; 3]>, outputs: &[Arc<Value>], extra: u64, extra_sizes: u64) -> u32 {
        let first = self.values.len() as u32;
        let mut word = op.structure() ^ extra << 60;
        let mut sizes = mix(self.sizes, op.sizes() ^ extra_sizes);
        for (k, v) in outputs.iter().enumerate() {
            let m = &v.meta;
            word ^= ((m.dtype as u64) << 8 | m.shape.rank() as u64) << (16 * (k & 1) + 32);
            sizes = shape_hash(sizes, &m.shape);
        }
        let mut hash = mix(self.structure, word);
        if let Some(out) = outputs.first() {
            let out = &out.meta.shape;
            for &i in &inputs {
                // Which axes broadcast is structure; how far back the input lies tells which one it is.
                let d = &self.values[i as usize].meta.shape;
                let mut axes = 0u64;
                for k in 0..d.rank().min(out.rank()) {
                    axes |= ((d[d.rank() - 1 - k] == 1 && out[out.rank() - 1 - k] != 1) as u64) << k;
                }
                hash = mix(hash, (first - i) as u64 | axes << 32);
            }
        }
        if let (Op::Const(_) | Op::BinaryScalar(..), Arg::Scalar(s)) = (&op, arg) {
            // Its kind, not its value: an integer and a float argument are two programs.
            hash ^= std::mem::discriminant(&s).eq(&std::mem::discriminant(&crate::Scalar::Int(0))) as u64;
        }
        self.structure = hash;
        self.sizes = sizes;
        for (k, v) in outputs.iter().enumerate() {
            v.set_slot(self.epoch, first + k as u32);
            if !matches!(op, Op::Input) {
                self.bytes += v.meta.bytes();
            }
            self.values.push(Kept::new(v));
        }
        self.records.push(Record { op, arg, inputs, first, outputs: outputs.len() as u8, structure: hash, sizes });
        first
    }
    /// Notes that a value of this window is the next state of a cell.
    pub fn note_write(&mut self, write: CellWrite) {
        self.structure = mix(self.structure, 0xCE11 ^ (write.slot as u64) << 20);
        if let Some(r) = self.records.last_mut() {
            r.structure = self.structure;
        }
        self.writes.push(write);
    }
    /// How many records a closing window runs: a trailing Map chain stays open unless it is longer than a kernel may be.
    fn cut(&self) -> usize {
        let n = self.records.len();
        let tail = self.records.iter().rev().take_while(|r| r.op.is_map() || r.op.is_view() || matches!(r.op, Op::Input)).count();
        if tail > OPEN_CHAIN || tail == n { n } else { n - tail }
    }
}

/// Records an op on values. Inputs pending on other streams are evaluated first.
pub(crate) fn record(op: Op, arg: Arg, inputs: &[&Arc<Value>], metas: &Metas, origin: Origin) -> Result<SmallVec<[Arc<Value>; 2]>, Error> {
    CONTEXT.with(|c| {
        let device = metas.first().map_or_else(|| Err(Error::at(op.name(), ErrorKind::Internal("an op without outputs".into()), origin)), |m| Ok(m.device))?;
        let s = c.stream(device);
        let mut log = s.log.lock();
        let mut slots: SmallVec<[u32; 3]> = SmallVec::new();
        for v in inputs {
            if let Some(slot) = v.slot(log.epoch) {
                slots.push(slot);
                continue;
            }
            let pending = matches!(*v.state.lock(), State::Pending);
            if pending {
                if v.home == CAPTURE {
                    return Err(Error::at(op.name(), ErrorKind::Capturing, origin));
                }
                // Pending on another stream: the one who needs it evaluates it.
                drop(log);
                evaluate(v)?;
                log = s.log.lock();
                // Meanwhile another thread may have closed this window.
                slots.clear();
                return record_locked(c, &s, log, op, arg, inputs, metas, origin);
            }
            slots.push(log.slot_of(v).map_err(|k| Error::at(op.name(), k, origin))?);
        }
        finish(c, &s, log, op, arg, slots, metas, origin)
    })
}
#[allow(clippy::too_many_arguments)]
fn record_locked<'a>(
    c: &Context,
    s: &'a Arc<Stream>,
    mut log: MutexGuard<'a, Log>,
    op: Op,
    arg: Arg,
    inputs: &[&Arc<Value>],
    metas: &Metas,
    origin: Origin,
) -> Result<SmallVec<[Arc<Value>; 2]>, Error> {
    let mut slots: SmallVec<[u32; 3]> = SmallVec::new();
    for v in inputs {
        if v.slot(log.epoch).is_none() && matches!(*v.state.lock(), State::Pending) {
            drop(log);
            evaluate(v)?;
            log = s.log.lock();
        }
    }
    for v in inputs {
        slots.push(log.slot_of(v).map_err(|k| Error::at(op.name(), k, origin))?);
    }
    finish(c, s, log, op, arg, slots, metas, origin)
}
#[allow(clippy::too_many_arguments)]
fn finish(
    c: &Context,
    s: &Arc<Stream>,
    mut log: MutexGuard<'_, Log>,
    op: Op,
    arg: Arg,
    slots: SmallVec<[u32; 3]>,
    metas: &Metas,
    origin: Origin,
) -> Result<SmallVec<[Arc<Value>; 2]>, Error> {
    let values: SmallVec<[Arc<Value>; 2]> = metas.iter().map(|m| Value::new(*m, origin, s.id, State::Pending)).collect();
    log.push(op, arg, slots, &values, 0, 0);
    if !log.capture && c.step_group.get() == 0 {
        let base = if c.window.get() > 0 { c.window.get() } else { log.window_ops };
        let limit = if c.hold.get() > 0 { base.saturating_mul(8) } else { base };
        if c.eager.get() {
            let n = log.records.len();
            // The error, if any, is the reader's: building never fails.
            let _ = schedule::flush(&mut log, n);
        } else if (log.records.len() >= limit || log.bytes >= log.window_bytes) && log.records.len() >= log.retry_at {
            let cut = log.cut();
            if schedule::flush(&mut log, cut).is_err() {
                log.retry_at = log.records.len() + 256;
            }
        }
    }
    Ok(values)
}

/// Makes a value ready, whoever recorded it.
pub(crate) fn evaluate(value: &Arc<Value>) -> Result<(), Error> {
    loop {
        let home = match &*value.state.lock() {
            State::Ready(_) => return Ok(()),
            State::Failed(e) => return Err(e.clone()),
            State::Donated => return Err(Error::at("read", ErrorKind::Internal("a value whose buffer was reused was read".into()), value.origin)),
            State::Deferred(_) => None,
            State::Pending => Some(value.home),
        };
        let s = match home {
            None => CONTEXT.with(|c| c.stream(value.meta.device)),
            Some(id) => CONTEXT.with(|c| c.own_stream(id)).or_else(|| stream(id)).ok_or_else(|| Error::at("read", ErrorKind::Capturing, value.origin))?,
        };
        let mut log = s.log.lock();
        if log.capture {
            return Err(Error::at("read", ErrorKind::Capturing, value.origin));
        }
        if home.is_none() {
            log.slot_of(value).map_err(|k| Error::at("read", k, value.origin))?;
        }
        let n = log.records.len();
        schedule::flush(&mut log, n)?;
        if matches!(*value.state.lock(), State::Pending) && value.slot(log.epoch).is_none() {
            return Err(Error::at("read", ErrorKind::Internal("a value's window ran without it".into()), value.origin));
        }
    }
}

/// Runs every pending value of this thread that somebody holds.
///
/// # Errors
/// Memory that could not be had, a lost device.
pub fn flush() -> crate::Result<()> {
    let streams = CONTEXT.with(|c| c.streams());
    for s in streams {
        let mut log = s.log.lock();
        let n = log.records.len();
        schedule::flush(&mut log, n)?;
    }
    Ok(())
}

/// Number of pending ops after which this thread's windows close while `f` runs (for tests of window cuts).
pub fn with_window<R>(ops: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|c| c.window.set(self.0));
        }
    }
    let _restore = Restore(CONTEXT.with(|c| c.window.replace(ops)));
    f()
}
/// Runs every op at once while `f` runs, as `ADAMANT_EAGER=1` does for the whole program.
pub fn with_eager<R>(on: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|c| c.eager.set(self.0));
        }
    }
    let _restore = Restore(CONTEXT.with(|c| c.eager.replace(on)));
    f()
}

/// Metas for values made outside ops.
pub(crate) fn ready(meta: Meta, origin: Origin, stored: crate::value::Stored) -> Arc<Value> {
    Value::new(meta, origin, CAPTURE, State::Ready(stored))
}

/// Makes values the first inputs of the capture that is open, in order.
pub(crate) fn register_inputs(values: &[Arc<Value>]) {
    CONTEXT.with(|c| {
        if let Some(s) = c.captures.borrow().last() {
            let mut log = s.log.lock();
            for v in values {
                log.push(Op::Input, Arg::None, SmallVec::new(), std::slice::from_ref(v), 1, 0);
            }
        }
    });
}
