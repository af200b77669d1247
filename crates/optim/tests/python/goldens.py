"""What PyTorch says of optimizers, averages, clipping and chained schedules, for tests/more.rs and tests/pairs.rs:

    python goldens.py more.json pairs.json [FULL]

Made with PyTorch 2.15 on a CPU. What PyTorch does not have (Lookahead, centralised gradients) is written here as its paper has it,
around PyTorch's optimizers. `pairs.json` has each pair of schedules one after the other and both at once, over 1,000 steps of which
some are kept; FULL keeps all of them, for `TORCH_PAIRS=FULL cargo test --test pairs`.
"""

import json
import math
import sys
import warnings

import torch
from torch.optim import lr_scheduler as s
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

warnings.filterwarnings("ignore")
torch.manual_seed(24)


def flat(t):
    return t.detach().to(torch.float64).reshape(-1).tolist()


class Lookahead:
    """Zhang et al. 2019, algorithm 1."""

    def __init__(self, params, fast, k, alpha, **args):
        self.params, self.k, self.alpha, self.count = params, k, alpha, 0
        self.fast = getattr(torch.optim, fast)(params, **args)
        self.slow = [p.detach().clone() for p in params]

    def step(self):
        self.fast.step()
        self.count += 1
        if self.count % self.k == 0:
            for p, slow in zip(self.params, self.slow):
                slow.add_(p.detach() - slow, alpha=self.alpha)
                p.data.copy_(slow)


class Centralized:
    """Yong et al. 2020, equation 1."""

    def __init__(self, params, rule, **args):
        self.params, self.rule = params, getattr(torch.optim, rule)(params, **args)

    def step(self):
        for p in self.params:
            if p.grad.ndim > 1:
                p.grad -= p.grad.mean(dim=tuple(range(1, p.grad.ndim)), keepdim=True)
        self.rule.step()


