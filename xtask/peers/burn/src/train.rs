//! Training steps in Burn: forward, loss, backward, optimizer step, the loss read as a number.
use crate::{ids, tensor};
use burn::{
    module::{Module, Param},
    nn::{
        Linear, LinearConfig,
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Tensor, TensorData, activation::relu},
};
use peer_protocol::{Fallible, Ready, uniform};
use std::{cell::RefCell, rc::Rc};

/// Dense layers with a rectifier between them.
#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}
impl Mlp {
    fn new(sizes: &[usize], device: &Device) -> Mlp {
        Mlp::seeded(sizes, 1001, device)
    }
    fn seeded(sizes: &[usize], seed: u64, device: &Device) -> Mlp {
        let mut net = Mlp { layers: sizes.windows(2).map(|io| LinearConfig::new(io[0], io[1]).init(device)).collect() };
        begin(&mut net, sizes, seed, device);
        net
    }
    fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        for (k, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if k + 1 < self.layers.len() {
                x = relu(x);
            }
        }
        x
    }
}
/// The numbers from which all runners begin: within 1/√fan_in, each parameter from its own stream.
fn bounded(n: usize, seed: u64, fan_in: usize) -> Vec<f32> {
    uniform(n, seed).into_iter().map(|x| x / (fan_in as f32).sqrt()).collect()
}
fn parameter<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(numbers, shape), device).require_grad())
}
/// Dense layers from `[out, in]` numbers, which this library stores transposed.
fn begin(net: &mut Mlp, sizes: &[usize], seed: u64, device: &Device) {
    for (k, (layer, io)) in net.layers.iter_mut().zip(sizes.windows(2)).enumerate() {
        let ([i, o], seed) = ([io[0], io[1]], seed + 2 * k as u64);
        let rows = bounded(i * o, seed, i);
        let transposed = (0..i * o).map(|at| rows[at % o * i + at / o]).collect();
        layer.weight = parameter(transposed, [i, o], device);
        layer.bias = Some(parameter(bounded(o, seed + 1, i), [o], device));
    }
}
fn begin_convolution(layer: &mut Conv2d, [i, o]: [usize; 2], seed: u64, device: &Device) {
    layer.weight = parameter(bounded(9 * i * o, seed, 9 * i), [o, i, 3, 3], device);
    layer.bias = Some(parameter(bounded(o, seed + 1, 9 * i), [o], device));
}
/// Two convolutions, a maximum, dense layers.
#[derive(Module, Debug)]
struct LeNet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    head: Mlp,
}
impl LeNet {
    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let h = relu(self.second.forward(relu(self.first.forward(x))));
        self.head.forward(self.pool.forward(h).flatten(1, 3))
    }
}
/// A step of Adam; the network is given to the optimizer and taken back, as in a training loop.
fn trained<M: Module + 'static>(net: M, loss: impl Fn(&M) -> Tensor<1> + 'static) -> Fallible<Ready> {
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let mut held = Some(net);
    let step = Rc::new(RefCell::new(move || -> Fallible<f32> {
        let net = held.take().ok_or("the network is gone")?;
        let loss = loss(&net);
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        held = Some(optimizer.step(1e-3, net, grads));
        Ok(loss.into_scalar::<f32>())
    }));
    let again = step.clone();
    let ready = Ready::new(move || {
        std::hint::black_box((step.borrow_mut())()?);
        Ok(())
    });
    // The losses of three steps: what forward, backward and the optimizer give.
    Ok(ready.shown(move || (0..3).map(|_| (again.borrow_mut())()).collect()))
}
/// Three small layers, mean of squares, forward and backward.
pub fn tiny_mlp() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let (net, x) = (Mlp::new(&[16, 16, 16, 1], &device), tensor([1, 16], 1, &device));
    let net = Rc::new(net);
    let shown = net.clone();
    let passes = move || {
        let y = net.forward(x.clone());
        let loss = (y.clone() * y).mean();
        let grads = loss.backward();
        (loss, grads)
    };
    let again = passes.clone();
    let ready = Ready::new(move || {
        std::hint::black_box(passes());
        Ok(())
    });
    // The loss and all gradients, weights as `[out, in]`.
    Ok(ready.shown(move || {
        let (loss, grads) = again();
        let mut values = vec![loss.into_scalar::<f32>()];
        for layer in &shown.layers {
            values.extend(numbers(layer.weight.val().grad(&grads).ok_or("no gradient")?.transpose())?);
            let bias = layer.bias.as_ref().ok_or("no bias")?;
            values.extend(numbers(bias.val().grad(&grads).ok_or("no gradient")?)?);
        }
        Ok(values)
    }))
}
fn numbers<const D: usize>(t: Tensor<D>) -> Fallible<Vec<f32>> {
    Ok(t.into_data().to_vec::<f32>().map_err(|e| format!("{e:?}"))?)
}
/// Logits as a leaf of the tape; the mean over all rows.
pub fn cross_entropy() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let (logits, target) = (tensor([2048, 50257], 1, &device).require_grad(), ids([2048], 50257, &device));
    let loss = CrossEntropyLossConfig::new().init(&device);
    let backward = move || logits.grad(&loss.forward(logits.clone(), target.clone()).backward());
    let again = backward.clone();
    let ready = Ready::new(move || {
        std::hint::black_box(backward());
        Ok(())
    });
    // Of the gradient one row, which is not the first: its own class stands at the first place.
    Ok(ready.shown(move || numbers(again().ok_or("no gradient")?.slice([1..2, 0..50257]))))
}
/// 784, 512, 256, 10.
pub fn mlp() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let (x, y) = (tensor([128, 784], 1, &device), ids([128], 10, &device));
    let loss = CrossEntropyLossConfig::new().init(&device);
    trained(Mlp::new(&[784, 512, 256, 10], &device), move |net: &Mlp| loss.forward(net.forward(x.clone()), y.clone()))
}
/// The network of digits.
pub fn lenet() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let mut net = LeNet {
        first: Conv2dConfig::new([1, 32], [3, 3]).init(&device),
        second: Conv2dConfig::new([32, 64], [3, 3]).init(&device),
        pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        head: Mlp::seeded(&[9216, 128, 10], 1005, &device),
    };
    begin_convolution(&mut net.first, [1, 32], 1001, &device);
    begin_convolution(&mut net.second, [32, 64], 1003, &device);
    let (x, y) = (tensor([128, 1, 28, 28], 1, &device), ids([128], 10, &device));
    let loss = CrossEntropyLossConfig::new().init(&device);
    trained(net, move |net: &LeNet| loss.forward(net.forward(x.clone()), y.clone()))
}
