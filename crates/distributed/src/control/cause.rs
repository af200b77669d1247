//! Why a group ends, as ranks tell each other.
use crate::{
    ErrorKind,
    join::frame::{FrameBody, FrameBodyReader},
};

/// What ended a group on one rank. Ranks are those of the whole job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// what the rank said
    Said(String),
    /// it lost another rank
    Lost {
        /// which
        rank: usize,
        /// how that was seen
        why: String,
    },
    /// it calls something else than another rank
    Differ {
        /// the number of the call
        seq: u64,
        /// what it calls
        own: String,
        /// the other rank
        rank: usize,
        /// what that one calls
        other: String,
    },
}
impl FailureCause {
    /// Of an error that ended a group on this rank.
    pub fn of(kind: &ErrorKind) -> FailureCause {
        match kind {
            ErrorKind::PeerLost { rank, why, .. } => FailureCause::Lost { rank: *rank, why: why.clone() },
            ErrorKind::RanksDiffer { seq, own, rank, other } => FailureCause::Differ { seq: *seq, own: own.clone(), rank: *rank, other: other.clone() },
            ErrorKind::PeerFailed { message, .. } => FailureCause::Said(message.clone()),
            kind => FailureCause::Said(kind.to_string()),
        }
    }
    /// The error of `own`, which waited in `op` and was told by `from`.
    pub fn error(&self, own: usize, from: usize, op: &str, seq: u64) -> ErrorKind {
        match self {
            FailureCause::Lost { rank, why } if *rank != own => {
                let why = if from == own { why.clone() } else { format!("{why} (as rank {from} saw)") };
                ErrorKind::PeerLost { rank: *rank, op: op.to_owned(), seq, why }
            }
            FailureCause::Lost { why, .. } => ErrorKind::PeerFailed { rank: from, message: format!("it gave up this rank: {why}") },
            FailureCause::Differ { seq, own: theirs, rank, other } if *rank == own => {
                let (mine, their) = (format!(" as rank {own}"), format!(" as rank {from}"));
                let theirs = theirs.strip_suffix(&their).unwrap_or(theirs).to_owned();
                let is_named = other.ends_with(&mine);
                ErrorKind::RanksDiffer { seq: *seq, own: if is_named { other.clone() } else { format!("{other}{mine}") }, rank: from, other: theirs }
            }
            FailureCause::Differ { seq, own: theirs, rank, other } => {
                ErrorKind::PeerFailed { rank: from, message: format!("ranks differ in call {seq}: it calls {theirs}, rank {rank} calls {other}") }
            }
            FailureCause::Said(message) => ErrorKind::PeerFailed { rank: from, message: message.clone() },
        }
    }
    /// As the body of a frame, after the group's number.
    pub(crate) fn encode(&self, group: u64) -> Vec<u8> {
        let body = FrameBody::default().number(group);
        let body = match self {
            FailureCause::Said(message) => body.number(0).text(message),
            FailureCause::Lost { rank, why } => body.number(1).number(*rank as u64).text(why),
            FailureCause::Differ { seq, own, rank, other } => body.number(2).number(*rank as u64).number(*seq).text(own).text(other),
        };
        body.0
    }
    /// The group's number and the cause, of a frame's body.
    pub(crate) fn decode(body: &[u8]) -> Option<(u64, FailureCause)> {
        let mut body = FrameBodyReader(body);
        let group = body.number()?;
        let cause = match body.number()? {
            0 => FailureCause::Said(body.text()?),
            1 => FailureCause::Lost { rank: usize::try_from(body.number()?).ok()?, why: body.text()? },
            2 => {
                let (rank, seq) = (usize::try_from(body.number()?).ok()?, body.number()?);
                FailureCause::Differ { seq, rank, own: body.text()?, other: body.text()? }
            }
            _ => return None,
        };
        Some((group, cause))
    }
}
