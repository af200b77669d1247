//! Which element-wise ops run at the ends of a product: behind it those that read its result and lead to one stored value,
//! before it the casts and dequantizations that only it reads. Decided from structure alone, for devices that claim the
//! product with its ends; what they do not claim stays apart. No value is computed twice for it: a product that is kept, or
//! that leads to two stored values, is written and read as ever. Only a cast that widens, and that products alone read, is
//! a part of each of them: what is stored is the narrow value.
use super::{
    ArgFrom, Decisions, Graph, Use,
    decide::MAX_LOADS,
    fuse::{MAX_KERNEL, Program, reads_key},
};
use crate::{
    DType, Device, Op,
    backend::Support,
    expr::{Instr, Reg},
    kernel::KernelKind,
    op::{ConvRole, View},
    product::{End, Product, Sums},
    scalar::{Binary, Unary},
};
use smallvec::{SmallVec, smallvec};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A product with what runs at its ends.
pub(super) struct WithEnds {
    /// what runs
    pub kind: KernelKind,
    /// what it reads
    pub inputs: Vec<Use>,
    /// where its arguments come from
    pub args: Vec<ArgFrom>,
    /// how many ops run inside
    pub ops: u32,
    /// may an op behind it find bad data?
    pub faultable: bool,
}
/// The products with ends, by the value that each stores.
#[derive(Default)]
pub(super) struct Ends {
    /// what stores a value
    pub stores: HashMap<u32, WithEnds>,
    /// products that are computed where another value is stored
    inside: HashSet<u32>,
}
impl Ends {
    /// Is the product of this value a part of what stores another?
    pub fn is_inside(&self, v: u32) -> bool {
        self.inside.contains(&v)
    }
}

/// Does the device claim products with ends?
pub(super) fn are_claimed(device: Device) -> bool {
    let end = || End::identity(DType::F32);
    let mut epilogue = end();
    epilogue.value = epilogue.expr.push(Instr::Unary(Unary::Neg, 0), DType::F32);
    let product = Product { sums: Sums::Matmul, acc: DType::F32, dtype: DType::F32, prologue: [end(), end()], epilogue, accumulate: false };
    device.backend().supports(&KernelKind::Product(Arc::new(product)), &[DType::F32; 3]) == Support::Native
}
/// Finds the ends of all products, the latest first: a value that two products lead to is stored by the later one, which
/// reads the other's result. What is computed inside a product is in memory no more.
pub(super) fn find(g: &Graph, d: &mut Decisions, written: &[bool], device: Device) -> Ends {
    let mut ends = Ends::default();
    if !g.nodes.iter().any(|x| sums(&x.op).is_some()) || !are_claimed(device) {
        return ends;
    }
    let readers = readers(g, d);
    // Operands that are made in several products: in how many more.
    let mut unmade: HashMap<u32, usize> = HashMap::new();
    for x in g.nodes.iter().rev() {
        let p = x.first;
        let Some(sums) = sums(&x.op).filter(|_| d.needed[p as usize]) else { continue };
        let before = [0, 1].map(|k| prologue(g, d, &readers, written, x.inputs[k], &sums));
        let is_forward = !matches!(&sums, Sums::Conv(spec) if spec.role != ConvRole::Forward);
        let behind = is_forward.then(|| terminal(g, d, &readers, written, p)).flatten();
        let behind = behind.filter(|(m, _)| !ends.stores.contains_key(m)).and_then(|(m, seen)| {
            let small = if sums == Sums::Matmul { SmallVec::new() } else { of_channels(g, d, &readers, written, m) };
            epilogue(g, d, m, &seen, small)
        });
        let none = || [None, None];
        let mut claimed = None;
        // The most that the device claims.
        for (before, behind) in [(before.clone(), behind.clone()), (none(), behind), (before, None)] {
            if behind.is_none() && before.iter().all(Option::is_none) {
                continue;
            }
            let stored = behind.as_ref().map_or(p, |b| b.stored);
            let operands = [x.inputs[0], x.inputs[1]];
            let (with, inside) = assemble(g, p, operands, &sums, before, behind, device);
            if let Some(with) = with {
                claimed = Some((stored, with, inside));
                break;
            }
        }
        let Some((stored, with, inside)) = claimed else { continue };
        if stored != p {
            d.in_memory[p as usize] = false;
            ends.inside.insert(p);
        }
        for InsideValue { value, products, narrow } in inside {
            let left = unmade.entry(value).or_insert(products);
            *left -= 1;
            d.in_memory[value as usize] &= *left > 0;
            narrow.into_iter().for_each(|u| d.in_memory[u as usize] = true);
        }
        ends.stores.insert(stored, with);
    }
    ends
}
/// The sums of an op that may have ends. Behind the gradients of a convolution nothing runs.
fn sums(op: &Op) -> Option<Sums> {
    match op {
        Op::Matmul => Some(Sums::Matmul),
        Op::Conv(spec) => Some(Sums::Conv(spec.clone())),
        _ => None,
    }
}
/// The nodes that read each value, of those that run.
type Readers = Vec<SmallVec<[u32; 2]>>;
fn readers(g: &Graph, d: &Decisions) -> Readers {
    let mut readers: Readers = vec![SmallVec::new(); g.vals.len()];
    for (k, x) in g.nodes.iter().enumerate() {
        if (x.first..x.first + x.outputs).any(|o| d.needed[o as usize]) {
            x.inputs.iter().for_each(|&i| readers[i as usize].push(k as u32));
        }
    }
    readers
}

