//! What each kind of schedule must be told in a description: one list, so that a new kind is in every test that goes through all.

use adamant_optim::ClippingType;
use adamant_train::{OPTIMIZERS, SCHEDULES};

/// The options, with the largest rate of those that rise to one. Kinds without an option of their own have none.
pub fn options(kind: &str, max_lr: f64) -> String {
    match kind {
        "StepLR" => "step_size = 4".into(),
        "MultiStepLR" => "milestones = [3, 8]".into(),
        "ExponentialLR" => "gamma = 0.9".into(),
        "CosineAnnealingWarmRestarts" => "T_0 = 5".into(),
        "OneCycleLR" => format!("max_lr = {max_lr}"),
        "CyclicLR" => format!("base_lr = 0.01\nmax_lr = {max_lr}\nstep_size_up = 4"),
        "SWALR" => "swa_lr = 0.02\nanneal_epochs = 5".into(),
        "SequentialLR" => format!("milestones = [4]\nschedulers = [{{ kind = \"LinearLR\" }}, {{ kind = \"OneCycleLR\", max_lr = {max_lr} }}]"),
        "ChainedScheduler" => {
            format!("schedulers = [{{ kind = \"CyclicLR\", base_lr = 0.01, max_lr = {max_lr}, step_size_up = 3 }}, {{ kind = \"ConstantLR\" }}]")
        }
        _ => String::new(),
    }
}
#[allow(dead_code, reason = "not every test draws whole runs")]
fn schedule(kind: &str) -> String {
    if kind == "ReduceLROnPlateau" { "patience = 0\nfactor = 0.5".into() } else { options(kind, 0.03) }
}
/// Run number `k` of those that go through all optimizers, schedules and habits, each with others.
#[allow(dead_code, reason = "not every test draws whole runs")]
pub fn drawn_run(k: usize) -> String {
    let pick = |n: usize, step: usize| (k * step + k / n) % n;
    let (optimizer, kind) = (OPTIMIZERS[k % OPTIMIZERS.len()], SCHEDULES[pick(SCHEDULES.len(), 5)]);
    // Every kind of clipping, with numbers that limit something in so few steps.
    let clip = match ClippingType::ALL.get(pick(ClippingType::ALL.len() + 1, 1)) {
        None => String::new(),
        Some(ClippingType::Value) => "clip = { kind = \"value\", max = 0.02 }".into(),
        Some(kind @ (ClippingType::Norm | ClippingType::GlobalNorm)) => format!("clip = {{ kind = \"{kind}\", max_norm = 0.5 }}"),
        Some(ClippingType::Adaptive) => "clip = { kind = \"adaptive\", adaptive_factor = 0.8 }".into(),
        Some(ClippingType::LayerWise) => "clip = { kind = \"layer_wise\", layer_norm_thresholds = [{ layers = \"head\", max_norm = 0.1 }] }".into(),
        Some(ClippingType::ZClip) => "clip = { kind = \"zclip\", z_warm_up = 3, z_threshold = 0.5 }".into(),
        Some(kind) => format!("clip = {{ kind = \"{kind}\" }}"),
    };
    let (ema, accumulate) = (["", "[ema]\ndecay = 0.9\n"][pick(2, 1)], [1, 2, 3][pick(3, 2)]);
    let mut layers = vec!["{ kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }"];
    layers.extend(["", "{ kind = \"BatchNorm1d\", num_features = 8 }"].get(pick(2, 3)).filter(|l| !l.is_empty()));
    layers.extend(["", "{ kind = \"Dropout\", p = 0.2 }"].get(pick(2, 1)).filter(|l| !l.is_empty()));
    layers.push("{ name = \"head\", kind = \"Linear\", in_features = 8, out_features = 12 }");
    format!(
        "seed = {k}\nepochs = 3\nbatch = 7\naccumulate = {accumulate}\nlog_every = 3\neval_every = 4\n{clip}\ncheckpoint = {{ every = 3, last = 2, best = 1 }}\n\
         [data]\nkind = \"permutation\"\nclasses = 12\nrows = 60\nvalid = 0.2\nworkers = 0\n[model]\nlayers = [\n{}\n]\n\
         [optimizer]\nkind = \"{optimizer}\"\nlr = 0.01\n[schedule]\nkind = \"{kind}\"\n{}\n{ema}",
        layers.join(",\n"),
        schedule(kind)
    )
}
