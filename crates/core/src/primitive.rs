//! The primitives in tensor code, one file each: what the gradient reads, the gradient, the tangent, what the op does to a
//! stack of examples, and the body that stands for its kernel where a device has none. The
//! table `adamant_ir::primitives!` lists them; each function here asks the op's file, and a file that lacks one of the rules
//! does not compile. Must not know how tapes and frames are kept, nor who asks.
//!
//! All rules are written in ops, so that they serve every backend and can be differentiated, batched and pushed forward
//! themselves. Griewank and Walther, "Evaluating Derivatives", 2008; `jax.vmap`; PyTorch's functorch.
use crate::{
    Arg, DType, Error, ErrorKind, Meta, Op, Origin, Result, Shape, Tensor,
    composite::{Cotangents, RuleArgs, Saves},
    op::View,
    shape::{AxisSet, MAX_RANK},
};
use adamant_runtime::Metas;
use smallvec::{SmallVec, smallvec};

/// What a gradient rule gets beside the fields of the op. The cotangent is that of the first output, and there is one.
pub(crate) struct Backward<'a> {
    pub arg: Arg,
    pub cotangent: &'a Tensor,
    pub outputs: &'a [Meta],
    pub args: &'a RuleArgs<'a>,
}
impl Backward<'_> {
    /// The shape of an input.
    fn shape(&self, k: usize) -> Shape {
        self.args.metas[k].shape
    }
    /// Is this input's cotangent asked for?
    fn needs(&self, k: usize) -> bool {
        self.args.needs[k]
    }
    /// No cotangent for any input.
    fn none(&self) -> Cotangents {
        smallvec![None; self.args.metas.len()]
    }
    /// Zeros like an input, in the cotangent's dtype.
    fn zeros(&self, k: usize) -> Tensor {
        Tensor::full_on(self.shape(k), 0, self.cotangent.meta().dtype, self.cotangent.meta().device)
    }
}
/// The cotangent of an op's only input.
fn one(cotangent: Tensor) -> Result<Cotangents> {
    Ok(smallvec![Some(cotangent)])
}

