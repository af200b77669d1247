//! Decisions become steps: Map chains become programs, a reduction swallows the chain it reads, values of one index
//! space share a kernel, and what no kernel does directly (padding, joining, updating) becomes copies.
use super::{
    decide::{Decisions, MAX_LOADS},
    ends::{Ends, WithEnds},
    graph::{ArgFrom, Graph, NONE, RecordError},
    joined::JoinedPlaces,
    late::late_values,
};
use crate::{
    DType, ErrorKind, Op, Scalar,
    backend::Support,
    expr::{Expr, Instr, Reg},
    kernel::{Kernel, KernelKind},
    op::{Arg, View},
    planted::{Plant, is},
};
use std::collections::HashMap;

/// How a kernel sees a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Use {
    /// its own shape and layout
    Whole(u32),
    /// broadcast to the step's space
    Broadcast(u32),
    /// its memory, row-major in the shape of the step's space (the target of a reshape that moves elements)
    Dense(u32),
    /// the part of a padded node's input that stays
    PadSource(u32),
    /// where that part goes in the node's output
    PadTarget(u32),
    /// where input k of a joining node goes in its output
    ConcatTarget(u32, u32),
    /// where the source of an updating node goes in its output
    UpdateTarget(u32),
    /// what a product loads to make an operand: broadcast to the value `made`, and seen as the operand sees that
    Made {
        /// what is loaded
        load: u32,
        /// the value that is made of it and never stored
        made: u32,
        /// the operand: that value, or a view of it
        operand: u32,
    },
}
impl Use {
    /// The value whose storage is used.
    pub fn value(self, g: &Graph) -> u32 {
        match self {
            Use::Whole(v) | Use::Broadcast(v) | Use::Dense(v) | Use::Made { load: v, .. } => v,
            Use::PadSource(n) => g.nodes[n as usize].inputs[0],
            Use::PadTarget(n) | Use::ConcatTarget(n, _) | Use::UpdateTarget(n) => g.nodes[n as usize].first,
        }
    }
}
/// Which shape a step runs over.
#[derive(Clone, Copy, Debug)]
pub enum Space {
    /// the shape of a value
    Of(u32),
    /// what of a padding node's input stays
    Pad(u32),
}
/// A step without sizes and buffers.
pub struct PlanStep {
    /// what runs
    pub kernel: Kernel,
    /// over which index space
    pub space: Space,
    /// what it reads
    pub inputs: Vec<Use>,
    /// what it writes
    pub outputs: Vec<Use>,
    /// where its program's arguments come from
    pub args: Vec<ArgFrom>,
    /// The node it runs (the last one of a fused kernel).
    pub node: u32,
    /// May it find bad data?
    pub faultable: bool,
    /// The output holds its destination already (a scatter, an update): it is also read.
    pub updates: bool,
    /// Writes cells: runs after everything that can fault.
    pub commits: bool,
    /// How many ops run inside.
    pub ops: u32,
}

