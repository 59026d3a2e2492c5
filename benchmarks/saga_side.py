# SPDX-License-Identifier: Apache-2.0
"""The other half of ``benchmarks/scheduling.py``: SAGA's HEFT, in a process and an environment of its own.

    python benchmarks/saga_side.py < instance.json > answer.json

Reads an instance in SAGA's model (``cost`` of tasks, ``edges`` as [before, after, size], ``speed`` of nodes,
``link_speed`` of pairs) and another schedule of it, as [[task, node, start, finish], ...]. Writes the processor seconds
that SAGA's HEFT took (the least of ``runs``), its makespan, the makespan of the other schedule once it is entered as
SAGA's, and the largest violation of SAGA's model by the other schedule, in its unit of time. Needs the package
``anrg-saga`` (2.0 or later), and nothing of this project.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import combinations
from typing import Any


def main() -> None:
    """Read, schedule, write."""
    given: dict[str, Any] = json.load(sys.stdin)
    seconds, found = [], None
    for _ in range(given["runs"]):
        network, graph = instance(given)  # anew for each run: SAGA keeps the ranks of instances that it has seen
        begin = time.process_time()
        found = scheduler().schedule(network, graph)
        seconds.append(time.process_time() - begin)
    assert found is not None
    answer = {
        "seconds": min(seconds),
        "makespan": found.makespan,
        "other_makespan": entered(given).makespan,
        "other_violation": violation(given),
    }
    json.dump(answer, sys.stdout)


def scheduler() -> Any:
    """Return SAGA's HEFT."""
    from saga.schedulers.heft import HeftScheduler

    return HeftScheduler()


def instance(given: dict[str, Any]) -> tuple[Any, Any]:
    """Return SAGA's network and task graph."""
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


def entered(given: dict[str, Any]) -> Any:
    """Return the other schedule as SAGA's, which refuses tasks that overlap."""
    from saga import Schedule, ScheduledTask

    network, graph = instance(given)
    schedule = Schedule(graph, network)
    for task, node, start, finish in sorted(given["schedule"], key=lambda row: row[2:]):
        schedule.add_task(ScheduledTask(node=f"n{node}", name=f"t{task}", start=start, end=finish))
    return schedule


def violation(given: dict[str, Any]) -> float:
    """Return by how much the other schedule is too fast anywhere: in a task, or between two."""
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
