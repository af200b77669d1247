//! What is quantized, and how: layers by kind and path, each with a packing of its weight and what becomes of its input.
use crate::{method::WeightMethod, observe::Observation, select::unknown};
use adamant_core::{DType, Result, composite::packed::Packing};
use adamant_nn::{InputCodes, glob_matches};
use std::fmt;

/// Kinds of layers whose weights can be codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LayerKind {
    /// [`adamant_nn::Linear`]
    Linear,
    /// [`adamant_nn::Lstm`] and [`adamant_nn::LstmCell`]
    Lstm,
    /// [`adamant_nn::Gru`] and [`adamant_nn::GruCell`]
    Gru,
    /// [`adamant_nn::Rnn`] and [`adamant_nn::RnnCell`]
    Rnn,
    /// [`adamant_nn::MultiheadAttention`]: the projections of its inputs
    Attention,
    /// [`adamant_nn::Embedding`]: codes are read as numbers
    Embedding,
    /// [`adamant_nn::Conv1d`], [`adamant_nn::Conv2d`], [`adamant_nn::Conv3d`]
    Conv,
}
impl LayerKind {
    /// All of them.
    pub const ALL: [LayerKind; 7] =
        [LayerKind::Linear, LayerKind::Lstm, LayerKind::Gru, LayerKind::Rnn, LayerKind::Attention, LayerKind::Embedding, LayerKind::Conv];

    /// The kind of a layer of that name.
    pub fn of(layer: &str) -> Option<LayerKind> {
        Some(match layer {
            "Linear" => LayerKind::Linear,
            "LSTM" | "LSTMCell" => LayerKind::Lstm,
            "GRU" | "GRUCell" => LayerKind::Gru,
            "RNN" | "RNNCell" => LayerKind::Rnn,
            "MultiheadAttention" => LayerKind::Attention,
            "Embedding" => LayerKind::Embedding,
            "Conv1d" | "Conv2d" | "Conv3d" => LayerKind::Conv,
            _ => return None,
        })
    }
    /// Does it multiply integers where its input is codes too?
    pub fn multiplies_codes(self) -> bool {
        self != LayerKind::Embedding
    }
    /// Is its input seen by hooks, so that it can be calibrated? The states of recurrent layers and the three inputs of attention
    /// are not.
    pub fn can_be_calibrated(self) -> bool {
        matches!(self, LayerKind::Linear | LayerKind::Conv)
    }
    /// Is a parameter of that name one of its weights?
    pub(crate) fn is_weight(self, name: &str) -> bool {
        match self {
            LayerKind::Linear | LayerKind::Embedding | LayerKind::Conv => name == "weight",
            LayerKind::Lstm | LayerKind::Gru | LayerKind::Rnn => name.starts_with("weight_"),
            LayerKind::Attention => name.ends_with("_proj_weight"),
        }
    }
}
impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What becomes of a layer's input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InputScheme {
    /// it stays what it is
    Float,
    /// each row becomes codes by its own values
    PerToken {
        /// signed about 0, or unsigned over the row's range
        symmetric: bool,
    },
    /// all of it becomes codes by one scale, which calibration finds
    Calibrated(Observation),
}
impl InputScheme {
    pub(crate) fn without_calibration(self) -> Option<InputCodes> {
        match self {
            InputScheme::Float => Some(InputCodes::Float),
            InputScheme::PerToken { symmetric } => Some(InputCodes::PerToken { symmetric }),
            InputScheme::Calibrated(_) => None,
        }
    }
}

