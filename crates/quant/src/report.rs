//! What became of each layer of a model.
use adamant_core::{DType, composite::packed::Packing};
use adamant_nn::InputCodes;
use std::fmt;

/// How the codes of a layer's weights were found.
#[derive(Clone, PartialEq, Debug)]
pub struct MethodReport {
    /// `rtn`, `gptq`, `awq` or `nf4`
    pub name: &'static str,
    /// the squared error of its outputs on the calibration data, as a part of that of weights rounded to the nearest codes; `None`:
    /// rounding had none, or these are those
    pub relative_error: Option<f64>,
    /// what was done beside, or why this method and not the one asked for
    pub note: Option<String>,
}
impl MethodReport {
    pub(crate) fn rounded(note: Option<&str>) -> MethodReport {
        MethodReport { name: "rtn", relative_error: None, note: note.map(str::to_string) }
    }
}
impl fmt::Display for MethodReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(error) = self.relative_error {
            write!(f, " (error {error:.3} of rounding's)")?;
        }
        self.note.as_ref().map_or(Ok(()), |note| write!(f, " ({note})"))
    }
}
/// What became of a layer.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// its weights are codes
    Quantized {
        /// how codes stand for numbers
        packing: Packing,
        /// the dtype of its weights' scales
        scales: DType,
        /// how its codes were found
        method: MethodReport,
        /// what becomes of its input
        input: InputCodes,
        /// of its weights, in decibels: ten times the logarithm of the sum of their squares over that of the errors'
        signal_to_noise: f64,
        /// bytes of its weights before
        before: usize,
        /// bytes that hold them now
        after: usize,
    },
    /// its weight is another layer's, which has it as codes
    Tied(String),
    /// it stays what it was, and why
    Left(String),
}
/// A layer, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerReport {
    /// its path
    pub path: String,
    /// the name of its kind
    pub layer: &'static str,
    /// what became of it
    pub outcome: Outcome,
}
/// What became of the layers of a model that codes are known for, by path.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizationReport {
    /// the layers
    pub layers: Vec<LayerReport>,
    /// bytes of the model before, buffers and all
    pub before: usize,
    /// bytes of the model now
    pub after: usize,
    /// what became of its batch norms, where [`crate::QuantizationConfig::fuse`] asked for it
    pub fused: Option<FuseReport>,
}
/// What became of a batch norm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NormOutcome {
    /// a layer does its part, and it is gone
    Folded {
        /// the path of the layer
        layer: String,
    },
    /// it stays what it was, and why
    Left(String),
}
/// A batch norm, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NormReport {
    /// its path
    pub path: String,
    /// the name of its kind
    pub norm: &'static str,
    /// what became of it
    pub outcome: NormOutcome,
}
/// What became of the batch norms of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FuseReport {
    /// the norms, in the order of the model's fields or of the lists
    pub norms: Vec<NormReport>,
    /// bytes of the model before, buffers and all
    pub before: usize,
    /// bytes of the model now
    pub after: usize,
}
impl FuseReport {
    /// The norms that are gone.
    pub fn folded(&self) -> impl Iterator<Item = &NormReport> {
        self.norms.iter().filter(|n| matches!(n.outcome, NormOutcome::Folded { .. }))
    }
}
impl fmt::Display for FuseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.norms.iter().map(|n| n.path.chars().count()).max().unwrap_or(0);
        for NormReport { path, norm, outcome } in &self.norms {
            match outcome {
                NormOutcome::Folded { layer } => writeln!(f, "{path:width$}  {norm:11}  folded into `{layer}`")?,
                NormOutcome::Left(why) => writeln!(f, "{path:width$}  {norm:11}  {why}")?,
            }
        }
        write!(f, "{} of {} norms folded, {} -> {} bytes", self.folded().count(), self.norms.len(), self.before, self.after)
    }
}
impl QuantizationReport {
    /// How many times smaller the model has become.
    pub fn ratio(&self) -> f64 {
        self.before as f64 / self.after.max(1) as f64
    }
    /// The layers whose weights are codes now.
    pub fn quantized(&self) -> impl Iterator<Item = &LayerReport> {
        self.layers.iter().filter(|l| matches!(l.outcome, Outcome::Quantized { .. }))
    }
}
impl fmt::Display for QuantizationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fused) = &self.fused {
            writeln!(f, "{fused}")?;
        }
        let width = self.layers.iter().map(|l| l.path.chars().count()).max().unwrap_or(0);
        for LayerReport { path, layer, outcome } in &self.layers {
            write!(f, "{path:width$}  {layer:9}  ")?;
            match outcome {
                Outcome::Quantized { packing, scales, method, input, signal_to_noise, before, after } => {
                    let group = packing.group.map_or(String::new(), |g| format!(" in groups of {g}"));
                    let input = match input {
                        InputCodes::Float => "floats",
                        InputCodes::PerToken { .. } => "codes by token",
                        InputCodes::Given { .. } => "codes by one scale",
                    };
                    let scales = if *scales == DType::F32 { String::new() } else { format!(", scales {scales}") };
                    let method = if *method == MethodReport::rounded(None) { String::new() } else { format!(", {method}") };
                    writeln!(f, "{} bits{group}{scales}{method}, inputs {input}, {signal_to_noise:.1} dB, {before} -> {after} bytes", packing.bits)?;
                }
                Outcome::Tied(why) | Outcome::Left(why) => writeln!(f, "{why}")?,
            }
        }
        write!(f, "{} -> {} bytes, {:.2} times smaller", self.before, self.after, self.ratio())
    }
}
/// The ratio of two sums of squares in decibels.
pub(crate) fn decibels(signal: f64, noise: f64) -> f64 {
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}
