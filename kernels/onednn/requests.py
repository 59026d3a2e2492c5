# SPDX-License-Identifier: Apache-2.0
"""A primitive described whole, as a hashable value: what is made once for equal descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from syclsched.kernels.onednn.post_ops import Binary, PostOp
from syclsched.kernels.onednn.tensors import Tensor

#: What the library of this process has refused to make, and why: plans that are made later leave it to others. So a
#: case that nothing here foresees costs one failure, in calibration or in the first plan, and no more.
REFUSED: Final[dict[Request, str]] = {}
_MOST_REFUSED: Final = 1000

Setting = str | int | float | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor that a primitive is given when it runs."""

    parameter: str  # the operation's parameter
    index: int  # oneDNN's argument number
    tensor: Tensor  # how its data lie; one of any layout is packed beforehand, by `packing.pack`


@dataclass(frozen=True, slots=True)
class Request:
    """A primitive."""

    kind: str  # A key of `creation.CREATORS`
    #: What it reads and writes, in the order its kind says; those of post-ops follow from these.
    arguments: tuple[Argument, ...]
    settings: tuple[Setting, ...] = ()  # what else its kind takes, in order
    post_ops: tuple[PostOp, ...] = ()  # what is fused behind it

    def tensor(self, index: int) -> Tensor | None:
        """Return the tensor that is passed as an argument, or None if there is none."""
        return next((a.tensor for a in self.arguments if a.index == index), None)

    def everything(self) -> tuple[Argument, ...]:
        """Return all arguments, those of post-ops among them."""
        from syclsched.kernels.onednn.names import post_op_source

        fused = (
            Argument(op.parameter, post_op_source(index), op.other)
            for index, op in enumerate(self.post_ops)
            if isinstance(op, Binary)
        )
        return (*self.arguments, *fused)


def note_refusal(request: Request, why: str) -> None:
    """Remember that the library does not make a primitive."""
    if len(REFUSED) < _MOST_REFUSED:
        REFUSED[request] = why
