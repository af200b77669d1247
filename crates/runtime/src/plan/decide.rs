//! What is in memory, what is computed again, what needs to run: decided from structure alone, so that the same
//! program always gives the same plans.
use super::graph::{Graph, NONE};
use crate::Op;
use smallvec::{SmallVec, smallvec};

/// Who holds a value of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Owner {
    /// nobody
    Nobody = 0,
    /// a user, a cell, or the part of the window that stays open
    User = 1,
    /// only the tape
    Tape = 2,
}

/// The longest chain of deferred values.
const MAX_DEPTH: u8 = 24;
/// The longest program and the most inputs of one fused kernel.
pub const MAX_INSTRS: u16 = 64;
pub const MAX_LOADS: u16 = 12;

pub struct Decisions {
    /// has memory of its own (or is an input)
    pub in_memory: Vec<bool>,
    /// is computed at all
    pub needed: Vec<bool>,
    /// the slots whose values stay recipes
    pub deferred: Vec<u32>,
    /// escapes: memory that a value of the window gets
    pub kept: Vec<bool>,
    /// the value whose storage a view shares (itself if it is no view)
    pub root: Vec<u32>,
    /// a value that is the same number everywhere: the node that says which
    pub constant: Vec<Option<u32>>,
    /// inputs that a deferred value will read again: they may not be given away
    pub pinned: Vec<bool>,
}

/// `with_ends`: the device stores what is computed behind a product in the product's own kernel.
pub fn decide(g: &Graph, owners: &[Owner], written: &[bool], with_ends: bool) -> Decisions {
    let (root, constant) = views(g);
    let (held, reads) = (HeldBy::of(g, owners), ReadCounts::of(g, &root));
    let facts = ValueFacts { g, written, with_ends, root, constant, held, reads };
    let mut recipes = Recipes::choose(&facts);
    let pinned = recipes.pin(&facts);
    let needed = needed(&facts, &recipes.kept);
    let mut in_memory = in_memory(&facts, &recipes.kept, &needed);
    one_fault_a_kernel(g, &mut in_memory);
    keep_short(g, &mut in_memory);
    cast_apart(g, &mut in_memory);
    let Recipes { kept, deferred, .. } = recipes;
    Decisions { in_memory, needed, deferred, kept, root: facts.root, constant: facts.constant, pinned }
}

/// What is known of all values before anything is decided.
struct ValueFacts<'a> {
    g: &'a Graph,
    written: &'a [bool],
    with_ends: bool,
    root: Vec<u32>,
    constant: Vec<Option<u32>>,
    held: HeldBy,
    reads: ReadCounts,
}

/// By whom values are held, by value.
struct HeldBy {
    owner: Vec<Owner>,
    /// the first slot that has the value
    slot_of: Vec<u32>,
    /// an input that an op passes on as its own result: its memory is then held through that result
    passed_on: Vec<bool>,
}
impl HeldBy {
    fn of(g: &Graph, owners: &[Owner]) -> HeldBy {
        let n = g.vals.len();
        let mut held = HeldBy { owner: vec![Owner::Nobody; n], slot_of: vec![NONE; n], passed_on: vec![false; n] };
        for (slot, &v) in g.of_slot.iter().enumerate().filter(|(_, v)| **v != NONE) {
            let by = owners.get(slot).copied().unwrap_or(Owner::Nobody);
            let old = &mut held.owner[v as usize];
            *old = match (*old, by) {
                (Owner::User, _) | (_, Owner::User) => Owner::User,
                (Owner::Tape, _) | (_, Owner::Tape) => Owner::Tape,
                _ => Owner::Nobody,
            };
            if held.slot_of[v as usize] == NONE {
                held.slot_of[v as usize] = slot as u32;
            }
            if by != Owner::Nobody && matches!(g.node_of(v).op, Op::Input) && !g.is_input_slot(slot as u32, v) {
                held.passed_on[v as usize] = true;
            }
        }
        held
    }
}

/// How values are read, by value.
struct ReadCounts {
    uses: Vec<u16>,
    reduced: Vec<bool>,
    /// an op other than a Map or a reduction reads it, or a reduction does and somebody else: it is in memory in any case
    heavy: Vec<bool>,
}
impl ReadCounts {
    fn of(g: &Graph, root: &[u32]) -> ReadCounts {
        let n = g.vals.len();
        let mut reads = ReadCounts { uses: vec![0; n], reduced: vec![false; n], heavy: vec![false; n] };
        for x in &g.nodes {
            for &i in &x.inputs {
                let i = i as usize;
                reads.uses[i] = reads.uses[i].saturating_add(1);
                match &x.op {
                    Op::Reduce { .. } => reads.reduced[i] = true,
                    op if op.is_map() || op.is_view() => {}
                    _ => reads.heavy[root[i] as usize] = true,
                }
            }
        }
        for v in 0..n {
            reads.heavy[v] |= reads.is_reduced_among_others(v);
        }
        reads
    }
    fn is_reduced_among_others(&self, v: usize) -> bool {
        self.reduced[v] && self.uses[v] > 1
    }
}

