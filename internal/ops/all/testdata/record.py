"""Records what ONNX Runtime, or ONNX's reference evaluator, answers to one-node models.

    python record.py [NAME...]      needs numpy, onnx and onnxruntime

Each function that is marked with @cases yields cases; its results go to
recorded/<function name>.json, which TestRecorded replays.
"""
import json
import math
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx.reference import ReferenceEvaluator

ort.set_default_logger_severity(4)
ALL = []
ML = "ai.onnx.ml"
MS = "com.microsoft"
F = np.float32


def cases(fn):
    ALL.append(fn)
    return fn


def rnd(seed, *shape, scale=1.0, dtype=F):
    """Numbers with few digits, so that the files stay small."""
    g = np.random.default_rng(seed)
    return (np.round(g.standard_normal(shape) * scale * 64) / 64).astype(dtype)


def num(v):
    v = float(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return int(v) if v == int(v) and abs(v) < 2**53 else float("%.8g" % v)


def enc(v):
    if v is None:
        return None
    if isinstance(v, dict):
        k = list(v)
        keys = np.array(k, dtype=object if isinstance(k[0], str) else np.int64)
        vals = np.array(list(v.values()))
        vals = vals.astype(object if vals.dtype.kind in "UO" else (F if vals.dtype.kind == "f" else np.int64))
        return {"map": [enc(keys), enc(vals)]}
    if isinstance(v, list):
        return {"seq": [enc(x) for x in v]}
    v = np.asarray(v)
    if v.dtype.kind in "UOS":
        return {"t": "string", "s": list(v.shape), "d": [str(x) for x in v.ravel()]}
    name = {"float32": "float", "float64": "double"}.get(v.dtype.name, v.dtype.name)
    if v.dtype.kind in "iub":
        return {"t": name, "s": list(v.shape), "d": [int(x) for x in v.ravel()]}
    return {"t": name, "s": list(v.shape), "d": [num(x) for x in v.ravel()]}


def enc_attr(v):
    if isinstance(v, onnx.TensorProto):
        return {"tensor": enc(nh.to_array(v))}
    if isinstance(v, (list, tuple)):
        if v and isinstance(v[0], str):
            return {"strings": list(v)}
        if v and isinstance(v[0], float):
            return {"floats": [num(x) for x in v]}
        return {"ints": [int(x) for x in v]}
    if isinstance(v, str):
        return {"string": v}
    if isinstance(v, float):
        return {"float": num(v)}
    return {"int": int(v)}


def value_info(name, v):
    if isinstance(v, dict):
        k, x = next(iter(v.items()))
        kt = T.STRING if isinstance(k, str) else T.INT64
        vt = T.STRING if isinstance(x, str) else (T.FLOAT if isinstance(x, float) else T.INT64)
        tp = onnx.TypeProto()
        tp.map_type.key_type = kt
        tp.map_type.value_type.tensor_type.elem_type = vt
        return h.make_value_info(name, tp)
    et = T.STRING if v.dtype.kind in "OU" else h.np_dtype_to_tensor_dtype(v.dtype)
    return h.make_tensor_value_info(name, et, v.shape)


def record(op, inputs, attrs=None, nout=1, domain="", opset=1, by="ort", tol=None, note=None, threads=0):
    """One case. by: ort, or ref for ONNX's reference evaluator. nout: a number, or a string such as "1011"."""
    attrs = attrs or {}
    wanted = [c == "1" for c in nout] if isinstance(nout, str) else [True] * nout
    ins = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    outs = [f"o{k}" if w else "" for k, w in enumerate(wanted)]
    node = h.make_node(op, ins, outs, domain=domain, **attrs)
    feed = {n: v for n, v in zip(ins, inputs) if v is not None}
    vi = [value_info(n, v) for n, v in feed.items()]
    ops = [h.make_opsetid(domain, opset)]
    if domain:
        ops.append(h.make_opsetid("", 21))
    vo = [onnx.ValueInfoProto(name=o) for o in outs if o]
    model = h.make_model(h.make_graph([node], "g", vi, vo), opset_imports=ops, ir_version=10)
    if by == "ref":
        got = ReferenceEvaluator(model).run(None, feed)
    else:
        so = ort.SessionOptions()
        so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        so.intra_op_num_threads = threads  # 0: all cores
        s = ort.InferenceSession(model.SerializeToString(), so, providers=["CPUExecutionProvider"])
        got = s.run(None, feed)
    got = iter(got)
    r = {"op": (domain + "." if domain else "") + op, "opset": opset}
    if attrs:
        r["attrs"] = {k: enc_attr(v) for k, v in attrs.items()}
    r["in"] = [enc(v) for v in inputs]
    r["out"] = [enc(next(got)) if w else None for w in wanted]
    if tol:
        r["tol"] = tol
    if note:
        r["note"] = note
    return r


@cases
def ml_linear():
    x = np.array([[1, 2], [3, -4], [-0.5, -1], [0, 0]], F) / 8
    one = dict(coefficients=[1.0, 2.0], intercepts=[0.25])
    two = dict(coefficients=[1.0, 2.0, 0.3, -0.4], intercepts=[0.25, 0.5])
    for pt in ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]:
        yield record("LinearClassifier", [x], dict(one, classlabels_ints=[7, 9], post_transform=pt), 2, ML)
        yield record("LinearClassifier", [x], dict(two, classlabels_strings=["a", "b"], post_transform=pt), 2, ML)
        yield record("LinearRegressor", [x], dict(two, targets=2, post_transform=pt), 1, ML)
    p = np.array([[0.2, 0.1], [0.3, 0.05]], F)
    yield record("LinearRegressor", [p], dict(one, post_transform="PROBIT"), 1, ML)
    yield record("LinearClassifier", [p], dict(two, classlabels_ints=[-1, 4], multi_class=1, post_transform="PROBIT"), 2, ML)
    for dt in [np.int32, np.int64, np.float64]:
        yield record("LinearClassifier", [np.array([[1, 2], [3, -4]], dt)], dict(two, classlabels_ints=[1, 2]), 2, ML)
    yield record("LinearClassifier", [x[0]], dict(two, classlabels_ints=[1, 2]), 2, ML)
    yield record("LinearRegressor", [x[0]], dict(two, targets=2), 1, ML)
    yield record("LinearRegressor", [x], dict(coefficients=[1.0, 2.0]), 1, ML)
    w = rnd(1, 40 * 70)
    yield record("LinearRegressor", [rnd(2, 5, 40)], dict(coefficients=[float(v) for v in w], targets=70), 1, ML)


