//! Ranks as threads on the plain backend, on a late one and on the reference: collectives between random kernels give every rank
//! what they are to give. With the feature `planted-faults`: what goes wrong is found.
use adamant_conformance::{
    late::{self, Options},
    plain, ranks,
};
use adamant_core::Device;

/// How a device is opened, by seed.
const DEVICES: [(&str, fn(u64) -> Device); 3] = [
    ("plain", |_| plain::device(2048, usize::MAX)),
    ("late", |seed| late::device(plain::backend(2048, usize::MAX), Options { seed, in_place: Some(seed % 2 == 0) })),
    ("reference", |_| Device::reference()),
];
const SEEDS: u64 = 60;

#[test]
fn every_rank_gets_what_all_put_in() {
    for (name, open) in DEVICES {
        for seed in 0..SEEDS {
            ranks::program(seed, &|rank| Ok(open(seed * 8 + rank as u64)), &|f| f()).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}
#[cfg(feature = "planted-faults")]
#[test]
fn every_planted_fault_is_found() {
    use adamant_core::planted::{Plant, with};
    for plant in [Plant::ExchangeOutOfOrder, Plant::ExchangeNotAwaited] {
        for (name, open) in &DEVICES[..2] {
            match (0..SEEDS).find_map(|seed| ranks::program(seed, &|rank| Ok(open(seed * 8 + rank as u64)), &|f| with(plant, f)).err()) {
                Some(why) => println!("{plant:?} on {name}: {}", why.lines().next().unwrap_or_default()),
                None => panic!("{plant:?} was not found on {name}"),
            }
        }
    }
}