/// What is kept, and what is computed again from it; decided value by value, in the order of application.
struct Recipes {
    kept: Vec<bool>,
    /// kept, or made of what is, so that it can be had later
    available: Vec<bool>,
    /// how many ops lie between the value and what is kept
    depth: Vec<u8>,
    is_deferred: Vec<bool>,
    deferred: Vec<u32>,
}
impl Recipes {
    fn choose(facts: &ValueFacts<'_>) -> Recipes {
        let n = facts.g.vals.len();
        let mut recipes = Recipes { kept: vec![false; n], available: vec![false; n], depth: vec![0; n], is_deferred: vec![false; n], deferred: Vec::new() };
        for v in 0..n {
            let op = &facts.g.node_of(v as u32).op;
            if matches!(op, Op::Input) {
                recipes.available[v] = true;
                recipes.kept[v] = facts.held.passed_on[v];
            } else if op.is_view() {
                recipes.choose_view(facts, v);
            } else {
                recipes.choose_computed(facts, v);
            }
        }
        recipes
    }
    /// A view of something kept costs nothing; a view that must stay keeps its source.
    fn choose_view(&mut self, facts: &ValueFacts<'_>, v: usize) {
        let ValueFacts { g, held, .. } = facts;
        let source = g.node_of(v as u32).inputs[0] as usize;
        self.available[v] = self.available[source] && held.slot_of[v] != NONE;
        self.depth[v] = self.depth[source];
        let moves = facts.root[v] as usize == v && facts.constant[v].is_none();
        if moves && held.owner[v] == Owner::Tape && self.available[v] && !facts.written[v] && from_window(g, v) && self.depth[source] < MAX_DEPTH {
            // A copy of what is kept is not kept as well: the backward moves the elements again.
            self.defer(facts, v, self.depth[source] + 1);
        } else if held.owner[v] != Owner::Nobody {
            self.keep(facts.root[v] as usize);
            self.keep(v);
        }
    }
    /// A value that only the tape holds stays a recipe if it can; another one that is held is kept.
    fn choose_computed(&mut self, facts: &ValueFacts<'_>, v: usize) {
        let ValueFacts { g, held, reads, .. } = facts;
        let x = g.node_of(v as u32);
        let repeats = held.slot_of[v] != NONE && x.first == v as u32 && x.op.is_map() && from_window(g, v);
        let mut depth = self.depth_if_recomputed(g, v).filter(|_| repeats);
        let by_tape = held.owner[v] == Owner::Tape;
        let behind = || facts.with_ends && behind_a_product(facts, v);
        if by_tape && repeats && depth.is_none() && !reads.heavy[v] && !behind() {
            depth = self.keep_sources(facts, v);
        }
        match depth {
            Some(depth) if by_tape && depth <= MAX_DEPTH && !reads.heavy[v] && !facts.written[v] => self.defer(facts, v, depth),
            _ if held.owner[v] != Owner::Nobody || facts.written[v] => self.keep(v),
            Some(depth) if depth < MAX_DEPTH => (self.available[v], self.depth[v]) = (true, depth),
            _ => {}
        }
    }
    /// The full-size source of a value, if it is one, is in memory now: keeps that instead (gelu keeps x, not the terms made of
    /// it). The value's depth, if it can be computed again then.
    fn keep_sources(&mut self, facts: &ValueFacts<'_>, v: usize) -> Option<u8> {
        for s in sources(facts, v, &self.available)? {
            self.keep(s);
        }
        for t in 0..v {
            if !self.available[t]
                && facts.held.slot_of[t] != NONE
                && from_window(facts.g, t)
                && let Some(depth) = self.depth_if_recomputed(facts.g, t).filter(|depth| *depth < MAX_DEPTH)
            {
                (self.available[t], self.depth[t]) = (true, depth);
            }
        }
        self.depth_if_recomputed(facts.g, v)
    }
    /// The depth of a Map of what is available.
    fn depth_if_recomputed(&self, g: &Graph, v: usize) -> Option<u8> {
        let x = g.node_of(v as u32);
        let can = x.op.is_map() && x.inputs.iter().all(|&i| self.available[i as usize]);
        can.then(|| 1 + x.inputs.iter().map(|&i| self.depth[i as usize]).max().unwrap_or(0))
    }
    fn keep(&mut self, v: usize) {
        self.kept[v] = true;
        self.available[v] = true;
    }
    fn defer(&mut self, facts: &ValueFacts<'_>, v: usize, depth: u8) {
        self.deferred.push(facts.held.slot_of[v]);
        self.is_deferred[v] = true;
        self.available[v] = true;
        self.depth[v] = depth;
    }
    /// What a deferred value will read must still be there then: the storage that is. What lies between a recipe and what is
    /// kept becomes a recipe too.
    fn pin(&mut self, facts: &ValueFacts<'_>) -> Vec<bool> {
        let n = facts.g.vals.len();
        let mut pinned = vec![false; n];
        let mut seen = vec![false; n];
        let mut todo: Vec<usize> = (0..n).filter(|&v| self.is_deferred[v]).collect();
        while let Some(v) = todo.pop() {
            if std::mem::replace(&mut seen[v], true) {
                continue;
            }
            let x = facts.g.node_of(v as u32);
            if !self.is_deferred[v] && (self.kept[v] || matches!(x.op, Op::Input)) {
                pinned[facts.root[v] as usize] = true;
                continue;
            }
            if !std::mem::replace(&mut self.is_deferred[v], true) {
                self.deferred.push(facts.held.slot_of[v]);
            }
            todo.extend(x.inputs.iter().map(|&i| i as usize));
        }
        pinned
    }
}

