//! The side of the pipe that measures: a program that was started with `bench serve`, and what it is asked.
//!
//! A [`Subject`] says how to start one; a [`Child`] is one that runs, and ends with its value. Every wait has a limit, so
//! that a program that does not speak the protocol is an error and not a hanging run.
use crate::{
    pin::{Core, OneCore},
    protocol::{Ask, ChildAnswer, Hello, PROTOCOL},
    workload::WorkloadForm,
};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// The longest wait for the first line: a program of another language loads its libraries meanwhile.
const HELLO: Duration = Duration::from_secs(300);
/// The longest wait for an answer: a compiler may run before a workload is prepared.
const ANSWER: Duration = Duration::from_secs(900);
/// The longest wait for the end of a program that has closed its pipes.
const LAST: Duration = Duration::from_secs(2);

/// How to start a program under test.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    /// what tables call it
    pub name: String,
    /// the program
    pub program: PathBuf,
    /// what stands before `bench serve`
    pub arguments: Vec<OsString>,
    /// variables of its environment
    pub variables: Vec<(String, String)>,
    /// its threads
    pub threads: usize,
    /// its device, where it may choose
    pub device: String,
    /// the form of its workloads
    pub form: WorkloadForm,
    /// names of facts that were chosen for it, and may therefore differ
    pub chosen: Vec<String>,
    /// so many calls are one, so that a share of the work can be added
    pub repeat: usize,
    /// it starts so quickly that each round may have a new process
    pub starts_quickly: bool,
    /// what stands behind the names of workloads here: another form of the same, `_compiled`
    pub suffix: String,
}
impl Subject {
    /// This program itself.
    ///
    /// # Errors
    /// The system does not say where it is.
    pub fn own(threads: usize, device: &str) -> std::io::Result<Subject> {
        Ok(Subject::program(std::env::current_exe()?, threads, device))
    }
    /// A program of this project.
    pub fn program(program: PathBuf, threads: usize, device: &str) -> Subject {
        let name = program.file_stem().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
        let (arguments, variables, chosen) = (Vec::new(), Vec::new(), Vec::new());
        Subject {
            name,
            program,
            arguments,
            variables,
            threads,
            device: device.into(),
            form: WorkloadForm::Plain,
            chosen,
            repeat: 1,
            starts_quickly: true,
            suffix: String::new(),
        }
    }
}

/// Why a program under test does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// It cannot be started.
    #[error("{name} cannot be started: {source}")]
    Start {
        /// the program
        name: String,
        /// the cause
        source: std::io::Error,
    },
    /// It ended, or closed its pipes.
    #[error("{name} ended {when}{said}")]
    Ended {
        /// the program
        name: String,
        /// when
        when: &'static str,
        /// the end of what it wrote to stderr
        said: String,
        /// how, where it ended by itself
        code: Option<i32>,
    },
    /// It says nothing.
    #[error("{name} said nothing for {seconds} s {when}")]
    Silent {
        /// the program
        name: String,
        /// so long
        seconds: u64,
        /// when
        when: &'static str,
    },
    /// It speaks another protocol.
    #[error("{name} speaks version {found} of the protocol; this program speaks version {PROTOCOL}")]
    Protocol {
        /// the program
        name: String,
        /// what it speaks
        found: u32,
    },
}

impl ChildError {
    /// The exit code of a program that ended by itself.
    pub fn code(&self) -> Option<i32> {
        if let ChildError::Ended { code, .. } = self { *code } else { None }
    }
}

