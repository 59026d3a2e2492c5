# SPDX-License-Identifier: Apache-2.0
"""Importers of decision-tree ensembles (ai.onnx.ml)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_LEAF: Final = "LEAF"
#: Mode of a node -> the rule of the kernel, whether the children are swapped, and whether the comparison is strict.
_RULES: Final = {
    "BRANCH_LEQ": ("<=", False, False),
    "BRANCH_LT": ("<=", False, True),
    "BRANCH_GT": ("<=", True, False),
    "BRANCH_GTE": ("<=", True, True),
    "BRANCH_EQ": ("==", False, False),
    "BRANCH_NEQ": ("==", True, False),
}
#: Functions that aggregate the weights of leaves, in the order of TreeEnsemble's numbers.
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
#: Post-processing, in the order of TreeEnsemble's numbers.
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
#: Modes of TreeEnsemble's nodes by their numbers. Membership of a set is left to the host.
_MODES: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of a model's trees, in its order."""

    features: tuple[int, ...]
    modes: tuple[str, ...]
    thresholds: Array
    missing: tuple[int, ...]  # whether NaN counts as true
    children: tuple[tuple[int, int], ...]  # places of the children if the comparison is false, and if it is true
    keys: tuple[tuple[int, int], ...]  # (tree, node id)
    roots: tuple[int, ...]  # the place of each tree's root, by the trees' numbers


@dataclass(frozen=True, slots=True)
class _Forest:
    """Trees in the form of `syclsched.kernels.trees`, all nodes compared by one rule."""

    nodes: Array  # feature, first child, leaf
    thresholds: Array
    roots: Array  # root and depth of each tree
    rule: str
    missing: bool  # whether NaN counts as true at any node
    leaves: tuple[tuple[int, int], ...]  # (tree, node id) of each leaf


