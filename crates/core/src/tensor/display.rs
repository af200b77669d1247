//! Tensors as text, in PyTorch's manner: four digits, aligned columns, the middle of a large tensor left out.
//! Printing reads the tensor, so pending ops run.
use super::Tensor;
use crate::{DType, HostArray, Meta, Scalar, Shape};
use std::fmt;

/// How tensors are printed. The defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// digits after the point
    pub precision: usize,
    /// Tensors with more elements are shown by their edges.
    pub threshold: usize,
    /// how many elements are shown at each edge of an axis
    pub edge_items: usize,
    /// columns of a line
    pub line_width: usize,
}
impl Default for PrintOptions {
    fn default() -> PrintOptions {
        DEFAULT
    }
}
const DEFAULT: PrintOptions = PrintOptions { precision: 4, threshold: 1000, edge_items: 3, line_width: 80 };
std::thread_local! {
    static OPTIONS: std::cell::Cell<PrintOptions> = const { std::cell::Cell::new(DEFAULT) };
}
/// What [`set_printoptions`] has set.
fn options() -> PrintOptions {
    // While a thread ends, its own are gone.
    OPTIONS.try_with(std::cell::Cell::get).unwrap_or(DEFAULT)
}
/// How this thread prints tensors from now on.
///
/// ```
/// # use adamant_core::{Device, tensor, tensor::{PrintOptions, set_printoptions}};
/// # Device::reference().make_current();
/// set_printoptions(PrintOptions { precision: 2, ..Default::default() });
/// assert!(format!("{}", tensor![0.123456]).starts_with("tensor([0.12]"));
/// # set_printoptions(PrintOptions::default());
/// ```
///
/// Source: `torch.set_printoptions`.
pub fn set_printoptions(options: PrintOptions) {
    // A thread that ends prints by the defaults.
    let _gone = OPTIONS.try_with(|o| o.set(options));
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = match self.try_meta() {
            Ok(meta) => meta,
            Err(e) => return write!(f, "tensor(failed: {e})"),
        };
        let tracked = if self.is_tracked() { ", tracked" } else { "" };
        let tail = format!("dtype={}, device={}{tracked}", meta.dtype, meta.device);
        let bytes = match self.to_bytes() {
            Ok(bytes) => bytes,
            Err(e) => return write!(f, "tensor(<{}>, shape={}, {tail})", e.kind(), meta.shape),
        };
        if meta.shape.elements() == 0 {
            let shape = if meta.shape.rank() == 1 { String::new() } else { format!("shape={}, ", meta.shape) };
            return write!(f, "tensor([], {shape}{tail})");
        }
        let cut = meta.shape.elements() > options().threshold;
        let mut shown = Vec::new();
        visit(&meta.shape, 0, 0, cut, &mut |at| shown.push(element(&meta, &bytes, at)));
        let words = ElementWords::of(meta.dtype, &shown);
        let mut text = String::from("tensor(");
        let mut next = shown.iter().map(|s| words.word(*s));
        write_axis(&mut text, &meta.shape, 0, cut, 7, words.width, &mut next);
        write!(f, "{text}, {tail})")
    }
}

fn element(meta: &Meta, bytes: &[u8], at: usize) -> Scalar {
    let size = meta.dtype.size();
    HostArray::from_bytes(Shape::SCALAR, meta.dtype, &bytes[at * size..(at + 1) * size]).scalar(0)
}
/// The indices of an axis that are shown; `None` stands for those left out.
fn shown(size: usize, cut: bool) -> Vec<Option<usize>> {
    let edge = options().edge_items;
    if cut && size > 2 * edge { (0..edge).map(Some).chain([None]).chain((size - edge..size).map(Some)).collect() } else { (0..size).map(Some).collect() }
}
fn visit(shape: &Shape, axis: usize, at: usize, cut: bool, f: &mut dyn FnMut(usize)) {
    if axis == shape.rank() {
        return f(at);
    }
    for k in shown(shape[axis], cut).into_iter().flatten() {
        visit(shape, axis + 1, at * shape[axis] + k, cut, f);
    }
}
fn write_axis(text: &mut String, shape: &Shape, axis: usize, cut: bool, indent: usize, width: usize, next: &mut dyn Iterator<Item = String>) {
    if axis == shape.rank() {
        text.push_str(&next.next().unwrap_or_default());
        return;
    }
    text.push('[');
    let last = axis + 1 == shape.rank();
    let per_line = (options().line_width.saturating_sub(indent + 1) / (width + 2)).max(1);
    for (k, index) in shown(shape[axis], cut).into_iter().enumerate() {
        if k > 0 {
            if last {
                text.push_str(if k % per_line == 0 { "," } else { ", " });
                if k % per_line == 0 {
                    text.push('\n');
                    text.push_str(&" ".repeat(indent + 1));
                }
            } else {
                text.push(',');
                text.push_str(&"\n".repeat(shape.rank() - axis - 1));
                text.push_str(&" ".repeat(indent + 1));
            }
        }
        match index {
            None => text.push_str("..."),
            Some(_) => write_axis(text, shape, axis + 1, cut, indent + 1, width, next),
        }
    }
    text.push(']');
}

/// How the elements shown are written: all in one way and one width.
struct ElementWords {
    style: WordStyle,
    width: usize,
}
#[derive(Clone, Copy)]
enum WordStyle {
    Bool,
    Int,
    /// whole numbers: `3.`
    Whole,
    Fixed,
    Scientific,
}
impl ElementWords {
    fn of(dtype: DType, shown: &[Scalar]) -> ElementWords {
        let style = if dtype == DType::Bool {
            WordStyle::Bool
        } else if !dtype.is_float() {
            WordStyle::Int
        } else {
            let finite: Vec<f64> = shown.iter().map(|s| s.to_f64().abs()).filter(|v| v.is_finite() && *v != 0.0).collect();
            let (low, high) = finite.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &v| (l.min(v), h.max(v)));
            let whole = finite.iter().all(|v| v.fract() == 0.0);
            let far = high / low > 1000.0 && !whole;
            if finite.is_empty() {
                WordStyle::Whole
            } else if far || high > 1e8 || low < 1e-4 {
                WordStyle::Scientific
            } else if whole {
                WordStyle::Whole
            } else {
                WordStyle::Fixed
            }
        };
        let mut words = ElementWords { style, width: 0 };
        words.width = shown.iter().map(|s| words.word(*s).len()).max().unwrap_or(0);
        words
    }
    fn word(&self, s: Scalar) -> String {
        let v = s.to_f64();
        let word = match self.style {
            WordStyle::Bool => (s.to_i64() != 0).to_string(),
            WordStyle::Int => s.to_i64().to_string(),
            _ if v.is_nan() => "nan".into(),
            _ if v.is_infinite() => {
                if v > 0.0 {
                    "inf".into()
                } else {
                    "-inf".into()
                }
            }
            WordStyle::Whole => format!("{v:.0}."),
            WordStyle::Fixed => format!("{v:.0$}", options().precision),
            WordStyle::Scientific => scientific(v),
        };
        format!("{word:>width$}", width = self.width)
    }
}
/// `1.2346e-05`: at least two digits in the exponent.
fn scientific(v: f64) -> String {
    let plain = format!("{v:.0$e}", options().precision);
    match plain.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => plain,
    }
}
