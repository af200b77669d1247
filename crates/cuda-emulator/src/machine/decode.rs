//! Makes a kernel's program of its text: functions laid out one after another, registers numbered as rows, names found.
//! Functions stand before those that call them, so that lanes within one go first and meet the others again behind it.

mod collective;
mod memory;
mod plain;

use super::{
    registers::{FIRST_PREDICATE, NOWHERE, RowOperands, TRUE},
    step::{FrameCopy, FunctionCall, Instruction, MachineStep, Program, RowConstant, Special},
};
use crate::ptx::{Operand, PtxError, PtxFunction, PtxType, Source, StateSpace, Statement};
use std::{collections::HashMap, sync::Arc};

/// Rows that nobody reads: a wide register's worth, and the row that is always zero before them.
const ZERO_ROW: u32 = 0;
const SCRATCH: u32 = 1;
const FIRST_ROW: u32 = 3;
/// Larger frames than this no thread has.
const MOST_LOCAL: u64 = 512 << 10;
/// More shared memory than this no block has.
const MOST_SHARED: u64 = 1 << 20;

type Decoded<T> = Result<T, PtxError>;

/// A function's registers and variables, placed.
pub struct FunctionFrame<'s> {
    function: &'s PtxFunction,
    /// Row, or number of the predicate.
    registers: Vec<u32>,
    /// Of each variable: where it lies in its space.
    variables: Vec<u32>,
    /// The row that holds where to go on behind a call of it.
    back: u32,
    entry: u32,
}

/// A program that is being made.
pub struct PtxDecoder<'s> {
    source: &'s Source,
    program: Program,
    next_row: u32,
    next_predicate: u32,
    constants: HashMap<RowConstant, u32>,
    specials: HashMap<Special, u32>,
    shared: HashMap<String, u32>,
    frames: HashMap<&'s str, FunctionFrame<'s>>,
    /// Branches whose label comes later: instruction, label, line.
    open: Vec<(usize, Vec<String>, u32)>,
    dynamic_align: u64,
}

/// The program of a kernel.
pub fn program(source: &Source, kernel: &PtxFunction) -> Decoded<Program> {
    let mut decoder = PtxDecoder {
        source,
        program: Program { rows: 0, ..Program::default() },
        next_row: FIRST_ROW,
        next_predicate: FIRST_PREDICATE,
        constants: HashMap::new(),
        specials: HashMap::new(),
        shared: HashMap::new(),
        frames: HashMap::new(),
        open: Vec::new(),
        dynamic_align: 16,
    };
    let order = decoder.calls(kernel)?;
    for function in order {
        let frame = decoder.frame(function)?;
        decoder.frames.insert(&function.name, frame);
    }
    // Static shared memory is placed as it is met; what the launch adds lies behind all of it.
    for function in decoder.calls(kernel)? {
        decoder.place_shared(function)?;
    }
    decoder.program.dynamic = decoder.program.shared.next_multiple_of(decoder.dynamic_align as u32);
    for function in decoder.calls(kernel)? {
        decoder.body(function)?;
    }
    decoder.program.entry = decoder.frames.get(kernel.name.as_str()).map_or(0, |f| f.entry);
    decoder.finish()
}

