//! Eigenvalues and eigenvectors of a matrix that need not be symmetric: to Hessenberg's form by reflections, to Schur's by
//! Francis' implicit double shifts, and back by substitution (Golub and Van Loan, sections 7.4 to 7.6; the shifts and the tests
//! for a part that falls off are those of EISPACK's `hqr2`).
use super::Matrix;

/// A complex number.
pub(in super::super) type ComplexPair = (f64, f64);

fn divide(a: ComplexPair, b: ComplexPair) -> ComplexPair {
    // Smith, 1962: no square overflows.
    if b.0.abs() >= b.1.abs() {
        let (r, d) = (b.1 / b.0, b.0 + b.1 * (b.1 / b.0));
        ((a.0 + r * a.1) / d, (a.1 - r * a.0) / d)
    } else {
        let (r, d) = (b.0 / b.1, b.1 + b.0 * (b.0 / b.1));
        ((r * a.0 + a.1) / d, (r * a.1 - a.0) / d)
    }
}

/// Eigenvalues, and eigenvectors as columns of length 1 whose largest component is real (row-major, `n * n`). `None`: it does not
/// converge (the matrix is not finite).
pub(in super::super) fn eig(a: &Matrix) -> Option<(Vec<ComplexPair>, Vec<ComplexPair>)> {
    if a.data.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let (mut h, mut v) = hessenberg(a.clone());
    let values = schur(&mut h, &mut v)?;
    back(&mut h, &values);
    // The vectors of the triangle, in the basis of the matrix.
    let n = a.rows;
    let v = v.times(&h);
    let mut vectors = vec![(0.0, 0.0); n * n];
    let mut j = 0;
    while j < n {
        let pair = values[j].1 > 0.0 && j + 1 < n;
        let column: Vec<ComplexPair> = (0..n).map(|i| (v.get(i, j), if pair { v.get(i, j + 1) } else { 0.0 })).collect();
        for (i, (re, im)) in unit(column).into_iter().enumerate() {
            vectors[i * n + j] = (re, im);
            if pair {
                vectors[i * n + j + 1] = (re, -im);
            }
        }
        j += 1 + pair as usize;
    }
    Some((values, vectors))
}
fn unit(column: Vec<ComplexPair>) -> Vec<ComplexPair> {
    let large = column.iter().map(|z| z.0.abs().max(z.1.abs())).fold(0.0, f64::max);
    if large == 0.0 {
        return column;
    }
    let column: Vec<ComplexPair> = column.into_iter().map(|z| (z.0 / large, z.1 / large)).collect();
    let norm = column.iter().map(|z| z.0 * z.0 + z.1 * z.1).sum::<f64>().sqrt();
    let is_real = column.iter().all(|z| z.1 == 0.0);
    let largest = column.iter().copied().max_by(|a, b| a.0.hypot(a.1).total_cmp(&b.0.hypot(b.1))).unwrap_or((1.0, 0.0));
    let size = largest.0.hypot(largest.1);
    // A real vector keeps its sign.
    let turn = if is_real { (1.0, 0.0) } else { (largest.0 / size, -largest.1 / size) };
    let mut column: Vec<ComplexPair> = column.into_iter().map(|z| ((z.0 * turn.0 - z.1 * turn.1) / norm, (z.0 * turn.1 + z.1 * turn.0) / norm)).collect();
    if let Some(z) = column.iter_mut().max_by(|a, b| a.0.hypot(a.1).total_cmp(&b.0.hypot(b.1))) {
        z.1 = 0.0;
    }
    column
}

/// H with a = V H Vᵀ, whose elements below the first lower diagonal are zero, and V.
fn hessenberg(mut h: Matrix) -> (Matrix, Matrix) {
    let n = h.rows;
    let mut v = Matrix::identity(n);
    for c in 0..n.saturating_sub(2) {
        let scale = (c + 1..n).map(|i| h.get(i, c).abs()).fold(0.0, f64::max);
        if scale == 0.0 || (c + 2..n).all(|i| h.get(i, c) == 0.0) {
            continue;
        }
        let mut u = vec![0.0; n];
        (c + 1..n).for_each(|i| u[i] = h.get(i, c) / scale);
        let norm = u.iter().map(|x| x * x).sum::<f64>().sqrt();
        u[c + 1] += norm.copysign(u[c + 1]);
        let square = u.iter().map(|x| x * x).sum::<f64>();
        // I - 2 u uᵀ / uᵀu on both sides.
        for j in 0..n {
            let dot: f64 = (c + 1..n).map(|i| u[i] * h.get(i, j)).sum();
            (c + 1..n).for_each(|i| *h.at(i, j) -= 2.0 * dot / square * u[i]);
        }
        for m in [&mut h, &mut v] {
            for i in 0..n {
                let dot: f64 = (c + 1..n).map(|j| m.get(i, j) * u[j]).sum();
                (c + 1..n).for_each(|j| *m.at(i, j) -= 2.0 * dot / square * u[j]);
            }
        }
        (c + 2..n).for_each(|i| *h.at(i, c) = 0.0);
    }
    (h, v)
}
/// More steps for one eigenvalue than this mean that it does not converge.
const STEPS: usize = 100;