/// What is computed at all: what is kept, written or an effect, and what that is made of.
fn needed(facts: &ValueFacts<'_>, kept: &[bool]) -> Vec<bool> {
    let n = facts.g.vals.len();
    let mut needed = vec![false; n];
    for v in (0..n).rev() {
        let x = facts.g.node_of(v as u32);
        let siblings = (x.first..x.first + x.outputs).any(|o| needed[o as usize]);
        needed[v] |= kept[v] || facts.written[v] || x.op.is_effect() || siblings;
        if needed[v] {
            for &i in &x.inputs {
                needed[i as usize] = true;
            }
        }
    }
    needed
}

/// What has memory of its own: what stays or is no Map, and what somebody reads who cannot compute it inside.
fn in_memory(facts: &ValueFacts<'_>, kept: &[bool], needed: &[bool]) -> Vec<bool> {
    let ValueFacts { g, written, root, constant, reads, .. } = facts;
    let n = g.vals.len();
    let mut in_memory: Vec<bool> = (0..n).map(|v| kept[v] || written[v] || !(g.node_of(v as u32).op.is_map() || constant[v].is_some())).collect();
    for x in &g.nodes {
        if !(x.first..x.first + x.outputs).any(|o| needed[o as usize]) {
            continue;
        }
        let out = g.shape(x.first);
        for &i in &x.inputs {
            let r = root[i as usize] as usize;
            if constant[i as usize].is_some() && (x.op.is_map() || x.op.is_view() || matches!(x.op, Op::Reduce { .. })) {
                continue;
            }
            let direct = r == i as usize;
            let inside = direct && (matches!(x.op, Op::Reduce { .. }) || (x.op.is_map() && g.shape(i) == out && !matches!(x.op, Op::RandomBits { .. })));
            let moves = x.op.is_view() && root[x.first as usize] == x.first;
            if (!inside && !x.op.is_view()) || moves {
                in_memory[r] = true;
            }
        }
        // A view that stays keeps its source in memory.
        if x.op.is_view() && kept[x.first as usize] {
            in_memory[root[x.first as usize] as usize] = true;
        }
    }
    for v in 0..n {
        if reads.is_reduced_among_others(v) && needed[v] && constant[v].is_none() {
            in_memory[root[v] as usize] = true;
        }
    }
    in_memory
}

/// A kernel finds at most one fault, so that it is known whose: a second division reads the first one's result from memory.
fn one_fault_a_kernel(g: &Graph, in_memory: &mut [bool]) {
    let mut divides = vec![false; g.vals.len()];
    for v in 0..g.vals.len() {
        let x = g.node_of(v as u32);
        let own = matches!(&x.op, Op::Binary(f) | Op::BinaryScalar(f, _) if x.inputs.first().is_some_and(|&i| f.can_fault(g.vals[i as usize].meta.dtype)));
        divides[v] = own;
        for &i in x.inputs.iter().filter(|_| x.op.is_map()) {
            let i = i as usize;
            if divides[i] && !in_memory[i] {
                in_memory[i] |= divides[v];
                divides[v] = true;
            }
        }
    }
}

