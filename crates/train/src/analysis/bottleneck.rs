//! Which layers the time goes to, why, and what would help. A suggestion is made only where the counts of the layer say that it
//! helps, with the counts before and after: whoever builds what it says finds them.
use super::{Analysis, LayerAnalysis, LayerBound};
use crate::{plot::scale::number, summary::size};
use serde::Serialize;
use std::{fmt, time::Duration};

/// A layer that takes a share of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Bottleneck {
    /// where it stands
    pub layer: String,
    /// what it is
    pub kind: String,
    /// its kernels' time in a forward pass; zero if nothing was measured
    #[serde(rename = "time_us", serialize_with = "super::microseconds")]
    pub time: Duration,
    /// its part of the pass, 0 to 1; of the FLOPs if nothing was measured
    pub share: f64,
    /// what holds it up
    pub bound: LayerBound,
    /// how that was seen, in words
    pub reason: String,
    /// what would help
    pub suggestion: Option<Remedy>,
}
/// What would help a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Remedy {
    /// A convolution of each channel by itself and one of a single place over all channels (Howard et al. 2017, MobileNet).
    SeparableConvolution {
        /// weights of the layer and of the two
        weights: (u64, u64),
        /// multiply-adds of the layer and of the two
        multiply_adds: (u64, u64),
    },
    /// Two linear layers with fewer features between them: a product of two thin matrices.
    ThroughFewer {
        /// features between them
        features: usize,
        /// weights of the layer and of the two
        weights: (u64, u64),
    },
    /// bf16 in place of f32.
    Bfloat16 {
        /// bytes moved now and then
        bytes: (u64, u64),
    },
    /// In evaluation its scale and shift may go into the weights of the convolution before it: the pass `conv_norm_folding`.
    FoldIntoConvolution,
    /// More rows at once: launches take no longer then.
    LargerBatch {
        /// so many, at which the work takes as long as the launches
        rows: usize,
    },
}
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::SeparableConvolution { weights, multiply_adds } => write!(
                f,
                "a depthwise separable convolution in its place: {} -> {} weights, {} -> {} multiply-adds",
                weights.0,
                weights.1,
                number(multiply_adds.0 as f64),
                number(multiply_adds.1 as f64)
            ),
            Remedy::ThroughFewer { features, weights } => {
                write!(f, "two layers through {features} features in its place: {} -> {} weights", weights.0, weights.1)
            }
            Remedy::Bfloat16 { bytes } => write!(f, "bf16: {} -> {} moved", size(bytes.0), size(bytes.1)),
            Remedy::FoldIntoConvolution => f.write_str("folded into the convolution before it (the pass conv_norm_folding), nothing of it is left"),
            Remedy::LargerBatch { rows } => write!(f, "a larger batch: up to {rows} rows take little longer"),
        }
    }
}
/// With fewer features between two layers they would learn nothing.
const FEWEST_FEATURES: usize = 8;
/// So much less must a pair of layers have than the one.
const FEWER: usize = 4;
/// A batch beyond this is no suggestion.
const LARGEST_BATCH: f64 = 1e6;

