# SPDX-License-Identifier: Apache-2.0
"""Gap search on timelines, compared with a plain list of busy intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.scheduling.core.timelines import (
    CLOSED,
    FREE,
    LEFT,
    LONGEST,
    PARENT,
    RIGHT,
    START,
    Timelines,
    earliest_start,
    insert_node,
    make_timelines,
    remove_node,
)

HEAD = 40

TIME = st.one_of(st.integers(0, 12).map(float), st.floats(0.0, 12.0))
LENGTH = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(0.0, 4.0))


def first_fit(taken: list[tuple[float, float, int]], ready_s: float, duration_s: float) -> float:
    ends = [0.0, *[end for _, end, _ in taken]]
    starts = [*[start for start, _, _ in taken], math.inf]
    gaps = zip(ends, starts, strict=True)
    return next(max(a, ready_s) for a, b in gaps if max(a, ready_s) + duration_s <= b)


def in_time(lines: Timelines, head: int) -> list[int]:
    """Return the nodes of a timeline in order, and check its invariants."""
    link, time = lines.link, lines.time

    def below(node: int, parent: int) -> list[int]:
        if node < 0:
            return []
        assert link[node, PARENT] == parent
        nodes = [*below(link[node, LEFT], node), node, *below(link[node, RIGHT], node)]
        longest = max(time[n, START] - time[n, FREE] for n in nodes)
        assert longest <= time[node, LONGEST] <= longest + 1e-12 * time[nodes[-1], START]
        assert all(time[n, START] <= time[head, CLOSED] for n in nodes if time[n, START] > time[n, FREE])
        return nodes

    return below(link[head, LEFT], head)


@given(st.lists(st.tuples(TIME, LENGTH, st.booleans()), max_size=30))
def test_the_earliest_start_is_the_first_fit(wishes: list[tuple[float, float, bool]]) -> None:
    lines = make_timelines(2, HEAD)
    taken: list[tuple[float, float, int]] = []
    for node, (ready_s, duration_s, leave) in enumerate(wishes):
        start_s = earliest_start(lines.link, lines.time, HEAD + 1, ready_s, duration_s, np.inf)
        assert start_s == first_fit(taken, ready_s, duration_s)
        for latest_s in (start_s, start_s / 2.0):
            found_s = earliest_start(lines.link, lines.time, HEAD + 1, ready_s, duration_s, latest_s)
            assert found_s == start_s or (found_s == math.inf and start_s > latest_s)
        insert_node(lines.link, lines.time, HEAD + 1, node, start_s, start_s + duration_s)
        taken.append((start_s, start_s + duration_s, node))
        taken.sort(key=lambda entry: entry[:2])
        if leave:
            gone = taken.pop(node * 7 % len(taken))
            remove_node(lines.link, lines.time, HEAD + 1, gone[2])
        nodes = in_time(lines, HEAD + 1)
        assert [lines.time[n, START] for n in nodes] == [start for start, _, _ in taken]
        assert lines.time[HEAD + 1, FREE] == max([end for _, end, _ in taken], default=0.0)
    assert in_time(lines, HEAD) == []


def test_an_empty_timeline_is_free_at_once() -> None:
    lines = make_timelines(1, 4)
    assert earliest_start(lines.link, lines.time, 4, 3.0, 5.0, np.inf) == 3.0


@pytest.mark.parametrize(("ready_s", "start_s"), [(0.0, 0.0), (0.5, 1.0), (1.0, 1.0), (1.5, 2.0), (2.0, 2.0)])
def test_instant_between_touching_intervals(ready_s: float, start_s: float) -> None:
    lines = make_timelines(1, 4)
    insert_node(lines.link, lines.time, 4, 0, 0.0, 1.0)
    insert_node(lines.link, lines.time, 4, 1, 1.0, 2.0)
    assert earliest_start(lines.link, lines.time, 4, ready_s, 0.0, np.inf) == start_s


def test_an_instant_in_a_gap_divides_it() -> None:
    lines = make_timelines(1, 4)
    insert_node(lines.link, lines.time, 4, 0, 4.0, 5.0)
    insert_node(lines.link, lines.time, 4, 1, 2.0, 2.0)
    assert earliest_start(lines.link, lines.time, 4, 0.0, 3.0, np.inf) == 5.0
    assert earliest_start(lines.link, lines.time, 4, 1.0, 2.0, np.inf) == 2.0


def test_trees_stay_flat_for_sorted_insertions() -> None:
    """A path of nodes would be as deep as there are nodes; a search tree by chance is some forty deep."""
    count = 4096
    for starts in (np.arange(count), np.arange(count)[::-1]):
        lines = make_timelines(1, count)
        for node, start in enumerate(starts.tolist()):
            insert_node(lines.link, lines.time, count, node, 2.0 * start, 2.0 * start + 1.0)
        deepest = 0
        for node in range(count):
            depth, above = 0, node
            while above != count:
                depth, above = depth + 1, int(lines.link[above, PARENT])
            deepest = max(deepest, depth)
        assert deepest < 64
