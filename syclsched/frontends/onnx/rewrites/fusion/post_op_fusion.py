# SPDX-License-Identifier: Apache-2.0
"""Fusion of post-ops (biases, sums, activations) into convolutions, matrix products and normalisations."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.affine import vector_along
from syclsched.frontends.onnx.rewrites.fusion.expressions import count, is_input, number, set_expression
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import split_expression

#: Activation operators that libraries support as post-ops; all others stay element-wise nodes.
POST_OP_ACTIVATIONS: Final = frozenset(
    {
        *("relu", "leaky_relu", "elu", "clip", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "hard_sigmoid"),
        *("hard_swish", "softplus", "mish", "exp", "log", "sqrt", "abs", "square", "scale"),
    }
)
#: Default parameters of activations.
_DEFAULTS: Final[dict[str, tuple[float, ...]]] = {"leaky_relu": (0.01,), "elu": (1.0,), "hard_sigmoid": (0.2, 0.5)}
#: Kinds that support activations and sums.
INTEGER_KINDS: Final = ("integer_matmul", "integer_conv")
POST_OP_KINDS: Final = ("conv", "conv_transpose", "matmul", *INTEGER_KINDS)
#: Kinds that support activations only.
ACTIVATED_KINDS: Final = ("pool", "batch_norm", "group_norm")


def fuse_post_ops(draft: NetworkDraft) -> None:
    """Fuse activations and sums into the preceding convolution or matrix product.

    An addend of the same shape becomes a residual (of convolutions and matrix products), a smaller one a bias. In a sum
    of two convolutions, the later one takes the other as its residual. Average poolings and normalisations take
    activations only.
    """
    # Backwards, so that later nodes take the results of earlier ones as residuals.
    for node in reversed(tuple(draft.each(*POST_OP_KINDS, *ACTIVATED_KINDS))):
        if node.kind == "pool" and node.attributes["mode"] != "average":
            continue
        current = draft.nodes.get(node.name)
        while current is not None:
            current = absorb_reader(draft, current)


def absorb_reader(draft: NetworkDraft, node: CanonicalNode) -> CanonicalNode | None:
    """Fuse operators of a node's only reader as far as possible; return the changed node, or None if unchanged."""
    output = node.outputs[0]
    readers = [] if output is None else draft.readers(output)
    if output is None or draft.is_output(output) or len(readers) != 1 or readers[0].kind != "elementwise":
        return None
    if node.kind in INTEGER_KINDS and draft.dtype(output) != "float32":
        return None
    reader = readers[0]
    made = reader.outputs[0]
    inputs = tuple(name for name in reader.inputs if name is not None)
    index = inputs.index(output)
    expression = reader.attributes["expression"]
    if made is None or count(expression, index) != 1 or inputs.count(output) != 1:
        return None
    if draft.shape(made) != draft.shape(output) or any(draft.dtype(x) != draft.dtype(made) for x in inputs):
        return None
    absorbed = _Absorbed(draft, node)
    rest = absorbed.absorb_innermost(expression, index, inputs)
    if rest is None:
        return None
    node = draft.change(
        node, inputs=absorbed.inputs(), attributes=absorbed.attributes, origin=(*node.origin, *reader.origin)
    )
    for what in absorbed.what:
        draft.record_change(f"{what} of the {node.kind} before it", reader.name)
    if is_input(rest):
        draft.remove(reader)
        return draft.change(node, outputs=(made,))
    set_expression(draft, reader, rest, inputs)
    return node


