//! The command `adamant`: trains from descriptions in TOML, evaluates, predicts, generates, and says what it found.
//!
//! Exit codes: 0 done, 1 the run failed, 2 usage, 3 diverged, 4 unreadable input, 5 out of memory, 6 storage full or broken,
//! 7 another rank lost, 9 device absent; 129 (SIGHUP), 130 (SIGINT), 143 (SIGTERM), 152 (SIGXCPU) interrupted with a checkpoint written. With
//! `--json`, before or behind the verb, stdout holds exactly one JSON document, of the result or of the error, one of usage too;
//! text for people goes to stderr.
#![forbid(unsafe_code)]

mod amp;
#[cfg(feature = "profiling")]
mod bench;
mod config;
mod control;
mod debug;
mod derived;
mod device;
mod doctor;
mod environment;
mod follow;
mod graph;
mod info;
mod launch;
mod merge;
mod out;
mod plan;
#[cfg(feature = "profiling")]
mod profile;
mod progress;
mod prune;
mod quant;
mod quantize;
mod ranks;
mod runs;
mod signals;
mod terminal;
mod traced;
mod train;
mod usage;
mod verbs;
mod watch;

use adamant_train::Failure;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use traced::TracedRanks;

const CODES: &str = "Exit codes: 0 done; 1 the run failed; 2 usage; 3 diverged; 4 unreadable input; 5 out of memory; 6 storage full or \
broken; 7 another rank lost; 9 device absent; 129, 130, 143, 152 interrupted by SIGHUP, SIGINT, SIGTERM, SIGXCPU, checkpoint written.";

