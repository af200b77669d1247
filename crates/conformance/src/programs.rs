//! Random programs beside PyTorch: calls of public functions on values of any shape and dtype, run there and here, and
//! compared call by call: shape, dtype, values, refusals, gradients.
//!
//! [`draw`] makes programs and knows nothing of a function but the kinds of its arguments ([`table`], and by itself every
//! entry of the registry whose name PyTorch has, too: [`registered`]). `xtask/python/programs.py` runs them in PyTorch and
//! writes an [`TorchAnswer`] for each. [`replay`] runs them here and compares. Where the two differ on purpose a line of
//! [`differences`] says so by name; a difference without one is a failure.
use adamant_core::{DType, HostArray, Scalar, Shape};
use serde::{Deserialize, Serialize};

pub mod arguments;
pub mod campaign;

pub mod differences;
pub mod draw;
pub mod plants;
pub mod registered;
pub mod replay;
pub mod table;

/// A list of calls on named values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TorchProgram {
    /// which of its campaign
    pub number: usize,
    /// values that no call makes
    pub inputs: Vec<StoredArray>,
    /// calls, in order
    pub calls: Vec<ProgramCall>,
    /// results whose weighted sum is differentiated by the inputs; empty: no gradient is asked for
    pub backward: Vec<(usize, usize)>,
}
/// One call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramCall {
    /// our name: `Tensor::amax`
    pub name: String,
    /// PyTorch's spelling, a Python expression of `x`, the list of arguments
    pub torch: String,
    /// the arguments
    pub args: Vec<ProgramArg>,
}
/// An argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramArg {
    /// an input of the program
    Input(usize),
    /// a result: of which call, and which of its results
    Result(usize, usize),
    /// several values
    List(Vec<ProgramArg>),
    /// true or false
    Flag(bool),
    /// an integer
    Int(i64),
    /// a finite number
    Real(f64),
    /// integers
    Ints(Vec<i64>),
    /// all axes
    All,
    /// a dtype
    Dtype(String),
    /// a word
    Word(String),
    /// an index expression
    Index(Vec<ProgramItem>),
}
/// An item of an index expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramItem {
    /// one element of an axis
    At(i64),
    /// start, end and step
    Slice(Option<i64>, Option<i64>, i64),
    /// `...`
    Ellipsis,
    /// `None`
    NewAxis,
    /// a value: integers or a mask
    Value(ProgramArg),
}
/// A host array in JSON: little-endian bytes in hexadecimal digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredArray {
    /// sizes
    pub shape: Vec<usize>,
    /// the dtype's name
    pub dtype: String,
    /// the elements
    pub data: String,
}
/// What PyTorch said to a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TorchAnswer {
    /// to each call
    pub calls: Vec<Answered>,
    /// the gradient of each input, if one was asked for and there is one
    #[serde(default)]
    pub gradients: Vec<Option<StoredArray>>,
}
/// What PyTorch said to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    /// a value that it needs is not there, because an earlier call was refused
    Skipped,
    /// PyTorch has no function of this name
    Unknown,
    /// an exception: its first line
    Refused(String),
    /// results
    Given {
        /// in order
        outputs: Vec<TorchOutput>,
        /// by each argument that is a float: the gradient of the weighted sum of the results, where there is one
        gradients: Vec<Option<TorchOutput>>,
    },
}
/// A result, and how far from it PyTorch's own result of the same call in f64 is, element by element (`None`: nearer than the
/// tolerance). That is what the call's conditioning does to a rounding, so a result may differ by several times as much.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TorchOutput {
    /// the result
    pub value: StoredArray,
    /// distances, f64
    pub spread: Option<String>,
}

impl StoredArray {
    /// For JSON.
    pub fn of(array: &HostArray) -> StoredArray {
        let data = array.to_bytes().iter().map(|b| format!("{b:02x}")).collect();
        StoredArray { shape: array.shape.to_vec(), dtype: array.dtype.name().into(), data }
    }
    /// As an array.
    ///
    /// # Errors
    /// A dtype that is not ours, too many axes, or bytes that are not those of the shape.
    pub fn array(&self) -> Result<HostArray, String> {
        let dtype: DType = self.dtype.parse().map_err(|_| format!("dtype {}", self.dtype))?;
        let shape = Shape::new(&self.shape).map_err(|e| e.to_string())?;
        let bytes = bytes_of(&self.data).ok_or("not hexadecimal")?;
        if bytes.len() != shape.elements() * dtype.size() {
            return Err(format!("{} bytes for {shape} {dtype}", bytes.len()));
        }
        Ok(HostArray::from_bytes(shape, dtype, &bytes))
    }
}
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().as_chunks::<2>().0;
    pairs.iter().map(|pair| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok())).collect()
}
impl TorchOutput {
    /// The distances, as many as elements, where they are known.
    pub fn spread(&self) -> Option<Vec<f64>> {
        let bytes = bytes_of(self.spread.as_deref()?)?;
        Some(bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b)).collect())
    }
}
/// The weight of element `k` of a result in a sum that is differentiated: exact in every float dtype.
pub fn weight(k: usize) -> f64 {
    [0.25, -0.5, 1.0, 0.75, -1.25][k % 5]
}
/// A number as an argument.
pub fn number(scalar: Scalar) -> ProgramArg {
    match scalar {
        Scalar::Bool(b) => ProgramArg::Flag(b),
        Scalar::Int(n) => ProgramArg::Int(n),
        Scalar::Float(v) => ProgramArg::Real(v),
    }
}
