//! A histogram over the range of the values, and the search that drops bins from its ends as long as the squared error becomes less.
//!
//! All of it in f32 and in the order in which PyTorch has it, sums too: the search stops where an error is larger than the one
//! before by the last bit, so nothing else gives the same range.
//!
//! Source: `torch.ao.quantization.HistogramObserver`, after `NormMinimization::NonlinearQuantizationParamsSearch` of Caffe2.

/// Bins of the histogram.
pub(super) const BINS: usize = 2048;
/// Parts that a bin is cut into when its counts move to wider bins.
const PARTS: usize = 16;
/// Codes that the error is that of.
const CODES: f64 = 256.0;
/// The share of all values that a step of the search drops at least.
const STEP: f64 = 1e-5;

/// Counts of values in bins of one width from the smallest to the largest.
#[derive(Default)]
pub(super) struct RangeHistogram {
    low: f32,
    high: f32,
    /// none before the first value
    counts: Vec<f32>,
}
/// Counts of values between two that enclose them.
fn counted(values: &[f32], low: f32, high: f32) -> Vec<f32> {
    let (low, high) = if low == high { (low - 1.0, high + 1.0) } else { (low, high) };
    let mut counts = vec![0f32; BINS];
    for v in values {
        let bin = ((v - low) * BINS as f32 / (high - low)) as usize;
        counts[bin.min(BINS - 1)] += 1.0;
    }
    counts
}
/// Numbers from one to another at equal distances, from the nearer end.
fn evenly(from: f32, to: f32, n: usize) -> impl Iterator<Item = f32> {
    let step = (to - from) / (n - 1) as f32;
    (0..n).map(move |k| if k < n / 2 { step.mul_add(k as f32, from) } else { (-step).mul_add((n - 1 - k) as f32, to) })
}
/// The sum as PyTorch has it of contiguous numbers: 8 lanes of 4 rows, of which 16 at a time are added one by one.
fn sum(values: &[f32; BINS]) -> f32 {
    const LANES: usize = 32;
    let mut rows = [0f32; LANES];
    for stretch in values.chunks(16 * LANES) {
        let mut part = [0f32; LANES];
        stretch.chunks(LANES).for_each(|row| part.iter_mut().zip(row).for_each(|(p, v)| *p += v));
        rows.iter_mut().zip(part).for_each(|(row, p)| *row += p);
    }
    let lane = |k: usize| (1..4).fold(rows[k], |all, row| all + rows[8 * row + k]);
    (0..8).fold(0.0, |all, k| all + lane(k))
}
impl RangeHistogram {
    /// Counts values; the range encloses them and those before.
    pub fn add(&mut self, values: &[f32], (low, high): (f32, f32)) {
        let new = counted(values, low, high);
        let is_same = (low, high) == (self.low, self.high);
        if self.counts.is_empty() {
            self.counts = new;
        } else {
            let old = if is_same {
                std::mem::take(&mut self.counts)
            } else if self.low == self.high {
                let all: f32 = self.counts.iter().sum();
                counted(&[self.low], low, high).into_iter().map(|n| n * all).collect()
            } else {
                self.moved(low, high)
            };
            self.counts = new.iter().zip(&old).map(|(a, b)| a + b).collect();
        }
        (self.low, self.high) = (low, high);
    }
    /// The counts in the bins of a wider range: each bin in parts, each part where its middle lies.
    fn moved(&self, low: f32, high: f32) -> Vec<f32> {
        let edges: Vec<f32> = evenly(low, high, BINS + 1).collect();
        let half = 0.5 * ((self.high - self.low) / (BINS * PARTS) as f32);
        let mut counts = vec![0f32; BINS];
        for (k, start) in evenly(self.low, self.high, BINS * PARTS + 1).take(BINS * PARTS).enumerate() {
            let middle = start + half;
            let bin = edges.partition_point(|edge| *edge <= middle).saturating_sub(1).min(BINS - 1);
            counts[bin] += self.counts[k / PARTS] / PARTS as f32;
        }
        counts
    }
    /// The squared error of codes that span bins from one to another, both among them.
    fn norm(&self, start: usize, end: usize) -> f32 {
        let width = (f64::from(self.high) - f64::from(self.low)) / BINS as f64;
        let step = width * (end - start + 1) as f64 / CODES;
        if step == 0.0 {
            return 0.0;
        }
        let (width, half, wide) = (width as f32, (step / 2.0) as f32, step as f32);
        let cubes = |from: f32, to: f32| (to * to * to - from * from * from) / 3.0;
        let of_whole = cubes(-half, half);
        // Quotients of numbers of 24 bits: f64 tells on which side of a whole number they are.
        let code = |place: f32| ((f64::from(place) / f64::from(wide)).floor() as f32).clamp(0.0, CODES as f32 - 1.0);
        let mut all = [0f32; BINS];
        for (bin, (norm, count)) in all.iter_mut().zip(&self.counts).enumerate() {
            let begin = (bin as i64 - start as i64) as f32 * width;
            let finish = begin + width;
            let (first, last) = (code(begin), code(finish));
            let density = count / width;
            *norm = density * cubes(begin - (first + 0.5) * wide, half);
            *norm += (last - first - 1.0) * (density * of_whole);
            *norm += density * cubes(-half, finish - (last * wide + half));
        }
        sum(&all)
    }
    /// The range that is left.
    pub fn least_norm(&self) -> (f64, f64) {
        let Ok(counts) = <&[f32; BINS]>::try_from(self.counts.as_slice()) else { return (f64::from(self.low), f64::from(self.high)) };
        let total = f64::from(sum(counts));
        let below: Vec<f32> = counts
            .iter()
            .scan(0f64, |all, n| {
                *all += f64::from(*n);
                Some(*all as f32)
            })
            .collect();
        let (mut alpha, mut beta) = (0f64, 1f64);
        let (mut start, mut end) = (0, BINS - 1);
        let mut least = f32::INFINITY;
        while alpha < beta {
            let (next_alpha, next_beta) = (alpha + STEP, beta - STEP);
            let (lower, upper) = ((next_alpha * total) as f32, (next_beta * total) as f32);
            let (mut left, mut right) = (start, end);
            while left < end && below[left] < lower {
                left += 1;
            }
            while right > start && below[right] > upper {
                right -= 1;
            }
            let next = if left - start > end - right {
                alpha = next_alpha;
                (left, end)
            } else {
                beta = next_beta;
                (start, right)
            };
            if next == (start, end) {
                continue;
            }
            let norm = self.norm(next.0, next.1);
            if norm > least {
                break;
            }
            (least, start, end) = (norm, next.0, next.1);
        }
        let width = (self.high - self.low) / BINS as f32;
        (f64::from(self.low + width * start as f32), f64::from(self.low + width * (end + 1) as f32))
    }
}
