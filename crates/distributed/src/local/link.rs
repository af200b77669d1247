//! A slow network, rehearsed: calls of `local` take the time that they would take over a link between the ranks, and the core is free
//! meanwhile.
//!
//! `ADAMANT_LINK="alpha=100us,beta=200MB/s"`: a message takes `alpha`, and each of its bytes 1 / `beta` (Hockney 1994). Every rank has one way
//! out and one way in; both are in use at once. What was exchanged is there much sooner, and is held back until the time is over; so nothing
//! returns sooner than it does without a link, and no bit changes.
//!
//! | of n ranks | messages | bytes, out or in, whichever is more |
//! |---|---|---|
//! | all-reduce of B bytes, long | 2 (n - 1) | (n - 1)/n of what it brings, and of B |
//! | all-reduce of B bytes, short | n - 1 | what it brings, to each |
//! | reduce-scatter | n - 1 | (n - 1)/n of what it brings |
//! | all-gather, all-to-all, barrier | n - 1 | what goes to the others, what comes from them |
//! | broadcast of B bytes | s = log2 n, rounded up | s B |
//! | send, receive | 1 | B: the sender goes on at once, and what it sends next leaves behind it |
//!
//! Time counts from when all ranks have come. To make a group takes none. Must not know: what is exchanged, who reads the variable when.
use super::{LocalRank, stage::Stages};
use crate::ErrorKind;
use adamant_runtime::communicator::ReductionTree;
use parking_lot::Mutex;
use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The variable that names the link.
pub const LINK_VARIABLE: &str = "ADAMANT_LINK";

