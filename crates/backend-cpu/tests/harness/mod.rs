//! Steps built by hand, and the checks that all cases share: the values of the reference within the rounding of the
//! dtype, and the same bits for 1, 2, 4 and 8 threads and every instruction set.
#![allow(dead_code)]
use adamant_backend_cpu::{CpuBackend, Isa};
use adamant_core::{
    Arg, DType, Device, HostArray, Layout, Op, Scalar, Shape, TensorType,
    backend::{Backend, Guard},
    buffer::Buffer,
    kernel::{Fault, FaultWord, Kernel, Operand, Step},
    reference,
};
use std::sync::{Arc, OnceLock};

pub fn backend(threads: usize, isa: Option<Isa>) -> CpuBackend {
    let builder = CpuBackend::builder().threads(threads);
    match isa {
        Some(isa) => builder.isa(isa),
        None => builder,
    }
    .build()
    .unwrap()
}
/// The device whose memory all operands are in.
pub fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| Device::from_backend(Box::new(backend(1, None))))
}
/// The backends that must agree in every bit.
fn backends() -> &'static [(String, CpuBackend)] {
    static ALL: OnceLock<Vec<(String, CpuBackend)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<_> = [1, 2, 4, 8].map(|t| (format!("{t} threads"), backend(t, None))).into();
        all.extend(Isa::ALL.into_iter().filter(|i| i.is_available()).map(|i| (format!("{i:?}"), backend(1, Some(i)))));
        all
    })
}

/// How a test tensor lies in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Lay {
    Dense,
    /// the same for all rows
    Row,
    /// the same for all columns
    Column,
    /// one element for all
    Scalar,
    /// every second element
    Strided,
    /// last axis backwards
    Reversed,
    /// axes in the opposite order
    Transposed,
}
impl Lay {
    pub const ALL: [Lay; 7] = [Lay::Dense, Lay::Row, Lay::Column, Lay::Scalar, Lay::Strided, Lay::Reversed, Lay::Transposed];
    fn layout(self, s: &Shape) -> (Layout, usize) {
        let n = s.elements();
        let dense = s.strides();
        let rank = s.rank();
        let mut strides = dense;
        match self {
            Lay::Dense => (Layout { offset: 3, strides }, n + 3),
            Lay::Row => {
                if rank > 1 {
                    strides[0] = 0;
                }
                (Layout { offset: 1, strides }, n + 1)
            }
            Lay::Column => {
                if rank > 0 {
                    strides[rank - 1] = 0;
                }
                (Layout { offset: 0, strides }, n.max(1))
            }
            Lay::Scalar => (Layout { offset: 2, strides: [0; 8] }, 3),
            Lay::Strided => {
                strides.iter_mut().for_each(|s| *s *= 2);
                (Layout { offset: 1, strides }, 2 * n + 2)
            }
            Lay::Reversed => {
                let mut offset = 0;
                if rank > 0 && s[rank - 1] > 0 {
                    offset = s[rank - 1] - 1;
                    strides[rank - 1] = -1;
                }
                (Layout { offset, strides }, n.max(1))
            }
            Lay::Transposed => {
                let mut step = 1;
                for a in 0..rank {
                    strides[a] = step;
                    step *= s[a].max(1) as isize;
                }
                (Layout { offset: 0, strides }, n.max(1))
            }
        }
    }
}

/// A test tensor: its memory, its layout, and its elements as the reference sees them.
#[derive(Clone)]
pub struct Tens {
    memory: Vec<u8>,
    layout: Layout,
    pub array: HostArray,
}
fn offsets(shape: &Shape, layout: &Layout) -> Vec<usize> {
    (0..shape.elements())
        .map(|k| {
            let (mut rest, mut at) = (k, layout.offset as isize);
            for a in (0..shape.rank()).rev() {
                at += (rest % shape[a]) as isize * layout.strides[a];
                rest /= shape[a];
            }
            at as usize
        })
        .collect()
}
fn read(memory: &[u8], shape: Shape, layout: &Layout, dtype: DType) -> HostArray {
    let size = dtype.size();
    let bytes: Vec<u8> = offsets(&shape, layout).into_iter().flat_map(|at| memory[at * size..(at + 1) * size].to_vec()).collect();
    HostArray::from_bytes(shape, dtype, &bytes)
}
impl Tens {
    pub fn random(dtype: DType, shape: &Shape, lay: Lay, lo: f64, hi: f64, seed: u64) -> Tens {
        let (layout, n) = lay.layout(shape);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
        let values = (0..n).map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let u = (state >> 11) as f64 / (1u64 << 53) as f64;
            lo + (hi - lo) * u
        });
        let flat = Shape::new(&[n]).unwrap();
        let all = if dtype.is_float() {
            HostArray::floats(flat, dtype, values)
        } else if dtype == DType::Bool {
            HostArray::ints(flat, dtype, values.map(|v| (v > (lo + hi) / 2.0) as i64))
        } else {
            HostArray::ints(flat, dtype, values.map(|v| v.floor() as i64))
        };
        let memory = all.to_bytes();
        Tens { array: read(&memory, *shape, &layout, dtype), memory, layout }
    }
    pub fn of(dtype: DType, shape: &Shape, values: Vec<f64>) -> Tens {
        let array =
            if dtype.is_float() { HostArray::floats(*shape, dtype, values) } else { HostArray::ints(*shape, dtype, values.into_iter().map(|v| v as i64)) };
        Tens { memory: array.to_bytes(), layout: Layout::dense(shape), array }
    }
    pub fn bytes(dtype: DType, shape: &Shape, memory: Vec<u8>) -> Tens {
        Tens { array: HostArray::from_bytes(*shape, dtype, &memory), memory, layout: Layout::dense(shape) }
    }
    pub fn dense(&self) -> Tens {
        Tens::bytes(self.array.dtype, &self.array.shape, self.array.to_bytes())
    }
}

