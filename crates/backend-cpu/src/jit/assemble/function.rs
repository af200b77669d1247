//! What stands around the operations: the constants, what a call reads from its frame, the loop over elements, and that over blocks.
use super::{AHEAD, AssembledLoop, Assembler, BASES, COUNT, Done, FRAME, INDEX, SCRATCHED, Unassembled};
use crate::jit::{
    frame::{BLOCK_OFFSET, GAP_OFFSET, LANES, pointer_offset},
    graph::{LoopOp, LoopValue},
};
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

impl Assembler<'_> {
    /// The whole function: constants, what is done once, the loop, the way back.
    pub(super) fn finish(self, kept: &[LoopValue]) -> Result<AssembledLoop, Unassembled> {
        let (width, lane) = (self.codes.width, self.codes.lane);
        let mut bytes = Vec::new();
        let mut places = vec![0u64; self.text.graph.ops().len()];
        for (k, op) in self.text.graph.ops().iter().enumerate() {
            if let LoopOp::Constant(bits) = op {
                places[k] = bytes.len() as u64;
                (0..width / lane).for_each(|_| bytes.extend(&bits.to_le_bytes()[..lane]));
            }
        }
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let entry = bytes.len();
        let streams = self.text.streams;
        let saved = &BASES[SCRATCHED.min(streams)..streams];
        let mut head: Vec<Instruction> = Vec::new();
        for &register in saved {
            head.push(Instruction::with1(Code::Push_r64, register)?);
        }
        head.push(Instruction::with2(Code::Mov_r64_rm64, COUNT, MemoryOperand::with_base(FRAME))?);
        for (k, &base) in BASES[..streams].iter().enumerate() {
            head.push(Instruction::with2(Code::Mov_r64_rm64, base, MemoryOperand::with_base_displ_size(FRAME, pointer_offset(k) as i64, 1))?);
        }
        for (&value, place) in kept.iter().zip((0..self.codes.registers).rev()) {
            if !matches!(self.op(value), LoopOp::Carried(_)) {
                head.push(Instruction::with2(self.codes.read, self.vector(place), self.memory(value))?);
            }
        }
        head.push(Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX)?);
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        if !self.text.carried.is_empty() {
            head.push(Instruction::with2(Code::Mov_r64_rm64, COUNT, frame_field(BLOCK_OFFSET))?);
            let out = BASES[streams - 1];
            for (k, lanes) in self.text.carried.iter().enumerate() {
                let Some(place) = self.register[lanes.carried as usize] else { return Err(Unassembled::Crowded) };
                let register = self.vector(place.into());
                begin.push(Instruction::with2(self.codes.read, register, self.memory(lanes.identity))?);
                end.push(Instruction::with2(self.codes.write, MemoryOperand::with_base_displ_size(out, (k * width) as i64, 1), register)?);
            }
            end.push(Instruction::with2(Code::Add_rm64_imm32, out, (LANES * lane) as i32)?);
            end.push(Instruction::with2(Code::Add_r64_rm64, INDEX, frame_field(GAP_OFFSET))?);
            end.push(Instruction::with2(Code::Mov_r64_rm64, COUNT, INDEX)?);
            end.push(Instruction::with2(Code::Add_r64_rm64, COUNT, frame_field(BLOCK_OFFSET))?);
            end.push(Instruction::with2(Code::Cmp_r64_rm64, INDEX, MemoryOperand::with_base(FRAME))?);
        }
        let mut encoder = Encoder::try_new(64)?;
        let mut at = entry as u64;
        let mut encode = |instruction: &Instruction, at: &mut u64| -> Done {
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
        let block = at;
        for instruction in &begin {
            encode(instruction, &mut at)?;
        }
        let top = at;
        for op in self.text.graph.ops().iter().filter(|_| self.text.past_caches) {
            if let LoopOp::Stream(stream, format, part) = *op {
                encode(&Instruction::with1(Code::Prefetcht0_m8, self.elements(stream as usize, format.size(), part, AHEAD))?, &mut at)?;
            }
        }
        for instruction in &self.code {
            encode(instruction, &mut at)?;
        }
        encode(&Instruction::with2(Code::Add_rm64_imm8, INDEX, (self.text.parts * width / lane) as i32)?, &mut at)?;
        encode(&Instruction::with2(Code::Cmp_r64_rm64, INDEX, COUNT)?, &mut at)?;
        encode(&Instruction::with_branch(Code::Jb_rel32_64, top)?, &mut at)?;
        for instruction in &end {
            encode(instruction, &mut at)?;
        }
        if !end.is_empty() {
            encode(&Instruction::with_branch(Code::Jb_rel32_64, block)?, &mut at)?;
        }
        encode(&Instruction::with(Code::VEX_Vzeroupper), &mut at)?;
        for &register in saved.iter().rev() {
            encode(&Instruction::with1(Code::Pop_r64, register)?, &mut at)?;
        }
        encode(&Instruction::with(Code::Retnq), &mut at)?;
        bytes.extend(encoder.take_buffer());
        Ok(AssembledLoop { bytes, entry, length: self.code.len() })
    }
}
/// A field of the frame.
fn frame_field(offset: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ_size(FRAME, offset as i64, 1)
}
