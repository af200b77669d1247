//! Parameters that are held as integer codes: a weight of a layer becomes [`PackedWeight`] in its place, without a change to the
//! layer's type.
//!
//! [`Param::pack`] puts codes in the place of the value. From then on the parameter's value ([`Param::get`]) is what the codes
//! stand for, without a gradient; layers that know codes ([`Linear`](crate::Linear), [`Embedding`](crate::Embedding),
//! [`MultiheadAttention`](crate::MultiheadAttention), convolutions, the recurrent ones) read those instead. A walk meets the tensors that hold
//! the codes as buffers: the codes under the parameter's own name, and `weight_scale` and, of an affine packing,
//! `weight_zero_point` beside it (and `weight_minimum` and `weight_order` of a weight that has such), so that they are saved, moved and counted as what they are. Tied layers share one parameter,
//! and so its codes.
//!
//! Must not know how codes are found.
use crate::{Copies, Param, Walker};
use adamant_core::{
    DType, Device, Error, ErrorKind, Meta, Result, Shape, Tensor,
    composite::packed::{Activations, CodeLevels, Packing},
    functional::{self, PackedWeight, QuantizedInput},
};
use std::sync::Arc;

/// What becomes of a layer's input where it meets the codes of the layer's weight.
#[derive(Clone, Debug, PartialEq)]
pub enum InputCodes {
    /// it stays what it is: the weight's codes become numbers
    Float,
    /// each row has 8-bit codes by its own values: signed about 0, or unsigned over the row's range
    PerToken {
        /// signed about 0
        symmetric: bool,
    },
    /// unsigned 8-bit codes by one scale and one code of 0, found by calibration
    Given {
        /// the step of a code
        scale: f32,
        /// the code of 0, between 0 and 255
        zero_point: i32,
    },
}

impl InputCodes {
    /// The same without the numbers of a calibration.
    pub fn activations(&self) -> Activations {
        match *self {
            InputCodes::Float => Activations::Float,
            InputCodes::PerToken { symmetric } => Activations::PerToken { symmetric },
            InputCodes::Given { .. } => Activations::Given,
        }
    }
}

