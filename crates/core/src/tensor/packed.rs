//! Composites whose results are factors in LAPACK's packed forms, with pivots (i32) beside them, and functions that are left
//! when something is wrong with a matrix of a batch and say so by a number. As those of `decompose` they are defined on the host,
//! and their gradients are tensor code.
use super::{
    Tensor,
    decompose::Factor,
    dense::{self, Matrix},
};
use crate::{
    Attr, Attrs, Composite, Compound, DType, Error, ErrorKind, HostArray, Result, Shape, TensorType, Types,
    composite::{Cotangents, Given, RuleArgs, Saves, StackedInput, of_stacks},
};
use smallvec::{SmallVec, smallvec};

/// A factorization of matrices or batches of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PackedFactor {
    /// a `[.., m, n]` → both factors, pivots `[.., k]`, the order of rows `[.., m]` (i64), info `[..]`. `checked`: a zero pivot is
    /// an error.
    Lu { checked: bool },
    /// pivots `[.., k]` of a matrix of so many rows → the order of rows `[.., m]`
    Order { rows: usize },
    /// a → the factors of a symmetric matrix, pivots `[.., n]`, info
    Ldl { checked: bool },
    /// factors, pivots, b → x
    LdlSolve,
    /// a → R with the reflections' vectors below, their factors `[.., k]`
    Reflections,
    /// a → exp(a)
    Exponential,
    /// a → the positive definite x with x x = a
    Root,
    /// a → eigenvalues `[.., n, 2]`, eigenvectors `[.., n, n, 2]`
    Eig,
    /// a → a^-1, info
    InvEx,
    /// a, b → a^-1 b, info
    SolveEx,
    /// a → the lower factor, info
    CholeskyEx,
}
use PackedFactor::*;

/// What one output is: its axes after those of the batch, and its dtype if it is not the input's.
type OutputSpec = (SmallVec<[usize; 3]>, Option<DType>);

