"""Fits scikit-learn estimators and pipelines and exports them with skl2onnx.

    pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.31.1 scikit-learn==1.9.1 skl2onnx==1.20.0 pandas
    python bench/exports/export_sklearn.py FOLDER [REGULAR-EXPRESSION]

All seeds are fixed. The expected results are scikit-learn's on the float32 inputs."""

import sys
import warnings

import numpy as np
import onnx
import sklearn
import skl2onnx
from skl2onnx import to_onnx
from skl2onnx.common.data_types import (
    DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType,
)
from sklearn import (
    calibration, cluster, compose, covariance, cross_decomposition, datasets, decomposition, discriminant_analysis,
    ensemble, feature_extraction, feature_selection, gaussian_process, impute,
    linear_model, mixture, model_selection, multiclass, multioutput, naive_bayes, neighbors, neural_network,
    pipeline, preprocessing, random_projection, svm, tree,
)

from case import Cases

warnings.filterwarnings("ignore")
cases = Cases(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")

# skl2onnx hands NumPy's booleans to a list of integers, which protobuf refuses.
make_attribute = onnx.helper.make_attribute


def integers(key, value, *args, **kwargs):
    if isinstance(value, (list, np.ndarray)) and any(isinstance(v, (bool, np.bool_)) for v in value):
        value = [int(v) if isinstance(v, (bool, np.bool_)) else v for v in value]
    return make_attribute(key, value, *args, **kwargs)


onnx.helper.make_attribute = integers
LIBRARY, EXPORTER = f"scikit-learn {sklearn.__version__}", f"skl2onnx {skl2onnx.__version__}"

rng = np.random.default_rng(0)
iris = datasets.load_iris()
shuffled = rng.permutation(150)
X, Y = iris.data[shuffled].astype(np.float32), iris.target[shuffled]
TRAIN, TEST = X[:110], X[110:]
YTRAIN = Y[:110]
BINARY = (YTRAIN == 1).astype(np.int64)
NAMES = np.array(["setosa", "versicolor", "virginica"])[YTRAIN]
R, RY = datasets.make_regression(160, 6, n_informative=5, noise=5, random_state=0)
R = R.astype(np.float32)
RY = (RY / 50).astype(np.float32)
RTRAIN, RTEST, RYTRAIN = R[:120], R[120:], RY[:120]
RY2 = np.stack([RYTRAIN, RYTRAIN**2 + RTRAIN[:, 0]], 1)
RPOS = np.abs(RYTRAIN) + 0.1
COUNTS = rng.integers(0, 9, (110, 6)).astype(np.float32)
CTEST = rng.integers(0, 9, (40, 6)).astype(np.float32)
HOLES = np.where(rng.random(TRAIN.shape) < 0.15, np.nan, TRAIN).astype(np.float32)
HTEST = np.where(rng.random(TEST.shape) < 0.25, np.nan, TEST).astype(np.float32)
BITS, BTEST = (COUNTS > 4).astype(np.float32), (CTEST > 4).astype(np.float32)
TEXT = np.array([
    "the cat sat on the mat", "a quick brown fox jumps over a lazy dog", "models run in pure go",
    "the dog chased the cat", "pure models run quick", "on the mat the brown dog sat", "go go go and run",
    "lazy cat and lazy dog", "a fox in a box", "the box on the mat", "run quick brown fox", "no model sat here",
])
TEXTY = np.array([0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1])
TEXTTEST = np.array(["the quick cat runs", "go models go", "unknown words only", "the dog and the fox on the mat", ""])


def kind(x, double=False):
    width = None if x.ndim == 1 else x.shape[1]
    shape = [None, width] if width else [None, 1]
    if x.dtype.kind in "UO":
        return StringTensorType(shape)
    if x.dtype.kind == "i":
        return Int64TensorType(shape)
    return (DoubleTensorType if double else FloatTensorType)(shape)


def feed(x, double):
    x = x.reshape(-1, 1) if x.ndim == 1 else x
    return x.astype(np.float64) if double else x


def classifier(name, est, x=TRAIN, y=YTRAIN, test=TEST, proba="predict_proba", double=False, zipmap=False, family="classifiers", options=None, **tol):
    def make():
        est.fit(x, y)
        opts = {"zipmap": zipmap} if options is None else options
        model = to_onnx(est, initial_types=[("X", kind(x, double))], options={id(est): opts} if opts else None, target_opset={"": 21, "ai.onnx.ml": 3})
        q = test.astype(np.float64) if double else test
        want = [est.predict(q)]
        if proba:
            want.append(getattr(est, proba)(q))
        return model, {"X": feed(test, double)}, want

    cases.add(family, name, make, LIBRARY, EXPORTER, **tol)


def scores(name, est, **kw):
    classifier(name, est, proba="decision_function", options={"zipmap": False, "raw_scores": True}, **kw)


def regressor(name, est, x=RTRAIN, y=RYTRAIN, test=RTEST, double=False, family="regressors", options=None, **tol):
    def make():
        est.fit(x, y)
        model = to_onnx(est, initial_types=[("X", kind(x, double))], options={id(est): options} if options else None, target_opset={"": 21, "ai.onnx.ml": 3})
        got = est.predict(test.astype(np.float64) if double else test)
        shape = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
        return model, {"X": feed(test, double)}, [got.reshape(len(test), -1) if len(shape) == 2 else got]

    cases.add(family, name, make, LIBRARY, EXPORTER, **tol)


def transformer(name, est, x=TRAIN, y=None, test=TEST, family="preprocessing", double=False, what="transform", options=None, **tol):
    def make():
        est.fit(x, y) if y is not None else est.fit(x)
        model = to_onnx(est, initial_types=[("X", kind(x, double))], options={id(est): options} if options else None, target_opset={"": 21, "ai.onnx.ml": 3})
        got = getattr(est, what)(test.astype(np.float64) if double else test)
        got = got.toarray() if hasattr(got, "toarray") else got
        return model, {"X": feed(test, double)}, [got]

    cases.add(family, name, make, LIBRARY, EXPORTER, **tol)


lm, pp, en = linear_model, preprocessing, ensemble

# --- classifiers ----------------------------------------------------------------
classifier("LogisticRegression", lm.LogisticRegression(max_iter=500))
classifier("LogisticRegression_binary", lm.LogisticRegression(), y=BINARY)
classifier("LogisticRegression_text_labels", lm.LogisticRegression(max_iter=500), y=NAMES)
classifier("LogisticRegression_zipmap", lm.LogisticRegression(max_iter=500), zipmap=True)
classifier("LogisticRegression_zipmap_text_labels", lm.LogisticRegression(max_iter=500), y=NAMES, zipmap=True)
classifier("LogisticRegression_double", lm.LogisticRegression(max_iter=500), double=True)
classifier("LogisticRegressionCV", lm.LogisticRegressionCV(cv=3, max_iter=500))
classifier("SGDClassifier_log", lm.SGDClassifier(loss="log_loss", random_state=0))
classifier("SGDClassifier_modified_huber", lm.SGDClassifier(loss="modified_huber", random_state=0))
scores("SGDClassifier_hinge", lm.SGDClassifier(random_state=0))
scores("Perceptron", lm.Perceptron(random_state=0))
scores("PassiveAggressiveClassifier", lm.PassiveAggressiveClassifier(random_state=0))
scores("RidgeClassifier", lm.RidgeClassifier())
scores("RidgeClassifierCV", lm.RidgeClassifierCV())
classifier("DecisionTreeClassifier", tree.DecisionTreeClassifier(max_depth=4, random_state=0))
classifier("ExtraTreeClassifier", tree.ExtraTreeClassifier(max_depth=4, random_state=0))
classifier("RandomForestClassifier", en.RandomForestClassifier(12, max_depth=4, random_state=0))
classifier("RandomForestClassifier_binary", en.RandomForestClassifier(12, max_depth=4, random_state=0), y=BINARY)
classifier("ExtraTreesClassifier", en.ExtraTreesClassifier(12, max_depth=4, random_state=0))
classifier("GradientBoostingClassifier", en.GradientBoostingClassifier(n_estimators=8, random_state=0))
classifier("GradientBoostingClassifier_binary", en.GradientBoostingClassifier(n_estimators=8, random_state=0), y=BINARY)
classifier("HistGradientBoostingClassifier", en.HistGradientBoostingClassifier(max_iter=8, random_state=0))
classifier("HistGradientBoostingClassifier_missing", en.HistGradientBoostingClassifier(max_iter=8, random_state=0), x=HOLES, test=HTEST)
classifier("AdaBoostClassifier", en.AdaBoostClassifier(n_estimators=6, random_state=0))
classifier("BaggingClassifier", en.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), n_estimators=4, random_state=0))
classifier("VotingClassifier_soft", en.VotingClassifier([("a", lm.LogisticRegression(max_iter=300)), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))], voting="soft", flatten_transform=False))
classifier("VotingClassifier_hard", en.VotingClassifier([("a", lm.LogisticRegression(max_iter=300)), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0)), ("c", naive_bayes.GaussianNB())], flatten_transform=False), proba=None)
classifier("StackingClassifier", en.StackingClassifier([("a", lm.LogisticRegression(max_iter=300)), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))], cv=3))
classifier("SVC_rbf", svm.SVC(probability=True, random_state=0))
classifier("SVC_poly", svm.SVC(kernel="poly", degree=2, coef0=1, probability=True, random_state=0))
classifier("SVC_sigmoid", svm.SVC(kernel="sigmoid", gamma=0.02, probability=True, random_state=0))
classifier("SVC_linear_binary", svm.SVC(kernel="linear", probability=True, random_state=0), y=BINARY)
scores("SVC_scores", svm.SVC(decision_function_shape="ovr"))
classifier("NuSVC", svm.NuSVC(nu=0.3, probability=True, random_state=0))
classifier("LinearSVC", svm.LinearSVC(random_state=0), proba="decision_function", options={"raw_scores": True})
classifier("KNeighborsClassifier", neighbors.KNeighborsClassifier(3))
classifier("KNeighborsClassifier_distance", neighbors.KNeighborsClassifier(5, weights="distance"))
classifier("KNeighborsClassifier_manhattan", neighbors.KNeighborsClassifier(5, metric="manhattan"))
classifier("RadiusNeighborsClassifier", neighbors.RadiusNeighborsClassifier(2.0))
classifier("NearestCentroid", neighbors.NearestCentroid(), proba=None, options={})
classifier("GaussianNB", naive_bayes.GaussianNB())
classifier("MultinomialNB", naive_bayes.MultinomialNB(), x=COUNTS, test=CTEST)
classifier("BernoulliNB", naive_bayes.BernoulliNB(binarize=4), x=COUNTS, test=CTEST)
classifier("ComplementNB", naive_bayes.ComplementNB(), x=COUNTS, test=CTEST)
classifier("CategoricalNB", naive_bayes.CategoricalNB(min_categories=10), x=COUNTS.astype(np.int64), test=CTEST.astype(np.int64))
classifier("MLPClassifier_relu", neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=200, random_state=0))
classifier("MLPClassifier_tanh_binary", neural_network.MLPClassifier(hidden_layer_sizes=(6, 5), activation="tanh", max_iter=200, random_state=0), y=BINARY)
classifier("MLPClassifier_logistic", neural_network.MLPClassifier(hidden_layer_sizes=(6,), activation="logistic", max_iter=200, random_state=0))
classifier("GaussianProcessClassifier", gaussian_process.GaussianProcessClassifier(random_state=0), y=BINARY, double=True)
classifier("LinearDiscriminantAnalysis", discriminant_analysis.LinearDiscriminantAnalysis())
classifier("QuadraticDiscriminantAnalysis", discriminant_analysis.QuadraticDiscriminantAnalysis())
classifier("OneVsRestClassifier", multiclass.OneVsRestClassifier(lm.LogisticRegression()))
classifier("OneVsOneClassifier", multiclass.OneVsOneClassifier(lm.LogisticRegression()), proba=None)
classifier("OutputCodeClassifier", multiclass.OutputCodeClassifier(lm.LogisticRegression(), random_state=0), proba=None)
classifier("CalibratedClassifierCV_sigmoid", calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2))
classifier("CalibratedClassifierCV_isotonic", calibration.CalibratedClassifierCV(tree.DecisionTreeClassifier(max_depth=2), method="isotonic", cv=2), y=BINARY)
classifier("GridSearchCV", model_selection.GridSearchCV(lm.LogisticRegression(max_iter=300), {"C": [0.1, 1]}, cv=2))
classifier("MultiOutputClassifier", multioutput.MultiOutputClassifier(tree.DecisionTreeClassifier(max_depth=3, random_state=0)), y=np.stack([YTRAIN, BINARY], 1), proba=None)

