//! What is known of the data behind a value: the error that was found, or, while an asynchronous device still looks, the words
//! of a run that will tell. Must not know plans: a run says which word tells of which op.
use crate::{
    Error, ErrorKind, Origin, Shape,
    backend::{Event, Reports, Words},
    kernel::{Culprit, Fault, fault_error},
    shape::Layout,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
};

/// Some of a run's seeds: the places where bad data may come in, by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seeds(SmallVec<[u64; 2]>);
impl Seeds {
    /// One more.
    pub fn insert(&mut self, seed: usize) {
        if self.0.len() <= seed / 64 {
            self.0.resize(seed / 64 + 1, 0);
        }
        self.0[seed / 64] |= 1 << (seed % 64);
    }
    /// All of these too.
    pub fn extend(&mut self, other: &Seeds) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }
    /// None?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(k, &word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| k * 64 + bit))
    }
}

/// What was found in the data behind a value.
#[derive(Clone)]
pub enum Taint {
    /// this
    Known(Error),
    /// the device still looks, or it has told; apart, for a value is moved often and seldom waits
    Awaited(Box<Awaited>),
}
/// The seeds of a run that a value depends on.
#[derive(Clone)]
pub struct Awaited {
    pub(crate) faults: Arc<Faults>,
    pub(crate) seeds: Seeds,
}
impl Taint {
    /// Is nothing bad behind it, as far as is known without waiting? False also where it is not known yet.
    pub fn is_clean(&self) -> bool {
        matches!(self.known(), Some(None))
    }
    /// What was found, if that is known without waiting.
    pub fn known(&self) -> Option<Option<Error>> {
        match self {
            Taint::Known(e) => Some(Some(e.clone())),
            Taint::Awaited(a) => a.faults.found.get().map(|found| first(found, &a.seeds)),
        }
    }
    /// What was found; waits for the device, if need be.
    pub fn found(&self) -> Option<Error> {
        match self {
            Taint::Known(e) => Some(e.clone()),
            Taint::Awaited(a) => first(a.faults.wait(), &a.seeds),
        }
    }
    /// As `found`, for somebody who tells the user: neither the run where it was found nor one that it spoiled need be told of
    /// again.
    pub fn told(&self) -> Option<Error> {
        let found = self.found();
        if let (Taint::Awaited(a), Some(_)) = (self, &found) {
            a.faults.told.store(true, Release);
            if let Some(before) = a.faults.spoiled_by(&a.seeds) {
                before.told();
            }
        }
        found
    }
}
impl fmt::Debug for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some(found) => write!(f, "Taint({found:?})"),
            None => f.write_str("Taint(awaited)"),
        }
    }
}
type Found = Vec<Option<Error>>;
fn first(found: &Found, seeds: &Seeds) -> Option<Error> {
    seeds.iter().find_map(|seed| found.get(seed).cloned().flatten())
}

