"""Records what ONNX Runtime answers to operators of com.microsoft and of old versions of ONNX that are rare.

    python record_last.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper as h

from record import F, MS, cases, enc, enc_attr, main, record, rnd, value_info


def i32(v):
    return np.array(v, np.int32)


@cases
def experimental():
    x = rnd(1, 2, 2, 4, 5)
    for op, attrs in [("Affine", {}), ("Affine", dict(alpha=-0.5, beta=2.0)), ("Scale", {}), ("Scale", dict(scale=3.0)),
                      ("ParametricSoftplus", dict(alpha=0.5, beta=-2.0)), ("ScaledTanh", dict(alpha=1.5, beta=0.25)),
                      ("ImageScaler", dict(bias=[1.0, -2.0])), ("ImageScaler", dict(bias=[1.0, -2.0], scale=0.5)),
                      ("Crop", dict(border=[1, 0, 2, 1])), ("Crop", dict(border=[3, 0, 2, 1])), ("Crop", dict(border=[1, 0, 2, 1], scale=[2, 4]))]:
        yield record(op, [x], attrs)
    yield record("ParametricSoftplus", [np.array([300, -300, np.inf, -np.inf, np.nan, 0], F)], dict(alpha=2.0, beta=3.0))
    for v in [1, 9]:
        for dt in [np.int32, np.int64]:
            yield record("DynamicSlice", [x, np.array([1, -3], dt), np.array([9, -1], dt), np.array([2, -1], dt)], opset=v)
    yield record("DynamicSlice", [x.astype(np.int8), np.array([0, 1]), np.array([1, -1])])


def attn_lstm(seed, dirs=1, seq=3, batch=2, inp=3, hid=4, steps=5, depth=6, width=3, aw=None, lens=None, mlens=None, bias=True, state=False, **attrs):
    g = lambda k, *s: rnd(seed * 20 + k, *s, scale=0.5)
    size = aw or depth
    ins = [g(0, seq, batch, inp), g(1, dirs, 4 * hid, inp + size), g(2, dirs, 4 * hid, hid), g(3, dirs, 8 * hid) if bias else None,
           i32(lens) if lens else None] + ([g(4, dirs, batch, hid), g(5, dirs, batch, hid), g(6, dirs, 3 * hid)] if state else [None] * 3) + [
           g(7, dirs, hid, width), g(8, dirs, depth, width), g(9, dirs, width), g(10, batch, steps, depth), i32(mlens) if mlens else None,
           g(11, dirs, depth + hid, aw) if aw else None]
    while ins[-1] is None:
        ins.pop()
    return record("AttnLSTM", ins, dict(attrs, hidden_size=hid), 3, MS)


@cases
def ms_attn_lstm():
    yield attn_lstm(1)
    yield attn_lstm(2, aw=3, mlens=[5, 2])
    yield attn_lstm(3, aw=3, lens=[3, 1], state=True, direction="reverse", mlens=[1, 4])
    yield attn_lstm(4, dirs=2, lens=[2, 3], state=True, direction="bidirectional")
    yield attn_lstm(5, dirs=2, aw=7, batch=3, direction="bidirectional", mlens=[1, 2, 3], bias=False)
    yield attn_lstm(6, input_forget=1, activations=["HardSigmoid", "Relu", "Softsign"])


@cases
def ms_varlen_ngrams():
    ids, ends = np.array([5, 1, 7, 3, 9, 1, 2, 2, 8]), i32([0, 4, 5, 9])
    mult, size = np.array([3, 5, 7, 11]), np.array([13, 17, 19, 23])
    past, segments, pasts = np.array([[4, 6], [1, 8], [6, 1]]), i32([0, 0, 1, 1, 2, 5, 5, 6, 6]), i32([[0, 0], [1, 2], [5, 4]])
    offsets, eos = np.array([0, 100, 200, 300]), np.array(1)
    attrs = dict(max_ngram_size=3, n_head_per_ngram=2, pad_id=2)
    none = [None] * 6
    for extra, more, nout in [(none, {}, "11"), ([past] + none[1:], {}, "11"), ([None, offsets] + none[2:], {}, "1"),
                              ([past, offsets, eos] + none[3:], dict(reset_on_eos=1), "11"), ([None, None, eos] + none[3:], dict(reset_on_eos=1), "11"),
                              ([None, None, eos] + none[3:], {}, "11"), ([None, None, None, segments] + none[4:], {}, "111"),
                              ([past, None, None, segments, pasts, None], {}, "111"), ([past, offsets, eos, segments, pasts, None], dict(reset_on_eos=1), "111"),
                              ([past, None, None, segments, pasts, i32([2, 9, -1])], dict(state_update_capacity=3), "1111")]:
        while extra and extra[-1] is None:
            extra = extra[:-1]
        yield record("VarlenNGramHashMapping", [ids, mult, size, ends] + extra, dict(attrs, **more), nout, MS)
        yield record("VarlenNGramHashMapping", [v if v is None or v.dtype == np.int32 and k + 1 in (4, 8, 9, 10) else v.astype(np.int32)
                                                for k, v in enumerate([ids, mult, size, ends] + extra)], dict(attrs, **more), nout, MS)
    yield record("VarlenNGramHashMapping", [np.array([-5, 1 << 62]), np.array([3, 1 << 61, 7]), np.array([13, 1 << 60]), i32([0, 1, 2])],
                 dict(max_ngram_size=3, n_head_per_ngram=1, pad_id=-1), 1, MS)


@cases
def ms_fpq4_wide():
    g, k, n = np.random.default_rng(3), 100, 3
    x, scales = rnd(5, 2, k), (np.abs(rnd(4, n, 2)) + 0.25).astype("<f4")
    codes, shape = g.integers(0, 256, (n, 4, 16), dtype=np.uint8), np.array([k, n])
    raw = lambda v: v.reshape(n, -1, 1).view(np.uint8)
    # ONNX Runtime multiplies by blocks of 32 with the scales that those of 64 have.
    halves = np.concatenate([raw(np.repeat(scales, 2, 1)), codes], 2).ravel()
    one = record("MatMulFpQ4", [x, halves, shape], dict(blk_quant_type=0), 1, MS, tol=0.01)
    whole = np.concatenate([raw(scales), codes.reshape(n, 2, 32)], 2).ravel()
    yield dict(one, attrs={"blk_quant_type": enc_attr(2)}, **{"in": [enc(x), enc(whole), enc(shape)]})
    offsets = np.concatenate([raw(np.repeat(scales, 2, 1)), g.integers(0, 16, (n, 4, 1), dtype=np.uint8), codes], 2).ravel()
    yield record("MatMulFpQ4", [x, offsets, shape], dict(blk_quant_type=2), 1, MS, tol=0.01)


@cases
def ms_sliding_window():
    h, kv = 4, 2

    def op(n, cap, window, lens, seed, bias=False, sink=False, rot=False, dtype=F, bits=0, **attrs):
        b, total, d = len(lens), max(lens), 32 if bits else 16
        g = lambda k, *s: rnd(seed * 10 + k, *s).astype(dtype)
        ins = [g(0, b, n, h * d), g(1, b, n, kv * d), g(2, b, n, kv * d), g(3, b, kv, cap, d), g(4, b, kv, cap, d), i32(lens) - 1, i32(total)]
        if bits:
            full = np.random.default_rng(seed).integers(-128, 127, (2, b, kv, cap, d // (8 // bits)))
            ins[3:5] = list(full.astype(np.int8) if bits == 8 else (full & 255).astype(np.uint8))
        ins += [g(5, total, d // 2), g(6, total, d // 2)] if rot else [None, None]
        ins += [None, g(7, 1, h, n, total) if bias else None, g(8, h) if sink else None] + ([np.array([0.02], F), np.array([0.0271], F)] if bits else [])
        if bits:
            attrs.update(k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=bits)
        while ins[-1] is None:
            ins.pop()
        r = record("GroupQueryAttention", ins, dict(attrs, num_heads=h, kv_num_heads=kv, local_window_size=window, sliding_window_cache=1,
                                                    do_rotary=int(rot)), 3, MS, tol=2e-2 if dtype != F or bits else None)
        step = cap - window + 1
        for o in r["out"][1:]:  # what lies behind the tokens that stay is not specified
            v = np.array(o["d"], object).reshape(o["s"])
            for k, t in enumerate(lens):
                v[k, :, t if t <= cap else t - step * -(-(t - cap) // step):] = 0
            o["d"] = v.ravel().tolist()
        return r

    for t in [1, 5, 6, 8]:
        yield op(1, 5, 4, [t], 30 + t)
    for t in [3, 7, 9]:
        yield op(1, 7, 3, [t], 40 + t, rot=True)
    yield op(1, 4, 4, [9, 2, 5], 50, bias=True, sink=True, rot=True)
    yield op(3, 6, 4, [11], 51, bias=True, smooth_softmax=1, softcap=5.0)
    yield op(9, 6, 4, [12], 52, rot=True)
    yield op(9, 6, 4, [9], 53)
    yield op(4, 6, 4, [4, 4], 54, rot=True)
    yield op(2, 6, 4, [9], 55, dtype=np.float16)
    for bits in [4, 8]:
        yield op(1, 5, 4, [9, 4], 56 + bits, bits=bits)
        yield op(3, 6, 4, [11], 57 + bits, bits=bits)


NCHWC = "com.microsoft.nchwc"


def blocked(op, x, attrs, *more):
    """A case of an operator on images of whole blocks, which ONNX Runtime reorders before and after it."""
    names = ["x"] + ["m%d" % i if v is not None else "" for i, v in enumerate(more)]
    channels = more[0].shape[0] if more else x.shape[1]
    nodes = [h.make_node("ReorderInput", ["x"], ["b"], domain=NCHWC), h.make_node(op, ["b"] + names[1:], ["c"], domain=NCHWC, **attrs),
             h.make_node("ReorderOutput", ["c"], ["y"], domain=NCHWC, channels=channels)]
    if len(more) > 2:  # Sum
        nodes.insert(1, h.make_node("ReorderInput", [names[3]], ["s"], domain=NCHWC))
        nodes[2].input[3] = "s"
    graph = h.make_graph(nodes, "g", [value_info("x", x)] + [value_info(n, v) for n, v in zip(names[1:], more) if v is not None], [onnx.ValueInfoProto(name="y")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid(NCHWC, 1), h.make_opsetid("", 21)], ir_version=10)
    s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = s.run(None, {n: v for n, v in zip(names, (x,) + more) if v is not None})
    return {"op": NCHWC + "." + op, "opset": 1, "attrs": {k: enc_attr(v) for k, v in attrs.items()}, "in": [enc(v) for v in (x,) + more], "out": [enc(got[0])]}


@cases
def nchwc():
    x = rnd(1, 1, 16, 3, 4)
    yield blocked("MaxPool", x, dict(kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1]))
    yield blocked("MaxPool", x, dict(kernel_shape=[2, 2], dilations=[1, 2]))
    yield blocked("AveragePool", x, dict(kernel_shape=[2, 2], pads=[0, 1, 1, 0]))
    yield blocked("AveragePool", x, dict(kernel_shape=[3, 3], auto_pad="SAME_UPPER", count_include_pad=1))
    yield blocked("GlobalMaxPool", x, {})
    yield blocked("GlobalAveragePool", x, {})
    yield blocked("Upsample", x, dict(scales=[1, 1, 2, 3]))
    for at in ["asymmetric", "align_corners", "half_pixel"]:
        yield blocked("Upsample", x, dict(scales=[1, 1, 2, 3], mode="linear", coordinate_transformation_mode=at))
    # A filter that is the same in blocks of 8 and of 16.
    w, b, z = rnd(2, 16, 1, 1, 1), rnd(3, 16), rnd(4, 1, 16, 3, 4)
    yield blocked("Conv", x, dict(group=16), w)
    yield blocked("Conv", x, dict(group=16, activation="Relu", pads=[0, 1, 0, 1], strides=[2, 1]), w, b)
    for act, params in [("Clip", [0.0, 0.5]), ("LeakyRelu", [0.25]), ("Tanh", []), ("Sigmoid", []), ("HardSigmoid", [0.25, 0.5])]:
        yield blocked("Conv", x, dict(group=16, activation=act, **(dict(activation_params=params) if params else {})), w, b, z)
    for last in [0, 1]:
        v = x.transpose(0, 2, 3, 1) if last else x
        y = v.transpose(0, 3, 1, 2) if last else v
        v12 = v[..., :12] if last else v[:, :12]
        yield {"op": NCHWC + ".ReorderInput", "opset": 1, "attrs": {"channels_last": enc_attr(last)}, "in": [enc(v)], "out": [enc(y)], "by": "NumPy"}
        yield {"op": NCHWC + ".ReorderOutput", "opset": 1, "attrs": {"channels_last": enc_attr(last), "channels": enc_attr(12)}, "in": [enc(y)],
               "out": [enc(v12)], "by": "NumPy"}


if __name__ == "__main__":
    main()
