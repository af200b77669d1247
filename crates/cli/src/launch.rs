//! `adamant launch`: ranks of a program on this host, or through `mpirun` on several.
use crate::{out, signals};
use adamant_distributed::{
    launch::{self, ElasticPlan, HostSlots, LaunchError, LaunchPlan, LaunchStop, PrefixedOutput, RankBinding},
    place::parse_timeout,
};
use adamant_train::{
    Failure,
    storage::{Operation, StorageError, stdout_error},
};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    env,
    ffi::OsString,
    io::{IsTerminal, stderr, stdout},
    path::PathBuf,
    time::Duration,
};

const EXAMPLES: &str = "Examples:
  adamant launch -n 4 -- adamant train run.toml
  adamant launch -n 2 --max-restarts 0 --log-dir logs -- python train.py
  adamant launch -n 4 --elastic 2:4 -- adamant train run.toml
  adamant launch -n 8 --hosts alpha,beta --engine mpi -- adamant train run.toml

`adamant` as the program is the one that launches. Every rank has RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
MASTER_PORT, as under torchrun; none reads from the terminal.
Exit codes: that of the rank that failed first, 128 + N where signal N ended it or the launcher; 126 the program cannot be run; 127 it is
not there; 9 no mpirun. Not started again: exit code 2, an end that a signal asked for.";

/// Options of `launch`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LaunchVerb {
    /// how many ranks
    #[arg(short = 'n', long, value_name = "N")]
    ranks: usize,
    /// the hosts, each with its share of the ranks, or as many as are named; for the engine mpi
    #[arg(long, value_name = "HOST[:N],...", value_delimiter = ',', value_parser = host)]
    hosts: Vec<HostSlots>,
    /// what carries the ranks' messages: auto, local (this host), mpi (through mpirun), or what else the program has
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: String,
    /// auto, none, core: is each rank bound to its share of the cores? auto: where its threads have one each
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    bind_to: RankBinding,
    /// goes on without ranks that are lost, as long as MIN are left, and starts newcomers in their place, up to MAX; for the engine local
    #[arg(long, value_name = "MIN:MAX", value_parser = elastic)]
    elastic: Option<ElasticPlan>,
    /// how often all ranks are started again after a failure; with --elastic, how many newcomers are started
    #[arg(long, value_name = "N", default_value_t = 3)]
    max_restarts: u32,
    /// with --elastic: a rank that fails so often within so long is not started again
    #[arg(long, value_name = "N:TIME", value_parser = often, default_value = "3:60s", requires = "elastic")]
    leave_out: (usize, Duration),
    /// a folder for what each rank writes: rank-0.log, rank-1.log, ...
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// so long ranks wait for each other before one is lost [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// so long a rank that is asked to end has, before it is killed
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    grace: Duration,
    /// the program and its arguments, behind `--`
    #[arg(last = true, required = true, num_args = 1.., value_name = "PROGRAM")]
    program: Vec<OsString>,
}
fn host(text: &str) -> Result<HostSlots, String> {
    HostSlots::parse(text).ok_or_else(|| "a host's name, or HOST:RANKS".into())
}
fn elastic(text: &str) -> Result<ElasticPlan, String> {
    ElasticPlan::parse(text).ok_or_else(|| "the least and the most ranks, as `2:4`".into())
}
fn often(text: &str) -> Result<(usize, Duration), String> {
    let parsed = text.split_once(':').and_then(|(times, within)| Some((times.parse().ok().filter(|times| *times > 0)?, parse_timeout(within)?)));
    parsed.ok_or_else(|| "how often, and within which time, as `3:60s`".into())
}
fn time(text: &str) -> Result<Duration, String> {
    parse_timeout(text).ok_or_else(|| "a time above 0, as `60`, `60s` or `5m`".into())
}

pub fn run(options: &LaunchVerb) -> Result<(), Failure> {
    let plan = plan(options)?;
    let stop = LaunchStop::new();
    signals::each(&[SIGHUP, SIGINT, SIGTERM], {
        let stop = stop.clone();
        move |signal| match (stop.asked(), signal) {
            (None, _) => {
                stop.ask(signal);
                out::note("ending all ranks; once more ends them at once");
            }
            (Some(_), SIGINT | SIGTERM) => stop.ask(signal),
            (Some(_), _) => {}
        }
    })?;
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let output = PrefixedOutput::new(plan.ranks, (stdout(), colours && stdout().is_terminal()), (stderr(), colours && stderr().is_terminal()));
    let ended = match launch::run(&plan, Box::new(output), &stop) {
        Ok(ended) => ended,
        Err(error) => return Err(failure(error)),
    };
    match ended.output {
        Some(error) if ended.code == 0 => Err(stdout_error(&error, 0)),
        _ if ended.code == 0 => Ok(()),
        // It is a rank's, not one of this program's, and the rank has said why.
        _ => std::process::exit(i32::from(ended.code)),
    }
}
fn plan(options: &LaunchVerb) -> Result<LaunchPlan, Failure> {
    let (name, arguments) = options.program.split_first().ok_or_else(|| Failure::Usage("no program is named".into()))?;
    // The name alone: whichever `adamant` is in PATH may be of another version, or none.
    let program = if name == "adamant" {
        env::current_exe().map_err(|e| Failure::Run(format!("this program's own path is not known: {e}")))?.into_os_string()
    } else {
        name.clone()
    };
    let mut plan = LaunchPlan::new(options.ranks, program);
    plan.arguments = arguments.to_vec();
    plan.engine = (options.engine != "auto").then(|| options.engine.clone());
    plan.hosts.clone_from(&options.hosts);
    plan.binding = options.bind_to;
    plan.max_restarts = options.max_restarts;
    plan.timeout = options.timeout;
    plan.log_folder.clone_from(&options.log_dir);
    plan.grace = options.grace;
    plan.elastic = options.elastic.map(|elastic| ElasticPlan { left_out: options.leave_out, ..elastic });
    Ok(plan)
}
fn failure(error: LaunchError) -> Failure {
    let text = error.to_string();
    match error {
        LaunchError::Plan(_) => Failure::Usage(text),
        LaunchError::Missing { .. } => Failure::Device(text),
        LaunchError::NotFound { .. } | LaunchError::NotExecutable { .. } => {
            // The codes that a shell has for it.
            out::note(format!("error: {text}"));
            std::process::exit(i32::from(error.exit_code()))
        }
        LaunchError::Log { path, error } => Failure::Storage(StorageError::of(Operation::Create, &path, 0, &error)),
        _ => Failure::Run(text),
    }
}
