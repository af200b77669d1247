//! `adamant config`: what it writes is what the program takes, and what it finds wrong.

use super::{adamant, err, out};
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
        "bad.toml:5: `data.label` is missing",
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
    // A model that does not take the data is found without training.
    let wide = "epochs = 1\nbatch = 4\n[data]\nkind = \"csv\"\npath = \"table.csv\"\nlabel = 4\nclasses = 3\ntest = { modulo = 5, equals = 4 }\n\
                [model]\nlayers = [{ kind = \"Linear\", in_features = 7, out_features = 3 }]\n[optimizer]\nkind = \"SGD\"\n";
    fs::write(folder.path().join("wide.toml"), wide).unwrap();
    let found = adamant(folder.path(), &["config", "validate", "wide.toml"]);
    assert_eq!(found.status.code(), Some(4), "{}", out(&found));
    assert!(out(&found).contains('7') && out(&found).contains('4'), "{}", out(&found));
    let right = adamant(folder.path(), &["config", "validate", "wide.toml", "--set", "model.layers.0.in_features=4"]);
    assert_eq!(right.status.code(), Some(0), "{}", out(&right));
}
