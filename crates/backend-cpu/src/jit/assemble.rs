//! From operations to instructions: which value is in which register, and the loop around them.
//!
//! Values get registers in the order of the operations. Where none is free, the one whose value is needed last is spilled: a
//! number, a constant or an element is read again where it lies, anything else waits in the frame. A constant that is needed often has
//! a register of its own over the whole loop, where the operations leave one. All stores come behind all reads, so an output may be
//! the memory of an input.
mod function;
mod streams;

use super::{
    frame::{POINTERS, SPILLS, number_offset, spill_offset},
    graph::{ElementFormat, LoopGraph, LoopOp, LoopValue, PairOp, WholeRule},
    instructions::VectorCodes,
};
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

/// A value that a loop writes, to which stream, and how many vectors behind the first.
#[derive(Clone, Copy)]
pub(crate) struct LoopStore {
    pub value: LoopValue,
    pub format: ElementFormat,
    pub stream: usize,
    pub part: u8,
}
/// A vector of lanes in which a loop combines the elements of a block.
#[derive(Clone, Copy)]
pub(crate) struct CarriedLanes {
    /// what the iteration before left
    pub carried: LoopValue,
    /// what this one leaves
    pub next: LoopValue,
    /// what a block begins with, a constant
    pub identity: LoopValue,
}
/// What a loop computes and where it goes.
pub(crate) struct LoopText<'g> {
    /// Operations that the stores stand on, and no others.
    pub graph: &'g LoopGraph,
    /// How many streams there are, read and written.
    pub streams: usize,
    pub stores: &'g [LoopStore],
    /// Where elements are combined, the vectors of lanes, which go to the last stream at the end of each block; then there are no stores.
    pub carried: &'g [CarriedLanes],
    pub codes: &'static VectorCodes,
    /// Vectors that are computed at a time.
    pub parts: usize,
    /// Plain outputs are written by non-temporal stores; they begin at multiples of a vector.
    pub past_caches: bool,
}
/// The constants of a loop, and behind them its instructions.
pub(crate) struct AssembledLoop {
    pub bytes: Vec<u8>,
    pub entry: usize,
    /// Instructions of an iteration.
    pub length: usize,
}
/// Why there are no instructions.
#[derive(Debug)]
pub(crate) enum Unassembled {
    /// more values wait in memory than a frame holds
    Crowded,
    Encoding(IcedError),
}
impl From<IcedError> for Unassembled {
    fn from(error: IcedError) -> Unassembled {
        Unassembled::Encoding(error)
    }
}
type Done = Result<(), Unassembled>;

/// An operand of an instruction.
#[derive(Clone, Copy)]
enum Place {
    Register(Register),
    Memory(MemoryOperand),
}
/// Vector registers, at most.
const VECTORS: usize = 32;
/// Mask registers that an instruction can go by; K1 is for the moment of a comparison.
const MASKS: usize = 6;
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
/// How far ahead of their use elements are asked for where outputs are written by non-temporal stores, in bytes.
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
    /// comparisons that are in mask registers and nowhere else
    masks: [Option<LoopValue>; MASKS],
    slots: u32,
    most: usize,
    code: Vec<Instruction>,
}

/// Compiles a loop.
///
/// # Errors
/// An instruction that cannot be encoded; too many values that wait.
pub(crate) fn assemble(text: &LoopText<'_>) -> Result<AssembledLoop, Unassembled> {
    // How many registers the operations leave is known when they have been placed once.
    let carried: Vec<LoopValue> = text.carried.iter().map(|c| c.carried).collect();
    let first = Assembler::new(text, &carried);
    let uses: Vec<usize> = first.needed.iter().map(Vec::len).collect();
    let free = text.codes.registers - first.body()?.most;
    let stays = |(k, op): (usize, &LoopOp)| matches!(op, LoopOp::Constant(_) | LoopOp::Number(_)).then_some((uses[k], k as LoopValue));
    let mut kept: Vec<(usize, LoopValue)> = text.graph.ops().iter().enumerate().filter_map(stays).collect();
    kept.sort_by_key(|&(uses, k)| (std::cmp::Reverse(uses), k));
    let kept: Vec<LoopValue> = carried.into_iter().chain(kept.into_iter().take(free).map(|(_, k)| k)).collect();
    Assembler::new(text, &kept).body()?.finish(&kept)
}