/// Kernels stay short: a chain that grows too long is cut by putting a value into memory. What is read twice (by a `x * sigmoid(x)`)
/// is computed and loaded once, and counts once.
fn keep_short(g: &Graph, in_memory: &mut [bool]) {
    #[derive(Default)]
    struct Inside {
        ops: SmallVec<[u32; 8]>,
        loads: SmallVec<[u32; 8]>,
    }
    fn add(to: &mut SmallVec<[u32; 8]>, v: u32) {
        if !to.contains(&v) {
            to.push(v);
        }
    }
    let mut inside: Vec<Inside> = Vec::new();
    inside.resize_with(g.vals.len(), Inside::default);
    for v in 0..g.vals.len() {
        let x = g.node_of(v as u32);
        if !x.op.is_map() || in_memory[v] {
            continue;
        }
        let mut own = Inside { ops: smallvec![v as u32], loads: SmallVec::new() };
        for &i in &x.inputs {
            if in_memory[i as usize] {
                add(&mut own.loads, i);
            } else {
                inside[i as usize].ops.iter().for_each(|&op| add(&mut own.ops, op));
                inside[i as usize].loads.iter().for_each(|&load| add(&mut own.loads, load));
            }
        }
        if own.ops.len() > MAX_INSTRS as usize || own.loads.len() > MAX_LOADS as usize {
            in_memory[v] = true;
        } else {
            inside[v] = own;
        }
    }
}

/// Values of dtypes that are stored and not computed with are read by Maps alone: a reduction whose program would load one reads
/// the program's result from memory.
fn cast_apart(g: &Graph, in_memory: &mut [bool]) {
    let mut loads_stored = vec![false; g.vals.len()];
    for v in 0..g.vals.len() {
        let x = g.node_of(v as u32);
        let loads = |&i: &u32| if in_memory[i as usize] { !g.vals[i as usize].meta.dtype.computes() } else { loads_stored[i as usize] };
        loads_stored[v] = (x.op.is_map() || x.op.is_view()) && x.inputs.iter().any(loads);
    }
    for x in g.nodes.iter().filter(|x| matches!(x.op, Op::Reduce { .. })) {
        for &i in &x.inputs {
            in_memory[i as usize] |= loads_stored[i as usize] && g.node_of(i).op.is_map();
        }
    }
}

/// Is it what one product, through values that nobody else reads, leads to? Then it is stored instead of the product.
fn behind_a_product(facts: &ValueFacts<'_>, v: usize) -> bool {
    let ValueFacts { g, held, reads, .. } = facts;
    let mut todo: Vec<usize> = vec![v];
    let mut steps = 0;
    while let Some(u) = todo.pop() {
        steps += 1;
        if steps > 64 {
            return false;
        }
        for &i in &g.node_of(u as u32).inputs {
            let alone = reads.uses[i as usize] == 1 && held.owner[i as usize] == Owner::Nobody && g.shape(i) == g.shape(u as u32);
            match &g.node_of(i).op {
                Op::Matmul | Op::Conv(_) if alone => return true,
                op if op.is_map() && alone => todo.push(i as usize),
                _ => {}
            }
        }
    }
    false
}
/// Is the value computed by a record of the window itself, not inside a body?
fn from_window(g: &Graph, v: usize) -> bool {
    matches!(g.node_of(v as u32).arg, super::graph::ArgFrom::Record(_))
}

/// The values in memory that `v` is a Map of, if at most one of them has v's full size.
fn sources(facts: &ValueFacts<'_>, v: usize, available: &[bool]) -> Option<Vec<usize>> {
    let ValueFacts { g, root, held, .. } = facts;
    let mut todo: Vec<usize> = g.node_of(v as u32).inputs.iter().map(|&i| i as usize).collect();
    let (mut found, mut full, mut steps) = (Vec::new(), 0, 0);
    while let Some(i) = todo.pop() {
        if available[i] || found.contains(&i) {
            continue;
        }
        steps += 1;
        let x = g.node_of(i as u32);
        if held.slot_of[i] == NONE || found.len() > 4 || steps > 64 {
            return None;
        }
        if x.op.is_map() && !x.inputs.is_empty() && from_window(g, i) {
            todo.extend(x.inputs.iter().map(|&i| i as usize));
        } else if x.op.is_view() {
            return None;
        } else {
            full += (g.shape(i as u32) == g.shape(v as u32)) as u8;
            found.push(root[i] as usize);
        }
    }
    (full <= 1 && !found.is_empty()).then_some(found)
}

/// Storage roots and constants of all values.
fn views(g: &Graph) -> (Vec<u32>, Vec<Option<u32>>) {
    let n = g.vals.len();
    let mut root: Vec<u32> = (0..n as u32).collect();
    let mut constant = vec![None; n];
    for (at, x) in g.nodes.iter().enumerate() {
        let v = x.first as usize;
        match &x.op {
            Op::Const(_) => constant[v] = Some(at as u32),
            op if op.is_view() => {
                let source = x.inputs[0] as usize;
                constant[v] = constant[source];
                if !g.moves[v] {
                    root[v] = root[source];
                }
            }
            _ => {}
        }
    }
    (root, constant)
}
