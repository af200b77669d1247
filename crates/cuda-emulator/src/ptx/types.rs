//! The types that PTX names.

/// A type of a register, an element or an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Type {
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

const NAMES: &[(&str, Type, u64)] = &[
    ("pred", Type::Pred, 1),
    ("b8", Type::B8, 8),
    ("b16", Type::B16, 16),
    ("b32", Type::B32, 32),
    ("b64", Type::B64, 64),
    ("b128", Type::B128, 128),
    ("u8", Type::U8, 8),
    ("u16", Type::U16, 16),
    ("u32", Type::U32, 32),
    ("u64", Type::U64, 64),
    ("s8", Type::S8, 8),
    ("s16", Type::S16, 16),
    ("s32", Type::S32, 32),
    ("s64", Type::S64, 64),
    ("f16", Type::F16, 16),
    ("f16x2", Type::F16x2, 32),
    ("bf16", Type::Bf16, 16),
    ("bf16x2", Type::Bf16x2, 32),
    ("tf32", Type::Tf32, 32),
    ("e4m3", Type::E4m3, 8),
    ("e5m2", Type::E5m2, 8),
    ("e4m3x2", Type::E4m3x2, 16),
    ("e5m2x2", Type::E5m2x2, 16),
    ("f32", Type::F32, 32),
    ("f64", Type::F64, 64),
];

impl Type {
    /// The type that a word names.
    pub fn named(word: &str) -> Option<Type> {
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
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }
}
