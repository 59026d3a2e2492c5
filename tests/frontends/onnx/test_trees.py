# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees, compared with ONNX Runtime, and as operations of devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import numpy_helper
from support.beside_runtime import session
from support.host_evaluation import evaluate
from support.ml_nodes import model, same
from support.repeatable import generator
from support.small_models import imported

from syclsched.errors import ModelError

RANDOM = generator(11)
X = RANDOM.standard_normal((9, 4)).astype(np.float32)
RULES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(columns: int, *, what: str, rule: str = "BRANCH_LEQ", positive: bool = False, **more: Any) -> dict[str, Any]:
    """Return attributes of three trees: one with a single leaf, the last with three levels and nodes out of order."""
    # (tree, node, rule or leaf, feature, value, right, wrong)
    nodes = [
        (0, 0, "LEAF", 0, 0.0, 0, 0),
        (5, 1, rule, 3, 0.0, 2, 3),
        (5, 2, "LEAF", 0, 0.0, 0, 0),
        (5, 3, "LEAF", 0, 0.0, 0, 0),
        (2, 0, rule, 1, float(X[2, 1]), 4, 1),
        (2, 1, rule, 0, float(X[4, 0]), 2, 3),
        (2, 2, "LEAF", 0, 0.0, 0, 0),
        (2, 3, rule, 2, 0.25, 5, 6),
        (2, 4, "LEAF", 0, 0.0, 0, 0),
        (2, 5, "LEAF", 0, 0.0, 0, 0),
        (2, 6, "LEAF", 0, 0.0, 0, 0),
    ]
    trees, numbers, modes, features, values, right, wrong = (list(each) for each in zip(*nodes, strict=True))
    given = [(node[0], node[1], column) for node in nodes if node[2] == "LEAF" for column in range(columns)]
    weights = RANDOM.standard_normal(len(given)).astype(np.float32)
    return {
        "nodes_treeids": trees,
        "nodes_nodeids": numbers,
        "nodes_modes": modes,
        "nodes_featureids": features,
        "nodes_values": values,
        "nodes_truenodeids": right,
        "nodes_falsenodeids": wrong,
        f"{what}_treeids": [each[0] for each in given],
        f"{what}_nodeids": [each[1] for each in given],
        f"{what}_ids": [each[2] for each in given],
        f"{what}_weights": (abs(weights) / 4 if positive else weights).tolist(),
        **more,
    }


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(rule: str, targets: int) -> None:
    same("TreeEnsembleRegressor", X, **forest(targets, what="target", rule=rule, n_targets=targets))


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressor_puts_trees_together(how: str) -> None:
    said = forest(2, what="target", n_targets=2, aggregate_function=how, base_values=[0.5, -1.0])
    same("TreeEnsembleRegressor", X, **said)


def test_rows_of_other_numbers() -> None:
    same("TreeEnsembleRegressor", X.astype(np.float64), **forest(1, what="target", n_targets=1))
    same("TreeEnsembleRegressor", X[:1], **forest(1, what="target", n_targets=1))


@pytest.mark.parametrize("how", ["MIN", "MAX"])
def test_a_target_without_leaves_is_zero(how: str) -> None:
    said = forest(2, what="target", n_targets=3, aggregate_function=how)
    same("TreeEnsembleRegressor", X, **said)


