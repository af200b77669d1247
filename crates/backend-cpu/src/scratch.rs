//! Memory that a kernel needs while it runs, as large as its operands make it. Where the system has no more, the kernel
//! answers with the error that a missing result would give; core sees to it that nothing is lost by then.
use adamant_core::ErrorKind;

/// An empty vector with room for `n` elements.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn room<T>(n: usize) -> Result<Vec<T>, ErrorKind> {
    let mut room = Vec::new();
    reserve(&mut room, n)?;
    Ok(room)
}
/// Room for `n` elements in all.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn reserve<T>(room: &mut Vec<T>, n: usize) -> Result<(), ErrorKind> {
    let more = n.saturating_sub(room.len());
    room.try_reserve_exact(more).map_err(|_| ErrorKind::OutOfMemory { asked: more.saturating_mul(size_of::<T>()), in_use: 0, cap: None })
}
/// `n` elements of `value`.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, ErrorKind> {
    let mut all = room(n)?;
    all.resize(n, value);
    Ok(all)
}
/// The items, of which there are `n`.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn collected<T>(n: usize, items: impl Iterator<Item = T>) -> Result<Vec<T>, ErrorKind> {
    let mut all = room(n)?;
    all.extend(items.take(n));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_machine_has_ends_the_process() {
        let oom = |e: ErrorKind| matches!(e, ErrorKind::OutOfMemory { .. });
        assert!(oom(filled(0f32, usize::MAX).unwrap_err()) && oom(room::<u64>(1 << 60).unwrap_err()));
        assert!(oom(collected(1 << 60, std::iter::once(0u64)).unwrap_err()));
        assert_eq!((filled(3u8, 2).unwrap(), collected(2, 0..9).unwrap()), (vec![3, 3], vec![0, 1]));
    }
}
