//! Models whose training is looked at in its steady state.
use adamant::{
    Device, Result, Tensor,
    buffer::MemoryStats,
    compile,
    cpu::{Context, CpuBackend, CpuBuilder},
    functional,
    nn::{
        Activation, AvgPool2d, BatchNorm2d, Conv2d, Dropout, Flatten, LayerNorm, Linear, MaxPool2d, Module, Relu, Sequential, TransformerEncoderLayer,
        TransformerOptions, Walk,
    },
    optim::{Adam, Optimizer, UpdateRule},
};
use std::sync::{Mutex, PoisonError};

const WARM_UP: usize = 20;

/// A model that sorts into 64 classes, and the shape of what it reads.
struct Learner {
    model: Sequential,
    input: Vec<usize>,
}
/// What they are called. The second is the first with larger batches; the last four are the first ones with the whole step as one
/// captured function.
pub const MODELS: [&str; 9] = [
    "perceptron",
    "wide perceptron",
    "convolutional",
    "encoder",
    "regression",
    "captured perceptron",
    "captured wide perceptron",
    "captured convolutional",
    "captured encoder",
];
/// A perceptron whose step asks for memory.
#[allow(dead_code)]
pub const WASTEFUL: &str = "wasteful";
/// The names of steps that are captured begin so.
const CAPTURED: &str = "captured ";
fn learner(name: &'static str) -> Result<Learner> {
    let name = name.strip_prefix(CAPTURED).unwrap_or(name);
    let (model, input) = match name {
        "convolutional" => {
            let features = Sequential::new().add(Conv2d::new(3, 16, 3)?).add(BatchNorm2d::new(16)?).add(Relu::new()).add(MaxPool2d::new(2));
            let model = features.add(Conv2d::new(16, 32, 3)?).add(Relu::new()).add(AvgPool2d::new(2)).add(Flatten::with(1, -1)).add(Linear::new(1152, 64)?);
            (model, vec![16, 3, 30, 30])
        }
        "encoder" => {
            let options = TransformerOptions {
                dim_feedforward: 128,
                activation: Activation::Gelu,
                batch_first: true,
                norm_first: true,
                is_causal: true,
                ..Default::default()
            };
            let model = Sequential::new().add(LayerNorm::new([64])?).add(TransformerEncoderLayer::with(64, 4, options)?).add(Dropout::new(0.1)?);
            (model.add(Linear::new(64, 64)?).add(Flatten::with(0, 1)), vec![4, 32, 64])
        }
        _ => {
            let model = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 64)?);
            (model, vec![if name == "wide perceptron" || name == "regression" { 256 } else { 64 }, 256])
        }
    };
    Ok(Learner { model, input })
}
/// One more step of a model in its steady state is measured on its device, whose memory after the second step is told.
pub trait Measured<T>: FnOnce(Device, MemoryStats, &mut dyn FnMut() -> Result<()>) -> Result<T> {}
impl<T, F: FnOnce(Device, MemoryStats, &mut dyn FnMut() -> Result<()>) -> Result<T>> Measured<T> for F {}
/// Trains until the steady state on all cores, as a user's program does. What any thread asks for is counted.
pub fn in_steady_state<T>(name: &'static str, measured: impl Measured<T>) -> Result<T> {
    in_steady_state_on(CpuBackend::builder(), name, measured)
}
/// Trains until the steady state on a device of its own.
pub fn in_steady_state_on<T>(device: CpuBuilder, name: &'static str, measured: impl Measured<T>) -> Result<T> {
    let device = Context::new(device)?.device();
    device.scoped(|| {
        let Learner { model, input } = learner(name)?;
        let adam = Mutex::new(Adam::new(1e-3).over(model.parameters()));
        let x = Tensor::from_vec((0..input.iter().product()).map(|k: usize| (k % 17) as f32 * 0.1).collect(), input);
        let rows = model.forward(&x)?.shape()?[0];
        let y = Tensor::from_vec((0..rows).map(|k| (k % 64) as i64).collect(), [rows]);
        let learn = |x: &Tensor, y: &Tensor| -> Result<Tensor> {
            let out = model.forward(x)?;
            if name == WASTEFUL {
                std::hint::black_box(vec![0u8; 64]);
            }
            let loss = match name {
                // Composed op by op, as a user would write it.
                "regression" => {
                    let gate = (&out * 0.5).tanh() * out.sigmoid();
                    let error = (&gate - x.narrow(1, 0, 64)).abs();
                    let loss = (error.square() / (error + 0.1).sqrt()).mean(..);
                    // What is read before `backward` is computed before it.
                    loss.item::<f32>()?;
                    loss
                }
                _ => functional::cross_entropy(&out, y, &Default::default()),
            };
            adam.lock().unwrap_or_else(PoisonError::into_inner).step(&loss.backward()?)?;
            loss.detach().ok()
        };
        let captured = compile(|x: &[Tensor]| Ok(vec![learn(&x[0], &x[1])?]));
        let mut step = || if name.starts_with(CAPTURED) { captured.call(&[&x, &y]).map(drop) } else { learn(&x, &y).map(drop) };
        step()?;
        step()?;
        let two = device.memory();
        for _ in 0..WARM_UP {
            step()?;
        }
        measured(device, two, &mut step)
    })
}