@cases
def ml_scale():
    x = np.array([[1, 2, -3], [3, -4, 0.5], [-0.5, -1, -2], [0, 0, 0]], F)
    for norm in ["MAX", "L1", "L2"]:
        yield record("Normalizer", [x], dict(norm=norm), 1, ML)
        yield record("Normalizer", [x[1]], dict(norm=norm), 1, ML)
        for dt in [np.int32, np.int64, np.float64]:
            yield record("Normalizer", [x.astype(dt)], dict(norm=norm), 1, ML)
    for dt in [F, np.int32, np.int64, np.float64]:
        yield record("Scaler", [x.astype(dt)], dict(offset=[1.0, 2.0, 0.5], scale=[2.0, -3.0, 0.1]), 1, ML)
        yield record("Scaler", [x.astype(dt)], dict(offset=[1.0], scale=[2.0]), 1, ML)
    yield record("ZipMap", [x], dict(classlabels_int64s=[3, 4, 7]), 1, ML)
    yield record("ZipMap", [x[0]], dict(classlabels_strings=["a", "b", "c"]), 1, ML)


def recurrent(op, gates, seed, attrs, dirs=1, seq=4, batch=2, inp=3, hid=5, lens=None, bias=True, h0=False, c0=False, p=False, opset=14, dtype=F):
    g = lambda k, *s: rnd(seed * 10 + k, *s, scale=0.5, dtype=dtype)
    first = attrs.get("layout", 0) == 1
    hs = (batch, dirs, hid) if first else (dirs, batch, hid)
    ins = [g(0, *((batch, seq, inp) if first else (seq, batch, inp))), g(1, dirs, gates * hid, inp), g(2, dirs, gates * hid, hid),
           g(3, dirs, 2 * gates * hid) if bias else None, np.array(lens, np.int32) if lens else None, g(4, *hs) if h0 else None]
    if op == "LSTM":
        ins += [g(5, *hs) if c0 else None, g(6, dirs, 3 * hid) if p else None]
    while ins[-1] is None:
        ins.pop()
    return record(op, ins, dict(attrs, hidden_size=hid), 3 if op == "LSTM" else 2, "", opset)


