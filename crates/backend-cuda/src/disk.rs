//! Compiled texts on disk, a file each, named after a hash of what it was compiled from and with. A file proves that it is what
//! was written; whatever is wrong with one, the text is compiled again. No result depends on it.
use adamant_kernels::{CACHE_DIRECTORY, own_directory};
use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

const MAGIC: &[u8; 8] = b"ADMCUDA\n";
/// Magic, checksum.
const HEADER: usize = 8 + 32;
/// A file that is larger is not one of ours.
const MOST: u64 = 1 << 26;

/// A directory of compiled texts.
pub(crate) struct KernelDisk {
    folder: PathBuf,
    /// after a write that failed there is no other
    failed: AtomicBool,
    written: AtomicU64,
}
impl KernelDisk {
    /// The folder `cuda` of a directory, and what is to be told of it. What others could have filled is not used.
    pub fn open(directory: Option<&Path>) -> (Option<KernelDisk>, String) {
        let Some(directory) = directory else { return (None, format!("none ({CACHE_DIRECTORY} is empty, or there is no directory for caches)")) };
        let folder = directory.join("cuda");
        match own_directory(&folder) {
            Ok(()) => {
                let told = folder.display().to_string();
                (Some(KernelDisk { folder, failed: AtomicBool::new(false), written: AtomicU64::new(0) }), told)
            }
            Err(e) => (None, format!("none ({}: {e})", folder.display())),
        }
    }
    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}.bin", blake3::hash(key.as_bytes()).to_hex()))
    }
    /// What was kept under a key, if all of it is as it was written.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(self.file(key)).ok()?.take(MOST + 1).read_to_end(&mut bytes).ok()?;
        let (header, data) = bytes.split_at_checked(HEADER)?;
        let is_whole = header.starts_with(MAGIC) && header[MAGIC.len()..] == checksum(key, data)[..];
        is_whole.then(|| data.to_vec())
    }
    /// Keeps it. A disk that takes nothing is asked once.
    pub fn keep(&self, key: &str, data: &[u8]) {
        if self.failed.load(Relaxed) {
            return;
        }
        let number = self.written.fetch_add(1, Relaxed);
        let beside = self.folder.join(format!(".{}-{number}.part", process::id()));
        let written = fs::File::create(&beside).and_then(|mut f| {
            f.write_all(MAGIC)?;
            f.write_all(&checksum(key, data))?;
            f.write_all(data)
        });
        // Whole under its name, or not there: others read while this is written.
        if written.and_then(|()| fs::rename(&beside, self.file(key))).is_err() {
            let _ = fs::remove_file(&beside);
            self.failed.store(true, Relaxed);
        }
    }
}
fn checksum(key: &str, data: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(MAGIC).update(&(key.len() as u64).to_le_bytes()).update(key.as_bytes()).update(data).finalize().as_bytes()
}
#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_is_damaged_is_not_taken() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (disk, _) = KernelDisk::open(Some(folder.path()));
        let disk = disk.ok_or_else(|| io::Error::other("no disk"))?;
        disk.keep("a", &[1, 2, 3]);
        assert_eq!(disk.read("a"), Some(vec![1, 2, 3]));
        assert_eq!(disk.read("b"), None);
        let file = disk.file("a");
        let whole = fs::read(&file)?;
        for k in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[k] ^= 1;
            fs::write(&file, &damaged)?;
            assert_eq!(disk.read("a"), None, "byte {k}");
            fs::write(&file, &whole[..k])?;
            assert_eq!(disk.read("a"), None, "cut at {k}");
        }
        fs::rename(&file, disk.file("b"))?;
        assert_eq!(disk.read("b"), None, "another text's");
        disk.keep("a", &[4]);
        assert_eq!(disk.read("a"), Some(vec![4]));
        Ok(())
    }
}
