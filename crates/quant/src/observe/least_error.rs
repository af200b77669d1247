//! The range whose codes have the least squared error, over values that are known one by one as long as they are few, and by the
//! moments of bins beyond that.
use super::CodeRange;

/// Values that differ, at most: more are counted in bins alone.
const MOST_VALUES: usize = 1 << 16;
/// Thresholds that are tried on the whole range.
const THRESHOLDS: usize = 1000;
/// Thresholds that are tried for one end alone, and about the best of them.
const OF_AN_END: usize = 100;

/// Values at one place.
pub(super) struct ValuePoint {
    /// their mean
    pub at: f64,
    /// how many
    pub count: f64,
    /// the squares of their distances from it, added
    pub spread: f64,
}

/// The values that there were, ascending, with how often; `None`: too many.
pub(super) struct DistinctValues(Option<Vec<(f32, f64)>>);
impl Default for DistinctValues {
    fn default() -> DistinctValues {
        DistinctValues(Some(Vec::new()))
    }
}
impl DistinctValues {
    pub fn add(&mut self, values: &[f32]) {
        for some in values.chunks(2 * MOST_VALUES) {
            let Some(known) = &mut self.0 else { return };
            let mut sorted: Vec<f32> = some.iter().map(|v| v + 0.0).collect();
            sorted.sort_unstable_by(f32::total_cmp);
            let mut all: Vec<(f32, f64)> = Vec::with_capacity(known.len());
            let (mut old, mut new) = (known.iter().copied().peekable(), sorted.into_iter().peekable());
            loop {
                let next = match (old.peek(), new.peek()) {
                    (Some((a, _)), Some(b)) if a <= b => old.next(),
                    (Some(_), None) => old.next(),
                    (_, Some(_)) => new.next().map(|v| (v, 1.0)),
                    (None, None) => break,
                };
                match (all.last_mut(), next) {
                    (Some((last, count)), Some((v, n))) if *last == v => *count += n,
                    (_, Some(next)) => all.push(next),
                    (_, None) => break,
                }
            }
            *known = all;
            if known.len() > MOST_VALUES {
                self.0 = None;
            }
        }
    }
    pub fn points(&self) -> Option<ValuePoints> {
        let points = self.0.as_ref()?.iter().map(|(v, n)| ValuePoint { at: f64::from(*v), count: *n, spread: 0.0 });
        Some(ValuePoints::of(points))
    }
}

/// Points, ascending, with sums of all before each, so that the error of a code is found without looking at its values.
pub(super) struct ValuePoints {
    at: Vec<f64>,
    /// counts, values and their squares of all points before, one more than points
    before: Vec<[f64; 3]>,
    spread: f64,
}
impl ValuePoints {
    pub fn of(points: impl Iterator<Item = ValuePoint>) -> ValuePoints {
        let mut all = ValuePoints { at: Vec::new(), before: vec![[0.0; 3]], spread: 0.0 };
        let mut sums = [0.0; 3];
        for ValuePoint { at, count, spread } in points {
            sums = [sums[0] + count, sums[1] + count * at, sums[2] + count * at * at];
            all.at.push(at);
            all.before.push(sums);
            all.spread += spread;
        }
        all
    }
    /// The squared error of unsigned codes that span a range, summed over all values.
    fn error(&self, range: (f64, f64)) -> f64 {
        let (scale, zero_point) = CodeRange::U8.spanning(range);
        let scale = f64::from(scale);
        let number = |code: i32| f64::from(code - zero_point) * scale;
        if self.at.len() <= 512 {
            let of = |k: usize| {
                let code = ((self.at[k] / scale).round_ties_even() + f64::from(zero_point)).clamp(0.0, 255.0) as i32;
                (self.before[k + 1][0] - self.before[k][0]) * (self.at[k] - number(code)).powi(2)
            };
            return self.spread + (0..self.at.len()).map(of).sum::<f64>();
        }
        let (mut error, mut start) = (self.spread, 0);
        for code in 0..=255 {
            let end = if code == 255 {
                self.at.len()
            } else {
                let edge = number(code) + scale / 2.0;
                start + self.at[start..].partition_point(|v| *v <= edge)
            };
            if end > start {
                let [count, sum, squares] = [0, 1, 2].map(|k| self.before[end][k] - self.before[start][k]);
                let c = number(code);
                error += (squares - 2.0 * c * sum + c * c * count).max(0.0);
            }
            start = end;
        }
        error
    }
}

/// The range whose unsigned codes have the least error: both ends drawn in alike, or cut off alike, and then each alone.
pub(super) fn range(points: &ValuePoints, (low, high): (f64, f64)) -> (f64, f64) {
    let (low, high) = (low.min(0.0), high.max(0.0));
    // The whole range, unless that is more than f32 holds.
    let mut best = (f64::INFINITY, (low, high));
    let mut consider = |range: (f64, f64)| {
        let found = points.error(range);
        if found < best.0 {
            best = (found, range);
        }
        best.1
    };
    let shares = |n: usize| (1..=n).rev().map(move |k| k as f64 / n as f64);
    let most = high.max(-low);
    consider((low, high));
    for share in shares(THRESHOLDS) {
        consider((low * share, high * share));
        if low < 0.0 && high > 0.0 {
            consider((low.max(-most * share), high.min(most * share)));
        }
    }
    let mut found = consider((low, high));
    if low < 0.0 && high > 0.0 {
        for _ in 0..2 {
            for share in shares(OF_AN_END) {
                found = consider((low * share, found.1));
            }
            for share in shares(OF_AN_END) {
                found = consider((found.0, high * share));
            }
        }
    }
    let fine = |end: f64, k: usize| end * (1.0 + (k as f64 / OF_AN_END as f64 - 0.5) / THRESHOLDS as f64 * 2.0);
    for k in 0..=OF_AN_END {
        let (l, h) = (fine(found.0, k), fine(found.1, k));
        for range in [(l, h), (l, found.1), (found.0, h)] {
            consider(range);
        }
    }
    consider(found)
}
