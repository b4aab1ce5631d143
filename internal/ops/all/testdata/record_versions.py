"""Records one or more one-node models for each operator of ONNX and each of its versions.

    python record_versions.py      needs what record.py needs

The versions are those of the schemas in the onnx package. What is expected comes from
ONNX Runtime and ONNX's reference evaluator, both wherever both run the case, and must
agree; for forms of before opset 7 that neither runs, from the newest form of the operator
by them, or from a formula in NumPy. "by" in a case says which. Cases of operators that
draw numbers leave nothing to chance: a deviation of 0, probabilities 0 and 1.

Results go to recorded/versions_*.json; versions.json holds the versions of each operator.
"""
import base64
import collections
import json
import os
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import defs
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx.reference import ReferenceEvaluator

from record import F, enc, enc_attr, num, rnd

ML, PREVIEW = "ai.onnx.ml", "ai.onnx.preview"
D, I32, I64, U8, I8, B = np.float64, np.int32, np.int64, np.uint8, np.int8, np.bool_
HALF = np.float16
ANY = object()  # an output that the case does not check

SCHEMAS = collections.defaultdict(dict)
for s in defs.get_all_schemas_with_history():
    SCHEMAS[(s.domain + "." if s.domain else "") + s.name][s.since_version] = s

ROWS = []
FAILED = []


class Opt:
    """An optional value and the type of what it may hold."""

    def __init__(self, value, elem):
        self.value, self.elem = value, elem


NAMES = {"float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
         "float4_e2m1fn": "float4e2m1", "float8_e8m0fnu": "float8e8m0",
         "float6_e2m3fn": "float6e2m3", "float6_e3m2fn": "float6e3m2"}


def encode(v):
    if isinstance(v, Opt):
        return {"opt": [] if v.value is None else [encode(v.value)], "of": b64(v.elem)}
    if isinstance(v, list):
        return {"seq": [encode(x) for x in v]}
    if v is not None and not isinstance(v, dict):
        v = np.asarray(v)
        name = v.dtype.name
        if name in NAMES or name in ("int4", "uint4", "int2", "uint2", "bfloat16"):
            return {"t": NAMES.get(name, name), "s": list(v.shape), "d": [num(x) for x in v.astype(F).ravel()]}
    return enc(v)


def b64(proto):
    return base64.b64encode(proto.SerializeToString()).decode()


def encode_attr(v):
    if isinstance(v, onnx.GraphProto):
        return {"graph": b64(v)}
    if isinstance(v, onnx.TypeProto):
        return {"type": b64(v)}
    if isinstance(v, onnx.TensorProto):
        return {"tensor": encode(nh.to_array(v))}
    if isinstance(v, (np.floating,)):
        v = float(v)
    return enc_attr(v)


def type_of(v):
    if isinstance(v, Opt):
        return h.make_optional_type_proto(v.elem)
    if isinstance(v, list):
        return h.make_sequence_type_proto(type_of(v[0]))
    et = T.STRING if v.dtype.kind in "OU" else h.np_dtype_to_tensor_dtype(v.dtype)
    return h.make_tensor_type_proto(et, v.shape)


def wanted(nout):
    return [c == "1" for c in nout] if isinstance(nout, str) else [True] * nout


def model(op, domain, opset, inputs, attrs, nout):
    ins = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    outs = [f"o{k}" if w else "" for k, w in enumerate(wanted(nout))]
    node = h.make_node(op, ins, outs, domain=domain, **attrs)
    vi = [h.make_value_info(n, type_of(v)) for n, v in zip(ins, inputs) if v is not None]
    vo = [onnx.ValueInfoProto(name=o) for o in outs if o]
    ops = [h.make_opsetid(domain, opset)] + ([h.make_opsetid("", 21)] if domain else [])
    feed = {n: (v.value if isinstance(v, Opt) else v) for n, v in zip(ins, inputs) if v is not None}
    return h.make_model(h.make_graph([node], "g", vi, vo), opset_imports=ops, ir_version=10), feed


ort.set_default_logger_severity(4)


def by_ort(m, feed):
    so = ort.SessionOptions()
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"]).run(None, feed)


def by_reference(m, feed):
    return ReferenceEvaluator(m).run(None, feed)


