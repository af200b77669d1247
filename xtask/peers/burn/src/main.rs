//! Burn's flex backend, speaking the protocol of `bench serve`: operations, and the training steps of the smaller networks.
//! Its threads are rayon's, which the caller's environment sets.
#![forbid(unsafe_code)]
mod train;

use burn::{
    nn::{DropoutConfig, LayerNormConfig},
    tensor::{DType, Device, Int, Tensor, TensorData, activation, module, ops::ConvOptions},
};
use peer_protocol::{CONVOLUTIONS, Entry, Fallible, PRODUCTS, Ready, entry, indices, serve, uniform};

/// Numbers in [-1, 1).
pub fn tensor<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(uniform(shape.iter().product(), seed), shape), device)
}
/// Indices below a bound.
pub fn ids<const D: usize>(shape: [usize; D], bound: usize, device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(indices(shape.iter().product(), bound), shape), device)
}
fn of<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
    tensor(shape, seed, &Device::flex())
}
/// A function of tensors, whose result is made and dropped.
fn ready<const D: usize>(f: impl Fn() -> Tensor<D> + Clone + 'static) -> Fallible<Ready> {
    let again = f.clone();
    Ok(silent(f)?.shown(move || Ok(again().cast(DType::F32).into_data().to_vec::<f32>().map_err(|e| format!("{e:?}"))?)))
}
fn silent<const D: usize>(f: impl Fn() -> Tensor<D> + 'static) -> Fallible<Ready> {
    Ok(Ready::new(move || {
        std::hint::black_box(f());
        Ok(())
    }))
}
fn product([m, n, k]: [usize; 3], [ta, tb]: [bool; 2], dtype: DType) -> Fallible<Ready> {
    let operand = |rows: usize, columns: usize, transposed: bool, seed| {
        let shape = if transposed { [columns, rows] } else { [rows, columns] };
        let t = of(shape, seed).cast(dtype);
        if transposed { t.transpose() } else { t }
    };
    let (a, b) = (operand(m, k, ta, 1), operand(k, n, tb, 2));
    ready(move || a.clone().matmul(b.clone()))
}
fn batched(tb: bool) -> Fallible<Ready> {
    let a = of([48, 256, 64], 1);
    let b = if tb { of([48, 256, 64], 2).swap_dims(1, 2) } else { of([48, 64, 256], 2) };
    ready(move || a.clone().matmul(b.clone()))
}
/// Weights `[in, out]`, as this library stores them: the same layer, its weight transposed once.
fn linear(batch: usize) -> Fallible<Ready> {
    let (x, w, b) = (of([batch, 1024], 1), of([1024, 1024], 2).transpose(), of([1024], 3));
    ready(move || module::linear(x.clone(), w.clone(), Some(b.clone())))
}
fn convolution([ci, co, size, k, stride, padding]: [usize; 6]) -> Fallible<Ready> {
    let (x, w) = (of([1, ci, size, size], 1), of([co, ci, k, k], 2));
    ready(move || module::conv2d(x.clone(), w.clone(), None, ConvOptions::new([stride; 2], [padding; 2], [1; 2], 1)))
}
fn gelu() -> Fallible<Ready> {
    let (x, w, b) = (of([4096, 4096], 1), of([1, 4096], 2), of([1, 4096], 3));
    ready(move || activation::gelu_approximate(x.clone() * w.clone() + b.clone()))
}
fn norm() -> Fallible<Ready> {
    let mut layer = LayerNormConfig::new(768).with_epsilon(1e-5).init(&Device::flex());
    layer.gamma = burn::module::Param::from_tensor(of([768], 2));
    layer.beta = Some(burn::module::Param::from_tensor(of([768], 3)));
    let x = of([4096, 768], 1);
    ready(move || layer.forward(x.clone()))
}
fn dropout() -> Fallible<Ready> {
    let (layer, x) = (DropoutConfig::new(0.1).init(), of([4096, 4096], 1).autodiff());
    silent(move || layer.forward(x.clone()))
}
fn add4(tracked: bool) -> Fallible<Ready> {
    let (x, y) = (of([4], 1), of([4], 2));
    let (x, y) = if tracked { (x.autodiff().require_grad(), y.autodiff().require_grad()) } else { (x, y) };
    ready(move || x.clone() + y.clone())
}
fn big() -> Tensor<2> {
    of([4096, 4096], 1)
}

fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for &(tail, sizes, stored) in PRODUCTS {
        all.push(entry(format!("gemm_f32_{tail}"), move || product(sizes, stored, DType::F32)));
    }
    all.push(entry("bmm_f32_48_256x64x256_nn", || batched(false)));
    all.push(entry("bmm_f32_48_256x64x256_nt", || batched(true)));
    for n in [1024, 2048] {
        all.push(entry(format!("gemm_bf16_{n}"), move || product([n; 3], [false; 2], DType::BF16)));
    }
    for batch in [1, 32] {
        all.push(entry(format!("linear_f32_1024_b{batch}"), move || linear(batch)));
    }
    all.extend(CONVOLUTIONS.iter().map(|&(name, sizes)| entry(name, move || convolution(sizes))));
    all.extend([
        entry("ew_add_16m", || {
            let (x, y) = (big(), of([4096, 4096], 2));
            ready(move || x.clone() + y.clone())
        }),
        entry("ew_gelu_xwb_16m", gelu),
        entry("sum_last_16m", || {
            let x = big();
            ready(move || x.clone().sum_dim(1))
        }),
        entry("sum_first_16m", || {
            let x = big();
            ready(move || x.clone().sum_dim(0))
        }),
        entry("softmax_4096x1024", || {
            let x = of([4096, 1024], 1);
            ready(move || activation::softmax(x.clone(), 1))
        }),
        entry("layernorm_4096x768", norm),
        entry("bcast_add_row_16m", || {
            let (x, y) = (big(), of([1, 4096], 2));
            ready(move || x.clone() + y.clone())
        }),
        entry("transpose_copy_4096", || {
            let x = big();
            // A transpose is a view; as one axis its elements must move.
            ready(move || x.clone().transpose().reshape([4096 * 4096]))
        }),
        entry("embedding_32000x768_8192", || {
            let (w, at) = (of([32000, 768], 1), ids([8192], 32000, &Device::flex()));
            ready(move || w.clone().select(0, at.clone()))
        }),
        entry("dropout_16m", dropout),
        entry("xent_2048x50257_fwdbwd", train::cross_entropy),
        entry("small_add4_nograd", || add4(false)),
        entry("small_add4_grad", || add4(true)),
        entry("tiny_mlp_fwdbwd", train::tiny_mlp),
        entry("train_mlp_b128", train::mlp),
        entry("train_lenet_b128", train::lenet),
    ]);
    all
}
fn main() -> Fallible<()> {
    serve("burn", "0.22.1", &entries())
}