/// Where bad data may come into a run, and the word that tells.
pub(crate) struct Seed {
    pub word: u32,
    pub what: TaintSource,
}
pub(crate) enum TaintSource {
    /// An op that looks at its data: which, where it was called, and how its index lies, if it has one.
    Op { op: Culprit, origin: Origin, index: Option<(Shape, Layout)> },
    /// an input of the run
    Input(Taint),
}
/// A run that the device looks at, and what came of it.
pub(crate) struct Faults {
    pub words: Arc<dyn Words>,
    /// the last work that writes the words
    pub after: Event,
    seeds: Vec<Seed>,
    /// what cells were not written for, if it was raised
    suppresses: Seeds,
    reading: Mutex<Option<Box<dyn Reports>>>,
    found: OnceLock<Found>,
    told: AtomicBool,
    /// how many runs before this one it waits for, one behind the other
    depth: u32,
}
/// So many runs in a row may read what another left unsettled; the next waits for them.
pub(crate) const DEEPEST: u32 = 32;
impl Faults {
    pub fn new(words: Arc<dyn Words>, after: Event, seeds: Vec<Seed>, suppresses: Seeds, reading: Box<dyn Reports>) -> Arc<Faults> {
        let before = seeds.iter().filter_map(|seed| if let TaintSource::Input(Taint::Awaited(a)) = &seed.what { Some(a.faults.depth) } else { None });
        let depth = before.max().map_or(0, |depth| depth + 1);
        let (reading, found, told) = (Mutex::new(Some(reading)), OnceLock::new(), AtomicBool::new(false));
        Arc::new(Faults { words, after, seeds, suppresses, reading, found, told, depth })
    }
    /// The words that tell of these seeds.
    pub fn words_of(&self, seeds: &Seeds) -> Vec<u32> {
        let mut words: Vec<u32> = seeds.iter().filter_map(|seed| self.seeds.get(seed)).map(|seed| seed.word).collect();
        words.dedup();
        words
    }
    /// Finds out what there is to be found without waiting.
    pub fn look(&self) {
        if self.found.get().is_some() {
            return;
        }
        let ready = self.reading.lock().as_ref().is_some_and(|reading| reading.is_ready());
        let inputs = || self.seeds.iter().all(|seed| if let TaintSource::Input(taint) = &seed.what { taint.known().is_some() } else { true });
        if ready && inputs() {
            self.wait();
        }
    }
    /// Bounds how many runs wait one behind the other: the last of too many is waited for. Of few it is not even asked whether
    /// they are done: what a run does, and what a step returns, is not to depend on how fast the device is.
    pub fn bound(&self) {
        if self.depth >= DEEPEST / 2 {
            self.look();
        }
        if self.depth >= DEEPEST {
            self.wait();
        }
    }
    /// By seed, what was found.
    pub fn wait(&self) -> &Found {
        if let Some(found) = self.found.get() {
            return found;
        }
        // Under the lock, so that a second one who waits finds what the first one was told.
        let mut reading = self.reading.lock();
        self.found.get_or_init(|| {
            let reports = match reading.take().map(|reading| crate::foreign::guarded(|| "a device that reports".into(), || reading.wait()).flatten()) {
                Some(Ok(reports)) => reports,
                Some(Err(kind)) => return self.unknown(&kind),
                None => return self.unknown(&ErrorKind::Internal("faults that were read twice".into())),
            };
            self.seeds.iter().map(|seed| reports.get(seed.word as usize).cloned().flatten().and_then(|fault| seed.error(fault))).collect()
        })
    }
    /// Nobody can tell any more.
    fn unknown(&self, kind: &ErrorKind) -> Found {
        let error = |seed: &Seed| match &seed.what {
            TaintSource::Op { op, origin, .. } => Error::at(op.name, kind.clone(), *origin),
            TaintSource::Input(_) => Error::new("read", kind.clone()),
        };
        self.seeds.iter().map(|seed| Some(error(seed))).collect()
    }
}
impl Seed {
    fn error(&self, fault: Fault) -> Option<Error> {
        match &self.what {
            TaintSource::Op { op, origin, index } => Some(fault_error(*op, positioned(fault, index.as_ref()), *origin)),
            TaintSource::Input(taint) => taint.found(),
        }
    }
}
/// An index that is repeated along an axis (for every feature of a row) was given once: its position without those axes.
pub(crate) fn positioned(fault: Fault, index: Option<&(Shape, Layout)>) -> Fault {
    let (Fault::Index { index: found, bound, position }, Some((shape, layout))) = (&fault, index) else { return fault };
    let (mut rest, mut given, mut step) = (*position, 0, 1);
    for axis in (0..shape.rank()).rev() {
        let size = shape[axis].max(1);
        if layout.strides[axis] != 0 {
            given += rest % size * step;
            step *= size;
        }
        rest /= size;
    }
    Fault::Index { index: *found, bound: *bound, position: given }
}

/// The runs of a device that may have left cells unwritten, until somebody is told.
#[derive(Default)]
pub(crate) struct Outstanding(Mutex<Vec<Arc<Faults>>>);
/// So many runs may be under way that nobody asks about; beyond that, the first of them is waited for.
const MOST: usize = 64;
impl Outstanding {
    /// One more.
    pub fn add(&self, faults: Arc<Faults>) {
        let mut all = self.0.lock().clone();
        if all.len() >= MOST {
            all.iter().for_each(|faults| faults.look());
            if let Some(first) = all.iter().find(|f| f.found.get().is_none()) {
                first.wait();
            }
        }
        all = std::mem::take(&mut *self.0.lock());
        // Of many that nobody asks about, the first is told.
        let mut bad = false;
        all.retain(|faults| match faults.suppressed() {
            Some(None) => false,
            Some(Some(_)) => !faults.is_told() && !std::mem::replace(&mut bad, true),
            None => true,
        });
        all.push(faults);
        let mut own = self.0.lock();
        all.append(&mut own);
        *own = all;
    }
    /// The first error that nobody was told; all are told by it.
    pub fn settle(&self) -> Option<Error> {
        let all = std::mem::take(&mut *self.0.lock());
        let mut first = None;
        for faults in all {
            faults.wait();
            let suppressed = faults.suppressed().flatten();
            if !faults.is_told() && first.is_none() {
                first = suppressed;
            }
            faults.told.store(true, Release);
        }
        first
    }
}
impl Faults {
    /// The input behind what was found for these seeds, if it came in by one.
    fn spoiled_by(&self, seeds: &Seeds) -> Option<&Taint> {
        let found = self.found.get()?;
        let raised = seeds.iter().find(|seed| found.get(*seed).is_some_and(Option::is_some))?;
        if let TaintSource::Input(taint) = &self.seeds.get(raised)?.what { Some(taint) } else { None }
    }
    /// Was the user told why cells were not written, of this run or of the one that spoiled it?
    fn is_told(&self) -> bool {
        self.told.load(Acquire)
            || match self.spoiled_by(&self.suppresses) {
                Some(Taint::Awaited(a)) => a.faults.is_told(),
                Some(Taint::Known(_)) | None => false,
            }
    }
    /// Why cells were not written, if that is known.
    fn suppressed(&self) -> Option<Option<Error>> {
        self.found.get().map(|found| self::first(found, &self.suppresses))
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_set() {
        let (mut a, mut b) = (Seeds::default(), Seeds::default());
        assert!(a.is_empty());
        a.insert(3);
        b.insert(130);
        b.insert(3);
        a.extend(&b);
        assert_eq!(a.iter().collect::<Vec<_>>(), [3, 130]);
        assert!(!a.is_empty() && a == b);
    }
}
