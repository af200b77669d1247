//! How well each class is found: precision, recall and F1 (van Rijsbergen 1979), their plain means over the classes, and how
//! often the truth is among the likeliest answers. Classes that never occur count for nothing, as scikit-learn has it.

/// Among how many of the likeliest answers the truth is looked for.
const TOP: usize = 5;

/// How well one class is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByClass {
    /// of the answers that name the class, the share that is right; 0 without any
    pub precision: f64,
    /// of the records of the class, the share that is found; 0 without any
    pub recall: f64,
    /// the harmonic mean of both
    pub f1: f64,
    /// records of the class
    pub support: u64,
    /// answers that name it
    pub answers: u64,
}
/// All classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// each
    pub each: Vec<ByClass>,
    /// means over the classes that occur as truth or as answer
    pub mean: ByClass,
    /// (k, the share of records whose truth is among the k likeliest answers), where there are more classes than k
    pub top: Option<(usize, f64)>,
}
/// Counts answers as they come.
pub(super) struct ClassCounter {
    truths: Vec<u64>,
    answers: Vec<u64>,
    hits: Vec<u64>,
    in_top: u64,
    ranked: u64,
}
impl ClassCounter {
    pub fn new(classes: usize) -> ClassCounter {
        let none = || vec![0; classes];
        ClassCounter { truths: none(), answers: none(), hits: none(), in_top: 0, ranked: 0 }
    }
    /// One answer.
    pub fn add(&mut self, truth: i64, answer: i64) {
        let up = |counts: &mut Vec<u64>, class: i64| {
            if let Some(count) = usize::try_from(class).ok().and_then(|k| counts.get_mut(k)) {
                *count += 1;
            }
        };
        up(&mut self.truths, truth);
        up(&mut self.answers, answer);
        if truth == answer {
            up(&mut self.hits, truth);
        }
    }
    /// Are there so many classes that ranks say more than the likeliest answer does?
    pub fn ranks(&self) -> bool {
        self.truths.len() > TOP
    }
    /// The outputs for all classes of one record. Ties count for the truth.
    pub fn rank(&mut self, truth: i64, outputs: &[f64]) {
        let Some(own) = usize::try_from(truth).ok().and_then(|k| outputs.get(k)) else { return };
        self.ranked += 1;
        self.in_top += u64::from(own.is_finite() && outputs.iter().filter(|v| *v > own).count() < TOP);
    }
    pub fn finish(self) -> Classes {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let one = |k: usize| {
            let (hits, answers, support) = (self.hits[k], self.answers[k], self.truths[k]);
            // 2PR / (P + R), by counts.
            ByClass { precision: share(hits, answers), recall: share(hits, support), f1: share(2 * hits, answers + support), support, answers }
        };
        let each: Vec<ByClass> = (0..self.truths.len()).map(one).collect();
        let there: Vec<&ByClass> = each.iter().filter(|c| c.support + c.answers > 0).collect();
        let mean = |f: &dyn Fn(&ByClass) -> f64| there.iter().map(|c| f(c)).sum::<f64>() / there.len().max(1) as f64;
        let mean = ByClass {
            precision: mean(&|c| c.precision),
            recall: mean(&|c| c.recall),
            f1: mean(&|c| c.f1),
            support: self.truths.iter().sum(),
            answers: self.answers.iter().sum(),
        };
        Classes { each, mean, top: (self.ranked > 0).then(|| (TOP, share(self.in_top, self.ranked))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_differ_from_those_of_scikit_learn() {
        // sklearn.metrics.precision_recall_fscore_support([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="macro", zero_division=0)
        let mut counter = ClassCounter::new(4);
        for (truth, answer) in [(0, 0), (1, 2), (2, 1), (0, 0), (1, 0), (2, 1)] {
            counter.add(truth, answer);
        }
        let all = counter.finish();
        assert!((all.mean.precision - 0.222_222_222_222).abs() < 1e-9 && (all.mean.recall - 1.0 / 3.0).abs() < 1e-12);
        assert!((all.mean.f1 - 0.266_666_666_666).abs() < 1e-9, "{all:?}");
        assert_eq!(all.each[0], ByClass { precision: 2.0 / 3.0, recall: 1.0, f1: 0.8, support: 2, answers: 3 });
        assert_eq!((all.each[3].support, all.top), (0, None));
    }
    #[test]
    fn a_truth_among_the_likeliest_that_is_not_counted_or_one_that_is_nan() {
        let mut counter = ClassCounter::new(7);
        assert!(counter.ranks() && !ClassCounter::new(5).ranks());
        let outputs = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, f64::NAN];
        for truth in [0, 4, 5, 6, 99, -1] {
            counter.rank(truth, &outputs);
        }
        assert_eq!(counter.finish().top, Some((5, 0.5)));
    }
}
