"""The runs of examples/mnist and examples/chargpt in PyTorch: same nets, same optimizers, same numbers of steps.

    python xtask/peers/train_torch.py mnist DIR [--threads N] [--seed N]
    python xtask/peers/train_torch.py chargpt DIR [--threads N] [--seed N] [--steps N]

Prints one JSON line: seconds of training (without reading data and testing), and the test part's figures.
"""
import argparse
import gzip
import json
import math
import pathlib
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def idx(path):
    raw = gzip.decompress(path.read_bytes())
    axes = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * k:8 + 4 * k], "big") for k in range(axes)]
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape).copy())


def mnist(args):
    part = lambda name: ((idx(args.dir / f"{name}-images-idx3-ubyte.gz")[:, None].float() / 255 - 0.1307) / 0.3081, idx(args.dir / f"{name}-labels-idx1-ubyte.gz").long())
    (x, y), (tx, ty) = part("train"), part("t10k")
    net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
                        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    epochs, batch = 8, 64
    steps = epochs * math.ceil(len(x) / batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=5e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    begun = time.perf_counter()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for rows in order.split(batch):
            loss = F.cross_entropy(net(x[rows]), y[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - begun
    net.eval()
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(tx.split(256), ty.split(256)))
    return {"seconds": seconds, "accuracy": right / len(tx)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in self.qkv(self.norm1(x)).split(w, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, 0.02)
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.wte.weight.t()


def chargpt(args):
    text = (args.dir / "input.txt").read_text()
    letters = sorted(set(text))
    code = {c: k for k, c in enumerate(letters)}
    data = torch.tensor([code[c] for c in text])
    cut = int(len(data) * 0.9)
    train, test = data[:cut], data[cut:]
    context, batch, steps = 64, 12, args.steps
    net = Gpt(len(letters), context, 4, 4, 128)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    course = lambda t: max(t, 1) / 100 if t < 100 else 0.1 + 0.45 * (1 + math.cos(math.pi * (t - 100) / (steps - 100)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, course)
    begun = time.perf_counter()
    for _ in range(steps):
        at = torch.randint(len(train) - context, (batch,))
        x = torch.stack([train[i:i + context] for i in at])
        y = torch.stack([train[i + 1:i + 1 + context] for i in at])
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    seconds = time.perf_counter() - begun
    windows = (len(test) - 1) // context
    x, y = test[: windows * context].view(-1, context), test[1: windows * context + 1].view(-1, context)
    with torch.no_grad():
        loss = sum(F.cross_entropy(net(a).flatten(0, 1), b.flatten(), reduction="sum").item() for a, b in zip(x.split(256), y.split(256)))
    return {"seconds": seconds, "loss": loss / y.numel()}


parser = argparse.ArgumentParser()
parser.add_argument("run", choices=["mnist", "chargpt"])
parser.add_argument("dir", type=pathlib.Path)
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--steps", type=int, default=2000)
args = parser.parse_args()
if args.threads:
    torch.set_num_threads(args.threads)
torch.manual_seed(args.seed)
result = {"mnist": mnist, "chargpt": chargpt}[args.run](args)
print(json.dumps({"run": args.run, "peer": f"torch {torch.__version__}", "threads": torch.get_num_threads(), "seed": args.seed, **result}))
