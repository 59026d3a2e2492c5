# SPDX-License-Identifier: Apache-2.0
"""What a run is watched for, as its caller chooses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Safeguards:
    """How a run is watched over.

    Parameters
    ----------
    debug : bool
        Do one instruction at a time, and check after each that it wrote nothing but what it declares.
    nan_guard : bool
        Do one instruction at a time, and let the first task fail that writes a NaN or an infinity.
    """

    debug: bool = False
    nan_guard: bool = False

    @property
    def stepped(self) -> bool:
        """Whether instructions are done one at a time."""
        return self.debug or self.nan_guard


#: Nothing is asked for.
USUAL = Safeguards()
