//! Observers: what values of a layer's input are seen, and which range of them the codes are to span.
//!
//! Smallest and largest values and their averages are kept in f32, as PyTorch keeps them, so that scales are the same to the bit.
//! What counts values does so in bins whose number is fixed: how they grow where a value lies beyond them stands with each.
mod channels;
mod counts;
mod entropy;
mod least_error;
mod norm_search;

pub use channels::ChannelObserver;
pub use entropy::entropy_threshold;

use adamant_core::{Error, ErrorKind, Result};
use counts::ValueHistogram;
use least_error::{DistinctValues, ValuePoints};
use norm_search::RangeHistogram;

/// How the range is found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Observation {
    /// from the least value to the largest (`torch.ao.quantization.MinMaxObserver`)
    MinMax,
    /// the least and the largest value of each batch, averaged: the newest counts this much
    /// (`torch.ao.quantization.MovingAverageMinMaxObserver`)
    MovingAverage {
        /// the share of the newest batch, above 0 and at most 1
        rate: f64,
    },
    /// the range that is left when bins of a histogram are dropped from its ends as long as the squared error becomes less
    /// (`torch.ao.quantization.HistogramObserver`)
    Histogram,
    /// between the values that so many per cent of all lie below and above (`numpy.percentile`)
    Percentile {
        /// per cent of values within, such as 99.99
        percent: f64,
    },
    /// the range whose unsigned 8-bit codes have the least mean squared error
    #[default]
    Mse,
    /// the range about 0 whose codes lose the least information (Kullback-Leibler divergence; Migacz 2017)
    Entropy,
}
/// The codes that values are to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeRange {
    /// the least code
    pub low: i32,
    /// the largest code
    pub high: i32,
    /// 0 has the code in the middle, and the codes span as far below it as above
    pub symmetric: bool,
}
impl CodeRange {
    /// Unsigned codes over the range of the values.
    pub const U8: CodeRange = CodeRange { low: 0, high: 255, symmetric: false };
    /// Signed codes about 0, as many on each side.
    pub const I8: CodeRange = CodeRange { low: -127, high: 127, symmetric: true };