/// A value and how it moves; `None`: it does not.
pub(crate) struct Dual {
    pub primal: Tensor,
    pub tangent: Option<Tensor>,
}
/// What a tangent rule gets beside the fields of the op. At least one input moves, and the first output is of floats.
pub(crate) struct Forward<'a> {
    pub op: &'a Op,
    pub arg: Arg,
    pub inputs: &'a [Dual],
    pub outputs: &'a [Tensor],
}
impl Forward<'_> {
    fn tangent(&self, k: usize) -> Option<&Tensor> {
        self.inputs.get(k).and_then(|d| d.tangent.as_ref())
    }
    fn primal(&self, k: usize) -> &Tensor {
        &self.inputs[k].primal
    }
    /// How an input moves, zeros if it does not.
    fn moved(&self, k: usize) -> Tensor {
        self.tangent(k).cloned().unwrap_or_else(|| self.primal(k).zeros_like())
    }
    /// The same op on the tangent of a linear function's only input that moves.
    fn same(&self) -> Option<Tensor> {
        self.tangent(0).map(|t| Tensor::apply(self.op.clone(), self.arg, &[t]))
    }
}
/// The sum of two parts of a tangent.
fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// A value inside `vmap`: the stack of all examples' values, or one that they share.
pub(crate) struct MaybeBatched {
    pub tensor: Tensor,
    pub batched: bool,
}
/// The axis of the examples, which is the first of every stack.
#[derive(Clone, Copy)]
pub(crate) struct ExampleAxis {
    /// how many examples are run at once
    pub size: usize,
    /// does each example draw its own random numbers?
    pub draws_differ: bool,
    /// how many examples were run before these
    pub first: usize,
    /// may examples keep what they write to cells to themselves?
    pub cells_per_example: bool,
}
impl ExampleAxis {
    /// Does the op draw numbers, for each example its own? A composite that does is given a key.
    pub fn draws(&self, op: &Op, inputs: &[&Tensor]) -> bool {
        let is_key = |t: &&Tensor| t.meta().dtype == DType::U32 && *t.meta().shape == [4];
        self.draws_differ && (matches!(op, Op::RandomBits { .. }) || matches!(op, Op::Composite(_)) && inputs.iter().any(is_key))
    }
    /// The shape of a stack of such values.
    ///
    /// # Errors
    /// More axes or elements than a tensor can have.
    pub fn stack(&self, shape: Shape) -> Result<Shape> {
        shape.insert(0, self.size).map_err(|k| Error::new("vmap", k))
    }
    /// The lane with the examples' axis first and then `rank` axes, of which leading ones have size 1; shared ones as they are.
    fn aligned(&self, lane: &MaybeBatched, rank: usize) -> Result<Tensor> {
        let shape = lane.tensor.meta().shape;
        if !lane.batched || shape.rank() == rank + 1 {
            return Ok(lane.tensor.clone());
        }
        let dims: SmallVec<[usize; MAX_RANK]> =
            std::iter::once(shape[0]).chain(std::iter::repeat_n(1, rank + 1 - shape.rank())).chain(shape[1..].iter().copied()).collect();
        reshape(&lane.tensor, &dims)
    }
    /// The lane as a stack: a shared value stands for each example, by strides of zero.
    ///
    /// # Errors
    /// As [`ExampleAxis::stack`].
    pub fn stacked(&self, lane: &MaybeBatched) -> Result<Tensor> {
        if lane.batched { Ok(lane.tensor.clone()) } else { Ok(expand(&lane.tensor, self.stack(lane.tensor.meta().shape)?)) }
    }
}
/// What a batching rule gets beside the fields of the op; `metas` and `made` are those of one example. One input at least is
/// batched, or the op draws.
pub(crate) struct Batching<'a> {
    pub axis: &'a ExampleAxis,
    pub op: &'a Op,
    pub arg: Arg,
    pub lanes: &'a [MaybeBatched],
    pub metas: &'a [Meta],
    pub made: &'a Metas,
}
/// The stacks of an op's outputs.
pub(crate) type Stacks = SmallVec<[Tensor; 3]>;
impl Batching<'_> {
    /// An op on the first input's stack: for what a leading axis passes through.
    fn on_first(&self, op: Op) -> Result<Stacks> {
        Ok(Tensor::apply_many(op, self.arg, &[&self.lanes[0].tensor], Origin::here()))
    }
    /// An op on the stacks of all inputs.
    fn on_stacks(&self, op: Op) -> Result<Stacks> {
        let all = self.lanes.iter().map(|lane| self.axis.stacked(lane)).collect::<Result<SmallVec<[Tensor; 4]>>>()?;
        Ok(self.apply(op, &all))
    }
    /// The op on inputs that broadcast to the stack of the result.
    fn broadcast(&self) -> Result<Stacks> {
        let rank = self.made[0].shape.rank();
        let all = self.lanes.iter().map(|lane| self.axis.aligned(lane, rank)).collect::<Result<SmallVec<[Tensor; 4]>>>()?;
        Ok(self.apply(self.op.clone(), &all))
    }
    fn apply(&self, op: Op, inputs: &[Tensor]) -> Stacks {
        Tensor::apply_many(op, self.arg, &inputs.iter().collect::<SmallVec<[&Tensor; 4]>>(), Origin::here())
    }
    fn no_input(&self) -> Result<Stacks> {
        Err(Error::new("vmap", ErrorKind::Internal(format!("{} has no input to be stacked", self.op.name()))))
    }
}
fn expand(t: &Tensor, shape: Shape) -> Tensor {
    Tensor::apply(Op::View(View::Expand(shape)), Arg::None, &[t])
}
fn reshape(t: &Tensor, dims: &[usize]) -> Result<Tensor> {
    Ok(t.reshape(Shape::new(dims).map_err(|k| Error::new("vmap", k))?))
}
fn behind(axes: AxisSet) -> AxisSet {
    AxisSet::of(axes.iter().map(|a| a + 1))
}

/// The rules of a primitive through which nothing flows.
mod no_flow {
    use super::{Backward, Cotangents, Forward, Result, Saves, Tensor};

    pub(super) fn reads<F>(_: F) -> Option<Saves> {
        None
    }
    pub(super) fn gradient<F>(_: F, back: &Backward<'_>) -> Result<Cotangents> {
        Ok(back.none())
    }
    pub(super) fn tangent<F>(_: F, _: &Forward<'_>) -> Result<Option<Tensor>> {
        Ok(None)
    }
}

/// The tensor code that stands for a kernel which a device does not have. Its inputs have passed the op's inference.
pub(crate) type Body = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

