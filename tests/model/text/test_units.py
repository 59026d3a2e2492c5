# SPDX-License-Identifier: Apache-2.0
"""Formatting of numbers with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.model.text.units import format_bytes, format_excess, format_ratio, format_seconds, plural, time_unit

SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"), (1.5e-9, "1.500 ns"), (9.99999e-7, "1.000 µs"), (12.34e-6, "12.34 µs"), (0.5, "500.0 ms"),
        (-0.1, "-100.0 ms"), (1234.5, "1234 s"), (float("inf"), "inf s"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.000 KiB"), (1536, "1.500 KiB"), (2**20 - 1, "1.000 MiB")],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert format_bytes(nbytes) == text


@given(st.floats(1e-9, 1e6))
def test_a_duration_reads_back_to_four_digits(seconds: float) -> None:
    number, unit = format_seconds(seconds).split()
    assert float(number) * SECONDS[unit] == pytest.approx(seconds, rel=6e-4)
    scale, symbol = time_unit(seconds)
    assert (scale, symbol) == (SECONDS[unit], unit)


@given(st.integers(0, 2**55))
def test_a_size_reads_back_to_four_digits(nbytes: int) -> None:
    number, unit = format_bytes(nbytes).split()
    assert float(number) * BYTES[unit] == pytest.approx(nbytes, rel=6e-4)


def test_shares_and_counts() -> None:
    assert format_ratio(0.8754) == "87.5 %"
    assert (plural(1, "copy", "copies"), plural(2000, "copy", "copies"), plural(0, "task")) == (
        "1 copy", "2,000 copies", "0 tasks",
    )  # fmt: skip


@pytest.mark.parametrize(("gap", "text"), [(0.032, "3.2 %"), (10.0, "1000.0 %"), (3859.107, "3860x")])
def test_far_above_a_bound_is_a_factor(gap: float, text: str) -> None:
    assert format_excess(gap) == text
