"""Reads a folder of event files with TensorBoard's own parser and prints what it found as one JSON document.

Usage: read_events.py FOLDER. Ends with 77 where TensorBoard is not installed.
"""

import json
import math
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)


def number(value):
    """JSON has no numbers that are not finite: their names."""
    return value if math.isfinite(value) else repr(value)


def text(event):
    """The first string of a text event."""
    return tensor_util.make_ndarray(event.tensor_proto).item().decode()


def main(folder):
    # 0: keep every event, none is thinned out.
    keep_all = {"scalars": 0, "tensors": 0, "histograms": 0}
    events = EventAccumulator(folder, size_guidance=keep_all)
    events.Reload()
    tags = events.Tags()
    found = {
        "scalars": {tag: [[e.step, number(e.value)] for e in events.Scalars(tag)] for tag in tags["scalars"]},
        "texts": {tag: [[e.step, text(e)] for e in events.Tensors(tag)] for tag in tags["tensors"]},
        "histograms": {
            tag: [[e.step, e.histogram_value.num, sum(e.histogram_value.bucket)] for e in events.Histograms(tag)]
            for tag in tags["histograms"]
        },
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
