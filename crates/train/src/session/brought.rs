//! Tensors of all ranks of a group, brought to the first of them: as bytes with a header that names them, by one all-to-all.
use super::shared::gather;
use adamant_core::{
    DType, Device, Error, ErrorKind, Result as Computed, Shape, Tensor, TensorType,
    communicator::{CollectiveCall, Communicator},
    op::CollectiveKind,
};
use adamant_formats::safetensors::Layout;
use std::{collections::BTreeMap, path::Path};

/// What messages are called in errors.
const MESSAGE: &str = "the tensors of a rank";

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
/// The tensors of all ranks, in their order; on rank 0 alone.
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
