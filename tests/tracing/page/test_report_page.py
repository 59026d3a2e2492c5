# SPDX-License-Identifier: Apache-2.0
"""HTML reports: their contents, self-contained files, and unusual traces."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.synthetic import random_trace, span, two_devices

from syclsched.errors import StorageError
from syclsched.model.trace import Trace
from syclsched.simulation import Noise, predict, simulate
from syclsched.tracing import save_comparison, save_report
from syclsched.tracing.charts.output import PALETTE
from syclsched.tracing.report_content import ReportTable, TableRow


def content(page: Path) -> str:
    """Return the page without its scripts."""
    return re.sub(r"<script.*?</script>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def stories(page: Path) -> list[str]:
    """Return the texts of the bars."""
    (packed,) = re.findall(r'id="stories">([^<]*)<', page.read_text(encoding="utf-8"))
    return list(json.loads(gzip.decompress(base64.b64decode(packed))))


def test_a_run_has_its_numbers_charts_and_histories(tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", random_trace(60)
    save_report(trace, page)
    text = content(page)
    for part in ("measured makespan", "predicted makespan", "Why lanes did not compute", "other lanes", "Critical path",
                 "Predicted and measured times", "Largest differences of single tasks", "on emu:copy"):  # fmt: skip
        assert part in text
    assert f"background:{PALETTE[0]}" in text  # the legend has the colours of Gantt charts
    told = stories(page)
    for each in trace.spans:
        start = f"task {each.task!r}" if each.kind == "launch" else f"copy for {each.task!r}"
        assert any(text.startswith(start) for text in told), each
    assert any("is idle for" in text for text in told)


def test_a_page_needs_no_other_file_and_no_network(tmp_path: Path) -> None:
    plan = predict(two_devices())
    save_report(simulate(plan), tmp_path / "plan.html", plan)
    text = (tmp_path / "plan.html").read_text(encoding="utf-8")
    elements = re.findall(r"<(?:script|img|iframe|link)\b[^>]*\s(?:src|href)=[\"']?([^\"' >]*)", text)
    assert all(address.startswith("data:") for address in elements)
    assert not re.search(r"@import|url\(\s*[\"']?https?:", text)


def test_the_page_of_a_plan_has_its_memory_and_candidates(tmp_path: Path) -> None:
    plan = predict(two_devices())
    plan.report(tmp_path / "plan.html")
    text = content(tmp_path / "plan.html")
    assert "measured" not in text
    for part in ("heft was chosen", "single:cpu", "refused: needs fp64", "memory in use", "cpu -&gt; gpu"):
        assert part in text
    script = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "cpu, predicted: up to 2.000 KiB" in script
    assert any(story.startswith("copy of 'x' from cpu to gpu, 2.000 KiB, for task 'second'") for story in
               stories(tmp_path / "plan.html"))  # fmt: skip


def test_disturbed_simulation_is_drawn_below_prediction(tmp_path: Path) -> None:
    plan = predict(two_devices())
    simulate(plan, noise=Noise(sigma=0.5), seed=1).report(tmp_path / "noisy.html", plan)
    text, script = content(tmp_path / "noisy.html"), (tmp_path / "noisy.html").read_text(encoding="utf-8")
    for part in ("makespan by simulation", "predicted makespan (", "Predicted and simulated times",
                 "Largest differences of single tasks", "cpu, predicted: up to", "cpu, simulated: up to"):  # fmt: skip
        assert part in text
    assert re.search(r'"predicted: [\d.]+ ms', script)
    assert re.search(r'"simulated: [\d.]+ ms', script)
    simulate(plan).report(tmp_path / "plan.html", plan)
    assert '"simulated: ' not in (tmp_path / "plan.html").read_text(encoding="utf-8")


def test_a_trace_writes_its_page_with_or_without_the_plan(tmp_path: Path) -> None:
    plan = predict(two_devices())
    trace = simulate(plan)
    trace.report(tmp_path / "alone.html")
    trace.report(tmp_path / "with.html", plan)
    assert "What was compared" not in content(tmp_path / "alone.html")
    assert "What was compared" in content(tmp_path / "with.html")


def test_a_candidate_shorter_than_the_chosen_plan_is_reported(tmp_path: Path) -> None:
    plan = predict(two_devices())
    shorter = replace(plan.candidates[0], makespan_s=1e-3)
    replace(plan, candidates=(shorter, *plan.candidates[1:])).report(tmp_path / "plan.html")
    assert "the shortest is single:cpu with 1.000 ms" in content(tmp_path / "plan.html")


def test_several_plans_on_one_page(tmp_path: Path) -> None:
    plan = predict(two_devices())
    table = ReportTable("", ("policy",), ("makespan",), (TableRow(("third", "9 ms")),), "plan")
    runs = {"one": (simulate(plan), plan), "two": (replace(simulate(plan), makespan_s=5e-3), None)}
    save_comparison(runs, tmp_path / "two.html", "compared", [table], ["a <remark>"])
    text = content(tmp_path / "two.html")
    for part in ("<h1>compared</h1>", "third", "a &lt;remark&gt;", "In numbers", "<h2>one</h2>", "<h2>two</h2>"):
        assert part in text


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (span(1, "cpu:0", 0.0, 0.0, kind="barrier", family="barrier"),),
        (span(1, "cpu:0", -1e-6, 1e-6),),
        (span(1, "cpu:0", 0.0, 1.0, outcome="failed"), span(2, "cpu:0", 1.0, 1.0, outcome="cancelled")),
        (span(1, "<b>\x1b[31m:0", 0.0, 1.0, task="</script><script>alert(1)", family="<i>"),),
    ],
)
def test_odd_traces_have_a_page(tmp_path: Path, spans: tuple[object, ...]) -> None:
    for makespan in (0.0, 1.0):
        save_report(Trace("<script>", "</main>", spans, makespan, makespan), tmp_path / "odd.html")  # type: ignore[arg-type]
        text = (tmp_path / "odd.html").read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert "<i>" not in content(tmp_path / "odd.html")
        assert "<h1>&lt;script&gt;</h1>" in text


def test_an_unwritable_page_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write the page"):
        save_report(random_trace(2), tmp_path / "nowhere" / "run.html")


def test_the_legend_has_all_families_whose_long_names_begin_alike(tmp_path: Path) -> None:
    spans = tuple(span(i, "cpu:0", i, i + 1.0, family=f"{'elementwise ' * 8}{i}") for i in range(3))
    save_report(Trace("long", "none", spans, 3.0, 3.0), tmp_path / "run.html")
    legend = content(tmp_path / "run.html").split('<div class="legend">')[1].split("</div>")[0]
    assert legend.count("elementwise") >= 3 and "other families" not in legend
