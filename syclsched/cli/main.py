# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command line: commands, error output and exit codes.

Exit codes: 0 success, 1 the result is wrong or nothing is usable, 2 invalid request, 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from syclsched import __version__
from syclsched.cli.commands.compare import compare_command
from syclsched.cli.commands.devices import devices_command
from syclsched.cli.commands.doctor import doctor
from syclsched.cli.commands.history import history_app
from syclsched.cli.commands.plan import plan_command
from syclsched.cli.commands.profile import INTERRUPTED, profile_command
from syclsched.cli.commands.run import run_command
from syclsched.cli.commands.simulate import simulate_command
from syclsched.cli.commands.trace import trace_command
from syclsched.cli.options import with_option_groups
from syclsched.errors import SyclschedError


class _CommandGroup(TyperGroup):
    """Command group that exits with 130 on Ctrl-C, after the command has released its resources."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted; all resources were released.", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_CommandGroup,
    name="syclsched",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    """Run one task graph on every SYCL device of a machine, with execution times predicted beforehand.

    Start with [bold]doctor[/bold] (check the installation), then [bold]profile[/bold] (measure the devices once), then
    [bold]run cholesky[/bold]. Add [bold]--traceback[/bold] anywhere to see Python tracebacks.
    """
    if version:
        typer.echo(__version__)
        raise typer.Exit


app.command("doctor")(doctor)
app.command("devices")(devices_command)
app.command("profile")(profile_command)
app.command("plan")(with_option_groups(plan_command))
app.command("run")(with_option_groups(run_command))
app.command("compare")(with_option_groups(compare_command))
app.command("simulate")(with_option_groups(simulate_command))
app.command("trace")(trace_command)
app.add_typer(history_app, name="history")


def _show_error(error: SyclschedError) -> None:
    """Print an error with its place and remedy on standard error."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), error.what), soft_wrap=True)
    if error.where is not None:
        console.print(Text.assemble(("  where: ", "bold"), error.where), soft_wrap=True)
    if error.hint is not None:
        console.print(Text.assemble(("  to do: ", "bold"), error.hint), soft_wrap=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on standard error, without its source line."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(
        Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True
    )


def main() -> NoReturn:
    """Run the command line; never returns."""
    traceback = "--traceback" in sys.argv
    sys.argv = [a for a in sys.argv if a != "--traceback"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except SyclschedError as error:
        if traceback:
            raise
        _show_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)
