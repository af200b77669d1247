"""Goldens of torch.distributions.transforms for crates/distributions/tests/transforms.rs.

Run: python xtask/python/transforms.py > crates/distributions/tests/transforms.json
Each case: {"name", "x", "y": what it is mapped to, "back": and back from there, "volume": log_abs_det_jacobian (left out of those that
have none), and of both the gradients to x, weighed by 1, 2, 3, ..: "dy" and "dvolume"}; of distributions {"name", "value", "log_prob",
"d value", "cdf", "icdf" of "probability"}. All in f64.
"""

import json

import torch
from torch import distributions as D
from torch.distributions import constraints as C, transforms as T

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)


def written(t):
    return {"shape": list(t.shape), "data": t.detach().flatten().tolist()}


def weights(t):
    return torch.arange(1.0, t.numel() + 1).reshape(t.shape)


two = torch.tensor([2.0, -0.5, 0.25])
MAPS = [
    ("Affine", T.AffineTransform(torch.tensor([1.0, 2.0, 3.0]), two), torch.randn(2, 3)),
    ("Affine of vectors", T.AffineTransform(torch.tensor([1.0, 2.0, 3.0]), two, event_dim=1), torch.randn(2, 3)),
    ("Power", T.PowerTransform(torch.tensor([2.0, 0.5, -1.5])), torch.rand(2, 3) + 0.3),
    ("Exp", T.ExpTransform(), torch.randn(2, 3)),
    ("Sigmoid", T.SigmoidTransform(), torch.randn(2, 3) * 4),
    ("Softplus", T.SoftplusTransform(), torch.randn(2, 3) * 4),
    ("Tanh", T.TanhTransform(), torch.randn(2, 3)),
    ("Abs", T.AbsTransform(), torch.randn(2, 3)),
    ("Softmax", T.SoftmaxTransform(), torch.randn(2, 3)),
    ("StickBreaking", T.StickBreakingTransform(), torch.randn(2, 3)),
    ("LowerCholesky", T.LowerCholeskyTransform(), torch.randn(2, 3, 3)),
    ("PositiveDefinite", T.PositiveDefiniteTransform(), torch.randn(2, 3, 3)),
    ("CorrCholesky", T.CorrCholeskyTransform(), torch.randn(2, 6)),
    ("Cumulative", T.CumulativeDistributionTransform(D.Normal(torch.tensor(0.5), torch.tensor(2.0))), torch.randn(2, 3)),
    ("Reshape", T.ReshapeTransform((2, 3), (6,)), torch.randn(4, 2, 3)),
    ("Independent", T.IndependentTransform(T.ExpTransform(), 1), torch.randn(2, 3)),
    ("Compose", T.ComposeTransform([T.AffineTransform(0.5, 2.0), T.SigmoidTransform()]), torch.randn(2, 3)),
    ("Compose of vectors", T.ComposeTransform([T.ExpTransform(), T.AffineTransform(0.5, 2.0, event_dim=1)]), torch.randn(2, 3)),
    ("Compose to the simplex", T.ComposeTransform([T.AffineTransform(0.5, 2.0), T.StickBreakingTransform()]), torch.randn(2, 3)),
    ("Cat", T.CatTransform([T.ExpTransform(), T.TanhTransform()], dim=-1, lengths=[1, 2]), torch.randn(2, 3)),
    ("Stack", T.StackTransform([T.ExpTransform(), T.TanhTransform(), T.SigmoidTransform()], dim=-1), torch.randn(2, 3)),
    ("biject GreaterThan", D.biject_to(C.greater_than(1.5)), torch.randn(2, 3)),
    ("biject LessThan", D.biject_to(C.less_than(1.5)), torch.randn(2, 3)),
    ("biject Interval", D.biject_to(C.interval(-1.0, 2.5)), torch.randn(2, 3)),
    ("biject Simplex", D.biject_to(C.simplex), torch.randn(2, 3)),
    ("biject Independent", D.biject_to(C.independent(C.positive, 1)), torch.randn(2, 3)),
    ("to Simplex", D.transform_to(C.simplex), torch.randn(2, 3)),
    ("to PositiveDefinite", D.transform_to(C.positive_definite), torch.randn(2, 3, 3)),
]


def mapped(name, t, x):
    x = x.clone().requires_grad_()
    y = t(x)
    (dy,) = torch.autograd.grad((y * weights(y)).sum(), x)
    out = {"name": name, "x": written(x), "y": written(y), "back": written(t.inv(y.detach())), "dy": written(dy)}
    try:
        volume = t.log_abs_det_jacobian(x, t(x))
        out["volume"] = written(volume)
        if volume.requires_grad:
            (dv,) = torch.autograd.grad((volume * weights(volume)).sum(), x, allow_unused=True)
            out["dvolume"] = written(dv if dv is not None else torch.zeros_like(x))
    except NotImplementedError:
        pass
    return out


DISTRIBUTIONS = [
    ("exp of Normal", D.TransformedDistribution(D.Normal(torch.tensor([0.5, 1.0, -1.0]), torch.tensor(2.0)), [T.ExpTransform()])),
    ("falling", D.TransformedDistribution(D.Normal(torch.tensor([0.5, 1.0, -1.0]), torch.tensor(2.0)), [T.AffineTransform(1.0, -two.abs()), T.TanhTransform()])),
    ("simplex of Normals", D.TransformedDistribution(D.Normal(torch.tensor([0.5, 1.0, -1.0]), torch.tensor(2.0)), [T.StickBreakingTransform()])),
    ("vectors of Normals", D.TransformedDistribution(D.MultivariateNormal(torch.zeros(3), torch.eye(3) * 2), [T.AffineTransform(0.5, two), T.ExpTransform()])),
]


def distributed(name, p):
    value = p.sample((2,)).requires_grad_()
    log_prob = p.log_prob(value)
    (d,) = torch.autograd.grad(log_prob.sum(), value)
    out = {"name": name, "value": written(value), "log_prob": written(log_prob), "d value": written(d)}
    if not p.event_shape:
        probability = torch.rand(value.shape) * 0.9 + 0.05
        out |= {"cdf": written(p.cdf(value)), "probability": written(probability), "icdf": written(p.icdf(probability))}
    return out


cases = {"maps": [mapped(*m) for m in MAPS], "distributions": [distributed(*d) for d in DISTRIBUTIONS]}
print(json.dumps(cases).replace('}, {"name"', '},\n{"name"'))
