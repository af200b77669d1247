//! Checkpoints and Python: ours are loaded there under PyTorch's names, and theirs here, with the same outputs.
use super::{TortureClaim, claim, report};
use crate::{exit::Exit, workspace};
use adamant::{
    Tensor,
    formats::safetensors::SafeTensors,
    nn::{BatchNorm1d, Linear, Module, Relu, Sequential, Walk, manual_seed},
    no_grad,
};
use adamant_train::{
    checkpoint::{Checkpoints, Retention, Snapshot},
    storage::Disk,
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
const OURS: &str = "our checkpoint loads in Python under PyTorch's names and gives the same outputs there";
const THEIRS: &str = "a file written by Python loads here under PyTorch's names and gives the same outputs here";
/// Sums of a few dozen products, added in another order.
const TOLERANCE: f64 = 1e-5;

/// Runs both ways.
pub fn run(options: &Options) -> Exit {
    let python = std::env::var_os("ADAMANT_PYTHON").unwrap_or_else(|| "python3".into());
    let claims = match probe(&python) {
        Err(why) => [TortureClaim::skipped(OURS, why.clone()), TortureClaim::skipped(THEIRS, why)],
        Ok(versions) => both(&python, &versions),
    };
    report(options.json, &claims)
}
/// What of Python's packages is there; why not, if it is too little.
fn probe(python: &OsString) -> Result<String, String> {
    let output = script(python, &["probe".as_ref()]).map_err(|e| format!("{}: {e} (ADAMANT_PYTHON names another)", python.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    let last = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it failed").to_string();
    Err(format!("{}: {last} (ADAMANT_PYTHON names another)", python.display()))
}
fn script(python: &OsString, arguments: &[&std::ffi::OsStr]) -> std::io::Result<Output> {
    Command::new(python).arg(workspace::root().join("xtask/python/checkpoints.py")).args(arguments).output()
}
fn both(python: &OsString, versions: &str) -> [TortureClaim; 2] {
    let place = match tempfile::tempdir() {
        Ok(place) => place,
        Err(e) => return [TortureClaim::skipped(OURS, e.to_string()), TortureClaim::skipped(THEIRS, e.to_string())],
    };
    let mut python_did: Result<(), String> = Err("our checkpoint was not written".into());
    let ours = claim(OURS, |claim| {
        let folder = write(place.path()).map_err(|e| e.to_string())?;
        let output = script(python, &["check".as_ref(), folder.as_os_str(), place.path().as_os_str()]).map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
        python_did = Ok(());
        claim.seen = serde_json::json!({ "python": versions, "said": said });
        claim.count(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_string()) });
        Ok(())
    });
    let theirs = claim(THEIRS, |claim| {
        python_did?;
        let difference = read(place.path()).map_err(|e| e.to_string())?;
        claim.seen = serde_json::json!({ "largest_difference": difference });
        claim.count(if difference <= TOLERANCE { Ok(()) } else { Err(format!("outputs differ by {difference}")) });
        Ok(())
    });
    [ours, theirs]
}
/// The model that both sides have: names `0.weight`, `1.running_mean`, ... as PyTorch gives them.
fn model(seed: u64) -> adamant::Result<Sequential> {
    manual_seed(seed);
    Ok(Sequential::new().add(Linear::new(16, 24)?).add(BatchNorm1d::new(24)?).add(Relu::new()).add(Linear::new(24, 10)?))
}
fn outputs(model: &Sequential, x: &Tensor) -> adamant::Result<Tensor> {
    model.eval();
    no_grad(|| model.forward(x))
}
/// Saves a checkpoint, and beside it an input with the outputs it gives here. Returns the checkpoint's folder.
fn write(place: &Path) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let model = model(1)?;
    let x = Tensor::from_vec((0..8 * 16).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect::<Vec<f32>>(), [8, 16]);
    // One step in training mode, so that the running statistics are not those of a new layer.
    model.train();
    no_grad(|| model.forward(&x))?.materialize()?;
    let y = outputs(&model, &x)?;
    let checkpoints = Checkpoints::open(Arc::new(Disk), &place.join("checkpoints"), Retention { last: 1, best: 0 })?;
    let tensors = BTreeMap::from([("model".to_string(), model.state_dict())]);
    let saved = checkpoints.save(&Snapshot { step: 1, tensors, state: serde_json::Value::Null }, None)?;
    adamant::formats::safetensors::save(place.join("outputs.safetensors"), [("x", x), ("y", y)], &BTreeMap::new())?;
    Ok(saved.folder)
}
/// Loads what Python wrote, and compares outputs. Returns the largest difference.
fn read(place: &Path) -> Result<f64, Box<dyn std::error::Error>> {
    let device = adamant::Device::current()?;
    let file = SafeTensors::open(place.join("theirs.safetensors"))?;
    let state = file.names().into_iter().map(|name| Ok((name.clone(), file.tensor(&name, device)?))).collect::<adamant::Result<Vec<_>>>()?;
    let model = model(2)?;
    model.load_state_dict(&state)?;
    let expected = SafeTensors::open(place.join("theirs-outputs.safetensors"))?;
    let y = outputs(&model, &expected.tensor("x", device)?)?;
    Ok((y - expected.tensor("y", device)?).abs().amax(..).item::<f64>()?)
}
