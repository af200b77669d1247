//! Composites: named functions with a plain body. Everything that is not a primitive is one, or plain tensor code.
//!
//! The spec (name, attributes, shapes) is data and stands in the crate `adamant-ir`; here is what it means in tensors. The body
//! is the meaning and the fallback; a backend may claim the composite by name and run a kernel of its own. Unless it brings a
//! rule, its gradient is that of its body.
use crate::{
    Error, ErrorKind, Meta, Op, Outputs, Result, Tensor,
    error::Origin,
    recycle::{Remembered, remembered},
};
pub use adamant_ir::composite::{Attr, Attrs, Built, Composite, Given, Keyed, OperandSet, Reads};
pub use host::HostFunction;
use smallvec::SmallVec;
use std::{
    any::{Any, TypeId},
    sync::Arc,
};

pub mod activation;
pub mod attention;
pub mod conv;
pub mod ctc;
pub mod distances;
pub mod dropout;
pub mod embedding;
pub mod finite;
pub mod fourier;
mod host;
pub mod linear;
pub mod logsumexp;
pub mod loss;
pub mod norm;
pub mod on_diagonal;
pub mod packed;
pub mod quantize;
pub mod quantized_attention;
mod registry;
pub mod search;
pub mod softmax;
pub mod sorted_range;
pub mod split;
pub mod taps;
pub mod true_places;
pub mod wide;

pub(crate) use registry::is_registered;
pub use registry::{CONSTRUCTORS, Constructor, build, built, registered};

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
    /// which inputs, of 16 bits, take their gradient in f32 as well: it goes on to what is f32. Empty: none
    pub takes_wide: &'a [bool],
}
impl RuleArgs<'_> {
    /// What a gradient for input `k` is best computed of: an operand, widened where the gradient may keep the f32 that its sums are
    /// made in.
    pub fn operand(&self, k: usize, x: &Tensor) -> Tensor {
        if self.takes_wide.get(k) == Some(&true) { x.widened() } else { x.clone() }
    }
    /// A gradient for input `k` that was summed in f32: rounded to the input's dtype, unless it may stay.
    pub fn rounded(&self, k: usize, sum: Tensor) -> Tensor {
        if self.takes_wide.get(k) == Some(&true) { sum } else { self.metas.get(k).map_or(sum.clone(), |m| sum.cast(m.dtype)) }
    }
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
    /// Does it read input `k`? None from number 32 on.
    pub fn has_input(&self, k: usize) -> bool {
        has(self.inputs, k)
    }
    /// Does it read output `k`? None from number 32 on.
    pub fn has_output(&self, k: usize) -> bool {
        has(self.outputs, k)
    }
}
fn has(mask: u32, k: usize) -> bool {
    k < 32 && mask >> k & 1 == 1
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
pub(crate) fn of_stacks(composite: impl Compound, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
    let all: SmallVec<[Tensor; 6]> = inputs.iter().map(|x| x.of_each(examples)).collect();
    Some(Ok(whole(composite, &all.iter().collect::<SmallVec<[&Tensor; 6]>>())))
}
/// A function whose first input takes any number of leading axes and whose others are shared, applied to a stack.
pub(crate) fn of_first(composite: impl Compound, inputs: &[StackedInput]) -> Option<Result<Vec<Tensor>>> {
    let [StackedInput { tensor: x, batched: true }, shared @ ..] = inputs else { return None };
    if shared.iter().any(|s| s.batched) {
        return None;
    }
    let all: SmallVec<[&Tensor; 6]> = std::iter::once(x).chain(shared.iter().map(|s| &s.tensor)).collect();
    Some(Ok(whole(composite, &all)))
}
/// A function whose first input begins with an axis of samples that do not see each other, and whose others are shared: the
/// samples of all examples are more samples.
pub(crate) fn of_samples(composite: impl Compound, inputs: &[StackedInput]) -> Option<Result<Vec<Tensor>>> {
    let shape = inputs.first()?.tensor.meta().shape;
    if !inputs[0].batched || shape.rank() < 2 {
        return None;
    }
    let merged = inputs[0].tensor.reshape(shape.without(0).with(0, shape[0] * shape[1]));
    let first = StackedInput { tensor: merged, batched: true };
    of_first(composite, &std::iter::once(first).chain(inputs[1..].iter().cloned()).collect::<SmallVec<[StackedInput; 6]>>())
}

/// What a named function means: its body in ops and, if it brings one, its gradient.
///
/// ```
/// use adamant_core::{Composite, Compound, Device, ErrorKind, Result, Tensor, TensorType, composite::{Attr, Attrs}, Types};
///
/// /// `x / (|x| + softness)`, whose gradient is that of its body.
/// #[derive(Clone, Copy, Debug)]
/// struct Softsign { softness: f64 }
///
/// impl Composite for Softsign {
///     fn name(&self) -> &'static str { "example.softsign" }
///     fn attrs(&self) -> Attrs { [("softness", Attr::Float(self.softness))].into_iter().collect() }
///     fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> { Ok(vec![inputs[0]].into()) }
/// }
/// impl Compound for Softsign {
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
pub trait Compound: Composite + Sized {
    /// The meaning, in ops on tensors. A read inside is a typed error.
    ///
    /// # Errors
    /// Whatever its ops return.
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
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
}

/// What an op knows of its composite's type.
pub(crate) struct Meaning {
    body: fn(&dyn Composite, &[Tensor]) -> Result<Vec<Tensor>>,
    saves: fn(&dyn Composite) -> Option<Saves>,
    rule: fn(&dyn Composite, &RuleArgs<'_>) -> Result<Cotangents>,
    stacked: fn(&dyn Composite, &[StackedInput], usize) -> Option<Result<Vec<Tensor>>>,
}
impl Meaning {
    const fn of<C: Compound>() -> Meaning {
        Meaning {
            body: |c, inputs| of_type::<C>(c)?.body(inputs),
            saves: |c| of_type::<C>(c).ok()?.saves(),
            rule: |c, args| of_type::<C>(c)?.rule(args),
            stacked: |c, inputs, examples| of_type::<C>(c).ok()?.stacked(inputs, examples),
        }
    }
}
/// The spec as its own type, which its meaning was made for.
fn of_type<C: Compound>(spec: &dyn Composite) -> Result<&C> {
    let found = (spec as &dyn Any).downcast_ref();
    found.ok_or_else(|| Error::new(spec.name(), ErrorKind::Internal("a composite with the meaning of another".into())))
}
/// The parts of a composite that are written in tensors.
pub trait InTensors {
    /// [`Compound::body`].
    ///
    /// # Errors
    /// Whatever its ops return.
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    /// [`Compound::saves`].
    fn saves(&self) -> Option<Saves>;
    /// [`Compound::rule`].
    ///
    /// # Errors
    /// Whatever its ops return.
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents>;
    /// [`Compound::stacked`].
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>>;
}
fn meaning(of: &Keyed) -> Result<&'static Meaning> {
    let found = of.meaning().and_then(|m| m.downcast_ref());
    found.ok_or_else(|| Error::new(of.name(), ErrorKind::Internal("it is known to devices alone: it has no body".into())))
}
impl InTensors for Keyed {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        (meaning(self)?.body)(&**self.function(), inputs)
    }
    fn saves(&self) -> Option<Saves> {
        (meaning(self).ok()?.saves)(&**self.function())
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        (meaning(self)?.rule)(&**self.function(), args)
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        (meaning(self).ok()?.stacked)(&**self.function(), inputs, examples)
    }
}

