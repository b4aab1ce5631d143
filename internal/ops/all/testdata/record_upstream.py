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


@cases
def upstream_boxes():
    flat = [0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101]
    boxes, scores = arr((1, 6, 4), flat), arr((1, 1, 6), [0.9, 0.75, 0.6, 0.95, 0.5, 0.3])
    flipped = arr((1, 6, 4), [1, 1, 0, 0, 0, 0.1, 1, 1.1, 0, 0.9, 1, -0.1, 0, 10, 1, 11, 1, 10.1, 0, 11.1, 1, 101, 0, 100])
    center = arr((1, 6, 4), [0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1, 0.5, 0.4, 1, 1, 0.5, 10.5, 1, 1, 0.5, 10.6, 1, 1, 0.5, 100.5, 1, 1])
    two = arr((2, 5, 4), [0, 0, 0.3, 0.3, 0, 0, 0.4, 0.4, 0, 0, 0.5, 0.5, 0.5, 0.5, 0.9, 0.9, 0.5, 0.5, 1, 1,
                          0, 0, 0.3, 0.3, 0, 0, 0.4, 0.4, 0.5, 0.5, 0.95, 0.95, 0.5, 0.5, 0.96, 0.96, 0.5, 0.5, 1, 1])

    def nms(note, boxes, scores, most=None, iou=None, score=None, **attrs):
        ins = [boxes, scores] + [None if v is None else np.array(v, t) for v, t in [(most, np.int64), (iou, F), (score, F)]]
        while ins[-1] is None:
            ins.pop()
        return [record("NonMaxSuppression", ins, attrs, 1, "", opset, note=note) for opset in [10, 11]]

    yield from nms("WithIOUThreshold", boxes, scores, 3, 0.5, 0.0)
    yield from nms("CenterPointBoxFormat", center, scores, 3, 0.5, 0.0, center_point_box=1)
    yield from nms("TwoClasses", boxes, np.repeat(scores, 2, 1), 6, 0.5, 0.0)
    yield from nms("TwoBatches_OneClass", np.repeat(boxes, 2, 0), np.repeat(scores, 2, 0), 2, 0.5, 0.0)
    yield from nms("TwoBatches_TwoClasses", two, np.tile(arr((1, 1, 5), [0.1, 0.2, 0.6, 0.3, 0.9]), (2, 2, 1)), 2, 0.8)
    yield from nms("WithScoreThreshold", boxes, scores, 3, 0.5, 0.4)
    yield from nms("WithoutScoreThreshold", boxes, scores, 3, 0.5)
    yield from nms("WithScoreThresholdZeroScores", boxes, arr((1, 1, 6), [0.1, 0, 0, 0.3, 0.2, -5]), 6, 0.5, -3.0)
    yield from nms("FlippedCoordinates", flipped, scores, 3, 0.5, 0.0)
    yield from nms("SelectTwo", boxes, scores, 2, 0.5, 0.0)
    yield from nms("SelectThirty", boxes, scores, 30, 0.5, 0.0)
    yield from nms("SelectSingleBox", boxes[:, :1], scores[:, :, :1], 3, 0.5, 0.0)
    yield from nms("SelectFromIdenticalBoxes", np.tile(arr((1, 1, 4), [0, 0, 1, 1]), (1, 10, 1)), np.full((1, 1, 10), 0.9, F), 3, 0.5, 0.0)
    yield from nms("EmptyInput", np.zeros((1, 0, 4), F), np.zeros((1, 1, 0), F), 30, 0.5, 0.0)
    yield from nms("ZeroMaxOutputPerClass", boxes, scores, 0, 0.5, 0.0)
    yield from nms("no limits", boxes, scores)
    for iou in [0.0, 1.0]:
        yield from nms("the ends of iou_threshold", boxes, scores, 6, iou, 0.0)


