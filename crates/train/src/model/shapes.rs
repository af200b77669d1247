//! A description's model by its shapes alone: what each layer takes and gives, what the loss takes, and how much memory the
//! parameters need. Nothing is drawn and nothing is computed, so a model of any size is looked at in no time.
use super::{LayerStack, stack};
use crate::{
    Failure,
    analysis::ArchitecturePicture,
    config::Section,
    failure::in_words,
    objective::Objective,
    summary::{self, Looked, Summary, size},
};
use adamant_amp::Precision;
use adamant_core::{DType, Device, ErrorKind, Meta, Op, Shape, graph::Graph};
use adamant_data::{Facts, Target};
use adamant_nn::{Walk, init};
use std::collections::HashSet;

/// A model that was looked at.
pub(crate) struct Shapes {
    stack: LayerStack,
    pub summary: Summary,
    pub picture: ArchitecturePicture,
    /// the paths of parameters that nothing reads but casts to 16 bits
    pub low_weights: Vec<String>,
}
/// The layer's key that says how wide its input is.
const TAKES: [&str; 8] = ["in_features", "in_channels", "num_features", "normalized_shape", "num_channels", "d_model", "input_size", "features"];

/// Looks at the model of a section for a batch of inputs.
///
/// # Errors
/// A layer that makes no sense, or that does not take what it is given, with its line.
pub(crate) fn shapes(section: &Section<'_>, shape: &[usize], dtype: DType, batch: usize, precision: &Precision) -> Result<Shapes, Failure> {
    // Any device will do where nothing runs; this one has no threads to start.
    Device::reference().scoped(|| {
        init::shapes_only(|| {
            let stack = stack(section)?;
            stack.countable(section)?;
            let dims = [&[batch], shape].concat();
            let look = || summary::look(&stack.model, &dims, dtype).map_err(|e| stack.blame(section, e));
            let looked = match precision.region()? {
                Some(region) => region.run(look)?,
                None => look()?,
            };
            Ok(Shapes { stack, picture: ArchitecturePicture::of(&looked), low_weights: low_weights(&looked), summary: looked.summary })
        })
    })
}
/// The paths of parameters of f32 that nothing reads but casts to 16 bits, also of another view of them: what is stored in 16 bits instead
/// is the same to the model.
fn low_weights(looked: &Looked) -> Vec<String> {
    let graph = &looked.graph;
    let is_low = |value: u32| {
        let (mut seen, mut todo) = (false, vec![value]);
        while let Some(value) = todo.pop() {
            if graph.outputs.contains(&value) {
                return false;
            }
            for node in graph.nodes.iter().filter(|node| node.inputs.contains(&value)) {
                match &node.op {
                    Op::Cast(DType::F16 | DType::BF16) => seen = true,
                    Op::View(_) => todo.extend(node.outputs.clone()),
                    _ => return false,
                }
            }
        }
        seen
    };
    let low: HashSet<u64> = graph.cells.iter().filter(|c| c.ty.dtype == DType::F32 && c.read.is_some_and(is_low)).map(|c| c.id).collect();
    looked.leaves.iter().filter(|(_, p)| low.contains(&p.cell().id())).map(|(path, _)| path.clone()).collect()
}
impl Shapes {
    /// Do the model's outputs go with the targets?
    ///
    /// # Errors
    /// They do not, with the line of the layer that makes them.
    pub fn answer(&self, section: &Section<'_>, objective: &Objective, inputs: &Facts, targets: &Target) -> Result<(), Failure> {
        let batch = self.summary.input.first().copied().unwrap_or(1);
        let of_target = |dims: &[usize], dtype: DType| Some((Shape::new(&[&[batch], dims].concat()).ok()?, dtype));
        let target = match targets {
            Target::Classes { .. } => of_target(&[], DType::I64),
            Target::NextToken { .. } => of_target(&inputs.shape, DType::I64),
            Target::Values(facts) => of_target(&facts.shape, facts.dtype),
        };
        let (Some((target, dtype)), Ok(output)) = (target, Shape::new(&self.summary.output)) else { return Ok(()) };
        let device = Device::reference();
        let metas = [Meta { shape: output, dtype: DType::F32, device }, Meta { shape: target, dtype, device }];
        device
            .scoped(|| Graph::capture(device, &metas, |x| Ok(vec![objective.loss(&x[0], &x[1])?])))
            .map_err(|e| self.stack.of_last(section, format!("what the model gives does not go with the targets: {}", in_words(&e))))?;
        let given = output.last().copied().unwrap_or(1);
        let fault = match (objective.tells_classes(), targets) {
            (true, Target::Classes { count, .. }) if given != *count => format!("{given} classes, and the data have {count}"),
            (true, Target::NextToken { vocabulary }) if given < *vocabulary => format!("{given} tokens, and the data have {vocabulary}"),
            _ => return Ok(()),
        };
        Err(self.stack.of_last(section, format!("the model tells {fault}: the last axis of its output is {output}")))
    }
    /// Is there memory for what backward reads? That is an estimate, so it must be far off.
    fn keeps(&self, section: &Section<'_>, available: Option<u64>) -> Result<(), Failure> {
        let kept = self.summary.totals.activation_bytes;
        let Some(available) = available.filter(|available| kept / FAR_OFF > *available) else { return Ok(()) };
        let largest = self.summary.rows.iter().max_by_key(|row| row.figures.activation_bytes);
        let what = format!("about {} of memory are needed for what backward reads of a batch, {} are available", size(kept), size(available));
        let failure = match largest.and_then(|row| self.stack.layer(section, &row.path)) {
            Some(layer) => layer.wrong(format!("`{}`: {what}", layer.path())),
            None => section.wrong(what),
        };
        Err(Failure::Memory(failure.to_string()))
    }
    /// Is there memory for the model and its optimizer's state? Only what is needed for certain is counted: what a step needs
    /// besides is found by a dry run.
    ///
    /// # Errors
    /// `Memory`: there is not, with the line of the layer that needs the most.
    pub fn fits(&self, section: &Section<'_>, slots: usize, available: Option<u64>) -> Result<(), Failure> {
        let parameters = self.summary.parameter_bytes as u64;
        let state = (self.summary.trainable as u64).saturating_mul(4).saturating_mul(slots as u64);
        let needed = parameters.saturating_add(state);
        self.keeps(section, available)?;
        let Some(available) = available.filter(|available| needed > *available) else { return Ok(()) };
        let what = format!(
            "{} of memory are needed for {} parameters and the optimizer's state, {} are available",
            size(needed),
            self.summary.parameters,
            size(available)
        );
        let largest = self.summary.rows.iter().max_by_key(|row| row.parameters);
        let layer = largest.and_then(|row| Some((row, self.stack.layer(section, &row.path)?)));
        let failure = match layer {
            Some((row, layer)) => layer.wrong(format!("`{}`: {what}; {} of the parameters are of this layer", layer.path(), row.parameters)),
            None => section.wrong(what),
        };
        Err(Failure::Memory(failure.to_string()))
    }
}
/// How many times what there is an estimate has to be to be believed.
const FAR_OFF: u64 = 4;
/// More parameters than any machine has, and few enough that sums of their bytes stay integers.
const MOST_PARAMETERS: usize = 1 << 56;

