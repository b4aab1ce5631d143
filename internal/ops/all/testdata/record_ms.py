"""Records what ONNX Runtime answers to one-node models of com.microsoft.

    python record_ms.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import math

import numpy as np

from record import F, MS, cases, enc, enc_attr, main, record, rnd

U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64


def rint(seed, lo, hi, *shape, dtype=I64):
    return np.random.default_rng(seed).integers(lo, hi, shape, endpoint=True).astype(dtype)


def full(dtype, seed, *shape):
    """Whole numbers over the range of an 8- or 16-bit type."""
    i = np.iinfo(dtype)
    return rint(seed, i.min, i.max, *shape, dtype=dtype)


def ms(op, inputs, attrs=None, nout=1, **kw):
    return record(op, [None if v is None else np.asarray(v) for v in inputs], attrs, nout, MS, 1, **kw)


def by_numpy(op, inputs, attrs, outputs, **kw):
    """A case of an operator for which ONNX Runtime has no CPU kernel; NumPy gives the outputs."""
    r = {"op": MS + "." + op, "opset": 1}
    if attrs:
        r["attrs"] = {k: enc_attr(v) for k, v in attrs.items()}
    r["in"], r["out"] = [enc(v) for v in inputs], [enc(v) for v in outputs]
    return dict(r, **kw)


def f(v):
    return np.array(v, F)


@cases
def ms_shapes():
    x = rnd(1, 2, 3, 4)
    yield ms("SampleOp", [x])
    yield ms("SampleOp", [f(2.5)])
    for axis in [0, 1, 3, -1, -4, -2]:
        yield ms("ExpandDims", [x, np.array(axis, I32)])
    yield ms("ExpandDims", [np.array(["a", "b"], object), np.array(-1, I32)])
    for upper in [0, 1]:
        for k in [None, -1, 0, 2, 9]:
            yield ms("Trilu", [x, None if k is None else np.array(k, I64)][:1 if k is None else 2], dict(upper=upper))
    yield ms("Trilu", [rint(2, -9, 9, 4, 2)])
    for dt in [I32, I64]:
        yield ms("GatherND", [x, np.array([[0, 1], [1, 2]], dt)])
        yield ms("GatherND", [x, np.array([[[1]], [[-1]]], dt)])
    yield ms("GatherND", [np.array([["a", "b"], ["c", "d"]], object), np.array([[0, 1], [1, 0]])])
    for dt in [np.int16, I32, I64, F, np.float64]:
        yield ms("Range", [np.array(v, dt) for v in (1, 10, 3)])
        yield ms("Range", [np.array(v, dt) for v in (-2, 3)])
    yield ms("Range", [np.array([v], F) for v in (5, 0, -1.5)])
    for mode in ["constant", "reflect", "edge"]:
        yield ms("Pad", [x, np.array([0, 1, 2, 0, 0, 3])], dict(mode=mode))
        yield ms("Pad", [x, np.array([[1, 0, 0, 1, 2, 1]])], dict(mode=mode) if mode != "reflect" else dict())
    yield ms("Pad", [x, np.array([0, 1, -2, 0, 0, 3]), f([7.5])])
    yield ms("Pad", [x, np.array([0, -1, 2, 0, 0, 3]), f(7.5)])
    for sa, sb in [((2, 3), (3, 4)), ((2, 2, 3), (3, 5)), ((3,), (3, 2))]:
        yield ms("MatMulInteger16", [rint(3, -30000, 30000, *sa, dtype=np.int16), rint(4, -20000, 20000, *sb, dtype=np.int16)])


@cases
def ms_quantize():
    x = rnd(1, 3, 4, scale=40)
    for dt in [U8, I8, np.uint16, np.int16]:
        z = np.array(3, dt)
        yield ms("QuantizeLinear", [x, f(0.25), z])
        yield ms("QuantizeLinear", [x, f([0.25, 0.5, 2]), np.array([0, 7, 100], dt)], dict(axis=0))
        yield ms("QuantizeLinear", [x, f([0.25, 0.5, 2, 0.01]), np.array([0, 7, 100, 1], dt)], dict(axis=-1))
        yield ms("DequantizeLinear", [full(dt, 2, 3, 4), f(0.25), z])
        yield ms("DequantizeLinear", [full(dt, 3, 3, 4), f([0.25, 0.5, 2]), np.array([0, 7, 100], dt)], dict(axis=0))
        yield ms("DequantizeLinear", [full(dt, 4, 3, 4), f([0.25, 0.5, 2, 0.01]), np.array([0, 7, 100, 1], dt)], dict(axis=1))
    yield ms("QuantizeLinear", [x, f(0.25)])
    yield ms("DequantizeLinear", [full(U8, 5, 3, 4), f(0.25)])
    yield ms("DequantizeLinear", [rint(6, -100000, 100000, 2, 3, dtype=I32), f([0.25])])


@cases
def ms_qlinear_elementwise():
    for k, dt in enumerate([U8, I8]):
        a, b = full(dt, 10 + k, 3, 40), full(dt, 20 + k, 3, 40)
        z = lambda v: np.array(v, dt)
        for op, cs in [("QLinearAdd", 0.09), ("QLinearMul", 0.6)]:
            yield ms(op, [a, f(0.05), z(10), b, f(0.03), z(60), f(cs), z(40)])
            yield ms(op, [a, f(0.05), z(10), b[:, :1], f(0.03), z(60), f(cs), z(40)])
            yield ms(op, [a[0], f(0.05), z(9), b, f(0.02), z(0), f(cs), z(0)])
            yield ms(op, [a, f(0.05), z(100), b[1, 1], f(0.03), z(20), f(cs / 3), z(3)])
            yield ms(op, [a[0, 0], f(0.05), z(1), b[0], f(0.03), z(2), f(cs), z(3)])
        for op, at in [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", dict(alpha=0.3))]:
            yield ms(op, [a, f(0.03), z(100), f(0.004 if op == "QLinearSigmoid" else 0.03), z(3)], at)
            yield ms(op, [a[0], f(0.1), z(9), f(0.01), z(0)], at)
        c = rint(30, 0, 1, 3, 40).astype(bool)
        yield ms("QLinearWhere", [c, a, f(0.05), z(10), b, f(0.03), z(60), f(0.06), z(40)])
        yield ms("QLinearWhere", [c[:, :1], a, f(0.05), z(10), b[:1], f(0.03), z(60), f(0.02), z(1)])
        yield ms("QLinearWhere", [c[0], a[0], f(0.05), z(10), b[0, 0], f(0.03), z(60), f(0.05), z(10)])
        for ax in [0, 1, -1]:
            yield ms("QLinearConcat", [f(0.04), z(7), a, f(0.05), z(10), b, f(0.03), z(60), a, f(0.04), z(7)], dict(axis=ax))
        yield ms("QLinearConcat", [f(0.04), z(7), a[:, :3].reshape(1, 3, 3), f(0.05), z(10), b[:2, :6].reshape(1, 4, 3), f(0.03), z(60)], dict(axis=1))


@cases
def ms_qlinear_pools():
    for k, dt in enumerate([U8, I8]):
        z = lambda v: np.array(v, dt)
        x, y = full(dt, 50 + k, 2, 3, 7, 6), full(dt, 60 + k, 2, 7, 6, 3)
        q = [f(0.05), z(20), f(0.0437), z(30)]
        for last, v in [(0, x), (1, y)]:
            yield ms("QLinearGlobalAveragePool", [v] + q, dict(channels_last=last))
            for at in [dict(), dict(strides=[2, 2], pads=[1, 0, 1, 1]), dict(pads=[1, 1, 1, 1], count_include_pad=1), dict(strides=[2, 3], ceil_mode=1), dict(auto_pad="SAME_UPPER")]:
                if last and "auto_pad" in at:
                    continue
                yield ms("QLinearAveragePool", [v] + q, dict(at, kernel_shape=[3, 2], channels_last=last))
        for at in [dict(), dict(strides=[2, 1], pads=[1, 0, 1, 1]), dict(dilations=[2, 2]), dict(strides=[2, 3], ceil_mode=1)]:
            yield ms("NhwcMaxPool", [y], dict(at, kernel_shape=[3, 2]))
        yield ms("QLinearAveragePool", [x[:, :, 0]] + q, dict(kernel_shape=[4]))
        for op13 in [12, 13]:
            for ax in [0, 1, -1]:
                yield ms("QLinearSoftmax", [x[0, :, :2], f(0.05), z(7), f(1 / 256), z(0 if dt == U8 else -128)], dict(opset=op13, axis=ax))
        yield ms("QLinearSoftmax", [x[0, 0], f(0.01), z(7), f(0.003), z(5)], dict(opset=13))
        w = full(I8, 70 + k, 4, 3, 3, 2)
        wd = [w, f([0.01, 0.02, 0.005, 0.015]), np.zeros(4, I8)]
        for at in [dict(), dict(pads=[1, 0, 1, 1], strides=[2, 1]), dict(dilations=[2, 2])]:
            yield ms("QLinearConv", [y, f(0.02), z(20)] + wd + [f(0.3), z(10), rint(3, -500, 500, 4, dtype=I32)], dict(at, channels_last=1))
        yield ms("QLinearConv", [x, f(0.02), z(20)] + wd + [f(0.3), z(10)], dict(channels_last=0))
        yield ms("QLinearConv", [y, f(0.02), z(20), full(I8, 72, 6, 1, 2, 2), f(0.01), np.array(0, I8), f(0.05), z(10)], dict(channels_last=1, group=3))


@cases
def ms_products():
    for k, (at, bt) in enumerate([(U8, U8), (U8, I8), (I8, I8)]):
        a, b = full(at, 80 + k, 2, 3, 5), full(bt, 90 + k, 5, 4)
        az, bz, bzc = np.array(7, at), np.array(9, bt), np.array([1, 9, 0, 100], bt)
        bs, bsc, bias = f(0.02), f([0.01, 0.02, 0.03, 0.04]), rnd(5, 4)
        yield ms("MatMulIntegerToFloat", [a, b, f(0.1), bs])
        yield ms("MatMulIntegerToFloat", [a, b, f([0.1]), bsc, az, bzc, bias])
        yield ms("MatMulIntegerToFloat", [a[0], np.stack([b, b[::-1]]), f(0.1), bsc, az, bz])
        yield ms("MatMulIntegerToFloat", [a, np.stack([b, b[::-1]]), f(0.1), np.stack([bsc, bsc[::-1]])[:, None], None, np.stack([bzc, bzc[::-1]])[:, None], bias])
        x = rnd(100 + k, 2, 3, 5)
        yield ms("DynamicQuantizeMatMul", [x, b, bs])
        yield ms("DynamicQuantizeMatMul", [x - 3, b, bsc, bzc, bias])
        yield ms("DynamicQuantizeMatMul", [x[0], b, bsc, bz])
        c = rint(6, -900, 900, 3, 4, dtype=I32)
        z = np.array(3, at)
        yield ms("QGemm", [a[0], f(0.1), az, b, bs, bz])
        yield ms("QGemm", [a[0], f(0.1), az, b, bsc, bzc, c])
        yield ms("QGemm", [a[0].T, f(0.1), az, b, bs, bz, c[0]], dict(transA=1, alpha=0.5))
        yield ms("QGemm", [a[0], f(0.1), az, b.T, bsc, bzc, c[:, :1], f(0.7), z], dict(transB=1))
        yield ms("QGemm", [a[0].T, f(0.1), az, b.T, bsc, bzc, c, f(1.3), z], dict(transB=1, transA=1, alpha=2.0))
        yield ms("QGemm", [a[0], f(0.1), az, b, bs, bz, None, f(1.3), z])
    a, b = rnd(1, 2, 3, 4, 5), rnd(2, 2, 3, 5, 6)
    t = lambda x: np.swapaxes(x, -1, -2).copy()
    yield ms("TransposeMatMul", [a, b], dict(alpha=0.25))
    yield ms("TransposeMatMul", [t(a), b], dict(transA=1))
    yield ms("TransposeMatMul", [a, t(b)[0]], dict(transB=1))
    yield ms("TransposeMatMul", [t(a), t(b)], dict(transA=1, transB=1, alpha=-2.0))
    yield ms("TransposeMatMul", [t(a), b[0, 0]], dict(transA=1))
    yield ms("TransposeMatMul", [a[0, 0], t(b)[0, 0]], dict(transB=1))
    yield ms("TransposeMatMul", [a[0, 0, 0], b[0, 0]], {})


def strings(*v, shape=None):
    return np.array(v, object).reshape(shape or len(v))


@cases
def ms_text():
    x = strings("Hello World!", "a b  c", "", "x", "日本 語, né")
    for mark in [0, 1]:
        base = dict(mark=mark, pad_value="#")
        for sep in [[" "], [" ", ","], ["[ ,]+"], ["l+", " "], [""], ["o W"], ["é|本"]]:
            yield ms("Tokenizer", [x], dict(base, separators=sep, mincharnum=1))
        yield ms("Tokenizer", [x], dict(base, separators=[" "], mincharnum=2))
        for exp in [".", "[a-zA-Z]+", "[^ ]+", "\\w"]:
            yield ms("Tokenizer", [x], dict(base, tokenexp=exp, mincharnum=1))
        yield ms("Tokenizer", [x], dict(base, tokenexp="[a-z]+", mincharnum=3))
        yield ms("Tokenizer", [strings("a b", "c", "", "d e f", shape=(2, 2))], dict(base, separators=[" "], mincharnum=1))
        yield ms("Tokenizer", [strings("", " ")], dict(base, separators=[" "], mincharnum=1))
        yield ms("Tokenizer", [strings("", "")], dict(base, separators=[""], mincharnum=1))
    for pos in [0, 1]:
        for seed in [0, 7, 4294967295]:
            yield ms("MurmurHash3", [strings("", "a", "ab", "abc", "abcd", "hello world", "日本")], dict(positive=pos, seed=seed))
        for dt in [I32, np.uint32, I64, np.uint64, F, np.float64]:
            yield ms("MurmurHash3", [np.array([[0, 1, 2], [100, 7, 65536]], dt)], dict(positive=pos))
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [1, 2, 3, 4, 5]], I64)
    for n in [1, 2, 3, 5, 6]:
        yield ms("NGramRepeatBlock", [ids, rnd(1, 3, 8)], dict(ngram_size=n))
    w = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0], [5, 4, 3, 2, 1], [1, 1, 1, 1, 0]], I32)
    for win in [1, 2, 3]:
        yield ms("WordConvEmbedding", [w, rnd(2, 6, 1, win, 4), rnd(3, 6), rnd(4, 7, 4)], dict() if win > 1 else dict(embedding_size=6, conv_window_size=1, char_embedding_size=4))


@cases
def ms_numbers():
    yield ms("Unique", [f([2, 1, 1, 3, 4, 3])], {}, 3)
    yield ms("Unique", [f([5, -1, 0.5, 5, 5])], {}, 3)
    for dt in [F, np.float64, np.float16]:
        yield ms("Inverse", [(rnd(1, 3, 3) + 3 * np.eye(3)).astype(dt)])
        if dt != np.float16:
            yield ms("Inverse", [(rnd(2, 2, 2, 4, 4) + 2 * np.eye(4)[::-1]).astype(dt)])
    yield ms("Inverse", [f([[0, 1], [1, 0]])])
    x = rnd(3, 2, 3, 7, 6)
    grid = rnd(4, 2, 4, 5, 2, scale=0.7)
    for mode in ["bilinear", "nearest", "bicubic"]:
        for pad in ["zeros", "border", "reflection"]:
            for ac in [0, 1]:
                yield ms("GridSample", [x[:1, :2], grid[:1]], dict(mode=mode, padding_mode=pad, align_corners=ac))
    rois = f([[0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], [-0.5, 0.2, 1.4, 0.1], [0.9, 1, 0, 0]])
    b = np.array([0, 1, 1, 0], I32)
    for mode in ["bilinear", "nearest"]:
        for size in [[3, 4], [1, 1], [9, 2]]:
            yield ms("CropAndResize", [x[:, :2], rois, b, np.array(size, I32)], dict(mode=mode, extrapolation_value=-2.5))
    # ONNX Runtime finds the planes of a mask wrongly unless there is one.
    for at in [dict(kernel_shape=[2, 3]), dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]), dict(kernel_shape=[2, 2], auto_pad="SAME_UPPER")]:
        yield ms("MaxpoolWithMask", [x, rint(5, 0, 2, 1, 1, 7, 6, dtype=I32)], at)
    yield ms("MaxpoolWithMask", [x[:, :, 0], rint(6, 0, 2, 1, 1, 6, dtype=I32)], dict(kernel_shape=[3], strides=[2]))


def silu(x):
    return x / (1 + np.exp(-x.astype(np.float64)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


@cases
def ms_by_numpy():
    x, bias = rnd(1, 2, 3, 8), rnd(2, 8)
    skip = rnd(3, 2, 3, 8)
    for dt in [F, np.float16]:
        c = lambda v: np.asarray(v).astype(dt)
        yield by_numpy("BiasAdd", [c(x), c(bias), c(skip)], {}, [c(x + bias + skip)])
        s = x + bias
        yield by_numpy("BiasSplitGelu", [c(x), c(bias)], {}, [c(s[..., :4] * gelu(s[..., 4:]))], tol=2e-3)
        yield by_numpy("BiasDropout", [c(x), c(bias)], {}, [c(s), np.ones(x.shape, bool)])
        yield by_numpy("BiasDropout", [c(x), c(bias), c(skip), c(0.5), np.array(False)], {}, [c(s + skip), np.ones(x.shape, bool)])
        yield by_numpy("BiasDropout", [c(x), c(skip), None, c(0), np.array(True)], dict(seed=3), [c(x + skip), np.ones(x.shape, bool)])
        w = rnd(4, 8, 5)
        yield by_numpy("GemmFastGelu", [c(x), c(w)], {}, [c(gelu_tanh(x @ w))], tol=3e-3)
        yield by_numpy("GemmFastGelu", [c(x[0]), c(w), c(bias[:5])], {}, [c(gelu_tanh(x[0] @ w + bias[:5]))], tol=3e-3)
    for axis, inner, bs in [(1, 0, (3, 8)), (2, 1, (2, 1, 8)), (2, 0, (1, 3, 8)), (-1, 1, (8,))]:
        b = rnd(5, *bs)
        t = (x + b).reshape(int(np.prod(x.shape[:axis if axis >= 0 else 3 + axis])), -1)
        e = np.exp(t - t.max(-1, keepdims=True))
        yield by_numpy("BiasSoftmax", [x, b], dict(axis=axis, is_inner_broadcast=inner), [(e / e.sum(-1, keepdims=True)).reshape(x.shape).astype(F)])
    for last in [0, 1]:
        x4, sk, bi = rnd(6, 2, 6, 3, 4), rnd(7, 2, 6, 3, 4), rnd(8, 6)
        gam, bet = rnd(9, 6), rnd(10, 6)
        lay = (lambda v: np.moveaxis(v, 1, -1).copy()) if last else (lambda v: v)

        def norm(v, groups, act, eps):
            t = v.reshape(2, groups, -1).astype(np.float64)
            t = ((t - t.mean(-1, keepdims=True)) / np.sqrt(t.var(-1, keepdims=True) + eps)).reshape(v.shape)
            t = t * gam[:, None, None] + bet[:, None, None]
            return lay((silu(t) if act else t).astype(F))

        for groups, act, eps in [(2, 0, 1e-5), (3, 1, 0.5), (6, 1, 1e-5)]:
            at = dict(channels_last=last, groups=groups, activation=act, epsilon=eps)
            yield by_numpy("GroupNorm", [lay(x4), gam, bet], at, [norm(x4, groups, act, eps)])
            s = x4 + sk + bi[:, None, None]
            yield by_numpy("SkipGroupNorm", [lay(x4), gam, bet, lay(sk), bi], at, [norm(s, groups, act, eps), lay(s)])
            s = x4 + sk[:, :, :1, :1]
            yield by_numpy("SkipGroupNorm", [lay(x4), gam, bet, sk[:, :, 0, 0]], at, [norm(s, groups, act, eps), lay(s)])
    for v, inf, nan in [([1, 2], 0, 0), ([1, np.nan], 0, 0), ([1, np.inf], 0, 0), ([1, np.inf], 0, 1), ([np.nan, 2], 1, 0), ([-np.inf, 2], 1, 0)]:
        a = np.array(v, F)
        bad = (np.isnan(a) & (inf == 0)) | (np.isinf(a) & (nan == 0))
        yield by_numpy("IsAllFinite", [f([3]), a], dict(isinf_only=inf, isnan_only=nan), [np.array(not bad.any())])
    for n in [8, 6, 5]:
        for dt in [F, np.float64]:
            v = rnd(11, 2, 3, n).astype(dt)
            y = np.fft.rfft(v)
            y = np.stack([y.real, y.imag], -1).astype(dt)
            yield by_numpy("Rfft", [v], dict(signal_ndim=1), [y], tol=1e-3)
            if n % 2 == 0:
                yield by_numpy("Irfft", [y], dict(signal_ndim=1), [v], tol=1e-3)
    for dt, out in [(U8, np.uint32), (I8, I32)]:
        v, u = full(dt, 12, 2, 3, 4), full(dt, 13, 3, 1)
        yield by_numpy("MulInteger", [v, np.array(3, dt), u, np.array(100, dt)], {}, [((v.astype(I64) - 3) * (u.astype(I64) - 100)).astype(I32)])
        yield by_numpy("MulInteger", [v, None, u], {}, [(v.astype(I64) * u).astype(I32)])
        for axes, keep in [([1], 1), ([0, 2], 0), ([-1], 0)]:
            yield by_numpy("ReduceSumInteger", [v], dict(axes=axes, keepdims=keep), [v.astype(I64).sum(tuple(axes), keepdims=bool(keep)).astype(out)])
            m = (v.astype(np.float64) - 3).mean(tuple(axes), keepdims=bool(keep)) * 0.05 / 0.037
            yield by_numpy("QLinearReduceMean", [v, f(0.05), np.array(3, dt), f(0.037), np.array(9, dt)], dict(axes=axes, keepdims=keep),
                           [np.clip(np.rint(m) + 9, np.iinfo(dt).min, np.iinfo(dt).max).astype(dt)])
    v, w = rnd(14, 2, 5, 6, 4), rnd(15, 6, 2, 3, 3)
    for dt in [F, np.float64]:
        for st in [1, 2]:
            p = np.pad(v, ((0, 0), (1, 1), (0, 1), (0, 0))).astype(np.float64)
            oh, ow = (p.shape[1] - 3) // st + 1, (p.shape[2] - 3) // st + 1
            y = np.zeros((2, oh, ow, 6))
            for g in range(2):
                for i in range(oh):
                    for j in range(ow):
                        patch = p[:, i * st:i * st + 3, j * st:j * st + 3, 2 * g:2 * g + 2]
                        y[:, i, j, 3 * g:3 * g + 3] = np.einsum("nhwc,mchw->nm", patch, w[3 * g:3 * g + 3].astype(np.float64))
            yield by_numpy("NhwcConv", [v.astype(dt), w.astype(dt), bias[:6].astype(dt)], dict(group=2, strides=[st, st], pads=[1, 0, 1, 1]), [(y + bias[:6]).astype(dt)], tol=1e-3)


def pack(codes, bits):
    """Codes along the last dimension, low bits first, in bytes."""
    per = 8 // bits
    n = codes.shape[-1]
    c = np.concatenate([codes, np.zeros(codes.shape[:-1] + (-n % per,), codes.dtype)], -1).reshape(codes.shape[:-1] + (-1, per))
    return sum(c[..., k].astype(np.uint32) << (bits * k) for k in range(per)).astype(U8)


@cases
def ms_experts():
    tok, hid, inter, ex = 5, 32, 32, 4
    x, r = rnd(1, tok, hid), rnd(2, tok, ex)
    w = lambda seed, out, inp: rnd(seed, ex, out, inp, scale=0.2)
    for act in ["relu", "gelu", "silu", "identity"]:
        yield ms("MoE", [x, r, w(3, inter, hid), rnd(4, ex, inter), w(5, hid, inter), rnd(6, ex, hid)], dict(activation_type=act, k=2))
    yield ms("MoE", [x.reshape(1, tok, hid), r, w(3, 8, hid), None, w(5, hid, 8)], dict(k=1))
    yield ms("MoE", [x, r, w(3, 8, hid), None, w(5, hid, 8)], dict(k=3, normalize_routing_weights=1))
    for extra in [dict(), dict(activation_alpha=1.5, activation_beta=1.0, swiglu_limit=0.5)]:
        yield ms("MoE", [x, r, w(3, 16, hid), rnd(4, ex, 16), w(5, hid, 8)], dict(extra, activation_type="swiglu", swiglu_fusion=1, k=2))

    def q(seed, out, inp, bits, block, zero):
        g = rint(seed, 0, 2**bits - 1, ex, out, inp)
        blocks = (inp // block,) if block else ()
        s = np.abs(rnd(seed + 1, ex, out, *blocks, scale=0.02)) + F(0.01)
        z = pack(rint(seed + 2, 0, 2**bits - 1, ex, out, *blocks), bits) if zero else None
        return pack(g, bits), s, z

    # Blocks of 8 bits are left out: ONNX Runtime rounds the input for them.
    for bits, block, zero in [(4, 0, False), (8, 0, False), (4, 16, False), (4, 16, True), (8, 0, True), (4, 32, False), (4, 0, True), (2, 16, True)]:
        w1, s1, z1 = q(10 + bits, inter, hid, bits, block, zero)
        w2, s2, z2 = q(20 + bits, hid, inter, bits, block, zero)
        at = dict(expert_weight_bits=bits, k=2, activation_type="silu", normalize_routing_weights=1, weights_prepacked=0)
        if block:
            at["block_size"] = block
        yield ms("QMoE", [x, r, w1, s1, rnd(4, ex, inter), w2, s2, rnd(6, ex, hid)] + ([None, None, None, z1, z2] if zero else []), at, tol=5e-3)
    w1, s1, _ = q(30, 2 * inter, hid, 4, 0, False)
    w2, s2, _ = q(40, hid, inter, 4, 0, False)
    yield ms("QMoE", [x, r, w1, s1, None, w2, s2], dict(expert_weight_bits=4, k=1, activation_type="swiglu", swiglu_fusion=1, swiglu_limit=2.0, activation_alpha=1.702, activation_beta=1.0, weights_prepacked=0), tol=5e-3)
    w1, s1, _ = q(50, inter, hid, 4, 0, False)
    yield ms("QMoE", [x, r, w1, s1, None, w2, s2] + [None] * 7 + [np.abs(rnd(8, tok, ex))], dict(expert_weight_bits=4, k=2, weights_prepacked=0), tol=5e-3)


@cases
def ms_lookups():
    for dt in [U8, I8]:
        z = lambda v: np.array(v, dt)
        ids, seg = rint(1, 0, 9, 2, 4, dtype=I32), rint(2, 0, 1, 2, 4, dtype=I32)
        words, pos, segs, gam, bet = full(dt, 3, 10, 6), full(dt, 4, 5, 6), full(dt, 5, 2, 6), full(dt, 6, 6), full(dt, 7, 6)
        scales = [f(0.02), f(0.03), f(0.01), f(0.04), f(0.05)]
        zeros = [z(3), z(7), z(100), z(20), z(30)]
        mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], I32)
        yield ms("QEmbedLayerNormalization", [ids, seg, words, pos, segs, gam, bet, mask] + scales + zeros, {}, 2)
        yield ms("QEmbedLayerNormalization", [ids, seg, words, pos, segs, gam, bet, None] + scales + zeros, dict(epsilon=0.5), 2)
        s2, z2 = list(scales), list(zeros)
        s2[2] = z2[2] = None
        yield ms("QEmbedLayerNormalization", [ids, None, words, pos, None, gam, bet, mask] + s2 + z2, {}, 2)
    for bits in [2, 4, 8]:
        g = rint(bits, 0, 2**bits - 1, 6, 40)
        s = np.abs(rnd(9, 6, 3)) + F(0.1)
        zp = pack(rint(10, 0, 2**bits - 1, 6, 3), bits)
        at = dict(bits=bits, block_size=16, quantize_axis=1)
        for idx in [np.array([5, 0, -1], I64), np.array([[1, 2], [3, 3]], I32)]:
            yield ms("GatherBlockQuantized", [pack(g, bits), idx, s], at)
            yield ms("GatherBlockQuantized", [pack(g, bits), idx, s.astype(np.float16), zp], at)
    yield ms("GatherBlockQuantized", [pack(g, 8), np.array([9, 1, -7]), s], dict(at, quantize_axis=-1))


@cases
def ms_packed():
    heads, length = 2, 4
    ends = np.array([0, 1, 3, 7], I32)
    place = np.array([[0, 4, 5, 8], [9, 10, 11, 1], [2, 3, 6, 7]], I32)
    tokens = int(ends[-1])

    def attend(q, k, v, scale, bias):
        q, k, v = ([x.reshape(tokens, heads, -1).astype(np.float64) for x in (q, k, v)])
        y = np.zeros(v.shape)
        for b in range(3):
            r = slice(ends[b], ends[b + 1])
            n = ends[b + 1] - ends[b]
            for h in range(heads):
                s = q[r, h] @ k[r, h].T * (scale or 1 / np.sqrt(q.shape[-1]))
                if bias is not None:
                    s = s + bias[b % bias.shape[0], h % bias.shape[1], :n, :n]
                e = np.exp(s - s.max(-1, keepdims=True))
                y[r, h] = e / e.sum(-1, keepdims=True) @ v[r, h]
        return y.reshape(tokens, -1)

    x, w, b = rnd(1, tokens, 6), rnd(2, 6, 12), rnd(3, 12)
    w2, b2 = rnd(4, 6, 14), rnd(5, 14)
    for dt in [F, np.float16]:
        c = lambda v: v.astype(dt)
        t = x @ w + b
        yield by_numpy("PackedAttention", [c(x), c(w), c(b), place, ends], dict(num_heads=heads), [c(attend(t[:, :4], t[:, 4:8], t[:, 8:], 0, None))], tol=1e-2 if dt != F else 1e-3)
    for i, bs in enumerate([(1, 1), (3, 1), (1, 2), (3, 2)]):
        bias = rnd(6 + i, *bs, length, length)
        yield by_numpy("PackedAttention", [x, w, b, place, ends, bias], dict(num_heads=heads, scale=0.3), [attend(t[:, :4], t[:, 4:8], t[:, 8:], 0.3, bias).astype(F)])
    t2 = x @ w2 + b2
    yield by_numpy("PackedAttention", [x, w2, b2, place, ends], dict(num_heads=heads, qkv_hidden_sizes=[4, 4, 6]), [attend(t2[:, :4], t2[:, 4:8], t2[:, 8:], 0, None).astype(F)])
    q, k, v = rnd(11, tokens, 6), rnd(12, tokens, 6), rnd(13, tokens, 8)
    yield by_numpy("PackedMultiHeadAttention", [q, k, v, None, place, ends], dict(num_heads=heads), [attend(q, k, v, 0, None).astype(F)])
    bb = rnd(14, 20)
    yield by_numpy("PackedMultiHeadAttention", [q, k, v, bb, place, ends, bias], dict(num_heads=heads, scale=0.5), [attend(q + bb[:6], k + bb[6:12], v + bb[12:], 0.5, bias).astype(F)])
    p = rnd(15, tokens, heads, 3, 4)
    yield by_numpy("PackedMultiHeadAttention", [p, None, None, None, place, ends], dict(num_heads=heads), [attend(p[:, :, 0], p[:, :, 1], p[:, :, 2], 0, None).astype(F)])


if __name__ == "__main__":
    main()
