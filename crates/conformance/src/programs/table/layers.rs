//! Products, layers and losses.
use super::{
    ArgKind::{Axis, Flag, Float, Indices, Int, Number, Real, Shaped, Word},
    Seen, TorchFunction, functions,
};
use crate::random::Random;
use adamant_core::functional::{self as f, AvgPoolOptions, ConvOptions, CrossEntropyOptions, MaxPoolOptions, Padding, Reduction};

fn matrix(_: &Seen, random: &mut Random) -> Vec<usize> {
    let batch = random.below(3);
    let mut shape: Vec<usize> = (0..batch).map(|_| *random.pick(&[1, 2, 2, 3])).collect();
    shape.extend([random.below(4), random.below(4)]);
    if random.one_in(5) {
        shape.drain(..shape.len() - 1);
    }
    shape
}
/// What argument 0 is multiplied with.
fn right(seen: &Seen, random: &mut Random) -> Vec<usize> {
    let left = seen.shape(0);
    let Some(&inner) = left.last() else { return vec![2] };
    if random.one_in(5) {
        return vec![inner];
    }
    let batch = &left[..left.len().saturating_sub(2)];
    let mut shape: Vec<usize> = batch[random.between(0, batch.len())..].iter().map(|&n| if random.one_in(3) { 1 } else { n }).collect();
    shape.extend([inner, random.below(4)]);
    shape
}
fn two(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.below(4), random.below(4)]
}
fn three(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 3), random.below(4), random.below(4)]
}
fn line(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.below(5)]
}
fn same(seen: &Seen, _: &mut Random) -> Vec<usize> {
    seen.shape(0).to_vec()
}
fn last_of_first(seen: &Seen, _: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).last().copied().unwrap_or(1)]
}
fn two_right(seen: &Seen, random: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).last().copied().unwrap_or(1), random.below(4)]
}
fn three_right(seen: &Seen, random: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).first().copied().unwrap_or(1), seen.shape(0).last().copied().unwrap_or(1), random.below(4)]
}
fn product_of(seen: &Seen, _: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).first().copied().unwrap_or(1), seen.shape(1).last().copied().unwrap_or(1)]
}
fn weight(seen: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 3), seen.shape(0).last().copied().unwrap_or(1)]
}
fn bias(seen: &Seen, _: &mut Random) -> Vec<usize> {
    vec![seen.shape(1).first().copied().unwrap_or(1)]
}
pub(super) fn signal(_: &Seen, random: &mut Random) -> Vec<usize> {
    let mut shape = vec![random.between(1, 2), random.between(1, 4), random.between(1, 7)];
    if random.one_in(5) {
        shape.remove(0);
    }
    shape
}
pub(super) fn picture(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 2), random.between(1, 2), random.between(1, 5), random.between(1, 5)]
}
fn filter1(seen: &Seen, random: &mut Random) -> Vec<usize> {
    let shape = seen.shape(0);
    vec![random.between(1, 3), shape.get(shape.len().saturating_sub(2)).copied().unwrap_or(1), random.between(1, 3)]
}
fn filter2(seen: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 3), seen.shape(0).get(1).copied().unwrap_or(1), random.between(1, 3), random.between(1, 2)]
}
fn scores(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 3), random.between(2, 4)]
}
fn classes(seen: &Seen, _: &mut Random) -> (Vec<usize>, usize) {
    let shape = seen.shape(0);
    (shape.iter().take(1).copied().collect(), shape.get(1).copied().unwrap_or(1))
}
pub(super) fn reduction(word: &str) -> Reduction {
    match word {
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        _ => Reduction::Mean,
    }
}
const WAYS: super::ArgKind = Word(&["mean", "sum", "none"]);

