//! The loader under faults: order, naming, hangs, resume, what is alive at once.
use super::*;
use crate::{Cause, Place};
use adamant_core::{Error, ErrorKind};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread::ThreadId,
};

/// What record `index` does besides being `index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Corrupt,
    Panic,
    Hang,
}
/// Records that are their own index; some are at fault. `open` lets those that hang go on.
struct Faulty {
    len: usize,
    faults: Vec<(usize, Fault)>,
    open: (Mutex<bool>, Condvar),
    hanging: AtomicUsize,
    threads: Mutex<HashSet<ThreadId>>,
    reads: AtomicUsize,
    alive: Arc<AtomicUsize>,
    most_alive: AtomicUsize,
    collate: fn(&[usize]) -> Result<()>,
}
/// A batch that knows how many there are of it.
#[derive(Debug)]
struct Counted(Vec<usize>, Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}
impl Faulty {
    fn new(len: usize, faults: Vec<(usize, Fault)>) -> Arc<Faulty> {
        Faulty::with(len, faults, |_| Ok(()))
    }
    fn with(len: usize, faults: Vec<(usize, Fault)>, collate: fn(&[usize]) -> Result<()>) -> Arc<Faulty> {
        Arc::new(Faulty {
            len,
            faults,
            open: Default::default(),
            hanging: AtomicUsize::new(0),
            threads: Mutex::default(),
            reads: AtomicUsize::new(0),
            alive: Arc::default(),
            most_alive: AtomicUsize::new(0),
            collate,
        })
    }
    fn let_go(&self) {
        *self.open.0.lock() = true;
        self.open.1.notify_all();
    }
    fn names(&self) -> Vec<(usize, Cause)> {
        let cause = |fault| match fault {
            Fault::Corrupt => Cause::Invalid,
            Fault::Panic => Cause::Panicked,
            Fault::Hang => Cause::TimedOut,
        };
        let mut names: Vec<_> = self.faults.iter().map(|(i, f)| (*i, cause(*f))).collect();
        names.sort_by_key(|(i, _)| *i);
        names
    }
}
impl Dataset for Faulty {
    type Record = usize;
    type Batch = Counted;
    fn len(&self) -> usize {
        self.len
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        self.threads.lock().insert(std::thread::current().id());
        self.reads.fetch_add(1, SeqCst);
        // Records take different times, so that workers overtake each other.
        (0..index % 7).for_each(|_| std::thread::yield_now());
        match self.faults.iter().find(|(i, _)| *i == index) {
            None => Ok(index),
            Some((_, Fault::Corrupt)) => Err(BadRecord::new(self.locate(index), "bad checksum")),
            Some((_, Fault::Panic)) => panic!("decoder fell over at {index}"),
            Some((_, Fault::Hang)) => {
                self.hanging.fetch_add(1, SeqCst);
                let mut open = self.open.0.lock();
                while !*open {
                    self.open.1.wait(&mut open);
                }
                Ok(index)
            }
        }
    }
    fn collate(&self, records: Vec<usize>) -> Result<Counted> {
        (self.collate)(&records)?;
        self.most_alive.fetch_max(self.alive.fetch_add(1, SeqCst) + 1, SeqCst);
        Ok(Counted(records, self.alive.clone()))
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: "shard-7.bin".into(), index, offset: 100 * index as u64 }
    }
}
fn skip(at_most: usize) -> Policy {
    Policy::Skip { at_most }
}
fn rest<D: Dataset<Batch = Counted> + ?Sized>(loader: &mut DataLoader<D>) -> Vec<Vec<usize>> {
    loader.epoch().map(|b| b.unwrap().0.clone()).collect()
}
/// The batches without a loader, from the order alone.
fn expected(cut: Cut, epoch: u64, without: &[usize]) -> Vec<Vec<usize>> {
    let all = (0..cut.batches()).map(|b| cut.records(epoch, b));
    all.map(|b| b.into_iter().filter(|i| !without.contains(i)).collect::<Vec<_>>()).filter(|b| !b.is_empty()).collect()
}

