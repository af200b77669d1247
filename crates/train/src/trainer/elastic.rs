//! A run that goes on without the ranks that are lost, and with those that come.
//!
//! ```text
//! step --a peer is lost--> the step has changed nothing: the loader goes back to before it
//! behind a step: asked_of_all --a newcomer waits--> all are there          --a peer is lost--> the step is done
//!                                      |
//!   meet (RankMeeting): a new group, other ranks, the same parts  <--a peer is lost-- again
//!   regroup: session (captured steps are forgotten, what is used stays), loader (other parts, the same position)
//!   tell: description, begun?, step   -> whoever is behind takes the state of the lowest rank that is ahead (handed.rs)
//!   rank 0 leads: if it has not, it opens the folder and its checkpoints, and adds what lines are not there
//! ```
//!
//! **Why all go on with one state, and with the bits of a run that nobody disturbed.**
//!
//! 1. On one rank a step commits all or nothing: its collectives are a part of what commits, and one that fails takes the commit with it. What is
//!    no cell (the step's number, the loss that is to be read, the schedule) moves behind the commit. So a rank is behind step s or behind s + 1,
//!    with all that belongs to it, and knows which.
//! 2. Between any two steps is a collective of all ranks (`asked_of_all`). Who returns from that behind step s knows that all have begun it, and so
//!    that all have committed s. So two ranks are never more than one step apart: one in which the step failed, and one in which
//!    it went well (and that saw the loss when it asked, or later).
//! 3. States behind the same step are the same bits: the sums of a step go along a tree over the parts, whoever holds them, and all else
//!    that changes is computed alike by all. So it does not matter whose state is taken, nor that the step is repeated by others than
//!    those who began it.
//! 4. Who is behind takes the state of one that is ahead, rather than that the latter goes back: the step has been committed, and may stand in a
//!    checkpoint or in lines that somebody has read. Where nobody is ahead, all repeat the step.
//! 5. A rank is told apart by two numbers alone, whether it has begun and its step; a newcomer has not begun. So it and one that is behind are
//!    handled by the same lines.
//! 6. If a rank dies while states are handed on, those who had theirs are as they would be, and those who had not are as they were:
//!    what is taken is put in place when all of it has come. All meet again.
//!
//! **Lines.** Every rank makes the lines of `metrics.jsonl`; the leader writes them, the others keep those that are not known to be written:
//! the ones since `asked_of_all` returned last (the leader writes a step's lines before it asks). Who comes to lead cuts the file to where it was
//! then, and adds its own: the same bytes, none twice, none missing, also where the lost leader has written half a line, or lines of a step that nobody
//! else has committed. A leader that was behind does the same with the lines of whose state it took.
//!
//! **Not carried on.** The checkpoint that a lost leader was writing (the next one comes in its time; the newcomer does not need it), its
//! terminal, what its rules of alerts had seen. The new leader is told apart by nobody: it writes what the other would have.
//!
//! Must not know how ranks find each other, and who decides who they are.
use super::{
    Batch, Safe,
    handed::{self, HandedState},
    learn::{Learning, RunKept},
    ranks::{AskedOfAll, RunRanks, SaveVote, told},
    restored::{HeldStates, WentBack},
};
use crate::{Document, Failure, watch::Interrupt};
use adamant_core::{ErrorKind, communicator::Communicator};
use adamant_data::{Dataset, LoaderState};
use adamant_nn::Walk;
use std::sync::Arc;

/// Where the ranks of a run meet again: a launcher, as a rank sees it.
pub trait RankMeeting: Send + Sync {
    /// Meets those who are left and those who come; `lost` is what ended the last group, if something did. Waits until there are enough,
    /// and asks `gives_up` meanwhile. Members of the last group keep their order, and come before newcomers.
    ///
    /// # Errors
    /// `PeerLost`: too few came in time.
    fn meet(&self, lost: Option<&ErrorKind>, gives_up: &dyn Fn() -> bool) -> Result<MetAgain, ErrorKind>;
    /// Does a newcomer wait?
    fn is_called(&self) -> bool;
}
/// How a meeting came out.
pub enum MetAgain {
    /// a new group
    Group(Arc<dyn Communicator>),
    /// none: this signal has ended another rank
    Ended(i32),
    /// none: this rank gave up
    GaveUp,
}

