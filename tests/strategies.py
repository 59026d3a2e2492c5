# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies: random task graphs, platforms and assignments, with a sequential reference."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Work
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule

MODES = [AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE]


def touching(modes: tuple[AccessMode, ...]) -> Operation:
    """An operation that touches one array per mode, on any device or the host."""

    def never(_: object) -> None:
        raise AssertionError("the pure rooms load no implementation")

    return Operation(
        name="touch_" + "".join(m.value[0] for m in modes),
        parameters=tuple(Parameter(f"p{i}", m) for i, m in enumerate(modes)),
        implementations=(
            Implementation("kernel", "opencl-c", load=never, launch=lambda s, d: Launch((16,))),
            Implementation("host", "host", load=never),
        ),
        work=lambda signature: Work(flops=1e6, bytes=1e5),
    )


@st.composite
def graphs(draw: st.DrawFn, max_tasks: int = 14, max_arrays: int = 5) -> TaskGraph:
    """Random graphs of every access mode, with barriers, temporaries and explicit edges."""
    graph = TaskGraph("random")
    arrays = [
        graph.array(f"a{i}", (draw(st.integers(1, 64)),), temporary=draw(st.booleans()))
        for i in range(draw(st.integers(1, max_arrays)))
    ]
    for index in range(draw(st.integers(1, max_tasks))):
        if draw(st.integers(0, 11)) == 0:
            graph.barrier(name=f"t{index}")
            continue
        chosen = draw(st.lists(st.sampled_from(arrays), min_size=1, max_size=3, unique_by=lambda a: a.name))
        modes = tuple(draw(st.sampled_from(MODES)) for _ in chosen)
        graph.kernel(touching(modes), name=f"t{index}", **{f"p{i}": a for i, a in enumerate(chosen)})
    names = [t.name for t in graph.tasks]
    for _ in range(draw(st.integers(0, 2))):
        first, second = sorted(draw(st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))))
        if first != second:
            graph.edge(names[first], names[second])
    return graph


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """One to three devices; some share memory with the host or with each other, some have their own."""
    devices, spaces, links = [], {HOST: MemorySpace(HOST, 0, True)}, []
    host_reaches = [HOST]
    for i in range(draw(st.integers(1, 3))):
        shared = [s for s in spaces if s != HOST]
        space = draw(st.sampled_from(shared)) if shared and draw(st.booleans()) else f"m{i}"
        if space not in spaces:
            reachable = draw(st.booleans())
            spaces[space] = MemorySpace(space, 0, reachable)
            if reachable:
                host_reaches.append(space)
            for a, b in ((HOST, space), (space, HOST)):
                links.append(Link(a, b, 1e-5, draw(st.sampled_from([1e8, 1e10]))))
        devices.append(
            Device(
                f"d{i}", f"key{i}", "cpu", "opencl", "a device", space, (space,),
                lanes=draw(st.integers(1, 2)), copy_lane=draw(st.booleans()),
                dtypes=("float32", "float64"), aspects=("fp64",), max_work_group_size=64,
            )
        )  # fmt: skip
    devices.append(Device(HOST, HOST, HOST, HOST, "the host", HOST, tuple(host_reaches)))
    pairs = [
        Interference("d0", d.name, draw(st.sampled_from([0.5, 1.0])))
        for d in devices
        if not d.is_host and draw(st.booleans())
    ]
    return Platform("random", tuple(devices), tuple(spaces.values()), tuple(links), tuple(pairs))


@dataclass(frozen=True)
class Case:
    """A graph, a platform and a schedule with its durations."""

    graph: TaskGraph
    platform: Platform
    schedule: Schedule
    durations_s: dict[str, float]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A random schedule that respects dependencies but is otherwise arbitrary."""
    graph, platform = draw(graphs()), draw(platforms())
    assignments, durations = [], {}
    for position, name in enumerate(graph.order()):
        device = draw(st.sampled_from(platform.devices))
        lane = draw(st.integers(0, device.lanes - 1))
        barrier = graph.task(name).kind == "barrier"
        implementation = None if barrier else ("host" if device.is_host else "kernel")
        durations[name] = 0.0 if barrier else draw(st.sampled_from([0.0, 1e-4, 3e-4]))
        assignments.append(Assignment(name, device.name, lane, implementation, position * 1.0, position + 1.0))
    return Case(graph, platform, Schedule("random", tuple(assignments)), durations)
