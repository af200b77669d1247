//! How many positives and negatives lie above each score: what areas under curves are made of. All integers, on the device, at
//! sizes that do not depend on the data: equal scores are one point of a curve, and the others of them are passed over.
use adamant_core::{DType, Tensor};

/// Rows of classes, in each the samples by falling score.
pub(crate) struct Thresholds {
    /// is it the last of equal scores, a point of the curve? `[classes, n]`
    is_point: Tensor,
    /// positives up to here, i64
    positives: Tensor,
    /// negatives up to here, i64
    negatives: Tensor,
    /// is a score that counts NaN? `[classes]`
    has_nan: Tensor,
    n: usize,
}
/// What was counted up to the point before.
fn up_to_last_point(counts: &Tensor, is_point: &Tensor, n: usize) -> Tensor {
    // They never fall, so the largest at a point is that of the last one.
    let at_points = is_point.where_(counts, 0i64).cummax(1).0;
    Tensor::cat(&[at_points.narrow(1, 0, 1).zeros_like(), at_points.narrow(1, 0, n - 1)], 1)
}
impl Thresholds {
    /// Of scores, of what is positive and of what counts at all, `[classes, n]` each; `n` is above 0.
    pub fn new(scores: &Tensor, positive: &Tensor, valid: &Tensor, n: usize) -> Thresholds {
        let (sorted, at) = scores.sort(1, true);
        let count = |t: &Tensor| t.gather(1, &at).cast(DType::I64).cumsum(1);
        let (all, positives) = (count(valid), count(&positive.logical_and(valid)));
        let last = Tensor::full_on([1, 1], true, DType::Bool, scores.device().unwrap_or(adamant_core::Device::reference()));
        let differs = sorted.narrow(1, 0, n - 1).ne(sorted.narrow(1, 1, n - 1));
        let classes = scores.shape().map_or(1, |s| s[0]);
        let is_point = Tensor::cat(&[differs, last.expand([classes, 1])], 1);
        let has_nan = scores.ne(scores).logical_and(valid).any(1);
        Thresholds { is_point, negatives: all - &positives, positives, has_nan, n }
    }
    fn totals(&self) -> [Tensor; 2] {
        [&self.positives, &self.negatives].map(|t| t.narrow(1, self.n - 1, 1).squeeze(1))
    }
    /// How many positives there are in each class.
    pub fn support(&self) -> Tensor {
        self.totals()[0].clone()
    }
    /// The area under true over false positive rate, by trapezoids; NaN without positives or without negatives. Twice the area in
    /// pairs of a positive and a negative is an integer, so the one rounding is that of the quotient. Beside it: does it count in a
    /// mean?
    pub fn roc_area(&self, float: DType) -> (Tensor, Tensor) {
        let before = |t: &Tensor| up_to_last_point(t, &self.is_point, self.n);
        let strip = (&self.negatives - before(&self.negatives)) * (&self.positives + before(&self.positives));
        let twice = self.is_point.where_(strip, 0i64).sum(1);
        let [positives, negatives] = self.totals();
        let pairs = positives * negatives;
        // 0 / 0 is NaN, which is what an area without one side is.
        (self.or_nan(twice.cast(float) / (pairs.cast(float) * 2.0)), pairs.ne(0i64))
    }
    /// The sum of precisions weighted by the gains in recall; 0 without positives. Beside it: does it count in a mean?
    pub fn average_precision(&self, float: DType) -> (Tensor, Tensor) {
        let gain = (&self.positives - up_to_last_point(&self.positives, &self.is_point, self.n)).cast(float);
        let all = (&self.positives + &self.negatives).cast(float);
        let precision = self.positives.cast(float) / all.maximum(1.0);
        let sum = self.is_point.where_(gain * precision, 0.0).sum(1);
        let positives = self.support();
        (self.or_nan(positives.eq(0i64).where_(0.0, sum / positives.cast(float))), positives.ge(0i64))
    }
    fn or_nan(&self, figure: Tensor) -> Tensor {
        self.has_nan.where_(f64::NAN, figure)
    }
    /// The weighted mean of the figures that count; `nothing` where none does. NaN if a score is.
    pub fn mean(&self, (each, counts): (Tensor, Tensor), weight: &Tensor, nothing: f64) -> Tensor {
        let (each, weight) = (counts.where_(each, 0.0), counts.where_(weight, 0.0));
        let total = weight.sum(..);
        let mean = total.eq(0.0).where_(nothing, (each * weight).sum(..) / &total);
        self.has_nan.any(..).where_(f64::NAN, mean)
    }
}
