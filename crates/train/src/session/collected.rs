//! State that only all ranks together have, put together on the leader: before a checkpoint is written.
//!
//! ```text
//! slots of pieces -> bytes -> all-to-all, to rank 0 alone -> slots as a whole, by the parameters' names
//! parameters: gathered by all, one after the other; the leader keeps them until its snapshot is taken
//! ```
//!
//! So a checkpoint is the same file whatever ranks share out, and a run goes on with any number of them.
use super::{Session, sharded::ZeroStage, shared::gather};
use crate::{Failure, trainer::Batch};
use adamant_core::{
    DType, Device, Error, ErrorKind, Result as Computed, Shape, Tensor, TensorType,
    communicator::{CollectiveCall, Communicator, of},
    op::CollectiveKind,
};
use adamant_formats::safetensors::Layout;
use adamant_nn::{Param, Walk};
use std::{collections::BTreeMap, path::Path};

/// What messages are called in errors.
const MESSAGE: &str = "the slots of a rank";

fn message(tensors: &[(String, Tensor)]) -> Computed<Vec<u8>> {
    let metas = tensors.iter().map(|(name, t)| Ok((name.clone(), t.try_meta()?))).collect::<Computed<Vec<_>>>()?;
    let layout = Layout::of(Path::new(MESSAGE), metas, &BTreeMap::new())?;
    let by_name: BTreeMap<&str, &Tensor> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let mut bytes = layout.header().to_vec();
    for place in layout.places() {
        bytes.extend(by_name.get(place.name.as_str()).map_or_else(|| Ok(Vec::new()), |t| t.to_bytes())?);
    }
    Ok(bytes)
}
fn read(bytes: &[u8], device: Device) -> Computed<Vec<(String, Tensor)>> {
    let short = || Error::new("collect", ErrorKind::Argument(format!("{MESSAGE} end within their header")));
    let length = bytes.first_chunk::<8>().map(|first| u64::from_le_bytes(*first)).ok_or_else(short)?;
    let end = usize::try_from(length).ok().and_then(|n| n.checked_add(8)).ok_or_else(short)?;
    let header = bytes.get(..end).ok_or_else(short)?;
    let layout = Layout::parse(Path::new(MESSAGE), header.to_vec(), bytes.len() as u64)?;
    let tensor = |place: &adamant_formats::safetensors::Place| {
        let range = place.range.start as usize..place.range.end as usize;
        Ok((place.name.clone(), place.tensor(Path::new(MESSAGE), bytes.get(range).ok_or_else(short)?, device)?))
    };
    layout.places().iter().map(tensor).collect()
}
/// The slots of all ranks, in their order; on rank 0 alone.
pub(super) fn of_ranks(group: &dyn Communicator, own: Vec<(String, Tensor)>, device: Device) -> Computed<Vec<Vec<(String, Tensor)>>> {
    let fail = |kind| Error::new("collect", kind);
    let bytes = if group.rank() == 0 { Vec::new() } else { message(&own)? };
    let lengths = gather(group, &(bytes.len() as u64).to_le_bytes()).map_err(fail)?;
    let lengths: Vec<usize> = lengths.iter().map(|n| n.as_slice().try_into().map_or(0, u64::from_le_bytes) as usize).collect();
    let made = TensorType { shape: Shape::new(&[lengths.iter().sum()]).map_err(fail)?, dtype: DType::U8 };
    let call = CollectiveCall::next(group, CollectiveKind::AllToAll, made, None);
    // Each rank's for rank 0, and nothing for the others.
    let to: Vec<&[u8]> = (0..lengths.len()).map(|rank| if rank == 0 { &bytes[..] } else { &[] }).collect();
    let mut came: Vec<Vec<u8>> = lengths.iter().map(|n| if group.rank() == 0 { vec![0; *n] } else { Vec::new() }).collect();
    let mut from: Vec<&mut [u8]> = came.iter_mut().map(Vec::as_mut_slice).collect();
    group.all_to_all(&call, &to, &mut from).map_err(fail)?;
    if group.rank() > 0 {
        return Ok(Vec::new());
    }
    let others = came.iter().skip(1).map(|bytes| read(bytes, device));
    std::iter::once(Ok(own)).chain(others).collect()
}
/// Slots as a whole, of those of each rank's pieces.
fn joined(parameters: &[Param], of_ranks: Vec<Vec<(String, Tensor)>>) -> Computed<Vec<(String, Tensor)>> {
    let mut pieces: BTreeMap<String, Vec<Tensor>> = BTreeMap::new();
    for (name, value) in of_ranks.into_iter().flatten() {
        pieces.entry(name).or_default().push(value);
    }
    let by_path: BTreeMap<String, &Param> = parameters.iter().map(|p| (p.path().to_string(), p)).collect();
    let whole = |(name, pieces): (String, Vec<Tensor>)| -> Computed<(String, Tensor)> {
        let p = name.rsplit_once('.').and_then(|(path, _)| by_path.get(path));
        let rank = pieces.first().map_or(Ok(0), |first| first.shape().map(|s| s.rank()))?;
        let value = match (p, rank, &pieces[..]) {
            // A count, which all that have it have alike.
            (_, 0, [first, ..]) => first.clone(),
            (Some(p), _, [one]) if one.shape()? == p.meta().shape => one.clone(),
            (Some(p), ..) => Tensor::cat(&pieces.iter().collect::<Vec<_>>(), 0).reshape(p.meta().shape),
            (None, _, [first, ..]) => first.clone(),
            (None, _, []) => Tensor::zeros([0]),
        };
        value.materialize()?;
        Ok((name, value.ok()?))
    };
    pieces.into_iter().map(whole).collect()
}
impl<M: Walk, B: Batch> Session<M, B> {
    /// Puts together, on the leader, what [`Session::snapshot`] needs of the other ranks. All ranks call it, behind the same step.
    ///
    /// # Errors
    /// A lost peer; no memory.
    pub fn collect(&mut self) -> Result<(), Failure> {
        if let Some(meshed) = self.meshed.clone().filter(|meshed| !meshed.is_whole()) {
            return self.collect_parts(&meshed);
        }
        let Some(shared) = &self.shared else { return Ok(()) };
        let (stage, group) = (shared.sharded.stage(), shared.group());
        if stage == ZeroStage::Off && shared.compressed.is_none() {
            return Ok(());
        }
        let leads = group.rank == 0;
        let mut values = BTreeMap::new();
        if stage == ZeroStage::Parameters {
            for (_, p) in &self.parameters {
                let value = p.detached();
                value.materialize()?;
                if leads {
                    values.insert(p.cell().id(), value);
                }
            }
            shared.sharded.forget();
        }
        let errors = shared.compressed.as_ref().map_or(Ok(Vec::new()), |compressed| compressed.collect())?;
        // Nothing is left in the window: the group's calls follow each other.
        adamant_core::flush()?;
        let fail = |kind| Failure::from(Error::new("collect", kind));
        let slots = if stage == ZeroStage::Off {
            self.optimizer.state_dict()
        } else {
            joined(&self.optimizer.parameters(), of_ranks(of(group).map_err(fail)?, self.optimizer.state_dict(), self.device)?)?
        };
        if leads {
            shared.sharded.keep_collected(values, (slots, errors));
        }
        Ok(())
    }
    /// Lets go of what was put together, where no snapshot was taken: from now on parameters are read as they are.
    pub fn let_go(&mut self) {
        self.shared.iter().for_each(|shared| drop(shared.sharded.take_collected()));
        self.collected = None;
    }
}
