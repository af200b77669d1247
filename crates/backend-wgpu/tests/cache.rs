//! Compiled pipelines on disk: a device that opens again reads what the one before it wrote, and nothing that is wrong with
//! the file is an error. Where the machine has no adapter the tests say so and check nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Device, Tensor};
use common::device_of;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// What the device says of its pipelines on disk.
fn told(device: Device) -> String {
    device.info().details.iter().find(|d| d.0 == "pipelines on disk").unwrap().1.clone()
}
fn opened(directory: Option<&Path>) -> Option<Device> {
    device_of(WgpuBackend::open_with_cache(0, directory.map(PathBuf::from)))
}
fn computes(device: Device) {
    device.scoped(|| {
        let x = Tensor::from_vec((0..64).map(|k| k as f32).collect(), [8, 8]);
        assert_eq!(x.matmul(&x).sum(..).item::<f32>().unwrap(), 529_536.0);
    });
}
/// The only file of a directory.
fn file_of(directory: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}
#[test]
fn a_device_reads_what_the_one_before_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("made/here");
    let Some(first) = opened(Some(&directory)) else { return };
    computes(first);
    if told(first).starts_with("none") {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {}", told(first));
        assert!(!directory.exists());
        return;
    }
    assert!(told(first).starts_with("new"), "{}", told(first));
    let file = file_of(&directory);
    #[cfg(unix)]
    for (path, mode) in [(&directory, 0o700), (&file, 0o600)] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    let whole = fs::read(&file).unwrap();
    let again = opened(Some(&directory)).unwrap();
    assert!(told(again).contains("bytes of"), "{}", told(again));
    computes(again);

    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut foreign = whole.clone();
    foreign[20] ^= 1;
    for (name, bytes) in [("cut off", &whole[..whole.len() / 2]), ("damaged", &flipped), ("driver", &foreign), ("kind", &[1; 4096]), ("cut off", &[])] {
        fs::write(&file, bytes).unwrap();
        let device = opened(Some(&directory)).unwrap();
        assert!(told(device).starts_with("new"), "{name}: {}", told(device));
        computes(device);
        assert!(told(opened(Some(&directory)).unwrap()).contains("bytes of"), "{name}: the file was not replaced");
    }
}
#[test]
fn a_directory_that_cannot_be_had_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("a file");
    fs::write(&taken, b"").unwrap();
    let mut refused = vec![None, Some(taken.clone()), Some(taken.join("below"))];
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let public = folder.path().join("public");
        fs::create_dir(&public).unwrap();
        fs::set_permissions(&public, fs::Permissions::from_mode(0o777)).unwrap();
        refused.push(Some(public));
    }
    for directory in refused {
        let Some(device) = opened(directory.as_deref()) else { return };
        assert!(told(device).starts_with("none"), "{directory:?}: {}", told(device));
        computes(device);
    }
    assert!(fs::read(&taken).unwrap().is_empty());
}
