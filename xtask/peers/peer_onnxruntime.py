"""ONNX Runtime speaking the protocol of `bench serve`. Each workload is a graph of its own; weights and right operands of
products are constants in it, which the session packs before the first sample, as it does for a user's model."""

import io
import functools
import pathlib
import tempfile

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from peer import CONVOLUTIONS, GEMMS, Ready, Unsupported, indices, operands, serve, threads, uniform

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def ready(nodes, inputs, constants=None, result="y", kind=TensorProto.FLOAT, shown=True):
    """A graph of nodes (op, inputs, output, attributes) whose last output is called y."""
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out], **attributes) for op, ins, out, attributes in nodes],
        "workload",
        [helper.make_tensor_value_info(name, TYPES[x.dtype], x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info(result, kind, None)],
        [numpy_helper.from_array(np.ascontiguousarray(x), name) for name, x in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    run = session(model.SerializeToString()).run
    call = lambda: run([result], inputs)[0]
    return Ready(call, call if shown else None)


def gemm(batch, m, n, k, ta, tb):
    a, b = operands(batch, m, n, k, ta, tb)
    if batch > 1:
        if ta or tb:
            raise Unsupported("the graph has no batched product of a transposed operand")
        return ready([("MatMul", ["a", "b"], "y", {})], {"a": a, "b": b})
    # A transposed operand is one of Gemm's attributes.
    if ta or tb:
        return ready([("Gemm", ["a", "b"], "y", {"transA": int(ta), "transB": int(tb)})], {"a": a}, {"b": b})
    return ready([("MatMul", ["a", "b"], "y", {})], {"a": a}, {"b": b})


def gemm_int8(n):
    a, b = ((x * 127).astype(np.int8) for x in operands(1, n, n, n, False, False))
    return ready([("MatMulInteger", ["a", "b"], "y", {})], {"a": (a.astype(np.int16) + 128).astype(np.uint8)}, {"b": b}, kind=TensorProto.INT32, shown=False)


def linear(batch):
    x, w, b = uniform([batch, 1024], 1), uniform([1024, 1024], 2), uniform([1024], 3)
    return ready([("Gemm", ["x", "w", "b"], "y", {"transB": 1})], {"x": x}, {"w": w, "b": b})


def qlinear(batch):
    x, w, b = uniform([batch, 1024], 1), uniform([1024, 1024], 2), uniform([1024], 3)
    scale = (np.abs(w).max(1) / 127).astype(np.float32)
    q = np.rint(w / scale[:, None]).astype(np.int8).T
    nodes = [
        ("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], {}),
        ("MatMulInteger", ["q", "w", "z"], ["i"], {}),
        ("Cast", ["i"], ["f"], {"to": TensorProto.FLOAT}),
        ("Mul", ["s", "ws"], ["ss"], {}),
        ("Mul", ["f", "ss"], ["p"], {}),
        ("Add", ["p", "b"], ["y"], {}),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes],
        "workload",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(v), name) for name, v in {"w": q, "ws": scale, "b": b}.items()],
    )
    run = session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()).run
    call = lambda: run(["y"], {"x": x})[0]
    return Ready(call, call)


def nibbles(batch, n=4096, block=32):
    """Codes of 4 bits with a scale for each 32 columns; at accuracy level 4 inputs become codes of 8 bits, likewise."""
    x, w, b = uniform([batch, n], 1), uniform([n, n], 2), uniform([n], 3)
    blocks = w.reshape(n, n // block, block)
    scale = (np.abs(blocks).max(2) / 7).astype(np.float32)
    codes = (np.clip(np.rint(blocks / scale[:, :, None]), -8, 7) + 8).astype(np.uint8)
    packed = codes[:, :, 0::2] | codes[:, :, 1::2] << 4
    attributes = {"domain": "com.microsoft", "K": n, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4}
    # Its codes of x have scales of their own, so the output is another one.
    return ready([("MatMulNBits", ["x", "w", "s", "", "", "b"], "y", attributes)], {"x": x}, {"w": packed, "s": scale, "b": b}, shown=False)


def convolution(ci, co, size, k, stride, padding):
    attributes = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [padding] * 4}
    return ready([("Conv", ["x", "w"], "y", attributes)], {"x": uniform([1, ci, size, size], 1)}, {"w": uniform([co, ci, k, k], 2)})


def reduced(axis):
    return ready([("ReduceSum", ["x", "axis"], "y", {"keepdims": 0})], {"x": uniform([4096, 4096], 1)}, {"axis": np.array([axis], np.int64)})


