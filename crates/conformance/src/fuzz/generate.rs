//! Random programs. Each is built around a few wanted cells of the coverage table (primitive, dtype, layout of its first
//! operand); everything else is drawn. A node draws from a stream of its own, so that another table of sizes gives the
//! same structure wherever it can.
mod elementwise;
mod indexed;
mod products;
mod views;

use super::{
    coverage::{Layout, Primitive, Want},
    program::{Node, NodeKind, RandomProgram, Ref},
};
use crate::{data::Spread, random::Random};
use adamant_core::{
    Arg, AxisSet, DType, Op, Scalar, Shape, TensorType,
    op::{Side, View},
    scalar::Binary,
};

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

/// What the op that is wanted reads first.
#[derive(Clone, Copy)]
struct FirstOperand {
    dtype: DType,
    layout: Layout,
    /// no other layout will do
    is_exact: bool,
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
            Op::View(View::Diagonal(_) | View::Windows { .. }) => Layout::Strided,
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
                self.apply(Op::View(View::Slice { axis: axis as u8, len, step }), |r| Arg::Start(r.below(2)), &[x])
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
        if self.random.one_in(60) && self.weight_by_its_norm().is_some() {
            return;
        }
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
        let first = FirstOperand { dtype: want.dtype, layout: want.layout, is_exact: !loose };
        match want.primitive {
            Primitive::Const => self.constant(first),
            Primitive::Iota => self.iota(first),
            Primitive::RandomBits => self.random_bits(first),
            Primitive::Unary(f) => self.unary(f, first),
            Primitive::Binary(f) => self.binary(f, first),
            Primitive::BinaryScalar(f) => self.binary_scalar(f, first),
            Primitive::Select => self.select(first),
            Primitive::Cast => self.cast(first),
            Primitive::Bitcast => self.bitcast(first),
            Primitive::StopGrad => {
                let a = self.first(first, 0, 4);
                self.plain(Op::StopGrad, &[a])
            }
            Primitive::Transfer => self.transfer(first),
            Primitive::Collective => self.collective(first),
            Primitive::Reshape => self.reshape(first),
            Primitive::Permute => self.permute(first),
            Primitive::Expand => self.expand(first),
            Primitive::Slice => self.slice(first),
            Primitive::Flip => self.flip(first),
            Primitive::Diagonal => self.diagonal(first),
            Primitive::Windows => self.windows(first),
            Primitive::Pad => self.pad(first),
            Primitive::Concat => self.concat(first),
            Primitive::UpdateSlice => self.update_slice(first),
            Primitive::Reduce(op) => self.reduce(op, first),
            Primitive::ArgReduce(op) => self.arg_reduce(op, first),
            Primitive::Scan(op) => self.scan(op, first),
            Primitive::Matmul => self.matmul(first),
            Primitive::Conv(role) => self.conv(role, first),
            Primitive::Window(op) => self.window(op, first),
            Primitive::Gather => self.gather(first),
            Primitive::Scatter(mode) => self.scatter(mode, first),
            Primitive::SegmentReduce(op) => self.segment_reduce(op, first),
            Primitive::Sort => self.sort(first),
        }
    }
    /// The first operand of an op, of so many axes.
    fn first(&mut self, first: FirstOperand, low: usize, high: usize) -> Ref {
        self.operand(first.dtype, first.layout, first.is_exact, low, high)
    }
    /// A second operand of this shape, in any layout.
    fn second(&mut self, shape: Shape, dtype: DType) -> Ref {
        let layout = *self.random.pick(&Layout::ALL);
        self.make(shape, dtype, layout, Spread::Coarse)
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
    /// A gathered value of which some indices are out of range.
    fn badly_indexed(&mut self, shape: Shape, dtype: DType) -> Option<Ref> {
        let x = self.leaf(shape, dtype, Spread::Coarse);
        let index = self.leaf(shape, DType::I64, Spread::Wild(*shape.first()?));
        self.plain(Op::Gather { axis: 0 }, &[x, index])
    }
}
