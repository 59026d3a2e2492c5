# SPDX-License-Identifier: Apache-2.0
"""Contests of plans: the plans of a graph whose predictions lie within their uncertainty, and the choice by runs.

Predictions may be wrong, so the first runs of a graph try these plans in turn, and the one with the least median
makespan is kept. All rules here are functions of the makespans measured so far: later runs of the winner count, too,
and if they become slower than another plan was, that one is tried again. Pure.
"""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syclsched.costs.history import HistoryKey, RunKind, Sample
from syclsched.model.plan import Plan, PlanTrial
from syclsched.model.platform import Platform
from syclsched.model.profile import MAX_NAME

#: Most plans of a contest.
MOST: Final = 3

#: No plan is tried whose prediction is more than this many times the best one.
REACH: Final = 2.0

#: Relative uncertainty of a simulated makespan beside that of its task times, and the most that counts in all.
_SIMULATION, _MOST_UNCERTAIN = 0.1, 0.5

#: Share of a plan's task time that must be on other devices, or by other implementations, than in another plan.
_DIFFERENT: Final = 0.25

#: Trusted runs that suffice for a makespan, runs under any load that do, and the newest trusted ones that count.
NEEDED, _NEEDED_BUSY, _NEWEST = 2, 5, 3

#: A plan is clearly slower than another from this ratio of trusted makespans on; and of the shortest of two runs under
#: any load, which may slow down one plan only.
_CLEARLY, _CLEARLY_BUSY = 2.0, 5.0

#: Relative difference of two medians below which the better prediction decides.
_EVEN: Final = 0.03

#: Failed runs after which a plan without a successful one is not tried again.
_FAILURES: Final = 2

#: Kinds of runs by which plans are compared, in this order: only runs of the same kind are comparable.
_KINDS: Final[tuple[RunKind, ...]] = ("later", "call", "first")


# --- which plans ----------------------------------------------------------------------------------

