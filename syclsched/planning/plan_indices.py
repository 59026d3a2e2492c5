# SPDX-License-Identifier: Apache-2.0
"""A finished plan as index arrays for verification, read from the plan alone and not from how it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from syclsched.errors import IncompletePlanError, PlanError
from syclsched.model.access import MODE_CODE, MODES
from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform import HOST
from syclsched.model.tables.distinct_codes import distinct
from syclsched.model.tables.instruction_table import INSTRUCTION_KINDS, InstructionTable, Texts, table_of
from syclsched.model.tables.lazy_objects import lane_table
from syclsched.planning.draft import Flags, Ints, gather_places, gather_ragged, ragged, ragged_starts

#: Codes of instruction kinds; kinds from `LAUNCH` on run tasks.
ALLOC, FREE, COPY, LAUNCH, HOST_CALL, BARRIER = range(6)
_KINDS: Final = {kind: n for n, kind in enumerate(INSTRUCTION_KINDS)}

READING: Final = np.array([m.reads for m in MODES])
WRITING: Final = np.array([m.writes for m in MODES])

_ARRAY, _MODE = map(attrgetter, ("array", "mode"))


class PlanIndices(NamedTuple):
    """Instructions by number, tasks by submission; -1 for a task or array that the plan does not contain."""

    lane_count: int
    array_count: int
    #: Of each instruction; ``position`` is its place in its lane.
    kind: Ints
    lane: Ints
    position: Ints
    task: Ints
    nbytes: Ints
    again: Ints
    #: Ragged: the instructions each waits for, by index.
    wait_starts: Ints
    waits: Ints
    #: Ragged: the uses of each instruction; a buffer is a pair of array and space.
    use_starts: Ints
    use_array: Ints
    use_space: Ints
    use_mode: Ints
    use_buffer: Ints
    buffer_array: Ints  # array of each buffer
    is_input: Flags  # of each buffer: whether it is the user's
    repeatable: Flags  # of each task: whether it may run more than once
    #: Ragged: explicit and barrier dependencies of each task.
    after_starts: Ints
    after: Ints
    #: Ragged: the declared accesses of each task.
    access_starts: Ints
    access_array: Ints
    access_mode: Ints


class IndexedPlan:
    """A plan, and its instructions sorted by number as `PlanIndices`."""

    def __init__(self, plan: Plan, tables: Sequence[InstructionTable], order: Ints, numbers: PlanIndices) -> None:
        self.plan = plan
        self._tables = tables  # the instructions of each lane
        self._order = order  # of the instructions lane after lane, by number
        self.numbers = numbers

    def with_numbers(self, numbers: PlanIndices) -> IndexedPlan:
        """Return the plan with other index arrays."""
        return IndexedPlan(self.plan, self._tables, self._order, numbers)

    def implementations(self) -> tuple[Sequence[str | None], Ints]:
        """Return the names of implementations, and the index of each instruction's."""
        columns = [table.implementation for table in self._tables]
        names = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(c.values for c in columns)))}
        return list(names), _numbered(columns, names)[self._order]

    @cached_property
    def instructions(self) -> Sequence[Instruction]:
        """The instructions, for error messages."""
        return _sorted_instructions(self.plan, self._order)

    def where(self, index: int) -> str:
        """Return an instruction's place, for error messages."""
        lane = self.plan.lanes[self.numbers.lane[index]]
        return f"instruction {self.instructions[index].id} on lane {lane.name!r}"


def _sorted_instructions(plan: Plan, order: Ints) -> list[Instruction]:
    found = [i for lane in plan.lanes for i in lane.instructions]
    return list(map(found.__getitem__, order.tolist()))


