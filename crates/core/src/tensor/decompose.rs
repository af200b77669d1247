//! Composites that solve and factor matrices. They are defined on the host; their gradients are tensor code (Giles,
//! "Collected matrix derivative results", 2008; Walter and Lehmann, 2018, for QR; PyTorch for the conventions).
use super::{
    Tensor,
    dense::{self, Matrix},
};
use crate::{
    Attr, Attrs, Composite, Compound, DType, Error, ErrorKind, HostArray, Result, Shape, TensorType, Types,
    composite::Cotangents,
    composite::{Given, RuleArgs, Saves, StackedInput, of_stacks},
};
use smallvec::{SmallVec, smallvec};

/// One of the factorizations of matrices or batches of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Factor {
    /// a `[.., n, n]` → `[..]`
    Det,
    /// a → `det(a) a^-T`
    Cofactors,
    /// a → sign, logarithm of the magnitude
    SlogDet,
    /// a → a^-1
    Inv,
    /// a, b `[.., n, k]` → a^-1 b
    Solve,
    /// a → the lower factor
    Cholesky,
    /// a, b → a^-1 b for a triangle of a
    Triangular { upper: bool, unit: bool },
    /// a → q `[.., m, k]`, r `[.., k, n]`
    Qr,
    /// a → eigenvalues in ascending order, eigenvectors
    Eigh,
    /// a → u `[.., m, k]`, singular values in descending order, vᵀ `[.., k, n]`
    Svd,
    /// a → the eigenvalues of [`Factor::Eigh`], for which no vectors are computed
    Eigenvalues,
    /// a → the singular values of [`Factor::Svd`], for which no vectors are computed
    SingularValues,
    /// a → its pseudo-inverse
    Pinv { rtol: f64 },
}
use Factor::*;

