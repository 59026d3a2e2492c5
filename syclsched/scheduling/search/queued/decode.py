# SPDX-License-Identifier: Apache-2.0
"""Decoder with copy lanes: the steps of the plan of an order and placement, and their times.

It follows planning (`syclsched.planning.transfers`): a task reads what its device reaches, and otherwise the first task
that needs an item in a space has it copied there from where it arrives soonest. Tasks run in their order on each lane.
A copy lane takes, of the copies whose data is ready, the one that is needed first. Arrays used in place, limits of
memory, contention and shared cores are left out: simulation of the plan judges them.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.incremental.records import Records
from syclsched.scheduling.search.queued.state import ABSENT, GIVEN, LINKS, READY, STEPS, QueuedState
from syclsched.scheduling.tables import Ints


@lean
def lay_out(s: QueuedState) -> bool:
    """Create the steps of all tasks and of the copies they need; return False if some data has no route."""
    nodes, items, held, steps, queues, links = s.nodes, s.items, s.held, s.steps, s.queues, s.links
    s.sizes[STEPS] = s.sizes[LINKS] = s.sizes[READY] = 0
    held[:] = ABSENT
    for n in range(queues.size):
        queues[n].last = queues[n].first_ready = queues[n].running = -1
        queues[n].end_s = np.inf
    for item in range(items.size):
        if items[item].given >= 0:
            held[item, items[item].given] = GIVEN
    for place in range(s.order.size):
        task = s.order[place]
        node = nodes[task]
        device = s.lanes[node.processor].device
        home = s.homes[device]
        for row in range(s.read_start[task], s.read_start[task + 1]):
            item = s.read_item[row]
            if _read_space(s.reach, held, item, device) >= 0:
                continue
            source = _source(s.routes, held, item, items[item].nbytes, home)
            if source < 0:
                return False
            while source != home:
                route = s.routes[source, s.routes[source, home].stop]
                lane = s.copy_lane[device, source, route.stop]
                seconds = route.latency_s + items[item].nbytes * route.s_per_byte
                step = _add_step(steps, queues, s.sizes, node.processor if lane < 0 else lane, task, seconds)
                _link(steps, links, s.sizes, held[item, source], step)
                held[item, route.stop] = step
                source = route.stop
        step = _add_step(steps, queues, s.sizes, node.processor, task, s.costs[task, device].seconds)
        s.step_of[task] = step
        for k in range(node.wait, nodes[task + 1].wait):
            _link(steps, links, s.sizes, s.step_of[s.arcs[k]], step)
        for row in range(s.read_start[task], s.read_start[task + 1]):
            item = s.read_item[row]
            _link(steps, links, s.sizes, held[item, _read_space(s.reach, held, item, device)], step)
        for k in range(node.make, nodes[task + 1].make):
            item, old, space = s.makes[k].item, s.makes[k].replaces, home
            if old >= 0:
                space = _read_space(s.reach, held, old, device)
            elif s.reach.shape[1] > 1:
                space = _write_space(s, task, item, device)
            held[item, space] = step
            items[item].made_in = space
    return True


@lean
def run(
    nodes: Records, steps: Records, queues: Records, links: Ints, step_of: Ints, sizes: Ints, limit_s: float
) -> float:
    """Return the makespan of the steps, infinity if it exceeds a limit."""
    for k in range(sizes[STEPS]):
        if steps[k].waiting == 0:
            _add_ready(steps, queues, sizes, k)
    now, ended = 0.0, -1
    while True:
        for n in range(queues.size):
            if queues[n].running < 0 and queues[n].first_ready >= 0:
                k = queues[n].first_ready
                queues[n].first_ready = steps[k].next_ready
                steps[sizes[READY]].to_start = k
                sizes[READY] += 1
        for place in range(sizes[READY]):
            k = steps[place].to_start
            step = steps[k]
            step.cause = ended
            step.start_s = now
            queues[step.lane].running = k
            queues[step.lane].end_s = now + step.seconds
            # A copy is followed by the task that needs it; the least time from a task's start includes its own.
            least_s = nodes[step.task].tail_s
            least_s = max(step.seconds, least_s) if step_of[step.task] == k else step.seconds + least_s
            if now + least_s > limit_s:
                return np.inf
        sizes[READY] = 0
        soonest = 0
        for n in range(1, queues.size):
            sooner = queues[n].end_s < queues[soonest].end_s
            if sooner or (queues[n].end_s == queues[soonest].end_s and queues[n].running < queues[soonest].running):
                soonest = n
        if queues[soonest].end_s == np.inf:
            return now
        now, ended = queues[soonest].end_s, queues[soonest].running
        steps[ended].finish_s = now
        queues[soonest].running = -1
        queues[soonest].end_s = np.inf
        link, after = steps[ended].link, steps[ended].next
        while after >= 0 or link >= 0:
            if after < 0:
                after, link = links[link, 0], links[link, 1]
            steps[after].waiting -= 1
            if steps[after].waiting == 0:
                _add_ready(steps, queues, sizes, after)
            after = -1


# --- steps ----------------------------------------------------------------------------------------


@lean
def _add_step(steps: Records, queues: Records, sizes: Ints, lane: int, task: int, seconds: float) -> int:
    """Add a step; on lanes that keep their order of issue it waits for the step before it."""
    number = sizes[STEPS]
    sizes[STEPS] = number + 1
    step, queue = steps[number], queues[lane]
    step.lane, step.task, step.seconds = lane, task, seconds
    step.waiting = 0
    step.next = step.link = -1
    if queue.reorders == 0:
        if queue.last >= 0:
            steps[queue.last].next = number
            step.waiting = 1
        queue.last = number
    return int(number)


@lean
def _link(steps: Records, links: Ints, sizes: Ints, before: int, after: int) -> None:
    """Make a step wait for another, unless that is no step."""
    if before >= 0:
        link = sizes[LINKS]
        sizes[LINKS] = link + 1
        links[link, 0], links[link, 1] = after, steps[before].link
        steps[before].link = link
        steps[after].waiting += 1


@lean
def _add_ready(steps: Records, queues: Records, sizes: Ints, step: int) -> None:
    """Add a step to those to start, or to the ready copies of its copy lane, by the order of issue."""
    queue = queues[steps[step].lane]
    if queue.reorders == 0:
        steps[sizes[READY]].to_start = step
        sizes[READY] += 1
        return
    before, after = -1, queue.first_ready
    while after >= 0 and after < step:
        before, after = after, steps[after].next_ready
    steps[step].next_ready = after
    if before >= 0:
        steps[before].next_ready = step
    else:
        queue.first_ready = step


# --- items ----------------------------------------------------------------------------------------


@lean
def _read_space(reach: Ints, held: Ints, item: int, device: int) -> int:
    """Return the space in which a device reads an item: the first it reaches that has it; -1 if none."""
    for k in range(reach.shape[1]):
        if held[item, reach[device, k]] != ABSENT:
            return int(reach[device, k])
    return -1


@lean
def _source(routes: Records, held: Ints, item: int, nbytes: float, destination: int) -> int:
    """Return the space from which an item arrives soonest, on a tie the one that has it for longest; -1 if none."""
    found, least_s = -1, np.inf
    for space in range(held.shape[1]):
        if held[item, space] == ABSENT:
            continue
        seconds, at = 0.0, space
        while at != destination and seconds < np.inf:
            stop = routes[at, destination].stop
            if stop < 0:
                seconds = np.inf
            else:
                seconds += routes[at, stop].latency_s + nbytes * routes[at, stop].s_per_byte
                at = stop
        if seconds < least_s or (found >= 0 and seconds == least_s and held[item, space] < held[item, found]):
            found, least_s = space, seconds
    return found


@lean
def _write_space(s: QueuedState, task: int, item: int, device: int) -> int:
    """Return the home of the first reader whose home the device reaches; else the device's own."""
    best, soonest = s.homes[device], s.order.size
    for k in range(s.nodes[task].feed, s.nodes[task + 1].feed):
        reader = s.nodes[s.feeds[k].task]
        home = s.homes[s.lanes[reader.processor].device]
        if s.feeds[k].item == item and reader.position < soonest:
            for row in range(s.reach.shape[1]):
                if s.reach[device, row] == home:
                    best, soonest = home, reader.position
    return int(best)
