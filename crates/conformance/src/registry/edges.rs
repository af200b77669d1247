//! Samples at the edges: nothing along an axis, no axes, one element, repeated indices; and the primitives that no public
//! function applies by itself, but only a gradient does.
use super::{ANY, Entry, FLOAT, NUMBER, WIDE, fixed, index, mask, p, samples, v, whole};
use adamant_core::{
    Arg, Op, Tensor,
    functional::{self as f, *},
    op::{ConvRole, ConvSpec, WindowOp, WindowSpec},
};
use smallvec::smallvec;
use std::sync::Arc;

pub(super) fn samples() -> Vec<Entry> {
    let mut all = primitives();
    all.extend(empty());
    all.extend(without_axes());
    all.extend(repeated());
    all
}
fn primitives() -> Vec<Entry> {
    fn weight_grad(groups: usize) -> Op {
        Op::Conv(Arc::new(ConvSpec {
            role: ConvRole::WeightGrad,
            stride: smallvec![2],
            padding: smallvec![(1, 0)],
            dilation: smallvec![1],
            groups,
            open: smallvec![2],
        }))
    }
    fn transposed_sum() -> Op {
        Op::Window(Arc::new(WindowSpec {
            op: WindowOp::SumTransposed,
            size: smallvec![3],
            stride: smallvec![2],
            padding: smallvec![(1, 0)],
            dilation: smallvec![1],
            open: smallvec![6],
        }))
    }
    samples! {
        "Op::conv_weight_grad" 2 FLOAT [v(&[2, 4, 5]), v(&[2, 6, 3])] |x| Tensor::apply(weight_grad(2), Arg::None, &[&x[0], &x[1]]); "shape" => Tensor::apply(weight_grad(2), Arg::None, &[&x[0], &x[1].narrow(0, 0, 1)]),
        "Op::sum_pool_transposed" 2 FLOAT [v(&[2, 2, 3])] |x| Tensor::apply(transposed_sum(), Arg::None, &[&x[0]]),
    }
}
fn empty() -> Vec<Entry> {
    samples! {
        "Tensor::reshape" 2 ANY [v(&[0, 6])] |x| x[0].reshape([3, 0]),
        "Tensor::slice" 2 ANY [v(&[7, 0])] |x| x[0].slice(0, 1, 6, 2),
        "Tensor::narrow" 2 ANY [v(&[5, 2])] |x| x[0].narrow(0, 5, 0),
        "Tensor::cat" 2 ANY [v(&[0, 3]), v(&[2, 3]), v(&[0, 3])] |x| Tensor::cat(x, 0),
        "Tensor::pad_constant" 2 NUMBER [v(&[0, 2])] |x| x[0].pad_constant([1, 2], 1),
        "Tensor::update_slice" 2 ANY [v(&[5, 2]), v(&[0, 2])] |x| x[0].update_slice(0, 5, &x[1]),
        "Tensor::where_" 2 ANY [mask(&[2, 0]), v(&[1]), v(&[2, 1])] |x| x[0].where_(&x[1], &x[2]),
        "Tensor::sum" 2 ANY [v(&[0])] |x| x[0].sum(..),
        "Tensor::prod" 2 NUMBER [v(&[2, 0])] |x| x[0].prod(1),
        "Tensor::amax" 2 ANY [v(&[0, 2])] |x| x[0].amax(1),
        "Tensor::logsumexp" 2 FLOAT [v(&[0, 2])] |x| x[0].logsumexp(1),
        "Tensor::cumsum" 2 NUMBER [v(&[2, 0])] |x| x[0].cumsum(1),
        "Tensor::cumprod" 2 NUMBER [v(&[0, 2])] |x| x[0].cumprod(1),
        "Tensor::linear_recurrence" 2 FLOAT [v(&[2, 0]), v(&[2, 0])] |x| x[0].linear_recurrence(&x[1], 1, false),
        "Tensor::sort" 2 NUMBER [v(&[3, 0])] |x| x[0].sort(1, true),
        "Tensor::gather" 2 ANY [v(&[3, 4]), index(&[2, 0], 4)] |x| x[0].gather(1, &x[1]),
        "Tensor::scatter" 2 ANY [v(&[3, 4]), index(&[2, 0], 4), v(&[2, 0])] |x| x[0].scatter(1, &x[1], &x[2]),
        "Tensor::scatter_add" 2 NUMBER [v(&[3, 4]), index(&[0, 2], 4), v(&[0, 2])] |x| x[0].scatter_add(1, &x[1], &x[2]),
        "Tensor::index_select" 2 ANY [v(&[3, 4]), index(&[0], 3)] |x| x[0].index_select(0, &x[1]),
        "Tensor::softmax" 2 FLOAT [v(&[0, 3])] |x| x[0].softmax(-1),
        "Tensor::log_softmax" 2 FLOAT [v(&[2, 0])] |x| x[0].log_softmax(-1),
        "Tensor::matmul" 2 NUMBER [v(&[0, 2, 3]), v(&[0, 3, 2])] |x| x[0].matmul(&x[1]),
        "Tensor::matmul" 2 NUMBER [v(&[2, 3]), v(&[3, 0])] |x| x[0].matmul(&x[1]),
        "functional::linear" 2 FLOAT [v(&[0, 3]), v(&[4, 3]), v(&[4])] |x| f::linear(&x[0], &x[1], Some(&x[2])),
        "functional::embedding" 2 FLOAT [v(&[5, 3]), index(&[0], 5)] |x| f::embedding(&x[1], &x[0], None),
        "functional::conv2d" 2 FLOAT [v(&[0, 2, 4, 4]), v(&[2, 2, 2, 2]), v(&[2])] |x| f::conv2d(&x[0], &x[1], Some(&x[2]), &ConvOptions::default()),
        "functional::max_pool1d" 2 FLOAT [v(&[0, 2, 6])] |x| f::max_pool1d(&x[0], &MaxPoolOptions::new(2)),
        "functional::avg_pool1d" 2 FLOAT [v(&[0, 2, 6])] |x| f::avg_pool1d(&x[0], &AvgPoolOptions::new(2)),
        "functional::layer_norm" 2 FLOAT [v(&[3, 0]), v(&[0]), v(&[0])] |x| f::layer_norm(&x[0], [0], Some(&x[1]), Some(&x[2]), 1e-5),
        "functional::rms_norm" 2 FLOAT [v(&[3, 0]), v(&[0])] |x| f::rms_norm(&x[0], [0], Some(&x[1]), None),
        "functional::layer_norm" 2 FLOAT [v(&[0, 4]), v(&[4]), v(&[4])] |x| f::layer_norm(&x[0], [4], Some(&x[1]), Some(&x[2]), 1e-5),
        "functional::rms_norm" 2 FLOAT [v(&[0, 4]), v(&[4])] |x| f::rms_norm(&x[0], [4], Some(&x[1]), Some(1e-5)),
        "functional::scaled_dot_product_attention" 2 FLOAT [v(&[0, 3, 4]), v(&[0, 5, 4]), v(&[0, 5, 2])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions::default()),
        "functional::mse_loss" 2 FLOAT [v(&[0, 3]), v(&[0, 3])] |x| f::mse_loss(&x[0], &x[1], Reduction::Sum),
    }
}
fn without_axes() -> Vec<Entry> {
    samples! {
        "Tensor::reshape" 2 ANY [v(&[])] |x| x[0].reshape([1, 1]),
        "Tensor::permute" 2 ANY [v(&[])] |x| x[0].permute(&[] as &[isize]); "axis" => x[0].transpose(0, 1),
        "Tensor::expand" 2 ANY [v(&[])] |x| x[0].expand([2, 3]),
        "Tensor::unsqueeze" 2 ANY [v(&[])] |x| x[0].unsqueeze(0),
        "Tensor::where_" 2 ANY [mask(&[]), v(&[]), v(&[])] |x| x[0].where_(&x[1], &x[2]),
        "Tensor::stack" 2 ANY [v(&[]), v(&[])] |x| Tensor::stack(x, 0),
        "Tensor::prod" 2 NUMBER [v(&[])] |x| x[0].prod(..),
        "Tensor::amax" 2 NUMBER [v(&[])] |x| x[0].amax(..),
        "Tensor::mean" 2 FLOAT [v(&[])] |x| x[0].mean(..),
        "Tensor::clamp" 2 NUMBER [v(&[])] |x| x[0].clamp(0, 1),
        "Tensor::norm" 2 WIDE [p(&[])] |x| x[0].norm(),
        "functional::mse_loss" 2 FLOAT [v(&[]), v(&[])] |x| f::mse_loss(&x[0], &x[1], Reduction::Mean),
        "functional::binary_cross_entropy_with_logits" 2 FLOAT [v(&[]), fixed(p(&[]))] |x| f::binary_cross_entropy_with_logits(&x[0], &x[1], None, None, Reduction::Mean),
    }
}
fn repeated() -> Vec<Entry> {
    samples! {
        "Tensor::gather" 2 ANY [v(&[4]), whole(&[6], &[2.0, 2.0, 0.0, 2.0, 3.0, 0.0])] |x| x[0].gather(0, &x[1]),
        "Tensor::scatter_add" 2 NUMBER [v(&[4]), whole(&[6], &[2.0, 2.0, 0.0, 2.0, 3.0, 0.0]), v(&[6])] |x| x[0].scatter_add(0, &x[1], &x[2]),
        "Tensor::index_select" 2 ANY [v(&[3, 2]), whole(&[4], &[1.0, 1.0, 1.0, 0.0])] |x| x[0].index_select(0, &x[1]),
        "functional::embedding" 2 FLOAT [v(&[5, 3]), whole(&[4], &[4.0, 4.0, 0.0, 4.0])] |x| f::embedding(&x[1], &x[0], None),
    }
}
