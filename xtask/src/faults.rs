//! `cargo xtask faults --n N --seed S`: a bad number planted at a random place of a random training step. It must be found in its step,
//! nothing of the step may be kept, and the trace must name the op, the layer, the line and the part of the step that made it.
//!
//! A case draws a net, an optimizer, clipping, a precision, a step, a part of it, an op of that part, an element and a kind. The plant is an
//! interceptor, so that the op itself gives the bad number, or its rule gives a bad gradient. What became of it is known without the watch: a
//! step without one, which is taken back, has bad numbers in its loss, a gradient or what it writes, or the number has come to nothing (a
//! maximum, a rectifier) and nobody may say anything.
//!
//! With `--full` the watch looks at what each op gives, and no number has come to nothing.
//!
//! An explosion is an op's gradient times 1e6. It is one where the norm of all gradients is more than a thousand times what it is in the same step
//! without it, and has come to nothing where it is less than ten times that.
use crate::{
    captured::{SortingTask, TASKS},
    device,
    exit::Exit,
};
use adamant::{
    DType, Error, ErrorKind, Grads, Result, Tensor,
    amp::Autocast,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{Module, Param, Sequential, Walk, manual_seed},
    optim::{AdamW, ClippingOptions, GradientClipper, Optimizer, RmsProp, Sgd, UpdateRule},
    stability::{BadNumber, HandlingType, NanHandler, NanOptions, StepPhase, WatchMode, trace_with},
};
use adamant_conformance::random::Random;
use adamant_core::intercept;
use std::{cell::Cell, sync::atomic::Ordering, time::Instant};

mod net;
mod plant;
use net::USERS;
use plant::{KINDS, Plant, PlantedPlace, Planter, can_be_spoiled, in_phase, spoiled};

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
    /// What each op gives is looked at: a number that comes to nothing is bad too, and is to be found
    #[arg(long)]
    full: bool,
    /// One JSON document as the last line
    #[arg(long)]
    json: bool,
}
/// Beyond this a finite number is bad, where overflows are planted.
const THRESHOLD: f64 = 1e6;
/// Times the norm without a plant: from here on an explosion has exploded, and below it has not.
const EXPLODED: f64 = 1e3;
const NOT_EXPLODED: f64 = 10.0;
const PHASES: [StepPhase; 6] = [StepPhase::Data, StepPhase::Forward, StepPhase::Loss, StepPhase::Backward, StepPhase::Clip, StepPhase::Optimizer];

