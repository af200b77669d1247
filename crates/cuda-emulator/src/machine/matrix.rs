//! Products of small matrices by a warp, and moving their pieces between shared memory and registers.
//!
//! Which element lies in which lane's which register is the PTX ISA's, sections on `mma` and `ldmatrix`. With words of 32
//! bits that hold `v` elements (two halves, four bytes) there is one rule for all: a lane's group is `lane / 4`, its place
//! in the group `lane % 4`. Of A, register `i` holds row `group + 8 (i % 2)`, columns from `v (place + 4 (i / 2))` on; of B,
//! register `i` holds column `group`, rows from `v (place + 4 i)` on; of C, element `i` is in row `group + 8 (i / 2)`,
//! column `2 place + i % 2`.
#![allow(unsafe_code, reason = "the same loops once more for hosts with wider registers")]
use super::{
    access::{Trouble, note_read, note_write, wrong},
    block::{Flow, Outcome, RunningBlock},
    convert::{e4m3, e5m2},
    finding::FindingKind,
    floats::canonical,
    registers::{ALL, Registers},
    step::{MatrixAccess, Multiply},
};
use crate::{memory::WRITTEN, ptx::PtxType};
use half::{bf16, f16};

const M: usize = 16;
const N: usize = 8;
const MOST_K: usize = 32;

/// A float of a word's element.
fn float(t: PtxType, word: u32, element: usize) -> f32 {
    match t {
        PtxType::F16 => f16::from_bits((word >> (16 * element)) as u16).to_f32(),
        PtxType::Bf16 => bf16::from_bits((word >> (16 * element)) as u16).to_f32(),
        // The lower bits are not looked at.
        PtxType::Tf32 => f32::from_bits(word & 0xffff_e000),
        PtxType::E4m3 => e4m3((word >> (8 * element)) as u8),
        PtxType::E5m2 => e5m2((word >> (8 * element)) as u8),
        _ => f32::from_bits(word),
    }
}
fn integer(t: PtxType, word: u32, element: usize) -> i32 {
    let byte = (word >> (8 * element)) as u8;
    if t == PtxType::S8 { i32::from(byte as i8) } else { i32::from(byte) }
}

/// Calls with each element's row (of A) or column (of B), its place along k, and the value.
fn spread<T>(r: &Registers, rows: &[u32], per_word: usize, of_a: bool, value: impl Fn(u32, usize) -> T, mut put: impl FnMut(usize, usize, T)) {
    for (i, row) in rows.iter().enumerate() {
        let words = r.words(*row);
        for (lane, word) in words.iter().enumerate() {
            let (group, place) = (lane / 4, lane % 4);
            let (other, step) = if of_a { (group + 8 * (i % 2), i / 2) } else { (group, i) };
            for element in 0..per_word {
                put(other, per_word * (place + 4 * step) + element, value(*word, element));
            }
        }
    }
}

/// `mma.sync`, for all lanes of a warp.
pub fn multiply(r: &mut Registers, m: &Multiply) {
    let per_word = (32 / if m.a_type == PtxType::Tf32 { 32 } else { m.a_type.bits() }) as usize;
    if m.d_type == PtxType::S32 {
        return multiply_integers(r, m, per_word);
    }
    let (mut a, mut b) = ([[0f32; MOST_K]; M], [[0f32; N]; MOST_K]);
    spread(r, &m.a, per_word, true, |w, e| float(m.a_type, w, e), |row, k, v| a[row][k] = v);
    spread(r, &m.b, per_word, false, |w, e| float(m.b_type, w, e), |column, k, v| b[k][column] = v);
    let mut c = [[0f32; N]; M];
    each_of_c(m.c.len(), |lane, i, row, column| {
        c[row][column] = match m.c_type {
            PtxType::F16 => float(PtxType::F16, r.words(m.c[i / 2])[lane], i % 2),
            _ => f32::from_bits(r.words(m.c[i])[lane]),
        };
    });
    product(&a, &b, &mut c, m.k as usize);
    let mut d = [[0u32; 32]; 4];
    each_of_c(m.d.len(), |lane, i, row, column| {
        let value = c[row][column];
        match m.d_type {
            PtxType::F16 => d[i / 2][lane] |= u32::from(if value.is_nan() { 0x7fff } else { f16::from_f32(value).to_bits() }) << (16 * (i % 2)),
            _ => d[i][lane] = canonical(value).to_bits(),
        }
    });
    for (row, words) in m.d.iter().zip(&d) {
        r.put(*row, ALL, words);
    }
}

