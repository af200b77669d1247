//! Optimizers where they are made and changed: what makes no sense is told there, groups come and go, and what wraps another optimizer
//! resumes and is taken back as one. (Captured steps: the facade's tests.)
#![allow(clippy::unwrap_used)]

use adamant_core::{DType, Device, Error, ErrorKind, Grads, Result, Tensor, step};
use adamant_nn::{BatchNorm1d, Embedding, Linear, Module, Param, Walk, manual_seed};
use adamant_optim::{
    schedule::{ExponentialLr, Scheduler},
    *,
};

fn on_reference(f: impl FnOnce() -> Result<()>) {
    Device::reference().scoped(|| {
        manual_seed(5);
        f().unwrap();
    });
}
fn bits(all: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = all.iter().map(|(n, t)| (n.clone(), t.to_bytes().unwrap())).collect();
    all.sort();
    all
}
fn gradients(parameters: &[Param], value: f64) -> Grads {
    let mut grads = Grads::default();
    parameters.iter().for_each(|p| grads.set(&p.cell(), (p.detached() * value).sin() + 0.1));
    grads
}
/// Of an error at a line of this file.
fn told(error: Option<Error>, texts: &[&str], line: u32) {
    let error = error.unwrap().to_string();
    assert!(texts.iter().all(|t| error.contains(t)), "{error}");
    assert!(error.contains(&format!("made.rs:{line}")), "{error} is not at line {line}");
}

#[test]
fn hyper_parameters_that_make_no_sense_and_are_not_told_where_they_are_made() {
    on_reference(|| {
        let p = || vec![Param::new(&Tensor::ones([2, 2])).unwrap()];
        let line = line!() + 2;
        let errors = [
            (Sgd::new(-1.0).over(p()).ok().err(), "SGD: lr is -1"),
            (Sgd::new(0.1).nesterov(true).over(p()).ok().err(), "SGD: nesterov needs a momentum"),
            (Adam::new(0.1).betas((1.0, 0.9)).over(p()).ok().err(), "Adam: the first beta is 1"),
            (AdamW::new(f64::NAN).over(p()).ok().err(), "AdamW: lr is NaN"),
            (Muon::new(0.1).ns_steps(100).over(p()).ok().err(), "Muon: ns_steps is 100"),
            (SparseAdam::new(0.0).over(p()).ok().err(), "SparseAdam: lr is 0, it must be above 0"),
            (Centralized(RAdam::new(-0.5)).over(p()).ok().err(), "RAdam: lr is -0.5"),
            (Sgd::new(0.1).over([]).ok().err(), "SGD: it has no parameters"),
            (Muon::new(0.1).over([Param::new(&Tensor::ones([3]))?]).ok().err(), "of shape [3]: it has shape [3], and only matrices"),
            (Lbfgs::new(p(), LbfgsOptions { max_iter: 0, ..Default::default() }).err(), "max_iter is 0"),
            (Lbfgs::new([], LbfgsOptions::default()).err(), "it has no parameters"),
            (Lookahead::new(Sgd::new(0.1).over(p()), 0, 0.5).err(), "k is 0"),
            (Lookahead::new(Sgd::new(0.1).over(p()), 5, 1.5).err(), "alpha is 1.5"),
            (WeightAverage::exponential(&p(), 1.0).err(), "the decay is 1"),
        ];
        for (k, (error, text)) in errors.into_iter().enumerate() {
            told(error, &[text], line + k as u32);
        }
        // The same at the first step of who did not ask.
        let line = line!() + 1;
        let mut optimizer = Sgd::new(-1.0).over(p());
        let grads = gradients(&optimizer.parameters(), 1.0);
        told(optimizer.step(&grads).err(), &["SGD: lr is -1"], line);
        let line = line!() + 1;
        let mut optimizer = Sgd::new(0.1).over([]);
        told(optimizer.step(&grads).err(), &["it has no parameters", "Hint: a model that is frozen"], line);
        Ok(())
    });
}
#[test]
fn a_parameter_in_two_groups_or_a_group_that_is_added_and_never_moves() {
    on_reference(|| {
        let (a, b, c) = (Param::new(&Tensor::ones([2]))?, Param::new(&Tensor::ones([2]))?, Param::new(&Tensor::ones([2]))?);
        let line = line!() + 1;
        let twice = Sgd::new(0.1).over([a.clone()]).group(Sgd::new(0.2), [b.clone(), a.clone()]);
        told(twice.ok().err(), &["is given twice"], line);
        let mut optimizer = Adam::new(0.5).over([a.clone(), b.clone()]).ok()?;
        let mut scheduler = Scheduler::new(ExponentialLr { gamma: 0.5 }, &mut optimizer);
        assert!(optimizer.add_param_group(Adam::new(0.1), [b.clone()]).is_err());
        assert!(optimizer.add_param_group(Adam::new(-1.0), [c.clone()]).is_err());
        assert!(optimizer.add_param_group(Adam::new(0.1), []).is_err());
        assert_eq!(optimizer.groups().len(), 1);
        optimizer.add_param_group(Adam::new(0.25), [c.clone()])?;
        optimizer.step(&gradients(&[a, c.clone()], 1.0))?;
        assert_ne!(c.detached().to_vec::<f32>()?, [1.0; 2]);
        // A group that the schedule was not told of keeps its rate; told of it, it begins from there.
        scheduler.step(&mut optimizer);
        assert_eq!(optimizer.lrs(), [0.25, 0.25]);
        scheduler.follow(&optimizer);
        scheduler.step(&mut optimizer);
        assert_eq!(optimizer.lrs(), [0.125, 0.125]);
        Ok(())
    });
}
#[test]
fn a_parameter_that_loses_its_state_when_it_changes_its_group() {
    on_reference(|| {
        let run = |regroup: bool| -> Result<_> {
            manual_seed(1);
            let model = Linear::new(3, 2)?;
            let mut optimizer = AdamW::new(0.1).over(model.parameters()).ok()?;
            (0..2).try_for_each(|k| optimizer.step(&gradients(&model.parameters(), k as f64)))?;
            if regroup {
                let rule = optimizer.groups()[0].rule();
                assert_eq!(optimizer.regroup(rule, |p| &*p.path() == "bias")?, 1);
                let none = optimizer.regroup(AdamW::new(0.1), |p| &*p.path() == "bais").unwrap_err().to_string();
                assert!(none.contains("the filter picks none") && none.contains("`weight`"), "{none}");
            }
            (2..4).try_for_each(|k| optimizer.step(&gradients(&model.parameters(), k as f64)))?;
            Ok((bits(&model.state_dict()), bits(&optimizer.state_dict())))
        };
        assert_eq!(run(true)?, run(false)?);
        Ok(())
    });
}

