"""Rebuilds the answers of a quantized stack of linear layers from its file, by NumPy alone.

usage: rebuild.py FILE INPUTS OUTPUTS ROWS    (inputs and outputs: raw f32, little-endian)
Prints the largest difference relative to the largest output, and the number of weights found as integer codes.
"""
import json
import sys
import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8, "I32": np.int32}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    texts = header.pop("__metadata__")
    tensors = {}
    for name, info in header.items():
        start, end = info["data_offsets"]
        raw = data[8 + length + start : 8 + length + end]
        tensors[name] = np.frombuffer(raw, DTYPES[info["dtype"]]).reshape(info["shape"])
    return tensors, json.loads(texts["quantization"])["weights"]


def codes(stored, scheme):
    rows, columns = scheme["shape"]
    bits = scheme["bits"]
    if bits == 8:
        return stored.astype(np.int64)
    each = np.unpackbits(stored, axis=1, bitorder="little")[:, : columns * bits]
    values = (each.reshape(rows, columns, bits).astype(np.int64) << np.arange(bits)).sum(axis=2)
    return values - (1 << (bits - 1) if scheme["symmetric"] else 0)


def spread(numbers, columns):
    return np.repeat(numbers, columns // numbers.shape[1], axis=1)


def by_step(x, inverse, zero, low, high):
    # Steps are of f32, as the library finds them.
    return (np.clip(np.rint(x * inverse) + zero, low, high) - zero).astype(np.float64)


def step(largest, steps):
    inverse = np.divide(steps, largest, out=np.zeros_like(largest), where=largest > 1e-30)
    return largest / steps, inverse


def layer(x, name, tensors, scheme):
    x = x.astype(np.float32)
    code = codes(tensors[name], scheme)
    columns = code.shape[1]
    zero = 0 if scheme["symmetric"] else spread(tensors[name + "_zero_point"].astype(np.int64), columns)
    weight = (code - zero) * spread(tensors[name + "_scale"].astype(np.float64), columns)
    kind = scheme["input"]
    if kind == "token_symmetric":
        scale, inverse = step(np.abs(x).max(axis=1, keepdims=True), np.float32(127))
        x = by_step(x, inverse, 0, -128, 127) * scale
    elif kind == "token":
        low, high = np.minimum(x.min(axis=1, keepdims=True), 0), np.maximum(x.max(axis=1, keepdims=True), 0)
        scale, inverse = step(high - low, np.float32(255))
        x = by_step(x, inverse, np.rint(-low * inverse), 0, 255) * scale
    elif kind == "given":
        scale = tensors[name + "_input_scale"]
        x = by_step(x, np.float32(1) / scale, np.float32(tensors[name + "_input_zero_point"]), 0, 255) * scale
    return x.astype(np.float64) @ weight.T + tensors[name.replace("weight", "bias")].astype(np.float64)


def main():
    path, inputs, outputs, rows = sys.argv[1:]
    tensors, schemes = read(path)
    x = np.fromfile(inputs, np.float32).reshape(int(rows), -1).astype(np.float64)
    wanted = np.fromfile(outputs, np.float32).reshape(int(rows), -1)
    names = sorted(schemes, key=lambda name: int(name.split(".")[0]))
    for k, name in enumerate(names):
        x = layer(x if k == 0 else np.maximum(x, 0), name, tensors, schemes[name])
    found = sum(tensors[name].size for name in names if tensors[name].dtype in (np.int8, np.uint8))
    print(json.dumps({"difference": float(np.abs(x - wanted).max() / np.abs(wanted).max()), "bytes_of_codes": int(found)}))


main()
