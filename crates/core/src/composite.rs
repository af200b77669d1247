//! Composites: named functions with a plain body. Everything that is not a primitive is one, or plain tensor code.
//!
//! The body is the meaning and the fallback; a backend may claim the composite by name and run a kernel of its
//! own. Unless it brings a rule, its gradient is that of its body.
use crate::{
    DType, Error, ErrorKind, HostArray, Meta, Op, Result, Tensor,
    error::Origin,
    op::{Metas, mix},
    recycle::{Remembered, remembered},
    tensor::Outputs,
};
use smallvec::SmallVec;
use std::{
    any::{Any, TypeId},
    borrow::Cow,
    fmt,
    ops::Deref,
    sync::Arc,
};

pub mod activation;
pub mod attention;
pub mod conv;
pub mod dropout;
pub mod embedding;
pub mod finite;
pub mod linear;
pub mod logsumexp;
pub mod loss;
pub mod norm;
pub mod quantize;
pub mod softmax;
pub mod split;
pub mod wide;

/// An attribute of a composite: part of its key, its text and its ONNX form.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// true or false
    Bool(bool),
    /// an integer
    Int(i64),
    /// a number
    Float(f64),
    /// a word
    Text(Cow<'static, str>),
    /// integers
    Ints(SmallVec<[i64; 6]>),
    /// a dtype
    DType(DType),
}
impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Bool(v) => write!(f, "{v}"),
            Attr::Int(v) => write!(f, "{v}"),
            Attr::Float(v) => write!(f, "{v}"),
            Attr::Text(v) => write!(f, "{v:?}"),
            Attr::Ints(v) => write!(f, "{v:?}"),
            Attr::DType(v) => write!(f, "{v}"),
        }
    }
}
/// Ordered name → value.
pub type Attrs = SmallVec<[(&'static str, Attr); 6]>;
/// One optional cotangent for each input of an op, or for each output.
pub type Cotangents = SmallVec<[Option<Tensor>; 4]>;

/// What a rule gets: the saved inputs and outputs, one optional cotangent per output, and which inputs want a gradient.
pub struct RuleArgs<'a> {
    /// inputs, `None` where not saved
    pub inputs: &'a [Option<Tensor>],
    /// outputs (auxiliary ones too), `None` where not saved
    pub outputs: &'a [Option<Tensor>],
    /// metas of all inputs
    pub metas: &'a [Meta],
    /// cotangents of the outputs, `None` = zero
    pub cotangents: &'a [Option<Tensor>],
    /// which inputs want a gradient
    pub needs: &'a [bool],
}
impl RuleArgs<'_> {
    /// A saved input.
    ///
    /// # Errors
    /// An internal error if the composite did not declare it.
    pub fn input(&self, k: usize) -> Result<&Tensor> {
        self.inputs.get(k).and_then(|t| t.as_ref()).ok_or_else(|| Error::new("backward", ErrorKind::Internal(format!("input {k} was not saved"))))
    }
    /// A saved output.
    ///
    /// # Errors
    /// An internal error if the composite did not declare it.
    pub fn output(&self, k: usize) -> Result<&Tensor> {
        self.outputs.get(k).and_then(|t| t.as_ref()).ok_or_else(|| Error::new("backward", ErrorKind::Internal(format!("output {k} was not saved"))))
    }
}

/// Which inputs and outputs a rule reads: bit k = number k.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Saves {
    /// inputs
    pub inputs: u32,
    /// outputs
    pub outputs: u32,
}
impl Saves {
    /// All of the first `n` inputs and no output.
    pub fn inputs(n: usize) -> Saves {
        Saves { inputs: (1u64 << n).wrapping_sub(1) as u32, outputs: 0 }
    }
}

/// An input of a composite that is applied to a stack of examples.
#[derive(Clone)]
pub struct StackedInput {
    /// the stack, whose first axis is that of the examples, or what they share
    pub tensor: Tensor,
    /// is it a stack?
    pub batched: bool,
}
impl StackedInput {
    /// The stack; what the examples share stands for each by strides of zero.
    #[track_caller]
    pub fn of_each(&self, examples: usize) -> Tensor {
        if self.batched || self.tensor.error().is_some() {
            return self.tensor.clone();
        }
        match self.tensor.meta().shape.insert(0, examples) {
            Ok(shape) => self.tensor.expand(shape),
            Err(kind) => Tensor::failed(Error::new("vmap", kind)),
        }
    }
}

