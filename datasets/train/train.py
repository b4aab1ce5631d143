"""Trains and writes the example models of package datasets.

    pip install numpy==2.4.6 onnx==1.23.2 scikit-learn==1.9.1 pillow
    python datasets/train/train.py

scikit-learn gives the data (Fisher's iris, the optical digits of the UCI
repository) and nothing else: the training is the NumPy code below. It is seeded;
the small models come out byte for byte, the digit classifier up to the rounding
of the machine's matrix multiplication.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits, load_iris

HERE = pathlib.Path(__file__).resolve().parent.parent
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def save(name, graph, opsets, doc, **metadata):
    model = helper.make_model(
        graph,
        producer_name="onward",
        ir_version=8,
        opset_imports=[helper.make_opsetid(d, v) for d, v in opsets],
        doc_string=doc,
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    path = HERE / "models" / name
    path.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{name}: {path.stat().st_size} bytes")


# --- logreg_iris.onnx ---------------------------------------------------------


def logistic(x, y):
    """Weights (the last one is the intercept) of the L2-penalised logistic
    regression of y in {0, 1} on x: argmin |w|²/2 + Σ log(1 + exp(-(2y-1) w·x)),
    found by Newton's method."""
    x = np.hstack([x, np.ones((len(x), 1))])
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + np.eye(len(w)), x.T @ (p - y) + w)
        w -= step
        if np.abs(step).max() < 1e-14:
            break
    return w


def iris():
    data = load_iris()
    x, y = data.data[:, :2], data.target
    w = np.array([logistic(x, (y == c).astype(float)) for c in range(3)])
    right = np.mean(np.argmax(np.hstack([x, np.ones((len(x), 1))]) @ w.T, axis=1) == y)
    print(f"iris: {right:.1%} of the 150 flowers it is trained on")
    nodes = [
        helper.make_node(
            "LinearClassifier", ["float_input"], ["label", "scores"], "LinearClassifier", domain="ai.onnx.ml",
            classlabels_ints=[0, 1, 2], coefficients=w[:, :2].astype(np.float32).ravel().tolist(),
            intercepts=w[:, 2].astype(np.float32).tolist(), multi_class=1, post_transform="LOGISTIC",
        ),
        helper.make_node("Normalizer", ["scores"], ["probabilities"], "Normalizer", domain="ai.onnx.ml", norm="L1"),
        helper.make_node("Cast", ["label"], ["output_label"], "Cast", to=INT64),
        helper.make_node("ZipMap", ["probabilities"], ["output_probability"], "ZipMap", domain="ai.onnx.ml",
                         classlabels_int64s=[0, 1, 2]),
    ]
    probability = helper.make_value_info(
        "output_probability",
        helper.make_sequence_type_proto(helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))),
    )
    graph = helper.make_graph(
        nodes, "logreg_iris",
        [helper.make_tensor_value_info("float_input", FLOAT, [3, 2])],
        [helper.make_tensor_value_info("output_label", INT64, [3]), probability],
    )
    save("logreg_iris.onnx", graph, [("", 15), ("ai.onnx.ml", 1)],
         "Logistic regression, one class against the rest, on the sepal length and width (cm) of Fisher's iris data.")


# --- mul_1.onnx, sigmoid.onnx -------------------------------------------------


def small():
    w = numpy_helper.from_array(np.arange(1, 7, dtype=np.float32).reshape(3, 2), "W")
    save("mul_1.onnx", helper.make_graph(
        [helper.make_node("Mul", ["X", "W"], ["Y"], "mul_1")], "mul",
        [helper.make_tensor_value_info("X", FLOAT, [3, 2])],
        [helper.make_tensor_value_info("Y", FLOAT, [3, 2])], [w],
    ), [("", 13)], "Y = X times 1 to 6.")
    save("sigmoid.onnx", helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["y"], "sigmoid")], "sigmoid",
        [helper.make_tensor_value_info("x", FLOAT, [3, 4, 5])],
        [helper.make_tensor_value_info("y", FLOAT, [3, 4, 5])],
    ), [("", 13)], "y = 1 / (1 + exp(-x)).")


# --- digits.onnx --------------------------------------------------------------


def columns(x):
    """[N,C,H,W] -> [N,H,W,C*9]: the 3x3 neighbourhood of each pixel, zeros outside."""
    n, c, h, w = x.shape
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    v = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(2, 3))  # N,C,H,W,3,3
    return np.ascontiguousarray(v.transpose(0, 2, 3, 1, 4, 5)).reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    cols = columns(x)
    y = cols @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), cols


def conv_back(dy, cols, weight, shape):
    dy = dy.transpose(0, 2, 3, 1)
    dw = (dy.reshape(-1, dy.shape[3]).T @ cols.reshape(-1, cols.shape[3])).reshape(weight.shape)
    n, c, h, w = shape
    dcols = (dy @ weight.reshape(len(weight), -1)).reshape(n, h, w, c, 3, 3)
    dx = np.zeros((n, c, h + 2, w + 2), dy.dtype)
    for i in range(3):
        for j in range(3):
            dx[:, :, i : i + h, j : j + w] += dcols[..., i, j].transpose(0, 3, 1, 2)
    return dx[:, :, 1:-1, 1:-1], dw, dy.sum((0, 1, 2))


