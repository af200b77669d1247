"""Goldens of torch.distributions for crates/distributions/tests/torch.rs.

Run: python xtask/python/distributions.py > crates/distributions/tests/torch.json
Parameters and values are f32 numbers, so that a test in f32 begins with the same ones; all is computed in f64. Each case:
{"name", "parameters": {..}, "other": {..}, "value", and what PyTorch gives of "log_prob", its gradients "d <parameter>" and
"d value", "cdf", "icdf" (of "probability"), "mean", "variance", "mode", "entropy", "kl"}; what it has not is left out.
"""

import json
import math

import torch
from torch import distributions as D

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def f32(t):
    return t.to(torch.float32).to(torch.float64)


def real(*shape):
    return f32(torch.randn(shape) * 2)


def positive(*shape):
    return f32(torch.exp(torch.randn(shape) * 0.8))


def probability(*shape):
    return f32(torch.rand(shape) * 0.9 + 0.05)


def count(*shape):
    return torch.randint(3, 30, shape).to(torch.float64)


def matrix(*shape):
    a = torch.randn(shape)
    return f32(a @ a.mT + torch.eye(shape[-1]) * 0.5)


def triangle(*shape):
    return f32(torch.linalg.cholesky(matrix(*shape)))


class VonMises(D.VonMises):
    """PyTorch's own Bessel functions here are polynomials good to 1e-7; those of torch.special are exact."""

    def log_prob(self, value):
        k = self.concentration
        return k * (torch.cos(value - self.loc) - 1) - math.log(2 * math.pi) - torch.log(torch.special.i0e(k))

    @property
    def variance(self):
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)


class Weibull(D.Weibull):
    """PyTorch's mode is NaN for a concentration below 1, where the density has its pole at 0."""

    @property
    def mode(self):
        return torch.where(self.concentration < 1, 0.0, super().mode)


class GeneralizedPareto(D.GeneralizedPareto):
    """PyTorch's moments are NaN where the sums are infinite."""

    @property
    def mean(self):
        return torch.where(self.concentration >= 1, math.inf, super().mean)

    @property
    def variance(self):
        return torch.where(self.concentration >= 0.5, math.inf, super().variance)


class ContinuousBernoulli(D.ContinuousBernoulli):
    """PyTorch's variance is a difference of squares of what is near 0 about a half."""

    @property
    def variance(self):
        l = self.logits
        series = 1 / 12 - l**2 / 240 + l**4 / 6048 - l**6 / 172800
        return torch.where(l.abs() < 0.1, series, super().variance)


def each_divergence(p, q):
    """PyTorch's divergence of a batch of Wishart distributions is not that of its elements, which samples confirm."""
    shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    rows = [t.expand(shape + (3, 3)).reshape(-1, 3, 3) for t in (p.scale_tril, q.scale_tril)]
    dfs = [t.expand(shape).reshape(-1) for t in (p.df, q.df)]
    each = [D.kl_divergence(D.Wishart(a, scale_tril=x), D.Wishart(b, scale_tril=y)) for a, b, x, y in zip(*dfs, *rows)]
    return torch.stack(each).reshape(shape)


def temperature(*shape):
    return f32(torch.rand(shape) + 0.5)


def many(*shape):
    return f32(torch.exp(torch.randn(shape) * 0.5) + 3)


def wide(*shape):
    return f32(torch.randn(shape))


def ordered(draw):
    low = draw["low"]
    return {"low": low, "high": f32(low + draw["high"])}


