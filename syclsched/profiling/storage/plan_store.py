# SPDX-License-Identifier: Apache-2.0
"""Plans kept between calls and between processes, with the measured times that they were made with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
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

#: Most graphs whose plans this process holds as objects, and the tasks of these plans together.
_MOST_HELD, _MOST_HELD_TASKS = 32, 50_000

#: Measured times that plans were made with.
Times = Mapping[HistoryKey, Quantity | None]


@dataclass(slots=True)
class _KeptPlan:
    """One plan, which is made from its text when it is read first."""

    identity: str  # of its instructions
    policy: str
    predicted_s: float
    text: bytes = b""  # as JSON, until it is read
    plan: Plan | None = None

    def read(self, where: str) -> Plan | None:
        """Return the plan; None if the file is damaged."""
        text = self.text  # before the plan: another thread may read it meanwhile
        if self.plan is None:
            try:
                self.plan = Plan.from_json(text, where=where)
            except (ValueError, TypeError, SyclschedError):
                return None
            self.text = b""
        return self.plan


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """The plans of one graph, the best prediction first."""

    plans: tuple[_KeptPlan, ...]
    times: Times
    where: str  # the file, for errors
    head: bytes = b""  # first line of the file, which names all that is in it; empty if there is no file

    @property
    def in_file(self) -> bool:
        """Whether other processes find the plans."""
        return bool(self.head)

    def read(self, identity: str) -> Plan | None:
        """Return a plan by its identity; None if the file is damaged."""
        return next((each.read(self.where) for each in self.plans if each.identity == identity), None)


class PlanStore:
    """Plans by key: one file for each graph, platform and request. A file that cannot be read is as good as none.

    The plans of the last graphs are also held as objects, so that a process reads no plan twice.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = data_folder() / "plans" if folder is None else Path(folder)

    def find(self, key: str) -> KeptPlans | None:
        """Return the plans of a key."""
        path = self._path(key)
        held = _HELD.get(str(path))
        try:
            with path.open("rb") as file:
                head = file.readline()
                if held is None or held.head != head:
                    held = _hold(_from_file(head, file.read(), str(path)))
        except (OSError, ValueError, TypeError, KeyError):  # no file, or a damaged one
            return None if held is None or held.in_file else _hold(held)
        with suppress(OSError):  # a file that may only be read
            os.utime(path)
        return _hold(held)

    def keep(self, key: str, plans: Sequence[tuple[str, Plan]], times: Times, *, in_file: bool = True) -> None:
        """Keep plans with their identities, the best prediction first, and the times they were made with."""
        path = self._path(key)
        head = _head_of(plans, times) if in_file else b""
        if in_file:
            content = b"\n".join([head, *(plan.to_json(indent=None).encode() for _, plan in plans)]) + b"\n"
            head += b"\n"
            try:
                write_atomically(path, content, folders=True)
                self._make_room()
            except OSError:
                head = b""  # without a folder to write to, every process plans
        made = tuple(_KeptPlan(identity, plan.policy, plan.makespan_s, plan=plan) for identity, plan in plans)
        _hold(KeptPlans(made, dict(times), str(path), head))

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


# --- inside ---------------------------------------------------------------------------------------

#: The plans that this process holds, by file, the least recently used first. Threads share it without a lock: each use
#: of the dict is atomic.
_HELD: dict[str, KeptPlans] = {}


def _hold(kept: KeptPlans) -> KeptPlans:
    """Hold plans, and drop the least recently used ones beyond the limits; return the plans."""
    _HELD.pop(kept.where, None)
    _HELD[kept.where] = kept
    tasks = 0
    for number, (where, each) in enumerate(reversed(list(_HELD.items()))):
        tasks += sum(len(one.plan.tasks) for one in each.plans if one.plan is not None)
        if number and (number >= _MOST_HELD or tasks > _MOST_HELD_TASKS):
            _HELD.pop(where, None)
    return kept


def _from_file(head: bytes, rest: bytes, where: str) -> KeptPlans:
    """Return the plans of a file; raise one of several errors if it is damaged."""
    document, texts = json.loads(head), rest.strip().split(b"\n")
    if document["format"] != _FORMAT or not document["plans"]:
        raise ValueError("another format")
    plans = tuple(
        _KeptPlan(str(identity), str(policy), float(predicted_s), text)
        for (identity, policy, predicted_s), text in zip(document["plans"], texts, strict=True)
    )
    times = {
        HistoryKey(*columns): None if seconds is None else Quantity(seconds, mad, samples, uncertainty=uncertain)
        for *columns, seconds, mad, samples, uncertain in document["times"]
    }
    return KeptPlans(plans, times, where, head)


def _head_of(plans: Sequence[tuple[str, Plan]], times: Times) -> bytes:
    """Return the first line of a file, without its end."""
    rows = [
        [*astuple(each), *((None,) * 4 if t is None else (t.value, t.mad, t.samples, t.uncertainty))]
        for each, t in times.items()
    ]
    named = [[identity, plan.policy, plan.makespan_s] for identity, plan in plans]
    return json.dumps({"format": _FORMAT, "plans": named, "times": rows}).encode()
