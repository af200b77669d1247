//! Healthy runs, drawn; and faults that are planted into them, each with what doctor must say and what its remedy comes to.
use super::net::{CauseRun, DataFault, NetLayer, OwnOp, TaskCourse, TaskData, TaskKind, WeightEdit};
use adamant_conformance::random::Random;
use adamant_train::{PrecisionMode, doctor::RootCause};

/// What a fault does, where the numbers that were drawn may be harmless.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SeenHarm {
    Any,
    /// it has not learned in the end
    Unlearned,
    /// its loss rises in the first steps alone, and with the remedy it does not
    Rises,
}
/// A run with a fault.
pub struct PlantedCause {
    pub cause: RootCause,
    pub run: CauseRun,
    /// the layer that must be named; none: none
    pub layer: Option<String>,
    /// the step that must be named
    pub step: u64,
    /// what must be seen of the run, whoever looks: else nothing is wrong with it
    pub harm: SeenHarm,
    /// the run as the remedy's words have it, where they are no keys
    pub mended: CauseRun,
}
/// A healthy run of any kind.
pub fn healthy(random: &mut Random) -> CauseRun {
    match random.below(6) {
        0 | 1 => rows(random),
        2 => images(random),
        3 => sequences(random),
        4 => symbols(random),
        _ => numbers(random),
    }
}
fn course(random: &mut Random, adam: bool) -> TaskCourse {
    let lr = if adam { *random.pick(&[1e-3, 2e-3, 4e-3]) } else { *random.pick(&[0.02, 0.05, 0.1]) };
    TaskCourse {
        adam,
        lr,
        weight_decay: *random.pick(&[0.0, 1e-4, 1e-2]) * if adam { 1.0 } else { 0.01 },
        clip: if random.one_in(3) { Some(1.0) } else { None },
        warm_up: if random.one_in(3) { Some(30) } else { None },
        batch: *random.pick(&[16, 32, 64]),
        steps: 240,
        mode: PrecisionMode::F32,
        scaler: true,
        loss_scale: 1.0,
        skips: false,
    }
}
fn data(random: &mut Random, kind: TaskKind, width: usize, classes: usize) -> TaskData {
    TaskData { kind, seed: random.bits(), rows: 1600, width, classes, fault: DataFault::default() }
}
fn activation(random: &mut Random) -> NetLayer {
    *random.pick(&[NetLayer::Relu, NetLayer::Gelu, NetLayer::Tanh])
}
/// A net of hidden layers of this many units.
fn stacked(random: &mut Random, input: usize, depth: usize, output: usize) -> Vec<NetLayer> {
    let mut layers = Vec::new();
    let mut at = input;
    let (act, normed, dropped) = (activation(random), random.one_in(3), random.one_in(3));
    for _ in 0..depth {
        let width = *random.pick(&[32, 48, 64]);
        layers.push(NetLayer::Linear(at, width));
        if normed {
            layers.push(NetLayer::Norm(width));
        }
        layers.push(act);
        at = width;
    }
    if dropped {
        layers.push(NetLayer::Dropout(*random.pick(&[0.1, 0.2, 0.5])));
    }
    layers.push(NetLayer::Linear(at, output));
    layers
}
fn rows(random: &mut Random) -> CauseRun {
    let (width, classes, adam) = (random.between(16, 32), random.between(3, 8), random.one_in(2));
    let depth = random.between(1, 3);
    let layers = stacked(random, width, depth, classes);
    CauseRun { seed: random.bits(), data: data(random, TaskKind::Rows, width, classes), layers, edits: Vec::new(), course: course(random, adam) }
}
fn numbers(random: &mut Random) -> CauseRun {
    let (width, depth) = (random.between(8, 24), random.between(1, 3));
    let layers = stacked(random, width, depth, 1);
    CauseRun { seed: random.bits(), data: data(random, TaskKind::Numbers, width, 2), layers, edits: Vec::new(), course: course(random, true) }
}
fn images(random: &mut Random) -> CauseRun {
    let (classes, channels) = (random.between(3, 8), *random.pick(&[4, 8]));
    let mut layers = vec![NetLayer::Conv(1, channels), NetLayer::BatchNorm(channels), NetLayer::Relu];
    if random.one_in(2) {
        layers.extend([NetLayer::Conv(channels, channels), NetLayer::BatchNorm(channels), NetLayer::Relu]);
    }
    layers.extend([NetLayer::Flatten, NetLayer::Linear(channels * 64, classes)]);
    let adam = random.one_in(2);
    CauseRun { seed: random.bits(), data: data(random, TaskKind::Images, 1, classes), layers, edits: Vec::new(), course: course(random, adam) }
}
fn sequences(random: &mut Random) -> CauseRun {
    let (width, classes, hidden) = (random.between(6, 12), random.between(3, 6), *random.pick(&[12, 24]));
    let first = if random.one_in(2) { NetLayer::Lstm(width, hidden) } else { NetLayer::Gru(width, hidden) };
    let course = TaskCourse { lr: 4e-3, ..course(random, true) };
    CauseRun {
        seed: random.bits(),
        data: data(random, TaskKind::Sequences, width, classes),
        layers: vec![first, NetLayer::Linear(hidden, classes)],
        edits: Vec::new(),
        course,
    }
}
fn symbols(random: &mut Random) -> CauseRun {
    let (many, width) = (random.between(8, 16), *random.pick(&[16, 32]));
    let mut layers = vec![NetLayer::Embedding(many, width)];
    layers.extend(std::iter::repeat_n(NetLayer::Encoder(width), random.between(1, 2)));
    layers.push(NetLayer::Linear(width, many));
    CauseRun { seed: random.bits(), data: data(random, TaskKind::Symbols, many, many), layers, edits: Vec::new(), course: course(random, true) }
}
/// Where layers of a kind stand.
fn places(layers: &[NetLayer], is: impl Fn(&NetLayer) -> bool) -> Vec<usize> {
    (0..layers.len()).filter(|k| is(&layers[*k])).collect()
}
fn is_linear(layer: &NetLayer) -> bool {
    matches!(layer, NetLayer::Linear(..))
}
/// Rows with an own layer behind the first: a record makes it go wrong.
fn with_own(random: &mut Random, op: OwnOp, value: f64) -> (CauseRun, CauseRun, u64) {
    let (width, classes) = (random.between(16, 24), random.between(3, 6));
    let hidden = 32;
    let mut run = rows(random);
    run.course = TaskCourse { warm_up: None, ..course(random, true) };
    run.data = data(random, TaskKind::Rows, width, classes);
    let layers = |mended: bool| {
        vec![
            NetLayer::Unbiased(width, hidden),
            NetLayer::Own(op, mended),
            NetLayer::Norm(hidden),
            NetLayer::Linear(hidden, hidden),
            NetLayer::Gelu,
            NetLayer::Linear(hidden, classes),
        ]
    };
    // Within the first epoch.
    let step = random.between(1, (run.data.rows / run.course.batch).min(60)) as u64;
    let at = (step as usize - 1) * run.course.batch + random.below(run.course.batch);
    run.data.fault.record = Some((at, value, true));
    let faulty = CauseRun { layers: layers(false), ..run.clone() };
    (faulty, CauseRun { layers: layers(true), ..run }, step)
}
/// A deep net without anything that keeps numbers in their range.
fn deep(random: &mut Random, act: NetLayer) -> CauseRun {
    let (width, hidden, depth, classes) = (random.between(16, 24), 32, random.between(12, 20), random.between(3, 6));
    let mut layers = vec![NetLayer::Linear(width, hidden), act];
    (1..depth).for_each(|_| layers.extend([NetLayer::Linear(hidden, hidden), act]));
    layers.push(NetLayer::Linear(hidden, classes));
    let course = TaskCourse { lr: 1e-3, clip: None, ..course(random, true) };
    CauseRun { seed: random.bits(), data: data(random, TaskKind::Rows, width, classes), layers, edits: Vec::new(), course }
}
/// The same net with a norm behind each of its hidden layers.
fn normed(run: &CauseRun, act: NetLayer) -> CauseRun {
    let mut layers = Vec::new();
    for (k, layer) in run.layers.iter().enumerate() {
        match layer {
            NetLayer::Linear(_, n) if k + 1 < run.layers.len() => layers.extend([*layer, NetLayer::Norm(*n), act]),
            NetLayer::Linear(..) => layers.push(*layer),
            _ => {}
        }
    }
    CauseRun { layers, edits: Vec::new(), ..run.clone() }
}
/// A fault of this kind; none where there is no plant of it.
pub fn planted(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    let groups: [fn(RootCause, &mut Random) -> Option<PlantedCause>; 5] = [in_record, in_data, in_weights, in_layers, in_course];
    groups.iter().find_map(|group| group(cause, random))
}
impl PlantedCause {
    fn of(cause: RootCause, run: CauseRun, mended: CauseRun, layer: Option<String>, step: u64) -> Option<PlantedCause> {
        let harm = match cause {
            RootCause::RateTooHigh | RootCause::SmallBatch | RootCause::DecayTooLarge => SeenHarm::Unlearned,
            RootCause::NoWarmUp => SeenHarm::Rises,
            _ => SeenHarm::Any,
        };
        Some(PlantedCause { cause, run, layer, step, harm, mended })
    }
}
/// Rows, and a net of two or three hidden layers.
fn plain(random: &mut Random) -> CauseRun {
    let mut run = rows(random);
    let depth = random.between(2, 3);
    run.layers = stacked(random, run.data.width, depth, run.data.classes);
    run
}
/// A healthy run of any kind but one.
fn healthy_but(random: &mut Random, not: TaskKind) -> CauseRun {
    loop {
        let run = healthy(random);
        if run.data.kind != not {
            return run;
        }
    }
}
fn is_activation(layer: &NetLayer) -> bool {
    matches!(layer, NetLayer::Relu | NetLayer::Gelu | NetLayer::Tanh)
}
/// A record, or what an op makes of one.
fn in_record(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    let own = |random: &mut Random, op: OwnOp, value: f64| {
        let (run, mended, step) = with_own(random, op, value);
        PlantedCause::of(cause, run, mended, Some("1".into()), step)
    };
    match cause {
        RootCause::NonFiniteInput => {
            let mut run = healthy_but(random, TaskKind::Symbols);
            let step = random.between(1, (run.data.rows / run.course.batch).min(60));
            let at = (step - 1) * run.course.batch + random.below(run.course.batch);
            let clean = run.clone();
            run.data.fault.record = Some((at, *random.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), false));
            PlantedCause::of(cause, run, clean, None, step as u64)
        }
        RootCause::MaskedRow => own(random, OwnOp::Masked, 0.0),
        RootCause::LogOfZero => own(random, OwnOp::Log, 0.0),
        RootCause::RootOfZero => own(random, OwnOp::Norm, 0.0),
        RootCause::ZeroOverZero => own(random, OwnOp::Normalize, 0.0),
        RootCause::DivisionByZero => own(random, OwnOp::Inverse, 0.0),
        RootCause::OutOfDomain => own(random, OwnOp::Root, 1e3),
        RootCause::ExpOverflow => own(random, OwnOp::Exp, 1e3),
        _ => None,
    }
}
/// The data.
fn in_data(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    match cause {
        RootCause::UnscaledInput => {
            let mut run = healthy_but(random, TaskKind::Symbols);
            let clean = run.clone();
            run.data.fault.inputs = Some((*random.pick(&[50.0, 255.0, 1000.0]), *random.pick(&[0.0, 100.0])));
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::UnscaledTarget => {
            let mut run = numbers(random);
            let clean = run.clone();
            run.data.fault.targets = Some(*random.pick(&[100.0, 1000.0, 1e4]));
            PlantedCause::of(cause, run, clean, None, 1)
        }
        _ => None,
    }
}
/// Initial weights, and how deep a net is.
fn in_weights(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    match cause {
        RootCause::InitTooLarge => {
            let mut run = plain(random);
            let all = places(&run.layers, |l| matches!(l, NetLayer::Linear(n, _) if *n >= 32));
            let at = *random.pick(&all);
            let clean = run.clone();
            run.edits.push(WeightEdit::Normal(format!("{at}.weight"), *random.pick(&[1.0, 2.0, 4.0])));
            PlantedCause::of(cause, run, clean, Some(at.to_string()), 1)
        }
        RootCause::InitTooSmall => {
            let mut run = plain(random);
            let at = *random.pick(&places(&run.layers, is_linear));
            let clean = run.clone();
            run.edits.push(WeightEdit::Scale(format!("{at}.weight"), *random.pick(&[1e-3, 1e-4, 1e-6])));
            PlantedCause::of(cause, run, clean, Some(at.to_string()), 1)
        }
        RootCause::SymmetricInit => {
            let mut run = plain(random);
            let clean = run.clone();
            let all = places(&run.layers, is_linear);
            let value = *random.pick(&[0.0, 0.01, 0.1]);
            run.edits.extend(all.iter().map(|at| WeightEdit::Fill(format!("{at}.weight"), value)));
            PlantedCause::of(cause, run, clean, Some(all[0].to_string()), 1)
        }
        RootCause::ExplodingDepth => {
            let mut run = deep(random, NetLayer::Relu);
            let mended = normed(&run, NetLayer::Relu);
            let by = *random.pick(&[5.0, 6.0]);
            let all = places(&run.layers, is_linear);
            run.edits.extend(all.iter().map(|at| WeightEdit::Scale(format!("{at}.weight"), by)));
            PlantedCause::of(cause, run, mended, Some("0".into()), 1)
        }
        RootCause::VanishingDepth => {
            let run = deep(random, NetLayer::Sigmoid);
            let mended = normed(&run, NetLayer::Relu);
            PlantedCause::of(cause, run, mended, Some("0".into()), 1)
        }
        _ => None,
    }
}
/// Layers, and what they compute in.
fn in_layers(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    match cause {
        RootCause::F16Overflow | RootCause::F16Underflow => {
            let mut run = plain(random);
            let at = *random.pick(&places(&run.layers, is_activation));
            run.course = TaskCourse { mode: PrecisionMode::F16, adam: true, lr: 2e-3, clip: None, ..run.course };
            if cause == RootCause::F16Underflow {
                (run.course.scaler, run.course.loss_scale) = (false, *random.pick(&[1e-6, 1e-7]));
                let mended = run.clone();
                return PlantedCause::of(cause, run, mended, None, 1);
            }
            let width = run.layers[..at].iter().rev().find_map(|l| if let NetLayer::Linear(_, n) = l { Some(*n) } else { None })?;
            run.layers.splice(at + 1..at + 1, [NetLayer::Own(OwnOp::Large, false), NetLayer::Norm(width)]);
            let mended = run.clone();
            PlantedCause::of(cause, run, mended, Some((at + 1).to_string()), 1)
        }
        RootCause::BatchNormOneRow => {
            let mut run = images(random);
            let clean = run.clone();
            run.course.batch = 1;
            PlantedCause::of(cause, run, clean, Some("1".into()), 1)
        }
        RootCause::DropoutTooHigh => {
            let mut run = plain(random);
            run.layers.retain(|l| !matches!(l, NetLayer::Dropout(_)));
            let at = *random.pick(&places(&run.layers, is_activation));
            let mut mended = run.clone();
            run.layers.insert(at + 1, NetLayer::Dropout(*random.pick(&[0.9, 0.95, 0.98])));
            mended.layers.insert(at + 1, NetLayer::Dropout(0.2));
            PlantedCause::of(cause, run, mended, Some((at + 1).to_string()), 1)
        }
        RootCause::DeadRelu => {
            let mut run = plain(random);
            run.layers.iter_mut().filter(|l| matches!(l, NetLayer::Gelu | NetLayer::Tanh)).for_each(|l| *l = NetLayer::Relu);
            run.layers.retain(|l| !matches!(l, NetLayer::Norm(_)));
            let at = *random.pick(&places(&run.layers, |l| *l == NetLayer::Relu));
            let mut mended = run.clone();
            run.edits.push(WeightEdit::Fill(format!("{}.bias", at - 1), *random.pick(&[-8.0, -20.0, -100.0])));
            mended.layers[at] = NetLayer::LeakyRelu;
            PlantedCause::of(cause, run, mended, Some(at.to_string()), 1)
        }
        RootCause::SaturatedGates => {
            if random.one_in(2) {
                let mut run = sequences(random);
                let clean = run.clone();
                run.edits.push(WeightEdit::Fill("0.bias_ih_l0".into(), *random.pick(&[12.0, 20.0, -12.0])));
                return PlantedCause::of(cause, run, clean, Some("0".into()), 1);
            }
            let mut run = plain(random);
            let act = *random.pick(&[NetLayer::Sigmoid, NetLayer::Tanh]);
            run.layers.retain(|l| !matches!(l, NetLayer::Norm(_)));
            run.layers.iter_mut().filter(|l| matches!(l, NetLayer::Gelu | NetLayer::Relu)).for_each(|l| *l = NetLayer::Tanh);
            let at = *random.pick(&places(&run.layers, |l| *l == NetLayer::Tanh));
            run.layers[at] = act;
            let clean = run.clone();
            run.edits.push(WeightEdit::Fill(format!("{}.bias", at - 1), *random.pick(&[12.0, -12.0, 30.0])));
            PlantedCause::of(cause, run, clean, Some(at.to_string()), 1)
        }
        RootCause::SoftmaxTwice => {
            let mut run = healthy_but(random, TaskKind::Numbers);
            let clean = run.clone();
            run.layers.push(NetLayer::Softmax);
            let at = run.layers.len() - 1;
            PlantedCause::of(cause, run, clean, Some(at.to_string()), 1)
        }
        RootCause::FrozenLayer => {
            let mut run = healthy(random);
            let learns =
                |l: &NetLayer| !matches!(l, NetLayer::Relu | NetLayer::Gelu | NetLayer::Tanh | NetLayer::Flatten | NetLayer::Dropout(_) | NetLayer::Encoder(_));
            let at = *random.pick(&places(&run.layers, learns));
            let clean = run.clone();
            run.edits.push(if random.one_in(2) { WeightEdit::Freeze(at.to_string()) } else { WeightEdit::LeaveOut(at.to_string()) });
            PlantedCause::of(cause, run, clean, Some(at.to_string()), 1)
        }
        _ => None,
    }
}
/// How a run learns.
fn in_course(cause: RootCause, random: &mut Random) -> Option<PlantedCause> {
    match cause {
        RootCause::ClipTooSmall => {
            let mut run = plain(random);
            run.course = course(random, false);
            let clean = run.clone();
            run.course.clip = Some(*random.pick(&[1e-3, 1e-4, 1e-5]));
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::RateTooHigh => {
            let mut run = healthy(random);
            run.course.clip = None;
            run.course.warm_up = None;
            let clean = run.clone();
            run.course.lr *= *random.pick(&[100.0, 300.0, 1000.0]);
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::NoWarmUp => {
            // Wide, and without a norm: the first steps of Adam are as long as they get.
            let mut run = rows(random);
            let (hidden, act) = (*random.pick(&[128, 192, 256]), activation(random));
            run.layers = vec![NetLayer::Linear(run.data.width, hidden), act];
            (0..random.between(1, 2)).for_each(|_| run.layers.extend([NetLayer::Linear(hidden, hidden), act]));
            run.layers.push(NetLayer::Linear(hidden, run.data.classes));
            run.course = TaskCourse { adam: true, lr: *random.pick(&[0.02, 0.03, 0.05]), clip: None, warm_up: None, ..run.course };
            let mended = CauseRun { course: TaskCourse { warm_up: Some(run.course.steps / 5), ..run.course.clone() }, ..run.clone() };
            PlantedCause::of(cause, run, mended, None, 1)
        }
        RootCause::DecayTooLarge => {
            let mut run = healthy(random);
            run.course = TaskCourse { adam: true, lr: 2e-3, ..run.course };
            let clean = run.clone();
            run.course.weight_decay = *random.pick(&[10.0, 30.0, 60.0]);
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::RateTooLow => {
            let mut run = healthy(random);
            let clean = run.clone();
            run.course.lr *= *random.pick(&[1e-4, 1e-5, 1e-6]);
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::SmallBatch => {
            let mut run = plain(random);
            run.course = TaskCourse { lr: *random.pick(&[0.05, 0.1]), ..course(random, false) };
            let clean = run.clone();
            run.course.batch = *random.pick(&[1, 2]);
            PlantedCause::of(cause, run, clean, None, 1)
        }
        RootCause::ShuffledLabels => {
            let mut run = healthy(random);
            let clean = run.clone();
            run.data.fault.shuffled = true;
            PlantedCause::of(cause, run, clean, None, 1)
        }
        _ => None,
    }
}
