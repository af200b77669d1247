"""What PyTorch gives for the cases of `crates/core/tests/names.rs`, a line each: name | shapes | values.

    VENV/bin/python crates/core/tests/python/names.py > crates/core/tests/names.txt

Inputs are made by the same rule in both languages (`made`), so that only answers are stored.
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


x, y, z = made(1, 3, 5), made(2, 3, 5), made(3, 4, 5)
v, w, cube = made(4, 6), made(5, 6), made(6, 2, 4, 6)
points = torch.cumsum(made(7, 5).abs() + 0.1, 0)
edges = torch.tensor([-4.0, -1.5, 0.0, 0.25, 3.0])
CASES = {
    "max": lambda: x.max(), "min": lambda: x.min(),
    "type_as": lambda: x.long().type_as(y),
    "diagflat": lambda: torch.diagflat(made(8, 2, 2)), "diagflat_off": lambda: torch.diagflat(v, -2),
    "inner": lambda: torch.inner(x, z), "inner_vector": lambda: torch.inner(v, w), "inner_scalar": lambda: torch.inner(x, v[0]),
    "dist": lambda: torch.dist(x, y), "dist_1": lambda: torch.dist(x, y, 1), "dist_inf": lambda: torch.dist(x, y[0], float("inf")),
    "dist_half": lambda: torch.dist(x, y, 0.5),
    "trapezoid": lambda: torch.trapezoid(x, dx=0.5), "trapezoid_0": lambda: torch.trapezoid(x, dim=0),
    "trapezoid_points": lambda: torch.trapezoid(x, points), "trapezoid_wide_points": lambda: torch.trapezoid(x, y.cumsum(0), dim=0),
    "trapezoid_one": lambda: torch.trapezoid(x[:, :1], dx=2.0),
    "trapezoid_int": lambda: torch.trapezoid(whole(1, 3, 5), dx=2.0),
    "cumulative_trapezoid": lambda: torch.cumulative_trapezoid(x, dx=0.5, dim=1),
    "cumulative_trapezoid_points": lambda: torch.cumulative_trapezoid(x, points),
    "gradient": lambda: torch.gradient(x, spacing=0.5, dim=1)[0], "gradient_0": lambda: torch.gradient(x, dim=0)[0],
    "gradient_2": lambda: torch.gradient(x, spacing=2.0, dim=1, edge_order=2)[0],
    "gradient_points": lambda: torch.gradient(x, spacing=(points,), dim=1)[0],
    "gradient_points_2": lambda: torch.gradient(x, spacing=(points,), dim=1, edge_order=2)[0],
    "gradient_short": lambda: torch.gradient(x[:, :2], dim=1)[0],
    "column_stack": lambda: torch.column_stack([v[:3], x, w[3:]]), "column_stack_scalars": lambda: torch.column_stack([v[0], w[1]]),
    "hsplit": lambda: torch.hsplit(cube, 2), "hsplit_vector": lambda: torch.hsplit(v, 3), "vsplit": lambda: torch.vsplit(cube, 2),
    "dsplit": lambda: torch.dsplit(cube, 3), "broadcast_tensors": lambda: torch.broadcast_tensors(x, points, x[:, :1]),
    "cartesian_prod": lambda: torch.cartesian_prod(v[:3], w[:2], v[4:]), "cartesian_prod_one": lambda: torch.cartesian_prod(v),
    "combinations": lambda: torch.combinations(v, 3), "combinations_again": lambda: torch.combinations(v[:4], 3, True),
    "combinations_few": lambda: torch.combinations(v[:2], 3), "combinations_1": lambda: torch.combinations(v, 1),
    "cov": lambda: torch.cov(x), "cov_0": lambda: torch.cov(x, correction=0), "cov_vector": lambda: torch.cov(v),
    "cov_f": lambda: torch.cov(x, fweights=whole(9, 5) + 1), "cov_a": lambda: torch.cov(x, aweights=points),
    "cov_fa": lambda: torch.cov(x, correction=2, fweights=whole(9, 5) + 1, aweights=points),
    "corrcoef": lambda: torch.corrcoef(x), "corrcoef_vector": lambda: torch.corrcoef(v),
    "histogram": lambda: torch.histogram(cube, edges)[0], "histogram_w": lambda: torch.histogram(x, edges, weight=y)[0],
    "histogram_d": lambda: torch.histogram(cube, edges, density=True)[0],
    "isin": lambda: torch.isin(whole(1, 3, 5), whole(2, 2, 2)), "isin_mixed": lambda: torch.isin(whole(1, 3, 5), edges.round()),
    "reshape_as": lambda: x.reshape_as(made(1, 5, 3)), "expand_as": lambda: x[:, :1].expand_as(y),
}
c = torch.view_as_complex(made(12, 3, 4, 5, 2))
NORMS = {"backward": "Backward", "ortho": "Ortho", "forward": "Forward"}
for norm in NORMS:
    CASES |= {
        f"fftn {norm}": lambda norm=norm: torch.fft.fftn(c, norm=norm),
        f"fftn axes {norm}": lambda norm=norm: torch.fft.fftn(c, dim=(2, 0), norm=norm),
        f"fftn sizes {norm}": lambda norm=norm: torch.fft.fftn(c, s=(3, 6), norm=norm),
        f"ifftn {norm}": lambda norm=norm: torch.fft.ifftn(c, s=(2, 7), dim=(-1, 0), norm=norm),
        f"rfftn {norm}": lambda norm=norm: torch.fft.rfftn(cube, norm=norm),
        f"rfftn axes {norm}": lambda norm=norm: torch.fft.rfftn(cube, s=(5, 3), dim=(2, 1), norm=norm),
        f"irfftn {norm}": lambda norm=norm: torch.fft.irfftn(c, norm=norm),
        f"irfftn sizes {norm}": lambda norm=norm: torch.fft.irfftn(c, s=(4, 7), dim=(0, 2), norm=norm),
        f"fft2 {norm}": lambda norm=norm: torch.fft.fft2(c, norm=norm), f"ifft2 {norm}": lambda norm=norm: torch.fft.ifft2(c, norm=norm),
        f"rfft2 {norm}": lambda norm=norm: torch.fft.rfft2(cube, norm=norm),
        f"hfft {norm}": lambda norm=norm: torch.fft.hfft(c, norm=norm),
        f"hfft 7 {norm}": lambda norm=norm: torch.fft.hfft(c, n=7, dim=1, norm=norm),
        f"ihfft {norm}": lambda norm=norm: torch.fft.ihfft(cube, norm=norm),
        f"ihfft 5 {norm}": lambda norm=norm: torch.fft.ihfft(cube, n=5, dim=1, norm=norm),
    }
CASES |= {
    "fftshift": lambda: torch.fft.fftshift(cube), "fftshift axes": lambda: torch.fft.fftshift(x, dim=(1,)),
    "ifftshift": lambda: torch.fft.ifftshift(x), "fftfreq 5": lambda: torch.fft.fftfreq(5, 0.25), "fftfreq 8": lambda: torch.fft.fftfreq(8),
    "rfftfreq 5": lambda: torch.fft.rfftfreq(5, 0.25), "rfftfreq 8": lambda: torch.fft.rfftfreq(8),
    "polar": lambda: torch.polar(x.abs(), y), "angle": lambda: c.angle(), "conj": lambda: c.conj().resolve_conj(), "complex_mul": lambda: c * c[1],
    "complex": lambda: torch.complex(x, y),
}
for norm in NORMS:
    CASES |= {
        f"hfftn {norm}": lambda norm=norm: torch.fft.hfftn(c, s=(4, 6), dim=(0, 2), norm=norm),
        f"ihfftn {norm}": lambda norm=norm: torch.fft.ihfftn(cube, dim=(0, 2), norm=norm),
        f"hfft2 {norm}": lambda norm=norm: torch.fft.hfft2(c, norm=norm), f"ihfft2 {norm}": lambda norm=norm: torch.fft.ihfft2(cube, norm=norm),
    }
a, b = made(13, 2, 3, 3) + 4 * torch.eye(3), made(14, 2, 3, 2)
spd = a @ a.mT + torch.eye(3)
CASES |= {
    "cholesky_solve": lambda: torch.cholesky_solve(b, torch.linalg.cholesky(spd)),
    "cholesky_solve upper": lambda: torch.cholesky_solve(b, torch.linalg.cholesky(spd).mT, upper=True),
    "cholesky_inverse": lambda: torch.cholesky_inverse(torch.linalg.cholesky(spd)),
    "lstsq tall": lambda: torch.linalg.lstsq(cube[:, :, :3], cube[:, :, 3:]).solution,
    "lstsq wide": lambda: torch.linalg.lstsq(x, z[:3], driver="gelsd").solution,
    "cond": lambda: torch.linalg.cond(a), "cond fro": lambda: torch.linalg.cond(a, "fro"), "cond 1": lambda: torch.linalg.cond(a, 1),
    "cond wide": lambda: torch.linalg.cond(x), "vander": lambda: torch.linalg.vander(x, N=4), "vander 2": lambda: torch.linalg.vander(v, N=2),
    "vecdot": lambda: torch.linalg.vecdot(x, y), "vecdot 0": lambda: torch.linalg.vecdot(x, y[:, :1], dim=0),
    "tensorinv": lambda: torch.linalg.tensorinv((made(15, 24, 24) + 40 * torch.eye(24)).reshape(4, 6, 8, 3), ind=2), "tensorsolve": lambda: torch.linalg.tensorsolve((made(15, 6, 6) + 10 * torch.eye(6)).reshape(2, 3, 6), made(16, 2, 3)),
    "addbmm": lambda: torch.addbmm(made(17, 3, 2), a, b, beta=0.5, alpha=2.0), "addr": lambda: torch.addr(x, v[:3], w[:5], beta=0.5, alpha=2.0),
    "select_scatter": lambda: torch.select_scatter(x, v[:5], 0, -1), "slice_scatter": lambda: torch.slice_scatter(x, y[:, :2], 1, 1, -1, 2),
    "diagonal_scatter": lambda: torch.diagonal_scatter(x, v[:3], 1), "diagonal_scatter batch": lambda: torch.diagonal_scatter(cube, made(18, 4, 2), 2, 0, 2),
    "unravel_index": lambda: torch.unravel_index(whole(1, 3, 5) * 5, (4, 2, 6)), "renorm": lambda: torch.renorm(x, 2, 0, 3.0),
    "renorm 1": lambda: torch.renorm(cube, 1, 1, 20.0), "pdist": lambda: torch.nn.functional.pdist(x), "pdist 1": lambda: torch.nn.functional.pdist(z, 1),
    "float_power": lambda: torch.float_power(x.float().abs(), 1.5), "float_power tensor": lambda: torch.float_power(whole(1, 3, 5), whole(2, 3, 5)),
}
for reduce in ("prod", "mean", "amax", "amin"):
    for own in (True, False):
        CASES[f"{reduce} {own}"] = lambda reduce=reduce, own=own: x.index_reduce(1, torch.tensor([3, 0, 3, 3, 1]), y, reduce, include_self=own)
for n in (1, 2, 7, 8):
    for periodic in (True, False):
        CASES |= {
            f"{kind} {n} {periodic}": lambda kind=kind, n=n, periodic=periodic: getattr(torch, f"{kind}_window")(n, periodic=periodic)
            for kind in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        }
for name, case in CASES.items():
    result = case()
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    result = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in result]
    shapes = " ".join(",".join(map(str, t.shape)) or "." for t in result)
    values = " ".join(repr(float(value)) for t in result for value in t.reshape(-1).tolist())
    print(f"{name} | {shapes} | {values}")
