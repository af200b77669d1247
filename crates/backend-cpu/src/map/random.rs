//! Philox bits for a run of elements. The words of a block are used by four neighbours, so dense runs compute each
//! block once. Must not know tiles.
use super::loops::convert;
use crate::isa::Isa;
use adamant_core::rng::{element_bits, philox};

/// `out[k]` = the bits of element `first + k * stride` under `key`.
pub(crate) fn fill(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [i64]) {
    if stride != 1 {
        for (k, o) in out.iter_mut().enumerate() {
            *o = element_bits(key, first.wrapping_add((k as u64).wrapping_mul(stride))) as i64;
        }
        return;
    }
    let lead = ((4 - first % 4) % 4).min(out.len() as u64) as usize;
    let (head, rest) = out.split_at_mut(lead);
    for (k, o) in head.iter_mut().enumerate() {
        *o = element_bits(key, first + k as u64) as i64;
    }
    let block = (first + lead as u64) / 4;
    let (body, tail) = rest.split_at_mut(rest.len() / 4 * 4);
    // Blocks are independent: a loop over them that the compiler can vectorise.
    let mut at = 0;
    let mut blocks = [0u64; 32];
    let mut words = [[0u32; 4]; 32];
    while at < body.len() / 4 {
        let count = 32.min(body.len() / 4 - at);
        for (k, b) in blocks[..count].iter_mut().enumerate() {
            *b = block + (at + k) as u64;
        }
        convert(isa, &blocks[..count], &mut words[..count], |b| philox([key[0], key[1]], [b as u32, (b >> 32) as u32, key[2], key[3]]));
        for (o, w) in body[at * 4..(at + count) * 4].chunks_exact_mut(4).zip(&words) {
            for (o, w) in o.iter_mut().zip(w) {
                *o = *w as i64;
            }
        }
        at += count;
    }
    let start = first + (lead + body.len()) as u64;
    for (k, o) in tail.iter_mut().enumerate() {
        *o = element_bits(key, start + k as u64) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_bits_of_its_elements() {
        let key = [7, 9, 1, 3];
        for first in [0u64, 1, 2, 3, 4, 1000, (1 << 34) - 5] {
            for n in [0, 1, 3, 4, 5, 130, 1000] {
                for stride in [1, 3] {
                    let mut out = vec![0; n];
                    fill(Isa::detect(), key, first, stride, &mut out);
                    let want: Vec<i64> = (0..n as u64).map(|k| element_bits(key, first + k * stride) as i64).collect();
                    assert_eq!(out, want, "{first} {n} {stride}");
                }
            }
        }
    }
}
