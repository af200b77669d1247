//! Optimizers: three parameters walk along given gradients; the result is where each was after every step.
use super::{
    call::{OpCall, argument, unsupported},
    files::Files,
    manifest::Case,
};
use adamant::{
    Device, Error, Grads, Tensor,
    nn::Param,
    optim::{Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Asgd, Lamb, Lion, NAdam, Optimizer, RAdam, RmsProp, Rprop, Sgd, UpdateRule},
};

/// The trajectories under the manifest's names.
pub fn trajectories(case: &Case, files: &Files, device: Device) -> Result<Vec<(String, Tensor)>, Error> {
    let load = |name: &Option<String>| files.tensor(case, name.as_deref().ok_or_else(|| argument("a parameter is null".into()))?, device);
    let parameters = case.inputs.iter().map(|name| Param::new(&load(name)?)).collect::<Result<Vec<_>, _>>()?;
    let gradients = case.step_grads.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut optimizer = optimizer(&OpCall::new(case, Vec::new()), parameters.clone())?;
    let mut visited: Vec<Vec<Tensor>> = parameters.iter().map(|_| Vec::new()).collect();
    for step in 0..case.steps {
        let mut grads = Grads::default();
        for (parameter, gradient) in parameters.iter().zip(&gradients) {
            grads.set(&parameter.cell(), gradient.get(step).ok()?);
        }
        optimizer.step(&grads)?;
        for (places, parameter) in visited.iter_mut().zip(&parameters) {
            places.push(parameter.detached());
        }
    }
    let mut results = Vec::new();
    for (places, name) in visited.iter().zip(&case.outputs) {
        let trajectory = Tensor::stack(places, 0);
        trajectory.materialize()?;
        results.extend(name.clone().map(|name| (name, trajectory)));
    }
    Ok(results)
}

/// From torch's names to ours: the optimizer and its arguments, each with the kind of value it takes.
macro_rules! optimizers {
    ($($torch:literal $rule:ident { $($argument:ident: $kind:ident),* })*) => {
        /// The optimizer that the case names, with its arguments.
        fn optimizer(case: &OpCall, parameters: Vec<Param>) -> Result<Box<dyn Optimizer>, Error> {
            match case.op().trim_start_matches("optim.") {
                $($torch => {
                    let mut rule = $rule::default();
                    for name in case.case().args.keys() {
                        rule = match name.as_str() {
                            "lr" => {
                                rule.set_lr(case.float("lr")?);
                                rule
                            }
                            $(stringify!($argument) => rule.$argument($kind(case, stringify!($argument))?),)*
                            other => return Err(unsupported(format!("the argument {other} of {}", case.op()))),
                        };
                    }
                    Ok(Box::new(rule.over(parameters)))
                })*
                other => Err(unsupported(format!("the optimizer {other}"))),
            }
        }
    };
}
optimizers! {
    "SGD" Sgd { momentum: float, dampening: float, weight_decay: float, nesterov: flag, maximize: flag }
    "Adam" Adam { betas: pair, eps: float, weight_decay: float, amsgrad: flag, maximize: flag }
    "AdamW" AdamW { betas: pair, eps: float, weight_decay: float, amsgrad: flag, maximize: flag }
    "Adamax" Adamax { betas: pair, eps: float, weight_decay: float, maximize: flag }
    "NAdam" NAdam { betas: pair, eps: float, weight_decay: float, momentum_decay: float, decoupled_weight_decay: flag, maximize: flag }
    "RAdam" RAdam { betas: pair, eps: float, weight_decay: float, decoupled_weight_decay: flag, maximize: flag }
    "RMSprop" RmsProp { alpha: float, eps: float, weight_decay: float, momentum: float, centered: flag, maximize: flag }
    "Rprop" Rprop { etas: pair, step_sizes: pair, maximize: flag }
    "ASGD" Asgd { lambd: float, alpha: float, t0: float, weight_decay: float, maximize: flag }
    "Adagrad" Adagrad { lr_decay: float, weight_decay: float, initial_accumulator_value: float, eps: float, maximize: flag }
    "Adadelta" Adadelta { rho: float, eps: float, weight_decay: float, maximize: flag }
    "Adafactor" Adafactor { beta2_decay: float, d: float, weight_decay: float, maximize: flag }
    "Lion" Lion { betas: pair, weight_decay: float, maximize: flag }
    "LAMB" Lamb { betas: pair, eps: float, weight_decay: float, maximize: flag }
}
fn float(case: &OpCall, name: &str) -> Result<f64, Error> {
    case.float(name)
}
fn flag(case: &OpCall, name: &str) -> Result<bool, Error> {
    case.bool(name)
}
fn pair(case: &OpCall, name: &str) -> Result<(f64, f64), Error> {
    match case.maybe_floats(name)?.as_deref() {
        Some(&[a, b]) => Ok((a, b)),
        other => Err(argument(format!("{name} must be two numbers, not {other:?}"))),
    }
}