def close(a, b, tol):
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y, tol) for x, y in zip(a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "OUS":
        return [str(x) for x in a.ravel()] == [str(x) for x in b.ravel()]
    return a.dtype == b.dtype and np.allclose(a.astype(D), b.astype(D), rtol=tol or 1e-3, atol=1e-5, equal_nan=True)


def upper(name, v):
    """The last opset that resolves to version v."""
    later = [x for x in SCHEMAS[name] if x > v]
    return min(later) - 1 if later else v


def answer(op, domain, opset, inputs, attrs, nout, tol=None, skip="", name=None):
    """What the oracles make of a node, and which of them did."""
    got, by, errs = None, [], []
    name = (domain + "." if domain else "") + op
    for who, run in [("ort", by_ort), ("reference", by_reference)]:
        if who in skip:
            continue
        for o in dict.fromkeys([opset, upper(name, opset)]):
            try:
                r = run(*model(op, domain, o, inputs, attrs, nout))
            except Exception as e:  # the oracle does not run this one
                errs.append(f"{who}-{o}: {str(e)[:150]}")
                continue
            if got is None:
                got = r
                by.append(who)
            elif all(close(x, y, tol) for x, y in zip(got, r)):
                by.append(who)
            else:
                raise AssertionError(f"oracles disagree: {got} {r}")
            break
    if got is None:
        raise AssertionError("no oracle: " + "; ".join(errs))
    return got, by


def case(op, v, inputs, attrs=None, nout=1, want=None, domain="", tol=None, note=None, skip="", by=None, opset=None):
    """Records a case for version v. want: the outputs by a formula. skip: an oracle that gets the case wrong."""
    attrs = dict(attrs or {})
    name = (domain + "." if domain else "") + op
    if "consumed_inputs" in SCHEMAS[name][v].attributes if name in SCHEMAS else False:
        attrs["consumed_inputs"] = [0] * len(inputs)
    inputs = [x if x is None or isinstance(x, (Opt, list)) else np.asarray(x) for x in inputs]
    try:
        if want is None:
            got, by = answer(op, domain, opset or v, inputs, attrs, nout, tol, skip)
        else:
            got, by = (want if isinstance(want, (list, tuple)) else [want]), by or ["numpy"]
    except Exception as e:
        FAILED.append(f"{name}-{v}: {e}")
        return
    got = iter(got)
    r = {"op": name, "opset": opset or v}
    if attrs:
        r["attrs"] = {k: encode_attr(x) for k, x in attrs.items()}
    r["in"] = [encode(x) for x in inputs]
    out = [next(got) if w else ANY for w in wanted(nout)]
    r["out"] = [None if x is ANY else encode(x) for x in out]
    r["by"] = " ".join(by)
    if tol:
        r["tol"] = tol
    if note:
        r["note"] = note
    ROWS.append(r)


def like(op, inputs, attrs=None, opset=13, nout=1, skip=""):
    """The outputs of the newest form of an operator: what an old form that the oracles do not run must equal."""
    return answer(op, "", opset, [np.asarray(x) for x in inputs], attrs or {}, nout, skip=skip)[0]


def versions(op):
    return sorted(v for v, s in SCHEMAS[op].items() if not s.deprecated)


X = rnd(1, 2, 3, scale=2)
GRID = np.array([[-2.5, -1, -0.5], [0, 0.5, 2.25]], F)


def unary():
    positive = np.array([[0.25, 0.5, 1], [2, 3.5, 10]], F)
    unit = np.array([[-0.75, -0.5, 0], [0.125, 0.5, 0.875]], F)
    domain = {"Acos": unit, "Asin": unit, "Atanh": unit, "Acosh": positive + 1, "Log": positive, "Sqrt": positive, "Reciprocal": positive}
    attrs = {"Celu": {"alpha": 1.5}, "Elu": {"alpha": 0.75}, "HardSigmoid": {"alpha": 0.25, "beta": 0.375}, "LeakyRelu": {"alpha": 0.125}, "Selu": {"alpha": 1.5, "gamma": 1.25},
             "ThresholdedRelu": {"alpha": 0.375}, "Shrink": {"lambd": 0.75, "bias": 0.25}, "Gelu": {"approximate": "tanh"}, "Swish": {"alpha": 0.5}}
    for op in ["Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
               "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh",
               "ThresholdedRelu"]:
        for v in versions(op):
            x = domain.get(op, GRID)
            # The forms of opset 1 have a list of the inputs that an output may replace; they compute what the others do.
            want = like(op, [x], attrs.get(op)) if v == 1 and "consumed_inputs" in SCHEMAS[op][1].attributes else None
            case(op, v, [x], attrs.get(op), want=want, by=["ort", "newest form"])
            t = [i for i in SCHEMAS[op][v].inputs][0].types
            if "tensor(double)" in t and want is None:
                case(op, v, [x.astype(D)], attrs.get(op))
            if "tensor(int32)" in t and op in ("Abs", "Neg", "Relu", "Sign", "Identity"):
                case(op, v, [np.array([-3, 0, 5], I32)], attrs.get(op))
            if v >= 13 and "tensor(bfloat16)" in t and op not in ("Round", "Gelu"):
                case(op, v, [np.array([-2, 0, 1.5] if op not in domain else [1, 1, 1], ml_dtypes.bfloat16)], attrs.get(op), tol=2e-2, skip="ort")
    odd = np.array([1, np.nan, np.inf, -np.inf], F)
    for v in versions("IsNaN"):
        case("IsNaN", v, [odd])
        case("IsNaN", v, [odd.astype(HALF)])
    for v in versions("IsInf"):
        case("IsInf", v, [odd])
        case("IsInf", v, [odd.astype(D)], {"detect_negative": 0})
    case("Not", 1, [np.array([True, False])])
    for v in versions("Clip"):
        if v < 11:
            case("Clip", v, [GRID], {"min": -0.75, "max": 1.5}, want=np.clip(GRID, F(-0.75), F(1.5)))
            case("Clip", v, [GRID], {"max": 1.5}, want=np.minimum(GRID, F(1.5)))
        else:
            case("Clip", v, [GRID, np.array(-0.75, F), np.array(1.5, F)])
            case("Clip", v, [GRID, None, np.array(1.5, F)])
        if v >= 12:
            case("Clip", v, [np.array([-3, 0, 5], I8), np.array(-2, I8), np.array(3, I8)])
    for v in versions("Dropout"):
        if v < 12:
            a = {"ratio": 0.75, **({"is_test": 1} if v < 7 else {})}
            case("Dropout", v, [GRID], a, want=GRID)
        else:
            case("Dropout", v, [GRID, np.array(0.75, F)], nout=2)
            case("Dropout", v, [GRID, np.array(0, F), np.array(True)], nout=2)


def binary():
    a, b = rnd(1, 2, 3, 4), rnd(2, 3)
    formulas = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
                "Equal": np.equal, "Greater": np.greater, "Less": np.less}
    for op, f in formulas.items():
        for v in versions(op):
            x, y = a, b
            if op in ("And", "Or", "Xor"):
                x, y = a > 0, b > 0
            elif op == "Equal":
                x, y = np.round(a).astype(I32), np.round(b).astype(I32)
            elif op == "Pow":
                x, y = np.abs(a) + F(0.25), b
            if v < 7:
                # Before opset 7 the second operand may be smaller if broadcast is set: its dimensions are those of the
                # first from axis on, or the last ones.
                case(op, v, [x, y], {"broadcast": 1, "axis": 1}, want=f(x, y[:, None]))
                case(op, v, [x, np.resize(y, (3, 4))], {"broadcast": 1}, want=f(x, np.resize(y, (3, 4))))
                case(op, v, [x, y[0]], {"broadcast": 1}, want=f(x, y[0]))
                case(op, v, [x, x[::-1].copy()], want=f(x, x[::-1]))
                case(op, v, [x, np.resize(y, (2, 3))], {"broadcast": 1, "axis": 0}, want=f(x, np.resize(y, (2, 3))[:, :, None]))
            else:
                case(op, v, [x, y[:, None]])
                case(op, v, [y[:, None], x])
            if v >= 14 and op != "Pow":
                case(op, v, [np.array([7, 100, 3], U8), np.array([2, 200, 1], U8)])
    for op in ["GreaterOrEqual", "LessOrEqual"]:
        for v in versions(op):
            case(op, v, [np.round(a), np.round(b)[:, None]])
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        case(op, 18, [np.array([[12, 10], [7, 1]], I32), np.array([10, 3], I32)])
    case("BitwiseNot", 18, [np.array([12, -1, 0], I32)])
    for v in versions("BitShift"):
        for d in ["LEFT", "RIGHT"]:
            case("BitShift", v, [np.array([16, 4, 255], U8), np.array([1, 2, 3], U8)], {"direction": d})
        if v >= 28:
            for t in [I8, np.int16, I32, I64]:
                bits = np.iinfo(t).bits
                x = np.array([-128, 100, -1, 5, -7, 9, 3], t)
                y = np.array([1, 2, 3, bits, bits + 1, -1, 0], t)
                case("BitShift", v, [x, y], {"direction": "RIGHT"}, want=np.array([-64, 25, -1, 0, -1, 0, 3], t), note="out of range: the sign bits remain")
                z = [int(p) << int(q) if 0 <= q < bits else 0 for p, q in zip(x, y)]
                z = np.array([(k + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for k in z], t)
                case("BitShift", v, [x, y], {"direction": "LEFT"}, want=z, note="bits beyond the sign bit are dropped")
    for v in versions("Mod"):
        case("Mod", v, [np.array([-4, 7, 5, 4, -7], I32), np.array([2, -3, 8, -2, 3], I32)])
        case("Mod", v, [np.array([-4.5, 7, 5], F), np.array([2, -3, 8], F)], {"fmod": 1})
        if v >= 28:
            x, y = np.array([-4.5, 7, -0.0, 0.0, np.inf, 3, 3, -3, np.nan, 5, -7.25], F), np.array([2, -3, 3, -3, 2, 0, np.inf, np.inf, 1, -np.inf, 2.5], F)
            case("Mod", v, [x, y], want=np.mod(x, y), by=["numpy"])
            case("Mod", v, [x.astype(D), y.astype(D)], want=np.mod(x.astype(D), y.astype(D)), by=["numpy"])
    for v in versions("PRelu"):
        case("PRelu", v, [a, a[::-1] / 2], want=np.where(a < 0, a * a[::-1] / 2, a))
        if v < 7:
            s = np.array([0.25, 0.5, 2], F)  # one slope for each channel
            case("PRelu", v, [a, s], want=np.where(a < 0, a * s[:, None], a))
            case("PRelu", v, [a, s[:1]], want=np.where(a < 0, a * s[0], a))
        else:
            case("PRelu", v, [a, np.array([[0.25], [0.5], [2]], F)])
    for op, f in [("Max", np.maximum), ("Min", np.minimum), ("Sum", np.add), ("Mean", None)]:
        x, y, z = rnd(3, 2, 3), rnd(4, 2, 3), rnd(5, 2, 3)
        for v in versions(op):
            if v < 8:
                want = f(f(x, y), z) if f else (x + y + z) / 3
                case(op, v, [x, y, z], want=want)
                case(op, v, [x], want=x)
            else:
                case(op, v, [x, y[:1], z[:, :1]])
                case(op, v, [x])
            if v >= 12 and op in ("Max", "Min"):
                case(op, v, [np.array([-3, 4], I64), np.array([5, -6], I64)])
    for v in versions("Where"):
        case("Where", v, [np.array([[True], [False]]), rnd(1, 2, 3), rnd(2, 3)])
    for v in versions("Expand"):
        case("Expand", v, [rnd(1, 3, 1), np.array([2, 1, 4])])
    case("Swish", 24, [GRID])
    for v in versions("SwiGLU"):
        x, y = rnd(1, 2, 3), rnd(2, 2, 3)
        for alpha in [1.0, 0.5]:
            case("SwiGLU", v, [x, y], {} if alpha == 1 else {"alpha": alpha})


def reduction():
    x = np.abs(rnd(1, 2, 3, 4)) + F(0.25)
    for op in ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]:
        for v in versions(op):
            old = "axes" in SCHEMAS[op][v].attributes
            for axes, keep in [([1], 1), ([0, 2], 0), (None, 1), *([([-1], 1)] if v >= 11 else [])]:
                a = {"keepdims": keep}
                ins = [x]
                if old and axes is not None:
                    a["axes"] = axes
                elif axes is not None:
                    ins.append(np.array(axes))
                case(op, v, ins, a)
            if not old:
                case(op, v, [x], {"noop_with_empty_axes": 1})
            if op in ("ReduceMax", "ReduceMin") and v >= 12:
                case(op, v, [np.array([[3, -4], [5, 1]], I8)], {"keepdims": 0})
            if op in ("ReduceMax", "ReduceMin") and v >= 20:
                case(op, v, [np.array([[True, False], [True, True]]), np.array([1])], {"keepdims": 0})
    y = np.array([[2, 1, 2], [3, 3, 0]], F)
    for op in ["ArgMax", "ArgMin"]:
        for v in versions(op):
            case(op, v, [y])
            case(op, v, [y], {"axis": 1, "keepdims": 0})
            if v >= 11:
                case(op, v, [y], {"axis": -1})
            if v >= 12:
                case(op, v, [y], {"axis": 1, "select_last_index": 1})
    for op in ["Softmax", "LogSoftmax", "Hardmax"]:
        for v in versions(op):
            no = "reference" if v < 13 else ""  # it does not flatten the input to a matrix
            case(op, v, [rnd(1, 2, 3, 2)], skip=no)
            case(op, v, [rnd(1, 2, 3, 2)], {"axis": 0 if v >= 13 else 2}, skip=no)
            if v >= 11:
                case(op, v, [rnd(1, 2, 3, 2)], {"axis": -2}, skip=no)
    for v in versions("CumSum"):
        case("CumSum", v, [rnd(1, 2, 3), np.array(1, I32)])
        case("CumSum", v, [rnd(1, 2, 3).astype(D), np.array(0)], {"exclusive": 1, "reverse": 1})
    for v in versions("LpNormalization"):
        for p in [1, 2]:
            case("LpNormalization", v, [rnd(1, 2, 3)], {"p": p, "axis": 0}, skip="reference" if p == 1 else "", note="the reference evaluator sums without the sign taken off" if p == 1 else None)
    for v in versions("MeanVarianceNormalization"):
        case("MeanVarianceNormalization", v, [rnd(1, 2, 3, 2, 2)])
        case("MeanVarianceNormalization", v, [rnd(1, 2, 3, 2, 2)], {"axes": [0, 2, 3]})
    for v in versions("LRN"):
        case("LRN", v, [rnd(1, 1, 5, 2, 2)], {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 1.5}, skip="reference", note="the reference evaluator takes other channels")
    case("ReduceSum", 13, [x, np.array([], I64)], {"noop_with_empty_axes": 1})
    for v in versions("TopK"):
        x = np.array([[3, 1, 4, 1.5], [9, 2, 6, 5]], F)
        if v == 1:
            i = np.argsort(-x, 1, kind="stable")[:, :2]
            case("TopK", v, [x], {"axis": 1, "k": 2}, 2, want=[np.take_along_axis(x, i, 1), i])
            case("TopK", v, [x.T], {"axis": 0, "k": 2}, 2, want=[np.take_along_axis(x, i, 1).T, i.T])
        else:
            case("TopK", v, [x, np.array([2])], {"axis": 1}, 2)
        if v >= 11:
            case("TopK", v, [x, np.array([3])], {"axis": 0 - 1, "largest": 0}, 2)
            case("TopK", v, [x.astype(I64), np.array([1])], {"axis": 0}, 2)


