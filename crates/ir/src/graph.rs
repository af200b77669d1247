//! What is said of the nodes of a graph: where each comes from, and what can be wrong with one.
use std::{fmt, panic::Location};

mod fault;
pub use fault::{GraphError, Invalid, TextError, Why, nearest};

/// Where a node comes from.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum At {
    /// nobody knows
    #[default]
    Nowhere,
    /// the line of the program that applied the op
    Code(&'static Location<'static>),
    /// the line of the text that it was read from
    Line(u32),
}
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Nowhere => Ok(()),
            At::Code(at) => write!(f, "{}:{}", at.file(), at.line()),
            At::Line(line) => write!(f, "line {line}"),
        }
    }
}
