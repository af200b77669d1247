//! Layers of integer codes: what they mean in ops. Codes are multiplied as integers and scaled in f32, in one fixed order, so that a
//! kernel that claims a layer has the bits of this.
use super::{Compound, RuleArgs, Saves, StackedInput, linear::rows, of_first, of_samples};
use crate::{
    AxisSet, DType, Result, Shape, Tensor, TensorType,
    composite::Cotangents,
    op::{ConvRole, ConvSpec},
};
pub use adamant_ir::composite::packed::*;
use smallvec::{SmallVec, smallvec};

/// A row whose largest value is no larger than this counts as zeros: what it is divided by would not be finite.
pub const SMALLEST_ROW: f64 = 1e-30;

/// How codes of fewer than 8 bits lie in bytes: whole words of bytes hold whole codes.
struct CodeWords {
    bytes: usize,
    codes: usize,
}
impl CodeWords {
    fn of(packing: &Packing) -> CodeWords {
        if packing.bits == 4 { CodeWords { bytes: 1, codes: 2 } } else { CodeWords { bytes: 3, codes: 8 } }
    }
}
/// Parts `[rows, given]` of `from.1` bits each, `from.0` in a word, as parts of `to.1` bits, `to.0` in a word: i32 `[rows, wanted]`.
fn regrouped(parts: &Tensor, from: (usize, u32), to: (usize, u32), wanted: usize) -> Tensor {
    let [rows, given] = [parts.meta().shape[0], parts.meta().shape[1]];
    let words = given.div_ceil(from.0).max(wanted.div_ceil(to.0));
    let parts = parts.cast(DType::I32).pad_constant([0, words * from.0 - given], 0).reshape([rows, words, from.0]);
    let joined = (0..from.0).map(|k| parts.narrow(2, k, 1) * (1i64 << (from.1 as usize * k))).reduce(|all, next| all + next);
    let joined = joined.unwrap_or_else(|| parts.clone());
    let shifts = Tensor::arange_on(0, to.0 as i64 * i64::from(to.1), i64::from(to.1), DType::I32, parts.meta().device);
    joined.bitwise_right_shift(shifts).bitwise_and((1i64 << to.1) - 1).reshape([rows, words * to.0]).narrow(1, 0, wanted)
}
/// Codes `[rows, columns]` of the bytes that they are stored in, plus [`Packing::offset`], in i32 or, of 8 bits, as they are.
pub(crate) fn unpacked(packing: &Packing, bytes: &Tensor, columns: usize) -> Tensor {
    if packing.bits == 8 {
        return bytes.reshape([bytes.meta().shape[0], columns]);
    }
    let word = CodeWords::of(packing);
    regrouped(bytes, (word.bytes, 8), (word.codes, packing.bits), columns)
}
/// The bytes that codes `[rows, columns]`, plus [`Packing::offset`], are stored in: the other way of [`unpacked`].
pub(crate) fn packed(packing: &Packing, codes: &Tensor) -> Tensor {
    let word = CodeWords::of(packing);
    regrouped(codes, (word.codes, packing.bits), (word.bytes, 8), packing.row_bytes(codes.meta().shape[1])).cast(DType::U8)
}
/// What codes of NF4 count, in f32.
fn normal_floats(codes: &Tensor) -> Tensor {
    let lowest = codes.cast(DType::F32).zeros_like() + f64::from(NORMAL_FLOATS[0]);
    (1..NORMAL_FLOATS.len()).fold(lowest, |all, k| codes.eq(k as i64).where_(f64::from(NORMAL_FLOATS[k]), all))
}
/// The numbers `[rows, columns]` of codes, in f32; zero point and codes count from the same place.
fn numbers(w: &WeightCodes, scale: &Tensor) -> Tensor {
    let [rows, columns] = [w.codes.meta().shape[0], w.codes.meta().shape[1]];
    let groups = scale.meta().shape[1];
    let by_group = |t: &Tensor| t.cast(DType::F32).reshape([rows, groups, 1]);
    let counted = if w.levels == CodeLevels::NormalFloat { normal_floats(&w.codes) } else { w.codes.cast(DType::F32) };
    let counted = counted.reshape([rows, groups, columns / groups]);
    let counted = match &w.zero_point {
        Some(zero_point) => counted - by_group(zero_point),
        None if w.offset != 0 => counted - w.offset as f64,
        None => counted,
    };
    (counted * by_group(scale)).reshape([rows, columns])
}
impl Compound for Dequantize {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (_, columns) = matrix(&self.shape);
        let w = WeightCodes::new(&self.packing, self.levels, &inputs[0], inputs.get(2), columns);
        let numbers = numbers(&w, &inputs[1]);
        Ok(vec![numbers.cast(self.dtype).reshape(self.shape)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::default())
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        // Codes are no numbers that could be moved a little; who trains scales has a function of them.
        Ok(smallvec![None; args.metas.len()])
    }
}

