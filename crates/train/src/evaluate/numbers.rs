//! How far predicted numbers are from the true ones, in the units that the data's file has: MAE, RMSE and R², each target for
//! itself and all together (their mean, as scikit-learn's `uniform_average`).
use adamant_data::{Answer, Becomes, Columns, TargetScale};
use std::sync::Arc;

/// The most pairs that are kept for a picture: what a person tells apart.
const MOST_PAIRS: usize = 500;

/// What the numbers of a column mean: its name, and what was done to them before the model saw them.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// what the file calls it
    pub name: String,
    /// what was taken from each number
    pub mean: f64,
    /// what the rest was divided by
    pub std: f64,
}
impl Unit {
    /// Of a column whose numbers the model sees as they are.
    pub fn plain(name: impl Into<String>) -> Unit {
        Unit { name: name.into(), mean: 0.0, std: 1.0 }
    }
    /// The file's number for one that the model saw or gave.
    ///
    /// ```
    /// use adamant_train::evaluate::Unit;
    /// let price = Unit { name: "price".into(), mean: 200.0, std: 50.0 };
    /// assert_eq!(price.denormalise(-1.0), 150.0);
    /// assert_eq!(Unit::plain("price").denormalise(-1.0), -1.0);
    /// ```
    pub fn denormalise(&self, value: f64) -> f64 {
        value * self.std + self.mean
    }
}
/// Those of a table's columns, as far as they are known: none leaves numbers as they are and without names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Units {
    /// what the model sees, in order
    pub inputs: Vec<Unit>,
    /// what it predicts, in order
    pub targets: Vec<Unit>,
}
impl Units {
    /// Those of a table, by what was learned of its columns. A text stands for as many inputs as it has levels.
    pub fn of(columns: &Columns) -> Units {
        let inputs = columns.inputs.iter().flat_map(|c| match &c.becomes {
            Becomes::Number { divide, mean, std, .. } => {
                let (divide, mean, std) = (f64::from(*divide), f64::from(*mean), f64::from(*std));
                vec![Unit { name: c.name.clone(), mean: mean * divide, std: std * divide }]
            }
            Becomes::Text { levels, .. } => levels.iter().map(|level| Unit::plain(format!("{} = {level}", c.name))).collect(),
        });
        let targets = match &columns.answer {
            Answer::Class { .. } => Vec::new(),
            Answer::Values { names, scale, .. } => Units::scaled(scale, names),
        };
        Units { inputs: inputs.collect(), targets }
    }
    /// Targets of these names under a scale; without a name, a target has its number.
    pub(super) fn scaled(scale: &TargetScale, names: &[String]) -> Vec<Unit> {
        let of = |values: &[f32], k: usize, usual: f64| values.get(k).map_or(usual, |v| f64::from(*v));
        let unit = |k: usize| Unit { name: names.get(k).cloned().unwrap_or_else(|| k.to_string()), mean: of(&scale.mean, k, 0.0), std: of(&scale.std, k, 1.0) };
        (0..names.len().max(scale.mean.len())).map(unit).collect()
    }
}

/// How far one target is from the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// the target's name; its number where it has none
    pub name: String,
    /// the mean absolute error
    pub mae: f64,
    /// the root of the mean squared error
    pub rmse: f64,
    /// the share of the truth's variance that is explained (Wright 1921): 1 for a perfect model, 0 for one that always says
    /// the mean, less for a worse one. None for a single record. Where the truth never varies it is 1 or 0, as
    /// scikit-learn has it.
    pub r2: Option<f64>,
    /// some (truth, prediction), evenly over the data, in the order of the data
    pub pairs: Vec<(f64, f64)>,
}
/// All targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// each
    pub targets: Vec<Deviation>,
    /// the mean of the targets' MAE
    pub mae: f64,
    /// the mean of the targets' RMSE
    pub rmse: f64,
    /// the mean of the targets' R²
    pub r2: Option<f64>,
}

