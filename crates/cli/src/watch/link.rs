//! What the run itself says, over its socket: threads ask, and the screen takes what has come.
use crate::control::answered;
use adamant_train::control::{ControlClient, ControlRequest, RunStatus};
use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// How often the run is asked where it is.
const EVERY: Duration = Duration::from_millis(300);
/// Requests that may wait for their answers.
const MOST_WAITING: usize = 8;

/// Is the run running?
#[derive(Clone, Default)]
pub struct LinkState {
    /// where it says that it is
    pub status: Option<RunStatus>,
    /// why it says nothing
    pub why: Option<String>,
}
/// See the module's documentation.
pub struct Link {
    run: PathBuf,
    pub state: LinkState,
    states: Receiver<LinkState>,
    answered: Receiver<String>,
    answers: Sender<String>,
    waiting: usize,
}
/// Asks a run once where it is.
pub fn look(run: &Path) -> LinkState {
    match ControlClient::attach(run).and_then(|mut client| client.status()) {
        Ok(status) => LinkState { status: Some(status), why: None },
        Err(failure) => LinkState { status: None, why: Some(failure.to_string()) },
    }
}
impl Link {
    /// Begins to ask. The thread ends when nobody listens any more.
    pub fn start(run: &Path) -> Link {
        let ((says, states), (answers, answered)) = (channel(), channel());
        let folder = run.to_path_buf();
        let ask = move || {
            loop {
                match ControlClient::attach(&folder) {
                    Ok(mut client) => {
                        while let Ok(status) = client.status() {
                            if says.send(LinkState { status: Some(status), why: None }).is_err() {
                                return;
                            }
                            thread::sleep(EVERY);
                        }
                    }
                    Err(failure) => {
                        if says.send(LinkState { status: None, why: Some(failure.to_string()) }).is_err() {
                            return;
                        }
                        thread::sleep(EVERY);
                    }
                }
            }
        };
        let begun = thread::Builder::new().name("link".into()).spawn(ask);
        let why = begun.err().map(|e| format!("no thread for the socket: {e}"));
        Link { run: run.to_path_buf(), state: LinkState { status: None, why }, states, answered, answers, waiting: 0 }
    }
    /// Takes what has come; the newest answer is said.
    pub fn listen(&mut self, said: &mut String) {
        while let Ok(state) = self.states.try_recv() {
            self.state = state;
        }
        while let Ok(answer) = self.answered.try_recv() {
            self.waiting = self.waiting.saturating_sub(1);
            *said = answer;
        }
    }
    /// Asks for something; the answer comes when the run has acted.
    pub fn ask(&mut self, request: ControlRequest, said: &mut String) {
        if self.waiting >= MOST_WAITING {
            *said = format!("{MOST_WAITING} requests wait for their answers: the run is in a long step");
            return;
        }
        let (run, answers) = (self.run.clone(), self.answers.clone());
        let asked = request.clone();
        let ask = move || {
            let done = ControlClient::attach(&run).and_then(|mut client| client.ask(asked.clone()));
            let _ = answers.send(match done {
                Ok(answer) => answered(&asked, &answer),
                Err(failure) => failure.to_string(),
            });
        };
        match thread::Builder::new().name("ask".into()).spawn(ask) {
            Ok(_) => {
                self.waiting += 1;
                *said = format!("asked for: {}; the run acts between two steps", request.name().replace('_', " "));
            }
            Err(e) => *said = format!("no thread to ask: {e}"),
        }
    }
}
