//! Reading and writing places: index expressions, gathers, scatters, masks.
use super::{
    ArgKind::{Any, Axis, Fits, Flag, Index, Indices, Int, Mask, Number, Sample, Shaped, Word, Written},
    Seen, TorchFunction, functions,
};
use crate::{
    random::Random,
    registry::{index, v, whole},
};
use adamant_core::{
    SegmentReduce, Segments,
    tensor::{BagMode, ScatterReduce},
};

/// A tensor of numbers along the axis that argument 1 names, for gathers: other axes no larger than argument 0's.
fn along(seen: &Seen, random: &mut Random) -> (Vec<usize>, usize) {
    let shape = seen.shape(0);
    let Some(axis) = seen.axis(1) else { return (shape.to_vec(), 1) };
    let sizes = (0..shape.len()).map(|k| if k == axis { random.between(1, 4) } else { random.between(shape[k].min(1), shape[k]) }).collect();
    (sizes, shape[axis])
}
/// A line of numbers along that axis.
fn line(seen: &Seen, random: &mut Random) -> (Vec<usize>, usize) {
    (vec![random.between(0, 4)], seen.along(1))
}
/// The shape of the index before.
fn as_index(seen: &Seen, _: &mut Random) -> Vec<usize> {
    seen.shape(2).to_vec()
}
/// Argument 0 with as many elements along the axis as the index has.
fn as_line(seen: &Seen, _: &mut Random) -> Vec<usize> {
    let mut shape = seen.shape(0).to_vec();
    if let (Some(axis), Some(&n)) = (seen.axis(1), seen.shape(2).first()) {
        shape[axis] = n;
    }
    shape
}
fn anywhere(seen: &Seen, random: &mut Random) -> (Vec<usize>, usize) {
    (vec![random.between(0, 3); random.between(1, 2)], seen.shape(0).iter().product())
}
fn rows_of(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 5), random.between(1, 3)]
}
fn words(seen: &Seen, random: &mut Random) -> (Vec<usize>, usize) {
    let rank = random.between(0, 2);
    ((0..rank).map(|_| random.below(4)).collect(), seen.shape(0).first().copied().unwrap_or(1))
}
fn reduce(word: &str) -> ScatterReduce {
    match word {
        "prod" => ScatterReduce::Prod,
        "mean" => ScatterReduce::Mean,
        "amax" => ScatterReduce::Amax,
        "amin" => ScatterReduce::Amin,
        _ => ScatterReduce::Sum,
    }
}
/// Places along the first axis, each once: which of two writes is the last is nobody's promise.
fn leading(seen: &Seen, random: &mut Random) -> (Vec<usize>, usize) {
    (vec![random.between(0, 1)], seen.shape(0).first().copied().unwrap_or(1))
}
/// What an index along the first axis reads.
fn rows_at(seen: &Seen, _: &mut Random) -> Vec<usize> {
    seen.shape(1).iter().chain(seen.shape(0).iter().skip(1)).copied().collect()
}
fn segment_reduce(word: &str) -> SegmentReduce {
    match word {
        "mean" => SegmentReduce::Mean,
        "max" => SegmentReduce::Max,
        "min" => SegmentReduce::Min,
        _ => SegmentReduce::Sum,
    }
}
fn bag(word: &str) -> BagMode {
    match word {
        "mean" => BagMode::Mean,
        "max" => BagMode::Max,
        _ => BagMode::Sum,
    }
}
const SEGMENTS: super::ArgKind = Word(&["sum", "mean", "max", "min"]);
const BAGS: super::ArgKind = Word(&["sum", "mean", "max"]);
const WAYS: super::ArgKind = Word(&["sum", "prod", "mean", "amax", "amin"]);

