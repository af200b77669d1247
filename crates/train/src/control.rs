//! A living run that is looked at and steered from outside: a socket in its folder.
//!
//! ```text
//! client <-- lines of JSON --> server (its own thread) <-- requests, answers --> trainer: acts between two steps
//!                                                                                   |
//!                                              control.jsonl (journal): what changes the run, before it does
//! ```
//!
//! The socket is [`SOCKET`] in the run folder; whoever may write there as the run's user may ask (mode 0600). A request is a line, and
//! so is its answer, which comes once the run has acted:
//!
//! | request | what happens | beside `"ok": true` and `"step"` |
//! |---|---|---|
//! | `{"do": "status"}` | answered at once, also in a long step | what [`RunStatus`] has |
//! | `{"do": "checkpoint"}` | a checkpoint of now, to the disk | `checkpoint`: its folder |
//! | `{"do": "pause"}`, `{"do": "resume"}` | no step until it is resumed; the time counts as no training | |
//! | `{"do": "rate", "factor": 0.5}` | the learning rate, and all of its schedule from here on, times a factor | `lr` of the next step |
//! | `{"do": "profile"}` | the next step is recorded, into `profiles.jsonl`; answered when that is decided | `profile`: the file |
//! | `{"do": "stop_after_epoch"}` | the run ends behind the epoch, as by early stopping | |
//! | `{"do": "stop"}` | a checkpoint and the end, as by SIGTERM | `checkpoint` |
//!
//! What is not done is answered with `{"ok": false, "error": "..."}`.
//!
//! Invariant: what changes the numbers of a run (`rate`, `stop_after_epoch`) is a part of it as the seed is. It is written to
//! `control.jsonl` and synced before it is done, with its step; a checkpoint knows how many of these lines are in it. A run that goes on
//! from an earlier checkpoint does the others again, each at its step. What only looks changes no bit, and nothing that a client does or
//! leaves undone holds the run up: the thread reads a line of at most [`LONGEST`] bytes a round of each of a few clients, and waits for none.
mod client;
mod desk;
mod journal;
#[cfg(unix)]
mod server;

pub use client::ControlClient;
pub(crate) use desk::{AskedRequest, ControlDesk, RunPhase};
pub(crate) use journal::{ControlDecision, ControlJournal};

use crate::{Failure, watch::Watch};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// The socket's name in the run folder.
pub const SOCKET: &str = "control.sock";
/// The longest line that a client may send, in bytes.
pub const LONGEST: usize = 4096;

/// What a run can be asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// where it is
    Status,
    /// a checkpoint of now
    Checkpoint,
    /// no more steps until it is resumed
    Pause,
    /// goes on after a pause
    Resume,
    /// the learning rate times a factor, for all that follows
    Rate {
        /// finite and above 0
        factor: f64,
    },
    /// the next step is recorded: what ran in it, when, for how long
    Profile,
    /// the end behind the epoch
    StopAfterEpoch,
    /// a checkpoint and the end
    Stop,
}
impl ControlRequest {
    /// Its word in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            ControlRequest::Status => "status",
            ControlRequest::Checkpoint => "checkpoint",
            ControlRequest::Pause => "pause",
            ControlRequest::Resume => "resume",
            ControlRequest::Rate { .. } => "rate",
            ControlRequest::Profile => "profile",
            ControlRequest::StopAfterEpoch => "stop_after_epoch",
            ControlRequest::Stop => "stop",
        }
    }
    /// The request as the protocol has it.
    ///
    /// ```
    /// use adamant_train::control::ControlRequest;
    /// let request = ControlRequest::Rate { factor: 0.5 };
    /// assert_eq!(request.to_json().to_string(), r#"{"do":"rate","factor":0.5}"#);
    /// assert_eq!(ControlRequest::parse(br#"{"do": "rate", "factor": 0.5}"#)?, request);
    /// # Ok::<(), adamant_train::Failure>(())
    /// ```
    pub fn to_json(&self) -> Value {
        let mut request = json!({ "do": self.name() });
        if let ControlRequest::Rate { factor } = self {
            request["factor"] = crate::folder::number(*factor);
        }
        request
    }
    /// Reads a line of the protocol.
    ///
    /// # Errors
    /// `Usage`: it is no JSON object, asks for something that there is not, says too much, or has a factor that no rate can be
    /// multiplied by.
    pub fn parse(line: &[u8]) -> Result<ControlRequest, Failure> {
        let refuse = |what: String| Err(Failure::Usage(format!("{what}; a request is a line such as {{\"do\": \"status\"}}")));
        let fields = match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return refuse("no JSON object".into()),
            Err(e) => return refuse(format!("no JSON: {e}")),
        };
        let Some(word) = fields.get("do").and_then(Value::as_str) else { return refuse("`do` is missing, or no text".into()) };
        let (request, takes) = match word {
            "status" => (ControlRequest::Status, 1),
            "checkpoint" => (ControlRequest::Checkpoint, 1),
            "pause" => (ControlRequest::Pause, 1),
            "resume" => (ControlRequest::Resume, 1),
            "profile" => (ControlRequest::Profile, 1),
            "stop_after_epoch" => (ControlRequest::StopAfterEpoch, 1),
            "stop" => (ControlRequest::Stop, 1),
            "rate" => match fields.get("factor").and_then(Value::as_f64) {
                Some(factor) => (ControlRequest::rate(factor)?, 2),
                None => return refuse("`factor` is missing, or no number".into()),
            },
            other => {
                let known = "status, checkpoint, pause, resume, rate, profile, stop_after_epoch, stop";
                return refuse(format!("`{}` is nothing that a run can be asked for: {known}", crate::failure::shown(other)));
            }
        };
        match fields.keys().find(|key| *key != "do" && !(takes == 2 && *key == "factor")) {
            Some(key) => refuse(format!("`{word}` takes no `{}`", crate::failure::shown(key))),
            None => Ok(request),
        }
    }
    /// The learning rate times a factor.
    ///
    /// # Errors
    /// `Usage`: the factor is not finite, or not above 0.
    pub fn rate(factor: f64) -> Result<ControlRequest, Failure> {
        if factor.is_finite() && factor > 0.0 {
            return Ok(ControlRequest::Rate { factor });
        }
        Err(Failure::Usage(format!("a rate cannot be multiplied by {factor}: take a finite number above 0")))
    }
}

