//! Reads the text of a PTX module: what is declared, and each function's instructions with names resolved. What the
//! instructions mean is the machine's affair; here only their form is known.

mod declarations;
mod lexer;
mod parser;
mod types;

pub use parser::parse;
pub use types::PtxType;

use std::{error::Error, fmt};

/// A text that is no PTX this crate can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxError {
    /// The line, from 1; 0 if it is none of a single line.
    pub line: u32,
    /// What is wrong or unknown there.
    pub what: String,
}

impl PtxError {
    pub(crate) fn new(line: u32, what: impl Into<String>) -> PtxError {
        PtxError { line, what: what.into() }
    }
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX, line {}: {}", self.line, self.what)
    }
}

impl Error for PtxError {}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// Device memory.
    Global,
    /// Device memory that kernels do not write.
    Const,
    /// Of a block.
    Shared,
    /// Of a thread.
    Local,
    /// Parameters and results.
    Param,
    /// Whatever the address says.
    Generic,
}

/// What a variable begins as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initial {
    /// A number, as bits of the variable's element.
    Bits(u64),
    /// The address of another variable, plus an offset; as a generic address or not is the same in device memory.
    Address(String, i64),
}

/// A variable, a parameter or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub space: StateSpace,
    /// The alignment of its address in bytes.
    pub align: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Bytes of all of it; 0 for an array whose length the launch gives.
    pub bytes: u64,
    /// Its first elements; the rest are zeros.
    pub initial: Vec<Initial>,
    /// Its line.
    pub line: u32,
}

/// What an instruction is applied to.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register of the function, by number.
    Register(usize),
    /// A register that the machine fills: `%tid.x`.
    Special(String),
    /// An integer.
    Integer(i128),
    /// The bits of a float of 32 bits.
    Float32(u32),
    /// The bits of a float of 64 bits.
    Float64(u64),
    /// A variable of the function, by number.
    Variable(usize),
    /// A name of the module or a label.
    Name(String),
    /// Several, in braces.
    Vector(Vec<Operand>),
    /// Several, in parentheses.
    List(Vec<Operand>),
    /// What is stored at an address.
    Address(Box<Operand>, i64),
    /// An address itself: a name and an offset.
    Offset(Box<Operand>, i64),
    /// Two destinations: `p|q`.
    Pair(Box<Operand>, Box<Operand>),
    /// A predicate negated.
    Not(Box<Operand>),
    /// A destination that nobody wants: `_`.
    Nowhere,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The predicate it depends on, and whether that is negated.
    pub guard: Option<(usize, bool)>,
    /// Its name, cut at the dots: `ld`, `global`, `f32`.
    pub words: Vec<String>,
    /// What it is applied to.
    pub operands: Vec<Operand>,
    /// Its line, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
}

/// A kernel or a function that kernels call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PtxFunction {
    /// Its name.
    pub name: String,
    /// Whether a launch can name it.
    pub kernel: bool,
    /// Its line.
    pub line: u32,
    /// Its registers' types, by number.
    pub registers: Vec<PtxType>,
    /// All variables of it, parameters and results among them, by number.
    pub variables: Vec<Variable>,
    /// Which variables are its parameters.
    pub parameters: Vec<usize>,
    /// Which variables are its results.
    pub results: Vec<usize>,
    /// Its instructions.
    pub body: Vec<Statement>,
    /// Labels, and which instruction comes next.
    pub labels: std::collections::HashMap<String, usize>,
    /// Lists of labels by name, as `brx.idx` wants them.
    pub targets: std::collections::HashMap<String, Vec<String>>,
    /// The most threads a block of it may have, if it says.
    pub max_threads: Option<u32>,
}

/// A module's text, read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Source {
    /// The architecture it was made for: 90 for `sm_90a`.
    pub target: u32,
    /// Variables of the module.
    pub variables: Vec<Variable>,
    /// Functions with a body.
    pub functions: Vec<PtxFunction>,
}