/// Codes of x, and what they stand for.
struct CodedInput {
    /// i8 or u8 `[rows, columns]`
    codes: Tensor,
    /// f32 `[rows, 1]` or a single number
    scale: Tensor,
    /// i32 `[rows, 1]` or a single number; `None`: 0
    zero_point: Option<Tensor>,
}
/// x `[rows, columns]` of f32 as codes, each row by its own scale.
fn by_token(x: &Tensor, symmetric: bool) -> CodedInput {
    let scaled = |largest: &Tensor, steps: f64| {
        let inverse = largest.gt(SMALLEST_ROW).where_(steps / largest, 0.0);
        (largest / steps, inverse)
    };
    if symmetric {
        let (scale, inverse) = scaled(&x.abs().amax_keepdim(1), 127.0);
        return CodedInput { codes: (x * inverse).round().cast(DType::I8), scale, zero_point: None };
    }
    let (least, most) = (x.amin_keepdim(1).minimum(0.0), x.amax_keepdim(1).maximum(0.0));
    let (scale, inverse) = scaled(&(most - &least), 255.0);
    let zero_point = (-least * &inverse).round();
    let codes = ((x * inverse).round() + &zero_point).maximum(0.0).minimum(255.0).cast(DType::U8);
    CodedInput { codes, scale, zero_point: Some(zero_point.cast(DType::I32)) }
}
/// x `[rows, columns]` of f32 as unsigned codes by a given scale and zero point.
fn by_given(x: &Tensor, scale: &Tensor, zero_point: &Tensor) -> CodedInput {
    let zero_point = zero_point.maximum(0).minimum(255);
    let codes = (x * (1.0 / scale)).round() + zero_point.cast(DType::F32);
    CodedInput { codes: codes.maximum(0.0).minimum(255.0).cast(DType::U8), scale: scale.clone(), zero_point: Some(zero_point) }
}
/// The codes of a layer's weight, and what they count from.
struct WeightCodes {
    /// `[rows, columns]`, of 8 bits or i32
    codes: Tensor,
    /// i32 `[rows, groups]`; `None`: `offset`
    zero_point: Option<Tensor>,
    offset: i64,
    levels: CodeLevels,
}
impl WeightCodes {
    fn new(packing: &Packing, levels: CodeLevels, codes: &Tensor, zero_point: Option<&Tensor>, columns: usize) -> WeightCodes {
        let zero_point = zero_point.map(|z| z.cast(DType::I32));
        WeightCodes { codes: unpacked(packing, codes, columns), zero_point, offset: i64::from(levels.offset(packing)), levels }
    }
    fn of(packing: &Packing, levels: CodeLevels, of: &Roles<'_, Tensor>, columns: usize) -> WeightCodes {
        WeightCodes::new(packing, levels, of.codes, of.zero_point, columns)
    }
}
/// `Σ (x - z)(w - Z)` of all columns, i32 `[rows of x, rows of w]`.
fn sums(x: &CodedInput, w: &WeightCodes) -> Tensor {
    let integers = |t: &Tensor| t.cast(DType::I32);
    let mut sums = integers(&x.codes).matmul(integers(&w.codes).mt());
    let row = |t: &Tensor| t.reshape([1, w.codes.meta().shape[0]]);
    let columns = x.codes.meta().shape[1];
    if let Some(z) = &x.zero_point {
        let of_rows = integers(&integers(&w.codes).sum(1));
        sums = sums - z * row(&of_rows);
    }
    let base = match (&w.zero_point, w.offset) {
        (Some(base), _) => row(base),
        (None, 0) => return sums,
        (None, offset) => Tensor::full_on([1, 1], offset, DType::I32, sums.meta().device),
    };
    let mut of_x = integers(&integers(&x.codes).sum_keepdim(1));
    if let Some(z) = &x.zero_point {
        of_x = of_x - z * columns as i64;
    }
    sums - of_x * base
}
/// [`sums`] of any number of columns: those of stretches, which i32 holds, are added in i64.
fn exact_sums(x: &CodedInput, w: &WeightCodes) -> Tensor {
    let columns = x.codes.meta().shape[1];
    if columns <= MOST_COLUMNS {
        return sums(x, w);
    }
    let stretch = |t: &Tensor, start: usize| t.narrow(1, start, MOST_COLUMNS.min(columns - start));
    let of_stretch = |start: usize| {
        let x = CodedInput { codes: stretch(&x.codes, start), scale: x.scale.clone(), zero_point: x.zero_point.clone() };
        let w = WeightCodes { codes: stretch(&w.codes, start), zero_point: w.zero_point.clone(), ..*w };
        sums(&x, &w).cast(DType::I64)
    };
    let all = (0..columns).step_by(MOST_COLUMNS).map(of_stretch).reduce(|all, next| all + next);
    all.unwrap_or_else(|| sums(x, w))
}
/// x `[rows, columns]` as codes; `None`: it stays what it is.
fn coded(activations: Activations, of: &Roles<'_, Tensor>, x: &Tensor) -> Option<CodedInput> {
    match (activations, of.given) {
        (Activations::PerToken { symmetric }, _) => Some(by_token(x, symmetric)),
        (Activations::Given, Some((scale, zero_point))) => Some(by_given(x, scale, zero_point)),
        _ => None,
    }
}
/// The product of codes in f32, scaled; `scale` is that of the weight, f32 `[rows of w, groups]`.
fn scaled_product(x: &CodedInput, w: &WeightCodes, scale: &Tensor) -> Tensor {
    let (columns, groups) = (x.codes.meta().shape[1], scale.meta().shape[1]);
    if groups == 1 {
        return exact_sums(x, w).cast(DType::F32) * (&x.scale * scale.mt());
    }
    // One product for each group: `[groups, rows, rows of w]`.
    let grouped = |t: &Tensor| t.reshape([t.meta().shape[0], groups, columns / groups]).permute([1, 0, 2]).cast(DType::I32);
    let base = |t: &Tensor| t.mt().reshape([groups, 1, scale.meta().shape[0]]);
    let centered = |t: Tensor, from: Option<Tensor>| if let Some(from) = from { t - from } else { t };
    let xs = centered(grouped(&x.codes), x.zero_point.as_ref().map(|z| if z.rank() == 0 { z.clone() } else { z.reshape([1, z.meta().shape[0], 1]) }));
    let from = w.zero_point.as_ref().map(|z| z.mt().reshape([groups, scale.meta().shape[0], 1]));
    let ws = centered(grouped(&w.codes), from.or_else(|| (w.offset != 0).then(|| Tensor::full_on((), w.offset, DType::I32, scale.meta().device))));
    (xs.matmul(ws.mt()).cast(DType::F32) * base(scale)).sum(0) * &x.scale
}
/// The product in f32, without the bias.
fn product(layer: &QuantizedLinear, of: &Roles<'_, Tensor>, x: &Tensor, columns: usize) -> Tensor {
    let w = WeightCodes::of(&layer.packing, layer.levels, of, columns);
    let scale = of.scale.cast(DType::F32);
    match coded(layer.activations, of, x) {
        Some(x) => scaled_product(&x, &w, &scale),
        None => x.matmul(numbers(&w, &scale).mt()),
    }
}
impl Compound for QuantizedLinear {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let of = self.roles(inputs).map_err(|kind| crate::Error::new("adamant.quantized_linear", kind))?;
        let m = of.x.meta();
        let last = m.shape.rank() - 1;
        let columns = m.shape[last];
        let y = product(self, &of, &rows(of.x).cast(DType::F32), columns);
        let y = match of.bias {
            Some(bias) => y + bias.cast(DType::F32),
            None => y,
        };
        Ok(vec![y.cast(m.dtype).reshape(m.shape.with(last, of.scale.meta().shape[0]))])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(self.inputs()))
    }
    /// x gets the gradient of the layer of numbers: rounding counts as the identity.
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let inputs: Vec<Tensor> = (0..args.metas.len()).map(|k| args.input(k).cloned()).collect::<Result<_>>()?;
        let of = self.roles(&inputs).map_err(|kind| crate::Error::new("adamant.quantized_linear", kind))?;
        let meta = args.metas[0];
        let g = rows(g);
        if args.needs[0] {
            let w = WeightCodes::of(&self.packing, self.levels, &of, meta.shape[meta.shape.rank() - 1]);
            let numbers = numbers(&w, of.scale);
            out[0] = Some(g.cast(DType::F32).matmul(numbers).cast(meta.dtype).reshape(meta.shape));
        }
        let last = args.metas.len() - 1;
        if self.bias && args.needs.get(last) == Some(&true) {
            out[last] = Some(args.rounded(last, g.widened().sum(0)));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(*self, inputs)
    }
}

