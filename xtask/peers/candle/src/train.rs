//! Training steps in Candle: forward, loss, backward, optimizer step, the loss read as a number.
use crate::{ids, tensor};
use candle_core::{Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss::cross_entropy};
use peer_protocol::{Fallible, Ready};
use std::{cell::RefCell, rc::Rc};

/// A parameter of numbers within ±1/√fan_in.
fn parameter(all: &mut Vec<Var>, shape: &[usize], fan_in: usize) -> Result<Tensor> {
    let seed = 1001 + all.len() as u64;
    let var = Var::from_tensor(&(tensor(shape, seed)? / (fan_in as f64).sqrt())?)?;
    let handle = var.as_tensor().clone();
    all.push(var);
    Ok(handle)
}
/// An `[out, in]` matrix and a bias.
#[derive(Clone)]
struct Dense(Tensor, Tensor);
impl Dense {
    fn new(all: &mut Vec<Var>, i: usize, o: usize) -> Result<Dense> {
        Ok(Dense(parameter(all, &[o, i], i)?, parameter(all, &[o], i)?))
    }
    fn of(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.0.t()?)?.broadcast_add(&self.1)
    }
}
fn dense(all: &mut Vec<Var>, sizes: &[usize]) -> Result<Vec<Dense>> {
    sizes.windows(2).map(|io| Dense::new(all, io[0], io[1])).collect()
}
fn forward(layers: &[Dense], x: &Tensor) -> Result<Tensor> {
    let (last, before) = layers.split_last().ok_or_else(|| candle_core::Error::Msg("no layers".into()))?;
    let mut h = x.clone();
    for layer in before {
        h = layer.of(&h)?.relu()?;
    }
    last.of(&h)
}
/// A step of Adam, which is AdamW without decay.
fn trained(all: Vec<Var>, loss: impl Fn() -> Result<Tensor> + 'static) -> Fallible<Ready> {
    let mut optimizer = AdamW::new(all, ParamsAdamW { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 })?;
    let step = Rc::new(RefCell::new(move || -> Result<f32> {
        let loss = loss()?;
        optimizer.backward_step(&loss)?;
        loss.to_scalar::<f32>()
    }));
    let again = step.clone();
    let ready = Ready::new(move || {
        std::hint::black_box((step.borrow_mut())()?);
        Ok(())
    });
    // The losses of three steps: what forward, backward and the optimizer give.
    Ok(ready.shown(move || Ok((0..3).map(|_| (again.borrow_mut())()).collect::<Result<Vec<f32>>>()?)))
}

/// Three small layers, mean of squares, forward and backward.
pub fn tiny_mlp() -> Fallible<Ready> {
    let mut all = Vec::new();
    let (layers, x) = (dense(&mut all, &[16, 16, 16, 1])?, tensor(&[1, 16], 1)?);
    let passes = move || -> Result<_> {
        let loss = forward(&layers, &x)?.sqr()?.mean_all()?;
        let grads = loss.backward()?;
        Ok((loss, grads))
    };
    let again = passes.clone();
    let ready = Ready::new(move || {
        std::hint::black_box(passes()?);
        Ok(())
    });
    // The loss and all gradients.
    Ok(ready.shown(move || {
        let (loss, grads) = again()?;
        let mut values = vec![loss.to_scalar::<f32>()?];
        for var in &all {
            values.extend(grads.get(var.as_tensor()).ok_or("no gradient")?.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(values)
    }))
}
/// 784, 512, 256, 10.
pub fn mlp() -> Fallible<Ready> {
    let mut all = Vec::new();
    let (layers, x, y) = (dense(&mut all, &[784, 512, 256, 10])?, tensor(&[128, 784], 1)?, ids(&[128], 10)?);
    trained(all, move || cross_entropy(&forward(&layers, &x)?, &y))
}
/// Two convolutions, a maximum, two dense layers.
pub fn lenet() -> Fallible<Ready> {
    let mut all = Vec::new();
    let mut kernel = |i: usize, o: usize| -> Result<(Tensor, Tensor)> {
        let weight = parameter(&mut all, &[o, i, 3, 3], 9 * i)?;
        Ok((weight, parameter(&mut all, &[o], 9 * i)?.reshape((1, o, 1, 1))?))
    };
    let kernels = [kernel(1, 32)?, kernel(32, 64)?];
    let layers = dense(&mut all, &[9216, 128, 10])?;
    let (x, y) = (tensor(&[128, 1, 28, 28], 1)?, ids(&[128], 10)?);
    trained(all, move || {
        let mut h = x.clone();
        for (w, b) in &kernels {
            h = h.conv2d(w, 0, 1, 1, 1)?.broadcast_add(b)?.relu()?;
        }
        cross_entropy(&forward(&layers, &h.max_pool2d(2)?.flatten_from(1)?)?, &y)
    })
}
