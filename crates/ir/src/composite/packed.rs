//! Weights as integer codes: how codes stand for numbers, and the functions that read them. A weight `[rows, ..]` is a matrix of
//! as many rows whose columns are its other axes; a row has one scale, or one for each group of so many columns, and a number is
//! `(code - zero point) · scale`. Codes, scales and zero points are tensors like any others.
//!
//! Must not know how codes are found, or which layer they belong to.
use super::{Attr, Attrs, Composite, Given, wide::floats};
use crate::{
    DType, ErrorKind, Shape, TensorType, Types,
    op::{ConvRole, ConvSpec},
};
use smallvec::smallvec;
use std::sync::Arc;

/// How the codes of a weight stand for its numbers.
///
/// Codes of 8 bits are bytes in the weight's shape, signed where the packing is symmetric. Codes of 4 and 3 bits lie side by
/// side in the bytes of a row, the first in the lowest bits, `[rows, bytes]`; symmetric ones are stored plus `2^(bits - 1)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Packing {
    /// bits of a code: 8, 4 or 3
    pub bits: u32,
    /// how many columns share a scale; `None`: all of a row
    pub group: Option<usize>,
    /// without zero points: 0 is code 0, and codes are signed
    pub symmetric: bool,
}
impl Packing {
    /// The least and the largest code.
    pub fn range(&self) -> (i32, i32) {
        let half = 1 << (self.bits.clamp(1, 8) - 1);
        if self.symmetric { (-half, half - 1) } else { (0, 2 * half - 1) }
    }
    /// The dtype that codes are stored in.
    pub fn dtype(&self) -> DType {
        if self.bits == 8 && self.symmetric { DType::I8 } else { DType::U8 }
    }
    /// What is added to a code where it is stored.
    pub fn offset(&self) -> i32 {
        if self.bits < 8 && self.symmetric { 1 << (self.bits - 1) } else { 0 }
    }
    /// Scales of a row of so many columns.
    pub fn groups(&self, columns: usize) -> usize {
        self.group.map_or(1, |g| columns / g.max(1)).max(1)
    }
    /// Bytes of a row of so many columns.
    pub fn row_bytes(&self, columns: usize) -> usize {
        (columns * self.bits as usize).div_ceil(8)
    }
    /// The shape of the codes of a weight.
    pub fn codes(&self, weight: &Shape) -> Shape {
        let (rows, columns) = matrix(weight);
        if self.bits == 8 { *weight } else { Shape::along(0, rows, 2).with(1, self.row_bytes(columns)) }
    }
    /// The shape of the scales of a weight, and of its zero points.
    pub fn scales(&self, weight: &Shape) -> Shape {
        let (rows, columns) = matrix(weight);
        Shape::along(0, rows, 2).with(1, self.groups(columns))
    }
    /// Does it suit a weight?
    ///
    /// # Errors
    /// A number of bits that there are no codes of; a weight without columns; columns that are no multiple of the group.
    pub fn check(&self, weight: &Shape) -> Result<(), ErrorKind> {
        if !matches!(self.bits, 3 | 4 | 8) {
            return Err(ErrorKind::Argument(format!("codes have 8, 4 or 3 bits, not {}", self.bits)));
        }
        if weight.rank() < 2 {
            return Err(ErrorKind::Shape { shape: *weight, expected: "a weight [rows, ..] of two axes or more".into() });
        }
        let (_, columns) = matrix(weight);
        if columns == 0 {
            return Err(ErrorKind::Shape { shape: *weight, expected: "rows of at least one column".into() });
        }
        match self.group {
            Some(group) if !(1..=MOST_COLUMNS).contains(&group) => Err(ErrorKind::Argument(format!("a group has 1 to {MOST_COLUMNS} columns, not {group}"))),
            Some(group) if !columns.is_multiple_of(group) => {
                Err(ErrorKind::Argument(format!("rows of {columns} columns cannot be cut into groups of {group}: {columns} is no multiple of it")))
            }
            _ => Ok(()),
        }
    }
    /// Are these the codes, scales and zero points of a weight?
    ///
    /// # Errors
    /// [`Packing::check`]'s; another dtype or shape than theirs.
    pub fn check_parts(&self, weight: &Shape, codes: &TensorType, scale: &TensorType, zero_point: Option<&TensorType>) -> Result<(), ErrorKind> {
        self.check(weight)?;
        same("codes", codes, self.codes(weight), &[self.dtype()])?;
        same("scales", scale, self.scales(weight), &[DType::F32, DType::F16])?;
        match (zero_point, self.symmetric) {
            (Some(zero_point), false) => same("zero points", zero_point, self.scales(weight), &[DType::U8]),
            (None, true) => Ok(()),
            (Some(_), true) => Err(ErrorKind::Argument("a symmetric packing has no zero points".into())),
            (None, false) => Err(ErrorKind::Argument("an affine packing needs zero points".into())),
        }
    }
    pub(super) fn attrs(&self) -> Attrs {
        let known = [("bits", Attr::Int(self.bits as i64)), ("symmetric", Attr::Bool(self.symmetric))];
        known.into_iter().chain(self.group.map(|g| ("group", Attr::Int(g as i64)))).collect()
    }
    pub(super) fn given(given: &mut Given) -> Result<Packing, ErrorKind> {
        Ok(Packing { bits: given.size("bits")? as u32, symmetric: given.bool("symmetric")?, group: given.size_or_none("group")? })
    }
}
/// The numbers that codes count, before the zero point is taken away and the scale is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CodeLevels {
    /// a code counts itself: steps are even
    #[default]
    Even,
    /// a code of 4 bits is the number of one of [`NORMAL_FLOATS`], which lie as densely as normal numbers do
    NormalFloat,
}
/// The levels of NF4: quantiles of a normal distribution, divided by the largest. From the probability `1 - (1/32 + 1/30) / 2` down
/// to 1/2 there are eight steps, whose quantiles are the levels above 0, and seven steps, whose quantiles lie below; 0 is one too.
///
/// Source: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", 2023, section 3 and appendix E.
pub const NORMAL_FLOATS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];
impl CodeLevels {
    /// Its name in attributes and files.
    pub fn name(self) -> &'static str {
        match self {
            CodeLevels::Even => "even",
            CodeLevels::NormalFloat => "normal_float",
        }
    }
    /// What has a name.
    pub fn named(name: &str) -> Option<CodeLevels> {
        [CodeLevels::Even, CodeLevels::NormalFloat].into_iter().find(|l| l.name() == name)
    }
    /// What is added to a code of a packing where it is stored.
    pub fn offset(self, packing: &Packing) -> i32 {
        if self == CodeLevels::Even { packing.offset() } else { 0 }
    }
    /// Do codes of a packing have such levels?
    ///
    /// # Errors
    /// Levels of 4 bits with codes of others, or with zero points.
    pub fn check(self, packing: &Packing) -> Result<(), ErrorKind> {
        if self == CodeLevels::NormalFloat && !(packing.bits == 4 && packing.symmetric) {
            return Err(ErrorKind::Argument(format!(
                "NF4 has codes of 4 bits without zero points, not {} bits{}",
                packing.bits,
                if packing.symmetric { "" } else { ", affine" }
            )));
        }
        Ok(())
    }
    fn given(given: &mut Given) -> Result<CodeLevels, ErrorKind> {
        let name = given.text("levels")?;
        CodeLevels::named(&name).ok_or_else(|| ErrorKind::Argument(format!("levels are even or normal_float, not {name:?}")))
    }
    fn attr(self) -> (&'static str, Attr) {
        ("levels", Attr::Text(self.name().into()))
    }
}
/// Rows and columns of a weight.
pub fn matrix(weight: &Shape) -> (usize, usize) {
    (weight.first().copied().unwrap_or(1), weight.iter().skip(1).product())
}
pub(super) fn same(what: &str, got: &TensorType, shape: Shape, dtypes: &[DType]) -> Result<(), ErrorKind> {
    if !dtypes.contains(&got.dtype) {
        let wanted: Vec<String> = dtypes.iter().map(DType::to_string).collect();
        return Err(ErrorKind::Dtype(format!("{what} are {}, not {}", wanted.join(" or "), got.dtype)));
    }
    if got.shape != shape {
        return Err(ErrorKind::Shape { shape: got.shape, expected: format!("{what} of {shape}") });
    }
    Ok(())
}

