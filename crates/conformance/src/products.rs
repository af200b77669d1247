//! The judge of products with ends: random sizes (0 and 1 among them), dtypes, layouts, prologues, epilogues and additions, each
//! run in one window, where the device may fuse what it claims, and op by op. The two must agree bit for bit; where a device
//! promises no bits, what differs must lie within the published table. A product of integers alone must be that of i64 modulo
//! 2^bits. Whether a case could fuse at all is counted, so that a judge of nothing shows.
use crate::{
    data::{Spread, download, draw, same_bits, upload},
    random::Random,
    tolerance,
};
use adamant_core::{
    Arg, DType, Device, Error, HostArray, Op, Result, Shape, Tensor,
    backend::Determinism,
    functional::{ConvOptions, conv1d, conv2d},
    op::{ConvRole, ConvSpec},
    reference::wrap_int,
    schedule::take_stats,
    with_eager,
};
use std::{fmt, sync::Arc};

/// How an operand comes about from what is drawn.
#[derive(Clone, Debug)]
pub enum Source {
    /// as it is
    Plain,
    /// converted from a narrower dtype
    Cast(DType),
    /// rounded to a narrower dtype and back
    Rounded(DType),
    /// `(x - zero) * scale` of bytes, with one scale for all or one for each element of an axis, counted from the end
    Dequantized(DType, Option<usize>),
}
/// How its elements lie.
#[derive(Clone, Copy, Debug)]
pub enum Lay {
    /// row-major
    Dense,
    /// the last two axes exchanged
    Transposed,
    /// every second column of a wider matrix
    Sliced,
    /// backward along the last axis
    Flipped,
    /// one matrix for the whole batch
    Repeated,
}
/// Who reads an operand beside the product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OtherReader {
    /// nobody
    Nobody,
    /// another product
    Product,
    /// an op that is computed element by element
    Map,
    /// a sum over an axis
    Sum,
    /// whoever gets it as a result
    Holder,
}
/// One operand.
#[derive(Clone, Debug)]
pub struct Operand {
    shape: Vec<usize>,
    source: Source,
    other: OtherReader,
    lay: Lay,
    /// the view is taken before the conversion
    view_first: bool,
}
/// What happens behind a product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stage {
    /// an addend for each column
    AddRow,
    /// an addend for each row, or channel
    AddColumn,
    /// a factor for each row, or channel
    ScaleColumn,
    /// a tensor of the result's shape
    AddWhole,
    /// what another product has made: nobody else reads it, so it may be added to where it lies
    AddProduct,
    /// a number
    AddNumber,
    /// a factor
    Scale,
    /// `max(x, 0)`
    Relu,
    /// `tanh x`
    Tanh,
    /// `x * sigmoid x`: the value is read twice
    Gate,
    /// a choice by a mask
    Choose,
    /// a conversion
    Cast(DType),
    /// all but the last axis as one, or one more axis
    Reshape,
}
/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// the dtype of the product
    pub dtype: DType,
    /// a convolution of so many spatial axes, with its stride, padding and groups
    pub conv: Option<(usize, usize, usize, usize)>,
    operands: [Operand; 2],
    stages: Vec<Stage>,
    /// the product itself is read too
    second_reader: bool,
    /// the products that are a convolution's gradients too, of a cotangent that comes about so
    gradients: Option<Source>,
    seed: u64,
}
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

const DTYPES: [DType; 14] = [
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::BF16,
    DType::F16,
    DType::I32,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::I8,
    DType::U32,
];
const SIZES: [usize; 14] = [0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 40, 70];

