//! What the program writes: answers to stdout, words for people to stderr. A reader that has seen enough (`| head`) is no
//! fault; a disk that is full is one, and has its exit code.
use adamant_train::Failure;
use std::io::{ErrorKind, Write, stderr, stdout};

/// Writes to stdout, to the last byte.
pub fn write(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::Storage(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
/// Writes a line to stdout.
pub fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    write(&format!("{text}\n"))
}
/// Writes a line to stderr. Where even that cannot be written there is nobody to tell.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(stderr().lock(), "{text}");
}
