//! Optimizer and schedule from their descriptions: PyTorch's kinds under PyTorch's argument names.
use crate::{Failure, config::Section};
use adamant_nn::Param;
use adamant_optim::{schedule::*, *};

/// One row for each optimizer: its name, its rule, and what it takes besides `lr`.
macro_rules! optimizers {
    ($($kind:literal $rule:ident { $($key:ident: $getter:ident),* };)*) => {
        /// The optimizer of a section, over parameters.
        ///
        /// # Errors
        /// `Usage`: an unknown kind, or a value that makes no sense.
        pub fn optimizer(s: Section<'_>, parameters: Vec<Param>) -> Result<Box<dyn Optimizer>, Failure> {
            match s.kind(&[$($kind),*])? {
                $($kind => {
                    let mut rule = match s.number("lr")? {
                        Some(lr) => $rule::new(lr),
                        None => $rule::default(),
                    };
                    $(if let Some(v) = s.$getter(stringify!($key))? {
                        rule = rule.$key(v);
                    })*
                    rule.check().map_err(|text| s.wrong(text))?;
                    s.finish()?;
                    Ok(Box::new(rule.over(parameters)))
                })*
                other => Err(s.wrong(format!("{other} cannot be built"))),
            }
        }
    };
}
optimizers! {
    "SGD" Sgd { momentum: number, dampening: number, weight_decay: number, nesterov: flag, maximize: flag };
    "Adam" Adam { betas: pair, eps: number, weight_decay: number, amsgrad: flag, maximize: flag };
    "AdamW" AdamW { betas: pair, eps: number, weight_decay: number, amsgrad: flag, maximize: flag };
    "Adamax" Adamax { betas: pair, eps: number, weight_decay: number, maximize: flag };
    "NAdam" NAdam { betas: pair, eps: number, weight_decay: number, momentum_decay: number, decoupled_weight_decay: flag, maximize: flag };
    "RAdam" RAdam { betas: pair, eps: number, weight_decay: number, decoupled_weight_decay: flag, maximize: flag };
    "RMSprop" RmsProp { alpha: number, eps: number, weight_decay: number, momentum: number, centered: flag, maximize: flag };
    "Rprop" Rprop { etas: pair, step_sizes: pair, maximize: flag };
    "ASGD" Asgd { lambd: number, alpha: number, t0: number, weight_decay: number, maximize: flag };
    "Adagrad" Adagrad { lr_decay: number, weight_decay: number, initial_accumulator_value: number, eps: number, maximize: flag };
    "Adadelta" Adadelta { rho: number, eps: number, weight_decay: number, maximize: flag };
    "Adafactor" Adafactor { beta2_decay: number, d: number, weight_decay: number, maximize: flag };
    "Lion" Lion { betas: pair, weight_decay: number, maximize: flag };
    "LAMB" Lamb { betas: pair, eps: number, weight_decay: number, maximize: flag };
}

/// The schedule of a section. Its steps are optimizer steps; what is not given reaches over all `total` of them.
///
/// # Errors
/// `Usage`: an unknown kind, or a value that makes no sense.
pub fn schedule(s: Section<'_>, total: u64) -> Result<Box<dyn Schedule>, Failure> {
    let kinds = [
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "PolynomialLR",
        "CosineAnnealingLR",
        "CosineAnnealingWarmRestarts",
        "OneCycleLR",
        "CyclicLR",
        "SequentialLR",
    ];
    let size = |key: &'static str, default: u64| -> Result<u64, Failure> { Ok(s.size(key)?.map_or(default, |v| v as u64)) };
    let number = |key: &'static str, default: f64| -> Result<f64, Failure> { Ok(s.number(key)?.unwrap_or(default)) };
    let milestones = || -> Result<Vec<u64>, Failure> { Ok(s.need("milestones", s.sizes("milestones")?)?.into_iter().map(|m| m as u64).collect()) };
    let schedule: Box<dyn Schedule> = match s.kind(&kinds)? {
        "StepLR" => Box::new(StepLr { step_size: s.need("step_size", s.size("step_size")?)? as u64, gamma: number("gamma", 0.1)? }),
        "MultiStepLR" => Box::new(MultiStepLr { milestones: milestones()?, gamma: number("gamma", 0.1)? }),
        "ConstantLR" => Box::new(ConstantLr { factor: number("factor", 1.0 / 3.0)?, total_iters: size("total_iters", 5)? }),
        "LinearLR" => Box::new(LinearLr {
            start_factor: number("start_factor", 1.0 / 3.0)?,
            end_factor: number("end_factor", 1.0)?,
            total_iters: size("total_iters", 5)?,
        }),
        "ExponentialLR" => Box::new(ExponentialLr { gamma: s.need("gamma", s.number("gamma")?)? }),
        "PolynomialLR" => Box::new(PolynomialLr { total_iters: size("total_iters", total)?, power: number("power", 1.0)? }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLr { t_max: size("T_max", total)?, eta_min: number("eta_min", 0.0)? }),
        "CosineAnnealingWarmRestarts" => {
            Box::new(CosineAnnealingWarmRestarts { t_0: s.need("T_0", s.size("T_0")?)? as u64, t_mult: size("T_mult", 1)?, eta_min: number("eta_min", 0.0)? })
        }
        "OneCycleLR" => {
            let d = OneCycleLr::new(s.need("max_lr", s.number("max_lr")?)?, size("total_steps", total)?);
            Box::new(OneCycleLr {
                pct_start: number("pct_start", d.pct_start)?,
                div_factor: number("div_factor", d.div_factor)?,
                final_div_factor: number("final_div_factor", d.final_div_factor)?,
                three_phase: s.flag("three_phase")?.unwrap_or(false),
                ..d
            })
        }
        "CyclicLR" => {
            let d = CyclicLr::new(s.need("base_lr", s.number("base_lr")?)?, s.need("max_lr", s.number("max_lr")?)?);
            Box::new(CyclicLr { step_size_up: size("step_size_up", d.step_size_up)?, step_size_down: s.size("step_size_down")?.map(|v| v as u64), ..d })
        }
        "SequentialLR" => {
            let mut parts = Vec::new();
            for part in s.need("schedulers", s.sections("schedulers")?)? {
                parts.push(schedule(part, total)?);
            }
            Box::new(SequentialLr::new(parts, milestones()?).map_err(|e| s.wrong(e.kind().to_string()))?)
        }
        other => return Err(s.wrong(format!("{other} cannot be built"))),
    };
    s.finish()?;
    Ok(schedule)
}
