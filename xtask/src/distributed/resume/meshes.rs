//! Runs whose ranks share the model, gone on with on every other mesh: what a checkpoint has does not depend on who wrote it.
use super::{
    super::{
        ResumeOptions,
        job::{RankedTraining, set},
    },
    pieces::{copied, steps},
};
use crate::torture::{CaseDraw, TortureClaim, claim};
use adamant_train::merged::{MergeFrom, MergeOptions, merge};
use nix::sys::signal::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Data, pipeline, tensor.
type MeshAxes = [usize; 3];
/// All meshes of four ranks.
const MESHES: [MeshAxes; 6] = [[4, 1, 1], [1, 4, 1], [1, 1, 4], [2, 2, 1], [2, 1, 2], [1, 2, 2]];
/// So far sixty steps may carry what a cut layer adds in another order.
const NEAR: f64 = 1e-6;
const DESCRIPTION: &str = r#"
seed = 5
iterations = 60
batch = 24
log_every = 10
clip = { kind = "global_norm", max_norm = 0.5 }
[data]
kind = "permutation"
classes = 12
rows = 240
workers = 0
[model]
layers = [
    { name = "table", kind = "Embedding", num_embeddings = 12, embedding_dim = 16 },
    { name = "fc", kind = "Linear", in_features = 16, out_features = 32 },
    { kind = "Tanh" },
    { name = "proj", kind = "Linear", in_features = 32, out_features = 16 },
    { name = "norm", kind = "LayerNorm", normalized_shape = 16 },
    { name = "head", kind = "Linear", in_features = 16, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.003
eps = 0.001
[schedule]
kind = "CosineAnnealingLR"
T_max = 60
[checkpoint]
every = 2
last = 60
"#;
fn values([data, pipeline, tensor]: MeshAxes) -> Vec<String> {
    let mesh = format!("distributed.mesh={{ data = {data}, pipeline = {pipeline}, tensor = {tensor} }}");
    set(&[mesh, "distributed.tensor=auto".into(), "distributed.shards=4".into(), "distributed.micro_batches=1".into()])
}
/// A checkpoint in one file.
fn state(run: &Path, step: u64, slots: bool) -> Result<PathBuf, String> {
    let out = run.join(format!("state-{step}-{slots}"));
    let options = MergeOptions { from: MergeFrom::Step(step), out: Some(out.clone()), slots, force: true };
    merge(run, &options).map_err(|e| format!("{}: step {step}: {e}", run.display()))?;
    Ok(out)
}
/// The largest difference of two files' tensors, which have the same names and shapes.
fn apart(a: &Path, b: &Path) -> Result<f64, String> {
    let read = |path: &Path| adamant::formats::safetensors::load(path).map_err(|e| format!("{}: {e}", path.display()));
    let (a, b) = (read(a)?, read(b)?);
    let names = |all: &[(String, adamant::Tensor)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(&a) != names(&b) {
        return Err(format!("{:?} are not {:?}", names(&b), names(&a)));
    }
    let mut most = 0f64;
    for ((name, x), (_, y)) in a.iter().zip(&b) {
        let numbers = |t: &adamant::Tensor| t.cast(adamant::DType::F64).to_vec::<f64>().map_err(|e| format!("{name}: {e}"));
        let (x, y) = (numbers(x)?, numbers(y)?);
        if x.len() != y.len() {
            return Err(format!("{name} has {} elements, and not {}", y.len(), x.len()));
        }
        most = x.iter().zip(&y).map(|(x, y)| (x - y).abs()).fold(most, f64::max);
    }
    Ok(most)
}
pub fn claim_of(options: &ResumeOptions) -> TortureClaim {
    let text = "saved on each mesh of 4, gone on with on each: weights that are read and put together again have the bits that were saved, weights and slots end where one process's do (without pieces of layers in their bits)";
    claim(text, |claim| {
        let program = RankedTraining::new(&options.common)?;
        let description = program.place("meshes.toml");
        fs::write(&description, DESCRIPTION).map_err(|e| e.to_string())?;
        let alone = program.place("one-process");
        program.finish(1, &description, &alone, &set(&["distributed.shards=4"]))?;
        let (mut draw, mut most, mut states) = (CaseDraw::new(options.seed ^ 0x3e), 0f64, 0);
        for from in MESHES {
            let (folder, step) = ended(&program, &description, from, &mut draw)?;
            for to in MESHES {
                let went = went_on((&program, &description), (&folder, step), (from, to), &alone);
                most = went.as_ref().map_or(most, |off| most.max(*off));
                states += usize::from(went.is_ok());
                claim.count(went.map(drop).map_err(|e| format!("from {from:?} (step {step}) to {to:?}: {e}")));
            }
        }
        claim.see(serde_json::json!({ "states_compared": states, "pieces_end_off_by": most }));
        Ok(())
    })
}
/// A run that SIGTERM to one of four ranks ends: its folder, and behind which step.
fn ended(program: &RankedTraining, description: &Path, mesh: MeshAxes, draw: &mut CaseDraw) -> Result<(PathBuf, u64), String> {
    for attempt in 0..10 {
        let folder = program.place(&format!("meshed-{mesh:?}-{attempt}"));
        let mut job = program.start(4, description, &folder, &values(mesh))?;
        let (begun, some) = (Instant::now(), 1 + draw.below(8) as usize);
        while steps(&folder).len() < some && !job.is_over(0) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let victim = draw.below(4) as usize;
        if !job.is_over(victim) {
            job.signal(victim, Signal::SIGTERM)?;
        }
        let ends: Vec<_> = job.wait()?;
        match (ends.iter().all(|end| end.code == Some(143)), steps(&folder).last()) {
            (true, Some(step)) => return Ok((folder, *step)),
            _ if ends.iter().all(|end| end.code == Some(0) || end.code == Some(143)) => {}
            _ => return Err(format!("{mesh:?} ended with {:?}", ends.iter().map(|end| (end.code, end.stderr.trim().to_string())).collect::<Vec<_>>())),
        }
    }
    Err("the run is always over before it is ended".into())
}
/// Goes on for no step, and to the end; gives how far that is from one process's.
fn went_on(
    (program, description): (&RankedTraining, &Path),
    (saved, step): (&Path, u64),
    (from, to): (MeshAxes, MeshAxes),
    alone: &Path,
) -> Result<f64, String> {
    let copy = program.place("on-another-mesh");
    let again = || {
        let _ = fs::remove_dir_all(&copy);
        copied(saved, &copy)
    };
    again()?;
    program.finish(4, description, &copy, &[values(to), set(&[format!("iterations={step}")])].concat())?;
    let off = apart(&state(saved, step, false)?, &copy.join("weights.safetensors"))?;
    if off != 0.0 {
        return Err(format!("the weights that were read and put together again are off by {off:e}"));
    }
    again()?;
    program.finish(4, description, &copy, &values(to))?;
    let last = *steps(&copy).last().ok_or("no checkpoint")?;
    let off = apart(&state(alone, last, true)?, &state(&copy, last, true)?)?;
    let has_pieces = from[2] > 1 || to[2] > 1;
    if off == 0.0 || has_pieces && off <= NEAR { Ok(off) } else { Err(format!("weights and slots end off by {off:e}")) }
}
