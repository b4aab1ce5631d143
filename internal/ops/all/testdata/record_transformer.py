"""Records what ONNX Runtime answers to one-node models of com.microsoft that transformers use.

    python record_transformer.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import numpy as np

from record import F, MS, cases, main, record, rnd

H = np.float16


def ms(op, inputs, attrs=None, nout=1, **kw):
    return record(op, inputs, attrs, nout, MS, 1, **kw)


@cases
def ms_fused():
    a, b = rnd(1, 2, 2, 3, 4), rnd(2, 2, 2, 4, 5)
    yield ms("FusedMatMul", [a, b], dict(alpha=0.5))
    yield ms("FusedMatMul", [a, rnd(3, 2, 2, 5, 4)], dict(transB=1))
    yield ms("FusedMatMul", [rnd(4, 2, 2, 4, 3), b], dict(transA=1))
    yield ms("FusedMatMul", [rnd(5, 3, 2, 2, 4), b], dict(transBatchA=1, alpha=2.0))
    yield ms("FusedMatMul", [rnd(6, 4, 2, 2, 3), rnd(7, 5, 2, 2, 4)], dict(transA=1, transBatchA=1, transB=1, transBatchB=1))
    g = [rnd(8, 3, 4), rnd(9, 4, 2), rnd(10, 2)]
    for act in ["Relu", "Sigmoid", "Tanh"]:
        yield ms("FusedGemm", g, dict(activation=act, alpha=0.5, beta=2.0))
    yield ms("FusedGemm", g, dict(activation="LeakyRelu", activation_alpha=0.25))
    yield ms("FusedGemm", [g[0].T.copy(), g[1].T.copy()], dict(activation="HardSigmoid", activation_alpha=0.25, activation_beta=0.5, transA=1, transB=1))
    x, w, bias = rnd(11, 1, 2, 5, 5), rnd(12, 3, 2, 3, 3), rnd(13, 3)
    for act, params in [("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.25]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.25, 0.5])]:
        attrs = dict(activation=act, pads=[1, 1, 1, 1])
        if params:
            attrs["activation_params"] = params
        yield ms("FusedConv", [x, w, bias], attrs)
    yield ms("FusedConv", [x, w, bias, rnd(14, 1, 3, 5, 5)], dict(activation="Relu", pads=[1, 1, 1, 1]))
    yield ms("FusedConv", [x, rnd(15, 4, 1, 3, 3)], dict(activation="Relu", strides=[2, 2], group=2))


@cases
def ms_gelu():
    x, bias = rnd(1, 2, 3, 8), rnd(2, 8)
    yield ms("Gelu", [x])
    yield ms("BiasGelu", [x, bias])
    yield ms("FastGelu", [x])
    yield ms("FastGelu", [x, bias])
    yield ms("QuickGelu", [x])
    yield ms("QuickGelu", [x], dict(alpha=1.0))


@cases
def ms_norms():
    x, skip, row = rnd(1, 2, 3, 8), rnd(2, 2, 3, 8), rnd(3, 8)
    gamma, beta, bias = rnd(4, 8), rnd(5, 8), rnd(6, 8)
    yield ms("SkipLayerNormalization", [x, skip, gamma, beta, bias], dict(epsilon=0.01), "1001")
    yield ms("SkipLayerNormalization", [x, skip, gamma])
    yield ms("SkipLayerNormalization", [x, rnd(7, 3, 8), gamma, beta])
    yield ms("SkipLayerNormalization", [x, rnd(8, 1, 3, 8), gamma, None, bias], None, "1001")
    yield ms("SkipLayerNormalization", [x[0], skip[0], gamma, beta])
    yield ms("SkipLayerNormalization", [x.astype(H), skip.astype(H), gamma.astype(H), beta.astype(H)], tol=0.01)
    yield ms("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], dict(epsilon=0.01), "1001")
    yield ms("SkipSimplifiedLayerNormalization", [x, skip, gamma])
    yield record("SimplifiedLayerNormalization", [x, gamma], dict(epsilon=0.01), 2, "", 17)
    yield record("SimplifiedLayerNormalization", [x, rnd(9, 3, 8)], dict(axis=1), 2, "", 17)
    ids, seg = np.array([[1, 3, 0], [2, 2, 4]], np.int32), np.array([[0, 1, 1], [1, 0, 0]], np.int32)
    word, pos, segment = rnd(10, 5, 8), rnd(11, 4, 8), rnd(12, 2, 8)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield ms("EmbedLayerNormalization", [ids, seg, word, pos, segment, gamma, beta], dict(epsilon=0.01), 2)
    yield ms("EmbedLayerNormalization", [ids, seg, word, pos, segment, gamma, beta, mask], None, 3)
    yield ms("EmbedLayerNormalization", [ids, None, word, pos, None, gamma, beta, mask, np.array([[3, 0, 1]], np.int32)], None, 3)


@cases
def ms_multi_head_attention():
    b, s, t, h, d = 2, 3, 4, 2, 4
    q, k, v, bias = rnd(1, b, s, h * d), rnd(2, b, t, h * d), rnd(3, b, t, h * d), rnd(4, 3 * h * d)
    op = lambda inputs, nout=1, **attrs: ms("MultiHeadAttention", inputs, dict(attrs, num_heads=h), nout)
    i32 = lambda x: np.array(x, np.int32)
    yield op([q, k, v])
    yield op([q, k, v, bias], scale=0.25)
    yield op([q, k, rnd(5, b, t, h * 6)])
    yield op([q, k, v, bias, i32([2, 4])])
    yield op([q, k, v, None, i32([[1, 1, 0, 1], [0, 1, 1, 0]])], mask_filter_value=-5.0)
    yield op([q, k, v, None, i32(np.arange(b * s * t).reshape(b, s, t) % 3)])
    yield op([q, k, v, None, None, rnd(6, b, h, s, t)])
    yield op([q, k, v, None, i32([[1, 1, 0, 1], [0, 1, 1, 0]]), rnd(7, 1, 1, s, t)])
    yield op([q, q, q + 1], unidirectional=1)
    yield op([q, q + 1, q], nout=3)
    yield op([q, k[:, :3], v[:, :3], None, None, None, rnd(8, b, h, 2, d), rnd(9, b, h, 2, d)], nout=3)
    yield op([q, k[:, :3], v[:, :3], bias, i32([[1, 1, 0, 1, 1], [0, 1, 1, 0, 1]]), None, rnd(8, b, h, 2, d), rnd(9, b, h, 2, d)], nout=3, unidirectional=1)
    yield op([q, rnd(10, b, h, t, d), rnd(11, b, h, t, d)])
    buffers, one = [rnd(12, b, h, 8, d), rnd(13, b, h, 8, d)], lambda seed: rnd(seed, b, 1, h * d)
    past = i32([4])
    yield op([one(14), one(15), one(16), None, None, None, *buffers, past], nout=3)
    yield op([one(14), one(15), one(16), bias, i32([[1, 0, 1, 1, 1], [0, 1, 1, 0, 1]]), rnd(17, 1, h, 1, 5), *buffers, past], nout=3)
    yield op([one(14), one(15), one(16), None, None, None, *buffers, i32([7]), i32([[[0, 1, 0, 1, 1, 0, 0, 0], [1, 1, 0, 0, 1, 0, 1, 0]]])], nout=3)
    yield op([rnd(18, b, 3, h * d), rnd(19, b, 3, h * d), rnd(20, b, 3, h * d), None, None, None, *buffers, past], nout=3, unidirectional=1)


@cases
def ms_attention():
    b, s, h, d, n = 2, 3, 2, 4, 5
    x, w, bias = rnd(1, b, s, n), rnd(2, n, 3 * h * d), rnd(3, 3 * h * d)
    op = lambda inputs, nout=1, **attrs: ms("Attention", inputs, dict(attrs, num_heads=h), nout)
    i32 = lambda v: np.array(v, np.int32)
    yield op([x, w, bias])
    yield op([x, w, bias], scale=0.25, unidirectional=1, nout=2)
    yield op([x, rnd(4, n, 2 * h * d + 6), rnd(5, 2 * h * d + 6)], qkv_hidden_sizes=[h * d, h * d, 6])
    yield op([x, w, bias, i32([2, 3])])
    yield op([x, w, bias, i32([2, 3, 0, 1])])
    yield op([x, w, bias, i32([[1, 1, 0], [0, 1, 1]])])
    yield op([x, w, bias, i32(np.arange(b * s * s).reshape(b, s, s) % 3)])
    past = rnd(6, 2, b, h, 2, d)
    yield op([x, w, bias, None, past], nout=2)
    yield op([x, w, bias, i32([[1, 1, 0, 1, 1], [0, 1, 1, 1, 1]]), past], nout=2, unidirectional=1)
    yield op([x, w, bias, None, None, rnd(7, b, h, s, s)])
    yield op([x, w, bias, i32([2, 3]), None, rnd(7, 1, h, s, s)])


@cases
def ms_rotary():
    x, cos, sin = rnd(1, 2, 3, 8), rnd(2, 6, 2), rnd(3, 6, 2)
    ids = np.array([[0, 1, 2], [3, 4, 5]], np.int64)
    for inter in [0, 1]:
        yield ms("RotaryEmbedding", [x, ids, cos, sin], dict(interleaved=inter))
        yield ms("RotaryEmbedding", [x, np.array([2], np.int64), cos, sin], dict(interleaved=inter))
        yield ms("RotaryEmbedding", [rnd(4, 2, 2, 3, 4), ids, cos, sin], dict(interleaved=inter))
        yield ms("RotaryEmbedding", [rnd(5, 2, 3, 12), ids, cos, sin], dict(interleaved=inter, num_heads=2, rotary_embedding_dim=4))


@cases
def ms_group_query_attention():
    b, h, kv, d = 2, 4, 2, 16
    i32 = lambda v: np.array(v, np.int32)
    cos, sin = rnd(1, 8, d // 2), rnd(2, 8, d // 2)

    def op(s, past, lens, total, seed, packed=False, rot=False, extra=(), nout=3, batch=b, **attrs):
        g = lambda k, *shape: rnd(seed * 10 + k, *shape)
        ins = [g(0, batch, s, (h + 2 * kv) * d), None, None] if packed else [g(0, batch, s, h * d), g(1, batch, s, kv * d), g(2, batch, s, kv * d)]
        ins += [g(3, batch, kv, past, d), g(4, batch, kv, past, d)] if past is not None else [None, None]
        ins += [i32(lens), i32(total)]
        if rot or extra:
            ins += [cos, sin] if rot else [None, None]
        ins += list(extra)
        return ms("GroupQueryAttention", ins, dict(attrs, num_heads=h, kv_num_heads=kv, do_rotary=int(rot)), nout)

    yield op(3, None, [2, 2], 3, 1)
    yield op(3, None, [2, 2], 3, 2, packed=True, rot=True)
    yield op(1, 4, [4, 4], 5, 3)
    yield op(1, 4, [4, 2], 5, 4, rot=True)
    yield op(1, 4, [4, 3], 5, 5, packed=True, rot=True, rotary_interleaved=1)
    yield op(1, 6, [4, 2], 5, 6, local_window_size=3)
    yield op(4, None, [3, 3], 4, 7, local_window_size=2)
    yield op(3, None, [2, 2], 3, 8, softcap=2.0, scale=0.5)
    yield op(3, None, [2, 2], 3, 9, smooth_softmax=1)
    yield op(2, 3, [4], 5, 10, batch=1, rot=True)
    yield op(3, None, [2, 2], 3, 11, extra=[None, rnd(3, 1, h, 3, 3)])
    yield op(3, None, [2, 2], 3, 12, extra=[None, None, rnd(4, h)])
    # Caches of whole numbers: of 8 bits, and pairs of 4 bits.
    g = np.random.default_rng(2)
    for bits, kind, other in [(8, "PER_TENSOR", "PER_TENSOR"), (8, "PER_CHANNEL", "PER_CHANNEL"), (4, "PER_TENSOR", "PER_TENSOR"), (4, "PER_CHANNEL", "PER_CHANNEL")]:
        scale = lambda kind, seed: (np.abs(rnd(seed, *((kv, 1, d) if kind == "PER_CHANNEL" else (1,)))) + 0.25) / 2 ** (bits - 2)
        tail = [None, None, None, scale(kind, 20), scale(other, 21)]
        attrs = dict(num_heads=h, kv_num_heads=kv, k_quant_type=kind, v_quant_type=other, kv_cache_bit_width=bits)
        cache = lambda n: g.integers(-128, 128, (b, kv, n, d)).astype(np.int8) if bits == 8 else g.integers(0, 256, (b, kv, n, d // 2), dtype=np.uint8)
        q, k, v = lambda s: rnd(22, b, s, h * d), lambda s: rnd(23, b, s, kv * d), lambda s: rnd(24, b, s, kv * d)
        yield ms("GroupQueryAttention", [q(3), k(3), v(3), cache(0), cache(0), i32([2, 2]), i32(3), None, None] + tail, attrs, 3)
        yield ms("GroupQueryAttention", [q(1), k(1), v(1), cache(4), cache(4), i32([4, 4]), i32(5), None, None] + tail, attrs, 3)
        yield ms("GroupQueryAttention", [q(1), k(1), v(1), cache(6), cache(6), i32([4, 2]), i32(5), cos, sin] + tail, dict(attrs, do_rotary=1, local_window_size=3), 3)
    yield op(3, None, [2, 2], 3, 13, rot=True, extra=[np.array([[3, 4, 5], [3, 4, 5]], np.int64)])


@cases
def ms_mat_mul_nbits():
    g = np.random.default_rng(1)
    for bits, block, n, k, zp in [(4, 16, 3, 32, None), (4, 32, 5, 64, "packed"), (4, 16, 3, 40, "packed"), (4, 32, 35, 48, "float"), (8, 32, 3, 64, None), (8, 16, 4, 32, "packed"),
                                  (2, 32, 3, 64, None), (2, 16, 3, 32, "packed")]:
        kb = (k + block - 1) // block
        w = g.integers(0, 256, (n, kb, block * bits // 8), dtype=np.uint8)
        zero = dict(packed=lambda: g.integers(0, 256, (n * ((kb * bits + 7) // 8),), dtype=np.uint8), float=lambda: rnd(5, n, kb, scale=4.0)).get(zp, lambda: None)()
        yield ms("MatMulNBits", [rnd(2, 2, 3, k), w, rnd(3, n * kb, scale=0.25), zero], dict(N=n, K=k, bits=bits, block_size=block))
    kb, w = 2, g.integers(0, 256, (3, 2, 8), dtype=np.uint8)
    yield ms("MatMulNBits", [rnd(2, 2, 32), w, rnd(3, 6), None, None, rnd(6, 3)], dict(N=3, K=32, bits=4, block_size=16))


@cases
def ms_qattention():
    g = np.random.default_rng(3)
    b, s, h, d, n = 2, 3, 2, 4, 5
    for xt, wt in [(np.uint8, np.int8), (np.uint8, np.uint8)]:
        i = np.iinfo(wt)
        x, w = g.integers(0, 256, (b, s, n)).astype(xt), g.integers(i.min, i.max + 1, (n, 3 * h * d)).astype(wt)
        base = [x, w, rnd(4, 3 * h * d), np.array(0.01, F), np.array(0.02, F)]
        yield ms("QAttention", base + [None, np.array(120, xt), np.array(3, wt)], dict(num_heads=h))
        yield ms("QAttention", base + [np.array([2, 3], np.int32), np.array(120, xt), np.array(3, wt)], dict(num_heads=h, unidirectional=1))
        base[4] = (np.abs(rnd(5, 3 * h * d)) + 1) / 64
        yield ms("QAttention", base + [None, np.array(120, xt), None, rnd(6, 2, b, h, 2, d)], dict(num_heads=h), 2)


if __name__ == "__main__":
    main()
