# SPDX-License-Identifier: Apache-2.0
"""Importers of decision-tree ensembles (ai.onnx.ml): all rows descend all trees together, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.importer_registry import ML, Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.ml.class_scores import (
    class_labels,
    floating,
    numbers_of,
    output_scores,
    predicted_label,
)
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: ONNX node mode -> comparison of the feature (input 0) with the threshold (input 1).
_RULES: Final = {
    "BRANCH_LEQ": ("less_equal", 0, 1),
    "BRANCH_LT": ("less", 0, 1),
    "BRANCH_GTE": ("greater_equal", 0, 1),
    "BRANCH_GT": ("greater", 0, 1),
    "BRANCH_EQ": ("equal", 0, 1),
    "BRANCH_NEQ": ("not", ("equal", 0, 1)),
}
_LEAF: Final = "LEAF"


@dataclass(frozen=True, slots=True)
class _Forest:
    """The trees as arrays indexed by consecutive node numbers."""

    roots: Array  # root of each tree
    #: Feature number and threshold of each node; unused for leaves.
    features: Array
    values: Array
    children: Array  # for each node the child if the comparison is false, then if it is true; a leaf is its own child
    missing: Array  # whether NaN counts as true at a node
    rule: str  # the comparison of all nodes
    depth: int  # steps from a root to the deepest leaf
    places: dict[tuple[int, int], int]  # (tree, node id within the tree) -> node number


@imports("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = _rows(b, inputs.required(0, "X"))
    forest = _forest(b, node, b.dtype(x), b.shape(x)[1])
    targets = node.integer("n_targets", 1)
    base = numbers_of(node, "base_values")
    if node.text("post_transform", "NONE") != "NONE" or targets < 1 or base.size not in (0, 1, targets):
        raise UnsupportedFormError
    how = node.text("aggregate_function", "SUM")
    if how not in ("SUM", "AVERAGE", "MIN", "MAX"):
        raise b.wrong(f"aggregate_function is {how!r}, expected SUM, AVERAGE, MIN or MAX")
    weights, is_given = _weights(b, node, forest, "target", targets)
    if how in ("MIN", "MAX"):
        weights[~is_given] = np.finfo(weights.dtype).max if how == "MIN" else np.finfo(weights.dtype).min
    elif how == "AVERAGE":
        weights /= len(forest.roots)
    return [_sums(b, _leaves(b, x, forest), weights, base, {"MIN": "min", "MAX": "max"}.get(how, "sum"))]


@imports("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import TreeEnsembleClassifier; binary trees may have scores for one class only."""
    x = _rows(b, inputs.required(0, "X"))
    forest = _forest(b, node, b.dtype(x), b.shape(x)[1])
    labels = class_labels(b, node, "classlabels_int64s")
    base, known = numbers_of(node, "base_values"), set(node.integers_or("class_ids"))
    weights, _ = _weights(b, node, forest, "class", len(labels))
    single = len(labels) == 2 and len(known) == 1
    positive = bool((numbers_of(node, "class_weights") >= 0).all())
    if base.size not in (0, len(labels)) and not (single and base.size == 1):
        raise b.wrong(f"{base.size} base_values for {len(labels)} classes")
    if single:
        weights = weights[:, list(known)]
        if base.size == 2:
            raise UnsupportedFormError
    made = _sums(b, _leaves(b, x, forest), weights, base, "sum")
    post = node.text("post_transform", "NONE")
    if single:
        label = predicted_label(b, made, labels, threshold=0.5 if positive else 0.0)
        return [label, output_scores(b, made, post, second="rest" if positive else "negative")]
    return [predicted_label(b, made, labels), output_scores(b, made, post)]


def _rows(b: NetworkBuilder, x: str) -> str:
    if len(b.shape(x)) != 2:
        raise UnsupportedFormError
    return floating(b, x)


