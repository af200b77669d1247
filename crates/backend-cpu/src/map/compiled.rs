//! The part of a program that a compiled loop computes, and how a tile runs with it: what the loop cannot do and needs is
//! interpreted before, what needs the loop's values and cannot be done in it is interpreted behind it.
//!
//! Which registers are numbers, and which inputs a loop reads where they lie, is known when a program meets its operands: a
//! [`LoopForm`]. A program keeps one loop for each form that it met.
mod blocks;
#[cfg(test)]
mod tests;

use super::{
    held::{HeldIntegers, SMALL},
    loops::RealBinary,
    program::{Code, Program, TileKind},
    tile::TileRun,
    tiles::{Lane, OutTile, Scratch, Value, with_kind},
    translate::{self, SmallPower},
};
use crate::{
    isa::Isa,
    jit::{
        self, LoopCall, LoopCode, LoopPlan,
        graph::{ElementFormat, LoopGraph, LoopOp, LoopValue},
        trace,
    },
    map::loops::Src,
    math::pairs::PairFn,
};
use adamant_runtime::{DType, ErrorKind, expr::Reg, op::ReduceOp};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicUsize, Ordering},
};

/// A program that has run over so many elements is compiled: what the interpreter took for them is about what the compiler takes.
const WORTH: usize = 256 * super::tiles::TILE;
/// Fewer elements are not worth a look at what there is.
const FEWEST: usize = super::tiles::TILE;
/// Shorter lines are not worth a call of a loop for each.
pub(super) const LEAST_LINE: usize = 128;
/// Coordinates along lines, for loops to read.
static COLUMNS: LazyLock<Vec<i32>> = LazyLock::new(|| (0..32 * 1024).collect());
/// Registers and inputs of a program that a form has bits for.
const BITS: usize = u128::BITS as usize;

/// What of a program's operands its loop depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoopForm {
    /// registers that are one number for a call
    numbers: u128,
    /// inputs that are read where they lie
    in_memory: u128,
    /// the dtypes of the results, where they are written to outputs and not to tiles
    outputs: SmallVec<[DType; jit::POINTERS]>,
    /// results are written by non-temporal stores
    streamed: bool,
    /// vectors of AVX-512
    is_wide: bool,
    /// registers that are the coordinate along a line of the nest
    columns: u128,
    /// coordinates and numbers of integers are [`SMALL`]
    has_small: bool,
    /// registers that are a power by 2, and by 3
    squares: u128,
    cubes: u128,
    /// the result is combined by blocks, and the loop gives their lanes
    combines: Option<ReduceOp>,
}
impl LoopForm {
    /// The power that register `r` is, if it is one by a small number.
    fn power(&self, r: usize) -> Option<SmallPower> {
        match (self.squares >> r & 1, self.cubes >> r & 1) {
            (1, _) => Some(SmallPower::Square),
            (_, 1) => Some(SmallPower::Cube),
            _ => None,
        }
    }
    /// Does a loop read what this code says where it lies, or from the coordinates?
    fn lies(&self, r: Reg, code: &Code) -> bool {
        match *code {
            Code::Load(k) => self.in_memory >> k & 1 == 1,
            Code::Index(_) => self.columns >> r & 1 == 1,
            _ => false,
        }
    }
}
/// Where a stream that a loop reads comes from.
#[derive(Clone, Copy)]
enum StreamSource {
    Input(u16),
    Tile(Reg),
    /// the coordinate along a line
    Column,
}
/// Where a value of a loop goes.
#[derive(Clone, Copy)]
enum StreamSink {
    Output(u8),
    Tile(Reg),
}
/// A loop with its place in a program.
pub(crate) struct CompiledPart {
    code: LoopCode,
    reads: SmallVec<[StreamSource; 8]>,
    writes: SmallVec<[StreamSink; 4]>,
    numbers: SmallVec<[Reg; 8]>,
    /// registers that are interpreted before the loop and behind it
    before: Vec<Reg>,
    behind: Vec<Reg>,
    /// the tile of each register that has one: none has that of another, for they are not computed in the order of the program
    slots: Vec<u16>,
    /// it goes from memory to memory, without a tile
    pub is_whole: bool,
}
impl CompiledPart {
    /// The inputs that the loop reads where they lie.
    fn inputs(&self) -> impl Iterator<Item = usize> {
        self.reads.iter().filter_map(|r| if let StreamSource::Input(k) = r { Some(*k as usize) } else { None })
    }
    /// Does the loop write this output?
    pub fn writes_output(&self, o: usize) -> bool {
        self.writes.iter().any(|w| matches!(w, StreamSink::Output(of) if *of as usize == o))
    }
    /// The tile of a register that has one.
    pub fn slot(&self, r: usize) -> u16 {
        self.slots[r]
    }
}
/// The loops that were compiled for a program, by their forms.
#[derive(Default)]
pub(crate) struct CompiledLoops {
    loops: Mutex<SmallVec<[(LoopForm, Option<Arc<CompiledPart>>); 1]>>,
    /// elements that the program has run over
    elements: AtomicUsize,
}
impl CompiledLoops {
    /// Is the program worth compiling, now that it runs over `n` elements more?
    fn are_worth(&self, n: usize) -> bool {
        jit::is_eager() || n >= FEWEST && n.saturating_add(self.elements.fetch_add(n, Ordering::Relaxed)) >= WORTH
    }
    /// How many loops there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.loops.lock().iter().filter(|(_, part)| part.is_some()).count()
    }
    /// The loop of a form. `None`: there is nothing in it that a loop could do.
    fn get(&self, program: &Program, form: &LoopForm, results: &[Reg]) -> Option<Arc<CompiledPart>> {
        let mut loops = self.loops.lock();
        if let Some((_, part)) = loops.iter().find(|(known, _)| known == form) {
            return part.clone();
        }
        let part = compile(program, form, results).map(Arc::new);
        loops.push((form.clone(), part.clone()));
        part
    }
}

