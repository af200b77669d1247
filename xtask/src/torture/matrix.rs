//! Every optimizer under every schedule, with everything else that the next step can depend on, killed and resumed: a covering set of
//! pairs, in which each value of each factor meets each value of each other one, on a table and a model so small that a run takes a
//! fraction of a second.
//!
//! Optimizers and schedules come from the lists that the program builds them by; one that has no line here fails the matrix.
use super::{
    CaseDraw, TortureClaim, claim,
    kill::Options,
    program::{TrainingProgram, alive, ended, temporaries},
};
use adamant::stability::HandlingType;
use adamant_train::{
    OPTIMIZERS, SCHEDULES,
    checkpoint::{self, Checkpoints, Retention},
    storage::Disk,
};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize, atomic::Ordering},
    time::{Duration, Instant},
};

/// Kills of each row.
const KILLS: usize = 5;
/// Runs that may end before a kill meets them, for each row.
const ATTEMPTS: usize = 40;

/// A factor: its name, and the lines that each of its values puts into the description.
struct MatrixFactor {
    name: &'static str,
    values: Vec<(String, String)>,
}
fn factor(name: &'static str, values: &[(&str, &str)]) -> MatrixFactor {
    MatrixFactor { name, values: values.iter().map(|(v, lines)| (v.to_string(), lines.to_string())).collect() }
}
/// What a schedule takes, so that it does something in the few steps of a run.
fn schedule(kind: &str) -> Result<&'static str, String> {
    Ok(match kind {
        "StepLR" => "step_size = 7\ngamma = 0.7",
        "MultiStepLR" => "milestones = [5, 13, 29]\ngamma = 0.5",
        "ConstantLR" => "factor = 0.3\ntotal_iters = 11",
        "LinearLR" => "start_factor = 0.2\ntotal_iters = 17",
        "ExponentialLR" => "gamma = 0.98",
        "PolynomialLR" => "power = 1.5",
        "CosineAnnealingLR" => "eta_min = 1e-4",
        "CosineAnnealingWarmRestarts" => "T_0 = 7\nT_mult = 2",
        "OneCycleLR" => "max_lr = 0.02",
        "CyclicLR" => "base_lr = 0.001\nmax_lr = 0.02\nstep_size_up = 6\nmode = \"triangular2\"",
        "SequentialLR" => {
            "milestones = [9]\nschedulers = [{ kind = \"LinearLR\", start_factor = 0.1, total_iters = 9 }, { kind = \"OneCycleLR\", max_lr = 0.02 }]"
        }
        "ChainedScheduler" => "schedulers = [{ kind = \"ExponentialLR\", gamma = 0.99 }, { kind = \"StepLR\", step_size = 11, gamma = 0.5 }]",
        "SWALR" => "swa_lr = 0.004\nanneal_epochs = 9",
        "ReduceLROnPlateau" => "factor = 0.5\npatience = 0\ncooldown = 1",
        other => return Err(format!("the matrix has no description of the schedule {other}")),
    })
}
/// Bad numbers in the data, and each policy that lets a run go on; and gradients that are called explosions.
fn policies() -> Vec<(String, String)> {
    let lines = |policy: &str, more: &str| format!("[stability]\nhandling_type = \"{policy}\"\nmax_consecutive = 100\n{more}");
    let mut values = vec![("clean data".to_string(), String::new())];
    for policy in HandlingType::ALL.into_iter().filter(|policy| *policy != HandlingType::Stop) {
        let more = if policy == HandlingType::Restore { "restore_every = 3\nrestore_skip = 1\nrestore_lr_factor = 0.9\n" } else { "" };
        values.push((policy.name().to_string(), lines(policy.name(), more)));
    }
    for policy in ["skip", "restore", "adaptive"] {
        values.push((format!("{policy}, each op"), lines(policy, "mode = \"full\"\nrestore_every = 3\n")));
    }
    for policy in ["skip", "restore", "gradient_scaling"] {
        values.push((format!("{policy} explosions"), lines(policy, "detect_explosion = true\nexplosion_factor = 1.3\n")));
    }
    values
}
fn factors() -> Result<Vec<MatrixFactor>, String> {
    let optimizers = OPTIMIZERS.iter().map(|kind| {
        let more = match *kind {
            "SGD" => "momentum = 0.8\nlr = 0.02",
            "RMSprop" => "momentum = 0.5\ncentered = true\nlr = 0.005",
            "AdamW" => "amsgrad = true\nlr = 0.01\ngroups = [{ parameters = [\"*.bias\"], weight_decay = 0.0, lr = 0.005 }]",
            "Adadelta" | "LAMB" | "Adafactor" => "",
            _ => "lr = 0.01",
        };
        (kind.to_string(), format!("[optimizer]\nkind = \"{kind}\"\n{more}\n"))
    });
    let mut schedules = vec![("none".to_string(), String::new())];
    for kind in SCHEDULES {
        schedules.push((kind.to_string(), format!("[schedule]\nkind = \"{kind}\"\n{}\n", schedule(kind)?)));
    }
    Ok(vec![
        MatrixFactor { name: "optimizer", values: optimizers.collect() },
        MatrixFactor { name: "schedule", values: schedules },
        factor("dropout", &[("off", ""), ("on", "{ kind = \"Dropout\", p = 0.3 },")]),
        factor("batch_norm", &[("off", ""), ("on", "{ kind = \"BatchNorm1d\", num_features = 8 },")]),
        factor("accumulate", &[("1", ""), ("2", "accumulate = 2\n")]),
        factor("valid", &[("off", ""), ("on", "valid = 0.25\n")]),
        factor("eval_every", &[("epoch", ""), ("3", "eval_every = 3\n")]),
        factor(
            "early_stopping",
            &[("off", ""), ("on", "[early_stopping]\npatience = 6\n"), ("best", "[early_stopping]\npatience = 4\nmin_delta = 1e-4\nrestore_best = true\n")],
        ),
        factor("ema", &[("off", ""), ("on", "[ema]\ndecay = 0.9\n")]),
        factor("workers", &[("0", ""), ("2", "workers = 2\n")]),
        factor(
            "clip",
            &[
                ("off", ""),
                ("norm", "clip = { kind = \"norm\", max = 0.5 }\n"),
                ("global_norm", "clip = { kind = \"global_norm\", max_norm = 0.5 }\n"),
                ("value", "clip = { kind = \"value\", max = 0.05 }\n"),
                ("adaptive", "clip = { kind = \"adaptive\", adaptive_factor = 0.9 }\n"),
                ("layer_wise", "clip = { kind = \"layer_wise\", layer_norm_thresholds = [{ layers = \"head\", max_norm = 0.1 }] }\n"),
                ("percentile", "clip = { kind = \"percentile\", percentile_threshold = 80 }\n"),
                ("exponential", "clip = { kind = \"exponential\", max_norm = 0.5 }\n"),
                ("agc", "clip = { kind = \"agc\" }\n"),
                ("zclip", "clip = { kind = \"zclip\", z_warm_up = 5, z_threshold = 0.5 }\n"),
            ],
        ),
        factor("background", &[("true", ""), ("false", "background = false\n")]),
        factor("freeze", &[("off", ""), ("on", "freeze = [\"head.bias\"]\n")]),
        MatrixFactor { name: "stability", values: policies() },
        factor("weights", &[("equal", ""), ("balanced", "class_weights = \"balanced\"\n"), ("focal", "loss = \"focal\"\n")]),
    ])
}
/// Rows such that each two values of two factors meet in one of them: each row begins with a pair that has not met yet, and
/// takes for each other factor the value that meets most that it has not met.
fn covering(sizes: &[usize], draw: &mut CaseDraw) -> Vec<Vec<usize>> {
    let key = |a: usize, v: usize, b: usize, w: usize| if a < b { (a, v, b, w) } else { (b, w, a, v) };
    let mut open = std::collections::BTreeSet::new();
    for a in 0..sizes.len() {
        for b in a + 1..sizes.len() {
            open.extend((0..sizes[a]).flat_map(|v| (0..sizes[b]).map(move |w| (a, v, b, w))));
        }
    }
    let mut rows = Vec::new();
    while !open.is_empty() {
        let pick = draw.below(open.len() as u64) as usize;
        let Some((a, v, b, w)) = open.iter().nth(pick).copied() else { break };
        let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
        (row[a], row[b]) = (Some(v), Some(w));
        for f in 0..sizes.len() {
            if row[f].is_some() {
                continue;
            }
            let from = draw.below(sizes[f] as u64) as usize;
            let gain = |v: usize| row.iter().enumerate().filter(|(g, w)| w.is_some_and(|w| open.contains(&key(f, v, *g, w)))).count();
            // The first of the best, from a place that is drawn: which values fill a row up changes from row to row.
            let best = (0..sizes[f]).map(|k| (from + k) % sizes[f]).fold((0, 0), |best, v| {
                if best.0 == 0 && gain(v) == 0 {
                    (0, from)
                } else if gain(v) > best.0 {
                    (gain(v), v)
                } else {
                    best
                }
            });
            row[f] = Some(best.1);
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        for a in 0..row.len() {
            for b in a + 1..row.len() {
                open.remove(&(a, row[a], b, row[b]));
            }
        }
        rows.push(row);
    }
    rows
}
/// The description of a row.
fn description(factors: &[MatrixFactor], row: &[usize]) -> String {
    let of = |name: &str| factors.iter().zip(row).find(|(f, _)| f.name == name).map_or("", |(f, v)| f.values[*v].1.as_str());
    let table = if of("stability").is_empty() { "table.csv" } else { BAD_TABLE };
    format!(
        "seed = 3\nepochs = 10\nbatch = 8\nlog_every = 2\n{}{}{}{}{}\n[data]\nkind = \"csv\"\npath = \"{table}\"\nallow_nonfinite = true\nlabel = 6\nclasses = 3\n\
         test = {{ modulo = 6, equals = 5 }}\n{}{}\n[model]\nlayers = [\n{{ kind = \"Linear\", in_features = 6, out_features = 8 }},\n{}\n{{ kind = \"Tanh\" }},\n{}\n\
         {{ name = \"head\", kind = \"Linear\", in_features = 8, out_features = 3 }},\n]\n{}{}{}{}{}\n[checkpoint]\nevery = 4\nlast = 2\nbest = 1\n{}",
        of("accumulate"),
        of("eval_every"),
        of("clip"),
        of("freeze"),
        of("weights"),
        of("valid"),
        of("workers"),
        of("batch_norm"),
        of("dropout"),
        of("optimizer"),
        of("schedule"),
        of("early_stopping"),
        of("ema"),
        of("stability"),
        of("background"),
    )
}
/// The table with numbers that are not finite.
const BAD_TABLE: &str = "bad.csv";
/// 72 rows of three classes, one of them rarer; and which of their numbers are others.
fn table(others: &[(usize, usize, &str)]) -> String {
    let mut draw = CaseDraw(11);
    (0..72).fold(String::new(), |mut text, k| {
        let class = if k % 7 == 0 { 2 } else { k % 2 };
        let mut values: Vec<String> = (0..6).map(|c| format!("{:.3}", draw.unit() + if c == class { 0.8 } else { 0.0 })).collect();
        others.iter().filter(|(row, ..)| *row == k).for_each(|(_, column, other)| values[*column] = (*other).to_string());
        let _ = writeln!(text, "{},{class}", values.join(","));
        text
    })
}
/// What a run leaves, but for what its clock and its place say.
fn left(run: &Path) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let read = |name: &str| fs::read(run.join(name)).map_err(|e| format!("{name}: {e}"));
    let figures = |name: &'static str| -> Result<(&'static str, Vec<u8>), String> {
        let mut value: Value = serde_json::from_slice(&read(name)?).map_err(|e| format!("{name}: {e}"))?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|key, _| !["seconds", "resumed", "run", "weights"].contains(&key.as_str()));
        }
        Ok((name, value.to_string().into_bytes()))
    };
    Ok(vec![
        ("weights.safetensors", read("weights.safetensors")?),
        ("metrics.jsonl", read("metrics.jsonl")?),
        figures("result.json")?,
        figures("evaluation.json")?,
    ])
}