/// How fast a link is.
///
/// ```
/// use adamant_distributed::local::LinkSpeed;
/// use std::time::Duration;
///
/// let link: LinkSpeed = "alpha=100us,beta=200MB/s".parse()?;
/// // Two messages, and two million bytes.
/// assert_eq!(link.time(2, 2_000_000), Duration::from_micros(2 * 100 + 10_000));
/// # Ok::<(), adamant_distributed::local::LinkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// what each message takes
    pub alpha: Duration,
    /// bytes in a second; infinite where only the messages take time
    pub beta: f64,
}
/// Text that names no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ADAMANT_LINK is `{value}`, but {why}; it should be a time for each message and a rate, or one of both, as `alpha=100us,beta=200MB/s`")]
pub struct LinkError {
    /// the text
    pub value: String,
    /// what is wrong with it
    pub why: String,
}
impl From<LinkError> for ErrorKind {
    fn from(error: LinkError) -> ErrorKind {
        ErrorKind::Argument(error.to_string())
    }
}
/// Units of rates, and how many bytes a second each is.
const RATES: [(&str, f64); 11] = [
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
    ("bit/s", 0.125),
    ("kbit/s", 125.0),
    ("Mbit/s", 125e3),
    ("Gbit/s", 125e6),
];
/// Units of times, and how many seconds each is.
const TIMES: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
/// A number with its unit, in the first of the units.
fn measured(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let known = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let number: f64 = number.trim().parse().map_err(|_| format!("`{text}` is no number with a unit"))?;
    let times = units.iter().find(|(name, _)| *name == unit.trim()).map(|(_, times)| *times);
    let times = times.ok_or_else(|| if unit.is_empty() { format!("`{text}` has no unit: {}", known()) } else { format!("`{unit}` is none of {}", known()) })?;
    if number.is_finite() && number >= 0.0 { Ok(number * times) } else { Err(format!("`{text}` is below 0 or beyond all bounds")) }
}
impl FromStr for LinkSpeed {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<LinkSpeed, LinkError> {
        let wrong = |why: String| LinkError { value: text.into(), why };
        let (mut alpha, mut beta) = (None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(format!("`{}` is no `key=value`", part.trim())))?;
            let (key, value) = (key.trim(), value.trim());
            let (place, units) = match key {
                "alpha" => (&mut alpha, &TIMES[..]),
                "beta" => (&mut beta, &RATES[..]),
                _ => return Err(wrong(format!("there is no `{key}`, only alpha and beta"))),
            };
            let number = measured(value, units).map_err(|why| wrong(format!("{key}: {why}")))?;
            if place.replace(number).is_some() {
                return Err(wrong(format!("{key} is there twice")));
            }
        }
        if beta == Some(0.0) {
            return Err(wrong("beta: with no bytes in a second nothing ever comes".into()));
        }
        let alpha = Duration::try_from_secs_f64(alpha.unwrap_or(0.0)).map_err(|_| wrong("alpha is longer than can be waited".into()))?;
        Ok(LinkSpeed { alpha, beta: beta.unwrap_or(f64::INFINITY) })
    }
}
impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alpha {:?}", self.alpha)?;
        if self.beta.is_finite() { write!(f, ", beta {} MB/s", self.beta / 1e6) } else { Ok(()) }
    }
}
impl LinkSpeed {
    /// The link that this process's variable names; none where it is not set, or empty.
    ///
    /// # Errors
    /// A value that names none.
    pub fn from_environment() -> Result<Option<LinkSpeed>, LinkError> {
        let value = std::env::var_os(LINK_VARIABLE).map(|value| value.to_string_lossy().trim().to_string());
        value.filter(|value| !value.is_empty()).map(|value| value.parse()).transpose()
    }
    /// What so many messages one after another take, of so many bytes together.
    pub fn time(&self, messages: usize, bytes: usize) -> Duration {
        let seconds = self.alpha.as_secs_f64() * messages as f64 + bytes as f64 / self.beta;
        // Longer than a century is as long as ever.
        Duration::try_from_secs_f64(seconds).unwrap_or(EVER).min(EVER)
    }
}
const EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What a call puts on the link of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkLoad {
    pub(super) messages: usize,
    /// bytes that leave it
    pub(super) out: usize,
    /// bytes that come
    pub(super) into: usize,
}
impl LinkLoad {
    /// One message to each other rank.
    pub(super) fn exchanged(size: usize, out: usize, into: usize) -> LinkLoad {
        LinkLoad { messages: size - 1, out, into }
    }
    /// So many bytes of one rank, which go along a binomial tree.
    pub(super) fn broadcast(size: usize, bytes: usize) -> LinkLoad {
        let steps = size.next_power_of_two().ilog2() as usize;
        LinkLoad { messages: steps, out: steps * bytes, into: steps * bytes }
    }
    /// Pieces of what all bring, each of which is as long as a part of `node` bytes for each rank.
    pub(super) fn scattered(tree: &ReductionTree, rank: usize, node: usize) -> LinkLoad {
        let brings = |rank: usize| tree.nodes(rank).len() * node / tree.size.max(1);
        let others = (0..tree.size).filter(|other| *other != rank);
        LinkLoad::exchanged(tree.size, brings(rank) * (tree.size - 1), others.map(brings).sum())
    }
    /// The sum of `bytes` that all get.
    pub(super) fn reduced(tree: &ReductionTree, rank: usize, bytes: usize, is_short: bool) -> LinkLoad {
        let pieces = LinkLoad::scattered(tree, rank, bytes);
        if is_short {
            // Everything goes to everybody at once.
            return LinkLoad { out: pieces.out * tree.size, into: pieces.into * tree.size, ..pieces };
        }
        let sums = bytes / tree.size * (tree.size - 1);
        LinkLoad { messages: 2 * pieces.messages, out: pieces.out + sums, into: pieces.into + sums }
    }
}