/// Sums of one target. The truth's mean and spread are updated record by record (Welford 1962): squares of large numbers
/// would cancel.
#[derive(Clone, Default)]
struct TargetSums {
    count: f64,
    absolute: f64,
    squares: f64,
    mean: f64,
    spread: f64,
    pairs: Vec<(f64, f64)>,
}
/// Counts records as they come.
pub(super) struct NumberCounter {
    units: Arc<Units>,
    sums: Vec<TargetSums>,
    /// every so many records a pair is kept
    every: usize,
    seen: usize,
}
impl NumberCounter {
    /// For so many records.
    pub fn new(units: Arc<Units>, records: usize) -> NumberCounter {
        NumberCounter { units, sums: Vec::new(), every: records.div_ceil(MOST_PAIRS).max(1), seen: 0 }
    }
    /// The numbers of one record, as the model has them; gives them back in the file's units, (truth, prediction).
    pub fn add(&mut self, truth: &[f64], predicted: &[f64]) -> Vec<(f64, f64)> {
        if self.sums.is_empty() {
            self.sums = vec![TargetSums::default(); truth.len()];
        }
        let keeps = self.seen % self.every == 0;
        self.seen += 1;
        let own = |k: usize, v: f64| self.units.targets.get(k).map_or(v, |c| c.denormalise(v));
        let pairs: Vec<(f64, f64)> = truth.iter().zip(predicted).enumerate().map(|(k, (t, p))| (own(k, *t), own(k, *p))).collect();
        for (sums, &(truth, predicted)) in self.sums.iter_mut().zip(&pairs) {
            let error = predicted - truth;
            sums.count += 1.0;
            sums.absolute += error.abs();
            sums.squares += error * error;
            let away = truth - sums.mean;
            sums.mean += away / sums.count;
            sums.spread += away * (truth - sums.mean);
            if keeps {
                sums.pairs.push((truth, predicted));
            }
        }
        pairs
    }
    /// What came of all; none without a record.
    pub fn finish(self) -> Option<Numbers> {
        let name = |k: usize| self.units.targets.get(k).map_or_else(|| k.to_string(), |c| c.name.clone());
        let targets: Vec<Deviation> = self.sums.iter().enumerate().map(|(k, s)| s.deviation(name(k))).collect();
        let n = targets.len() as f64;
        let mean = |f: &dyn Fn(&Deviation) -> f64| targets.iter().map(f).sum::<f64>() / n;
        let (mae, rmse) = (mean(&|t| t.mae), mean(&|t| t.rmse));
        let r2 = targets.iter().map(|t| t.r2).collect::<Option<Vec<_>>>().map(|all| all.iter().sum::<f64>() / n);
        (!targets.is_empty()).then_some(Numbers { targets, mae, rmse, r2 })
    }
}
impl TargetSums {
    fn deviation(&self, name: String) -> Deviation {
        let r2 = match (self.count > 1.0, self.spread == 0.0) {
            (false, _) => None,
            (true, false) => Some(1.0 - self.squares / self.spread),
            (true, true) => Some(f64::from(self.squares == 0.0)),
        };
        Deviation { name, mae: self.absolute / self.count, rmse: (self.squares / self.count).sqrt(), r2, pairs: self.pairs.clone() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(units: Units, rows: &[(&[f64], &[f64])]) -> Option<Numbers> {
        let mut counter = NumberCounter::new(Arc::new(units), rows.len());
        for (truth, predicted) in rows {
            counter.add(truth, predicted);
        }
        counter.finish()
    }
    #[test]
    fn figures_that_differ_from_those_of_scikit_learn() {
        // sklearn.metrics: mean_absolute_error, root_mean_squared_error and r2_score of
        // [[0.5, 1], [-1, 1], [7, -6]] and [[0, 2], [-1, 2], [8, -5]], raw_values and uniform_average.
        let rows: [(&[f64], &[f64]); 3] = [(&[0.5, 1.0], &[0.0, 2.0]), (&[-1.0, 1.0], &[-1.0, 2.0]), (&[7.0, -6.0], &[8.0, -5.0])];
        let all = of(Units::default(), &rows).unwrap();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(all.mae, 0.75);
        near(all.targets[0].rmse, 0.645_497_224_367_902_8);
        near(all.targets[0].r2.unwrap(), 1.0 - 7.5 / 217.0);
        near(all.targets[1].r2.unwrap(), 0.908_163_265_306_122_4);
        near(all.rmse, (0.645_497_224_367_902_8 + 1.0) / 2.0);
    }
    #[test]
    fn errors_in_units_that_nobody_knows() {
        let price = Unit { name: "price".into(), mean: 1000.0, std: 10.0 };
        let scaled = Units { inputs: Vec::new(), targets: vec![price] };
        let all = of(scaled, &[(&[0.0], &[1.0]), (&[2.0], &[2.0])]).unwrap();
        assert_eq!((all.mae, all.targets[0].name.as_str()), (5.0, "price"));
        assert_eq!(all.targets[0].pairs, [(1000.0, 1010.0), (1020.0, 1020.0)]);
        // The share of the variance does not know of units.
        assert!((all.r2.unwrap() - 0.5).abs() < 1e-12);
    }
    #[test]
    fn a_share_of_no_variance_or_of_large_numbers() {
        let constant = |predicted: f64| of(Units::default(), &[(&[3.0], &[predicted]), (&[3.0], &[3.0])]).unwrap().r2;
        assert_eq!((constant(3.0), constant(4.0)), (Some(1.0), Some(0.0)));
        assert_eq!(of(Units::default(), &[(&[3.0], &[4.0])]).unwrap().r2, None);
        assert_eq!(of(Units::default(), &[]), None);
        // Sums of squares would leave nothing of these.
        let far: [(&[f64], &[f64]); 3] = [(&[1e9 + 1.0], &[1e9 + 1.0]), (&[1e9 + 2.0], &[1e9 + 2.0]), (&[1e9 + 3.0], &[1e9 + 4.0])];
        assert_eq!(of(Units::default(), &far).unwrap().r2, Some(0.5));
    }
    #[test]
    fn pairs_without_bound() {
        let rows: Vec<[f64; 1]> = (0..2345).map(|k| [f64::from(k)]).collect();
        let rows: Vec<(&[f64], &[f64])> = rows.iter().map(|r| (&r[..], &r[..])).collect();
        let pairs = of(Units::default(), &rows).unwrap().targets.remove(0).pairs;
        assert!(pairs.len() <= MOST_PAIRS && pairs.len() > 400 && pairs[0].0 == 0.0 && pairs.last().unwrap().0 > 2300.0);
    }
}