impl Factor {
    fn outputs(self, a: &Shape, b: Option<&Shape>) -> std::result::Result<Vec<Shape>, ErrorKind> {
        let lead = a.rank() - 2;
        let (m, n) = (a[lead], a[lead + 1]);
        let k = m.min(n);
        let shape = |tail: &[usize]| Shape::new(&a[..lead].iter().chain(tail).copied().collect::<SmallVec<[usize; 8]>>());
        Ok(match self {
            Det => vec![shape(&[])?],
            SlogDet => vec![shape(&[])?, shape(&[])?],
            Inv | Cofactors | Cholesky => vec![*a],
            Solve | Triangular { .. } => vec![*b.unwrap_or(a)],
            Qr => vec![shape(&[m, k])?, shape(&[k, n])?],
            Eigh => vec![shape(&[n])?, *a],
            Svd => vec![shape(&[m, k])?, shape(&[k])?, shape(&[k, n])?],
            Eigenvalues | SingularValues => vec![shape(&[k])?],
            Pinv { .. } => vec![shape(&[n, m])?],
        })
    }
    /// One matrix (and right side) to its results.
    fn one(self, a: Matrix, b: Option<Matrix>) -> std::result::Result<Vec<Vec<f64>>, ErrorKind> {
        let singular = |at: usize| ErrorKind::Domain(format!("the matrix is singular: pivot {} is zero", at + 1));
        let stuck = || ErrorKind::Domain("the rotations do not converge; does the matrix hold NaN or infinite elements?".into());
        let b = b.unwrap_or_else(|| Matrix::identity(a.rows));
        Ok(match self {
            Det => vec![vec![dense::lu(a).det()]],
            SlogDet => {
                let (sign, log) = dense::lu(a).slogdet();
                vec![vec![sign], vec![log]]
            }
            Inv | Solve => {
                let lu = dense::lu(a);
                if let Some(at) = lu.singular_at() {
                    return Err(singular(at));
                }
                vec![lu.solve(&b).data]
            }
            Triangular { upper, unit } => {
                let mut x = b;
                dense::substitute(&a, &mut x, upper, unit);
                vec![x.data]
            }
            Cholesky => vec![
                dense::cholesky(&a)
                    .map_err(|order| ErrorKind::Domain(format!("the matrix is not positive definite: its leading minor of order {order} is not positive")))?
                    .data,
            ],
            Cofactors => vec![dense::cofactors(&a).ok_or_else(stuck)?.data],
            Qr => {
                let (q, r) = dense::qr(a);
                vec![q.data, r.data]
            }
            Eigh => {
                let (values, vectors) = dense::eigh(&a).ok_or_else(stuck)?;
                vec![values, vectors.data]
            }
            Svd => {
                let (u, s, vt) = dense::svd(&a).ok_or_else(stuck)?;
                vec![u.data, s, vt.data]
            }
            Eigenvalues => vec![dense::eigh(&a).ok_or_else(stuck)?.0],
            SingularValues => vec![dense::svd(&a).ok_or_else(stuck)?.1],
            Pinv { rtol } => vec![dense::pinv(&a, rtol).ok_or_else(stuck)?.data],
        })
    }
    fn run(self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind> {
        let floats = |x: &HostArray, from: usize, len: usize| (from..from + len).map(|k| x.float(k)).collect::<Vec<f64>>();
        let a = &inputs[0];
        let rank = a.shape.rank();
        let (m, n) = (a.shape[rank - 2], a.shape[rank - 1]);
        let shapes = self.outputs(&a.shape, inputs.get(1).map(|b| &b.shape))?;
        let batch: usize = a.shape[..rank - 2].iter().product();
        let mut out: Vec<Vec<f64>> = vec![Vec::new(); shapes.len()];
        for k in 0..batch {
            let b = inputs.get(1).map(|b| {
                let columns = b.shape[rank - 1];
                Matrix::new(m, columns, floats(b, k * m * columns, m * columns))
            });
            for (all, one) in out.iter_mut().zip(self.one(Matrix::new(m, n, floats(a, k * m * n, m * n)), b)?) {
                all.extend(one);
            }
        }
        Ok(shapes.into_iter().zip(out).map(|(shape, data)| HostArray::floats(shape, a.dtype, data)).collect())
    }
}

/// The factorization of a name, with its attributes.
///
/// # Errors
/// Other attributes than its own, or no such factorization.
pub(crate) fn factor(name: &str, given: &mut Given) -> std::result::Result<Factor, ErrorKind> {
    Ok(match name {
        "adamant.solve_triangular" => Triangular { upper: given.bool("upper")?, unit: given.bool("unit")? },
        "adamant.pinv" => Pinv { rtol: given.float("rtol")? },
        _ => {
            let plain = [Det, Cofactors, SlogDet, Inv, Solve, Cholesky, Qr, Eigh, Svd, Eigenvalues, SingularValues];
            plain.into_iter().find(|f| f.name() == name).ok_or_else(|| ErrorKind::Internal(format!("{name} is no factorization")))?
        }
    })
}

impl Composite for Factor {
    fn name(&self) -> &'static str {
        match self {
            Det => "adamant.det",
            Cofactors => "adamant.cofactors",
            SlogDet => "adamant.slogdet",
            Inv => "adamant.inv",
            Solve => "adamant.solve",
            Cholesky => "adamant.cholesky",
            Triangular { .. } => "adamant.solve_triangular",
            Qr => "adamant.qr",
            Eigh => "adamant.eigh",
            Svd => "adamant.svd",
            Eigenvalues => "adamant.eigvalsh",
            SingularValues => "adamant.svdvals",
            Pinv { .. } => "adamant.pinv",
        }
    }
    fn attrs(&self) -> Attrs {
        match *self {
            Triangular { upper, unit } => smallvec![("upper", Attr::Bool(upper)), ("unit", Attr::Bool(unit))],
            Pinv { rtol } => smallvec![("rtol", Attr::Float(rtol))],
            _ => Attrs::new(),
        }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let a = &inputs[0];
        let rank = a.shape.rank();
        if !matches!(a.dtype, DType::F32 | DType::F64) {
            return Err(ErrorKind::Dtype(format!("matrices are factored in f32 and f64, not in {}", a.dtype)));
        }
        if rank < 2 {
            return Err(ErrorKind::Shape { shape: a.shape, expected: "a matrix or a batch of them".into() });
        }
        if !matches!(self, Qr | Svd | SingularValues | Pinv { .. }) && a.shape[rank - 2] != a.shape[rank - 1] {
            return Err(ErrorKind::Shape { shape: a.shape, expected: "a square matrix or a batch of them".into() });
        }
        if let Some(b) = inputs.get(1) {
            if b.dtype != a.dtype {
                return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
            }
            if b.shape.rank() != rank || b.shape[..rank - 1] != a.shape[..rank - 1] {
                return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "a right side with as many rows as the matrix" });
            }
        }
        Ok(self.outputs(&a.shape, inputs.get(1).map(|b| &b.shape))?.into_iter().map(|shape| TensorType { shape, ..*a }).collect())
    }
    fn is_host(&self) -> bool {
        true
    }
    fn host(&self, inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        Some(self.run(inputs))
    }
}
impl Compound for Factor {
    fn body(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::new(self.name(), ErrorKind::Internal("it is defined on the host".into())))
    }
    fn saves(&self) -> Option<Saves> {
        let (inputs, outputs) = match self {
            Det | SlogDet | Eigenvalues | SingularValues => (1, 0),
            Cofactors => (1, 1),
            Inv | Cholesky => (0, 1),
            Solve | Triangular { .. } | Pinv { .. } => (1, 1),
            Qr | Eigh => (0, 0b11),
            Svd => (0, 0b111),
        };
        Some(Saves { inputs, outputs })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let g = |k: usize| args.cotangents.get(k).and_then(|g| g.as_ref());
        let one = |g: Option<Tensor>| Ok(smallvec![g]);
        let matrix = |g: &Tensor| g.unsqueeze(-1).unsqueeze(-1);
        match *self {
            Det => one(g(0).map(|_| args.input(0).cloned()).transpose()?.and_then(|a| g(0).map(|g| matrix(g) * Tensor::composite1(Cofactors, &[&a])))),
            SlogDet => one(g(1).map(|g| Ok::<_, Error>(matrix(g) * args.input(0)?.inv().mt())).transpose()?),
            Cofactors => {
                let (Some(g), a, c) = (g(0), args.input(0)?, args.output(0)?) else { return one(None) };
                let t = a.inv().mt();
                let along = (g * &t).sum_keepdim([-2, -1]) * c;
                one(Some(along - matrix(&a.det()) * t.matmul(g.mt()).matmul(&t)))
            }
            Inv => {
                let y = args.output(0)?.mt();
                one(g(0).map(|g| y.matmul(g).matmul(&y).neg()))
            }
            Solve | Triangular { .. } => {
                let (Some(g), a, x) = (g(0), args.input(0)?, args.output(0)?) else { return Ok(smallvec![None, None]) };
                let transposed = match *self {
                    Triangular { upper, unit } => Triangular { upper: !upper, unit },
                    _ => Solve,
                };
                let right = Tensor::composite1(transposed, &[&a.mt(), g]);
                let left = args.needs[0].then(|| right.matmul(x.mt()).neg()).map(|full| match *self {
                    Triangular { upper: true, unit } => full.triu(unit as isize),
                    Triangular { upper: false, unit } => full.tril(-(unit as isize)),
                    _ => full,
                });
                Ok(smallvec![left, Some(right)])
            }
            Cholesky => {
                let (Some(g), l) = (g(0), args.output(0)?) else { return one(None) };
                let half = half_diagonal(&l.mt().matmul(g).tril(0));
                let across = |b: &Tensor| Tensor::composite1(Triangular { upper: true, unit: false }, &[&l.mt(), b]);
                let full = across(&across(&half).mt());
                one(Some((&full + full.mt()) * 0.5))
            }
            Qr => one(Some(qr_rule(args.output(0)?, args.output(1)?, g(0), g(1)))),
            Eigh => {
                let (values, v) = (args.output(0)?, args.output(1)?);
                let mut inner = g(0).map(|g| g.diag_embed(0, -2, -1));
                if let Some(g) = g(1) {
                    let part = v.mt().matmul(g) * inverse_gaps(values);
                    inner = Some(inner.map_or(part.clone(), |i| i + part));
                }
                one(inner.map(|i| v.matmul(i).matmul(v.mt())))
            }
            Svd => one(svd_rule(args.output(0)?, args.output(1)?, args.output(2)?, g(0), g(1), g(2))),
            Eigenvalues => {
                let Some(g) = g(0) else { return one(None) };
                let (_, v) = args.input(0)?.eigh();
                one(Some((&v * g.unsqueeze(-2)).matmul(v.mt())))
            }
            SingularValues => {
                let Some(g) = g(0) else { return one(None) };
                let (u, _, vt) = args.input(0)?.svd();
                one(Some((u * g.unsqueeze(-2)).matmul(vt)))
            }
            Pinv { .. } => {
                let (Some(g), a, p) = (g(0), args.input(0)?, args.output(0)?) else { return one(None) };
                one(Some(pinv_rule(a, p, g)))
            }
        }
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(*self, inputs, examples)
    }
}

