# SPDX-License-Identifier: Apache-2.0
"""``syclsched history``: show, export, merge and remove measured task times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli.output_files import read_text, write_text
from syclsched.errors import StorageError
from syclsched.model.text.units import format_seconds, plural

if TYPE_CHECKING:
    from rich.table import Table

history_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@history_app.callback()
def _history() -> None:
    """Measured task times, which plans are based on in addition to device profiles.

    [bold]syclsched history export times.json[/bold], then elsewhere [bold]syclsched history merge times.json[/bold].
    """


@history_app.command("show")
def show_command(
    device: Annotated[str | None, typer.Option("--device", help="Only devices whose key contains this.")] = None,
) -> None:
    """List the measured task times by device, operation and sizes, with their uncertainty.

    Provisional times come from few, scattered or disturbed samples: they are measured again in a quiet moment.
    """
    from rich.console import Console

    from syclsched.costs.history import is_provisional
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.estimation import estimate

    tables: dict[str, Table] = {}
    with HistoryStore() as store:
        for key, samples in store.entries():
            if device is None or device in key.device_key:
                table = tables.setdefault(key.device_key, _table(key.device_key))
                found = estimate(samples)
                certainty = f"±{found.uncertainty or 0.0:.0%}" + (", provisional" if is_provisional(found) else "")
                counts = f"{len(samples)} ({sum(not each.quiet for each in samples)})"
                row = key.operation, key.implementation, key.signature, counts, format_seconds(found.value), certainty
                table.add_row(*row)
    console = Console(highlight=False)
    if not tables:
        console.print(
            "Nothing was measured yet" + ("." if device is None else f" on devices with {device!r} in their key.")
        )
    for table in tables.values():
        console.print(table)


def _table(device_key: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(device_key), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("operation", "by", "sizes"):  # folded: a truncated size would be useless
        table.add_column(heading, overflow="fold")
    for heading in ("samples (doubtful)", "median", "uncertainty"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


@history_app.command("export")
def export_command(file: Annotated[Path, typer.Argument(help="JSON file to write.")]) -> None:
    """Write all measured task times to a file."""
    from syclsched.model.text.json_serialisation import to_json
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage.history_file import history_file

    with HistoryStore() as store:
        found = history_file(store.entries())
    write_text(file, to_json(found))
    typer.echo(f"{len(found.tasks)} measured task times written to {file}")


@history_app.command("merge")
def merge_command(
    files: Annotated[list[Path], typer.Argument(help="Files from `syclsched history export`.")],
) -> None:
    """Add measured task times of other machines; samples already stored are skipped."""
    from syclsched.model.text.json_serialisation import from_json
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage.history_file import HistoryFile

    read = [from_json(HistoryFile, read_text(file), where=str(file)) for file in files]
    with HistoryStore() as store:
        if store.note is not None:
            raise StorageError(store.note, where="history", hint="Say where you can write with XDG_DATA_HOME")
        added = sum(store.merge(task.key, task.samples) for each in read for task in each.tasks)
    typer.echo(f"{added} samples added")


@history_app.command("forget")
def forget_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="OPERATION|DEVICE", help="An operation, or a part of a device's key; all if left out."),
    ] = None,
) -> None:
    """Remove measured task times; they are measured again when a plan needs them."""
    from syclsched.profiling import HistoryStore

    with HistoryStore() as store:
        removed = store.forget_matching(name)
    typer.echo(f"{plural(removed, 'sample')} removed")
