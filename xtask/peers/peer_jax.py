"""JAX on the CPU, speaking the protocol of `bench serve`. Each workload is one compiled function, and a call waits for its
result."""

import functools
import os

from peer import CONVOLUTIONS, GEMMS, Ready, indices, operands, serve, threads, uniform

# XLA takes its threads from the cores that the process may use; with one thread it is told so.
if threads() == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np


def ready(f, *inputs, shown=True):
    f = jax.jit(f)
    inputs = [jax.device_put(x) for x in inputs]
    call = lambda: jax.block_until_ready(f(*inputs))
    return Ready(call, (lambda: np.asarray(call(), np.float32)) if shown else None)


def gemm(batch, m, n, k, ta, tb, dtype=jnp.float32):
    a, b = (jnp.asarray(x, dtype) for x in operands(batch, m, n, k, ta, tb))
    turned = lambda x, t: jnp.swapaxes(x, -1, -2) if t else x
    return ready(lambda a, b: turned(a, ta) @ turned(b, tb), a, b)


def linear(batch):
    return ready(lambda x, w, b: x @ w.T + b, uniform([batch, 1024], 1), uniform([1024, 1024], 2), uniform([1024], 3))


def convolution(ci, co, size, k, stride, padding):
    f = lambda x, w: jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return ready(f, uniform([1, ci, size, size], 1), uniform([co, ci, k, k], 2))


def norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def entropy(logits, target):
    logits = logits.reshape(-1, logits.shape[-1])
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1).mean()


def cross_entropy():
    target = indices([2048], 50257)
    f, logits = jax.jit(jax.value_and_grad(lambda x: entropy(x, target))), jax.device_put(uniform([2048, 50257], 1))
    call = lambda: jax.block_until_ready(f(logits))
    # Of the gradient one row, which is not the first: its own class stands at the first place.
    return Ready(call, lambda: np.asarray(call()[1][1]))


def dropout():
    x, key = jax.device_put(uniform([4096, 4096], 1)), [jax.random.key(1)]
    f = jax.jit(lambda x, key: jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0))

    def call():
        key[0], now = jax.random.split(key[0])
        return jax.block_until_ready(f(x, now))

    return Ready(call)


def dense(sizes, seed=1001):
    """Weights and biases from which all runners begin: within 1/sqrt(fan in), each from its own stream."""
    layer = lambda k, i, o: (jnp.asarray(uniform([o, i], seed + 2 * k).T / i**0.5), jnp.asarray(uniform([o], seed + 2 * k + 1) / i**0.5))
    return [layer(k, i, o) for k, (i, o) in enumerate(zip(sizes, sizes[1:]))]


def forward(layers, x):
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x @ layers[-1][0] + layers[-1][1]


def tiny_mlp():
    layers, x = dense([16, 16, 16, 1]), uniform([1, 16], 1)
    f = jax.jit(jax.value_and_grad(lambda layers: (forward(layers, x) ** 2).mean()))
    layers = jax.device_put(layers)
    call = lambda: jax.block_until_ready(f(layers))

    def shown():
        loss, grads = call()
        return np.concatenate([np.ravel(loss)] + [np.ravel(part) for w, b in grads for part in (w.T, b)])

    return Ready(call, shown)


def trained(weights, loss, *data, betas=(0.9, 0.999), decay=0.0, compared=False):
    """A step of Adam with decoupled weight decay; the state is given to the step and taken back, as a training loop does."""

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state):
        weights, first, second, t = state
        value, grads = jax.value_and_grad(loss)(weights, *data)
        t = t + 1
        first = jax.tree.map(lambda m, g: betas[0] * m + (1 - betas[0]) * g, first, grads)
        second = jax.tree.map(lambda v, g: betas[1] * v + (1 - betas[1]) * g * g, second, grads)
        rate = lambda w, m, v: w - 1e-3 * (m / (1 - betas[0] ** t) / (jnp.sqrt(v / (1 - betas[1] ** t)) + 1e-8) + decay * w)
        return (jax.tree.map(rate, weights, first, second), first, second, t), value

    # The state is given away at each step: no buffer of it may be held twice.
    state = [(weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.float32(0))]

    def call():
        state[0], value = step(state[0])
        return float(value)

    # The losses of three steps: what forward, backward and the optimizer give.
    return Ready(call, (lambda: np.array([call() for _ in range(3)])) if compared else None)


def train_mlp():
    x, y = jnp.asarray(uniform([128, 784], 1)), jnp.asarray(indices([128], 10))
    return trained(dense([784, 512, 256, 10]), lambda w: entropy(forward(w, x), y), compared=True)


def conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")) + b[:, None, None]


