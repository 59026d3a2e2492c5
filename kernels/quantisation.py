# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8-bit quantisation: limits of values, and sums of quantised values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from syclsched.kernels.common import Activation

#: Limits of quantised values.
LIMITS: Final = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True, slots=True)
class QuantisedAddend:
    """Residual of 8 bits or vector of numbers, added to a result that is quantised and dequantised before."""

    own: tuple[float, float]  # scale and zero point of the result before the sum
    dtype: str  # of that result
    #: Scale and zero point of the residual; None for a vector in single precision, one number for each column.
    other: tuple[float, float] | None
    activation: Activation = ()  # of the result before it is quantised
