# SPDX-License-Identifier: Apache-2.0
"""Plans kept between processes, with the measured times that they were made with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from syclsched.atomic_write import write_atomically
from syclsched.costs.history import HistoryKey
from syclsched.errors import SyclschedError
from syclsched.model.plan import Plan
from syclsched.model.profile import Quantity
from syclsched.profiling.storage.profile_store import data_folder

#: Most graphs whose plans are kept, and the total size; the least recently used ones go first.
_MOST_PLANS, _MOST_BYTES = 64, 64 << 20
_FORMAT = "syclsched-kept-plan/2"

#: Measured times that plans were made with.
Times = Mapping[HistoryKey, Quantity | None]


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """One plan of a file, not read yet."""

    identity: str  # of its instructions
    policy: str
    predicted_s: float
    text: bytes  # as JSON

    def read(self, where: str) -> Plan | None:
        """Return the plan; None if the file is damaged."""
        try:
            return Plan.from_json(self.text, where=where)
        except (ValueError, TypeError, SyclschedError):
            return None


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """The plans of one graph, the best prediction first."""

    plans: tuple[KeptPlan, ...]
    times: Times
    where: str  # the file, for errors

    def read(self, identity: str) -> Plan | None:
        """Return a plan by its identity; None if the file is damaged."""
        return next((each.read(self.where) for each in self.plans if each.identity == identity), None)


class PlanStore:
    """Plans by key: one file for each graph, platform and request. A file that cannot be read is as good as none."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = data_folder() / "plans" if folder is None else Path(folder)

    def find(self, key: str) -> KeptPlans | None:
        """Return the plans of a key."""
        path = self._path(key)
        try:
            head, *texts = path.read_bytes().strip().split(b"\n")
            document = json.loads(head)
            if document["format"] != _FORMAT or not texts:
                return None
            plans = tuple(
                KeptPlan(str(identity), str(policy), float(predicted_s), text)
                for (identity, policy, predicted_s), text in zip(document["plans"], texts, strict=True)
            )
            times = {
                HistoryKey(*columns): None
                if seconds is None
                else Quantity(seconds, mad, samples, uncertainty=uncertain)
                for *columns, seconds, mad, samples, uncertain in document["times"]
            }
            os.utime(path)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return KeptPlans(plans, times, str(path))

    def keep(self, key: str, plans: Sequence[tuple[str, Plan]], times: Times) -> None:
        """Keep plans with their identities, the best prediction first, and the times they were made with."""
        rows = [
            [*astuple(each), *((None,) * 4 if t is None else (t.value, t.mad, t.samples, t.uncertainty))]
            for each, t in times.items()
        ]
        head = {
            "format": _FORMAT,
            "plans": [[identity, plan.policy, plan.makespan_s] for identity, plan in plans],
            "times": rows,
        }
        content = "\n".join([json.dumps(head), *(plan.to_json(indent=None) for _, plan in plans)]) + "\n"
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
