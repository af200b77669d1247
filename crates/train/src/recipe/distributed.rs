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
//! sync_bn = false     # do batch norms see the rows of all ranks?
//! static_graph = true # have the same parameters gradients in every step? Else it is found out before each
//! retries = 3         # how often ranks that are left repeat a step (`--elastic`)
//! ```
//!
//! `mesh` and what goes with it: [`super::mesh`].
use super::mesh::{MeshRecipe, mesh};
use crate::{
    Failure,
    config::Section,
    session::{ALL_AT_ONCE, CompressionPlan, GradientCompression, ZeroStage},
};
use std::time::Duration;

/// How ranks share a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DistributedTraining {
    pub mode: SharingMode,
    pub shards: Option<usize>,
    pub bucket_bytes: usize,
    pub zero: ZeroStage,
    pub compress: Option<CompressionPlan>,
    /// how they share the model, if they do
    pub mesh: Option<MeshRecipe>,
    pub sync_bn: bool,
    pub static_graph: bool,
    pub retries: u32,
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
    /// several ranks, which share the model too
    Hybrid,
}
/// So long a rank waits for the others, where nobody says.
const PATIENCE: u64 = 60;
/// What travels at once, where nobody says: MiB.
const BUCKET: usize = 25;
/// How often a step is repeated, where nobody says.
const RETRIES: u32 = 3;

/// Reads the section; what stands where there is none.
///
/// # Errors
/// A mode that there is not, a number that makes no sense; steps of which each layer is looked at, codes that are trained.
pub(crate) fn distributed(root: &Section<'_>) -> Result<DistributedTraining, Failure> {
    let Some(s) = root.section("distributed")? else {
        let (bucket_bytes, zero) = (BUCKET << 20, ZeroStage::Off);
        let usual = DistributedTraining {
            mode: SharingMode::Auto,
            shards: None,
            bucket_bytes,
            zero,
            compress: None,
            mesh: None,
            sync_bn: false,
            static_graph: true,
            retries: RETRIES,
        };
        return Ok(usual);
    };
    let mode = match s.text("mode")? {
        None | Some("auto") => SharingMode::Auto,
        Some("none") => SharingMode::None,
        Some("distributed") => SharingMode::Distributed,
        Some("hybrid") => SharingMode::Hybrid,
        Some("parameter_server") => {
            let told = "a parameter server adds gradients as they arrive, so that no two runs are alike: not meant to come";
            return Err(s.wrong_key("mode", format!("{told}; \"auto\" adds them in one order")));
        }
        Some("rpc") => {
            let told = "who takes remote calls runs code that a peer sends: not meant to come";
            return Err(s.wrong_key("mode", format!("{told}; \"auto\", `adamant launch -n N`")));
        }
        Some("dataparallel") => {
            let told = "several devices in one process are `adamant::parallel::DataParallel`, of modules of one's own; a description has a process for each";
            return Err(s.wrong_key("mode", format!("{told}: \"auto\", and `adamant launch -n N`")));
        }
        Some(other) => return Err(s.wrong_key("mode", format!("there is no `{other}`; there are auto, none, distributed, hybrid"))),
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
    let mesh = mesh(&s)?;
    let sync_bn = s.flag("sync_bn")?.unwrap_or(false);
    let static_graph = s.flag("static_graph")?.unwrap_or(true);
    let retries = s.size_in("retries", 0..=MOST_RETRIES)?.map_or(RETRIES, |n| n as u32);
    let shares_the_model = mesh.as_ref().is_some_and(MeshRecipe::shares_the_model);
    if mode == SharingMode::Hybrid && !shares_the_model {
        return Err(s.wrong_key("mode", "ranks that share rows and model have a `mesh` with more than `data`"));
    }
    if shares_the_model && zero > ZeroStage::Off {
        return Err(s.wrong_key("zero", "ranks of a `mesh` hold pieces of the model already, each with its own slots: 0"));
    }
    if shares_the_model && compress.is_some() {
        return Err(s.wrong_key("compress", "what a rank has not sent is of its piece alone, and would be lost on another `mesh`: leave it out"));
    }
    if sync_bn && zero == ZeroStage::Parameters {
        return Err(s.wrong_key("sync_bn", "with `zero = 3` ranks gather parameters in passes of their own: `zero` is 2 at most"));
    }
    if sync_bn && mesh.as_ref().is_some_and(|mesh| mesh.pipelines() > 1) {
        return Err(s.wrong_key("sync_bn", "stages of a pipeline see micro-batches, of which ranks may have different numbers: without `pipeline`"));
    }
    s.finish()?;
    Ok(DistributedTraining { mode, shards, bucket_bytes, zero, compress, mesh, sync_bn, static_graph, retries })
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
const MOST_RETRIES: usize = 1 << 16;
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
