//! Brings bytes of A and B into the layouts that the tiles read: rows of A unsigned, blocks of B signed.
//!
//! Bytes of the other sign are xor 0x80, which adds or subtracts 128. What fills blocks of B is zero, so that it is of no matter
//! what A has there. Must not know block sizes, threads or C.

use super::super::pack::MatrixView;
use super::micro::{BLOCK, LINE, QUAD};

/// Bytes side of a square that is transposed at a time.
const SIDE: usize = 16;

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
                let turned = transposed(&square);
                for (i, line) in turned.iter().enumerate().take(high) {
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
/// By halves: bytes of lines that are 8, 4, 2 and 1 apart change places.
#[inline]
fn transposed(square: &[[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    let mut lines = *square;
    // Interleaving lines i and i + 8 four times turns the square.
    for _ in 0..4 {
        let mut woven = [[0u8; SIDE]; SIDE];
        for i in 0..SIDE / 2 {
            for c in 0..SIDE / 2 {
                woven[2 * i][2 * c] = lines[i][c];
                woven[2 * i][2 * c + 1] = lines[i + 8][c];
                woven[2 * i + 1][2 * c] = lines[i][c + 8];
                woven[2 * i + 1][2 * c + 1] = lines[i + 8][c + 8];
            }
        }
        lines = woven;
    }
    lines
}

/// Columns `column` to `column + columns` of B as blocks: `target[block][quad][column][4]`, each byte xor `flip`.
pub(crate) fn pack_blocks(b: &MatrixView<'_, u8>, column: usize, columns: usize, k: usize, flip: u8, target: &mut [i8]) {
    let quads = k.div_ceil(QUAD);
    let block = quads * LINE;
    if b.column_stride == 1 {
        // All blocks of a quad, whose rows lie in few pages.
        for q in 0..quads {
            let high = QUAD.min(k - q * QUAD);
            let rows: [&[u8]; QUAD] = std::array::from_fn(|i| if i < high { &b.data[b.index(q * QUAD + i, column)..][..columns] } else { &[][..] });
            for (index, j) in (0..columns).step_by(BLOCK).enumerate() {
                let line = line_of(target, index * block + q * LINE);
                let four: [Option<&[u8; BLOCK]>; QUAD] = rows.map(|row| row.get(j..).and_then(|row| row.first_chunk()));
                if let [Some(a), Some(b), Some(c), Some(d)] = four {
                    weave([a, b, c, d], flip, line);
                } else {
                    let wide = BLOCK.min(columns - j);
                    line.fill(0);
                    for (i, row) in rows.iter().enumerate().take(high) {
                        row[j..j + wide].iter().enumerate().for_each(|(c, &byte)| line[c * QUAD + i] = (byte ^ flip) as i8);
                    }
                }
            }
        }
        return;
    }
    for (target, j) in target.chunks_exact_mut(block).zip((0..columns).step_by(BLOCK)) {
        let wide = BLOCK.min(columns - j);
        let mut done = 0;
        if b.row_stride == 1 && wide == BLOCK {
            let lines: [&[u8]; BLOCK] = std::array::from_fn(|c| &b.data[b.index(0, column + j + c)..][..k]);
            for (square, target) in target.as_chunks_mut::<{ 4 * LINE }>().0.iter_mut().take(k / SIDE).enumerate() {
                turn_quads(&lines, square * SIDE, flip, target);
            }
            done = k / SIDE * SIDE / QUAD;
        }
        for (q, line) in target.chunks_exact_mut(LINE).enumerate().skip(done) {
            line.fill(0);
            for c in 0..wide {
                for p in q * QUAD..k.min(q * QUAD + QUAD) {
                    line[c * QUAD + p % QUAD] = (b.data[b.index(p, column + j + c)] ^ flip) as i8;
                }
            }
        }
    }
}
/// The line at a place.
#[inline(always)]
fn line_of(target: &mut [i8], at: usize) -> &mut [i8] {
    &mut target[at..at + LINE]
}
/// Four rows of 16 columns as a line.
#[inline(always)]
fn weave(rows: [&[u8; BLOCK]; QUAD], flip: u8, line: &mut [i8]) {
    let line: &mut [u8] = bytemuck::cast_slice_mut(line);
    let [a, b, c, d] = rows;
    if let Ok(line) = <&mut [u8; LINE]>::try_from(line) {
        for column in 0..BLOCK {
            line[column * QUAD] = a[column] ^ flip;
            line[column * QUAD + 1] = b[column] ^ flip;
            line[column * QUAD + 2] = c[column] ^ flip;
            line[column * QUAD + 3] = d[column] ^ flip;
        }
    }
}
/// Four quads of each of 16 lines, as four lines of blocks.
#[inline(always)]
fn turn_quads(lines: &[&[u8]; BLOCK], at: usize, flip: u8, target: &mut [i8; 4 * LINE]) {
    let flip = u32::from_ne_bytes([flip; 4]);
    let mut words = [[0u32; 4]; BLOCK];
    for (words, line) in words.iter_mut().zip(lines) {
        if let Some(bytes) = line.get(at..).and_then(|line| line.first_chunk::<SIDE>()) {
            *words = bytemuck::cast(*bytes);
        }
    }
    let mut turned = [[0u32; BLOCK]; 4];
    for c in 0..BLOCK {
        for q in 0..4 {
            turned[q][c] = words[c][q] ^ flip;
        }
    }
    *target = bytemuck::cast(turned);
}

/// As i16, for sets whose tiles read those.
pub(crate) fn widen(from: &[u8], to: &mut [u8]) {
    to.as_chunks_mut::<2>().0.iter_mut().zip(from).for_each(|(to, &byte)| *to = (byte as u16).to_ne_bytes());
}
/// The sum of the bytes, wrapped.
pub(crate) fn row_sum(bytes: &[u8]) -> i32 {
    bytes.chunks(1 << 16).fold(0i32, |total, some| total.wrapping_add(some.iter().map(|&byte| byte as u32).sum::<u32>() as i32))
}