impl<'s> PtxDecoder<'s> {
    /// All functions that a kernel needs, called ones first.
    fn calls(&self, kernel: &'s PtxFunction) -> Decoded<Vec<&'s PtxFunction>> {
        let mut order: Vec<&PtxFunction> = Vec::new();
        let mut path: Vec<(&PtxFunction, usize)> = vec![(kernel, 0)];
        while let Some((function, at)) = path.last_mut() {
            let call = function.body.iter().enumerate().skip(*at).find(|(_, s)| s.words[0] == "call");
            let Some((k, statement)) = call else {
                order.push(function);
                path.pop();
                continue;
            };
            *at = k + 1;
            let name = called(statement)?;
            let target = self.source.functions.iter().find(|f| f.name == name && !f.kernel);
            let target = target.ok_or_else(|| PtxError::new(statement.line, format!("the function `{name}` has no body here: `{}`", statement.text)))?;
            if path.iter().any(|(f, _)| std::ptr::eq(*f, target)) {
                return Err(PtxError::new(statement.line, format!("`{name}` calls itself; recursion is not known here")));
            }
            if !order.iter().any(|f| std::ptr::eq(*f, target)) {
                path.push((target, 0));
            }
        }
        Ok(order)
    }
    fn frame(&mut self, function: &'s PtxFunction) -> Decoded<FunctionFrame<'s>> {
        let mut registers = Vec::with_capacity(function.registers.len());
        for t in &function.registers {
            registers.push(match t {
                PtxType::Pred => {
                    self.next_predicate += 1;
                    self.next_predicate - 1
                }
                PtxType::B128 => return Err(PtxError::new(function.line, "registers of 128 bits are not known here")),
                _ => self.rows(t.bits() == 64),
            });
        }
        let back = self.rows(false);
        let mut variables = Vec::with_capacity(function.variables.len());
        let mut parameters = 0u64;
        for (k, variable) in function.variables.iter().enumerate() {
            let kernel_parameter = function.kernel && function.parameters.contains(&k);
            let (cursor, most) = match variable.space {
                StateSpace::Param if kernel_parameter => (&mut parameters, MOST_LOCAL),
                StateSpace::Local | StateSpace::Param => (&mut 0, MOST_LOCAL),
                _ => {
                    variables.push(0);
                    continue;
                }
            };
            if !kernel_parameter {
                *cursor = u64::from(self.program.local);
            }
            let start = cursor.next_multiple_of(variable.align);
            let end = start + variable.bytes;
            if end > most {
                return Err(PtxError::new(variable.line, format!("`{}` does not fit: a thread has at most {most} bytes of local memory", variable.name)));
            }
            *cursor = end;
            if !kernel_parameter {
                self.program.local = end as u32;
            }
            variables.push(start as u32);
        }
        Ok(FunctionFrame { function, registers, variables, back, entry: 0 })
    }
    /// Places the shared variables that a function declares or names.
    fn place_shared(&mut self, function: &'s PtxFunction) -> Decoded<()> {
        let named = |name: &str| function.body.iter().any(|s| s.operands.iter().any(|o| names(o, name)));
        let source = self.source;
        let of_module = source.variables.iter().filter(|v| v.space == StateSpace::Shared && named(&v.name));
        for (k, variable) in function.variables.iter().enumerate().filter(|(_, v)| v.space == StateSpace::Shared) {
            let at = self.take_shared(variable)?;
            if let Some(place) = self.frames.get_mut(function.name.as_str()).and_then(|f| f.variables.get_mut(k)) {
                *place = at;
            }
        }
        for variable in of_module {
            if variable.bytes == 0 {
                self.dynamic_align = self.dynamic_align.max(variable.align);
            } else if !self.shared.contains_key(&variable.name) {
                let at = self.take_shared(variable)?;
                self.shared.insert(variable.name.clone(), at);
            }
        }
        Ok(())
    }
    fn take_shared(&mut self, variable: &crate::ptx::Variable) -> Decoded<u32> {
        let start = u64::from(self.program.shared).next_multiple_of(variable.align);
        let end = start + variable.bytes;
        if end > MOST_SHARED {
            return Err(PtxError::new(variable.line, format!("`{}`: more shared memory than any block has", variable.name)));
        }
        self.program.shared = end as u32;
        Ok(start as u32)
    }
    fn rows(&mut self, wide: bool) -> u32 {
        let row = self.next_row;
        self.next_row += 1 + u32::from(wide);
        row
    }
    fn constant(&mut self, constant: RowConstant) -> u32 {
        if let Some(row) = self.constants.get(&constant) {
            return *row;
        }
        let row = self.rows(!matches!(constant, RowConstant::Word(_)));
        self.constants.insert(constant.clone(), row);
        self.program.constants.push((constant, row));
        row
    }
    fn body(&mut self, function: &'s PtxFunction) -> Decoded<()> {
        let mut starts = Vec::with_capacity(function.body.len() + 1);
        let entry = self.program.instructions.len() as u32;
        if let Some(frame) = self.frames.get_mut(function.name.as_str()) {
            frame.entry = entry;
        }
        let first_open = self.open.len();
        for statement in &function.body {
            starts.push(self.program.instructions.len() as u32);
            let text: Arc<str> = statement.text.as_str().into();
            let (guard, negated) = match statement.guard {
                Some((register, negated)) => (self.predicate(function, &Operand::Register(register), statement)?, if negated { u32::MAX } else { 0 }),
                None => (TRUE, 0),
            };
            for step in self.steps(function, statement)? {
                self.program.instructions.push(Instruction { guard, negated, step });
                self.program.origins.push((statement.line, Arc::clone(&text)));
            }
        }
        starts.push(self.program.instructions.len() as u32);
        // Whoever runs over the end leaves.
        let end = if function.kernel { MachineStep::Exit } else { MachineStep::Return(self.back(function)) };
        self.program.instructions.push(Instruction { guard: TRUE, negated: 0, step: end });
        self.program.origins.push((function.body.last().map_or(function.line, |s| s.line), "the function's end".into()));
        for (at, labels, line) in self.open.split_off(first_open) {
            let place = |label: &String| {
                let found = function.labels.get(label).and_then(|k| starts.get(*k)).copied();
                found.ok_or_else(|| PtxError::new(line, format!("the label `{label}` is nowhere")))
            };
            let targets: Vec<u32> = labels.iter().map(place).collect::<Decoded<_>>()?;
            match &mut self.program.instructions[at].step {
                MachineStep::Branch(to) => *to = targets.first().copied().unwrap_or(0),
                MachineStep::BranchTable(_, to) => *to = targets.into(),
                _ => {}
            }
        }
        Ok(())
    }
    fn back(&self, function: &PtxFunction) -> u32 {
        self.frames.get(function.name.as_str()).map_or(SCRATCH, |f| f.back)
    }
    /// What an instruction becomes: mostly one step.
    fn steps(&mut self, function: &'s PtxFunction, s: &'s Statement) -> Decoded<Vec<MachineStep>> {
        let step = match s.words[0].as_str() {
            "bra" => {
                let Some(Operand::Name(label)) = s.operands.first() else { return Err(unknown(s)) };
                self.open.push((self.program.instructions.len(), vec![label.clone()], s.line));
                MachineStep::Branch(0)
            }
            "brx" => {
                let [index, Operand::Name(list)] = s.operands.as_slice() else { return Err(unknown(s)) };
                let labels = function.targets.get(list).ok_or_else(|| PtxError::new(s.line, format!("the list of labels `{list}` is nowhere")))?;
                self.open.push((self.program.instructions.len(), labels.clone(), s.line));
                MachineStep::BranchTable(self.read(function, index, PtxType::U32, s)?, Box::default())
            }
            "exit" => MachineStep::Exit,
            "ret" if function.kernel => MachineStep::Exit,
            "ret" => MachineStep::Return(self.back(function)),
            "trap" | "brkpt" => MachineStep::Trap,
            "call" => return self.call(function, s),
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "prefetch" | "prefetchu" | "membar" | "fence" | "ldmatrix" | "stmatrix" | "discard"
            | "applypriority" => self.memory(function, s)?,
            "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask" | "mma" | "nanosleep" | "elect" => self.collective(function, s)?,
            _ => self.plain(function, s)?,
        };
        Ok(vec![step])
    }
    fn call(&mut self, function: &'s PtxFunction, s: &'s Statement) -> Decoded<Vec<MachineStep>> {
        let name = called(s)?;
        let list = |o: Option<&Operand>| match o {
            Some(Operand::List(list)) => Some(list.clone()),
            _ => None,
        };
        let first = list(s.operands.first());
        let (results, parameters) = match first {
            Some(results) => (results, list(s.operands.get(2)).unwrap_or_default()),
            None => (Vec::new(), list(s.operands.get(1)).unwrap_or_default()),
        };
        let wrong = || PtxError::new(s.line, format!("what is handed over does not fit the function: `{}`", s.text));
        let caller = self.frames.get(function.name.as_str()).ok_or_else(wrong)?;
        let target = self.frames.get(name.as_str()).ok_or_else(wrong)?;
        let copies = |mine: &[Operand], theirs: &[usize], back: bool| -> Decoded<Vec<FrameCopy>> {
            if mine.len() != theirs.len() {
                return Err(wrong());
            }
            let one = |(mine, theirs): (&Operand, &usize)| {
                let Operand::Variable(mine) = mine else { return Err(wrong()) };
                let (a, b) = (caller.function.variables.get(*mine).ok_or_else(wrong)?, target.function.variables.get(*theirs).ok_or_else(wrong)?);
                let (from, to) = (caller.variables[*mine], target.variables[*theirs]);
                if a.bytes != b.bytes || a.space != StateSpace::Param {
                    return Err(wrong());
                }
                Ok(if back { (to, from, a.bytes as u32) } else { (from, to, a.bytes as u32) })
            };
            mine.iter().zip(theirs).map(one).collect()
        };
        let (there, back) = (copies(&parameters, &target.function.parameters, false)?, copies(&results, &target.function.results, true)?);
        let call = FunctionCall { target: target.entry, copies: there, back: target.back };
        Ok(vec![MachineStep::Call(Box::new(call)), MachineStep::Copies(back.into())])
    }
    fn finish(mut self) -> Decoded<Program> {
        // Without results even a damaged text has few rows; this many no warp can hold.
        if self.next_row > 1 << 17 {
            return Err(PtxError::new(0, "the kernel has too many registers"));
        }
        self.program.rows = self.next_row as usize;
        self.program.predicates = self.next_predicate as usize;
        Ok(self.program)
    }

    /// The row of an operand that is read as a type.
    fn read(&mut self, function: &PtxFunction, operand: &Operand, t: PtxType, s: &Statement) -> Decoded<u32> {
        let wide = t.bits() == 64;
        match operand {
            Operand::Register(number) => {
                let of = self.register_type(function, *number, s)?;
                if of == PtxType::Pred || (of.bits() == 64) != wide || of.bits() < t.bits() {
                    return Err(PtxError::new(s.line, format!("a register of type {of:?} where {t:?} is wanted: `{}`", s.text)));
                }
                self.row(function, *number, s)
            }
            Operand::Special(name) => {
                let special = special(name).ok_or_else(|| PtxError::new(s.line, format!("`{name}` is unknown: `{}`", s.text)))?;
                if wide {
                    return Err(PtxError::new(s.line, format!("`{name}` has 32 bits: `{}`", s.text)));
                }
                if let Some(row) = self.specials.get(&special) {
                    return Ok(*row);
                }
                let row = self.rows(false);
                self.specials.insert(special, row);
                self.program.specials.push((special, row));
                Ok(row)
            }
            _ => {
                let constant = self.value(function, operand, t, s)?;
                Ok(self.constant(constant))
            }
        }
    }
    /// The constant that an operand is.
    fn value(&mut self, function: &PtxFunction, operand: &Operand, t: PtxType, s: &Statement) -> Decoded<RowConstant> {
        let bits = match operand {
            Operand::Integer(n) if matches!(t, PtxType::F32 | PtxType::F64) && *n != 0 => return Err(unknown(s)),
            Operand::Integer(n) => *n as u64,
            Operand::Float32(bits) => u64::from(*bits),
            Operand::Float64(bits) if t.bits() == 32 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Operand::Float64(bits) => *bits,
            Operand::Variable(_) | Operand::Name(_) => return self.address(function, operand, 0, t, s),
            Operand::Offset(base, offset) => return self.address(function, base, *offset, t, s),
            _ => return Err(unknown(s)),
        };
        Ok(match t.bits() {
            64 => RowConstant::Wide(bits),
            32 => RowConstant::Word(bits as u32),
            16 => RowConstant::Word(bits as u32 & 0xffff),
            _ => RowConstant::Word(bits as u32 & 0xff),
        })
    }
    /// The address of a variable in its space, as a constant.
    fn address(&mut self, function: &PtxFunction, base: &Operand, offset: i64, t: PtxType, s: &Statement) -> Decoded<RowConstant> {
        let local = |at: u32| {
            let at = i64::from(at) + offset;
            if t.bits() == 64 { RowConstant::Wide(at as u64) } else { RowConstant::Word(at as u32) }
        };
        let missing = || PtxError::new(s.line, format!("a name that is not declared: `{}`", s.text));
        match base {
            Operand::Variable(number) => {
                let variable = function.variables.get(*number).ok_or_else(missing)?;
                if variable.space == StateSpace::Shared && variable.bytes == 0 {
                    return Ok(local(self.program.dynamic));
                }
                let frame = self.frames.get(function.name.as_str()).ok_or_else(missing)?;
                Ok(local(frame.variables.get(*number).copied().ok_or_else(missing)?))
            }
            Operand::Name(name) => {
                let variable = self.source.variables.iter().find(|v| v.name == *name).ok_or_else(missing)?;
                match variable.space {
                    StateSpace::Shared if variable.bytes == 0 => Ok(local(self.program.dynamic)),
                    StateSpace::Shared => Ok(local(self.shared.get(name).copied().unwrap_or(0))),
                    _ if t.bits() == 64 => Ok(RowConstant::Address(name.clone(), offset)),
                    _ => Err(missing()),
                }
            }
            _ => Err(missing()),
        }
    }
    /// The row of an operand that is written as a type.
    fn write(&mut self, function: &PtxFunction, operand: &Operand, t: PtxType, s: &Statement) -> Decoded<u32> {
        match operand {
            Operand::Nowhere => Ok(SCRATCH),
            Operand::Register(_) => self.read(function, operand, t, s),
            _ => Err(unknown(s)),
        }
    }
    fn register_type(&self, function: &PtxFunction, number: usize, s: &Statement) -> Decoded<PtxType> {
        function.registers.get(number).copied().ok_or_else(|| unknown(s))
    }
    fn row(&self, function: &PtxFunction, number: usize, s: &Statement) -> Decoded<u32> {
        self.frames.get(function.name.as_str()).and_then(|f| f.registers.get(number)).copied().ok_or_else(|| unknown(s))
    }
    /// A register of whatever width that is not a predicate: its row, and whether it is wide; or a constant of 64 bits' worth.
    fn any(&mut self, function: &PtxFunction, operand: &Operand, t: PtxType, s: &Statement) -> Decoded<(u32, bool)> {
        match operand {
            Operand::Register(number) => {
                let of = self.register_type(function, *number, s)?;
                if of == PtxType::Pred || of.bits() < t.bits() {
                    return Err(PtxError::new(s.line, format!("a register of type {of:?} where {t:?} is wanted: `{}`", s.text)));
                }
                Ok((self.row(function, *number, s)?, of.bits() == 64))
            }
            Operand::Nowhere => Ok((SCRATCH, t.bits() == 64)),
            _ => Ok((self.read(function, operand, t, s)?, t.bits() == 64)),
        }
    }
    /// The number of a predicate.
    fn predicate(&self, function: &PtxFunction, operand: &Operand, s: &Statement) -> Decoded<u32> {
        match operand {
            Operand::Nowhere => Ok(NOWHERE),
            Operand::Register(number) if self.register_type(function, *number, s)? == PtxType::Pred => self.row(function, *number, s),
            _ => Err(PtxError::new(s.line, format!("a predicate is wanted: `{}`", s.text))),
        }
    }
    /// A predicate that may be negated, or a constant.
    fn negated(&self, function: &PtxFunction, operand: &Operand, s: &Statement) -> Decoded<(u32, bool)> {
        match operand {
            Operand::Not(inner) => Ok((self.predicate(function, inner, s)?, true)),
            Operand::Integer(n) => Ok((TRUE, *n == 0)),
            _ => Ok((self.predicate(function, operand, s)?, false)),
        }
    }
}

/// An instruction that the machine does not know.
pub fn unknown(s: &Statement) -> PtxError {
    PtxError::new(s.line, format!("the instruction `{}` is unknown: `{}`", s.words.join("."), s.text))
}

/// The name of the function that a call names.
fn called(s: &Statement) -> Decoded<String> {
    let name = s.operands.iter().find_map(|o| match o {
        Operand::Name(name) => Some(name.clone()),
        _ => None,
    });
    name.ok_or_else(|| PtxError::new(s.line, format!("a call through a pointer is not known here: `{}`", s.text)))
}

fn names(operand: &Operand, name: &str) -> bool {
    match operand {
        Operand::Name(n) => n == name,
        Operand::Address(inner, _) | Operand::Offset(inner, _) => names(inner, name),
        Operand::Vector(list) | Operand::List(list) => list.iter().any(|o| names(o, name)),
        _ => false,
    }
}

/// `%tid.x` and its kin.
fn special(name: &str) -> Option<Special> {
    let (stem, axis) = match name.rsplit_once('.') {
        Some((stem, axis)) => (stem, ["x", "y", "z"].iter().position(|a| *a == axis)?),
        None => (name, usize::MAX),
    };
    Some(match (stem, axis < 3) {
        ("%tid", true) => Special::Thread(axis),
        ("%ntid", true) => Special::Threads(axis),
        ("%ctaid", true) => Special::Block(axis),
        ("%nctaid", true) => Special::Blocks(axis),
        ("%laneid", false) => Special::Lane,
        ("%warpid", false) => Special::Warp,
        ("%nwarpid", false) => Special::Warps,
        ("%lanemask_eq", false) => Special::MaskEq,
        ("%lanemask_le", false) => Special::MaskLe,
        ("%lanemask_lt", false) => Special::MaskLt,
        ("%lanemask_ge", false) => Special::MaskGe,
        ("%lanemask_gt", false) => Special::MaskGt,
        ("%smid", false) => Special::Multiprocessor,
        ("%nsmid", false) => Special::Multiprocessors,
        ("%dynamic_smem_size", false) => Special::DynamicShared,
        ("%total_smem_size", false) => Special::TotalShared,
        ("%cluster_ctaid" | "%clusterid", true) | ("%cluster_ctarank", false) => Special::Zero,
        ("%cluster_nctaid", true) | ("%cluster_nctarank", false) => Special::One,
        _ => return None,
    })
}

/// Operands with nothing in them yet.
fn none() -> RowOperands {
    RowOperands { a: ZERO_ROW, b: ZERO_ROW, c: ZERO_ROW, ..RowOperands::default() }
}
