# SPDX-License-Identifier: Apache-2.0
"""Groups of options of ``syclsched run``: checks and limits of the run, and its output."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.errors import ArgumentError
from syclsched.model.text.units import check_seconds

if TYPE_CHECKING:
    from syclsched.execution import Safeguards

_watch_option = partial(typer.Option, rich_help_panel="Checks and time limits")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of the checks of a run, and of the limits of its time and of its use of devices."""

    debug: Annotated[
        bool,
        _watch_option(
            "--debug",
            help="Execute one instruction at a time; a task fails if it changes memory that it does not declare to "
            "write.",
        ),
    ] = False
    nan_guard: Annotated[
        bool,
        _watch_option(
            "--nan-guard",
            help="Execute one instruction at a time; the first task that writes a NaN or an infinity fails.",
        ),
    ] = False
    watchdog: Annotated[
        float | None,
        _watch_option(
            "--watchdog",
            metavar="SECONDS",
            help="Warn of a task that runs longer than this. By default 30 times its prediction, and at least 10 s.",
        ),
    ] = None
    deadline: Annotated[
        float | None,
        _watch_option(
            "--deadline", metavar="SECONDS", help="A run that takes longer fails, with the name of the current task."
        ),
    ] = None
    recover: Annotated[
        bool,
        _watch_option(
            "--recover/--no-recover",
            help="When a device or its runtime fails, plan the remaining tasks on the remaining devices and continue.",
        ),
    ] = True
    priority: Annotated[
        int,
        opt.cluster_option(
            "--priority",
            max=0,
            help="Below 0, the run waits while runs of higher priority, of any client, have work on its devices.",
        ),
    ] = 0
    share: Annotated[
        float | None,
        opt.cluster_option(
            "--share",
            metavar="WEIGHT",
            help="Share the devices with other runs that have a share, in proportion to the weights.",
        ),
    ] = None

    def safeguards(self) -> Safeguards:
        """Return the options as safeguards of the execution engine."""
        from syclsched.execution import Safeguards

        check_seconds(self.watchdog, "--watchdog")
        check_seconds(self.deadline, "--deadline")
        return Safeguards(self.debug, self.nan_guard, self.watchdog, self.deadline, self.priority, self.share)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options of a run's output on the terminal and in files."""

    trace_file: Annotated[
        Path | None, opt.output_option("--trace", metavar="FILE", help="Write a trace for Perfetto.")
    ] = None
    gantt_file: Annotated[
        Path | None, opt.output_option("--gantt", metavar="FILE", help="Draw a Gantt chart (.png, .svg, .pdf).")
    ] = None
    report_file: Annotated[
        Path | None,
        opt.output_option("--report", metavar="FILE", help="Write an HTML page about the run, to open in a browser."),
    ] = None
    record_file: Annotated[
        Path | None, opt.output_option("--record", metavar="FILE", help="Write the run as JSON, for `syclsched trace`.")
    ] = None
    save_plan: Annotated[
        Path | None, opt.output_option("--save-plan", metavar="FILE", help="Write the plan as JSON.")
    ] = None
    compare: Annotated[
        str | None,
        opt.output_option(
            "--compare",
            metavar="RUNTIME",
            help="Run a model alternately with 'onnxruntime' and compare results and times.",
        ),
    ] = None
    output_file: Annotated[
        Path | None, opt.output_option("--output", metavar="FILE", help="Write a model's outputs (.npz).")
    ] = None
    top: Annotated[int, opt.output_option("--top", min=0, help="Show this many of a model's best scores.")] = 0
    labels_file: Annotated[
        Path | None, opt.output_option("--labels", metavar="FILE", help="Names of classes for --top, one per line.")
    ] = None
    monitor: Annotated[
        bool, opt.output_option("--monitor", help="Let `syclsched top`, in another terminal, show the runs live.")
    ] = False
    json_output: Annotated[bool, opt.output_option("--json", help="Print a summary as JSON.")] = False

    def monitoring(self, *, dry_run: bool) -> AbstractContextManager[object]:
        """Return a context in which the runs are shown by `syclsched top`, if that is wanted."""
        if not self.monitor:
            return nullcontext()
        if dry_run:
            raise ArgumentError("with --dry-run nothing runs", where="--monitor", hint="Leave one of them out")
        from syclsched.api import monitor

        return monitor()
