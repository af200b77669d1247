//! `common_subexpressions`: of nodes with the same op, attributes, argument and inputs the first serves all, and of constants
//! with the same elements likewise. Numbers are compared by their bits, so 0.0 and -0.0 stay two. Effects stay as many as they are.
//!
//! The values are the same to the bit. Gradients through the graph are those of the merged values, added up in another order.
use super::super::{Environment, Graph, GraphError, Type, form, hash, rewrite::Rewrite};
use crate::{Arg, Attr, Attrs, DeviceId, Scalar};
use std::collections::HashMap;

pub(in super::super) fn run(graph: &mut Graph, environment: &dyn Environment) -> Result<(), GraphError> {
    let mut rewrite = Rewrite::begin(graph, environment);
    let mut constants: HashMap<(Type, DeviceId, u128), Vec<u32>> = HashMap::new();
    for (k, constant) in graph.constants.iter().enumerate() {
        // What cannot be looked at is like no other.
        let Ok(bytes) = constant.data.bytes() else { continue };
        let v = constant.value;
        let key = (graph.values[v as usize], graph.places[v as usize], hash::content(&bytes));
        let alike = constants.entry(key).or_default();
        let equal = |other: &&u32| graph.constants[**other as usize].data.bytes().is_ok_and(|b| b == bytes);
        match alike.iter().find(equal) {
            Some(&first) => rewrite.replace(v, rewrite.value(graph.constants[first as usize].value)),
            None => alike.push(k as u32),
        }
    }
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut context = form::FormContext { home: graph.home, groups: Vec::new(), environment };
    for (k, node) in graph.nodes.iter().enumerate() {
        if node.op.is_effect() {
            rewrite.keep(node);
            continue;
        }
        let inputs: Vec<u32> = node.inputs.iter().map(|&v| rewrite.value(v)).collect();
        let types = |values: &mut dyn Iterator<Item = u32>| values.map(|v| graph.values[v as usize]).collect::<Vec<_>>();
        let attrs: Attrs = form::attributes(&node.op, &types(&mut node.inputs.iter().copied()), &mut context);
        let attrs: Vec<(&str, String)> = attrs.iter().map(|(name, attr)| (*name, exact(attr))).collect();
        let places: Vec<u32> = node.outputs.clone().map(|v| graph.places[v as usize].0).collect();
        let key = format!("{} {attrs:?} {} {inputs:?} {:?} {places:?}", node.op.name(), argument(node.arg), types(&mut node.outputs.clone()));
        match known.get(&key) {
            Some(&first) => {
                let made = graph.nodes[first as usize].outputs.clone();
                node.outputs.clone().zip(made).for_each(|(v, same)| rewrite.replace(v, rewrite.value(same)));
            }
            None => {
                known.insert(key, k as u32);
                rewrite.keep(node);
            }
        }
    }
    *graph = rewrite.finish();
    Ok(())
}
fn argument(arg: Arg) -> String {
    match arg {
        Arg::None => String::new(),
        Arg::Start(start) => format!("from {start}"),
        Arg::Scalar(s) => {
            let kind = match s {
                Scalar::Bool(_) => "bool",
                Scalar::Int(_) => "int",
                Scalar::Float(_) => "float",
            };
            format!("with {kind} {:x}", s.bits())
        }
    }
}
/// An attribute to the bit.
fn exact(attr: &Attr) -> String {
    match attr {
        Attr::Float(v) => format!("{:x}", v.to_bits()),
        other => format!("{other:?}"),
    }
}
