//! A step of a pipeline: this rank's stage carries out its list.
use super::{
    cost::{cut_by_cost, layer_costs},
    schedule::{PipelineAction, PipelineSchedule, next_of, pipeline_actions},
    shared::{SharedGradients, SharedParam, add_shared, added, shared_params},
    trace::ActionSpan,
    transfer::{MessageKind, MessageLabel, receive, send},
};
use crate::{
    Mesh, MeshAxis,
    tensor::{StreamAround, stage_stream},
};
use adamant_core::{
    Arg, DType, Device, Error, ErrorKind, Grads, Op, Result, Tensor, communicator,
    grad::no_grad,
    op::{CollectiveKind, Group, RankUse},
};
use adamant_nn::{Module, Param, Sequential, Walk, Walker};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    time::Instant,
};

/// A model cut into stretches of layers, of which this rank has those of its stage: with c chunks on p stages, stretch `chunk · p + stage`. Walked, it
/// gives this rank's layers, under the names that they have in the whole model.
///
/// Every rank makes the whole model alike (one seed), and keeps its own layers. A parameter that several stages have, as a table that is also the
/// head, stays one: all of them get the sum of its gradients. Layers that draw random numbers draw others on each stage, and other
/// ones than in one process.
///
/// ```
/// use adamant_core::{communicator, Tensor};
/// use adamant_distributed::local::local_threads;
/// use adamant_nn::{Linear, Sequential, Tanh, Walk, manual_seed};
/// use adamant_parallel::{Mesh, MeshShape, pipeline::{Pipeline, PipelineSchedule}};
///
/// std::thread::scope(|scope| {
///     let ranks: Vec<_> = local_threads(2).map_err(|e| e.to_string())?.into_iter().map(|on| {
///         scope.spawn(move || {
///             adamant_core::Device::reference().make_current();
///             let mesh = Mesh::new(&communicator::group(&on), MeshShape { pipeline: 2, ..MeshShape::default() })?;
///             manual_seed(1);
///             let model = Sequential::new().add(Linear::new(4, 8)?).add(Tanh::new()).add(Linear::new(8, 1)?);
///             let micro_batches = [Tensor::ones([2, 4]), Tensor::zeros([2, 4])];
///             let pipeline = Pipeline::cut(model, &mesh, PipelineSchedule::OneForwardOneBackward, &micro_batches[0])?;
///             let step = pipeline.step(&micro_batches, |_, y| (y.square().mean(..) / 2.0).ok())?;
///             Ok::<_, adamant_core::Error>((step.loss, step.grads.len(), pipeline.parameters().len()))
///         })
///     }).collect();
///     let told: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Result<_, _>>()?;
///     assert_eq!(told[0].0, told[1].0);
///     assert_eq!((told[0].1, told[0].2, told[1].1, told[1].2), (2, 2, 2, 2));
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Pipeline {
    group: Group,
    schedule: PipelineSchedule,
    /// of all stretches, the layers
    stretches: Vec<Range<usize>>,
    /// this stage's, by chunk
    chunks: Vec<Vec<(String, Box<dyn Module>)>>,
    shared: Vec<SharedParam>,
}
/// What a step gave.
pub struct PipelineStep {
    /// the sum of the micro-batches' losses, on every stage
    pub loss: f64,
    /// each of them
    pub losses: Vec<f64>,
    /// the gradients of this stage's parameters, added over micro-batches
    pub grads: Grads,
    /// what this stage did when, in seconds behind `begun`
    pub spans: Vec<ActionSpan>,
    /// when it began
    pub begun: Instant,
}
impl Pipeline {
    /// Cuts a model by the cost of its layers for a micro-batch like the example, and keeps this rank's.
    ///
    /// # Errors
    /// Fewer layers than stretches; what a layer's forward pass returns.
    #[track_caller]
    pub fn cut(model: Sequential, mesh: &Mesh, schedule: PipelineSchedule, example: &Tensor) -> Result<Pipeline> {
        let layers = model.into_layers();
        let costs = layer_costs(&layers, example)?;
        Pipeline::with_costs(layers, mesh, schedule, &costs)
    }
    /// The same by given costs, one for each layer.
    ///
    /// # Errors
    /// Fewer layers than stretches; another number of costs than of layers; costs that are no finite numbers from 0 on.
    #[track_caller]
    pub fn with_costs(layers: Vec<(String, Box<dyn Module>)>, mesh: &Mesh, schedule: PipelineSchedule, costs: &[f64]) -> Result<Pipeline> {
        let stages = mesh.size(MeshAxis::Pipeline);
        if costs.len() != layers.len() {
            return Err(Error::new("pipeline", ErrorKind::Argument(format!("{} costs for {} layers", costs.len(), layers.len()))));
        }
        Pipeline::with_stretches(layers, mesh, schedule, cut_by_cost(costs, stages * schedule.chunks())?)
    }
    /// The same by stretches of one's own, one behind another, as many for each stage as the schedule has it.
    ///
    /// # Errors
    /// Another number of stretches; stretches that leave out a layer, or have one twice.
    #[track_caller]
    pub fn with_stretches(layers: Vec<(String, Box<dyn Module>)>, mesh: &Mesh, schedule: PipelineSchedule, stretches: Vec<Range<usize>>) -> Result<Pipeline> {
        let group = mesh.group(MeshAxis::Pipeline).clone();
        let (stage, stages) = (group.rank as usize, group.size as usize);
        let ends = stretches.iter().try_fold(0, |end, stretch| (stretch.start == end && stretch.end > end).then_some(stretch.end));
        if stretches.len() != stages * schedule.chunks() || ends != Some(layers.len()) {
            let text = format!("{stretches:?} are not the {} layers in {} stretches one behind another", layers.len(), stages * schedule.chunks());
            return Err(Error::new("pipeline", ErrorKind::Argument(text)));
        }
        let shared = shared_params(&layers, &stretches, |stretch| stretch % stages == stage);
        let mut chunks: Vec<Vec<(String, Box<dyn Module>)>> = (0..schedule.chunks()).map(|_| Vec::new()).collect();
        for (k, layer) in layers.into_iter().enumerate() {
            let Some(stretch) = stretches.iter().position(|range| range.contains(&k)).filter(|stretch| stretch % stages == stage) else { continue };
            if let Some(chunk) = chunks.get_mut(stretch / stages) {
                chunk.push(layer);
            }
        }
        let pipeline = Pipeline { group, schedule, stretches, chunks, shared };
        pipeline.visit(&mut NamesOnly);
        Ok(pipeline)
    }
    /// The layers of each stretch, of all stages.
    pub fn stretches(&self) -> &[Range<usize>] {
        &self.stretches
    }
    /// Forward and back of micro-batches: `inputs` are those of the whole model, which only the first stage looks at; `loss` makes a number of the
    /// last layer's output for the micro-batch of a number, which only the last stage calls. What is learned from is the sum of these numbers: for
    /// the mean over m equal micro-batches each is divided by m.
    ///
    /// All stages call it, with as many micro-batches. If one fails, all do.
    ///
    /// # Errors
    /// What a layer or the loss returns; a loss that is no single number; what [`pipeline_actions`] refuses; a lost peer, the timeout.
    #[track_caller]
    pub fn step(&self, inputs: &[Tensor], loss: impl Fn(usize, &Tensor) -> Result<Tensor>) -> Result<PipelineStep> {
        let lists = pipeline_actions(self.schedule, self.group.size as usize, inputs.len())?;
        let list = lists.get(self.group.rank as usize).map(Vec::as_slice).unwrap_or_default();
        self.step_by(list, inputs, loss)
    }
    /// The same by a list of actions of one's own; [`dry_run`](super::dry_run) tells whether the lists of all stages go together.
    ///
    /// # Errors
    /// As [`Pipeline::step`]; an action whose input is not there.
    #[track_caller]
    pub fn step_by(&self, list: &[PipelineAction], inputs: &[Tensor], loss: impl Fn(usize, &Tensor) -> Result<Tensor>) -> Result<PipelineStep> {
        let done = RunningStep::new(self, inputs, &loss).and_then(|running| running.run(list));
        if let (Err(error), Ok(on)) = (&done, communicator::of(&self.group)) {
            on.abort(&error.to_string());
        }
        done
    }
    /// What the whole model gives for an input, which only the first stage looks at; on every stage, without a graph. All stages call it. If one
    /// fails, all do.
    ///
    /// # Errors
    /// What a layer returns; a lost peer, the timeout.
    #[track_caller]
    pub fn outputs(&self, x: &Tensor) -> Result<Tensor> {
        let done = no_grad(|| self.carried_through(x));
        if let (Err(error), Ok(on)) = (&done, communicator::of(&self.group)) {
            on.abort(&error.to_string());
        }
        done
    }
    #[track_caller]
    fn carried_through(&self, x: &Tensor) -> Result<Tensor> {
        let (stage, stages, last) = (self.group.rank as usize, self.group.size as usize, self.stretches.len());
        let label = |stretch: usize| MessageLabel { kind: MessageKind::Activation, micro: 0, number: stretch };
        let nothing = || Error::new("pipeline", ErrorKind::Argument("a stage has sent nothing".into()));
        let around = StreamAround::of(stage_stream(stage));
        let mut own: Option<Tensor> = None;
        for chunk in 0..self.chunks.len() {
            let stretch = chunk * stages + stage;
            let input = match own.take() {
                _ if stretch == 0 => x.clone(),
                Some(own) if stages == 1 => own,
                _ => receive(&self.group, (stage + stages - 1) % stages, label(stretch))?.ok_or_else(nothing)?,
            };
            around.begin(input.device()?)?;
            let output = self.forward_chunk(chunk, &input);
            around.end()?;
            let output = output?.detach();
            output.materialize()?;
            if stages > 1 && stretch + 1 < last {
                send(&self.group, (stage + 1) % stages, label(stretch + 1), Some(&output))?;
            }
            own = Some(output);
        }
        if stage + 1 < stages {
            return receive(&self.group, stages - 1, label(last))?.ok_or_else(nothing);
        }
        let output = own.ok_or_else(nothing)?;
        (0..stage).try_for_each(|other| send(&self.group, other, label(last), Some(&output)))?;
        Ok(output)
    }
    #[track_caller]
    fn forward_chunk(&self, chunk: usize, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (_, layer) in self.chunks.get(chunk).into_iter().flatten() {
            x = layer.forward(&x)?;
        }
        Ok(x)
    }
}
impl Walk for Pipeline {
    fn walk(&self, walker: &mut Walker<'_>) {
        for (name, layer) in self.chunks.iter().flatten() {
            walker.child(name, layer);
        }
    }
}
/// The whole model's outputs on every stage ([`Pipeline::outputs`]).
impl Module for Pipeline {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.outputs(x)
    }
}
/// Walked with it, layers know their paths.
struct NamesOnly;
impl adamant_nn::Visit for NamesOnly {}

