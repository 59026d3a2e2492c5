# SPDX-License-Identifier: Apache-2.0
"""Ways to divide training steps among devices, with predicted times: plain data and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from syclsched.model.text.units import format_seconds

SplitKind = Literal["single", "tasks", "data", "stages"]

#: The choice of the way with the shortest predicted step.
AUTO: Final = "auto"
#: Values of the argument ``split`` of `syclsched.train`.
SPLITS: Final = (AUTO, *get_args(SplitKind))

_WHAT: Final[Mapping[SplitKind, str]] = {
    "single": "all on one device",
    "tasks": "each task where it ends first",
    "data": "samples of each batch",
    "stages": "consecutive layers",
}


@dataclass(frozen=True, slots=True)
class StepSplit:
    """One way to divide a step."""

    kind: SplitKind
    details: str = ""  # such as the samples of each device
    parts: tuple[float, ...] = (1.0,)  # shares of the batch that are computed apart
    stay: Mapping[str, str] = field(default_factory=dict, repr=False)  # devices of tasks
    replicas: tuple[int, ...] = ()  # for each part the replica of the parameters that it reads, if there are several
    step_s: float | None = None  # predicted
    is_rough: bool = False  # whether the prediction is one by a simple policy, and too long to be made again
    refused: str | None = None  # why it was not planned

    @property
    def outcome(self) -> str:
        """The predicted time of a step, or why there is none."""
        if self.step_s is None:
            return f"not planned ({self.refused})"
        return f"{'about ' if self.is_rough else ''}{format_seconds(self.step_s)}"

    @property
    def text(self) -> str:
        """The division as text, without times."""
        return f"{_WHAT[self.kind]}: {self.details}" if self.details else _WHAT[self.kind]


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The way that was chosen, and the others."""

    best: StepSplit
    splits: tuple[StepSplit, ...]
    samples: int  # of a batch
    why: str = "the shortest prediction"
    trial: str | None = None  # key of its measured comparison with one device

    @property
    def text(self) -> str:
        """A line for each way, the chosen one first."""
        ordered = sorted(self.splits, key=lambda each: each is not self.best)
        lines = [f"  {each.kind:<6}  {each.outcome}, {each.text}" for each in ordered]
        return "\n".join(
            [f"steps of {self.samples} sample{'' if self.samples == 1 else 's'}: {self.best.kind}, {self.why}", *lines]
        )
