//! Taking tensors apart and putting them together: split, cat, stack, repeat, roll, sliding windows.
use super::{
    OperandRef, Tensor,
    compose::{Built, compose, compose1, on_an_axis, refuse},
};
use crate::{
    Arg, DType, ErrorKind, Op, Result, Shape,
    composite::split::Split,
    op::broadcast,
    promotion::common,
    scope::call,
    shape::{Axis, ToSizes},
};
use smallvec::SmallVec;
use std::borrow::Borrow;

/// Which axis the first tensor of [`Tensor::meshgrid`] runs along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexing {
    /// the first axis of the result (matrix order)
    Ij,
    /// the second axis of the result (x before y)
    Xy,
}

/// The most parts that join their cotangents in one op.
const MAX_PARTS: usize = 32;
/// All of an axis in `parts` of one size, where there are several: many of them in parts of parts, so that no cotangent of
/// one is padded to the whole.
#[track_caller]
fn equal_parts(x: &Tensor, parts: usize, size: usize, axis: usize) -> Option<Vec<Tensor>> {
    if parts < 2 || size == 0 || parts.checked_mul(size) != Some(x.meta().shape[axis]) {
        return None;
    }
    if parts <= MAX_PARTS {
        return Some(Tensor::composite(Split { axis, parts }, &[x]).into_vec());
    }
    let some = |x: Tensor, parts: usize| equal_parts(&x, parts, size, axis).unwrap_or_else(|| vec![x]);
    let of_group = parts.div_ceil(MAX_PARTS);
    let left = parts % of_group;
    let in_groups = parts - left;
    let groups = some_of(x, 0, in_groups * size, axis);
    let groups = Tensor::composite(Split { axis, parts: in_groups / of_group }, &[&groups]);
    let mut all: Vec<Tensor> = groups.into_iter().flat_map(|group| some(group, of_group)).collect();
    if left > 0 {
        all.extend(some(some_of(x, in_groups * size, left * size, axis), left));
    }
    Some(all)
}
/// A part of an axis; the tensor itself where it is all of it.
#[track_caller]
fn some_of(x: &Tensor, first: usize, count: usize, axis: usize) -> Tensor {
    if count == x.meta().shape[axis] { x.clone() } else { x.narrow(axis, first, count) }
}
fn all<T: Borrow<Tensor>>(tensors: &[T]) -> SmallVec<[&Tensor; 8]> {
    tensors.iter().map(|t| t.borrow()).collect()
}

