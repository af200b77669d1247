//! Drawn cases of every family of kernels: tensors of any layout in buffers with strangers around them, and what the
//! reference says of the results.
use adamant_conformance::{
    data::{Spread, draw, same_bits},
    random::Random,
    tolerance,
};
use adamant_ir::{
    Arg, AxisSet, DType, HostArray, MAX_RANK, Op, Scalar, Shape, TensorType,
    expr::{Expr, Instr},
    fault::Fault,
    kernel::KernelKind,
    op::{ArgOp, ConvRole, ConvSpec, ReduceOp, ScanOp, ScatterMode, SegmentOp, Side, View, WindowOp, WindowSpec},
    reference::{self, HostData},
    scalar::{Binary, Unary},
};
use adamant_kernels::{Array, C, Found, LaunchTarget};
use std::sync::Arc;

/// What a report says, if it says anything.
pub type Report = (Found, [u32; 3]);
pub type Check = Box<dyn Fn(&[HostArray], &[Report]) -> Result<(), String>>;
/// Maps that may share a launch with the first: inputs and outputs of each.
pub type More = Vec<(Vec<Array>, Vec<Array>, Shape)>;

pub struct Case {
    pub name: String,
    pub target: LaunchTarget,
    pub kernel: KernelKind,
    pub space: Shape,
    pub inputs: Vec<Array>,
    pub outputs: Vec<Array>,
    pub more: More,
    pub args: Vec<Scalar>,
    pub buffers: Vec<Vec<u8>>,
    /// what its reports are about
    pub found: Vec<Found>,
    pub check: Check,
}
/// What lies around a result, and must stay.
pub const STRANGER: u8 = 0xa5;

