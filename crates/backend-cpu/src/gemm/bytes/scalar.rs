//! Plain Rust: the twin that the others are compared with.

use super::instances::{context, kernels};
use super::micro::{ByteSet, LINE, QUAD};

struct ScalarBytes;
/// One of the two is signed.
#[inline(always)]
fn times<const SIGNED: bool>(a: u8, b: i8) -> i32 {
    if SIGNED { a as i8 as i32 * b as u8 as i32 } else { a as i32 * b as i32 }
}
impl ByteSet for ScalarBytes {
    const WIDTH: usize = 1;
    const COLUMNS: usize = 16;
    type Quad = [u8; QUAD];
    type Bytes = [i8; LINE];
    type Whole = [u8; LINE];
    type Sum = [i32; 16];
    type LineSum = [i32; 16];
    type Lanes = [i32; 16];
    #[inline(always)]
    unsafe fn zero() -> [i32; 16] {
        [0; 16]
    }
    #[inline(always)]
    unsafe fn quad(at: *const u8) -> [u8; QUAD] {
        // SAFETY: the caller vouches for a quad.
        unsafe { at.cast::<[u8; QUAD]>().read() }
    }
    #[inline(always)]
    unsafe fn whole(at: *const u8) -> [u8; LINE] {
        // SAFETY: the caller vouches for a line.
        unsafe { at.cast::<[u8; LINE]>().read() }
    }
    #[inline(always)]
    unsafe fn load(at: *const i8) -> [i8; LINE] {
        // SAFETY: the caller vouches for a line.
        unsafe { at.cast::<[i8; LINE]>().read() }
    }
    #[inline(always)]
    unsafe fn load_flipped(at: *const u8, flip: u8) -> [i8; LINE] {
        // SAFETY: the caller vouches for a line.
        unsafe { at.cast::<[u8; LINE]>().read() }.map(|byte| (byte ^ flip) as i8)
    }
    #[inline(always)]
    unsafe fn weave(rows: [*const u8; QUAD], flip: u8) -> [[i8; LINE]; 4] {
        // SAFETY: the caller vouches for 64 columns of each row.
        let rows = rows.map(|row| unsafe { row.cast::<[u8; LINE]>().read() });
        std::array::from_fn(|v| {
            std::array::from_fn(|at| {
                let (column, k) = (at / QUAD, at % QUAD);
                (rows[k][column / QUAD * 16 + v * QUAD + column % QUAD] ^ flip) as i8
            })
        })
    }
    #[inline(always)]
    unsafe fn dot<const SIGNED: bool>(a: [u8; QUAD], b: [i8; LINE], sum: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|c| (0..QUAD).fold(sum[c], |sum, k| sum.wrapping_add(times::<SIGNED>(a[k], b[c * QUAD + k]))))
    }
    #[inline(always)]
    unsafe fn dot_whole<const SIGNED: bool>(a: [u8; LINE], b: [i8; LINE], sum: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|c| (c * QUAD..c * QUAD + QUAD).fold(sum[c], |sum, k| sum.wrapping_add(times::<SIGNED>(a[k], b[k]))))
    }
    #[inline(always)]
    unsafe fn line_zero() -> [i32; 16] {
        [0; 16]
    }
    #[inline(always)]
    unsafe fn totals(sums: [[i32; 16]; 4]) -> [i32; 4] {
        sums.map(|sum| sum.iter().fold(0i32, |total, &v| total.wrapping_add(v)))
    }
    #[inline(always)]
    unsafe fn lanes(sum: [i32; 16]) -> [i32; 16] {
        sum
    }
    #[inline(always)]
    unsafe fn load_lanes(at: *const i32) -> [i32; 16] {
        // SAFETY: the caller vouches for 16 sums.
        unsafe { at.cast::<[i32; 16]>().read() }
    }
    #[inline(always)]
    unsafe fn store_lanes(lanes: [i32; 16], at: *mut i32) {
        // SAFETY: the caller vouches for 16 sums.
        unsafe { at.cast::<[i32; 16]>().write(lanes) }
    }
    #[inline(always)]
    unsafe fn add(a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|c| a[c].wrapping_add(b[c]))
    }
    #[inline(always)]
    unsafe fn correct(lanes: [i32; 16], start: i32, zero: i32, sums: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|c| lanes[c].wrapping_add(start).wrapping_sub(zero.wrapping_mul(sums[c])))
    }
}

kernels!();
context!(BYTES: tiles of [1 2] rows by [1] vectors, lines by 2 rows of ScalarBytes);