/// When a register is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RegisterPhase {
    Number,
    Before,
    Loop,
    Behind,
}
/// The phases of a program's registers for a loop with such lanes.
fn phases(program: &Program, form: &LoopForm, lanes: TileKind, integers: &HeldIntegers) -> Vec<RegisterPhase> {
    let mut phases: Vec<RegisterPhase> = Vec::with_capacity(program.registers.len());
    // Tiles of integers are none that lanes of 32 bits read.
    let is_at_hand = |x: Reg, phase: RegisterPhase| {
        let register = &program.registers[x as usize];
        phase != RegisterPhase::Before || register.kind != TileKind::I64 || lanes == TileKind::F64 || form.lies(x, &register.code)
    };
    for r in 0..program.registers.len() {
        let reads = || program.reads[r].iter().flatten().map(|&x| (x, phases[x as usize]));
        let latest = reads().map(|(_, phase)| phase).max().unwrap_or(RegisterPhase::Number);
        let all_at_hand = reads().all(|(x, phase)| is_at_hand(x, phase));
        let widens = translate::widens(program, r, lanes).is_some_and(|x| form.lies(x, &program.registers[x as usize].code));
        phases.push(match program.registers[r].code {
            _ if form.numbers >> r & 1 == 1 => RegisterPhase::Number,
            Code::Load(_) | Code::Arg(_) | Code::Const(_) | Code::Index(_) | Code::Random { .. } => RegisterPhase::Before,
            _ if widens => RegisterPhase::Loop,
            _ if latest <= RegisterPhase::Loop && all_at_hand && translate::is_known(program, r, (lanes, form.is_wide), integers) => RegisterPhase::Loop,
            _ if latest <= RegisterPhase::Before => RegisterPhase::Before,
            _ => RegisterPhase::Behind,
        });
    }
    phases
}
/// Compiles the loop that does the most of a program's work.
fn compile(program: &Program, form: &LoopForm, results: &[Reg]) -> Option<CompiledPart> {
    let has_integers = program.registers.iter().any(|r| r.kind == TileKind::I64);
    let mut ways: SmallVec<[(usize, TileKind, Vec<RegisterPhase>); 4]> = SmallVec::new();
    for with_integers in [true, false].into_iter().skip(usize::from(!has_integers)) {
        for lanes in [TileKind::F32, TileKind::F64] {
            let integers = if with_integers { HeldIntegers::of(program, lanes, form.has_small) } else { HeldIntegers::none(program) };
            let phases = phases(program, form, lanes, &integers);
            let work = program.registers.iter().zip(&phases).filter(|(_, p)| **p == RegisterPhase::Loop).map(|(r, _)| 1 + r.code.weight()).sum();
            ways.push((work, lanes, phases));
        }
    }
    if form.combines.is_some() {
        // What is combined may be what is read.
        ways.retain(|(_, lanes, _)| results.iter().all(|&r| program.registers[r as usize].kind == *lanes));
        ways.iter_mut().for_each(|(work, ..)| *work += 1);
    }
    ways.sort_by_key(|(work, ..)| std::cmp::Reverse(*work));
    ways.into_iter().filter(|(work, ..)| *work > 0).find_map(|(_, lanes, phases)| match lanes {
        TileKind::F64 => build::<true>(program, form, results, &phases),
        _ => build::<false>(program, form, results, &phases),
    })
}
/// A loop in the making.
struct LoopBuilder<'p> {
    program: &'p Program,
    form: &'p LoopForm,
    lanes: TileKind,
    phases: &'p [RegisterPhase],
    values: Vec<Option<LoopValue>>,
    graph: LoopGraph,
    reads: SmallVec<[(StreamSource, ElementFormat); 8]>,
    numbers: SmallVec<[Reg; 8]>,
}
impl LoopBuilder<'_> {
    /// A value that the loop reads and does not compute.
    fn leaf(&mut self, r: Reg) -> Option<LoopValue> {
        if let Some(value) = self.values[r as usize] {
            return Some(value);
        }
        let register = &self.program.registers[r as usize];
        let op = match (self.phases[r as usize], &register.code) {
            (RegisterPhase::Number, _) => {
                self.numbers.push(r);
                LoopOp::Number((self.numbers.len() - 1).try_into().ok()?)
            }
            (_, code) if self.form.lies(r, code) => match *code {
                Code::Load(k) => self.stream(StreamSource::Input(k), translate::read_format(register.dtype, self.lanes)?)?,
                _ => self.stream(StreamSource::Column, translate::read_format(DType::I32, self.lanes)?)?,
            },
            _ => self.stream(StreamSource::Tile(r), translate::tile_format(register.kind, self.lanes)?)?,
        };
        let value = self.graph.enter(op);
        self.values[r as usize] = Some(value);
        Some(value)
    }
    fn stream(&mut self, source: StreamSource, format: ElementFormat) -> Option<LoopOp> {
        self.reads.push((source, format));
        Some(LoopOp::Stream((self.reads.len() - 1).try_into().ok()?, format, 0))
    }
}
fn build<const DOUBLE: bool>(program: &Program, form: &LoopForm, results: &[Reg], phases: &[RegisterPhase]) -> Option<CompiledPart> {
    let n = program.registers.len();
    let lanes = if DOUBLE { TileKind::F64 } else { TileKind::F32 };
    let lies = |r: Reg| phases[r as usize] == RegisterPhase::Before && form.lies(r, &program.registers[r as usize].code);
    let in_loop = |r: Reg| phases[r as usize] == RegisterPhase::Loop || form.combines.is_some() && lies(r);
    // What the loop gives: results, and what is read behind it.
    let mut writes: SmallVec<[(StreamSink, Reg, ElementFormat); 4]> = SmallVec::new();
    for (o, &dtype) in form.outputs.iter().enumerate() {
        if in_loop(results[o]) {
            writes.push((StreamSink::Output(o as u8), results[o], translate::format(dtype).filter(|f| f.is_of(DOUBLE))?));
        }
    }
    let behind_reads = |r: Reg| (0..n).any(|x| phases[x] == RegisterPhase::Behind && program.reads[x].contains(&Some(r)));
    for r in (0..n as Reg).filter(|&r| in_loop(r)) {
        if behind_reads(r) && form.combines.is_none() || form.outputs.is_empty() && results.contains(&r) {
            writes.push((StreamSink::Tile(r), r, translate::tile_format(program.registers[r as usize].kind, lanes)?));
        }
    }
    // Backwards: what the loop needs of what it computes.
    let mut wanted = vec![false; n];
    writes.iter().for_each(|w| wanted[w.1 as usize] = true);
    for r in (0..n).rev().filter(|&r| phases[r] == RegisterPhase::Loop) {
        if wanted[r] {
            program.reads[r].iter().flatten().for_each(|&x| wanted[x as usize] = true);
        }
    }
    let mut builder =
        LoopBuilder { program, form, lanes, phases, values: vec![None; n], graph: LoopGraph::default(), reads: SmallVec::new(), numbers: SmallVec::new() };
    for r in (0..n).filter(|&r| wanted[r] && phases[r] == RegisterPhase::Loop) {
        for &x in program.reads[r].iter().flatten() {
            builder.leaf(x)?;
        }
        let values = std::mem::take(&mut builder.values);
        let value = trace::record(&mut builder.graph, || translate::enter::<DOUBLE>(program, r, form.power(r), |x| values[x as usize].unwrap_or_default()));
        builder.values = values;
        builder.values[r] = Some(value);
    }
    let mut identity = None;
    if let Some(op) = form.combines {
        let &[result] = results else { return None };
        let value = builder.leaf(result)?;
        let (carried, begun) = trace::record(&mut builder.graph, || (trace::enter(LoopOp::Carried(0)), translate::identity::<DOUBLE>(op)));
        builder.values[result as usize] = Some(trace::record(&mut builder.graph, || translate::combine::<DOUBLE>(op, carried, value)));
        identity = Some(begun);
    }
    let stores: Option<SmallVec<[_; 4]>> = writes.iter().map(|&(_, r, format)| Some((builder.values[r as usize]?, format))).collect();
    let code = LoopCode::new(&LoopPlan {
        graph: std::mem::take(&mut builder.graph),
        reads: builder.reads.iter().map(|r| r.1).collect(),
        writes: stores?,
        numbers: builder.numbers.len(),
        is_double: DOUBLE,
        is_wide: form.is_wide,
        past_caches: form.streamed,
        identity,
    })?;
    // What is interpreted: results that the loop does not give, what is read from tiles, and all that these stand on.
    let mut interpreted = vec![false; n];
    for (r, interpreted) in interpreted.iter_mut().enumerate() {
        let r = r as Reg;
        let is_read = builder.numbers.contains(&r) || builder.reads.iter().any(|(s, _)| matches!(s, StreamSource::Tile(of) if *of == r));
        *interpreted = is_read || results.contains(&r) && !in_loop(r);
    }
    for r in (0..n).rev().filter(|&r| phases[r] != RegisterPhase::Loop) {
        if interpreted[r] {
            program.reads[r].iter().flatten().for_each(|&x| interpreted[x as usize] = true);
        }
    }
    let of = |phase: &dyn Fn(RegisterPhase) -> bool| (0..n).filter(|&r| interpreted[r] && phase(phases[r])).map(|r| r as Reg).collect::<Vec<_>>();
    let (before, behind) = (of(&|p| p <= RegisterPhase::Before), of(&|p| p == RegisterPhase::Behind));
    let mut made = [0u16; 4];
    let mut slots = vec![0; n];
    let written = writes.iter().filter(|w| matches!(w.0, StreamSink::Tile(_))).map(|w| w.1);
    for r in before.iter().chain(&behind).copied().chain(written) {
        let next = &mut made[program.registers[r as usize].kind as usize];
        slots[r as usize] = *next;
        *next += 1;
    }
    let reads_memory = builder.reads.iter().all(|r| !matches!(r.0, StreamSource::Tile(_)));
    let only_memory = reads_memory && (form.combines.is_some() || writes.iter().all(|w| matches!(w.0, StreamSink::Output(_))));
    let gives_all = results.iter().all(|&r| in_loop(r)) && behind.is_empty();
    let is_whole = only_memory && gives_all && before.iter().all(|&r| phases[r as usize] == RegisterPhase::Number);
    let (reads, writes) = (builder.reads.iter().map(|r| r.0).collect(), writes.iter().map(|w| w.0).collect());
    if form.combines.is_some() && !is_whole {
        return None;
    }
    Some(CompiledPart { code, reads, writes, numbers: builder.numbers, before, behind, slots, is_whole })
}
fn bits(value: Value) -> u64 {
    match value {
        Value::F32(v) => v.to_bits().into(),
        Value::F64(v) => v.to_bits(),
        Value::Bool(0) => 0,
        Value::Bool(_) => u64::MAX,
        Value::I64(v) => v as u64,
    }
}

