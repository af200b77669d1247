//! What doctor says of runs that descriptions tell: a fault by its cause, its layer and its step, and keys that end it. (`cargo xtask causes` draws
//! faults of every kind, in nets of one's own.)
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::Device;
use adamant_train::{
    Document, Failure, Run,
    doctor::{Diagnosis, RootCause, diagnose},
};
use std::{fs, path::Path};

const DESCRIPTION: &str = r#"seed = 3
epochs = 8
batch = 20
log_every = 5

[data]
kind = "csv"
path = "rows.csv"
header = true
label = "class"
test = 0.2
valid = 0.2
scale = "none"

[model]
layers = [
    { kind = "Linear", in_features = 6, out_features = 24 },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 24, out_features = 24 },
    { kind = "ReLU" },
    { kind = "Linear", in_features = 24, out_features = 3 },
]

[optimizer]
kind = "AdamW"
lr = 0.01

[stability]
look_every = 5
"#;
/// Rows of three classes, around a centre each.
fn write_rows(folder: &Path, scale: f64) {
    let mut text = String::from("a,b,c,d,e,f,class\n");
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    };
    for k in 0..600 {
        let class = k % 3;
        let row: Vec<String> = (0..6).map(|j| format!("{:.4}", scale * (if j % 3 == class { 1.5 } else { -0.5 } + 2.0 * next()))).collect();
        text += &format!("{},{}\n", row.join(","), ["x", "y", "z"][class]);
    }
    fs::write(folder.join("rows.csv"), text).unwrap();
}
/// Runs the description with some keys set.
fn run(data: &Path, name: &str, set: &[String]) -> (Diagnosis, Option<f64>) {
    let mut document = Document::parse("run.toml", DESCRIPTION).unwrap();
    set.iter().for_each(|set| document.set(set).unwrap());
    let folder = data.join(name);
    let loss = match Run::new(&document).data(data).folder(&folder).train(&mut ()) {
        Ok(report) => Some(report.test.loss),
        Err(Failure::Diverged(_) | Failure::Run(_)) => None,
        Err(other) => panic!("{other}"),
    };
    (diagnose(&folder).unwrap(), loss)
}
#[test]
fn a_description_that_is_wrong() {
    let cases: [(&[&str], f64, RootCause, Option<&str>); 7] = [
        (&[], 300.0, RootCause::UnscaledInput, None),
        (&["optimizer.lr=5.0"], 1.0, RootCause::RateTooHigh, None),
        (&["optimizer.lr=1e-8"], 1.0, RootCause::RateTooLow, None),
        (&["optimizer.weight_decay=60.0"], 1.0, RootCause::DecayTooLarge, None),
        (&["freeze=[\"2\"]"], 1.0, RootCause::FrozenLayer, Some("2")),
        (&["optimizer.kind=SGD", "optimizer.lr=0.2", "clip={kind=\"global_norm\",max_norm=1e-5}"], 1.0, RootCause::ClipTooSmall, None),
        (&["model.init={kind=\"normal\",std=3.0}"], 1.0, RootCause::InitTooLarge, None),
    ];
    let place = tempfile::tempdir().unwrap();
    Device::cpu().unwrap().scoped(|| {
        write_rows(place.path(), 1.0);
        let (healthy, loss) = run(place.path(), "healthy", &[]);
        assert!(healthy.root().is_none() && loss.unwrap() < 0.3, "{healthy:?} {loss:?}");
        for (k, (set, scale, cause, layer)) in cases.iter().enumerate() {
            write_rows(place.path(), *scale);
            let set: Vec<String> = set.iter().map(ToString::to_string).collect();
            let (found, _) = run(place.path(), &format!("ill-{k}"), &set);
            let root = found.root().unwrap_or_else(|| panic!("{cause}: nothing is found"));
            assert!(root.cause == *cause && (root.layer.as_deref() == *layer || layer.is_none()) && root.step <= 5, "{cause}: {found:?}");
            // A model's own `init` is not a key to be set behind its back.
            if root.remedy.set.is_empty() {
                assert_eq!(*cause, RootCause::InitTooLarge, "{found:?}");
                continue;
            }
            let (after, loss) = run(place.path(), &format!("mended-{k}"), &[set, root.remedy.set.clone()].concat());
            assert!(after.root().is_none() && loss.unwrap() < 0.6, "{cause}: {:?}, then {after:?} {loss:?}", root.remedy);
        }
    });
}
#[test]
fn a_record_that_is_no_number() {
    let place = tempfile::tempdir().unwrap();
    Device::cpu().unwrap().scoped(|| {
        write_rows(place.path(), 1.0);
        let path = place.path().join("rows.csv");
        let text = fs::read_to_string(&path).unwrap();
        let bad: Vec<String> =
            text.lines().enumerate().map(|(k, line)| if k == 8 { format!("inf{}", &line[line.find(',').unwrap()..]) } else { line.to_string() }).collect();
        fs::write(&path, bad.join("\n")).unwrap();
        let set = ["data.allow_nonfinite=true".to_string(), "data.missing_values=[\"\"]".to_string()];
        let (found, loss) = run(place.path(), "ill", &set);
        let root = found.root().unwrap_or_else(|| panic!("{found:?} {loss:?}"));
        assert!(root.cause == RootCause::NonFiniteInput && loss.is_none() && root.evidence.contains("rows.csv"), "{found:?}");
        assert!(!found.mermaid().contains("<img") && found.mermaid().starts_with("flowchart TB\n    f0["), "{}", found.mermaid());
        let json = found.to_json();
        assert!(json["findings"][0]["cause"] == "non_finite_input" && json["findings"][0]["set"][0] == "stability.handling_type=skip", "{json}");
        let (after, loss) = run(place.path(), "mended", &[&set[..], &root.remedy.set].concat());
        assert!(after.root().is_none() && loss.unwrap() < 0.6, "{after:?} {loss:?}");
    });
}
#[test]
fn a_last_batch_of_one_row() {
    let place = tempfile::tempdir().unwrap();
    Device::cpu().unwrap().scoped(|| {
        write_rows(place.path(), 1.0);
        let normed = "model.layers.1={ kind = \"BatchNorm1d\", num_features = 24 }".to_string();
        let (healthy, loss) = run(place.path(), "healthy", std::slice::from_ref(&normed));
        assert!(healthy.root().is_none() && loss.is_some(), "{healthy:?}");
        // 384 rows are learned from.
        let (found, loss) = run(place.path(), "ill", &[normed, "batch=383".to_string()]);
        let root = found.root().unwrap_or_else(|| panic!("{found:?} {loss:?}"));
        assert!(root.cause == RootCause::BatchNormOneRow && root.layer.as_deref() == Some("1") && root.step == 2 && loss.is_none(), "{found:?}");
        // Of an earlier run in the folder, it is none of the next one.
        let (failure, next) = (place.path().join("ill/failure.json"), place.path().join("next"));
        fs::create_dir(&next).unwrap();
        fs::copy(failure, next.join("failure.json")).unwrap();
        let (after, _) = run(place.path(), "next", &[]);
        assert!(after.root().is_none() && !next.join("failure.json").exists(), "{after:?}");
    });
}
/// Files that are cut off, changed, or of somebody else: what is there is used, and nothing panics.
#[test]
fn folders_that_are_damaged() {
    let place = tempfile::tempdir().unwrap();
    assert!(diagnose(&place.path().join("nowhere")).unwrap_err().to_string().contains("is no run folder"));
    Device::cpu().unwrap().scoped(|| {
        write_rows(place.path(), 1.0);
        run(place.path(), "run", &["optimizer.lr=5.0".to_string()]);
    });
    let run = place.path().join("run");
    fs::write(run.join("incidents.jsonl"), "{\"step\":3,\"origin\":{\"kind\":\"NaN\",\"phase\":\"forward\",\"op\":{\"op\":\"log\"},\"inputs\":[]}}\n").unwrap();
    let names = ["metrics.jsonl", "incidents.jsonl", "config.toml"];
    let whole: Vec<Vec<u8>> = names.iter().map(|name| fs::read(run.join(name)).unwrap()).collect();
    let mut state = 11usize;
    let mut below = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n.max(1)
    };
    // Sizes that no memory has.
    let most = u64::MAX;
    let look = format!(
        "{{\"kind\":\"layers\",\"step\":{most},\"rows\":[{most},{most}],\"parameters\":[{{\"parameter\":\"0.weight\",\"shape\":[{most},{most}],\"weight\":1.0,\"update\":0.0}}]}}\n"
    );
    fs::write(run.join(names[0]), [&whole[0][..], look.as_bytes()].concat()).unwrap();
    assert!(diagnose(&run).unwrap().looks > 1);
    fs::write(run.join(names[0]), &whole[0]).unwrap();
    for _ in 0..300 {
        let of = below(3);
        let mut bytes = whole[of].clone();
        match below(3) {
            0 => bytes.truncate(below(bytes.len())),
            1 => (0..1 + below(8)).for_each(|_| {
                let at = below(bytes.len());
                bytes[at] = *[b'0', b'9', b'-', b'"', b'}', b'e', b'n', 0xFF].get(below(8)).unwrap();
            }),
            _ => {
                let at = below(bytes.len());
                bytes.splice(at..at, *b"1e308,");
            }
        }
        fs::write(run.join(names[of]), &bytes).unwrap();
        let found = diagnose(&run).unwrap();
        assert!(found.to_json().to_string().len() > 2 && found.mermaid().len() > 4);
        fs::write(run.join(names[of]), &whole[of]).unwrap();
    }
}
