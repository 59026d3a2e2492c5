# SPDX-License-Identifier: Apache-2.0
"""Hashable descriptions of oneDNN primitives; equal requests share one primitive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from syclsched.kernels.onednn.post_ops import Binary, PostOp
from syclsched.kernels.onednn.tensors import Tensor

#: Requests that the library refused in this process, and why; later plans choose other implementations. An unforeseen
#: case thus costs only one failure, in calibration or in the first plan.
REFUSED: Final[dict[PrimitiveRequest, str]] = {}
_MOST_REFUSED: Final = 1000

Setting = str | int | float | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PrimitiveArgument:
    """A tensor passed to a primitive when it runs."""

    parameter: str  # the operation's parameter
    index: int  # oneDNN's argument number
    tensor: Tensor  # one without strides has the layout that the library chooses


@dataclass(frozen=True, slots=True)
class QuantisationArgument:
    """Scales or zero points of another argument, passed when the primitive runs."""

    parameter: str  # the operation's parameter
    index: int  # oneDNN's argument number of scales or of zero points, with that of the other argument
    tensor: Tensor
    mask: int  # bits of the axes along which they vary


@dataclass(frozen=True, slots=True)
class PrimitiveRequest:
    """The complete description of a primitive."""

    kind: str  # a key of `creation.CREATORS`, or "reorder"
    #: Tensors read and written; those of post-ops come with `post_ops`.
    arguments: tuple[PrimitiveArgument, ...]
    settings: tuple[Setting, ...] = ()  # further arguments of the creating function, in order
    post_ops: tuple[PostOp, ...] = ()  # applied to the result in order
    quantisation: tuple[QuantisationArgument, ...] = ()

    def tensor(self, index: int) -> Tensor | None:
        """Return the tensor of an argument number, or None if there is none."""
        return next((a.tensor for a in self.arguments if a.index == index), None)

    def all_arguments(self) -> tuple[PrimitiveArgument, ...]:
        """Return all arguments, those of post-ops included."""
        from syclsched.kernels.onednn.c_api import post_op_source

        fused = (
            PrimitiveArgument(op.parameter, post_op_source(index), op.other)
            for index, op in enumerate(self.post_ops)
            if isinstance(op, Binary)
        )
        numbers = (PrimitiveArgument(each.parameter, each.index, each.tensor) for each in self.quantisation)
        return (*self.arguments, *fused, *numbers)


def note_refusal(request: PrimitiveRequest, why: str) -> None:
    """Record that the library does not create a primitive on CPU devices."""
    if len(REFUSED) < _MOST_REFUSED:
        REFUSED[request] = why