impl TileRun<'_> {
    /// Takes the compiled loop of the program for these operands, if there is one, once all else is known of them. `outputs` are the
    /// dtypes of results that are written where they belong; none where they are wanted in tiles. `n`: how many elements there are.
    pub fn compile(&mut self, results: &[Reg], outputs: &[DType], n: usize) {
        if self.program.ahead.is_none()
            && let Some(form) = self.form(outputs, n)
        {
            self.take(&form, results, outputs);
        }
    }
    /// Takes the loop of a form, if there is one that can run.
    fn take(&mut self, form: &LoopForm, results: &[Reg], outputs: &[DType]) {
        let (program, inputs) = (self.program, self.inputs.len());
        let Some(part) = program.compiled.get(program, form, results) else { return };
        let shares = |k: usize| self.inputs[k].in_place.is_some_and(|o| o < outputs.len());
        let is_alone = part.behind.is_empty() && (0..outputs.len()).all(|o| part.writes_output(o));
        let reads_results = part.reads.iter().any(|s| matches!(s, StreamSource::Tile(r) if self.into[*r as usize].is_some()));
        if !reads_results && (is_alone || !(0..inputs).any(shares)) {
            self.compiled = Some(part);
        }
    }
    /// The form of a loop for these operands, if the program is worth one now that it runs over `n` elements more.
    fn form(&self, outputs: &[DType], n: usize) -> Option<LoopForm> {
        let program = self.program;
        let inputs = self.inputs.len();
        let may = self.drawn.is_empty() && program.registers.len() <= BITS && inputs <= BITS;
        if !may || !jit::is_on(self.isa) || !program.compiled.are_worth(n) {
            return None;
        }
        let mut form = LoopForm {
            numbers: 0,
            in_memory: 0,
            outputs: SmallVec::from_slice(outputs),
            streamed: self.streamed,
            is_wide: self.isa == Isa::Avx512,
            columns: 0,
            has_small: self.nest.len() < SMALL as usize,
            squares: 0,
            cubes: 0,
            combines: None,
        };
        let inner = self.nest.innermost();
        for (r, register) in program.registers.iter().enumerate() {
            let is_number = self.uniform[r].is_some() || self.lines.get(r) == Some(&true);
            form.numbers |= u128::from(is_number) << r;
            let is_column = |place: u16| (LEAST_LINE..=COLUMNS.len()).contains(&inner) && self.nest.innermost_stride(place.into()) == 1;
            form.columns |= u128::from(matches!(register.code, Code::Index(place) if is_column(place))) << r;
            let is_power = |by: f64| match register.code {
                Code::RealBinary(RealBinary::Pair(PairFn::Pow), _, y) => match self.uniform[y as usize] {
                    Some(Value::F32(v)) => f64::from(v) == by,
                    Some(Value::F64(v)) => v == by,
                    _ => false,
                },
                _ => false,
            };
            form.squares |= u128::from(is_power(2.0)) << r;
            form.cubes |= u128::from(is_power(3.0)) << r;
            form.has_small &= !matches!(self.uniform[r], Some(Value::I64(v)) if v.unsigned_abs() > SMALL as u64);
        }
        for (k, input) in self.inputs.iter().enumerate() {
            let lies = match input.in_place {
                None => self.nest.is_dense(k) || self.nest.innermost() >= super::ahead::LINE && self.nest.innermost_stride(k) == 1,
                // Of the size that is written there; or beside all that is written.
                Some(o) => self.nest.is_dense(k) && outputs.get(o).is_none_or(|d| *d == input.dtype),
            };
            form.in_memory |= u128::from(lies && translate::format(input.dtype).is_some()) << k;
        }
        form.streamed &= outputs.iter().all(|d| translate::format(*d).is_some_and(ElementFormat::is_plain));
        // Interpreted registers would be written where an input still waits to be read, or read where one was overwritten.
        let is_lost = |k: usize| self.inputs[k].in_place.is_some() && form.in_memory >> k & 1 == 0;
        (!(0..inputs).any(is_lost)).then_some(form)
    }
    /// Runs all instructions of a tile with the help of the compiled loop.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub(super) fn run_compiled(&self, part: &CompiledPart, at: usize, n: usize, scratch: &mut Scratch, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        let interpret = |registers: &[Reg], scratch: &mut Scratch, outs: &mut [OutTile<'_>]| {
            let mut registers = registers.iter().map(|&r| r as usize).filter(|&r| self.uniform[r].is_none());
            registers.try_for_each(|r| self.execute(r, at, if self.is_line(r, at, n) { 1 } else { n }, scratch, outs))
        };
        interpret(&part.before, scratch, outs)?;
        // Tiles that the loop writes are none that it reads.
        let mut tiles: SmallVec<[WrittenTile; 8]> = SmallVec::new();
        for sink in &part.writes {
            if let StreamSink::Tile(r) = *sink {
                tiles.push(WrittenTile::take(self.program.registers[r as usize].kind, part.slot(r as usize), scratch));
            }
        }
        let line = self.line_of(part).unwrap_or(usize::MAX);
        let mut done = 0;
        while done < n {
            let count = (line - (at + done) % line).min(n - done);
            self.call(part, Stretched { at, n, done, count }, scratch, &mut tiles, outs)?;
            done += count;
        }
        tiles.into_iter().for_each(|tile| tile.put(scratch));
        interpret(&part.behind, scratch, outs)
    }
    /// How long the lines are along which a loop can go at a time, if it cannot go on and on.
    pub(super) fn line_of(&self, part: &CompiledPart) -> Option<usize> {
        let is_line = |r: &Reg| self.uniform[*r as usize].is_none();
        let has_columns = part.reads.iter().any(|s| matches!(s, StreamSource::Column));
        let by_lines = has_columns || part.numbers.iter().any(is_line) || part.inputs().any(|k| !self.nest.is_dense(k));
        by_lines.then(|| self.nest.innermost())
    }
    /// One call of the loop.
    fn call(&self, part: &CompiledPart, place: Stretched, scratch: &Scratch, tiles: &mut [WrittenTile], outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        let Stretched { at, n, done, count } = place;
        let mut call = LoopCall::new(&part.code, count);
        self.number(part, place, scratch, &mut call)?;
        // What lies behind the outputs is only read.
        let (written, beside) = outs.split_at_mut(self.program.results.len().min(outs.len()));
        for source in &part.reads {
            match *source {
                StreamSource::Input(k) => match self.inputs[k as usize].in_place {
                    Some(o) => {
                        match (o.checked_sub(written.len()), part.writes.iter().position(|w| matches!(w, StreamSink::Output(of) if *of as usize == o))) {
                            (None, Some(place)) => call.read_output(place),
                            (Some(o), _) if o < beside.len() => call.read(&beside[o].bytes[beside[o].range(at + done, count)]),
                            _ => return super::tile::unexpected(),
                        }
                    }
                    None => call.read(self.memory(k as usize, at + done, count)),
                },
                StreamSource::Column => call.read(self.columns(at + done, count)),
                StreamSource::Tile(r) => {
                    let kind = self.program.registers[r as usize].kind;
                    with_kind!(kind, T => match self.src::<T>(r, at, n, scratch, &[]) {
                        Src::Slice(values) => call.read(bytemuck::cast_slice(&values[done..done + count])),
                        Src::Splat(_) => return super::tile::unexpected(),
                    });
                }
            }
        }
        let (mut places, mut waiting) = (written.iter_mut().map(Some).collect::<SmallVec<[_; jit::POINTERS]>>(), tiles.iter_mut());
        for sink in &part.writes {
            match *sink {
                StreamSink::Output(o) => {
                    let Some(out) = places.get_mut(o as usize).and_then(Option::take) else { return super::tile::unexpected() };
                    let range = out.range(at + done, count);
                    call.write(&mut out.bytes[range]);
                }
                StreamSink::Tile(_) => match waiting.next() {
                    Some(tile) => call.write(tile.bytes(done, count)),
                    None => return super::tile::unexpected(),
                },
            }
        }
        call.run();
        Ok(())
    }
    /// The numbers of a call.
    fn number(&self, part: &CompiledPart, place: Stretched, scratch: &Scratch, call: &mut LoopCall<'_>) -> Result<(), ErrorKind> {
        let Stretched { at, n, done, .. } = place;
        for &r in &part.numbers {
            let register = &self.program.registers[r as usize];
            let value = match self.uniform[r as usize] {
                Some(value) => value,
                None => {
                    let place = if self.is_line(r as usize, at, n) { 0 } else { done };
                    with_kind!(register.kind, T => T::tiles(scratch).values(part.slot(r as usize))[place].value())
                }
            };
            call.number(bits(value));
        }
        Ok(())
    }
    /// The coordinates along a line of so many positions from `at` on.
    fn columns(&self, at: usize, count: usize) -> &[u8] {
        let column = at % self.nest.innermost();
        bytemuck::cast_slice(&COLUMNS[column..column + count])
    }
    /// The elements of an input that lie side by side from position `at` on.
    fn memory(&self, k: usize, at: usize, n: usize) -> &[u8] {
        let input = &self.inputs[k];
        let (from, size) = (input.layout.offset as isize + self.nest.offset(k, at), input.dtype.size());
        let start = from as usize * size;
        &input.bytes[start..start + n * size]
    }
}
/// The positions of one call among those of a tile: `count` from `done` on, of the `n` from `at` on.
#[derive(Clone, Copy)]
struct Stretched {
    at: usize,
    n: usize,
    done: usize,
    count: usize,
}
/// A tile while a loop writes it.
enum WrittenTile {
    F32(u16, super::tiles::Tile<f32>),
    F64(u16, super::tiles::Tile<f64>),
    I64(u16, super::tiles::Tile<i64>),
    Bool(u16, super::tiles::Tile<u8>),
}
impl WrittenTile {
    fn take(kind: TileKind, slot: u16, scratch: &mut Scratch) -> WrittenTile {
        match kind {
            TileKind::F64 => WrittenTile::F64(slot, f64::tiles_mut(scratch).take(slot)),
            TileKind::I64 => WrittenTile::I64(slot, i64::tiles_mut(scratch).take(slot)),
            TileKind::Bool => WrittenTile::Bool(slot, u8::tiles_mut(scratch).take(slot)),
            _ => WrittenTile::F32(slot, f32::tiles_mut(scratch).take(slot)),
        }
    }
    fn bytes(&mut self, from: usize, count: usize) -> &mut [u8] {
        match self {
            WrittenTile::F32(_, tile) => bytemuck::cast_slice_mut(&mut tile.values_mut()[from..from + count]),
            WrittenTile::F64(_, tile) => bytemuck::cast_slice_mut(&mut tile.values_mut()[from..from + count]),
            WrittenTile::I64(_, tile) => bytemuck::cast_slice_mut(&mut tile.values_mut()[from..from + count]),
            WrittenTile::Bool(_, tile) => &mut tile.values_mut()[from..from + count],
        }
    }
    fn put(self, scratch: &mut Scratch) {
        match self {
            WrittenTile::F32(slot, tile) => f32::tiles_mut(scratch).put(slot, tile),
            WrittenTile::F64(slot, tile) => f64::tiles_mut(scratch).put(slot, tile),
            WrittenTile::I64(slot, tile) => i64::tiles_mut(scratch).put(slot, tile),
            WrittenTile::Bool(slot, tile) => u8::tiles_mut(scratch).put(slot, tile),
        }
    }
}
