//! Signals that ask the program to end: once, it writes a checkpoint and ends with 129, 130 or 143 within 2 seconds; twice, it
//! ends at once, but for SIGHUP, which a closed terminal sends twice. All go on to the same weights.
use super::{
    CaseDraw, TortureClaim, claim,
    program::{TrainingProgram, Undisturbed, alive, as_undisturbed, ended, newest, somewhere},
};
use std::{
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

/// The longest that the program may take to end, in seconds.
const LONGEST: f64 = 2.0;

struct SignalKind {
    name: &'static str,
    code: i32,
    times: usize,
}
impl SignalKind {
    /// Does the program save before it ends?
    fn saves(&self) -> bool {
        self.times == 1 || self.name == "HUP"
    }
}
const KINDS: [SignalKind; 6] = [
    SignalKind { name: "HUP", code: 129, times: 1 },
    SignalKind { name: "HUP", code: 129, times: 2 },
    SignalKind { name: "INT", code: 130, times: 1 },
    SignalKind { name: "TERM", code: 143, times: 1 },
    SignalKind { name: "INT", code: 130, times: 2 },
    SignalKind { name: "TERM", code: 143, times: 2 },
];

/// One claim for each kind.
pub fn claims(program: &TrainingProgram, undisturbed: &Undisturbed, each: usize, seed: u64) -> Vec<TortureClaim> {
    KINDS.iter().map(|kind| of_kind(program, undisturbed, kind, each, seed)).collect()
}
fn of_kind(program: &TrainingProgram, undisturbed: &Undisturbed, kind: &SignalKind, each: usize, seed: u64) -> TortureClaim {
    let sent = if kind.times == 1 { "" } else { " twice" };
    let text = match kind.saves() {
        true => {
            format!("SIG{}{sent}: a checkpoint of that step, exit code {} within {LONGEST} s, and the weights of the undisturbed run", kind.name, kind.code)
        }
        false => format!("SIG{}{sent}: exit code {} at once, and the weights of the undisturbed run", kind.name, kind.code),
    };
    claim(&text, |claim| {
        let mut draw = CaseDraw(seed ^ (kind.code as u64 * 10 + kind.times as u64));
        let (mut slowest, mut hit, mut missed) = (0f64, 0, 0);
        // A run that was faster than its signal is made again.
        for k in 0..20 * each {
            if hit == each {
                break;
            }
            let run = program.run(&format!("signal-{}-{}-{k}", kind.name, kind.times));
            let mut result = interrupt(program, &run, undisturbed, kind, &mut draw);
            if result == Ok(None) {
                missed += 1;
                let _ = std::fs::remove_dir_all(&run);
                continue;
            }
            hit += 1;
            if let Ok(Some(seconds)) = result {
                slowest = slowest.max(seconds);
                if seconds > LONGEST {
                    result = Err(format!("it took {seconds:.2} s to end"));
                }
            }
            claim.count(result.map(drop).map_err(|e| format!("interruption {k}: {e}")));
            let _ = std::fs::remove_dir_all(&run);
        }
        claim.seen = serde_json::json!({ "ended_before_the_signal_and_made_again": missed, "slowest_end_seconds": slowest });
        if hit == 0 { Err("no signal came while the program ran".into()) } else { Ok(()) }
    })
}
/// Interrupts a run. Returns the seconds to its end; none if it had ended.
fn interrupt(program: &TrainingProgram, run: &Path, undisturbed: &Undisturbed, kind: &SignalKind, draw: &mut CaseDraw) -> Result<Option<f64>, String> {
    let mut child = program.start(run, false, &[])?;
    // A signal that comes before the program has begun to train ends it as any program.
    while !run.join("checkpoints").is_dir() && alive(&mut child)? {
        std::thread::sleep(Duration::from_millis(1));
    }
    somewhere(&mut child, run, draw)?;
    let before = newest(run)?;
    let sent = Instant::now();
    for _ in 0..kind.times {
        signal(&child, kind.name)?;
    }
    let ended = ended(child, sent)?;
    match ended.code {
        Some(0) => return Ok(None),
        code if code != Some(kind.code) => return Err(format!("exit code {code:?}, not {}: {}", kind.code, ended.stderr)),
        _ => {}
    }
    let from = newest(run)?;
    if kind.saves() && (from.is_none() || from < before) {
        return Err(format!("before the signal the newest checkpoint was {before:?}, after it {from:?}"));
    }
    let again = program.finish(run, true, &[])?.well()?;
    as_undisturbed(run, &again, from, undisturbed)?;
    Ok(Some(ended.seconds))
}
/// Sends a signal, by the system's own command.
fn signal(child: &Child, name: &str) -> Result<(), String> {
    let done = Command::new("kill").args(["-s", name, &child.id().to_string()]).output().map_err(|e| format!("kill: {e}"))?;
    // A process that has just ended is no fault.
    let _ = done;
    Ok(())
}
