//! Hooks, lazy layers, parametrizations, packed sequences and further layers are PyTorch's: values and gradients of `modules.json`
//! (made by `python/modules.py`), in f64.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{
    functional::{self, FractionalMaxPoolOptions, batch_norm, conv_tbc, fractional_max_pool},
    *,
};
use adamant_nn::{parametrize::*, *};
use serde_json::Value;
use std::sync::{Arc, Mutex};

fn cases(group: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("modules.json")).unwrap();
    all[group].as_array().unwrap().clone()
}
fn tensor(written: &Value) -> Tensor {
    let dims: Vec<usize> = written[0].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
    let values = written[1].as_array().unwrap();
    if !values.is_empty() && values.iter().all(Value::is_i64) {
        return Tensor::from_vec(values.iter().map(|v| v.as_i64().unwrap()).collect::<Vec<_>>(), dims);
    }
    Tensor::from_vec(values.iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>(), dims)
}
fn state(written: &Value) -> Vec<(String, Tensor)> {
    written.as_object().unwrap().iter().map(|(name, t)| (name.clone(), tensor(t))).collect()
}
fn names(written: &Value) -> Vec<String> {
    written.as_object().unwrap().keys().cloned().collect()
}
/// What differs is collected, so that a test tells all.
#[derive(Default)]
struct Wrong(Vec<String>);
impl Wrong {
    fn near(&mut self, what: &str, got: &Tensor, want: &Value) {
        let want = tensor(want);
        let (shape, want_shape) = (got.shape().unwrap(), want.shape().unwrap());
        if shape != want_shape {
            return self.0.push(format!("{what}: shape {shape}, not {want_shape}"));
        }
        let (got, want) = (got.cast(DType::F64).to_vec::<f64>().unwrap(), want.cast(DType::F64).to_vec::<f64>().unwrap());
        let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs() / (1.0 + w.abs())).fold(0.0, |a: f64, e| if e.is_nan() { e } else { a.max(e) });
        if worst.is_nan() || worst > 1e-9 {
            self.0.push(format!("{what}: off by {worst:.2e}: {got:?}, not {want:?}"));
        }
    }
    fn gradients(&mut self, what: &str, model: &dyn Walk, got: &Grads, want: &Value) {
        for (name, want) in want.as_object().unwrap() {
            let Some((_, p)) = model.leaves().into_iter().find(|(n, _)| n == name) else { return self.0.push(format!("{what}: no parameter {name}")) };
            match got.of(&p.cell()) {
                Some(g) => self.near(&format!("{what}: gradient of {name}"), g, want),
                None => self.0.push(format!("{what}: no gradient of {name}")),
            }
        }
    }
    fn done(self) {
        assert!(self.0.is_empty(), "{} wrong\n{}", self.0.len(), self.0.join("\n"));
    }
}
fn weighted(outputs: &[&Tensor]) -> Tensor {
    let one = |y: &Tensor| {
        let shape = y.shape().unwrap();
        let times = Tensor::from_vec((0..shape.elements()).map(|k| 0.25 * (k % 7 + 1) as f64).collect::<Vec<_>>(), shape);
        (y * times).sum(..)
    };
    outputs.iter().map(|y| one(y)).reduce(|a, b| a + b).unwrap()
}
fn on_reference(f: impl FnOnce() -> Result<()>) {
    Device::reference().scoped(f).unwrap();
}

