# SPDX-License-Identifier: Apache-2.0
"""Types that names of the model are bound to during import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorSequence:
    """An ONNX sequence of tensors."""

    items: tuple[str, ...]  # names of values
    dtype: str = "float32"  # of the elements, used if the sequence is empty


#: A value of the network, a sequence of values, or None (an empty optional).
BoundValue = str | TensorSequence | None
