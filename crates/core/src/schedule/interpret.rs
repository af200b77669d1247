//! Windows of the reference device: op by op through the interpreter, composites through their bodies. Nothing is
//! planned, fused or reused here.
use super::{Culprit, Stop, fault_error, suppress};
use crate::{
    Device, Error, ErrorKind, HostArray, Meta, Op, Tensor, TensorType, communicator,
    composite::InTensors,
    kernel::Fault,
    op::Arg,
    record::{Log, capture},
};
use adamant_runtime::{Stored, Taint, foreign::guarded};
use smallvec::smallvec;
use std::collections::HashMap;

/// The reference device: op by op, in plain f64.
pub(super) fn window(log: &mut Log) -> Result<(), Stop> {
    let mut arrays: Vec<Option<HostArray>> = vec![None; log.values.len()];
    let mut taints: Vec<Option<Error>> = vec![None; log.values.len()];
    for (number, r) in log.records.iter().enumerate() {
        let first = r.first as usize;
        let outs: Vec<_> = (0..r.outputs as usize).map(|k| log.values[first + k].clone()).collect();
        if matches!(r.op, Op::Input) {
            let absent = || ErrorKind::Internal("an input is not in memory".into());
            let read = outs[0].stored().ok_or_else(absent).and_then(|stored| read_array(&outs[0].meta, stored));
            arrays[first] = Some(read.map_err(|k| Stop::Reader(Error::at("read", k, outs[0].origin)))?);
            taints[first] = outs[0].stored().and_then(Stored::fault);
            continue;
        }
        let inputs: Vec<HostArray> = r.inputs.iter().filter_map(|&i| arrays[i as usize].clone()).collect();
        let metas: Vec<Meta> = outs.iter().map(|v| v.meta).collect();
        let (results, fault) = interpret_op(&r.op, r.arg, &inputs, &metas, log.device).map_err(|k| Stop::Records(smallvec![number], k))?;
        let taint = fault.map(|f| fault_error(Culprit::of(&r.op), f, outs[0].origin)).or_else(|| r.inputs.iter().find_map(|&i| taints[i as usize].clone()));
        for (k, a) in results.into_iter().enumerate().take(outs.len()) {
            arrays[first + k] = Some(a);
            taints[first + k] = taint.clone();
        }
    }
    for (slot, value) in log.values.iter().enumerate() {
        if let (true, Some(a)) = (value.is_to_run(), &arrays[slot]) {
            let device = value.meta.device;
            let buffer = device.pool().copied(device, &a.to_bytes()).map_err(|k| Stop::Reader(Error::at("read", k, value.origin)))?;
            value.store(Stored { taint: taints[slot].clone().map(Taint::Known), ..Stored::dense(buffer) });
        }
    }
    commit(log, &taints, log.records.len());
    log.clear();
    Ok(())
}
/// Commits the cell writes of each group, or suppresses the whole group if one of its values is tainted.
fn commit(log: &Log, taints: &[Option<Error>], _cut: usize) {
    let mut bad: HashMap<u64, Error> = HashMap::new();
    for w in &log.writes {
        if let Some(e) = &taints[w.slot as usize] {
            bad.entry(w.group).or_insert_with(|| e.clone());
        }
    }
    for w in log.writes.iter().rev() {
        match bad.get(&w.group) {
            Some(e) => {
                let value = &log.values[w.slot as usize];
                w.cell.withdraw(value, &w.previous, w.since);
                value.fail(e.clone());
            }
            None => w.cell.committed(),
        }
    }
    for (group, e) in bad {
        suppress(group, e);
    }
}
/// One op on host arrays; a composite runs its body.
fn interpret_op(op: &Op, arg: Arg, inputs: &[HostArray], metas: &[Meta], device: Device) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    if let Op::Collective { kind, group } = op {
        return Ok((vec![communicator::exchange_array(*kind, group, &inputs[0], None)?], None));
    }
    let types: Vec<TensorType> = metas.iter().map(Meta::ty).collect();
    let Op::Composite(c) = op else { return crate::reference::run(op, arg, inputs, &types) };
    if c.is_host() {
        return guarded(|| c.name().to_string(), || crate::reference::run(op, arg, inputs, &types)).flatten();
    }
    let places: Vec<Tensor> = inputs.iter().map(|a| Tensor::placeholder(Meta { shape: a.shape, dtype: a.dtype, device })).collect();
    let (outputs, stream) = capture(device, || {
        let stream_inputs: Vec<_> = places.iter().map(|t| t.value().clone()).collect();
        crate::record::register_inputs(&stream_inputs);
        guarded(|| format!("the body of {}", c.name()), || crate::grad::no_grad(|| crate::intercept::below(|| c.body(&places))))
    });
    let outputs = outputs?.map_err(|e| e.kind().clone())?;
    let log = stream.log.lock();
    let mut arrays: Vec<Option<HostArray>> = vec![None; log.values.len()];
    let mut fault = None;
    let mut next_input = 0;
    for r in &log.records {
        let first = r.first as usize;
        if matches!(r.op, Op::Input) {
            arrays[first] = match inputs.get(next_input) {
                Some(a) => Some(a.clone()),
                // A constant tensor the body made from host data.
                None => {
                    let v = &log.values[first];
                    v.stored().map(|s| read_array(&v.meta, s)).transpose()?
                }
            };
            next_input += 1;
            continue;
        }
        let ins: Vec<HostArray> = r.inputs.iter().filter_map(|&i| arrays[i as usize].clone()).collect();
        let metas: Vec<Meta> = (0..r.outputs as usize).map(|k| log.values[first + k].meta).collect();
        let (results, f) = interpret_op(&r.op, r.arg, &ins, &metas, device)?;
        fault = fault.or(f);
        for (k, a) in results.into_iter().enumerate() {
            arrays[first + k] = Some(a);
        }
    }
    let mut out = Vec::new();
    for t in outputs {
        let t = t.ok().map_err(|e| e.kind().clone())?;
        let slot = t.value().slot(log.epoch).ok_or_else(|| ErrorKind::Internal("a body returned a tensor of elsewhere".into()))?;
        out.push(arrays[slot as usize].clone().ok_or_else(|| ErrorKind::Internal("a body's output did not run".into()))?);
    }
    Ok((out, fault))
}
fn read_array(meta: &Meta, stored: &Stored) -> Result<HostArray, ErrorKind> {
    let mut whole = vec![0u8; stored.buffer.bytes()];
    stored.buffer.download(0, &mut whole)?;
    let size = meta.dtype.size();
    let mut bytes = Vec::with_capacity(meta.bytes());
    stored.layout(&meta.shape).for_each_offset(&meta.shape, |at| bytes.extend_from_slice(&whole[at * size..(at + 1) * size]));
    Ok(HostArray::from_bytes(meta.shape, meta.dtype, &bytes))
}
