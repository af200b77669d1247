"""What a card does in PyTorch, for `cargo xtask gpu-pack`: one JSON line each.

    python gpu_torch.py gpt2 --batch 32 --steps 24 [--context 1024] [--device cuda:0]
    python gpu_torch.py pinned [--device cuda:0]

`gpt2` is examples/gpt2: the same sizes, bf16 with f32 weights, fused AdamW, compiled, flash attention; tokens in a second behind the
first four steps. `pinned` is the bus: pinned memory to the card and back.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.qkv(self.ln_1(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(args.vocabulary, args.features), nn.Embedding(args.context, args.features)
        self.blocks = nn.ModuleList(Block(args.features, args.heads) for _ in range(args.layers))
        self.ln_f = nn.LayerNorm(args.features)
        self.head = nn.Linear(args.features, args.vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt2(args):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    net = Gpt(args).to(args.device)
    matrices, others = ([p for p in net.parameters() if (p.dim() >= 2) == wide] for wide in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    on_card = args.device != "cpu"
    optimizer = torch.optim.AdamW(groups, 6e-4, betas=(0.9, 0.95), fused=on_card)
    forward = torch.compile(net) if on_card else net
    x = torch.randint(args.vocabulary, (args.batch, args.context + 1), device=args.device)
    settle = torch.cuda.synchronize if on_card else (lambda: None)
    for step in range(args.steps):
        if step == 4:
            settle()
            begun = time.perf_counter()
        with torch.autocast(torch.device(args.device).type, torch.bfloat16):
            loss = forward(x[:, :-1], x[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    settle()
    seconds = time.perf_counter() - begun
    return {"tokens_per_second": (args.steps - 4) * args.batch * args.context / seconds, "loss": loss.item()}


def pinned(args):
    n = 256 << 20
    host, card = torch.empty(n, dtype=torch.uint8, pin_memory=True), torch.empty(n, dtype=torch.uint8, device=args.device)

    def best(copy):
        seconds = []
        for _ in range(8):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            copy()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        return n / min(seconds) / 1e9

    up = best(lambda: card.copy_(host, non_blocking=True))
    return {"up_gbps": up, "down_gbps": best(lambda: host.copy_(card, non_blocking=True))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["gpt2", "pinned"])
    for name, value in (("layers", 12), ("heads", 12), ("features", 768), ("context", 1024), ("vocabulary", 50257), ("batch", 32), ("steps", 24)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    print(json.dumps({"gpt2": gpt2, "pinned": pinned}[args.what](args)))
