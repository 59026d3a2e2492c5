# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose kernels do not overlap become matrix products; others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node


def upsampling(extents: tuple[int, ...], kernel: tuple[int, ...], outside: int, bias: bool, **attributes: Any) -> Any:
    """Return a model: convolution, rectifier, transposed convolution, sigmoid."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((16, 3, *(1 for _ in extents))).astype(np.float32),
        "v": (random.standard_normal((16, outside // attributes.get("group", 1), *kernel)) / 4).astype(np.float32),
        "b": random.standard_normal(outside).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], ["h"]),
        node("Relu", ["h"], ["i"]),
        node("ConvTranspose", ["i", "v", *(["b"] if bias else [])], ["j"], **attributes),
        node("Sigmoid", ["j"], ["y"]),
    ]
    return model_of(nodes, {"x": (2, 3, *extents)}, ["y"], constants)


def has_product(model: Any) -> bool:
    kinds = [each.kind for each in rewrite(imported(model)).network.nodes]
    assert ("matmul" in kinds) != ("conv_transpose" in kinds)
    return "matmul" in kinds


def check(model: Any, extents: tuple[int, ...], *, is_product: bool) -> None:
    assert has_product(model) == is_product
    x = np.random.default_rng(1).standard_normal((2, 3, *extents)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    for without in (["onednn"], ["opencl-c"]):
        with syclsched.compile(model, devices="cpu", autotune=False, without=without) as compiled:
            found = compiled(x)["y"]
            assert found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("extents", "kernel"), [((7, 9), (2, 2)), ((5, 6), (3, 2)), ((6, 5), (1, 4)), ((11,), (3,)), ((6, 1), (2, 1))]
)
@pytest.mark.parametrize(("outside", "bias"), [(1, True), (8, False), (24, True)])
def test_disjoint_kernels(extents: tuple[int, ...], kernel: tuple[int, ...], outside: int, bias: bool) -> None:
    check(upsampling(extents, kernel, outside, bias, strides=[*kernel]), extents, is_product=True)


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 1]},
        {"strides": [3, 3]},
        {"strides": [2, 2], "pads": [0, 1, 0, 0]},
        {"strides": [2, 2], "output_padding": [1, 0]},
        {"strides": [2, 2], "dilations": [2, 1]},
    ],
)
def test_others(attributes: dict[str, Any]) -> None:
    check(upsampling((7, 9), (2, 2), 8, True, **attributes), (7, 9), is_product=False)


def test_groups_stay() -> None:
    assert not has_product(upsampling((7, 9), (2, 2), 8, True, strides=[2, 2], group=2))
