//! What to try, as words and code. The code is kept apart from the words, so that a test can compile all of it.
use super::ErrorKind;
use crate::{DType, Shape};

/// What to try: words and, where it can be said so, an expression in terms of the operands: `x`, or `left` and `right`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    text: String,
    code: Option<String>,
}
impl Hint {
    /// Words alone.
    pub fn new(words: impl Into<String>) -> Hint {
        Hint { text: words.into(), code: None }
    }
    /// The same with the code that does it, which is shown behind the words.
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Hint {
        let code = code.into();
        Hint { text: format!("{}: `{code}`", self.text), code: Some(code) }
    }
    /// Words and code as they are shown.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The code.
    pub fn snippet(&self) -> Option<&str> {
        self.code.as_deref()
    }
    /// What the kind alone tells; `called` was called.
    pub(super) fn of(kind: &ErrorKind, called: &str) -> Option<Hint> {
        Some(match kind {
            ErrorKind::DtypeMismatch { left, right } => match left.promote(*right) {
                Some(both) if both == *left => Hint::new("cast one side").code(format!("right.cast({})", both.in_code())),
                Some(both) if both == *right => Hint::new("cast one side").code(format!("left.cast({})", both.in_code())),
                common => {
                    let float = left.is_float() || right.is_float();
                    let both = common.unwrap_or(if float { DType::F32 } else { DType::I64 }).in_code();
                    let words = if common.is_some() { "cast both" } else { "they have no common dtype; cast both" };
                    Hint::new(words).code(format!("(left.cast({both}), right.cast({both}))"))
                }
            },
            ErrorKind::ShapeMismatch { left, right, expected, .. } => shapes(left, right, expected)?,
            ErrorKind::Axis { rank: 0, .. } => Hint::new("the tensor is a scalar and has no axes; give it one").code("x.unsqueeze(0)"),
            ErrorKind::Axis { rank, .. } => Hint::new(format!("axes run from -{rank} to {}", rank - 1)),
            ErrorKind::Index { bound: 0, .. } => Hint::new("the axis is empty: no index points into it"),
            ErrorKind::Index { bound, .. } if called.contains("cross_entropy") || called.contains("nll_loss") => {
                Hint::new(format!("a label is the number of its class, from 0 to {}", bound - 1))
            }
            ErrorKind::Index { bound, .. } => Hint::new(format!("indices run from 0 to {}", bound - 1)),
            ErrorKind::DeviceMismatch { .. } => Hint::new("move one of them").code("right.to(left.device()?)"),
            ErrorKind::OutOfMemory { .. } => Hint::new("use a smaller batch, drop tensors you no longer need, or `checkpoint` a part of the model"),
            ErrorKind::Capturing => Hint::new("return the tensor from the compiled function and read it outside"),
            ErrorKind::TapeReleased => Hint::new("to go through the same graph twice, keep it the first time").code("x.backward_keep()?"),
            ErrorKind::CheckpointCapture => Hint::new("pass the tensor to the closure as an input"),
            _ => return None,
        })
    }
}
impl From<String> for Hint {
    fn from(words: String) -> Hint {
        Hint::new(words)
    }
}
impl From<&str> for Hint {
    fn from(words: &str) -> Hint {
        Hint::new(words)
    }
}

/// What makes two shapes fit, where one move does: the transpose of a factor, an axis that is missing or too many, the sizes
/// of the other side.
fn shapes(left: &Shape, right: &Shape, expected: &str) -> Option<Hint> {
    let (l, r): (&[usize], &[usize]) = (left, right);
    if expected.starts_with("inner sizes") {
        return match (l, r) {
            ([.., k], [.., _, last]) if k == last => Some(Hint::new("the right side transposed fits").code("right.mt()")),
            ([.., first, _], [.., k, _]) if first == k => Some(Hint::new("the left side transposed fits").code("left.mt()")),
            _ => None,
        };
    }
    if l.len() == r.len() + 1 && !r.is_empty() && l.starts_with(r) {
        return Some(Hint::new("one value for each of the leading sizes repeats along the last axis").code("right.unsqueeze(-1)"));
    }
    if r.len() == l.len() + 1 && !l.is_empty() && r.starts_with(l) {
        return Some(Hint::new("one value for each of the leading sizes repeats along the last axis").code("left.unsqueeze(-1)"));
    }
    if l.len() == 2 && r.len() == 2 && (l[0], l[1]) == (r[1], r[0]) {
        return Some(Hint::new("one side transposed has the other's shape").code("right.t()"));
    }
    let same = left.elements() == right.elements() && l != r;
    same.then(|| Hint::new("both have as many elements").code(format!("right.reshape({l:?})")))
}
