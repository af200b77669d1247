//! Where what was compiled is kept between runs of programs: in a directory that is the user's alone. What lies there, and how it
//! proves to be what was written, is each backend's own.
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Set to a directory, it is where caches lie; set to nothing, there are none.
pub const CACHE_DIRECTORY: &str = "ADAMANT_CACHE_DIR";

/// Where caches of this program's user lie: `ADAMANT_CACHE_DIR`, else a folder in the system's directory for caches.
pub fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if env::var_os(CACHE_DIRECTORY).is_some() {
        return set(CACHE_DIRECTORY);
    }
    let system = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| set("LOCALAPPDATA")).or_else(|| set("HOME").map(|home| home.join(".cache")));
    system.map(|s| s.join("adamant"))
}
/// Makes the directory, for nobody else.
///
/// # Errors
/// It cannot be made; others could have filled it.
pub fn own_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let found = fs::metadata(directory)?;
        if found.permissions().mode() & 0o022 != 0 {
            return Err(io::Error::other("others can write in it"));
        }
        // Where the system tells who this process is.
        if let Ok(process) = fs::metadata("/proc/self")
            && ![process.uid(), 0].contains(&found.uid())
        {
            return Err(io::Error::other("it is another user's"));
        }
    }
    Ok(())
}