/// Case number `index` of a campaign.
pub fn nth(seed: u64, index: usize) -> Case {
    let mut r = Random::new(seed.wrapping_add((index as u64).wrapping_mul(0x1_0001))).part(0x9D);
    let is_conv = r.one_in(4);
    let dtype = if is_conv { *r.pick(&DTYPES[..8]) } else { *r.pick(&DTYPES) };
    let (conv, shapes) = if is_conv { conv_shapes(&mut r) } else { (None, matrix_shapes(&mut r)) };
    let operands = shapes.map(|shape| operand(&mut r, shape, dtype, is_conv));
    let mut now = dtype;
    let mut stages = Vec::new();
    for _ in 0..r.below(6) {
        let stage = stage(&mut r, now, is_conv);
        if let Stage::Cast(to) = stage {
            now = to;
        }
        if stage != Stage::Reshape || !stages.contains(&Stage::Reshape) {
            stages.push(stage);
        }
    }
    let gradients = (conv.is_some() && r.one_in(2)).then(|| source(&mut r, dtype));
    Case { dtype, conv, operands, stages, second_reader: r.one_in(6), gradients, seed: r.bits() }
}
fn matrix_shapes(r: &mut Random) -> [Vec<usize>; 2] {
    let batch: Vec<usize> = (0..*r.pick(&[0, 0, 1, 2])).map(|_| r.between(1, 3)).collect();
    let mut size = || *r.pick(&SIZES);
    let (m, n, k) = (size(), size(), size());
    // Now and then several blocks of the inner axis, and of columns.
    let k = if r.one_in(8) { r.between(250, 560) } else { k };
    let n = if r.one_in(16) { r.between(500, 530) } else { n };
    [[&batch[..], &[m, k]].concat(), [&batch[..], &[k, n]].concat()]
}
type ConvSizes = Option<(usize, usize, usize, usize)>;
fn conv_shapes(r: &mut Random) -> (ConvSizes, [Vec<usize>; 2]) {
    let spatial = r.between(1, 2);
    let (groups, stride, padding) = (r.between(1, 2), r.between(1, 2), r.below(3));
    let (batch, ci, co) = (r.below(4), r.between(1, 5), r.between(1, 6));
    let kernel: Vec<usize> = (0..spatial).map(|_| r.between(1, 3)).collect();
    let input: Vec<usize> = kernel.iter().map(|k| k + r.below(9)).collect();
    let x = [&[batch, groups * ci], &input[..]].concat();
    let w = [&[groups * co, ci], &kernel[..]].concat();
    (Some((spatial, stride, padding, groups)), [x, w])
}
fn source(r: &mut Random, dtype: DType) -> Source {
    let narrower: &[DType] = match dtype {
        DType::F32 => &[DType::BF16, DType::F16, DType::I8, DType::U8, DType::Bool],
        DType::F64 => &[DType::F32, DType::I32, DType::U8],
        DType::BF16 | DType::F16 => &[DType::I8, DType::U8],
        DType::I32 => &[DType::I8, DType::U8, DType::I8, DType::U8, DType::I16],
        DType::U32 => &[DType::U8, DType::U16],
        DType::I64 => &[DType::I32, DType::I8],
        _ => &[],
    };
    match r.below(5) {
        0 | 1 if !narrower.is_empty() => Source::Cast(*r.pick(narrower)),
        2 if dtype.is_float() => Source::Dequantized(*r.pick(&[DType::I8, DType::U8]), *r.pick(&[None, Some(1), Some(2)])),
        3 if !narrower.is_empty() => Source::Rounded(*r.pick(&narrower[..2.min(narrower.len())])),
        _ => Source::Plain,
    }
}
fn operand(r: &mut Random, shape: Vec<usize>, dtype: DType, is_conv: bool) -> Operand {
    let source = source(r, dtype);
    let other = if r.one_in(2) {
        OtherReader::Nobody
    } else {
        *r.pick(&[OtherReader::Product, OtherReader::Product, OtherReader::Map, OtherReader::Sum, OtherReader::Holder])
    };
    let lays: &[Lay] = if is_conv {
        &[Lay::Dense, Lay::Dense, Lay::Sliced, Lay::Flipped]
    } else {
        &[Lay::Dense, Lay::Dense, Lay::Transposed, Lay::Transposed, Lay::Sliced, Lay::Flipped, Lay::Repeated]
    };
    Operand { shape, source, other, lay: *r.pick(lays), view_first: r.one_in(2) }
}
fn stage(r: &mut Random, dtype: DType, is_conv: bool) -> Stage {
    use Stage::*;
    let to = if dtype.is_float() { [DType::F32, DType::BF16, DType::F16, DType::I32] } else { [DType::F32, DType::I64, DType::I8, DType::I32] };
    let any = [AddRow, AddColumn, ScaleColumn, AddWhole, AddNumber, Scale, Relu, Choose, Reshape, Cast(*r.pick(&to))];
    match r.below(4) {
        0 if dtype.is_float() => *r.pick(&[Tanh, Gate]),
        1 if !is_conv => *r.pick(&[AddProduct, AddRow]),
        _ => *r.pick(&any),
    }
}

