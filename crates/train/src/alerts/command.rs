//! The program that is told of alerts: a thread of its own starts it for each, a few at once, and kills what takes too long.
//!
//! No shell is involved: the first word is the program, each other word one argument, whatever stands in it after words in braces were replaced.
//! What is put in is not looked at again. A program has an empty stdin, its output is thrown away, and on Unix it is in a group of its own, so that
//! a Ctrl-C for the run does not reach it and what it has started ends with it when it is killed.
use super::desk::AlertLine;
use crate::{config::check::nearest, failure::shown};
use std::{
    collections::VecDeque,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Programs at once.
const MOST_AT_ONCE: usize = 4;
/// Alerts that wait for one of them to end; further ones are not told to the command.
const MOST_WAITING: usize = 64;
/// How often somebody looks whether programs have ended.
const LOOK: Duration = Duration::from_millis(20);
/// The longest time that a command may be given.
const LONGEST: Duration = Duration::from_secs(3600);
/// The variable with the line of `alerts.jsonl`.
const VARIABLE: &str = "ADAMANT_ALERT";
/// What is replaced in arguments.
const WORDS: [&str; 7] = ["name", "text", "metric", "value", "step", "epoch", "run"];

/// What is wrong with a command?
pub(super) fn check(command: &[String], timeout: Duration) -> Result<(), String> {
    if command.first().is_some_and(|program| program.trim().is_empty()) {
        return Err("`command` begins with the name of a program".into());
    }
    if timeout.is_zero() || timeout > LONGEST {
        return Err(format!("`timeout` is a number of seconds above 0, of at most {}", LONGEST.as_secs()));
    }
    for argument in command {
        if let Some(word) = words(argument).find(|word| !WORDS.contains(word)) {
            let hint = nearest(word, WORDS).map_or_else(|| format!("there are {{{}}}", WORDS.join("}, {")), |near| format!("did you mean `{{{near}}}`?"));
            return Err(format!("`command`: nothing is called `{{{}}}`; {hint}", shown(word)));
        }
    }
    Ok(())
}
/// Where words in braces begin and end: small letters alone, so that JSON in an argument stays what it is.
fn next_word(text: &str) -> Option<(usize, usize)> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    text.match_indices('{').find_map(|(begin, _)| {
        let rest = text.get(begin + 1..)?;
        let length = rest.find('}').filter(|end| rest.get(..*end).is_some_and(is_word))?;
        Some((begin, begin + length + 2))
    })
}
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (begin, end) = next_word(rest)?;
        let word = rest.get(begin + 1..end - 1)?;
        rest = rest.get(end..).unwrap_or_default();
        Some(word)
    })
}
/// An argument with what stands for its words in their places.
fn filled(argument: &str, alert: &AlertLine, run: &str) -> String {
    let (mut text, mut rest) = (String::new(), argument);
    while let Some((begin, end)) = next_word(rest) {
        text += rest.get(..begin).unwrap_or_default();
        match rest.get(begin + 1..end - 1).unwrap_or_default() {
            "name" => text += &alert.rule,
            "text" => text += &alert.text,
            "metric" => text += &alert.metric,
            "value" => text += &alert.value.map(|v| v.to_string()).unwrap_or_default(),
            "step" => text += &alert.step.to_string(),
            "epoch" => text += &alert.epoch.to_string(),
            "run" => text += run,
            other => text += &format!("{{{other}}}"),
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    text + rest
}

/// What is to be started.
struct AlertCall {
    arguments: Vec<String>,
    line: String,
}
/// The thread, until it is dropped; then all that was asked for is started, and waited for no longer than one command may take.
pub(super) struct AlertCommands {
    command: Vec<String>,
    run: String,
    calls: Option<SyncSender<AlertCall>>,
    fails: Sender<String>,
    failed: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    /// one failure was told
    warned: bool,
}
impl AlertCommands {
    pub fn start(command: &[String], run: String, timeout: Duration) -> AlertCommands {
        let ((calls, called), (fails, failed)) = (sync_channel(MOST_WAITING), channel());
        let mut started = StartedCommands { called, fails: fails.clone(), timeout, running: VecDeque::new(), until: None };
        let thread = std::thread::Builder::new().name("alerts".into()).spawn(move || started.serve());
        if let Err(e) = &thread {
            // It is read by this side.
            let _ = fails.send(format!("no thread for it: {e}"));
        }
        AlertCommands { command: command.to_vec(), run, calls: Some(calls), fails, failed, thread: thread.ok(), warned: false }
    }
    /// Has it started for an alert; whatever becomes of that, the caller does not wait.
    pub fn call(&mut self, alert: &AlertLine) {
        let arguments = self.command.iter().map(|argument| filled(argument, alert, &self.run)).collect();
        let line = alert.to_json().to_string();
        if let Some(calls) = &self.calls
            && let Err(TrySendError::Full(_)) = calls.try_send(AlertCall { arguments, line })
        {
            let _ = self.fails.send(format!("{MOST_WAITING} alerts wait for it already, and this one is not told to it"));
        }
    }
    fn warn_once(&mut self, why: &str) -> Option<String> {
        let program = self.command.first().map_or("", String::as_str);
        let is_first = !std::mem::replace(&mut self.warned, true);
        is_first.then(|| format!("the command of the alerts (`{}`): {why}; the run goes on, and further failures of it are not told", shown(program)))
    }
    /// The first failure, once.
    pub fn warning(&mut self) -> Option<String> {
        let why = self.failed.try_recv().ok()?;
        self.warn_once(&why)
    }
    /// Waits for what was asked for.
    pub fn finish(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
impl Drop for AlertCommands {
    fn drop(&mut self) {
        self.finish();
    }
}
/// The thread's state.
struct StartedCommands {
    called: Receiver<AlertCall>,
    fails: Sender<String>,
    timeout: Duration,
    running: VecDeque<(Child, Instant)>,
    /// nobody asks any more: when all has to be over
    until: Option<Instant>,
}
impl StartedCommands {
    fn serve(&mut self) {
        loop {
            let call = match (self.running.len(), self.until) {
                (0, None) => self.called.recv().map_err(|_| TryRecvError::Disconnected),
                (MOST_AT_ONCE.., _) => {
                    std::thread::sleep(LOOK);
                    Err(TryRecvError::Empty)
                }
                _ => self.called.recv_timeout(LOOK).map_err(|e| match e {
                    RecvTimeoutError::Timeout => TryRecvError::Empty,
                    RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                }),
            };
            let is_over = match call {
                Ok(call) => {
                    self.begin(&call);
                    false
                }
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => {
                    if self.until.is_none() {
                        self.until = Some(Instant::now() + self.timeout);
                    }
                    std::thread::sleep(if self.running.is_empty() { Duration::ZERO } else { LOOK });
                    true
                }
            };
            self.look();
            if is_over && self.running.is_empty() {
                return;
            }
        }
    }
    fn fail(&self, why: String) {
        // Where nobody listens there is nobody to tell.
        let _ = self.fails.send(why);
    }
    fn begin(&mut self, call: &AlertCall) {
        let Some((program, arguments)) = call.arguments.split_first() else { return };
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return self.fail("the run has ended before it could be started for each alert".into());
        }
        let mut command = Command::new(program);
        command.args(arguments).env(VARIABLE, &call.line).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(child) => self.running.push_back((child, Instant::now())),
            Err(e) => self.fail(format!("it cannot be started: {e}")),
        }
    }
    /// What has ended, and what has to.
    fn look(&mut self) {
        for _ in 0..self.running.len() {
            let Some((mut child, begun)) = self.running.pop_front() else { return };
            match child.try_wait() {
                Ok(None) if begun.elapsed() < self.timeout && self.until.is_none_or(|until| Instant::now() < until) => self.running.push_back((child, begun)),
                Ok(None) => {
                    kill(&mut child);
                    self.fail(format!("it was killed after {:.1} s", begun.elapsed().as_secs_f64()));
                }
                Ok(Some(status)) if !status.success() => self.fail(ended(status)),
                Ok(Some(_)) => {}
                Err(e) => self.fail(e.to_string()),
            }
        }
    }
}
fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it ended with code {code}"),
        None => format!("it was ended: {status}"),
    }
}
/// Ends a program, and on Unix all of its group.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(child), rustix::process::Signal::KILL);
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_argument_that_is_parsed_after_it_was_filled() {
        let alert = AlertLine {
            step: 7,
            epoch: 2,
            rule: "{text} $(rm -rf x); `ls`".into(),
            metric: "train/loss".into(),
            value: Some(0.5),
            text: "a \"b\" 'c'\n{name}".into(),
            suppressed: 0,
        };
        for (argument, want) in [
            ("{name}", "{text} $(rm -rf x); `ls`"),
            ("<{text}>", "<a \"b\" 'c'\n{name}>"),
            ("{\"at\": {step}}", "{\"at\": 7}"),
            ("{}{ {value}{epoch}{", "{}{ 0.52{"),
            ("{{run}}", "{here}"),
            ("äö{metric}ü", "äötrain/lossü"),
            ("", ""),
        ] {
            assert_eq!(filled(argument, &alert, "here"), want, "{argument}");
            assert!(check(&["x".into(), argument.into()], LOOK).is_ok(), "{argument}");
        }
        for (command, says) in [("{nme}", "did you mean `{name}`?"), ("{xyzxyz}", "there are {name}, {text}"), (" ", "begins with the name")] {
            assert!(check(&[command.into()], LOOK).unwrap_err().contains(says), "{command}");
        }
        assert!(check(&[], Duration::ZERO).is_err() && check(&[], Duration::MAX).is_err() && check(&[], LOOK).is_ok());
    }
}
