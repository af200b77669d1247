//! Reductions, scans, sorting and statistics.
use super::{
    ArgKind::{Any, Axes, Axis, Dtype, Flag, Float, Int, IntOf, Real, Sample, Shaped},
    Seen, TorchFunction, functions,
};
use crate::{
    random::Random,
    registry::{given, v},
};
use adamant_core::tensor::Interpolation;

/// A number of elements there are, now and then one more.
fn rank_of_one(seen: &Seen, random: &mut Random) -> i64 {
    random.between(1, seen.along(1).max(1)) as i64
}
fn line(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 6)]
}
fn interpolation(word: &str) -> Interpolation {
    match word {
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "nearest" => Interpolation::Nearest,
        "midpoint" => Interpolation::Midpoint,
        _ => Interpolation::Linear,
    }
}
const WAYS: super::ArgKind = super::ArgKind::Word(&["linear", "lower", "higher", "nearest", "midpoint"]);

pub(super) fn rows() -> Vec<TorchFunction> {
    let mut all = sums();
    all.extend(scans());
    all.extend(orders());
    all
}
fn sums() -> Vec<TorchFunction> {
    functions! {
        "Tensor::sum" "torch.sum(x[0], dim=x[1])" [Any, Axes] |a| a.t(0).sum(a.axes(1)),
        "Tensor::sum_keepdim" "torch.sum(x[0], dim=x[1], keepdim=True)" [Any, Axes] |a| a.t(0).sum_keepdim(a.axes(1)),
        "Tensor::sum_dtype" "torch.sum(x[0], dim=x[1], dtype=x[2])" [Any, Axes, Dtype] |a| a.t(0).sum_dtype(a.axes(1), a.dtype(2)),
        "Tensor::mean_dtype" "torch.mean(x[0], dim=x[1], dtype=x[2])" [Any, Axes, Dtype] |a| a.t(0).mean_dtype(a.axes(1), a.dtype(2)),
        "Tensor::mean" "torch.mean(x[0], dim=x[1])" [Float, Axes] |a| a.t(0).mean(a.axes(1)),
        "Tensor::mean_keepdim" "torch.mean(x[0], dim=x[1], keepdim=True)" [Any, Axes] |a| a.t(0).mean_keepdim(a.axes(1)),
        "Tensor::prod" "torch.prod(x[0], x[1])" [Any, Axis] |a| a.t(0).prod(a.axes(1)),
        "Tensor::prod" "torch.prod(x[0])" [Any] |a| a.t(0).prod(..),
        "Tensor::prod_keepdim" "torch.prod(x[0], x[1], keepdim=True)" [Any, Axis] |a| a.t(0).prod_keepdim(a.axes(1)),
        "Tensor::amax" "torch.amax(x[0], x[1] or ())" [Any, Axes] |a| a.t(0).amax(a.axes(1)),
        "Tensor::amax_keepdim" "torch.amax(x[0], x[1] or (), keepdim=True)" [Any, Axes] |a| a.t(0).amax_keepdim(a.axes(1)),
        "Tensor::amin" "torch.amin(x[0], x[1] or ())" [Any, Axes] |a| a.t(0).amin(a.axes(1)),
        "Tensor::amin_keepdim" "torch.amin(x[0], x[1] or (), keepdim=True)" [Any, Axes] |a| a.t(0).amin_keepdim(a.axes(1)),
        "Tensor::all" "torch.all(x[0], dim=x[1])" [Any, Axes] |a| a.t(0).all(a.axes(1)),
        "Tensor::all_keepdim" "torch.all(x[0], dim=x[1], keepdim=True)" [Any, Axes] |a| a.t(0).all_keepdim(a.axes(1)),
        "Tensor::any" "torch.any(x[0], dim=x[1])" [Any, Axes] |a| a.t(0).any(a.axes(1)),
        "Tensor::any_keepdim" "torch.any(x[0], dim=x[1], keepdim=True)" [Any, Axes] |a| a.t(0).any_keepdim(a.axes(1)),
        "Tensor::count_nonzero" "torch.count_nonzero(x[0], dim=x[1])" [Any, Axes] |a| a.t(0).count_nonzero(a.axes(1)),
        "Tensor::nansum" "torch.nansum(x[0], dim=x[1])" [Any, Axes] |a| a.t(0).nansum(a.axes(1)),
        "Tensor::nansum_keepdim" "torch.nansum(x[0], dim=x[1], keepdim=True)" [Any, Axes] |a| a.t(0).nansum_keepdim(a.axes(1)),
        "Tensor::nanmean" "torch.nanmean(x[0], dim=x[1])" [Float, Axes] |a| a.t(0).nanmean(a.axes(1)),
        "Tensor::logsumexp" "torch.logsumexp(x[0], every(x[0], x[1]))" [Any, Axes] |a| a.t(0).logsumexp(a.axes(1)),
        "Tensor::logsumexp_keepdim" "torch.logsumexp(x[0], every(x[0], x[1]), keepdim=True)" [Any, Axes] |a| a.t(0).logsumexp_keepdim(a.axes(1)),
        "Tensor::var" "torch.var(x[0], x[1], correction=x[2])" [Float, Axes, Int(0, 1)] |a| a.t(0).var(a.axes(1), a.real(2)),
        "Tensor::var_keepdim" "torch.var(x[0], x[1], correction=x[2], keepdim=True)" [Any, Axes, Int(0, 1)] |a| a.t(0).var_keepdim(a.axes(1), a.real(2)),
        "Tensor::std" "torch.std(x[0], x[1], correction=x[2])" [Float, Axes, Int(0, 1)] |a| a.t(0).std(a.axes(1), a.real(2)),
        "Tensor::std_keepdim" "torch.std(x[0], x[1], correction=x[2], keepdim=True)" [Any, Axes, Int(0, 1)] |a| a.t(0).std_keepdim(a.axes(1), a.real(2)),
        "Tensor::var_mean" "torch.var_mean(x[0], x[1], correction=x[2], keepdim=x[3])" [Float, Axes, Int(0, 1), Flag] |a| if a.flag(3) { a.t(0).var_mean_keepdim(a.axes(1), a.real(2)) } else { a.t(0).var_mean(a.axes(1), a.real(2)) },
        "Tensor::std_mean" "torch.std_mean(x[0], x[1], correction=x[2], keepdim=x[3])" [Float, Axes, Int(0, 1), Flag] |a| if a.flag(3) { a.t(0).std_mean_keepdim(a.axes(1), a.real(2)) } else { a.t(0).std_mean(a.axes(1), a.real(2)) },
        "Tensor::aminmax" "torch.aminmax(x[0], dim=x[1], keepdim=x[2])" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).aminmax_keepdim(a.axes(1)) } else { a.t(0).aminmax(a.axes(1)) },
        "Tensor::vector_norm" "torch.linalg.vector_norm(x[0], x[1], x[2], x[3])" [Float, Real(&[0.0, 1.0, 2.0, 3.0, 0.5, -1.0]), Axes, Flag] |a| if a.flag(3) { a.t(0).vector_norm_keepdim(a.real(1), a.axes(2)) } else { a.t(0).vector_norm(a.real(1), a.axes(2)) },
        "Tensor::normalize" "F.normalize(x[0], x[1], x[2])" [Float, Real(&[1.0, 2.0, 3.0]), Axis] |a| a.t(0).normalize(a.real(1), a.int(2), 1e-12),
        "Tensor::softmax" "torch.softmax(x[0], x[1])" [Float, Axis] |a| a.t(0).softmax(a.int(1)),
        "Tensor::log_softmax" "torch.log_softmax(x[0], x[1])" [Float, Axis] |a| a.t(0).log_softmax(a.int(1)),
        "Tensor::softmin" "F.softmin(x[0], x[1])" [Float, Axis] |a| a.t(0).softmin(a.int(1)),
        "Tensor::glu" "F.glu(x[0], x[1])" [Float, Axis] |a| a.t(0).glu(a.int(1)),
        "Tensor::var_mean_keepdim" "torch.var_mean(x[0], x[1], correction=x[2], keepdim=True)" [Float, Axes, Int(0, 1)] |a| a.t(0).var_mean_keepdim(a.axes(1), a.real(2)),
        "Tensor::std_mean_keepdim" "torch.std_mean(x[0], x[1], correction=x[2], keepdim=True)" [Float, Axes, Int(0, 1)] |a| a.t(0).std_mean_keepdim(a.axes(1), a.real(2)),
        "Tensor::pairwise_distance_keepdim" "F.pairwise_distance(x[0], x[1], x[2], 1e-6, True)" [Float, super::ArgKind::Fits, Real(&[1.0, 2.0, 3.0])] |a| a.t(0).pairwise_distance_keepdim(&a.t(1), a.real(2), 1e-6),
        "Tensor::histogramdd" "torch.histogramdd(x[0], [x[1], x[1]]).hist" [Sample(v(&[9, 2])), Sample(given(&[4], &[-1.0, 0.0, 0.5, 1.5]))] |a| a.t(0).histogramdd(&[&a.t(1), &a.t(1)], None, false),
        "Tensor::aminmax_keepdim" "torch.aminmax(x[0], dim=x[1], keepdim=True)" [Any, Axis] |a| a.t(0).aminmax_keepdim(a.axes(1)),
        "Tensor::vector_norm_keepdim" "torch.linalg.vector_norm(x[0], x[1], x[2], True)" [Float, Real(&[0.0, 1.0, 2.0, 3.0, -1.0]), Axes] |a| a.t(0).vector_norm_keepdim(a.real(1), a.axes(2)),
        "Tensor::trace" "torch.trace(x[0])" [Any] |a| a.t(0).trace(),
    }
}
fn scans() -> Vec<TorchFunction> {
    functions! {
        "Tensor::cumsum" "torch.cumsum(x[0], x[1])" [Any, Axis] |a| a.t(0).cumsum(a.int(1)),
        "Tensor::cumprod" "torch.cumprod(x[0], x[1])" [Any, Axis] |a| a.t(0).cumprod(a.int(1)),
        "Tensor::cummax" "torch.cummax(x[0], x[1])" [Any, Axis] |a| a.t(0).cummax(a.int(1)),
        "Tensor::cummin" "torch.cummin(x[0], x[1])" [Any, Axis] |a| a.t(0).cummin(a.int(1)),
        "Tensor::logcumsumexp" "torch.logcumsumexp(x[0], x[1])" [Float, Axis] |a| a.t(0).logcumsumexp(a.int(1)),
        "Tensor::diff" "torch.diff(x[0], x[1], x[2])" [Any, Int(0, 2), Axis] |a| a.t(0).diff(a.size(1), a.int(2)),
        "Tensor::trapezoid" "torch.trapezoid(x[0], dx=x[1], dim=x[2])" [Float, Real(&[0.5, 2.0]), Axis] |a| a.t(0).trapezoid(a.number(1), a.int(2)),
    }
}
fn orders() -> Vec<TorchFunction> {
    functions! {
        "Tensor::argmax" "torch.argmax(x[0], x[1])" [Any, Axis] |a| a.t(0).argmax(a.int(1)),
        "Tensor::argmax_keepdim" "torch.argmax(x[0], x[1], keepdim=True)" [Any, Axis] |a| a.t(0).argmax_keepdim(a.int(1)),
        "Tensor::argmin" "torch.argmin(x[0], x[1])" [Any, Axis] |a| a.t(0).argmin(a.int(1)),
        "Tensor::argmin_keepdim" "torch.argmin(x[0], x[1], keepdim=True)" [Any, Axis] |a| a.t(0).argmin_keepdim(a.int(1)),
        "Tensor::argmax" "torch.argmax(x[0])" [Any] |a| a.t(0).argmax(..),
        "Tensor::argmin" "torch.argmin(x[0])" [Any] |a| a.t(0).argmin(..),
        "Tensor::max_dim" "torch.max(x[0], x[1], x[2])" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).max_dim_keepdim(a.int(1)) } else { a.t(0).max_dim(a.int(1)) },
        "Tensor::min_dim" "torch.min(x[0], x[1], x[2])" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).min_dim_keepdim(a.int(1)) } else { a.t(0).min_dim(a.int(1)) },
        "Tensor::max_dim_keepdim" "torch.max(x[0], x[1], True)" [Any, Axis] |a| a.t(0).max_dim_keepdim(a.int(1)),
        "Tensor::min_dim_keepdim" "torch.min(x[0], x[1], True)" [Any, Axis] |a| a.t(0).min_dim_keepdim(a.int(1)),
        "Tensor::kthvalue_keepdim" "torch.kthvalue(x[0], x[2], x[1], True).values" [Any, Axis, IntOf(rank_of_one)] |a| a.t(0).kthvalue_keepdim(a.size(2), a.int(1)).0,
        "Tensor::median_dim_keepdim" "torch.median(x[0], x[1], True).values" [Any, Axis] |a| a.t(0).median_dim_keepdim(a.int(1)).0,
        "Tensor::nanmedian_dim_keepdim" "torch.nanmedian(x[0], x[1], True).values" [Any, Axis] |a| a.t(0).nanmedian_dim_keepdim(a.int(1)).0,
        "Tensor::mode_keepdim" "torch.mode(x[0], x[1], True).values" [Any, Axis] |a| a.t(0).mode_keepdim(a.int(1)).0,
        "Tensor::sort" "torch.sort(x[0], dim=x[1], descending=x[2], stable=True)" [Any, Axis, Flag] |a| a.t(0).sort(a.int(1), a.flag(2)),
        "Tensor::argsort" "torch.argsort(x[0], dim=x[1], descending=x[2], stable=True)" [Any, Axis, Flag] |a| a.t(0).argsort(a.int(1), a.flag(2)),
        // Which of equal elements is named is nobody's promise there, so the places are left out.
        "Tensor::topk" "torch.topk(x[0], x[2], x[1], x[3]).values" [Any, Axis, IntOf(rank_of_one), Flag] |a| a.t(0).topk(a.size(2), a.int(1), a.flag(3)).0,
        "Tensor::kthvalue" "torch.kthvalue(x[0], x[2], x[1], x[3]).values" [Any, Axis, IntOf(rank_of_one), Flag] |a| if a.flag(3) { a.t(0).kthvalue_keepdim(a.size(2), a.int(1)).0 } else { a.t(0).kthvalue(a.size(2), a.int(1)).0 },
        "Tensor::median_dim" "torch.median(x[0], x[1], x[2]).values" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).median_dim_keepdim(a.int(1)).0 } else { a.t(0).median_dim(a.int(1)).0 },
        "Tensor::nanmedian_dim" "torch.nanmedian(x[0], x[1], x[2]).values" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).nanmedian_dim_keepdim(a.int(1)).0 } else { a.t(0).nanmedian_dim(a.int(1)).0 },
        "Tensor::median" "torch.median(x[0])" [Any] |a| a.t(0).median(),
        "Tensor::mode" "torch.mode(x[0], x[1], x[2]).values" [Any, Axis, Flag] |a| if a.flag(2) { a.t(0).mode_keepdim(a.int(1)).0 } else { a.t(0).mode(a.int(1)).0 },
        "Tensor::quantile" "torch.quantile(x[0], x[2], x[1], x[3], interpolation=x[4])" [Float, Axis, Real(&[0.0, 0.3, 0.5, 1.0]), Flag, WAYS] |a| if a.flag(3) { a.t(0).quantile_keepdim(a.real(2), a.int(1), interpolation(a.word(4))) } else { a.t(0).quantile(a.real(2), a.int(1), interpolation(a.word(4))) },
        "Tensor::nanquantile" "torch.nanquantile(x[0], x[2], x[1], x[3], interpolation=x[4])" [Float, Axis, Real(&[0.0, 0.3, 0.5, 1.0]), Flag, WAYS] |a| if a.flag(3) { a.t(0).nanquantile_keepdim(a.real(2), a.int(1), interpolation(a.word(4))) } else { a.t(0).nanquantile(a.real(2), a.int(1), interpolation(a.word(4))) },
        "Tensor::quantile_keepdim" "torch.quantile(x[0], x[2], x[1], True, interpolation=x[3])" [Float, Axis, Real(&[0.0, 0.3, 0.5, 1.0]), WAYS] |a| a.t(0).quantile_keepdim(a.real(2), a.int(1), interpolation(a.word(3))),
        "Tensor::nanquantile_keepdim" "torch.nanquantile(x[0], x[2], x[1], True, interpolation=x[3])" [Float, Axis, Real(&[0.0, 0.3, 0.5, 1.0]), WAYS] |a| a.t(0).nanquantile_keepdim(a.real(2), a.int(1), interpolation(a.word(3))),
        "Tensor::quantiles" "torch.quantile(x[0], torch.tensor([0.1, 0.9], dtype=x[0].dtype), x[1], interpolation=x[2])" [Float, Axis, WAYS] |a| a.t(0).quantiles(&[0.1, 0.9], a.int(1), interpolation(a.word(2))),
        "Tensor::quantiles_keepdim" "torch.quantile(x[0], torch.tensor([0.1, 0.9], dtype=x[0].dtype), x[1], True, interpolation=x[2])" [Float, Axis, WAYS] |a| a.t(0).quantiles_keepdim(&[0.1, 0.9], a.int(1), interpolation(a.word(2))),
        "Tensor::unique" "torch.unique(x[0], return_inverse=True, return_counts=True)" [Any] |a| a.t(0).unique(),
        "Tensor::unique_consecutive" "torch.unique_consecutive(x[0], return_inverse=True, return_counts=True)" [Any] |a| a.t(0).unique_consecutive(),
        "Tensor::isin" "torch.isin(x[0], x[1])" [Any, Any] |a| a.t(0).isin(&a.t(1)),
        "Tensor::searchsorted" "torch.searchsorted(torch.sort(x[0]).values, x[1], right=x[2])" [Shaped(line), Any, Flag] |a| a.t(0).sort(-1, false).0.searchsorted(&a.t(1), a.flag(2)),
        "Tensor::bucketize" "torch.bucketize(x[1], torch.sort(x[0]).values, right=x[2])" [Shaped(line), Any, Flag] |a| a.t(1).bucketize(&a.t(0).sort(-1, false).0, a.flag(2)),
        "Tensor::count_nonzero_keepdim" "torch.count_nonzero(x[0], dim=x[1]).reshape(kept(x[0], x[1]))" [Any, Axes] |a| a.t(0).count_nonzero_keepdim(a.axes(1)),
        "Tensor::nanmean_keepdim" "torch.nanmean(x[0], dim=x[1], keepdim=True)" [Float, Axes] |a| a.t(0).nanmean_keepdim(a.axes(1)),
        "Tensor::bincount" "torch.bincount(x[0], minlength=x[1])" [super::ArgKind::Indices(|_, r| (vec![r.below(6)], 5)), Int(0, 7)] |a| a.t(0).bincount(None, a.size(1)),
    }
}
