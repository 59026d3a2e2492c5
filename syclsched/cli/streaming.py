# SPDX-License-Identifier: Apache-2.0
"""``syclsched run --in-flight``: repeated runs of a graph as a stream, and its statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.cli.requests.graph_planning import Planned
from syclsched.cli.result_check import ResultChecker
from syclsched.cli.wait_notice import status_progress
from syclsched.errors import ArgumentError
from syclsched.model.text.units import format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.execution import Safeguards
    from syclsched.execution.runner.stream import StreamStatistics
    from syclsched.model.trace import Trace
    from syclsched.workloads import CheckResult, Workload


@dataclass(frozen=True, slots=True)
class _Streamed:
    """Trace of a stream's last runs, the result check, and the stream's statistics."""

    trace: Trace
    check: CheckResult | None
    statistics: StreamStatistics


def check_in_flight(dynamic: str | None, dry_run: bool, repeat: int) -> None:
    """Raise `ArgumentError` if the options do not allow a stream."""
    if repeat < 2:
        raise ArgumentError("a stream needs two runs or more", where="--in-flight", hint="Add --repeat 50, say")
    if dynamic is not None or dry_run:
        other = "--dynamic" if dynamic is not None else "--dry-run"
        raise ArgumentError(f"{other} cannot be combined with --in-flight", where="--in-flight")


def stream_workload(
    planned: Planned, workload: Workload, repeat: int, in_flight: int, safeguards: Safeguards, console: Console
) -> _Streamed:
    """Run a workload as a stream with the same inputs, and check every result."""
    from rich.markup import escape

    from syclsched.execution import bind

    what = f"streaming {escape(workload.name)}"
    assert planned.live is not None
    checks = ResultChecker(workload)
    with (
        console.status(f"{what} ...") as status,
        bind(
            planned.plan,
            workload.graph,
            planned.live,
            safeguards=safeguards,
            measure=True,
            progress=status_progress(status, what),
        ) as runner,
        runner.stream([workload.inputs] * repeat, in_flight=in_flight, results=workload.results) as stream,
    ):
        for number, results in enumerate(stream):
            status.update(f"{what}, {number + 1} of {repeat} ...")
            assert isinstance(results, dict)  # errors are raised
            checks.add(results)
        return _Streamed(stream.trace(), checks.verdict, stream.statistics)


def show_statistics(statistics: StreamStatistics, console: Console) -> None:
    """Print the interval between results, with the predicted one, and the waiting times."""
    every = "-" if statistics.interval_s is None else format_seconds(statistics.interval_s)
    foreseen = statistics.predicted_interval_s
    predicted = "" if foreseen is None else f", {format_seconds(foreseen)} predicted"
    console.print(
        f"{plural(statistics.generations, 'generation')}, {statistics.in_flight} in flight: one every {every} "
        f"(median){predicted}; waited {format_seconds(statistics.waiting_s)} for the devices, "
        f"checked results for {format_seconds(statistics.consumer_s)}"
    )
