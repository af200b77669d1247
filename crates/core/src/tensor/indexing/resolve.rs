//! What an index means for a shape: what is cut out of each axis, the shape that leaves, and the tensors that pick from it.
use super::{IndexItem, IndexSlice, Tensor};
use crate::{
    DType, Device, Error, ErrorKind, MAX_RANK, Shape,
    tensor::{
        compose::{Built, Refusal},
        index::wrap,
    },
};
use smallvec::SmallVec;
use std::ops::Bound;

/// What is left of one axis before tensors pick from it.
#[derive(Clone, Debug)]
pub(super) enum AxisCut {
    /// all of it
    Whole,
    /// `len` elements from `first` on, every `step`-th, in falling order if reversed
    Run { first: usize, len: usize, step: usize, reversed: bool },
    /// the one that a tensor without axes names
    One(Tensor),
}
/// What an index means.
pub(super) struct Resolved {
    /// one for each axis of the tensor
    pub cuts: SmallVec<[AxisCut; MAX_RANK]>,
    /// the sizes of the cuts, without the axes that integers take, with new ones
    pub view: Shape,
    /// for the axes of the view what picks from them; one mask stands for as many as it has
    picks: Vec<Option<Tensor>>,
}
impl Resolved {
    /// Are there no tensors that pick?
    pub fn is_basic(&self) -> bool {
        self.picks.iter().all(Option::is_none)
    }
    pub fn picks(&self) -> Vec<Option<&Tensor>> {
        self.picks.iter().map(Option::as_ref).collect()
    }
    /// The mask that is all that picks, and its first axis.
    pub fn lone_mask(&self) -> Option<(usize, &Tensor)> {
        let mut given = self.picks.iter().enumerate().filter_map(|(axis, pick)| Some((axis, pick.as_ref()?)));
        given.next().filter(|(_, mask)| mask.meta().dtype == DType::Bool && given.next().is_none())
    }
}

/// The items of an index, one after another.
struct IndexWalk {
    op: &'static str,
    shape: Shape,
    device: Device,
    cuts: SmallVec<[AxisCut; MAX_RANK]>,
    view: SmallVec<[usize; 2 * MAX_RANK]>,
    picks: Vec<Option<Tensor>>,
    /// what the tensors of integers broadcast to so far
    common: Shape,
    /// the first error of an integer that points into an axis without elements, if there is any integer
    nowhere: Option<Refusal>,
}

