//! `cargo xtask faults --n N --seed S`: a bad number planted at a random place of a random training step. It must be found in its step,
//! nothing of the step may be kept, and the trace must name the op, the layer, the line and the part of the step that made it.
//!
//! A case draws a net, an optimizer, clipping, a precision, a step, a part of it, an op of that part, an element and a kind. The plant is an
//! interceptor, so that the op itself gives the bad number, or its rule gives a bad gradient. What became of it is known without the watch: a
//! step without one, which is taken back, has bad numbers in its loss, a gradient or what it writes, or the number has come to nothing (a
//! maximum, a rectifier) and nobody may say anything.
use crate::{
    captured::{SortingTask, TASKS},
    device,
    exit::Exit,
};
use adamant::{
    Arg, Composite, DType, Device, Error, ErrorKind, Grads, HostArray, Op, Outputs, Result, Tensor, TensorType, Types,
    amp::Autocast,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{Linear, Module, Param, Sequential, Site, Walk, manual_seed},
    optim::{AdamW, ClippingOptions, GradientClipper, Optimizer, RmsProp, Sgd, UpdateRule},
    stability::{BadNumber, HandlingType, NanHandler, NanOptions, StepPhase, trace_beyond},
};
use adamant_conformance::random::Random;
use adamant_core::{
    Origin,
    composite::{Compound, Cotangents, HostFunction, RuleArgs, Saves},
    grad::tap,
    intercept::{self, Interceptor},
    scope,
};
use parking_lot::Mutex;
use std::{cell::Cell, collections::BTreeMap, sync::Arc, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu or wgpu:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Planted numbers
    #[arg(long, default_value_t = 200)]
    n: usize,
    /// Another seed draws other ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs without any
    #[arg(long, default_value_t = 10)]
    healthy: usize,
    /// Steps of each of them
    #[arg(long, default_value_t = 100)]
    steps: u64,
    /// One case alone
    #[arg(long)]
    case: Option<u64>,
    /// The watch looks at nothing but the loss: what that misses must be noticed
    #[arg(long)]
    plant: bool,
    /// One JSON document as the last line
    #[arg(long)]
    json: bool,
}
/// Beyond this a finite number is bad, where overflows are planted.
const THRESHOLD: f64 = 1e6;
/// The kinds of bad numbers.
const KINDS: [(&str, f64); 5] = [("NaN", f64::NAN), ("+Inf", f64::INFINITY), ("-Inf", f64::NEG_INFINITY), ("overflow", 3e20), ("overflow", -3e20)];
const PHASES: [StepPhase; 6] = [StepPhase::Data, StepPhase::Forward, StepPhase::Loss, StepPhase::Backward, StepPhase::Clip, StepPhase::Optimizer];

/// `x * sigmoid(x)`, as a user writes it.
#[derive(Clone, Copy, Debug)]
struct UserSwish;
impl Composite for UserSwish {
    fn name(&self) -> &'static str {
        "user.swish"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
}
impl Compound for UserSwish {
    fn body(&self, x: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&x[0] * x[0].sigmoid()])
    }
}
/// The elements backwards, on the host.
#[derive(Clone, Copy, Debug)]
struct Backwards;
impl HostFunction for Backwards {
    fn name(&self) -> &'static str {
        "user.backwards"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
    fn run(&self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind> {
        let (x, n) = (&inputs[0], inputs[0].shape.elements());
        Ok(vec![HostArray::floats(x.shape, x.dtype, (0..n).map(|k| x.float(n - 1 - k)))])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::default())
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(args.cotangents[0].iter().map(|g| Tensor::on_host(Backwards, &[g]).into_iter().next()).collect())
    }
}
#[derive(Module)]
struct UserLayer {
    site: Site,
}
impl Module for UserLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let y = Tensor::composite1(UserSwish, &[x]);
        Tensor::on_host(Backwards, &[&y]).into_iter().next().unwrap_or(y).ok()
    }
}
fn users() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(6, 8)?).add(UserLayer { site: Site::new("UserLayer") }).add(Linear::new(8, 3)?))
}
const USERS: SortingTask = SortingTask { name: "net with a user's ops", input: &[6], classes: 3, symbols: false, sequence: false, net: users };
const ROWS: usize = 3;