/// A rank's link: all groups that it is in share it.
pub(super) struct RankLink {
    speed: LinkSpeed,
    free: Mutex<FreeFrom>,
}
/// From when on something may leave, and come.
struct FreeFrom {
    out: Instant,
    into: Instant,
}
impl RankLink {
    pub(super) fn new(speed: LinkSpeed) -> RankLink {
        let now = Instant::now();
        RankLink { speed, free: Mutex::new(FreeFrom { out: now, into: now }) }
    }
    /// When something that all have come to is over.
    fn occupy(&self, met: Instant, load: LinkLoad) -> Instant {
        let mut free = self.free.lock();
        let until = met.max(free.out).max(free.into) + self.speed.time(load.messages, load.out.max(load.into));
        *free = FreeFrom { out: until, into: until };
        until
    }
    /// When a message that is sent now arrives.
    fn depart(&self, bytes: usize) -> Instant {
        let mut free = self.free.lock();
        let departs = Instant::now().max(free.out);
        free.out = departs + self.speed.time(0, bytes);
        departs + self.speed.time(1, bytes)
    }
    /// When a message is whole that arrives then, behind what came before.
    fn arrive(&self, arrives: Instant, bytes: usize) -> Instant {
        let mut free = self.free.lock();
        free.into = arrives.max(free.into + self.speed.time(0, bytes));
        free.into
    }
}
/// When a message arrives, as its head says it: the moment on the clock of the host's processes, and how long that is from when it was sent,
/// which bounds the wait where somebody sets the clock.
pub(super) type ArrivalStamp = [u64; 2];