/// A function that takes any number of leading axes, applied to stacks of all inputs.
pub(crate) fn of_stacks(composite: impl Composite, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
    let all: SmallVec<[Tensor; 6]> = inputs.iter().map(|x| x.of_each(examples)).collect();
    Some(Ok(whole(composite, &all.iter().collect::<SmallVec<[&Tensor; 6]>>())))
}
/// A function whose first input takes any number of leading axes and whose others are shared, applied to a stack.
pub(crate) fn of_first(composite: impl Composite, inputs: &[StackedInput]) -> Option<Result<Vec<Tensor>>> {
    let [StackedInput { tensor: x, batched: true }, shared @ ..] = inputs else { return None };
    if shared.iter().any(|s| s.batched) {
        return None;
    }
    let all: SmallVec<[&Tensor; 6]> = std::iter::once(x).chain(shared.iter().map(|s| &s.tensor)).collect();
    Some(Ok(whole(composite, &all)))
}
/// A function whose first input begins with an axis of samples that do not see each other, and whose others are shared: the
/// samples of all examples are more samples.
pub(crate) fn of_samples(composite: impl Composite, inputs: &[StackedInput]) -> Option<Result<Vec<Tensor>>> {
    let shape = inputs.first()?.tensor.meta().shape;
    if !inputs[0].batched || shape.rank() < 2 {
        return None;
    }
    let merged = inputs[0].tensor.reshape(shape.without(0).with(0, shape[0] * shape[1]));
    let first = StackedInput { tensor: merged, batched: true };
    of_first(composite, &std::iter::once(first).chain(inputs[1..].iter().cloned()).collect::<SmallVec<[StackedInput; 6]>>())
}

/// Where a composite finds an input, as an earlier one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// in that one's input of this number
    Input(usize),
    /// in that one's output of this number
    Output(usize),
    /// elsewhere
    Else,
}

/// A named function of tensors. Implementors are small values whose attributes are structure: name and attributes say all that
/// tells one of a type from another, and of those that say the same any may be applied for the other.
///
/// ```
/// use adamant_core::{Composite, Device, ErrorKind, Meta, Result, Tensor, composite::{Attr, Attrs}, op::Metas};
///
/// /// `x / (|x| + softness)`, whose gradient is that of its body.
/// #[derive(Clone, Copy, Debug)]
/// struct Softsign { softness: f64 }
///
/// impl Composite for Softsign {
///     fn name(&self) -> &'static str { "example.softsign" }
///     fn attrs(&self) -> Attrs { [("softness", Attr::Float(self.softness))].into_iter().collect() }
///     fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> { Ok(vec![inputs[0]].into()) }
///     fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         Ok(vec![&inputs[0] / (inputs[0].abs() + self.softness)])
///     }
/// }
///
/// # Device::reference().make_current();
/// let x = Tensor::from_vec(vec![1.0f32, -3.0], [2]).tracked();
/// let y = Tensor::composite1(Softsign { softness: 1.0 }, &[&x]);
/// assert_eq!(y.to_vec::<f32>()?, [0.5, -0.75]);
/// assert_eq!(y.sum(..).backward()?.get(&x).unwrap().to_vec::<f32>()?, [0.25, 0.0625]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Composite: Any + Send + Sync + fmt::Debug {
    /// The name, unique over all composites: `adamant.softmax`.
    fn name(&self) -> &'static str;
    /// The attributes, in a fixed order.
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    /// Metas of the outputs, auxiliary ones last.
    ///
    /// # Errors
    /// Inputs that do not go together.
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind>;
    /// How many of the outputs are auxiliary: seen by the rule, not by the user.
    fn auxiliary(&self) -> usize {
        0
    }
    /// The meaning, in ops on tensors. A read inside is a typed error.
    ///
    /// # Errors
    /// Whatever its ops return.
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    /// The meaning in plain Rust on host arrays, for what cannot be written in ops. A composite has a body or this.
    ///
    /// # Errors
    /// Values outside the domain.
    fn host(&self, _inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        None
    }
    /// Is it defined by [`Composite::host`]?
    fn is_host(&self) -> bool {
        false
    }
    /// Can its kernel find bad values in its data (an index out of range)?
    fn can_fault(&self) -> bool {
        self.is_host()
    }
    /// What the rule reads. `None`: there is no rule, the body is differentiated.
    fn saves(&self) -> Option<Saves> {
        None
    }
    /// The gradient: one optional cotangent per input.
    ///
    /// # Errors
    /// Whatever its ops return.
    fn rule(&self, _args: &RuleArgs<'_>) -> Result<Cotangents> {
        Err(Error::new(self.name(), ErrorKind::Internal("saves() is declared but rule() is not".into())))
    }
    /// What it does to a stack of examples, for [`vmap`](crate::transform::vmap()): the outputs of all of them, auxiliary ones
    /// too, each with the examples' axis in front or with its elements in that order. `None`, also for some inputs only: its
    /// body is run on the stack, which serves every composite that has one. A composite brings this where a kernel of its own
    /// takes stacks as it is.
    fn stacked(&self, _inputs: &[StackedInput], _examples: usize) -> Option<Result<Vec<Tensor>>> {
        None
    }
    /// This function and a `later` one that reads it, as one: of this one's inputs and then those that the later one finds
    /// elsewhere, with this one's outputs and then the later one's. It takes the place of both on a device that claims it,
    /// where nothing between them reads this one's outputs. `None`: they stay two.
    fn joined(&self, _later: &dyn Composite, _reads: &[Reads]) -> Option<Arc<dyn Composite>> {
        None
    }
    /// The structure: two composites with one key are the same function.
    fn key(&self) -> u64 {
        self.attrs().iter().fold(mix_bytes(0xC0, self.name()), |h, (name, value)| {
            let h = mix_bytes(h, name);
            match value {
                Attr::Bool(v) => mix(mix(h, 1), *v as u64),
                Attr::Int(v) => mix(mix(h, 2), *v as u64),
                Attr::Float(v) => mix(mix(h, 3), v.to_bits()),
                Attr::DType(v) => mix(mix(h, 4), *v as u64),
                Attr::Text(v) => mix_bytes(mix(h, 5), v),
                Attr::Ints(v) => v.iter().fold(mix(mix(h, 6), v.len() as u64), |h, i| mix(h, *i as u64)),
            }
        })
    }
}
fn mix_bytes(hash: u64, text: &str) -> u64 {
    text.as_bytes().chunks(8).fold(mix(hash, text.len() as u64), |hash, some| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        mix(hash, u64::from_le_bytes(word))
    })
}

