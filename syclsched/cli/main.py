# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command line: error output and exit codes.

Exit codes: 0 success, 1 the result is wrong or nothing is usable, 2 invalid request, 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

from syclsched import __version__
from syclsched.errors import SyclschedError
from syclsched.interrupts import INTERRUPTED


def _show_error(error: SyclschedError) -> None:
    """Print an error with its place and remedy on standard error."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), error.what), soft_wrap=True)
    if error.where is not None:
        console.print(Text.assemble(("  where: ", "bold"), error.where), soft_wrap=True)
    if error.hint is not None:
        console.print(Text.assemble(("  to do: ", "bold"), error.hint), soft_wrap=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on standard error, without its source line."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(
        Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True
    )


def main() -> NoReturn:
    """Run the command line; never returns."""
    traceback = "--traceback" in sys.argv
    sys.argv = [a for a in sys.argv if a != "--traceback"]
    if sys.argv[1:] == ["--version"]:  # the commands take several times as long to import
        print(__version__)
        sys.exit(0)
    try:
        from syclsched.cli.application import app

        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except SyclschedError as error:
        if traceback:
            raise
        _show_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)
    sys.exit(0)
