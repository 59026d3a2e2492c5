# SPDX-License-Identifier: Apache-2.0
"""Objects in notebooks: well-formed HTML without scripts, with names escaped, that says what is printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.model.text.drawing import MAX_PICTURED
from syclsched.model.text.sections import Row, Section, facts, sections_html, sections_text, table

NAME = "<b>bold</b> & 'more'"


class Parsed(HTMLParser):
    """The elements and the text of an HTML fragment; it must be well-formed."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(fragment)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        for name, value in attrs:
            assert name not in ("src", "href") or (value or "").startswith("data:image/png;base64,")
        if tag != "img":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def graph(tasks: int = 2) -> syclsched.TaskGraph:
    made = syclsched.TaskGraph(NAME)
    x = made.array("x<y>", data=np.zeros((4, 8)))
    for number in range(tasks):
        made.host(lambda x: None, x=x.update(), name=f"task <{number}>")
    return made


def planned() -> syclsched.Plan:
    platform = syclsched.describe("xeon-8480,max1550")
    return syclsched.plan(costs(5), platform, policy="heft")


def costs(tasks: int) -> syclsched.TaskGraph:
    import networkx as nx

    digraph = nx.DiGraph(name=NAME)
    for number in range(tasks):
        digraph.add_node(f"task <{number}>", seconds=1.0, family="<family>")
        if number:
            digraph.add_edge(f"task <{number - 1}>", f"task <{number}>", bytes=4096)
    return syclsched.from_networkx(digraph)


def test_traces_are_one_line() -> None:
    assert repr(syclsched.simulate(planned())).endswith(" simulated>")


def profile() -> syclsched.DeviceProfile:
    found = syclsched.describe("max1550").compute_devices[0].profile
    assert found is not None
    return found


OBJECTS: dict[str, Callable[[], Any]] = {
    "graph": graph,
    "platform": lambda: syclsched.describe("xeon-8480,max1550"),
    "profile": profile,
    "plan": planned,
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_html_is_well_formed_and_says_what_is_printed(kind: str) -> None:
    shown = OBJECTS[kind]()
    parsed = Parsed(shown._repr_html_())
    assert "script" not in parsed.tags and "b" not in parsed.tags and "table" in parsed.tags
    words = set(re.findall(r"[\w.]+", str(shown)))
    assert len(words) > 20
    assert words <= set(re.findall(r"[\w.]+", parsed.text))


def test_names_are_escaped_and_tables_have_rows_and_headings() -> None:
    parsed = Parsed(graph()._repr_html_())
    assert NAME in parsed.text
    assert ["array", "shape", "dtype", "size", "use"] in parsed.rows
    assert ["x<y>", "4 × 8", "float64", "256 B", "input with a value"] in parsed.rows
    assert ["task <1>", "lambda", "x<y>", "x<y>"] in parsed.rows


def test_long_lists_are_counted_and_a_cycle_is_told() -> None:
    made = graph(30)
    assert "… 14 more" in Parsed(made._repr_html_()).text
    made.edge("task <5>", "task <2>")
    assert "cannot run" in str(made)
    assert "cycle" in Parsed(made._repr_html_()).text


def test_small_plans_have_a_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned()
    assert Parsed(plan._repr_html_()).tags.count("img") == 1
    monkeypatch.setattr("syclsched.model.plan.MAX_PICTURED", 3)
    assert MAX_PICTURED == 2000
    assert "img" not in Parsed(plan._repr_html_()).tags


def test_repr_stays_on_one_line() -> None:
    for shown in (graph(), syclsched.describe("max1550"), planned()):
        assert len(repr(shown).splitlines()) == 1 and len(repr(shown)) < 200
        assert len(str(shown).splitlines()) > 5


def test_text_of_a_table_is_aligned_and_of_other_sections_by_their_format() -> None:
    sections = [
        facts("title", [("a", "1"), ("longer", "2")]),
        table("numbers", ("name", "n"), [("x", "1"), ("long name", "100")], {1}),
        Section("rows", [Row("  {:<4}|{}", ("a", "b")), Row("  {}", ("one cell",))]),
    ]
    assert sections_text(sections).splitlines() == [
        "title",
        "  a            1",
        "  longer       2",
        "numbers",
        "  name         n",
        "  x            1",
        "  long name  100",
        "rows",
        "  a   |b",
        "  one cell",
    ]
    parsed = Parsed(sections_html(sections))
    assert parsed.rows[-1] == ["one cell"]
    assert sections_html(sections).count('colspan="2"') == 1


def test_long_sections_are_folded() -> None:
    rows = [Row("{}", (str(n),)) for n in range(25)]
    shown = sections_html([Section("first", ()), Section("long", rows), Section("short", rows[:24])])
    assert re.findall(r"<details( open)?><summary>(\w+)", shown) == [("", "long"), (" open", "short")]