def index_plan(plan: Plan) -> IndexedPlan:
    """Return a plan as index arrays; refuse names and references it does not define."""
    arrays = _by_name(plan, "arrays", [a.name for a in plan.arrays])
    tasks = _by_name(plan, "tasks", [t.name for t in plan.tasks])
    spaces = _by_name(plan, "memory spaces", [s.name for s in plan.platform.spaces])
    _check_devices(plan, spaces)
    tables = list(map(lane_table, plan.lanes)) or [table_of(())]
    order, number, lane, position = _in_order(plan, tables)
    use_starts, use_order = gather_places(_joined_starts([table.use_starts for table in tables]), order)
    use_array = _numbered([table.use_array for table in tables], arrays)
    use_space = _numbered([table.use_space for table in tables], spaces)
    use_mode = np.concatenate([table.use_mode for table in tables])
    if (use_space < 0).any():
        _refuse_space(plan, spaces)
    use_array, use_space = use_array[use_order], use_space[use_order]
    inputs = np.array([arrays[a.name] for a in plan.arrays if a.is_input], np.int64)
    given_in = _given_in(plan, spaces)
    pairs = np.concatenate((use_array * len(spaces) + use_space, inputs * len(spaces) + given_in))
    # Unknown arrays have number -1.
    buffers, which = distinct(pairs + len(spaces), (len(arrays) + 1) * len(spaces))
    buffers -= len(spaces)
    is_input = np.zeros(len(buffers), np.bool_)
    is_input[which[len(use_array) :]] = True
    accesses = [access for t in plan.tasks for access in t.accesses]
    wait_starts, waits = gather_ragged(
        _joined_starts([table.wait_starts for table in tables]),
        np.concatenate([table.waits for table in tables]),
        order,
    )
    after_starts, after = ragged([[tasks.get(name, -1) for name in t.after] if t.after else () for t in plan.tasks])
    numbers = PlanIndices(
        lane_count=len(plan.lanes),
        array_count=len(arrays),
        kind=_numbered([table.kind for table in tables], _KINDS)[order],
        lane=lane,
        position=position,
        task=_numbered([table.task for table in tables], tasks)[order],
        nbytes=np.concatenate([table.nbytes for table in tables])[order],
        again=np.concatenate([table.again for table in tables])[order],
        wait_starts=wait_starts,
        waits=_places(plan, order, number, wait_starts, waits),
        use_starts=use_starts,
        use_array=use_array,
        use_space=use_space,
        use_mode=use_mode[use_order],
        use_buffer=which[: len(use_array)],
        buffer_array=buffers // len(spaces),
        is_input=is_input,
        repeatable=np.fromiter((t.repeatable for t in plan.tasks), np.bool_, len(plan.tasks)),
        after_starts=after_starts,
        after=after,
        access_starts=ragged_starts([t.accesses for t in plan.tasks]),
        access_array=_looked_up(arrays, map(_ARRAY, accesses), len(accesses)),
        access_mode=_looked_up(MODE_CODE, map(id, map(_MODE, accesses)), len(accesses)),
    )
    _check_tasks(plan, numbers)
    return IndexedPlan(plan, tables, order, numbers)


def _given_in(plan: Plan, spaces: Mapping[str, int]) -> Ints:
    """Return the space of each input, in the order of the arrays; refuse spaces and arrays not in the plan."""
    known = {array.name for array in plan.arrays}
    for chosen in plan.memory:
        missing = {chosen.space, chosen.context or chosen.space} - spaces.keys()
        if missing or chosen.array not in known:
            what = f"memory space {missing.pop()!r}" if missing else "array"
            raise IncompletePlanError(
                f"{what} is not in the plan", where=f"memory of array {chosen.array!r}", hint="Plan again"
            )
    residents = plan.residents
    return np.array([spaces[residents.get(a.name, HOST)] for a in plan.arrays if a.is_input], np.int64)


def _by_name(plan: Plan, what: str, names: Sequence[str]) -> dict[str, int]:
    """Return the index of each name; refuse duplicates."""
    places = {name: place for place, name in enumerate(names)}
    if len(places) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise IncompletePlanError(
            f"two {what} have the name {twice!r}",
            where=f"plan {plan.name!r}",
            hint="Names are unique within a plan; plan again",
        )
    return places


def _check_devices(plan: Plan, spaces: Mapping[str, int]) -> None:
    """Refuse a platform without the host's memory, and lanes on unknown devices."""
    if HOST not in spaces:
        raise IncompletePlanError(
            f"the platform has no memory space {HOST!r}", where=f"plan {plan.name!r}", hint="Plan again"
        )
    devices = _by_name(plan, "devices", [d.name for d in plan.platform.devices])
    for lane in plan.lanes:
        if lane.device not in devices:
            of = f"instruction {lane.instructions[0].id} on " if lane.instructions else ""
            raise IncompletePlanError(
                f"device {lane.device!r} is not on the platform",
                where=f"{of}lane {lane.name!r}",
                hint=f"It has {', '.join(devices)}",
            )