#[test]
fn a_hook_that_sees_or_changes_something_else() {
    on_reference(|| {
        let case = &cases("hooks")[0];
        let net = Sequential::new().add(Linear::new(3, 4)?).add(Tanh::default()).add(Linear::new(4, 2)?);
        net.cast(DType::F64)?;
        net.load_state_dict(&state(&case["state"]))?;
        let saw: Arc<Mutex<Vec<(&'static str, Tensor)>>> = Arc::default();
        let note = |seen: &Arc<Mutex<Vec<(&'static str, Tensor)>>>| {
            let seen = seen.clone();
            move |what: &'static str, t: &Tensor| seen.lock().unwrap().push((what, t.clone()))
        };
        let at = |path: &str| Ok::<_, Error>(net.get_submodule(path)?.site()?.clone());
        let see = note(&saw);
        at("0")?.register_forward_pre_hook(move |_, x| {
            see("pre", &x[0]);
            Ok(Some(vec![&x[0] * 2.0]))
        })?;
        let see = note(&saw);
        at("1")?.register_forward_hook(move |_, x, y| {
            see("forward in", &x[0]);
            see("forward out", &y[0]);
            Ok(Some(vec![&y[0] + 0.5]))
        })?;
        let see = note(&saw);
        at("2")?.register_full_backward_pre_hook(move |_, g| {
            see("backward pre", g[0].as_ref().unwrap());
            Ok(Some(vec![g[0].as_ref().map(|g| g * 3.0)]))
        })?;
        let see = note(&saw);
        at("1")?.register_full_backward_hook(move |_, inputs, outputs| {
            see("backward in", inputs[0].as_ref().unwrap());
            see("backward out", outputs[0].as_ref().unwrap());
            Ok(Some(vec![inputs[0].as_ref().map(|g| g * 5.0)]))
        })?;
        net.named_parameters()[2].1.register_hook(|g| Some(-g))?;
        let hidden: Arc<Mutex<Vec<Tensor>>> = Arc::default();
        let keep = hidden.clone();
        at("0")?.register_forward_hook(move |_, _, y| {
            y[0].register_hook(|g| Some(g + 0.125))?;
            y[0].retain_grad()?;
            keep.lock().unwrap().push(y[0].clone());
            Ok(None)
        })?;
        let x = tensor(&case["x"]).tracked();
        let y = net.forward(&x)?;
        let grads = weighted(&[&y]).backward()?;
        let mut wrong = Wrong::default();
        wrong.near("output", &y, &case["y"]);
        wrong.gradients("net", &net, &grads, &case["grads"]);
        wrong.near("gradient of the input", grads.get(&x).unwrap(), &case["x grad"]);
        wrong.near("retained gradient", grads.get(&hidden.lock().unwrap()[0]).unwrap(), &case["hidden grad"]);
        let seen = saw.lock().unwrap();
        assert_eq!(seen.len(), 6);
        seen.iter().for_each(|(what, t)| wrong.near(what, t, &case["saw"][what]));
        // A first layer whose input is not tracked.
        let plain = Linear::new(2, 2)?;
        plain.cast(DType::F64)?;
        plain.load_state_dict(&state(&case["plain"]))?;
        let untracked: Arc<Mutex<Vec<(bool, Tensor)>>> = Arc::default();
        let note = untracked.clone();
        plain.register_full_backward_hook(move |_, inputs, outputs| {
            note.lock().unwrap().push((inputs[0].is_none(), outputs[0].clone().unwrap()));
            Ok(None)
        })?;
        let grads = weighted(&[&plain.forward(&tensor(&case["x2"]))?]).backward()?;
        wrong.gradients("plain", &plain, &grads, &case["plain grads"]);
        let untracked = untracked.lock().unwrap();
        assert_eq!((untracked.len(), untracked[0].0), (1, case["saw"]["untracked"][0].as_bool().unwrap()));
        wrong.near("gradient of an untracked layer's output", &untracked[0].1, &case["saw"]["untracked"][1]);
        wrong.done();
        Ok(())
    });
}

fn lazy(name: &str) -> Result<Box<dyn Module>> {
    let running = BatchNormOptions { affine: true, track_running_stats: true, ..BatchNormOptions::default() };
    let groups = || ConvOptions { groups: 2, ..Default::default() };
    let transposed = || ConvTransposeOptions { conv: functional::ConvTransposeOptions { groups: 2, ..Default::default() }, ..Default::default() };
    Ok(match name {
        "LazyLinear" => Box::new(Linear::lazy(4)?),
        "LazyConv1d" => Box::new(Conv1d::lazy(4, 3, ConvOptions::default())?),
        "LazyConv2d" => Box::new(Conv2d::lazy(4, 3, groups())?),
        "LazyConv3d" => Box::new(Conv3d::lazy(4, 2, ConvOptions::default())?),
        "LazyConvTranspose1d" => Box::new(ConvTranspose1d::lazy(4, 3, ConvTransposeOptions::default())?),
        "LazyConvTranspose2d" => Box::new(ConvTranspose2d::lazy(4, 3, transposed())?),
        "LazyConvTranspose3d" => Box::new(ConvTranspose3d::lazy(4, 2, ConvTransposeOptions::default())?),
        "LazyBatchNorm1d" => Box::new(BatchNorm1d::lazy(running)?),
        "LazyBatchNorm2d" => Box::new(BatchNorm2d::lazy(running)?),
        "LazyBatchNorm3d" => Box::new(BatchNorm3d::lazy(running)?),
        "LazyInstanceNorm1d" => Box::new(InstanceNorm1d::lazy(running)?),
        "LazyInstanceNorm2d" => Box::new(InstanceNorm2d::lazy(running)?),
        "LazyInstanceNorm3d" => Box::new(InstanceNorm3d::lazy(running)?),
        other => panic!("no layer {other}"),
    })
}
#[test]
fn a_lazy_layer_that_becomes_another() {
    on_reference(|| {
        let (cases, mut wrong) = (cases("lazy"), Wrong::default());
        assert_eq!(cases.len(), 13);
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            // By its first input, and by a state dict.
            let (by_input, by_state) = (lazy(name)?, lazy(name)?);
            let mut all = names(&case["state"]);
            all.sort();
            for layer in [&by_input, &by_state] {
                let mut own: Vec<String> = layer.state_dict().into_iter().map(|(name, _)| name).collect();
                own.sort();
                assert_eq!(own, all, "{name}");
                let (_, first) = &layer.named_parameters()[0];
                let error = first.detached().to_vec::<f32>().unwrap_err().to_string();
                assert!(error.contains("`weight` has no value yet") && error.contains("load a state dict"), "{error}");
                layer.cast(DType::F64)?;
            }
            by_input.forward(&tensor(&case["x"]))?;
            by_input.load_state_dict(&state(&case["state"]))?;
            wrong.near(&format!("{name} by its input"), &by_input.forward(&tensor(&case["x"]))?, &case["y"]);
            by_state.load_state_dict(&state(&case["state"]))?;
            wrong.near(&format!("{name} by a state dict"), &by_state.forward(&tensor(&case["x"]))?, &case["y"]);
        }
        wrong.done();
        Ok(())
    });
}

