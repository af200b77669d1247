//! What the first rank tells all others, and they it, outside of any tensor.
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
/// Gives what each rank has to say to rank 0: there `heard` is called for rank after rank, its own first, with portion after portion. All ranks
/// call it, between steps. Of any length: a portion at a time is in memory beside `own`.
///
/// # Errors
/// A lost peer; what `heard` gives, which the others are told.
pub fn told_to_first(group: &dyn Communicator, own: &[u8], mut heard: impl FnMut(usize, &[u8]) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
    if let Some(ended) = group.state().ended() {
        return Err(ended);
    }
    let call = |kind, bytes: usize| -> Result<CollectiveCall, ErrorKind> {
        Ok(CollectiveCall::next(group, kind, TensorType { shape: Shape::new(&[bytes])?, dtype: DType::U8 }, None))
    };
    if group.rank() > 0 {
        let send = |bytes: &[u8]| group.send(&call(CollectiveKind::Send { to: 0 }, bytes.len())?, 0, bytes);
        send(&(own.len() as u64).to_le_bytes())?;
        own.chunks(PORTION).try_for_each(send)?;
        return all_heard(group);
    }
    let mut tell = |rank, bytes: &[u8]| heard(rank, bytes).inspect_err(|kind| group.abort(&kind.to_string()));
    own.chunks(PORTION).try_for_each(|bytes| tell(0, bytes))?;
    let mut portion = vec![0; PORTION];
    for from in 1..group.size() {
        let receive = |bytes: &mut [u8]| group.receive(&call(CollectiveKind::Receive { from }, bytes.len())?, from, bytes);
        let mut length = [0; 8];
        receive(&mut length)?;
        let mut left = u64::from_le_bytes(length);
        while left > 0 {
            let n = left.min(PORTION as u64) as usize;
            receive(&mut portion[..n])?;
            tell(from, &portion[..n])?;
            left -= n as u64;
        }
    }
    all_heard(group)
}
/// Nobody leaves before all is heard.
fn all_heard(group: &dyn Communicator) -> Result<(), ErrorKind> {
    let made = TensorType { shape: Shape::new(&[0])?, dtype: DType::U8 };
    let mut nothing: Vec<&mut [u8]> = (0..group.size()).map(|_| &mut [][..]).collect();
    group.all_gather(&CollectiveCall::next(group, CollectiveKind::Barrier, made, None), &[], &mut nothing)
}
/// So many bytes go to the first rank at once.
const PORTION: usize = 4 << 20;
/// More than this nobody tells.
const MOST: usize = 1 << 24;
