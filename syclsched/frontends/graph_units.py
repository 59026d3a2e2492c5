# SPDX-License-Identifier: Apache-2.0
"""Units of the numbers in graph files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.errors import FormatError
from syclsched.model.cost_only import ANY_DEVICE, MAX_SECONDS, REFERENCE_LINK_BYTES_PER_S, StatedCost

#: Default time unit, in seconds, of formats that define none. If it were 1 s, a communication cost of a few units would
#: be more bytes than devices have memory.
TIME_UNIT_S = 1e-3


@dataclass(frozen=True, slots=True)
class Units:
    """Units of numbers without a unit, and whether costs are scaled to devices."""

    time_s: float = TIME_UNIT_S  # seconds per unit of time (``cost`` or ``weight`` of a node, the numbers of STG)
    #: Bytes per unit of communication (``cost`` or ``weight`` of an edge); by default the bytes that the reference link
    #: transfers in one unit of time.
    communication_bytes: float | None = None
    #: Use costs without a device unscaled on every device, instead of scaling them from the reference core.
    same_speed: bool = False
    #: For DOT and GraphML: the attributes that hold the cost of a task and of an edge in these units, instead of the
    #: built-in attribute names.
    task_cost: str | None = None
    edge_cost: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("unit of time", self.time_s), ("unit of communication", self.communication_bytes)):
            if value is not None and not 0.0 < value <= MAX_SECONDS:
                raise FormatError(f"the {name} is {value!r}, expected a number above 0 to {MAX_SECONDS:g}")

    @property
    def bytes(self) -> float:
        """Bytes per unit of communication."""
        if self.communication_bytes is not None:
            return self.communication_bytes
        return self.time_s * REFERENCE_LINK_BYTES_PER_S

    def cost(self, seconds: float | None, on: Mapping[str, float] | None = None, cores: float = 1.0) -> StatedCost:
        """Return the cost stated in a file."""
        if self.same_speed and seconds is not None:
            return StatedCost(None, {ANY_DEVICE: seconds, **(on or {})}, cores)
        return StatedCost(seconds, on or {}, cores)
