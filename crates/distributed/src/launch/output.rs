//! Reads what the ranks write, and hands it on line by line. One thread does: no two lines are written at once.
//!
//! It goes on while somebody holds a stream. When the launcher says that all ranks have ended, it takes what is still there,
//! and leaves alone what a process that left its group holds open.
use super::{
    LaunchOutput, RankExit, RankStream,
    lines::LineCutter,
    mpirun::{self, MpirunKind},
};
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, OwnedFd},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, PipeReader, PipeWriter, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The lines that are kept of a rank's stderr, and the bytes that are kept of each.
const KEPT_LINES: usize = 10;
const KEPT_BYTES: usize = 500;
/// So long a stream that is held open by others than ranks is waited for, when it is silent and in all.
const SILENT: Duration = Duration::from_millis(100);
const IN_ALL: Duration = Duration::from_secs(2);

/// What several starts of a job write to, one after the other.
pub(super) type SharedOutput = Arc<Mutex<Box<dyn LaunchOutput>>>;
/// The last lines of each rank's stderr, and of what is no rank's.
type LastLines = BTreeMap<Option<usize>, VecDeque<String>>;
/// Who writes to a stream.
#[derive(Clone, Copy)]
pub(super) enum LineSource {
    /// this rank
    Rank(usize),
    /// ranks that an `mpirun` of this kind tells apart
    Mpirun(MpirunKind),
}

/// One stream of a process of the job.
pub(super) struct RankPipe {
    pub(super) writer: LineSource,
    pub(super) which: RankStream,
    pub(super) from: OwnedFd,
    pub(super) log: Option<Arc<File>>,
}
pub(super) struct OutputThread {
    /// closed, it says that all ranks have ended
    all_ended: Option<PipeWriter>,
    done: Receiver<Option<io::Error>>,
    heard: Arc<Mutex<Heard>>,
}
/// What was found in the lines.
#[derive(Default)]
struct Heard {
    last: LastLines,
    /// how ranks of `mpirun` ended, in the order in which it was told
    ended: Vec<(usize, RankExit)>,
}
/// What is known when all has been read.
pub(super) struct AllRead {
    /// what could not be written
    pub(super) failed: Option<io::Error>,
    pub(super) last: LastLines,
    pub(super) ended: Vec<(usize, RankExit)>,
}
impl OutputThread {
    pub(super) fn start(streams: Vec<RankPipe>, output: SharedOutput) -> io::Result<OutputThread> {
        let (told, all_ended) = io::pipe()?;
        let (done, receiver) = channel();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let open = streams.into_iter().map(|stream| CutPipe { stream, cutter: LineCutter::default() }).collect();
        let mut reader = LineReader { open, output, heard: heard.clone(), failed: None, dead: [false; 2] };
        let body = move || {
            let read = reader.read(&told);
            let failed = reader.failed.take().or(read.err());
            let _ = done.send(failed);
        };
        thread::Builder::new().name("ranks' lines".into()).spawn(body)?;
        Ok(OutputThread { all_ended: Some(all_ended), done: receiver, heard })
    }
    /// Has `mpirun` told of a rank that failed?
    pub(super) fn has_told_of_a_failure(&self) -> bool {
        !self.heard.lock().ended.is_empty()
    }
    /// Takes what is left when all ranks have ended. Where nobody takes what is written, it waits until `enough` says so.
    pub(super) fn finish(mut self, enough: &dyn Fn() -> bool) -> AllRead {
        self.all_ended = None;
        let failed = loop {
            match self.done.recv_timeout(Duration::from_millis(20)) {
                Ok(failed) => break failed,
                Err(RecvTimeoutError::Timeout) if !enough() => {}
                Err(_) => break None,
            }
        };
        let Heard { last, ended } = std::mem::take(&mut *self.heard.lock());
        AllRead { failed, last, ended }
    }
}
struct CutPipe {
    stream: RankPipe,
    cutter: LineCutter,
}
struct LineReader {
    open: Vec<CutPipe>,
    output: SharedOutput,
    heard: Arc<Mutex<Heard>>,
    /// the first thing that could not be written
    failed: Option<io::Error>,
    /// which streams of the output are not asked any more
    dead: [bool; 2],
}
impl LineReader {
    fn read(&mut self, told: &PipeReader) -> io::Result<()> {
        let mut buffer = vec![0u8; 64 * 1024];
        let mut ended: Option<Instant> = None;
        while !self.open.is_empty() && ended.is_none_or(|since| since.elapsed() < IN_ALL) {
            let mut fds: Vec<PollFd<'_>> = self.open.iter().map(|open| PollFd::from_borrowed_fd(open.stream.from.as_fd(), PollFlags::IN)).collect();
            if ended.is_none() {
                fds.push(PollFd::new(told, PollFlags::IN));
            }
            let silent = Timespec { tv_sec: 0, tv_nsec: SILENT.as_nanos() as _ };
            match poll(&mut fds, ended.map(|_| &silent)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ended.is_none() && ready.last() == Some(&true) {
                ended = Some(Instant::now());
            }
            let mut closed = Vec::new();
            for at in (0..self.open.len()).filter(|at| ready[*at]) {
                let got = match rustix::io::read(&self.open[at].stream.from, &mut buffer) {
                    Ok(got) => got,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(_) => 0,
                };
                self.take(at, &buffer[..got]);
                closed.extend((got == 0).then_some(at));
            }
            for at in closed.into_iter().rev() {
                self.open.remove(at);
            }
        }
        for at in 0..self.open.len() {
            self.take(at, &[]);
        }
        Ok(())
    }
    /// Hands on the lines that are whole; without any bytes, the rest too.
    fn take(&mut self, at: usize, bytes: &[u8]) {
        let LineReader { open, output, heard, failed, dead } = self;
        let Some(CutPipe { stream, cutter }) = open.get_mut(at) else { return };
        let (is_dead, mut output) = (&mut dead[usize::from(stream.which == RankStream::Err)], output.lock());
        let mut line = |line: &[u8], whole: &[u8]| {
            let (rank, text) = match stream.writer {
                LineSource::Rank(rank) => (Some(rank), line),
                LineSource::Mpirun(kind) => mpirun::untagged(kind, line),
            };
            if stream.which == RankStream::Err {
                let mut heard = heard.lock();
                if let (LineSource::Mpirun(_), Some(rank), Some(exit)) = (stream.writer, rank, mpirun::ended(text)) {
                    heard.ended.push((rank, exit));
                    return;
                }
                keep(heard.last.entry(rank).or_default(), text);
            }
            if !*is_dead && let Err(e) = output.line(rank, stream.which, text) {
                *is_dead = true;
                failed.get_or_insert(e);
            }
            if let Some(Err(e)) = stream.log.as_deref().map(|mut log| log.write_all(whole)) {
                failed.get_or_insert(e);
                stream.log = None;
            }
        };
        if bytes.is_empty() { cutter.finish(&mut line) } else { cutter.push(bytes, &mut line) }
    }
}
fn keep(kept: &mut VecDeque<String>, line: &[u8]) {
    if kept.len() == KEPT_LINES {
        kept.pop_front();
    }
    let text = String::from_utf8_lossy(&line[..line.len().min(KEPT_BYTES)]);
    kept.push_back(if line.len() > KEPT_BYTES { format!("{text} ...") } else { text.into_owned() });
}
