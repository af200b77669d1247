//! What a machine without a card, a driver, a compiler or a library is told. Which libraries a process finds is settled once, so
//! each case is a process of its own: this program, started again.
mod common;

use adamant_backend_cuda::CudaBackend;
use adamant_core::{Device, ErrorKind, Tensor};
use adamant_cuda_emulator::{Emulator, Options};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const CASE: &str = "ADAMANT_CUDA_TEST_CASE";
/// What the stand-ins lack.
const MISSING: &str = "ADAMANT_CUDA_TEST_MISSING";

/// Runs a case as a process with these variables; what it says. It always ends well: no error is a panic.
fn case(name: &str, set: &[(&str, &str)], unset: &[&str]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "in_a_process_of_its_own", "--nocapture", "--test-threads=1"]).env(CASE, name);
    command.envs(set.iter().copied());
    for name in unset {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("panicked"), "{name}: {said}");
    said
}
/// What a case does: opens the device, and says the error or what it computes.
#[test]
fn in_a_process_of_its_own() {
    let Ok(name) = env::var(CASE) else { return };
    let missing: Vec<String> = env::var(MISSING).ok().into_iter().collect();
    let install = |options: Options| Emulator::install(options).map(Some).map_err(|e| println!("SKIPPED: {e}"));
    let emulator = match &name[..] {
        "no driver" | "real" => Ok(None),
        "no card" => install(Options { devices: 0, ..Options::default() }),
        "old card" => install(Options::of("sm_70")),
        "no products" => install(Options { cublaslt: false, ..Options::default() }),
        "no load" => install(Options { nvml: false, ..Options::default() }),
        "no pages" => install(Options { mapping: false, ..Options::default() }),
        _ => install(Options { missing, ..Options::default() }),
    };
    let Ok(emulator) = emulator else { return };
    match (emulator, &name[..]) {
        (Some(emulator), "mismatch") => emulator.plant("cuInit", 1, 803),
        (Some(emulator), "products do not start") => emulator.plant("cublasLtCreate", 1, 1),
        _ => {}
    }
    let number = if name == "number 7" { 7 } else { 0 };
    match CudaBackend::builder().device(number).cache(None).self_test(false).build() {
        Ok(backend) => {
            match backend.load() {
                Ok(load) => println!("load: {load:?}"),
                Err(e) => println!("no load: {e}"),
            }
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
const COMPUTED: &str = "computed Ok([1.0, 4.0, 3.0, 8.0])";

/// Is there a compiler on this machine? Without one every case ends at it.
fn has_compiler() -> bool {
    let said = case("whole", &[], &[]);
    let has = said.contains(COMPUTED);
    assert!(has || said.contains("absent: ") || said.contains("SKIPPED"), "{said}");
    if !has {
        common::skipped("no NVRTC, or no place for the emulator");
    }
    has
}
fn names(said: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| said.contains(part))
}
/// The functions of one of the lists of `libraries.rs`.
fn listed(list: &str) -> Vec<&'static str> {
    let source = include_str!("../src/libraries.rs");
    let rest = source.split(&format!("const {list}: &[&str] = &[")).nth(1).unwrap();
    rest.split("];").next().unwrap().split('"').skip(1).step_by(2).collect()
}
#[test]
fn each_thing_that_is_missing_is_named_with_what_to_install() {
    let said = case("no driver", &[], &[]);
    let has_card = said.contains("computed");
    assert!(has_card || names(&said, &["absent: no CUDA driver", "driver of an NVIDIA card"]), "{said}");
    if !has_compiler() {
        return;
    }
    for (name, parts) in [
        ("no card", &["finds no card"][..]),
        ("number 7", &["number 7", "0: NVIDIA H100"]),
        ("mismatch", &["803", "different versions"]),
        ("old card", &["Tesla V100", "compute capability 7.0", "from 7.5 on"]),
    ] {
        let said = case(name, &[], &[]);
        assert!(said.contains("absent: ") && names(&said, parts), "{name}: {said}");
    }
    let nowhere = [("VIRTUAL_ENV", "/nonexistent"), ("ADAMANT_CUDA_PATH", "/nonexistent")];
    let said = case("no compiler", &nowhere, &["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH"]);
    assert!(said.contains("computed") || names(&said, &["absent: ", "pip install nvidia-cuda-nvrtc", "ADAMANT_CUDA_PATH"]), "{said}");
}
#[test]
fn each_function_that_the_driver_lacks_is_named() {
    if !has_compiler() {
        return;
    }
    let all = listed("DRIVER");
    assert!(all.len() > 30, "{all:?}");
    for symbol in all {
        let said = case("old driver", &[(MISSING, symbol)], &[]);
        assert!(names(&said, &["absent: the CUDA driver is too old", symbol, "CUDA 13.0 or later"]), "{symbol}: {said}");
    }
}
#[test]
fn without_the_library_of_products_our_kernels_multiply() {
    if !has_compiler() {
        return;
    }
    let said = case("no products", &[], &[]);
    assert!(names(&said, &["products: own kernels (no libcublasLt", "nvidia-cublas", COMPUTED]), "{said}");
    let said = case("products do not start", &[], &[]);
    assert!(names(&said, &["products: own kernels (", "cublasLtCreate", COMPUTED]), "{said}");
    let all = listed("PRODUCTS");
    assert!(all.len() > 10, "{all:?}");
    for symbol in all {
        let said = case("old products", &[(MISSING, symbol)], &[]);
        assert!(names(&said, &["products: own kernels (", symbol, COMPUTED]), "{symbol}: {said}");
    }
}
#[test]
fn what_need_not_be_there_is_told_and_nothing_fails() {
    if !has_compiler() {
        return;
    }
    let said = case("whole", &[], &[]);
    assert!(names(&said, &["load: CudaLoad", "power: Some(", "temperature: Some(42)", "pages: mapped, 2 MiB each"]), "{said}");
    let said = case("no load", &[], &[]);
    assert!(names(&said, &["no load: ", "libnvidia-ml.so.1", "driver", COMPUTED]), "{said}");
    let said = case("no power", &[(MISSING, "nvmlDeviceGetPowerUsage")], &[]);
    assert!(names(&said, &["load: CudaLoad", "power: None", "temperature: Some(42)", COMPUTED]), "{said}");
    let said = case("no pages", &[], &[]);
    assert!(names(&said, &["pages: none: this driver maps none", COMPUTED]), "{said}");
}
/// A compiler without its builtins beside it is said to be half installed.
#[test]
fn a_compiler_without_its_builtins_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libnvrtc.so.13"), b"").unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    let said = case("no builtins", &[("ADAMANT_CUDA_PATH", &path)], &[]);
    assert!(names(&said, &["absent: ", "libnvrtc-builtins is not", "nvidia-cuda-nvrtc"]) || said.contains("SKIPPED"), "{said}");
}
/// The folder of the compiler in the Python environment.
fn compiler() -> Option<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> { fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect() };
    let root = PathBuf::from(env::var_os("VIRTUAL_ENV")?).join("lib");
    let packages = inside(&root).into_iter().flat_map(|python| inside(&python.join("site-packages/nvidia")));
    packages.map(|package| package.join("lib")).find(|lib| lib.join("libnvrtc.so.13").is_file())
}
/// A compiler with another name in the place of one of its functions' names.
#[test]
fn each_function_that_the_compiler_lacks_is_named() {
    let Some(from) = compiler().filter(|_| has_compiler()) else { return common::skipped("no NVRTC in a Python environment") };
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(&from).unwrap().flatten().filter(|f| f.file_name().to_string_lossy().contains("builtins.so")) {
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let mut library = fs::read(from.join("libnvrtc.so.13")).unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    for symbol in listed("COMPILER") {
        let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
        let at = library.windows(name.len()).position(|w| w == name).unwrap();
        library[at + 1] = b'm';
        fs::write(folder.path().join("libnvrtc.so.13"), &library).unwrap();
        library[at + 1] = b'n';
        let said = case("old compiler", &[("ADAMANT_CUDA_PATH", &path)], &[]);
        assert!(names(&said, &["absent: ", &format!("has no {symbol}"), "CUDA 13.0 or later"]), "{symbol}: {said}");
    }
}
