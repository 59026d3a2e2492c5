# SPDX-License-Identifier: Apache-2.0
"""The report's tables on the terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from support.synthetic import random_trace, span

from syclsched.model.trace import Trace
from syclsched.tracing import make_report, render_report


def rendered(trace: Trace, width: int = 120) -> str:
    buffer = io.StringIO()
    render_report(make_report(trace), Console(file=buffer, width=width, color_system=None))
    return buffer.getvalue()


def test_a_measured_run() -> None:
    trace = random_trace(60)
    text = rendered(trace)
    for word in ("gemm", "cpu", "emu", "python", "used", "on emu:copy", "ratio"):
        assert word in text
    report = make_report(trace)
    assert f"{100 * report.makespan_error:+.1f} %" in text
    assert f"{report.waits} waits between lanes on {trace.events} events, 2 barriers, 1 host wait" in text
    assert "7.500 MiB in 15 copies" in text


def test_a_simulated_run_claims_no_measurement() -> None:
    text = rendered(replace(random_trace(60), simulated=True))
    assert "measured" not in text
    assert "by simulation" in text


def test_an_empty_trace_has_an_empty_report() -> None:
    text = rendered(Trace("empty", "none", (), 0.0, 0.0))
    assert "nothing between memory spaces" in text
    assert "nothing was measured" in text


def test_blank_lines_between_families_of_several_rows() -> None:
    alone = tuple(span(i, "cpu:0", i, i + 1.0, family=f"f{i}") for i in range(3))
    twice = (*alone, span(3, "emu:0", 3.0, 4.0, family="f0"))
    for spans, empty in ((alone, 0), (twice, 2)):
        table = rendered(Trace("families", "none", spans, 4.0, 4.0)).split("How busy")[0].rstrip()
        rows = table[table.index("f0") :] if "f0" in table else ""
        assert sum(not line.strip() for line in rows.splitlines()) == empty


def test_failures_are_shown_and_long_tables_truncated() -> None:
    spans = tuple(span(i, "cpu:0", i, i + 1.0, family=f"[bold]f{i:03}") for i in range(100))
    spans += (span(100, "cpu:0", 100.0, 101.0, outcome="failed"),)
    text = rendered(Trace("long", "[red]p", spans, 101.0, 101.0))
    assert "1 failed, 0 cancelled" in text
    assert "[bold]f000" in text  # names are text, not markup
    assert "[red]p" in text
    assert "and 77 rows more" in text
    assert len(text.splitlines()) < 100


def test_overlap_utilisation_and_idle_reasons_per_device() -> None:
    spans = (
        span(0, "gpu:copy", 0.0, 2.0, kind="copy", family="copy", nbytes=8),
        span(1, "gpu:0", 2.0, 8.0, waits=(0,)),
        span(2, "gpu:copy", 2.0, 4.0, kind="copy", family="copy", nbytes=8),
        span(3, "gpu:1", 4.0, 10.0, waits=(2,)),
    )
    trace = Trace("overlap", "", spans, 10.0, 10.0)
    trace = replace(trace, spans=tuple(replace(s, submit_s=0.0) for s in spans))
    (row,) = make_report(trace).devices
    assert (row.overlap, row.utilisation) == (0.5, 0.6)
    assert (row.idle.copy_s, row.idle.no_task_s, row.idle.total_s) == (6.0, 2.0, 8.0)
    lines = [line.strip() for line in rendered(trace).splitlines()]
    used = next(line for line in lines if line.startswith("gpu "))
    assert "50.0 %" in used
    assert "60.0 %" in used
    idle = next(line for line in lines if line.startswith("gpu, 2 lanes"))
    assert idle.split("lanes")[1].replace("%", "").split() == ["60.0", "10.0", "30.0", "-", "-", "-", "-"]


def test_a_narrow_terminal_cuts_no_number_off() -> None:
    trace = random_trace(60)
    long = tuple(
        replace(s, lane=s.lane.replace("emu", "accelerator"), device=s.device.replace("emu", "accelerator"))
        for s in trace.spans
    )
    text = rendered(replace(trace, spans=long), width=80)
    assert "accelerator" in text and "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_long_names_do_not_shorten_numbers() -> None:
    trace = random_trace(60)
    name = "conv2d s2x2 p1x1x1x1 g96 last bias silu half"
    spans = tuple(replace(each, family=name) if each.family == "gemm" else each for each in trace.spans)
    text = rendered(replace(trace, spans=spans), width=80)
    table = text.split("How busy")[0]
    assert "predicted" in table and "ratio" in table and "…" not in table


def test_long_names_of_families_take_one_line_and_stay_apart() -> None:
    names = [f"elementwise {'add(x0, ' * 12}... {digest}" for digest in ("db92104e", "dfa396c4")]
    spans = tuple(span(i, "cpu:0", i, i + 1.0, family=name) for i, name in enumerate(names))
    text = rendered(Trace("long", "none", spans, 2.0, 2.0))
    for name in names:
        assert f"{name[:35]}…{name[-8:]}" in text
    assert "add(x0, " * 5 not in text
