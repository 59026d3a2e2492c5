# SPDX-License-Identifier: Apache-2.0
"""Places and arrivals of data items: shared memory without copies, one copy per space, updates in place."""

from __future__ import annotations

import math

import numpy as np
from support.random_problems import READ, UPDATE, WRITE, build

from syclsched.scheduling import Problem
from syclsched.scheduling.core.insertion import find_ready_times, place
from syclsched.scheduling.core.partial_schedule import PartialSchedule, make_partial_schedule

HOST, CPU, GPU = 0, 1, 2

#: Devices: gpu, cpu, host (which reaches the cpu's memory); a byte takes a second, the gpu has a latency.
REACH = [[GPU], [CPU], [HOST, CPU]]
LATENCY = [[0.0, 0.0, 10.0], [0.0, 0.0, 20.0], [10.0, 20.0, 0.0]]
S_PER_BYTE = [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0], [1.0, 2.0, 0.0]]


def problem(nbytes: list[float], tasks: list[dict[int, int]], latency: list[list[float]] = LATENCY) -> Problem:
    return build([[1.0] * 3] * len(tasks), REACH, nbytes, [HOST] * len(nbytes), tasks, latency, S_PER_BYTE)


def ready(state: PartialSchedule, task: int) -> list[float]:
    find_ready_times(*state, task, 0, 3)
    found: list[float] = state.slots.ready_s.tolist()
    return found


def test_inputs_lie_on_the_host() -> None:
    assert ready(make_partial_schedule(problem([4.0], [{0: READ}]).tables), 0) == [14.0, 4.0, 0.0]


def test_tasks_without_data_are_ready_at_once() -> None:
    state = make_partial_schedule(problem([0.0], [{}, {0: READ}]).tables)
    assert ready(state, 0) == ready(state, 1) == [0.0, 0.0, 0.0]


def test_a_task_waits_for_the_last_of_its_items() -> None:
    assert ready(make_partial_schedule(problem([4.0, 6.0], [{0: READ, 1: READ}]).tables), 0) == [16.0, 6.0, 0.0]


def chain() -> PartialSchedule:
    """t0 makes x, t1 updates it, t2 reads it."""
    return make_partial_schedule(problem([4.0], [{0: WRITE}, {0: UPDATE}, {0: READ}]).tables)


def test_new_items_are_in_the_main_memory_of_their_device() -> None:
    state = chain()
    place(*state, 0, 2, 4.0)
    assert ready(state, 1) == [19.0, 9.0, 5.0]


def test_shared_memory_costs_nothing_and_an_update_stays_in_it() -> None:
    state = chain()
    place(*state, 0, 1, 4.0)
    assert ready(state, 1) == [33.0, 5.0, 5.0]
    place(*state, 1, 2, 5.0)  # the host updates in the CPU's memory
    assert ready(state, 2) == [34.0, 6.0, 6.0]


def test_an_update_on_another_device_moves_the_array() -> None:
    state = chain()
    place(*state, 0, 0, 4.0)
    assert ready(state, 1) == [5.0, 33.0, 19.0]  # 33 s in the CPU's memory, which the host reaches too
    place(*state, 1, 2, 29.0)
    assert state.data.origin.tolist() == [HOST, GPU, HOST]


def test_arrival_without_a_route_is_infinite() -> None:
    inf = math.inf
    latency = [[0.0, 0.0, inf], [0.0, 0.0, inf], [inf, inf, 0.0]]
    state = make_partial_schedule(problem([4.0], [{0: WRITE}, {0: READ}], latency).tables)
    place(*state, 0, 0, 0.0)
    assert ready(state, 1) == [1.0, inf, inf]


def test_items_not_yet_produced_cause_no_delay() -> None:
    state = make_partial_schedule(problem([4.0], [{0: WRITE}, {0: READ}]).tables)
    assert ready(state, 1) == [0.0, 0.0, 0.0]
    assert np.array_equal(state.slots.processor, [-1, -1])
