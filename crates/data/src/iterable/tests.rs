//! Sources that are read through: order, resume, what is bad.
use super::*;
use crate::{Place, Policy};
use std::collections::BTreeSet;

/// Whole numbers with what is drawn for each; some are bad, and one may panic.
struct Numbers {
    len: usize,
    bad: &'static [usize],
    panics_at: Option<usize>,
}
impl Numbers {
    fn good(len: usize) -> Arc<Numbers> {
        Arc::new(Numbers { len, bad: &[], panics_at: None })
    }
}
impl IterableDataset for Numbers {
    type Record = (usize, u64);
    type Batch = Vec<(usize, u64)>;
    fn records(self: Arc<Self>, pass: &StreamPass) -> Records<(usize, u64)> {
        let pass = *pass;
        Box::new((0..self.len).map(move |k| {
            assert!(self.panics_at != Some(k), "the source broke");
            let place = Place { file: "numbers".into(), index: k, offset: 0 };
            if self.bad.contains(&k) { Err(BadRecord::new(place, "unlucky")) } else { Ok((k, pass.draw(k).rng().next_u64())) }
        }))
    }
    fn collate(&self, records: Vec<(usize, u64)>) -> Result<Vec<(usize, u64)>> {
        Ok(records)
    }
}
/// The batches of two epochs, each with the state after it.
fn batches<D: IterableDataset<Batch = Vec<(usize, u64)>> + ?Sized>(mut loader: IterableLoader<D>) -> Vec<(IterableState, Vec<(usize, u64)>)> {
    let mut all = Vec::new();
    for _ in 0..2 {
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            all.push((loader.state(), batch));
        }
    }
    all
}
#[test]
fn a_stream_that_resumes_elsewhere_or_depends_on_who_reads_ahead() {
    type Source = Arc<dyn IterableDataset<Record = (usize, u64), Batch = Vec<(usize, u64)>>>;
    let chain = Arc::new(ChainDataset::new([Numbers::good(5), Numbers::good(0), Numbers::good(9)]));
    let sources: [Source; 4] =
        [Numbers::good(23), chain.clone(), Arc::new(ShuffledStream::new(Numbers::good(23), 6)), Arc::new(ShuffledStream::new(chain, 50))];
    for (k, source) in sources.into_iter().enumerate() {
        for drop_last in [false, true] {
            let build = |prefetch| IterableLoader::new(source.clone()).batch_size(4).seed(8).drop_last(drop_last).prefetch(prefetch).build().unwrap();
            let whole = batches(build(0));
            assert!(whole.iter().all(|(_, b)| b.len() == 4 || !drop_last));
            assert_eq!(whole, batches(build(3)), "{k}");
            for cut in 0..whole.len() / 2 {
                let mut resumed = build(cut % 2);
                resumed.restore(serde_json::from_str(&serde_json::to_string(&whole[cut].0).unwrap()).unwrap()).unwrap();
                assert_eq!(batches(resumed)[..whole.len() - cut - 1], whole[cut + 1..], "{k} from {cut}");
            }
            // Epochs draw otherwise.
            let (first, second) = whole.split_at(whole.len() / 2);
            assert_ne!(first.iter().map(|b| &b.1).collect::<Vec<_>>(), second.iter().map(|b| &b.1).collect::<Vec<_>>());
            let order = |part: &[(IterableState, Vec<(usize, u64)>)]| part.iter().flat_map(|(_, b)| b.iter().map(|r| r.0)).collect::<Vec<_>>();
            assert_eq!(order(first) != order(second), k >= 2, "{k}");
        }
    }
}
#[test]
fn a_record_that_two_ranks_read_or_none() {
    for len in [0, 1, 7, 24, 25] {
        let ranks: Vec<Vec<usize>> = (0..3)
            .map(|rank| {
                let mut loader = IterableLoader::new(Numbers::good(len)).batch_size(2).shard(rank, 3).build().unwrap();
                loader.epoch().flat_map(|b| b.unwrap()).map(|r| r.0).collect()
            })
            .collect();
        assert_eq!(ranks.concat().len(), len);
        assert_eq!(ranks.concat().into_iter().collect::<BTreeSet<_>>(), (0..len).collect());
    }
    assert!(IterableLoader::new(Numbers::good(1)).shard(3, 3).build().is_err() && IterableLoader::new(Numbers::good(1)).batch_size(0).build().is_err());
}
#[test]
fn a_bad_record_of_a_stream_that_is_lost_in_silence_or_ends_it() {
    for prefetch in [0, 2] {
        let source = |panics_at| Arc::new(Numbers { len: 10, bad: &[1, 4, 5, 6], panics_at });
        let build = |panics_at, at_most| {
            let policy = Policy::Skip { at_most };
            IterableLoader::new(source(panics_at)).batch_size(3).prefetch(prefetch).on_bad_record(policy).build().unwrap()
        };
        let mut loader = build(None, 4);
        let sizes: Vec<Vec<usize>> = loader.epoch().map(|b| b.unwrap().into_iter().map(|r| r.0).collect()).collect();
        assert_eq!(sizes, [vec![0, 2], vec![3], vec![7, 8], vec![9]]);
        assert_eq!(loader.take_bad_records().iter().map(|b| b.place.index).collect::<Vec<_>>(), [1, 4, 5, 6]);
        // One too many: an error, and the position stays.
        let mut loader = build(None, 3);
        assert!(loader.next_batch().unwrap().is_ok());
        assert!(loader.next_batch().unwrap().is_ok());
        let before = loader.state();
        for _ in 0..2 {
            let error = loader.next_batch().unwrap().unwrap_err().to_string();
            assert!(error.contains("record 6") && error.contains("3 are allowed"), "{error}");
            assert_eq!(loader.state(), before);
        }
        let mut loader = build(Some(2), 9);
        assert_eq!(loader.next_batch().unwrap().unwrap().len(), 1);
        assert!(loader.next_batch().is_none());
        let bad = loader.take_bad_records();
        assert!(bad[1].reason.contains("the source broke") && bad[1].place.index == 2, "{bad:?}");
        let error = loader.restore(IterableState { seed: 1, ..loader.state() }).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
    }
}
