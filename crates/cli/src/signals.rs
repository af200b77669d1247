//! Signals that ask the program to end, or that the system sends where a limit is met.
//!
//! | signal | when | what happens |
//! |---|---|---|
//! | SIGINT, SIGTERM | Ctrl-C; a scheduler | a checkpoint, then the end; the second one ends at once |
//! | SIGHUP | the terminal is closed, ssh drops | the same; it often comes twice, from the shell and from the system, so a second one changes nothing |
//! | SIGXCPU | `ulimit -t` | the same; it comes each second until the hard limit |
//! | SIGXFSZ | `ulimit -f` | nothing: the write fails instead, and is told as any other |
//! | SIGQUIT | Ctrl-\ | left to the system: it ends at once and leaves a core where cores are wanted |
//!
//! What was to be ignored when the program began (`nohup`, a job in the background of a script) stays ignored.
use crate::out;
use adamant_train::{Failure, Interrupt};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ};
use std::sync::{Arc, atomic::AtomicBool};

/// Keeps a file that grows too long from ending the program in the middle of a write.
pub fn survive_limits() {
    // A flag that nobody reads: what matters is that there is a handler. Where there can be none, it is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
/// Asks for an end with a checkpoint when a signal comes.
pub fn listen(interrupt: Interrupt) -> Result<(), Failure> {
    each(&[SIGHUP, SIGINT, SIGTERM, SIGXCPU], move |signal| match (interrupt.asked(), signal) {
        (None, _) => {
            interrupt.ask(signal);
            out::note("ending after this step, with a checkpoint; once more ends at once");
        }
        (Some(_), SIGINT | SIGTERM) => std::process::exit(128 + signal),
        (Some(_), _) => {}
    })
}
/// Hears these signals, but for those that were to be ignored.
pub fn each(signals: &[i32], mut act: impl FnMut(i32) + Send + 'static) -> Result<(), Failure> {
    let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
    let heard = signals.iter().filter(|signal| ignored >> (**signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heard).map_err(|e| Failure::Run(format!("signals cannot be received: {e}")))?;
    let wait = move || signals.forever().for_each(&mut act);
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(|e| Failure::Run(format!("no thread for signals: {e}")))
}
/// The signals that a process ignores, a bit each, as Linux tells them.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_to_be_ignored_and_is_heard() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 1 | 1 << 12);
        assert_eq!((ignored(""), ignored("SigIgn:\tx\n")), (0, 0));
    }
}
