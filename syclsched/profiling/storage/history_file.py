# SPDX-License-Identifier: Apache-2.0
"""Export format of the history: measured task times for another process or machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

from annotated_types import MaxLen

from syclsched.costs.history import HistoryKey
from syclsched.model.profile import Name, NonNegative, Text
from syclsched.model.text.json_serialisation import Serialisable

HISTORY_FORMAT: Final = "syclsched-history/1"


@dataclass(frozen=True, slots=True)
class _MeasuredTask(Serialisable):
    """The samples of one implementation of a task kind on one device."""

    #: As in `HistoryKey`.
    device_key: Name
    operation: Name
    implementation: Name
    revision: Text
    signature: Text
    seconds: Annotated[tuple[NonNegative, ...], MaxLen(1_000)]  # the samples, the oldest first

    @property
    def key(self) -> HistoryKey:
        """The history key of the samples."""
        return HistoryKey(self.device_key, self.operation, self.implementation, self.revision, self.signature)


@dataclass(frozen=True, slots=True)
class HistoryFile(Serialisable):
    """All samples of a history."""

    tasks: Annotated[tuple[_MeasuredTask, ...], MaxLen(1_000_000)]  # sorted
    format: Literal["syclsched-history/1"] = HISTORY_FORMAT  # the format's name and version


def history_file(samples: Iterable[tuple[HistoryKey, tuple[float, ...]]]) -> HistoryFile:
    """Return samples as a file."""
    tasks = [_MeasuredTask(**asdict(key), seconds=seconds) for key, seconds in samples]
    order = sorted(tasks, key=lambda t: (t.device_key, t.operation, t.implementation, t.signature, t.revision))
    return HistoryFile(tuple(order))