enum To {
    /// fresh memory of so many elements
    Fresh(usize),
    /// the memory of an input
    Over(usize),
    /// memory that holds this
    Holds(Tens),
}
struct Target {
    dtype: DType,
    shape: Shape,
    layout: Layout,
    to: To,
}
/// A step with its data.
pub struct Case<'k> {
    kernel: &'k Kernel,
    space: Shape,
    inputs: Vec<Tens>,
    outputs: Vec<Target>,
    args: Vec<Scalar>,
}
pub struct Ran {
    /// the outputs' elements, row-major
    pub outputs: Vec<Vec<u8>>,
    pub fault: Option<Fault>,
}
fn buffer(bytes: &[u8]) -> Arc<Buffer> {
    let buffer = device().pool().take(device(), bytes.len()).unwrap();
    device().backend().upload(buffer.write().as_deref_mut().unwrap(), 0, bytes).unwrap();
    buffer
}
impl<'k> Case<'k> {
    pub fn new(kernel: &'k Kernel, space: Shape) -> Case<'k> {
        Case { kernel, space, inputs: vec![], outputs: vec![], args: vec![] }
    }
    pub fn input(mut self, t: Tens) -> Self {
        self.inputs.push(t);
        self
    }
    pub fn arg(mut self, s: Scalar) -> Self {
        self.args.push(s);
        self
    }
    pub fn output(self, dtype: DType, shape: Shape) -> Self {
        let n = shape.elements();
        self.output_at(dtype, shape, Layout::dense(&shape), n)
    }
    pub fn output_at(mut self, dtype: DType, shape: Shape, layout: Layout, n: usize) -> Self {
        self.outputs.push(Target { dtype, shape, layout, to: To::Fresh(n) });
        self
    }
    pub fn output_over(mut self, input: usize, dtype: DType, shape: Shape) -> Self {
        let layout = self.inputs[input].layout;
        self.outputs.push(Target { dtype, shape, layout, to: To::Over(input) });
        self
    }
    pub fn output_holding(mut self, t: Tens) -> Self {
        self.outputs.push(Target { dtype: t.array.dtype, shape: t.array.shape, layout: t.layout, to: To::Holds(t) });
        self
    }
    pub fn run(&self, backend: &CpuBackend) -> Ran {
        let inputs: Vec<Arc<Buffer>> = self.inputs.iter().map(|t| buffer(&t.memory)).collect();
        let outputs: Vec<Arc<Buffer>> = self
            .outputs
            .iter()
            .map(|o| match &o.to {
                // Poisoned, so that an element that is not written shows.
                To::Fresh(n) => buffer(&vec![0xCD; n * o.dtype.size()]),
                To::Over(k) => inputs[*k].clone(),
                To::Holds(t) => buffer(&t.memory),
            })
            .collect();
        let fault = FaultWord::default();
        fn operand<'a>(buffer: &'a Arc<Buffer>, shape: Shape, layout: &'a Layout, dtype: DType) -> Operand<'a> {
            Operand { buffer, shape, offset: layout.offset, strides: &layout.strides, dtype, dense: layout.is_dense(&shape) }
        }
        let reads: Vec<_> = self.inputs.iter().zip(&inputs).map(|(t, b)| operand(b, t.array.shape, &t.layout, t.array.dtype)).collect();
        let writes: Vec<_> = self.outputs.iter().zip(&outputs).map(|(o, b)| operand(b, o.shape, &o.layout, o.dtype)).collect();
        let step = Step { kernel: self.kernel, space: self.space, inputs: &reads, outputs: &writes, args: &self.args, fault: &fault, guard: Guard::NONE };
        backend.submit(&[step]).unwrap();
        let read_back = |o: &Target, b: &Arc<Buffer>| {
            let guard = b.read();
            let all = guard.as_deref().unwrap().host().unwrap();
            let size = o.dtype.size();
            offsets(&o.shape, &o.layout).into_iter().flat_map(|at| all[at * size..(at + 1) * size].to_vec()).collect()
        };
        let outputs = self.outputs.iter().zip(&outputs).map(|(o, b)| read_back(o, b)).collect();
        Ran { outputs, fault: fault.get().cloned() }
    }
    fn describe(&self) -> String {
        let of = |a: &HostArray, l: &Layout| format!("{}{} at {} by {:?}", a.dtype, a.shape, l.offset, &l.strides[..a.shape.rank()]);
        format!("{:?} over {} of {:?}", self.kernel.kind, self.space, self.inputs.iter().map(|t| of(&t.array, &t.layout)).collect::<Vec<_>>())
    }
}
/// Equal bytes; which of the NaNs a NaN is, neither IEEE 754 nor Rust fixes.
fn same_bits(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let size = dtype.size();
    a == b
        || dtype.is_float()
            && a.chunks(size).zip(b.chunks(size)).all(|(a, b)| {
                let nan = |bytes| HostArray::from_bytes(Shape::SCALAR, dtype, bytes).float(0).is_nan();
                a == b || nan(a) && nan(b)
            })
}
/// One unit in the last place of a dtype, relative.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f32::EPSILON as f64,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F8E4M3 => 2f64.powi(-3),
        DType::F8E5M2 => 2f64.powi(-2),
        _ => 0.0,
    }
}
fn compare(case: &Case<'_>, op: &Op, arg: Arg, inputs: &[HostArray], units: f64, absolute: f64) -> Ran {
    let metas: Vec<TensorType> = case.outputs.iter().map(|o| TensorType { shape: o.shape, dtype: o.dtype }).collect();
    let (want, fault) = reference::run(op, arg, inputs, &metas).unwrap();
    let mut first: Option<Ran> = None;
    for (name, b) in backends() {
        let ran = case.run(b);
        match &first {
            None => first = Some(ran),
            Some(f) => assert!(
                f.fault == ran.fault && case.outputs.iter().zip(f.outputs.iter().zip(&ran.outputs)).all(|(o, (a, b))| same_bits(o.dtype, a, b)),
                "bits differ with {name}: {}",
                case.describe()
            ),
        }
    }
    let ran = first.unwrap();
    assert_eq!(ran.fault, fault, "{}", case.describe());
    for ((o, bytes), want) in case.outputs.iter().zip(&ran.outputs).zip(&want) {
        let got = HostArray::from_bytes(o.shape, o.dtype, bytes);
        for k in 0..got.len() {
            let same = if o.dtype.is_float() {
                let (g, w) = (got.float(k), want.float(k));
                // Below the normal numbers of the dtype an error is absolute.
                let tiny = match o.dtype {
                    DType::F16 => 2f64.powi(-24),
                    DType::F32 => 2f64.powi(-126),
                    DType::BF16 => 2f64.powi(-126),
                    _ => 0.0,
                };
                g == w
                    || g.is_nan() && w.is_nan()
                    || (g - w).abs() <= units * unit(o.dtype) * w.abs() + absolute * unit(o.dtype) + if units > 0.0 { tiny } else { 0.0 }
            } else {
                got.int(k) == want.int(k)
            };
            assert!(same, "element {k}: {:?}, reference {:?}; {}", got.scalar(k), want.scalar(k), case.describe());
        }
    }
    ran
}
fn arrays(case: &Case<'_>) -> Vec<HostArray> {
    case.inputs.iter().map(|t| t.array.clone()).collect()
}
/// The reference within a few units in the last place; near zero (the tails of gelu) within a fiftieth of one of 1.
pub fn check(case: &Case<'_>, op: &Op, arg: Arg) -> Ran {
    compare(case, op, arg, &arrays(case), 4.0, 2e-2)
}
/// The reference's very values.
pub fn check_exact(case: &Case<'_>, op: &Op, arg: Arg) -> Ran {
    compare(case, op, arg, &arrays(case), 0.0, 0.0)
}
/// The reference within the error of a sum of `n` terms of size about 1 to 4, which may cancel.
pub fn check_sum(case: &Case<'_>, op: &Op, n: usize) -> Ran {
    let f = case.outputs[0].dtype;
    // Sums are kept at least in f32, so that the error of narrow types is that of one rounding.
    let wide = unit(DType::F32).min(unit(f).max(f64::EPSILON)) / unit(f).max(f64::EPSILON);
    // In f64 the reference itself errs, and it adds one after another.
    let growth = if f == DType::F64 { n as f64 } else { (n as f64).sqrt() };
    compare(case, op, Arg::None, &arrays(case), 4.0 + 0.1 * n as f64 * wide, 16.0 * growth.max(4.0) * wide)
}
/// A scatter: the destination is what the output holds.
pub fn check_scatter(case: &Case<'_>, op: &Op) -> Ran {
    let mut inputs = arrays(case);
    if let To::Holds(t) = &case.outputs[0].to {
        inputs.insert(0, t.array.clone());
    }
    let f = case.outputs[0].dtype;
    let wide = unit(DType::F32).min(unit(f).max(f64::EPSILON)) / unit(f).max(f64::EPSILON);
    compare(case, op, Arg::None, &inputs, 4.0, 64.0 * wide + if f == DType::F64 { 64.0 } else { 0.0 })
}
