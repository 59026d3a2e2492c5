# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/cli.md from the command line's own definitions; a test compares the two.

Usage: ``python tools/cli_docs.py`` writes the page; with ``--check`` it ends with 1 if the page is out of date.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

_HEAD = """% Made by tools/cli_docs.py from the commands' own definitions; change those, then run it.

# Command line

`python -m syclsched COMMAND`, or `syclsched COMMAND`. `--traceback` anywhere shows Python tracebacks; `-h` or `--help`
after a command says what follows here. Exit codes: 0 done, 1 the work was done and its result is wrong or nothing is
usable, 2 a mistake in what was asked, 130 interrupted.

Results are printed on standard output; progress, notices, warnings and errors on standard error. Before or after the
command, `-q` or `--quiet` leaves only results and errors, `-v` or `--verbose` adds decisions and log messages, and
`-vv` adds messages for debugging.

On a terminal, tables have its width. In pipes and files nothing is wrapped or cut, unless the environment variable
`COLUMNS` sets a width. `NO_COLOR=1` leaves colours out. `history show` uses the pager named by `PAGER`.

`syclsched --install-completion` sets up completion of commands, options, and names of graphs, policies, profiles and
devices in bash, zsh, fish or PowerShell; `syclsched --show-completion` prints the script.
"""

_JSON_HEAD = """## JSON documents

With `--json`, a command prints one JSON document on standard output, and nothing else there. Its key `format` has the
name and version of the document: new keys may be added under the same version; if a key is removed, or its type
changes, the version is raised. Times are in seconds (`_s`), energies in joules (`_j`), sizes in bytes. Numbers that are
not known or not finite are null. `profile --json` prints the file format `syclsched-profiles/1` (see
[Profiles](profiling.md)).
"""


class _Parameter(NamedTuple):
    """An argument or option, as declared by its command's function."""

    label: str
    help: str
    is_option: bool
    required: bool


def page() -> str:
    """Return the page as Markdown."""
    from typer import Typer

    from syclsched.cli.application import COMMANDS, load_command
    from syclsched.cli.option_groups import with_option_groups

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
        "\n".join(
            [_HEAD, *(line for name, function in commands for line in _command(name, function)), *_documents()]
        ).rstrip()
        + "\n"
    )


def _documents() -> Iterator[str]:
    """Yield the lines on the documents of --json."""
    from syclsched.cli.documents import DOCUMENTS

    yield _JSON_HEAD
    entries: dict[str, Any] = {}
    for document in DOCUMENTS:
        yield f"### {document.FORMAT}\n"
        commands = " and ".join(f"`{name}`" for name in document.COMMANDS.split(", "))
        yield f"{inspect.getdoc(document)} Printed by {commands}.\n"
        yield from _keys(document, entries)
    for name, entry in sorted(entries.items()):
        yield f"### {name}\n"
        yield f"{inspect.getdoc(entry)}\n"
        yield from _keys(entry, {})


def _keys(kind: Any, entries: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the keys of a document or entry, and collect the entries that it refers to."""
    yield "| Key | Type | Meaning |\n|---|---|---|"
    for each in dataclasses.fields(kind):
        hint = get_type_hints(kind, include_extras=True)[each.name]
        yield f"| `{each.name}` | {_json_type(get_args(hint)[0], entries)} | {hint.__metadata__[0]} |"
    yield ""


def _json_type(kind: Any, entries: dict[str, Any]) -> str:
    """Return the JSON type of a Python type as text."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        if kind.__name__ not in entries:
            entries[kind.__name__] = kind
            for hint in get_type_hints(kind).values():
                _json_type(hint, entries)
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return f"array of {_json_type(inner[0], entries)}"
    if origin is dict:
        return f"object of {_json_type(inner[1], entries)}" if inner[1] is not Any else "object"
    if origin is not None:
        return " or ".join(_json_type(each, entries) for each in inner)
    names: dict[Any, str] = {
        str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any",
    }  # fmt: skip
    return names[kind]


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
    """Yield the documented parameters from the function's signature."""
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
    bold = bold.replace(r"\[", "[")  # characters that rich would read as markup
    # Text in backquotes is matched first, and kept.
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
