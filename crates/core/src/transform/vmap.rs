//! `vmap`: a function of one example becomes one of a stack of them. It is run once; the rules are `batch.rs`.
use super::{
    Tensors,
    frame::{LevelGuard, LevelKind},
    leaves, tree,
};
use crate::{
    Error, ErrorKind, Origin, Result, Tensor,
    cell::{Overlay, OverlayGuard, OverlayKind},
    primitive::{ExampleAxis, MaybeBatched},
};
use smallvec::SmallVec;

/// How random numbers are drawn inside [`vmap()`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Randomness {
    /// Each example draws its own.
    #[default]
    Different,
    /// All examples draw the same.
    Same,
}
/// What happens if an example writes a value of its own to a cell. (A value that all share is written as ever.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    /// An error: the cell holds one value, not one for each example.
    #[default]
    Shared,
    /// Each example reads what it wrote, until the function returns; the cell itself stays as it is. Return what is to be
    /// kept.
    PerExample,
}
/// Options of [`vmap_with`].
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::{Vmap, vmap_with}};
/// # Device::reference().make_current();
/// let (a, b) = (Tensor::ones([3, 2]), Tensor::ones([2]));
/// let options = Vmap::default().in_axes([Some(0), None]).out_axes([Some(-1)]);
/// let y = vmap_with(|(a, b): (Tensor, Tensor)| a + b, options)((a, b));
/// assert_eq!(y.dims::<2>()?, [2, 3]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vmap {
    in_axes: Vec<Option<isize>>,
    out_axes: Vec<Option<isize>>,
    randomness: Randomness,
    cells: Cells,
    chunk_size: Option<usize>,
    axis_size: Option<usize>,
    /// the line that asked for the transform
    here: Option<Origin>,
}
impl Vmap {
    #[track_caller]
    fn refused(&self, kind: ErrorKind) -> Error {
        Error::at("vmap", kind, self.here.unwrap_or_else(Origin::here))
    }
    /// For each input tensor the axis of its examples, which may count from the end, or `None` where all share it. Without
    /// it, and for inputs beyond these: axis 0.
    #[must_use]
    pub fn in_axes(mut self, axes: impl IntoIterator<Item = Option<isize>>) -> Vmap {
        self.in_axes = axes.into_iter().collect();
        self
    }
    /// For each output tensor the axis at which its examples are stacked, or `None` for one that is the same for all of
    /// them. Without it, and for outputs beyond these: axis 0.
    #[must_use]
    pub fn out_axes(mut self, axes: impl IntoIterator<Item = Option<isize>>) -> Vmap {
        self.out_axes = axes.into_iter().collect();
        self
    }
    /// How random numbers are drawn.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Vmap {
        self.randomness = randomness;
        self
    }
    /// What happens if an example writes a value of its own to a cell.
    #[must_use]
    pub fn cells(mut self, cells: Cells) -> Vmap {
        self.cells = cells;
        self
    }
    /// Runs at most so many examples at once, for less memory. The function is called once for each part; results and
    /// random numbers are those of one run.
    #[must_use]
    pub fn chunk_size(mut self, examples: usize) -> Vmap {
        self.chunk_size = Some(examples);
        self
    }
    /// How many examples there are: needed where no input is stacked.
    #[must_use]
    pub fn axis_size(mut self, examples: usize) -> Vmap {
        self.axis_size = Some(examples);
        self
    }
}

/// Of a function of one example the function of a stack of them: each tensor has one axis more, the first, and the results
/// too. The function is run once, whatever the number of examples; what is computed of shared values is computed once.
///
/// An output that does not depend on the example is repeated by strides of zero.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::vmap};
/// # Device::reference().make_current();
/// let norms = vmap(|x: Tensor| x.square().sum(..).sqrt());
/// let y = norms(Tensor::from_vec(vec![3.0f32, 4.0, 6.0, 8.0], [2, 2]));
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 10.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the results: the function's own; stacks of different sizes; an input without axes; more axes than a tensor can have
/// ([`MAX_RANK`](crate::MAX_RANK)); a read of data inside; a cell that is written another value by each example.
///
/// Source: `jax.vmap`; `torch.vmap`.
#[track_caller]
pub fn vmap<A: Tensors, R: Tensors>(f: impl Fn(A) -> R) -> impl Fn(A) -> R {
    vmap_with(f, Vmap::default())
}
/// As [`vmap()`], with options.
///
/// # Errors
/// As [`vmap()`]; an axis that does not exist; an output of its own for each example where `None` is its axis.
#[track_caller]
pub fn vmap_with<A: Tensors, R: Tensors>(f: impl Fn(A) -> R, options: Vmap) -> impl Fn(A) -> R {
    let options = Vmap { here: Some(Origin::here()), ..options };
    move |x| match stacks(&x, &options) {
        Ok(Stacks { stacked, size }) => run(&f, &x, &stacked, size, &options),
        // What the function returns has a structure, which nothing else tells.
        Err(e) => f(x.map(&mut |_| Tensor::failed(e.clone()))).map(&mut |_| Tensor::failed(e.clone())),
    }
}

