//! Statistics of all numbers of a tensor, read by the host.
use adamant_core::{Result, Tensor};

/// What the numbers of a tensor are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberStats {
    /// elements
    pub elements: usize,
    /// elements that are NaN or infinite
    pub non_finite: usize,
    /// elements that are NaN
    pub nan: usize,
    /// elements that are 0
    pub zeros: usize,
    /// the least finite one; none where there is none
    pub least: Option<f64>,
    /// the largest finite one
    pub most: Option<f64>,
    /// the mean of the finite ones
    pub mean: Option<f64>,
    /// their standard deviation, the sum of squares over their number
    pub std: Option<f64>,
}
impl NumberStats {
    /// Reads all of it.
    ///
    /// # Errors
    /// No memory; a device that failed.
    #[track_caller]
    pub fn of(x: &Tensor) -> Result<NumberStats> {
        Ok(NumberStats::of_numbers(&x.detach().to_vec_as::<f64>()?))
    }
    /// Those of numbers that were read.
    ///
    /// ```
    /// # use adamant_stability::NumberStats;
    /// let stats = NumberStats::of_numbers(&[1.0, 3.0, f64::NAN]);
    /// assert_eq!((stats.non_finite, stats.nan, stats.mean, stats.std), (1, 1, Some(2.0), Some(1.0)));
    /// ```
    pub fn of_numbers(all: &[f64]) -> NumberStats {
        let finite = || all.iter().copied().filter(|v| v.is_finite());
        let count = finite().count();
        let mean = (count > 0).then(|| finite().sum::<f64>() / count as f64);
        NumberStats {
            elements: all.len(),
            non_finite: all.len() - count,
            nan: all.iter().filter(|v| v.is_nan()).count(),
            zeros: all.iter().filter(|v| **v == 0.0).count(),
            least: finite().reduce(f64::min),
            most: finite().reduce(f64::max),
            mean,
            std: mean.map(|mean| (finite().map(|v| (v - mean) * (v - mean)).sum::<f64>() / count as f64).sqrt()),
        }
    }
    /// The largest absolute value of those that are no NaN, infinite where one is; none where there is none.
    pub fn absmax(&self) -> Option<f64> {
        match self.non_finite > self.nan {
            true => Some(f64::INFINITY),
            false => self.least.zip(self.most).map(|(least, most)| least.abs().max(most.abs())),
        }
    }
}
