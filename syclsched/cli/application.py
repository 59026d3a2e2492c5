# SPDX-License-Identifier: Apache-2.0
"""Commands of the command line, each imported when it is used."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from syclsched import __version__
from syclsched.cli.terminal import Verbosity, apply_message_options, set_verbosity
from syclsched.interrupts import INTERRUPTED


class LazyCommand(NamedTuple):
    """A command whose module, of the same name, is imported when it is used."""

    attribute: str  # the module's function, or its typer application for a group of commands
    summary: str  # first paragraph of its help


#: The commands by name, in the order of the help.
COMMANDS = {
    "doctor": LazyCommand(
        "doctor",
        "Check libraries, versions, drivers, devices and folders, and print the commands that repair problems.",
    ),
    "devices": LazyCommand(
        "devices_command",
        "List the SYCL devices of this machine, with the results of their known-answer tests and shared memories.",
    ),
    "profile": LazyCommand(
        "profile_command",
        "Measure every SYCL device: launches, FLOP/s, bandwidth, copies, overlap; Ctrl-C keeps finished measurements.",
    ),
    "plan": LazyCommand(
        "plan_command",
        "Plan a ready graph, a model, or a graph from a file, without running it, and print the plan.",
    ),
    "run": LazyCommand(
        "run_command",
        "Run a ready graph or an ONNX model on every SYCL device of this machine (or on chosen ones), and check "
        "results.",
    ),
    "train": LazyCommand(
        "train_command",
        "Train an ONNX model on the data of a NumPy file: each step is one task graph on this machine's devices.",
    ),
    "top": LazyCommand(
        "top_command",
        "Show the runs of your processes live: lanes, tasks, memory, predicted and measured times. Ctrl-C leaves.",
    ),
    "compare": LazyCommand(
        "compare_command",
        "Plan a graph with several policies and compare the plans in one table, fastest first.",
    ),
    "simulate": LazyCommand(
        "simulate_command",
        "Verify a plan and run it on a virtual clock; or predict a graph's execution on other hardware. Needs no "
        "device.",
    ),
    "trace": LazyCommand(
        "trace_command",
        "Analyse a recorded run: time by activity, reasons for idle lanes, and changes that would shorten it; draw it.",
    ),
    "kernels": LazyCommand(
        "kernels_app",
        "Packs of compiled Python kernels, for programs that are to start without compiling.",
    ),
    "cluster": LazyCommand(
        "cluster_app",
        "Show the machines of a Dask cluster, and plan graphs for all of them.",
    ),
    "history": LazyCommand(
        "history_app",
        "Measured task times, which plans are based on in addition to device profiles.",
    ),
}


def load_command(name: str) -> Any:
    """Import a command: return its function, or the typer application of a group."""
    return getattr(importlib.import_module(f"syclsched.cli.commands.{name}"), COMMANDS[name].attribute)


class _Command(TyperCommand):
    """Command that is known by its summary until it is used."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        from syclsched.cli.option_groups import with_message_options, with_option_groups

        assert self.name is not None
        found = load_command(self.name)
        loaded = typer.Typer(add_completion=False, rich_markup_mode="rich")
        if isinstance(found, typer.Typer):
            loaded = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
            loaded.registered_callback = found.registered_callback
            for inner in found.registered_commands:
                assert inner.callback is not None
                loaded.command(inner.name)(with_message_options(inner.callback))
        else:
            loaded.command(self.name)(with_message_options(with_option_groups(found)))
        return typer.main.get_command(loaded).make_context(info_name, args, parent, **extra)


class _CommandGroup(TyperGroup):
    """Command group that exits with 130 on Ctrl-C, after the command has released its resources."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, command in COMMANDS.items():
            self.add_command(_Command(name, help=command.summary))

    def make_context(self, *args: Any, **named: Any) -> Any:
        try:
            return super().make_context(*args, **named)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # else a shell asks for completions
            typer.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help as plain text: rich and its parsers of Markdown and source code take longer to import."""
        super(TyperGroup, self).format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands, each with the whole of its summary."""
        parameters = [record for each in self.get_params(ctx) if (record := each.get_help_record(ctx)) is not None]
        commands = [(typer.style(name, bold=True), command.summary) for name, command in COMMANDS.items()]
        for title, rows in (("Options", parameters), ("Commands", commands)):
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted; all resources were released.", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_CommandGroup,
    name="syclsched",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print results and errors only; also after a command."),
    verbose: int = typer.Option(
        0,
        "--verbose",
        "-v",
        count=True,
        metavar="",
        show_default=False,
        help="Print decisions and log messages, too; -vv for debugging.",
    ),
) -> None:
    """Run one task graph on every SYCL device of a machine, with execution times predicted beforehand.

    Start with `doctor` (check the installation), then `profile` (measure the devices once), then `run cholesky`. Add
    --traceback anywhere to see Python tracebacks.

    `COMMAND --help` explains the options of a command. Results are printed on standard output, notices and errors on
    standard error.
    """
    set_verbosity(Verbosity.NORMAL)
    apply_message_options(quiet=quiet, verbose=verbose)
    if version:
        typer.echo(__version__)
        raise typer.Exit
