# SPDX-License-Identifier: Apache-2.0
"""Build log of an OpenCL C compiler, shortened for an error message, with the source line of the first error. Pure."""

from __future__ import annotations

import re
from typing import Final

#: Most lines of a log that a message repeats, and most characters of one line.
_MOST_LINES: Final = 24
_LONGEST_LINE: Final = 300
#: Lines that say nothing about the source.
_NOISE: Final = re.compile(
    r"(?:Compilation|Device build|Options used by backend compiler|Build) ?(?:started|done|failed)?:?"
)
#: An error's line in the source, as Clang's diagnostics and those of compilers made from it give it; PoCL puts the kind
#: of a diagnostic before its place.
_ERROR: Final = re.compile(
    r"(?:^|[^\d])(\d+):\d+: (?:fatal )?error:|^(?:fatal )?error: .*?(?:^|[^\d])(\d+):\d+: ", re.MULTILINE
)
#: The number of a compilation in this process before the place of a diagnostic, as Intel's compiler gives it.
_COMPILATION: Final = re.compile(r"^\d+:(?=\d+:\d+: )")


def describe_log(log: str, source: str) -> str:
    """Return the lines of a build log that an error message repeats, each on a line of its own; empty for no log."""
    lines = [_COMPILATION.sub("", line.rstrip())[:_LONGEST_LINE] for line in log.replace("\0", "").splitlines()]
    lines = [line for line in lines if line.strip() and not _NOISE.fullmatch(line.strip())]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... ({len(lines) - _MOST_LINES} more lines)"]
    text = "\n".join(lines)
    found = _ERROR.search(text)
    of_source = source.splitlines()
    line = 0 if found is None else int(found.group(1) or found.group(2))
    if 1 <= line <= len(of_source):
        shown = of_source[line - 1].strip()[:_LONGEST_LINE]
        if shown and shown not in text:
            text += f"\nline {line} is: {shown}"
    return text
