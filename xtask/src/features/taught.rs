//! Rows about students of a teacher, and about everything that makes a model smaller, together.
use super::{
    CheckCost, Checked, RowCheck, Seen,
    digits::{self, Digits},
    plant, planted,
};
use adamant::{
    Result, Tensor,
    functional::{self, CrossEntropyOptions},
    grad::no_grad,
    nn::{Conv2d, ConvOptions, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, Unflatten, Walk, init, manual_seed},
    quant::{
        LayerKind, QatOptions, QuantizationConfig, convert,
        distill::{Distiller, FeatureLoss, attention_loss},
        observe::Observation,
        prepare_qat,
        prune::{PruneImportance, Pruner, StructuredPruner},
    },
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.34",
        target: "Distiller: teacher_forward without a graph, distillation_loss = α·T²·KL + (1-α)·CE as on the host, no gradient and no change of the teacher; a student with few labels gains a point by it",
        cost: CheckCost::Cheap,
        check: distilled,
        plants: &[
            plant("a loss of T and not T²", "the loss"),
            plant("a teacher that is trained", "the teacher untouched"),
            plant("the teacher's outputs of the next image", "a point gained"),
        ],
    },
    RowCheck {
        id: "B0.06",
        target: "pruning by magnitude, by gradient, of all layers together and of channels takes the least; training with codes in mind ends as it was converted; losses of responses, features and attention are those of the host",
        cost: CheckCost::Cheap,
        check: compressed,
        plants: &[
            plant("a weight that is not the least", "magnitude"),
            plant("gradients of another sign", "gradient"),
            plant("each layer for itself", "global"),
            plant("a filter that is not the least", "structured"),
            plant("codes that are moved by one step", "converted = trained"),
            plant("features times 1.001", "feature"),
            plant("attention of other places", "attention"),
        ],
    },
];
const TEMPERATURE: f64 = 4.0;
const ALPHA: f64 = 0.9;
/// Images with a label that the student is told.
const LABELLED: usize = 60;

