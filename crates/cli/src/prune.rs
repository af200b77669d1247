//! `prune`: the model of a run with weights at zero, or with fewer channels, in a folder of its own.
use crate::derived::DerivedModel;
use adamant_train::{
    Failure,
    pruned::{PruneAmount, PruneMethod, PrunePlan, PrunedEnd, StructuredImportance, prune},
};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `prune`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant prune runs/mnist-1 --amount 0.5 --method l1 --out runs/mnist-half\n  adamant prune runs/mnist-1 --amount 0.9 --method magnitude --global --out runs/mnist-sparse\n  \
adamant prune runs/mnist-1 --pattern 2:4 --method magnitude --out runs/mnist-2of4\n  adamant eval runs/mnist-half"
)]
pub struct Options {
    /// the run folder, or one of a pruned model
    run: PathBuf,
    /// what a weight or a channel is worth: the least goes
    #[arg(long, value_enum)]
    method: PruneMethodName,
    /// the share that goes, from 0 to below 1: of the weights, or of each family of channels
    #[arg(long, value_name = "SHARE", required_unless_present = "pattern", conflicts_with = "pattern")]
    amount: Option<f64>,
    /// so many of each so many neighbours along a layer's inputs stay (magnitude, gradient)
    #[arg(long, value_name = "N:M")]
    pattern: Option<String>,
    /// the least weights of all layers together, instead of each layer's (magnitude, gradient)
    #[arg(long)]
    global: bool,
    /// rows of the training part that gradients are of (gradient, taylor)
    #[arg(long, value_name = "N", default_value_t = 256)]
    calibration: usize,
    #[command(flatten)]
    pub derived: DerivedModel,
}
/// What a weight or a channel is worth.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PruneMethodName {
    /// single weights, by their size
    Magnitude,
    /// single weights, by what the loss changes by without them
    Gradient,
    /// channels, by the sum of their filters' absolute values
    L1,
    /// channels, by the root of the sum of their filters' squares
    L2,
    /// channels, by what the loss changes by without them
    Taylor,
    /// channels, by the scale of their norms
    Norm,
}
impl Options {
    fn plan(&self) -> Result<PrunePlan, Failure> {
        let usage = |text: String| Failure::Usage(text);
        let method = match self.method {
            PruneMethodName::Magnitude => PruneMethod::Magnitude { global: self.global },
            PruneMethodName::Gradient => PruneMethod::Gradient { global: self.global },
            PruneMethodName::L1 => PruneMethod::Channels(StructuredImportance::L1),
            PruneMethodName::L2 => PruneMethod::Channels(StructuredImportance::L2),
            PruneMethodName::Taylor => PruneMethod::Channels(StructuredImportance::Taylor),
            PruneMethodName::Norm => PruneMethod::Channels(StructuredImportance::NormScale),
        };
        if matches!(method, PruneMethod::Channels(_)) && (self.global || self.pattern.is_some()) {
            return Err(usage("--global and --pattern are of single weights: --method magnitude or gradient".into()));
        }
        if self.global && self.pattern.is_some() {
            return Err(usage("--pattern holds in each layer: it does not go with --global".into()));
        }
        if self.calibration == 0 {
            return Err(usage("--calibration takes a number from 1 on".into()));
        }
        let amount = match (&self.pattern, self.amount) {
            (Some(pattern), _) => {
                let numbers = pattern.split_once(':').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
                let (n, m) = numbers.ok_or_else(|| usage(format!("--pattern takes N:M, as 2:4, not {pattern}")))?;
                PruneAmount::Keep { n, m }
            }
            (None, Some(share)) => PruneAmount::Share(share),
            (None, None) => return Err(usage("--amount says which share goes".into())),
        };
        Ok(PrunePlan { method, amount, rows: self.calibration })
    }
}
pub fn run(o: &Options) -> Result<(), Failure> {
    let plan = o.plan()?;
    o.derived.make(&o.run, |out, data| prune(&o.run, out, data, &plan), PrunedEnd::to_json, text)
}
fn text(done: &PrunedEnd) -> String {
    let report = match done {
        PrunedEnd::Weights(report) => return report.to_string(),
        PrunedEnd::Channels(report) => report,
    };
    let mut lines = Vec::new();
    for family in &report.pruned {
        let of: Vec<String> = family.parameters.iter().map(|(path, axis)| format!("{path} axis {axis}")).collect();
        lines.push(format!("{} of {} channels have left: {}", family.removed.len(), family.channels, of.join(", ")));
    }
    lines.extend(report.kept.iter().map(|kept| format!("{} axis {} stays: {}", kept.path, kept.axis, kept.reason)));
    lines.push(format!("{} of {} elements stay", report.elements_after, report.elements_before));
    lines.join("\n")
}
