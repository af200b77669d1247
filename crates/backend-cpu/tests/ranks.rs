//! Ranks as threads on this backend and on a late device with its kernels: every rank gets what all put in; a collective begins as
//! soon as its input is ready, and the device goes on meanwhile.
use adamant_backend_cpu::CpuBackend;
use adamant_conformance::{
    late::{self, Options},
    ranks,
};
use adamant_core::{Device, backend::Backend};

fn backend() -> Box<dyn Backend> {
    Box::new(CpuBackend::builder().threads(1).build().unwrap())
}
const DEVICES: [(&str, fn(u64) -> Device); 2] =
    [("cpu", |_| Device::from_backend(backend())), ("late", |seed| late::device(backend(), Options { seed, in_place: Some(seed % 2 == 0) }))];

#[test]
fn every_rank_gets_what_all_put_in() {
    for (name, open) in DEVICES {
        for seed in 1000..1040 {
            ranks::program(seed, &|rank| Ok(open(seed * 8 + rank as u64)), &|f| f()).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}
#[test]
fn ranks_exchange_while_the_device_goes_on() {
    for (name, open) in DEVICES {
        ranks::overlap(open(1)).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
