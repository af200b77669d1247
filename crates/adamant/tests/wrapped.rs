//! Optimizers that do more than move each weight by its gradient, as part of a captured step.
#![allow(clippy::unwrap_used)]
use adamant::{
    Device, Grads, Result, Tensor, compile,
    nn::{BatchNorm1d, Linear, Module, Param, Walk, manual_seed},
    optim::{
        Adam, AveragedModel, Centralized, ClipNorm, Lbfgs, LbfgsOptions, Lookahead, Muon, NAdam, Optimizer, SparseAdam, UpdateRule, clip_grad_norm, update_bn,
    },
};
use std::sync::Mutex;

fn bits(all: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = all.iter().map(|(n, t)| (n.clone(), t.to_bytes().unwrap())).collect();
    all.sort();
    all
}
fn gradients(p: &[Param], x: &Tensor) -> Grads {
    let mut grads = Grads::default();
    p.iter().for_each(|p| grads.set(&p.cell(), (p.detached() * x).sin() + 0.1));
    grads
}
type Make = fn(&[Param]) -> Box<dyn Optimizer>;
const WRAPPED: [(&str, Make); 5] = [
    ("Muon", |p| Box::new(Muon::new(0.1).over(p.iter().filter(|p| p.meta().shape.rank() == 2).cloned()).ok().unwrap())),
    ("SparseAdam", |p| Box::new(SparseAdam::new(0.1).over(p.to_vec()).ok().unwrap())),
    ("Lookahead", |p| Box::new(Lookahead::new(Box::new(Adam::new(0.1).over(p.to_vec())) as Box<dyn Optimizer>, 3, 0.5).unwrap())),
    ("Centralized", |p| Box::new(Centralized(NAdam::new(0.1)).over(p.to_vec()).ok().unwrap())),
    ("decoupled Adam", |p| Box::new(Adam::new(0.1).decoupled_weight_decay(true).weight_decay(0.1).amsgrad(true).over(p.to_vec()).ok().unwrap())),
];
#[test]
fn an_optimizer_that_goes_another_way_where_it_is_captured() -> Result<()> {
    for (name, make) in WRAPPED {
        let run = |captured: bool| -> Result<_> {
            manual_seed(9);
            let model = Linear::new(4, 3)?;
            let optimizer = Mutex::new(make(&model.parameters()));
            let learn = |x: &[Tensor]| {
                optimizer.lock().unwrap().step(&gradients(&model.parameters(), &x[0]))?;
                Ok(vec![])
            };
            let whole = compile(learn);
            for k in 0..7 {
                let x = Tensor::from_vec(vec![k as f32], ());
                if captured { whole.call(&[&x]).map(|_| ()) } else { learn(&[x]).map(|_: Vec<Tensor>| ()) }?;
            }
            assert_eq!(whole.captures().structures, u64::from(captured), "{name}");
            Ok((bits(&model.state_dict()), bits(&optimizer.lock().unwrap().state_dict())))
        };
        assert_eq!(run(true)?, run(false)?, "{name}");
    }
    Ok(())
}
#[test]
fn a_group_that_a_captured_step_does_not_see() -> Result<()> {
    let [a, b] = [1.0f32, 1.0].map(|v| Param::new(&Tensor::from_vec(vec![v; 2], [2])).unwrap());
    let optimizer = Mutex::new(Adam::new(0.5).over([a.clone()]).ok()?);
    let both = [a.clone(), b.clone()];
    let learn = compile(|x: &[Tensor]| {
        optimizer.lock().unwrap().step(&gradients(&both, &x[0]))?;
        Ok(vec![])
    });
    let x = Tensor::ones(());
    learn.call(&[&x])?;
    assert_eq!(b.detached().to_vec::<f32>()?, [1.0; 2]);
    optimizer.lock().unwrap().add_param_group(Adam::new(0.25), [b.clone()])?;
    learn.call(&[&x])?;
    assert_ne!(b.detached().to_vec::<f32>()?, [1.0; 2]);
    // Moved into a group without a rate, it stays.
    let before = a.detached().to_bytes()?;
    optimizer.lock().unwrap().regroup(Adam::new(0.0), |p| p.same(&a))?;
    learn.call(&[&x])?;
    assert_eq!(a.detached().to_bytes()?, before);
    Ok(())
}
#[test]
fn an_average_that_another_step_moves_where_it_is_captured() -> Result<()> {
    let run = |captured: bool| -> Result<_> {
        manual_seed(4);
        let (model, norm) = (Linear::new(3, 2)?, BatchNorm1d::new(2)?);
        let (mean, statistics) =
            (Mutex::new(AveragedModel::swa(Linear::new(3, 2)?, &model)?), Mutex::new(AveragedModel::ema(BatchNorm1d::new(2)?, &norm, 0.5)?.use_buffers(true)));
        let learn = |x: &[Tensor]| {
            let y = norm.forward(&model.forward(&x[0])?)?;
            model.weight.set(&(model.weight.detached() * 0.9))?;
            mean.lock().unwrap().update_parameters()?;
            statistics.lock().unwrap().update_parameters()?;
            Ok(vec![y.detach()])
        };
        let batch = |k: usize| Tensor::from_vec((0..12).map(|i| ((i * 7 + k * 5) % 11) as f32).collect(), [4, 3]);
        let whole = compile(learn);
        for k in 0..5 {
            if captured { whole.call(&[&batch(k)]).map(|_| ()) } else { learn(&[batch(k)]).map(|_| ()) }?;
        }
        // A forward that was captured with the layer's momentum has none here.
        let forward = compile(|x: &[Tensor]| Ok(vec![norm.forward(&x[0])?]));
        let pairs = |k: usize| batch(k).narrow(1, 0, 2);
        if captured {
            forward.call(&[&pairs(7)])?;
            adamant::optim::update_bn_by(&norm, (0..3).map(Ok), |k| forward.call(&[&pairs(k)]).map(|_| ()))?;
        } else {
            update_bn(&norm, (0..3).map(|k| Ok(pairs(k))))?;
        }
        let (mean, statistics) = (mean.lock().unwrap(), statistics.lock().unwrap());
        Ok((bits(&mean.state_dict()), bits(&statistics.state_dict()), bits(&norm.state_dict())))
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}
#[test]
fn what_decides_by_what_it_reads_and_is_captured() -> Result<()> {
    let weight = Param::new(&Tensor::ones([2]))?;
    let optimizer = Mutex::new(Lbfgs::new([weight.clone()], LbfgsOptions::default())?);
    let learn = compile(|_: &[Tensor]| optimizer.lock().unwrap().step_with(|| Ok(weight.get().square().sum(..))).map(|l| vec![l]));
    let error = learn.call(&[&Tensor::ones(())]).err().unwrap().to_string();
    assert!(error.contains("cannot be part of a captured function") && error.contains("Hint"), "{error}");
    let p = [weight];
    let strict = ClipNorm { error_if_nonfinite: true, ..1.0.into() };
    let clip = compile(|x: &[Tensor]| clip_grad_norm(&mut gradients(&p, &x[0]), &p, strict).map(|n| vec![n]));
    let error = clip.call(&[&Tensor::ones(())]).err().unwrap().to_string();
    assert!(error.contains("cannot ask whether the norm is finite"), "{error}");
    assert!(Device::current().is_ok());
    Ok(())
}
