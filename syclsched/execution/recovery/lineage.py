# SPDX-License-Identifier: Apache-2.0
"""What must be done, once more or for the first time, when some values are lost: by lineage, as in Spark's RDDs. Pure.

Zaharia et al., Resilient Distributed Datasets, NSDI 2012: what is lost is computed again from what is left. There
data sets never change; here arrays do, so what is followed are versions. The graph of what is to be done begins with
one version of each array, and its tasks write the versions after it in the old order. So a task that is done again
destroys what later tasks made in the same array, and these must be done again, too, if their version is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from syclsched.execution.recovery.versions import Versions
from syclsched.model.plan import PlannedTask

#: What wants an array's last version, besides tasks.
_RESULT = None


@dataclass(frozen=True, slots=True)
class Left:
    """What is left to do."""

    tasks: tuple[str, ...]  # in order of submission
    redone: tuple[str, ...] = ()  # those among them that had been done
    #: The version of each array to begin with, of those whose value is read or wanted as a result without being made.
    start: Mapping[str, int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()  # arrays that are wanted, and whose last version can never be made
    dead: frozenset[str] = frozenset()  # tasks that cannot be done, or whose values are no good


def what_is_left(
    tasks: Mapping[str, PlannedTask],
    versions: Versions,
    whole: Mapping[str, Collection[int]],
    done: Collection[str],
    failed: Collection[str],
    wanted: Collection[str],
    repeatable: Collection[str],
) -> Left:
    """Work out what is left to do so that all results that can be made are there."""
    work = _Work(tasks, versions, whole, frozenset(done), frozenset(repeatable))
    dead = _with_followers(tasks, versions, set(failed))
    lost: set[str] = set()
    stubborn: set[str] = set()
    while True:
        results = {a for a in wanted if a not in lost and versions.writer(a, versions.last(a)) not in dead}
        lost.update(a for a in wanted if a not in results)
        attempt = work.attempt(dead, stubborn, results)
        if attempt.stuck is _NOT_STUCK:
            break
        task, array = attempt.stuck
        if task is _RESULT:
            lost.add(array)
        elif task in work.done:
            stubborn.add(task)
        else:
            dead = _with_followers(tasks, versions, dead | {task})
    order = tuple(name for name in tasks if name in attempt.tasks)
    redone = tuple(name for name in order if name in work.done)
    return Left(order, redone, attempt.start, frozenset(lost), frozenset(dead))


def _with_followers(tasks: Mapping[str, PlannedTask], versions: Versions, dead: set[str]) -> set[str]:
    """Return tasks that are dead with those that need what they would have made, or come explicitly after them."""
    found = set(dead)
    for name, task in tasks.items():
        if name in found:
            continue
        makers = (versions.writer(array, version) for array, version in versions.read[name].items())
        # Barriers are only an order.
        before = (b for b in task.after if tasks[b].kind != "barrier") if task.kind != "barrier" else ()
        if any(maker in found for maker in makers) or any(b in found for b in before):
            found.add(name)
    return found


_NOT_STUCK = ("", "")


@dataclass(frozen=True, slots=True)
class _Attempt:
    tasks: set[str]
    start: dict[str, int]
    stuck: tuple[str | None, str] = _NOT_STUCK


@dataclass(frozen=True, slots=True)
class _Work:
    tasks: Mapping[str, PlannedTask]
    versions: Versions
    whole: Mapping[str, Collection[int]]
    done: frozenset[str]
    repeatable: frozenset[str]

    def attempt(self, dead: Collection[str], stubborn: Collection[str], results: Collection[str]) -> _Attempt:
        """Add tasks until everything that is wanted is there or will be made; or somebody wants what cannot be had."""
        chosen = {name for name in self.tasks if name not in self.done and name not in dead}
        start: dict[str, int] = {}
        touched: dict[str, dict[str, None]] = {}
        for name in chosen:
            for array in (*self.versions.read[name], *self.versions.written[name]):
                touched.setdefault(array, {})[name] = None
        todo = list(dict.fromkeys((*touched, *results)))
        while todo:
            array = todo.pop()
            found = self._look(array, touched.get(array, {}), chosen, array in results)
            start.pop(array, None)
            if found.start is not None:
                start[array] = found.start
            for version, task in found.missing:
                maker = self.versions.writer(array, version)
                if maker is None or maker not in self.repeatable or maker in dead or maker in stubborn:
                    return _Attempt(chosen, start, (task, array))
                if maker in chosen:
                    continue
                chosen.add(maker)
                for other in (*self.versions.read[maker], *self.versions.written[maker]):
                    touched.setdefault(other, {})[maker] = None
                    if other not in todo:
                        todo.append(other)
        return _Attempt(chosen, start)

    def _look(self, array: str, touched: Collection[str], chosen: set[str], is_result: bool) -> _Look:
        """Return the version to begin with, and those that must be made besides, with a task that wants each."""
        made = {v for name in touched if (v := self.versions.written[name].get(array)) is not None}
        outside: dict[int, str | None] = {}
        for name in touched:
            version = self.versions.read[name].get(array)
            if version is not None and version not in made:
                outside.setdefault(version, name)
        last = self.versions.last(array)
        if is_result and last not in made:
            outside.setdefault(last, _RESULT)
        if not outside:
            return _Look(None, ())
        first = min(outside)
        fits = first in self.whole.get(array, ()) and not any(version <= first for version in made)
        missing = tuple((v, task) for v, task in sorted(outside.items()) if not (fits and v == first))
        return _Look(first if fits else None, missing)


@dataclass(frozen=True, slots=True)
class _Look:
    start: int | None
    missing: tuple[tuple[int, str | None], ...]
