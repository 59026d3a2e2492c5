# SPDX-License-Identifier: Apache-2.0
"""Sequence of the planning passes: graph, platform and schedule in, plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from syclsched.errors import MemoryLimitError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Counters, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.planning.array_plan import ArrayPlan
from syclsched.planning.draft import Ints, PlanDraft
from syclsched.planning.graph_record import GraphRecord, record
from syclsched.planning.instruction_rows import WORK, Touches, touches
from syclsched.planning.memory.constant_memory import constant_bytes, reserve_memory
from syclsched.planning.memory.footprint import Footprint
from syclsched.planning.memory.liveness import add_allocations, check_capacity
from syclsched.planning.memory.zero_copy import NO_ZERO_COPY, ZeroCopyArrays, profitable_zero_copy, requested_zero_copy
from syclsched.planning.order import global_order
from syclsched.planning.synchronisation.fences import count_fences
from syclsched.planning.synchronisation.hazards import hazards
from syclsched.planning.synchronisation.wait_reduction import reduce_waits
from syclsched.planning.transfers.prefetch import WORTH, issue_early
from syclsched.planning.transfers.recomputation_cost import recomputing_may_pay
from syclsched.planning.transfers.transfers import transfers

#: How often a plan is tried, with half of the donated arrays in place as before, until it fits into memory.
_HALVINGS: Final = 3
#: Least relative gain of a plan with recomputed values or zero-copy arrays over one without.
_ROUNDING: Final = 1e-9


def build_plan(
    graph: TaskGraph,
    platform: Platform,
    schedule: Schedule,
    durations_s: Mapping[str, float],
    options: Sequence[Option] = (),
    *,
    prefetch_worth: float = WORTH,
) -> Plan:
    """Make a schedule executable; copies are issued early if that saves a share ``prefetch_worth`` of the time.

    If the plan does not fit into a memory space, it is built again with arrays evicted to the host's memory and copied
    back when needed, or with temporaries dropped and recomputed where that is predicted to be faster.
    """
    return _build_array_plan(graph, platform, schedule, durations_s, prefetch_worth).plan(tuple(options))


def _build_array_plan(
    graph: TaskGraph, platform: Platform, schedule: Schedule, durations_s: Mapping[str, float], prefetch_worth: float
) -> ArrayPlan:
    """Make a schedule executable as `build_plan` does, without creating the plan's instruction objects."""
    with paused_collection():
        given = plan_inputs(graph, platform, schedule, durations_s)._replace(prefetch_worth=prefetch_worth)
        draft = make_draft(given)
        made = finish_plan(given, draft) if draft.footprint.fits() else _within_memory(given)
        return _in_place_if_faster(graph, given, made)


def _in_place_if_faster(graph: TaskGraph, given: _PlanInputs, made: ArrayPlan) -> ArrayPlan:
    """Return a plan that uses arrays in place, if it is predicted to be faster than the one given."""
    in_place = profitable_zero_copy(graph, given.known, given.platform, given.assignments, made.in_place)
    if in_place is None:
        return made
    other = given._replace(in_place=in_place)
    draft = make_draft(other)
    if not draft.footprint.fits():
        return made
    placed = finish_plan(other, draft)
    return placed if placed.makespan_s < made.makespan_s * (1.0 - _ROUNDING) else made


class _PlanInputs(NamedTuple):
    """Inputs of the planning passes, with the tasks in global order."""

    known: GraphRecord
    name: str
    platform: Platform
    schedule: Schedule
    durations_s: Mapping[str, float]
    assignments: Sequence[Assignment]
    constant_bytes: Mapping[str, int]  # size of the constants, by space
    room: Platform  # the platform without the memory of constants and resident inputs
    in_place: ZeroCopyArrays  # arrays used without a copy
    prefetch_worth: float = WORTH  # see `build_plan`


class _DraftFootprint(NamedTuple):
    """Steps with each copy right before its first use, the blocks they touch, and their memory footprint."""

    draft: PlanDraft
    touched: Touches
    footprint: Footprint


def plan_inputs(
    graph: TaskGraph, platform: Platform, schedule: Schedule, durations_s: Mapping[str, float]
) -> _PlanInputs:
    """Return the inputs of the planning passes."""
    known = record(graph)
    order = global_order(known, schedule)
    taken = constant_bytes(known.constants, ((each.task, each.device) for each in order), platform)
    in_place = requested_zero_copy(graph, known, platform, order)
    while True:
        try:
            room = _room(known, platform, taken, in_place)
            break
        except MemoryLimitError:
            if in_place.donated_only() is NO_ZERO_COPY:
                raise
            in_place = in_place.with_half_donated(known)
    return _PlanInputs(known, graph.name, platform, schedule, durations_s, order, taken, room, in_place)


