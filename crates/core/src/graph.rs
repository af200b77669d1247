//! The graph of a function: its ops as a flat list in static single assignment form, composites whole. Nothing is run
//! to get it, so a summary or an export sees what a model would do without memory for doing it.
//!
//! Invariants: a value is a number from 0 on; nodes stand in the order they were applied, so every input of a node is
//! an input of the graph, a cell, a constant, or an output of a node before it.
use crate::{
    Arg, Device, Error, Meta, Op, Result, Tensor,
    cell::{Overlay, OverlayGuard, OverlayKind},
    error::Origin,
    grad::reads_of,
    record::{Log, capture},
    scope::ScopeId,
};
use std::ops::Range;

/// One op of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// the op
    pub op: Op,
    /// what changes from call to call
    pub arg: Arg,
    /// the values it reads
    pub inputs: Vec<u32>,
    /// the values it makes
    pub outputs: Range<u32>,
    /// the layer it was applied in
    pub scope: ScopeId,
    /// those of its inputs and outputs that its gradient reads; empty if no gradient flows through it
    pub saved: Vec<u32>,
}
/// A captured function.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// shape, dtype and device of each value
    pub values: Vec<Meta>,
    /// the ops in order
    pub nodes: Vec<Node>,
    /// the values that were passed in
    pub inputs: Vec<u32>,
    /// the values that were returned
    pub outputs: Vec<u32>,
    /// the values that were read from cells, with their `id`
    pub cells: Vec<(u32, u64)>,
}

impl Graph {
    /// Records what `f` does with inputs of these kinds on a device, and runs none of it. Cells that it writes stay as
    /// they are. A constant of `f` that was recorded before and has not run yet is run first.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Meta, Shape, graph::Graph};
    /// let device = Device::reference();
    /// let x = Meta { shape: Shape::new(&[2, 3]).map_err(|e| e.to_string())?, dtype: DType::F32, device };
    /// let graph = Graph::capture(device, &[x], |x| Ok(vec![(&x[0] * 2.0).exp()]))?;
    /// assert_eq!(graph.nodes.iter().map(|n| n.op.name()).collect::<Vec<_>>(), ["mul", "exp"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Whatever `f` returns; an output that carries an error; a read of data inside `f`.
    #[track_caller]
    pub fn capture(device: Device, inputs: &[Meta], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Graph> {
        let origin = Origin::here();
        let places: Vec<Tensor> = inputs.iter().map(|&meta| Tensor::placeholder(meta)).collect();
        let overlay = OverlayGuard::push(Overlay::new(OverlayKind::Capture));
        let (outputs, stream) = capture(device, || f(&places));
        let reads = overlay.pop().map(|overlay| overlay.reads).unwrap_or_default();
        let outputs = outputs?.into_iter().map(|t| t.detach().ok()).collect::<Result<Vec<_>>>()?;
        let mut log = stream.log.lock();
        let mut slots = |tensors: &mut dyn Iterator<Item = &Tensor>| -> Result<Vec<u32>> {
            tensors.map(|t| log.slot_of(t.value()).map_err(|why| Error::at("capture", why.into(), origin))).collect()
        };
        let (inputs, outputs) = (slots(&mut places.iter())?, slots(&mut outputs.iter())?);
        let read = slots(&mut reads.iter().map(|(_, place)| place))?;
        let cells = read.into_iter().zip(reads.iter().map(|(cell, _)| cell.id())).collect();
        Ok(Graph { values: log.values.iter().map(|v| v.meta).collect(), nodes: nodes(&log), inputs, outputs, cells })
    }
}
fn nodes(log: &Log) -> Vec<Node> {
    let made = log.records.iter().filter(|r| !matches!(r.op, Op::Input));
    made.map(|r| {
        let outputs = r.first..r.first + u32::from(r.outputs);
        let reads = reads_of(&r.op, r.inputs.len());
        let picked = |mask: u32| move |k: &usize| *k < 32 && mask >> k & 1 == 1;
        let from_inputs = (0..r.inputs.len()).filter(picked(reads.inputs)).map(|k| r.inputs[k]);
        let from_outputs = (0..usize::from(r.outputs)).filter(picked(reads.outputs)).map(|k| r.first + k as u32);
        Node {
            op: r.op.clone(),
            arg: r.arg,
            inputs: r.inputs.to_vec(),
            saved: from_inputs.chain(from_outputs).collect(),
            scope: log.values[r.first as usize].origin.scope,
            outputs,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, DType, ErrorKind, Shape};

    fn meta(dims: &[usize]) -> Meta {
        Meta { shape: Shape::new(dims).unwrap(), dtype: DType::F32, device: Device::reference() }
    }

    #[test]
    fn a_capture_that_runs_something_or_changes_a_cell() {
        let device = Device::reference();
        let cell = device.scoped(|| Cell::new(&Tensor::ones([3]), true)).unwrap();
        cell.read().eval().unwrap();
        let (version, requests) = (cell.version(), device.memory().requests);
        let graph = Graph::capture(device, &[meta(&[2, 3])], |x| {
            let y = &x[0] * &cell.get();
            cell.set(&y.sum(0))?;
            Ok(vec![&y + &cell.get(), x[0].clone()])
        })
        .unwrap();
        assert_eq!((cell.version(), device.memory().requests), (version, requests));
        let names: Vec<_> = graph.nodes.iter().map(|n| n.op.name()).collect();
        assert_eq!((names.first(), names.last()), (Some(&"mul"), Some(&"add")));
        assert_eq!(graph.cells.len(), 1);
        assert_eq!(graph.outputs[1], graph.inputs[0]);
        // A product keeps both sides, a sum keeps nothing.
        assert_eq!((graph.nodes[0].saved.clone(), graph.nodes.last().map(|n| n.saved.len())), (graph.nodes[0].inputs.clone(), Some(0)));
        assert_eq!(*graph.values[graph.outputs[0] as usize].shape, [2, 3]);
    }
    #[test]
    fn a_read_inside_that_gives_data_or_leaves_the_thread_capturing() {
        let device = Device::reference();
        let failed = Graph::capture(device, &[meta(&[2])], |x| {
            (&x[0] + 1.0).to_vec::<f32>()?;
            Ok(vec![])
        });
        assert_eq!(failed.unwrap_err().kind(), &ErrorKind::Capturing);
        let wrong = Graph::capture(device, &[meta(&[2]), meta(&[3])], |x| Ok(vec![&x[0] + &x[1]]));
        assert_eq!(wrong.unwrap_err().kind().word(), "shape");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Graph::capture(device, &[], |_| panic!("planted")).is_ok()));
        assert!(panicked.is_err());
        assert_eq!(device.scoped(|| Tensor::ones([2]).to_vec::<f32>()).unwrap(), [1.0, 1.0]);
    }
}
