"""Runs programs of `cargo xtask programs` in PyTorch: one JSON program a line comes in, one JSON answer a line goes out.

An answer says for each call what PyTorch gave (shape, dtype, elements, and the gradient of a weighted sum by each float
argument) or that it refused. Beside a float result stands, element by element, how far the same call in f64 is from it: what
a rounding in this call may do. Nothing here knows what Adamant gives. crates/conformance/src/programs.rs says the format.
"""

import json
import os
import struct
import sys
import warnings

import numpy
import torch
import torch.nn.functional as F
from functorch.dim import DimensionBindError
from functorch.einops import rearrange

warnings.simplefilter("ignore")
DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# What an element is on its way through bytes, where NumPy has no such dtype.
BITS = {torch.bfloat16: torch.int16}
# rtol and atol of the goldens: a distance below is no news.
TOLERANCE = {torch.float64: (1e-7, 1e-9), torch.float32: (1.3e-5, 1e-5), torch.float16: (2e-3, 1e-4), torch.bfloat16: (1.6e-2, 1e-3)}
WEIGHTS = [0.25, -0.5, 1.0, 0.75, -1.25]
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError, ZeroDivisionError, AttributeError, AssertionError, DimensionBindError)
SPACES = [torch.Tensor, torch, torch.linalg, torch.special, torch.fft, F]


class Unknown(Exception):
    pass


# What an exception says that is of the spelling and not of the operands: the function may be meant elsewhere.
SPELLING = (
    "positional argument", "invalid combination of arguments", "unexpected keyword", "missing ", "deprecated since version", "must be tuple of ints, not int",
    "expected Tensor as element 0 in argument 0", "takes no arguments", "deprecated in favor of", "multiple values for argument",
)


def named(name, *args):
    """A function by its name, wherever PyTorch has it with these arguments."""
    for space in SPACES:
        function = getattr(space, name, None)
        if not callable(function):
            continue
        for given in [args, args[0]] if len(args) == 1 and isinstance(args[0], list) else [args]:
            try:
                return function(*given)
            except (TypeError, RuntimeError) as error:
                if not any(words in str(error) for words in SPELLING):
                    raise
    raise Unknown(name)


def every(x, axes):
    return tuple(range(x.ndim)) if axes is None else axes


def kept(x, axes):
    """The shape of a reduction that keeps its axes."""
    gone = [a % max(x.ndim, 1) for a in every(x, axes)]
    return [1 if k in gone else n for k, n in enumerate(x.shape)]


def pairs(x):
    """Pairs along the last axis as complex numbers."""
    return torch.view_as_complex(x.contiguous())


def places(x, index):
    """Where in a flat tensor an index points, as NumPy says it: for slices that run backwards, which PyTorch has not."""
    return torch.from_numpy(numpy.ascontiguousarray(numpy.arange(x.numel()).reshape(tuple(x.shape))[index]).copy())


def backwards(index):
    return any(isinstance(item, slice) and item.step is not None and item.step < 0 for item in index)


def unstepped(index):
    """NumPy's items: without tensors."""
    return tuple(item.numpy() if isinstance(item, torch.Tensor) else item for item in index)


def read(x, index):
    if backwards(index):
        return x.reshape(-1)[places(x, unstepped(index))]
    return x[index]


def written(x, index, values, accumulate=False):
    if backwards(index):
        flat = x.clone().reshape(-1)
        at = places(x, unstepped(index))
        if accumulate:
            flat = flat.index_put((at,), torch.as_tensor(values, dtype=x.dtype) if not isinstance(values, torch.Tensor) else values, accumulate=True)
        else:
            flat[at] = values
        return flat.reshape(x.shape)
    y = x.clone()
    if accumulate:
        at = torch.arange(x.numel()).reshape(x.shape)[index]
        values = values if isinstance(values, torch.Tensor) else torch.as_tensor(values, dtype=x.dtype)
        if values.dtype != x.dtype and not torch.can_cast(values.dtype, x.dtype):
            raise RuntimeError("values of another dtype")
        while values.ndim > at.ndim and values.shape[0] == 1:
            values = values[0]
        return y.reshape(-1).index_put((at,), torch.broadcast_to(values.to(x.dtype), at.shape), accumulate=True).reshape(x.shape)
    y[index] = values
    return y


