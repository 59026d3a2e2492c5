# SPDX-License-Identifier: Apache-2.0
"""Registry of importer functions by ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Names of a node's inputs or outputs; None for missing ones.
Names = Sequence[str | None]


class Inputs:
    """The inputs of a node under import."""

    def __init__(self, b: NetworkBuilder, names: Names) -> None:
        self._b = b
        self._names = names

    def required(self, position: int, what: str) -> str:
        """Return a required input; raise `ModelError` if it is missing."""
        found = self.optional(position)
        if found is None:
            raise self._b.wrong(f"its input {what} is left out")
        return found

    def first(self, *names: str) -> list[str]:
        """Return the first inputs, all required; the names are for error messages."""
        return [self.required(position, name) for position, name in enumerate(names)]

    def given(self) -> list[str]:
        """Return the inputs that are there."""
        return [each for each in self._names if each is not None]

    def changed(self, change: Callable[[str], str]) -> Inputs:
        """Return the inputs, each changed by a function."""
        return Inputs(self._b, [None if each is None else change(each) for each in self._names])

    def all(self, what: str) -> list[str]:
        """Return all inputs, which must be present."""
        return self.first(*(f"{what}{position}" for position in range(len(self._names))))

    def optional(self, position: int) -> str | None:
        """Return an optional input, or None if it is missing."""
        return self._names[position] if position < len(self._names) else None


#: Function of the builder, the node and its inputs that returns a value for each output.
Importer = Callable[[NetworkBuilder, ModelNode, Inputs], Names]

#: The domain of classical machine learning.
ML: Final = "ai.onnx.ml"
#: The domain of gradients and optimisers.
TRAINING: Final = "ai.onnx.preview.training"

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
