# SPDX-License-Identifier: Apache-2.0
"""Write docs/cli.md from the command line's own definitions; a test compares the two, so the page cannot drift.

Usage: ``python tools/cli_docs.py`` writes the page, ``python tools/cli_docs.py --check`` ends with 1 if it is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

_HEAD = """% Made by tools/cli_docs.py from the commands' own definitions; change those, then run it.

# Command line

`python -m syclsched COMMAND`, or `syclsched COMMAND`. `--debug` anywhere shows Python tracebacks; `-h` or `--help` after a command
says what follows here. Exit codes: 0 done, 1 the work was done and its result is wrong or nothing is usable, 2 a mistake
in what was asked, 130 interrupted.
"""


def page() -> str:
    """Return the page as Markdown."""
    from typer.main import get_command

    from syclsched.cli.main import app

    group: Any = get_command(app)
    sections = [section for name, command in group.commands.items() for section in _command(name, command)]
    return "\n".join([_HEAD, *sections]).rstrip() + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    """Yield the lines of one command's section."""
    parameters = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    options = [p for p in parameters if p.param_type_name == "option"]
    words = [f"[{_metavar(p)}]" if not p.required else _metavar(p) for p in arguments]
    yield f"## {name}\n"
    yield f"```sh\n{' '.join(['python -m syclsched', name, *words, *(['[OPTIONS]'] if options else [])])}\n```\n"
    yield _plain(command.help or "") + "\n"
    for parameter in (*arguments, *options):
        flags = _metavar(parameter) if parameter in arguments else _flags(parameter)
        yield f"`{flags}`\n: {_plain(getattr(parameter, 'help', None) or '')}{_default(parameter)}\n"
    for child_name, child in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {child_name}", child)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _flags(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {_value(parameter)}"


def _value(parameter: Any) -> str:
    choices = getattr(parameter.type, "choices", None)
    if parameter.metavar is None and choices:
        return "[" + "|".join(str(getattr(choice, "value", choice)) for choice in choices) + "]"
    return str(parameter.metavar or parameter.type.name.upper())


def _default(parameter: Any) -> str:
    value = parameter.default
    shown = isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""
    return f" Default: `{value}`." if shown else ""


def _plain(text: str) -> str:
    """Return help text as Markdown: rich's markup becomes bold, line breaks within a paragraph go."""
    bold = re.sub(r"\[bold\](.*?)\[/(?:bold)?\]", r"**\1**", text)
    bold = re.sub(r"(?<![\w*`])(--[a-z][\w-]*)", r"`\1`", bold)
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
