//! Evaluation: a graph as a function again. Its ops go through the ordinary dispatch, one after the other, so they are recorded,
//! fused, differentiated and intercepted like those of any program, on whatever device the inputs are.
use super::{At, Constant, Data, Graph, GraphError, State};
use crate::{Cell, Device, DeviceId, Error, ErrorKind, Op, Origin, Result, Tensor, scope};
use std::any::Any;

impl Graph {
    /// The outputs for these inputs. Cells are read when it is called, and what the graph writes to them is committed together
    /// at the end. Values are let go of behind their last reader.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Meta, Shape, Tensor, graph::Graph, tensor};
    /// # Device::reference().make_current();
    /// let x = tensor![1.0, 2.0].tracked();
    /// let graph = Graph::capture(x.device()?, &[x.try_meta()?], |x| Ok(vec![x[0].square().sum(..)]))?;
    /// let y = &graph.execute(&[&x])?[0];
    /// assert_eq!(y.item::<f32>()?, 5.0);
    /// assert_eq!(y.backward()?.get(&x).unwrap().to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Inputs of other types than the graph's, or another number of them; inputs on two devices; a cell that is not bound
    /// ([`Graph::bind_cells`]); a constant without elements. What goes wrong in an op is told by its outputs.
    #[track_caller]
    pub fn execute(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let here = Origin::here();
        let fail = |what: String| Error::at("graph execute", ErrorKind::Argument(what), here);
        if inputs.len() != self.inputs.len() {
            return Err(fail(format!("the graph takes {} inputs, not {}", self.inputs.len(), inputs.len())));
        }
        let device = self.device_for(inputs)?;
        let mut left = self.uses();
        let mut values: Vec<Option<Tensor>> = vec![None; self.values.len()];
        let mut defined = |value: u32, tensor: Tensor| {
            if let Some(place) = values.get_mut(value as usize) {
                *place = Some(tensor);
            }
        };
        for (k, (&value, given)) in self.inputs.iter().zip(inputs).enumerate() {
            let (meta, want) = (given.try_meta()?, self.values[value as usize]);
            if meta.ty() != want {
                return Err(fail(format!("input {k} is {want}, not {}", meta.ty())));
            }
            let place = self.place_on(value, device)?;
            if meta.device != place {
                return Err(Error::at("graph execute", ErrorKind::DeviceMismatch { left: place.to_string(), right: meta.device.to_string() }, here));
            }
            defined(value, (*given).clone());
        }
        for constant in &self.constants {
            defined(constant.value, self.constant(constant, device)?);
        }
        for state in &self.cells {
            if let Some(value) = state.read {
                defined(value, cell_of(state)?.get());
            }
        }
        for (k, node) in self.nodes.iter().enumerate() {
            let missing = || Error::at("graph execute", ErrorKind::Internal(format!("node {k} (`{}`) reads a value that is not there", node.op.name())), here);
            let read: Vec<Tensor> = node.inputs.iter().map(|&v| values.get(v as usize).cloned().flatten().ok_or_else(missing)).collect::<Result<_>>()?;
            for &v in &node.inputs {
                left[v as usize] -= 1;
                if left[v as usize] == 0 {
                    values[v as usize] = None;
                }
            }
            let at = if let At::Code(at) = node.at { at } else { here.at };
            let origin = Origin { at, scope: node.scope, called: Default::default() };
            let (op, place) = (on_device(&node.op, self.home, device), self.place_on(node.outputs.start, device)?);
            let made = scope::within(node.scope, || Tensor::apply_many_on(place, op, node.arg, &read.iter().collect::<Vec<_>>(), origin));
            for (k, v) in node.outputs.clone().enumerate() {
                // A failed op has as many outputs as anybody may ask for.
                let tensor = made.get(k).or(made.last()).ok_or_else(missing)?;
                if left[v as usize] > 0 {
                    values[v as usize] = Some(tensor.clone());
                }
            }
        }
        let value = |v: u32| {
            let there = values.get(v as usize).cloned().flatten();
            there.ok_or_else(|| Error::at("graph execute", ErrorKind::Internal(format!("value {v} is not there")), here))
        };
        let written: Vec<(Cell, Tensor)> = self.writes.iter().map(|w| Ok((cell_of(&self.cells[w.cell as usize])?, value(w.value)?))).collect::<Result<_>>()?;
        let outputs = self.outputs.iter().map(|&v| value(v)).collect::<Result<Vec<_>>>()?;
        if !written.is_empty() {
            crate::step(|| written.iter().try_for_each(|(cell, value)| cell.set(value)))?;
        }
        Ok(outputs)
    }
    /// Where the graph is evaluated: where its inputs are, else where its cells are, else where this thread computes.
    fn device_for(&self, inputs: &[&Tensor]) -> Result<Device> {
        let at_home = |value: u32| self.places[value as usize] == self.home;
        if let Some((_, given)) = self.inputs.iter().zip(inputs).find(|(v, _)| at_home(**v)) {
            return given.device();
        }
        match self.cells.iter().find(|c| c.place == self.home && c.held.is_some()) {
            Some(state) => Ok(cell_of(state)?.meta().device),
            None => Device::current(),
        }
    }
    /// Where a value lives if the graph is evaluated on a device.
    fn place_on(&self, value: u32, device: Device) -> Result<Device> {
        let place = self.places[value as usize];
        if place == self.home { Ok(device) } else { Device::of_id(place).map_err(|kind| Error::new("graph execute", kind)) }
    }
    fn constant(&self, constant: &Constant, device: Device) -> Result<Tensor> {
        let (ty, place) = (self.values[constant.value as usize], self.place_on(constant.value, device)?);
        if let Data::Held(held) = &constant.data
            && let Some(tensor) = (&**held as &dyn Any).downcast_ref::<Tensor>()
            && tensor.device()? == place
        {
            return Ok(tensor.clone());
        }
        let bytes = constant.data.bytes().map_err(|why| GraphError::Constant { value: constant.value, why: Box::new(why) }.error())?;
        Tensor::in_memory("graph execute", ty.dtype, bytes.len() / ty.dtype.size(), ty.shape, place, || place.pool().copied(place, &bytes)).ok()
    }
}
fn cell_of(state: &State) -> Result<Cell> {
    let bound = state.held.as_ref().and_then(|held| held.downcast_ref::<Cell>()).cloned();
    bound.ok_or_else(|| GraphError::Unbound { cell: state.name.as_deref().unwrap_or_default().into() }.error())
}
/// The op on another device than the one the graph is at home on: a transfer names one.
fn on_device(op: &Op, home: DeviceId, device: Device) -> Op {
    match op {
        Op::Transfer(to) if *to == home => Op::Transfer(device.id()),
        other => other.clone(),
    }
}
