# SPDX-License-Identifier: Apache-2.0
"""Independent validation of a timetable against its problem.

It shares only the problem's tables with the policies and their compiled core: locations and arrival times of items are
derived again from the definition of the model, so that mistakes of the engine are found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syclsched.errors import PlanError
from syclsched.scheduling.data_locations import DataLocations
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Copies, Timetable

#: Relative tolerance of times, which are sums of floats in different orders.
TOLERANCE = 1e-9


def validate(problem: Problem, timetable: Timetable, *, policy: str | None = None) -> None:
    """Raise `PlanError` if a timetable does not solve a problem."""
    found = violations(problem, timetable)
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        where = "timetable" if policy is None else f"timetable by {policy!r}"
        raise PlanError("; ".join(found[:3]) + more, where=where)


def violations(problem: Problem, timetable: Timetable) -> tuple[str, ...]:
    """Return all violations of a timetable."""
    found = [*_malformed(problem, timetable), *_malformed_copies(problem, timetable)]
    if found:
        return tuple(found)
    slack_s = TOLERANCE * max(timetable.makespan_s, _last_copy_s(timetable.copies))
    found += _durations(problem, timetable, slack_s)
    if found:
        return tuple(found)
    whereabouts = DataLocations(problem.tables, timetable)
    found += _releases(problem, timetable, slack_s)
    found += _precedence(problem, timetable, slack_s)
    found += _arrivals(problem, timetable, whereabouts, slack_s)
    found += _overlaps(problem, timetable, slack_s)
    found += _wrong_copies(problem, timetable, whereabouts, slack_s)
    found += _unmet_wants(problem, whereabouts)
    return tuple(found)


# --- inside ---------------------------------------------------------------------------------------


def _last_copy_s(copies: Copies | None) -> float:
    return 0.0 if copies is None else float(copies.finish_s.max(initial=0.0))


def _malformed(problem: Problem, timetable: Timetable) -> Iterator[str]:
    """Yield the defects that make all other checks meaningless."""
    count, columns = len(problem), (timetable.processor, timetable.start_s, timetable.finish_s)
    for column_name, column in zip(("processors", "starts", "finishes"), columns, strict=True):
        if column.shape != (count,):
            yield f"there are {column_name} of shape {column.shape} for {count} tasks"
            return
    if timetable.processor.dtype.kind not in "iu":
        yield f"processors are {timetable.processor.dtype}, not indices"
        return
    exists = (timetable.processor >= 0) & (timetable.processor < len(problem.lanes))
    for task in np.flatnonzero(~exists).tolist():
        yield f"task {problem.names[task]!r} is on processor {timetable.processor[task]}, which does not exist"
    start_s, finish_s = timetable.start_s, timetable.finish_s
    sane = np.isfinite(start_s) & np.isfinite(finish_s) & (start_s >= 0.0) & (finish_s >= start_s)
    for task in np.flatnonzero(~sane).tolist():
        yield f"task {problem.names[task]!r} runs from {float(start_s[task])!r} to {float(finish_s[task])!r}"


def _device(problem: Problem, timetable: Timetable) -> Ints:
    return problem.tables.processor_device[timetable.processor]


def _durations(problem: Problem, timetable: Timetable, slack_s: float) -> Iterator[str]:
    device = _device(problem, timetable)
    seconds = problem.tables.seconds[problem.tables.kind, device]
    given = timetable.finish_s - timetable.start_s
    impossible = np.isinf(seconds)
    for task in np.flatnonzero(impossible | (np.abs(given - seconds) > slack_s)).tolist():
        name, where = problem.names[task], problem.devices[device[task]]
        if impossible[task]:
            yield f"task {name!r} cannot run on {where!r}"
        else:
            yield f"task {name!r} is given {given[task]:g} s on {where!r}, it takes {seconds[task]:g} s"


def _releases(problem: Problem, timetable: Timetable, slack_s: float) -> Iterator[str]:
    release_s = problem.tables.release_s
    for task in np.flatnonzero(timetable.start_s < release_s - slack_s).tolist():
        start_s = timetable.start_s[task]
        yield f"task {problem.names[task]!r} starts at {start_s:g} s, it is released at {release_s[task]:g} s"


def _precedence(problem: Problem, timetable: Timetable, slack_s: float) -> Iterator[str]:
    tables = problem.tables
    after = _owners(tables.pred_start)
    before = tables.pred_task
    for arc in np.flatnonzero(timetable.start_s[after] < timetable.finish_s[before] - slack_s).tolist():
        yield f"task {problem.names[after[arc]]!r} starts before {problem.names[before[arc]]!r} has finished"


def _arrivals(problem: Problem, timetable: Timetable, whereabouts: DataLocations, slack_s: float) -> Iterator[str]:
    tables = problem.tables
    reader, item = _owners(tables.read_start), tables.read_item
    device = _device(problem, timetable)[reader]
    ready_s: Floats = whereabouts.ready_on(item, device)
    for read in np.flatnonzero(timetable.start_s[reader] < ready_s - slack_s).tolist():
        task, where = problem.names[reader[read]], problem.devices[device[read]]
        what = problem.item_name(int(item[read]))
        if np.isinf(ready_s[read]):
            why = "no copy of it is listed" if timetable.copies is not None else "there is no way"
            yield f"task {task!r} needs {what} on {where!r}, where it never is: {why}"
        else:
            yield f"task {task!r} starts on {where!r} before {what} is there"


def _overlaps(problem: Problem, timetable: Timetable, slack_s: float) -> Iterator[str]:
    """Yield overlaps between neighbours by start; this suffices, as any overlap implies one between neighbours."""
    order = np.lexsort((timetable.finish_s, timetable.start_s, timetable.processor))
    processor, start_s = timetable.processor[order], timetable.start_s[order]
    early = start_s[1:] < timetable.finish_s[order][:-1] - slack_s
    for place in np.flatnonzero((processor[1:] == processor[:-1]) & early).tolist():
        first, second = problem.names[order[place]], problem.names[order[place + 1]]
        device, lane = problem.processors[processor[place]]
        yield f"tasks {first!r} and {second!r} overlap on lane {lane} of {problem.devices[device]!r}"


def _owners(start: Ints) -> Ints:
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _malformed_copies(problem: Problem, timetable: Timetable) -> Iterator[str]:
    """Yield the defects that make the list of copies meaningless."""
    copies = timetable.copies
    if copies is None:
        if problem.has_channels:
            yield "copies are not listed, though they can get in each other's way"
        return
    if not problem.has_channels and len(copies.item):
        yield "copies are listed, though nothing is in their way and they start as soon as they can"
        return
    if len({column.shape for column in copies}) != 1 or copies.item.ndim != 1:
        yield f"columns of copies have shapes {', '.join(str(column.shape) for column in copies)}"
        return
    spaces = len(problem.spaces)
    exists = (copies.item >= 0) & (copies.item < len(problem.item_array))
    for space in (copies.source, copies.destination):
        exists &= (space >= 0) & (space < spaces)
    for copy in np.flatnonzero(~exists).tolist():
        what = f"item {copies.item[copy]} from space {copies.source[copy]} to {copies.destination[copy]}"
        yield f"copy {copy}, of {what}: no such item or space"
    sane = np.isfinite(copies.start_s) & np.isfinite(copies.finish_s) & (copies.start_s >= 0.0)
    for copy in np.flatnonzero(~sane | (copies.finish_s < copies.start_s)).tolist():
        yield f"copy {copy} runs from {float(copies.start_s[copy])!r} to {float(copies.finish_s[copy])!r}"


def _wrong_copies(problem: Problem, timetable: Timetable, whereabouts: DataLocations, slack_s: float) -> Iterator[str]:
    """Yield the errors in the listed copies."""
    copies = timetable.copies
    if copies is None or not len(copies.item):
        return
    yield from _single_copy_errors(problem, copies, whereabouts, slack_s)
    yield from _duplicates(problem, copies)
    yield from _channel_overlaps(problem, copies, slack_s)


def _unmet_wants(problem: Problem, whereabouts: DataLocations) -> Iterator[str]:
    """Yield the wanted results that never reach their spaces."""
    tables = problem.tables
    ready_s = whereabouts.ready_s(tables.want_item, tables.want_space)
    for wish in np.flatnonzero(np.isinf(ready_s)).tolist():
        what, space = problem.item_name(int(tables.want_item[wish])), problem.spaces[tables.want_space[wish]]
        yield f"{what} is wanted in {space!r}, where it never is"


def _describe(problem: Problem, copies: Copies, copy: int) -> str:
    source, destination = problem.spaces[copies.source[copy]], problem.spaces[copies.destination[copy]]
    return f"copy of {problem.item_name(int(copies.item[copy]))} from {source!r} to {destination!r}"


def _single_copy_errors(problem: Problem, copies: Copies, whereabouts: DataLocations, slack_s: float) -> Iterator[str]:
    tables = problem.tables
    nbytes = tables.item_bytes[copies.item]
    per_byte = tables.s_per_byte[copies.source, copies.destination]
    takes_s = np.where(nbytes > 0.0, tables.latency_s[copies.source, copies.destination] + nbytes * per_byte, 0.0)
    given_s = copies.finish_s - copies.start_s
    origin, made_s = whereabouts.origin[copies.item], whereabouts.made_s[copies.item]
    elsewhere = copies.source != origin
    idle = copies.source == copies.destination
    early = copies.start_s < made_s - slack_s
    wrong_time = ~(np.abs(given_s - takes_s) <= slack_s)
    for copy in np.flatnonzero(elsewhere | idle | early | wrong_time).tolist():
        which = _describe(problem, copies, copy)
        if idle[copy]:
            yield f"{which}: it is there already"
        elif elsewhere[copy]:
            yield f"{which}: it was made in {problem.spaces[origin[copy]]!r}"
        elif np.isinf(takes_s[copy]):
            yield f"{which}: there is no way"
        elif wrong_time[copy]:
            yield f"{which} is given {given_s[copy]:g} s, it takes {takes_s[copy]:g} s"
        else:
            yield f"{which} starts at {copies.start_s[copy]:g} s, before it is made at {made_s[copy]:g} s"


def _duplicates(problem: Problem, copies: Copies) -> Iterator[str]:
    key = copies.item * len(problem.spaces) + copies.destination
    order = np.argsort(key, kind="stable")
    for place in np.flatnonzero(key[order][1:] == key[order][:-1]).tolist():
        yield f"{_describe(problem, copies, int(order[place + 1]))} is listed twice"


def _channel_overlaps(problem: Problem, copies: Copies, slack_s: float) -> Iterator[str]:
    """Yield overlaps on channels, between neighbours by start (enough, as for processors)."""
    channel = problem.tables.channel[copies.source, copies.destination]
    copy, slot = np.nonzero(channel >= 0)
    channel = channel[copy, slot]
    order = np.lexsort((copies.finish_s[copy], copies.start_s[copy], channel))
    copy, channel = copy[order], channel[order]
    early = copies.start_s[copy[1:]] < copies.finish_s[copy[:-1]] - slack_s
    for place in np.flatnonzero((channel[1:] == channel[:-1]) & early).tolist():
        first, second = _describe(problem, copies, int(copy[place])), _describe(problem, copies, int(copy[place + 1]))
        yield f"{first} and {second} overlap on a channel"