impl Tensor {
    /// Parts of `size` along an axis; the last may be smaller.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis; a size of 0 for an axis that is not empty.
    #[track_caller]
    pub fn split(&self, size: usize, axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("split", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let n = x.meta().shape[axis];
            if size == 0 && n > 0 {
                return refuse(format!("an axis of size {n} cannot be split into parts of size 0"));
            }
            if n == 0 {
                return Ok(Ok(vec![x.clone()]));
            }
            if let Some(parts) = equal_parts(x, n / size, size, axis) {
                return Ok(Ok(parts));
            }
            Ok((0..n).step_by(size).map(|at| x.narrow(axis, at, size.min(n - at)).ok()).collect())
        })
    }
    /// Parts of the given sizes along an axis, which must add up to it.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis; sizes that do not add up.
    #[track_caller]
    pub fn split_with_sizes(&self, sizes: &[usize], axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("split_with_sizes", self, |x| {
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if sizes.iter().fold(0usize, |a, &b| a.saturating_add(b)) != shape[axis] {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} of size {} does not split into {sizes:?}", shape[axis]) }.into());
            }
            let size = sizes.first().copied().unwrap_or_default();
            if sizes.iter().all(|&s| s == size)
                && let Some(parts) = equal_parts(x, sizes.len(), size, axis)
            {
                return Ok(Ok(parts));
            }
            let mut at = 0;
            Ok(sizes
                .iter()
                .map(|&n| {
                    at += n;
                    x.narrow(axis, at - n, n).ok()
                })
                .collect())
        })
    }
    /// At most `chunks` parts of equal size along an axis (the last may be smaller).
    ///
    /// # Errors
    /// The error this tensor carries; no such axis; no chunks.
    #[track_caller]
    pub fn chunk(&self, chunks: usize, axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("chunk", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            if chunks == 0 {
                return refuse("a tensor splits into at least one chunk");
            }
            let n = x.meta().shape[axis];
            Ok(if n == 0 { Ok(vec![x.clone(); chunks]) } else { x.split(n.div_ceil(chunks), axis) })
        })
    }
    /// Exactly `sections` parts along an axis, the first ones larger by one where it does not divide.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis; no sections.
    #[track_caller]
    pub fn tensor_split(&self, sections: usize, axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("tensor_split", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            if sections == 0 {
                return refuse("a tensor splits into at least one section");
            }
            let n = x.meta().shape[axis];
            let sizes: Vec<usize> = (0..sections).map(|k| n / sections + usize::from(k < n % sections)).collect();
            Ok(x.split_with_sizes(&sizes, axis))
        })
    }
    /// Parts along an axis, cut before each of the indices.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis.
    #[track_caller]
    pub fn tensor_split_at(&self, indices: &[isize], axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("tensor_split_at", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let ends = indices.iter().map(|&i| Some(i)).chain([None]);
            let starts = [None].into_iter().chain(indices.iter().map(|&i| Some(i)));
            Ok(starts.zip(ends).map(|(start, end)| x.slice_signed(axis, start, end, 1).ok()).collect())
        })
    }
    /// The parts at each index of an axis, without that axis.
    ///
    /// # Errors
    /// The error this tensor carries; no such axis.
    #[track_caller]
    pub fn unbind(&self, axis: impl Axis) -> Result<Vec<Tensor>> {
        compose1("unbind", self, |x| {
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let n = x.meta().shape[axis];
            if let Some(parts) = equal_parts(x, n, 1, axis) {
                return Ok(parts.into_iter().map(|part| part.squeeze(axis).ok()).collect());
            }
            Ok((0..n).map(|k| x.select(axis, k).ok()).collect())
        })
    }

    /// Tensors joined along an axis, in the dtype in which they meet. As in PyTorch, an empty vector among tensors of other ranks is left out.
    #[doc(alias = "concat")]
    #[doc(alias = "concatenate")]
    #[track_caller]
    pub fn cat<T: Borrow<Tensor>>(tensors: &[T], axis: impl Axis) -> Tensor {
        let tensors = all(tensors);
        compose("cat", &tensors, || {
            let Some(first) = tensors.iter().find(|t| *t.meta().shape != [0]).or(tensors.first()) else { return refuse("nothing to join") };
            let axis = first.meta().shape.axis(axis.to_axis())?;
            let rank = first.rank();
            let parts: SmallVec<[&Tensor; 8]> = tensors.iter().copied().filter(|t| rank == 1 || *t.meta().shape != [0]).collect();
            // Those that are left out have a say, as in PyTorch.
            let joined = |parts: &[&Tensor]| match parts {
                [one] => (*one).clone(),
                _ => Tensor::apply(Op::Concat { axis: axis as u8 }, Arg::None, parts),
            };
            if tensors.iter().all(|t| t.meta().dtype == first.meta().dtype) {
                return Ok(joined(&parts));
            }
            let dtype = common(&tensors.iter().map(|t| OperandRef::Tensor(t)).collect::<SmallVec<[_; 8]>>())?;
            let parts: Vec<Tensor> = parts.iter().map(|t| t.cast(dtype)).collect();
            Ok(joined(&parts.iter().collect::<Vec<_>>()))
        })
    }
    /// Tensors of one shape joined along a new axis.
    #[track_caller]
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], axis: impl Axis) -> Tensor {
        let tensors = all(tensors);
        compose("stack", &tensors, || {
            let Some(first) = tensors.first() else { return refuse("nothing to stack") };
            let shape = first.meta().shape;
            if let Some(other) = tensors.iter().find(|t| t.meta().shape != shape) {
                return Err(
                    ErrorKind::ShapeMismatch { left: shape, right: other.meta().shape, axes: None, expected: "stacked tensors must have one shape" }.into()
                );
            }
            let axis = axis.to_axis();
            let at = if axis < 0 { axis + shape.rank() as isize + 1 } else { axis };
            let wide: Vec<Tensor> = tensors.iter().map(|t| t.unsqueeze(axis)).collect();
            Ok(Tensor::cat(&wide, at))
        })
    }
    /// Joined along the second axis (vectors: along the only one).
    #[track_caller]
    pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        let tensors = all(tensors);
        compose("hstack", &tensors, || {
            let wide: Vec<Tensor> = tensors.iter().map(|t| t.atleast_1d()).collect();
            Ok(Tensor::cat(&wide, if wide.first().is_some_and(|t| t.rank() == 1) { 0 } else { 1 }))
        })
    }
    /// Joined along the first axis; vectors become rows.
    #[track_caller]
    pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        let tensors = all(tensors);
        compose("vstack", &tensors, || Ok(Tensor::cat(&tensors.iter().map(|t| t.atleast_2d()).collect::<Vec<_>>(), 0)))
    }
    /// Joined along the third axis.
    #[track_caller]
    pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        let tensors = all(tensors);
        compose("dstack", &tensors, || Ok(Tensor::cat(&tensors.iter().map(|t| t.atleast_3d()).collect::<Vec<_>>(), 2)))
    }
    /// Tensors as columns of a matrix: vectors become `[n, 1]`, scalars `[1, 1]`, and all are joined along axis 1.
    #[track_caller]
    pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        let tensors = all(tensors);
        compose("column_stack", &tensors, || {
            let columns: Vec<Tensor> = tensors.iter().map(|t| if t.rank() < 2 { t.reshape([-1isize, 1]) } else { (*t).clone() }).collect();
            Ok(Tensor::cat(&columns, 1))
        })
    }
    /// Parts along axis 1 (of a vector: along axis 0), which `sections` divides.
    ///
    /// # Errors
    /// The error this tensor carries; a scalar; sections that do not divide the axis.
    #[track_caller]
    pub fn hsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.divided("hsplit", sections, 1, if self.rank() == 1 { 0 } else { 1 })
    }
    /// Parts along axis 0, which `sections` divides.
    ///
    /// # Errors
    /// The error this tensor carries; fewer than 2 axes; sections that do not divide the axis.
    #[track_caller]
    pub fn vsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.divided("vsplit", sections, 2, 0)
    }
    /// Parts along axis 2, which `sections` divides.
    ///
    /// # Errors
    /// The error this tensor carries; fewer than 3 axes; sections that do not divide the axis.
    #[track_caller]
    pub fn dsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.divided("dsplit", sections, 3, 2)
    }
    #[track_caller]
    fn divided(&self, name: &'static str, sections: usize, least_rank: usize, axis: usize) -> Result<Vec<Tensor>> {
        compose1(name, self, |x| {
            let shape = x.meta().shape;
            if shape.rank() < least_rank {
                return Err(ErrorKind::Shape { shape, expected: format!("at least {least_rank} axes") }.into());
            }
            match shape[axis].checked_rem(sections) {
                Some(0) => Ok(x.split_with_sizes(&vec![shape[axis] / sections; sections], axis)),
                _ => refuse(format!("{sections} equal parts of an axis of size {}", shape[axis])),
            }
        })
    }
    /// All tensors expanded to the shape in which they broadcast.
    ///
    /// # Errors
    /// The first error that one carries; shapes that do not broadcast.
    #[track_caller]
    pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
        let tensors = all(tensors);
        compose("broadcast_tensors", &tensors, || {
            let mut shape = Shape::SCALAR;
            for t in &tensors {
                shape = broadcast(&shape, &t.meta().shape)?;
            }
            Ok(tensors.iter().map(|t| t.expand(shape).ok()).collect())
        })
    }
    /// All tuples of one element of each vector, `[n, vectors]`, the last running fastest; of one vector: itself.
    #[track_caller]
    pub fn cartesian_prod<T: Borrow<Tensor>>(vectors: &[T]) -> Tensor {
        let vectors = all(vectors);
        compose("cartesian_prod", &vectors, || match &vectors[..] {
            [one] if one.rank() == 1 => Ok((*one).clone()),
            _ => {
                if let Some(v) = vectors.iter().find(|v| v.rank() != 1) {
                    return Err(ErrorKind::Shape { shape: v.meta().shape, expected: "vectors".into() }.into());
                }
                let grids = Tensor::meshgrid(&vectors, Indexing::Ij)?;
                Ok(Tensor::stack(&grids.iter().map(Tensor::ravel).collect::<Vec<_>>(), -1))
            }
        })
    }
    /// All choices of `r` elements of a vector in their order, `[choices, r]`; each element may be taken again
    /// `with_replacement`.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let pairs = Tensor::from_vec(vec![1i32, 2, 3], [3]).combinations(2, false);
    /// assert_eq!(pairs.to_rows::<i32>()?, [[1, 2], [1, 3], [2, 3]]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn combinations(&self, r: usize, with_replacement: bool) -> Tensor {
        compose1("combinations", self, |x| {
            let shape = x.meta().shape;
            if shape.rank() != 1 {
                return Err(ErrorKind::Shape { shape, expected: "a vector".into() }.into());
            }
            if r == 0 {
                return Ok(Tensor::zeros_on([0], x.meta().dtype, x.meta().device));
            }
            let places = choices(shape[0], r, with_replacement);
            let count = places.len() / r;
            let places = Tensor::from_vec_on(places, [count * r], x.meta().device);
            Ok(x.index_select(0, &places).reshape([count, r]))
        })
    }
    /// Coordinates of a grid: tensor k of the result holds the elements of vector k along one axis, expanded over the others.
    ///
    /// # Errors
    /// A tensor of more than one axis, or none at all.
    #[track_caller]
    pub fn meshgrid<T: Borrow<Tensor>>(vectors: &[T], indexing: Indexing) -> Result<Vec<Tensor>> {
        let vectors = all(vectors);
        compose("meshgrid", &vectors, || {
            if vectors.is_empty() {
                return refuse("a grid needs at least one vector");
            }
            if let Some(v) = vectors.iter().find(|v| v.rank() > 1) {
                return Err(ErrorKind::Shape { shape: v.meta().shape, expected: "vectors or scalars".into() }.into());
            }
            let sizes: Vec<usize> = vectors.iter().map(|v| v.meta().shape.elements()).collect();
            let full = Shape::new(&sizes)?;
            let swap = indexing == Indexing::Xy && vectors.len() >= 2;
            Ok(vectors
                .iter()
                .enumerate()
                .map(|(k, v)| {
                    let mut own = vec![1usize; sizes.len()];
                    own[k] = sizes[k];
                    let grid = v.reshape(own).expand(full);
                    if swap { grid.transpose(0, 1).ok() } else { grid.ok() }
                })
                .collect())
        })
    }
    /// The matrices along the diagonal of a larger one, zeros elsewhere. Vectors count as rows, scalars as 1 x 1.
    #[track_caller]
    pub fn block_diag<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        let tensors = all(tensors);
        compose("block_diag", &tensors, || {
            // They meet as they are given: a block of one number is a scalar, whose dtype counts less.
            let sides: Vec<OperandRef<'_>> = tensors.iter().map(|&t| OperandRef::Tensor(t)).collect();
            let dtype = if sides.is_empty() { DType::F32 } else { common(&sides)? };
            let blocks: Vec<Tensor> = tensors.iter().map(|t| t.cast(dtype).atleast_2d()).collect();
            if let Some(b) = blocks.iter().find(|b| b.rank() > 2) {
                return Err(ErrorKind::Shape { shape: b.meta().shape, expected: "at most two axes".into() }.into());
            }
            if blocks.is_empty() {
                return refuse("a block diagonal needs at least one block");
            }
            let columns: usize = blocks.iter().map(|b| b.meta().shape[1]).sum();
            let mut left = 0;
            let rows: Vec<Tensor> = blocks
                .iter()
                .map(|b| {
                    let own = b.meta().shape[1];
                    let row = b.pad_constant([left as isize, (columns - left - own) as isize], 0);
                    left += own;
                    row
                })
                .collect();
            Ok(Tensor::cat(&rows, 0))
        })
    }

    /// The whole tensor repeated along each axis; leading sizes of 1 are added as needed.
    #[track_caller]
    pub fn repeat(&self, repeats: impl ToSizes) -> Tensor {
        compose1("repeat", self, |x| {
            let (shape, repeats) = (x.meta().shape, repeats.to_sizes());
            if repeats.len() < shape.rank() {
                return Err(ErrorKind::Argument(format!("{} repeats for a tensor of {} axes", repeats.len(), shape.rank())).into());
            }
            if let Some(r) = repeats.iter().find(|&&r| r < 0) {
                return refuse(format!("an axis cannot be repeated {r} times"));
            }
            let lead = repeats.len() - shape.rank();
            let dims: Vec<usize> = std::iter::repeat_n(1, lead).chain(shape.iter().copied()).collect();
            let mut whole = dims.clone();
            for (d, &r) in whole.iter_mut().zip(&repeats) {
                *d = d.saturating_mul(r as usize);
            }
            Shape::new(&whole)?;
            let repeated: Vec<usize> = (0..repeats.len()).filter(|&k| repeats[k] != 1).collect();
            let mut out = x.reshape(&dims);
            if repeats.len() + repeated.len() <= crate::MAX_RANK {
                // A new axis before each repeated one, all in one go: the gradient is then one sum.
                let split =
                    |r: &dyn Fn(usize) -> usize| (0..dims.len()).flat_map(|k| [r(k), dims[k]].into_iter().skip((repeats[k] == 1) as usize)).collect::<Vec<_>>();
                return Ok(out.reshape(split(&|_| 1)).expand(split(&|k| repeats[k] as usize)).reshape(whole));
            }
            for axis in repeated {
                out = repeat_axis(&out, axis, repeats[axis] as usize)?;
            }
            Ok(out)
        })
    }
    /// As [`Tensor::repeat`], but sizes that are missing count as 1.
    #[track_caller]
    pub fn tile(&self, repeats: impl ToSizes) -> Tensor {
        let _call = call("tile");
        let repeats = repeats.to_sizes();
        let missing = self.rank().saturating_sub(repeats.len());
        self.repeat(std::iter::repeat_n(1, missing).chain(repeats).collect::<Vec<isize>>())
    }
    /// Each element of an axis repeated `repeats` times in place.
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: usize, axis: impl Axis) -> Tensor {
        compose1("repeat_interleave", self, |x| {
            let (x, _) = on_an_axis(x);
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if repeats == 1 {
                return Ok(x);
            }
            let merged = shape.with(axis, shape[axis].saturating_mul(repeats));
            Shape::new(&merged)?;
            if shape.rank() == crate::MAX_RANK {
                let at = Tensor::arange_on(0, merged[axis], 1, DType::I64, x.meta().device).floor_divide(repeats.max(1));
                return Ok(x.index_select(axis, &at));
            }
            Ok(x.unsqueeze(axis + 1).expand(shape.insert(axis + 1, repeats)?).reshape(merged))
        })
    }
    /// Element k of an axis repeated `repeats[k]` times. How long the result is stands in the data: this reads it.
    #[track_caller]
    pub fn repeat_interleave_by(&self, repeats: &Tensor, axis: impl Axis) -> Tensor {
        compose("repeat_interleave_by", &[self, repeats], || {
            let shape = self.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if *repeats.meta().shape != [shape[axis]] || !repeats.meta().dtype.is_int() {
                return Err(ErrorKind::Shape {
                    shape: repeats.meta().shape,
                    expected: format!("one integer for each of the {} elements of axis {axis}", shape[axis]),
                }
                .into());
            }
            let ends = repeats.cast(DType::I64).cumsum(0);
            let total: i64 = if shape[axis] == 0 { 0 } else { ends.get(-1).item()? };
            if total < 0 || (shape[axis] > 0 && repeats.cast(DType::I64).amin(..).item::<i64>()? < 0) {
                return refuse("repeats are not negative");
            }
            let at = Tensor::arange_on(0, total, 1, DType::I64, self.meta().device);
            Ok(self.index_select(axis, &ends.searchsorted(&at, true)))
        })
    }
    /// Columns (axis 1) in reverse order.
    #[track_caller]
    #[must_use]
    pub fn fliplr(&self) -> Tensor {
        compose1("fliplr", self, |x| {
            if x.rank() < 2 { Err(ErrorKind::Shape { shape: x.meta().shape, expected: "at least two axes".into() }.into()) } else { Ok(x.flip(1)) }
        })
    }
    /// Rows (axis 0) in reverse order.
    #[track_caller]
    #[must_use]
    pub fn flipud(&self) -> Tensor {
        compose1("flipud", self, |x| {
            if x.rank() < 1 { Err(ErrorKind::Shape { shape: x.meta().shape, expected: "at least one axis".into() }.into()) } else { Ok(x.flip(0)) }
        })
    }
    /// Shifted along axes; what falls off one end comes in at the other. No axes: the flattened tensor is shifted.
    #[track_caller]
    pub fn roll(&self, shifts: impl ToSizes, axes: impl ToSizes) -> Tensor {
        compose1("roll", self, |x| {
            let (shifts, axes) = (shifts.to_sizes(), axes.to_sizes());
            if axes.is_empty() && shifts.len() == 1 {
                return Ok(x.ravel().roll(shifts[0], 0i32).reshape(x.meta().shape));
            }
            if shifts.len() != axes.len() || shifts.is_empty() {
                return refuse(format!("{} shifts for {} axes", shifts.len(), axes.len()));
            }
            let mut out = x.clone();
            for (&shift, &axis) in shifts.iter().zip(&axes) {
                let axis = x.meta().shape.axis(axis)?;
                let n = x.meta().shape[axis];
                let back = if n == 0 { 0 } else { shift.rem_euclid(n as isize) as usize };
                if back != 0 {
                    out = Tensor::cat(&[out.narrow(axis, n - back, back), out.narrow(axis, 0, n - back)], axis);
                }
            }
            Ok(out)
        })
    }
    /// Rotated by `k` quarter turns in the plane of two axes, from the first toward the second.
    #[track_caller]
    pub fn rot90(&self, k: isize, axes: [isize; 2]) -> Tensor {
        compose1("rot90", self, |x| {
            let shape = x.meta().shape;
            let (a, b) = (shape.axis(axes[0])?, shape.axis(axes[1])?);
            if a == b {
                return refuse("the two axes of a rotation differ");
            }
            Ok(match k.rem_euclid(4) {
                1 => x.flip(b).transpose(a, b),
                2 => x.flip([a, b]),
                3 => x.flip(a).transpose(a, b),
                _ => x.clone(),
            })
        })
    }
}

