# SPDX-License-Identifier: Apache-2.0
"""Row ranges: their notation, refusals, and the dependencies that they imply."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import graphs, touching

from syclsched.errors import ArgumentError, GraphError, UnknownArrayError
from syclsched.model.access import Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.segments import Segment, joined_rows
from syclsched.model.task import ArrayRows, LogicalArray, Task

W, R, U, A = AccessMode.WRITE, AccessMode.READ, AccessMode.UPDATE, AccessMode.REDUCE


def cells(task: Task, graph: TaskGraph) -> dict[tuple[str, int], AccessMode]:
    """Return every row that a task touches, with its access mode."""
    return {
        (a.array, row): a.mode for a in task.accesses for row in range(*(a.rows or (0, graph.arrays[a.array].shape[0])))
    }


def conflict(first: Task, second: Task, graph: TaskGraph) -> bool:
    if "barrier" in (first.kind, second.kind):
        return True
    ours, theirs = cells(first, graph), cells(second, graph)
    return any(ours[cell].writes or theirs[cell].writes for cell in ours.keys() & theirs.keys())


@given(graphs(ranges=True))
def test_the_transitive_closure_orders_exactly_conflicting_tasks(graph: TaskGraph) -> None:
    found = [d for d in graph.dependencies() if d.kind != "explicit"]
    got, needed = nx.DiGraph(), nx.DiGraph()
    for digraph in (got, needed):
        digraph.add_nodes_from(t.name for t in graph.tasks)
    got.add_edges_from((d.before, d.after) for d in found)
    needed.add_edges_from((a.name, b.name) for a, b in combinations(graph.tasks, 2) if conflict(a, b, graph))
    assert set(nx.transitive_closure_dag(got).edges) == set(nx.transitive_closure_dag(needed).edges)
    assert len(set(found)) == len(found)


@given(graphs(ranges=True))
def test_segments_partition_the_array(graph: TaskGraph) -> None:
    for name, segments in graph.segments().items():
        ends = [segment.rows for segment in segments]
        assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
        assert ends[-1][1] == graph.arrays[name].shape[0]
    rows = {s.name: (s.whole, range(*s.rows)) for cut in graph.segments().values() for s in cut}
    for task, touched in zip(graph.tasks, graph.touched(), strict=True):
        found = {}
        for access in touched:
            whole, mine = rows.get(access.array, (access.array, range(graph.arrays[access.array].shape[0])
                                                  if access.array in graph.arrays else range(0)))  # fmt: skip
            found |= {(whole, row): access.mode for row in mine}
        assert found == cells(task, graph)


@given(graphs(ranges=True))
def test_arrays_read_before_they_are_written_are_inputs(graph: TaskGraph) -> None:
    written: set[tuple[str, int]] = set()
    needed = set()
    for name in graph.order():
        touched = cells(graph.find_task(name), graph)
        needed |= {cell[0] for cell, mode in touched.items() if mode.reads and cell not in written}
        written |= {cell for cell, mode in touched.items() if mode.writes}
    assert set(graph.inputs()) == needed


@given(st.integers(1, 30), st.integers(-40, 40), st.integers(-40, 40))
def test_row_ranges_equal_numpy_slices_or_are_refused(extent: int, start: int, stop: int) -> None:
    graph = TaskGraph()
    x = graph.array("x", (extent, 3))
    expected = np.arange(extent)[start:stop]
    whole = -extent <= start <= extent and -extent <= stop <= extent
    if not whole or not len(expected):
        with pytest.raises(ArgumentError):
            graph.kernel(touching((R,)), name="t", p0=x[start:stop])
        return
    task = graph.kernel(touching((R,)), name="t", p0=x[start:stop])
    assert task.signature is not None
    assert task.signature.shapes == {"p0": (len(expected), 3)}
    rows = task.rows.get("p0", (0, extent))
    np.testing.assert_array_equal(np.arange(*rows), expected)
    assert ("p0" in task.rows) == (len(expected) < extent)


def test_rows_of_rows_and_modes() -> None:
    x = TaskGraph().array("x", (100, 2), "float32")
    part = x[10:60][5:-5]
    assert part == ArrayRows(x, 15, 55)
    assert (part.name, part.shape, part.dtype, part.nbytes) == ("x[15:55]", (40, 2), "float32", 320)
    assert [part.read(), part.write(), part.update(), part.reduce()] == [
        Access("x", mode, (15, 55)) for mode in (R, W, U, A)
    ]


@given(st.integers(-25, 25) | st.none(), st.integers(-25, 25) | st.none())
def test_rows_of_rows_lie_within_them(start: int | None, stop: int | None) -> None:
    part = TaskGraph().array("x", (100,))[10:20]
    if not all(end is None or -10 <= end <= 10 for end in (start, stop)):
        with pytest.raises(ArgumentError, match=r"array 'x': rows .* are beyond x\[10:20\], which has 10 rows"):
            part[start:stop]
        return
    np.testing.assert_array_equal(np.arange(*part[start:stop].rows), np.arange(10, 20)[start:stop])


@pytest.mark.parametrize("rows", [(0.0, 4), (0, 4.5), (True, 4), (0, np.True_), (0,), (0, 1, 2), 4, "ab", ("0", "4")])
def test_accesses_with_invalid_row_ranges_are_refused(rows: Any) -> None:
    graph = TaskGraph()
    graph.array("x", (10,))
    message = r"task 'bad' \(touch_r\), argument 'p0': .* is not a range of rows of array 'x'. Give two whole numbers"
    with pytest.raises(ArgumentError, match=message):
        graph.kernel(touching((R,)), name="bad", p0=Access("x", R, rows))
    assert len(graph) == 0


@pytest.mark.parametrize("rows", [(np.int64(2), np.int32(5)), [2, 5]])
def test_rows_of_an_access_become_python_numbers(rows: Any) -> None:
    graph = TaskGraph()
    graph.array("x", (10,))
    task = graph.kernel(touching((R,)), name="t", p0=Access("x", R, rows))
    assert task.rows == {"p0": (2, 5)}
    assert [type(end) for end in task.accesses[0].rows or ()] == [int, int]


@pytest.mark.parametrize(
    "index", [3, slice(0, 10, 2), (slice(0, 2), slice(0, 2)), slice(0.5, 2), slice("a", None), None, Ellipsis]
)
def test_invalid_row_ranges_are_refused(index: Any) -> None:
    x = TaskGraph().array("x", (10, 10))
    with pytest.raises(ArgumentError, match=r"array 'x'.*is not a range of"):
        x[index]


def test_a_scalar_has_no_rows_and_arrays_cannot_be_iterated() -> None:
    graph = TaskGraph()
    with pytest.raises(ArgumentError, match="is not a range of rows of shape"):
        graph.array("s", ())[0:1]
    x = graph.array("x", (3,))
    for array in (x, x[0:2]):
        with pytest.raises(TypeError):
            iter(array)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (slice(90, 150), r"x\[90:150\] is beyond the array, which has 100 rows. Ranges are not cut short"),
        (slice(-101, 5), r"x\[-1:5\] is beyond the array"),
        (slice(7, 7), r"x\[7:7\] has no rows. Leave the task out"),
        (slice(9, 3), r"x\[9:3\] has no rows"),
    ],
)
def test_rows_that_do_not_exist_are_refused_with_task_and_argument(rows: slice, message: str) -> None:
    graph = TaskGraph()
    x = graph.array("x", (100,))
    with pytest.raises(ArgumentError, match=rf"task 'bad' \(touch_r\), argument 'p0': {message}"):
        graph.kernel(touching((R,)), name="bad", p0=x[rows])
    assert len(graph) == 0
    assert graph.segments() == {}


def test_a_task_is_not_given_the_same_rows_twice_to_write() -> None:
    graph = TaskGraph()
    x = graph.array("x", (100,))
    for modes, first, second, where in (
        ((R, W), x[:60], x[50:], r"rows x\[50:60\] are"),
        ((W, R), x, x[50:], r"rows x\[50:100\] are"),
        ((U, R), x[10:20], x, r"rows x\[10:20\] are"),
        ((W, W), x[10:20], x[10:20], r"rows x\[10:20\] are"),
        ((W, R), x, x, "array 'x' is"),
    ):
        with pytest.raises(ArgumentError, match=f"{where} passed twice, and one of the two is written"):
            graph.kernel(touching(modes), p0=first, p1=second)
    task = graph.kernel(touching((R, R, W)), name="fine", p0=x[:60], p1=x[50:80], p2=x[80:])
    assert task.accesses == (Access("x", R, (0, 60)), Access("x", R, (50, 80)), Access("x", W, (80, 100)))
    (touched,) = graph.touched()
    assert touched == (
        Access("x[0:50]", R), Access("x[50:60]", R), Access("x[60:80]", R), Access("x[80:100]", W)
    )  # fmt: skip


def test_shapes_that_do_not_fit_are_refused() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (100,)), graph.array("y", (100,))
    with pytest.raises(ArgumentError, match=r"\(10,\).*\(20,\)"):
        graph.copy(x[:10], y[:20])
    graph.copy(x[:10], y[10:20], name="fits")
    with pytest.raises(ArgumentError, match="does not say how the array is touched"):
        graph.host(lambda x: None, x=x[:10])
    with pytest.raises(UnknownArrayError, match="another graph"):
        TaskGraph().array("x", (3,))
        other = TaskGraph()
        other.array("x", (3,))
        other.kernel(touching((R,)), p0=x[:2])


def test_names_that_could_be_taken_for_rows_are_refused() -> None:
    graph = TaskGraph()
    x, _ = graph.array("x", (10,)), graph.array("tile[0:5]", (5,))
    graph.kernel(touching((R,)), name="reads", p0=x[:5])
    with pytest.raises(GraphError, match="could be taken for rows of array 'x'"):
        graph.array("x[3:7]", (4,))
    tile = graph.array("tile", (5,))
    with pytest.raises(GraphError, match=r"array 'tile\[0:5\]' could be taken for rows of array 'tile'"):
        graph.kernel(touching((R,)), name="bad", p0=tile[:2])
    assert [t.name for t in graph.tasks] == ["reads"]


def test_one_dependency_for_rows_that_follow_each_other() -> None:
    graph = TaskGraph()
    x = graph.array("x", (100,))
    graph.kernel(touching((W,)), name="all", p0=x)
    graph.kernel(touching((U,)), name="part", p0=x[20:40])
    graph.kernel(touching((R,)), name="other", p0=x[10:30])
    graph.kernel(touching((R,)), name="last", p0=x)
    found = [(d.before, d.after, d.kind, d.array) for d in graph.dependencies()]
    assert found == [
        ("all", "part", "RAW", "x[20:40]"),
        ("all", "other", "RAW", "x[10:20]"),
        ("part", "other", "RAW", "x[20:30]"),
        ("all", "last", "RAW", "x[0:20]"),
        ("all", "last", "RAW", "x[40:100]"),
        ("part", "last", "RAW", "x[20:40]"),
    ]


def test_fingerprints_depend_on_rows() -> None:
    def graph(rows: slice) -> TaskGraph:
        made = TaskGraph()
        made.kernel(touching((R,)), name="t", p0=made.array("x", (10,))[rows])
        return made

    prints = [graph(slice(*ends)).fingerprint() for ends in ((0, 5), (0, 6), (1, 6), (0, 10))]
    assert len(set(prints)) == 4
    whole = TaskGraph()
    whole.kernel(touching((R,)), name="t", p0=whole.array("x", (10,)))
    assert prints[3] == whole.fingerprint()


def test_a_task_with_rows_can_be_inserted_into_another_graph() -> None:
    graph, other, small = TaskGraph(), TaskGraph(), TaskGraph()
    task = graph.kernel(touching((U,)), name="t", p0=graph.array("x", (10,))[2:5])
    other.array("x", (10,))
    other.insert(task)
    assert other.fingerprint() == graph.fingerprint()
    small.array("x", (4,))
    with pytest.raises(ArgumentError, match="is not what its argument 'p0' takes"):
        small.insert(task)


def test_joined_rows() -> None:
    def segments(*rows: tuple[str, int, int]) -> list[Segment]:
        return [Segment(f"{name}[{a}:{b}]", name, (a, b)) for name, a, b in rows]

    found = joined_rows(segments(("b", 0, 2), ("a", 5, 7), ("a", 0, 5), ("a", 9, 10)))
    assert found == [("a", (0, 7)), ("a", (9, 10)), ("b", (0, 2))]
    assert isinstance(LogicalArray("x", (3,), "float64")[0:1], ArrayRows)