/// How one layer is quantized.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerScheme {
    /// of its weights
    pub packing: Packing,
    /// the dtype of the weights' scales: f32, or f16 (4 bits in groups of 32 are 4.5 bits a weight with f16, 5 with f32)
    pub scales: DType,
    /// of its input
    pub input: InputScheme,
}
impl LayerScheme {
    /// 8-bit weights with a scale for each row, and inputs.
    pub fn int8(input: InputScheme) -> LayerScheme {
        LayerScheme { input, ..LayerScheme::weights(8) }
    }
    /// Weights of so many bits (8, 4 or 3) and inputs that stay what they are.
    pub fn weights(bits: u32) -> LayerScheme {
        LayerScheme { packing: Packing { bits, group: None, symmetric: true }, scales: DType::F32, input: InputScheme::Float }
    }
    /// What the layer can do of it: one that multiplies no codes keeps its input as it is.
    pub(crate) fn of_kind(self, kind: LayerKind) -> LayerScheme {
        match self.input {
            InputScheme::Calibrated(_) if kind.multiplies_codes() && !kind.can_be_calibrated() => {
                LayerScheme { input: InputScheme::PerToken { symmetric: false }, ..self }
            }
            _ if kind.multiplies_codes() => self,
            _ => LayerScheme { input: InputScheme::Float, ..self },
        }
    }
}

