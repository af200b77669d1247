//! Tables, arrays and their like as people have them: what is said in a description, what is learned from the training
//! part, what is kept with the run, and what becomes of records that cannot be used.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Tensor};
use adamant_data::{Answer, Becomes, Dataset};
use adamant_train::{Document, Failure, Report, Run, Task, Trained, dataset};
use std::{fs, path::Path};

/// Sixty rows of three classes that a line tells apart.
fn rows() -> Vec<[String; 3]> {
    let row = |k: usize| {
        let class = k % 3;
        [format!("{}.{}", 10 * class + k % 4, k % 10), format!("{}", 500 * (2 - class) + k % 7), class.to_string()]
    };
    (0..60).map(row).collect()
}
fn describe(data: &str) -> String {
    format!(
        "seed = 1\nepochs = 40\nbatch = 16\n[model]\nlayers = [{{ kind = \"Linear\", in_features = \"$features\", out_features = \"$classes\" }}]\n\
         [optimizer]\nkind = \"Adam\"\nlr = 0.1\n[data]\nkind = \"csv\"\npath = \"t.csv\"\n{data}\n"
    )
}
fn numbers(data: &str) -> String {
    describe(data).replace("\"$classes\"", "1")
}
fn train_at(folder: &Path, description: &str, resume: bool) -> Result<Report, Failure> {
    let document = Document::parse("t.toml", description)?;
    Device::reference().scoped(|| Run::new(&document).data(folder).folder(folder.join("run")).resume(resume).train(&mut ()))
}
fn train(folder: &Path, description: &str) -> Result<Report, Failure> {
    let _ = fs::remove_dir_all(folder.join("run"));
    train_at(folder, description, false)
}
fn answers(folder: &Path, file: &str) -> Result<Vec<Vec<f32>>, Failure> {
    Device::reference().scoped(|| {
        let trained = Trained::open(&folder.join("run"))?;
        let mut all = Vec::new();
        for batch in trained.inputs(&folder.join(file))?.batches(7) {
            let (rows, x) = batch?;
            let y = trained.answer(&x)?.to_vec_as::<f32>()?;
            all.extend(y.chunks(y.len() / rows.len()).map(<[f32]>::to_vec));
        }
        Ok(all)
    })
}
fn best(row: &[f32]) -> usize {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap()
}
fn put(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    fs::write(folder.join(name), text).unwrap();
}
fn names(folder: &Path) -> Vec<String> {
    match serde_json::from_str(&fs::read_to_string(folder.join("run/task.json")).unwrap()).unwrap() {
        Task::Classes { classes } => classes,
        other => panic!("{other:?}"),
    }
}

