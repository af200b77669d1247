//! A run's state on its way from one rank to the others, in memory: what a checkpoint holds, and what beside it a rank that goes on needs.
//! Must not know who gives and who needs it.
use super::ranks::told;
use crate::{Failure, checkpoint::Snapshot, folder::Journal};
use adamant_core::{
    DType, Device, Shape, Tensor, TensorType,
    communicator::{CollectiveCall, Communicator},
    op::{CollectiveKind, RankUse},
};
use adamant_formats::safetensors::Layout;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// See the module's documentation.
pub(super) struct HandedState {
    pub snapshot: Snapshot,
    /// which parameters have gradients on any rank, where that was agreed upon
    pub used: Option<Vec<bool>>,
    /// the lines that may not be in the folder
    pub journal: Journal,
    /// the last validation: its step, and how good the model was
    pub score: Option<(u64, f64)>,
}
/// Its part that is no tensor.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "struct HandedHeader")]
struct HandedHeader {
    step: u64,
    state: Value,
    used: Option<Vec<bool>>,
    journal: (u64, String),
    score: Option<(u64, u64)>,
    /// of each group of tensors: its name, the length of its header, and of all of it
    groups: Vec<(String, u64, u64)>,
}
/// What the tensors are called in errors.
const FROM: &str = "the state of another rank";
/// More than this nobody gives in one piece.
const MOST: usize = 1 << 40;

/// The bytes of one rank, on all.
fn cast(group: &dyn Communicator, root: usize, bytes: &mut [u8]) -> Result<(), Failure> {
    let shape = Shape::new(&[bytes.len()]).map_err(told)?;
    let kind = CollectiveKind::Broadcast { root, used: RankUse::Alike };
    let call = CollectiveCall::next(group, kind, TensorType { shape, dtype: DType::U8 }, None);
    if let Some(ended) = group.state().ended() {
        return Err(told(ended));
    }
    group.broadcast(&call, root, bytes).inspect_err(|kind| group.state().end(kind)).map_err(told)
}
fn cast_text(group: &dyn Communicator, root: usize, own: Option<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    let mut length = own.as_ref().map_or(0, |own| own.len() as u64).to_le_bytes();
    cast(group, root, &mut length)?;
    let mut bytes = own.unwrap_or_default();
    bytes.resize(space(u64::from_le_bytes(length))?, 0);
    cast(group, root, &mut bytes)?;
    Ok(bytes)
}
fn space(bytes: u64) -> Result<usize, Failure> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes <= MOST).ok_or_else(|| Failure::Run(format!("{FROM} has {bytes} bytes")))
}
/// Gives the state of this rank to all others.
///
/// # Errors
/// A lost peer; a device that failed.
pub(super) fn give(group: &dyn Communicator, state: &HandedState) -> Result<(), Failure> {
    let layout = |tensors: &Vec<(String, Tensor)>| -> Result<Layout, Failure> {
        let metas = tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.try_meta()?))).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Layout::of(Path::new(FROM), metas, &BTreeMap::new())?)
    };
    let groups = state.snapshot.tensors.iter().map(|(name, tensors)| Ok((name, layout(tensors)?, tensors))).collect::<Result<Vec<_>, Failure>>()?;
    let header = HandedHeader {
        step: state.snapshot.step,
        state: state.snapshot.state.clone(),
        used: state.used.clone(),
        journal: (state.journal.base, state.journal.lines.clone()),
        score: state.score.map(|(step, score)| (step, score.to_bits())),
        groups: groups.iter().map(|(name, layout, _)| ((*name).clone(), layout.header().len() as u64, layout.bytes())).collect(),
    };
    let header = serde_json::to_vec(&header).map_err(|e| Failure::Run(format!("the state cannot be given: {e}")))?;
    let root = group.rank();
    cast_text(group, root, Some(header))?;
    for (_, layout, tensors) in groups {
        cast(group, root, &mut layout.header().to_vec())?;
        let by_name: BTreeMap<&str, &Tensor> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        for place in layout.places() {
            let Some(tensor) = by_name.get(place.name.as_str()) else { return Err(Failure::Run("a tensor without a name".into())) };
            cast(group, root, &mut tensor.to_bytes()?)?;
        }
    }
    Ok(())
}
/// Takes the state of a rank; all but that one call it. Who does not need it is there all the same.
///
/// # Errors
/// A lost peer; no memory.
pub(super) fn take(group: &dyn Communicator, root: usize, device: Device) -> Result<HandedState, Failure> {
    let header: HandedHeader = serde_json::from_slice(&cast_text(group, root, None)?).map_err(|e| Failure::Run(format!("{FROM} makes no sense: {e}")))?;
    let mut tensors = BTreeMap::new();
    for (name, length, all) in header.groups {
        let mut bytes = vec![0; space(length)?];
        cast(group, root, &mut bytes)?;
        let layout = Layout::parse(Path::new(FROM), bytes, all)?;
        let mut own = Vec::with_capacity(layout.places().len());
        for place in layout.places() {
            let mut bytes = vec![0; space(place.range.end - place.range.start)?];
            cast(group, root, &mut bytes)?;
            own.push((place.name.clone(), place.tensor(Path::new(FROM), &bytes, device)?));
        }
        tensors.insert(name, own);
    }
    let (base, lines) = header.journal;
    Ok(HandedState {
        snapshot: Snapshot { step: header.step, tensors, state: header.state },
        used: header.used,
        journal: Journal { base, lines },
        score: header.score.map(|(step, bits)| (step, f64::from_bits(bits))),
    })
}