def norm():
    x, w, b = uniform([4096, 768], 1), uniform([768], 2), uniform([768], 3)
    return ready([("LayerNormalization", ["x", "w", "b"], "y", {"axis": -1, "epsilon": 1e-5})], {"x": x}, {"w": w, "b": b})


def gelu():
    x, w, b = uniform([4096, 4096], 1), uniform([4096], 2), uniform([4096], 3)
    nodes = [("Mul", ["x", "w"], "p", {}), ("Add", ["p", "b"], "z", {}), ("Gelu", ["z"], "y", {"approximate": "tanh"})]
    return ready(nodes, {"x": x}, {"w": w, "b": b})


class Calibration:
    """One input, as the quantizer reads it."""

    def __init__(self, x):
        self.left = [{"x": x}]

    def get_next(self):
        return self.left.pop() if self.left else None


def coded(static):
    """How a graph of floats becomes one of 8-bit codes: inputs by the range of one input, or each by its own."""
    from onnxruntime import quantization as q

    def change(graph, x):
        with tempfile.TemporaryDirectory() as folder:
            before, after = pathlib.Path(folder) / "floats.onnx", pathlib.Path(folder) / "codes.onnx"
            before.write_bytes(graph)
            if static:
                q.quant_pre_process(str(before), str(before))
                kinds = {"activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8}
                q.quantize_static(str(before), str(after), Calibration(x), quant_format=q.QuantFormat.QDQ, per_channel=True, **kinds)
            else:
                q.quantize_dynamic(str(before), str(after), per_channel=True, weight_type=q.QuantType.QInt8)
            return after.read_bytes()

    return change


def exported(build, change=lambda graph, x: graph):
    """A network of the PyTorch runner, if that is there to write it down, as `change` makes it."""
    try:
        import torch

        import models_torch
    except ImportError as e:
        raise Unsupported(f"the graph is written by torch: {e}") from e
    net, x = getattr(models_torch, build)()
    file = io.BytesIO()
    torch.onnx.export(net.eval(), (x,), file, input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
    x = x.numpy()
    run = session(change(file.getvalue(), x)).run
    return Ready(lambda: run(["y"], {"x": x})[0])


def table():
    n = 4096
    t = {f"gemm_f32_{name}": functools.partial(gemm, 1, *sizes) for name, sizes in GEMMS.items()}
    for suffix, tb in (("nn", False), ("nt", True)):
        t[f"bmm_f32_48_256x64x256_{suffix}"] = functools.partial(gemm, 48, 256, 256, 64, False, tb)
    t["gemm_int8_1024"] = functools.partial(gemm_int8, 1024)
    for batch in (1, 32):
        t[f"linear_f32_1024_b{batch}"] = functools.partial(linear, batch)
        t[f"qlinear_dyn_int8_1024_b{batch}"] = functools.partial(qlinear, batch)
        t[f"qlinear_int4_g32_4096_b{batch}"] = functools.partial(nibbles, batch)
    t |= {name: functools.partial(convolution, *sizes) for name, sizes in CONVOLUTIONS.items()}
    square = lambda seed: uniform([n, n], seed)
    t |= {
        "ew_add_16m": lambda: ready([("Add", ["x", "z"], "y", {})], {"x": square(1), "z": square(2)}),
        "ew_gelu_xwb_16m": gelu,
        "sum_last_16m": lambda: reduced(1),
        "sum_first_16m": lambda: reduced(0),
        "softmax_4096x1024": lambda: ready([("Softmax", ["x"], "y", {"axis": -1})], {"x": uniform([n, 1024], 1)}),
        "layernorm_4096x768": norm,
        "bcast_add_row_16m": lambda: ready([("Add", ["x", "z"], "y", {})], {"x": square(1), "z": uniform([n], 2)}),
        "transpose_copy_4096": lambda: ready([("Transpose", ["x"], "y", {"perm": [1, 0]})], {"x": square(1)}),
        "embedding_32000x768_8192": lambda: ready([("Gather", ["w", "i"], "y", {"axis": 0})], {"i": indices([8192], 32000)}, {"w": uniform([32000, 768], 1)}),
        "small_add4_nograd": lambda: ready([("Add", ["x", "z"], "y", {})], {"x": uniform([4], 1), "z": uniform([4], 2)}),
        "infer_resnet50_b1": lambda: exported("resnet50"),
        "infer_minilm_b32_s128": lambda: exported("minilm"),
        "infer_resnet50_int8_b1": lambda: exported("resnet50", coded(static=True)),
        "infer_minilm_int8_b32_s128": lambda: exported("minilm", coded(static=False)),
    }
    return t


if __name__ == "__main__":
    serve("onnxruntime", ort.__version__, table())
