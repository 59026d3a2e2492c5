# SPDX-License-Identifier: Apache-2.0
"""Descriptions of numba's compiler passes, which nothing here reads."""

from __future__ import annotations

from typing import Any


def skip_descriptions() -> None:
    """Keep numba from writing all flags as text before every pass, for listeners to its events.

    This takes a fifteenth of the time of compiling a small kernel.
    """
    from numba.core import compiler_machinery

    compiler_machinery.pformat = _nothing


def _nothing(_: Any) -> str:
    return ""
