//! The buffers of a launch, and the text that reads and writes elements in them. A buffer is bound whole from its
//! beginning, because offsets of bindings are aligned coarser than tensors begin. Operands in one buffer share its
//! binding: a kernel may update in place.
//!
//! A buffer is a number here: who launches knows what is behind it.
use crate::{Atomic, Dialect};
use adamant_ir::DType;
use smallvec::SmallVec;
use std::fmt;

/// What a kernel does with a buffer; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Access {
    /// it reads it
    Read,
    /// it writes whole words, each from one invocation
    Write,
    /// several invocations write parts of one word
    Atomic,
}
/// Where a binding's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// the buffer with this number among those of the work
    Buffer(usize),
    /// memory between two launches of one step
    Scratch,
    /// where bad data is reported
    Faults,
}
/// An argument of a step among a launch's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgumentPlace {
    /// the first of its two words
    pub word: usize,
    /// which it is, by the place of its value in memory: while a step is recorded, that stays there
    pub argument: usize,
    /// what it is computed with
    pub dtype: DType,
}
/// The bindings of a launch; number k is the variable `b<k>`.
#[derive(Clone)]
pub struct Bindings {
    /// where their memory is
    pub places: SmallVec<[Place; 8]>,
    /// what is done with it
    pub access: SmallVec<[Access; 8]>,
    /// the language of their text
    pub dialect: &'static dyn Dialect,
    /// where the steps' arguments lie among the parameters
    pub arguments: SmallVec<[ArgumentPlace; 2]>,
}
impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places.iter().zip(&self.access)).finish()
    }
}
impl Bindings {
    /// None yet.
    pub fn new(dialect: &'static dyn Dialect) -> Bindings {
        Bindings { places: SmallVec::new(), access: SmallVec::new(), dialect, arguments: SmallVec::new() }
    }
    /// The number of a place's binding.
    pub fn bind(&mut self, place: Place, access: Access) -> usize {
        if let Some(k) = self.places.iter().position(|p| *p == place) {
            self.access[k] = self.access[k].max(access);
            return k;
        }
        self.places.push(place);
        self.access.push(access);
        self.places.len() - 1
    }
    /// A word of a binding.
    pub fn word(&self, binding: usize, index: &str) -> String {
        self.dialect.word(binding, self.access[binding], index)
    }
    /// The bits of the element at `at`, a variable: `u32`, or `vec2<u32>` of 8 bytes.
    pub fn bits(&self, binding: usize, size: usize, at: &str) -> String {
        self.dialect.bits(binding, self.access[binding], size, at)
    }
    /// The element at `at`, a variable, of its register's type.
    pub fn load(&self, binding: usize, dtype: DType, at: &str) -> String {
        self.value_of(dtype, &self.bits(binding, dtype.size(), at))
    }
    /// A statement that writes a word.
    pub fn set_word(&self, binding: usize, index: &str, value: &str) -> String {
        self.dialect.set_word(binding, self.access[binding], index, value)
    }
    /// Statements that write the bits of the element at `at`, a variable. Parts of a word need a binding with `Atomic`
    /// access: an invocation changes its own bits only, so the order of invocations does not matter.
    pub fn set_bits(&self, binding: usize, size: usize, at: &str, bits: &str) -> String {
        self.dialect.set_bits(binding, self.access[binding], size, at, bits)
    }
    /// Statements that write the element at `at`, a variable, from a value of its register's type.
    pub fn store(&self, binding: usize, dtype: DType, at: &str, value: &str) -> String {
        self.set_bits(binding, dtype.size(), at, &self.bits_of(dtype, value))
    }
    /// The value of an element's bits.
    pub fn value_of(&self, dtype: DType, bits: &str) -> String {
        self.dialect.value_of(dtype, bits)
    }
    /// The bits of a value, zero beside it in its word.
    pub fn bits_of(&self, dtype: DType, value: &str) -> String {
        self.dialect.bits_of(dtype, value)
    }
    /// A statement that lowers a word to a value, if it is larger.
    pub fn atomic_min(&self, binding: usize, index: &str, value: &str) -> String {
        self.dialect.atomic(Atomic::Min, binding, index, value)
    }
    /// The access that single elements of a size need to be written.
    pub fn to_store(size: usize) -> Access {
        if size < 4 { Access::Atomic } else { Access::Write }
    }
}
