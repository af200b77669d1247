//! Weights as integer codes, and the layers that read them.
use crate::{
    DType, Error, ErrorKind, Origin, Result, Shape, Tensor,
    composite::packed::{Activations, CodeLevels, Dequantize, MOST_COLUMNS, NORMAL_FLOATS, Packing, QuantizedLinear, SMALLEST_ROW, matrix, packed},
    tensor::compose::compose,
};
use smallvec::SmallVec;

/// A weight `[rows, ..]` as integer codes: the tensors that hold it, and how they stand for its numbers.
///
/// What other programs write may have more to it than a [`Packing`] says: levels that are not even ([`PackedWeight::with_levels`]), a
/// number that is added to all of a group ([`PackedWeight::with_minimum`]), columns in another order
/// ([`PackedWeight::with_order`]).
///
/// ```
/// # use adamant_core::{Device, DType, Tensor, functional::PackedWeight, composite::packed::Packing};
/// # Device::reference().make_current();
/// let weight = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 4.0], [2, 2]);
/// let packed = PackedWeight::round(&weight, Packing { bits: 8, group: None, symmetric: true })?;
/// assert_eq!(packed.codes().to_vec::<i8>()?, [64, -127, 64, 127]);
/// assert_eq!(packed.dequantize(DType::F32).to_vec::<f32>()?[3], 4.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PackedWeight {
    packing: Packing,
    levels: CodeLevels,
    shape: Shape,
    codes: Tensor,
    scale: Tensor,
    zero_point: Option<Tensor>,
    minimum: Option<Tensor>,
    order: Option<Tensor>,
}
impl PackedWeight {
    /// Of tensors that hold it: codes as they are stored, scales and, of an affine packing, zero points.
    ///
    /// # Errors
    /// What [`Packing::check_parts`] refuses.
    #[track_caller]
    pub fn new(packing: Packing, shape: impl crate::ToShape, codes: &Tensor, scale: &Tensor, zero_point: Option<&Tensor>) -> Result<PackedWeight> {
        let here = Origin::here();
        let refuse = |kind| Error::at("packed weight", kind, here);
        let shape = shape.to_shape().map_err(refuse)?;
        let ty = |t: &Tensor| t.try_meta().map(|m| m.ty());
        packing.check_parts(&shape, &ty(codes)?, &ty(scale)?, zero_point.map(ty).transpose()?.as_ref()).map_err(refuse)?;
        let (codes, scale, zero_point) = (codes.clone(), scale.clone(), zero_point.cloned());
        Ok(PackedWeight { packing, levels: CodeLevels::Even, shape, codes, scale, zero_point, minimum: None, order: None })
    }
    /// Of codes that are not stored yet: any integers `[rows, columns]` within [`Packing::range`].
    ///
    /// # Errors
    /// As [`PackedWeight::new`].
    #[track_caller]
    pub fn of_codes(packing: Packing, shape: impl crate::ToShape, codes: &Tensor, scale: &Tensor, zero_point: Option<&Tensor>) -> Result<PackedWeight> {
        let here = Origin::here();
        let refuse = |kind| Error::at("packed weight", kind, here);
        let shape = shape.to_shape().map_err(refuse)?;
        packing.check(&shape).map_err(refuse)?;
        let (rows, columns) = matrix(&shape);
        let given = codes.try_meta()?.shape;
        if *given != [rows, columns] {
            return Err(refuse(ErrorKind::Shape { shape: given, expected: format!("codes of [{rows}, {columns}]") }));
        }
        let codes =
            if packing.bits == 8 { codes.cast(packing.dtype()).reshape(shape) } else { packed(&packing, &(codes.cast(DType::I32) + packing.offset() as i64)) };
        PackedWeight::new(packing, shape, &codes, scale, zero_point)
    }
    /// Each number rounded to the nearest code. A row's scale, or a group's, is that of its largest absolute value (symmetric), or
    /// of its range with 0 in it (affine); rows of zeros have scale 1. No data is read.
    ///
    /// # Errors
    /// A weight that is no float, or that the packing does not suit.
    #[track_caller]
    pub fn round(weight: &Tensor, packing: Packing) -> Result<PackedWeight> {
        let m = weight.try_meta()?;
        if !m.dtype.is_float() {
            return Err(Error::new("packed weight", ErrorKind::Dtype(format!("weights are floats, not {}", m.dtype)))
                .hint("a weight of codes already is not rounded again"));
        }
        let here = Origin::here();
        packing.check(&m.shape).map_err(|kind| Error::at("packed weight", kind, here))?;
        let (rows, columns) = matrix(&m.shape);
        let groups = packing.groups(columns);
        let w = weight.detach().cast(DType::F32).reshape([rows, groups, columns / groups]);
        let (low, high) = packing.range();
        let scaled = |largest: Tensor, steps: i32| largest.gt(SMALLEST_ROW).where_(&largest / steps as f64, largest.ne(&largest).where_(&largest, 1.0));
        let (scale, zero_point) = if packing.symmetric {
            (scaled(w.abs().amax_keepdim(2), high), None)
        } else {
            let (least, most) = (w.amin_keepdim(2).minimum(0.0), w.amax_keepdim(2).maximum(0.0));
            let scale = scaled(most - &least, high);
            let zero_point = (-least / &scale).round();
            (scale, Some(zero_point))
        };
        let steps = (w / &scale).round();
        let steps = match &zero_point {
            Some(zero_point) => steps + zero_point,
            None => steps,
        };
        let codes = steps.maximum(low as f64).minimum(high as f64).cast(DType::I32).reshape([rows, columns]);
        let by_group = |t: &Tensor| t.reshape([rows, groups]);
        let zero_point = zero_point.map(|z| by_group(&z).cast(DType::U8));
        PackedWeight::of_codes(packing, m.shape, &codes, &by_group(&scale), zero_point.as_ref())
    }
    /// Each number rounded to the nearest of the 16 levels of NF4, with a scale for each group, f32 or f16: its largest absolute value.
    /// Groups of zeros have scale 1. No data is read.
    ///
    /// Source: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", 2023.
    ///
    /// # Errors
    /// As [`PackedWeight::round`].
    #[track_caller]
    pub fn round_normal_float(weight: &Tensor, group: Option<usize>, scales: DType) -> Result<PackedWeight> {
        let packing = Packing { bits: 4, group, symmetric: true };
        let m = weight.try_meta()?;
        // Its refusals, and its scale of each group but for the largest code.
        let even = PackedWeight::round(weight, packing)?;
        let (rows, columns) = matrix(&m.shape);
        let groups = packing.groups(columns);
        let w = weight.detach().cast(DType::F32).reshape([rows, groups, columns / groups]);
        let largest = w.abs().amax_keepdim(2);
        let scale = largest.gt(SMALLEST_ROW).where_(&largest, largest.ne(&largest).where_(&largest, 1.0)).cast(scales);
        let w = w / scale.cast(DType::F32);
        let between = NORMAL_FLOATS.windows(2).map(|pair| f64::midpoint(f64::from(pair[0]), f64::from(pair[1])));
        let codes = between.map(|bound| w.gt(bound).cast(DType::I32)).reduce(|all, above| all + above);
        let codes = packed(&packing, &codes.unwrap_or_else(|| w.cast(DType::I32)).reshape([rows, columns]));
        PackedWeight::new(packing, even.shape, &codes, &scale.reshape([rows, groups]), None)?.with_levels(CodeLevels::NormalFloat)
    }
    /// With codes that count other levels.
    ///
    /// # Errors
    /// NF4's, with other codes than 4 bits without zero points.
    #[track_caller]
    pub fn with_levels(self, levels: CodeLevels) -> Result<PackedWeight> {
        levels.check(&self.packing).map_err(|kind| Error::new("packed weight", kind))?;
        Ok(PackedWeight { levels, ..self })
    }
    /// With a number for each row and group, f32 or f16 `[rows, groups]`, that is added to all that the group's codes stand for. A
    /// layer multiplies it with the sum of the group's inputs, as they are before they become codes.
    ///
    /// # Errors
    /// Another shape or dtype; a weight that is no matrix.
    #[track_caller]
    pub fn with_minimum(self, minimum: &Tensor) -> Result<PackedWeight> {
        self.extra("minima", minimum, self.packing.scales(&self.shape), &[DType::F32, DType::F16])?;
        Ok(PackedWeight { minimum: Some(minimum.clone()), ..self })
    }
    /// With columns in another order, i32 `[columns]`: column k of the codes is column `order[k]` of the weight. That each is named once is not
    /// looked at.
    ///
    /// # Errors
    /// Another shape or dtype; a weight that is no matrix.
    #[track_caller]
    pub fn with_order(self, order: &Tensor) -> Result<PackedWeight> {
        self.extra("an order of columns", order, Shape::along(0, matrix(&self.shape).1, 1), &[DType::I32])?;
        Ok(PackedWeight { order: Some(order.clone()), ..self })
    }
    #[track_caller]
    fn extra(&self, what: &str, given: &Tensor, shape: Shape, dtypes: &[DType]) -> Result<()> {
        let m = given.try_meta()?;
        if self.shape.rank() != 2 {
            return Err(Error::new("packed weight", ErrorKind::Shape { shape: self.shape, expected: format!("a matrix, for {what}") }));
        }
        if !dtypes.contains(&m.dtype) {
            let wanted: Vec<String> = dtypes.iter().map(DType::to_string).collect();
            return Err(Error::new("packed weight", ErrorKind::Dtype(format!("{what}: {}, not {}", wanted.join(" or "), m.dtype))));
        }
        if m.shape != shape {
            return Err(Error::new("packed weight", ErrorKind::Shape { shape: m.shape, expected: format!("{what} of {shape}") }));
        }
        Ok(())
    }
    /// How codes stand for numbers.
    pub fn packing(&self) -> Packing {
        self.packing
    }
    /// The shape of the weight.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// The codes as they are stored.
    pub fn codes(&self) -> &Tensor {
        &self.codes
    }
    /// Scales, f32 or f16 `[rows, groups]`.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }
    /// Zero points of an affine packing, u8 `[rows, groups]`.
    pub fn zero_point(&self) -> Option<&Tensor> {
        self.zero_point.as_ref()
    }
    /// What codes count.
    pub fn levels(&self) -> CodeLevels {
        self.levels
    }
    /// What is added to all of a group, `[rows, groups]`.
    pub fn minimum(&self) -> Option<&Tensor> {
        self.minimum.as_ref()
    }
    /// Where the columns of the codes stand in the weight.
    pub fn order(&self) -> Option<&Tensor> {
        self.order.as_ref()
    }
    /// Bytes of the tensors that hold it.
    pub fn bytes(&self) -> usize {
        let all = [Some(&self.codes), Some(&self.scale), self.zero_point.as_ref(), self.minimum.as_ref(), self.order.as_ref()];
        all.into_iter().flatten().map(|t| t.meta().ty().bytes()).sum()
    }
    /// The numbers, in a float dtype; each is computed in f32 and rounded once.
    #[track_caller]
    pub fn dequantize(&self, dtype: DType) -> Tensor {
        let mut inputs: SmallVec<[&Tensor; 3]> = [&self.codes, &self.scale].into_iter().collect();
        inputs.extend(&self.zero_point);
        let all = |dtype| Tensor::composite1(Dequantize { packing: self.packing, levels: self.levels, shape: self.shape, dtype }, &inputs);
        let numbers = match &self.minimum {
            None => all(dtype),
            Some(minimum) => {
                let (rows, columns) = matrix(&self.shape);
                let groups = self.packing.groups(columns);
                let by_group = all(DType::F32).reshape([rows, groups, columns / groups]) + minimum.cast(DType::F32).reshape([rows, groups, 1]);
                by_group.reshape(self.shape).cast(dtype)
            }
        };
        match &self.order {
            Some(order) => numbers.index_select(1, &order.argsort(0, false)),
            None => numbers,
        }
    }
    /// So many rows from one on: views of its tensors.
    ///
    /// # Errors
    /// Rows that it has not.
    #[track_caller]
    pub fn narrow(&self, start: usize, len: usize) -> Result<PackedWeight> {
        let cut = |t: &Tensor| t.narrow(0, start, len).ok();
        let (codes, scale, zero_point) = (cut(&self.codes)?, cut(&self.scale)?, self.zero_point.as_ref().map(cut).transpose()?);
        let (minimum, order) = (self.minimum.as_ref().map(cut).transpose()?, self.order.clone());
        Ok(PackedWeight { shape: self.shape.with(0, len), codes, scale, zero_point, minimum, order, ..*self })
    }
    /// The inputs of a layer of codes, in their order.
    pub(super) fn inputs<'t>(&'t self, x: &'t Tensor, input: QuantizedInput<'t>, bias: Option<&'t Tensor>) -> SmallVec<[&'t Tensor; 8]> {
        let mut inputs: SmallVec<[&Tensor; 8]> = [x, &self.codes, &self.scale].into_iter().collect();
        inputs.extend(&self.zero_point);
        if let QuantizedInput::Given { scale, zero_point } = input {
            inputs.extend([scale, zero_point]);
        }
        inputs.extend(bias);
        inputs
    }
    /// Rows by integer indices of one axis.
    #[track_caller]
    fn rows(&self, ids: &Tensor) -> PackedWeight {
        let select = |t: &Tensor| t.index_select(0, ids);
        let n = ids.meta().shape.elements();
        PackedWeight {
            shape: self.shape.with(0, n),
            codes: select(&self.codes),
            scale: select(&self.scale),
            zero_point: self.zero_point.as_ref().map(select),
            minimum: self.minimum.as_ref().map(select),
            order: self.order.clone(),
            ..*self
        }
    }
}

