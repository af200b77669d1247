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
for name, case in CASES.items():
    result = case()
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    shapes = " ".join(",".join(map(str, t.shape)) or "." for t in result)
    values = " ".join(repr(float(value)) for t in result for value in t.reshape(-1).tolist())
    print(f"{name} | {shapes} | {values}")
