"""The public names of Burn and Candle, out of their sources, for `cargo xtask parity`.

    python xtask/python/peer_names.py burn SOURCES > chores/src/parity/burn.names

SOURCES is the folder where cargo has unpacked the crates. A line is a space and a name: methods of tensors by the spaces of the table
below, else types, traits and free functions. What is hidden from the documentation, in tests or private is left out.
"""

import pathlib
import re
import sys

# space: (crate, folders or files below src, whose methods; none: items)
BURN = {
    "tensor": ("burn-tensor", ["tensor/api"], ["Tensor"]),
    "tensor data": ("burn-std", ["data", "tensor/data.rs"], ["TensorData"]),
    "device": ("burn-tensor", ["device.rs"], ["Device"]),
    "activation": ("burn-tensor", ["tensor/activation"], None),
    "functional": ("burn-tensor", ["tensor/module.rs", "tensor/loss", "tensor/grid"], None),
    "nn": ("burn-nn", ["modules", "activation", "initializer.rs", "padding.rs"], None),
    "loss": ("burn-nn", ["loss"], None),
    "module": ("burn-core", ["module"], ["Module", "Param", "RunningState", "AutodiffModule"]),
    "optim": ("burn-optim", ["optim", "grad_clipping"], None),
    "optimizer": ("burn-optim", ["optim/base.rs", "optim/module", "optim/grads.rs", "optim/grad_accum.rs"], ["Optimizer", "ModuleOptimizer", "GradientsParams", "GradientsAccumulator"]),
    "learner": ("burn-train", ["learner", "evaluator"], ["SupervisedTraining", "Learner", "EvaluatorBuilder", "Evaluator", "MetricEarlyStoppingStrategy"]),
    "data loader": ("burn-core", ["data"], ["DataLoaderBuilder", "DataLoader"]),
    "lr_scheduler": ("burn-optim", ["lr_scheduler"], None),
    "data": ("burn-core", ["data"], None),
    "dataset": ("burn-dataset", ["dataset", "transform", "source", "vision", "nlp", "audio"], None),
    "store": ("burn-store", ["."], None),
    "train": ("burn-train", ["."], None),
}
CANDLE = {
    "Tensor": ("candle-core", ["tensor.rs", "tensor_cat.rs", "sort.rs", "conv.rs", "npy.rs", "safetensors.rs", "backprop.rs", "custom_op.rs", "indexer.rs"], ["Tensor"]),
    "Var": ("candle-core", ["variable.rs"], ["Var"]),
    "GradStore": ("candle-core", ["backprop.rs"], ["GradStore"]),
    "Device": ("candle-core", ["device.rs"], ["Device"]),
    "DType": ("candle-core", ["dtype.rs"], ["DType"]),
    "Shape": ("candle-core", ["shape.rs"], ["Shape"]),
    "core": ("candle-core", ["tensor.rs", "device.rs", "error.rs", "indexer.rs", "shape.rs", "dtype.rs", "custom_op.rs", "safetensors.rs", "npy.rs", "pickle.rs", "quantized/mod.rs", "quantized/gguf_file.rs", "streaming.rs"], None),
    "nn": ("candle-nn", ["."], None),
    "nn::VarMap": ("candle-nn", ["var_map.rs"], ["VarMap"]),
    "nn::VarBuilder": ("candle-nn", ["var_builder.rs"], ["VarBuilder", "VarBuilderArgs"]),
    "nn::Optimizer": ("candle-nn", ["optim.rs"], ["Optimizer"]),
}


def files(root, parts):
    for part in parts:
        path = root / part
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*.rs") if "test" not in p.name)
        elif path.exists():
            yield path


def lines(text):
    """Those of a file before its tests, with comments taken away; attributes stay."""
    text = re.split(r"\n#\[cfg\(test\)\]", text)[0]
    return [line.split("//")[0].rstrip() for line in text.split("\n")]


def methods(text, owners):
    owner, trait = None, False
    hidden = False
    # rustfmt writes a block's head and its end without indentation.
    head = None
    for line in lines(text):
        if head is not None:
            head += " " + line.strip()
        elif re.match(r"(impl|pub trait)\b", line):
            head = line
        if head is not None:
            if "{" in head:
                trait = head.startswith("pub trait")
                name = re.match(r"pub trait (\w+)", head) if trait else re.match(r"impl(?:<.*?>)?\s+(?:<.*?>\s+)?(\w+)", re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", head)))
                owner = name.group(1) if name and name.group(1) in owners and " for " not in head else None
                head = None
            continue
        if line == "}":
            owner = None
        if "doc(hidden)" in line:
            hidden = True
        found = re.match(r"    (pub )?(?:const )?(?:async )?(?:unsafe )?fn (\w+)", line)
        macro = re.match(r"    (?:\w*op\w*|broadcast_\w*)!\((\w+)", line)
        if owner and found and (found.group(1) or trait):
            if not hidden:
                yield found.group(2)
        elif owner and macro and not hidden:
            yield macro.group(1)
        if found or macro:
            hidden = False


def items(text):
    hidden = False
    for line in lines(text):
        if "doc(hidden)" in line:
            hidden = True
        found = re.match(r"pub (?:async )?(?:unsafe )?(?:struct|enum|trait|fn) (\w+)", line)
        if found:
            if not hidden:
                yield found.group(1)
            hidden = False


def main():
    which, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    spaces = {"burn": BURN, "candle": CANDLE}[which]
    versions, found = set(), []
    for space, (crate, parts, owners) in spaces.items():
        folder = max(sources.glob(f"{crate}-[0-9]*"))
        versions.add(folder.name.rsplit("-", 1)[1])
        names = set()
        for file in files(folder / "src", parts):
            text = file.read_text()
            names.update(methods(text, owners) if owners else items(text))
        found += [f"{space.replace(' ', '_')} {name}" for name in sorted(names)]
    print(f"# {which} {', '.join(sorted(versions))}")
    print("\n".join(found))


main()
