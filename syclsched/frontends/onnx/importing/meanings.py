# SPDX-License-Identifier: Apache-2.0
"""What a name of the model can stand for while it is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorSequence:
    """A sequence of values."""

    items: tuple[str, ...]  # names of values
    dtype: str = "float32"  # of an element, where there is none


#: A value of the network, a sequence of such, or nothing (an optional that is empty).
Meaning = str | TensorSequence | None
