# SPDX-License-Identifier: Apache-2.0
"""Gradients of operations: their own gradient functions, called with symbolic arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from syclsched.errors import GradientError, SyclschedError
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient, sum_to
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.model.operation import Operation
from syclsched.model.operation_parts.gradient_function import gradient_arguments
from syclsched.training.operations.linear_algebra import LIBRARY_GRADIENTS
from syclsched.training.operations.symbolic_array import SymbolicArray


@gradient_of("operation")
def _operation(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    operation: Operation = node.attributes["operation"]
    function = operation.gradient_function
    if function is None and operation.recipe is not None:
        function = LIBRARY_GRADIENTS.get(operation.recipe[0])
    if function is None:
        raise no_gradient(
            node,
            f"operation {operation.name!r} has no gradient",
            hint="Make it one with a gradient (@syclsched.operation, @name.gradient), or train no parameter before it",
        )
    given = _arguments(b, node, gradients, operation, function)
    try:
        found = function(**given)
    except SyclschedError as error:
        raise no_gradient(node, f"its gradient fails: {error.what}", hint=error.hint) from error
    except Exception as error:
        raise no_gradient(node, f"its gradient raises {type(error).__name__}: {error}", hint="Correct it") from error
    return _checked(b, node, operation, found, wanted)


def _arguments(
    b: NetworkBuilder, node: CanonicalNode, gradients: Names, operation: Operation, function: Callable[..., Any]
) -> dict[str, Any]:
    """Return the arguments of a gradient function, which are named by its parameters."""
    before = dict(zip([each.name for each in operation.arrays if _reads(each)], node.inputs, strict=True))
    written = [each.name for each in operation.arrays if each.mode is not None and each.mode.writes]
    after = dict(zip(written, node.outputs, strict=True))
    by_result = dict(zip(written, gradients, strict=True))
    scalars, results = dict(node.attributes["scalars"]), dict(zip(written, node.attributes["results"], strict=True))
    given: dict[str, Any] = {}
    modes = {each.name: each.mode for each in operation.parameters}
    for name, (meaning, parameter) in gradient_arguments(operation.name, modes, function).items():
        if meaning == "number":
            given[name] = scalars[parameter]
            continue
        value = {"before": before, "after": after, "gradient": by_result}[meaning][parameter]
        if value is None and meaning == "gradient":  # the loss does not depend on it
            value = b.filled(*results[parameter])
        given[name] = SymbolicArray(b, (value or "",))
    return given


def _reads(parameter: Any) -> bool:
    return bool(parameter.mode.reads)


def _checked(
    b: NetworkBuilder, node: CanonicalNode, operation: Operation, found: Any, wanted: Sequence[bool]
) -> list[str | None]:
    """Return the values that a gradient function has returned, one for each input."""
    names = [each.name for each in operation.arrays if _reads(each)]
    made = found if isinstance(found, tuple | list) else (found,)
    if len(made) != len(names):
        raise _wrong(node, f"its gradient returns {len(made)} of {len(names)} values", names)
    values: list[str | None] = []
    for name, value, given, is_wanted in zip(names, node.inputs, made, wanted, strict=True):
        if given is None or not is_wanted:
            values.append(None)
            continue
        shape, dtype = b.shape(value or ""), b.dtype(value or "")
        if isinstance(given, int | float | np.generic | np.ndarray):
            given = SymbolicArray(b, (b.constant(np.broadcast_to(np.asarray(given, dtype), shape)),))
        if not isinstance(given, SymbolicArray):
            raise _wrong(node, f"its gradient returns {given!r} for {name!r}", names)
        if given.dtype != np.dtype(dtype) or not _sums_to(given.shape, shape):
            what = f"its gradient of {name!r} is {given.dtype} of shape {given.shape}, expected {dtype} of {shape}"
            raise _wrong(node, what, names)
        values.append(sum_to(b, given.value, shape))
    return values


def _sums_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether a target can be broadcast to a shape."""
    try:
        return np.broadcast_shapes(shape, target) == shape
    except ValueError:
        return False


def _wrong(node: CanonicalNode, what: str, names: Sequence[str]) -> GradientError:
    return no_gradient(node, what, hint=f"Return a gradient, or None, for each of {', '.join(names)}, in this order")
