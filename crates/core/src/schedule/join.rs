//! Two composites of a window as one: a later one that reads an earlier one's outputs, where a device does both at once
//! (`Composite::joined`). The earlier one's node stays behind without readers, and is not run.
use crate::{
    Device, Meta, Op,
    backend::Support,
    composite::{Composite, Keyed, Reads},
    kernel::KernelKind,
};
use adamant_runtime::plan::{ArgFrom, Graph};
use smallvec::SmallVec;
use std::sync::Arc;

/// An earlier node, and what takes its place and that of the composite which reads it.
pub(super) struct Joint {
    earlier: usize,
    both: Arc<dyn Composite>,
    inputs: SmallVec<[u32; 3]>,
}

/// What composite `later` of these inputs joins, if it does: nothing else has read the earlier one, which would then have
/// to run before it, and the device claims both as one.
pub(super) fn find(g: &Graph, device: Device, later: &Op, inputs: &[u32], metas: &[Meta]) -> Option<Joint> {
    let Op::Composite(later) = later else { return None };
    inputs.iter().find_map(|&i| {
        let earlier = g.vals[i as usize].node as usize;
        let node = &g.nodes[earlier];
        let Op::Composite(composite) = &node.op else { return None };
        let outputs = node.first..node.first + node.outputs;
        let reads: SmallVec<[Reads; 8]> = inputs
            .iter()
            .map(|i| match node.inputs.iter().position(|j| j == i) {
                Some(k) => Reads::Input(k),
                None if outputs.contains(i) => Reads::Output((i - node.first) as usize),
                None => Reads::Else,
            })
            .collect();
        let both = composite.joined(&**later, &reads)?;
        if g.nodes[earlier + 1..].iter().any(|between| between.inputs.iter().any(|i| outputs.contains(i))) {
            return None;
        }
        let of_later = inputs.iter().zip(&reads).filter(|(_, from)| **from == Reads::Else).map(|(i, _)| *i);
        let inputs: SmallVec<[u32; 3]> = node.inputs.iter().copied().chain(of_later).collect();
        let dtype = |v: u32| g.vals[v as usize].meta.dtype;
        let dtypes: SmallVec<[_; 8]> = inputs.iter().copied().chain(outputs).map(dtype).chain(metas.iter().map(|m| m.dtype)).collect();
        let claimed = device.backend().supports(&KernelKind::Composite(both.clone()), &dtypes) == Support::Native;
        (claimed && inputs.iter().all(|i| g.dense[*i as usize])).then_some(Joint { earlier, both, inputs })
    })
}
impl Joint {
    /// Places both where the later one would be, and returns the values of that one's outputs. What it finds is charged to
    /// the earlier one's record, which finds it where they are two.
    pub fn place(self, g: &mut Graph, metas: Vec<Meta>, record: u32) -> Vec<u32> {
        let old = &g.nodes[self.earlier];
        let (from, outputs, charged) = (old.first, old.outputs, old.record);
        let of_earlier: SmallVec<[Meta; 4]> = (from..from + outputs).map(|v| g.vals[v as usize].meta).collect();
        let later = metas.len() as u32;
        let first = g.node(Op::Composite(Keyed::new(self.both, None)), ArgFrom::Record(record), self.inputs, of_earlier.into_iter().chain(metas), charged);
        for v in &mut g.of_slot {
            if (from..from + outputs).contains(v) {
                *v = *v - from + first;
            }
        }
        (first + outputs..first + outputs + later).collect()
    }
}
