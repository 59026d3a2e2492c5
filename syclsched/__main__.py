# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m syclsched``."""

from __future__ import annotations

from syclsched.cli.main import main

if __name__ == "__main__":
    main()
