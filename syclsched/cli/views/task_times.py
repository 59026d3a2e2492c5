# SPDX-License-Identifier: Apache-2.0
"""Measured task times as rows: filtered, sorted, as tables and as a JSON document."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from syclsched.cli.documents import TaskTimeEntry
from syclsched.errors import ArgumentError, did_you_mean
from syclsched.model.text.units import format_seconds, listed, plural

if TYPE_CHECKING:
    from rich.table import Table

    from syclsched.costs.history import HistoryKey, Sample

#: Orders of the rows of a device. Those of numbers and times begin with the largest or newest.
ORDERS: dict[str, Callable[[TaskTimeEntry], tuple[object, ...]]] = {
    "operation": lambda row: (row.operation, row.implementation, row.sizes),
    "time": lambda row: (-row.median_s, row.operation, row.sizes),
    "uncertainty": lambda row: (-row.uncertainty, row.operation, row.sizes),
    "samples": lambda row: (-row.samples, row.operation, row.sizes),
    "newest": lambda row: (row.newest is None, *(-ord(c) for c in row.newest or ""), row.operation, row.sizes),
}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(min|h|d|w)")
_AGE_S = {"min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

#: Most names in a message; the rest is counted.
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """Filter of measured task times."""

    operation: str | None = None  # part of the operation's name
    device: str | None = None  # part of the device's key
    source: str | None = None  # source of at least one sample
    since_s: float | None = None  # the newest sample is not older; UTC, seconds since 1970

    def accepts(self, key: HistoryKey, samples: Sequence[Sample]) -> bool:
        """Return whether the times of a key are shown."""
        return (
            (self.operation is None or self.operation in key.operation)
            and (self.device is None or self.device in key.device_key)
            and (self.source is None or any(each.source == self.source for each in samples))
            and (self.since_s is None or max(each.when_s for each in samples) >= self.since_s)
        )


def parse_since(text: str, now: datetime.datetime) -> float:
    """Return the time that ``2d``, ``12h`` or ``2026-11-01`` means, in seconds since 1970."""
    age = _AGE.fullmatch(text.strip())
    if age:
        return now.timestamp() - float(age[1]) * _AGE_S[age[2]]
    try:
        found = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ArgumentError(
            f"{text!r} is neither an age nor a date", where="--since", hint="As 30min, 12h, 2d, 3w or 2026-11-01"
        ) from None
    return (found if found.tzinfo else found.astimezone()).timestamp()


def check_choice(value: str | None, known: Iterable[str], option: str) -> None:
    """Raise `ArgumentError` for a value that is not one of those known."""
    names = list(known)
    if value is not None and value not in names:
        raise ArgumentError(
            f"there is no {value!r}", where=option, hint=f"{did_you_mean(value, names)}There are {', '.join(names)}"
        )


def sources() -> tuple[str, ...]:
    """Return the names of the sources of samples."""
    from syclsched.costs.history import Source

    return tuple(map(str, get_args(Source)))


def time_rows(
    entries: Iterable[tuple[HistoryKey, Sequence[Sample]]], wanted: TimeFilter, order: str
) -> list[TaskTimeEntry]:
    """Return the rows that a filter accepts, by device and in an order of `ORDERS`."""
    rows = [_row(key, samples) for key, samples in entries if samples and wanted.accepts(key, samples)]
    return sorted(rows, key=lambda row: (row.device, *ORDERS[order](row)))


def _row(key: HistoryKey, samples: Sequence[Sample]) -> TaskTimeEntry:
    from syclsched.costs.history import is_provisional
    from syclsched.profiling.estimation import estimate

    found, newest_s = estimate(samples), max(each.when_s for each in samples)
    newest = datetime.datetime.fromtimestamp(newest_s, datetime.timezone.utc).isoformat(timespec="seconds")
    return TaskTimeEntry(
        device=key.device_key,
        operation=key.operation,
        implementation=key.implementation,
        sizes=key.signature,
        samples=len(samples),
        doubtful_samples=sum(not each.quiet for each in samples),
        sources=sorted({each.source for each in samples}),
        median_s=found.value,
        uncertainty=found.uncertainty or 0.0,
        provisional=is_provisional(found),
        newest=newest if newest_s > 0 else None,
    )


def time_tables(rows: Sequence[TaskTimeEntry]) -> list[Table]:
    """Return the rows as a table for each device."""
    tables: dict[str, Table] = {}
    for row in rows:
        if row.device not in tables:
            tables[row.device] = _table(row.device)
        certainty = f"±{row.uncertainty:.0%}" + (", provisional" if row.provisional else "")
        counts, day = f"{row.samples} ({row.doubtful_samples})", (row.newest or "-")[:10]
        tables[row.device].add_row(
            row.operation, row.implementation, row.sizes, counts, format_seconds(row.median_s), certainty, day
        )
    return list(tables.values())


def nothing_found(entries: Sequence[tuple[HistoryKey, Sequence[Sample]]], wanted: TimeFilter) -> str:
    """Return the message for a filter that accepts nothing: available values, and similar ones."""
    if not entries:
        return "Nothing was measured yet; runs and plans on this machine measure the times of their tasks."
    operations = sorted({key.operation for key, _ in entries})
    devices = sorted({key.device_key for key, _ in entries})
    kinds = sorted({each.source for _, samples in entries for each in samples})
    newest_s = max(each.when_s for _, samples in entries for each in samples)
    newest = datetime.datetime.fromtimestamp(newest_s, datetime.timezone.utc).isoformat(" ", timespec="minutes")
    meant = "" if wanted.operation is None else did_you_mean(wanted.operation, operations)
    return (
        f"No measured time matches. {meant}There are times of {plural(len(entries), 'task size')}:\n"
        f"operations: {listed(operations, _MOST_NAMED)}\n"
        f"devices: {listed(devices, _MOST_NAMED)}\n"
        f"sources: {', '.join(kinds)}; newest sample: {newest if newest_s > 0 else 'of unknown age'}"
    )


def _table(device_key: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(device_key), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("operation", "by", "sizes"):  # folded: a truncated size would be useless
        table.add_column(heading, overflow="fold")
    for heading in ("samples\n(doubtful)", "median", "uncertainty", "newest"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table
