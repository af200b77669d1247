//! Devices that are not there or go away: the program says which and why, ends with 9 and does not panic.
use super::{adamant, command, err, folder};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use std::io::Write;
#[cfg(feature = "cuda")]
use std::path::Path;
use std::{fs, process::Output};

/// What each verb that runs on a device says where this one is not there.
fn without(device: &str) -> Vec<(String, Output)> {
    const VERBS: [&[&str]; 10] = [
        &["train", "run.toml"],
        &["bench", "speed"],
        &["bench", "run.toml"],
        &["eval", "run"],
        &["predict", "run", "points.csv"],
        &["generate", "run"],
        &["prune", "run", "--method", "magnitude", "--amount", "0.5", "--out", "pruned"],
        &["quantize", "run", "--scheme", "w8", "--out", "codes"],
        &["summary", "run.toml", "--measure"],
        &["plan", "run.toml", "--ranks", "2", "--measure"],
    ];
    let folder = folder();
    assert!(adamant(folder.path(), &["train", "run.toml", "--run", "run"]).status.success());
    let told = |verb: &&[&str]| (verb.join(" "), command(folder.path(), verb).args(["--device", device]).output().unwrap());
    let told = VERBS.iter().filter(|verb| cfg!(feature = "profiling") || !["bench", "summary"].contains(&verb[0])).map(told).collect();
    for made in ["pruned", "codes"] {
        assert!(fs::read_dir(folder.path().join(made)).is_err(), "{made} was begun");
    }
    told
}
#[test]
fn a_backend_that_is_not_compiled_in_is_named_with_its_feature() {
    for device in [(!cfg!(feature = "wgpu")).then_some("wgpu"), (!cfg!(feature = "cuda")).then_some("cuda")].into_iter().flatten() {
        for (verb, output) in without(device) {
            let said = err(&output);
            assert_eq!(output.status.code(), Some(9), "{verb}: {said}");
            let names = said.contains(&format!(r#"adamant = {{ features = ["{device}"] }}"#));
            assert!(names && !said.contains("panicked"), "{verb}: {said}");
        }
    }
}
/// What is missing is named.
#[cfg(feature = "cuda")]
#[test]
fn a_machine_without_a_driver() {
    if Path::new("/dev/nvidiactl").exists() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is a card here");
        return;
    }
    for (verb, output) in without("cuda:0") {
        let said = err(&output);
        assert_eq!(output.status.code(), Some(9), "{verb}: {said}");
        assert!(said.contains("libcuda") && !said.contains("panicked"), "{verb}: {said}");
    }
}
#[cfg(feature = "wgpu")]
#[test]
fn a_machine_without_an_adapter() {
    let folder = folder();
    // The loader of Vulkan finds no driver.
    let output =
        command(folder.path(), &["train", "run.toml", "--device", "wgpu"]).env("VK_ICD_FILENAMES", "/dev/null").env("VK_DRIVER_FILES", "/dev/null").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", err(&output));
    assert!(err(&output).contains("wgpu finds no adapter") && !err(&output).contains("panicked"), "{}", err(&output));
}
#[cfg(feature = "wgpu")]
#[test]
fn a_device_that_is_lost_while_a_model_trains() {
    use adamant::{Device, wgpu::WgpuBackend};
    use adamant_train::{Document, Run, Watch};

    /// Destroys the device after two steps.
    struct Destroys(Device);
    impl Watch for Destroys {
        fn step(&mut self, step: u64) {
            if step == 2 {
                self.0.backend().downcast::<WgpuBackend>().unwrap().destroy();
            }
        }
    }
    let device = match WgpuBackend::open(0) {
        Ok(backend) => Device::from_backend(Box::new(backend)),
        Err(adamant::ErrorKind::DeviceAbsent(why)) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
            return;
        }
        Err(e) => panic!("{e:?}"),
    };
    let folder = folder();
    let document = Document::read(&folder.path().join("run.toml")).unwrap();
    let run = Run::new(&document).data(folder.path()).folder(folder.path().join("run"));
    let failure = device.scoped(|| run.train(&mut Destroys(device))).unwrap_err();
    assert_eq!((failure.exit_code(), failure.kind()), (9, "device"), "{failure}");
    assert!(failure.to_string().contains("device lost: it was destroyed"), "{failure}");
}