    /// The step and the code of 0 of codes that span a range, 0 among them.
    fn spanning(self, (low, high): (f64, f64)) -> (f32, i32) {
        let (low, high) = (low.min(0.0) as f32, high.max(0.0) as f32);
        let steps = (self.high - self.low) as f32;
        if self.symmetric {
            let zero_point = match (self.low, self.high) {
                (..0, _) => 0,
                (0, 255) => 128,
                (low, high) => (low + high) / 2,
            };
            return (((-low).max(high) / (steps / 2.0)).max(f32::EPSILON), zero_point);
        }
        // Zeros alone have the smallest step that there is.
        let scale = ((high - low) / steps).max(f32::EPSILON);
        (scale, (self.low as f32 - (low / scale).round_ties_even()).clamp(self.low as f32, self.high as f32) as i32)
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
    seen: u64,
    low: f32,
    high: f32,
    kept: KeptValues,
}
/// What is known of values beside the least and the largest.
enum KeptValues {
    Nothing,
    Counts(ValueHistogram),
    CountsAndValues(ValueHistogram, DistinctValues),
    Ranges(RangeHistogram),
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
        let kept = match how {
            Observation::MinMax | Observation::MovingAverage { .. } => KeptValues::Nothing,
            Observation::Histogram => KeptValues::Ranges(RangeHistogram::default()),
            Observation::Percentile { .. } | Observation::Entropy => KeptValues::Counts(ValueHistogram::new()),
            Observation::Mse => KeptValues::CountsAndValues(ValueHistogram::new(), DistinctValues::default()),
        };
        Ok(Observer { how, seen: 0, low: 0.0, high: 0.0, kept })
    }
    /// Sees the values of a batch.
    ///
    /// # Errors
    /// A value that is not finite.
    #[track_caller]
    pub fn see(&mut self, values: &[f32]) -> Result<()> {
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(refused(format!("calibration data hold {} at element {at}", values[at]))
                .hint("look for such numbers in the calibration data, or for a layer before it that overflows"));
        }
        if values.is_empty() {
            return Ok(());
        }
        let (low, high) = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        let before = (self.low, self.high);
        (self.low, self.high) = match self.how {
            _ if self.seen == 0 => (low, high),
            Observation::MovingAverage { rate } => {
                let rate = rate as f32;
                (before.0 + rate * (low - before.0), before.1 + rate * (high - before.1))
            }
            _ => (before.0.min(low), before.1.max(high)),
        };
        match &mut self.kept {
            KeptValues::Nothing => {}
            KeptValues::Counts(counts) => counts.add(values, f64::from(high.abs().max(low.abs()))),
            KeptValues::CountsAndValues(counts, distinct) => {
                counts.add(values, f64::from(high.abs().max(low.abs())));
                distinct.add(values);
            }
            KeptValues::Ranges(ranges) => ranges.add(values, (self.low, self.high)),
        }
        self.seen += values.len() as u64;
        Ok(())
    }
    /// How many values it has seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }
    /// The width of the bins that values are counted in by now; `None`: they are not counted in bins.
    pub fn bin_width(&self) -> Option<f64> {
        match &self.kept {
            KeptValues::Nothing => None,
            KeptValues::Counts(counts) | KeptValues::CountsAndValues(counts, _) => Some(counts.width()),
            KeptValues::Ranges(_) => Some(f64::from(self.high - self.low) / norm_search::BINS as f64),
        }
    }
    /// The range that codes are to span.
    ///
    /// # Errors
    /// It has seen no values.
    #[track_caller]
    pub fn range(&self) -> Result<(f64, f64)> {
        if self.seen == 0 {
            return Err(refused("no values were seen: the calibration data are empty, or do not reach the layer".into())
                .hint("give a few hundred rows of the training data, or leave the layer out (`skip`)"));
        }
        let whole = (f64::from(self.low), f64::from(self.high));
        Ok(match (self.how, &self.kept) {
            (Observation::Percentile { percent }, KeptValues::Counts(counts)) => {
                let tail = (1.0 - percent / 100.0) / 2.0;
                (counts.quantile(tail, whole), counts.quantile(1.0 - tail, whole))
            }
            (_, KeptValues::Counts(counts)) => {
                let reach = entropy_threshold(counts.counts(), ENTROPY_CODES) as f64;
                // The bin in which the positive values begin is one of theirs, and they have one more.
                (whole.0.max(-reach * counts.width()), whole.1.min((reach + 1.0) * counts.width()))
            }
            (_, KeptValues::CountsAndValues(counts, distinct)) => {
                let points = distinct.points().unwrap_or_else(|| ValuePoints::of(counts.points()));
                least_error::range(&points, whole)
            }
            (_, KeptValues::Ranges(ranges)) => ranges.least_norm(),
            (_, KeptValues::Nothing) => whole,
        })
    }
    /// The step and the code of 0 of codes that span the range, 0 among them. A step is 2^-23 at least.
    ///
    /// # Errors
    /// As [`Observer::range`]; a range that f32 does not hold, codes of which there are none.
    ///
    /// Source: `torch.ao.quantization.observer.UniformQuantizationObserverBase`.
    #[track_caller]
    pub fn codes(&self, codes: CodeRange) -> Result<(f32, i32)> {
        let range = self.range()?;
        let held = codes.low < codes.high && codes.low.checked_abs().is_some_and(|l| l <= 1 << 16) && codes.high <= 1 << 16;
        if !held {
            return Err(refused(format!("codes lie between -65536 and 65536, the least below the largest, not from {} to {}", codes.low, codes.high)));
        }
        let (scale, zero_point) = codes.spanning(range);
        if !scale.is_finite() {
            return Err(refused(format!("values from {} to {} span more than f32 holds", range.0, range.1))
                .hint("look for such numbers in the calibration data, or take `Observation::Percentile`"));
        }
        Ok((scale, zero_point))
    }
    /// [`Observer::codes`] of [`CodeRange::U8`].
    ///
    /// # Errors
    /// As [`Observer::codes`].
    #[track_caller]
    pub fn unsigned_codes(&self) -> Result<(f32, i32)> {
        self.codes(CodeRange::U8)
    }
}
/// Steps that [`Observation::Entropy`] counts on.
const ENTROPY_CODES: usize = 128;
#[track_caller]
fn refused(text: String) -> Error {
    Error::new("observe", ErrorKind::Argument(text))
}
