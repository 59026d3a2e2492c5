# SPDX-License-Identifier: Apache-2.0
"""Charts of Pareto fronts."""

from __future__ import annotations

from pathlib import Path

import pytest

from syclsched.errors import StorageError
from syclsched.tracing.charts.pareto import draw_front, make_front

POINTS = [(2.0, 1.0, "cheap"), (1.0, 3.0, "fast $x$")]


def test_the_front_is_drawn_in_order_with_names() -> None:
    axis = make_front(POINTS, [(3.0, 3.0)], ("makespan [ms]", "energy [J]"), "front").axes[0]
    (line,) = axis.lines
    assert line.get_xydata().tolist() == [[1.0, 3.0], [2.0, 1.0]]
    assert [text.get_text() for text in axis.texts] == ["fast \\$x\\$", "cheap"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("makespan [ms]", "energy [J]")
    assert {c.get_label(): len(c.get_offsets()) for c in axis.collections} == {"dominated": 1, "Pareto front": 2}


def test_pictures_are_written_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "front.png"
    draw_front(POINTS, [], ("a", "b"), "front", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(StorageError, match="cannot write the chart"):
        draw_front(POINTS, [], ("a", "b"), "front", tmp_path / "front.xyz")
