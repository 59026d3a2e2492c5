# SPDX-License-Identifier: Apache-2.0
"""Division of tasks into chunks: equal results for every division, under the original names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.samples import assert_same_results, graphs, values

from syclsched.errors import GraphError
from syclsched.kernels import get
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Split, Work
from syclsched.rewrites import Cut, Recipe, replay
from syclsched.rewrites.chunking import cut
from syclsched.rewrites.regions import find_regions

ROWS = 7


@st.composite
def cuts(draw: st.DrawFn, graph: TaskGraph) -> list[Cut]:
    """Draw divisions of any divisible tasks."""
    able = [t.name for t in graph.tasks if t.operation is not None and t.operation.split is not None]
    number = {name: draw(st.integers(0, 3)) for name in able}
    found = []
    for index in range(1, 4):
        ends = draw(st.lists(st.integers(1, ROWS - 1), min_size=1, max_size=3, unique=True).map(sorted))
        rows = tuple(np.diff([0, *ends, ROWS]).tolist())
        tasks = tuple(name for name in able if number[name] == index)
        if tasks:
            found.append(Cut(tasks, rows))
    return found


@given(data=st.data(), graph=graphs(rows=ROWS))
@settings(max_examples=examples(80), deadline=None)
def test_any_cut_has_the_same_bits(data: st.DataObject, graph: TaskGraph) -> None:
    found = cut(graph, data.draw(cuts(graph)))
    assert_same_results(graph, found.graph)
    place = {name: i for i, name in enumerate(found.graph.order())}
    # A dependency remains a dependency, chunk by chunk for row-wise tasks.
    for before, after in graph.edges:
        assert all(place[b] < place[a] for b in found.tasks[before] for a in found.tasks[after])
    for name, new in found.tasks.items():
        assert len(new) == next((len(c.rows) for c in found.recipe.cuts if name in c.tasks), 1)
    counters = found.counters
    assert counters.tasks_after == len(found.graph)
    assert counters.tasks_after == (
        counters.tasks_before - counters.cut + counters.chunks + counters.scatters + counters.gathers
    )
    # Every declared array replaces one of the original; inputs are the original's or their chunks.
    holders = {new: name for name, held in found.arrays.items() for new in held}
    assert set(holders) == set(found.graph.arrays)
    assert {holders[name] for name in found.graph.inputs()} == set(graph.inputs())
    if found.changed:
        assert replay(graph, found.recipe).graph.fingerprint() == found.graph.fingerprint()


def dense_pair(rows: int = 40) -> tuple[TaskGraph, dict[str, Any]]:
    rng = np.random.default_rng(0)
    data = {
        "x": rng.standard_normal((rows, 6)), "w": rng.standard_normal((6, 5)), "b": rng.standard_normal(5),
        "w2": rng.standard_normal((5, 4)), "b2": rng.standard_normal(4),
    }  # fmt: skip
    graph = TaskGraph("dense")
    arrays = {name: graph.array(name, value.shape) for name, value in data.items()}
    h = graph.array("h", (rows, 5), temporary=True)
    y = graph.array("y", (rows, 4))
    p = graph.array("p", (rows, 4))
    graph.kernel(get("dense"), name="d1", y=h, x=arrays["x"], w=arrays["w"], b=arrays["b"], activation=1)
    graph.kernel(get("dense"), name="d2", y=y, x=h, w=arrays["w2"], b=arrays["b2"], activation=0)
    graph.kernel(get("softmax"), name="s", y=p, x=y)
    return graph, data


def test_consecutive_split_tasks_pass_chunks_on() -> None:
    graph, _ = dense_pair()
    found = cut(graph, [Cut(("d1", "d2", "s"), (16, 24))])
    assert (found.counters.scatters, found.counters.gathers, found.counters.chunks) == (0, 0, 6)
    assert [t.name for t in found.graph.tasks][:2] == ["d1[0:16]", "d1[16:40]"]
    # No chunk waits for another.
    names = {(d.before[-7:], d.after[-7:]) for d in found.graph.dependencies()}
    assert all(before.endswith(after[-3:]) for before, after in names)
    assert set(found.graph.joined) == {"x", "h", "y", "p"}
    assert "y" not in found.graph.arrays
    assert found.graph.arrays["w"].shape == (6, 5)


def test_chunks_of_an_input_are_views_of_it() -> None:
    graph = TaskGraph()
    data = np.arange(20.0).reshape(10, 2)
    x, y = graph.array("x", data=data), graph.array("y", (10, 2))
    graph.kernel(get("copy"), name="c", y=y, x=x)
    found = cut(graph, [Cut(("c",), (3, 7))])
    assert all(np.shares_memory(found.graph.data[name], data) for name in found.arrays["x"])
    assert_same_results(graph, found.graph)


def test_arrays_needed_whole_are_gathered_once() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", data=np.arange(10)), graph.array("y", (10,), "int64")
    t = graph.array("t", (1,), "int64")
    graph.kernel(get("copy"), name="c", y=y, x=x)
    for i in range(3):
        graph.host(lambda y, t: t.fill(y[::-1][0]), name=f"h{i}", y=y.read(), t=t.write())
    found = cut(graph, [Cut(("c",), (4, 6))])
    assert (found.counters.gathers, found.counters.scatters) == (1, 0)
    assert found.arrays["y"] == ("y", "y[0:4]", "y[4:10]")
    assert found.graph.arrays["y[0:4]"].temporary
    assert_same_results(graph, found.graph)


def _ramp(*, x: Any, start: int) -> None:
    x[...] = np.arange(start, start + len(x)).reshape(-1, *[1] * (x.ndim - 1))


RAMP = Operation(
    "ramp",
    (Parameter("x", AccessMode.WRITE), Parameter("start")),
    (Implementation("host", "host", lambda _: _ramp),),
    lambda _: Work(1e9, 0.0),
    split=Split(("x",), scalars=lambda signature, start, stop: {"start": signature.scalars["start"] + start}),
)


def test_scalars_of_chunks_are_computed_by_the_operation() -> None:
    graph = TaskGraph()
    graph.kernel(RAMP, name="r", x=graph.array("x", (10,), "int64"), start=100)
    found = cut(graph, [Cut(("r",), (3, 3, 4))])
    np.testing.assert_array_equal(values(found.graph)["x"], np.arange(100, 110))


@pytest.mark.parametrize(
    ("tasks", "rows", "complaint"),
    [
        (("d1", "d1"), (16, 24), "cut twice"),
        (("d1",), (16, 16), "does not have the 32 rows"),
        (("d1",), (40,), "are not two or more non-empty chunks"),
        (("d1",), (0, 40), "are not two or more non-empty chunks"),
    ],
)
def test_impossible_cuts_are_refused(tasks: tuple[str, ...], rows: tuple[int, ...], complaint: str) -> None:
    graph, _ = dense_pair()
    with pytest.raises(GraphError, match=complaint):
        replay(graph, Recipe(cuts=(Cut(tasks, rows),)))


def test_arrays_touched_in_parts_stay_whole() -> None:
    graph = TaskGraph()
    x, y, z = (graph.array(name, data=np.arange(1200.0)) for name in "xyz")
    graph.kernel(get("scale"), name="part", x=x[0:4], alpha=2.0)
    graph.kernel(get("copy"), name="c", y=y, x=x)
    graph.kernel(get("copy"), name="d", y=z, x=y)
    assert {t.name for region in find_regions(graph) for t in region.tasks} == {"d"}
    with pytest.raises(GraphError, match="in parts already"):
        cut(graph, [Cut(("c",), (600, 600))])
    assert_same_results(graph, cut(graph, [Cut(("d",), (600, 600))]).graph)


def test_donated_arrays_stay_whole() -> None:
    graph = TaskGraph()
    graph.kernel(get("scale"), name="t", x=graph.array("x", (8_000,), donated=True), alpha=2.0)
    assert not find_regions(graph)
    with pytest.raises(GraphError, match="'x': it is donated"):
        cut(graph, [Cut(("t",), (4_000, 4_000))])


def test_names_that_look_like_chunks_are_distinguished() -> None:
    graph = TaskGraph()
    x = graph.array("x", data=np.arange(8))
    for name in ("s", "s[0:4]", "s[0:4]''", "s[4:8]"):
        graph.kernel(get("scale"), name=name, x=x, alpha=2)
    found = cut(graph, [Cut(("s",), (4, 4))])
    names = {t.name for t in found.graph.tasks}
    assert found.tasks["s"] == found.recipe.holders("s", names) == ("s[0:4]'''", "s[4:8]'")
    assert all(found.recipe.holders(name, names) == (name,) for name in graph.order() if name != "s")
    assert_same_results(graph, found.graph)


def test_too_many_edges_are_refused() -> None:
    graph = TaskGraph()
    for name in "ab":
        graph.kernel(get("scale"), name=name, x=graph.array(name, (8_000,)), alpha=2.0)
    graph.edge("a", "b")
    with pytest.raises(GraphError, match="explicit edges"):
        cut(graph, [Cut((name,), (1,) * 8_000) for name in "ab"])


def test_an_operation_that_writes_an_uncut_array_is_refused() -> None:
    wrong = Operation(
        "wrong", (Parameter("x", AccessMode.UPDATE), Parameter("n", AccessMode.UPDATE)),
        (Implementation("host", "host", lambda _: None),), lambda _: Work(0.0, 0.0), split=Split(("x",)),
    )  # fmt: skip
    graph = TaskGraph()
    graph.kernel(wrong, name="t", x=graph.array("x", (4,)), n=graph.array("n", (1,)))
    with pytest.raises(GraphError, match="writes n, which it does not cut"):
        cut(graph, [Cut(("t",), (2, 2))])


def test_a_cut_graph_is_not_cut_again() -> None:
    graph, _ = dense_pair()
    found = cut(graph, [Cut(("d1",), (16, 24))])
    with pytest.raises(GraphError, match="cut before"):
        cut(found.graph, [Cut(("d2",), (16, 24))])
