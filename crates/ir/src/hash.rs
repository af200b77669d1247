//! How words are folded into hashes, and a hasher for tables whose keys are hashes already, or numbers that we give out.

/// Folds a word into a hash: a full 64 x 64 bit product, its halves xored (the idea of wyhash).
#[inline]
pub fn mix(hash: u64, word: u64) -> u64 {
    let m = (hash.rotate_left(23) ^ word ^ 0x2D35_8DCC_AA6C_78A5) as u128 * 0x9E37_79B9_7F4A_7C15u128;
    (m >> 64) as u64 ^ m as u64
}
/// A hash of a spec.
pub fn hash_of(value: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut h = DefaultHasher::new();
    value.hash(&mut h);
    h.finish()
}
/// For keys that are hashes or numbers of ours already: their words are folded, nothing more.
#[derive(Default, Clone, Copy)]
pub struct FoldHasher(u64);
impl std::hash::Hasher for FoldHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = mix(self.0, *b as u64);
        }
    }
    fn write_u32(&mut self, word: u32) {
        self.0 = mix(self.0, word as u64);
    }
    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }
}
/// The hasher of such tables.
pub type Folded = std::hash::BuildHasherDefault<FoldHasher>;
