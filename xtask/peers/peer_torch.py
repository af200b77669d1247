"""PyTorch, eager, with `--compile`, or on a card with `--graphs` (whole steps of training as CUDA graphs) or `--cudnn` (attention by
cuDNN instead of flash attention), speaking the protocol of `bench serve`."""

import contextlib
import functools
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import models_torch as models
import peer
from peer import CONVOLUTIONS, GEMMS, Ready, device, indices, operands, serve, threads, uniform

COMPILE, GRAPHS, CUDNN = ("--" + word in sys.argv for word in ("compile", "graphs", "cudnn"))
torch.set_num_threads(threads())
torch.manual_seed(1)
CUDA = device() != "cpu"
if CUDA:
    torch.set_default_device(device())
    torch.cuda.set_device(torch.device(device()))
    torch.backends.cudnn.allow_tf32 = False
    peer.settle = torch.cuda.synchronize


def here(array):
    return torch.from_numpy(array).to(torch.get_default_device())


def tensor(shape, seed):
    return here(uniform(shape, seed))


def ready(f, *inputs, shown=True):
    """A function of tensors outside the tape."""
    f = torch.compile(f) if COMPILE else f

    def call():
        with torch.inference_mode():
            return f(*inputs)

    return Ready(call, (lambda: call().float().cpu().numpy()) if shown else None)


def gemm(batch, m, n, k, ta, tb, dtype=torch.float32):
    a, b = (here(x).to(dtype) for x in operands(batch, m, n, k, ta, tb))
    a, b = a.transpose(-1, -2) if ta else a, b.transpose(-1, -2) if tb else b
    return ready(torch.matmul, a, b)


def gemm_int8(n):
    a, b = (here((x * 127).astype(np.int8)) for x in operands(1, n, n, n, False, False))
    return ready(torch._int_mm, a, b, shown=False)


def linear(batch):
    return ready(F.linear, tensor([batch, 1024], 1), tensor([1024, 1024], 2), tensor([1024], 3))


def qlinear(batch):
    layer = nn.Sequential(nn.Linear(1024, 1024))
    layer = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
    return ready(layer, tensor([batch, 1024], 1), shown=False)


def convolution(ci, co, size, k, stride, padding):
    x, w = tensor([1, ci, size, size], 1), tensor([co, ci, k, k], 2)
    return ready(lambda x, w: F.conv2d(x, w, stride=stride, padding=padding), x, w)


def cross_entropy(rows):
    logits = tensor([rows, 50257], 1).requires_grad_()
    target = here(indices([rows], 50257))
    f = lambda x: F.cross_entropy(x, target)
    f = torch.compile(f) if COMPILE else f

    def call():
        logits.grad = None
        f(logits).backward()
        return logits.grad

    # Of the gradient one row, which is not the first: its own class stands at the first place.
    return Ready(call, lambda: call()[1].cpu().numpy())


def add4(grad):
    x, y = tensor([4], 1), tensor([4], 2)
    if not grad:
        return ready(torch.add, x, y)
    x, y = x.requires_grad_(), y.requires_grad_()
    return Ready(lambda: x + y, lambda: (x + y).detach().cpu().numpy())


def tiny_mlp():
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    begin(net)
    x = tensor([1, 16], 1)
    f = torch.compile(lambda x: net(x).square().mean()) if COMPILE else lambda x: net(x).square().mean()

    def call():
        for p in net.parameters():
            p.grad = None
        loss = f(x)
        loss.backward()
        return loss

    # The loss and all gradients.
    shown = lambda: np.concatenate([call().detach().cpu().numpy().ravel()] + [p.grad.cpu().numpy().ravel() for p in net.parameters()])
    return Ready(call, shown)


@torch.no_grad()
def begin(net):
    """The numbers from which all runners begin: within 1/sqrt(fan in), each parameter from its own stream."""
    for k, p in enumerate(net.parameters()):
        fan = p.shape[1:].numel() if p.dim() > 1 else fan
        p.copy_(tensor(p.shape, 1001 + k) / fan**0.5)


