//! What a model costs layer by layer, and where its time and its memory go.
//!
//! [`ModelAnalyzer::describe`] looks at a model without running it: shapes, parameters, FLOPs, bytes, the plan of its memory and a
//! picture of its architecture. [`ModelAnalyzer::analyze`] runs it besides, and tells for each layer how long it took and what held it
//! up: arithmetic, memory, or the launches of its kernels. [`Analysis::find_bottlenecks`] sorts the layers by that, and says what to do.
//!
//! What is counted, [`adamant_core::cost`] says: it is one rule for each op, summed over the ops that a layer has recorded. GMAC as other
//! tools tell them (fvcore, ptflops) are [`Figures::multiply_adds`](crate::summary::Figures::multiply_adds), of products and convolutions
//! alone; FLOPs are two for each of them, and one for each element of anything else.
//!
//! It is a module of this crate and not one of its own because all that it needs is here or below, the summary, the table, escaping,
//! the report that shows its picture, and all that is above it, the command and the run, knows this crate anyway.
//!
//! Invariant: a model is as it was before it was analysed: parameters, running statistics, the generator's state.
mod bottleneck;
#[cfg(feature = "profiling")]
mod measure;
mod memory;
mod picture;
mod table;

pub use bottleneck::{Bottleneck, Remedy};
pub use memory::{Alive, Holds, MemoryRow, ModelMemory, Peak};
pub(crate) use picture::mermaid_text;
pub use picture::{ArchitecturePicture, PictureNode};

use crate::summary::{Looked, Row, Summary, look};
#[cfg(feature = "profiling")]
use adamant_core::Tensor;
use adamant_core::{DType, Result};
use adamant_nn::Module;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// What a device can do at most, as its own kernels show: the roofline of Williams, Waterman and Patterson (2009), and the time that
/// the smallest kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// floating-point operations in a second, in 10⁹, of a large product
    pub gflops: f64,
    /// bytes in a second, in 10⁹, of an element-wise function over more than the caches hold
    pub gbytes: f64,
    /// a kernel of one element
    #[serde(rename = "launch_us", serialize_with = "microseconds")]
    pub launch: Duration,
}
impl Roof {
    /// The intensity, in FLOPs for each byte, from which arithmetic takes longer than memory.
    pub fn ridge(&self) -> f64 {
        self.gflops / self.gbytes
    }
    /// The least time for so much work, launches apart.
    pub fn least(&self, flops: u64, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(self.seconds(flops, bytes)).unwrap_or_default()
    }
    /// The same to less than a nanosecond.
    pub(crate) fn seconds(&self, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / self.gflops).max(bytes as f64 / self.gbytes) * 1e-9
    }
    /// What holds a layer up. Launches do where the smallest kernels would take half of its time; else its intensity decides.
    pub fn bound(&self, flops: u64, bytes: u64, times: &LayerTimes) -> LayerBound {
        if times.kernels == 0 {
            LayerBound::Nothing
        } else if self.launch.saturating_mul(2).saturating_mul(times.kernels) >= times.time {
            LayerBound::Overhead
        } else if flops as f64 >= self.ridge() * bytes as f64 {
            LayerBound::Compute
        } else {
            LayerBound::Memory
        }
    }
}
/// What holds a layer up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum LayerBound {
    /// no kernel ran in it, or nothing was measured
    #[default]
    Nothing,
    /// arithmetic: its intensity is above the ridge
    Compute,
    /// moving bytes: its intensity is below the ridge
    Memory,
    /// launches: its kernels are so small that starting them takes half of the time or more
    Overhead,
}
impl LayerBound {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            LayerBound::Nothing => "nothing",
            LayerBound::Compute => "compute",
            LayerBound::Memory => "memory",
            LayerBound::Overhead => "overhead",
        }
    }
}
/// What was measured of a layer in one forward pass: the mean over the fastest passes.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct LayerTimes {
    /// Its kernels. One that has ops of several layers in it is shared out by what the ops cost.
    #[serde(rename = "time_us", serialize_with = "microseconds")]
    pub time: Duration,
    /// kernels that have an op of it
    pub kernels: u32,
}
/// What was measured of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForwardTimes {
    /// the pass by the clock while nobody looks on: the mean of the fastest passes
    #[serde(rename = "forward_us", serialize_with = "microseconds")]
    pub forward: Duration,
    /// with the profiler at work, in turn with the others: the mean of the fastest passes
    #[serde(rename = "profiled_us", serialize_with = "microseconds")]
    pub profiled: Duration,
    /// the part of [`ForwardTimes::profiled`] that no layer's kernel has: recording, planning, handing over, ops of no layer
    #[serde(rename = "between_us", serialize_with = "microseconds")]
    pub between: Duration,
    /// the most bytes of tensors at once during a pass, with the parameters
    pub peak_bytes: u64,
    /// passes of each sort
    pub passes: usize,
}
/// A layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerAnalysis {
    /// its place, shapes, parameters and figures
    #[serde(flatten)]
    pub row: Row,
    /// FLOPs for each byte moved
    pub intensity: f64,
    /// shape of its first parameter of two axes or more
    pub weight: Option<Vec<usize>>,
    /// what was measured
    #[serde(flatten)]
    pub times: Option<LayerTimes>,
    /// what holds it up
    pub bound: LayerBound,
    /// bytes of 32-bit floats among those moved
    #[serde(skip)]
    pub(crate) f32_bytes: u64,
    /// the kind of the layer whose result it reads, where nobody else reads that
    #[serde(skip)]
    pub(crate) follows: Option<String>,
}
/// All that is known of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// the totals; its rows are those of [`Analysis::layers`]
    #[serde(skip)]
    pub summary: Summary,
    /// the layers, in the order of the model
    pub layers: Vec<LayerAnalysis>,
    /// what was measured of the whole
    pub timing: Option<ForwardTimes>,
    /// what the device can do
    pub roof: Option<Roof>,
    /// where the memory goes
    pub memory: ModelMemory,
    /// the architecture
    pub picture: ArchitecturePicture,
    /// Are batch statistics computed?
    pub training: bool,
}
impl Analysis {
    /// The times of all layers together.
    pub fn layer_time(&self) -> Duration {
        self.layers.iter().filter_map(|l| l.times).map(|t| t.time).sum()
    }
    /// How far the times of the layers, with what lies between their kernels, are from the forward pass that nobody looked at:
    /// 0.01 is one hundredth more. `None` if nothing was measured.
    pub fn excess(&self) -> Option<f64> {
        let timing = self.timing.as_ref()?;
        Some((self.layer_time() + timing.between).as_secs_f64() / timing.forward.as_secs_f64().max(1e-12) - 1.0)
    }
    pub(crate) fn of(looked: &Looked, training: bool) -> Analysis {
        let summary = looked.summary.clone();
        let f32_bytes = f32_bytes(looked);
        let weight = |path: &str| {
            let inside = |name: &str| name.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('.'));
            looked.leaves.iter().filter(|(name, _)| inside(name)).map(|(_, p)| p.meta().shape).find(|s| s.rank() >= 2).map(|s| s.to_vec())
        };
        let picture = ArchitecturePicture::of(looked);
        let layers = summary.rows.iter().zip(f32_bytes).enumerate().map(|(k, (row, f32_bytes))| LayerAnalysis {
            intensity: row.figures.intensity(),
            weight: weight(&row.path),
            row: row.clone(),
            times: None,
            bound: LayerBound::Nothing,
            f32_bytes,
            follows: picture.only_source(k).map(str::to_string),
        });
        Analysis { layers: layers.collect(), memory: ModelMemory::of(looked), summary, timing: None, roof: None, picture, training }
    }
}
/// By row: the bytes of 32-bit floats among those that its ops move.
fn f32_bytes(looked: &Looked) -> Vec<u64> {
    let mut all = vec![0; looked.summary.rows.len()];
    for (node, &owner) in looked.graph.nodes.iter().zip(&looked.owners).filter(|(n, _)| !n.op.is_view()) {
        let values = node.inputs.iter().copied().chain(node.outputs.clone());
        all[owner] += values.filter(|&v| looked.graph.values[v as usize].dtype == DType::F32).map(|v| looked.bytes(v)).sum::<u64>();
    }
    all
}

