//! What a description can say of how a model is trained: each loss by numbers computed elsewhere, each key's faults with its line.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Tensor};
use adamant_nn::{Linear, Sequential, Walk};
use adamant_train::{Document, Failure, Objective, Report, Run, validate};
use std::{fs, path::Path};

fn objective(text: &str, numbers: bool) -> Result<Objective, Failure> {
    let document = Document::parse("run.toml", text)?;
    let root = document.root()?;
    Objective::of(&root, numbers)
}
#[test]
fn a_loss_that_is_another_function() {
    let logits = || Tensor::from_vec(vec![2.0f64, -1.0, 0.5, 0.0, 1.0, -2.0], [2, 3]);
    let classes = || Tensor::from_vec(vec![0i64, 2], [2]);
    let column = |v: [f64; 3]| Tensor::from_vec(v.to_vec(), [3, 1]);
    // A table gives one number for each row.
    let row = |v: [f64; 3]| Tensor::from_vec(v.to_vec(), [3]);
    let flat = |v: &[f64], width: usize| Tensor::from_vec(v.to_vec(), [v.len() / width, width]);
    type Pair = (Tensor, Tensor);
    Device::reference().scoped(|| {
        let of_classes: Pair = (logits(), classes());
        let flags: Pair = (column([0.5, -1.5, 3.0]), row([1.0, 0.0, 0.0]));
        let numbers: Pair = (column([0.5, -1.5, 3.0]), row([1.0, 0.0, 0.5]));
        let logs: Vec<f64> = [0.2f64, 0.8, 0.5, 0.5].iter().map(|p| p.ln()).collect();
        // (description, are the targets numbers?, outputs and targets, mean loss, right answers)
        let cases: [(&str, bool, &Pair, f64, Option<usize>); 20] = [
            ("", false, &of_classes, 1.7951617567126719, Some(1)),
            ("class_weights = [1, 2, 0.5]", false, &of_classes, 1.2772116033608336, Some(1)),
            ("label_smoothing = 0.1", false, &of_classes, 1.7868284233793386, Some(1)),
            ("loss = \"focal\"", false, &of_classes, 1.5645036786040734, Some(1)),
            ("loss = \"focal\"\nclass_weights = [1, 2, 0.5]\nloss_options = { gamma = 1.5 }", false, &of_classes, 0.8055155786389658, Some(1)),
            ("loss = \"nll\"", false, &of_classes, 0.0, Some(1)),
            ("loss = \"multi_margin\"", false, &of_classes, 1.1666666666666667, Some(1)),
            ("loss = \"bce_with_logits\"", true, &flags, 1.241359204578868, Some(2)),
            ("loss = \"bce_with_logits\"", false, &flags, 1.241359204578868, Some(2)),
            ("loss = \"bce_with_logits\"\nloss_options = { pos_weight = 3 }", true, &flags, 1.5574105273656056, Some(2)),
            ("loss = \"bce\"", true, &(column([0.9, 0.2, 0.4]), row([1.0, 0.0, 0.0])), 0.2797765635793423, Some(3)),
            ("loss = \"soft_margin\"", true, &flags, 1.241359204578867, Some(2)),
            ("", true, &numbers, 2.9166666666666665, None),
            ("loss = \"l1\"", true, &numbers, 1.5, None),
            ("loss = \"smooth_l1\"", true, &numbers, 1.0416666666666667, None),
            ("loss = \"smooth_l1\"\nloss_options = { beta = 2.0 }", true, &numbers, 0.7083333333333334, None),
            ("loss = \"huber\"\nloss_options = { delta = 2.0 }", true, &numbers, 1.4166666666666667, None),
            ("loss = \"kl_div\"", true, &(flat(&logs, 2), flat(&[0.5, 0.5, 0.1, 0.9], 2)), 0.29560387924135345, None),
            ("loss = \"poisson_nll\"", true, &(column([0.5, -1.5, 3.0]), row([2.0, 0.0, 1.0])), 5.985796118012075, None),
            ("loss = \"gaussian_nll\"", true, &(flat(&[0.5, 0.2, -1.5, -0.3, 3.0, 1.0], 2), row([1.0, 0.0, 0.5])), 1.0735185854395028, None),
        ];
        for (text, is_numbers, (outputs, targets), want, right) in cases {
            let objective = objective(text, is_numbers).unwrap();
            let got = objective.loss(outputs, targets).unwrap().item::<f64>().unwrap();
            assert!((got - want).abs() < 1e-9, "{text}: {got}, not {want}");
            let judged = objective.judge(outputs, targets).unwrap();
            let answered = judged.answers.map(|a| a.iter().zip(&judged.targets).filter(|(a, t)| a == t).count());
            assert_eq!(answered, right, "{text}");
            if !text.contains("weight") && !text.contains("smoothing") && !text.contains("gamma") {
                let mean = judged.losses.iter().sum::<f64>() / judged.losses.len() as f64;
                assert!((mean - want).abs() < 1e-9, "{text}: judged {mean}, not {want}");
            }
            // It is learned by: the gradient is that of differences.
            let leaf = Linear::new(1, 1).unwrap();
            let moved = |x: f64| objective.loss(&(outputs * x), targets).unwrap().item::<f64>().unwrap();
            let weight = &leaf.named_parameters()[0].1;
            weight.cast(adamant_core::DType::F64).unwrap();
            weight.set(&Tensor::full_on([1, 1], 1.0, adamant_core::DType::F64, Device::reference())).unwrap();
            let grads = objective.loss(&(outputs * weight.get().reshape([1])), targets).unwrap().backward().unwrap();
            let (got, want) = (grads.of(&weight.cell()).unwrap().to_vec::<f64>().unwrap()[0], (moved(1.0 + 1e-6) - moved(1.0 - 1e-6)) / 2e-6);
            assert!((got - want).abs() < 1e-4 * (1.0 + want.abs()), "{text}: gradient {got}, not {want}");
        }
        // scikit-learn's compute_class_weight("balanced") of 1, 2 and 5 rows.
        let balanced = objective("class_weights = \"balanced\"", false).unwrap();
        assert!(balanced.counts_classes() && balanced.balanced(&[1, 2, 5]).weighs() == Some(3));
    });
}

