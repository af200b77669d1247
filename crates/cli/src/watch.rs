//! `adamant watch`: looks at a run, living or ended, in a terminal.
//!
//! ```text
//! metrics, timing, incidents, alerts (.jsonl) -> follow -> seen -> screen   (a terminal)
//!                      control.sock <-> link -> state  ->      -> summary  (no terminal, --once, --json)
//! ```
//!
//! Invariant: the folder is only read. What is asked of the run goes over its socket, by threads of their own: a run that does not
//! answer holds no key up.
mod curve;
mod keys;
mod link;
mod panels;
mod screen;
pub mod seen;
mod summary;

use crate::{out, terminal};
use adamant_train::Failure;
use clap::Args;
use crossterm::event::Event;
use keys::ViewerKeys;
use link::Link;
use seen::SeenRun;
use std::{
    io::IsTerminal,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

const EXAMPLES: &str = "Examples:
  adamant watch runs/mnist-1           curves, layers, incidents, machine; q leaves, the run goes on
  adamant watch runs/mnist-1 --once    a summary in words, as where there is no terminal";

/// Options of `watch`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchVerb {
    /// the run folder
    run: PathBuf,
    /// a summary in words, once
    #[arg(long)]
    once: bool,
    /// prints one JSON document, once
    #[arg(long)]
    pub json: bool,
}
/// How often the screen is drawn anew, at most.
const FRAME: Duration = Duration::from_millis(150);

pub fn run(o: &WatchVerb) -> Result<(), Failure> {
    if !o.run.is_dir() {
        return Err(Failure::Input(format!("{}: there is no such run", o.run.display())));
    }
    let mut seen = SeenRun::of(&o.run);
    if !seen.is_run() {
        return Err(Failure::Input(format!("{}: no run: neither config.toml nor metrics.jsonl is in it", o.run.display())));
    }
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if o.once || o.json || !is_terminal {
        seen.read_all()?;
        let state = link::look(&o.run);
        return if o.json { out::line(summary::document(&seen, &state)) } else { out::line(summary::text(&seen, &state)) };
    }
    show(&o.run, &AtomicBool::new(false))
}
/// What is pressed, from a thread of its own: where a terminal is gone, crossterm reads its end again and again and does not return, and
/// who draws finds out.
fn events() -> Receiver<Event> {
    let (sends, events) = channel();
    let read = move || while crossterm::event::read().is_ok_and(|event| sends.send(event).is_ok()) {};
    // Without the thread the channel is closed, and the screen left at once.
    let _ = std::thread::Builder::new().name("keys".into()).spawn(read);
    events
}
/// The screen, until somebody leaves it, or until it is over.
pub fn show(run: &std::path::Path, over: &AtomicBool) -> Result<(), Failure> {
    let mut seen = SeenRun::of(run);
    let failed = |e: std::io::Error| Failure::Run(format!("the terminal cannot be used: {e}; `--once` prints a summary"));
    // Who ends this program from outside gets the terminal back as it was.
    let ended = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, ended.clone()).map_err(failed)?;
    }
    let look = screen::ScreenLook { colours: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()), ascii: terminal::style().ascii };
    let mut link = Link::start(run);
    let mut keys = ViewerKeys::default();
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let events = events();
    let shown = (|| {
        while !ended.load(Ordering::Relaxed) && !over.load(Ordering::Acquire) && !keys.leaves {
            seen.read_on()?;
            link.listen(&mut keys.said);
            terminal.draw(|frame| screen::draw(frame, look, &seen, &link.state, &mut keys)).map_err(failed)?;
            // What has been pressed meanwhile is heard at once.
            let mut most = if seen.is_behind() { Duration::ZERO } else { FRAME };
            loop {
                let event = match events.recv_timeout(most) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                };
                if let Some(request) = keys.press(&event, &link.state) {
                    link.ask(request, &mut keys.said);
                }
                most = Duration::ZERO;
            }
        }
        Ok(())
    })();
    ratatui::restore();
    // A terminal that is gone is no fault of the run's or of who looks.
    if ended.load(Ordering::Relaxed) { Ok(()) } else { shown }
}
