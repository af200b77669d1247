//! What a backend runs: a kernel (structure), in a step (with its buffers, sizes and arguments).
use crate::{
    DType, Scalar, Shape,
    backend::Guard,
    buffer::Buffer,
    shape::{Layout, MAX_RANK},
};
use crate::{Error, ErrorKind, Op, Origin};
pub use adamant_ir::{fault::Fault, kernel::*};
use std::{any::Any, sync::OnceLock};

/// A kernel: what is computed, free of sizes, scalars and buffers.
#[derive(Debug)]
pub struct Kernel {
    /// the family and its spec
    pub kind: KernelKind,
    /// a place for what the backend makes of it once (a compiled pipeline, a resolved program)
    pub prepared: OnceLock<Box<dyn Any + Send + Sync>>,
}
impl Kernel {
    /// A kernel nothing is prepared for yet.
    pub fn new(kind: KernelKind) -> Kernel {
        Kernel { kind, prepared: OnceLock::new() }
    }
}

/// A tensor as a kernel sees it. One of zero elements arrives like all others, and its offset may lie behind the end of its
/// buffer: look at the shape before you look into the buffer.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// where its elements are
    pub buffer: &'a Buffer,
    /// its own shape; for inputs of Map and Reduce the space
    pub shape: Shape,
    /// index of its first element in the buffer
    pub offset: usize,
    /// steps between neighbours along each axis, in elements
    pub strides: &'a [isize; MAX_RANK],
    /// its dtype
    pub dtype: DType,
    /// Are the elements row-major without gaps, from the offset on?
    pub dense: bool,
}
impl Operand<'_> {
    /// How its elements lie in the buffer.
    #[inline]
    pub fn layout(&self) -> Layout {
        Layout { offset: self.offset, strides: *self.strides }
    }
}

/// A kernel with everything it needs to run once.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// what to run
    pub kernel: &'a Kernel,
    /// the index space
    pub space: Shape,
    /// what is read
    pub inputs: &'a [Operand<'a>],
    /// what is written
    pub outputs: &'a [Operand<'a>],
    /// values of the program's arguments
    pub args: &'a [Scalar],
    /// where bad data is reported, on a device where the host looks
    pub fault: &'a FaultWord,
    /// what it has to do with its run's fault words, on an asynchronous device
    pub guard: Guard<'a>,
}

/// An error found in data. The first report of a step stays.
#[derive(Debug, Default)]
pub struct FaultWord(OnceLock<Fault>);
impl FaultWord {
    /// A word nobody reports to.
    pub const fn none() -> FaultWord {
        FaultWord(OnceLock::new())
    }
    /// Reports a fault.
    pub fn set(&self, fault: Fault) {
        let _ = self.0.set(fault);
    }
    /// What was reported.
    pub fn get(&self) -> Option<&Fault> {
        self.0.get()
    }
}

/// An op as an error found in its data names it.
#[derive(Clone, Copy, Debug)]
pub struct Culprit {
    /// its name
    pub name: &'static str,
    /// the axis that its index points into
    pub axis: Option<usize>,
}
impl Culprit {
    /// That of an op.
    pub fn of(op: &Op) -> Culprit {
        Culprit { name: op.name(), axis: op.indexed_axis() }
    }
}
/// The error a fault becomes.
pub fn fault_error(op: Culprit, fault: Fault, origin: Origin) -> Error {
    let Culprit { name, axis } = op;
    let kind = match fault {
        Fault::Index { index, bound, position } => ErrorKind::Index { index, axis, bound, position: Some(position) },
        Fault::DivisionByZero => ErrorKind::Domain("an integer was divided by zero".into()),
        Fault::Domain(s) => ErrorKind::Domain(s),
    };
    Error::at(name, kind, origin)
}
