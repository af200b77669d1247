//! Shared objects under the driver's names, written and opened here, so that whoever opens those names finds this crate.
//!
//! An object that is already open is found again by its SONAME, whatever its path was: so a stand-in is written to a folder
//! of its own, opened by path, and the folder removed. A name that is tried without its version (`libcuda.so`) gets an
//! object of its own, or a machine's real library would be found under it.
//!
//! Must not know: what the functions do.
#![allow(unsafe_code, reason = "opens an object that was written here, and fills its table")]

mod elf;

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The symbol under which an object keeps the addresses that its functions jump to.
const TABLE: &str = "adamant_table";

/// One library: the names it is opened by, and its functions.
pub(crate) struct StandIn {
    /// SONAMEs; for each an object of its own is written.
    pub sonames: &'static [&'static str],
    /// Exported names and what they jump to.
    pub functions: Vec<(&'static str, *const c_void)>,
}
/// Why there is no emulated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallError {
    /// No profile has this name; the known ones follow.
    UnknownProfile(String, Vec<&'static str>),
    /// Objects are written for Linux on x86-64 alone.
    UnknownPlatform,
    /// An object could not be written there.
    Write(PathBuf, String),
    /// An object could not be opened.
    Open(PathBuf, String),
    /// A library of this name was open before: what opened it would go on calling it.
    AlreadyOpen(String),
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InstallError::UnknownProfile(name, known) => write!(f, "no profile is called `{name}`; known are {}", known.join(", ")),
            InstallError::UnknownPlatform => write!(f, "the emulator stands in for CUDA's libraries on Linux on x86-64 alone"),
            InstallError::Write(path, why) => write!(f, "cannot write {}: {why}; TMPDIR names another folder", path.display()),
            InstallError::Open(path, why) => write!(f, "cannot open {}: {why}; TMPDIR names a folder that programs may be mapped from", path.display()),
            InstallError::AlreadyOpen(name) => write!(f, "{name} is open already; install the emulator before anything asks for a CUDA device"),
        }
    }
}
impl std::error::Error for InstallError {}

/// A folder that goes with its value.
struct OwnFolder(PathBuf);

impl OwnFolder {
    /// A fresh folder of this process.
    fn new() -> Result<OwnFolder, InstallError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut last = None;
        for _ in 0..64 {
            let name = format!("cuda-emulator-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(OwnFolder(path)),
                Err(why) => last = Some((path, why)),
            }
        }
        let (path, why) = last.map_or_else(|| (std::env::temp_dir(), String::new()), |(p, why)| (p, why.to_string()));
        Err(InstallError::Write(path, why))
    }
}
impl Drop for OwnFolder {
    fn drop(&mut self) {
        // What cannot be removed is a few kilobytes in a temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes and opens the stand-ins; from then on their names lead here, until the process ends.
pub(crate) fn stand_in(libraries: &[StandIn]) -> Result<(), InstallError> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(InstallError::UnknownPlatform);
    }
    if let Some(open) = libraries.iter().flat_map(|l| l.sonames).find(|n| is_open(n)) {
        return Err(InstallError::AlreadyOpen((*open).into()));
    }
    let folder = OwnFolder::new()?;
    for library in libraries {
        for soname in library.sonames {
            let names: Vec<&str> = library.functions.iter().map(|(name, _)| *name).collect();
            let path = folder.0.join(soname);
            std::fs::write(&path, elf::shared_object(soname, &names, TABLE)).map_err(|why| InstallError::Write(path.clone(), why.to_string()))?;
            open(&path, &library.functions)?;
        }
    }
    Ok(())
}

/// Is a library of this name open in the process?
#[cfg(unix)]
fn is_open(soname: &str) -> bool {
    /// glibc's flag that opens nothing that is not open.
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: nothing is loaded, so no code of a library runs.
    unsafe { libloading::os::unix::Library::open(Some(soname), libloading::os::unix::RTLD_LAZY | RTLD_NOLOAD) }.is_ok()
}
/// Opens an object and fills its table.
#[cfg(unix)]
fn open(path: &Path, functions: &[(&'static str, *const c_void)]) -> Result<(), InstallError> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let failed = |why: libloading::Error| InstallError::Open(path.to_path_buf(), why.to_string());
    // SAFETY: the object was written above: it has no initialisers, and its functions jump through the table filled below.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(failed)?;
    // SAFETY: the symbol is the object's table, a word for each function.
    let table = unsafe { library.get::<*mut *const c_void>(TABLE.as_bytes()) }.map_err(failed)?;
    for (k, (_, function)) in functions.iter().enumerate() {
        // SAFETY: the table has as many words as there are functions and lies in memory that may be written.
        unsafe { (*table).add(k).write(*function) };
    }
    // Who found it keeps it: it stays open until the process ends.
    std::mem::forget(library);
    Ok(())
}
#[cfg(not(unix))]
fn is_open(_soname: &str) -> bool {
    false
}
#[cfg(not(unix))]
fn open(_path: &Path, _functions: &[(&'static str, *const c_void)]) -> Result<(), InstallError> {
    Err(InstallError::UnknownPlatform)
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    extern "C" fn twice(x: u64) -> u64 {
        2 * x
    }
    extern "C" fn sum(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64) -> u64 {
        a + 10 * b + 100 * c + 1000 * d + 10_000 * e + 100_000 * f + 1_000_000 * g + 10_000_000 * h
    }
    #[test]
    fn what_is_opened_by_name_leads_here_and_is_not_stood_in_for_twice() {
        let stand_ins = || {
            [StandIn {
                sonames: &["libstand-in-a.so.1", "libstand-in-a.so"],
                functions: vec![("twice", twice as *const c_void), ("sum", sum as *const c_void)],
            }]
        };
        stand_in(&stand_ins()).unwrap();
        for name in ["libstand-in-a.so", "libstand-in-a.so.1"] {
            // SAFETY: the objects were written above, and the functions have these types.
            unsafe {
                let library = libloading::Library::new(name).unwrap();
                assert_eq!(library.get::<extern "C" fn(u64) -> u64>(b"twice").unwrap()(21), 42);
                let sum = library.get::<extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u64>(b"sum").unwrap();
                assert_eq!(sum(1, 2, 3, 4, 5, 6, 7, 8), 87_654_321, "arguments on the stack, too");
                assert!(library.get::<extern "C" fn()>(b"thrice").is_err());
            }
        }
        assert_eq!(stand_in(&stand_ins()), Err(InstallError::AlreadyOpen("libstand-in-a.so.1".into())));
        let left = std::fs::read_dir(std::env::temp_dir())
            .unwrap()
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().starts_with(&format!("cuda-emulator-{}-", std::process::id())));
        assert_eq!(left.count(), 0, "the folder is removed");
    }
}
