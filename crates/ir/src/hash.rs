//! A hasher for tables whose keys are hashes already, or numbers that we give out.
use crate::op::mix;

/// For keys that are hashes or numbers of ours already: their words are folded, nothing more.
#[derive(Default, Clone, Copy)]
pub struct Fold(u64);
impl std::hash::Hasher for Fold {
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
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }
}
/// The hasher of such tables.
pub type Folded = std::hash::BuildHasherDefault<Fold>;
