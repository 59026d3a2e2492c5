# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command line: error output and exit codes.

Exit codes: 0 success, 1 the result is wrong or nothing is usable, 2 invalid request, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from syclsched import __version__
from syclsched.errors import SyclschedError
from syclsched.interrupts import INTERRUPTED


def _show_error(error: SyclschedError) -> None:
    """Print an error with its place and remedy on standard error."""
    from rich.text import Text

    from syclsched.cli.terminal import errors

    console = errors()
    for label, style, text in (
        ("error: ", "bold red", error.what), ("  where: ", "bold", error.where), ("  to do: ", "bold", error.hint),
    ):  # fmt: skip
        if text is not None:
            console.print(Text.assemble((label, style), text), soft_wrap=True)


def main() -> NoReturn:
    """Run the command line; never returns."""
    ours = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv  # the rest is a program's
    traceback = "--traceback" in ours
    sys.argv = [a for a in ours if a != "--traceback"] + sys.argv[len(ours) :]
    if sys.argv[1:] == ["--version"]:  # the commands take several times as long to import
        print(__version__)
        sys.exit(0)
    try:
        from syclsched.cli.application import app
        from syclsched.cli.terminal import shown_messages

        # Completion is of the installed script, also where it is asked for by python -m.
        completes = any(a.startswith(("--install-completion", "--show-completion")) for a in sys.argv[1:2])
        with shown_messages():
            app(prog_name="syclsched" if completes else None)
    except SyclschedError as error:
        if traceback:
            raise
        _show_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)
    sys.exit(0)