/// What an index means for a tensor's shape.
pub(super) fn resolve(op: &'static str, x: &Tensor, items: &[IndexItem]) -> Built<Resolved> {
    let (shape, device) = (x.meta().shape, x.meta().device);
    let taken: usize = items.iter().map(axes_of).sum();
    if taken > shape.rank() {
        return Err(ErrorKind::Shape { shape, expected: format!("at least {taken} axes, for the index has items for so many") }.into());
    }
    let ellipses: Vec<usize> = (0..items.len()).filter(|&k| matches!(items[k], IndexItem::Ellipsis)).collect();
    if let [first, second, ..] = ellipses[..] {
        let kind = ErrorKind::Argument(format!("items {first} and {second} of the index are both an ellipsis, which stands for all axes left over"));
        return Err(Error::new(op, kind).hint(format!("write `..` for one whole axis; the shape is {shape}")).into());
    }
    let mut walk = IndexWalk { op, shape, device, cuts: SmallVec::new(), view: SmallVec::new(), picks: Vec::new(), common: Shape::SCALAR, nowhere: None };
    for (k, item) in items.iter().enumerate() {
        walk.step(k, item, shape.rank() - taken)?;
    }
    walk.whole(shape.rank() - walk.cuts.len());
    if let Some(refusal) = walk.nowhere.filter(|_| walk.common.elements() > 0) {
        return Err(refusal);
    }
    Ok(Resolved { cuts: walk.cuts, view: Shape::new(&walk.view)?, picks: walk.picks })
}
/// How many axes of the tensor an item takes.
fn axes_of(item: &IndexItem) -> usize {
    match item {
        IndexItem::Ellipsis | IndexItem::NewAxis => 0,
        IndexItem::At(_) | IndexItem::Slice(_) | IndexItem::List(_) => 1,
        IndexItem::Tensor(t) if t.meta().dtype == DType::Bool => t.rank(),
        IndexItem::Tensor(_) => 1,
    }
}
impl IndexWalk {
    fn step(&mut self, k: usize, item: &IndexItem, left_over: usize) -> Built<()> {
        match item {
            IndexItem::Ellipsis => self.whole(left_over),
            IndexItem::NewAxis => self.keep(1, None),
            IndexItem::At(n) => {
                let first = self.counted(k, *n)?;
                self.cuts.push(AxisCut::Run { first, len: 1, step: 1, reversed: false });
            }
            IndexItem::Slice(slice) => {
                let size = self.shape[self.cuts.len()];
                let Some(run) = run_of(slice, size) else { return Err(self.wrong(k, ErrorKind::Argument("a step of 0 goes nowhere".into()))) };
                self.keep(if let AxisCut::Run { len, .. } = run { len } else { size }, None);
                self.cuts.push(run);
            }
            IndexItem::List(numbers) => {
                let counted = numbers.iter().map(|&n| Ok(self.counted(k, n)? as i64)).collect::<Built<Vec<i64>>>()?;
                let n = counted.len();
                self.integers(k, Tensor::from_vec_on(counted, [n], self.device))?;
            }
            IndexItem::Tensor(t) if t.meta().dtype == DType::Bool => self.mask(k, t)?,
            IndexItem::Tensor(t) if !t.meta().dtype.is_int() => {
                return Err(self.wrong(k, ErrorKind::Dtype(format!("an index is a tensor of integers or bool, not {}", t.meta().dtype))));
            }
            IndexItem::Tensor(t) if t.rank() == 0 => {
                let at = wrap(t, self.shape[self.cuts.len()])?;
                self.points(k);
                self.cuts.push(AxisCut::One(at));
            }
            IndexItem::Tensor(t) => self.integers(k, t.clone())?,
        }
        Ok(())
    }
    fn whole(&mut self, axes: usize) {
        for _ in 0..axes {
            self.keep(self.shape[self.cuts.len()], None);
            self.cuts.push(AxisCut::Whole);
        }
    }
    /// An axis of the view, and what picks from it.
    fn keep(&mut self, size: usize, pick: Option<Tensor>) {
        self.view.push(size);
        self.picks.push(pick);
    }
    fn integers(&mut self, k: usize, index: Tensor) -> Built<()> {
        self.common = crate::op::broadcast(&self.common, &index.meta().shape).map_err(|kind| self.wrong(k, kind))?;
        self.points(k);
        self.keep(self.shape[self.cuts.len()], Some(index));
        self.cuts.push(AxisCut::Whole);
        Ok(())
    }
    /// Numbers in data are looked at by the kernel that gathers. Where nothing can be gathered none does.
    fn points(&mut self, k: usize) {
        if self.nowhere.is_none() && self.shape[self.cuts.len()] == 0 {
            let expected = format!("an axis {} with elements, for integers point into it", self.cuts.len());
            self.nowhere = Some(self.wrong(k, ErrorKind::Shape { shape: self.shape, expected }));
        }
    }
    /// A mask without axes is as one element along a new axis: NumPy's rule.
    fn mask(&mut self, k: usize, mask: &Tensor) -> Built<()> {
        let (own, from) = (mask.meta().shape, self.cuts.len());
        if own.rank() == 0 {
            self.keep(1, Some(mask.reshape([1usize])));
            return Ok(());
        }
        if let Some(j) = (0..own.rank()).find(|&j| own[j] != self.shape[from + j]) {
            let expected = "a mask must have the sizes of the axes it indexes";
            return Err(self.wrong(k, ErrorKind::ShapeMismatch { left: self.shape, right: own, axes: Some((from + j, j)), expected }));
        }
        for &size in own.iter() {
            self.view.push(size);
            self.cuts.push(AxisCut::Whole);
        }
        self.picks.push(Some(mask.clone()));
        Ok(())
    }
    /// A number that may count from the end, from the beginning.
    fn counted(&self, k: usize, n: isize) -> Built<usize> {
        let size = self.shape[self.cuts.len()];
        let at = if n < 0 { n.saturating_add_unsigned(size) } else { n };
        match usize::try_from(at) {
            Ok(at) if at < size => Ok(at),
            _ => Err(self.wrong(k, ErrorKind::Index { index: n as i64, axis: Some(self.cuts.len()), bound: size, position: None })),
        }
    }
    fn wrong(&self, k: usize, kind: ErrorKind) -> Refusal {
        let (axis, shape) = (self.cuts.len(), self.shape);
        let bounds = match shape.get(axis) {
            Some(0) => ", which has no elements".to_string(),
            Some(size) => format!(", whose elements are 0 to {}, or -{size} to -1 from the end", size - 1),
            None => String::new(),
        };
        Error::new(self.op, kind).hint(format!("item {k} of the index, counted from 0, is for axis {axis} of shape {shape}{bounds}")).into()
    }
}
/// A slice of an axis of `size` elements as Python's `slice.indices` counts it; `None` if its step is 0.
fn run_of(slice: &IndexSlice, size: usize) -> Option<AxisCut> {
    let (size, back) = (size as isize, slice.step < 0);
    // Between the ends lie all elements, and behind the last of them the place where a run ends.
    let (low, high) = if back { (-1, size - 1) } else { (0, size) };
    let clamp = |n: isize| (if n < 0 { n.saturating_add(size) } else { n }).clamp(low, high);
    let end = match slice.end {
        Bound::Excluded(n) => Some(n),
        // Behind -1 comes no number that counts from the end, before 0 none that counts from the beginning.
        Bound::Included(n) if n == if back { 0 } else { -1 } => None,
        Bound::Included(n) => Some(if back { n.saturating_sub(1) } else { n.saturating_add(1) }),
        Bound::Unbounded => None,
    };
    let start = slice.start.map_or(if back { high } else { low }, clamp);
    let end = end.map_or(if back { low } else { high }, clamp);
    let step = slice.step.unsigned_abs();
    let way = if back { start - end } else { end - start };
    let len = usize::try_from(way).unwrap_or(0).checked_div(step)? + usize::from(way > 0 && !(way as usize).is_multiple_of(step));
    Some(match len {
        0 => AxisCut::Run { first: 0, len, step: 1, reversed: false },
        1 => AxisCut::Run { first: start as usize, len, step: 1, reversed: false },
        _ if back => AxisCut::Run { first: start as usize - (len - 1) * step, len, step, reversed: true },
        _ if step == 1 && len == size as usize => AxisCut::Whole,
        _ => AxisCut::Run { first: start as usize, len, step, reversed: false },
    })
}