# --- regressors -----------------------------------------------------------------
for est in [
    lm.LinearRegression(), lm.Ridge(), lm.RidgeCV(), lm.Lasso(0.01), lm.LassoCV(cv=3), lm.LassoLars(0.01), lm.ElasticNet(0.01),
    lm.ElasticNetCV(cv=3), lm.Lars(), lm.LarsCV(cv=3), lm.LassoLarsIC(), lm.OrthogonalMatchingPursuit(),
    lm.BayesianRidge(), lm.ARDRegression(), lm.HuberRegressor(), lm.TheilSenRegressor(random_state=0),
    lm.SGDRegressor(random_state=0), lm.PassiveAggressiveRegressor(random_state=0),
    lm.RANSACRegressor(random_state=0), lm.QuantileRegressor(alpha=0.01),
    tree.DecisionTreeRegressor(max_depth=4, random_state=0), tree.ExtraTreeRegressor(max_depth=4, random_state=0),
    en.RandomForestRegressor(10, max_depth=4, random_state=0), en.ExtraTreesRegressor(10, max_depth=4, random_state=0),
    en.GradientBoostingRegressor(n_estimators=10, random_state=0), en.HistGradientBoostingRegressor(max_iter=10, random_state=0),
    en.AdaBoostRegressor(n_estimators=5, random_state=0), en.BaggingRegressor(n_estimators=4, random_state=0),
    en.VotingRegressor([("a", lm.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, random_state=0))]),
    en.StackingRegressor([("a", lm.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, random_state=0))], cv=3),
    svm.SVR(), svm.NuSVR(), svm.LinearSVR(random_state=0),
    neighbors.KNeighborsRegressor(4), neighbors.RadiusNeighborsRegressor(3.0),
    neural_network.MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=200, random_state=0),
    lm.LassoLarsCV(cv=3),
]:
    regressor(type(est).__name__, est)