/// Makes h a triangle with blocks of two rows for pairs, turning v along, and returns the eigenvalues.
fn schur(h: &mut Matrix, v: &mut Matrix) -> Option<Vec<ComplexPair>> {
    let n = h.rows;
    let norm: f64 = (0..n).flat_map(|i| (i.saturating_sub(1)..n).map(move |j| (i, j))).map(|(i, j)| h.get(i, j).abs()).sum();
    let mut values = vec![(0.0, 0.0); n];
    let (mut end, mut steps, mut shifted) = (n, 0, 0.0);
    while end > 0 {
        let last = end - 1;
        let mut from = last;
        while from > 0 {
            let size = h.get(from - 1, from - 1).abs() + h.get(from, from).abs();
            if h.get(from, from - 1).abs() <= f64::EPSILON * if size == 0.0 { norm } else { size } {
                break;
            }
            from -= 1;
        }
        if from == last {
            *h.at(last, last) += shifted;
            values[last] = (h.get(last, last), 0.0);
            (end, steps) = (end - 1, 0);
        } else if from + 1 == last {
            *h.at(last, last) += shifted;
            *h.at(from, from) += shifted;
            (values[from], values[last]) = split(h, v, from);
            (end, steps) = (end - 2, 0);
        } else {
            if steps >= STEPS {
                return None;
            }
            shifted += step(h, v, from, last, steps);
            steps += 1;
        }
    }
    Some(values)
}
/// The two eigenvalues of the block at k: real ones are parted by a rotation.
fn split(h: &mut Matrix, v: &mut Matrix, k: usize) -> (ComplexPair, ComplexPair) {
    let n = h.rows;
    let (below, last) = (h.get(k + 1, k), h.get(k + 1, k + 1));
    let p = (h.get(k, k) - last) / 2.0;
    let q = p * p + below * h.get(k, k + 1);
    let z = q.abs().sqrt();
    if q < 0.0 {
        return ((last + p, z), (last + p, -z));
    }
    let z = p + if p >= 0.0 { z } else { -z };
    let first = last + z;
    let second = if z == 0.0 { first } else { last - below * h.get(k, k + 1) / z };
    let size = below.abs() + z.abs();
    let (sine, cosine) = (below / size, z / size);
    let r = sine.hypot(cosine);
    let (sine, cosine) = (sine / r, cosine / r);
    for j in k..n {
        let (x, y) = (h.get(k, j), h.get(k + 1, j));
        (*h.at(k, j), *h.at(k + 1, j)) = (cosine * x + sine * y, cosine * y - sine * x);
    }
    for (m, rows) in [(h, k + 2), (v, n)] {
        for i in 0..rows {
            let (x, y) = (m.get(i, k), m.get(i, k + 1));
            (*m.at(i, k), *m.at(i, k + 1)) = (cosine * x + sine * y, cosine * y - sine * x);
        }
    }
    ((first, 0.0), (second, 0.0))
}
/// One double step on the rows from `from` to `last`; returns what it subtracts from the whole diagonal.
fn step(h: &mut Matrix, v: &mut Matrix, from: usize, last: usize, steps: usize) -> f64 {
    let n = h.rows;
    let (mut x, mut y, mut w) = (h.get(last, last), h.get(last - 1, last - 1), h.get(last, last - 1) * h.get(last - 1, last));
    let mut subtracted = 0.0;
    if steps == 10 || steps == 20 {
        // Exceptional shifts, where the plain ones go round in circles (Wilkinson).
        subtracted = x;
        (0..=last).for_each(|i| *h.at(i, i) -= subtracted);
        let s = h.get(last, last - 1).abs() + h.get(last - 1, last - 2).abs();
        (x, y, w) = (0.75 * s, 0.75 * s, -0.4375 * s * s);
    }
    // Two small elements in a row below the diagonal: the step begins there.
    let mut m = last - 2;
    let (mut p, mut q, mut r);
    loop {
        let z = h.get(m, m);
        let (rx, sy) = (x - z, y - z);
        p = (rx * sy - w) / h.get(m + 1, m) + h.get(m, m + 1);
        q = h.get(m + 1, m + 1) - z - rx - sy;
        r = h.get(m + 2, m + 1);
        let s = p.abs() + q.abs() + r.abs();
        (p, q, r) = (p / s, q / s, r / s);
        if m == from {
            break;
        }
        let small = h.get(m, m - 1).abs() * (q.abs() + r.abs());
        if small < f64::EPSILON * p.abs() * (h.get(m - 1, m - 1).abs() + z.abs() + h.get(m + 1, m + 1).abs()) {
            break;
        }
        m -= 1;
    }
    for i in m + 2..=last {
        *h.at(i, i - 2) = 0.0;
        if i > m + 2 {
            *h.at(i, i - 3) = 0.0;
        }
    }
    for k in m..last {
        let three = k + 1 != last;
        let mut scale = 1.0;
        if k != m {
            (p, q, r) = (h.get(k, k - 1), h.get(k + 1, k - 1), if three { h.get(k + 2, k - 1) } else { 0.0 });
            scale = p.abs() + q.abs() + r.abs();
            if scale == 0.0 {
                continue;
            }
            (p, q, r) = (p / scale, q / scale, r / scale);
        }
        let s = (p * p + q * q + r * r).sqrt().copysign(p);
        if s == 0.0 {
            continue;
        }
        if k != m {
            *h.at(k, k - 1) = -s * scale;
        } else if from != m {
            *h.at(k, k - 1) *= -1.0;
        }
        let reflection = Reflection { at: k, three, by: [(p + s) / s, q / s, r / s], of: [q / (p + s), r / (p + s)] };
        (k..n).for_each(|j| reflection.on_rows(h, j));
        (0..=last.min(k + 3)).for_each(|i| reflection.on_columns(h, i));
        (0..n).for_each(|i| reflection.on_columns(v, i));
    }
    subtracted
}
/// I - b oᵀ on two or three rows or columns, o beginning with 1.
struct Reflection {
    at: usize,
    three: bool,
    by: [f64; 3],
    of: [f64; 2],
}
impl Reflection {
    fn on_rows(&self, m: &mut Matrix, j: usize) {
        let k = self.at;
        let third = if self.three { self.of[1] * m.get(k + 2, j) } else { 0.0 };
        let sum = m.get(k, j) + self.of[0] * m.get(k + 1, j) + third;
        (0..2 + self.three as usize).for_each(|d| *m.at(k + d, j) -= sum * self.by[d]);
    }
    fn on_columns(&self, m: &mut Matrix, i: usize) {
        let (k, [x, y, z]) = (self.at, self.by);
        let third = if self.three { z * m.get(i, k + 2) } else { 0.0 };
        let sum = x * m.get(i, k) + y * m.get(i, k + 1) + third;
        *m.at(i, k) -= sum;
        (0..1 + self.three as usize).for_each(|d| *m.at(i, k + 1 + d) -= sum * self.of[d]);
    }
}
/// Puts the eigenvectors of the triangle in its place: of a pair the real part in the first column, the imaginary one in the second.
fn back(t: &mut Matrix, values: &[ComplexPair]) {
    let n = t.rows;
    let norm = t.data.iter().map(|x| x.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let mut vectors = Matrix::zeros(n, n);
    for j in 0..n {
        let value = values[j];
        if value.1 < 0.0 {
            continue;
        }
        let pair = value.1 > 0.0;
        let mut x = vec![(0.0, 0.0); n];
        x[j] = (1.0, 0.0);
        let mut top = j;
        if pair {
            // The block's own: (t[j][j] - λ) x[j] + t[j][j+1] x[j+1] = 0.
            x[j + 1] = divide((-(t.get(j, j) - value.0), value.1), (t.get(j, j + 1), 0.0));
            top = j + 1;
        }
        let mut i = j;
        while i > 0 {
            i -= 1;
            let right = |row: usize, from: usize, x: &[ComplexPair]| -> ComplexPair {
                (from..=top).fold((0.0, 0.0), |s, k| (s.0 - t.get(row, k) * x[k].0, s.1 - t.get(row, k) * x[k].1))
            };
            let block = i > 0 && values[i].1 < 0.0;
            let apart = |z: ComplexPair| if z.0 == 0.0 && z.1 == 0.0 { (f64::EPSILON * norm, 0.0) } else { z };
            if !block {
                x[i] = divide(right(i, i + 1, &x), apart((t.get(i, i) - value.0, -value.1)));
            } else {
                // Rows i - 1 and i together, by Cramer's rule.
                let (r0, r1) = (right(i - 1, i + 1, &x), right(i, i + 1, &x));
                let (a, d) = ((t.get(i - 1, i - 1) - value.0, -value.1), (t.get(i, i) - value.0, -value.1));
                let (b, c) = (t.get(i - 1, i), t.get(i, i - 1));
                let times = |x: ComplexPair, y: ComplexPair| (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0);
                let minus = |x: ComplexPair, y: ComplexPair| (x.0 - y.0, x.1 - y.1);
                let det = apart(minus(times(a, d), (b * c, 0.0)));
                x[i - 1] = divide(minus(times(r0, d), (b * r1.0, b * r1.1)), det);
                x[i] = divide(minus(times(a, r1), (c * r0.0, c * r0.1)), det);
                i -= 1;
            }
            let large = x.iter().map(|z| z.0.abs().max(z.1.abs())).fold(0.0, f64::max);
            if large > 1e100 {
                x.iter_mut().for_each(|z| *z = (z.0 / large, z.1 / large));
            }
        }
        for (i, z) in x.into_iter().enumerate() {
            *vectors.at(i, j) = z.0;
            if pair {
                *vectors.at(i, j + 1) = z.1;
            }
        }
    }
    *t = vectors;
}
