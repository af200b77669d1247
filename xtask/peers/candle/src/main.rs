//! Candle on the CPU, speaking the protocol of `bench serve`: operations, and the training steps of the two smaller
//! networks. Its threads are rayon's, which the caller's environment sets.
#![forbid(unsafe_code)]
mod train;

use candle_core::{
    D, DType, Device, Result, Tensor, Var,
    quantized::{GgmlDType, QMatMul, QTensor},
};
use candle_nn::{Module, ops};
use peer_protocol::{CONVOLUTIONS, Entry, Fallible, PRODUCTS, Ready, entry, indices, serve, uniform};

/// Numbers in [-1, 1).
pub fn tensor(shape: &[usize], seed: u64) -> Result<Tensor> {
    Tensor::from_vec(uniform(shape.iter().product(), seed), shape, &Device::Cpu)
}
/// Indices below a bound.
pub fn ids(shape: &[usize], bound: usize) -> Result<Tensor> {
    Tensor::from_vec(indices(shape.iter().product(), bound), shape, &Device::Cpu)?.to_dtype(DType::U32)
}
/// A function of tensors, whose result is made and dropped.
fn ready(f: impl Fn() -> Result<Tensor> + Clone + 'static) -> Fallible<Ready> {
    let again = f.clone();
    Ok(silent(f)?.shown(move || Ok(again()?.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()?)))
}
fn silent(f: impl Fn() -> Result<Tensor> + 'static) -> Fallible<Ready> {
    Ok(Ready::new(move || {
        std::hint::black_box(f()?);
        Ok(())
    }))
}
fn product(batch: usize, [m, n, k]: [usize; 3], [ta, tb]: [bool; 2], dtype: DType) -> Fallible<Ready> {
    let operand = |rows: usize, columns: usize, transposed: bool, seed| -> Result<Tensor> {
        let mut shape = if transposed { vec![columns, rows] } else { vec![rows, columns] };
        if batch > 1 {
            shape.insert(0, batch);
        }
        let t = tensor(&shape, seed)?.to_dtype(dtype)?;
        if transposed { t.t() } else { Ok(t) }
    };
    let (a, b) = (operand(m, k, ta, 1)?, operand(k, n, tb, 2)?);
    ready(move || a.matmul(&b))
}
fn linear(batch: usize) -> Fallible<Ready> {
    let layer = candle_nn::Linear::new(tensor(&[1024, 1024], 2)?, Some(tensor(&[1024], 3)?));
    let x = tensor(&[batch, 1024], 1)?;
    ready(move || layer.forward(&x))
}
/// Weights in blocks of 32 with a scale each (Q8_0).
fn quantized(batch: usize) -> Fallible<Ready> {
    let weight = QMatMul::from_qtensor(QTensor::quantize(&tensor(&[1024, 1024], 2)?, GgmlDType::Q8_0)?)?;
    let (x, bias) = (tensor(&[batch, 1024], 1)?, tensor(&[1024], 3)?);
    ready(move || weight.forward(&x)?.broadcast_add(&bias))
}
fn convolution([ci, co, size, k, stride, padding]: [usize; 6]) -> Fallible<Ready> {
    let (x, w) = (tensor(&[1, ci, size, size], 1)?, tensor(&[co, ci, k, k], 2)?);
    ready(move || x.conv2d(&w, padding, stride, 1, 1))
}
fn gelu() -> Fallible<Ready> {
    let (x, w, b) = (tensor(&[4096, 4096], 1)?, tensor(&[4096], 2)?, tensor(&[4096], 3)?);
    ready(move || x.broadcast_mul(&w)?.broadcast_add(&b)?.gelu())
}
fn norm() -> Fallible<Ready> {
    let (x, w, b) = (tensor(&[4096, 768], 1)?, tensor(&[768], 2)?, tensor(&[768], 3)?);
    ready(move || ops::layer_norm(&x, &w, &b, 1e-5))
}
fn cross_entropy() -> Fallible<Ready> {
    let logits = Var::from_tensor(&tensor(&[2048, 50257], 1)?)?;
    let target = ids(&[2048], 50257)?;
    let backward = move || -> Fallible<_> {
        Ok(candle_nn::loss::cross_entropy(logits.as_tensor(), &target)?.backward()?.remove(logits.as_tensor()).ok_or("no gradient")?)
    };
    let again = backward.clone();
    let ready = Ready::new(move || {
        std::hint::black_box(backward()?);
        Ok(())
    });
    // Of the gradient one row, which is not the first: its own class stands at the first place.
    Ok(ready.shown(move || Ok(again()?.get(1)?.to_vec1::<f32>()?)))
}
fn add4(tracked: bool) -> Fallible<Ready> {
    let (x, y) = (tensor(&[4], 1)?, tensor(&[4], 2)?);
    let (x, y) = if tracked { (Var::from_tensor(&x)?.as_tensor().clone(), Var::from_tensor(&y)?.as_tensor().clone()) } else { (x, y) };
    ready(move || &x + &y)
}
fn pair(second: &[usize]) -> Result<(Tensor, Tensor)> {
    Ok((tensor(&[4096, 4096], 1)?, tensor(second, 2)?))
}

fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for &(tail, sizes, stored) in PRODUCTS {
        all.push(entry(format!("gemm_f32_{tail}"), move || product(1, sizes, stored, DType::F32)));
    }
    for (tail, tb) in [("nn", false), ("nt", true)] {
        all.push(entry(format!("bmm_f32_48_256x64x256_{tail}"), move || product(48, [256, 256, 64], [false, tb], DType::F32)));
    }
    for n in [1024, 2048] {
        all.push(entry(format!("gemm_bf16_{n}"), move || product(1, [n; 3], [false; 2], DType::BF16)));
    }
    for batch in [1, 32] {
        all.push(entry(format!("linear_f32_1024_b{batch}"), move || linear(batch)));
        all.push(entry(format!("qlinear_dyn_int8_1024_b{batch}"), move || quantized(batch)));
    }
    all.extend(CONVOLUTIONS.iter().map(|&(name, sizes)| entry(name, move || convolution(sizes))));
    all.extend([
        entry("ew_add_16m", || pair(&[4096, 4096]).map_err(Into::into).and_then(|(x, y)| ready(move || &x + &y))),
        entry("ew_gelu_xwb_16m", gelu),
        entry("sum_last_16m", || pair(&[1]).map_err(Into::into).and_then(|(x, _)| ready(move || x.sum(1)))),
        entry("sum_first_16m", || pair(&[1]).map_err(Into::into).and_then(|(x, _)| ready(move || x.sum(0)))),
        entry("softmax_4096x1024", || tensor(&[4096, 1024], 1).map_err(Into::into).and_then(|x| ready(move || ops::softmax(&x, D::Minus1)))),
        entry("layernorm_4096x768", norm),
        entry("bcast_add_row_16m", || pair(&[4096]).map_err(Into::into).and_then(|(x, y)| ready(move || x.broadcast_add(&y)))),
        entry("transpose_copy_4096", || pair(&[1]).map_err(Into::into).and_then(|(x, _)| ready(move || x.t()?.contiguous()))),
        entry("embedding_32000x768_8192", || {
            let (w, at) = (tensor(&[32000, 768], 1)?, ids(&[8192], 32000)?);
            ready(move || w.index_select(&at, 0))
        }),
        entry("dropout_16m", || pair(&[1]).map_err(Into::into).and_then(|(x, _)| silent(move || ops::dropout(&x, 0.1)))),
        entry("xent_2048x50257_fwdbwd", cross_entropy),
        entry("small_add4_nograd", || add4(false)),
        entry("small_add4_grad", || add4(true)),
        entry("tiny_mlp_fwdbwd", train::tiny_mlp),
        entry("train_mlp_b128", train::mlp),
        entry("train_lenet_b128", train::lenet),
    ]);
    all
}
fn main() -> Fallible<()> {
    serve("candle", "0.11.1", &entries())
}