/// The numbers that codes stand for. Inputs: codes, scales and, of an affine packing, zero points; result: the weight in `dtype`,
/// each number computed in f32 and rounded once.
#[derive(Clone, Copy, Debug)]
pub struct Dequantize {
    /// how codes stand for numbers
    pub packing: Packing,
    /// what they count
    pub levels: CodeLevels,
    /// the weight's shape
    pub shape: Shape,
    /// the dtype of the result
    pub dtype: DType,
}
impl Dequantize {
    /// Made of attributes.
    ///
    /// # Errors
    /// One that is missing or of another kind.
    pub fn given(given: &mut Given) -> Result<Dequantize, ErrorKind> {
        Ok(Dequantize {
            packing: Packing::given(given)?,
            levels: CodeLevels::given(given)?,
            shape: shape_of(given.ints("shape")?)?,
            dtype: given.dtype("dtype")?,
        })
    }
}
impl Composite for Dequantize {
    fn name(&self) -> &'static str {
        "adamant.dequantize"
    }
    fn attrs(&self) -> Attrs {
        let shape = self.shape.iter().map(|d| *d as i64).collect();
        let own = [self.levels.attr(), ("shape", Attr::Ints(shape)), ("dtype", Attr::DType(self.dtype))];
        self.packing.attrs().into_iter().chain(own).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let made = floats(&TensorType { shape: self.shape, dtype: self.dtype })?;
        self.levels.check(&self.packing)?;
        self.packing.check_parts(&self.shape, &inputs[0], &inputs[1], inputs.get(2))?;
        Ok(smallvec![made])
    }
}
fn shape_of(dims: Vec<i64>) -> Result<Shape, ErrorKind> {
    let sizes: Option<Vec<usize>> = dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    Shape::new(&sizes.ok_or_else(|| ErrorKind::Argument("a size is below 0".into()))?)
}

