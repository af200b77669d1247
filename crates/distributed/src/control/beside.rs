//! Control connections beside a group that another engine carries, which may not see a rank die. The group itself tells where ranks meet, and
//! with what token: who is in it has been let in already. Must not know which engine it is.
use super::RankControl;
use crate::{ErrorKind, launch::fresh_token, told_by_first};
use adamant_runtime::communicator::{Communicator, EngineRequest, JoinToken};

impl RankControl {
    /// Connects the ranks of a group by themselves. None where they are on several hosts: nothing is listened at beyond loopback that
    /// nobody asked for; nor on systems other than Linux. All ranks of the group call it.
    ///
    /// # Errors
    /// A lost peer; no socket, no random bytes; ranks that do not reach each other.
    pub fn beside(group: &dyn Communicator, request: &EngineRequest) -> Result<Option<RankControl>, ErrorKind> {
        if group.size() < 2 || request.local.0 < group.size() || !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let failed = |what: &str, e: std::io::Error| ErrorKind::Argument(format!("control connections: {what}: {e}"));
        let (listener, told) = if group.rank() == 0 {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|e| failed("no port to meet at", e))?;
            let port = listener.local_addr().map_err(|e| failed("no port to meet at", e))?.port();
            let token = fresh_token().map_err(|e| failed("no token", e))?;
            (Some(listener), format!("{port} {token}"))
        } else {
            (None, String::new())
        };
        let told = told_by_first(group, told.as_bytes())?;
        let told = String::from_utf8(told).unwrap_or_default();
        let (port, token) = told.split_once(' ').and_then(|(port, token)| Some((port.parse::<u16>().ok()?, token))).unwrap_or_default();
        let token = without_name(token).map_err(|e| failed("no token", e))?;
        let request = EngineRequest {
            rank: group.rank(),
            size: group.size(),
            meeting: Some(("127.0.0.1".into(), port)),
            listener: listener.as_ref().map(descriptor),
            token: Some(JoinToken::Descriptor(descriptor(&token))),
            bind: None,
            ..request.clone()
        };
        // Nobody listens any more once it has returned.
        RankControl::join(&request).map(Some)
    }
}
/// A file without a name that holds a text.
#[cfg(target_os = "linux")]
fn without_name(text: &str) -> std::io::Result<std::fs::File> {
    use std::io::Write;
    let mut file: std::fs::File = rustix::fs::memfd_create("adamant-token", rustix::fs::MemfdFlags::CLOEXEC)?.into();
    file.write_all(text.as_bytes())?;
    Ok(file)
}
#[cfg(not(target_os = "linux"))]
fn without_name(_: &str) -> std::io::Result<std::fs::File> {
    Err(std::io::ErrorKind::Unsupported.into())
}
#[cfg(unix)]
fn descriptor(of: &impl std::os::fd::AsRawFd) -> i32 {
    of.as_raw_fd()
}
#[cfg(not(unix))]
fn descriptor<T>(_: &T) -> i32 {
    -1
}
