//! What proves who may join: 256 bits, and where they come from. Must not know of connections.
use crate::ErrorKind;
use adamant_runtime::communicator::JoinToken;
use std::{fmt, fs, io::Read, path::PathBuf};

/// The 256 bits. They never leave the process, and are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinKey([u8; 32]);
impl fmt::Debug for JoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinKey")
    }
}
impl JoinKey {
    /// New ones, of the system's random bytes.
    ///
    /// # Errors
    /// The system has none.
    pub fn fresh() -> Result<JoinKey, ErrorKind> {
        random().map(JoinKey)
    }
    /// Of 64 hexadecimal digits, with white space around them.
    pub fn from_hex(text: &str) -> Option<JoinKey> {
        let digits: &[u8; 64] = text.trim().as_bytes().try_into().ok()?;
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(JoinKey(key))
    }
    /// As 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
    /// What the token says.
    ///
    /// # Errors
    /// A file that is not there, that others may read, or that is no token.
    pub fn read(token: &JoinToken) -> Result<JoinKey, ErrorKind> {
        let path = match token {
            JoinToken::File(path) => path.clone(),
            JoinToken::Descriptor(number) if cfg!(unix) => PathBuf::from(format!("/dev/fd/{number}")),
            JoinToken::Descriptor(_) => return Err(ErrorKind::Argument("a token behind a descriptor needs Unix: give its file".into())),
        };
        let failed = |reason: String| ErrorKind::File { path: path.display().to_string(), reason };
        let file = fs::File::open(&path).map_err(|e| failed(format!("the token cannot be read: {e}")))?;
        if matches!(token, JoinToken::File(_)) && is_open_to_others(&file) {
            return Err(failed("the token can be read by others than its owner: `chmod 600` it, and make a new one if they may have".into()));
        }
        let mut text = String::new();
        // A pipe that somebody keeps open has no end: no more than a token is read.
        file.take(65).read_to_string(&mut text).map_err(|e| failed(format!("the token cannot be read: {e}")))?;
        JoinKey::from_hex(&text).ok_or_else(|| failed("a token is 64 hexadecimal digits".into()))
    }
    /// The keyed hash of what is said at one step of a handshake.
    pub(crate) fn proof(&self, step: &str, said: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(step.len() as u64).to_le_bytes()).update(step.as_bytes()).update(said);
        hasher.finalize()
    }
}
/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ErrorKind> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| ErrorKind::Argument(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes)
}
#[cfg(unix)]
fn is_open_to_others(file: &fs::File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o077 != 0)
}
#[cfg(not(unix))]
fn is_open_to_others(_: &fs::File) -> bool {
    false
}

/// The token of ranks that were started by hand, without one: a file that only this user can read, named after the port at which they
/// meet. Rank 0 makes it, and it is gone when all have joined.
pub struct HandMadeToken {
    path: PathBuf,
}
impl HandMadeToken {
    fn place(port: u16) -> PathBuf {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir()).unwrap_or_else(std::env::temp_dir);
        folder.join(format!("adamant-{}{port}.token", user().map(|user| format!("{user}-")).unwrap_or_default()))
    }
    /// Makes it. Only who listens at the port may: so one that lies there is left over.
    ///
    /// # Errors
    /// The folder cannot be written, or what lies there is somebody else's.
    pub fn make(port: u16) -> Result<(HandMadeToken, JoinKey), ErrorKind> {
        let (path, key) = (HandMadeToken::place(port), JoinKey::fresh()?);
        let failed = |e: std::io::Error| ErrorKind::File { path: path.display().to_string(), reason: format!("the ranks' token cannot be made: {e}") };
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed)?;
        std::io::Write::write_all(&mut file, key.to_hex().as_bytes()).map_err(failed)?;
        Ok((HandMadeToken { path }, key))
    }
    /// What rank 0 made, once it has.
    pub fn find(port: u16) -> Option<JoinKey> {
        let file = fs::File::open(HandMadeToken::place(port)).ok()?;
        let mut text = String::new();
        is_own(&file).then_some(file)?.take(65).read_to_string(&mut text).ok()?;
        JoinKey::from_hex(&text)
    }
}
impl Drop for HandMadeToken {
    fn drop(&mut self) {
        // If it cannot be removed, it proves nothing any more: the next rank 0 makes another.
        let _ = fs::remove_file(&self.path);
    }
}
#[cfg(unix)]
fn user() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}
#[cfg(not(unix))]
fn user() -> Option<u32> {
    None
}
#[cfg(unix)]
fn is_own(file: &fs::File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|m| m.is_file() && Some(m.uid()) == user() && m.mode() & 0o077 == 0)
}
#[cfg(not(unix))]
fn is_own(_: &fs::File) -> bool {
    true
}