/// A program under test that runs.
pub struct Child {
    process: std::process::Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    name: String,
    /// it is stopped, with all its threads
    rests: bool,
    /// what it said of itself
    pub hello: Hello,
}
impl Child {
    /// Starts it and hears what it is.
    ///
    /// # Errors
    /// It cannot be started, or does not speak the protocol.
    pub fn start(subject: &Subject) -> Result<Child, ChildError> {
        Child::start_on(subject, None, 0)
    }
    /// The same on a core, where it has one thread, and with so many bytes more in its environment: what stands there moves
    /// its stack, and with it what a loop takes (Mytkowicz and others, ASPLOS 2009).
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_on(subject: &Subject, core: Option<Core>, padding: usize) -> Result<Child, ChildError> {
        let start = |source| ChildError::Start { name: subject.name.clone(), source };
        let threads = subject.threads.to_string();
        let mut command = Command::new(&subject.program);
        command.args(&subject.arguments).args(["bench", "serve", "--threads", &threads, "--device", &subject.device]);
        // A program that knows of none refuses it, and does not run in f32 what would be called bf16.
        match subject.form {
            WorkloadForm::Plain => {}
            WorkloadForm::Precision(dtype) => drop(command.args(["--precision", &dtype.to_string()])),
            WorkloadForm::Watched(kind) => drop(command.args(["--stability", kind.name()])),
        }
        // What libraries of threads read.
        for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
            command.env(name, &threads);
        }
        command.envs(subject.variables.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("ADAMANT_BENCH_PADDING", "x".repeat(padding));
        let one_core = (subject.threads == 1).then(|| OneCore::enter(core));
        let mut process = command.spawn().map_err(start)?;
        drop(one_core);
        let gone = || start(std::io::Error::other("it has no pipes"));
        let input = process.stdin.take().ok_or_else(gone)?;
        let (output, stderr) = process.stdout.take().zip(process.stderr.take()).ok_or_else(gone)?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            // Libraries print what they like; only documents count.
            let documents = BufReader::new(output).lines().map_while(Result::ok).filter(|l| l.starts_with('{'));
            for line in documents {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            // The last lines are kept; all are read, so that it never waits for a reader.
            let mut last = std::collections::VecDeque::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                last.push_back(line);
                if last.len() > 4 {
                    last.pop_front();
                }
            }
            last.into_iter().collect::<Vec<_>>().join("\n")
        });
        let hello = Hello { protocol: PROTOCOL, implementation: subject.name.clone(), version: String::new(), facts: Default::default() };
        let mut child = Child { process, input, lines, errors: Some(errors), name: subject.name.clone(), rests: false, hello };
        let line = child.line(HELLO, "before its first line")?;
        match serde_json::from_str::<Hello>(&line) {
            Ok(hello) if hello.protocol == PROTOCOL => child.hello = hello,
            Ok(hello) => return Err(ChildError::Protocol { name: child.name.clone(), found: hello.protocol }),
            Err(_) => return Err(ChildError::Protocol { name: child.name.clone(), found: 0 }),
        }
        Ok(child)
    }
    fn line(&mut self, limit: Duration, when: &'static str) -> Result<String, ChildError> {
        self.lines.recv_timeout(limit).map_err(|e| match e {
            RecvTimeoutError::Timeout => ChildError::Silent { name: self.name.clone(), seconds: limit.as_secs(), when },
            RecvTimeoutError::Disconnected => {
                let code = self.ended();
                let said = self.errors.take().and_then(|e| e.join().ok()).filter(|s| !s.is_empty()).map(|s| format!(": {s}"));
                ChildError::Ended { name: self.name.clone(), when, said: said.unwrap_or_default(), code }
            }
        })
    }
    /// The exit code of a program that has closed its pipes; one that goes on all the same is ended.
    fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < LAST {
            match self.process.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        let _ = self.process.kill();
        None
    }
    /// Stops it with all its threads until it is woken, so that none that waits by spinning takes a core from another
    /// program's sample. Where the system cannot, it goes on.
    pub(crate) fn rest(&mut self) {
        self.rests = self.rests || let_run(&self.process, false);
    }
    /// Lets it go on.
    pub(crate) fn wake(&mut self) {
        self.rests = self.rests && !let_run(&self.process, true);
    }
    /// Asks and waits for the answer; it must be awake.
    ///
    /// # Errors
    /// It ended, or says nothing.
    pub fn ask(&mut self, ask: &Ask) -> Result<ChildAnswer, ChildError> {
        let sent = serde_json::to_string(ask).map_err(std::io::Error::from).and_then(|text| writeln!(self.input, "{text}").and_then(|()| self.input.flush()));
        // A broken pipe shows as the end of its lines, with what it said.
        let _ = sent;
        let line = self.line(ANSWER, "when it was asked")?;
        Ok(serde_json::from_str(&line).unwrap_or_else(|e| ChildAnswer { error: Some(format!("its answer is not understood: {e}")), ..ChildAnswer::default() }))
    }
    /// The names of its workloads.
    ///
    /// # Errors
    /// It ended, or says nothing.
    pub fn workloads(&mut self) -> Result<Vec<String>, ChildError> {
        Ok(self.ask(&Ask::List)?.workloads)
    }
}

