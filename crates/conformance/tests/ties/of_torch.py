"""Gradients of PyTorch where two values are equal or one is NaN: writes ties.json beside this file."""
import json, os, torch

VALUES = [1.0, 2.0, -1.0, 0.0, -0.0, float("inf"), float("-inf"), float("nan")]
ROWS = [[1, 1, 0], [2, 1, 2, 2], [0.0, -0.0], [1, float("nan"), 1], [float("nan"), float("nan")], [float("inf"), float("inf"), 1], [-1, -1, -1, -1, -1], [3]]
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def word(x):
    return "nan" if x != x else ("inf" if x > 0 else "-inf") if abs(x) == float("inf") else x


def grads(f, *inputs):
    y = f(*inputs)
    weights = torch.tensor([1.0, -0.5, 2.0, 0.25], dtype=y.dtype).repeat(y.numel() // 4 + 1)[: y.numel()].reshape(y.shape)
    (y * weights).sum().backward()
    return [None if x.grad is None else [word(g) for g in x.grad.double().flatten().tolist()] for x in inputs]


def case(name, dtype, f, *inputs):
    leaves = [torch.tensor(x, dtype=DTYPES[dtype]).requires_grad_() for x in inputs]
    return {"name": name, "dtype": dtype, "inputs": [[word(float(v)) for v in x] for x in inputs], "grads": grads(f, *leaves)}


def main():
    cases = []
    pairs = [(x, y) for x in VALUES for y in VALUES]
    left, right = [p[0] for p in pairs], [p[1] for p in pairs]
    for dtype in DTYPES:
        for name in ["fmax", "fmin", "maximum", "minimum"]:
            cases.append(case(name, dtype, getattr(torch, name), left, right))
        cases.append(case("clamp", dtype, lambda x: x.clamp(-1.0, 1.0), VALUES))
        cases.append(case("clamp_min", dtype, lambda x: x.clamp_min(1.0), VALUES))
        cases.append(case("clamp_max", dtype, lambda x: x.clamp_max(1.0), VALUES))
        cases.append(case("clamp_tensors", dtype, lambda x, y: torch.clamp(x, min=y), left, right))
        cases.append(case("where", dtype, lambda x, y: torch.where(x > y, x, y), left, right))
        cases.append(case("relu", dtype, torch.relu, VALUES))
        cases.append(case("relu6", dtype, torch.nn.functional.relu6, VALUES + [6.0]))
        cases.append(case("hardtanh", dtype, torch.nn.functional.hardtanh, VALUES))
        cases.append(case("hardsigmoid", dtype, torch.nn.functional.hardsigmoid, VALUES + [3.0, -3.0]))
        cases.append(case("hardswish", dtype, torch.nn.functional.hardswish, VALUES + [3.0, -3.0]))
        cases.append(case("hardshrink", dtype, torch.nn.functional.hardshrink, VALUES + [0.5, -0.5]))
        cases.append(case("softshrink", dtype, torch.nn.functional.softshrink, VALUES + [0.5, -0.5]))
        cases.append(case("leaky_relu", dtype, torch.nn.functional.leaky_relu, VALUES))
        cases.append(case("threshold", dtype, lambda x: torch.nn.functional.threshold(x, 1.0, -3.0), VALUES))
        cases.append(case("abs", dtype, torch.abs, VALUES))
        for k, row in enumerate(ROWS):
            for name, f in {
                "amax": lambda x: x.amax(0, keepdim=True),
                "amin": lambda x: x.amin(0, keepdim=True),
                "max": lambda x: x.max(0, keepdim=True).values,
                "min": lambda x: x.min(0, keepdim=True).values,
                "max_all": lambda x: x.max().reshape(1),
                "min_all": lambda x: x.min().reshape(1),
                "median": lambda x: x.median(0, keepdim=True).values,
                "norm_inf": lambda x: torch.linalg.vector_norm(x, float("inf"), 0, keepdim=True),
                "cummax": lambda x: x.cummax(0).values,
                "cummin": lambda x: x.cummin(0).values,
            }.items():
                cases.append(case(name, dtype, f, row))
    with open(os.path.join(os.path.dirname(__file__), "ties.json"), "w") as out:
        json.dump({"torch": torch.__version__, "cases": cases}, out, separators=(",", ":"))
    print(len(cases), "cases")


main()
