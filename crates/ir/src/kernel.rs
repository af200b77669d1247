//! The families of kernels: what a backend is asked to run, free of sizes, scalars and buffers.
use crate::{
    composite::Composite,
    expr::{Expr, Reg},
    op::{ConvSpec, Op, ReduceOp, ScatterMode},
    product::{Product, Sums},
    shape::AxisSet,
};
use std::sync::Arc;

/// The families of kernels.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Debug)]
pub enum KernelKind {
    /// Runs the program over the space; `outputs[k]` is the register stored to output k. Inputs are broadcast to the
    /// space (stride 0); outputs are dense. An output may be the very buffer of an input with the same layout.
    Map { expr: Expr, outputs: Vec<Reg> },
    /// Copies input 0 to output 0; both may be strided. The space is their common shape.
    Copy,
    /// Runs the program over the space and combines its register along the axes into a dense output (axes of size 1).
    /// Along an axis of size 0 a sum is 0 and a product 1; a max or min of nothing never arrives.
    Reduce { expr: Expr, value: Reg, op: ReduceOp, axes: AxisSet },
    /// Inputs `[.., m, k]` and `[.., k, n]`, any strides; dense output `[.., m, n]`, zeros for k = 0. The space is the output's shape.
    Matmul,
    /// Dense inputs and output.
    Conv(Arc<ConvSpec>),
    /// A product or a convolution with what is computed on its operands before and on its sums after. Never asked of a backend
    /// that does not claim it: the two above and element-wise programs say the same. A convolution's operands lie densely; dense
    /// output. With `accumulate`, the output may be the very buffer of the last input.
    Product(Arc<Product>),
    /// Inputs: index and source, any strides; the output holds the destination and is updated in place.
    Scatter { axis: u8, mode: ScatterMode },
    /// A primitive as it is, one that [`primitives!`](crate::primitives) lists among the kernels. Its inputs are strided over
    /// the space, or dense where the op reads dense memory ([`Op::reads_dense`]); its outputs are dense. Where an index is bad:
    /// zero and a fault.
    Primitive(Op),
    /// Dense inputs and outputs, but for those of [`Composite::rows`] where the backend takes such.
    Composite(Arc<dyn Composite>),
}
impl KernelKind {
    /// May a backend ask the system for memory while it runs this? A step that does may fail when others have run, so
    /// nothing that a failure must leave as it was is overwritten before it.
    pub fn may_ask_for_memory(&self) -> bool {
        !matches!(self, KernelKind::Map { .. } | KernelKind::Copy)
    }
    /// The family's name, as profiles show it.
    pub fn family(&self) -> &'static str {
        match self {
            KernelKind::Map { .. } => "map",
            KernelKind::Copy => "copy",
            KernelKind::Reduce { .. } => "reduce",
            KernelKind::Matmul => "matmul",
            KernelKind::Conv(_) => "conv",
            KernelKind::Product(p) if p.sums == Sums::Matmul => "matmul",
            KernelKind::Product(_) => "conv",
            KernelKind::Scatter { .. } => "scatter",
            KernelKind::Primitive(op) => op.family(),
            KernelKind::Composite(c) => c.name(),
        }
    }
}
