//! What each kind of schedule must be told in a description: one list, so that a new kind is in every test that goes through all.

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
