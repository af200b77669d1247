//! Ops that move elements and compute nothing: views, and those that put values together.
use super::{super::program::Ref, Builder, FirstOperand, elementwise::any_number};
use adamant_core::{
    Arg, AxisSet, Op, Shape,
    op::{PadSpec, View},
};

impl Builder {
    pub(super) fn reshape(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.viewed(first);
        let rank = shape.rank();
        let mut dims = shape.to_vec();
        match self.random.below(4) {
            0 => dims = vec![shape.elements()],
            1 if rank >= 2 => {
                let k = self.random.below(rank - 1);
                dims[k] *= dims[k + 1];
                dims.remove(k + 1);
            }
            2 => dims.insert(axis.min(rank), 1),
            _ => {
                if let Some(k) = (0..rank).find(|&k| dims[k] % 2 == 0 && dims[k] > 0) {
                    dims[k] /= 2;
                    dims.insert(k, 2);
                } else {
                    dims.push(1);
                }
            }
        }
        self.plain(Op::View(View::Reshape(Shape::new(&dims).ok()?)), &[a])
    }
    pub(super) fn permute(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, _) = self.viewed(first);
        let mut packed = [0u8; 8];
        let mut left: Vec<u8> = (0..shape.rank() as u8).collect();
        for slot in packed.iter_mut().take(shape.rank()) {
            *slot = left.remove(self.random.below(left.len()));
        }
        self.plain(Op::View(View::Permute(packed)), &[a])
    }
    pub(super) fn expand(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, _) = self.viewed(first);
        let mut dims: Vec<usize> = Vec::new();
        for &d in shape.iter() {
            dims.push(if d == 1 { self.size().min(8) } else { d });
        }
        if shape.rank() < 4 && self.random.one_in(2) {
            dims.insert(0, self.random.between(0, 3));
        }
        self.plain(Op::View(View::Expand(Shape::new(&dims).ok()?)), &[a])
    }
    pub(super) fn slice(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.viewed(first);
        let size = *shape.get(axis)?;
        let step = self.random.between(1, 3);
        let len = self.random.between(0, size.div_ceil(step));
        let span = if len == 0 { 0 } else { (len - 1) * step + 1 };
        let starts = size - span + 1;
        self.apply(Op::View(View::Slice { axis: axis as u8, len, step }), move |r| Arg::Start(r.below(starts)), &[a])
    }
    pub(super) fn flip(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, _) = self.viewed(first);
        if shape.rank() == 0 {
            return None;
        }
        let axes = self.some_axes(shape.rank());
        self.plain(Op::View(View::Flip(axes)), &[a])
    }
    pub(super) fn diagonal(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.viewed(first);
        let other = self.random.below(shape.rank().max(1));
        self.plain(Op::View(View::Diagonal(AxisSet::of([axis, other]))), &[a])
    }
    pub(super) fn windows(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.viewed(first);
        let (size, step) = (self.random.between(0, *shape.get(axis)?), self.random.between(1, 3));
        self.plain(Op::View(View::Windows { axis: axis as u8, size, step }), &[a])
    }
    /// What a view is of, and an axis of it, where it has one.
    fn viewed(&mut self, first: FirstOperand) -> (Ref, Shape, usize) {
        let a = self.first(first, 0, 4);
        let shape = self.shape_of(a);
        (a, shape, self.random.below(shape.rank().max(1)))
    }
    /// Axes of a value of this rank, at times none.
    pub(super) fn some_axes(&mut self, rank: usize) -> AxisSet {
        AxisSet((self.random.between(1, 255) & ((1 << rank) - 1)) as u8)
    }

    pub(super) fn pad(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 1, 3);
        let shape = self.shape_of(a);
        let widths =
            shape.iter().map(|&d| (self.random.between(0, 3) as isize - (d > 1) as isize, self.random.between(0, 3) as isize - (d > 2) as isize)).collect();
        self.apply(Op::Pad(Box::new(PadSpec { widths })), any_number(first.dtype), &[a])
    }
    pub(super) fn concat(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 1, 3);
        let shape = self.shape_of(a);
        let axis = self.random.below(shape.rank());
        let size = self.size().min(8);
        let b = self.second(shape.with(axis, size), first.dtype);
        let mut parts = vec![a, b];
        if self.random.one_in(3) {
            parts.push(a);
        }
        if self.random.one_in(2) {
            parts.swap(0, 1);
        }
        self.plain(Op::Concat { axis: axis as u8 }, &parts)
    }
    pub(super) fn update_slice(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 1, 3);
        let shape = self.shape_of(a);
        let axis = self.random.below(shape.rank());
        let len = self.random.between(0, shape[axis]);
        let s = self.second(shape.with(axis, len), first.dtype);
        let starts = shape[axis] - len + 1;
        self.apply(Op::UpdateSlice { axis: axis as u8 }, move |r| Arg::Start(r.below(starts)), &[a, s])
    }
}
