//! One kernel before it is text: its buffers and how they are accessed, the invocations of a workgroup, what memory they
//! share, the functions that it calls, and what each invocation does.
//!
//! Parameters are the words `p[k]` of the first binding, and stand in no text: a frame of another size is the same text.
use crate::{Dialect, bindings::Bindings};
use adamant_ir::ErrorKind;

/// Invocations of a workgroup whose invocations work alone.
pub const GROUP: u64 = 256;
/// Rounds that loops over data may make in one invocation. On a GPU more would be slow; Mesa's llvmpipe ends all loops of an invocation
/// after 65,535 rounds together, without a word, and each may have others beside this.
pub(crate) const ROUNDS: usize = 32 * 1024;
/// Rounds after which such a driver ends loops, the one in which a loop ends counted too.
pub(crate) const MOST_ROUNDS: usize = 65_535;

/// An array in the memory of a workgroup.
#[derive(Clone, Copy, Debug)]
pub struct SharedArray {
    /// its name
    pub name: &'static str,
    /// the type of its elements, as the notation names it
    pub of: &'static str,
    /// how many there are
    pub length: usize,
}
/// Which invocation of its workgroup an invocation knows itself to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// `lane` of the workgroup
    InWorkgroup,
    /// `lane` of the subgroup, of so many, that is number `own` of its workgroup
    InSubgroup(usize),
}
/// Invocations of a processor that can have 128 registers each at once, on every card from 7.5 on.
pub(crate) const OF_128_REGISTERS: usize = 512;
/// A kernel. Its body reads `group` and `groups`, the workgroup's place in the grid and the grid's extent (`x` and `y`),
/// and `lane`.
pub struct KernelFrame<'f> {
    /// its buffers
    pub bindings: &'f Bindings,
    /// invocations of a workgroup
    pub lanes: usize,
    /// how they are numbered
    pub numbered: Numbering,
    /// what a workgroup shares; nothing is known of it when the kernel begins
    pub shared: Vec<SharedArray>,
    /// how many workgroups are to run on a processor at once, at least: invocations take the registers that this leaves. None: the
    /// compiler weighs one against the other, and may spill a few registers where one more workgroup then fits
    pub blocks: Option<usize>,
    /// functions that the body calls
    pub functions: &'f str,
    /// statements of one invocation
    pub body: String,
}
impl<'f> KernelFrame<'f> {
    /// Invocations that work alone.
    pub fn alone(bindings: &'f Bindings, functions: &'f str, body: String) -> KernelFrame<'f> {
        KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared: Vec::new(), functions, blocks: Some(1), body }
    }
    /// The whole text.
    ///
    /// # Errors
    /// As [`Dialect::render`].
    pub fn text(&self) -> Result<String, ErrorKind> {
        let dialect: &dyn Dialect = self.bindings.dialect;
        dialect.render(self)
    }
}
/// The text of a kernel that does `body` once for each `i` below the first parameter.
///
/// # Errors
/// As [`Dialect::render`].
pub fn per_element(bindings: &Bindings, functions: &str, body: &str) -> Result<String, ErrorKind> {
    let body = format!("    let i: u32 = (group.y * groups.x + group.x) * 256u + lane;\n    if (i >= p[0u]) {{ return; }}\n{body}");
    KernelFrame::alone(bindings, functions, body).text()
}