def moves():
    x = rnd(1, 2, 3, 4)
    for v in versions("Concat"):
        a = {"axis": 1} if v >= 4 else {}
        case("Concat", v, [x, x[:, :1]], a, want=np.concatenate([x, x[:, :1]], 1))
        case("Concat", v, [x, x], {"axis": 2}, want=np.concatenate([x, x], 2))
        if v >= 11:
            case("Concat", v, [x, x[:1]], {"axis": -3})
    for v in versions("Flatten"):
        case("Flatten", v, [x], {"axis": 2})
        case("Flatten", v, [x])
        if v >= 11:
            case("Flatten", v, [x], {"axis": -1})
        if v >= 9:
            case("Flatten", v, [np.arange(6, dtype=U8).reshape(1, 2, 3)], {"axis": 0})
    for v in versions("Transpose"):
        case("Transpose", v, [x], {"perm": [2, 0, 1]})
        case("Transpose", v, [x])
    for v in versions("Reshape"):
        if v == 1:
            case("Reshape", v, [x], {"shape": [0, -1]}, want=x.reshape(2, 12))
            case("Reshape", v, [x], {"shape": [4, 6]}, want=x.reshape(4, 6))
        else:
            case("Reshape", v, [x, np.array([0, -1])])
            case("Reshape", v, [x, np.array([4, 3, 2])])
        if v >= 14:
            case("Reshape", v, [np.zeros((0, 3), F), np.array([3, 0])], {"allowzero": 1})
    for v in versions("Squeeze"):
        y = x.reshape(1, 2, 3, 1, 4)
        if v < 13:
            case("Squeeze", v, [y], {"axes": [0, 3]})
            case("Squeeze", v, [y], {"axes": [-2 if v >= 11 else 3]})
        else:
            case("Squeeze", v, [y, np.array([0, -2])])
        case("Squeeze", v, [y])
    for v in versions("Unsqueeze"):
        axes = [0, -1] if v >= 11 else [0, 2]
        case("Unsqueeze", v, [x] + ([np.array(axes)] if v >= 13 else []), {"axes": axes} if v < 13 else {})
    for v in versions("Slice"):
        if v == 1:
            case("Slice", v, [x], {"starts": [1, 0], "ends": [3, -1], "axes": [1, 2]}, want=x[:, 1:3, 0:-1])
            case("Slice", v, [x], {"starts": [0, 1], "ends": [9, 1000]}, want=x[0:9, 1:1000])
        else:
            case("Slice", v, [x, np.array([1, 3]), np.array([3, -100]), np.array([1, 2]), np.array([1, -2])])
            case("Slice", v, [x, np.array([0, 1], I32), np.array([9, 1000], I32)])
    for v in versions("Split"):
        if v == 1:
            case("Split", v, [x], {"axis": 2, "split": [1, 3]}, 2, want=[x[..., :1], x[..., 1:]])
            case("Split", v, [x, np.array([1, 3], F)], {"axis": 2}, 2, want=[x[..., :1], x[..., 1:]], note="the input has the type of the data")
        elif v < 13:
            case("Split", v, [x], {"axis": 2, "split": [1, 3]}, 2)
        else:
            case("Split", v, [x, np.array([1, 3])], {"axis": 2}, 2)
        if v >= 18:
            case("Split", v, [x], {"axis": 1, "num_outputs": 2}, 2)
        else:
            case("Split", v, [x], {"axis": 2}, 2, want=[x[..., :2], x[..., 2:]])
    for v in versions("Tile"):
        if v == 1:
            case("Tile", v, [x, np.array(2, F), np.array(1, F)], want=np.tile(x, (1, 2, 1)), note="tiles and axis have the type of the data")
        else:
            case("Tile", v, [x, np.array([1, 2, 1])])
    for v in versions("Pad"):
        a = {"mode": "constant", "value": 1.5}
        if v == 1:
            case("Pad", v, [x[0]], {"paddings": [0, 1, 2, 0], **a}, want=np.pad(x[0], [(0, 2), (1, 0)], constant_values=1.5))
            case("Pad", v, [x[0]], {"paddings": [1, 0, 0, 2], "mode": "reflect"}, want=np.pad(x[0], [(1, 0), (0, 2)], mode="reflect"))
        elif v == 2:
            case("Pad", v, [x[0]], {"pads": [0, 1, 2, 0], **a})
            case("Pad", v, [x[0]], {"pads": [0, 1, 2, -1], "mode": "edge"}, want=np.pad(x[0], [(0, 2), (1, 0)], mode="edge")[:, :-1])
        else:
            case("Pad", v, [x[0], np.array([0, 1, 2, 0]), np.array(1.5, F)])
            case("Pad", v, [x[0], np.array([0, 1, 2, 0])], {"mode": "edge"})
            case("Pad", v, [x[0], np.array([0, 1, 2, 0])], {"mode": "reflect"})
        if v >= 13:
            case("Pad", v, [np.array([[1, 2], [3, 4]], U8), np.array([0, 1, 1, 0]), np.array(7, U8)])
        if v >= 18:
            case("Pad", v, [x[0], np.array([1, 2]), None, np.array([-1])], {"mode": "reflect"})
        if v >= 19:
            case("Pad", v, [x[0], np.array([0, 1, 2, 0])], {"mode": "wrap"})
    for v in versions("Gather"):
        case("Gather", v, [x, np.array([[0, 2], [1, 1]])], {"axis": 1})
        if v >= 11:
            case("Gather", v, [x, np.array([-1, 0], I32)], {"axis": -1})
    for v in versions("GatherElements"):
        case("GatherElements", v, [x[0], np.array([[1, 2, 0, 1], [0, 0, -1, 2]])], {"axis": 0})
    for v in versions("GatherND"):
        case("GatherND", v, [x, np.array([[0, 1], [1, 2]])])
        if v >= 12:
            case("GatherND", v, [x, np.array([[1], [2]])], {"batch_dims": 1})
    for op in ["Scatter", "ScatterElements"]:
        for v in versions(op):
            ins = [x[0], np.array([[1, 0, 2, 1]]), np.array([[1, 2, 3, 4]], F)]
            case(op, v, ins)
            case(op, v, [x[0], np.array([[1], [0], [2]]), np.array([[1], [2], [3]], F)], {"axis": 1})
            if v >= 16:
                for red in ["add", "mul"] + (["min", "max"] if v >= 18 else []):
                    case(op, v, [x[0], np.array([[1, 0, 1, 1], [1, 0, 2, 1]]), np.array([[1, 2, 3, 4], [5, -6, 7, 8]], F)], {"reduction": red})
    for v in versions("ScatterND"):
        case("ScatterND", v, [x, np.array([[0, 1], [1, 2]]), rnd(2, 2, 4)])
        if v >= 16:
            for red in ["add", "mul"] + (["min", "max"] if v >= 18 else []):
                case("ScatterND", v, [x, np.array([[0, 1], [0, 1]]), rnd(2, 2, 4)], {"reduction": red})
    for v in versions("Compress"):
        case("Compress", v, [x[0], np.array([True, False, True])], {"axis": 0})
        case("Compress", v, [x[0], np.array([False, True, False, True, True])])
        if v >= 11:
            case("Compress", v, [x[0], np.array([True, False, True])], {"axis": -1})
        if v >= 28:
            case("Compress", v, [np.array([1, 2.5, -3], ml_dtypes.bfloat16), np.array([False, True, True])], skip="ort")
    y = rnd(1, 1, 8, 2, 3)
    for v in versions("DepthToSpace"):
        case("DepthToSpace", v, [y], {"blocksize": 2})
        if v >= 11:
            case("DepthToSpace", v, [y], {"blocksize": 2, "mode": "CRD"})
    for v in versions("SpaceToDepth"):
        z = rnd(1, 1, 2, 4, 6)
        case("SpaceToDepth", v, [z], {"blocksize": 2})
        if v >= 28:
            want = z.reshape(1, 2, 2, 2, 3, 2)
            case("SpaceToDepth", v, [z], {"blocksize": 2, "mode": "DCR"}, want=want.transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3))
            case("SpaceToDepth", v, [z], {"blocksize": 2, "mode": "CRD"}, want=want.transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3))
    for v in versions("Shape"):
        case("Shape", v, [x])
        if v >= 15:
            case("Shape", v, [x], {"start": -2, "end": 2})
    for v in versions("Size"):
        case("Size", v, [x])
    for v in versions("NonZero"):
        case("NonZero", v, [np.array([[1, 0, 2], [0, 0, 3]], F)])
        case("NonZero", v, [np.array([[True, False], [True, True]])])
    for v in versions("OneHot"):
        for ins, a in [([np.array([0, 2, 1]), np.array(3), np.array([0.5, 2], F)], {}), ([np.array([[0, 3], [1, 1]]), np.array([4]), np.array([0, 1])], {"axis": 0})]:
            case("OneHot", v, ins, a, want=like("OneHot", ins, a, 11), by=["ort"])
        if v >= 11:
            ins = [np.array([0, -1, 5]), np.array(3), np.array([0.5, 2], F)]
            case("OneHot", v, ins, want=like("OneHot", ins, {}, 11), by=["ort"])
        if v >= 28:
            case("OneHot", v, [np.array([0, 2, 1]), np.array(3), np.array([0.5, 2], ml_dtypes.bfloat16)],
                 want=np.where(np.eye(3)[[0, 2, 1]] > 0, 2, 0.5).astype(ml_dtypes.bfloat16))
    for v in versions("EyeLike"):
        case("EyeLike", v, [np.zeros((3, 4), F)], {"k": 1})
        case("EyeLike", v, [np.zeros((3, 2), I32)], {"dtype": T.DOUBLE, "k": -1})
    for v in versions("Trilu"):
        case("Trilu", v, [x, np.array(1)], {"upper": 0})
    for v in versions("ReverseSequence"):
        case("ReverseSequence", v, [rnd(1, 4, 3), np.array([2, 4, 1])])
        case("ReverseSequence", v, [rnd(1, 3, 4), np.array([2, 4, 1])], {"batch_axis": 0, "time_axis": 1})
        if v >= 28:
            case("ReverseSequence", v, [rnd(1, 4, 3).astype(ml_dtypes.bfloat16), np.array([2, 4, 1])], skip="ort")
    for v in versions("Unique"):
        case("Unique", v, [np.array([3, 1, 3, 2, 1], F)], nout=4)
        case("Unique", v, [np.array([[3, 1], [2, 2], [3, 1]], F)], {"axis": 0, "sorted": 0}, nout=4)
        if v >= 28:
            case("Unique", v, [np.array([3, 1, 3, 2, 1], ml_dtypes.bfloat16)], nout=4, skip="ort")
    for v in versions("Einsum"):
        case("Einsum", v, [rnd(1, 2, 3), rnd(2, 3, 4)], {"equation": "ij,jk->ki"})
        if v >= 28:
            p, q = np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16), np.array([2, -1], ml_dtypes.bfloat16)
            case("Einsum", v, [p, q], {"equation": "ij,j->i"}, want=(p.astype(F) @ q.astype(F)).astype(ml_dtypes.bfloat16), tol=1e-2)
    for v in versions("Range"):
        case("Range", v, [np.array(1, F), np.array(3, F), np.array(0.75, F)])
        case("Range", v, [np.array(10), np.array(4), np.array(-3)])