impl PackedFactor {
    fn outputs(self, inputs: &[Shape], lead: usize) -> Vec<OutputSpec> {
        let tail = &inputs[0][lead..];
        let (m, n) = (tail[0], tail.last().copied().unwrap_or(1));
        let info = || (smallvec![], Some(DType::I32));
        let same = || (smallvec![m, n], None);
        match self {
            Lu { .. } => vec![same(), (smallvec![m.min(n)], Some(DType::I32)), (smallvec![m], Some(DType::I64)), info()],
            Order { rows } => vec![(smallvec![rows], Some(DType::I64))],
            Ldl { .. } => vec![same(), (smallvec![n], Some(DType::I32)), info()],
            LdlSolve => vec![(inputs[2][lead..].into(), None)],
            Reflections => vec![same(), (smallvec![m.min(n)], None)],
            Exponential | Root => vec![same()],
            Eig => vec![(smallvec![n, 2], None), (smallvec![n, n, 2], None)],
            InvEx | CholeskyEx => vec![same(), info()],
            SolveEx => vec![(inputs[1][lead..].into(), None), info()],
        }
    }
    /// How many axes of the first input are not the batch's.
    fn own_axes(self) -> usize {
        2 - matches!(self, Order { .. }) as usize
    }
    /// One matrix to its results, whole numbers among them as floats, which hold them exactly.
    fn one(self, inputs: &[Matrix]) -> std::result::Result<Vec<Vec<f64>>, ErrorKind> {
        let stuck = || ErrorKind::Domain("the rotations do not converge; does the matrix hold NaN or infinite elements?".into());
        let a = inputs[0].clone();
        let number = |at: Option<usize>| vec![at.map_or(0.0, |k| (k + 1) as f64)];
        let nothing = |shape: &Matrix| vec![f64::NAN; shape.data.len()];
        let counted = |from: &[usize], by: usize| from.iter().map(|&k| (k + by) as f64).collect::<Vec<f64>>();
        Ok(match self {
            Lu { checked } => {
                let lu = dense::lu(a);
                let at = lu.singular_at();
                if let (true, Some(at)) = (checked, at) {
                    return Err(ErrorKind::Domain(format!("the matrix is singular: pivot {} is zero", at + 1)));
                }
                vec![lu.factors.data, counted(&lu.pivots, 1), counted(&lu.order, 0), number(at)]
            }
            Order { rows } => {
                let mut order: Vec<usize> = (0..rows).collect();
                for (k, &pivot) in a.data.iter().enumerate() {
                    let with = pivot as i64 - 1;
                    if k >= rows || !(0..rows as i64).contains(&with) {
                        return Err(ErrorKind::Domain(format!("pivot {pivot} of {rows} rows, which are counted from 1")));
                    }
                    order.swap(k, with as usize);
                }
                vec![counted(&order, 0)]
            }
            Ldl { checked } => {
                let (factors, pivots, at) = dense::ldl(a);
                if let (true, Some(at)) = (checked, at) {
                    return Err(ErrorKind::Domain(format!("the matrix is singular: block {} of the diagonal is zero", at + 1)));
                }
                vec![factors.data, pivots.into_iter().map(|p| p as f64).collect(), number(at)]
            }
            LdlSolve => {
                let pivots: Vec<i64> = inputs[1].data.iter().map(|&p| p as i64).collect();
                let wrong = || ErrorKind::Domain(format!("{pivots:?} are no pivots of a symmetric factorization"));
                vec![dense::ldl_solve(&a, &pivots, inputs[2].clone()).ok_or_else(wrong)?.data]
            }
            Reflections => {
                let (packed, taus) = dense::reflections(a);
                vec![packed.data, taus]
            }
            Exponential => vec![dense::exponential(&a).map_or_else(|| nothing(&inputs[0]), |e| e.data)],
            Root => {
                let (values, v) = dense::eigh(&a).ok_or_else(stuck)?;
                if let Some(value) = values.iter().find(|&&x| x < 0.0) {
                    return Err(ErrorKind::Domain(format!("the matrix is not positive definite: {value} is an eigenvalue")));
                }
                vec![v.clone().scaled_columns(&values.iter().map(|x| x.sqrt()).collect::<Vec<f64>>()).times(&v.transposed()).data]
            }
            Eig => {
                let (values, vectors) = dense::eig(&a).ok_or_else(stuck)?;
                let flat = |all: Vec<(f64, f64)>| all.into_iter().flat_map(|z| [z.0, z.1]).collect::<Vec<f64>>();
                vec![flat(values), flat(vectors)]
            }
            InvEx | SolveEx => {
                let b = inputs.get(1).cloned().unwrap_or_else(|| Matrix::identity(a.rows));
                let lu = dense::lu(a);
                let at = lu.singular_at();
                vec![if at.is_some() { nothing(&b) } else { lu.solve(&b).data }, number(at)]
            }
            CholeskyEx => match dense::cholesky(&a) {
                Ok(l) => vec![l.data, number(None)],
                Err(order) => vec![nothing(&a), number(Some(order - 1))],
            },
        })
    }
    fn run(self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind> {
        let first = &inputs[0];
        let lead = first.shape.rank() - self.own_axes();
        let batch = first.shape[..lead].iter().product();
        let shapes: Vec<Shape> = inputs.iter().map(|x| x.shape).collect();
        let specs = self.outputs(&shapes, lead);
        let mut out: Vec<Vec<f64>> = vec![Vec::new(); specs.len()];
        for k in 0..batch {
            let of_one = |x: &HostArray| {
                let (rows, columns) = (x.shape[lead], x.shape.get(lead + 1).copied().unwrap_or(1));
                let from = k * rows * columns;
                let get = |at: usize| if x.dtype.is_float() { x.float(at) } else { x.int(at) as f64 };
                Matrix::new(rows, columns, (from..from + rows * columns).map(get).collect())
            };
            for (all, one) in out.iter_mut().zip(self.one(&inputs.iter().map(of_one).collect::<Vec<_>>())?) {
                all.extend(one);
            }
        }
        let array = |((tail, dtype), data): (OutputSpec, Vec<f64>)| {
            let shape = Shape::new(&first.shape[..lead].iter().copied().chain(tail).collect::<SmallVec<[usize; 8]>>())?;
            Ok(match dtype {
                Some(whole) => HostArray::ints(shape, whole, data.into_iter().map(|x| x as i64)),
                None => HostArray::floats(shape, first.dtype, data),
            })
        };
        specs.into_iter().zip(out).map(array).collect()
    }
}

/// The function of a name, with its attributes.
///
/// # Errors
/// Other attributes than its own, or no such function.
pub(crate) fn packed(name: &str, given: &mut Given) -> std::result::Result<PackedFactor, ErrorKind> {
    Ok(match name {
        "adamant.lu" => Lu { checked: given.bool("checked")? },
        "adamant.ldl" => Ldl { checked: given.bool("checked")? },
        "adamant.lu_order" => Order { rows: given.size("rows")? },
        _ => {
            let plain = [LdlSolve, Reflections, Exponential, Root, Eig, InvEx, SolveEx, CholeskyEx];
            plain.into_iter().find(|f| f.name() == name).ok_or_else(|| ErrorKind::Internal(format!("{name} is no factorization")))?
        }
    })
}

impl Composite for PackedFactor {
    fn name(&self) -> &'static str {
        match self {
            Lu { .. } => "adamant.lu",
            Order { .. } => "adamant.lu_order",
            Ldl { .. } => "adamant.ldl",
            LdlSolve => "adamant.ldl_solve",
            Reflections => "adamant.reflections",
            Exponential => "adamant.matrix_exp",
            Root => "adamant.matrix_sqrth",
            Eig => "adamant.eig",
            InvEx => "adamant.inv_ex",
            SolveEx => "adamant.solve_ex",
            CholeskyEx => "adamant.cholesky_ex",
        }
    }
    fn attrs(&self) -> Attrs {
        match *self {
            Lu { checked } | Ldl { checked } => smallvec![("checked", Attr::Bool(checked))],
            Order { rows } => smallvec![("rows", Attr::Int(rows as i64))],
            _ => Attrs::new(),
        }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let a = &inputs[0];
        let (rank, own) = (a.shape.rank(), self.own_axes());
        let right = match self {
            Order { .. } => a.dtype == DType::I32,
            _ => matches!(a.dtype, DType::F32 | DType::F64),
        };
        if !right {
            let wanted = if own == 1 { "pivots are of i32" } else { "matrices are factored in f32 and f64" };
            return Err(ErrorKind::Dtype(format!("{wanted}, not {}", a.dtype)));
        }
        if rank < own {
            return Err(ErrorKind::Shape { shape: a.shape, expected: "a matrix or a batch of them".into() });
        }
        let lead = rank - own;
        if own == 2 && !matches!(self, Lu { .. } | Reflections) && a.shape[lead] != a.shape[lead + 1] {
            return Err(ErrorKind::Shape { shape: a.shape, expected: "a square matrix or a batch of them".into() });
        }
        if let (LdlSolve, Some(p)) = (self, inputs.get(1)) {
            if p.dtype != DType::I32 {
                return Err(ErrorKind::Dtype(format!("pivots are of i32, not {}", p.dtype)));
            }
            if p.shape.rank() != rank - 1 || p.shape[..] != a.shape[..rank - 1] {
                return Err(ErrorKind::ShapeMismatch { left: a.shape, right: p.shape, axes: None, expected: "one pivot for each row" });
            }
        }
        let right_side = match self {
            LdlSolve => inputs.get(2),
            SolveEx => inputs.get(1),
            _ => None,
        };
        if let Some(b) = right_side {
            if b.dtype != a.dtype {
                return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
            }
            if b.shape.rank() != rank || b.shape[..rank - 1] != a.shape[..rank - 1] {
                return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "a right side with as many rows as the matrix" });
            }
        }
        let shapes: Vec<Shape> = inputs.iter().map(|x| x.shape).collect();
        let ty = |(tail, dtype): OutputSpec| {
            let shape = Shape::new(&a.shape[..lead].iter().copied().chain(tail).collect::<SmallVec<[usize; 8]>>())?;
            Ok(TensorType { shape, dtype: dtype.unwrap_or(a.dtype) })
        };
        self.outputs(&shapes, lead).into_iter().map(ty).collect()
    }
    fn is_host(&self) -> bool {
        true
    }
    fn host(&self, inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        Some(self.run(inputs))
    }
}
impl Compound for PackedFactor {
    fn body(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::new(self.name(), ErrorKind::Internal("it is defined on the host".into())))
    }
    fn saves(&self) -> Option<Saves> {
        let (inputs, outputs) = match self {
            Lu { .. } => (0, 0b101),
            Order { .. } | Ldl { .. } | Reflections => (0, 0),
            LdlSolve => (0b11, 0),
            Exponential => (1, 0),
            Eig => (0, 0b11),
            InvEx | CholeskyEx | Root => (0, 1),
            SolveEx => (1, 1),
        };
        Some(Saves { inputs, outputs })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let g = |k: usize| args.cotangents.get(k).and_then(|g| g.as_ref());
        let one = |g: Option<Tensor>| Ok(smallvec![g]);
        let as_checked = |f: Factor| {
            let first = [args.cotangents.first().cloned().flatten()];
            f.rule(&RuleArgs { cotangents: &first, ..*args })
        };
        match self {
            Lu { .. } => match g(0) {
                Some(g) => one(Some(lu_rule(args.output(0)?, args.output(2)?, g))),
                None => one(None),
            },
            Order { .. } => one(None),
            Ldl { .. } | Reflections => {
                let why = format!("{} has no gradient, as in PyTorch: detach its input, or use `solve` or `qr`", self.name());
                Err(Error::new(self.name(), ErrorKind::Backward(why)))
            }
            Root => match g(0) {
                Some(g) => one(Some(root_rule(args.output(0)?, g))),
                None => one(None),
            },
            LdlSolve => {
                let Some(g) = g(0) else { return Ok(smallvec![None, None, None]) };
                if args.needs[0] {
                    let why = "the gradient goes to the right side alone: detach the factors, or use `solve`";
                    return Err(Error::new(self.name(), ErrorKind::Backward(why.into())));
                }
                let right = Tensor::composite1(LdlSolve, &[args.input(0)?, args.input(1)?, g]);
                Ok(smallvec![None, None, Some(right)])
            }
            Exponential => match g(0) {
                Some(g) => one(Some(exponential_rule(args.input(0)?, g))),
                None => one(None),
            },
            Eig => one(eig_rule(args.output(0)?, args.output(1)?, g(0), g(1))),
            InvEx => as_checked(Factor::Inv),
            SolveEx => as_checked(Factor::Solve),
            CholeskyEx => as_checked(Factor::Cholesky),
        }
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(*self, inputs, examples)
    }
}

