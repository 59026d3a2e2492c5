# SPDX-License-Identifier: Apache-2.0
"""Steps: instructions in the making, in the plan's global order, before they are numbered and wait."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.model.plan import BufferUse, InstructionKind, LaneKind

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LaneKey:
    """Which lane: device, kind and index."""

    device: str
    kind: LaneKind
    index: int = 0

    @property
    def name(self) -> str:
        """The lane's name in a plan: ``cpu:0``, ``cpu:copy``."""
        return f"{self.device}:{'copy' if self.kind == 'copy' else self.index}"


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction before it has a number and waits; fields as in `Instruction`."""

    kind: InstructionKind
    lane: LaneKey
    task: str | None
    uses: tuple[BufferUse, ...] = ()
    implementation: str | None = None
    duration_s: float = 0.0
    nbytes: int = 0