/// What a case draws, in the order in which it is used: the same at every call.
struct DrawnCase {
    random: Random,
    device: Device,
}
impl DrawnCase {
    fn tensor(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let spread = match dtype {
            DType::U8 => Spread::Below(256),
            DType::I8 => Spread::Within(-128.0, 128.0),
            DType::I32 | DType::I64 if self.random.one_in(3) => Spread::Special,
            d if d.is_float() && self.random.one_in(2) => Spread::Within(-2.0, 2.0),
            _ => Spread::Coarse,
        };
        let shape = Shape::new(shape).map_err(|kind| Error::new("products", kind))?;
        Ok(upload(&draw(shape, dtype, spread, &mut self.random), self.device))
    }
}
fn make(o: &Operand, dtype: DType, drawn: &mut DrawnCase) -> Result<Tensor> {
    let rank = o.shape.len();
    let mut shape = o.shape.clone();
    match o.lay {
        Lay::Transposed => shape.swap(rank - 1, rank - 2),
        Lay::Sliced => shape[rank - 1] *= 2,
        Lay::Repeated => shape[..rank - 2].fill(1),
        _ => {}
    }
    let view = |x: Tensor| match o.lay {
        Lay::Dense => x,
        Lay::Transposed => x.mt(),
        Lay::Sliced => x.slice(-1, 0, shape[rank - 1], 2),
        Lay::Flipped => x.flip(-1),
        Lay::Repeated => x.expand(&o.shape[..]),
    };
    let x = drawn.tensor(&shape, o.source.drawn(dtype))?;
    if o.view_first { o.source.convert(view(x), dtype, drawn) } else { Ok(view(o.source.convert(x, dtype, drawn)?)) }
}
impl Source {
    /// The dtype that is drawn.
    fn drawn(&self, dtype: DType) -> DType {
        match self {
            Source::Plain | Source::Rounded(_) => dtype,
            Source::Cast(from) | Source::Dequantized(from, _) => *from,
        }
    }
    fn convert(&self, x: Tensor, dtype: DType, drawn: &mut DrawnCase) -> Result<Tensor> {
        match self {
            Source::Plain => Ok(x),
            Source::Cast(_) => Ok(x.cast(dtype)),
            Source::Rounded(to) => Ok(x.cast(*to).cast(dtype)),
            Source::Dequantized(_, axis) => {
                let shape = x.try_meta()?.shape;
                let scales: Vec<usize> = (0..shape.rank()).map(|k| if Some(shape.rank() - k) == *axis { shape[k] } else { 1 }).collect();
                let scale = drawn.tensor(&scales, dtype)?;
                Ok((x.cast(dtype) - 3.0) * if axis.is_some() { scale } else { scale.reshape([0usize; 0]) })
            }
        }
    }
}
/// What others make of an operand.
fn read_by(other: OtherReader, x: &Tensor, is_conv: bool) -> Option<Tensor> {
    match other {
        OtherReader::Nobody => None,
        // A convolution is read by its gradients.
        OtherReader::Product if is_conv => None,
        OtherReader::Product => Some(x.matmul(x.mt())),
        OtherReader::Map => Some(x + 1),
        OtherReader::Sum => Some(x.sum(-1)),
        OtherReader::Holder => Some(x.clone()),
    }
}
/// The gradients of a convolution as the products that they are.
fn gradients(case: &Case, source: &Source, [x, w]: [&Tensor; 2], product: &Tensor, drawn: &mut DrawnCase) -> Result<Vec<Tensor>> {
    let Some((spatial, stride, padding, groups)) = case.conv else { return Ok(Vec::new()) };
    let shape = product.try_meta()?.shape;
    let cotangent = drawn.tensor(&shape, source.drawn(case.dtype))?;
    let cotangent = source.convert(cotangent, case.dtype, drawn)?;
    let gradient = |role: ConvRole, of: &Tensor, operands: [&Tensor; 2]| -> Result<Tensor> {
        let open = of.try_meta()?.shape[2..].iter().copied().collect();
        let each = |n: usize| std::iter::repeat_n(n, spatial);
        let padding = each(padding).map(|p| (p, p)).collect();
        let spec = ConvSpec { role, stride: each(stride).collect(), padding, dilation: each(1).collect(), groups, open };
        Ok(Tensor::apply(Op::Conv(Arc::new(spec)), Arg::None, &operands))
    };
    Ok(vec![gradient(ConvRole::WeightGrad, w, [x, &cotangent])?, gradient(ConvRole::InputGrad, x, [&cotangent, w])?])
}
fn sums(case: &Case, drawn: &mut DrawnCase) -> Result<(Tensor, [Tensor; 2])> {
    let (a, b) = (make(&case.operands[0], case.dtype, drawn)?, make(&case.operands[1], case.dtype, drawn)?);
    let product = match case.conv {
        None => a.matmul(&b),
        Some((spatial, stride, padding, groups)) => {
            let options = ConvOptions { stride: stride.into(), padding: padding.into(), groups, ..ConvOptions::default() };
            if spatial == 1 { conv1d(&a, &b, None, &options) } else { conv2d(&a, &b, None, &options) }
        }
    };
    Ok((product, [a, b]))
}
/// Computes a case on a device: the result, the product if it is read, and the operands.
fn compute(case: &Case, device: Device) -> Result<(Vec<Tensor>, [Tensor; 2])> {
    let mut drawn = DrawnCase { random: Random::new(case.seed), device };
    let (product, operands) = sums(case, &mut drawn)?;
    let mut x = product.clone();
    for stage in &case.stages {
        let meta = x.try_meta()?;
        let (shape, dtype, rank) = (meta.shape.to_vec(), meta.dtype, meta.shape.rank());
        // Rows of matrices and channels of images.
        let rows = if case.conv.is_some() { 1 } else { rank.saturating_sub(2) };
        let along = |axis: usize| (0..rank).map(|k| if k == axis { shape[k] } else { 1 }).collect::<Vec<_>>();
        x = match *stage {
            Stage::AddRow => x + drawn.tensor(&shape[rank - 1..], dtype)?,
            Stage::AddColumn => x + drawn.tensor(&along(rows), dtype)?,
            Stage::ScaleColumn => x * drawn.tensor(&along(rows), dtype)?,
            Stage::AddWhole => drawn.tensor(&shape, dtype)? + x,
            Stage::AddProduct => {
                let inner = drawn.random.between(1, 4);
                let last = shape[rank - 1];
                let (a, b) = (drawn.tensor(&[shape[..rank - 1].iter().product(), inner], dtype)?, drawn.tensor(&[inner, last], dtype)?);
                a.matmul(b).reshape(&shape[..]) + x
            }
            Stage::AddNumber => x + 3,
            Stage::Scale => x * 2,
            Stage::Relu => x.relu(),
            Stage::Tanh => x.tanh(),
            Stage::Gate => &x * x.sigmoid(),
            Stage::Choose => drawn.tensor(&shape, DType::Bool)?.where_(&x, 1),
            Stage::Cast(to) => x.cast(to),
            Stage::Reshape if rank > 2 && case.conv.is_none() => x.reshape([shape[..rank - 1].iter().product(), shape[rank - 1]]),
            Stage::Reshape => x.reshape(&[&[1], &shape[..]].concat()[..]),
        };
    }
    let mut outputs = vec![x];
    for (operand, x) in case.operands.iter().zip(&operands) {
        outputs.extend(read_by(operand.other, x, case.conv.is_some()));
    }
    if let Some(source) = &case.gradients {
        outputs.extend(gradients(case, source, operands.each_ref(), &product, &mut drawn)?);
    }
    if case.second_reader {
        outputs.push(product);
    }
    Ok((outputs, operands))
}

