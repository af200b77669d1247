"""What torchvision 0.29 (torchvision.transforms.v2.functional, float tensors) makes of small images, for src/transform/tests.rs:

    python transforms.py ../transforms.json
"""

import json
import sys

import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2 import InterpolationMode as Mode

torch.manual_seed(7)
IMAGES = {
    "colour": torch.rand(3, 5, 7),
    "grey": torch.rand(1, 6, 6),
    "square": torch.rand(1, 8, 8),
    # Many pixels of few colours, for what counts them.
    "large": (torch.rand(1, 28, 28) ** 2 * 32).round() / 32,
    "flat": torch.full((3, 5, 5), 0.25),
}
# Exact in few digits, so that what is written is what was computed with.
IMAGES = {k: (v * 4096).round() / 4096 for k, v in IMAGES.items()}
NEAR, LINE = Mode.NEAREST, Mode.BILINEAR
CASES = []


def case(name, args, f, images=("colour", "square")):
    for image in images:
        CASES.append((name, args, image, f))


for h, w in [(3, 4), (4, 3), (7, 9), (10, 11), (5, 12)]:
    case("center_crop", [h, w], lambda x, h=h, w=w: F.center_crop(x, [h, w]))
for t, l, h, w in [(0, 0, 3, 3), (2, 1, 4, 5), (-1, -2, 5, 5), (4, 4, 6, 6)]:
    case("crop", [t, l, h, w], lambda x, a=(t, l, h, w): F.crop(x, *a))
case("hflip", [], F.hflip)
case("vflip", [], F.vflip)
for mode in ["constant", "edge", "reflect", "symmetric"]:
    case(f"pad_{mode}", [1, 2, 3, 0], lambda x, m=mode: F.pad(x, [1, 2, 3, 0], fill=0.5, padding_mode=m))
for h, w in [(3, 4), (14, 5), (6, 6), (1, 1), (20, 31)]:
    case("resize_bilinear", [h, w], lambda x, s=(h, w): F.resize(x, list(s), interpolation=LINE, antialias=True))
    case("resize_nearest", [h, w], lambda x, s=(h, w): F.resize(x, list(s), interpolation=NEAR))
for angle in [0.0, 17.0, -33.5, 90.0, 180.0, 270.0, 101.0]:
    for mode, label in [(NEAR, "nearest"), (LINE, "bilinear")]:
        case(f"rotate_{label}", [angle], lambda x, a=angle, m=mode: F.rotate(x, a, interpolation=m))
        case(f"rotate_{label}_fill", [angle, 0.5], lambda x, a=angle, m=mode: F.rotate(x, a, interpolation=m, fill=0.5))
for a, tx, ty, s, sx, sy in [(11.0, 0, 0, 1.0, 0.0, 0.0), (0.0, 2, -1, 1.0, 0.0, 0.0), (0.0, 0, 0, 1.3, 0.0, 0.0), (0.0, 0, 0, 0.7, 12.0, -7.0), (-24.0, 1, 1, 0.9, 5.0, 0.0)]:
    for mode, label in [(NEAR, "nearest"), (LINE, "bilinear")]:
        case(f"affine_{label}", [a, tx, ty, s, sx, sy], lambda x, v=(a, [tx, ty], s, [sx, sy]), m=mode: F.affine(x, *v, interpolation=m))
case("affine_corner", [0.2], lambda x: F.affine(x, 0.0, [0, 0], 1.0, [11.3, 0.0], interpolation=NEAR, center=[0, 0]))
COLOURS = ("colour", "grey", "flat")
for f in [0.0, 0.4, 1.0, 1.7]:
    for name in ["brightness", "contrast", "saturation", "sharpness"]:
        case(f"adjust_{name}", [f], lambda x, g=getattr(F, f"adjust_{name}"), f=f: g(x, f), COLOURS)
for f in [-0.5, -0.2, 0.0, 0.3, 0.5]:
    case("adjust_hue", [f], lambda x, f=f: F.adjust_hue(x, f), COLOURS)
for gamma, gain in [(1.0, 1.0), (2.2, 1.0), (0.5, 1.4)]:
    case("adjust_gamma", [gamma, gain], lambda x, a=(gamma, gain): F.adjust_gamma(x, *a), COLOURS)
for n in [1, 3]:
    case("grayscale", [n], lambda x, n=n: F.rgb_to_grayscale(x, n), ("colour", "grey"))
case("invert", [], F.invert, COLOURS)
for bits in [0, 1, 4, 8]:
    case("posterize", [bits], lambda x, b=bits: F.posterize(x, b), COLOURS)
for t in [0.0, 0.5, 1.0]:
    case("solarize", [t], lambda x, t=t: F.solarize(x, t), COLOURS)
case("autocontrast", [], F.autocontrast, COLOURS + ("large",))
case("equalize", [], F.equalize, COLOURS + ("large",))
case("erase", [1, 2, 3, 4, 0.5], lambda x: F.erase(x, 1, 2, 3, 4, torch.tensor(0.5)))
case("normalize", [0.2, 0.5], lambda x: F.normalize(x, [0.2] * x.shape[0], [0.5] * x.shape[0]))

# Each of RandAugment's transforms at the strength 9 of 31, forward and backward.
ra = v2.RandAugment()
for op, (magnitudes, signed) in ra._AUGMENTATION_SPACE.items():
    for sign in [1, -1] if signed else [1]:
        for image in ["colour", "large"]:
            if image == "large" and op != "Equalize":
                continue
            x = IMAGES[image]
            m = magnitudes(31, x.shape[1], x.shape[2])
            m = sign * float(m[9]) if m is not None else 0.0
            CASES.append((f"rand_augment_{op}", [sign], image, lambda x, op=op, m=m: ra._apply_image_or_video_transform(x, op, m, NEAR, ra._fill)))


def flat(x):
    return [float(f"{v:.7g}") for v in x.reshape(-1).tolist()]


out = [{"name": n, "args": a, "image": i, "shape": list(f(IMAGES[i]).shape), "pixels": flat(f(IMAGES[i]))} for n, a, i, f in CASES]
with open(sys.argv[1], "w") as file:
    images = {k: {"shape": list(v.shape), "pixels": v.reshape(-1).tolist()} for k, v in IMAGES.items()}
    file.write('{"images": ' + json.dumps(images) + ', "cases": [\n' + ",\n".join(json.dumps(c) for c in out) + "\n]}\n")
