//! What may not be compiled says so: a step whose number a replay would repeat.
#![allow(clippy::unwrap_used)]
use adamant::{
    Error, Result, Tensor, compile,
    nn::{Linear, Module, Walk},
    optim::{Adam, Optimizer, UpdateRule},
};
use std::sync::Mutex;

#[test]
fn an_optimizer_step_inside_compile_repeats_its_number() -> Result<()> {
    let model = Linear::new(3, 1)?;
    let optimizer = Mutex::new(Adam::new(0.1).over(model.parameters()));
    let train = compile(|x: &[Tensor]| {
        let loss = model.forward(&x[0])?.square().sum(..);
        optimizer.lock().unwrap().step(&loss.backward()?)?;
        Ok(vec![loss.detach()])
    });
    let error: Error = train.call(&[&Tensor::ones([4, 3])]).unwrap_err();
    assert_eq!(error.kind().word(), "argument");
    assert!(error.to_string().contains("Adam counts its steps"), "{error}");
    // Nothing has changed, and outside it steps.
    let before = model.weight.read().to_vec::<f32>()?;
    let loss = model.forward(&Tensor::ones([4, 3]))?.square().sum(..);
    optimizer.lock().unwrap().step(&loss.backward()?)?;
    assert_ne!(model.weight.read().to_vec::<f32>()?, before);
    Ok(())
}
