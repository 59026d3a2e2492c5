# SPDX-License-Identifier: Apache-2.0
"""Comparison of a model with ONNX Runtime for new values that determine extents: results, and the number of plans."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from support.repeatable import generator  # noqa: E402
from support.rounding import assert_rounded_alike  # noqa: E402
from support.small_models import model_of  # noqa: E402

node = helper.make_node
TYPES = {"float32": 1, "int64": 7}
RANDOM = generator(0)
ROWS = RANDOM.standard_normal((40, 6)).astype(np.float32)
#: Extents that need plans for bounds of 4, 8 and 32 after one for the first alone.
EXTENTS = (3, 4, 1, 7, 5, 30, 17, 9, 31, 3)
INTEGERS = {
    "zero": 0,
    "one": 1,
    "first": [0],
    "four": [4],
    "lines": [-1, 2, 3],
    "flat": [6],
    "minus": [-1],
    "low": [-1000],
}
CONSTANTS: dict[str, Any] = {name: np.array(value) for name, value in INTEGERS.items()}
CONSTANTS |= {"w": ROWS[:4, :3].copy(), "hot": np.array([1, 5], np.float32), "rows": ROWS}
CONSTANTS |= {
    "kernels": RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "grid": RANDOM.random((1, 4, 2, 2), np.float32),
}


def array(value: Any, kind: str) -> Any:
    return np.array(value, kind)


class Both:
    """A model compiled, and in ONNX Runtime or by ONNX's definition; with the number of plans made."""

    def __init__(
        self,
        nodes: Iterable[Any],
        first: Mapping[str, Any],
        outputs: Mapping[str, str],
        *,
        by_definition: bool = False,
    ) -> None:
        kinds = {name: TYPES[value.dtype.name] for name, value in first.items()}
        kinds |= {name: TYPES[kind] for name, kind in outputs.items()}
        shapes = {name: value.shape for name, value in first.items()}
        model = model_of(list(nodes), shapes, list(outputs), CONSTANTS, opset=19, dtypes=kinds)
        self.session: Any = ReferenceEvaluator(model)
        if not by_definition:
            self.session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.compiled = syclsched.compile(model, devices="cpu", autotune=False)
        self.outputs, self.plans = list(outputs), 0
        make = self.compiled._builder.make

        def counted(*arguments: Any) -> Any:
            made = make(*arguments)
            self.plans += 1
            return made

        self.compiled._builder.make = counted  # type: ignore[method-assign]

    def wanted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self.outputs, self.session.run(None, dict(values)), strict=True))

    def check(self, values: Mapping[str, Any], found: Mapping[str, Any] | None = None) -> None:
        found = self.compiled(dict(values)) if found is None else found
        for name, wanted in self.wanted(values).items():
            assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
            assert_rounded_alike(found[name], wanted)


def check(
    nodes: Iterable[Any],
    outputs: Mapping[str, str],
    values: list[dict[str, Any]],
    most: int,
    *,
    by_definition: bool = False,
) -> None:
    """Compare for some values, with a maximum number of plans; and again, without new plans."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = Both(nodes, values[0], outputs, by_definition=by_definition)
        with both.compiled:
            for each in values:
                both.check(each)
            assert both.plans <= most
            made = both.plans
            for each in values:
                both.check(each)
            assert both.plans == made
            assert not both.compiled._plans.by_value.inputs
            assert len(both.compiled.kept_shapes) == 1


def x(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def two(*numbers: int) -> Any:
    return np.array(numbers, np.int64)
