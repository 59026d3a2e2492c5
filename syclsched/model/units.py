# SPDX-License-Identifier: Apache-2.0
"""Numbers with units as people read them; for text, tables and charts only."""

from __future__ import annotations

import math

from syclsched.errors import ArgumentError

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a duration has one to three digits before the point.

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
    """Return a duration with four significant digits, such as ``12.3 ms``.

    Parameters
    ----------
    seconds : float
        The duration, in seconds.

    Returns
    -------
    str
        With its unit.
    """
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds == 0:
        return "0 s"
    scale, symbol = time_unit(seconds)
    return f"{_digits(seconds / scale)} {symbol}"


def format_bytes(nbytes: float) -> str:
    """Return a size in binary units, such as ``1.5 MiB``.

    Parameters
    ----------
    nbytes : float
        The size, in bytes.

    Returns
    -------
    str
        With its unit.
    """
    value, power = float(nbytes), 0
    while abs(value) >= 1023.5 and power < len(_SIZES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.0f} B" if power == 0 else f"{_digits(value)} {_SIZES[power]}"


def format_exact_bytes(nbytes: float) -> str:
    """Return a size to the byte, such as ``1536 bytes (1.500 KiB)``, for messages that refuse one for another.

    Parameters
    ----------
    nbytes : float
        The size, in bytes.

    Returns
    -------
    str
        In binary units as well, if it is large enough for one.
    """
    return f"{nbytes:.0f} bytes" + (f" ({format_bytes(nbytes)})" if nbytes >= 1024 else "")


def format_ratio(ratio: float) -> str:
    """Return a share as a percentage, such as ``87.5 %``.

    Parameters
    ----------
    ratio : float
        1 for all.

    Returns
    -------
    str
        With the per-cent sign.
    """
    return f"{100 * ratio:.1f} %"


def format_excess(gap: float) -> str:
    """Return how far something is above its bound, such as ``3.2 %``, or ``3860x`` the bound where it is far above.

    Parameters
    ----------
    gap : float
        As a share of the bound.

    Returns
    -------
    str
        A percentage up to 1000 %, and then how many times the bound it is.
    """
    return format_ratio(gap) if gap <= 10.0 else f"{1.0 + gap:.0f}x"


def format_gap(gap: float, lower_bound_s: float) -> str:
    """Return how far a makespan is above its lower bound, such as ``at most 3.2 % above the optimum (bound 1.2 ms)``.

    Parameters
    ----------
    gap : float
        As a share of the bound.
    lower_bound_s : float
        The bound, in seconds.

    Returns
    -------
    str
        With the bound.
    """
    above = " above" if gap <= 10.0 else ""
    return f"at most {format_excess(gap)}{above} the optimum (lower bound {format_seconds(lower_bound_s)})"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun, such as ``1 task`` or ``3 copies``.

    Parameters
    ----------
    count : int
        How many.
    noun : str
        For one.
    nouns : str, optional
        For more; ``noun`` with an s if not given.

    Returns
    -------
    str
        With thousands separated.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def _digits(value: float) -> str:
    """Return four significant digits, or all before the point, without an exponent."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}" if size >= 999.5 else f"{value:.1f}"
    return f"{value:.2f}" if size >= 9.995 else f"{value:.3f}"


def check_seconds(seconds: float | None, where: str) -> None:
    """Raise unless seconds are more than none, or not given.

    Raises
    ------
    ArgumentError
        If they are not.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or math.isnan(seconds) or seconds <= 0:
        raise ArgumentError(f"{seconds!r} is not a number of seconds above 0", where=where)