/// What becomes of a layer's input before it meets the codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Activations {
    /// It stays what it is: codes become numbers, and numbers are multiplied.
    Float,
    /// Each row (token) becomes 8-bit codes by a scale of its own, found from its values: signed ones about 0 where
    /// symmetric, else unsigned ones from its least to its largest value. Codes are multiplied.
    PerToken {
        /// signed, without a zero point
        symmetric: bool,
    },
    /// All of it becomes unsigned 8-bit codes by one scale and zero point that are given (found by calibration). Codes are
    /// multiplied.
    Given,
}

impl Activations {
    /// Its name in attributes and files.
    pub fn name(self) -> &'static str {
        match self {
            Activations::Float => "float",
            Activations::PerToken { symmetric: false } => "token",
            Activations::PerToken { symmetric: true } => "token_symmetric",
            Activations::Given => "given",
        }
    }
    /// What has a name.
    pub fn named(name: &str) -> Option<Activations> {
        let all = [Activations::Float, Activations::PerToken { symmetric: false }, Activations::PerToken { symmetric: true }, Activations::Given];
        all.into_iter().find(|a| a.name() == name)
    }
}

/// So many products of codes less their zero points have a sum that i32 holds: each is at most 255 · 255.
pub const MOST_COLUMNS: usize = 32_768;

