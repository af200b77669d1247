"""PyTorch, eager or with `--compile`, running the calls of `cargo xtask bench peers --random` and `--calls`.

The first argument is a file with a call in each line (`CallCase` in `xtask/src/bench/peers/calls.rs` says the format); the
protocol is that of `bench serve`, and a workload's name is the call's. What is shown of a call is flat: a head with the number
of its elements, whether distances follow, and dtype and shape of each result; the elements; and, where the same call in f64
can be had, the distance of each element from it. That is what a rounding does in this call, and how far another may be away.
"""

import json
import os
import re
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import programs
from peer import Ready, serve, threads, words

COMPILE = "--compile" in sys.argv
torch.set_num_threads(threads())
torch.manual_seed(1)
CODES = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u16", "u32", "u64"]
NAMED = re.compile(r"named\('(\w+)', ")
ARGUMENT = re.compile(r"x\[(\d+)\]")


def fill(shape, given, seed):
    """Numbers as `calls::ours` makes them, bit for bit."""
    n = int(np.prod(shape))
    kind, what = (given, None) if isinstance(given, str) else next(iter(given.items()))
    if kind == "given":
        return np.resize(np.array(what, dtype=np.float64), n).reshape(shape)
    w = words(n, seed)
    part = (w >> np.uint64(40)).astype(np.float64) / 2.0**24
    if kind == "below":
        return (w % np.uint64(max(what, 1))).astype(np.int64).reshape(shape)
    if kind == "whole":
        low, high = what
        return (np.int64(low) + (w % np.uint64(high - low + 1)).astype(np.int64)).reshape(shape)
    if kind == "sorted":
        return (np.arange(n, dtype=np.float64) * (2.0 / max(n, 1)) - 1.0).reshape(shape)
    if kind == "order":
        # A permutation: of all numbers below n, by an odd step.
        return (np.arange(n, dtype=np.uint64) * np.uint64(what) % np.uint64(max(n, 1))).astype(np.int64).reshape(shape)
    if kind == "definite":
        size = shape[-1]
        a = part.reshape(shape)
        return (a + np.swapaxes(a, -1, -2)) / 2.0 / size + np.eye(size) * (1.0 + np.arange(size) / size)
    low, high = what
    return (low + (high - low) * part).reshape(shape)


def tensor(one):
    shape, layout = list(one["shape"]), one["layout"]
    if layout == "transposed":
        shape[-1], shape[-2] = shape[-2], shape[-1]
    if layout == "sliced":
        shape[-1] *= 2
    values = fill(shape, one["fill"], one["seed"])
    if values.dtype == np.float64 and one["dtype"] != "f64":
        values = values.astype(np.float32)
    t = torch.from_numpy(values.copy()).to(programs.DTYPES[one["dtype"]])
    if layout == "transposed":
        return t.transpose(-1, -2)
    return t[..., ::2] if layout == "sliced" else t


def resolved(text):
    """The expression with each function found once, so that no search is timed."""
    space = {}

    def found(match):
        name, slot = match.group(1), f"_f{len(space)}"

        def first(*given):
            for where in programs.SPACES:
                function = getattr(where, name, None)
                if not callable(function):
                    continue
                ways = [function]
                if len(given) == 1 and isinstance(given[0], list):
                    ways.append(lambda many, function=function: function(*many))
                for way in ways:
                    try:
                        result = way(*given)
                    except (TypeError, RuntimeError) as error:
                        if not any(said in str(error) for said in programs.SPELLING):
                            raise
                        continue
                    space[slot] = way
                    return result
            raise programs.Unknown(name)

        space[slot] = first
        return f"{slot}("

    return NAMED.sub(found, text), space


def program(case, inputs):
    """A function of no arguments that runs the call once, and gives the results of its last step."""
    space = dict(programs.SPACE)
    space.update({f"_i{k}": x for k, x in enumerate(inputs)})
    lines, results, single = [], {}, []
    if case["setup"]:
        space["x"] = inputs
        exec(case["setup"], space)
    for s, step in enumerate(case["steps"]):
        values = {("input", k): x for k, x in enumerate(inputs)} | results
        args = [programs.argument(arg, values) for arg in step["args"]]
        text, found = resolved(step["torch"])
        # Once as it stands, to find its functions and how many results it gives.
        given = eval("lambda x: " + text, {**space, **found})(args)
        space.update({f"_s{s}{name}": function for name, function in found.items()})
        text = re.sub(r"\b_f(\d+)\(", rf"_s{s}_f\1(", text)
        names = []
        for k, arg in enumerate(step["args"]):
            kind, what = next(iter(arg.items())) if isinstance(arg, dict) else (arg, None)
            if kind == "input":
                names.append(f"_i{what}")
            elif kind == "result":
                names.append(f"_r{what[0]}" if single[what[0]] else f"_r{what[0]}[{what[1]}]")
            else:
                space[f"_a{s}_{k}"] = args[k]
                names.append(f"_a{s}_{k}")
        # An expression of the list itself, or of its elements.
        if re.search(r"\bx\b", ARGUMENT.sub("", text)):
            lines.append(f"x = [{', '.join(names)}]")
        else:
            text = ARGUMENT.sub(lambda m: names[int(m.group(1))], text)
        lines.append(f"_r{s} = {text}")
        single.append(not isinstance(given, (tuple, list)))
        results |= {(s, n): y for n, y in enumerate([given] if single[s] else given)}
    parameters = ", ".join(f"{name}={name}" for name in space if re.match("_[ias]", name))
    exec(f"def run({parameters}):\n    " + "\n    ".join(lines) + f"\n    return _r{len(case['steps']) - 1}\n", space)
    return space["run"]


