//! Samplers and joined data sets: what they draw, and that a loader goes on with it.
use super::*;
use crate::{BadRecord, ConcatDataset, DataLoader, Dataset, Draw, Labelled, LoaderState, Order, Rows, StackDataset};
use std::collections::{BTreeMap, HashSet};

fn epoch(sampler: &dyn Sampler, epoch: u64) -> Vec<usize> {
    (0..sampler.len()).map(|k| sampler.at(epoch, k)).collect()
}
#[test]
fn a_sampler_that_draws_a_record_too_often_or_not_at_all() {
    assert_eq!(epoch(&SequentialSampler(4), 3), [0, 1, 2, 3]);
    let shuffled = RandomSampler::new(50, 7);
    for e in 0..3 {
        let order: Vec<usize> = Permutation::new(50, 7, e).iter().map(|i| i as usize).collect();
        assert_eq!(epoch(&shuffled, e), order);
    }
    // Twice each, the rounds in different orders, and half a round.
    let more = epoch(&shuffled.num_samples(125), 1);
    for round in more.chunks(50) {
        assert_eq!(round.iter().collect::<HashSet<_>>().len(), round.len());
    }
    assert_ne!(more[..50], more[50..100]);
    let with = epoch(&shuffled.replacement(true).num_samples(5000), 0);
    assert!((0..50).all(|k| (50..160).contains(&with.iter().filter(|i| **i == k).count())));
    assert_ne!(with, epoch(&shuffled.replacement(true).num_samples(5000), 1));
    assert!(epoch(&RandomSampler::new(0, 1).num_samples(5), 0).is_empty());
    let subset = SubsetRandomSampler::new([9, 2, 40, 7], 1);
    let orders: HashSet<Vec<usize>> = (0..30).map(|e| epoch(&subset, e)).collect();
    assert!(orders.len() > 5);
    assert!(orders.iter().all(|o| o.iter().collect::<HashSet<_>>() == HashSet::from([&9, &2, &40, &7])));
}
#[test]
fn weights_that_are_not_how_likely_a_record_is() {
    let weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0];
    let sampler = WeightedRandomSampler::new(&weights, 8000, true, 5).unwrap();
    let drawn = epoch(&sampler, 2);
    let count = |k: usize| drawn.iter().filter(|i| **i == k).count() as f64;
    for (k, w) in weights.iter().enumerate() {
        // Six standard deviations of a binomial.
        let (want, spread) = (1000.0 * w, 6.0 * (1000.0 * w * (1.0 - w / 8.0)).sqrt());
        assert!((count(k) - want).abs() <= spread, "{k}: {}", count(k));
    }
    assert_ne!(drawn, epoch(&sampler, 3));
    // Without replacement: each once, and the first as the weights say; of the second, given the first, what is left says.
    let mut firsts = BTreeMap::new();
    let without = WeightedRandomSampler::new(&weights, 3, false, 5).unwrap();
    for e in 0..4000 {
        let order = epoch(&without, e);
        assert_eq!(order.iter().copied().collect::<HashSet<_>>(), HashSet::from([1, 2, 4]));
        *firsts.entry((order[0], order[1])).or_insert(0.0) += 1.0;
    }
    for ((a, b), n) in firsts {
        let p = weights[a] / 8.0 * weights[b] / (8.0 - weights[a]);
        assert!((n - 4000.0 * p).abs() <= 6.0 * (4000.0 * p * (1.0 - p)).sqrt(), "{a} {b}: {n} of {}", 4000.0 * p);
    }
    for (weights, n, replacement) in
        [(&[1.0, -1.0][..], 1, true), (&[f64::NAN], 1, true), (&[0.0, 0.0], 1, true), (&[1.0, 0.0], 2, false), (&[f64::MAX; 2], 1, true)]
    {
        assert!(WeightedRandomSampler::new(weights, n, replacement, 0).is_err(), "{weights:?}");
    }
}
#[test]
fn a_sampler_of_which_a_loader_takes_another_for_its_own() {
    let weighted = |w: &[f64], seed| WeightedRandomSampler::new(w, 2, true, seed).unwrap().fingerprint();
    let subset = |list: &[usize]| SubsetRandomSampler::new(list.to_vec(), 0).fingerprint();
    let all = [weighted(&[1.0, 2.0], 0), weighted(&[2.0, 1.0], 0), weighted(&[1.0, 2.0], 1), subset(&[1, 2]), subset(&[2, 1]), subset(&[1, 2, 0])];
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    // It is saved: another version has to say the same.
    assert_eq!(fingerprint([1, 2, 3]), fingerprint([1, 2, 3]));
}
fn rows(n: usize) -> Rows {
    Rows::new((0..n as i64).collect::<Vec<_>>(), [n]).unwrap()
}
type Build = fn(crate::DataLoaderBuilder<Rows>) -> crate::DataLoaderBuilder<Rows>;
#[test]
fn a_loader_by_a_sampler_that_resumes_elsewhere_or_depends_on_workers() {
    let builds: [Build; 6] = [
        |b| b.sampler(Arc::new(SequentialSampler(30))),
        |b| b.sampler(Arc::new(RandomSampler::new(30, 3).num_samples(70))),
        |b| b.sampler(Arc::new(RandomSampler::new(30, 3).replacement(true))),
        |b| b.sampler(Arc::new(SubsetRandomSampler::new((3..21).collect::<Vec<_>>(), 3))),
        |b| b.sampler(Arc::new(WeightedRandomSampler::new(&(0..30).map(f64::from).collect::<Vec<_>>(), 20, false, 4).unwrap())),
        |b| b.batch_sampler(Arc::new(BatchSampler::new(Arc::new(RandomSampler::new(30, 9)), 7, false))),
    ];
    for (k, build) in builds.into_iter().enumerate() {
        adamant_core::Device::reference().scoped(|| {
            let run = |workers: usize, from: Option<LoaderState>| {
                let mut loader = build(DataLoader::new(Arc::new(rows(30))).batch_size(4)).workers(workers).build().unwrap();
                from.into_iter().for_each(|state| loader.restore(state).unwrap());
                let mut all = Vec::new();
                for _ in 0..2 {
                    while let Some(batch) = loader.next_batch() {
                        all.push((loader.state(), batch.unwrap().to_vec::<i64>().unwrap()));
                    }
                }
                all
            };
            let whole = run(0, None);
            assert_eq!(whole, run(3, None), "{k}");
            // What is drawn is drawn anew in each epoch.
            let epoch = |e: u64| whole.iter().filter(|(state, _)| state.epoch == e).map(|(_, b)| b.clone()).collect::<Vec<_>>();
            assert_eq!(epoch(0) != epoch(1), k > 0, "{k}");
            for cut in [0, 2, whole.len() / 2 - 1] {
                // As it comes back from a checkpoint.
                let state: LoaderState = serde_json::from_str(&serde_json::to_string(&whole[cut].0).unwrap()).unwrap();
                let rest = run(2, Some(state));
                assert_eq!(rest[..whole.len() - cut - 1], whole[cut + 1..], "{k} from {cut}");
            }
        });
    }
}
#[test]
fn a_state_of_another_sampler_that_a_loader_goes_on_from() {
    adamant_core::Device::reference().scoped(|| {
        let build = |seed| DataLoader::new(Arc::new(rows(9))).batch_size(2).sampler(Arc::new(RandomSampler::new(9, seed))).build().unwrap();
        let error = build(1).restore(build(2).state()).unwrap_err().to_string();
        assert!(error.contains("by a sampler with seed 2"), "{error}");
        let order = build(1).state().order;
        assert!(matches!(order, Order::Sampler { draws: 9, .. }));
        assert!(DataLoader::new(Arc::new(rows(9))).order(order).build().is_err());
        let batches = Arc::new(BatchSampler::new(Arc::new(SequentialSampler(9)), 2, true));
        assert!(DataLoader::new(Arc::new(rows(9))).batch_sampler(batches.clone()).shard(0, 2).build().is_err());
        assert_eq!(DataLoader::new(Arc::new(rows(9))).batch_sampler(batches).build().unwrap().batches(), 4);
        // A sampler that points beyond the data: a bad record, not a panic.
        let mut beyond = DataLoader::new(Arc::new(rows(3))).sampler(Arc::new(SequentialSampler(4))).batch_size(4).build().unwrap();
        assert!(beyond.next_batch().unwrap().unwrap_err().to_string().contains("there are 3 records"));
    });
}
#[test]
fn records_of_joined_sets_that_change_places() {
    adamant_core::Device::reference().scoped(|| {
        let part = |from: i64, n: usize| {
            let inputs = Rows::new((from..from + n as i64).map(|v| v as f32).collect::<Vec<_>>(), [n, 1]).unwrap();
            Labelled::new(inputs, Rows::new((from..from + n as i64).map(|v| -v).collect::<Vec<_>>(), [n]).unwrap()).unwrap()
        };
        let whole = Arc::new(ConcatDataset::new(vec![part(0, 5), part(100, 0), part(200, 7)]).unwrap());
        assert_eq!((whole.len(), whole.place(5), whole.place(12)), (12, Some((2, 0)), None));
        assert!(whole.read(12).is_err() && ConcatDataset::<Rows>::new(vec![]).is_err());
        let want = |k: usize| if k < 5 { k as i64 } else { 195 + k as i64 };
        let mut loader = DataLoader::new(whole.clone()).batch_size(5).shuffle(3).workers(2).build().unwrap();
        let order: Vec<usize> = Permutation::new(12, 3, 0).iter().map(|i| i as usize).collect();
        for (batch, records) in loader.epoch().zip(order.chunks(5)) {
            let (x, y) = batch.unwrap();
            let wanted: Vec<i64> = records.iter().map(|k| want(*k)).collect();
            assert_eq!(y.to_vec::<i64>().unwrap(), wanted.iter().map(|v| -v).collect::<Vec<_>>());
            assert_eq!(x.to_vec::<f32>().unwrap(), wanted.iter().map(|v| *v as f32).collect::<Vec<_>>());
        }
        let stack = StackDataset::new(rows(4), StackDataset::new(rows(4), rows(4)).unwrap()).unwrap();
        let (a, (b, c)) = stack.collate(vec![stack.read(2).unwrap(), stack.read(0).unwrap()]).unwrap();
        assert!([a, b, c].iter().all(|t| t.to_vec::<i64>().unwrap() == [2, 0]));
        assert!(StackDataset::new(rows(4), rows(5)).is_err());
    });
}
/// A set of one's own that draws by its context, and says what it was.
struct Drawn;
impl Dataset for Drawn {
    type Record = (usize, u64, u64);
    type Batch = Vec<(usize, u64, u64)>;
    fn len(&self) -> usize {
        12
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((index, 0, 0))
    }
    fn read_at(&self, _: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((draw.index, draw.epoch, draw.rng().next_u64()))
    }
    fn collate(&self, records: Vec<Self::Record>) -> adamant_core::Result<Self::Batch> {
        Ok(records)
    }
}
#[test]
fn what_is_drawn_for_a_record_that_depends_on_workers_batches_or_where_one_began() {
    let run = |workers: usize, size: usize, from: usize| {
        let mut loader = DataLoader::new(Arc::new(Drawn)).batch_size(size).shuffle(11).workers(workers).build().unwrap();
        (0..from).for_each(|_| drop(loader.next_batch()));
        let state = loader.state();
        let mut loader = DataLoader::new(Arc::new(Drawn)).batch_size(size).shuffle(11).workers(workers).build().unwrap();
        loader.restore(state).unwrap();
        let mut all: Vec<(usize, u64, u64)> = Vec::new();
        for _ in 0..2 {
            all.extend(loader.epoch().flat_map(|b| b.unwrap()));
        }
        all
    };
    let whole = run(0, 4, 0);
    assert_eq!(whole, run(3, 4, 0));
    assert_eq!(whole, run(2, 6, 0));
    assert_eq!(whole[4..], run(2, 4, 1)[..]);
    // Each record of each epoch draws its own.
    assert_eq!(whole.iter().map(|r| r.2).collect::<HashSet<_>>().len(), 24);
}
