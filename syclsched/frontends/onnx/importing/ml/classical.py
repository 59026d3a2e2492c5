# SPDX-License-Identifier: Apache-2.0
"""Importers of classical machine learning (ai.onnx.ml): preprocessing, linear models, SVMs."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.importer_registry import ML, Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.ml.class_scores import (
    Labels,
    class_labels,
    floating,
    numbers_of,
    output_scores,
    predicted_label,
    transformed,
)
from syclsched.frontends.onnx.importing.ml.pair_probabilities import pair_probabilities
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.network import Decoding

_NORMS: Final = {"MAX": "max", "L1": "l1", "L2": "l2"}


@imports("Scaler", domain=ML)
def _scaler(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Scaler: (x - offset) * scale, with one number for all features or one per feature."""
    x = floating(b, inputs.required(0, "X"))
    expression: Any = 0
    values = [x]
    for name, operator in (("offset", "sub"), ("scale", "mul")):
        numbers = numbers_of(node, name)
        if not numbers.size:
            continue
        _check_features(b, numbers, b.shape(x), name)
        expression = (operator, expression, len(values))
        values.append(b.constant(numbers.astype(b.dtype(x))))
    return [b.cast(b.elementwise(expression, *values, shape=b.shape(x)), "float32")]


@imports("Normalizer", domain=ML)
def _normalizer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Normalizer: divide rows by their norm unless it is 0."""
    x = floating(b, inputs.required(0, "X"))
    shape, norm = b.shape(x), node.text("norm", "MAX")
    if norm not in _NORMS:
        raise b.wrong(f"norm is {norm!r}, expected MAX, L1 or L2")
    if len(shape) not in (1, 2):
        raise b.wrong(f"it takes rows of features, not {shape}")
    size = b.reduce(_NORMS[norm], x, (len(shape) - 1,))
    divided = ("div", 0, ("where", ("equal", 1, ("const", 0.0)), ("const", 1.0), 1))
    return [b.cast(b.elementwise(divided, x, size, shape=shape), "float32")]


@imports("Binarizer", domain=ML)
def _binarizer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Binarizer: 1 where a number is above the threshold, else 0."""
    x = inputs.required(0, "X")
    if b.dtype(x) not in ("float32", "float64"):
        raise UnsupportedFormError
    above = ("greater", 0, ("const", float(np.float32(node.number("threshold")))))
    return [b.elementwise(("cast", b.dtype(x), above), x)]


@imports("Imputer", domain=ML)
def _imputer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Imputer: replace missing numbers by the value for their feature."""
    x = inputs.required(0, "X")
    is_floating = b.dtype(x)[0] == "f"
    name, dtype = ("imputed_value_floats", np.float32) if is_floating else ("imputed_value_int64s", np.int64)
    values = numbers_of(node, name, dtype)
    if not values.size:
        raise b.wrong(f"it has no values for missing numbers of {b.dtype(x)}")
    _check_features(b, values, b.shape(x), "imputed values")
    replaced = node.attributes.get("replaced_value_float", 0.0) if is_floating else node.integer("replaced_value_int64")
    missing: Any = ("isnan", 0) if replaced != replaced else ("equal", 0, ("const", replaced))
    filled = b.constant(values.astype(b.dtype(x)))
    return [b.elementwise(("where", missing, 1, 0), x, filled, shape=b.shape(x))]


@imports("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import ArrayFeatureExtractor: gather along the last axis."""
    x, indices = inputs.first("X", "Y")
    shape = b.shape(x) if len(b.shape(x)) > 1 else (1, *b.shape(x))
    array = b.known(indices)
    if array is not None and array.size and (array.min() < 0 or array.max() >= shape[-1]):
        raise b.wrong(f"indices from {array.min()} to {array.max()}, and there are {shape[-1]} features")
    count = math.prod(b.shape(indices))
    return [b.gather(b.reshape(x, shape), b.reshape(indices, (count,)), len(shape) - 1)]


