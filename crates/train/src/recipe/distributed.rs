//! `[distributed]`: a run that several ranks share.
//!
//! ```toml
//! [distributed]
//! mode = "auto"       # none: one rank alone; distributed: several, or it is refused; auto: as many as were started
//! shards = 8          # parts that the rows of a step are cut into; as many as ranks at the first start, unless it is given
//! bucket_mb = 25      # gradients that travel at once
//! overlap = true      # they travel while the walk back goes on; false: all at once, behind it
//! zero = 0            # what ranks share out beside the rows: 1 slots, 2 gradients too, 3 parameters too
//! compress = "bf16"   # gradients travel with fewer bytes: bf16, powersgd, topk; none unless it is said
//! compress_rank = 4   # the columns of powersgd
//! compress_share = 0.01     # what topk sends
//! compress_feedback = true  # is what was not sent added to the next gradient?
//! timeout = 60        # seconds that a rank waits for the others
//! ```
use crate::{
    Failure,
    config::Section,
    session::{ALL_AT_ONCE, CompressionPlan, GradientCompression, ZeroStage},
};
use std::time::Duration;

/// How ranks share a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DistributedTraining {
    pub mode: SharingMode,
    pub shards: Option<usize>,
    pub bucket_bytes: usize,
    pub zero: ZeroStage,
    pub compress: Option<CompressionPlan>,
}
/// Who may share a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharingMode {
    /// as many ranks as there are
    Auto,
    /// one rank
    None,
    /// several ranks
    Distributed,
}
/// So long a rank waits for the others, where nobody says.
const PATIENCE: u64 = 60;
/// What travels at once, where nobody says: MiB.
const BUCKET: usize = 25;

/// Reads the section; what stands where there is none.
///
/// # Errors
/// A mode that there is not, a number that makes no sense; steps of which each layer is looked at, codes that are trained.
pub(crate) fn distributed(root: &Section<'_>) -> Result<DistributedTraining, Failure> {
    let usual = DistributedTraining { mode: SharingMode::Auto, shards: None, bucket_bytes: BUCKET << 20, zero: ZeroStage::Off, compress: None };
    let Some(s) = root.section("distributed")? else { return Ok(usual) };
    let mode = match s.text("mode")? {
        None | Some("auto") => SharingMode::Auto,
        Some("none") => SharingMode::None,
        Some("distributed") => SharingMode::Distributed,
        Some(other) => return Err(s.wrong_key("mode", format!("there is no `{other}`; there are auto, none, distributed"))),
    };
    let positive = |key: &'static str| match s.size(key)? {
        Some(0) => Err(s.wrong_key(key, "it is 1 at least")),
        n => Ok(n),
    };
    let shards = positive("shards")?;
    if shards.is_some_and(|n| n > MOST_SHARDS) {
        return Err(s.wrong_key("shards", format!("there are {MOST_SHARDS} at most")));
    }
    let bucket = positive("bucket_mb")?.unwrap_or(BUCKET);
    let overlaps = s.flag("overlap")?.unwrap_or(true);
    let bucket_bytes = if overlaps { bucket.saturating_mul(1 << 20).min(ALL_AT_ONCE - 1) } else { ALL_AT_ONCE };
    let zero = s.size("zero")?.map_or(Some(ZeroStage::Off), ZeroStage::from_number);
    let zero = zero.ok_or_else(|| s.wrong_key("zero", "it is 0, 1, 2 or 3"))?;
    if !overlaps && zero == ZeroStage::Parameters {
        return Err(s.wrong_key("overlap", "with `zero = 3` gradients travel block by block: it goes with 0, 1 and 2"));
    }
    s.number("timeout")?;
    timeout(&s)?;
    let compress = compression(&s)?;
    s.finish()?;
    Ok(DistributedTraining { mode, shards, bucket_bytes, zero, compress })
}
/// How gradients travel.
fn compression(s: &Section<'_>) -> Result<Option<CompressionPlan>, Failure> {
    let (rank, share) = (s.size("compress_rank")?, s.number("compress_share")?);
    let feedback = s.flag("compress_feedback")?;
    let kind = match s.text("compress")? {
        None | Some("none") => None,
        Some("bf16") => Some(GradientCompression::Bf16),
        Some("powersgd") => match rank.unwrap_or(4) {
            0 => return Err(s.wrong_key("compress_rank", "it is 1 at least")),
            rank => Some(GradientCompression::PowerSgd { rank }),
        },
        Some("topk") => match share.unwrap_or(0.01) {
            share if share > 0.0 && share <= 1.0 => Some(GradientCompression::TopK { share }),
            _ => return Err(s.wrong_key("compress_share", "it is above 0 and at most 1")),
        },
        Some(other) => return Err(s.wrong_key("compress", format!("there is no `{other}`; there are none, bf16, powersgd, topk"))),
    };
    let of = |key: &'static str, is_there: bool, fits: bool| match is_there && !fits {
        true => Err(s.wrong_key(key, "it says nothing without its `compress`")),
        false => Ok(()),
    };
    of("compress_rank", rank.is_some(), matches!(kind, Some(GradientCompression::PowerSgd { .. })))?;
    of("compress_share", share.is_some(), matches!(kind, Some(GradientCompression::TopK { .. })))?;
    of("compress_feedback", feedback.is_some(), kind.is_some())?;
    Ok(kind.map(|kind| CompressionPlan { kind, feedback: feedback.unwrap_or(true) }))
}
const MOST_SHARDS: usize = 1 << 16;
fn timeout(s: &Section<'_>) -> Result<Duration, Failure> {
    let seconds = s.number("timeout")?.unwrap_or(PATIENCE as f64);
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if seconds >= 0.1 => Ok(timeout),
        _ => Err(s.wrong_key("timeout", "it is a number of seconds, 0.1 at least")),
    }
}
/// So long a rank waits for the others.
///
/// # Errors
/// A number that makes no sense.
pub(crate) fn patience(root: &Section<'_>) -> Result<Duration, Failure> {
    root.section("distributed")?.map_or(Ok(Duration::from_secs(PATIENCE)), |s| timeout(&s))
}
