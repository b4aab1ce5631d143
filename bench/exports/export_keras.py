"""Exports Keras models through tf2onnx.

    pip install tensorflow-cpu tf2onnx onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_keras.py FOLDER [REGULAR-EXPRESSION]

The expected results are TensorFlow's. Weights and inputs come from fixed seeds."""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from keras import applications, layers as L

from case import Cases

cases = Cases(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
LIBRARY = f"tensorflow {tf.__version__}, keras {keras.__version__}"


def add(name, build, *shapes, opset=15, ints=0, family="keras", rtol=1e-3, atol=1e-4):
    def make():
        keras.utils.set_random_seed(1)
        model = build()
        rng = np.random.default_rng(2)
        xs = [rng.integers(0, ints, s).astype(np.int32) if ints else rng.normal(size=s).astype(np.float32) for s in shapes]
        call = tf.function(lambda *x: model(x[0] if len(x) == 1 else list(x), training=False))
        names = [f"x{i}" for i in range(len(xs))]
        signature = [tf.TensorSpec([None, *x.shape[1:]], x.dtype, name=n) for n, x in zip(names, xs)]
        proto, _ = tf2onnx.convert.from_function(call, input_signature=signature, opset=opset)
        onnx.checker.check_model(proto)  # tf2onnx only warns of what it leaves as TensorFlow's
        assert [i.name for i in proto.graph.input] == names, f"the model has inputs {[i.name for i in proto.graph.input]}, want {names}"
        want = [t.numpy() for t in tf.nest.flatten(call(*map(tf.constant, xs)))]
        return proto, dict(zip(names, xs)), want

    cases.add(family, name, make, LIBRARY, f"tf2onnx {tf2onnx.__version__}", rtol=rtol, atol=atol)


def stack(shape, *parts):
    return lambda: keras.Sequential([L.Input(shape), *[p() for p in parts]])


IMAGE, TEXT = (12, 13, 3), (9, 6)
for opset in (9, 11, 13, 15, 18):
    add(f"convolutions_opset_{opset}", stack(IMAGE, lambda: L.Conv2D(8, 3, padding="same", activation="relu"), lambda: L.BatchNormalization(), lambda: L.MaxPooling2D(), lambda: L.DepthwiseConv2D(3, strides=2, padding="same"), lambda: L.GlobalAveragePooling2D(), lambda: L.Dense(4, activation="softmax")), (2, *IMAGE), opset=opset)
    add(f"lstm_opset_{opset}", stack(TEXT, lambda: L.LSTM(8, return_sequences=True), lambda: L.Bidirectional(L.LSTM(5))), (2, *TEXT), opset=opset)
for name, shape, parts in [
    ("gru", TEXT, [lambda: L.GRU(8, return_sequences=True), lambda: L.GRU(4, reset_after=False)]), ("simple_rnn", TEXT, [lambda: L.SimpleRNN(7, return_sequences=True), lambda: L.Bidirectional(L.GRU(4))]),
    ("conv_transpose", IMAGE, [lambda: L.Conv2DTranspose(4, 3, strides=2, padding="same"), lambda: L.UpSampling2D(2, interpolation="bilinear"), lambda: L.ZeroPadding2D(1), lambda: L.Cropping2D(2)]),
    ("conv_1d", TEXT, [lambda: L.Conv1D(8, 3, dilation_rate=2, padding="causal"), lambda: L.AveragePooling1D(2), lambda: L.LeakyReLU(), lambda: L.SeparableConv1D(4, 2), lambda: L.GlobalMaxPooling1D()]),
    ("conv_3d", (6, 7, 8, 2), [lambda: L.Conv3D(3, 2), lambda: L.MaxPooling3D(2), lambda: L.Flatten(), lambda: L.Dense(3)]),
    ("separable", IMAGE, [lambda: L.SeparableConv2D(6, 3, padding="same"), lambda: L.PReLU(), lambda: L.ELU(), lambda: L.SpatialDropout2D(0.3), lambda: L.Conv2D(6, 3, dilation_rate=2)]),
    ("normalizations", IMAGE, [lambda: L.LayerNormalization(), lambda: L.GroupNormalization(3), lambda: L.UnitNormalization(), lambda: L.Rescaling(2.0, 0.5)]),
    ("activations", (7,), [lambda a=a: L.Activation(a) for a in ("swish", "selu", "softplus", "softsign", "hard_sigmoid", "mish", "log_softmax", "relu6", "tanh", "exponential")]),
    ("shapes", IMAGE, [lambda: L.Permute((3, 1, 2)), lambda: L.Reshape((9, -1)), lambda: L.TimeDistributed(L.Dense(4)), lambda: L.Flatten(), lambda: L.RepeatVector(2)]),
    ("gelu", (7,), [lambda: L.Activation("gelu")]), ("grouped", (12, 13, 4), [lambda: L.Conv2D(6, 3, groups=2)]),
    ("conv_lstm", (4, 6, 6, 2), [lambda: L.ConvLSTM2D(3, 3, padding="same")]),
]:
    add(name, stack(shape, *parts), (2, *shape))


def transformer():
    i = L.Input((9,), dtype="int32")
    x = L.Embedding(20, 16)(i)
    x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 4)(x, x, use_causal_mask=True))
    x = L.LayerNormalization()(x + L.Dense(16)(L.Dense(24, activation="relu")(x)))
    return keras.Model(i, L.Dense(3)(x))


def unet():
    i = L.Input((16, 16, 3))
    a = L.Conv2D(4, 3, padding="same", activation="relu")(i)
    b = L.Conv2D(8, 3, strides=2, padding="same", activation="relu")(a)
    return keras.Model(i, L.Conv2D(2, 1, activation="sigmoid")(L.Concatenate()([a, L.Conv2DTranspose(4, 2, strides=2)(b)])))


add("transformer", transformer, (2, 9), ints=20)
add("unet", unet, (2, 16, 16, 3))
for name in ["MobileNet", "MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "EfficientNetV2B0", "ResNet50V2", "DenseNet121", "NASNetMobile", "ConvNeXtTiny", "Xception"]:
    size = 75 if name == "Xception" else 64
    add(name, lambda n=name, s=size: getattr(applications, n)(weights=None, classes=5, input_shape=(s, s, 3)), (1, size, size, 3), family="keras_applications")
cases.close()
