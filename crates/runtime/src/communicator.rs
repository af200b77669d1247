//! What a group of ranks must do. The order of calls is the same on every rank.
use crate::{
    ErrorKind, HostArray, Result, Shape,
    op::{CollectiveKind, Group},
};
use std::{any::Any, sync::Arc};

/// A group of ranks that exchange host bytes.
pub trait Communicator: Send + Sync + 'static {
    /// This rank.
    fn rank(&self) -> usize;
    /// How many ranks.
    fn size(&self) -> usize;
    /// Everybody's bytes, in rank order.
    ///
    /// # Errors
    /// A lost peer.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;
}
/// The group as an op holds it.
pub fn group(communicator: &Arc<dyn Communicator>) -> Group {
    Group { id: Arc::as_ptr(communicator) as *const () as u64, handle: Arc::new(communicator.clone()) }
}
/// Who carries out a group's collectives.
///
/// # Errors
/// A group that was made elsewhere.
pub fn of(group: &Group) -> std::result::Result<&dyn Communicator, ErrorKind> {
    let found = (&*group.handle as &dyn Any).downcast_ref::<Arc<dyn Communicator>>();
    found.map(|c| &**c).ok_or_else(|| ErrorKind::Internal("a group that nobody carries out".into()))
}
/// What a collective returns to this rank that puts in `bytes`, row-major, as are the bytes that come out.
///
/// # Errors
/// A lost peer; a rank that puts in something else; a root that is no rank.
pub fn exchange(kind: CollectiveKind, group: &dyn Communicator, bytes: &[u8], shape: Shape, dtype: crate::DType) -> std::result::Result<HostArray, ErrorKind> {
    let all = group.all_gather(bytes).map_err(|e| e.kind().clone())?;
    if let Some((rank, other)) = all.iter().enumerate().find(|(_, other)| other.len() != bytes.len()) {
        return Err(ErrorKind::Argument(format!(
            "rank {rank} puts in {} bytes, this rank {}: all ranks of a group call its collectives in one order, each with one shape and dtype",
            other.len(),
            bytes.len()
        )));
    }
    let parts: Vec<HostArray> = all.iter().map(|b| HostArray::from_bytes(shape, dtype, b)).collect();
    adamant_ir::op::combine_ranks(kind, &parts)
}
