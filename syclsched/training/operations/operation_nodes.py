# SPDX-License-Identifier: Apache-2.0
"""Nodes of operations: canonical ones for operations of the library, and a node of their own for all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.shapes import ShapeDtype
from syclsched.kernels.common import ALL_DTYPES
from syclsched.model.operation import Operation
from syclsched.training.operations.library_nodes import emitter_of


def emit_operation(
    b: NetworkBuilder,
    operation: Operation,
    reads: Mapping[str, str],
    scalars: Mapping[str, Any],
    results: Mapping[str, ShapeDtype],
) -> dict[str, str]:
    """Add the nodes of an operation's call to a builder that has the values it reads.

    ``reads`` and ``scalars`` have the value of each parameter that is read or updated, and of each scalar; ``results``
    shape and dtype of each that is written or updated. Returns the new values of these, in the order of the parameters.
    """
    emit = emitter_of(operation)
    if emit is not None and all(dtype in ALL_DTYPES for _, dtype in results.values()):
        return emit(b, reads, scalars, results)
    written = [each.name for each in operation.parameters if each.mode is not None and each.mode.writes]
    made = b.emit_all(
        "operation",
        [reads[each.name] for each in operation.parameters if each.mode is not None and each.mode.reads],
        made=tuple(results[name] for name in written),
        operation=operation,
        scalars=tuple(scalars.items()),
        results=tuple(results[name] for name in written),
    )
    return {name: value for name, value in zip(written, made, strict=True) if value is not None}
