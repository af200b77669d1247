//! Collectives of a run. Each is begun where the plan has it, which is as soon as its input is ready
//! ([`plan`](crate::plan)), and waited for before the first step that touches what it gives; meanwhile the device goes on.
//!
//! This is the engine for groups that exchange host bytes ([`Communicator`](communicator::Communicator)): a thread beside the one that records
//! talks to the other ranks. It is given inputs in the plan's order, which is the same on every rank, and gives results in that
//! order, whatever is waited for when. Must not know: cells, faults, who reads.
use super::{Failed, Replay};
use crate::{
    DType, ErrorKind, Origin, Shape, TensorType,
    backend::ReadBack,
    communicator,
    foreign::guarded,
    kernel::{FaultWord, Operand},
    op::{CollectiveKind, Group},
    planted::{Plant, is},
    shape::Layout,
};
use smallvec::smallvec;
use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

/// What a rank puts in, on its way to the host: bytes from where the first element in memory lies to behind the last one.
struct RankInput {
    shape: Shape,
    dtype: DType,
    /// how the elements lie among these bytes
    layout: Layout,
    dense: bool,
    bytes: usize,
    /// none where there are no elements
    coming: Option<Box<dyn ReadBack>>,
}
impl RankInput {
    /// Begins to read it.
    ///
    /// # Errors
    /// A lost device.
    fn of(from: &Operand<'_>) -> Result<RankInput, ErrorKind> {
        let (layout, shape, size) = (from.layout(), from.shape, from.dtype.size());
        let (mut first, mut behind) = (layout.offset, layout.offset);
        let is_empty = shape.elements() == 0;
        for axis in 0..if is_empty { 0 } else { shape.rank() } {
            let reach = layout.strides[axis] * (shape[axis] as isize - 1);
            // A flipped axis reaches back.
            (first, behind) = (first.wrapping_add_signed(reach.min(0)), behind.wrapping_add_signed(reach.max(0)));
        }
        let bytes = if is_empty { 0 } else { (behind + 1 - first) * size };
        let coming = if is_empty { None } else { Some(from.buffer.read_back(first * size, bytes)?) };
        let layout = Layout { offset: layout.offset - first, ..layout };
        Ok(RankInput { shape, dtype: from.dtype, layout, dense: from.dense, bytes, coming })
    }
    /// Its elements, row-major. Waits for them.
    fn wait(self) -> Result<Vec<u8>, ErrorKind> {
        let size = self.dtype.size();
        let mut whole = vec![0u8; self.bytes];
        if let Some(coming) = self.coming {
            coming.wait(&mut whole)?;
        }
        if self.dense {
            return Ok(whole);
        }
        let mut elements = Vec::with_capacity(self.shape.elements() * size);
        self.layout.for_each_offset(&self.shape, |at| elements.extend_from_slice(&whole[at * size..(at + 1) * size]));
        Ok(elements)
    }
}
struct Job {
    kind: CollectiveKind,
    group: Group,
    input: RankInput,
    /// the line that asked for it
    origin: Origin,
    /// at a barrier: the first bad data that were found before it
    told: Option<String>,
}
type Answer = Result<Vec<u8>, ErrorKind>;
impl Job {
    fn run(self) -> Answer {
        let Job { kind, group, input, origin, told } = self;
        let given = TensorType { shape: input.shape, dtype: input.dtype };
        let exchange = move || communicator::exchange_telling(kind, &group, &input.wait()?, &given, Some(origin), told.as_deref());
        guarded(|| "the communicator".into(), exchange).flatten()
    }
}