macro_rules! rules {
    (planned { $($planned:ident: $planned_op:pat => $planned_fields:tt;)* } kernels { $($module:ident: $op:pat => $fields:tt;)* }) => {
        $(mod $planned;)*
        $(mod $module;)*

        /// The types of users' functions that stand in a primitive's file.
        pub mod types {
            #[allow(unused_imports, reason = "most files have no such type")]
            pub use super::{$($module::*),*};
        }
        /// What the op's gradient reads; `None`: no gradient flows through it.
        pub(crate) fn reads(op: &Op, inputs: usize) -> Option<Saves> {
            match op {
                $($planned_op => $planned::reads($planned_fields),)*
                $($op => $module::reads($fields),)*
                Op::Composite(c) => Some(crate::composite::InTensors::saves(c).unwrap_or_else(|| Saves::inputs(inputs))),
            }
        }
        fn gradient(op: &Op, back: &Backward<'_>) -> Result<Cotangents> {
            match op {
                $($planned_op => $planned::gradient($planned_fields, back),)*
                $($op => $module::gradient($fields, back),)*
                Op::Composite(c) => Err(by_its_body(c.name())),
            }
        }
        /// The tangent of the first output of an op; the second, where there is one, is an index.
        ///
        /// # Errors
        /// Whatever the rule's ops return.
        pub(crate) fn tangent(forward: &Forward<'_>) -> Result<Option<Tensor>> {
            match forward.op {
                $($planned_op => $planned::tangent($planned_fields, forward),)*
                $($op => $module::tangent($fields, forward),)*
                Op::Composite(c) => Err(by_its_body(c.name())),
            }
        }
        /// What the op makes of stacks of examples.
        ///
        /// # Errors
        /// Whatever the rule's ops return; more axes than a tensor can have.
        pub(crate) fn batched(batch: &Batching<'_>) -> Result<Stacks> {
            match batch.op {
                $($planned_op => $planned::batched($planned_fields, batch),)*
                $($op => $module::batched($fields, batch),)*
                Op::Composite(c) => Err(by_its_body(c.name())),
            }
        }
        /// What stands for the op where a device has no kernel for it; `None`: nothing does.
        pub(crate) fn body(op: &Op) -> Option<Body> {
            match op {
                $($op => $module::body($fields),)*
                _ => None,
            }
        }
    };
}
adamant_ir::primitives!(rules);

fn by_its_body(composite: &'static str) -> Error {
    Error::new(composite, ErrorKind::Internal("a composite is interpreted by its body or its own rule".into()))
}
/// Cotangents of the inputs of a primitive.
///
/// # Errors
/// Whatever the rule's ops return.
pub(crate) fn cotangents(op: &Op, arg: Arg, outputs: &[Meta], args: &RuleArgs<'_>) -> Result<Cotangents> {
    match args.cotangents.first() {
        Some(Some(cotangent)) => gradient(op, &Backward { arg, cotangent, outputs, args }),
        _ => Ok(smallvec![None; args.metas.len()]),
    }
}

/// Sums a cotangent over the axes that broadcast, back to the shape of the operand.
pub(crate) fn sum_to(g: &Tensor, shape: &Shape) -> Tensor {
    let from = g.meta().shape;
    if from == *shape || g.error().is_some() {
        return g.clone();
    }
    let lead = from.rank() - shape.rank();
    let axes = AxisSet::of((0..from.rank()).filter(|&k| k < lead || (shape[k - lead] == 1 && from[k] != 1)));
    let summed = if axes.0 == 0 { g.clone() } else { g.sum_keepdim(axes) };
    if lead > 0 { summed.reshape(*shape) } else { summed }
}
/// A rule may return a tensor that does not depend on the cotangent (zeros): give it the cotangent's shape.
fn expand_to(d: &Tensor, g: &Tensor) -> Tensor {
    if d.error().is_none() && d.meta().shape != g.meta().shape { d.expand(g.meta().shape) } else { d.clone() }
}
/// A scalar function's rule in a 16-bit dtype computes in f32 and rounds at its end, so that a gradient is as good as
/// its function. A rule of one op needs none of that.
fn rounded_once<const N: usize>(one_op: bool, args: [&Tensor; N], rule: impl Fn([&Tensor; N]) -> Tensor) -> Tensor {
    let dtype = args[0].meta().dtype;
    if one_op || dtype.size() != 2 || args[0].error().is_some() {
        return rule(args);
    }
    let wide = args.map(|t| t.cast(DType::F32));
    rule(wide.each_ref()).cast(dtype)
}