/// The inputs with the examples' axis first, and how many examples there are.
struct Stacks {
    stacked: Vec<MaybeBatched>,
    size: usize,
}
fn stacks(x: &impl Tensors, options: &Vmap) -> Result<Stacks> {
    let error = |kind| options.refused(kind);
    let mut size = options.axis_size;
    let mut stacked = Vec::new();
    for (k, t) in leaves(x).into_iter().enumerate() {
        let axis = options.in_axes.get(k).copied().unwrap_or(Some(0)).filter(|_| t.error().is_none());
        let Some(axis) = axis else {
            stacked.push(MaybeBatched { tensor: t, batched: false });
            continue;
        };
        let shape = t.meta().shape;
        let axis = shape.axis(axis).map_err(error)?;
        match size {
            Some(size) if size != shape[axis] => {
                let expected = format!("{size} examples along axis {axis}, as elsewhere");
                return Err(error(ErrorKind::Shape { shape, expected }));
            }
            _ => size = Some(shape[axis]),
        }
        stacked.push(MaybeBatched { tensor: front(&t, axis), batched: true });
    }
    if options.chunk_size == Some(0) {
        return Err(error(ErrorKind::Argument("a part has at least one example".into())));
    }
    match (size, stacked.iter().find_map(|lane| lane.tensor.error())) {
        (Some(size), _) => Ok(Stacks { stacked, size }),
        (None, Some(e)) => Err(e),
        (None, None) => Err(error(ErrorKind::Argument("no input is stacked: give the number of examples by `Vmap::axis_size`".into()))),
    }
}
fn front(t: &Tensor, axis: usize) -> Tensor {
    if axis == 0 {
        return t.clone();
    }
    let order: SmallVec<[isize; 8]> = std::iter::once(axis as isize).chain((0..t.rank() as isize).filter(|&k| k != axis as isize)).collect();
    t.permute(&order[..])
}
fn run<A: Tensors, R: Tensors>(f: &impl Fn(A) -> R, x: &A, stacked: &[MaybeBatched], size: usize, options: &Vmap) -> R {
    let part = options.chunk_size.unwrap_or(size).max(1);
    if part >= size {
        return some(f, x, stacked, 0, size, options).0;
    }
    let mut parts: Vec<R> = Vec::new();
    let mut own: Vec<bool> = Vec::new();
    for first in (0..size).step_by(part) {
        let len = part.min(size - first);
        let these: Vec<MaybeBatched> = stacked
            .iter()
            .map(|lane| MaybeBatched { tensor: if lane.batched { lane.tensor.narrow(0, first, len) } else { lane.tensor.clone() }, batched: lane.batched })
            .collect();
        // Each part sees the cells as one run would; of what they write, alike, the last one's stays.
        let last = first + len == size;
        let overlay = (!last).then(|| OverlayGuard::push(Overlay::new(OverlayKind::Recompute)));
        let (y, stacks) = some(f, x, &these, first, len, options);
        drop(overlay);
        parts.push(y);
        own = stacks;
    }
    let all: Vec<Vec<Tensor>> = parts.iter().map(leaves).collect();
    let joined: Vec<Tensor> = (0..own.len())
        .map(|k| {
            let these: Vec<&Tensor> = all.iter().filter_map(|part| part.get(k)).collect();
            match (these.iter().find_map(|t| t.error()), these.first()) {
                (Some(e), _) => Tensor::failed(e),
                (None, Some(first)) if !own[k] => (*first).clone(),
                (None, _) => {
                    let axis = options.out_axes.get(k).copied().flatten().unwrap_or(0);
                    Tensor::cat(&these, axis)
                }
            }
        })
        .collect();
    match parts.first() {
        Some(like) => tree(like, &joined),
        None => some(f, x, stacked, 0, size, options).0,
    }
}
/// Runs the function on some of the examples. Also: which outputs are stacks.
fn some<A: Tensors, R: Tensors>(f: &impl Fn(A) -> R, x: &A, stacked: &[MaybeBatched], first: usize, size: usize, options: &Vmap) -> (R, Vec<bool>) {
    let batch = ExampleAxis { size, first, draws_differ: options.randomness == Randomness::Different, cells_per_example: options.cells == Cells::PerExample };
    let inside = LevelGuard::new(LevelKind::ExampleAxis(batch));
    let begin = |lane: &MaybeBatched| {
        if !lane.batched {
            return lane.tensor.clone();
        }
        let m = lane.tensor.meta();
        inside.lane(&lane.tensor, crate::Meta { shape: m.shape.without(0), ..m })
    };
    let lanes: Vec<Tensor> = stacked.iter().map(begin).collect();
    let y = inside.run(|| f(tree(x, &lanes)));
    let mut own = Vec::new();
    let outputs: Vec<Tensor> = leaves(&y)
        .iter()
        .enumerate()
        .map(|(k, y)| {
            let axis = options.out_axes.get(k).copied().unwrap_or(Some(0));
            own.push(axis.is_some());
            finish(&batch, inside.to_lane(y), axis, options).unwrap_or_else(Tensor::failed)
        })
        .collect();
    (tree(&y, &outputs), own)
}
/// A stack with the examples' axis where it is wanted.
fn finish(batch: &ExampleAxis, lane: MaybeBatched, axis: Option<isize>, options: &Vmap) -> Result<Tensor> {
    if lane.tensor.error().is_some() {
        return Ok(lane.tensor);
    }
    let Some(axis) = axis else {
        return if lane.batched {
            Err(options.refused(ErrorKind::Transform("the output differs between examples; give the axis at which they are stacked".into())))
        } else {
            Ok(lane.tensor)
        };
    };
    let stack = batch.stacked(&lane)?;
    let axis = stack.meta().shape.axis(axis).map_err(|k| options.refused(k))?;
    if axis == 0 {
        return Ok(stack);
    }
    let mut order: SmallVec<[isize; 8]> = (1..stack.rank() as isize).collect();
    order.insert(axis, 0);
    Ok(stack.permute(&order[..]))
}
