"""Draws indices, asks PyTorch what they read, write and refuse, and writes indexing.json, which `indexing_torch.rs` replays.

    python crates/core/tests/python/indexing.py > crates/core/tests/indexing.json

Needs torch and numpy; the tests need neither. The tensor is 0, 1, 2, ... in a shape, so that a value says where it was read.
Slices with a step below 0, which PyTorch refuses, are NumPy's; in those no integer stands beside a tensor, because NumPy
counts it among the tensors and PyTorch does not. Two ellipses are NumPy's, too: PyTorch takes them.

A case: `x` the shape; `i` the items (a number; a string `start:end:step`, `...`, `None`; an object with `dtype`, `shape` and
`at`); then either `error` (the exception), or `shape` and `values` of what is read, `grad` of the tensor where the cotangent is
1, 2, 3, ..., and `set`, the tensor after -1, -2, -3, ... were written, where no place is named twice.
"""

import json
import math
import random

import numpy
import torch

SEED = 20240914
INTEGERS = {"i64": torch.int64, "i32": torch.int32}


def bound(draw, size):
    """Mostly inside, now and then far outside."""
    return None if draw.random() < 0.35 else draw.randint(-size - 3, size + 3)


def slice_text(draw, size, negative):
    step = draw.choice([-1, -2, -3] if negative else [None, None, 1, 2, 3])
    text = [bound(draw, size), bound(draw, size), step]
    return ":".join("" if n is None else str(n) for n in text)


def index_tensor(draw, size, common, faulty):
    """Integers whose shape broadcasts to `common`."""
    shape = [d if draw.random() < 0.75 else 1 for d in common[draw.randint(0, len(common)) :]]
    if faulty == "broadcast":
        shape = shape + [7]
    low, high = (-size, size - 1) if size else (0, -1)
    if faulty == "range":
        high = size + 1
    if high < low:
        shape = [0]
    at = [draw.randint(low, high) for _ in range(math.prod(shape))]
    return {"dtype": draw.choice(list(INTEGERS)), "shape": shape, "at": at}


def mask(draw, sizes, faulty):
    sizes = list(sizes)
    if faulty == "mask" and sizes:
        sizes[-1] += 1
    share = draw.choice([0.3, 0.6, 0.0, 1.0])
    return {"dtype": "bool", "shape": sizes, "at": [int(draw.random() < share) for _ in range(math.prod(sizes))]}


def draw_items(draw, shape, numpys):
    faulty = draw.choice([None] * 9 + ["range", "broadcast", "mask", "many", "number", "dots", "float", "step"])
    kinds = ["slice", "tensor", "tensor"] + ([] if numpys else ["number"]) + (["mask"] if draw.random() < 0.4 else [])
    common = [draw.randint(1, 3) for _ in range(draw.randint(1, 2))]
    items, axis, dots, news = [], 0, draw.random() < 0.4, 0
    while axis < len(shape) and draw.random() < 0.92:
        if draw.random() < 0.15 and news < 2:
            items.append("None")
            news += 1
        if dots and draw.random() < 0.5:
            # How many axes it stands for is settled by what is left for the items behind it.
            skip = draw.randint(0, len(shape) - axis)
            items.append(("...", skip))
            axis, dots = axis + skip, False
            continue
        size, kind = shape[axis], draw.choice(kinds)
        if kind == "slice":
            items.append(slice_text(draw, size, numpys and draw.random() < 0.6))
        elif kind == "number":
            if size == 0 and faulty != "number":
                items.append("::")
            else:
                items.append(draw.randint(-size, size - 1) if faulty != "number" else size)
        elif kind == "tensor":
            items.append(index_tensor(draw, size, common, faulty))
            if numpys and not items[-1]["shape"]:
                items[-1]["shape"] = [1]
            if draw.random() < 0.1:
                items[-1] = {"dtype": "i64", "shape": [], "at": [draw.randint(0, max(size - 1, 0))]} if not numpys else ":"
        else:
            k = draw.randint(0 if not numpys else 1, len(shape) - axis)
            items.append(mask(draw, shape[axis : axis + k], faulty))
            axis += k - 1
        axis += 1
    # The ellipsis must stand for as many axes as were skipped: whole axes fill up what is left at the end.
    if any(isinstance(item, tuple) for item in items):
        items += [":"] * (len(shape) - axis)
        items = ["..." if isinstance(item, tuple) else item for item in items]
    if faulty == "many":
        items += [":"] * (len(shape) + 1)
    if faulty == "dots":
        items += ["...", "..."]
    if faulty == "float":
        items = [{"dtype": "f32", "shape": [1], "at": [0]}] + items
    if faulty == "step" and not numpys:
        items = ["::0"] + items[1:]
    return items


def to_python(item, numpys):
    if isinstance(item, int):
        return item
    if item == "...":
        return Ellipsis
    if item == "None":
        return None
    if isinstance(item, str):
        return slice(*(int(n) if n else None for n in item.split(":")))
    dtype = {**INTEGERS, "bool": torch.bool, "f32": torch.float32}[item["dtype"]]
    t = torch.tensor(item["at"], dtype=dtype).reshape(item["shape"])
    return t.numpy() if numpys else t


def of_torch(shape, index):
    n = math.prod(shape)
    x = torch.arange(n, dtype=torch.float64).reshape(shape).requires_grad_()
    y = x[index]
    y.backward(torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape))
    case = {"shape": list(y.shape), "values": y.flatten().tolist(), "grad": x.grad.flatten().tolist()}
    if len(set(case["values"])) == len(case["values"]):
        written = x.detach().clone()
        written[index] = -torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape)
        case["set"] = written.flatten().tolist()
    return case


def of_numpy(shape, index):
    x = numpy.arange(math.prod(shape), dtype=float).reshape(shape)
    y = x[index]
    cotangent = numpy.arange(1.0, y.size + 1).reshape(y.shape)
    grad = numpy.zeros_like(x)
    numpy.add.at(grad, index, cotangent)
    case = {"shape": list(y.shape), "values": y.flatten().tolist(), "grad": grad.flatten().tolist()}
    if len(set(case["values"])) == len(case["values"]):
        x[index] = -cotangent
        case["set"] = x.flatten().tolist()
    return case


def whole(case):
    return {k: [int(n) for n in v] if k in ("values", "grad", "set") else v for k, v in case.items()}


def cases(draw, count, numpys):
    made, seen, refused = [], set(), 0
    while len(made) < count:
        shape = [draw.choice([1, 2, 3, 3, 4, 0] if draw.random() < 0.15 else [1, 2, 3, 4]) for _ in range(draw.choice([0, 1, 2, 3, 3, 4, 4]))]
        if math.prod(shape) > 48:
            continue
        items = draw_items(draw, shape, numpys)
        if not numpys and items.count("...") > 1:
            continue
        index = tuple(to_python(item, numpys) for item in items)
        try:
            answer = whole((of_numpy if numpys else of_torch)(shape, index))
        except (IndexError, ValueError, RuntimeError, TypeError) as e:
            answer = {"error": type(e).__name__}
        is_large = len(answer.get("values", [])) > 80
        # One in five is a refusal; the same text is asked once.
        if is_large or ("error" in answer and refused * 5 > len(made)) or (text := json.dumps([shape, items])) in seen:
            continue
        refused += "error" in answer
        seen.add(text)
        made.append({"by": "numpy" if numpys else "torch", "x": shape, "i": items, **answer})
    return made


draw = random.Random(SEED)
drawn = cases(draw, 320, False) + cases(draw, 80, True)
print("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in drawn) + "\n]")