def windows():
    x = rnd(1, 1, 2, 5, 5)
    for v in versions("AveragePool"):
        for a in [{"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}]:
            if v == 1:  # the reference evaluator counts the padding, which opset 1 leaves out
                case("AveragePool", v, [x], a, want=like("AveragePool", [x], a, 7), by=["ort", "version 7"])
            else:
                case("AveragePool", v, [x], a)
        if v >= 7:
            case("AveragePool", v, [x], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1})
        if v >= 10:
            case("AveragePool", v, [x], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
        if v >= 19:
            case("AveragePool", v, [x], {"kernel_shape": [2, 2], "dilations": [2, 2]})
    for v in versions("MaxPool"):
        case("MaxPool", v, [x], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]})
        if v >= 8:
            no = "reference"  # its indices do not count the planes
            case("MaxPool", v, [x], {"kernel_shape": [2, 2]}, 2, skip=no)
            case("MaxPool", v, [x], {"kernel_shape": [2, 2], "storage_order": 1}, 2, skip=no)
        if v >= 10:
            case("MaxPool", v, [x], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
            case("MaxPool", v, [x], {"kernel_shape": [2, 2], "dilations": [2, 2]})
        if v >= 12:
            case("MaxPool", v, [np.arange(25, dtype=U8).reshape(1, 1, 5, 5)], {"kernel_shape": [2, 2]})
    p = np.sum(np.abs(np.stack([x[:, :, i:i + 4, j:j + 4] for i in range(2) for j in range(2)], -1)) ** 3, -1) ** (1 / 3)
    for v in versions("LpPool"):
        case("LpPool", v, [x], {"kernel_shape": [2, 2], "p": 3.0 if v == 1 else 3}, want=p.astype(F))
        if v >= 18:
            case("LpPool", v, [x], {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [2, 2]})
    for op in ["GlobalAveragePool", "GlobalMaxPool"]:
        for v in versions(op):
            case(op, v, [x])
    for v in versions("GlobalLpPool"):
        case("GlobalLpPool", v, [x], {"p": 3.0 if v == 1 else 3}, want=(np.sum(np.abs(x) ** 3, (2, 3), keepdims=True) ** (1 / 3)).astype(F))
        case("GlobalLpPool", v, [x], want=np.sqrt(np.sum(x ** 2, (2, 3), keepdims=True)))
    for v in versions("Conv"):
        case("Conv", v, [x, rnd(2, 4, 1, 3, 2), rnd(3, 4)], {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]})
        case("Conv", v, [x, rnd(2, 2, 2, 2, 2)], {"dilations": [2, 1], "auto_pad": "SAME_LOWER" if v > 1 else "VALID"})
    for v in versions("ConvTranspose"):
        case("ConvTranspose", v, [x, rnd(2, 2, 2, 3, 3), rnd(3, 4)], {"group": 2, "strides": [2, 2], "output_padding": [1, 0], "pads": [1, 0, 1, 1]})
        case("ConvTranspose", v, [x, rnd(2, 2, 1, 3, 3)], {"strides": [2, 2], "output_shape": [10, 10]}, skip="reference")
    for v in versions("DeformConv"):
        case("DeformConv", v, [x, rnd(2, 1, 2, 2, 2), rnd(3, 1, 8, 4, 4, scale=0.5)], {"kernel_shape": [2, 2]})
        case("DeformConv", v, [x, rnd(2, 1, 2, 2, 2), rnd(3, 1, 8, 4, 4, scale=0.5), rnd(4, 1), np.abs(rnd(5, 1, 4, 4, 4))])
    boxes = np.array([[0, 0, 0, 2, 2], [0, 1, 1, 4, 4]], F)
    for v in versions("MaxRoiPool"):
        a = {"pooled_shape": [2, 2], "spatial_scale": 1.0}
        case("MaxRoiPool", v, [x, boxes], a, want=like("MaxRoiPool", [x, boxes], a, 1), by=["ort", "version 1"])
    for v in versions("RoiAlign"):
        a = {"output_height": 2, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
        no = "reference" if v < 16 else ""  # it shifts by half a pixel there too
        case("RoiAlign", v, [x, boxes[:, 1:], np.array([0, 0])], a, skip=no)
        if v >= 16:
            case("RoiAlign", v, [x, boxes[:, 1:], np.array([0, 0])], dict(a, coordinate_transformation_mode="output_half_pixel"))
        if v >= 16:
            case("RoiAlign", v, [x, boxes[:, 1:], np.array([0, 0])], dict(a, mode="max"), skip="ort", note="ONNX Runtime takes the largest weighted corner, the specification the largest sample")
    m, i = by_ort(*model("MaxPool", "", 12, [x[:, :, :4, :4]], {"kernel_shape": [2, 2], "strides": [2, 2]}, 2))
    for v in versions("MaxUnpool"):
        case("MaxUnpool", v, [m, i], {"kernel_shape": [2, 2], "strides": [2, 2]})
    for v in versions("Upsample"):
        y = rnd(1, 1, 1, 2, 2)
        for mode in ["nearest"]:
            want = y.repeat(2, 2).repeat(3, 3)
            if v == 1:
                case("Upsample", v, [y], {"height_scale": 2.0, "width_scale": 3.0, "mode": mode}, want=want)
            elif v == 7:
                case("Upsample", v, [y], {"scales": [1.0, 1.0, 2.0, 3.0], "mode": mode}, want=want)
            else:
                case("Upsample", v, [y, np.array([1, 1, 2, 3], F)], {"mode": mode}, want=want)
        # Bilinear with the asymmetric coordinates that Upsample has.
        want = like("Resize", [y, np.array([], F), np.array([1, 1, 2, 2], F)], {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, 11)
        if v == 1:
            case("Upsample", v, [y], {"height_scale": 2.0, "width_scale": 2.0, "mode": "bilinear"}, want=want, by=["ort", "newest form"])
        elif v == 7:
            case("Upsample", v, [y], {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}, want=want, by=["ort", "newest form"])
        else:
            case("Upsample", v, [y, np.array([1, 1, 2, 2], F)], {"mode": "linear"}, want=want, by=["ort", "newest form"])
    for v in versions("Resize"):
        y = rnd(1, 1, 1, 3, 3)
        s = np.array([1, 1, 2, 1.5], F)
        if v == 10:
            case("Resize", v, [y, s])
            case("Resize", v, [y, s], {"mode": "linear"}, skip="reference", note="opset 10 has asymmetric coordinates")
            continue
        roi = np.array([], F)
        for a in [{}, {"mode": "linear"}, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
                  {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}]:
            # ONNX Runtime aligns the corners of the rounded size instead of the scaled one, and copies where the sizes are equal.
            case("Resize", v, [y, roi, s], a, skip="ort" if a.get("coordinate_transformation_mode") == "align_corners" else "")
        case("Resize", v, [y, roi, roi if v < 13 else None, np.array([1, 1, 5, 2])], {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"})
        case("Resize", v, [y, np.array([0, 0, 0.25, 0, 1, 1, 0.75, 1], F), roi if v < 13 else None, np.array([1, 1, 3, 3])],
             {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}, skip="ort")
        if v >= 18:
            case("Resize", v, [y, None, np.array([2, 2], F)], {"mode": "linear", "axes": [2, 3]})
            case("Resize", v, [y, None, None, np.array([5, 7])], {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"})
            case("Resize", v, [y, None, np.array([1, 1, 0.6, 0.6], F)], {"mode": "linear", "antialias": 1})
        if v >= 19:
            case("Resize", v, [y, None, np.array([1, 1, 1.3, 1.3], F)], {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, skip="ort")
    for v in versions("GridSample"):
        g = rnd(2, 1, 2, 3, 2, scale=0.75)
        modes = {16: ["bilinear", "nearest", "bicubic"]}.get(v, ["linear", "nearest", "cubic"])
        for mode in modes:
            for pad in ["zeros", "border", "reflection"]:
                case("GridSample", v, [x, g], {"mode": mode, "padding_mode": pad, "align_corners": int(pad == "border")},
                     skip="reference" if (mode, pad) == ("cubic", "border") else "")  # it moves the centre into the image, not the neighbours
        if v >= 20:
            case("GridSample", v, [rnd(1, 1, 1, 2, 2, 2), rnd(2, 1, 1, 2, 2, 3, scale=0.5)], {"mode": "linear"})


def networks():
    x = rnd(1, 2, 3, 2, 2)
    scale, bias, mean, var = rnd(2, 3), rnd(3, 3), rnd(4, 3), np.abs(rnd(5, 3)) + F(0.5)
    normal = lambda x, s, b, m, v: (s * (x - m) / np.sqrt(v + 1e-3) + b).astype(F)
    per = [p.reshape(3, 1, 1) for p in (scale, bias, mean, var)]
    for v in versions("BatchNormalization"):
        a = {"epsilon": 1e-3}
        if v < 7:
            a["is_test"] = 1
        case("BatchNormalization", v, [x, scale, bias, mean, var], a, want=normal(x, *per))
        if v < 9:
            each = [rnd(k, 3, 2, 2) for k in (6, 7, 8)] + [np.abs(rnd(9, 3, 2, 2)) + F(0.5)]
            case("BatchNormalization", v, [x, *each], dict(a, spatial=0), want=normal(x, *each), note="spatial 0: one number for each place")
        if v >= 14:
            m, w = x.mean((0, 2, 3)), x.var((0, 2, 3))
            y = normal(x, per[0], per[1], m.reshape(3, 1, 1), w.reshape(3, 1, 1))
            case("BatchNormalization", v, [x, scale, bias, mean, var], dict(a, training_mode=1, momentum=0.75), 3,
                 want=[y, mean * F(0.75) + m * F(0.25), var * F(0.75) + w * F(0.25)], note="the variance is that of the population")
        elif v < 9:
            m, w = x.mean((0, 2, 3)), x.var((0, 2, 3))
            y = normal(x, per[0], per[1], m.reshape(3, 1, 1), w.reshape(3, 1, 1))
            if v < 7:
                case("BatchNormalization", v, [x, scale, bias, mean, var], dict(a, is_test=0), "11100", want=[y, mean * F(0.9) + m * F(0.1), var * F(0.9) + w * F(0.1)],
                     note="is_test 0: the statistics of the batch")
    for v in versions("InstanceNormalization"):
        want = normal(x, per[0], per[1], x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True))
        case("InstanceNormalization", v, [x, scale, bias], {"epsilon": 1e-3}, want=want)
    y = rnd(1, 2, 4, 3)
    g = y.reshape(2, 2, 6)
    g = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 1e-5)).reshape(y.shape)
    s, b = rnd(2, 2), rnd(3, 2)
    case("GroupNormalization", 18, [y, s, b], {"num_groups": 2}, want=(g * s.repeat(2)[:, None] + b.repeat(2)[:, None]).astype(F), note="scale and bias are those of the groups")
    s, b = rnd(2, 4), rnd(3, 4)
    case("GroupNormalization", 21, [y, s, b], {"num_groups": 2}, want=(g * s[:, None] + b[:, None]).astype(F))
    p, q, c = rnd(1, 2, 3), rnd(2, 3, 4), rnd(3, 4)
    for v in versions("Gemm"):
        a = {"alpha": 0.5, "beta": 2.0}
        if v < 7:
            case("Gemm", v, [p, q, c], dict(a, broadcast=1), want=F(0.5) * p @ q + 2 * c)
            case("Gemm", v, [p, q, c[:1]], dict(a, broadcast=1), want=F(0.5) * p @ q + 2 * c[0])
            case("Gemm", v, [p.T.copy(), q.T.copy(), rnd(4, 2, 4)], dict(a, transA=1, transB=1), want=F(0.5) * p @ q + 2 * rnd(4, 2, 4))
        else:
            case("Gemm", v, [p, q, c], a)
            case("Gemm", v, [p.T.copy(), q.T.copy(), rnd(4, 2, 1)], {"transA": 1, "transB": 1})
        if v >= 11:
            case("Gemm", v, [p, q])
        if v >= 9:
            case("Gemm", v, [p.astype(D), q.astype(D), c.astype(D)])
    for v in versions("MatMul"):
        case("MatMul", v, [rnd(1, 2, 3, 4), rnd(2, 4, 2)])
        case("MatMul", v, [rnd(1, 3), rnd(2, 2, 3, 2)])
        if v >= 9:
            case("MatMul", v, [np.array([[1, 2], [3, 4]], I32), np.array([[5, 6], [7, 8]], I32)])
    for v in versions("Det"):
        case("Det", v, [rnd(1, 2, 3, 3)])
    for op, gates in [("RNN", 1), ("GRU", 3), ("LSTM", 4)]:
        for v in versions(op):
            seq, batch, size, hid = 3, 2, 2, 3
            ins = [rnd(1, seq, batch, size), rnd(2, 1, gates * hid, size), rnd(3, 1, gates * hid, hid), rnd(4, 1, 2 * gates * hid), np.array([3, 2], I32), rnd(5, 1, batch, hid)]
            a = {"hidden_size": hid, "direction": "forward"}
            n = 3 if op == "LSTM" else 2
            no = "reference"  # it ignores the lengths of the sequences
            want = like(op, ins, a, 14, n, no)
            case(op, v, ins, dict(a, output_sequence=1) if v < 7 else a, n, want=want, by=["ort", "newest form"])
            two = [ins[0]] + [np.concatenate([w, w[:, ::-1]]) for w in ins[1:4]]
            a = {"hidden_size": hid, "direction": "bidirectional", "clip": 2.0} if op != "LSTM" else {"hidden_size": hid, "direction": "bidirectional"}
            case(op, v, two, dict(a, output_sequence=1) if v < 7 else a, n, want=like(op, two, a, 14, n, no), by=["ort", "newest form"])
            if op == "GRU" and v >= 3:
                b = {"hidden_size": hid, "linear_before_reset": 1}
                case(op, v, ins, b, n, want=like(op, ins, b, 14, n, no), by=["ort", "newest form"])
            if op == "LSTM":
                full = ins + [rnd(6, 1, batch, hid), rnd(7, 1, 3 * hid)]
                case(op, v, full, {"hidden_size": hid}, "011" if v < 7 else 3, want=like(op, full, {"hidden_size": hid}, 14, 3, no)[1 if v < 7 else 0:], by=["ort", "newest form"])
            if v >= 14:
                turned = [ins[0].transpose(1, 0, 2).copy()] + ins[1:4]
                case(op, v, turned, {"hidden_size": hid, "layout": 1}, n, skip="ort")
    q, k, w = rnd(1, 1, 2, 3, 4), rnd(2, 1, 2, 5, 4), rnd(3, 1, 2, 5, 4)
    for v in versions("Attention"):
        case("Attention", v, [q, k, w])
        case("Attention", v, [q, k, w, rnd(4, 3, 5)], {"scale": 0.5, "softcap": 2.0})
        case("Attention", v, [q, k, w], {"is_causal": 1})
        if v >= 24:
            case("Attention", v, [q, k, w, None, None, None, np.array([4])])
    scores, labels, weights = rnd(1, 3, 4), np.array([1, 3, 0]), np.abs(rnd(2, 4))
    for v in versions("NegativeLogLikelihoodLoss"):
        for red in ["none", "sum", "mean"]:
            case("NegativeLogLikelihoodLoss", v, [scores, labels, weights], {"reduction": red, "ignore_index": 3})
    for v in versions("SoftmaxCrossEntropyLoss"):
        for red in ["none", "sum", "mean"]:
            case("SoftmaxCrossEntropyLoss", v, [scores, labels, weights], {"reduction": red}, 2)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]], F)
    for v in versions("NonMaxSuppression"):
        case("NonMaxSuppression", v, [boxes, np.array([[[0.9, 0.75, 0.6]]], F), np.array([3]), np.array([0.5], F), np.array([0.0], F)])
        centered = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], 2)
        case("NonMaxSuppression", v, [centered, np.array([[[0.9, 0.75, 0.6]]], F), np.array([2]), np.array([0.25], F)], {"center_point_box": 1})