/// The one stored value that all readers of a product lead to, element by element, and under which values the product is
/// seen there: itself, and what only reshapes it.
fn terminal(g: &Graph, d: &Decisions, readers: &Readers, written: &[bool], p: u32) -> Option<(u32, SmallVec<[u32; 2]>)> {
    let free = |v: u32| !d.kept[v as usize] && !written[v as usize];
    if !free(p) || d.root[p as usize] != p {
        return None;
    }
    let (mut seen, mut todo, mut found): (SmallVec<[u32; 2]>, SmallVec<[u32; 8]>, Option<u32>) = (smallvec![p], smallvec![p], None);
    let mut visited: SmallVec<[u32; 8]> = smallvec![p];
    while let Some(v) = todo.pop() {
        for &k in &readers[v as usize] {
            let x = &g.nodes[k as usize];
            let u = x.first;
            if visited.contains(&u) {
                continue;
            }
            match &x.op {
                Op::View(View::Reshape(_)) if seen.contains(&v) && free(u) && d.root[u as usize] == p => seen.push(u),
                op if op.is_map() && !matches!(op, Op::RandomBits { .. }) && g.shape(u) == g.shape(v) => {
                    if d.in_memory[u as usize] {
                        if found.is_some_and(|m| m != u) || written[u as usize] || d.root[u as usize] != u {
                            return None;
                        }
                        found = Some(u);
                        continue;
                    }
                    if !free(u) {
                        return None;
                    }
                }
                _ => return None,
            }
            visited.push(u);
            todo.push(u);
        }
    }
    found.map(|m| (m, seen))
}

