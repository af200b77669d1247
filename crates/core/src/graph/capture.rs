//! Capture: the graph of a function of tensors. What the function does is recorded into a window of its own, and nothing runs.
use super::{At, Constant, Data, Graph, GraphError, HoldsElements, State, Write, ir};
use crate::{
    Device, Error, ErrorKind, Meta, Op, Result, Tensor,
    cell::{Cell, Overlay, OverlayGuard, OverlayKind},
    composite::{InTensors, Keyed},
    error::Origin,
    foreign::guarded,
    record::{Log, Record, capture, register_inputs},
};
use std::{cell::Cell as Flag, collections::HashMap, sync::Arc};

thread_local! {
    /// Is this thread recording a graph? Then what stops a gradient leaves an op.
    static RECORDS_STOPS: Flag<bool> = const { Flag::new(false) };
}
/// Does a detached tensor have to leave a `stop_grad` behind?
pub(crate) fn records_stops() -> bool {
    RECORDS_STOPS.try_with(Flag::get).unwrap_or(false)
}
/// Runs `f` so that it does.
fn recording_stops<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = RECORDS_STOPS.try_with(|flag| flag.set(self.0));
        }
    }
    let _restore = Restore(RECORDS_STOPS.try_with(|flag| flag.replace(true)).unwrap_or(false));
    f()
}

