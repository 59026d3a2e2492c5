# SPDX-License-Identifier: Apache-2.0
"""Import of parts of a com.microsoft node as ONNX's own operators, and refusal of unsupported attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from syclsched.errors import did_you_mean
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, importer_of
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Fused activation -> its attributes, in the order of ``activation_params``.
_ACTIVATIONS: Final = {
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish", "Gelu"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "Celu", "ThresholdedRelu"), ("alpha",)),
    "Selu": ("alpha", "gamma"),
    "HardSigmoid": ("alpha", "beta"),
}


def standard(b: NetworkBuilder, node: ModelNode, operator: str, inputs: Names, **attributes: Any) -> Names:
    """Import a node's inputs as one of ONNX's own operators, with the node's attributes and others."""
    own = replace(node, operator=operator, domain="", attributes={**node.attributes, **attributes})
    importer = importer_of(own)
    assert importer is not None, operator
    return importer(b, own, Inputs(b, inputs))


def first(results: Names) -> str:
    """Return the first result of an importer."""
    assert results[0] is not None
    return results[0]


def activated(b: NetworkBuilder, node: ModelNode, x: str, parameters: Sequence[float] | None = None) -> str:
    """Apply a node's fused activation; its parameters are given, or are attributes such as ``activation_alpha``."""
    name = node.text("activation")
    if not name:
        return x
    if name == "Clip":
        if parameters is None or len(parameters) != 2:
            raise b.wrong(f"activation_params are {parameters or ()}, expected the two bounds of Clip")
        low, high = parameters
        return b.elementwise(("clip", float(low), float(high), 0), x)
    if name not in _ACTIVATIONS:
        known = ("Clip", *_ACTIVATIONS)
        raise b.wrong(
            f"its activation {name!r} is not supported",
            hint=f"{did_you_mean(name, known)}Supported: {', '.join(known)}. Take the model as it was before ONNX "
            "Runtime's optimiser",
        )
    names = _ACTIVATIONS[name]
    given: Sequence[Any] = parameters or [node.attributes.get(f"activation_{each}") for each in names]
    chosen = {each: number for each, number in zip(names, given, strict=False) if number is not None}
    plain = replace(node, attributes={})
    return first(standard(b, plain, name, [x], **chosen))


def refuse(
    b: NetworkBuilder, node: ModelNode, *, inputs: Sequence[tuple[int, str]] = (), attributes: Sequence[str] = ()
) -> None:
    """Raise `ModelError` for inputs that are given and attributes that are not zero, of which there is no import."""
    found = [f"input {name}" for position, name in inputs if position < len(node.inputs) and node.inputs[position]]
    found += [f"attribute {name} ({node.attributes[name]})" for name in attributes if node.attributes.get(name)]
    if found:
        raise b.wrong(
            f"{', '.join(found)}: not supported",
            hint="Export or optimise the model without, or take it as it was before ONNX Runtime's optimiser",
        )


def channels_first(b: NetworkBuilder, x: str) -> str:
    """Return (batch, ..., channels) as (batch, channels, ...)."""
    rank = len(b.shape(x))
    return b.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(b: NetworkBuilder, x: str) -> str:
    """Return (batch, channels, ...) as (batch, ..., channels)."""
    rank = len(b.shape(x))
    return b.transpose(x, (0, *range(2, rank), 1))
