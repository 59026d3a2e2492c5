# SPDX-License-Identifier: Apache-2.0
"""Lineage-based recovery: the tasks to run or re-run after values were lost. Pure.

As in Spark's RDDs (Zaharia et al., Resilient Distributed Datasets, NSDI 2012), lost values are recomputed from the
surviving ones. RDDs are immutable, but arrays are not, so lineage is tracked by array version. The new graph starts
with one version of each array, and its tasks write the later versions in the original order. A re-run task therefore
overwrites later versions of the same array; their writers must re-run, too, if those versions are needed. This does not
hold for arrays of which older versions may have memory of their own, as copies on other machines have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from syclsched.execution.recovery.versions import Versions
from syclsched.model.plan import PlannedTask

#: Takes the place of a reading task where an array's final version is needed as a result.
_RESULT = None


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """The remaining work of a run."""

    tasks: tuple[str, ...]  # in order of submission
    redone: tuple[str, ...] = ()  # tasks among them that were completed before
    #: Start version by array, for arrays whose surviving value is read or is itself a result.
    start: Mapping[str, int] = field(default_factory=dict)
    #: Surviving older versions that are read, too, in memory of their own.
    older: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()  # result arrays whose final version cannot be computed
    dead: frozenset[str] = frozenset()  # tasks that cannot run, or whose values are invalid


def find_remaining_work(
    tasks: Mapping[str, PlannedTask],
    versions: Versions,
    whole: Mapping[str, Collection[int]],
    done: Collection[str],
    failed: Collection[str],
    wanted: Collection[str],
    repeatable: Collection[str],
    apart: Collection[str] = (),
) -> RemainingWork:
    """Return the tasks needed to produce every result that can still be computed.

    ``apart`` names the arrays of which older versions may have memory of their own.
    """
    lineage = _Lineage(tasks, versions, whole, frozenset(done), frozenset(repeatable), frozenset(apart))
    dead = _with_dependents(tasks, versions, set(failed))
    lost: set[str] = set()
    not_repeatable: set[str] = set()
    while True:
        results = {a for a in wanted if a not in lost and versions.writer(a, versions.last(a)) not in dead}
        lost.update(a for a in wanted if a not in results)
        attempt = lineage.attempt(dead, not_repeatable, results)
        if attempt.stuck is _NOT_STUCK:
            break
        task, array = attempt.stuck
        if task is _RESULT:
            lost.add(array)
        elif task in lineage.done:
            not_repeatable.add(task)
        else:
            dead = _with_dependents(tasks, versions, dead | {task})
    order = tuple(name for name in tasks if name in attempt.tasks)
    redone = tuple(name for name in order if name in lineage.done)
    start = {array: found[-1] for array, found in attempt.starts.items()}
    older = {array: found[:-1] for array, found in attempt.starts.items() if len(found) > 1}
    return RemainingWork(order, redone, start, older, frozenset(lost), frozenset(dead))


def _with_dependents(tasks: Mapping[str, PlannedTask], versions: Versions, dead: set[str]) -> set[str]:
    """Return dead tasks together with their dependents, by data or by explicit edges."""
    found = set(dead)
    for name, task in tasks.items():
        if name in found:
            continue
        makers = (versions.writer(array, version) for array, version in versions.read[name].items())
        # A barrier only orders tasks; it does not depend on their values.
        before = (b for b in task.after if tasks[b].kind != "barrier") if task.kind != "barrier" else ()
        if any(maker in found for maker in makers) or any(b in found for b in before):
            found.add(name)
    return found


_NOT_STUCK = ("", "")


@dataclass(frozen=True, slots=True)
class _Attempt:
    tasks: set[str]
    starts: dict[str, tuple[int, ...]]
    stuck: tuple[str | None, str] = _NOT_STUCK


@dataclass(frozen=True, slots=True)
class _Lineage:
    tasks: Mapping[str, PlannedTask]
    versions: Versions
    whole: Mapping[str, Collection[int]]
    done: frozenset[str]
    repeatable: frozenset[str]
    apart: frozenset[str]

    def attempt(self, dead: Collection[str], not_repeatable: Collection[str], results: Collection[str]) -> _Attempt:
        """Add tasks until every needed version exists or will be computed; stop at one that cannot be computed."""
        chosen = {name for name in self.tasks if name not in self.done and name not in dead}
        starts: dict[str, tuple[int, ...]] = {}
        touched: dict[str, dict[str, None]] = {}
        for name in chosen:
            for array in (*self.versions.read[name], *self.versions.written[name]):
                touched.setdefault(array, {})[name] = None
        todo = list(dict.fromkeys((*touched, *results)))
        while todo:
            array = todo.pop()
            found = self._needs(array, touched.get(array, {}), array in results)
            starts.pop(array, None)
            if found.starts:
                starts[array] = found.starts
            for version, task in found.missing:
                maker = self.versions.writer(array, version)
                if maker is None or maker not in self.repeatable or maker in dead or maker in not_repeatable:
                    return _Attempt(chosen, starts, (task, array))
                if maker in chosen:
                    continue
                chosen.add(maker)
                for other in (*self.versions.read[maker], *self.versions.written[maker]):
                    touched.setdefault(other, {})[maker] = None
                    if other not in todo:
                        todo.append(other)
        return _Attempt(chosen, starts)

    def _needs(self, array: str, touched: Collection[str], is_result: bool) -> _Needs:
        """Return an array's start versions, and the missing versions, each with a task that needs it."""
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
            return _Needs((), ())
        whole, first = self.whole.get(array, ()), min(outside)
        if array in self.apart:
            starts = tuple(version for version in sorted(outside) if version in whole)
        else:
            fits = first in whole and not any(version <= first for version in made)
            starts = (first,) if fits else ()
        return _Needs(starts, tuple((v, task) for v, task in sorted(outside.items()) if v not in starts))


@dataclass(frozen=True, slots=True)
class _Needs:
    starts: tuple[int, ...]
    missing: tuple[tuple[int, str | None], ...]