/// A fused kernel while it grows.
pub(super) struct Program {
    pub(super) expr: Expr,
    pub(super) loads: Vec<u32>,
    pub(super) args: Vec<ArgFrom>,
    /// registers of values that are computed or loaded already
    pub(super) memo: HashMap<u32, Reg>,
    pub(super) ops: u32,
}
impl Program {
    pub(super) fn new() -> Program {
        Program { expr: Expr::default(), loads: Vec::new(), args: Vec::new(), memo: HashMap::new(), ops: 0 }
    }
    pub(super) fn load(&mut self, v: u32, dtype: DType) -> Reg {
        let k = self.loads.iter().position(|&l| l == v).unwrap_or_else(|| {
            self.loads.push(v);
            self.loads.len() - 1
        });
        self.expr.push(Instr::Load(k as u16), dtype)
    }
    fn arg(&mut self, from: ArgFrom, dtype: DType) -> Reg {
        match from {
            ArgFrom::Body(Arg::Scalar(s)) => self.expr.push(Instr::Const(s), dtype),
            ArgFrom::Body(_) => self.expr.push(Instr::Const(Scalar::Int(0)), dtype),
            ArgFrom::Record(_) => {
                self.args.push(from);
                let k = self.args.len() - 1;
                self.expr.push(Instr::Arg(k as u16), dtype)
            }
        }
    }
    /// The register of a value: loaded if it is in memory, else computed here.
    fn emit(&mut self, g: &Graph, d: &Decisions, v: u32) -> Reg {
        if let Some(&r) = self.memo.get(&v) {
            return r;
        }
        let dtype = g.vals[v as usize].meta.dtype;
        let reg = if let Some(c) = d.constant[v as usize].filter(|_| !d.in_memory[v as usize] || d.root[v as usize] != v) {
            self.arg(g.nodes[c as usize].arg, dtype)
        } else if d.in_memory[v as usize] || d.root[v as usize] != v {
            self.load(v, dtype)
        } else {
            self.compute(g, d, v)
        };
        self.memo.insert(v, reg);
        reg
    }
    /// The register of a value that is computed here, whether or not it is also stored.
    pub(super) fn compute(&mut self, g: &Graph, d: &Decisions, v: u32) -> Reg {
        let x = g.node_of(v);
        let dtype = g.vals[v as usize].meta.dtype;
        let dtype = if is(Plant::NoRoundingInRegisters) && dtype == DType::BF16 && !d.in_memory[v as usize] { DType::F32 } else { dtype };
        self.ops += 1;
        match &x.op {
            Op::Const(_) => self.arg(x.arg, dtype),
            Op::Iota { axis, .. } => {
                let index = self.expr.push(Instr::Index(*axis), DType::I64);
                if dtype == DType::I64 { index } else { self.expr.push(Instr::Cast(index), dtype) }
            }
            Op::RandomBits { .. } => {
                let key = x.inputs[0];
                let k = self.loads.iter().position(|&l| l == key).unwrap_or_else(|| {
                    self.loads.push(key);
                    self.loads.len() - 1
                });
                self.expr.push(Instr::Random(k as u16), dtype)
            }
            Op::Unary(f) => {
                let a = self.emit(g, d, x.inputs[0]);
                self.expr.push(Instr::Unary(*f, a), dtype)
            }
            Op::Binary(f) => {
                let (a, b) = (self.emit(g, d, x.inputs[0]), self.emit(g, d, x.inputs[1]));
                self.expr.push(Instr::Binary(*f, a, b), dtype)
            }
            Op::BinaryScalar(f, side) => {
                let a = self.emit(g, d, x.inputs[0]);
                let c = self.arg(x.arg, g.vals[x.inputs[0] as usize].meta.dtype);
                let (l, r) = if *side == crate::op::Side::Left { (c, a) } else { (a, c) };
                self.expr.push(Instr::Binary(*f, l, r), dtype)
            }
            Op::Select => {
                let (c, a, b) = (self.emit(g, d, x.inputs[0]), self.emit(g, d, x.inputs[1]), self.emit(g, d, x.inputs[2]));
                let (a, b) = if is(Plant::SwappedSelect) { (b, a) } else { (a, b) };
                self.expr.push(Instr::Select(c, a, b), dtype)
            }
            Op::Cast(_) => {
                let a = self.emit(g, d, x.inputs[0]);
                self.expr.push(Instr::Cast(a), dtype)
            }
            Op::Bitcast(_) => {
                let a = self.emit(g, d, x.inputs[0]);
                self.expr.push(Instr::Bitcast(a), dtype)
            }
            // Whatever else is in memory.
            _ => self.load(v, dtype),
        }
    }
    /// How it sees what it loads: a random key by its own shape, all else over the step's space.
    pub(super) fn uses(&self) -> Vec<Use> {
        self.loads.iter().zip(0..).map(|(&l, k)| if reads_key(&self.expr, k) { Use::Whole(l) } else { Use::Broadcast(l) }).collect()
    }
    pub(super) fn faults(&self) -> bool {
        self.divisions() > 0
    }
    /// Instructions that can find a fault. A kernel reports one fault, and it must be known whose: it has at most one of them.
    fn divisions(&self) -> usize {
        self.expr.instrs.iter().filter(|i| matches!(i, Instr::Binary(f, a, _) if f.can_fault(self.expr.dtypes[*a as usize]))).count()
    }
}

/// A Map kernel that may still take in more outputs.
struct OpenKernel {
    program: Program,
    outputs: Vec<(u32, Reg)>,
}

pub(super) const MAX_KERNEL: usize = 160;
const MAX_OUTPUTS: usize = 12;