impl Analysis {
    /// The layers by their time, longest first, each with its share, a reason and what would help. Layers in which nothing ran are
    /// left out. If nothing was measured, by FLOPs.
    pub fn find_bottlenecks(&self) -> Vec<Bottleneck> {
        let between = self.timing.as_ref().map_or(Duration::ZERO, |t| t.between);
        let all = (self.layer_time() + between).as_secs_f64().max(1e-12);
        let flops = self.summary.totals.flops.max(1) as f64;
        let is_timed = self.timing.is_some();
        let mut found: Vec<(f64, Bottleneck)> = (self.layers.iter())
            .filter(|l| if is_timed { l.times.is_some_and(|t| t.kernels > 0) } else { l.row.figures.flops > 0 })
            .map(|l| {
                let time = l.times.map_or(Duration::ZERO, |t| t.time);
                let share = if is_timed { time.as_secs_f64() / all } else { l.row.figures.flops as f64 / flops };
                let name = if l.row.path.is_empty() { l.row.kind.clone() } else { l.row.path.clone() };
                let (reason, suggestion) = (self.reason(l), self.suggestion(l));
                (share, Bottleneck { layer: name, kind: l.row.kind.clone(), time, share, bound: l.bound, reason, suggestion })
            })
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, b)| b).collect()
    }
    fn reason(&self, l: &LayerAnalysis) -> String {
        let figures = &l.row.figures;
        let (Some(roof), Some(times)) = (&self.roof, &l.times) else {
            return format!("{} FLOPs of {}", number(figures.flops as f64), number(self.summary.totals.flops as f64));
        };
        let reached = 100.0 * roof.seconds(figures.flops, figures.bytes_moved) / times.time.as_secs_f64().max(1e-12);
        match l.bound {
            LayerBound::Overhead => format!("{} kernels, of which the smallest takes {:.1} us", times.kernels, roof.launch.as_secs_f64() * 1e6),
            LayerBound::Compute => format!("{:.1} FLOP/B, above the ridge of {:.1}; {reached:.0} % of the roof", l.intensity, roof.ridge()),
            LayerBound::Memory => format!("{:.1} FLOP/B, below the ridge of {:.1}; {reached:.0} % of the roof", l.intensity, roof.ridge()),
            LayerBound::Nothing => String::new(),
        }
    }
    fn suggestion(&self, l: &LayerAnalysis) -> Option<Remedy> {
        let figures = &l.row.figures;
        if l.bound == LayerBound::Overhead {
            return self.larger_batch(l);
        }
        if !self.training && l.row.kind.starts_with("BatchNorm") && l.follows.as_deref().is_some_and(|kind| kind.starts_with("Conv")) {
            return Some(Remedy::FoldIntoConvolution);
        }
        let fewer = smaller(l);
        // A pair of layers moves more: it helps where arithmetic is what takes long.
        if l.bound != LayerBound::Memory && fewer.is_some() {
            return fewer;
        }
        let halved = figures.bytes_moved - l.f32_bytes / 2;
        (l.f32_bytes > 0 && l.bound == LayerBound::Memory).then_some(Remedy::Bfloat16 { bytes: (figures.bytes_moved, halved) })
    }
    /// What grows with the batch must be so much more that it takes as long as the launches do.
    fn larger_batch(&self, l: &LayerAnalysis) -> Option<Remedy> {
        let (roof, times, batch) = (self.roof?, l.times?, *self.summary.input.first()?);
        let of_rows = l.row.figures.bytes_moved.saturating_sub(l.row.parameters as u64 * 4);
        let least = roof.seconds(l.row.figures.flops, of_rows);
        let rows = (batch as f64 * (roof.launch * times.kernels).as_secs_f64() / least).ceil();
        (least > 0.0 && rows > batch as f64 && rows <= LARGEST_BATCH).then_some(Remedy::LargerBatch { rows: rows as usize })
    }
}
/// Smaller layers in the place of one.
fn smaller(l: &LayerAnalysis) -> Option<Remedy> {
    let weight = l.weight.as_deref()?;
    let (out, channels, places) = (*weight.first()?, *weight.get(1)?, weight[2..].iter().product::<usize>());
    if l.row.kind == "Linear" {
        let features = out * channels / (FEWER * (out + channels));
        let weights = (out * channels, features * (out + channels));
        return (features >= FEWEST_FEATURES).then_some(Remedy::ThroughFewer { features, weights: (weights.0 as u64, weights.1 as u64) });
    }
    let ungrouped = l.row.input.as_ref()?.get(1) == Some(&channels);
    if !matches!(&*l.row.kind, "Conv1d" | "Conv2d" | "Conv3d") || !ungrouped || places <= 1 {
        return None;
    }
    let of_each = l.row.output.as_ref()?.iter().product::<usize>() / out.max(1);
    let weights = (out * channels * places, channels * places + out * channels);
    let counted = |n: usize| (n * of_each) as u64;
    (weights.1 * FEWER <= weights.0)
        .then(|| Remedy::SeparableConvolution { weights: (weights.0 as u64, weights.1 as u64), multiply_adds: (counted(weights.0), counted(weights.1)) })
}
