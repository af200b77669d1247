//! Batches in a shuffled order that follows from a seed and the number of the epoch alone: no state to save, and any
//! epoch can be had without those before it.
use adamant_core::rng::philox;

/// A permutation of `0..len` (Fisher and Yates' shuffle as in Durstenfeld 1964), from Philox of (seed, epoch; position).
pub fn permutation(len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let key = [seed as u32, (seed >> 32) as u32];
    for last in (1..len).rev() {
        // The last word keeps shuffles apart from the streams that layers draw from.
        let bits = philox(key, [last as u32, epoch as u32, (epoch >> 32) as u32, 0x5348_5546]);
        let draw = (bits[0] as u64) << 32 | bits[1] as u64;
        order.swap(last, ((draw as u128 * (last as u128 + 1)) >> 64) as usize);
    }
    order
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
    permutation(len, seed, epoch).chunks(batch.max(1)).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn a_row_that_is_missed_or_seen_twice() {
        for (len, batch) in [(0, 4), (1, 4), (7, 1), (64, 64), (1440, 64), (9, 0)] {
            let rows: Vec<usize> = create_batches(len, batch, 5, 3).concat();
            assert_eq!(rows.iter().collect::<HashSet<_>>().len(), len);
            assert_eq!(rows.len(), len);
        }
    }
    #[test]
    fn an_order_that_changes_from_version_to_version() {
        assert_eq!(permutation(8, 1, 0), [3, 5, 4, 7, 0, 1, 2, 6]);
    }
    #[test]
    fn seeds_or_epochs_that_share_an_order() {
        let distinct: HashSet<Vec<usize>> = (0..4).flat_map(|seed| (0..4).map(move |epoch| permutation(64, seed, epoch))).collect();
        assert_eq!(distinct.len(), 16);
    }
    #[test]
    fn a_permutation_of_three_that_is_rarer_than_the_others() {
        let mut counts = BTreeMap::new();
        for seed in 0..6000 {
            *counts.entry(permutation(3, seed, 0)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|c| (850..1150).contains(c)), "{counts:?}");
    }
}