/// The steps, in order; those that write cells come last.
pub fn build(g: &Graph, d: &Decisions, joined: &JoinedPlaces, written: &[bool], ends: Ends, device: crate::Device) -> Result<Vec<PlanStep>, RecordError> {
    let n = g.vals.len();
    let space = spaces(g);
    let late_out = late_values(g, d, written);
    let mut b = KernelBuilder { g, d, joined, steps: Vec::new(), open: HashMap::new(), at: HashMap::new(), of: vec![NONE; n], ends, device, is_late: false };
    for pass in 0..2 {
        b.at.clear();
        b.is_late = pass == 1;
        for (k, x) in g.nodes.iter().enumerate() {
            let v = x.first as usize;
            if !(v..v + x.outputs as usize).any(|o| d.needed[o]) || late_out[v] != (pass == 1) {
                continue;
            }
            b.node(k as u32, find(&space, v as u32))?;
        }
    }
    b.finish()
}

/// Index spaces are equal by construction, where element-wise ops join them: sizes are never compared otherwise.
fn spaces(g: &Graph) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..g.vals.len() as u32).collect();
    for x in &g.nodes {
        if x.op.is_map() {
            for &i in &x.inputs {
                if g.shape(i) == g.shape(x.first) && !matches!(x.op, Op::RandomBits { .. }) {
                    let (a, b) = (find(&parent, i), find(&parent, x.first));
                    parent[a.max(b) as usize] = a.min(b);
                }
            }
        }
    }
    parent
}
fn find(parent: &[u32], mut v: u32) -> u32 {
    while parent[v as usize] != v {
        v = parent[v as usize];
    }
    v
}

