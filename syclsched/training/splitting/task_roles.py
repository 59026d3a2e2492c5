# SPDX-License-Identifier: Apache-2.0
"""Roles of the tasks of a training step: the part of the batch, and the layer, that each belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.training.steps.step_network import part_prefix, replica_name

_PART: Final = re.compile("(?:gradient of )?" + part_prefix(0).replace("0", r"(\d+)"))
_REPLICA: Final = re.compile("(?:update of )?" + replica_name("", 1).replace("1", r"(\d+)"))
_NUMBERED: Final = re.compile(r"(?:\.\d+|#\d+)$")


def part_of(task: str) -> int | None:
    """Return the number of the part of the batch that a task computes; None if it belongs to none."""
    found = _PART.match(task)
    return None if found is None else int(found[1])


def replica_of(task: str) -> int:
    """Return the number of the replica of the parameters that a task updates, or sums the gradients of."""
    found = _REPLICA.match(task)
    return 0 if found is None else int(found[1])


def layers_of(graph: TaskGraph, nodes: Iterable[str]) -> dict[str, int]:
    """Return for each task the place of its layer among the nodes of the forward pass.

    The gradient of a node is of its layer. What belongs to no node, such as updates, is of the layer that makes the
    largest of its inputs.
    """
    places = {name: place for place, name in enumerate(nodes)}
    last = len(places) - 1
    places = {"samples": 0, "loss": last, **places}
    sizes = {name: array.nbytes for name, array in graph.arrays.items()}
    made: dict[str, int] = {}
    found: dict[str, int] = {}
    for name in graph.order():
        task = graph.find_task(name)
        place = _place(name, places)
        if place is None:
            sources = [(sizes[each.array], made[each.array]) for each in task.accesses if each.array in made]
            place = max(sources)[1] if sources else last
        found[name] = place
        made.update((each.array, place) for each in task.accesses if each.mode is not AccessMode.READ)
    return found


def _place(task: str, places: Mapping[str, int]) -> int | None:
    name = task.removeprefix("gradient of ")
    part = _PART.match(name)
    name = name if part is None else name[part.end() :]
    while name not in places:
        shorter = _NUMBERED.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return places[name]