/// A thread that talks to the other ranks.
struct ExchangeThread {
    /// none once it is to end
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}
thread_local! {
    /// The thread's engine between its runs.
    static IDLE: RefCell<Option<ExchangeThread>> = const { RefCell::new(None) };
}
impl ExchangeThread {
    fn start() -> Result<ExchangeThread, ErrorKind> {
        if let Some(idle) = IDLE.try_with(|idle| idle.borrow_mut().take()).ok().flatten() {
            return Ok(idle);
        }
        let ((jobs, todo), (done, answers)) = (channel::<Job>(), channel());
        let work = move || todo.into_iter().map(Job::run).take_while(|answer| done.send(answer.clone()).is_ok()).for_each(drop);
        let thread = std::thread::Builder::new().name("adamant-collectives".into()).spawn(work);
        let thread = thread.map_err(|e| ErrorKind::Internal(format!("no thread for collectives: {e}")))?;
        Ok(ExchangeThread { jobs: Some(jobs), answers, thread: Some(thread) })
    }
}
impl Drop for ExchangeThread {
    fn drop(&mut self) {
        // What was begun is brought to its end: the other ranks wait for it.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A collective under way.
struct Begun<'b> {
    /// the plan's step
    at: usize,
    to: Operand<'b>,
    /// what it holds until it is done
    bytes: usize,
}
/// So many bytes may be under way whatever the next collective's are.
const UNDER_WAY: usize = 4 << 20;
/// The collectives of a run that are under way. Dropped, it waits for them, so that each rank has done the same.
#[derive(Default)]
pub(super) struct Exchanges<'b> {
    engine: Option<ExchangeThread>,
    begun: VecDeque<Begun<'b>>,
}
impl<'b> Exchanges<'b> {
    /// Does one of these lie where a collective puts its result?
    #[inline]
    pub fn are_awaited_by(&self, operands: &[Operand<'_>]) -> bool {
        !self.begun.is_empty() && self.last_behind(operands).is_some()
    }
    fn last_behind(&self, operands: &[Operand<'_>]) -> Option<usize> {
        self.begun.iter().rposition(|b| operands.iter().any(|o| std::ptr::eq(o.buffer, b.to.buffer)) && !is(Plant::ExchangeNotAwaited))
    }
    /// Begins one. At a barrier the other ranks are told of bad data in `words` or behind an input.
    ///
    /// # Errors
    /// A lost device.
    pub fn begin(
        &mut self,
        replay: &Replay<'_>,
        at: usize,
        (kind, group): (CollectiveKind, Group),
        (from, to): (&Operand<'_>, Operand<'b>),
        words: &[FaultWord],
    ) -> Result<(), Failed> {
        let is_bad = kind == CollectiveKind::Barrier && (words.iter().any(|w| w.get().is_some()) || !replay.untainted());
        let told = is_bad.then(|| replay.taints(words).into_iter().flatten().next()).flatten().map(|e| e.to_string());
        // Steps that run ahead of a slow link would leave the inputs of all that they begin in memory: there is one that travels, and the next.
        let bytes = from.shape.elements() * from.dtype.size();
        while self.begun.iter().map(|begun| begun.bytes).sum::<usize>() > bytes.max(UNDER_WAY) {
            self.wait(replay, 1)?;
        }
        let origin = replay.caller.origin(replay.record_of(&replay.plan.steps[at]) as u32);
        let begin = |engine: &mut Option<ExchangeThread>| {
            let input = RankInput::of(from)?;
            let engine = match engine {
                Some(engine) => engine,
                None => engine.insert(ExchangeThread::start()?),
            };
            let sent = engine.jobs.as_ref().and_then(|jobs| jobs.send(Job { kind, group, input, origin, told }).ok());
            sent.ok_or_else(|| ErrorKind::Internal("collectives that nobody carries out".into()))
        };
        begin(&mut self.engine).map_err(|kind| failed(replay, at, kind))?;
        self.begun.push_back(Begun { at, to, bytes });
        Ok(())
    }
    /// Waits for those whose results these are, and for all that were begun before.
    ///
    /// # Errors
    /// A lost peer or device; a panic of the communicator.
    pub fn wait_for(&mut self, replay: &Replay<'_>, operands: &[Operand<'_>]) -> Result<(), Failed> {
        self.last_behind(operands).map_or(Ok(()), |last| self.wait(replay, last + 1))
    }
    /// Waits for all that were begun: one that fails leaves the memory of every cell as it is only if no cell was written before.
    ///
    /// # Errors
    /// As `wait_for`.
    pub fn wait_for_all(&mut self, replay: &Replay<'_>) -> Result<(), Failed> {
        let all = self.begun.len();
        self.wait(replay, all)
    }
    /// Waits for all, at the end.
    ///
    /// # Errors
    /// As `wait_for`.
    pub fn finish(mut self, replay: &Replay<'_>) -> Result<(), Failed> {
        self.wait_for_all(replay)
    }
    fn wait(&mut self, replay: &Replay<'_>, first: usize) -> Result<(), Failed> {
        for _ in 0..first {
            let answer = self.engine.as_ref().and_then(|engine| engine.answers.recv().ok());
            let Some(Begun { at, to, .. }) = self.begun.pop_front() else { break };
            let answer = answer.unwrap_or_else(|| Err(ErrorKind::Internal("a collective that nobody carried out".into())));
            answer.and_then(|bytes| put(replay, &to, bytes)).map_err(|kind| failed(replay, at, kind))?;
        }
        Ok(())
    }
}
impl Drop for Exchanges<'_> {
    fn drop(&mut self) {
        if self.begun.is_empty()
            && let Some(engine) = self.engine.take()
        {
            let _ = IDLE.try_with(|idle| idle.borrow_mut().replace(engine));
        }
    }
}
/// Where the result lies it has memory of its own.
fn put(replay: &Replay<'_>, to: &Operand<'_>, bytes: Vec<u8>) -> Result<(), ErrorKind> {
    let is_whole = to.offset == 0 && to.dense && bytes.len() == to.shape.elements() * to.dtype.size();
    match (is_whole, bytes.is_empty()) {
        (false, _) => Err(ErrorKind::Internal(format!("a collective on {} that gives a part of its memory", replay.device))),
        (true, true) => Ok(()),
        (true, false) => to.buffer.fill(Box::new(bytes)),
    }
}
fn failed(replay: &Replay<'_>, at: usize, kind: ErrorKind) -> Failed {
    let step = &replay.plan.steps[at];
    Failed { error: replay.failed(step, kind), records: smallvec![replay.record_of(step)], is_late: false }
}
