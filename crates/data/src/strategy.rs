//! Choices by size: how to hold a data set, how large a batch to take, and a shuffle for what can only be read through.
use adamant_core::rng::philox;

/// How to hold a data set, by how many records it has and how many bytes they take in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataStrategy {
    /// All of it in memory ([`crate::Rows`]).
    InMemory,
    /// Records are read batch by batch ([`crate::DataLoader`] over files).
    Batched,
    /// Mapped or read through, shuffled on the way ([`crate::MmapRecords`], [`shuffle_stream`]).
    Streaming,
    /// More than one machine's worth: each rank takes a part ([`crate::DataLoaderBuilder::shard`]).
    Distributed,
}
/// Records up to which a data set is one to hold, to read in batches, to stream by one machine.
const HELD: usize = 1_000;
const BATCHED: usize = 100_000;
const STREAMED: usize = 1_000_000;

impl DataStrategy {
    /// The strategy for this machine: by its memory that is free now.
    pub fn auto(len: usize, bytes: u64) -> DataStrategy {
        DataStrategy::with_memory(len, bytes, free_memory())
    }
    /// The strategy where `free` bytes of memory can be had. Memory comes first: what fits into a quarter of them is held,
    /// however many records it has, and into half of them if it has no more than a thousand, which are read at random all
    /// the time. What is larger goes by its records: to 100,000 in batches, to a million as a stream, beyond that
    /// distributed.
    ///
    /// ```
    /// use adamant_data::DataStrategy;
    ///
    /// let gib = 1 << 30;
    /// assert_eq!(DataStrategy::with_memory(5_000, gib, 16 * gib), DataStrategy::InMemory);
    /// assert_eq!(DataStrategy::with_memory(5_000, 64 * gib, 16 * gib), DataStrategy::Batched);
    /// ```
    pub fn with_memory(len: usize, bytes: u64, free: u64) -> DataStrategy {
        let budget = if len <= HELD { free / 2 } else { free / 4 };
        if bytes <= budget {
            DataStrategy::InMemory
        } else if len <= BATCHED {
            DataStrategy::Batched
        } else if len <= STREAMED {
            DataStrategy::Streaming
        } else {
            DataStrategy::Distributed
        }
    }
}
/// Bytes of memory that can be had without swapping; a guess of 4 GiB where the system does not say.
fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(4 << 30, |kib| kib * 1024)
}

/// A batch size by model and memory: the largest power of two of which `model_size` bytes each (what one example takes
/// while training) fit into `gb` gigabytes, at least 16 and at most 512.
///
/// ```
/// use adamant_data::adaptive_batch_size;
///
/// assert_eq!(adaptive_batch_size(10_000_000, 4.0), 256);
/// assert_eq!(adaptive_batch_size(10_000_000, 0.0), 16);
/// ```
pub fn adaptive_batch_size(model_size: u64, gb: f64) -> usize {
    let fit = gb * 1e9 / model_size.max(1) as f64;
    // Not a number and negative come out as 16 too.
    [512, 256, 128, 64, 32].into_iter().find(|size| fit >= *size as f64).unwrap_or(16)
}