/// Analyses models.
///
/// ```
/// # use adamant_core::DType;
/// # use adamant_nn::{Linear, Relu, Sequential};
/// use adamant_train::analysis::ModelAnalyzer;
/// # adamant_core::Device::reference().make_current();
/// let net = Sequential::new().add(Linear::new(4, 8)?).add(Relu::new()).add(Linear::new(8, 2)?);
/// let analysis = ModelAnalyzer::new().describe(&net, &[16, 4], DType::F32)?;
/// assert_eq!(analysis.summary.parameters, 58);
/// assert_eq!(analysis.layers[0].row.figures.multiply_adds, 16 * 4 * 8);
/// assert_eq!(analysis.memory.inference.bytes, 4 * (58 + 16 * (4 + 8 + 8)));
/// assert!(analysis.picture.mermaid().starts_with("flowchart TB"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "profiling"), allow(dead_code))]
pub struct ModelAnalyzer {
    warm_up: usize,
    passes: Option<usize>,
    roof: Option<Roof>,
}
impl Default for ModelAnalyzer {
    fn default() -> ModelAnalyzer {
        ModelAnalyzer { warm_up: 3, passes: None, roof: None }
    }
}
impl ModelAnalyzer {
    /// Three passes that are not counted, then nine of each sort, or more of short ones, up to about a second; the device's roof
    /// is measured once in a process.
    pub fn new() -> ModelAnalyzer {
        ModelAnalyzer::default()
    }
    /// How many forward passes of each sort are timed; at least one.
    #[must_use]
    pub fn passes(self, passes: usize) -> ModelAnalyzer {
        ModelAnalyzer { passes: Some(passes.max(1)), ..self }
    }
    /// How many passes come before them.
    #[must_use]
    pub fn warm_up(self, warm_up: usize) -> ModelAnalyzer {
        ModelAnalyzer { warm_up, ..self }
    }
    /// A roof that is known, in place of one that is measured.
    #[must_use]
    pub fn roof(self, roof: Roof) -> ModelAnalyzer {
        ModelAnalyzer { roof: Some(roof), ..self }
    }
    /// Looks at a model in its present mode (training or evaluation) for an input of a shape (with the batch) and dtype. Nothing runs.
    ///
    /// # Errors
    /// A shape that the model does not take, with the layer; a model that reads data in its forward pass.
    #[track_caller]
    pub fn describe(&self, model: &dyn Module, input: &[usize], dtype: DType) -> Result<Analysis> {
        Ok(Analysis::of(&look(model, input, dtype)?, model.is_training()))
    }
    /// Looks at a model in its present mode and times it for an input: passes by the clock alone and passes under the profiler, in turn,
    /// without gradients. Running statistics and the generator are put back afterwards.
    ///
    /// # Errors
    /// As [`ModelAnalyzer::describe`]; a profiler that is running already; what the forward pass fails with, which names the layer.
    #[cfg(feature = "profiling")]
    #[track_caller]
    pub fn analyze(&self, model: &dyn Module, input: &Tensor) -> Result<Analysis> {
        measure::analyze(self, model, input)
    }
}
fn microseconds<S: Serializer>(time: &Duration, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64() * 1e6)
}
