# SPDX-License-Identifier: Apache-2.0
"""The bar chart of makespans."""

from __future__ import annotations

from pathlib import Path

import pytest

from syclsched.errors import StorageError
from syclsched.tracing.charts.bars import ChartBar, draw_bars, make_bars


def widths(bars: list[ChartBar]) -> list[float]:
    (axis,) = make_bars(bars, "t").axes
    return [patch.get_width() for patch in axis.patches]


def test_bars_are_as_long_as_the_makespans_in_one_unit() -> None:
    bars = [ChartBar("p", "a", 0.002), ChartBar("p", "b", 0.004)]
    assert widths(bars) == pytest.approx([2.0, 4.0])
    (axis,) = make_bars(bars, "t").axes
    assert "ms" in axis.get_xlabel()
    assert [t.get_text() for t in axis.get_yticklabels()] == ["a", "b"]


def test_a_policy_has_one_colour_and_groups_have_headings() -> None:
    bars = [ChartBar("p", "a", 1.0), ChartBar("p", "b", 2.0), ChartBar("q", "b", 3.0), ChartBar("q", "a", 4.0)]
    (axis,) = make_bars(bars, "t").axes
    colours = [patch.get_facecolor() for patch in axis.patches]
    assert colours[0] == colours[3] != colours[1] == colours[2]
    texts = {t.get_text() for t in axis.texts}
    assert {"p", "q", "1.000 s", "4.000 s"} <= texts


def test_the_bound_is_marked_in_its_group() -> None:
    (axis,) = make_bars([ChartBar("p", "a", 2.0, 1.5), ChartBar("q", "a", 3.0)], "t").axes
    (line,) = axis.collections
    (segment,) = line.get_segments()
    assert segment[:, 0].tolist() == [1.5, 1.5]
    assert "lower bound" in make_bars([ChartBar("p", "a", 2.0, 1.5)], "t").get_suptitle()


def test_a_line_leads_to_the_worst() -> None:
    bars = [ChartBar("p", "a", 2.0, worst_s=3.0), ChartBar("p", "b", 2.5), ChartBar("p", "c", 4.0, worst_s=4.0)]
    (axis,) = make_bars(bars, "t").axes
    (line,) = axis.collections
    assert [segment.tolist() for segment in line.get_segments()] == [[[2.0, 0.0], [3.0, 0.0]]]
    assert axis.get_xlim()[1] > 4.0


def test_long_bar_does_not_hide_the_others() -> None:
    short = [ChartBar("p", f"a{i}", 1.0 + 0.1 * i) for i in range(8)]
    (axis,) = make_bars([*short, ChartBar("p", "b", 5.0), ChartBar("p", "slow", 120.0)], "t").axes
    assert axis.get_xlim()[1] < 7.0
    assert "beyond the axis" in axis.get_xlabel()
    assert "120.0 s" in {t.get_text() for t in axis.texts}
    lengths = [patch.get_width() for patch in axis.patches]
    assert lengths[:9] == pytest.approx([bar.seconds for bar in [*short, ChartBar("p", "b", 5.0)]])
    assert 5.0 < lengths[9] < 7.0
    assert len(axis.lines) == 1  # the gap


def test_bars_of_different_length_are_otherwise_drawn_whole() -> None:
    (axis,) = make_bars([ChartBar("p", "a", 1.0), ChartBar("p", "b", 11.0)], "t").axes
    assert axis.get_xlim()[1] > 11.0
    assert "beyond" not in axis.get_xlabel() and not axis.lines


@pytest.mark.parametrize(
    "bars",
    [[], [ChartBar("", "", 0.0)], [ChartBar("$x$", "a_{", 1.0)], [ChartBar("p", f"l{i}", i + 1.0) for i in range(60)]],
)
def test_anything_can_be_drawn(bars: list[ChartBar], tmp_path: Path) -> None:
    draw_bars(bars, "$\\frac", tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["no/b.png", "b.nonsense"])
def test_an_unwritable_chart_is_reported(name: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write the chart"):
        draw_bars([ChartBar("p", "a", 1.0)], "t", tmp_path / name)
