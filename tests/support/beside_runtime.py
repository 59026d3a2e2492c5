# SPDX-License-Identifier: Apache-2.0
"""Comparison of imported models with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper

from support.host_evaluation import evaluate
from support.node_cases import differences
from support.repeatable import generator
from support.small_models import imported, model_of
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS

RANDOM = generator(5)


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def session(model: Any) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def same_as_runtime(
    nodes: Any,
    inputs: dict[str, Any],
    outputs: list[str],
    opset: int,
    constants: dict[str, Any] | None = None,
    *,
    by_host: bool = False,
    units: int = 0,
) -> None:
    """Compare nodes with ONNX Runtime's; whole numbers may differ by some units."""
    dtypes = {name: NUMBERS[value.dtype.name] for name, value in inputs.items()}
    shapes = {name: value.shape for name, value in inputs.items()}
    model = model_of(nodes, shapes, outputs, constants, opset=opset, dtypes=dtypes)
    for domain in sorted({each.domain for each in nodes} - {""}):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    for value in model.graph.output:
        value.type.Clear()
    want = session(model).run(outputs, inputs)
    network = imported(model)
    assert any(each.kind == "reference" for each in network.nodes) == by_host
    got = evaluate(network, {name: inputs[name] for name in network.inputs})
    for name, expected in zip(outputs, want, strict=True):
        if units and got[name].dtype == expected.dtype and got[name].shape == expected.shape:
            assert np.abs(got[name].astype(np.int64) - expected.astype(np.int64)).max() <= units, name
            continue
        assert differences(got[name], expected) is None, (name, differences(got[name], expected))