@imports("FeatureVectorizer", domain=ML)
def _feature_vectorizer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import FeatureVectorizer: concatenate a given number of features of each input."""
    values = [floating(b, each) for each in inputs.all("X")]
    wanted = node.integers_or("inputdimensions")
    if len(wanted) != len(values) or any(count < 0 for count in wanted):
        raise b.wrong(f"inputdimensions {wanted} for {len(values)} inputs")
    parts: list[str] = []
    for x, count in zip(values, wanted, strict=True):
        shape = b.shape(x)
        if len(shape) not in (1, 2):
            raise b.wrong(f"it takes rows of features, not {shape}")
        x = b.cast(b.reshape(x, (shape[0], shape[1] if len(shape) == 2 else 1)), "float32")
        rows, columns = b.shape(x)
        x = b.slice(x, (0, 0), (rows, min(count, columns)))
        parts.append(b.pad(x, (0, 0, 0, max(0, count - columns))))
    return [b.concat(parts, 1)]


@imports("OneHotEncoder", domain=ML)
def _one_hot_encoder(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import OneHotEncoder of numbers."""
    x, categories = inputs.required(0, "X"), node.integers_or("cats_int64s")
    if not categories or not node.integer("zeros", 1):
        raise UnsupportedFormError
    whole, shape = b.with_axis(b.cast(x, "int64"), len(b.shape(x))), (*b.shape(x), len(categories))
    return [b.elementwise(("cast", "float32", ("equal", 0, 1)), whole, b.constant(np.array(categories)), shape=shape)]


