//! `adamant control`: asks a living run for something, and prints its answer.
use crate::out;
use adamant_train::{
    Failure,
    control::{ControlClient, ControlRequest},
    folder::text_of,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  adamant control runs/mnist-1 status
  adamant control runs/mnist-1 checkpoint
  adamant control runs/mnist-1 rate --factor 0.5";

/// Options of `control`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ControlVerb {
    /// the run folder
    run: PathBuf,
    /// what is asked for
    #[arg(value_enum)]
    action: Action,
    /// of `rate`: what the learning rate is multiplied by, for all that follows
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    factor: Option<f64>,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
/// What a run can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// where it is
    Status,
    /// a checkpoint of now
    Checkpoint,
    /// no more steps until it is resumed
    Pause,
    /// goes on after a pause
    Resume,
    /// another learning rate from here on
    Rate,
    /// the next step is recorded into profiles.jsonl
    Profile,
    /// the end behind this epoch
    StopAfterEpoch,
    /// a checkpoint and the end
    Stop,
}
pub fn run(o: &ControlVerb) -> Result<(), Failure> {
    let request = match (o.action, o.factor) {
        (Action::Rate, Some(factor)) => ControlRequest::rate(factor)?,
        (Action::Rate, None) => return Err(Failure::Usage("rate: --factor F says what the learning rate is multiplied by".into())),
        (_, Some(_)) => return Err(Failure::Usage("--factor is for rate alone".into())),
        (Action::Status, None) => ControlRequest::Status,
        (Action::Checkpoint, None) => ControlRequest::Checkpoint,
        (Action::Pause, None) => ControlRequest::Pause,
        (Action::Resume, None) => ControlRequest::Resume,
        (Action::Profile, None) => ControlRequest::Profile,
        (Action::StopAfterEpoch, None) => ControlRequest::StopAfterEpoch,
        (Action::Stop, None) => ControlRequest::Stop,
    };
    let mut client = ControlClient::attach(&o.run)?;
    if request == ControlRequest::Status {
        let status = client.status()?;
        return if o.json {
            let mut document = serde_json::to_value(&status).map_err(|e| Failure::Run(e.to_string()))?;
            document["run"] = text_of(&o.run).into();
            out::line(document)
        } else {
            let ends = if status.stops_after_epoch { ", ends behind this epoch" } else { "" };
            out::line(format!("{}: step {} of {}, epoch {}{ends}", status.state, status.step, status.steps, status.epoch))
        };
    }
    let mut answer = client.ask(request.clone())?;
    if o.json {
        answer["run"] = text_of(&o.run).into();
        answer["action"] = json!(request.name());
        return out::line(answer);
    }
    out::line(answered(&request, &answer))
}
/// An answer in words.
pub fn answered(request: &ControlRequest, answer: &Value) -> String {
    let step = answer["step"].as_u64().unwrap_or(0);
    let checkpoint = answer["checkpoint"].as_str().map_or_else(String::new, |path| format!("; checkpoint in {}", Path::new(path).display()));
    match request {
        ControlRequest::Checkpoint => format!("after step {step}{checkpoint}"),
        ControlRequest::Pause => format!("paused after step {step}"),
        ControlRequest::Resume => format!("goes on after step {step}"),
        ControlRequest::Rate { factor } => {
            let lr = answer["lr"].as_f64().map_or_else(String::new, |lr| format!(": it is {lr:e} now"));
            format!("the rate × {factor} after step {step}{lr}")
        }
        ControlRequest::Profile => format!("step {} is recorded, into {}", step + 1, answer["profile"].as_str().unwrap_or("profiles.jsonl")),
        ControlRequest::StopAfterEpoch => format!("after step {step}: ends behind this epoch"),
        ControlRequest::Stop => format!("ended after step {step}{checkpoint}"),
        _ => format!("after step {step}"),
    }
}
