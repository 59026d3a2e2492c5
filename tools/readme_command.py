# SPDX-License-Identifier: Apache-2.0
"""Print a command of README.md exactly as a reader would copy it, so that CI runs the documented commands.

Usage: ``python tools/readme_command.py main|tests``
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_COMMAND = re.compile(r"<!-- command: (?P<name>\w+) -->\s*```\w*\n(?P<text>.*?)```\s*<!-- end -->", re.DOTALL)


def commands(text: str) -> dict[str, str]:
    """Return the marked commands of a document by name.

    Parameters
    ----------
    text : str
        Markdown in which ``<!-- command: NAME -->`` and ``<!-- end -->`` enclose a fenced block.

    Returns
    -------
    dict of str to str
        Each command is one line.

    Raises
    ------
    ValueError
        If a command is not exactly one line, or a name is used twice.
    """
    found: dict[str, str] = {}
    for match in _COMMAND.finditer(text):
        name, lines = match["name"], match["text"].strip().splitlines()
        if len(lines) != 1:
            raise ValueError(f"command {name!r} has {len(lines)} lines, it must be one")
        if name in found:
            raise ValueError(f"command {name!r} is there twice")
        found[name] = lines[0]
    return found


def main(arguments: list[str]) -> int:
    """Print the command that the only argument names; return the exit code."""
    known = commands(README.read_text(encoding="utf-8"))
    if len(arguments) != 1 or arguments[0] not in known:
        print(f"usage: readme_command.py {'|'.join(known)}", file=sys.stderr)
        return 2
    print(known[arguments[0]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
