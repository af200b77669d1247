"""What the Python runners share: the protocol of `bench serve`, the inputs, and the clock.

A runner gives `serve` a table of builders by workload. A builder makes the inputs and returns a `Ready`: the call that is
timed, which waits for its result, and where there is one to compare, a function that gives the output of such a call as a
flat array. Shapes are those of the workloads' document; inputs are the numbers that all runners use.
"""

import ctypes
import glob
import json
import signal
import sys
import time
from typing import Callable, NamedTuple, Optional

import numpy as np

PROTOCOL = 1
# Waits until a device that works beside the host has done what it was handed; a runner puts its library's call here.
settle = lambda: None


class Ready(NamedTuple):
    call: Callable[[], object]
    output: Optional[Callable[[], np.ndarray]] = None


class Unsupported(Exception):
    """The workload cannot be had in this library."""


def words(n, seed):
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the first n words of a seed."""
    z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(shape, seed):
    """float32, uniform in [-1, 1)."""
    n = int(np.prod(shape))
    return ((words(n, seed) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)).reshape(shape)


def indices(shape, bound):
    """int64 below bound, spread over all of it."""
    n = int(np.prod(shape))
    return (np.arange(n, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(bound)).astype(np.int64).reshape(shape)


def queued():
    """Nanoseconds for which threads of this process waited for a core so far."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        try:
            with open(path) as f:
                total += int(f.read().split()[1])
        except (OSError, IndexError, ValueError):
            pass
    return total


def status(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return None


def growth(call, calls):
    """Bytes by which the peak during the calls is above the level before them."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        return None
    before = status("VmRSS:")
    for _ in range(calls):
        call()
    return max(0, status("VmHWM:") - before)


def sample(call, calls):
    waited, start = queued(), time.perf_counter_ns()
    for _ in range(calls):
        call()
    settle()
    ns = time.perf_counter_ns() - start
    return {"ns": ns / calls, "waited": (queued() - waited) / max(ns, 1)}


def warm(call, seconds):
    call()
    settle()
    start, calls = time.perf_counter_ns(), 0
    while calls < 2 or time.perf_counter_ns() - start < seconds * 1e9:
        call()
        settle()
        calls += 1
    return {"ns": (time.perf_counter_ns() - start) / calls}


def answer(table, ready, ask):
    """The answer and what is prepared from now on."""
    do = ask["do"]
    if do == "list":
        return {"workloads": list(table)}, ready
    if do == "prepare":
        ready = None
        build = table.get(ask["workload"])
        if build is None or ask.get("small"):
            return {"error": f"there is no workload {ask['workload']}", "unsupported": True}, None
        try:
            ready = build()
        except (Unsupported, NotImplementedError) as e:
            return {"error": str(e), "unsupported": True}, None
        return {}, ready
    if do == "finish":
        return {}, None
    if ready is None:
        return {"error": "nothing is prepared"}, None
    if do == "warm":
        return warm(ready.call, ask["seconds"]), ready
    if do == "sample":
        return sample(ready.call, max(1, ask["calls"])), ready
    if do == "memory":
        return {"growth": growth(ready.call, max(1, ask["calls"]))}, ready
    if do == "values":
        if ready.output is None:
            return {"error": "it shows no output"}, ready
        values = ready.output().astype(np.float64).ravel()
        return {"values": [float(values[p % values.size]) for p in ask["places"]]}, ready
    return {"error": f"not understood: {do}"}, ready


def end_with_parent():
    """Who measures may be killed while this program is stopped, and nobody would wake it to see its input end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def serve(implementation, version, table):
    end_with_parent()
    # Libraries print to stdout as well; documents go where they cannot reach.
    out, sys.stdout = sys.stdout, sys.stderr

    def say(document):
        out.write(json.dumps(document) + "\n")
        out.flush()

    say({"protocol": PROTOCOL, "impl": implementation, "version": version})
    ready = None
    for line in sys.stdin:
        try:
            said, ready = answer(table, ready, json.loads(line))
        except Exception as e:  # whatever it is, it belongs into the answer
            said, ready = {"error": f"{type(e).__name__}: {e}"}, None
        say(said)


def device():
    """The name behind `--device`, as PyTorch writes it."""
    return sys.argv[sys.argv.index("--device") + 1] if "--device" in sys.argv else "cpu"


def threads():
    """The number behind `--threads`."""
    return int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1


GEMMS = {str(n): (n, n, n, False, False) for n in (64, 128, 256, 512, 1024, 2048, 4096)}
for _name, _sizes in {"m1_n768_k3072": (1, 768, 3072), "m64_n768_k768": (64, 768, 768), "m1024_n2304_k768": (1024, 2304, 768),
                      "m1024_n3072_k768": (1024, 3072, 768)}.items():
    for _suffix in ("nn", "nt") + (("tn",) if _name == "m1024_n3072_k768" else ()):
        GEMMS[f"{_name}_{_suffix}"] = (*_sizes, _suffix[0] == "t", _suffix[1] == "t")

# channels in and out, height = width, kernel, stride, padding
CONVOLUTIONS = {
    "conv_3x3_64_64_56": (64, 64, 56, 3, 1, 1),
    "conv_3x3_256_256_14": (256, 256, 14, 3, 1, 1),
    "conv_1x1_256_64_56": (256, 64, 56, 1, 1, 0),
    "conv_7x7_3_64_224": (3, 64, 224, 7, 2, 3),
}


def operands(batch, m, n, k, ta, tb):
    """Both operands as they are stored: transposed ones with their axes swapped."""
    lead = [batch] if batch > 1 else []
    a = uniform(lead + ([k, m] if ta else [m, k]), 1)
    b = uniform(lead + ([n, k] if tb else [k, n]), 2)
    return a, b
