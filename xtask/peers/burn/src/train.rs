//! Training steps in Burn: forward, loss, backward, optimizer step, the loss read as a number.
use crate::{ids, tensor};
use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig,
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Tensor, activation::relu},
};
use peer_protocol::{Fallible, Ready};

/// Dense layers with a rectifier between them.
#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}
impl Mlp {
    fn new(sizes: &[usize], device: &Device) -> Mlp {
        Mlp { layers: sizes.windows(2).map(|io| LinearConfig::new(io[0], io[1]).init(device)).collect() }
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
    Ok(Ready::new(move || {
        let net = held.take().ok_or("the network is gone")?;
        let loss = loss(&net);
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        held = Some(optimizer.step(1e-3, net, grads));
        std::hint::black_box(loss.into_scalar::<f32>());
        Ok(())
    }))
}
/// Three small layers, mean of squares, forward and backward.
pub fn tiny_mlp() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let (net, x) = (Mlp::new(&[16, 16, 16, 1], &device), tensor([1, 16], 1, &device));
    Ok(Ready::new(move || {
        let y = net.forward(x.clone());
        std::hint::black_box((y.clone() * y).mean().backward());
        Ok(())
    }))
}
/// Logits as a leaf of the tape; the mean over all rows.
pub fn cross_entropy() -> Fallible<Ready> {
    let device = Device::flex().autodiff();
    let (logits, target) = (tensor([2048, 50257], 1, &device).require_grad(), ids([2048], 50257, &device));
    let loss = CrossEntropyLossConfig::new().init(&device);
    Ok(Ready::new(move || {
        std::hint::black_box(loss.forward(logits.clone(), target.clone()).backward());
        Ok(())
    }))
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
    let net = LeNet {
        first: Conv2dConfig::new([1, 32], [3, 3]).init(&device),
        second: Conv2dConfig::new([32, 64], [3, 3]).init(&device),
        pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        head: Mlp::new(&[9216, 128, 10], &device),
    };
    let (x, y) = (tensor([128, 1, 28, 28], 1, &device), ids([128], 10, &device));
    let loss = CrossEntropyLossConfig::new().init(&device);
    trained(net, move |net: &LeNet| loss.forward(net.forward(x.clone()), y.clone()))
}
