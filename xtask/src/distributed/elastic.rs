//! Ranks that are killed again and again under `adamant launch --elastic`: the others go on in the same processes, newcomers come, and the run ends
//! with the files of one that nobody has disturbed.
//!
//! What is measured, from outside: the launcher's lines tell when ranks go on in a new group, and `metrics.jsonl`, which gets a line with each step,
//! when they have learned. *Going on* is from the kill until two lines more are there than when the new group was told (the first may be one that a new
//! leader wrote again). *Rejoining* is how long the newcomer waited, as the launcher tells, and from there until two lines more.
use super::{
    ElasticOptions,
    bits::{FileHashes, hashes},
    job::{RankedTraining, set},
    kill::{leftovers, told},
};
use crate::torture::{CaseDraw, TortureClaim, claim};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

/// Nothing is waited for longer.
const DEADLINE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(1);
const GOES_ON: Duration = Duration::from_secs(1);
const REJOINS: Duration = Duration::from_secs(2);
const ENDS: Duration = Duration::from_secs(2);

/// A launcher that runs.
struct ElasticLaunch {
    child: Child,
    /// its lines, and those of its ranks, and when they came
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    reader: Option<JoinHandle<()>>,
    run: PathBuf,
}
/// A rank of a launcher.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LivingProcess {
    id: i32,
    leads: bool,
}
impl ElasticLaunch {
    fn start(program: &RankedTraining, options: &[&str], description: &Path, run: &Path, values: &[String]) -> Result<ElasticLaunch, String> {
        let mut command = Command::new(program.program());
        command.arg("launch").args(options).args(["--", "adamant", "train"]).arg(description).arg("--run").arg(run);
        command.args(["--quiet", "--no-control", "--resume", "auto", "--threads", "1"]).args(values);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", program.program().display()))?;
        let lines = Arc::<Mutex<Vec<(Instant, String)>>>::default();
        let (to, from) = (lines.clone(), child.stderr.take());
        let read = move || {
            for line in from.into_iter().flat_map(|from| BufReader::new(from).lines().map_while(Result::ok)) {
                to.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
            }
        };
        Ok(ElasticLaunch { child, lines, reader: Some(std::thread::spawn(read)), run: run.to_path_buf() })
    }
    fn said(&self) -> Vec<(Instant, String)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn text(&self) -> String {
        let said = self.said();
        let last = said.len().saturating_sub(12);
        said[last..].iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join(" | ")
    }
    fn is_over(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
    /// Its ranks that live, and which of them writes the run's lines.
    fn ranks(&self) -> Vec<LivingProcess> {
        let metrics = self.run.join("metrics.jsonl");
        let own = self.child.id();
        let of_launcher = |id: i32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let mut words = stat.rsplit_once(") ")?.1.split(' ');
            let (state, parent) = (words.next()?, words.next()?);
            let is_rank = state != "Z" && parent.parse() == Ok(own) && is_training(id);
            is_rank.then(|| LivingProcess {
                id,
                leads: fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == metrics)),
            })
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        all.filter_map(of_launcher).collect()
    }
    fn metrics_bytes(&self) -> u64 {
        fs::metadata(self.run.join("metrics.jsonl")).map_or(0, |meta| meta.len())
    }
    /// Waits for a line behind so many; none: the job is over.
    fn wait_for(&mut self, behind: usize, is: impl Fn(&str) -> bool) -> Result<Option<(usize, Instant, String)>, String> {
        let begun = Instant::now();
        loop {
            let found = self.said().into_iter().enumerate().skip(behind).find(|(_, (_, line))| is(line)).map(|(k, (at, line))| (k, at, line));
            if found.is_some() {
                return Ok(found);
            }
            if self.is_over() {
                return Ok(None);
            }
            if begun.elapsed() > DEADLINE {
                return Err(format!("nothing was said for {} s: {}", DEADLINE.as_secs(), self.text()));
            }
            sleep(LOOK);
        }
    }
    /// Waits until two lines more are there; none: the job is over.
    fn wait_for_lines(&mut self) -> Result<Option<Instant>, String> {
        let (begun, first) = (Instant::now(), self.metrics_bytes());
        let longest = fs::read_to_string(self.run.join("metrics.jsonl")).unwrap_or_default().lines().map(str::len).max().unwrap_or(200) as u64 + 1;
        loop {
            if self.metrics_bytes() > first + longest {
                return Ok(Some(Instant::now()));
            }
            if self.is_over() {
                return Ok(None);
            }
            if begun.elapsed() > DEADLINE {
                return Err(format!("no step for {} s: {}", DEADLINE.as_secs(), self.text()));
            }
            sleep(LOOK);
        }
    }
    fn wait(&mut self) -> Result<ExitStatus, String> {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if begun.elapsed() > DEADLINE => return Err(format!("the job hangs: {}", self.text())),
                None => sleep(LOOK),
            }
        };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        Ok(status)
    }
}
impl Drop for ElasticLaunch {
    fn drop(&mut self) {
        // Its ranks go with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
/// The launcher's guard has the launcher's command line.
fn is_training(id: i32) -> bool {
    fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"train"))
}
fn signal(process: LivingProcess, signal: Signal) -> Result<(), String> {
    kill(Pid::from_raw(process.id), signal).map_err(|e| format!("process {}: {e}", process.id))
}
/// What is measured over all kills.
#[derive(Default)]
struct KillTimes {
    goes_on: Vec<Duration>,
    rejoins: Vec<Duration>,
    all_again: Vec<Duration>,
    kills: usize,
    of_leaders: usize,
    two_at_once: usize,
    before_the_first_step: usize,
    runs: usize,
}
pub fn claims(options: &ElasticOptions) -> Vec<TortureClaim> {
    let (program, description) = match RankedTraining::with_short_steps(&options.common) {
        Ok(made) => made,
        Err(e) => return vec![claim("the program", |_| Err(e))],
    };
    let values = set(&[
        format!("distributed.shards={}", 2 * options.ranks),
        format!("iterations={}", options.steps),
        "log_every=1".into(),
        "checkpoint.every=100".into(),
    ]);
    let plain = program.place("undisturbed");
    let want = match program.finish(1, &description, &plain, &values).and_then(|()| hashes(&plain)) {
        Ok(want) => want,
        Err(e) => return vec![claim("the undisturbed run", |_| Err(e))],
    };
    let mut times = KillTimes::default();
    let text = format!(
        "{} kills of {} ranks, in runs that go on and end with the sha256 of weights, slots and metrics.jsonl of the undisturbed one",
        options.n, options.ranks
    );
    let bits = claim(&text, |claim| {
        let mut draw = CaseDraw::new(options.seed);
        while times.kills < options.n {
            let before = times.kills;
            let run = program.place(&format!("run-{}", times.runs));
            times.runs += 1;
            claim.count(one_run(&program, options, (&description, &run, &values), &want, &mut draw, &mut times));
            let _ = fs::remove_dir_all(&run);
            if times.kills == before {
                return Err("a run that was over before anybody was killed: give it more --steps".into());
            }
        }
        let counts = serde_json::json!({
            "kills": times.kills, "of_leaders": times.of_leaders, "two_at_once": times.two_at_once, "before_the_first_step": times.before_the_first_step, "runs": times.runs,
        });
        claim.see(counts);
        leftovers()
    });
    let within = |text: &str, all: &mut [Duration], most: Duration| {
        claim(text, |claim| {
            all.iter().for_each(|took| claim.count(if *took <= most { Ok(()) } else { Err(format!("{} ms", took.as_millis())) }));
            claim.see(told(all));
            Ok(())
        })
    };
    let goes_on = within("from a kill until those who are left have made a step: 1 s at most", &mut times.goes_on, GOES_ON);
    let rejoins = within("from when a newcomer is ready until it has made a step with the others: 2 s at most", &mut times.rejoins, REJOINS);
    let all_again = within("from a kill until all are there again, with the newcomer's start", &mut times.all_again, DEADLINE);
    let terms = claim("SIGTERM to one rank: all save behind one step, exit 143 within 2 s; gone on with, the same sha256", |claim| {
        let mut draw = CaseDraw::new(options.seed ^ 0x7e);
        let mut ends = Vec::new();
        for k in 0..options.terms {
            let run = program.place(&format!("term-{k}"));
            claim.count(one_term(&program, options, (&description, &run, &values), &want, &mut draw, &mut ends));
        }
        claim.see(told(&mut ends));
        leftovers()
    });
    vec![bits, goes_on, rejoins, all_again, terms, ends_for_good(&program, options, &description, &values), refusals(&program, &description)]
}
fn elastic_options(ranks: usize) -> Vec<String> {
    ["-n", &ranks.to_string(), "--elastic", &format!("2:{ranks}"), "--max-restarts", "1000000", "--leave-out", "1000000:1s", "--timeout", "30s"]
        .map(String::from)
        .to_vec()
}
/// One run, whose ranks are killed until it is over.
fn one_run(
    program: &RankedTraining,
    options: &ElasticOptions,
    (description, run, values): (&Path, &Path, &[String]),
    want: &FileHashes,
    draw: &mut CaseDraw,
    times: &mut KillTimes,
) -> Result<(), String> {
    let arguments = elastic_options(options.ranks);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut job = ElasticLaunch::start(program, &arguments, description, run, values)?;
    let mut port = None;
    // A third of the first kills fall into the start.
    sleep(Duration::from_millis(draw.below(1500)));
    while times.kills < options.n && !job.is_over() {
        let ranks = job.ranks();
        port = port.or_else(|| ranks.first().and_then(|rank| port_of(*rank)));
        let leader = ranks.iter().find(|rank| rank.leads).copied();
        let victim = match leader {
            Some(leader) if draw.below(3) == 0 => leader,
            _ => match ranks.get(draw.below(ranks.len() as u64) as usize) {
                Some(rank) => *rank,
                None => continue,
            },
        };
        let second = ranks.iter().find(|rank| **rank != victim).copied().filter(|_| options.ranks > 3 && draw.below(5) == 0);
        let (behind, had_learned) = (job.said().len(), job.metrics_bytes() > 0);
        let begun = Instant::now();
        if signal(victim, Signal::SIGKILL).is_err() {
            continue;
        }
        times.kills += 1;
        times.of_leaders += usize::from(victim.leads || second.is_some_and(|second| second.leads));
        times.before_the_first_step += usize::from(!had_learned);
        if let Some(second) = second.filter(|second| signal(*second, Signal::SIGKILL).is_ok()) {
            times.kills += 1;
            times.two_at_once += 1;
            let _ = second;
        }
        let Some((at, ..)) = job.wait_for(behind, |line| line.contains("ranks go on (epoch"))? else { break };
        // Before the first step of all, what it takes is the program's start.
        let Some(learned) = job.wait_for_lines()? else { break };
        if had_learned {
            times.goes_on.push(learned.saturating_duration_since(begun));
        }
        // Some are killed before the newcomer is there.
        if draw.below(4) == 0 {
            sleep(Duration::from_millis(draw.below(300)));
            continue;
        }
        let all = format!("{0} of {0} ranks go on (epoch", options.ranks);
        let Some((_, told_at, line)) = job.wait_for(at, |line| line.contains(&all))? else { break };
        let Some(learned) = job.wait_for_lines()? else { break };
        let waited = line.split("who waited ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        times.rejoins.extend(waited.map(|waited| Duration::from_millis(waited) + learned.saturating_duration_since(told_at)));
        times.all_again.push(learned.saturating_duration_since(begun));
        sleep(Duration::from_millis(draw.below(400)));
    }
    let status = job.wait()?;
    if status.code() != Some(0) {
        return Err(format!("the job ended with {status}: {}", job.text()));
    }
    if port.is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_err()) {
        return Err("the port at which the ranks met is still taken".into());
    }
    match hashes(run)? {
        got if got == *want => Ok(()),
        got => {
            let other: Vec<&String> = got.iter().zip(want).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
            Err(format!("run {}: other bits: {other:?}; {}", times.runs, job.text()))
        }
    }
}
fn port_of(rank: LivingProcess) -> Option<u16> {
    let environment = fs::read(format!("/proc/{}/environ", rank.id)).ok()?;
    String::from_utf8_lossy(&environment).split('\0').find_map(|line| line.strip_prefix("MASTER_PORT=")?.parse().ok())
}
/// One run that SIGTERM to a rank ends, and that is gone on with.
fn one_term(
    program: &RankedTraining,
    options: &ElasticOptions,
    (description, run, values): (&Path, &Path, &[String]),
    want: &FileHashes,
    draw: &mut CaseDraw,
    ends: &mut Vec<Duration>,
) -> Result<(), String> {
    let arguments = elastic_options(options.ranks);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut job = ElasticLaunch::start(program, &arguments, description, run, values)?;
    if job.wait_for_lines()?.is_none() {
        return Err(format!("over before it was to end: {}", job.text()));
    }
    sleep(Duration::from_millis(draw.below(500)));
    let ranks = job.ranks();
    // Half of the time somebody was killed just before.
    if draw.below(2) == 0
        && let Some(rank) = ranks.first()
    {
        signal(*rank, Signal::SIGKILL)?;
        sleep(Duration::from_millis(draw.below(60)));
    }
    let Some(rank) = ranks.get(1 + draw.below(ranks.len() as u64 - 1) as usize) else { return Err("no ranks".into()) };
    signal(*rank, Signal::SIGTERM)?;
    let begun = Instant::now();
    let status = job.wait()?;
    let took = begun.elapsed();
    ends.push(took);
    if status.code() != Some(143) {
        return Err(format!("it ended with {status}: {}", job.text()));
    }
    if took > ENDS {
        return Err(format!("it ended after {} ms: {}", took.as_millis(), job.text()));
    }
    let steps: Vec<u64> =
        job.said().iter().filter_map(|(_, line)| line.split("after step ").nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect();
    if steps.len() < 2 || steps.iter().any(|step| *step != steps[0]) {
        return Err(format!("they ended behind these steps: {steps:?}; {}", job.text()));
    }
    let saved = fs::read_dir(run.join("checkpoints"))
        .map_err(|e| e.to_string())?
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy() == format!("step-{:08}", steps[0]));
    if !saved {
        return Err(format!("there is no checkpoint of step {}: {}", steps[0], job.text()));
    }
    let mut job = ElasticLaunch::start(program, &arguments, description, run, values)?;
    match job.wait()?.code() {
        Some(0) if hashes(run)? == *want => Ok(()),
        code => Err(format!("gone on with, it ended with {code:?} or other bits: {}", job.text())),
    }
}
/// Too few are left; the launcher is killed.
fn ends_for_good(program: &RankedTraining, options: &ElasticOptions, description: &Path, values: &[String]) -> TortureClaim {
    claim("too few are left: exit 7 on those; the launcher is killed: nobody is left", |claim| {
        for k in 0..2 {
            let run = program.place(&format!("good-{k}"));
            let mut job = ElasticLaunch::start(program, &["-n", "2", "--elastic", "2:2", "--max-restarts", "0", "--timeout", "5s"], description, &run, values)?;
            if job.wait_for_lines()?.is_none() {
                return Err(format!("over before it was to end: {}", job.text()));
            }
            let ranks = job.ranks();
            let Some(rank) = ranks.iter().find(|rank| rank.leads == (k == 0)) else { return Err("no ranks".into()) };
            signal(*rank, Signal::SIGKILL)?;
            let status = job.wait()?;
            let text = job.text();
            // The first cause is the kill; who is left says that it has lost somebody.
            let is_right = status.code() == Some(137) && text.contains("no more are started") && text.contains("is lost");
            claim.count(if is_right { Ok(()) } else { Err(format!("{status}: {text}")) });
        }
        let run = program.place("launcher");
        let arguments = elastic_options(options.ranks);
        let mut job = ElasticLaunch::start(program, &arguments.iter().map(String::as_str).collect::<Vec<_>>(), description, &run, values)?;
        job.wait_for_lines()?;
        let ranks = job.ranks();
        job.child.kill().map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let lives = |rank: &LivingProcess| fs::read_to_string(format!("/proc/{}/stat", rank.id)).is_ok_and(|stat| !stat.contains(") Z"));
        while begun.elapsed() < ENDS && ranks.iter().any(lives) {
            sleep(LOOK);
        }
        claim.count(if ranks.is_empty() || ranks.iter().any(lives) { Err("ranks live on without their launcher".into()) } else { Ok(()) });
        job.wait()?;
        // The guard ends behind the ranks.
        while begun.elapsed() < ENDS && leftovers().is_err() {
            sleep(LOOK);
        }
        leftovers()
    })
}
/// What is not elastic is refused before anything is started.
fn refusals(program: &RankedTraining, description: &Path) -> TortureClaim {
    claim("--elastic with what is not elastic, or with numbers that make no sense: exit 2, and why", |claim| {
        let run = program.place("refused");
        let cases: [(&[&str], &str); 4] = [
            (&["-n", "2", "--elastic", "1:2", "--engine", "mpi"], "mpi is not elastic"),
            (&["-n", "4", "--elastic", "1:2"], "not within --elastic 1:2"),
            (&["-n", "1", "--elastic", "2:3"], "not within --elastic 2:3"),
            (&["-n", "2", "--elastic", "3:2"], "the least and the most ranks"),
        ];
        for (options, why) in cases {
            let mut job = ElasticLaunch::start(program, options, description, &run, &[])?;
            let status = job.wait()?;
            let text = job.said().iter().map(|(_, line)| line.clone()).collect::<Vec<_>>().join(" | ");
            claim.count(if status.code() == Some(2) && text.contains(why) && !run.exists() { Ok(()) } else { Err(format!("{options:?}: {status}: {text}")) });
        }
        Ok(())
    })
}
