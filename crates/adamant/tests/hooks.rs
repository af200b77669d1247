//! Hooks in captured functions: what they compute is part of the plan, and a capture is good only for the hooks it was made with.
#![allow(clippy::unwrap_used)]
use adamant::{
    DType, Result, Tensor, compile,
    nn::{
        Linear, Module, Relu, Sequential, Walk,
        parametrize::{SpectralNormOptions, remove_parametrizations, spectral_norm, weight_norm},
    },
};
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// A hook of all modules is one of the other tests' models too: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}
fn model() -> Result<Sequential> {
    let model = Sequential::new().add(Linear::new(3, 4)?).add(Relu::new()).add(Linear::new(4, 1)?);
    for (k, p) in model.parameters().iter().enumerate() {
        let n = p.elements();
        p.set(&Tensor::from_vec((0..n).map(|i| ((i * 5 + k) % 7) as f32 / 7.0 - 0.3).collect(), p.meta().shape))?;
    }
    Ok(model)
}
/// Output and the gradients of the parameters, flat.
fn both(model: &Sequential, x: &Tensor) -> Result<Vec<Tensor>> {
    let y = model.forward(x)?;
    let grads = y.square().sum(..).backward()?;
    let all: Vec<Tensor> = model.parameters().iter().filter_map(|p| Some(grads.of(&p.cell())?.reshape([p.elements()]))).collect();
    Ok(vec![y.detach(), Tensor::cat(&all.iter().collect::<Vec<_>>(), 0)])
}
fn near(what: &str, got: &[Tensor], want: &[Tensor]) -> Result<()> {
    for (g, w) in got.iter().zip(want) {
        let (g, w) = (g.to_vec::<f32>()?, w.to_vec::<f32>()?);
        assert!(g.len() == w.len() && g.iter().zip(&w).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs())), "{what}: {g:?}, not {w:?}");
    }
    Ok(())
}
#[test]
fn a_hook_that_a_captured_step_drops_or_keeps_too_long() -> Result<()> {
    let _alone = alone();
    let model = model()?;
    let x = Tensor::from_vec((0..6).map(|v| v as f32 / 3.0 - 0.5).collect(), [2, 3]);
    let captured = compile(|x: &[Tensor]| both(&model, &x[0]));
    let check = |what: &str| -> Result<()> {
        for _ in 0..3 {
            let got: Vec<Tensor> = captured.call(&[&x])?.into_iter().collect();
            near(what, &got, &both(&model, &x)?)?;
        }
        Ok(())
    };
    check("without hooks")?;
    let captures = captured.captures().sizes;
    check("again")?;
    assert_eq!(captured.captures().sizes, captures, "a capture is used while the hooks stay");
    let plain = both(&model, &x)?[0].to_vec::<f32>()?;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let forward = model.get_submodule("1")?.site()?.register_forward_hook(move |_, _, y| {
        count.fetch_add(1, Relaxed);
        Ok(Some(vec![&y[0] * 2.0]))
    })?;
    check("a forward hook")?;
    assert_ne!(both(&model, &x)?[0].to_vec::<f32>()?, plain);
    assert_eq!(calls.load(Relaxed), 3 + 1 + 1, "three plain calls, one capture, and the one above");
    let backward = model.register_full_backward_pre_hook(|_, g| Ok(Some(vec![g[0].as_ref().map(|g| g * -3.0)])))?;
    check("a backward hook")?;
    let parameter = model.parameters()[0].register_hook(|g| Some(g * 7.0))?;
    check("a parameter's hook")?;
    let global = adamant::nn::hooks::register_module_forward_pre_hook(|site, x| Ok((site.kind() == "ReLU").then(|| vec![&x[0] + 1.0])));
    check("a hook of all modules")?;
    for (what, handle) in [("forward", forward), ("backward", backward), ("parameter", parameter), ("global", global)] {
        handle.remove();
        check(&format!("without the {what} hook"))?;
    }
    assert_eq!(both(&model, &x)?[0].to_vec::<f32>()?, plain);
    Ok(())
}
#[test]
fn a_hook_that_reads_in_a_capture_and_is_not_refused() -> Result<()> {
    let _alone = alone();
    let model = model()?;
    let handle = model.register_forward_hook(|_, _, y| {
        y[0].to_vec::<f32>()?;
        Ok(None)
    })?;
    let captured = compile(|x: &[Tensor]| Ok(vec![model.forward(&x[0])?]));
    let x = Tensor::ones([2, 3]);
    let error = captured.call(&[&x]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind().word(), "capture", "{error}");
    handle.remove();
    captured.call(&[&x])?;
    Ok(())
}
#[test]
fn a_parametrization_or_lazy_layer_that_a_capture_does_not_know() -> Result<()> {
    let _alone = alone();
    let model = model()?;
    let x = Tensor::from_vec((0..6).map(|v| v as f32 / 3.0 - 0.5).collect(), [2, 3]);
    let captured = compile(|x: &[Tensor]| both(&model, &x[0]));
    let check = |what: &str| -> Result<()> { near(what, &captured.call(&[&x])?.into_iter().collect::<Vec<_>>(), &both(&model, &x)?) };
    check("plain")?;
    weight_norm(&model, "0.weight", Some(0))?;
    check("weight_norm")?;
    let Some((_, length)) = model.named_parameters().into_iter().find(|(n, _)| n.ends_with("original0")) else { return Ok(()) };
    length.set(&(length.detached() * 3.0))?;
    check("another length")?;
    remove_parametrizations(&model, "0.weight", true)?;
    check("without")?;
    // In training each call is a step of the power method: captured as outside.
    spectral_norm(&model, "2.weight", SpectralNormOptions::default())?;
    let own = model.deep_copy()?;
    let other = compile(|x: &[Tensor]| both(&own, &x[0]));
    for k in 0..3 {
        near(&format!("call {k}"), &other.call(&[&x])?.into_iter().collect::<Vec<_>>(), &both(&model, &x)?)?;
    }
    let lazy = Linear::lazy(2)?;
    let step = compile(|x: &[Tensor]| Ok(vec![lazy.forward(&x[0])?]));
    let error = step.call(&[&x]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("while a function is compiled") && error.contains("run the model once"), "{error}");
    lazy.forward(&x)?;
    assert_eq!(step.call(&[&x])?[0].dtype()?, DType::F32);
    Ok(())
}