struct KernelBuilder<'a> {
    g: &'a Graph,
    d: &'a Decisions,
    joined: &'a JoinedPlaces,
    steps: Vec<PlanStep>,
    /// Map kernels by step, until the end.
    open: HashMap<usize, OpenKernel>,
    /// The latest Map kernel of each space.
    at: HashMap<u32, usize>,
    /// The step that makes a value.
    of: Vec<u32>,
    /// Products with ends, until they are placed.
    ends: Ends,
    device: crate::Device,
    /// Are the steps made that come last?
    is_late: bool,
}
impl KernelBuilder<'_> {
    fn node(&mut self, k: u32, space: u32) -> Result<(), RecordError> {
        let (g, d) = (self.g, self.d);
        let x = &g.nodes[k as usize];
        let v = x.first;
        let i = |at: usize| x.inputs[at];
        if let Some(with) = self.ends.stores.remove(&v) {
            self.with_ends(k, with);
            return Ok(());
        }
        match &x.op {
            Op::Input => {}
            Op::Matmul | Op::Conv(_) if self.ends.is_inside(v) => {}
            op if op.is_view() => {
                // A reshape whose source has gaps moves the elements; any other view is a layout.
                if d.root[v as usize] == v && d.in_memory[v as usize] {
                    self.copy(k, Space::Of(i(0)), Use::Whole(i(0)), Use::Dense(v), 1);
                }
            }
            op if op.is_map() => {
                if d.in_memory[v as usize] {
                    self.map(v, space);
                }
            }
            Op::Pad(_) => {
                self.fill(k, x.arg);
                self.copy(k, Space::Pad(k), Use::PadSource(k), Use::PadTarget(k), 0);
            }
            Op::Concat { .. } => {
                let is_there = |input: &u32, j: u32| self.joined.get(&self.made_by(*input)).is_some_and(|place| *place == (k, j));
                let copied: Vec<(u32, u32)> = x.inputs.iter().copied().zip(0..).filter(|(input, j)| !is_there(input, *j)).collect();
                for (input, j) in copied {
                    self.copy(k, Space::Of(input), Use::Whole(input), Use::ConcatTarget(k, j), (j == 0) as u32);
                }
            }
            Op::UpdateSlice { .. } => {
                self.copy(k, Space::Of(v), Use::Whole(i(0)), Use::Whole(v), 1);
                self.copy(k, Space::Of(i(1)), Use::Whole(i(1)), Use::UpdateTarget(k), 0);
            }
            Op::Scatter { axis, mode } => {
                self.copy(k, Space::Of(v), Use::Whole(i(0)), Use::Whole(v), 1);
                self.step(k, KernelKind::Scatter { axis: *axis, mode: *mode }, i(1), &[i(1), i(2)], &[v], true);
            }
            Op::Reduce { op, axes } => {
                let mut p = Program::new();
                let value = p.emit(g, d, i(0));
                let value = if is(Plant::ReduceWithoutPrologue) && p.expr.dtypes[0] == p.expr.dtypes[value as usize] { 0 } else { value };
                let inputs = p.uses();
                let faultable = p.faults();
                let kind = KernelKind::Reduce { expr: p.expr, value, op: *op, axes: *axes };
                self.push(PlanStep {
                    kernel: Kernel::new(kind),
                    space: Space::Of(i(0)),
                    inputs,
                    outputs: vec![Use::Whole(v)],
                    args: p.args,
                    node: k,
                    faultable,
                    updates: false,
                    commits: false,
                    ops: p.ops + 1,
                });
            }
            Op::Collective { .. } => self.step(k, KernelKind::Copy, v, &[i(0)], &[v], false),
            op => {
                let kernel = match op {
                    Op::Scan { op, reverse, .. } if is(Plant::WrongAxis) => Some(KernelKind::Primitive(Op::Scan { op: *op, axis: 0, reverse: *reverse })),
                    op => op.kernel(),
                };
                let none = || (x.record as usize, ErrorKind::Internal(format!("{} cannot be scheduled", op.name())));
                // An index of an extreme is found by walking over where it is looked for.
                let space = if matches!(op, Op::ArgReduce { .. }) { i(0) } else { v };
                let outputs: Vec<u32> = (v..v + x.outputs).collect();
                self.step(k, kernel.ok_or_else(none)?, space, &x.inputs, &outputs, false);
            }
        }
        Ok(())
    }
    /// The value that a value is another shape of.
    fn made_by(&self, mut v: u32) -> u32 {
        while matches!(self.g.node_of(v).op, Op::View(View::Reshape(_))) && !self.joined.contains_key(&v) {
            v = self.g.node_of(v).inputs[0];
        }
        v
    }
    fn push(&mut self, mut step: PlanStep) {
        step.commits |= self.is_late;
        let at = self.steps.len() as u32;
        for o in &step.outputs {
            self.of[o.value(self.g) as usize] = at;
        }
        self.steps.push(step);
    }
    fn step(&mut self, k: u32, kind: KernelKind, space: u32, inputs: &[u32], outputs: &[u32], updates: bool) {
        let faultable = self.g.nodes[k as usize].op.can_fault();
        let inputs = inputs.iter().map(|&i| Use::Whole(i)).collect();
        let outputs = outputs.iter().map(|&o| Use::Whole(o)).collect();
        self.push(PlanStep {
            kernel: Kernel::new(kind),
            space: Space::Of(space),
            inputs,
            outputs,
            args: Vec::new(),
            node: k,
            faultable,
            updates,
            commits: false,
            ops: 1,
        });
    }
    /// A product that stores node k's value.
    fn with_ends(&mut self, k: u32, WithEnds { kind, inputs, args, ops, faultable }: WithEnds) {
        let v = self.g.nodes[k as usize].first;
        let kernel = Kernel::new(kind);
        let outputs = vec![Use::Whole(v)];
        self.push(PlanStep { kernel, space: Space::Of(v), inputs, outputs, args, node: k, faultable, updates: false, commits: false, ops });
    }
    fn copy(&mut self, k: u32, space: Space, from: Use, to: Use, ops: u32) {
        // A constant needs no memory to be copied from: the destination is filled.
        if let (Some(c), Use::Whole(_) | Use::Dense(_)) = (self.d.constant[from.value(self.g) as usize], to)
            && matches!(from, Use::Whole(_))
        {
            self.fill(k, self.g.nodes[c as usize].arg);
            return;
        }
        let updates = matches!(to, Use::PadTarget(_) | Use::ConcatTarget(..) | Use::UpdateTarget(_));
        self.push(PlanStep {
            kernel: Kernel::new(KernelKind::Copy),
            space,
            inputs: vec![from],
            outputs: vec![to],
            args: Vec::new(),
            node: k,
            faultable: false,
            updates,
            commits: false,
            ops,
        });
    }
    /// Fills the node's output with a number.
    fn fill(&mut self, k: u32, with: ArgFrom) {
        let v = self.g.nodes[k as usize].first;
        let mut p = Program::new();
        let reg = p.arg(with, self.g.vals[v as usize].meta.dtype);
        let kind = KernelKind::Map { expr: p.expr, outputs: vec![reg] };
        self.push(PlanStep {
            kernel: Kernel::new(kind),
            space: Space::Of(v),
            inputs: Vec::new(),
            outputs: vec![Use::Whole(v)],
            args: p.args,
            node: k,
            faultable: false,
            updates: false,
            commits: false,
            ops: 1,
        });
    }
    /// A stored Map value: into the latest kernel of its space if nothing that it reads is made after that one.
    fn map(&mut self, v: u32, space: u32) {
        let (g, d) = (self.g, self.d);
        if let Some(&at) = self.at.get(&space)
            && let Some(mut open) = self.open.remove(&at)
        {
            let before = (open.program.expr.clone(), open.program.loads.len(), open.program.args.len(), open.program.memo.clone(), open.program.ops);
            let reg = open.program.compute(g, d, v);
            open.program.memo.insert(v, reg);
            let p = &open.program;
            let fits = p.expr.instrs.len() <= MAX_KERNEL
                && p.loads.len() <= 2 * MAX_LOADS as usize
                && open.outputs.len() < MAX_OUTPUTS
                && p.divisions() <= 1
                && p.loads[before.1..].iter().all(|&l| self.of[d.root[l as usize] as usize] == NONE || self.of[d.root[l as usize] as usize] < at as u32);
            if fits {
                open.outputs.push((v, reg));
                self.of[v as usize] = at as u32;
                self.open.insert(at, open);
                return;
            }
            let p = &mut open.program;
            (p.expr, p.memo, p.ops) = (before.0, before.3, before.4);
            p.loads.truncate(before.1);
            p.args.truncate(before.2);
            self.open.insert(at, open);
        }
        let mut program = Program::new();
        let reg = program.compute(g, d, v);
        program.memo.insert(v, reg);
        let at = self.steps.len();
        self.at.insert(space, at);
        self.of[v as usize] = at as u32;
        self.open.insert(at, OpenKernel { program, outputs: vec![(v, reg)] });
        // The kernel is put in at the end, when all outputs are known.
        self.steps.push(PlanStep {
            kernel: Kernel::new(KernelKind::Copy),
            space: Space::Of(v),
            inputs: Vec::new(),
            outputs: Vec::new(),
            args: Vec::new(),
            node: self.g.vals[v as usize].node,
            faultable: false,
            updates: false,
            commits: self.is_late,
            ops: 0,
        });
    }
    fn finish(mut self) -> Result<Vec<PlanStep>, RecordError> {
        for (at, open) in std::mem::take(&mut self.open) {
            let step = &mut self.steps[at];
            step.faultable = open.program.faults();
            step.inputs = open.program.uses();
            step.outputs = open.outputs.iter().map(|(v, _)| Use::Whole(*v)).collect();
            step.args = open.program.args;
            step.ops = open.program.ops;
            step.kernel = Kernel::new(KernelKind::Map { expr: open.program.expr, outputs: open.outputs.iter().map(|(_, r)| *r).collect() });
        }
        // What the device cannot run is named now, not in the middle of a plan.
        for s in &self.steps {
            let dtypes: Vec<DType> = s.inputs.iter().chain(&s.outputs).map(|u| self.g.vals[u.value(self.g) as usize].meta.dtype).collect();
            let collective = matches!(self.g.nodes[s.node as usize].op, Op::Collective { .. });
            if !collective && self.device.backend().supports(&s.kernel.kind, &dtypes) == Support::No {
                return Err((self.g.nodes[s.node as usize].record as usize, refusal(self.device, &s.kernel.kind, &dtypes)));
            }
        }
        Ok(self.steps)
    }
}
/// Why a device does not run a kernel: a dtype that it has not, or the kernel as such.
fn refusal(device: crate::Device, kernel: &KernelKind, dtypes: &[DType]) -> ErrorKind {
    let inside: &[DType] = if let KernelKind::Map { expr, .. } | KernelKind::Reduce { expr, .. } = kernel { &expr.dtypes } else { &[] };
    let has = |d: &DType| d.size() <= 2 || device.info().dtypes.contains(d);
    let named: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
    let mut what = format!("{} on {}", kernel.family(), named.join(", "));
    if let Some(absent) = dtypes.iter().chain(inside).find(|d| !has(d)) {
        what += &format!("; it has no {}", absent.name());
    }
    ErrorKind::Unsupported { backend: device.info().backend.into(), what }
}
/// Is input k a random key?
pub(super) fn reads_key(expr: &Expr, k: u16) -> bool {
    expr.instrs.contains(&Instr::Random(k))
}
