//! Factors L D Lᵀ of a symmetric matrix that need not be definite, by Bunch and Kaufman's pivots ("Some stable methods for
//! calculating inertia and solving symmetric linear systems", Math. Comp. 31, 1977), stored as LAPACK's `sytrf` does for the lower
//! triangle: pivot p > 0 says that rows k and p - 1 changed places, two equal ones p < 0 that a block of two rows begins
//! whose second changed places with row -p - 1.
use super::Matrix;

/// Factors in the lower triangle (the upper one stays), pivots, and the first block of D that is zero.
pub(in super::super) fn ldl(mut a: Matrix) -> (Matrix, Vec<i64>, Option<usize>) {
    let n = a.rows;
    let (mut pivots, mut zero, mut k) = (vec![0; n], None, 0);
    while k < n {
        let (size, with) = pivot(&a, k);
        if a.get(k, k) == 0.0 && (k + 1..n).all(|i| a.get(i, k) == 0.0) {
            zero = zero.or(Some(k));
        }
        let last = k + size - 1;
        if with != last {
            exchange(&mut a, k, last, with);
        }
        if size == 1 {
            eliminate_one(&mut a, k);
            pivots[k] = with as i64 + 1;
        } else {
            eliminate_two(&mut a, k);
            (pivots[k], pivots[k + 1]) = (-(with as i64) - 1, -(with as i64) - 1);
        }
        k += size;
    }
    (a, pivots, zero)
}
/// How many rows the block at k has, and which row takes the place of its last.
fn pivot(a: &Matrix, k: usize) -> (usize, usize) {
    let alpha = (1.0 + 17f64.sqrt()) / 8.0;
    let n = a.rows;
    let own = a.get(k, k).abs();
    let Some(far) = (k + 1..n).rev().max_by(|&i, &j| a.get(i, k).abs().total_cmp(&a.get(j, k).abs())) else { return (1, k) };
    let column = a.get(far, k).abs();
    if own >= alpha * column {
        return (1, k);
    }
    let in_row = (k..far).map(|j| a.get(far, j).abs());
    let row = in_row.chain((far + 1..n).map(|i| a.get(i, far).abs())).fold(0.0, f64::max);
    if own >= alpha * column * (column / row) {
        (1, k)
    } else if a.get(far, far).abs() >= alpha * row {
        (1, far)
    } else {
        (2, far)
    }
}
/// Rows and columns `last` and `with` change places in the part from k on.
fn exchange(a: &mut Matrix, k: usize, last: usize, with: usize) {
    let n = a.rows;
    let mut swap = |i: usize, j: usize, r: usize, s: usize| {
        let (x, y) = (a.get(i, j), a.get(r, s));
        (*a.at(i, j), *a.at(r, s)) = (y, x);
    };
    (with + 1..n).for_each(|i| swap(i, last, i, with));
    (last + 1..with).for_each(|i| swap(i, last, with, i));
    swap(last, last, with, with);
    if last > k {
        swap(last, k, with, k);
    }
}
fn eliminate_one(a: &mut Matrix, k: usize) {
    let (n, top) = (a.rows, a.get(k, k));
    if top == 0.0 {
        return;
    }
    for j in k + 1..n {
        let factor = a.get(j, k) / top;
        (j..n).for_each(|i| *a.at(i, j) -= a.get(i, k) * factor);
    }
    (k + 1..n).for_each(|i| *a.at(i, k) /= top);
}
fn eliminate_two(a: &mut Matrix, k: usize) {
    let n = a.rows;
    let side = a.get(k + 1, k);
    let (first, second) = (a.get(k, k) / side, a.get(k + 1, k + 1) / side);
    let scale = 1.0 / (first * second - 1.0) / side;
    for j in k + 2..n {
        let left = scale * (second * a.get(j, k) - a.get(j, k + 1));
        let right = scale * (first * a.get(j, k + 1) - a.get(j, k));
        (j..n).for_each(|i| *a.at(i, j) -= a.get(i, k) * left + a.get(i, k + 1) * right);
        (*a.at(j, k), *a.at(j, k + 1)) = (left, right);
    }
}
/// Solves with the factors of [`ldl`]. `None`: pivots that no factorization has.
pub(in super::super) fn ldl_solve(a: &Matrix, pivots: &[i64], mut x: Matrix) -> Option<Matrix> {
    let n = a.rows;
    let place = |p: i64| usize::try_from(p.abs() - 1).ok().filter(|&row| row < n);
    let mut k = 0;
    while k < n {
        let with = place(pivots[k])?;
        if pivots[k] > 0 {
            x.swap_rows(k, with);
            for j in 0..x.columns {
                let top = x.get(k, j);
                (k + 1..n).for_each(|i| *x.at(i, j) -= a.get(i, k) * top);
                *x.at(k, j) = top / a.get(k, k);
            }
            k += 1;
        } else {
            if k + 1 >= n {
                return None;
            }
            x.swap_rows(k + 1, with);
            let side = a.get(k + 1, k);
            let (first, second) = (a.get(k, k) / side, a.get(k + 1, k + 1) / side);
            for j in 0..x.columns {
                let (top, next) = (x.get(k, j), x.get(k + 1, j));
                (k + 2..n).for_each(|i| *x.at(i, j) -= a.get(i, k) * top + a.get(i, k + 1) * next);
                let (top, next) = (top / side, next / side);
                *x.at(k, j) = (second * top - next) / (first * second - 1.0);
                *x.at(k + 1, j) = (first * next - top) / (first * second - 1.0);
            }
            k += 2;
        }
    }
    // And with the transpose of L, from the last block to the first.
    let mut end = n;
    while end > 0 {
        let size = if pivots[end - 1] > 0 { 1 } else { 2 };
        let from = end.checked_sub(size)?;
        for j in 0..x.columns {
            for row in from..end {
                let known: f64 = (end..n).map(|i| a.get(i, row) * x.get(i, j)).sum();
                *x.at(row, j) -= known;
            }
        }
        x.swap_rows(end - 1, place(pivots[end - 1])?);
        end = from;
    }
    Some(x)
}
