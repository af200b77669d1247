//! Where a few numbers lie, from signs and ranks alone: the estimate of Hodges and Lehmann and the interval that belongs
//! to the signed-rank test (Hodges and Lehmann, *Annals of Mathematical Statistics* 34, 1963; Hollander, Wolfe and
//! Chicken, *Nonparametric Statistical Methods*, 3.2 and 3.4).
//!
//! All it asks of the numbers is that each is as likely to lie so far above their centre as below it; neither that they
//! are normal, nor that all are equally sure. The chances are exact, by counting all signs, however few there are, and a
//! number that is far off moves the answer by no more than its rank.

/// The means of all pairs of some numbers, each with itself too, and how likely so many of them are on one side.
#[derive(Clone, Debug)]
pub struct Walsh {
    means: Vec<f64>,
    /// the chance of at most so many means above the centre
    at_most: Vec<f64>,
}
impl Walsh {
    /// Of finite numbers; what is not finite is left out.
    pub fn of(numbers: &[f64]) -> Walsh {
        let numbers: Vec<f64> = numbers.iter().copied().filter(|x| x.is_finite()).collect();
        let mut means: Vec<f64> = numbers.iter().enumerate().flat_map(|(k, x)| numbers[k..].iter().map(move |y| (x + y) / 2.0)).collect();
        means.sort_by(f64::total_cmp);
        Walsh { means, at_most: at_most(numbers.len()) }
    }
    /// The centre; NaN if there are no numbers.
    pub fn centre(&self) -> f64 {
        let n = self.means.len();
        if n == 0 { f64::NAN } else { (self.means[(n - 1) / 2] + self.means[n / 2]) / 2.0 }
    }
    /// The interval that leaves the centre out with at most this chance on each side; infinite where the numbers are too
    /// few to leave anything out.
    pub fn interval(&self, tail: f64) -> (f64, f64) {
        // So many means may lie on the wrong side of a bound.
        let left_out = self.at_most.iter().take_while(|p| **p <= tail).count();
        match left_out {
            0 => (f64::NEG_INFINITY, f64::INFINITY),
            k => (self.means[k - 1], self.means[self.means.len() - k]),
        }
    }
    /// The chance of as many means above this as there are, were it the centre.
    pub fn chance_above(&self, centre: f64) -> f64 {
        let not_above = self.means.iter().filter(|m| **m <= centre).count();
        self.at_most.get(not_above).copied().unwrap_or(1.0)
    }
    /// The same of both sides: the two-sided p-value of this being the centre.
    pub fn chance_beyond(&self, centre: f64) -> f64 {
        let not_below = self.means.iter().filter(|m| **m >= centre).count();
        let below = self.at_most.get(not_below).copied().unwrap_or(1.0);
        (2.0 * self.chance_above(centre).min(below)).min(1.0)
    }
}
/// The chance of at most 0, 1, ... means above the centre of n numbers: each rank is above with one half, by itself.
fn at_most(n: usize) -> Vec<f64> {
    let mut chances = vec![1.0];
    for rank in 1..=n {
        let before = chances;
        chances = vec![0.0; before.len() + rank];
        for (k, p) in before.into_iter().enumerate() {
            chances[k] += p / 2.0;
            chances[k + rank] += p / 2.0;
        }
    }
    let mut sum = 0.0;
    chances.iter_mut().for_each(|p| {
        sum += *p;
        *p = sum;
    });
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_that_is_not_the_one_of_the_tables() {
        // Hollander, Wolfe and Chicken, table A.4: P(T+ >= x).
        for (n, least, p) in [(3, 6, 0.125), (5, 15, 0.031_25), (5, 13, 0.093_75), (8, 30, 0.054_687_5), (10, 47, 0.024_414_062_5), (10, 44, 0.052_734_375)] {
            let means = n * (n + 1) / 2;
            assert_eq!(at_most(n)[means - least], p, "{n} {least}");
        }
        assert!((at_most(40).last().unwrap() - 1.0).abs() < 1e-12);
    }
    #[test]
    fn an_interval_that_is_narrower_than_its_numbers_allow() {
        let numbers = [-2.0, 0.5, 1.0, 3.0, 4.0, 40.0];
        let w = Walsh::of(&numbers);
        // Of six numbers only the least and the largest mean are rare enough: 1 of 64.
        assert_eq!(w.interval(0.025), (-2.0, 40.0));
        assert_eq!(w.interval(0.01), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(w.interval(2.0 / 64.0), (-0.75, 22.0));
        assert_eq!((w.chance_above(-2.1), w.chance_above(-2.0), w.chance_above(50.0)), (1.0 / 64.0, 2.0 / 64.0, 1.0));
        assert_eq!((w.chance_beyond(-2.1), w.chance_beyond(50.0)), (2.0 / 64.0, 2.0 / 64.0));
        // The number that is far off is one of six.
        assert!((w.centre() - 2.25).abs() < 0.5, "{}", w.centre());
        assert!(Walsh::of(&[]).centre().is_nan() && Walsh::of(&[f64::NAN]).chance_beyond(0.0) == 1.0);
    }
}