@pytest.mark.parametrize("post", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_regressor_transforms_its_targets(post: str) -> None:
    said = forest(2, what="target", n_targets=3, post_transform=post)  # the last target is 0
    same("TreeEnsembleRegressor", X, **said)


def ensemble(mode: int, dtype: Any, **more: Any) -> dict[str, Any]:
    """Return attributes of a TreeEnsemble: three levels of nodes, and a tree that is a leaf."""

    def tensor(values: Any, kind: Any = dtype) -> Any:
        return numpy_helper.from_array(np.array(values, kind))

    return {
        "version": 5,
        "n_targets": 2,
        "tree_roots": [2, 0, 3],
        "nodes_featureids": [1, 0, 3, 2, 2],
        "nodes_modes": tensor([mode] * 5, np.uint8),
        "nodes_splits": tensor([X[2, 1], X[4, 0], 0, 0, 0.25]),
        "nodes_falseleafs": [0, 0, 1, 1, 1],
        "nodes_falsenodeids": [1, 4, 2, 4, 1],
        "nodes_trueleafs": [1, 1, 1, 1, 1],
        "nodes_truenodeids": [0, 3, 1, 4, 5],
        "leaf_targetids": [0, 1, 0, 1, 1, 0],
        "leaf_weights": tensor([0.5, -1, 2, 0.125, 0.25, -3]),
        **more,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", range(6))
def test_ensemble_of_nodes_and_leaves(mode: int, dtype: Any) -> None:
    x = np.concatenate([X, np.full((1, 4), np.nan), np.full((1, 4), -np.inf)]).astype(dtype)
    same("TreeEnsemble", x, **ensemble(mode, dtype))
    same("TreeEnsemble", x, **ensemble(mode, dtype, nodes_missing_value_tracks_true=[1, 0, 1, 0, 1]))
    for how in (0, 2, 3):
        same("TreeEnsemble", x[:2], **ensemble(mode, dtype, aggregate_function=how))


def test_transforms_of_an_ensemble_are_numbered_as_onnx_says() -> None:
    """ONNX Runtime 1.32 takes 1 for LOGISTIC and 2 for SOFTMAX."""
    for number, name in ((1, 2), (2, 1), (3, 3)):
        made = model("TreeEnsemble", {"x": X}, **ensemble(0, np.float32, post_transform=number))
        other = model("TreeEnsemble", {"x": X}, **ensemble(0, np.float32, post_transform=name))
        (got,) = evaluate(imported(made), {"x": X}).values()
        assert np.allclose(got, session(other).run(None, {"x": X})[0], atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"nodes_featureids": [1, 0, 9, 2, 2]}, "features 0 to 9 of 4"),
        ({"nodes_falsenodeids": [1, 7, 2, 4, 1]}, "node 1 leads to 7 of 5"),
        ({"nodes_truenodeids": [0, 6, 1, 4, 5]}, "node 1 leads to 6 of 6"),
        ({"nodes_falsenodeids": [0, 4, 2, 4, 1]}, "cycle"),
        ({"tree_roots": [5]}, "begin at"),
        ({"leaf_targetids": [0, 1, 0, 1, 1, 2]}, "targets"),
        ({"nodes_trueleafs": [1]}, "differ in length"),
    ],
)
def test_a_malformed_ensemble_is_refused(changed: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=what):
        imported(model("TreeEnsemble", {"x": X}, **ensemble(0, np.float32, **changed)))


@pytest.mark.parametrize("tracks", [None, [0] * 11, [0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0]])
def test_missing_values_follow_the_configured_branch(tracks: list[int] | None) -> None:
    x = X.copy()
    x[::2, 1] = x[1::3, 0] = x[3::2, 3] = np.nan
    said = forest(1, what="target", n_targets=1)
    if tracks is not None:
        said["nodes_missing_value_tracks_true"] = tracks
    same("TreeEnsembleRegressor", x, **said)


@pytest.mark.parametrize("tracks", [0, 1])
def test_nodes_of_several_rules(tracks: int) -> None:
    x = np.concatenate([X, np.full((1, 4), np.nan, np.float32), np.full((1, 4), -np.inf, np.float32)])
    said = forest(1, what="target", n_targets=1)
    said["nodes_missing_value_tracks_true"] = [tracks] * 11
    branches = [at for at, mode in enumerate(said["nodes_modes"]) if mode != "LEAF"]
    for shift in range(len(RULES)):
        for turn, at in enumerate(branches):
            said["nodes_modes"][at] = RULES[(turn + shift) % len(RULES)]
        same("TreeEnsembleRegressor", x, **said)


@pytest.mark.parametrize("rule", RULES)
def test_nan_that_counts_as_true(rule: str) -> None:
    x = np.full((4, 4), np.nan, np.float32)
    said = forest(1, what="target", n_targets=1, rule=rule, nodes_missing_value_tracks_true=[1] * 11)
    same("TreeEnsembleRegressor", x, **said)