def added(x, index, values):
    return written(x, index, values, accumulate=True)


def clipped(*args):
    """The gradients after their norm is clipped."""
    *gradients, largest, order = args
    for g in gradients:
        if not g.is_floating_point():
            raise TypeError("gradients are of floats")
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients):
        parameter.grad = g.detach().clone()
    torch.nn.utils.clip_grad_norm_(parameters, largest, order)
    return [parameter.grad for parameter in parameters]


def finite(x):
    """The matrix, if PyTorch's library outlives it."""
    if not bool(x.isfinite().all()):
        raise RuntimeError("non-finite values")
    return x


def below(labels, count):
    """The labels, if all of them are among so many: PyTorch looks at none and writes where they point."""
    if bool(((labels < 0) | (labels >= count)).any()):
        raise IndexError("a label out of range")
    return labels


def sizes_of(decomposed):
    """Complex eigenvalues' sums and the vectors' sizes: what does not depend on their order and phases."""
    values, vectors = decomposed
    return values.real.square().sum(-1) + values.imag.square().sum(-1), (torch.view_as_real(vectors).square().sum(-1) * values.real.unsqueeze(-2)).sum(-1)


SPACE = {
    "torch": torch, "F": F, "named": named, "every": every, "read": read, "written": written, "added": added, "pairs": pairs, "kept": kept,
    "clipped": clipped, "sizes_of": sizes_of, "finite": finite, "below": below, "rearrange": rearrange,
    "F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32,
}
COMPILED = {}


def call(text, args):
    if text not in COMPILED:
        COMPILED[text] = eval("lambda x: " + text, dict(SPACE))
    return COMPILED[text](args)


