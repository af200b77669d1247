//! Who meets next, and who is started again: what follows from what is known of the ranks of an elastic job. Must not know how it is known.
use super::ElasticPlan;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Where a rank that lives is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SeatState {
    /// it was started, and has not said that it is ready
    Starting,
    /// a member of this epoch, under this rank
    Member { epoch: u64, rank: usize },
    /// it wants the next epoch; of the last one it was this rank, if it was in any
    Wanting { was: Option<usize> },
}
/// Who meets under the next epoch: their places among those that live, by rank. None: not now.
///
/// Members keep their order and come before newcomers. `begins`: no epoch was yet, and all that were started are waited for. `waits_on`: so
/// few are enough.
pub(super) fn who_meets(living: &[SeatState], enough: usize, begins: bool) -> Option<Vec<usize>> {
    let is_working = |state: &SeatState| matches!(state, SeatState::Member { .. });
    if living.iter().any(is_working) || begins && living.contains(&SeatState::Starting) {
        return None;
    }
    let mut wanting: Vec<(usize, usize)> = living
        .iter()
        .enumerate()
        .filter_map(|(place, state)| match state {
            SeatState::Wanting { was } => Some((was.unwrap_or(usize::MAX), place)),
            SeatState::Starting | SeatState::Member { .. } => None,
        })
        .collect();
    wanting.sort_unstable();
    (!wanting.is_empty() && wanting.len() >= enough).then(|| wanting.into_iter().map(|(_, place)| place).collect())
}
/// Are members to be called, because a newcomer is ready? Not while others of them are on their way already.
pub(super) fn is_called(living: &[SeatState]) -> bool {
    let waits = |state: &SeatState| matches!(state, SeatState::Wanting { was: None });
    let is_member = |state: &SeatState| matches!(state, SeatState::Member { .. });
    living.iter().any(waits) && living.iter().any(is_member)
}

/// What becomes of a rank that has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterFailure {
    /// it is started again after this long
    Again(Duration),
    /// it has failed so often that it is not
    LeftOut,
    /// no more ranks are started
    NoneLeft,
}
/// The first pause before a rank is started again; twice as long after each further failure within the window.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The failures of one place among the ranks: a circuit breaker.
#[derive(Default, Debug)]
pub(super) struct SlotFailures(VecDeque<Instant>);
impl SlotFailures {
    /// One more, at this time.
    pub(super) fn add(&mut self, now: Instant, plan: &ElasticPlan, restarts_left: u32) -> AfterFailure {
        let (most, window) = plan.left_out;
        while self.0.front().is_some_and(|at| now.saturating_duration_since(*at) > window) {
            self.0.pop_front();
        }
        self.0.push_back(now);
        match (self.0.len() >= most, restarts_left) {
            (true, _) => AfterFailure::LeftOut,
            (false, 0) => AfterFailure::NoneLeft,
            (false, _) => AfterFailure::Again((FIRST_PAUSE * 2u32.saturating_pow(self.0.len() as u32 - 1)).min(LONGEST_PAUSE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SeatState::*, *};

    #[test]
    fn an_epoch_of_the_wrong_ranks() {
        let (m, w) = (|rank| Member { epoch: 4, rank }, |was| Wanting { was });
        let cases: [(&[SeatState], usize, bool, Option<&[usize]>); 12] = [
            (&[], 1, true, None),
            (&[w(None), Starting], 1, true, None),
            (&[w(None), w(None)], 1, true, Some(&[0, 1])),
            (&[w(None), w(None)], 3, true, None),
            // One that works may still finish its step.
            (&[w(Some(0)), m(1)], 1, false, None),
            (&[w(Some(2)), w(Some(0))], 2, false, Some(&[1, 0])),
            (&[w(Some(2)), w(Some(0))], 3, false, None),
            // Who has only just been started is not waited for.
            (&[w(Some(1)), Starting, w(Some(3))], 2, false, Some(&[0, 2])),
            // A newcomer comes behind, whatever its place.
            (&[w(None), w(Some(3)), w(Some(1))], 1, false, Some(&[2, 1, 0])),
            (&[w(None), m(0)], 1, false, None),
            (&[Starting], 1, false, None),
            (&[w(None)], 1, false, Some(&[0])),
        ];
        for (living, enough, begins, want) in cases {
            assert_eq!(who_meets(living, enough, begins).as_deref(), want, "{living:?}");
        }
        assert!(is_called(&[w(None), m(0)]) && !is_called(&[w(Some(1)), m(0)]) && !is_called(&[w(None), w(Some(0))]) && !is_called(&[Starting, m(0)]));
    }
    #[test]
    fn a_rank_that_always_fails_and_is_always_started() {
        let plan = ElasticPlan { least: 1, most: 4, left_out: (3, Duration::from_secs(60)) };
        let (mut failures, now) = (SlotFailures::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let after: Vec<AfterFailure> = [0, 50, 100, 105, 120].into_iter().map(|seconds| failures.add(at(seconds), &plan, 9)).collect();
        let again = |pause: u64| AfterFailure::Again(Duration::from_millis(pause));
        assert_eq!(after, [again(50), again(100), again(100), AfterFailure::LeftOut, AfterFailure::LeftOut]);
        assert_eq!(SlotFailures::default().add(now, &plan, 0), AfterFailure::NoneLeft);
    }
}