regressor("LinearRegression_outputs_2", lm.LinearRegression(), y=RY2)
regressor("LinearRegression_double", lm.LinearRegression(), double=True)
regressor("MultiTaskLasso", lm.MultiTaskLasso(0.01), y=RY2)
regressor("MultiTaskElasticNet", lm.MultiTaskElasticNet(0.01), y=RY2)
regressor("MultiOutputRegressor", multioutput.MultiOutputRegressor(lm.Ridge()), y=RY2)
regressor("DecisionTreeRegressor_outputs_2", tree.DecisionTreeRegressor(max_depth=3, random_state=0), y=RY2)
regressor("KNeighborsRegressor_distance", neighbors.KNeighborsRegressor(4, weights="distance"))
regressor("SVR_poly", svm.SVR(kernel="poly", degree=2, coef0=1))
regressor("SVR_linear", svm.SVR(kernel="linear"))
regressor("PoissonRegressor", lm.PoissonRegressor(), y=RPOS)
regressor("GammaRegressor", lm.GammaRegressor(), y=RPOS)
regressor("TweedieRegressor", lm.TweedieRegressor(power=1.5), y=RPOS)
regressor("GaussianProcessRegressor_rbf", gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF(2.0), alpha=0.1), double=True)
regressor("GaussianProcessRegressor_matern", gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.Matern(2.0, nu=1.5), alpha=0.1), double=True)
regressor("GaussianProcessRegressor_rational_quadratic", gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RationalQuadratic(), alpha=0.1), double=True)
regressor("GaussianProcessRegressor_sine_squared", gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.ExpSineSquared(2.0, 8.0), alpha=3.0, optimizer=None), double=True)
regressor("GaussianProcessRegressor_dot_product", gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.DotProduct() + gaussian_process.kernels.WhiteKernel(), alpha=0.1), double=True)
regressor("PLSRegression", cross_decomposition.PLSRegression(2), y=RY2)
regressor("Ridge_no_intercept", lm.Ridge(fit_intercept=False))
regressor("IsolationForest", en.IsolationForest(n_estimators=8, random_state=0))
regressor("LocalOutlierFactor", neighbors.LocalOutlierFactor(5, novelty=True))
regressor("OneClassSVM", svm.OneClassSVM(nu=0.2))
regressor("EllipticEnvelope", covariance.EllipticEnvelope(random_state=0))

