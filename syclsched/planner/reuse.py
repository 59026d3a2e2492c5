# SPDX-License-Identifier: Apache-2.0
"""Inputs of a plan: a key of everything but measured times, and the measured times that planning read. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from syclsched.costs import CostModel, History
from syclsched.costs.estimate import relative_uncertainty
from syclsched.costs.history import (
    IN_RUN,
    HistoryKey,
    MemoryHistory,
    is_provisional,
    known_refusals,
    measured_seconds,
)
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.profile import Quantity
from syclsched.model.text.json_serialisation import to_text
from syclsched.planner.plan_request import PlanRequest
from syclsched.scheduling import registry

#: Measured times closer than this share, or than this many median absolute deviations, count as the same.
_SAME_SHARE, _SAME_DEVIATIONS = 0.05, 3.0

#: Share by which times may differ, beside their uncertainty, before plans that have run are made again.
_NATURAL = 0.25

#: Largest uncertainty that counts when times are compared: a less certain time is no excuse for a larger error.
_MOST_UNCERTAIN = 0.5


@dataclass(slots=True)
class ReadTimes:
    """A history that notes which times were read."""

    history: History | None
    times: dict[HistoryKey, Quantity | None] = field(default_factory=dict)

    def refusals(self) -> Mapping[HistoryKey, str]:
        """Return why devices or libraries refuse implementations; these are part of the plan's key."""
        return known_refusals(self.history)

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the measured seconds of a key, or None if there are none."""
        found = None if self.history is None else self.history.lookup(key)
        self.times[key] = found
        return found


def are_same(before: Quantity | None, now: Quantity | None) -> bool:
    """Return whether two measurements of a time agree within their spread, and are equally trustworthy."""
    if before is None or now is None:
        return before is now
    if is_provisional(before) != is_provisional(now):
        return False
    uncertain_s = _SAME_DEVIATIONS * max(before.mad, now.mad)
    return abs(before.value - now.value) <= max(uncertain_s, _SAME_SHARE * before.value)


def are_close(times: Mapping[HistoryKey, Quantity | None], history: History | None) -> bool:
    """Return whether measured times still hold so far that plans made with them need not be made again once they run.

    Runs themselves change the times a little, and make them more certain: that is no reason to plan again.
    """
    before = MemoryHistory({key: time for key, time in times.items() if time is not None})
    now = MemoryHistory() if history is None else history
    for key in times:
        if key.implementation.endswith(IN_RUN):
            continue
        old, new = measured_seconds(before, key), measured_seconds(now, key)
        if (old is None) != (new is None):
            return False
        if old is None or new is None:
            continue
        # The uncertainty of the old one is irrelevant: if more is known by now, plans are made with it.
        share = _NATURAL + min(relative_uncertainty(new), _MOST_UNCERTAIN)
        if abs(new.value - old.value) > share * min(old.value, new.value):
            return False
    return True


def plan_key(
    graph: TaskGraph, platform: Platform, request: PlanRequest, history: History | None, version: str
) -> str | None:
    """Return a key of all that a plan depends on except measured times; None if its policy may depend on more.

    A policy of another package may change without notice, and a time limit makes every plan different.
    """
    if request.budget_s is not None or any(not _is_built_in(name) for name in registry.names()):
        return None
    refused = sorted(map(repr, known_refusals(history)))
    target = to_text(platform, indent=None)  # its repr is a summary
    content = (version, graph.fingerprint(), target, request, refused, _modelled_costs(graph, platform))
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]


def _is_built_in(name: str) -> bool:
    return ":" in name or type(registry.get(name)).__module__.startswith("syclsched.")


def _modelled_costs(graph: TaskGraph, platform: Platform) -> Sequence[object]:
    """Return the implementations of each distinct kind of task, and their times without measurements."""
    costs, seen, found = CostModel(platform), set[object](), []
    kinds: set[tuple[int, int]] = set()  # identities of operation and signature, which many tasks share
    for task in graph.tasks:
        if task.operation is None or task.signature is None or (id(task.operation), id(task.signature)) in kinds:
            continue
        kinds.add((id(task.operation), id(task.signature)))
        # Functions with side effects are taken to need other times until they have run.
        kind = (task.operation.name, task.operation.pure, repr(task.signature))
        if kind in seen:
            continue
        seen.add(kind)
        offered = [(each.name, each.kind, each.revision) for each in task.operation.implementations]
        best = [
            None if choice is None else (choice[0].name, choice[1]) for choice in costs.choices(task, platform.devices)
        ]
        found.append((kind, offered, best))
    return found
