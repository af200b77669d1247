//! From a window to results: what must run is planned once per structure, sized once per size, and replayed.
use crate::{
    Device, Error, ErrorKind, HostArray, Layout, Meta, Op, Tensor,
    buffer::Buffer,
    error::Origin,
    kernel::Fault,
    op::Arg,
    record::{Log, capture},
    value::{State, Stored},
};
use parking_lot::Mutex;
use std::{cell::RefCell, collections::HashMap, sync::{Arc, LazyLock}};

/// What the scheduler has done on this thread, for tests and profiles.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// windows or parts of windows that ran
    pub flushes: u64,
    /// plans found by structure and sizes
    pub hits: u64,
    /// plans found by structure, sized anew
    pub resizes: u64,
    /// plans made
    pub misses: u64,
    /// kernels run
    pub kernels: u64,
    /// ops that ran inside a kernel of another op
    pub fused: u64,
    /// buffers reused in place
    pub donated: u64,
    /// copies made because a buffer was still held
    pub copies: u64,
    /// values computed again for the backward
    pub recomputed: u64,
    /// values that only the tape held and that were not written
    pub deferred: u64,
    /// groups of cell writes that were withheld
    pub withheld: u64,
}
thread_local! {
    static STATS: RefCell<Stats> = RefCell::new(Stats::default());
    static WITHHELD: RefCell<HashMap<u64, Error>> = RefCell::new(HashMap::new());
}
pub(crate) fn count(f: impl FnOnce(&mut Stats)) {
    STATS.with(|s| f(&mut s.borrow_mut()));
}
/// The counters of this thread since the last call, which are set back.
pub fn take_stats() -> Stats {
    STATS.with(|s| s.take())
}
/// The error for which a group of cell writes was withheld.
pub(crate) fn take_withheld(group: u64) -> Option<Error> {
    WITHHELD.with(|w| w.borrow_mut().remove(&group))
}
pub(crate) fn withhold(group: u64, error: Error) {
    count(|s| s.withheld += 1);
    WITHHELD.with(|w| w.borrow_mut().insert(group, error));
}

/// A place without memory, for inputs of captures.
pub(crate) fn no_buffer(meta: Meta) -> Stored {
    static NONE: LazyLock<Mutex<HashMap<u32, Arc<Buffer>>>> = LazyLock::new(Default::default);
    let mut none = NONE.lock();
    let buffer = none.entry(meta.device.index()).or_insert_with(|| Arc::new(Buffer::empty(meta.device))).clone();
    Stored { buffer, layout: Layout::dense(&meta.shape), taint: None }
}

/// Runs the first `cut` records of a window and starts it anew with the rest.
pub(crate) fn flush(log: &mut Log, cut: usize) -> Result<(), Error> {
    if log.records.is_empty() || cut == 0 {
        return Ok(());
    }
    count(|s| s.flushes += 1);
    interpret(log)
}

