# SPDX-License-Identifier: Apache-2.0
"""Registry of gradient rules: for each kind of canonical node, its vector-Jacobian product as further nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from syclsched.errors import GradientError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode

#: Names of values; None for a missing one.
Names = Sequence[str | None]
#: Function of the builder, a node, the gradients of its outputs, and whether each input's is wanted; it adds nodes to
#: the builder and returns the gradient of each input: None if it is zero or not wanted.
Rule = Callable[[NetworkBuilder, CanonicalNode, Names, Sequence[bool]], Names]

_RULES: Final[dict[str, Rule]] = {}


def gradient_of(*kinds: str) -> Callable[[Rule], Rule]:
    """Register the rule of kinds of canonical nodes."""

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            _RULES[kind] = rule
        return rule

    return register


def rule_of(node: CanonicalNode) -> Rule:
    """Return a node's rule; raise `GradientError` if there is none."""
    found = _RULES.get(node.kind)
    if found is None:
        raise no_gradient(node, f"{node.kind} has no gradient")
    return found


def no_gradient(node: CanonicalNode, what: str, *, hint: str | None = None) -> GradientError:
    """Return the error for a node without a gradient."""
    return GradientError(
        what,
        where=f"node {', '.join(node.origin) or node.name}",
        hint=hint or "Freeze the parameters before it, or replace the node",
    )


def sum_to(b: NetworkBuilder, gradient: str, shape: tuple[int, ...]) -> str:
    """Return a gradient summed over the axes along which a value of a shape was broadcast."""
    given = b.shape(gradient)
    if given == shape:
        return gradient
    missing = len(given) - len(shape)
    axes = [axis for axis, n in enumerate(given) if axis < missing or (n != 1 and shape[axis - missing] == 1)]
    return b.reshape(b.reduce("sum", gradient, axes) if axes else gradient, shape)
