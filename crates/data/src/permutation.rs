//! A shuffled order without a list: where a position of the order points is computed from (length, seed, epoch) alone,
//! so any position of any epoch can be had at once, and a loader's whole state is a few numbers.
//!
//! The method is a generalised Feistel network over `a * b >= len` points (Black and Rogaway, "Ciphers with Arbitrary
//! Finite Domains", CT-RSA 2002, the second and third constructions), walked until it falls inside `0..len`. Its round
//! function is Philox4x32-10, whose key is drawn from seed and epoch.
use adamant_core::rng::philox;

/// Rounds of the network. Six are the least at which proofs of its quality hold for large domains; the small ones, where
/// a round mixes little, get two more.
const ROUNDS: u32 = 8;
/// Keeps shuffles apart from the streams that layers draw from.
const STREAM: u32 = 0x5348_5546;

/// A bijection of `0..len`, from a seed and the number of an epoch. Holds a few numbers, whatever its length.
///
/// ```
/// use adamant_data::Permutation;
///
/// let order = Permutation::new(1_000_000_000, 42, 0);
/// assert!(order.at(999_999_999) < 1_000_000_000);
/// let mut small: Vec<u64> = Permutation::new(5, 42, 0).iter().collect();
/// small.sort();
/// assert_eq!(small, [0, 1, 2, 3, 4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    /// `rows * columns >= len`, both near its root: fewer than `rows` points lie outside.
    rows: u64,
    columns: u64,
    key: [u32; 2],
    tweak: u32,
}
impl Permutation {
    /// The order of an epoch.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Permutation {
        let drawn = philox([seed as u32, (seed >> 32) as u32], [epoch as u32, (epoch >> 32) as u32, 0, STREAM]);
        let root = len.isqrt();
        let rows = (root + u64::from(root * root < len)).max(1);
        Permutation { len, rows, columns: len.div_ceil(rows), key: [drawn[0], drawn[1]], tweak: drawn[2] }
    }
    /// How many positions there are.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// No positions?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Where position `i` points. Of a position outside `0..len`, the position itself.
    pub fn at(&self, i: u64) -> u64 {
        if i >= self.len {
            return i;
        }
        // The walk stays on the cycle of `i`, which holds a point inside: it ends.
        let mut point = self.network(i);
        while point >= self.len {
            point = self.network(point);
        }
        point
    }
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        let order = *self;
        (0..self.len).map(move |i| order.at(i))
    }
    /// A permutation of all `rows * columns` points. They are at most 2^64 (rows is at most 2^32, and the product is the
    /// least multiple of it that reaches `len`), so the last one fits.
    fn network(&self, point: u64) -> u64 {
        let (mut row, mut column) = (point / self.columns, point % self.columns);
        for round in 0..ROUNDS {
            if round % 2 == 0 {
                row = shift(row, self.draw(column, round), self.rows);
            } else {
                column = shift(column, self.draw(row, round), self.columns);
            }
        }
        row * self.columns + column
    }
    fn draw(&self, half: u64, round: u32) -> u64 {
        let bits = philox(self.key, [half as u32, (half >> 32) as u32, round, self.tweak]);
        u64::from(bits[0]) << 32 | u64::from(bits[1])
    }
}
/// `value + draw` modulo `size`, the draw scaled to `0..size` by a multiplication.
fn shift(value: u64, draw: u64, size: u64) -> u64 {
    let by = ((u128::from(draw) * u128::from(size)) >> 64) as u64;
    let sum = value + by;
    if sum >= size { sum - size } else { sum }
}

