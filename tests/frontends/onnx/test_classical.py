# SPDX-License-Identifier: Apache-2.0
"""Operators of classical machine learning, compared with ONNX Runtime, and as operations of devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from support.beside_runtime import array
from support.ml_nodes import model, same
from support.small_models import imported

from syclsched.errors import ModelError

X = array(7, 4)
PAIR = {"classlabels_ints": [3, 8]}
POSTS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@pytest.mark.parametrize("x", [X, (X * 9).astype(np.int64), X.astype(np.float64)], ids=lambda x: str(x.dtype))
def test_scaler(x: Any) -> None:
    same("Scaler", x, offset=[0.5], scale=[2.0])
    same("Scaler", x, offset=[0.5, 1.0, -1.0, 0.0], scale=[2.0, 1.0, 0.5, -1.0])


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_normalizer(norm: str) -> None:
    x = X.copy()
    x[3] = 0
    same("Normalizer", x, norm=norm)


def test_normalizer_divides_by_the_largest_element() -> None:
    same("Normalizer", np.abs(X), norm="MAX")


def test_binarizer() -> None:
    same("Binarizer", X, threshold=0.1)


@pytest.mark.parametrize("imputed", [[5.0], [1.0, 2.0, 3.0, 4.0]])
@pytest.mark.parametrize("replaced", [float("nan"), 0.0])
def test_imputer(imputed: list[float], replaced: float) -> None:
    x = X.copy()
    x[2, 1] = x[4, 3] = replaced
    same("Imputer", x, imputed_value_floats=imputed, replaced_value_float=replaced)


def test_imputer_of_whole_numbers() -> None:
    same("Imputer", np.arange(8).reshape(2, 4), imputed_value_int64s=[9], replaced_value_int64=3)


@pytest.mark.parametrize("x", [X, X[0], np.arange(24).reshape(2, 3, 4)], ids=["rows", "row", "deep"])
def test_array_feature_extractor(x: Any) -> None:
    same("ArrayFeatureExtractor", x, np.array([3, 0, 3]))
    same("ArrayFeatureExtractor", x, np.array([[1, 2]]))


def test_feature_vectorizer() -> None:
    same("FeatureVectorizer", X, (X[:, :2] * 5).copy(), inputdimensions=[4, 2])


@pytest.mark.parametrize("x", [np.array([[4, 7], [1, 4]]), np.array([1.0, 9.0], np.float32)], ids=["int64", "float32"])
def test_one_hot_encoder(x: Any) -> None:
    same("OneHotEncoder", x, cats_int64s=[1, 4, 9])


@pytest.mark.parametrize("values", [{"values_floats": [0.5, 1.5, 2.5]}, {"values_int64s": [5, 6, 7]}])
def test_label_encoder(values: Any) -> None:
    same("LabelEncoder", np.array([[4, 7, 0], [1, 4, 9]]), keys_int64s=[1, 4, 9], **values)
    same("LabelEncoder", np.array([4, 7]), keys_int64s=[4, 1, 4], default_float=3.5, default_int64=8, **values)


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(targets: int) -> None:
    weights, biases = array(targets * 4).tolist(), array(targets).tolist()
    same("LinearRegressor", X, coefficients=weights, intercepts=biases, targets=targets)
    same("LinearRegressor", X[:1], coefficients=weights, targets=targets)


@pytest.mark.parametrize("post", POSTS)
def test_linear_regressor_transforms_its_targets(post: str) -> None:
    weights = [*array(8).tolist(), *[0.0] * 4]
    same("LinearRegressor", X, coefficients=weights, targets=3, post_transform=post)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("labels", [[0, 1, 2], [30, 10, 20], [3, 8]])
def test_linear_classifier(post: str, labels: list[int]) -> None:
    weights, biases = array(len(labels) * 4).tolist(), array(len(labels)).tolist()
    said = {"coefficients": weights, "intercepts": biases, "classlabels_ints": labels, "post_transform": post}
    same("LinearClassifier", X, outputs=2, **said)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_binary_linear_classifier_with_one_row(post: str) -> None:
    weights = array(4).tolist()
    same("LinearClassifier", X, outputs=2, coefficients=weights, intercepts=[0.2], post_transform=post, **PAIR)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_svm_regressor(kernel: str, far: float) -> None:
    vectors = array(6, 4) + np.float32(far * (kernel == "RBF"))
    same(
        "SVMRegressor",
        X + np.float32(far * (kernel == "RBF")),
        coefficients=array(6).tolist(),
        kernel_params=[0.3, 0.5, 2.0],
        kernel_type=kernel,
        n_supports=6,
        rho=[0.25],
        support_vectors=vectors.reshape(-1).tolist(),
    )


def test_svm_regressor_of_one_class() -> None:
    same(
        "SVMRegressor",
        X,
        coefficients=np.abs(array(6)).tolist(),
        kernel_params=[0.3, 0.0, 0.0],
        kernel_type="RBF",
        n_supports=6,
        one_class=1,
        rho=[-0.8],
        support_vectors=array(24).tolist(),
    )


def svm(classes: int, **more: Any) -> dict[str, Any]:
    counts = [2, 3, 4, 1][:classes]
    return {
        "coefficients": array((classes - 1) * sum(counts)).tolist(),
        "kernel_params": [0.3, 0.5, 2.0],
        "rho": array(classes * (classes - 1) // 2).tolist(),
        "support_vectors": array(sum(counts) * 4).tolist(),
        "vectors_per_class": counts,
        "classlabels_ints": [4, 2, 9, 7][:classes],
        **more,
    }


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_svm_classifier(kernel: str, classes: int) -> None:
    same("SVMClassifier", X, outputs=2, **svm(classes, kernel_type=kernel))


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("classes", [2, 3])
def test_svm_classifier_transforms_its_scores(classes: int, post: str) -> None:
    if (classes, post) != (2, "PROBIT"):  # that one is refused
        same("SVMClassifier", X, outputs=2, **svm(classes, kernel_type="RBF", post_transform=post))


def with_probabilities(classes: int, **more: Any) -> dict[str, Any]:
    pairs = classes * (classes - 1) // 2
    a, b = [-1.5, -0.7, -1.1, -3.0, -0.2, -2.0], [0.1, -0.2, 0.3, 1.0, 0.0, -0.5]
    return svm(classes, kernel_type="RBF", prob_a=a[:pairs], prob_b=b[:pairs], **more)


@pytest.mark.parametrize("x", [X, X[:0], X[0], (X * 3).astype(np.int64)], ids=["rows", "none", "row", "int64"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_probabilities_of_a_svm_classifier_are_libsvms(classes: int, x: Any) -> None:
    same("SVMClassifier", x, outputs=2, **with_probabilities(classes))


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_a_svm_classifier_are_transformed(classes: int, post: str) -> None:
    same("SVMClassifier", X, outputs=2, **with_probabilities(classes, post_transform=post))


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX"])
def test_svm_classifier_without_vectors_has_a_score_of_each_class(post: str) -> None:
    weights = array(12).tolist()
    said = {"coefficients": weights, "rho": [0.25], "classlabels_ints": [4, 2, 9]}
    kernel = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    same("SVMClassifier", X, outputs=2, **said, **kernel, post_transform=post)


@pytest.mark.parametrize(
    ("operator", "outputs", "attributes", "what"),
    [
        ("LinearRegressor", 1, {"coefficients": [1.0] * 3}, "3 coefficients and 0 intercepts for 4 features"),
        ("LinearClassifier", 2, {"coefficients": [1.0] * 12, **PAIR}, "coefficients of 3 classes, and 2 labels"),
        ("Scaler", 1, {"offset": [1.0] * 3}, "3 offset for 4 features"),
        ("Normalizer", 1, {"norm": "L3"}, "norm is 'L3', expected MAX, L1 or L2"),
        ("Imputer", 1, {"imputed_value_int64s": [1]}, "it has no values for missing numbers of float32"),
        ("FeatureVectorizer", 1, {"inputdimensions": [1, 2]}, r"inputdimensions \(1, 2\) for 1 inputs"),
        ("SVMClassifier", 2, svm(3, rho=[1.0]), "do not fit 3 classes of 4 features"),
        ("SVMClassifier", 2, svm(3, prob_a=[1.0], prob_b=[0.0]), "1 prob_a and 1 prob_b for 3 pairs of classes"),
        ("SVMClassifier", 2, svm(3, prob_b=[0.0] * 3), "0 prob_a and 3 prob_b for 3 pairs of classes"),
        ("SVMClassifier", 2, svm(2, post_transform="PROBIT"), "'SVMClassifier_y0'.* Give a score of each class"),
        ("LinearClassifier", 2, {"coefficients": [1.0] * 4, "post_transform": "PROBIT", **PAIR}, "PROBIT of one score"),
        ("SVMClassifier", 2, svm(2, post_transform="TANH"), "post_transform is 'TANH', expected NONE, LOGISTIC"),
        ("SVMClassifier", 2, svm(2, classlabels_ints=[1]), "it has 1 label, expected 2 or more"),
        ("SVMRegressor", 1, {"coefficients": [1.0] * 3, "rho": [0.0]}, "3 coefficients for 4 features"),
        ("LabelEncoder", 1, {"keys_int64s": [1], "values_int64s": [1, 2]}, "1 keys and 2 values"),
    ],
)
def test_what_does_not_fit_is_refused(operator: str, outputs: int, attributes: dict[str, Any], what: str) -> None:
    x = {"x": (X * 9).astype(np.int64) if operator == "LabelEncoder" else X}
    with pytest.raises(ModelError, match=what):
        imported(model(operator, x, outputs, **attributes))
