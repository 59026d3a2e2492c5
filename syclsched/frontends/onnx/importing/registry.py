# SPDX-License-Identifier: Apache-2.0
"""Which function imports which ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from syclsched.frontends.onnx.importing.builder import Builder
from syclsched.frontends.onnx.model import ModelNode

#: Takes the builder, the node and its inputs (values, None for those left out); returns a value for each output.
Importer = Callable[[Builder, ModelNode, Sequence[str | None]], Sequence[str | None]]

#: The domain of classical machine learning.
ML: Final = "ai.onnx.ml"

#: By domain and operator.
_IMPORTERS: dict[tuple[str, str], Importer] = {}


class NotHereError(Exception):
    """Raised by importers: a form of an operator is left to onnx's reference implementation."""


def imports(*operators: str, domain: str = "") -> Callable[[Importer], Importer]:
    """Register a function for operators of a domain, by default ONNX's own."""

    def register(importer: Importer) -> Importer:
        for operator in operators:
            _IMPORTERS[domain, operator] = importer
        return importer

    return register


def importer_of(node: ModelNode) -> Importer | None:
    """Return what imports a node, or None if nothing does."""
    return _IMPORTERS.get((node.domain, node.operator))


def operators(domain: str = "") -> tuple[str, ...]:
    """Return the operators of a domain, by default ONNX's own, that are imported as canonical nodes."""
    return tuple(sorted(operator for found, operator in _IMPORTERS if found == domain))


def given(b: Builder, inputs: Sequence[str | None], position: int, what: str) -> str:
    """Return an input that has to be there."""
    found = inputs[position] if position < len(inputs) else None
    if found is None:
        raise b.wrong(f"its input {what} is left out")
    return found


def optional(inputs: Sequence[str | None], position: int) -> str | None:
    """Return an input, or None if it is left out."""
    return inputs[position] if position < len(inputs) else None