/// How far a rank is, as all tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RankProgress {
    description: [u8; 32],
    /// has it begun, and how many steps has it done?
    step: Option<u64>,
    /// does it know which parameters are used?
    agreed: bool,
}
impl RankProgress {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.description.to_vec();
        bytes.extend(self.step.map_or(0, |step| step + 1).to_le_bytes());
        bytes.push(u8::from(self.agreed));
        bytes
    }
    fn decode(bytes: &[u8]) -> Option<RankProgress> {
        let (description, rest) = bytes.split_first_chunk::<32>()?;
        let (step, rest) = rest.split_first_chunk::<8>()?;
        Some(RankProgress { description: *description, step: u64::from_le_bytes(*step).checked_sub(1), agreed: rest == [1] })
    }
}
/// What follows from how far all are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sharing {
    /// nobody has begun
    Fresh,
    /// all are alike; is it known which parameters are used, on all?
    Alike { agreed: bool },
    /// this rank gives its state to those who are behind
    From { rank: usize, step: u64, agreed: bool },
}
fn sharing(all: &[RankProgress]) -> Sharing {
    let Some(most) = all.iter().filter_map(|rank| rank.step).max() else { return Sharing::Fresh };
    let ahead = |rank: &RankProgress| rank.step == Some(most);
    // One of those who are ahead may have been lost to the others while they agreed.
    let agreed = all.iter().filter(|rank| ahead(rank)).all(|rank| rank.agreed);
    match (all.iter().all(ahead), all.iter().position(ahead)) {
        (false, Some(rank)) => Sharing::From { rank, step: most, agreed },
        _ => Sharing::Alike { agreed },
    }
}
pub(super) fn description(document: &Document) -> [u8; 32] {
    *blake3::hash(document.to_toml().as_bytes()).as_bytes()
}