@cases
def recurrent_networks():
    # ONNX Runtime takes 0 for the defaults of Affine, ThresholdedRelu and ScaledTanh.
    for i, a in enumerate(["LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "Relu", "Sigmoid"]):
        yield recurrent("RNN", 1, i, dict(activations=[a]))
    for i, a in enumerate(["Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"]):
        yield recurrent("RNN", 1, i, dict(activations=[a], activation_alpha=[0.25], activation_beta=[0.125]))
    for i, (op, gates) in enumerate([("RNN", 1), ("GRU", 3), ("LSTM", 4)]):
        extra = dict(c0=True, p=True) if op == "LSTM" else {}
        yield recurrent(op, gates, 20 + i, dict(direction="reverse"))
        yield recurrent(op, gates, 23 + i, dict(direction="reverse"), lens=[2, 4], h0=True, **extra)
        yield recurrent(op, gates, 26 + i, dict(direction="bidirectional"), dirs=2, lens=[4, 1], h0=True, **extra)
        # ONNX Runtime's LSTM does not clip the input of the last activation, as the specification asks.
        if op != "LSTM":
            yield recurrent(op, gates, 29 + i, dict(clip=0.25), opset=7, lens=[3, 4])
        yield recurrent(op, gates, 32 + i, {}, bias=False, opset=7)
        yield recurrent(op, gates, 35 + i, {}, batch=3, hid=9, inp=7)
    yield recurrent("GRU", 3, 40, dict(linear_before_reset=1), h0=True)
    yield recurrent("GRU", 3, 41, dict(linear_before_reset=1, direction="bidirectional"), dirs=2, lens=[2, 3], h0=True, opset=7)
    yield recurrent("GRU", 3, 42, dict(linear_before_reset=1), bias=False)
    yield recurrent("GRU", 3, 43, dict(activations=["HardSigmoid", "LeakyRelu"], activation_alpha=[0.3, 0.2], activation_beta=[0.4]))
    yield recurrent("LSTM", 4, 44, dict(activations=["HardSigmoid", "Tanh", "Elu"], activation_alpha=[0.3, 0.2], activation_beta=[0.4]))
    yield recurrent("LSTM", 4, 45, dict(input_forget=1), c0=True, h0=True)
    yield recurrent("LSTM", 4, 46, dict(activations=["Sigmoid", "Affine", "Tanh", "HardSigmoid", "Tanh", "Affine"],
                                        activation_alpha=[0.3, 0.2, 0.5], activation_beta=[0.1, 0.4, 0.2], direction="bidirectional"), dirs=2)

def forest(seed, kind, targets, trees=4, depth=4, features=3, modes=("BRANCH_LEQ",), missing=False, scale=1.0, ids=None, tensors=False):
    """The old attributes of random trees; kind is class or target."""
    g = np.random.default_rng(seed)
    a = {k: [] for k in ["nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
                         "nodes_falsenodeids", "nodes_missing_value_tracks_true", "v_treeids", "v_nodeids", "v_ids", "v_weights"]}

    def grow(tree, level, counter):
        nid = counter[0]
        counter[0] += 1
        at = len(a["nodes_nodeids"])
        leaf = level == depth or level > 0 and g.random() < 0.2
        mode = "LEAF" if leaf else str(g.choice(list(modes)))
        val = 0.0 if leaf else float(np.round(g.standard_normal() * 4) / 4)
        for k, v in dict(treeids=tree, nodeids=nid, featureids=0 if leaf else int(g.integers(features)), modes=mode, values=val,
                         truenodeids=0, falsenodeids=0, missing_value_tracks_true=int(g.integers(2)) if missing else 0).items():
            a["nodes_" + k].append(v)
        if leaf:
            for t in (ids if ids is not None else sorted(g.choice(targets, size=int(g.integers(1, targets + 1)), replace=False))):
                a["v_treeids"].append(tree)
                a["v_nodeids"].append(nid)
                a["v_ids"].append(int(t))
                a["v_weights"].append(float(np.round(g.standard_normal() * 32 * scale) / 32) if scale > 0 else float(g.integers(0, 8)) / 32)
        else:
            a["nodes_truenodeids"][at] = grow(tree, level + 1, counter)
            a["nodes_falsenodeids"][at] = grow(tree, level + 1, counter)
        return nid

    for t in range(trees):
        grow(t, 0, [0])
    r = {k.replace("v_", kind + "_"): v for k, v in a.items()}
    if not missing:
        del r["nodes_missing_value_tracks_true"]
    if tensors:
        for k in ["nodes_values", kind + "_weights"]:
            r[k + "_as_tensor"] = nh.from_array(np.array(r.pop(k), np.float64), k)
    return r


TREE_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@cases
def ml_trees():
    x = np.round(np.random.default_rng(5).standard_normal((6, 3)) * 4).astype(F) / 4
    nan = x.copy()
    nan[0, 0] = nan[2, 1] = nan[3, 2] = np.nan
    for i, agg in enumerate(["SUM", "AVERAGE", "MIN", "MAX"]):
        yield record("TreeEnsembleRegressor", [x], dict(forest(i, "target", 1), n_targets=1, aggregate_function=agg), 1, ML)
        yield record("TreeEnsembleRegressor", [nan], dict(forest(10 + i, "target", 3, modes=TREE_MODES, missing=True, ids=[0, 1, 2]), n_targets=3,
                                                          aggregate_function=agg, base_values=[0.5, -0.25, 1.0]), 1, ML, 3)
    for i, pt in enumerate(["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]):
        yield record("TreeEnsembleRegressor", [x], dict(forest(20 + i, "target", 2), n_targets=2, post_transform=pt), 1, ML)
        yield record("TreeEnsembleClassifier", [x], dict(forest(30 + i, "class", 3, ids=[0, 1, 2]), classlabels_strings=["a", "b", "c"], post_transform=pt), 2, ML)
        yield record("TreeEnsembleClassifier", [x], dict(forest(40 + i, "class", 2, ids=[0]), classlabels_int64s=[3, 8], post_transform=pt), 2, ML, 3)
        yield record("TreeEnsembleClassifier", [x], dict(forest(50 + i, "class", 2, ids=[0], scale=0), classlabels_int64s=[3, 8], post_transform=pt), 2, ML, 3)
        yield record("TreeEnsembleClassifier", [x], dict(forest(60 + i, "class", 2, ids=[1]), classlabels_strings=["no", "yes"], post_transform=pt), 2, ML, 3)
    yield record("TreeEnsembleClassifier", [x], dict(forest(70, "class", 2, ids=[0]), classlabels_int64s=[3, 8], base_values=[0.25]), 2, ML)
    yield record("TreeEnsembleClassifier", [x], dict(forest(71, "class", 3, ids=[0, 1, 2]), classlabels_int64s=[3, 8, 5], base_values=[0.25, 1.0, -1.0]), 2, ML)
    for i, dt in enumerate([np.int64, np.int32, np.float64]):
        yield record("TreeEnsembleClassifier", [(x * 4).astype(dt)], dict(forest(80 + i, "class", 3, ids=[0, 1, 2]), classlabels_int64s=[3, 8, 5]), 2, ML)
    d = forest(90, "target", 2, tensors=True)
    yield record("TreeEnsembleRegressor", [x.astype(np.float64)], dict(d, n_targets=2), 1, ML, 3)

@cases
def ml_svm():
    x = rnd(1, 5, 3)

    def svc(classes, prob, kernel, seed, **kw):
        per = [2 + (i + seed) % 2 for i in range(classes)]
        n, pairs = sum(per), classes * (classes - 1) // 2
        f = lambda k, *s: [float(v) for v in rnd(seed * 10 + k, *s)]
        a = dict(kernel_type=kernel, kernel_params=[0.25, 0.125, 3.0], vectors_per_class=per, support_vectors=f(0, n * 3),
                 coefficients=f(1, (classes - 1) * n), rho=f(2, pairs), **kw)
        if prob:
            a.update(prob_a=[-1 - abs(v) for v in f(3, pairs)], prob_b=f(4, pairs))
        return a

    for i, kernel in enumerate(["LINEAR", "POLY", "RBF", "SIGMOID"]):
        yield record("SVMClassifier", [x], svc(3, False, kernel, i, classlabels_ints=[7, 8, 9]), 2, ML)
        yield record("SVMClassifier", [x], svc(4, True, kernel, 10 + i, classlabels_strings=["a", "b", "c", "d"]), 2, ML)
        yield record("SVMRegressor", [x], dict(kernel_type=kernel, kernel_params=[0.25, 0.125, 3.0], n_supports=4, rho=[0.5],
                                               support_vectors=[float(v) for v in rnd(i, 12)], coefficients=[0.5, -0.25, 1.0, 2.0]), 1, ML)
    for i, pt in enumerate(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]):
        yield record("SVMClassifier", [x], svc(2, False, "RBF", 20 + i, classlabels_ints=[7, 8], post_transform=pt), 2, ML)
        yield record("SVMClassifier", [x], svc(2, True, "RBF", 30 + i, classlabels_ints=[7, 8], post_transform=pt), 2, ML)
        yield record("SVMClassifier", [x], svc(3, i % 2 == 0, "RBF", 40 + i, classlabels_ints=[7, 8, 9], post_transform=pt), 2, ML)
        lin = dict(kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=[float(v) for v in rnd(i, 9)], rho=[0.25, 0.5, 0.75])
        yield record("SVMClassifier", [x], dict(lin, classlabels_strings=["a", "b", "c"], post_transform=pt), 2, ML)
    yield record("SVMRegressor", [x], dict(kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=[0.5, -0.25, 1.0], rho=[0.5]), 1, ML)
    yield record("SVMRegressor", [x], dict(kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=[0.5, -0.25, 1.0], rho=[0.5], one_class=1), 1, ML)


@cases
def ml_features():
    O = object
    names = np.array([["b", "a"], ["x", "b"]], O)
    nan = np.array([[np.nan, 1], [2, np.nan], [-1, 0]], F)
    yield record("LabelEncoder", [names], dict(classes_strings=["a", "b"], default_int64=-5), 1, ML, 1)
    yield record("LabelEncoder", [np.array([0, 1, 2, -1])], dict(classes_strings=["a", "b"], default_string="none"), 1, ML, 1)
    yield record("CategoryMapper", [names], dict(cats_strings=["a", "b"], cats_int64s=[5, 6], default_int64=-5), 1, ML, 1)
    yield record("CategoryMapper", [np.array([[5, 6], [7, 0]])], dict(cats_strings=["a", "b"], cats_int64s=[5, 6], default_string="?"), 1, ML, 1)
    pairs = [("strings", ["a", "b"], names), ("int64s", [3, 4], np.array([4, 3, 0])), ("floats", [1.5, float("nan")], np.array([np.nan, 1.5, 2], F))]
    values = dict(strings=["u", "v"], int64s=[8, 9], floats=[0.5, 0.25])
    for opset in (2, 4):
        for k, keys, x in pairs:
            for v in values:
                if opset == 2 and k == v:
                    continue
                if opset == 2 and k == "floats":  # ONNX Runtime does not find NaN there
                    keys, x = [1.5, 2.5], np.array([2.5, 1.5, 2], F)
                yield record("LabelEncoder", [x], {"keys_" + k: keys, "values_" + v: values[v]}, 1, ML, opset)
    yield record("LabelEncoder", [np.array([1.5, np.nan, 3])], dict(keys_tensor=nh.from_array(np.array([1.5, np.nan])), values_tensor=nh.from_array(np.array([2.5, 3.5])),
                                                                  default_tensor=nh.from_array(np.array([9.0]))), 1, ML, 4)
    yield record("LabelEncoder", [names], dict(keys_strings=["a", "b"], values_tensor=nh.from_array(np.array([2, 3], np.int16)),
                                               default_tensor=nh.from_array(np.array([9], np.int16))), 1, ML, 4)
    yield record("ArrayFeatureExtractor", [rnd(1, 2, 2, 3), np.array([[2, 0]])], None, 1, ML)
    yield record("ArrayFeatureExtractor", [np.array([4, 5, 6]), np.array([2, 0, 2])], None, 1, ML)
    yield record("ArrayFeatureExtractor", [names, np.array([1])], None, 1, ML)
    yield record("Binarizer", [rnd(1, 2, 3)], dict(threshold=0.5), 1, ML)
    yield record("Imputer", [nan], dict(imputed_value_floats=[7.0], replaced_value_float=float("nan")), 1, ML)
    yield record("Imputer", [nan], dict(imputed_value_floats=[7.0, 8.0], replaced_value_float=2.0), 1, ML)
    yield record("Imputer", [np.array([[1, 2], [3, 1]])], dict(imputed_value_int64s=[7, 8], replaced_value_int64=1), 1, ML)
    yield record("FeatureVectorizer", [rnd(1, 2, 3), rnd(2, 2, 2)], dict(inputdimensions=[3, 2]), 1, ML)
    yield record("FeatureVectorizer", [rnd(1, 2, 3), rnd(2, 2, 2)], dict(inputdimensions=[2, 4]), 1, ML)
    yield record("FeatureVectorizer", [np.array([1, 2, 3])], dict(inputdimensions=[3]), 1, ML)
    yield record("OneHotEncoder", [names], dict(cats_strings=["a", "b", "c"]), 1, ML)
    yield record("OneHotEncoder", [np.array([2.9, 3, 9], F)], dict(cats_int64s=[2, 3]), 1, ML)
    yield record("OneHotEncoder", [np.array([[2, 3]])], dict(cats_int64s=[2, 3], zeros=0), 1, ML)
    yield record("DictVectorizer", [{"b": 4.0, "z": 8.0}], dict(string_vocabulary=["a", "b", "z"]), 1, ML)
    for to in ["TO_FLOAT", "TO_STRING", "TO_INT64"]:
        yield record("CastMap", [{3: 1.5, 1: -2.25}], dict(cast_to=to), 1, ML)
        yield record("CastMap", [{3: 1.5, 1: -2.25}], dict(cast_to=to, map_form="SPARSE", max_map=5), 1, ML)


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
    for fn in ALL:
        if len(sys.argv) > 1 and fn.__name__ not in sys.argv[1:]:
            continue
        rows = [json.dumps(c, separators=(",", ":")) for c in fn()]
        with open(os.path.join(here, fn.__name__ + ".json"), "w") as f:
            f.write("[\n" + ",\n".join(rows) + "\n]\n")
        print(fn.__name__, len(rows))


if __name__ == "__main__":
    main()
