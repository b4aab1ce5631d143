"""Records what ONNX Runtime answers to the models of its own operator tests (onnxruntime/test/providers/cpu).

    python record_upstream.py [NAME...]      needs what record.py needs

Works as record.py does. A note names the test.
"""
import numpy as np

from record import F, ML, MS, cases, main, record, recurrent


def arr(shape, values, dtype=F):
    return np.array(values, dtype).reshape(shape)


def empty(*shape):
    return np.zeros(shape, object)


SVC = dict(
    coefficients=[1.14360327, 1.95968249, -1.175683, -1.92760275, -1.32575698, -1.32575698, 0.66332785, 0.66242913, 0.53120854, 0.53510444,
                  -1.06631298, -1.06631298, 0.66332785, 0.66242913, 0.53120854, 0.53510444, 1.0, -1.0],
    support_vectors=[0.0, 0.5, 32.0, 2.0, 2.9, -32.0, 1.0, 1.5, 1.0, 3.0, 13.3, -11.0, 12.0, 12.9, -312.0, 43.0, 413.3, -114.0],
    kernel_type="RBF", kernel_params=[0.001, 0.0, 3.0])

TREES = dict(
    nodes_truenodeids=[1, -1, 3, -1, -1, 1, -1, 3, 4, -1, -1, -1, 1, 2, -1, 4, -1, -1, -1],
    nodes_falsenodeids=[2, -1, 4, -1, -1, 2, -1, 6, 5, -1, -1, -1, 6, 3, -1, 5, -1, -1, -1],
    nodes_treeids=[0] * 5 + [1] * 7 + [2] * 7,
    nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6],
    nodes_featureids=[2, -2, 0, -2, -2, 0, -2, 2, 1, -2, -2, -2, 0, 2, -2, 1, -2, -2, -2],
    nodes_values=[-172.0, -2.0, 2.5, -2.0, -2.0, 1.5, -2.0, -62.5, 213.09999084, -2.0, -2.0, -2.0, 27.5, -172.0, -2.0, 8.10000038, -2.0, -2.0, -2.0],
    nodes_modes=["LEAF" if f == -2 else "BRANCH_LEQ" for f in [2, -2, 0, -2, -2, 0, -2, 2, 1, -2, -2, -2, 0, 2, -2, 1, -2, -2, -2]],
    class_treeids=[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], class_nodeids=[1, 3, 4, 1, 4, 5, 6, 2, 4, 5, 6])

ROWS = arr((8, 3), [1, 0, 0.4, 3, 44, -3, 12, 12.9, -312, 23, 11.3, -222, 23, 11.3, -222, 23, 3311.3, -222, 23, 11.3, -222, 43, 413.3, -114])


