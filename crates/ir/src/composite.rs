//! Composites as specs: a name, attributes, a rule of shapes. What one means is said by a body of ops, or by a function of host
//! arrays; the body and the gradient are written in tensors and stand in the crate of tensors. Backends claim a composite by
//! its type or its name and see nothing but the spec.
use crate::{DType, ErrorKind, HostArray, TensorType, Types, hash::mix};
use smallvec::SmallVec;
use std::{
    any::Any,
    borrow::Cow,
    fmt,
    ops::{Deref, RangeInclusive},
    sync::Arc,
};

pub mod attention;
pub mod conv;
pub mod ctc;
pub mod distances;
pub mod dropout;
pub mod embedding;
pub mod finite;
pub mod fourier;
mod given;
pub mod linear;
pub mod logsumexp;
pub mod loss;
pub mod norm;
pub mod on_diagonal;
pub mod packed;
pub mod quantize;
pub mod quantized_attention;
pub mod search;
pub mod softmax;
pub mod sorted_range;
pub mod split;
pub mod taps;
pub mod true_places;
pub mod wide;

pub use given::Given;

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

/// Operands of a composite; bit k is that of input or output k.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OperandSet {
    /// what is read
    pub inputs: u32,
    /// what is written
    pub outputs: u32,
}

/// The spec of a named function of tensors. Implementors are small values whose attributes are structure: name and attributes
/// say all that tells one of a type from another, and of those that say the same any may be applied for the other.
pub trait Composite: Any + Send + Sync + fmt::Debug {
    /// The name, unique over all composites: `adamant.softmax`.
    fn name(&self) -> &'static str;
    /// The attributes, in a fixed order.
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    /// Types of the outputs, auxiliary ones last.
    ///
    /// # Errors
    /// Inputs that do not go together.
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind>;
    /// How many of the outputs are auxiliary: seen by the rule, not by the user.
    fn auxiliary(&self) -> usize {
        0
    }
    /// The meaning in plain Rust on host arrays, for what cannot be written in ops. A composite has a body of ops or this.
    ///
    /// # Errors
    /// Values outside the domain.
    fn host(&self, _inputs: &[HostArray]) -> Option<Result<Vec<HostArray>, ErrorKind>> {
        None
    }
    /// The operands that a kernel may take as rows of matrices wherever these lie ([`RowLayout`](crate::shape::RowLayout)), where
    /// the device's does; all others are dense.
    fn rows(&self) -> OperandSet {
        OperandSet::default()
    }
    /// Is it defined by [`Composite::host`]?
    fn is_host(&self) -> bool {
        false
    }
    /// Can its kernel find bad values in its data (an index out of range)?
    fn can_fault(&self) -> bool {
        self.is_host()
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

/// A composite as an op holds it: shared, with its key, which is asked for once, and with what the crate that applies it knows
/// of its type (its body and its gradient).
#[derive(Clone)]
pub struct Keyed {
    function: Arc<dyn Composite>,
    key: u64,
    meaning: Option<&'static (dyn Any + Send + Sync)>,
}
impl Keyed {
    /// A composite with its meaning.
    pub fn new(function: Arc<dyn Composite>, meaning: Option<&'static (dyn Any + Send + Sync)>) -> Keyed {
        Keyed { key: function.key(), function, meaning }
    }
    /// The composite itself.
    #[inline]
    pub fn function(&self) -> &Arc<dyn Composite> {
        &self.function
    }
    /// [`Composite::key`], without asking for it again.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }
    /// What it was made with.
    #[inline]
    pub fn meaning(&self) -> Option<&'static (dyn Any + Send + Sync)> {
        self.meaning
    }
}
impl Deref for Keyed {
    type Target = dyn Composite;
    fn deref(&self) -> &(dyn Composite + 'static) {
        &*self.function
    }
}
/// A composite that was made of its attributes.
pub struct Built {
    /// the composite
    pub function: Keyed,
    /// how many inputs it takes
    pub inputs: RangeInclusive<usize>,
}
