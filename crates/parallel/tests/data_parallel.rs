//! Several devices in one process: loss and gradients of one device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{DType, Result, Tensor};
use adamant_nn::{BatchNorm1d, Dropout, Linear, Module, Relu, Sequential, Walk, manual_seed, parametrize::weight_norm};
use adamant_parallel::{DataParallel, DataParallelOptions};
use ranks::{Gpt, Numbers, alone, device, difference, loss_of, numbers, perceptron, read, tolerance};

fn gradients(model: &impl Walk, loss: &Tensor) -> (f64, Numbers) {
    alone(model, loss).unwrap()
}
#[test]
fn parts_of_the_rows_give_the_loss_and_gradients_of_all() {
    device().make_current();
    let names = ["cpu:0", "cpu:1", "cpu:2", "cpu:3"];
    for dtype in [DType::F32, DType::F64] {
        for devices in 1..=4 {
            for rows in [1, 2, 3, 5, 8] {
                let (ids, target) = Gpt::default().ids(rows, 3 + rows as u64);
                let gpt = Gpt { dtype, seed: devices as u64, ..Gpt::default() };
                let (plain, parallel) = (gpt.model().unwrap(), DataParallel::new(gpt.model().unwrap(), &names[..devices]).unwrap());
                let (loss, want) = gradients(&plain, &loss_of(&plain.forward(&ids).unwrap(), &target).unwrap());
                let (got_loss, got) = gradients(&parallel, &loss_of(&parallel.forward(&ids).unwrap(), &target).unwrap());
                let by = difference(&got, &want);
                assert!((got_loss - loss).abs() <= tolerance(dtype) && by <= tolerance(dtype), "{devices} devices, {rows} rows, {dtype}: {by:e}");
            }
        }
    }
}
#[test]
fn gradients_of_the_input_of_other_axes_and_of_devices_that_are_other_ones() {
    device().make_current();
    for (names, output) in [(&["cpu:0", "reference"][..], None), (&["cpu:0", "cpu:1", "reference:1"], Some("reference")), (&["cpu", "cpu:0"], Some("cpu:1"))] {
        let options = DataParallelOptions { dim: 1, output_device: output.map(str::to_string) };
        let x = numbers(3, &[2, 5, 6], DType::F32);
        let plain = perceptron(1, DType::F32).unwrap();
        let (leaf, own) = (x.tracked(), x.tracked());
        let (_, mut want) = gradients(&plain, &plain.forward(&leaf).unwrap().square().sum(..));
        let grads = plain.forward(&leaf).unwrap().square().sum(..).backward().unwrap();
        want.push(("x".into(), read(grads.get(&leaf).unwrap()).unwrap()));
        let parallel = DataParallel::with(perceptron(1, DType::F32).unwrap(), names, options).unwrap();
        let y = parallel.forward(&own).unwrap();
        assert_eq!((y.dims::<3>().unwrap(), y.device().unwrap().is_reference()), ([2, 5, 5], output == Some("reference")));
        let (_, mut got) = gradients(&parallel, &y.square().sum(..));
        got.push(("x".into(), read(parallel.forward(&own).unwrap().square().sum(..).backward().unwrap().get(&own).unwrap()).unwrap()));
        assert!(difference(&got, &want) < 1e-5, "{names:?}: {:e}", difference(&got, &want));
    }
}
#[test]
fn copies_follow_the_model_and_the_first_writes_its_statistics() -> Result<()> {
    device().make_current();
    manual_seed(1);
    let model = Sequential::new()
        .add_named("fc", Linear::new(4, 4)?)
        .add_named("norm", BatchNorm1d::new(4)?)
        .add(Relu::new())
        .add_named("drop", Dropout::new(0.5)?)
        .add_named("out", Linear::new(4, 2)?);
    weight_norm(&model, "out.weight", Some(0))?;
    model.get_submodule("fc")?.parameter("bias").unwrap().set_frozen(true);
    let plain = model.deep_copy()?;
    let parallel = DataParallel::new(model, &["cpu:0", "cpu:1"])?;
    assert_eq!(
        parallel.named_parameters().iter().map(|(n, _)| n.clone()).collect::<Vec<_>>(),
        plain.named_parameters().iter().map(|(n, _)| n.clone()).collect::<Vec<_>>()
    );
    let x = numbers(1, &[6, 4], DType::F32);
    parallel.forward(&x)?;
    plain.forward(&x.narrow(0, 0, 3))?;
    let buffers =
        |model: &dyn Fn() -> Vec<(String, adamant_nn::Param)>| model().into_iter().map(|(n, p)| (n, read(&p.detached()).unwrap())).collect::<Numbers>();
    assert_eq!(buffers(&|| parallel.named_buffers()), buffers(&|| plain.named_buffers()));
    // Evaluating, all rows alike; after a step of the parameters too.
    parallel.eval();
    plain.eval();
    for _ in 0..2 {
        let (a, b) = (parallel.forward(&x)?.to_vec::<f32>()?, plain.forward(&x)?.to_vec::<f32>()?);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6));
        let grads = parallel.forward(&x)?.square().sum(..).backward()?;
        assert_eq!(grads.len(), parallel.trainable_parameters().len());
        for (p, q) in parallel.parameters().into_iter().zip(plain.parameters()) {
            let moved = p.detached() * 0.5 + 0.1;
            p.set(&moved)?;
            q.set(&moved)?;
        }
    }
    Ok(())
}
#[test]
fn what_is_no_device_is_named() {
    device().make_current();
    let made = |names: &[&str]| DataParallel::new(Linear::new(2, 2).unwrap(), names).err().unwrap().to_string();
    assert!(made(&[]).contains("no devices"));
    assert!(made(&["cpu:0", "cpu:x"]).contains("`cpu:x` is no device"));
    assert!(made(&["cpu:0", "cuda:1"]).contains("cuda"));
    assert!(made(&["abacus:0"]).contains("abacus"));
    let parallel = DataParallel::new(Linear::new(2, 2).unwrap(), &["cpu:0", "cpu:1"]).unwrap();
    assert!(parallel.forward(&Tensor::zeros(())).unwrap_err().to_string().contains("axis 0 that is shared out"));
    assert_eq!(parallel.forward(&Tensor::zeros([0, 2])).unwrap().dims::<2>().unwrap(), [0, 2]);
    let lazy = DataParallel::new(Linear::lazy(2).unwrap(), &["cpu:0", "cpu:1"]).err().unwrap().to_string();
    assert!(lazy.contains("no value yet"), "{lazy}");
}
