//! How ranks' clocks lie to one another: for what several ranks have measured, to be looked at side by side.
//!
//! Each rank asks rank 0 for its time, again and again; the answer that was there soonest is believed, and taken for the time half way between
//! question and answer (Cristian 1989). On one host, where processes have one clock, it finds when each began to count. Must not know: what is measured.
use adamant_ir::{DType, Shape, TensorType, op::CollectiveKind};
use adamant_runtime::{
    ErrorKind,
    communicator::{CollectiveCall, Communicator},
};
use std::time::Duration;

/// How far rank 0's clock is ahead of this rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// nanoseconds to be added to this rank's times
    pub nanos: i64,
    /// how wrong that is at most
    pub within: Duration,
}
/// Questions of a rank, after which the best answer counts.
const QUESTIONS: usize = 32;

/// This rank's offset, which is 0 on rank 0. `now` is the time on this rank's clock. All ranks call it, between steps.
///
/// # Errors
/// A lost peer.
pub fn clock_offset(group: &dyn Communicator, now: impl Fn() -> Duration) -> Result<ClockOffset, ErrorKind> {
    if let Some(ended) = group.state().ended() {
        return Err(ended);
    }
    let made = TensorType { shape: Shape::new(&[8])?, dtype: DType::U8 };
    let call = |kind| CollectiveCall::next(group, kind, made, None);
    let send = |to: usize, bytes: &[u8; 8]| group.send(&call(CollectiveKind::Send { to }), to, bytes);
    let receive = |from: usize, bytes: &mut [u8; 8]| group.receive(&call(CollectiveKind::Receive { from }), from, bytes);
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let mut word = [0; 8];
    if group.rank() == 0 {
        for rank in 1..group.size() {
            for _ in 0..QUESTIONS {
                receive(rank, &mut word)?;
                send(rank, &nanos(now()).to_le_bytes())?;
            }
        }
        return Ok(ClockOffset { nanos: 0, within: Duration::ZERO });
    }
    let mut best = ClockOffset { nanos: 0, within: Duration::MAX };
    for _ in 0..QUESTIONS {
        let asked = now();
        send(0, &word)?;
        receive(0, &mut word)?;
        let answered = now();
        let within = answered.saturating_sub(asked) / 2;
        if within < best.within {
            best = ClockOffset { nanos: i64::from_le_bytes(word).saturating_sub(nanos(asked + within)), within };
        }
    }
    Ok(best)
}
