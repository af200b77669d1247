//! How the codes of weights are found: rounded to the nearest, or so that a layer's outputs on calibration data change least.
//!
//! What a layer's outputs lose by a change D of its weight is, over inputs X `[rows, columns]`, the sum of the squares of `X Dᵀ`,
//! which the Hessian `2 XᵀX` alone tells. GPTQ and AWQ gather it for one set of layers with a common input at a time, in the order
//! in which the model runs them, from inputs that have passed the layers quantized before.
use crate::select::unknown;
use adamant_core::{Error, ErrorKind, Result};

mod awq;
mod candidate;
mod fold;
mod gptq;
mod inputs;
mod sequence;

pub(crate) use candidate::{normal_floats, rounded};
pub(crate) use inputs::{Hooks, Run, device_of_f64, locked};
pub(crate) use sequence::quantize_in_order;

/// How the codes of weights are found.
///
/// ```
/// # use adamant_nn::{Linear, Module, Relu, Sequential};
/// # use adamant_quant::{GptqOptions, QuantizationConfig, WeightMethod, quantize_model};
/// # use adamant_backend_cpu as _;
/// let net = Sequential::new().add(Linear::new(32, 64)?).add(Relu::new()).add(Linear::new(64, 10)?);
/// let calibration = adamant_nn::init::normal([256, 32], 0.0, 1.0)?;
/// let config = QuantizationConfig::weights(4).group(Some(32)).method(WeightMethod::Gptq(GptqOptions::default()));
/// let report = quantize_model(&net, &config, &[calibration])?;
/// assert!(report.to_string().contains("gptq"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum WeightMethod {
    /// each number to the nearest code; no data are needed
    #[default]
    Round,
    /// column by column, the error of each put right by the columns to come
    Gptq(GptqOptions),
    /// columns that meet large inputs are scaled up before they are rounded, and ranges are clipped
    Awq(AwqOptions),
    /// NF4: each number to the nearest of 16 levels that lie as densely as normal numbers do, about a group's largest (Dettmers et al. 2023,
    /// "QLoRA: Efficient Finetuning of Quantized LLMs"). Of 4 bits and inputs that stay what they are; no data are needed
    NormalFloat,
}
impl WeightMethod {
    /// Their names, as [`WeightMethod::named`] takes them.
    pub const NAMES: [&'static str; 4] = ["rtn", "gptq", "awq", "nf4"];

    /// The method of a name, with its default options: `rtn` (round to nearest), `gptq`, `awq` or `nf4`.
    ///
    /// # Errors
    /// Another name; the nearest is named.
    #[track_caller]
    pub fn named(name: &str) -> Result<WeightMethod> {
        Ok(match name {
            "rtn" => WeightMethod::Round,
            "gptq" => WeightMethod::Gptq(GptqOptions::default()),
            "awq" => WeightMethod::Awq(AwqOptions::default()),
            "nf4" => WeightMethod::NormalFloat,
            _ => return Err(unknown("method", name, &WeightMethod::NAMES)),
        })
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WeightMethod::Round => "rtn",
            WeightMethod::Gptq(_) => "gptq",
            WeightMethod::Awq(_) => "awq",
            WeightMethod::NormalFloat => "nf4",
        }
    }
    #[track_caller]
    pub(crate) fn check(self, op: &'static str) -> Result<()> {
        let refused = match self {
            WeightMethod::Gptq(GptqOptions { damping, .. }) if !(damping.is_finite() && damping >= 0.0) => {
                format!("the damping of GPTQ is a share of the Hessian's mean diagonal, from 0 on, not {damping}")
            }
            WeightMethod::Gptq(GptqOptions { block: 0, .. }) => "a block of GPTQ has one column or more, not 0".into(),
            WeightMethod::Awq(AwqOptions { grid: 0, .. }) => "the grid of AWQ has one exponent or more, not 0".into(),
            _ => return Ok(()),
        };
        Err(Error::new(op, ErrorKind::Argument(refused)))
    }
}

/// Options of GPTQ (Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers").
///
/// A group's scale is computed when its first column is reached, from the weights as they are by then. With `act_order` the columns
/// are no neighbours in their order of work, so the scales of all groups are computed before the first column (static groups).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GptqOptions {
    /// what is added to the Hessian's diagonal, as a share of its mean: 0.01. Where the sum has no Cholesky factor, ten times as
    /// much is tried, and so on
    pub damping: f64,
    /// so many columns are worked on before the others are updated, by one product of matrices: 128. It changes no code, up to the
    /// rounding of sums
    pub block: usize,
    /// columns of large inputs first?
    pub act_order: bool,
    /// are narrower ranges of a group's values tried too, down to half? Each row has the codes that lose less of its outputs.
    pub clip: bool,
}
impl Default for GptqOptions {
    fn default() -> GptqOptions {
        GptqOptions { damping: 0.01, block: 128, act_order: false, clip: true }
    }
}
/// Options of AWQ (Lin et al. 2023, "AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration").
///
/// Column i of a weight is multiplied by a power of the mean `|x_i|` of its inputs, and the norm before the layer divided by it, so
/// that the model computes the same. Exponents from 0 (no scales) to below 1 are tried; the one whose codes change the layer's
/// outputs on the calibration data least is taken. A layer that is not known to be the only reader of a norm has no scales.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AwqOptions {
    /// how many exponents are tried, 0 among them: 20
    pub grid: usize,
    /// are narrower ranges of a group's values tried too, down to half?
    pub clip: bool,
}
impl Default for AwqOptions {
    fn default() -> AwqOptions {
        AwqOptions { grid: 20, clip: true }
    }
}