/// What becomes of a layer's input before it meets a weight of codes.
#[derive(Clone, Copy, Debug)]
pub enum QuantizedInput<'a> {
    /// it stays what it is, and the weight's codes become numbers
    Float,
    /// each row has 8-bit codes by its own values
    PerToken {
        /// signed about 0, or unsigned over the row's range
        symmetric: bool,
    },
    /// unsigned 8-bit codes by a scale (f32) and a zero point (i32) that are given, single numbers
    Given {
        /// the step of a code
        scale: &'a Tensor,
        /// the code of 0; one that is no code counts as the nearest that is
        zero_point: &'a Tensor,
    },
}
impl QuantizedInput<'_> {
    pub(super) fn activations(self) -> Activations {
        match self {
            QuantizedInput::Float => Activations::Float,
            QuantizedInput::PerToken { symmetric } => Activations::PerToken { symmetric },
            QuantizedInput::Given { .. } => Activations::Given,
        }
    }
}

/// `x weightᵀ + bias` of a weight of codes: x `[.., in]`, weight `[out, in]`, bias `[out]`, result `[.., out]` in x's dtype. Where x
/// becomes codes too, they are multiplied as integers, exactly. The gradient of x is that of the weight's numbers.
///
/// ```
/// # use adamant_core::{Device, Tensor, functional::{PackedWeight, QuantizedInput, quantized_linear}, composite::packed::Packing};
/// # Device::reference().make_current();
/// let weight = PackedWeight::round(&Tensor::from_vec(vec![1.0f32, -2.0], [1, 2]), Packing { bits: 8, group: None, symmetric: true })?;
/// let x = Tensor::from_vec(vec![3.0f32, 0.5], [1, 2]);
/// let y = quantized_linear(&x, &weight, None, QuantizedInput::PerToken { symmetric: true });
/// assert!((y.item::<f32>()? - 2.0).abs() < 0.05);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Shapes that do not go together; an input of f64, since codes are scaled in f32.
#[track_caller]
pub fn quantized_linear(x: &Tensor, weight: &PackedWeight, bias: Option<&Tensor>, input: QuantizedInput<'_>) -> Tensor {
    if weight.minimum.is_some() || weight.order.is_some() {
        return with_extras(x, weight, bias, input);
    }
    by_codes(x, weight, bias, input)
}
#[track_caller]
fn by_codes(x: &Tensor, weight: &PackedWeight, bias: Option<&Tensor>, input: QuantizedInput<'_>) -> Tensor {
    let inputs = weight.inputs(x, input, bias);
    let wide = x.meta().shape.last().is_some_and(|columns| *columns > MOST_COLUMNS);
    let layer = QuantizedLinear { packing: weight.packing, levels: weight.levels, activations: input.activations(), wide, bias: bias.is_some() };
    Tensor::composite1(layer, &inputs)
}
/// The product by codes of a weight whose columns stand elsewhere, or whose groups have something added to them. That is one number for
/// all columns of a group, so it meets the sum of the group's inputs: `x wᵀ = x codesᵀ + sums minimaᵀ`, a product of as many columns as there are
/// groups. No matrix of numbers is made.
#[track_caller]
fn with_extras(x: &Tensor, weight: &PackedWeight, bias: Option<&Tensor>, input: QuantizedInput<'_>) -> Tensor {
    let mut operands = weight.inputs(x, input, bias);
    operands.extend(weight.minimum.iter().chain(&weight.order));
    compose("quantized_linear", &operands, || {
        let m = x.meta();
        let columns = matrix(&weight.shape).1;
        let last = match m.shape.last() {
            Some(given) if *given == columns => m.shape.rank() - 1,
            _ => return Err(ErrorKind::Shape { shape: m.shape, expected: format!("an input [.., {columns}] of a weight {}", weight.shape) }.into()),
        };
        let x = match &weight.order {
            Some(order) => x.index_select(last, order),
            None => x.clone(),
        };
        let Some(minimum) = &weight.minimum else { return Ok(by_codes(&x, weight, bias, input)) };
        let x = x.cast(DType::F32);
        let groups = weight.packing.groups(columns);
        let sums = x.reshape(m.shape.with(last, groups).insert(last + 1, columns / groups)?).sum(last + 1);
        let bias = bias.map(|b| b.cast(DType::F32));
        let y = by_codes(&x, weight, bias.as_ref(), input) + super::linear(&sums, &minimum.cast(DType::F32), None);
        Ok(y.cast(m.dtype))
    })
}
/// Rows of a table of codes `[rows, features]` by integer indices of any shape: `[..indices, features]` in f32. An index out of
/// range is an error when the result is read.
///
/// # Errors
/// A table that is no matrix.
#[track_caller]
pub fn quantized_embedding(indices: &Tensor, table: &PackedWeight) -> Tensor {
    compose("quantized_embedding", &[indices, &table.codes, &table.scale], || {
        if table.shape.rank() != 2 {
            return Err(ErrorKind::Shape { shape: table.shape, expected: "a table [rows, features]".into() }.into());
        }
        let shape = indices.meta().shape;
        let rows = table.rows(&indices.reshape([shape.elements()]));
        Ok(rows.dequantize(DType::F32).reshape(shape.insert(shape.rank(), table.shape[1])?))
    })
}
