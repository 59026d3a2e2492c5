# SPDX-License-Identifier: Apache-2.0
"""ONNX models of classical machine learning in the form of converters, with seeded weights."""

from __future__ import annotations

from typing import Any

import numpy as np

_FLOAT = 1
_ML = "ai.onnx.ml"


def _model(name: str, nodes: list[Any], x: tuple[int, int], outputs: dict[str, int], weights: dict[str, Any]) -> Any:
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", _FLOAT, x)],
        [helper.make_tensor_value_info(each, dtype, None) for each, dtype in outputs.items()],
        [numpy_helper.from_array(value, each) for each, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _trees(random: np.random.Generator, count: int, depth: int, features: int) -> dict[str, list[Any]]:
    """Return the nodes of trees that are full down to half their depth, and below it have random leaves."""
    lists: dict[str, list[Any]] = {
        each: [] for each in ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    }
    for tree in range(count):
        waiting, number = [(0, 0)], 0
        while waiting:
            node, level = waiting.pop(0)
            ends = level == depth or (level > depth // 2 and random.random() < 0.2)
            children = (0, 0) if ends else (number + 1, number + 2)
            waiting += [] if ends else [(child, level + 1) for child in children]
            number = max(number, *children)
            said = (tree, node, "LEAF" if ends else "BRANCH_LEQ", int(random.integers(features)))
            for each, value in zip(lists.values(), (*said, float(random.normal()), *children), strict=True):
                each.append(value)
    return {f"nodes_{name}": values for name, values in lists.items()}


def forest(rows: int, trees: int, depth: int, *, features: int = 20, classes: int = 0, votes: bool = False) -> Any:
    """Return a regressor of trees, or a classifier: a random forest with votes of leaves, or boosted trees."""
    from onnx import TensorProto, helper

    random = np.random.default_rng(0)
    nodes = _trees(random, trees, depth, features)
    leaves = [
        (tree, number)
        for tree, number, mode in zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True)
        if mode == "LEAF"
    ]
    given = [(*leaf, each) for leaf in leaves for each in (range(classes) if votes else [leaf[0] % max(1, classes)])]
    what = "class" if classes else "target"
    for name, values in zip(("treeids", "nodeids", "ids"), zip(*given, strict=True), strict=True):
        nodes[f"{what}_{name}"] = list(values)
    nodes[f"{what}_weights"] = (random.random(len(given)) / trees).tolist()
    if not classes:
        made = [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=_ML, n_targets=1, **nodes)]
        return _model("forest", made, (rows, features), {"y": TensorProto.FLOAT}, {})
    post = "NONE" if votes else "SOFTMAX"
    made = [
        helper.make_node(
            "TreeEnsembleClassifier",
            ["x"],
            ["label", "scores"],
            domain=_ML,
            classlabels_int64s=list(range(classes)),
            post_transform=post,
            **nodes,
        )
    ]
    return _model("forest", made, (rows, features), {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}, {})


def pipeline(rows: int, features: int, components: int, classes: int) -> Any:
    """Return standardised features, principal components, and logistic regression, as scikit-learn's pipelines."""
    from onnx import TensorProto, helper

    random = np.random.default_rng(0)
    nodes = [
        helper.make_node(
            "Scaler",
            ["x"],
            ["scaled"],
            domain=_ML,
            offset=random.standard_normal(features).tolist(),
            scale=(1 + random.random(features)).tolist(),
        ),
        helper.make_node("Sub", ["scaled", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "components"], ["reduced"]),
        helper.make_node(
            "LinearClassifier",
            ["reduced"],
            ["label", "raw"],
            domain=_ML,
            coefficients=random.standard_normal(classes * components).tolist(),
            intercepts=random.standard_normal(classes).tolist(),
            classlabels_ints=list(range(classes)),
            post_transform="SOFTMAX",
        ),
        helper.make_node("Normalizer", ["raw"], ["probabilities"], domain=_ML, norm="L1"),
    ]
    weights = {
        "mean": random.standard_normal(features).astype(np.float32),
        "components": (random.standard_normal((features, components)) / np.sqrt(features)).astype(np.float32),
    }
    outputs = {"label": TensorProto.INT64, "probabilities": TensorProto.FLOAT}
    return _model("pipeline", nodes, (rows, features), outputs, weights)


def k_means(rows: int, features: int, clusters: int) -> Any:
    """Return the nearest centres, and the distances to all, in skl2onnx's form."""
    from onnx import TensorProto, helper

    random = np.random.default_rng(0)
    centres = random.standard_normal((clusters, features)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceSumSquare", ["x"], ["squares"], axes=[1], keepdims=1),
        helper.make_node("Gemm", ["x", "centres", "squares"], ["half"], alpha=-2.0, transB=1),
        helper.make_node("Add", ["half", "norms"], ["distance2"]),
        helper.make_node("Sqrt", ["distance2"], ["scores"]),
        helper.make_node("ArgMin", ["distance2"], ["label"], axis=1, keepdims=0),
    ]
    weights = {"centres": centres, "norms": (centres**2).sum(1, keepdims=True).T.copy()}
    return _model(
        "k-means", nodes, (rows, features), {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}, weights
    )
