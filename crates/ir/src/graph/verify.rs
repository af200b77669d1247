//! The verifier: the rules that every graph keeps, whoever made it. Passes are held to it, and so is text.
use super::{At, Environment, Graph, GraphError, Invalid, Type, Why};
use crate::{Arg, DType, DeviceId, ErrorKind, Op, PlacedType, Scalar, Types, op::View, scope};
use smallvec::SmallVec;
use std::collections::HashSet;

/// The types of an op's outputs, and where they live; `source` is where an op without inputs makes them.
pub(super) fn infer(op: &Op, inputs: &[PlacedType], source: DeviceId, environment: &dyn Environment) -> Result<SmallVec<[PlacedType; 3]>, ErrorKind> {
    let types: SmallVec<[Type; 4]> = inputs.iter().map(|x| x.ty).collect();
    let common = common(inputs, environment)?.unwrap_or(source);
    let place = if let Op::Transfer(to) = op { environment.device_name(*to).map(|_| *to)? } else { common };
    let made: Types = if let Op::Composite(c) = op { environment.infer(c, &types)? } else { op.infer(&types)? };
    Ok(made.into_iter().map(|ty| PlacedType { ty, place }).collect())
}
/// The one device of all inputs; of none, nothing.
fn common(inputs: &[PlacedType], environment: &dyn Environment) -> Result<Option<DeviceId>, ErrorKind> {
    let Some(first) = inputs.first().map(|x| x.place) else { return Ok(None) };
    match inputs.iter().map(|x| x.place).find(|place| *place != first) {
        Some(other) => Err(ErrorKind::DeviceMismatch { left: environment.device_name(first)?, right: environment.device_name(other)? }),
        None => Ok(Some(first)),
    }
}

