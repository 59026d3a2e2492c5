# SPDX-License-Identifier: Apache-2.0
"""Where items lie: shared memory costs nothing, a copy is made once, an update stays where it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from syclsched.scheduling.placement import Placement
from syclsched.scheduling.problem import Item, Problem, Product

HOST, CPU, GPU = 0, 1, 2


def problem(
    items: tuple[Item, ...], reads: tuple[tuple[int, ...], ...], makes: tuple[tuple[Product, ...], ...]
) -> Problem:
    """Devices: gpu, cpu, host (which reaches the cpu's memory); a byte takes a second, host and gpu have a latency."""
    tasks = len(reads)
    return Problem(
        names=tuple(f"t{i}" for i in range(tasks)),
        submission=tuple(range(tasks)),
        priorities=(0,) * tasks,
        devices=("gpu", "cpu", "host"),
        processors=((0, 0), (1, 0), (2, 0)),
        spaces=("host", "cpu", "gpu"),
        reaches=((GPU,), (CPU,), (HOST, CPU)),
        seconds=np.ones((tasks, 3)),
        implementations=((None,) * 3,) * tasks,
        predecessors=((),) * tasks,
        successors=((),) * tasks,
        items=items,
        reads=reads,
        makes=makes,
        copy_latency_s=((0.0, 0.0, 10.0), (0.0, 0.0, 20.0), (10.0, 20.0, 0.0)),
        copy_s_per_byte=((0.0, 1.0, 1.0), (1.0, 0.0, 2.0), (1.0, 2.0, 0.0)),
        input_space=HOST,
    )


def ready(placement: Placement, task: int) -> list[float]:
    row = placement.ready(task)
    assert row is not None
    return [row[placement.column[device]] for device in range(3)]


def test_inputs_lie_on_the_host() -> None:
    placement = Placement(problem((Item("x", 4.0, -1),), ((0,),), ((),)))
    assert ready(placement, 0) == [14.0, 4.0, 0.0]


def test_nothing_to_read_and_nothing_to_copy() -> None:
    placement = Placement(problem((Item("x", 0.0, -1),), ((), (0,)), ((), ())))
    assert placement.ready(0) is None
    assert ready(placement, 1) == [0.0, 0.0, 0.0]


def test_a_task_waits_for_the_last_of_its_items() -> None:
    placement = Placement(problem((Item("x", 4.0, -1), Item("y", 6.0, -1)), ((0, 1),), ((),)))
    assert ready(placement, 0) == [16.0, 6.0, 0.0]


def chain() -> Problem:
    """t0 makes x, t1 updates it, t2 reads it."""
    items = (Item("x", 4.0, 0), Item("x", 4.0, 1))
    return problem(items, ((), (0,), (1,)), ((Product(0, -1),), (Product(1, 0),), ()))


def test_what_is_fresh_lies_at_home() -> None:
    placement = Placement(chain())
    placement.place(0, 2, 5.0)
    assert placement.origin_of(0) == HOST
    assert ready(placement, 1) == [19.0, 9.0, 5.0]


def test_shared_memory_costs_nothing_and_an_update_stays_in_it() -> None:
    placement = Placement(chain())
    placement.place(0, 1, 5.0)
    assert ready(placement, 1) == [33.0, 5.0, 5.0]
    placement.place(1, 2, 6.0)  # the host updates in the CPU's memory
    assert placement.origin_of(1) == CPU
    assert ready(placement, 2) == [34.0, 6.0, 6.0]


def test_an_update_elsewhere_moves_the_array() -> None:
    placement = Placement(chain())
    placement.place(0, 0, 5.0)
    assert placement.space_of(0, 2) == HOST  # 19 s there, 33 s in the CPU's memory, which the host reaches too
    assert ready(placement, 1) == [5.0, 33.0, 19.0]
    placement.place(1, 2, 30.0)
    assert placement.origin_of(1) == HOST


def test_a_copy_once_made_is_there_for_all() -> None:
    """The time an item is in a space does not depend on who asks, or how often."""
    both = problem((Item("x", 4.0, 0),), ((), (0,), (0,)), ((Product(0, -1),), (), ()))
    placement = Placement(both)
    placement.place(0, 0, 1.0)
    assert placement.ready(1) == placement.ready(2)
    assert placement.available(0) is placement.available(0)


def test_no_way_is_infinite() -> None:
    cut = problem((Item("x", 4.0, 0),), ((), (0,)), ((Product(0, -1),), ()))
    latency = ((0.0, 0.0, math.inf), (0.0, 0.0, math.inf), (math.inf, math.inf, 0.0))
    placement = Placement(replace(cut, copy_latency_s=latency))
    placement.place(0, 0, 1.0)
    assert ready(placement, 1) == [1.0, math.inf, math.inf]
