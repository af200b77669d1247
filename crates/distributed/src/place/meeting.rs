//! Where the ranks of a job meet: an address that all know, or a file that all see.
//!
//! By a file: rank 0 takes a port that is free, writes its address into the file and a fresh token beside it (`FILE.token`), both for
//! its user's eyes alone; the others look until both are there. Rank 0 holds a lock on the file while it waits, so what a
//! killed job has left behind is not taken for a living one. When all have met, or failed to, rank 0 removes both.
use super::{PlaceError, StartedBy, Variables, number, value_of};
use adamant_runtime::{ErrorKind, communicator::EngineRequest};
use std::path::{Path, PathBuf};

/// Where ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPlace {
    /// at an address where rank 0 listens
    At {
        /// the name or the address of its host
        host: String,
        /// the port
        port: u16,
    },
    /// in a file that all ranks see, into which rank 0 writes where it listens
    File(PathBuf),
}
const FORMS: &str = "`env://`, `tcp://HOST:PORT` or `file:///PATH`";
const PORT: &str = "a port, from 1 to 65535";
const MEETING: &str = "ADAMANT_MEETING";

impl MeetingPlace {
    /// Reads `tcp://HOST:PORT` and `file:///PATH`; none: it is neither.
    pub fn parse(text: &str) -> Option<MeetingPlace> {
        if let Some(path) = text.strip_prefix("file://") {
            return (path.starts_with('/') && path.len() > 1).then(|| MeetingPlace::File(PathBuf::from(path)));
        }
        let (host, port) = text.strip_prefix("tcp://")?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| MeetingPlace::At { host: host.into(), port })
    }
}

/// Where the ranks meet, by the variables: ADAMANT_MEETING, or MASTER_ADDR and MASTER_PORT, which a step of Slurm need not have.
pub(super) fn find(variables: Variables<'_>, by: StartedBy) -> Result<Option<MeetingPlace>, PlaceError> {
    match value_of(variables, MEETING) {
        Some(text) if text != "env://" => {
            return match MeetingPlace::parse(&text) {
                Some(place) => Ok(Some(place)),
                None => Err(PlaceError::Value { variable: MEETING.into(), value: text, expected: FORMS }),
            };
        }
        _ => {}
    }
    let host = value_of(variables, "MASTER_ADDR");
    let port = number::<u16>(variables, "MASTER_PORT", PORT)?;
    if port == Some(0) {
        return Err(PlaceError::Value { variable: "MASTER_PORT".into(), value: "0".into(), expected: PORT });
    }
    let (slurm_host, slurm_port) = if by == StartedBy::Slurm { slurm(variables)? } else { (None, None) };
    let half = |set: &str, value, missing: &str| PlaceError::Half { set: set.into(), value, missing: missing.into(), hint: "set both, or neither" };
    match (host.clone().or(slurm_host), port.or(slurm_port)) {
        (Some(host), Some(port)) => Ok(Some(MeetingPlace::At { host, port })),
        (None, Some(port)) => Err(half("MASTER_PORT", port.to_string(), "MASTER_ADDR")),
        (Some(_), None) if host.is_some() => Err(half("MASTER_ADDR", host.unwrap_or_default(), "MASTER_PORT")),
        _ => Ok(None),
    }
}
/// The first host of a step of Slurm, and a port that its number gives: the same on all ranks, another one for most other steps.
fn slurm(variables: Variables<'_>) -> Result<(Option<String>, Option<u16>), PlaceError> {
    let Some(list) = value_of(variables, "SLURM_STEP_NODELIST") else { return Ok((None, None)) };
    let nodes = number::<usize>(variables, "SLURM_STEP_NUM_NODES", "a number of hosts")?;
    let first = if nodes == Some(1) { Some("127.0.0.1".to_string()) } else { first_host(&list) };
    let Some(first) = first else {
        return Err(PlaceError::Value { variable: "SLURM_STEP_NODELIST".into(), value: list, expected: "a list of hosts, as `node[01-03,07],login`" });
    };
    let job = number::<u64>(variables, "SLURM_JOB_ID", "the number of a job")?;
    let step = number::<u64>(variables, "SLURM_STEP_ID", "the number of a step")?.unwrap_or(0);
    // Above the ports that services have, below those that Linux gives to whoever asks for any.
    let port = job.map(|job| 15_000 + (job.wrapping_mul(31).wrapping_add(step) % 15_000) as u16);
    Ok((Some(first), port))
}
/// `node[01-03,07],login` begins with `node01`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (stem, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else { return (!stem.is_empty()).then(|| stem.to_string()) };
    let (numbers, behind) = inside.split_once(']')?;
    let first = numbers.split(['-', ',']).next().filter(|first| !first.is_empty() && first.bytes().all(|c| c.is_ascii_digit()))?;
    let behind = behind.split(',').next().unwrap_or_default();
    Some(format!("{stem}{first}{behind}"))
}

