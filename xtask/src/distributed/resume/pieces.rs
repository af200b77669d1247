//! Checkpoints that ranks have written together, gone on from on other ranks that share out something else; and one file of them, in Python.
use super::{
    super::{
        ResumeOptions,
        job::{RankedTraining, set},
    },
    bits, killed,
};
use crate::torture::{CaseDraw, TortureClaim, claim, sha256};
use adamant_train::merged::{MergeFrom, MergeOptions, merge};
use nix::sys::signal::Signal;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// The ranks that save, and those that go on.
const SAVING: usize = 4;
const GOING_ON: [usize; 4] = [1, 2, 3, 8];
/// What ranks share out beside the rows.
pub const STAGES: usize = 4;

/// A run that nobody disturbs, on one rank that shares out nothing: its weights, lines, and weights and slots of each checkpoint.
pub struct UndisturbedRun {
    pub program: RankedTraining,
    pub description: PathBuf,
    pub bits: [String; 2],
    states: BTreeMap<u64, String>,
}
/// What a run is started with.
pub fn values(zero: usize) -> Vec<String> {
    set(&["distributed.shards=8".to_string(), format!("distributed.zero={zero}"), "distributed.bucket_mb=1".into()])
}
impl UndisturbedRun {
    fn new(options: &ResumeOptions) -> Result<UndisturbedRun, String> {
        let (program, description) = RankedTraining::with_wide_steps(&options.common)?;
        let run = program.place("undisturbed");
        program.finish(1, &description, &run, &values(0))?;
        Ok(UndisturbedRun { bits: bits(&run)?, states: states(&run, 0)?, program, description })
    }
    /// Are the weights and slots of all checkpoints behind a step those of the undisturbed run, and its end?
    fn compare(&self, run: &Path, after: u64) -> Result<usize, String> {
        let states = states(run, after)?;
        for (step, hash) in &states {
            match self.states.get(step) {
                Some(want) if want == hash => {}
                Some(_) => return Err(format!("the checkpoint of step {step} has other weights or slots")),
                // That with which it was ended.
                None => {}
            }
        }
        if bits(run)? == self.bits { Ok(states.len()) } else { Err("it ends in other bits".into()) }
    }
}
/// The steps of a run's checkpoints.
pub fn steps(run: &Path) -> Vec<u64> {
    let names = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let mut steps: Vec<u64> = names.filter_map(|name| name.strip_prefix("step-")?.parse().ok()).collect();
    steps.sort_unstable();
    steps
}
/// sha256 of the weights and slots of each checkpoint behind a step, merged into one file.
fn states(run: &Path, after: u64) -> Result<BTreeMap<u64, String>, String> {
    let out = run.join("merged-state");
    let one = |step: u64| {
        let options = MergeOptions { from: MergeFrom::Step(step), out: Some(out.clone()), slots: true, force: true };
        merge(run, &options).map_err(|e| format!("{}: step {step}: {e}", run.display()))?;
        Ok((step, sha256(&out)?))
    };
    let all = steps(run).into_iter().filter(|step| *step > after).map(one).collect::<Result<_, String>>();
    let _ = fs::remove_file(&out);
    all
}
pub fn claims(options: &ResumeOptions) -> Vec<TortureClaim> {
    let run = match UndisturbedRun::new(options) {
        Ok(run) => run,
        Err(e) => return vec![claim("a run that nobody disturbs", |_| Err(e))],
    };
    let text = format!(
        "saved on {SAVING} ranks with `zero` 0 to 3, gone on with on {GOING_ON:?} with each of them: the undisturbed weights and slots in all checkpoints behind, and the undisturbed end"
    );
    vec![claim(&text, |claim| all_ways(&run, options, claim)), killed::claim_of(&run, options), in_python(&run, options)]
}
fn all_ways(run: &UndisturbedRun, options: &ResumeOptions, claim: &mut TortureClaim) -> Result<(), String> {
    let mut draw = CaseDraw::new(options.seed ^ 0x9e);
    let mut ways: Vec<(usize, usize, usize)> =
        (0..STAGES).flat_map(|from| GOING_ON.into_iter().flat_map(move |ranks| (0..STAGES).map(move |to| (from, ranks, to)))).collect();
    // Which of them, if not all: a shuffle.
    (1..ways.len()).rev().for_each(|k| ways.swap(k, draw.below(k as u64 + 1) as usize));
    ways.truncate(options.pairs);
    let mut saved: BTreeMap<usize, (PathBuf, u64)> = BTreeMap::new();
    let mut compared = 0;
    for (from, ranks, to) in ways {
        if let std::collections::btree_map::Entry::Vacant(place) = saved.entry(from) {
            place.insert(ended(run, from, &mut draw)?);
        }
        let (folder, step) = &saved[&from];
        let copy = run.program.place("gone-on");
        let _ = fs::remove_dir_all(&copy);
        copied(folder, &copy)?;
        let went = run.program.finish(ranks, &run.description, &copy, &values(to)).and_then(|()| run.compare(&copy, *step));
        compared += went.as_ref().copied().unwrap_or(0);
        claim.count(went.map(drop).map_err(|e| format!("from 4 ranks with zero = {from} (step {step}) to {ranks} with zero = {to}: {e}")));
    }
    let at: Vec<u64> = saved.values().map(|(_, step)| *step).collect();
    claim.see(serde_json::json!({ "ended_behind_steps": at, "states_compared": compared }));
    Ok(())
}
/// A run that SIGTERM ends on some ranks, somewhere in the middle: its folder, and behind which step.
fn ended(run: &UndisturbedRun, zero: usize, draw: &mut CaseDraw) -> Result<(PathBuf, u64), String> {
    for attempt in 0..10 {
        let folder = run.program.place(&format!("saved-{zero}-{attempt}"));
        let mut job = run.program.start(SAVING, &run.description, &folder, &values(zero))?;
        let (begun, some) = (Instant::now(), 1 + draw.below(6) as usize);
        while steps(&folder).len() < some && !job.is_over(0) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let victim = draw.below(SAVING as u64) as usize;
        if !job.is_over(victim) {
            job.signal(victim, Signal::SIGTERM)?;
        }
        let codes: Vec<Option<i32>> = job.wait()?.into_iter().map(|end| end.code).collect();
        match (codes.iter().all(|code| *code == Some(143)), steps(&folder).last()) {
            (true, Some(step)) => return Ok((folder, *step)),
            _ if codes.iter().all(|code| *code == Some(0) || *code == Some(143)) => {}
            _ => return Err(format!("ranks with zero = {zero} ended with {codes:?}")),
        }
    }
    Err("the run is always over before it is ended".into())
}
/// A folder with all that is in it.
pub fn copied(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| e.to_string())?;
    for entry in fs::read_dir(from).map_err(|e| e.to_string())?.flatten() {
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copied(&path, &place)?;
        } else {
            fs::copy(&path, &place).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}
