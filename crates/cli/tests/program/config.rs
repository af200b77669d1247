//! `adamant config`: what it writes is what the program takes, and what it finds wrong.

use super::{Wrong, adamant, err, out};
use std::{fs, path::Path};

/// Data of each kind, small.
fn data(folder: &Path) {
    let rows: String = (0..40).map(|k| format!("{},{},{},{},{}\n", k % 5, k % 3, k % 7, k % 2, k % 3)).collect();
    fs::write(folder.join("table.csv"), rows).unwrap();
    for (part, count) in [("train", 20u32), ("t10k", 8)] {
        let images = [0, 0, 8, 3].into_iter().chain([count, 9, 9].into_iter().flat_map(u32::to_be_bytes)).chain((0..count * 81).map(|k| k as u8));
        let labels = [0, 0, 8, 1].into_iter().chain(count.to_be_bytes()).chain((0..count).map(|k| (k % 10) as u8));
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images.collect::<Vec<u8>>()).unwrap();
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels.collect::<Vec<u8>>()).unwrap();
    }
    for class in ["cat", "dog"] {
        let place = folder.join("pictures").join(class);
        fs::create_dir_all(&place).unwrap();
        for k in 0..5u8 {
            // The plainest picture that a reader knows: binary PPM.
            let picture: Vec<u8> = b"P6 4 4 255\n".iter().copied().chain((0..48).map(|p| p * k)).collect();
            fs::write(place.join(format!("{k}.ppm")), picture).unwrap();
        }
    }
    fs::write(folder.join("input.txt"), "to be or not to be, that is the question. ".repeat(60)).unwrap();
}

