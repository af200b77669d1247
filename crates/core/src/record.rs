//! Recording: each thread has a stream per device, a stream has one open window, and a window is a flat log of
//! records whose key is hashed as it grows. Nothing runs here; closing a window is the scheduler's affair.
use crate::{
    Device, Error, ErrorKind, Meta, Tensor,
    cell::{self, CellWrite},
    error::Origin,
    hash::mix,
    op::{Arg, Op},
    recycle::Shared,
    schedule,
    value::{Other, Value},
};
use adamant_runtime::Metas;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub(crate) mod ahead;
mod epoch;
pub(crate) mod switches;

/// One recorded op. Outputs are consecutive slots.
#[derive(Clone)]
pub(crate) struct Record {
    pub op: Op,
    pub arg: Arg,
    pub inputs: Slots,
    pub first: u32,
    pub outputs: u8,
    /// Running hashes of structure and sizes, up to and including this record.
    pub structure: u64,
    pub sizes: u64,
}

/// Why a value has no place in a window.
pub(crate) enum NoSlot {
    /// It is pending on another stream.
    Elsewhere,
    Error(ErrorKind),
}
impl From<ErrorKind> for NoSlot {
    fn from(kind: ErrorKind) -> NoSlot {
        NoSlot::Error(kind)
    }
}
impl From<NoSlot> for ErrorKind {
    fn from(why: NoSlot) -> ErrorKind {
        match why {
            NoSlot::Elsewhere => ErrorKind::Internal("a value pending on another stream was recorded".into()),
            NoSlot::Error(kind) => kind,
        }
    }
}

/// The structure of an input, apart from what `word` tells.
const INPUT: u64 = 1 << 40;
/// What of a meta is structure: dtype and rank.
fn word(meta: &Meta) -> u64 {
    (meta.dtype as u64) << 8 | meta.shape.rank() as u64
}

/// The open window of a stream.
pub(crate) struct Log {
    pub device: Device,
    pub records: Vec<Record>,
    /// One reference each, which is no user's.
    pub values: Vec<Shared<Value>>,
    pub writes: Vec<CellWrite>,
    /// Writes of values that are in memory, which commit with those above: on an asynchronous device alone.
    pub beside: Vec<schedule::Beside>,
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
    /// Who held the values of the window that closed last.
    pub owners: schedule::Owners,
    may_be_open: Arc<AtomicBool>,
}
/// A stream: the window of one thread on one device.
pub(crate) struct Stream {
    pub id: u32,
    /// False only where the window is empty: its own thread, which alone opens it, need not lock it to know.
    may_be_open: Arc<AtomicBool>,
    pub log: Mutex<Log>,
}

#[derive(Default)]
struct Streams {
    all: Vec<&'static Stream>,
    /// Streams whose thread has ended: the next thread goes on with them, pending work and all.
    orphans: Vec<u32>,
}
static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Default::default);
/// The longest Map chain that a cut may not split.
pub(crate) const OPEN_CHAIN: usize = 128;

