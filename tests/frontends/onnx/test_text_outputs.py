# SPDX-License-Identifier: Apache-2.0
"""Classifiers of scikit-learn's exporter: labels of text, and maps from label to probability (ZipMap)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import session  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402

node = helper.make_node
X = np.random.default_rng(4).standard_normal((6, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(5).standard_normal(12).astype(np.float32).tolist()
TEXTS, INTEGERS = ["cat", "dog", "bird"], [7, 3, 5]


def model(nodes: list[Any], outputs: list[str], inputs: dict[str, Any] | None = None, **more: Any) -> Any:
    made = model_of(nodes, inputs or {"x": ("n", 4)}, outputs, opset=17, **more)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    for value in made.graph.output:
        value.type.Clear()
    return made


def classifier(labels: list[Any], kind: str) -> Any:
    return node("LinearClassifier", ["x"], ["label", "scores"], name="classify", domain="ai.onnx.ml",
                coefficients=WEIGHTS, intercepts=[0.1, 0.2, 0.3], post_transform="SOFTMAX",
                **{"classlabels_strings" if kind == "text" else "classlabels_ints": labels})  # fmt: skip


def zip_map(labels: list[Any], kind: str) -> Any:
    name = "classlabels_strings" if kind == "text" else "classlabels_int64s"
    return node("ZipMap", ["scores"], ["probabilities"], name="zip", domain="ai.onnx.ml", **{name: labels})


@pytest.mark.sycl
@pytest.mark.parametrize(("labels", "kind"), [(TEXTS, "text"), (INTEGERS, "integers")], ids=["text", "integers"])
def test_labels_and_maps_equal_those_of_onnx_runtime(labels: list[Any], kind: str) -> None:
    made = model([classifier(labels, kind), zip_map(labels, kind)], ["label", "probabilities"])
    label, maps = session(made).run(None, {"x": X})
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for _ in range(3):  # the third call may be a cached one
            got = compiled(X)
            assert got["label"].tolist() == list(label)
            for row, want in zip(got["probabilities"], maps, strict=True):
                assert list(row) == labels and row.keys() == want.keys()
                np.testing.assert_allclose([row[each] for each in labels], [want[each] for each in labels], rtol=1e-5)
        assert [each["label"].tolist() for each in compiled.stream([X, X])] == [list(label)] * 2


def check(made: Any, *inputs: np.ndarray, rtol: float = 1e-5) -> None:
    """Compare labels and scores of a classifier with those of ONNX Runtime."""
    runtime = session(made)
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for x in inputs:
            label, scores = runtime.run(None, {runtime.get_inputs()[0].name: x})
            got = compiled(x)
            assert got["label"].tolist() == label.tolist()
            np.testing.assert_allclose(got["scores"], scores, rtol=rtol)


@pytest.mark.sycl
@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_text_labels_of_a_linear_score_for_two_classes(post: str) -> None:
    classify = node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=WEIGHTS[:4],
                    intercepts=[0.1], post_transform=post, classlabels_strings=TEXTS[:2])  # fmt: skip
    check(model([classify], ["label", "scores"]), X)


@pytest.mark.sycl
@pytest.mark.parametrize("more", [{}, {"prob_a": [-1.5, -0.7, -1.1], "prob_b": [0.1, 0.2, 0.3]}], ids=["pairs", "all"])
@pytest.mark.parametrize("post", ["NONE", "SOFTMAX"])
def test_text_labels_of_support_vectors(post: str, more: dict[str, Any]) -> None:
    classify = node("SVMClassifier", ["i"], ["label", "scores"], domain="ai.onnx.ml", coefficients=WEIGHTS,
                    rho=[0.1, -0.2, 0.3], kernel_type="RBF", kernel_params=[0.3, 0.0, 0.0],
                    support_vectors=WEIGHTS * 2, vectors_per_class=[1, 2, 3], classlabels_strings=TEXTS,
                    post_transform=post, **more)  # fmt: skip
    made = model([classify], ["label", "scores"], {"i": ("n", 4)}, dtypes={"i": 7})
    whole = (X * 3).astype(np.int64)
    check(made, whole, whole[:0], rtol=1e-4)


@pytest.mark.sycl
@pytest.mark.parametrize("weights", [[0.1, 0.7], [-0.1, 0.7]], ids=["positive", "mixed"])
def test_text_labels_of_trees_with_a_score_for_two_classes(weights: list[float]) -> None:
    classify = node("TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", nodes_treeids=[0] * 3,
                    nodes_nodeids=[0, 1, 2], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_featureids=[2, 0, 0],
                    nodes_values=[0.0] * 3, nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
                    class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 0], class_weights=weights,
                    classlabels_strings=TEXTS[:2], post_transform="SOFTMAX")  # fmt: skip
    check(model([classify], ["label", "scores"]), X)


@pytest.mark.sycl
def test_numbers_become_text_and_text_is_moved() -> None:
    encode = node("LabelEncoder", ["i"], ["t"], domain="ai.onnx.ml", keys_int64s=[1, 2], values_strings=["one", "two"])
    nodes = [encode, node("Transpose", ["t"], ["moved"]), node("Identity", ["moved"], ["y"])]
    made = model(nodes, ["y"], {"i": (2, 3)}, dtypes={"i": 7})
    i = np.array([[1, 2, 3], [2, 2, 1]])
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        got = compiled(i)["y"]
    assert got.tolist() == session(made).run(None, {"i": i})[0].tolist()


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (node("Relu", ["label"], ["y"], name="use7"), "'label' is text or a map, and Relu takes numbers"),
        (node("Relu", ["probabilities"], ["y"], name="use7"), "'probabilities' is text or a map"),
    ],
    ids=lambda each: getattr(each, "op_type", ""),
)
def test_other_uses_of_text_and_maps_are_refused_with_a_hint(user: Any, said: str) -> None:
    made = model([classifier(TEXTS, "text"), zip_map(TEXTS, "text"), user], ["y"])
    with pytest.raises(ModelError) as caught:
        imported(made, {"x": (2, 4)})
    text = str(caught.value)
    assert said in text and "'use7'" in text and "Make it an output of the model" in text


def test_labels_must_fit_the_scores() -> None:
    made = model([classifier(TEXTS, "text"), zip_map(TEXTS[:2], "text")], ["probabilities"])
    with pytest.raises(ModelError, match=r"'zip'.*2 labels for scores \(2, 3\)"):
        imported(made, {"x": (2, 4)})


@pytest.mark.sycl
def test_a_branch_selects_text() -> None:
    branches = [
        helper.make_graph(
            [node("Identity", [each], [f"y_{each}"])], each, [], [helper.make_empty_tensor_value_info(f"y_{each}")]
        )
        for each in ("a", "b")
    ]
    nodes = [
        *(
            node("LabelEncoder", ["i"], [name], domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=texts)
            for name, texts in (("a", ["p", "q"]), ("b", ["r", "s"]))
        ),
        node("Constant", [], ["zero"], value_float=0.0),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    made = model(nodes, ["y"], {"x": (4,), "i": (3,)}, dtypes={"x": 1, "i": 7})
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for sign, want in ((1, ["p", "q", "p"]), (-1, ["r", "s", "r"])):
            got = compiled(np.full(4, sign, np.float32), np.array([0, 1, 0]))
            assert got["y"].tolist() == want
