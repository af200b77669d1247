"""What PyTorch gives for the cases of `crates/core/tests/factors.rs`, a line each: name | shapes | values | gradient.

    VENV/bin/python crates/core/tests/python/factors.py > crates/core/tests/factors.txt

Inputs are made by the same rule in both languages (`made`). The gradient is that of the sum of all float results, each times
`made(31 + k)`, by the first input; empty where PyTorch has none.
"""

import torch

torch.set_default_dtype(torch.float64)


def made(seed, *shape):
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * 7919 + seed * 104729) % 1009 - 504) / 100 for i in range(n)]).reshape(shape)


def whole(seed, *shape):
    return (made(seed, *shape) * 100).to(torch.int64) % 7


square = made(13, 2, 3, 3) + 4 * torch.eye(3)
# Products: `made` alone is linear in the places, and a matrix of it of rank two.
tall, wide = made(21, 2, 5, 3) * made(41, 2, 5, 3) / 5, made(22, 2, 3, 5) * made(42, 2, 3, 5) / 5
symmetric = made(23, 2, 5, 5) * made(23, 2, 5, 5).mT / 5
nine = made(23, 9, 9) * made(23, 9, 9).mT / 5
zeros_first = torch.tensor([[0.0, 2.0, 1.0, 0.5], [2.0, 0.0, 3.0, 1.0], [1.0, 3.0, 0.0, 4.0], [0.5, 1.0, 4.0, 0.0]])
spd = symmetric @ symmetric.mT + torch.eye(5)
singular = torch.stack([square[0], torch.ones(3, 3)])
b, tau = made(14, 2, 3, 2), made(24, 2, 3) / 5
L = torch.linalg


def unsymmetric(values):
    return torch.stack([values.real.sum(-1), (values**2).real.sum(-1), (values.abs() ** 2).sum(-1)])


def eig(a):
    values, vectors = L.eig(a)
    return unsymmetric(values), (vectors.abs() ** 2 * values.real.unsqueeze(-2)).sum(-1)


def svd_full(a):
    u, s, vt = L.svd(a.detach())
    k = s.shape[-1]
    return u[..., k:] @ u[..., k:].mT, vt[..., k:, :].mT @ vt[..., k:, :], s