/// Each element of C or D: lane, number in the lane, row, column.
fn each_of_c(_words: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
    for lane in 0..32 {
        for i in 0..4 {
            f(lane, i, lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
        }
    }
}

#[inline(always)]
fn product_plain(a: &[[f32; MOST_K]; M], b: &[[f32; N]; MOST_K], c: &mut [[f32; N]; M], depth: usize) {
    for row in 0..M {
        let mut sums = c[row];
        for k in 0..depth {
            let x = a[row][k];
            for column in 0..N {
                sums[column] += x * b[k][column];
            }
        }
        c[row] = sums;
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_wide(a: &[[f32; MOST_K]; M], b: &[[f32; N]; MOST_K], c: &mut [[f32; N]; M], depth: usize) {
    product_plain(a, b, c, depth);
}
fn product(a: &[[f32; MOST_K]; M], b: &[[f32; N]; MOST_K], c: &mut [[f32; N]; M], depth: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions, as just asked.
        return unsafe { product_wide(a, b, c, depth) };
    }
    product_plain(a, b, c, depth);
}

fn multiply_integers(r: &mut Registers, m: &Multiply, per_word: usize) {
    let (mut a, mut b) = ([[0i32; MOST_K]; M], [[0i32; N]; MOST_K]);
    spread(r, &m.a, per_word, true, |w, e| integer(m.a_type, w, e), |row, k, v| a[row][k] = v);
    spread(r, &m.b, per_word, false, |w, e| integer(m.b_type, w, e), |column, k, v| b[k][column] = v);
    let mut d = [[0u32; 32]; 4];
    each_of_c(4, |lane, i, row, column| {
        let c = i64::from(r.words(m.c[i])[lane] as i32);
        let sum = (0..m.k as usize).fold(c, |sum, k| sum + i64::from(a[row][k] * b[k][column]));
        d[i][lane] = if m.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { sum as u32 };
    });
    for (row, words) in m.d.iter().zip(&d) {
        r.put(*row, ALL, words);
    }
}

impl RunningBlock<'_> {
    /// The lane that names the row `row` of matrix `matrix`, and the address.
    fn matrix_row(&self, w: usize, access: &MatrixAccess, matrix: usize, row: usize) -> (usize, u64) {
        let lane = 8 * matrix + row;
        (lane, self.address(w, &access.place, lane))
    }
    pub fn load_matrix(&mut self, w: usize, access: &MatrixAccess) -> Outcome<Flow> {
        if !self.gather(w, ALL)? {
            return Ok(Flow::Elsewhere);
        }
        for (matrix, register) in access.registers.iter().enumerate() {
            let mut halves = [[0u16; 8]; 8];
            for (row, out) in halves.iter_mut().enumerate() {
                let (lane, address) = self.matrix_row(w, access, matrix, row);
                let me = self.party(w, lane);
                let mut read = || -> Result<bool, Trouble> {
                    let spot = self.arenas.locate(access.place.space, address, 16, w, lane, false).map_err(wrong)?;
                    let view = self.arenas.view(spot);
                    if view.global {
                        return Err((FindingKind::OutOfBounds, None, "it is not shared memory"));
                    }
                    let mut written = true;
                    for at in [spot.at, spot.at + 8] {
                        match view.readable(at, 8) {
                            Err((FindingKind::ReadBeforeWritten, _)) => written = false,
                            readable => readable.map_err(wrong)?,
                        }
                    }
                    note_read(&self.watch, &view, spot.at, 16, me, false)?;
                    for (k, half) in out.iter_mut().enumerate() {
                        *half = view.load(spot.at + 2 * k as u64, 2) as u16;
                    }
                    Ok(written)
                };
                match read() {
                    Ok(true) => {}
                    Ok(false) => self.doubt(w, lane, address, access.place.space),
                    Err(trouble) => return self.trouble(w, lane, address, trouble),
                }
            }
            let words: [u32; 32] = std::array::from_fn(|lane| {
                let (row, column) = (lane / 4, 2 * (lane % 4));
                let at = |row: usize, column: usize| u32::from(if access.transposed { halves[column][row] } else { halves[row][column] });
                at(row, column) | at(row, column + 1) << 16
            });
            self.warps[w].registers.put(*register, ALL, &words);
        }
        Ok(Flow::Next)
    }
    pub fn store_matrix(&mut self, w: usize, access: &MatrixAccess) -> Outcome<Flow> {
        if !self.gather(w, ALL)? {
            return Ok(Flow::Elsewhere);
        }
        for (matrix, register) in access.registers.iter().enumerate() {
            let words = *self.warps[w].registers.words(*register);
            let half = |row: usize, column: usize| {
                let (row, column) = if access.transposed { (column, row) } else { (row, column) };
                words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff
            };
            for row in 0..8 {
                let (lane, address) = self.matrix_row(w, access, matrix, row);
                let me = self.party(w, lane);
                let mut write = || -> Result<(), Trouble> {
                    let spot = self.arenas.locate(access.place.space, address, 16, w, lane, true).map_err(wrong)?;
                    let view = self.arenas.view(spot);
                    if view.global {
                        return Err((FindingKind::OutOfBounds, None, "it is not shared memory"));
                    }
                    note_write(&self.watch, &view, spot.at, 16, me, false, false)?;
                    for column in 0..8 {
                        view.store(spot.at + 2 * column as u64, 2, half(row, column).into());
                    }
                    view.set_states(spot.at, 8, WRITTEN);
                    view.set_states(spot.at + 8, 8, WRITTEN);
                    Ok(())
                };
                if let Err(trouble) = write() {
                    return self.trouble(w, lane, address, trouble);
                }
            }
        }
        Ok(Flow::Next)
    }
}
