# SPDX-License-Identifier: Apache-2.0
"""Registry of importer functions by ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Function of the builder, the node and its inputs (None for missing ones) that returns a value for each output.
Importer = Callable[[NetworkBuilder, ModelNode, Sequence[str | None]], Sequence[str | None]]

#: The domain of classical machine learning.
ML: Final = "ai.onnx.ml"

#: (domain, operator) -> importer.
_IMPORTERS: dict[tuple[str, str], Importer] = {}


class UnsupportedFormError(Exception):
    """Raised by importers to leave a form of an operator to onnx's reference implementation."""


def imports(*operators: str, domain: str = "") -> Callable[[Importer], Importer]:
    """Register an importer for operators of a domain, by default ONNX's own."""

    def register(importer: Importer) -> Importer:
        for operator in operators:
            _IMPORTERS[domain, operator] = importer
        return importer

    return register


def importer_of(node: ModelNode) -> Importer | None:
    """Return the importer of a node, or None."""
    return _IMPORTERS.get((node.domain, node.operator))


def operators(domain: str = "") -> tuple[str, ...]:
    """Return the operators of a domain, by default ONNX's own, that have an importer."""
    return tuple(sorted(operator for found, operator in _IMPORTERS if found == domain))


def given(b: NetworkBuilder, inputs: Sequence[str | None], position: int, what: str) -> str:
    """Return a required input; raise `ModelError` if it is missing."""
    found = inputs[position] if position < len(inputs) else None
    if found is None:
        raise b.wrong(f"its input {what} is left out")
    return found


def optional(inputs: Sequence[str | None], position: int) -> str | None:
    """Return an optional input, or None if it is missing."""
    return inputs[position] if position < len(inputs) else None