/// A layer with its parametrization, as the case's first word, layer and options say.
fn parametrized(name: &str, plain: &[(String, Tensor)]) -> Result<Box<dyn Module>> {
    let size = |k: usize, axis: usize| plain[k].1.shape().map(|s| s[axis]);
    let weight = plain.iter().position(|(n, _)| n == "weight").unwrap_or(0);
    let words: Vec<&str> = name.split(' ').collect();
    let layer: Box<dyn Module> = match words[1] {
        "conv" => Box::new(Conv2d::new(2, 3, 2)?),
        "transposed" if words[0] == "weight_norm" => Box::new(ConvTranspose1d::new(2, 3, 2)?),
        "transposed" => Box::new(ConvTranspose2d::new(2, 3, 2)?),
        "lstm" => Box::new(Lstm::new(2, 3)?),
        _ => Box::new(Linear::new(size(weight, 1)?, size(weight, 0)?)?),
    };
    layer.cast(DType::F64)?;
    layer.load_state_dict(plain)?;
    let spectral = SpectralNormOptions::default();
    match name {
        "weight_norm linear none" => weight_norm(&layer, "weight", None)?,
        "weight_norm transposed 1" => weight_norm(&layer, "weight", Some(1))?,
        "weight_norm lstm 0" => weight_norm(&layer, "weight_hh_l0", Some(0))?,
        "spectral_norm linear 1 3" => spectral_norm(&layer, "weight", SpectralNormOptions { dim: Some(1), n_power_iterations: 3, ..spectral })?,
        "spectral_norm bias" => spectral_norm(&layer, "bias", spectral)?,
        "orthogonal cayley" => orthogonal(&layer, "weight", OrthogonalOptions { map: Some(OrthogonalMap::Cayley), ..Default::default() })?,
        "orthogonal exp wide" => orthogonal(&layer, "weight", OrthogonalOptions { map: Some(OrthogonalMap::MatrixExp), ..Default::default() })?,
        "orthogonal plain exp" => orthogonal(&layer, "weight", OrthogonalOptions { use_trivialization: false, ..Default::default() })?,
        _ if words[0] == "weight_norm" => weight_norm(&layer, "weight", Some(0))?,
        _ if words[0] == "spectral_norm" => spectral_norm(&layer, "weight", spectral)?,
        _ => orthogonal(&layer, "weight", OrthogonalOptions::default())?,
    }
    Ok(layer)
}
#[test]
fn a_parametrization_that_computes_or_is_named_otherwise() {
    on_reference(|| {
        let (cases, mut wrong) = (cases("parametrized"), Wrong::default());
        assert_eq!(cases.len(), 16);
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            let layer = parametrized(name, &state(&case["plain"]))?;
            layer.load_state_dict(&state(&case["state"])).unwrap_or_else(|e| panic!("{name}: {e}"));
            let x = tensor(&case["x"]).tracked();
            let y = layer.forward(&x)?;
            let grads = weighted(&[&y]).backward()?;
            wrong.near(name, &y, &case["y"]);
            wrong.near(&format!("{name}: gradient of the input"), grads.get(&x).unwrap(), &case["x grad"]);
            wrong.gradients(name, &layer, &grads, &case["grads"]);
            let after = layer.state_dict();
            for (key, want) in case["after"].as_object().unwrap() {
                wrong.near(&format!("{name}: {key} afterwards"), &after.iter().find(|(n, _)| n == key).unwrap().1, want);
            }
            layer.eval();
            wrong.near(&format!("{name} in evaluation"), &layer.forward(&x)?, &case["eval y"]);
        }
        wrong.done();
        Ok(())
    });
}

