//! The self-test against stand-ins that compute wrongly: what differs is off and named, and results are right without it.
mod common;

use adamant_backend_cuda::{CudaBackend, CudaMemoryPool};
use adamant_core::{DType, Device, Tensor};
use adamant_cuda_emulator::{EmulatedFault, Emulator, Options};
use common::{fast, multiplied::check};
use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;

/// The emulator is one for all tests of a process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
/// A device whose fast paths were looked at, all of which are asked for.
fn tested(cache: Option<PathBuf>) -> Option<Device> {
    common::opened(Options::default(), |b| b.self_test(true).tf32(true).memory_pool(CudaMemoryPool::On).cache(cache))
}
fn told(device: Device, what: &str) -> String {
    device.info().details.iter().find(|(name, _)| *name == what).map(|(_, told)| told.clone()).unwrap_or_default()
}
/// What the matrix unit does beside products, a chain over memory that is handed on, and what graphs do, each where that could be wrong.
fn other_results_are_right(device: Device, of_units: bool, of_pages: bool, of_graphs: bool) {
    if of_pages {
        let cubes = device.scoped(|| {
            let x = Tensor::from_vec((0..1_500_000).map(|k| (k % 50) as f32).collect(), [1_500_000]);
            let squares = &x * &x;
            let cubes = &squares * x;
            cubes.to_vec::<f32>()
        });
        assert!(cubes.unwrap().iter().enumerate().all(|(k, v)| *v == ((k % 50) as f32).powi(3)));
    }
    if of_units {
        fast::attention(device);
        fast::convolution(device);
    }
    if of_graphs {
        fast::replayed(device);
    }
    let replays = device.counters().into_iter().find(|c| c.0 == "replays").map_or(0, |c| c.1);
    assert_eq!(replays > 0, of_graphs && !told(device, "self-test").contains("graphs off"), "{replays} replays");
}
/// Small products and epilogues, near the host.
fn results_are_right(device: Device, with_tf32: bool) {
    for seed in 0..2 {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            // Sixteenths have few digits: TF32 is exact for them, too.
            check(device, dtype, seed % 2 == 0, seed);
        }
    }
    // With all digits: TF32 or f32?
    let (error, ..) = product_error(device);
    assert_eq!(error > 1e-5, with_tf32, "an error of {error}");
    assert!(error < 2e-3, "{error}");
}
/// The largest error of a product of f32, relative to the sum of magnitudes.
fn product_error(device: Device) -> (f64, usize) {
    let n = 48;
    let numbers = |salt: usize| -> Vec<f32> { (0..n * n).map(|k| ((k * 7919 + salt) % 10_007) as f32 / 10_007.0 - 0.5).collect() };
    let (a, b) = (numbers(1), numbers(5));
    let got = device.scoped(|| Tensor::from_vec(a.clone(), [n, n]).matmul(Tensor::from_vec(b.clone(), [n, n])).to_vec::<f32>()).unwrap();
    let error = |k: usize| {
        let terms = (0..n).map(|i| f64::from(a[k / n * n + i]) * f64::from(b[i * n + k % n]));
        let (sum, all) = terms.fold((0.0, 0.0), |(sum, all), t| (sum + t, all + t.abs()));
        (f64::from(got[k]) - sum).abs() / all
    };
    ((0..n * n).map(error).fold(0.0, f64::max), n)
}
#[test]
fn what_computes_wrongly_is_off_and_results_are_right() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let cache = || Some(folder.path().to_path_buf());
    // Kernels are kept, by far the larger files; outcomes are not.
    let forget = || {
        for file in std::fs::read_dir(folder.path().join("cuda")).into_iter().flatten().flatten() {
            if file.metadata().is_ok_and(|m| m.len() < 2048) {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
    };
    let Some(device) = tested(cache()) else { return };
    assert_eq!(told(device, "self-test"), "passed");
    results_are_right(device, true);
    other_results_are_right(device, true, true, true);
    let emulator = Emulator::installed().unwrap();
    use EmulatedFault::{Epilogue, Matrices, Page, Product, StaleGraph, Tf32};
    const UNITS: [&str; 3] = ["products of tensor cores off: a product of f16 is", "attention of tensor cores off: ", "convolutions of tensor cores off: "];
    const EPILOGUES: [&str; 4] = [
        "biases of cuBLASLt off: a product of f16 with a bias is",
        "; ReLU of cuBLASLt off: a product of f16 with ReLU is",
        "; GELU of cuBLASLt off: a product of f16 with GELU is",
        "; GELU of f32 of cuBLASLt off: a product of f32 with GELU is",
    ];
    for (wrong, off) in [
        (&[Product][..], &["products of cuBLASLt off: a product of f16 is"][..]),
        (&[Tf32], &["TF32 off: a product of f32 is"]),
        (&[Epilogue], &EPILOGUES),
        (&[Matrices], &UNITS),
        (&[Page], &["mapped pages off: a page reads 0x"]),
        (&[StaleGraph], &["graphs off: replay 1 gives"]),
        (&[Product, Epilogue, Matrices, Page, StaleGraph, Tf32], &["products of cuBLASLt off", UNITS[0], UNITS[1], UNITS[2], "mapped pages off", "graphs off"]),
    ] {
        emulator.set_wrong(wrong);
        forget();
        let device = tested(cache()).unwrap();
        let said = told(device, "self-test");
        assert!(off.iter().all(|o| said.contains(o)) && said.matches(" off: ").count() == off.len(), "{wrong:?}: {said}");
        assert_eq!(told(device, "pages").starts_with("mapped"), !wrong.contains(&Page));
        results_are_right(device, !wrong.contains(&Tf32) && !wrong.contains(&Product));
        other_results_are_right(device, wrong.contains(&Matrices), wrong.contains(&Page), wrong.contains(&StaleGraph));
        // Without the self-test it would not have been noticed.
        let unlooked = common::opened(Options::default(), |b| b.tf32(true).memory_pool(CudaMemoryPool::On).cache(cache())).unwrap();
        assert_eq!(told(unlooked, "self-test"), "none");
        emulator.set_wrong(&[]);
    }
}
#[test]
fn a_path_that_takes_the_card_with_it_is_off() {
    let _alone = alone();
    if tested(None).is_none() {
        return;
    }
    let emulator = Emulator::installed().unwrap();
    emulator.plant_in_kernel(1, 716);
    let device = tested(None).unwrap();
    let said = told(device, "self-test");
    assert!(said.starts_with("products of tensor cores off: it ends in ") && said.contains("716") && said.matches(" off: ").count() == 1, "{said}");
    results_are_right(device, true);
}
#[test]
fn the_outcome_is_kept_until_something_changes() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let cache = || Some(folder.path().to_path_buf());
    let Some(first) = tested(cache()) else { return };
    let emulator = Emulator::installed().unwrap();
    let products = || emulator.counts().get("cublasLtMatmul").copied().unwrap_or(0);
    assert_eq!(told(first, "self-test"), "passed");
    // Kept: nothing is looked at, right or wrong.
    let before = products();
    emulator.set_wrong(&[EmulatedFault::Product]);
    assert_eq!(told(tested(cache()).unwrap(), "self-test"), "passed");
    assert_eq!(products(), before);
    // Other options are looked at for themselves.
    let other = CudaBackend::builder().cache(cache()).build().unwrap();
    assert!(products() > before);
    let other = Device::from_backend(Box::new(other));
    assert!(told(other, "self-test").starts_with("products of cuBLASLt off"));
    emulator.set_wrong(&[]);
    // What is off stays off.
    let again = CudaBackend::builder().cache(cache()).build().unwrap();
    assert!(told(Device::from_backend(Box::new(again)), "self-test").starts_with("products of cuBLASLt off"));
    // A damaged file is as good as none.
    let before = products();
    for file in std::fs::read_dir(folder.path().join("cuda")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let again = CudaBackend::builder().cache(cache()).build().unwrap();
    assert_eq!(told(Device::from_backend(Box::new(again)), "self-test"), "passed");
    assert!(products() > before);
}