const ROWS: usize = 3;

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
    /// What the step would come to without anybody who looks. It is taken back.
    fn judged(&mut self, batch: &Batch, beyond: Option<f64>) -> Result<JudgedStep> {
        let (harmed, squares) = (Cell::new(false), Cell::new(0.0));
        let judge = |x: &Tensor, beyond: Option<f64>| -> Result<()> {
            let is_bad = can_be_spoiled(x) && x.to_vec_as::<f64>()?.iter().any(|v| !v.is_finite() || beyond.is_some_and(|most| v.abs() > most));
            harmed.set(harmed.get() || is_bad);
            Ok(())
        };
        let mut look = |loss: &Tensor, grads: &mut Grads, parameters: &[Param]| {
            judge(loss, beyond)?;
            parameters.iter().filter_map(|p| grads.of(&p.cell())).try_for_each(|g| {
                squares.set(squares.get() + g.to_vec_as::<f64>()?.iter().map(|v| v * v).sum::<f64>());
                judge(g, beyond)
            })
        };
        let ended = adamant_core::step_reviewed(
            || self.pass(batch, &mut look, &mut |_| {}),
            |(), written| {
                written.iter().try_for_each(|w| judge(&w.cell.detached(), None))?;
                Err(taken_back())
            },
        );
        let judged = JudgedStep { has_bad: harmed.get(), norm: squares.get().sqrt() };
        match ended {
            Err(e) if e.to_string().contains(TAKEN_BACK) => Ok(judged),
            other => other.map(|()| judged),
        }
    }
}
/// What a step came to.
struct JudgedStep {
    /// Are there bad numbers in its loss, a gradient or what it writes?
    has_bad: bool,
    /// of all gradients
    norm: f64,
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
/// Has what was planted come to anything?
#[derive(Clone, Copy, PartialEq, Default)]
enum Harm {
    #[default]
    Done,
    None,
    /// an explosion that is none, and not nothing either
    Little,
}
/// What became of a plant.
#[derive(Default)]
struct Outcome {
    harm: Harm,
    explosion: bool,
    found: bool,
    kept: bool,
    /// op, layer and part
    origin: bool,
    line: bool,
    text: String,
}
fn one(random: &mut Random, mode: WatchMode, only_loss: bool) -> Result<Outcome> {
    let (mut task, sorting, dtype) = FaultTask::drawn(random)?;
    let kinds = if dtype == DType::F16 { 4 } else { KINDS.len() };
    let (kind, plant) = KINDS[random.below(kinds)];
    let explosion = matches!(plant, Plant::Growth(_));
    let beyond = (kind == "overflow").then_some(THRESHOLD);
    let options = NanOptions {
        mode: if only_loss { WatchMode::Watch } else { mode },
        detect_overflow: beyond.is_some(),
        overflow_threshold: THRESHOLD,
        gradient_checking: !only_loss,
        parameter_checking: !only_loss,
        detect_explosion: explosion && !only_loss,
        ..HandlingType::Stop.into()
    };
    let looks_for = options.traced();
    let mut handler = NanHandler::new(options)?;
    // Before it is known how large gradients are, none explodes.
    let at = if explosion { random.between(5, 12) } else { random.between(1, 5) } as u64;
    for _ in 1..at {
        task.attempt(&batch(sorting, random), &mut handler)?;
    }
    let mut data = batch(sorting, random);
    let phase = if explosion { StepPhase::Backward } else { *random.pick(&PHASES) };
    // How many ops there are in each part.
    let counting = Planter::new(None, plant, 0.0);
    let unharmed = intercept::with(counting.clone(), || task.judged(&data, beyond))?;
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
        data.0 = spoiled(&data.0, plant, share)?;
    }
    let planter = Planter::new((phase != StepPhase::Data).then_some(place), plant, share);
    let mut outcome = Outcome { explosion, ..Outcome::default() };
    let named = vec![(StepPhase::Data, "batch".to_string(), data.0.clone())];
    intercept::with(planter.clone(), || -> Result<()> {
        let judged = task.judged(&data, beyond)?;
        let is_put = phase == StepPhase::Data || planter.state.lock().is_put.load(Ordering::Relaxed);
        let harm = match () {
            () if judged.has_bad || mode == WatchMode::Full && !explosion && is_put => Harm::Done,
            () if !explosion || judged.norm < NOT_EXPLODED * unharmed.norm => Harm::None,
            () if judged.norm > EXPLODED * unharmed.norm => Harm::Done,
            () => Harm::Little,
        };
        let before = task.bits()?;
        planter.restart();
        task.attempt(&data, &mut handler)?;
        let seen = handler.look()?;
        let planted = planter.state.lock().op.clone();
        let what = format!("{kind} in {} of {} ({}), {dtype}, step {at}", planted.as_ref().map_or("the batch", |op| op.name), task.name, phase.name());
        outcome.harm = harm;
        if harm != Harm::Done {
            (outcome.found, outcome.text) = (seen.latched, what);
            return Ok(());
        }
        outcome.found = seen.latched && u64::from(seen.steps) + 1 == at;
        outcome.kept = task.bits()? != before;
        planter.restart();
        let traced = trace_with(looks_for, &named, |saw| task.pass(&data, &mut |_, _, _| Ok(()), saw))?;
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
    if outcome.harm == Harm::Done && outcome.found {
        let before = task.bits()?;
        task.attempt(&batch(sorting, random), &mut handler)?;
        outcome.kept |= task.bits()? != before;
    }
    Ok(outcome)
}
/// A run without any planted number: was there an alarm?
fn healthy(random: &mut Random, mode: WatchMode, steps: u64) -> Result<Option<String>> {
    let (mut task, sorting, dtype) = FaultTask::drawn(random)?;
    let mut handler = NanHandler::new(NanOptions { mode, detect_explosion: true, ..HandlingType::Stop.into() })?;
    for _ in 0..steps {
        task.attempt(&batch(sorting, random), &mut handler)?;
    }
    let seen = handler.look()?;
    Ok(seen.latched.then(|| format!("{} in {dtype}: step {}", task.name, seen.steps + 1)))
}
/// Counts over the plants of a kind that have come to something.
#[derive(Default, serde::Serialize)]
struct HarmCounts {
    harmful: usize,
    found: usize,
    kept: usize,
    origins: usize,
    lines: usize,
}
impl HarmCounts {
    fn count(&mut self, outcome: &Outcome) {
        self.harmful += 1;
        self.found += usize::from(outcome.found);
        self.kept += usize::from(outcome.kept);
        self.origins += usize::from(outcome.origin);
        self.lines += usize::from(outcome.line);
    }
    fn share(&self, n: usize) -> f64 {
        100.0 * n as f64 / self.harmful.max(1) as f64
    }
}
impl std::fmt::Display for HarmCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HarmCounts { harmful, found, kept, origins, lines } = *self;
        let [of_found, of_origins, of_lines] = [found, origins, lines].map(|n| self.share(n));
        write!(
            f,
            "of {harmful} found in their step {found} ({of_found:.1} %), with something kept {kept}, op, layer and part right {origins} ({of_origins:.1} %), line right {lines} ({of_lines:.1} %)"
        )
    }
}
/// Counts over all cases.
#[derive(Default, serde::Serialize)]
struct FaultCounts {
    planted: usize,
    /// have come to nothing
    harmless: usize,
    /// explosions that are none, and not nothing either
    little: usize,
    numbers: HarmCounts,
    explosions: HarmCounts,
    false_alarms: usize,
    healthy: usize,
    healthy_alarms: usize,
}
impl FaultCounts {
    fn is_right(&self) -> bool {
        let FaultCounts { numbers, explosions, .. } = self;
        let is_told = |n: usize, of: &HarmCounts| n * 100 >= of.harmful * 95;
        numbers.found == numbers.harmful
            && is_told(explosions.found, explosions)
            && numbers.kept == 0
            && explosions.kept <= explosions.harmful - explosions.found
            && self.false_alarms == 0
            && is_told(numbers.origins, numbers)
            && is_told(numbers.lines, numbers)
            && self.healthy_alarms * 100 <= self.healthy
    }
}
/// Runs the chore.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let begun = Instant::now();
    let mode = if options.full { WatchMode::Full } else { WatchMode::Watch };
    let mut counts = FaultCounts::default();
    let done = device.scoped(|| -> Result<()> {
        for k in options.case.map_or(0..options.n as u64, |k| k..k + 1) {
            let mut random = Random::new(options.seed).part(k);
            let outcome = one(&mut random, mode, options.plant)?;
            counts.planted += 1;
            match outcome.harm {
                Harm::Done => {}
                Harm::Little => {
                    counts.little += 1;
                    continue;
                }
                Harm::None => {
                    counts.harmless += 1;
                    counts.false_alarms += usize::from(outcome.found);
                    if outcome.found {
                        println!("case {k}: {}: an alarm for what has come to nothing", outcome.text);
                    }
                    continue;
                }
            }
            let of_kind = if outcome.explosion { &mut counts.explosions } else { &mut counts.numbers };
            of_kind.count(&outcome);
            if !(outcome.found && !outcome.kept && outcome.origin && outcome.line) || options.case.is_some() {
                let said =
                    [(!outcome.found, "not found"), (outcome.kept, "something was kept"), (!outcome.origin, "another origin"), (!outcome.line, "another line")];
                let said: Vec<&str> = said.iter().filter(|(is, _)| *is).map(|(_, said)| *said).collect();
                println!("case {k}: {}: {}", outcome.text, if said.is_empty() { "right".into() } else { said.join(", ") });
            }
        }
        for k in 0..options.healthy as u64 {
            let alarm = healthy(&mut Random::new(options.seed ^ 0x4845_414c).part(k), mode, options.steps)?;
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
    let FaultCounts { planted, harmless, little, numbers, explosions, false_alarms, healthy, healthy_alarms } = &counts;
    println!("{planted} planted, {harmless} of them harmless, {little} explosions that are none");
    println!("bad numbers: {numbers}");
    println!("explosions: {explosions}");
    println!("{false_alarms} false alarms; {healthy} healthy runs of {} steps, {healthy_alarms} alarms; {:.0} s", options.steps, begun.elapsed().as_secs_f64());
    // With a watch that looks at nothing but the loss, something must be missed of each.
    let is_missed = |of: &HarmCounts| of.found < of.harmful;
    let passed = if options.plant { is_missed(numbers) && is_missed(explosions) } else { counts.is_right() };
    if options.json {
        println!("{}", serde_json::json!({ "passed": passed, "counts": counts }));
    }
    if passed { Exit::Passed } else { Exit::Failed }
}