thread_local! {
    static KNOWN: Remembered<Keyed> = Remembered::default();
}
/// The composite as an op holds it, or the one with the same key that this thread applied before: they are the same function.
pub fn keyed<C: Compound>(composite: C) -> Keyed {
    let key = composite.key();
    let is_of = |known: &Keyed, _: &C| (&**known.function() as &dyn Any).type_id() == TypeId::of::<C>();
    remembered(&KNOWN, key, composite, is_of, |composite| Keyed::new(Arc::new(composite), Some(&const { Meaning::of::<C>() })))
}

/// Applies a composite; the result holds all outputs, auxiliary ones too.
#[track_caller]
pub fn whole(composite: impl Compound, inputs: &[&Tensor]) -> Vec<Tensor> {
    Tensor::apply_many(Op::Composite(keyed(composite)), crate::Arg::None, inputs, Origin::here()).into_vec()
}
impl Tensor {
    /// Applies a composite; the result holds the outputs that are not auxiliary.
    #[track_caller]
    pub fn composite(composite: impl Compound, inputs: &[&Tensor]) -> Outputs {
        let hidden = composite.auxiliary();
        let mut outputs = Tensor::apply_many(Op::Composite(keyed(composite)), crate::Arg::None, inputs, Origin::here());
        outputs.truncate(outputs.len().saturating_sub(hidden).max(1));
        outputs
    }
    /// Applies a composite with one visible output.
    #[track_caller]
    pub fn composite1(composite: impl Compound, inputs: &[&Tensor]) -> Tensor {
        let name = composite.name();
        Tensor::composite(composite, inputs).into_iter().next().unwrap_or_else(|| Tensor::failed(Error::new(name, ErrorKind::Internal("no output".into()))))
    }
}
