//! Faults that can be planted into the scheduler, one at a time, to show that the fuzzer finds them: a test of the tests.
//! Without the feature `planted-faults` every question here is a constant `false`.

/// A fault that somebody could make in the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// an operand that broadcasts along one axis is read as one number
    DroppedBroadcast,
    /// a scan runs along the first axis
    WrongAxis,
    /// the first two axes of a permuted view are not exchanged
    WrongPermutation,
    /// memory is given away that a later step reads
    LostDonationCheck,
    /// an input is overwritten that somebody holds
    HeldInputDonated,
    /// a copy leaves out the last row
    SkippedLastRow,
    /// select takes the other side
    SwappedSelect,
    /// a scalar argument keeps its first value at replay
    StaleArgument,
    /// a view's start is ignored
    IgnoredOffset,
    /// the plan's key does not tell sizes
    StalePlanKey,
    /// cells are written although the data was bad
    CommitDespiteFault,
    /// a reduction reads the source of the chain it swallowed
    ReduceWithoutPrologue,
    /// bf16 values that stay in registers are not rounded
    NoRoundingInRegisters,
    /// a flipped view is read forward
    FlipForgotten,
    /// what is padded lies at the start
    PadShifted,
    /// joined parts lie over each other
    ConcatOverlaps,
    /// a deferred value's source is given away
    PinnedDonated,
    /// bad data is not reported
    LostFault,
    /// a rank begins two collectives in the other order
    ExchangeOutOfOrder,
    /// what a collective gives is read before it is there
    ExchangeNotAwaited,
    /// a collective begins where it was recorded
    ExchangeBegunLate,
    /// a captured function forgets that it moves generators on
    FrozenGenerator,
    /// a captured function forgets that it counts
    FrozenCount,
    /// a plan takes over memory that was held when its key was made
    HoldsOfAnotherMoment,
    /// a value that a snapshot reads is not kept
    SnapshotNotKept,
    /// cells that a compiled function has read are written by others before it writes them
    LostUpdate,
    /// the latest value of a cell is read while a commit is at work on it
    ClaimIgnored,
    /// a deferred value is computed by the thread that asks first, and nobody else knows how
    RecipeTaken,
}
impl Plant {
    /// Faults that show where a function is captured and replayed.
    pub const OF_CAPTURES: [Plant; 3] = [Plant::StaleArgument, Plant::FrozenGenerator, Plant::FrozenCount];
    /// Faults that show where several ranks work together.
    pub const OF_RANKS: [Plant; 3] = [Plant::ExchangeOutOfOrder, Plant::ExchangeNotAwaited, Plant::ExchangeBegunLate];
    /// Faults that show where threads share cells and tapes.
    pub const OF_THREADS: [Plant; 5] = [Plant::HoldsOfAnotherMoment, Plant::SnapshotNotKept, Plant::LostUpdate, Plant::ClaimIgnored, Plant::RecipeTaken];
    /// All that graphs show.
    pub const ALL: [Plant; 18] = [
        Plant::DroppedBroadcast,
        Plant::WrongAxis,
        Plant::WrongPermutation,
        Plant::LostDonationCheck,
        Plant::HeldInputDonated,
        Plant::SkippedLastRow,
        Plant::SwappedSelect,
        Plant::StaleArgument,
        Plant::IgnoredOffset,
        Plant::StalePlanKey,
        Plant::CommitDespiteFault,
        Plant::ReduceWithoutPrologue,
        Plant::NoRoundingInRegisters,
        Plant::FlipForgotten,
        Plant::PadShifted,
        Plant::ConcatOverlaps,
        Plant::PinnedDonated,
        Plant::LostFault,
    ];
}

#[cfg(feature = "planted-faults")]
mod switch {
    use super::Plant;
    use crate::Scalar;
    use std::{
        cell::{Cell, RefCell},
        collections::HashMap,
    };

    thread_local! {
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
        static FIRST: RefCell<HashMap<(usize, usize, usize), Scalar>> = RefCell::default();
    }
    /// Runs `f` with a fault planted on this thread. Plans outlive it: use a device of its own.
    pub fn with<R>(plant: Plant, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Plant>);
        impl Drop for Restore {
            fn drop(&mut self) {
                PLANTED.set(self.0);
                FIRST.with(|m| m.borrow_mut().clear());
            }
        }
        let _restore = Restore(PLANTED.replace(Some(plant)));
        f()
    }
    /// Is the fault planted on this thread?
    pub fn is(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
    /// The value that argument `k` of a step had when its plan ran first.
    pub fn stale(plan: usize, step: usize, k: usize, now: Scalar) -> Scalar {
        if is(Plant::StaleArgument) { FIRST.with(|m| *m.borrow_mut().entry((plan, step, k)).or_insert(now)) } else { now }
    }
}
#[cfg(not(feature = "planted-faults"))]
mod switch {
    use super::Plant;
    use crate::Scalar;
    /// Is the fault planted? Never in this build.
    #[inline(always)]
    pub const fn is(_: Plant) -> bool {
        false
    }
    /// The value that an argument has.
    #[inline(always)]
    pub const fn stale(_: usize, _: usize, _: usize, now: Scalar) -> Scalar {
        now
    }
}
#[cfg(feature = "planted-faults")]
pub use switch::with;
pub use switch::{is, stale};