def head(results):
    flat = [CODES.index(programs.NAMES[y.dtype]) if y.dtype in programs.NAMES else -1 for y in results]
    return [n for y, code in zip(results, flat) for n in (code, y.ndim, *y.shape)]


def numbers(y):
    return y.detach().to(torch.float64).reshape(-1).numpy()


def said(values):
    """What JSON has no numbers for, as numbers that nothing gives."""
    return np.where(np.isnan(values), 1.7e308, np.clip(values, -1.6e308, 1.6e308))


class Passes:
    """One call with all that it gives: results, and with `grad` the gradients of a weighted sum by all leaves."""

    def __init__(self, case, narrow=None):
        """With `narrow`, what that one is in f64: of the same inputs and weights."""
        self.case, self.narrow = case, narrow
        inputs = [tensor(one) for one in case["inputs"]]
        if narrow:
            inputs = [x.double() if x.is_floating_point() else x for x in inputs]
        torch.set_grad_enabled(False)
        self.leaves = []
        if case["grad"]:
            inputs = [x.requires_grad_() if one["leaf"] else x for x, one in zip(inputs, case["inputs"])]
            self.leaves = [x for x, one in zip(inputs, case["inputs"]) if one["leaf"]]
        torch.set_grad_enabled(case["grad"])
        self.forward = program(case, inputs)
        if COMPILE and not narrow:
            self.forward = torch.compile(self.forward)
        self.weights = None

    def roots(self, given):
        return list(self.placed_roots(given).values())

    def placed_roots(self, given):
        # By their places among all outputs: which of them have a gradient differs between libraries (the sign of a determinant).
        many = given if isinstance(given, (tuple, list)) else (given,)
        return {k: y for k, y in enumerate(programs.outputs(many)) if y.requires_grad and y.is_floating_point()}

    def call(self):
        if not self.case["grad"]:
            return self.forward
        placed = self.placed_roots(self.forward())
        roots = list(placed.values())
        if not roots or not self.leaves:
            raise NotImplementedError("nothing to differentiate")
        if self.narrow:
            self.weights = [w.double() for w in self.narrow.weights]
        else:
            one = {"layout": "contiguous", "fill": {"within": [0.5, 1.5]}}
            self.weights = [tensor({**one, "shape": y.shape, "dtype": programs.NAMES[y.dtype], "seed": 9001 + k}) for k, y in placed.items()]
        forward, leaves, weights, roots_of = self.forward, self.leaves, self.weights, self.roots
        grad = torch.autograd.grad

        def alone():
            y = forward()
            return y, grad(y, leaves, weights[0], allow_unused=True)

        def several():
            y = forward()
            return y, grad(roots_of(y), leaves, weights, allow_unused=True)

        y = self.forward()
        return alone if isinstance(y, torch.Tensor) and not y.is_complex() else several

    def shown(self, call):
        if not self.case["grad"]:
            return programs.outputs(call())
        y, grads = call()
        return programs.outputs(y) + [torch.zeros_like(x) if g is None else g for x, g in zip(self.leaves, grads)]


def ready(case):
    passes = Passes(case)
    call = passes.call()

    def output():
        results = passes.shown(call)
        values = np.concatenate([numbers(y) for y in results]) if results else np.zeros(0)
        # Where nothing is to be compared but shapes, there is nothing to be far from.
        spread = distances(passes, results, values) if case["compared"] else None
        top = head(results)
        parts = [np.array([3 + len(top), values.size, spread is not None, *top], dtype=np.float64), said(values)]
        return np.concatenate(parts + ([spread] if spread is not None else []))

    shown = {}

    def once():
        # What comes from a stream of random numbers is another each time; only its shape is looked at.
        if "it" not in shown:
            shown["it"] = output()
        return shown["it"]

    torch.set_grad_enabled(case["grad"])
    return Ready(call, once)


def distances(narrow, results, values):
    if not any(y.dtype in (torch.float16, torch.bfloat16, torch.float32) for y in results):
        return None
    try:
        passes = Passes(narrow.case, narrow)
        wide = passes.shown(passes.call())
        far = np.concatenate([numbers(y) for y in wide])
    except Exception:
        return None
    finally:
        torch.set_grad_enabled(narrow.case["grad"])
    if far.size != values.size:
        return None
    with np.errstate(all="ignore"):
        distance = np.abs(values - far)
    distance[(values == far) | (np.isnan(values) & np.isnan(far))] = 0.0
    return np.where(np.isfinite(distance), distance, 1e300)


class Table(dict):
    """Calls by name, built when they are asked for."""

    def get(self, name, default=None):
        case = super().get(name)
        return (lambda: ready(case)) if case else default


def version():
    isa = torch.backends.cpu.get_cpu_capability()
    one = os.environ.get("ONEDNN_MAX_CPU_ISA", "unset")
    return f"{torch.__version__}, {torch.get_num_threads()} threads, kernels {isa}, oneDNN {one}, MKL {os.environ.get('MKL_ENABLE_INSTRUCTIONS', 'unset')}"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        cases = [json.loads(line) for line in file]
    serve("torch-compile" if COMPILE else "torch", version(), Table({case["name"]: case for case in cases}))
