//! The first steps of the training of examples/digits on this backend: it learns, and every kernel that the scheduler counts
//! went through `submit`. To the end: `cargo run --release -p dummy_backend --example train_digits`.
#[path = "../examples/train_digits/run.rs"]
mod run;

use adamant::{Device, backend::BACKENDS};
use dummy_backend::Dummy;

#[test]
fn the_digits_model_learns_and_every_kernel_was_submitted() {
    // By name, as a program that links this crate finds it.
    assert!(BACKENDS.iter().any(|r| r.name == "dummy"));
    let device: Device = "dummy".parse().unwrap();
    assert_eq!(device, Device::open("dummy", 0).unwrap());
    let submitted = || device.backend().downcast::<Dummy>().unwrap().submitted();
    let before = submitted();
    let outcome = run::train(device, 1, 1, 6, |_, _| ()).unwrap();
    let (first, last) = (outcome.losses[0], outcome.losses[5]);
    // Ten classes and no knowledge: ln 10.
    assert!((first - 10f64.ln()).abs() < 0.2 && last < first - 0.1, "{:?}", outcome.losses);
    // A tenth of the rows is right by chance.
    assert!(outcome.rows == 357 && outcome.right > 70, "{} of {}", outcome.right, outcome.rows);
    assert!(outcome.stats.kernels > 0);
    assert_eq!(submitted() - before, outcome.stats.kernels);
}
