"""The networks of goldens.py: for each case the model, what goes in, how it is run, and how its weights are written."""

import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Narrow(ResNet):
    """torchvision's ResNet with another number of channels than 64 in the first stage; its blocks and its forward pass."""

    def __init__(self, block, layers, width=64, in_channels=3, small_images=False, **options):
        self.__dict__["width"] = width
        super().__init__(block, layers, **options)
        out = 8 * width * block.expansion
        self.fc = torch.nn.Linear(out, self.fc.out_features)
        if small_images:
            self.conv1 = torch.nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
            self.maxpool = torch.nn.Identity()
        elif in_channels != 3:
            self.conv1 = torch.nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)

    # The constructor says 64 before it makes the first layers.
    @property
    def inplanes(self):
        return self.__dict__["channels"]

    @inplanes.setter
    def inplanes(self, channels):
        first = "channels" not in self.__dict__
        self.__dict__["channels"] = self.width if first else channels

    def _make_layer(self, block, planes, *args, **options):
        return super()._make_layer(block, planes * self.width // 64, *args, **options)


def build_resnet(case):
    options = case["options"]
    block = {"basic": BasicBlock, "bottleneck": Bottleneck}[case["block"]]
    model = Narrow(block, case["layers"], **options)
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(m.weight, 0.5, 1.5)
            torch.nn.init.normal_(m.bias, 0, 0.1)
            torch.nn.init.normal_(m.running_mean, 0, 0.1)
            torch.nn.init.uniform_(m.running_var, 0.5, 1.5)
            m.num_batches_tracked.fill_(7 if case.get("counts", True) else 0)
    to_dtype(model, case)
    x = torch.randn(case["input"])
    labels = torch.randint(options.get("num_classes", 1000), (case["input"][0],))

    def run(model, inputs):
        out = model(inputs["x"])
        return {"out": out, "loss": cross_entropy(out, inputs["labels"])}

    def save(folder):
        dtype = DTYPES[case["dtype"]]
        prefix = case.get("prefix", "")
        state = {prefix + k: v.to(dtype) if v.is_floating_point() else v for k, v in model.state_dict().items()}
        if not case.get("counts", True):
            state = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
        save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors")

    return model, {"x": x, "labels": labels}, run, save


def to_dtype(model, case):
    """Rounds all parameters and buffers to what the file can hold, and computes on in f32."""
    model.to(DTYPES[case["dtype"]]).to(torch.float32)


def build(case):
    return {"resnet": build_resnet}[case["model"]](case)


def of_resnet(block, layers, size, seed, dtype="f32", **options):
    own = {k: options.pop(k) for k in ("prefix", "counts") if k in options}
    return {"model": "resnet", "block": block, "layers": layers, "input": size, "seed": seed, "dtype": dtype, **own, "options": options}


CASES = {
    "small": {
        "resnet18": of_resnet("basic", [2, 2, 2, 2], [3, 3, 40, 48], 1, "f16", width=2, num_classes=7),
        "resnet-wide": of_resnet("bottleneck", [1, 1, 1, 1], [3, 3, 48, 40], 2, width=2, num_classes=5, width_per_group=128, counts=False),
        "resnet-groups": of_resnet(
            "bottleneck", [2, 1, 1, 1], [3, 3, 48, 48], 3, "bf16", width=2, num_classes=5, groups=2, width_per_group=32, prefix="module."
        ),
        "resnet-dilated": of_resnet(
            "bottleneck", [1, 1, 2, 2], [2, 1, 37, 41], 4, "bf16", width=2, in_channels=1, num_classes=3, replace_stride_with_dilation=[False, True, True]
        ),
        "resnet-small-images": of_resnet("basic", [1, 1, 1, 2], [4, 3, 16, 16], 5, "f16", width=2, num_classes=10, small_images=True),
    },
    "full": {
        "resnet18": of_resnet("basic", [2, 2, 2, 2], [4, 3, 224, 224], 11),
        "resnet50": of_resnet("bottleneck", [3, 4, 6, 3], [2, 3, 224, 224], 12),
    },
}