def chances():
    ones = np.ones((2, 3), F)
    for v in versions("RandomNormal"):
        case("RandomNormal", v, [], {"shape": [2, 3], "mean": 1.5, "scale": 0.0}, want=1.5 * ones)
        case("RandomNormal", v, [], {"shape": [2], "mean": 1.5, "scale": 0.0, "dtype": T.DOUBLE, "seed": 2.0}, want=np.full(2, 1.5))
    for v in versions("RandomNormalLike"):
        case("RandomNormalLike", v, [GRID], {"mean": 1.5, "scale": 0.0}, want=1.5 * ones)
        case("RandomNormalLike", v, [np.zeros((2, 3), I32)], {"mean": 1.5, "scale": 0.0, "dtype": T.DOUBLE}, want=np.full((2, 3), 1.5))
    for v in versions("RandomUniform"):
        case("RandomUniform", v, [], {"shape": [2, 3], "low": 1.5, "high": 1.5}, want=1.5 * ones)
    for v in versions("RandomUniformLike"):
        case("RandomUniformLike", v, [GRID], {"low": 1.5, "high": 1.5}, want=1.5 * ones)
    for v in versions("Bernoulli"):
        case("Bernoulli", v, [np.array([0, 1, 1, 0], F)], want=np.array([0, 1, 1, 0], F))
        case("Bernoulli", v, [np.array([0, 1, 1, 0], F)], {"dtype": T.INT32}, want=np.array([0, 1, 1, 0], I32))
    for v in versions("Multinomial"):
        case("Multinomial", v, [np.array([[-1e9, 0, -1e9], [-1e9, -1e9, 0]], F)], {"sample_size": 4}, want=np.array([[1] * 4, [2] * 4], I32))
        case("Multinomial", v, [np.array([[-1e9, 0, -1e9]], F)], {"sample_size": 2, "dtype": T.INT64}, want=np.array([[1, 1]]))


