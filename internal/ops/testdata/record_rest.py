"""Records what ONNX Runtime answers to operators of com.microsoft that the other scripts leave: those of models
that mix attention with recurrences, and older ones.

    python record_rest.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import numpy as np

from record import F, MS, cases, main, record, rnd

H = np.float16


def ms(op, inputs, attrs=None, nout=1, **kw):
    return record(op, inputs, attrs, nout, MS, 1, **kw)


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
    h = lambda *v: [a.astype(H) for a in v]
    yield ms("GatedAdd", [x, y, gate])
    yield ms("GatedAdd", h(x, y, gate))
    yield ms("ScaledSiLU", [x], dict(alpha=1.5))
    yield ms("ScaledSiLU", [x, np.array(0.5, F)])
    yield ms("ScaledSiLU", h(x), dict(alpha=0.25))
    for act in ["silu", "sigmoid"]:
        yield ms("GatedRMSNorm", [x, rnd(4, 8), y], dict(activation=act))
        yield ms("GatedRMSNorm", [x, rnd(4, 4), y], dict(activation=act, epsilon=0.01))
    yield ms("GatedRMSNorm", h(x, rnd(4, 4), y), tol=0.01)
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


if __name__ == "__main__":
    main()
