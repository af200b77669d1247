//! Factors of matrices, what is solved with them, and transforms of several axes. What is anybody's choice (the sign of a
//! vector, the order of complex eigenvalues) is taken out on both sides.
use super::{
    ArgKind::{Any, Flag, Number, Sample, Shaped, Word},
    Seen, TorchFunction, functions,
};
use crate::{
    random::Random,
    registry::{definite, p, v},
};
use adamant_core::{
    DType, Tensor,
    tensor::{FftNorm, Lobpcg, MatrixNorm, QrMode},
};

fn square(_: &Seen, random: &mut Random) -> Vec<usize> {
    let n = random.below(4);
    if random.one_in(3) { vec![random.between(0, 2), n, n] } else { vec![n, n] }
}
fn matrix(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.below(4), random.below(4)]
}
/// Columns for argument 0.
fn columns(seen: &Seen, random: &mut Random) -> Vec<usize> {
    let mut shape = seen.shape(0).to_vec();
    if let Some(last) = shape.last_mut() {
        *last = random.between(1, 3);
    }
    shape
}
fn symmetric(x: &Tensor) -> Tensor {
    (x + x.mt()) * 0.5
}
fn norm(word: &str) -> FftNorm {
    match word {
        "ortho" => FftNorm::Ortho,
        "forward" => FftNorm::Forward,
        _ => FftNorm::Backward,
    }
}
fn matrix_norm(word: &str) -> MatrixNorm {
    match word {
        "fro" => MatrixNorm::Fro,
        "nuc" => MatrixNorm::Nuc,
        number => MatrixNorm::Ord(number.parse().unwrap_or(2.0)),
    }
}
const NORMS: super::ArgKind = Word(&["backward", "ortho", "forward"]);
const ORDERS: super::ArgKind = Word(&["fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"]);