@imports("LabelEncoder", domain=ML)
def _label_encoder(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import LabelEncoder from numbers to numbers."""
    x = inputs.required(0, "X")
    keys, values = (_numeric_attribute(node, name) for name in ("keys", "values"))
    texts = node.attributes.get("values_strings")
    if texts:
        values = np.arange(len(texts))
    if keys is None or values is None or str(keys.dtype) != b.dtype(x) or keys.dtype.kind == "f":
        raise UnsupportedFormError
    if len(keys) != len(values) or not len(keys):
        raise b.wrong(f"{len(keys)} keys and {len(values)} values")
    default = node.attributes.get("default_tensor")
    if not isinstance(default, np.ndarray):
        name, other = ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
        default = np.array(len(texts) if texts else node.attributes.get(name, other))
    shape = b.shape(x)
    # The first of equal keys matches; the entry after the last key is the default.
    hit = ("cast", "int32", ("equal", 0, 1))
    table = np.concatenate([values, default.reshape(-1)[:1].astype(values.dtype)])
    hits = b.elementwise(
        ("where", ("equal", ("index", -1), ("const", len(keys), "int64")), ("const", 1, "int32"), hit),
        b.with_axis(x, len(shape)),
        b.constant(np.append(keys, keys[-1])),
        shape=(*shape, len(table)),
        dtype="int32",
    )
    at = b.emit("arg", [hits], mode="max", axis=len(shape), keepdims=False, last=False)
    made = b.gather(b.constant(table), at)
    if texts:
        b.decodings[made] = Decoding((*texts, node.text("default_string", "_Unused")))
    return [made]


@imports("ZipMap", domain=ML)
def _zip_map(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import ZipMap: the scores, of which the host makes maps from label to score."""
    x = inputs.required(0, "X")
    shape = b.shape(x) if len(b.shape(x)) != 1 else (1, *b.shape(x))
    labels = class_labels(b, node, "classlabels_int64s")
    if len(shape) != 2 or shape[1] != len(labels):
        raise b.wrong(f"{len(labels)} labels for scores {b.shape(x)}")
    made = b.copy(b.reshape(x, shape))
    b.decodings[made] = Decoding(labels, as_maps=True)
    return [made]


@imports("LinearRegressor", domain=ML)
def _linear_regressor(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = _matrix(b, inputs.required(0, "X"))
    made = _linear(b, node, x, node.integer("targets", 1), numbers_of(node, "intercepts"))
    return [transformed(b, made, node.text("post_transform", "NONE"))]


@imports("LinearClassifier", domain=ML)
def _linear_classifier(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import LinearClassifier; a binary one may have coefficients for one class only."""
    x = _matrix(b, inputs.required(0, "X"))
    labels, features = class_labels(b, node, "classlabels_ints"), b.shape(x)[1]
    columns = numbers_of(node, "coefficients").size // max(features, 1)
    made, post = _linear(b, node, x, columns, numbers_of(node, "intercepts")), node.text("post_transform", "NONE")
    if columns == 1 and len(labels) == 2:
        return [predicted_label(b, made, labels, threshold=0.0), output_scores(b, made, post, second="rest")]
    if columns != len(labels):
        raise b.wrong(f"coefficients of {columns} classes, and {len(labels)} labels")
    if columns == 1:
        raise UnsupportedFormError
    return [predicted_label(b, made, labels), output_scores(b, made, post)]


@imports("SVMRegressor", domain=ML)
def _svm_regressor(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import SVMRegressor: a weighted sum of kernel values between rows and support vectors."""
    x = _matrix(b, inputs.required(0, "X"))
    features, count = b.shape(x)[1], node.integer("n_supports")
    weights, rho = numbers_of(node, "coefficients"), numbers_of(node, "rho")
    if rho.size != 1 or node.text("post_transform", "NONE") != "NONE":
        raise UnsupportedFormError
    if count < 1:
        if weights.size != features:
            raise b.wrong(f"{weights.size} coefficients for {features} features")
        made = _product(b, x, weights.reshape(features, 1), rho)
    else:
        vectors = numbers_of(node, "support_vectors")
        if weights.size != count or vectors.size != count * features:
            raise b.wrong(f"{weights.size} coefficients and {vectors.size} elements of {count} vectors of {features}")
        kernels = _kernels(b, node, x, vectors.reshape(count, features))
        made = _product(b, kernels, weights.reshape(count, 1), rho)
    if node.integer("one_class"):
        made = b.elementwise(("where", ("greater", 0, ("const", 0.0)), ("const", 1.0), ("const", -1.0)), made)
    return [b.cast(made, "float32")]


@imports("SVMClassifier", domain=ML)
def _svm_classifier(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import SVMClassifier: comparisons of all pairs of classes, then a majority vote; or a score of each class."""
    x = _matrix(b, inputs.required(0, "X"))
    labels, post = class_labels(b, node, "classlabels_ints"), node.text("post_transform", "NONE")
    classes, rho = len(labels), numbers_of(node, "rho")
    if classes < 2:
        raise b.wrong("it has 1 label, expected 2 or more")
    if not sum(node.integers_or("vectors_per_class")):
        if not rho.size:
            raise b.wrong("attribute 'rho' is missing")
        made = _linear(b, node, x, classes, np.full(classes, rho[0]))
        return [predicted_label(b, made, labels), output_scores(b, made, post)]
    made, label = _compared_pairs(b, node, x, labels, rho)
    a, offset = (numbers_of(node, name) for name in ("prob_a", "prob_b"))
    if a.size or offset.size:
        if (a.size, offset.size) != (rho.size, rho.size):
            raise b.wrong(f"{a.size} prob_a and {offset.size} prob_b for {rho.size} pairs of classes")
        return [label, output_scores(b, pair_probabilities(b, made, a, offset, classes), post)]
    second = None if classes > 2 else "negative" if post == "NONE" else "rest"
    return [label, output_scores(b, made, post, second=second)]


def _compared_pairs(b: NetworkBuilder, node: ModelNode, x: str, labels: Labels, rho: Array) -> tuple[str, str]:
    """Return a score for each pair of classes, and the label that wins most."""
    classes, features, counts = len(labels), b.shape(x)[1], node.integers_or("vectors_per_class")
    weights, vectors, count = numbers_of(node, "coefficients"), numbers_of(node, "support_vectors"), sum(counts)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    expected = (classes, (classes - 1) * count, count * features, len(pairs))
    if (len(counts), weights.size, vectors.size, rho.size) != expected:
        raise b.wrong(f"its vectors, coefficients and rho do not fit {classes} classes of {features} features")
    weights, starts = weights.reshape(classes - 1, count), np.cumsum((0, *counts))
    joined = np.zeros((count, len(pairs)), np.float32)
    wins = np.zeros((len(pairs), classes), np.float32)
    for pair, (i, j) in enumerate(pairs):
        for one, row in ((i, j - 1), (j, i)):
            joined[starts[one] : starts[one + 1], pair] = weights[row, starts[one] : starts[one + 1]]
        wins[pair, i], wins[pair, j] = 1, -1
    made = _product(b, _kernels(b, node, x, vectors.reshape(count, features)), joined, rho)
    won = b.elementwise(("cast", "float32", ("greater", 0, ("const", 0.0))), made)
    votes = _product(b, won, wins, (wins < 0).sum(axis=0).astype(np.float32))
    return made, predicted_label(b, votes, labels)


def _kernels(b: NetworkBuilder, node: ModelNode, x: str, vectors: Array) -> str:
    """Return the kernel values between each row and each support vector."""
    kind = node.text("kernel_type", "LINEAR")
    gamma, offset, degree = (float(n) for n in (*numbers_of(node, "kernel_params"), 0.0, 0.0, 0.0)[:3])
    if kind == "RBF":
        # Squared distances computed from products lose digits far from 0, so everything is centred on the vectors.
        centre = vectors.mean(axis=0)
        moved, around = b.elementwise(("sub", 0, 1), x, b.constant(centre)), vectors - centre
        squares = b.reduce("sumsquare", moved, (1,))
        lengths = b.constant((around.astype(np.float64) ** 2).sum(axis=1).astype(np.float32))
        distance = ("max", ("sub", ("add", 1, 2), ("mul", 0, ("const", 2.0))), ("const", 0.0))
        expression: Any = ("exp", ("mul", distance, ("const", -gamma)))
        return b.elementwise(expression, _product(b, moved, around.T), squares, lengths)
    made = _product(b, x, vectors.T)
    scaled = ("add", ("mul", 0, ("const", gamma)), ("const", offset))
    if kind == "LINEAR":
        return made
    if kind == "SIGMOID":
        return b.elementwise(("tanh", scaled), made)
    if kind != "POLY":
        raise b.wrong(f"kernel_type is {kind!r}, expected LINEAR, POLY, RBF or SIGMOID")
    return b.elementwise(("pow", scaled, ("const", degree)), made)


def _linear(b: NetworkBuilder, node: ModelNode, x: str, columns: int, biases: Array) -> str:
    features, weights = b.shape(x)[1], numbers_of(node, "coefficients")
    if columns < 1 or weights.size != columns * features or biases.size not in (0, columns):
        what = f"{weights.size} coefficients and {biases.size} intercepts"
        raise b.wrong(f"{what} for {features} features and {columns} columns")
    return _product(b, x, weights.reshape(columns, features).T, biases)


def _product(b: NetworkBuilder, x: str, matrix: Array, bias: Array | None = None) -> str:
    return b.matmul(x, b.constant(matrix), b.constant(bias) if bias is not None and bias.size else None)


def _matrix(b: NetworkBuilder, x: str) -> str:
    """Return a float32 matrix of features; a vector becomes one row."""
    shape = b.shape(x)
    if len(shape) not in (1, 2):
        raise b.wrong(f"it takes rows of features, not {shape}")
    return b.cast(x if len(shape) == 2 else b.reshape(x, (1, *shape)), "float32")


def _numeric_attribute(node: ModelNode, name: str) -> Array | None:
    """Return the numeric attribute ``<name>_tensor``, ``_int64s`` or ``_floats``; None if there is none."""
    tensor = node.attributes.get(f"{name}_tensor")
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1) if tensor.dtype.kind in "if" else None
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if node.attributes.get(f"{name}_{suffix}"):
            return numbers_of(node, f"{name}_{suffix}", dtype)
    return None


def _check_features(b: NetworkBuilder, numbers: Array, shape: tuple[int, ...], what: str) -> None:
    if not shape or numbers.size not in (1, shape[-1]):
        raise b.wrong(f"{numbers.size} {what} for {shape[-1] if shape else 0} features")