@cases
def upstream_ml():
    x = arr((3, 2), [1, 0, 3, 44, 23, 11.3])
    for pt in ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]:
        note = "LinearRegressorUniTarget"
        yield record("LinearRegressor", [x], dict(coefficients=[-9.0, -1.99600736e-16], intercepts=[41.0], targets=1, post_transform=pt), 1, ML, note=note)
        yield record("LinearRegressor", [x], dict(coefficients=[1.0, -2.4950092e-17, -9.0, -1.99600736e-16], intercepts=[2.22044605e-16, 41.0],
                                                  targets=2, post_transform=pt), 1, ML, note=note)
        yield record("LinearClassifier", [x], dict(coefficients=[0.00085401, -0.00314063], intercepts=[0.03930598], post_transform=pt), 2, ML,
                     note="LinearClassifierBinary")
        yield record("SVMClassifier", [ROWS[:5]], dict(SVC, rho=[0.5279583], classlabels_ints=[0, 1], vectors_per_class=[3, 3], post_transform=pt), 2, ML,
                     note="SVMClassifierSVC")
    yield record("LinearRegressor", [arr((1, 2), [3, 4])], dict(coefficients=[1.0, 2.0, 99.0, 100.0], intercepts=[0.0], targets=1), 1, ML,
                 note="LinearRegressorExtraCoefficientsAreIgnored")
    yield record("LinearClassifier", [x], dict(coefficients=[0.00085401, -0.00314063], intercepts=[0.03930598],
                                               classlabels_strings=["not_so_good", "pretty_good"]), 2, ML, note="LinearClassifierBinaryWithLabels")
    three = dict(coefficients=[-0.22562418, 0.34188559, 0.68346153, -0.68051993, -0.1975279, 0.03748541],
                 intercepts=[-3.91601811, 0.42575697, 0.13731251], classlabels_ints=[1, 2, 3])
    yield record("LinearClassifier", [x], dict(three, multi_class=0), 2, ML, note="LinearClassifierMulticlass")
    yield record("LinearClassifier", [x], dict(three, post_transform="LOGISTIC"), 2, ML, note="LinearClassifierMulticlassProbSigmoid")
    for dt in [np.int64, np.int32, np.float64]:
        yield record("LinearClassifier", [x.astype(np.int64).astype(dt)], three, 2, ML, note="LinearClassifierMulticlass")
    yield record("SVMClassifier", [ROWS[:5].astype(np.float64)], dict(SVC, rho=[0.5279583], classlabels_ints=[0, 1], vectors_per_class=[3, 3]), 2, ML,
                 note="SVMClassifierSVCDouble")
    four = dict(SVC, rho=[0.5279583, 0.32605162, 0.32605162, 0.06663721, 0.06663721, 0.0], classlabels_ints=[0, 1, 2, 3], vectors_per_class=[2, 2, 1, 1])
    yield record("SVMClassifier", [ROWS], four, 2, ML, note="SVMClassifierMulticlassSVC")
    yield record("SVMClassifier", [ROWS[:5]], dict(four, prob_a=[-3.8214362, 1.82177748, 1.82177748, 7.17655643, 7.17655643, 0.69314718],
                                                   prob_b=[-1.72839673, -1.1286303, -1.1286303, -6.48340925, -6.48340925, 2.39189538e-16]), 2, ML,
                 note="SVMClassifierSVCProbabilities")
    yield record("SVMClassifier", [ROWS], dict(
        coefficients=[-1.55181212e-01, 2.42698956e-01, 7.01893432e-03, 4.07614474e-01, -3.24927823e-02, 2.79897536e-04, -1.95771302e-01, -3.52437368e-01,
                      -2.15973096e-02, -4.38190277e-01, 4.56869105e-02, -1.29375499e-02],
        rho=[-0.07489691, -0.1764396, -0.21167431, -0.51619097], kernel_params=[0.001, 0.0, 3.0], classlabels_ints=[0, 1, 2, 3], kernel_type="LINEAR"),
        2, ML, note="SVMClassifierMulticlassLinearSVC")
    for f in [F, np.int32, np.int64, np.float64]:
        yield record("FeatureVectorizer", [arr((2, 2), [1, 2, 3, 4], f), arr((2, 2, 2), [10, 11, 12, 13, 14, 15, 16, 17], f)],
                     dict(inputdimensions=[2, 4]), 1, ML, note="BatchWith3DInput")
    yield record("FeatureVectorizer", [arr((1, 3), [1, 2, 3], np.int32), arr((1, 2), [4, 5], np.int32), arr((1,), [6], np.int32),
                                       arr((1, 4), [7, 8, 9, 10], np.int32)], dict(inputdimensions=[3, 2, 1, 4]), 1, ML, note="BasicFunctionality")
    yield record("FeatureVectorizer", [arr((1, 3), [1, 2, 3], np.int32), arr((1, 2), [1, 2], np.int32)], dict(inputdimensions=[2, 3]), 1, ML,
                 note="HandleInputDimensionMismatch")
    yield record("FeatureVectorizer", [arr((1,), [6])], dict(inputdimensions=[1]), 1, ML)
    yield record("FeatureVectorizer", [arr((2, 2, 2), range(8))], dict(inputdimensions=[5]), 1, ML)
    mixed = [-1.0, 4.0, -1.0, 2.0, -1.0, 1.0, -2.0, 1.0, -1.0, 2.0, -3.0]
    both = dict(TREES, classlabels_int64s=[0, 1])
    for pt in ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]:
        for w in [mixed, [abs(v) / 8 for v in mixed]]:
            for k in [0, 1]:  # with weights for both classes, ONNX Runtime does not label the top class
                yield record("TreeEnsembleClassifier", [ROWS], dict(both, class_ids=[k] * 11, class_weights=w, post_transform=pt), 2, ML)
            yield record("TreeEnsembleClassifier", [ROWS], dict(both, class_ids=[0] * 11, classlabels_int64s=[1], class_weights=w, post_transform=pt), 2, ML,
                         note="TreeEnsembleClassifierBinary")
    yield record("TreeEnsembleClassifier", [ROWS], dict(TREES, class_ids=[2, 0, 1, 0, 2, 3, 1, 2, 0, 1, 3], class_weights=[1.0, 4, 1, 2, 1, 1, 2, 1, 1, 1, 3],
                                                        classlabels_int64s=[0, 1, 2, 3]), 2, ML, note="TreeEnsembleClassifier")
    yield record("TreeEnsembleClassifier", [ROWS], dict(TREES, class_ids=[0] * 11, class_weights=mixed, classlabels_strings=["label0", "label1"]), 2, ML,
                 note="TreeEnsembleClassifierLabels")