def _room(known: GraphRecord, platform: Platform, taken: Mapping[str, int], in_place: ZeroCopyArrays) -> Platform:
    """Return the platform without the memory of constants and resident inputs."""
    resident = in_place.resident_bytes(known)
    return reserve_memory(platform, {s: taken.get(s, 0) + resident.get(s, 0) for s in {**taken, **resident}})


def make_draft(given: _PlanInputs, *, limited: bool = False, remaking: bool = False) -> _DraftFootprint:
    """Return the steps; with ``limited``, within the capacities of the memory spaces."""
    known, platform = given.known, given.room
    draft = transfers(
        known, platform, given.durations_s, given.assignments, given.in_place, limited=limited, remaking=remaking
    )
    touched = touches(draft.steps)
    return _DraftFootprint(draft, touched, Footprint(draft, touched, platform))


def _within_memory(given: _PlanInputs) -> ArrayPlan:
    """Return a plan that fits into memory: of donated arrays as many as there is room for are updated in place."""
    for _ in range(_HALVINGS):
        donated = given.in_place.donated_only()
        if donated is NO_ZERO_COPY:
            break
        with suppress(MemoryLimitError):
            return _evicting_or_remaking(given, donated)
        given = given._replace(in_place=given.in_place.with_half_donated(given.known))
    # Any array may have to be evicted, so none is used in place.
    return _evicting_or_remaking(given, NO_ZERO_COPY)


def _evicting_or_remaking(given: _PlanInputs, in_place: ZeroCopyArrays) -> ArrayPlan:
    """Return the faster of two plans that fit into memory: with evictions only, or with recomputed values, too.

    Simulation decides, as it alone accounts for the load of the links.
    """
    room = _room(given.known, given.platform, given.constant_bytes, in_place)
    given = given._replace(in_place=in_place, room=room)
    refused = evicting = None
    try:
        evicting = finish_plan(given, make_draft(given, limited=True))
    except MemoryLimitError as error:
        refused = error
    if evicting is not None and not recomputing_may_pay(
        given.known, given.platform, given.assignments, given.durations_s
    ):
        return evicting
    try:
        draft = make_draft(given, limited=True, remaking=True)
        remaking = finish_plan(given, draft) if draft.draft.steps.again.any() else None
    except MemoryLimitError:
        remaking = None
    if remaking is None:
        if evicting is None:
            assert refused is not None
            raise refused
        return evicting
    if evicting is None:
        return remaking
    return remaking if remaking.makespan_s < evicting.makespan_s * (1.0 - _ROUNDING) else evicting


def finish_plan(given: _PlanInputs, drafts: _DraftFootprint) -> ArrayPlan:
    """Return the plan of draft steps: prefetched copies, allocations and frees, and reduced waits."""
    draft, touched, footprint = drafts
    known, platform = given.known, given.platform
    after = known.numbered_after()
    order = issue_early(draft, touched, after, footprint, platform, given.prefetch_worth)
    if order is not None:
        draft = replace(draft, steps=draft.steps.ordered(order))
        touched = touches(draft.steps)
    rows = add_allocations(draft, touched)
    edge_starts, edges = hazards(rows, draft, after)
    used, lane_of_step = _lane_order(platform, draft)
    lane = lane_of_step[rows.step]
    wait_starts, waits = reduce_waits(lane, edge_starts, edges, rows.phase == WORK, len(used))
    peak = footprint.peak_bytes(order)
    check_capacity(peak, given.room)
    copies = draft.steps.copies
    return ArrayPlan(
        known,
        given.name,
        platform,
        given.schedule,
        draft,
        rows,
        tuple(draft.lanes[n] for n in used),
        lane,
        wait_starts,
        waits,
        peak,
        Counters(
            dependencies=known.dependencies,
            edges=len(edges),
            waits=len(waits),
            events=len(np.unique(waits)),
            barriers=count_fences(draft, rows, wait_starts, waits, platform, known.nbytes),
            copies=int(copies.sum()),
            copied_bytes=int(draft.steps.nbytes[copies].sum()),
            recomputed=int(np.count_nonzero(draft.steps.again)),
        ),
        dict(given.constant_bytes),
        given.in_place,
    )


def _lane_order(platform: Platform, draft: PlanDraft) -> tuple[list[int], Ints]:
    """Return the used lanes in plan order (by device, its copy lane last) and each step's place among them."""
    rank = {d.name: i for i, d in enumerate(platform.devices)}
    used = sorted(
        np.unique(draft.steps.lane).tolist(),
        key=lambda n: (rank[draft.lanes[n].device], draft.lanes[n].kind == "copy", draft.lanes[n].number),
    )
    place = np.zeros(len(draft.lanes), np.int64)
    place[used] = np.arange(len(used))
    return used, place[draft.steps.lane]
