"""Records what ONNX Runtime answers to operators of com.microsoft that the other scripts leave: those of models
that mix attention with recurrences, and older ones.

    python record_rest.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper as h

from record import F, MS, cases, enc, enc_attr, main, record, rnd, value_info

H = np.float16


def ms(op, inputs, attrs=None, nout=1, **kw):
    return record(op, inputs, attrs, nout, MS, 1, **kw)


def in_place(op, inputs, attrs, shared):
    """A case whose outputs are in the memory of inputs: shared maps the ones to the others. The first output is not."""
    names = ["i%d" % k if v is not None else "" for k, v in enumerate(inputs)]
    outs = ["o%d" % k for k in range(1 + len(shared))]
    feed = {n: v for n, v in zip(names, inputs) if v is not None}
    node = h.make_node(op, names, outs, domain=MS, **attrs)
    graph = h.make_graph([node], "g", [value_info(n, v) for n, v in feed.items()], [onnx.ValueInfoProto(name=o) for o in outs])
    model = h.make_model(graph, opset_imports=[h.make_opsetid(MS, 1), h.make_opsetid("", 21)], ir_version=10)
    s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    bind, held = s.io_binding(), {n: ort.OrtValue.ortvalue_from_numpy(v.copy()) for n, v in feed.items()}
    for n, v in held.items():
        bind.bind_ortvalue_input(n, v)
    bind.bind_output("o0")
    for out, k in shared.items():
        bind.bind_ortvalue_output("o%d" % out, held["i%d" % k])
    s.run_with_iobinding(bind)
    return {"op": MS + "." + op, "opset": 1, "attrs": {k: enc_attr(v) for k, v in attrs.items()}, "in": [enc(v) for v in inputs],
            "out": [enc(v.numpy()) for v in bind.get_outputs()]}


def i64(v):
    return np.array(v, np.int64)


def i32(v):
    return np.array(v, np.int32)


@cases
def ms_sequences():
    for dtype in [F, np.float64]:
        for metric in ["sqeuclidean", "euclidean"]:
            yield ms("CDist", [rnd(1, 3, 5).astype(dtype), rnd(2, 4, 5).astype(dtype)], dict(metric=metric))
    yield ms("CDist", [rnd(1, 3, 5), rnd(2, 4, 5)])
    x = np.arange(48, dtype=F).reshape(2, 6, 4)
    yield ms("UnfoldTensor", [x], dict(size=3))
    yield ms("UnfoldTensor", [x], dict(size=2, dim=1, step=3))
    yield ms("UnfoldTensor", [x.astype(np.float64)], dict(size=2, dim=-3))
    yield ms("UnfoldTensor", [np.arange(7, dtype=np.int32)], dict(size=3, step=2, dim=0))
    g = np.random.default_rng(1)
    for shape in [(4, 6), (1, 5, 3), (1, 1), (1, 4), (6, 1)]:
        yield ms("DynamicTimeWarping", [g.integers(0, 3, shape).astype(F)])  # many paths cost the same
    yield ms("DynamicTimeWarping", [rnd(3, 1, 7, 9)])
    for k in range(12):
        n, at = int(g.integers(2, 8)), 0
        src = g.integers(0, 4, n)
        at = int(g.integers(0, n))
        pred = np.concatenate([src[at:], [5]])
        if k % 3:
            pred[g.integers(0, len(pred))] = 9
        attrs = dict(min_ngram_size=1 + k % 2, max_ngram_size=2 + k % 3)
        yield ms("BifurcationDetector", [i64(src), i64(g.integers(0, 4, int(g.integers(0, 4)) + 3)), i64([at]), i64(pred) if k % 4 else None], attrs, 2)


@cases
def ms_gates():
    x, y, gate = rnd(1, 2, 3, 8), rnd(2, 2, 3, 8), rnd(3, 2, 3, 1)
    half = lambda *v: [a.astype(H) for a in v]
    yield ms("GatedAdd", [x, y, gate])
    yield ms("GatedAdd", half(x, y, gate))
    yield ms("ScaledSiLU", [x], dict(alpha=1.5))
    yield ms("ScaledSiLU", [x, np.array(0.5, F)])
    yield ms("ScaledSiLU", half(x), dict(alpha=0.25))
    for act in ["silu", "sigmoid"]:
        yield ms("GatedRMSNorm", [x, rnd(4, 8), y], dict(activation=act))
        yield ms("GatedRMSNorm", [x, rnd(4, 4), y], dict(activation=act, epsilon=0.01))
    yield ms("GatedRMSNorm", half(x, rnd(4, 4), y), tol=0.01)
    yield ms("BranchwiseRMSNorm", [x, rnd(5, 8)], dict(epsilon=0.01))
    yield ms("BranchwiseRMSNorm", [x, rnd(5, 3, 8)])
    yield ms("BranchwiseRMSNorm", [rnd(6, 2, 12), rnd(5, 12)], dict(num_branches=3))
    yield ms("BranchwiseRMSNorm", [rnd(6, 2, 12)], dict(num_branches=3))
    a, b = rnd(7, 2, 3, 4, scale=3.0), rnd(8, 2, 3, 4)
    yield ms("LinearAttentionGate", [a, rnd(9, 4), -np.abs(rnd(10, 4)), b], None, 2)
    yield ms("LinearAttentionGate", [a, rnd(9, 4), -np.abs(rnd(10, 4))])
    yield ms("LinearAttentionGate", [a.astype(H), rnd(9, 4), -np.abs(rnd(10, 4)), b.astype(H)], None, 2, tol=0.01)


@cases
def ms_linear_attention():
    b, n, dk, dv = 2, 4, 3, 5

    def op(rule, h, kv, past=False, per_key=False, one_beta=False, length=n, **attrs):
        q, k, v = rnd(1, b, length, h * dk), rnd(2, b, length, kv * dk), rnd(3, b, length, kv * dv)
        state = rnd(4, b, kv, dk, dv) if past else None
        decay = -np.abs(rnd(5, b, length, kv * (dk if per_key else 1))) if "gated" in rule else None
        beta = np.abs(rnd(6, b, length, 1 if one_beta else kv)) / 4 if "delta" in rule else None
        return ms("LinearAttention", [q, k, v, state, decay, beta], dict(attrs, update_rule=rule, q_num_heads=h, kv_num_heads=kv), 2)

    for rule in ["linear", "gated", "delta", "gated_delta"]:
        yield op(rule, 2, 2)
        yield op(rule, 4, 2, past=True, scale=0.5)
    yield op("gated_delta", 2, 2, past=True, per_key=True, one_beta=True)
    yield op("gated_delta", 2, 4, past=True)
    yield op("gated_delta", 2, 2, past=True, length=1)


@cases
def ms_causal_conv():
    b, c, n, k = 2, 3, 5, 3
    x, w, bias = rnd(1, b, c, n), rnd(2, c, 1, k), rnd(3, c)
    op = lambda ins, **attrs: ms("CausalConvWithState", ins, attrs, 2)
    yield op([x, w])
    yield op([x, w, bias, rnd(4, b, c, k - 1)], activation="silu")
    yield op([x[:, :, :1], w, bias, rnd(4, b, c, k - 1)], activation="swish")
    yield op([x, w, bias, rnd(4, b, c, 2 * (k - 1))], dilation=2)
    last = lambda v: np.ascontiguousarray(v.transpose(0, 2, 1))
    yield op([last(x), w, bias, last(rnd(4, b, c, k - 1))], channels_last=1)
    yield op([rnd(5, b, n, 2, 2), rnd(6, 4, 1, k), rnd(7, 4), rnd(8, b, k - 1, 2, 2)], channels_last=1)


@cases
def ms_mrotary():
    pos, cos, sin = np.random.default_rng(1).integers(0, 9, (3, 2, 3)), rnd(1, 9, 6), rnd(2, 9, 6)
    for layout in [0, 1]:
        for inter in [0, 1]:
            attrs = dict(mrope_section=[2, 2, 2], mrope_layout=layout, interleaved=inter)
            yield ms("MRotaryEmbedding", [rnd(3, 2, 3, 24), pos, cos, sin], dict(attrs, num_heads=2, rotary_embedding_dim=12))
            yield ms("MRotaryEmbedding", [rnd(4, 2, 2, 3, 12), pos, cos, sin], dict(attrs, mrope_section=[4, 1, 1]))
    yield ms("MRotaryEmbedding", [rnd(5, 2, 3, 32), pos, cos, sin], dict(mrope_section=[1, 3, 2], num_heads=2, rotary_embedding_dim=12))


@cases
def ms_packed_weights():
    g = np.random.default_rng(3)
    for kind in [0, 1]:
        k, n, block = 48, 5, 16
        codes = g.integers(0, 256, (n * k // 2,), dtype=np.uint8)
        absmax = np.abs(rnd(1, n * k // block)) + 0.5
        attrs = dict(K=k, N=n, block_size=block, quant_type=kind)
        yield ms("MatMulBnb4", [rnd(2, 2, 3, k), codes, absmax], attrs)
        # ONNX Runtime reads past the rows without transB; what the operator's page says:
        one = ms("MatMulBnb4", [np.eye(k, dtype=F), codes, absmax], attrs)
        w, x = np.array(one["out"][0]["d"], F).reshape(k, n).T, rnd(2, 3, n)
        yield dict(one, attrs=dict(one["attrs"], transB=enc_attr(0)), out=[enc(x @ w)], by="NumPy", **{"in": [enc(x)] + one["in"][1:]})
        yield ms("MatMulBnb4", [rnd(2, 1, 15), g.integers(0, 256, (23,), dtype=np.uint8), np.array([1, 2, 3], F)], dict(K=15, N=3, block_size=16, quant_type=kind))
        k, head = 70, 4 + kind
        blob = g.integers(0, 256, (n, (k + 31) // 32, head + 16), dtype=np.uint8)
        blob[:, :, :4] = np.frombuffer((np.abs(rnd(4, n, (k + 31) // 32)) + 0.25).astype("<f4").tobytes(), np.uint8).reshape(n, -1, 4)
        if kind:
            blob[:, :, 4] &= 15
        yield ms("MatMulFpQ4", [rnd(5, 2, 3, k), blob.ravel(), i64([k, n])], dict(blk_quant_type=kind), tol=0.01)


@cases
def ms_conv_transpose_with_dynamic_pads():
    x, w = rnd(1, 1, 2, 4, 3), rnd(2, 2, 3, 3, 2)
    yield ms("ConvTransposeWithDynamicPads", [x, w, i64([0, 0, 0, 0])])
    yield ms("ConvTransposeWithDynamicPads", [x, w, i64([1, 0, 0, 1]), rnd(3, 3)], dict(strides=[2, 1]))
    yield ms("ConvTransposeWithDynamicPads", [x, rnd(4, 2, 2, 3, 2), i64([1, 1, 1, 0])], dict(strides=[2, 2], output_padding=[1, 0], group=2, dilations=[1, 2]))


@cases
def ms_dynamic_quantize_lstm():
    g = np.random.default_rng(4)

    def op(dtype, batch=1, channels=False, bias=True, lens=None, peep=False, state=False, direction="forward", **attrs):
        seq, n, h = 4, 5, 3
        d = 2 if direction == "bidirectional" else 1
        i = np.iinfo(dtype)
        q = lambda rows: g.integers(i.min, i.max + 1, (d, rows, 4 * h)).astype(dtype)
        scale = lambda seed: (np.abs(rnd(seed, *((d, 4 * h) if channels else (d,)))) + 0.5) / 128
        zero = lambda: np.zeros((d, 4 * h) if channels else (d,), dtype)  # ONNX Runtime takes no other
        ins = [rnd(1, seq, batch, n), q(n), q(h), rnd(2, d, 8 * h) if bias else None, i32(lens) if lens else None, rnd(3, d, batch, h) if state else None,
               rnd(4, d, batch, h) if state else None, rnd(5, d, 3 * h) if peep else None, scale(6), zero(), scale(7), zero()]
        # With several threads ONNX Runtime quantizes parts of a batch on their own.
        return ms("DynamicQuantizeLSTM", ins, dict(attrs, hidden_size=h, direction=direction), 3, threads=1)

    for dtype in [np.uint8, np.int8]:
        yield op(dtype)
        yield op(dtype, channels=dtype == np.int8, state=True, peep=True)
        yield op(dtype, direction="bidirectional", state=True)
        yield op(dtype, direction="reverse", bias=False)
    yield op(np.int8, batch=2, state=True)
    yield op(np.int8, lens=[3], state=True)


@cases
def ms_sparse_attention():
    b, heads, kv, d, block, cap = 2, 4, 2, 16, 16, 64
    layouts = np.array([[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]], [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]])
    cols = [[j for row in l for j in np.flatnonzero(row)] for l in layouts]
    most = max(map(len, cols))
    rows = i32([np.concatenate([[0], np.cumsum(l.sum(1))]) for l in layouts])
    cols = i32([c + [-1] * (most - len(c)) for c in cols])
    cos, sin = rnd(1, cap, d // 2), rnd(2, cap, d // 2)

    def op(n, total, lens, packed=False, **attrs):
        g = lambda k, w: rnd(k, b, n, w * d)
        ins = [g(3, heads + 2 * kv), None, None] if packed else [g(3, heads), g(4, kv), g(5, kv)]
        ins += [rnd(6, b, kv, cap, d), rnd(7, b, kv, cap, d), rows, cols, i32([total]), i32(lens)]
        if attrs.get("do_rotary"):
            ins += [cos, sin]
        return in_place("SparseAttention", ins, dict(attrs, num_heads=heads, kv_num_heads=kv, sparse_block_size=block), {1: 3, 2: 4})

    yield op(40, 40, [40, 40])
    yield op(33, 33, [33, 33], packed=True, do_rotary=1)
    yield op(1, 50, [50, 50])
    yield op(1, 50, [50, 50], do_rotary=1, scale=0.3)
    yield op(1, 20, [20, 20], packed=True, do_rotary=1, rotary_interleaved=1)
    # Items of different lengths: ONNX Runtime's numbers for the shorter one fit no reading of the operator's page.


@cases
def ms_hyper_connections():
    b, c, n = 2, 3, 4
    x = rnd(1, b, c, n)
    flat = lambda v: np.ascontiguousarray(v.reshape(*v.shape[:-2], -1))
    for gate in [rnd(2, b, c), rnd(3, b, c, 1), rnd(4, b, c, n)]:
        yield ms("HyperConnectionPreMix", [x, gate], dict(reduction_scale=0.5))
        yield ms("HyperConnectionPostMix", [x, rnd(5, b, n), gate])
        yield ms("HyperConnectionPostMix", [x, rnd(5, b, n), gate, rnd(6, b, c, c)])
    yield ms("HyperConnectionPreMix", [flat(x), flat(rnd(4, b, c, n))], dict(num_branches=c))
    yield ms("HyperConnectionPostMix", [flat(x), rnd(5, b, n), rnd(2, b, c), rnd(6, b, c, c)], dict(num_branches=c))
    s = (2, 3, 2, 8)
    ins = [rnd(7, *s), rnd(8, *s), rnd(9, 2, 3, 8), rnd(10, 2, 8), rnd(11, 2, 8)]
    yield ms("EngramGate", ins, dict(epsilon=0.01))
    yield ms("EngramGate", ins + [rnd(12, 2, 8)], None, 2)
    yield ms("EngramGate", [v.astype(H) for v in ins + [rnd(12, 2, 8)]], None, 2, tol=0.02)
    g = np.random.default_rng(5)
    for t in [np.int32, np.int64]:
        ids, mult, size = g.integers(0, 5, (2, 7)).astype(t), g.integers(-9, 1 << 20, 4).astype(t), g.integers(5, 99, 6).astype(t)
        attrs = dict(max_ngram_size=3, n_head_per_ngram=3, pad_id=4)
        op = lambda extra, **more: ms("NGramHashMapping", [ids, mult, size] + extra, dict(attrs, **more), 2)
        past, off, eos, seg = g.integers(0, 5, (2, 2)).astype(t), (np.arange(6) * 100).astype(t), np.array(2, t), i32([[0, 0, 1, 1, 1, 2, 2], [3, 3, 3, 3, 4, 4, 4]])
        yield op([])
        yield op([past, off])
        yield op([None, None, eos])
        yield op([past, None, eos], reset_on_eos=1)
        yield op([past, None, eos, seg], reset_on_eos=1)
        yield op([past, None, None, seg])


if __name__ == "__main__":
    main()
