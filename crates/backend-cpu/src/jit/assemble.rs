//! From operations to instructions of AVX2: which value is in which register, and the loop around them.
//!
//! Values get registers in the order of the operations. Where none is free, the one whose value is needed last gives way: a
//! number, a constant or an element is read again where it lies, anything else waits on the stack. A constant that is needed often has
//! a register of its own over the whole loop, where the operations leave one. All stores come behind all reads, so an output may be
//! the memory of an input.
use super::{
    LANE_BYTES,
    frame::{NUMBERS, POINTERS, number_offset, pointer_offset},
    graph::{ElementFormat, LoopGraph, LoopOp, LoopValue, PairOp, WholeRule},
    instructions::{self as set, VectorCodes},
};
use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

/// What a loop computes and where it goes.
pub(crate) struct LoopText<'g> {
    pub graph: &'g LoopGraph,
    /// How many streams are read; those that are written come behind them.
    pub streams: usize,
    pub stores: &'g [(LoopValue, ElementFormat)],
    /// Lanes of 64 bits instead of 32.
    pub is_double: bool,
    /// Plain outputs are written by non-temporal stores; they begin at multiples of a vector.
    pub past_caches: bool,
}
/// The constants of a loop, and behind them its instructions.
pub(crate) struct AssembledLoop {
    pub bytes: Vec<u8>,
    pub entry: usize,
}

/// An operand of an instruction.
#[derive(Clone, Copy)]
enum Place {
    Register(Register),
    Memory(MemoryOperand),
}
/// Vector registers.
const VECTORS: usize = 16;
/// Where a stream lies; the first six may be overwritten by a function.
const BASES: [Register; POINTERS] = [
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const SCRATCHED: usize = 6;
const INDEX: Register = Register::RAX;
const COUNT: Register = Register::RCX;
const FRAME: Register = Register::RDI;
/// How far ahead of their use elements are asked for where outputs go past the caches, in bytes.
const AHEAD: i64 = 1024;

struct Assembler<'g> {
    text: &'g LoopText<'g>,
    codes: &'static VectorCodes,
    /// for each value the places of the operations that still need it, the next one last; a store counts as one behind all
    needed: Vec<Vec<u32>>,
    register: Vec<Option<u8>>,
    slot: Vec<Option<u32>>,
    holds: [Option<LoopValue>; VECTORS],
    /// registers that keep a constant over the whole loop
    kept: [bool; VECTORS],
    slots: u32,
    most: usize,
    code: Vec<Instruction>,
}

/// Compiles a loop.
///
/// # Errors
/// An instruction that cannot be encoded.
pub(crate) fn assemble(text: &LoopText<'_>) -> Result<AssembledLoop, IcedError> {
    // How many registers the operations leave is known when they have been placed once.
    let once = Assembler::new(text, &[]).body()?;
    let free = VECTORS - once.most;
    let mut kept: Vec<(usize, LoopValue)> = Vec::new();
    let fresh = Assembler::new(text, &[]);
    for (k, op) in text.graph.ops().iter().enumerate() {
        if matches!(op, LoopOp::Constant(_) | LoopOp::Number(_)) && !fresh.needed[k].is_empty() {
            kept.push((fresh.needed[k].len(), k as LoopValue));
        }
    }
    kept.sort_by_key(|&(uses, k)| (std::cmp::Reverse(uses), k));
    let kept: Vec<LoopValue> = kept.into_iter().take(free).map(|(_, k)| k).collect();
    Assembler::new(text, &kept).body()?.finish(&kept)
}

