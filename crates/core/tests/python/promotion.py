"""What PyTorch gives two sides of every pair of dtypes: the tables that `crates/core/tests/promotion.rs` reads.

    VENV/bin/python crates/core/tests/python/promotion.py > crates/core/tests/promotion.txt

One table an op, headed by `#` and its name: a row a left side, a column a right side, a letter the dtype of the result, `-` where PyTorch
refuses. The first table is `torch.result_type`, of tensors with axes, of scalars (tensors without axes) and of numbers; the others
are what the op itself gives for tensors of three elements.
"""

import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
DTYPES = {
    "b": torch.bool, "u": torch.uint8, "c": torch.int8, "s": torch.int16, "S": torch.uint16, "i": torch.int32, "I": torch.uint32,
    "l": torch.int64, "L": torch.uint64, "h": torch.float16, "g": torch.bfloat16, "f": torch.float32, "d": torch.float64,
    "4": torch.float8_e4m3fn, "5": torch.float8_e5m2,
}
LETTERS = {dtype: letter for letter, dtype in DTYPES.items()}
COMMON = "bucilhgfd"


def letter(f, *sides):
    try:
        result = f(*sides)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return "-"
    return LETTERS[result if isinstance(result, torch.dtype) else result.dtype]


def table(name, f, rows, columns):
    print("#", name)
    for row in rows:
        print("".join(letter(f, row, column) for column in columns))


def tensor(name):
    return torch.ones(3).to(DTYPES[name])


vectors = [torch.ones(3).to(dtype) for dtype in DTYPES.values()]
scalars = [torch.ones(()).to(dtype) for dtype in DTYPES.values()]
numbers = [True, 1, 1.5]
everything = vectors + scalars + numbers
table("result_type", torch.result_type, everything, everything)

mask = torch.tensor([True, False, True])
square = lambda t: torch.stack([t] * 3)
OPS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "remainder": torch.remainder, "fmod": torch.fmod,
    "pow": torch.pow, "maximum": torch.maximum, "minimum": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin,
    "atan2": torch.atan2, "hypot": torch.hypot, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2,
    "copysign": torch.copysign, "xlogy": torch.xlogy, "nextafter": torch.nextafter, "ldexp": torch.ldexp,
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor,
    "where": lambda a, b: torch.where(mask, a, b), "clamp_min": lambda a, b: torch.clamp(a, min=b),
    "clamp": lambda a, b: torch.clamp(a, b, b), "cat": lambda a, b: torch.cat([a, b]), "stack": lambda a, b: torch.stack([a, b]),
    "outer": torch.outer, "kron": torch.kron, "addcmul": lambda a, b: torch.addcmul(a, b, b),
    "isclose": torch.isclose, "lerp": lambda a, b: torch.lerp(a, b, 0.5), "cross": torch.linalg.cross,
    "dot": torch.dot, "matmul": lambda a, b: torch.matmul(square(a), square(b)), "linear": lambda a, b: F.linear(square(a), square(b)),
    "heaviside": torch.heaviside, "mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss, "kl_div": F.kl_div, "soft_margin_loss": F.soft_margin_loss, "poisson_nll_loss": F.poisson_nll_loss,
    "binary_cross_entropy": F.binary_cross_entropy, "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, dim=0), "pairwise_distance": lambda a, b: F.pairwise_distance(square(a), square(b)),
    "index_put": lambda a, b: a.index_put((torch.tensor([0, 1, 2]),), b), "scatter": lambda a, b: a.scatter(0, torch.tensor([0, 1, 2]), b),
    "addmm": lambda a, b: torch.addmm(square(a), square(a), square(b)), "addmm_added": lambda a, b: torch.addmm(a, square(b), square(b)),
    "addmv": lambda a, b: torch.addmv(a, square(b), b), "baddbmm": lambda a, b: torch.baddbmm(square(a)[None], square(b)[None], square(b)[None]),
    "cdist": lambda a, b: torch.cdist(square(a), square(b)), "prelu": lambda a, b: F.prelu(square(a), b),
    "einsum_outer": lambda a, b: torch.einsum("i,j->ij", a, b), "einsum_dot": lambda a, b: torch.einsum("i,i->", a, b),
    "einsum_each": lambda a, b: torch.einsum("i,i->i", a, b),
    "tensordot": lambda a, b: torch.tensordot(a, b, 1), "inner": torch.inner, "isin": torch.isin,
    "searchsorted": lambda a, b: torch.searchsorted(a, b), "bilinear": lambda a, b: F.bilinear(a[None], b[None], square(a)[None]),
    "layer_norm": lambda a, b: F.layer_norm(square(a), (3,), b, b), "rms_norm": lambda a, b: F.rms_norm(square(a), (3,), b),
    "group_norm": lambda a, b: F.group_norm(square(a), 3, b, b), "conv1d": lambda a, b: F.conv1d(a[None, None], b[None, None]),
    "conv1d_bias": lambda a, b: F.conv1d(a[None, None], a[None, None], b[:1]),
    "linear_bias": lambda a, b: F.linear(square(a), square(a), b),
    "attention": lambda a, b: F.scaled_dot_product_attention(square(a)[None], square(b)[None], square(b)[None]),
    "scatter_add": lambda a, b: a.scatter_add(0, torch.tensor([0, 1, 2]), b), "index_add": lambda a, b: a.index_add(0, torch.tensor([0, 1, 2]), b),
    "index_copy": lambda a, b: a.index_copy(0, torch.tensor([0, 1, 2]), b), "masked_scatter": lambda a, b: a.masked_scatter(mask, b),
    "bce_weight": lambda a, b: F.binary_cross_entropy(a, a, b), "bce_logits_pos_weight": lambda a, b: F.binary_cross_entropy_with_logits(a, a, pos_weight=b),
    "cosine_embedding_loss": lambda a, b: F.cosine_embedding_loss(square(a), square(b), torch.ones(3)),
    "margin_ranking_loss": lambda a, b: F.margin_ranking_loss(a, b, torch.ones(3)),
    "triplet_margin_loss": lambda a, b: F.triplet_margin_loss(square(a), square(b), square(b)),
    "hinge_embedding_loss": F.hinge_embedding_loss, "gaussian_nll_loss": lambda a, b: F.gaussian_nll_loss(a, b, a),
    "multilabel_soft_margin_loss": lambda a, b: F.multilabel_soft_margin_loss(square(a), square(b)),
    "gcd": torch.gcd, "floor_divide": torch.floor_divide, "dist": torch.dist,
}
for name, op in OPS.items():
    table(name, op, [tensor(c) for c in COMMON], [tensor(c) for c in COMMON])
