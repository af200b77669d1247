//! Elements on their way between memory and registers: formats that are wider in a register than in memory. Must not know operations.
use super::{Assembler, Done, LoopStore, Place};
use crate::jit::graph::{ElementFormat, LoopValue};
use iced_x86::{Code, Instruction, Register};

impl Assembler<'_> {
    pub(super) fn load(&mut self, stream: usize, format: ElementFormat, part: u8, to: Register) -> Done {
        let from = Place::Memory(self.elements(stream, format.size(), part, 0));
        let codes = self.codes;
        let (is_double, here) = (codes.lane == 8, Place::Register(to));
        match format {
            ElementFormat::F32 | ElementFormat::F64 | ElementFormat::I32 | ElementFormat::I64 => self.two(codes.read, to, from),
            ElementFormat::WidenedI32 => self.two(codes.widen_i32, to, from),
            ElementFormat::WidenedF32 => self.two(codes.widen_f32, to, from),
            ElementFormat::U8 => self.two(codes.widen_bytes, to, from),
            ElementFormat::I8 => self.two(codes.widen_signed_bytes, to, from),
            ElementFormat::U16 => self.two(codes.widen_words, to, from),
            ElementFormat::I16 => self.two(codes.widen_signed_words, to, from),
            ElementFormat::F16 => self.two(codes.widen_f16, to, from),
            ElementFormat::Bf16 => {
                self.two(codes.widen_words, to, from)?;
                self.two_by(codes.shift_left, to, here, 16)
            }
            // The mask of a one is nothing less it, of a zero nothing.
            ElementFormat::Bool => {
                self.two(codes.widen_bytes, to, from)?;
                self.two_by(codes.shift_left, to, here, if is_double { 63 } else { 31 })?;
                match (codes.is_wide(), is_double) {
                    (true, true) => self.two_by(Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8, to, here, 63),
                    (true, false) => self.two_by(Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, to, here, 31),
                    // There is no shift of 64 bits that fills with the sign: both halves have that of the upper.
                    (false, true) => {
                        self.two_by(Code::VEX_Vpshufd_ymm_ymmm256_imm8, to, here, 0xF5)?;
                        self.two_by(Code::VEX_Vpsrad_ymm_ymm_imm8, to, here, 31)
                    }
                    (false, false) => self.two_by(Code::VEX_Vpsrad_ymm_ymm_imm8, to, here, 31),
                }
            }
        }
    }
    /// Writes a value that is in a register; those of `keep` stay in theirs.
    pub(super) fn store(&mut self, store: &LoopStore, from: Register, keep: &[LoopValue]) -> Done {
        let to = self.elements(store.stream, store.format.size(), store.part, 0);
        let codes = self.codes;
        if store.format.is_plain() {
            let code = if self.text.past_caches { codes.write_past_caches } else { codes.write };
            return self.push(Instruction::with2(code, to, from));
        }
        if store.format == ElementFormat::F16 {
            return self.push(Instruction::with3(codes.narrow_f16, to, from, 0));
        }
        // A name of its own, which nobody else asks for.
        let name = self.register.len() as LoopValue;
        self.register.push(None);
        self.slot.push(None);
        self.needed.push(Vec::new());
        let keep: Vec<LoopValue> = keep.iter().copied().chain([store.value]).collect();
        let spare = self.take(name, &keep)?;
        let (low, here, is_double) = (self.half(spare), Place::Register(spare), codes.lane == 8);
        match (store.format, codes.is_wide()) {
            (ElementFormat::Bf16, true) => {
                self.two_by(codes.shift_right, spare, Place::Register(from), 16)?;
                self.push(Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, to, spare))?;
            }
            (ElementFormat::Bf16, false) => {
                self.two_by(codes.shift_right, spare, Place::Register(from), 16)?;
                self.three(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, spare, spare, here)?;
                self.two_by(Code::VEX_Vpermq_ymm_ymmm256_imm8, spare, here, 0x08)?;
                self.push(Instruction::with2(Code::VEX_Vmovdqu_xmmm128_xmm, to, low))?;
            }
            // Integers fit their memory.
            (ElementFormat::U8 | ElementFormat::I8, true) => self.push(Instruction::with2(Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, to, from))?,
            (ElementFormat::U16 | ElementFormat::I16, true) => self.push(Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, to, from))?,
            (ElementFormat::U8 | ElementFormat::I8 | ElementFormat::U16 | ElementFormat::I16, false) => {
                let is_signed = matches!(store.format, ElementFormat::I8 | ElementFormat::I16);
                let words = if is_signed { Code::VEX_Vpackssdw_ymm_ymm_ymmm256 } else { Code::VEX_Vpackusdw_ymm_ymm_ymmm256 };
                self.three(words, spare, from, Place::Register(from))?;
                self.two_by(Code::VEX_Vpermq_ymm_ymmm256_imm8, spare, here, 0x08)?;
                if store.format.size() == 2 {
                    self.push(Instruction::with2(Code::VEX_Vmovdqu_xmmm128_xmm, to, low))?;
                } else {
                    let bytes = if is_signed { Code::VEX_Vpacksswb_xmm_xmm_xmmm128 } else { Code::VEX_Vpackuswb_xmm_xmm_xmmm128 };
                    self.three(bytes, low, low, Place::Register(low))?;
                    self.push(Instruction::with2(Code::VEX_Vmovq_xmmm64_xmm, to, low))?;
                }
            }
            (_, true) => {
                self.two_by(codes.shift_right, spare, Place::Register(from), if is_double { 63 } else { 31 })?;
                let code = if is_double { Code::EVEX_Vpmovqb_xmmm64_k1z_zmm } else { Code::EVEX_Vpmovdb_xmmm128_k1z_zmm };
                self.push(Instruction::with2(code, to, spare))?;
            }
            (_, false) => {
                // Words, all of them in the lower half, then bytes.
                self.three(Code::VEX_Vpackssdw_ymm_ymm_ymmm256, spare, from, Place::Register(from))?;
                self.two_by(Code::VEX_Vpermq_ymm_ymmm256_imm8, spare, here, 0x08)?;
                if is_double {
                    self.three(Code::VEX_Vpackssdw_xmm_xmm_xmmm128, low, low, Place::Register(low))?;
                }
                self.three(Code::VEX_Vpacksswb_xmm_xmm_xmmm128, low, low, Place::Register(low))?;
                self.two(Code::VEX_Vpabsb_xmm_xmmm128, low, Place::Register(low))?;
                let code = if is_double { Code::VEX_Vmovd_rm32_xmm } else { Code::VEX_Vmovq_xmmm64_xmm };
                self.push(Instruction::with2(code, to, low))?;
            }
        }
        if let Some(place) = self.register[name as usize] {
            self.holds[place as usize] = None;
        }
        Ok(())
    }
}