class _Absorbed:
    """The operators that a node absorbs."""

    def __init__(self, draft: NetworkDraft, node: CanonicalNode) -> None:
        self._draft = draft
        self._node = node
        given = [*node.inputs, None, None, None]
        self._operands = given[:2]
        self._bias, self._residual, self._others = given[2], given[3], node.inputs[4:]
        self.attributes = dict(node.attributes)
        self.what: list[str] = []

    def inputs(self) -> tuple[str | None, ...]:
        """Return the node's inputs including the absorbed ones."""
        given = [*self._operands, self._bias, self._residual, *self._others]
        while given[-1] is None:
            given.pop()
        return tuple(given)

    def absorb_innermost(self, expression: Any, index: int, inputs: tuple[str, ...]) -> Any:
        """Absorb the innermost operators over an input; return the remaining expression, or None if unchanged."""
        path: list[Any] = [expression]
        while not is_input(path[-1]):
            path.append(next(each for each in split_expression(path[-1])[1] if count(each, index)))
        for depth in range(len(path) - 2, -1, -1):
            rest = self._step(path[depth], path[depth + 1], inputs)
            if rest is None:
                break
            # Replace the absorbed operator by its operand.
            path[depth] = rest
            for above in range(depth - 1, -1, -1):
                path[above] = _replaced(path[above], path[above + 1], index)
        return path[0] if self.what else None

    def _step(self, expression: Any, inner: Any, inputs: tuple[str, ...]) -> Any:
        """Absorb an operator over the node's result; return its replacement, or None if it cannot be absorbed."""
        name = expression[0]
        parameters, operands = split_expression(expression)
        if not is_input(inner):
            return None
        if name == "add":
            others = [each for each in operands if each is not inner and each != inner]
            left = [each for each in others if not (is_input(each) and self._add(inputs[each]))]
            if len(left) == len(others):
                return None
            return ("add", inner, *left) if left else inner
        step = activation_step(name, parameters, operands)
        if step is None:
            return None
        self.attributes["activation"] = (*self.attributes.get("activation", ()), step)
        self.what.append(f"{step[0]} is the activation")
        return inner

    def _add(self, value: str) -> bool:
        draft, node = self._draft, self._node
        if self.attributes.get("activation") or self.attributes.get("addend") or node.kind not in POST_OP_KINDS:
            return False
        output = node.outputs[0]
        assert output is not None
        shape, made = draft.shape(value), draft.shape(output)
        if shape == made and node.kind != "conv_transpose" and self._residual is None and value not in draft.constants:
            self._residual = value
            self.what.append("residual")
            return True
        # Libraries add a bias per column; a bias that is constant along rows stays an element-wise node.
        along = math.prod(shape) == 1 or shape[-1:] == made[-1:]
        if "y" in node.attributes.get("interleaved", ()):  # the axes of the result are in another order
            along = along and math.prod(shape[:-1]) == 1
        if node.kind == "matmul" and self._bias is None and len(shape) <= len(made) and along:
            self._bias = value
            self.attributes["beta"] = 1.0
            self.what.append("bias")
            return True
        if node.kind != "matmul" and self._bias is None and value in draft.constants:
            return self._add_vector(value, made)
        return False

    def _add_vector(self, value: str, made: tuple[int, ...]) -> bool:
        """Absorb a per-channel constant as a bias."""
        last = self.attributes.get("channels_last") or self._node.kind == "integer_matmul"
        axis = len(made) - 1 if last else 1
        vector = vector_along(self._draft.constants[value], made, axis)
        if vector is None:
            return False
        self._bias = self._draft.add_constant(vector, value)
        self.what.append("bias")
        return True


def _replaced(expression: Any, below: Any, index: int) -> Any:
    """Return an operator with its operand that contains the input replaced."""
    parameters, operands = split_expression(expression)
    return (expression[0], *parameters, *(below if count(each, index) else each for each in operands))


def activation_step(name: str, parameters: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
    """Return a unary operator, or a product with a number, as an activation step; None for other operators."""
    if name == "mul" and len(operands) == 2:
        factor = next((number(each) for each in operands if number(each) is not None), None)
        return None if factor is None or isinstance(factor, bool) else ("scale", float(factor))
    if name not in POST_OP_ACTIVATIONS or len(operands) != 1:
        return None
    if name == "clip":
        low, high = parameters or (None, None)
        return ("clip", -np.inf if low is None else float(low), np.inf if high is None else float(high))
    return (name, *map(float, parameters or _DEFAULTS.get(name, ())))