/// A composite as an op holds it: shared, and with its key, which is asked for once.
#[derive(Clone)]
pub struct Keyed {
    function: Arc<dyn Composite>,
    key: u64,
}
thread_local! {
    static KNOWN: Remembered<Keyed> = Remembered::default();
}
impl Keyed {
    /// The composite, or the one with the same key that this thread applied before: they are the same function.
    pub fn new<C: Composite>(composite: C) -> Keyed {
        let key = composite.key();
        let is_of = |known: &Keyed, _: &C| (&*known.function as &dyn Any).type_id() == TypeId::of::<C>();
        remembered(&KNOWN, key, composite, is_of, |composite| Keyed { function: Arc::new(composite), key })
    }
    /// The composite itself.
    pub fn function(&self) -> &Arc<dyn Composite> {
        &self.function
    }
    /// [`Composite::key`], without asking for it again.
    pub fn key(&self) -> u64 {
        self.key
    }
}
impl From<Arc<dyn Composite>> for Keyed {
    fn from(function: Arc<dyn Composite>) -> Keyed {
        Keyed { key: function.key(), function }
    }
}
impl Deref for Keyed {
    type Target = dyn Composite;
    fn deref(&self) -> &(dyn Composite + 'static) {
        &*self.function
    }
}

/// Applies a composite; the result holds all outputs, auxiliary ones too.
#[track_caller]
pub fn whole(composite: impl Composite, inputs: &[&Tensor]) -> Vec<Tensor> {
    Tensor::apply_many(Op::Composite(Keyed::new(composite)), crate::Arg::None, inputs, Origin::here()).into_vec()
}
impl Tensor {
    /// Applies a composite; the result holds the outputs that are not auxiliary.
    #[track_caller]
    pub fn composite(composite: impl Composite, inputs: &[&Tensor]) -> Outputs {
        let hidden = composite.auxiliary();
        let mut outputs = Tensor::apply_many(Op::Composite(Keyed::new(composite)), crate::Arg::None, inputs, Origin::here());
        outputs.truncate(outputs.len().saturating_sub(hidden).max(1));
        outputs
    }
    /// Applies a composite with one visible output.
    #[track_caller]
    pub fn composite1(composite: impl Composite, inputs: &[&Tensor]) -> Tensor {
        let name = composite.name();
        Tensor::composite(composite, inputs).into_iter().next().unwrap_or_else(|| Tensor::failed(Error::new(name, ErrorKind::Internal("no output".into()))))
    }
}
