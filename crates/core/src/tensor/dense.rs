//! Dense linear algebra on small row-major matrices of f64 on the host: what the composites of `decompose` mean.
//! Plain algorithms: partial pivoting, Householder reflections, Jacobi rotations, implicit QL steps (Golub and Van Loan, "Matrix
//! Computations", 4th ed., sections 3.4, 4.2, 5.2, 8.5 and 8.6).
mod eigen;
mod exponential;
mod symmetric;
mod tridiagonal;

pub(super) use eigen::eig;
pub(super) use exponential::exponential;
pub(super) use symmetric::{ldl, ldl_solve};
pub(super) use tridiagonal::eigh;

/// A row-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<f64>,
}
impl Matrix {
    pub fn new(rows: usize, columns: usize, data: Vec<f64>) -> Matrix {
        Matrix { rows, columns, data }
    }
    pub fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, vec![0.0; rows * columns])
    }
    pub fn identity(n: usize) -> Matrix {
        let mut m = Matrix::zeros(n, n);
        (0..n).for_each(|k| *m.at(k, k) = 1.0);
        m
    }
    pub fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.data[row * self.columns + column]
    }
    pub fn get(&self, row: usize, column: usize) -> f64 {
        self.data[row * self.columns + column]
    }
    pub fn transposed(&self) -> Matrix {
        let mut t = Matrix::zeros(self.columns, self.rows);
        for i in 0..self.rows {
            for j in 0..self.columns {
                *t.at(j, i) = self.get(i, j);
            }
        }
        t
    }
    pub fn times(&self, other: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for k in 0..self.columns {
                add_scaled(out.row_mut(i), self.get(i, k), other.row(k));
            }
        }
        out
    }
    pub fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.columns..][..self.columns]
    }
    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.data[row * self.columns..][..self.columns]
    }
    /// Two rows, `a` before `b`.
    fn two_rows(&mut self, a: usize, b: usize) -> (&mut [f64], &mut [f64]) {
        let (front, back) = self.data.split_at_mut(b * self.columns);
        (&mut front[a * self.columns..][..self.columns], &mut back[..self.columns])
    }
    fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.columns).for_each(|j| self.data.swap(a * self.columns + j, b * self.columns + j));
    }
    /// Each column times a number.
    pub fn scaled_columns(mut self, by: &[f64]) -> Matrix {
        for (k, v) in self.data.iter_mut().enumerate() {
            *v *= by[k % self.columns];
        }
        self
    }
}

/// `y += a x`.
fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}
/// The sum of products, in eight sums beside each other.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (mut sums, whole) = ([0.0; 8], x.len().min(y.len()) / 8 * 8);
    for (x, y) in x[..whole].chunks_exact(8).zip(y[..whole].chunks_exact(8)) {
        (0..8).for_each(|k| sums[k] += x[k] * y[k]);
    }
    let rest: f64 = x[whole..].iter().zip(&y[whole..]).map(|(x, y)| x * y).sum();
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])) + rest
}
/// `(x, y)` rotated: `(c x - s y, s x + c y)`.
fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
}

