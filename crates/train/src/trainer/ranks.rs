//! The ranks of a run: who leads, what all must have in common before the first step, and what all decide together.
//!
//! One rank leads: it writes the folder, answers requests, tells how it goes. The others compute the same and are silent. Nothing is
//! decided by one rank alone that changes a step: the checkpoint that the run goes on from is the leader's choice, which all are told; a
//! signal that one rank gets ends all of them behind the same step.
use super::elastic::RankMeeting;
use crate::{
    Document, Failure,
    checkpoint::{Restored, Snapshot, folder_name, read},
    session::{StepSharing, gather},
    storage::Disk,
};
use adamant_core::{
    Arg, Device, ErrorKind, Op, Tensor,
    communicator::{self, Communicator},
    op::{CollectiveKind, Group, RankUse, ReduceOp},
};
use adamant_nn::Walk;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The ranks of a run that several share.
#[derive(Clone)]
pub(crate) struct RunRanks {
    sharing: StepSharing,
    /// all of them; those of `sharing` have other rows
    job: Group,
    device: Device,
    /// the run's, which the leader writes
    folder: Option<PathBuf>,
    /// where those who are left meet again, if they do
    pub(super) meeting: Option<Arc<dyn RankMeeting>>,
    is_newcomer: bool,
    /// how often a step may be repeated; the step that was repeated last, and how often
    retries: u32,
    repeated: Arc<Mutex<(u64, u32)>>,
    /// the group that all handles of these ranks mean
    now: Arc<Mutex<Group>>,
}
/// What any rank was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskedOfAll {
    /// the signal that ends the run: the largest
    pub signal: Option<i32>,
    /// are all to meet, because a newcomer waits?
    pub called: bool,
    /// what the leader says of a checkpoint
    pub saving: SaveVote,
}
pub(super) fn told(kind: ErrorKind) -> Failure {
    Failure::from(adamant_core::Error::new("ranks", kind))
}
/// What the leader says of a checkpoint behind a step. Who does not lead has nothing to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SaveVote {
    /// there is none
    No,
    /// only if the run ends here
    AtAnEnd,
    /// there is one
    Due,
}
/// No checkpoint.
const NONE: u64 = u64::MAX;

