//! How a transform of some length is done, and the roots of unity that it takes: by stages where the length has small divisors
//! only, by two transforms of about its root where it is long, as a convolution (Bluestein, 1970) where it has a large prime.
use super::FourierElement;
use crate::scratch::{ScratchVec, filled};
use adamant_runtime::ErrorKind;

/// Real and imaginary parts.
pub(super) type ComplexParts<T> = [ScratchVec<T>; 2];

/// A transform of one length.
pub(super) struct Plan<T: FourierElement> {
    pub n: usize,
    pub method: Method<T>,
}
pub(super) enum Method<T: FourierElement> {
    Stages(Vec<Butterfly<T>>),
    /// As a matrix `[n1, n2]`: its columns, a twist, its rows.
    Halves {
        columns: Box<Plan<T>>,
        rows: Box<Plan<T>>,
        /// `w^(j2 k1)`, in blocks of [`ABREAST`] columns
        twist: ComplexParts<T>,
    },
    Convolution {
        chirp: ComplexParts<T>,
        /// the transform of the other factor, over its length
        spectrum: ComplexParts<T>,
        long: Box<Plan<T>>,
    },
}
/// One step of Stockham's algorithm: `radix` transforms apart from each other by `m`.
pub(super) struct Butterfly<T: FourierElement> {
    pub radix: usize,
    pub m: usize,
    /// how far neighbours lie apart
    pub step: usize,
    /// `w^(p k)` for k = 1 .. radix, for every p < m
    pub twist: ComplexParts<T>,
    /// cosines and sines of all multiples of a turn's `radix`-th part
    pub turns: ComplexParts<T>,
}
/// How many transforms are done at once, each in a lane.
pub(super) const ABREAST: usize = 16;
/// The largest radix; a larger prime makes a convolution.
pub(super) const RADIX: usize = 31;
/// From here on two shorter transforms stay in cache where one does not.
const LONG: usize = 4096;

/// `exp(-2 pi i k / n)`, exact at the quarters of a turn.
fn root(k: usize, n: usize) -> (f64, f64) {
    // In eighths of a turn, so that the angle is small.
    let k = k % n;
    let (eighth, rest) = (8 * k / n, 8 * k % n);
    let angle = |part: usize| std::f64::consts::FRAC_PI_4 * part as f64 / n as f64;
    let (s, c) = if eighth % 2 == 0 { angle(rest).sin_cos() } else { angle(n - rest).sin_cos() };
    let (cos, sin) = match eighth {
        0 => (c, s),
        1 => (s, c),
        2 => (-s, c),
        3 => (-c, s),
        4 => (-c, -s),
        5 => (-s, -c),
        6 => (s, -c),
        _ => (c, -s),
    };
    (cos, -sin)
}
fn roots<T: FourierElement>(n: usize, exponents: impl ExactSizeIterator<Item = usize>) -> Result<ComplexParts<T>, ErrorKind> {
    let len = exponents.len();
    let (mut re, mut im) = (filled(T::ZERO, len)?, filled(T::ZERO, len)?);
    for (k, e) in exponents.enumerate() {
        let (c, s) = root(e, n);
        (re[k], im[k]) = (T::nearest(c), T::nearest(s));
    }
    Ok([re, im])
}
/// `exp(-2 pi i k / n)` for k up to n / 2, in pairs.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn half_turn<T: FourierElement>(n: usize) -> Result<ScratchVec<T>, ErrorKind> {
    let mut pairs = filled(T::ZERO, 2 * (n / 2 + 1))?;
    for (k, pair) in pairs.chunks_exact_mut(2).enumerate() {
        let (c, s) = root(k, n);
        (pair[0], pair[1]) = (T::nearest(c), T::nearest(s));
    }
    Ok(pairs)
}
/// The stages' radices: fours, a two, then the odd primes. `None`: there is a prime that is too large.
fn radices(mut n: usize) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for radix in [4, 2].into_iter().chain((3..=RADIX).step_by(2)) {
        while n > 1 && n % radix == 0 {
            all.push(radix);
            n /= radix;
        }
    }
    (n == 1).then_some(all)
}
/// The divisor nearest to the root.
fn half(n: usize) -> Option<usize> {
    (2..).take_while(|d| d * d <= n).filter(|d| n % d == 0).last()
}