/// Which layers of a model are quantized, and how.
///
/// ```
/// # use adamant_quant::{InputScheme, LayerKind, LayerScheme, QuantizationConfig};
/// let config = QuantizationConfig::int8_dynamic().kinds(&[LayerKind::Linear]).skip("head*").group(Some(32));
/// assert!(config.scheme_of("blocks.0.up", LayerKind::Linear).is_some());
/// assert!(config.scheme_of("head", LayerKind::Linear).is_none());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizationConfig {
    kinds: Vec<LayerKind>,
    scheme: LayerScheme,
    skipped: Vec<String>,
    own: Vec<(String, LayerScheme)>,
    method: WeightMethod,
    fuse: bool,
    only_faster: bool,
}
impl QuantizationConfig {
    /// 8-bit weights, and inputs by one scale that calibration finds: where there is none, or a layer's input cannot be seen, by
    /// each row's own.
    pub fn int8() -> QuantizationConfig {
        QuantizationConfig::with(LayerScheme::int8(InputScheme::Calibrated(Observation::default())))
    }
    /// 8-bit weights, and inputs by each row's own scale.
    pub fn int8_dynamic() -> QuantizationConfig {
        QuantizationConfig::with(LayerScheme::int8(InputScheme::PerToken { symmetric: false }))
    }
    /// Weights alone, of 8, 4 or 3 bits.
    pub fn weights(bits: u32) -> QuantizationConfig {
        QuantizationConfig::with(LayerScheme::weights(bits))
    }
    /// Their names, as [`QuantizationConfig::named`] takes them.
    pub const NAMES: [&'static str; 6] = ["int8-static", "int8-dynamic", "w8", "w4", "w3", "nf4"];

    /// The configuration of a name: `int8-static` ([`QuantizationConfig::int8`]), `int8-dynamic`, or `w8`, `w4`, `w3` for weights
    /// alone, `nf4` for those by 16 levels in groups of 64 ([`WeightMethod::NormalFloat`]).
    ///
    /// # Errors
    /// Another name; the nearest is named.
    #[track_caller]
    pub fn named(name: &str) -> Result<QuantizationConfig> {
        Ok(match name {
            "int8-static" => QuantizationConfig::int8(),
            "int8-dynamic" => QuantizationConfig::int8_dynamic(),
            "w8" => QuantizationConfig::weights(8),
            "w4" => QuantizationConfig::weights(4),
            "w3" => QuantizationConfig::weights(3),
            "nf4" => QuantizationConfig::weights(4).group(Some(64)).method(WeightMethod::NormalFloat),
            _ => return Err(unknown("scheme", name, &QuantizationConfig::NAMES)),
        })
    }
    /// Every layer by one scheme.
    pub fn with(scheme: LayerScheme) -> QuantizationConfig {
        QuantizationConfig {
            kinds: LayerKind::ALL.to_vec(),
            scheme,
            skipped: Vec::new(),
            own: Vec::new(),
            method: WeightMethod::Round,
            fuse: false,
            only_faster: false,
        }
    }
    /// Layers of these kinds only.
    #[must_use]
    pub fn kinds(mut self, kinds: &[LayerKind]) -> QuantizationConfig {
        self.kinds = kinds.to_vec();
        self
    }
    /// Layers whose path a pattern of `*` and `?` matches stay what they are.
    #[must_use]
    pub fn skip(mut self, pattern: impl Into<String>) -> QuantizationConfig {
        self.skipped.push(pattern.into());
        self
    }
    /// Layers whose path a pattern matches have a scheme of their own. The last one that matches holds.
    #[must_use]
    pub fn layers(mut self, pattern: impl Into<String>, scheme: LayerScheme) -> QuantizationConfig {
        self.own.push((pattern.into(), scheme));
        self
    }
    /// Weights of so many bits: 8, 4 or 3.
    #[must_use]
    pub fn bits(mut self, bits: u32) -> QuantizationConfig {
        self.scheme.packing.bits = bits;
        self
    }
    /// So many columns of a row share a scale; `None`: all.
    #[must_use]
    pub fn group(mut self, group: Option<usize>) -> QuantizationConfig {
        self.scheme.packing.group = group;
        self
    }
    /// Weights about 0, or with zero points.
    #[must_use]
    pub fn symmetric(mut self, symmetric: bool) -> QuantizationConfig {
        self.scheme.packing.symmetric = symmetric;
        self
    }
    /// Scales of the weights in f32, or in f16: codes are found by the scale that is stored, rounded. A scale that f16 does not
    /// hold is an error with the layer.
    #[must_use]
    pub fn scales(mut self, dtype: DType) -> QuantizationConfig {
        self.scheme.scales = dtype;
        self
    }
    /// How the codes of weights are found: rounded, unless this says otherwise.
    #[must_use]
    pub fn method(mut self, method: WeightMethod) -> QuantizationConfig {
        self.method = method;
        self
    }
    /// How the codes of weights are found.
    pub fn weight_method(&self) -> WeightMethod {
        self.method
    }
    /// Are batch norms folded into the layers before them first ([`crate::fuse_modules_on`]), on the first batch of the calibration data?
    /// They are not, unless this says so: the model's state dict has other names then. A layer that does a norm's part is rounded
    /// with it, and what lies between it and a ReLU is no norm's floats.
    #[must_use]
    pub fn fuse(mut self, fuse: bool) -> QuantizationConfig {
        self.fuse = fuse;
        self
    }
    /// Are batch norms folded first?
    pub fn fuses(&self) -> bool {
        self.fuse
    }
    /// Do layers that take no less time as codes stay what they are? Each is timed on the calibration data, at their batch size and on
    /// this machine, once: what was found is part of the model from then on. (A hook must see the layer: attention and recurrent layers
    /// are seen, an embedding that is tied to another layer goes with that.)
    #[must_use]
    pub fn only_faster(mut self, only_faster: bool) -> QuantizationConfig {
        self.only_faster = only_faster;
        self
    }
    /// Do layers that are no faster as codes stay what they are?
    pub fn keeps_only_faster(&self) -> bool {
        self.only_faster
    }
    /// How a layer is quantized, if it is.
    pub fn scheme_of(&self, path: &str, kind: LayerKind) -> Option<LayerScheme> {
        let own = self.own.iter().rev().find(|(pattern, _)| glob_matches(pattern, path)).map(|(_, scheme)| *scheme);
        if own.is_none() && (!self.kinds.contains(&kind) || self.skipped.iter().any(|pattern| glob_matches(pattern, path))) {
            return None;
        }
        Some(own.unwrap_or(self.scheme).of_kind(kind))
    }
    /// The patterns that must match some layer.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.skipped.iter().chain(self.own.iter().map(|(pattern, _)| pattern)).map(String::as_str)
    }
}