def _refuse_space(plan: Plan, spaces: Mapping[str, int]) -> NoReturn:
    """Raise for the first instruction that touches an unknown space."""
    lane, instruction, space = next(
        (lane, instruction, use.space)
        for lane in plan.lanes
        for instruction in lane.instructions
        for use in instruction.uses
        if use.space not in spaces
    )
    raise IncompletePlanError(
        f"memory space {space!r} is not on the platform",
        where=f"instruction {instruction.id} on lane {lane.name!r}",
        hint=f"It has {', '.join(spaces)}",
    )


def _looked_up(table: Mapping[Any, int], keys: Iterable[object], count: int) -> Ints:
    """Return the table's value for each key; -1 for unknown keys."""
    return np.fromiter(map(table.get, keys, repeat(-1)), np.int64, count)


def _numbered(columns: Sequence[Texts], numbers: Mapping[Any, int]) -> Ints:
    """Return the number of each text of some columns; -1 for unknown ones. Columns often share their values."""
    known: dict[int, Ints] = {}
    for column in columns:
        if id(column.values) not in known:
            known[id(column.values)] = np.array([numbers.get(value, -1) for value in column.values], np.int64)
    return np.concatenate([known[id(column.values)][column.index] for column in columns])


def _joined_starts(starts: Sequence[Ints]) -> Ints:
    """Return the offsets of ragged rows that follow each other."""
    return np.concatenate(([0], np.cumsum(np.concatenate([np.diff(each) for each in starts])))).astype(np.int64)


def _in_order(plan: Plan, tables: Sequence[InstructionTable]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the order by number of all instructions lane after lane, and number, lane and position in that order."""
    sizes = list(map(len, tables))
    lane = np.repeat(np.arange(len(sizes)), sizes)
    position = np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
    ids = np.concatenate([table.id for table in tables])
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(twice):
        again = order[twice[0] + 1]
        raise IncompletePlanError(
            f"two instructions have the number {ids[again]}", where=f"lane {plan.lanes[lane[again]].name!r}"
        )
    falling = np.flatnonzero((np.diff(ids) < 0) & (np.diff(lane) == 0))
    if len(falling):
        odd = falling[0]
        raise IncompletePlanError(
            f"instruction {ids[odd + 1]} comes after {ids[odd]}: numbers must follow the order in which work is done",
            where=f"lane {plan.lanes[lane[odd]].name!r}",
        )
    return order, ids[order], lane[order], position[order]


def _places(plan: Plan, order: Ints, ids: Ints, starts: Ints, waits: Ints) -> Ints:
    """Return the indices of the instructions waited for; refuse unknown and later ones."""
    places = np.searchsorted(ids, waits)
    waiting = np.repeat(np.arange(len(ids)), np.diff(starts))
    unknown = (places == len(ids)) | (ids[np.minimum(places, len(ids) - 1)] != waits) if len(waits) else waits != waits
    for wrong in np.flatnonzero(unknown | (places >= waiting))[:1]:
        instruction = _sorted_instructions(plan, order)[waiting[wrong]]
        what = (
            f"instruction {instruction.id} ({instruction.kind} for task {instruction.task!r}) waits for {waits[wrong]}"
        )
        if unknown[wrong]:
            raise IncompletePlanError(f"{what}, which does not exist", where=f"instruction {instruction.id}")
        raise IncompletePlanError(
            f"{what}, which comes later: lanes could wait for each other",
            where=f"instruction {instruction.id}",
            hint="The plan could deadlock; plan again",
        )
    return places.astype(np.int64)


def _check_tasks(plan: Plan, numbers: PlanIndices) -> None:
    """Refuse tasks that refer to unknown arrays or tasks."""
    for wrong in np.flatnonzero(numbers.access_array < 0)[:1]:
        task = plan.tasks[np.searchsorted(numbers.access_starts, wrong, side="right") - 1]
        odd = task.accesses[wrong - numbers.access_starts[plan.tasks.index(task)]].array
        raise PlanError(f"task {task.name!r} touches array {odd!r}, which is not in the plan")
    for wrong in np.flatnonzero(numbers.after < 0)[:1]:
        task = plan.tasks[np.searchsorted(numbers.after_starts, wrong, side="right") - 1]
        raise PlanError(f"task {task.name!r} comes after a task that is not in the plan")
