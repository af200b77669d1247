//! What is done to a file: bits, cuts, blocks, lengths; and what a hostile writer would do then: hashes and checksums that
//! are right again, and archives that hold far more than they weigh.
use super::super::CaseDraw;
use super::subjects::{FileSubject, Packed};
use flate2::{Compression, Crc, write::GzEncoder};
use std::io::Write;

/// A file that was mutated.
pub struct Mutant {
    pub bytes: Vec<u8>,
    /// bytes of what is in it; of a bomb, of the file itself
    pub held: u64,
    pub how: &'static str,
}
/// Mutates what a subject is made of.
pub fn mutated(subject: &FileSubject, good: &[u8], draw: &mut CaseDraw) -> Mutant {
    let (mut bytes, how) = match draw.below(8) {
        // Some stay as they are: a reader that refuses everything would pass.
        0 => (good.to_vec(), "as it was"),
        1 => (flipped(good, draw), "bits"),
        2 => (good[..draw.below(good.len() as u64) as usize].to_vec(), "cut"),
        3 => (block(good, draw), "a block"),
        4 => (length(good, draw), "a length"),
        5 => (digits(good, draw), "digits"),
        6 => (spliced(good, draw), "inserted"),
        _ => {
            let once = flipped(good, draw);
            let twice = length(&once, draw);
            (block(&twice, draw), "several")
        }
    };
    if subject.packed == Packed::Png && draw.below(2) == 0 {
        png_checksums(&mut bytes);
    }
    if subject.packed != Packed::Gzip {
        return Mutant { held: bytes.len() as u64, bytes, how };
    }
    match draw.below(12) {
        // The archive itself is damaged.
        0..3 => {
            let packed = gzipped(good);
            let bytes = flipped(&packed, draw);
            Mutant { held: (good.len() + bytes.len()) as u64, bytes, how: "bits of the archive" }
        }
        3 => {
            let packed = gzipped(good);
            let cut = draw.below(packed.len() as u64) as usize;
            Mutant { bytes: packed[..cut].to_vec(), held: good.len() as u64, how: "an archive that is cut" }
        }
        4 if draw.below(6) == 0 => {
            let bytes = bomb(good, draw);
            Mutant { held: bytes.len() as u64, bytes, how: "a bomb" }
        }
        _ => Mutant { held: bytes.len() as u64, bytes: gzipped(&bytes), how },
    }
}
fn flipped(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + draw.below(8) {
        // Headers are where it hurts: half of the bits are among the first bytes.
        let most = if draw.below(2) == 0 { bytes.len().min(128) } else { bytes.len() };
        let at = draw.below(most as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << draw.below(8);
        }
    }
    bytes
}
/// A block that is doubled (up to a thousand times), removed, or put elsewhere.
fn block(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    let start = draw.below(good.len() as u64 + 1) as usize;
    let end = (start + 1 + draw.below(64) as usize).min(good.len());
    let (head, block, tail) = (&good[..start.min(end)], &good[start.min(end)..end], &good[end..]);
    match draw.below(3) {
        0 => [head, tail].concat(),
        1 => [head, &block.repeat(1 + draw.below(1000) as usize), tail].concat(),
        _ => {
            let at = draw.below(tail.len() as u64 + 1) as usize;
            [head, &tail[..at], block, &tail[at..]].concat()
        }
    }
}
/// Two, four or eight bytes become a number at the edge of something, in either order.
fn length(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    const EDGES: [u64; 12] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];
    let mut bytes = good.to_vec();
    let value = EDGES[draw.below(EDGES.len() as u64) as usize];
    let width = [2, 4, 8][draw.below(3) as usize];
    let number = if draw.below(2) == 0 { value.to_le_bytes()[..width].to_vec() } else { value.to_be_bytes()[8 - width..].to_vec() };
    let most = if draw.below(3) > 0 { bytes.len().min(96) } else { bytes.len() };
    let at = draw.below(most as u64 + 1) as usize;
    if let Some(place) = bytes.get_mut(at..at + width) {
        place.copy_from_slice(&number);
    }
    bytes
}
/// A number that is written in digits becomes another, or a word.
fn digits(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    const WORDS: [&str; 14] = [
        "0",
        "-1",
        "9223372036854775807",
        "18446744073709551616",
        "1e400",
        "nan",
        "-inf",
        "4294967296",
        "99999999999999999999999",
        "",
        "null",
        "\"",
        "{",
        "1.5",
    ];
    let starts: Vec<usize> = (0..good.len()).filter(|k| good[*k].is_ascii_digit() && (*k == 0 || !good[k - 1].is_ascii_digit())).collect();
    let Some(start) = starts.get(draw.below(starts.len() as u64) as usize).copied() else { return flipped(good, draw) };
    let end = start + good[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    let word = WORDS[draw.below(WORDS.len() as u64) as usize];
    [&good[..start], word.as_bytes(), &good[end..]].concat()
}
/// Bytes that no reader expects, at some place.
fn spliced(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    let at = draw.below(good.len() as u64 + 1) as usize;
    let noise: Vec<u8> = match draw.below(6) {
        0 => (0..1 + draw.below(300)).map(|_| draw.next() as u8).collect(),
        1 => b"\"".to_vec(),
        2 => "\u{1b}]0;x\u{7}\u{202e}".as_bytes().to_vec(),
        3 => vec![0; 1 + draw.below(5000) as usize],
        4 => b",\n\r\n;;\t".repeat(1 + draw.below(200) as usize),
        _ => b"[{".repeat(1 + draw.below(3000) as usize),
    };
    [&good[..at], &noise, &good[at..]].concat()
}
fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing into a vector does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
/// Up to 200 MB in a file of a thousandth of that: of one byte, or of the file's own beginning.
fn bomb(good: &[u8], draw: &mut CaseDraw) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let _ = encoder.write_all(good);
    let piece = match draw.below(4) {
        0 => vec![0; 1 << 20],
        1 => b"1,".repeat(1 << 19),
        2 => b"1,2,0\n".repeat(1 << 17),
        _ => b"\"".repeat(1 << 20),
    };
    for _ in 0..20 + draw.below(180) {
        let _ = encoder.write_all(&piece);
    }
    encoder.finish().unwrap_or_default()
}
/// Makes the checksum of every chunk right, as far as the lengths lead.
fn png_checksums(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(size) = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes) {
        let end = at.saturating_add(8).saturating_add(size as usize);
        let Some(body) = bytes.get(at + 4..end) else { return };
        let mut crc = Crc::new();
        crc.update(body);
        let sum = crc.sum().to_be_bytes();
        let Some(place) = bytes.get_mut(end..end + 4) else { return };
        place.copy_from_slice(&sum);
        at = end + 4;
    }
}
