//! A first batch size and learning rate for a model of a size, where nobody knows better. A table of rules of thumb;
//! what a run really needs is found by trying.
//!
//! Source: the scaling table of the performance guide of Neural Forge ("Model Size Scaling").

/// A batch size and a learning rate (for Adam) to begin with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Suggestion {
    /// rows in a batch
    pub batch: usize,
    /// the learning rate
    pub lr: f64,
}
/// Smaller models than `.0` parameters begin with `.1`; the last row holds for all above.
const TABLE: [(usize, Suggestion); 4] = [
    (10_000, Suggestion { batch: 32, lr: 0.01 }),
    (100_000, Suggestion { batch: 64, lr: 0.003 }),
    (1_000_001, Suggestion { batch: 128, lr: 0.001 }),
    (usize::MAX, Suggestion { batch: 256, lr: 0.0003 }),
];

/// What to begin with for a model of so many parameters: below 10,000; below 100,000; up to 1,000,000; above.
///
/// ```
/// let begin = adamant_train::suggest::suggest(50_000);
/// assert_eq!((begin.batch, begin.lr), (64, 0.003));
/// ```
pub fn suggest(parameters: usize) -> Suggestion {
    TABLE.iter().find(|(below, _)| parameters < *below).unwrap_or(&TABLE[3]).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_falls_into_the_wrong_row() {
        let expected = [
            (0, 32, 0.01),
            (9_999, 32, 0.01),
            (10_000, 64, 0.003),
            (50_000, 64, 0.003),
            (99_999, 64, 0.003),
            (100_000, 128, 0.001),
            (1_000_000, 128, 0.001),
            (1_000_001, 256, 0.0003),
            (usize::MAX, 256, 0.0003),
        ];
        for (parameters, batch, lr) in expected {
            assert_eq!(suggest(parameters), Suggestion { batch, lr }, "{parameters}");
        }
    }
}
