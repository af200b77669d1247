//! Composites: named functions with a plain body. Everything that is not a primitive is one, or plain tensor code.
//!
//! The spec (name, attributes, shapes) is data and stands in the crate `adamant-ir`; here is what it means in tensors. The body
//! is the meaning and the fallback; a backend may claim the composite by name and run a kernel of its own. Unless it brings a
//! rule, its gradient is that of its body.
use crate::{
    Error, ErrorKind, Meta, Op, Result, Tensor,
    error::Origin,
    recycle::{Remembered, remembered},
    tensor::Outputs,
};
pub use adamant_ir::composite::{Attr, Attrs, Composite, Keyed, Reads};
use smallvec::SmallVec;
use std::{
    any::{Any, TypeId},
    sync::Arc,
};

pub mod activation;
pub mod attention;
pub mod conv;
pub mod dropout;
pub mod embedding;
pub mod finite;
mod given;
pub mod linear;
pub mod logsumexp;
pub mod loss;
pub mod norm;
pub mod quantize;
mod registry;
pub mod softmax;
pub mod split;
pub mod wide;

pub use given::Given;
pub(crate) use registry::is_registered;
pub use registry::{Built, CONSTRUCTORS, Constructor, build, registered};

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
}

/// What an op knows of its composite's type.
pub(crate) struct Meaning {
    body: fn(&dyn Composite, &[Tensor]) -> Result<Vec<Tensor>>,
    saves: fn(&dyn Composite) -> Option<Saves>,
    rule: fn(&dyn Composite, &RuleArgs<'_>) -> Result<Cotangents>,
}
impl Meaning {
    const fn of<C: Compound>() -> Meaning {
        Meaning { body: |c, inputs| of_type::<C>(c)?.body(inputs), saves: |c| of_type::<C>(c).ok()?.saves(), rule: |c, args| of_type::<C>(c)?.rule(args) }
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