OURS = {"Lookahead": Lookahead, "Centralized": Centralized}
OPTIMIZERS = [
    ("Muon", dict(lr=0.05), [[4, 3], [3, 5], [4, 4]], "f32"),
    ("Muon", dict(lr=0.05, nesterov=False, momentum=0.9, weight_decay=0.0), [[6, 2]], "f32"),
    ("Muon", dict(lr=0.05, adjust_lr_fn="match_rms_adamw"), [[4, 3], [3, 8]], "f32"),
    ("Muon", dict(lr=0.05, adjust_lr_fn="spectral_unclamped", ns_steps=3, ns_coefficients=[2.0, -1.5, 0.5]), [[4, 3], [3, 8]], "f64"),
    ("SparseAdam", dict(lr=0.1), [[6, 3], [5]], "f64"),
    ("SparseAdam", dict(lr=0.1, betas=[0.5, 0.9], eps=1e-3, maximize=True), [[6, 2, 2]], "f64"),
    ("SparseAdam", dict(lr=0.1), [[6, 3]], "f32"),
    ("Adam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, amsgrad=True), [[4, 3], [5]], "f64"),
    ("Adam", dict(lr=0.1, weight_decay=0.1, maximize=True), [[4, 3], [5]], "f64"),
    ("RMSprop", dict(lr=0.1, centered=True, momentum=0.9, maximize=True), [[4, 3]], "f64"),
    ("Lookahead", dict(fast="SGD", k=3, alpha=0.5, lr=0.1, momentum=0.9), [[4, 3], [5]], "f64"),
    ("Lookahead", dict(fast="AdamW", k=2, alpha=0.8, lr=0.1, weight_decay=0.1), [[4, 3], [5]], "f64"),
    ("Centralized", dict(rule="SGD", lr=0.1, momentum=0.9), [[4, 3], [2, 2, 3], [5]], "f64"),
    ("Centralized", dict(rule="Adam", lr=0.1, weight_decay=0.1), [[4, 3], [5]], "f64"),
]
STEPS = 8


def trajectory(op, args, shapes, dtype):
    dtype = torch.float64 if dtype == "f64" else torch.float32
    params = [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    case = {"op": op, "args": args, "shapes": shapes, "start": [flat(p) for p in params]}
    grads = [[torch.randn(shape, dtype=torch.float64).to(dtype) for _ in range(STEPS)] for shape in shapes]
    if op == "SparseAdam":
        for of in grads:
            for k, g in enumerate(of):
                rows = torch.rand(g.shape[0]) < 0.5
                rows[k % g.shape[0]] = False
                g[rows] = 0
    optimizer = OURS[op](params, **args) if op in OURS else getattr(torch.optim, op)(params, **args)
    after = [[] for _ in shapes]
    for k in range(STEPS):
        for p, of in zip(params, grads):
            g = of[k].clone()
            p.grad = g.to_sparse(1) if op == "SparseAdam" else g
        optimizer.step()
        for p, out in zip(params, after):
            out.append(flat(p))
    return case | {"grads": [[flat(g) for g in of] for of in grads], "after": after}


LBFGS = [
    ("valley", dict(), "f64"),
    ("valley", dict(line_search_fn="strong_wolfe"), "f64"),
    ("valley", dict(line_search_fn="strong_wolfe", history_size=2, max_iter=5), "f64"),
    ("valley", dict(line_search_fn="strong_wolfe", maximize=True, max_iter=7, max_eval=11), "f64"),
    ("layer", dict(lr=0.5, max_iter=4), "f64"),
    ("layer", dict(line_search_fn="strong_wolfe", max_iter=6), "f64"),
    ("layer", dict(line_search_fn="strong_wolfe", tolerance_grad=1e-2), "f64"),
    ("layer", dict(line_search_fn="strong_wolfe", tolerance_change=1e-2), "f64"),
    ("layer", dict(line_search_fn="strong_wolfe", max_iter=3), "f32"),
    ("layer", dict(lr=1e-3, line_search_fn="strong_wolfe", max_iter=8), "f64"),
    ("layer", dict(lr=30.0, line_search_fn="strong_wolfe", max_iter=8), "f64"),
]


def lbfgs(problem, args, dtype):
    dtype = torch.float64 if dtype == "f64" else torch.float32
    sign = -1 if args.get("maximize") else 1
    if problem == "valley":
        params = [torch.tensor([-1.5, 2.0, 0.5, -0.7], dtype=dtype, requires_grad=True)]
        x = y = None

        def loss():
            p = params[0]
            return sign * ((1 - p[:-1]) ** 2 + 100 * (p[1:] - p[:-1] ** 2) ** 2).sum()
    else:
        x, y = torch.randn(12, 3, dtype=torch.float64), torch.rand(12, 2, dtype=torch.float64) - 0.5
        params = [torch.randn(3, 2, dtype=torch.float64).to(dtype).requires_grad_(), torch.zeros(2, dtype=dtype, requires_grad=True)]
        xs, ys = x.to(dtype), y.to(dtype)

        def loss():
            return ((torch.tanh(xs @ params[0] + params[1]) - ys) ** 2).mean()

    case = {"problem": problem, "args": args, "shapes": [list(p.shape) for p in params], "start": [flat(p) for p in params]}
    case |= {"x": flat(x) if x is not None else [], "y": flat(y) if y is not None else []}
    optimizer = torch.optim.LBFGS(params, **args)
    steps = []

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(5):
        value = optimizer.step(closure)
        state = optimizer.state[params[0]]
        steps.append({"loss": float(value), "after": [flat(p) for p in params], "func_evals": state["func_evals"], "n_iter": state["n_iter"]})
    return case | {"steps": steps}


AVERAGES = [(kind, buffers) for kind in ["ema", "swa", "own"] for buffers in [False, True]]


def average(kind, use_buffers):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2, momentum=0.3))
    args = {"ema": dict(multi_avg_fn=get_ema_multi_avg_fn(0.7)), "swa": {}, "own": dict(avg_fn=lambda mean, now, n: mean + (now - mean) / (n + 2))}[kind]
    averaged = AveragedModel(model, use_buffers=use_buffers, **args)
    data = torch.randn(6, 4, 3)
    case = {"kind": kind, "use_buffers": use_buffers, "start": [flat(p) for p in model.parameters()], "data": flat(data), "steps": []}
    for k in range(5):
        weights = [torch.randn_like(p) for p in model.parameters()]
        for p, w in zip(model.parameters(), weights):
            p.data.copy_(w)
        model(data[k])
        averaged.update_parameters(model)
        state = {name: flat(t) for name, t in averaged.state_dict().items()}
        case["steps"].append({"weights": [flat(w) for w in weights], "state": state})
    update_bn([data[k] for k in range(6)], averaged)
    case["after_update_bn"] = {name: flat(t) for name, t in averaged.state_dict().items()}
    return case


