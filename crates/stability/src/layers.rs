//! What a model's layers and parameters are like in a step: a few numbers of each, computed on the device and read at once.
//!
//! Data flow: the forward pass runs in [`LayerLook::forward`], where an interceptor notes what each layer gives: the last of what the ops in its
//! scope make that is used outside of it. [`LayerLook::batch`] is given what the step learns from, [`LayerLook::gradients`] gradients as they are
//! before clipping; [`LayerLook::finish`] is called behind the optimizer's step and makes one small tensor of it all. In a captured step that is one
//! more result; [`LayerNames::read`] puts names to its numbers.
//!
//! Nothing that is looked at changes by it.
use adamant_core::{
    Arg, DType, Device, Error, ErrorKind, Grads, Op, Origin, Outputs, Result, Tensor,
    grad::{grad_enabled, with_grad},
    intercept::{self, Interceptor},
    scope,
};
use adamant_nn::Param;
use adamant_optim::get_total_norm;
use parking_lot::Mutex;
use std::sync::Arc;

/// What stands for a number that there is none of: all others are at least 0, or NaN.
const NONE: f64 = -1.0;
/// Numbers of a tensor of the batch, of a layer, and of a parameter.
const OF_BATCH: usize = 3;
const OF_LAYER: usize = 5;
const OF_PARAMETER: usize = 4;
/// From here on a number between -1 and 1 is saturated.
const SATURATED: f64 = 0.99;