/// What a chunk keeps of a micro-batch between forward and back.
struct KeptPass {
    /// the input as a leaf, where a gradient goes back to a stage
    input: Option<Tensor>,
    output: Tensor,
}
/// Gradients of a chunk, added in the order of micro-batches.
#[derive(Default)]
struct OrderedSum {
    next: usize,
    /// of micro-batches that came before their turn
    early: BTreeMap<usize, Vec<Option<Tensor>>>,
    sums: Vec<Option<Tensor>>,
}
impl OrderedSum {
    fn give(&mut self, micro: usize, gradients: Vec<Option<Tensor>>) -> Result<()> {
        self.early.insert(micro, gradients);
        while let Some(gradients) = self.early.remove(&self.next) {
            self.sums.resize(gradients.len(), None);
            for (sum, g) in self.sums.iter_mut().zip(gradients) {
                *sum = added(sum.take(), g);
                if let Some(sum) = sum {
                    // Or all micro-batches' gradients would be kept until the end.
                    sum.materialize()?;
                }
            }
            self.next += 1;
        }
        Ok(())
    }
}
struct RunningStep<'a> {
    pipeline: &'a Pipeline,
    inputs: &'a [Tensor],
    loss: &'a dyn Fn(usize, &Tensor) -> Result<Tensor>,
    stage: usize,
    stages: usize,
    around: StreamAround,
    device: Device,
    /// by chunk: its parameters that no other stretch has, and the others by their number
    own: Vec<Vec<Param>>,
    also: Vec<Vec<(usize, Param)>>,
    arrived: HashMap<(usize, usize), Tensor>,
    kept: HashMap<(usize, usize), KeptPass>,
    back: HashMap<(usize, usize), Tensor>,
    leaving: HashMap<(usize, usize), Tensor>,
    sums: Vec<OrderedSum>,
    shared: SharedGradients,
    losses: BTreeMap<usize, Tensor>,
}
#[track_caller]
fn missing(what: &str, action: PipelineAction) -> Error {
    Error::new("pipeline", ErrorKind::Argument(format!("{action}: {what} is not there")))
}
impl<'a> RunningStep<'a> {
    #[track_caller]
    fn new(pipeline: &'a Pipeline, inputs: &'a [Tensor], loss: &'a dyn Fn(usize, &Tensor) -> Result<Tensor>) -> Result<RunningStep<'a>> {
        let (stage, stages) = (pipeline.group.rank as usize, pipeline.group.size as usize);
        let number = |param: &Param| pipeline.shared.iter().position(|shared| shared.param.as_ref().is_some_and(|known| known.same(param)));
        let params = |layers: &Vec<(String, Box<dyn Module>)>| {
            let mut all: Vec<Param> = Vec::new();
            for param in layers.iter().flat_map(|(_, layer)| layer.trainable_parameters()) {
                if !all.iter().any(|known| known.same(&param)) {
                    all.push(param);
                }
            }
            all
        };
        let all: Vec<Vec<Param>> = pipeline.chunks.iter().map(params).collect();
        Ok(RunningStep {
            pipeline,
            inputs,
            loss,
            stage,
            stages,
            around: StreamAround::of(stage_stream(stage)),
            device: Device::current()?,
            own: all.iter().map(|params| params.iter().filter(|p| number(p).is_none()).cloned().collect()).collect(),
            also: all.iter().map(|params| params.iter().filter_map(|p| Some((number(p)?, p.clone()))).collect()).collect(),
            arrived: HashMap::new(),
            kept: HashMap::new(),
            back: HashMap::new(),
            leaving: HashMap::new(),
            sums: pipeline.chunks.iter().map(|_| OrderedSum::default()).collect(),
            shared: HashMap::new(),
            losses: BTreeMap::new(),
        })
    }
    #[track_caller]
    fn run(mut self, list: &[PipelineAction]) -> Result<PipelineStep> {
        let begun = Instant::now();
        let mut spans = Vec::with_capacity(list.len());
        for &action in list {
            let start = begun.elapsed().as_secs_f64();
            self.carry_out(action)?;
            spans.push(ActionSpan { action, start, end: begun.elapsed().as_secs_f64() });
        }
        let late = |sum: &OrderedSum| !sum.early.is_empty();
        if !self.kept.is_empty() || self.sums.iter().any(late) {
            return Err(Error::new("pipeline", ErrorKind::Argument("the list ends before every micro-batch has come back".into())));
        }
        let (group, micros) = (&self.pipeline.group, self.inputs.len());
        let mut grads = Grads::default();
        for (params, sum) in self.own.iter().zip(self.sums) {
            for (param, sum) in params.iter().zip(sum.sums) {
                sum.into_iter().for_each(|sum| grads.set(&param.cell(), sum));
            }
        }
        for (param, sum) in add_shared(&self.pipeline.shared, self.shared, micros, group)? {
            grads.set(&param.cell(), sum);
        }
        let losses = of_all_losses(&self.losses, micros, group)?;
        Ok(PipelineStep { loss: losses.iter().sum(), losses, grads, spans, begun })
    }
    #[track_caller]
    fn carry_out(&mut self, action: PipelineAction) -> Result<()> {
        let (group, label) = (&self.pipeline.group, MessageLabel::of(action, self.stage, self.stages));
        match action {
            PipelineAction::Forward { micro, chunk } => return self.forward(action, micro, chunk),
            PipelineAction::Backward { micro, chunk } => return self.backward(action, micro, chunk),
            PipelineAction::SendActivation { micro, chunk, to } => {
                let kept = self.kept.get(&(chunk, micro)).ok_or_else(|| missing("the output", action))?;
                send(group, to, label, Some(&kept.output))?;
            }
            PipelineAction::ReceiveActivation { micro, chunk, from } => {
                let x = receive(group, from, label)?.ok_or_else(|| missing("a tensor", action))?;
                self.arrived.insert((chunk, micro), x);
            }
            PipelineAction::SendGradient { micro, chunk, to } => {
                let g = self.leaving.remove(&(chunk, micro)).ok_or_else(|| missing("the gradient", action))?;
                send(group, to, label, Some(&g))?;
            }
            PipelineAction::ReceiveGradient { micro, chunk, from } => {
                let g = receive(group, from, label)?.ok_or_else(|| missing("a tensor", action))?;
                self.back.insert((chunk, micro), g);
            }
        }
        Ok(())
    }
    fn is_last(&self, chunk: usize) -> bool {
        self.stage + 1 == self.stages && chunk + 1 == self.pipeline.chunks.len()
    }
    #[track_caller]
    fn forward(&mut self, action: PipelineAction, micro: usize, chunk: usize) -> Result<()> {
        let is_first = self.stage == 0 && chunk == 0;
        let x = if is_first { self.inputs.get(micro).cloned() } else { self.arrived.remove(&(chunk, micro)) };
        let x = x.ok_or_else(|| missing("the input", action))?;
        let input = (!is_first && x.dtype()?.is_float()).then(|| x.tracked());
        self.around.begin(self.device)?;
        let output = self.pipeline.forward_chunk(chunk, input.as_ref().unwrap_or(&x));
        self.around.end()?;
        let mut output = output?;
        if self.is_last(chunk) {
            output = (self.loss)(micro, &output)?;
        }
        output.materialize()?;
        if self.is_last(chunk) {
            self.losses.insert(micro, output.detach());
        } else if let Some((to, next)) = next_of(action, self.stage, self.stages, self.pipeline.chunks.len())
            && to == self.stage
        {
            self.arrived.insert((next, micro), output.detach());
        }
        self.kept.insert((chunk, micro), KeptPass { input, output });
        Ok(())
    }
    #[track_caller]
    fn backward(&mut self, action: PipelineAction, micro: usize, chunk: usize) -> Result<()> {
        let KeptPass { input, output } = self.kept.remove(&(chunk, micro)).ok_or_else(|| missing("the forward pass", action))?;
        let grads = match (output.is_tracked(), self.is_last(chunk)) {
            (false, _) => Grads::default(),
            (true, true) => output.backward()?,
            (true, false) => output.backward_with(&self.back.remove(&(chunk, micro)).ok_or_else(|| missing("the gradient of the output", action))?)?,
        };
        let of = |param: &Param| grads.of(&param.cell()).cloned();
        if let Some(sum) = self.sums.get_mut(chunk) {
            sum.give(micro, self.own.get(chunk).into_iter().flatten().map(of).collect())?;
        }
        for (number, param) in self.also.get(chunk).into_iter().flatten() {
            if let Some(g) = of(param) {
                g.materialize()?;
                self.shared.insert((*number, chunk * self.stages + self.stage, micro), g);
            }
        }
        if let Some(input) = input {
            let g = grads.get(&input).cloned().unwrap_or_else(|| input.detach().zeros_like());
            g.materialize()?;
            match next_of(action, self.stage, self.stages, self.pipeline.chunks.len()) {
                Some((to, before)) if to == self.stage => self.back.insert((before, micro), g),
                _ => self.leaving.insert((chunk, micro), g),
            };
        }
        Ok(())
    }
}
/// The sum of the losses, which the last stage has, on all.
#[track_caller]
fn of_all_losses(losses: &BTreeMap<usize, Tensor>, micros: usize, group: &Group) -> Result<Vec<f64>> {
    let mut all = vec![0.0; micros];
    for (of, loss) in all.iter_mut().enumerate().filter_map(|(micro, of)| Some((of, losses.get(&micro)?))) {
        *of = loss.cast(DType::F64).item::<f64>()?;
    }
    if group.size == 1 {
        return Ok(all);
    }
    let kind = CollectiveKind::Broadcast { root: group.size as usize - 1, used: RankUse::Alike };
    // As bits: a device may have no f64.
    let bits = Tensor::from_vec(all.into_iter().map(|loss| loss.to_bits() as i64).collect(), [micros]);
    let bits = no_grad(|| Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[&bits])).to_vec::<i64>()?;
    Ok(bits.into_iter().map(|bits| f64::from_bits(bits as u64)).collect())
}
