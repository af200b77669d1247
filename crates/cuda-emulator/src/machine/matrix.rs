//! Products of small matrices by a warp, and moving their pieces between shared memory and registers.
//!
//! Which element lies in which lane's which register is the PTX ISA's, sections on `mma` and `ldmatrix`. With words of 32
//! bits that hold `v` elements (two halves, four bytes) there is one rule for all: a lane's group is `lane / 4`, its place
//! in the group `lane % 4`. Of A, register `i` holds row `group + 8 (i % 2)`, columns from `v (place + 4 (i / 2))` on; of B,
//! register `i` holds column `group`, rows from `v (place + 4 i)` on; of C, element `i` is in row `group + 8 (i / 2)`,
//! column `2 place + i % 2`.
use super::{
    access::{Trouble, note_read, note_write, wrong},
    block::{Flow, Outcome, RunningBlock},
    convert::e4m3,
    finding::FindingKind,
    floats::canonical,
    registers::{ALL, Registers, widely},
    step::{MatrixAccess, Multiply},
};
use crate::{memory::WRITTEN, ptx::PtxType};
use half::f16;

const M: usize = 16;
const N: usize = 8;
const MOST_K: usize = 32;

/// The value of an f16: its bits at their place in an f32, times what the biases of the exponents differ by.
#[inline(always)]
fn half(bits: u32) -> f32 {
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    let finite = (f32::from_bits(rest) * f32::from_bits(0x7780_0000)).to_bits();
    f32::from_bits(sign | if bits & 0x7c00 == 0x7c00 { rest | 0x7f80_0000 } else { finite })
}

type Rows = [[f32; MOST_K]; M];
type Columns = [[f32; N]; MOST_K];

/// Puts each element where its row (of A) or column (of B) and its place along k are.
#[inline(always)]
fn spread<const PER_WORD: usize, const OF_A: bool, T>(r: &Registers, rows: &[u32], value: impl Fn(u32, usize) -> T, mut put: impl FnMut(usize, usize, T)) {
    for (i, row) in rows.iter().enumerate() {
        let words = r.words(*row);
        let (first, step) = if OF_A { (8 * (i % 2), i / 2) } else { (0, i) };
        for group in 0..8 {
            for place in 0..4 {
                let word = words[4 * group + place];
                for element in 0..PER_WORD {
                    put(group + first, PER_WORD * (place + 4 * step) + element, value(word, element));
                }
            }
        }
    }
}

/// A operand's elements as floats, by type.
#[inline(always)]
fn floats<const OF_A: bool>(r: &Registers, rows: &[u32], of: PtxType, mut put: impl FnMut(usize, usize, f32)) {
    match of {
        PtxType::F16 => spread::<2, OF_A, f32>(r, rows, |w, e| half(w >> (16 * e) & 0xffff), &mut put),
        PtxType::Bf16 => spread::<2, OF_A, f32>(r, rows, |w, e| f32::from_bits(w >> (16 * e) << 16), &mut put),
        // The lower bits are not looked at.
        PtxType::Tf32 => spread::<1, OF_A, f32>(r, rows, |w, _| f32::from_bits(w & 0xffff_e000), &mut put),
        PtxType::E4m3 => spread::<4, OF_A, f32>(r, rows, |w, e| e4m3((w >> (8 * e)) as u8), &mut put),
        _ => spread::<4, OF_A, f32>(r, rows, |w, e| half((w >> (8 * e) & 0xff) << 8), &mut put),
    }
}

/// `mma.sync`, for all lanes of a warp.
pub fn multiply(r: &mut Registers, m: &Multiply) {
    if m.d_type == PtxType::S32 {
        return multiply_integers(r, m);
    }
    widely(|| {
        let (mut a, mut b): (Rows, Columns) = ([[0f32; MOST_K]; M], [[0f32; N]; MOST_K]);
        floats::<true>(r, &m.a, m.a_type, |row, k, v| a[row & 15][k & 31] = v);
        floats::<false>(r, &m.b, m.b_type, |column, k, v| b[k & 31][column & 7] = v);
        let mut c = [[0f32; N]; M];
        let halves = m.c_type == PtxType::F16;
        for i in 0..4 {
            let words = *r.words(m.c[if halves { i / 2 } else { i }]);
            for (lane, word) in words.into_iter().enumerate() {
                let value = if halves { half(word >> (16 * (i % 2)) & 0xffff) } else { f32::from_bits(word) };
                c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2] = value;
            }
        }
        product(&a, &b, &mut c, m.k as usize);
        let mut d = [[0u32; 32]; 4];
        let halves = m.d_type == PtxType::F16;
        for i in 0..4 {
            for lane in 0..32 {
                let value = c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
                if halves {
                    let bits = if value.is_nan() { 0x7fff } else { f16::from_f32(value).to_bits() };
                    d[i / 2][lane] |= u32::from(bits) << (16 * (i % 2));
                } else {
                    d[i][lane] = canonical(value).to_bits();
                }
            }
        }
        for (row, words) in m.d.iter().zip(&d) {
            r.put(*row, ALL, words);
        }
    });
}

#[inline(always)]
fn product(a: &[[f32; MOST_K]; M], b: &[[f32; N]; MOST_K], c: &mut [[f32; N]; M], depth: usize) {
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
fn multiply_integers(r: &mut Registers, m: &Multiply) {
    let byte = |of: PtxType, word: u32, element: usize| {
        let byte = (word >> (8 * element)) as u8;
        if of == PtxType::S8 { i32::from(byte as i8) } else { i32::from(byte) }
    };
    let (mut a, mut b) = ([[0i32; MOST_K]; M], [[0i32; N]; MOST_K]);
    spread::<4, true, i32>(r, &m.a, |w, e| byte(m.a_type, w, e), |row, k, v| a[row][k] = v);
    spread::<4, false, i32>(r, &m.b, |w, e| byte(m.b_type, w, e), |column, k, v| b[k][column] = v);
    let mut d = [[0u32; 32]; 4];
    for i in 0..4 {
        for lane in 0..32 {
            let (row, column) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
            let c = i64::from(r.words(m.c[i])[lane] as i32);
            let sum = (0..m.k as usize).fold(c, |sum, k| sum + i64::from(a[row][k] * b[k][column]));
            d[i][lane] = if m.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { sum as u32 };
        }
    }
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
