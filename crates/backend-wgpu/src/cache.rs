//! Compiled pipelines on disk, where the adapter's driver hands them out (Vulkan): a program that starts again compiles
//! less. The file is one of the user's alone and proves that it is what was written: whatever is wrong with it, it is
//! ignored and replaced. That it is a cache is all that depends on it: no result does.
use adamant_kernels::{CACHE_DIRECTORY, own_directory};
use parking_lot::Mutex;
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

const MAGIC: &[u8; 8] = b"ADMPIPE\n";
/// Of the file's own layout.
const VERSION: u32 = 1;
/// Magic, version, who wrote it, length, checksum.
const HEADER: usize = 8 + 4 + 32 + 8 + 32;
/// A file that is larger is not one of ours.
const MOST: u64 = 1 << 28;
/// How long a few new pipelines may wait for more.
const PATIENCE: Duration = Duration::from_secs(2);

/// The driver's cache and the file that it goes to.
pub(crate) struct Cache {
    pub pipelines: wgpu::PipelineCache,
    file: PathBuf,
    writer: [u8; 32],
    state: Mutex<CacheState>,
}
struct CacheState {
    /// pipelines that were compiled when it was written last
    written: u64,
    at: Instant,
    /// after a write that failed there is no other
    failed: bool,
}
impl Cache {
    /// The cache of an adapter in a directory, and what is to be told of it. There is none where the driver has none or
    /// the directory cannot be had.
    pub fn open(device: &wgpu::Device, adapter: &wgpu::AdapterInfo, directory: Option<&Path>) -> (Option<Cache>, String) {
        let Some(directory) = directory else { return (None, format!("none ({CACHE_DIRECTORY} is empty, or there is no directory for caches)")) };
        let key = device.features().contains(wgpu::Features::PIPELINE_CACHE).then(|| wgpu::util::pipeline_cache_key(adapter)).flatten();
        let Some(key) = key else { return (None, format!("none (its driver for {} hands out no pipelines)", adapter.backend)) };
        if let Err(e) = own_directory(directory) {
            return (None, format!("none ({}: {e})", directory.display()));
        }
        let (file, writer) = (directory.join(format!("{key}.bin")), writer_of(adapter));
        let known = read(&file, &writer);
        let told = match &known {
            Ok(data) => format!("{} bytes of {}", data.len(), file.display()),
            Err(why) => format!("new in {} ({why})", file.display()),
        };
        // SAFETY: the data was returned by `get_data` for an adapter of this key: the file says so for this very driver
        // with a hash over all of it, and lies in a directory that only the user can write.
        #[allow(unsafe_code)]
        let pipelines = unsafe { device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor { label: None, data: known.as_deref().ok(), fallback: true }) };
        (Some(Cache { pipelines, file, writer, state: Mutex::new(CacheState { written: 0, at: Instant::now(), failed: false }) }), told)
    }
    /// Writes the file, if enough is new: so many pipelines were compiled by now. A disk that takes nothing is asked once.
    pub fn keep(&self, compiled: u64) {
        // Whoever writes now writes for all.
        let Some(mut state) = self.state.try_lock() else { return };
        let new = compiled.saturating_sub(state.written);
        // A file that grows is written a few times in all, not at each of its pipelines.
        if state.failed || new == 0 || (new * 4 < state.written && state.at.elapsed() < PATIENCE) {
            return;
        }
        state.failed = self.pipelines.get_data().is_some_and(|data| write(&self.file, &self.writer, &data).is_err());
        (state.written, state.at) = (compiled, Instant::now());
    }
}
/// Whose pipelines these are: another driver's are of no use.
fn writer_of(a: &wgpu::AdapterInfo) -> [u8; 32] {
    let words = [a.name.as_str(), &a.driver, &a.driver_info, &a.backend.to_string(), &format!("{} {}", a.vendor, a.device)];
    *blake3::hash(words.join("\0").as_bytes()).as_bytes()
}
fn checksum(writer: &[u8; 32], data: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(MAGIC).update(&VERSION.to_le_bytes()).update(writer).update(data).finalize().as_bytes()
}
/// What a file holds, if all of it is as it was written.
fn read(file: &Path, writer: &[u8; 32]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(|e| e.kind().to_string())?;
    opened.take(MOST + 1).read_to_end(&mut bytes).map_err(|e| e.kind().to_string())?;
    let Some((header, data)) = bytes.split_at_checked(HEADER) else { return Err("a file that is cut off was ignored".into()) };
    let (magic, rest) = header.split_at(8);
    let (version, rest) = rest.split_at(4);
    let (by, rest) = rest.split_at(32);
    let (length, sum) = rest.split_at(8);
    if magic != MAGIC || version != VERSION.to_le_bytes() {
        return Err("a file of another kind was ignored".into());
    }
    if by != writer {
        return Err("a file of another driver was ignored".into());
    }
    if length != (data.len() as u64).to_le_bytes() || bytes.len() as u64 > MOST || sum != checksum(writer, data) {
        return Err("a damaged file was ignored".into());
    }
    Ok(data.to_vec())
}
/// Writes a file that appears whole.
fn write(file: &Path, writer: &[u8; 32], data: &[u8]) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(writer);
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(checksum(writer, data));
    bytes.extend(data);
    // Two devices of one process, or two processes, do not write one temporary file.
    let aside = file.with_extension(format!("{}.{:x}", process::id(), std::ptr::from_ref(&bytes) as usize));
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&aside)?.write_all(&bytes)?;
        fs::rename(&aside, file)
    })();
    if written.is_err() {
        drop(fs::remove_file(&aside));
    }
    written
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_or_not_at_all() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let (file, writer, data) = (folder.path().join("pipelines.bin"), [7; 32], b"what a driver makes of kernels".to_vec());
        assert!(read(&file, &writer).is_err());
        write(&file, &writer, &data)?;
        assert_eq!(read(&file, &writer)?, data);
        let whole = fs::read(&file)?;
        assert!(read(&file, &[8; 32]).is_err_and(|why| why.contains("driver")));
        for end in 0..whole.len() {
            fs::write(&file, &whole[..end])?;
            assert!(read(&file, &writer).is_err(), "cut at {end}");
        }
        for at in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            fs::write(&file, &flipped)?;
            assert!(read(&file, &writer).is_err(), "bit {at} was flipped");
        }
        write(&file, &writer, &data)?;
        assert_eq!(read(&file, &writer)?, data);
        assert!(own_directory(folder.path()).is_ok());
        #[cfg(target_os = "linux")]
        if std::os::unix::fs::chown(folder.path(), Some(54_321), None).is_ok() {
            assert!(own_directory(folder.path()).is_err_and(|why| why.to_string().contains("another user")));
        } else {
            eprintln!("SKIPPED: a directory of another user, which only root can make");
        }
        assert_eq!(fs::read_dir(folder.path())?.count(), 1, "a temporary file was left");
        Ok(())
    }
}
