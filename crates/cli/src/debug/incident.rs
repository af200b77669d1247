//! `adamant debug RUN --incident N`: makes a step that had bad numbers once more.
//!
//! Data flow: the run's description, its journal and the newest checkpoint before the step are copied to a folder of their own, and the run goes on
//! there until the step is behind it: it has the bits that it had, so the incident is the same one. With `--terminal` it stops before the step for who
//! debugs it. The run's own folder is only read.
use super::terminal;
use crate::{device::DeviceOptions, out, verbs::data_of};
use adamant_train::{Document, Failure, Interrupt, Run, Watch, folder::text_of};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
};

/// The most bytes that are read of the incidents.
const MOST_BYTES: u64 = 64 << 20;
/// What a run needs to go on, beside a checkpoint.
const NEEDED: [&str; 5] = ["config.toml", "environment.json", "metrics.jsonl", "timing.jsonl", "control.jsonl"];
/// The signal that an end stands for.
const SIGTERM: i32 = 15;

/// What is to be made once more.
pub struct RepeatedIncident<'a> {
    pub run: &'a Path,
    /// from 1
    pub number: u64,
    pub data: Option<&'a Path>,
    pub device: &'a DeviceOptions,
    pub terminal: bool,
    pub json: bool,
}
/// Ends the run behind a step.
struct EndsBehind {
    step: u64,
    interrupt: Interrupt,
}
impl Watch for EndsBehind {
    fn step(&mut self, step: u64) {
        if step >= self.step {
            self.interrupt.ask(SIGTERM);
        }
    }
    fn warn(&mut self, text: &str) {
        out::note(text);
    }
}
/// Makes it once more, and says whether it is the same.
///
/// # Errors
/// `Input`: there is no such incident, or it, or what the run needs, cannot be read. `Run`: the step has no bad numbers this time.
pub fn run(o: &RepeatedIncident<'_>) -> Result<(), Failure> {
    let kept = incident(o.run, o.number)?;
    let step = kept["step"].as_u64().filter(|step| *step > 0);
    let step = step.ok_or_else(|| Failure::Input(format!("{}: incident {} cannot be read: it has no step", o.run.display(), o.number)))?;
    let document = Document::read(&o.run.join("config.toml"))?;
    let device = o.device.open_for(&document)?;
    let place = tempfile::tempdir().map_err(|e| Failure::Run(format!("no folder for the step: {e}")))?;
    let folder = place.path().join("run");
    let from = copy(o.run, &folder, step)?;
    out::note(format!("step {step} is made once more, from the state of step {from}"));
    let (data, interrupt) = (data_of(o.run, o.data), Interrupt::new());
    let again = Run::new(&document).data(&data).folder(&folder).resume(true).control(o.terminal).begin_paused(o.terminal).interrupt(interrupt.clone());
    let mut watch = EndsBehind { step, interrupt: interrupt.clone() };
    let (told, ended) = thread::scope(|scope| {
        let training = scope.spawn(|| device.scoped(|| again.train(&mut watch).map(drop)));
        let told = match o.terminal {
            true => look_in(&folder, (from, step), o.json, || training.is_finished()),
            false => Ok(()),
        };
        if told.is_err() {
            interrupt.ask(SIGTERM);
        }
        (told, training.join().unwrap_or_else(|_| Err(Failure::Run("the step ended in a panic".into()))))
    });
    told?;
    let repeated = incidents(&folder).unwrap_or_default().into_iter().find(|again| again["step"] == step);
    match (repeated, ended) {
        (Some(repeated), ended) => say(o, &kept, &repeated, ended.err().as_ref()),
        // A step that was changed is another one.
        (None, Ok(()) | Err(Failure::Interrupted { .. })) if o.terminal => Ok(()),
        (None, Ok(()) | Err(Failure::Interrupted { .. })) => {
            Err(Failure::Run(format!("step {step} has no bad numbers this time: are the data, the program or the device others? The run had: {kept}")))
        }
        (None, Err(failure)) => Err(failure),
    }
}
/// A debugger that stands before the step.
fn look_in(folder: &Path, (from, step): (u64, u64), json: bool, is_over: impl Fn() -> bool) -> Result<(), Failure> {
    let socket = folder.join(adamant_train::control::SOCKET);
    while !socket.exists() {
        // It says itself why.
        if is_over() {
            return Ok(());
        }
        thread::sleep(terminal::EVERY);
    }
    // A run that begins right before the step is paused there already.
    let first = if from + 1 < step { vec![format!("break step {step}"), "continue".into()] } else { vec!["where".into()] };
    terminal::run(folder, json, &first)
}
fn say(o: &RepeatedIncident<'_>, kept: &Value, repeated: &Value, ended: Option<&Failure>) -> Result<(), Failure> {
    let same = without_folders(kept) == without_folders(repeated);
    if o.json {
        let text = ended.map(Failure::to_string);
        return out::line(
            json!({ "run": text_of(o.run), "incident": o.number, "step": kept["step"], "same": same, "kept": kept, "repeated": repeated, "text": text }),
        );
    }
    match ended {
        Some(failure @ Failure::Diverged(_)) => out::line(failure)?,
        _ => out::line(repeated)?,
    }
    out::line(if same { "it is the one that the run had".to_string() } else { format!("it differs from that of the run: {kept}") })
}
/// An incident, wherever the data lies.
fn without_folders(incident: &Value) -> Value {
    let mut incident = incident.clone();
    for record in incident["records"].as_array_mut().into_iter().flatten() {
        if let Some(name) = record["file"].as_str().and_then(|file| Path::new(file).file_name()) {
            record["file"] = text_of(Path::new(name)).into();
        }
    }
    incident
}
/// The incidents of a run; a line that cannot be read is null.
fn incidents(run: &Path) -> io::Result<Vec<Value>> {
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(fs::File::open(run.join("incidents.jsonl"))?, MOST_BYTES), &mut text)?;
    Ok(text.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect())
}
/// One of them.
fn incident(run: &Path, number: u64) -> Result<Value, Failure> {
    let path = run.join("incidents.jsonl");
    let all = match incidents(run) {
        Ok(all) => all,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Failure::Input(format!("{}: {e}", path.display()))),
    };
    let count = all.len();
    let found = usize::try_from(number).ok().and_then(|n| all.into_iter().nth(n.checked_sub(1)?));
    match found {
        Some(Value::Object(fields)) => Ok(Value::Object(fields)),
        Some(_) => Err(Failure::Input(format!("{}: line {number} cannot be read: it is damaged", path.display()))),
        None if count == 0 => Err(Failure::Input(format!("{}: the run had no incident", run.display()))),
        None => Err(Failure::Input(format!("{}: there is no incident {number}: it has 1 to {count}", run.display()))),
    }
}
/// Copies what the run needs to go on before a step; gives the step of the state that it goes on from.
fn copy(run: &Path, to: &Path, step: u64) -> Result<u64, Failure> {
    let failed = |path: &Path, e: &io::Error| Failure::Input(format!("{}: {e}", path.display()));
    let checkpoints = to.join("checkpoints");
    fs::create_dir_all(&checkpoints).map_err(|e| failed(&checkpoints, &e))?;
    for name in NEEDED {
        let from = run.join(name);
        match fs::copy(&from, to.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(&from, &e)),
            _ => {}
        }
    }
    let step_of = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let all = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = all.filter_map(|path| Some((step_of(&path)?, path))).filter(|(of, _)| *of < step).max();
    let Some((at, from)) = newest else {
        // From the beginning, as it began: nothing of it is there yet.
        for name in ["metrics.jsonl", "timing.jsonl"] {
            let _ = fs::remove_file(to.join(name));
        }
        return Ok(0);
    };
    let into = checkpoints.join(from.file_name().unwrap_or_default());
    fs::create_dir_all(&into).map_err(|e| failed(&into, &e))?;
    for entry in fs::read_dir(&from).map_err(|e| failed(&from, &e))?.flatten() {
        fs::copy(entry.path(), into.join(entry.file_name())).map_err(|e| failed(&entry.path(), &e))?;
    }
    Ok(at)
}
