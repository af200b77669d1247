//! Rotations of rows next to each other, as an iteration makes them: they wait until there are many, and are then applied to a strip of
//! columns that stays in a cache while row after row passes through registers. Strips do not look at each other, so threads share
//! them out.
use super::{Crew, vector::FactorElement};
use crate::{
    scratch::{ScratchVec, filled, scratch_vec},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::ErrorKind;

/// Columns of a strip.
const STRIP: usize = 32;
/// Rotations that wait before they are applied, by columns of the matrix: a strip is read from further away once for all of them.
const WAITING: usize = 32;

/// Which way a sweep goes through the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepDirection {
    Down,
    Up,
}
/// Rows that are rotated, in strips of [`STRIP`] columns.
pub(super) struct RotatedRows<'r, T: FactorElement> {
    crew: Crew<'r>,
    rows: usize,
    columns: usize,
    strips: ScratchVec<T>,
    /// of each sweep where it begins, how many rotations it has, and whether it goes down
    sweeps: ScratchVec<usize>,
    factors: ScratchVec<T>,
}
impl<'r, T: FactorElement> RotatedRows<'r, T> {
    /// Of rows of `columns` elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(crew: Crew<'r>, rows: &[T], columns: usize) -> Result<RotatedRows<'r, T>, ErrorKind> {
        let count = rows.len() / columns;
        let mut strips = filled(T::ZERO, columns.div_ceil(STRIP) * count * STRIP)?;
        for (strip, from) in strips.chunks_exact_mut(count * STRIP).zip((0..columns).step_by(STRIP)) {
            let wide = STRIP.min(columns - from);
            for (to, row) in strip.chunks_exact_mut(STRIP).zip(rows.chunks_exact(columns)) {
                to[..wide].copy_from_slice(&row[from..from + wide]);
            }
        }
        // Sweeps do not outgrow these lists: they are applied before.
        let (sweeps, factors) = (scratch_vec(12 * WAITING)?, scratch_vec(2 * (WAITING + 1) * count)?);
        Ok(RotatedRows { crew, rows: count, columns, strips, sweeps, factors })
    }
    /// Begins a sweep at a row.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn begin(&mut self, row: usize, way: SweepDirection) -> Result<(), ErrorKind> {
        if self.factors.len() >= 2 * WAITING * self.rows || self.sweeps.len() >= 12 * WAITING {
            self.apply()?;
        }
        self.sweeps.extend([row, 0, (way == SweepDirection::Down) as usize]);
        Ok(())
    }
    /// The row x where the sweep is and the next one y become `c x + s y` and `c y - s x`.
    pub fn rotate(&mut self, c: f64, s: f64) {
        if let [.., count, _] = &mut self.sweeps[..] {
            *count += 1;
            self.factors.extend([T::nearest(c), T::nearest(s)]);
        }
    }
    fn apply(&mut self) -> Result<(), ErrorKind> {
        let (sweeps, factors, strip) = (&self.sweeps[..], &self.factors[..], self.rows * STRIP);
        let share = self.crew.share(self.columns.div_ceil(STRIP), 2 * factors.len() * STRIP, 1);
        self.crew.for_lines(&mut self.strips, strip, share, |_, strips| {
            for rows in strips.chunks_exact_mut(strip) {
                dispatch(self.crew.isa, StripRotations { rows: rows.as_chunks_mut().0, sweeps: sweeps.as_chunks().0, factors: factors.as_chunks().0 });
            }
            Ok(())
        })?;
        self.sweeps.clear();
        self.factors.clear();
        Ok(())
    }
    /// The rows in an order, each times 1 or -1.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn finish(mut self, order: &[usize], negative: impl Fn(usize) -> bool) -> Result<ScratchVec<T>, ErrorKind> {
        self.apply()?;
        let mut out = filled(T::ZERO, self.rows * self.columns)?;
        for (strip, from) in self.strips.chunks_exact(self.rows * STRIP).zip((0..self.columns).step_by(STRIP)) {
            let wide = STRIP.min(self.columns - from);
            for (&row, out) in order.iter().zip(out.chunks_exact_mut(self.columns)) {
                let (row_of, out) = (&strip[row * STRIP..][..wide], &mut out[from..from + wide]);
                if negative(row) {
                    out.iter_mut().zip(row_of).for_each(|(o, v)| *o = -*v);
                } else {
                    out.copy_from_slice(row_of);
                }
            }
        }
        Ok(out)
    }
}
/// All sweeps over one strip.
struct StripRotations<'a, T> {
    rows: &'a mut [[T; STRIP]],
    sweeps: &'a [[usize; 3]],
    factors: &'a [[T; 2]],
}
impl<T: FactorElement> SimdKernel for StripRotations<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let lanes = <T::V<S> as Float>::LANES;
        let zero = T::V::<S>::group(T::V::<S>::splat(T::ZERO));
        let mut factors = self.factors;
        for &[row, count, down] in self.sweeps {
            let (own, later) = factors.split_at(count);
            factors = later;
            let mut at = row;
            let mut carried = [zero; 2];
            for half in 0..2 {
                for v in 0..16 / lanes {
                    carried[half].as_mut()[v] = T::V::<S>::from_slice(&self.rows[at][half * 16 + v * lanes..]);
                }
            }
            for [c, s] in own {
                let next = if down == 1 { at + 1 } else { at.wrapping_sub(1) };
                let (c, s, less) = (T::V::<S>::splat(*c), T::V::<S>::splat(*s), T::V::<S>::splat(-*s));
                for half in 0..2 {
                    for v in 0..16 / lanes {
                        let place = half * 16 + v * lanes;
                        let (x, y) = (carried[half].as_ref()[v], T::V::<S>::from_slice(&self.rows[next][place..]));
                        c.mul_add(x, s.mul(y)).write(&mut self.rows[at][place..]);
                        carried[half].as_mut()[v] = less.mul_add(x, c.mul(y));
                    }
                }
                at = next;
            }
            for half in 0..2 {
                for v in 0..16 / lanes {
                    carried[half].as_ref()[v].write(&mut self.rows[at][half * 16 + v * lanes..]);
                }
            }
        }
    }
}
