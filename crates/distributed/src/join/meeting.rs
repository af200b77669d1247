//! Where ranks meet: the address, and who listens there. Must not know of handshakes.
use super::inherited;
use crate::ErrorKind;
use adamant_runtime::communicator::EngineRequest;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Are all ranks on this host?
fn is_one_host(request: &EngineRequest) -> bool {
    request.local.0 >= request.size
}
/// Where rank 0 can be reached. Ranks of one host meet on loopback, whatever the host is called.
pub(super) fn addresses(request: &EngineRequest) -> Result<Vec<SocketAddr>, ErrorKind> {
    let Some((host, port)) = &request.meeting else {
        return Err(ErrorKind::Argument("several ranks need a place to meet: host and port (MASTER_ADDR, MASTER_PORT)".into()));
    };
    if is_one_host(request) && request.bind.is_none() {
        return Ok(vec![SocketAddr::new(LOOPBACK, *port)]);
    }
    let failed = |reason: String| ErrorKind::Argument(format!("the ranks cannot meet at {host}:{port}: {reason}"));
    let mut found: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs().map_err(|e| failed(e.to_string()))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    if found.is_empty() {
        return Err(failed("the name has no address".into()));
    }
    if request.token.is_none() && !found.iter().all(|address| address.ip().is_loopback()) {
        return Err(failed("ranks that meet beyond loopback need a token".into()));
    }
    Ok(found)
}
fn bound(request: &EngineRequest) -> Result<IpAddr, ErrorKind> {
    let Some(bind) = &request.bind else { return Ok(LOOPBACK) };
    let found = (bind.as_str(), 0).to_socket_addrs().ok().and_then(|mut found| found.next());
    let ip = found.map(|address| address.ip()).ok_or_else(|| ErrorKind::Argument(format!("`{bind}` is no address to bind to")))?;
    if request.token.is_none() && !ip.is_loopback() {
        return Err(ErrorKind::Argument(format!("to listen on {ip} needs a token: anybody could join")));
    }
    Ok(ip)
}
/// The socket at which a rank listens while ranks join: rank 0 at the meeting, the others anywhere. Beyond loopback only where
/// `bind` says so.
pub(super) fn listen(request: &EngineRequest) -> Result<TcpListener, ErrorKind> {
    let listener = match (request.rank, request.listener, &request.meeting) {
        (0, Some(descriptor), _) => inherited::listener(descriptor)?,
        (0, None, Some((_, port))) => {
            let at = SocketAddr::new(bound(request)?, *port);
            TcpListener::bind(at).map_err(|e| ErrorKind::Argument(format!("rank 0 cannot listen at {at}: {e}")))?
        }
        (0, None, None) => return addresses(request).and(Err(ErrorKind::Internal("a meeting without a place".into()))),
        _ => {
            let at = SocketAddr::new(bound(request)?, 0);
            TcpListener::bind(at).map_err(|e| ErrorKind::Argument(format!("rank {} cannot listen at {at}: {e}", request.rank)))?
        }
    };
    let at = listener.local_addr().map_err(|e| ErrorKind::Argument(format!("what rank 0 listens at has no address: {e}")))?;
    if !at.ip().is_loopback() && request.bind.is_none() {
        return Err(ErrorKind::Argument(format!("rank {} would listen at {at}, beyond loopback: only `bind` may say so", request.rank)));
    }
    listener.set_nonblocking(true).map_err(|e| ErrorKind::Argument(format!("what listens at {at} cannot be waited for: {e}")))?;
    Ok(listener)
}
/// What others are told of a listener; `0.0.0.0` means the address that they see this rank at.
pub(super) fn told(listener: &TcpListener) -> String {
    listener.local_addr().map(|at| at.to_string()).unwrap_or_default()
}
/// Where a rank can be reached that says this, and whose connection comes from there.
pub(super) fn reached(told: &str, seen: Option<SocketAddr>) -> Option<SocketAddr> {
    let mut told: SocketAddr = told.parse().ok()?;
    if told.ip().is_unspecified() {
        told.set_ip(seen?.ip());
    }
    Some(told)
}