def forward(p, x):
    a1, cols1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    h1 = np.maximum(a1, 0)
    a2, cols2 = conv(h1, p["conv2.weight"], p["conv2.bias"])
    h2 = np.maximum(a2, 0)
    n, c, h, w = h2.shape
    blocks = h2.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    pooled = blocks.max(-1)
    flat = pooled.reshape(n, -1)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]
    return logits, (x, cols1, h1, cols2, h2, blocks, pooled, flat)


def backward(p, dlogits, saved):
    x, cols1, h1, cols2, h2, blocks, pooled, flat = saved
    g = {"fc.weight": dlogits.T @ flat, "fc.bias": dlogits.sum(0)}
    dpool = (dlogits @ p["fc.weight"]).reshape(pooled.shape)
    first = np.arange(4) == blocks.argmax(-1)[..., None]
    n, c, h, w = h2.shape
    dh2 = (dpool[..., None] * first).reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(h2.shape)
    dh1, g["conv2.weight"], g["conv2.bias"] = conv_back(dh2 * (h2 > 0), cols2, p["conv2.weight"], h1.shape)
    _, g["conv1.weight"], g["conv1.bias"] = conv_back(dh1 * (h1 > 0), cols1, p["conv1.weight"], x.shape)
    return g


def fit(x, y, epochs=60, batch=64, rate=3e-3, decay=1e-4):
    """Softmax cross-entropy, AdamW with a rate that falls to zero along a cosine."""
    rng = np.random.default_rng(1)
    shapes = {"conv1.weight": (12, 1, 3, 3), "conv2.weight": (24, 12, 3, 3), "fc.weight": (10, 24 * 16)}
    p = {}
    for name, shape in shapes.items():
        p[name] = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)
        p[name.replace("weight", "bias")] = np.zeros(shape[0], np.float32)
    m, v = ({k: np.zeros_like(a) for k, a in p.items()} for _ in range(2))
    step, steps = 0, epochs * (len(x) // batch)
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            chosen = order[i : i + batch]
            xb = x[chosen]
            # Images moved by up to one pixel, and ink that varies, teach what does not matter.
            dy, dx = rng.integers(-1, 2, 2)
            moved = np.zeros_like(xb)
            moved[:, :, max(dy, 0) : 8 + min(dy, 0), max(dx, 0) : 8 + min(dx, 0)] = \
                xb[:, :, max(-dy, 0) : 8 + min(-dy, 0), max(-dx, 0) : 8 + min(-dx, 0)]
            xb = (moved * rng.uniform(0.8, 1.1, (batch, 1, 1, 1))).astype(np.float32)
            logits, saved = forward(p, xb)
            e = np.exp(logits - logits.max(1, keepdims=True))
            d = e / e.sum(1, keepdims=True)
            d[np.arange(batch), y[chosen]] -= 1
            g = backward(p, d / batch, saved)
            step += 1
            r = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k in p:
                m[k] = 0.9 * m[k] + 0.1 * g[k]
                v[k] = 0.999 * v[k] + 0.001 * g[k] ** 2
                update = m[k] / (1 - 0.9**step) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)
                p[k] = (p[k] - r * (update + decay * p[k])).astype(np.float32)
    return p


def digits():
    data = load_digits()
    grey = np.round(data.images * (255 / 16)).astype(np.uint8)  # 0 paper to 255 ink
    x = (grey[:, None] / np.float32(255)).astype(np.float32)
    y = data.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(x))
    held, train = order[: len(x) // 4], order[len(x) // 4 :]
    p = fit(x[train], y[train])
    right = np.mean(forward(p, x[held])[0].argmax(1) == y[held])
    accuracy = f"{right:.2%} of {len(held)} held-out pictures ({len(train)} trained on)"
    print("digits:", accuracy)
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["a1"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["a1"], ["h1"], "relu1"),
        helper.make_node("Conv", ["h1", "conv2.weight", "conv2.bias"], ["a2"], "conv2", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["a2"], ["h2"], "relu2"),
        helper.make_node("MaxPool", ["h2"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
        helper.make_node("ArgMax", ["logits"], ["digit"], "digit", axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("digit", INT64, ["batch"]),
         helper.make_tensor_value_info("probabilities", FLOAT, ["batch", 10])],
        [numpy_helper.from_array(a, k) for k, a in p.items()],
    )
    save("digits.onnx", graph, [("", 15)],
         "Handwritten digit of an 8x8 picture, 0 paper to 1 ink. Trained on the UCI optical digits as scikit-learn has them.",
         accuracy=accuracy)
    # The images one below the other, and what they show.
    Image.fromarray(grey[held].reshape(-1, 8)).save(HERE / "testdata" / "digits_heldout.png", optimize=True)
    (HERE / "testdata" / "digits_heldout.txt").write_text("".join(map(str, y[held])) + "\n")
    seven = held[np.flatnonzero(y[held] == 7)[0]]
    Image.fromarray(grey[seven]).save(HERE / "models" / "digit7.png", optimize=True)


if __name__ == "__main__":
    iris()
    small()
    digits()
