//! What a language must be told apart by. A skeleton is written once, in the notation of `notation.rs`; a dialect takes
//! that text as it is or translates it word by word, and has a method for each thing that languages think of
//! differently: the type of a register, how an element lies in memory, barriers, subgroups, atomics, the entry point.
//!
//! A dialect knows no device: whether an adapter has subgroups, and how many buffers it binds, is the [`LaunchTarget`]'s.
//!
//! [`LaunchTarget`]: crate::LaunchTarget
mod c;
mod cuda;
mod wgsl;

pub(crate) use c::guarded;
pub use c::{C, entry_of, to_c};
pub use cuda::{CUDA_BUFFERS, CUDA_WORDS, Cuda};
pub use wgsl::Wgsl;

use crate::{bindings::Access, frame::KernelFrame};
use adamant_ir::{DType, ErrorKind};

/// What an atomic operation does to a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// the smaller one stays
    Min,
    /// bits that both have stay
    And,
    /// bits that either has stay
    Or,
}
/// What the invocations of a subgroup make of one value of each. All of them take part: the operation stands where a
/// subgroup does not diverge, in a statement of its own and not in the head of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subgroup<'t> {
    /// their sum
    Sum,
    /// the largest, where none is NaN
    Max,
    /// the value of the invocation with this number, which is known when the text is written
    Broadcast(usize),
    /// the value of the invocation with this number, an expression
    Shuffle(&'t str),
}

/// The value of a float's bits, where every dialect holds it in a register of f32: what f64 is held in is its own affair.
fn float_of_bits(dtype: DType, bits: &str) -> Option<String> {
    Some(match dtype {
        DType::F32 => format!("bitcast<f32>({bits})"),
        DType::F16 => format!("adm_f16_of_bits({bits})"),
        DType::BF16 => format!("bitcast<f32>({bits} << 16u)"),
        DType::F8E4M3 => format!("f8_e4m3_from_bits({bits})"),
        DType::F8E5M2 => format!("adm_f16_of_bits({bits} << 8u)"),
        _ => return None,
    })
}
/// The bits of a float that a register of f32 holds.
fn bits_of_float(dtype: DType, value: &str) -> Option<String> {
    Some(match dtype {
        DType::F32 => format!("bitcast<u32>({value})"),
        DType::F16 => format!("adm_bits_of_f16({value})"),
        DType::BF16 => format!("adm_bits_of_bf16({value})"),
        DType::F8E4M3 => format!("f8_e4m3_to_bits({value})"),
        DType::F8E5M2 => format!("f8_e5m2_to_bits({value})"),
        _ => return None,
    })
}

/// A language that kernels are written in.
///
/// What takes and gives text takes the notation of skeletons, and gives it too, unless it says otherwise: [`render`]
/// writes the language itself.
///
/// [`render`]: Dialect::render
pub trait Dialect: Sync {
    /// Its name, for errors.
    fn name(&self) -> &'static str;
    /// Something that it has no words for.
    fn lacks(&self, what: String) -> ErrorKind {
        ErrorKind::Unsupported { backend: self.name().into(), what }
    }

    // Instructions of an expression, in the language itself.

    /// The type of the variable that holds a value of a dtype, at all times rounded or wrapped to the dtype.
    ///
    /// # Errors
    /// `Unsupported`, naming the dtype.
    fn register(&self, dtype: DType) -> Result<&'static str, ErrorKind>;
    /// Which of the scalar table's two texts of a function on floats it takes.
    fn row<'r>(&self, wgsl: &'r str, c: &'r str) -> &'r str;
    /// Does it compute a function of narrower floats by that of f64?
    fn is_by_f64(&self, _function: &str) -> bool {
        false
    }
    /// The type that integer functions of a dtype are made for, as helpers' names end.
    ///
    /// # Errors
    /// `Unsupported`, naming the dtype.
    fn integer(&self, dtype: DType) -> Result<&'static str, ErrorKind>;
    /// A truth value as an integer of 32 bits.
    fn of_bool(&self, x: &str) -> String;
    /// Helper code, which is in the notation.
    fn helper(&self, text: &str) -> String;
    /// Does its library have the helper?
    fn has_helper(&self, name: &str) -> bool;
    /// What stands before all helpers.
    fn prelude(&self) -> &'static str;
    /// A text of the notation inside an expression: where a value is loaded from.
    fn source(&self, text: &str) -> String;
    /// Statements in the language itself, as part of the notation.
    fn verbatim(&self, text: String) -> String;
    /// The statement that names a value.
    fn define(&self, register: &str, name: &str, value: &str) -> String;
    /// One of two values.
    fn select(&self, condition: &str, then: &str, otherwise: &str) -> String;
    /// A result rounded or wrapped to its dtype.
    fn fitted(&self, value: String, dtype: DType) -> String;
    /// The value as another dtype: floats to integers truncate toward zero, integers wrap, floats round once.
    ///
    /// # Errors
    /// `Unsupported`, naming the dtype.
    fn convert(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind>;
    /// The same bits as another dtype of the same size, where not both are integers.
    ///
    /// # Errors
    /// `Unsupported`, naming the dtypes.
    fn bitcast(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind>;
    /// An integer constant, wrapped to its dtype.
    fn integer_literal(&self, value: i64, dtype: DType) -> String;

    // Elements in memory: binding number k is the variable `b<k>`.

    /// How many bytes an invocation reads and writes at once, where they lie side by side: 16, or 0 where there is nothing
    /// wider than a word. Then it has `adm_take_<size><count>(buffer, first, array)` and `adm_put_<size>...`.
    fn widest(&self) -> usize {
        0
    }
    /// How many sums an invocation may hold before its registers run out, where that is known.
    fn most_sums(&self) -> usize {
        usize::MAX
    }
    /// Do elements that are smaller than a word share words, which are read and written whole?
    fn packs(&self) -> bool;
    /// A word of a binding.
    fn word(&self, binding: usize, access: Access, index: &str) -> String;
    /// A statement that writes a word.
    fn set_word(&self, binding: usize, access: Access, index: &str, value: &str) -> String;
    /// The bits of the element of so many bytes at `at`, a variable: `u32`, or `vec2<u32>` of 8 bytes.
    fn bits(&self, binding: usize, access: Access, size: usize, at: &str) -> String;
    /// Statements that write the bits of the element at `at`, a variable.
    fn set_bits(&self, binding: usize, access: Access, size: usize, at: &str, bits: &str) -> String;
    /// The value of an element's bits, of its register's type.
    fn value_of(&self, dtype: DType, bits: &str) -> String;
    /// The bits of a value, zero beside it in its word.
    fn bits_of(&self, dtype: DType, value: &str) -> String;

    // What invocations do together.

    /// A statement behind which all invocations of a workgroup see what each has written to the workgroup's memory.
    fn barrier(&self) -> &'static str;
    /// A value that a subgroup makes of one of each invocation.
    fn subgroup(&self, what: Subgroup<'_>, dtype: DType, value: &str) -> String;
    /// A statement that changes a word of a binding so that no other invocation comes between.
    fn atomic(&self, what: Atomic, binding: usize, index: &str, value: &str) -> String;

    /// A whole kernel, in the language itself.
    ///
    /// # Errors
    /// `Unsupported`: what a text asks for that the language cannot say.
    fn render(&self, frame: &KernelFrame<'_>) -> Result<String, ErrorKind>;
}