/// Where a run is, as it says itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStatus {
    /// steps done
    pub step: u64,
    /// steps of the whole run
    pub steps: u64,
    /// the epoch, from 1
    pub epoch: u64,
    /// `beginning`, `training`, `paused`, or `ending`: the steps are over, and what stands at the end is being made
    pub state: String,
    /// does it end behind this epoch, because somebody asked?
    pub stops_after_epoch: bool,
    /// the process
    pub pid: u32,
}

/// The open socket of a run: closed and removed when it is dropped.
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) struct RunSocket {
    pub desk: ControlDesk,
    #[cfg(unix)]
    _server: server::ControlServer,
}
impl RunSocket {
    /// Opens it, in a run of so many steps. Where there can be none, the watcher is told, and the run goes on without.
    ///
    /// # Errors
    /// `Usage`: a living run listens there.
    #[cfg(unix)]
    pub fn open(folder: &Path, steps: u64, watch: &mut dyn Watch) -> Result<Option<RunSocket>, Failure> {
        Ok(server::open(folder, steps, watch)?.map(|(desk, server)| RunSocket { desk, _server: server }))
    }
    /// This system has no such sockets.
    #[cfg(not(unix))]
    pub fn open(_folder: &Path, _steps: u64, _watch: &mut dyn Watch) -> Result<Option<RunSocket>, Failure> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_that_is_taken_for_a_request() {
        for (line, says) in [
            ("", "no JSON:"),
            ("{\"do\":", "no JSON:"),
            ("\u{0}\u{1}\u{2}", "no JSON:"),
            ("[]", "no JSON object"),
            ("\"pause\"", "no JSON object"),
            ("{}", "`do` is missing"),
            ("{\"do\": 3}", "`do` is missing"),
            ("{\"do\": \"paus\"}", "`paus` is nothing that a run can be asked for"),
            ("{\"do\": \"rate\"}", "`factor` is missing"),
            ("{\"do\": \"rate\", \"factor\": \"x\"}", "`factor` is missing"),
            ("{\"do\": \"rate\", \"factor\": 0}", "a rate cannot be multiplied by 0:"),
            ("{\"do\": \"rate\", \"factor\": -0.5}", "a rate cannot be multiplied by -0.5:"),
            ("{\"do\": \"rate\", \"factor\": 1e999}", "no JSON:"),
            ("{\"do\": \"pause\", \"factor\": 1}", "`pause` takes no `factor`"),
            ("{\"do\": \"rate\", \"factor\": 1, \"of\": 2}", "`rate` takes no `of`"),
        ] {
            let failure = ControlRequest::parse(line.as_bytes()).unwrap_err();
            assert!(failure.exit_code() == 2 && failure.to_string().starts_with(says), "{line}: {failure}");
        }
        let deep = "[".repeat(4000);
        assert!(ControlRequest::parse(deep.as_bytes()).is_err());
    }
    #[test]
    fn a_request_that_does_not_come_back_from_its_line() {
        let all = [
            ControlRequest::Status,
            ControlRequest::Checkpoint,
            ControlRequest::Pause,
            ControlRequest::Resume,
            ControlRequest::Rate { factor: 0.1 + 0.2 },
            ControlRequest::Profile,
            ControlRequest::StopAfterEpoch,
            ControlRequest::Stop,
        ];
        for request in all {
            assert_eq!(ControlRequest::parse(request.to_json().to_string().as_bytes()).unwrap(), request);
        }
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ControlRequest::rate(factor).is_err(), "{factor}");
        }
    }
}
