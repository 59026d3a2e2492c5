# SPDX-License-Identifier: Apache-2.0
"""Formatting of times, sizes and ratios with units, for text, tables and charts."""

from __future__ import annotations

import math

from syclsched.errors import ArgumentError

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a duration has one to three digits before the decimal point.

    Parameters
    ----------
    seconds : float
        The duration, in seconds.

    Returns
    -------
    tuple of (float, str)
        Seconds per unit, and its symbol.
    """
    for scale, symbol in _TIMES:
        # 999.95 would be rounded up to four digits.
        if abs(seconds) >= 0.99995 * scale:
            return scale, symbol
    return _TIMES[-1] if seconds else _TIMES[0]


def format_seconds(seconds: float) -> str:
    """Format a duration with four significant digits, such as ``12.30 ms``.

    Parameters
    ----------
    seconds : float
        The duration, in seconds.

    Returns
    -------
    str
        Number and unit.
    """
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds == 0:
        return "0 s"
    scale, symbol = time_unit(seconds)
    return f"{_digits(seconds / scale)} {symbol}"


def format_bytes(nbytes: float) -> str:
    """Format a size in binary units, such as ``1.500 MiB``.

    Parameters
    ----------
    nbytes : float
        The size, in bytes.

    Returns
    -------
    str
        Number and unit.
    """
    value, power = float(nbytes), 0
    while abs(value) >= 1023.5 and power < len(_SIZES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.0f} B" if power == 0 else f"{_digits(value)} {_SIZES[power]}"


def format_exact_bytes(nbytes: float) -> str:
    """Format a size in exact bytes, such as ``1536 bytes (1.500 KiB)``, for messages that compare sizes.

    Parameters
    ----------
    nbytes : float
        The size, in bytes.

    Returns
    -------
    str
        Number of bytes, and from 1024 bytes on also the size in binary units.
    """
    return f"{nbytes:.0f} bytes" + (f" ({format_bytes(nbytes)})" if nbytes >= 1024 else "")


def format_ratio(ratio: float) -> str:
    """Format a ratio as a percentage, such as ``87.5 %``.

    Parameters
    ----------
    ratio : float
        The ratio; 1 for 100 %.

    Returns
    -------
    str
        Percentage with its sign.
    """
    return f"{100 * ratio:.1f} %"


def format_excess(gap: float) -> str:
    """Format the excess of a value over its lower bound, such as ``3.2 %``, or ``3860x`` for large ones.

    Parameters
    ----------
    gap : float
        Excess relative to the bound.

    Returns
    -------
    str
        The excess in per cent up to 1000 %, beyond that the value as a multiple of the bound.
    """
    return format_ratio(gap) if gap <= 10.0 else f"{1.0 + gap:.0f}x"


def format_gap(gap: float, lower_bound_s: float) -> str:
    """Format the gap of a makespan, such as ``at most 3.2 % above the optimum (lower bound 1.200 ms)``.

    Parameters
    ----------
    gap : float
        Excess of the makespan relative to its lower bound.
    lower_bound_s : float
        The bound, in seconds.

    Returns
    -------
    str
        The gap and the bound.
    """
    above = " above" if gap <= 10.0 else ""
    return f"at most {format_excess(gap)}{above} the optimum (lower bound {format_seconds(lower_bound_s)})"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun, such as ``1 task`` or ``3 copies``.

    Parameters
    ----------
    count : int
        The count.
    noun : str
        Singular.
    nouns : str, optional
        Plural; ``noun`` with an s if not given.

    Returns
    -------
    str
        The count, with thousands separators, and the noun.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def _digits(value: float) -> str:
    """Format a number with four significant digits or all integer digits, without an exponent."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}" if size >= 999.5 else f"{value:.1f}"
    return f"{value:.2f}" if size >= 9.995 else f"{value:.3f}"


def check_seconds(seconds: float | None, where: str) -> None:
    """Check an optional number of seconds.

    Raises
    ------
    ArgumentError
        If it is given and is not a number above 0.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or math.isnan(seconds) or seconds <= 0:
        raise ArgumentError(f"{seconds!r} is not a number of seconds above 0", where=where)
