//! The other end of the socket, for programs that look at a run or steer it.
use super::{ControlRequest, RunStatus};
use crate::Failure;
use serde_json::Value;
use std::path::Path;
#[cfg(unix)]
use std::time::Duration;

/// The longest answer that is read, in bytes.
#[cfg(unix)]
const LONGEST_ANSWER: u64 = 1 << 20;

/// A connection to a living run.
///
/// ```no_run
/// use adamant_train::control::{ControlClient, ControlRequest};
/// use std::path::Path;
///
/// let mut run = ControlClient::attach(Path::new("runs/digits-1"))?;
/// println!("step {}", run.status()?.step);
/// let answer = run.ask(ControlRequest::Checkpoint)?;
/// println!("{}", answer["checkpoint"]);
/// # Ok::<(), adamant_train::Failure>(())
/// ```
#[derive(Debug)]
pub struct ControlClient {
    #[cfg(unix)]
    stream: std::io::BufReader<std::os::unix::net::UnixStream>,
    /// the socket's path, for what is told
    #[cfg(unix)]
    path: std::path::PathBuf,
}
#[cfg(unix)]
impl ControlClient {
    /// Attaches to the run in a folder.
    ///
    /// # Errors
    /// `Input`: there is no such folder. `Usage`: the run in it is not running, or opened no socket; the path is too long for one.
    /// `Run`: the socket may not be used.
    pub fn attach(run: &Path) -> Result<ControlClient, Failure> {
        use std::io::ErrorKind;
        if !run.is_dir() {
            return Err(Failure::Input(format!("{}: there is no such run", run.display())));
        }
        let path = run.join(super::SOCKET);
        match std::os::unix::net::UnixStream::connect(&path) {
            Ok(stream) => Ok(ControlClient { stream: std::io::BufReader::new(stream), path }),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Err(Failure::Usage(format!(
                "{}: the run is not running, or was started with `--no-control`; `adamant train ... --resume {}` goes on with one that was stopped",
                run.display(),
                run.display()
            ))),
            Err(e) if e.kind() == ErrorKind::InvalidInput => {
                Err(Failure::Usage(format!("{}: the path is too long for a socket; name the run from a folder that is nearer", path.display())))
            }
            Err(e) => Err(Failure::Run(format!("{}: {e}", path.display()))),
        }
    }
    /// Asks, and waits for the answer: until the run is between two steps and has acted.
    ///
    /// # Errors
    /// `Run`: the run has not done it, and says why; or it has ended meanwhile.
    pub fn ask(&mut self, request: ControlRequest) -> Result<Value, Failure> {
        self.exchange(request, None)
    }
    /// Where the run is. It says so at once, or something is wrong with it.
    ///
    /// # Errors
    /// `Run`: it has ended meanwhile, or says nothing within ten seconds.
    pub fn status(&mut self) -> Result<RunStatus, Failure> {
        let answer = self.exchange(ControlRequest::Status, Some(Duration::from_secs(10)))?;
        serde_json::from_value(answer).map_err(|e| self.fail(&format!("its status cannot be read: {e}")))
    }
    fn fail(&self, why: &str) -> Failure {
        Failure::Run(format!("{}: {why}", self.path.display()))
    }
    fn exchange(&mut self, request: ControlRequest, most: Option<Duration>) -> Result<Value, Failure> {
        use std::io::{BufRead, ErrorKind, Read, Write};
        let told = |e: &std::io::Error| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "the run does not answer: is its process stopped?".to_string(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => "the run has ended".to_string(),
            _ => e.to_string(),
        };
        let line = format!("{}\n", request.to_json());
        let mut answer = Vec::new();
        let stream = self.stream.get_mut();
        stream
            .set_read_timeout(most)
            .and_then(|()| stream.write_all(line.as_bytes()))
            .and_then(|()| Read::by_ref(&mut self.stream).take(LONGEST_ANSWER).read_until(b'\n', &mut answer))
            .map_err(|e| self.fail(&told(&e)))?;
        if answer.last() != Some(&b'\n') {
            return Err(self.fail(if answer.len() as u64 == LONGEST_ANSWER { "its answer is too long" } else { "the run has ended" }));
        }
        let answer: Value = serde_json::from_slice(&answer).map_err(|e| self.fail(&format!("its answer cannot be read: {e}")))?;
        match answer.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(answer),
            _ => Err(self.fail(answer.get("error").and_then(Value::as_str).unwrap_or("its answer says nothing"))),
        }
    }
}
#[cfg(not(unix))]
impl ControlClient {
    /// Attaches to the run in a folder.
    ///
    /// # Errors
    /// `Usage`: this system has no Unix sockets.
    pub fn attach(run: &Path) -> Result<ControlClient, Failure> {
        Err(Failure::Usage(format!("{}: a run is controlled over a Unix socket, which this system does not have", run.display())))
    }
    /// As on systems with Unix sockets.
    ///
    /// # Errors
    /// Always: nobody is attached.
    pub fn ask(&mut self, _request: ControlRequest) -> Result<Value, Failure> {
        Err(Failure::Usage("nobody is attached".into()))
    }
    /// As on systems with Unix sockets.
    ///
    /// # Errors
    /// Always: nobody is attached.
    pub fn status(&mut self) -> Result<RunStatus, Failure> {
        Err(Failure::Usage("nobody is attached".into()))
    }
}
