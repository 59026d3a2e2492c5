# SPDX-License-Identifier: Apache-2.0
"""Constant weights of integer products, around zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: Products of a byte with weights of at most this size are exact in pairs of 16 bits.
_NARROW: Final = 64


def centred_weights(weights: Any, zero: Any) -> Any:
    """Return 8-bit weights minus their zero point, which broadcasts to them, as int8 if that holds them, else int16."""
    zero, limits = np.asarray(zero), np.iinfo(np.int8)
    if zero.size == 1 and weights.size:
        # Large weights are read once a byte: differences that int8 holds are the same modulo 256.
        one = int(zero.reshape(-1)[0])
        if limits.min <= int(weights.min()) - one and int(weights.max()) - one <= limits.max:
            return (weights.view(np.uint8) - np.uint8(one % 256)).view(np.int8) if one else weights.astype(np.int8)
    wide = weights.astype(np.int16) - zero.astype(np.int16)
    fits = limits.min <= wide.min(initial=0) and wide.max(initial=0) <= limits.max
    return wide.astype(np.int8) if fits else wide


def integer_attributes(weights: Any, result: str) -> dict[str, Any]:
    """Return the attributes of a new integer product or convolution beside those of its windows."""
    narrow = bool(weights.min(initial=0) >= -_NARROW and weights.max(initial=0) <= _NARROW)
    return {"activation": (), "quantise": None, "result": result, "narrow": narrow}