/// A linear layer of codes. Inputs: x `[.., in]`; the codes of the weight `[out, in]`; the scales; of an affine packing the zero
/// points; of given activations their scale (f32) and zero point (i32), single numbers; the bias `[out]` if there is one. The
/// result is in x's dtype; all is computed in integers and f32 and rounded once.
///
/// Codes are multiplied as integers and added exactly: of more columns than [`MOST_COLUMNS`], what so many give is added in i64.
/// Of a row x with scale s and zero point z, and a weight row w with S and Z, the sum is `Σ (x - z)(w - Z)`; the result is
/// `sum · (s · S)`, in f32, plus the bias. Of groups, the sum of each is multiplied by its scale and these are added by the
/// reduction of a leading axis; the result is that times s, plus the bias.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizedLinear {
    /// how codes stand for numbers
    pub packing: Packing,
    /// what they count; levels that are not even are no integers to multiply, and x stays what it is
    pub levels: CodeLevels,
    /// what becomes of x
    pub activations: Activations,
    /// has a row more columns than [`MOST_COLUMNS`]?
    pub wide: bool,
    /// is there a bias?
    pub bias: bool,
}
impl QuantizedLinear {
    /// Made of attributes.
    ///
    /// # Errors
    /// One that is missing or of another kind.
    pub fn given(given: &mut Given) -> Result<QuantizedLinear, ErrorKind> {
        let CodedInputs { packing, activations, bias } = CodedInputs::given(given)?;
        Ok(QuantizedLinear { packing, levels: CodeLevels::given(given)?, activations, wide: given.bool("wide")?, bias })
    }
    /// How many inputs it takes.
    pub fn inputs(&self) -> usize {
        self.coded_inputs().inputs()
    }
    /// Its inputs by their roles.
    ///
    /// # Errors
    /// Another number of them.
    pub fn roles<'a, T>(&self, inputs: &'a [T]) -> Result<Roles<'a, T>, ErrorKind> {
        self.coded_inputs().roles(inputs)
    }
    /// What it reads.
    pub fn coded_inputs(&self) -> CodedInputs {
        CodedInputs { packing: self.packing, activations: self.activations, bias: self.bias }
    }
}
/// What a layer of codes reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CodedInputs {
    /// how codes stand for numbers
    pub packing: Packing,
    /// what becomes of x
    pub activations: Activations,
    /// is there a bias?
    pub bias: bool,
}
impl CodedInputs {
    /// How many inputs it takes.
    pub fn inputs(&self) -> usize {
        3 + usize::from(!self.packing.symmetric) + 2 * usize::from(self.activations == Activations::Given) + usize::from(self.bias)
    }
    /// Its inputs by their roles.
    ///
    /// # Errors
    /// Another number of them.
    pub fn roles<'a, T>(&self, inputs: &'a [T]) -> Result<Roles<'a, T>, ErrorKind> {
        if inputs.len() != self.inputs() {
            return Err(ErrorKind::Argument(format!("a layer of codes with {} inputs, not {}", self.inputs(), inputs.len())));
        }
        let mut left = inputs.iter();
        let mut next = || left.next().ok_or_else(|| ErrorKind::Internal("an input fewer than were counted".into()));
        let (x, codes, scale) = (next()?, next()?, next()?);
        let zero_point = if self.packing.symmetric { None } else { Some(next()?) };
        let given = if self.activations == Activations::Given { Some((next()?, next()?)) } else { None };
        let bias = if self.bias { Some(next()?) } else { None };
        Ok(Roles { x, codes, scale, zero_point, given, bias })
    }
    fn attrs(&self) -> Attrs {
        let own = [("activations", Attr::Text(self.activations.name().into())), ("bias", Attr::Bool(self.bias))];
        self.packing.attrs().into_iter().chain(own).collect()
    }
    fn given(given: &mut Given) -> Result<CodedInputs, ErrorKind> {
        let name = given.text("activations")?;
        let activations =
            Activations::named(&name).ok_or_else(|| ErrorKind::Argument(format!("activations are float, token, token_symmetric or given, not {name:?}")))?;
        Ok(CodedInputs { packing: Packing::given(given)?, activations, bias: given.bool("bias")? })
    }
    /// Are these the inputs of a layer with a weight of that shape, x aside?
    fn check(&self, of: &Roles<'_, TensorType>, weight: &Shape) -> Result<(), ErrorKind> {
        self.packing.check_parts(weight, of.codes, of.scale, of.zero_point)?;
        if let Some((scale, zero_point)) = of.given {
            same("the scale of x", scale, Shape::new(&[])?, &[DType::F32])?;
            same("the zero point of x", zero_point, Shape::new(&[])?, &[DType::I32])?;
        }
        match of.bias {
            Some(bias) => same("the bias", bias, Shape::new(&[weight[0]])?, &[of.x.dtype, DType::F32]),
            None => Ok(()),
        }
    }
}
/// x of a layer of codes, which computes in f32.
pub(super) fn narrow_floats(x: &TensorType) -> Result<TensorType, ErrorKind> {
    let x = floats(x)?;
    if x.dtype == DType::F64 {
        return Err(ErrorKind::Dtype("layers of codes compute in f32: cast the input to f32, f16 or bf16".into()));
    }
    Ok(x)
}
/// The inputs of a [`QuantizedLinear`].
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a, T> {
    /// the layer's input
    pub x: &'a T,
    /// codes
    pub codes: &'a T,
    /// scales
    pub scale: &'a T,
    /// zero points
    pub zero_point: Option<&'a T>,
    /// scale and zero point of x
    pub given: Option<(&'a T, &'a T)>,
    /// bias
    pub bias: Option<&'a T>,
}
impl Composite for QuantizedLinear {
    fn name(&self) -> &'static str {
        "adamant.quantized_linear"
    }
    fn attrs(&self) -> Attrs {
        self.coded_inputs().attrs().into_iter().chain([("wide", Attr::Bool(self.wide)), self.levels.attr()]).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let of = self.roles(inputs)?;
        let x = narrow_floats(of.x)?;
        let Some(&columns) = x.shape.last() else {
            return Err(ErrorKind::Shape { shape: x.shape, expected: "[.., in]".into() });
        };
        let rows = of.scale.shape.first().copied().unwrap_or(0);
        let weight = Shape::new(&[rows, columns])?;
        self.check_columns(of.codes, &x, columns)?;
        if self.wide != (columns > MOST_COLUMNS) {
            return Err(ErrorKind::Argument(format!("rows of {columns} columns are {}wide", if self.wide { "not " } else { "" })));
        }
        self.coded_inputs().check(&of, &weight)?;
        self.levels.check(&self.packing)?;
        if self.levels != CodeLevels::Even && self.activations != Activations::Float {
            return Err(ErrorKind::Argument(format!("codes of NF4 are multiplied as numbers, and inputs of the kind {} are codes", self.activations.name())));
        }
        Ok(smallvec![TensorType { shape: x.shape.with(x.shape.rank() - 1, rows), ..x }])
    }
}
impl QuantizedLinear {
    /// Codes of other rows than x has: said with both shapes, as a linear layer says it.
    fn check_columns(&self, codes: &TensorType, x: &TensorType, columns: usize) -> Result<(), ErrorKind> {
        let fits = codes.shape.rank() == 2 && codes.shape[1] == self.packing.row_bytes(columns);
        if fits {
            return Ok(());
        }
        let expected = "the input's last axis must be the columns of the codes";
        Err(ErrorKind::ShapeMismatch { left: x.shape, right: codes.shape, axes: Some((x.shape.rank() - 1, codes.shape.rank().saturating_sub(1))), expected })
    }
}

