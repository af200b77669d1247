//! Messages from one rank to another: a head, the sender's words for it, and its bytes, through the ring of the two.
//!
//! ```text
//! fingerprint 8 | bytes 8 | words 8 | when it arrives, over a link that is rehearsed 16 | the words | the bytes
//! ```
use super::{
    layout::{RING, TEXT},
    link,
    stage::{Stages, Waits, ring},
};
use crate::ErrorKind;

/// Bytes that are put in before the receiver is told: so both copy at once.
const PORTION: usize = RING / 4;
/// Before the words.
const HEAD: usize = 40;

/// Gives bytes to one rank; returns when they are in the ring.
pub(super) fn send(stages: &mut Stages<'_>, to: usize, bytes: &[u8]) -> Result<(), ErrorKind> {
    let text = stages.call.to_string();
    let text = text.get(..text.floor_char_boundary(TEXT)).unwrap_or_default();
    let mut head = Vec::with_capacity(HEAD + text.len());
    let [arrives, takes] = link::departure(stages.on, bytes.len());
    for number in [stages.call.fingerprint(), bytes.len() as u64, text.len() as u64, arrives, takes] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(text.as_bytes());
    put(stages, to, &head)?;
    put(stages, to, bytes)
}
fn put(stages: &mut Stages<'_>, to: usize, mut bytes: &[u8]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let (words, ring) = ring(on, on.rank, to);
    while !bytes.is_empty() {
        let n = words.put(&ring, &bytes[..bytes.len().min(PORTION)]);
        bytes = &bytes[n..];
        if n == 0 {
            let head = words.head.load();
            stages.wait(&words.tail, to, Waits::Sends(to), |tail| (head.wrapping_sub(tail) as usize) < RING)?;
        }
    }
    Ok(())
}
/// Gets bytes from one rank.
pub(super) fn receive(stages: &mut Stages<'_>, from: usize, bytes: &mut [u8]) -> Result<(), ErrorKind> {
    let mut head = [0; HEAD];
    take(stages, from, &mut head)?;
    let number = |k: usize| head.as_chunks::<8>().0.get(k).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut text = vec![0; (number(2) as usize).min(TEXT)];
    take(stages, from, &mut text)?;
    let on = stages.on;
    if number(0) != stages.call.fingerprint() || number(1) != bytes.len() as u64 {
        let (own, other) = (format!("{} as rank {}", stages.call, on.world(on.rank)), String::from_utf8_lossy(&text).into_owned());
        return Err(ErrorKind::RanksDiffer { seq: stages.call.number, own, rank: on.world(from), other });
    }
    take(stages, from, bytes)?;
    link::arrival(stages, [number(3), number(4)], bytes.len())
}
fn take(stages: &mut Stages<'_>, from: usize, mut bytes: &mut [u8]) -> Result<(), ErrorKind> {
    let on = stages.on;
    let (words, ring) = ring(on, from, on.rank);
    while !bytes.is_empty() {
        let most = bytes.len().min(PORTION);
        let n = words.take(&ring, &mut bytes[..most]);
        bytes = &mut bytes[n..];
        if n == 0 {
            let tail = words.tail.load();
            stages.wait(&words.head, from, Waits::Receives(from), |head| head != tail)?;
        }
    }
    Ok(())
}
