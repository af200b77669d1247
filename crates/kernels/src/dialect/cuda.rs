//! CUDA C++, as NVRTC compiles it without any header: the translation of C, with real threads. What C lets the invocations
//! of a workgroup do in turns, threads of a block do at the same time; a subgroup is a warp.
//!
//! A kernel is `extern "C" void kernel_<what it does>(parameters, gate, b0, b1, ...)`. `gate` may be null; where it is not and
//! the word behind it is zero, the launch does nothing: what a device with indirect launches leaves out, this one skips.
//!
//! Signed integers wrap here too: NVRTC takes a signed overflow for impossible, so they are a type of their own whose
//! arithmetic is that of unsigned ones (`cuda/prelude.cuh`). Compile with `-default-device`, and with `--fmad=false` where
//! bits are promised.
mod entry;

use super::{Atomic, C, Dialect, Subgroup, c::guarded, to_c};
use crate::{bindings::Access, frame::KernelFrame, preambles::LONG};
use adamant_ir::{DType, ErrorKind};

/// CUDA C++ for NVRTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cuda;

/// The most buffers that a kernel binds, its parameters not counted.
pub const CUDA_BUFFERS: usize = 128;
/// The most words of a launch that go with it; where there are more, or where they change, they lie in memory.
pub const CUDA_WORDS: usize = 62;
/// Functions whose helper on f32 has fewer digits than the table allows where a device has f64 to compute them with: near roots,
/// and where a phase is many times the number.
const BY_F64: &[&str] =
    &["airy_ai", "airy_ai_derivative", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "lgamma", "logaddexp", "logaddexp2", "igamma", "igammac"];
/// Helpers that the prelude has as instructions.
const OWN: &[&str] = &["adm_bits_of_f16", "adm_f16_of_bits", "adm_round_f16", "adm_bits_of_bf16", "adm_round_bf16"];

impl Cuda {
    /// C's answer, with our name in its errors.
    fn told<T>(self, answer: Result<T, ErrorKind>) -> Result<T, ErrorKind> {
        answer.map_err(|kind| match kind {
            ErrorKind::Unsupported { what, .. } => self.lacks(what),
            other => other,
        })
    }
}
impl Dialect for Cuda {
    fn name(&self) -> &'static str {
        "CUDA"
    }
    fn register(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        self.told(C.register(dtype))
    }
    fn row<'r>(&self, wgsl: &'r str, c: &'r str) -> &'r str {
        // Far below zero e^x alone has fewer digits than its product with x.
        if c == "x * adm_sigmoid(x)" { wgsl } else { C.row(wgsl, c) }
    }
    fn is_by_f64(&self, function: &str) -> bool {
        BY_F64.contains(&function)
    }
    fn integer(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        self.told(C.integer(dtype))
    }
    fn of_bool(&self, x: &str) -> String {
        C.of_bool(x)
    }
    fn helper(&self, text: &str) -> String {
        // By our own arithmetic: where helpers multiply what is rounded, CUDA's functions have too few digits.
        let mut code = to_c(text, false);
        if code.lines().count() > 2 * LONG {
            code = code.replacen("static inline ", "ADM_ALONE ", 1);
        }
        match text.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
            Some(name) => guarded(name, &code),
            None => code,
        }
    }
    fn has_helper(&self, name: &str) -> bool {
        OWN.contains(&name)
    }
    fn prelude(&self) -> &'static str {
        include_str!("cuda/prelude.cuh")
    }
    fn source(&self, text: &str) -> String {
        C.source(text)
    }
    fn verbatim(&self, text: String) -> String {
        C.verbatim(text)
    }
    fn define(&self, register: &str, name: &str, value: &str) -> String {
        C.define(register, name, value)
    }
    fn select(&self, condition: &str, then: &str, otherwise: &str) -> String {
        C.select(condition, then, otherwise)
    }
    fn fitted(&self, value: String, dtype: DType) -> String {
        C.fitted(value, dtype)
    }
    fn convert(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        self.told(C.convert(x, from, to))
    }
    fn bitcast(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        self.told(C.bitcast(x, from, to))
    }
    fn integer_literal(&self, value: i64, dtype: DType) -> String {
        C.integer_literal(value, dtype)
    }
    fn widest(&self) -> usize {
        16
    }
    fn most_sums(&self) -> usize {
        64
    }
    fn packs(&self) -> bool {
        false
    }
    fn word(&self, binding: usize, access: Access, index: &str) -> String {
        if access == Access::Atomic { format!("adm_shared_word(b{binding}, {index})") } else { C.word(binding, access, index) }
    }
    fn set_word(&self, binding: usize, access: Access, index: &str, value: &str) -> String {
        if access == Access::Atomic { format!("adm_set_shared_word(b{binding}, {index}, {value});") } else { C.set_word(binding, access, index, value) }
    }
    fn bits(&self, binding: usize, access: Access, size: usize, at: &str) -> String {
        C.bits(binding, access, size, at)
    }
    fn set_bits(&self, binding: usize, access: Access, size: usize, at: &str, bits: &str) -> String {
        C.set_bits(binding, access, size, at, bits)
    }
    fn value_of(&self, dtype: DType, bits: &str) -> String {
        C.value_of(dtype, bits)
    }
    fn bits_of(&self, dtype: DType, value: &str) -> String {
        C.bits_of(dtype, value)
    }
    fn barrier(&self) -> &'static str {
        C.barrier()
    }
    fn subgroup(&self, what: Subgroup<'_>, dtype: DType, value: &str) -> String {
        C.subgroup(what, dtype, value)
    }
    fn atomic(&self, what: Atomic, binding: usize, index: &str, value: &str) -> String {
        C.atomic(what, binding, index, value)
    }
    fn render(&self, frame: &KernelFrame<'_>) -> Result<String, ErrorKind> {
        entry::render(frame).map_err(|what| self.lacks(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_hands_over_as_many_words_and_buffers_as_the_text_takes() {
        let prelude = include_str!("cuda/prelude.cuh");
        assert!(prelude.contains(&format!("typedef struct {{ const uint32_t *at; uint32_t held[{CUDA_WORDS}]; }} adm_words;")));
        assert!(prelude.contains(&format!("typedef struct {{ const uint32_t *p; void *b[{CUDA_BUFFERS}]; }} adm_launch;")));
    }
}