impl RunRanks {
    pub fn new(sharing: StepSharing, device: Device, folder: Option<&Path>) -> RunRanks {
        let now = Arc::new(Mutex::new(sharing.group.clone()));
        let job = sharing.group.clone();
        RunRanks {
            sharing,
            job,
            device,
            folder: folder.map(Path::to_path_buf),
            meeting: None,
            is_newcomer: false,
            retries: u32::MAX,
            repeated: Arc::default(),
            now,
        }
    }
    /// The same, of ranks of which not all have other rows: these are all.
    pub fn over(self, job: &Group) -> RunRanks {
        RunRanks { job: job.clone(), now: Arc::new(Mutex::new(job.clone())), ..self }
    }
    /// The same, of ranks that meet again when one of them is lost.
    pub fn elastic(self, meeting: Option<Arc<dyn RankMeeting>>) -> RunRanks {
        RunRanks { meeting, ..self }
    }
    /// The same, of ranks that repeat a step so often and no more.
    pub fn retries(self, retries: u32) -> RunRanks {
        RunRanks { retries, ..self }
    }
    /// May a step be repeated once more? It counts.
    pub(super) fn repeats_once_more(&self, step: u64) -> bool {
        let mut repeated = self.repeated.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if repeated.0 == step { repeated.1 } else { 0 };
        *repeated = (step, before.saturating_add(1));
        before < self.retries
    }
    /// The same, of a rank that has no group yet: it meets those who train already.
    pub fn newcomer(self, is: bool) -> RunRanks {
        RunRanks { is_newcomer: is, ..self }
    }
    pub fn is_newcomer(&self) -> bool {
        self.is_newcomer
    }
    pub fn is_elastic(&self) -> bool {
        self.meeting.is_some()
    }
    /// The same run, shared with others.
    pub(super) fn regrouped(&self, group: &Arc<dyn Communicator>) -> RunRanks {
        let group = communicator::group(group);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = group.clone();
        RunRanks { job: group.clone(), sharing: StepSharing { group, ..self.sharing.clone() }, ..self.clone() }
    }
    /// The run's folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
    /// Who carries out what the ranks exchange.
    pub(super) fn group(&self) -> Result<&dyn Communicator, Failure> {
        communicator::of(&self.job).map_err(told)
    }
    /// Where the leader writes checkpoints.
    pub fn checkpoints(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("checkpoints"))
    }
    pub(super) fn device(&self) -> Device {
        self.device
    }
    pub fn sharing(&self) -> &StepSharing {
        &self.sharing
    }
    pub fn rank(&self) -> usize {
        self.job.rank as usize
    }
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }
    pub(crate) fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        gather(self.group()?, own).map_err(told)
    }
    /// Have all ranks the same description, the same weights, as many parts? Else their steps would be no step of one run. Without a model weights
    /// were compared before.
    ///
    /// # Errors
    /// `Usage`: the first rank that has something else; a lost peer.
    pub fn must_be_alike(&self, document: &Document, model: Option<&impl Walk>) -> Result<(), Failure> {
        let mut own = Vec::new();
        own.extend(blake3::hash(document.to_toml().as_bytes()).as_bytes());
        let mut weights = blake3::Hasher::new();
        for (name, tensor) in model.map(Walk::state_dict).unwrap_or_default() {
            weights.update(name.as_bytes());
            weights.update(&tensor.to_bytes()?);
        }
        own.extend(weights.finalize().as_bytes());
        own.extend((self.sharing.parts as u64).to_le_bytes());
        let all = self.gather(&own)?;
        for (rank, other) in all.iter().enumerate() {
            let differs = |range: std::ops::Range<usize>| other.get(range.clone()) != own.get(range);
            let what = match () {
                () if differs(0..32) => "another description",
                () if differs(32..64) => "other weights",
                () if differs(64..72) => "another number of shards",
                () => continue,
            };
            return Err(Failure::Usage(format!("rank {} and rank {rank} begin with {what}: all ranks of a run begin alike", self.rank())));
        }
        Ok(())
    }
    /// The checkpoint that all go on from: the leader tells which it found, the others read it.
    ///
    /// # Errors
    /// A checkpoint that cannot be read here; a lost peer.
    pub fn agree_on(&self, run: Option<&Path>, found: Option<&Snapshot>) -> Result<Option<Restored>, Failure> {
        let step = found.map_or(NONE, |snapshot| snapshot.step);
        let all = self.gather(&step.to_le_bytes())?;
        let led = all.first().and_then(|bytes| bytes.as_slice().try_into().ok()).map_or(NONE, u64::from_le_bytes);
        match (self.leads() || led == NONE, run) {
            (true, _) => Ok(None),
            (false, Some(run)) => Ok(Some(read(&Disk, &run.join("checkpoints").join(folder_name(led)))?)),
            (false, None) => Err(Failure::Usage(format!("rank 0 goes on from step {led}, and rank {} has no run folder to read it from", self.rank()))),
        }
    }
    /// What any rank was asked for, by a signal or to meet a newcomer; and what the leader says of a checkpoint.
    ///
    /// # Errors
    /// A lost peer.
    pub fn asked(&self, own: Option<i32>, saving: SaveVote) -> Result<AskedOfAll, Failure> {
        let called = self.meeting.as_ref().is_some_and(|meeting| meeting.is_called());
        let own = Tensor::from_vec_on(vec![i64::from(own.unwrap_or(0)), i64::from(called), saving as i64], [3], self.device);
        let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Max, parts: 0, used: RankUse::Alike };
        let most = Tensor::apply(Op::Collective { kind, group: self.job.clone() }, Arg::None, &[&own]).to_vec::<i64>()?;
        let of = |k: usize| most.get(k).copied().unwrap_or(0);
        let saving = [SaveVote::AtAnEnd, SaveVote::Due].into_iter().find(|vote| of(2) == *vote as i64).unwrap_or(SaveVote::No);
        Ok(AskedOfAll { signal: i32::try_from(of(0)).ok().filter(|signal| *signal != 0), called: of(1) == 1, saving })
    }
    /// Tells the others why this rank has failed.
    pub fn failed(&self, failure: &Failure) {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Ok(group) = communicator::of(&now) {
            group.abort(&failure.to_string());
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZeroStage;
    use adamant_core::communicator::LoneRank;

    #[test]
    fn a_step_that_is_repeated_for_ever() {
        let group = communicator::group(&(Arc::new(LoneRank::default()) as Arc<dyn Communicator>));
        let sharing = StepSharing { group, parts: 1, bucket_bytes: 1, zero: ZeroStage::Off, compress: None };
        let ranks = RunRanks::new(sharing, Device::reference(), None).retries(2);
        // All handles of these ranks count together.
        let told = [5, 5, 5, 6, 6, 6, 5].map(|step| ranks.clone().repeats_once_more(step));
        assert_eq!(told, [true, true, false, true, true, false, true]);
    }
}