/// An axis repeated as a whole: through a new axis before it, or by joining copies where the rank has reached its limit.
fn repeat_axis(x: &Tensor, axis: usize, times: usize) -> Built<Tensor> {
    let shape = x.meta().shape;
    if times == 0 {
        return Ok(x.narrow(axis, 0, 0));
    }
    if shape.rank() == crate::MAX_RANK {
        return Ok(Tensor::cat(&vec![x.clone(); times], axis));
    }
    Ok(x.unsqueeze(axis).expand(shape.insert(axis, times)?).reshape(shape.with(axis, shape[axis] * times)))
}

/// All rising (or, with replacement, not falling) sequences of `r` numbers below `n`, one after the other.
fn choices(n: usize, r: usize, with_replacement: bool) -> Vec<i64> {
    let apart = usize::from(!with_replacement);
    let mut all = Vec::new();
    let mut row: Vec<usize> = (0..r).map(|k| k * apart).collect();
    // The largest number in each place.
    let most = |k: usize| n.checked_sub(1 + (r - 1 - k) * apart);
    while (0..r).all(|k| most(k).is_some_and(|most| row[k] <= most)) {
        all.extend(row.iter().map(|&place| place as i64));
        let Some(k) = (0..r).rev().find(|&k| most(k).is_some_and(|most| row[k] < most)) else { break };
        let next = row[k] + 1;
        for (j, place) in row[k..].iter_mut().enumerate() {
            *place = next + j * apart;
        }
    }
    all
}
