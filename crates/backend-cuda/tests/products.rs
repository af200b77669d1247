//! Products by the library on the emulator, and where it offers nothing, or what fails when it is run: then by what it offered next,
//! and by our kernels where nothing is left.
mod common;

use adamant_core::{DType, Tensor};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use common::multiplied::check;
use parking_lot::{Mutex, MutexGuard};

/// The emulator is one for all tests of a process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
fn products(emulator: &Emulator) -> u64 {
    emulator.counts().get("cublasLtMatmul").copied().unwrap_or(0)
}
fn nothing_was_found(emulator: &Emulator) {
    let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
#[test]
fn products_of_the_library_and_in_its_place_are_near_the_host() {
    let _alone = alone();
    let Some(device) = common::device(Options { seed: 5, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    for stubborn in [false, true] {
        emulator.set_stubborn(stubborn);
        for seed in 0..24 {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                check(device, dtype, seed % 3 == 0, seed + 100 * u64::from(stubborn));
            }
        }
    }
    emulator.set_stubborn(false);
    assert!(products(emulator) > 50);
    nothing_was_found(emulator);
}
#[test]
fn a_way_that_failed_is_not_taken_again() {
    let _alone = alone();
    let Some(device) = common::device(Options { seed: 5, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    let n = 32;
    let numbers: Vec<f32> = (0..n * n).map(|k| (k % 17) as f32 - 8.0).collect();
    let expected: Vec<f32> = (0..n * n).map(|at| (0..n).map(|k| numbers[at / n * n + k] * numbers[k * n + at % n]).sum::<f32>().max(0.0)).collect();
    // The calls of the library that a product takes, of which so many fail.
    let calls = |fail: u64| {
        (0..fail).for_each(|_| emulator.plant("cublasLtMatmul", 1, 13));
        let before = products(emulator);
        let x = || Tensor::from_vec(numbers.clone(), [n, n]);
        // A product that is held would have to be stored, too.
        let ended = || x().matmul(x()).relu();
        let ended = device.scoped(|| {
            let ended = ended();
            ended.to_vec::<f32>()
        });
        assert_eq!(ended.unwrap(), expected);
        products(emulator) - before
    };
    // The emulator offers four ways for what is aligned: three fail, then the last, too. Sums alone are another product of the
    // library's, whose four ways fail at once.
    assert_eq!([calls(0), calls(3), calls(0), calls(1), calls(0), calls(4), calls(0)], [1, 4, 1, 1, 1, 4, 0]);
    nothing_was_found(emulator);
}
