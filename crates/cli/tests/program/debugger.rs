//! The debugger of the terminal, on the real program: scripted sessions with a run that begins paused.
use super::{adamant, command, err, folder, out};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Output, Stdio},
};

/// Six steps of two epochs.
fn begin(folder: &Path, run: &str, set: &[&str]) -> Child {
    let mut arguments = vec!["train", "run.toml", "--quiet", "--paused", "--run", run];
    set.iter().for_each(|set| arguments.extend(["--set", set]));
    let mut child = command(folder, &arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !folder.join(run).join("control.sock").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be debugged");
        std::thread::yield_now();
    }
    child
}
/// Types a script, and gives what was said; the run goes on when it ends.
fn session(folder: &Path, run: &str, script: &str, json: bool) -> Output {
    let arguments = ["debug", run, "--terminal", "--json"];
    let mut child =
        command(folder, &arguments[..if json { 4 } else { 3 }]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A session that has ended reads no more.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    child.wait_with_output().unwrap()
}
fn ends(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}
fn same(folder: &Path, a: &str, b: &str) -> bool {
    ["weights.safetensors", "metrics.jsonl"].iter().all(|name| fs::read(folder.join(a).join(name)).unwrap() == fs::read(folder.join(b).join(name)).unwrap())
}

/// What is typed, the pieces of what is said in their order, and whether the run has other bits behind it.
const SESSIONS: [(&str, &[&str], bool); 12] = [
    ("status\nwhere\ncontinue\n", &["paused: step 0 of 6", "stopped before step 1", "0.weight f32", "the steps of the run are over"], false),
    (
        "break step 4\ncontinue\nwhere\nlook 0.weight\n",
        &["breakpoint 1", "stopped before step 4 (breakpoint 1)", "breakpoint 1: step 4", "0.weight f32", "elements", "mean"],
        false,
    ),
    ("b layer 0\nc\nc\nw\n", &["step 1, forward: results of op 0", "in 0", "step 2, forward", "in.0 f32", "out.0 f32"], false),
    ("b op linear phase backward step 3\nc\nslice grad.0\n", &["step 3, backward: gradients of op", "linear", "grad.0[] ["], false),
    (
        "b op linear phase backward step 3\nc\nc\nlook in_grad.1\n",
        &["step 3, backward: gradients", "step 3, backward: input gradients", "in_grad.1 f32"],
        false,
    ),
    ("b when nonfinite\nc\n", &["breakpoint 1", "the steps of the run are over"], false),
    ("b when absmax > 0 step 2\nc\nn\nn layer\nunbreak\nn step\n", &["step 2, ", "step 2, ", "step 2, ", "stopped before step 3"], false),
    ("n\nn\nn\nn\nn\n", &["step 1, ", "step 1, ", "step 1, ", "step 1, ", "step 1, "], false),
    ("b step 3\nc\nset 0.weight 0 = 0.5\nslice 0.weight 0\n", &["stopped before step 3", "0.weight[0] = 0.5: ", "0.5 0.5"], true),
    ("b op linear step 3\nc\nset out.0 0, 0 = -4\ns out.0 0\n", &["step 3, forward", "out.0[0, 0] = -4: 1 elements", "-4"], true),
    ("b phase optimizer step 5\nc\nwhere\nunbreak\n", &["step 5, optimizer", "breakpoint 1: step 5, phase optimizer"], false),
    ("b step 2\nb step 5\nc\nunbreak 2\nc\n", &["stopped before step 2 (breakpoint 1)", "the steps of the run are over"], false),
];

#[test]
fn a_session_that_ends_elsewhere_or_changes_a_bit() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "plain"]).status.success());
    for (k, (script, says, changes)) in SESSIONS.iter().enumerate() {
        let run = format!("run-{k}");
        let child = begin(at, &run, &[]);
        let output = session(at, &run, script, false);
        assert_eq!(output.status.code(), Some(0), "{script}: {}", err(&output));
        let all = out(&output);
        let mut rest = &*all;
        for piece in *says {
            let Some((_, behind)) = rest.split_once(piece) else { unreachable!("{script}: `{piece}` is not said in {all}") };
            rest = behind;
        }
        ends(child);
        assert_eq!(same(at, &run, "plain"), !changes, "{script}");
    }
}
#[test]
fn a_session_that_is_answered_in_documents() {
    let folder = folder();
    let at = folder.path();
    let child = begin(at, "run", &[]);
    let output = session(at, "run", "break op linear\ncontinue\nslice out.0 0\nunbreak\ncontinue\n", true);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let documents: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(documents.len() == 5 && documents.iter().all(|d| d["ok"] == true), "{documents:?}");
    assert_eq!((&documents[0]["breakpoint"], &documents[1]["in_step"], &documents[4]["ended"]), (&1.into(), &1.into(), &true.into()));
    ends(child);
}
#[test]
fn a_command_that_fails_and_is_passed_over() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "plain"]).status.success());
    for (k, (script, code, says)) in [
        ("dance\n", 2, "`dance` is no command"),
        ("look 0.wieght\nstatus\n", 1, "is it `0.weight`?"),
        ("break step 3\ncontinue\nset out.0 0 = 1\n", 1, "there is no value `out.0`"),
        ("break when absmax >> 3\n", 2, "is no condition"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("run-{k}");
        let child = begin(at, &run, &[]);
        let output = session(at, &run, script, false);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", err(&output));
        assert!(err(&output).contains(says), "{script}: {}", err(&output));
        if !script.contains("continue") {
            assert!(adamant(at, &["control", &run, "resume"]).status.success());
        }
        ends(child);
        assert!(same(at, &run, "plain"), "{script}");
    }
    let output = adamant(at, &["debug", "plain", "--terminal"]);
    assert!(output.status.code() == Some(2) && err(&output).contains("not running"), "{}", err(&output));
    let output = adamant(at, &["train", "run.toml", "--paused", "--no-control", "--run", "x"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
}
#[test]
fn an_incident_that_is_not_the_same_when_it_is_made_once_more() {
    let folder = folder();
    let at = folder.path();
    // A row that is trained on is no number.
    let rows: String = (0..12).map(|k| if k == 4 { "nan,1,1\n".into() } else { format!("{},{},{}\n", k % 5, k % 3, k % 2) }).collect();
    fs::write(at.join("points.csv"), rows).unwrap();
    let output = adamant(at, &["train", "run.toml", "--quiet", "--run", "run", "--set", "data.allow_nonfinite=true"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let told = fs::read_to_string(at.join("run/incidents.jsonl")).unwrap();
    let step = serde_json::from_str::<Value>(&told).unwrap()["step"].as_u64().unwrap();
    let output = adamant(at, &["debug", "run", "--incident", "1", "--data", "."]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).contains(&format!("step {step}: NaN")) && out(&output).contains("record 4 of") && out(&output).contains("it is the one that the run had"),
        "{}",
        out(&output)
    );
    let output = adamant(at, &["debug", "run", "--incident", "1", "--data", ".", "--json"]);
    let document: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&document["same"], &document["step"]), (&true.into(), &step.into()), "{document}");
    // Stopped before it: where the number comes in.
    let mut child = command(at, &["debug", "run", "--incident", "1", "--data", ".", "--terminal"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"break when nonfinite\ncontinue\nlook in.0\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let said = out(&output);
    assert!(said.contains(&format!("stopped before step {step}")) && said.contains("results of op 0 linear in 0") && said.contains("nan 1,"), "{said}");
    assert_eq!(fs::read_to_string(at.join("run/incidents.jsonl")).unwrap(), told);
    for (number, text, code, says) in [
        ("2", &*told, 4, "there is no incident 2: it has 1 to 1"),
        ("0", &told, 4, "there is no incident 0"),
        ("1", "{\"step\": 3", 4, "line 1 cannot be read"),
        ("1", "{}\n", 4, "it has no step"),
        ("1", "", 4, "the run had no incident"),
    ] {
        fs::write(at.join("run/incidents.jsonl"), text).unwrap();
        let output = adamant(at, &["debug", "run", "--incident", number, "--data", "."]);
        assert!(output.status.code() == Some(code) && err(&output).contains(says), "{number} of {text}: {}", err(&output));
    }
    // Other data: there is nothing bad in the step.
    fs::write(at.join("run/incidents.jsonl"), &told).unwrap();
    fs::write(at.join("points.csv"), (0..12).map(|k| format!("{},{},{}\n", k % 5, k % 3, k % 2)).collect::<String>()).unwrap();
    let output = adamant(at, &["debug", "run", "--incident", "1", "--data", "."]);
    assert!(output.status.code().is_some_and(|code| code != 0), "{}", out(&output));
}
