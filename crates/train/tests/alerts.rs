//! Alerts of a run: told where the rules say so and once only, in a run that was killed as in one that was not; what their command does is no affair of
//! the run's.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Tensor};
use adamant_data::{DataLoader, TensorDataset};
use adamant_nn::{Linear, Module, Walk, manual_seed};
use adamant_optim::{Sgd, UpdateRule};
use adamant_train::{
    Document, Failure, Report, Run, Trainer, Watch,
    alerts::{AlertRule, AlertWhen, Alerts},
};
use serde_json::Value;
use std::{fs, path::Path, sync::Arc, time::Duration};

/// Four epochs of 14 steps each; all checkpoints are kept, each eighth step's.
const RUN: &str = r#"
seed = 3
epochs = 4
batch = 6
log_every = 1
checkpoint = { every = 8, last = 100, best = 1 }
[data]
kind = "permutation"
classes = 12
rows = 100
valid = 0.2
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Dropout", p = 0.2 },
    { name = "head", kind = "Linear", in_features = 8, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.02
"#;
/// A rule of each kind.
const ALERTS: &str = r#"
[alerts]
every = 5
[[alerts.rule]]
name = "high"
metric = "train/loss"
when = "> 2"
for = 3
every = 7
[[alerts.rule]]
name = "jump"
metric = "train/loss"
when = "rises by 3% over 6 steps"
[[alerts.rule]]
name = "sinks"
metric = "train/loss"
when = "falls by 5% over 10 steps"
every = 0
[[alerts.rule]]
name = "above its best"
metric = "train/grad_norm"
when = "40% above the least"
[[alerts.rule]]
name = "below its best"
metric = "valid/accuracy"
when = "1% below the most"
[[alerts.rule]]
name = "stuck"
metric = "train/loss"
when = "no improvement for 2 steps"
[[alerts.rule]]
name = "nan"
metric = "train/loss"
when = "nonfinite"
[[alerts.rule]]
name = "tested"
metric = "test/loss"
when = ">= 0"
[[alerts.rule]]
name = "done"
metric = "end"
"#;
const FILES: [&str; 2] = ["metrics.jsonl", "weights.safetensors"];

/// Remembers warnings.
#[derive(Default)]
struct Told(Vec<String>);
impl Watch for Told {
    fn warn(&mut self, text: &str) {
        self.0.push(text.into());
    }
}
impl Told {
    fn alerts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).filter(|w| w.starts_with("alert `")).collect()
    }
}
fn train(folder: &Path, alerts: &str, set: &[&str]) -> (Result<Report, Failure>, Told) {
    let mut told = Told::default();
    let mut document = Document::parse("run.toml", &format!("{RUN}{alerts}")).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    let run = Run::new(&document).folder(folder).resume(folder.join("checkpoints").exists());
    (Device::reference().scoped(|| run.train(&mut told)), told)
}
fn lines(folder: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => assert!(fs::copy(&from, &to).is_ok()),
        }
    }
}
/// As after a kill that took all checkpoints behind a step.
fn killed(whole: &Path, run: &Path, keep: u64) {
    copy(whole, run);
    for entry in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        let step = entry.file_name().to_str().unwrap().strip_prefix("step-").and_then(|s| s.parse::<u64>().ok());
        if step.is_some_and(|step| step > keep) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

#[test]
fn alerts_that_change_a_bit_or_are_told_twice_or_never() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), "", &[]).0.unwrap();
    assert!(!at("plain").join("alerts.jsonl").exists());
    let (done, told) = train(&at("whole"), ALERTS, &[]);
    done.unwrap();
    let whole = fs::read(at("whole").join("alerts.jsonl")).unwrap();
    let all = lines(&at("whole"), "alerts.jsonl");
    assert_eq!(told.alerts().len(), all.len(), "{:?}", told.0);
    let of =
        |rule: &str| all.iter().filter(|l| l["rule"] == rule).map(|l| (l["step"].as_u64().unwrap(), l["suppressed"].as_u64().unwrap())).collect::<Vec<_>>();
    for rule in ["high", "jump", "sinks", "above its best", "stuck", "tested", "done"] {
        assert!(!of(rule).is_empty(), "{rule}: {all:?}");
    }
    assert!(of("nan").is_empty());
    // What is told of one rule, by its words, from the log.
    let losses: Vec<f64> = lines(&at("whole"), "metrics.jsonl").iter().filter(|l| l["kind"] == "step").map(|l| l["loss"].as_f64().unwrap()).collect();
    let (mut want, mut last, mut row, mut not_told) = (Vec::new(), None::<u64>, 0, 0);
    for (step, loss) in (1..).zip(&losses) {
        row = if *loss > 2.0 { row + 1 } else { 0 };
        if row >= 3 && last.is_none_or(|last| step - last >= 7) {
            want.push((step, std::mem::take(&mut not_told)));
            last = Some(step);
        } else if row >= 3 {
            not_told += 1;
        }
    }
    assert_eq!(of("high"), want);
    let last = all.last().unwrap();
    assert_eq!((last["rule"].as_str(), last["step"].as_u64(), last["value"].is_null()), (Some("done"), Some(56), true), "{last}");
    for name in FILES {
        assert!(fs::read(at("whole").join(name)).unwrap() == fs::read(at("plain").join(name)).unwrap(), "{name}");
    }
    for keep in [8, 16, 24, 40, 56] {
        // Everything was told before the kill, or what comes behind a step was not.
        for heard in [u64::MAX, 20, keep] {
            let run = at(&format!("killed-{keep}-{heard}"));
            killed(&at("whole"), &run, keep);
            let before: String = all.iter().filter(|l| l["step"].as_u64().unwrap() <= heard).map(|l| format!("{l}\n")).collect();
            fs::write(run.join("alerts.jsonl"), format!("{before}{{\"step\": 9")).unwrap();
            let (done, told) = train(&run, ALERTS, &[]);
            assert_eq!(done.unwrap().resumed, Some(keep));
            let silent = before.lines().count();
            if heard >= keep {
                assert_eq!(told.alerts().len(), all.len() - silent, "from {keep}, heard {heard}: {:?}", told.0);
            }
            for name in FILES {
                assert!(fs::read(run.join(name)).unwrap() == fs::read(at("plain").join(name)).unwrap(), "{name}");
            }
            if heard >= keep {
                assert!(fs::read(run.join("alerts.jsonl")).unwrap() == whole, "from {keep}, heard {heard}");
            }
        }
    }
    // Other rules, or none, are no other run.
    killed(&at("whole"), &at("other"), 16);
    let (done, _) = train(&at("other"), "[alerts]\nrule = [{ name = \"done\", metric = \"end\" }]\n", &[]);
    done.unwrap();
    for name in FILES {
        assert!(fs::read(at("other").join(name)).unwrap() == fs::read(at("plain").join(name)).unwrap(), "{name}");
    }
    // Begun anew: what was told of an earlier run is gone.
    fs::remove_dir_all(at("other").join("checkpoints")).unwrap();
    train(&at("other"), "", &[]).0.unwrap();
    assert!(!at("other").join("alerts.jsonl").exists());
}
#[test]
fn an_event_that_nobody_is_told_of() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let events = "[alerts]\nrule = [{ name = \"i\", metric = \"incident\" }, { name = \"f\", metric = \"failure\" }, { name = \"e\", metric = \"end\" }]\n";
    // A rate that ends the run with numbers that are not finite.
    let (done, told) = train(&at("bad"), events, &["optimizer.lr=1e38", "optimizer.kind=SGD"]);
    assert_eq!(done.unwrap_err().exit_code(), 3);
    let rules: Vec<_> = lines(&at("bad"), "alerts.jsonl").iter().map(|l| l["rule"].as_str().unwrap().to_string()).collect();
    assert_eq!(rules, ["i", "f"], "{:?}", told.0);
    // The same incident again is not told again; that the run has failed again is.
    let (done, again) = train(&at("bad"), events, &["optimizer.lr=1e38", "optimizer.kind=SGD"]);
    assert_eq!(done.unwrap_err().exit_code(), 3);
    assert!(again.alerts().len() == 1 && again.alerts()[0].starts_with("alert `f`"), "{:?}", again.0);
    let (done, _) = train(&at("good"), events, &[]);
    done.unwrap();
    assert_eq!(lines(&at("good"), "alerts.jsonl").len(), 1);
}
/// A command that writes its arguments and its variable into files of its own.
const WRITES: &str = "#!/bin/sh\nd=$1; shift; n=$(mktemp \"$d/call-XXXXXX\"); for a in \"$@\"; do printf '%s\\0' \"$a\"; done > \"$n\"; printf %s \"$ADAMANT_ALERT\" > \"$n.line\"; \
[ -z \"$(cat)\" ] || touch \"$d/stdin\"\n";
#[test]
fn an_argument_that_a_shell_has_read() {
    let place = tempfile::tempdir().unwrap();
    let (run, calls) = (place.path().join("a run; $(id)"), place.path().join("calls"));
    fs::create_dir(&calls).unwrap();
    fs::write(place.path().join("writes.sh"), WRITES).unwrap();
    let name = "$(touch hacked) `touch hacked`; touch hacked\n* \"'\\ {text} | > hacked é";
    let alerts = Alerts::new().rule(AlertRule::new(name, "train/loss", AlertWhen::AtLeast(0.0)).every(20)).rule(AlertRule::end("end")).command([
        "sh",
        &place.path().join("writes.sh").to_string_lossy(),
        &calls.to_string_lossy(),
        "{name}",
        "at {step}/{epoch}: {text}",
        "{\"a\": 1}",
        "",
        "{run}",
    ]);
    let (model, data) = linear();
    let mut told = Told::default();
    Device::reference().scoped(|| model().log_every(1).alerts(alerts).folder(&run).fit(data(), &mut told)).unwrap();
    let mut seen = Vec::new();
    for entry in fs::read_dir(&calls).unwrap().flatten() {
        let path = entry.path();
        assert!(path.file_name().unwrap() != "stdin" && path.file_name().unwrap() != "hacked");
        if path.extension().is_some() {
            continue;
        }
        let line: Value = serde_json::from_str(&fs::read_to_string(path.with_extension("line")).unwrap()).unwrap();
        let arguments: Vec<String> = fs::read_to_string(&path).unwrap().split('\0').map(String::from).collect();
        let at = format!("at {}/{}: {}", line["step"], line["epoch"], line["text"].as_str().unwrap());
        assert_eq!(arguments, [line["rule"].as_str().unwrap(), &at, "{\"a\": 1}", "", &run.to_string_lossy(), ""], "{line}");
        seen.push(line);
    }
    // Nothing of the name was run where this process is.
    assert!(!Path::new("hacked").exists());
    seen.sort_by_key(|line| (line["step"].as_u64(), line["rule"] == "end"));
    assert_eq!(seen, lines(&run, "alerts.jsonl"));
    assert!(seen.len() == 4 && seen[0]["rule"] == name && told.0.len() == 4, "{seen:?} {:?}", told.0);
}
/// A trainer of its own for each run, of 60 steps.
#[allow(clippy::type_complexity)]
fn linear() -> (impl Fn() -> Trainer<Linear, Vec<Tensor>>, impl Fn() -> DataLoader<TensorDataset>) {
    let model = || {
        manual_seed(1);
        let model = Linear::new(2, 1).unwrap();
        let optimizer = Sgd::new(0.01).over(model.parameters());
        Trainer::new(model, optimizer, |model: &Linear, batch: &Vec<Tensor>| (model.forward(&batch[0])? - &batch[1]).square().mean(..).ok()).epochs(20)
    };
    let data = || {
        let table = |width: usize| Tensor::from_vec((0..30 * width).map(|k| (k % 7) as f32 / 7.0).collect::<Vec<_>>(), [30, width]);
        DataLoader::new(Arc::new(TensorDataset::new(&[&table(2), &table(1)]).unwrap())).batch_size(10).build().unwrap()
    };
    (model, data)
}
#[test]
fn a_command_that_hangs_or_fails_or_is_not_there_and_ends_the_run() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (model, data) = linear();
    let pids = at("pids");
    let hangs = format!("sleep 1000 & echo $! >> '{}'; wait", pids.display());
    let cases: [(&str, &[&str], &str); 5] = [
        ("plain", &[], ""),
        ("hangs", &["sh", "-c", &hangs], "it was killed after"),
        ("fails", &["sh", "-c", "exit 7"], "it ended with code 7"),
        ("absent", &["/nowhere/no-such-program", "{text}"], "it cannot be started"),
        ("nul", &["echo", "a\0b"], "it cannot be started"),
    ];
    for (name, command, says) in cases {
        let alerts = Alerts::new().rule(AlertRule::new("each", "train/loss", AlertWhen::AtLeast(0.0)).every(0)).command(command.iter().copied());
        let alerts = alerts.timeout(Duration::from_millis(300));
        let mut told = Told::default();
        let fitted = Device::reference().scoped(|| model().log_every(1).alerts(alerts).folder(at(name)).fit(data(), &mut told)).unwrap();
        assert_eq!((fitted.losses.len(), told.alerts().len(), lines(&at(name), "alerts.jsonl").len()), (20, 60, 60), "{name}");
        let failures: Vec<_> = told.0.iter().filter(|w| w.starts_with("the command of the alerts")).collect();
        assert!(failures.len() == usize::from(!says.is_empty()) && failures.iter().all(|w| w.contains(says)), "{name}: {failures:?}");
        for file in FILES {
            assert!(fs::read(at(name).join(file)).unwrap() == fs::read(at("plain").join(file)).unwrap(), "{name}: {file}");
        }
    }
    // What the command had started is gone with it: not there, or dead and not buried.
    let pids = fs::read_to_string(pids).unwrap();
    assert!(pids.lines().count() > 0);
    for pid in pids.lines().filter(|_| Path::new("/proc/self/stat").exists()) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
}
#[test]
fn rules_that_make_no_sense_and_are_taken() {
    let first = RUN.lines().count();
    let rule = |more: &str| format!("[alerts]\nrule = [\n{{ name = \"a\", metric = \"train/loss\", when = \"> 1\" }},\n{{ {more} }},\n]\n");
    let cases = [
        (rule("metric = \"train/loss\", when = \"> 1\""), 4, "`alerts.rule.1.name` is missing"),
        (rule("name = \"b\", when = \"> 1\""), 4, "`alerts.rule.1.metric` is missing"),
        (rule("name = \"b\", metric = \"train/loss\""), 4, "`when` is missing"),
        (rule("name = \"b\", metric = \"train/loss\", when = \"= 1\""), 4, "`alerts.rule.1.when`: `= 1` is no condition; did you mean as in"),
        (rule("name = \"b\", metric = \"train/loss\", when = \"over 1 percent\""), 4, "`alerts.rule.1.when`: `over 1 percent` is no condition; there are > 10"),
        (rule("name = \"a\", metric = \"train/loss\", when = \"> 2\""), 4, "`alerts.rule.1.name`: two rules are called `a`"),
        (rule("name = \"b\", metric = \"train/loss\", when = \"> 2\", for = 0"), 4, "`for` counts lines in a row"),
        (rule("name = \"b\", metric = \"train/loss\", when = \"> 2\", every = -1"), 4, "`alerts.rule.1.every` takes an integer from 0"),
        (rule("name = \"b\", metric = \"train/loss\", wen = \"> 2\""), 4, "`when` is missing"),
        (rule("name = \"b\", metric = \"train/loss\", when = \"> 2\", fro = 2"), 4, "unknown key `alerts.rule.1.fro`; did you mean `for`?"),
        (rule("name = \"b\", metric = \"train/lr\", when = \"no improvement for 3 steps\""), 4, "`train/lr` does not tell what is better"),
        (rule("name = \"b\", metric = \"train/lr\", when = \"> 1\", mode = \"mni\""), 4, "`alerts.rule.1.mode`: there is no `mni`"),
        ("[alerts]\ncommand = []\n".into(), 2, "`alerts.command`: it is empty"),
        ("[alerts]\ncommand = [\"\"]\n".into(), 2, "`command` begins with the name of a program"),
        ("[alerts]\ncommand = [\"x\", \"{txt}\"]\n".into(), 2, "did you mean `{text}`?"),
        ("[alerts]\nevery = \"10m\"\n".into(), 2, "`alerts.every` takes an integer from 0"),
        ("[alerts]\nevery = -3\n".into(), 2, "not a negative integer"),
        ("[alerts]\ntimeout = 0\n".into(), 2, "`alerts.timeout`: 0 is no number of seconds above 0"),
        ("[alerts]\nrules = []\n".into(), 2, "unknown key `alerts.rules`; did you mean `rule`?"),
    ];
    let place = tempfile::tempdir().unwrap();
    for (k, (text, line, says)) in cases.into_iter().enumerate() {
        let (done, _) = train(&place.path().join(k.to_string()), &text, &[]);
        let failure = done.unwrap_err();
        let said = failure.to_string();
        assert!(failure.exit_code() == 4 && said.starts_with(&format!("run.toml:{}: ", first + line)) && said.contains(says), "{text}: {said}");
    }
    let (done, told) = train(&place.path().join("near"), "[alerts]\nrule = [{ name = \"a\", metric = \"train/los\", when = \"> 1\" }]\n", &[]);
    done.unwrap();
    assert!(told.0[0].contains("did you mean `train/loss`?") && told.0.last().unwrap().contains("`train/los` was never logged"), "{:?}", told.0);
    assert!(Alerts::new().rule(AlertRule::end("a")).rule(AlertRule::end("a")).check().unwrap_err().to_string().contains("two rules are called `a`"));
}
