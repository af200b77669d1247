//! A backend of plain loops, to test the scheduler without the CPU backend: programs are run element by element,
//! every other kernel by the reference's meaning of its op. Safe code, no threads.
use adamant_core::{
    Arg, DType, Device, ErrorKind, HostArray, Layout, Op, Scalar, Shape, TensorType,
    backend::{Backend, Determinism, DeviceInfo, HostMemory, Memory, Support},
    expr::{Expr, Instr},
    kernel::{Fault, KernelKind, Operand, Step},
    op::ReduceOp,
    reference::{self, HostData, round_float, wrap_int},
};
use std::any::Any;

pub struct Naive(DeviceInfo, usize);
/// A device of its own whose memory is limited to `limit` bytes per allocation.
pub fn device(window: usize, limit: usize) -> Device {
    let info = DeviceInfo {
        backend: "naive",
        name: "plain loops".into(),
        parallelism: 1,
        details: vec![],
        determinism: Determinism::Bitwise,
        dtypes: &DType::COMPUTE,
        window_ops: window,
        window_bytes: 1 << 30,
    };
    Device::from_backend(Box::new(Naive(info, limit)))
}
fn bytes_of(buffer: &adamant_core::buffer::Buffer) -> Vec<u8> {
    buffer.read().as_deref().and_then(|m| m.host()).map(|b| b.to_vec()).unwrap_or_default()
}
fn offsets(shape: &Shape, layout: &Layout) -> Vec<usize> {
    let mut out = Vec::with_capacity(shape.elements());
    for k in 0..shape.elements() {
        let (mut rest, mut at) = (k, layout.offset as isize);
        for a in (0..shape.rank()).rev() {
            at += (rest % shape[a]) as isize * layout.strides[a];
            rest /= shape[a];
        }
        out.push(at as usize);
    }
    out
}
fn read(o: &Operand<'_>) -> HostArray {
    let (all, size) = (bytes_of(o.buffer), o.dtype.size());
    let data: Vec<u8> = offsets(&o.shape, &o.layout()).into_iter().flat_map(|at| all[at * size..(at + 1) * size].to_vec()).collect();
    HostArray::from_bytes(o.shape, o.dtype, &data)
}
fn write(o: &Operand<'_>, a: &HostArray) {
    let (data, size) = (a.to_bytes(), o.dtype.size());
    let mut guard = o.buffer.write();
    let Some(all) = guard.as_deref_mut().and_then(|m| m.as_any_mut().downcast_mut::<HostMemory>()) else { panic!("foreign memory") };
    for (k, at) in offsets(&o.shape, &o.layout()).into_iter().enumerate() {
        all.0[at * size..(at + 1) * size].copy_from_slice(&data[k * size..(k + 1) * size]);
    }
}
/// All registers of a program over its space.
fn run_expr(expr: &Expr, step: &Step<'_>) -> Vec<HostArray> {
    let n = step.space.elements();
    let inputs: Vec<HostArray> = step.inputs.iter().map(read).collect();
    let mut regs: Vec<HostArray> = Vec::new();
    for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes) {
        let get = |r: u16, k: usize| regs[r as usize].scalar(k);
        let value = |k: usize| -> Scalar {
            match *instr {
                Instr::Load(i) => inputs[i as usize].scalar(k),
                Instr::Arg(i) => step.args[i as usize],
                Instr::Const(s) => s,
                Instr::Index(a) => {
                    let inner: usize = step.space[a as usize + 1..].iter().product();
                    Scalar::Int((k / inner % step.space[a as usize]) as i64)
                }
                Instr::Random(i) => Scalar::Int(adamant_core::rng::element_bits([0, 1, 2, 3].map(|w| inputs[i as usize].int(w) as u32), k as u64) as i64),
                Instr::Unary(f, x) => reference::unary(f, get(x, k), expr.dtypes[x as usize]),
                Instr::Binary(f, x, y) => reference::binary(f, get(x, k), get(y, k), regs[x as usize].dtype).unwrap_or_else(|| {
                    step.fault.set(Fault::DivisionByZero);
                    Scalar::Int(0)
                }),
                Instr::Select(c, x, y) => {
                    if get(c, k).to_i64() != 0 {
                        get(x, k)
                    } else {
                        get(y, k)
                    }
                }
                Instr::Cast(x) => {
                    if dtype == DType::Bool {
                        Scalar::Int((get(x, k).to_f64() != 0.0) as i64)
                    } else {
                        get(x, k)
                    }
                }
                Instr::Bitcast(x) => get(x, k),
            }
        };
        let data = if dtype.is_float() {
            HostData::Float((0..n).map(|k| round_float(value(k).to_f64(), dtype)).collect())
        } else {
            HostData::Int((0..n).map(|k| wrap_int(value(k).to_i64(), dtype)).collect())
        };
        let array = HostArray { shape: step.space, dtype, data };
        regs.push(match instr {
            Instr::Bitcast(x) => HostArray::from_bytes(step.space, dtype, &regs[*x as usize].to_bytes()),
            _ => array,
        });
    }
    regs
}
impl Backend for Naive {
    fn updates_in_place(&self) -> bool {
        true
    }
    fn info(&self) -> &DeviceInfo {
        &self.0
    }
    fn supports(&self, kernel: &KernelKind, _: &[DType]) -> Support {
        if matches!(kernel, KernelKind::Composite(_) | KernelKind::Product(_)) { Support::No } else { Support::Native }
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        if bytes > self.1 {
            return Err(ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None });
        }
        // Poisoned, so that reading what was never written shows.
        Ok(Box::new(HostMemory(vec![0xCD; bytes])))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let Some(m) = to.as_any_mut().downcast_mut::<HostMemory>() else { return Err(ErrorKind::Internal("foreign memory".into())) };
        m.0[offset..offset + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let Some(b) = from.host() else { return Err(ErrorKind::Internal("foreign memory".into())) };
        to.copy_from_slice(&b[offset..offset + to.len()]);
        Ok(())
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        for s in steps {
            let out_type = |k: usize| TensorType { shape: s.outputs[k].shape, dtype: s.outputs[k].dtype };
            let types: Vec<TensorType> = (0..s.outputs.len()).map(out_type).collect();
            let results: Vec<HostArray> = match &s.kernel.kind {
                KernelKind::Map { expr, outputs } => {
                    let regs = run_expr(expr, s);
                    outputs.iter().map(|&r| regs[r as usize].clone()).collect()
                }
                KernelKind::Reduce { expr, value, op, axes } => {
                    let regs = run_expr(expr, s);
                    reference::run(&Op::Reduce { op: *op, axes: *axes }, Arg::None, &[regs[*value as usize].clone()], &types)?.0
                }
                KernelKind::Copy => vec![read(&s.inputs[0])],
                KernelKind::Scatter { axis, mode } => {
                    let inputs = [read(&s.outputs[0]), read(&s.inputs[0]), read(&s.inputs[1])];
                    let (out, fault) = reference::run(&Op::Scatter { axis: *axis, mode: *mode }, Arg::None, &inputs, &types)?;
                    fault.into_iter().for_each(|f| s.fault.set(f));
                    out
                }
                other => {
                    let op = match other {
                        KernelKind::Matmul => Op::Matmul,
                        KernelKind::Conv(c) => Op::Conv(c.clone()),
                        KernelKind::Primitive(op) => op.clone(),
                        _ => return Err(ErrorKind::Internal("not claimed".into())),
                    };
                    let inputs: Vec<HostArray> = s.inputs.iter().map(read).collect();
                    let (out, fault) = reference::run(&op, Arg::None, &inputs, &types)?;
                    fault.into_iter().for_each(|f| s.fault.set(f));
                    out
                }
            };
            for (o, a) in s.outputs.iter().zip(&results) {
                write(o, a);
            }
        }
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
#[allow(unused)]
fn _r(_: ReduceOp) {}