@cases
def upstream_text():
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    words = "zero one two three four five six seven eight".split()
    x = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int32)
    texts = np.array([words[i] for i in x], object)
    strings = [words[i] for i in pool]
    weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    for mode in ["TF", "IDF", "TFIDF"]:
        for lo, hi, skip in [(2, 2, 0), (2, 2, 5), (1, 2, 5), (1, 1, 5), (1, 2, 0), (1, 2, 1)]:
            a = dict(mode=mode, min_gram_length=lo, max_gram_length=hi, max_skip_count=skip, ngram_counts=[0, 4], ngram_indexes=list(range(7)))
            for w in [{}, dict(weights=weights)]:
                for v in [x, x.reshape(2, 6), x.astype(np.int64).reshape(3, 4)]:
                    yield record("TfIdfVectorizer", [v], dict(a, pool_int64s=pool, **w), 1, "", 9)
                yield record("TfIdfVectorizer", [texts.reshape(2, 6)], dict(a, pool_strings=strings, **w), 1, "", 9)
    a = dict(mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0)
    yield record("TfIdfVectorizer", [x], dict(a, ngram_counts=[0, 0], ngram_indexes=[0, 1, 2], pool_int64s=pool[4:]), 1, "", 9, note="LevelEmpty")
    yield record("TfIdfVectorizer", [x], dict(a, ngram_counts=[0, 4], ngram_indexes=[6, 5, 4, 3, 2, 1, 9], pool_int64s=pool), 1, "", 9)
    for shape in [(0,), (2, 0)]:
        yield record("TfIdfVectorizer", [np.zeros(shape, np.int32)], dict(a, ngram_counts=[0, 4], ngram_indexes=list(range(7)), pool_int64s=pool), 1, "", 9,
                     note="Skip0_Empty")
    mixed = np.array(["monday", "tuesday", "Besançon", "École élémentaire", "Понедельник", "mit freundlichen grüßen", "中文"], object)
    for action in ["NONE", "LOWER", "UPPER"]:
        for sensitive in [0, 1]:
            for stop in [{}, dict(stopwords=["monday"]), dict(stopwords=["MONDAY", "中文"])]:
                a = dict(case_change_action=action, is_case_sensitive=sensitive, locale="C.UTF-8", **stop)
                for v in [mixed, mixed.reshape(1, 7), np.array(["monday", "monday"], object), np.array([["monday", "monday"]], object)]:
                    yield record("StringNormalizer", [v], a, 1, "", 10)


@cases
def upstream_unique():
    flat = arr((2, 3), [1, 4, 1, 2, 2, 0])
    rows = arr((4, 2), [0, 1, 1, 1, 0, 1, 1, 0])
    deep = arr((2, 4, 2), [1, 1, 0, 1, 2, 1, 0, 1] * 2, np.int64)
    last = arr((2, 2, 4), [1, 1, 0, 1, 2, 1, 0, 1] * 2, np.int64)
    for kept in [0, 1]:
        for v in [flat, flat.astype(np.float64), flat.astype(np.int8), flat.astype(str).astype(object), np.zeros(0, F)]:
            yield record("Unique", [v], dict(sorted=kept), 4, "", 11)
        for v, axis in [(rows, 0), (rows.astype(str).astype(object), 0), (deep, 1), (last, 2), (last, -1), (deep, -3), (rows, 1)]:
            yield record("Unique", [v], dict(sorted=kept, axis=axis), 4, "", 11)
    yield record("Unique", [arr((2, 4), [1, 4, -1, 2, 2, 0, -1, 4], np.int8)], dict(sorted=1), 1, "", 11, note="NoOptionalOutput")


@cases
def upstream_labels():
    def label(x, opset, **attrs):
        return record("LabelEncoder", [x], attrs, 1, ML, opset)

    drinks = dict(classes_strings=["Beer", "Wine", "Tequila"], default_string="Water", default_int64=99)
    yield label(np.array(["Beer", "Burger", "Tequila", "Burrito", "Wine", "Cheese", "Tequila", "Floor"], object).reshape(2, 2, 2), 1, **drinks)
    yield label(arr((2, 3), [0, 10, 2, 3, 1, -1], np.int64), 1, **drinks)
    texts, ints, floats = np.array(["AA", "BB", "CC", "DD", "AA"], object), np.array([9, 1, 5566, 4, 9]), arr((5, 1), [9.4, 1.7, 3.6, np.nan, 2.8])
    for opset in [2, 4]:
        yield label(texts, opset, keys_strings=["AA", "BB", "DD"], values_int64s=[9, 1, 4], default_int64=5566)
        yield label(ints, opset, keys_int64s=[9, 1, 4], values_strings=["AA", "BB", "DD"], default_string="CC")
        yield label(floats, opset, keys_floats=[9.4, 1.7, 3.6], values_strings=["AA", "BB", "DD"], default_string="CC")
        yield label(texts, opset, keys_strings=["AA", "BB", "DD"], values_floats=[9.4, 1.7, 3.6], default_float=55.66)
        yield label(floats, opset, keys_floats=[9.4, 1.7, 3.6], values_int64s=[1, 9, 3], default_int64=-8)
        yield label(ints, opset, keys_int64s=[1, 9, 3], values_floats=[9.4, 1.7, 3.6], default_float=55.66)
        yield label(ints, opset, keys_int64s=[3, 9, -8], values_int64s=[0, 1, 2], default_int64=-1)
        yield label(texts, opset, keys_strings=["AA", "BB", "C"], values_strings=["X", "Y", "Z"], default_string="!")
        yield label(arr((1, 4), [-1, 0, 3.1427, 7.25]), opset, keys_floats=[-1.0, 0.0, 7.25], values_floats=[1.0, 0.0, float("nan")], default_float=2.718)
        yield label(texts, opset, keys_strings=["AA"], values_strings=["X"])
        yield label(ints, opset, keys_int64s=[9], values_int64s=[1])
        yield label(floats, opset, keys_floats=[1.7], values_floats=[-1.0])


if __name__ == "__main__":
    main()
