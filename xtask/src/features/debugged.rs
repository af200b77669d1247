//! The row about debugging step by step: a run of a description is stopped at a layer, its values are compared with what they must be, one is changed,
//! and the run goes on.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted};
use adamant::Device;
use adamant_train::{
    Document, Run,
    control::{Breakpoint, ControlClient, ControlRequest, NextStop, SOCKET},
};
use serde_json::Value;
use std::{error::Error, fs, path::Path, thread};

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "B2.16",
    target: "a run stops at a layer, its values and figures are those of brute force, a changed value changes the run, a look changes no bit",
    cost: CheckCost::Cheap,
    check: debugged,
    plants: &[plant("a breakpoint that nobody sets", "stops"), plant("a value that is not set", "changes")],
}];
const RUN: &str = r#"
seed = 4
epochs = 2
batch = 8
[data]
kind = "permutation"
classes = 6
rows = 60
[model]
layers = [
    { kind = "Embedding", num_embeddings = 6, embedding_dim = 5 },
    { name = "head", kind = "Linear", in_features = 5, out_features = 6 },
]
[optimizer]
kind = "Adam"
lr = 0.05
"#;
/// What was seen where the run had stopped.
#[derive(Default)]
struct SeenStop {
    stopped: bool,
    /// how far the layer's values are from brute force
    apart: f64,
    /// are the figures those of the values?
    figures: bool,
    /// does a condition stop where it holds, and nowhere else?
    condition: bool,
}
/// Somebody who debugs.
struct Debugs(ControlClient);
impl Debugs {
    fn stops(&mut self) -> bool {
        loop {
            match self.0.status() {
                Ok(status) if status.state == "stopped" => return true,
                Ok(status) if status.state != "ending" => thread::yield_now(),
                _ => return false,
            }
        }
    }
    fn slice(&mut self, of: &str, at: &str) -> Result<Vec<f64>, Box<dyn Error>> {
        let answer = self.0.ask(ControlRequest::Slice { of: of.into(), at: at.parse()? })?;
        Ok(answer["values"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
    }
    fn break_at(&mut self, breakpoint: Breakpoint) -> Result<(), Box<dyn Error>> {
        self.0.ask(ControlRequest::Break(breakpoint))?;
        Ok(())
    }
}
/// Debugs the run in a folder, which is paused; `sets`: changes a value of the layer.
fn debug(folder: &Path, sets: bool) -> Result<SeenStop, Box<dyn Error>> {
    let mut seen = SeenStop::default();
    let mut debugs = Debugs(ControlClient::attach(folder)?);
    if !planted("a breakpoint that nobody sets") {
        debugs.break_at(Breakpoint { step: Some(3), layer: Some("head".into()), ..Breakpoint::default() })?;
    }
    debugs.0.ask(ControlRequest::Continue)?;
    if !debugs.stops() {
        return Ok(seen);
    }
    let at = debugs.0.ask(ControlRequest::Where)?;
    seen.stopped = at["in_step"] == 3 && at["layer"] == "head" && at["op"] == "linear";
    let (x, w, b, y) = (debugs.slice("in.0", "")?, debugs.slice("head.weight", "")?, debugs.slice("head.bias", "")?, debugs.slice("out.0", "")?);
    for (k, value) in y.iter().enumerate() {
        let (row, unit) = (k / 6, k % 6);
        let sum: f64 = (0..5).filter_map(|c| Some(x.get(5 * row + c)? * w.get(5 * unit + c)?)).sum();
        seen.apart = seen.apart.max((sum + b.get(unit).copied().unwrap_or(f64::NAN) - value).abs());
    }
    let figures = debugs.0.ask(ControlRequest::Look { of: "out.0".into() })?;
    let figure = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let most = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    seen.figures = !y.is_empty() && figure("most") == most && (figure("mean") - mean).abs() < 1e-9 && figure("elements") == y.len() as f64;
    if sets && !planted("a value that is not set") {
        debugs.0.ask(ControlRequest::Set { of: "out.0".into(), at: "0".parse()?, value: 1.5 })?;
    }
    debugs.0.ask(ControlRequest::Unbreak { breakpoint: None })?;
    let largest = y.iter().map(|v| v.abs()).fold(0.0, f64::max);
    debugs.break_at(Breakpoint { op: Some("linear".into()), when: Some(format!("absmax > {}", 1.5 * largest).parse()?), ..Breakpoint::default() })?;
    debugs.0.ask(ControlRequest::Continue)?;
    seen.condition = debugs.stops() && {
        let of = if debugs.0.ask(ControlRequest::Where)?["shows"] == "results" { "out.0" } else { "grad.0" };
        debugs.slice(of, "")?.iter().any(|v| v.abs() > 1.5 * largest)
    };
    debugs.0.ask(ControlRequest::Unbreak { breakpoint: None })?;
    debugs.0.ask(ControlRequest::Next { of: NextStop::Step })?;
    debugs.stops();
    Ok(seen)
}
/// The weights that the run comes to.
fn trained(folder: &Path, debugs: Option<bool>) -> Result<(Vec<u8>, SeenStop), Box<dyn Error>> {
    let (document, device) = (Document::parse("run.toml", RUN)?, Device::cpu()?);
    let seen = thread::scope(|scope| {
        let run = Run::new(&document).folder(folder).begin_paused(debugs.is_some());
        let training = scope.spawn(move || device.scoped(|| run.train(&mut ()).map(drop)));
        let seen = debugs.map(|sets| {
            while !folder.join(SOCKET).exists() && !training.is_finished() {
                thread::yield_now();
            }
            debug(folder, sets)
        });
        // Who debugs is gone: the run goes on by itself.
        training.join().map_err(|_| "the run has panicked")??;
        Ok::<_, Box<dyn Error>>(seen.transpose()?.unwrap_or_default())
    })?;
    Ok((fs::read(folder.join("weights.safetensors"))?, seen))
}
fn debugged() -> Checked {
    let place = tempfile::tempdir()?;
    let (plain, _) = trained(&place.path().join("plain"), None)?;
    let (looked, seen) = trained(&place.path().join("looked"), Some(false))?;
    let (set, _) = trained(&place.path().join("set"), Some(true))?;
    let parts = [
        ("stops", seen.stopped),
        ("values", seen.apart < 1e-5),
        ("figures", seen.figures),
        ("conditions", seen.condition),
        ("changes", set != plain),
        ("looks", looked == plain),
    ];
    Ok(Seen::all(&parts, format!("the layer's values are {:.1e} from brute force; a look leaves the weights, a changed value does not", seen.apart)))
}
