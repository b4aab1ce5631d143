"""Records what ONNX Runtime's quantization tools make of small models.

    pip install onnx onnxruntime numpy flatbuffers
    python record.py

The tests compare the package with these files. They were written with ONNX Runtime
1.31.1, onnx 1.23.2 and NumPy 2.4.6. NPZ files hold batches as NAME.INDEX.
"""

import json
import os
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quant_utils,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.calibrate import (
    CalibrationDataReader,
    EntropyCalibrater,
    MinMaxCalibrater,
    PercentileCalibrater,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

HERE = os.path.dirname(os.path.abspath(__file__))
F = TensorProto.FLOAT


class Reader(CalibrationDataReader):
    def __init__(self, batches):
        self.batches = iter(batches)

    def get_next(self):
        return next(self.batches, None)


def path(*parts):
    p = os.path.join(HERE, *parts)
    os.makedirs(os.path.dirname(p), exist_ok=True)
    return p


def save_batches(name, batches):
    np.savez_compressed(
        path(name), **{f"{k}.{i}": v for i, b in enumerate(batches) for k, v in b.items()}
    )


def save(name, nodes, inputs, outputs, weights, opset=17):
    graph = helper.make_graph(
        nodes,
        name,
        inputs,
        outputs,
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path(name + ".onnx"))


def exact_model():
    """Sums of small fractions of two: every order of adding them gives the same."""
    rng = np.random.default_rng(7)

    def dyadic(low, high, step, *shape):
        return (rng.integers(low, high, shape) * step).astype(np.float32)

    weights = {
        "w1": dyadic(-8, 9, 1 / 8, 4, 2, 3, 3),
        "b1": dyadic(-8, 9, 1 / 16, 4),
        "w2": dyadic(-8, 9, 1 / 8, 4, 4, 3, 3),
        "fc": dyadic(-8, 9, 1 / 16, 4, 5),
        "fcb": dyadic(-8, 9, 1 / 64, 5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["s"], "add"),
        helper.make_node("MaxPool", ["s"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"], "gap"),
        helper.make_node("Flatten", ["g"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc", "fcb"], ["y"], "fc"),
    ]
    save(
        "exact",
        nodes,
        [helper.make_tensor_value_info("x", F, ["n", 2, 8, 8])],
        [helper.make_tensor_value_info("y", F, ["n", 5])],
        weights,
    )
    scales = [1, 2, 1, 4, 1, 1]  # the histograms have to widen
    batches = [{"x": dyadic(-16, 17, s / 16, 2, 2, 8, 8)} for s in scales]
    batches[4]["x"] = np.abs(batches[4]["x"]) / 2
    save_batches("exact.npz", batches)
    return batches


def record_ranges(batches):
    model = path("exact.onnx")
    cases = [
        ("minmax", MinMaxCalibrater, {}, 0, {}),
        ("minmax symmetric", MinMaxCalibrater, {"symmetric": True}, 0, {"symmetric": True}),
        ("minmax conv", MinMaxCalibrater, {"op_types_to_calibrate": ["Conv"]}, 0, {"op_types": ["Conv"]}),
        ("minmax mean", MinMaxCalibrater, {"moving_average": True}, 0, {"moving_average": True}),
        (
            "minmax moving",
            MinMaxCalibrater,
            {"moving_average": True, "averaging_constant": 0.25},
            2,
            {"moving_average": True, "averaging_constant": 0.25},
        ),
        ("entropy", EntropyCalibrater, {"num_bins": 512}, 0, {"bins": 512}),
        ("entropy fine", EntropyCalibrater, {"num_bins": 1024, "num_quantized_bins": 64}, 0, {"bins": 1024, "quantized_bins": 64}),
        ("entropy default", EntropyCalibrater, {}, 0, {}),
        ("entropy windows", EntropyCalibrater, {}, 1, {}),
        ("entropy two", EntropyCalibrater, {"num_bins": 256}, 2, {"bins": 256}),
        ("percentile", PercentileCalibrater, {}, 0, {}),
        ("percentile 99", PercentileCalibrater, {"percentile": 99.0}, 0, {"percent": 99.0}),
        ("percentile windows", PercentileCalibrater, {"percentile": 98.0, "num_bins": 256}, 1, {"percent": 98.0, "bins": 256}),
        ("percentile symmetric", PercentileCalibrater, {"percentile": 97.0, "symmetric": True}, 0, {"percent": 97.0, "symmetric": True}),
        (
            "percentile symmetric windows",
            PercentileCalibrater,
            {"percentile": 97.0, "symmetric": True, "num_bins": 128},
            1,
            {"percent": 97.0, "symmetric": True, "bins": 128},
        ),
    ]
    out = []
    for name, cls, args, window, options in cases:
        with tempfile.TemporaryDirectory() as tmp:
            c = cls(model, augmented_model_path=os.path.join(tmp, "a.onnx"), **args)
            c.augment_graph()
            c.create_inference_session()
            step = window or len(batches)
            for i in range(0, len(batches), step):
                c.collect_data(Reader(batches[i : i + step]))
            data = c.compute_data()
        ranges = {}
        for k in sorted(data.keys()):
            lo, hi = data[k].range_value
            ranges[k] = [float(np.asarray(lo).item()), float(np.asarray(hi).item())]
        case = {"name": name, "method": name.split()[0], "window": window, "options": options, "ranges": ranges}
        out.append(case)
        if name in ("minmax", "minmax symmetric", "entropy default"):
            folder = os.path.dirname(path("table", name.replace(" ", "_"), "x"))
            quant_utils.write_calibration_table(data, folder)
    with open(path("ranges.json"), "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


def conv_model():
    rng = np.random.default_rng(11)

    def w(*shape, scale=0.4):
        return rng.normal(0, scale, shape).astype(np.float32)

    weights = {
        "w1": w(8, 3, 3, 3), "b1": w(8),
        "dw": w(8, 1, 3, 3), "db": w(8),
        "w2": w(8, 8, 1, 1), "b2": w(8),
        "w3": w(8, 16, 1, 1),
        "gain": np.array(0.5, np.float32),
        "fc": w(5, 8), "fcb": w(5),
    }
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
        n("Relu", ["c1"], ["r1"], "relu1"),
        n("Conv", ["r1", "dw", "db"], ["c2"], "depthwise", pads=[1, 1, 1, 1], group=8),
        n("LeakyRelu", ["c2"], ["l2"], "leaky", alpha=0.1),
        n("Conv", ["l2", "w2", "b2"], ["c3"], "conv3"),
        n("Add", ["c3", "r1"], ["s"], "add"),
        n("Sigmoid", ["s"], ["sig"], "sigmoid"),
        n("Mul", ["s", "sig"], ["mul"], "mul"),
        n("Concat", ["mul", "r1"], ["cat"], "concat", axis=1),
        n("Conv", ["cat", "w3"], ["c4"], "conv4"),
        n("MaxPool", ["c4"], ["mp"], "maxpool", kernel_shape=[2, 2], strides=[2, 2]),
        n("AveragePool", ["mp"], ["ap"], "avgpool", kernel_shape=[2, 2], strides=[1, 1]),
        n("Mul", ["ap", "gain"], ["gained"], "gain_mul"),
        n("GlobalAveragePool", ["gained"], ["gap"], "gap"),
        n("Flatten", ["gap"], ["flat"], "flatten"),
        n("Gemm", ["flat", "fc", "fcb"], ["logits"], "fc", transB=1),
        n("Softmax", ["logits"], ["y"], "softmax", axis=1),
    ]
    save(
        "conv",
        nodes,
        [helper.make_tensor_value_info("x", F, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", F, ["n", 5])],
        weights,
    )
    batches = [{"x": rng.normal(0, 1, (2, 3, 16, 16)).astype(np.float32)} for _ in range(4)]
    save_batches("conv.npz", batches)
    return batches


def block_model():
    """One block of a transformer encoder: two heads of eight, width 16, six positions."""
    rng = np.random.default_rng(13)

    def w(*shape, scale=0.25):
        return rng.normal(0, scale, shape).astype(np.float32)

    weights = {
        "wq": w(16, 16), "wk": w(16, 16), "wv": w(16, 16), "wo": w(16, 16),
        "bq": w(16), "bo": w(16),
        "w1": w(16, 32), "b1": w(32), "w2": w(32, 16), "b2": w(16),
        "g1": w(16) + 1, "be1": w(16), "g2": w(16) + 1, "be2": w(16),
        "heads": np.array([0, 0, 2, 8], np.int64), "flat": np.array([0, 0, 16], np.int64),
        "root": np.array(np.sqrt(8), np.float32), "two": np.array(np.sqrt(2), np.float32),
        "one": np.array(1, np.float32), "half": np.array(0.5, np.float32),
    }
    n = helper.make_node
    nodes = [
        n("MatMul", ["x", "wq"], ["q0"], "q"),
        n("Add", ["q0", "bq"], ["q1"], "q_bias"),
        n("MatMul", ["x", "wk"], ["k1"], "k"),
        n("MatMul", ["x", "wv"], ["v1"], "v"),
        n("Reshape", ["q1", "heads"], ["q2"], "q_heads"),
        n("Reshape", ["k1", "heads"], ["k2"], "k_heads"),
        n("Reshape", ["v1", "heads"], ["v2"], "v_heads"),
        n("Transpose", ["q2"], ["q3"], "q_t", perm=[0, 2, 1, 3]),
        n("Transpose", ["k2"], ["k3"], "k_t", perm=[0, 2, 3, 1]),
        n("Transpose", ["v2"], ["v3"], "v_t", perm=[0, 2, 1, 3]),
        n("MatMul", ["q3", "k3"], ["scores"], "scores"),
        n("Div", ["scores", "root"], ["scaled"], "scale"),
        n("Softmax", ["scaled"], ["probs"], "softmax", axis=-1),
        n("MatMul", ["probs", "v3"], ["ctx"], "context"),
        n("Transpose", ["ctx"], ["ctx_t"], "ctx_t", perm=[0, 2, 1, 3]),
        n("Reshape", ["ctx_t", "flat"], ["ctx_f"], "ctx_flat"),
        n("MatMul", ["ctx_f", "wo"], ["o0"], "o"),
        n("Add", ["o0", "bo"], ["o1"], "o_bias"),
        n("Add", ["x", "o1"], ["res1"], "residual1"),
        n("LayerNormalization", ["res1", "g1", "be1"], ["n1"], "norm1", axis=-1, epsilon=1e-5),
        n("MatMul", ["n1", "w1"], ["h0"], "ffn1"),
        n("Add", ["h0", "b1"], ["h1"], "ffn1_bias"),
        n("Div", ["h1", "two"], ["e0"], "gelu_div"),
        n("Erf", ["e0"], ["e1"], "gelu_erf"),
        n("Add", ["e1", "one"], ["e2"], "gelu_add"),
        n("Mul", ["h1", "e2"], ["e3"], "gelu_mul"),
        n("Mul", ["e3", "half"], ["h2"], "gelu_half"),
        n("MatMul", ["h2", "w2"], ["f0"], "ffn2"),
        n("Add", ["f0", "b2"], ["f1"], "ffn2_bias"),
        n("Add", ["n1", "f1"], ["res2"], "residual2"),
        n("LayerNormalization", ["res2", "g2", "be2"], ["y"], "norm2", axis=-1, epsilon=1e-5),
    ]
    save(
        "block",
        nodes,
        [helper.make_tensor_value_info("x", F, [1, 6, 16])],
        [helper.make_tensor_value_info("y", F, [1, 6, 16])],
        weights,
    )
    batches = [{"x": rng.normal(0, 1, (1, 6, 16)).astype(np.float32)} for _ in range(4)]
    save_batches("block.npz", batches)
    return batches


TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}


def record_static(name, batches):
    cases = [
        # format, activations, weights, per channel, reduce range, symmetric activations
        ("qdq", "u8", "s8", False, False, False),
        ("qdq", "u8", "s8", True, False, False),
        ("qdq", "s8", "s8", True, False, True),
        ("qdq", "u8", "u8", False, True, False),
        ("qoperator", "u8", "u8", False, False, False),
        ("qoperator", "u8", "s8", True, True, False),
        ("qoperator", "s8", "s8", False, False, True),
    ]
    for fmt, act, weight, channel, reduce, symmetric in cases:
        label = f"{fmt}-{act}{weight}" + "-channel" * channel + "-reduce" * reduce + "-symmetric" * symmetric
        cache = path("static", name, "ranges.json")
        quantize_static(
            path(name + ".onnx"),
            path("static", name, label + ".onnx"),
            Reader(batches),
            quant_format=QuantFormat.QDQ if fmt == "qdq" else QuantFormat.QOperator,
            per_channel=channel,
            reduce_range=reduce,
            activation_type=TYPES[act],
            weight_type=TYPES[weight],
            calibrate_method=CalibrationMethod.MinMax,
            calibration_cache_path=cache,
            extra_options={"ActivationSymmetric": symmetric},
        )


def record_dynamic(name):
    for weight, channel, reduce in [("s8", False, False), ("u8", False, False), ("s8", True, False), ("s8", True, True)]:
        label = weight + "-channel" * channel + "-reduce" * reduce
        quantize_dynamic(
            path(name + ".onnx"),
            path("dynamic", name, label + ".onnx"),
            per_channel=channel,
            reduce_range=reduce,
            weight_type=TYPES[weight],
        )


def record_nbits():
    rng = np.random.default_rng(17)
    weights = {
        "w1": rng.normal(0, 0.3, (70, 6)).astype(np.float32),
        "w2": rng.uniform(-0.2, 1, (6, 33)).astype(np.float32),
    }
    weights["w1"][:, 3] = 0
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "w2"], ["y"], "second"),
    ]
    save(
        "nbits",
        nodes,
        [helper.make_tensor_value_info("x", F, ["n", 70])],
        [helper.make_tensor_value_info("y", F, ["n", 33])],
        weights,
        opset=21,
    )
    for fmt, bits, block, symmetric in [
        ("qoperator", 4, 32, True),
        ("qoperator", 4, 16, False),
        ("qoperator", 8, 32, True),
        ("qoperator", 8, 64, False),
        ("qdq", 4, 32, True),
        ("qdq", 4, 16, False),
    ]:
        q = MatMulNBitsQuantizer(
            onnx.load(path("nbits.onnx")),
            block_size=block,
            is_symmetric=symmetric,
            accuracy_level=4 if fmt == "qoperator" else None,
            bits=bits,
            quant_format=QuantFormat.QDQ if fmt == "qdq" else QuantFormat.QOperator,
        )
        q.process()
        label = f"{fmt}-{bits}-{block}" + "-symmetric" * symmetric
        onnx.save(q.model.model, path("nbits", label + ".onnx"))


if __name__ == "__main__":
    record_ranges(exact_model())
    for name, batches in [("conv", conv_model()), ("block", block_model())]:
        record_static(name, batches)
        record_dynamic(name)
    record_nbits()
