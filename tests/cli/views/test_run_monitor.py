# SPDX-License-Identifier: Apache-2.0
"""The view of other processes' runs: its text at the widths of terminals."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from support.monitored import WRITTEN_S, status

from syclsched.cli.views.run_monitor import HIDDEN, SILENT_S, render_processes
from syclsched.monitoring import LaneStatus, ProcessStatus, RunStatus, StatusFiles


def shown(*processes: ProcessStatus, width: int = 120, now_s: float = WRITTEN_S, left_out: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    console.print(render_processes(StatusFiles(processes, left_out), now_s))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_every_width_has_all_that_matters(width: int) -> None:
    text = shown(status(), width=width)
    assert max(map(len, text.splitlines())) <= width
    flowing = " ".join(text.split())
    for part in (
        "1 process, 2 runs in flight",
        "pid 4711: python job.py --size 3",
        "cholesky (auto: heft): 1 in flight, 341 done, 1 failed, 1 recovery",
        "predicted 12.10 ms, measured (median of 2) 12.60 ms (1.04 times the prediction)",
        "last runs 12.50 ms, 12.70 ms, 1.000 ms failed",
        "37/120 tasks 8.200 ms of 12.10 ms predicted",
        "75% 30/60 task 'gemm(3,1)'",
        "5% - a copy of 'a' after task 'potrf(0)'",
        "host:0",
        "model (dynamic:dmdas): 1 in flight, 0 done",
        "one call of compiled code 1.500 s",
        "12.00 MiB 16.00 MiB 14.00 MiB 64.00 MiB",
    ):
        assert part in flowing, part


def test_lanes_that_cannot_be_seen_show_the_plan_and_why() -> None:
    lane = LaneStatus("cpu:0", "cpu", "compute", 60, 60, None, None, None, predicted_busy=0.625)
    call = RunStatus(0.001, is_preparing=False, tasks_done=0, tasks=60, is_call=True)
    for runs in ((), (call,)):
        hidden = replace(status().graphs[0], lanes=(lane,), runs=runs, in_flight=len(runs))
        flowing = " ".join(shown(status(graphs=(hidden,))).split())
        assert "lane predicted tasks" in flowing and "62% 60" in flowing and "60/60" not in flowing
        assert " ".join(HIDDEN.split()[:8]) in flowing
    seen = replace(hidden, lanes=(replace(lane, busy=0.25),))
    flowing = " ".join(shown(status(graphs=(seen,))).split())
    assert "25% 60/60" in flowing and "predicted tasks" not in flowing and HIDDEN[:20] not in flowing


def test_without_processes_the_view_shows_a_hint() -> None:
    text = " ".join(shown().split())
    assert "syclsched run ... --monitor" in text
    assert "syclsched.monitor()" in text


def test_processes_with_runs_in_flight_are_listed_first() -> None:
    idle = status(pid=1, graphs=(), allowed_s=WRITTEN_S)
    text = shown(idle, status(pid=2))
    assert text.index("pid 2:") < text.index("pid 1:")
    assert "It has started no run yet." in text


def test_a_silent_process_is_named_so() -> None:
    assert "written nothing" not in shown(status(), now_s=WRITTEN_S + SILENT_S / 2)
    assert "It has written nothing for 6.000 s" in shown(status(), now_s=WRITTEN_S + 2 * SILENT_S)


def test_a_compiling_run_is_marked() -> None:
    graph = status().graphs[0]
    preparing = replace(graph, runs=(replace(graph.runs[0], is_preparing=True),), in_flight=5)
    text = shown(status(graphs=(preparing,)))
    assert "compiling kernels" in text
    assert "and 4 more runs" in text


def test_priority_and_share_of_runs_are_shown() -> None:
    graph = status().graphs[0]
    background = replace(graph.runs[0], priority=-1, share=1.0, waits=True)
    sharing = replace(graph.runs[0], share=2.5)
    text = " ".join(shown(status(graphs=(replace(graph, runs=(background, sharing, graph.runs[0])),))).split())
    assert "predicted priority -1, waits for its turn" in text and "predicted share 2.5" in text
    assert text.count("turn") == text.count("share") == 1


def test_control_characters_do_not_reach_the_terminal() -> None:
    graph = replace(status().graphs[0], name="evil\x1b[2Jname\r")
    text = shown(status(command="run\x1b]0;title\x07", graphs=(graph,)), left_out=("x.json: \x1b[31mbad",))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "evil?[2Jname?" in text
    assert "left out: x.json: ?[31mbad" in text
