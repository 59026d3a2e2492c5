# SPDX-License-Identifier: Apache-2.0
"""Importer of Gradient: derivatives of a value of the graph, by the reverse sweep over the nodes before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from syclsched.frontends.onnx.importing.gradients.differentiation import differentiate
from syclsched.frontends.onnx.importing.importer_registry import TRAINING
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.scope import BoundValue, Scope, ScopeImporter
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.network import CanonicalNode


def _import_gradient(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    """Import Gradient: the derivatives of the sum of y's elements by xs, where xs and zs have the inputs' values."""
    b = scope.b
    xs, zs, y_name = _names(node, "xs"), _names(node, "zs"), node.text("y")
    if len(node.inputs) != len(xs) + len(zs):
        raise b.wrong(f"{len(node.inputs)} inputs, expected {len(xs) + len(zs)}: the values of xs and zs")
    for name in (*xs, *zs, y_name):
        if not scope.has(name):
            raise b.wrong(f"its attributes name {name!r}, which no node before it makes")
    leaves = [scope.tensor(name) for name in (*xs, *zs)]
    given = [scope.tensor(name) for name in node.inputs]
    y = scope.tensor(y_name)
    for name, value in ((y_name, y), *zip(xs, leaves, strict=False)):
        if b.dtype(value) not in FLOATS:
            raise b.wrong(f"{name!r} has elements of {b.dtype(value)}, and only floating-point values have derivatives")
    nodes = b.nodes_between(leaves, y)
    b.end([], [])
    if given != leaves:
        nodes, names = _copied(b, nodes, dict(zip(leaves, given, strict=True)), f"{node.name}/")
        y = names.get(y, y)
    wanted = given[: len(xs)]
    b.begin(scope.prefixed(node.name), node.label)
    start = b.filled(b.shape(y), b.dtype(y), 1)
    b.end([], [])
    found = differentiate(b, nodes, {y: start}, wanted)
    b.begin(scope.prefixed(node.name), node.label)
    if not found:
        raise b.wrong(f"{y_name!r} depends on none of {', '.join(map(repr, xs))} by nodes of the same graph")
    return [found.get(x) or b.filled(b.shape(x), b.dtype(x)) for x in wanted]


def _names(node: ModelNode, attribute: str) -> tuple[str, ...]:
    found = node.attributes.get(attribute, ())
    if not isinstance(found, tuple) or not all(isinstance(each, str) for each in found):
        raise node.wrong(f"attribute {attribute!r} is {found!r}, expected a list of names")
    return found


def _copied(
    b: NetworkBuilder, nodes: Sequence[CanonicalNode], names: dict[str, str], prefix: str
) -> tuple[list[CanonicalNode], Mapping[str, str]]:
    """Add nodes anew with other names of some values; return them, and the names of all values."""
    made: list[CanonicalNode] = []
    for each in nodes:
        outputs = [name for name in each.outputs if name is not None]
        fresh = {name: b.add_value(replace(b.values[name], name=prefix + name)) for name in outputs}
        copied = replace(
            each,
            name=prefix + each.name,
            inputs=tuple(None if name is None else names.get(name, name) for name in each.inputs),
            outputs=tuple(None if name is None else fresh[name] for name in each.outputs),
        )
        b.add_node(copied, [])
        names |= fresh
        made.append(copied)
    return made, names


def free_differentiated(scope: Scope, nodes: Iterable[ModelNode]) -> None:
    """Bind initialisers by which nodes differentiate to copies that are not known, so that nothing is folded."""
    b = scope.b
    for node in nodes:
        if (node.domain, node.operator) != (TRAINING, "Gradient"):
            continue
        for name in _names(node, "xs"):
            value = scope.meaning(name) if scope.has(name) else None
            if isinstance(value, str) and b.known(value) is not None and b.dtype(value) in FLOATS:
                b.begin(name, f"Identity {name!r}")
                made = b.emit("elementwise", [value], shape=b.shape(value), folded=False, expression=0)
                b.end([], [])
                scope.bind(name, made)


#: Importers of operators whose attributes name values.
GRADIENT_IMPORTERS: Final[dict[str, ScopeImporter]] = {f"{TRAINING}::Gradient": _import_gradient}
