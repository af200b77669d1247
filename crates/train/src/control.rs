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
//! Who debugs a run ([`Breakpoint`]) asks for more:
//!
//! | request | what happens | beside `"ok": true` and `"step"` |
//! |---|---|---|
//! | `{"do": "break", "step": 12}`, or any of `"layer"`, `"op"` (globs), `"phase"`, `"when"` | the run stops before the step, or behind each op for which all that is given holds | `breakpoint`: its number |
//! | `{"do": "unbreak", "breakpoint": 1}` | one breakpoint less, or without a number, all | |
//! | `{"do": "where"}` | where it is stopped | `stopped`, `values`: what can be looked at, `breakpoints`; in a step `in_step`, `phase`, `op`, `layer`, `line`, `number`, `shows` |
//! | `{"do": "look", "of": "fc1.weight"}` | figures of a value | `shape`, `dtype`, `elements`, `nan`, `inf`, `least`, `most`, `mean`, `std`, `absmax`, `zeros`, `histogram` |
//! | `{"do": "slice", "of": "out.0", "at": "0:4, :"}` | elements, at most [`MOST_ELEMENTS`] | `shape`, `values` |
//! | `{"do": "set", "of": "out.0", "at": "0, 3", "value": 1.5}` | elements become this number | `elements`: how many |
//! | `{"do": "next", "of": "op"}`, `"layer"`, `"step"` | goes on, and stops at the next one | |
//! | `{"do": "continue"}` | goes on, as `resume` | |
//!
//! Between two steps parameters and buffers can be looked at and set by their paths, an optimizer's slots as `optimizer.PATH.SLOT`; where the run is
//! stopped behind an op, also `in.K` and `out.K`, or `grad.K`, the gradient of result
//! K, or `in_grad.K`, that of input K, where it is a parameter. A client that leaves takes its breakpoints with it, and a run
//! that stopped at one of them goes on.
//!
//! What is not done is answered with `{"ok": false, "error": "..."}`.
//!
//! Invariant: what changes the numbers of a run (`rate`, `stop_after_epoch`, `set`) is a part of it as the seed is. It is written to
//! `control.jsonl` and synced before it is done, with its step; a checkpoint knows how many of these lines are in it. A run that goes on
//! from an earlier checkpoint does the others again, each at its step. What only looks changes no bit, and nothing that a client does or
//! leaves undone holds the run up: the thread reads a line of at most [`LONGEST`] bytes a round of each of a few clients, and waits for none.
mod breakpoint;
mod client;
mod debug;
mod desk;
mod journal;
mod place;
mod request;
#[cfg(unix)]
mod server;

pub use breakpoint::{Breakpoint, FigureComparison, NumberCondition, NumberFigure};
pub use client::ControlClient;
pub(crate) use debug::{DebugState, DebuggedValues, RunStop, named};
pub(crate) use desk::{AskedRequest, ControlAnswer, ControlDesk, DeskNews, RunPhase};
pub(crate) use journal::{ControlDecision, ControlJournal, SetDecision, SetInStep};
pub use place::ElementPlace;
pub use request::{ControlRequest, NextStop};

use crate::{Failure, watch::Watch};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The socket's name in the run folder.
pub const SOCKET: &str = "control.sock";
/// The longest line that a client may send, in bytes.
pub const LONGEST: usize = 4096;
/// The most elements that a `slice` gives.
pub const MOST_ELEMENTS: usize = 1000;

/// Whether a run can be asked for something, and whether it waits to be.
#[derive(Clone, Copy)]
pub(crate) struct ControlPlan {
    /// a socket takes requests
    pub opens: bool,
    /// no step before somebody goes on
    pub paused: bool,
}
impl Default for ControlPlan {
    fn default() -> ControlPlan {
        ControlPlan { opens: true, paused: false }
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
    /// `beginning`, `training`, `paused`, `stopped` (for who debugs it), or `ending`: the steps are over, and what stands at the end is being
    /// made
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