@cases
def upstream_tensor():
    x = arr((2, 2), [1, 2, 3, 5])
    for opset in [7, 10]:
        yield record("Dropout", [x], {}, 2, "", opset, note="WithOptionalOutput")
    x = arr((4, 6), range(24))
    for split in [2, [2, 2], [[2, 2]], [[2], [2]], [[4]], [1, 3]]:
        yield record("SplitToSequence", [x, np.array(split, np.int64)], dict(axis=0), 1, "", 11)
    for axes in [[0, 2, 0], [0, -4, 2]]:
        yield record("Squeeze", [arr((1, 3, 1, 2), range(6)), np.array(axes)], {}, 1, "", 13)
        yield record("Squeeze", [arr((1, 3, 1, 2), range(6))], dict(axes=axes), 1, "", 11)
    for attrs in [{}, dict(delimiter=""), dict(delimiter=";"), dict(maxsplit=1), dict(delimiter=";", maxsplit=0)]:
        texts = [np.array("", object), np.array(["", ""], object), np.array(["", "a b;c"], object)]
        for v in [empty(0), empty(3, 0), empty(0, 3)] + ([] if attrs.get("delimiter") else texts):
            yield record("StringSplit", [v], attrs, 2, "", 20)
    for v in [empty(0), empty(1, 0), empty(0, 3), empty(2, 0), np.array(["", ""], object), np.array([["", "ab"]], object)]:
        for mark in [0, 1]:
            yield record("Tokenizer", [v], dict(mark=mark, separators=[""], mincharnum=1, pad_value="0xdeadbeaf"), 1, MS, note="Tokenizer_EmptyInput")
    for opset in [1, 9]:
        yield record("ThresholdedRelu", [arr((4,), [2, 1, 0, -1])], {}, 1, "", opset)
        yield record("ThresholdedRelu", [arr((4,), [2, 1, 0, -1])], dict(alpha=-0.5), 1, "", opset)
    top = 2**31 - 1
    for v in [[top, 1, 5], [top, top, 7], [-top, -top, 2], [-5, -2, 0]]:
        yield record("ReduceMean", [np.array([v] * 3, np.int32)], dict(axes=[1]), 1, "", 13)
        yield record("ReduceMean", [np.array([v] * 3, np.int32)], dict(axes=[0]), 1, "", 13)
    yield record("ReduceMean", [np.array([top, top - 1] * 40, np.int32)], {}, 1, "", 13)
    for v in [[1, 3, 4, 8, 6, 2, 7, 11], [-1, -3, 4, 8, -6, 2, -7, 11]]:
        for dt in [np.int32, np.int8, F]:
            yield record("Upsample", [arr((1, 2, 2, 2), v, dt)], dict(mode="linear", scales=[1.0, 1.0, 2.0, 4.0]), 1, "", 7)
            yield record("Upsample", [arr((1, 2, 2, 2), v, dt), arr((4,), [1, 1, 2, 4])], dict(mode="linear"), 1, "", 9)


@cases
def upstream_recurrent():
    """Sequences of no steps, and shorter ones in all directions."""
    for i, (op, gates) in enumerate([("RNN", 1), ("GRU", 3), ("LSTM", 4)]):
        for j, direction in enumerate(["forward", "reverse", "bidirectional"]):
            extra = dict(c0=True) if op == "LSTM" else {}
            yield recurrent(op, gates, 50 + 3 * i + j, dict(direction=direction), dirs=1 + j // 2, lens=[0, 3, 4], batch=3)
            yield recurrent(op, gates, 60 + 3 * i + j, dict(direction=direction), dirs=1 + j // 2, lens=[1, 3, 4], batch=3, h0=True, **extra)


if __name__ == "__main__":
    main()