@imports("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = _rows(b, inputs.required(0, "X"))
    forest = _forest(b, _nodes(b, node, b.dtype(x), b.shape(x)[1]))
    targets = node.integer("n_targets", 1)
    base = numbers_of(node, "base_values")
    if targets < 1 or base.size not in (0, 1, targets):
        raise UnsupportedFormError
    how = node.text("aggregate_function", "SUM")
    if how not in _AGGREGATES:
        raise b.wrong(f"aggregate_function is {how!r}, expected SUM, AVERAGE, MIN or MAX")
    weights, is_given = _weights(b, node, forest, "target", targets)
    made = _aggregated(b, x, forest, weights, is_given, base, how)
    return [b.cast(transformed(b, made, node.text("post_transform", "NONE")), "float32")]


def _aggregated(
    b: NetworkBuilder, x: str, forest: _Forest, weights: Array, is_given: Array, base: Array, how: str
) -> str:
    """Return the weights of the leaves aggregated over all trees; 0 for a target without any, plus the base values."""
    if how == "AVERAGE":
        weights = weights / len(forest.roots)
    if how not in ("MIN", "MAX"):
        return _combined(b, x, forest, weights, base, "sum")
    limits = np.finfo(weights.dtype)
    none = float(limits.max if how == "MIN" else limits.min)
    made = _combined(b, x, forest, np.where(is_given, weights, weights.dtype.type(none)), base[:0], how.lower())
    if not is_given.all():
        kind = b.dtype(made)
        made = b.elementwise(("where", ("equal", 0, ("const", none, kind)), ("const", 0.0, kind), 0), made)
    return _with_base(b, made, base)


@imports("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import TreeEnsembleClassifier; of two classes, leaves may have weights for one only."""
    x = _rows(b, inputs.required(0, "X"))
    forest = _forest(b, _nodes(b, node, b.dtype(x), b.shape(x)[1]))
    labels, post = class_labels(b, node, "classlabels_int64s"), node.text("post_transform", "NONE")
    base, known = numbers_of(node, "base_values"), set(node.integers_or("class_ids"))
    weights, _ = _weights(b, node, forest, "class", len(labels))
    if len(labels) == 2 and len(known) == 1:
        return _binary(b, node, labels, post, base, lambda base: _scores(b, x, forest, weights[:, list(known)], base))
    if base.size not in (0, len(labels)):
        raise b.wrong(f"{base.size} base_values for {len(labels)} classes")
    made = _scores(b, x, forest, weights, base)
    return [predicted_label(b, made, labels), output_scores(b, made, post)]


def _binary(
    b: NetworkBuilder, node: ModelNode, labels: Labels, post: str, base: Array, scores_of: Callable[[Array], str]
) -> Names:
    """Return label and scores of two classes whose leaves have weights for one class only, as ONNX Runtime does.

    The second class is that of the weights, whichever they name. Weights for the second, and those for the first with
    a base value for each class, leave the score of the other class 0.
    """
    is_second, count = 1 in node.integers_or("class_ids"), base.size
    if count > 2 - is_second:
        raise b.wrong(f"{count} base_values for the weights of one class", hint="Give weights of both classes")
    positive = bool((numbers_of(node, "class_weights") >= 0).all())
    made = scores_of(base[: 0 if is_second else 1])
    label = predicted_label(b, made, labels, threshold=0.5 if positive else 0.0)
    if not is_second and count < 2:
        return [label, output_scores(b, made, post, second="rest" if positive else "negative")]
    none = b.constant(np.zeros(b.shape(made), b.dtype(made)))
    return [label, output_scores(b, b.concat([none, made] if is_second else [made, none], 1), post)]


def _scores(b: NetworkBuilder, x: str, forest: _Forest, weights: Array, base: Array) -> str:
    return b.cast(_combined(b, x, forest, weights, base, "sum"), "float32")


@imports("TreeEnsemble", domain=ML)
def _tree_ensemble(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import TreeEnsemble, of which inner nodes and leaves are listed apart."""
    given = inputs.required(0, "X")
    x = _rows(b, given)
    nodes, leaf_of = _nodes_and_leaves(b, node, b.dtype(x), b.shape(x)[1])
    forest = _forest(b, nodes)
    how, post = node.integer("aggregate_function", 1), node.integer("post_transform")
    if not 0 <= how < len(_AGGREGATES) or not 0 <= post < len(_TRANSFORMS):
        raise b.wrong(f"aggregate_function is {how}, and post_transform {post}")
    targets, ids = node.integer("n_targets", 1), node.integers_or("leaf_targetids")
    values = node.attributes["leaf_weights"].reshape(-1).astype(b.dtype(x))
    if len(ids) != values.size or any(not 0 <= each < targets for each in ids):
        raise b.wrong(f"{values.size} weights of leaves for targets {ids} of {targets}")
    leaves = np.array([leaf_of[place] for _, place in forest.leaves])
    weights = np.zeros((len(leaves), targets), values.dtype)
    at = np.arange(len(leaves)), np.array(ids)[leaves]
    weights[at] = values[leaves]
    is_given = np.zeros(weights.shape, bool)
    is_given[at] = True
    made = _aggregated(b, x, forest, weights, is_given, np.zeros(0), _AGGREGATES[how])
    return [b.cast(transformed(b, made, _TRANSFORMS[post]), b.dtype(given))]


def _nodes_and_leaves(b: NetworkBuilder, node: ModelNode, dtype: str, features: int) -> tuple[_Nodes, dict[int, int]]:
    """Read and check the trees of TreeEnsemble: each branch to a leaf leads to a node of its own, listed last."""
    feature_ids = node.integers_or("nodes_featureids")
    count, leaves = len(feature_ids), len(node.integers_or("leaf_targetids"))
    numbers, splits = (node.attributes[f"nodes_{name}"].reshape(-1) for name in ("modes", "splits"))
    branches = [[node.integers_or(f"nodes_{way}{what}") for what in ("leafs", "nodeids")] for way in ("false", "true")]
    missing, roots = node.integers_or("nodes_missing_value_tracks_true", (0,) * count), node.integers_or("tree_roots")
    if not count or any(len(each) != count for each in (numbers, splits, missing, *branches[0], *branches[1])):
        raise b.wrong("its lists of nodes are empty or differ in length")
    if numbers.max() >= len(_MODES):
        raise UnsupportedFormError
    if not roots or not all(0 <= root < count for root in roots):
        raise b.wrong(f"its trees begin at {roots} of {count} nodes")
    if not all(0 <= feature < features for feature in feature_ids):
        raise b.wrong(f"its nodes ask for features {min(feature_ids)} to {max(feature_ids)} of {features}")
    leaf_of: dict[int, int] = {}
    children = []
    for place in range(count):
        pair = []
        for are_leaves, targets in branches:
            target, limit = targets[place], leaves if are_leaves[place] else count
            if not 0 <= target < limit:
                raise b.wrong(f"node {place} leads to {target} of {limit}")
            if are_leaves[place]:
                leaf_of[count + len(leaf_of)], target = target, count + len(leaf_of)
            pair.append(target)
        children.append((pair[0], pair[1]))
    more, ends = (0,) * len(leaf_of), np.zeros(len(leaf_of), splits.dtype)
    nodes = _Nodes(
        feature_ids + more,
        (*(_MODES[number] for number in numbers), *[_LEAF] * len(leaf_of)),
        np.concatenate([splits, ends]).astype(dtype),
        missing + more,
        (*children, *[(0, 0)] * len(leaf_of)),
        tuple((0, place) for place in range(count + len(leaf_of))),
        roots,
    )
    return nodes, leaf_of


def _rows(b: NetworkBuilder, x: str) -> str:
    if len(b.shape(x)) != 2:
        raise UnsupportedFormError
    return floating(b, x)


def _nodes(b: NetworkBuilder, node: ModelNode, dtype: str, features: int) -> _Nodes:
    """Read and check the trees of a node."""
    names = ("nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_featureids")
    trees, numbers, right, wrong, feature_ids = (node.integers_or(name) for name in names)
    modes = tuple(node.attributes.get("nodes_modes") or ())
    values = numbers_of(node, "nodes_values")
    count = len(trees)
    if not count or any(len(each) != count for each in (numbers, right, wrong, feature_ids, modes, values)):
        raise b.wrong("its lists of nodes are empty or differ in length")
    unknown = set(modes) - {_LEAF} - set(_RULES)
    if unknown:
        raise b.wrong(f"nodes_modes has {', '.join(map(repr, sorted(unknown)))}")
    missing = node.integers_or("nodes_missing_value_tracks_true", (0,) * count)
    if len(missing) != count:
        raise b.wrong(f"{len(missing)} nodes_missing_value_tracks_true for {count} nodes")
    places: dict[tuple[int, int], int] = {}
    roots: dict[int, int] = {}
    for place, key in enumerate(zip(trees, numbers, strict=True)):
        if places.setdefault(key, place) != place:
            raise b.wrong(f"tree {key[0]} has two nodes {key[1]}")
        roots.setdefault(key[0], place)
    children = [(0, 0)] * count
    for place, mode in enumerate(modes):
        if mode == _LEAF:
            continue
        tree, feature = trees[place], feature_ids[place]
        found = [places.get((tree, number)) for number in (wrong[place], right[place])]
        if None in found:
            number = (wrong, right)[found.index(None)][place]
            raise b.wrong(f"tree {tree} has no node {number}, to which node {numbers[place]} leads")
        if not 0 <= feature < features:
            raise b.wrong(f"node {numbers[place]} of tree {tree} asks for feature {feature} of {features}")
        children[place] = found[0] or 0, found[1] or 0
    return _Nodes(
        feature_ids,
        modes,
        values.astype(dtype),
        missing,
        tuple(children),
        tuple(places),
        tuple(roots[tree] for tree in sorted(roots)),
    )


def _forest(b: NetworkBuilder, nodes: _Nodes) -> _Forest:
    """Return the trees with their nodes numbered anew, so that children are side by side."""
    rules = {_RULES[mode][0] for mode in nodes.modes if mode != _LEAF} or {"<="}
    rule = "both" if len(rules) > 1 else next(iter(rules))
    thresholds_of = nodes.thresholds
    if any(_RULES[mode][2] for mode in {*nodes.modes} - {_LEAF}):
        strict = np.array([mode != _LEAF and _RULES[mode][2] for mode in nodes.modes])
        below = np.nextafter(thresholds_of, thresholds_of.dtype.type(-np.inf))
        below[thresholds_of == -np.inf] = np.nan
        thresholds_of = np.where(strict, below, thresholds_of)
    given = thresholds_of.tolist()
    queue: list[tuple[int, int]] = []  # (place in the model, depth), breadth first: indices are the new numbers
    made: list[tuple[int, int, int, float]] = []  # feature and whether NaN counts as true, first child, leaf, threshold
    leaves, roots = [], []
    for root in nodes.roots:
        first = len(queue)
        queue.append((root, 0))
        while len(made) < len(queue) <= 2 * len(nodes.modes):
            place, depth = queue[len(made)]
            if nodes.modes[place] == _LEAF:
                leaves.append(nodes.keys[place])
                made.append((0, len(made), len(leaves) - 1, np.nan))
                continue
            compares, changes, _ = _RULES[nodes.modes[place]]
            # NaN is not smaller than a threshold; where the children are swapped, it must count as smaller. It is never
            # equal, and so takes the first child of a swapped "==", the true one, in any case.
            is_missing = bool(nodes.missing[place])
            is_true = is_missing != changes if compares == "<=" else is_missing and not changes
            feature = nodes.features[place]
            if rule == "both":
                feature = 2 * feature + (compares == "==")
            made.append((2 * feature + is_true, len(queue), -1, given[place]))
            queue += [(child, depth + 1) for child in nodes.children[place][:: -1 if changes else 1]]
        if len(made) < len(queue):
            raise b.wrong("its nodes form a cycle, or have several parents")
        roots.append((first, max(depth for _, depth in queue[first:])))
    *numbers, thresholds = (np.array(each) for each in zip(*made, strict=True))
    tracked = rule == "both" or bool((numbers[0] & 1).any())
    return _Forest(
        np.stack([numbers[0] if tracked else numbers[0] >> 1, *numbers[1:]], 1).astype(np.int32),
        thresholds.astype(nodes.thresholds.dtype),
        np.array(roots, np.int32),
        rule,
        tracked,
        tuple(leaves),
    )


def _weights(b: NetworkBuilder, node: ModelNode, forest: _Forest, what: str, columns: int) -> tuple[Array, Array]:
    """Return the weight of each leaf for each class or target, and the mask of given weights."""
    trees, numbers = (node.integers_or(f"{what}_{name}") for name in ("treeids", "nodeids"))
    ids, weights = node.integers_or(f"{what}_ids"), numbers_of(node, f"{what}_weights")
    if len({len(trees), len(numbers), len(ids), len(weights)}) != 1:
        raise b.wrong(f"its lists of {what} weights differ in length")
    leaf_of = {key: leaf for leaf, key in enumerate(forest.leaves)}
    leaves = np.array([leaf_of.get(key, -1) for key in zip(trees, numbers, strict=True)], np.int64)
    columns_of = np.array(ids, np.int64)
    is_wrong = (columns_of < 0) | (columns_of >= columns)
    elsewhere = np.flatnonzero(leaves < 0)
    if elsewhere.size:
        known = set(zip(node.integers_or("nodes_treeids"), node.integers_or("nodes_nodeids"), strict=True))
        is_wrong[elsewhere] |= [(trees[place], numbers[place]) not in known for place in elsewhere]
    if is_wrong.any():
        place = int(is_wrong.argmax())
        raise b.wrong(
            f"a weight is for {what} {ids[place]} of {columns}, in node {numbers[place]} of tree {trees[place]}"
        )
    made = np.zeros((len(leaf_of), columns), weights.dtype)
    is_given = np.zeros(made.shape, bool)
    is_leaf = leaves >= 0  # no row ends in another node
    at = leaves[is_leaf], columns_of[is_leaf]
    np.add.at(made, at, weights[is_leaf])
    is_given[at] = True
    return made, is_given


def _combined(b: NetworkBuilder, x: str, forest: _Forest, weights: Array, base: Array, combine: str) -> str:
    """Return the weights of the leaves combined over all trees, per column, plus the base values."""
    given = [x, *(b.constant(each) for each in (forest.nodes, forest.thresholds, forest.roots))]
    count = weights.shape[1]
    if combine == "sum" and count > 1 and (np.count_nonzero(weights, 1) <= 1).all():
        columns = np.argmax(weights != 0, 1).astype(np.int32)
        given += [b.constant(np.take_along_axis(weights, columns[:, None], 1)), b.constant(columns)]
    else:
        given.append(b.constant(weights))
    made = b.emit("trees", given, rule=forest.rule, combine=combine, missing=forest.missing, count=count)
    return _with_base(b, made, base)


def _with_base(b: NetworkBuilder, x: str, base: Array) -> str:
    return b.elementwise(("add", 0, 1), x, b.constant(base.astype(b.dtype(x)))) if base.size else x
