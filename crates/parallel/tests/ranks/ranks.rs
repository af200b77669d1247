//! Ranks as threads of this process, and models that one process and several have.
#![allow(dead_code, reason = "each test takes what it needs")]
use adamant_core::{
    DType, Device, Result, Tensor, communicator,
    functional::{CrossEntropyOptions, cross_entropy},
    op::Group,
};
use adamant_distributed::local::local_threads_with;
use adamant_nn::{
    Activation, Embedding, LayerNorm, Linear, Module, PositionEmbedding, Relu, Sequential, TransformerEncoderLayer, TransformerOptions, Walk, manual_seed,
};
use std::time::Duration;

pub fn device() -> Device {
    adamant_backend_cpu::link();
    Device::cpu().unwrap()
}
/// Runs `f` for each of so many ranks on a thread of its own.
pub fn each<R: Send>(size: usize, f: impl Fn(&Group) -> Result<R> + Sync) -> Vec<Result<R>> {
    let device = device();
    let groups = local_threads_with(size, Duration::from_secs(20)).unwrap();
    std::thread::scope(|scope| {
        let f = &f;
        let run = |on: std::sync::Arc<dyn communicator::Communicator>| {
            scope.spawn(move || {
                device.scoped(|| {
                    let made = f(&communicator::group(&on));
                    if let Err(e) = &made {
                        on.abort(&e.to_string());
                    }
                    made
                })
            })
        };
        let ranks: Vec<_> = groups.into_iter().map(run).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
/// The same where nothing may fail.
pub fn all<R: Send>(size: usize, f: impl Fn(&Group) -> Result<R> + Sync) -> Vec<R> {
    each(size, f).into_iter().enumerate().map(|(rank, made)| made.unwrap_or_else(|e| panic!("rank {rank} of {size}: {e}"))).collect()
}
/// A number of a case, by a counter and a seed.
pub fn noise(seed: u64, k: usize) -> f64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(k as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 31;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 29;
    (x >> 11) as f64 / (1u64 << 53) as f64
}
pub fn numbers(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    let all: Vec<f64> = (0..shape.iter().product()).map(|k| 2.0 * noise(seed, k) - 1.0).collect();
    Tensor::from_vec(all, shape.to_vec()).cast(dtype)
}
pub fn classes(seed: u64, shape: &[usize], classes: usize) -> Tensor {
    let all: Vec<i64> = (0..shape.iter().product()).map(|k| (noise(seed, k) * classes as f64) as i64).collect();
    Tensor::from_vec(all, shape.to_vec())
}
/// What makes a model.
#[derive(Clone, Copy, Debug)]
pub struct Gpt {
    pub vocabulary: usize,
    pub features: usize,
    pub heads: usize,
    pub blocks: usize,
    pub length: usize,
    pub bias: bool,
    pub dropout: f64,
    pub tied: bool,
    pub seed: u64,
    pub dtype: DType,
}
impl Default for Gpt {
    fn default() -> Gpt {
        Gpt { vocabulary: 27, features: 16, heads: 4, blocks: 2, length: 8, bias: true, dropout: 0.0, tied: true, seed: 1, dtype: DType::F32 }
    }
}
impl Gpt {
    /// Layers one behind another: table, positions, blocks, norm, head.
    pub fn layers(&self) -> Result<Vec<(String, Box<dyn Module>)>> {
        manual_seed(self.seed);
        let table = Embedding::new(self.vocabulary, self.features)?;
        table.weight.set(&(table.weight.detached() * 0.1))?;
        let head = if self.tied { Linear::tied(&table.weight)? } else { Linear::new(self.features, self.vocabulary)? };
        let mut layers: Vec<(String, Box<dyn Module>)> =
            vec![("wte".into(), Box::new(table)), ("wpe".into(), Box::new(PositionEmbedding::new(self.length, self.features)?))];
        let options = TransformerOptions {
            dim_feedforward: 2 * self.features,
            dropout: self.dropout,
            activation: Activation::GeluTanh,
            batch_first: true,
            norm_first: true,
            bias: self.bias,
            is_causal: true,
            ..Default::default()
        };
        for k in 0..self.blocks {
            layers.push((format!("blocks{k}"), Box::new(TransformerEncoderLayer::with(self.features, self.heads, options)?)));
        }
        layers.push(("lnf".into(), Box::new(LayerNorm::new([self.features])?)));
        layers.push(("head".into(), Box::new(head)));
        Ok(layers)
    }
    pub fn model(&self) -> Result<Sequential> {
        let model = sequential(self.layers()?);
        // Biases begin as zeros, which would hide one that is added twice.
        for (k, (_, param)) in model.named_parameters().into_iter().enumerate().filter(|(_, (path, _))| path.ends_with("bias")) {
            param.set(&(numbers(self.seed + k as u64, &param.meta().shape, DType::F32) * 0.3))?;
        }
        model.cast(self.dtype)?;
        Ok(model)
    }
    pub fn ids(&self, rows: usize, seed: u64) -> (Tensor, Tensor) {
        (classes(seed, &[rows, self.length], self.vocabulary), classes(seed + 1, &[rows, self.length], self.vocabulary))
    }
}
pub fn sequential(layers: Vec<(String, Box<dyn Module>)>) -> Sequential {
    let mut model = Sequential::new();
    layers.into_iter().for_each(|(name, layer)| model.push(&name, layer));
    model
}
/// Of logits `[rows, length, classes]`.
pub fn loss_of(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    let classes = logits.shape()?.last().copied().unwrap_or(1);
    cross_entropy(&logits.reshape([-1, classes as isize]), &target.reshape([-1]), &CrossEntropyOptions::default()).ok()
}
/// Names, and numbers in f64.
pub type Numbers = Vec<(String, Vec<f64>)>;
pub fn read(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.cast(DType::F64).to_vec::<f64>()
}
/// The loss, and the gradient of each parameter, in one process.
pub fn alone(model: &(impl Walk + ?Sized), loss: &Tensor) -> Result<(f64, Numbers)> {
    let grads = loss.backward_keep()?;
    let of = |(path, param): (String, adamant_nn::Param)| Ok((path, read(grads.of(&param.cell()).unwrap_or(&param.detached().zeros_like()))?));
    Ok((read(loss)?[0], model.named_parameters().into_iter().map(of).collect::<Result<_>>()?))
}
/// The largest difference of two lists of numbers, relative to the largest of the wanted of each name, or to 1.
pub fn difference(got: &Numbers, want: &Numbers) -> f64 {
    assert_eq!(got.iter().map(|(name, v)| (name, v.len())).collect::<Vec<_>>(), want.iter().map(|(name, v)| (name, v.len())).collect::<Vec<_>>());
    let one = |got: &[f64], want: &[f64]| {
        let scale = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        got.iter().zip(want).map(|(a, b)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() / scale }).fold(0.0, f64::max)
    };
    got.iter().zip(want).map(|((_, a), (_, b))| one(a, b)).fold(0.0, f64::max)
}
pub fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-12 } else { 1e-6 }
}
/// A perceptron, for what needs no sequence.
pub fn perceptron(seed: u64, dtype: DType) -> Result<Sequential> {
    manual_seed(seed);
    let model = Sequential::new().add_named("fc", Linear::new(6, 12)?).add(Relu::new()).add_named("proj", Linear::new(12, 5)?);
    model.cast(dtype)?;
    Ok(model)
}