#[test]
fn a_description_that_is_written_and_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["table", "images", "folders", "text", "memory-constrained"] {
        let file = format!("{kind}.toml");
        let made = adamant(folder.path(), &["config", "create", kind, &file]);
        assert_eq!((made.status.code(), out(&made).trim()), (Some(0), file.as_str()), "{}", err(&made));
        let text = fs::read_to_string(folder.path().join(&file)).unwrap();
        assert!(text.contains(&format!("adamant train {kind}.toml")) && !text.contains("NAME"), "{text}");
        // Without data the keys are right; with them all of it is.
        let alone = adamant(folder.path(), &["config", "validate", &file]);
        assert_eq!(alone.status.code(), Some(0), "{}{}", out(&alone), err(&alone));
        assert!(out(&alone).contains("not there; what follows from the data was not checked"), "{}", out(&alone));
        // It is not written over by chance.
        assert_eq!(adamant(folder.path(), &["config", "create", kind, &file]).status.code(), Some(2));
        assert_eq!(adamant(folder.path(), &["config", "create", kind, &file, "--force"]).status.code(), Some(0));
        let printed = adamant(folder.path(), &["config", "create", kind]);
        assert!(out(&printed).contains("adamant train NAME.toml"));
    }
    data(folder.path());
    for kind in ["table", "images", "folders", "text", "memory-constrained"] {
        let file = format!("{kind}.toml");
        let valid = adamant(folder.path(), &["config", "validate", &file]);
        assert!(valid.status.success() && out(&valid).contains("the model takes the data"), "{}{}", out(&valid), err(&valid));
        let dry = adamant(folder.path(), &["train", &file, "--dry-run", "--json", "--set", "batch=4"]);
        assert_eq!(dry.status.code(), Some(0), "{kind}: {}", err(&dry));
        let figures: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
        assert!(figures["loss"].is_number() && figures["steps"].as_u64() > Some(0), "{figures}");
    }
}
#[test]
fn a_fault_that_hides_the_others() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    let bad = "epoch = 3\nepochs = 2\nbatch = 0\n\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlable = 4\nclasses = 3\n\
               test = { modulo = 5, equals = 4 }\n\n[model]\nlayers = [{ kind = \"Linaer\", in_features = 4, out_features = 3 }]\n\n\
               [optimizer]\nkind = \"AdamW\"\nlearning_rate = 1e-3\n\n[schedule]\nkind = \"CosineAnealingLR\"\n\n[checkpoint]\nevry = 5\n";
    fs::write(folder.path().join("bad.toml"), bad).unwrap();
    let found = adamant(folder.path(), &["config", "validate", "bad.toml"]);
    let text = out(&found);
    assert_eq!(found.status.code(), Some(4), "{text}");
    for expected in [
        "bad.toml:1: unknown key `epoch`; did you mean `epochs`?",
        "bad.toml:3: `batch`: at least one row is needed",
        "bad.toml:8: unknown key `data.lable`; did you mean `label`?",
        "bad.toml:13: `model.layers.0.kind`: there is no `Linaer`; did you mean `Linear`?",
        "bad.toml:17: unknown key `optimizer.learning_rate`",
        "bad.toml:20: `schedule.kind`: there is no `CosineAnealingLR`; did you mean `CosineAnnealingLR`?",
        "bad.toml:23: unknown key `checkpoint.evry`; did you mean `every`?",
    ] {
        assert!(text.lines().any(|l| l.starts_with(expected)), "{expected}\n{text}");
    }
    assert!(err(&found).contains("bad.toml: 7 faults"), "{}", err(&found));
    let json = adamant(folder.path(), &["config", "validate", "bad.toml", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((document["valid"].as_bool(), document["faults"].as_array().unwrap().len()), (Some(false), 7));
}
#[test]
fn a_model_that_does_not_take_the_data_and_is_told_without_its_line() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    let wide = "epochs = 1\nbatch = 4\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlabel = 4\nclasses = 3\ntest = { modulo = 5, equals = 4 }\n\
                [model]\nlayers = [{ kind = \"Linear\", in_features = 7, out_features = 3 }]\n[optimizer]\nkind = \"SGD\"\n";
    fs::write(folder.path().join("wide.toml"), wide).unwrap();
    let found = adamant(folder.path(), &["config", "validate", "wide.toml"]);
    assert_eq!(found.status.code(), Some(4), "{}", out(&found));
    assert!(out(&found).starts_with("wide.toml:10: `model.layers.0.in_features`: "), "{}", out(&found));
    let trained = adamant(folder.path(), &["train", "wide.toml", "--quiet"]);
    assert!(trained.status.code() == Some(4) && err(&trained).starts_with("error: wide.toml:10: `model.layers.0.in_features`: "), "{}", err(&trained));
    let right = adamant(folder.path(), &["config", "validate", "wide.toml", "--set", "model.layers.0.in_features=4"]);
    assert_eq!(right.status.code(), Some(0), "{}", out(&right));
}
#[test]
fn a_verb_that_ends_otherwise_for_the_same_fault_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    adamant(folder.path(), &["config", "create", "table", "t.toml"]);
    for (set, code) in [(&["epochs=x"][..], 2), (&["optimizer.lrr=1"], 2), (&["epochs=x", "batch=0"], 2), (&["nonsense"], 2)] {
        for verb in [&["config", "validate"][..], &["summary"], &["train", "--dry-run"]] {
            let sets: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
            let found = adamant(folder.path(), &[verb, &["t.toml"], &sets[..]].concat());
            assert_eq!(found.status.code(), Some(code), "{verb:?} {set:?}: {}{}", out(&found), err(&found));
        }
    }
    // A fault of the file beside it is one of the file.
    fs::write(folder.path().join("bad.toml"), fs::read_to_string(folder.path().join("t.toml")).unwrap() + "\n[nonsense]\n").unwrap();
    let found = adamant(folder.path(), &["config", "validate", "bad.toml", "--set", "epochs=x"]);
    assert_eq!(found.status.code(), Some(4), "{}", out(&found));
}
#[test]
fn a_model_beyond_this_machine_or_any_that_is_called_right_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    let layers = |width: &str| {
        format!(
            "epochs = 1\nbatch = 1\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlabel = 4\nclasses = 3\ntest = {{ modulo = 5, equals = 4 }}\n[model]\n\
             layers = [{{ kind = \"Linear\", in_features = 4, out_features = {width} }}, {{ kind = \"Linear\", in_features = {width}, out_features = {width} }}, \
             {{ kind = \"Linear\", in_features = {width}, out_features = 3 }}]\n[optimizer]\nkind = \"SGD\"\n"
        )
    };
    for (name, width) in [("right", "4"), ("large", "4000000"), ("none", "40000000")] {
        fs::write(folder.path().join(format!("{name}.toml")), layers(width)).unwrap();
    }
    let validate = |file: &str| adamant(folder.path(), &["config", "validate", file]);
    assert_eq!(out(&validate("right.toml")), "right.toml: every key is right, and the model takes the data\n");
    // 64 TB: some machine may have them.
    let large = validate("large.toml");
    let said = out(&large);
    assert_eq!(large.status.code(), Some(0), "{said}");
    assert!(said.lines().any(|l| l.starts_with("large.toml:") && l.contains("`model.layers.1`") && l.ends_with("this machine cannot train it")), "{said}");
    let none = validate("none.toml");
    assert_eq!(none.status.code(), Some(5), "{}", out(&none));
    assert!(out(&none).contains("`model.layers.1`"), "{}", out(&none));
}