# name, constructor, generators of parameters
FAMILIES = [
    ("Normal", D.Normal, {"loc": real, "scale": positive}),
    ("LogNormal", D.LogNormal, {"loc": real, "scale": positive}),
    ("HalfNormal", D.HalfNormal, {"scale": positive}),
    ("Laplace", D.Laplace, {"loc": real, "scale": positive}),
    ("Cauchy", D.Cauchy, {"loc": real, "scale": positive}),
    ("Gumbel", D.Gumbel, {"loc": real, "scale": positive}),
    ("Uniform", D.Uniform, {"low": real, "high": positive}),
    ("Exponential", D.Exponential, {"rate": positive}),
    ("Weibull", Weibull, {"scale": positive, "concentration": positive}),
    ("Pareto", D.Pareto, {"scale": positive, "alpha": positive}),
    ("Gamma", D.Gamma, {"concentration": positive, "rate": positive}),
    ("Chi2", D.Chi2, {"df": positive}),
    ("Beta", D.Beta, {"concentration1": positive, "concentration0": positive}),
    ("Dirichlet", D.Dirichlet, {"concentration": positive}),
    ("StudentT", D.StudentT, {"df": positive, "loc": real, "scale": positive}),
    ("VonMises", VonMises, {"loc": real, "concentration": positive}),
    ("Bernoulli", D.Bernoulli, {"probs": probability}),
    ("Bernoulli", D.Bernoulli, {"logits": real}),
    ("Geometric", D.Geometric, {"probs": probability}),
    ("Geometric", D.Geometric, {"logits": real}),
    ("Binomial", D.Binomial, {"total_count": count, "probs": probability}),
    ("Binomial", D.Binomial, {"total_count": count, "logits": real}),
    ("Poisson", D.Poisson, {"rate": positive}),
    ("Categorical", D.Categorical, {"probs": positive}),
    ("Categorical", D.Categorical, {"logits": real}),
    ("OneHotCategorical", D.OneHotCategorical, {"probs": positive}),
    ("OneHotCategorical", D.OneHotCategorical, {"logits": real}),
    ("Multinomial", lambda **a: D.Multinomial(7, **a), {"probs": positive}),
    ("Multinomial", lambda **a: D.Multinomial(7, **a), {"logits": real}),
    ("MultivariateNormal", D.MultivariateNormal, {"loc": real, "covariance_matrix": matrix}),
    ("MultivariateNormal", D.MultivariateNormal, {"loc": real, "precision_matrix": matrix}),
    ("MultivariateNormal", D.MultivariateNormal, {"loc": real, "scale_tril": triangle}),
    # Behind the others, so that their numbers stay.
    ("HalfCauchy", D.HalfCauchy, {"scale": positive}),
    ("InverseGamma", D.InverseGamma, {"concentration": positive, "rate": positive}),
    ("Kumaraswamy", D.Kumaraswamy, {"concentration1": positive, "concentration0": positive}),
    ("GeneralizedPareto", GeneralizedPareto, {"loc": real, "scale": positive, "concentration": real}),
    ("FisherSnedecor", D.FisherSnedecor, {"df1": positive, "df2": positive}),
    ("NegativeBinomial", D.NegativeBinomial, {"total_count": positive, "probs": probability}),
    ("NegativeBinomial", D.NegativeBinomial, {"total_count": positive, "logits": real}),
    ("ContinuousBernoulli", ContinuousBernoulli, {"probs": probability}),
    ("ContinuousBernoulli", ContinuousBernoulli, {"logits": real}),
    ("RelaxedBernoulli", D.RelaxedBernoulli, {"temperature": temperature, "probs": probability}),
    ("RelaxedBernoulli", D.RelaxedBernoulli, {"temperature": temperature, "logits": real}),
    ("OneHotCategoricalStraightThrough", D.OneHotCategoricalStraightThrough, {"probs": positive}),
    ("OneHotCategoricalStraightThrough", D.OneHotCategoricalStraightThrough, {"logits": real}),
    ("RelaxedOneHotCategorical", D.RelaxedOneHotCategorical, {"temperature": temperature, "probs": positive}),
    ("RelaxedOneHotCategorical", D.RelaxedOneHotCategorical, {"temperature": temperature, "logits": real}),
    ("LogisticNormal", D.LogisticNormal, {"loc": wide, "scale": positive}),
    ("LowRankMultivariateNormal", D.LowRankMultivariateNormal, {"loc": real, "cov_factor": wide, "cov_diag": temperature}),
    ("LkjCholesky", lambda **a: D.LKJCholesky(3, **a), {"concentration": positive}),
    ("Wishart", D.Wishart, {"df": many, "scale_tril": triangle}),
]
# The shape of the first parameter and that of the others, before an event's axes.
BATCHES = [((), ()), ((3,), (3,)), ((2, 1), (3,))]
# Where ours is another answer: modes at the ends and ties.
SKIP = {"Kumaraswamy": {"mode"}, "Beta": {"mode"}, "Dirichlet": {"mode"}, "Bernoulli": set(), "Multinomial": {"mode", "entropy"}, "Binomial": {"entropy"}, "Categorical": {"mean", "variance"}}


