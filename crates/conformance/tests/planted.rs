//! Faults planted into the scheduler are found: a test of the fuzzer.
#![cfg(feature = "planted-faults")]
use adamant_conformance::{fuzz, plain, torture::sharing};
use adamant_core::planted::{Plant, with};

#[test]
fn every_planted_fault_is_found_within_2000_graphs() {
    for plant in Plant::ALL {
        // A device of its own: plans made under one fault must not serve another.
        let device = plain::device(2048, usize::MAX);
        let report = with(plant, || fuzz::run(device, &fuzz::Options { n: 2000, seed: 1, failures: 1, shrink: false }));
        match report.failures.first() {
            Some(f) => println!("{plant:?}: graph {}: {}", f.index + 1, f.what),
            None => panic!("{plant:?} was not found in 2000 graphs"),
        }
    }
}
#[test]
fn every_fault_planted_where_threads_share_is_found() {
    for plant in Plant::OF_THREADS {
        let device = plain::device(2048, usize::MAX);
        let around: sharing::Around = std::sync::Arc::new(move |f| with(plant, f));
        match (0..3000).find_map(|k| sharing::case(device, k, &around).err()) {
            Some(why) => println!("{plant:?}: {}", why.split(';').next().unwrap_or_default()),
            None => panic!("{plant:?} was not found in 3000 programs"),
        }
    }
}
