//! What `nn`, `optim`, `metrics` and `distributions` export must stand in the tables of wrong calls.
use std::{collections::BTreeSet, path::Path};

/// Names that are no layer, loss, optimizer, metric or distribution, and those that refuse nothing.
const ELSE: &str = "Module Walk Walker Visit Site Role Param ParameterDict ModuleDict RngState Criterion Masks Activation RnnNonlinearity Sequential Identity \
    AdaptiveAvgPool AdaptiveMaxPool AvgPool BatchNorm Conv ConvTranspose InstanceNorm MaxPool \
    Relu6 LeakyRelu Elu Selu Gelu Silu Mish Sigmoid LogSigmoid Tanh Tanhshrink Softsign Softplus Hardtanh Hardsigmoid Hardswish Hardshrink Softshrink \
    Threshold RRelu \
    Boxed CacheStep CacheStorage Copies FoldedNorm Hooked InputCodes KeyValueCache LoadReport \
    PackedParam PackedSequence PaddingSide ParameterStats ShapeDifference SiteCall Submodule FractionalMaxPool LpPool MaxUnpool \
    AdjustLr LineSearch SwappedState ClipNorm \
    Hyperparameters Optimizer UpdateRule Updater Group Rates GradientMeasure ParameterPieces Slots Scalars Clipped \
    Classification Averaging Metric MetricState ConfusionShares KappaWeights OutputAveraging \
    Distribution Family PointFunction Statistic Constraint Parameters";

/// The types that a crate's root exports: capitalised words of `pub use`.
fn types(root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in root.split("pub use ").skip(1) {
        let names = part.split(';').next().unwrap_or_default();
        found.extend(names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.starts_with(char::is_uppercase)).map(String::from));
    }
    found
}
fn absent(root: &str, tables: &str) -> Vec<String> {
    let known: BTreeSet<&str> = tables.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let other: BTreeSet<&str> = ELSE.split_whitespace().collect();
    types(root).into_iter().filter(|t| !t.ends_with("Options") && !known.contains(&**t) && !other.contains(&**t)).collect()
}
pub fn missing() -> Vec<String> {
    let tables = [include_str!("layers.rs"), include_str!("learning.rs"), include_str!("around.rs")].concat();
    let mut lines = Vec::new();
    for name in ["nn", "optim", "metrics", "distributions"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src/lib.rs");
        let root = std::fs::read_to_string(root).unwrap_or_default();
        lines.extend(absent(&root, &tables).into_iter().map(|t| format!("no wrong call: adamant::{name}::{t}")));
    }
    lines
}
#[test]
fn a_type_that_no_table_names() {
    let root = "pub use planted::{Planted, PlantedOptions, planted};\npub use linear::Linear;";
    assert_eq!(absent(root, "Linear::new(3, 4)"), ["Planted"]);
}