# --- transformers ---------------------------------------------------------------
for est in [
    pp.StandardScaler(), pp.MinMaxScaler(), pp.MinMaxScaler(clip=True), pp.MaxAbsScaler(), pp.RobustScaler(), pp.PolynomialFeatures(2), pp.Normalizer(),
    pp.Binarizer(threshold=2), pp.KBinsDiscretizer(4, encode="ordinal"), pp.PowerTransformer(), pp.QuantileTransformer(n_quantiles=20),
    pp.FunctionTransformer(),
    decomposition.PCA(2), decomposition.IncrementalPCA(2), decomposition.TruncatedSVD(2, random_state=0),
    decomposition.KernelPCA(2, kernel="rbf"), decomposition.PCA(2, whiten=True),
    random_projection.GaussianRandomProjection(3, random_state=0), feature_selection.VarianceThreshold(0.3),
    cluster.KMeans(3, n_init=2, random_state=0), cluster.MiniBatchKMeans(3, n_init=2, random_state=0),
    impute.SimpleImputer(),
]:
    name = type(est).__name__ + ("_whiten" if getattr(est, "whiten", None) is True else "_clip" if getattr(est, "clip", None) is True else "")
    if name.endswith("KMeans"):
        def make(est=est):
            est.fit(TRAIN)
            return to_onnx(est, TRAIN[:1], target_opset={"": 21, "ai.onnx.ml": 3}), {"X": TEST}, [est.predict(TEST), est.transform(TEST)]
        # The exported distance is √(|x|² - 2x·c + |c|²), which cancels.
        cases.add("preprocessing", name, make, LIBRARY, EXPORTER, atol=3e-4)
    elif name == "SimpleImputer":
        for strategy in ["mean", "median", "most_frequent", "constant"]:
            transformer(f"SimpleImputer_{strategy}", impute.SimpleImputer(strategy=strategy, fill_value=7 if strategy == "constant" else None), x=HOLES, test=HTEST)
    else:
        transformer(name, est)
