# SPDX-License-Identifier: Apache-2.0
"""Gradients of element-wise expressions and of in-place activations."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.errors import GradientError
from syclsched.frontends.onnx.importing.gradients.expressions import derivatives
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient, sum_to
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.kernels.tensor.writing.expression import Expression, inputs_of, substitute


@gradient_of("elementwise")
def _elementwise(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    (gradient,) = gradients
    assert gradient is not None
    inputs = [name for name in node.inputs if name is not None]
    expression, result = node.attributes["expression"], node.outputs[0] or ""
    dtypes = tuple(b.dtype(name) for name in inputs)
    count = len(inputs)
    # The result is at hand; where it stands for the root, nothing is computed again.
    known = count + 1 if isinstance(expression, tuple) and expression[0] != "where" else None
    try:
        found = derivatives(expression, dtypes, count, known)
    except GradientError as error:
        raise no_gradient(node, error.what) from error
    made: list[str | None] = []
    for position, name in enumerate(inputs):
        if not wanted[position] or position not in found:
            made.append(None)
        else:
            each = found[position]
            own = gradient if each == count else _applied(b, each, [*inputs, gradient, result], b.shape(gradient))
            made.append(sum_to(b, own, b.shape(name)))
    return made


def _applied(b: NetworkBuilder, expression: Expression, values: Sequence[str], shape: tuple[int, ...]) -> str:
    """Add an expression of those values that it reads."""
    used = sorted(inputs_of(expression))
    renumbered = substitute(expression, {old: new for new, old in enumerate(used)})
    return b.elementwise(renumbered, *(values[old] for old in used), shape=shape)
