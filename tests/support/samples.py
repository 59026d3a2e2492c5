# SPDX-License-Identifier: Apache-2.0
"""Graphs and platforms for tests of rewrites, and values of all arrays of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.profiles import profile
from support.sequential import run_on_host
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.profile import Quantity

COLUMNS = 3


def device(name: str, *, flops: float = 1e11, lanes: int = 1, kind: Any = "gpu") -> Device:
    """Return a device with memory of its own, 1e-5 s from kernel to kernel."""
    numbers = replace(
        profile(name), peak_flops={d: Quantity(flops) for d in ("float32", "float64", "int64")},
        triad_bandwidth_bytes_per_s=Quantity(flops / 10),
    )  # fmt: skip
    return Device(
        name, name, kind, "opencl", name, name, (name,), lanes=lanes, aspects=("fp64",),
        dtypes=("float32", "float64"), compute_units=4, max_work_group_size=64, profile=numbers,
    )  # fmt: skip


def platform(*devices: Device, bandwidth: float = 1e10, submission_s: float = 4e-5) -> Platform:
    """Return devices and a host that takes turns with the first of them."""
    host = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST,), compute_units=4)
    links = [
        Link(a, b, 1e-6, bandwidth) for d in devices for a, b in ((HOST, d.space), (d.space, HOST))
    ]  # fmt: skip
    return Platform(
        "sample", (*devices, host), (*(MemorySpace(d.space, 0) for d in devices), MemorySpace(HOST, 0, True)),
        tuple(links), (Interference(devices[0].name, HOST, 1.0),), submission_s=submission_s,
    )  # fmt: skip


def add_one(v: Any) -> None:
    v += 1


def total(v: Any, t: Any) -> None:
    t[0] = v.sum()


def first(v: Any, w: Any) -> None:
    w[...] = v[::-1]


@st.composite
def graphs(draw: st.DrawFn, rows: int = 7, max_tasks: int = 24) -> TaskGraph:
    """Draw graphs of element-wise operations and host functions, with barriers, edges, temporaries and inputs."""
    graph = TaskGraph("random")
    shape = (rows, COLUMNS)
    arrays = []
    for i in range(draw(st.integers(3, 7))):
        data = np.arange(rows * COLUMNS).reshape(shape) * (i + 1) - 5 if draw(st.booleans()) else None
        arrays.append(graph.array(f"a{i}", shape, "int64", data=data, temporary=draw(st.integers(0, 3)) == 0))
    sums = graph.array("sums", (1,), "int64")
    for index in range(draw(st.integers(1, max_tasks))):
        x, y, z = draw(st.permutations(arrays))[:3]
        name, number = f"t{index}", draw(st.integers(-3, 3))
        match draw(st.sampled_from(["axpy", "axpy", "add", "scale", "copy", "fill", "host", "total", "turn", "bar"])):
            case "axpy":
                graph.kernel(get("axpy"), name=name, y=y, x=x, alpha=number)
            case "add":
                graph.kernel(get("add"), name=name, z=z, x=x, y=y, priority=number)
            case "scale":
                graph.kernel(get("scale"), name=name, x=x, alpha=number)
            case "copy":
                graph.kernel(get("copy"), name=name, y=y, x=x)
            case "fill":
                graph.kernel(get("fill"), name=name, x=x, value=number)
            case "host":
                graph.host(add_one, name=name, v=x.update())
            case "total":
                graph.host(total, name=name, v=x.read(), t=sums.write())
            case "turn":
                graph.host(first, name=name, v=x.read(), w=y.write())
            case "bar":
                graph.barrier(name=name)
    names = [t.name for t in graph.tasks]
    for _ in range(draw(st.integers(0, 2))):
        before, after = sorted(draw(st.tuples(*[st.integers(0, len(names) - 1)] * 2)))
        if before != after:
            graph.edge(names[before], names[after])
    return graph


def values(graph: TaskGraph) -> Mapping[str, Any]:
    """Return every array after running the graph sequentially; divided arrays are assembled."""
    found = dict(run_on_host(graph))
    for name, joined in graph.joined.items():
        if name not in graph.arrays:
            found[name] = np.concatenate([found[part] for part in joined[0].parts])
    return found


def assert_same_results(original: TaskGraph, new: TaskGraph) -> None:
    """Assert that every result has the same bits."""
    expected, got = values(original), values(new)
    for name, array in original.arrays.items():
        if not array.temporary:
            np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
            assert name in new.joined or not new.arrays[name].temporary
