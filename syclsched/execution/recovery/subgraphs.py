# SPDX-License-Identifier: Apache-2.0
"""Subgraphs of a planned graph: the remaining tasks, restricted to the implementations planned before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from syclsched.costs import CostModel
from syclsched.costs.history import HistoryKey, MemoryHistory, history_key
from syclsched.model.access import RowRange
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.profile import Quantity
from syclsched.model.task import Task

#: Names of array parts and task parts may exceed the limit on users' names.
_ANY_LENGTH = 1 << 30

#: Names of arrays that take the place of others, by array and rows.
ArrayNames = Mapping[tuple[str, "RowRange | None"], str]
_NO_COPIES: Mapping[str, ArrayNames] = {}


class SubgraphBuilder:
    """Builds subgraphs of a planned graph.

    A task keeps its planned implementation if a remaining device has it: results are then bitwise the same on the same
    kind of device.
    """

    def __init__(self, graph: TaskGraph, plan: Plan) -> None:
        self._graph = graph
        self._chosen = {a.task: a.implementation for a in plan.schedule.assignments}
        self._narrowed: dict[tuple[int, str], Operation] = {}
        self._times = _planned_times(graph, plan)

    def repeatable(self) -> frozenset[str]:
        """Return the tasks whose operations are declared pure, so that they may run again."""
        return frozenset(t.name for t in self._graph.tasks if t.operation is not None and t.operation.pure)

    def costs(self, platform: Platform) -> CostModel:
        """Return a cost model with the plan's predicted task times."""
        return CostModel(platform, self._times)

    @property
    def times(self) -> MemoryHistory:
        """The plan's predicted task times."""
        return self._times

    def unrunnable(self, tasks: Iterable[str], platform: Platform) -> frozenset[str]:
        """Return the tasks that no device of a platform can run."""
        costs = self.costs(platform)
        found = (self._graph.find_task(name) for name in tasks)
        return frozenset(task.name for task in found if task.operation is not None and not _runs(task, costs))

    def of(
        self,
        tasks: Collection[str],
        platform: Platform,
        *,
        whole: bool = False,
        copies: Mapping[str, ArrayNames] = _NO_COPIES,
    ) -> TaskGraph:
        """Return the subgraph of some tasks, in their original order, for a platform.

        ``copies`` names, by task, the arrays that take the place of those that it accesses.
        """
        costs = self.costs(platform)
        made = TaskGraph(self._graph.name, longest_name=_ANY_LENGTH)
        kept = [task for task in self._graph.tasks if task.name in tasks]
        arrays = self._graph.arrays
        touched: dict[str, str] = {}  # the array that each array of the subgraph is, or takes the place of
        for task in kept:
            names = copies.get(task.name, {})
            touched.update({names.get((a.array, a.rows), a.array): a.array for a in task.accesses})
        data = self._graph.data if whole else {}
        for name, original in {each: each for each in arrays}.items() if whole else touched.items():
            array = arrays[original]
            made.array(name, array.shape, array.dtype, data=data.get(name), temporary=array.temporary, usm=array.usm)
        for task in kept:
            made.insert(_with_arrays(self._narrow(task, costs), copies.get(task.name, {})))
        for before, after in self._graph.edges:
            if before in tasks and after in tasks:
                made.edge(before, after)
        return made

    def all(self, platform: Platform) -> TaskGraph:
        """Return the graph of all tasks for a platform, with the original's values and joined arrays."""
        made = self.of(frozenset(task.name for task in self._graph.tasks), platform, whole=True)
        for name, joined in self._graph.joined.items():
            for each in joined:
                made.join(name, [made.arrays[part] for part in each.parts])
        return made

    def _narrow(self, task: Task, costs: CostModel) -> Task:
        """Return a task restricted to its planned implementation, if a device has it."""
        operation, chosen = task.operation, self._chosen.get(task.name)
        if operation is None or chosen is None or len(operation.implementations) == 1:
            return task
        key = (id(operation), chosen)
        if key not in self._narrowed:
            self._narrowed[key] = replace(operation, implementations=(operation.implementation(chosen),))
        narrow = replace(task, operation=self._narrowed[key])
        return narrow if _runs(narrow, costs) else task


def _with_arrays(task: Task, names: ArrayNames) -> Task:
    """Return a task that accesses other arrays in place of its own."""
    if not names:
        return task
    return replace(
        task,
        accesses=tuple(replace(a, array=names.get((a.array, a.rows), a.array)) for a in task.accesses),
        arguments={key: names.get((array, task.rows.get(key)), array) for key, array in task.arguments.items()},
    )


def _runs(task: Task, costs: CostModel) -> bool:
    return any(choice is not None for choice in costs.choices(task, costs.platform.devices))


def _planned_times(graph: TaskGraph, plan: Plan) -> MemoryHistory:
    """Return a plan's predicted task times, on the assigned devices and on alternatives."""
    known = MemoryHistory()
    places: Mapping[str, str] = {d.name: d.timing_key for d in plan.platform.devices}
    seen = [(a.task, a.device, a.implementation, a.finish_s - a.start_s) for a in plan.schedule.assignments]
    seen += [(o.task, o.device, o.implementation, o.seconds) for o in plan.options]
    for name, device, implementation, seconds in seen:
        operation = graph.find_task(name).operation
        signature = graph.find_task(name).signature
        if operation is None or signature is None or implementation is None or device not in places:
            continue
        key: HistoryKey = history_key(places[device], operation, operation.implementation(implementation), signature)
        known.setdefault(key, Quantity(max(0.0, seconds), source="the plan"))
    return known