def array(stored):
    dtype = DTYPES[stored["dtype"]]
    raw = bytearray(bytes.fromhex(stored["data"]))
    if not raw:
        return torch.zeros(stored["shape"], dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(stored["shape"]).clone()


def stored(x):
    # Zeros that autograd has not written down are written here.
    x = (x.clone() if x._is_zerotensor() else x).detach().contiguous()
    dtype = NAMES.get(x.dtype, str(x.dtype))
    raw = x.view(BITS[x.dtype]) if x.dtype in BITS else x
    return {"shape": list(x.shape), "dtype": dtype, "data": raw.numpy().tobytes().hex()}


def outputs(result):
    if isinstance(result, (tuple, list)):
        return [one for part in result for one in outputs(part)]
    if not isinstance(result, torch.Tensor):
        result = torch.as_tensor(result)
    return [torch.view_as_real(result.resolve_conj()) if result.is_complex() else result.resolve_neg()]


def argument(arg, values):
    """An argument of a program as Python has it. A value that is not there raises KeyError."""
    if arg == "all":
        return None
    kind, what = next(iter(arg.items()))
    if kind == "input":
        return values["input", what]
    if kind == "result":
        return values[tuple(what)]
    if kind == "list":
        return [argument(one, values) for one in what]
    if kind == "ints":
        return tuple(what)
    if kind == "dtype":
        return DTYPES[what]
    if kind == "index":
        return tuple(item(one, values) for one in what)
    return what


def item(one, values):
    if one == "ellipsis":
        return ...
    if one == "new_axis":
        return None
    kind, what = next(iter(one.items()))
    if kind == "slice":
        return slice(*what)
    return argument(what, values) if kind == "value" else what


def mapped(f, arg):
    """The argument with `f` on each tensor of floats in it."""
    if isinstance(arg, torch.Tensor):
        return f(arg) if arg.is_floating_point() else arg
    return [mapped(f, one) for one in arg] if isinstance(arg, list) else arg


def floats(args):
    return [one for arg in args for one in (arg if isinstance(arg, list) else [arg]) if isinstance(one, torch.Tensor) and one.is_floating_point()]


def weights(x):
    k = torch.arange(x.numel(), dtype=torch.int64) % len(WEIGHTS)
    return torch.tensor(WEIGHTS, dtype=torch.float64)[k].reshape(x.shape).to(x.dtype)


def gradients(results, leaves):
    """Of the weighted sum of the results; None: nothing flows there."""
    roots = [y for y in results if y.requires_grad and y.is_floating_point()]
    if not roots or not leaves:
        return [None] * len(leaves)
    return list(torch.autograd.grad(roots, leaves, [weights(y) for y in roots], allow_unused=True, retain_graph=True))


def spread(x, wide, scale=1):
    """How far apart, as hexadecimal f64; None where it is below the tolerance everywhere."""
    if x is None or wide is None or not x.is_floating_point() or x.dtype == torch.float64 or x.shape != wide.shape:
        return None
    rtol, atol = TOLERANCE[x.dtype]
    there = x.detach().double()
    far = (there - wide.detach().double()).abs()
    # Where one of both is no finite number nothing can be said, unless both are the same.
    same = (there == wide) | (there.isnan() & wide.isnan())
    far = torch.where(same, 0.0, torch.where(far.isfinite(), far, torch.inf))
    if bool((far <= scale * (rtol * there.abs() + atol) / 8).all()):
        return None
    return b"".join(struct.pack("<d", v) for v in far.reshape(-1).tolist()).hex()


def differentiated(text, args):
    leaves_of = lambda given: [mapped(lambda t: t.detach().clone().requires_grad_(), arg) for arg in given]
    own = leaves_of(args)
    try:
        results = outputs(call(text, own))
        grads = gradients(results, floats(own))
    except REFUSALS:
        # Refused is only the gradient, if the call itself is not.
        results = outputs(call(text, args))
        grads = []
    try:
        wide = leaves_of([mapped(lambda t: t.double(), arg) for arg in args])
        wide_results = outputs(call(text, wide))
        wide_grads = gradients(wide_results, floats(wide))
    except REFUSALS:
        wide_results, wide_grads = [], []
    if len(wide_results) != len(results) or len(wide_grads) != len(grads):
        wide_results, wide_grads = [None] * len(results), [None] * len(grads)
    given = [{"value": stored(y), "spread": spread(y, w)} for y, w in zip(results, wide_results)]
    by = [None if g is None else {"value": stored(g), "spread": spread(g, w)} for g, w in zip(grads, wide_grads)]
    return {"given": {"outputs": given, "gradients": by}}


def plain(args):
    return [mapped(lambda t: t.detach(), arg) for arg in args]


def answer(program):
    """Each call on PyTorch's own results; and, through the whole program, the gradient by its inputs."""
    values, answers = {}, []
    inputs = [array(one) for one in program["inputs"]]
    wanted = [tuple(one) for one in program["backward"]]
    flows = True
    for k, x in enumerate(inputs):
        values["input", k] = x.requires_grad_() if wanted and x.is_floating_point() else x
    for k, one in enumerate(program["calls"]):
        try:
            args = [argument(arg, values) for arg in one["args"]]
        except KeyError:
            answers.append("skipped")
            continue
        try:
            said = differentiated(one["torch"], plain(args)) if wanted else None
            try:
                results = outputs(call(one["torch"], args))
            except REFUSALS:
                # A target, say, that is not to be differentiated by: the program goes on, and its gradient is nobody's.
                results = outputs(call(one["torch"], plain(args)))
                flows = False
        except Unknown:
            answers.append("unknown")
            continue
        except (*REFUSALS, KeyError) as error:
            answers.append({"refused": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]})
            continue
        answers.append(said or undifferentiated(one["torch"], args, results))
        for n, y in enumerate(results):
            values[k, n] = y
    return {"calls": answers, "gradients": whole(inputs, [values[at] for at in wanted if at in values]) if flows else []}


def undifferentiated(text, args, results):
    try:
        wide = outputs(call(text, [mapped(lambda t: t.double(), arg) for arg in args]))
    except REFUSALS:
        wide = []
    if len(wide) != len(results):
        wide = [None] * len(results)
    return {"given": {"outputs": [{"value": stored(y), "spread": spread(y, w)} for y, w in zip(results, wide)], "gradients": []}}


def whole(inputs, results):
    leaves = [x for x in inputs if x.requires_grad]
    try:
        by = iter(gradients(results, leaves))
    except REFUSALS:
        return []
    return [None if g is None else stored(g) for g in (next(by) if x.requires_grad else None for x in inputs)] if leaves else []


if __name__ == "__main__":
    torch.set_num_threads(1)
    # What PyTorch itself prints goes where errors go: here are only answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=out, flush=True)
