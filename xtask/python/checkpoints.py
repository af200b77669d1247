"""Checkpoints of Adamant in Python, and the other way round; called by `cargo xtask torture python`.

    checkpoints.py probe                    says which packages are there; fails if safetensors and numpy are not
    checkpoints.py check CHECKPOINT FOLDER  loads CHECKPOINT/model.safetensors, compares outputs with
                                            FOLDER/outputs.safetensors, and writes FOLDER/theirs.safetensors with its
                                            outputs in FOLDER/theirs-outputs.safetensors

With PyTorch, an `nn.Sequential` loads the state strictly and computes the outputs; without, numpy computes them.
"""

import json
import os
import sys

import numpy as np
import safetensors
import safetensors.numpy

try:
    import torch
    import safetensors.torch
except ImportError:
    torch = None

NAMES = [
    "0.bias", "0.weight",
    "1.bias", "1.num_batches_tracked", "1.running_mean", "1.running_var", "1.weight",
    "3.bias", "3.weight",
]


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.BatchNorm1d(24), torch.nn.ReLU(), torch.nn.Linear(24, 10)).eval()


def by_torch(path, x):
    model = network()
    model.load_state_dict(safetensors.torch.load_file(path), strict=True)
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


def by_numpy(path, x):
    s = {name: value.astype(np.float64) for name, value in safetensors.numpy.load_file(path).items()}
    h = x @ s["0.weight"].T + s["0.bias"]
    h = (h - s["1.running_mean"]) / np.sqrt(s["1.running_var"] + 1e-5) * s["1.weight"] + s["1.bias"]
    return np.maximum(h, 0) @ s["3.weight"].T + s["3.bias"]


def check(checkpoint, folder):
    path = os.path.join(checkpoint, "model.safetensors")
    ours = safetensors.numpy.load_file(os.path.join(folder, "outputs.safetensors"))
    with safetensors.safe_open(path, framework="numpy") as file:
        names = sorted(file.keys())
    assert names == NAMES, names
    with open(os.path.join(checkpoint, "manifest.json")) as file:
        manifest = json.load(file)["manifest"]
    assert manifest["files"]["model.safetensors"]["bytes"] == os.path.getsize(path)
    forward = by_torch if torch else by_numpy
    difference = float(np.abs(forward(path, ours["x"]) - ours["y"]).max())
    assert difference <= 1e-5, f"outputs differ by {difference}"

    rng = np.random.default_rng(3)
    theirs = os.path.join(folder, "theirs.safetensors")
    if torch:
        torch.manual_seed(3)
        model = network()
        model.train()
        model(torch.randn(32, 16))
        safetensors.torch.save_file(model.state_dict(), theirs)
    else:
        state = {name: rng.uniform(0.1, 1.0, value.shape).astype(value.dtype) for name, value in safetensors.numpy.load_file(path).items()}
        safetensors.numpy.save_file(state, theirs)
    x = rng.standard_normal((8, 16)).astype(np.float32)
    y = np.ascontiguousarray(forward(theirs, x)).astype(np.float32)
    safetensors.numpy.save_file({"x": x, "y": y}, os.path.join(folder, "theirs-outputs.safetensors"))
    print(f"{len(names)} tensors, outputs differ by {difference:.1e}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["probe"]:
            print(f"safetensors {safetensors.__version__}, numpy {np.__version__}, torch {torch.__version__ if torch else 'absent'}")
        case ["check", checkpoint, folder]:
            check(checkpoint, folder)
        case _:
            sys.exit(__doc__)
