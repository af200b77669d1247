//! `cargo xtask bench tables`: tables as they are, each with the description that `adamant config create table` writes for
//! it, against scikit-learn's logistic or ridge regression on the same rows (ADAMANT_PYTHON names a Python that has it).
use crate::{exit::Exit, workspace};
use adamant::{
    Tensor,
    data::{CsvOptions, Dataset, Survey, Target},
    no_grad,
};
use adamant_train::{Document, Run, Trained, dataset};
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The tables; those of ../shared/data/tabular unless they are named
    tables: Vec<PathBuf>,
    /// Points of accuracy or of R2 (of 100) that ours may be below
    #[arg(long, default_value_t = 1.0)]
    within: f64,
    /// Where ours are trained
    #[arg(long, default_value = "cpu")]
    device: String,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
const TABLES: [&str; 4] = ["breast_cancer.csv", "diabetes_data_raw.csv.gz", "wine_data.csv", "iris.csv"];

#[derive(Serialize)]
struct Row {
    table: String,
    lines: usize,
    measure: &'static str,
    train: usize,
    test: usize,
    ours: f64,
    theirs: Option<f64>,
    versions: Option<String>,
    passed: Option<bool>,
    why: Option<String>,
}

/// Trains on each and compares.
pub fn run(options: &Options) -> Exit {
    let shared = workspace::root().join("../shared/data/tabular");
    let usual = || TABLES.iter().map(|t| shared.join(t)).collect();
    let tables: Vec<PathBuf> = if options.tables.is_empty() { usual() } else { options.tables.clone() };
    let device = match crate::device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let mut rows = Vec::new();
    for table in &tables {
        match device.scoped(|| one(table, options.within)) {
            Ok(row) => rows.push(row),
            Err(e) => {
                eprintln!("{}: {e}", table.display());
                return Exit::Unreadable;
            }
        }
    }
    if options.json {
        println!("{}", serde_json::json!({ "rows": rows }));
    } else {
        for row in &rows {
            let theirs = match (&row.theirs, &row.versions, &row.why) {
                (Some(theirs), Some(versions), _) => format!("{:.2} ({versions})", 100.0 * theirs),
                (.., why) => format!("SKIPPED: {}", why.as_deref().unwrap_or_default()),
            };
            let verdict = row.passed.map_or("        ", |passed| if passed { "ok      " } else { "FAILED  " });
            println!(
                "{verdict} {:<28} {} lines, {} rows trained, {} tested: {} {:.2}, theirs {theirs}",
                row.table,
                row.lines,
                row.train,
                row.test,
                row.measure,
                100.0 * row.ours
            );
        }
    }
    if rows.iter().any(|r| r.passed == Some(false)) { Exit::Failed } else { Exit::Passed }
}
fn one(table: &Path, within: f64) -> Result<Row, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let table = table.canonicalize().map_err(|e| text(&e))?;
    let description = dataset::describe_table("table", &table, &table.to_string_lossy(), None).map_err(|e| text(&e))?;
    let document = Document::parse("table.toml", &description).map_err(|e| text(&e))?;
    let place = tempfile::tempdir().map_err(|e| text(&e))?;
    let folder = place.path().join("run");
    Run::new(&document).folder(&folder).train(&mut ()).map_err(|e| text(&e))?;
    let trained = Trained::open(&folder).map_err(|e| text(&e))?;
    let (_, parts) = trained.data(Path::new("")).map_err(|e| text(&e))?;
    // Ours, from the run folder alone: the share of right answers, or R2 in the answers' own units.
    let (mut outputs, mut truths) = (Vec::new(), Vec::new());
    let scale = parts.test.describe().target_scale;
    for k in 0..parts.test.len() {
        let record = parts.test.read(k).map_err(|e| text(&e))?;
        let (x, y) = parts.test.collate(vec![record]).map_err(|e| text(&e))?;
        let answer = no_grad(|| trained.answer(&x)).map_err(|e| text(&e))?;
        let y = scale.as_ref().map_or(Ok(y.clone()), |s| s.restore(&y)).map_err(|e| text(&e))?;
        let values = |t: &Tensor| t.to_vec_as::<f64>().map_err(|e| e.to_string());
        outputs.push(values(&answer)?);
        truths.push(values(&y)?[0]);
    }
    let is_class = matches!(parts.test.describe().targets, Some(Target::Classes { .. }));
    let best = |v: &[f64]| (0..v.len()).max_by(|a, b| v[*a].total_cmp(&v[*b])).unwrap_or(0) as f64;
    let n = truths.len() as f64;
    let ours = if is_class {
        outputs.iter().zip(&truths).filter(|(o, t)| best(o) == **t).count() as f64 / n
    } else {
        let mean = truths.iter().sum::<f64>() / n;
        let squares = |of: &dyn Fn(usize) -> f64| (0..truths.len()).map(|k| (truths[k] - of(k)).powi(2)).sum::<f64>();
        1.0 - squares(&|k| outputs[k][0]) / squares(&|_| mean)
    };
    let rows_of = |part: &adamant::data::Examples| (0..part.len()).map(|k| part.locate(k).index).collect::<Vec<_>>();
    let (train, test) = (rows_of(&parts.train), rows_of(&parts.test));
    let value = |key: &str| {
        description.lines().find_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix('=')).map(|v| v.split('#').next().unwrap_or("").trim().to_string())
    };
    let spaces = value("delimiter").is_some_and(|d| d.contains("whitespace"));
    let survey = Survey::of(&table, &CsvOptions { skip_rows: 1, ..CsvOptions::default() }).map_err(|e| text(&e))?;
    let asked = serde_json::json!({
        "path": table.to_string_lossy(),
        "skip": value("skip_rows").and_then(|v| v.parse::<usize>().ok()).unwrap_or(0) + usize::from(value("header").as_deref() == Some("true")),
        "delimiter": if spaces { serde_json::Value::Null } else { survey.head.delimiter.to_string().into() },
        "label": value("label").and_then(|v| v.parse::<usize>().ok()),
        "target_path": value("target_path").map(|v| v.trim_matches('"').to_string()),
        "classes": is_class,
        "train": train,
        "test": test,
    });
    let theirs = python(&asked.to_string());
    let measure = if is_class { "accuracy" } else { "R2" };
    let found = theirs.as_ref().ok();
    Ok(Row {
        table: table.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        lines: description.lines().count(),
        measure,
        train: train.len(),
        test: test.len(),
        ours,
        theirs: found.map(|f| f.0),
        versions: found.map(|f| f.1.clone()),
        passed: found.map(|f| ours >= f.0 - within / 100.0 - 1e-9 && description.lines().count() <= 25),
        why: theirs.as_ref().err().cloned(),
    })
}
/// The score of scikit-learn, and its version; why not, where there is none.
fn python(asked: &str) -> Result<(f64, String), String> {
    let python = std::env::var_os("ADAMANT_PYTHON").unwrap_or_else(|| "python3".into());
    let failed = |e: std::io::Error| format!("{}: {e} (ADAMANT_PYTHON names another)", python.display());
    let script = workspace::root().join("xtask/python/tables.py");
    let mut child = Command::new(&python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A Python that ended has said why.
        let _ = stdin.write_all(asked.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    let told: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let score = told.as_ref().and_then(|t| Some((t["score"].as_f64()?, t["versions"].as_str()?.to_string())));
    score.ok_or_else(|| String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it said nothing").to_string())
}
