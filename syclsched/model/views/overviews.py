# SPDX-License-Identifier: Apache-2.0
"""Overviews of graphs, platforms and device profiles, as sections of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from syclsched.errors import CycleError
from syclsched.model.text.sections import Row, Section, facts, table
from syclsched.model.text.units import format_bytes, format_seconds, plural

if TYPE_CHECKING:  # these objects describe themselves by this module
    from syclsched.model.graph_parts.readable_graph import ReadableGraph
    from syclsched.model.platform import Platform
    from syclsched.model.profile import DeviceProfile
    from syclsched.model.task import LogicalArray, Task

#: Maximum number of rows of a table; the rest is counted.
MAX_ROWS = 16
_MAX_NAMES = 4


def graph_sections(graph: ReadableGraph) -> list[Section]:
    """Return the contents of a graph: families of tasks, arrays, and the first tasks."""
    tasks, arrays = graph.tasks, list(graph.arrays.values())
    implied = len(graph.implied().before)
    size = format_bytes(sum(array.nbytes for array in arrays))
    found = [
        ("tasks", f"{len(tasks):,}"),
        ("arrays", f"{len(arrays):,}, {size}"),
        ("dependencies", f"{implied:,} by accesses and barriers, {len(graph.edges):,} explicit"),
    ]
    try:
        inputs = graph.inputs()
    except CycleError as error:
        inputs = ()
        found.append(("cannot run", error.what))
    families = Counter((task.family, task.kind) for task in tasks)
    data = graph.data
    return [
        facts(f"Graph {graph.name}", found),
        _some_rows(
            "Families of tasks",
            ("family", "kind", "tasks"),
            [(family, kind, f"{count:,}") for (family, kind), count in families.most_common()],
            {2},
        ),
        _some_rows(
            "Arrays",
            ("array", "shape", "dtype", "size", "use"),
            [
                (a.name, " × ".join(map(str, a.shape)), a.dtype, format_bytes(a.nbytes), _use(a, inputs, data))
                for a in arrays[:MAX_ROWS]
            ],
            {3},
            len(arrays),
        ),
        _some_rows(
            "Tasks", ("task", "family", "reads", "writes"), [_touched(t) for t in tasks[:MAX_ROWS]], (), len(tasks)
        ),
    ]  # fmt: skip


def _use(array: LogicalArray, inputs: Iterable[str], data: object) -> str:
    parts = []
    if array.name in inputs:
        parts.append("input with a value" if array.name in data else "input")  # type: ignore[operator]
    if array.temporary:
        parts.append("temporary")
    return ", ".join(parts)


def _touched(task: Task) -> tuple[str, str, str, str]:
    reads = [a.array for a in task.accesses if a.mode.reads]
    writes = [a.array for a in task.accesses if a.mode.writes]
    return task.name, task.family, _names(reads), _names(writes)


def _names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MAX_NAMES} more" if len(unique) > _MAX_NAMES else ""
    return ", ".join(unique[:_MAX_NAMES]) + more


def platform_sections(platform: Platform) -> list[Section]:
    """Return the devices, memory spaces and links of a platform."""
    from syclsched.model.views.device_rows import float_names, format_gib, product_name, sharing_text

    devices = [
        (
            d.name,
            "host" if d.is_host else f"{d.kind}, {d.backend}",
            product_name(d),
            f"{d.compute_units}",
            f"{d.lanes}",
            format_gib(d.global_memory_bytes),
            " ".join(float_names(d.dtypes)).strip(),
            sharing_text(platform, d).replace("\n", ", "),
            "-" if d.profile is None else d.profile.origin,
        )
        for d in platform.devices
    ]
    spaces = [
        (s.name, format_gib(s.capacity_bytes) if s.capacity_bytes else "unknown", "yes" if s.host_accessible else "no")
        for s in platform.spaces
    ]
    links = [
        (
            f"{n.source} -> {n.destination}",
            format_seconds(n.latency_s),
            f"{format_bytes(n.bandwidth_bytes_per_s)}/s" if n.bandwidth_bytes_per_s < 1e300 else "unlimited",
            n.origin,
        )
        for n in platform.links
    ]
    refused = [(d.name, f"gets no work: {d.distrust}") for d in platform.devices if d.distrust]
    return [
        facts(f"Platform {platform.name}: {plural(len(platform.compute_devices), 'device')} and the host", refused),
        table(
            "Devices",
            ("device", "kind", "product", "units", "lanes", "memory", "floats", "shares memory", "profile"),
            devices,
            {3, 4, 5},
        ),
        table("Memory spaces", ("space", "capacity", "host can access it"), spaces, {1}),
        _some_rows("Links", ("link", "latency", "bandwidth", "origin"), links, {1, 2}),
    ]


def profile_sections(profile: DeviceProfile) -> list[Section]:
    """Return the numbers of a device profile, and where they come from."""
    from syclsched.model.views.profile_rows import profile_rows

    identity, made = profile.identity, profile.provenance
    found = [("device", f"{identity.kind}, {identity.backend}, {plural(identity.compute_units, 'compute unit')}")]
    found.append(("numbers", f"{profile.origin}, {made.date}"))
    if made.host:
        found.append(("machine", made.host))
    if made.busy:
        found.append(("note", "the machine was busy: the device is faster than these numbers"))
    if not made.complete:
        found.append(("note", "interrupted: missing numbers were not measured"))
    found += [("source", source) for source in made.sources]
    return [
        facts(f"Profile of {identity.name}", found),
        table(
            "Numbers",
            ("number", "median", "unit", "spread", "samples (spikes)"),
            list(profile_rows(profile)),
            {1, 3, 4},
        ),
    ]


def _some_rows(
    title: str,
    headings: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    numbers: Iterable[int],
    count: int | None = None,
) -> Section:
    """Return a table of the first rows, which counts the others."""
    section = table(title, headings, rows[:MAX_ROWS], numbers)
    more = (len(rows) if count is None else count) - MAX_ROWS
    rest = [Row("  {}", (f"… {more:,} more",))] if more > 0 else []
    return Section(title, [*section.rows, *rest], section.headings, section.numbers, section.form)