#[test]
fn an_order_that_depends_on_the_workers() {
    for workers in [0, 1, 2, 5] {
        let mut loader = DataLoader::new(Faulty::new(103, vec![])).batch_size(8).shuffle(3).workers(workers).build().unwrap();
        for epoch in 0..3 {
            assert_eq!(rest(&mut loader), expected(loader.cut.clone(), epoch, &[]), "{workers} workers, epoch {epoch}");
            assert_eq!((loader.state().epoch, loader.state().batch), (epoch + 1, 0));
        }
    }
}
#[test]
fn what_is_around_a_loader_is_around_its_workers() {
    let collate = |_: &[usize]| -> Result<()> {
        let (recorded, path) = (adamant_core::grad::grad_enabled(), adamant_core::scope::path(adamant_core::scope::current()));
        if recorded || path != "input" { Err(Error::new("data_loader", ErrorKind::Argument(format!("recorded: {recorded}, in `{path}`")))) } else { Ok(()) }
    };
    let set = || Faulty::with(20, vec![], collate);
    let mut inside = adamant_core::no_grad(|| {
        let _layer = adamant_core::scope::enter("input");
        DataLoader::new(set()).batch_size(4).workers(2).build().unwrap()
    });
    assert_eq!(rest(&mut inside).len(), 5);
    // What is not around it does not come from anywhere else.
    let mut outside = DataLoader::new(set()).batch_size(4).workers(2).build().unwrap();
    assert!(outside.epoch().next().is_some_and(|b| b.is_err()));
}
#[test]
fn bad_records_that_are_not_named_or_disturb_the_order() {
    let mut faults: Vec<(usize, Fault)> = (0..2000).filter(|i| i % 100 == 37).map(|i| (i, Fault::Corrupt)).collect();
    faults.extend([5, 800, 1999].map(|i| (i, Fault::Panic)));
    faults.push((1234, Fault::Hang));
    let bad: Vec<usize> = faults.iter().map(|(i, _)| *i).collect();
    let set = Faulty::new(2000, faults);
    let build = DataLoader::new(set.clone()).batch_size(32).shuffle(9).workers(2).on_bad_record(skip(24));
    // Long enough for the text of a panic, whose backtrace takes its time to be written.
    let mut loader = build.timeout(Duration::from_secs(4)).build().unwrap();
    for epoch in 0..2 {
        assert_eq!(rest(&mut loader), expected(loader.cut.clone(), epoch, &bad));
        let met = loader.take_bad_records();
        // In the order of the epoch, each once.
        let order = crate::Permutation::new(2000, 9, epoch);
        let in_order: Vec<usize> = order.iter().map(|i| i as usize).filter(|i| bad.contains(i)).collect();
        assert_eq!(met.iter().map(|r| r.place.index).collect::<Vec<_>>(), in_order);
        let mut names: Vec<_> = met.iter().map(|r| (r.place.index, r.cause)).collect();
        names.sort_by_key(|(i, _)| *i);
        assert_eq!(names, set.names());
        for record in &met {
            assert_eq!((record.place.file.to_str(), record.place.offset), (Some("shard-7.bin"), 100 * record.place.index as u64));
            assert!(record.cause != Cause::Panicked || record.reason.contains("decoder fell over"), "{record}");
        }
    }
    // Once it had hung it was not read again.
    assert_eq!(set.hanging.load(SeqCst), 1);
    set.let_go();
}
#[test]
fn a_hanging_record_that_the_drop_waits_for() {
    let set = Faulty::new(10, vec![(0, Fault::Hang), (9, Fault::Hang)]);
    let mut loader = DataLoader::new(set.clone()).batch_size(5).workers(2).on_bad_record(skip(2)).timeout(Duration::from_secs(1)).build().unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().0, [1, 2, 3, 4]);
    drop(loader);
    // Nor does it wait where nobody watches.
    let mut loader = DataLoader::new(set.clone()).batch_size(1).order(Order::Shuffle { seed: 0 }).workers(4).build().unwrap();
    let _ = (loader.cut.records(0, 0)[0] % 9 != 0).then(|| loader.next_batch());
    drop(loader);
    set.let_go();
}
#[test]
fn a_position_that_does_not_lead_to_the_batches_that_are_left() {
    let faults = vec![(3, Fault::Corrupt), (40, Fault::Panic)];
    let make = |workers| DataLoader::new(Faulty::new(50, faults.clone())).batch_size(4).shuffle(1).workers(workers).on_bad_record(skip(2)).build().unwrap();
    let mut whole = make(0);
    let (mut states, mut batches) = (vec![whole.state()], Vec::new());
    while let Some(batch) = whole.next_batch() {
        batches.push(batch.unwrap().0.clone());
        states.push(whole.state());
    }
    for (k, state) in states.iter().enumerate() {
        let text = serde_json::to_string(state).unwrap();
        let mut resumed = make(k % 3);
        // Whatever it was at before.
        (0..k % 4).for_each(|_| drop(resumed.next_batch()));
        resumed.restore(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(rest(&mut resumed), batches[k..]);
        assert_eq!(rest(&mut resumed), expected(resumed.cut, 1, &[3, 40]));
    }
    // The count of bad records goes with it: the third one of an epoch is one too many also after a resume.
    let last = states.last().unwrap();
    assert_eq!((last.bad, last.batch), (2, 13));
    let mut strict = make(0);
    strict.restore(LoaderState { bad: 2, batch: 0, ..*last }).unwrap();
    assert!(strict.epoch().any(|b| b.is_err()));
    // No batch is read to get there.
    let mut far = make(2);
    far.restore(LoaderState { epoch: 1 << 40, batch: 12, bad: 0, ..*last }).unwrap();
    assert_eq!(rest(&mut far).len(), 1);
    assert!(far.dataset().reads.load(SeqCst) <= 4);
}
#[test]
fn a_position_of_another_loader_that_is_taken() {
    let make = |len, size, seed| DataLoader::new(Faulty::new(len, vec![])).batch_size(size).shuffle(seed).build().unwrap();
    let state = make(50, 4, 1).state();
    for other in [make(51, 4, 1), make(50, 5, 1), make(50, 4, 2)] {
        let mut other = other;
        let error = other.restore(state).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
    }
    assert!(make(50, 4, 1).restore(LoaderState { batch: 14, ..state }).is_err());
    // Two ranks of half the batch take the steps of one.
    let mut rank = DataLoader::new(Faulty::new(50, vec![])).batch_size(2).shuffle(1).shard(1, 2).build().unwrap();
    rank.restore(LoaderState { batch: 3, ..state }).unwrap();
    assert_eq!(rank.next_batch().unwrap().unwrap().0, make(50, 4, 1).cut.records(0, 3)[2..]);
}
#[test]
fn parts_that_are_other_than_those_of_one_process() {
    let make = |held: std::ops::Range<usize>, parts: usize, workers: usize| {
        DataLoader::new(Faulty::new(21, vec![])).batch_size(6).shuffle(4).parts(held, parts).workers(workers).build().unwrap()
    };
    let epochs = |loader: &mut DataLoader<Faulty>| -> Vec<Vec<Vec<usize>>> {
        let mut seen = Vec::new();
        for _ in 0..2 {
            while let Some(parts) = loader.next_parts() {
                seen.push(parts.unwrap().into_iter().map(|part| part.map_or(vec![], |batch| batch.0.clone())).collect());
            }
        }
        seen
    };
    let all = epochs(&mut make(0..4, 4, 0));
    assert_eq!((all.len(), all[3].iter().map(Vec::len).collect::<Vec<_>>()), (8, vec![0, 1, 1, 1]));
    for (ranks, workers) in [(1, 3), (2, 0), (3, 2), (4, 1)] {
        for rank in 0..ranks {
            let held = 4 * rank / ranks..4 * (rank + 1) / ranks;
            let mut loader = make(held.clone(), 4, workers);
            let own: Vec<_> = all.iter().map(|parts| parts[held.clone()].to_vec()).collect();
            assert_eq!(epochs(&mut loader), own);
            // A position is that of all: who holds other parts goes on from it.
            loader.restore(LoaderState { epoch: 1, batch: 2, ..make(0..4, 4, 0).state() }).unwrap();
            assert_eq!((loader.batches(), loader.state().batch), (4, 2));
            assert_eq!(loader.next_parts().unwrap().unwrap().into_iter().map(|part| part.map_or(vec![], |b| b.0.clone())).collect::<Vec<_>>(), own[6]);
        }
    }
    // Parts that are handed on in the middle of an epoch: nothing is read twice, nothing left out.
    for workers in [0, 2] {
        let mut loader = make(1..2, 4, workers);
        for (k, held) in [1..2, 0..3, 3..4, 0..4, 2..4].into_iter().enumerate() {
            loader.hold(held.clone()).unwrap();
            let own: Vec<_> = loader
                .next_parts()
                .unwrap_or_else(|| loader.next_parts().unwrap())
                .unwrap()
                .into_iter()
                .map(|part| part.map_or(vec![], |b| b.0.clone()))
                .collect();
            assert_eq!(own, all[k][held]);
        }
        assert_eq!(loader.parts(), (2..4, 4));
        assert!(loader.hold(2..5).is_err() && loader.hold(1..1).is_err() && loader.parts() == (2..4, 4));
    }
    let refused = DataLoader::new(Faulty::new(9, vec![])).parts(3..5, 4).build().unwrap_err().to_string();
    assert!(refused.contains("there are no parts 3..5 of 4"), "{refused}");
}
#[test]
fn an_error_that_moves_the_position_or_goes_on_for_ever() {
    for workers in [0, 2] {
        let set = Faulty::new(20, vec![(9, Fault::Corrupt), (10, Fault::Panic)]);
        let mut loader = DataLoader::new(set).batch_size(4).workers(workers).build().unwrap();
        assert_eq!(loader.epoch().map(|b| b.is_ok()).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(loader.state().batch, 2);
        for _ in 0..3 {
            let error = loader.next_batch().unwrap().unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::File { path: "shard-7.bin".into(), reason: "record 9 at byte 900: bad checksum".into() });
            assert!(error.location().file().ends_with("tests.rs"));
        }
        loader.start_epoch(4);
        assert_eq!(loader.next_batch().unwrap().unwrap().0, [0, 1, 2, 3]);
    }
}
#[test]
fn more_bad_records_than_are_allowed() {
    for workers in [0, 3] {
        let set = Faulty::new(20, vec![(1, Fault::Corrupt), (2, Fault::Panic), (9, Fault::Corrupt), (10, Fault::Corrupt), (16, Fault::Corrupt)]);
        let make = |at_most| DataLoader::new(set.clone()).batch_size(4).workers(workers).on_bad_record(skip(at_most)).build().unwrap();
        let mut loader = make(3);
        let error = loader.epoch().find_map(|b| b.err()).unwrap().to_string();
        assert!(error.contains("record 10 at byte 1000") && error.contains("number 4 of this epoch; 3 are allowed"), "{error}");
        assert_eq!((loader.state().batch, loader.state().bad, loader.take_bad_records().len()), (2, 2, 2));
        // Epochs are counted apart.
        let mut loader = make(5);
        assert_eq!((rest(&mut loader).len(), rest(&mut loader).len()), (5, 5));
    }
}
#[test]
fn a_batch_of_nothing_but_bad_records() {
    let set = Faulty::new(9, (3..6).map(|i| (i, Fault::Corrupt)).collect());
    let mut loader = DataLoader::new(set).batch_size(3).on_bad_record(skip(3)).build().unwrap();
    assert_eq!(rest(&mut loader), [vec![0, 1, 2], vec![6, 7, 8]]);
}
#[test]
fn a_quarantine_that_misses_a_record_or_has_it_twice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.jsonl");
    // Where a decoder panicked stands in brackets behind what it said.
    let line = |text: &str| {
        let mut line: serde_json::Value = serde_json::from_str(text).unwrap();
        line["reason"] = line["reason"].as_str().unwrap().split(" (").next().unwrap().into();
        line
    };
    let lines = || std::fs::read_to_string(&file).unwrap().lines().map(line).collect::<Vec<_>>();
    let make = |faults: Vec<(usize, Fault)>| {
        let policy = Policy::Quarantine { file: file.clone(), at_most: 2 };
        DataLoader::new(Faulty::new(20, faults)).batch_size(4).workers(2).on_bad_record(policy).build().unwrap()
    };
    let mut loader = make(vec![(5, Fault::Corrupt), (17, Fault::Panic)]);
    assert_eq!((rest(&mut loader).len(), rest(&mut loader).len()), (5, 5));
    drop(loader);
    let expected = serde_json::json!([
        {"file": "shard-7.bin", "index": 5, "offset": 500, "cause": "invalid", "reason": "bad checksum", "epoch": 0, "batch": 1},
        {"file": "shard-7.bin", "index": 17, "offset": 1700, "cause": "panicked", "reason": "reading it panicked: decoder fell over at 17", "epoch": 0, "batch": 4},
    ]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("tests.rs:"));
    assert_eq!(serde_json::Value::Array(lines()), expected);
    // A crash cut the last line off; the next run writes it again, and no other.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 30]).unwrap();
    assert_eq!(rest(&mut make(vec![(5, Fault::Corrupt), (17, Fault::Panic)])).len(), 5);
    assert_eq!(serde_json::Value::Array(lines()), expected);
    // The one too many is in it as well.
    assert!(make(vec![(1, Fault::Corrupt), (2, Fault::Corrupt), (3, Fault::Corrupt)]).epoch().any(|b| b.is_err()));
    assert_eq!(lines().len(), 5);
    let nowhere = Policy::Quarantine { file: folder.path().join("no/such"), at_most: 1 };
    assert!(DataLoader::new(Faulty::new(1, vec![])).on_bad_record(nowhere).build().unwrap_err().to_string().contains("no/such"));
}
#[test]
fn more_batches_alive_than_the_window_allows() {
    for (workers, factor) in [(0, 2), (1, 1), (2, 2), (3, 1)] {
        let set = Faulty::new(400, vec![]);
        let mut loader = DataLoader::new(set.clone()).batch_size(2).workers(workers).prefetch_factor(factor).build().unwrap();
        for batch in loader.epoch() {
            // Time for the workers to run as far ahead as they may.
            (0..50).for_each(|_| std::thread::yield_now());
            drop(batch);
        }
        let most = set.most_alive.load(SeqCst);
        assert!(most <= workers * factor + 1, "{most} batches of {workers} workers");
        drop(loader);
    }
}
#[test]
fn workers_that_do_not_outlive_the_epoch() {
    let set = Faulty::new(200, vec![]);
    let mut loader = DataLoader::new(set.clone()).batch_size(2).workers(3).build().unwrap();
    (0..5).for_each(|_| drop(rest(&mut loader)));
    assert!(set.threads.lock().len() <= 3);
    assert!(!set.threads.lock().contains(&std::thread::current().id()));
}
#[test]
fn a_collate_that_fails_panics_or_hangs() {
    for (collate, hangs, says) in [
        (
            (|r| if r[0] == 4 { Err(Error::new("collate", ErrorKind::Argument("ragged".into()))) } else { Ok(()) }) as fn(&[usize]) -> Result<()>,
            false,
            "ragged",
        ),
        (|r| if r[0] == 4 { panic!("no way") } else { Ok(()) }, false, "collating batch 2 panicked: no way"),
        (
            |r| {
                if r[0] == 4 {
                    loop {
                        std::thread::park();
                    }
                }
                Ok(())
            },
            true,
            "collating batch 2 did not end within 1.000 s",
        ),
    ] {
        let set = Faulty::with(10, vec![], collate);
        let build = DataLoader::new(set).batch_size(2).workers(2);
        let mut loader = if hangs { build.timeout(Duration::from_secs(1)) } else { build }.build().unwrap();
        let all: Vec<_> = loader.epoch().collect();
        let error = all[2].as_ref().unwrap_err().to_string();
        assert!(all.len() == 3 && error.contains(says) && error.contains("tests.rs"), "{error}");
    }
}
#[test]
fn settings_that_make_no_sense_and_are_taken() {
    let set = || DataLoader::new(Faulty::new(3, vec![]));
    for (build, says) in [
        (set().batch_size(0), "at least one record"),
        (set().prefetch_factor(0), "at least 1"),
        (set().shard(2, 2), "no rank 2 of 2"),
        (set().shard(0, 0), "no rank 0 of 0"),
        (set().timeout(Duration::from_secs(1)), "needs workers"),
    ] {
        assert!(build.build().unwrap_err().to_string().contains(says));
    }
    let mut empty = DataLoader::new(Faulty::new(0, vec![])).workers(2).build().unwrap();
    assert!(empty.next_batch().is_none() && empty.next_batch().is_none());
    let loader = DataLoader::high_throughput(Faulty::new(5000, vec![])).build().unwrap();
    assert_eq!((loader.batches(), loader.window), (5, 16));
}
#[test]
fn a_set_that_is_copied_for_each_worker() {
    let set = Faulty::new(64, vec![]);
    let mut loader = DataLoader::new(set.clone()).batch_size(1).workers(8).build().unwrap();
    assert_eq!(rest(&mut loader).len(), 64);
    let seen: BTreeSet<*const Faulty> = [Arc::as_ptr(&set), Arc::as_ptr(loader.dataset())].into();
    assert_eq!((seen.len(), set.reads.load(SeqCst)), (1, 64));
}
#[cfg(feature = "stream")]
#[test]
fn a_stream_that_sleeps_when_a_batch_is_there() {
    use futures_core::Stream;
    use std::{pin::pin, sync::mpsc, task::Wake};
    struct Bell(mpsc::Sender<()>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    for workers in [0, 1, 3] {
        let set = Faulty::new(60, vec![(7, Fault::Hang), (8, Fault::Corrupt)]);
        let build = DataLoader::new(set.clone()).batch_size(4).shuffle(2).on_bad_record(skip(2)).workers(workers);
        let mut loader = if workers > 0 { build.timeout(Duration::from_secs(1)).build().unwrap() } else { build.build().unwrap() };
        if workers == 0 {
            set.let_go();
        }
        let (ring, rung) = mpsc::channel();
        let waker = Waker::from(Arc::new(Bell(ring)));
        let mut context = std::task::Context::from_waker(&waker);
        let mut got = Vec::new();
        {
            let mut stream = pin!(loader.stream());
            loop {
                match stream.as_mut().poll_next(&mut context) {
                    Poll::Ready(Some(batch)) => got.push(batch.unwrap().0.clone()),
                    Poll::Ready(None) => break,
                    // Fails, instead of hanging, if nobody rings.
                    Poll::Pending => rung.recv_timeout(Duration::from_secs(60)).unwrap(),
                }
            }
        }
        let without: &[usize] = if workers == 0 { &[8] } else { &[7, 8] };
        assert_eq!(got, expected(loader.cut.clone(), 0, without), "{workers} workers");
        set.let_go();
    }
}