/// Parts of the state that may be planted as forgotten: then the matrix must fail.
pub const PLANTS: [&str; 6] = ["momentum", "schedule", "generator", "average", "held", "norms"];
/// Forgets a part of the newest checkpoint, with right hashes.
fn forget(run: &Path, what: &str) -> Result<(), String> {
    let folder = run.join("checkpoints");
    let Some(found) = checkpoint::latest(&Disk, &folder).map_err(|e| e.to_string())? else { return Ok(()) };
    let (mut snapshot, score) = (found.snapshot, found.score);
    match what {
        "momentum" => {
            for group in snapshot.state["hyperparameters"].as_array_mut().into_iter().flatten() {
                for name in ["momentum", "betas.0"] {
                    if let Some(bits) = group.get_mut(name) {
                        *bits = json!(0.5f64.to_bits());
                    }
                }
            }
        }
        "schedule" => {
            if let Some(steps) = snapshot.state["schedule"].get_mut("steps") {
                *steps = json!(0);
            }
        }
        "generator" => snapshot.state["generator"] = json!([1, 2, 3, 4]),
        // What is put back after a bad step.
        "held" => {
            if let Some(run) = snapshot.state["run"].as_object_mut() {
                run.remove("restored");
            }
        }
        // How large gradients were of late.
        "norms" => snapshot.tensors.get_mut("stability").into_iter().for_each(|kept| kept.retain(|(name, _)| name != "norms")),
        _ => {
            if !snapshot.state["averaged"].is_null() {
                snapshot.state["averaged"] = json!(0);
            }
        }
    }
    let checkpoints = Checkpoints::open(Arc::new(Disk), &folder, Retention { last: 9, best: 0 }).map_err(|e| e.to_string())?;
    checkpoints.save(&snapshot, score).map(drop).map_err(|e| e.to_string())
}
/// What came of a row: kills that met a run, and the least and the most steps that were made again.
struct Seen {
    kills: usize,
    resumed: usize,
}
/// One row: a run that nobody disturbs, and one that is killed again and again.
fn row(program: &TrainingProgram, place: &Path, text: &str, plant: Option<&str>, draw: &mut CaseDraw) -> Result<Seen, String> {
    fs::create_dir_all(place).map_err(|e| e.to_string())?;
    let file = place.join("row.toml");
    fs::write(&file, text).map_err(|e| e.to_string())?;
    let start = |run: &Path, resume: bool| {
        program.train(&file, place.parent().unwrap_or(place), run, resume).args(["--threads", "1"]).spawn().map_err(|e| e.to_string())
    };
    let whole = place.join("whole");
    let begun = Instant::now();
    let undisturbed = ended(start(&whole, false)?, begun)?.well()?;
    let want = left(&whole)?;
    let mut seen = Seen { kills: 0, resumed: 0 };
    for attempt in 0..ATTEMPTS {
        let run = place.join(format!("killed-{attempt}"));
        loop {
            let mut child = start(&run, true)?;
            let pause = Duration::from_secs_f64(undisturbed.seconds * draw.unit());
            let until = Instant::now() + pause;
            while alive(&mut child)? && Instant::now() < until && seen.kills < KILLS {
                std::thread::sleep(Duration::from_micros(200));
            }
            if seen.kills >= KILLS || !alive(&mut child)? {
                // It is left alone now, or was faster than the hand that was to kill it.
                let done = ended(child, begun)?.well()?;
                seen.resumed += usize::from(done.resumed().is_some());
                break;
            }
            child.kill().map_err(|e| e.to_string())?;
            ended(child, begun)?;
            // A kill before the run folder is there tells nothing.
            seen.kills += usize::from(run.join("config.toml").exists());
            if let Some(plant) = plant {
                forget(&run, plant)?;
            }
        }
        for ((name, got), (_, want)) in left(&run)?.iter().zip(&want) {
            if got != want {
                let place = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(got.len().min(want.len()));
                let around = |bytes: &[u8]| String::from_utf8_lossy(&bytes[place.saturating_sub(60)..bytes.len().min(place + 60)]).into_owned();
                let texts = if name.ends_with("safetensors") { String::new() } else { format!(": `{}`, undisturbed `{}`", around(got), around(want)) };
                return Err(format!("{name} differs at byte {place}{texts}"));
            }
        }
        let orphans = temporaries(&run);
        if !orphans.is_empty() {
            return Err(format!("left: {orphans:?}"));
        }
        let _ = fs::remove_dir_all(&run);
        if seen.kills >= KILLS {
            return Ok(seen);
        }
    }
    Err(format!("{} kills met a run in {ATTEMPTS} runs", seen.kills))
}