impl LayerStack {
    /// Can its parameters be counted?
    fn countable(&self, section: &Section<'_>) -> Result<(), Failure> {
        let mut total = 0usize;
        for (path, leaf) in self.model.leaves() {
            total = total.saturating_add(leaf.elements());
            if total > MOST_PARAMETERS {
                let what = format!("with `{path}` the model has more than {MOST_PARAMETERS} parameters");
                let failure = self.layer(section, &path).map_or_else(|| section.wrong_key("layers", &what), |layer| layer.wrong(&what));
                return Err(Failure::Memory(failure.to_string()));
            }
        }
        Ok(())
    }
    /// The layer of the description that a path of the model belongs to.
    fn layer<'a>(&self, section: &Section<'a>, path: &str) -> Option<Section<'a>> {
        let holds = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let (_, at) = self.places.iter().filter(|(name, _)| holds(name)).max_by_key(|(name, _)| name.len())?;
        section.sections("layers").ok()??.into_iter().nth(*at)
    }
    /// An error of a forward pass, at the line of its layer. What the machine lacks is no layer's fault.
    fn blame(&self, section: &Section<'_>, error: adamant_core::Error) -> Failure {
        match error.kind() {
            ErrorKind::OutOfMemory { .. } | ErrorKind::DeviceAbsent(_) | ErrorKind::DeviceLost(_) | ErrorKind::Internal(_) => error.into(),
            _ => match self.layer(section, &error.scope()) {
                Some(layer) => {
                    let text = in_words(&error);
                    // A window that does not fit is no matter of channels.
                    let window = (text.contains("kernel must fit") || text.contains("window")) && layer.has("kernel_size");
                    match TAKES.iter().copied().find(|key| layer.has(key)).map(|key| if window { "kernel_size" } else { key }) {
                        Some(key) => layer.wrong_key(key, text),
                        None => layer.wrong(format!("`{}`: {text}", layer.path())),
                    }
                }
                None => section.wrong_key("layers", in_words(&error)),
            },
        }
    }
    /// A fault of what the model gives, at the line of the last layer that has a width.
    fn of_last(&self, section: &Section<'_>, what: String) -> Failure {
        let layers = section.sections("layers").ok().flatten().unwrap_or_default();
        match layers.iter().rev().find(|layer| layer.has("out_features")) {
            Some(layer) => layer.wrong_key("out_features", what),
            None => section.wrong_key("layers", what),
        }
    }
}