/// The reference device: op by op, in plain f64.
fn interpret(log: &mut Log) -> Result<(), Error> {
    let mut arrays: Vec<Option<HostArray>> = vec![None; log.values.len()];
    let mut taints: Vec<Option<Error>> = vec![None; log.values.len()];
    for r in &log.records {
        let first = r.first as usize;
        let outs: Vec<_> = (0..r.outputs as usize).map(|k| (*log.values[first + k]).clone()).collect();
        if matches!(r.op, Op::Input) {
            let stored = outs[0].stored().ok_or_else(|| Error::at("read", ErrorKind::Internal("an input is not in memory".into()), outs[0].origin))?;
            arrays[first] = Some(read_array(&outs[0].meta, &stored)?);
            taints[first] = stored.taint;
            continue;
        }
        let inputs: Vec<HostArray> = r.inputs.iter().filter_map(|&i| arrays[i as usize].clone()).collect();
        let metas: Vec<Meta> = outs.iter().map(|v| v.meta).collect();
        let (results, fault) = interpret_op(&r.op, r.arg, &inputs, &metas, log.device).map_err(|k| Error::at(r.op.name(), k, outs[0].origin))?;
        let taint = fault.map(|f| fault_error(&r.op, f, outs[0].origin)).or_else(|| r.inputs.iter().find_map(|&i| taints[i as usize].clone()));
        for (k, a) in results.into_iter().enumerate().take(outs.len()) {
            arrays[first + k] = Some(a);
            taints[first + k] = taint.clone();
        }
    }
    for (slot, value) in log.values.iter().enumerate() {
        let pending = matches!(*value.state.lock(), State::Pending);
        if let (true, Some(a)) = (pending, &arrays[slot]) {
            let bytes = a.to_bytes();
            let device = value.meta.device;
            let buffer = device.pool().take(device, bytes.len()).map_err(|k| Error::at("read", k, value.origin))?;
            if let Some(m) = buffer.write().as_deref_mut() {
                device.backend().upload(m, 0, &bytes).map_err(|k| Error::at("read", k, value.origin))?;
            }
            *value.state.lock() = State::Ready(Stored { buffer, layout: Layout::dense(&value.meta.shape), taint: taints[slot].clone() });
        }
    }
    commit(log, &taints, log.records.len());
    log.clear();
    Ok(())
}
/// Commits the cell writes of each group, or withholds the whole group if one of its values is tainted.
fn commit(log: &Log, taints: &[Option<Error>], _cut: usize) {
    let mut bad: HashMap<u64, Error> = HashMap::new();
    for w in &log.writes {
        if let Some(e) = &taints[w.slot as usize] {
            bad.entry(w.group).or_insert_with(|| e.clone());
        }
    }
    for w in log.writes.iter().rev() {
        match bad.get(&w.group) {
            Some(_) => w.cell.withdraw(&log.values[w.slot as usize], &w.previous),
            None => w.cell.committed(),
        }
    }
    for (group, e) in bad {
        withhold(group, e);
    }
}
/// One op on host arrays; a composite runs its body.
fn interpret_op(op: &Op, arg: Arg, inputs: &[HostArray], metas: &[Meta], device: Device) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    let Op::Composite(c) = op else { return crate::reference::run(op, arg, inputs, metas) };
    if c.is_host() {
        return crate::reference::run(op, arg, inputs, metas);
    }
    let places: Vec<Tensor> = inputs.iter().map(|a| Tensor::placeholder(Meta { shape: a.shape, dtype: a.dtype, device })).collect();
    let (outputs, stream) = capture(device, || {
        let stream_inputs: Vec<_> = places.iter().map(|t| t.value().clone()).collect();
        crate::record::register_inputs(&stream_inputs);
        crate::grad::no_grad(|| crate::intercept::below(|| c.body(&places)))
    });
    let outputs = outputs.map_err(|e| e.kind().clone())?;
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
                    v.stored().map(|s| read_array(&v.meta, &s)).transpose().map_err(|e| e.kind().clone())?
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
/// The error a fault becomes.
pub(crate) fn fault_error(op: &Op, fault: Fault, origin: Origin) -> Error {
    let kind = match fault {
        Fault::Index { index, bound, position } => ErrorKind::Index { index, bound, position: Some(position) },
        Fault::DivisionByZero => ErrorKind::Domain("an integer was divided by zero".into()),
        Fault::Domain(s) => ErrorKind::Domain(s),
    };
    Error::at(op.name(), kind, origin)
}
fn read_array(meta: &Meta, stored: &Stored) -> Result<HostArray, Error> {
    let mut whole = vec![0u8; stored.buffer.bytes()];
    stored.buffer.download(0, &mut whole).map_err(|k| Error::new("read", k))?;
    let size = meta.dtype.size();
    let mut bytes = Vec::with_capacity(meta.bytes());
    crate::tensor::for_each_offset(&meta.shape, &stored.layout, |at| bytes.extend_from_slice(&whole[at * size..(at + 1) * size]));
    Ok(HostArray::from_bytes(meta.shape, meta.dtype, &bytes))
}
