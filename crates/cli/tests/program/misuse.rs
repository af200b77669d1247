//! What people and files did to the program that it did not survive, each as it was done: through the command line, on files
//! that the test makes. A test goes through all of its cases and then names those that went wrong.

use super::{Wrong, adamant, command, err, folder, out};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program within 256 MiB and 20 s of processor: what has no end is ended, and counts as wrong.
fn bounded(folder: &Path, arguments: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell.current_dir(folder).env("ADAMANT_DEVICE", "reference");
    shell.args(["-c", "ulimit -v 262144; ulimit -t 20; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_adamant")]).args(arguments).output().unwrap()
}
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}
/// A description of a table whose model follows from it.
fn table(data: &str) -> String {
    format!(
        "seed = 1\nepochs = 60\nbatch = 16\n[model]\nlayers = [{{ kind = \"Linear\", in_features = \"$features\", out_features = \"$classes\" }}]\n\
         [optimizer]\nkind = \"Adam\"\nlr = 0.1\n[data]\nkind = \"csv\"\npath = \"t.csv\"\n{data}\n"
    )
}
/// Ten pictures of each of two classes, one of them cut off.
fn pictures(folder: &Path, cut: usize) {
    for class in ["cat", "dog"] {
        let place = folder.join("pictures").join(class);
        fs::create_dir_all(&place).unwrap();
        for k in 0..10u8 {
            let bright = if class == "cat" { 10 } else { 20 };
            let picture: Vec<u8> = b"P6 4 4 255\n".iter().copied().chain((0..48).map(|p| p % 5 + k + bright)).collect();
            let damaged = class == "dog" && usize::from(k) == cut;
            fs::write(place.join(format!("{k}.ppm")), if damaged { &picture[..20] } else { &picture }).unwrap();
        }
    }
}

