//! AWQ (Lin et al. 2023, sections 3.2 and 3.3): what columns are multiplied with before they are rounded, and how far the range of
//! a group is clipped, both by what the layer's outputs on the calibration data lose.
use super::{
    AwqOptions,
    candidate::{CLIPS, Candidate, CodeGrid},
    inputs::InputMoments,
};
use crate::scheme::LayerScheme;
use adamant_core::{DType, Result, Tensor};

/// The least factor of a column before all are brought to a middle of 1.
const LEAST_FACTOR: f64 = 1e-4;

/// Rows of a weight, f32 `[rows, columns]`, with the moments of their input.
pub(crate) struct AwqRows<'a> {
    pub weight: Tensor,
    pub moments: &'a InputMoments,
    pub scheme: LayerScheme,
}
/// What columns are multiplied with, and what the norm before is divided by.
pub(crate) struct ColumnFactors {
    pub exponent: f64,
    pub factors: Vec<f32>,
}
impl ColumnFactors {
    pub fn tensor(&self) -> Tensor {
        Tensor::from_vec(self.factors.clone(), [self.factors.len()])
    }
}
/// Codes of weights that stand for them times the factors, if there are any; the numbers of the candidates have been divided by
/// these.
pub(crate) struct AwqChoice {
    pub candidates: Vec<Candidate>,
    pub factors: Option<ColumnFactors>,
}

/// The best codes of all rows that share an input. Without `may_scale` there are no factors; `powers`: they are powers of two, which
/// a norm of 16-bit numbers is divided by exactly.
#[track_caller]
pub(crate) fn search(rows: &[AwqRows<'_>], options: AwqOptions, may_scale: bool, powers: bool) -> Result<AwqChoice> {
    let (mut best, mut factors) = (attempts(rows, None)?, None);
    let plain = errors(rows, &best)?;
    let mut least: f64 = plain.iter().sum();
    if let (true, Some(first)) = (may_scale, rows.first()) {
        let mean: Vec<f64> = first.moments.absolute.to_vec::<f64>()?.iter().map(|sum| sum / first.moments.rows.max(1) as f64).collect();
        for k in 1..options.grid {
            let tried = column_factors(&mean, k as f64 / options.grid as f64, powers);
            let candidates = attempts(rows, Some(&tried))?;
            let tried_errors = errors(rows, &candidates)?;
            // What is good for one layer must not be paid for by another.
            let nowhere_worse = tried_errors.iter().zip(&plain).all(|(tried, plain)| tried <= plain);
            let sum = tried_errors.iter().sum();
            if nowhere_worse && sum < least {
                (best, factors, least) = (candidates, Some(tried), sum);
            }
        }
    }
    if options.clip {
        for (rows, best) in rows.iter().zip(&mut best) {
            let clipped = clipped(rows, factors.as_ref())?;
            let better = row_errors(rows, &clipped)?.lt(row_errors(rows, best)?);
            *best = best.with_rows(&clipped, &better.to(best.codes.device()?));
        }
    }
    Ok(AwqChoice { candidates: best, factors })
}
fn column_factors(mean: &[f64], exponent: f64, powers: bool) -> ColumnFactors {
    let raised: Vec<f64> = mean.iter().map(|m| m.powf(exponent).max(LEAST_FACTOR)).collect();
    let (least, most) = raised.iter().fold((f64::INFINITY, 0f64), |(l, m), v| (l.min(*v), m.max(*v)));
    let middle = (least * most).sqrt();
    let of = |raised: f64| if powers { (raised / middle).log2().round().exp2() } else { raised / middle };
    ColumnFactors { exponent, factors: raised.into_iter().map(|r| of(r) as f32).collect() }
}
#[track_caller]
fn attempts(rows: &[AwqRows<'_>], factors: Option<&ColumnFactors>) -> Result<Vec<Candidate>> {
    let attempt = |rows: &AwqRows<'_>| {
        let scaled = scaled(rows, factors);
        let grid = CodeGrid::spanning(&scaled, rows.scheme.packing, rows.scheme.scales)?;
        unscaled(Candidate::nearest(&scaled, grid, rows.scheme.packing)?, factors)
    };
    rows.iter().map(attempt).collect()
}
#[track_caller]
fn scaled(rows: &AwqRows<'_>, factors: Option<&ColumnFactors>) -> Tensor {
    factors.map_or_else(|| rows.weight.clone(), |f| &rows.weight * f.tensor())
}
#[track_caller]
fn unscaled(candidate: Candidate, factors: Option<&ColumnFactors>) -> Result<Candidate> {
    let numbers = match factors {
        Some(factors) => candidate.numbers / factors.tensor(),
        None => candidate.numbers,
    };
    numbers.materialize()?;
    Ok(Candidate { numbers, ..candidate })
}
/// What each row of a layer's outputs loses.
#[track_caller]
fn row_errors(rows: &AwqRows<'_>, candidate: &Candidate) -> Result<Tensor> {
    let change = (&candidate.numbers - &rows.weight).to(rows.moments.hessian.device()?).cast(DType::F64);
    rows.moments.row_errors(&change).ok()
}
/// What the outputs of each weight's rows lose; scales that are not stored as numbers lose everything.
#[track_caller]
fn errors(rows: &[AwqRows<'_>], candidates: &[Candidate]) -> Result<Vec<f64>> {
    let of = |(rows, candidate)| {
        let sum = row_errors(rows, candidate)?.sum(..).item::<f64>()?;
        Ok(if sum.is_nan() { f64::INFINITY } else { sum })
    };
    rows.iter().zip(candidates).map(of).collect()
}
/// Each group with the range that its share of the outputs loses least by.
#[track_caller]
fn clipped(rows: &AwqRows<'_>, factors: Option<&ColumnFactors>) -> Result<Candidate> {
    let LayerScheme { packing, scales, .. } = rows.scheme;
    let [n, columns] = rows.weight.dims()?;
    let groups = packing.groups(columns);
    let group = columns / groups;
    let (here, device) = (rows.weight.device()?, rows.moments.hessian.device()?);
    // [groups, group, group]: how the columns of one group go together.
    let blocks = rows.moments.hessian.reshape([groups, group, groups, group]).diagonal(0, 0, 2).permute([2, 0, 1]);
    let scaled = scaled(rows, factors);
    let by_group = |t: &Tensor| t.reshape([n, groups, group]);
    let errors = |grid: &CodeGrid| {
        let numbers = grid.numbers(&grid.codes(&by_group(&scaled), packing)).reshape([n, columns]);
        let change = factors.map_or_else(|| numbers.clone(), |f| &numbers / f.tensor()) - &rows.weight;
        let change = by_group(&change.to(device).cast(DType::F64)).transpose(0, 1);
        (change.matmul(&blocks) * &change).sum(2).mt().to(here)
    };
    let mut best = CodeGrid::spanning(&scaled, packing, scales)?;
    let mut least = errors(&best);
    for clip in CLIPS {
        let tried = CodeGrid::spanning(&(&scaled * clip), packing, scales)?;
        let error = errors(&tried);
        let better = error.lt(&least);
        least = better.where_(&error, &least);
        let zero_point = best.zero_point.as_ref().zip(tried.zero_point.as_ref()).map(|(own, other)| better.where_(other, own));
        best = CodeGrid { scale: better.where_(&tried.scale, &best.scale), zero_point };
        [Some(&least), Some(&best.scale), best.zero_point.as_ref()].into_iter().flatten().try_for_each(Tensor::materialize)?;
    }
    unscaled(Candidate::nearest(&scaled, best, packing)?, factors)
}
