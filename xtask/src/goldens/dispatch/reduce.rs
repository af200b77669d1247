//! Reductions and scans.
use crate::goldens::call::OpCall;
use adamant::{
    AxisSet, Error, Shape, Tensor,
    shape::Axes,
    tensor::{Interpolation, MatrixNorm},
};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let (x, keep) = (|| case.tensor(0), case.bool_or("keepdim", false)?);
    let axes = Dim(case.maybe_sizes("dim")?.filter(|d| !d.is_empty()));
    let correction = || Ok::<_, Error>(case.maybe_float("correction")?.unwrap_or(if case.bool_or("unbiased", true)? { 1.0 } else { 0.0 }));
    let axis = |default| case.axis_or("dim", default);
    macro_rules! reduced {
        ($plain:ident, $kept:ident $(, $arg:expr)*) => {
            if keep { x()?.$kept(axes.clone() $(, $arg)*) } else { x()?.$plain(axes.clone() $(, $arg)*) }
        };
    }
    Ok(Some(vec![match case.op() {
        "sum" => reduced!(sum, sum_keepdim),
        "sum_dtype" => x()?.sum_dtype(.., case.dtype("dtype")?),
        "mean" => reduced!(mean, mean_keepdim),
        "prod" => reduced!(prod, prod_keepdim),
        "amax" => reduced!(amax, amax_keepdim),
        "amin" => reduced!(amin, amin_keepdim),
        "logsumexp" => reduced!(logsumexp, logsumexp_keepdim),
        "all" => reduced!(all, all_keepdim),
        "any" => reduced!(any, any_keepdim),
        "count_nonzero" => x()?.count_nonzero(axes.clone()),
        "nansum" => reduced!(nansum, nansum_keepdim),
        "nanmean" => reduced!(nanmean, nanmean_keepdim),
        "var" => reduced!(var, var_keepdim, correction()?),
        "std" => reduced!(std, std_keepdim, correction()?),
        "argmax" | "argmin" => match (case.op(), case.maybe_int("dim")?, keep) {
            ("argmax", None, _) => x()?.argmax(..),
            (_, None, _) => x()?.argmin(..),
            ("argmax", Some(d), false) => x()?.argmax(d),
            ("argmax", Some(d), true) => x()?.argmax_keepdim(d),
            (_, Some(d), false) => x()?.argmin(d),
            (_, Some(d), true) => x()?.argmin_keepdim(d),
        },
        "cumsum" => x()?.cumsum(axis(0)?),
        "cumprod" => x()?.cumprod(axis(0)?),
        "logcumsumexp" => x()?.logcumsumexp(axis(0)?),
        "diff" => x()?.diff(case.int_or("n", 1)?.max(0) as usize, axis(-1)?),
        "linalg.vector_norm" => {
            let norm = if keep { Tensor::vector_norm_keepdim } else { Tensor::vector_norm };
            norm(x()?, case.float_or("ord", 2.0)?, axes)
        }
        "linalg.matrix_norm" => {
            let ord = match case.value("ord").and_then(|v| v.as_str()) {
                None if case.value("ord").is_some() => MatrixNorm::Ord(case.float("ord")?),
                None | Some("fro") => MatrixNorm::Fro,
                Some("nuc") => MatrixNorm::Nuc,
                Some(_) => MatrixNorm::Ord(case.float("ord")?),
            };
            if keep { x()?.matrix_norm_keepdim(ord) } else { x()?.matrix_norm(ord) }
        }
        "nn.functional.normalize" => x()?.normalize(case.float_or("p", 2.0)?, axis(1)?, case.float_or("eps", 1e-12)?),
        "quantile" | "nanquantile" => {
            let how = match case.text_or("interpolation", "linear")? {
                "lower" => Interpolation::Lower,
                "higher" => Interpolation::Higher,
                "nearest" => Interpolation::Nearest,
                "midpoint" => Interpolation::Midpoint,
                _ => Interpolation::Linear,
            };
            let (x, axis) = match case.maybe_int("dim")? {
                Some(d) => (x()?.clone(), d),
                None => (x()?.ravel(), 0),
            };
            let q = case.float("q")?;
            match (case.op(), keep) {
                ("quantile", false) => x.quantile(q, axis, how),
                ("quantile", true) => x.quantile_keepdim(q, axis, how),
                (_, false) => x.nanquantile(q, axis, how),
                (_, true) => x.nanquantile_keepdim(q, axis, how),
            }
        }
        "trace" => x()?.trace(),
        "histc" => x()?.histc(case.size("bins")?, case.float_or("min", 0.0)?, case.float_or("max", 0.0)?),
        "bincount" => x()?.bincount(case.optional(1), case.int_or("minlength", 0)?.max(0) as usize),
        "median" if case.maybe_int("dim")?.is_none() => x()?.median(),
        _ => return several(case, axes, keep, correction()?),
    }]))
}
/// The ops with two outputs.
fn several(case: &OpCall, axes: Dim, keep: bool, correction: f64) -> Result<Option<Vec<Tensor>>, Error> {
    let (x, axis) = (|| case.tensor(0), case.axis_or("dim", -1));
    macro_rules! either {
        ($plain:ident, $kept:ident, $($arg:expr),*) => { if keep { x()?.$kept($($arg),*) } else { x()?.$plain($($arg),*) } };
    }
    let (a, b) = match case.op() {
        "max_dim" => either!(max_dim, max_dim_keepdim, axis?),
        "min_dim" => either!(min_dim, min_dim_keepdim, axis?),
        "cummax" => x()?.cummax(axis?),
        "cummin" => x()?.cummin(axis?),
        "var_mean" => either!(var_mean, var_mean_keepdim, axes, correction),
        "std_mean" => either!(std_mean, std_mean_keepdim, axes, correction),
        "aminmax" => either!(aminmax, aminmax_keepdim, axes),
        "median" => either!(median_dim, median_dim_keepdim, axis?),
        "nanmedian" => either!(nanmedian_dim, nanmedian_dim_keepdim, axis?),
        "mode" => either!(mode, mode_keepdim, axis?),
        "kthvalue" => either!(kthvalue, kthvalue_keepdim, case.size("k")?, axis?),
        _ => return Ok(None),
    };
    Ok(Some(vec![a, b]))
}
/// Axes as the manifest gives them; left out: all.
#[derive(Clone)]
struct Dim(Option<Vec<isize>>);
impl Axes for Dim {
    fn to_axes(&self, shape: &Shape) -> Result<AxisSet, adamant::ErrorKind> {
        match &self.0 {
            Some(axes) => axes.to_axes(shape),
            None => (..).to_axes(shape),
        }
    }
}