impl<'g> Assembler<'g> {
    fn new(text: &'g LoopText<'g>, kept: &[LoopValue]) -> Assembler<'g> {
        let ops = text.graph.ops();
        let results = text.stores.iter().map(|s| s.value).chain(text.carried.iter().map(|c| c.next));
        let mut needed = vec![Vec::new(); ops.len()];
        results.for_each(|r| needed[r as usize].push(u32::MAX));
        for (k, op) in ops.iter().enumerate().rev() {
            op.operands().for_each(|x| needed[x as usize].push(k as u32));
        }
        let mut assembler = Assembler {
            text,
            codes: text.codes,
            needed,
            register: vec![None; ops.len()],
            slot: vec![None; ops.len()],
            holds: [None; VECTORS],
            kept: [false; VECTORS],
            masks: [None; MASKS],
            slots: 0,
            most: 0,
            code: Vec::new(),
        };
        for (&value, place) in kept.iter().zip((0..text.codes.registers).rev()) {
            assembler.register[value as usize] = Some(place as u8);
            assembler.holds[place] = Some(value);
            assembler.kept[place] = true;
        }
        assembler
    }
    fn op(&self, value: LoopValue) -> LoopOp {
        self.text.graph.ops()[value as usize]
    }
    /// A register by its number.
    fn vector(&self, place: usize) -> Register {
        (if self.codes.is_wide() { Register::ZMM0 } else { Register::YMM0 }) + place as u32
    }
    /// The lower half of a vector register.
    fn half(&self, of: Register) -> Register {
        match self.codes.is_wide() {
            true => Register::YMM0 + (of as u32 - Register::ZMM0 as u32),
            false => Register::XMM0 + (of as u32 - Register::YMM0 as u32),
        }
    }
    fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Done {
        self.code.push(instruction?);
        Ok(())
    }
    /// `code first, second`.
    fn two(&mut self, code: Code, first: Register, second: Place) -> Done {
        self.push(match second {
            Place::Register(r) => Instruction::with2(code, first, r),
            Place::Memory(m) => Instruction::with2(code, first, m),
        })
    }
    /// `code first, second, number`.
    fn two_by(&mut self, code: Code, first: Register, second: Place, number: i32) -> Done {
        self.push(match second {
            Place::Register(r) => Instruction::with3(code, first, r, number),
            Place::Memory(m) => Instruction::with3(code, first, m, number),
        })
    }
    /// `code first, second, third`.
    fn three(&mut self, code: Code, first: Register, second: Register, third: Place) -> Done {
        self.push(match third {
            Place::Register(r) => Instruction::with3(code, first, second, r),
            Place::Memory(m) => Instruction::with3(code, first, second, m),
        })
    }
    /// `code first, second, third, number`.
    fn three_by(&mut self, code: Code, first: Register, second: Register, third: Place, number: i32) -> Done {
        self.push(match third {
            Place::Register(r) => Instruction::with4(code, first, second, r, number),
            Place::Memory(m) => Instruction::with4(code, first, second, m, number),
        })
    }

    /// Where the elements of a stream lie, `part` vectors and `behind` bytes further on.
    fn elements(&self, stream: usize, size: usize, part: u8, behind: i64) -> MemoryOperand {
        let behind = behind + (usize::from(part) * self.codes.width / self.codes.lane * size) as i64;
        MemoryOperand::with_base_index_scale_displ_size(BASES[stream], INDEX, size as u32, behind, 1)
    }
    /// Where a value lies in memory.
    fn memory(&self, value: LoopValue) -> MemoryOperand {
        match self.op(value) {
            LoopOp::Number(k) => MemoryOperand::with_base_displ_size(FRAME, number_offset(k as usize) as i64, 1),
            // By the place of the constant; what it is from there is known at the end.
            LoopOp::Constant(_) => MemoryOperand::with_base_displ_size(Register::RIP, value as i64, 1),
            LoopOp::Stream(k, format, part) if format.is_plain() => self.elements(k as usize, format.size(), part, 0),
            _ => MemoryOperand::with_base_displ_size(FRAME, spill_offset(self.slot[value as usize].unwrap_or(0) as usize) as i64, 1),
        }
    }
    fn is_in_memory(&self, value: LoopValue) -> bool {
        self.op(value).is_in_memory() || self.slot[value as usize].is_some()
    }
    /// Is it only in memory?
    fn lies(&self, value: LoopValue) -> bool {
        self.register[value as usize].is_none() && self.is_in_memory(value)
    }
    fn next_need(&self, value: LoopValue) -> Option<u32> {
        self.needed[value as usize].last().copied()
    }
    /// A register for a value, not that of one of `keep`.
    fn take(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Register, Unassembled> {
        let registers = self.codes.registers;
        let free = (0..registers).find(|&k| self.holds[k].is_none());
        let place = match free {
            Some(place) => place,
            None => {
                let may = |k: &usize| !self.kept[*k] && self.holds[*k].is_some_and(|held| !keep.contains(&held));
                let last = (0..registers).filter(may).max_by_key(|&k| self.holds[k].and_then(|held| self.next_need(held)));
                let place = last.ok_or(Unassembled::Crowded)?;
                if let Some(held) = self.holds[place] {
                    self.spill(held, self.vector(place))?;
                }
                place
            }
        };
        self.holds[place] = Some(value);
        self.register[value as usize] = Some(place as u8);
        self.most = self.most.max(self.holds.iter().flatten().count());
        Ok(self.vector(place))
    }
    fn spill(&mut self, held: LoopValue, from: Register) -> Done {
        self.register[held as usize] = None;
        if !self.is_in_memory(held) {
            if self.slots as usize == SPILLS {
                return Err(Unassembled::Crowded);
            }
            self.slot[held as usize] = Some(self.slots);
            self.slots += 1;
            let to = self.memory(held);
            self.push(Instruction::with2(self.codes.write, to, from))?;
        }
        Ok(())
    }
    /// The value in a register.
    fn in_register(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Register, Unassembled> {
        if let Some(place) = self.register[value as usize] {
            return Ok(self.vector(place as usize));
        }
        let register = self.take(value, keep)?;
        if let (LoopOp::Stream(k, format, part), None) = (self.op(value), self.slot[value as usize]) {
            self.load(k as usize, format, part, register)?;
        } else {
            let from = self.memory(value);
            self.two(self.codes.read, register, Place::Memory(from))?;
        }
        Ok(register)
    }
    /// The value as the last operand of an instruction: where it lies in memory, if it is needed no more, or no register is free.
    fn operand(&mut self, value: LoopValue, keep: &[LoopValue]) -> Result<Place, Unassembled> {
        if self.lies(value) {
            let once = self.needed[value as usize].len() <= 1 || !matches!(self.op(value), LoopOp::Stream(..));
            if once || self.holds[..self.codes.registers].iter().all(Option::is_some) {
                return Ok(Place::Memory(self.memory(value)));
            }
        }
        Ok(Place::Register(self.in_register(value, keep)?))
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
            if self.needed[x as usize].is_empty()
                && let Some(mask) = self.masks.iter_mut().find(|m| **m == Some(x))
            {
                *mask = None;
            }
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
    fn body(mut self) -> Result<Assembler<'g>, Unassembled> {
        for k in 0..self.text.graph.ops().len() {
            self.place(k as LoopValue)?;
        }
        // An element that goes out as it came is read before the first store, which may overwrite it.
        let plain: Vec<LoopValue> = self.text.stores.iter().map(|s| s.value).filter(|&v| matches!(self.op(v), LoopOp::Stream(..))).collect();
        for &value in &plain {
            self.in_register(value, &plain)?;
        }
        for store in self.text.stores {
            let from = self.in_register(store.value, &plain)?;
            self.store(store, from, &plain)?;
            // It may go to another stream too.
            let needed = &mut self.needed[store.value as usize];
            if needed.len() > 1 {
                needed.pop();
            } else {
                self.release(u32::MAX, &[store.value]);
            }
        }
        for &CarriedLanes { carried, next, .. } in self.text.carried {
            let from = self.in_register(next, &[next])?;
            let to = self.in_register(carried, &[next])?;
            self.two(self.codes.read, to, Place::Register(from))?;
            self.release(u32::MAX, &[next]);
        }
        Ok(self)
    }
    fn place(&mut self, value: LoopValue) -> Done {
        let (op, at) = (self.op(value), value as u32);
        let codes = self.codes;
        match op {
            // Read where it is needed.
            LoopOp::Number(_) | LoopOp::Constant(_) | LoopOp::Stream(..) | LoopOp::Carried(_) => Ok(()),
            LoopOp::Sqrt(x) => {
                let from = self.operand(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                self.two(codes.sqrt, to, from)
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
                self.two_by(codes.whole, to, from, rule)
            }
            LoopOp::ThroughF16(x) => {
                let from = self.in_register(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                let half = self.half(to);
                self.two_by(codes.narrow_f16, half, Place::Register(from), 0)?;
                self.two(codes.widen_f16, to, Place::Register(half))
            }
            LoopOp::BitsOfF16(x) => {
                let from = self.in_register(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                let half = self.half(to);
                self.two_by(codes.narrow_f16, half, Place::Register(from), 0)?;
                self.two(codes.widen_words, to, Place::Register(half))
            }
            LoopOp::F16OfBits(x) => {
                let from = self.in_register(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                let half = self.half(to);
                if codes.is_wide() {
                    self.push(Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, half, from))?;
                } else {
                    self.three(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, to, from, Place::Register(from))?;
                    self.two_by(Code::VEX_Vpermq_ymm_ymmm256_imm8, to, Place::Register(to), 0x08)?;
                }
                self.two(codes.widen_f16, to, Place::Register(half))
            }
            LoopOp::ToFloat(x) => {
                let from = self.operand(x, &[x])?;
                self.release(at, &[x]);
                let to = self.take(value, &[x])?;
                self.two(codes.to_float, to, from)
            }
            LoopOp::ShiftLeft(x, by) => self.place_shift(value, codes.shift_left, x, by),
            LoopOp::ShiftRight(x, by) => self.place_shift(value, codes.shift_right, x, by),
            LoopOp::ShiftRightSigned(x, by) => self.place_shift(value, codes.shift_right_signed, x, by),
            LoopOp::Pair(pair, x, y) => self.place_pair(value, pair, x, y),
            LoopOp::MulAdd(x, y, z) => self.place_mul_add(value, [x, y, z]),
            LoopOp::Select(mask, yes, no) if codes.is_wide() => match (self.mask(mask), codes.blend) {
                (Some(by), Some(blend)) => self.place_blend(value, by, blend, [mask, yes, no]),
                _ => self.place_choice(value, [mask, yes, no]),
            },
            LoopOp::Select(mask, yes, no) => {
                let keep = [mask, yes, no];
                let (mask, no) = (self.in_register(mask, &keep)?, self.in_register(no, &keep)?);
                let yes = self.operand(yes, &keep)?;
                self.release(at, &keep);
                let to = self.take(value, &keep)?;
                self.push(match yes {
                    Place::Register(r) => Instruction::with4(codes.select, to, no, r, mask),
                    Place::Memory(m) => Instruction::with4(codes.select, to, no, m, mask),
                })
            }
        }
    }
    fn place_shift(&mut self, value: LoopValue, code: Code, x: LoopValue, by: u8) -> Done {
        let from = self.in_register(x, &[x])?;
        self.release(value as u32, &[x]);
        let to = self.take(value, &[x])?;
        self.two_by(code, to, Place::Register(from), i32::from(by))
    }
    fn place_pair(&mut self, value: LoopValue, pair: PairOp, x: LoopValue, y: LoopValue) -> Done {
        let keep = [x, y];
        // The second may lie in memory.
        let swaps = self.lies(x) && !self.lies(y);
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
        let code = self.codes.pair(pair);
        let spread = self.codes.spread_mask.filter(|_| compared.is_some() || matches!(pair, PairOp::IntEqual | PairOp::IntGreater));
        let Some(spread) = spread else {
            let to = self.take(value, &keep)?;
            return match compared {
                Some(rule) => self.three_by(code, to, first, second, rule),
                None => self.three(code, to, first, second),
            };
        };
        let free = self.masks.iter().position(Option::is_none).filter(|_| self.only_chooses(value));
        let mask = free.map_or(Register::K1, mask_register);
        match compared {
            Some(rule) => self.three_by(code, mask, first, second, rule)?,
            None => self.three(code, mask, first, second)?,
        }
        match free {
            Some(free) => self.masks[free] = Some(value),
            None => {
                let to = self.take(value, &keep)?;
                self.push(Instruction::with2(spread, to, mask))?;
            }
        }
        Ok(())
    }
    /// Is this comparison needed for nothing but to choose between others?
    fn only_chooses(&self, value: LoopValue) -> bool {
        self.needed[value as usize].iter().all(|&at| {
            let op = self.text.graph.ops().get(at as usize);
            matches!(op, Some(&LoopOp::Select(mask, yes, no)) if mask == value && yes != value && no != value)
        })
    }
    /// The mask register of a comparison that has one.
    fn mask(&self, value: LoopValue) -> Option<Register> {
        self.masks.iter().position(|m| *m == Some(value)).map(mask_register)
    }
    /// AVX-512: lane by lane, by a mask register.
    fn place_blend(&mut self, value: LoopValue, by: Register, blend: Code, keep: [LoopValue; 3]) -> Done {
        let no = self.in_register(keep[2], &keep)?;
        let yes = self.operand(keep[1], &keep)?;
        self.release(value as u32, &keep);
        let to = self.take(value, &keep)?;
        self.three(blend, to, no, yes)?;
        if let Some(last) = self.code.last_mut() {
            last.set_op_mask(by);
        }
        Ok(())
    }
    /// Which of the operands an instruction that overwrites one best overwrites: the first of them that is needed no more; else one
    /// that is read from memory anyway. And whether it needs no copy.
    fn overwritten(&self, at: u32, operands: [LoopValue; 3]) -> (Option<usize>, bool) {
        let is_once = |k: &usize| operands.iter().filter(|&&v| v == operands[*k]).count() == 1;
        let dies = |k: &usize| {
            let v = operands[*k] as usize;
            let free = self.register[v].is_some_and(|place| !self.kept[place as usize]);
            free && self.needed[v].iter().all(|&n| n == at)
        };
        if let Some(k) = (0..3).find(|k| dies(k) && is_once(k)) {
            return (Some(k), true);
        }
        ((0..3).find(|k| self.lies(operands[*k]) && is_once(k)), false)
    }
    /// A register for `value` that holds what `target` is, in its own place if it is needed no more.
    fn onto(&mut self, value: LoopValue, target: LoopValue, is_dying: bool, keep: &[LoopValue]) -> Result<Register, Unassembled> {
        let at = value as u32;
        if let (true, Some(place)) = (is_dying, self.register[target as usize]) {
            self.release(at, keep);
            self.holds[place as usize] = Some(value);
            self.register[value as usize] = Some(place);
            return Ok(self.vector(place as usize));
        }
        // `operand` leaves what lies in memory there where it can, so the copy is no second read.
        let from = match self.register[target as usize] {
            Some(place) => Place::Register(self.vector(place as usize)),
            None if self.is_in_memory(target) => Place::Memory(self.memory(target)),
            None => Place::Register(self.in_register(target, keep)?),
        };
        let to = self.take(value, keep)?;
        self.two(self.codes.read, to, from)?;
        self.release(at, keep);
        Ok(to)
    }
    /// The instruction overwrites one of its operands.
    fn place_mul_add(&mut self, value: LoopValue, [x, y, z]: [LoopValue; 3]) -> Done {
        let keep = [z, x, y];
        let (over, is_dying) = self.overwritten(value as u32, keep);
        let (factors, addend) = if over == Some(2) { ([y, x], z) } else { ([x, y], z) };
        let by_sum = over.is_none_or(|over| over == 0);
        let codes = self.codes;
        // What is not overwritten: one of them may lie in memory.
        let (mut first, mut second) = if by_sum { (factors[0], factors[1]) } else { (factors[1], addend) };
        let mut code = if by_sum { codes.mul_add_231 } else { codes.mul_add_213 };
        if self.lies(first) && !self.lies(second) {
            std::mem::swap(&mut first, &mut second);
            if !by_sum {
                code = codes.mul_add_132;
            }
        }
        let first = self.in_register(first, &keep)?;
        let second = self.operand(second, &keep)?;
        let to = self.onto(value, keep[over.unwrap_or(0)], is_dying, &keep)?;
        self.three(code, to, first, second)
    }
    /// AVX-512: bit by bit, by a table whose rows are the bits of the operand that is overwritten, the second and the third.
    fn place_choice(&mut self, value: LoopValue, keep: [LoopValue; 3]) -> Done {
        let (over, is_dying) = self.overwritten(value as u32, keep);
        let over = over.unwrap_or(0);
        let [mask, yes, no] = keep;
        let (first, second, table, swapped) = match over {
            0 => (yes, no, 0xCA, 0xAC),
            1 => (mask, no, 0xE2, 0xE4),
            _ => (mask, yes, 0xB8, 0xD8),
        };
        let swaps = self.lies(first) && !self.lies(second);
        let (first, second, table) = if swaps { (second, first, swapped) } else { (first, second, table) };
        let first = self.in_register(first, &keep)?;
        let second = self.operand(second, &keep)?;
        let to = self.onto(value, keep[over], is_dying, &keep)?;
        self.three_by(self.codes.select, to, first, second, table)
    }
}
fn mask_register(place: usize) -> Register {
    Register::K2 + place as u32
}
