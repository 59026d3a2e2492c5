# SPDX-License-Identifier: Apache-2.0
"""Models of one com.microsoft node, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from support.beside_runtime import same_as_runtime
from support.host_evaluation import evaluate
from support.repeatable import generator
from support.small_models import imported, model_of
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT

RANDOM = generator(23)


def same(
    operator: str,
    inputs: dict[str, Any],
    outputs: str = "y",
    *,
    constants: dict[str, Any] | None = None,
    domain: str = MICROSOFT,
    version: int = 17,
    units: int = 0,
    order: str | None = None,
    compared: str | None = None,
    **attributes: Any,
) -> None:
    """Compare one node with ONNX Runtime; outputs and inputs named ``_`` are omitted."""
    names = [("" if name == "_" else name) for name in (order.split() if order else [*inputs, *(constants or {})])]
    made = [("" if name == "_" else name) for name in outputs.split()]
    node = helper.make_node(operator, names, made, domain=domain, **attributes)
    results = compared.split() if compared else [name for name in made if name]
    same_as_runtime([node], inputs, results, version, constants, units=units)


def whole(*shape: int, dtype: str = "uint8") -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def scale(value: float) -> Any:
    return np.float32(value)


def by_hand(node: Any, inputs: dict[str, Any], constants: dict[str, Any] | None = None) -> Any:
    """Return the result of a node that ONNX Runtime supports on GPUs only."""
    dtypes = {name: NUMBERS[value.dtype.name] for name, value in inputs.items()}
    model = model_of([node], {name: value.shape for name, value in inputs.items()}, ["y"], constants, dtypes=dtypes)
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    network = imported(model)
    return evaluate(network, {name: inputs[name] for name in network.inputs})["y"]
