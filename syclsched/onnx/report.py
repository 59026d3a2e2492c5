# SPDX-License-Identifier: Apache-2.0
"""What became of a model's operators: which tasks do them, where, by what, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from syclsched.frontends.onnx.reference import REFERENCE
from syclsched.model.plan import Plan
from syclsched.model.trace import Trace
from syclsched.model.units import format_seconds, plural


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One task of a model.

    Parameters
    ----------
    operator : str
        The model's operators it does, as ``"Conv conv1 + Relu relu1"``.
    task : str
        Its name in the graph.
    device, implementation : str
        Where and by what.
    seconds : float
        How long: predicted, or the median of the runs it was timed in.
    """

    operator: str
    task: str
    device: str
    implementation: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a model.

    Parameters
    ----------
    name : str
        The model's.
    operators : tuple of OperatorTime
        Its tasks in order, with predicted times.
    rewrites : tuple of str
        What was changed before there were tasks.
    makespan_s : float
        Of one run, predicted.
    peak_bytes : Mapping[str, int]
        Most memory of activations at once, by memory space.
    """

    name: str
    operators: tuple[OperatorTime, ...]
    rewrites: tuple[str, ...]
    makespan_s: float
    peak_bytes: Mapping[str, int]

    @property
    def on_host(self) -> tuple[OperatorTime, ...]:
        """The operators that no device does: the host runs them, with onnx's reference implementation."""
        return tuple(each for each in self.operators if each.implementation == REFERENCE)

    def __str__(self) -> str:
        lines = [f"{self.name}: {plural(len(self.operators), 'task')}, {format_seconds(self.makespan_s)} predicted"]
        lines += [f"  {line}" for line in self.rewrites]
        places: dict[tuple[str, str], int] = {}
        for each in self.operators:
            places[each.device, each.implementation] = places.get((each.device, each.implementation), 0) + 1
        lines += [f"  {plural(count, 'task')} on {device} by {by}" for (device, by), count in sorted(places.items())]
        lines += [f"  on the host, for want of an implementation: {each.operator}" for each in self.on_host]
        return "\n".join(lines)


def planned_times(plan: Plan, origins: Mapping[str, tuple[str, ...]]) -> tuple[OperatorTime, ...]:
    """Return the tasks of a plan in order, with the times it predicts.

    Parameters
    ----------
    plan : Plan
        Of the model's graph.
    origins : Mapping[str, tuple of str]
        See `Specialised`.
    """
    operators = _operators(plan, origins)
    return tuple(
        OperatorTime(operators.get(task, task), task, a.device, a.implementation or "", a.finish_s - a.start_s)
        for a in sorted(plan.schedule.assignments, key=lambda one: one.start_s)
        for task in (a.task,)
    )


def measured_times(
    traces: Iterable[Trace], plan: Plan, origins: Mapping[str, tuple[str, ...]]
) -> tuple[OperatorTime, ...]:
    """Return the tasks of several runs in order, with the median of the times they took.

    Parameters
    ----------
    traces : iterable of Trace
        Of runs of a plan.
    plan : Plan
        That plan.
    origins : Mapping[str, tuple of str]
        See `Specialised`.
    """
    operators = _operators(plan, origins)
    seconds: dict[tuple[str, str, str], list[float]] = {}
    for trace in traces:
        for span in trace.spans:
            if span.task is not None and span.kind in ("launch", "host"):
                seconds.setdefault((span.task, span.device, span.implementation or ""), []).append(span.duration_s)
    return tuple(
        OperatorTime(operators.get(task, task), task, device, by, median(found))
        for (task, device, by), found in seconds.items()
    )


def _operators(plan: Plan, origins: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return what the tasks of a plan do, chunks and merged ones, too."""
    planned = {assignment.task for assignment in plan.schedule.assignments}
    done: dict[str, list[str]] = {}
    for task, operators in origins.items():
        for holder in plan.recipe.holders(task, planned) if plan.recipe else (task,):
            done.setdefault(holder, []).extend(operators)
    return {task: " + ".join(dict.fromkeys(operators)) for task, operators in done.items()}
