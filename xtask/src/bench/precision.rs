//! The forms of networks in other precisions: the region that their forward passes run in, and how near to f32 their results must be.
use adamant::{DType, Result, amp::Autocast};
use adamant_bench::{Checked, agreement::apart_in, ensure};

/// The region of a precision: that of f32 is switched off, so that what a region costs can be seen.
pub fn region(precision: DType) -> Result<Autocast> {
    match precision {
        DType::F32 => Ok(Autocast::new(DType::BF16)?.enabled(false)),
        low => Autocast::new(low),
    }
}
/// Runs `f` in a precision, where one was asked for.
pub fn run_in<R>(region: Option<&Autocast>, f: impl FnOnce() -> R) -> R {
    match region {
        Some(region) => region.run(f),
        None => f(),
    }
}
/// How far results of a precision are from those of f32, as a share of what is allowed, which is a share of the largest of them.
pub fn near(precision: DType, ours: &[f64], exact: &[f64]) -> Checked<f64> {
    let allowed = apart_in(&[Some(precision)]) * exact.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let worst = ours.iter().zip(exact).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
    let right = ours.len() == exact.len() && !exact.is_empty() && worst <= allowed && ours.iter().all(|x| x.is_finite());
    ensure(right, || format!("in {precision} it is {worst:.3e} away from f32, {allowed:.3e} is allowed"))?;
    Ok(worst / allowed)
}
