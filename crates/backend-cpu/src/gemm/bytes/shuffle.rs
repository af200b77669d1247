//! The turns of small squares of bytes that packing is made of, by SSE2, which every x86-64 has, and their plain twins.

use super::micro::{BLOCK, LINE, QUAD};

/// Bytes of a side of a square.
pub(super) const SIDE: usize = 16;

/// Four rows of 16 columns as a line of quads, each byte xor `flip`.
#[inline(always)]
pub(super) fn weave(rows: [&[u8; BLOCK]; QUAD], flip: u8, line: &mut [u8; LINE]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rows and line are as long as what is read and written.
    unsafe {
        use std::arch::x86_64::*;
        let flip = _mm_set1_epi8(flip as i8);
        let [a, b, c, d] = rows.map(|row| _mm_xor_si128(_mm_loadu_si128(row.as_ptr().cast()), flip));
        let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
        let (high_ab, high_cd) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
        let to: *mut __m128i = line.as_mut_ptr().cast();
        _mm_storeu_si128(to, _mm_unpacklo_epi16(ab, cd));
        _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(ab, cd));
        _mm_storeu_si128(to.add(2), _mm_unpacklo_epi16(high_ab, high_cd));
        _mm_storeu_si128(to.add(3), _mm_unpackhi_epi16(high_ab, high_cd));
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain_weave(rows, flip, line);
}
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_weave(rows: [&[u8; BLOCK]; QUAD], flip: u8, line: &mut [u8; LINE]) {
    for (at, byte) in line.iter_mut().enumerate() {
        *byte = rows[at % QUAD][at / QUAD] ^ flip;
    }
}

/// Four quads of each of four lines: those of a quad go to `16 * part` of a line of quads, each byte xor `flip`.
#[inline(always)]
pub(super) fn turn_quads(lines: [&[u8; SIDE]; QUAD], flip: u8, part: usize, target: &mut [u8; 4 * LINE]) {
    assert!(part < BLOCK / QUAD);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: lines and target are as long as what is read and written.
    unsafe {
        use std::arch::x86_64::*;
        let flip = _mm_set1_epi8(flip as i8);
        let to = target.as_mut_ptr().cast::<__m128i>().add(part);
        let [a, b, c, d] = lines.map(|line| _mm_xor_si128(_mm_loadu_si128(line.as_ptr().cast()), flip));
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (high_ab, high_cd) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        _mm_storeu_si128(to, _mm_unpacklo_epi64(ab, cd));
        _mm_storeu_si128(to.add(4), _mm_unpackhi_epi64(ab, cd));
        _mm_storeu_si128(to.add(8), _mm_unpacklo_epi64(high_ab, high_cd));
        _mm_storeu_si128(to.add(12), _mm_unpackhi_epi64(high_ab, high_cd));
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain_turn_quads(lines, flip, part, target);
}
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_turn_quads(lines: [&[u8; SIDE]; QUAD], flip: u8, part: usize, target: &mut [u8; 4 * LINE]) {
    for (l, line) in lines.iter().enumerate() {
        for (at, &byte) in line.iter().enumerate() {
            target[at / QUAD * LINE + (part * QUAD + l) * QUAD + at % QUAD] = byte ^ flip;
        }
    }
}

/// Columns of a square as rows.
#[inline(always)]
pub(super) fn transposed(square: &[[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a row is as long as a vector; vectors and rows are any bytes.
    unsafe {
        use std::arch::x86_64::*;
        let mut rows: [__m128i; SIDE] = std::mem::transmute(*square);
        // Interleaving rows i and i + 8 four times turns the square.
        for _ in 0..4 {
            rows = std::array::from_fn(|i| {
                let (a, b) = (rows[i / 2], rows[i / 2 + 8]);
                if i % 2 == 0 { _mm_unpacklo_epi8(a, b) } else { _mm_unpackhi_epi8(a, b) }
            });
        }
        std::mem::transmute(rows)
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain_transposed(square)
}
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_transposed(square: &[[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    std::array::from_fn(|r| std::array::from_fn(|c| square[c][r]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_turn_as_their_plain_twins_do() {
        let square: [[u8; SIDE]; SIDE] = std::array::from_fn(|r| std::array::from_fn(|c| (r * 16 + c) as u8));
        assert_eq!(transposed(&square), plain_transposed(&square));
        for flip in [0, 0x80] {
            let (mut got, mut want) = ([0; LINE], [1; LINE]);
            let four = [&square[3], &square[0], &square[7], &square[9]];
            weave(four, flip, &mut got);
            plain_weave(four, flip, &mut want);
            assert_eq!(got, want);
            let (mut got, mut want) = ([0; 4 * LINE], [1; 4 * LINE]);
            for part in 0..4 {
                turn_quads(four, flip, part, &mut got);
                plain_turn_quads(four, flip, part, &mut want);
            }
            assert_eq!(got, want);
        }
    }
}
