//! What is in memory, what is computed again, what needs to run: decided from structure alone, so that the same
//! program always gives the same plans.
use super::graph::{Graph, NONE};
use crate::Op;
use smallvec::{SmallVec, smallvec};

/// Who holds a value of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Holder {
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
pub fn decide(g: &Graph, holders: &[Holder], written: &[bool], with_ends: bool) -> Decisions {
    let n = g.vals.len();
    let mut holder = vec![Holder::Nobody; n];
    let mut slot_of = vec![NONE; n];
    for (slot, &v) in g.of_slot.iter().enumerate() {
        if v == NONE {
            continue;
        }
        let h = holders.get(slot).copied().unwrap_or(Holder::Nobody);
        let old = &mut holder[v as usize];
        *old = match (*old, h) {
            (Holder::User, _) | (_, Holder::User) => Holder::User,
            (Holder::Tape, _) | (_, Holder::Tape) => Holder::Tape,
            _ => Holder::Nobody,
        };
        if slot_of[v as usize] == NONE {
            slot_of[v as usize] = slot as u32;
        }
    }
    // An input that an op passes on as its own result: its memory is then held through that result.
    let mut passed_on = vec![false; n];
    for (slot, &v) in g.of_slot.iter().enumerate() {
        if v != NONE && holders.get(slot).is_some_and(|h| *h != Holder::Nobody) && matches!(g.node_of(v).op, Op::Input) && !g.is_input_slot(slot as u32, v) {
            passed_on[v as usize] = true;
        }
    }
    let (root, constant) = views(g);

    // Values that an op other than a Map or a reduction reads are in memory in any case.
    let mut heavy = vec![false; n];
    let mut uses = vec![0u16; n];
    let mut reduced = vec![false; n];
    for x in &g.nodes {
        for &i in &x.inputs {
            let i = i as usize;
            uses[i] = uses[i].saturating_add(1);
            match &x.op {
                Op::Reduce { .. } => reduced[i] = true,
                op if op.is_map() || op.is_view() => {}
                _ => heavy[root[i] as usize] = true,
            }
        }
    }
    for v in 0..n {
        heavy[v] |= reduced[v] && uses[v] > 1;
    }

    let (mut kept, mut ok, mut depth, mut deferred) = (vec![false; n], vec![false; n], vec![0u8; n], Vec::new());
    let mut is_deferred = vec![false; n];
    for v in 0..n {
        let x = g.node_of(v as u32);
        if matches!(x.op, Op::Input) {
            ok[v] = true;
            kept[v] = passed_on[v];
            continue;
        }
        let logged = slot_of[v] != NONE && x.first == v as u32 && !matches!(x.op, Op::Composite(_));
        let is_map = x.op.is_map() && from_window(g, v);
        let able = |ok: &[bool], v: usize| {
            let x = g.node_of(v as u32);
            x.op.is_map() && x.inputs.iter().all(|&i| ok[i as usize])
        };
        let depth_of = |depth: &[u8], v: usize| 1 + g.node_of(v as u32).inputs.iter().map(|&i| depth[i as usize]).max().unwrap_or(0);
        if x.op.is_view() {
            // A view of something kept costs nothing; a view that must stay keeps its source.
            ok[v] = ok[x.inputs[0] as usize] && slot_of[v] != NONE;
            depth[v] = depth[x.inputs[0] as usize];
            let moves = root[v] as usize == v && constant[v].is_none();
            if moves && holder[v] == Holder::Tape && ok[v] && !written[v] && from_window(g, v) && depth[x.inputs[0] as usize] < MAX_DEPTH {
                // A copy of what is kept is not kept as well: the backward moves the elements again.
                deferred.push(slot_of[v]);
                is_deferred[v] = true;
                depth[v] = depth[x.inputs[0] as usize] + 1;
                continue;
            }
            if holder[v] != Holder::Nobody {
                let r = root[v] as usize;
                kept[r] = true;
                ok[r] = true;
                ok[v] = true;
                kept[v] = true;
            }
            continue;
        }
        let mut can = logged && is_map && able(&ok, v);
        let mut d = depth_of(&depth, v);
        let behind = || with_ends && behind_a_product(g, v, &uses, &holder);
        if holder[v] == Holder::Tape && is_map && logged && !can && !heavy[v] && !behind() {
            // Its one full-size source is in memory now: keep that instead (gelu keeps x, not the terms made of it).
            if let Some(sources) = sources(g, v, &ok, &slot_of, &root) {
                for &s in &sources {
                    kept[s] = true;
                    ok[s] = true;
                }
                for t in 0..=v {
                    if !ok[t] && slot_of[t] != NONE && from_window(g, t) && able(&ok, t) {
                        let dt = depth_of(&depth, t);
                        if t == v {
                            can = true;
                            d = dt;
                        } else if dt < MAX_DEPTH {
                            ok[t] = true;
                            depth[t] = dt;
                        }
                    }
                }
            }
        }
        if holder[v] == Holder::Tape && can && d <= MAX_DEPTH && !heavy[v] && !written[v] {
            deferred.push(slot_of[v]);
            is_deferred[v] = true;
            ok[v] = true;
            depth[v] = d;
        } else if holder[v] != Holder::Nobody || written[v] {
            kept[v] = true;
            ok[v] = true;
        } else if can && d < MAX_DEPTH {
            ok[v] = true;
            depth[v] = d;
        }
    }

    // What a deferred value will read must still be there then.
    let mut pinned = vec![false; n];
    let mut seen = vec![false; n];
    let mut todo: Vec<usize> = (0..n).filter(|&v| is_deferred[v]).collect();
    while let Some(v) = todo.pop() {
        if std::mem::replace(&mut seen[v], true) {
            continue;
        }
        if !is_deferred[v] && (kept[v] || matches!(g.node_of(v as u32).op, Op::Input)) {
            pinned[root[v] as usize] = true;
            continue;
        }
        // What lies between a recipe and what is kept becomes a recipe too.
        if !std::mem::replace(&mut is_deferred[v], true) {
            deferred.push(slot_of[v]);
        }
        todo.extend(g.node_of(v as u32).inputs.iter().map(|&i| i as usize));
    }

    let mut needed = vec![false; n];
    for v in (0..n).rev() {
        let x = g.node_of(v as u32);
        let siblings = (x.first..x.first + x.outputs).any(|o| needed[o as usize]);
        needed[v] |= kept[v] || written[v] || x.op.is_effect() || siblings;
        if needed[v] {
            for &i in &x.inputs {
                needed[i as usize] = true;
            }
        }
    }

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
        if reduced[v] && uses[v] > 1 && needed[v] && constant[v].is_none() {
            in_memory[root[v] as usize] = true;
        }
    }
    // A kernel finds at most one fault, so that it is known whose: a second division reads the first one's result from memory.
    let mut divides = vec![false; n];
    for v in 0..n {
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
    keep_short(g, &mut in_memory);
    cast_apart(g, &mut in_memory);
    Decisions { in_memory, needed, deferred, kept, root, constant, pinned }
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
fn behind_a_product(g: &Graph, v: usize, uses: &[u16], holder: &[Holder]) -> bool {
    let mut todo: Vec<usize> = vec![v];
    let mut steps = 0;
    while let Some(u) = todo.pop() {
        steps += 1;
        if steps > 64 {
            return false;
        }
        for &i in &g.node_of(u as u32).inputs {
            let alone = uses[i as usize] == 1 && holder[i as usize] == Holder::Nobody && g.shape(i) == g.shape(u as u32);
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
fn sources(g: &Graph, v: usize, ok: &[bool], slot_of: &[u32], root: &[u32]) -> Option<Vec<usize>> {
    let mut todo: Vec<usize> = g.node_of(v as u32).inputs.iter().map(|&i| i as usize).collect();
    let (mut found, mut full, mut steps) = (Vec::new(), 0, 0);
    while let Some(i) = todo.pop() {
        if ok[i] || found.contains(&i) {
            continue;
        }
        steps += 1;
        let x = g.node_of(i as u32);
        if slot_of[i] == NONE || found.len() > 4 || steps > 64 {
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
                if !matches!(op, Op::View(crate::op::View::Reshape(_))) || g.dense[source] {
                    root[v] = root[source];
                }
            }
            _ => {}
        }
    }
    (root, constant)
}
