"""Patterns of sklearn's converters: scalers, encoders, linear models, forests, neighbours and clusters."""

import numpy as np
from onnx import TensorProto

from build import FLOAT, INT64, Graph, floats, pick

ML = "ai.onnx.ml"


def numbers(rng, count):
    return [float(v) for v in rng.standard_normal(count)]


def trees(rng, features, count, targets, prefix, ids):
    """Attributes of `count` small trees with a deeper left side; `ids` and `prefix` name the attributes of leaves."""
    nodes = {"treeids": [], "nodeids": [], "featureids": [], "modes": [], "values": [], "truenodeids": [], "falsenodeids": []}
    leaves = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(count):
        for node, (is_leaf, yes, no) in enumerate([(0, 1, 2), (0, 3, 4), (1, 0, 0), (1, 0, 0), (1, 0, 0)]):
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if is_leaf else int(rng.integers(features)))
            nodes["modes"].append("LEAF" if is_leaf else "BRANCH_LEQ")
            nodes["values"].append(0.0 if is_leaf else float(rng.standard_normal()))
            nodes["truenodeids"].append(yes)
            nodes["falsenodeids"].append(no)
            for target in range(targets) if is_leaf else ():
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(node)
                leaves["ids"].append(target)
                leaves["weights"].append(float(rng.random()) / count)
    named = {f"nodes_{name}": values for name, values in nodes.items()}
    return named | {f"{prefix}_{ids if name == 'ids' else name}": values for name, values in leaves.items()}


def classic(rng, opset):
    """A scaler, a forest or a linear model, and one-hot columns."""
    g, features = Graph(rng, opset), 3
    x = g.input("x", ["n", features])
    y = g.op("Scaler", x, domain=ML, offset=numbers(rng, features), scale=[float(v) for v in rng.random(features) + 0.5])
    if rng.integers(2):
        count, targets = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        forest = trees(rng, features, count, targets, "target", "ids")
        g.output(g.op("TreeEnsembleRegressor", y, domain=ML, n_targets=targets, **forest))
    else:
        g.output(g.op("LinearRegressor", y, domain=ML, coefficients=numbers(rng, 3), intercepts=[0.1]))
    label = g.op("ArgMax", y, axis=1, keepdims=0)
    g.output(g.op("OneHot", label, g.int(features), g.const([0.0, 1.0], np.float32)))
    return g, lambda r: {"x": floats(r, r.integers(1, 9), features)}


def classifier(rng, opset):
    """An imputer, a normaliser and a classifier with its labels and probabilities."""
    g, features, classes = Graph(rng, opset), 4, 3
    x = g.input("x", ["n", features])
    y = g.op("Imputer", x, domain=ML, imputed_value_floats=numbers(rng, features), replaced_value_float=float("nan"))
    # Not `MAX`, for which onnxruntime keeps the sign.
    y = g.op("Normalizer", y, domain=ML, norm=pick(rng, "L2", "L1"))
    if rng.integers(2):
        forest = trees(rng, features, int(rng.integers(1, 4)), classes, "class", "ids")
        label, scores = g.op("TreeEnsembleClassifier", y, n=2, domain=ML, classlabels_int64s=[3, 5, 8],
                             post_transform=pick(rng, "NONE", "SOFTMAX"), **forest)
    else:
        label, scores = g.op("LinearClassifier", y, n=2, domain=ML, classlabels_ints=[0, 1, 2], multi_class=1,
                             coefficients=numbers(rng, features * classes), intercepts=numbers(rng, classes),
                             post_transform=pick(rng, "LOGISTIC", "SOFTMAX", "NONE"))
        scores = g.op("Normalizer", scores, domain=ML, norm="L1")
    g.output(label, INT64)
    g.output(scores)
    g.output(g.cast(g.op("Binarizer", y, domain=ML, threshold=0.3), INT64), INT64)

    def call(r):
        x = floats(r, r.integers(1, 9), features)
        x[r.random(x.shape) < 0.2] = np.nan
        return {"x": x}
    return g, call


