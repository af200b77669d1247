//! Checkpoints that ranks write and read together, where each has but a part of the state.
//!
//! ```text
//! save   lines settled, folder begun (leader)  -> all well?   -> each writes its pieces -> all well?
//!        hashes to the leader                  -> manifest, the folder's name (leader)  -> all well?
//! begin  the newest that there is (leader says which) -> each reads what it needs of it -> whole?  -> else the one before it
//! ```
//!
//! After each arrow all ranks know whether all went well: a rank that cannot write (its disk is full) is heard of by all, the leader takes away what was
//! written, and the run ends or goes on as its policy says. A checkpoint that one rank finds damaged is passed over by all. Training waits meanwhile.
//!
//! Must not know which elements a rank has, how files are laid out.
use super::{
    Batch,
    learn::Learning,
    ranks::{RunRanks, told},
    resume,
    safe::Safe,
    start::{StartPlace, of_an_earlier_run},
};
use crate::{
    Failure,
    checkpoint::{CheckpointError, CheckpointReader, PieceFiles, RankShare, Restored, Saved, Snapshot, Warning, folder_name, listed, write_pieces},
    session::Session,
    storage::{self, Disk},
    watch::Watch,
};
use adamant_core::{
    DType, Shape, TensorType,
    communicator::{CollectiveCall, Communicator},
    op::CollectiveKind,
};
use adamant_data::Dataset;
use adamant_nn::Walk;
use std::{path::Path, time::Instant};

/// What a rank tells of its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RankWord {
    Well,
    /// bytes that are lost: an earlier checkpoint is the best there is
    Damage,
    Failed,
    /// there is nothing to be done, says the leader
    Idle,
}
/// A word and why, in so many bytes.
const WORD: usize = 1024;
/// No checkpoint.
const NONE: u64 = u64::MAX;

fn encode(word: RankWord, why: &str) -> Vec<u8> {
    let mut bytes = vec![word as u8];
    let mut end = why.len().min(WORD - 1);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    bytes.extend(why[..end].bytes());
    bytes.resize(WORD, 0);
    bytes
}
fn decode(bytes: &[u8]) -> (RankWord, String) {
    let (first, text) = bytes.split_first().unwrap_or((&2, &[]));
    let known = [RankWord::Well, RankWord::Damage, RankWord::Failed, RankWord::Idle];
    let word = known.into_iter().find(|word| *word as u8 == *first).unwrap_or(RankWord::Failed);
    (word, String::from_utf8_lossy(text).trim_end_matches('\0').to_string())
}
/// What all say, if it is not well: this rank's own error, or what another said. All ranks call it.
fn all_well(ranks: &RunRanks, own: Result<RankWord, CheckpointError>) -> Result<Result<RankWord, (RankWord, CheckpointError)>, Failure> {
    let said = match &own {
        Ok(word) => encode(*word, ""),
        Err(e) => encode(if e.is_damage() { RankWord::Damage } else { RankWord::Failed }, &e.to_string()),
    };
    let all: Vec<(RankWord, String)> = ranks.gather(&said)?.iter().map(|bytes| decode(bytes)).collect();
    // The worst that anybody has to say.
    let worst = [RankWord::Failed, RankWord::Damage].into_iter().find_map(|word| Some((word, all.iter().position(|(said, _)| *said == word)?)));
    Ok(match (worst, own) {
        (None, Ok(_)) => Ok(all.first().map_or(RankWord::Well, |(word, _)| *word)),
        (Some((word, _)), Err(own)) if word == RankWord::Damage || !own.is_damage() => Err((word, own)),
        (Some((word, rank)), _) => Err((word, CheckpointError::OfRank { rank, message: all.get(rank).map(|(_, why)| why.clone()).unwrap_or_default() })),
        (None, Err(own)) => Err((RankWord::Failed, own)),
    })
}
/// Everybody's bytes, on the leader alone.
fn to_leader(group: &dyn Communicator, own: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let lengths = crate::session::gather(group, &(own.len() as u64).to_le_bytes()).map_err(told)?;
    let lengths: Vec<usize> = lengths.iter().map(|n| n.as_slice().try_into().map_or(0, u64::from_le_bytes) as usize).collect();
    let leads = group.rank() == 0;
    let made = TensorType { shape: Shape::new(&[lengths.iter().sum()]).map_err(told)?, dtype: DType::U8 };
    let call = CollectiveCall::next(group, CollectiveKind::AllToAll, made, None);
    let to: Vec<&[u8]> = (0..lengths.len()).map(|rank| if rank == 0 { own } else { &[] }).collect();
    let mut came: Vec<Vec<u8>> = lengths.iter().map(|n| if leads { vec![0; *n] } else { Vec::new() }).collect();
    let mut from: Vec<&mut [u8]> = came.iter_mut().map(Vec::as_mut_slice).collect();
    group.all_to_all(&call, &to, &mut from).inspect_err(|kind| group.state().end(kind)).map_err(told)?;
    Ok(came)
}