/// Shuffles what can only be read through: the next item is drawn at random from a buffer, and the one read next takes
/// its place. Each item comes once; the order follows from the seed. An item moves back any distance, and forward at most
/// about a buffer, so the buffer should be large beside the runs of like items in the source.
///
/// ```
/// let mut items: Vec<u32> = adamant_data::shuffle_stream(0..100, 16, 7).collect();
/// assert_ne!(items, (0..100).collect::<Vec<_>>());
/// items.sort();
/// assert_eq!(items, (0..100).collect::<Vec<_>>());
/// ```
pub fn shuffle_stream<I: IntoIterator>(source: I, buffer: usize, seed: u64) -> StreamShuffle<I::IntoIter> {
    StreamShuffle { source: source.into_iter(), held: Vec::new(), capacity: buffer.max(1), seed, drawn: 0 }
}
/// See [`shuffle_stream`].
#[derive(Clone, Debug)]
pub struct StreamShuffle<I: Iterator> {
    source: I,
    held: Vec<I::Item>,
    capacity: usize,
    seed: u64,
    drawn: u64,
}
impl<I: Iterator> Iterator for StreamShuffle<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        while self.held.len() < self.capacity
            && let Some(item) = self.source.next()
        {
            self.held.push(item);
        }
        if self.held.is_empty() {
            return None;
        }
        let bits = philox([self.seed as u32, (self.seed >> 32) as u32], [self.drawn as u32, (self.drawn >> 32) as u32, 0, 0x5354_524d]);
        self.drawn += 1;
        let draw = u64::from(bits[0]) << 32 | u64::from(bits[1]);
        Some(self.held.swap_remove(((u128::from(draw) * self.held.len() as u128) >> 64) as usize))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (low, high) = self.source.size_hint();
        (low.saturating_add(self.held.len()), high.and_then(|h| h.checked_add(self.held.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_gets_the_wrong_strategy() {
        use DataStrategy::*;
        const GIB: u64 = 1 << 30;
        for (len, bytes, free, expected) in [
            (9_000, GIB, 16 * GIB, InMemory),
            (50_000, 20 * GIB, 16 * GIB, Batched),
            (500_000, 20 * GIB, 16 * GIB, Streaming),
            (2_000_000, 20 * GIB, 16 * GIB, Distributed),
            // Each border, from both sides.
            (1_000, 6 * GIB, 16 * GIB, InMemory),
            (1_001, 6 * GIB, 16 * GIB, Batched),
            (1_000, 8 * GIB, 16 * GIB, InMemory),
            (1_000, 8 * GIB + 1, 16 * GIB, Batched),
            (1_001, 4 * GIB, 16 * GIB, InMemory),
            (1_001, 4 * GIB + 1, 16 * GIB, Batched),
            (100_000, 20 * GIB, 16 * GIB, Batched),
            (100_001, 20 * GIB, 16 * GIB, Streaming),
            (1_000_000, 20 * GIB, 16 * GIB, Streaming),
            (1_000_001, 20 * GIB, 16 * GIB, Distributed),
            (50_000_000, 2_000 * GIB, 16 * GIB, Distributed),
            // Memory decides where it can: many small records are held, few large ones are not.
            (5_000_000, GIB, 16 * GIB, InMemory),
            (9_000, 5 * GIB, 16 * GIB, Batched),
            (0, 0, 0, InMemory),
            (usize::MAX, u64::MAX, u64::MAX, Distributed),
        ] {
            assert_eq!(DataStrategy::with_memory(len, bytes, free), expected, "{len} {bytes}");
        }
        assert_eq!(DataStrategy::auto(1000, 1 << 20), InMemory);
        assert_ne!(DataStrategy::auto(1000, 1 << 60), InMemory);
    }
    #[test]
    fn a_batch_size_that_is_no_power_of_two_or_out_of_bounds() {
        let mb = 1_000_000;
        for (model, gb, expected) in [
            (0, 0.0, 16),
            (0, 1.0, 512),
            (1, 0.0, 16),
            (1, 1e-9, 16),
            (mb, 0.0, 16),
            (mb, -1.0, 16),
            (mb, f64::NAN, 16),
            (mb, f64::INFINITY, 512),
            (mb, 0.015, 16),
            (mb, 0.016, 16),
            (mb, 0.031, 16),
            (mb, 0.032, 32),
            (mb, 0.063, 32),
            (mb, 0.064, 64),
            (mb, 0.1, 64),
            (mb, 0.128, 128),
            (mb, 0.3, 256),
            (mb, 0.512, 512),
            (mb, 64.0, 512),
            (u64::MAX, 1e6, 16),
            (10 * mb, 4.0, 256),
        ] {
            assert_eq!(adaptive_batch_size(model, gb), expected, "{model} bytes, {gb} GB");
        }
    }
    #[test]
    fn an_item_of_a_stream_that_is_lost_doubled_or_not_moved() {
        for (len, buffer) in [(0, 4), (1, 4), (100, 1), (100, 7), (100, 1000), (1000, 64)] {
            let shuffled: Vec<u32> = shuffle_stream(0..len, buffer, 3).collect();
            let mut sorted = shuffled.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>());
            assert_eq!(shuffled, shuffle_stream(0..len, buffer, 3).collect::<Vec<_>>());
            // Nothing comes before it could have been in the buffer.
            assert!(shuffled.iter().enumerate().all(|(k, item)| (*item as usize) < k + buffer));
            if len > 1 && buffer > 1 {
                assert_ne!(shuffled, sorted);
                assert_ne!(shuffled, shuffle_stream(0..len, buffer, 4).collect::<Vec<_>>());
            }
        }
    }
}
