//! What to try, as words and code. The code is kept apart from the words, so that a test can compile all of it.
use super::ErrorKind;
use crate::{DType, Shape, TensorType};

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
            ErrorKind::Dtype(_) | ErrorKind::Shape { .. } => Hint::of_given(kind, &[])?,
            ErrorKind::File { reason, .. } if reason.contains("No such file") => {
                Hint::new("relative paths begin at the folder that the program runs in").code("std::env::current_dir()")
            }
            ErrorKind::Axis { rank: 0, .. } => Hint::new("the tensor is a scalar and has no axes; give it one").code("x.unsqueeze(0)"),
            ErrorKind::Axis { rank, .. } => Hint::new(format!("axes run from -{rank} to {}", rank - 1)),
            ErrorKind::Index { bound: 0, .. } => Hint::new("the axis is empty: no index points into it"),
            ErrorKind::Index { bound, .. } if called.contains("cross_entropy") || called.contains("nll_loss") => {
                Hint::new(format!("a label is the number of its class, from 0 to {}", bound - 1))
            }
            ErrorKind::Index { .. } if called.contains("ctc") => {
                Hint::new("a label is the number of its class, and a length is at most that of the longest target")
            }
            ErrorKind::Index { bound, .. } => Hint::new(format!("indices run from 0 to {}", bound - 1)),
            ErrorKind::DeviceMismatch { .. } => Hint::new("move one of them").code("right.to(left.device()?)"),
            ErrorKind::DeviceAbsent(_) => Hint::new("take the best one that is there").code("Device::auto()?"),
            ErrorKind::OutOfMemory { .. } => Hint::new("use a smaller batch, drop tensors you no longer need, or `checkpoint` a part of the model"),
            ErrorKind::Capturing => Hint::new("return the tensor from the compiled function and read it outside"),
            ErrorKind::TapeReleased => Hint::new("to go through the same graph twice, keep it the first time").code("x.backward_keep()?"),
            ErrorKind::RanksDiffer { .. } => Hint::new("all ranks of a group call its collectives in one order, each with one shape and dtype"),
            ErrorKind::CheckpointCapture => Hint::new("pass the tensor to the closure as an input"),
            _ => return None,
        })
    }
    /// What the kind tells of the tensors that were given.
    pub(super) fn of_given(kind: &ErrorKind, given: &[TensorType]) -> Option<Hint> {
        match kind {
            ErrorKind::Dtype(said) => {
                let (wanted, words) = wanted(said)?;
                let k = given.iter().position(|t| said.ends_with(&format!("not {}", t.dtype)) || said.contains(&format!("not of {}", t.dtype)));
                Some(Hint::new(words).code(format!("{}.cast({})", operand(k.unwrap_or(0), given.len()), wanted.in_code())))
            }
            ErrorKind::Shape { shape, expected } => {
                let k = given.iter().position(|t| t.shape == *shape);
                if k.is_none() && !given.is_empty() {
                    return None;
                }
                of_axes(&operand(k.unwrap_or(0), given.len()), shape, expected)
            }
            _ => None,
        }
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
            _ => Some(Hint::new("the last axis of the left side meets the last but one of the right, or its only one")),
        };
    }
    if expected.starts_with("the input's last axis must be the weight's last")
        && let ([.., features], [out, takes]) = (l, r)
    {
        return Some(if features == out {
            Hint::new("the weight is [out, in]; transposed it fits").code("right.t()")
        } else {
            Hint::new(format!("the weight is [out, in]: it takes {takes} features on the last axis, and {features} came"))
        });
    }
    if expected.contains("channels must be") && l.len() > 2 {
        return Some(Hint::new("channels stand on axis 1; where they are last, move them").code("left.movedim([-1], [1])"));
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
    if left.elements() == right.elements() && l != r {
        return Some(Hint::new("both have as many elements").code(format!("right.reshape({l:?})")));
    }
    let broadcasts = expected.contains("broadcast");
    broadcasts.then(|| Hint::new("sizes are compared from the last axis on: they are equal, or one of them is 1"))
}

