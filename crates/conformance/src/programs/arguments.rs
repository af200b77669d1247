//! The arguments of a call as a row of the table takes them.
use super::ProgramItem;
use adamant_core::{
    AxisSet, DType, ErrorKind, Scalar, Shape, Tensor,
    shape::Axes,
    tensor::{IndexItem, Operand, OperandRef, stepped},
};

/// One argument, resolved.
#[derive(Clone, Debug)]
pub enum Value {
    /// a tensor
    Tensor(Tensor),
    /// several
    Tensors(Vec<Tensor>),
    /// a number, a flag among them
    Number(Scalar),
    /// integers
    Ints(Vec<i64>),
    /// all axes
    All,
    /// a dtype
    Dtype(DType),
    /// a word
    Word(String),
    /// an index expression
    Index(Vec<IndexItem>),
}
/// All arguments of a call. A getter of another kind than the argument's gives an empty value: the table and the programs
/// are made from one list of kinds, so that this does not happen.
pub struct Args(pub Vec<Value>);
/// Axes as a reduction takes them.
pub enum Reduced {
    /// all
    All,
    /// these
    These(Vec<i64>),
}
impl Axes for Reduced {
    fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> {
        match self {
            Reduced::All => (..).to_axes(shape),
            Reduced::These(axes) => axes.to_axes(shape),
        }
    }
}
impl Operand for Value {
    fn operand(&self) -> OperandRef<'_> {
        match self {
            Value::Tensor(t) => OperandRef::Tensor(t),
            Value::Number(n) => OperandRef::Scalar(*n),
            _ => OperandRef::Scalar(Scalar::Int(0)),
        }
    }
}
impl Args {
    /// A tensor.
    pub fn t(&self, k: usize) -> Tensor {
        match self.0.get(k) {
            Some(Value::Tensor(t)) => t.clone(),
            _ => Tensor::failed(adamant_core::Error::new("programs", ErrorKind::Argument(format!("argument {k} is no tensor")))),
        }
    }
    /// Several tensors.
    pub fn ts(&self, k: usize) -> Vec<Tensor> {
        match self.0.get(k) {
            Some(Value::Tensors(ts)) => ts.clone(),
            _ => Vec::new(),
        }
    }
    /// A tensor or a number.
    pub fn operand(&self, k: usize) -> Value {
        self.0.get(k).cloned().unwrap_or(Value::All)
    }
    /// A number.
    pub fn number(&self, k: usize) -> Scalar {
        match self.0.get(k) {
            Some(Value::Number(n)) => *n,
            _ => Scalar::Int(0),
        }
    }
    /// A number as f64.
    pub fn real(&self, k: usize) -> f64 {
        self.number(k).to_f64()
    }
    /// An integer.
    pub fn int(&self, k: usize) -> isize {
        match self.number(k) {
            Scalar::Int(n) => n as isize,
            _ => 0,
        }
    }
    /// A size.
    pub fn size(&self, k: usize) -> usize {
        usize::try_from(self.int(k)).unwrap_or(0)
    }
    /// A flag.
    pub fn flag(&self, k: usize) -> bool {
        self.number(k) == Scalar::Bool(true)
    }
    /// Integers.
    pub fn ints(&self, k: usize) -> Vec<i64> {
        match self.0.get(k) {
            Some(Value::Ints(n)) => n.clone(),
            _ => Vec::new(),
        }
    }
    /// Sizes.
    pub fn sizes(&self, k: usize) -> Vec<usize> {
        self.ints(k).into_iter().map(|n| usize::try_from(n).unwrap_or(0)).collect()
    }
    /// Axes.
    pub fn axes(&self, k: usize) -> Reduced {
        match self.0.get(k) {
            Some(Value::Ints(n)) => Reduced::These(n.clone()),
            Some(Value::Number(Scalar::Int(n))) => Reduced::These(vec![*n]),
            _ => Reduced::All,
        }
    }
    /// A dtype.
    pub fn dtype(&self, k: usize) -> DType {
        match self.0.get(k) {
            Some(Value::Dtype(d)) => *d,
            _ => DType::F32,
        }
    }
    /// A word.
    pub fn word(&self, k: usize) -> &str {
        match self.0.get(k) {
            Some(Value::Word(w)) => w,
            _ => "",
        }
    }
    /// An index expression.
    pub fn index(&self, k: usize) -> Vec<IndexItem> {
        match self.0.get(k) {
            Some(Value::Index(items)) => items.clone(),
            _ => Vec::new(),
        }
    }
}
/// An item of an index, given the tensor of a value in it.
pub fn item(item: &ProgramItem, tensor: Option<Tensor>) -> Option<IndexItem> {
    Some(match *item {
        ProgramItem::At(n) => IndexItem::At(n as isize),
        ProgramItem::Ellipsis => IndexItem::Ellipsis,
        ProgramItem::NewAxis => IndexItem::NewAxis,
        ProgramItem::Value(_) => IndexItem::Tensor(tensor?),
        ProgramItem::Slice(start, end, step) => IndexItem::Slice(match (start, end) {
            (Some(a), Some(b)) => stepped(a..b, step),
            (Some(a), None) => stepped(a.., step),
            (None, Some(b)) => stepped(..b, step),
            (None, None) => stepped(.., step),
        }),
    })
}
