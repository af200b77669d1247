//! Ops that sum over axes or windows: reductions, scans, products of matrices, convolutions, pooling.
use super::{
    super::{coverage::Layout, program::Ref},
    Builder, FirstOperand,
};
use crate::data::Spread;
use adamant_core::{
    DType, Op, Shape,
    op::{ArgOp, ConvRole, ConvSpec, ReduceOp, ScanOp, WindowOp, WindowSpec, window_size},
    scalar::Binary,
};
use smallvec::SmallVec;
use std::sync::Arc;

impl Builder {
    pub(super) fn reduce(&mut self, op: ReduceOp, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 0, 4);
        let axes = self.some_axes(self.shape_of(a).rank());
        let kept = self.plain(Op::Reduce { op, axes }, &[a])?;
        // Back in, broadcast: the pattern of softmax and of norms.
        if first.is_exact || !matches!(op, ReduceOp::Max | ReduceOp::Sum) || self.meta(kept).1 != first.dtype || first.dtype == DType::Bool {
            return Some(kept);
        }
        self.plain(Op::Binary(Binary::Sub), &[a, kept])
    }
    pub(super) fn arg_reduce(&mut self, op: ArgOp, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 1, 4);
        let axis = self.random.below(self.shape_of(a).rank()) as u8;
        self.plain(Op::ArgReduce { op, axis }, &[a])
    }
    pub(super) fn scan(&mut self, op: ScanOp, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 1, 4);
        let (axis, reverse) = (self.random.below(self.shape_of(a).rank()) as u8, self.random.one_in(2));
        let mut inputs = vec![a];
        if op == ScanOp::LinearRecurrence {
            inputs.push(self.second(self.shape_of(a), first.dtype));
        }
        self.plain(Op::Scan { op, axis, reverse }, &inputs)
    }
    pub(super) fn matmul(&mut self, first: FirstOperand) -> Option<Ref> {
        let a = self.first(first, 2, 4);
        let shape = self.shape_of(a);
        let rank = shape.rank();
        let n = self.size().min(130);
        let b = self.second(shape.with(rank - 2, shape[rank - 1]).with(rank - 1, n), first.dtype);
        self.plain(Op::Matmul, &[a, b])
    }
    pub(super) fn conv(&mut self, role: ConvRole, FirstOperand { dtype, layout, .. }: FirstOperand) -> Option<Ref> {
        let spatial = self.random.between(1, 2);
        let (n, groups) = (if layout == Layout::Empty { 0 } else { self.random.between(1, 2) }, self.random.between(1, 2));
        let (ci, co) = (self.random.between(1, 2), self.random.between(1, 2));
        let draw = |b: &mut Builder, low: usize, high: usize| -> SmallVec<[usize; 3]> { (0..spatial).map(|_| b.random.between(low, high)).collect() };
        let (kernel, stride, dilation) = (draw(self, 1, 3), draw(self, 1, 2), draw(self, 1, 2));
        let padding: SmallVec<[(usize, usize); 3]> = (0..spatial).map(|_| (self.random.below(2), self.random.below(2))).collect();
        let wide: SmallVec<[usize; 3]> = (0..spatial).map(|k| dilation[k] * (kernel[k] - 1) + self.random.between(1, 3)).collect();
        let narrow: Option<SmallVec<[usize; 3]>> = (0..spatial).map(|k| window_size(wide[k], kernel[k], stride[k], padding[k], dilation[k])).collect();
        let narrow = narrow?;
        let of = |a: usize, b: usize, s: &[usize]| Shape::new(&[&[a, b], s].concat()).ok();
        let (x, w, y) = (of(n, groups * ci, &wide)?, of(groups * co, ci, &kernel)?, of(n, groups * co, &narrow)?);
        let (a, b, open) = match role {
            ConvRole::Forward => (x, w, SmallVec::new()),
            ConvRole::InputGrad => (y, w, wide),
            ConvRole::WeightGrad => (x, y, kernel),
        };
        let a = self.make(a, dtype, layout, Spread::Coarse);
        let b = self.second(b, dtype);
        self.plain(Op::Conv(Arc::new(ConvSpec { role, stride, padding, dilation, groups, open })), &[a, b])
    }
    pub(super) fn window(&mut self, op: WindowOp, FirstOperand { dtype, layout, .. }: FirstOperand) -> Option<Ref> {
        let spatial = self.random.between(1, 2);
        let shape = if layout == Layout::Empty { self.shape(1, 2).with(0, 0) } else { self.shape(1, 2) };
        let size: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 3)).collect();
        let stride: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 2)).collect();
        let padding: SmallVec<[(usize, usize); 3]> = size.iter().map(|&s| (self.random.below(s / 2 + 1), self.random.below(s / 2 + 1))).collect();
        let dilation: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 2)).collect();
        let wide: SmallVec<[usize; 3]> = (0..spatial).map(|k| dilation[k] * (size[k] - 1) + self.random.between(1, 4)).collect();
        let mut dims = shape.to_vec();
        dims.extend(&wide);
        let mut spec = WindowSpec { op, size, stride, padding, dilation, open: SmallVec::new() };
        if op == WindowOp::SumTransposed {
            spec.open = wide;
            let lead = dims.len() - spatial;
            for k in 0..spatial {
                dims[lead + k] = window_size(spec.open[k], spec.size[k], spec.stride[k], spec.padding[k], spec.dilation[k])?;
            }
        }
        let a = self.make(Shape::new(&dims).ok()?, dtype, layout, Spread::Coarse);
        self.plain(Op::Window(Arc::new(spec)), &[a])
    }
}