impl Graph {
    /// Does the graph keep its rules? Each value has one definition, before its readers. Each op takes its inputs and makes what
    /// the graph says, and its argument is one that it can have. The elements of constants are those of their types. A cell is
    /// read once, and written once in each group of writes, with its own type; groups are in order. No name stands for two
    /// things.
    ///
    /// ```
    /// # use adamant_ir::{DeviceId, graph::{Graph, Reading}};
    /// let text = "adamant graph 1\n\
    ///     input %x: f32[2, 3]\n\
    ///     %exp: f32[2, 3] = exp(%x)\n\
    ///     %sin: f32[2, 3] = sin(%exp)\n\
    ///     return %sin\n";
    /// let mut graph = Graph::parse(text, &Reading::new(DeviceId(0)), &())?;
    /// graph.verify(&())?;
    /// graph.nodes.swap(0, 1);
    /// assert!(graph.verify(&()).unwrap_err().to_string().contains("is read before it is made"));
    /// # Ok::<(), adamant_ir::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// The first rule that is broken, with the node, its op, and where it was applied or written.
    pub fn verify(&self, environment: &dyn Environment) -> Result<(), GraphError> {
        let broken = |why| Invalid { node: None, op: String::new(), at: At::Nowhere, scope: String::new(), why };
        if self.values.len() != self.places.len() {
            return Err(broken(Why::Layout(format!("{} types and {} places", self.values.len(), self.places.len()))).into());
        }
        let mut defined = vec![false; self.values.len()];
        let define = |defined: &mut Vec<bool>, value: u32| match defined.get_mut(value as usize) {
            None => Err(Why::Undefined { value }),
            Some(true) => Err(Why::Reassigned { value }),
            Some(there) => {
                *there = true;
                Ok(())
            }
        };
        let outside = self.inputs.iter().copied().chain(self.constants.iter().map(|c| c.value)).chain(self.cells.iter().filter_map(|c| c.read));
        for value in outside {
            define(&mut defined, value).map_err(broken)?;
        }
        self.constants_fit().map_err(broken)?;
        let made: HashSet<u32> = self.nodes.iter().flat_map(|n| n.outputs.clone()).collect();
        for (k, node) in self.nodes.iter().enumerate() {
            let at_node = |why| Invalid { node: Some(k), op: node.op.name().into(), at: node.at, scope: scope::path(node.scope), why };
            for &value in &node.inputs {
                let there = defined.get(value as usize).copied().unwrap_or(false);
                let why = if made.contains(&value) { Why::Early { value } } else { Why::Undefined { value } };
                if !there {
                    return Err(at_node(why).into());
                }
            }
            for value in node.outputs.clone() {
                define(&mut defined, value).map_err(at_node)?;
            }
            self.node_fits(k, environment).map_err(at_node)?;
        }
        if let Some(value) = defined.iter().position(|d| !d) {
            return Err(broken(Why::Undefined { value: value as u32 }).into());
        }
        self.writes_fit().map_err(broken)?;
        if let Some(&value) = self.outputs.iter().find(|v| **v as usize >= self.values.len()) {
            return Err(broken(Why::Undefined { value }).into());
        }
        let mut names = HashSet::new();
        match self.names.iter().find(|(value, name)| **value as usize >= self.values.len() || !names.insert(*name)) {
            Some((_, name)) => Err(broken(Why::Name(format!("the name `{name}` stands for two values, or for none"))).into()),
            None => Ok(()),
        }
    }
    fn constants_fit(&self) -> Result<(), Why> {
        for constant in &self.constants {
            let ty = &self.values[constant.value as usize];
            // What the program holds has its type by itself, and is not fetched for this.
            if let super::Data::Bytes(bytes) = &constant.data {
                if bytes.len() != ty.bytes() {
                    return Err(Why::Constant(format!("constant {} is {ty} and has {} bytes", constant.value, bytes.len())));
                }
                if ty.dtype == DType::Bool && bytes.iter().any(|b| *b > 1) {
                    return Err(Why::Constant(format!("constant {} is bool and has a byte that is neither 0 nor 1", constant.value)));
                }
            }
        }
        Ok(())
    }
    fn writes_fit(&self) -> Result<(), Why> {
        let mut names = HashSet::new();
        for (k, cell) in self.cells.iter().enumerate() {
            let name = self.cell_name(k);
            if cell.read.is_some_and(|v| self.values.get(v as usize) != Some(&cell.ty)) {
                return Err(Why::Cell(format!("the cell `{name}` holds {}, and is read as something else", cell.ty)));
            }
            if !names.insert(name) {
                return Err(Why::Name(format!("two cells have the name `{}`", self.cell_name(k))));
            }
        }
        let (mut group, mut written) = (0, HashSet::new());
        for w in &self.writes {
            let name = || self.cell_name(w.cell as usize);
            let Some(cell) = self.cells.get(w.cell as usize) else {
                return Err(Why::Cell(format!("there is no cell {}", w.cell)));
            };
            match self.values.get(w.value as usize) {
                None => return Err(Why::Undefined { value: w.value }),
                Some(ty) if *ty != cell.ty || self.places[w.value as usize] != cell.place => {
                    return Err(Why::Cell(format!("the cell `{}` holds {}, and {ty} is written", name(), cell.ty)));
                }
                Some(_) => {}
            }
            if w.group < group {
                return Err(Why::Cell(format!("the write of `{}` in group {} stands behind group {group}", name(), w.group)));
            }
            if w.group > group {
                group = w.group;
                written.clear();
            }
            if !written.insert(w.cell) {
                return Err(Why::Cell(format!("the cell `{}` is written twice in one group", name())));
            }
        }
        Ok(())
    }
    /// Does the op of a node go with its types and its argument?
    fn node_fits(&self, k: usize, environment: &dyn Environment) -> Result<(), Why> {
        let node = &self.nodes[k];
        let placed = |values: &mut dyn Iterator<Item = u32>| values.map(|v| self.placed(v)).collect::<SmallVec<[PlacedType; 4]>>();
        let (inputs, given) = (placed(&mut node.inputs.iter().copied()), placed(&mut node.outputs.clone()));
        let source = self.places.get(node.outputs.start as usize).copied().unwrap_or(self.home);
        let made = infer(&node.op, &inputs, source, environment).map_err(|kind| Why::Op(Box::new(kind)))?;
        if made[..] != given[..] {
            let shown = |values: &[PlacedType]| values.iter().map(|x| x.ty.to_string()).collect::<Vec<_>>().join(", ");
            return Err(Why::Types { given: shown(&given), made: shown(&made) });
        }
        argument_fits(&node.op, node.arg, &inputs, &given).map_err(Why::Argument)
    }
}
/// An argument is of its op's kind, and where it is a place, within the axis.
fn argument_fits(op: &Op, arg: Arg, inputs: &[PlacedType], outputs: &[PlacedType]) -> Result<(), String> {
    let fits = |dtype: DType| match arg {
        Arg::Scalar(s) if s.fit(dtype).is_ok_and(|fitted| kind(fitted) == kind(s)) => Ok(()),
        Arg::Scalar(s) => Err(format!("the number {s} is none of {dtype}")),
        _ => Err("a number is missing (`with`)".into()),
    };
    let starts = |reach: usize, size: usize| match arg {
        Arg::Start(start) if start.checked_add(reach).is_some_and(|end| end <= size) => Ok(()),
        Arg::Start(start) => Err(format!("the start {start} leaves an axis of {size}")),
        _ => Err("a start is missing (`from`)".into()),
    };
    match op {
        Op::Const(meta) => fits(meta.dtype),
        // What a pad without a number fills with is 0.
        Op::Pad(_) if arg == Arg::None => Ok(()),
        Op::BinaryScalar(..) | Op::Pad(_) => fits(inputs[0].ty.dtype),
        Op::View(View::Slice { axis, len, step }) => starts(if *len == 0 { 0 } else { (len - 1) * step + 1 }, inputs[0].ty.shape[*axis as usize]),
        Op::UpdateSlice { axis } => starts(inputs[1].ty.shape[*axis as usize], outputs[0].ty.shape[*axis as usize]),
        _ if arg == Arg::None => Ok(()),
        _ => Err("it takes no argument".into()),
    }
}
fn kind(s: Scalar) -> u8 {
    match s {
        Scalar::Bool(_) => 0,
        Scalar::Int(_) => 1,
        Scalar::Float(_) => 2,
    }
}
