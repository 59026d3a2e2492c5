# SPDX-License-Identifier: Apache-2.0
"""Models of one ai.onnx.ml node, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

from onnx import helper

from support.beside_runtime import session
from support.host_evaluation import evaluate
from support.node_cases import differences
from support.small_models import imported, model_of
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS


def model(operator: str, inputs: dict[str, Any], outputs: int = 1, *, version: int = 3, **attributes: Any) -> Any:
    """Return a model of one node, of a version of ai.onnx.ml."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, list(inputs), names, domain="ai.onnx.ml", **attributes)
    dtypes = {name: NUMBERS[value.dtype.name] for name, value in inputs.items()}
    made = model_of([node], {name: value.shape for name, value in inputs.items()}, names, dtypes=dtypes)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    for value in made.graph.output:
        value.type.Clear()
    return made


def same(operator: str, *values: Any, outputs: int = 1, by_host: bool = False, **attributes: Any) -> None:
    """Compare a node with ONNX Runtime."""
    inputs = {f"x{i}": value for i, value in enumerate(values)}
    made = model(operator, inputs, outputs, **attributes)
    network = imported(made)
    assert any(each.kind == "reference" for each in network.nodes) == by_host
    got = evaluate(network, {name: inputs[name] for name in network.inputs})
    for name, want in zip(network.outputs, session(made).run(None, inputs), strict=True):
        assert got[name].dtype == want.dtype
        assert differences(got[name], want) is None, (name, differences(got[name], want))
