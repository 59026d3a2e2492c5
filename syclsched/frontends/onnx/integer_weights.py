# SPDX-License-Identifier: Apache-2.0
"""Constant weights of integer products, around zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: Products of a byte with weights of at most this size are exact in pairs of 16 bits.
_NARROW: Final = 64


def centred_weights(weights: Any, zero: Any) -> Any:
    """Return 8-bit weights minus their zero point, which broadcasts to them, as int8 if that holds them, else int16."""
    wide = weights.astype(np.int16) - np.asarray(zero, np.int16)
    limits = np.iinfo(np.int8)
    fits = limits.min <= wide.min(initial=0) and wide.max(initial=0) <= limits.max
    return wide.astype(np.int8) if fits else wide


def integer_attributes(weights: Any, result: str) -> dict[str, Any]:
    """Return the attributes of a new integer product or convolution beside those of its windows."""
    narrow = bool((np.abs(weights.astype(np.int16)) <= _NARROW).all())
    return {"activation": (), "quantise": None, "result": result, "narrow": narrow}
