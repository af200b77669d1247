"""What PyTorch's observers, NumPy's percentile and ONNX Runtime's entropy calibrator say of values in files. Nothing of Adamant is imported."""
import json
import sys
import warnings

import numpy as np
import torch
from onnxruntime.quantization import calibrate
from torch.ao.quantization import observer as o

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
# dtype, scheme, first and last code
CODES = {
    "u8": (torch.quint8, "affine", 0, 255),
    "i8": (torch.qint8, "symmetric", -127, 127),
    "i8-whole": (torch.qint8, "symmetric", -128, 127),
    "i8-affine": (torch.qint8, "affine", -128, 127),
}


def codes(of, batches, by_channel, **more):
    told = {}
    for name, (dtype, kind, low, high) in CODES.items():
        scheme = getattr(torch, f"per_{'channel' if by_channel else 'tensor'}_{kind}")
        observer = of(dtype=dtype, qscheme=scheme, quant_min=low, quant_max=high, **more)
        for batch in batches:
            observer(batch)
        scale, zero_point = observer.calculate_qparams()
        told[name] = [scale.flatten().tolist(), zero_point.flatten().tolist()]
    return told


def case(told, folder):
    values = np.fromfile(f"{folder}/{told['file']}", np.float32)
    batches, at = [], 0
    for shape in told["shapes"]:
        n = int(np.prod(shape))
        batches.append(torch.from_numpy(values[at : at + n].copy()).reshape(shape))
        at += n
    axis = told["axis"]
    answer = {
        "minmax": codes(o.MinMaxObserver, batches, False),
        "minmax-channels": codes(o.PerChannelMinMaxObserver, batches, True, ch_axis=axis),
        "histogram": codes(o.HistogramObserver, batches, False),
        "percentiles": [np.percentile(values.astype(np.float64), [(100 - p) / 2, 100 - (100 - p) / 2]).tolist() for p in told["percents"]],
    }
    for rate in told["rates"]:
        answer[f"moving-{rate}"] = codes(o.MovingAverageMinMaxObserver, batches, False, averaging_constant=rate)
        answer[f"moving-{rate}-channels"] = codes(o.MovingAveragePerChannelMinMaxObserver, batches, True, ch_axis=axis, averaging_constant=rate)
    return answer


class Watched:
    """The divergences that the calibrator compares, in its order: it smoothes two distributions for each, and has none where one is empty."""

    def __init__(self):
        self.smooth, self.entropy, self.calls, self.all = calibrate.smooth_distribution, calibrate.entropy, 0, []

    def smoothed(self, p, *more):
        self.calls += 1
        if self.calls % 2:
            self.all.append(None)
        return self.smooth(p, *more)

    def divergence(self, p, q):
        found = self.entropy(p, q)
        self.all[-1] = float(found)
        return found


def threshold(told):
    counts = np.array(told["counts"], np.int64)
    edges = np.arange(counts.size + 1, dtype=np.float32)
    collector = calibrate.HistogramCollector("entropy", False, counts.size, told["codes"], 100, "same")
    watched = Watched()
    calibrate.smooth_distribution, calibrate.entropy = watched.smoothed, watched.divergence
    ends = collector.get_entropy_threshold((counts, edges, np.float32(-1), np.float32(counts.size + 1)), told["codes"])
    calibrate.smooth_distribution, calibrate.entropy = watched.smooth, watched.entropy
    return {"ends": [int(end) for end in ends], "divergences": watched.all}


def main():
    folder = sys.argv[1]
    with open(f"{folder}/asked.json") as file:
        asked = json.load(file)
    json.dump({"cases": [case(c, folder) for c in asked["cases"]], "thresholds": [threshold(h) for h in asked["histograms"]]}, sys.stdout)


main()