pub(super) fn rows() -> Vec<TorchFunction> {
    let mut all = products();
    all.extend(windows());
    all.extend(losses());
    all
}
fn products() -> Vec<TorchFunction> {
    functions! {
        "Tensor::matmul" "torch.matmul(x[0], x[1])" [Shaped(matrix), Shaped(right)] |a| a.t(0).matmul(a.t(1)),
        "Tensor::mm" "torch.mm(x[0], x[1])" [Shaped(two), Shaped(two_right)] |a| a.t(0).mm(&a.t(1)),
        "Tensor::bmm" "torch.bmm(x[0], x[1])" [Shaped(three), Shaped(three_right)] |a| a.t(0).bmm(&a.t(1)),
        "Tensor::mv" "torch.mv(x[0], x[1])" [Shaped(two), Shaped(last_of_first)] |a| a.t(0).mv(&a.t(1)),
        "Tensor::dot" "torch.dot(x[0], x[1])" [Shaped(line), Shaped(same)] |a| a.t(0).dot(&a.t(1)),
        "Tensor::outer" "torch.outer(x[0], x[1])" [Shaped(line), Shaped(line)] |a| a.t(0).outer(&a.t(1)),
        "Tensor::addmm" "torch.addmm(x[2], x[0], x[1], beta=x[3], alpha=x[4])" [Shaped(two), Shaped(two_right), Shaped(product_of), Number, Number] |a| a.t(2).addmm(&a.t(0), &a.t(1), a.number(3), a.number(4)),
        "Tensor::inner" "torch.inner(x[0], x[1])" [Shaped(two), Shaped(weight)] |a| a.t(0).inner(&a.t(1)),
        "Tensor::kron" "torch.kron(x[0], x[1])" [Shaped(two), Shaped(two)] |a| a.t(0).kron(&a.t(1)),
        "Tensor::einsum" "torch.einsum('ij,jk->ki', x[0], x[1])" [Shaped(two), Shaped(two_right)] |a| adamant_core::Tensor::einsum("ij,jk->ki", &[a.t(0), a.t(1)]),
        "functional::linear" "F.linear(x[0], x[1], x[2])" [Shaped(matrix), Shaped(weight), Shaped(bias)] |a| f::linear(&a.t(0), &a.t(1), Some(&a.t(2))),
        "Tensor::cosine_similarity" "F.cosine_similarity(x[0], x[1], x[2])" [Float, Shaped(same), Axis] |a| a.t(0).cosine_similarity(&a.t(1), a.int(2), 1e-8),
        "Tensor::cdist" "torch.cdist(x[0], x[1], x[2])" [Shaped(two), Shaped(weight), Real(&[1.0, 2.0, 3.0])] |a| a.t(0).cdist(&a.t(1), a.real(2)),
    }
}
fn windows() -> Vec<TorchFunction> {
    functions! {
        "functional::conv1d" "F.conv1d(x[0], x[1], x[2], stride=x[3], padding=x[4], dilation=x[5])" [Shaped(signal), Shaped(filter1), Shaped(bias), Int(1, 2), Int(0, 2), Int(1, 2)] |a| f::conv1d(&a.t(0), &a.t(1), Some(&a.t(2)), &ConvOptions { stride: a.size(3).into(), padding: Padding::Zeros(a.size(4).into()), dilation: a.size(5).into(), groups: 1 }),
        "functional::conv2d" "F.conv2d(x[0], x[1], stride=x[2], padding=x[3])" [Shaped(picture), Shaped(filter2), Int(1, 2), Int(0, 1)] |a| f::conv2d(&a.t(0), &a.t(1), None, &ConvOptions { stride: a.size(2).into(), padding: Padding::Zeros(a.size(3).into()), ..Default::default() }),
        "functional::max_pool1d" "F.max_pool1d(x[0], x[1], x[2], return_indices=True)" [Shaped(signal), Int(1, 3), Int(1, 2)] |a| f::max_pool1d(&a.t(0), &MaxPoolOptions { stride: Some(a.size(2).into()), ..MaxPoolOptions::new(a.size(1)) }),
        "functional::avg_pool1d" "F.avg_pool1d(x[0], x[1], x[2])" [Shaped(signal), Int(1, 3), Int(1, 2)] |a| f::avg_pool1d(&a.t(0), &AvgPoolOptions { stride: Some(a.size(2).into()), ..AvgPoolOptions::new(a.size(1)) }),
        "functional::max_pool2d" "F.max_pool2d(x[0], x[1], ceil_mode=x[2])" [Shaped(picture), Int(1, 3), Flag] |a| f::max_pool2d(&a.t(0), &MaxPoolOptions { ceil_mode: a.flag(2), ..MaxPoolOptions::new(a.size(1)) }).0,
        "functional::avg_pool2d" "F.avg_pool2d(x[0], x[1], ceil_mode=x[2], count_include_pad=x[3])" [Shaped(picture), Int(1, 3), Flag, Flag] |a| f::avg_pool2d(&a.t(0), &AvgPoolOptions { ceil_mode: a.flag(2), count_include_pad: a.flag(3), ..AvgPoolOptions::new(a.size(1)) }),
        "functional::layer_norm" "F.layer_norm(x[0], x[0].shape[-1:], x[1], x[2])" [Shaped(matrix), Shaped(last_of_first), Shaped(last_of_first)] |a| {
            let last = a.t(0).size(-1).unwrap_or(1);
            f::layer_norm(&a.t(0), [last], Some(&a.t(1)), Some(&a.t(2)), 1e-5)
        },
    }
}
fn losses() -> Vec<TorchFunction> {
    functions! {
        "functional::mse_loss" "F.mse_loss(x[0], x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::mse_loss(&a.t(0), &a.t(1), reduction(a.word(2))),
        "functional::l1_loss" "F.l1_loss(x[0], x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::l1_loss(&a.t(0), &a.t(1), reduction(a.word(2))),
        "functional::smooth_l1_loss" "F.smooth_l1_loss(x[0], x[1], beta=0.5, reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::smooth_l1_loss(&a.t(0), &a.t(1), 0.5, reduction(a.word(2))),
        "functional::huber_loss" "F.huber_loss(x[0], x[1], delta=0.5, reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::huber_loss(&a.t(0), &a.t(1), 0.5, reduction(a.word(2))),
        "functional::kl_div" "F.kl_div(x[0], x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::kl_div(&a.t(0), &a.t(1), false, reduction(a.word(2))),
        "functional::soft_margin_loss" "F.soft_margin_loss(x[0], x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::soft_margin_loss(&a.t(0), &a.t(1), reduction(a.word(2))),
        "functional::binary_cross_entropy_with_logits" "F.binary_cross_entropy_with_logits(x[0], x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::binary_cross_entropy_with_logits(&a.t(0), &a.t(1), None, None, reduction(a.word(2))),
        "functional::binary_cross_entropy" "F.binary_cross_entropy(torch.sigmoid(x[0]), x[1], reduction=x[2])" [Float, Shaped(same), WAYS] |a| f::binary_cross_entropy(&a.t(0).sigmoid(), &a.t(1), None, reduction(a.word(2))),
        "functional::cross_entropy" "F.cross_entropy(x[0], x[1], reduction=x[2])" [Shaped(scores), Indices(classes), WAYS] |a| f::cross_entropy(&a.t(0), &a.t(1), &CrossEntropyOptions { reduction: reduction(a.word(2)), ..Default::default() }),
        "functional::nll_loss" "F.nll_loss(x[0], x[1], reduction=x[2])" [Shaped(scores), Indices(classes), WAYS] |a| f::nll_loss(&a.t(0), &a.t(1), &f::NllOptions { reduction: reduction(a.word(2)), ..Default::default() }),
    }
}
