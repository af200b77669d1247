//! Adapters on what layers return: nothing changes when they are put on, they stay within their cap, and merged they are the same.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor, grad::no_grad};
use adamant_nn::{Conv1d, ConvOptions, Flatten, Linear, Module, Param, Relu, Sequential, Unflatten, Walk, init, manual_seed};
use adamant_optim::{AdamW, Optimizer, UpdateRule};
use adamant_quant::{LayerKind, adapters::OutputAdapter, quantize_dynamic};

fn normal(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f32>().unwrap().into_iter().map(f64::from).collect()
}
fn close(got: &[f64], want: &[f64], of: &str) {
    assert_eq!(got.len(), want.len(), "{of}");
    let most = 2e-5 * want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() <= most), "{of}: {got:?}, not {want:?}");
}
/// A parameter of a model.
fn held(model: &impl Walk, name: &str) -> Param {
    model.leaves().into_iter().find(|(path, _)| path == name).unwrap().1
}
fn model(bias: bool) -> Result<Sequential> {
    manual_seed(4);
    let options = ConvOptions { bias, groups: 2, padding: 1.into(), ..Default::default() };
    let net = Sequential::new().add(Unflatten::new(1, [2, 6])).add(Conv1d::with(2, 4, 3, options)?).add(Relu::new()).add(Flatten::new());
    let net = net.add(if bias { Linear::new(24, 8)? } else { Linear::no_bias(24, 8)? });
    Ok(net.add(Relu::new()).add(Linear::new(8, 3)?))
}
fn configs() -> Vec<OutputAdapter> {
    let both = [OutputAdapter::film(["*"]), OutputAdapter::bottleneck(2, ["4", "6"])];
    both.iter().cloned().chain(both.iter().map(|config| config.clone().norm_cap(0.3))).collect()
}
/// Some steps toward other outputs.
fn tune(net: &Sequential, parameters: Vec<Param>, rate: f64) -> Result<()> {
    let (x, wanted) = (normal([16, 12]), normal([16, 3]) * 5.0);
    let mut optimizer = AdamW::new(rate).over(parameters).ok()?;
    for _ in 0..30 {
        let grads = (net.forward(&x)? - &wanted).square().mean(..).backward()?;
        optimizer.step(&grads)?;
    }
    Ok(())
}
fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn adapters_that_change_a_model_before_they_learn_or_what_they_are_put_on() -> Result<()> {
    for (k, config) in configs().iter().enumerate() {
        for bias in [true, false] {
            let of = format!("{k} {bias}");
            let (net, x) = (model(bias)?, normal([5, 12]));
            let (before, state) = (numbers(&no_grad(|| net.forward(&x))?), net.state_dict());
            let adapters = config.apply(&net)?;
            assert_eq!(numbers(&no_grad(|| net.forward(&x))?), before, "{of}");
            let trained: usize = net.trainable_parameters().iter().map(|p| p.elements()).sum();
            assert_eq!(adapters.parameters().iter().map(|p| p.elements()).sum::<usize>(), trained, "{of}");
            let outs = if k % 2 == 0 { 4 + 8 + 3 } else { 2 * 2 * (8 + 3) };
            let shifts = [if k % 2 == 0 && bias { 4 } else { 0 }, if bias { 8 } else { 0 }, 3].iter().sum::<usize>();
            assert_eq!(trained, outs + shifts, "{of}");
            tune(&net, adapters.parameters(), 0.05)?;
            let tuned = numbers(&no_grad(|| net.forward(&x))?);
            assert!(tuned.iter().zip(&before).any(|(a, b)| (a - b).abs() > 0.05), "{of}");
            // A copy has adapters of its own.
            let copy = net.deep_copy()?;
            assert_eq!(numbers(&no_grad(|| copy.forward(&x))?), tuned, "{of}");
            adapters.unload()?;
            assert_eq!(numbers(&no_grad(|| net.forward(&x))?), before, "{of}");
            let after = net.state_dict();
            assert!(state.iter().zip(&after).all(|((n, a), (m, b))| n == m && a.to_bytes().unwrap() == b.to_bytes().unwrap()), "{of}");
            assert_eq!(net.trainable_parameters().len(), state.len(), "{of}");
        }
    }
    Ok(())
}