def numbers():
    x = np.array([[-2.7, 0, 1.5], [3.25, 100, 0.4]], F)
    kinds = {"FLOAT": T.FLOAT, "DOUBLE": T.DOUBLE, "INT32": T.INT32, "INT64": T.INT64, "UINT8": T.UINT8, "BOOL": T.BOOL, "FLOAT16": T.FLOAT16}
    back = {T.FLOAT: F, T.DOUBLE: D, T.INT32: I32, T.INT64: I64, T.UINT8: U8, T.BOOL: B, T.FLOAT16: HALF}
    for v in versions("Cast"):
        for name, to in kinds.items():
            y = np.abs(x) if name == "UINT8" else x
            case("Cast", v, [y], {"to": name if v == 1 else to}, want=y.astype(back[to]))
        case("Cast", v, [np.array([True, False])], {"to": "FLOAT" if v == 1 else T.FLOAT}, want=np.array([1, 0], F))
        if v >= 9:
            case("Cast", v, [np.array(["1.5", "-2", "1e3"], object)], {"to": T.FLOAT}, want=np.array([1.5, -2, 1000], F))
            case("Cast", v, [np.array([1, -20])], {"to": T.STRING}, want=np.array(["1", "-20"], object))
        if v >= 13:
            case("Cast", v, [x], {"to": T.BFLOAT16}, want=x.astype(ml_dtypes.bfloat16))
        if v >= 19:
            y = np.array([0.1, -1.3, 17, 500, -1000, np.nan], F)
            for to in [T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ]:
                case("Cast", v, [y], {"to": to}, skip="ort")
                case("Cast", v, [y], {"to": to, "saturate": 0}, skip="ort")
        if v >= 21:
            y = np.array([-3.5, 0.5, 1.5, 7, 2], F)
            case("Cast", v, [np.array([-8, 0, 3, 7], ml_dtypes.int4)], {"to": T.FLOAT}, skip="ort")
            case("Cast", v, [np.array([1, 9, 15], ml_dtypes.uint4)], {"to": T.INT32}, skip="ort")
            case("Cast", v, [np.array([-8, 0, 3, 7], F)], {"to": T.INT4}, skip="ort")
        if v >= 23:
            case("Cast", v, [np.array([-6, 0.4, 1.4, 5, 2.5, -0.1], F)], {"to": T.FLOAT4E2M1}, skip="ort")
        if v >= 24:
            case("Cast", v, [np.array([1, 2, 0.5, 64], ml_dtypes.float8_e8m0fnu)], {"to": T.FLOAT}, skip="ort")
        if v >= 25:
            case("Cast", v, [np.array([-2, 1, 0], ml_dtypes.int2)], {"to": T.FLOAT}, skip="ort")
            case("Cast", v, [np.array([3, 1, 0], ml_dtypes.uint2)], {"to": T.INT32}, skip="ort")
        if v >= 28:
            y = np.array([0, -0.0, 0.0625, 0.03125, -0.1, 1.0625, 1.1875, 1.125, 1.375, 7.25, 7.75, -30, 26, 29, 1e9, np.inf, -np.inf, np.nan, -2.75], F)
            for to, kind in [(T.FLOAT6E2M3, ml_dtypes.float6_e2m3fn), (T.FLOAT6E3M2, ml_dtypes.float6_e3m2fn)]:
                every = np.arange(64, dtype=U8).view(kind)
                case("Cast", v, [y], {"to": to}, skip="ort")
                case("Cast", v, [y[:5]], {"to": to, "saturate": 0}, skip="ort")
                case("Cast", v, [y.astype(HALF)], {"to": to}, skip="ort")
                case("Cast", v, [np.array([[-100, -3, 0], [5, 9, 100]])], {"to": to}, skip="ort")
                case("Cast", v, [np.array([True, False, True])], {"to": to}, skip="ort")
                for wide in [T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.FLOAT8E4M3FN, T.INT8, T.INT64, T.BOOL]:
                    case("Cast", v, [every], {"to": wide}, skip="ort")
            case("Cast", v, [np.arange(64, dtype=U8).view(ml_dtypes.float6_e3m2fn)], {"to": T.FLOAT6E2M3}, skip="ort")
            case("Cast", v, [np.array([0.3, -6, 5], ml_dtypes.float4_e2m1fn)], {"to": T.FLOAT6E3M2}, skip="ort")
    for v in versions("CastLike"):
        case("CastLike", v, [x, np.zeros(1, I32)], want=x.astype(I32))
        case("CastLike", v, [x, np.zeros((), D)], want=x.astype(D))
        if v >= 19:
            case("CastLike", v, [x, np.zeros(1, ml_dtypes.float8_e5m2)], want=x.astype(ml_dtypes.float8_e5m2))
        if v >= 21:
            case("CastLike", v, [np.array([-8, 0, 3, 7], I32), np.zeros(1, ml_dtypes.int4)], want=np.array([-8, 0, 3, 7], ml_dtypes.int4))
    for v in versions("ConstantOfShape"):
        case("ConstantOfShape", v, [np.array([2, 3])])
        case("ConstantOfShape", v, [np.array([2], I64)], {"value": nh.from_array(np.array([7], I32))})
        if v >= 20:
            case("ConstantOfShape", v, [np.array([2])], {"value": nh.from_array(np.array([1.5], ml_dtypes.bfloat16))}, want=np.full(2, 1.5, ml_dtypes.bfloat16))
        if v >= 21:
            case("ConstantOfShape", v, [np.array([3])], {"value": nh.from_array(np.array([-3], ml_dtypes.int4))}, want=np.full(3, -3, ml_dtypes.int4))
    for v in versions("Constant"):
        case("Constant", v, [], {"value": nh.from_array(X)}, want=X)
        if v >= 12:
            case("Constant", v, [], {"value_ints": [1, 2]}, want=np.array([1, 2]))
            case("Constant", v, [], {"value_float": 1.5}, want=np.array(1.5, F))
            case("Constant", v, [], {"value_strings": ["a", "b"]}, want=np.array(["a", "b"], object))
    y = np.array([[-1, 0.3, 2.5], [0.7, 100, -100]], F)
    for v in versions("QuantizeLinear"):
        case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(128, U8)])
        case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(-3, I8)])
        if v >= 13:
            case("QuantizeLinear", v, [y, np.array([0.5, 0.25], F), np.array([1, 2], U8)], {"axis": 0})
        if v >= 19:
            case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(0, ml_dtypes.float8_e4m3fn)], skip="ort")
        if v >= 21:
            case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(100, np.uint16)])
            case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(1, ml_dtypes.int4)], skip="ort")
            case("QuantizeLinear", v, [rnd(1, 4, 3), np.array([[0.5, 0.25, 1], [1, 0.125, 0.5]], F)], {"axis": 0, "block_size": 2, "output_dtype": T.INT8})
        if v >= 23:
            case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(0, ml_dtypes.float4_e2m1fn)], skip="ort")
        if v >= 28:
            for to, kind in [(T.FLOAT6E2M3, ml_dtypes.float6_e2m3fn), (T.FLOAT6E3M2, ml_dtypes.float6_e3m2fn)]:
                case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(0, kind)], skip="ort")
                case("QuantizeLinear", v, [y, np.array(0.5, F), np.array(0, kind)], {"saturate": 0}, skip="ort")
                case("QuantizeLinear", v, [y, np.array([0.5, 8], F)], {"axis": 0, "output_dtype": to}, skip="ort")
                case("QuantizeLinear", v, [rnd(1, 4, 3), np.array([[0.5, 0.25, 1], [1, 0.125, 0.5]], F)], {"axis": 0, "block_size": 2, "output_dtype": to}, skip="ort")
                case("QuantizeLinear", v, [y.astype(HALF), np.array([0.25, 2, 4], HALF), np.zeros(3, kind)], {"axis": 1}, skip="ort")
    z = np.array([[3, 128, 200], [0, 255, 127]], U8)
    for v in versions("DequantizeLinear"):
        case("DequantizeLinear", v, [z, np.array(0.5, F), np.array(128, U8)])
        case("DequantizeLinear", v, [z.astype(I32), np.array(0.5, F)])
        if v >= 13:
            case("DequantizeLinear", v, [z, np.array([0.5, 0.25], F), np.array([1, 2], U8)], {"axis": 0})
        if v >= 19:
            case("DequantizeLinear", v, [np.array([1, -2, 0.5], ml_dtypes.float8_e5m2), np.array(0.5, F)], skip="ort")
        if v >= 21:
            case("DequantizeLinear", v, [np.array([1, -2, 7], ml_dtypes.int4), np.array(0.5, F), np.array(1, ml_dtypes.int4)], skip="ort")
            case("DequantizeLinear", v, [np.array([[1, 2], [3, 4], [5, 6], [7, 8]], U8), np.array([[0.5, 0.25], [1, 2]], F)], {"axis": 0, "block_size": 2})
        if v >= 23:
            case("DequantizeLinear", v, [np.array([1, -2, 6, 0.5], ml_dtypes.float4_e2m1fn), np.array(0.5, F)], skip="ort")
        if v >= 28:
            for kind in [ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn]:
                every = np.arange(64, dtype=U8).view(kind)
                case("DequantizeLinear", v, [every, np.array(0.5, F)], skip="ort")
                case("DequantizeLinear", v, [every[:5], np.array(0.5, F), np.array(0, kind)], skip="ort")
                case("DequantizeLinear", v, [every[::9][:6].reshape(2, 3), np.array([0.5, 3], F), np.zeros(2, kind)], {"axis": 0}, skip="ort")
                case("DequantizeLinear", v, [every[3::5][:12].reshape(4, 3), np.array([[0.5, 0.25, 1], [1, 0.125, 0.5]], HALF)], {"axis": 0, "block_size": 2}, skip="ort")
                case("DequantizeLinear", v, [every[1::7], np.array(0.5, F)], {"output_dtype": T.FLOAT16}, skip="ort")
    for v in versions("QLinearMatMul"):
        p, q = np.array([[1, 20, 3], [40, 5, 60]], U8), np.array([[7, 8], [9, 10], [11, 12]], U8)
        s = lambda x: np.array(x, F)
        case("QLinearMatMul", v, [p, s(0.5), np.array(2, U8), q, s(0.25), np.array(9, U8), s(2), np.array(100, U8)])
        case("QLinearMatMul", v, [p.astype(I8), s(0.5), np.array(2, I8), q.astype(I8), s(0.25), np.array(9, I8), s(2), np.array(-5, I8)], skip="reference",
             note="the reference evaluator rounds after the zero point is added")
    for v in versions("QLinearConv"):
        s = lambda x: np.array(x, F)
        case("QLinearConv", v, [np.arange(16, dtype=U8).reshape(1, 1, 4, 4), s(0.5), np.array(3, U8), np.arange(4, dtype=U8).reshape(1, 1, 2, 2), s(0.25), np.array(1, U8), s(1), np.array(10, U8)])