CASES = {
    "lu square": (square, L.lu), "lu tall": (tall, L.lu), "lu wide": (wide, L.lu), "lu singular": (singular, lambda a: L.lu(a.detach())),
    "lu_factor": (square, L.lu_factor), "lu_factor tall": (tall, L.lu_factor), "lu_factor wide": (wide, L.lu_factor),
    "lu_factor_ex": (singular, lambda a: L.lu_factor_ex(a.detach())),
    "lu_unpack": (square, lambda a: torch.lu_unpack(*L.lu_factor(a))),
    "lu_solve": (square, lambda a: L.lu_solve(*L.lu_factor(a), b)),
    "lu_solve adjoint": (square, lambda a: L.lu_solve(*L.lu_factor(a), b, adjoint=True)),
    "lu_solve b": (b, lambda b: L.lu_solve(*L.lu_factor(square), b)),
    "ldl_factor": (symmetric, lambda a: (lambda ld, p: (ld.tril(), p))(*L.ldl_factor(a.detach()))),
    "ldl_factor zeros": (zeros_first, lambda a: (lambda ld, p: (ld.tril(), p))(*L.ldl_factor(a.detach()))),
    "ldl_factor_ex": (torch.zeros(2, 2), lambda a: L.ldl_factor_ex(a)[2]),
    "ldl_solve": (made(25, 2, 5, 2), lambda b: L.ldl_solve(*L.ldl_factor(symmetric), b)),
    "ldl_solve zeros": (made(25, 4, 2), lambda b: L.ldl_solve(*L.ldl_factor(zeros_first), b)),
    "inv_ex": (square, L.inv_ex), "inv_ex singular": (singular, lambda a: L.inv_ex(a.detach())[1]),
    "solve_ex": (square, lambda a: L.solve_ex(a, b)), "solve_ex singular": (singular, lambda a: L.solve_ex(a.detach(), b)[1]),
    "cholesky_ex": (symmetric, lambda a: L.cholesky_ex(a @ a.mT + torch.eye(5))),
    "cholesky_ex upper": (symmetric, lambda a: L.cholesky_ex(a @ a.mT + torch.eye(5), upper=True)),
    "cholesky_ex indefinite": (symmetric, lambda a: L.cholesky_ex(a.detach())[1]),
    "matrix_exp": (square, lambda a: L.matrix_exp(a / 4)), "matrix_exp large": (square, lambda a: L.matrix_exp(a * 2)),
    "matrix_exp one": (made(26, 1, 1), L.matrix_exp),
    "matrix_sqrth": (symmetric, lambda a: L.matrix_sqrth(a @ a.mT + torch.eye(5))),
    "householder_product": (tall / 4, lambda a: L.householder_product(a, tau)), "householder_product tau": (tau, lambda t: L.householder_product(tall / 4, t)),
    "geqrf": (tall, lambda a: torch.geqrf(a.detach())), "geqrf wide": (wide, lambda a: torch.geqrf(a.detach())),
    "ormqr": (made(27, 2, 5, 4), lambda c: torch.ormqr(tall / 4, tau, c)),
    "ormqr transposed": (made(27, 2, 5, 4), lambda c: torch.ormqr(tall / 4, tau, c, transpose=True)),
    "ormqr right": (made(27, 2, 4, 5), lambda c: torch.ormqr(tall / 4, tau, c, left=False)),
    "ormqr right transposed": (made(27, 2, 4, 5), lambda c: torch.ormqr(tall / 4, tau, c, left=False, transpose=True)),
    "ormqr vectors": (tall / 4, lambda a: torch.ormqr(a, tau, made(27, 2, 5, 4))),
    "qr complete": (tall, lambda a: L.qr(a.detach(), mode="complete")), "qr complete wide": (wide, lambda a: L.qr(a, mode="complete")),
    "qr r": (tall, lambda a: L.qr(a.detach(), mode="r")[1]),
    "svd_full": (tall, svd_full), "svd_full wide": (wide, svd_full),
    "eigvals": (made(28, 2, 5, 5) * made(48, 2, 5, 5) / 5, lambda a: unsymmetric(L.eigvals(a))), "eig": (made(28, 2, 5, 5) * made(48, 2, 5, 5) / 5, eig), "eig real": (square + torch.diag(torch.tensor([20.0, 40.0, 60.0])), eig),
    "eig large": (made(29, 12, 12) * made(49, 12, 12) / 5, eig), "eig one": (made(29, 1, 1), eig),
    "lobpcg": (nine, lambda a: L.eigvalsh(a).flip(-1)[:2]),
    "lobpcg smallest": (nine, lambda a: L.eigvalsh(a)[:3]),
    "svd_lowrank": (tall, lambda a: L.svdvals(a)), "pca_lowrank": (tall, lambda a: L.svdvals(a - a.mean(-2, keepdim=True))),
    "frexp": (torch.tensor([0.0, -0.0, 1.0, -8.0, 0.3, 1e-310, 1.7e308, 0.99999999999999989, float("inf"), -3.5]), lambda x: torch.frexp(x.detach())),
    "put": (tall, lambda x: torch.Tensor.put(x, torch.tensor([1, -1, 7]), b.reshape(-1)[:3])), "put added": (tall, lambda x: torch.Tensor.put(x, torch.tensor([1, -1, 1]), b.reshape(-1)[:3], accumulate=True)),
    "put source": (b.reshape(-1)[:3].clone(), lambda s: torch.Tensor.put(tall, torch.tensor([1, -1, 7]), s)),
    "fill_diagonal": (made(27, 3, 5), lambda x: x.clone().fill_diagonal_(2.5)), "fill_diagonal tall": (made(27, 8, 3), lambda x: x.clone().fill_diagonal_(2.5)),
    "fill_diagonal wrap": (made(27, 8, 3), lambda x: x.clone().fill_diagonal_(2.5, wrap=True)), "fill_diagonal cube": (made(27, 3, 3, 3), lambda x: x.clone().fill_diagonal_(2.5)),
    "sum_to_size": (tall, lambda x: x.sum_to_size(5, 1)), "sum_to_size same": (tall, lambda x: x.sum_to_size(2, 5, 3)), "sum_to_size one": (tall, lambda x: x.sum_to_size(1)),
    "as_strided": (tall, lambda x: torch.as_strided(x, (3, 4), (2, 3), 1)), 
    # PyTorch's gradient by x is that of the places written, where it is none: only the values are compared.
    "as_strided_scatter": (tall, lambda x: torch.as_strided_scatter(x.detach(), made(27, 2, 3), (2, 3), (10, 2), 3)),
    "as_strided_scatter source": (made(27, 2, 3), lambda s: torch.as_strided_scatter(tall, s, (2, 3), (10, 2), 3)),
    "histogramdd": (made(27, 40, 2), lambda x: torch.histogramdd(x, [torch.tensor([-4.0, -1.0, 0.0, 4.5]), torch.tensor([-5.0, 0.5, 5.0])])[0]),
    "histogramdd weighted": (made(27, 40, 2), lambda x: torch.histogramdd(x, [torch.tensor([-4.0, -1.0, 0.0, 4.5]), torch.tensor([-5.0, 0.5, 5.0])], weight=made(30, 40).abs(), density=True)[0]),
    "multigammaln": (made(27, 6).abs() + 1.5, lambda x: torch.special.multigammaln(x, 3)), "multigammaln 1": (made(27, 6).abs() + 1.5, lambda x: torch.special.multigammaln(x, 1)),
}
POLYNOMIALS = [f"{of}chebyshev_polynomial_{kind}" for of in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
for name in POLYNOMIALS:
    for n in (-1, 0, 1, 2, 5, 9):
        CASES[f"{name} {n}"] = (made(27, 12) / 4, lambda x, name=name, n=n: getattr(torch.special, name)(x.detach(), n))
for name in ("airy_ai", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"):
    CASES[name] = (made(27, 12).abs() + 0.1, lambda x, name=name: getattr(torch.special, name)(x.detach()))
for name, (x, case) in CASES.items():
    x = x.detach().clone().requires_grad_()
    result = case(x)
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    gradient = ""
    if any(t.requires_grad for t in result):
        loss = sum((t * made(31 + k, *t.shape)).sum() for k, t in enumerate(result) if t.is_floating_point() and t.requires_grad)
        try:
            gradient = " ".join(repr(float(v)) for v in torch.autograd.grad(loss, x)[0].reshape(-1).tolist())
        except RuntimeError as e:
            if "not implemented" not in str(e):
                raise
    shapes = " ".join(",".join(map(str, t.shape)) or "." for t in result)
    values = " ".join(repr(float(value)) for t in result for value in t.reshape(-1).tolist())
    print(f"{name} | {shapes} | {values} | {gradient}")