/// Stops a process with all its threads, or lets it go on. Was it told?
#[cfg(target_os = "linux")]
fn let_run(process: &std::process::Child, on: bool) -> bool {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_child(process), if on { Signal::CONT } else { Signal::STOP }).is_ok()
}
#[cfg(not(target_os = "linux"))]
fn let_run(_: &std::process::Child, _: bool) -> bool {
    false
}

/// What three calls of a workload take in a process that did nothing before, and how many of its plans are found again.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Fresh {
    /// bytes by which its most is above its level before the first call; nothing where the system does not tell
    pub growth: Option<u64>,
    /// from the third call on, the share of plans that were made before; nothing where a program has no plans
    pub plan_hits: Option<f64>,
}
impl Fresh {
    /// Starts the program anew for each of both; what it does not answer is nothing.
    pub fn of(subject: &Subject, workload: &str, small: bool) -> Fresh {
        let asked = |ask: Ask| {
            let mut child = Child::start(subject).ok()?;
            let prepare = Ask::Prepare { workload: format!("{workload}{}", subject.suffix), small, check: false, repeat: 1 };
            child.ask(&prepare).ok()?.error.is_none().then_some(())?;
            child.ask(&ask).ok()
        };
        let growth = asked(Ask::Memory { calls: 3 }).and_then(|a| a.growth);
        // Who starts slowly is another framework, and knows no plans.
        let plan_hits = if subject.starts_quickly { asked(Ask::Plans { calls: 4 }).and_then(|a| a.plan_hits) } else { None };
        Fresh { growth, plan_hits }
    }
}
impl Drop for Child {
    fn drop(&mut self) {
        // It holds nothing that outlives it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Subject {
        Subject { arguments: vec!["-c".into(), script.into()], name: "shell".into(), ..Subject::program("/bin/sh".into(), 1, "cpu") }
    }
    #[test]
    fn a_program_that_does_not_speak_the_protocol() {
        for (script, what) in [
            ("echo here >&2; exit 3", "shell ended before its first line: here"),
            ("echo '{\"protocol\": 7, \"impl\": \"x\"}'; cat", "speaks version 7"),
            ("echo '{\"no\": 1}'; cat", "speaks version 0"),
        ] {
            let said = Child::start(&shell(script)).err().map(|e| e.to_string());
            assert!(said.as_deref().is_some_and(|s| s.contains(what)), "{said:?}");
        }
        let code = |script| Child::start(&shell(script)).err().and_then(|e| e.code());
        assert_eq!((code("exit 9"), code("exec >&-; exec sleep 60")), (Some(9), None));
        let missing = Subject::program("/no/such/program".into(), 1, "cpu");
        assert!(matches!(Child::start(&missing), Err(ChildError::Start { .. })));
    }
    #[test]
    fn an_answer_among_what_a_library_prints() {
        let script =
            "echo Loading; echo '{\"protocol\": 1, \"impl\": \"x\"}'; read line; echo warning: 1; echo '{\"workloads\": [\"a\", \"b\"]}'; read line; exit";
        let mut child = Child::start(&shell(script)).unwrap();
        assert_eq!(child.workloads().unwrap(), ["a", "b"]);
        assert!(child.workloads().unwrap_err().to_string().contains("ended when it was asked"));
    }
    #[test]
    #[cfg(target_os = "linux")]
    fn who_rests_does_nothing_until_it_is_woken() {
        let script = "echo '{\"protocol\": 1, \"impl\": \"x\"}'; read line; echo '{\"workloads\": [\"a\"]}'; read line; exit";
        let mut child = Child::start(&shell(script)).unwrap();
        let state = |child: &Child| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.process.id())).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next().unwrap()
        };
        child.rest();
        while state(&child) != 'T' {
            std::thread::yield_now();
        }
        child.wake();
        assert_eq!(child.workloads().unwrap(), ["a"]);
        assert_ne!(state(&child), 'T');
    }
}
