//! Shapes, dtypes, joining and splitting, and what chooses between elements.
use super::{
    ArgKind::{Any, Axis, AxisList, Dtype, Fits, Flag, Float, Int, IntOf, Ints, List, Mask, NewAxis, Number, Operand, Real, Shaped},
    Seen, TorchFunction, functions,
};
use crate::random::Random;
use adamant_core::{Tensor, tensor::Indexing};

/// Another shape of as many elements, now and then with a size left open.
fn regrouped(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let total: usize = seen.shape(0).iter().product();
    let mut rest = total;
    let mut sizes = Vec::new();
    for _ in 0..random.between(0, 3) {
        let divisors: Vec<usize> = (1..=rest.max(1)).filter(|d| rest % d == 0).collect();
        let size = if rest == 0 { random.below(4) } else { *random.pick(&divisors) };
        sizes.push(size as i64);
        rest = rest.checked_div(size).unwrap_or(0);
    }
    sizes.push(if random.one_in(3) { -1 } else { rest as i64 });
    sizes
}
/// Larger where a size is 1, with more axes before, -1 where it stays.
fn expanded(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let mut sizes: Vec<i64> = (0..random.below(3)).map(|_| random.below(4) as i64).collect();
    for &size in seen.shape(0) {
        sizes.push(match size {
            1 => random.below(4) as i64,
            _ if random.one_in(3) => -1,
            size => size as i64,
        });
    }
    sizes
}
fn repeats(seen: &Seen, random: &mut Random) -> Vec<i64> {
    (0..seen.shape(0).len() + random.below(2)).map(|_| random.below(4) as i64).collect()
}
fn permutation(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let rank = seen.shape(0).len();
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    for k in (1..rank).rev() {
        axes.swap(k, random.below(k + 1));
    }
    axes.iter().map(|&a| if random.one_in(4) { a - rank as i64 } else { a }).collect()
}
/// Sizes that add up to that of the axis.
fn parts(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let mut rest = seen.along(1);
    let mut sizes = Vec::new();
    while rest > 0 && sizes.len() < 3 {
        let size = random.between(0, rest);
        sizes.push(size as i64);
        rest -= size;
    }
    sizes.push(rest as i64);
    sizes
}
fn factored(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let size = seen.along(1);
    let divisors: Vec<usize> = (1..=size.max(1)).filter(|d| size % d == 0).collect();
    let first = *random.pick(&divisors);
    vec![first as i64, if random.one_in(2) { -1 } else { (size / first) as i64 }]
}
fn shifts(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let count = match seen.args.last() {
        Some(super::ProgramArg::Ints(axes)) => axes.len(),
        _ => 1,
    };
    (0..count).map(|_| random.between(0, 8) as i64 - 4).collect()
}
fn widths(seen: &Seen, random: &mut Random) -> Vec<i64> {
    let axes = random.between(1, seen.shape(0).len().clamp(1, 2));
    (0..2 * axes).map(|_| random.between(0, 4) as i64 - 1).collect()
}
fn start(seen: &Seen, random: &mut Random) -> i64 {
    random.between(0, seen.along(1)) as i64
}
fn length(seen: &Seen, random: &mut Random) -> i64 {
    let from = if let Some(super::ProgramArg::Int(n)) = seen.args.last() { usize::try_from(*n).unwrap_or(0) } else { 0 };
    random.between(0, seen.along(1).saturating_sub(from)) as i64
}
fn place(seen: &Seen, random: &mut Random) -> i64 {
    let size = seen.along(1).max(1);
    random.below(2 * size) as i64 - size as i64
}
fn small(_: &Seen, random: &mut Random) -> Vec<usize> {
    let axes = random.below(3);
    (0..axes).map(|_| random.below(4)).collect()
}
fn line(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.below(5)]
}