def shape_of(generator, name, batch, parameter):
    if name == "LowRankMultivariateNormal":
        return batch + {"cov_factor": (3, 2)}.get(parameter, (3,))
    if name == "LogisticNormal":
        return batch + (3,)
    if name == "RelaxedOneHotCategorical":
        return () if parameter == "temperature" else batch + (4,)
    event = {matrix: (3, 3), triangle: (3, 3)}.get(generator, ())
    vector = ("Dirichlet", "Categorical", "OneHotCategorical", "Multinomial", "OneHotCategoricalStraightThrough")
    return batch + (event or ((4,) if name in vector else (3,) if name == "MultivariateNormal" else ()))


def generated(name, generators, batches):
    draw = {p: g(*shape_of(g, name, batches[min(k, 1)], p)) for k, (p, g) in enumerate(generators.items())}
    return ordered(draw) if name == "Uniform" else draw


def written(t):
    t = t.detach().reshape(t.shape)
    numbers = [x if math.isfinite(x) else str(x) for x in t.to(torch.float64).flatten().tolist()]
    return {"shape": list(t.shape), "data": numbers}


def case(name, make, generators, batches):
    parameters, other = generated(name, generators, batches), generated(name, generators, batches)
    if name == "Uniform":
        other = {"low": f32(parameters["low"] - 1), "high": f32(parameters["high"] + 2)}
    if name == "Binomial":
        other["total_count"] = parameters["total_count"]
    if name == "Pareto":
        other["scale"] = f32(parameters["scale"] * 0.5)
    leaves = {p: t.clone().requires_grad_(t.dtype == torch.float64 and p != "total_count") for p, t in parameters.items()}
    p, q = make(**leaves), make(**other)
    value = f32(p.sample((2,)).detach())
    if name == "Dirichlet":
        value = p.sample((2,)).detach()
    # Not so near the ends that f32 has no number there.
    if name == "RelaxedBernoulli":
        value = f32(value.clamp(0.02, 0.98))
    if name in ("RelaxedOneHotCategorical", "LogisticNormal"):
        value = value.clamp(0.02)
        value = f32(value / value.sum(-1, keepdim=True))
    out = {"name": name, "parameters": {k: written(t) for k, t in parameters.items()}, "other": {k: written(t) for k, t in other.items()}}
    leaf = value.clone().requires_grad_(value.dtype == torch.float64)
    unchecked = make(**leaves)
    unchecked._validate_args = False
    log_prob = unchecked.log_prob(leaf)
    out["value"], out["log_prob"] = written(value), written(log_prob)
    log_prob.sum().backward()
    for k, t in leaves.items():
        if t.grad is not None:
            # What stands above a diagonal is not read.
            out["d " + k] = written(t.grad.tril() if name == "Wishart" and k == "scale_tril" else t.grad)
    discrete = name in ("NegativeBinomial", "OneHotCategoricalStraightThrough", "Bernoulli", "Geometric", "Binomial", "Poisson", "Categorical", "OneHotCategorical", "Multinomial")
    if not discrete and leaf.grad is not None and name != "Uniform":
        out["d value"] = written(leaf.grad)
    probability = f32(torch.rand(value.shape) * 0.98 + 0.01)
    for key, f in [
        ("mean", lambda: p.mean),
        ("variance", lambda: p.variance),
        ("mode", lambda: p.mode),
        ("entropy", lambda: p.entropy()),
        ("kl", lambda: each_divergence(p, q) if name == "Wishart" else D.kl_divergence(p, q)),
        ("cdf", lambda: p.cdf(value)),
        ("icdf", lambda: p.icdf(probability)),
    ]:
        if key in SKIP.get(name, ()):
            continue
        try:
            out[key] = written(f())
        except (NotImplementedError, AttributeError):
            pass
    if "icdf" in out:
        out["probability"] = written(probability)
    return out


print(json.dumps([case(*family, batches) for family in FAMILIES for batches in BATCHES], indent=None).replace('}, {"name"', '},\n{"name"'))