fn clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
/// The stamp of a message that is sent now: zeros without a link.
pub(super) fn departure(on: &LocalRank, bytes: usize) -> ArrivalStamp {
    let Some(link) = &on.link else { return [0; 2] };
    let takes = link.depart(bytes).saturating_duration_since(Instant::now());
    [clock() + takes, takes].map(|time| time.as_nanos() as u64)
}
/// Holds back a message until it has arrived.
pub(super) fn arrival(stages: &Stages<'_>, [arrives, takes]: ArrivalStamp, bytes: usize) -> Result<(), ErrorKind> {
    let Some(link) = &stages.on.link else { return Ok(()) };
    let left = Duration::from_nanos(arrives).saturating_sub(clock()).min(Duration::from_nanos(takes));
    stages.pass_time(link.arrive(Instant::now() + left, bytes))
}
/// Holds back what the whole group does until it is over; nothing where no link is rehearsed.
pub(super) fn travel(stages: &Stages<'_>, met: Option<Instant>, load: impl FnOnce() -> LinkLoad) -> Result<(), ErrorKind> {
    match &stages.on.link {
        Some(link) if stages.on.members.len() > 1 => stages.pass_time(link.occupy(met.unwrap_or_else(Instant::now), load())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_ir::{DType, op::ReduceOp};

    #[test]
    fn times_that_are_not_those_of_the_algorithm() {
        let us = Duration::from_micros;
        let link: LinkSpeed = "beta=1MB/s,alpha=10us".parse().unwrap();
        let time = |load: LinkLoad| link.time(load.messages, load.out.max(load.into));
        for n in 2..=9usize {
            // A byte takes a microsecond; every rank brings one node.
            let (tree, bytes, steps) = (ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, n), 5040, (n as u64).next_power_of_two().ilog2() as u64);
            let part = 5040 / n as u64 * (n as u64 - 1);
            for rank in 0..n {
                assert_eq!(time(LinkLoad::reduced(&tree, rank, bytes, false)), us(20 * (n as u64 - 1) + 2 * part), "{n}");
                assert_eq!(time(LinkLoad::reduced(&tree, rank, bytes, true)), us(10 * (n as u64 - 1) + 5040 * (n as u64 - 1)), "{n}");
                assert_eq!(time(LinkLoad::scattered(&tree, rank, bytes)), us(10 * (n as u64 - 1) + part), "{n}");
            }
            assert_eq!(time(LinkLoad::broadcast(n, bytes)), us((10 + 5040) * steps), "{n}");
            assert_eq!(time(LinkLoad::exchanged(n, 70, 90)), us(10 * (n as u64 - 1) + 90), "{n}");
        }
        // Of 8 parts on 3 ranks these bring 1, 2 and 2 nodes.
        let tree = ReductionTree { reduce: ReduceOp::Sum, dtype: DType::F32, parts: 8, size: 3 };
        let loads = [(1000, 2000), (2000, 1500), (2000, 1500)].map(|(out, into)| LinkLoad { messages: 2, out, into });
        assert_eq!([0, 1, 2].map(|rank| LinkLoad::scattered(&tree, rank, 1500)), loads);
        assert!(LinkSpeed { alpha: Duration::MAX, beta: 1e-9 }.time(usize::MAX, usize::MAX) <= EVER);
    }
    #[test]
    fn a_message_that_overtakes_another() {
        let link = RankLink::new("alpha=1ms,beta=1MB/s".parse().unwrap());
        let begun = Instant::now();
        let (first, second) = (link.depart(5000), link.depart(2000));
        assert!(first >= begun + Duration::from_millis(6) && second >= begun + Duration::from_millis(8));
        // What comes at once comes one behind the other.
        let (one, other) = (link.arrive(begun + Duration::from_millis(3), 3000), link.arrive(begun, 4000));
        assert!(one == begun + Duration::from_millis(3) && other == one + Duration::from_millis(4));
        // What all come to begins when both ways are free.
        let load = LinkLoad { messages: 1, out: 0, into: 1000 };
        assert!(link.occupy(begun, load) >= begun + Duration::from_millis(9));
    }
    fn check(text: &str, told: &str) {
        let error = text.parse::<LinkSpeed>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("ADAMANT_LINK is `{text}`, but ")) && error.contains(told) && error.contains("alpha=100us,beta=200MB/s"), "{error}");
    }
    #[test]
    fn a_link_that_is_read_as_another() {
        // Numbers, units and spaces drawn; the answer is worked out in whole nanoseconds and bits.
        let mut drawn = 1u64;
        let mut next = |below: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % below
        };
        let times = [("ns", 1u64), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let rates = [("B/s", 8u64), ("kB/s", 8000), ("MB/s", 8_000_000), ("GB/s", 8_000_000_000), ("KiB/s", 8 << 10), ("MiB/s", 8 << 20)];
        let rates = [&rates[..], &[("GiB/s", 8 << 30), ("bit/s", 1), ("kbit/s", 1000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)]].concat();
        for _ in 0..2000 {
            let ((time, nanos), (rate, bits)) = (times[next(4) as usize], rates[next(rates.len() as u64) as usize]);
            let (a, b) = (next(2000), next(100_000) + 1);
            let space = ["", " "][next(2) as usize];
            // Quarters are exact.
            let (alpha, beta) = (format!("alpha{space}={space}{}{space}{time}", a as f64 / 4.0), format!("beta={}{space}{rate}", b as f64 / 4.0));
            let (text, only) = match next(4) {
                0 => (format!("{alpha},{beta}"), (true, true)),
                1 => (format!("{beta}{space},{space}{alpha}"), (true, true)),
                2 => (alpha, (true, false)),
                _ => (beta, (false, true)),
            };
            let link: LinkSpeed = text.parse().unwrap();
            let want = if only.0 { a as f64 / 4.0 * nanos as f64 } else { 0.0 };
            assert!((link.alpha.as_nanos() as f64 - want).abs() <= 1.0 + want * 1e-12, "{text}: {link:?}");
            match only.1 {
                true => assert!((link.beta * 32.0 / (b * bits) as f64 - 1.0).abs() < 1e-12, "{text}: {link:?}"),
                false => assert_eq!(link.beta, f64::INFINITY, "{text}"),
            }
            // A character too many or too few is no other link.
            check(&format!("{text},"), "`` is no `key=value`");
            check(&format!("{text}x"), "is none of");
            check(&format!("{text},{}", text.split(',').next().unwrap().trim()), "twice");
            check(&format!("x{text}"), "there is no `x");
        }
        check("alpha=1", "alpha: `1` has no unit: ns, us, ms, s");
        check("beta=10", "has no unit: B/s");
        check("alpha=10us,beta=5", "beta: `5` has no unit");
        check("alpha=-1us", "alpha: `-1us` is below 0");
        check("beta=-2MB/s", "beta: `-2MB/s` is below 0");
        check("beta=0MB/s", "nothing ever comes");
        check("beta=mb/s", "is no number with a unit");
        check("beta=1mb/s", "`mb/s` is none of");
        check("alpha=1MB/s", "`MB/s` is none of ns");
        check("beta=1us", "`us` is none of B/s");
        check("gamma=1", "there is no `gamma`, only alpha and beta");
        check("alpha=inf us", "is no number with a unit");
        check("alpha=1e300s", "longer than can be waited");
        check("slow", "`slow` is no `key=value`");
    }
}