/// The claim, over all rows or the first of them.
pub fn matrix(program: &TrainingProgram, options: &Options) -> TortureClaim {
    let text = match &options.plant {
        Some(plant) => format!("with `{plant}` forgotten at each kill, all rows come to what the undisturbed run comes to (this must not hold)"),
        None => format!(
            "each pair of optimizer, schedule and all else that a step depends on: {KILLS} kills, and weights, metrics, result and evaluation of the undisturbed run"
        ),
    };
    claim(&text, |claim| {
        let factors = factors()?;
        let sizes: Vec<usize> = factors.iter().map(|f| f.values.len()).collect();
        let all = covering(&sizes, &mut CaseDraw(options.seed));
        let rows = &all[..options.rows.unwrap_or(all.len()).min(all.len())];
        let place = program.run("matrix");
        fs::create_dir_all(&place).map_err(|e| e.to_string())?;
        fs::write(place.join("table.csv"), table(&[])).map_err(|e| e.to_string())?;
        // None of the test part.
        fs::write(place.join(BAD_TABLE), table(&[(13, 2, "nan"), (40, 0, "inf")])).map_err(|e| e.to_string())?;
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((k, values)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, rows.get(k)?))) {
                        let folder: PathBuf = place.join(format!("row-{k}"));
                        let mut draw = CaseDraw(options.seed.wrapping_mul(1_000_003) ^ k as u64);
                        let result = row(program, &folder, &description(&factors, values), options.plant.as_deref(), &mut draw);
                        let _ = fs::remove_dir_all(&folder);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push((k, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(k, _)| *k);
        let (mut kills, mut resumed) = (0, 0);
        for (k, result) in results {
            if let Ok(seen) = &result {
                (kills, resumed) = (kills + seen.kills, resumed + seen.resumed);
            }
            let named = || factors.iter().zip(&rows[k]).map(|(f, v)| format!("{}={}", f.name, f.values[*v].0)).collect::<Vec<_>>().join(" ");
            claim.count(result.map(drop).map_err(|e| format!("row {k} ({}): {e}", named())));
        }
        claim.seen = json!({
            "rows": rows.len(), "rows_of_the_covering_set": all.len(), "kills": kills, "ends_of_a_resumed_run": resumed,
            "optimizers": OPTIMIZERS.len(), "schedules": SCHEDULES.len() + 1, "seed": options.seed,
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::{covering, description, factors};
    use crate::torture::CaseDraw;

    #[test]
    fn two_values_that_never_meet() {
        let factors = factors().unwrap_or_default();
        let sizes: Vec<usize> = factors.iter().map(|f| f.values.len()).collect();
        let rows = covering(&sizes, &mut CaseDraw(1));
        assert!(!rows.is_empty() && rows.len() < 2 * sizes[0] * sizes[1], "{} rows", rows.len());
        for a in 0..sizes.len() {
            for b in a + 1..sizes.len() {
                for (v, w) in (0..sizes[a]).flat_map(|v| (0..sizes[b]).map(move |w| (v, w))) {
                    assert!(rows.iter().any(|r| r[a] == v && r[b] == w), "{}={v} and {}={w}", factors[a].name, factors[b].name);
                }
            }
        }
    }
    #[test]
    fn a_row_that_is_no_description() {
        let factors = factors().unwrap_or_default();
        let sizes: Vec<usize> = factors.iter().map(|f| f.values.len()).collect();
        for row in covering(&sizes, &mut CaseDraw(2)) {
            let text = description(&factors, &row);
            assert!(adamant_train::Document::parse("row.toml", &text).is_ok(), "{text}");
        }
    }
}