def graph(nodes, inputs, outputs):
    return h.make_graph(nodes, "body", inputs, outputs)


def info(name, t, *shape):
    return h.make_tensor_value_info(name, t, list(shape))


def control():
    for v in versions("If"):
        one = graph([h.make_node("Constant", [], ["a"], value=nh.from_array(np.array([1, 2], F)))], [], [info("a", T.FLOAT, 2)])
        two = graph([h.make_node("Constant", [], ["b"], value=nh.from_array(np.array([3, 4], F)))], [], [info("b", T.FLOAT, 2)])
        for c in [True, False]:
            case("If", v, [np.array(c)], {"then_branch": one, "else_branch": two}, want=np.array([1, 2] if c else [3, 4], F))
    for v in versions("Loop"):
        # v doubles and is scanned until it reaches 20 or the trips are over. Mul and Less take operands of equal
        # shapes here, which every opset lets them.
        nodes = [h.make_node("Add", ["v", "v"], ["w"]), h.make_node("Identity", ["w"], ["each"]),
                 h.make_node("Constant", [], ["end"], value=nh.from_array(np.array([20], F))), h.make_node("Less", ["w", "end"], ["go1"]),
                 h.make_node("Squeeze", ["go1"], ["go"])]
        nodes[-1] = h.make_node("Reshape", ["go1", "none"], ["go"]) if v >= 5 else nodes[-1]
        if v >= 5:
            nodes.insert(0, h.make_node("Constant", [], ["none"], value=nh.from_array(np.array([], I64))))
        body = graph(nodes, [info("i", T.INT64), info("c", T.BOOL), info("v", T.FLOAT, 1)], [info("go", T.BOOL), info("w", T.FLOAT, 1), info("each", T.FLOAT, 1)])
        for trips, go, w in [(3, True, [6, 12, 24]), (2, True, [6, 12]), (None, True, [6, 12, 24])]:
            case("Loop", v, [None if trips is None else np.array(trips), np.array(go), np.array([3], F)], {"body": body}, 2,
                 want=[np.array(w[-1:], F), np.array(w, F)[:, None]])
    for v in versions("Scan"):
        body = graph([h.make_node("Add", ["s", "x"], ["t"]), h.make_node("Identity", ["t"], ["y"])], [info("s", T.FLOAT, 2), info("x", T.FLOAT, 2)],
                     [info("t", T.FLOAT, 2), info("y", T.FLOAT, 2)])
        s, x = rnd(1, 2), rnd(2, 3, 2)
        y = s + np.cumsum(x, 0)
        if v == 8:
            case("Scan", v, [None, s[None], x[None]], {"body": body, "num_scan_inputs": 1}, 2, want=[y[None, -1], y[None]])
            z = s + np.cumsum(x[::-1], 0)
            case("Scan", v, [None, s[None], x[None]], {"body": body, "num_scan_inputs": 1, "directions": [1]}, 2, want=[z[None, -1], z[None]])
        else:
            case("Scan", v, [s, x], {"body": body, "num_scan_inputs": 1}, 2, want=[y[-1], y])
            z = s + np.cumsum(x[::-1], 0)
            case("Scan", v, [s, x.T.copy()], {"body": body, "num_scan_inputs": 1, "scan_input_directions": [1], "scan_input_axes": [1], "scan_output_axes": [1]}, 2, want=[z[-1], z.T.copy()])
    tp = h.make_tensor_type_proto(T.FLOAT, [2, 3])
    for v in versions("Optional"):
        case("Optional", v, [X], want=[Opt(X, tp)])
        case("Optional", v, [], {"type": tp}, want=[Opt(None, tp)])
    for v in versions("OptionalGetElement"):
        case("OptionalGetElement", v, [Opt(X, tp)], want=X)
        if v >= 18:
            case("OptionalGetElement", v, [X], want=X)
    for v in versions("OptionalHasElement"):
        case("OptionalHasElement", v, [Opt(X, tp)], want=np.array(True))
        case("OptionalHasElement", v, [Opt(None, tp)], want=np.array(False))
        if v >= 18:
            case("OptionalHasElement", v, [X], want=np.array(True))
            case("OptionalHasElement", v, [], want=np.array(False))
    narrow = np.arange(7, dtype=U8).view(ml_dtypes.float6_e2m3fn)
    tp = h.make_tensor_type_proto(T.FLOAT6E2M3, [7])
    case("Optional", 28, [narrow], want=[Opt(narrow, tp)])
    case("Optional", 28, [], {"type": tp}, want=[Opt(None, tp)])
    case("OptionalGetElement", 28, [Opt(narrow, tp)], want=narrow)
    case("OptionalHasElement", 28, [Opt(narrow, tp)], want=np.array(True))
    parts = [rnd(1, 2, 3), rnd(2, 2, 3), rnd(3, 2, 3)]
    case("SequenceConstruct", 11, parts, want=[parts])
    case("SequenceAt", 11, [parts, np.array(1)], want=parts[1])
    case("SequenceAt", 11, [parts, np.array(-1, I32)], want=parts[2])
    case("SequenceErase", 11, [parts, np.array(0)], want=[parts[1:]])
    case("SequenceErase", 11, [parts], want=[parts[:2]])
    case("SequenceInsert", 11, [parts, parts[0] + 1, np.array(1)], want=[[parts[0], parts[0] + 1] + parts[1:]])
    case("SequenceLength", 11, [parts], want=np.array(3))
    case("SequenceEmpty", 11, [], {"dtype": T.INT32}, want=[[]])
    case("ConcatFromSequence", 11, [parts], {"axis": 1})
    case("ConcatFromSequence", 11, [parts], {"axis": -1, "new_axis": 1})
    for v in versions("SplitToSequence"):
        x = rnd(1, 4, 2)
        case("SplitToSequence", v, [x, np.array([1, 3])], want=[[x[:1], x[1:]]])
        case("SplitToSequence", v, [x], {"keepdims": 0}, want=[list(x)])


