# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m syclsched`` and of the command ``syclsched``."""

from __future__ import annotations

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
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(_INTERRUPTED)
    run_command_line()


if __name__ == "__main__":
    main()
