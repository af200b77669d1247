//! Random programs. Each is built around a few wanted cells of the coverage table (primitive, dtype, layout of its first
//! operand); everything else is drawn. A node draws from a stream of its own, so that another table of sizes gives the
//! same structure wherever it can.
use super::{
    coverage::{Layout, Primitive, Want},
    program::{Node, NodeKind, RandomProgram, Ref, alone},
};
use crate::{data::Spread, random::Random};
use adamant_core::{
    Arg, AxisSet, DType, Op, Scalar, Shape, TensorType,
    op::{CollectiveKind, ConvRole, ConvSpec, PadSpec, ReduceOp, ScanOp, Side, View, WindowOp, WindowSpec},
    scalar::{Binary, Class, Unary},
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Two tables of sizes: the same structure in two sizes must share kernels.
const SIZES: [[usize; 6]; 2] = [[1, 2, 3, 4, 5, 6], [1, 4, 2, 5, 7, 3]];
/// The arguments of this many rounds are drawn.
pub const ROUNDS: usize = 3;

/// Makes a program around the wanted cells. `variant` picks the table of sizes.
pub fn program(seed: u64, variant: usize, wants: &[Want]) -> RandomProgram {
    let random = Random::new(seed ^ 0xF022);
    let mut top = random.part(0);
    let mut b = Builder {
        program: RandomProgram {
            seed,
            nodes: Vec::new(),
            cells: Vec::new(),
            writes: Vec::new(),
            loss: Vec::new(),
            second_order: top.one_in(8),
            rounds: 1 + top.below(ROUNDS),
        },
        sizes: SIZES[variant % 2],
        float: *top.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16]),
        random: top.clone(),
        large: top.one_in(40),
        all_primitives: Primitive::all(),
    };
    let cells = top.below(3);
    let extra = 4 + top.below(9);
    let (backward, writes) = (top.one_in(2), top.one_in(2));
    for k in 0..cells {
        b.random = random.part(100 + k as u64);
        let dtype = b.float;
        let shape = b.shape(1 + k % 2, 3);
        b.program.cells.push((shape, dtype));
        let node = b.push(NodeKind::Read(k), Vec::new(), vec![(shape, dtype)], Layout::Dense);
        let _ = node;
    }
    for (k, want) in wants.iter().enumerate() {
        b.random = random.part(200 + k as u64);
        b.primitive(*want, false);
    }
    for k in 0..extra {
        b.random = random.part(300 + k as u64);
        b.any_step();
    }
    b.random = random.part(9);
    b.ending(backward, writes);
    b.program
}