transformer("SimpleImputer_indicator", impute.SimpleImputer(add_indicator=True), x=HOLES, test=HTEST)
# Not iris: its distances are full of ties, which rounding breaks.
RHOLES = np.where(rng.random(R.shape) < 0.15, np.nan, R).astype(np.float32)
transformer("KNNImputer", impute.KNNImputer(n_neighbors=3), x=RHOLES[:120], test=RHOLES[120:])
transformer("KBinsDiscretizer_onehot", pp.KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"))
transformer("SelectKBest", feature_selection.SelectKBest(k=2), y=YTRAIN)
transformer("SelectPercentile", feature_selection.SelectPercentile(percentile=50), y=YTRAIN)
transformer("SelectFpr", feature_selection.SelectFpr(), y=YTRAIN)
transformer("RFE", feature_selection.RFE(lm.LogisticRegression(max_iter=300), n_features_to_select=2), y=YTRAIN)
transformer("SelectFromModel", feature_selection.SelectFromModel(tree.DecisionTreeClassifier(random_state=0)), y=YTRAIN)
CATS = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "xl"], ["blue", "s"]])
CATTEST = np.array([["blue", "m"], ["red", "l"], ["green", "xl"]])
transformer("OneHotEncoder_text", pp.OneHotEncoder(), x=CATS, test=CATTEST)
transformer("OneHotEncoder_unknown", pp.OneHotEncoder(handle_unknown="ignore"), x=CATS, test=np.array([["pink", "m"], ["red", "xxl"]]))
transformer("OneHotEncoder_drop", pp.OneHotEncoder(drop="first"), x=CATS, test=CATTEST)
transformer("OneHotEncoder_int", pp.OneHotEncoder(), x=COUNTS.astype(np.int64), test=CTEST.astype(np.int64))
transformer("OrdinalEncoder_text", pp.OrdinalEncoder(), x=CATS, test=CATTEST)
transformer("OrdinalEncoder_int", pp.OrdinalEncoder(dtype=np.int64), x=COUNTS.astype(np.int64), test=CTEST.astype(np.int64))
transformer("TargetEncoder", pp.TargetEncoder(random_state=0), x=COUNTS.astype(np.int64), y=BINARY, test=CTEST.astype(np.int64))


