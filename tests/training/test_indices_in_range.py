# SPDX-License-Identifier: Apache-2.0
"""Labels and indices that a model reads as inputs: those out of range are refused before anything changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.small_models import model_of
from support.small_training import blobs, trainer

import syclsched
from syclsched.errors import ArgumentError
from syclsched.training import SGD

pytestmark = pytest.mark.sycl

X, LABELS = blobs(6)[0][:, :4], np.array([0, 1, 2, 0, 1, 2])
WEIGHTS = np.arange(12, dtype="float32").reshape(4, 3) / 8


def classifier(operator: str, **attributes: Any) -> Any:
    """Return a model whose output is a loss of labels, computed by an operator."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("LogSoftmax", ["scores"], ["logs"], axis=1),
        helper.make_node(operator, ["scores" if operator[0] == "S" else "logs", "labels"], ["y"], "held", **attributes),
    ]
    dtypes = {"labels": TensorProto.INT64}
    return model_of(nodes, {"x": ("n", 4), "labels": ("n",)}, ["y"], {"w": WEIGHTS}, dtypes=dtypes)


@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("ignored", [None, -100, 7])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_loss_of_the_model_refuses_labels_out_of_range(operator: str, ignored: int | None, parts: int) -> None:
    model = classifier(operator, **({} if ignored is None else {"ignore_index": ignored}))
    good = LABELS if ignored is None else np.where(np.arange(6) == 4, ignored, LABELS)
    with trainer(model, "model", SGD(0.1), micro_batches=parts) as found:
        for step in range(2):  # the first is planned, the second is called in the short way
            before = found.parameters["w"]
            for wrong in (-1, 3):
                what = f"'labels': label {wrong} is out of range: {operator} 'held' has 3 classes, 0 to 2"
                with pytest.raises(ArgumentError, match=what):
                    found.step((X, np.where(np.arange(6) == 4, wrong, LABELS)))
            assert found.steps == step and np.array_equal(found.parameters["w"], before)
            assert np.isfinite(found.step((X, good)))


def test_a_model_in_inference_refuses_indices_out_of_range() -> None:
    model = classifier("SoftmaxCrossEntropyLoss", ignore_index=-1)
    with syclsched.compile(model, devices="cpu", autotune=False) as found:
        for _ in range(2):
            assert np.isfinite(found(X, np.where(LABELS == 1, -1, LABELS))["y"])
            with pytest.raises(ArgumentError, match=r"label 3 is out of range.*Samples of the label -1 do not count"):
                found(X, LABELS + 1)


def language_model() -> Any:
    """Return a model whose loss is that of each next token, but of those that are -100."""
    constants = {
        "table": np.random.default_rng(0).standard_normal((5, 4), "float32"),
        "w": np.random.default_rng(1).standard_normal((4, 5), "float32"),
        **{name: np.array([number]) for name, number in (("one", 1), ("far", 99), ("zero", 0), ("end", -1))},
        "rows": np.array([-1, 5]),
    }
    nodes = [
        helper.make_node("Slice", ["ids", "zero", "end", "one"], ["read"]),
        helper.make_node("Gather", ["table", "read"], ["embedded"], "embed"),
        helper.make_node("MatMul", ["embedded", "w"], ["scores"]),
        helper.make_node("Reshape", ["scores", "rows"], ["flat"]),
        helper.make_node("Slice", ["labels", "one", "far", "one"], ["next"]),
        helper.make_node("Reshape", ["next", "end"], ["wanted"]),
        helper.make_node("SoftmaxCrossEntropyLoss", ["flat", "wanted"], ["y"], "held", ignore_index=-100),
    ]
    dtypes = {"ids": TensorProto.INT64, "labels": TensorProto.INT64}
    return model_of(nodes, {"ids": ("n", "m"), "labels": ("n", "m")}, ["y"], constants, dtypes=dtypes)


@pytest.mark.parametrize("parts", [1, 2])
def test_parts_of_an_input_are_checked(parts: int) -> None:
    ids = np.random.default_rng(2).integers(0, 5, (4, 6))
    model = language_model()
    for node in model.graph.node[:1] + model.graph.node[4:5]:  # along the second axis
        node.input.insert(3, "one")
    with trainer(model, "model", SGD(0.1), micro_batches=parts) as found:
        for _ in range(2):
            beyond = ids.copy()
            beyond[:, -1] = 9  # the last token is not read, and the first label is none
            labels = np.where(np.arange(6) == 0, 77, np.where(np.arange(6) == 3, -100, ids))
            assert np.isfinite(found.step((beyond, labels)))
            before = found.parameters
            for given, what in (((labels, labels), "index -100 .*Gather 'embed'"), ((ids, beyond), "label 9 .*'held'")):
                with pytest.raises(ArgumentError, match=what):
                    found.step(given)
            assert all(np.array_equal(value, before[name]) for name, value in found.parameters.items())
