//! Sockets behind descriptors that were inherited: the one place where a number becomes a socket.
use crate::ErrorKind;
use std::net::TcpListener;

/// The socket behind the descriptor. The descriptor stays open as it was: what is returned has its own.
///
/// # Errors
/// No listening socket is there.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(super) fn listener(descriptor: i32) -> Result<TcpListener, ErrorKind> {
    use std::os::fd::BorrowedFd;
    let failed = |e: std::io::Error| ErrorKind::Argument(format!("descriptor {descriptor} is no listening socket: {e}"));
    if descriptor < 0 {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    // SAFETY: it is not -1, and only borrowed until it was duplicated, which fails where nothing is open.
    let owned = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().map_err(failed)?;
    let listener = TcpListener::from(owned);
    listener.local_addr().map_err(failed)?;
    Ok(listener)
}
#[cfg(not(unix))]
pub(super) fn listener(descriptor: i32) -> Result<TcpListener, ErrorKind> {
    Err(ErrorKind::Argument(format!("descriptor {descriptor}: a listening socket can be inherited on Unix only; give a meeting")))
}
/// The socket behind a descriptor, under a descriptor of its own.
///
/// # Errors
/// No socket of that kind is there.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn stream(descriptor: i32) -> std::io::Result<std::os::unix::net::UnixStream> {
    use std::os::{fd::BorrowedFd, unix::net::UnixStream};
    if descriptor < 0 {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is not -1, and only borrowed until it was duplicated, which fails where nothing is open.
    let stream = UnixStream::from(unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned()?);
    stream.local_addr()?;
    Ok(stream)
}
