# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/cli.md from the command line's own definitions; a test compares the two.

Usage: ``python tools/cli_docs.py`` writes the page; with ``--check`` it ends with 1 if the page is out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

_HEAD = """% Made by tools/cli_docs.py from the commands' own definitions; change those, then run it.

# Command line

`python -m syclsched COMMAND`, or `syclsched COMMAND`. `--traceback` anywhere shows Python tracebacks; `-h` or `--help`
after a command says what follows here. Exit codes: 0 done, 1 the work was done and its result is wrong or nothing is
usable, 2 a mistake in what was asked, 130 interrupted.
"""


class _Parameter(NamedTuple):
    """One argument or option, as its command's function declares it."""

    label: str
    help: str
    is_option: bool
    required: bool


def page() -> str:
    """Return the page as Markdown."""
    from typer import Typer

    from syclsched.cli.application import COMMANDS, load_command
    from syclsched.cli.options import with_option_groups

    commands: list[tuple[str, Any]] = []
    for name in COMMANDS:
        found = load_command(name)
        inner = found.registered_commands if isinstance(found, Typer) else None
        commands += (
            [(name, with_option_groups(found))]
            if inner is None
            else [(f"{name} {info.name}", info.callback) for info in inner]
        )
    return (
        "\n".join([_HEAD, *(line for name, function in commands for line in _command(name, function))]).rstrip() + "\n"
    )


def _command(name: str, function: Any) -> Iterator[str]:
    """Yield the lines of one command's section."""
    parameters = list(_parameters(function))
    arguments = [p for p in parameters if not p.is_option]
    words = [p.label if p.required else f"[{p.label}]" for p in arguments]
    yield f"## {name}\n"
    options = ["[OPTIONS]"] if len(arguments) < len(parameters) else []
    yield f"```text\n{' '.join(['python -m syclsched', name, *words, *options])}\n```\n"
    yield _plain(inspect.getdoc(function) or "") + "\n"
    for parameter in [*arguments, *(p for p in parameters if p.is_option)]:
        yield f"`{parameter.label}`\n: {_plain(parameter.help)}\n"


def _parameters(function: Any) -> Iterator[_Parameter]:
    """Yield the parameters that are shown, from the function's signature."""
    from typer.models import ArgumentInfo, OptionInfo

    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        annotated = getattr(hint, "__metadata__", ())
        info = next((d for d in (*annotated, parameter.default) if isinstance(d, (ArgumentInfo, OptionInfo))), None)
        if info is None or info.hidden:
            continue
        # Within Annotated[...] the first positional argument is a flag, else it is the default.
        default = parameter.default if annotated else info.default
        first = [info.default] if annotated and isinstance(info.default, str) else []
        flags = [flag for flag in (*first, *(info.param_decls or ())) if flag.startswith("-")]
        kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        is_option = isinstance(info, OptionInfo)
        yield _Parameter(
            label=_option_label(flags or [f"--{parameter.name.replace('_', '-')}"], info, kind)
            if is_option
            else info.metavar or parameter.name.upper(),
            help=(info.help or "") + _default(default),
            is_option=is_option,
            required=default in (..., inspect.Parameter.empty),
        )


def _option_label(flags: list[str], info: Any, kind: Any) -> str:
    kinds = [k for k in get_args(kind) or (kind,) if k is not type(None)]
    if bool in kinds:
        return ", ".join(flags)
    choices = "|".join(str(getattr(c, "value", c)) for k in kinds for c in (k if isinstance(k, type(Enum)) else ()))
    value = info.metavar or (f"[{choices}]" if choices else getattr(kinds[0], "__name__", "value").upper())
    return f"{', '.join(flags)} {value}"


def _default(value: Any) -> str:
    shown = isinstance(value, (str, int, float, Enum)) and not isinstance(value, bool) and value != ""
    return f" Default: `{getattr(value, 'value', value)}`." if shown else ""


def _plain(text: str) -> str:
    """Return help text as Markdown: rich's markup becomes bold, line breaks within a paragraph go."""
    bold = re.sub(r"\[bold\](.*?)\[/(?:bold)?\]", r"**\1**", text)
    bold = bold.replace(r"\[", "[")  # what rich would take for markup
    # What is in backquotes already is matched first, and kept.
    bold = re.sub(r"`[^`]*`|(?<![\w*])(--[a-z][\w-]*)", lambda found: f"`{found[1]}`" if found[1] else found[0], bold)
    return "\n\n".join(" ".join(part.split()) for part in bold.split("\n\n"))


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    wanted = page()
    if "--check" not in arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{PAGE.name} is out of date: run python tools/cli_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