impl<T: FourierElement> Plan<T> {
    /// A plan for rows of `n`, of which there are many or few.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize, many: bool) -> Result<Plan<T>, ErrorKind> {
        let Some(radices) = radices(n) else { return Plan::convolution(n, many) };
        let least = if many { LONG } else { ABREAST * ABREAST };
        let method = match half(n).filter(|&d| n >= least && d >= ABREAST) {
            Some(d) => {
                let (columns, rows) = (Plan::stages(d)?, Plan::stages(n / d)?);
                let n2 = n / d;
                let blocks = (0..n2).step_by(ABREAST);
                let places: Vec<usize> =
                    blocks.flat_map(|first| (0..d).flat_map(move |k1| (first..(first + ABREAST).min(n2)).map(move |j2| (j2 * k1) % n))).collect();
                Method::Halves { columns: Box::new(columns), rows: Box::new(rows), twist: roots(n, places.into_iter())? }
            }
            None => Method::Stages(stages(n, &radices)?),
        };
        Ok(Plan { n, method })
    }
    fn stages(n: usize) -> Result<Plan<T>, ErrorKind> {
        let radices = radices(n).unwrap_or_default();
        Ok(Plan { n, method: Method::Stages(stages(n, &radices)?) })
    }
    fn convolution(n: usize, many: bool) -> Result<Plan<T>, ErrorKind> {
        let m = (2 * n - 1).next_power_of_two();
        // j² modulo 2n, so that large ones lose nothing.
        let squares: Vec<usize> = (0..n).map(|j| ((j as u128 * j as u128) % (2 * n as u128)) as usize).collect();
        let chirp = roots::<T>(2 * n, squares.into_iter())?;
        let long = Plan::new(m, many)?;
        let mut pairs = filled(T::ZERO, 2 * m)?;
        for j in 0..n {
            for at in [j, (m - j) % m] {
                (pairs[2 * at], pairs[2 * at + 1]) = (chirp[0][j], -chirp[1][j]);
            }
        }
        let mut out = filled(T::ZERO, 2 * m)?;
        super::run::rows(crate::isa::Isa::Scalar, crate::threads::Threads::alone(), &long, false, T::nearest(1.0 / m as f64), &pairs, &mut out)?;
        let (mut re, mut im) = (filled(T::ZERO, m)?, filled(T::ZERO, m)?);
        for k in 0..m {
            (re[k], im[k]) = (out[2 * k], out[2 * k + 1]);
        }
        Ok(Plan { n, method: Method::Convolution { chirp, spectrum: [re, im], long: Box::new(long) } })
    }
}
fn stages<T: FourierElement>(n: usize, radices: &[usize]) -> Result<Vec<Butterfly<T>>, ErrorKind> {
    let (mut length, mut step) = (n, 1);
    radices
        .iter()
        .map(|&radix| {
            let m = length / radix;
            let exponents: Vec<usize> = (0..m).flat_map(|p| (1..radix).map(move |k| p * k)).collect();
            let stage = Butterfly { radix, m, step, twist: roots(length, exponents.into_iter())?, turns: roots(radix, 0..radix)? };
            (length, step) = (m, step * radix);
            Ok(stage)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact_at_quarters_and_near_elsewhere() {
        assert_eq!([root(0, 12), root(3, 12), root(6, 12), root(9, 12)], [(1.0, -0.0), (0.0, -1.0), (-1.0, -0.0), (-0.0, 1.0)]);
        for n in [1, 2, 3, 5, 7, 8, 12, 1000, 1009] {
            for k in 0..2 * n {
                let angle = -std::f64::consts::TAU * (k % n) as f64 / n as f64;
                let (c, s) = root(k, n);
                assert!((c - angle.cos()).abs() < 2e-15 && (s - angle.sin()).abs() < 2e-15, "{k} of {n}");
            }
        }
    }
    #[test]
    fn every_way_is_taken_by_some_length() {
        let way = |n, many| match Plan::<f32>::new(n, many).unwrap().method {
            Method::Stages(s) => s.iter().map(|s| s.radix).collect::<Vec<_>>(),
            Method::Halves { columns, .. } => vec![columns.n],
            Method::Convolution { .. } => vec![],
        };
        assert_eq!(
            [way(1, true), way(1000, true), way(1000, false), way(8192, true), way(37, true)],
            [vec![], vec![4, 2, 5, 5, 5], vec![25], vec![64], vec![]]
        );
    }
}
