# SPDX-License-Identifier: Apache-2.0
"""Signatures of commands for typer: groups of options expanded into single ones, and options of all commands added."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from syclsched.cli.terminal import apply_message_options


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command for typer: each parameter that is a dataclass of options is expanded into its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        inner = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=inner[f.name])
            for f in fields(groups[name])
        ]

    def expanded(**given: Any) -> None:
        made = {n: group(**{f.name: given.pop(f.name) for f in fields(group)}) for n, group in groups.items()}
        command(**given, **made)

    expanded.__doc__ = command.__doc__
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel="Messages", help="Print results and errors only.")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, metavar="", show_default=False, rich_help_panel="Messages",
        help="Print decisions and log messages, too; -vv also those for debugging.",
    ),
]  # fmt: skip


def with_message_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also has the options --quiet and --verbose."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
    ]
    parameters += [
        inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet),
        inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Verbose),
    ]

    def told(*, quiet: bool, verbose: int, **given: Any) -> None:
        apply_message_options(quiet=quiet, verbose=verbose)
        command(**given)

    told.__doc__ = command.__doc__
    told.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    told.__annotations__ = {each.name: each.annotation for each in parameters}
    return told
