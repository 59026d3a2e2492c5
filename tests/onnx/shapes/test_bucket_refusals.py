# SPDX-License-Identifier: Apache-2.0
"""Refusals of buckets, and of nodes that cannot run in them: what is wrong, where, and what to leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.small_models import model_of  # noqa: E402

from syclsched.errors import ArgumentError  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
CONSTANTS = {"a1": np.array([1]), "eight": np.arange(8) % 2 == 0, "pair": np.array([2, 4]), "twice": np.array([1, 2])}
CONSTANTS |= {"beyond": np.array([2**63 - 1]), "four": np.array([4]), "zeros": np.zeros(3, np.int64)}
RECTIFIER = node("Relu", ["x"], ["y"])


@pytest.mark.parametrize(
    "last",
    [
        node("ArgMax", ["x"], ["y"], axis=1, select_last_index=1),
        node("Compress", ["x", "eight"], ["y"], axis=0),
        node("Unique", ["x"], ["y"]),
        node("Split", ["x", "pair"], ["y", "z"], axis=1),
    ],
    ids=lambda each: each.op_type,
)
def test_nodes_that_cannot_run_in_a_bucket_are_refused_by_name(last: Any) -> None:
    last.name = "the node"
    model = model_of([last], {"x": (8, "length")}, ["y"], CONSTANTS, opset=18)
    said = f"{last.op_type} 'the node': it cannot run in a bucket"
    with (
        syclsched.compile(model, devices="cpu", autotune=False, buckets={"length": 8}) as compiled,
        pytest.raises(ArgumentError, match=said),
    ):
        compiled(np.ones((8, 6), np.float32))


LENGTH = [node("Shape", ["x"], ["extents"]), node("Gather", ["extents", "a1"], ["n"])]


@pytest.mark.parametrize(
    "nodes",
    [
        # the last elements of x twice in a row: extents of the plan do not fit, those of calls do
        [
            node("Tile", ["x", "twice"], ["xx"]),
            node("Slice", ["xx", "n", "beyond", "a1"], ["h"]),
            node("Add", ["x", "h"], ["y"], name="the node"),
        ],
        [
            node("Mod", ["n", "four"], ["rest"]),
            node("Concat", ["zeros", "rest"], ["m"], axis=0),
            node("Pad", ["x", "m"], ["y"], name="the node"),
        ],
    ],
    ids=["extents", "values"],
)
def test_dimensions_to_leave_out_are_named(nodes: list[Any]) -> None:
    model = model_of([*LENGTH, *nodes], {"x": ("batch", "length")}, ["y"], CONSTANTS, opset=18)
    said = "node .* 'the node': it cannot run in a bucket: .* Compile the model without buckets of length$"
    with (
        syclsched.compile(model, devices="cpu", autotune=False, buckets={"length": 8}) as compiled,
        pytest.raises(ArgumentError, match=said),
    ):
        compiled(np.ones((4, 6), np.float32))


@pytest.mark.parametrize(
    ("buckets", "said"),
    [
        ({"btach": 8}, "batch"),
        ({"batch": 0}, "no bucket"),
        ({"batch": ()}, "no bucket"),
        ({"batch": (4, -1)}, "no bucket"),
        ({"batch": "powers of three"}, "powers of two"),
        ({"batch": 2.5}, "no bucket"),
    ],
)
def test_buckets_that_are_none(buckets: Any, said: str) -> None:
    model = model_of([RECTIFIER], {"x": ("batch", 8)}, ["y"], opset=18)
    with pytest.raises(ArgumentError, match=said):
        syclsched.compile(model, devices="cpu", buckets=buckets)
