//! Groups of ranks: what an engine does for a group, and what collectives are made of.
//!
//! ```text
//! Op::Collective -> exchange -> blocks of bytes -> Communicator (an engine: threads, processes, MPI) -> blocks -> the result
//! ```
//!
//! An engine moves blocks between ranks and knows nothing of tensors, except where it can add better than by moving. What a
//! collective means in blocks is said here once. A reduction travels in pieces: each rank gets its piece of all ranks, adds it along one
//! binary tree ([`ReductionTree`]), and the pieces are gathered. So the bits of a sum follow from the tree, and from no
//! engine, no order of arrival and no number of ranks.
//!
//! All ranks of a group call its collectives in one order, each with one shape and dtype. A call that fails ends the group: what was
//! to follow cannot be in step any more, and the other ranks are told.
mod engine;
mod exchange;
mod lone;
mod tree;

pub use engine::{ENGINES, Engine, EngineRequest, JoinToken, engine_named};
pub use exchange::{Exchanged, exchange, exchange_array, exchange_telling};
pub use lone::LoneRank;
pub use tree::{ReductionTree, TreeNodes};

use crate::{
    DType, ErrorKind, Origin, TensorType,
    op::{CollectiveKind, Group, ReduceOp},
};
use parking_lot::Mutex;
use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Ranks that exchange blocks of host bytes. Every function but [`Communicator::abort`] is called by one thread at a time, in the
/// order that all ranks have in common; it returns when this rank's part is done, or with an error: it never waits
/// longer than the engine's timeout.
pub trait Communicator: Send + Sync + 'static {
    /// The engine's name: `local`, `mpi`.
    fn engine(&self) -> &'static str;
    /// This rank.
    fn rank(&self) -> usize;
    /// How many ranks.
    fn size(&self) -> usize;
    /// How many calls there were, and what ended the group. Made by `Default` with the group, one for each.
    fn state(&self) -> &GroupState;
    /// Gives every rank's block to every rank: `blocks[r]` gets that of rank r, this rank's own too. Lengths are those that the ranks
    /// bring, which each knows; they may differ, and be 0.
    ///
    /// # Errors
    /// A lost peer, a rank that calls something else, an end that somebody asked for, the timeout.
    fn all_gather(&self, call: &CollectiveCall, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<(), ErrorKind>;
    /// Gives `to[r]` to rank r, and `from[r]` gets what rank r has for this one, this rank's own too.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn all_to_all(&self, call: &CollectiveCall, to: &[&[u8]], from: &mut [&mut [u8]]) -> Result<(), ErrorKind>;
    /// Gives bytes to one rank, which receives as many. May return before they are there.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn send(&self, call: &CollectiveCall, to: usize, bytes: &[u8]) -> Result<(), ErrorKind>;
    /// Gets what one rank sends. What is sent from one rank to another arrives in the order of sending.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn receive(&self, call: &CollectiveCall, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind>;
    /// The bytes of one rank, on every rank.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn broadcast(&self, call: &CollectiveCall, root: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        exchange::broadcast(self, call, root, bytes)
    }
    /// Adds along the tree: `own` are this rank's nodes one behind the other ([`ReductionTree::nodes`]), `sum` is one node long.
    ///
    /// An engine that can read what the others bring adds by [`ReductionTree::fold`] without moving it.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn all_reduce(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], sum: &mut [u8]) -> Result<(), ErrorKind> {
        exchange::all_reduce(self, call, tree, own, sum)
    }
    /// The sum over ranks as the engine itself adds it, where it has a sum of its own for this dtype: `own` and `sum` are of one
    /// length. Its bits may change from run to run. None where it has not, which is so on all ranks or on none.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn all_reduce_fast(&self, _call: &CollectiveCall, _reduce: ReduceOp, _dtype: DType, _own: &[u8], _sum: &mut [u8]) -> Option<Result<(), ErrorKind>> {
        None
    }
    /// Adds along the tree, and each rank gets its block of the sum: `own` are this rank's nodes one behind the other, each cut into as
    /// many blocks of one size as there are ranks.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    fn reduce_scatter(&self, call: &CollectiveCall, tree: &ReductionTree, own: &[u8], block: &mut [u8]) -> Result<(), ErrorKind> {
        exchange::reduce_scatter(self, call, tree, own, block)
    }
    /// A group of some of these ranks, in the order given; none for a rank that is not among them. All ranks call it, with the same
    /// members.
    ///
    /// # Errors
    /// Members that are no ranks or come twice; as [`Communicator::all_gather`].
    fn split(&self, call: &CollectiveCall, members: &[usize]) -> Result<Option<Arc<dyn Communicator>>, ErrorKind>;
    /// Ends the group on all ranks, from any thread: calls in flight and all that follow fail, here and on the ranks that are told.
    fn abort(&self, why: &str);
}

/// What a group remembers of its calls.
#[derive(Default)]
pub struct GroupState {
    calls: AtomicU64,
    ended: Mutex<Option<ErrorKind>>,
}
impl GroupState {
    /// The number of the next call, from 0.
    pub fn next(&self) -> u64 {
        self.calls.fetch_add(1, Relaxed)
    }
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }
    /// What ended the group, if anything did.
    pub fn ended(&self) -> Option<ErrorKind> {
        self.ended.lock().clone()
    }
    /// Ends it. The first cause stays.
    pub fn end(&self, why: &ErrorKind) {
        self.ended.lock().get_or_insert_with(|| why.clone());
    }
}

/// A call of a collective, as ranks compare it: all must have the same fingerprint under one number.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveCall {
    /// its number in the group
    pub number: u64,
    /// what is done
    pub kind: CollectiveKind,
    /// what each rank gets, where it is the same on all; of a send, what is sent
    pub made: TensorType,
    /// the line that asked for it, where it is known
    pub origin: Option<Origin>,
}
impl CollectiveCall {
    /// The next call of a group.
    pub fn next(group: &(impl Communicator + ?Sized), kind: CollectiveKind, made: TensorType, origin: Option<Origin>) -> CollectiveCall {
        CollectiveCall { number: group.state().next(), kind, made, origin }
    }
    /// A hash of what must be the same on all ranks: not of the line, nor of who sends to whom.
    pub fn fingerprint(&self) -> u64 {
        let kind = match self.kind {
            CollectiveKind::Send { .. } | CollectiveKind::Receive { .. } => CollectiveKind::Send { to: 0 },
            kind => kind,
        };
        adamant_ir::hash::mix(adamant_ir::hash::hash_of(&kind), adamant_ir::hash::hash_of(&self.made))
    }
}
impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.kind, self.made.dtype, self.made.shape)?;
        self.origin.map_or(Ok(()), |origin| write!(f, " at {}", origin.at))
    }
}

/// The group as an op holds it.
pub fn group(communicator: &Arc<dyn Communicator>) -> Group {
    let (rank, size) = (communicator.rank() as u32, communicator.size() as u32);
    Group { id: Arc::as_ptr(communicator) as *const () as u64, rank, size, handle: Arc::new(communicator.clone()) }
}
/// Who carries out a group's collectives.
///
/// # Errors
/// A group that was made elsewhere.
pub fn of(group: &Group) -> Result<&dyn Communicator, ErrorKind> {
    let found = (&*group.handle as &dyn Any).downcast_ref::<Arc<dyn Communicator>>();
    found.map(|c| &**c).ok_or_else(|| ErrorKind::Internal("a group that nobody carries out".into()))
}
