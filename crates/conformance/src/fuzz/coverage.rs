//! Which primitive met which dtype in which layout: the table that a fuzz run must fill.
use adamant_core::{
    DType, Op,
    op::{ArgOp, ConvRole, ReduceOp, ScanOp, ScatterMode, SegmentOp, View, WindowOp},
    scalar::{Binary, Class, Unary},
};
use std::collections::BTreeMap;

/// How the first operand lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layout {
    /// row-major
    Dense,
    /// axes exchanged
    Permuted,
    /// with gaps
    Strided,
    /// dense from an offset on
    Offset,
    /// backwards
    Flipped,
    /// broadcast: stride 0
    Expanded,
    /// no axes
    Scalar,
    /// no elements
    Empty,
}
impl Layout {
    /// All of them.
    pub const ALL: [Layout; 8] =
        [Layout::Dense, Layout::Permuted, Layout::Strided, Layout::Offset, Layout::Flipped, Layout::Expanded, Layout::Scalar, Layout::Empty];
}
/// A primitive, as the table counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Primitive {
    Const,
    Iota,
    RandomBits,
    Unary(Unary),
    Binary(Binary),
    BinaryScalar(Binary),
    Select,
    Cast,
    Bitcast,
    Reshape,
    Permute,
    Expand,
    Slice,
    Flip,
    Diagonal,
    Windows,
    Pad,
    Concat,
    UpdateSlice,
    Reduce(ReduceOp),
    ArgReduce(ArgOp),
    Scan(ScanOp),
    Matmul,
    Conv(ConvRole),
    Window(WindowOp),
    Gather,
    Scatter(ScatterMode),
    Sort,
    SegmentReduce(SegmentOp),
    StopGrad,
    Transfer,
    Collective,
}
/// A cell of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Want {
    /// the primitive
    pub primitive: Primitive,
    /// dtype of its first operand (of its result where it has none)
    pub dtype: DType,
    /// layout of its first operand
    pub layout: Layout,
}
/// The primitive an op is. Exhaustive: a new variant of `Op` does not compile until it is fuzzed.
pub fn primitive_of(op: &Op) -> Option<Primitive> {
    Some(match op {
        Op::Input | Op::Composite(_) => return None,
        Op::Const(_) => Primitive::Const,
        Op::Iota { .. } => Primitive::Iota,
        Op::RandomBits { .. } => Primitive::RandomBits,
        Op::Unary(f) => Primitive::Unary(*f),
        Op::Binary(f) => Primitive::Binary(*f),
        Op::BinaryScalar(f, _) => Primitive::BinaryScalar(*f),
        Op::Select => Primitive::Select,
        Op::Cast(_) => Primitive::Cast,
        Op::Bitcast(_) => Primitive::Bitcast,
        Op::View(View::Reshape(_)) => Primitive::Reshape,
        Op::View(View::Permute(_)) => Primitive::Permute,
        Op::View(View::Expand(_)) => Primitive::Expand,
        Op::View(View::Slice { .. }) => Primitive::Slice,
        Op::View(View::Flip(_)) => Primitive::Flip,
        Op::View(View::Diagonal(_)) => Primitive::Diagonal,
        Op::View(View::Windows { .. }) => Primitive::Windows,
        Op::Pad(_) => Primitive::Pad,
        Op::Concat { .. } => Primitive::Concat,
        Op::UpdateSlice { .. } => Primitive::UpdateSlice,
        Op::Reduce { op, .. } => Primitive::Reduce(*op),
        Op::ArgReduce { op, .. } => Primitive::ArgReduce(*op),
        Op::Scan { op, .. } => Primitive::Scan(*op),
        Op::Matmul => Primitive::Matmul,
        Op::Conv(c) => Primitive::Conv(c.role),
        Op::Window(w) => Primitive::Window(w.op),
        Op::Gather { .. } => Primitive::Gather,
        Op::Scatter { mode, .. } => Primitive::Scatter(*mode),
        Op::Sort { .. } => Primitive::Sort,
        Op::SegmentReduce { op, .. } => Primitive::SegmentReduce(*op),
        Op::StopGrad => Primitive::StopGrad,
        Op::Transfer(_) => Primitive::Transfer,
        Op::Collective { .. } => Primitive::Collective,
    })
}
impl Primitive {
    /// All of them, every row of the scalar tables included.
    pub fn all() -> Vec<Primitive> {
        use Primitive::*;
        let mut all = vec![
            Const,
            Iota,
            RandomBits,
            Select,
            Cast,
            Bitcast,
            Reshape,
            Permute,
            Expand,
            Slice,
            Flip,
            Diagonal,
            Windows,
            Pad,
            Concat,
            UpdateSlice,
            Matmul,
            Gather,
            Sort,
            StopGrad,
            Transfer,
            Collective,
        ];
        all.extend(adamant_core::scalar::Unary::ALL.iter().map(|&f| Unary(f)));
        all.extend(adamant_core::scalar::Binary::ALL.iter().flat_map(|&f| [Binary(f), BinaryScalar(f)]));
        all.extend([ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min].map(Reduce));
        all.extend([ArgOp::Max, ArgOp::Min].map(ArgReduce));
        all.extend([ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min, ScanOp::LinearRecurrence].map(Scan));
        all.extend([ConvRole::Forward, ConvRole::InputGrad, ConvRole::WeightGrad].map(Conv));
        all.extend([WindowOp::Max, WindowOp::Sum, WindowOp::SumTransposed].map(Window));
        all.extend([SegmentOp::Sum, SegmentOp::Max, SegmentOp::Min].map(SegmentReduce));
        all.extend([ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min].map(Scatter));
        all
    }
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Primitive::Unary(f) => f.name().into(),
            Primitive::Binary(f) => f.name().into(),
            Primitive::BinaryScalar(f) => format!("{} with a number", f.name()),
            other => format!("{other:?}").to_lowercase(),
        }
    }
    /// Element-wise.
    pub fn is_map(self) -> bool {
        matches!(self, Primitive::Unary(_) | Primitive::Binary(_) | Primitive::BinaryScalar(_) | Primitive::Select | Primitive::Cast)
    }
    /// Does it take this dtype?
    pub fn takes(self, dtype: DType) -> bool {
        let class = |c: Class| match c {
            Class::Number => dtype != DType::Bool,
            Class::Float => dtype.is_float(),
            Class::ToBool | Class::Any => true,
            Class::Bits => !dtype.is_float(),
            Class::Integer => dtype.is_int(),
        };
        dtype.computes()
            && match self {
                Primitive::RandomBits => dtype == DType::U32,
                Primitive::Unary(f) => class(f.row().class),
                Primitive::Binary(f) | Primitive::BinaryScalar(f) => class(f.row().class),
                Primitive::Conv(_) | Primitive::Scan(ScanOp::LinearRecurrence) => dtype.is_float(),
                Primitive::Matmul | Primitive::Window(_) => dtype != DType::Bool,
                _ => true,
            }
    }
    /// Can its first operand lie like this?
    pub fn allows(self, layout: Layout) -> bool {
        use Primitive::*;
        match layout {
            Layout::Scalar => !matches!(
                self,
                Iota | RandomBits
                    | Slice
                    | Flip
                    | Diagonal
                    | Windows
                    | Pad
                    | Concat
                    | UpdateSlice
                    | Matmul
                    | Gather
                    | Sort
                    | SegmentReduce(_)
                    | ArgReduce(_)
                    | Scan(_)
                    | Conv(_)
                    | Window(_)
                    | Scatter(_)
            ),
            Layout::Empty => !matches!(self, RandomBits | ArgReduce(_) | Reduce(ReduceOp::Max | ReduceOp::Min)),
            // A key is u32[4].
            Layout::Permuted => !matches!(self, RandomBits | Const | Iota),
            Layout::Dense => true,
            _ => !matches!(self, Const | Iota),
        }
    }
}
/// Every cell that must occur.
pub fn wanted() -> Vec<Want> {
    let mut all = Vec::new();
    for primitive in Primitive::all() {
        for dtype in DType::COMPUTE.into_iter().filter(|&d| primitive.takes(d)) {
            all.extend(Layout::ALL.into_iter().filter(|&l| primitive.allows(l)).map(|layout| Want { primitive, dtype, layout }));
        }
    }
    all
}

/// What occurred.
#[derive(Default, Debug)]
pub struct Coverage {
    counts: BTreeMap<(String, DType, Layout), u64>,
}
impl Coverage {
    /// Notes one occurrence.
    pub fn note(&mut self, primitive: Primitive, dtype: DType, layout: Layout) {
        *self.counts.entry((primitive.name(), dtype, layout)).or_default() += 1;
    }
    /// How often a cell occurred.
    pub fn count(&self, w: &Want) -> u64 {
        self.counts.get(&(w.primitive.name(), w.dtype, w.layout)).copied().unwrap_or(0)
    }
    /// The cells that must occur and did not.
    pub fn missing(&self) -> Vec<Want> {
        wanted().into_iter().filter(|w| self.count(w) == 0).collect()
    }
    /// How many of the wanted cells there are, and how many occurred.
    pub fn filled(&self) -> (usize, usize) {
        let all = wanted();
        (all.len(), all.iter().filter(|w| self.count(w) > 0).count())
    }
}