/// Deep learning in Rust: train, watch, stop, go on, use.
#[derive(Parser)]
#[command(name = "adamant", version, after_help = CODES, disable_help_subcommand = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
    #[cfg(feature = "profiling")]
    #[command(flatten, next_help_heading = "Profiling")]
    profile: profile::Options,
}
#[derive(Subcommand)]
enum Verb {
    /// Trains a model from a description.
    Train(train::Train),
    /// Starts ranks that train together, shows what they say, ends them all when one fails.
    Launch(launch::LaunchVerb),
    /// Times this machine's speed table, or a model's answers.
    #[cfg(feature = "profiling")]
    Bench(bench::Bench),
    /// Looks at a run, living or ended, in the terminal.
    Watch(watch::WatchVerb),
    /// Shows a run, living or ended, in a page of its own: trace, gradients, dead neurons, anomalies, a debugger.
    Debug(debug::DebugVerb),
    /// Asks a living run for a checkpoint, a pause, another rate, the end.
    Control(control::ControlVerb),
    /// Evaluates a trained model on the test part or the validation part of its data.
    Eval(verbs::Eval),
    /// Answers for inputs from files.
    Predict(verbs::Predict),
    /// Writes text with a trained language model.
    Generate(verbs::Generate),
    /// Sets weights of a trained model to zero, or takes channels out of it.
    Prune(prune::Options),
    /// Writes a checkpoint's weights into one file, under PyTorch's names.
    Merge(merge::Options),
    /// Measures what integer codes cost and save on this machine.
    Quant(quant::Quant),
    /// Makes integer codes of the weights of a trained model.
    Quantize(quantize::Options),
    /// Lists a model's layers with shapes, parameters, FLOPs and bytes, without running it.
    Summary(verbs::SummaryVerb),
    /// Shows the graph of a description's model, and what passes make of it.
    Graph(graph::Options),
    /// Says what a run would cost on so many ranks, each way to share it, before it is started.
    Plan(plan::Options),
    /// Says in which precision each function runs under autocast.
    Amp(amp::Options),
    /// Says what was found on this machine, what was not, and why.
    Info(verbs::Info),
    /// Writes descriptions to begin with, and checks them.
    Config(config::Config),
    /// Draws the report of a run again.
    Report(verbs::ReportVerb),
    /// Says what is wrong with a run: the cause, the layer, the step, and what ends it.
    Doctor(doctor::Options),
    /// Suggests a batch size and a learning rate for a model of so many parameters.
    Suggest(verbs::Suggest),
    /// Says what a verb does and which options it has.
    #[command(after_help = "Examples:\n  adamant help train\n  adamant help config create")]
    Help {
        /// the verb, and the verb within it
        verb: Vec<String>,
    },
    /// Prints a script that completes this command in a shell.
    #[command(after_help = "Example:\n  adamant completions bash > ~/.local/share/bash-completion/completions/adamant")]
    Completions {
        /// the shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    #[cfg(feature = "profiling")]
    let begun = std::time::Instant::now();
    signals::survive_limits();
    let arguments = usage::ordered(std::env::args_os());
    let command = match Command::try_parse_from(&arguments) {
        Ok(command) => command,
        Err(said) => return usage::tell(&said, &arguments),
    };
    #[cfg(feature = "profiling")]
    let recording = match command.profile.start(begun) {
        Ok(recording) => recording,
        Err(failure) => {
            say_failure(&failure, usage::wants_json(&arguments), false);
            return ExitCode::from(failure.exit_code());
        }
    };
    let trains = matches!(command.verb, Verb::Train(_));
    #[cfg(feature = "profiling")]
    let traced = TracedRanks::new(command.profile.traces());
    #[cfg(not(feature = "profiling"))]
    let traced = TracedRanks::default();
    let (json, done) = execute(command.verb, &traced);
    #[cfg(feature = "profiling")]
    let done = {
        let told = command.profile.stop(recording, &traced);
        done.and(told)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say_failure(&failure, json, trains);
            ExitCode::from(failure.exit_code())
        }
    }
}
/// What a verb did, and whether its answer is JSON.
fn execute(verb: Verb, traced: &TracedRanks) -> (bool, Result<(), Failure>) {
    match verb {
        #[cfg(feature = "profiling")]
        Verb::Bench(o) => bench::run(&o),
        Verb::Train(o) => (o.json, train::run(&o, traced)),
        Verb::Launch(o) => (false, launch::run(&o)),
        Verb::Watch(o) => (o.json, watch::run(&o)),
        Verb::Debug(o) => (o.json, debug::run(&o)),
        Verb::Control(o) => (o.json, control::run(&o)),
        Verb::Eval(o) => (o.json, verbs::eval(&o)),
        Verb::Predict(o) => (o.json, verbs::predict(&o)),
        Verb::Generate(o) => (o.json, verbs::generate(&o)),
        Verb::Prune(o) => (o.derived.json, prune::run(&o)),
        Verb::Merge(o) => (o.json, merge::run(&o)),
        Verb::Quant(o) => quant::run(&o),
        Verb::Quantize(o) => (o.derived.json, quantize::run(&o)),
        Verb::Summary(o) => (o.json, verbs::summary(&o)),
        Verb::Graph(o) => (o.json, graph::run(&o)),
        Verb::Plan(o) => (o.json, plan::run(&o)),
        Verb::Amp(o) => amp::run(&o),
        Verb::Info(o) => (o.json, verbs::info(&o)),
        Verb::Config(o) => config::run(&o),
        Verb::Report(o) => (o.json, verbs::report(&o)),
        Verb::Doctor(o) => (o.json, doctor::run(&o)),
        Verb::Suggest(o) => (o.json, verbs::suggest(&o)),
        Verb::Help { verb } => (false, help(&verb)),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Command::command(), "adamant", &mut script);
            (false, out::write(&String::from_utf8_lossy(&script)))
        }
    }
}
/// The help of a verb, or of the whole program.
fn help(verbs: &[String]) -> Result<(), Failure> {
    let mut command = Command::command();
    command.build();
    let mut at = &mut command;
    for (k, verb) in verbs.iter().enumerate() {
        let known = at.get_subcommands().any(|c| c.get_name() == verb);
        match at.find_subcommand_mut(verb).filter(|_| known) {
            Some(inner) => at = inner,
            None => return Err(Failure::Usage(format!("there is no verb `{}`; `adamant help` lists all", verbs[..=k].join(" ")))),
        }
    }
    out::write(&format!("{}", at.render_help()))
}
fn say_failure(failure: &Failure, json: bool, trains: bool) {
    let help = match failure {
        // Only a run has something to go on from.
        Failure::Storage(e) if e.is_full() && !trains => Some("free some space, or write somewhere else"),
        other => other.help(),
    };
    out::note(format!("error: {failure}"));
    if let Some(help) = help {
        out::note(format!(" help: {help}"));
    }
    if json {
        let mut document = failure.to_json();
        document["error"]["help"] = help.into();
        // Where stdout itself is what failed, the text above has said so.
        let _ = out::line(document);
    }
}
