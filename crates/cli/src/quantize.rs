//! `quantize`: the model of a run with integer codes for weights, in a folder of its own.
use crate::derived::DerivedModel;
use adamant::DType;
use adamant_train::{
    Failure,
    quantized::{QuantizationConfig, QuantizePlan, WeightMethod, document, quantize},
};
use clap::{Args, ValueEnum, builder::PossibleValue};
use std::path::PathBuf;

/// Options of `quantize`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant quantize runs/mnist-1 --scheme int8-dynamic --out runs/mnist-int8\n  adamant quantize runs/chargpt-1 --scheme w4 --group 32 --method gptq --f16-scales --out runs/chargpt-w4\n  \
adamant eval runs/mnist-int8"
)]
pub struct Options {
    /// the run folder
    run: PathBuf,
    /// what becomes of weights and inputs
    #[arg(long, value_enum)]
    scheme: Scheme,
    /// how the codes of weights are found; rtn, or nf4 of that scheme, unless it is given
    #[arg(long, value_enum)]
    method: Option<MethodName>,
    /// so many columns of a row share a scale; all of a row, or 64 of nf4, unless it is given
    #[arg(long, value_name = "N")]
    group: Option<usize>,
    /// weights with zero points, instead of about 0
    #[arg(long)]
    affine: bool,
    /// scales of weights in f16, instead of f32
    #[arg(long)]
    f16_scales: bool,
    /// batch norms become part of the convolution or linear layer before them, where they can
    #[arg(long)]
    fuse: bool,
    /// layers that take no less time as codes stay what they are, as timed on the rows of --calibration
    #[arg(long)]
    only_faster: bool,
    /// layers that stay what they are, by a pattern of * and ? over their paths
    #[arg(long, value_name = "PATTERN")]
    skip: Vec<String>,
    /// rows of the training part that inputs are looked at by (int8-static, gptq, awq, --only-faster)
    #[arg(long, value_name = "N", default_value_t = 512)]
    calibration: usize,
    #[command(flatten)]
    pub derived: DerivedModel,
}
/// What becomes of weights and inputs.
#[derive(Clone, Copy, ValueEnum)]
enum Scheme {
    /// 8-bit weights, and inputs by one scale that calibration finds
    Int8Static,
    /// 8-bit weights, and inputs by each row's own scale
    Int8Dynamic,
    /// 8-bit weights alone
    W8,
    /// 4-bit weights alone
    W4,
    /// 3-bit weights alone
    W3,
    /// weights alone, by 16 levels that lie as normal numbers do
    Nf4,
}
/// How the codes of weights are found.
#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// each number to the nearest code
    Rtn,
    /// column by column, the error of each put right by the columns to come
    Gptq,
    /// columns that meet large inputs are scaled up, and ranges are clipped
    Awq,
    /// each number to the nearest of 16 levels that lie as normal numbers do
    Nf4,
}
/// The name by which the library knows a value.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().as_ref().map(PossibleValue::get_name).unwrap_or_default().into()
}
pub fn run(o: &Options) -> Result<(), Failure> {
    let usage = |e: adamant::Error| Failure::Usage(e.kind().to_string());
    let scales = if o.f16_scales { DType::F16 } else { DType::F32 };
    let mut config = QuantizationConfig::named(&name(&o.scheme)).map_err(usage)?.scales(scales).symmetric(!o.affine).fuse(o.fuse).only_faster(o.only_faster);
    if let Some(method) = &o.method {
        config = config.method(WeightMethod::named(&name(method)).map_err(usage)?);
    }
    if o.group.is_some() {
        config = config.group(o.group);
    }
    let config = o.skip.iter().fold(config, |config, pattern| config.skip(pattern));
    if o.calibration == 0 {
        return Err(Failure::Usage("--calibration takes a number from 1 on".into()));
    }
    let plan = QuantizePlan { config, rows: o.calibration };
    o.derived.make(&o.run, |out, data| quantize(&o.run, out, data, &plan), document, ToString::to_string)
}