pub(super) fn rows() -> Vec<TorchFunction> {
    let mut all = views();
    all.extend(pieces());
    all.extend(choices());
    all
}
fn views() -> Vec<TorchFunction> {
    functions! {
        "Tensor::reshape" "x[0].reshape(x[1])" [Any, Ints(regrouped)] |a| a.t(0).reshape(a.ints(1)),
        "Tensor::permute" "x[0].permute(x[1])" [Any, Ints(permutation)] |a| a.t(0).permute(a.ints(1)),
        "Tensor::transpose" "x[0].transpose(x[1], x[2])" [Any, Axis, Axis] |a| a.t(0).transpose(a.int(1), a.int(2)),
        "Tensor::transpose" "x[0].transpose(x[1], x[2])" [Any, Axis, Axis] |a| a.t(0).transpose(a.int(1), a.int(2)),
        "Tensor::movedim" "x[0].movedim(x[1], x[2])" [Any, Axis, Axis] |a| a.t(0).movedim(a.int(1), a.int(2)),
        "Tensor::t" "x[0].t()" [Any] |a| a.t(0).t(),
        "Tensor::mt" "x[0].mT" [Any] |a| a.t(0).mt(),
        "Tensor::adjoint" "x[0].adjoint()" [Any] |a| a.t(0).adjoint(),
        "Tensor::expand" "x[0].expand(x[1])" [Any, Ints(expanded)] |a| a.t(0).expand(a.ints(1)),
        "Tensor::repeat" "x[0].repeat(x[1])" [Any, Ints(repeats)] |a| a.t(0).repeat(a.ints(1)),
        "Tensor::tile" "x[0].tile(x[1])" [Any, Ints(repeats)] |a| a.t(0).tile(a.ints(1)),
        "Tensor::flatten" "x[0].flatten(x[1], x[2])" [Any, Axis, Axis] |a| a.t(0).flatten(a.int(1), a.int(2)),
        "Tensor::unflatten" "x[0].unflatten(x[1], x[2])" [Any, Axis, Ints(factored)] |a| a.t(0).unflatten(a.int(1), a.ints(2)),
        "Tensor::squeeze" "x[0].squeeze(x[1])" [Any, AxisList] |a| a.t(0).squeeze(a.axes(1)),
        "Tensor::squeeze" "x[0].squeeze()" [Any] |a| a.t(0).squeeze(..),
        "Tensor::unsqueeze" "x[0].unsqueeze(x[1])" [Any, NewAxis] |a| a.t(0).unsqueeze(a.int(1)),
        "Tensor::flip" "x[0].flip(x[1])" [Any, AxisList] |a| a.t(0).flip(a.axes(1)),
        "Tensor::roll" "x[0].roll(x[2], x[1])" [Any, AxisList, Ints(shifts)] |a| a.t(0).roll(a.ints(2), a.ints(1)),
        "Tensor::rot90" "x[0].rot90(x[1], (0, 1))" [Any, Int(-3, 5)] |a| a.t(0).rot90(a.int(1), [0, 1]),
        "Tensor::narrow" "x[0].narrow(x[1], x[2], x[3])" [Any, Axis, IntOf(start), IntOf(length)] |a| a.t(0).narrow(a.int(1), a.size(2), a.size(3)),
        "Tensor::slice" "x[0][1:6:2]" [super::ArgKind::Sample(crate::registry::v(&[7, 2]))] |a| a.t(0).slice(0, 1, 6, 2),
        "Tensor::rearrange" "rearrange(x[0], 'b (h p) c -> p (c b) h 1', p=2)" [super::ArgKind::Sample(crate::registry::v(&[2, 6, 3]))] |a| a.t(0).rearrange("b (h p) c -> p (c b) h 1", &[("p", 2)]),
        "Tensor::select" "x[0].select(x[1], x[2])" [Any, Axis, IntOf(place)] |a| a.t(0).select(a.int(1), a.int(2)),
        "Tensor::unfold" "x[0].unfold(x[1], x[2], x[3])" [Any, Axis, Int(0, 4), Int(1, 3)] |a| a.t(0).unfold(a.int(1), a.size(2), a.size(3)),
        "Tensor::diagonal" "x[0].diagonal(x[1], x[2], x[3])" [Any, Int(-2, 2), Axis, Axis] |a| a.t(0).diagonal(a.int(1), a.int(2), a.int(3)),
        "Tensor::diag" "x[0].diag(x[1])" [Any, Int(-2, 2)] |a| a.t(0).diag(a.int(1)),
        "Tensor::diagflat" "x[0].diagflat(x[1])" [Shaped(small), Int(-2, 2)] |a| a.t(0).diagflat(a.int(1)),
        "Tensor::diag_embed" "x[0].diag_embed(x[1])" [Any, Int(-2, 2)] |a| a.t(0).diag_embed(a.int(1), -2, -1),
        "Tensor::tril" "x[0].tril(x[1])" [Any, Int(-2, 2)] |a| a.t(0).tril(a.int(1)),
        "Tensor::triu" "x[0].triu(x[1])" [Any, Int(-2, 2)] |a| a.t(0).triu(a.int(1)),
        "Tensor::cast" "x[0].to(x[1])" [Any, Dtype] |a| a.t(0).cast(a.dtype(1)),
        "Tensor::type_as" "x[0].type_as(x[1])" [Any, Any] |a| a.t(0).type_as(&a.t(1)),
        "Tensor::full_like" "torch.full_like(x[0], x[1])" [Any, Number] |a| a.t(0).full_like(a.number(1)),
    }
}
fn pieces() -> Vec<TorchFunction> {
    functions! {
        "Tensor::cat" "torch.cat(x[0], x[1])" [List, Int(-2, 2)] |a| Tensor::cat(&a.ts(0), a.int(1)),
        "Tensor::stack" "torch.stack(x[0], x[1])" [List, Int(-2, 2)] |a| Tensor::stack(&a.ts(0), a.int(1)),
        "Tensor::hstack" "torch.hstack(x[0])" [List] |a| Tensor::hstack(&a.ts(0)),
        "Tensor::vstack" "torch.vstack(x[0])" [List] |a| Tensor::vstack(&a.ts(0)),
        "Tensor::dstack" "torch.dstack(x[0])" [List] |a| Tensor::dstack(&a.ts(0)),
        "Tensor::column_stack" "torch.column_stack(x[0])" [List] |a| Tensor::column_stack(&a.ts(0)),
        "Tensor::block_diag" "torch.block_diag(*x[0])" [List] |a| Tensor::block_diag(&a.ts(0)),
        "Tensor::broadcast_tensors" "torch.broadcast_tensors(*x[0])" [List] |a| Tensor::broadcast_tensors(&a.ts(0)),
        "Tensor::meshgrid" "torch.meshgrid(x[0], x[1], indexing='xy')" [Shaped(line), Shaped(line)] |a| Tensor::meshgrid(&[a.t(0), a.t(1)], Indexing::Xy),
        "Tensor::meshgrid" "torch.meshgrid(x[0], x[1], indexing='ij')" [Shaped(line), Shaped(line)] |a| Tensor::meshgrid(&[a.t(0), a.t(1)], Indexing::Ij),
        "Tensor::split" "x[0].split(x[2], x[1])" [Any, Axis, Int(0, 4)] |a| a.t(0).split(a.size(2), a.int(1)),
        "Tensor::split_with_sizes" "x[0].split(x[2], x[1])" [Any, Axis, Ints(parts)] |a| a.t(0).split_with_sizes(&a.sizes(2), a.int(1)),
        "Tensor::chunk" "x[0].chunk(x[2], x[1])" [Any, Axis, Int(1, 4)] |a| a.t(0).chunk(a.size(2), a.int(1)),
        "Tensor::tensor_split" "x[0].tensor_split(x[2], x[1])" [Any, Axis, Int(1, 4)] |a| a.t(0).tensor_split(a.size(2), a.int(1)),
        "Tensor::unbind" "x[0].unbind(x[1])" [Any, Axis] |a| a.t(0).unbind(a.int(1)),
        "Tensor::repeat_interleave" "x[0].repeat_interleave(x[1], x[2])" [Any, Int(0, 3), Axis] |a| a.t(0).repeat_interleave(a.size(1), a.int(2)),
        "functional::pad" "F.pad(x[0], x[1], value=x[2])" [Any, Ints(widths), Number] |a| {
            let widths: Vec<isize> = a.ints(1).iter().map(|&n| n as isize).collect();
            adamant_core::functional::pad(&a.t(0), &widths, adamant_core::functional::PadMode::Constant(a.number(2)))
        },
    }
}
fn choices() -> Vec<TorchFunction> {
    functions! {
        "Tensor::where_" "torch.where(x[1], x[0], x[2])" [Any, Mask, Operand] |a| Tensor::where_(&a.t(1), a.operand(0), a.operand(2)),
        "Tensor::masked_fill" "x[0].masked_fill(x[1], x[2])" [Any, Mask, Number] |a| a.t(0).masked_fill(&a.t(1), a.number(2)),
        "Tensor::clamp" "torch.clamp(x[0], min=x[1], max=x[2])" [Any, Number, Number] |a| a.t(0).clamp(a.number(1), a.number(2)),
        "Tensor::clamp" "torch.clamp(x[0], x[1], x[2])" [Any, Fits, Fits] |a| a.t(0).clamp(a.t(1), a.t(2)),
        "Tensor::clamp_min" "torch.clamp_min(x[0], x[1])" [Any, Operand] |a| a.t(0).clamp_min(a.operand(1)),
        "Tensor::clamp_max" "torch.clamp_max(x[0], x[1])" [Any, Operand] |a| a.t(0).clamp_max(a.operand(1)),
        "Tensor::lerp" "torch.lerp(x[0], x[1], x[2])" [Float, Fits, Real(&[0.25, 0.75, 1.5])] |a| a.t(0).lerp(&a.t(1), a.number(2)),
        "Tensor::addcmul" "torch.addcmul(x[0], x[1], x[2], value=x[3])" [Any, Fits, Fits, Number] |a| a.t(0).addcmul(&a.t(1), &a.t(2), a.number(3)),
        "Tensor::addcdiv" "torch.addcdiv(x[0], x[1], x[2], value=x[3])" [Any, Fits, Fits, Number] |a| a.t(0).addcdiv(&a.t(1), &a.t(2), a.number(3)),
        "Tensor::isclose" "torch.isclose(x[0], x[1], 0.1, 0.1, x[2])" [Any, Fits, Flag] |a| a.t(0).isclose(&a.t(1), 0.1, 0.1, a.flag(2)),
        "Tensor::nan_to_num" "torch.nan_to_num(x[0], 0.5, None, -1.0)" [Any] |a| a.t(0).nan_to_num(0.5, None, Some(-1.0)),
        "Tensor::round_with" "torch.round(x[0], decimals=x[1])" [Any, Int(-1, 2)] |a| a.t(0).round_with(a.int(1) as i32),
        "Tensor::div_trunc" "torch.div(x[0], x[1], rounding_mode='trunc')" [Any, Operand] |a| a.t(0).binary(adamant_core::scalar::Binary::DivTrunc, a.operand(1)),
        "Tensor::div_scalar" "x[0] / 3.0" [Any] |a| a.t(0).div_scalar(3.0),
        "Tensor::polygamma" "torch.polygamma(x[1], x[0])" [Any, super::ArgKind::Int(-1, 4)] |a| a.t(0).binary(adamant_core::scalar::Binary::Polygamma, a.number(1)),
        "Tensor::rsub" "x[1] - x[0]" [Any, Number] |a| a.t(0).binary_reversed(adamant_core::scalar::Binary::Sub, a.number(1)),
        "Tensor::rdiv" "x[1] / x[0]" [Any, Number] |a| a.t(0).binary_reversed(adamant_core::scalar::Binary::Div, a.number(1)),
        "Tensor::rpow" "x[1] ** x[0]" [Any, Number] |a| a.t(0).binary_reversed(adamant_core::scalar::Binary::Pow, a.number(1)),
        "Tensor::neg" "-x[0]" [Any] |a| -a.t(0),
        "Tensor::sub" "x[0] - x[1]" [Any, Fits] |a| a.t(0) - a.t(1),
        "Tensor::add" "x[0] + x[1]" [Any, Fits] |a| a.t(0) + a.t(1),
        "Tensor::mul" "x[0] * x[1]" [Any, Fits] |a| a.t(0) * a.t(1),
        "Tensor::div" "x[0] / x[1]" [Any, Fits] |a| a.t(0) / a.t(1),
    }
}