const RUN: &str = r#"seed = 3
epochs = 2
batch = 8
[data]
kind = "csv"
path = "table.csv"
label = 4
classes = 2
test = { modulo = 5, equals = 4 }
[model]
layers = [
    { name = "stem", kind = "Linear", in_features = 4, out_features = 6 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 6, out_features = 2 },
]
[optimizer]
kind = "AdamW"
lr = 0.05
"#;
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let row = |r: usize| format!("{},{},{},{},{}\n", r % 7, (r * 3) % 5, r % 2, (r * 11) % 13, usize::from(r % 6 == 0));
    fs::write(place.path().join("table.csv"), (0..60).map(row).collect::<String>()).unwrap();
    place
}
fn train(text: &str, place: &Path, run: Option<&str>) -> Result<Report, Failure> {
    let document = Document::parse("run.toml", text)?;
    Device::reference().scoped(|| {
        let made = Run::new(&document).data(place);
        match run {
            Some(run) => made.folder(place.join(run)).train(&mut ()),
            None => made.train(&mut ()),
        }
    })
}
#[test]
fn a_key_of_training_whose_fault_has_no_line_or_no_advice() {
    let place = place();
    let cases = [
        (
            "early_stopping = { patience = 2, monitor = \"valid_loss\" }",
            "run.toml:4: `early_stopping.monitor`: `valid_loss` needs a validation part: say `data.valid = 0.1`, or watch `train_loss`",
        ),
        ("early_stopping = { mode = \"up\" }", "run.toml:4: `early_stopping.mode`: there is no `up`; there are min, max"),
        ("early_stopping = { min_delta = -1 }", "run.toml:4: `early_stopping.min_delta`: the least improvement is a number from 0 on"),
        ("early_stopping = { patiense = 1 }", "run.toml:4: unknown key `early_stopping.patiense`; did you mean `patience`?"),
        ("ema = { decay = 1.5 }", "run.toml:4: `ema.decay`: it is from 0 to below 1, as 0.999"),
        ("quantize = { scheme = \"int8-sttic\" }", "run.toml:4: `quantize.scheme`: there is no `int8-sttic`; did you mean `int8-static`?"),
        ("quantize = { bits = 4 }", "run.toml:4: `quantize.scheme` is missing"),
        ("quantize = { scheme = \"w4\", bits = 5 }", "run.toml:4: `quantize.bits`: codes have 8, 4 or 3 bits"),
        ("quantize = { scheme = \"w4\", group = 0 }", "run.toml:4: `quantize.group`: at least one column shares a scale"),
        (
            "quantize = { scheme = \"w4\", group = 5 }",
            "run.toml:4: `quantize`: the layer `stem`: `stem.weight`: rows of 4 columns cannot be cut into groups of 5",
        ),
        ("quantize = { scheme = \"w4\", skip = [\"haed\"] }", "run.toml:4: `quantize`: there is no layer `haed` in the model; the nearest one is `head`"),
        (
            "quantize = { scheme = \"w4\", freeze_obsrvers_after = 5 }",
            "run.toml:4: unknown key `quantize.freeze_obsrvers_after`; did you mean `freeze_observers_after`?",
        ),
        ("quantize = { scheme = \"int8-static\", freeze_observers_after = 0 }", "run.toml:4: `quantize.freeze_observers_after`: at least one step observes"),
        ("freeze = [\"steam\"]", "run.toml:4: `freeze`: `steam` is the name of no parameter and of no layer; did you mean `stem`?"),
        ("freeze = [\"*\"]", "run.toml:4: `freeze`: every parameter is frozen: nothing is left to be trained"),
        ("loss = \"focl\"", "run.toml:4: `loss`: there is no `focl`; did you mean `focal`?"),
        (
            "loss = \"huber\"",
            "run.toml:4: `loss`: the targets are classes; their losses are cross_entropy, focal, nll, multi_margin, bce_with_logits, bce, soft_margin",
        ),
        ("loss = \"focal\"\nloss_options = { gamma = -1 }", "run.toml:5: `loss_options.gamma`: -1 is no number from 0"),
        ("loss_options = { gama = 1 }", "run.toml:4: unknown key `loss_options.gama`"),
        ("class_weights = [1, 2, 3]", "run.toml:4: `class_weights`: 3 weights for 2 classes"),
        ("class_weights = \"equal\"", "run.toml:4: `class_weights`: there is no `equal`; say \"balanced\", or a list of weights"),
        ("init_from = { path = \"gone.safetensors\" }", "run.toml:4: `init_from.path`: gone.safetensors is no file of weights"),
        ("schedule = { kind = \"ReduceLROnPlateau\", factor = 2 }", "run.toml:4: `schedule.factor`: the rate falls only by a factor below 1"),
        (
            "schedule = { kind = \"CosineAnnealingLR\", on_extend = \"wait\" }",
            "run.toml:4: `schedule.on_extend`: there is no `wait`; there are refuse, stretch, hold",
        ),
        ("schedule = { kind = \"CyclicLR\", base_lr = 0.1, max_lr = 0.2, mode = \"circular\" }", "run.toml:4: `schedule.mode`: there is no `circular`"),
        ("schedule = { kind = \"OneCycleLR\", max_lr = 0.2, max_momentum = 1.5 }", "run.toml:4: `schedule.max_momentum`: a momentum is from 0 to below 1"),
    ];
    for (line, says) in cases {
        let text = RUN.replace("batch = 8\n", &format!("batch = 8\n{line}\n"));
        let failure = train(&text, place.path(), None).unwrap_err();
        assert!(failure.to_string().starts_with(says), "\n got: {failure}\nwant: {says}");
        let document = Document::parse("run.toml", &text).unwrap();
        let found = Device::reference().scoped(|| validate(&document, place.path()));
        assert!(found.faults.iter().any(|f| f.to_string().starts_with(says)), "{line}: {:?}", found.faults);
    }
    for (line, says) in [
        ("groups = [{ parameters = [\"tail\"] }]", "`optimizer.groups`: `tail` is the name of no parameter"),
        ("groups = [{ lr = 0.1 }]", "`optimizer.groups.0.parameters` is missing"),
        ("groups = [{ parameters = [\"head\"], momentum = 0.1 }]", "unknown key `optimizer.groups.0.momentum`"),
    ] {
        let failure = train(&format!("{RUN}{line}\n"), place.path(), None).unwrap_err();
        assert!(failure.to_string().contains(says), "{failure}");
    }
}
#[test]
fn parameters_that_are_frozen_grouped_or_taken_over_otherwise_than_they_should_be() {
    let place = place();
    let weights = |run: &str| {
        let file = adamant_formats::safetensors::SafeTensors::open(place.path().join(run).join("weights.safetensors")).unwrap();
        Device::reference().scoped(|| {
            file.names().into_iter().map(|n| (n.clone(), file.tensor(&n, Device::reference()).unwrap().to_vec::<f32>().unwrap())).collect::<Vec<_>>()
        })
    };
    train(RUN, place.path(), Some("plain")).unwrap();
    let from = place.path().join("plain/weights.safetensors").display().to_string();
    let init = format!("batch = 8\ninit_from = {{ path = '{from}', skip = [\"head\"] }}\nfreeze = [\"stem\"]\n");
    train(&RUN.replace("batch = 8\n", &init), place.path(), Some("frozen")).unwrap();
    let (plain, frozen) = (weights("plain"), weights("frozen"));
    for ((name, before), (_, after)) in plain.iter().zip(&frozen) {
        assert_eq!(before == after, name.starts_with("stem"), "{name}");
    }
    // A group whose rate is 0 stays as it began.
    train(&format!("{RUN}groups = [{{ parameters = [\"stem\"], lr = 0.0, weight_decay = 0.0 }}]\n"), place.path(), Some("grouped")).unwrap();
    Device::reference().scoped(|| {
        adamant_nn::manual_seed(3);
        let fresh = Sequential::new().add(Linear::new(4, 6).unwrap());
        let first: Vec<f32> = fresh.named_parameters()[0].1.detached().to_vec().unwrap();
        let grouped = weights("grouped");
        assert_eq!(grouped.iter().find(|(n, _)| n == "stem.weight").unwrap().1, first);
        assert_ne!(grouped.iter().find(|(n, _)| n == "head.weight"), plain.iter().find(|(n, _)| n == "head.weight"));
    });
}
#[test]
fn a_training_that_early_stopping_weights_and_changed_images_do_not_reach() {
    let place = place();
    let stopping = "batch = 8\nearly_stopping = { patience = 1, monitor = \"train_loss\", min_delta = 10.0, restore_best = true }\n";
    let stopped = train(&RUN.replace("epochs = 2", "epochs = 40").replace("batch = 8\n", stopping), place.path(), Some("stopped")).unwrap();
    assert_eq!(stopped.losses.len(), 3, "{:?}", stopped.stopped);
    assert!(stopped.stopped.unwrap().starts_with("train_loss has not improved for 2 validations"));
    let (plain, balanced) =
        (train(RUN, place.path(), None).unwrap(), train(&RUN.replace("batch = 8\n", "batch = 8\nclass_weights = \"balanced\"\n"), place.path(), None).unwrap());
    assert_ne!(plain.losses, balanced.losses);
    // The four columns as an image of 2 x 2: changed while it is learned from, and by nothing but seed, epoch and record.
    let augment =
        |workers: usize| RUN.replace("[data]\n", &format!("[data]\nworkers = {workers}\naugment = {{ horizontal_flip = 0.5, crop = 1, shape = [1, 2, 2] }}\n"));
    let (here, there) = (train(&augment(0), place.path(), None).unwrap(), train(&augment(2), place.path(), None).unwrap());
    assert_eq!((here.losses.clone(), here.test.loss), (there.losses, there.test.loss));
    assert_ne!(here.losses, plain.losses);
    let failure = train(&RUN.replace("[data]\n", "[data]\naugment = { horizontal_flip = 0.5 }\n"), place.path(), None).unwrap_err();
    assert!(failure.to_string().contains("`data.augment.shape = [channels, height, width]`"), "{failure}");
}