/// What a tensor of floats in the batch was like.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BatchNumbers {
    /// which of the batch's tensors
    pub tensor: usize,
    /// the largest absolute value
    pub largest: f64,
    /// the mean absolute value
    pub mean: f64,
    /// the share of elements that are 0
    pub zeros: f64,
}
/// What the result of a layer was like.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LayerNumbers {
    /// its path
    pub layer: String,
    /// the op that gave the result
    pub op: String,
    /// the largest absolute value
    pub largest: f64,
    /// the mean absolute value
    pub mean: f64,
    /// the share of elements that are 0
    pub zeros: f64,
    /// the share of units (channels, features) that are 0 in every row; none where there is no axis of units
    pub dead: Option<f64>,
    /// of the last sigmoid in the layer, a gate in a recurrent one, the share of elements below 0.01 or above 0.99; where it has none, of the
    /// last tanh the share beyond ± 0.99; none where it has neither
    pub saturated: Option<f64>,
}
/// What a parameter was like.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ParameterNumbers {
    /// its path
    pub parameter: String,
    /// its shape
    pub shape: Vec<usize>,
    /// the norm of its gradient before clipping; none where there is no gradient
    pub gradient: Option<f64>,
    /// its norm before the step
    pub weight: f64,
    /// the norm of what the step added to it
    pub update: f64,
    /// its largest element less its least one, before the step; none where it has no elements, or complex ones
    pub range: Option<f64>,
}
/// All numbers of a look.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LookedNumbers {
    /// of the batch
    pub batch: Vec<BatchNumbers>,
    /// of what each layer gave, in the order of their first op
    pub layers: Vec<LayerNumbers>,
    /// of each parameter
    pub parameters: Vec<ParameterNumbers>,
}
/// What the numbers of a step are of.
#[derive(Clone, Debug, Default)]
pub struct LayerNames {
    batch: Vec<usize>,
    layers: Vec<(String, &'static str)>,
    parameters: Vec<(String, Vec<usize>)>,
}
impl LayerNames {
    /// Reads the numbers, which waits for the device.
    ///
    /// # Errors
    /// A device that failed; numbers of something else.
    #[track_caller]
    pub fn read(&self, numbers: &Tensor) -> Result<LookedNumbers> {
        let all = numbers.to_vec_as::<f64>()?;
        let (of_batch, rest) = all.split_at_checked(self.batch.len() * OF_BATCH).unwrap_or_default();
        let (of_layers, rest) = rest.split_at_checked(self.layers.len() * OF_LAYER).unwrap_or_default();
        if rest.len() != self.parameters.len() * OF_PARAMETER {
            let text = format!("{} numbers are not those of {} layers and {} parameters", all.len(), self.layers.len(), self.parameters.len());
            return Err(Error::new("LayerNames", ErrorKind::Argument(text)));
        }
        let known = |x: f64| (x != NONE).then_some(x);
        let batch = |(tensor, x): (&usize, &[f64])| BatchNumbers { tensor: *tensor, largest: x[0], mean: x[1], zeros: x[2] };
        let layer = |((layer, op), x): (&(String, &'static str), &[f64])| LayerNumbers {
            layer: layer.clone(),
            op: (*op).to_string(),
            largest: x[0],
            mean: x[1],
            zeros: x[2],
            dead: known(x[3]),
            saturated: known(x[4]),
        };
        let parameter = |((name, shape), x): (&(String, Vec<usize>), &[f64])| ParameterNumbers {
            parameter: name.clone(),
            shape: shape.clone(),
            gradient: known(x[0]),
            weight: x[1],
            update: x[2],
            range: known(x[3]),
        };
        Ok(LookedNumbers {
            batch: self.batch.iter().zip(of_batch.chunks_exact(OF_BATCH)).map(batch).collect(),
            layers: self.layers.iter().zip(of_layers.chunks_exact(OF_LAYER)).map(layer).collect(),
            parameters: self.parameters.iter().zip(rest.chunks_exact(OF_PARAMETER)).map(parameter).collect(),
        })
    }
}
/// What is seen of a layer.
struct SeenLayer {
    layer: String,
    /// Was anything of it used elsewhere?
    used: bool,
    /// the last of it that was; until then the last that it made
    output: MadeValue,
    /// what it has made since then
    made: Vec<MadeValue>,
    bounded: Option<BoundedResult>,
}
/// A value, and the op that computed it.
#[derive(Clone)]
struct MadeValue {
    op: &'static str,
    value: Tensor,
}
/// The result of a tanh or a sigmoid.
struct BoundedResult {
    output: Tensor,
    is_gate: bool,
}
impl BoundedResult {
    fn of(op: &str, output: &Tensor) -> Option<BoundedResult> {
        matches!(op, "tanh" | "sigmoid").then(|| BoundedResult { output: output.detach(), is_gate: op == "sigmoid" })
    }
    /// The share of what is saturated.
    fn saturated(&self) -> Tensor {
        let low = if self.is_gate { 1.0 - SATURATED } else { -SATURATED };
        self.output.lt(low).logical_or(self.output.gt(SATURATED)).cast(DType::F32).mean(..)
    }
}
/// Looks at the layers and parameters of one step.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
/// # use adamant_optim::{Optimizer, Sgd, UpdateRule};
/// # use adamant_stability::LayerLook;
/// # adamant_core::Device::reference().make_current();
/// let net = Sequential::new().add(Linear::new(2, 3)?).add(Relu::new()).add(Linear::new(3, 1)?);
/// let mut sgd = Sgd::new(0.1).over(net.parameters());
/// let mut look = LayerLook::new();
/// let loss = look.forward(|| net.forward(&Tensor::ones([4, 2])))?.square().mean(..);
/// let grads = loss.backward()?;
/// look.gradients(&grads, &net.named_parameters())?;
/// sgd.step(&grads)?;
/// let (numbers, names) = look.finish(&net.named_parameters())?;
/// let seen = names.read(&numbers)?;
/// assert_eq!(seen.layers.iter().map(|l| l.layer.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
/// assert!((seen.parameters[0].update - 0.1 * seen.parameters[0].gradient.unwrap()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Default)]
pub struct LayerLook {
    batch: Vec<(usize, Tensor)>,
    seen: Vec<SeenLayer>,
    gradients: Vec<Option<Tensor>>,
    before: Vec<Tensor>,
}
impl LayerLook {
    /// Nothing was looked at.
    pub fn new() -> LayerLook {
        LayerLook::default()
    }
    /// Takes what the step learns from: tensors of floats are looked at.
    pub fn batch(&mut self, tensors: &[&Tensor]) {
        let floats = tensors.iter().enumerate().filter(|(_, x)| has_floats(x));
        self.batch = floats.map(|(k, x)| (k, x.detach())).collect();
    }
    /// Runs a forward pass, and notes what its layers give. Of several passes the last counts.
    pub fn forward<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let result = intercept::with(Arc::new(LayerWatch(seen.clone())), f);
        self.seen = std::mem::take(&mut *seen.lock());
        for of in &mut self.seen {
            of.made.clear();
            of.output.value = of.output.value.detach();
        }
        result
    }
    /// Takes gradients before clipping, and the parameters before they change.
    ///
    /// # Errors
    /// A tensor that carries an error.
    #[track_caller]
    pub fn gradients(&mut self, grads: &Grads, parameters: &[(String, Param)]) -> Result<()> {
        with_grad(false, || {
            self.gradients = parameters.iter().map(|(_, p)| grads.of(&p.cell()).map(norm).transpose()).collect::<Result<_>>()?;
            self.before = parameters.iter().map(|(_, p)| p.detached()).collect();
            Ok(())
        })
    }
    /// All numbers, `[n]` of f32 on the device of the first parameter, not yet computed: behind the optimizer's step.
    ///
    /// # Errors
    /// A tensor that carries an error; [`LayerLook::gradients`] was not called with these parameters.
    #[track_caller]
    pub fn finish(self, parameters: &[(String, Param)]) -> Result<(Tensor, LayerNames)> {
        if self.before.len() != parameters.len() {
            let text = format!("gradients of {} parameters were seen, not of {}", self.before.len(), parameters.len());
            return Err(Error::new("LayerLook", ErrorKind::Argument(text)));
        }
        let device = match parameters.first() {
            Some((_, p)) => p.meta().device,
            None => Device::current()?,
        };
        with_grad(false, || {
            let mut all = Vec::new();
            for (_, x) in &self.batch {
                all.extend(sizes(&x.cast(DType::F32))?);
            }
            for seen in &self.seen {
                all.extend(seen.numbers()?);
            }
            let none = || Tensor::full_on([1], NONE, DType::F32, device);
            for (((_, p), before), gradient) in parameters.iter().zip(&self.before).zip(&self.gradients) {
                let range = if has_floats(before) { (before.amax(..) - before.amin(..)).cast(DType::F32).reshape([1]) } else { none() };
                all.extend([gradient.clone().unwrap_or_else(none), norm(before)?, norm(&(p.detached() - before))?, range]);
            }
            let all: Vec<Tensor> = all.iter().map(|x| x.to(device)).collect();
            let numbers = if all.is_empty() { Tensor::full_on([0], 0.0, DType::F32, device) } else { Tensor::cat(&all, 0) };
            let layers = self.seen.into_iter().map(|seen| (seen.layer, seen.output.op)).collect();
            let parameters = parameters.iter().map(|(name, p)| (name.clone(), p.meta().shape.to_vec())).collect();
            Ok((numbers.ok()?, LayerNames { batch: self.batch.into_iter().map(|(k, _)| k).collect(), layers, parameters }))
        })
    }
}
/// The Euclidean norm as f32, `[1]`.
#[track_caller]
fn norm(x: &Tensor) -> Result<Tensor> {
    get_total_norm([&x.detach()], 2.0, false)?.cast(DType::F32).reshape([1]).ok()
}
fn has_floats(x: &Tensor) -> bool {
    x.try_meta().is_ok_and(|meta| meta.dtype.is_float() && meta.shape.elements() > 0)
}
/// The largest and the mean absolute value, and the share of zeros, `[1]` each.
#[track_caller]
fn sizes(x: &Tensor) -> Result<[Tensor; OF_BATCH]> {
    let size = x.abs();
    let one = |x: Tensor| x.reshape([1]).ok();
    Ok([one(size.amax(..))?, one(size.mean(..))?, one(x.eq(0.0).cast(DType::F32).mean(..))?])
}
impl SeenLayer {
    fn numbers(&self) -> Result<[Tensor; OF_LAYER]> {
        let x = self.output.value.cast(DType::F32);
        let shape = x.shape()?;
        let one = |x: Tensor| x.reshape([1]).ok();
        let zero = x.eq(0.0).cast(DType::F32);
        let none = || Tensor::full_on([1], NONE, DType::F32, x.device().unwrap_or_else(|_| Device::reference()));
        // Channels of images are their second axis, features the last.
        let units = match shape.rank() {
            0 | 1 => None,
            2 | 3 => Some(shape.rank() - 1),
            _ => Some(1),
        };
        let others = |units: usize| (0..shape.rank()).filter(|axis| *axis != units).collect::<Vec<usize>>();
        let dead = units.map_or_else(|| Ok(none()), |units| one(zero.amin(others(units)).mean(..)))?;
        let saturated = match &self.bounded {
            None => none(),
            Some(bounded) => one(bounded.saturated())?,
        };
        let [largest, mean, zeros] = sizes(&x)?;
        Ok([largest, mean, zeros, dead, saturated])
    }
}
/// Is a scope, or one inside of it?
fn is_within(scope: &str, layer: &str) -> bool {
    scope.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
/// Notes what each layer gives in a pass whose gradients are recorded: what an op outside of it is given. (Its last op may be another one, that
/// of running statistics.)
struct LayerWatch(Arc<Mutex<Vec<SeenLayer>>>);
impl Interceptor for LayerWatch {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let (name, layer) = (op.name(), scope::path(Origin::here().scope));
        // What only moves numbers is not what computed them.
        let moves = matches!(op, Op::View(_) | Op::Cast(_) | Op::Concat { .. } | Op::StopGrad | Op::Transfer(_));
        let outputs = next(op, arg, inputs);
        if !grad_enabled() {
            return outputs;
        }
        let mut seen = self.0.lock();
        for of in seen.iter_mut().filter(|of| !of.made.is_empty() && !is_within(&layer, &of.layer)) {
            let is_given = |made: &MadeValue| inputs.iter().any(|x| x.value_address() == made.value.value_address());
            if let Some(used) = of.made.iter().rposition(is_given) {
                (of.used, of.output) = (true, of.made.swap_remove(used));
                of.made.clear();
            }
        }
        if let Some(value) = outputs.first().filter(|x| has_floats(x)).filter(|_| !layer.is_empty()) {
            let bounded = BoundedResult::of(name, value);
            let of_layer = seen.iter_mut().find(|of| of.layer == layer);
            let op = of_layer.as_ref().filter(|_| moves).map_or(name, |of| of.made.last().unwrap_or(&of.output).op);
            let made = MadeValue { op, value: value.clone() };
            match of_layer {
                None => seen.push(SeenLayer { layer, used: false, output: made.clone(), made: vec![made], bounded }),
                Some(of) => {
                    if !of.used {
                        of.output = made.clone();
                    }
                    of.made.push(made);
                    if let Some(new) = bounded.filter(|new| new.is_gate || of.bounded.as_ref().is_none_or(|before| !before.is_gate)) {
                        of.bounded = Some(new);
                    }
                }
            }
        }
        outputs
    }
}
