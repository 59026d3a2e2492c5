# SPDX-License-Identifier: Apache-2.0
"""Ensembles of trees, compared with descents in Python, one row after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described

from syclsched.errors import ArgumentError
from syclsched.kernels.trees import RULES, trees
from syclsched.model.operation import Operation, Signature

Case = tuple[Operation, dict[str, Any], Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return an operation, its arrays, and the result."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rule, missing = draw(st.sampled_from(RULES)), draw(st.booleans())
    sparse = draw(st.booleans())
    combine = "sum" if sparse else draw(st.sampled_from(("sum", "min", "max")))
    rows, features, count = draw(st.integers(0, 40)), draw(st.integers(1, 5)), draw(st.sampled_from((1, 3, 70)))
    dtype = draw(st.sampled_from(("float32", "float64")))
    nodes: list[list[int]] = []
    thresholds: list[float] = []
    roots, leaves = [], 0
    for _ in range(draw(st.integers(1, 11))):
        first, deepest, waiting = len(nodes), 0, [0]
        nodes.append([0, 0, 0])
        thresholds.append(np.nan)
        for at in range(first, first + 40):
            if at == len(nodes):
                break
            level = waiting[at - first]
            deepest = max(deepest, level)
            if level == 4 or random.random() < 0.3:
                nodes[at] = [0, at, leaves]
                leaves += 1
                continue
            feature, flags = int(random.integers(features)), int(random.integers(4))
            if rule == "both":
                feature = 4 * feature + flags
            elif missing:
                feature = 2 * feature + flags % 2
            nodes[at] = [feature, len(nodes), -1]
            thresholds[at] = float(random.integers(-2, 3))
            for _ in range(2):
                nodes.append([0, 0, 0])
                thresholds.append(np.nan)
                waiting.append(level + 1)
        roots.append((first, deepest))
    x = random.integers(-3, 4, (rows, features)).astype(dtype)
    x[random.random(x.shape) < 0.2] = np.nan
    arrays = {
        "y": np.full((rows, count), 7, dtype),
        "x": x,
        "nodes": np.array(nodes, np.int32),
        "thresholds": np.array(thresholds, dtype),
        "roots": np.array(roots, np.int32),
        "weights": random.standard_normal((leaves, 1 if sparse else count)).astype(dtype),
        **({"columns": random.integers(count, size=leaves).astype(np.int32)} if sparse else {}),
    }
    return trees(rule, combine, missing=missing, sparse=sparse), arrays, wanted(arrays, rule, combine, missing)


def wanted(arrays: dict[str, Any], rule: str, combine: str, missing: bool) -> Any:
    """Descend every tree with every row."""
    nodes, weights = arrays["nodes"].tolist(), arrays["weights"].astype(np.float64)
    flags = 2 if rule == "both" else int(missing)
    made = np.full(arrays["y"].shape, {"sum": 0.0, "min": np.inf, "max": -np.inf}[combine])
    for row, x in enumerate(arrays["x"].tolist()):
        for root, _ in arrays["roots"].tolist():
            place = root
            while nodes[place][1] != place:
                feature, child, _ = nodes[place]
                value, threshold = x[feature >> flags], arrays["thresholds"][place]
                is_equal = rule == "==" or (rule == "both" and feature & 2)
                is_true = value == threshold if is_equal else value <= threshold
                place = child + bool(is_true or (flags and value != value and feature % 2 == 1))
            leaf = nodes[place][2]
            if "columns" in arrays:
                made[row, arrays["columns"][leaf]] += weights[leaf, 0]
            else:
                made[row] = {"sum": np.add, "min": np.minimum, "max": np.maximum}[combine](made[row], weights[leaf])
    return made


@given(cases())
@settings(max_examples=examples(50), deadline=None)
def test_the_host_descends_trees(case: Case) -> None:
    operation, arrays, y = case
    assert operation.check is not None and operation.check(described(operation, arrays)) is None
    operation.implementation("numpy").load(described(operation, arrays))(**arrays)
    close(arrays["y"], y, str(arrays["y"].dtype), 10)


@pytest.mark.sycl
@given(case=cases())
@settings(max_examples=examples(10), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_descend_trees(run: Any, case: Case) -> None:
    operation, arrays, y = case
    close(run(operation, "opencl-c", arrays)["y"], y, str(arrays["y"].dtype), 10)


def test_wrong_shapes_are_refused() -> None:
    shapes = {"y": (3, 2), "x": (3, 4), "nodes": (5, 3), "thresholds": (5,), "roots": (1, 2), "weights": (3, 2)}
    dtypes = {"nodes": "int32", "roots": "int32"}
    operation = trees("<=")

    def said(**changed: tuple[int, ...]) -> str | None:
        given = {**shapes, **changed}
        assert operation.check is not None
        return operation.check(Signature(given, {name: dtypes.get(name, "float32") for name in given}))

    assert said() is None
    assert "same rows" in (said(x=(2, 4)) or "")
    assert "3 columns and a threshold each" in (said(thresholds=(4,)) or "")
    assert "are for 2 columns" in (said(weights=(3, 1)) or "")
    with pytest.raises(ArgumentError, match="compare by '<'"):
        trees("<")
    with pytest.raises(ArgumentError, match="only sums"):
        trees("<=", "min", sparse=True)