impl<'g> Assembler<'g> {
    fn new(text: &'g LoopText<'g>, kept: &[LoopValue]) -> Assembler<'g> {
        let ops = text.graph.ops();
        let results: Vec<LoopValue> = text.stores.iter().map(|s| s.0).collect();
        let live = text.graph.live(&results);
        let mut needed = vec![Vec::new(); ops.len()];
        results.iter().for_each(|&r| needed[r as usize].push(u32::MAX));
        for (k, op) in ops.iter().enumerate().rev().filter(|(k, _)| live[*k]) {
            op.operands().for_each(|x| needed[x as usize].push(k as u32));
        }
        let mut assembler = Assembler {
            text,
            codes: if text.is_double { &set::DOUBLE } else { &set::SINGLE },
            needed,
            register: vec![None; ops.len()],
            slot: vec![None; ops.len()],
            holds: [None; VECTORS],
            kept: [false; VECTORS],
            slots: 0,
            most: 0,
            code: Vec::new(),
        };
        for (k, &value) in kept.iter().enumerate() {
            let place = VECTORS - 1 - k;
            assembler.register[value as usize] = Some(place as u8);
            assembler.holds[place] = Some(value);
            assembler.kept[place] = true;
        }
        assembler
    }
    fn op(&self, value: LoopValue) -> LoopOp {
        self.text.graph.ops()[value as usize]
    }
    fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), IcedError> {
        self.code.push(instruction?);
        Ok(())
    }
    /// `code first, second`.
    fn two(&mut self, code: Code, first: Register, second: Place) -> Result<(), IcedError> {
        self.push(match second {
            Place::Register(r) => Instruction::with2(code, first, r),
            Place::Memory(m) => Instruction::with2(code, first, m),
        })
    }
    /// `code first, second, third`.
    fn three(&mut self, code: Code, first: Register, second: Register, third: Place) -> Result<(), IcedError> {
        self.push(match third {
            Place::Register(r) => Instruction::with3(code, first, second, r),
            Place::Memory(m) => Instruction::with3(code, first, second, m),
        })
    }

    /// Where the elements of a stream lie, `behind` further on.
    fn elements(&self, stream: usize, size: usize, behind: i64) -> MemoryOperand {
        MemoryOperand::with_base_index_scale_displ_size(BASES[stream], INDEX, size as u32, behind, 1)
    }
    /// Where a value lies in memory.
    fn memory(&self, value: LoopValue) -> MemoryOperand {
        match self.op(value) {
            LoopOp::Number(k) => MemoryOperand::with_base_displ_size(FRAME, number_offset(k as usize) as i64, 1),
            // By the place of the constant; what it is from there is known at the end.
            LoopOp::Constant(_) => MemoryOperand::with_base_displ_size(Register::RIP, value as i64, 1),
            LoopOp::Stream(k, format) if format.is_plain() => self.elements(k as usize, format.size(), 0),
            _ => MemoryOperand::with_base_displ_size(Register::RSP, i64::from(self.slot[value as usize].unwrap_or(0)) * LANE_BYTES as i64, 1),
        }
    }
    fn is_in_memory(&self, value: LoopValue) -> bool {
        self.op(value).is_in_memory() || self.slot[value as usize].is_some()
    }
    fn next_need(&self, value: LoopValue) -> Option<u32> {
        self.needed[value as usize].last().copied()
    }
    /// A register for a value, not that of one of `keep`.
    fn take(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Register, IcedError> {
        let free = (0..VECTORS).find(|&k| self.holds[k].is_none());
        let place = match free {
            Some(place) => place,
            None => {
                let may = |k: &usize| !self.kept[*k] && self.holds[*k].is_some_and(|held| !keep.contains(&held));
                let last = (0..VECTORS).filter(may).max_by_key(|&k| self.holds[k].and_then(|held| self.next_need(held)));
                let place = last.unwrap_or(0);
                if let Some(held) = self.holds[place] {
                    self.give_way(held, vector(place))?;
                }
                place
            }
        };
        self.holds[place] = Some(value);
        self.register[value as usize] = Some(place as u8);
        self.most = self.most.max(self.holds.iter().flatten().count());
        Ok(vector(place))
    }
    fn give_way(&mut self, held: LoopValue, from: Register) -> Result<(), IcedError> {
        self.register[held as usize] = None;
        if !self.is_in_memory(held) {
            self.slot[held as usize] = Some(self.slots);
            self.slots += 1;
            let to = self.memory(held);
            self.push(Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, to, from))?;
        }
        Ok(())
    }
    /// The value in a register.
    fn in_register(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Register, IcedError> {
        if let Some(place) = self.register[value as usize] {
            return Ok(vector(place as usize));
        }
        let register = self.take(value, keep)?;
        if let (LoopOp::Stream(k, format), None) = (self.op(value), self.slot[value as usize]) {
            self.load(k as usize, format, register)?;
        } else {
            let from = self.memory(value);
            self.two(Code::VEX_Vmovups_ymm_ymmm256, register, Place::Memory(from))?;
        }
        Ok(register)
    }
    /// The value as the last operand of an instruction: where it lies in memory, if it is needed no more, or no register is free.
    fn operand(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Place, IcedError> {
        if self.register[value as usize].is_none() && self.is_in_memory(value) {
            let once = self.needed[value as usize].len() <= 1 || !matches!(self.op(value), LoopOp::Stream(..));
            if once || self.holds.iter().all(Option::is_some) {
                return Ok(Place::Memory(self.memory(value)));
            }
        }
        Ok(Place::Register(self.in_register(value, keep)?))
    }
    fn load(&mut self, stream: usize, format: ElementFormat, to: Register) -> Result<(), IcedError> {
        let from = Place::Memory(self.elements(stream, format.size(), 0));
        match format {
            ElementFormat::F32 | ElementFormat::F64 => self.two(Code::VEX_Vmovups_ymm_ymmm256, to, from),
            ElementFormat::F16 => self.two(Code::VEX_Vcvtph2ps_ymm_xmmm128, to, from),
            ElementFormat::Bf16 => {
                self.two(Code::VEX_Vpmovzxwd_ymm_xmmm128, to, from)?;
                self.push(Instruction::with3(Code::VEX_Vpslld_ymm_ymm_imm8, to, to, 16))
            }
            ElementFormat::Bool => {
                self.two(self.codes.widen_bytes, to, from)?;
                // The mask of a one is nothing less it, of a zero nothing.
                self.push(Instruction::with3(self.codes.shift_left, to, to, if self.text.is_double { 63 } else { 31 }))?;
                match self.text.is_double {
                    // There is no shift of 64 bits that fills with the sign: both halves have that of the upper.
                    true => {
                        self.push(Instruction::with3(Code::VEX_Vpshufd_ymm_ymmm256_imm8, to, to, 0xF5))?;
                        self.push(Instruction::with3(Code::VEX_Vpsrad_ymm_ymm_imm8, to, to, 31))
                    }
                    false => self.push(Instruction::with3(Code::VEX_Vpsrad_ymm_ymm_imm8, to, to, 31)),
                }
            }
        }
    }
    /// Values that the operation at `at` was the last to need give up their registers.
    fn release(&mut self, at: u32, operands: &[LoopValue]) {
        for &x in operands {
            let needed = &mut self.needed[x as usize];
            while needed.last() == Some(&at) {
                needed.pop();
            }
            // A number or a constant that has no register of its own is read again where it is needed next.
            let is_passing = matches!(self.text.graph.ops()[x as usize], LoopOp::Number(_) | LoopOp::Constant(_));
            if (self.needed[x as usize].is_empty() || is_passing)
                && let Some(place) = self.register[x as usize]
                && !self.kept[place as usize]
            {
                self.register[x as usize] = None;
                self.holds[place as usize] = None;
            }
        }
    }
    /// Places all operations, then the stores.
    fn body(mut self) -> Result<Assembler<'g>, IcedError> {
        for k in 0..self.text.graph.ops().len() {
            if !self.needed[k].is_empty() {
                self.place(k as LoopValue)?;
            }
        }
        // An element that goes out as it came is read before the first store, which may overwrite it.
        let plain: Vec<LoopValue> = self.text.stores.iter().map(|s| s.0).filter(|&v| matches!(self.op(v), LoopOp::Stream(..))).collect();
        for &value in &plain {
            self.in_register(value, &plain)?;
        }
        for k in 0..self.text.stores.len() {
            let (value, format) = self.text.stores[k];
            let from = self.in_register(value, &plain)?;
            self.store(self.text.streams + k, value, format, from)?;
        }
        Ok(self)
    }
    fn store(&mut self, stream: usize, value: LoopValue, format: ElementFormat, from: Register) -> Result<(), IcedError> {
        let to = self.elements(stream, format.size(), 0);
        if format.is_plain() {
            let code = if self.text.past_caches { Code::VEX_Vmovntps_m256_ymm } else { Code::VEX_Vmovups_ymmm256_ymm };
            return self.push(Instruction::with2(code, to, from));
        }
        if format == ElementFormat::F16 {
            return self.push(Instruction::with3(Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8, to, from, 0));
        }
        // A name of its own, which nobody else asks for.
        let name = self.register.len() as LoopValue;
        self.register.push(None);
        self.slot.push(None);
        self.needed.push(Vec::new());
        let all: Vec<LoopValue> = self.text.stores.iter().map(|s| s.0).chain([value]).collect();
        let spare = self.take(name, &all)?;
        let low = half(spare);
        if format == ElementFormat::Bf16 {
            self.push(Instruction::with3(Code::VEX_Vpsrld_ymm_ymm_imm8, spare, from, 16))?;
            self.push(Instruction::with3(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, spare, spare, spare))?;
            self.push(Instruction::with3(Code::VEX_Vpermq_ymm_ymmm256_imm8, spare, spare, 0x08))?;
            self.push(Instruction::with2(Code::VEX_Vmovdqu_xmmm128_xmm, to, low))?;
        } else {
            // Words, all of them in the lower half, then bytes.
            self.push(Instruction::with3(Code::VEX_Vpackssdw_ymm_ymm_ymmm256, spare, from, from))?;
            self.push(Instruction::with3(Code::VEX_Vpermq_ymm_ymmm256_imm8, spare, spare, 0x08))?;
            if self.text.is_double {
                self.push(Instruction::with3(Code::VEX_Vpackssdw_xmm_xmm_xmmm128, low, low, low))?;
            }
            self.push(Instruction::with3(Code::VEX_Vpacksswb_xmm_xmm_xmmm128, low, low, low))?;
            self.push(Instruction::with2(Code::VEX_Vpabsb_xmm_xmmm128, low, low))?;
            let code = if self.text.is_double { Code::VEX_Vmovd_rm32_xmm } else { Code::VEX_Vmovq_xmmm64_xmm };
            self.push(Instruction::with2(code, to, low))?;
        }
        if let Some(place) = self.register[name as usize] {
            self.holds[place as usize] = None;
        }
        Ok(())
    }
    fn place(&mut self, value: LoopValue) -> Result<(), IcedError> {
        let (op, at) = (self.op(value), value as u32);
        let codes = self.codes;
        match op {
            // Read where it is needed.
            LoopOp::Number(_) | LoopOp::Constant(_) | LoopOp::Stream(..) => {}
            LoopOp::Sqrt(x) => {
                let from = self.operand(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                self.two(codes.sqrt, to, from)?;
            }
            LoopOp::Whole(rule, x) => {
                let from = self.operand(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                let rule = match rule {
                    WholeRule::Nearest => 0x08,
                    WholeRule::Floor => 0x09,
                    WholeRule::Ceil => 0x0A,
                    WholeRule::Trunc => 0x0B,
                };
                self.push(match from {
                    Place::Register(r) => Instruction::with3(codes.whole, to, r, rule),
                    Place::Memory(m) => Instruction::with3(codes.whole, to, m, rule),
                })?;
            }
            LoopOp::ThroughF16(x) => {
                let from = self.in_register(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                self.push(Instruction::with3(Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8, half(to), from, 0))?;
                self.push(Instruction::with2(Code::VEX_Vcvtph2ps_ymm_xmmm128, to, half(to)))?;
            }
            LoopOp::ShiftLeft(x, by) | LoopOp::ShiftRight(x, by) => {
                let from = self.in_register(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                let code = if matches!(op, LoopOp::ShiftLeft(..)) { codes.shift_left } else { codes.shift_right };
                self.push(Instruction::with3(code, to, from, i32::from(by)))?;
            }
            LoopOp::Pair(pair, x, y) => self.place_pair(value, pair, x, y)?,
            LoopOp::MulAdd(x, y, z) => self.place_mul_add(value, x, y, z)?,
            LoopOp::Select(mask, yes, no) => {
                let keep = [mask, yes, no];
                let (mask, no) = (self.in_register(mask, &keep)?, self.in_register(no, &keep)?);
                let yes = self.operand(yes, &keep)?;
                self.release(at, &keep);
                let to = self.take(value, &keep)?;
                self.push(match yes {
                    Place::Register(r) => Instruction::with4(codes.select, to, no, r, mask),
                    Place::Memory(m) => Instruction::with4(codes.select, to, no, m, mask),
                })?;
            }
        }
        Ok(())
    }
    fn place_pair(&mut self, value: LoopValue, pair: PairOp, x: LoopValue, y: LoopValue) -> Result<(), IcedError> {
        let keep = [x, y];
        let lies = |v: LoopValue| self.register[v as usize].is_none() && self.is_in_memory(v);
        // The second may lie in memory.
        let swaps = lies(x) && !lies(y);
        let compared = match pair {
            PairOp::Less => Some(if swaps { 0x1E } else { 0x11 }),
            PairOp::LessEqual => Some(if swaps { 0x1D } else { 0x12 }),
            PairOp::Equal => Some(0x00),
            PairOp::Unordered => Some(0x03),
            _ => None,
        };
        let (first, second) = if swaps && (pair.commutes() || compared.is_some()) { (y, x) } else { (x, y) };
        let first = self.in_register(first, &keep)?;
        let second = self.operand(second, &keep)?;
        self.release(value as u32, &keep);
        let to = self.take(value, &keep)?;
        match compared {
            Some(rule) => self.push(match second {
                Place::Register(r) => Instruction::with4(self.codes.compare, to, first, r, rule),
                Place::Memory(m) => Instruction::with4(self.codes.compare, to, first, m, rule),
            }),
            None => self.three(self.codes.pair(pair), to, first, second),
        }
    }
    /// The instruction overwrites one of its operands: one that is needed no more, or a copy.
    fn place_mul_add(&mut self, value: LoopValue, x: LoopValue, y: LoopValue, z: LoopValue) -> Result<(), IcedError> {
        let (at, keep) = (value as u32, [x, y, z]);
        let dies = |v: LoopValue| {
            let needed = &self.needed[v as usize];
            let free = self.register[v as usize].is_some_and(|place| !self.kept[place as usize]);
            free && needed.iter().all(|&n| n == at)
        };
        let is_once = |v: LoopValue| keep.iter().filter(|&&k| k == v).count() == 1;
        let over = [z, x, y].into_iter().find(|&v| dies(v) && is_once(v));
        let lies = |v: LoopValue| self.register[v as usize].is_none() && self.is_in_memory(v);
        // A copy is best one that is read from memory anyway.
        let over = over.or_else(|| [z, x, y].into_iter().find(|&v| lies(v) && is_once(v)));
        let by_sum = over.is_none_or(|over| over == z);
        let (factors, addend) = if over == Some(y) { ([y, x], z) } else { ([x, y], z) };
        let target = over.unwrap_or(z);
        let codes = self.codes;
        // What is not overwritten: one of them may lie in memory.
        let (mut first, mut second) = if by_sum { (factors[0], factors[1]) } else { (factors[1], addend) };
        let mut code = if by_sum { codes.mul_add_231 } else { codes.mul_add_213 };
        if lies(first) && !lies(second) {
            std::mem::swap(&mut first, &mut second);
            if !by_sum {
                code = codes.mul_add_132;
            }
        }
        let is_dying = dies(target) && is_once(target);
        let first = self.in_register(first, &keep)?;
        let second = self.operand(second, &keep)?;
        let to = if is_dying {
            let to = self.in_register(target, &keep)?;
            self.release(at, &keep);
            let place = (to as usize) - Register::YMM0 as usize;
            self.holds[place] = Some(value);
            self.register[value as usize] = Some(place as u8);
            to
        } else {
            // `operand` leaves what lies in memory there where it can, so the copy is no second read.
            let from = match self.register[target as usize] {
                Some(place) => Place::Register(vector(place as usize)),
                None if self.is_in_memory(target) => Place::Memory(self.memory(target)),
                None => Place::Register(self.in_register(target, &keep)?),
            };
            let to = self.take(value, &keep)?;
            self.two(Code::VEX_Vmovups_ymm_ymmm256, to, from)?;
            self.release(at, &keep);
            to
        };
        self.three(code, to, first, second)
    }
    /// The whole function: constants, what is done once, the loop, the way back.
    fn finish(self, kept: &[LoopValue]) -> Result<AssembledLoop, IcedError> {
        let lane = if self.text.is_double { 8 } else { 4 };
        let mut bytes = Vec::new();
        let mut places = vec![0u64; self.text.graph.ops().len()];
        for (k, op) in self.text.graph.ops().iter().enumerate() {
            if let LoopOp::Constant(bits) = op {
                places[k] = bytes.len() as u64;
                (0..LANE_BYTES / lane).for_each(|_| bytes.extend(&bits.to_le_bytes()[..lane]));
            }
        }
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let entry = bytes.len();
        let streams = self.text.streams + self.text.stores.len();
        let saved = &BASES[SCRATCHED.min(streams)..streams];
        let stack = self.slots as i32 * LANE_BYTES as i32;
        let mut head: Vec<Instruction> = Vec::new();
        for &register in saved {
            head.push(Instruction::with1(Code::Push_r64, register)?);
        }
        if stack > 0 {
            head.push(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, stack)?);
        }
        head.push(Instruction::with2(Code::Mov_r64_rm64, COUNT, MemoryOperand::with_base(FRAME))?);
        for (k, &base) in BASES[..streams].iter().enumerate() {
            head.push(Instruction::with2(Code::Mov_r64_rm64, base, MemoryOperand::with_base_displ_size(FRAME, pointer_offset(k) as i64, 1))?);
        }
        for (k, &value) in kept.iter().enumerate() {
            head.push(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, vector(VECTORS - 1 - k), self.memory(value))?);
        }
        head.push(Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX)?);
        let mut encoder = Encoder::try_new(64)?;
        let mut at = entry as u64;
        let mut encode = |instruction: &Instruction, at: &mut u64| -> Result<(), IcedError> {
            let mut instruction = *instruction;
            if instruction.memory_base() == Register::RIP {
                let place = places[instruction.memory_displacement64() as usize];
                instruction.set_memory_displacement64(place);
            }
            *at += encoder.encode(&instruction, *at)? as u64;
            Ok(())
        };
        for instruction in &head {
            encode(instruction, &mut at)?;
        }
        let top = at;
        for op in self.text.graph.ops().iter().filter(|_| self.text.past_caches) {
            if let LoopOp::Stream(stream, format) = op {
                encode(&Instruction::with1(Code::Prefetcht0_m8, self.elements(*stream as usize, format.size(), AHEAD))?, &mut at)?;
            }
        }
        for instruction in &self.code {
            encode(instruction, &mut at)?;
        }
        encode(&Instruction::with2(Code::Add_rm64_imm8, INDEX, (LANE_BYTES / lane) as i32)?, &mut at)?;
        encode(&Instruction::with2(Code::Cmp_r64_rm64, INDEX, COUNT)?, &mut at)?;
        encode(&Instruction::with_branch(Code::Jb_rel32_64, top)?, &mut at)?;
        encode(&Instruction::with(Code::VEX_Vzeroupper), &mut at)?;
        if stack > 0 {
            encode(&Instruction::with2(Code::Add_rm64_imm32, Register::RSP, stack)?, &mut at)?;
        }
        for &register in saved.iter().rev() {
            encode(&Instruction::with1(Code::Pop_r64, register)?, &mut at)?;
        }
        encode(&Instruction::with(Code::Retnq), &mut at)?;
        bytes.extend(encoder.take_buffer());
        debug_assert!(self.text.graph.ops().iter().all(|op| !matches!(op, LoopOp::Number(k) if *k as usize >= NUMBERS)));
        Ok(AssembledLoop { bytes, entry })
    }
}
fn vector(place: usize) -> Register {
    Register::YMM0 + place as u32
}
/// The lower half of a vector register.
fn half(of: Register) -> Register {
    Register::XMM0 + (of as u32 - Register::YMM0 as u32)
}