#[test]
fn a_merged_adapter_that_computes_something_else_or_passes_its_cap() -> Result<()> {
    for (k, config) in configs().iter().enumerate() {
        let (net, x) = (model(true)?, normal([5, 12]));
        let state = net.state_dict();
        let adapters = config.apply(&net)?;
        tune(&net, adapters.parameters(), 0.5)?;
        let (mut scales, mut shifts) = (Vec::new(), Vec::new());
        for path in ["4", "6"] {
            let own = |name: &str| numbers(&held(&net, &format!("{path}.parametrizations.{name}")).detached());
            shifts.push(norm(&own("bias.0.shift")));
            scales.push(if k % 2 == 0 { norm(&own("weight.0.scale")) } else { norm(&own("weight.0.up")) });
        }
        let before = numbers(&no_grad(|| net.forward(&x))?);
        adapters.merge()?;
        close(&numbers(&no_grad(|| net.forward(&x))?), &before, "merged");
        let names = |state: &[(String, Tensor)]| state.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
        assert_eq!(names(&net.state_dict()), names(&state));
        // What each row of the weight was multiplied with, by least squares: FiLM's own numbers.
        let of = |state: &[(String, Tensor)], name: &str| numbers(&state.iter().find(|(n, _)| n == name).unwrap().1);
        let after = net.state_dict();
        for (at, path) in ["4", "6"].iter().enumerate() {
            let (old, new) = (of(&state, &format!("{path}.weight")), of(&after, &format!("{path}.weight")));
            let columns = if at == 0 { 24 } else { 8 };
            let factors: Vec<f64> = old
                .chunks(columns)
                .zip(new.chunks(columns))
                .map(|(a, b)| a.iter().zip(b).map(|(a, b)| (b - a) * a).sum::<f64>() / a.iter().map(|v| v * v).sum::<f64>())
                .collect();
            match k {
                0 => assert!((norm(&factors) - scales[at]).abs() < 1e-4 * scales[at].max(1.0)),
                2 => assert!(scales[at] > 0.31 && (norm(&factors) - 0.3).abs() < 1e-5, "{} of {}", norm(&factors), scales[at]),
                // A bottleneck adds a product that is no longer than the cap times the weight.
                3 => {
                    let apart: Vec<f64> = old.iter().zip(&new).map(|(a, b)| b - a).collect();
                    assert!(norm(&apart) <= 0.3 * norm(&old) * (1.0 + 1e-5) && norm(&apart) > 0.0);
                }
                _ => assert!(norm(&factors) > 0.0),
            }
        }
        if k == 2 {
            assert!(shifts.iter().any(|s| *s > 0.3), "{shifts:?}");
        }
    }
    Ok(())
}

#[test]
fn targets_that_mean_nothing_or_cannot_have_an_adapter() -> Result<()> {
    let told = |config: OutputAdapter, spoil: &dyn Fn(&Sequential) -> Result<()>| -> Result<String> {
        let net = model(true)?;
        spoil(&net)?;
        let before: Vec<String> = net.state_dict().into_iter().map(|(n, _)| n).collect();
        let error = config.apply(&net).map(drop).unwrap_err().to_string();
        let after: Vec<String> = net.state_dict().into_iter().map(|(n, _)| n).collect();
        assert_eq!((before, net.trainable_parameters().len()), (after, net.trainable_parameters().len()), "{error}");
        Ok(error)
    };
    let fine = |_: &Sequential| Ok(());
    for (config, text) in [
        (OutputAdapter::film(["nine"]), "there is no module `nine`"),
        (OutputAdapter::film(["2"]), "a ReLU, which has no such adapter"),
        (OutputAdapter::bottleneck(2, ["1"]), "a Conv1d, which has no such adapter"),
        (OutputAdapter::bottleneck(0, ["4"]), "width 0"),
        (OutputAdapter::film(["4"]).norm_cap(0.0), "no number above 0"),
        (OutputAdapter::film(["4"]).norm_cap(f64::NAN), "no number above 0"),
        (OutputAdapter::film(Vec::<String>::new()), "there are no targets"),
    ] {
        let error = told(config, &fine)?;
        assert!(error.contains(text), "{text}: {error}");
    }
    let twice = |net: &Sequential| OutputAdapter::film(["4"]).apply(net).map(drop);
    assert!(told(OutputAdapter::film(["*"]), &twice)?.contains("`4` is computed from other parameters already"));
    let codes = |net: &Sequential| quantize_dynamic(net, &[LayerKind::Linear], DType::I8).map(drop);
    assert!(told(OutputAdapter::film(["6"]), &codes)?.contains("holds integer codes"));
    Ok(())
}