_Placement = Mapping[str, tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class Rival:
    """A plan that may turn out to be the fastest."""

    plan: Plan
    worth_s: float  # by which the planner ranks it
    uncertainty: float  # relative uncertainty of its tasks' seconds


@dataclass(slots=True)
class Rivals:
    """The best plans so far that differ in the placement of their tasks, and the best plan on a single device."""

    most: int = 1
    _kept: list[tuple[float, Plan, _Placement]] = field(default_factory=list)

    def add(self, plan: Plan, worth_s: float) -> None:
        """Add a plan, and drop those that are out of reach or too much alike."""
        if self.most <= 1:
            return
        ranked = sorted([*self._kept, (worth_s, plan, _placement(plan))], key=lambda each: each[0])
        found: list[tuple[float, Plan, _Placement]] = []
        for each in ranked:
            if each[0] <= REACH * ranked[0][0] and all(_differ(each[1], each[2], other[2]) for other in found):
                found.append(each)
        single = next((each for each in found if is_single(each[1])), None)
        # One more than wanted: the best plan itself is among them.
        self._kept = found[: self.most + 1]
        if single is not None and single not in self._kept:
            self._kept.append(single)

    def kept(self) -> list[tuple[Plan, float]]:
        """Return the plans with their worth, the best first."""
        return [(plan, worth_s) for worth_s, plan, _ in self._kept]


def contenders(best: Plan, uncertainty: float, rivals: Iterable[Rival], most: int) -> list[Plan]:
    """Return the plans to try beside the best one, the best prediction first; with it at most ``most``.

    Their predictions lie within the combined uncertainty of both, and within `REACH`. The best plan on a single device
    is among them if it lies within reach.
    """
    if most <= 1:
        return []
    longest_s = min(best.makespan_s * (1.0 + _whole(uncertainty)), REACH * best.makespan_s)
    chosen: list[Rival] = []
    single: Rival | None = None
    for rival in sorted(rivals, key=lambda each: each.worth_s):
        placements = [_placement(each) for each in (best, *(other.plan for other in chosen))]
        mine = _placement(rival.plan)
        if not all(_differ(rival.plan, mine, other) for other in placements):
            continue
        if rival.plan.makespan_s * (1.0 - _whole(rival.uncertainty)) <= longest_s and (
            rival.plan.makespan_s <= REACH * best.makespan_s
        ):
            chosen.append(rival)
        elif single is None and is_single(rival.plan) and rival.plan.makespan_s <= REACH * best.makespan_s:
            single = rival
    alone = next((each for each in chosen if is_single(each.plan)), single)
    if is_single(best):
        alone = None
    found = [each for each in chosen if each is not alone][: most - 1 - (alone is not None)]
    if alone is not None:
        found = sorted([*found, alone], key=lambda each: each.worth_s)
    return [each.plan for each in found]


def with_measured_best(
    plans: Sequence[tuple[str, Plan]], best: tuple[str, Plan, float] | None
) -> list[tuple[str, Plan]]:
    """Return newly made plans with the plan that was the fastest in runs so far, each with its identity, in order.

    ``best`` has its measured makespan, too. New plans that are predicted to be slower are left out.
    """
    if best is None:
        return list(plans)
    identity, plan, measured_s = best
    new = dict(plans)
    longest_s = measured_s * (1.0 + _SIMULATION)
    promising = [each for each in plans if each[0] != identity and each[1].makespan_s <= longest_s][: MOST - 1]
    expected = [(each[1].makespan_s, each) for each in promising]
    expected.append((measured_s, (identity, new.get(identity, plan))))
    return [each for _, each in sorted(expected, key=lambda pair: pair[0])]


def is_single(plan: Plan) -> bool:
    """Return whether all tasks of a plan are on one device."""
    return len({each.device for each in plan.schedule.assignments if each.implementation is not None}) <= 1


def identity_of(plan: Plan) -> str:
    """Return a name of a plan's work, independent of its predictions: equal for equal instructions."""
    digest = hashlib.sha256(repr(plan.recipe).encode())
    for lane in plan.lanes:
        steps = [(each.kind, each.task, each.implementation, each.waits, each.again) for each in lane.instructions]
        digest.update(repr((lane.name, steps)).encode())
    tasks = Counter(each.device for each in plan.schedule.assignments if each.implementation is not None)
    places = ", ".join(f"{count} on {device}" for device, count in sorted(tasks.items()))
    return f"{places[: MAX_NAME - 20]} ({digest.hexdigest()[:12]})"


def _whole(uncertainty: float) -> float:
    return min(uncertainty + _SIMULATION, _MOST_UNCERTAIN)


def _placement(plan: Plan) -> _Placement:
    return {each.task: (each.device, each.implementation) for each in plan.schedule.assignments}


def _differ(plan: Plan, placement: _Placement, other: _Placement) -> bool:
    """Return whether a plan places a share of its work differently than another."""
    total_s = moved_s = 0.0
    for each in plan.schedule.assignments:
        seconds = each.finish_s - each.start_s
        total_s += seconds
        moved_s += seconds if placement[each.task] != other.get(each.task) else 0.0
    return moved_s > _DIFFERENT * total_s


# --- which of them is the fastest -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contender:
    """A plan of a contest, and its measured makespans."""

    identity: str  # as from `identity_of`
    policy: str
    predicted_s: float
    runs: Mapping[RunKind, Sequence[Sample]] = field(default_factory=dict)  # the oldest first

    def measured_s(self, kind: RunKind) -> float | None:
        """Return the median makespan of runs of a kind; None if there are none."""
        trusted = [each.seconds for each in self._of(kind) if each.quiet]
        if trusted:
            return statistics.median(trusted[-_NEWEST:])
        # Other processes only make runs longer.
        busy = sorted(each.seconds for each in self._of(kind))
        return statistics.median(busy[: len(busy) // 2 + 1]) if busy else None

    def is_known(self, kind: RunKind) -> bool:
        """Return whether there are enough runs of a kind."""
        return sum(each.quiet for each in self._of(kind)) >= NEEDED or len(self._of(kind)) >= _NEEDED_BUSY

    def is_slower(self, other: Contender, kind: RunKind) -> bool:
        """Return whether runs of a kind show that the plan is clearly slower than another, before it is known."""
        mine_s, other_s = self.measured_s(kind), other.measured_s(kind)
        if mine_s is None or other_s is None:
            return False
        if any(each.quiet for each in self._of(kind)) and other.is_known(kind):
            return mine_s > _CLEARLY * other_s
        mine, others = self.newest(kind), other.newest(kind)
        return min(len(mine), len(others)) >= NEEDED and min(mine) > _CLEARLY_BUSY * min(others)

    def newest(self, kind: RunKind) -> list[float]:
        """Return the makespans of the newest runs of a kind, under any load."""
        return [each.seconds for each in self._of(kind)][-_NEWEST:]

    @property
    def fails(self) -> bool:
        """Whether the plan fails and never succeeds."""
        return len(self._of("failed")) >= _FAILURES and not any(self._of(kind) for kind in _KINDS)

    @property
    def turns(self) -> tuple[int, int]:
        """Number of processes, and of further runs, that have tried the plan."""
        return len(self._of("first")) + len(self._of("failed")), len(self._of("later")) + len(self._of("call"))

    def _of(self, kind: RunKind) -> Sequence[Sample]:
        return self.runs.get(kind, ())


@dataclass(frozen=True, slots=True)
class Contest:
    """Plans of one graph to choose from, the best prediction first, with their measured makespans."""

    contenders: tuple[Contender, ...]

    @property
    def is_measured(self) -> bool:
        """Whether any plan has run."""
        return any(each.runs.get(kind) for each in self.contenders for kind in _KINDS)

    def winner(self) -> Contender | None:
        """Return the plan with the least median makespan; None if that is not known yet.

        Where medians are even, the better prediction decides.
        """
        kind, known = self._decided()
        if not known:
            return self.contenders[0] if len(self.contenders) == 1 else None
        makespans_s = [each.measured_s(kind) or 0.0 for each in known]
        limit_s = min(makespans_s) * (1.0 + _EVEN)
        return next(each for each, seconds in zip(known, makespans_s, strict=True) if seconds <= limit_s)

    def makespan_s(self, contender: Contender) -> float | None:
        """Return a plan's median makespan, by the kind of runs that decides the contest, or that there are most of."""
        return contender.measured_s(self._shown_kind())

    def best_known(self) -> Contender:
        """Return the winner, or the fastest plan of those that have run often enough, or else the best prediction."""
        winner = self.winner()
        if winner is not None:
            return winner
        for kind in _KINDS:
            known = [each for each in self.contenders if each.is_known(kind)]
            if known:
                return min(known, key=lambda each: each.measured_s(kind) or 0.0)
        return self.contenders[0]

    def next_to_run(self) -> Contender:
        """Return the winner, or the plan with the fewest turns."""
        winner = self.winner()
        if winner is not None:
            return winner
        able = [each for each in self.contenders if not each.fails and not any(self._is_out(each, k) for k in _KINDS)]
        return min(able or self.contenders, key=lambda each: each.turns)

    def trials(self, chosen: Contender) -> tuple[PlanTrial, ...]:
        """Return the measured makespans for the user, those of the chosen plan first; empty if no plan has run."""
        if not self.is_measured:
            return ()
        winner, kind = self.winner(), self._shown_kind()
        return tuple(
            PlanTrial(
                policy=each.policy,
                predicted_s=each.predicted_s,
                measured_s=each.measured_s(kind),
                runs=len(each.runs.get(kind, ())),
                kept=each is winner,
            )
            for each in sorted(self.contenders, key=lambda each: each is not chosen)
        )

    def _decided(self) -> tuple[RunKind, list[Contender]]:
        """Return the first kind of runs that decides the contest, and the plans that may win by it; else none."""
        for kind in _KINDS:
            able = [each for each in self.contenders if not each.fails and not self._is_out(each, kind)]
            is_known = all(each.is_known(kind) for each in able) or len(able) == 1
            if able and is_known and able[0].measured_s(kind) is not None:
                return kind, able
        return "first", []

    def _is_out(self, contender: Contender, kind: RunKind) -> bool:
        """Return whether a plan is clearly slower than another by runs of a kind."""
        return any(contender.is_slower(other, kind) for other in self.contenders if other is not contender)

    def _shown_kind(self) -> RunKind:
        kind, known = self._decided()
        if known:
            return kind
        return max(_KINDS, key=lambda kind: sum(len(each.runs.get(kind, ())) for each in self.contenders))


def makespan_key(platform: Platform, name: str, plan_key: str, identity: str, kind: RunKind) -> HistoryKey:
    """Return the history key of the makespans of one plan of a graph."""
    devices = "+".join(device.key for device in platform.compute_devices) or "host"
    return HistoryKey(devices[:MAX_NAME], "plan", identity, plan_key, f"{name[:MAX_NAME]}, {kind} runs")
