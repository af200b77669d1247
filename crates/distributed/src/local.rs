//! The engine `local`: ranks on one host, as processes or as threads of one process, with nothing to install.
//!
//! ```text
//! processes: EngineRequest -> RankControl (join, who lives) -> rank 0 makes a SharedSegment, the others open it -> LocalRank
//! threads:   local_threads(size) -> ThreadRanks (who lives) -> a SharedSegment of anonymous memory ----------> LocalRank
//! LocalRank: Communicator -> collectives (what is written and read) -> stage (when) -> word (how one waits) -> SharedSegment
//!                         -> channel (send, receive) -> ring ----------^
//! ```
//!
//! Data goes through shared memory, in chunks that stay in a cache, so that a tensor of any size passes through a segment of bounded
//! size. Who waits spins for a moment and sleeps then; a rank that dies is seen by its control connection, whose thread wakes those who
//! sleep. Both kinds of ranks run the same code. Where a slow network is rehearsed ([`LinkSpeed`]), what came is held back for as long as it
//! would have taken.
//!
//! Errors name ranks as the whole job counts them, also in groups that were split off.
mod channel;
mod collectives;
mod cores;
mod layout;
mod link;
mod reach;
mod ring;
mod segment;
mod stage;
mod word;

use crate::{
    ErrorKind,
    control::{RankControl, cause::FailureCause},
    join::CalledOff,
};
use adamant_ir::{DType, op::ReduceOp};
use adamant_runtime::{
    communicator::{CollectiveCall, Communicator, EngineRequest, GroupState, ReductionTree},
    register_engine,
};
use layout::Layout;
pub use link::{LINK_VARIABLE, LinkError, LinkSpeed};
use link::{LinkLoad, RankLink};
use parking_lot::Mutex;
use reach::{Reach, ThreadRank, ThreadRanks};
use segment::SharedSegment;
use stage::{CallCounts, Patience, Stages};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

register_engine!(LOCAL, "local", open, present);

/// Ranks of threads wait for each other so long.
const THREADS_WAIT: Duration = Duration::from_secs(60);