/// An op of a step: the part, and which of its ops. Those of the walk back are the ops whose rules it walks through.
#[derive(Clone, Copy, PartialEq, Debug)]
struct PlantedPlace {
    phase: StepPhase,
    op: usize,
}
/// What the planted op is.
#[derive(Clone, Debug)]
struct PlantedOp {
    name: &'static str,
    layer: String,
    line: String,
}
/// Where a step's ops are counted, and where the number is put in.
struct Planter {
    /// nothing is put in: ops are counted
    place: Option<PlantedPlace>,
    value: f64,
    /// of the result's elements, which one, as a share
    share: f64,
    state: Mutex<PlanterState>,
}
#[derive(Default)]
struct PlanterState {
    met: BTreeMap<&'static str, usize>,
    op: Option<PlantedOp>,
}
thread_local! {
    static PHASE: Cell<Option<StepPhase>> = const { Cell::new(None) };
}
fn in_phase<R>(phase: StepPhase, f: impl FnOnce() -> R) -> R {
    let before = PHASE.replace(Some(phase));
    let result = phase.run(f);
    PHASE.set(before);
    result
}
impl Planter {
    fn new(place: Option<PlantedPlace>, value: f64, share: f64) -> Arc<Planter> {
        Arc::new(Planter { place, value, share, state: Mutex::default() })
    }
    /// Counts anew: the step is run once more.
    fn restart(&self) {
        *self.state.lock() = PlanterState::default();
    }
    /// The number of an op in its phase, if it counts.
    fn number(&self, phase: StepPhase) -> usize {
        let mut state = self.state.lock();
        let met = state.met.entry(phase.name()).or_default();
        *met += 1;
        *met - 1
    }
}
/// The tensor with one element replaced.
fn spoiled(x: &Tensor, value: f64, share: f64) -> Result<Tensor> {
    let meta = x.try_meta()?;
    let n = meta.shape.elements();
    let at = ((share * n as f64) as usize).min(n.saturating_sub(1));
    let here = Tensor::from_vec_on((0..n).map(|k| k == at).collect::<Vec<bool>>(), meta.shape, meta.device);
    let value = Tensor::from_vec_on(vec![value], (), Device::reference()).cast(meta.dtype).to(meta.device);
    here.where_(value, x).ok()
}
fn can_be_spoiled(x: &Tensor) -> bool {
    x.try_meta().is_ok_and(|meta| matches!(meta.dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) && meta.shape.elements() > 0)
}
impl Interceptor for Planter {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let origin = Origin::here();
        let name = op.name();
        // What looks is no part of the step, and what moves numbers makes none.
        let passes = name == "adamant.all_finite" || matches!(op, Op::View(_) | Op::Const(_) | Op::StopGrad | Op::Transfer(_) | Op::Bitcast(_));
        let Some(phase) = PHASE.get().filter(|_| !passes && self.state.lock().op.is_none()) else { return next(op, arg, inputs) };
        let told = || PlantedOp { name, layer: scope::path(origin.scope), line: format!("{}:{}", origin.at.file(), origin.at.line()) };
        // Its rule gives the bad gradient.
        let is_walked = matches!(phase, StepPhase::Forward | StepPhase::Loss) && inputs.iter().any(|x| x.is_tracked() && can_be_spoiled(x));
        if is_walked && Some(PlantedPlace { phase: StepPhase::Backward, op: self.number(StepPhase::Backward) }) == self.place {
            let (value, share) = (self.value, self.share);
            let put_in = move |gradients: &[Option<Tensor>]| {
                let first = gradients.iter().position(|g| g.as_ref().is_some_and(can_be_spoiled));
                let each = |(k, g): (usize, &Option<Tensor>)| match g {
                    Some(g) if Some(k) == first => spoiled(g, value, share).map(Some),
                    g => Ok(g.clone()),
                };
                gradients.iter().enumerate().map(each).collect::<Result<Vec<_>>>().map(Some)
            };
            self.state.lock().op = Some(told());
            return match tap(inputs, put_in) {
                Ok(tapped) => next(op, arg, &tapped.iter().collect::<Vec<_>>()),
                Err(_) => next(op, arg, inputs),
            };
        }
        let outputs = next(op, arg, inputs);
        if !outputs.iter().any(can_be_spoiled) || Some(PlantedPlace { phase, op: self.number(phase) }) != self.place {
            return outputs;
        }
        self.state.lock().op = Some(told());
        let first = outputs.iter().position(can_be_spoiled);
        outputs
            .iter()
            .enumerate()
            .map(|(k, x)| if Some(k) == first { spoiled(x, self.value, self.share).unwrap_or_else(|_| x.clone()) } else { x.clone() })
            .collect()
    }
}
/// A net with its data, its optimizer and its region.
struct FaultTask {
    name: &'static str,
    net: Sequential,
    classes: usize,
    optimizer: Box<dyn Optimizer>,
    clipper: Option<GradientClipper>,
    region: Option<Autocast>,
}
type Batch = (Tensor, Tensor);
impl FaultTask {
    fn drawn(random: &mut Random) -> Result<(FaultTask, &'static SortingTask, DType)> {
        let all: Vec<&'static SortingTask> = TASKS.iter().chain([&USERS]).collect();
        let task = *random.pick(&all);
        manual_seed(random.bits());
        let net = (task.net)()?;
        let of = net.parameters();
        let optimizer: Box<dyn Optimizer> = match random.below(4) {
            0 => Box::new(Sgd::new(0.05).over(of)),
            1 => Box::new(Sgd::new(0.05).momentum(0.9).weight_decay(1e-3).over(of)),
            2 => Box::new(RmsProp::new(0.005).over(of)),
            _ => Box::new(AdamW::new(0.01).over(of)),
        };
        let clipper = if random.one_in(2) { Some(GradientClipper::new(ClippingOptions::global_norm(1.0))?) } else { None };
        let dtype = *random.pick(&[DType::F32, DType::BF16, DType::F16]);
        let region = if dtype == DType::F32 { None } else { Some(Autocast::new(dtype)?) };
        Ok((FaultTask { name: task.name, net, classes: task.classes, optimizer, clipper, region }, task, dtype))
    }
    /// The step as a training loop has it. `look` sees the loss and the gradients before clipping.
    fn pass(&mut self, (x, y): &Batch, look: &mut Looking<'_>, saw_loss: &mut dyn FnMut(&Tensor)) -> Result<()> {
        let FaultTask { net, classes, optimizer, clipper, region, .. } = self;
        let forward = || {
            let logits = in_phase(StepPhase::Forward, || net.forward(x))?;
            let logits = logits.reshape([-1, *classes as isize]);
            in_phase(StepPhase::Loss, || cross_entropy(&logits, y, &CrossEntropyOptions::default()).ok())
        };
        let loss = match region {
            Some(region) => region.run(forward)?,
            None => forward()?,
        };
        saw_loss(&loss);
        let mut grads = loss.backward()?;
        let parameters = net.parameters();
        look(&loss, &mut grads, &parameters)?;
        if let Some(clipper) = clipper {
            in_phase(StepPhase::Clip, || clipper.clip(&mut grads, &parameters))?;
        }
        in_phase(StepPhase::Optimizer, || optimizer.step(&grads))
    }
    fn attempt(&mut self, batch: &Batch, handler: &mut NanHandler) -> Result<()> {
        handler.attempt(|handler| self.pass(batch, &mut |loss, grads, parameters| handler.handle(loss, grads, parameters), &mut |_| {}))
    }
    /// Bits of all that a step may change.
    fn bits(&self) -> Result<Vec<Vec<u8>>> {
        let clipping = self.clipper.as_ref().map(GradientClipper::state_dict).unwrap_or_default();
        self.net.state_dict().into_iter().chain(self.optimizer.state_dict()).chain(clipping).map(|(_, t)| t.to_bytes()).collect()
    }
    /// Would the step, without anybody who looks, have bad numbers in its loss, a gradient or what it writes? It is taken back.
    fn is_harmed(&mut self, batch: &Batch, beyond: Option<f64>) -> Result<bool> {
        let harmed = Cell::new(false);
        let judge = |x: &Tensor, beyond: Option<f64>| -> Result<()> {
            let is_bad = can_be_spoiled(x) && x.to_vec_as::<f64>()?.iter().any(|v| !v.is_finite() || beyond.is_some_and(|most| v.abs() > most));
            harmed.set(harmed.get() || is_bad);
            Ok(())
        };
        let mut look = |loss: &Tensor, grads: &mut Grads, parameters: &[Param]| {
            judge(loss, beyond)?;
            parameters.iter().filter_map(|p| grads.of(&p.cell())).try_for_each(|g| judge(g, beyond))
        };
        let ended = adamant_core::step_reviewed(
            || self.pass(batch, &mut look, &mut |_| {}),
            |(), written| {
                written.iter().try_for_each(|w| judge(&w.cell.detached(), None))?;
                Err(taken_back())
            },
        );
        match ended {
            Err(e) if e.to_string().contains(TAKEN_BACK) => Ok(harmed.get()),
            other => other.map(|()| harmed.get()),
        }
    }
}
/// Who sees a step's loss and gradients.
type Looking<'a> = dyn FnMut(&Tensor, &mut Grads, &[Param]) -> Result<()> + 'a;
const TAKEN_BACK: &str = "the step is taken back";
fn taken_back() -> Error {
    Error::new("faults", ErrorKind::Argument(TAKEN_BACK.into()))
}
fn batch(task: &SortingTask, random: &mut Random) -> Batch {
    let n: usize = ROWS * task.input.iter().product::<usize>();
    let shape: Vec<usize> = [ROWS].iter().chain(task.input).copied().collect();
    let x = if task.symbols {
        Tensor::from_vec((0..n).map(|_| random.below(task.classes) as i64).collect::<Vec<_>>(), shape)
    } else {
        Tensor::from_vec((0..n).map(|_| (random.unit() * 2.0 - 1.0) as f32).collect::<Vec<_>>(), shape)
    };
    let targets = if task.sequence { ROWS * task.input[0] } else { ROWS };
    (x, Tensor::from_vec((0..targets).map(|_| random.below(task.classes) as i64).collect::<Vec<_>>(), [targets]))
}
/// What became of a planted number.
#[derive(Default)]
struct Outcome {
    /// it has come to nothing
    harmless: bool,
    found: bool,
    kept: bool,
    /// op, layer and part
    origin: bool,
    line: bool,
    text: String,
}
fn one(random: &mut Random, only_loss: bool) -> Result<Outcome> {
    let (mut task, sorting, dtype) = FaultTask::drawn(random)?;
    let kinds = if dtype == DType::F16 { 3 } else { KINDS.len() };
    let (kind, value) = KINDS[random.below(kinds)];
    let beyond = (kind == "overflow").then_some(THRESHOLD);
    let options = NanOptions {
        detect_overflow: beyond.is_some(),
        overflow_threshold: THRESHOLD,
        gradient_checking: !only_loss,
        parameter_checking: !only_loss,
        ..HandlingType::Stop.into()
    };
    let mut handler = NanHandler::new(options)?;
    let at = random.between(1, 5) as u64;
    for _ in 1..at {
        task.attempt(&batch(sorting, random), &mut handler)?;
    }
    let mut data = batch(sorting, random);
    let phase = *random.pick(&PHASES);
    // How many ops there are in each part.
    let counting = Planter::new(None, value, 0.0);
    intercept::with(counting.clone(), || task.is_harmed(&data, beyond))?;
    let met = counting.state.lock().met.clone();
    let share = random.unit();
    let count = met.get(phase.name()).copied().unwrap_or(0);
    let phase = match phase {
        StepPhase::Data if sorting.symbols => StepPhase::Forward,
        StepPhase::Data => phase,
        // No clipping in this one.
        _ if count == 0 => StepPhase::Forward,
        _ => phase,
    };
    let count = met.get(phase.name()).copied().unwrap_or(0);
    let place = PlantedPlace { phase, op: random.below(count) };
    if phase == StepPhase::Data {
        data.0 = spoiled(&data.0, value, share)?;
    }
    let planter = Planter::new((phase != StepPhase::Data).then_some(place), value, share);
    let mut outcome = Outcome::default();
    let named = vec![(StepPhase::Data, "batch".to_string(), data.0.clone())];
    intercept::with(planter.clone(), || -> Result<()> {
        let harmed = task.is_harmed(&data, beyond)?;
        let before = task.bits()?;
        planter.restart();
        task.attempt(&data, &mut handler)?;
        let seen = handler.look()?;
        let planted = planter.state.lock().op.clone();
        let what = format!("{kind} in {} of {} ({}), {dtype}, step {at}", planted.as_ref().map_or("the batch", |op| op.name), task.name, phase.name());
        if !harmed {
            outcome = Outcome { harmless: true, found: seen.latched, text: what, ..Outcome::default() };
            return Ok(());
        }
        outcome.found = seen.latched && u64::from(seen.steps) + 1 == at;
        outcome.kept = task.bits()? != before;
        planter.restart();
        let traced = trace_beyond(beyond, &named, |saw| task.pass(&data, &mut |_, _, _| Ok(()), saw))?;
        let bad: Option<BadNumber> = traced.bad;
        outcome.text =
            format!("{what}, line {}: {}", planted.as_ref().map_or("none", |op| &op.line), bad.as_ref().map_or("no origin".into(), BadNumber::to_string));
        let Some(bad) = bad else { return Ok(()) };
        match (&planted, &bad.op) {
            (None, None) => {
                outcome.origin = bad.phase == StepPhase::Data && bad.place.as_deref() == Some("batch");
                outcome.line = outcome.origin;
            }
            (Some(planted), Some(told)) => {
                outcome.origin = told.op == planted.name && told.layer == planted.layer && bad.phase == phase;
                outcome.line = format!("{}:{}", told.line.file(), told.line.line()) == planted.line;
            }
            _ => {}
        }
        Ok(())
    })?;
    // Behind a bad step none changes anything.
    if !outcome.harmless && outcome.found {
        let before = task.bits()?;
        task.attempt(&batch(sorting, random), &mut handler)?;
        outcome.kept |= task.bits()? != before;
    }
    Ok(outcome)
}
/// A run without any planted number: was there an alarm?
fn healthy(random: &mut Random, steps: u64) -> Result<Option<String>> {
    let (mut task, sorting, dtype) = FaultTask::drawn(random)?;
    let mut handler = NanHandler::new(HandlingType::Stop)?;
    for _ in 0..steps {
        task.attempt(&batch(sorting, random), &mut handler)?;
    }
    let seen = handler.look()?;
    Ok(seen.latched.then(|| format!("{} in {dtype}: step {}", task.name, seen.steps + 1)))
}
/// Counts over all cases.
#[derive(Default, serde::Serialize)]
struct FaultCounts {
    planted: usize,
    harmless: usize,
    harmful: usize,
    found: usize,
    kept: usize,
    false_alarms: usize,
    origins: usize,
    lines: usize,
    healthy: usize,
    healthy_alarms: usize,
}
/// Runs the chore.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let begun = Instant::now();
    let mut counts = FaultCounts::default();
    let done = device.scoped(|| -> Result<()> {
        for k in options.case.map_or(0..options.n as u64, |k| k..k + 1) {
            let mut random = Random::new(options.seed).part(k);
            let outcome = one(&mut random, options.plant)?;
            counts.planted += 1;
            if outcome.harmless {
                counts.harmless += 1;
                counts.false_alarms += usize::from(outcome.found);
                if outcome.found {
                    println!("case {k}: {}: an alarm for what has come to nothing", outcome.text);
                }
                continue;
            }
            counts.harmful += 1;
            counts.found += usize::from(outcome.found);
            counts.kept += usize::from(outcome.kept);
            counts.origins += usize::from(outcome.origin);
            counts.lines += usize::from(outcome.line);
            if !(outcome.found && !outcome.kept && outcome.origin && outcome.line) || options.case.is_some() {
                let said =
                    [(!outcome.found, "not found"), (outcome.kept, "something was kept"), (!outcome.origin, "another origin"), (!outcome.line, "another line")];
                let said: Vec<&str> = said.iter().filter(|(is, _)| *is).map(|(_, said)| *said).collect();
                println!("case {k}: {}: {}", outcome.text, if said.is_empty() { "right".into() } else { said.join(", ") });
            }
        }
        for k in 0..options.healthy as u64 {
            let alarm = healthy(&mut Random::new(options.seed ^ 0x4845_414c).part(k), options.steps)?;
            counts.healthy += 1;
            counts.healthy_alarms += usize::from(alarm.is_some());
            if let Some(alarm) = alarm {
                println!("healthy run {k}: an alarm: {alarm}");
            }
        }
        Ok(())
    });
    if let Err(e) = done {
        eprintln!("{e}");
        return Exit::Failed;
    }
    let share = |n: usize| 100.0 * n as f64 / counts.harmful.max(1) as f64;
    println!(
        "{} planted, {} of them harmless; of {} harmful ones found in their step {}, with something kept {}, op, layer and part right {} ({:.1} %), line right {} ({:.1} %); {} false alarms; {} healthy runs of {} steps, {} alarms; {:.0} s",
        counts.planted,
        counts.harmless,
        counts.harmful,
        counts.found,
        counts.kept,
        counts.origins,
        share(counts.origins),
        counts.lines,
        share(counts.lines),
        counts.false_alarms,
        counts.healthy,
        options.steps,
        counts.healthy_alarms,
        begun.elapsed().as_secs_f64()
    );
    let is_right = counts.found == counts.harmful
        && counts.kept == 0
        && counts.false_alarms == 0
        && counts.origins * 100 >= counts.harmful * 95
        && counts.lines * 100 >= counts.harmful * 95
        && counts.healthy_alarms * 100 <= counts.healthy;
    // With a watch that looks at nothing but the loss, something must be missed.
    let passed = if options.plant { counts.found < counts.harmful } else { is_right };
    if options.json {
        println!("{}", serde_json::json!({ "passed": passed, "counts": counts }));
    }
    if passed { Exit::Passed } else { Exit::Failed }
}
