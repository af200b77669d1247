//! The late device with the plain loops inside: nothing that the runtime does on it is a misuse, and each mistake it could
//! make is found.
use adamant_conformance::{
    late::{
        Options,
        planted::{PLANTS, complaint},
    },
    plain,
};

fn options(seed: u64) -> Options {
    Options { seed, in_place: Some(seed % 2 == 0) }
}
#[test]
fn without_a_mistake_nothing_is_found() {
    for seed in 0..12 {
        assert_eq!(complaint(plain::backend(2048, usize::MAX), options(seed), None), None, "seed {seed}");
    }
}
#[test]
fn every_mistake_is_found() {
    for plant in PLANTS {
        let found = (0..8).find_map(|seed| complaint(plain::backend(2048, usize::MAX), options(seed), Some(plant)).map(|why| (seed, why)));
        match found {
            Some((seed, why)) => println!("{plant:?}, seed {seed}: {why}"),
            None => panic!("{plant:?} was not found"),
        }
    }
}