/// Output, last h and last c.
type Ran = (PackedSequence, Tensor, Option<Tensor>);
type Run = Box<dyn Fn(&PackedSequence, &Tensor, Option<&Tensor>) -> Result<Ran>>;
fn recurrent(case: &Value) -> Result<(Arc<dyn Walk>, Run)> {
    let kind = case["kind"].as_str().unwrap();
    let proj_size = if kind.contains("projected") { 2 } else { 0 };
    let options = RecurrentOptions { num_layers: 2, bidirectional: case["bidirectional"].as_bool().unwrap(), proj_size, ..Default::default() };
    Ok(match kind {
        "RNN" => {
            let net = Arc::new(Rnn::with(2, 3, RnnNonlinearity::Tanh, options)?);
            (net.clone(), Box::new(move |x, h, _| net.forward_packed(x, Some(h)).map(|(y, h)| (y, h, None))))
        }
        "GRU" => {
            let net = Arc::new(Gru::with(2, 3, options)?);
            (net.clone(), Box::new(move |x, h, _| net.forward_packed(x, Some(h)).map(|(y, h)| (y, h, None))))
        }
        _ => {
            let net = Arc::new(Lstm::with(2, 3, options)?);
            (net.clone(), Box::new(move |x, h, c| net.forward_packed(x, Some((h, c.unwrap()))).map(|(y, h, c)| (y, h, Some(c)))))
        }
    })
}
#[test]
fn packed_sequences_through_a_layer_that_come_out_otherwise() {
    on_reference(|| {
        let (cases, mut wrong) = (cases("sequences"), Wrong::default());
        assert_eq!(cases.len(), 16);
        for case in &cases {
            let lengths: Vec<usize> = case["lengths"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
            let name = format!("{} {} {lengths:?}", case["kind"], case["bidirectional"]);
            let (net, run) = recurrent(case)?;
            net.cast(DType::F64)?;
            net.load_state_dict(&state(&case["state"]))?;
            let steps: Vec<Tensor> = case["steps"].as_array().unwrap().iter().map(|s| tensor(s).tracked()).collect();
            let (h0, c0) = (tensor(&case["h0"]).tracked(), case["c0"].is_array().then(|| tensor(&case["c0"]).tracked()));
            let packed = pack_sequence(&steps, lengths.is_sorted_by(|a, b| a >= b))?;
            assert_eq!(
                packed.batch_sizes.iter().map(|n| *n as u64).collect::<Vec<_>>(),
                serde_json::from_value::<Vec<u64>>(case["batch_sizes"].clone()).unwrap()
            );
            let (y, h, c) = run(&packed, &h0, c0.as_ref())?;
            let (padded, back) = pad_packed_sequence(&y, false, -1.5, Some(5))?;
            assert_eq!(back, lengths, "{name}");
            let outputs: Vec<&Tensor> = [&padded, &h].into_iter().chain(&c).collect();
            let grads = weighted(&outputs).backward()?;
            wrong.near(&format!("{name}: output"), &padded, &case["y"]);
            wrong.near(&format!("{name}: h"), &h, &case["h"]);
            if let Some(c) = &c {
                wrong.near(&format!("{name}: c"), c, &case["c"]);
            }
            wrong.gradients(&name, &*net, &grads, &case["grads"]);
            wrong.near(&format!("{name}: gradient of h0"), grads.get(&h0).unwrap(), &case["h0 grad"]);
            for (s, want) in steps.iter().zip(case["step grads"].as_array().unwrap()) {
                wrong.near(&format!("{name}: gradient of a sequence"), grads.get(s).unwrap(), want);
            }
        }
        wrong.done();
        Ok(())
    });
}
#[test]
fn padding_on_another_side_or_rows_in_another_order() {
    on_reference(|| {
        let (case, mut wrong) = (&cases("paddings")[0], Wrong::default());
        let steps: Vec<Tensor> = case["steps"].as_array().unwrap().iter().map(tensor).collect();
        for (k, (first, side)) in [(true, PaddingSide::Right), (false, PaddingSide::Right), (true, PaddingSide::Left)].into_iter().enumerate() {
            wrong.near("padded", &pad_sequence(&steps, first, 0.5, side)?, &case["padded"][k]);
        }
        let packed = pack_sequence(&steps, false)?;
        wrong.near("packed", &packed.data, &case["data"]);
        let numbers = |v: Option<Vec<usize>>| serde_json::to_value(v).unwrap();
        assert_eq!((numbers(packed.sorted_indices.clone()), numbers(packed.unsorted_indices())), (case["sorted"].clone(), case["unsorted"].clone()));
        for (back, step) in unpack_sequence(&packed)?.iter().zip(&steps) {
            assert_eq!(back.to_vec::<f64>()?, step.to_vec::<f64>()?);
        }
        wrong.done();
        Ok(())
    });
}

fn outputs_of(case: &Value, x: &[Tensor], adaptive: &AdaptiveLogSoftmaxWithLoss) -> Result<Vec<Tensor>> {
    let two = |(y, at): (Tensor, Tensor)| vec![y, at];
    let running = |k: usize| Cell::new(&tensor(&case["running before"][k]), false);
    Ok(match case["name"].as_str().unwrap() {
        "AdaptiveLogSoftmaxWithLoss" => two(adaptive.forward(&x[0], &x[1])?),
        "CrossMapLRN2d 3" => vec![CrossMapLrn2d::with(3, 0.3, 0.75, 1.5).forward(&x[0])?],
        "CrossMapLRN2d 4" => vec![CrossMapLrn2d::with(4, 0.3, 0.75, 1.5).forward(&x[0])?],
        "fractional_max_pool2d" => two(fractional_max_pool(&x[0], &FractionalMaxPoolOptions { kernel_size: [3, 2].into(), output_size: [3, 4].into() }, &x[1])),
        "fractional_max_pool3d" => two(fractional_max_pool(&x[0], &FractionalMaxPoolOptions { kernel_size: 2.into(), output_size: [2, 3, 2].into() }, &x[1])),
        "MaxUnpool1d" => {
            let (y, at) = MaxPool1d::new(2).forward_indices(&x[0])?;
            vec![MaxUnpool1d::new(2).forward(&y, &at, None)?]
        }
        "MaxUnpool2d" => {
            let pool = functional::MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..functional::MaxPoolOptions::new(3) };
            let (y, at) = MaxPool2d::with(pool).forward_indices(&x[0])?;
            vec![MaxUnpool2d::with(3, Some(2.into()), 1).forward(&y, &at, None)?]
        }
        "MaxUnpool3d" => {
            let (y, at) = MaxPool3d::new(2).forward_indices(&x[0])?;
            vec![MaxUnpool3d::new(2).forward(&y, &at, None)?]
        }
        "LPPool1d" => vec![LpPool1d::new(3.0, 2).forward(&x[0])?],
        "LPPool2d" => vec![LpPool2d::with(2.0, 2, Some(1.into()), false).forward(&x[0])?],
        "LPPool3d" => vec![LpPool3d::with(2.0, 2, None, true).forward(&x[0])?],
        "conv_tbc" => vec![conv_tbc(&x[0], &x[1], &x[2], 1)],
        "batch_norm" => {
            let (mean, var) = (running(0)?, running(1)?);
            let options = functional::BatchNormOptions { training: true, momentum: 0.3, ..Default::default() };
            let y = batch_norm(&x[0], Some((&mean, &var)), Some(&x[1]), Some(&x[2]), options);
            let mut wrong = Wrong::default();
            wrong.near("running mean", &mean.detached(), &case["running after"][0]);
            wrong.near("running variance", &var.detached(), &case["running after"][1]);
            wrong.done();
            vec![y]
        }
        "batch_norm eval" => vec![batch_norm(&x[0], Some((&running(0)?, &running(1)?)), Some(&x[1]), Some(&x[2]), functional::BatchNormOptions::default())],
        other => panic!("no layer {other}"),
    })
}
#[test]
fn a_layer_or_gradient_that_is_not_pytorchs() {
    on_reference(|| {
        let (cases, mut wrong) = (cases("layers"), Wrong::default());
        assert_eq!(cases.len(), 14);
        let adaptive = AdaptiveLogSoftmaxWithLoss::new(8, 12, &[3, 7], AdaptiveLogSoftmaxOptions { div_value: 2.0, head_bias: true })?;
        adaptive.cast(DType::F64)?;
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            if name == "AdaptiveLogSoftmaxWithLoss" {
                adaptive.load_state_dict(&state(&case["state"]))?;
            }
            let x: Vec<Tensor> =
                case["inputs"].as_array().unwrap().iter().map(tensor).map(|t| if t.dtype().unwrap().is_float() { t.tracked() } else { t }).collect();
            let outputs = outputs_of(case, &x, &adaptive)?;
            for (k, (y, want)) in outputs.iter().zip(case["outputs"].as_array().unwrap()).enumerate() {
                wrong.near(&format!("{name}: output {k}"), y, want);
            }
            let floats: Vec<&Tensor> = outputs.iter().filter(|y| y.dtype().unwrap().is_float()).collect();
            let grads = weighted(&floats).backward()?;
            for (k, want) in case["grads"].as_array().unwrap().iter().enumerate().filter(|(_, want)| want.is_array()) {
                let got = grads.get(&x[k]).cloned().unwrap_or_else(|| x[k].zeros_like());
                wrong.near(&format!("{name}: gradient {k}"), &got, want);
            }
            if name == "AdaptiveLogSoftmaxWithLoss" {
                wrong.gradients(name, &adaptive, &grads, &case["parameter grads"]);
            }
        }
        wrong.done();
        let beyond = adaptive.forward(&Tensor::zeros([2, 8]).cast(DType::F64), &Tensor::from_slice(&[0i64, 12], [2]))?.1;
        assert!(beyond.item::<f64>().is_err(), "a class that there is not");
        Ok(())
    });
}
