# SPDX-License-Identifier: Apache-2.0
"""Parsing and formatting of quantities with units: ``20ms``, ``1.5 GiB``, ``5 J``, ``50 runs/s``."""

from __future__ import annotations

import math
import re
from typing import Final, Literal

from syclsched.errors import ArgumentError, SyclschedError, did_you_mean
from syclsched.model.text.units import format_bytes, format_seconds

Dimension = Literal["time", "bytes", "energy", "rate"]

#: Conversion factor of each unit to seconds, bytes, joules or runs per second.
UNITS: Final[dict[Dimension, dict[str, float]]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "bytes": {
        "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "kB": 1e3, "KB": 1e3, "MB": 1e6,
        "GB": 1e9, "TB": 1e12,
    },
    "energy": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "kJ": 1e3, "Wh": 3600.0, "kWh": 3.6e6},
    "rate": {"runs/s": 1.0, "run/s": 1.0, "/s": 1.0, "runs/min": 1.0 / 60.0, "runs/h": 1.0 / 3600.0},
}  # fmt: skip

_NUMBER: Final = re.compile(
    r"\s*([0-9]+(?:[_0-9]*[0-9])?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(.*)"
)


def parse_quantity(
    text: str, dimension: Dimension, *, where: str, raising: type[SyclschedError] = ArgumentError
) -> float:
    """Parse a number with its unit, such as ``20ms``, into seconds, bytes, joules or runs per second.

    Raise an error of class ``raising`` if it is not a non-negative number with a unit of that dimension.
    """
    known = UNITS[dimension]
    found = _NUMBER.fullmatch(text)
    number, unit = (found[1], found[2].strip()) if found else ("", text.strip())
    if not found:
        raise raising(f"{text.strip()!r} is not a number with a unit", where=where, hint=_expected(dimension))
    if unit not in known:
        what = "has no unit" if not unit else f"has the unit {unit!r}, which is not one of {dimension}"
        meant = did_you_mean(unit, known) if unit else ""
        raise raising(f"{text.strip()!r} {what}", where=where, hint=meant + _expected(dimension))
    value = float(number) * known[unit]
    if not math.isfinite(value):
        raise raising(f"{text.strip()!r} is too large", where=where)
    return value


def format_quantity(value: float, dimension: Dimension) -> str:
    """Format a quantity in seconds, bytes, joules or runs per second with a readable unit."""
    if dimension == "time":
        return format_seconds(value)
    if dimension == "bytes":
        return format_bytes(value)
    if dimension == "energy":
        scale, unit = (1.0, "J") if value >= 1.0 or value == 0.0 else (1e-3, "mJ")
        return f"{value / scale:.4g} {unit}"
    return f"{value:.4g} runs/s"


def _expected(dimension: Dimension) -> str:
    return f"As 20{next(iter(UNITS[dimension]))}; units are {', '.join(UNITS[dimension])}"
