# SPDX-License-Identifier: Apache-2.0
"""Output of charts: wrapped titles, literal text without mathematics, and file formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from syclsched.errors import StorageError
from syclsched.tracing.charts.output import chart_text, check_chart_format, save_chart, set_title


def titled(text: str, width_in: float = 10.0) -> str:
    figure = Figure(figsize=(width_in, 2.0))
    set_title(figure, text)
    return figure.get_suptitle()


def test_a_long_title_is_broken_into_lines_and_not_cut() -> None:
    words = [f"word{i}" for i in range(25)]
    lines = titled(" ".join(words)).splitlines()
    assert len(lines) > 1
    assert " ".join(lines).split() == words
    assert len(titled(" ".join(words), 20.0).splitlines()) < len(lines)


def test_a_title_without_end_ends() -> None:
    lines = titled("x" * 5_000).splitlines()
    assert len(lines) == 3 and lines[-1].endswith("…")


def test_text_is_no_mathematics() -> None:
    assert titled("$x$") == r"\$x\$"
    assert chart_text("a$\n" + "b" * 100) == r"a\$?" + "b" * 56 + "…"


@pytest.mark.parametrize("name", ["a.png", "a.SVG", "a.pdf", "a.jpg"])
def test_formats_that_can_be_drawn(name: str) -> None:
    check_chart_format(name)


@pytest.mark.parametrize(("name", "message"), [("a.xyz", "format 'xyz'"), ("a", "no ending"), (".png", "no ending")])
def test_formats_that_cannot(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=message):
        save_chart(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())
