# SPDX-License-Identifier: Apache-2.0
"""HTML of objects in notebooks: well-formed, without scripts, with escaped names and the printed text."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.kernels import get
from syclsched.model.views.drawing import MAX_PICTURED

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
def test_html_is_well_formed_and_has_the_printed_words(kind: str) -> None:
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


def test_long_lists_are_truncated_and_a_cycle_is_reported() -> None:
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
    platform, plan = syclsched.describe("max1550"), planned()
    for shown in (graph(), platform, plan, platform.devices[0].profile):
        assert len(repr(shown).splitlines()) == 1 and len(repr(shown)) < 200
        assert len(str(shown).splitlines()) > 5


def test_repr_of_public_objects_is_short() -> None:
    platform, plan, device = syclsched.describe("max1550"), planned(), syclsched.describe("max1550").devices[0]
    gemm = get("gemm")
    product = syclsched.TaskGraph()
    task = product.kernel(gemm, **{name: product.array(name, (8, 8)) for name in "abc"})
    source = syclsched.OpenCLSource("kernel void f(global int *x) {\n" + "x[0]++;\n" * 40 + "}", "f", "-w")
    assert device.profile is not None
    shown = {
        "<Device 'max1550' (gpu, level_zero): Intel Data Center GPU Max 1550; 1,024 compute units, 1 lane>": device,
        "<DeviceProfile 'max1550': Intel Data Center GPU Max 1550, specification sheet of": device.profile,
        "<DeviceIdentity 'max1550': Intel Data Center GPU Max 1550 (gpu, level_zero)>": device.profile.identity,
        "<Provenance: 20": device.profile.provenance,
        "<Task 'gemm_0' (gemm): write c, read a, read b>": task,
        "<Operation 'gemm' (c: write, a: read, b: read, alpha, ": task.operation,
        "<Implementation 'opencl-c' of kind 'opencl-c'>": gemm.implementation("opencl-c"),
        "<OpenCLSource of 'f': 42 lines, options '-w'>": source,
        "<SpirvModule of 'f': 1,000 bytes>": syclsched.SpirvModule(b"x" * 1000, "f"),
        "<Plan of ": plan,
        "<Lane ": plan.lanes[0],
        "<Schedule of policy ": plan.schedule,
        "<Span ": syclsched.simulate(plan).spans[0],
        "<Platform 'described': max1550, host; 2 memory spaces>": platform,
    }
    for text, each in shown.items():
        assert repr(each).startswith(text) and len(repr(each)) < 200 and "\n" not in repr(each)


def test_repr_of_an_operation_from_a_function_is_that_of_any_other() -> None:
    def clear(x: syclsched.Write[np.float32]) -> None:
        x.fill(0)

    assert repr(syclsched.operation(clear)) == "<Operation 'clear' (x: write): numpy>"