fn teacher() -> Result<Sequential> {
    let same = || ConvOptions { padding: 1.into(), ..Default::default() };
    let net = Sequential::new().add(Unflatten::new(1, [1, 8, 8])).add(Conv2d::with(1, 16, 3, same())?).add(Relu::new());
    let net = net.add(Conv2d::with(16, 32, 3, same())?).add(Relu::new()).add(MaxPool2d::new(2)).add(Flatten::new());
    Ok(net.add(Linear::new(512, 64)?).add(Relu::new()).add(Linear::new(64, 10)?))
}
fn student(seed: u64) -> Result<Sequential> {
    manual_seed(seed);
    Ok(Sequential::new().add(Linear::new(64, 32)?).add(Relu::new()).add(Linear::new(32, 10)?))
}
fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    Ok(t.to_vec_as::<f32>()?.into_iter().map(f64::from).collect())
}
/// Softmax of logits of one row, divided by a temperature.
fn softmax(row: &[f64], temperature: f64) -> Vec<f64> {
    let most = row.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v));
    let all: Vec<f64> = row.iter().map(|v| ((v - most) / temperature).exp()).collect();
    let sum: f64 = all.iter().sum();
    all.into_iter().map(|v| v / sum).collect()
}
/// α·T²·KL(teacher ‖ student) + (1-α)·CE, in f64.
fn host_loss(student: &[f64], teacher: &[f64], classes: &[i64]) -> f64 {
    let rows = classes.len();
    let counts = if planted("a loss of T and not T²") { TEMPERATURE } else { TEMPERATURE * TEMPERATURE };
    let (mut soft, mut hard) = (0.0, 0.0);
    for (k, class) in classes.iter().enumerate() {
        let (own, taught) = (&student[10 * k..10 * (k + 1)], &teacher[10 * k..10 * (k + 1)]);
        let (p, q) = (softmax(taught, TEMPERATURE), softmax(own, TEMPERATURE));
        soft += p.iter().zip(&q).map(|(p, q)| p * (p.ln() - q.ln())).sum::<f64>();
        hard -= softmax(own, 1.0)[*class as usize].ln();
    }
    (ALPHA * counts * soft + (1.0 - ALPHA) * hard) / rows as f64
}
fn distilled() -> Checked {
    manual_seed(34);
    let (digits, model) = (Digits::read()?, teacher()?);
    digits::train(&model, &digits.train, 6, 2e-3)?;
    let of_teacher = digits::accuracy(&model, &digits.test)?;
    model.train();
    let bytes = |m: &Sequential| m.state_dict().iter().map(|(_, t)| t.to_bytes()).collect::<Result<Vec<_>>>();
    let before = bytes(&model)?;
    let distiller = Distiller::new(model, TEMPERATURE)?.alpha(ALPHA)?;
    let taught = distiller.teacher_forward(&digits.train.images)?;
    let taught = if planted("the teacher's outputs of the next image") {
        Tensor::cat(&[taught.narrow(0, 1, digits.train.count - 1), taught.narrow(0, 0, 1)], 0).ok()?
    } else {
        taught
    };
    taught.materialize()?;
    // The loss of a few rows, and where its gradients go.
    let (x, classes) = digits.train.rows(&(0..32).collect::<Vec<i64>>());
    let one = student(1)?;
    let outputs = one.forward(&x)?;
    let taught_here = distiller.teacher_forward(&x)?;
    let loss = distiller.distillation_loss(&outputs, &taught_here, &classes)?;
    let wanted = host_loss(&numbers(&outputs.detach())?, &numbers(&taught_here)?, &classes.to_vec_as::<i64>()?);
    let off = (loss.item::<f64>()? - wanted).abs() / wanted;
    let grads = loss.backward()?;
    let no_gradient = !taught_here.is_tracked() && distiller.teacher().parameters().iter().all(|p| grads.of(&p.cell()).is_none());
    if planted("a teacher that is trained") {
        digits::train(distiller.teacher(), &digits.train.first(64), 1, 1e-3)?;
    }
    let (mut alone, mut with) = (0.0, 0.0);
    const SEEDS: u64 = 3;
    for seed in 1..=SEEDS {
        let (plain, learning) = (student(seed)?, student(seed)?);
        let labelled = digits.train.first(LABELLED);
        digits::train(&plain, &labelled, 300, 4e-3)?;
        digits::train_by(&learning, &digits.train, 12, 4e-3, &|outputs, classes, rows| {
            let soft = distiller.soft_loss(outputs, &taught.index_select(0, &Tensor::from_slice(rows, [rows.len()])))?;
            // Only those with a label have a class that the student is told.
            let told: Vec<i64> = (0..rows.len() as i64).filter(|k| rows[*k as usize] < LABELLED as i64).collect();
            if told.is_empty() {
                return (soft * ALPHA).ok();
            }
            let at = Tensor::from_slice(&told, [told.len()]);
            let hard = functional::cross_entropy(&outputs.index_select(0, &at), &classes.index_select(0, &at), &CrossEntropyOptions::default());
            (soft * ALPHA + hard * (1.0 - ALPHA)).ok()
        })?;
        alone += digits::accuracy(&plain, &digits.test)? / SEEDS as f64;
        with += digits::accuracy(&learning, &digits.test)? / SEEDS as f64;
    }
    let untouched = no_gradient && bytes(distiller.teacher())? == before && distiller.teacher().is_training() != planted("a teacher that is trained");
    Ok(Seen::all(
        &[("the loss", off <= 1e-5), ("the teacher untouched", untouched), ("a point gained", with - alone >= 1.0)],
        format!("loss {off:.1e} off, {alone:.2} % by {LABELLED} labels, {with:.2} % with a teacher of {of_teacher:.2} %, mean of {SEEDS} seeds"),
    ))
}

