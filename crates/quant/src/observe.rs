//! Observers: what values of a layer's input are seen, and which range of them the codes are to span.
//!
//! Values are counted in a histogram whose bins grow by halves: where a value lies beyond it, neighbours are joined until it does
//! not, so that no count is ever moved to another place than a wider bin around its own.
use adamant_core::{Error, ErrorKind, Result};

/// How the range is found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Observation {
    /// from the least value to the largest
    MinMax,
    /// the least and the largest value of each batch, averaged: the newest counts this much
    MovingAverage {
        /// the share of the newest batch, above 0 and at most 1
        rate: f64,
    },
    /// between the values that so many per cent of all lie below and above
    Percentile {
        /// per cent of values within, such as 99.99
        percent: f64,
    },
    /// the range whose codes have the least mean squared error
    #[default]
    Mse,
    /// the range about 0 whose codes lose the least information (Kullback-Leibler divergence; Migacz 2017)
    Entropy,
}
/// Bins of a histogram, an even number.
const BINS: usize = 8192;
/// Thresholds that [`Observation::Mse`] tries.
const THRESHOLDS: usize = 400;

/// Counts of values between `-reach` and `reach`.
struct ValueHistogram {
    reach: f64,
    counts: Vec<f64>,
}
impl ValueHistogram {
    fn new() -> ValueHistogram {
        ValueHistogram { reach: 0.0, counts: vec![0.0; BINS] }
    }
    fn add(&mut self, values: &[f32], most: f64) {
        if self.reach == 0.0 {
            // A power of two, so that the bins' edges are the same for any order of batches.
            self.reach = 2f64.powi(most.max(f64::from(f32::MIN_POSITIVE)).log2().ceil() as i32);
        }
        while most > self.reach {
            self.reach *= 2.0;
            let half = BINS / 2;
            let joined: Vec<f64> = self.counts.chunks(2).map(|two| two.iter().sum()).collect();
            self.counts.fill(0.0);
            self.counts[half / 2..half / 2 + half].copy_from_slice(&joined);
        }
        let scale = BINS as f64 / (2.0 * self.reach);
        for v in values {
            let at = ((f64::from(*v) + self.reach) * scale) as usize;
            self.counts[at.min(BINS - 1)] += 1.0;
        }
    }
    fn width(&self) -> f64 {
        2.0 * self.reach / BINS as f64
    }
    fn middle(&self, bin: usize) -> f64 {
        (bin as f64 + 0.5) * self.width() - self.reach
    }
    /// The value that a share of all lies below.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.counts.iter().sum::<f64>();
        let mut below = 0.0;
        for (bin, count) in self.counts.iter().enumerate() {
            if below + count >= wanted && *count > 0.0 {
                return bin as f64 * self.width() - self.reach + self.width() * ((wanted - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        self.reach
    }
    /// The squared error of codes that span a range, summed over all values.
    fn error(&self, (low, high): (f64, f64), codes: f64) -> f64 {
        let step = (high - low) / codes;
        if step <= 0.0 {
            return f64::INFINITY;
        }
        // Within a bin values lie evenly.
        let spread = self.width() * self.width() / 12.0;
        let of = |(bin, count): (usize, &f64)| {
            let v = self.middle(bin);
            let code = ((v - low) / step).round().clamp(0.0, codes);
            count * ((v - low - code * step).powi(2) + spread)
        };
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0.0).map(of).sum()
    }
}

/// Sees values, and says which range of them codes are to span.
///
/// ```
/// # use adamant_quant::observe::{Observation, Observer};
/// let mut observer = Observer::new(Observation::MinMax)?;
/// observer.see(&[-1.0, 0.5, 3.0])?;
/// assert_eq!(observer.range()?, (-1.0, 3.0));
/// let (scale, zero_point) = observer.unsigned_codes()?;
/// assert_eq!((scale, zero_point), (4.0 / 255.0, 64));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Observer {
    how: Observation,
    histogram: ValueHistogram,
    seen: u64,
    low: f64,
    high: f64,
}
impl Observer {
    /// One that has seen nothing.
    ///
    /// # Errors
    /// A rate or a percentage outside its range.
    #[track_caller]
    pub fn new(how: Observation) -> Result<Observer> {
        let (holds, text) = match how {
            Observation::MovingAverage { rate } => (rate > 0.0 && rate <= 1.0, format!("a rate lies above 0 and at most at 1, not at {rate}")),
            Observation::Percentile { percent } => {
                (percent > 50.0 && percent <= 100.0, format!("a percentage lies above 50 and at most at 100, not at {percent}"))
            }
            _ => (true, String::new()),
        };
        if !holds {
            return Err(refused(text));
        }
        Ok(Observer { how, histogram: ValueHistogram::new(), seen: 0, low: 0.0, high: 0.0 })
    }
    /// Sees the values of a batch.
    ///
    /// # Errors
    /// A value that is not finite.
    #[track_caller]
    pub fn see(&mut self, values: &[f32]) -> Result<()> {
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(refused(format!("calibration data hold {} at element {at}", values[at])));
        }
        if values.is_empty() {
            return Ok(());
        }
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(f64::from(*v)), h.max(f64::from(*v))));
        (self.low, self.high) = match self.how {
            _ if self.seen == 0 => (low, high),
            Observation::MovingAverage { rate } => (self.low + rate * (low - self.low), self.high + rate * (high - self.high)),
            _ => (self.low.min(low), self.high.max(high)),
        };
        if !matches!(self.how, Observation::MinMax | Observation::MovingAverage { .. }) {
            self.histogram.add(values, high.abs().max(low.abs()));
        }
        self.seen += values.len() as u64;
        Ok(())
    }
    /// How many values it has seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }
    /// The range that codes are to span.
    ///
    /// # Errors
    /// It has seen no values.
    #[track_caller]
    pub fn range(&self) -> Result<(f64, f64)> {
        if self.seen == 0 {
            return Err(refused("no values were seen: the calibration data are empty, or do not reach the layer".into()));
        }
        let whole = (self.low, self.high);
        Ok(match self.how {
            Observation::MinMax | Observation::MovingAverage { .. } => whole,
            Observation::Percentile { percent } => {
                let tail = (1.0 - percent / 100.0) / 2.0;
                (self.histogram.quantile(tail).max(whole.0), self.histogram.quantile(1.0 - tail).min(whole.1))
            }
            Observation::Mse => self.least_error(whole),
            Observation::Entropy => {
                let threshold = entropy_threshold(&self.histogram.counts, 128) as f64 * self.histogram.width();
                (whole.0.max(-threshold), whole.1.min(threshold))
            }
        })
    }
    fn least_error(&self, whole: (f64, f64)) -> (f64, f64) {
        let with_zero = (whole.0.min(0.0), whole.1.max(0.0));
        let tried = (1..=THRESHOLDS).map(|k| k as f64 / THRESHOLDS as f64).map(|share| (with_zero.0 * share, with_zero.1 * share));
        let errors = tried.map(|range| (self.histogram.error(range, 255.0), range));
        errors.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(with_zero, |(_, range)| range)
    }
    /// The step and the code of 0 of unsigned 8-bit codes that span the range, 0 among them.
    ///
    /// # Errors
    /// As [`Observer::range`].
    #[track_caller]
    pub fn unsigned_codes(&self) -> Result<(f32, i32)> {
        let (low, high) = self.range()?;
        let (low, high) = (low.min(0.0) as f32, high.max(0.0) as f32);
        // Zeros alone have any step.
        let scale = if high > low { ((high - low) / 255.0).max(f32::EPSILON) } else { 1.0 };
        Ok((scale, (-low / scale).round_ties_even().clamp(0.0, 255.0) as i32))
    }
}
#[track_caller]
fn refused(text: String) -> Error {
    Error::new("observe", ErrorKind::Argument(text))
}

