# SPDX-License-Identifier: Apache-2.0
"""Export format of the history: measured task times for another process or machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

from annotated_types import MaxLen

from syclsched.costs.history import HistoryKey, Sample, Source
from syclsched.model.profile import Name, NonNegative, Text
from syclsched.model.text.json_serialisation import Serialisable

HISTORY_FORMAT: Final = "syclsched-history/1"


@dataclass(frozen=True, slots=True)
class _Circumstances(Serialisable):
    """The circumstances of one sample, as in `Sample`."""

    when_s: NonNegative
    load: NonNegative | None
    source: Source
    quiet: bool


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
    circumstances: Annotated[tuple[_Circumstances, ...], MaxLen(1_000)] = ()  # of each sample; absent if unknown

    @property
    def key(self) -> HistoryKey:
        """The history key of the samples."""
        return HistoryKey(self.device_key, self.operation, self.implementation, self.revision, self.signature)

    @property
    def samples(self) -> tuple[Sample | float, ...]:
        """The samples, with their circumstances if these are known."""
        if len(self.circumstances) != len(self.seconds):
            return self.seconds
        both = zip(self.seconds, self.circumstances, strict=True)
        return tuple(Sample(s, c.when_s, c.load, c.source, c.quiet) for s, c in both)


@dataclass(frozen=True, slots=True)
class HistoryFile(Serialisable):
    """All samples of a history."""

    tasks: Annotated[tuple[_MeasuredTask, ...], MaxLen(1_000_000)]  # sorted
    format: Literal["syclsched-history/1"] = HISTORY_FORMAT  # the format's name and version


def history_file(entries: Iterable[tuple[HistoryKey, tuple[Sample, ...]]]) -> HistoryFile:
    """Return samples as a file."""
    tasks = [
        _MeasuredTask(
            **asdict(key),
            seconds=tuple(s.seconds for s in samples),
            circumstances=tuple(_Circumstances(s.when_s, s.load, s.source, s.quiet) for s in samples),
        )
        for key, samples in entries
    ]
    order = sorted(tasks, key=lambda t: (t.device_key, t.operation, t.implementation, t.signature, t.revision))
    return HistoryFile(tuple(order))