/// What an operand is called in code: alone `x`, of two `left` and `right`, of more `inputs[2]`.
fn operand(k: usize, of: usize) -> String {
    match (of, k) {
        (0 | 1, _) => "x".into(),
        (2, 0) => "left".into(),
        (2, _) => "right".into(),
        _ => format!("inputs[{k}]"),
    }
}
/// The dtype that a text asks for.
fn wanted(said: &str) -> Option<(DType, &'static str)> {
    let before = said.split(", not").next().unwrap_or(said);
    let has = |word: &str| before.contains(word);
    if has("integer") || has("class numbers") {
        Some((DType::I64, "cast it to integers"))
    } else if (has("mask") || has("condition")) && has("bool") {
        Some((DType::Bool, "cast it to bool, in which all but 0 is true"))
    } else if has("storage") || has("quantized") || has("cannot be read") {
        None
    } else if ["float", "f32", "norm", "mean", "numbers", "gradient", "defined for bool", "operands"].iter().any(|word| has(word)) {
        Some((DType::F32, "cast it to floats"))
    } else {
        None
    }
}
/// How a tensor gets the axes that are asked for.
fn of_axes(x: &str, shape: &Shape, expected: &str) -> Option<Hint> {
    let number = |word: &str| match word.trim_matches(|c: char| !c.is_alphanumeric()) {
        "one" => Some(1),
        "two" => Some(2),
        digits => digits.parse::<usize>().ok(),
    };
    let words: Vec<&str> = expected.split_whitespace().collect();
    let asked = words.windows(2).find(|pair| matches!(pair[1].trim_matches(|c: char| !c.is_alphanumeric()), "axes" | "axis")).and_then(|pair| number(pair[0]));
    let asked = asked.or_else(|| (expected.starts_with("a matrix") || expected.starts_with("a square matrix")).then_some(2));
    let (asked, least) = match asked {
        Some(n) => (Some(n), expected.starts_with("at least")),
        // `[batch, channels, ..]`: two axes or more.
        None => {
            let listed = expected.split('[').nth(1).and_then(|rest| rest.split(']').next());
            let listed = listed.filter(|names| names.contains(|c: char| c.is_alphabetic())).map(|names| names.split(',').collect::<Vec<_>>());
            let open = listed.as_ref().is_some_and(|names| names.iter().any(|name| name.trim() == ".."));
            (listed.map(|names| names.len() - usize::from(open)), open)
        }
    };
    match asked {
        Some(n) if shape.rank() < n => return Some(Hint::new("an axis of size 1 in front makes one more").code(format!("{x}.unsqueeze(0)"))),
        Some(n) if n > 0 && shape.rank() > n && !least && !expected.contains("batch of them") => {
            return Some(Hint::new("leading axes become one").code(format!("{x}.flatten(0, {})", shape.rank() - n)));
        }
        _ => {}
    }
    if let Some(channels) = expected.strip_suffix(" channels along axis 1").and_then(|n| n.parse::<usize>().ok()) {
        return Some(if shape.last() == Some(&channels) && shape.rank() > 2 {
            Hint::new("channels stand on axis 1; move them there").code(format!("{x}.movedim([-1], [1])"))
        } else {
            Hint::new(format!("the layer was made for {channels} channels"))
        });
    }
    if expected.contains("must hold a window") {
        return Some(Hint::new("a smaller window, more padding, or a larger input"));
    }
    if expected.contains("does not have as many") {
        return Some(Hint::new("one size may be -1: it follows from the others").code(format!("{x}.reshape([-1])")));
    }
    if expected.starts_with("a vector") && shape.rank() != 1 {
        return Some(Hint::new("all elements on one axis").code(format!("{x}.ravel()")));
    }
    if expected.starts_with("exactly one element") {
        return Some(Hint::new("reduce it to one number").code(format!("{x}.mean(..)")));
    }
    if expected.starts_with("complex numbers") {
        return Some(Hint::new("real and imaginary part stand on the last axis").code(format!("Tensor::complex(&{x}, &{x}.zeros_like())")));
    }
    None
}