/// How many bins on each side of the middle of a histogram about 0 codes are to span so that they lose the least information, of
/// `codes` steps. The divergence is that of the counts, with those outside put at the ends, from what the codes tell of them.
pub fn entropy_threshold(counts: &[f64], codes: usize) -> usize {
    let middle = counts.len() / 2;
    let mut best = (f64::INFINITY, middle);
    for reach in codes / 2..=middle {
        let (start, end) = (middle - reach, (middle + reach).min(counts.len()));
        let inside = &counts[start..end];
        if inside.is_empty() {
            continue;
        }
        let mut wanted = inside.to_vec();
        let last = wanted.len() - 1;
        wanted[0] += counts[..start].iter().sum::<f64>();
        wanted[last] += counts[end..].iter().sum::<f64>();
        let found = divergence(&wanted, inside, codes);
        if found < best.0 {
            best = (found, reach);
        }
    }
    best.1
}
/// Of counts from what `codes` steps tell of those inside: each step shares its sum out to the bins that have any.
fn divergence(wanted: &[f64], inside: &[f64], codes: usize) -> f64 {
    let merged = (inside.len() / codes).max(1);
    let mut told = vec![0.0; inside.len()];
    for code in 0..codes {
        let start = (code * merged).min(inside.len());
        let end = if code + 1 == codes { inside.len() } else { (start + merged).min(inside.len()) };
        let filled = wanted[start..end].iter().filter(|w| **w > 0.0).count();
        if filled > 0 {
            let share = inside[start..end].iter().sum::<f64>() / filled as f64;
            told[start..end].iter_mut().zip(&wanted[start..end]).filter(|(_, w)| **w > 0.0).for_each(|(t, _)| *t = share);
        }
    }
    let (all, all_told) = (wanted.iter().sum::<f64>(), told.iter().sum::<f64>());
    if all_told <= 0.0 {
        return f64::INFINITY;
    }
    // What is told to be nowhere has a little of the rest.
    const LITTLE: f64 = 1e-9;
    let of = |(w, t): (&f64, &f64)| if *w > 0.0 { w / all * ((w / all) / (t / all_told).max(LITTLE)).ln() } else { 0.0 };
    wanted.iter().zip(&told).map(of).sum()
}