/// What makes lines durable that a checkpoint counts on.
type LinesSync = Box<dyn FnOnce() -> storage::Result<()> + Send>;

impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// A checkpoint of now, which all ranks write: all call it, behind the same step.
    pub(super) fn save_together(&mut self) -> Result<(), Failure> {
        // Of wherever that leads to, on all alike.
        let _went = self.look()?;
        let Some(ranks) = self.ranks.clone() else { return Ok(()) };
        if self.safe.is_some() {
            self.call(|callback, control| callback.on_checkpoint(control))?;
        }
        let (begun, step) = (Instant::now(), self.session.position().step);
        // Nothing is left in the window: the group's calls follow each other.
        adamant_core::flush()?;
        let outcome = self.written_together(&ranks, step);
        if let Some(safe) = self.safe.as_ref().filter(|_| !matches!(outcome, Ok(Ok(_)))) {
            safe.checkpoints().give_up_together(step);
        }
        let stops = !self.checkpoint.warn;
        match (outcome?, &mut self.safe) {
            (Ok(None), _) => Ok(()),
            (Ok(Some(saved)), Some(safe)) => safe.together(step, Ok(saved), begun.elapsed(), self.folder.as_deref_mut(), self.watch),
            (Err(error), Some(safe)) => safe.together(step, Err(error), begun.elapsed(), self.folder.as_deref_mut(), self.watch),
            (Err(error), None) if stops => Err(error.into()),
            (_, None) => Ok(()),
        }
    }
    /// What came of it: on the leader what was saved; nothing where there is nothing to write.
    fn written_together(&mut self, ranks: &RunRanks, step: u64) -> Result<Result<Option<Saved>, CheckpointError>, Failure> {
        let mut sync: LinesSync = Box::new(|| Ok(()));
        let ready = self.made_ready(step, &mut sync)?;
        match all_well(ranks, ready)? {
            Ok(RankWord::Idle) => return Ok(Ok(None)),
            Ok(_) => {}
            Err((_, error)) => return Ok(Err(error)),
        }
        let snapshot = self.snapshot()?;
        snapshot.settle()?;
        let share = self.session.share_of(&snapshot)?;
        adamant_core::flush()?;
        let (own, word) = match self.pieces_written(ranks, step, &share) {
            Ok(files) => (files, Ok(RankWord::Well)),
            Err(e) => (Vec::new(), Err(e)),
        };
        drop(share);
        if let Err((_, error)) = all_well(ranks, word)? {
            return Ok(Err(error));
        }
        let of_ranks = to_leader(ranks.group()?, &own)?;
        let finished = self.finished_together(&snapshot, of_ranks, sync);
        let (saved, word) = match finished {
            Ok(saved) => (saved, Ok(RankWord::Well)),
            Err(e) => (None, Err(e)),
        };
        Ok(all_well(ranks, word)?.map(|_| saved).map_err(|(_, error)| error))
    }
    /// The leader's lines are in the folder, and that of the checkpoint is there.
    fn made_ready(&mut self, step: u64, sync: &mut LinesSync) -> Result<Result<RankWord, CheckpointError>, Failure> {
        let Some(safe) = &self.safe else { return Ok(Ok(RankWord::Well)) };
        if safe.at == Some(step) {
            return Ok(Ok(RankWord::Idle));
        }
        if let Some(folder) = &mut self.folder {
            match folder.settle()? {
                Ok(settled) => (self.kept.metrics_bytes, *sync) = (settled.metrics_bytes, settled.sync),
                Err(e) => return Ok(Err(e.into())),
            }
            self.kept.alerts = folder.kept_alerts();
        }
        Ok(safe.checkpoints().begin_together(step).map(|()| RankWord::Well))
    }
    fn pieces_written(&self, ranks: &RunRanks, step: u64, share: &RankShare) -> Result<Vec<u8>, CheckpointError> {
        let Some(checkpoints) = ranks.checkpoints() else {
            return Err(CheckpointError::OfRank { rank: ranks.rank(), message: "it has no run folder to write its pieces into".into() });
        };
        write_pieces(&Disk, &checkpoints, step, ranks.rank(), share)?.encode()
    }
    fn finished_together(&mut self, snapshot: &Snapshot, of_ranks: Vec<Vec<u8>>, sync: LinesSync) -> Result<Option<Saved>, CheckpointError> {
        let Some(safe) = &self.safe else { return Ok(None) };
        let files = of_ranks.iter().map(|bytes| PieceFiles::decode(bytes)).collect::<Result<Vec<_>, _>>()?;
        sync()?;
        let score = self.score.filter(|(at, _)| *at == snapshot.step).map(|(_, score)| score);
        safe.checkpoints().finish_together(snapshot.step, &snapshot.state, score, files).map(Some)
    }
}
/// The newest checkpoint of which each rank finds whole what it needs; each has read that. All ranks call it, at the beginning.
///
/// # Errors
/// `Usage`: there are some, and the run is not to go on, or has another description; none is whole; a lost peer.
pub(super) fn newest<M: Walk, B: Batch>(
    session: &Session<M, B>,
    ranks: &RunRanks,
    (safe, place, resumes): (Option<&Safe>, &StartPlace<'_>, bool),
    watch: &mut dyn Watch,
) -> Result<Option<Restored>, Failure> {
    let path = place.shares;
    let (mut candidates, mut warnings) = match safe {
        Some(safe) => listed(&Disk, safe.checkpoints().folder())?,
        None => Default::default(),
    };
    if let Some(path) = path.filter(|_| !candidates.is_empty()) {
        if !resumes {
            return Err(of_an_earlier_run(path));
        }
        resume::must_agree(Some(path), place.document, place.heeds)?;
    }
    let is_any = !candidates.is_empty() || !warnings.is_empty();
    loop {
        let candidate = candidates.pop();
        let led = ranks.gather(&candidate.as_ref().map_or(NONE, |c| c.step).to_le_bytes())?;
        let step = led.first().and_then(|bytes| bytes.as_slice().try_into().ok()).map_or(NONE, u64::from_le_bytes);
        if step == NONE {
            return match safe {
                Some(safe) if is_any => Err(CheckpointError::NoneWhole { folder: safe.checkpoints().folder().to_path_buf(), warnings }.into()),
                _ => Ok(None),
            };
        }
        let read = match path {
            Some(run) => needed(session, &run.join("checkpoints").join(folder_name(step))),
            None => Err(CheckpointError::OfRank {
                rank: ranks.rank(),
                message: format!("rank 0 goes on from step {step}, and it has no run folder to read it from"),
            }),
        };
        let (found, word) = match read {
            Ok(found) => (Some(found), Ok(RankWord::Well)),
            Err(e) => (None, Err(e)),
        };
        match (all_well(ranks, word)?, candidate) {
            (Ok(_), _) => {
                warnings.iter().for_each(|warning| watch.warn(&warning.to_string()));
                return Ok(found);
            }
            (Err((RankWord::Damage, error)), Some(candidate)) => warnings.push(Warning { folder: candidate.folder, error }),
            (Err((RankWord::Damage, _)), None) => {}
            (Err((_, error)), _) => return Err(error.into()),
        }
    }
}
/// What this rank needs of the checkpoint in a folder.
fn needed<M: Walk, B: Batch>(session: &Session<M, B>, folder: &Path) -> Result<Restored, CheckpointError> {
    CheckpointReader::open(&Disk, folder)?.restore(session.device(), &*session.needs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_arrive_as_others() {
        for word in [RankWord::Well, RankWord::Damage, RankWord::Failed, RankWord::Idle] {
            for why in ["", "the disk is full", &"é".repeat(WORD)] {
                let (got, said) = decode(&encode(word, why));
                assert!(got == word && why.starts_with(&said) && (said.len() + 3 > WORD || said == why), "{word:?} {said}");
            }
        }
    }
}
