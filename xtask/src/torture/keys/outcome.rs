//! How the program took a description: what it said, how it ended, and what that cost.
use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde_json::Value;
use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

/// What a child may take before the system ends it: kilobytes of address space, and seconds of the processor. The first is the
/// limit under which nothing may abort; the second ends what would never end.
const ADDRESS_SPACE: &str = "2097152";
const PROCESSOR: &str = "10";

/// What came of one call.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub seconds: f64,
    /// the most that it had in memory, or what the largest child before it had
    pub bytes: u64,
}
impl Outcome {
    /// How it crashed, if it did.
    pub fn crashed(&self) -> Option<String> {
        match (self.code, self.signal) {
            (_, Some(signal)) => Some(format!("ended by signal {signal}")),
            (Some(101), _) => Some("a panic".into()),
            (Some(code @ (126..=127 | 131..)), _) => Some(format!("exit code {code}")),
            (None, None) => Some("no exit code".into()),
            _ => None,
        }
    }
    /// Parameters and floating-point operations of the model whose summary it is.
    pub fn costs(&self) -> Option<(u64, u64)> {
        let summary: Value = serde_json::from_str(&self.stdout).ok()?;
        Some((summary["parameters"].as_u64()?, summary["flops"].as_u64()?))
    }
    /// All that it says of the fault.
    pub fn told(&self) -> String {
        serde_json::from_str(&self.stdout).map(|document| messages(&document).join("\n")).unwrap_or_default()
    }
}
/// The messages of an error, or of the faults of a validation.
pub fn messages(document: &Value) -> Vec<String> {
    let one = |error: &Value| error["message"].as_str().map(str::to_string);
    document["faults"].as_array().into_iter().flatten().filter_map(one).chain(one(&document["error"])).collect()
}
/// Runs children one after another and measures each.
pub struct Measured {
    pub most_seconds: f64,
    pub most_bytes: u64,
}
impl Measured {
    pub fn new() -> Measured {
        Measured { most_seconds: 0.0, most_bytes: 0 }
    }
    /// Runs the program in a folder on the description there.
    pub fn run(&mut self, program: &Path, folder: &Path, verb: &[&str]) -> Result<Outcome, String> {
        let limited = format!("ulimit -v {ADDRESS_SPACE}; ulimit -t {PROCESSOR}; ulimit -c 0; exec \"$@\"");
        let before = used()?;
        let mut command = Command::new("sh");
        command.args(["-c", &limited, "sh"]).arg(program).args(verb).arg(super::subjects::FILE).arg("--json").current_dir(folder);
        command.stdin(Stdio::null()).env_remove("ADAMANT_DEVICE");
        let output = command.output().map_err(|e| format!("sh: {e}"))?;
        let after = used()?;
        let seconds = seconds(&after) - seconds(&before);
        // The most of all children so far: only where it rises is it this one's.
        let bytes = if after.max_rss() > before.max_rss() { after.max_rss().unsigned_abs() * 1024 } else { 0 };
        self.most_seconds = self.most_seconds.max(seconds);
        self.most_bytes = self.most_bytes.max(bytes);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        Ok(Outcome { code: output.status.code(), signal: output.status.signal(), stdout: text(&output.stdout), stderr: text(&output.stderr), seconds, bytes })
    }
}
fn used() -> Result<Usage, String> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| e.to_string())
}
fn seconds(usage: &Usage) -> f64 {
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + 1e-6 * time.tv_usec() as f64;
    of(usage.user_time()) + of(usage.system_time())
}
