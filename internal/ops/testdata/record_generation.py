"""Writes small text generating models and what ONNX Runtime makes of them.

    python record_generation.py      needs what record.py needs

generation/NAME.onnx holds a model, generation/cases.json inputs and outputs.
"""
import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "generation")
VOCAB, HEADS, SIZE = 12, 2, 2


def decoder(name, seed, scale=1.0):
    """A decoder whose scores depend on tokens, positions, mask and past."""
    g = np.random.default_rng(seed)
    w = lambda n, *s: nh.from_array((np.round(g.standard_normal(s) * 64) / 64 * scale).astype(np.float32), n)
    i = lambda n, *v: nh.from_array(np.array(v, np.int64), n)
    init = [w("tokens", VOCAB, VOCAB), w("places", 64, VOCAB), w("of_past", VOCAB), w("of_mask", VOCAB),
            i("column", 1, -1, 1, 1), i("kv", 0, 0, 0, 0), i("one_two", 1, 2), i("ones", 1), i("kv_axes", 0, 2, 3, 4), i("minus", -1)]
    n = h.make_node
    nodes = [
        n("Gather", ["tokens", "input_ids"], ["t"]), n("Gather", ["places", "position_ids"], ["p"]), n("Add", ["t", "p"], ["tp"]),
        n("Cast", ["input_ids"], ["idf"], to=T.FLOAT), n("Unsqueeze", ["idf", "new_axes"], ["id5"]),
        n("Shape", ["idf"], ["shape"]), n("Gather", ["shape", "zero"], ["b"]), n("Gather", ["shape", "ones"], ["s"]),
        n("Concat", ["two", "b", "heads", "s", "size"], ["kv_shape"], axis=0), n("Expand", ["id5", "kv_shape"], ["new"]),
        n("Concat", ["past_0", "new"], ["present_0"], axis=3),
        n("ReduceMean", ["present_0", "kv_axes"], ["m"], keepdims=0), n("Unsqueeze", ["m", "one_two"], ["m3"]), n("Mul", ["m3", "of_past"], ["x"]),
        n("Cast", ["attention_mask"], ["mf"], to=T.FLOAT), n("ReduceSum", ["mf", "ones"], ["ms"], keepdims=0), n("Unsqueeze", ["ms", "one_two"], ["ms3"]),
        n("Mul", ["ms3", "of_mask"], ["y"]), n("Add", ["tp", "x"], ["z"]), n("Mul", ["y", "tenth"], ["y10"]), n("Add", ["z", "y10"], ["logits"]),
    ]
    init = [t for t in init if t.name not in ("column", "kv", "minus")]
    init += [i("new_axes", 0, 2, 4), i("zero", 0), i("two", 2), i("heads", HEADS), i("size", SIZE), nh.from_array(np.array(0.1, np.float32), "tenth")]
    ids = lambda name: h.make_tensor_value_info(name, T.INT32, ["batch", "length"])
    past = lambda name, d: h.make_tensor_value_info(name, T.FLOAT, [2, "batch", HEADS, d, SIZE])
    return h.make_graph(nodes, name, [ids("input_ids"), ids("position_ids"), h.make_tensor_value_info("attention_mask", T.INT32, ["batch", "total"]), past("past_0", "past")],
                        [h.make_tensor_value_info("logits", T.FLOAT, ["batch", "length", VOCAB]), past("present_0", "all")], init)


def run(op, name, feed, attrs, nout=1):
    order = INPUTS[op]
    ins = [k if k in feed else "" for k in order]
    while ins[-1] == "":
        ins.pop()
    node = h.make_node(op, ins, ["sequences"], domain="com.microsoft", **attrs)
    vi = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feed.items()]
    vo = [h.make_tensor_value_info("sequences", T.INT32, None)]
    m = h.make_model(h.make_graph([node], "g", vi, vo), opset_imports=[h.make_opsetid("", 18), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    so = ort.SessionOptions()
    so.log_severity_level = 4
    got = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"]).run(None, feed)
    onnx.save(m, os.path.join(HERE, name + ".onnx"))
    return {"model": name, "inputs": {k: {"t": v.dtype.name, "s": list(v.shape), "d": [float(x) if v.dtype == np.float32 else int(x) for x in v.ravel()]} for k, v in feed.items()},
            "want": {"s": list(got[0].shape), "d": [int(x) for x in got[0].ravel()]}}


COMMON = ["input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask"]
INPUTS = {"GreedySearch": COMMON}


def main():
    os.makedirs(HERE, exist_ok=True)
    I = np.int32
    ids = np.array([[3, 5, 7], [1, 2, 4], [0, 0, 6]], I)
    base = dict(input_ids=ids, max_length=np.array([12], I))
    attrs = dict(eos_token_id=11, pad_token_id=0)
    vocab = np.ones(VOCAB, I)
    vocab[[2, 5, 9]] = 0
    prefix = np.ones((3, VOCAB), I)
    prefix[:, ::2] = 0
    rows = []
    for name, feed, more in [
        ("plain", {}, {}), ("ngram", {}, dict(no_repeat_ngram_size=2)), ("penalty", dict(repetition_penalty=np.array([1.8], np.float32)), {}),
        ("masks", dict(vocab_mask=vocab, prefix_vocab_mask=prefix), {}), ("eos", {}, dict(eos_token_id=7)), ("min_length", dict(min_length=np.array([9], I)), dict(eos_token_id=7)),
        ("attention_mask", dict(attention_mask=np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], I)), {}),
        ("init_decoder", {}, dict(init_decoder=decoder("first", 9))),
    ]:
        for seed in [1, 2]:
            rows.append(run("GreedySearch", "greedy_%s_%d" % (name, seed), dict(base, **feed), {**attrs, **more, "decoder": decoder("decoder", seed)}))
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
    for r in rows:
        print(r["model"], r["want"]["d"])


if __name__ == "__main__":
    main()