pub fn device(subgroup: Option<usize>, on_host: bool) -> LaunchTarget {
    LaunchTarget { dialect: &C, buffers: 16, largest: 1 << 28, subgroup, matrices: false, on_host }
}
/// Lays tensors out.
pub struct Maker {
    pub random: Random,
    buffers: Vec<Vec<u8>>,
}
impl Maker {
    pub fn new(seed: u64) -> Maker {
        Maker { random: Random::new(seed), buffers: Vec::new() }
    }
    pub fn target(&mut self) -> LaunchTarget {
        *self.random.pick(&[device(None, false), device(Some(8), true), device(Some(32), false), device(Some(4), true), device(None, true)])
    }
    pub fn size(&mut self) -> usize {
        *self.random.pick(&[0, 1, 1, 2, 3, 4, 5, 7, 8, 17, 33])
    }
    fn shape(&mut self, least: usize, most: usize) -> Shape {
        let rank = self.random.between(least, most);
        let sizes: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        Shape::new(&sizes).unwrap()
    }
    /// A tensor of drawn values: permuted, flipped, with steps, stretched, as it comes.
    pub fn laid(&mut self, shape: Shape, dtype: DType, spread: Spread) -> (Array, HostArray) {
        let dense = self.random.one_in(3);
        self.place(shape, dtype, spread, dense)
    }
    pub fn dense(&mut self, shape: Shape, dtype: DType, spread: Spread) -> (Array, HostArray) {
        self.place(shape, dtype, spread, true)
    }
    fn place(&mut self, shape: Shape, dtype: DType, spread: Spread, dense: bool) -> (Array, HostArray) {
        let rank = shape.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        let (mut step, mut flipped, mut stretched) = (vec![1; rank], vec![false; rank], vec![false; rank]);
        if !dense {
            for k in (1..rank).rev() {
                let other = self.random.below(k + 1);
                order.swap(k, other);
            }
            for a in 0..rank {
                step[a] = self.random.between(1, 2);
                flipped[a] = self.random.one_in(4);
                stretched[a] = self.random.one_in(5);
            }
        }
        let mut offset = self.random.below(6);
        let (mut strides, mut extent) = ([0isize; MAX_RANK], 1usize);
        for &a in order.iter().rev().filter(|&&a| !stretched[a]) {
            strides[a] = (extent * step[a]) as isize;
            extent *= (shape[a] * step[a]).max(1);
            if flipped[a] && shape[a] > 0 {
                offset += (shape[a] - 1) * strides[a] as usize;
                strides[a] = -strides[a];
            }
        }
        let before = strides.iter().zip(shape.iter()).filter(|(s, _)| **s < 0).map(|(s, &n)| s.unsigned_abs() * (n - 1)).sum::<usize>();
        let all = Shape::new(&[offset - before.min(offset) + extent + 3 + before]).unwrap();
        let storage = draw(all, dtype, spread, &mut self.random);
        let at = coordinates(&shape).map(|i| i.iter().enumerate().fold(offset as isize, |at, (a, &x)| at + x as isize * strides[a]) as usize);
        let values = match &storage.data {
            HostData::Float(v) => HostArray::floats(shape, dtype, at.map(|k| v[k]).collect::<Vec<_>>()),
            HostData::Int(v) => HostArray::ints(shape, dtype, at.map(|k| v[k]).collect::<Vec<_>>()),
        };
        self.buffers.push(storage.to_bytes());
        (Array { buffer: self.buffers.len() - 1, shape, offset, strides, dtype, dense }, values)
    }
    /// Values that are known, as they come.
    pub fn known(&mut self, values: &HostArray) -> Array {
        let offset = self.random.below(4);
        let size = values.dtype.size();
        let mut bytes = vec![STRANGER; offset * size];
        bytes.extend(values.to_bytes());
        bytes.extend(vec![STRANGER; self.random.below(3) * size]);
        self.buffers.push(bytes);
        let strides = values.shape.strides();
        Array { buffer: self.buffers.len() - 1, shape: values.shape, offset, strides, dtype: values.dtype, dense: true }
    }
    /// Values that are known, as rows that lie anywhere: in another order of what is before the last axis, with strangers between them.
    pub fn known_rows(&mut self, values: &HostArray) -> Array {
        let (shape, size) = (values.shape, values.dtype.size());
        let (offset, between) = (self.random.below(4), self.random.below(4));
        let layout = self.rows(&shape, between);
        let columns = shape[shape.rank() - 1];
        let mut bytes = vec![STRANGER; (offset + shape.elements() / columns * (columns + between)) * size];
        for (from, index) in values.to_bytes().chunks_exact(size).zip(coordinates(&shape)) {
            let at = offset + place_of(&index, &layout);
            bytes[at * size..(at + 1) * size].copy_from_slice(from);
        }
        self.buffers.push(bytes);
        let array = Array { buffer: self.buffers.len() - 1, shape, offset, strides: layout, dtype: values.dtype, dense: false };
        Array { dense: between == 0 && layout == shape.strides(), ..array }
    }
    /// The array of a result whose rows lie in another order.
    pub fn output_rows(&mut self, shape: Shape, dtype: DType) -> Array {
        let strides = self.rows(&shape, 0);
        Array { strides, dense: strides == shape.strides(), ..self.output(shape, dtype) }
    }
    /// Strides of rows in a drawn order.
    fn rows(&mut self, shape: &Shape, between: usize) -> [isize; MAX_RANK] {
        let last = shape.rank() - 1;
        let mut order: Vec<usize> = (0..last).collect();
        (1..last).for_each(|k| order.swap(k, self.random.below(k + 1)));
        let (mut strides, mut extent) = ([0isize; MAX_RANK], shape[last] + between);
        strides[last] = 1;
        for axis in order {
            strides[axis] = extent as isize;
            extent *= shape[axis];
        }
        strides
    }
    /// The array of a result.
    pub fn output(&mut self, shape: Shape, dtype: DType) -> Array {
        let (offset, behind) = (self.random.below(6), self.random.below(4));
        self.buffers.push(vec![STRANGER; (offset + shape.elements() + behind) * dtype.size()]);
        Array { buffer: self.buffers.len() - 1, shape, offset, strides: shape.strides(), dtype, dense: true }
    }
    pub fn case(self, name: String, target: LaunchTarget, kernel: KernelKind, inputs: Vec<Array>, outputs: Vec<Array>, check: Check) -> Case {
        let space = outputs.first().map_or(Shape::new(&[]).unwrap(), |o| o.shape);
        Case { name, target, kernel, space, inputs, outputs, more: Vec::new(), args: Vec::new(), buffers: self.buffers, found: Vec::new(), check }
    }
}
/// How far an element is from the first.
pub fn place_of(index: &[usize], strides: &[isize; MAX_RANK]) -> usize {
    index.iter().zip(strides).map(|(&i, &step)| i as isize * step).sum::<isize>() as usize
}
pub fn coordinates(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + use<> {
    let sizes: Vec<usize> = shape.iter().copied().collect();
    (0..shape.elements()).map(move |mut k| {
        let mut at = vec![0; sizes.len()];
        for a in (0..sizes.len()).rev() {
            at[a] = k % sizes[a];
            k /= sizes[a];
        }
        at
    })
}
pub fn ty(a: &HostArray) -> TensorType {
    TensorType { shape: a.shape, dtype: a.dtype }
}
/// What an op gives, within the published bounds; a fault that the reference finds must be reported as it is.
fn of_op(op: Op, arg: Arg, inputs: Vec<HostArray>) -> Check {
    Box::new(move |got, reports| {
        let types: Vec<TensorType> = got.iter().map(ty).collect();
        let (want, fault) = reference::run(&op, arg, &inputs, &types).map_err(|e| e.to_string())?;
        let told = reports.iter().find(|r| r.1[0] != u32::MAX).map(|&(found, [position, low, high])| match found {
            Found::Division => Fault::DivisionByZero,
            Found::Index(bound) => Fault::Index { index: (u64::from(high) << 32 | u64::from(low)) as i64, bound, position: position as usize },
        });
        if told != fault {
            return Err(format!("reported {told:?}, the reference finds {fault:?}"));
        }
        if fault.is_none() {
            return tolerance::check(&op, arg, &inputs, got);
        }
        // What is not spoiled is as it should be.
        match got.iter().zip(&want).find_map(|(g, w)| tolerance::composed(g, w).err()) {
            Some(e) => Err(e),
            None => Ok(()),
        }
    })
}
fn unspecial(dtype: DType) -> Spread {
    if dtype.is_float() { Spread::Within(-2.0, 2.0) } else { Spread::Coarse }
}
pub fn expr(instrs: &[(Instr, DType)]) -> Expr {
    let mut e = Expr::default();
    instrs.iter().for_each(|&(i, d)| {
        e.push(i, d);
    });
    e
}
fn map(expr: Expr, outputs: &[u16]) -> KernelKind {
    KernelKind::Map { expr, outputs: outputs.to_vec() }
}
/// The functions that are computed alike by C and the reference.
const UNARY: [Unary; 8] = [Unary::Neg, Unary::Abs, Unary::Square, Unary::Floor, Unary::Exp, Unary::Tanh, Unary::Sign, Unary::Sqrt];
const BINARY: [Binary; 8] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Maximum, Binary::Minimum, Binary::Lt, Binary::Eq, Binary::FloorDivide];