/// Rows in the order that pivoting chose, unit lower and upper triangle in one matrix, and the sign of the order.
pub(super) struct Lu {
    pub factors: Matrix,
    pub order: Vec<usize>,
    /// which row changed places with row k, in step k
    pub pivots: Vec<usize>,
    pub sign: f64,
}
/// The factors of a matrix of any shape, `[m, k]` and `[k, n]` with k the smaller size.
pub(super) fn lu(mut a: Matrix) -> Lu {
    let (n, columns) = (a.rows, a.columns);
    let (mut order, mut sign): (Vec<usize>, f64) = ((0..n).collect(), 1.0);
    let mut pivots = Vec::new();
    for k in 0..n.min(columns) {
        // Of equal ones the first, as LAPACK.
        let pivot = (k..n).rev().max_by(|&i, &j| a.get(i, k).abs().total_cmp(&a.get(j, k).abs())).unwrap_or(k);
        pivots.push(pivot);
        if pivot != k {
            a.swap_rows(pivot, k);
            order.swap(pivot, k);
            sign = -sign;
        }
        let top = a.get(k, k);
        if top == 0.0 {
            continue;
        }
        for i in k + 1..n {
            let (above, row) = a.two_rows(k, i);
            row[k] /= top;
            let factor = row[k];
            add_scaled(&mut row[k + 1..], -factor, &above[k + 1..]);
        }
    }
    Lu { factors: a, order, pivots, sign }
}
impl Lu {
    /// The first pivot that is zero: the matrix is singular.
    pub fn singular_at(&self) -> Option<usize> {
        (0..self.pivots.len()).find(|&k| self.factors.get(k, k) == 0.0)
    }
    /// Sign and logarithm of the magnitude of the determinant.
    pub fn slogdet(&self) -> (f64, f64) {
        (0..self.factors.rows)
            .map(|k| self.factors.get(k, k))
            .fold((self.sign, 0.0), |(s, l), d| (if d == 0.0 { 0.0 } else { s * d.signum() }, l + d.abs().ln()))
    }
    pub fn det(&self) -> f64 {
        (0..self.factors.rows).map(|k| self.factors.get(k, k)).fold(self.sign, |d, v| d * v)
    }
    pub fn solve(&self, b: &Matrix) -> Matrix {
        let mut x = Matrix::zeros(b.rows, b.columns);
        for (i, &from) in self.order.iter().enumerate() {
            (0..b.columns).for_each(|j| *x.at(i, j) = b.get(from, j));
        }
        substitute(&self.factors, &mut x, false, true);
        substitute(&self.factors, &mut x, true, false);
        x
    }
}
/// Solves a triangular system in place. The other triangle of `a` is not read, nor its diagonal if it counts as ones.
pub(super) fn substitute(a: &Matrix, x: &mut Matrix, upper: bool, unit: bool) {
    let n = a.rows;
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        for k in if upper { i + 1..n } else { 0..i } {
            let factor = -a.get(i, k);
            if k < i {
                let (known, row) = x.two_rows(k, i);
                add_scaled(row, factor, known);
            } else {
                let (row, known) = x.two_rows(i, k);
                add_scaled(row, factor, known);
            }
        }
        if !unit {
            let diagonal = a.get(i, i);
            x.row_mut(i).iter_mut().for_each(|v| *v /= diagonal);
        }
    }
}
/// The lower factor of a symmetric positive definite matrix (its lower triangle is read), or the order of the leading
/// minor that is not positive.
pub(super) fn cholesky(a: &Matrix) -> Result<Matrix, usize> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for j in 0..n {
        let square = a.get(j, j) - dot(&l.row(j)[..j], &l.row(j)[..j]);
        // NaN is not positive either.
        if square.is_nan() || square <= 0.0 {
            return Err(j + 1);
        }
        let root = square.sqrt();
        *l.at(j, j) = root;
        for i in j + 1..n {
            let sum = dot(&l.row(i)[..j], &l.row(j)[..j]);
            *l.at(i, j) = (a.get(i, j) - sum) / root;
        }
    }
    Ok(l)
}
/// Householder's reflections, with LAPACK's signs: the triangle R with, below it, each one's vector without its leading 1; and
/// their factors τ.
pub(super) fn reflections(mut a: Matrix) -> (Matrix, Vec<f64>) {
    let (m, k) = (a.rows, a.rows.min(a.columns));
    let mut taus = Vec::new();
    for c in 0..k {
        let norm = (c + 1..m).map(|i| a.get(i, c).powi(2)).sum::<f64>();
        let alpha = a.get(c, c);
        if norm == 0.0 {
            taus.push(0.0);
            continue;
        }
        let beta = -alpha.signum() * (alpha * alpha + norm).sqrt();
        let tau = (beta - alpha) / beta;
        let mut v = vec![0.0; m];
        v[c] = 1.0;
        (c + 1..m).for_each(|i| v[i] = a.get(i, c) / (alpha - beta));
        reflect(&mut a, &v, tau, c);
        (c + 1..m).for_each(|i| *a.at(i, c) = v[i]);
        taus.push(tau);
    }
    (a, taus)
}
/// Q `[m, k]` and R `[k, n]` by [`reflections`].
pub(super) fn qr(a: Matrix) -> (Matrix, Matrix) {
    let (m, n) = (a.rows, a.columns);
    let k = m.min(n);
    let (a, taus) = reflections(a);
    let mut q = Matrix::zeros(m, k);
    (0..k).for_each(|i| *q.at(i, i) = 1.0);
    for (c, tau) in taus.iter().enumerate().rev() {
        let v: Vec<f64> = (0..m).map(|i| if i > c { a.get(i, c) } else { (i == c) as u8 as f64 }).collect();
        reflect(&mut q, &v, *tau, 0);
    }
    let mut r = Matrix::zeros(k, n);
    for i in 0..k {
        (i..n).for_each(|j| *r.at(i, j) = a.get(i, j));
    }
    (q, r)
}
/// `a -= tau v (vᵀ a)`, columns from `from` on.
fn reflect(a: &mut Matrix, v: &[f64], tau: f64, from: usize) {
    let mut products = vec![0.0; a.columns - from];
    for (i, &v) in v.iter().enumerate().filter(|(_, v)| **v != 0.0) {
        add_scaled(&mut products, v, &a.row(i)[from..]);
    }
    for (i, &v) in v.iter().enumerate().filter(|(_, v)| **v != 0.0) {
        add_scaled(&mut a.row_mut(i)[from..], -tau * v, &products);
    }
}
/// Jacobi converges quadratically; more sweeps than this means that it does not.
const SWEEPS: usize = 100;
/// Cosine and sine of the rotation that makes `[[a, b], [b, d]]` diagonal.
fn rotation(a: f64, b: f64, d: f64) -> (f64, f64) {
    let tau = (d - a) / (2.0 * b);
    let t = if tau >= 0.0 { 1.0 / (tau + (1.0 + tau * tau).sqrt()) } else { -1.0 / (-tau + (1.0 + tau * tau).sqrt()) };
    let c = 1.0 / (1.0 + t * t).sqrt();
    (c, t * c)
}
fn columns(a: &Matrix, order: &[usize]) -> Matrix {
    let mut out = Matrix::zeros(a.rows, order.len());
    for i in 0..a.rows {
        for (k, &from) in order.iter().enumerate() {
            *out.at(i, k) = a.get(i, from);
        }
    }
    out
}
/// U `[m, k]`, singular values in descending order, Vᵀ `[k, n]`, by one-sided Jacobi rotations. `None` as [`eigh`].
pub(super) fn svd(a: &Matrix) -> Option<(Matrix, Vec<f64>, Matrix)> {
    if a.rows < a.columns {
        let (u, s, vt) = svd(&a.transposed())?;
        return Some((vt.transposed(), s, u.transposed()));
    }
    let n = a.columns;
    // Columns as rows, side by side.
    let (mut w, mut v) = (a.transposed(), Matrix::identity(n));
    let mut converged = n < 2;
    // Two columns that are rounding errors beside the matrix have no angle: of a matrix that lacks ranks they never agree.
    let size = a.data.iter().map(|x| x * x).sum::<f64>();
    let noise = if size.is_finite() { (f64::EPSILON * f64::EPSILON * size).max(f64::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let (pp, pq, qq) = (dot(w.row(p), w.row(p)), dot(w.row(p), w.row(q)), dot(w.row(q), w.row(q)));
                if pq.abs() > f64::EPSILON * (pp * qq).sqrt() && pq.abs() > noise {
                    rotated = true;
                    let (c, s) = rotation(pp, pq, qq);
                    for of in [&mut w, &mut v] {
                        let (x, y) = of.two_rows(p, q);
                        rotate(x, y, c, s);
                    }
                } else if pq.is_nan() {
                    return None;
                }
            }
        }
        if !rotated {
            converged = true;
            break;
        }
    }
    if !converged || w.data.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let norms: Vec<f64> = (0..n).map(|k| dot(w.row(k), w.row(k)).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| norms[j].total_cmp(&norms[i]));
    let singular: Vec<f64> = order.iter().map(|&k| norms[k]).collect();
    let (w, v) = (w.transposed(), v.transposed());
    let mut u = columns(&w, &order);
    for k in 0..n {
        complete_column(&mut u, k, singular[k]);
    }
    Some((u, singular, columns(&v, &order).transposed()))
}
/// Makes column k of length 1; where the singular value is 0, any direction orthogonal to the columns before it.
fn complete_column(u: &mut Matrix, k: usize, norm: f64) {
    let m = u.rows;
    if norm > 0.0 {
        (0..m).for_each(|i| *u.at(i, k) /= norm);
        return;
    }
    for axis in 0..m {
        let mut column = vec![0.0; m];
        column[axis] = 1.0;
        for _ in 0..2 {
            for j in 0..k {
                let dot: f64 = (0..m).map(|i| column[i] * u.get(i, j)).sum();
                (0..m).for_each(|i| column[i] -= dot * u.get(i, j));
            }
        }
        let length = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        // Of m axes at least one is far from the span of fewer than m columns.
        if length > 0.5 / (m as f64).sqrt() {
            (0..m).for_each(|i| *u.at(i, k) = column[i] / length);
            return;
        }
    }
}
/// The matrix of cofactors, `det(a) a^-T`, which exists for singular matrices too.
pub(super) fn cofactors(a: &Matrix) -> Option<Matrix> {
    let (u, s, vt) = svd(a)?;
    let sign = lu(u.clone()).det().signum() * lu(vt.clone()).det().signum();
    let others: Vec<f64> = (0..s.len()).map(|i| sign * (0..s.len()).filter(|&j| j != i).map(|j| s[j]).product::<f64>()).collect();
    Some(u.scaled_columns(&others).times(&vt))
}
/// Moore and Penrose's inverse; singular values up to `rtol` times the largest count as zero.
pub(super) fn pinv(a: &Matrix, rtol: f64) -> Option<Matrix> {
    let (u, s, vt) = svd(a)?;
    let cutoff = rtol * s.first().copied().unwrap_or(0.0);
    let inverse: Vec<f64> = s.iter().map(|&v| if v > cutoff { 1.0 / v } else { 0.0 }).collect();
    Some(vt.transposed().scaled_columns(&inverse).times(&u.transposed()))
}