/// The windows that a convolution's kernel meets in x `[batch, channels, ..]`, which is padded already, as rows:
/// `[groups, batch · places, channels / groups · kernel]`.
fn windows(conv: &ConvSpec, kernel: &[usize], x: &Tensor) -> Tensor {
    let spatial = conv.spatial();
    let mut all = x.clone();
    for k in 0..spatial {
        // A window's elements become the last axis; of those every so many is kept.
        let reach = conv.dilation[k] * kernel[k].saturating_sub(1) + 1;
        all = all.unfold(2 + k, reach, conv.stride[k]).slice(2 + spatial + k, 0, reach, conv.dilation[k]);
    }
    let shape = all.meta().shape;
    let (batch, channels, groups) = (shape[0], shape[1], conv.groups);
    let places: usize = shape[2..2 + spatial].iter().product();
    let in_window: usize = kernel.iter().product();
    // [batch, groups, channels / groups, places, kernel] -> [groups, batch, places, channels / groups, kernel]
    let apart = all.reshape([batch, groups, channels / groups, places, in_window]);
    apart.permute([1, 0, 3, 2, 4]).reshape([groups, batch * places, channels / groups * in_window])
}
/// The numbers of a convolution's weight.
fn kernel_numbers(layer: &QuantizedConv, of: &Roles<'_, Tensor>) -> Tensor {
    let (_, columns) = matrix(&layer.weight);
    let w = WeightCodes::of(&layer.codes.packing, CodeLevels::Even, of, columns);
    numbers(&w, &of.scale.cast(DType::F32)).reshape(layer.weight)
}
/// The convolution of codes of x, which has a shape, into a shape; without the bias.
fn convolved(layer: &QuantizedConv, of: &Roles<'_, Tensor>, x: &CodedInput, shape: Shape, made: Shape) -> Tensor {
    let (rows, columns) = matrix(&layer.weight);
    let (batch, groups) = (shape[0], layer.conv.groups);
    let places: usize = made[2..].iter().product();
    // Codes less that of 0: what is padded is 0.
    let x_codes = x.codes.cast(DType::I32);
    let centered = if let Some(z) = &x.zero_point { x_codes - z } else { x_codes };
    let widths: Vec<isize> = layer.conv.padding.iter().rev().flat_map(|&(before, after)| [before as isize, after as isize]).collect();
    let padded = centered.reshape(shape).pad_constant(&widths[..], 0);
    let rows_of_x = windows(&layer.conv, &layer.weight[2..], &padded);
    let w = WeightCodes::of(&layer.codes.packing, CodeLevels::Even, of, columns);
    let scale = of.scale.cast(DType::F32);
    // A sample's scale is that of each of its places.
    let x_scale = if x.scale.rank() == 0 { x.scale.clone() } else { x.scale.reshape([batch, 1]).expand([batch, places]).reshape([batch * places, 1]) };
    let per_group = rows / groups;
    let of_group = |g: usize| {
        let cut = |t: &Tensor| t.narrow(0, g * per_group, per_group);
        let x = CodedInput { codes: rows_of_x.select(0, g), scale: x_scale.clone(), zero_point: None };
        let w = WeightCodes { codes: cut(&w.codes), zero_point: w.zero_point.as_ref().map(cut), ..w };
        scaled_product(&x, &w, &cut(&scale))
    };
    let all: Vec<Tensor> = (0..groups).map(of_group).collect();
    let all = if let [one] = &all[..] { one.clone() } else { Tensor::cat(&all.iter().collect::<Vec<_>>(), 1) };
    all.reshape([batch, places, rows]).mt().reshape(made)
}
impl Compound for QuantizedConv {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let of = self.codes.roles(inputs).map_err(|kind| crate::Error::new("adamant.quantized_conv", kind))?;
        let m = of.x.meta();
        let x = of.x.cast(DType::F32);
        let samples = x.reshape([m.shape[0], m.shape[1..].iter().product()]);
        let y = match coded(self.codes.activations, &of, &samples) {
            Some(x) => {
                let ty = |shape| TensorType { shape, dtype: DType::F32 };
                let made = self.conv.infer(&[ty(m.shape), ty(self.weight)]).map_err(|kind| crate::Error::new("adamant.quantized_conv", kind))?;
                convolved(self, &of, &x, m.shape, made)
            }
            None => Tensor::apply(crate::Op::Conv(self.conv.clone()), crate::Arg::None, &[&x, &kernel_numbers(self, &of)]),
        };
        let y = match of.bias {
            Some(bias) => y + bias.cast(DType::F32).reshape(Shape::along(0, self.weight[0], self.conv.spatial() + 1)),
            None => y,
        };
        Ok(vec![y.cast(m.dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(self.codes.inputs()))
    }
    /// As a linear layer's.
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let inputs: Vec<Tensor> = (0..args.metas.len()).map(|k| args.input(k).cloned()).collect::<Result<_>>()?;
        let of = self.codes.roles(&inputs).map_err(|kind| crate::Error::new("adamant.quantized_conv", kind))?;
        let meta = args.metas[0];
        if args.needs[0] {
            let back = ConvSpec { role: ConvRole::InputGrad, open: SmallVec::from_slice(&meta.shape[2..]), ..(*self.conv).clone() };
            let weight = kernel_numbers(self, &of);
            out[0] = Some(Tensor::apply(crate::specs::conv_op(back), crate::Arg::None, &[&g.cast(DType::F32), &weight]).cast(meta.dtype));
        }
        let last = args.metas.len() - 1;
        if self.codes.bias && args.needs.get(last) == Some(&true) {
            let mut channels = AxisSet::all(meta.shape.rank());
            channels.0 &= !0b10;
            out[last] = Some(args.rounded(last, g.widened().sum(channels)));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_samples(self.clone(), inputs)
    }
}
