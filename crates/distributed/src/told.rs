//! What the first rank tells all others, outside of any tensor.
use adamant_ir::{
    DType, Shape, TensorType,
    op::{CollectiveKind, RankUse},
};
use adamant_runtime::{
    ErrorKind,
    communicator::{CollectiveCall, Communicator},
};

/// The bytes that rank 0 gives, on every rank; what other ranks give plays no part. All ranks call it, before or between steps.
///
/// ```
/// use adamant_distributed::told_by_first;
/// use adamant_runtime::communicator::LoneRank;
///
/// assert_eq!(told_by_first(&LoneRank::default(), b"runs/mnist-3")?, b"runs/mnist-3");
/// # Ok::<(), adamant_runtime::ErrorKind>(())
/// ```
///
/// # Errors
/// A lost peer.
pub fn told_by_first(group: &dyn Communicator, own: &[u8]) -> Result<Vec<u8>, ErrorKind> {
    if let Some(ended) = group.state().ended() {
        return Err(ended);
    }
    let call = |bytes: usize| -> Result<CollectiveCall, ErrorKind> {
        let made = TensorType { shape: Shape::new(&[bytes])?, dtype: DType::U8 };
        Ok(CollectiveCall::next(group, CollectiveKind::Broadcast { root: 0, used: RankUse::Alike }, made, None))
    };
    let mut length = (own.len() as u64).to_le_bytes();
    group.broadcast(&call(length.len())?, 0, &mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MOST {
        return Err(ErrorKind::Internal(format!("rank 0 tells {length} bytes, more than {MOST}")));
    }
    let mut bytes = if group.rank() == 0 { own.to_vec() } else { vec![0; length] };
    group.broadcast(&call(length)?, 0, &mut bytes)?;
    Ok(bytes)
}
/// More than this nobody tells.
const MOST: usize = 1 << 24;