def norms():
    x, s = rnd(1, 2, 3), rnd(2, 3)
    want = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-3) * s
    for domain in ["", "com.microsoft"]:
        case("SimplifiedLayerNormalization", 1, [x, s], {"epsilon": 1e-3}, want=want.astype(F), domain=domain)


def trees():
    from record import forest
    x = np.round(np.random.default_rng(5).standard_normal((4, 3)) * 4).astype(F) / 4
    for v in [1, 3, 5]:
        a = dict(forest(1, "target", 2, trees=2, depth=2), n_targets=2)
        case("TreeEnsembleRegressor", v, [x], a, domain=ML, opset=v if v < 5 else 5, want=answer("TreeEnsembleRegressor", ML, 3, [x], a, 1)[0], by=["ort", "version 3"])
        c = dict(forest(2, "class", 3, trees=2, depth=2, ids=[0, 1, 2]), classlabels_int64s=[3, 5, 8])
        case("TreeEnsembleClassifier", v, [x], c, 2, domain=ML, want=answer("TreeEnsembleClassifier", ML, 3, [x], c, 2)[0], by=["ort", "version 3"])


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)))
    for fn in [unary, binary, reduction, moves, windows, networks, chances, numbers, control, norms, trees]:
        ROWS.clear()
        fn()
        with open(os.path.join(here, "recorded", "versions_" + fn.__name__ + ".json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in ROWS) + "\n]\n")
        print(fn.__name__, len(ROWS))
    every = {k: versions(k) for k in sorted(SCHEMAS)}
    with open(os.path.join(here, "versions.json"), "w") as f:
        f.write("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in every.items() if v) + "\n}\n")
    for line in FAILED:
        print(line, file=sys.stderr)
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
