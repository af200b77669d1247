//! Statistics of samples: medians with intervals, and whether two sets of samples differ.
//!
//! Everything is a function of its arguments; what draws random numbers takes its seed. Times are positive and skewed to
//! the right, so nothing here assumes a normal distribution of the samples.
pub mod walsh;

use crate::inputs::RandomWords;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;
/// The share of a distribution that an interval leaves out on each side, for 95 %.
const TAIL: f64 = 0.025;

/// The middle of the samples; the mean of the two in the middle where their number is even. NaN if there are none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}
fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n == 0 { f64::NAN } else { (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0 }
}
/// The median of the distances from the median.
pub fn median_absolute_deviation(samples: &[f64]) -> f64 {
    let middle = median(samples);
    median(&samples.iter().map(|x| (x - middle).abs()).collect::<Vec<_>>())
}
/// The geometric mean; NaN if there are no numbers.
pub fn geometric_mean(numbers: &[f64]) -> f64 {
    (numbers.iter().map(|x| x.ln()).sum::<f64>() / numbers.len() as f64).exp()
}

/// A 95 % interval of the median from the order of the samples alone (Conover, *Practical Nonparametric Statistics*,
/// 3.2): cheap enough to ask after every sample. The whole range where there are fewer than six.
pub fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    if n == 0 {
        return (f64::NAN, f64::NAN);
    }
    let half = 1.959_963_984_540_054 * (n as f64).sqrt() / 2.0;
    let low = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
    let high = ((n as f64 / 2.0 + half).ceil() as usize).min(n - 1);
    (sorted[low.min(n - 1)], sorted[high])
}
/// A 95 % percentile bootstrap interval of the median.
pub fn bootstrap_median(samples: &[f64], seed: u64) -> (f64, f64) {
    let mut words = RandomWords::new(seed);
    interval(RESAMPLES, || {
        let mut drawn: Vec<f64> = (0..samples.len()).map(|_| samples[words.below(samples.len())]).collect();
        select_median(&mut drawn)
    })
}
/// A 95 % percentile bootstrap interval of the ratio of the medians of `b` and `a`. `paired`: a pair is drawn as a whole,
/// because its two samples met the same machine; else each side is drawn by itself.
pub fn bootstrap_ratio(a: &[f64], b: &[f64], paired: bool, seed: u64) -> (f64, f64) {
    if a.is_empty() || b.is_empty() || (paired && a.len() != b.len()) {
        return (f64::NAN, f64::NAN);
    }
    let mut words = RandomWords::new(seed);
    let (mut from_a, mut from_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    interval(RESAMPLES, || {
        if paired {
            for (x, y) in from_a.iter_mut().zip(&mut from_b) {
                let k = words.below(a.len());
                (*x, *y) = (a[k], b[k]);
            }
        } else {
            from_a.iter_mut().for_each(|x| *x = a[words.below(a.len())]);
            from_b.iter_mut().for_each(|y| *y = b[words.below(b.len())]);
        }
        select_median(&mut from_b) / select_median(&mut from_a)
    })
}
fn interval(resamples: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
    let mut drawn: Vec<f64> = (0..resamples).map(|_| draw()).collect();
    drawn.sort_by(f64::total_cmp);
    let at = |q: f64| drawn[((resamples - 1) as f64 * q).round() as usize];
    (at(TAIL), at(1.0 - TAIL))
}
/// The median by selection, which reorders.
fn select_median(samples: &mut [f64]) -> f64 {
    let n = samples.len();
    if n == 0 {
        return f64::NAN;
    }
    let (below, &mut upper, _) = samples.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 { upper } else { (below.iter().copied().fold(f64::NEG_INFINITY, f64::max) + upper) / 2.0 }
}

/// Ranks from 1, ties sharing the mean of theirs; and the sum of t³ - t over groups of t ties.
fn ranks(values: &[f64]) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let (mut ranks, mut ties, mut start) = (vec![0.0; values.len()], 0.0, 0);
    while start < order.len() {
        let same = order[start..].iter().take_while(|&&i| values[i] == values[order[start]]).count().max(1);
        let rank = start as f64 + (same as f64 + 1.0) / 2.0;
        order[start..start + same].iter().for_each(|&i| ranks[i] = rank);
        let t = same as f64;
        ties += t * t * t - t;
        start += same;
    }
    (ranks, ties)
}
/// Twice the upper tail of the normal distribution behind |z|.
fn two_sided(z: f64) -> f64 {
    if z.is_nan() { 1.0 } else { libm::erfc(z.max(0.0) / std::f64::consts::SQRT_2).min(1.0) }
}
/// The two-sided p-value of the Mann-Whitney U test (Mann and Whitney, 1947): normal approximation with the correction
/// for ties and for continuity. 1 where one side has no samples, or all are equal.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (ranks, ties) = ranks(&[a, b].concat());
    let u = ranks[..a.len()].iter().sum::<f64>() - n * (n + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    two_sided(((u - n * m / 2.0).abs() - 0.5) / variance.sqrt())
}
/// The two-sided p-value of the signed-rank test of differences within pairs (Wilcoxon, 1945): normal approximation with
/// the correction for ties and for continuity; differences of nothing are left out. 1 where none are left.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0 && !d.is_nan()).collect();
    let n = differences.len() as f64;
    let (ranks, ties) = ranks(&differences.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let positive: f64 = ranks.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(r, _)| r).sum();
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    two_sided(((positive - n * (n + 1.0) / 4.0).abs() - 0.5) / variance.sqrt())
}
/// The two-sided p-value of Student's t test (Student, 1908) of numbers whose mean is zero where nothing differs. 1 for
/// fewer than two.
pub fn student(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let deviation = (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let t = mean / (deviation / n.sqrt());
    if n < 2.0 || t.is_nan() { 1.0 } else { student_tails(t, n - 1.0) }
}
/// Both tails of Student's distribution with so many degrees of freedom beyond |t|: the regularised incomplete beta
/// function at x = ν / (ν + t²) with parameters ν/2 and 1/2 (NIST Digital Library of Mathematical Functions, 8.17).
pub fn student_tails(t: f64, freedom: f64) -> f64 {
    let (a, b, x) = (freedom / 2.0, 0.5, freedom / (freedom + t * t));
    if x >= 1.0 || !t.is_finite() {
        return if t.is_finite() { 1.0 } else { 0.0 };
    }
    let front = (libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges quickly below this x; above, the function of the other tail is taken.
    if x < (a + 1.0) / (a + b + 2.0) { front * beta_fraction(a, b, x) / a } else { 1.0 - front * beta_fraction(b, a, 1.0 - x) / b }
}
/// Beyond which |t| so much of Student's distribution lies, both tails together. Infinite where there is no freedom.
pub fn student_quantile(tails: f64, freedom: f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_tails(high, freedom) > tails && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if student_tails(middle, freedom) > tails { low = middle } else { high = middle }
    }
    high
}
/// The continued fraction 8.17.22 of the same library, by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let kept = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / kept(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for k in 1..300 {
        let m = k as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / kept(1.0 + term * d);
            c = kept(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-15 * fraction.abs() {
            break;
        }
    }
    fraction
}
/// Holm's step-down correction (Holm, 1979): p-values of many cases, so that the chance of one false alarm among all of
/// them is what the chance of one was.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let (mut adjusted, mut so_far) = (vec![1.0; p.len()], 0.0f64);
    for (k, &i) in order.iter().enumerate() {
        so_far = so_far.max((p.len() - k) as f64 * p[i]).min(1.0);
        adjusted[i] = so_far;
    }
    adjusted
}

#[cfg(test)]
#[path = "stats/tests.rs"]
mod tests;
