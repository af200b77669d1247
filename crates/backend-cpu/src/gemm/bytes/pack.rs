//! Brings bytes of A and B into the layouts that the tiles read: rows of A unsigned, blocks of B signed.
//!
//! Bytes of the other sign are xor 0x80, which adds or subtracts 128. What fills blocks of B is zero, so that it is of no matter
//! what A has there. Must not know block sizes, threads or C.

use super::super::pack::MatrixView;
use super::micro::{BLOCK, LINE, QUAD};
use super::shuffle::{SIDE, transposed, turn_quads, weave};

/// Quads of all blocks that are packed before the next.
const TOGETHER: usize = 8;

/// `target[r * stride + p] = A[row + r][p] ^ flip` for p below `k`, and zeros behind it.
pub(crate) fn pack_rows(a: &MatrixView<'_, u8>, row: usize, rows: usize, k: usize, flip: u8, target: &mut [u8], stride: usize) {
    for target in target.chunks_mut(stride).take(rows) {
        target[k..].fill(0);
    }
    if a.column_stride == 1 {
        for (r, target) in target.chunks_mut(stride).take(rows).enumerate() {
            let from = &a.data[a.index(row + r, 0)..][..k];
            target.iter_mut().zip(from).for_each(|(to, &byte)| *to = byte ^ flip);
        }
    } else if a.row_stride == 1 {
        let mut square = [[0u8; SIDE]; SIDE];
        for r in (0..rows).step_by(SIDE) {
            let high = SIDE.min(rows - r);
            for p in (0..k).step_by(SIDE) {
                let wide = SIDE.min(k - p);
                for (i, line) in square.iter_mut().enumerate().take(wide) {
                    line[..high].copy_from_slice(&a.data[a.index(row + r, p + i)..][..high]);
                }
                let transposed = transposed(&square);
                for (i, line) in transposed.iter().enumerate().take(high) {
                    let to = &mut target[(r + i) * stride + p..][..wide];
                    to.iter_mut().zip(line).for_each(|(to, &byte)| *to = byte ^ flip);
                }
            }
        }
    } else {
        for (r, target) in target.chunks_mut(stride).take(rows).enumerate() {
            target.iter_mut().enumerate().take(k).for_each(|(p, to)| *to = a.data[a.index(row + r, p)] ^ flip);
        }
    }
}
/// Columns `column` to `column + columns` of B as blocks: `target[block][quad][column][4]`, each byte xor `flip`.
pub(crate) fn pack_blocks(b: &MatrixView<'_, u8>, column: usize, columns: usize, k: usize, flip: u8, target: &mut [i8]) {
    let target: &mut [u8] = bytemuck::cast_slice_mut(target);
    let quads = k.div_ceil(QUAD);
    let block = quads * LINE;
    if b.column_stride == 1 {
        // Some quads of a few blocks at a time: their rows lie in few pages, and lines that are written follow each other.
        for first in (0..quads).step_by(TOGETHER) {
            for j in (0..columns).step_by(4 * BLOCK) {
                for q in first..quads.min(first + TOGETHER) {
                    let count = (4 * BLOCK).min(columns - j);
                    weave_rows(b, q, k, column + j, count, flip, &mut target[j / BLOCK * block + q * LINE..], block);
                }
            }
        }
        return;
    }
    for (target, j) in target.chunks_exact_mut(block).zip((0..columns).step_by(BLOCK)) {
        let wide = BLOCK.min(columns - j);
        let mut done = 0;
        if b.row_stride == 1 && wide == BLOCK {
            for part in 0..BLOCK / QUAD {
                let line = |c: usize| b.data[b.index(0, column + j + part * QUAD + c)..][..k].as_chunks::<SIDE>().0;
                let squares = line(0).iter().zip(line(1)).zip(line(2)).zip(line(3));
                for (target, (((a, b), c), d)) in target.as_chunks_mut().0.iter_mut().zip(squares) {
                    turn_quads([a, b, c, d], flip, part, target);
                }
            }
            done = k / SIDE * SIDE / QUAD;
        }
        for (q, line) in target.chunks_exact_mut(LINE).enumerate().skip(done) {
            line.fill(0);
            for c in 0..wide {
                for p in q * QUAD..k.min(q * QUAD + QUAD) {
                    line[c * QUAD + p % QUAD] = b.data[b.index(p, column + j + c)] ^ flip;
                }
            }
        }
    }
}

/// A quad of some columns: a line in each block, so far apart.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn weave_rows(b: &MatrixView<'_, u8>, q: usize, k: usize, column: usize, columns: usize, flip: u8, target: &mut [u8], block: usize) {
    let high = QUAD.min(k - q * QUAD);
    let rows: [&[u8]; QUAD] = std::array::from_fn(|i| if i < high { &b.data[b.index(q * QUAD + i, column)..][..columns] } else { &[][..] });
    let [first, second, third, fourth] = rows.map(|row| row.as_chunks::<BLOCK>().0);
    for (index, (((a, b), c), d)) in first.iter().zip(second).zip(third).zip(fourth).enumerate() {
        if let Some(line) = target[index * block..].first_chunk_mut() {
            weave([a, b, c, d], flip, line);
        }
    }
    let whole = if high == QUAD { columns / BLOCK } else { 0 };
    for j in (whole * BLOCK..columns).step_by(BLOCK) {
        let line = &mut target[j / BLOCK * block..][..LINE];
        line.fill(0);
        for (i, row) in rows.iter().enumerate().take(high) {
            row[j..columns.min(j + BLOCK)].iter().enumerate().for_each(|(c, &byte)| line[c * QUAD + i] = byte ^ flip);
        }
    }
}

/// As i16, for sets whose tiles read those.
pub(crate) fn widen(from: &[u8], signed: bool, to: &mut [u8]) {
    let pairs = to.as_chunks_mut::<2>().0.iter_mut().zip(from);
    if signed {
        pairs.for_each(|(to, &byte)| *to = (byte as i8 as i16).to_ne_bytes());
    } else {
        pairs.for_each(|(to, &byte)| *to = (byte as u16).to_ne_bytes());
    }
}
/// The sum of the bytes, wrapped.
pub(crate) fn row_sum(bytes: &[u8], signed: bool) -> i32 {
    bytes.chunks(1 << 16).fold(0i32, |total, some| {
        let of_some = if signed { some.iter().map(|&byte| byte as i8 as i32).sum() } else { some.iter().map(|&byte| byte as i32).sum::<i32>() };
        total.wrapping_add(of_some)
    })
}