/// Can ranks be processes here?
///
/// # Errors
/// Systems other than Linux, where processes have no memory in common that vanishes with them: what to use there.
pub fn present() -> Result<(), ErrorKind> {
    if cfg!(target_os = "linux") {
        return Ok(());
    }
    Err(ErrorKind::EngineAbsent("`local` shares memory between processes on Linux only: use ranks of threads, or MPI (OpenMPI, MPICH)".into()))
}
/// This rank's group.
///
/// # Errors
/// Ranks on several hosts; a request that makes no sense; ranks that did not come in time; no memory.
pub fn open(request: &EngineRequest) -> Result<Arc<dyn Communicator>, ErrorKind> {
    open_unless(request, None)
}
/// The same, unless it is called off while the ranks meet.
pub(crate) fn open_unless(request: &EngineRequest, called_off: Option<CalledOff<'_>>) -> Result<Arc<dyn Communicator>, ErrorKind> {
    let (rank, size) = (request.rank, request.size);
    if rank >= size {
        return Err(ErrorKind::Argument(format!("there is no rank {rank} among {size}")));
    }
    let members: Vec<usize> = (0..size).collect();
    let layout = Layout { size };
    let link = rehearsed(LinkSpeed::from_environment()?, rank == 0 && size > 1);
    if size == 1 {
        // Nobody else: nothing that others could open or that could be lost.
        let reach = Reach::Threads(Arc::new(ThreadRank { ranks: Arc::new(ThreadRanks::new(1)), rank: 0 }));
        let segment = SharedSegment::anonymous(layout.bytes())?;
        return Ok(LocalRank::new(0, members, vec![0], (segment, 1), reach, (request.timeout, link)));
    }
    if request.local.0 < size {
        let here = format!("`local` is for ranks of one host, and {} of {size} are on this one", request.local.0);
        return Err(ErrorKind::EngineAbsent(format!(
            "{here}: use `mpi`, for which OpenMPI or MPICH is installed on every host (`apt-get install openmpi-bin`)"
        )));
    }
    present()?;
    let control = Arc::new(RankControl::join_unless(request, called_off)?);
    let reach = Reach::Processes(control.clone());
    let segment = set_up(&control, &reach, layout);
    if let Err(kind) = &segment {
        control.end_group(0, FailureCause::of(kind));
    }
    Ok(LocalRank::new(rank, members, vec![0], segment?, reach, (request.timeout, link)))
}
/// A rank's link, if one is rehearsed; that is said once, by the first rank.
fn rehearsed(speed: Option<LinkSpeed>, says: bool) -> Option<Arc<RankLink>> {
    if let Some(speed) = speed.filter(|_| says) {
        tracing::warn!(target: "adamant::ranks", "a link is rehearsed between the ranks ({LINK_VARIABLE}): {speed}");
    }
    speed.map(|speed| Arc::new(RankLink::new(speed)))
}
/// Rank 0 makes the memory, the others open it, and all know that all have; and how many cores there are for all.
fn set_up(control: &RankControl, reach: &Reach, layout: Layout) -> Result<(Arc<SharedSegment>, usize), ErrorKind> {
    let made = if control.rank() == 0 { Some(reach.offer(0, layout)?) } else { None };
    let offer = made.as_ref().map_or(&[][..], |(_, offer)| offer);
    let offers = control.exchange_small(offer)?;
    let segment = match made {
        Some((segment, _)) => segment,
        None => reach.accept(0, layout, &offers[0]).map_err(|kind| explained(kind, || control.verdict(&[0], "setting up", 0)))?,
    };
    let cores = cores::of_all(&control.exchange_small(&cores::told())?);
    Ok((segment, cores))
}
/// Why memory could not be opened: its maker may have failed, of which the news is on its way.
fn explained(kind: ErrorKind, verdict: impl Fn() -> Option<ErrorKind>) -> ErrorKind {
    const NEWS: Duration = Duration::from_millis(500);
    let until = Instant::now() + NEWS;
    while Instant::now() < until {
        if let Some(verdict) = verdict() {
            return verdict;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    kind
}
/// So many ranks of this process: one for each thread that is to be one.
///
/// ```
/// use adamant_distributed::local::local_threads;
/// use adamant_runtime::{Shape, TensorType, DType, communicator::CollectiveCall, op::CollectiveKind};
///
/// let kind = CollectiveKind::AllGather { used: adamant_runtime::op::RankUse::Alike };
/// let made = TensorType { shape: Shape::new(&[2])?, dtype: DType::U8 };
/// let gather = |on: std::sync::Arc<dyn adamant_runtime::communicator::Communicator>| {
///     let (mut a, mut b) = ([0; 1], [0; 1]);
///     let call = CollectiveCall::next(&*on, kind, made, None);
///     on.all_gather(&call, &[10 + on.rank() as u8], &mut [&mut a, &mut b]).map(|()| [a[0], b[0]])
/// };
/// std::thread::scope(|scope| {
///     let ranks: Vec<_> = local_threads(2)?.into_iter().map(|on| scope.spawn(move || gather(on))).collect();
///     for rank in ranks {
///         assert_eq!(rank.join().unwrap()?, [10, 11]);
///     }
///     Ok::<_, adamant_runtime::ErrorKind>(())
/// })?;
/// # Ok::<_, adamant_runtime::ErrorKind>(())
/// ```
///
/// # Errors
/// No memory; an `ADAMANT_LINK` that names no link.
pub fn local_threads(size: usize) -> Result<Vec<Arc<dyn Communicator>>, ErrorKind> {
    local_threads_with(size, THREADS_WAIT)
}
/// The same, of ranks that wait so long for each other.
///
/// # Errors
/// As [`local_threads`].
pub fn local_threads_with(size: usize, timeout: Duration) -> Result<Vec<Arc<dyn Communicator>>, ErrorKind> {
    local_threads_over(LinkSpeed::from_environment()?, size, timeout)
}
/// The same, with a link between the ranks that is rehearsed, or none, whatever the environment says.
///
/// # Errors
/// No memory.
pub fn local_threads_over(link: Option<LinkSpeed>, size: usize, timeout: Duration) -> Result<Vec<Arc<dyn Communicator>>, ErrorKind> {
    let ranks = Arc::new(ThreadRanks::new(size));
    let segment = SharedSegment::anonymous(Layout { size }.bytes().max(1))?;
    let one = |rank| {
        let reach = Reach::Threads(Arc::new(ThreadRank { ranks: ranks.clone(), rank }));
        LocalRank::new(rank, (0..size).collect(), vec![0], (segment.clone(), cores::of_process()), reach, (timeout, rehearsed(link, rank == 0)))
            as Arc<dyn Communicator>
    };
    Ok((0..size).map(one).collect())
}

/// One rank of a group on this host.
struct LocalRank {
    state: GroupState,
    /// among the members
    rank: usize,
    /// the ranks of the group, as the whole job counts them
    members: Vec<usize>,
    /// the group, and those that it was made of
    groups: Vec<u64>,
    layout: Layout,
    segment: Arc<SharedSegment>,
    reach: Reach,
    timeout: Duration,
    /// that all ranks together may run on
    cores: usize,
    patience: Patience,
    /// none: as fast as it goes
    link: Option<Arc<RankLink>>,
    counts: Mutex<CallCounts>,
}
impl LocalRank {
    fn new(
        rank: usize,
        members: Vec<usize>,
        groups: Vec<u64>,
        (segment, cores): (Arc<SharedSegment>, usize),
        reach: Reach,
        (timeout, link): (Duration, Option<Arc<RankLink>>),
    ) -> Arc<LocalRank> {
        let (layout, waiting) = (Layout { size: members.len() }, Arc::downgrade(&segment));
        // Whoever learns that a rank is gone wakes those who wait for it.
        reach.liveness().on_change(Box::new(move || {
            let Some(segment) = waiting.upgrade() else { return false };
            for rank in 0..layout.size {
                segment.word(layout.stage(rank)).disturb();
            }
            for (from, to) in (0..layout.size).flat_map(|from| (0..layout.size).map(move |to| (from, to))) {
                let words = segment.ring_words(layout.ring(from, to));
                words.head.disturb();
                words.tail.disturb();
            }
            true
        }));
        let patience = Patience::of(members.len(), cores);
        Arc::new(LocalRank {
            state: GroupState::default(),
            rank,
            members,
            groups,
            layout,
            segment,
            reach,
            timeout,
            cores,
            patience,
            link,
            counts: Mutex::default(),
        })
    }
    /// A rank of the group as the whole job counts it.
    fn world(&self, rank: usize) -> usize {
        self.members.get(rank).copied().unwrap_or(rank)
    }
    fn group(&self) -> u64 {
        self.groups.first().copied().unwrap_or(0)
    }
    /// This rank's turn, if the group has not ended here.
    fn turn(&self, call: &CollectiveCall) -> Result<parking_lot::MutexGuard<'_, CallCounts>, ErrorKind> {
        let mut counts = self.counts.lock();
        if let Some(ended) = &counts.ended {
            return Err(ended.clone());
        }
        let Some(known) = self.reach.liveness().verdict_before(self.world(self.rank), &self.groups, &self.members, call, call.number) else {
            return Ok(counts);
        };
        // The group has ended here, for this reason: whoever gives up the call has nothing else to tell the others.
        counts.ended = Some(known.clone());
        drop(counts);
        if matches!(known, ErrorKind::PeerLost { .. }) {
            self.reach.end_group(self.group(), FailureCause::of(&known));
        }
        Err(known)
    }
    /// Does something that the whole group does; a failure ends the group on all ranks. Where a link is rehearsed, it takes what its load takes.
    fn together<T>(
        &self,
        (call, extra): (&CollectiveCall, u64),
        load: impl FnOnce() -> LinkLoad,
        run: impl FnOnce(&mut Stages<'_>) -> Result<T, ErrorKind>,
    ) -> Result<T, ErrorKind> {
        let counts = self.turn(call)?;
        self.ending(Stages::begin(self, counts, call, extra), |stages| {
            let done = run(stages)?;
            link::travel(stages, stages.met, load)?;
            Ok(done)
        })
    }
    fn between<T>(&self, call: &CollectiveCall, peer: usize, run: impl FnOnce(&mut Stages<'_>) -> Result<T, ErrorKind>) -> Result<T, ErrorKind> {
        let counts = self.turn(call)?;
        if peer >= self.members.len() || peer == self.rank {
            return Err(ErrorKind::Argument(format!("rank {} exchanges nothing with rank {peer} of {}", self.rank, self.members.len())));
        }
        self.ending(Stages::between(self, counts, call), run)
    }
    fn ending<T>(&self, mut stages: Stages<'_>, run: impl FnOnce(&mut Stages<'_>) -> Result<T, ErrorKind>) -> Result<T, ErrorKind> {
        let done = run(&mut stages);
        if let Err(kind) = &done {
            stages.counts.ended = Some(kind.clone());
            drop(stages);
            // What another rank said, it has said to all.
            if !matches!(kind, ErrorKind::PeerFailed { .. }) {
                self.reach.end_group(self.group(), FailureCause::of(kind));
            }
        }
        done
    }
    /// The memory of a group of some of these ranks, of which the first makes it.
    fn split_memory(&self, stages: &mut Stages<'_>, group: u64, members: &[usize]) -> Result<Option<Arc<SharedSegment>>, ErrorKind> {
        let layout = Layout { size: members.len() };
        let maker = members.first().copied().unwrap_or(0);
        let made = if maker == self.rank { Some(self.reach.offer(group, layout)) } else { None };
        let offer = match &made {
            Some(Ok((_, offer))) => *offer,
            _ => reach::Offer::default(),
        };
        self.segment.write(stages.own_slot(), &offer);
        stages.meet()?;
        let segment = match made {
            Some(made) => Some(made?.0),
            None if members.contains(&self.rank) => {
                let offer = self.segment.bytes(stages.slot(maker), size_of::<reach::Offer>());
                let known = || {
                    let (own, call) = (self.world(self.rank), stages.call);
                    self.reach.liveness().verdict(own, &self.groups, &self.members, &[self.world(maker)], call, call.number)
                };
                Some(self.reach.accept(group, layout, offer).map_err(|kind| explained(kind, known))?)
            }
            None => None,
        };
        stages.meet()?;
        if maker == self.rank {
            self.reach.withdraw(group);
        }
        Ok(segment)
    }
}
/// Bytes of all blocks but this rank's own.
fn lengths<B: AsRef<[u8]>>(rank: usize, blocks: &[B]) -> usize {
    blocks.iter().enumerate().filter(|(k, _)| *k != rank).map(|(_, block)| block.as_ref().len()).sum()
}
impl Communicator for LocalRank {
    fn engine(&self) -> &'static str {
        "local"
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.members.len()
    }
    fn state(&self) -> &GroupState {
        &self.state
    }
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        let load = LinkLoad::exchanged(self.size(), own.len() * (self.size() - 1), lengths(self.rank, blocks));
        self.together((call, 0), || load, |stages| collectives::all_gather(stages, own, blocks))
    }
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind> {
        let load = LinkLoad::exchanged(self.size(), lengths(self.rank, to), lengths(self.rank, from));
        self.together((call, 0), || load, |stages| collectives::all_to_all(stages, to, from))
    }
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.between(call, to, |stages| channel::send(stages, to, bytes))
    }
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.between(call, from, |stages| channel::receive(stages, from, bytes))
    }
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        let load = LinkLoad::broadcast(self.size(), bytes.len());
        self.together((call, 0), || load, |stages| collectives::broadcast(stages, root, bytes))
    }
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        let bytes = sum.len();
        let load = || LinkLoad::reduced(tree, self.rank, bytes, collectives::is_short(tree, bytes));
        self.together((call, 0), load, |stages| collectives::all_reduce(stages, tree, own, sum))
    }
    fn all_reduce_fast(&self, call: &CollectiveCall, reduce: ReduceOp, dtype: DType, own: &[u8], sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        // A rank that adds along the tree meanwhile is told.
        let fast = adamant_ir::hash::hash_of(&"fast");
        let (tree, bytes) = (ReductionTree::of_ranks(reduce, dtype, self.size()), sum.len());
        let load = || LinkLoad::reduced(&tree, self.rank, bytes, collectives::is_short(&tree, bytes));
        Some(self.together((call, fast), load, |stages| collectives::all_reduce_as_they_come(stages, reduce, dtype, own, sum)))
    }
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        let node = block.len() * self.size();
        self.together((call, 0), || LinkLoad::scattered(tree, self.rank, node), |stages| collectives::reduce_scatter(stages, tree, own, block))
    }
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind> {
        let size = self.members.len();
        let is_wrong = |(k, rank): (usize, &usize)| *rank >= size || members[..k].contains(rank);
        if members.is_empty() || members.iter().enumerate().any(is_wrong) {
            return Err(ErrorKind::Argument(format!("{members:?} are no group of {size} ranks: each is named once")));
        }
        let extra = adamant_ir::hash::hash_of(&members);
        self.together((call, extra), LinkLoad::default, |stages| {
            let group = adamant_ir::hash::hash_of(&(self.group(), stages.counts.calls, members));
            let segment = self.split_memory(stages, group, members)?;
            let (Some(rank), Some(segment)) = (members.iter().position(|rank| *rank == self.rank), segment) else { return Ok(None) };
            let groups = [&[group], &self.groups[..]].concat();
            let of_job = members.iter().map(|rank| self.world(*rank)).collect();
            Ok(
                Some(
                    LocalRank::new(rank, of_job, groups, (segment, self.cores), self.reach.clone(), (self.timeout, self.link.clone())) as Arc<dyn Communicator>
                ),
            )
        })
    }
    fn abort(&self, why: &str) {
        // A call that failed has told the others. While one is in flight, it has not.
        if self.counts.try_lock().is_some_and(|counts| counts.ended.is_some()) {
            return;
        }
        self.reach.end_group(self.group(), FailureCause::Said(why.to_owned()));
    }
}
