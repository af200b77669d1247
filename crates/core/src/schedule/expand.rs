//! A window's records as one flat list of primitives: composites and families of kernels that the device does not claim
//! are replaced by their bodies, which are captured on placeholders. All decisions are made on this list.
use super::{join, lower};
use crate::{
    Device, ErrorKind, Meta, Op, Tensor,
    backend::Support,
    composite::{InTensors, OperandSet},
    foreign::guarded,
    kernel::KernelKind,
    op::{Arg, View},
    record::{Log, Record, capture, register_inputs},
    shape::Layout,
};
use adamant_runtime::plan::{ArgFrom, Graph, NONE, RecordError, Source};
use smallvec::SmallVec;

/// Expands the first `cut` records, of which those that are `needed` run.
pub(crate) fn expand(log: &Log, cut: usize, needed: &[bool]) -> Result<Graph, RecordError> {
    let slots = log.records.get(cut).map_or(log.values.len(), |r| r.first as usize);
    let mut g = Graph { of_slot: vec![NONE; slots], hash: 0xADA, ..Graph::default() };
    for (k, r) in log.records[..cut].iter().enumerate() {
        let metas: Vec<Meta> = (0..r.outputs as usize).map(|o| log.values[r.first as usize + o].meta).collect();
        if matches!(r.op, Op::Input) {
            let v = g.node(Op::Input, ArgFrom::Body(Arg::None), SmallVec::new(), metas.into_iter(), k as u32);
            let value = &log.values[r.first as usize];
            if let Some(stored) = value.stored() {
                g.dense[v as usize] = stored.is_dense(&value.meta.shape);
                // Sizes of one do not step: a dense layout's strides may be anything there.
                g.layouts.insert(v, if g.dense[v as usize] { Layout::dense(&value.meta.shape) } else { stored.layout(&value.meta.shape) });
            }
            g.inputs.push((v, Source::Slot(r.first)));
            g.of_slot[r.first as usize] = v;
            continue;
        }
        let inputs: SmallVec<[u32; 3]> = r.inputs.iter().map(|&i| g.of_slot[i as usize]).collect();
        let joint = if needed[k] { join::find(&g, log.device, &r.op, &inputs, &metas) } else { None };
        let outs = match joint {
            Some(joint) => joint.place(&mut g, metas, k as u32),
            None => place(&mut g, log.device, r, &inputs, metas, k as u32, ArgFrom::Record(k as u32)).map_err(|e| (k, e))?,
        };
        for (o, v) in outs.into_iter().enumerate().take(r.outputs as usize) {
            g.of_slot[r.first as usize + o] = v;
        }
    }
    Ok(g)
}