struct Builder {
    program: RandomProgram,
    sizes: [usize; 6],
    /// the float dtype this program prefers
    float: DType,
    random: Random,
    large: bool,
    all_primitives: Vec<Primitive>,
}
impl Builder {
    fn push(&mut self, kind: NodeKind, inputs: Vec<Ref>, metas: Vec<(Shape, DType)>, layout: Layout) -> Ref {
        let held = self.random.one_in(5);
        let read_now = self.random.one_in(40);
        self.program.nodes.push(Node { kind, inputs, metas, held, read_now, layout });
        Ref { node: self.program.nodes.len() - 1, output: 0 }
    }
    fn meta(&self, r: Ref) -> (Shape, DType) {
        self.program.nodes[r.node].metas[r.output]
    }
    fn shape_of(&self, r: Ref) -> Shape {
        self.meta(r).0
    }
    fn layout(&self, r: Ref) -> Layout {
        self.program.layout_of(r)
    }
    /// Applies an op; `None` if it does not go together (which drawing allows for).
    fn apply(&mut self, op: Op, arg: impl Fn(&mut Random) -> Arg, inputs: &[Ref]) -> Option<Ref> {
        let types: Vec<TensorType> = inputs.iter().map(|&r| self.meta(r)).map(|(shape, dtype)| TensorType { shape, dtype }).collect();
        let out = op.infer(&types).ok()?;
        if out.iter().any(|m| m.shape.elements() > 8192) {
            return None;
        }
        let args = (0..ROUNDS).map(|_| arg(&mut self.random)).collect();
        let layout = match &op {
            Op::View(View::Permute(_)) => Layout::Permuted,
            Op::View(View::Expand(_)) => Layout::Expanded,
            Op::View(View::Flip(_)) => Layout::Flipped,
            Op::View(View::Slice { step, axis, .. }) => {
                if *step > 1 || *axis > 0 {
                    Layout::Strided
                } else {
                    Layout::Offset
                }
            }
            Op::StopGrad => self.layout(inputs[0]),
            _ => Layout::Dense,
        };
        Some(self.push(NodeKind::Apply { op, args }, inputs.to_vec(), out.iter().map(|m| (m.shape, m.dtype)).collect(), layout))
    }
    fn plain(&mut self, op: Op, inputs: &[Ref]) -> Option<Ref> {
        self.apply(op, |_| Arg::None, inputs)
    }
    fn size(&mut self) -> usize {
        if self.large && self.random.one_in(3) {
            return [33, 67, 130, 1025][self.random.below(4)];
        }
        self.sizes[self.random.below(6)]
    }
    fn shape(&mut self, low: usize, high: usize) -> Shape {
        let rank = self.random.between(low, high);
        let mut dims: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while dims.iter().product::<usize>() > 4096 {
            dims.pop();
            dims.push(2);
            if let Some(largest) = dims.iter_mut().max() {
                *largest = 3;
            }
        }
        Shape::new(&dims).unwrap_or(Shape::SCALAR)
    }
    fn leaf(&mut self, shape: Shape, dtype: DType, spread: Spread) -> Ref {
        let spread = if spread == Spread::Coarse && self.random.one_in(12) { Spread::Special } else { spread };
        let tracked = dtype.is_float() && self.random.one_in(2);
        let fresh = self.random.one_in(2);
        self.push(NodeKind::Leaf { spread, tracked, fresh }, Vec::new(), vec![(shape, dtype)], Layout::Dense)
    }
    /// A new value of exactly this shape, dtype and layout (dense where the shape does not allow the layout).
    fn make(&mut self, shape: Shape, dtype: DType, layout: Layout, spread: Spread) -> Ref {
        let rank = shape.rank();
        let axis = self.random.below(rank.max(1));
        let made = match layout {
            Layout::Permuted if rank >= 2 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                let (i, j) = (self.random.below(rank), self.random.below(rank - 1));
                perm.swap(i, if j >= i { j + 1 } else { j });
                let mut dims = vec![0; rank];
                let mut packed = [0u8; 8];
                for k in 0..rank {
                    dims[perm[k]] = shape[k];
                    packed[k] = perm[k] as u8;
                }
                let x = self.source(&dims, dtype, spread);
                self.plain(Op::View(View::Permute(packed)), &[x])
            }
            Layout::Strided if rank >= 1 && shape[axis] > 0 => {
                let step = self.random.between(2, 3);
                let x = self.source(&shape.with(axis, shape[axis] * step + 1), dtype, spread);
                let len = shape[axis];
                let room = step + 1 - (step - 1);
                self.apply(Op::View(View::Slice { axis: axis as u8, len, step }), |r| Arg::Start(r.below(room)), &[x])
            }
            Layout::Offset if rank >= 1 && shape[0] > 0 => {
                let x = self.source(&shape.with(0, shape[0] + 2), dtype, spread);
                let len = shape[0];
                self.apply(Op::View(View::Slice { axis: 0, len, step: 1 }), |r| Arg::Start(r.below(3)), &[x])
            }
            Layout::Flipped if rank >= 1 => {
                let x = self.source(&shape, dtype, spread);
                self.plain(Op::View(View::Flip(AxisSet::one(axis))), &[x])
            }
            Layout::Expanded if rank >= 1 => {
                let x = if self.random.one_in(2) { self.source(&shape.with(axis, 1), dtype, spread) } else { self.source(&shape[1..], dtype, spread) };
                self.plain(Op::View(View::Expand(shape)), &[x])
            }
            _ => None,
        };
        made.unwrap_or_else(|| self.source(&shape, dtype, spread))
    }
    /// A dense value: a leaf, or a leaf that something was computed from.
    fn source(&mut self, dims: &[usize], dtype: DType, spread: Spread) -> Ref {
        let shape = Shape::new(dims).unwrap_or(Shape::SCALAR);
        if spread == Spread::Coarse
            && self.random.one_in(3)
            && let Some(r) = self.find(|b, r| b.meta(r) == (shape, dtype) && matches!(b.layout(r), Layout::Dense | Layout::Scalar | Layout::Empty))
        {
            return r;
        }
        let x = self.leaf(shape, dtype, spread);
        if spread == Spread::Coarse && self.random.one_in(3) { self.plain(Op::Binary(Binary::Add), &[x, x]).unwrap_or(x) } else { x }
    }
    /// A recent value for which `f` holds.
    fn find(&mut self, f: impl Fn(&Builder, Ref) -> bool) -> Option<Ref> {
        let all: Vec<Ref> = (0..self.program.nodes.len())
            .flat_map(|node| (0..self.program.nodes[node].metas.len()).map(move |output| Ref { node, output }))
            .filter(|&r| f(self, r))
            .collect();
        let back = self.random.below(3).min(all.len().saturating_sub(1));
        all.len().checked_sub(1 + back).map(|k| all[k])
    }
    /// A value of a dtype and layout for which `fits` holds, existing or new.
    fn operand(&mut self, dtype: DType, layout: Layout, exact: bool, low: usize, high: usize) -> Ref {
        if !self.random.one_in(4) {
            let found = self.find(|b, r| {
                let (shape, d) = b.meta(r);
                d == dtype && (low..=high).contains(&shape.rank()) && (!exact || b.layout(r) == layout)
            });
            if let Some(r) = found {
                return r;
            }
        }
        let shape = match layout {
            Layout::Scalar => Shape::SCALAR,
            Layout::Empty => {
                let s = self.shape(low.max(1), high);
                let axis = self.random.below(s.rank());
                s.with(axis, 0)
            }
            Layout::Permuted => self.shape(low.max(2), high.max(2)),
            _ => self.shape(low.max(1), high.max(1)),
        };
        self.make(shape, dtype, layout, Spread::Coarse)
    }
    /// A second operand for element-wise ops: the same shape or one that broadcasts.
    fn beside(&mut self, shape: Shape, dtype: DType, spread: Spread) -> Ref {
        if spread == Spread::Coarse
            && self.random.one_in(2)
            && let Some(r) = self.find(|b, r| b.meta(r).1 == dtype && b.shape_of(r).broadcast(&shape) == Some(shape))
        {
            return r;
        }
        let mut dims = shape.to_vec();
        match self.random.below(5) {
            0 if !dims.is_empty() => {
                let k = self.random.below(dims.len());
                dims[k] = 1;
            }
            1 if !dims.is_empty() => {
                dims.remove(0);
            }
            2 => dims.clear(),
            _ => {}
        }
        let layout = *self.random.pick(&[Layout::Dense, Layout::Dense, Layout::Permuted, Layout::Strided, Layout::Flipped, Layout::Expanded]);
        self.make(Shape::new(&dims).unwrap_or(shape), dtype, layout, spread)
    }

    fn any_step(&mut self) {
        let dtype = if self.random.one_in(4) { *self.random.pick(&DType::COMPUTE) } else { self.float };
        let layout = *self.random.pick(&Layout::ALL);
        // Chains of Maps are what fusion is about.
        let map = !self.random.one_in(4);
        let all = std::mem::take(&mut self.all_primitives);
        for _ in 0..8 {
            let p = *self.random.pick(&all);
            if p.is_map() == map && p.takes(dtype) {
                let layout = if p.allows(layout) { layout } else { Layout::Dense };
                self.primitive(Want { primitive: p, dtype, layout }, true);
                break;
            }
        }
        self.all_primitives = all;
    }

    /// Applies a primitive. `loose`: any layout will do.
    fn primitive(&mut self, want: Want, loose: bool) -> Option<Ref> {
        let Want { primitive, dtype, layout } = want;
        let x = |b: &mut Builder, low: usize, high: usize| b.operand(dtype, layout, !loose, low, high);
        let number = move |r: &mut Random| Arg::Scalar(number(dtype, r, true));
        match primitive {
            Primitive::Const => {
                let shape = self.shape_for(layout, 0);
                self.apply(Op::Const(TensorType { shape, dtype }), number, &[])
            }
            Primitive::Iota => {
                let shape = self.shape_for(layout, 1);
                let axis = self.random.below(shape.rank()) as u8;
                self.plain(Op::Iota { axis, ty: TensorType { shape, dtype } }, &[])
            }
            Primitive::RandomBits => {
                let four = Shape::new(&[4]).unwrap_or(Shape::SCALAR);
                let key = self.make(four, DType::U32, layout, Spread::Below(1000));
                let shape = self.shape(1, 3);
                self.plain(Op::RandomBits { shape }, &[key])
            }
            Primitive::Unary(f) => {
                let a = match unary_spread(f) {
                    Some(s) if dtype.is_float() && self.random.one_in(2) => {
                        let shape = self.shape_for(layout, 0);
                        self.make(shape, dtype, layout, s)
                    }
                    _ => x(self, 0, 4),
                };
                self.plain(Op::Unary(f), &[a])
            }
            Primitive::Binary(f) => {
                let a = x(self, 0, 4);
                let spread = if divides(f) {
                    Spread::NonZero
                } else if shifts(f, dtype) {
                    Spread::Below(7)
                } else {
                    Spread::Coarse
                };
                let b = self.beside(self.shape_of(a), dtype, spread);
                if divides(f) || shifts(f, dtype) || self.random.one_in(2) { self.plain(Op::Binary(f), &[a, b]) } else { self.plain(Op::Binary(f), &[b, a]) }
            }
            Primitive::BinaryScalar(f) => {
                let left = self.random.one_in(3);
                if left && (divides(f) || shifts(f, dtype)) && !dtype.is_float() {
                    let shape = self.shape_for(layout, 0);
                    let a = self.make(shape, dtype, layout, if divides(f) { Spread::NonZero } else { Spread::Below(7) });
                    return self.apply(Op::BinaryScalar(f, Side::Left), number, &[a]);
                }
                let a = x(self, 0, 4);
                let zero = !divides(f);
                let side = if left { Side::Left } else { Side::Right };
                let small = shifts(f, dtype);
                self.apply(
                    Op::BinaryScalar(f, side),
                    move |r| Arg::Scalar(if small { Scalar::Int(r.below(7) as i64) } else { self::number(dtype, r, zero) }),
                    &[a],
                )
            }
            Primitive::Select => {
                let a = x(self, 0, 4);
                let shape = self.shape_of(a);
                let (c, b) = (self.beside(shape, DType::Bool, Spread::Coarse), self.beside(shape, dtype, Spread::Coarse));
                if self.random.one_in(2) { self.plain(Op::Select, &[c, a, b]) } else { self.plain(Op::Select, &[c, b, a]) }
            }
            Primitive::Cast => {
                let to = *self.random.pick(&DType::ALL);
                // Out of range, NaN and fp8 of large numbers are the device's own affair for integers.
                let a = if dtype.is_float() && !to.is_float() && to != DType::Bool {
                    let shape = self.shape_for(layout, 0);
                    self.make(shape, dtype, layout, if to.is_signed() { Spread::Within(-100.0, 100.0) } else { Spread::Within(0.0, 100.0) })
                } else {
                    x(self, 0, 4)
                };
                let narrow = self.plain(Op::Cast(to), &[a])?;
                if to.computes() { Some(narrow) } else { self.plain(Op::Cast(dtype), &[narrow]) }
            }
            Primitive::Bitcast => {
                let partners: &[DType] = match dtype {
                    DType::U8 | DType::I8 | DType::Bool => &[DType::U8, DType::I8],
                    DType::F16 | DType::BF16 => &[DType::F16, DType::BF16],
                    DType::F32 | DType::I32 | DType::U32 => &[DType::F32, DType::I32, DType::U32],
                    _ => &[DType::F64, DType::I64],
                };
                let to = *self.random.pick(partners);
                // No NaN: which of them it is, is nobody's promise.
                let spread = if dtype.is_float() { Spread::Within(0.5, 1.0) } else { Spread::Below(100) };
                let shape = self.shape_for(layout, 0);
                let a = self.make(shape, dtype, layout, spread);
                self.plain(Op::Bitcast(to), &[a])
            }
            Primitive::StopGrad => {
                let a = x(self, 0, 4);
                self.plain(Op::StopGrad, &[a])
            }
            Primitive::Transfer => {
                let a = x(self, 0, 4);
                let meta = self.meta(a);
                Some(self.push(NodeKind::Transfer, vec![a], vec![meta], Layout::Dense))
            }
            Primitive::Collective => {
                let a = x(self, 0, 4);
                let kind = if self.random.one_in(2) { CollectiveKind::AllReduceSum } else { CollectiveKind::Broadcast { root: 0 } };
                self.plain(Op::Collective { kind, group: alone() }, &[a])
            }
            Primitive::Reshape | Primitive::Permute | Primitive::Expand | Primitive::Slice | Primitive::Flip => {
                let a = x(self, 0, 4);
                self.view(primitive, a)
            }
            Primitive::Pad => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let widths = shape
                    .iter()
                    .map(|&d| (self.random.between(0, 3) as isize - (d > 1) as isize, self.random.between(0, 3) as isize - (d > 2) as isize))
                    .collect();
                self.apply(Op::Pad(Box::new(PadSpec { widths })), number, &[a])
            }
            Primitive::Concat => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let axis = self.random.below(shape.rank());
                let size = self.size().min(8);
                let other = *self.random.pick(&Layout::ALL);
                let b = self.make(shape.with(axis, size), dtype, other, Spread::Coarse);
                let mut parts = vec![a, b];
                if self.random.one_in(3) {
                    parts.push(a);
                }
                if self.random.one_in(2) {
                    parts.swap(0, 1);
                }
                self.plain(Op::Concat { axis: axis as u8 }, &parts)
            }
            Primitive::UpdateSlice => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let axis = self.random.below(shape.rank());
                let len = self.random.between(0, shape[axis]);
                let other = *self.random.pick(&Layout::ALL);
                let s = self.make(shape.with(axis, len), dtype, other, Spread::Coarse);
                let room = shape[axis] - len + 1;
                self.apply(Op::UpdateSlice { axis: axis as u8 }, move |r| Arg::Start(r.below(room)), &[a, s])
            }
            Primitive::Reduce(op) => {
                let a = x(self, 0, 4);
                let rank = self.shape_of(a).rank();
                let axes = AxisSet((self.random.between(1, 255) & ((1 << rank) - 1)) as u8);
                let kept = self.plain(Op::Reduce { op, axes }, &[a])?;
                // Back in, broadcast: the pattern of softmax and of norms.
                if !loose || !matches!(op, ReduceOp::Max | ReduceOp::Sum) || self.meta(kept).1 != dtype || dtype == DType::Bool {
                    return Some(kept);
                }
                self.plain(Op::Binary(Binary::Sub), &[a, kept])
            }
            Primitive::ArgReduce(op) => {
                let a = x(self, 1, 4);
                let axis = self.random.below(self.shape_of(a).rank()) as u8;
                self.plain(Op::ArgReduce { op, axis }, &[a])
            }
            Primitive::Scan(op) => {
                let a = x(self, 1, 4);
                let (axis, reverse) = (self.random.below(self.shape_of(a).rank()) as u8, self.random.one_in(2));
                let mut inputs = vec![a];
                if op == ScanOp::LinearRecurrence {
                    let other = *self.random.pick(&Layout::ALL);
                    inputs.push(self.make(self.shape_of(a), dtype, other, Spread::Coarse));
                }
                self.plain(Op::Scan { op, axis, reverse }, &inputs)
            }
            Primitive::Matmul => {
                let a = x(self, 2, 4);
                let shape = self.shape_of(a);
                let rank = shape.rank();
                let n = self.size().min(130);
                let other = *self.random.pick(&Layout::ALL);
                let b = self.make(shape.with(rank - 2, shape[rank - 1]).with(rank - 1, n), dtype, other, Spread::Coarse);
                self.plain(Op::Matmul, &[a, b])
            }
            Primitive::Conv(role) => self.conv(role, dtype, layout),
            Primitive::Window(op) => {
                let spatial = self.random.between(1, 2);
                let shape = if layout == Layout::Empty { self.shape(1, 2).with(0, 0) } else { self.shape(1, 2) };
                let mut dims = shape.to_vec();
                let size: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 3)).collect();
                let stride: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 2)).collect();
                let padding: SmallVec<[(usize, usize); 3]> = size.iter().map(|&s| (self.random.below(s / 2 + 1), self.random.below(s / 2 + 1))).collect();
                let dilation: SmallVec<[usize; 3]> = (0..spatial).map(|_| self.random.between(1, 2)).collect();
                let wide: SmallVec<[usize; 3]> = (0..spatial).map(|k| dilation[k] * (size[k] - 1) + self.random.between(1, 4)).collect();
                dims.extend(&wide);
                let mut spec = WindowSpec { op, size, stride, padding, dilation, open: SmallVec::new() };
                if op == WindowOp::SumTransposed {
                    spec.open = wide;
                    let lead = dims.len() - spatial;
                    for k in 0..spatial {
                        dims[lead + k] = adamant_core::op::window_size(spec.open[k], spec.size[k], spec.stride[k], spec.padding[k], spec.dilation[k])?;
                    }
                }
                let a = self.make(Shape::new(&dims).ok()?, dtype, layout, Spread::Coarse);
                self.plain(Op::Window(Arc::new(spec)), &[a])
            }
            Primitive::Gather => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let axis = self.random.below(shape.rank());
                let index = self.index(shape, axis)?;
                self.plain(Op::Gather { axis: axis as u8 }, &[a, index])
            }
            Primitive::Scatter(mode) => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let axis = self.random.below(shape.rank());
                let index = self.index(shape, axis)?;
                let other = *self.random.pick(&Layout::ALL);
                let s = self.make(self.shape_of(index), dtype, other, Spread::Coarse);
                self.plain(Op::Scatter { axis: axis as u8, mode }, &[a, index, s])
            }
            Primitive::SegmentReduce(op) => {
                let a = x(self, 1, 3);
                let shape = self.shape_of(a);
                let axis = self.random.below(shape.rank());
                let offsets = self.offsets(shape, axis)?;
                self.plain(Op::SegmentReduce { op, axis: axis as u8 }, &[a, offsets])
            }
            Primitive::Sort => {
                let a = x(self, 1, 3);
                let (axis, descending) = (self.random.below(self.shape_of(a).rank()) as u8, self.random.one_in(2));
                self.plain(Op::Sort { axis, descending }, &[a])
            }
        }
    }
    /// A shape that a layout is possible in.
    fn shape_for(&mut self, layout: Layout, low: usize) -> Shape {
        match layout {
            Layout::Scalar if low == 0 => Shape::SCALAR,
            Layout::Empty => self.shape(low.max(1), 3).with(0, 0),
            Layout::Permuted => self.shape(2, 3),
            _ => self.shape(1, 3),
        }
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
    /// A gathered value of which some indices are out of range.
    fn badly_indexed(&mut self, shape: Shape, dtype: DType) -> Option<Ref> {
        let x = self.leaf(shape, dtype, Spread::Coarse);
        let index = self.leaf(shape, DType::I64, Spread::Wild(*shape.first()?));
        self.plain(Op::Gather { axis: 0 }, &[x, index])
    }
    fn view(&mut self, p: Primitive, a: Ref) -> Option<Ref> {
        let shape = self.shape_of(a);
        let rank = shape.rank();
        let axis = self.random.below(rank.max(1));
        match p {
            Primitive::Reshape => {
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
            Primitive::Permute => {
                let mut packed = [0u8; 8];
                let mut left: Vec<u8> = (0..rank as u8).collect();
                for slot in packed.iter_mut().take(rank) {
                    *slot = left.remove(self.random.below(left.len()));
                }
                self.plain(Op::View(View::Permute(packed)), &[a])
            }
            Primitive::Expand => {
                let mut dims: Vec<usize> = Vec::new();
                for &d in shape.iter() {
                    dims.push(if d == 1 { self.size().min(8) } else { d });
                }
                if rank < 4 && self.random.one_in(2) {
                    dims.insert(0, self.random.between(0, 3));
                }
                self.plain(Op::View(View::Expand(Shape::new(&dims).ok()?)), &[a])
            }
            Primitive::Slice if rank > 0 => {
                let size = shape[axis];
                let step = self.random.between(1, 3);
                let len = self.random.between(0, size.div_ceil(step));
                let span = if len == 0 { 0 } else { (len - 1) * step + 1 };
                let room = size - span + 1;
                self.apply(Op::View(View::Slice { axis: axis as u8, len, step }), move |r| Arg::Start(r.below(room)), &[a])
            }
            Primitive::Flip if rank > 0 => {
                let axes = AxisSet((self.random.between(1, 255) & ((1 << rank) - 1)) as u8);
                self.plain(Op::View(View::Flip(axes)), &[a])
            }
            _ => None,
        }
    }
    fn conv(&mut self, role: ConvRole, dtype: DType, layout: Layout) -> Option<Ref> {
        let spatial = self.random.between(1, 2);
        let (n, groups) = (if layout == Layout::Empty { 0 } else { self.random.between(1, 2) }, self.random.between(1, 2));
        let (ci, co) = (self.random.between(1, 2), self.random.between(1, 2));
        let draw = |b: &mut Builder, low: usize, high: usize| -> SmallVec<[usize; 3]> { (0..spatial).map(|_| b.random.between(low, high)).collect() };
        let (kernel, stride, dilation) = (draw(self, 1, 3), draw(self, 1, 2), draw(self, 1, 2));
        let padding: SmallVec<[(usize, usize); 3]> = (0..spatial).map(|_| (self.random.below(2), self.random.below(2))).collect();
        let wide: SmallVec<[usize; 3]> = (0..spatial).map(|k| dilation[k] * (kernel[k] - 1) + self.random.between(1, 3)).collect();
        let narrow: Option<SmallVec<[usize; 3]>> =
            (0..spatial).map(|k| adamant_core::op::window_size(wide[k], kernel[k], stride[k], padding[k], dilation[k])).collect();
        let narrow = narrow?;
        let of = |a: usize, b: usize, s: &[usize]| Shape::new(&[&[a, b], s].concat()).ok();
        let (x, w, y) = (of(n, groups * ci, &wide)?, of(groups * co, ci, &kernel)?, of(n, groups * co, &narrow)?);
        let (a, b, open) = match role {
            ConvRole::Forward => (x, w, SmallVec::new()),
            ConvRole::InputGrad => (y, w, wide),
            ConvRole::WeightGrad => (x, y, kernel),
        };
        let a = self.make(a, dtype, layout, Spread::Coarse);
        let other = *self.random.pick(&Layout::ALL);
        let b = self.make(b, dtype, other, Spread::Coarse);
        self.plain(Op::Conv(Arc::new(ConvSpec { role, stride, padding, dilation, groups, open })), &[a, b])
    }
    /// What is kept, written and differentiated.
    fn ending(&mut self, backward: bool, writes: bool) {
        let last = self.program.nodes.len() - 1;
        self.program.nodes[last].held = true;
        if backward {
            let dtype = self.float;
            for _ in 0..1 + self.random.below(3) {
                if let Some(r) = self.find(|b, r| b.meta(r).1 == dtype && !matches!(b.program.nodes[r.node].kind, NodeKind::Leaf { .. })) {
                    self.program.loss.push(r);
                }
            }
        }
        if writes {
            for c in 0..self.program.cells.len() {
                let (shape, dtype) = self.program.cells[c];
                let fits = self.find(|b, r| {
                    b.meta(r).1 == dtype
                        && b.shape_of(r).broadcast(&shape) == Some(shape)
                        && !matches!(b.program.nodes[r.node].kind, NodeKind::Leaf { .. } | NodeKind::Read(_))
                });
                let (Some(v), Some(old)) = (fits, (0..self.program.nodes.len()).find(|&k| matches!(self.program.nodes[k].kind, NodeKind::Read(i) if i == c)))
                else {
                    continue;
                };
                let old = Ref { node: old, output: 0 };
                // Now and then the data is bad, and the step must leave its cells alone.
                let v = if self.random.one_in(8) { self.badly_indexed(shape, dtype).unwrap_or(v) } else { v };
                let scaled = self.apply(Op::BinaryScalar(Binary::Mul, Side::Right), |r| Arg::Scalar(Scalar::Float(r.between(1, 4) as f64 / 8.0)), &[v]);
                if let Some(new) = scaled.and_then(|s| self.plain(Op::Binary(Binary::Add), &[old, s])) {
                    self.program.nodes[new.node].held = false;
                    self.program.writes.push((c, new));
                }
            }
        }
    }
}

fn divides(f: Binary) -> bool {
    matches!(f.name(), "div" | "floor_divide" | "remainder" | "fmod")
}
fn shifts(f: Binary, dtype: DType) -> bool {
    f.row().class == Class::Integer || f.name().contains("shift") || (f.name() == "pow" && !dtype.is_float())
}
fn unary_spread(f: Unary) -> Option<Spread> {
    let (low, high) = f.row().domain;
    Some(Spread::Within(low, high))
}
/// A number of a dtype.
fn number(dtype: DType, r: &mut Random, zero: bool) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(r.one_in(2) || !zero),
        d if d.is_float() => Scalar::Float(if r.one_in(10) && zero {
            *r.pick(&[0.0, -0.0, 1.0, 3.0])
        } else {
            (r.between(1, 16) as f64 / 8.0) * if r.one_in(2) { 1.0 } else { -1.0 }
        }),
        d => Scalar::Int(r.between(!zero as usize, 5) as i64 * if d.is_signed() && r.one_in(3) { -1 } else { 1 }),
    }
}