pub(super) fn rows() -> Vec<TorchFunction> {
    functions! {
        "Tensor::i" "read(x[0], x[1])" [Any, Index] |a| a.t(0).i(&a.index(1)[..]),
        "Tensor::i" "read(x[0], x[1])" [Any, Index] |a| a.t(0).i(&a.index(1)[..]),
        "Tensor::with_i" "written(x[0], x[1], x[2])" [Any, Index, Written] |a| a.t(0).with_i(&a.index(1)[..], a.operand(2)),
        "Tensor::with_i_added" "added(x[0], x[1], x[2])" [Any, Index, Written] |a| a.t(0).with_i_added(&a.index(1)[..], a.operand(2)),
        "Tensor::gather" "torch.gather(x[0], x[1], x[2])" [Any, Axis, Indices(along)] |a| a.t(0).gather(a.int(1), &a.t(2)),
        "Tensor::scatter_add" "torch.scatter_add(x[0], x[1], x[2], x[3])" [Any, Axis, Indices(along), Shaped(as_index)] |a| a.t(0).scatter_add(a.int(1), &a.t(2), &a.t(3)),
        "Tensor::scatter_value" "torch.scatter(x[0], x[1], x[2], x[3])" [Any, Axis, Indices(along), Number] |a| a.t(0).scatter_value(a.int(1), &a.t(2), a.number(3)),
        "Tensor::scatter_reduce" "torch.scatter_reduce(x[0], x[1], x[2], x[3], x[4], include_self=x[5])" [Any, Axis, Indices(along), Shaped(as_index), WAYS, Flag] |a| a.t(0).scatter_reduce(a.int(1), &a.t(2), &a.t(3), reduce(a.word(4)), a.flag(5)),
        "Tensor::index_select" "torch.index_select(x[0], x[1], x[2])" [Any, Axis, Indices(line)] |a| a.t(0).index_select(a.int(1), &a.t(2)),
        "Tensor::index_add" "torch.index_add(x[0], x[1], x[2], x[3], alpha=x[4])" [Any, Axis, Indices(line), Shaped(as_line), Number] |a| a.t(0).index_add(a.int(1), &a.t(2), &a.t(3), a.number(4)),
        "Tensor::index_fill" "torch.index_fill(x[0], x[1], x[2], x[3])" [Any, Axis, Indices(line), Number] |a| a.t(0).index_fill(a.int(1), &a.t(2), a.number(3)),
        "Tensor::take" "torch.take(x[0], x[1])" [Any, Indices(anywhere)] |a| a.t(0).take(&a.t(1)),
        "Tensor::take_along_dim" "torch.take_along_dim(x[0], x[2], x[1])" [Any, Axis, Indices(along)] |a| a.t(0).take_along_dim(&a.t(2), a.int(1)),
        "Tensor::nonzero" "torch.nonzero(x[0])" [Any] |a| a.t(0).nonzero(),
        "Tensor::masked_select" "torch.masked_select(x[0], x[1])" [Any, Mask] |a| a.t(0).masked_select(&a.t(1)),
        "Tensor::masked_scatter" "torch.masked_scatter(x[0], x[1], x[2])" [Any, Mask, Any] |a| a.t(0).masked_scatter(&a.t(1), &a.t(2)),
        "Tensor::index_put" "x[0].index_put((x[1],), x[2], accumulate=x[3])" [Any, Indices(leading), Shaped(rows_at), Flag] |a| a.t(0).index_put(&[Some(&a.t(1))], &a.t(2), a.flag(3)),
        "Tensor::index_reduce" "torch.index_reduce(x[0], x[1], x[2], x[3], x[4], include_self=x[5])" [Any, Axis, Indices(line), Shaped(as_line), Word(&["prod", "mean", "amax", "amin"]), Flag] |a| a.t(0).index_reduce(a.int(1), &a.t(2), &a.t(3), reduce(a.word(4)), a.flag(5)),
        "Tensor::segment_reduce" "torch.segment_reduce(x[0], x[2], lengths=x[1], axis=0)" [Sample(v(&[7, 2])), Sample(whole(&[4], &[2.0, 0.0, 4.0, 1.0])), SEGMENTS] |a| a.t(0).segment_reduce(segment_reduce(a.word(2)), Segments::Lengths(&a.t(1)), 0, None),
        "Tensor::segment_reduce" "torch.segment_reduce(x[0], x[2], offsets=x[1], axis=0, initial=0.5)" [Sample(v(&[6, 2])), Sample(whole(&[4], &[0.0, 2.0, 2.0, 6.0])), SEGMENTS] |a| a.t(0).segment_reduce(segment_reduce(a.word(2)), Segments::Offsets(&a.t(1)), 0, Some(0.5)),
        "Tensor::embedding_bag" "F.embedding_bag(x[0], x[1], mode=x[2])" [Indices(|_, random| (vec![random.between(1, 3), random.between(1, 3)], 1)), Shaped(rows_of), BAGS] |a| a.t(1).embedding_bag(&a.t(0), None, bag(a.word(2))),
        "Tensor::embedding_bag" "F.embedding_bag(x[0], x[1], x[2], mode=x[3])" [Sample(index(&[6], 5)), Sample(v(&[5, 2])), Sample(whole(&[2], &[0.0, 2.0])), BAGS] |a| a.t(1).embedding_bag(&a.t(0), Some(&a.t(2)), bag(a.word(3))),
        "Tensor::nonzero_static" "torch.nonzero_static(x[0], size=x[1], fill_value=-1)" [Any, Int(0, 6)] |a| a.t(0).nonzero_static(a.size(1), -1).0,
        "Tensor::fill_diagonal" "x[0].clone().fill_diagonal_(x[1], x[2])" [Any, Number, Flag] |a| a.t(0).fill_diagonal(a.number(1), a.flag(2)),
        "Tensor::one_hot" "F.one_hot(x[0], x[1])" [Indices(words), Int(4, 6)] |a| a.t(0).one_hot(a.size(1)),
        "Tensor::select_scatter" "torch.select_scatter(x[0], x[1], x[2], x[3])" [Any, Fits, Axis, Int(-2, 2)] |a| a.t(0).select_scatter(&a.t(1), a.int(2), a.int(3)),
        "functional::embedding" "F.embedding(x[0], x[1])" [Indices(words), Shaped(rows_of)] |a| adamant_core::functional::embedding(&a.t(0), &a.t(1), None),
    }
}