/// The unit lower factor `[.., m, k]` and the upper one `[.., k, n]` of what holds both.
pub(super) fn unpacked(both: &Tensor) -> (Tensor, Tensor) {
    let meta = both.meta();
    let (m, n) = (meta.shape[meta.shape.rank() - 2], meta.shape[meta.shape.rank() - 1]);
    let k = m.min(n);
    let lower = both.narrow(-1, 0, k).tril(-1) + Tensor::eye_on(m, k, meta.dtype, meta.device);
    (lower, both.narrow(-2, 0, k).triu(0))
}
/// With A = P L U and M = L₁⁻¹ dA₁ U₁⁻¹, of which the strictly lower part is L₁⁻¹ dL₁ and the rest dU₁ U₁⁻¹ (L₁ and U₁ the square
/// parts), a cotangent of M is what those of the factors are in these parts.
fn lu_rule(both: &Tensor, order: &Tensor, g: &Tensor) -> Tensor {
    let shape = both.meta().shape;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let k = m.min(n);
    let (lower, upper) = unpacked(both);
    let (gl, gu) = (g.narrow(-1, 0, k).tril(-1), g.narrow(-2, 0, k).triu(0));
    let (l1, u1) = (lower.narrow(-2, 0, k), upper.narrow(-1, 0, k));
    let from_left = |x: &Tensor| Tensor::composite1(Factor::Triangular { upper: true, unit: true }, &[&l1.mt(), x]);
    let from_right = |x: &Tensor| Tensor::composite1(Factor::Triangular { upper: true, unit: false }, &[&u1, &x.mt()]).mt();
    let mut of_lower = l1.mt().matmul(gl.narrow(-2, 0, k));
    let mut of_upper = gu.narrow(-1, 0, k).matmul(u1.mt());
    let mut rest = None;
    if m > k {
        let (l2, gl2) = (lower.narrow(-2, k, m - k), gl.narrow(-2, k, m - k));
        of_upper = of_upper - l2.mt().matmul(&gl2);
        rest = Some((from_right(&gl2), -2));
    } else if n > k {
        let (u2, gu2) = (upper.narrow(-1, k, n - k), gu.narrow(-1, k, n - k));
        of_lower = of_lower - gu2.matmul(u2.mt());
        rest = Some((from_left(&gu2), -1));
    }
    let square = from_right(&from_left(&(of_lower.tril(-1) + of_upper.triu(0))));
    let whole = match rest {
        Some((rest, axis)) => Tensor::cat(&[square, rest], axis),
        None => square,
    };
    whole.take_along_dim(&order.argsort(-1, false).unsqueeze(-1), -2)
}
/// The derivative of exp at aᵀ along g, which is the upper right block of exp [[aᵀ, g], [0, aᵀ]] (Mathias, "A chain rule for matrix
/// functions and applications", 1996).
fn exponential_rule(a: &Tensor, g: &Tensor) -> Tensor {
    let (t, n) = (a.mt(), a.meta().shape.last().copied().unwrap_or(0));
    let top = Tensor::cat(&[&t, g], -1);
    let bottom = Tensor::cat(&[&t.zeros_like(), &t], -1);
    Tensor::composite1(Exponential, &[&Tensor::cat(&[top, bottom], -2)]).narrow(-2, 0, n).narrow(-1, n, n)
}
/// From x dx + dx x = da, in the basis in which x is diagonal.
fn root_rule(x: &Tensor, g: &Tensor) -> Tensor {
    let (values, v) = x.eigh();
    let sums = values.unsqueeze(-1) + values.unsqueeze(-2);
    let symmetric = (g + g.mt()) * 0.5;
    v.matmul(v.mt().matmul(symmetric).matmul(&v) / sums).matmul(v.mt())
}
/// Products of complex matrices `[.., m, n, 2]`.
fn complex_matmul(a: &Tensor, b: &Tensor) -> Tensor {
    let ((ar, ai), (br, bi)) = ((a.real(), a.imag()), (b.real(), b.imag()));
    Tensor::complex(&(ar.matmul(&br) - ai.matmul(&bi)), &(ar.matmul(bi) + ai.matmul(br)))
}
/// The conjugate transpose.
fn complex_adjoint(a: &Tensor) -> Tensor {
    a.conj().transpose(-3, -2)
}
/// x with a x = b, of complex matrices: as one of real ones of twice the size.
fn complex_solve(a: &Tensor, b: &Tensor) -> Tensor {
    let (re, im) = (a.real(), a.imag());
    let n = re.meta().shape.last().copied().unwrap_or(0);
    let whole = Tensor::cat(&[Tensor::cat(&[&re, &im.neg()], -1), Tensor::cat(&[&im, &re], -1)], -2);
    let x = Tensor::composite1(Factor::Solve, &[&whole, &Tensor::cat(&[b.real(), b.imag()], -2)]);
    Tensor::complex(&x.narrow(-2, 0, n), &x.narrow(-2, n, n))
}
/// V⁻ᴴ (diag(gλ) + (Vᴴ gV - VᴴV Re diag(Vᴴ gV)) / E) Vᴴ with E the conjugates of λⱼ - λᵢ, of vectors whose length does not change
/// (Boeddeker et al., "On the computation of complex-valued gradients with application to statistically optimum beamforming",
/// 2017; PyTorch's `linalg_eig_backward`). Of a real matrix the real part.
fn eig_rule(values: &Tensor, v: &Tensor, gl: Option<&Tensor>, gv: Option<&Tensor>) -> Option<Tensor> {
    let vh = complex_adjoint(v);
    let diagonal = |g: &Tensor| Tensor::complex(&g.real().diag_embed(0, -2, -1), &g.imag().diag_embed(0, -2, -1));
    let mut inner = gl.map(diagonal);
    if let Some(g) = gv {
        let part = complex_matmul(&vh, g);
        let along = part.real().diagonal(0, -2, -1).unsqueeze(-2).unsqueeze(-1);
        let part = part - complex_matmul(&vh, &(v * along));
        let gaps = values.unsqueeze(-3) - values.unsqueeze(-2);
        let n = values.meta().shape[values.rank() - 2];
        let own = Tensor::eye_on(n, n, DType::Bool, values.meta().device);
        // part / conj(gap) = part · gap / |gap|².
        let square = own.where_(1.0, gaps.square().sum(-1));
        let quotient = part.complex_mul(&gaps) / square.unsqueeze(-1);
        let quotient = own.unsqueeze(-1).where_(0.0, quotient);
        inner = Some(inner.map_or(quotient.clone(), |i| i + quotient));
    }
    inner.map(|i| complex_solve(&vh, &complex_matmul(&i, &vh)).real())
}