/// Is what went the least by what it is worth?
fn least_went(worth: &[f64], left: &[f64]) -> bool {
    let gone = worth.iter().zip(left).filter(|(_, v)| **v == 0.0).fold(0.0f64, |m, (w, _)| m.max(*w));
    let kept = worth.iter().zip(left).filter(|(_, v)| **v != 0.0).fold(f64::INFINITY, |m, (w, _)| m.min(*w));
    gone <= kept && left.contains(&0.0)
}
fn weights(model: &Sequential) -> Result<[Vec<f64>; 2]> {
    let of = |path: &str| -> Result<Vec<f64>> {
        let module = model.get_submodule(path)?;
        let param = module.parameter("weight").cloned();
        param.map_or(Ok(Vec::new()), |p| numbers(&p.detached()))
    };
    Ok([of("0")?, of("2")?])
}
/// Weights of a student before and behind pruning by a pruner, with what each is worth.
fn pruned(pruner: &Pruner, by_gradients: bool, share: f64) -> Result<([Vec<f64>; 2], [Vec<f64>; 2])> {
    let model = student(6)?;
    let x = init::normal([40, 64], 0.0, 1.0)?;
    let before = weights(&model)?;
    let grads = model.forward(&x)?.square().mean(..).backward()?;
    let worth = if by_gradients {
        let gradient = |path: &str| -> Result<Vec<f64>> {
            let module = model.get_submodule(path)?;
            let found = module.parameter("weight").and_then(|p| grads.of(&p.cell()).cloned());
            found.map_or(Ok(Vec::new()), |g| numbers(&g))
        };
        let times = |w: &[f64], g: Vec<f64>| w.iter().zip(g).map(|(w, g)| (w * g).abs()).collect::<Vec<f64>>();
        [times(&before[0], gradient("0")?), times(&before[1], gradient("2")?)]
    } else {
        before.clone().map(|layer| layer.into_iter().map(f64::abs).collect())
    };
    let masked = if by_gradients { pruner.prune_by(&model, share, &grads)? } else { pruner.prune(&model, share)? };
    masked.remove()?;
    Ok((worth, weights(&model)?))
}
fn compressed() -> Checked {
    // Pruning of single weights.
    let (worth, mut left) = pruned(&Pruner::new(PruneImportance::Magnitude), false, 0.6)?;
    if planted("a weight that is not the least")
        && let Some(largest) = worth[0].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(k, _)| k)
    {
        left[0][largest] = 0.0;
    }
    let magnitude = (0..2).all(|k| least_went(&worth[k], &left[k]));
    let (mut worth, left) = pruned(&Pruner::new(PruneImportance::Gradient), true, 0.6)?;
    if planted("gradients of another sign") {
        worth[0].iter_mut().for_each(|w| *w = -*w);
    }
    let gradient = (0..2).all(|k| least_went(&worth[k], &left[k]));
    let all = Pruner::new(PruneImportance::Magnitude);
    let (worth, left) = pruned(&if planted("each layer for itself") { all } else { all.global() }, false, 0.6)?;
    let global = least_went(&worth.concat(), &left.concat());
    let (least, filters) = least_filters()?;
    let (converted, layers) = converted()?;
    let (feature, attention) = inner_losses()?;
    Ok(Seen::all(
        &[
            ("magnitude", magnitude),
            ("gradient", gradient),
            ("global", global),
            ("structured", least),
            ("converted = trained", converted),
            ("feature", feature <= 1e-5),
            ("attention", attention <= 1e-5),
        ],
        format!("60 % of weights and {filters} of 32 units went, {layers} layers converted, features {feature:.1e} and attention {attention:.1e} off"),
    ))
}
/// Did the units go whose rows have the least sums of `|w|`?
fn least_filters() -> Result<(bool, usize)> {
    let model = student(7)?;
    let rows: Vec<f64> = weights(&model)?[0].chunks(64).map(|row| row.iter().map(|w| w.abs()).sum()).collect();
    let pruner = StructuredPruner::new(0.5)?;
    let importance = pruner.compute_importance(&model, &Tensor::ones([1, 64]))?;
    let report = pruner.prune(&model, &importance)?;
    let mut gone = report.removed.get(&("0.weight".to_string(), 0)).cloned().unwrap_or_default();
    if planted("a filter that is not the least")
        && let Some(first) = gone.first_mut()
    {
        *first = (0..32).max_by(|a, b| rows[*a].total_cmp(&rows[*b])).unwrap_or(0);
    }
    let most = gone.iter().map(|k| rows[*k]).fold(0.0, f64::max);
    let kept = (0..rows.len()).filter(|k| !gone.contains(k)).map(|k| rows[k]).fold(f64::INFINITY, f64::min);
    Ok((most <= kept && gone.len() == 16 && model.get_submodule("2")?.parameter("weight").is_some_and(|w| w.meta().shape[1] == 16), gone.len()))
}
/// A model that learns with its codes in mind, with observers of inputs: the converted one answers as it did.
fn converted() -> std::result::Result<(bool, usize), Box<dyn std::error::Error>> {
    let (digits, model) = (Digits::read()?, student(8)?);
    let config =
        QuantizationConfig::with(adamant::quant::LayerScheme::int8(adamant::quant::InputScheme::Calibrated(Observation::MinMax))).kinds(&[LayerKind::Linear]);
    prepare_qat(&model, &config, QatOptions::default())?;
    digits::train(&model, &digits.train, 4, 4e-3)?;
    let trained = no_grad(|| model.forward(&digits.test.images))?;
    trained.materialize()?;
    let right = digits::accuracy(&model, &digits.test)?;
    let report = convert(&model)?;
    for (_, scale) in model.named_buffers().iter().filter(|(name, _)| planted("codes that are moved by one step") && name.ends_with("weight_scale")) {
        scale.set(&(scale.detached() * 1.1))?;
    }
    let codes = no_grad(|| model.forward(&digits.test.images))?;
    let apart = (&codes - &trained).abs().max().item::<f32>()? / trained.abs().max().item::<f32>()?;
    Ok((apart <= 0.01 && right >= 85.0, report.quantized().count()))
}
/// How far losses of features and of attention are from the host's.
fn inner_losses() -> Result<(f64, f64)> {
    manual_seed(9);
    let (own, taught) = (init::normal([3, 4, 5, 5], 0.0, 1.0)?, init::normal([3, 6, 5, 5], 0.0, 1.0)?);
    let loss = FeatureLoss::projected(4, 6, 1)?;
    let map = loss.named_parameters().first().map(|(_, p)| p.detached()).map_or(Ok(Vec::new()), |m| numbers(&m))?;
    let (a, mut b) = (numbers(&own)?, numbers(&taught)?);
    let got = loss.forward(&own, &taught)?.item::<f64>()?;
    if planted("features times 1.001") {
        b.iter_mut().for_each(|v| *v *= 1.001);
    }
    let mut sum = 0.0;
    for (n, to, at) in (0..3 * 6 * 25).map(|k| (k / 150, k / 25 % 6, k % 25)) {
        let mapped: f64 = (0..4).map(|from| map[to * 4 + from] * a[(n * 4 + from) * 25 + at]).sum();
        sum += (mapped - b[(n * 6 + to) * 25 + at]).powi(2);
    }
    let wanted = sum / 450.0;
    let b = numbers(&taught)?;
    let places = |values: &[f64], channels: usize| -> Vec<f64> {
        let mut all = Vec::new();
        for n in 0..3 {
            let row: Vec<f64> = (0..25).map(|at| (0..channels).map(|c| values[(n * channels + c) * 25 + at].powi(2)).sum::<f64>() / channels as f64).collect();
            let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
            all.extend(row.into_iter().map(|v| v / norm));
        }
        all
    };
    let (left, mut right) = (places(&a, 4), places(&b, 6));
    if planted("attention of other places") {
        right.reverse();
    }
    let attention = left.iter().zip(&right).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 75.0;
    let seen = attention_loss(&own, &taught)?.item::<f64>()?;
    Ok(((got - wanted).abs() / wanted, (seen - attention).abs() / attention))
}
