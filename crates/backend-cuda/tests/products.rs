//! Products by the library on the emulator, and where it offers nothing, or what fails when it is run: then by our kernels.
mod common;

use adamant_core::DType;
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use common::multiplied::check;

#[test]
fn products_of_the_library_and_in_its_place_are_near_the_host() {
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
    assert!(emulator.counts().get("cublasLtMatmul").is_some_and(|n| *n > 50));
    let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