def support_vectors(rng, opset):
    """A kernel regressor on selected and concatenated columns."""
    g, features, vectors = Graph(rng, opset), 3, int(rng.integers(1, 5))
    x = g.input("x", ["n", features])
    kernel = pick(rng, "RBF", "POLY", "LINEAR", "SIGMOID")
    y = g.op("SVMRegressor", x, domain=ML, kernel_type=kernel, kernel_params=[0.3, 0.5, 2.0], coefficients=numbers(rng, vectors),
             support_vectors=numbers(rng, vectors * features), n_supports=vectors, rho=[0.2])
    columns = g.op("ArrayFeatureExtractor", x, g.ints(2, 0), domain=ML)
    g.output(g.op("Concat", y, columns, axis=1))
    codes = g.op("LabelEncoder", g.cast(g.op("Floor", columns), INT64), domain=ML, keys_int64s=[-1, 0, 1],
                 values_floats=[0.5, 1.5, 2.5], default_float=-7.0)
    g.output(codes)
    return g, lambda r: {"x": floats(r, r.integers(1, 9), features)}


def neighbours(rng, opset):
    """Distances to all training rows, the nearest ones by `TopK`, and a vote among them by one-hot sums."""
    g, rows = Graph(rng, opset), 9
    x = g.input("x", ["n", 3])
    training = g.weight(rows, 3, scale=1.0)
    own = g.op("Transpose", g.reduce("ReduceSumSquare", training, 1), perm=[1, 0])
    squares = g.op("Add", g.reduce("ReduceSumSquare", x, 1), own)
    cross = g.op("Gemm", x, training, transB=1, alpha=-2.0)
    distance = g.op("Sqrt", g.op("Max", g.op("Add", cross, squares), g.float(0.0)))
    near, index = g.op("TopK", distance, g.ints(3), n=2, axis=1, largest=0)
    g.output(near)
    known = g.const(rng.integers(0, 3, rows)[None, :], np.int64)
    labels = g.op("ArrayFeatureExtractor", known, g.op("Reshape", index, g.ints(-1)), domain=ML)
    labels = g.op("Reshape", labels, g.shape_of(-1, 3))
    votes = g.reduce("ReduceSum", g.op("OneHot", labels, g.int(3), g.const([0.0, 1.0], np.float32)), 1, keepdims=0)
    g.output(votes)
    g.output(g.op("ArgMax", votes, axis=1, keepdims=0), INT64)
    g.output(g.op("ArgMin", g.op("Gemm", x, g.weight(4, 3), g.weight(4), transB=1), axis=1, keepdims=0), INT64)
    return g, lambda r: {"x": floats(r, r.integers(1, 9), 3)}


def naive_bayes(rng, opset):
    """Log likelihoods of all classes, normalised by their log-sum-exp, in single or double precision."""
    g, dtype = Graph(rng, opset), pick(rng, np.float32, np.float64)
    kind = FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    x = g.input("x", ["n", 4], kind)
    theta, sigma = (g.const(rng.random((1, 3, 4)) + 0.5, dtype) for _ in range(2))
    centred = g.op("Sub", g.op("Reshape", x, g.ints(-1, 1, 4)), theta)
    per_class = g.reduce("ReduceSum", g.op("Div", g.op("Mul", centred, centred), sigma), 2, keepdims=0)
    logs = g.reduce("ReduceSum", g.op("Log", g.op("Mul", sigma, g.const(2 * np.pi, dtype))), 2, keepdims=0)
    joint = g.op("Sub", g.const(np.log([[0.2, 0.3, 0.5]]), dtype), g.op("Mul", g.op("Add", per_class, logs), g.const(0.5, dtype)))
    largest = g.reduce("ReduceLogSumExp", joint, 1)
    g.output(g.op("Exp", g.op("Sub", joint, largest)), kind)
    g.output(g.op("ArgMax", joint, axis=1, keepdims=0), INT64)
    return g, lambda r: {"x": r.standard_normal((r.integers(1, 9), 4)).astype(dtype)}


FAMILIES = [classic, classifier, support_vectors, neighbours, naive_bayes]
