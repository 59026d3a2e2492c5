# SPDX-License-Identifier: Apache-2.0
"""Report of a model's operators: their tasks, devices, implementations and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from syclsched.frontends.onnx.reference import REFERENCE
from syclsched.model.plan import Plan
from syclsched.model.text.sections import Row, Section, sections_html, sections_text
from syclsched.model.text.units import format_seconds, plural
from syclsched.model.trace import Trace


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One task of a model.

    Parameters
    ----------
    operator : str
        The model's operators that the task computes, as ``"Conv conv1 + Relu relu1"``.
    task : str
        The task's name in the graph.
    device, implementation : str
        The names of the device and of the implementation.
    seconds : float
        Its duration: predicted, or the median of timed runs.
    """

    operator: str
    task: str
    device: str
    implementation: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a planned model.

    Parameters
    ----------
    name : str
        The model's name.
    operators : tuple of OperatorTime
        The tasks in order, with predicted times.
    rewrites : tuple of str
        The graph rewrites applied before lowering.
    makespan_s : float
        Predicted makespan of one run.
    peak_bytes : Mapping[str, int]
        Peak memory of activations in bytes, by memory space.
    """

    name: str
    operators: tuple[OperatorTime, ...]
    rewrites: tuple[str, ...]
    makespan_s: float
    peak_bytes: Mapping[str, int]

    @property
    def on_host(self) -> tuple[OperatorTime, ...]:
        """The operators that no device supports: the host runs them with onnx's reference implementation."""
        return tuple(each for each in self.operators if each.implementation == REFERENCE)

    def __repr__(self) -> str:
        operators = plural(len(self.operators), "operator")
        return f"<Report of {self.name!r}: {operators}, {format_seconds(self.makespan_s)} predicted>"

    def __str__(self) -> str:
        return sections_text([self.section])

    def _repr_html_(self) -> str:
        return sections_html([self.section])

    @property
    def section(self) -> Section:
        """The report as a section of rows."""
        rows = [Row("  {}", (line,)) for line in self.rewrites]
        places: dict[tuple[str, str], int] = {}
        for each in self.operators:
            places[each.device, each.implementation] = places.get((each.device, each.implementation), 0) + 1
        form = "  {} on {} by {}"
        rows += [Row(form, (plural(count, "task"), *where)) for where, count in sorted(places.items())]
        rows += [
            Row("  {}", (f"on the host, for want of an implementation: {each.operator}",)) for each in self.on_host
        ]
        title = f"{self.name}: {plural(len(self.operators), 'task')}, {format_seconds(self.makespan_s)} predicted"
        return Section(title, rows)


def planned_times(plan: Plan, origins: Mapping[str, tuple[str, ...]]) -> tuple[OperatorTime, ...]:
    """Return the tasks of a plan in order, with the times it predicts; for ``origins`` see `Specialised`."""
    operators = _operators(plan, origins)
    return tuple(
        OperatorTime(operators.get(task, task), task, a.device, a.implementation or "", a.finish_s - a.start_s)
        for a in sorted(plan.schedule.assignments, key=lambda one: one.start_s)
        for task in (a.task,)
    )


def measured_times(
    traces: Iterable[Trace], plan: Plan, origins: Mapping[str, tuple[str, ...]]
) -> tuple[OperatorTime, ...]:
    """Return the tasks of several runs of a plan in order, with their median times."""
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
    """Return the operators of each task of a plan, including chunks and merged tasks."""
    planned = {assignment.task for assignment in plan.schedule.assignments}
    done: dict[str, list[str]] = {}
    for task, operators in origins.items():
        for holder in plan.recipe.holders(task, planned) if plan.recipe else (task,):
            done.setdefault(holder, []).extend(operators)
    return {task: " + ".join(dict.fromkeys(operators)) for task, operators in done.items()}