/// What runs behind a product.
#[derive(Clone)]
struct Behind {
    stored: u32,
    end: End,
    /// what it loads beside the product
    loads: Vec<u32>,
    args: Vec<ArgFrom>,
    ops: u32,
    faults: bool,
    accumulate: bool,
    /// values that are computed inside and not stored
    inside: SmallVec<[u32; 4]>,
}
/// Values with one element for each channel that only what `m` stores reads: they are computed there, which costs a
/// convolution nothing, and need no kernels of their own (the scale of a normalisation).
fn of_channels(g: &Graph, d: &Decisions, readers: &Readers, written: &[bool], m: u32) -> SmallVec<[u32; 4]> {
    let (mut inside, mut small): (SmallVec<[u32; 8]>, SmallVec<[u32; 4]>) = (smallvec![m], SmallVec::new());
    let mut at = 0;
    while let Some(&v) = inside.get(at) {
        at += 1;
        for &i in &g.node_of(v).inputs {
            let k = i as usize;
            let computed = g.node_of(i).op.is_map() && d.root[k] == i && d.constant[k].is_none() && !inside.contains(&i);
            let channels = g.shape(i) != g.shape(m) && g.shape(i).last() == Some(&1);
            if computed && !d.in_memory[k] {
                inside.push(i);
            } else if computed && channels && !d.kept[k] && !written[k] {
                small.push(i);
                inside.push(i);
            }
        }
    }
    // A reader elsewhere keeps a value in memory, and then it need not be computed again.
    small.retain(|v| readers[*v as usize].iter().all(|&n| inside.contains(&g.nodes[n as usize].first)));
    small
}
fn epilogue(g: &Graph, d: &mut Decisions, m: u32, seen: &[u32], small: SmallVec<[u32; 4]>) -> Option<Behind> {
    small.iter().for_each(|&v| d.in_memory[v as usize] = false);
    let behind = program_behind(g, d, m, seen);
    small.iter().for_each(|&v| d.in_memory[v as usize] = true);
    behind.map(|behind| Behind { inside: small, ..behind })
}
fn program_behind(g: &Graph, d: &Decisions, m: u32, seen: &[u32]) -> Option<Behind> {
    let mut program = Program::new();
    let product = program.load(seen[0], g.vals[seen[0] as usize].meta.dtype);
    program.memo.extend(seen.iter().map(|&v| (v, product)));
    let value = program.compute(g, d, m);
    if program.expr.instrs.len() > MAX_KERNEL || program.loads.len() > 2 * MAX_LOADS as usize {
        return None;
    }
    let (faults, ops) = (program.faults(), program.ops);
    let mut behind = Behind {
        stored: m,
        end: End { expr: program.expr, value },
        loads: program.loads.split_off(1),
        args: program.args,
        ops,
        faults,
        accumulate: false,
        inside: SmallVec::new(),
    };
    add_to_what_is_there(g, d, &mut behind);
    Some(behind)
}
/// Where the last op adds a value that has the result's place in memory, that value becomes the last input.
fn add_to_what_is_there(g: &Graph, d: &Decisions, b: &mut Behind) {
    let expr = &mut b.end.expr;
    let Some(Instr::Binary(Binary::Add, x, y)) = expr.instrs.get(b.end.value as usize).copied() else { return };
    let loads = |r: u16, k: u16| matches!(expr.instrs.get(r as usize), Some(Instr::Load(l)) if *l == k);
    let there = (0..b.loads.len() as u16).find(|&k| {
        let v = b.loads[k as usize] as usize;
        let same = g.vals[v].meta.dtype == g.vals[b.stored as usize].meta.dtype && g.shape(v as u32) == g.shape(b.stored);
        let whole = same && g.dense[v] && d.root[v] as usize == v && d.constant[v].is_none();
        let read = |r: u16| loads(r, k + 1);
        let uses: usize = expr.instrs.iter().map(|i| operands(i).iter().filter(|r| read(**r)).count()).sum();
        whole && uses == 1 && (read(x) || read(y))
    });
    let Some(there) = there else { return };
    let last = b.loads.len() as u16 - 1;
    b.loads.swap(there as usize, last as usize);
    for i in &mut expr.instrs {
        if let Instr::Load(k) | Instr::Random(k) = i {
            if *k == there + 1 {
                *k = last + 1;
            } else if *k == last + 1 {
                *k = there + 1;
            }
        }
    }
    b.accumulate = true;
}
/// The registers that an instruction reads.
fn operands(i: &Instr) -> SmallVec<[u16; 3]> {
    match *i {
        Instr::Unary(_, x) | Instr::Cast(x) | Instr::Bitcast(x) => smallvec![x],
        Instr::Binary(_, x, y) => smallvec![x, y],
        Instr::Select(c, x, y) => smallvec![c, x, y],
        _ => smallvec![],
    }
}

