//! Devices that are not there or go away: the program says which and why, ends with 9 and does not panic.
#[cfg(not(feature = "wgpu"))]
use super::adamant;
#[cfg(feature = "wgpu")]
use super::command;
use super::{err, folder};
#[cfg(feature = "wgpu")]
use std::io::Write;

#[cfg(not(feature = "wgpu"))]
#[test]
fn a_backend_that_is_not_compiled_in_is_named_with_its_feature() {
    let folder = folder();
    let output = adamant(folder.path(), &["train", "run.toml", "--device", "wgpu"]);
    assert_eq!(output.status.code(), Some(9), "{}", err(&output));
    assert!(err(&output).contains(r#"adamant = { features = ["wgpu"] }"#), "{}", err(&output));
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
