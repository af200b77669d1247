//! Eigenvalues of symmetric matrices: Householder's reflections to three diagonals, then QL steps with implicit shifts (Golub and
//! Van Loan, "Matrix Computations", 4th ed., section 8.3). Eigenvectors are rows while they are computed, so that a rotation of
//! two of them runs over elements side by side.
use super::{Matrix, add_scaled, dot, rotate};

/// Eigenvalues in ascending order and eigenvectors (columns) of a symmetric matrix, of which the lower triangle is read.
/// `None`: the steps did not converge (the matrix is not finite).
pub(in super::super) fn eigh(a: &Matrix) -> Option<(Vec<f64>, Matrix)> {
    let n = a.rows;
    let largest = (0..n).flat_map(|i| a.row(i)[..=i].iter()).fold(0.0f64, |m, v| if v.is_nan() { f64::NAN } else { m.max(v.abs()) });
    if !largest.is_finite() {
        return None;
    }
    // Squares of what is far from 1 would overflow or vanish; a power of two rounds nothing.
    let scale = if largest > 0.0 { (-largest.log2().floor().clamp(-1020.0, 1020.0)).exp2() } else { 1.0 };
    let mut s = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let v = a.get(i, j) * scale;
            (*s.at(i, j), *s.at(j, i)) = (v, v);
        }
    }
    let (mut diagonal, mut beside, mut rows) = tridiagonal(s);
    converge(&mut diagonal, &mut beside, &mut rows)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| diagonal[i].total_cmp(&diagonal[j]));
    let mut vectors = Matrix::zeros(n, n);
    for (k, &from) in order.iter().enumerate() {
        rows.row(from).iter().enumerate().for_each(|(i, &v)| *vectors.at(i, k) = v);
    }
    Some((order.iter().map(|&k| diagonal[k] / scale).collect(), vectors))
}
/// The diagonal, what stands beside it (the first is not used), and Q's columns as rows, with `Q T Qᵀ` the matrix.
fn tridiagonal(mut s: Matrix) -> (Vec<f64>, Vec<f64>, Matrix) {
    let n = s.rows;
    let (mut beside, mut vectors) = (vec![0.0; n], Vec::new());
    for k in 0..n.saturating_sub(2) {
        // Column k below its diagonal becomes a multiple of an axis.
        let mut v: Vec<f64> = s.row(k)[k + 1..].to_vec();
        let rest = dot(&v[1..], &v[1..]);
        if rest == 0.0 {
            beside[k + 1] = v[0];
            vectors.push((Vec::new(), 0.0));
            continue;
        }
        let norm = (v[0] * v[0] + rest).sqrt();
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        v[0] -= alpha;
        let tau = 2.0 / (v[0] * v[0] + rest);
        beside[k + 1] = alpha;
        // s -= v wᵀ + w vᵀ of what is left, with w = p - (tau / 2) (pᵀ v) v and p = tau s v.
        let mut w: Vec<f64> = (k + 1..n).map(|i| tau * dot(&s.row(i)[k + 1..], &v)).collect();
        let share = -0.5 * tau * dot(&w, &v);
        add_scaled(&mut w, share, &v);
        for i in k + 1..n {
            let row = &mut s.row_mut(i)[k + 1..];
            add_scaled(row, -v[i - k - 1], &w);
            add_scaled(row, -w[i - k - 1], &v);
        }
        vectors.push((v, tau));
    }
    if n >= 2 {
        beside[n - 1] = s.get(n - 1, n - 2);
    }
    let diagonal = (0..n).map(|i| s.get(i, i)).collect();
    // Q is the product of the reflections; its columns as rows are that product transposed, from the last reflection on.
    let mut q = Matrix::identity(n);
    for (k, (v, tau)) in vectors.iter().enumerate().rev() {
        if v.is_empty() {
            continue;
        }
        for i in k + 1..n {
            let row = &mut q.row_mut(i)[k + 1..];
            let share = -tau * dot(row, v);
            add_scaled(row, share, v);
        }
    }
    (diagonal, beside, q)
}
/// QL steps until nothing stands beside the diagonal.
fn converge(d: &mut [f64], beside: &mut [f64], rows: &mut Matrix) -> Option<()> {
    const STEPS: usize = 60;
    let n = d.len();
    // e[i] stands between i and i + 1.
    let mut e: Vec<f64> = beside.iter().skip(1).copied().chain([0.0]).collect();
    for l in 0..n {
        for step in 0.. {
            let small = |m: usize| e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs());
            let m = (l..n - 1).find(|&m| small(m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            if step == STEPS {
                return None;
            }
            // The eigenvalue of the leading 2 by 2 that is nearer to its corner.
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let r = g.hypot(1.0);
            let mut g = d[m] - d[l] + e[l] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut ended_early = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    ended_early = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                let shifted = d[i + 1] - p;
                let t = (d[i] - shifted) * s + 2.0 * c * b;
                p = s * t;
                d[i + 1] = shifted + p;
                g = c * t - b;
                let (x, y) = rows.two_rows(i, i + 1);
                rotate(x, y, c, s);
            }
            if ended_early {
                continue;
            }
            d[l] -= p;
            e[l] = g;
            e[m] = 0.0;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_orthonormal_and_make_the_matrix_again() {
        let mut state = 5u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        for n in [0usize, 1, 2, 3, 5, 17, 60] {
            for kind in 0..5 {
                let mut a = Matrix::zeros(n, n);
                for i in 0..n {
                    for j in 0..=i {
                        let v = match kind {
                            0 => draw(),
                            1 => draw() * 1e200,
                            2 => draw() * 1e-200,
                            3 => f64::from(i == j) * (i % 3) as f64,
                            // Of rank 1.
                            _ => (i + 1) as f64 * (j + 1) as f64,
                        };
                        (*a.at(i, j), *a.at(j, i)) = (v, v);
                    }
                }
                let (values, vectors) = eigh(&a).unwrap();
                assert!(values.windows(2).all(|w| w[0] <= w[1]));
                let size = a.data.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
                let again = vectors.clone().scaled_columns(&values).times(&vectors.transposed());
                let unit = vectors.transposed().times(&vectors);
                for i in 0..n {
                    for j in 0..n {
                        assert!((again.get(i, j) - a.get(i, j)).abs() <= 1e-14 * (n * n) as f64 * size, "{n} {kind}");
                        assert!((unit.get(i, j) - f64::from(i == j)).abs() <= 1e-14 * n as f64, "{n} {kind}");
                    }
                }
            }
        }
        let nan = Matrix::new(2, 2, vec![f64::NAN, 0.0, 1.0, 0.0]);
        assert!(eigh(&nan).is_none());
    }
}
