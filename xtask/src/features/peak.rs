//! The most memory that a program held, by the system's own mark of it (`VmHWM` of `/proc`): what was held at the moments
//! when somebody looked says less.
use super::Lacking;
use std::{
    error::Error,
    fs,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// How a system is had that keeps the mark.
const LINUX: &str = "run on Linux, with /proc mounted";

/// The mark of a process, in bytes.
fn mark(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
/// Runs a program, and tells the most megabytes (10^6 bytes) that were resident. The mark never falls, so that only what
/// came in the last fraction of a millisecond could be missed.
///
/// # Errors
/// It does not start; a system that does not tell.
pub fn of(command: &mut Command) -> Result<(Output, f64), Box<dyn Error>> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (id, done, most) = (child.id().to_string(), AtomicBool::new(false), AtomicU64::new(0));
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(mark(&id).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let output = child.wait_with_output();
        done.store(true, Ordering::Relaxed);
        output
    })?;
    match most.into_inner() {
        // One that ends before it could be looked at held nothing to speak of.
        0 if mark("self").is_none() => Err(Lacking::new("this system does not tell the most memory of a process", LINUX).into()),
        bytes => Ok((output, bytes as f64 / 1e6)),
    }
}
/// How many megabytes more than at its beginning this process held at most during `f`.
///
/// # Errors
/// What `f` gives; a system that does not tell.
pub fn growth<T>(f: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(T, f64), Box<dyn Error>> {
    let missing = || Lacking::new("this system does not let a process lower its own mark of the most memory", LINUX);
    // 5 sets the mark to what is resident now (proc(5), clear_refs).
    fs::write("/proc/self/clear_refs", "5").map_err(|_| missing())?;
    let before = mark("self").ok_or_else(missing)?;
    let result = f()?;
    let most = mark("self").ok_or_else(missing)?;
    Ok((result, most.saturating_sub(before) as f64 / 1e6))
}
