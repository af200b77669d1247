//! Which records make up which batch: a pure function of (order, length, batch size, epoch, batch), so that a loader
//! can begin anywhere at once.
use crate::{BatchOrder, Permutation, Sampler};
use adamant_core::{op::rank_parts, rng::philox};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// Keeps draws with replacement apart from shuffles.
const STREAM: u32 = 0x4452_4157;

/// In which order the records of an epoch come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Order {
    /// As they stand.
    Sequential,
    /// Each once, in an order that follows from seed and epoch ([`Permutation`]).
    Shuffle {
        /// where the order comes from
        seed: u64,
    },
    /// Drawn one by one, each time from all of them; an epoch is so many draws.
    Replacement {
        /// where the draws come from
        seed: u64,
        /// how many are drawn in an epoch
        draws: usize,
    },
    /// By a [`Sampler`] or a [`BatchOrder`] that the loader was given. A loader sets this itself; what it says of it is enough to know it
    /// again.
    Sampler {
        /// what augmentation draws from
        seed: u64,
        /// how many are drawn, or how many batches are made, in an epoch
        draws: usize,
        /// which one it was
        fingerprint: u64,
    },
}

impl Order {
    /// Where it comes from; 0 where nothing is drawn.
    pub(crate) fn seed(self) -> u64 {
        match self {
            Order::Sequential => 0,
            Order::Shuffle { seed } | Order::Replacement { seed, .. } | Order::Sampler { seed, .. } => seed,
        }
    }
}
/// Who says which records are read, where an order does not.
#[derive(Clone, Debug)]
pub(crate) enum GivenOrder {
    Records(Arc<dyn Sampler>),
    Batches(Arc<dyn BatchOrder>),
}
impl GivenOrder {
    pub fn order(&self) -> Order {
        match self {
            GivenOrder::Records(s) => Order::Sampler { seed: s.seed(), draws: s.len(), fingerprint: s.fingerprint() },
            GivenOrder::Batches(b) => Order::Sampler { seed: b.seed(), draws: b.len(), fingerprint: b.fingerprint() },
        }
    }
}
/// How an epoch is cut into batches.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub order: Order,
    /// of [`Order::Sampler`]
    pub given: Option<GivenOrder>,
    pub records: usize,
    /// of one rank; of all where batches are cut into parts
    pub batch_size: usize,
    pub drop_last: bool,
    pub share: BatchShare,
}
/// What of each batch is read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchShare {
    /// (which, of how many) ranks that have a batch each
    Rank(usize, usize),
    /// these parts, of so many that every batch is cut into, each a batch of its own
    Parts(Range<usize>, usize),
}
impl BatchShare {
    /// How many share a batch.
    pub fn among(&self) -> usize {
        match *self {
            BatchShare::Rank(_, among) | BatchShare::Parts(_, among) => among,
        }
    }
    /// How many pieces of each batch are read here.
    pub fn pieces(&self) -> usize {
        match self {
            BatchShare::Rank(..) => 1,
            BatchShare::Parts(held, _) => held.len(),
        }
    }
}
impl Cut {
    /// Records of an epoch over all ranks.
    fn draws(&self) -> usize {
        match self.order {
            Order::Replacement { draws, .. } if self.records > 0 => draws,
            Order::Sampler { draws, .. } => draws,
            _ => self.records,
        }
    }
    /// Records of one step over all ranks.
    pub fn global(&self) -> usize {
        match self.share {
            BatchShare::Rank(_, world) => self.batch_size.saturating_mul(world),
            BatchShare::Parts(..) => self.batch_size,
        }
    }
    /// Batches of an epoch, as many on every rank. Of a last one with fewer records than ranks nobody gets any; of one that is cut into
    /// parts, some parts are empty.
    pub fn batches(&self) -> usize {
        if let Some(GivenOrder::Batches(batches)) = &self.given {
            return batches.len();
        }
        let (whole, left) = (self.draws() / self.global(), self.draws() % self.global());
        let fewest = if matches!(self.share, BatchShare::Rank(..)) { self.share.among() } else { 1 };
        whole + usize::from(left >= fewest && left > 0 && !self.drop_last)
    }
    /// Pieces of an epoch that are read here: one of each batch, or each part that is held.
    pub fn pieces(&self) -> usize {
        self.batches().saturating_mul(self.share.pieces())
    }
    /// The positions in the epoch of a batch.
    fn whole(&self, batch: usize) -> Range<usize> {
        let start = batch * self.global();
        start..start + self.global().min(self.draws() - start)
    }
    /// The positions in the epoch of a piece that is read here.
    fn positions(&self, piece: usize) -> Range<usize> {
        let pieces = self.share.pieces();
        let part = match &self.share {
            BatchShare::Rank(rank, _) => *rank,
            BatchShare::Parts(held, _) => held.start + piece % pieces,
        };
        let Range { start, end } = self.whole(piece / pieces);
        let own = rank_parts(end - start, part, self.share.among());
        start + own.start..start + own.end
    }
    /// The records of a piece of an epoch.
    pub fn records(&self, epoch: u64, piece: usize) -> Vec<usize> {
        if let Some(GivenOrder::Batches(batches)) = &self.given {
            return batches.batch(epoch, piece);
        }
        let positions = self.positions(piece);
        match self.order {
            Order::Sequential => positions.collect(),
            Order::Sampler { .. } => match &self.given {
                Some(GivenOrder::Records(sampler)) => positions.map(|i| sampler.at(epoch, i)).collect(),
                _ => positions.collect(),
            },
            Order::Shuffle { seed } => {
                let order = Permutation::new(self.records as u64, seed, epoch);
                positions.map(|i| order.at(i as u64) as usize).collect()
            }
            Order::Replacement { seed, .. } => {
                let key = [seed as u32, (seed >> 32) as u32];
                let epoch = philox(key, [epoch as u32, (epoch >> 32) as u32, 0, STREAM]);
                let draw = |i: usize| {
                    let bits = philox([epoch[0], epoch[1]], [i as u32, (i as u64 >> 32) as u32, epoch[2], STREAM]);
                    let draw = u64::from(bits[0]) << 32 | u64::from(bits[1]);
                    ((u128::from(draw) * self.records as u128) >> 64) as usize
                };
                positions.map(draw).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn cut(order: Order, records: usize, batch_size: usize, drop_last: bool, (rank, world): (usize, usize)) -> Cut {
        Cut { order, given: None, records, batch_size, drop_last, share: BatchShare::Rank(rank, world) }
    }
    fn in_parts(records: usize, batch_size: usize, held: Range<usize>, parts: usize) -> Cut {
        Cut { order: Order::Shuffle { seed: 1 }, given: None, records, batch_size, drop_last: false, share: BatchShare::Parts(held, parts) }
    }
    #[test]
    fn parts_that_depend_on_who_holds_them() {
        for (records, size, parts) in [(100, 8, 8), (97, 8, 4), (26, 9, 5), (5, 8, 8), (1, 8, 8), (40, 16, 1)] {
            let whole = epoch(cut(Order::Shuffle { seed: 1 }, records, size, false, (0, 1)), 3);
            let all = in_parts(records, size, 0..parts, parts);
            assert_eq!((all.batches(), all.pieces()), (whole.len(), whole.len() * parts));
            let pieces: Vec<Vec<usize>> = (0..all.pieces()).map(|piece| all.records(3, piece)).collect();
            for (batch, pieces) in whole.iter().zip(pieces.chunks(parts)) {
                assert_eq!(*batch, pieces.concat());
                let sizes: Vec<usize> = pieces.iter().map(Vec::len).collect();
                assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
            }
            for ranks in 1..=parts {
                for rank in 0..ranks {
                    let held = parts * rank / ranks..parts * (rank + 1) / ranks;
                    let own = in_parts(records, size, held.clone(), parts);
                    for piece in 0..own.pieces() {
                        let (batch, part) = (piece / held.len(), held.start + piece % held.len());
                        assert_eq!(own.records(3, piece), pieces[batch * parts + part]);
                    }
                }
            }
        }
    }
    fn epoch(cut: Cut, epoch: u64) -> Vec<Vec<usize>> {
        (0..cut.batches()).map(|b| cut.records(epoch, b)).collect()
    }
    #[test]
    fn a_batch_with_a_record_missing_or_too_many() {
        for (records, size, drop_last, sizes) in [
            (0, 4, false, vec![]),
            (3, 4, false, vec![3]),
            (3, 4, true, vec![]),
            (8, 4, false, vec![4, 4]),
            (9, 4, false, vec![4, 4, 1]),
            (9, 4, true, vec![4, 4]),
        ] {
            for order in [Order::Sequential, Order::Shuffle { seed: 3 }] {
                let batches = epoch(cut(order, records, size, drop_last, (0, 1)), 2);
                assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
                let seen: HashSet<usize> = batches.concat().into_iter().collect();
                assert_eq!(seen.len(), sizes.iter().sum::<usize>());
            }
        }
    }
    #[test]
    fn ranks_that_share_a_record_or_take_another_number_of_steps() {
        for (records, size, world) in [(100, 8, 3), (97, 8, 4), (24, 8, 3), (26, 8, 3), (5, 8, 2), (1, 8, 2)] {
            let ranks: Vec<_> = (0..world).map(|r| epoch(cut(Order::Shuffle { seed: 1 }, records, size, false, (r, world)), 0)).collect();
            let whole = epoch(cut(Order::Shuffle { seed: 1 }, records, size * world, false, (0, 1)), 0);
            for rank in &ranks {
                assert_eq!(rank.len(), ranks[0].len());
                assert!(rank.iter().all(|b| !b.is_empty() && b.len() <= size));
            }
            // Together the ranks have one process's batches: the sequence does not depend on how many they are.
            for (step, batch) in whole.iter().enumerate().take(ranks[0].len()) {
                assert_eq!(ranks.iter().flat_map(|r| r[step].clone()).collect::<Vec<_>>(), *batch);
            }
            assert!(whole.len() - ranks[0].len() <= usize::from(records % (size * world) < world));
        }
    }
    #[test]
    fn draws_that_favour_a_record_or_repeat_from_epoch_to_epoch() {
        let draws = cut(Order::Replacement { seed: 7, draws: 10_000 }, 10, 64, false, (0, 1));
        let first = epoch(draws.clone(), 0).concat();
        assert_eq!(first.len(), 10_000);
        for record in 0..10 {
            let n = first.iter().filter(|r| **r == record).count();
            assert!((850..1150).contains(&n), "{record}: {n}");
        }
        assert_ne!(first, epoch(draws, 1).concat());
        assert_eq!(cut(Order::Replacement { seed: 7, draws: 10 }, 0, 4, false, (0, 1)).batches(), 0);
    }
}
