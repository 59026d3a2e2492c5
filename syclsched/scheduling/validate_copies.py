# SPDX-License-Identifier: Apache-2.0
"""Validation of a timetable's copies: the listed copies, and the copies of wanted results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syclsched.scheduling.data_locations import DataLocations
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Copies, Timetable


def malformed_copies(problem: Problem, timetable: Timetable) -> Iterator[str]:
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


def copy_mistakes(problem: Problem, timetable: Timetable, whereabouts: DataLocations, slack_s: float) -> Iterator[str]:
    """Yield the errors in the listed copies."""
    copies = timetable.copies
    if copies is None or not len(copies.item):
        return
    yield from _single_copy_errors(problem, copies, whereabouts, slack_s)
    yield from _duplicates(problem, copies)
    yield from _channel_overlaps(problem, copies, slack_s)


def unmet_wants(problem: Problem, whereabouts: DataLocations) -> Iterator[str]:
    """Yield the wanted results that never reach their spaces."""
    tables = problem.tables
    ready_s = whereabouts.ready_s(tables.want_item, tables.want_space)
    for wish in np.flatnonzero(np.isinf(ready_s)).tolist():
        what, space = problem.item_name(int(tables.want_item[wish])), problem.spaces[tables.want_space[wish]]
        yield f"{what} is wanted in {space!r}, where it never is"


# --- inside ---------------------------------------------------------------------------------------


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