@pytest.mark.parametrize("second", ["BRANCH_LEQ", "BRANCH_EQ"])
def test_an_ensemble_of_trees_is_one_task(second: str) -> None:
    said = forest(3, what="class", classlabels_int64s=[0, 1, 2])
    said["nodes_modes"][1] = second
    network = imported(model("TreeEnsembleClassifier", {"x": X}, 2, **said))
    assert [node.kind for node in network.nodes] == ["trees", "arg"]


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("labels", [[0, 1, 2], [7, 3, 5]])
def test_classifier(post: str, labels: list[int]) -> None:
    said = forest(len(labels), what="class", classlabels_int64s=labels, post_transform=post)
    same("TreeEnsembleClassifier", X, outputs=2, **said)
    same("TreeEnsembleClassifier", X, outputs=2, **said, base_values=[0.1, 0.4, -0.2][: len(labels)])


def test_label_of_two_classes_has_the_larger_score() -> None:
    said = forest(2, what="class", classlabels_int64s=[4, 2])
    made = model("TreeEnsembleClassifier", {"x": X}, 2, **said)
    got = evaluate(imported(made), {"x": X})
    want = session(made).run(["y1"], {"x": X})[0]  # its labels are 0 and 1, whatever their names
    np.testing.assert_allclose(got["y1"], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got["y0"], np.where(want[:, 1] > want[:, 0], 2, 4))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("which", "base"), [(0, []), (0, [0.2]), (0, [0.2, -0.4]), (1, []), (1, [0.2])])
def test_classifier_of_two_classes_with_the_scores_of_one(which: int, base: Any, positive: bool, post: str) -> None:
    said = forest(1, what="class", positive=positive, classlabels_int64s=[4, 9], post_transform=post)
    said |= {"base_values": base} if base else {}
    said["class_ids"] = [which] * len(said["class_ids"])
    if post == "PROBIT" and not which and len(base) < 2:  # ONNX Runtime leaves the second score undefined
        with pytest.raises(ModelError, match=r"'TreeEnsembleClassifier_y0'.* Give a score of each class"):
            imported(model("TreeEnsembleClassifier", {"x": X}, 2, **said))
    else:
        same("TreeEnsembleClassifier", X, outputs=2, **said)


def test_base_values_for_the_other_class_alone_are_refused() -> None:
    said = forest(1, what="class", classlabels_int64s=[4, 9], base_values=[0.2, -0.4])
    said["class_ids"] = [1] * len(said["class_ids"])  # ONNX Runtime ignores the trees
    with pytest.raises(ModelError, match=r"2 base_values for .* one class\. Give weights of both classes"):
        imported(model("TreeEnsembleClassifier", {"x": X}, 2, **said))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"nodes_values": [0.0]}, "its lists of nodes are empty or differ in length"),
        ({"nodes_featureids": [4] * 11}, "node 1 of tree 5 asks for feature 4 of 4"),
        ({"nodes_truenodeids": [9] * 11}, "tree 5 has no node 9, to which node 1 leads"),
        ({"nodes_nodeids": [0] * 11}, "tree 5 has two nodes 0"),
        ({"nodes_falsenodeids": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, "its nodes form a cycle"),
        ({"nodes_modes": ["LEAF"] * 10 + ["BRANCH"]}, "nodes_modes has 'BRANCH'"),
        ({"target_ids": [3] * 7}, "a weight is for target 3 of 1, in node 0 of tree 0"),
        ({"target_weights": [1.0]}, "its lists of target weights differ in length"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function is 'MEDIAN', expected SUM, AVERAGE, MIN or MAX"),
    ],
)
def test_malformed_trees_are_refused(changed: dict[str, Any], what: str) -> None:
    said = {**forest(1, what="target", n_targets=1), **changed}
    with pytest.raises(ModelError, match=what):
        imported(model("TreeEnsembleRegressor", {"x": X}, **said))
