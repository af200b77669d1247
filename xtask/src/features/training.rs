//! Rows about the trainer, which is run as its users run it.
use super::{Checked, Row, Seen};
use crate::workspace;
use std::{error::Error, process::Stdio};

pub const ROWS: &[Row] = &[Row {
    id: "S0.19",
    what: "a training loop: shuffle, batches, loss, backward, step",
    target: "adamant train on Embedding 1000x128, Linear 256, Linear 1000, batch 16: the loss falls, a step takes at most 1 ms",
    check: train,
}];

/// The document that `adamant train` prints of the embedding example.
pub fn train_example(arguments: &[&str]) -> Result<serde_json::Value, Box<dyn Error>> {
    let example = "examples/embedding_mlp/embedding_mlp.toml";
    let mut all = vec!["run", "--quiet", "--release", "--package", "adamant-cli", "--", "train", example, "--quiet", "--json"];
    all.extend(arguments);
    let output = workspace::cargo(&all).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("adamant train: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}
fn train() -> Checked {
    let run = train_example(&[])?;
    let losses: Vec<f64> = run["metrics"]["train"]["losses"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect();
    let (seconds, steps) = (run["seconds"].as_f64().ok_or("no seconds")?, run["steps"].as_f64().ok_or("no steps")?);
    let (first, last) = (losses.first().ok_or("no losses")?, losses.last().ok_or("no losses")?);
    let each = seconds / steps * 1e3;
    Ok(Seen::all(
        &[("batch 16", run["batch"] == 16), ("the loss falls", last < &(first / 2.0)), ("at most 1 ms", each <= 1.0)],
        format!("loss {first:.3} to {last:.3} over {steps} steps of {each:.3} ms ({} parameters, {})", run["parameters"], run["device"].as_str().unwrap_or("")),
    ))
}