/// Each is written down in another way, described by the program, trained and asked again for its own rows.
#[test]
fn a_table_of_a_common_kind_that_needs_a_programmer() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let all = rows();
    let table =
        |header: &str, line: &dyn Fn(&[String; 3], usize) -> String| header.to_string() + &all.iter().enumerate().map(|(k, r)| line(r, k)).collect::<String>();
    let species = ["oak", "ash", "elm"];
    let of = |r: &[String; 3]| species[r[2].parse::<usize>().unwrap()];
    let (abc, numbered) = (["ash", "elm", "oak"], ["0", "1", "2"]);
    for (what, text, expected) in [
        ("plain, no header", table("", &|r, _| format!("{},{},{}\n", r[0], r[1], r[2])), numbered),
        ("names, label last", table("w,h,species\n", &|r, _| format!("{},{},{}\n", r[0], r[1], of(r))), abc),
        ("label first", table("class,w,h\n", &|r, _| format!("{},{},{}\n", of(r), r[0], r[1])), abc),
        ("label in the middle, no header", table("", &|r, _| format!("{},{},{}\n", r[0], of(r), r[1])), abc),
        ("labels 1 to K, first, no header", table("", &|r, _| format!("{},{},{}.5\n", r[2].parse::<u8>().unwrap() + 1, r[0], r[1])), ["1", "2", "3"]),
        ("labels with a point", table("w,h,y\n", &|r, _| format!("{},{},{}.0\n", r[0], r[1], r[2])), numbered),
        ("semicolons", table("w;h;species\n", &|r, _| format!("{};{};{}\n", r[0], r[1], of(r))), abc),
        ("decimal commas", table("w;h;species\n", &|r, _| format!("{};{};{}\n", r[0].replace('.', ","), r[1], of(r))), abc),
        ("quotes", table("\"w\",\"h\",\"species\"\n", &|r, _| format!("\"{}\",{},\"{}\"\n", r[0], r[1], of(r))), abc),
        ("line ends of Windows and a mark", table("\u{feff}w,h,species\r\n", &|r, _| format!("{},{},{}\r\n", r[0], r[1], of(r))), abc),
        ("a delimiter at the end", table("w,h,species,\n", &|r, _| format!("{},{},{},\n", r[0], r[1], of(r))), abc),
        ("tabs", table("w\th\tspecies\n", &|r, _| format!("{}\t{}\t{}\n", r[0], r[1], of(r))), abc),
        ("spaces", table("", &|r, _| format!("  {}  {} {}\n", r[0], r[1], r[2])), numbered),
        ("numbered rows", table(",w,h,species\n", &|r, k| format!("{k},{},{},{}\n", r[0], r[1], of(r))), abc),
        (
            "gaps",
            table("w,h,species\n", &|r, k| format!("{},{},{}\n", if k % 9 == 4 { "NA" } else { &r[0] }, if k % 11 == 5 { "" } else { &r[1] }, of(r))),
            abc,
        ),
        ("a text column", table("w,h,site,species\n", &|r, k| format!("{},{},{},{}\n", r[0], r[1], ["north", "south"][k % 2], of(r))), abc),
        ("a title", table("measured in 2001\nw,h,species\n", &|r, _| format!("{},{},{}\n", r[0], r[1], of(r))), abc),
        ("comments", table("# by hand\nw,h,species\n", &|r, _| format!("{},{},{}\n", r[0], r[1], of(r))), abc),
    ] {
        put(folder, "t.csv", &text);
        let description = dataset::describe_table("t", &folder.join("t.csv"), "t.csv", None).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(description.lines().count() <= 25, "{what}: {description}");
        let quick = description
            .lines()
            .map(|l| if l.starts_with("epochs") { "epochs = 60" } else { l }.replace("lr = 0.02", "lr = 0.1"))
            .collect::<Vec<_>>()
            .join("\n");
        let report = train(folder, &quick).unwrap_or_else(|e| panic!("{what}: {e}\n{description}"));
        assert!(report.test.accuracy > Some(0.9), "{what}: {:?}\n{description}", report.test.accuracy);
        assert_eq!(names(folder), expected, "{what}");
        // Asked for its own file, the answer column among the others, it answers rows in their order.
        let found = answers(folder, "t.csv").unwrap_or_else(|e| panic!("{what}: {e}"));
        let right = found.iter().zip(&all).filter(|(a, r)| {
            expected[best(a)].trim_start_matches('x')
                == if expected == abc { of(r).to_string() } else { (r[2].parse::<usize>().unwrap() + usize::from(expected[0] == "1")).to_string() }
        });
        assert!(found.len() == 60 && right.count() >= 54, "{what}");
    }
}
#[test]
fn a_bad_record_that_is_learned_from_or_stops_a_run_that_was_to_leave_it_out() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let plain: Vec<String> = rows().iter().map(|r| r.join(",")).collect();
    let with = |row: usize, line: &str| {
        let mut all = plain.clone();
        all[row] = line.to_string();
        format!("w,h,petal_width\n{}\n", all.join("\n"))
    };
    let keys = |policy: &str| describe(&format!("label = \"petal_width\"\n{policy}\nvalid = 0.2\ntest = {{ modulo = 4, equals = 3 }}"));
    // Row 17 is trained or held out on, row 20 is tested on.
    for row in [16, 19] {
        let line = row + 2;
        for (bad, says) in [
            ("nan,1,0", format!("row {} (line {line}), column `w`: nan", row + 1)),
            ("1,-inf,0", format!("row {} (line {line}), column `h`: -inf", row + 1)),
            ("1e999,1,0", format!("row {} (line {line}), column `w`: 1e999", row + 1)),
            ("x,1,0", format!("row {} (line {line}), column `w`: `x` is no number", row + 1)),
            ("1,1", format!("row {} (line {line}): 2 fields, and 3 were expected", row + 1)),
            (",1,0", format!("row {} (line {line}), column `w`: nothing stands there", row + 1)),
            ("\u{1b}]0;owned\u{7},1,0", format!("row {} (line {line}), column `w`: `\\u{{1b}}]0;owned\\u{{7}}` is no number", row + 1)),
        ] {
            put(folder, "t.csv", with(row, bad));
            let error = train(folder, &keys("")).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(error.to_string().contains(&says) && error.to_string().contains("t.csv"), "{says}: {error}");
            let report = train(folder, &keys("on_bad_record = \"skip\"")).unwrap();
            assert_eq!(report.test.rows, if row == 19 { 14 } else { 15 });
            assert!(report.losses.iter().all(|l| l.is_finite()) && report.test.loss.is_finite());
            let error = train(folder, &keys("on_bad_record = \"skip\"\nat_most = 0")).unwrap_err().to_string();
            assert!(error.contains("0 are allowed"), "{error}");
            let quarantined = keys("on_bad_record = \"quarantine\"\nquarantine = \"q.jsonl\"");
            train(folder, &quarantined).unwrap();
            let lines = fs::read_to_string(folder.join("q.jsonl")).unwrap();
            assert!(lines.lines().count() == 1 && lines.contains(&format!("\"index\":{row}")), "{lines}");
            fs::remove_file(folder.join("q.jsonl")).unwrap();
        }
    }
    // Of numbers that are asked for, NaN is one.
    put(folder, "t.csv", with(16, "nan,1,0"));
    assert!(matches!(train(folder, &keys("allow_nonfinite = true")), Err(Failure::Diverged(_))));
    // Nothing is left of the test part.
    let none: String = (0..60).map(|k| if k % 4 == 3 { "x,1,0\n".to_string() } else { plain[k].clone() + "\n" }).collect();
    put(folder, "t.csv", format!("w,h,petal_width\n{none}"));
    let error = train(folder, &keys("on_bad_record = \"skip\"")).unwrap_err().to_string();
    assert!(error.contains("none of 15 records can be read"), "{error}");
}
#[test]
fn a_question_that_is_answered_from_the_wrong_column_or_from_no_number() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let all = rows();
    put(folder, "t.csv", "w,h,kind\n".to_string() + &all.iter().map(|r| format!("{},{},k{}\n", r[0], r[1], r[2])).collect::<String>());
    train(folder, &describe("label = \"kind\"\nscale = \"standard\"\ntest = 0.25")).unwrap();
    assert_eq!(names(folder), ["k0", "k1", "k2"]);
    let own = answers(folder, "t.csv").unwrap();
    put(folder, "reordered.csv", "more,h,w\n".to_string() + &all.iter().map(|r| format!("x,{},{}\n", r[1], r[0])).collect::<String>());
    assert_eq!(answers(folder, "reordered.csv").unwrap(), own);
    put(folder, "bare.csv", all.iter().map(|r| format!("{},{}\n", r[0], r[1])).collect::<String>());
    assert_eq!(answers(folder, "bare.csv").unwrap(), own);
    let values: Vec<f32> = all.iter().flat_map(|r| [r[0].parse().unwrap(), r[1].parse::<f32>().unwrap()]).collect();
    Device::reference().scoped(|| adamant_formats::write_npy(folder.join("x.npy"), &Tensor::from_vec(values, [60, 2]))).unwrap();
    assert_eq!(answers(folder, "x.npy").unwrap(), own);
    for (text, says) in [
        ("w,kind\n1,k0\n", "column `h` is missing, which the model was trained with; there are w, kind"),
        ("w,h\n1,2\n1,nan\n", "row 2 (line 3), column `h`: nan"),
        ("1,2\n3,inf\n", "row 2 (line 2), column `1`: inf"),
        ("1,2,3,4\n1,2,3,4\n", "it has 4 columns; the model was trained on 2 inputs of 3"),
        ("", "no rows|holds no"),
    ] {
        put(folder, "bad.csv", text);
        let error = answers(folder, "bad.csv").unwrap_err();
        assert!(error.exit_code() == 4 && says.split('|').any(|s| error.to_string().contains(s)), "{says}: {error}");
    }
    #[cfg(unix)]
    {
        let error = Device::reference().scoped(|| Trained::open(&folder.join("run")).unwrap().inputs("/dev/zero".as_ref()).err().unwrap());
        assert!(error.exit_code() == 4 && error.to_string().contains("/dev/zero: it is a device"), "{error}");
    }
}
#[test]
fn a_scale_that_has_seen_the_test_part_or_is_not_kept() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    // What is tested is a thousand times larger.
    let text = |factor: i32| (0..40).map(|k| format!("{},{}\n", if k % 4 == 3 { 1000 * k } else { factor * k }, k % 2)).collect::<String>();
    put(folder, "t.csv", text(1));
    let description = describe("label = 1\nscale = \"standard\"\ntest = { modulo = 4, equals = 3 }");
    train(folder, &description.replace("epochs = 40", "epochs = 2")).unwrap();
    let kept = dataset::kept_columns(&folder.join("run")).unwrap().unwrap();
    let Becomes::Number { mean, std, .. } = kept.inputs[0].becomes else { panic!("{kept:?}") };
    let own: Vec<f64> = (0..40).filter(|k| k % 4 != 3).map(f64::from).collect();
    let expected = own.iter().sum::<f64>() / 30.0;
    let deviation = (own.iter().map(|v| (v - expected).powi(2)).sum::<f64>() / 30.0).sqrt();
    assert!((f64::from(mean) - expected).abs() < 1e-5 && (f64::from(std) - deviation).abs() < 1e-5, "{mean} {std}");
    // The file has become another: the run does not go on with it, and what it knew stays what it was.
    put(folder, "t.csv", text(100));
    let other = train_at(folder, &description.replace("epochs = 40", "epochs = 4"), true).err().unwrap();
    assert!(other.exit_code() == 4 && other.to_string().contains("the data are not those"), "{other}");
    assert_eq!(dataset::kept_columns(&folder.join("run")).unwrap().unwrap(), kept);
    let (_, parts) = Device::reference().scoped(|| Trained::open(&folder.join("run")).unwrap().data(folder)).unwrap();
    assert_eq!(parts.columns.unwrap(), kept);
}
#[test]
fn a_gap_a_text_or_a_target_that_is_filled_coded_or_scaled_wrong() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    put(folder, "t.csv", "a,c,y\n1,red,0\n2,?,1\n?,blue,0\n9,red,1\n5,green,0\n4,red,1\n3,blue,0\n8,red,1\n");
    let parts = |data: &str| -> Result<dataset::Parts, Failure> {
        let document = Document::parse("t.toml", &describe(data)).unwrap();
        let root = document.root()?;
        dataset::Parts::of(root.section("data")?.unwrap(), folder, 1)
    };
    let input = |parts: &dataset::Parts, k: usize| {
        let (x, _) = Device::reference().scoped(|| parts.train.collate(vec![parts.train.read(k).unwrap()])).unwrap();
        x.to_vec::<f32>().unwrap()
    };
    // Rows 0 to 6 are trained on: a is 1, 2, ?, 9, 5, 4, 3, and of c red is the most frequent.
    let keys = |missing: &str, more: &str| format!("label = \"y\"\ncategorical = \"c\"\ntest = {{ modulo = 8, equals = 7 }}\nmissing = \"{missing}\"\n{more}");
    let mean = parts(&keys("mean", "")).unwrap();
    assert_eq!((mean.train.len(), input(&mean, 1), input(&mean, 2)), (7, vec![2.0, 0.0, 0.0, 1.0], vec![4.0, 1.0, 0.0, 0.0]));
    assert_eq!(input(&parts(&keys("median", "")).unwrap(), 2)[0], 3.5);
    assert_eq!(parts(&keys("skip", "")).unwrap().train.len() + 2, 8);
    let error = parts(&keys("fail", "")).err().unwrap().to_string();
    assert!(error.contains("row 2 (line 3), column `c`: `?` stands for a missing value; `missing` says"), "{error}");
    for (keys, says) in [
        ("label = \"yy\"\ntest = 0.2".to_string(), "t.toml:12: `data.label`: there is no column `yy` among a, c, y"),
        ("label = \"y\"\ntest = 0.2".into(), "column `c`: `red` is no number"),
        ("label = \"y\"\nignore = [\"c\"]\nscale = \"standart\"\ntest = 0.2".into(), "there is no `standart`; there are none, standard, minmax"),
        ("label = \"y\"\ntest = 1.5".into(), "1.5 is no part of the rows"),
        ("label = \"y\"\ncolumns = [\"a\", \"y\"]\ntest = 0.2".into(), "column `y` is to be predicted"),
        ("label = \"y\"\nmissing = \"mean\"\ncategorical = \"c\"\ntest = { modulo = 8, equals = 4 }".into(), "`green` does not occur in the training part"),
        ("label = \"y\"\nclasses = [\"no\"]\nmissing = \"mean\"\ncategorical = \"c\"\ntest = 0.2".into(), "`1` is none of the 1 classes"),
    ] {
        let error = parts(&keys).err().unwrap_or_else(|| panic!("{keys} is taken")).to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    let zero = parts("label = \"y\"\nmissing = \"mean\"\ncategorical = \"c\"\nunknown = \"zero\"\ntest = { modulo = 8, equals = 4 }").unwrap();
    let (x, _) = Device::reference().scoped(|| zero.test.collate(vec![zero.test.read(0).unwrap()])).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [5.0, 0.0, 0.0]);
    // A target in a file of its own, of large numbers: learned scaled, judged in its own units.
    put(folder, "t.csv", (0..40).map(|k| format!("{k} {}\n", k % 3)).collect::<String>());
    put(folder, "y.csv", (0..40).map(|k| format!("{}e3\n", 7 * k)).collect::<String>());
    let report =
        train(folder, &numbers("target_path = \"y.csv\"\ntarget_scale = \"standard\"\nscale = \"minmax\"\ntest = 0.25").replace("epochs = 40", "epochs = 300"))
            .unwrap();
    // The loss is that of training, on scaled numbers; figures are in the data's units.
    let mae = report.test.numbers.as_ref().unwrap().mae;
    assert!(report.test.loss < 1.0 && mae < 5000.0, "{} {mae}", report.test.loss);
    let found = answers(folder, "t.csv").unwrap();
    assert!((found[30][0] - 210_000.0).abs() < 5000.0, "{:?}", found[30]);
    let kept = dataset::kept_columns(&folder.join("run")).unwrap().unwrap();
    assert!(matches!(&kept.answer, Answer::Values { scale, .. } if scale.std[0] > 1e4));
}
#[test]
fn a_test_part_that_is_not_the_one_that_was_said() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    put(folder, "t.csv", rows().iter().map(|r| r.join(",") + "\n").collect::<String>());
    put(folder, "more.csv", rows().iter().take(9).map(|r| r.join(",") + "\n").collect::<String>());
    let parts = |test: &str, seed: u64| {
        let document = Document::parse("t.toml", &describe(&format!("label = 2\n{test}"))).unwrap();
        let parts = dataset::Parts::of(document.root().unwrap().section("data").unwrap().unwrap(), folder, seed).unwrap();
        let of = |part: &adamant_data::Examples| (0..part.len()).map(|k| part.locate(k).index).collect::<Vec<_>>();
        (of(&parts.train), of(&parts.test))
    };
    for test in ["test = 0.25", "test = { share = 0.25, seed = 3, stratify = true }", "test = { folds = 5, fold = 2 }", "test = { modulo = 5, equals = 4 }"] {
        let (train, tested) = parts(test, 1);
        let mut both = [train, tested.clone()].concat();
        both.sort_unstable();
        assert_eq!(both, (0..60).collect::<Vec<_>>(), "{test}");
        // The seed of a run does not decide what it is judged by.
        assert_eq!(parts(test, 2).1, tested, "{test}");
        if test.contains("stratify") {
            let counts: Vec<usize> = (0..3).map(|class| tested.iter().filter(|row| **row % 3 == class).count()).collect();
            assert_eq!(counts, [5, 5, 5]);
        }
    }
    let mut folds: Vec<usize> = (0..5).flat_map(|fold| parts(&format!("test = {{ folds = 5, fold = {fold} }}"), 1).1).collect();
    folds.sort_unstable();
    assert_eq!(folds, (0..60).collect::<Vec<_>>());
    assert_eq!(parts("test_path = \"more.csv\"", 1).1, (0..9).collect::<Vec<_>>());
}
#[test]
fn arrays_images_or_a_text_whose_bad_records_are_taken() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let data = |lines: &str| describe(lines).replace("kind = \"csv\"\npath = \"t.csv\"\n", "");
    let mut values: Vec<f32> = rows().iter().flat_map(|r| [r[0].parse().unwrap(), r[1].parse::<f32>().unwrap()]).collect();
    values[33] = f32::NAN;
    let labels: Vec<i64> = (0..60).map(|k| if k == 20 { 9 } else { k % 3 }).collect();
    Device::reference().scoped(|| {
        let (x, y) = (Tensor::from_vec(values.clone(), [60, 2]), Tensor::from_vec(labels, [60]));
        adamant_formats::write_npy(folder.join("x.npy"), &x).unwrap();
        adamant_formats::write_npy(folder.join("y.npy"), &y).unwrap();
        adamant_formats::write_npz(folder.join("xy.npz"), [("x", x), ("y", y)], Default::default()).unwrap();
    });
    let pixels =
        |n: u32| [[0, 0, 8, 3].to_vec(), [n, 3, 3].iter().flat_map(|s| s.to_be_bytes()).collect(), (0..n * 9).map(|k| (k % 251) as u8).collect()].concat();
    put(folder, "i.idx", pixels(60));
    put(folder, "l.idx", [[0, 0, 8, 1].to_vec(), 60u32.to_be_bytes().to_vec(), (0..60).map(|k| if k == 7 { 99 } else { k % 3 }).collect()].concat());
    let images = "train_images = \"i.idx\"\ntrain_labels = \"l.idx\"\nclasses = [\"a\", \"b\", \"c\"]\ntest = 0.2";
    let text: Vec<u8> = b"to be or not to be, ".repeat(20).into_iter().enumerate().map(|(k, b)| if k == 333 { 0xff } else { b }).collect();
    put(folder, "a.txt", text);
    let flat = "layers = [{ kind = \"Flatten\" }, {";
    let embedded = "layers = [{ kind = \"Embedding\", num_embeddings = \"$vocabulary\", embedding_dim = 4 }, { kind = \"Linear\", in_features = 4, out_features = \"$vocabulary\" }]";
    for (description, says, lost) in [
        (data("kind = \"npy\"\ninputs = \"x.npy\"\ntargets = \"y.npy\"\nclasses = 3\ntest = 0.2"), "row 17, column 1: NaN", 2),
        (
            data("kind = \"npy\"\npath = \"xy.npz\"\ninputs = \"x\"\ntargets = \"y\"\nscale = \"standard\"\nclasses = [\"a\", \"b\", \"c\"]\ntest = 0.2"),
            "row 17, column 1: NaN",
            2,
        ),
        (data(&format!("kind = \"idx\"\n{images}")).replace("layers = [{", flat), "label 7 is 99, of 3 classes", 1),
        (
            data("kind = \"text\"\npath = \"a.txt\"\ncontext = 8\ntest = 0.2")
                .replace(&describe("")[describe("").find("layers").unwrap()..describe("").find("[optimizer]").unwrap() - 1], embedded),
            "index 333",
            0,
        ),
    ] {
        let description = description.replace("epochs = 40", "epochs = 2");
        let error = train(folder, &description).unwrap_err();
        assert!(error.exit_code() == 4 && error.to_string().contains(says), "{says}: {error}");
        // Of arrays and images the bad records are learned from, then tested on.
        let parts = ["test = 0.2", "test = { modulo = 4, equals = 0 }", "test = { modulo = 4, equals = 3 }"];
        for part in &parts[..if lost == 0 { 1 } else { 3 }] {
            let description = format!("{}\non_bad_record = \"skip\"", description.replace("test = 0.2", part));
            let report = train(folder, &description).unwrap_or_else(|e| panic!("{says}, {part}: {e}"));
            let seen = report.plan.rows.train + report.plan.rows.test;
            assert!(report.test.loss.is_finite() && (lost == 0 || seen == 60), "{says}");
            let is_tested = part.contains(if lost == 2 { "equals = 0" } else { "equals = 3" });
            assert!(!is_tested || report.test.rows + lost == report.plan.rows.test, "{says}, {part}: {} rows are tested", report.test.rows);
        }
    }
    // A picture of the test part that is cut off.
    for class in ["cat", "dog"] {
        fs::create_dir_all(folder.join("pictures").join(class)).unwrap();
        for k in 0..5u8 {
            let picture: Vec<u8> = b"P6 4 4 255\n".iter().copied().chain((0..48).map(|p| p * k)).collect();
            put(folder, &format!("pictures/{class}/{k}.ppm"), if k == 4 { &picture[..20] } else { &picture });
        }
    }
    let pictures =
        data("kind = \"images\"\npath = \"pictures\"\nsize = 4\ntest = { modulo = 5, equals = 4 }\non_bad_record = \"skip\"").replace("layers = [{", flat);
    let error = train(folder, &pictures).unwrap_err().to_string();
    assert!(error.contains("none of 2 records can be read") && error.contains("4.ppm"), "{error}");
    let report = train(folder, &pictures.replace("modulo = 5, equals = 4", "modulo = 2, equals = 0")).unwrap();
    assert_eq!((report.plan.rows.test, report.test.rows), (5, 4));
}
#[test]
fn a_file_that_holds_far_more_than_it_weighs() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let bomb = |name: &str, head: &[u8], piece: &[u8], times: usize| {
        let mut writer = flate2::write::GzEncoder::new(fs::File::create(folder.join(name)).unwrap(), flate2::Compression::best());
        std::io::Write::write_all(&mut writer, head).unwrap();
        (0..times).for_each(|_| std::io::Write::write_all(&mut writer, piece).unwrap());
        writer.finish().unwrap();
    };
    bomb("t.csv", b"1,2,0\n", &b"1,2,0\n".repeat(1 << 15), 200);
    let error = train(folder, &describe("label = 2\ntest = 0.2")).unwrap_err().to_string();
    assert!(error.contains("inflate to more than") && error.contains("`inflate_ratio`"), "{error}");
    let error = train(folder, &describe("label = 2\ntest = 0.2\nlimits = { inflate_ratio = 2000, records = 1000 }")).unwrap_err().to_string();
    assert!(error.contains("the limit `records`"), "{error}");
    bomb("i.idx", &[0, 0, 8, 1, 12, 0, 0, 0], &[0; 1 << 20], 192);
    let error = adamant_data::Idx::read(folder.join("i.idx")).unwrap_err().to_string();
    assert!(error.contains("`inflate_ratio`"), "{error}");
    put(folder, "t.csv", "1,2,0\n".to_string() + &"9".repeat(3 << 20) + ",1,0\n");
    let error = train(folder, &describe("label = 2\ntest = 0.2")).unwrap_err().to_string();
    assert!(error.contains("line 2: a record of a field of more than 1048576 bytes") && error.len() < 400, "{error}");
}
