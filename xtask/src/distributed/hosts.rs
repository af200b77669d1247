//! Two hosts, which are two network namespaces of this one with a cable between them: ranks on both learn what one process learns, to the
//! bit, and say whom they lost when the cable is pulled. Between them Open MPI goes over TCP; its launcher reaches the other host by a
//! script that enters the namespace, in the place of ssh.
use super::{
    CommonOptions, bits,
    job::{EndedRank, RankJob, RankedTraining, set},
};
use crate::torture::{TortureClaim, claim};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Options of `hosts`.
#[derive(clap::Args)]
pub struct HostsOptions {
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Steps of a run
    #[arg(long, default_value_t = 60)]
    steps: u64,
    /// How many ranks, half of them on each host
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    ranks: Vec<usize>,
    /// How often the cable is pulled
    #[arg(long, default_value_t = 3)]
    cuts: usize,
    /// One JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}
const SHARDS: usize = 8;
/// So long ranks wait for each other where the cable is pulled; then they have said so within a second.
const PATIENCE: Duration = Duration::from_secs(5);
const WITHIN: Duration = Duration::from_secs(6);
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const NETWORK: &str = "10.77.0.0/24";
/// The exit code of a rank that lost another one.
const PEER_LOST: i32 = 7;

pub fn claims(options: &HostsOptions) -> Vec<TortureClaim> {
    let texts = [
        format!("digits CNN on {:?} ranks of two hosts, over TCP: the sha256 of one rank", options.ranks),
        "`adamant launch --hosts A,B`: the same, on the last of these".to_string(),
        format!("a cable that is pulled: every rank says within {:.0} s whom it lost, with a timeout of {:.0} s", WITHIN.as_secs_f64(), PATIENCE.as_secs_f64()),
        "`adamant launch --hosts A,B --engine local` is refused, and told what to install".to_string(),
    ];
    let hosts = match TwoHosts::new() {
        Ok(hosts) => hosts,
        Err(why) => return texts[..3].iter().map(|text| TortureClaim::skipped(text, why.clone())).collect(),
    };
    let common = CommonOptions { program: options.program.clone(), ..CommonOptions::local() };
    let made = RankedTraining::new(&common).and_then(|program| Ok((bits::digits_cnn(&program)?, program)));
    let (description, program) = match made {
        Ok(made) => made,
        Err(e) => return vec![claim("the program and its data", |_| Err(e))],
    };
    let values = set(&[format!("iterations={}", options.steps), format!("distributed.shards={SHARDS}"), format!("checkpoint.every={}", options.steps / 2)]);
    let alone = program.place("alone");
    let want = program.finish(1, &description, &alone, &values).and_then(|()| bits::hashes(&alone));
    let last = options.ranks.last().copied().unwrap_or(2);
    let same = |run: &Path, ranks: usize| want.clone().and_then(|want| bits::compare(run, &want, ranks));
    vec![
        claim(&texts[0], |claim| {
            for ranks in &options.ranks {
                let run = program.place(&format!("hosts-{ranks}"));
                let command = hosts.mpirun(*ranks, &training(&program, &description, &run, &values), &[]);
                claim.count(finished(command).and_then(|()| same(&run, *ranks)));
            }
            Ok(())
        }),
        claim(&texts[1], |claim| {
            let run = program.place("launched");
            let mut words = vec![program.program().display().to_string()];
            words.extend(["launch", "-n", &last.to_string(), "--max-restarts", "0", "--hosts", &ADDRESSES.join(","), "--"].map(String::from));
            words.extend(training(&program, &description, &run, &values));
            claim.count(finished(hosts.within(0, &words)).and_then(|()| same(&run, last)));
            Ok(())
        }),
        claim(&texts[2], |claim| {
            let mut latest = Duration::ZERO;
            for k in 0..options.cuts {
                let run = program.place(&format!("cut-{k}"));
                let endless = set(&["iterations=1000000".to_string(), format!("distributed.shards={SHARDS}"), "log_every=1".into()]);
                let words = training(&program, &description, &run, &endless);
                claim.count(hosts.cut(last, &words, &program.place(&format!("told-{k}")), &run, k).map(|took| latest = latest.max(took)));
            }
            claim.see(serde_json::json!({ "latest_ms": latest.as_millis() as u64 }));
            Ok(())
        }),
        claim(&texts[3], |claim| {
            let said = Command::new(program.program()).args(["launch", "-n", "2", "--hosts", "a,b", "--engine", "local", "--", "true"]).output();
            let said = said.map_err(|e| e.to_string())?;
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            let is_told = said.status.code() == Some(2) && text.contains("one host") && text.contains("openmpi-bin");
            claim.count(if is_told { Ok(()) } else { Err(format!("{}: {}", said.status, text.trim())) });
            claim.see(serde_json::json!(text.trim()));
            Ok(())
        }),
    ]
}
fn training(program: &RankedTraining, description: &Path, run: &Path, values: &[String]) -> Vec<String> {
    let (program, description, run) = (program.program().display().to_string(), description.display().to_string(), run.display().to_string());
    let mut words = vec![program, "train".into(), description, "--run".into(), run];
    words.extend(["--quiet", "--no-control", "--threads", "1"].map(String::from));
    words.extend(values.iter().cloned());
    words
}
fn finished(command: Command) -> Result<(), String> {
    let mut job = RankJob::default();
    job.begin(command)?;
    match job.wait()?.into_iter().next() {
        Some(EndedRank { code: Some(0), .. }) => Ok(()),
        Some(ended) => Err(format!("the launcher ended with {:?}: {}", ended.code, ended.stderr.trim())),
        None => Err("nothing was started".into()),
    }
}

/// Two network namespaces with a cable, and the script that enters the second. They are gone when this is.
struct TwoHosts {
    names: [String; 2],
    place: tempfile::TempDir,
}
fn ran(program: &str, arguments: &[&str]) -> Result<(), String> {
    let told = |e: String| format!("`{program} {}`: {e}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output().map_err(|e| told(e.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(told(String::from_utf8_lossy(&output.stderr).trim().into())) }
}
fn ip(line: &str) -> Result<(), String> {
    ran("ip", &line.split_whitespace().collect::<Vec<_>>())
}
impl TwoHosts {
    /// # Errors
    /// What is missing: Open MPI, iproute2, the right to make namespaces.
    fn new() -> Result<TwoHosts, String> {
        let said = Command::new("mpirun").arg("--version").output().map_err(|_| "`mpirun` is not there: install openmpi-bin")?;
        if !String::from_utf8_lossy(&said.stdout).contains("Open MPI") {
            return Err("`mpirun` is not that of Open MPI, whose launch agent can be another than ssh: install openmpi-bin".into());
        }
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        // Names of links have 15 letters at most.
        let names = ["a", "b"].map(|side| format!("adm{}{side}", std::process::id() % 1_000_000));
        let hosts = TwoHosts { names, place };
        let may = |e: String| format!("two network namespaces cannot be made (iproute2, as root): {e}");
        hosts.wired().map_err(may)?;
        // What mpirun calls in the place of ssh: the host's name first, then the command.
        let agent = format!("#!/bin/sh\nshift\nexec ip netns exec {0} unshare -u sh -c \"hostname {0}; $*\"\n", hosts.names[1]);
        let path = hosts.agent();
        fs::write(&path, agent).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755))).map_err(|e| e.to_string())?;
        Ok(hosts)
    }
    fn agent(&self) -> PathBuf {
        self.place.path().join("agent.sh")
    }
    fn wired(&self) -> Result<(), String> {
        let [a, b] = &self.names;
        self.names.iter().try_for_each(|name| ip(&format!("netns add {name}")))?;
        ip(&format!("link add {a} type veth peer name {b}"))?;
        for (name, address) in self.names.iter().zip(ADDRESSES) {
            ip(&format!("link set {name} netns {name}"))?;
            ip(&format!("-n {name} addr add {address}/24 dev {name}"))?;
            ip(&format!("-n {name} link set {name} up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(())
    }
    /// A command on one of the hosts, which has a name of its own.
    fn within(&self, host: usize, words: &[String]) -> Command {
        let name = &self.names[host];
        let mut command = Command::new("ip");
        let first = format!("hostname {name}; exec \"$@\"");
        command.args(["netns", "exec", name, "unshare", "-u", "sh", "-c", &first, "sh"]).args(words);
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"), ("ADAMANT_NUM_THREADS", "1")]);
        // Open MPI 4 and 5 have other names for the same.
        for (name, value) in
            [("plm_rsh_agent", self.agent().display().to_string()), ("btl_tcp_if_include", NETWORK.into()), ("oob_tcp_if_include", NETWORK.into())]
        {
            command.env(format!("OMPI_MCA_{name}"), &value).env(format!("PRTE_MCA_{name}"), &value);
        }
        command.env("PRTE_MCA_prte_if_include", NETWORK);
        command
    }
    /// So many ranks of a program, half of them on each host.
    fn mpirun(&self, ranks: usize, program: &[String], more: &[&str]) -> Command {
        let on = |host: usize| format!("{}:{}", ADDRESSES[host], (ranks + 1 - host) / 2);
        let mut words: Vec<String> = ["mpirun", "-H", &format!("{},{}", on(0), on(1)), "-n", &ranks.to_string(), "--bind-to", "none"].map(String::from).into();
        words.extend(["-x", "ADAMANT_ENGINE", "-x", "ADAMANT_NUM_THREADS"].map(String::from));
        words.extend(more.iter().map(ToString::to_string));
        words.extend(program.iter().cloned());
        let mut command = self.within(0, &words);
        command.env("ADAMANT_ENGINE", "mpi");
        command
    }
    /// Pulls the cable of a run that has begun. Gives when the last rank had said whom it lost. What they say lies in files, as no word
    /// comes from the other host any more.
    fn cut(&self, ranks: usize, program: &[String], told: &Path, run: &Path, k: usize) -> Result<Duration, String> {
        fs::create_dir_all(told).map_err(|e| e.to_string())?;
        let line = format!("\"$@\" 2>{0}/$OMPI_COMM_WORLD_RANK.err; echo $? >{0}/$OMPI_COMM_WORLD_RANK.code", told.display());
        let mut words: Vec<String> = ["sh", "-c", &line, "sh"].map(String::from).into();
        words.extend(program.iter().cloned());
        let mut command = self.mpirun(ranks, &words, &["--enable-recovery", "-x", "ADAMANT_TIMEOUT"]);
        command.env("ADAMANT_TIMEOUT", format!("{}ms", PATIENCE.as_millis()));
        let mut job = RankJob::default();
        job.begin(command)?;
        let begun = Instant::now();
        let lines = || fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
        while lines() < 3 + 5 * k {
            if job.is_over(0) || begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("the run does not begin: {}", job.last_words()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = &self.names[k % 2];
        ip(&format!("-n {end} link set {end} down"))?;
        let cut = Instant::now();
        let mut at = vec![None; ranks];
        while at.iter().any(Option::is_none) && cut.elapsed() < WITHIN + PATIENCE {
            for (rank, at) in at.iter_mut().enumerate().filter(|(_, at)| at.is_none()) {
                if fs::read_to_string(told.join(format!("{rank}.code"))).is_ok_and(|code| code.ends_with('\n')) {
                    *at = Some(cut.elapsed());
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.quiet();
        drop(job);
        ip(&format!("-n {end} link set {end} up"))?;
        let mut latest = Duration::ZERO;
        for (rank, at) in at.iter().enumerate() {
            let at = at.ok_or_else(|| format!("cut {k}: rank {rank} has not ended after {:?}", WITHIN + PATIENCE))?;
            let said = fs::read_to_string(told.join(format!("{rank}.err"))).unwrap_or_default();
            let code = fs::read_to_string(told.join(format!("{rank}.code"))).ok().and_then(|code| code.trim().parse::<i32>().ok());
            // Those of the other host: half of them are there.
            let on = |rank: usize| usize::from(rank >= ranks.div_ceil(2));
            let names_lost = (0..ranks).filter(|other| on(*other) != on(rank)).any(|other| said.contains(&format!("rank {other} is lost")));
            if code != Some(PEER_LOST) || !names_lost {
                return Err(format!("cut {k}: rank {rank} ended with {code:?}: {}", said.trim()));
            }
            latest = latest.max(at);
        }
        if latest > WITHIN { Err(format!("cut {k}: the last rank spoke after {latest:?}")) } else { Ok(latest) }
    }
    /// Ends whatever runs on the two hosts.
    fn quiet(&self) {
        for name in &self.names {
            let listed = Command::new("ip").args(["netns", "pids", name]).output().map(|output| output.stdout).unwrap_or_default();
            for process in String::from_utf8_lossy(&listed).split_whitespace().filter_map(|process| process.parse().ok()) {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}
impl Drop for TwoHosts {
    fn drop(&mut self) {
        self.quiet();
        for name in &self.names {
            // One that was never made.
            let _ = ip(&format!("netns del {name}"));
        }
        let _ = ip(&format!("link del {}", self.names[0]));
    }
}