/// Sizes that no machine has are refused, or looked at without being taken, under a limit that one of them would break.
#[cfg(unix)]
#[test]
fn a_size_that_ends_the_program() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    for kind in ["table", "images", "folders", "text"] {
        adamant(folder.path(), &["config", "create", kind, &format!("{kind}.toml")]);
    }
    fs::write(folder.path().join("run.toml"), super::RUN.replace("points.csv", "table.csv")).unwrap();
    let limited = |arguments: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -v 2097152; ulimit -t 20; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_adamant")]).args(arguments).current_dir(folder.path());
        shell.output().unwrap()
    };
    let mut wrong = Wrong::default();
    let many = i64::MAX.to_string();
    let cases = [
        ("table", "data.classes", many.as_str()),
        ("table", "data.classes", "1000000000"),
        // The model has two whatever the data say.
        ("run", "data.classes", many.as_str()),
        ("run", "model.layers.0.in_features", "1000000"),
        ("table", "epochs", "1000000000"),
        ("table", "batch", "1000000000000000000"),
        ("table", "accumulate", "2000000000"),
        ("table", "data.workers", "1000000000"),
        ("table", "data.prefetch_factor", "1000000000"),
        ("table", "log_every", many.as_str()),
        ("table", "model.layers.0.out_features", "1000000"),
        ("table", "model.layers.0.out_features", "2000000000"),
        ("images", "model.layers.0.kernel_size", "1000000"),
        ("images", "model.layers.0.out_channels", "1000000"),
        ("images", "model.layers.0.padding", "2000000000"),
        ("images", "model.layers.5.output_size", "1000000000"),
        ("images", "model.layers.8.in_features", "1000000"),
        ("folders", "data.size", "1000000000"),
        ("text", "data.context", "1000000000"),
        ("text", "model.layers.0.num_embeddings", "10000000"),
        ("text", "model.layers.2.repeat", many.as_str()),
        ("text", "model.layers.2.repeat", "1000000"),
        ("text", "model.layers.2.d_model", "1000000"),
        ("text", "model.layers.2.dim_feedforward", "1000000000"),
        ("text", "model.layers.2.nhead", "0"),
    ];
    for (kind, key, value) in cases {
        let (file, set) = (format!("{kind}.toml"), format!("{key}={value}"));
        for verb in [&["config", "validate"][..], &["summary"], &["train", "--dry-run"]] {
            // What is legal and small enough is trained, in other tests.
            if verb[0] == "train" && ["epochs", "batch", "accumulate"].contains(&key) {
                continue;
            }
            let found = limited(&[verb, &[&file, "--set", &set, "--json"]].concat());
            let document: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
            let message = document["error"]["message"].as_str().or_else(|| document["faults"][0]["message"].as_str());
            let is_told = found.status.success() || message.is_some_and(|m| m.contains('`'));
            let right = matches!(found.status.code(), Some(0 | 2 | 4 | 5)) && document.is_object() && is_told;
            wrong.unless(right, || format!("{verb:?} {set}: {:?} {}{}", found.status, out(&found), err(&found)));
        }
    }
    drop(wrong);
    let text = limited(&["train", "text.toml", "--dry-run", "--json", "--set", "model.layers.0.num_embeddings=10000000"]);
    let document: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!((text.status.code(), document["error"]["kind"].as_str()), (Some(5), Some("memory")), "{document}");
    assert!(document["error"]["message"].as_str().is_some_and(|m| m.starts_with("text.toml:") && m.contains("`model.layers.0`") && m.contains("GiB")));
    let threads = limited(&["train", "table.toml", "--dry-run", "--threads", "1000000000"]);
    assert_eq!(threads.status.code(), Some(2), "{}", err(&threads));
}
#[test]
fn a_file_that_is_no_description() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let right = super::RUN;
    write("deep.toml", format!("x = {}{}", "[".repeat(10_000), "]".repeat(10_000)).as_bytes());
    write("dotted.toml", format!("{}a = 1", "a.".repeat(20_000)).as_bytes());
    write("inline.toml", format!("a = {}1{}", "{a = ".repeat(10_000), "}".repeat(10_000)).as_bytes());
    write("long.toml", format!("# {}", "x".repeat(2 << 20)).as_bytes());
    write("nul.toml", right.replace("seed", "se\0ed").as_bytes());
    write("latin.toml", &[right.as_bytes(), b"\n# \xe9"].concat());
    write("twice.toml", right.replace("seed = 1", "seed = 1\nseed = 2").as_bytes());
    write("date.toml", right.replace("lr = 0.1", "lr = 1979-05-27").as_bytes());
    write("red.toml", right.replace("SGD", &format!("\\u001b[31m{}", "y".repeat(5000))).as_bytes());
    fs::create_dir(folder.path().join("folder.toml")).unwrap();
    for (file, says) in [
        ("deep.toml", "deep.toml:1: "),
        ("dotted.toml", "dotted.toml:1: "),
        ("inline.toml", "inline.toml:1: "),
        ("long.toml", "long.toml: more than 1048576 bytes"),
        ("nul.toml", "nul.toml:2: "),
        ("latin.toml", "is no UTF-8"),
        ("twice.toml", "twice.toml:3: duplicate key in `seed = 2`"),
        ("date.toml", "date.toml:15: `optimizer.lr`: 1979-05-27 is a date"),
        ("red.toml", "red.toml:14: `optimizer.kind`: there is no `\\u{1b}[31myyy"),
        ("folder.toml", "folder.toml: a folder"),
    ] {
        for verb in [&["config", "validate"][..], &["summary"], &["train"]] {
            let found = adamant(folder.path(), &[verb, &[file]].concat());
            let text = out(&found) + &err(&found);
            assert!(found.status.code() == Some(4) && text.contains(says), "{verb:?} {file}: {:?} {text}", found.status);
            assert!(text.len() < 3000 && !text.contains('\u{1b}'), "{file}: {} bytes: {text:?}", text.len());
        }
    }
    // What only looks strange is taken.
    fs::write(folder.path().join("points.csv"), (0..12).map(|k| format!("{},{},{}\n", k % 5, k % 3, k % 2)).collect::<String>()).unwrap();
    write("mark.toml", format!("\u{feff}{}", right.replace('\n', "\r\n")).as_bytes());
    let found = adamant(folder.path(), &["config", "validate", "mark.toml"]);
    assert!(found.status.success(), "{}{}", out(&found), err(&found));
    let dotted = format!("{}=1", "a.".repeat(10_000) + "a");
    assert_eq!(adamant(folder.path(), &["train", "mark.toml", "--set", &dotted]).status.code(), Some(2));
}
/// Every description that comes with the program, and the shape of a record.
fn examples(folder: &Path) -> Vec<(std::path::PathBuf, &'static str)> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files = Vec::new();
    for (name, input) in [("digits", "64"), ("mnist", "1,28,28"), ("chargpt", "64:i64")] {
        files.push((examples.join(name).join(format!("{name}.toml")), input));
    }
    for (kind, input) in [("table", "4"), ("images", "1,28,28"), ("folders", "3,64,64"), ("text", "64:i64")] {
        let file = folder.join(format!("{kind}.toml"));
        adamant(folder, &["config", "create", kind, file.to_str().unwrap()]);
        files.push((file, input));
    }
    files
}
/// `summary --input` asks no data.
#[test]
fn a_summary_that_the_help_promises() {
    let folder = tempfile::tempdir().unwrap();
    for (file, input) in examples(folder.path()) {
        let file = file.to_str().unwrap();
        let found = adamant(folder.path(), &["summary", file, "--input", input, "--json"]);
        assert!(found.status.success(), "{file}: {}", err(&found));
        let document: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        // A word whose number follows from data is told with the number that was taken for it.
        let text = fs::read_to_string(file).unwrap();
        let values: String = text.lines().filter_map(|l| l.split('#').next()).collect();
        for word in ["classes", "vocabulary"] {
            assert_eq!(document["assumed"].get(word).is_some(), values.contains(&format!("${word}")), "{file}: {document}");
        }
    }
}
#[test]
fn a_summary_that_is_wider_than_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for (file, input) in examples(folder.path()) {
        let file = file.to_str().unwrap();
        for columns in ["40", "80", "120"] {
            let mut shown = super::command(folder.path(), &["summary", file, "--input", input]);
            let shown = shown.env("COLUMNS", columns).env("LC_ALL", "C").output().unwrap();
            let table = out(&shown);
            let widest = table.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns.parse().unwrap() && table.is_ascii() && table.contains("Parameters"), "{columns}: {widest}\n{table}");
        }
    }
}
#[test]
fn help_that_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["help", "--help"][..], &["help"], &["help", "train"], &["help", "config", "create"], &["summary", "--help"]] {
        let found = adamant(folder.path(), arguments);
        assert!(found.status.success() && out(&found).contains("Usage"), "{arguments:?}: {}", err(&found));
    }
    assert_eq!(adamant(folder.path(), &["help", "nothing"]).status.code(), Some(2));
}
#[test]
fn a_table_that_is_described_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..60).map(|k| format!("{};{},5;{}\n", k % 3 * 10 + k % 4, k % 7, ["oak", "elm", "ash"][k % 3])).collect();
    fs::write(folder.path().join("trees.csv"), format!("w;h;species\n{rows}")).unwrap();
    let made = adamant(folder.path(), &["config", "create", "table", "trees.csv", "trees.toml"]);
    assert_eq!((made.status.code(), out(&made).trim()), (Some(0), "trees.toml"), "{}", err(&made));
    let text = fs::read_to_string(folder.path().join("trees.toml")).unwrap();
    assert!(text.lines().count() <= 25 && text.contains("label = \"species\"") && text.contains("adamant train trees.toml"), "{text}");
    let trained = adamant(folder.path(), &["train", "trees.toml", "--quiet", "--run", "run", "--set", "epochs=60", "--set", "optimizer.lr=0.1"]);
    assert_eq!(trained.status.code(), Some(0), "{}", err(&trained));
    // New rows by the names of their columns, in another order; one that is no number is named.
    fs::write(folder.path().join("new.csv"), "h;w\n3,5;1\n3,5;11\n3,5;21\n").unwrap();
    let asked = adamant(folder.path(), &["predict", "run", "new.csv"]);
    let classes: Vec<String> = out(&asked).lines().map(|l| l.split_whitespace().nth(1).unwrap_or_default().to_string()).collect();
    assert_eq!(classes, ["oak", "elm", "ash"], "{}{}", out(&asked), err(&asked));
    fs::write(folder.path().join("bad.csv"), "w;h\n1;2\n1;nan\n").unwrap();
    let bad = adamant(folder.path(), &["predict", "run", "bad.csv"]);
    assert!(bad.status.code() == Some(4) && err(&bad).contains("row 2 (line 3), column `h`: nan"), "{}", err(&bad));
    fs::write(folder.path().join("less.csv"), "w;species\n1;oak\n").unwrap();
    let less = adamant(folder.path(), &["predict", "run", "less.csv"]);
    assert!(less.status.code() == Some(4) && err(&less).contains("column `h` is missing"), "{}", err(&less));
    assert_eq!(adamant(folder.path(), &["config", "create", "text", "a.toml", "b.toml"]).status.code(), Some(2));
}
