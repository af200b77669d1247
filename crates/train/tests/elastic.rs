//! Runs that go on without a rank that is lost, and with one that comes: whatever call it is lost in, and whatever the others had done of that
//! step, the run ends with the files of one that nobody has disturbed.
//!
//! Ranks are threads. One dies in a call of its own, by number; and one of the others may be told of it in a call that it has finished, so that it is
//! a step behind those who were told later.
#![allow(clippy::unwrap_used)]

mod schedules;

use adamant_backend_cpu as _;
use adamant_core::{
    Device, ErrorKind,
    communicator::{CollectiveCall, Communicator, GroupState, ReductionTree},
};
use adamant_distributed::local::local_threads_with;
use adamant_train::{Document, Failure, Interrupt, MetAgain, RankMeeting, Report, Run, Watch};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc::{Sender, channel},
    },
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What happens to a rank in its call of this number, over all its groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// it is gone before it takes part
    Dies,
    /// it takes part, and is gone
    DiesAfter,
    /// it has taken part, and is told that this rank is lost, as if that had come first
    SeesLost(usize),
    /// it has a signal
    Signal,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seat {
    Member(usize),
    Wants(Option<usize>),
}
#[derive(Default)]
struct Seats {
    seats: BTreeMap<usize, Seat>,
    groups: BTreeMap<usize, Arc<dyn Communicator>>,
    epoch: u64,
    ended: bool,
}
/// Where threads meet: as the launcher does, those who live and want to.
struct ThreadMeeting {
    seats: Mutex<Seats>,
    changed: Condvar,
    /// so many meet first
    first: usize,
    fates: Vec<(usize, u64, Fate)>,
    /// who died
    died: Mutex<Sender<usize>>,
    calls: AtomicU64,
}
struct ThreadSeat {
    meeting: Arc<ThreadMeeting>,
    id: usize,
    calls: Arc<AtomicU64>,
    interrupt: Interrupt,
}
impl RankMeeting for ThreadSeat {
    fn meet(&self, _: Option<&ErrorKind>, _: &dyn Fn() -> bool) -> Result<MetAgain, ErrorKind> {
        let meeting = &self.meeting;
        let mut seats = meeting.seats.lock().unwrap();
        let was = if let Some(Seat::Member(rank)) = seats.seats.get(&self.id) { Some(*rank) } else { None };
        seats.seats.insert(self.id, Seat::Wants(was));
        meeting.changed.notify_all();
        loop {
            if let Some(group) = seats.groups.remove(&self.id) {
                let (rank, size) = (group.rank(), group.size());
                let mortal = Mortal { state: GroupState::default(), place: (rank, size), inner: Mutex::new(Some(group)), seat: self.again() };
                return Ok(MetAgain::Group(Arc::new(mortal)));
            }
            if seats.ended {
                return Ok(MetAgain::Ended(15));
            }
            let mut wanting: Vec<(usize, usize)> =
                seats.seats.iter().filter_map(|(id, seat)| if let Seat::Wants(was) = seat { Some((was.unwrap_or(usize::MAX), *id)) } else { None }).collect();
            if wanting.len() == seats.seats.len() && (seats.epoch > 0 || wanting.len() == meeting.first) {
                wanting.sort_unstable();
                seats.epoch += 1;
                for ((rank, (_, id)), group) in wanting.iter().enumerate().zip(local_threads_with(wanting.len(), PATIENCE)?) {
                    seats.seats.insert(*id, Seat::Member(rank));
                    seats.groups.insert(*id, group);
                }
                meeting.changed.notify_all();
                continue;
            }
            let (again, timeout) = meeting.changed.wait_timeout(seats, PATIENCE).unwrap();
            seats = again;
            if timeout.timed_out() {
                return Err(ErrorKind::PeerLost { rank: 0, op: "meeting".into(), seq: 0, why: "nobody comes".into() });
            }
        }
    }
    fn is_called(&self) -> bool {
        self.meeting.seats.lock().unwrap().seats.values().any(|seat| *seat == Seat::Wants(None))
    }
}
impl ThreadSeat {
    fn again(&self) -> ThreadSeat {
        ThreadSeat { meeting: self.meeting.clone(), id: self.id, calls: self.calls.clone(), interrupt: self.interrupt.clone() }
    }
    fn leaves(&self) {
        self.meeting.seats.lock().unwrap().seats.remove(&self.id);
        self.meeting.changed.notify_all();
    }
}
/// A rank that may die.
struct Mortal {
    state: GroupState,
    place: (usize, usize),
    inner: Mutex<Option<Arc<dyn Communicator>>>,
    seat: ThreadSeat,
}
impl Mortal {
    fn dead(&self) -> ErrorKind {
        ErrorKind::PeerFailed { rank: self.place.0, message: "it is dead".into() }
    }
    fn dies(&self) -> ErrorKind {
        let gone = self.inner.lock().unwrap().take();
        self.seat.leaves();
        drop(gone);
        let _ = self.seat.meeting.died.lock().unwrap().send(self.seat.id);
        self.dead()
    }
    fn call(&self, run: impl FnOnce(&dyn Communicator) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
        let number = self.seat.calls.fetch_add(1, SeqCst);
        self.seat.meeting.calls.fetch_max(number + 1, SeqCst);
        let fate = self.seat.meeting.fates.iter().find(|(id, call, _)| (*id, *call) == (self.seat.id, number)).map(|(.., fate)| *fate);
        if fate == Some(Fate::Dies) {
            return Err(self.dies());
        }
        if fate == Some(Fate::Signal) {
            self.seat.interrupt.ask(15);
        }
        let Some(inner) = self.inner.lock().unwrap().clone() else { return Err(self.dead()) };
        let done = run(&*inner);
        drop(inner);
        match fate {
            Some(Fate::DiesAfter) => Err(self.dies()),
            Some(Fate::SeesLost(rank)) if done.is_ok() => {
                // It lets go of its group, as one that is told does.
                let gone = self.inner.lock().unwrap().take();
                drop(gone);
                Err(ErrorKind::PeerLost { rank, op: "a call".into(), seq: number, why: "a test".into() })
            }
            _ => done,
        }
    }
}
impl Communicator for Mortal {
    fn engine(&self) -> &'static str {
        "mortal"
    }
    fn rank(&self) -> usize {
        self.place.0
    }
    fn size(&self) -> usize {
        self.place.1
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.call(|on| on.all_gather(call, own, blocks))
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        self.call(|on| on.all_to_all(call, to, from))
    }
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.call(|on| on.send(call, to, bytes))
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.call(|on| on.receive(call, from, bytes))
    }
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.call(|on| on.broadcast(call, root, bytes))
    }
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        self.call(|on| on.all_reduce(call, tree, own, sum))
    }
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        self.call(|on| on.reduce_scatter(call, tree, own, block))
    }
    fn split(&self, _: &CollectiveCall, _: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        Err(self.dead())
    }
    fn abort(&self, why: &str) {
        if let Some(inner) = self.inner.lock().unwrap().clone() {
            inner.abort(why);
        }
    }
}
struct Seen;
impl Watch for Seen {}