def flat(name, est, x, test):
    def make():
        est.fit(x)
        model = to_onnx(est, initial_types=[("X", kind(x).__class__([None]))], target_opset={"": 21, "ai.onnx.ml": 3})
        return model, {"X": test}, [est.transform(test)]

    cases.add("preprocessing", name, make, LIBRARY, EXPORTER)


flat("LabelEncoder_text", pp.LabelEncoder(), CATS[:, 0], CATTEST[:, 0])
flat("LabelEncoder_int", pp.LabelEncoder(), np.array([3, 5, 9, 5]), np.array([9, 3, 5]))
flat("LabelBinarizer_int", pp.LabelBinarizer(), np.array([3, 5, 9, 5]), np.array([9, 3, 5, 4]))


def mixture_case(name, est):
    def make():
        est.fit(TRAIN)
        return to_onnx(est, TRAIN[:1], target_opset={"": 21, "ai.onnx.ml": 3}), {"X": TEST}, [est.predict(TEST), est.predict_proba(TEST)]

    cases.add("preprocessing", name, make, LIBRARY, EXPORTER, rtol=1e-3, atol=1e-4)


mixture_case("GaussianMixture", mixture.GaussianMixture(2, random_state=0))
mixture_case("GaussianMixture_diag", mixture.GaussianMixture(2, covariance_type="diag", random_state=0))
mixture_case("BayesianGaussianMixture", mixture.BayesianGaussianMixture(n_components=2, random_state=0))

# --- text and pipelines -----------------------------------------------------------
fx = feature_extraction.text


def text(name, est):
    def make():
        est.fit(TEXT)
        model = to_onnx(est, initial_types=[("X", StringTensorType([None, 1]))], target_opset={"": 21, "ai.onnx.ml": 3})
        return model, {"X": TEXTTEST.reshape(-1, 1)}, [est.transform(TEXTTEST).toarray()]

    cases.add("text", name, make, LIBRARY, EXPORTER)


text("CountVectorizer", fx.CountVectorizer())
text("CountVectorizer_bigrams", fx.CountVectorizer(ngram_range=(1, 2)))
text("CountVectorizer_binary", fx.CountVectorizer(binary=True))
text("CountVectorizer_stop_words", fx.CountVectorizer(stop_words=["the", "on"]))
text("CountVectorizer_characters", fx.CountVectorizer(analyzer="char", ngram_range=(1, 2)))
text("TfidfVectorizer", fx.TfidfVectorizer())
text("TfidfVectorizer_trigrams", fx.TfidfVectorizer(ngram_range=(1, 3)))
text("TfidfVectorizer_sublinear", fx.TfidfVectorizer(sublinear_tf=True))
text("TfidfVectorizer_pattern", fx.TfidfVectorizer(token_pattern="[a-z]+", norm="l1"))
text("TfidfVectorizer_case", fx.TfidfVectorizer(lowercase=False))


def words(name, est):
    def make():
        est.fit(TEXT, TEXTY)
        model = to_onnx(est, initial_types=[("X", StringTensorType([None, 1]))], options={id(est): {"zipmap": False}}, target_opset={"": 21, "ai.onnx.ml": 3})
        return model, {"X": TEXTTEST.reshape(-1, 1)}, [est.predict(TEXTTEST), est.predict_proba(TEXTTEST)]

    cases.add("pipelines", name, make, LIBRARY, EXPORTER)


