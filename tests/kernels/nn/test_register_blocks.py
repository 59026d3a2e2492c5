# SPDX-License-Identifier: Apache-2.0
"""Register blocks for small and large register files: their register counts, and results."""

from __future__ import annotations

import numpy as np
import pytest

import syclsched
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.panels import RegisterBlock

pytestmark = pytest.mark.sycl


@pytest.fixture(params=[True, False], ids=["small", "large"])
def is_small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(panels, "has_small_registers", lambda: request.param)
    return bool(request.param)


def test_sums_of_several_rows_leave_registers_for_operands(is_small: bool) -> None:
    for rows in range(2, 40):
        for columns in (1, 3, 8, 16, 33, 64, 500):
            block = RegisterBlock.of(rows, columns, "float32")
            assert block.rows <= rows and block.columns <= columns
            vectors = block.rows * block.vectors * (2 if is_small and block.width == 16 else 1)
            assert vectors <= (12 if is_small else 28)


def test_lines_of_an_odd_number_of_vectors_take_blocks_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "has_small_registers", lambda: False)
    assert RegisterBlock.of(62, 100, "float32", 7) == RegisterBlock(9, 1, 16)
    assert RegisterBlock.of(62, 128, "float32", 7) == RegisterBlock(7, 2, 16)


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 23])
def test_products_and_convolutions_are_right(is_small: bool, rows: int) -> None:
    onnx = pytest.importorskip("onnx", reason="the models are ONNX models")
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(rows)
    held = {"w": rng.standard_normal((20, 6, 3)), "m": rng.standard_normal((rows, 45))}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
        onnx.helper.make_node("MatMul", ["c", "m"], ["y"]),
    ]
    ends = [("x", [1, 6, rows]), ("y", [1, 20, 45])]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in ends)
    weights = [onnx.numpy_helper.from_array(held[name].astype(np.float32), name) for name in "wm"]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "blocks", [x], [y], weights))
    given = rng.standard_normal((1, 6, rows)).astype(np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False, without=["onednn"]) as compiled:
        found = compiled(given)["y"]
    np.testing.assert_allclose(found, ReferenceEvaluator(model).run(None, {"x": given})[0], rtol=1e-4, atol=1e-4)
