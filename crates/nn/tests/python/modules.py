"""What PyTorch's modules do: writes modules.json, which tests/goldens.rs replays. Made with PyTorch 2.15 on a CPU.

Usage: modules.py FILE

Hooks of a small network, the shapes of lazy layers, parametrizations, packed sequences through recurrent layers, and layers that
stand alone. Numbers are f64; those that go in have three decimals. Where gradients are given, they are those of the sum of the
outputs times 0.25, 0.5, .. 1.75, 0.25, ..
"""

import json
import math
import random
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, rnn

torch.set_default_dtype(torch.float64)
warnings.filterwarnings("ignore")


class Draw:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def normal(self, *shape):
        return torch.tensor([round(self.rng.gauss(0, 1), 3) for _ in range(math.prod(shape))]).reshape(shape)

    def uniform(self, *shape):
        return torch.tensor([round(self.rng.uniform(0.05, 0.95), 3) for _ in range(math.prod(shape))]).reshape(shape)


def written(t):
    t = t.detach()
    values = t.flatten().tolist()
    return [list(t.shape), [float(f"{v:.12g}") if isinstance(v, float) else v for v in values]]


def state(module):
    return {name: written(t) for name, t in module.state_dict().items()}


def fill(module, d):
    """Parameters of three decimals, before anything is registered."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(d.normal(*p.shape) * 0.5)
            p.copy_(torch.round(p, decimals=3))
    return module


def weighted(*outputs):
    total = 0
    for y in outputs:
        times = torch.tensor([0.25 * (k % 7 + 1) for k in range(y.numel())]).reshape(y.shape)
        total = total + (y * times).sum()
    return total


def grads(module):
    return {name: written(p.grad) for name, p in module.named_parameters() if p.grad is not None}


def hooks():
    d = Draw(1)
    net = fill(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), d)
    x = d.normal(5, 3).requires_grad_()
    case = {"state": state(net), "x": written(x), "saw": {}}
    saw = case["saw"]

    def pre(module, args):
        saw["pre"] = written(args[0])
        return (args[0] * 2,)

    def forward(module, args, output):
        saw["forward in"], saw["forward out"] = written(args[0]), written(output)
        return output + 0.5

    def backward_pre(module, grad_output):
        saw["backward pre"] = written(grad_output[0])
        return (grad_output[0] * 3,)

    def backward(module, grad_input, grad_output):
        saw["backward in"], saw["backward out"] = written(grad_input[0]), written(grad_output[0])
        return (grad_input[0] * 5,)

    net[0].register_forward_pre_hook(pre)
    net[1].register_forward_hook(forward)
    net[2].register_full_backward_pre_hook(backward_pre)
    net[1].register_full_backward_hook(backward)
    net[2].weight.register_hook(lambda g: -g)
    hidden = []

    def keep(module, args, output):
        output.register_hook(lambda g: g + 0.125)
        output.retain_grad()
        hidden.append(output)

    net[0].register_forward_hook(keep)
    y = net(x)
    weighted(y).backward()
    case |= {"y": written(y), "grads": grads(net), "x grad": written(x.grad), "hidden grad": written(hidden[0].grad)}
    # A first layer whose input is not tracked.
    plain = fill(nn.Linear(2, 2), d)
    plain.register_full_backward_hook(lambda m, gi, go: saw.update({"untracked": [gi[0] is None, written(go[0])]}))
    x2 = d.normal(3, 2)
    weighted(plain(x2)).backward()
    return case | {"plain": state(plain), "x2": written(x2), "plain grads": grads(plain)}


LAZY = [
    ("LazyLinear", (4,), [2, 3], {}),
    ("LazyConv1d", (4, 3), [2, 2, 5], {}),
    ("LazyConv2d", (4, 3), [2, 2, 5, 5], {"groups": 2}),
    ("LazyConv3d", (4, 2), [1, 2, 3, 3, 3], {}),
    ("LazyConvTranspose1d", (4, 3), [2, 2, 5], {}),
    ("LazyConvTranspose2d", (4, 3), [2, 2, 5, 5], {"groups": 2}),
    ("LazyConvTranspose3d", (4, 2), [1, 2, 3, 3, 3], {}),
    ("LazyBatchNorm1d", (), [4, 3], {}),
    ("LazyBatchNorm2d", (), [4, 3, 2, 2], {}),
    ("LazyBatchNorm3d", (), [4, 3, 2, 2, 2], {}),
    ("LazyInstanceNorm1d", (), [4, 3, 5], {"affine": True, "track_running_stats": True}),
    ("LazyInstanceNorm2d", (), [4, 3, 2, 2], {"affine": True, "track_running_stats": True}),
    ("LazyInstanceNorm3d", (), [4, 3, 2, 2, 2], {"affine": True, "track_running_stats": True}),
]


def lazy():
    d, cases = Draw(2), []
    for name, args, shape, options in LAZY:
        layer, x = getattr(nn, name)(*args, **options), d.normal(*shape)
        layer(x)
        fill(layer, d)
        before = state(layer)
        y = layer(x)
        cases.append({"name": name, "x": written(x), "state": before, "y": written(y)})
    return cases


def wrapped(d, name, make, shape, register):
    layer = fill(make(), d)
    plain = state(layer)
    register(layer)
    # Away from where it starts, so that no part of the function is idle.
    with torch.no_grad():
        for key, p in layer.named_parameters():
            if "original" in key:
                p.add_(torch.round(d.normal(*p.shape) * 0.2, decimals=3))
    case = {"name": name, "plain": plain, "state": state(layer)}
    x = d.normal(*shape).requires_grad_()
    out = layer(x)
    y = out[0] if isinstance(out, tuple) else out
    weighted(y).backward()
    case |= {"x": written(x), "y": written(y), "grads": grads(layer), "x grad": written(x.grad), "after": state(layer)}
    layer.eval()
    out = layer(x)
    case["eval y"] = written(out[0] if isinstance(out, tuple) else out)
    return case


def parametrized():
    d, p = Draw(3), parametrizations
    orth = lambda m, **o: p.orthogonal(m, "weight", **o)
    return [
        wrapped(d, "weight_norm linear 0", lambda: nn.Linear(3, 4), [2, 3], lambda m: p.weight_norm(m, "weight", 0)),
        wrapped(d, "weight_norm linear none", lambda: nn.Linear(3, 4), [2, 3], lambda m: p.weight_norm(m, "weight", None)),
        wrapped(d, "weight_norm conv 0", lambda: nn.Conv2d(2, 3, 2), [1, 2, 3, 3], lambda m: p.weight_norm(m, "weight", 0)),
        wrapped(d, "weight_norm transposed 1", lambda: nn.ConvTranspose1d(2, 3, 2), [1, 2, 3], lambda m: p.weight_norm(m, "weight", 1)),
        wrapped(d, "weight_norm lstm 0", lambda: nn.LSTM(2, 3), [3, 2, 2], lambda m: p.weight_norm(m, "weight_hh_l0", 0)),
        wrapped(d, "spectral_norm linear", lambda: nn.Linear(3, 4), [2, 3], lambda m: p.spectral_norm(m)),
        wrapped(d, "spectral_norm linear 1 3", lambda: nn.Linear(3, 4), [2, 3], lambda m: p.spectral_norm(m, dim=1, n_power_iterations=3)),
        wrapped(d, "spectral_norm conv", lambda: nn.Conv2d(2, 3, 2), [1, 2, 3, 3], lambda m: p.spectral_norm(m)),
        wrapped(d, "spectral_norm transposed", lambda: nn.ConvTranspose2d(2, 3, 2), [1, 2, 2, 2], lambda m: p.spectral_norm(m)),
        wrapped(d, "spectral_norm bias", lambda: nn.Linear(3, 4), [2, 3], lambda m: p.spectral_norm(m, "bias")),
        wrapped(d, "orthogonal square", lambda: nn.Linear(4, 4), [2, 4], lambda m: orth(m)),
        wrapped(d, "orthogonal tall", lambda: nn.Linear(3, 5), [2, 3], lambda m: orth(m)),
        wrapped(d, "orthogonal wide", lambda: nn.Linear(5, 3), [2, 5], lambda m: orth(m)),
        wrapped(d, "orthogonal cayley", lambda: nn.Linear(3, 5), [2, 3], lambda m: orth(m, orthogonal_map="cayley")),
        wrapped(d, "orthogonal exp wide", lambda: nn.Linear(4, 3), [2, 4], lambda m: orth(m, orthogonal_map="matrix_exp")),
        wrapped(d, "orthogonal plain exp", lambda: nn.Linear(4, 4), [2, 4], lambda m: orth(m, use_trivialization=False)),
    ]


LENGTHS = [[4, 3, 3, 1], [2, 4, 1, 3]]


def sequences():
    d, cases = Draw(4), []
    for kind in ["RNN", "GRU", "LSTM", "LSTM projected"]:
        for bidirectional in [False, True]:
            for lengths in LENGTHS:
                options = {"proj_size": 2} if "projected" in kind else {}
                net = fill(getattr(nn, kind.split()[0])(2, 3, num_layers=2, bidirectional=bidirectional, **options), d)
                steps = [d.normal(n, 2).requires_grad_() for n in lengths]
                out = 2 if options else 3
                layers = 4 if bidirectional else 2
                h0 = d.normal(layers, 4, out).requires_grad_()
                c0 = d.normal(layers, 4, 3).requires_grad_() if "LSTM" in kind else None
                is_sorted = lengths == sorted(lengths, reverse=True)
                packed = rnn.pack_sequence(steps, enforce_sorted=is_sorted)
                y, last = net(packed, h0 if c0 is None else (h0, c0))
                h, c = (last, None) if c0 is None else last
                padded, back = rnn.pad_packed_sequence(y, padding_value=-1.5, total_length=5)
                assert back.tolist() == lengths
                weighted(padded, h, *([] if c is None else [c])).backward()
                cases.append({
                    "kind": kind, "bidirectional": bidirectional, "lengths": lengths, "state": state(net),
                    "steps": [written(s) for s in steps], "h0": written(h0), "c0": None if c0 is None else written(c0),
                    "batch_sizes": packed.batch_sizes.tolist(), "y": written(padded), "h": written(h),
                    "c": None if c is None else written(c), "grads": grads(net), "step grads": [written(s.grad) for s in steps],
                    "h0 grad": written(h0.grad),
                })  # fmt: skip
    return cases


def paddings():
    d = Draw(5)
    steps = [d.normal(n, 2) for n in [2, 4, 1]]
    pad = lambda first, side: written(rnn.pad_sequence(steps, batch_first=first, padding_value=0.5, padding_side=side))
    packed = rnn.pack_sequence(steps, enforce_sorted=False)
    return {
        "steps": [written(s) for s in steps],
        "padded": [pad(True, "right"), pad(False, "right"), pad(True, "left")],
        "data": written(packed.data), "sorted": packed.sorted_indices.tolist(), "unsorted": packed.unsorted_indices.tolist(),
    }  # fmt: skip


def call(name, module, inputs, **more):
    x = [t.requires_grad_() if t.is_floating_point() else t for t in inputs]
    out = module(*x)
    outs = list(out) if isinstance(out, tuple) else [out]
    weighted(*[y for y in outs if y.is_floating_point()]).backward()
    own = module if isinstance(module, nn.Module) else nn.Identity()
    none = lambda t: torch.zeros_like(t) if t.grad is None else t.grad
    return {
        "name": name, "state": state(own), "inputs": [written(t) for t in x], "outputs": [written(y) for y in outs],
        "grads": [written(none(t)) if t.is_floating_point() else None for t in x], "parameter grads": grads(own), **more,
    }  # fmt: skip


def cross_map(x, size, alpha, beta, k):
    """nn.CrossMapLRN2d as it is meant. That of 2.15 never takes channel 0 out of a window (`c > pre_pad` for `>=`), and its gradient
    is that of other windows; up to the first channel that is concerned they must agree."""
    reach = int((size - 1) / 2)
    window = lambda c: x[:, max(0, c - reach) : c + reach + 1].square().sum(1)
    scale = torch.stack([window(c) for c in range(x.shape[1])], 1) * (alpha / size) + k
    y = x * scale.pow(-beta)
    theirs = nn.modules.normalization.CrossMapLRN2d(size, alpha, beta, k)(x.detach())
    assert torch.allclose(y[:, : reach + 1], theirs[:, : reach + 1]) and not torch.allclose(y, theirs)
    return y


def layers():
    d = Draw(6)
    adaptive = fill(nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True), d)
    fixed = lambda t: t.detach()
    pool2 = lambda x, u: F.fractional_max_pool2d(x, (3, 2), (3, 4), return_indices=True, _random_samples=fixed(u))
    pool3 = lambda x, u: F.fractional_max_pool3d(x, 2, (2, 3, 2), return_indices=True, _random_samples=fixed(u))
    unpooled = lambda n, k, s, p: lambda x: getattr(F, f"max_unpool{n}d")(*getattr(F, f"max_pool{n}d")(x, k, s, p, return_indices=True), k, s, p)
    running = [d.normal(3), d.uniform(3)]
    before = [written(t) for t in running]
    batch = call("batch_norm", lambda x, w, b: F.batch_norm(x, *running, w, b, training=True, momentum=0.3), [d.normal(4, 3, 2), d.normal(3), d.normal(3)])
    batch |= {"running before": before, "running after": [written(t) for t in running]}
    evaluated = call("batch_norm eval", lambda x, w, b: F.batch_norm(x, *running, w, b), [d.normal(4, 3, 2), d.normal(3), d.normal(3)])
    evaluated["running before"] = batch["running after"]
    return [
        call("AdaptiveLogSoftmaxWithLoss", adaptive, [d.normal(6, 8), torch.tensor([0, 2, 3, 6, 7, 11])],
             log_prob=written(adaptive.log_prob(d.normal(2, 8)))),
        call("CrossMapLRN2d 3", lambda x: cross_map(x, 3, 0.3, 0.75, 1.5), [d.normal(2, 5, 2, 2)]),
        call("CrossMapLRN2d 4", lambda x: cross_map(x, 4, 0.3, 0.75, 1.5), [d.normal(2, 5, 2, 2)]),
        call("fractional_max_pool2d", pool2, [d.normal(2, 2, 7, 6), d.uniform(2, 2, 2)]),
        call("fractional_max_pool3d", pool3, [d.normal(1, 2, 4, 5, 4), d.uniform(1, 2, 3)]),
        call("MaxUnpool1d", unpooled(1, 2, 2, 0), [d.normal(2, 2, 6)]),
        call("MaxUnpool2d", unpooled(2, 3, 2, 1), [d.normal(1, 2, 5, 7)]),
        call("MaxUnpool3d", unpooled(3, 2, 2, 0), [d.normal(1, 1, 4, 2, 4)]),
        call("LPPool1d", nn.LPPool1d(3.0, 2), [d.uniform(1, 2, 6)]),
        call("LPPool2d", nn.LPPool2d(2.0, 2, 1), [d.uniform(1, 2, 4, 3)]),
        call("LPPool3d", nn.LPPool3d(2.0, 2, ceil_mode=True), [d.uniform(1, 1, 3, 2, 4)]),
        call("conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), [d.normal(4, 2, 3), d.normal(2, 3, 4), d.normal(4)]),
        batch,
        evaluated,
    ]  # fmt: skip


torch.manual_seed(0)
groups = {"hooks": [hooks()], "lazy": lazy(), "parametrized": parametrized(), "sequences": sequences(), "paddings": [paddings()], "layers": layers()}
with open(sys.argv[1], "w") as file:
    file.write("{\n")
    for k, (name, cases) in enumerate(groups.items()):
        rows = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        file.write(f'"{name}":[\n{rows}\n]' + (",\n" if k + 1 < len(groups) else "\n"))
    file.write("}\n")