/// What the cuts leave of a tensor, in as many axes.
pub(super) fn cut(x: &Tensor, cuts: &[AxisCut]) -> Built<Tensor> {
    cuts.iter().enumerate().try_fold(x.clone(), |x, (axis, cut)| cut_axis(&x, axis, cut))
}
fn cut_axis(x: &Tensor, axis: usize, cut: &AxisCut) -> Built<Tensor> {
    Ok(match cut {
        AxisCut::Whole => x.clone(),
        AxisCut::Run { first, len, step, reversed } => {
            let run = x.slice(axis, *first, end_of(*first, *len, *step), *step);
            if *reversed { run.flip(axis) } else { run }
        }
        AxisCut::One(at) => x.index_select(axis, at),
    })
}
/// One behind the last element of a run.
fn end_of(first: usize, len: usize, step: usize) -> usize {
    if len == 0 { first } else { first + (len - 1) * step + 1 }
}
/// The tensor with `part` in the place that the cuts from an axis on leave of it.
pub(super) fn paste(x: &Tensor, cuts: &[AxisCut], from: usize, part: &Tensor) -> Built<Tensor> {
    let is_cut = |axis: &usize| !matches!(cuts[*axis], AxisCut::Whole);
    let Some(axis) = (from..cuts.len()).find(is_cut) else { return Ok(part.clone()) };
    // Behind this axis the part is smaller than what this axis leaves: it is pasted into that first.
    let part = match (axis + 1..cuts.len()).find(is_cut) {
        Some(next) => paste(&cut_axis(x, axis, &cuts[axis])?, cuts, next, part)?,
        None => part.clone(),
    };
    Ok(match &cuts[axis] {
        AxisCut::Whole => part,
        AxisCut::Run { len: 0, .. } => x.clone(),
        AxisCut::Run { first, len, step, reversed } => {
            let rising = if *reversed { part.flip(axis) } else { part };
            match step {
                1 => x.update_slice(axis, *first, &rising),
                _ => {
                    let end = end_of(*first, *len, *step) as i64;
                    let at = Tensor::arange_on(*first as i64, end, *step as i64, DType::I64, x.meta().device);
                    x.index_copy(axis, &at, &rising)
                }
            }
        }
        AxisCut::One(at) => x.index_copy(axis, at, &part),
    })
}
