//! What a step promises whatever its formula: all or nothing, groups, saved state, and gradients left alone.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Error, ErrorKind, Grads, Result, Tensor, step};
use adamant_nn::{Linear, Param, Walk};
use adamant_optim::{Adam, AdamW, Asgd, NAdam, Optimizer, Sgd, Slots, UpdateRule, clip_grad_norm, clip_grad_value};

fn on_reference(f: impl FnOnce() -> Result<()>) {
    Device::reference().scoped(|| {
        adamant_nn::manual_seed(1);
        f().unwrap();
    });
}
fn values(p: &Param) -> Vec<f32> {
    p.detached().to_vec().unwrap()
}
fn gradients(parameters: &[Param], value: f32) -> Grads {
    let mut grads = Grads::default();
    parameters.iter().for_each(|p| grads.set(&p.cell(), p.detached().full_like(value)));
    grads
}
fn bits(state: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    state.iter().map(|(n, t)| (n.clone(), t.to_bytes().unwrap())).collect()
}

#[test]
fn a_failed_step_that_changes_weights_slots_or_counts() {
    /// Adam that refuses one parameter.
    #[derive(Clone)]
    struct Picky(Adam, bool);
    impl UpdateRule for Picky {
        fn name(&self) -> &'static str {
            "Picky"
        }
        fn lr(&self) -> f64 {
            self.0.lr
        }
        fn set_lr(&mut self, lr: f64) {
            self.0.lr = lr;
        }
        fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
            let next = self.0.update(p, g, &mut slots.part(|picky| &picky.0))?;
            if self.1 && p.rank() == 1 { Err(Error::new("picky", ErrorKind::Domain("no".into()))) } else { Ok(next) }
        }
    }
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        let parameters = model.parameters();
        let mut optimizer = Picky(Adam::new(0.1), false).over(parameters.clone());
        optimizer.step(&gradients(&parameters, 1.0))?;
        let (weights, state) = (bits(&model.state_dict()), bits(&optimizer.state_dict()));
        optimizer.groups()[0].edit(|rule| rule.1 = true);
        assert!(optimizer.step(&gradients(&parameters, 5.0)).is_err());
        assert_eq!((bits(&model.state_dict()), bits(&optimizer.state_dict())), (weights, state.clone()));
        optimizer.groups()[0].edit(|rule| rule.1 = false);
        optimizer.step(&gradients(&parameters, 1.0))?;
        assert_ne!(bits(&optimizer.state_dict()), state);
        Ok(())
    });
}
#[test]
fn a_step_that_is_taken_back_with_a_step_around_it_and_counts_on() {
    // Adam's correction of its means, NAdam's product of momenta and the averages of ASGD follow from the count.
    type Made = fn(Vec<Param>) -> Box<dyn Optimizer>;
    let rules: [Made; 3] = [|p| Box::new(AdamW::new(0.1).over(p)), |p| Box::new(NAdam::new(0.1).over(p)), |p| Box::new(Asgd::new(0.1).over(p))];
    let changed_its_mind = || Err::<(), _>(Error::new("around", ErrorKind::Domain("no".into())));
    for (rule, before) in rules.iter().flat_map(|rule| [0, 2].map(|before| (rule, before))) {
        on_reference(|| {
            let model = Linear::new(3, 2)?;
            let parameters = model.parameters();
            let mut optimizer = rule(parameters.clone());
            let grads = |value| gradients(&parameters, value);
            for k in 0..before {
                optimizer.step(&grads(k as f32))?;
            }
            let all = |optimizer: &dyn Optimizer| {
                // Slots that a step made which was taken back, of a parameter that made no other, are as good as none.
                let state = optimizer.state_dict();
                let stepped = |path: &str| state.iter().any(|(name, t)| *name == format!("{path}.step") && t.item::<f64>().unwrap() > 0.0);
                let made = state.iter().filter(|(name, _)| stepped(name.rsplit_once('.').unwrap().0)).cloned();
                (bits(&model.state_dict()), bits(&made.collect::<Vec<_>>()))
            };
            let was = all(&*optimizer);
            // Two steps, and the one around them fails.
            let failed = step(|| {
                optimizer.step(&grads(3.0))?;
                optimizer.step(&grads(4.0))?;
                changed_its_mind()
            });
            assert!(failed.is_err());
            assert_eq!(all(&*optimizer), was, "{} after {before}", optimizer.name());
            // The second of three alone fails, by an error and by a panic; the others hold.
            let twin = Linear::new(3, 2)?;
            twin.load_state_dict(&model.state_dict())?;
            let mut other = rule(twin.parameters());
            other.load_state_dict(&optimizer.state_dict())?;
            for panics in [false, true] {
                step(|| {
                    optimizer.step(&grads(5.0))?;
                    let inner = || {
                        step(|| {
                            optimizer.step(&grads(6.0))?;
                            if panics { std::panic::resume_unwind(Box::new(())) } else { changed_its_mind() }
                        })
                    };
                    let inner = std::panic::catch_unwind(std::panic::AssertUnwindSafe(inner));
                    assert!(!matches!(inner, Ok(Ok(()))));
                    optimizer.step(&grads(7.0))
                })?;
                other.step(&gradients(&twin.parameters(), 5.0))?;
                other.step(&gradients(&twin.parameters(), 7.0))?;
            }
            assert_eq!(bits(&model.state_dict()), bits(&twin.state_dict()), "{} after {before}", optimizer.name());
            assert_eq!(bits(&optimizer.state_dict()), bits(&other.state_dict()), "{} after {before}", optimizer.name());
            Ok(())
        });
    }
}
#[test]
fn what_was_loaded_that_is_lost_with_the_first_step_after_it() {
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        let mut optimizer = NAdam::new(0.1).over(model.parameters());
        (0..3).try_for_each(|k| optimizer.step(&gradients(&model.parameters(), k as f32)))?;
        let (state, weights) = (optimizer.state_dict(), bits(&model.state_dict()));
        let mut resumed = NAdam::new(0.1).over(model.parameters());
        resumed.load_state_dict(&state)?;
        let failed = step(|| {
            resumed.step(&gradients(&model.parameters(), 9.0))?;
            Err::<(), _>(Error::new("around", ErrorKind::Domain("no".into())))
        });
        assert!(failed.is_err());
        let sorted = |state: &[(String, Tensor)]| bits(state).into_iter().collect::<std::collections::BTreeMap<_, _>>();
        assert_eq!((sorted(&resumed.state_dict()), bits(&model.state_dict())), (sorted(&state), weights));
        Ok(())
    });
}
#[test]
fn gradients_of_another_model_that_change_nothing_in_silence() {
    on_reference(|| {
        let (model, another) = (Linear::new(3, 2)?, Linear::new(3, 2)?);
        let mut optimizer = Sgd::new(0.1).over(model.parameters());
        let error = optimizer.step(&gradients(&another.parameters(), 1.0)).unwrap_err().to_string();
        assert!(error.starts_with("step: SGD: none of the 2 gradients is of one of its 2 parameters"), "{error}");
        let error = Sgd::new(0.1).over([]).step(&gradients(&model.parameters(), 1.0)).unwrap_err().to_string();
        assert!(error.starts_with("step: SGD: it has no parameters"), "{error}");
        // Nothing was reached, or more than these: that may be meant.
        optimizer.step(&Grads::default())?;
        let both: Vec<Param> = model.parameters().into_iter().chain(another.parameters()).collect();
        optimizer.step(&gradients(&both, 1.0))
    });
}
#[test]
fn hyper_parameters_that_make_no_sense() {
    on_reference(|| {
        let model = Linear::new(3, 2)?;
        let before = bits(&model.state_dict());
        let mut optimizer = Sgd::new(0.1).nesterov(true).over(model.parameters());
        let error = optimizer.step(&gradients(&model.parameters(), 1.0)).unwrap_err().to_string();
        assert!(error.starts_with("step: SGD: nesterov needs a momentum and no dampening"), "{error}");
        assert!(AdamW::new(f64::NAN).check().is_err() && Adam::new(1.0).betas((0.9, 1.0)).check().is_err());
        assert_eq!(bits(&model.state_dict()), before);
        Ok(())
    });
}
#[test]
fn a_group_that_does_not_keep_its_own_rate() {
    on_reference(|| {
        let (a, b) = (Param::new(&Tensor::ones([2]))?, Param::new(&Tensor::ones([2]))?);
        let mut optimizer = Sgd::new(0.5).over([a.clone()]).group(Sgd::new(0.25), [b.clone()]);
        optimizer.step(&gradients(&[a.clone(), b.clone()], 1.0))?;
        assert_eq!((values(&a), values(&b)), (vec![0.5; 2], vec![0.75; 2]));
        optimizer.set_lrs(&[0.0, 1.0]);
        optimizer.step(&gradients(&[a.clone(), b.clone()], 1.0))?;
        assert_eq!((values(&a), values(&b)), (vec![0.5; 2], vec![-0.25; 2]));
        Ok(())
    });
}
#[test]
fn a_parameter_that_is_frozen_or_has_no_gradient_and_moves() {
    on_reference(|| {
        let (a, b) = (Param::new(&Tensor::ones([2]))?, Param::new(&Tensor::ones([2]))?);
        let mut optimizer = AdamW::new(0.5).over([a.clone(), b.clone()]);
        b.set_frozen(true);
        optimizer.step(&gradients(std::slice::from_ref(&b), 1.0))?;
        assert_eq!((values(&a), values(&b)), (vec![1.0; 2], vec![1.0; 2]));
        assert!(optimizer.state_dict().is_empty());
        Ok(())
    });
}
#[test]
fn a_saved_optimizer_that_goes_on_another_way() {
    on_reference(|| {
        let (model, twin) = (Linear::new(3, 2)?, Linear::new(3, 2)?);
        let mut optimizer = NAdam::new(0.1).over(model.parameters());
        for k in 0..3 {
            optimizer.step(&gradients(&model.parameters(), k as f32))?;
        }
        let state = optimizer.state_dict();
        let names: Vec<&str> = state.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            names,
            ["weight.mu_product", "weight.step", "weight.exp_avg", "weight.exp_avg_sq", "bias.mu_product", "bias.step", "bias.exp_avg", "bias.exp_avg_sq"]
        );
        twin.load_state_dict(&model.state_dict())?;
        let mut resumed = NAdam::new(0.1).over(twin.parameters());
        resumed.load_state_dict(&state)?;
        for k in 0..3 {
            optimizer.step(&gradients(&model.parameters(), k as f32 - 1.0))?;
            resumed.step(&gradients(&twin.parameters(), k as f32 - 1.0))?;
        }
        assert_eq!(bits(&model.state_dict()), bits(&twin.state_dict()));
        assert_eq!(bits(&optimizer.state_dict()), bits(&resumed.state_dict()));
        let error = resumed.load_state_dict(&[("wieght.exp_avg".into(), Tensor::ones([2]))]).unwrap_err().to_string();
        assert!(error.contains("`wieght.exp_avg` is a slot of no parameter") && error.contains("there is `weight`"), "{error}");
        Ok(())
    });
}
#[test]
fn a_gradient_that_is_altered_unasked_or_negated() {
    on_reference(|| {
        let (a, b) = (Param::new(&Tensor::ones([2]))?, Param::new(&Tensor::ones(()))?);
        let all = [a.clone(), b.clone()];
        let given = || {
            let mut grads = Grads::default();
            grads.set(&a.cell(), Tensor::from_vec(vec![200.0f32, -30.0], [2]));
            grads.set(&b.cell(), Tensor::from_vec(vec![60.0f32], ()));
            grads
        };
        let read = |grads: &Grads| -> Vec<f32> { all.iter().flat_map(|p| grads.of(&p.cell()).unwrap().to_vec::<f32>().unwrap()).collect() };
        let mut grads = given();
        clip_grad_norm(&mut grads, &all, 1.0)?;
        let clipped = read(&grads);
        let norm = |v: &[f32]| v.iter().map(|x| (*x as f64).powi(2)).sum::<f64>().sqrt();
        let cosine = clipped.iter().zip([200.0, -30.0, 60.0]).map(|(x, y)| *x as f64 * y).sum::<f64>() / norm(&clipped) / norm(&[200.0, -30.0, 60.0]);
        assert!((norm(&clipped) - 1.0).abs() < 1e-6 && (cosine - 1.0).abs() < 1e-12, "{clipped:?} {cosine}");
        let mut grads = given();
        clip_grad_norm(&mut grads, &all, 1000.0)?;
        assert_eq!(read(&grads), [200.0, -30.0, 60.0]);
        clip_grad_value(&mut grads, &all, 50.0)?;
        assert_eq!(read(&grads), [50.0, -30.0, 50.0]);
        assert!(clip_grad_norm(&mut grads, &all, 0.0).is_err() && clip_grad_value(&mut grads, &all, f64::NAN).is_err());
        Ok(())
    });
}
#[test]
fn a_step_over_a_lazy_layer_that_says_nothing() {
    on_reference(|| {
        let net = adamant_nn::Sequential::new().add_named("fc", Linear::lazy(2)?);
        let mut optimizer = Sgd::new(0.1).over(net.parameters());
        let error = optimizer.step(&Grads::default()).unwrap_err().to_string();
        assert!(error.contains("`fc.weight` of a lazy layer has no value yet") && error.contains("step.rs"), "{error}");
        let forward = || adamant_nn::Module::forward(&net, &Tensor::ones([1, 3]));
        let before = forward()?.to_vec::<f32>()?;
        optimizer.step(&forward()?.sum(..).backward()?)?;
        assert_ne!(forward()?.to_vec::<f32>()?, before, "it was over the parameters that there are now");
        Ok(())
    });
}
