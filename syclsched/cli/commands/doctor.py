# SPDX-License-Identifier: Apache-2.0
"""``syclsched doctor``: diagnosis of this machine's installation, with commands that repair it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from syclsched.cli.documents import DiagnosisDocument, FindingEntry, entry_of, print_document
from syclsched.cli.terminal import output, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.devices.trust.diagnosis import Diagnosis
    from syclsched.oneapi.diagnosis.finding import Finding

_MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "missing": "[red]missing[/]", "info": "[blue]info[/]"}


def doctor(
    json_output: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
) -> None:
    """Check libraries, versions, drivers, devices and folders, and print the commands that repair problems.

    [bold]syclsched doctor[/bold] ends with 0 if graphs can be run, else with 1.

    [bold]syclsched doctor --json[/bold] prints the findings as data.
    """
    from syclsched.devices.trust.diagnosis import examine
    from syclsched.profiling.storage.store_check import check_stored

    diagnosis = examine()
    stored = check_stored()
    usable = diagnosis.usable and not any(finding.is_blocking for finding in stored)
    diagnosis = replace(diagnosis, findings=(*diagnosis.findings, *stored), usable=usable)
    if json_output:
        print_document(DiagnosisDocument(usable, [entry_of(FindingEntry, each) for each in diagnosis.findings]))
    else:
        show(diagnosis, output())
    if not diagnosis.usable:
        raise typer.Exit(code=1)


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print the findings as a table, and below it the repair command of each problem on a separate line."""
    from rich.text import Text

    # A rich table would break paths that are longer than its column.
    first = max((len(finding.topic) for finding in diagnosis.findings), default=0) + 2
    second = max((len(finding.status) for finding in diagnosis.findings), default=0) + 2
    for finding in diagnosis.findings:
        mark = Text.from_markup(_MARKS[finding.status])
        mark.pad_right(second - len(mark))
        what = wrapped(Text(finding.what), max(console.width - first - second, 1))
        what = Text("\n" + " " * (first + second)).join(what.split("\n"))
        console.print(Text.assemble(finding.topic.ljust(first), mark, what), soft_wrap=True)
    for finding in diagnosis.findings:
        if finding.status in {"warning", "missing"}:
            _show_remedy(finding, console)
    console.print()
    console.print(_conclusion(diagnosis))


def _show_remedy(finding: Finding, console: Console) -> None:
    from rich.markup import escape

    console.print()
    console.print(f"{_MARKS[finding.status]} [bold]{escape(finding.topic)}[/]: {escape(finding.what)}")
    if finding.meaning is not None:
        console.print(f"  This means: {escape(finding.meaning)}.")
    if finding.mend is not None:
        # Not wrapped, so that the command can be copied.
        console.print(f"  To mend it: {escape(finding.mend)}", soft_wrap=True)


def _conclusion(diagnosis: Diagnosis) -> str:
    missing = sum(finding.status == "missing" for finding in diagnosis.findings)
    if any(finding.is_blocking for finding in diagnosis.findings):
        return "[red]Nothing can be run until the problems above are mended.[/]"
    if not diagnosis.usable:
        return "[red]No device can be used.[/] Graphs can be planned and simulated."
    return "[green]Ready.[/]" if not missing else f"[yellow]Usable, with {missing} thing(s) missing.[/]"