/// Places one record (of the window or of a body) and returns the values of its outputs.
fn place(g: &mut Graph, device: Device, r: &Record, inputs: &[u32], metas: Vec<Meta>, record: u32, arg: ArgFrom) -> Result<Vec<u32>, ErrorKind> {
    let dtypes: SmallVec<[_; 4]> = inputs.iter().map(|&i| g.vals[i as usize].meta.dtype).chain(metas.iter().map(|m| m.dtype)).collect();
    if let Op::Composite(c) = &r.op {
        let native = device.backend().supports(&KernelKind::Composite(c.function().clone()), &dtypes) == Support::Native;
        if !native {
            if c.is_host() {
                return Err(ErrorKind::Unsupported {
                    backend: device.info().backend.into(),
                    what: format!("{} runs on the host; move its inputs with `.to(cpu)`", c.name()),
                });
            }
            return inline(g, device, c.name(), &|x| c.body(x), inputs, record);
        }
    }
    if let Some(body) = lower::body(&r.op, device, &dtypes) {
        return inline(g, device, r.op.name(), &*body, inputs, record);
    }
    let n = metas.len() as u32;
    let mut inputs: SmallVec<[u32; 3]> = SmallVec::from_slice(inputs);
    if r.op.reads_dense() {
        // These kernels read dense memory, but for rows: what has gaps is reshaped to its own shape, which moves it.
        let rows = rows_of(&r.op, device);
        for (k, i) in inputs.iter_mut().enumerate() {
            let is_row = |g: &Graph| rows.inputs >> k & 1 == 1 && g.is_aligned(*i, &g.layout(*i));
            if !g.dense[*i as usize] && !is_row(g) {
                let meta = g.vals[*i as usize].meta;
                *i = g.node(Op::View(View::Reshape(meta.shape)), ArgFrom::Body(Arg::None), SmallVec::from_slice(&[*i]), std::iter::once(meta), record);
            }
        }
    }
    if let (Op::View(View::Reshape(_)), &[source]) = (&r.op, &inputs[..])
        && !g.dense[source as usize]
    {
        g.make_in_order_of(source, |op| rows_of(op, device));
    }
    let first = g.node(r.op.clone(), arg, inputs, metas.into_iter(), record);
    Ok((first..first + n).collect())
}
/// The operands of an op that its kernel on this device takes as rows wherever they lie.
fn rows_of(op: &Op, device: Device) -> OperandSet {
    match op {
        Op::Composite(c) if c.rows() != OperandSet::default() && device.backend().takes_rows(&**c.function()) => c.rows(),
        _ => OperandSet::default(),
    }
}

/// What an op is made of: plain tensor code.
type Body<'a> = dyn Fn(&[Tensor]) -> crate::Result<Vec<Tensor>> + 'a;
/// Captures the body of an op on placeholders and places its records.
fn inline(g: &mut Graph, device: Device, name: &str, body: &Body<'_>, inputs: &[u32], record: u32) -> Result<Vec<u32>, ErrorKind> {
    let places: Vec<Tensor> = inputs.iter().map(|&i| Tensor::placeholder(g.vals[i as usize].meta)).collect();
    let (outputs, stream) = capture(device, || {
        let values: Vec<_> = places.iter().map(|t| t.value().clone()).collect();
        register_inputs(&values);
        guarded(|| format!("the body of {name}"), || crate::grad::no_grad(|| crate::intercept::below(|| body(&places))))
    });
    let outputs = outputs?.map_err(|e| e.kind().clone())?;
    let mut log = stream.log.lock();
    // An output that is a constant of the body needs a slot too.
    for t in &outputs {
        if let Some(e) = t.error() {
            return Err(e.kind().clone());
        }
        log.slot_of(t.value())?;
    }
    let mut map = vec![NONE; log.values.len()];
    let mut next = 0;
    for b in &log.records {
        let first = b.first as usize;
        if matches!(b.op, Op::Input) {
            map[first] = match inputs.get(next) {
                Some(&i) => i,
                None => {
                    let value = log.values[first].clone();
                    let Some(stored) = value.stored().cloned() else {
                        return Err(ErrorKind::Internal(format!("the body of {name} uses a tensor that is not in memory")));
                    };
                    let v = g.node(Op::Input, ArgFrom::Body(Arg::None), SmallVec::new(), std::iter::once(value.meta), record);
                    g.inputs.push((v, Source::Constant(stored)));
                    v
                }
            };
            next += 1;
            continue;
        }
        let ins: SmallVec<[u32; 3]> = b.inputs.iter().map(|&i| map[i as usize]).collect();
        let metas = (0..b.outputs as usize).map(|o| log.values[first + o].meta).collect();
        for (o, v) in place(g, device, b, &ins, metas, record, ArgFrom::Body(b.arg))?.into_iter().enumerate() {
            if let Some(slot) = map.get_mut(first + o) {
                *slot = v;
            }
        }
    }
    let elsewhere = || ErrorKind::Internal(format!("the body of {name} returned a tensor of elsewhere"));
    outputs.iter().map(|t| t.value().slot(log.epoch).and_then(|s| map.get(s as usize).copied()).filter(|v| *v != NONE).ok_or_else(elsewhere)).collect()
}
