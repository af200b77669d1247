"""Scales of PyTorch's `torch.amp.GradScaler` in random scripts of good and bad steps, for `crates/amp/tests/torch.rs`:

    python scaler.py > crates/amp/tests/torch.json

Each script has one or two optimizers and options of its own; in each step some optimizers meet a gradient of infinity or NaN. Weights
move by powers of two, so that they are exact.
"""

import json
import random

import torch

draw = random.Random(2611)
scripts = []
for number in range(48):
    options = {
        "init_scale": draw.choice([65536.0, 1024.0, 1.0, 3.0, 2.0**100, 2.0**127]),
        "growth_factor": draw.choice([2.0, 2.0, 4.0, 1.5, 1.1]),
        "backoff_factor": draw.choice([0.5, 0.5, 0.25, 0.3, 0.9]),
        "growth_interval": draw.choice([1, 2, 3, 5, 8]),
    }
    scaler = torch.amp.GradScaler("cpu", **options)
    rate_of_bad = draw.choice([0.02, 0.1, 0.4])
    weights = [torch.ones(2, requires_grad=True) for _ in range(draw.choice([1, 2]))]
    optimizers = [torch.optim.SGD([w], lr=0.25) for w in weights]
    steps, scales = [], [scaler.get_scale()]
    for step in range(50):
        if step == 25 and number % 4 == 0:
            scaler.set_growth_interval(options["growth_interval"] + 2)
        kinds = "".join(draw.choice("in") if draw.random() < rate_of_bad else "." for _ in optimizers)
        for kind, weight, optimizer in zip(kinds, weights, optimizers):
            factor = {".": 0.5, "i": float("inf"), "n": float("nan")}[kind]
            optimizer.zero_grad()
            # One gradient is good in any case.
            scaler.scale((weight * torch.tensor([0.5, factor])).sum() * 1.0).backward()
            if draw.random() < 0.3:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
        scaler.update()
        steps.append(kinds)
        scales.append(scaler.get_scale())
    scripts.append({**options, "steps": steps, "scales": scales, "weights": [w.tolist() for w in weights]})
print("[")
print(",\n".join(json.dumps(script) for script in scripts))
print("]")