/// The recording state of a thread.
pub(crate) struct RecordingContext {
    own: RefCell<OwnStreams>,
    captures: RefCell<Vec<Arc<Stream>>>,
    pub grad_off: Cell<bool>,
    /// Do leaves of 16 bits get gradients in f32?
    pub wide_leaves: Cell<bool>,
    /// Inside `backward`: windows are eight times as long. Inside `step`: they never close.
    pub hold: Cell<u32>,
    /// how many steps are open, one inside the other
    pub steps: Cell<u32>,
    /// what they have written
    pub open: RefCell<cell::Open>,
    /// the group of the commit at work, 0: none
    pub committing: Cell<u64>,
    /// the snapshot that is read
    pub section: cell::ReadSection,
    /// The thread ends, and its own context is gone: nothing is recorded, read from cells or run any more.
    ending: bool,
    pub eager: Cell<bool>,
    /// Two dtypes in one op are refused.
    pub strict: Cell<bool>,
    pub window: Cell<usize>,
    pub below_interceptors: Cell<u32>,
    pub ahead: ahead::Ahead,
}
struct OwnStreams(SmallVec<[(Device, &'static Stream); 2]>);
impl Drop for OwnStreams {
    fn drop(&mut self) {
        let mut streams = STREAMS.lock();
        for (_, s) in self.0.drain(..) {
            streams.orphans.push(s.id);
        }
    }
}
thread_local! {
    static CONTEXT: RecordingContext = RecordingContext::new(false);
}
/// Runs `f` with this thread's context. A destructor of a thread-local may run after the context's: there it gets one that
/// is [not alive](RecordingContext::alive).
pub(crate) fn context<R>(f: impl FnOnce(&RecordingContext) -> R) -> R {
    let mut f = Some(f);
    if let Ok(Some(r)) = CONTEXT.try_with(|c| f.take().map(|f| f(c))) {
        return r;
    }
    match f {
        Some(f) => f(&RecordingContext::new(true)),
        // It ran, and gave its result.
        None => unreachable!(),
    }
}
/// Runs `f` with a switch of this thread at `value`, and gives the switch back what it was, also by a panic.
pub(crate) fn with_switch<T: Copy, R>(switch: fn(&RecordingContext) -> &Cell<T>, value: T, f: impl FnOnce() -> R) -> R {
    struct Restore<T: Copy>(fn(&RecordingContext) -> &Cell<T>, T);
    impl<T: Copy> Drop for Restore<T> {
        fn drop(&mut self) {
            context(|c| self.0(c).set(self.1));
        }
    }
    let _restore = Restore(switch, context(|c| switch(c).replace(value)));
    f()
}
impl Stream {
    fn new(device: Device, capture: bool, id: u32) -> Stream {
        let log = Log::new(device, capture);
        Stream { id, may_be_open: log.may_be_open.clone(), log: Mutex::new(log) }
    }
    /// A stream for a thread: one whose thread has ended, or a new one. Threads come and go, their streams stay.
    fn acquire(device: Device) -> &'static Stream {
        let mut streams = STREAMS.lock();
        let orphan = streams.orphans.iter().position(|&id| streams.all[id as usize].log.lock().device == device);
        if let Some(k) = orphan {
            let id = streams.orphans.swap_remove(k);
            return streams.all[id as usize];
        }
        let s: &'static Stream = Box::leak(Box::new(Stream::new(device, false, streams.all.len() as u32)));
        streams.all.push(s);
        s
    }
}
/// The stream with this number.
pub(crate) fn stream(id: u32) -> Option<&'static Stream> {
    STREAMS.lock().all.get(id as usize).copied()
}
/// Where ops are recorded: a thread's stream, or that of a capture.
pub(crate) enum RecordingStream {
    Thread(&'static Stream),
    Capture(Arc<Stream>),
}
impl std::ops::Deref for RecordingStream {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        match self {
            RecordingStream::Thread(s) => s,
            RecordingStream::Capture(s) => s,
        }
    }
}
/// A capture's stream is in no table: its values are read by nobody else.
pub(crate) const CAPTURE: u32 = u32::MAX;

impl RecordingContext {
    #[inline(never)]
    fn new(ending: bool) -> RecordingContext {
        RecordingContext {
            own: RefCell::new(OwnStreams(SmallVec::new())),
            captures: RefCell::new(Vec::new()),
            grad_off: Cell::new(false),
            wide_leaves: Cell::new(false),
            hold: Cell::new(0),
            steps: Cell::new(0),
            open: RefCell::default(),
            committing: Cell::new(0),
            section: cell::ReadSection::none(),
            ending,
            eager: Cell::new(!ending && std::env::var_os("ADAMANT_EAGER").is_some_and(|v| v != "0")),
            strict: Cell::new(false),
            window: Cell::new(0),
            below_interceptors: Cell::new(0),
            ahead: ahead::Ahead::default(),
        }
    }
    /// Is this the context of a thread that goes on?
    ///
    /// # Errors
    /// `ThreadEnding`: a destructor of a thread-local asks, and what the thread computes with is gone.
    #[track_caller]
    pub fn alive(&self, op: &'static str) -> Result<(), Error> {
        if self.ending {
            Err(Error::at(op, ErrorKind::ThreadEnding, Origin { at: std::panic::Location::caller(), scope: Default::default(), called: Default::default() }))
        } else {
            Ok(())
        }
    }
    /// The stream that this thread records on for a device.
    pub fn stream(&self, device: Device) -> RecordingStream {
        if let Some(s) = self.captures.borrow().last() {
            return RecordingStream::Capture(s.clone());
        }
        let own = &mut self.own.borrow_mut().0;
        if let Some((_, s)) = own.iter().find(|(d, _)| *d == device) {
            return RecordingStream::Thread(s);
        }
        let s = Stream::acquire(device);
        own.push((device, s));
        RecordingStream::Thread(s)
    }
    /// This thread's stream of that number, found without the table of all.
    fn own_stream(&self, id: u32) -> Option<&'static Stream> {
        self.own.borrow().0.iter().find(|(_, s)| s.id == id).map(|(_, s)| *s)
    }
    pub fn capturing(&self) -> bool {
        !self.captures.borrow().is_empty()
    }
}
/// This thread's streams (none while capturing), of however many devices, asked for one by one: what one runs may open
/// another.
pub(crate) fn streams() -> impl Iterator<Item = &'static Stream> + Clone {
    (0..).map_while(|k| context(|c| if c.capturing() { None } else { c.own.borrow().0.get(k).map(|(_, s)| *s) }))
}
/// Records what `f` does into a window of its own, which is returned; nothing runs.
pub(crate) fn capture<R>(device: Device, f: impl FnOnce() -> R) -> (R, Arc<Stream>) {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            context(|c| c.captures.borrow_mut().pop());
        }
    }
    let s = Arc::new(Stream::new(device, true, CAPTURE));
    context(|c| c.captures.borrow_mut().push(s.clone()));
    let _pop = Pop;
    // What is recorded here is no part of what transforms around it interpret: a plan may be made in the midst of them.
    let r = crate::transform::apart(f);
    (r, s)
}

