//! A graph that is replayed, with other elements and other arguments each time, against the host's arithmetic.
use super::{Differs, decoded, encoded};
use crate::{graph::CudaGraph, launch::Launches, memory::DeviceBlock, opened::Opened};
use adamant_kernels::{Array, Work, skeleton};
use adamant_runtime::{
    DType, ErrorKind, Scalar, Shape,
    backend::{FrozenRun, FrozenSteps, Queue},
    expr::{Expr, Instr},
    kernel::{Kernel, KernelKind},
    scalar::Binary,
};
use std::{ptr, sync::Arc};

const ELEMENTS: usize = 100;

/// How a replay differs.
///
/// # Errors
/// A lost device, memory.
pub(super) fn differ(opened: &Arc<Opened>) -> Result<Differs, ErrorKind> {
    let mut expr = Expr::default();
    let (x, factor) = (expr.push(Instr::Load(0), DType::F32), expr.push(Instr::Arg(0), DType::F32));
    let scaled = expr.push(Instr::Binary(Binary::Mul, x, factor), DType::F32);
    let kernel = Kernel::new(KernelKind::Map { expr, outputs: vec![scaled] });
    let args = [Scalar::Float(2.0)];
    let blocks = [DeviceBlock::new(opened, ELEMENTS * 4)?, DeviceBlock::new(opened, ELEMENTS * 4)?];
    let space = Shape::new(&[ELEMENTS])?;
    let array = |buffer: usize| Array { buffer, shape: space, offset: 0, strides: space.strides(), dtype: DType::F32, dense: true };
    let (inputs, outputs) = ([array(1)], [array(2)]);
    let mut launches = Launches::for_graph(opened);
    launches.begin_at(&kernel, &[(1, blocks[0].address), (2, blocks[1].address)]);
    skeleton::record(&mut launches, &kernel.kind, &Work { space, inputs: &inputs, outputs: &outputs, args: &args })?;
    let own = ptr::from_ref(&args[0]) as usize;
    let graph = CudaGraph::new(opened, launches.freeze(|place| (place == own).then_some(0))?, None);
    for (run, factor) in [2.0, 3.0, 3.0, -5.0].into_iter().enumerate() {
        let numbers: Vec<f64> = (0..ELEMENTS).map(|k| (k + 10 * run) as f64).collect();
        opened.copy_in(Queue::Compute, blocks[0].address, &encoded(DType::F32, &numbers), &[])?;
        let args = [Scalar::Float(factor)];
        let (event, _) = graph.run(&FrozenRun { args: &args, copies: [&[], &[]], inherited: &[] }, &[])?;
        opened.wait(event)?;
        let mut bytes = vec![0; ELEMENTS * 4];
        opened.copy_out(Queue::Compute, blocks[1].address, bytes.len(), &[])?.finish(&mut bytes)?;
        let result = decoded(DType::F32, &bytes);
        let expected = numbers.iter().map(|n| n * factor);
        if let Some((k, (is, expected))) = result.iter().zip(expected).enumerate().find(|(_, (is, expected))| **is != *expected) {
            return Ok(Some(format!("replay {run} gives {is} at [{k}], and not {expected}")));
        }
    }
    Ok(None)
}