/// What a campaign found.
#[derive(Default, Debug)]
pub struct Report {
    /// cases that ran
    pub cases: usize,
    /// cases with something at the ends of their product
    pub with_ends: usize,
    /// of those, how many ran in fewer kernels than op by op
    pub fused: usize,
    /// products of integers compared with i64
    pub integers: usize,
    /// cases of a dtype that the device lacks
    pub skipped: usize,
    /// what failed, in words
    pub failures: Vec<String>,
}

/// Runs cases `0..n` of a campaign, until `failures` of them failed.
pub fn run(device: Device, n: usize, seed: u64, failures: usize) -> Report {
    let mut report = Report::default();
    for index in 0..n {
        let case = nth(seed, index);
        match judge(&case, device, &mut report) {
            Ok(true) => report.cases += 1,
            Ok(false) => report.skipped += 1,
            Err(what) => {
                report.cases += 1;
                report.failures.push(format!("case {index} of seed {seed}: {what}\n{case}"));
                if report.failures.len() >= failures {
                    break;
                }
            }
        }
    }
    report
}
/// Runs a case; false: the device lacks a dtype of it.
fn judge(case: &Case, device: Device, report: &mut Report) -> std::result::Result<bool, String> {
    let has = |d: DType| device.info().dtypes.contains(&d) || matches!(d, DType::U8 | DType::I8 | DType::U16 | DType::I16 | DType::Bool);
    let from = |source: &Source| match source {
        Source::Plain => case.dtype,
        Source::Cast(d) | Source::Rounded(d) | Source::Dequantized(d, _) => *d,
    };
    let casts = case.stages.iter().filter_map(|s| if let Stage::Cast(d) = s { Some(*d) } else { None });
    if !casts.chain(case.operands.iter().map(|o| &o.source).chain(&case.gradients).map(from)).chain([case.dtype]).all(has) {
        return Ok(false);
    }
    let exact = device.info().determinism == Determinism::Bitwise;
    // Next to a whole number a sum that is off by a bit truncates to another.
    let truncates = case.dtype.is_float() && case.stages.iter().any(|s| matches!(s, Stage::Cast(d) if !d.is_float()));
    if truncates && !exact {
        return Ok(false);
    }
    let read = |outputs: Vec<Tensor>| outputs.iter().map(|t| download(t).map_err(|e| e.to_string())).collect::<std::result::Result<Vec<_>, String>>();
    let apart = with_eager(true, || {
        take_stats();
        let (outputs, operands) = compute(case, device).map_err(|e| e.to_string())?;
        let outputs = read(outputs)?;
        Ok::<_, String>((outputs, take_stats().kernels, operands))
    })?;
    let (apart, kernels, operands) = apart;
    take_stats();
    let (outputs, inner) = compute(case, device).map_err(|e| e.to_string())?;
    drop(inner);
    let fused = read(outputs)?;
    let fewer = take_stats().kernels < kernels;
    let ends = !case.stages.is_empty() || case.operands.iter().any(|o| !matches!(o.source, Source::Plain));
    report.with_ends += ends as usize;
    report.fused += (ends && fewer) as usize;
    for (k, (fused, apart)) in fused.iter().zip(&apart).enumerate() {
        // What its ops give one by one is judged where they are.
        if same_bits(fused, apart) {
            continue;
        }
        if exact {
            return Err(format!("output {k} fused differs from op by op: {}", difference(fused, apart)));
        }
        let want = with_eager(true, || read(compute(case, Device::reference()).map_err(|e| e.to_string())?.0))?;
        tolerance::composed(fused, &want[k]).map_err(|e| format!("output {k}: {e}"))?;
    }
    if case.stages.is_empty() && !case.dtype.is_float() && case.conv.is_none() {
        report.integers += 1;
        let [a, b] = [0, 1].map(|k| download(&operands[k]).map_err(|e| e.to_string()));
        whole(&a?, &b?, &fused[0])?;
    }
    Ok(true)
}
fn difference(a: &HostArray, b: &HostArray) -> String {
    if (a.shape, a.dtype) != (b.shape, b.dtype) {
        return format!("{}{} and {}{}", a.dtype, a.shape, b.dtype, b.shape);
    }
    let at = (0..a.shape.elements()).find(|&k| a.scalar(k) != b.scalar(k)).unwrap_or(0);
    format!("element {at} of {}: {:?} and {:?}", a.shape, a.scalar(at), b.scalar(at))
}
/// A product of integers against i64 arithmetic.
fn whole(a: &HostArray, b: &HostArray, got: &HostArray) -> std::result::Result<(), String> {
    let rank = a.shape.rank();
    let (m, k, n) = (a.shape[rank - 2], a.shape[rank - 1], b.shape[rank - 1]);
    for at in 0..got.shape.elements() {
        let (matrix, i, j) = (at / (m * n).max(1), at / n % m, at % n);
        let sum = (0..k).fold(0i64, |sum, p| sum.wrapping_add(a.int((matrix * m + i) * k + p).wrapping_mul(b.int((matrix * k + p) * n + j))));
        if got.int(at) != wrap_int(sum, got.dtype) {
            return Err(format!("element {at} is {}, i64 arithmetic gives {}", got.int(at), wrap_int(sum, got.dtype)));
        }
    }
    Ok(())
}
