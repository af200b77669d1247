//! What the page asks of the run, over its socket.
//!
//! Breakpoints belong to the connection that set them, so the debugger's requests share one, which is kept. Any other request has a
//! connection of its own, and waits for nobody.
use adamant_train::{
    Failure,
    control::{ControlClient, ControlRequest},
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Requests that may wait for their answers.
const MOST_WAITING: usize = 8;

/// See the module's documentation.
pub struct Steering {
    run: PathBuf,
    debugger: Mutex<Option<ControlClient>>,
    waiting: AtomicUsize,
}
/// One that waits, while it is there.
struct WaitingTurn<'a>(&'a AtomicUsize);
impl Drop for WaitingTurn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
impl Steering {
    pub fn of(run: &Path) -> Steering {
        Steering { run: run.to_path_buf(), debugger: Mutex::new(None), waiting: AtomicUsize::new(0) }
    }
    /// Asks what a line of the protocol says, and waits for the answer.
    ///
    /// # Errors
    /// `Usage`: it is no request, or the run is not running. `Run`: too many wait; what the run says against it.
    pub fn ask(&self, line: &[u8]) -> Result<Value, Failure> {
        let request = ControlRequest::parse(line)?;
        let before = self.waiting.fetch_add(1, Relaxed);
        let _turn = WaitingTurn(&self.waiting);
        if before >= MOST_WAITING {
            return Err(Failure::Run(format!("{MOST_WAITING} requests wait for their answers: the run is in a long step, or stopped in one")));
        }
        if request.debugs() {
            return self.debug(request);
        }
        ControlClient::attach(&self.run)?.ask(request)
    }
    fn debug(&self, request: ControlRequest) -> Result<Value, Failure> {
        let mut debugger = self.debugger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match debugger.take() {
            Some(client) => client,
            None => ControlClient::attach(&self.run)?,
        };
        let answer = client.ask(request);
        // A run that refuses is still there; one that is not has let its breakpoints go.
        if answer.is_ok() || client.status().is_ok() {
            *debugger = Some(client);
        }
        answer
    }
}