impl HoldsElements for Tensor {
    fn bytes(&self) -> std::result::Result<Arc<[u8]>, ErrorKind> {
        self.to_bytes().map(Into::into).map_err(|e| e.kind().clone())
    }
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
    /// A tensor that is detached leaves a `stop_grad`. What leaves no op behind is not in the graph: [`crate::no_grad`] stops the
    /// gradients of `f`, and not those of [`Graph::execute`]; a captured tensor is a constant, also where it was tracked.
    ///
    /// # Errors
    /// Whatever `f` returns; an output that carries an error; a read of data inside `f`.
    #[track_caller]
    pub fn capture(device: Device, inputs: &[Meta], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Graph> {
        captured(device, inputs, Origin::here(), |x| f(x)).map(Graph)
    }
    /// As [`Graph::capture`], with the names of the inputs, and of the cells where `name_of` knows one: a model gives the path
    /// of a parameter.
    ///
    /// ```
    /// # use adamant_core::{Cell, Device, DType, Meta, Shape, Tensor, graph::Graph};
    /// let device = Device::reference();
    /// let weight = device.scoped(|| Cell::new(&Tensor::ones([3]), true))?;
    /// let x = Meta { shape: Shape::new(&[3]).map_err(|e| e.to_string())?, dtype: DType::F32, device };
    /// let name_of = |id| (id == weight.id()).then(|| "scale.weight".to_string());
    /// let graph = Graph::capture_named(device, &[("x", x)], name_of, |x| Ok(vec![&x[0] * weight.get()]))?;
    /// assert!(graph.text()?.text.contains("%mul: f32[3] = mul(%x, %scale.weight)"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Graph::capture`].
    #[track_caller]
    pub fn capture_named(
        device: Device,
        inputs: &[(&str, Meta)],
        name_of: impl Fn(u64) -> Option<String>,
        f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Graph> {
        let metas: Vec<Meta> = inputs.iter().map(|(_, m)| *m).collect();
        let mut graph = captured(device, &metas, Origin::here(), |x| f(x))?;
        for (&value, (name, _)) in graph.inputs.iter().zip(inputs) {
            graph.names.insert(value, (*name).into());
        }
        for cell in &mut graph.cells {
            cell.name = name_of(cell.id).map(Into::into);
        }
        Ok(Graph(graph))
    }
    /// Binds cells of this program to the graph's by their names, as a graph that was read needs before it runs.
    ///
    /// # Errors
    /// A cell of another shape or dtype than the graph's; a cell of the graph that `cell_of` does not know.
    #[track_caller]
    pub fn bind_cells(&mut self, cell_of: impl Fn(&str) -> Option<Cell>) -> Result<()> {
        for state in &mut self.cells {
            let name = state.name.as_deref().unwrap_or_default();
            let cell = cell_of(name).ok_or_else(|| GraphError::Unbound { cell: name.into() }.error())?;
            let meta = cell.meta();
            if meta.ty() != state.ty {
                let what = format!("the cell `{name}` holds {}, and the graph wants {}", meta.ty(), state.ty);
                return Err(Error::new("graph", ErrorKind::Argument(what)));
            }
            state.id = cell.id();
            state.held = Some(Arc::new(cell));
        }
        Ok(())
    }
}

fn captured(device: Device, inputs: &[Meta], origin: Origin, f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<ir::Graph> {
    let places: Vec<Tensor> = inputs.iter().map(|&meta| Tensor::placeholder(meta)).collect();
    let overlay = OverlayGuard::push(Overlay::new(OverlayKind::Capture));
    let (outputs, stream) = capture(device, || recording_stops(|| f(&places)));
    let overlay = overlay.pop().unwrap_or_else(|| Overlay::new(OverlayKind::Capture));
    let outputs = outputs?.into_iter().map(|t| t.detach().ok()).collect::<Result<Vec<_>>>()?;
    let touched: HashMap<u64, &Cell> = overlay.touched.iter().map(|cell| (cell.id(), cell)).collect();
    let written: Vec<(&Cell, &Tensor)> = overlay.written.iter().filter_map(|id| Some((*touched.get(id)?, overlay.values.get(id)?))).collect();
    let mut log = stream.log.lock();
    let mut slots = |tensors: &mut dyn Iterator<Item = &Tensor>| -> Result<Vec<u32>> {
        tensors.map(|t| log.slot_of(t.value()).map_err(|why| Error::at("capture", why.into(), origin))).collect()
    };
    let (inputs, outputs) = (slots(&mut places.iter())?, slots(&mut outputs.iter())?);
    let reads = slots(&mut overlay.reads.iter().map(|(_, place)| place))?;
    let writes = slots(&mut written.iter().map(|(_, value)| *value))?;
    let mut graph = graph_of(&log, device);
    (graph.inputs, graph.outputs) = (inputs, outputs);
    let mut number: HashMap<u64, u32> = HashMap::new();
    let mut touch = |graph: &mut ir::Graph, cell: &Cell| {
        *number.entry(cell.id()).or_insert_with(|| {
            let meta = cell.meta();
            let held = Some(Arc::new(cell.clone()) as _);
            graph.cells.push(State { id: cell.id(), name: None, ty: meta.into(), place: meta.device.id(), trainable: cell.is_trainable(), read: None, held });
            graph.cells.len() as u32 - 1
        })
    };
    for (value, (cell, _)) in reads.iter().zip(&overlay.reads) {
        let cell = touch(&mut graph, cell);
        graph.cells[cell as usize].read = Some(*value);
    }
    for (value, (cell, _)) in writes.iter().zip(&written) {
        let cell = touch(&mut graph, cell);
        graph.writes.push(Write { cell, value: *value, group: 0 });
    }
    // What the window has as an input and nobody passed in is a constant.
    let given: std::collections::HashSet<u32> = graph.inputs.iter().copied().chain(reads).collect();
    for record in log.records.iter().filter(|r| matches!(r.op, Op::Input) && !given.contains(&r.first)) {
        let held = Data::Held(Arc::new(Tensor::from_value(log.values[record.first as usize].clone())));
        graph.constants.push(Constant { value: record.first, data: held });
    }
    Ok(graph)
}
/// The ops of a window, with its values.
fn graph_of(log: &Log, home: Device) -> ir::Graph {
    let mut graph = ir::Graph::new(home);
    graph.nodes.reserve(log.records.len());
    graph.values.reserve(log.values.len());
    graph.places.reserve(log.values.len());
    for r in &log.records {
        let metas = |r: &Record| (r.first..r.first + u32::from(r.outputs)).map(|v| log.values[v as usize].meta).collect::<Vec<_>>();
        if matches!(r.op, Op::Input) {
            for m in metas(r) {
                graph.add_value(m.into(), m.device);
            }
        } else {
            let origin = log.values[r.first as usize].origin;
            graph.add_node(r.op.clone(), r.arg, &r.inputs, metas(r), origin.scope, At::Code(origin.at));
        }
    }
    graph
}
/// What a composite is made of, as a graph of its own: all outputs, auxiliary ones too.
///
/// # Errors
/// What the body returns; it is defined on the host.
pub(super) fn body_of(composite: &Keyed, inputs: &[Meta]) -> std::result::Result<ir::Graph, ErrorKind> {
    let device = inputs.first().map(|m| m.device).ok_or_else(|| ErrorKind::Internal(format!("{} has no inputs", composite.name())))?;
    let body = |x: &[Tensor]| {
        register_inputs(&x.iter().map(|t| t.value().clone()).collect::<Vec<_>>());
        let body = || crate::grad::no_grad(|| crate::intercept::below(|| composite.body(x)));
        guarded(|| format!("the body of {}", composite.name()), body).map_err(|k| Error::new("graph", k))?
    };
    captured(device, inputs, Origin::here(), body).map_err(|e| e.kind().clone())
}