struct Ran {
    /// by who it was: the first ranks, then newcomers
    ended: BTreeMap<usize, Result<Report, Failure>>,
    /// the most calls of one rank
    calls: u64,
    /// how often ranks met
    epochs: u64,
}
/// Runs a description on so many ranks; for each that dies a newcomer is started.
fn train(text: &str, ranks: usize, set: &[&str], folder: &Path, fates: &[(usize, u64, Fate)]) -> Ran {
    let (died, deaths) = channel();
    let meeting = Arc::new(ThreadMeeting {
        seats: Mutex::default(),
        changed: Condvar::new(),
        first: ranks,
        fates: fates.to_vec(),
        died: Mutex::new(died),
        calls: AtomicU64::new(0),
    });
    let ended = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        let (ended, over) = (&ended, &meeting);
        let start = |id: usize, is_newcomer: bool| {
            let interrupt = Interrupt::new();
            let seat = ThreadSeat { meeting: over.clone(), id, calls: Arc::default(), interrupt: interrupt.clone() };
            scope.spawn(move || {
                let mut document = Document::parse("run.toml", text).unwrap();
                set.iter().for_each(|s| document.set(s).unwrap());
                let done = Device::cpu().unwrap().scoped(|| {
                    let run = Run::new(&document).folder(folder).resume(true).interrupt(interrupt);
                    let run = match is_newcomer {
                        true => run,
                        false => match seat.meet(None, &|| false).unwrap() {
                            MetAgain::Group(group) => run.ranks(group),
                            _ => unreachable!(),
                        },
                    };
                    run.elastic(Arc::new(seat.again()), ranks).train(&mut Seen)
                });
                let mut seats = seat.meeting.seats.lock().unwrap();
                seats.seats.remove(&id);
                // A newcomer that came too late ends with the others.
                seats.ended |= !matches!(&done, Err(Failure::PeerLost(_)));
                drop(seats);
                seat.meeting.changed.notify_all();
                ended.lock().unwrap().insert(id, done);
            });
        };
        (0..ranks).for_each(|id| start(id, false));
        let dies = fates.iter().filter(|(.., fate)| matches!(fate, Fate::Dies | Fate::DiesAfter)).count();
        for k in 0..dies {
            match deaths.recv_timeout(PATIENCE) {
                Ok(_) => start(ranks + k, true),
                Err(_) => break,
            }
        }
    });
    let epochs = meeting.seats.lock().unwrap().epoch;
    Ran { ended: ended.into_inner().unwrap(), calls: meeting.calls.load(SeqCst), epochs }
}
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = fs::read_dir(folder.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).max().unwrap();
    let mut all = vec![folder.join("weights.safetensors"), folder.join("metrics.jsonl")];
    all.extend(fs::read_dir(newest).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "safetensors")));
    all.sort();
    all.into_iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}
