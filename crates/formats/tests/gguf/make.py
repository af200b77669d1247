"""Writes drawn.gguf beside it: blocks of every type of codes that are read, by the package `gguf` of llama.cpp's authors, each with the
numbers that the package reads of them (`NAME.numbers`), and entries of every type.

    pip install gguf numpy
    python make.py
"""
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Kind, GGUFWriter, quants

draw = np.random.default_rng(28)
writer = GGUFWriter(Path(__file__).with_name("drawn.gguf"), "drawn")
writer.add_uint8("a.u8", 200)
writer.add_int8("a.i8", -100)
writer.add_uint16("a.u16", 60000)
writer.add_int16("a.i16", -30000)
writer.add_uint32("a.u32", 4000000000)
writer.add_int32("a.i32", -2000000000)
writer.add_float32("a.f32", 0.1)
writer.add_bool("a.bool", True)
writer.add_string("a.text", "Köln")
writer.add_uint64("a.u64", 2**63 + 1)
writer.add_int64("a.i64", -(2**62))
writer.add_float64("a.f64", 0.1)
writer.add_array("a.texts", ["a", "", "längere"])
writer.add_array("a.numbers", [1, -2, 3])
writer.add_array("a.floats", [0.5, -1.5])


def add(name, codes, kind):
    writer.add_tensor(name, codes, raw_dtype=kind)
    writer.add_tensor(f"{name}.numbers", quants.dequantize(codes, kind).astype(np.float32))


normal = draw.standard_normal((3, 256)).astype(np.float32)
normal[1, 64:96] = 0
for kind in (Kind.Q8_0, Kind.Q4_0, Kind.Q4_1):
    add(kind.name.lower(), quants.quantize(normal, kind), kind)


def half(n, low, high):
    return draw.uniform(low, high, n).astype(np.float16).view(np.uint8)


def blocks(n, *parts):
    """n blocks, whose bytes are halves (a range) or anything (a number of bytes)."""
    each = lambda part: half(1, *part) if isinstance(part, tuple) else draw.integers(0, 256, part, dtype=np.uint8)
    return np.stack([np.concatenate([each(part) for part in parts]) for _ in range(n)])


add("q4_k", blocks(4, (0.001, 0.1), (0.001, 0.1), 12, 128).reshape(2, -1), Kind.Q4_K)
add("q6_k", blocks(4, 128, 64, 16, (-0.1, 0.1)).reshape(2, -1), Kind.Q6_K)
writer.add_tensor("f16", normal[:1, :5].astype(np.float16))
writer.add_tensor("f32", normal[:2, :3])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