words("Tfidf_LogisticRegression", pipeline.make_pipeline(fx.TfidfVectorizer(), lm.LogisticRegression()))
words("Count_MultinomialNB", pipeline.make_pipeline(fx.CountVectorizer(), naive_bayes.MultinomialNB()))
words("Count_Tfidf_SGD", pipeline.make_pipeline(fx.CountVectorizer(ngram_range=(1, 2)), fx.TfidfTransformer(), lm.SGDClassifier(loss="log_loss", random_state=0)))
classifier("scaler_pca_svc", pipeline.make_pipeline(pp.StandardScaler(), decomposition.PCA(3), svm.SVC(probability=True, random_state=0)), family="pipelines")
classifier("imputer_scaler_forest", pipeline.make_pipeline(impute.SimpleImputer(), pp.StandardScaler(), en.RandomForestClassifier(8, max_depth=3, random_state=0)), x=HOLES, test=HTEST, family="pipelines")
classifier("union_logistic", pipeline.make_pipeline(pipeline.make_union(pp.StandardScaler(), decomposition.PCA(2)), lm.LogisticRegression(max_iter=300)), family="pipelines")
regressor("polynomial_ridge", pipeline.make_pipeline(pp.PolynomialFeatures(2), pp.StandardScaler(), lm.Ridge()), family="pipelines")
regressor("kbins_tree", pipeline.make_pipeline(pp.KBinsDiscretizer(4, encode="ordinal"), tree.DecisionTreeRegressor(max_depth=4, random_state=0)), family="pipelines")


def columns():
    n = 60
    table = {"age": rng.normal(40, 12, (n, 1)).astype(np.float32), "fare": rng.gamma(2, 20, (n, 1)).astype(np.float32),
             "port": rng.choice(["S", "C", "Q"], (n, 1)), "class": rng.integers(1, 4, (n, 1))}
    y = (table["fare"][:, 0] + 10 * (table["port"][:, 0] == "C") > 45).astype(np.int64)
    table["age"][::7] = np.nan
    import pandas

    frame = pandas.DataFrame({k: v[:, 0] for k, v in table.items()})
    est = pipeline.make_pipeline(
        compose.ColumnTransformer([
            ("numbers", pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), pp.StandardScaler()), ["age", "fare"]),
            ("port", pp.OneHotEncoder(handle_unknown="ignore"), ["port"]), ("class", pp.OneHotEncoder(), ["class"])]),
        lm.LogisticRegression())
    est.fit(frame, y)
    types = [("age", FloatTensorType([None, 1])), ("fare", FloatTensorType([None, 1])), ("port", StringTensorType([None, 1])), ("class", Int64TensorType([None, 1]))]
    model = to_onnx(est, initial_types=types, options={id(est): {"zipmap": False}}, target_opset={"": 21, "ai.onnx.ml": 3})
    return model, {k: v[:20] for k, v in table.items()}, [est.predict(frame[:20]), est.predict_proba(frame[:20])]


cases.add("pipelines", "ColumnTransformer_mixed", columns, LIBRARY, EXPORTER)


# The forms that the trees of ai.onnx.ml 5 take, and the oldest opsets that skl2onnx writes.
def at(opset, ml):
    def make():
        est = en.RandomForestClassifier(5, max_depth=3, random_state=0).fit(TRAIN, YTRAIN)
        model = to_onnx(est, TRAIN[:1], options={id(est): {"zipmap": False}}, target_opset={"": opset, "ai.onnx.ml": ml})
        return model, {"X": TEST}, [est.predict(TEST), est.predict_proba(TEST)]

    cases.add("pipelines", f"forest_opset_{opset}_ml_{ml}", make, LIBRARY, EXPORTER)

    def pipe():
        est = pipeline.make_pipeline(pp.StandardScaler(), decomposition.PCA(3), neighbors.KNeighborsClassifier(3)).fit(TRAIN, YTRAIN)
        model = to_onnx(est, TRAIN[:1], options={id(est): {"zipmap": False}}, target_opset={"": opset, "ai.onnx.ml": ml})
        return model, {"X": TEST}, [est.predict(TEST), est.predict_proba(TEST)]

    cases.add("pipelines", f"neighbors_opset_{opset}_ml_{ml}", pipe, LIBRARY, EXPORTER)


for opset, ml in [(10, 1), (11, 1), (13, 2), (15, 2), (18, 3), (21, 3), (21, 4), (22, 5)]:
    at(opset, ml)
cases.close()