impl Log {
    pub(crate) fn new(device: Device, capture: bool) -> Log {
        Log {
            device,
            records: Vec::new(),
            values: Vec::new(),
            writes: Vec::new(),
            beside: Vec::new(),
            epoch: epoch::next_epoch(),
            structure: 0,
            sizes: 0,
            bytes: 0,
            retry_at: 0,
            capture,
            window_ops: device.info().window_ops,
            window_bytes: device.info().window_bytes,
            recent: schedule::Recent::default(),
            owners: schedule::Owners::default(),
            may_be_open: Arc::new(AtomicBool::new(false)),
        }
    }
    /// Starts an empty window.
    pub fn clear(&mut self) {
        self.epoch = epoch::next_epoch();
        self.records.clear();
        self.values.clear();
        self.writes.clear();
        self.beside.clear();
        (self.structure, self.sizes, self.bytes, self.retry_at) = (0, 0, 0, 0);
    }
    /// The slot of a value in this window. One that is in memory becomes an input; a deferred one is recorded
    /// again, which is its recomputation.
    pub fn slot_of(&mut self, value: &Shared<Value>) -> Result<u32, NoSlot> {
        if let Some(slot) = value.slot(self.epoch) {
            return Ok(slot);
        }
        if value.is_dense() {
            return Ok(self.push_input(value, true, 0));
        }
        if let Some(recipe) = value.recipe() {
            let inputs = recipe.inputs.iter().map(|k| self.slot_of(k)).collect::<Result<_, NoSlot>>()?;
            self.owners.recomputes = true;
            schedule::count(|s| s.recomputed += 1);
            return Ok(self.push(recipe.op.clone(), recipe.arg, inputs, std::slice::from_ref(value)));
        }
        if let Some(stored) = value.stored() {
            let dense = stored.is_dense(&value.meta.shape);
            let layout = stored.layout(&value.meta.shape);
            let strides = &layout.strides[..value.meta.shape.rank()];
            return Ok(self.push_input(value, dense, if dense { 0 } else { strides.iter().fold(0, |hash, &s| mix(hash, s as u64)) }));
        }
        Err(match &*value.other() {
            Other::None | Other::Deferred(_) => NoSlot::Elsewhere,
            Other::Donated => Value::was_donated().into(),
            Other::Failed(e) => e.kind().clone().into(),
        })
    }
    /// Appends a record and hashes it.
    pub fn push(&mut self, op: Op, arg: Arg, inputs: Slots, outputs: &[Shared<Value>]) -> u32 {
        let first = self.values.len() as u32;
        for (k, v) in outputs.iter().enumerate() {
            v.set_slot(self.epoch, first + k as u32);
            self.values.push(v.clone());
        }
        self.append(op, arg, inputs, outputs.len());
        first
    }
    /// As `push`, of an op with one output, whose value it makes.
    fn push_new(&mut self, op: Op, arg: Arg, inputs: Slots, meta: Meta, origin: Origin, home: u32) -> Shared<Value> {
        let value = Value::pending(meta, origin, home, self.epoch, self.values.len() as u32);
        self.values.push(value.clone());
        self.append(op, arg, inputs, 1);
        value
    }
    /// Appends an input: a value that is in memory, with the strides it has there.
    fn push_input(&mut self, value: &Shared<Value>, dense: bool, strides: u64) -> u32 {
        let first = self.values.len() as u32;
        value.set_slot(self.epoch, first);
        self.values.push(value.clone());
        self.structure = mix(self.structure, INPUT | (dense as u64) << 60 | word(&value.meta));
        self.sizes = mix(self.sizes ^ strides, value.meta.shape.hash());
        let (structure, sizes) = (self.structure, self.sizes);
        self.may_be_open.store(true, Relaxed);
        self.records.push(Record { op: Op::Input, arg: Arg::None, inputs: SmallVec::new(), first, outputs: 1, structure, sizes });
        first
    }
    /// Appends the record of the last `outputs` values and hashes it.
    fn append(&mut self, op: Op, arg: Arg, inputs: Slots, outputs: usize) {
        let first = self.values.len() - outputs;
        let (mut structure, is_map) = (op.structure(), op.is_map());
        let mut sizes = self.sizes ^ op.sizes();
        for v in &self.values[first..] {
            structure = structure.rotate_left(16) ^ word(&v.meta);
            sizes = mix(sizes, v.meta.shape.hash());
            self.bytes += v.meta.bytes();
        }
        let mut structure = mix(self.structure, structure);
        if let Some(out) = self.values.get(first) {
            let out = &out.meta.shape;
            for &i in &inputs {
                // Which axes broadcast is structure; how far back the input lies tells which one it is.
                let d = &self.values[i as usize].meta.shape;
                let mut axes = 0u64;
                if d != out && is_map {
                    for k in 0..d.rank().min(out.rank()) {
                        axes |= ((d[d.rank() - 1 - k] == 1 && out[out.rank() - 1 - k] != 1) as u64) << k;
                    }
                }
                structure = mix(structure, (first as u64 - i as u64) | axes << 32);
            }
        }
        if let (Op::Const(_) | Op::BinaryScalar(..), Arg::Scalar(s)) = (&op, arg) {
            // Its kind, not its value: an integer and a float argument are two programs.
            structure ^= matches!(s, crate::Scalar::Int(_)) as u64;
        }
        (self.structure, self.sizes) = (structure, sizes);
        self.may_be_open.store(true, Relaxed);
        self.records.push(Record { op, arg, inputs, first: first as u32, outputs: outputs as u8, structure, sizes });
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

/// Records an op on tensors. Inputs pending on other streams are evaluated first.
///
/// # Errors
/// An input that cannot be had; an op inside a capture that reads what was captured elsewhere.
pub(crate) fn record(op: Op, arg: Arg, inputs: &[&Tensor], metas: &Metas, origin: Origin) -> Result<SmallVec<[Shared<Value>; 4]>, Error> {
    context(|c| {
        alive_at(c, &op, origin)?;
        let device = metas.first().map_or_else(|| Err(Error::at(op.name(), ErrorKind::Internal("an op without outputs".into()), origin)), |m| Ok(m.device))?;
        c.ahead.judge(inputs);
        let stream = c.stream(device);
        let (mut log, slots) = slots_of(&stream, &op, inputs, origin)?;
        let values: SmallVec<[Shared<Value>; 4]> = metas.iter().map(|m| Value::pending(*m, origin, stream.id, 0, 0)).collect();
        log.push(op, arg, slots, &values);
        close_if_full(c, &mut log);
        Ok(values)
    })
}
/// As `record`, of an op with one output, which [`ahead::run`] has left to be recorded.
///
/// # Errors
/// As `record`.
pub(crate) fn record_one(op: Op, arg: Arg, inputs: &[&Tensor], meta: Meta, origin: Origin) -> Result<Shared<Value>, Error> {
    context(|c| {
        alive_at(c, &op, origin)?;
        let stream = c.stream(meta.device);
        let (mut log, slots) = slots_of(&stream, &op, inputs, origin)?;
        let value = log.push_new(op, arg, slots, meta, origin, stream.id);
        close_if_full(c, &mut log);
        Ok(value)
    })
}
fn alive_at(c: &RecordingContext, op: &Op, origin: Origin) -> Result<(), Error> {
    if c.ending { Err(Error::at(op.name(), ErrorKind::ThreadEnding, origin)) } else { Ok(()) }
}
type Slots = SmallVec<[u32; 8]>;
/// The window of a stream, and the places of the inputs in it.
fn slots_of<'a>(stream: &'a Stream, op: &Op, inputs: &[&Tensor], origin: Origin) -> Result<(MutexGuard<'a, Log>, Slots), Error> {
    let mut log = stream.log.lock();
    let mut slots = Slots::new();
    while let Some(input) = inputs.get(slots.len()) {
        let value = input.value();
        match log.slot_of(value) {
            Ok(slot) => slots.push(slot),
            Err(NoSlot::Error(kind)) => return Err(Error::at(op.name(), kind, origin)),
            Err(NoSlot::Elsewhere) if value.home == CAPTURE => return Err(Error::at(op.name(), ErrorKind::Capturing, origin)),
            Err(NoSlot::Elsewhere) => {
                // Pending on another stream: the one who needs it evaluates it.
                drop(log);
                evaluate(value)?;
                log = stream.log.lock();
                // Meanwhile another thread may have closed this window.
                slots.clear();
            }
        }
    }
    Ok((log, slots))
}
/// Closes a window that is full, or at once where everything runs eagerly.
fn close_if_full(c: &RecordingContext, log: &mut Log) {
    if log.capture || (c.steps.get() != 0 && !c.eager.get()) {
        return;
    }
    let base = if c.window.get() > 0 { c.window.get() } else { log.window_ops };
    let limit = if c.hold.get() > 0 { base.saturating_mul(8) } else { base };
    if c.eager.get() {
        let n = log.records.len();
        // The error, if any, is the reader's: building never fails.
        let _ = schedule::flush(log, n);
    } else if (log.records.len() >= limit || log.bytes >= log.window_bytes) && log.records.len() >= log.retry_at {
        let cut = log.cut();
        if schedule::flush(log, cut).is_err() {
            log.retry_at = log.records.len() + 256;
        }
    }
}

/// Makes a value ready, whoever recorded it.
pub(crate) fn evaluate(value: &Shared<Value>) -> Result<(), Error> {
    value.is_read();
    if crate::transform::any() {
        if let Some(kind) = crate::transform::unreadable(value) {
            return Err(Error::at("read", kind, value.origin));
        }
        crate::transform::sweep();
    }
    while !value.is_in_memory() {
        let home = if value.is_pending() {
            Some(value.home)
        } else {
            if value.stored().is_some() {
                return Ok(());
            }
            match &*value.other() {
                Other::Failed(e) => return Err(e.clone()),
                Other::Donated => return Err(Error::at("read", Value::was_donated(), value.origin)),
                Other::Deferred(_) => None,
                Other::None => Some(value.home),
            }
        };
        context(|c| if c.ending { Err(Error::at("read", ErrorKind::ThreadEnding, value.origin)) } else { Ok(()) })?;
        let s = match home {
            None => context(|c| c.stream(value.meta.device)),
            Some(id) => {
                let found = context(|c| c.own_stream(id)).or_else(|| stream(id));
                RecordingStream::Thread(found.ok_or_else(|| Error::at("read", ErrorKind::Capturing, value.origin))?)
            }
        };
        let mut log = s.log.lock();
        if log.capture {
            return Err(Error::at("read", ErrorKind::Capturing, value.origin));
        }
        let _held = value.clone(); // Else it would be deferred anew.
        if home.is_none() {
            match log.slot_of(value) {
                Ok(_) => {}
                Err(NoSlot::Elsewhere) => {
                    drop(log);
                    evaluate_behind(value)?;
                    continue;
                }
                Err(NoSlot::Error(kind)) => return Err(Error::at("read", kind, value.origin)),
            }
        }
        let n = log.records.len();
        schedule::flush(&mut log, n)?;
        if value.is_pending() && value.slot(log.epoch).is_none() {
            return Err(Error::at("read", ErrorKind::Internal("a value's window ran without it".into()), value.origin));
        }
    }
    Ok(())
}

/// Makes ready what a deferred value is computed from: the window that deferred it gives its results out one after the other,
/// and what comes later is still pending there.
fn evaluate_behind(value: &Shared<Value>) -> Result<(), Error> {
    let Some(recipe) = value.recipe() else { return Ok(()) };
    recipe.inputs.iter().try_for_each(|k| if k.is_pending() { evaluate(k) } else { evaluate_behind(k) })
}

/// Runs every pending value of this thread that somebody holds.
///
/// # Errors
/// Memory that could not be had, a lost device.
#[track_caller]
pub fn flush() -> crate::Result<()> {
    context(|c| c.alive("flush"))?;
    if crate::transform::any() {
        crate::transform::sweep();
    }
    for s in streams() {
        let mut log = s.log.lock();
        let n = log.records.len();
        schedule::flush(&mut log, n)?;
    }
    Ok(())
}

/// Metas for values made outside ops.
pub(crate) fn ready(meta: Meta, origin: Origin, stored: crate::value::Stored) -> Shared<Value> {
    Value::ready(meta, origin, CAPTURE, stored)
}

/// Makes values the first inputs of the capture that is open, in order.
pub(crate) fn register_inputs(values: &[Shared<Value>]) {
    context(|c| {
        if let Some(s) = c.captures.borrow().last() {
            let mut log = s.log.lock();
            for v in values {
                log.push_input(v, true, 0);
            }
        }
    });
}
