//! The types that PTX names.

/// A type of a register, an element or an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum PtxType {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    F32,
    F64,
}

const NAMES: &[(&str, PtxType, u64)] = &[
    ("pred", PtxType::Pred, 1),
    ("b8", PtxType::B8, 8),
    ("b16", PtxType::B16, 16),
    ("b32", PtxType::B32, 32),
    ("b64", PtxType::B64, 64),
    ("b128", PtxType::B128, 128),
    ("u8", PtxType::U8, 8),
    ("u16", PtxType::U16, 16),
    ("u32", PtxType::U32, 32),
    ("u64", PtxType::U64, 64),
    ("s8", PtxType::S8, 8),
    ("s16", PtxType::S16, 16),
    ("s32", PtxType::S32, 32),
    ("s64", PtxType::S64, 64),
    ("f16", PtxType::F16, 16),
    ("f16x2", PtxType::F16x2, 32),
    ("bf16", PtxType::Bf16, 16),
    ("bf16x2", PtxType::Bf16x2, 32),
    ("tf32", PtxType::Tf32, 32),
    ("e4m3", PtxType::E4m3, 8),
    ("e5m2", PtxType::E5m2, 8),
    ("e4m3x2", PtxType::E4m3x2, 16),
    ("e5m2x2", PtxType::E5m2x2, 16),
    ("f32", PtxType::F32, 32),
    ("f64", PtxType::F64, 64),
];

impl PtxType {
    /// The type that a word names.
    pub fn named(word: &str) -> Option<PtxType> {
        NAMES.iter().find(|(name, ..)| *name == word).map(|(_, t, _)| *t)
    }
    /// Its width in bits.
    pub fn bits(self) -> u64 {
        NAMES.iter().find(|(_, t, _)| *t == self).map_or(0, |(.., bits)| *bits)
    }
    /// Its width in bytes; of a predicate 1.
    pub fn bytes(self) -> u64 {
        self.bits().div_ceil(8)
    }
    /// Whether it is an integer with a sign.
    pub fn signed(self) -> bool {
        matches!(self, PtxType::S8 | PtxType::S16 | PtxType::S32 | PtxType::S64)
    }
}