pub(super) fn rows() -> Vec<TorchFunction> {
    let mut all = factors();
    all.extend(solved());
    all.extend(transforms());
    all
}
fn factors() -> Vec<TorchFunction> {
    functions! {
        "Tensor::cholesky_ex" "torch.linalg.cholesky_ex((x[0] + x[0].mT) * 0.5, upper=x[1])" [Sample(definite(&[3, 3])), Flag] |a| symmetric(&a.t(0)).cholesky_ex(a.flag(1)),
        "Tensor::eigh" "(lambda e: (e[0], e[1].square()))(torch.linalg.eigh((x[0] + x[0].mT) * 0.5))" [Sample(definite(&[3, 3]))] |a| {
            let (values, vectors) = symmetric(&a.t(0)).eigh();
            (values, vectors.square())
        },
        "Tensor::eigvalsh" "torch.linalg.eigvalsh((x[0] + x[0].mT) * 0.5)" [Sample(definite(&[3, 3]))] |a| symmetric(&a.t(0)).eigvalsh(),
        "Tensor::eigvalsh" "torch.linalg.eigvalsh((x[0] + x[0].mT) * 0.5)" [Shaped(square)] |a| symmetric(&a.t(0)).eigvalsh(),
        "Tensor::eig" "sizes_of(torch.linalg.eig(finite(x[0] + x[0].triu(1) * 0.25)))" [Sample(definite(&[3, 3]))] |a| {
            let (values, vectors) = (a.t(0) + a.t(0).triu(1) * 0.25).eig();
            let sums = values.real().square().sum(-1) + values.imag().square().sum(-1);
            (sums, (vectors.square().sum(-1) * values.real().unsqueeze(-2)).sum(-1))
        },
        "Tensor::eigvals" "torch.view_as_real(torch.linalg.eigvals(finite(x[0] + x[0].triu(1) * 0.25))).square().sum((-1, -2))" [Sample(definite(&[3, 3]))] |a| {
            (a.t(0) + a.t(0).triu(1) * 0.25).eigvals().square().sum([-1, -2])
        },
        "Tensor::svd" "(lambda s: (s[0].square(), s[1], s[2].square()))(torch.linalg.svd(x[0], full_matrices=False))" [Sample(v(&[3, 2]))] |a| {
            let (u, s, v) = a.t(0).svd();
            (u.square(), s, v.square())
        },
        "Tensor::svd_full" "(lambda s: (s[0].narrow(-1, 0, 2).square(), s[1], s[2].square()))(torch.linalg.svd(x[0]))" [Sample(v(&[3, 2]))] |a| {
            let (u, s, v) = a.t(0).svd_full();
            (u.narrow(-1, 0, 2).square(), s, v.square())
        },
        "Tensor::qr_mode" "torch.linalg.qr(x[0], x[1])" [Sample(v(&[3, 2])), Word(&["reduced", "complete"])] |a| a.t(0).qr_mode(if a.word(1) == "complete" { QrMode::Complete } else { QrMode::Reduced }),
        "Tensor::qr_mode" "torch.linalg.qr(x[0], 'r').R" [Sample(v(&[3, 2]))] |a| a.t(0).qr_mode(QrMode::R).1,
        "Tensor::lu" "torch.linalg.lu(x[0])" [Sample(v(&[2, 3, 4]))] |a| a.t(0).lu(),
        "Tensor::lu" "torch.linalg.lu(x[0])" [Shaped(matrix)] |a| a.t(0).lu(),
        "Tensor::lu_factor" "torch.linalg.lu_factor(x[0])" [Sample(v(&[3, 3]))] |a| a.t(0).lu_factor(),
        "Tensor::lu_factor_ex" "torch.linalg.lu_factor_ex(x[0])" [Shaped(matrix)] |a| a.t(0).lu_factor_ex(),
        "Tensor::lu_unpack" "torch.lu_unpack(*torch.linalg.lu_factor(x[0]))" [Sample(v(&[3, 3]))] |a| {
            let (lu, pivots) = a.t(0).lu_factor();
            lu.lu_unpack(&pivots)
        },
        "Tensor::matrix_exp" "torch.linalg.matrix_exp(x[0])" [Shaped(square)] |a| a.t(0).matrix_exp(),
        "Tensor::matrix_sqrth" "torch.linalg.matrix_sqrth((x[0] + x[0].mT) * 0.5)" [Sample(definite(&[3, 3]))] |a| symmetric(&a.t(0)).matrix_sqrth(),
        "Tensor::lobpcg" "torch.lobpcg((x[0] + x[0].mT) * 0.5, X=x[1], niter=200)[0]" [Sample(definite(&[4, 4])), Sample(v(&[4, 1]))] |a| symmetric(&a.t(0)).lobpcg(&a.t(1), &Lobpcg::default()).0,
        "Tensor::corrcoef" "torch.corrcoef(x[0])" [Any] |a| a.t(0).corrcoef(),
        "Tensor::matrix_norm" "torch.linalg.matrix_norm(x[0], x[1] if x[1] in ('fro', 'nuc') else float(x[1]))" [Any, ORDERS] |a| a.t(0).matrix_norm(matrix_norm(a.word(1))),
        "Tensor::matrix_norm_keepdim" "torch.linalg.matrix_norm(x[0], x[1] if x[1] in ('fro', 'nuc') else float(x[1]), keepdim=True)" [Any, ORDERS] |a| a.t(0).matrix_norm_keepdim(matrix_norm(a.word(1))),
    }
}
fn solved() -> Vec<TorchFunction> {
    functions! {
        "Tensor::cholesky_solve" "torch.cholesky_solve(x[1], torch.linalg.cholesky((x[0] + x[0].mT) * 0.5))" [Sample(definite(&[3, 3])), Sample(v(&[3, 2]))] |a| symmetric(&a.t(0)).cholesky().cholesky_solve(&a.t(1), false),
        "Tensor::cholesky_inverse" "torch.cholesky_inverse(torch.linalg.cholesky((x[0] + x[0].mT) * 0.5))" [Sample(definite(&[3, 3]))] |a| symmetric(&a.t(0)).cholesky().cholesky_inverse(false),
        "Tensor::tensorinv" "torch.linalg.tensorinv(x[0].reshape(2, 2, 4), 2)" [Sample(definite(&[4, 4]))] |a| a.t(0).reshape([2, 2, 4]).tensorinv(2),
        "Tensor::tensorsolve" "torch.linalg.tensorsolve(x[0].reshape(2, 2, 4), x[1])" [Sample(definite(&[4, 4])), Sample(v(&[2, 2]))] |a| a.t(0).reshape([2, 2, 4]).tensorsolve(&a.t(1)),
        "Tensor::lu_solve" "torch.linalg.lu_solve(*torch.linalg.lu_factor(x[0]), x[1], adjoint=x[2])" [Sample(definite(&[3, 3])), Shaped(columns), Flag] |a| {
            let (lu, pivots) = a.t(0).lu_factor();
            lu.lu_solve(&pivots, &a.t(1), a.flag(2))
        },
        "Tensor::ldl_solve" "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x[0].detach()), x[1])" [Sample(definite(&[3, 3])), Shaped(columns)] |a| {
            let (ld, pivots) = a.t(0).detach().ldl_factor();
            ld.ldl_solve(&pivots, &a.t(1))
        },
        "Tensor::matmul_to" "torch.matmul(x[0].float(), x[1].float())" [Shaped(matrix), Shaped(|seen, random| vec![seen.shape(0).last().copied().unwrap_or(1), random.below(4)])] |a| a.t(0).matmul_to(&a.t(1), DType::F32),
        "Tensor::update_slice" "torch.slice_scatter(x[0], x[1], 0, 1, 1 + x[1].shape[0])" [Sample(v(&[5, 2])), Sample(v(&[2, 2]))] |a| a.t(0).update_slice(0, 1, &a.t(1)),
        "Tensor::pad_constant" "F.pad(x[0], (1, 2), value=x[1])" [Any, Number] |a| a.t(0).pad_constant([1, 2], a.number(1)),
        "Tensor::contiguous" "x[0].flip(0).contiguous()" [Any] |a| a.t(0).flip(0).contiguous(),
        "Tensor::ravel" "x[0].flip(-1).ravel()" [Any] |a| a.t(0).flip(-1).ravel(),
    }
}
fn transforms() -> Vec<TorchFunction> {
    functions! {
        "Tensor::irfft2" "torch.fft.irfft2(pairs(x[0]), None, (-2, -1), x[1])" [Sample(v(&[3, 3, 2])), NORMS] |a| a.t(0).irfft2(None, norm(a.word(1))),
        "Tensor::irfftn" "torch.fft.irfftn(pairs(x[0]), (3, 4), (0, 1), x[1])" [Sample(v(&[3, 3, 2])), NORMS] |a| a.t(0).irfftn(&[3, 4], [0, 1], norm(a.word(1))),
        "Tensor::hfftn" "torch.fft.hfftn(pairs(x[0]), None, (0, 1), x[1])" [Sample(v(&[3, 3, 2])), NORMS] |a| a.t(0).hfftn(&[], [0, 1], norm(a.word(1))),
        "Tensor::hfft2" "torch.fft.hfft2(pairs(x[0]), None, (-2, -1), x[1])" [Sample(v(&[3, 3, 2])), NORMS] |a| a.t(0).hfft2(norm(a.word(1))),
        "Tensor::ihfftn" "torch.fft.ihfftn(x[0], None, (0, 1), x[1])" [Sample(v(&[3, 4])), NORMS] |a| a.t(0).ihfftn(&[], [0, 1], norm(a.word(1))),
        "Tensor::ihfft2" "torch.fft.ihfft2(x[0], None, (-2, -1), x[1])" [Sample(v(&[3, 4])), NORMS] |a| a.t(0).ihfft2(norm(a.word(1))),
        "Tensor::stft" "torch.stft(x[0], 4, 2, x[1].shape[0], x[1], center=x[2], normalized=x[3], onesided=True, return_complex=True)" [Sample(v(&[12])), Sample(p(&[4])), Flag, Flag] |a| {
            a.t(0).stft(4, 2, &a.t(1), a.flag(2), if a.flag(3) { FftNorm::Ortho } else { FftNorm::Backward })
        },
        "Tensor::istft" "torch.istft(pairs(x[0]), 4, 2, x[1].shape[0], x[1], normalized=x[2])" [Sample(v(&[3, 4, 2])), Sample(p(&[4])), Flag] |a| {
            a.t(0).istft(4, 2, &a.t(1), None, if a.flag(2) { FftNorm::Ortho } else { FftNorm::Backward })
        },
    }
}