/// Descriptions with batch norm, dropout, clipping, accumulation, running means, several optimizers.
const DRAWN: [usize; 3] = [1, 2, 5];

#[test]
fn a_rank_lost_in_any_call_changes_the_run() {
    let place = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for (nth, k) in DRAWN.into_iter().enumerate() {
        let text = schedules::drawn_run(k).replace("log_every = 3", "log_every = 1");
        let capture = format!("capture={}", nth != 1);
        let set = ["distributed.shards=3", "distributed.bucket_mb=1", &capture];
        let plain = place.path().join(format!("{k}-plain"));
        let ran = train(&text, 3, &set, &plain, &[]);
        ran.ended.values().for_each(|done| _ = done.as_ref().unwrap());
        let (want, calls) = (files(&plain), ran.calls);
        // Every call of the first steps, and some of each later one.
        let near: Vec<u64> = (0..calls.min(36)).chain((36..calls).step_by(7)).collect();
        for (n, at) in near.into_iter().enumerate() {
            let victim = n / 2 % 3;
            // Not in step with the calls of a step.
            let fate = if (n + n / 8) % 2 == 0 { Fate::Dies } else { Fate::DiesAfter };
            let mut fates = vec![(victim, at, fate)];
            // One of the others is told in the call before, which it has finished; the third sees the loss when it asks.
            let told = (victim + 1 + n / 3 % 2) % 3;
            if fate == Fate::DiesAfter {
                fates.push((told, at, Fate::SeesLost(victim)));
            }
            let folder = place.path().join(format!("{k}-{at}"));
            let ran = train(&text, 3, &set, &folder, &fates);
            let others: Vec<_> = ran.ended.iter().filter(|(id, _)| **id != victim && **id < 3).collect();
            assert!(
                others.iter().all(|(_, done)| done.is_ok()),
                "{k}: {fates:?}: {:?}",
                others.iter().map(|(id, done)| (id, done.as_ref().err())).collect::<Vec<_>>()
            );
            assert!(ran.ended[&victim].is_err() && ran.epochs >= 2, "{fates:?}");
            let got = files(&folder);
            let other: Vec<&String> = got.iter().zip(&want).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
            assert!(other.is_empty() && got.len() == want.len(), "{k}: {fates:?}: other bits: {other:?}, of\n{text}");
            let _ = fs::remove_dir_all(&folder);
            cases += 1;
        }
    }
    println!("{cases} ranks were lost");
}
/// Several die, one after the other and two at once; newcomers die too.
#[test]
fn ranks_lost_again_and_again() {
    let place = tempfile::tempdir().unwrap();
    // Without batch norms: a part of one row has no variance.
    let text = schedules::drawn_run(3).replace("log_every = 3", "log_every = 1");
    let set = ["distributed.shards=4"];
    let plain = place.path().join("plain");
    train(&text, 4, &set, &plain, &[]).ended.values().for_each(|done| _ = done.as_ref().unwrap());
    let want = files(&plain);
    use Fate::*;
    let cases: [&[(usize, u64, Fate)]; 5] = [
        &[(0, 20, Dies), (1, 20, Dies)],
        &[(0, 20, Dies), (1, 31, DiesAfter), (2, 44, Dies)],
        &[(3, 18, DiesAfter), (0, 23, Dies), (1, 24, Dies)],
        // A newcomer dies while it takes the state: in its first calls.
        &[(2, 20, Dies), (4, 1, Dies), (5, 3, Dies), (6, 9, Dies)],
        &[(0, 20, Dies), (4, 2, DiesAfter), (1, 30, Dies)],
    ];
    for (k, fates) in cases.into_iter().enumerate() {
        let folder = place.path().join(format!("{k}"));
        let ran = train(&text, 4, &set, &folder, fates);
        assert!(ran.ended.values().filter(|done| done.is_ok()).count() >= 2, "{fates:?}");
        assert!(files(&folder) == want, "{fates:?}");
    }
}
/// A signal to one rank, while another one is lost: all end behind one step, whose checkpoint is there.
#[test]
fn an_end_that_is_asked_for_when_a_rank_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let text = schedules::drawn_run(2).replace("log_every = 3", "log_every = 1");
    let set = ["distributed.shards=3"];
    for at in 18..30 {
        let folder = place.path().join(format!("{at}"));
        let ran = train(&text, 3, &set, &folder, &[(0, 20, Fate::Dies), (1, at, Fate::Signal)]);
        let steps: Vec<u64> = [1, 2]
            .iter()
            .map(|id| match &ran.ended[id] {
                Err(Failure::Interrupted { signal: 15, step, .. }) => *step,
                other => panic!("{at}: {:?}", other.as_ref().err()),
            })
            .collect();
        assert_eq!(steps[0], steps[1], "{at}");
        assert!(folder.join("checkpoints").join(format!("step-{:08}", steps[0])).is_dir(), "{at}: {steps:?}");
    }
}
/// One shard is one rank's: nobody goes on without it.
#[test]
fn what_is_not_elastic() {
    let place = tempfile::tempdir().unwrap();
    for (ranks, set, told) in [(1, "distributed.shards=1", "one shard is one rank's"), (3, "distributed.shards=2", "2 shards on 3 ranks")] {
        let ran = train(&schedules::drawn_run(0), ranks, &[set], place.path(), &[]);
        assert!(ran.ended.values().all(|done| done.as_ref().is_err_and(|e| e.exit_code() == 2 && e.to_string().contains(told))), "{set}");
    }
}
