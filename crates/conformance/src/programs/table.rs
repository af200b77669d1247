//! What the generator knows of a function: the kinds of its arguments, how PyTorch spells it, and how it is called here.
//!
//! Only functions with more to choose than operands stand here, by families; [`super::registered`] adds the rest.
use super::{ProgramArg, arguments::Args};
use crate::{
    random::Random,
    registry::{self, SampleInput},
};
use adamant_core::{
    Tensor,
    scalar::{Binary, Unary},
};

mod algebra;
mod creation;
mod indexing;
mod layers;
mod reductions;
mod shaping;
mod spatial;

/// What a call has chosen so far.
pub struct Seen<'a> {
    /// the shape of each argument; of what is no tensor an empty one
    pub shapes: &'a [Vec<usize>],
    /// the arguments
    pub args: &'a [ProgramArg],
}
impl Seen<'_> {
    /// The shape of argument `k`.
    pub fn shape(&self, k: usize) -> &[usize] {
        self.shapes.get(k).map_or(&[], |s| s)
    }
    /// The axis that argument `k` names in the shape of argument 0.
    pub fn axis(&self, k: usize) -> Option<usize> {
        let rank = self.shape(0).len() as i64;
        let Some(ProgramArg::Int(axis)) = self.args.get(k) else { return None };
        let axis = if *axis < 0 { axis + rank } else { *axis };
        (0..rank).contains(&axis).then_some(axis as usize)
    }
    /// The size along that axis.
    pub fn along(&self, k: usize) -> usize {
        self.axis(k).map_or(1, |axis| self.shape(0)[axis])
    }
}
/// A kind of argument.
#[derive(Clone, Debug)]
pub enum ArgKind {
    /// a value of any shape and dtype
    Any,
    /// mostly of floats
    Float,
    /// one that broadcasts with argument 0
    Fits,
    /// one that broadcasts with argument 0, or a number
    Operand,
    /// of booleans, and broadcasts with argument 0
    Mask,
    /// of this shape
    Shaped(fn(&Seen, &mut Random) -> Vec<usize>),
    /// integers of this shape below a bound
    Indices(fn(&Seen, &mut Random) -> (Vec<usize>, usize)),
    /// what an entry of the registry draws
    Sample(SampleInput),
    /// one to four values of mostly one shape
    List,
    /// a number
    Number,
    /// an axis of argument 0
    Axis,
    /// an axis of argument 0 and one more, which does not exist yet
    NewAxis,
    /// one or more axes of argument 0, or all
    Axes,
    /// some axes of argument 0 in any order
    AxisList,
    /// true or false
    Flag,
    /// an integer of a range
    Int(i64, i64),
    /// an integer from what was chosen
    IntOf(fn(&Seen, &mut Random) -> i64),
    /// one of these numbers
    Real(&'static [f64]),
    /// integers from what was chosen
    Ints(fn(&Seen, &mut Random) -> Vec<i64>),
    /// a dtype
    Dtype,
    /// one of these words
    Word(&'static [&'static str]),
    /// an index expression of argument 0; without integers and masks where it is to be written and no place may be named twice
    Index,
    /// the size of what the index expression before reads, or what broadcasts to it
    Written,
}
/// How a function is called here.
#[derive(Clone, Copy, Debug)]
pub enum Callee {
    /// a row's closure
    Row(fn(&Args) -> Vec<Tensor>),
    /// an entry of the registry, of tensors only
    Registered(registry::Call),
    /// a row of the unary table
    Unary(Unary),
    /// a row of the binary table
    Binary(Binary),
}
/// A function as the generator knows it.
#[derive(Clone, Debug)]
pub struct TorchFunction {
    /// our name
    pub name: String,
    /// PyTorch's spelling, an expression of `x`
    pub torch: String,
    /// its arguments
    pub kinds: Vec<ArgKind>,
    /// the call
    pub callee: Callee,
}
impl TorchFunction {
    /// Calls it.
    pub fn call(&self, args: &Args) -> Vec<Tensor> {
        match self.callee {
            Callee::Row(f) => f(args),
            Callee::Registered(f) => f(&(0..self.kinds.len()).map(|k| args.t(k)).collect::<Vec<_>>()),
            Callee::Unary(f) => vec![args.t(0).unary(f)],
            Callee::Binary(f) => vec![args.t(0).binary(f, args.operand(1))],
        }
    }
}
/// `"our name" "PyTorch's expression" [kinds] |a| call`
macro_rules! functions {
    ($($name:literal $torch:literal [$($kind:expr),* $(,)?] |$a:ident| $call:expr),* $(,)?) => {
        vec![$($crate::programs::table::TorchFunction {
            name: $name.into(),
            torch: $torch.into(),
            kinds: vec![$($kind),*],
            callee: $crate::programs::table::Callee::Row(|$a| $crate::registry::Outputs::outputs($call)),
        }),*]
    };
}
use functions;

/// The rows of the table.
pub fn rows() -> Vec<TorchFunction> {
    let mut all = shaping::rows();
    all.extend(reductions::rows());
    all.extend(indexing::rows());
    all.extend(layers::rows());
    all.extend(spatial::rows());
    all.extend(algebra::rows());
    all.extend(creation::rows());
    all
}
