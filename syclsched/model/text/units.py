# SPDX-License-Identifier: Apache-2.0
"""Formatting of times, sizes and ratios with units, for text, tables and charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from syclsched.errors import ArgumentError

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: Longest name of a family of tasks in tables and legends.
_LONGEST_FAMILY = 44


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit, as seconds and symbol, in which a duration has one to three digits before the decimal point."""
    for scale, symbol in _TIMES:
        # 999.95 would be rounded up to four digits.
        if abs(seconds) >= 0.99995 * scale:
            return scale, symbol
    return _TIMES[-1] if seconds else _TIMES[0]


def format_seconds(seconds: float) -> str:
    """Format a duration with four significant digits, such as ``12.30 ms``."""
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds == 0:
        return "0 s"
    scale, symbol = time_unit(seconds)
    return f"{_digits(seconds / scale)} {symbol}"


def format_bytes(nbytes: float) -> str:
    """Format a size in binary units, such as ``1.500 MiB``."""
    value, power = float(nbytes), 0
    while abs(value) >= 1023.5 and power < len(_SIZES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.0f} B" if power == 0 else f"{_digits(value)} {_SIZES[power]}"


def format_exact_bytes(nbytes: float) -> str:
    """Format a size in exact bytes, such as ``1536 bytes (1.500 KiB)``, for messages that compare sizes."""
    return f"{nbytes:.0f} bytes" + (f" ({format_bytes(nbytes)})" if nbytes >= 1024 else "")


def format_ratio(ratio: float) -> str:
    """Format a ratio as a percentage, such as ``87.5 %``."""
    return f"{100 * ratio:.1f} %"


def format_excess(gap: float) -> str:
    """Format the excess of a value over its bound, such as ``3.2 %``; above 1000 % the multiple, such as ``3860x``."""
    return format_ratio(gap) if gap <= 10.0 else f"{1.0 + gap:.0f}x"


def format_gap(gap: float, lower_bound_s: float) -> str:
    """Format the gap of a makespan, such as ``at most 3.2 % above the optimum (lower bound 1.200 ms)``."""
    above = " above" if gap <= 10.0 else ""
    return f"at most {format_excess(gap)}{above} the optimum (lower bound {format_seconds(lower_bound_s)})"


def shortened(text: str, most: int, tail: int = 0) -> str:
    """Return text of at most ``most`` characters: its beginning, and the last ``tail`` characters of its end."""
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def short_family(name: str) -> str:
    """Return the name of a family of tasks for tables and legends; the digest at the end of long ones stays."""
    return shortened(name, _LONGEST_FAMILY, tail=8)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun, such as ``1 task`` or ``3 copies``; the default plural has an s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Join the first few names and count the others, such as ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _digits(value: float) -> str:
    """Format a number with four significant digits or all integer digits, without an exponent."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}" if size >= 999.5 else f"{value:.1f}"
    return f"{value:.2f}" if size >= 9.995 else f"{value:.3f}"


def check_seconds(seconds: float | None, where: str) -> None:
    """Raise `ArgumentError` if an optional number of seconds is given and is not a number above 0."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or math.isnan(seconds) or seconds <= 0:
        raise ArgumentError(f"{seconds!r} is not a number of seconds above 0", where=where)