#[cfg(unix)]
pub(super) use by_lock::by_file;
#[cfg(not(unix))]
pub(super) fn by_file(path: &Path, _: &mut EngineRequest) -> Result<(), ErrorKind> {
    Err(refused(path, "ranks do not meet by a file on this system; set MASTER_ADDR and MASTER_PORT"))
}
fn refused(path: &Path, reason: impl Into<String>) -> ErrorKind {
    ErrorKind::File { path: path.display().to_string(), reason: reason.into() }
}

#[cfg(unix)]
mod by_lock {
    use super::*;
    use crate::launch::fresh_token;
    use adamant_runtime::communicator::JoinToken;
    use std::{
        fs::{self, File, OpenOptions, TryLockError},
        io::{Read, Write},
        net::TcpListener,
        os::{fd::IntoRawFd, unix::fs::OpenOptionsExt},
        thread::sleep,
        time::{Duration, Instant},
    };

    /// Keeps the file, and removes it at the end.
    pub(in crate::place) struct Met(Option<(PathBuf, File)>);
    impl Drop for Met {
        fn drop(&mut self) {
            if let Some((path, lock)) = self.0.take() {
                let _ = fs::remove_file(token_beside(&path));
                let _ = fs::remove_file(&path);
                drop(lock);
            }
        }
    }
    fn token_beside(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".token");
        PathBuf::from(name)
    }
    /// Fills in where the ranks meet and their token.
    pub(in crate::place) fn by_file(path: &Path, request: &mut EngineRequest) -> Result<Met, ErrorKind> {
        if request.rank == 0 { offer(path, request) } else { look(path, request) }
    }
    fn private(path: &Path) -> std::io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }
    fn offer(path: &Path, request: &mut EngineRequest) -> Result<Met, ErrorKind> {
        let fail = |what: &str, e: std::io::Error| refused(path, format!("the ranks cannot meet here: {what}: {e}"));
        match File::open(path) {
            Ok(old) if matches!(old.try_lock_shared(), Err(TryLockError::WouldBlock)) => {
                return Err(refused(path, "another job's ranks are about to meet here; name another file, or end that job"));
            }
            // Left behind by a job that was killed.
            Ok(_) => fs::remove_file(path).map_err(|e| fail("an old file cannot be removed", e))?,
            Err(_) => {}
        }
        let _ = fs::remove_file(token_beside(path));
        let address = request.bind.clone().unwrap_or_else(|| "127.0.0.1".into());
        let listener = TcpListener::bind((address.as_str(), 0)).map_err(|e| fail("no port", e))?;
        let port = listener.local_addr().map_err(|e| fail("no port", e))?.port();
        let token = fresh_token().map_err(|e| fail("no random bytes", e))?;
        let mut beside = private(&token_beside(path)).map_err(|e| fail("its token cannot be written", e))?;
        let written = beside.write_all(token.as_bytes());
        let mut file = private(path).map_err(|e| fail("it cannot be made", e))?;
        let met = Met(Some((path.to_path_buf(), file.try_clone().map_err(|e| fail("it cannot be kept", e))?)));
        file.lock().map_err(|e| fail("it cannot be locked", e))?;
        // One line, written when all else is ready: who reads a whole line reads all of it.
        written.and_then(|()| writeln!(file, "{address} {port} {}", request.epoch)).map_err(|e| fail("it cannot be written", e))?;
        request.meeting = Some((address, port));
        request.listener = Some(listener.into_raw_fd());
        request.token = Some(JoinToken::File(token_beside(path)));
        Ok(met)
    }
    fn look(path: &Path, request: &mut EngineRequest) -> Result<Met, ErrorKind> {
        let until = Instant::now() + request.timeout;
        loop {
            if let Some(meeting) = living(path, request.epoch) {
                request.meeting = Some(meeting);
                request.token = Some(JoinToken::File(token_beside(path)));
                return Ok(Met(None));
            }
            if Instant::now() >= until {
                let why = format!("rank 0 has not written where it listens within {}", humantime::format_duration(request.timeout));
                return Err(ErrorKind::PeerLost { rank: 0, op: format!("meeting by {}", path.display()), seq: 0, why });
            }
            sleep(Duration::from_millis(5));
        }
    }
    /// What a rank 0 that lives has written, of this start of the job.
    fn living(path: &Path, epoch: u64) -> Option<(String, u16)> {
        let mut file = File::open(path).ok()?;
        if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let mut text = String::new();
        (&mut file).take(1024).read_to_string(&mut text).ok()?;
        let mut words = text.strip_suffix('\n')?.split(' ');
        let (host, port, of) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse::<u64>().ok()?);
        (of == epoch).then(|| (host.to_string(), port))
    }
}
