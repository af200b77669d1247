"""What torchvision's and transformers' networks say: writes folders that tests/goldens.rs and the example `compare` replay.
Made with PyTorch 2.15, torchvision 0.29 and transformers 5.24 on a CPU.

Usage: goldens.py small FOLDER | goldens.py full FOLDER [CASE ..]

`small` writes the folders of tests/goldens: narrow networks, of whose gradients every n-th element is kept. `full` writes
ResNet-18 at 224x224 and networks of the shapes of GPT-2 and BERT-base, all with random weights from seeds, and their
gradients whole. `small` also writes sampling.json.

A folder has the weights as the libraries write them (model.safetensors, maybe in shards; config.json), case.json with what
the network is, and expected.safetensors:
    in.NAME       what goes in
    eval.NAME     what comes out in evaluation mode (`out`, `loss`, ...)
    train.NAME    in training mode, without dropout (or in evaluation mode once more, where the case says `evaluating`)
    grad.NAME     the gradient of the loss by a parameter: its largest absolute value, its euclidean norm, then every n-th
                  element, n = ceil(elements / kept)
    generated.NAME, mask.NAME, prompt   what a language model says next
    buffer.NAME   buffers after the one forward pass in training mode
"""

import json
import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

from networks import CASES, build

KEPT = 12


def note_gradients(expected, model, kept):
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        flat = p.grad.flatten()
        step = math.ceil(flat.numel() / kept) if kept else 1
        norms = torch.stack([flat.abs().max(), flat.double().norm().to(flat.dtype)])
        expected[f"grad.{name}"] = torch.cat([norms, flat[::step]])


def expect(case, kept, dtype, save=None):
    """All numbers of a case, computed in a dtype."""
    torch.manual_seed(case["seed"])
    model, inputs, run, save_weights = build(case)
    if save:
        save_weights(save)
    model.to(dtype)
    expected = {f"in.{k}": v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    inputs = {k.removeprefix("in."): v for k, v in expected.items()}
    with torch.no_grad():
        model.eval()
        for k, v in run(model, inputs).items():
            expected[f"eval.{k}"] = v
    # Dropout is off in every configuration, or the numbers would be the generator's.
    model.train(not case.get("evaluating", False))
    outputs = run(model, inputs)
    for k, v in outputs.items():
        expected[f"train.{k}"] = v.detach()
    outputs["loss"].backward()
    note_gradients(expected, model, kept)
    for k, v in model.named_buffers():
        if k.endswith(("running_mean", "running_var", "num_batches_tracked")):
            expected[f"buffer.{k}"] = v
    if case["model"] == "gpt2-lm" and kept:
        note_generated(expected, model)
    return expected


def own_distance(expected, case):
    """How far PyTorch's f32 is from its f64, as replay.rs measures it."""
    single = expect(case, None, torch.float32)
    grads = [k for k in expected if k.startswith("grad.")]
    floor = 1e-4 * max(expected[k][0] for k in grads)
    far = lambda k, scale: float((single[k] - expected[k]).abs().max() / scale)
    return {
        "outputs": max(far(k, expected[k].abs().max()) for k in expected if k.startswith(("eval.", "train."))),
        "gradients": max(far(k, max(expected[k][0], floor)) for k in grads),
    }


def write(folder, name, case, kept):
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    # ReLU has two slopes, and rounding decides which of them a number near 0 gets: of the gradients of a large network of them
    # f64 alone tells whether they are right.
    double = case["model"] == "resnet" and not kept and not case.get("evaluating")
    expected = expect(case, kept, torch.float64 if double else torch.float32, folder)
    if double:
        case = {**case, "double": True, "own": own_distance(expected, case)}
    save_file({k: v.contiguous().clone() for k, v in expected.items()}, folder / "expected.safetensors")
    (folder / "case.json").write_text(json.dumps(case) + "\n")
    print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


def note_generated(expected, model):
    """What follows a prompt, and prompts of several lengths padded in front, by the likeliest token at each step."""
    prompt = torch.randint(model.config.vocab_size, (3, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]])
    model.eval()
    for name, m in (("plain", torch.ones_like(mask)), ("padded", mask)):
        ids = model.generate(prompt, attention_mask=m, do_sample=False, max_new_tokens=12, min_new_tokens=12, pad_token_id=0)
        expected[f"generated.{name}"] = ids
        expected[f"mask.{name}"] = m
    expected["prompt"] = prompt


def write_sampling(file):
    """The probabilities that transformers' steps before a draw leave."""
    torch.manual_seed(51)
    cases = []
    for size in (2, 7, 20):
        logits = torch.round(torch.randn(size) * 2, decimals=3)
        for temperature in (0.5, 2.0):
            for top_k in (None, 1, 3, 100):
                for top_p in (None, 1e-3, 0.3, 0.9):
                    x = transformers.TemperatureLogitsWarper(temperature)(None, logits[None])
                    if top_k:
                        x = transformers.TopKLogitsWarper(top_k)(None, x)
                    if top_p:
                        x = transformers.TopPLogitsWarper(top_p)(None, x)
                    p = [round(v, 7) for v in x[0].softmax(-1).tolist()]
                    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "kept": int((x > -math.inf).sum())}
                    cases.append({**options, "logits": [round(v, 3) for v in logits.tolist()], "probabilities": p})
    file.write_text(json.dumps(cases) + "\n")


def main():
    size, folder, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    for name, case in CASES[size].items():
        if not wanted or name in wanted:
            write(folder, name, case, KEPT if size == "small" else None)
    if size == "small":
        write_sampling(folder / "sampling.json")


main()
