"""The networks of the workloads in PyTorch, with random weights. Each builder of `TRAINED` returns the network, its input,
the targets of all rows, and the optimizer."""

import torch
from torch import nn
from torch.nn import functional as F

from peer import indices, uniform


def numbers(*shape):
    return torch.from_numpy(uniform(shape, 1)).to(torch.get_default_device())


def ids(shape, bound):
    return torch.from_numpy(indices(shape, bound)).to(torch.get_default_device())


def mlp():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return net, numbers(128, 784), ids([128], 10), torch.optim.Adam(net.parameters(), 1e-3)


def lenet():
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    return net, numbers(128, 1, 28, 28), ids([128], 10), torch.optim.Adam(net.parameters(), 1e-3)


def normed(i, o, k, stride=1, padding=0):
    return nn.Sequential(nn.Conv2d(i, o, k, stride, padding, bias=False), nn.BatchNorm2d(o))


class Block(nn.Module):
    """Basic (two 3x3) or bottleneck (1x1, 3x3 with the stride, 1x1 to four times as many channels)."""

    def __init__(self, i, o, stride, bottleneck):
        super().__init__()
        out = 4 * o if bottleneck else o
        if bottleneck:
            self.body = nn.Sequential(normed(i, o, 1), nn.ReLU(), normed(o, o, 3, stride, 1), nn.ReLU(), normed(o, out, 1))
        else:
            self.body = nn.Sequential(normed(i, o, 3, stride, 1), nn.ReLU(), normed(o, o, 3, 1, 1))
        self.shortcut = nn.Identity() if stride == 1 and i == out else normed(i, out, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def stages(depths, bottleneck):
    blocks, i = [], 64
    for k, depth in enumerate(depths):
        o = 64 << k
        for d in range(depth):
            blocks.append(Block(i, o, 2 if d == 0 and k > 0 else 1, bottleneck))
            i = 4 * o if bottleneck else o
    return blocks + [nn.AdaptiveAvgPool2d(1), nn.Flatten()], i


def resnet18():
    blocks, i = stages([2, 2, 2, 2], False)
    net = nn.Sequential(normed(3, 64, 3, 1, 1), nn.ReLU(), *blocks, nn.Linear(i, 10))
    return net, numbers(32, 3, 32, 32), ids([32], 10), torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=5e-4)


def resnet50():
    blocks, i = stages([3, 4, 6, 3], True)
    net = nn.Sequential(normed(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, nn.Linear(i, 1000))
    return net, numbers(1, 3, 224, 224)


class GptBlock(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias), nn.Linear(4 * width, width, bias)

    def forward(self, x, cache=None, at=0):
        b, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, at : at + t], cache[1][:, :, at : at + t] = k, v
            k, v = cache[0][:, :, : at + t], cache[1][:, :, : at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width, bias):
        super().__init__()
        self.shape = layers, heads, width // heads
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads, bias) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=bias)
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, tokens):
        return self.step(tokens, [None] * len(self.blocks), 0)

    def caches(self, length):
        layers, heads, width = self.shape
        return [[torch.zeros(1, heads, length, width) for _ in "kv"] for _ in range(layers)]

    def step(self, tokens, caches, at):
        x = self.token(tokens) + self.position.weight[at : at + tokens.shape[1]]
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, at)
        return F.linear(self.norm(x if caches[0] is None else x[:, -1:]), self.token.weight)


def chargpt():
    net = Gpt(65, 256, 6, 6, 384, bias=False)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, (0.9, 0.99), weight_decay=0.1)
    return net, ids([8, 256], 65), ids([8 * 256], 65), optimizer


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(65, 256), nn.LSTM(256, 256, 2, batch_first=True), nn.Linear(256, 65)

    def forward(self, tokens):
        return self.head(self.lstm(self.table(tokens))[0])


def lstm():
    net = Lstm()
    return net, ids([32, 64], 65), ids([32 * 64], 65), torch.optim.Adam(net.parameters(), 1e-3)


class MiniLm(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(30522, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        make = lambda: nn.ModuleDict(
            dict(qkv=nn.Linear(width, 3 * width), proj=nn.Linear(width, width), up=nn.Linear(width, 4 * width), down=nn.Linear(4 * width, width),
                 first=nn.LayerNorm(width, eps=1e-12), second=nn.LayerNorm(width, eps=1e-12))
        )
        self.layers = nn.ModuleList(make() for _ in range(6))

    def forward(self, tokens):
        b, t = tokens.shape
        x = self.norm(self.word(tokens) + self.position.weight[:t] + self.kind.weight[0])
        for layer in self.layers:
            q, k, v = layer["qkv"](x).view(b, t, 3, 12, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1)
            x = layer["first"](x + layer["proj"](y))
            x = layer["second"](x + layer["down"](F.gelu(layer["up"](x))))
        return x.mean(1)


def minilm():
    return MiniLm(), ids([32, 128], 30522)


TRAINED = {"mlp_b128": mlp, "lenet_b128": lenet, "resnet18_b32": resnet18, "chargpt_b8": chargpt, "lstm_b32": lstm}
