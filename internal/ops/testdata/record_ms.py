"""Records what ONNX Runtime answers to one-node models of com.microsoft.

    python record_ms.py [NAME...]      needs what record.py needs

Works as record.py does.
"""
import numpy as np

from record import F, MS, cases, main, record, rnd

U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64


def rint(seed, lo, hi, *shape, dtype=I64):
    return np.random.default_rng(seed).integers(lo, hi, shape, endpoint=True).astype(dtype)


def full(dtype, seed, *shape):
    """Whole numbers over the range of an 8- or 16-bit type."""
    i = np.iinfo(dtype)
    return rint(seed, i.min, i.max, *shape, dtype=dtype)


def ms(op, inputs, attrs=None, nout=1, **kw):
    return record(op, [None if v is None else np.asarray(v) for v in inputs], attrs, nout, MS, 1, **kw)


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


if __name__ == "__main__":
    main()