def clipping():
    cases = []
    for norm_type in [2.0, 1.0, 3.0, 0.5, math.inf, 0.0]:
        for limit in [0.7, 100.0]:
            params = [torch.randn(shape, requires_grad=True) for shape in ([3, 4], [5], [])]
            grads = [torch.randn(p.shape) for p in params]
            for p, g in zip(params, grads):
                p.grad = g.clone()
            total = torch.nn.utils.clip_grad_norm_(params, limit, norm_type)
            shapes = [list(p.shape) for p in params]
            case = {"norm_type": "inf" if math.isinf(norm_type) else norm_type, "max": limit, "shapes": shapes, "grads": [flat(g) for g in grads]}
            cases.append(case | {"total": float(total), "clipped": [flat(p.grad) for p in params]})
    return cases


# Arguments of each, and its name.
SCHEDULES = {
    "StepLR": dict(step_size=70, gamma=0.8),
    "MultiStepLR": dict(milestones=[50, 120, 410, 800], gamma=0.6),
    "ConstantLR": dict(factor=0.4, total_iters=130),
    "LinearLR": dict(start_factor=0.05, end_factor=1.0, total_iters=200),
    "ExponentialLR": dict(gamma=0.997),
    "PolynomialLR": dict(total_iters=650, power=0.9),
    "CosineAnnealingLR": dict(T_max=700, eta_min=1e-3),
    "CosineAnnealingWarmRestarts": dict(T_0=90, T_mult=2, eta_min=1e-3),
    "CyclicLR": dict(base_lr=0.02, max_lr=0.5, step_size_up=60, step_size_down=100, mode="triangular2"),
    "OneCycleLR": dict(max_lr=0.6, total_steps=1001, pct_start=0.25),
    "LambdaLR": dict(),
    "MultiplicativeLR": dict(),
    "SWALR": dict(swa_lr=0.05, anneal_epochs=150),
}
LAMBDAS = {"LambdaLR": lambda t: 0.996**t, "MultiplicativeLR": lambda t: 0.998}
LENGTH, MILESTONE, BASE = 1000, 301, 0.3
KEPT = sorted({0, 1, 2, 49, 50, 51, 70, 90, 130, 199, 200, 201, 299, 300, 301, 302, 303, 371, 409, 410, 500, 501, 502, 650, 699, 700, 701, 800, 951, 998, 999})


def schedule(optimizer, name):
    if name == "SWALR":
        return SWALR(optimizer, **SCHEDULES[name])
    if name in LAMBDAS:
        return getattr(s, name)(optimizer, LAMBDAS[name])
    return getattr(s, name)(optimizer, **SCHEDULES[name])


def rates(kind, names):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE, momentum=0.9)
    parts = [schedule(optimizer, name) for name in names]
    if kind == "sequential":
        scheduler = s.SequentialLR(optimizer, parts, milestones=[MILESTONE])
    elif kind == "chained":
        scheduler = s.ChainedScheduler(parts)
    else:
        scheduler = parts[0]
    out = []
    for _ in range(LENGTH):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out


def all_rates():
    for name in SCHEDULES:
        yield "alone", [name]
    # These two write over what the optimizer began with when they are made, and so change the schedules beside them.
    chained = [name for name in SCHEDULES if name not in ["CyclicLR", "OneCycleLR"]]
    for kind in ["sequential", "chained"]:
        for a in chained:
            for b in chained:
                yield kind, [a, b]


def main(more, pairs, full=None):
    optimizers = [trajectory(*case) | {"id": f"{k}.{case[0]}.{case[3]}"} for k, case in enumerate(OPTIMIZERS)]
    quasi = [lbfgs(*case) | {"dtype": case[2]} for case in LBFGS]
    with open(more, "w") as f:
        json.dump({"optimizers": optimizers, "lbfgs": quasi, "averages": [average(*a) for a in AVERAGES], "clip": clipping()}, f)
        f.write("\n")
    whole = [{"kind": kind, "of": names, "rates": rates(kind, names)} for kind, names in all_rates()]
    head = {"args": SCHEDULES, "milestone": MILESTONE, "base": BASE}
    # Of the pair that most programs train by, every step.
    always = [("sequential", ["LinearLR", "CosineAnnealingLR"])]
    kept = [c if (c["kind"], c["of"]) in always else c | {"rates": [c["rates"][k] for k in KEPT]} for c in whole]
    with open(pairs, "w") as f:
        f.write(json.dumps(head | {"kept": KEPT})[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(c) for c in kept) + "\n]}\n")
    if full:
        with open(full, "w") as f:
            json.dump(head | {"kept": list(range(LENGTH)), "cases": whole}, f)


main(*sys.argv[1:])