/// A value that a product computes and does not store.
#[derive(Clone, Copy)]
struct InsideValue {
    value: u32,
    /// how many operands of products are made of it
    products: usize,
    /// what it is cast from, if that has no memory without it
    narrow: Option<u32>,
}
impl InsideValue {
    fn alone(value: u32) -> InsideValue {
        InsideValue { value, products: 1, narrow: None }
    }
}
/// What makes an operand.
#[derive(Clone)]
struct Before {
    inside: InsideValue,
    end: End,
    loads: Vec<u32>,
    args: Vec<ArgFrom>,
    ops: u32,
}
/// How many operands of products are a value or a view of it; none if something else reads it too.
fn products_of(g: &Graph, d: &Decisions, readers: &Readers, written: &[bool], v: u32) -> Option<usize> {
    let (mut todo, mut products): (SmallVec<[u32; 4]>, usize) = (smallvec![v], 0);
    while let Some(u) = todo.pop() {
        if d.kept[u as usize] || written[u as usize] {
            return None;
        }
        for &k in &readers[u as usize] {
            let x = &g.nodes[k as usize];
            match (&x.op, sums(&x.op)) {
                (Op::View(View::Permute(_) | View::Expand(_) | View::Reshape(_)), _) if d.root[x.first as usize] == d.root[u as usize] => todo.push(x.first),
                (_, Some(sums)) if x.inputs[..2].contains(&u) && (sums == Sums::Matmul || u == v) => products += 1,
                _ => return None,
            }
        }
    }
    Some(products)
}
/// A cast or a dequantization that only the product reads, and that loads less than it makes; or the last cast of a value, if it
/// widens, and products alone read it.
fn prologue(g: &Graph, d: &Decisions, readers: &Readers, written: &[bool], operand: u32, sums: &Sums) -> Option<Before> {
    let (mut v, mut reshaped) = (operand, false);
    while let (Op::View(view @ (View::Permute(_) | View::Expand(_) | View::Reshape(_))), true) = (&g.node_of(v).op, *sums == Sums::Matmul) {
        let source = g.node_of(v).inputs[0];
        if d.root[v as usize] != d.root[source as usize] {
            return None;
        }
        reshaped |= matches!(view, View::Reshape(_));
        v = source;
    }
    let made = d.in_memory[v as usize] && d.root[v as usize] == v && d.constant[v as usize].is_none() && g.node_of(v).op.is_map();
    let products = products_of(g, d, readers, written, v).filter(|_| made)?;
    // What is broadcast has no place in another shape.
    let must_be_dense = reshaped || matches!(sums, Sums::Conv(_));
    let fits = |program: &Program, source: u32| !must_be_dense || (g.dense[source as usize] && (!reshaped || program.loads.len() == 1));
    let whole = || (products == 1).then(|| light(g, d, v)).flatten().map(|(program, value, source)| (program, value, source, None));
    let widened = || widening(g, d, v);
    let (mut program, value, source, narrow) = whole().filter(|(p, _, s, _)| fits(p, *s)).or_else(widened).filter(|(p, _, s, _)| fits(p, *s))?;
    // The element that is converted comes first.
    let at = program.loads.iter().position(|&l| l == source)? as u16;
    program.loads.swap(0, at as usize);
    for i in &mut program.expr.instrs {
        if let Instr::Load(k) = i {
            *k = if *k == at {
                0
            } else if *k == 0 {
                at
            } else {
                *k
            };
        }
    }
    let inside = InsideValue { value: v, products, narrow };
    Some(Before { inside, end: End { expr: program.expr, value }, loads: program.loads, args: program.args, ops: program.ops })
}
/// The program of a value from what is in memory, its register and the one value of its size that it loads, if that is smaller
/// than what it makes, and few ops lie between.
fn light(g: &Graph, d: &Decisions, v: u32) -> Option<(Program, Reg, u32)> {
    let mut program = Program::new();
    let value = program.compute(g, d, v);
    let light = |i: &Instr| match i {
        Instr::Load(_) | Instr::Arg(_) | Instr::Const(_) | Instr::Cast(_) => true,
        Instr::Binary(f, ..) => matches!(f, Binary::Add | Binary::Sub | Binary::Mul),
        _ => false,
    };
    let full: SmallVec<[u32; 2]> = program.loads.iter().copied().filter(|&l| g.shape(l) == g.shape(v)).collect();
    let [source] = full[..] else { return None };
    (program.expr.instrs.iter().all(light) && size(g, source) < size(g, v)).then_some((program, value, source))
}
/// The last op of a value as a program, if it is a cast that widens; and what it casts, with its own place in memory if it has
/// none without that.
fn widening(g: &Graph, d: &Decisions, v: u32) -> Option<(Program, Reg, u32, Option<u32>)> {
    let (Op::Cast(_), &[u, ..]) = (&g.node_of(v).op, &g.node_of(v).inputs[..]) else { return None };
    let is_stored = d.in_memory[u as usize] || d.root[u as usize] != u;
    let dtype = g.vals[u as usize].meta.dtype;
    if size(g, u) >= size(g, v) || d.constant[u as usize].is_some() || !(is_stored || dtype.computes()) {
        return None;
    }
    let mut program = Program { ops: 1, ..Program::new() };
    let narrow = program.load(u, dtype);
    let value = program.expr.push(Instr::Cast(narrow), g.vals[v as usize].meta.dtype);
    Some((program, value, u, (!is_stored).then_some(u)))
}
/// Bytes of an element.
fn size(g: &Graph, v: u32) -> usize {
    g.vals[v as usize].meta.dtype.size()
}