type Make = fn(&[Param]) -> Box<dyn Optimizer>;
fn wrapped() -> Vec<(&'static str, Make)> {
    vec![
        ("Muon", |p| Box::new(Muon::new(0.1).over(p.iter().filter(|p| p.meta().shape.rank() == 2).cloned()).ok().unwrap())),
        ("SparseAdam", |p| Box::new(SparseAdam::new(0.1).over(p.to_vec()).ok().unwrap())),
        ("Lookahead", |p| Box::new(Lookahead::new(Box::new(Adam::new(0.1).over(p.to_vec())) as Box<dyn Optimizer>, 3, 0.5).unwrap())),
        ("Centralized", |p| Box::new(Centralized(NAdam::new(0.1)).over(p.to_vec()).ok().unwrap())),
        ("decoupled Adam", |p| Box::new(Adam::new(0.1).decoupled_weight_decay(true).weight_decay(0.1).amsgrad(true).over(p.to_vec()).ok().unwrap())),
    ]
}
#[test]
fn an_optimizer_that_goes_on_otherwise_after_it_was_saved_or_taken_back() {
    for (name, make) in wrapped() {
        on_reference(|| {
            let fresh = || {
                manual_seed(9);
                Linear::new(4, 3)
            };
            let plain = fresh()?;
            let mut optimizer = make(&plain.parameters());
            for k in 0..7 {
                optimizer.step(&gradients(&plain.parameters(), k as f64))?;
            }
            let want = (bits(&plain.state_dict()), bits(&optimizer.state_dict()));
            // Saved after each step, and taken back before each.
            let model = fresh()?;
            let mut optimizer = make(&model.parameters());
            for k in 0..7 {
                let failed = step(|| {
                    optimizer.step(&gradients(&model.parameters(), 9.0))?;
                    Err::<(), _>(Error::new("around", ErrorKind::Domain("no".into())))
                });
                assert!(failed.is_err());
                optimizer.step(&gradients(&model.parameters(), k as f64))?;
                let state = optimizer.state_dict();
                optimizer = make(&model.parameters());
                optimizer.load_state_dict(&state)?;
            }
            assert_eq!((bits(&model.state_dict()), bits(&optimizer.state_dict())), want, "{name}: saved");
            Ok(())
        });
    }
}
#[test]
fn a_state_that_is_of_another_optimizer() {
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        let mut plain = Sgd::new(0.1).momentum(0.9).over(model.parameters()).ok()?;
        plain.step(&gradients(&model.parameters(), 1.0))?;
        let mut slow = Lookahead::new(Sgd::new(0.1).over(model.parameters()), 2, 0.5)?;
        let error = slow.load_state_dict(&plain.state_dict()).unwrap_err().to_string();
        assert!(error.contains("there is no `weight.slow`"), "{error}");
        let mut quasi = Lbfgs::new(model.parameters(), LbfgsOptions::default())?;
        assert!(quasi.load_state_dict(&plain.state_dict()).is_err());
        let mut state = quasi.state_dict();
        state.push(("lbfgs.d".into(), Tensor::ones([3])));
        let error = quasi.load_state_dict(&state).unwrap_err().to_string();
        assert!(error.contains("`lbfgs.d` has 3 elements, and the parameters 8"), "{error}");
        Ok(())
    });
}
#[test]
fn a_row_that_nobody_looked_up_and_that_moves() {
    on_reference(|| {
        let table = Embedding::new(6, 2)?;
        let mut optimizer = SparseAdam::new(0.1).over(table.parameters()).ok()?;
        let look = |rows: Vec<i64>| {
            let n = rows.len();
            table.forward(&Tensor::from_vec(rows, [n]))?.square().sum(..).backward()
        };
        optimizer.step(&look((0..6).collect())?)?;
        let before = table.weight.detached().to_vec::<f32>()?;
        optimizer.step(&look(vec![1, 4, 4])?)?;
        let after = table.weight.detached().to_vec::<f32>()?;
        for row in 0..6 {
            let moved = before[2 * row..2 * row + 2] != after[2 * row..2 * row + 2];
            assert_eq!(moved, [1, 4].contains(&row), "row {row}");
        }
        Ok(())
    });
}
#[test]
fn a_quasi_newton_step_that_is_captured_fails_halfway_or_is_given_gradients() {
    on_reference(|| {
        let weight = Param::new(&Tensor::from_vec(vec![3.0f64, -2.0], [2]))?;
        let options = LbfgsOptions { line_search: LineSearch::StrongWolfe, max_iter: 2, ..LbfgsOptions::default() };
        let mut optimizer = Lbfgs::new([weight.clone()], options)?;
        let loss = || Ok(weight.get().square().square().sum(..));
        let error = optimizer.step(&Grads::default()).unwrap_err().to_string();
        assert!(error.contains("call `step_with`"), "{error}");
        optimizer.step_with(loss)?;
        let (before, state) = (weight.detached().to_bytes()?, bits(&optimizer.state_dict()));
        for fails_at in 1..3 {
            let mut calls = 0;
            let failed = optimizer.step_with(|| {
                calls += 1;
                if calls == fails_at { Err(Error::new("loss", ErrorKind::Domain("no".into()))) } else { loss() }
            });
            assert!(failed.is_err());
            assert_eq!((weight.detached().to_bytes()?, bits(&optimizer.state_dict())), (before.clone(), state.clone()), "at call {fails_at}");
        }
        let apart = Param::new(&Tensor::ones([1]))?;
        let error = optimizer.step_with(|| Ok(apart.get().sum(..))).unwrap_err().to_string();
        assert!(error.contains("the loss depends on none of its 1 parameters") && error.contains("made.rs"), "{error}");
        // A schedule finds its rate.
        Scheduler::new(ExponentialLr { gamma: 0.5 }, &mut optimizer).step(&mut optimizer);
        assert_eq!(optimizer.lrs(), [0.5]);
        Ok(())
    });
}
#[test]
fn gradients_that_are_not_finite_and_clipped_in_silence() {
    on_reference(|| {
        let p = [Param::new(&Tensor::ones([2]))?];
        let mut grads = Grads::default();
        grads.set(&p[0].cell(), Tensor::from_vec(vec![1.0f32, f32::INFINITY], [2]));
        let strict = ClipNorm { error_if_nonfinite: true, ..1.0.into() };
        let error = clip_grad_norm(&mut grads, &p, strict).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Domain(_)) && error.to_string().contains("is inf"), "{error}");
        // Nothing was scaled.
        assert_eq!(grads.of(&p[0].cell()).unwrap().to_vec::<f32>()?, [1.0, f32::INFINITY]);
        assert!(clip_grad_norm(&mut grads, &p, 1.0)?.item::<f32>()?.is_infinite());
        assert_eq!(get_total_norm([], 2.0, true)?.item::<f32>()?, 0.0);
        assert!(clip_grads_with_norm(&mut grads, &p, 1.0, &Tensor::ones([2])).is_err());
        Ok(())
    });
}
#[test]
fn an_average_of_a_model_that_is_another_one_or_the_same() {
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        for (other, text) in [(Linear::new(2, 2)?, "`weight` is f32 [2, 3] in the model"), (model.clone(), "is the same parameter in both")] {
            let error = AveragedModel::swa(other, &model).err().unwrap().to_string();
            assert!(error.contains(text) && error.contains("made.rs"), "{error}");
        }
        // What evaluates is frozen, and a forward of both is one graph.
        let mut averaged = AveragedModel::ema(Linear::new(3, 2)?, &model, 0.5)?;
        averaged.update_parameters()?;
        let x = Tensor::ones([1, 3]);
        let grads = (model.forward(&x)? - averaged.forward(&x)?).square().sum(..).backward()?;
        assert_eq!(grads.len(), 2);
        // A model without batch norms is left alone; one with them has its momentum back afterwards.
        update_bn(&model, [Err(Error::new("batch", ErrorKind::Domain("never read".into())))])?;
        let norm = BatchNorm1d::new(1)?;
        let batch = |v: f32| Tensor::from_vec(vec![v, v + 1.0], [2, 1]);
        update_bn_by(&norm, [Ok(1.0), Ok(3.0)], |v: f32| norm.forward(&batch(v)).map(|_| ()))?;
        assert_eq!(norm.running_mean().unwrap().detached().to_vec::<f32>()?, [2.5]);
        norm.forward(&batch(11.5))?;
        assert!((norm.running_mean().unwrap().detached().item_of() - (2.5 * 0.9 + 1.2)).abs() < 1e-6);
        Ok(())
    });
}
#[test]
fn an_optimizer_that_keeps_what_was_lent_to_it() {
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        let p = model.parameters();
        let mut optimizer = Adam::new(0.1).over(p.clone()).ok()?;
        optimizer.step(&gradients(&p, 1.0))?;
        let (weights, state) = (bits(&model.state_dict()), bits(&optimizer.state_dict()));
        let lent: Vec<Tensor> = p.iter().map(|p| p.detached() * 2.0).collect();
        // The same as an optimizer of its own over those weights, with the same state.
        let twin = Linear::new(3, 2)?;
        twin.parameters().iter().zip(&lent).try_for_each(|(p, v)| p.set(v))?;
        let mut other = Adam::new(0.1).over(twin.parameters()).ok()?;
        twin.named_parameters();
        other.load_state_dict(&optimizer.state_dict())?;
        other.step(&gradients(&twin.parameters(), 2.0))?;
        let from = optimizer.state_dict();
        let swapped = swap_in_optimizer_params_and_state(&mut optimizer, &lent, &from, |o| {
            o.set_lr(0.1);
            o.step(&gradients(&p, 2.0))
        })?;
        let became: Vec<Vec<u8>> = swapped.parameters.iter().map(|t| t.to_bytes().unwrap()).collect();
        assert_eq!(became, twin.parameters().iter().map(|p| p.detached().to_bytes().unwrap()).collect::<Vec<_>>());
        assert_eq!(bits(&swapped.state), bits(&other.state_dict()));
        assert_eq!((bits(&model.state_dict()), bits(&optimizer.state_dict())), (weights.clone(), state.clone()));
        let failed = swap_in_optimizer_params_and_state(&mut optimizer, &lent, &[], |o| {
            o.set_lr(7.0);
            o.step(&gradients(&p, 2.0))?;
            Err::<(), _>(Error::new("f", ErrorKind::Domain("no".into())))
        });
        assert!(failed.is_err() && optimizer.lrs() == [0.1]);
        assert_eq!((bits(&model.state_dict()), bits(&optimizer.state_dict())), (weights, state));
        assert!(swap_in_optimizer_params_and_state(&mut optimizer, &lent[..1], &[], |_| Ok(())).is_err());
        Ok(())
    });
}
trait ItemOf {
    fn item_of(&self) -> f64;
}
impl ItemOf for Tensor {
    fn item_of(&self) -> f64 {
        self.cast(DType::F64).to_vec::<f64>().unwrap()[0]
    }
}