def graphed(step):
    """A step as one CUDA graph: captured once it has run a few times on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def call():
        graph.replay()
        return loss.item()

    return Ready(call)


def trained(build, compared=False):
    net, x, target, optimizer = build()
    forward = torch.compile(net) if COMPILE and not GRAPHS else net

    # Gradients of a graph stay where they were when it was captured.
    def step():
        optimizer.zero_grad(set_to_none=not GRAPHS)
        logits = forward(x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target)
        loss.backward()
        optimizer.step()
        return loss

    if GRAPHS:
        for group in optimizer.param_groups:
            group["capturable"] = True
        return graphed(step)
    if compared:
        begin(net)

    def call():
        return step().item()

    # The losses of three steps: what forward, backward and the optimizer give.
    return Ready(call, (lambda: np.array([call() for _ in range(3)])) if compared else None)


def inferred(build):
    net, x = build()
    net.eval()
    return ready(net, x, shown=False)


def prefill():
    net = models.Gpt(50257, 1024, 12, 12, 768, bias=True).eval()
    prompt = here(indices([1, 64], 50257))
    return ready(lambda p: net.step(p, net.caches(64), 0)[:, -1], prompt, shown=False)


def decode():
    net = models.Gpt(50257, 1024, 12, 12, 768, bias=True).eval()
    prompt = here(indices([1, 64], 50257))
    caches = net.caches(128)
    with torch.inference_mode():
        first = net.step(prompt, caches, 0)[:, -1].argmax(-1, keepdim=True)

    def greedy():
        token = first
        for k in range(64):
            token = net.step(token, caches, 64 + k)[:, -1].argmax(-1, keepdim=True)
            token.item()
        return token

    return ready(greedy, shown=False)


# batch, heads, time and features of a head; causal
ATTENTION = {
    "b16_h12_t1024_d64_causal": (16, 12, 1024, 64, True),
    "b4_h16_t4096_d128": (4, 16, 4096, 128, False),
    "b1_h16_t16384_d128_causal": (1, 16, 16384, 128, True),
}


def attention(batch, heads, time, features, causal, backward):
    kernel = contextlib.nullcontext
    if CUDA:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kernel = functools.partial(sdpa_kernel, SDPBackend.CUDNN_ATTENTION if CUDNN else SDPBackend.FLASH_ATTENTION)
    q, k, v = (tensor([batch, heads, time, features], seed).to(torch.bfloat16).requires_grad_(backward) for seed in (1, 2, 3))

    def call():
        with kernel():
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        if not backward:
            return y
        q.grad = k.grad = v.grad = None
        (y * y).sum().backward()
        return v.grad

    return Ready(call, lambda: call().detach().float().cpu().numpy())


def large():
    """What only a card is measured with."""
    square = lambda seed: tensor([8192, 8192], seed)
    row = lambda seed: tensor([8192], seed)
    t = {f"gemm_{word}_{size}": functools.partial(gemm, 1, size, size, size, False, False, dtype)
         for word, dtype, size in (("bf16", torch.bfloat16, 4096), ("bf16", torch.bfloat16, 8192), ("f16", torch.float16, 8192))}
    t |= {
        "copy_64m": lambda: ready(torch.neg, square(1)),
        "add_64m": lambda: ready(torch.add, square(1), square(2)),
        "gelu_xwb_64m": lambda: ready(lambda x, w, b: F.gelu(x * w + b, approximate="tanh"), square(1), row(2), row(3)),
        "sum_last_64m": lambda: ready(lambda x: x.sum(1), square(1)),
        "softmax_65536x1024": lambda: ready(lambda x: x.softmax(-1), tensor([65536, 1024], 1)),
        "layernorm_65536x1024": lambda: ready(lambda x, w, b: F.layer_norm(x, [1024], w, b, 1e-5), tensor([65536, 1024], 1), tensor([1024], 2), tensor([1024], 3)),
        "xent_4096x50257_fwdbwd": lambda: cross_entropy(4096),
    }
    for name, shape in ATTENTION.items():
        for tail, backward in (("fwd", False), ("fwdbwd", True)):
            t[f"attention_bf16_{name}_{tail}"] = functools.partial(attention, *shape, backward)
    return t


def table():
    n = 4096
    t = {f"gemm_f32_{name}": functools.partial(gemm, 1, *sizes) for name, sizes in GEMMS.items()}
    for suffix, tb in (("nn", False), ("nt", True)):
        t[f"bmm_f32_48_256x64x256_{suffix}"] = functools.partial(gemm, 48, 256, 256, 64, False, tb)
    for size in (1024, 2048):
        t[f"gemm_bf16_{size}"] = functools.partial(gemm, 1, size, size, size, False, False, torch.bfloat16)
    t["gemm_int8_1024"] = functools.partial(gemm_int8, 1024)
    for batch in (1, 32):
        t[f"linear_f32_1024_b{batch}"] = functools.partial(linear, batch)
        t[f"qlinear_dyn_int8_1024_b{batch}"] = functools.partial(qlinear, batch)
    t |= {name: functools.partial(convolution, *sizes) for name, sizes in CONVOLUTIONS.items()}
    square, row = (lambda seed: tensor([n, n], seed)), (lambda seed: tensor([n], seed))
    t |= {
        "ew_add_16m": lambda: ready(torch.add, square(1), square(2)),
        "ew_gelu_xwb_16m": lambda: ready(lambda x, w, b: F.gelu(x * w + b, approximate="tanh"), square(1), row(2), row(3)),
        "sum_last_16m": lambda: ready(lambda x: x.sum(1), square(1)),
        "sum_first_16m": lambda: ready(lambda x: x.sum(0), square(1)),
        "softmax_4096x1024": lambda: ready(lambda x: x.softmax(-1), tensor([n, 1024], 1)),
        "layernorm_4096x768": lambda: ready(lambda x, w, b: F.layer_norm(x, [768], w, b, 1e-5), tensor([n, 768], 1), tensor([768], 2), tensor([768], 3)),
        "bcast_add_row_16m": lambda: ready(torch.add, square(1), row(2)),
        "transpose_copy_4096": lambda: ready(lambda x: x.t().contiguous(), square(1)),
        "embedding_32000x768_8192": lambda: ready(lambda i, w: F.embedding(i, w), here(indices([8192], 32000)), tensor([32000, 768], 1)),
        "dropout_16m": lambda: ready(lambda x: F.dropout(x, 0.1, True), square(1), shown=False),
        "xent_2048x50257_fwdbwd": lambda: cross_entropy(2048),
        "small_add4_nograd": lambda: add4(False),
        "small_add4_grad": lambda: add4(True),
        "tiny_mlp_fwdbwd": tiny_mlp,
    }
    t |= {f"train_{name}": functools.partial(trained, build, name in ("mlp_b128", "lenet_b128")) for name, build in models.TRAINED.items()}
    t |= {"infer_resnet50_b1": lambda: inferred(models.resnet50), "infer_minilm_b32_s128": lambda: inferred(models.minilm)}
    t |= {"gpt2_prefill64": prefill, "gpt2_decode64": decode}
    return t | large()


if __name__ == "__main__":
    serve("torch-compile" if COMPILE else "torch-graphs" if GRAPHS else "torch-cudnn" if CUDNN else "torch", torch.__version__, table())
