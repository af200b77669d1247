//! Batching rules: what an op does to a stack of examples, whose axis is the first one. One exhaustive match over the
//! primitives; none loops over the examples. A value that all examples share stays as it is where the op lets it, so that
//! a shared weight is neither repeated nor read once per example. Must not know how frames are kept.
//!
//! `jax.vmap` (Bradbury et al., 2018); PyTorch's functorch, `BatchRulesX.cpp`.
use crate::{
    Arg, DType, Error, Meta, Op, Result, Scalar, Shape, Tensor,
    composite::{InTensors, Keyed, StackedInput},
    op::{PadSpec, View},
    shape::{AxisSet, MAX_RANK},
};
use adamant_runtime::Metas;
use smallvec::{SmallVec, smallvec};

mod conv;
mod random;

/// A value inside the transform: the stack of all examples' values, or one that they share.
pub(super) struct MaybeBatched {
    pub tensor: Tensor,
    pub batched: bool,
}
/// What the frame of a batch knows.
#[derive(Clone, Copy)]
pub(super) struct ExampleAxis {
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
    fn stack(&self, shape: Shape) -> Result<Shape> {
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
        Ok(lane.tensor.reshape(Shape::new(&dims).map_err(|k| Error::new("vmap", k))?))
    }
    /// The lane as a stack: a shared value stands for each example, by strides of zero.
    pub fn stacked(&self, lane: &MaybeBatched) -> Result<Tensor> {
        if lane.batched { Ok(lane.tensor.clone()) } else { Ok(expand(&lane.tensor, self.stack(lane.tensor.meta().shape)?)) }
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

/// The outputs of an op on lanes of which one is batched, or which draws. `metas` and `made` are those of one example.
/// `None`: a composite that is to be run by its body.
///
/// # Errors
/// Whatever the rule's ops return; more axes than a tensor can have.
pub(super) fn outputs(batch: &ExampleAxis, op: &Op, arg: Arg, x: &[MaybeBatched], metas: &[Meta], made: &Metas) -> Result<Option<SmallVec<[MaybeBatched; 3]>>> {
    let stacked = match op {
        Op::Composite(c) => match composite(batch, c, x, made)? {
            Some(outputs) => outputs,
            None => return Ok(None),
        },
        _ => primitive(batch, op, arg, x, metas, made)?,
    };
    Ok(Some(stacked.into_iter().map(|tensor| MaybeBatched { tensor, batched: true }).collect()))
}
fn primitive(batch: &ExampleAxis, op: &Op, arg: Arg, x: &[MaybeBatched], metas: &[Meta], made: &Metas) -> Result<SmallVec<[Tensor; 3]>> {
    let rank = made[0].shape.rank();
    let on = |op: Op, inputs: &[&Tensor]| -> SmallVec<[Tensor; 3]> { Tensor::apply_many(op, arg, inputs, crate::Origin::here()) };
    let aligned = |rank: usize| x.iter().map(|lane| batch.aligned(lane, rank)).collect::<Result<SmallVec<[Tensor; 4]>>>();
    let stacked = || x.iter().map(|lane| batch.stacked(lane)).collect::<Result<SmallVec<[Tensor; 4]>>>();
    let apply = |op: Op, all: SmallVec<[Tensor; 4]>| on(op, &all.iter().collect::<SmallVec<[&Tensor; 4]>>());
    Ok(match op {
        Op::Unary(_) | Op::BinaryScalar(..) | Op::Cast(_) | Op::Bitcast(_) | Op::Transfer(_) | Op::Collective { .. } | Op::StopGrad => {
            on(op.clone(), &[&x[0].tensor])
        }
        Op::Binary(_) | Op::Select => apply(op.clone(), aligned(rank)?),
        Op::RandomBits { shape } => smallvec![random::bits(batch, &x[0], *shape)?],
        Op::View(view) => smallvec![viewed(batch, view, arg, &x[0], rank)?],
        Op::Pad(pad) => {
            let widths = std::iter::once((0, 0)).chain(pad.widths.iter().copied()).collect();
            on(Op::Pad(Box::new(PadSpec { widths })), &[&x[0].tensor])
        }
        Op::Concat { axis } => apply(Op::Concat { axis: axis + 1 }, stacked()?),
        Op::UpdateSlice { axis } => apply(Op::UpdateSlice { axis: axis + 1 }, stacked()?),
        Op::Reduce { op, axes } => on(Op::Reduce { op: *op, axes: behind(*axes) }, &[&x[0].tensor]),
        Op::ArgReduce { op, axis } => on(Op::ArgReduce { op: *op, axis: axis + 1 }, &[&x[0].tensor]),
        Op::Scan { op, axis, reverse } => apply(Op::Scan { op: *op, axis: axis + 1, reverse: *reverse }, stacked()?),
        Op::Matmul => smallvec![matmul(batch, x, metas)?],
        Op::Conv(spec) => smallvec![conv::product(batch, spec, x)?],
        // The windows slide over the last axes.
        Op::Window(_) => on(op.clone(), &[&x[0].tensor]),
        Op::Gather { axis } => smallvec![gather(batch, *axis as usize, x)?],
        Op::Scatter { axis, mode } => apply(Op::Scatter { axis: axis + 1, mode: *mode }, stacked()?),
        Op::Sort { axis, descending } => on(Op::Sort { axis: axis + 1, descending: *descending }, &[&x[0].tensor]),
        Op::Input | Op::Const(_) | Op::Iota { .. } | Op::Composite(_) => {
            return Err(Error::new("vmap", crate::ErrorKind::Internal(format!("{} has no input to be stacked", op.name()))));
        }
    })
}

fn viewed(batch: &ExampleAxis, view: &View, arg: Arg, x: &MaybeBatched, rank: usize) -> Result<Tensor> {
    let view = match view {
        View::Reshape(to) => View::Reshape(batch.stack(*to)?),
        View::Permute(order) => {
            let mut shifted = [0u8; MAX_RANK];
            for k in 0..rank.min(MAX_RANK - 1) {
                shifted[k + 1] = order[k] + 1;
            }
            View::Permute(shifted)
        }
        View::Expand(to) => return Ok(expand(&batch.aligned(x, rank)?, batch.stack(*to)?)),
        View::Slice { axis, len, step } => View::Slice { axis: axis + 1, len: *len, step: *step },
        View::Flip(axes) => View::Flip(behind(*axes)),
    };
    Ok(Tensor::apply(Op::View(view), arg, &[&x.tensor]))
}
/// A shared right side sees the examples' rows as more rows; a shared left side is each example's by strides of zero.
fn matmul(batch: &ExampleAxis, x: &[MaybeBatched], metas: &[Meta]) -> Result<Tensor> {
    let (a, b) = (&metas[0].shape, &metas[1].shape);
    if let ([MaybeBatched { tensor, batched: true }, MaybeBatched { tensor: right, batched: false }], 2) = (x, a.rank()) {
        let rows = reshape(tensor, &[batch.size * a[0], a[1]])?;
        return reshape(&rows.matmul(right), &[batch.size, a[0], b[1]]);
    }
    Ok(batch.stacked(&x[0])?.matmul(batch.stacked(&x[1])?))
}
/// A shared table is not repeated: the examples' indices are one longer list of indices.
fn gather(batch: &ExampleAxis, axis: usize, x: &[MaybeBatched]) -> Result<Tensor> {
    let apply = |axis: usize, x: &Tensor, index: &Tensor| Tensor::apply(Op::Gather { axis: axis as u8 }, Arg::None, &[x, index]);
    let [MaybeBatched { tensor: table, batched: false }, MaybeBatched { tensor: index, batched: true }] = x else {
        return Ok(apply(axis + 1, &batch.stacked(&x[0])?, &batch.stacked(&x[1])?));
    };
    // [examples, .., n, ..] to [.., examples, n, ..] to [.., examples n, ..], and back.
    let shape = index.meta().shape;
    let examples_at = |to: usize| -> SmallVec<[isize; MAX_RANK]> {
        let mut order: SmallVec<[isize; MAX_RANK]> = (1..shape.rank() as isize).collect();
        order.insert(to, 0);
        order
    };
    let beside = index.permute(&examples_at(axis)[..]);
    let apart = beside.meta().shape;
    let merged = beside.reshape(apart.without(axis).with(axis, shape[0] * shape[axis + 1]));
    let mut back: SmallVec<[isize; MAX_RANK]> = (0..shape.rank() as isize).filter(|&k| k != axis as isize).collect();
    back.insert(0, axis as isize);
    Ok(apply(axis, table, &merged).reshape(apart).permute(&back[..]))
}
/// A composite that says how it is applied to stacks; what it gives are stacks of the outputs' elements.
fn composite(batch: &ExampleAxis, c: &Keyed, x: &[MaybeBatched], made: &Metas) -> Result<Option<SmallVec<[Tensor; 3]>>> {
    let lanes: SmallVec<[StackedInput; 6]> = x.iter().map(|lane| StackedInput { tensor: lane.tensor.clone(), batched: lane.batched }).collect();
    // A draw that is each example's own is one of the stack's shape, which the first examples of all begin.
    let draws = lanes.iter().any(|l| l.tensor.meta().dtype == DType::U32 && l.tensor.meta().shape.last() == Some(&4));
    if draws && (!batch.draws_differ || batch.first > 0) {
        return Ok(None);
    }
    let Some(outputs) = c.stacked(&lanes, batch.size) else {
        if c.is_host() {
            let what = format!("{} over a batch: it is defined on the host and does not say how it is applied to stacks", c.name());
            return Err(Error::new("vmap", crate::ErrorKind::Unsupported { backend: "any".into(), what }));
        }
        return Ok(None);
    };
    let outputs = outputs?;
    outputs.into_iter().zip(made).map(|(t, meta)| Ok(t.ok()?.reshape(batch.stack(meta.shape)?))).collect::<Result<_>>().map(Some)
}
/// A number in each place of a stack.
pub(super) fn number(value: u32, like: &Tensor) -> Tensor {
    Tensor::full_on((), Scalar::Int(value.into()), DType::U32, like.meta().device)
}
