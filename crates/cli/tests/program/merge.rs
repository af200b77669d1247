//! One file of a run's checkpoint, written by one process or by ranks together, and what is refused.
use super::{RUN, adamant, command, err, folder, out};
use adamant_formats::safetensors::SafeTensors;
use std::{collections::BTreeMap, fs, path::Path};

fn tensors(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = SafeTensors::open(path).unwrap();
    file.names().into_iter().map(|name| (name.clone(), file.bytes(&name).unwrap())).collect()
}
#[test]
fn a_file_that_lacks_something_of_its_pieces() {
    let folder = folder();
    let at = folder.path();
    let train = [
        "train",
        "run.toml",
        "--quiet",
        "--set",
        "checkpoint.every=1",
        "--set",
        "checkpoint.last=9",
        "--set",
        "checkpoint.best=1",
        "--set",
        "distributed.shards=3",
    ];
    let more = ["--set", "data.valid=0.5", "--set", "optimizer={kind=\"AdamW\",lr=0.1}"];
    let done = adamant(at, &[&train[..], &more, &["--run", "alone"]].concat());
    assert!(done.status.success(), "{}", err(&done));
    for zero in 0..=3 {
        let run = format!("ranks-{zero}");
        let launch = ["launch", "-n", "3", "--", "adamant"];
        let zero_is = format!("distributed.zero={zero}");
        let done = command(at, &[&launch[..], &train, &more, &["--run", &run, "--set", &zero_is]].concat()).output().unwrap();
        assert!(done.status.success(), "{}", err(&done));
        let weights = tensors(&at.join(&run).join("weights.safetensors"));
        assert_eq!(weights, tensors(&at.join("alone/weights.safetensors")));
        let done = adamant(at, &["merge", &run, "--json"]);
        assert!(done.status.success(), "{}", err(&done));
        let told: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
        assert_eq!((told["ranks"].as_u64(), told["tensors"].as_u64()), ((zero > 0).then_some(3), Some(4)), "{told}");
        assert_eq!(tensors(&at.join(&run).join("merged.safetensors")), weights);
        // Of each checkpoint, with slots: what one process has.
        for entry in fs::read_dir(at.join(&run).join("checkpoints")).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            let Some(step) = name.strip_prefix("step-").and_then(|step| step.parse::<u64>().ok()) else { continue };
            let merged = |run: &str, to: &str| {
                let done = adamant(at, &["merge", run, "--checkpoint", &step.to_string(), "--with-slots", "--force", "--out", to]);
                assert!(done.status.success(), "{}", err(&done));
                fs::read(at.join(to)).unwrap()
            };
            assert!(merged(&run, "a.safetensors") == merged("alone", "b.safetensors"), "{run}, step {step}");
            let names: Vec<String> = tensors(&at.join("a.safetensors")).into_keys().collect();
            assert!(names.iter().any(|n| n == "0.weight") && names.iter().any(|n| n == "optimizer.0.weight.exp_avg"), "{names:?}");
        }
        let merged = |of: &str, run: &str| {
            let done = adamant(at, &["merge", run, "--checkpoint", of, "--force", "--json", "--out", "c.safetensors"]);
            assert!(done.status.success(), "{}", err(&done));
            serde_json::from_str::<serde_json::Value>(&out(&done)).unwrap()["step"].clone()
        };
        assert_eq!(merged("best", &run), merged("best", "alone"));
        // What reads checkpoints reads these.
        if zero == 2 {
            fs::remove_file(at.join(&run).join("weights.safetensors")).unwrap();
            let eval = |run: &str| serde_json::from_str::<serde_json::Value>(&out(&adamant(at, &["eval", run, "--json"]))).unwrap()["loss"].clone();
            assert_eq!(eval(&run), eval("alone"));
        }
    }
}
#[test]
fn a_merge_that_replaces_something_or_takes_what_is_damaged() {
    let folder = folder();
    let at = folder.path();
    let train = ["train", "run.toml", "--quiet", "--run", "r", "--set", "checkpoint.every=1", "--set", "checkpoint.last=9", "--set", "distributed.zero=3"];
    let done = command(at, &[&["launch", "-n", "2", "--", "adamant"][..], &train].concat()).output().unwrap();
    assert!(done.status.success(), "{}", err(&done));
    assert!(adamant(at, &["merge", "r"]).status.success());
    let before = fs::read(at.join("r/merged.safetensors")).unwrap();
    let mut steps: Vec<String> = fs::read_dir(at.join("r/checkpoints")).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    steps.retain(|name| name.starts_with("step-"));
    steps.sort();
    for (args, code, says) in [
        (vec!["r"], 2, "is there already"),
        (vec!["r", "--checkpoint", "best", "--out", "x"], 2, "has a score"),
        (vec!["r", "--checkpoint", "99", "--out", "x"], 2, "there is no checkpoint of step 99"),
        (vec!["r", "--checkpoint", "last", "--out", "x"], 2, "takes a step, newest or best"),
        (vec!["r", "--out", "nofolder/x"], 6, "there is no such folder"),
        (vec!["none", "--out", "x"], 4, "has no checkpoints"),
    ] {
        let done = adamant(at, &[&["merge"][..], &args].concat());
        assert!(done.status.code() == Some(code) && err(&done).contains(says) && !at.join("x").exists(), "{args:?} {:?}: {}", done.status, err(&done));
    }
    assert_eq!(fs::read(at.join("r/merged.safetensors")).unwrap(), before);
    // The newest has a changed byte: the one before it, which is said; nothing of it where it is asked for.
    let newest = at.join("r/checkpoints").join(steps.last().unwrap());
    let of_model = |e: &std::path::PathBuf| e.file_name().is_some_and(|name| name.to_string_lossy().starts_with("model.rank-"));
    let file = fs::read_dir(&newest).unwrap().map(|e| e.unwrap().path()).filter(of_model).max().unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let done = adamant(at, &["merge", "r", "--out", "older.safetensors", "--json"]);
    assert!(done.status.success() && err(&done).contains(&format!("{name} is damaged in tensor")), "{}", err(&done));
    let step = |name: &String| name.strip_prefix("step-").unwrap().parse::<u64>().unwrap();
    let told: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(told["step"].as_u64(), Some(step(&steps[steps.len() - 2])));
    let done = adamant(at, &["merge", "r", "--checkpoint", &step(steps.last().unwrap()).to_string(), "--out", "x"]);
    assert!(done.status.code() == Some(4) && err(&done).contains(&name) && !at.join("x").exists(), "{}", err(&done));
    assert!(!fs::read_dir(at).unwrap().any(|e| e.unwrap().file_name().to_string_lossy().contains("tmp")));
}
/// Larger than one chunk, so that both ranks have a part of it.
fn wide() -> String {
    RUN.replace("out_features = 4", "out_features = 4000").replace("in_features = 4", "in_features = 4000").replace("epochs = 2", "epochs = 1")
}
#[test]
fn a_rank_that_cannot_write_and_the_others_do_not_hear_of_it() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("wide.toml"), wide()).unwrap();
    let program = env!("CARGO_BIN_EXE_adamant");
    // Rank 1 may not write into files; a limit is the process's, and these are few.
    let train = |run: &str, limit: &str, policy: &str| {
        let set = format!("--set distributed.zero=3 --set checkpoint.every=1 --set checkpoint.on_error={policy}");
        let script = format!("if [ \"$RANK\" = 1 ]; then {limit}; fi; exec {program} train wide.toml --quiet --run {run} {set}");
        command(at, &["launch", "-n", "2", "--max-restarts", "0", "--", "sh", "-c", &script]).output().unwrap()
    };
    let left = |run: &str| -> Vec<String> {
        let all = fs::read_dir(at.join(run).join("checkpoints")).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        all.filter(|name| name != ".lock").collect()
    };
    let done = train("whole", "true", "stop");
    assert!(done.status.success() && !left("whole").is_empty(), "{}", err(&done));
    let done = train("stops", "ulimit -f 0", "stop");
    assert_eq!(done.status.code(), Some(6), "{}", err(&done));
    assert!(err(&done).contains(".rank-1.safetensors: the file would be longer than is allowed here"), "{}", err(&done));
    assert!(err(&done).lines().any(|line| line.starts_with("[0]") && line.contains("rank 1")), "{}", err(&done));
    assert!(left("stops").is_empty(), "{:?}", left("stops"));
    let done = train("warns", "ulimit -f 0", "warn");
    assert!(done.status.success() && err(&done).contains("no checkpoint: rank 1: cannot write"), "{}", err(&done));
    assert!(left("warns").is_empty(), "{:?}", left("warns"));
    assert_eq!(tensors(&at.join("warns/weights.safetensors")), tensors(&at.join("whole/weights.safetensors")));
}
