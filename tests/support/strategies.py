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
from syclsched.model.task import ArrayRows, LogicalArray

MODES = [AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE]


def touching(modes: tuple[AccessMode, ...]) -> Operation:
    """Return an operation that accesses one array per mode, on any device or the host."""

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
def parts(draw: st.DrawFn, arrays: list[LogicalArray]) -> list[LogicalArray | ArrayRows]:
    """Draw one to three arguments of a task: arrays, or rows of them; two of one array do not overlap."""
    chosen: list[LogicalArray | ArrayRows] = []
    for array in draw(st.lists(st.sampled_from(arrays), min_size=1, max_size=3, unique_by=lambda a: a.name)):
        rows = array.shape[0]
        ends = sorted(draw(st.sets(st.integers(0, rows), min_size=2, max_size=4))) if draw(st.integers(0, 3)) else []
        chosen += [array[i:j] for i, j in zip(ends[::2], ends[1::2], strict=False)] or [array]
    return chosen[:3]


@st.composite
def graphs(
    draw: st.DrawFn, max_tasks: int = 14, max_arrays: int = 5, ranges: bool = False, donated: bool = False
) -> TaskGraph:
    """Draw graphs of every access mode, with barriers, temporaries, explicit edges; optionally ranges of rows.

    With ``donated`` all arrays that are not temporary are donated.
    """
    graph = TaskGraph("random")
    arrays = []
    for i in range(draw(st.integers(1, max_arrays))):
        rows, temporary = draw(st.integers(1, 64)), draw(st.booleans())
        arrays.append(graph.array(f"a{i}", (rows,), temporary=temporary, donated=donated and not temporary))
    for index in range(draw(st.integers(1, max_tasks))):
        if draw(st.integers(0, 11)) == 0:
            graph.barrier(name=f"t{index}")
            continue
        whole = st.lists(st.sampled_from(arrays), min_size=1, max_size=3, unique_by=lambda a: a.name)
        chosen = draw(parts(arrays) if ranges else whole)
        modes = tuple(draw(st.sampled_from(MODES)) for _ in chosen)
        graph.kernel(touching(modes), name=f"t{index}", **{f"p{i}": a for i, a in enumerate(chosen)})
    names = [t.name for t in graph.tasks]
    for _ in range(draw(st.integers(0, 2))):
        first, second = sorted(draw(st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))))
        if first != second:
            graph.edge(names[first], names[second])
    return graph


#: Processors whose cores several devices share.
PROCESSORS = st.sampled_from([None, "p", "q"])


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """Draw one to three devices; some share memory with the host or with each other, some have their own."""
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
                compute_units=draw(st.integers(1, 2)), processor=draw(PROCESSORS),
            )
        )  # fmt: skip
    devices.append(
        Device(
            HOST, HOST, HOST, HOST, "the host", HOST, tuple(host_reaches),
            compute_units=draw(st.integers(1, 3)), processor=draw(PROCESSORS),
        )
    )  # fmt: skip
    pairs = [Interference("d0", d.name, draw(st.sampled_from([0.5, 1.0]))) for d in devices if draw(st.booleans())]
    return Platform("random", tuple(devices), tuple(spaces.values()), tuple(links), tuple(pairs))


@dataclass(frozen=True)
class ScheduledGraph:
    """A graph, a platform and a schedule with its durations."""

    graph: TaskGraph
    platform: Platform
    schedule: Schedule
    durations_s: dict[str, float]


@st.composite
def cases(draw: st.DrawFn, ranges: bool = False, donated: bool = False) -> ScheduledGraph:
    """Draw a random schedule that respects dependencies but is otherwise arbitrary."""
    graph, platform = draw(graphs(ranges=ranges, donated=donated)), draw(platforms())
    assignments, durations = [], {}
    for position, name in enumerate(graph.order()):
        device = draw(st.sampled_from(platform.devices))
        lane = draw(st.integers(0, device.lanes - 1))
        barrier = graph.find_task(name).kind == "barrier"
        implementation = None if barrier else ("host" if device.is_host else "kernel")
        durations[name] = 0.0 if barrier else draw(st.sampled_from([0.0, 1e-4, 3e-4]))
        assignments.append(Assignment(name, device.name, lane, implementation, position * 1.0, position + 1.0))
    return ScheduledGraph(graph, platform, Schedule("random", tuple(assignments)), durations)


@st.composite
def tight_cases(draw: st.DrawFn) -> ScheduledGraph:
    """Draw temporaries written once, mostly, on two devices whose memory holds little more than one task needs."""
    graph = TaskGraph("tight")
    arrays: list[LogicalArray] = []
    for index in range(draw(st.integers(6, 24))):
        kind = draw(st.integers(0, 15))
        if kind == 0:
            graph.barrier(name=f"t{index}")
            continue
        read = draw(st.lists(st.sampled_from(arrays), max_size=2, unique_by=lambda a: a.name)) if arrays else []
        if kind == 1 and read:
            graph.kernel(touching((AccessMode.UPDATE,)), name=f"t{index}", p0=read[0])
            continue
        new = graph.array(f"a{index}", (draw(st.integers(1, 4)),), temporary=draw(st.integers(0, 3)) > 0)
        arrays.append(new)
        modes = (*(AccessMode.READ for _ in read), AccessMode.WRITE)
        graph.kernel(touching(modes), name=f"t{index}", **{f"p{i}": a for i, a in enumerate([*read, new])})
    needed = max((sum(graph.arrays[a.array].nbytes for a in t.accesses) for t in graph.tasks), default=8)
    capacity = needed + 8 * draw(st.integers(0, 3))
    host = draw(st.sampled_from([0, 0, 8, needed, 2 * needed]))
    devices = [
        Device(n, n, "gpu", "level_zero", "", n, (n,), lanes=draw(st.integers(1, 2)), copy_lane=draw(st.booleans()))
        for n in ("left", "right")
    ]
    spaces = (MemorySpace("left", capacity), MemorySpace("right", capacity), MemorySpace(HOST, host, True))
    link_s = draw(st.sampled_from([1e-5, 1e-2]))
    links = [Link(*pair, link_s, 1e12) for n in ("left", "right") for pair in ((HOST, n), (n, HOST))]
    host_device = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,))
    platform = Platform("tight", (*devices, host_device), spaces, tuple(links))
    assigned, durations = [], {}
    for position, name in enumerate(graph.order()):
        device = draw(st.sampled_from([devices[0], *devices]))
        barrier = graph.find_task(name).kind == "barrier"
        lane = draw(st.integers(0, device.lanes - 1))
        durations[name] = 0.0 if barrier else draw(st.sampled_from([1e-4, 1e-4, 1e-2]))
        assigned.append(Assignment(name, device.name, lane, None if barrier else "kernel", position, position + 1.0))
    return ScheduledGraph(graph, platform, Schedule("random", tuple(assigned)), durations)
