# SPDX-License-Identifier: Apache-2.0
"""Results of one ONNX node by onnx's own reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def node(kind: str, *inputs: np.ndarray | None, opset: int = 21, **attributes: Any) -> np.ndarray:
    """Return the first output of an ONNX node."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    named = {f"i{index}": each for index, each in enumerate(inputs) if each is not None}
    names = [f"i{index}" if each is not None else "" for index, each in enumerate(inputs)]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in named.items()
    ]
    dtype = helper.np_dtype_to_tensor_dtype(next(iter(named.values())).dtype)
    result = helper.make_tensor_value_info("y", dtype, None)
    graph = helper.make_graph([helper.make_node(kind, names, ["y"], **attributes)], "one", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    assert onnx is not None
    return ReferenceEvaluator(model).run(None, named)[0]