/// The rows of each batch of an epoch. Each row is in exactly one batch; the last batch may be smaller.
///
/// ```
/// let batches = adamant_data::create_batches(10, 4, 1, 0);
/// assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
/// assert_eq!(batches, adamant_data::create_batches(10, 4, 1, 0));
/// assert_ne!(batches, adamant_data::create_batches(10, 4, 1, 1));
/// ```
pub fn create_batches(len: usize, batch: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let order: Vec<usize> = Permutation::new(len as u64, seed, epoch).iter().map(|row| row as usize).collect();
    order.chunks(batch.max(1)).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn a_row_that_is_missed_or_seen_twice() {
        for len in (0..70).chain([255, 256, 257, 1000, 1440, 65_535, 65_536, 65_537]) {
            let rows: HashSet<u64> = Permutation::new(len, 5, 3).iter().collect();
            assert_eq!(rows.len() as u64, len);
            assert!(rows.iter().all(|r| *r < len));
        }
        for (len, batch) in [(0, 4), (1, 4), (7, 1), (64, 64), (1440, 64), (9, 0)] {
            let rows: Vec<usize> = create_batches(len, batch, 5, 3).concat();
            assert_eq!(rows.iter().collect::<HashSet<_>>().len(), len);
            assert_eq!(rows.len(), len);
        }
    }
    #[test]
    fn a_length_beyond_32_bits_that_collides_or_leaves_its_range() {
        for len in [(1 << 32) + 5, 1 << 40, (1 << 63) + 3, u64::MAX - 1, u64::MAX] {
            let order = Permutation::new(len, 9, 1);
            let places: Vec<u64> = (0..500).chain(len - 500..len).map(|i| order.at(i)).collect();
            assert!(places.iter().all(|p| *p < len), "{len}");
            assert_eq!(places.iter().collect::<HashSet<_>>().len(), 1000, "{len}");
            // Not all of them near where they were.
            assert!(places.iter().filter(|p| **p > len / 2).count() > 300, "{len}");
            assert_eq!(order.at(len), len);
        }
    }
    #[test]
    fn an_order_that_changes_from_version_to_version() {
        assert_eq!(Permutation::new(8, 1, 0).iter().collect::<Vec<_>>(), [4, 3, 7, 0, 2, 1, 5, 6]);
    }
    #[test]
    fn seeds_or_epochs_that_share_an_order() {
        let order = |seed, epoch| Permutation::new(64, seed, epoch).iter().collect::<Vec<_>>();
        let distinct: HashSet<Vec<u64>> = (0..4).chain([1 << 32, 1 << 33]).flat_map(|seed| (0..4).map(move |epoch| order(seed, epoch))).collect();
        assert_eq!(distinct.len(), 24);
    }
    #[test]
    fn a_permutation_of_few_that_is_rarer_than_the_others() {
        for (len, kinds) in [(2, 2), (3, 6), (4, 24)] {
            let mut counts = BTreeMap::new();
            for seed in 0..1000 * kinds {
                *counts.entry(Permutation::new(len, seed, 0).iter().collect::<Vec<_>>()).or_insert(0u32) += 1;
            }
            assert_eq!(counts.len() as u64, kinds);
            assert!(counts.values().all(|c| (850..1150).contains(c)), "{counts:?}");
        }
    }
    /// Of uniform counts, chi square is about its degrees of freedom; six standard deviations above is no chance.
    fn check_uniform(counts: &[u32], what: &str) {
        let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
        let chi: f64 = counts.iter().map(|c| (f64::from(*c) - mean).powi(2) / mean).sum();
        let freedom = counts.len() as f64 - 1.0;
        assert!(chi < freedom + 6.0 * (2.0 * freedom).sqrt(), "{what}: chi square {chi:.0} of {freedom} degrees of freedom");
    }
    #[test]
    fn a_position_that_prefers_some_rows() {
        for len in [2, 3, 5, 7, 10, 16, 30, 64, 100] {
            let mut counts = vec![0u32; (len * len) as usize];
            for seed in 0..40 * len {
                for (i, row) in Permutation::new(len, seed, 0).iter().enumerate() {
                    counts[i * len as usize + row as usize] += 1;
                }
            }
            check_uniform(&counts, &format!("length {len}"));
        }
    }
    #[test]
    fn neighbours_that_stay_together() {
        // The distance between what two neighbours of the order point at, modulo the length.
        for len in [5, 12, 50, 1000] {
            let mut counts = vec![0u32; len as usize - 1];
            for seed in 0..100_000 / len {
                let order: Vec<u64> = Permutation::new(len, seed, 1).iter().collect();
                for pair in order.windows(2) {
                    counts[((pair[1] + len - pair[0]) % len) as usize - 1] += 1;
                }
            }
            check_uniform(&counts, &format!("length {len}"));
        }
    }
}
