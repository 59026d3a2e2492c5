# SPDX-License-Identifier: Apache-2.0
"""Live view of the runs of other processes, as tables for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from syclsched.model.text.units import format_bytes, format_seconds, plural
from syclsched.monitoring import GraphStatus, LaneStatus, MemoryStatus, ProcessStatus, RunStatus, StatusFiles

#: Shown where no process allows monitoring.
NOTHING_TO_SEE: Final = (
    "No process of yours allows its runs to be seen. Start one with `syclsched run ... --monitor`, or call "
    "syclsched.monitor() in a Python program."
)
#: Shown with lanes of which nothing is known, as of runs that are one call of compiled code.
HIDDEN: Final = (
    "What these lanes do cannot be seen: the runs are single calls of compiled code, or too short and not recorded. "
    "Shown is the plan: how busy each lane is, and its tasks in a run. With bind(trace=True), lanes are seen."
)
#: Seconds without an update after which a process counts as silent; it writes once a second at least.
SILENT_S: Final = 3.0
#: Most runs in flight and most ended runs that are shown of a graph.
_MOST_RUNS: Final = 3
_MOST_ENDED: Final = 5
_BAR_WIDTH: Final = 12
_MOST_LANE_WIDTH: Final = 24


def render_processes(found: StatusFiles, now_s: float) -> RenderableType:
    """Return the state of all processes, those with runs in flight first; the time is in seconds since the epoch."""
    processes = sorted(found.processes, key=lambda process: (not process.in_flight, -process.allowed_s))
    parts: list[RenderableType] = [_summary(found)]
    for process in processes:
        parts += _process(process, now_s)
    if not processes:
        parts.append(Text(NOTHING_TO_SEE))
    parts += [Text(f"left out: {_printable(reason)}", style="dim") for reason in found.unreadable]
    return Group(*parts)


def _summary(found: StatusFiles) -> Text:
    runs = sum(process.in_flight for process in found.processes)
    text = f"{plural(len(found.processes), 'process', 'processes')}, {plural(runs, 'run')} in flight"
    return Text(text, style="bold")


def _process(process: ProcessStatus, now_s: float) -> Iterator[RenderableType]:
    """Yield the view of one process."""
    yield Text()
    title = Text(f"pid {process.pid}: {_printable(process.command)}", no_wrap=True, overflow="ellipsis")
    yield Rule(title, align="left", characters="─", style="cyan")
    silent_s = now_s - process.written_s
    if silent_s > SILENT_S:
        yield Text(
            f"It has written nothing for {format_seconds(silent_s)}: it is stopped, or a call in it keeps the "
            "interpreter from other work.",
            style="yellow",
        )
    if not process.graphs:
        yield Text("It has started no run yet.", style="dim")
    for graph in process.graphs:
        yield _headline(graph)
        yield from (Padding(part, (0, 0, 0, 2), expand=False) for part in _graph(graph))
    if process.memory:
        yield Padding(_memory_table(process.memory), (0, 0, 0, 2), expand=False)


def _headline(graph: GraphStatus) -> Text:
    counts = [f"{graph.in_flight} in flight", f"{graph.done} done"]
    counts += [
        f"{number} {name}" for number, name in ((graph.failed, "failed"), (graph.cancelled, "cancelled")) if number
    ]
    if graph.recoveries:
        counts.append(plural(graph.recoveries, "recovery", "recoveries"))
    return Text.assemble(
        (_printable(graph.name), "bold"), f" ({_printable(graph.policy)}): ", ", ".join(counts), overflow="fold"
    )


def _graph(graph: GraphStatus) -> Iterator[RenderableType]:
    """Yield the makespans, the runs in flight and the lanes of one graph."""
    yield _makespans(graph)
    if graph.runs:
        yield _run_table(graph)
    if graph.lanes:
        hidden = _is_hidden(graph)
        yield _lane_table(graph.lanes, hidden=hidden)
        if hidden:
            yield Text(HIDDEN, style="dim")


def _is_hidden(graph: GraphStatus) -> bool:
    """Return whether the state of the lanes is invisible."""
    return all(lane.busy is None for lane in graph.lanes) and all(run.is_call for run in graph.runs)


def _makespans(graph: GraphStatus) -> Text:
    """Return the predicted makespan beside the measured ones of the runs that have ended."""
    predicted_s, latest = graph.predicted_s, graph.ended[-_MOST_ENDED:]
    text = Text("predicted ", overflow="fold")
    text.append("-" if predicted_s is None else format_seconds(predicted_s), "bold")
    done_s = [run.seconds for run in graph.ended if run.ending == "done"]
    if done_s:
        median_s = statistics.median(done_s)
        text.append(f", measured (median of {len(done_s)}) ")
        text.append(format_seconds(median_s), "bold")
        if predicted_s:
            text.append(f" ({median_s / predicted_s:.3g} times the prediction)")
    if latest:
        ended = (format_seconds(run.seconds) + (f" {run.ending}" if run.ending != "done" else "") for run in latest)
        text.append(f"; last runs {', '.join(ended)}", "dim")
    return text


def _run_table(graph: GraphStatus) -> Table:
    """Return the runs in flight: elapsed time beside the prediction, and tasks done."""
    table = Table.grid(padding=(0, 1))
    for _ in range(4):
        table.add_column(no_wrap=True)
    for run in graph.runs[:_MOST_RUNS]:
        if run.is_call:
            progress = "one call of compiled code"
        elif run.is_preparing:
            progress = "compiling kernels"
        else:
            progress = f"{run.tasks_done}/{run.tasks} tasks"
        bar = _bar(0.0 if run.is_call else _progress(run))
        table.add_row(bar, progress, _elapsed(run, graph.predicted_s), _turns(run))
    more = graph.in_flight - len(graph.runs[:_MOST_RUNS])
    if more > 0:
        table.add_row("", Text(f"and {plural(more, 'more run')}", style="dim"), "", "")
    return table


def _turns(run: RunStatus) -> str:
    """Return how a run shares its devices, and whether it waits for others."""
    given = [f"priority {run.priority}"] if run.priority else []
    given += [f"share {run.share:g}"] if run.share is not None and (run.share != 1.0 or not run.priority) else []
    return ", ".join([*given, "waits for its turn"] if run.waits else given)


def _progress(run: RunStatus) -> float:
    return run.tasks_done / run.tasks if run.tasks else 0.0


def _elapsed(run: RunStatus, predicted_s: float | None) -> Text:
    late = predicted_s is not None and run.elapsed_s > predicted_s and not run.is_preparing
    beside = "" if predicted_s is None else f" of {format_seconds(predicted_s)} predicted"
    return Text.assemble((format_seconds(run.elapsed_s), "yellow" if late else ""), beside)


def _lane_table(lanes: tuple[LaneStatus, ...], *, hidden: bool) -> Table:
    """Return the table of lanes; hidden lanes have the plan's numbers."""
    shares = [each.predicted_busy if hidden else each.busy for each in lanes]
    rows = [
        (
            _printable(each.lane),
            "-" if share is None else f"{min(share, 1.0):.0%}",
            str(each.tasks or "-") if hidden else _lane_tasks(each),
        )
        for each, share in zip(lanes, shares, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    # Only the last column becomes narrower on a narrow terminal.
    table.add_column("lane", no_wrap=True, min_width=min(widths[0], _MOST_LANE_WIDTH), overflow="ellipsis")
    table.add_column("predicted" if hidden else "busy", no_wrap=True, min_width=_BAR_WIDTH)
    table.add_column("", justify="right", no_wrap=True, min_width=widths[1])
    table.add_column("tasks", justify="right", no_wrap=True, min_width=widths[2])
    table.add_column("" if hidden else "now", no_wrap=True, overflow="ellipsis")
    for lane, share, (name, busy, tasks) in zip(lanes, shares, rows, strict=True):
        table.add_row(Text(name), _bar(share or 0.0), busy, tasks, Text() if hidden else _current(lane))
    return table


def _lane_tasks(lane: LaneStatus) -> str:
    if lane.tasks is None:
        return str(lane.tasks_done)
    return f"{lane.tasks_done}/{lane.tasks}" if lane.tasks else "-"


def _current(lane: LaneStatus) -> Text:
    if lane.current is None:
        return Text("-", style="dim")
    current = _printable(lane.current)
    return Text(current) if lane.waits_for is None else Text(f"{current} after {_printable(lane.waits_for)}", "dim")


def _memory_table(memory: tuple[MemoryStatus, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("memory", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("in use", "reserved", "peak", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for space in memory:
        limit = space.limit_bytes
        table.add_row(
            Text(_printable(space.space)),
            _bar(space.in_use_bytes / limit if limit else 0.0),
            format_bytes(space.in_use_bytes),
            format_bytes(space.reserved_bytes),
            format_bytes(space.peak_bytes),
            format_bytes(limit) if limit else "-",
        )
    return table


def _bar(share: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=min(share, 1.0), width=_BAR_WIDTH, finished_style="bar.complete")


def _printable(text: str) -> str:
    """Return a text of another process without control characters, which could change the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
