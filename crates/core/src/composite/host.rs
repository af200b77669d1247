//! Functions whose meaning is plain Rust on host arrays, for what cannot be written in ops. A [`HostFunction`] has no body of
//! ops, and a [`Compound`] that has one needs no meaning on the host: which of the two it is stands in its type.
use super::{Attrs, Compound, Cotangents, RuleArgs, Saves};
use crate::{Composite, Error, ErrorKind, HostArray, Outputs, Result, Tensor, TensorType, Types};
use std::{any::Any, fmt};

/// A named function that runs on the host: on the CPU and the reference device.
///
/// ```
/// use adamant_core::{Device, ErrorKind, HostArray, Result, Tensor, TensorType, Types, composite::{Cotangents, HostFunction, RuleArgs, Saves}};
///
/// /// The elements in the order of their digits in base 2 read backwards, as a Fourier transform takes them.
/// #[derive(Clone, Copy, Debug)]
/// struct BitReversed;
/// impl HostFunction for BitReversed {
///     fn name(&self) -> &'static str { "example.bit_reversed" }
///     fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> { Ok(vec![inputs[0]].into()) }
///     fn run(&self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind> {
///         let x = &inputs[0];
///         let n = x.shape.elements();
///         let reversed = |k: usize| k.reverse_bits() >> (usize::BITS - n.ilog2());
///         Ok(vec![HostArray::floats(x.shape, x.dtype, (0..n).map(|k| x.float(reversed(k))))])
///     }
///     fn saves(&self) -> Option<Saves> { Some(Saves::default()) }
///     fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
///         // It is its own inverse.
///         Ok(args.cotangents[0].iter().map(|g| Tensor::on_host(BitReversed, &[g]).into_iter().next()).collect())
///     }
/// }
///
/// # Device::reference().make_current();
/// let x = Tensor::from_vec(vec![0.0f32, 1.0, 2.0, 3.0], [4]).tracked();
/// let y = &Tensor::on_host(BitReversed, &[&x])[0];
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0, 1.0, 3.0]);
/// assert_eq!((y * y).sum(..).backward()?.get(&x).unwrap().to_vec::<f32>()?, [0.0, 2.0, 4.0, 6.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait HostFunction: Any + Send + Sync + fmt::Debug + Clone {
    /// The name, unique over all composites.
    fn name(&self) -> &'static str;
    /// The attributes, in a fixed order.
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    /// Types of the outputs.
    ///
    /// # Errors
    /// Inputs that do not go together.
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind>;
    /// The meaning.
    ///
    /// # Errors
    /// Values outside the domain.
    fn run(&self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind>;
    /// What the gradient reads. `None`: it has no gradient, and to ask for one is an error.
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
/// A host function as the composite that it is.
#[derive(Clone, Debug)]
struct OnHost<F>(F);
impl<F: HostFunction> Composite for OnHost<F> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn attrs(&self) -> Attrs {
        self.0.attrs()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        self.0.infer(inputs)
    }
    fn is_host(&self) -> bool {
        true
    }
    fn host(&self, inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        Some(self.0.run(inputs))
    }
}
impl<F: HostFunction> Compound for OnHost<F> {
    fn body(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::new(self.0.name(), ErrorKind::Internal("it is defined on the host".into())))
    }
    fn saves(&self) -> Option<Saves> {
        self.0.saves()
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        self.0.rule(args)
    }
}
impl Tensor {
    /// Applies a function that runs on the host.
    #[track_caller]
    pub fn on_host(function: impl HostFunction, inputs: &[&Tensor]) -> Outputs {
        Tensor::composite(OnHost(function), inputs)
    }
}