/// A convolution of codes. Inputs: x `[batch, in, ..]`; then as those of a [`QuantizedLinear`], the weight being
/// `[out, in / groups, ..kernel]`. The result is in x's dtype.
///
/// Of [`Activations::PerToken`] each sample has codes of its own. Zeros around x are its code of 0. The sum of a window is that of a
/// row of the linear layer, with the same steps in f32.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedConv {
    /// the convolution, forward
    pub conv: Arc<ConvSpec>,
    /// the weight's shape
    pub weight: Shape,
    /// the weight's codes, what becomes of x, and whether there is a bias
    pub codes: CodedInputs,
}
impl QuantizedConv {
    /// Made of attributes, beside those of the convolution.
    ///
    /// # Errors
    /// One that is missing or of another kind.
    pub fn given(conv: Arc<ConvSpec>, given: &mut Given) -> Result<QuantizedConv, ErrorKind> {
        Ok(QuantizedConv { conv, weight: shape_of(given.ints("weight")?)?, codes: CodedInputs::given(given)? })
    }
}
impl Composite for QuantizedConv {
    fn name(&self) -> &'static str {
        "adamant.quantized_conv"
    }
    fn attrs(&self) -> Attrs {
        let weight = Attr::Ints(self.weight.iter().map(|d| *d as i64).collect());
        super::conv::attrs(&self.conv).into_iter().chain([("weight", weight)]).chain(self.codes.attrs()).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let of = self.codes.roles(inputs)?;
        let x = narrow_floats(of.x)?;
        if self.conv.role != ConvRole::Forward {
            return Err(ErrorKind::Argument("a convolution of codes runs forward".into()));
        }
        let shape = self.conv.infer(&[x, TensorType { shape: self.weight, ..x }])?;
        self.codes.check(&of, &self.weight)?;
        Ok(smallvec![TensorType { shape, ..x }])
    }
}