impl RunRanks {
    /// Is this failure the loss of a peer, after which the others go on? A rank that failed itself and said so ends all.
    pub(super) fn goes_on_after(&self, failure: &Failure) -> Option<ErrorKind> {
        self.meeting.as_ref()?;
        let ended = self.group().ok()?.state().ended()?;
        (matches!(failure, Failure::PeerLost(_)) && matches!(ended, ErrorKind::PeerLost { .. })).then_some(ended)
    }
    /// A new group of those who are left.
    ///
    /// # Errors
    /// Too few are; a signal that ends the run meanwhile.
    pub(super) fn meet(&self, lost: Option<&ErrorKind>, interrupt: &Interrupt) -> Result<Result<RunRanks, i32>, Failure> {
        let Some(meeting) = &self.meeting else { return Err(Failure::Run("ranks that do not meet again".into())) };
        match meeting.meet(lost, &|| interrupt.asked().is_some()).map_err(told)? {
            MetAgain::Group(group) => Ok(Ok(self.regrouped(&group))),
            MetAgain::Ended(signal) => Ok(Err(interrupt.asked().unwrap_or(signal))),
            MetAgain::GaveUp => Ok(Err(interrupt.asked().unwrap_or(15))),
        }
    }
    /// How far all ranks are.
    fn progress(&self, own: &RankProgress) -> Result<Vec<RankProgress>, Failure> {
        let all = self.gather(&own.encode())?.iter().map(|bytes| RankProgress::decode(bytes)).collect::<Option<Vec<_>>>();
        all.ok_or_else(|| Failure::Run("ranks that tell something else than how far they are".into()))
    }
    /// The state of those who have begun already, for one who has not; none where nobody has.
    ///
    /// # Errors
    /// A lost peer; `Usage`: this rank has another description than the others.
    pub(super) fn taken(&self, document: &Document) -> Result<Option<HandedState>, Failure> {
        let own = RankProgress { description: description(document), step: None, agreed: false };
        let all = self.progress(&own)?;
        match sharing(&all) {
            Sharing::Fresh | Sharing::Alike { .. } => Ok(None),
            Sharing::From { rank, .. } if all.get(rank).is_some_and(|other| other.description != own.description) => {
                Err(Failure::Usage("this rank has another description than those who train already: all ranks of a run have one".into()))
            }
            Sharing::From { rank, .. } => handed::take(self.group()?, rank, self.device()).map(Some),
        }
    }
}
impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// Is a step that failed to be repeated, by those who are left?
    pub(super) fn repeats(&self, before: u64, failure: &Failure) -> bool {
        let is_lost = || self.ranks.as_ref().is_some_and(|ranks| ranks.goes_on_after(failure).is_some());
        self.session.position().step == before && is_lost() && self.ranks.as_ref().is_some_and(|ranks| ranks.repeats_once_more(before))
    }
    /// Goes back to before a step that failed, to repeat it with those who are left.
    pub(super) fn repeat(&mut self, place: LoaderState, failure: &Failure) -> Result<(), Failure> {
        self.places.pop();
        self.loader.restore(place)?;
        self.meet_again(Some(failure))
    }
    /// What any rank was asked for. Behind it, all that was written before is in the folder.
    pub(super) fn asked_of_all(&mut self, own: Option<i32>, saving: SaveVote) -> Result<AskedOfAll, Failure> {
        let Some(ranks) = &self.ranks else { return Ok(AskedOfAll { signal: own, called: false, saving }) };
        match ranks.asked(own, saving) {
            Err(failure) if ranks.goes_on_after(&failure).is_some() => {
                self.meet_again(Some(&failure))?;
                // Who was asked is asked again, behind the next step.
                Ok(AskedOfAll { signal: None, called: false, saving: SaveVote::No })
            }
            asked => {
                let asked = asked?;
                self.folder.iter_mut().for_each(|folder| folder.all_written());
                Ok(asked)
            }
        }
    }
    /// Meets those who are left and those who come, and goes on with them from one state.
    pub(super) fn meet_again(&mut self, failure: Option<&Failure>) -> Result<(), Failure> {
        let mut lost = self.ranks.as_ref().zip(failure).and_then(|(ranks, failure)| ranks.goes_on_after(failure));
        loop {
            let Some(ranks) = &self.ranks else { return Ok(()) };
            let ranks = match ranks.meet(lost.as_ref(), self.interrupt)? {
                Ok(ranks) => ranks,
                Err(signal) => {
                    // All that end are behind this step.
                    if self.safe.as_ref().is_some_and(|safe| safe.at != Some(self.session.position().step)) {
                        self.kept.loader = Some(self.loader.state());
                        self.save()?;
                    }
                    return Err(self.interrupted(signal));
                }
            };
            self.session.regroup(ranks.sharing().clone());
            self.loader.hold(ranks.sharing().held())?;
            self.ranks = Some(ranks.clone());
            match self.share_state(&ranks) {
                Err(failure) => match ranks.goes_on_after(&failure) {
                    Some(kind) => lost = Some(kind),
                    None => return Err(failure),
                },
                Ok(()) => break,
            }
        }
        self.lead()
    }
    fn share_state(&mut self, ranks: &RunRanks) -> Result<(), Failure> {
        // All look at the same step, so that whoever goes back to an earlier state does so with the others.
        let _went: WentBack = self.look()?;
        let description = self.described;
        let own = RankProgress { description, step: Some(self.session.position().step), agreed: self.session.used().is_some() };
        let all = ranks.progress(&own)?;
        let group = ranks.group()?;
        if let Some(rank) = all.iter().position(|other| other.description != description) {
            // It ends, and the others go on without it.
            let lost = ErrorKind::PeerLost { rank, op: "meeting".into(), seq: 0, why: "it has another description".into() };
            group.state().end(&lost);
            return Err(told(lost));
        }
        match sharing(&all) {
            Sharing::From { rank, agreed, .. } if rank == ranks.rank() => {
                if !agreed {
                    self.session.set_used(None);
                }
                let journal = self.folder.as_ref().map(|folder| folder.journal()).unwrap_or_default();
                self.kept.loader = Some(self.loader.state());
                let state = HandedState { snapshot: self.snapshot()?, used: self.session.used().map(<[bool]>::to_vec), journal, score: self.score };
                handed::give(group, &state)
            }
            Sharing::From { rank, step, agreed } => {
                let state = handed::take(group, rank, self.session.device())?;
                match own.step == Some(step) {
                    false => self.take_over(state)?,
                    true if !agreed => self.session.set_used(None),
                    true => {}
                }
                Ok(())
            }
            Sharing::Alike { agreed: false } => {
                self.session.set_used(None);
                Ok(())
            }
            Sharing::Alike { agreed: true } | Sharing::Fresh => Ok(()),
        }
    }
    /// Goes on from the state of another rank.
    fn take_over(&mut self, state: HandedState) -> Result<(), Failure> {
        self.kept = RunKept::read(self.session.restore(&state.snapshot)?)?;
        self.held = HeldStates::default();
        self.restore(&state.snapshot)?;
        self.places.clear();
        self.session.set_used(state.used);
        self.score = state.score;
        self.folder.iter_mut().try_for_each(|folder| folder.take_journal(state.journal.clone()))
    }
    /// If this rank leads and has not led before, it writes the folder from here on.
    fn lead(&mut self) -> Result<(), Failure> {
        let Some(ranks) = self.ranks.clone().filter(RunRanks::leads) else { return Ok(()) };
        let Some(path) = ranks.folder() else { return Ok(()) };
        if self.safe.is_some() {
            return Ok(());
        }
        let step = self.session.position().step;
        if let Some(folder) = &mut self.folder {
            folder.lead(step)?;
        }
        self.watch.warn(&format!("rank 0 was lost: this rank writes {} from step {step} on", path.display()));
        let safe = self.safe.insert(Safe::take_over(path, self.checkpoint)?);
        // The one that was lost may have had no time to write it.
        if step > 0 && safe.plan.is_due(step) {
            self.kept.loader = Some(self.loader.state());
            self.save()?;
        }
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_comes_from_the_wrong_rank() {
        let at = |step: Option<u64>, agreed| RankProgress { description: [7; 32], step, agreed };
        let cases: [(&[RankProgress], Sharing); 8] = [
            (&[at(None, false), at(None, false)], Sharing::Fresh),
            (&[at(Some(4), true), at(Some(4), true)], Sharing::Alike { agreed: true }),
            (&[at(Some(0), true), at(Some(0), false)], Sharing::Alike { agreed: false }),
            // The leader is behind.
            (&[at(Some(4), true), at(Some(5), true), at(Some(5), true)], Sharing::From { rank: 1, step: 5, agreed: true }),
            (&[at(Some(5), true), at(Some(4), true)], Sharing::From { rank: 0, step: 5, agreed: true }),
            (&[at(Some(4), true), at(None, false)], Sharing::From { rank: 0, step: 4, agreed: true }),
            (&[at(Some(0), false), at(None, false)], Sharing::From { rank: 0, step: 0, agreed: false }),
            (&[at(Some(0), true)], Sharing::Alike { agreed: true }),
        ];
        for (all, want) in cases {
            assert_eq!(sharing(all), want, "{all:?}");
            all.iter().for_each(|one| assert_eq!(RankProgress::decode(&one.encode()), Some(*one)));
        }
    }
}
