//! A backend of plain loops: programs run instruction by instruction over whole arrays, every other kernel by the
//! reference's meaning of its op. Safe, single-threaded, and the shortest backend that passes the suite: it shows what
//! a backend must do and lets the scheduler be tested without any other.
use adamant_core::{
    Arg, DType, Device, ErrorKind, HostArray, Layout, Op, Scalar, Shape, TensorType,
    backend::{Backend, Determinism, DeviceInfo, HostMemory, Memory, Support},
    expr::{Expr, Instr},
    kernel::{Fault, FaultWord, KernelKind, Operand, Step},
    reference::{self, HostData, round_float, wrap_int},
};
use std::any::Any;

mod ends;
pub use ends::EndFault;

struct Plain {
    info: DeviceInfo,
    limit: usize,
    refuses: fn(&KernelKind) -> bool,
    /// it runs products with ends, with a planted fault or without
    ends: Option<Option<EndFault>>,
}
/// A device of its own. Windows close at `window` pending ops; no allocation is larger than `limit` bytes.
pub fn device(window: usize, limit: usize) -> Device {
    Device::from_backend(backend(window, limit))
}
/// The same that says of some kernels that it cannot run them, as an unfinished backend does.
pub fn refusing(window: usize, limit: usize, refuses: fn(&KernelKind) -> bool) -> Device {
    Device::from_backend(made_of(window, limit, refuses, None))
}
/// One that runs products with ends too, as their reference; with a fault planted into them, or without.
pub fn with_ends(fault: Option<EndFault>) -> Device {
    Device::from_backend(made_of(2048, usize::MAX, |_| false, Some(fault)))
}
/// What such a device is made of.
pub fn backend(window: usize, limit: usize) -> Box<dyn Backend> {
    made_of(window, limit, |_| false, None)
}
fn made_of(window: usize, limit: usize, refuses: fn(&KernelKind) -> bool, ends: Option<Option<EndFault>>) -> Box<dyn Backend> {
    let info = DeviceInfo {
        backend: "plain",
        name: "plain loops".into(),
        parallelism: 1,
        details: Vec::new(),
        determinism: Determinism::Bitwise,
        dtypes: &DType::COMPUTE,
        window_ops: window,
        window_bytes: 1 << 30,
    };
    Box::new(Plain { info, limit, refuses, ends })
}

