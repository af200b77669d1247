//! Runs that ranks share end in the same bits on any number of ranks; what ranks cannot share is refused, and a rank that fails tells
//! the others.
#![allow(clippy::unwrap_used)]

mod ranked;
mod schedules;

use adamant_backend_cpu as _;
use adamant_conformance::ranks::group_of;
use adamant_core::Device;
use adamant_train::{Document, Failure, OPTIMIZERS, Run, SCHEDULES};
use ranked::train;
use std::{fs, path::Path, sync::Arc};

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    ["weights.safetensors", "metrics.jsonl"].map(|name| (name.to_string(), fs::read(folder.join(name)).unwrap())).to_vec()
}
/// Every optimizer, schedule, kind of clipping, running mean, accumulation; with batch norms and dropout in some.
#[test]
fn bits_that_depend_on_the_number_of_ranks() {
    let place = tempfile::tempdir().unwrap();
    for k in 0..OPTIMIZERS.len().max(SCHEDULES.len()) {
        let text = schedules::drawn_run(k);
        // A part of one row has no variance: norms get parts of two rows at least, the others some that are empty.
        let shards = if text.contains("BatchNorm") { 3 } else { [3, 5, 9][k % 3] };
        let set =
            |capture: bool, bucket: &str| vec![format!("distributed.shards={shards}"), format!("capture={capture}"), format!("distributed.bucket_mb={bucket}")];
        let at = |name: &str| place.path().join(format!("{k}-{name}"));
        let end = |name: &str, ranks: usize, set: &[String]| {
            for (rank, done) in train(&text, ranks, set, &at(name), None).into_iter().enumerate() {
                done.unwrap_or_else(|e| panic!("rank {rank} of {ranks}: {e}\n{text}"));
            }
            files(&at(name))
        };
        let alone = end("alone", 1, &set(true, "25"));
        assert!(alone == end("plain", 1, &set(false, "25")), "op by op, of\n{text}");
        // As many ranks as shards: some have no rows at all.
        for ranks in [2, 3, shards] {
            let set = [set(k % 2 == 0, "1"), vec![format!("distributed.overlap={}", ranks != 3)]].concat();
            assert!(alone == end(&format!("on {ranks}"), ranks, &set), "{ranks} ranks, of\n{text}");
        }
        // Stopped by the last of three ranks, then of two; ended by one.
        for (ranks, stop) in [(3, 2), (2, 5)] {
            let ended = train(&text, ranks, &set(true, "25"), &at("stopped"), Some(stop));
            let all = ended.iter().all(|done| matches!(done, Err(Failure::Interrupted { signal: 15, step, .. }) if *step == stop));
            assert!(all, "{:?}\n{text}", ended.into_iter().map(Result::err).collect::<Vec<_>>());
        }
        let ended = end("stopped", 1, &["distributed.bucket_mb=25".into()]);
        assert!(ended.iter().zip(&alone).all(|(a, b)| a == b), "stopped on 3 and on 2 ranks, ended on 1, of\n{text}");
    }
}
#[test]
fn what_ranks_cannot_share() {
    let place = tempfile::tempdir().unwrap();
    let text = schedules::drawn_run(0);
    for (set, ranks, told) in [
        (vec!["distributed.shards=2"], 3, "2 shards on 3 ranks"),
        (vec!["distributed.mode=none"], 2, "`mode` is \"none\", and 2 ranks were started"),
        (vec!["distributed.mode=distributed"], 1, "one rank was started"),
        (vec!["stability.look_every=2"], 2, "look_every"),
        (vec!["distributed.shards=0"], 1, "it is 1 at least"),
        (vec!["distributed.overlap=false", "distributed.zero=3"], 1, "`zero = 3` gradients travel block by block"),
        (vec!["distributed.mode=ring"], 1, "there are auto, none, distributed"),
        (vec!["distributed.timeout=0"], 2, "a number of seconds"),
        (vec!["distributed.shard=2"], 1, "unknown key `distributed.shard`"),
    ] {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        for done in train(&text, ranks, &set, &place.path().join("refused"), None) {
            let error = done.unwrap_err();
            assert!(error.to_string().contains(told), "{set:?}: {error}");
            assert!([2, 4].contains(&error.exit_code()), "{error}");
        }
    }
}
/// One rank begins with other data of its own: all hear of it, and nobody goes on.
#[test]
fn ranks_that_begin_unlike() {
    let place = tempfile::tempdir().unwrap();
    for (other, told) in [("optimizer.lr=0.5", "another description"), ("seed=77", "another description")] {
        let groups = group_of(3);
        let ended: Vec<Failure> = std::thread::scope(|scope| {
            let run = |(rank, group): (usize, Arc<_>)| {
                let folder = place.path().join("unlike");
                scope.spawn(move || {
                    let mut document = Document::parse("run.toml", &schedules::drawn_run(0)).unwrap();
                    if rank == 2 {
                        document.set(other).unwrap();
                    }
                    Device::cpu().unwrap().scoped(|| Run::new(&document).folder(folder).ranks(group).train(&mut ())).unwrap_err()
                })
            };
            let ranks: Vec<_> = groups.into_iter().enumerate().map(run).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(ended.iter().all(|e| e.to_string().contains(told)), "{ended:?}");
        assert!(ended[0].to_string().contains("rank 0 and rank 2"), "{}", ended[0]);
    }
}
