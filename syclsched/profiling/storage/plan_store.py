# SPDX-License-Identifier: Apache-2.0
"""Plans kept between processes, with the measured times that they were made with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple
from pathlib import Path

from syclsched.atomic_write import write_atomically
from syclsched.costs.history import History, HistoryKey
from syclsched.errors import SyclschedError
from syclsched.model.plan import Plan
from syclsched.model.profile import Quantity
from syclsched.profiling.storage.profile_store import data_folder

#: Most plans that are kept, and their total size; the least recently used ones go first.
_MOST_PLANS, _MOST_BYTES = 64, 64 << 20
_FORMAT = "syclsched-kept-plan/1"

Same = Callable[[Quantity | None, Quantity | None], bool]


class PlanStore:
    """Plans by key, one file each. A file that cannot be read or written is as good as none."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = data_folder() / "plans" if folder is None else Path(folder)

    def find(self, key: str, history: History | None, same: Same) -> Plan | None:
        """Return the plan of a key, if the times it was made with are still the same."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            head, _, text = content.partition(b"\n")
            document = json.loads(head)
            if document["format"] != _FORMAT:
                return None
            for *columns, seconds, mad in document["times"]:
                before = None if seconds is None else Quantity(seconds, mad)
                now = None if history is None else history.lookup(HistoryKey(*columns))
                if not same(before, now):
                    return None
            plan = Plan.from_json(text, where=str(path))
            os.utime(path)
        except (OSError, ValueError, TypeError, KeyError, SyclschedError):
            return None
        return plan

    def keep(self, key: str, plan: Plan, times: Mapping[HistoryKey, Quantity | None]) -> None:
        """Keep a plan with the times it was made with."""
        rows = [
            [*astuple(each), *((None, None) if time is None else (time.value, time.mad))]
            for each, time in times.items()
        ]
        content = json.dumps({"format": _FORMAT, "times": rows}) + "\n" + plan.to_json(indent=None)
        try:
            write_atomically(self._path(key), content.encode(), folders=True)
            self._make_room()
        except OSError:
            return  # without a folder to write to, every process plans

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _make_room(self) -> None:
        """Remove the plans that were not used for the longest time."""
        found = sorted(((path.stat(), path) for path in self.folder.glob("*.json")), key=lambda each: -each[0].st_mtime)
        total = 0
        for number, (status, path) in enumerate(found):
            total += status.st_size
            if number >= _MOST_PLANS or (total > _MOST_BYTES and number):
                path.unlink(missing_ok=True)