fn foreign() -> ErrorKind {
    ErrorKind::Internal("memory of another backend".into())
}
/// Calls `f` with the index in the buffer of every element, in row-major order.
fn each_offset(shape: &Shape, layout: &Layout, mut f: impl FnMut(usize)) {
    for k in 0..shape.elements() {
        let (mut rest, mut at) = (k, layout.offset as isize);
        for axis in (0..shape.rank()).rev() {
            at += (rest % shape[axis]) as isize * layout.strides[axis];
            rest /= shape[axis];
        }
        f(at as usize);
    }
}
fn outside(at: usize) -> ErrorKind {
    ErrorKind::Internal(format!("element {at} lies outside its buffer"))
}
fn read(o: &Operand<'_>) -> Result<HostArray, ErrorKind> {
    let size = o.dtype.size();
    let guard = o.buffer.read();
    let all = guard.as_deref().and_then(|m| m.host()).ok_or_else(foreign)?;
    let mut data = Vec::with_capacity(o.shape.elements() * size);
    let mut bad = None;
    each_offset(&o.shape, &o.layout(), |at| match at.checked_mul(size).and_then(|a| all.get(a..a + size)) {
        Some(element) => data.extend_from_slice(element),
        None => bad = Some(at),
    });
    match bad {
        None => Ok(HostArray::from_bytes(o.shape, o.dtype, &data)),
        Some(at) => Err(outside(at)),
    }
}
fn write(o: &Operand<'_>, a: &HostArray) -> Result<(), ErrorKind> {
    let (data, size) = (a.to_bytes(), o.dtype.size());
    let mut guard = o.buffer.write();
    let all = guard.as_deref_mut().and_then(|m| m.as_any_mut().downcast_mut::<HostMemory>()).ok_or_else(foreign)?;
    let (mut elements, mut bad) = (data.chunks_exact(size), None);
    each_offset(&o.shape, &o.layout(), |at| match (at.checked_mul(size).and_then(|a| all.0.get_mut(a..a + size)), elements.next()) {
        (Some(to), Some(from)) => to.copy_from_slice(from),
        _ => bad = Some(at),
    });
    bad.map_or(Ok(()), |at| Err(outside(at)))
}
/// All registers of a program over its space.
fn run_program(expr: &Expr, space: &Shape, inputs: &[HostArray], args: &[Scalar], fault: &FaultWord) -> Result<Vec<HostArray>, ErrorKind> {
    let n = space.elements();
    let mut regs: Vec<HostArray> = Vec::with_capacity(expr.instrs.len());
    for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes) {
        let value = |k: usize| -> Scalar {
            let get = |r: u16| regs[r as usize].scalar(k);
            match *instr {
                Instr::Load(i) => inputs[i as usize].scalar(k),
                Instr::Arg(i) => args[i as usize],
                Instr::Const(s) => s,
                Instr::Index(axis) => {
                    let inner: usize = space[axis as usize + 1..].iter().product();
                    Scalar::Int((k / inner % space[axis as usize]) as i64)
                }
                Instr::Random(i) => {
                    let key = [0, 1, 2, 3].map(|w| inputs[i as usize].int(w) as u32);
                    Scalar::Int(adamant_core::rng::element_bits(key, k as u64) as i64)
                }
                Instr::Unary(f, x) => reference::unary(f, get(x), expr.dtypes[x as usize]),
                Instr::Binary(f, x, y) => reference::binary(f, get(x), get(y), regs[x as usize].dtype).unwrap_or_else(|| {
                    fault.set(Fault::DivisionByZero);
                    Scalar::Int(0)
                }),
                Instr::Select(c, x, y) => {
                    if get(c).to_i64() != 0 {
                        get(x)
                    } else {
                        get(y)
                    }
                }
                Instr::Cast(x) if dtype == DType::Bool => Scalar::Int((get(x).to_f64() != 0.0) as i64),
                Instr::Cast(x) | Instr::Bitcast(x) => get(x),
            }
        };
        let array = match instr {
            Instr::Bitcast(x) => HostArray::from_bytes(*space, dtype, &regs[*x as usize].to_bytes()),
            _ => {
                let data = if dtype.is_float() {
                    HostData::Float((0..n).map(|k| round_float(value(k).to_f64(), dtype)).collect())
                } else {
                    HostData::Int((0..n).map(|k| wrap_int(value(k).to_i64(), dtype)).collect())
                };
                HostArray { shape: *space, dtype, data }
            }
        };
        regs.push(array);
    }
    Ok(regs)
}
fn run_step(s: &Step<'_>, ends: Option<EndFault>) -> Result<(), ErrorKind> {
    let program = |expr: &Expr| run_program(expr, &s.space, &s.inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?, s.args, s.fault);
    let metas: Vec<TensorType> = s.outputs.iter().map(|o| TensorType { shape: o.shape, dtype: o.dtype }).collect();
    let by_reference = |op: Op, inputs: &[HostArray]| -> Result<Vec<HostArray>, ErrorKind> {
        let (out, fault) = reference::run(&op, Arg::None, inputs, &metas)?;
        fault.into_iter().for_each(|f| s.fault.set(f));
        Ok(out)
    };
    let results = match &s.kernel.kind {
        KernelKind::Map { expr, outputs } => {
            let regs = program(expr)?;
            outputs.iter().map(|&r| regs[r as usize].clone()).collect()
        }
        KernelKind::Reduce { expr, value, op, axes } => {
            let mut regs = program(expr)?;
            by_reference(Op::Reduce { op: *op, axes: *axes }, &[regs.swap_remove(*value as usize)])?
        }
        KernelKind::Product(product) => vec![ends::run(product, s, ends)?],
        KernelKind::Copy => vec![read(&s.inputs[0])?],
        // The output holds the destination.
        KernelKind::Scatter { axis, mode } => {
            by_reference(Op::Scatter { axis: *axis, mode: *mode }, &[read(&s.outputs[0])?, read(&s.inputs[0])?, read(&s.inputs[1])?])?
        }
        other => {
            let op = match other {
                KernelKind::Matmul => Op::Matmul,
                KernelKind::Conv(spec) => Op::Conv(spec.clone()),
                KernelKind::Primitive(op) => op.clone(),
                _ => return Err(ErrorKind::Internal(format!("{} was never claimed", other.family()))),
            };
            by_reference(op, &s.inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?)?
        }
    };
    s.outputs.iter().zip(&results).try_for_each(|(o, a)| write(o, a))
}
impl Backend for Plain {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, _: &[DType]) -> Support {
        let refused = matches!(kernel, KernelKind::Composite(_)) || (matches!(kernel, KernelKind::Product(_)) && self.ends.is_none());
        if refused || (self.refuses)(kernel) { Support::No } else { Support::Native }
    }
    fn updates_in_place(&self) -> bool {
        true
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        if bytes > self.limit {
            return Err(ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None });
        }
        // Poisoned, so that reading what was never written shows.
        Ok(Box::new(HostMemory(vec![0xCD; bytes])))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let to = to.as_any_mut().downcast_mut::<HostMemory>().and_then(|m| m.0.get_mut(offset..offset + from.len()));
        to.map(|to| to.copy_from_slice(from)).ok_or_else(foreign)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let from = from.host().and_then(|b| b.get(offset..offset + to.len()));
        from.map(|from| to.copy_from_slice(from)).ok_or_else(foreign)
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        steps.iter().try_for_each(|s| run_step(s, self.ends.flatten()))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
