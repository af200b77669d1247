//! Between a skeleton and who launches it: what there is to do, what the device can do, and where launches go.
//!
//! A backend implements [`Launcher`]; so does a test. Buffers, pipelines and queues stay on its side: here a buffer is a
//! number, and a compiled text another.
use crate::{
    Dialect,
    bindings::{Bindings, Place},
    frame::GROUP,
    nest::{Nest, Strides},
};
use adamant_ir::{
    DType, ErrorKind, Scalar, Shape,
    shape::{Layout, RowLayout},
};
use smallvec::SmallVec;

/// The structure of a launch: what its text depends on besides the kernel.
pub type Key = SmallVec<[u8; 32]>;

/// A tensor as a skeleton sees it.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// the number of its buffer; tensors in one buffer have one number
    pub buffer: usize,
    /// its own shape; for inputs of a map and a reduction the space
    pub shape: Shape,
    /// index of its first element in the buffer
    pub offset: usize,
    /// steps between neighbours along each axis, in elements
    pub strides: Strides,
    /// its dtype
    pub dtype: DType,
    /// Are the elements row-major without gaps, from the offset on?
    pub dense: bool,
}
impl Array {
    /// Where its memory is.
    pub fn place(&self) -> Place {
        Place::Buffer(self.buffer)
    }
    /// Where its rows lie. An operand that is taken as rows has such.
    pub fn rows(&self) -> Option<RowLayout> {
        Layout { offset: self.offset, strides: self.strides }.rows(&self.shape)
    }
    /// Its offset and strides.
    pub fn layout(&self) -> (usize, Strides) {
        (self.offset, self.strides)
    }
}
/// What a kernel is to do once.
#[derive(Clone, Copy, Debug)]
pub struct Work<'w> {
    /// the index space
    pub space: Shape,
    /// what is read
    pub inputs: &'w [Array],
    /// what is written
    pub outputs: &'w [Array],
    /// values of the program's arguments
    pub args: &'w [Scalar],
}
/// What skeletons must know of a device.
#[derive(Clone, Copy)]
pub struct LaunchTarget {
    /// the language of its kernels
    pub dialect: &'static dyn Dialect,
    /// the most buffers that a kernel binds, with that of its parameters
    pub buffers: usize,
    /// the most bytes of one buffer that a kernel can see
    pub largest: u64,
    /// invocations of a subgroup, where kernels see subgroups and all are of one size from 4 to 32
    pub subgroup: Option<usize>,
    /// Do 32 invocations together multiply matrices of 16-bit floats by one instruction, and copy pieces of 16 bytes to the
    /// workgroup's memory that nobody waits for (a card of compute capability 8.0 or later)?
    pub matrices: bool,
    /// Does it compute on the host's processor, where barriers are slow and branches run all their sides?
    pub on_host: bool,
}
impl LaunchTarget {
    /// May a program compute with the dtype?
    pub fn computes(&self, dtype: DType) -> bool {
        self.dialect.register(dtype).is_ok()
    }
}
/// What a launch may report: the first position at which it found bad data, and what it found there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// a division by zero
    Division,
    /// an index out of this bound
    Index(usize),
}
/// A text that was compiled, by the launcher's own number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompiledText(pub usize);
/// How a skeleton records itself once more.
pub type Again<'f> = &'f mut dyn FnMut(&mut dyn Launcher) -> Result<(), ErrorKind>;

/// Takes the launches of one kernel's work, in order.
pub trait Launcher {
    /// The device.
    fn target(&self) -> LaunchTarget;
    /// The compiled text of the kernel for a structure; `write` writes it if it is new.
    ///
    /// # Errors
    /// A text that cannot be written or compiled.
    fn compile(&mut self, key: &Key, bindings: &Bindings, write: &mut dyn FnMut() -> Result<String, ErrorKind>) -> Result<CompiledText, ErrorKind>;
    /// What follows `beginning` in the keys that the kernel was compiled for.
    ///
    /// # Errors
    /// The kernel is another backend's.
    fn known(&self, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind>;
    /// Has nothing been compiled for the kernel yet? Then is the time to compile what other sizes will want.
    ///
    /// # Errors
    /// The kernel is another backend's.
    fn is_new(&self) -> Result<bool, ErrorKind>;
    /// If nothing has been compiled for the kernel yet, `again` may record it in another way, for other sizes, on a
    /// launcher that launches nothing: what that way needs is compiled now and not when the sizes change.
    ///
    /// # Errors
    /// Those of `again`.
    fn warm_up(&mut self, again: Again<'_>) -> Result<(), ErrorKind>;
    /// The nest of a launch; `place` tells the nests of a kernel apart. It may have another form than the sizes alone
    /// would give it, if a text was written for that.
    ///
    /// # Errors
    /// The kernel is another backend's.
    fn nest(&mut self, place: u8, bindings: &Bindings, space: &Shape, axes: [&[usize]; 2], operands: &[(usize, Strides)]) -> Result<Nest, ErrorKind>;
    /// The place of a new report among the reports, in words.
    fn report(&mut self, found: Found) -> u32;
    /// Asks for so many words between the launches of the work. The next work has the same memory.
    ///
    /// # Errors
    /// More than there is.
    fn scratch(&mut self, words: u64) -> Result<(), ErrorKind>;
    /// A launch of `groups` workgroups, numbered along x, then y: there may be a few more than were asked for.
    fn launch_groups(&mut self, text: CompiledText, bindings: &Bindings, parameters: &[u32], groups: u64);
    /// A launch of enough workgroups for `units` invocations that work alone.
    fn launch(&mut self, text: CompiledText, bindings: &Bindings, parameters: &[u32], units: u64) {
        self.launch_groups(text, bindings, parameters, units.div_ceil(GROUP));
    }
}
/// A kernel with other operands than its family has.
pub(crate) fn misshapen(family: &str) -> ErrorKind {
    ErrorKind::Internal(format!("a {family} step with other operands than its kernel has"))
}
