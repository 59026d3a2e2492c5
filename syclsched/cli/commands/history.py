# SPDX-License-Identifier: Apache-2.0
"""``syclsched history``: show, export, merge and remove measured task times."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli.completion import choices
from syclsched.cli.documents import HistoryDocument, print_document
from syclsched.cli.output_files import read_text, write_text
from syclsched.cli.terminal import detail, notices, output, show_pages
from syclsched.cli.views.task_times import (
    ORDERS,
    TimeFilter,
    check_choice,
    nothing_found,
    parse_since,
    sources,
    time_rows,
    time_tables,
)
from syclsched.errors import StorageError
from syclsched.model.text.units import plural

history_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@history_app.callback()
def _history() -> None:
    """Measured task times, which plans are based on in addition to device profiles.

    [bold]syclsched history export times.json[/bold], then elsewhere [bold]syclsched history merge times.json[/bold].
    """


@history_app.command("show")
def show_command(
    device: Annotated[
        str | None, typer.Option("--device", metavar="TEXT", help="Only devices whose key contains this.")
    ] = None,
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="TEXT", help="Only operations whose name contains this.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="Only times with samples from: calibration (before a run), run (tasks of a run), profile or selection "
            "(comparisons of plans).",
            autocompletion=choices(sources),
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only times measured since: 30min, 12h, 2d, 3w or 2026-11-01."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Show at most so many rows.")] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="ORDER",
            help="Order of a device's rows: operation, time, uncertainty, samples or newest.",
            autocompletion=choices(lambda: ORDERS),
        ),
    ] = "operation",
    pager: Annotated[
        bool, typer.Option("--pager/--no-pager", help="On a terminal, page what is longer than the screen.")
    ] = True,
    json_output: Annotated[bool, typer.Option("--json", help="Print the times as JSON.")] = False,
) -> None:
    """List the measured task times by device, operation and sizes, with their uncertainty.

    Provisional times come from few, scattered or disturbed samples: they are measured again in a quiet moment.

    [bold]syclsched history show --operation gemm --since 2d --sort time[/bold]
    """
    from syclsched.profiling.storage.history_store import HistoryStore, history_path

    check_choice(source, sources(), "--source")
    check_choice(sort, ORDERS, "--sort")
    now = datetime.datetime.now(datetime.timezone.utc)
    wanted = TimeFilter(operation, device, source, None if since is None else parse_since(since, now))
    with HistoryStore(history_path()) as store:
        entries = store.entries()
        detail(f"times are read from {store.path}")
    found = time_rows(entries, wanted, sort)
    rows = found[:limit]
    if json_output:
        print_document(HistoryDocument(len(found), rows))
        return
    if not found:
        output().print(nothing_found(entries, wanted), markup=False)
        return
    show_pages(time_tables(rows), paged=pager)
    if len(rows) < len(found):
        notices().print(f"{len(rows)} of {len(found)} rows; the rest is left out by --limit")


@history_app.command("export")
def export_command(file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON file to write.")]) -> None:
    """Write all measured task times to a file.

    [bold]syclsched history export times.json[/bold]
    """
    from syclsched.model.text.json_serialisation import to_json
    from syclsched.profiling.storage.history_file import history_file
    from syclsched.profiling.storage.history_store import HistoryStore, history_path

    with HistoryStore(history_path()) as store:
        found = history_file(store.entries())
    write_text(file, to_json(found))
    notices().print(f"{len(found.tasks)} measured task times written to {file}", markup=False)


@history_app.command("merge")
def merge_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Files from `syclsched history export`.")],
) -> None:
    """Add measured task times of other machines; samples already stored are skipped.

    [bold]syclsched history merge times.json[/bold]
    """
    from syclsched.model.text.json_serialisation import from_json
    from syclsched.profiling.storage.history_file import HistoryFile
    from syclsched.profiling.storage.history_store import HistoryStore, history_path

    read = [from_json(HistoryFile, read_text(file), where=str(file)) for file in files]
    with HistoryStore(history_path()) as store:
        if store.note is not None:
            raise StorageError(store.note, where="history", hint="Say where you can write with XDG_DATA_HOME")
        added = sum(store.merge(task.key, task.samples) for each in read for task in each.tasks)
    notices().print(f"{plural(added, 'sample')} added")


@history_app.command("forget")
def forget_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="OPERATION|DEVICE", help="An operation, or a part of a device's key; all if left out."),
    ] = None,
) -> None:
    """Remove measured task times; they are measured again when a plan needs them.

    [bold]syclsched history forget gemm[/bold] removes those of one operation.
    """
    from syclsched.profiling.storage.history_store import HistoryStore, history_path

    with HistoryStore(history_path()) as store:
        removed = store.forget_matching(name)
    notices().print(f"{plural(removed, 'sample')} removed")
