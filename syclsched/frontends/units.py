# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a graph file mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.errors import FormatError
from syclsched.model.costonly import ANY_DEVICE, MAX_SECONDS, REFERENCE_LINK_BYTES_PER_S, StatedCost

#: Seconds of a unit of time in formats that have none, if nothing else is said. With seconds, a communication cost of a
#: few units would be more bytes than devices have memory.
TIME_UNIT_S = 1e-3


@dataclass(frozen=True, slots=True)
class Units:
    """What numbers without a unit mean, and whether costs are scaled to devices."""

    time_s: float = TIME_UNIT_S  # seconds of one unit of time (``cost`` or ``weight`` of a node, the numbers of STG)
    #: Bytes of one unit of communication (``cost`` or ``weight`` of an edge); by default what the reference link moves
    #: in one unit of time.
    communication_bytes: float | None = None
    #: Take costs without a device as they are on every device, instead of scaling them from the reference core.
    same_speed: bool = False
    #: In DOT and GraphML: the attribute that holds the cost of a task, or what flows along an edge, in these units,
    #: instead of those that are looked for.
    task_cost: str | None = None
    edge_cost: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("unit of time", self.time_s), ("unit of communication", self.communication_bytes)):
            if value is not None and not 0.0 < value <= MAX_SECONDS:
                raise FormatError(f"the {name} is {value!r}, expected a number above 0 to {MAX_SECONDS:g}")

    @property
    def bytes(self) -> float:
        """Bytes of one unit of communication."""
        if self.communication_bytes is not None:
            return self.communication_bytes
        return self.time_s * REFERENCE_LINK_BYTES_PER_S

    def cost(self, seconds: float | None, on: Mapping[str, float] | None = None, cores: float = 1.0) -> StatedCost:
        """Return a cost as the file states it."""
        if self.same_speed and seconds is not None:
            return StatedCost(None, {ANY_DEVICE: seconds, **(on or {})}, cores)
        return StatedCost(seconds, on or {}, cores)