/// The diagonal halved.
fn half_diagonal(x: &Tensor) -> Tensor {
    x - x.diagonal(0, -2, -1).diag_embed(0, -2, -1) * 0.5
}
/// `1 / (values[j] - values[i])` off the diagonal, 0 on it.
fn inverse_gaps(values: &Tensor) -> Tensor {
    let gaps = values.unsqueeze(-2) - values.unsqueeze(-1);
    let like = gaps.detach().zeros_like();
    let rank = like.rank();
    let diagonal = like.iota_like(rank - 2, DType::I64).eq(like.iota_like(rank - 1, DType::I64));
    diagonal.where_(0.0, diagonal.where_(1.0, gaps).reciprocal())
}
fn qr_rule(q: &Tensor, r: &Tensor, gq: Option<&Tensor>, gr: Option<&Tensor>) -> Tensor {
    let (rows, columns) = (r.meta().shape[r.rank() - 2], r.meta().shape[r.rank() - 1]);
    let zeros = |like: &Tensor| like.detach().zeros_like();
    let (gq, gr) = (gq.cloned().unwrap_or_else(|| zeros(q)), gr.cloned().unwrap_or_else(|| zeros(r)));
    if columns > rows {
        // A = [X Y], R = [U V] with X = Q U and V = Qᵀ Y.
        let (u, gu) = (r.narrow(-1, 0, rows), gr.narrow(-1, 0, rows));
        let gv = gr.narrow(-1, rows, columns - rows);
        let y = q.matmul(r.narrow(-1, rows, columns - rows));
        let gx = qr_rule(q, &u, Some(&(gq + y.matmul(gv.mt()))), Some(&gu));
        return Tensor::cat(&[gx, q.matmul(gv)], -1);
    }
    let m = (gr.matmul(r.mt()) - q.mt().matmul(&gq)).triu(0);
    let symmetric = &m + m.triu(1).mt();
    let inner = gq + q.matmul(symmetric);
    // inner R^-T, from R X = innerᵀ.
    Tensor::composite1(Triangular { upper: true, unit: false }, &[r, &inner.mt()]).mt()
}
fn svd_rule(u: &Tensor, s: &Tensor, vt: &Tensor, gu: Option<&Tensor>, gs: Option<&Tensor>, gvt: Option<&Tensor>) -> Option<Tensor> {
    let skew = |x: Tensor| &x - x.mt();
    let (row, column) = (s.unsqueeze(-2), s.unsqueeze(-1));
    let inverse = inverse_gaps(&s.square());
    let mut terms = Vec::new();
    let around = |inner: Tensor| u.matmul(inner).matmul(vt);
    if let Some(g) = gs {
        terms.push(around(g.diag_embed(0, -2, -1)));
    }
    if let Some(g) = gu {
        let part = u.mt().matmul(g);
        terms.push(around(skew(part.clone()) * &inverse * &row));
        if u.meta().shape[u.rank() - 2] > s.meta().shape[s.rank() - 1] {
            terms.push(((g - u.matmul(part)) / &row).matmul(vt));
        }
    }
    if let Some(g) = gvt {
        let part = vt.matmul(g.mt());
        terms.push(around(skew(part.clone()) * &inverse * &column));
        if vt.meta().shape[vt.rank() - 1] > s.meta().shape[s.rank() - 1] {
            terms.push(u.matmul((g - part.mt().matmul(vt)) / &column));
        }
    }
    terms.into_iter().reduce(|a, b| a + b)
}
/// Golub and Pereyra, 1973: `-(p g̃ p)ᵀ` and the two terms outside the ranges of a and p.
fn pinv_rule(a: &Tensor, p: &Tensor, g: &Tensor) -> Tensor {
    let (pt, gt) = (p.mt(), g.mt());
    let inside = pt.matmul(g).matmul(&pt).neg();
    let rows = (&gt - a.matmul(p.matmul(&gt))).matmul(p.matmul(&pt));
    let columns = pt.matmul(p).matmul(&gt - gt.matmul(p).matmul(a));
    inside + rows + columns
}
