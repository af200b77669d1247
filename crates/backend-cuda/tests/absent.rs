//! What a machine without a card, a driver, a compiler or a library is told. Which libraries a process finds is settled once, so
//! each case is a process of its own: this program, started again.
mod common;

use adamant_backend_cuda::CudaBackend;
use adamant_core::{Device, ErrorKind, Tensor};
use adamant_cuda_emulator::{Emulator, Options};
use std::{env, process::Command};

const CASE: &str = "ADAMANT_CUDA_TEST_CASE";

/// Runs a case as a process with these variables; what it says, and whether it ended well.
fn case(name: &str, set: &[(&str, &str)], unset: &[&str]) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "in_a_process_of_its_own", "--nocapture", "--test-threads=1"]).env(CASE, name);
    command.envs(set.iter().copied());
    for name in unset {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}
/// What a case does: opens the device, and says the error or what it computes.
#[test]
fn in_a_process_of_its_own() {
    let Ok(name) = env::var(CASE) else { return };
    let install = |options: Options| Emulator::install(options).map(Some).map_err(|e| println!("SKIPPED: {e}"));
    let emulator = match &name[..] {
        "no driver" | "real" => Ok(None),
        "old driver" => install(Options { missing: vec!["cuEventElapsedTime_v2".into()], ..Options::default() }),
        "no card" => install(Options { devices: 0, ..Options::default() }),
        "no products" => install(Options { cublaslt: false, ..Options::default() }),
        _ => install(Options::default()),
    };
    let Ok(emulator) = emulator else { return };
    if let (Some(emulator), "mismatch") = (emulator, &name[..]) {
        emulator.plant("cuInit", 1, 803);
    }
    let number = if name == "number 7" { 7 } else { 0 };
    match CudaBackend::builder().device(number).cache(None).build() {
        Ok(backend) => {
            let device = Device::from_backend(Box::new(backend));
            device.info().details.iter().for_each(|(what, value)| println!("{what}: {value}"));
            let squares = device
                .scoped(|| Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2]).matmul(&Tensor::from_vec(vec![1f32, 0.0, 0.0, 2.0], [2, 2])).to_vec::<f32>());
            println!("computed {squares:?}");
        }
        Err(ErrorKind::DeviceAbsent(why)) => println!("absent: {why}"),
        Err(e) => panic!("{e:?}"),
    }
}
/// Is there a compiler on this machine? Without one every case ends at it.
fn has_compiler() -> bool {
    let (ended, said) = case("whole", &[], &[]);
    assert!(ended, "{said}");
    let has = said.contains("computed Ok([1.0, 4.0, 3.0, 8.0])");
    assert!(has || said.contains("absent: ") || said.contains("SKIPPED"), "{said}");
    if !has {
        common::skipped("no NVRTC, or no place for the emulator");
    }
    has
}
#[test]
fn each_thing_that_is_missing_is_named_with_what_to_install() {
    let (ended, said) = case("no driver", &[], &[]);
    let has_card = said.contains("computed");
    assert!(ended && (has_card || said.contains("no CUDA driver") && said.contains("driver of an NVIDIA card")), "{said}");
    if !has_compiler() {
        return;
    }
    for (name, parts) in [
        ("old driver", &["too old", "cuEventElapsedTime_v2", "13.0"][..]),
        ("no card", &["finds no card"]),
        ("number 7", &["number 7", "0: NVIDIA H100"]),
        ("mismatch", &["803", "different versions"]),
    ] {
        let (ended, said) = case(name, &[], &[]);
        assert!(ended && said.contains("absent: ") && parts.iter().all(|p| said.contains(p)), "{name}: {said}");
    }
    let nowhere = [("VIRTUAL_ENV", "/nonexistent"), ("ADAMANT_CUDA_PATH", "/nonexistent")];
    let (ended, said) = case("no compiler", &nowhere, &["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH"]);
    let named = said.contains("pip install nvidia-cuda-nvrtc") && said.contains("ADAMANT_CUDA_PATH");
    assert!(ended && (said.contains("computed") || named), "{said}");
}
#[test]
fn without_the_library_of_products_our_kernels_multiply() {
    if !has_compiler() {
        return;
    }
    let (ended, said) = case("no products", &[], &[]);
    assert!(
        ended && said.contains("products: own kernels (no libcublasLt") && said.contains("nvidia-cublas") && said.contains("computed Ok([1.0, 4.0, 3.0, 8.0])"),
        "{said}"
    );
}
/// A compiler without its builtins beside it is said to be half installed.
#[test]
fn a_compiler_without_its_builtins_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libnvrtc.so.13"), b"").unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    let (ended, said) = case("no builtins", &[("ADAMANT_CUDA_PATH", &path)], &[]);
    assert!(ended && (said.contains("libnvrtc-builtins is not") || said.contains("SKIPPED")), "{said}");
}