/// Reads a merged file twice, by the library that PyTorch's users have and by hand, and puts it into PyTorch's own layers.
const READER: &str = r#"
import hashlib, json, struct, sys
import numpy
from safetensors.torch import load_file
import torch

merged, final = sys.argv[1:3]

def by_hand(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    header.pop("__metadata__", None)
    types = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U32": "<u4"}
    def array(info):
        begin, end = info["data_offsets"]
        return numpy.frombuffer(data[begin:end], types[info["dtype"]]).reshape(info["shape"])
    return {name: array(info) for name, info in header.items()}

state, seen = load_file(merged), by_hand(merged)
assert state.keys() == seen.keys()
for name, value in state.items():
    assert value.numpy().tobytes() == seen[name].tobytes(), name
weights = {name: value for name, value in state.items() if not name.startswith("optimizer.")}
want = by_hand(final)
assert weights.keys() == want.keys(), (sorted(weights), sorted(want))
for name, value in weights.items():
    assert value.numpy().tobytes() == want[name].tobytes(), name
model = torch.nn.Sequential(torch.nn.Embedding(12, 1500), torch.nn.BatchNorm1d(1500), torch.nn.Dropout(0.2), torch.nn.Linear(1500, 12))
model.load_state_dict(weights, strict=True)
slots = [name for name in state if name.startswith("optimizer.")]
assert len(slots) >= 2 * 5, slots
print(json.dumps({"torch": torch.__version__, "weights": len(weights), "slots": len(slots)}))
"#;
fn in_python(run: &UndisturbedRun, options: &ResumeOptions) -> TortureClaim {
    let text = "one file of the pieces of 4 ranks (zero = 3) loads in Python: PyTorch's names, the bits of the run's weights";
    let there = Command::new(&options.python).args(["-c", "import torch, numpy, safetensors.torch"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return TortureClaim::skipped(text, format!("{} has not all of torch, numpy, safetensors: name one that has by --python", options.python.display()));
    }
    claim(text, |claim| {
        let folder = run.program.place("merged");
        run.program.finish(SAVING, &run.description, &folder, &values(3))?;
        let out = folder.join("all.safetensors");
        let merge = Command::new(run.program.program()).arg("merge").arg(&folder).args(["--with-slots", "--out"]).arg(&out).output();
        let merge = merge.map_err(|e| e.to_string())?;
        if !merge.status.success() {
            return Err(String::from_utf8_lossy(&merge.stderr).into_owned());
        }
        let read = Command::new(&options.python).args(["-c", READER]).arg(&out).arg(folder.join("weights.safetensors")).output().map_err(|e| e.to_string())?;
        claim.see(serde_json::from_slice(&read.stdout).unwrap_or_default());
        claim.count(if read.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&read.stderr).trim().to_string()) });
        Ok(())
    })
}
