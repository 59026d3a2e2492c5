# SPDX-License-Identifier: Apache-2.0
"""SAGA's schedulers for ``benchmarks/scheduling.py``, in a process and an environment of their own.

    python benchmarks/saga_side.py < instance.json > answer.json

Reads an instance in SAGA's model (``cost`` of tasks, ``edges`` as [before, after, size], ``speed`` of nodes,
``link_speed`` of pairs), names of SAGA's ``schedulers``, and another schedule of it, as [[task, node, start, finish],
...]. Writes for each scheduler the processor seconds that it took (the least of ``runs``) and its makespan, or why it
has none; then the makespan of the other schedule in SAGA's representation, and the largest violation of SAGA's
model by it, in its unit of time. Needs the package ``anrg-saga``, and nothing of this project.

Both versions of SAGA are supported. 0.0.x works on graphs of networkx and looks times up in tables; it checks schedules
itself. 2.x works on pydantic objects, and looks for a task by going through all of them, several times for each task
and node: at 1,000 tasks that is twenty times slower already, and grows with the square.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
import sys
import time
from itertools import combinations
from typing import Any, Protocol

Given = dict[str, Any]

#: The speed of a link of a node to itself; infinity is refused, this is what SAGA 0.0.x makes of it.
FREE = 1e9


class Side(Protocol):
    """One version of SAGA."""

    def instance(self, given: Given) -> tuple[Any, Any]:
        """Return SAGA's network and task graph."""

    def makespan(self, schedule: Any) -> float:
        """Return the makespan of what a scheduler returned."""

    def entered(self, given: Given) -> float:
        """Return the makespan of the other schedule as SAGA's; SAGA refuses an invalid one."""


class Graphs:
    """SAGA 0.0.x."""

    def instance(self, given: Given) -> tuple[Any, Any]:
        """Return two graphs of networkx. Every node has a link to itself, on which nothing takes time."""
        import networkx

        network, graph = networkx.Graph(), networkx.DiGraph()
        for i, speed in enumerate(given["speed"]):
            network.add_node(f"n{i}", weight=speed)
            network.add_edge(f"n{i}", f"n{i}", weight=FREE)
        for i, j in combinations(range(len(given["speed"])), 2):
            network.add_edge(f"n{i}", f"n{j}", weight=given["link_speed"][i][j])
        for i, cost in enumerate(given["cost"]):
            graph.add_node(f"t{i}", weight=cost)
        for a, b, size in given["edges"]:
            graph.add_edge(f"t{a}", f"t{b}", weight=size)
        return network, graph

    def makespan(self, schedule: Any) -> float:
        """Return the latest end."""
        return float(max(task.end for tasks in schedule.values() for task in tasks))

    def entered(self, given: Given) -> float:
        """Check by SAGA's own function: overlaps, run times, arrivals."""
        from saga.scheduler import Task
        from saga.utils.tools import validate_simple_schedule

        network, graph = self.instance(given)
        schedule: dict[str, list[Any]] = {node: [] for node in network.nodes}
        for task, node, start, finish in sorted(given["schedule"], key=lambda row: row[2:]):
            schedule[f"n{node}"].append(Task(f"n{node}", f"t{task}", start, finish))
        validate_simple_schedule(network, graph, schedule)
        return self.makespan(schedule)


class Models:
    """SAGA 2.x."""

    def instance(self, given: Given) -> tuple[Any, Any]:
        """Return SAGA's own classes."""
        from saga import Network, TaskGraph

        links, pairs = given["link_speed"], combinations(range(len(given["speed"])), 2)
        network = Network.create(
            [(f"n{i}", speed) for i, speed in enumerate(given["speed"])],
            [(f"n{i}", f"n{j}", links[i][j]) for i, j in pairs],
        )
        graph = TaskGraph.create(
            [(f"t{i}", cost) for i, cost in enumerate(given["cost"])],
            [(f"t{a}", f"t{b}", size) for a, b, size in given["edges"]],
        )
        assert len(graph.tasks) == len(given["cost"]), "the instance has one source and one sink"
        return network, graph

    def makespan(self, schedule: Any) -> float:
        """Return SAGA's makespan."""
        return float(schedule.makespan)

    def entered(self, given: Given) -> float:
        """Enter task by task; tasks that overlap are refused."""
        from saga import Schedule, ScheduledTask

        network, graph = self.instance(given)
        schedule = Schedule(graph, network)
        for task, node, start, finish in sorted(given["schedule"], key=lambda row: row[2:]):
            schedule.add_task(ScheduledTask(node=f"n{node}", name=f"t{task}", start=start, end=finish))
        return self.makespan(schedule)


def main() -> None:
    """Read, schedule, write."""
    given: Given = json.load(sys.stdin)
    side: Side = Graphs() if importlib.util.find_spec("saga.scheduler") else Models()
    answer = {
        "schedulers": {name: tried(side, name, given) for name in given["schedulers"]},
        "other_makespan": side.entered(given),
        "other_violation": violation(given),
    }
    json.dump(answer, sys.stdout)


def tried(side: Side, name: str, given: Given) -> dict[str, Any]:
    """Return the seconds and the makespan of one of SAGA's schedulers."""
    seconds, found = [], None
    for _ in range(given["runs"]):
        network, graph = side.instance(given)  # again for each run: SAGA caches the ranks of known instances
        begin = time.process_time()
        try:
            found = scheduler(name).schedule(network, graph)
        except Exception as error:  # any exception is its answer
            return {"refused": f"{type(error).__name__}: {error}"}
        seconds.append(time.process_time() - begin)
    return {"seconds": min(seconds), "makespan": side.makespan(found)}


def scheduler(name: str) -> Any:
    """Return a scheduler by the name of its class, in any module of SAGA."""
    import saga.schedulers

    for module in pkgutil.iter_modules(saga.schedulers.__path__):
        made = getattr(importlib.import_module(f"saga.schedulers.{module.name}"), name, None)
        if made is not None:
            return made()
    raise LookupError(f"no {name} in this SAGA")


def violation(given: Given) -> float:
    """Return the largest violation of the other schedule: in a task, or between two."""
    placed = {task: (node, start, finish) for task, node, start, finish in given["schedule"]}
    worst = max(given["cost"][t] / given["speed"][n] - (finish - start) for t, (n, start, finish) in placed.items())
    for before, after, size in given["edges"]:
        node, start, _ = placed[after]
        source, _, made = placed[before]
        copying = 0.0 if source == node else size / given["link_speed"][source][node]
        worst = max(worst, made + copying - start)
    return float(worst)


if __name__ == "__main__":
    main()
