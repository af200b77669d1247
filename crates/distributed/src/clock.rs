//! How ranks' clocks lie to one another: for what several ranks have measured, to be looked at side by side.
//!
//! Each rank asks rank 0 for its time, again and again; the answer that was there soonest is believed, and taken for the time half way between
//! question and answer (Cristian 1989). On one host, where processes have one clock, it finds when each began to count. Must not know: what is measured.
use adamant_ir::{
    DType, Shape, TensorType,
    op::{CollectiveKind, RankUse},
};
use adamant_runtime::{
    ErrorKind,
    communicator::{CollectiveCall, Communicator},
};
use std::time::Duration;

/// How far the clock of the rank that began to count first is ahead of this rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// to be added to this rank's times
    pub ahead: Duration,
    /// how wrong that is at most
    pub within: Duration,
}
/// Questions of a rank, after which the best answer counts.
const QUESTIONS: usize = 32;

/// This rank's offset. `now` is the time on this rank's clock. All ranks call it, between steps.
///
/// # Errors
/// A lost peer.
pub fn clock_offset(group: &dyn Communicator, now: impl Fn() -> Duration) -> Result<ClockOffset, ErrorKind> {
    if let Some(ended) = group.state().ended() {
        return Err(ended);
    }
    let (nanos, within) = beside_first(group, &now)?;
    // No time is to be below 0.
    let mut all = vec![[0; 8]; group.size()];
    let mut blocks: Vec<&mut [u8]> = all.iter_mut().map(|word| &mut word[..]).collect();
    let call = CollectiveCall::next(group, CollectiveKind::AllGather { used: RankUse::Alike }, word()?, None);
    group.all_gather(&call, &nanos.to_le_bytes(), &mut blocks)?;
    let least = all.iter().map(|word| i64::from_le_bytes(*word)).min().unwrap_or(nanos);
    Ok(ClockOffset { ahead: Duration::from_nanos(nanos.abs_diff(least)), within })
}
fn word() -> Result<TensorType, ErrorKind> {
    Ok(TensorType { shape: Shape::new(&[8])?, dtype: DType::U8 })
}
/// Nanoseconds by which rank 0's clock is ahead of this rank's, and how wrong that is at most.
fn beside_first(group: &dyn Communicator, now: &dyn Fn() -> Duration) -> Result<(i64, Duration), ErrorKind> {
    let made = word()?;
    let call = |kind| CollectiveCall::next(group, kind, made, None);
    let send = |to: usize, bytes: &[u8; 8]| group.send(&call(CollectiveKind::Send { to }), to, bytes);
    let receive = |from: usize, bytes: &mut [u8; 8]| group.receive(&call(CollectiveKind::Receive { from }), from, bytes);
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let mut told = [0; 8];
    if group.rank() == 0 {
        for rank in 1..group.size() {
            for _ in 0..QUESTIONS {
                receive(rank, &mut told)?;
                send(rank, &nanos(now()).to_le_bytes())?;
            }
        }
        return Ok((0, Duration::ZERO));
    }
    let mut best = (0, Duration::MAX);
    for _ in 0..QUESTIONS {
        let asked = now();
        send(0, &told)?;
        receive(0, &mut told)?;
        let answered = now();
        let within = answered.saturating_sub(asked) / 2;
        if within < best.1 {
            best = (i64::from_le_bytes(told).saturating_sub(nanos(asked + within)), within);
        }
    }
    Ok(best)
}
