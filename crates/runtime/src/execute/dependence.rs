//! Which values of a plan depend on which data that may be bad: followed once along the plan's graph, from each step that looks
//! at its data and from each input of which nobody knows yet. It says what a fault spoils before there is one.
use super::asynchronous::WriteRules;
use crate::{
    Op,
    kernel::{Kernel, KernelKind},
    plan::{Plan, PlanStep, PlanStorage, SizedStep},
    shape::{Layout, Shape},
    taint::Seeds,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// Where bad data may come in.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// the word that tells
    pub word: u32,
    pub from: From,
}
#[derive(Clone, Copy)]
pub(crate) enum From {
    /// input number k
    Input(u32),
    /// this step, in this node
    Step { step: u32, node: u32 },
}
/// What depends on what.
pub(crate) struct Dependence {
    /// the seeds, by number
    pub sources: Vec<Source>,
    /// by value
    pub of: Vec<Seeds>,
    pub words: u32,
    /// by step: the word it reports to
    pub reports: Vec<Option<u32>>,
    /// takes back what was not written
    pub copy: Kernel,
    /// how runs write, as far as is known
    pub(super) rules: Mutex<Vec<Arc<WriteRules>>>,
}
/// The dependences of a plan, by the inputs that may be bad.
pub(crate) type Known = Vec<(SmallVec<[AwaitedInput; 4]>, Arc<Dependence>)>;
/// An input of which nobody knows yet, and the word that tells: inputs that the same seeds of a run tell of share one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AwaitedInput {
    pub input: u32,
    pub word: u32,
}
/// So many are remembered.
const MOST: usize = 8;

impl Plan {
    /// What depends on its own steps and on these inputs.
    pub(crate) fn dependence(&self, inputs: &[AwaitedInput]) -> Arc<Dependence> {
        let mut known = self.dependences.lock();
        if let Some((_, found)) = known.iter().find(|(of, _)| of[..] == *inputs) {
            return found.clone();
        }
        if known.len() >= MOST {
            known.clear();
        }
        let new = Arc::new(Dependence::new(self, inputs));
        known.push((inputs.into(), new.clone()));
        new
    }
    /// The outputs of a step that its fault spoils, each with the node that found it.
    pub(super) fn culprits(&self, step: &PlanStep) -> SmallVec<[(u32, u32); 4]> {
        let values: SmallVec<[u32; 4]> = step.outputs.iter().map(|o| o.value(&self.graph)).collect();
        let found: SmallVec<[Option<u32>; 4]> = values.iter().map(|v| self.culprit(*v)).collect();
        // Outputs of the kernel that do not depend on what can fault are as good as ever.
        let nowhere = found.iter().all(Option::is_none);
        values.into_iter().zip(found).filter_map(|(v, node)| Some((v, node.or(nowhere.then_some(step.node))?))).collect()
    }
    /// The op inside the kernel that makes `v` which can have found the fault.
    fn culprit(&self, v: u32) -> Option<u32> {
        let g = &self.graph;
        let (mut todo, mut seen) = (vec![v], vec![v]);
        while let Some(v) = todo.pop() {
            let x = g.node_of(v);
            let divides =
                matches!(&x.op, Op::Binary(f) | Op::BinaryScalar(f, _) if x.inputs.first().is_some_and(|&i| f.can_fault(g.vals[i as usize].meta.dtype)));
            if divides || x.op.can_fault() {
                return Some(g.vals[v as usize].node);
            }
            if x.op.is_map() || matches!(x.op, Op::Reduce { .. }) {
                // What has memory of its own was made by another kernel, or is another output of this one that is asked for itself.
                for &i in &x.inputs {
                    let inside = g.node_of(i).op.is_map() && self.storage[i as usize] == PlanStorage::None;
                    if inside && !seen.contains(&i) {
                        seen.push(i);
                        todo.push(i);
                    }
                }
            }
        }
        None
    }
}
impl SizedStep {
    /// How the index of a kernel lies that has one: what is reported is a position in it.
    pub(super) fn index_of(&self, kind: &KernelKind) -> Option<(Shape, Layout)> {
        // A scatter's kernel is given no destination.
        let index = if let KernelKind::Primitive(op) = kind { op.indices().and_then(|k| self.inputs.get(k)) } else { self.inputs.first() };
        index.map(|i| (i.shape, i.place.layout))
    }
}
impl Dependence {
    fn new(plan: &Plan, inputs: &[AwaitedInput]) -> Dependence {
        let g = &plan.graph;
        let (mut sources, mut of) = (Vec::new(), vec![Seeds::default(); g.vals.len()]);
        for &AwaitedInput { input, word } in inputs {
            if let Some((v, _)) = g.inputs.get(input as usize) {
                of[*v as usize].insert(word as usize);
                if word as usize == sources.len() {
                    sources.push(Source { word, from: From::Input(input) });
                }
            }
        }
        let mut words = sources.len() as u32;
        let mut reports = vec![None; plan.steps.len()];
        for (at, step) in plan.steps.iter().enumerate().filter(|(_, step)| step.faultable) {
            reports[at] = Some(words);
            for (v, node) in plan.culprits(step) {
                let is_same = |s: &Source| s.word == words && matches!(s.from, From::Step { node: other, .. } if other == node);
                let seed = sources.iter().position(is_same).unwrap_or_else(|| {
                    sources.push(Source { word: words, from: From::Step { step: at as u32, node } });
                    sources.len() - 1
                });
                of[v as usize].insert(seed);
            }
            words += 1;
        }
        for x in &g.nodes {
            let mut from = Seeds::default();
            x.inputs.iter().for_each(|&i| from.extend(&of[i as usize]));
            if !from.is_empty() {
                (x.first..x.first + x.outputs).for_each(|o| of[o as usize].extend(&from));
            }
        }
        Dependence { sources, of, words, reports, copy: Kernel::new(KernelKind::Copy), rules: Mutex::default() }
    }
}