pub fn unary(mut m: Maker) -> Case {
    let f = *m.random.pick(&UNARY);
    let dtypes: Vec<DType> = DType::COMPUTE.into_iter().filter(|d| f.infer(*d).is_ok() && (d.is_float() || f.row().int.is_some())).collect();
    let dtype = *m.random.pick(&dtypes);
    let shape = m.shape(0, 4);
    let spread = if f == Unary::Sqrt { Spread::Within(0.0, 4.0) } else { Spread::Special };
    let (x, host) = m.laid(shape, dtype, spread);
    let to = f.infer(dtype).unwrap();
    let out = m.output(shape, to);
    let target = m.target();
    let kernel = map(expr(&[(Instr::Load(0), dtype), (Instr::Unary(f, 0), to)]), &[1]);
    m.case(format!("{} of {dtype}{shape}", f.name()), target, kernel, vec![x], vec![out], of_op(Op::Unary(f), Arg::None, vec![host]))
}
pub fn binary(mut m: Maker) -> Case {
    let f = *m.random.pick(&BINARY);
    let dtypes: Vec<DType> = DType::COMPUTE.into_iter().filter(|d| f.infer(*d).is_ok() && (d.is_float() || f.row().int.is_some())).collect();
    let dtype = *m.random.pick(&dtypes);
    let shape = m.shape(0, 4);
    let (x, a) = m.laid(shape, dtype, Spread::Special);
    let spread = if m.random.one_in(2) { Spread::NonZero } else { Spread::Special };
    let (y, b) = m.laid(shape, dtype, spread);
    let to = f.infer(dtype).unwrap();
    let out = m.output(shape, to);
    let target = m.target();
    let kernel = map(expr(&[(Instr::Load(0), dtype), (Instr::Load(1), dtype), (Instr::Binary(f, 0, 1), to)]), &[2]);
    m.case(format!("{} of {dtype}{shape}", f.name()), target, kernel, vec![x, y], vec![out], of_op(Op::Binary(f), Arg::None, vec![a, b]))
}
pub fn with_argument(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&DType::COMPUTE[1..]);
    let shape = m.shape(0, 3);
    let (x, host) = m.laid(shape, dtype, Spread::Coarse);
    let out = m.output(shape, dtype);
    let target = m.target();
    let value = if dtype.is_float() { Scalar::Float(0.3) } else { Scalar::Int(3) };
    let kernel = map(expr(&[(Instr::Load(0), dtype), (Instr::Arg(0), dtype), (Instr::Binary(Binary::Mul, 0, 1), dtype)]), &[2]);
    let check = of_op(Op::BinaryScalar(Binary::Mul, Side::Right), Arg::Scalar(value), vec![host]);
    Case { args: vec![value], ..m.case(format!("times an argument of {dtype}{shape}"), target, kernel, vec![x], vec![out], check) }
}
pub fn cast(mut m: Maker) -> Case {
    let (from, to) = (*m.random.pick(&DType::ALL), *m.random.pick(&DType::ALL));
    let shape = m.shape(0, 3);
    let (x, host) = m.laid(shape, from, if from.is_float() && to.is_float() { Spread::Special } else { Spread::Coarse });
    let out = m.output(shape, to);
    let target = m.target();
    let kernel = map(expr(&[(Instr::Load(0), from), (Instr::Cast(0), to)]), &[u16::from(from != to)]);
    m.case(format!("{from} as {to}{shape}"), target, kernel, vec![x], vec![out], of_op(Op::Cast(to), Arg::None, vec![host]))
}
pub fn select_and_index(mut m: Maker) -> Case {
    let shape = m.shape(1, 4);
    let axis = m.random.below(shape.rank());
    let (c, condition) = m.laid(shape, DType::Bool, Spread::Coarse);
    let (x, host) = m.laid(shape, DType::I32, Spread::Coarse);
    let (out, numbers) = (m.output(shape, DType::I32), m.output(shape, DType::I64));
    let target = m.target();
    let program = expr(&[
        (Instr::Load(0), DType::Bool),
        (Instr::Load(1), DType::I32),
        (Instr::Index(axis as u8), DType::I32),
        (Instr::Select(0, 1, 2), DType::I32),
        (Instr::Index(axis as u8), DType::I64),
    ]);
    let index = |dtype| HostArray::ints(shape, dtype, coordinates(&shape).map(|i| i[axis] as i64).collect::<Vec<_>>());
    let (narrow, wide) = (index(DType::I32), index(DType::I64));
    let selected = of_op(Op::Select, Arg::None, vec![condition, host, narrow]);
    let check: Check = Box::new(move |got, reports| {
        selected(&got[..1], reports)?;
        if same_bits(&got[1], &wide) { Ok(()) } else { Err("the coordinates differ".into()) }
    });
    m.case(format!("select and index{shape}"), target, map(program, &[3, 4]), vec![c, x], vec![out, numbers], check)
}
pub fn random_bits(mut m: Maker) -> Case {
    let shape = m.shape(0, 3);
    let wide = *m.random.pick(&[DType::U32, DType::I64]);
    let (key, host) = m.laid(Shape::new(&[4]).unwrap(), wide, Spread::Below(1 << 20));
    let out = m.output(shape, DType::U32);
    let target = m.target();
    let kernel = map(expr(&[(Instr::Random(0), DType::U32)]), &[0]);
    m.case(format!("random bits{shape}"), target, kernel, vec![key], vec![out], of_op(Op::RandomBits { shape }, Arg::None, vec![host]))
}
/// Three results, of which the first takes the place of an input; with few buffers, launch by launch.
pub fn several_results(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&[DType::F32, DType::F16, DType::I32, DType::I8, DType::F64]);
    let shape = m.shape(0, 3);
    let (x, a) = m.dense(shape, dtype, Spread::Coarse);
    let (y, b) = m.laid(shape, dtype, Spread::Coarse);
    let (out, less) = (m.output(shape, dtype), m.output(shape, DType::Bool));
    let target = LaunchTarget { buffers: *m.random.pick(&[5, 16]), ..m.target() };
    let program = expr(&[
        (Instr::Load(0), dtype),
        (Instr::Load(1), dtype),
        (Instr::Binary(Binary::Add, 0, 1), dtype),
        (Instr::Binary(Binary::Mul, 0, 1), dtype),
        (Instr::Binary(Binary::Lt, 0, 1), DType::Bool),
    ]);
    let own = |f| of_op(Op::Binary(f), Arg::None, vec![a.clone(), b.clone()]);
    let checks = [own(Binary::Add), own(Binary::Mul), own(Binary::Lt)];
    let check: Check = Box::new(move |got, reports| checks.iter().zip(got).try_for_each(|(c, g)| c(std::slice::from_ref(g), reports)));
    let outputs = vec![x, out, less];
    m.case(format!("three results of {dtype}{shape}, {} buffers", target.buffers), target, map(program, &[2, 3, 4]), vec![x, y], outputs, check)
}
/// An optimizer's step over several parameters.
pub fn together(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&[DType::F32, DType::F16, DType::BF16, DType::F64]);
    let count = m.random.between(2, 5);
    let (mut works, mut hosts): (More, Vec<[HostArray; 2]>) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let shape = Shape::new(&[m.random.between(1, 9), m.random.between(1, 9)]).unwrap();
        let ((x, a), (y, b)) = (m.laid(shape, dtype, Spread::Coarse), m.laid(shape, dtype, Spread::Coarse));
        works.push((vec![x, y], vec![m.output(shape, dtype)], shape));
        hosts.push([a, b]);
    }
    let target = LaunchTarget { buffers: 40, ..m.target() };
    let program = expr(&[(Instr::Load(0), dtype), (Instr::Load(1), dtype), (Instr::Binary(Binary::Sub, 0, 1), dtype)]);
    let checks: Vec<Check> = hosts.into_iter().map(|h| of_op(Op::Binary(Binary::Sub), Arg::None, h.to_vec())).collect();
    let check: Check = Box::new(move |got, reports| checks.iter().zip(got).try_for_each(|(c, g)| c(std::slice::from_ref(g), reports)));
    let (inputs, outputs, space) = works[0].clone();
    Case { more: works.split_off(1), space, ..m.case(format!("{count} maps of {dtype} together"), target, map(program, &[2]), inputs, outputs, check) }
}
pub fn copy(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&DType::ALL);
    let shape = m.shape(0, 4);
    let (x, host) = m.laid(shape, dtype, Spread::Special);
    let out = m.output(shape, dtype);
    let target = m.target();
    let dense = m.random.one_in(2);
    let check = of_op(Op::View(View::Reshape(shape)), Arg::None, vec![host]);
    m.case(format!("copy of {dtype}{shape}"), target, KernelKind::Copy, vec![x], vec![Array { dense, ..out }], check)
}
pub fn reduce(mut m: Maker) -> Case {
    let op = *m.random.pick(&[ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min]);
    let dtype = *m.random.pick(if matches!(op, ReduceOp::Max | ReduceOp::Min) { &DType::COMPUTE[..] } else { &DType::COMPUTE[1..] });
    let mut sizes: Vec<usize> = m.shape(1, 4).to_vec();
    let last = sizes.len() - 1;
    match m.random.below(8) {
        // A workgroup for one output; pieces.
        0 | 1 => sizes[last] = m.random.between(60, 700),
        2 => (sizes, _) = (vec![m.random.between(1, 3), 9000], last),
        3 => sizes[0] = m.random.between(70, 300),
        _ => {}
    }
    let shape = Shape::new(&sizes).unwrap();
    let rank = shape.rank();
    let axes = AxisSet::of((0..rank).filter(|a| m.random.one_in(2) || (a + 1 == rank && m.random.one_in(2))).collect::<Vec<_>>());
    let empty = shape.elements() == 0 && matches!(op, ReduceOp::Max | ReduceOp::Min);
    let shape = if empty { Shape::new(&vec![2; shape.rank()]).unwrap() } else { shape };
    let spread = match op {
        ReduceOp::Prod => Spread::Within(0.9, 1.1),
        ReduceOp::Sum => unspecial(dtype),
        _ => Spread::Special,
    };
    let (x, host) = m.laid(shape, dtype, spread);
    let kept: Vec<usize> = (0..shape.rank()).map(|a| if axes.has(a) { 1 } else { shape[a] }).collect();
    // Sums of integers are i64's.
    let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && dtype.is_int();
    let to = if sums { DType::I64 } else { dtype };
    let out = m.output(Shape::new(&kept).unwrap(), to);
    let target = m.target();
    let kernel = KernelKind::Reduce { expr: expr(&[(Instr::Load(0), dtype)]), value: 0, op, axes };
    let check = of_op(Op::Reduce { op, axes }, Arg::None, vec![host]);
    Case { space: shape, ..m.case(format!("{op:?} of {dtype}{shape} along {axes:?}"), target, kernel, vec![x], vec![out], check) }
}
pub fn arg_reduce(mut m: Maker) -> Case {
    let op = *m.random.pick(&[ArgOp::Max, ArgOp::Min]);
    let dtype = *m.random.pick(&DType::COMPUTE);
    let mut sizes: Vec<usize> = m.shape(1, 3).iter().map(|&n| n.max(1)).collect();
    let axis = m.random.below(sizes.len());
    if m.random.one_in(2) {
        sizes[axis] = m.random.between(60, 600);
    }
    let shape = Shape::new(&sizes).unwrap();
    let (x, host) = m.laid(shape, dtype, Spread::Special);
    let out = m.output(shape.with(axis, 1), DType::I64);
    let target = m.target();
    let check = of_op(Op::ArgReduce { op, axis: axis as u8 }, Arg::None, vec![host]);
    m.case(
        format!("arg {op:?} of {dtype}{shape} along {axis}"),
        target,
        KernelKind::Primitive(Op::ArgReduce { op, axis: axis as u8 }),
        vec![x],
        vec![out],
        check,
    )
}
pub fn scan(mut m: Maker) -> Case {
    let op = *m.random.pick(&[ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min, ScanOp::LinearRecurrence]);
    let floats = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let dtype = *m.random.pick(if op == ScanOp::LinearRecurrence { &floats[..] } else { &DType::COMPUTE[1..] });
    let mut sizes: Vec<usize> = m.shape(1, 3).to_vec();
    let axis = m.random.below(sizes.len());
    if m.random.one_in(3) {
        sizes = sizes.iter().map(|&n| n.min(4)).collect();
        sizes[axis] = m.random.between(1000, 1400);
    }
    let shape = Shape::new(&sizes).unwrap();
    let reverse = m.random.one_in(2);
    let spread = match op {
        ScanOp::Prod => Spread::Within(0.9, 1.1),
        ScanOp::LinearRecurrence => Spread::Within(-0.9, 0.9),
        _ => unspecial(dtype),
    };
    let (mut inputs, mut hosts) = (Vec::new(), Vec::new());
    for _ in 0..if op == ScanOp::LinearRecurrence { 2 } else { 1 } {
        let (x, host) = m.laid(shape, dtype, spread);
        inputs.push(x);
        hosts.push(host);
    }
    let types: Vec<TensorType> = hosts.iter().map(ty).collect();
    let recorded = Op::Scan { op, axis: axis as u8, reverse };
    let to = recorded.infer(&types).unwrap()[0].dtype;
    let out = m.output(shape, to);
    let target = m.target();
    let kernel = KernelKind::Primitive(Op::Scan { op, axis: axis as u8, reverse });
    m.case(format!("scan {op:?} of {dtype}{shape} along {axis}"), target, kernel, inputs, vec![out], of_op(recorded, Arg::None, hosts))
}
pub fn sort(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&DType::COMPUTE);
    let mut sizes: Vec<usize> = m.shape(1, 3).to_vec();
    let axis = m.random.below(sizes.len());
    if m.random.one_in(3) {
        sizes[axis] = m.random.between(60, 300);
    }
    let shape = Shape::new(&sizes).unwrap();
    let descending = m.random.one_in(2);
    let (x, host) = m.laid(shape, dtype, Spread::Special);
    let (values, order) = (m.output(shape, dtype), m.output(shape, DType::I64));
    let target = m.target();
    let check = of_op(Op::Sort { axis: axis as u8, descending }, Arg::None, vec![host]);
    let kernel = KernelKind::Primitive(Op::Sort { axis: axis as u8, descending });
    m.case(format!("sort of {dtype}{shape} along {axis}"), target, kernel, vec![x], vec![values, order], check)
}
const INDICES: [DType; 5] = [DType::I64, DType::I32, DType::U32, DType::I8, DType::U8];
pub fn gather(mut m: Maker) -> Case {
    let (dtype, of_index) = (*m.random.pick(&DType::ALL), *m.random.pick(&INDICES));
    let shape = m.shape(1, 3);
    let axis = m.random.below(shape.rank());
    let bound = m.random.between(1, 9);
    let count = m.size();
    let wild = m.random.one_in(3);
    let (x, host) = m.laid(shape.with(axis, bound), dtype, Spread::Special);
    let (index, numbers) = m.laid(shape.with(axis, count), of_index, if wild { Spread::Wild(bound) } else { Spread::Below(bound) });
    let out = m.output(index.shape, dtype);
    let target = m.target();
    let check = of_op(Op::Gather { axis: axis as u8 }, Arg::None, vec![host, numbers]);
    m.case(format!("gather of {dtype}{shape} along {axis}"), target, KernelKind::Primitive(Op::Gather { axis: axis as u8 }), vec![x, index], vec![out], check)
}
pub fn segment_reduce(mut m: Maker) -> Case {
    let op = *m.random.pick(&[SegmentOp::Sum, SegmentOp::Max, SegmentOp::Min]);
    let dtype = *m.random.pick(&DType::COMPUTE);
    // Long lines are cut in blocks.
    let long = m.random.one_in(3);
    let shape = if long { Shape::new(&[*m.random.pick(&[1, 2, 3, 5]), *m.random.pick(&[1, 2, 33])]).unwrap() } else { m.shape(1, 3) };
    let axis = m.random.below(shape.rank());
    let (n, segments) = (if long { m.random.between(1000, 2600) } else { m.random.between(0, 40) }, m.random.between(1, 6));
    let spread = if m.random.one_in(4) { Spread::Wild(n) } else { Spread::Cuts(n) };
    let (x, host) = m.laid(shape.with(axis, n), dtype, unspecial(dtype));
    let cut = Shape::new(&[&shape[..axis], &[segments + 1]].concat()).unwrap();
    let of_offsets = *m.random.pick(if long { &INDICES[..3] } else { &INDICES });
    let (offsets, numbers) = m.laid(cut, of_offsets, spread);
    let recorded = Op::SegmentReduce { op, axis: axis as u8 };
    let to = recorded.infer(&[ty(&host), ty(&numbers)]).unwrap()[0];
    let out = m.output(to.shape, to.dtype);
    let target = m.target();
    let kernel = KernelKind::Primitive(recorded.clone());
    m.case(
        format!("{} of {dtype}{shape} along {axis}", op.name()),
        target,
        kernel,
        vec![x, offsets],
        vec![out],
        of_op(recorded, Arg::None, vec![host, numbers]),
    )
}
pub fn scatter(mut m: Maker) -> Case {
    let mode = *m.random.pick(&[ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min]);
    let dtype = *m.random.pick(if mode == ScatterMode::Set { &DType::COMPUTE[..] } else { &DType::COMPUTE[1..] });
    let of_index = *m.random.pick(&INDICES[..3]);
    let (axis, mut shape) = (0, m.shape(1, 3));
    let mut count = m.size();
    if m.random.one_in(2) {
        // Long enough to be sorted, with rows that share an index.
        count = m.random.between(256, 700);
        shape = Shape::new(&vec![3; shape.rank()]).unwrap();
    }
    let bound = m.random.between(1, 40);
    let spread = if mode == ScatterMode::Mul { Spread::Within(0.9, 1.1) } else { unspecial(dtype) };
    let destination = draw(shape.with(axis, bound), dtype, spread, &mut m.random);
    let out = m.known(&destination);
    let wild = m.random.one_in(4);
    let (index, numbers) = m.laid(shape.with(axis, count), of_index, if wild { Spread::Wild(bound) } else { Spread::Below(bound) });
    let (source, values) = m.laid(index.shape, dtype, spread);
    let target = m.target();
    let check = of_op(Op::Scatter { axis: axis as u8, mode }, Arg::None, vec![destination, numbers, values]);
    let kernel = KernelKind::Scatter { axis: axis as u8, mode };
    m.case(format!("scatter {mode:?} of {count} {dtype}{shape}"), target, kernel, vec![index, source], vec![out], check)
}
pub fn matmul(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&DType::COMPUTE[1..]);
    let extents = [0, 1, 2, 3, 5, 16, 17, 33, 50, 70];
    let (rows, columns) = (*m.random.pick(&extents), *m.random.pick(&extents));
    let depth = *m.random.pick(&[0, 1, 7, 16, 17, 40, 600]);
    let batch: Vec<usize> = (0..m.random.below(3)).map(|_| m.random.between(1, 3)).collect();
    let shape = |a: usize, b: usize| Shape::new(&[&batch[..], &[a, b]].concat()).unwrap();
    let (x, a) = m.laid(shape(rows, depth), dtype, unspecial(dtype));
    let (y, b) = m.laid(shape(depth, columns), dtype, unspecial(dtype));
    let out = m.output(shape(rows, columns), dtype);
    let target = m.target();
    let check = of_op(Op::Matmul, Arg::None, vec![a, b]);
    m.case(format!("{dtype} {batch:?} {rows} x {depth} x {columns}"), target, KernelKind::Matmul, vec![x, y], vec![out], check)
}
pub fn conv(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&[DType::F32, DType::F16, DType::BF16, DType::F64]);
    let role = *m.random.pick(&[ConvRole::Forward, ConvRole::InputGrad, ConvRole::WeightGrad]);
    let axes = m.random.between(1, 2);
    let mut each = |low: usize, high: usize| -> Vec<usize> { (0..axes).map(|_| m.random.between(low, high)).collect() };
    let (stride, dilation, before, behind, kernel, open) = (each(1, 3), each(1, 2), each(0, 2), each(0, 2), each(1, 3), each(5, 8));
    let (images, groups, ci, co) = (m.random.between(0, 3), m.random.between(1, 2), m.random.between(1, 3), m.random.between(1, 9));
    let places: Vec<usize> = (0..axes).map(|a| (open[a] + before[a] + behind[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1).collect();
    let shape = |first: [usize; 2], rest: &[usize]| Shape::new(&[&first[..], rest].concat()).unwrap();
    let (x, w, y) = (shape([images, groups * ci], &open), shape([groups * co, ci], &kernel), shape([images, groups * co], &places));
    let (first, second, to, open) = match role {
        ConvRole::Forward => (x, w, y, Vec::new()),
        ConvRole::InputGrad => (y, w, x, open),
        ConvRole::WeightGrad => (x, y, w, kernel),
    };
    let spec = ConvSpec {
        role,
        stride: stride.into_iter().collect(),
        padding: before.into_iter().zip(behind).collect(),
        dilation: dilation.into_iter().collect(),
        groups,
        open: open.into_iter().collect(),
    };
    let ((a, own), (b, other)) = (m.dense(first, dtype, Spread::Within(-2.0, 2.0)), m.dense(second, dtype, Spread::Within(-2.0, 2.0)));
    let out = m.output(to, dtype);
    let target = m.target();
    let spec = Arc::new(spec);
    let check = of_op(Op::Conv(spec.clone()), Arg::None, vec![own, other]);
    m.case(format!("conv {role:?} of {dtype}{first} and {second}"), target, KernelKind::Conv(spec), vec![a, b], vec![out], check)
}
pub fn window(mut m: Maker) -> Case {
    let op = *m.random.pick(&[WindowOp::Max, WindowOp::Sum, WindowOp::SumTransposed]);
    let dtype = *m.random.pick(if op == WindowOp::Max { &DType::COMPUTE[1..] } else { &DType::COMPUTE[6..] });
    let axes = m.random.between(1, 2);
    let mut each = |low: usize, high: usize| -> Vec<usize> { (0..axes).map(|_| m.random.between(low, high)).collect() };
    let (stride, dilation, before, behind, size, wide) = (each(1, 3), each(1, 2), each(0, 1), each(0, 1), each(1, 3), each(5, 8));
    let lead = m.random.between(0, 3);
    let narrow: Vec<usize> = (0..axes).map(|a| (wide[a] + before[a] + behind[a] - dilation[a] * (size[a] - 1) - 1) / stride[a] + 1).collect();
    let shape = |rest: &[usize]| Shape::new(&[&[lead][..], rest].concat()).unwrap();
    let (from, to, open) = if op == WindowOp::SumTransposed { (shape(&narrow), shape(&wide), wide) } else { (shape(&wide), shape(&narrow), Vec::new()) };
    let spec = Arc::new(WindowSpec {
        op,
        size: size.into_iter().collect(),
        stride: stride.into_iter().collect(),
        padding: before.into_iter().zip(behind).collect(),
        dilation: dilation.into_iter().collect(),
        open: open.into_iter().collect(),
    });
    let (x, host) = m.dense(from, dtype, if op == WindowOp::Max { Spread::Special } else { Spread::Within(-2.0, 2.0) });
    let mut outputs = vec![m.output(to, dtype)];
    if op == WindowOp::Max {
        outputs.push(m.output(to, DType::I64));
    }
    let target = m.target();
    let check = of_op(Op::Window(spec.clone()), Arg::None, vec![host]);
    m.case(format!("window {op:?} of {dtype}{from}"), target, KernelKind::Primitive(Op::Window(spec)), vec![x], outputs, check)
}