def _forest(b: NetworkBuilder, node: ModelNode, dtype: str, features: int) -> _Forest:
    """Read and check the trees of a node."""
    names = ("nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_featureids")
    trees, numbers, right, wrong, feature_ids = (node.integers_or(name) for name in names)
    modes = node.attributes.get("nodes_modes") or ()
    values = numbers_of(node, "nodes_values")
    count = len(trees)
    if not count or any(len(each) != count for each in (numbers, right, wrong, feature_ids, modes, values)):
        raise b.wrong("its lists of nodes are empty or differ in length")
    rules = set(modes) - {_LEAF}
    if not rules <= set(_RULES):
        raise b.wrong(f"nodes_modes has {', '.join(map(repr, sorted(rules - set(_RULES))))}")
    if len(rules) > 1:
        raise UnsupportedFormError
    places: dict[tuple[int, int], int] = {}
    roots: dict[int, int] = {}
    for place, key in enumerate(zip(trees, numbers, strict=True)):
        if places.setdefault(key, place) != place:
            raise b.wrong(f"tree {key[0]} has two nodes {key[1]}")
        roots.setdefault(key[0], place)
    children = np.repeat(np.arange(count, dtype=np.int32)[:, None], 2, axis=1)
    for place, (tree, no, yes) in enumerate(zip(trees, wrong, right, strict=True)):
        if modes[place] == _LEAF:
            continue
        for side, number in enumerate((no, yes)):
            found = places.get((tree, number))
            if found is None:
                raise b.wrong(f"tree {tree} has no node {number}, to which node {numbers[place]} leads")
            children[place, side] = found
        if not 0 <= feature_ids[place] < features:
            raise b.wrong(f"node {numbers[place]} of tree {tree} asks for feature {feature_ids[place]} of {features}")
    missing = np.array(node.integers_or("nodes_missing_value_tracks_true", (0,) * count), bool)
    if len(missing) != count:
        raise b.wrong(f"{len(missing)} nodes_missing_value_tracks_true for {count} nodes")
    leaf = np.array([mode == _LEAF for mode in modes])
    return _Forest(
        roots=np.array(sorted(roots.values()), np.int32),
        features=np.where(leaf, 0, np.array(feature_ids)).astype(np.int32),
        values=values.astype(dtype),
        children=children.reshape(-1),
        missing=missing & ~leaf,
        rule=next(iter(rules), "BRANCH_LEQ"),
        depth=_depth(b, children, leaf, list(roots.values())),
        places=places,
    )


def _depth(b: NetworkBuilder, children: Array, leaf: Array, roots: Sequence[int]) -> int:
    """Return the number of steps from the roots to the deepest leaf."""
    depth, level = 0, np.array(roots)
    while True:
        level = level[~leaf[level]]
        if not level.size:
            return depth
        depth += 1
        if depth > len(leaf):
            raise b.wrong("its nodes form a cycle")
        level = np.unique(children[level])


def _weights(b: NetworkBuilder, node: ModelNode, forest: _Forest, what: str, columns: int) -> tuple[Array, Array]:
    """Return the weight of each node for each class or target, and the mask of given weights."""
    trees, numbers = (node.integers_or(f"{what}_{name}") for name in ("treeids", "nodeids"))
    ids, weights = node.integers_or(f"{what}_ids"), numbers_of(node, f"{what}_weights")
    if len({len(trees), len(numbers), len(ids), len(weights)}) != 1:
        raise b.wrong(f"its lists of {what} weights differ in length")
    made = np.zeros((len(forest.features), columns), weights.dtype)
    is_given = np.zeros(made.shape, bool)
    for tree, number, column, weight in zip(trees, numbers, ids, weights, strict=True):
        place = forest.places.get((tree, number))
        if place is None or not 0 <= column < columns:
            raise b.wrong(f"a weight is for {what} {column} of {columns}, in node {number} of tree {tree}")
        made[place, column] += weight
        is_given[place, column] = True
    return made, is_given


def _leaves(b: NetworkBuilder, x: str, forest: _Forest) -> str:
    """Return the leaf of each row (first axis) in each tree (second axis)."""
    rows, trees = b.shape(x)[0], len(forest.roots)
    features, values = b.constant(forest.features), b.constant(forest.values)
    children = b.constant(forest.children)
    comparison: Any = _RULES[forest.rule]
    missing = None
    if forest.missing.any() or forest.rule == "BRANCH_NEQ":
        missing = b.constant(forest.missing)
        comparison = ("where", ("isnan", 0), 3, comparison)
    place = b.expand(b.constant(forest.roots.reshape(1, trees)), (rows, trees))
    step = ("add", ("mul", 2, ("const", 2, "int32")), ("cast", "int32", comparison))

    for _ in range(forest.depth):
        given = [b.emit("gather_elements", [x, b.gather(features, place)], axis=1), b.gather(values, place), place]
        if missing is not None:
            given.append(b.gather(missing, place))
        place = b.gather(children, b.elementwise(step, *given))
    return place


def _sums(b: NetworkBuilder, leaves: str, weights: Array, base: Array, mode: str) -> str:
    """Return the weights of the leaves reduced over all trees, per column, plus the base values."""
    made = b.reduce(mode, b.gather(b.constant(weights), leaves), (1,), keepdims=False)
    if base.size:
        made = b.elementwise(("add", 0, 1), made, b.constant(base.astype(weights.dtype)))
    return b.cast(made, "float32")
