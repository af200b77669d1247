//! What earlier launches touched, as the notes they left still tell: for who did not run as a kernel and is held against them.
use super::{AccessNote, NOTES, Serials};
use crate::memory::DeviceMemory;
use std::sync::atomic::Ordering::Relaxed;

/// Whether work with one of these serials touched the bytes, as the notes still tell; `reads` count where they conflict.
pub fn touched(memory: &DeviceMemory, address: u64, bytes: u64, serials: &[Serials], reads: bool) -> Option<u64> {
    let is_theirs = |word: u64, mask: u32| {
        let note = AccessNote::of(word);
        note.bytes & mask != 0 && serials.iter().any(|(first, end)| (*first..*end).contains(&note.serial))
    };
    let mut start = address;
    for (segment, at, bytes) in memory.pieces(address, bytes).ok()? {
        if let Some(notes) = segment.chunk.notes_so_far() {
            for word in at / 4..(at + bytes).div_ceil(4) {
                let mask = (0..4).filter(|b| (at..at + bytes).contains(&(4 * word + b))).fold(0, |m, b| m | 1 << b);
                let place = word * NOTES;
                let writes = [place, place + 16].iter().any(|p| is_theirs(notes.word64(*p).load(Relaxed), mask));
                if writes || reads && is_theirs(notes.word64(place + 8).load(Relaxed), mask) {
                    return Some(start + (4 * word).saturating_sub(at));
                }
            }
        }
        start += bytes;
    }
    None
}
