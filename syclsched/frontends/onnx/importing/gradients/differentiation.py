# SPDX-License-Identifier: Apache-2.0
"""Reverse sweep over the nodes of a network: the gradients of wanted values, by rules of each kind of node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from syclsched.errors import GradientError, SyclschedError
from syclsched.frontends.onnx.importing.gradients import (  # noqa: F401  # they register their rules
    elementwise,
    movement,
    normalisation,
    picking,
    products,
    recurrence,
    reductions,
)
from syclsched.frontends.onnx.importing.gradients.loops import register_loops
from syclsched.frontends.onnx.importing.gradients.rules import no_gradient, rule_of
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode


def differentiate(
    b: NetworkBuilder, nodes: Sequence[CanonicalNode], gradients: Mapping[str, str], wanted: Collection[str]
) -> dict[str, str]:
    """Add the backward pass of nodes, in topological order, to a builder that has their values.

    ``gradients`` are those of some results, by value. Returns the gradient of each wanted value that the results depend
    on. Raises `GradientError`, which names the node, if one between a wanted value and a result has no gradient.
    """
    moving = _dependent(b, nodes, wanted)
    parts = {name: [gradient] for name, gradient in gradients.items()}
    #: For each value the reader whose gradient was found last: the sum is of its part of a batch, and of its layer.
    reader: dict[str, str] = {}
    found: dict[str, str] = {}
    for node in reversed(nodes):
        given = [None if name is None else _sum(b, parts.pop(name, []), reader.get(name)) for name in node.outputs]
        asked = [name is not None and name in moving for name in node.inputs]
        if not any(asked) or all(each is None for each in given):
            continue
        label = ", ".join(node.origin) or node.name
        b.begin(f"gradient of {node.name}", f"gradient of {label}")
        try:
            made = rule_of(node)(b, node, given, asked)
        except SyclschedError as error:
            hint = error.hint if isinstance(error, GradientError) else None
            raise no_gradient(node, error.what, hint=hint) from error
        b.end([], [])
        for name, gradient, is_asked in zip(node.inputs, made, asked, strict=False):
            if is_asked and gradient is not None and name is not None:
                parts.setdefault(name, []).append(gradient)
                reader[name] = node.name
    for name in wanted:
        total = _sum(b, parts.get(name, []), reader.get(name))
        if total is not None:
            found[name] = total
    return found


def _dependent(b: NetworkBuilder, nodes: Sequence[CanonicalNode], wanted: Collection[str]) -> set[str]:
    """Return the floating-point values that depend on wanted ones."""
    found = set(wanted)
    for node in nodes:
        if any(name in found for name in node.inputs):
            found.update(name for name in node.outputs if name is not None and b.dtype(name).startswith("float"))
    return found


def _sum(b: NetworkBuilder, parts: Sequence[str], reader: str | None) -> str | None:
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    b.begin(f"gradient of {reader}", "sum of gradients")
    made = b.elementwise(("add", *range(len(parts))), *parts)
    b.end([], [])
    return made


register_loops(differentiate)
