# SPDX-License-Identifier: Apache-2.0
"""Reductions by work-groups: each line is read once, with coalesced accesses; from the generated code."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.grouped import GPUS

from syclsched.costs.capability import unsupported
from syclsched.kernels import groups, nn
from syclsched.kernels.tensor.reductions.group_reduction import LineReduction
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.transpose import transpose
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import DeviceLimits, Operation, Signature, Tailored
from syclsched.model.platform import Device

LIMITS = st.one_of(
    st.sampled_from(GPUS),
    st.builds(
        DeviceLimits,
        st.sampled_from([1, 7, 64, 100, 256, 1024]),
        st.integers(1, 1024),
        st.integers(64, 1 << 17),
        st.sampled_from([(), (8,), (16, 32), (32, 64)]),
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], LineReduction, DeviceLimits]:
    """Draw a shape, the axes of a line, and the lines."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 17, 40]), min_size=1, max_size=4)))
    axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1)))))
    limits = draw(LIMITS)
    return shape, axes, LineReduction.of(shape, axes, limits, 8), limits


def evaluated(expression: str, **names: int) -> int:
    """Return the value of an OpenCL C expression on non-negative integers."""
    return int(eval(expression.replace("/", "//").replace("(I)", ""), {}, names))


def places(lines: LineReduction, group: int, item: int) -> tuple[int, int]:
    """Return the line of a work-item of a group, and its position in the team, as the kernel computes them."""
    t, line = (re.search(rf"\b{name} = ([^;,]*)", lines.begin) for name in ("t", "line"))
    assert t is not None
    assert line is not None
    begin = line.group(1).replace("get_group_id(0)", str(group))
    return evaluated(begin, l=item), evaluated(t.group(1), l=item)


@given(cases())
def test_every_element_is_read_once(case: tuple[tuple[int, ...], tuple[int, ...], LineReduction, DeviceLimits]) -> None:
    shape, axes, lines, limits = case
    numbers = np.arange(math.prod(shape)).reshape(shape)
    wanted = np.moveaxis(numbers, axes, range(-len(axes), 0)) if axes else numbers
    wanted = wanted.reshape(lines.count, lines.length)
    starts = np.array([evaluated(lines.first("line"), line=line) for line in range(min(lines.count, 50))])
    within = np.array([evaluated(lines.at("k"), k=k) for k in range(lines.length)])
    np.testing.assert_array_equal(starts[:, None] + within, wanted[:50])
    launch = lines.launch
    assert launch.local_range == (lines.items,)
    assert lines.items <= limits.max_work_group_size
    assert lines.items == 1 or 8 * lines.items <= limits.local_memory_bytes
    done = [places(lines, group, item) for group in range(2) for item in range(lines.items)]
    assert sorted(done) == [(line, t) for line in range(2 * lines.beside) for t in range(lines.team)]


@given(cases())
def test_neighbours_read_neighbours(case: tuple[tuple[int, ...], tuple[int, ...], LineReduction, DeviceLimits]) -> None:
    _, _, lines, _ = case
    read = []
    for item in range(min(lines.items, 32)):
        line, t = places(lines, 0, item)
        inside = line < lines.count and t < lines.length
        read.append(evaluated(lines.first("line"), line=line) + evaluated(lines.at("k"), k=t) if inside else None)
    # At the end of either innermost axis, another piece begins.
    run = (lines.reduced if lines.along else lines.kept)[-1][0] if lines.kept or lines.along else 1
    for item, (here, there) in enumerate(pairwise(read)):
        number = places(lines, 0, item)[1 if lines.along else 0]
        same = places(lines, 0, item)[lines.along is False] == places(lines, 0, item + 1)[lines.along is False]
        if here is not None and there is not None and (number + 1) % run and same:
            assert there == here + 1


@given(LIMITS, st.integers(1, 3000), st.integers(1, 3000), st.booleans())
def test_teams_do_not_depend_on_how_many_lines_there_are(
    limits: DeviceLimits, length: int, count: int, along: bool
) -> None:
    shape, axes = ((count, length), (1,)) if along else ((length, count), (0,))
    one = ((1, length), (1,)) if along else ((length, 2), (0,))
    if count > 1:
        assert LineReduction.of(shape, axes, limits, 4).team == LineReduction.of(*one, limits, 4).team


def source(operation: Operation, limits: DeviceLimits, **shapes: tuple[int, ...]) -> str:
    """Return the OpenCL C of the implementation for GPUs."""
    made = operation.implementation(groups.NAME).load(Signature(shapes, dict.fromkeys(shapes, "float32")))
    assert isinstance(made, Tailored)
    return str(made.of(limits).source)


@pytest.mark.parametrize("limits", GPUS[1:])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_are_laid_neighbours_by_neighbours(limits: DeviceLimits, transposed: tuple[bool, bool]) -> None:
    shapes = {"a": (300, 120) if transposed[0] else (120, 300), "b": (250, 300) if transposed[1] else (300, 250)}
    code = source(nn.matmul(*transposed), limits, y=(120, 250), **shapes)
    for array, index in (("a", "row"), ("b", "column")):
        found = re.search(
            rf"const int n = ([^;,]*), k = ([^;]*);\s*const I {index}[^{{]*{{ v = READ\({array}, ([^;]*)\); }}", code
        )
        assert found is not None
        n, k, place = found.groups()
        first, second = (evaluated(place, **{index: evaluated(n, e=e), "term": evaluated(k, e=e)}) for e in (0, 1))
        assert second == first + 1
    assert "j = l % " in code
    assert "WRITE(y, row * 250 + column, v)" in code


def test_work_group_kernels_are_for_gpus_only() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (80, 300), "float32"), graph.array("y", (80,), "float32")
    z, s = graph.array("z", (300, 80), "float32"), graph.array("s", (80, 300), "float32")
    tasks = (
        graph.kernel(nn.softmax_over(), y=s, x=x),
        graph.kernel(reduce("sum", (1,)), y=y, x=x),
        graph.kernel(transpose((1, 0)), y=z, x=x),
    )
    for kind, backend in (("gpu", "opencl"), ("gpu", "level_zero"), ("cpu", "opencl"), ("accelerator", "opencl")):
        device = Device("d", "d", kind, backend, "a device", "d", ("d",))  # type: ignore[arg-type]
        for task in tasks:
            assert task.operation is not None
            why = unsupported(task, task.operation.implementation(groups.NAME), device)
            assert why == (None if kind == "gpu" else f"kind is {kind}, not gpu")


def test_lines_that_fit_registers_are_read_once() -> None:
    for length, passes in ((512, 0), (100_000, 3)):
        code = source(nn.softmax_over(), GPUS[2], y=(9, length), x=(9, length))
        assert len(re.findall(r"for \(I k = t;", code)) == passes
