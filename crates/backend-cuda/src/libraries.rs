//! Where CUDA's libraries are, and whether all that is called of them is there: `cudarc` ends the program where a library or a
//! symbol is missing, so both are looked at before its first call. A library is opened by its path; who opens it by its name
//! afterwards is given the same.
//!
//! The driver comes with the card's driver package and is sought by name. The compiler and the library of matrix products may
//! also lie in `ADAMANT_CUDA_PATH`, in `CUDA_HOME` or `CUDA_PATH`, or among the packages of an active Python environment.
#![allow(unsafe_code)]
use adamant_runtime::ErrorKind;
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A directory with CUDA's libraries, or one that has them in `lib`, `lib64` or `bin`.
pub(crate) const PATH: &str = "ADAMANT_CUDA_PATH";

/// Every function of the driver that this crate calls; a test holds the list to the calls.
pub(crate) const DRIVER: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD32Async",
    "cuMemcpyDtoDAsync_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphDestroy",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
];
/// Every function of the compiler.
pub(crate) const COMPILER: &[&str] = &[
    "nvrtcVersion",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetPTXSize",
    "nvrtcGetPTX",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
];

/// Every function of the library of products, which need not be there.
pub(crate) const PRODUCTS: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmul",
];
/// What was found beside what must be there.
pub(crate) struct Libraries {
    /// why there is no library of products, where there is none
    pub no_products: Option<String>,
}
/// Opens what a device needs, once in a program: what was found stays.
///
/// # Errors
/// `DeviceAbsent`: what is missing, where it was sought, and which package has it.
pub(crate) fn open() -> Result<&'static Libraries, ErrorKind> {
    static OPENED: OnceLock<Libraries> = OnceLock::new();
    if let Some(opened) = OPENED.get() {
        return Ok(opened);
    }
    driver()?;
    open_compiler()?;
    let no_products = products().err();
    Ok(OPENED.get_or_init(|| Libraries { no_products }))
}
/// Opens the compiler, which needs neither a driver nor a card.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_compiler() -> Result<(), ErrorKind> {
    static OPENED: OnceLock<()> = OnceLock::new();
    if OPENED.get().is_none() {
        compiler()?;
        OPENED.get_or_init(|| ());
    }
    Ok(())
}
/// A program of CUDA's, where the compiler is sought and then where the system has its programs.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    let of_system = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    folders().into_iter().chain(of_system).map(|folder| folder.join(&name)).find(|file| file.is_file())
}
/// # Errors
/// There is no library of products: what to install.
fn products() -> Result<(), String> {
    let names: &[&str] = if cfg!(windows) { &["cublasLt64_13.dll"] } else { &["libcublasLt.so.13", "libcublasLt.so"] };
    let by_path = folders().into_iter().flat_map(|f| names.iter().map(move |n| f.join(n))).filter(|p| p.is_file());
    let mut sought = by_path.chain(names.iter().map(PathBuf::from));
    let library = sought.find_map(|path| opened(&path).ok());
    let library = library.ok_or_else(|| format!("no {}; `pip install nvidia-cublas==13.*` has it", names[0]))?;
    let missing = lacks(&library, PRODUCTS);
    keep(library);
    missing.map_or(Ok(()), |symbol| Err(format!("{} has no {symbol}", names[0])))
}
fn absent(what: String) -> ErrorKind {
    ErrorKind::DeviceAbsent(what)
}
/// # Errors
/// No driver; one that is too old.
fn driver() -> Result<(), ErrorKind> {
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
    let found = names.iter().find_map(|name| opened(Path::new(name)).ok());
    let library = found.ok_or_else(|| {
        absent(format!(
            "no CUDA driver: {} is not to be found; it comes with the driver of an NVIDIA card (on Debian the package nvidia-driver)",
            names.join(" or ")
        ))
    })?;
    let missing = lacks(&library, DRIVER);
    keep(library);
    match missing {
        None => Ok(()),
        Some(symbol) => Err(absent(format!("the CUDA driver is too old: it has no {symbol}; one of CUDA 13.0 or later is needed"))),
    }
}
/// # Errors
/// No compiler.
fn compiler() -> Result<(), ErrorKind> {
    let names: &[&str] = if cfg!(windows) { &["nvrtc64_130_0.dll"] } else { &["libnvrtc.so.13", "libnvrtc.so"] };
    let folders = folders();
    let by_path = folders.iter().flat_map(|f| names.iter().map(move |n| f.join(n))).find(|p| p.is_file());
    if let Some(path) = by_path {
        // It looks for its builtins by name, which finds nothing outside the system's folders unless they are open.
        let beside = path.parent().and_then(builtins_of);
        let builtins = beside
            .ok_or_else(|| absent(format!("{} is there and its libnvrtc-builtins is not: install the package nvidia-cuda-nvrtc whole", path.display())))?;
        opened(&builtins).map(keep).map_err(|e| absent(format!("{} cannot be opened: {e}", builtins.display())))?;
        return checked(opened(&path), &path);
    }
    let Some(library) = names.iter().find_map(|name| opened(Path::new(name)).ok()) else {
        let sought: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        let besides = if sought.is_empty() { String::new() } else { format!(" and in {}", sought.join(", ")) };
        return Err(absent(format!(
            "no CUDA compiler: {} was sought among the system's libraries{besides}; install it with `pip install nvidia-cuda-nvrtc==13.0.88` or as part of the CUDA toolkit, and name its folder by {PATH}",
            names.join(" or ")
        )));
    };
    checked(Ok(library), Path::new(names[0]))
}
fn checked(library: Result<libloading::Library, libloading::Error>, path: &Path) -> Result<(), ErrorKind> {
    let library = library.map_err(|e| absent(format!("{} cannot be opened: {e}", path.display())))?;
    let missing = lacks(&library, COMPILER);
    keep(library);
    missing.map_or(Ok(()), |symbol| Err(absent(format!("{} has no {symbol}: a compiler of CUDA 13.0 or later is needed", path.display()))))
}
fn opened(path: &Path) -> Result<libloading::Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: opening a library runs its initialisers: these are NVIDIA's own, or what the user put in their place.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    // SAFETY: as above.
    unsafe {
        libloading::Library::new(path)
    }
}
/// The first symbol that a library lacks.
fn lacks(library: &libloading::Library, symbols: &[&'static str]) -> Option<&'static str> {
    // SAFETY: the symbol is looked up and not called.
    symbols.iter().copied().find(|name| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err())
}
/// It stays open for as long as the program runs.
fn keep(library: libloading::Library) {
    std::mem::forget(library);
}
/// Folders that may have libraries, in the order in which they are looked at.
fn folders() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut found = Vec::new();
    for root in [PATH, "CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(set) {
        found.extend(["lib64", "lib", "bin"].map(|sub| root.join(sub)));
        found.push(root);
    }
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set) {
        found.extend(packages(&root));
    }
    found.retain(|f| f.is_dir());
    found
}
/// The folders of NVIDIA's packages in a Python environment: `lib/python3.N/site-packages/nvidia/*/lib`.
fn packages(root: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
        all.sort();
        all
    };
    let is_python = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python"));
    let homes = inside(&root.join("lib")).into_iter().filter(is_python).map(|p| p.join("site-packages")).chain([root.join("Lib/site-packages")]);
    homes.flat_map(|home| inside(&home.join("nvidia"))).flat_map(|package| [package.join("lib"), package.join("bin")]).collect()
}
/// The builtins beside a compiler.
fn builtins_of(folder: &Path) -> Option<PathBuf> {
    let is_builtins = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().contains("nvrtc-builtins"));
    let mut all: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).filter(is_builtins).collect();
    all.sort();
    all.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is called is in the list, and nothing else is: `cudarc` ends the program at a symbol that is missing.
    #[test]
    fn the_lists_are_the_calls() {
        let sources = [include_str!("driver.rs"), include_str!("compiler.rs"), include_str!("blaslt.rs")].join("\n");
        let mut called: Vec<&str> = sources.match_indices("sys::").map(|(at, _)| sources[at + 5..].split('(').next().unwrap_or_default()).collect();
        called.retain(|name| {
            (name.starts_with("cu") || name.starts_with("nvrtc"))
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && name.chars().any(char::is_uppercase)
        });
        called.retain(|name| !name.starts_with("nvrtcResult") && !name.starts_with("nvrtcProgram"));
        called.sort_unstable();
        called.dedup();
        let mut listed: Vec<&str> = DRIVER.iter().chain(COMPILER).chain(PRODUCTS).copied().collect();
        listed.sort_unstable();
        assert_eq!(called, listed);
    }
}
