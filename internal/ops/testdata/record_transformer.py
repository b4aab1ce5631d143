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


if __name__ == "__main__":
    main()
