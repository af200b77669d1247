//! Ops that go by indices, offsets or order: some of the indices and offsets are wrong, which every device must tell alike.
use super::{
    super::{coverage::Layout, program::Ref},
    Builder, FirstOperand,
};
use crate::data::Spread;
use adamant_core::{
    DType, Op, Shape,
    op::{ScatterMode, SegmentOp},
};

impl Builder {
    pub(super) fn gather(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.along_an_axis(first);
        let index = self.index(shape, axis)?;
        self.plain(Op::Gather { axis: axis as u8 }, &[a, index])
    }
    pub(super) fn scatter(&mut self, mode: ScatterMode, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.along_an_axis(first);
        let index = self.index(shape, axis)?;
        let s = self.second(self.shape_of(index), first.dtype);
        self.plain(Op::Scatter { axis: axis as u8, mode }, &[a, index, s])
    }
    pub(super) fn segment_reduce(&mut self, op: SegmentOp, first: FirstOperand) -> Option<Ref> {
        let (a, shape, axis) = self.along_an_axis(first);
        let offsets = self.offsets(shape, axis)?;
        self.plain(Op::SegmentReduce { op, axis: axis as u8 }, &[a, offsets])
    }
    pub(super) fn sort(&mut self, first: FirstOperand) -> Option<Ref> {
        let (a, _, axis) = self.along_an_axis(first);
        let descending = self.random.one_in(2);
        self.plain(Op::Sort { axis: axis as u8, descending }, &[a])
    }
    fn along_an_axis(&mut self, first: FirstOperand) -> (Ref, Shape, usize) {
        let a = self.first(first, 1, 3);
        let shape = self.shape_of(a);
        (a, shape, self.random.below(shape.rank()))
    }
    fn index(&mut self, shape: Shape, axis: usize) -> Option<Ref> {
        let bound = shape[axis];
        let len = if bound == 0 { 0 } else { self.random.between(0, 5) };
        let mut dims = shape.with(axis, len);
        if dims.rank() > 1 && self.random.one_in(3) {
            let k = (axis + 1) % dims.rank();
            dims = dims.with(k, dims[k].saturating_sub(1));
        }
        let dtype = *self.random.pick(&[DType::I64, DType::I64, DType::I32, DType::U8, DType::U32, DType::I8]);
        if bound > 127 && dtype.size() == 1 {
            return None;
        }
        let spread = if self.random.one_in(30) { Spread::Wild(bound) } else { Spread::Below(bound) };
        let layout = *self.random.pick(&[Layout::Dense, Layout::Dense, Layout::Permuted, Layout::Strided, Layout::Flipped, Layout::Expanded]);
        Some(self.make(dims, dtype, layout, spread))
    }
    /// Offsets of segments along an axis, some of them wrong.
    fn offsets(&mut self, shape: Shape, axis: usize) -> Option<Ref> {
        let n = shape[axis];
        let segments = if n == 0 { self.random.between(0, 2) } else { self.random.between(1, 5) };
        let dims = Shape::new(&[&shape[..axis], &[segments + 1]].concat()).ok()?;
        let dtype = *self.random.pick(&[DType::I64, DType::I64, DType::I32, DType::U8, DType::U32, DType::I8]);
        if n > 127 && dtype.size() == 1 {
            return None;
        }
        let spread = if self.random.one_in(30) { Spread::Wild(n) } else { Spread::Cuts(n) };
        Some(self.leaf(dims, dtype, spread))
    }
}
