"""What PyTorch's loss modules say: writes losses.json, which tests/losses.rs replays. Made with PyTorch 2.15 on a CPU.

Usage: losses.py FILE

For each module a table of what its options, and the shapes of its tensors, may be. Its cases are: no option given, in each
shape; then options drawn so that every pair of values of any two of them meets in one case (a greedy covering by seeded
draws). Numbers that go in have three decimals, so that f32 and f64 mean the same; what comes out is f64. The gradients are
those of the sum of the loss times 0.25, 0.5, .. 1.75, 0.25, ..
"""

import itertools
import json
import math
import random
import sys
import warnings

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
# Of sizes that repeat and of the mean of a divergence, which are meant here.
warnings.filterwarnings("ignore", category=UserWarning)
REDUCTIONS = ["mean", "sum", "none"]
ELEMENTS = [[], [5], [2, 3], [2, 1, 3]]
WEIGHT = [None, "given"]


class Draw:
    """Tensors of seeded random numbers."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def fill(self, shape, number):
        return torch.tensor([number() for _ in range(math.prod(shape))]).reshape(shape)

    def between(self, low, high, shape):
        return self.fill(shape, lambda: round(self.rng.uniform(low, high), 3))

    def normal(self, shape):
        return self.fill(shape, lambda: round(self.rng.gauss(0, 1), 3))

    def one_of(self, values, shape):
        return self.fill(shape, lambda: self.rng.choice(values))

    def classes(self, count, shape):
        return self.fill(shape, lambda: self.rng.randrange(count)).long()

    def log_probabilities(self, shape, axis):
        return torch.round(self.normal(shape).log_softmax(axis), decimals=3)


# Tensors of the loss for a shape: those of floats first; options that are "given" are drawn by WEIGHTS.
def numbers(d, shape, _):
    if shape == "row":
        return [d.normal([2, 3]), d.normal([3])]
    return [d.normal(shape), d.normal(shape)]


def probabilities(d, shape, _):
    return [d.between(0.02, 0.98, shape), d.between(0, 1, shape)]


def logits(d, shape, _):
    return [d.normal(shape) * 3, d.one_of([0.0, 1.0, 0.25], shape)]


def divergence(d, shape, options):
    target = d.between(0.01, 1, shape)
    return [d.log_probabilities(shape, -1) if shape else d.normal(shape), torch.round(target.log(), decimals=3) if options.get("log_target") else target]


def counts(d, shape, options):
    rate = d.normal(shape) if options.get("log_input", True) else d.between(0.1, 4, shape)
    return [rate, d.one_of([0.0, 1.0, 2.0, 5.0], shape)]


def variances(d, shape, _):
    short = {5: [5], 6: [2, 1], 7: [2]}[shape]
    full = [5] if shape == 5 else [2, 3]
    return [d.normal(full), d.normal(full), d.between(0.01, 2, short)]


def signs(d, shape, _):
    return [d.normal(shape), d.one_of([-1.0, 1.0], shape)]


def pairs_with_signs(d, shape, _):
    return [d.normal(shape), d.normal(shape), d.one_of([-1.0, 1.0], shape)]


def pairs_of_vectors(d, shape, _):
    return [d.normal(shape), d.normal(shape), d.one_of([-1.0, 1.0], shape[:-1]).long()]


def triplets(d, shape, _):
    return [d.normal(shape) for _ in range(3)]


def without_classes(shape):
    return shape[:1] + shape[2:] if len(shape) > 1 else []


def indexed(d, shape, options):
    axis = min(1, len(shape) - 1)
    target = d.classes(shape[axis], without_classes(shape))
    ignored = options.get("ignore_index", -100)
    # One target of several takes no part.
    if target.numel() > 1:
        target.view(-1)[0] = ignored
    elif ignored >= 0:
        target = torch.tensor((ignored + 1) % shape[axis])
    return target


def logits_with_classes(d, shape, options):
    if options.pop("target", "indices") == "probabilities":
        options.pop("ignore_index", None)
        axis = min(1, len(shape) - 1)
        return [d.normal(shape), torch.round(d.normal(shape).softmax(axis), decimals=3)]
    return [d.normal(shape), indexed(d, shape, options)]


def log_probabilities_with_classes(d, shape, options):
    return [d.log_probabilities(shape, min(1, len(shape) - 1)), indexed(d, shape, options)]


def scores_with_class(d, shape, _):
    return [d.normal(shape), d.classes(shape[-1], shape[:-1])]


def scores_with_sets(d, shape, _):
    rows = []
    for _ in range(math.prod(shape[:-1])):
        row = d.rng.sample(range(shape[-1]), shape[-1])
        row[d.rng.randrange(shape[-1])] = -1
        rows.append(row)
    return [d.normal(shape), torch.tensor(rows).reshape(shape)]


def alignments(d, form, options):
    time, batch, classes, longest = 6, 2, 4, 3
    blank = options.get("blank", 0)
    labels = [c for c in range(classes) if c != blank]
    integer = torch.tensor
    if form == "alone":
        return [d.log_probabilities([time, classes], -1), d.one_of(labels, [longest]).long(), integer(time), integer(longest)]
    lengths = [3, 2]
    input_lengths = [time, 5]
    if form == "impossible":
        input_lengths = [time, 1]
    targets = d.one_of(labels, [batch, longest]).long()
    if form == "repeated":
        targets[0] = labels[0]
    if form == "joined":
        targets = torch.cat([targets[0, :3], targets[1, :2]])
    return [d.log_probabilities([time, batch, classes], -1), targets, integer(input_lengths), integer(lengths)]


def hidden(d, shape, options):
    """Of the layer in LinearCrossEntropyLoss: 3 features to 4 classes."""
    out = options.get("out_features", [])
    target = d.classes(4, shape[:-1] + out)
    if target.numel() > 1 and "ignore_index" in options:
        target.view(-1)[-1] = options["ignore_index"]
    return [d.normal(shape), target]


def per_class(d, tensors, shape):
    axis = min(1, len(shape) - 1)
    return d.between(0.2, 2, [tensors[0].shape[axis]])


def last_axis(d, tensors, _):
    return d.between(0.2, 2, list(tensors[0].shape[-1:]))


def chebyshev(a, b):
    return (a - b).abs().amax(-1)


VECTORS = [[3], [2, 3], [4, 2]]
CLASSES = [[4], [3, 4], [2, 3, 2], [2, 3, 2, 2]]
SCORES = [[4], [3, 4]]
# module: (tensors, shapes, how many of them have gradients, options, how a weight is drawn)
LOSSES = {
    "L1Loss": (numbers, ELEMENTS + ["row"], 2, {"reduction": REDUCTIONS}, None),
    "MSELoss": (numbers, ELEMENTS + ["row"], 2, {"reduction": REDUCTIONS}, None),
    "SmoothL1Loss": (numbers, ELEMENTS + ["row"], 2, {"beta": [0.0, 0.3, 2.5], "reduction": REDUCTIONS}, None),
    "HuberLoss": (numbers, ELEMENTS + ["row"], 2, {"delta": [0.3, 2.5], "reduction": REDUCTIONS}, None),
    "BCELoss": (probabilities, ELEMENTS, 1, {"weight": WEIGHT, "reduction": REDUCTIONS}, last_axis),
    "BCEWithLogitsLoss": (logits, ELEMENTS, 1, {"weight": WEIGHT, "pos_weight": WEIGHT, "reduction": REDUCTIONS}, last_axis),
    "KLDivLoss": (divergence, ELEMENTS[1:], 2, {"log_target": [False, True], "reduction": REDUCTIONS + ["batchmean"]}, None),
    "PoissonNLLLoss": (counts, ELEMENTS, 1, {"log_input": [True, False], "full": [False, True], "eps": [1e-8, 0.125], "reduction": REDUCTIONS}, None),
    "GaussianNLLLoss": (variances, [5, 6, 7], 3, {"full": [False, True], "eps": [1e-6, 0.5], "reduction": REDUCTIONS}, None),
    "SoftMarginLoss": (signs, ELEMENTS, 1, {"reduction": REDUCTIONS}, None),
    "HingeEmbeddingLoss": (signs, ELEMENTS, 1, {"margin": [0.25, 1.5], "reduction": REDUCTIONS}, None),
    "CosineEmbeddingLoss": (pairs_of_vectors, VECTORS, 2, {"margin": [-0.5, 0.25], "reduction": REDUCTIONS}, None),
    "MarginRankingLoss": (pairs_with_signs, ELEMENTS, 2, {"margin": [-0.5, 0.75], "reduction": REDUCTIONS}, None),
    "TripletMarginLoss": (
        triplets, VECTORS + [[2, 2, 3]], 3,
        {"margin": [0.5, 2.0], "p": [1.0, 2.0, 3.0], "eps": [1e-6, 0.125], "swap": [False, True], "reduction": REDUCTIONS}, None,
    ),
    "TripletMarginWithDistanceLoss": (
        triplets, VECTORS, 3, {"distance_function": ["pairwise", "chebyshev"], "margin": [0.5, 2.0], "swap": [False, True], "reduction": REDUCTIONS}, None,
    ),
    "CrossEntropyLoss": (
        logits_with_classes, CLASSES, 1,
        {"target": ["indices", "probabilities"], "weight": WEIGHT, "ignore_index": [-100, 1], "label_smoothing": [0.0, 0.2], "reduction": REDUCTIONS}, per_class,
    ),
    "NLLLoss": (log_probabilities_with_classes, CLASSES, 1, {"weight": WEIGHT, "ignore_index": [-100, 1], "reduction": REDUCTIONS}, per_class),
    "MultiMarginLoss": (scores_with_class, SCORES, 1, {"p": [1, 2], "margin": [0.5, 2.0], "weight": WEIGHT, "reduction": REDUCTIONS}, per_class),
    "MultiLabelMarginLoss": (scores_with_sets, SCORES, 1, {"reduction": REDUCTIONS}, None),
    "MultiLabelSoftMarginLoss": (logits, SCORES, 1, {"weight": WEIGHT, "reduction": REDUCTIONS}, last_axis),
    "CTCLoss": (
        alignments, ["alone", "padded", "joined", "repeated", "impossible"], 1, {"blank": [0, 2], "zero_infinity": [False, True], "reduction": REDUCTIONS}, None,
    ),
    "LinearCrossEntropyLoss": (
        hidden, [[3], [2, 3]], 1,
        {"out_features": [[], [2], [2, 2]], "bias": [False, True], "weight": WEIGHT, "ignore_index": [-100, 1], "label_smoothing": [0.0, 0.2],
         "reduction": REDUCTIONS},
        lambda d, *_: d.between(0.2, 2, [4]),
    ),
}


def can_be(row):
    """Has a loss these options? An alignment that cannot be has an infinite one, and without a batch there are no further axes."""
    return not (row["shape"] == "impossible" and not row.get("zero_infinity")) and not (row["shape"] == [3] and row.get("out_features"))


def covering(factors, rng):
    """Rows of choices that can be, in which every pair of choices of two factors meets that can."""
    names = list(factors)

    def chosen(row):
        return {name: factors[name][k] for name, k in zip(names, row)}

    missing = set()
    for row in itertools.product(*(range(len(f)) for f in factors.values())):
        if can_be(chosen(row)):
            missing |= {(a, row[a], b, row[b]) for a, b in itertools.combinations(range(len(names)), 2)}

    def met(row):
        return {(a, row[a], b, row[b]) for a, b in itertools.combinations(range(len(names)), 2)}

    while missing:
        drawn = []
        for _ in range(40):
            # Each row is drawn around a pair that is missing, so every draw has something.
            a, i, b, j = rng.choice(sorted(missing))
            row = [rng.randrange(len(factors[n])) for n in names]
            row[a], row[b] = i, j
            if can_be(chosen(row)):
                drawn.append(row)
        if drawn:
            best = max(drawn, key=lambda row: len(met(row) & missing))
            missing -= met(best)
            yield chosen(best)


def flat(t):
    numbers = t.detach().reshape(-1).tolist()
    return [list(t.shape), [float(f"{n:.12g}") if isinstance(n, float) else n for n in numbers]]


def case(name, shape, options, seed):
    tensors_of, _, gradients, _, weight_of = LOSSES[name]
    d = Draw(seed)
    tensors = tensors_of(d, shape, options)
    given = dict(options)
    for key in ("weight", "pos_weight"):
        if options.get(key) == "given":
            given[key] = weight_of(d, tensors, shape)
            options[key] = given[key].tolist()
            if not tensors[0].shape:
                options[key] = float(given[key])
        elif key in options:
            del options[key]
    if "distance_function" in given:
        given["distance_function"] = chebyshev if given["distance_function"] == "chebyshev" else nn.PairwiseDistance()
    if name == "LinearCrossEntropyLoss":
        given["out_features"] = tuple(given.get("out_features", []))
        module = nn.LinearCrossEntropyLoss(3, 4, **given)
        state = {n: d.normal(list(p.shape)) for n, p in module.linear.named_parameters()}
        module.linear.load_state_dict(state)
    else:
        module, state = getattr(nn, name)(**given), {}
    for t in tensors[:gradients]:
        t.requires_grad_()
    loss = module(*tensors)
    times = torch.tensor([0.25 * (k % 7 + 1) for k in range(loss.numel())]).reshape(loss.shape)
    grads = torch.autograd.grad((loss * times).sum(), tensors[:gradients])
    assert all(torch.isfinite(t).all() for t in (loss, *grads)), (name, options)
    out = {"module": name, "options": options, "inputs": [flat(t) for t in tensors], "loss": flat(loss), "grads": [flat(g) for g in grads]}
    if module.state_dict():
        out["state"] = list(module.state_dict())
    if state:
        out["linear"] = {n: flat(t) for n, t in state.items()}
    return out


def main(path):
    cases = []
    for number, (name, (_, shapes, _, options, _)) in enumerate(LOSSES.items()):
        rng = random.Random(1000 + number)
        rows = [(shape, {}) for shape in shapes if can_be({"shape": shape})]
        for row in covering({"shape": shapes, **options}, rng):
            rows.append((row.pop("shape"), row))
        for shape, chosen in rows:
            cases.append(case(name, shape, dict(chosen), rng.randrange(1 << 30)))
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(len(cases), "cases of", len({c["module"] for c in cases}), "modules")


main(*sys.argv[1:])
