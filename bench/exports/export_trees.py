"""Exports models of XGBoost, LightGBM and CatBoost.

    pip install xgboost lightgbm catboost onnxmltools scikit-learn onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_trees.py FOLDER [REGULAR-EXPRESSION]

The expected results are those of the library that trained the model."""

import sys
import tempfile
import warnings

import catboost
import lightgbm
import numpy as np
import onnx
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from case import Cases

warnings.filterwarnings("ignore")
cases = Cases(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
rng = np.random.default_rng(5)
X = rng.normal(size=(200, 6)).astype(np.float32)
MISSING = X.copy()
MISSING[rng.random(X.shape) < 0.2] = np.nan
CLASSES = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 0.7)
BINARY = (CLASSES > 0).astype(int)
VALUES = (X[:, 0] * 3 + np.sin(X[:, 1] * 2) + 0.1 * X[:, 2]).astype(np.float32)
COUNTS = rng.poisson(np.exp(0.4 * X[:, 0])).astype(np.float32)
POSITIVE = np.exp(0.5 * X[:, 0]) + 0.1
PAIR = np.stack([VALUES, -VALUES + X[:, 3]], 1)


def add(library, name, train, data, target, convert, version):
    def make():
        model = train.fit(data, target)
        proto = convert(model)
        rows = data[:50]
        outputs = [o.name for o in proto.graph.output]
        want = {outputs[0]: model.predict(rows).reshape(len(rows), -1)}
        if len(outputs) > 1:
            want = {outputs[0]: model.predict(rows).reshape(-1), outputs[1]: model.predict_proba(rows)}
        return proto, {proto.graph.input[0].name: rows}, want

    cases.add(library, name, make, f"{library} {version}", "CatBoost" if library == "catboost" else f"onnxmltools {onnxmltools.__version__}", rtol=1e-4, atol=1e-4)


def xgb(model):
    return onnxmltools.convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 6]))], target_opset=15)


def lgb(opset=15, **kw):
    return lambda model: onnxmltools.convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, 6]))], target_opset=opset, **kw)


def cat(model):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as f:
        model.save_model(f.name, format="onnx")
        return onnx.load(f.name)


R, C = xgboost.XGBRegressor, xgboost.XGBClassifier
FEW = dict(n_estimators=12, max_depth=4, random_state=0)
for name, model, data, target in [
    ("regressor", R(**FEW), X, VALUES), ("regressor_missing", R(**FEW), MISSING, VALUES), ("regressor_logistic", R(objective="reg:logistic", **FEW), X, BINARY),
    ("regressor_poisson", R(objective="count:poisson", **FEW), X, COUNTS), ("regressor_gamma", R(objective="reg:gamma", **FEW), X, POSITIVE),
    ("regressor_tweedie", R(objective="reg:tweedie", **FEW), X, COUNTS), ("regressor_squared_log", R(objective="reg:squaredlogerror", **FEW), X, POSITIVE),
    ("regressor_absolute", R(objective="reg:absoluteerror", **FEW), X, VALUES), ("regressor_base_score", R(base_score=3.5, **FEW), X, VALUES),
    ("regressor_dart", R(booster="dart", rate_drop=0.3, **FEW), X, VALUES), ("regressor_linear", R(booster="gblinear", n_estimators=12, random_state=0), X, VALUES),
    ("regressor_outputs", R(**FEW), X, PAIR), ("classifier_binary", C(**FEW), X, BINARY), ("classifier", C(**FEW), X, CLASSES), ("classifier_missing", C(**FEW), MISSING, CLASSES),
    ("classifier_softmax", C(objective="multi:softmax", **FEW), X, CLASSES), ("classifier_hinge", C(objective="binary:hinge", **FEW), X, BINARY),
    ("classifier_lossguide", C(grow_policy="lossguide", max_leaves=9, **FEW), X, CLASSES), ("classifier_forest", xgboost.XGBRFClassifier(**FEW), X, CLASSES),
    ("regressor_forest", xgboost.XGBRFRegressor(**FEW), X, VALUES), ("classifier_one_tree", C(n_estimators=1, max_depth=2), X, BINARY),
    ("classifier_weighted", C(scale_pos_weight=3, max_delta_step=1, **FEW), X, BINARY),
]:
    add("xgboost", name, model, data, target, xgb, xgboost.__version__)

LEAVES = dict(n_estimators=12, num_leaves=9, min_child_samples=5, random_state=0, verbose=-1)
R, C = lightgbm.LGBMRegressor, lightgbm.LGBMClassifier
for name, model, data, target in [
    ("regressor", R(**LEAVES), X, VALUES), ("regressor_missing", R(**LEAVES), MISSING, VALUES), ("regressor_zero_missing", R(zero_as_missing=True, **LEAVES), np.where(np.isnan(MISSING), 0, X).astype(np.float32), VALUES),
    ("regressor_l1", R(objective="l1", **LEAVES), X, VALUES), ("regressor_poisson", R(objective="poisson", **LEAVES), X, COUNTS),
    ("regressor_gamma", R(objective="gamma", **LEAVES), X, POSITIVE), ("regressor_tweedie", R(objective="tweedie", **LEAVES), X, COUNTS), ("regressor_huber", R(objective="huber", **LEAVES), X, VALUES),
    ("regressor_quantile", R(objective="quantile", alpha=0.3, **LEAVES), X, VALUES), ("regressor_cross_entropy", R(objective="cross_entropy", **LEAVES), X, BINARY.astype(np.float32)),
    ("regressor_forest", R(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **LEAVES), X, VALUES), ("regressor_dart", R(boosting_type="dart", **LEAVES), X, VALUES),
    ("classifier_binary", C(**LEAVES), X, BINARY), ("classifier", C(**LEAVES), X, CLASSES), ("classifier_missing", C(**LEAVES), MISSING, CLASSES), ("classifier_one_against_all", C(objective="multiclassova", **LEAVES), X, CLASSES),
    ("classifier_goss", C(data_sample_strategy="goss", **LEAVES), X, CLASSES), ("classifier_dart", C(boosting_type="dart", **LEAVES), X, BINARY), ("classifier_forest", C(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **LEAVES), X, CLASSES),
]:
    add("lightgbm", name, model, data, target, lgb(zipmap=False) if "classifier" in name else lgb(), lightgbm.__version__)
for opset in (9, 11, 13):
    add("lightgbm", f"classifier_opset_{opset}", C(**LEAVES), X, CLASSES, lgb(opset, zipmap=True), lightgbm.__version__)
add("lightgbm", "regressor_split", R(**LEAVES | {"n_estimators": 30}), X, VALUES, lgb(split=7), lightgbm.__version__)

SHORT = dict(iterations=12, depth=4, random_seed=0, verbose=False, allow_writing_files=False, thread_count=1)
R, C = catboost.CatBoostRegressor, catboost.CatBoostClassifier
for name, model, data, target in [
    ("regressor", R(**SHORT), X, VALUES), ("regressor_missing", R(**SHORT), MISSING, VALUES), ("regressor_depthwise", R(grow_policy="Depthwise", **SHORT), X, VALUES),
    ("classifier_binary", C(**SHORT), X, BINARY), ("classifier", C(**SHORT), X, CLASSES), ("classifier_missing", C(**SHORT), MISSING, CLASSES), ("classifier_text_labels", C(**SHORT), X, np.array(["a", "b", "c"])[CLASSES]),
    ("classifier_lossguide", C(grow_policy="Lossguide", max_leaves=9, **SHORT), X, CLASSES),
]:
    add("catboost", name, model, data, target, cat, catboost.__version__)
cases.close()