/// What holds a packed parameter.
pub(crate) struct PackedParts {
    packing: Packing,
    levels: CodeLevels,
    /// of the codes' weight
    shape: Shape,
    /// the parameter `[in, out]` is that weight, transposed
    transposed: bool,
    dtype: DType,
    codes: Param,
    scale: Param,
    zero_point: Option<Param>,
    minimum: Option<Param>,
    order: Option<Param>,
    activations: Activations,
    /// scale and zero point of given activations, single numbers that are saved with the codes
    given: Option<(Param, Param)>,
}
impl PackedParts {
    #[track_caller]
    fn new(weight: &PackedWeight, transposed: bool, dtype: DType, input: &InputCodes) -> Result<PackedParts> {
        let buffer = |t: &Tensor| Param::buffer(t);
        let device = weight.codes().try_meta()?.device;
        let given = match input {
            InputCodes::Given { scale, zero_point } => {
                if !(scale.is_finite() && *scale > 0.0 && (0..=255).contains(zero_point)) {
                    let text = format!("a step is finite and above 0, and the code of 0 lies in 0..=255, not {scale} and {zero_point}");
                    return Err(Error::new("pack", ErrorKind::Argument(text)));
                }
                let scale = Param::buffer(&Tensor::full_on((), *scale, DType::F32, device))?;
                Some((scale, Param::buffer(&Tensor::full_on((), *zero_point, DType::I32, device))?))
            }
            InputCodes::Float | InputCodes::PerToken { .. } => None,
        };
        Ok(PackedParts {
            packing: weight.packing(),
            levels: weight.levels(),
            shape: weight.shape(),
            transposed,
            dtype,
            codes: buffer(weight.codes())?,
            scale: buffer(weight.scale())?,
            zero_point: weight.zero_point().map(buffer).transpose()?,
            minimum: weight.minimum().map(buffer).transpose()?,
            order: weight.order().map(buffer).transpose()?,
            activations: input.activations(),
            given,
        })
    }
    /// The weight it holds now.
    #[track_caller]
    pub fn weight(&self) -> Result<PackedWeight> {
        let zero_point = self.zero_point.as_ref().map(Param::get);
        let mut weight = PackedWeight::new(self.packing, self.shape, &self.codes.get(), &self.scale.get(), zero_point.as_ref())?.with_levels(self.levels)?;
        if let Some(minimum) = &self.minimum {
            weight = weight.with_minimum(&minimum.get())?;
        }
        match &self.order {
            Some(order) => weight.with_order(&order.get()),
            None => Ok(weight),
        }
    }
    /// Calls a function with what becomes of an input.
    pub fn with_input<R>(&self, f: impl FnOnce(QuantizedInput<'_>) -> R) -> R {
        match (self.activations, &self.given) {
            (_, Some((scale, zero_point))) => f(QuantizedInput::Given { scale: &scale.get(), zero_point: &zero_point.get() }),
            (Activations::PerToken { symmetric }, None) => f(QuantizedInput::PerToken { symmetric }),
            (Activations::Float | Activations::Given, None) => f(QuantizedInput::Float),
        }
    }
    /// The numbers.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        let numbers = self.weight().map_or_else(Tensor::failed, |w| w.dequantize(self.dtype).detach());
        if self.transposed { numbers.mt() } else { numbers }
    }
    pub fn meta(&self) -> Meta {
        Meta { shape: parameter_shape(self.shape, self.transposed), dtype: self.dtype, ..self.codes.meta() }
    }
    fn parts(&self) -> Vec<(&'static str, &Param)> {
        let mut all = vec![("", &self.codes), ("_scale", &self.scale)];
        let others = [("_zero_point", &self.zero_point), ("_minimum", &self.minimum), ("_order", &self.order)];
        all.extend(others.into_iter().filter_map(|(suffix, part)| Some((suffix, part.as_ref()?))));
        if let Some((scale, zero_point)) = &self.given {
            all.extend([("_input_scale", scale), ("_input_zero_point", zero_point)]);
        }
        all
    }
    #[track_caller]
    pub fn move_to(&self, device: Device) -> Result<()> {
        self.parts().into_iter().try_for_each(|(_, p)| p.move_to(device))
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<PackedParts> {
        let mut copy = |p: &Param| copies.param(p);
        Ok(PackedParts {
            codes: copy(&self.codes)?,
            scale: copy(&self.scale)?,
            zero_point: self.zero_point.as_ref().map(&mut copy).transpose()?,
            minimum: self.minimum.as_ref().map(&mut copy).transpose()?,
            order: self.order.as_ref().map(&mut copy).transpose()?,
            given: self.given.as_ref().map(|(scale, zero_point)| Ok::<_, Error>((copy(scale)?, copy(zero_point)?))).transpose()?,
            ..*self
        })
    }
}
/// The shape of a parameter that a weight of codes is held in.
fn parameter_shape(weight: Shape, transposed: bool) -> Shape {
    match weight[..] {
        [out, columns] if transposed => weight.with(0, columns).with(1, out),
        _ => weight,
    }
}
/// Walks the tensors that hold a packed parameter.
pub(crate) fn walk(parts: &PackedParts, param: &Param, walker: &mut Walker<'_>) {
    let path = walker.path.clone();
    walker.visit.packed(&path, param);
    for (suffix, part) in parts.parts() {
        walker.path = format!("{path}{suffix}");
        crate::Walk::walk(part, walker);
    }
    walker.path = path;
}

/// A parameter's codes, and what becomes of inputs that meet them.
#[derive(Clone)]
pub struct PackedParam(Arc<PackedParts>);
impl PackedParam {
    /// The codes.
    ///
    /// # Errors
    /// Tensors of another shape were put in their places.
    #[track_caller]
    pub fn weight(&self) -> Result<PackedWeight> {
        self.0.weight()
    }
    /// Is the parameter `[in, out]` the transpose of the weight?
    pub fn is_transposed(&self) -> bool {
        self.0.transposed
    }
    /// What becomes of an input.
    ///
    /// # Errors
    /// The numbers cannot be read.
    #[track_caller]
    pub fn input(&self) -> Result<InputCodes> {
        Ok(match (self.0.activations, &self.0.given) {
            (_, Some((scale, zero_point))) => InputCodes::Given { scale: scale.detached().item()?, zero_point: zero_point.detached().item()? },
            (Activations::PerToken { symmetric }, None) => InputCodes::PerToken { symmetric },
            (Activations::Float | Activations::Given, None) => InputCodes::Float,
        })
    }
}

/// A weight as a layer reads it.
pub(crate) enum ReadWeight {
    Numbers(Tensor),
    Codes(PackedWeight, Arc<PackedParts>),
}
impl ReadWeight {
    /// So many rows of it from one on.
    #[track_caller]
    pub fn narrow(self, start: usize, len: usize) -> ReadWeight {
        match self {
            ReadWeight::Numbers(weight) => ReadWeight::Numbers(weight.narrow(0, start, len)),
            ReadWeight::Codes(weight, parts) => {
                weight.narrow(start, len).map_or_else(|e| ReadWeight::Numbers(Tensor::failed(e)), |rows| ReadWeight::Codes(rows, parts))
            }
        }
    }
    /// `x weightᵀ + bias`.
    #[track_caller]
    pub fn linear(&self, x: &Tensor, bias: Option<&Tensor>) -> Tensor {
        match self {
            ReadWeight::Numbers(weight) => functional::linear(x, weight, bias),
            ReadWeight::Codes(weight, parts) => parts.with_input(|input| functional::quantized_linear(x, weight, bias, input)),
        }
    }
}

impl Param {
    /// Holds a weight of codes from now on, in the place of its value; what becomes of inputs that meet it is said with it. Functions
    /// that were compiled before are captured anew.
    ///
    /// ```
    /// # use adamant_core::{Tensor, composite::packed::Packing, functional::PackedWeight};
    /// # use adamant_nn::{InputCodes, Linear, Module, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let layer = Linear::new(4, 2)?;
    /// let packed = PackedWeight::round(&layer.weight.detached(), Packing { bits: 8, group: None, symmetric: true })?;
    /// layer.weight.pack(&packed, InputCodes::PerToken { symmetric: true })?;
    /// let names: Vec<String> = layer.state_dict().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["weight", "weight_scale", "bias"]);
    /// assert_eq!(layer.forward(&Tensor::ones([3, 4]))?.dims()?, [3, 2]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// It holds codes already, is computed from other parameters, has no value yet, or is of another shape or device.
    #[track_caller]
    pub fn pack(&self, weight: &PackedWeight, input: InputCodes) -> Result<()> {
        self.pack_parts(weight, &input, false)
    }
    /// As [`Param::pack`], of a parameter `[in, out]` whose layer multiplies its inputs with it as it stands (GPT-2's `Conv1D`): the codes are
    /// those of the weight `[out, in]`.
    ///
    /// # Errors
    /// As [`Param::pack`]; a parameter that is no matrix.
    #[track_caller]
    pub fn pack_transposed(&self, weight: &PackedWeight, input: InputCodes) -> Result<()> {
        let shape = weight.shape();
        if shape.rank() != 2 {
            return Err(Error::new("pack", ErrorKind::Shape { shape, expected: "a weight [out, in] of a transposed parameter".into() }));
        }
        self.pack_parts(weight, &input, true)
    }
    /// Holds the codes that another parameter holds, or held.
    ///
    /// # Errors
    /// As [`Param::pack`].
    #[track_caller]
    pub fn pack_as(&self, other: &PackedParam) -> Result<()> {
        self.pack_parts(&other.weight()?, &other.input()?, other.is_transposed())
    }
    #[track_caller]
    fn pack_parts(&self, weight: &PackedWeight, input: &InputCodes, transposed: bool) -> Result<()> {
        let refuse = |text: String| Err(Error::new("pack", ErrorKind::Argument(text)));
        let meta = self.meta();
        if self.packed().is_some() {
            return refuse(format!("{} holds codes already", self.called()));
        }
        if !self.is_plain() {
            return refuse(format!("{} holds no value of its own that codes could take the place of", self.called()));
        }
        let (left, right) = (meta.shape, parameter_shape(weight.shape(), transposed));
        if left != right {
            return Err(Error::new("pack", ErrorKind::ShapeMismatch { left, right, axes: None, expected: "codes of the parameter's shape" }));
        }
        let parts = PackedParts::new(weight, transposed, meta.dtype, input)?;
        parts.move_to(meta.device)?;
        parts.parts().into_iter().for_each(|(suffix, part)| part.name_it(&format!("{}{suffix}", self.path())));
        // The old value is let go of: the place keeps its shape alone.
        self.hold(Some(Arc::new(parts)), &Tensor::shape_only(meta))
    }
    /// Holds numbers again: what its codes stand for. Without codes nothing is done.
    ///
    /// # Errors
    /// The numbers cannot be computed.
    #[track_caller]
    pub fn unpack(&self) -> Result<()> {
        match self.parts() {
            Some(parts) => self.hold(None, &parts.value().ok()?),
            None => Ok(()),
        }
    }
    /// The codes that it holds, if it does.
    pub fn packed(&self) -> Option<PackedParam> {
        self.parts().map(PackedParam)
    }
    /// `x weightᵀ + bias` of this weight `[out, in]`, by its codes if it holds such.
    #[track_caller]
    pub fn linear(&self, x: &Tensor, bias: Option<&Tensor>) -> Tensor {
        self.read().linear(x, bias)
    }
    /// `x weight + bias` of this weight `[in, out]`, by its codes if it holds those of its transpose.
    #[track_caller]
    pub fn transposed_linear(&self, x: &Tensor, bias: Option<&Tensor>) -> Tensor {
        match self.parts() {
            Some(parts) if parts.transposed => {
                let by_codes = |weight: PackedWeight| parts.with_input(|input| functional::quantized_linear(x, &weight, bias, input));
                parts.weight().map_or_else(Tensor::failed, by_codes)
            }
            _ => functional::linear(x, &self.get().mt(), bias),
        }
    }
    /// What a layer reads of it, for several products.
    #[track_caller]
    pub(crate) fn read(&self) -> ReadWeight {
        match self.parts() {
            Some(parts) if parts.transposed => ReadWeight::Numbers(parts.value()),
            Some(parts) => parts.weight().map_or_else(|e| ReadWeight::Numbers(Tensor::failed(e)), |weight| ReadWeight::Codes(weight, parts)),
            None => ReadWeight::Numbers(self.get()),
        }
    }
    /// Rows of this table by integer indices, by its codes if it holds such.
    #[track_caller]
    pub(crate) fn embedding(&self, ids: &Tensor, padding_idx: Option<usize>) -> Tensor {
        match self.parts() {
            Some(parts) if parts.transposed => functional::embedding(ids, &parts.value(), padding_idx),
            Some(parts) => match parts.weight() {
                Ok(weight) => functional::quantized_embedding(ids, &weight).cast(parts.dtype),
                Err(error) => Tensor::failed(error),
            },
            None => functional::embedding(ids, &self.get(), padding_idx),
        }
    }
    /// The error of a call that would train it.
    #[track_caller]
    pub(crate) fn holds_codes(&self, op: &'static str) -> Error {
        Error::new(op, ErrorKind::Argument(format!("{} holds integer codes, which have no gradient", self.called())))
            .hint("train adapters beside it (`quant::lora`), or `unpack` it first")
    }
}
