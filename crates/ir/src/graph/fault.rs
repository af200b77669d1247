//! What can be wrong with a graph or with its text, as types: which node, where it was applied or written, and why.
use super::At;
use crate::{Error, ErrorKind};
use std::{cmp::Reverse, fmt};

/// What is wrong with a graph, its text, or what it is asked for.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum GraphError {
    /// The verifier found it.
    Invalid(Invalid),
    /// The text cannot be read.
    Text(TextError),
    /// There is no such pass.
    Pass {
        /// the name as given
        name: String,
        /// the passes that there are
        known: Vec<&'static str>,
    },
    /// A constant's elements cannot be had.
    Constant {
        /// the value
        value: u32,
        /// why
        why: Box<ErrorKind>,
    },
    /// A cell of the graph is bound to no cell of this program.
    Unbound {
        /// its name
        cell: String,
    },
}
/// A rule of the graph that is broken.
#[derive(Clone, PartialEq, Debug)]
pub struct Invalid {
    /// the node, if it is about one
    pub node: Option<usize>,
    /// its op
    pub op: String,
    /// where it was applied or written
    pub at: At,
    /// the layer it was applied in
    pub scope: String,
    /// which rule
    pub why: Why,
}
/// A rule of the graph.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// A value has no definition.
    Undefined {
        /// the value
        value: u32,
    },
    /// A value is read before the node that makes it.
    Early {
        /// the value
        value: u32,
    },
    /// A value has two definitions.
    Reassigned {
        /// the value
        value: u32,
    },
    /// The op does not take these inputs.
    Op(Box<ErrorKind>),
    /// The op makes values of other types, or another number of them.
    Types {
        /// what the graph says
        given: String,
        /// what the op makes
        made: String,
    },
    /// The argument is of the wrong kind or out of range.
    Argument(String),
    /// A constant's elements are not those of its type.
    Constant(String),
    /// A cell is read or written as it may not be.
    Cell(String),
    /// A name stands for two things.
    Name(String),
    /// The lists of the graph do not go together.
    Layout(String),
}
/// Text that is no graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// the line, from 1
    pub line: u32,
    /// the column in characters, from 1
    pub column: u32,
    /// what is wrong
    pub what: String,
    /// what was meant, if something is near
    pub nearest: Option<String>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Undefined { value } => write!(f, "value {value} has no definition"),
            Why::Early { value } => write!(f, "value {value} is read before it is made"),
            Why::Reassigned { value } => write!(f, "value {value} has two definitions"),
            Why::Op(kind) => write!(f, "{kind}"),
            Why::Types { given, made } => write!(f, "it makes {made}, and the graph says {given}"),
            Why::Argument(s) | Why::Constant(s) | Why::Cell(s) | Why::Name(s) | Why::Layout(s) => f.write_str(s),
        }
    }
}
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "node {node} (`{}`", self.op)?,
            None => f.write_str("the graph (")?,
        }
        match (self.node, self.at) {
            (None, At::Nowhere) => f.write_str("as a whole")?,
            (None, at) => write!(f, "{at}")?,
            (Some(_), At::Nowhere) => {}
            (Some(_), at) => write!(f, ", {at}")?,
        }
        if !self.scope.is_empty() {
            write!(f, ", in {}", self.scope)?;
        }
        write!(f, "): {}", self.why)
    }
}
impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)?;
        self.nearest.as_ref().map_or(Ok(()), |n| write!(f, "; did you mean `{n}`?"))
    }
}
impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Invalid(e) => write!(f, "{e}"),
            GraphError::Text(e) => write!(f, "{e}"),
            GraphError::Pass { name, known } => write!(f, "there is no pass `{name}`; there are {}", known.join(", ")),
            GraphError::Constant { value, why } => write!(f, "the elements of constant {value} cannot be had: {why}"),
            GraphError::Unbound { cell } => write!(f, "the cell `{cell}` of the graph is bound to none; bind it with `Graph::bind_cells`"),
        }
    }
}
impl std::error::Error for GraphError {}
impl GraphError {
    /// The error of a graph as one of a computation. (It is no `From`: with a second one, a closure that ends with `Ok(())` would
    /// have to say what its errors are.)
    #[track_caller]
    pub fn error(self) -> Error {
        Error::new("graph", ErrorKind::Graph(Box::new(self)))
    }
}
impl From<TextError> for GraphError {
    fn from(e: TextError) -> GraphError {
        GraphError::Text(e)
    }
}
impl From<Invalid> for GraphError {
    fn from(e: Invalid) -> GraphError {
        GraphError::Invalid(e)
    }
}

/// The name that is nearest to a misspelt one, if any is near enough to have been meant: edits of single letters, at most a
/// third of the longer name's (Levenshtein, 1966).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const LONGEST: usize = 64;
    let word: Vec<char> = word.chars().take(LONGEST + 1).collect();
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let distance = |other: &str| {
        let mut row: Vec<usize> = (0..=word.len()).collect();
        for (i, c) in other.chars().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for j in 0..word.len() {
                let changed = diagonal + usize::from(word[j] != c);
                diagonal = row[j + 1];
                row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row[word.len()]
    };
    // Of two that are as near, the one that begins as the word does.
    let begins = |other: &str| word.iter().zip(other.chars()).take_while(|(a, b)| **a == *b).count();
    let (distance, _, name) = known.into_iter().map(|name| (distance(name), Reverse(begins(name)), name)).min()?;
    (distance * 3 <= word.len().max(name.chars().count())).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_near_or_far() {
        let known = ["matmul", "maximum", "example.softmax", "full", "mul"];
        for (word, want) in [
            ("matmull", Some("matmul")),
            ("matml", Some("matmul")),
            ("mull", Some("mul")),
            ("example.sofmax", Some("example.softmax")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known).as_deref(), want, "{word}");
        }
    }
}