def train_lenet():
    x, y = jnp.asarray(uniform([128, 1, 28, 28], 1)), jnp.asarray(indices([128], 10))
    kernel = lambda seed, o, i: (jnp.asarray(uniform([o, i, 3, 3], seed) / (9 * i) ** 0.5), jnp.asarray(uniform([o], seed + 1) / (9 * i) ** 0.5))
    kernels = [kernel(1001, 32, 1), kernel(1003, 64, 32)]

    def loss(weights):
        kernels, layers = weights
        h = x
        for w, b in kernels:
            h = jax.nn.relu(conv(h, w, b))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return entropy(forward(layers, h.reshape(128, -1)), y)

    return trained((kernels, dense([9216, 128, 10], 1005)), loss, compared=True)


def train_chargpt():
    width, heads, layers = 384, 6, 6
    x, y = jnp.asarray(indices([8, 256], 65)), jnp.asarray(indices([8 * 256], 65))
    matrix = lambda i, o, seed: jnp.asarray(uniform([i, o], seed)) / i**0.5
    block = lambda s: {"qkv": matrix(width, 3 * width, s), "proj": matrix(width, width, s + 1), "up": matrix(width, 4 * width, s + 2),
                       "down": matrix(4 * width, width, s + 3), "n1": jnp.ones(width), "n2": jnp.ones(width)}
    weights = {"token": matrix(65, width, 1) * 0.2, "position": matrix(256, width, 2) * 0.2, "norm": jnp.ones(width), "blocks": [block(10 * k + 10) for k in range(layers)]}
    mask = jnp.tril(jnp.ones((256, 256), bool))

    def loss(w):
        h = w["token"][x] + w["position"]
        for b in w["blocks"]:
            q, k, v = jnp.moveaxis((norm(h, b["n1"], 0) @ b["qkv"]).reshape(8, 256, 3, heads, -1), (2, 3), (0, 2))
            scores = jnp.where(mask, q @ jnp.swapaxes(k, -1, -2) / (width // heads) ** 0.5, -jnp.inf)
            h = h + (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(8, 256, width) @ b["proj"]
            h = h + jax.nn.gelu(norm(h, b["n2"], 0) @ b["up"]) @ b["down"]
        return entropy(norm(h, w["norm"], 0) @ w["token"].T, y)

    return trained(weights, loss, betas=(0.9, 0.99), decay=0.1)


def table():
    n = 4096
    t = {f"gemm_f32_{name}": functools.partial(gemm, 1, *sizes) for name, sizes in GEMMS.items()}
    for suffix, tb in (("nn", False), ("nt", True)):
        t[f"bmm_f32_48_256x64x256_{suffix}"] = functools.partial(gemm, 48, 256, 256, 64, False, tb)
    for size in (1024, 2048):
        t[f"gemm_bf16_{size}"] = functools.partial(gemm, 1, size, size, size, False, False, jnp.bfloat16)
    for batch in (1, 32):
        t[f"linear_f32_1024_b{batch}"] = functools.partial(linear, batch)
    t |= {name: functools.partial(convolution, *sizes) for name, sizes in CONVOLUTIONS.items()}
    square = lambda seed: uniform([n, n], seed)
    t |= {
        "ew_add_16m": lambda: ready(jnp.add, square(1), square(2)),
        "ew_gelu_xwb_16m": lambda: ready(lambda x, w, b: jax.nn.gelu(x * w + b, approximate=True), square(1), uniform([n], 2), uniform([n], 3)),
        "sum_last_16m": lambda: ready(lambda x: x.sum(1), square(1)),
        "sum_first_16m": lambda: ready(lambda x: x.sum(0), square(1)),
        "softmax_4096x1024": lambda: ready(jax.nn.softmax, uniform([n, 1024], 1)),
        "layernorm_4096x768": lambda: ready(norm, uniform([n, 768], 1), uniform([768], 2), uniform([768], 3)),
        "bcast_add_row_16m": lambda: ready(jnp.add, square(1), uniform([n], 2)),
        "transpose_copy_4096": lambda: ready(lambda x: x.T, square(1)),
        "embedding_32000x768_8192": lambda: ready(lambda i, w: w[i], indices([8192], 32000), uniform([32000, 768], 1)),
        "dropout_16m": dropout,
        "xent_2048x50257_fwdbwd": cross_entropy,
        "small_add4_nograd": lambda: ready(jnp.add, uniform([4], 1), uniform([4], 2)),
        "tiny_mlp_fwdbwd": tiny_mlp,
        "train_mlp_b128": train_mlp,
        "train_lenet_b128": train_lenet,
        "train_chargpt_b8": train_chargpt,
    }
    return t


if __name__ == "__main__":
    serve("jax", jax.__version__, table())
