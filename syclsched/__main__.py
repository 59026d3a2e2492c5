# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m syclsched`` and of the command ``syclsched``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

#: Exit status of an interrupted program: 128 and the number of SIGINT.
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line; Ctrl-C while it is being imported ends it like Ctrl-C at any later time."""
    try:
        from syclsched.interrupts import redeliver_lost_interrupts

        redeliver_lost_interrupts()
        from syclsched.cli.main import main as run_command_line

        if sys.argv[1:] != ["--version"]:
            importlib.import_module("syclsched.cli.application")
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.stderr.flush()
        # Nothing is in use yet. A usual exit would end by the signal instead, with another status for the caller, where
        # the exception has passed through code that was made from text, as that of data classes.
        os._exit(_INTERRUPTED)
    run_command_line()


if __name__ == "__main__":
    main()