#[test]
fn a_finished_run_that_is_made_longer_and_learns_at_no_rate() {
    let mut wrong = Wrong::default();
    // Those that follow from the number of steps, and reach their end at it.
    for (kind, more) in [("CosineAnnealingLR", ""), ("OneCycleLR", "max_lr = 0.1\n"), ("PolynomialLR", "")] {
        let folder = folder();
        let text = format!("{}[schedule]\nkind = \"{kind}\"\n{more}", super::RUN);
        fs::write(folder.path().join("run.toml"), text).unwrap();
        assert!(adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
        let longer = adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r", "--resume", "auto", "--set", "epochs=4"]);
        wrong.ends(kind, &longer, 2, "schedule.on_extend");
        let held = ["train", "run.toml", "--quiet", "--run", "r", "--resume", "auto", "--set", "epochs=4", "--set", "schedule.on_extend=hold"];
        // A cycle ends at a small rate and not at none.
        wrong.ends(kind, &adamant(folder.path(), &held), 0, if kind == "OneCycleLR" { "" } else { "the learning rate is 0 in the last" });
    }
}
#[test]
fn a_policy_for_bad_records_that_ends_with_the_training_part() {
    let mut wrong = Wrong::default();
    for policy in ["skip", "quarantine"] {
        // Each record in turn is the bad one: it is trained, validated or tested on.
        for bad in 0..10 {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path();
            pictures(at, bad);
            let rows: String = (0..20).map(|k| if k == bad { "1,x,0\n".to_string() } else { format!("{},{},{}\n", k % 2 * 9 + k % 3, k % 5, k % 2) }).collect();
            fs::write(at.join("t.csv"), rows).unwrap();
            let keys = format!("on_bad_record = \"{policy}\"\nquarantine = \"q.jsonl\"\nvalid = 0.2\ntest = {{ modulo = 5, equals = 4 }}");
            let keys = if policy == "skip" { keys.replace("quarantine = \"q.jsonl\"\n", "") } else { keys };
            let csv = table(&format!("label = 2\nclasses = 2\n{keys}")).replace("\"$features\"", "2").replace("\"$classes\"", "2");
            let images = format!(
                "epochs = 2\nbatch = 4\n[model]\nlayers = [{{ kind = \"Flatten\" }}, {{ kind = \"Linear\", in_features = 48, out_features = 2 }}]\n\
                 [optimizer]\nkind = \"SGD\"\n[data]\nkind = \"images\"\npath = \"pictures\"\nsize = 4\n{keys}\n"
            );
            for (kind, text) in [("csv", csv), ("images", images)] {
                fs::write(at.join(format!("{kind}.toml")), text.replace("epochs = 60", "epochs = 2")).unwrap();
                let output = adamant(at, &["train", &format!("{kind}.toml"), "--quiet", "--run", kind]);
                wrong.ends(&format!("{kind}, {policy}, record {bad}"), &output, 0, "");
                wrong.unless(at.join(kind).join("report.html").exists(), || format!("{kind}, {policy}, record {bad}: no report"));
            }
            // Who asks is answered for the others.
            fs::write(at.join("new.csv"), "9,3\n1,x\n2,nan\n0,1\n").unwrap();
            let output = adamant(at, &["predict", "csv", "new.csv", "--json"]);
            let rows: Vec<u64> = document(&output).as_array().into_iter().flatten().filter_map(|a| a["row"].as_u64()).collect();
            let told = err(&output).matches("left out: ").count();
            wrong.unless((rows == [1, 4]) && told == 2, || format!("predict, {policy}: {rows:?} {}", err(&output)));
            wrong.ends(&format!("eval, {policy}, record {bad}"), &adamant(at, &["eval", "csv"]), 0, "accuracy");
        }
    }
}
/// Each in a way in which tables are written down.
#[test]
fn a_table_that_needs_a_programmer() {
    let mut wrong = Wrong::default();
    let class = |k: usize| k % 3;
    let row = |k: usize| [format!("{}.{}", 10 * class(k) + k % 4, k % 10), format!("{}", 5 * (2 - class(k)) + k % 7)];
    let lines = |head: &str, line: &dyn Fn([String; 2], usize) -> String| head.to_string() + &(0..60).map(|k| line(row(k), k) + "\n").collect::<String>();
    // Each differs in one thing from a table of numbers and commas.
    let cases = [
        ("numbers and commas", lines("", &|[w, h], k| format!("{w},{h},{}", class(k))), "classes = 3\nlabel = 2"),
        ("names of columns", lines("w,h,class\n", &|[w, h], k| format!("{w},{h},{}", class(k))), "classes = 3\nlabel = \"class\""),
        ("names that nobody asks for", lines("w,h,class\n", &|[w, h], k| format!("{w},{h},{}", class(k))), "classes = 3\nlabel = 2"),
        ("texts as labels", lines("", &|[w, h], k| format!("{w},{h},{}", ["oak", "ash", "elm"][class(k)])), "classes = [\"ash\", \"elm\", \"oak\"]\nlabel = 2"),
        ("another delimiter", lines("", &|[w, h], k| format!("{w};{h};{}", class(k))), "classes = 3\nlabel = 2\ndelimiter = \";\""),
        ("spaces", lines("", &|[w, h], k| format!(" {w}   {h} {}", class(k))), "classes = 3\nlabel = 2\ndelimiter = \" \""),
        ("lines before it", lines("by hand\nin 2001\n", &|[w, h], k| format!("{w},{h},{}", class(k))), "classes = 3\nlabel = 2\nskip_rows = 2"),
        ("gaps", lines("", &|[w, h], k| format!("{},{h},{}", if k % 9 == 4 { "NA" } else { &w }, class(k))), "classes = 3\nlabel = 2\nmissing = \"mean\""),
        (
            "a column of texts",
            lines("", &|[w, h], k| format!("{w},{h},{},{}", ["north", "south"][k % 2], class(k))),
            "classes = 3\nlabel = 3\ncategorical = [2]",
        ),
        ("counts before it", lines("60,2,ash,elm,oak\n", &|[w, h], k| format!("{w},{h},{}", class(k))), "classes = 3\nlabel = 2\nskip_rows = 1"),
        (
            "a mean for each column",
            lines("", &|[w, h], k| format!("{w},{h}000000,{}", class(k))),
            "classes = 3\nlabel = 2\nmean = [12.0, 8e6]\nstd = [9.0, 4e6]",
        ),
        ("a column of large numbers", lines("", &|[w, h], k| format!("{w},{h}000000,{}", class(k))), "classes = 3\nlabel = 2\nscale = \"standard\""),
    ];
    for (what, text, keys) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.csv"), text).unwrap();
        let text = table(&format!("{keys}\ntest = {{ modulo = 4, equals = 3 }}")).replace("\"$classes\"", "3");
        let text = if what == "a column of texts" { text } else { text.replace("\"$features\"", "2") };
        fs::write(folder.path().join("t.toml"), text).unwrap();
        let output = adamant(folder.path(), &["train", "t.toml", "--quiet", "--json"]);
        let accuracy = document(&output)["metrics"]["test"]["accuracy"].as_f64();
        wrong.unless(accuracy > Some(0.9), || format!("{what}: {:?} {accuracy:?} {}", output.status, err(&output)));
    }
    // What is asked of a person is said.
    for (text, keys, says) in [
        (
            lines("w,h,class\n", &|[w, h], k| format!("{w},{h},{}", class(k))),
            "header = false",
            "row 1 (line 1), column `0`: `w` is no number; does its first line name the columns? Then say `header = true`",
        ),
        (
            lines("60,2,ash,elm,oak\n", &|[w, h], k| format!("{w},{h},{}", class(k))),
            "",
            "row 1 (line 1): 5 fields, and 3 were expected; is it a title? Then say `skip_rows = 1`",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.csv"), text).unwrap();
        let text = table(&format!("classes = 3\nlabel = 2\ntest = 0.25\n{keys}")).replace("\"$classes\"", "3").replace("\"$features\"", "2");
        fs::write(folder.path().join("t.toml"), text).unwrap();
        wrong.ends(keys, &adamant(folder.path(), &["train", "t.toml", "--quiet"]), 4, says);
    }
    // Targets in a file of their own.
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("t.csv"), (0..60).map(|k| format!("{k},{}\n", k % 3)).collect::<String>()).unwrap();
    fs::write(at.join("y.csv"), (0..60).map(|k| format!("{}\n", 7000 * k)).collect::<String>()).unwrap();
    let keys = "target_path = \"y.csv\"\ntarget_scale = \"standard\"\nscale = \"standard\"\ntest = 0.25";
    fs::write(at.join("t.toml"), table(keys).replace("\"$classes\"", "1")).unwrap();
    let output = adamant(at, &["train", "t.toml", "--quiet", "--json"]);
    wrong.unless(document(&output)["metrics"]["test"]["r2"].as_f64() > Some(0.9), || format!("a target file: {} {}", out(&output), err(&output)));
    // Images in two files and a rule for what is tested on.
    let images = [0, 0, 8, 3].into_iter().chain([40u32, 3, 3].into_iter().flat_map(u32::to_be_bytes)).chain((0..360).map(|k| (k / 9 % 2 * 200) as u8));
    fs::write(at.join("i.idx"), images.collect::<Vec<u8>>()).unwrap();
    fs::write(at.join("l.idx"), [0, 0, 8, 1].into_iter().chain(40u32.to_be_bytes()).chain((0..40).map(|k| k % 2)).collect::<Vec<u8>>()).unwrap();
    let text = "epochs = 5\nbatch = 8\n[data]\nkind = \"idx\"\ntrain_images = \"i.idx\"\ntrain_labels = \"l.idx\"\nclasses = 2\ntest = 0.25\n[model]\n\
                layers = [{ kind = \"Flatten\" }, { kind = \"Linear\", in_features = 9, out_features = 2 }]\n[optimizer]\nkind = \"Adam\"\nlr = 0.1\n";
    fs::write(at.join("i.toml"), text).unwrap();
    wrong.ends("idx without files of a test part", &adamant(at, &["train", "i.toml", "--quiet"]), 0, "");
}
#[test]
fn a_regression_that_is_reported_as_if_it_had_classes() {
    let mut wrong = Wrong::default();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let row = |k: u32| format!("{},{},{}\n", f64::from(k % 7) / 7.0, f64::from(k % 5) / 5.0, f64::from(k % 7) * 0.3 - f64::from(k % 5) * 0.1);
    fs::write(at.join("t.csv"), (0..80).map(row).collect::<String>()).unwrap();
    let text = "seed = 1\nepochs = 40\nbatch = 5\nloss = \"mse\"\n[data]\nkind = \"csv\"\npath = \"t.csv\"\ntargets = [2]\ntest = { modulo = 4, equals = 0 }\n\
                [model]\nlayers = [{ kind = \"Linear\", in_features = 2, out_features = 1 }]\n[optimizer]\nkind = \"SGD\"\nlr = 0.05\n";
    fs::write(at.join("t.toml"), text).unwrap();
    let output = adamant(at, &["train", "t.toml", "--json", "--run", "r"]);
    assert!(output.status.success(), "{}", err(&output));
    let result: Value = serde_json::from_slice(&fs::read(at.join("r/result.json")).unwrap()).unwrap();
    for figure in ["mae", "rmse", "r2"] {
        wrong.unless(result["metrics"]["test"][figure].is_number(), || format!("no {figure} in {result}"));
    }
    let html = fs::read_to_string(at.join("r/report.html")).unwrap();
    wrong.unless(html.contains("Predicted against true"), || "no picture of predicted against true".into());
    for said in ["<bdi>?</bdi>", "class=\"answer\"", "the truth was given"] {
        wrong.unless(!html.contains(said), || format!("the report says {said:?}"));
    }
}
#[test]
fn a_number_that_is_none_and_is_learned_from_or_answered() {
    let mut wrong = Wrong::default();
    for (bad, says) in [("nan,1", "nan"), ("1,-inf", "-inf"), ("1e999,1", "1e999"), ("1,NaN", "NaN")] {
        for row in [1, 5, 9] {
            let folder = folder();
            let rows: String = (0..12).map(|k| if k == row { format!("{bad},0\n") } else { format!("{},{},{}\n", k % 5, k % 3, k % 2) }).collect();
            fs::write(folder.path().join("points.csv"), rows).unwrap();
            let output = adamant(folder.path(), &["train", "run.toml", "--quiet"]);
            let column = usize::from(!bad.starts_with(says));
            wrong.ends(&format!("{bad} in row {row}"), &output, 4, &format!("row {} (line {}), column `{column}`: {says}", row + 1, row + 1));
        }
        let folder = folder();
        assert!(adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
        fs::write(folder.path().join("new.csv"), format!("1,2\n{bad}\n")).unwrap();
        for json in [&["predict", "r", "new.csv"][..], &["predict", "r", "new.csv", "--json"]] {
            wrong.ends(&format!("{json:?} of {bad}"), &adamant(folder.path(), json), 4, "row 2 (line 2), column");
        }
    }
}
#[test]
fn a_file_that_becomes_more_than_any_memory() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let at = folder.path();
    let text = "epochs = 1\nbatch = 4\n[data]\nkind = \"idx\"\ntrain_images = \"i.idx\"\ntrain_labels = \"l.idx\"\ntest_images = \"i.idx\"\ntest_labels = \"l.idx\"\nclasses = 2\n\
                [model]\nlayers = [{ kind = \"Flatten\" }, { kind = \"Linear\", in_features = 16, out_features = 2 }]\n[optimizer]\nkind = \"SGD\"\n";
    fs::write(at.join("images.toml"), text).unwrap();
    fs::write(at.join("i.idx"), [0, 0, 8, 3].into_iter().chain([8u32, 4, 4].into_iter().flat_map(u32::to_be_bytes)).chain(0..128).collect::<Vec<u8>>())
        .unwrap();
    fs::write(at.join("l.idx"), [0, 0, 8, 1].into_iter().chain(8u32.to_be_bytes()).chain((0..8).map(|k| k % 2)).collect::<Vec<u8>>()).unwrap();
    for (description, run) in [("run.toml", "r"), ("images.toml", "i")] {
        let output = adamant(at, &["train", description, "--quiet", "--run", run]);
        assert!(output.status.success(), "{}", err(&output));
    }
    let bomb = |name: &str, head: &[u8], piece: &[u8], times: usize| {
        let mut writer = flate2::write::GzEncoder::new(fs::File::create(at.join(name)).unwrap(), flate2::Compression::best());
        writer.write_all(head).unwrap();
        (0..times).for_each(|_| writer.write_all(piece).unwrap());
        writer.finish().unwrap();
    };
    bomb("rows.csv.gz", b"1,2\n", &b"1,2\n".repeat(1 << 15), 300);
    let images: Vec<u8> = [0, 0, 8, 3].into_iter().chain([12u32 << 20, 4, 4].into_iter().flat_map(u32::to_be_bytes)).collect();
    bomb("images-idx3-ubyte.gz", &images, &[0; 1 << 20], 192);
    fs::write(at.join("field.csv"), "1,".to_string() + &"9".repeat(10 << 20) + "\n").unwrap();
    fs::write(at.join("line.csv"), "1,".repeat(5 << 20) + "2\n").unwrap();
    for (run, file, says) in [
        ("r", "rows.csv.gz", "inflate_ratio"),
        ("i", "images-idx3-ubyte.gz", "inflate_ratio"),
        ("r", "field.csv", "a field of more than"),
        ("r", "line.csv", "line 1"),
        ("r", "/dev/zero", "it is a device"),
        ("r", "/dev/urandom", "it is a device"),
    ] {
        wrong.ends(file, &bounded(at, &["predict", run, file]), 4, says);
    }
}
/// Each key of a description in turn, one letter of it left out, those among them that must be there.
#[test]
fn a_misspelt_key_that_is_called_missing() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let text = super::RUN.replace("layers = [", "layers = [\n").replace("}, {", "},\n{");
    let mut keys: Vec<(usize, usize, String)> = Vec::new();
    let mut begin = 0;
    for (number, line) in text.lines().enumerate() {
        for (equals, _) in line.match_indices(" = ") {
            let from = line[..equals].rfind([' ', '{', ',']).map_or(0, |b| b + 1);
            keys.push((number + 1, begin + from, line[from..equals].to_string()));
        }
        begin += line.len() + 1;
    }
    assert!(keys.len() > 20);
    for (line, at, key) in keys {
        for k in (0..key.len()).filter(|_| key.len() > 2) {
            let short = [&key[..k], &key[k + 1..]].concat();
            fs::write(folder.path().join("bad.toml"), format!("{}{short}{}", &text[..at], &text[at + key.len()..])).unwrap();
            let found = adamant(folder.path(), &["config", "validate", "bad.toml"]);
            let first = out(&found).lines().next().unwrap_or_default().to_string();
            let right = first.starts_with(&format!("bad.toml:{line}: ")) && first.contains(&format!("did you mean `{key}`?"));
            wrong.unless(right && found.status.code() == Some(4), || format!("{key} as {short}: {:?} {first}", found.status));
        }
    }
}
#[test]
fn a_number_of_a_description_that_is_none_and_is_taken() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let text = format!("{}[schedule]\nkind = \"CosineAnnealingLR\"\nT_max = 9\neta_min = 0.0\n[clip]\nkind = \"norm\"\nmax = 1.0\n", super::RUN);
    fs::write(folder.path().join("run.toml"), text).unwrap();
    for key in ["schedule.eta_min", "clip.max", "optimizer.lr", "optimizer.momentum", "optimizer.weight_decay", "label_smoothing"] {
        for value in ["nan", "inf", "-inf", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00"] {
            for verb in [&["config", "validate"][..], &["train", "--dry-run"]] {
                let set = format!("{key}={value}");
                wrong.ends(&format!("{verb:?} {set}"), &adamant(folder.path(), &[verb, &["run.toml", "--set", &set]].concat()), 2, &format!("`{key}`"));
            }
        }
    }
}
#[test]
fn a_text_from_a_file_that_is_said_whole_or_as_it_is() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    // Weights with a tensor of a long name, and one that writes on the terminal.
    let weights = |name: &str| {
        let header = format!("{{\"{name}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}}}");
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat()
    };
    for (what, text) in [("an order", "1\u{1b}[31m2\u{1b}]0;owned\u{7}".to_string()), ("a long text", "9x".repeat(3 << 20))] {
        for place in 0..3 {
            let mut cells = ["1", "2", "0"];
            cells[place] = &text;
            fs::write(at.join("bad.csv"), format!("1,2,0\n2,1,1\n{}\n3,1,0\n1,1,1\n2,2,0\n", cells.join(","))).unwrap();
            fs::write(at.join("new.csv"), format!("1,2\n{}\n", cells[..2].join(","))).unwrap();
            let named: String =
                text.chars().flat_map(|c| if c.is_control() { format!("\\u{:04x}", c as u32).chars().collect::<Vec<_>>() } else { vec![c] }).collect();
            fs::create_dir_all(at.join("w")).unwrap();
            for file in ["config.toml", "environment.json", "metrics.jsonl", "task.json", "result.json"] {
                fs::copy(at.join("r").join(file), at.join("w").join(file)).unwrap();
            }
            fs::write(at.join("w/weights.safetensors"), weights(&named)).unwrap();
            for arguments in [&["train", "run.toml", "--set", "data.path=bad.csv"][..], &["predict", "r", "new.csv"], &["eval", "w"]] {
                // The third cell is the answer's: it is not asked.
                if place == 2 && arguments[0] == "predict" {
                    continue;
                }
                let output = adamant(at, arguments);
                let said = out(&output) + &err(&output);
                let right = output.status.code() == Some(4) && said.len() < 5000 && !said.chars().any(|c| c.is_control() && c != '\n');
                wrong.unless(right, || format!("{what} in {place}, {arguments:?}: {:?}, {} bytes: {:.200?}", output.status, said.len(), said));
            }
        }
    }
}
#[test]
fn a_lost_log_that_takes_the_checkpoints_with_it() {
    let mut wrong = Wrong::default();
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("deleted", |log| fs::remove_file(log).unwrap()),
        ("empty", |log| fs::write(log, "").unwrap()),
        ("cut", |log| fs::write(log, &fs::read(log).unwrap()[..30]).unwrap()),
    ];
    for (what, damage) in damages {
        let folder = folder();
        let run = |more: &[&str]| adamant(folder.path(), &[&["train", "run.toml", "--quiet", "--run", "r", "--set", "log_every=1"], more].concat());
        assert!(run(&[]).status.success());
        damage(&folder.path().join("r/metrics.jsonl"));
        wrong.ends(what, &run(&["--resume", "auto", "--set", "epochs=4"]), 0, "metrics.jsonl");
    }
}
/// A kill of the process, with checkpoints that are written beside the steps.
#[test]
fn a_kill_that_costs_more_than_one_interval() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let every = 7;
    let mut lost: BTreeMap<u64, usize> = BTreeMap::new();
    for round in 0..12 {
        let run = format!("r{round}");
        let logged = || {
            let text = fs::read_to_string(folder.path().join(&run).join("metrics.jsonl")).unwrap_or_default();
            let steps = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()).filter(|l| l["kind"] == "step").filter_map(|l| l["step"].as_u64());
            steps.max().unwrap_or(0)
        };
        let set = format!("checkpoint.every={every}");
        let arguments = ["train", "run.toml", "--quiet", "--run", &run, "--set", "epochs=100000", "--set", "log_every=1", "--set", &set];
        let mut child = command(folder.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while logged() < 30 + 5 * round {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = fs::read_dir(folder.path().join(&run).join("checkpoints")).unwrap().flatten();
        let kept = kept.filter_map(|e| e.file_name().to_string_lossy().strip_prefix("step-").and_then(|s| s.parse::<u64>().ok())).max().unwrap_or(0);
        let cost = logged().saturating_sub(kept);
        *lost.entry(cost).or_default() += 1;
        wrong.unless(cost <= every, || format!("{cost} steps of {every} are lost"));
    }
    wrong.unless(lost.values().sum::<usize>() == 12, || format!("{lost:?}"));
}
#[test]
fn a_right_answer_that_is_shown_as_a_wrong_one() {
    let mut wrong = Wrong::default();
    let folder = folder();
    // Two classes far apart, and one row of the test part under the name of the other.
    let rows: String = (0..36).map(|k| format!("{},{},{}\n", k % 2 * 8, k % 3, if k == 6 { 1 } else { k % 2 })).collect();
    fs::write(folder.path().join("points.csv"), rows).unwrap();
    let output = adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r", "--set", "epochs=60"]);
    assert!(output.status.success(), "{}", err(&output));
    let evaluation: Value = serde_json::from_slice(&fs::read(folder.path().join("r/evaluation.json")).unwrap()).unwrap();
    let worst = evaluation["worst"].as_array().unwrap();
    let right: Vec<bool> = worst.iter().map(|w| w["target"] == w["answer"]).collect();
    assert!(right.contains(&true) && right.contains(&false), "{evaluation}");
    wrong.unless(right.is_sorted(), || format!("right answers before wrong ones: {right:?}"));
    let html = fs::read_to_string(folder.path().join("r/report.html")).unwrap();
    let shown = |what: &str| html.matches(what).count();
    let (wrongly, rightly) = (right.iter().filter(|r| !**r).count(), right.iter().filter(|r| **r).count());
    wrong.unless(shown("class=\"answer\"") == wrongly, || format!("{} of {wrongly} are marked as wrong", shown("class=\"answer\"")));
    wrong.unless(shown("<span class=\"right\">") == rightly, || format!("{} of {rightly} are marked as right", shown("<span class=\"right\">")));
}
/// What people write into a description and was no word of it.
#[test]
fn a_word_that_a_description_lacks() {
    let mut wrong = Wrong::default();
    let folder = folder();
    let root = |line: &str| format!("{line}\n{}", super::RUN);
    let data = |line: &str| super::RUN.replace("[data]\n", &format!("[data]\n{line}\n"));
    let optimizer = |line: &str| format!("{}{line}\n", super::RUN);
    let numbers = |line: &str| {
        data("targets = [2]")
            .replace("label = 2\nclasses = 2\n", "")
            .replace("out_features = 2 }]", "out_features = 1 }]")
            .replace("seed = 1", &format!("seed = 1\n{line}"))
    };
    let mut cases = vec![
        ("early stopping", root("early_stopping = { patience = 3, monitor = \"train_loss\" }")),
        ("a mean of the weights", root("ema = { decay = 0.9 }")),
        ("frozen layers", root("freeze = [\"0.weight\"]")),
        ("weights of classes", root("class_weights = \"balanced\"")),
        ("a group of parameters", optimizer("groups = [{ parameters = [\"*.bias\"], lr = 0.01 }]")),
        ("a rate that falls on a plateau", optimizer("[schedule]\nkind = \"ReduceLROnPlateau\"\npatience = 1\nmonitor = \"train_loss\"")),
        ("changed images", data("augment = { horizontal_flip = 0.5, shape = [1, 1, 2] }")),
        ("folds", super::RUN.replace("{ divide = 2, modulo = 3, equals = 0 }", "{ folds = 4, fold = 1 }")),
    ];
    for loss in ["focal", "nll", "multi_margin", "bce_with_logits", "soft_margin"] {
        cases.push((
            loss,
            if loss == "soft_margin" || loss == "bce_with_logits" {
                root(&format!("loss = \"{loss}\"")).replace("out_features = 2 }]", "out_features = 1 }]")
            } else {
                root(&format!("loss = \"{loss}\""))
            },
        ));
    }
    for loss in ["l1", "smooth_l1", "huber"] {
        cases.push((loss, numbers(&format!("loss = \"{loss}\""))));
    }
    for (what, text) in &cases {
        fs::write(folder.path().join("word.toml"), text).unwrap();
        wrong.ends(what, &adamant(folder.path(), &["train", "word.toml", "--quiet"]), 0, "");
    }
    let (x, y) = (adamant::Tensor::from_vec((0..24).map(|k| k as f32).collect(), [12, 2]), adamant::Tensor::from_vec((0..12).map(|k| k % 2).collect(), [12]));
    adamant_formats::write_npy(folder.path().join("x.npy"), &x).unwrap();
    adamant_formats::write_npy(folder.path().join("y.npy"), &y).unwrap();
    adamant_formats::write_npz(folder.path().join("xy.npz"), [("x", x), ("y", y)], Default::default()).unwrap();
    let csv = "kind = \"csv\"\npath = \"points.csv\"\nlabel = 2\n";
    for (what, lines) in
        [("npy", "kind = \"npy\"\ninputs = \"x.npy\"\ntargets = \"y.npy\"\n"), ("npz", "kind = \"npy\"\npath = \"xy.npz\"\ninputs = \"x\"\ntargets = \"y\"\n")]
    {
        assert!(super::RUN.contains(csv));
        fs::write(folder.path().join("word.toml"), super::RUN.replace(csv, lines)).unwrap();
        wrong.ends(what, &adamant(folder.path(), &["train", "word.toml", "--quiet"]), 0, "");
    }
    assert!(adamant(folder.path(), &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    fs::write(folder.path().join("word.toml"), root("init_from = { path = \"r/weights.safetensors\" }")).unwrap();
    wrong.ends("weights to begin with", &adamant(folder.path(), &["train", "word.toml", "--quiet"]), 0, "");
}