/// The kernel, if the device claims it, and the values that it makes inside.
fn assemble(
    g: &Graph,
    p: u32,
    operands: [u32; 2],
    sums: &Sums,
    before: [Option<Before>; 2],
    behind: Option<Behind>,
    device: Device,
) -> (Option<WithEnds>, SmallVec<[InsideValue; 2]>) {
    let dtype_of = |v: u32| g.vals[v as usize].meta.dtype;
    let dtype = dtype_of(p);
    let (mut inputs, mut args, mut ops, mut inside) = (Vec::new(), Vec::new(), 1, SmallVec::new());
    let prologue = [0, 1].map(|k| match &before[k] {
        Some(b) => {
            inputs.extend(b.loads.iter().map(|&l| Use::Made { load: l, made: b.inside.value, operand: operands[k] }));
            args.extend(b.args.iter().copied());
            ops += b.ops;
            inside.push(b.inside);
            b.end.clone()
        }
        _ => {
            inputs.push(Use::Whole(operands[k]));
            End::identity(dtype_of(operands[k]))
        }
    });
    let faultable = behind.as_ref().is_some_and(|b| b.faults);
    let accumulate = behind.as_ref().is_some_and(|b| b.accumulate);
    let stored = behind.as_ref().map_or(p, |b| b.stored);
    let epilogue = match behind {
        Some(b) => {
            inputs.extend(b.loads.iter().zip(1..).map(|(&l, k)| if reads_key(&b.end.expr, k) { Use::Whole(l) } else { Use::Broadcast(l) }));
            args.extend(b.args);
            ops += b.ops;
            inside.extend(b.inside.into_iter().map(InsideValue::alone));
            b.end
        }
        None => End::identity(dtype),
    };
    let dtypes: SmallVec<[DType; 8]> = inputs.iter().map(|u| dtype_of(u.value(g))).chain([dtype_of(stored)]).collect();
    // A device may write the result beside what is added to it, and not in its place.
    for accumulate in [accumulate, false] {
        let product =
            Product { sums: sums.clone(), acc: Product::accumulator(dtype), dtype, prologue: prologue.clone(), epilogue: epilogue.clone(), accumulate };
        let kind = KernelKind::Product(Arc::new(product));
        if device.backend().supports(&kind, &dtypes) == Support::Native {
            return (Some(WithEnds { kind, inputs, args, ops, faultable }), inside);
        }
        if !accumulate {
            break;
        }
    }
    (None, inside)
}
