# SPDX-License-Identifier: Apache-2.0
"""Progress of long calls: their steps, and log messages of slow ones."""

from __future__ import annotations

import logging
import re
import sys
import threading
import types
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import syclsched
from syclsched import progress
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Parameter, Signature, Work
from syclsched.progress import StepCounter, reported, terminal_bar

ProgressSteps = list[tuple[int, int, str]]


def small_graph() -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph("small")
    x = graph.array("x", (8,))
    for number in range(3):
        add_cost_only(graph, f"t{number}", StatedCost(1.0), [(x, AccessMode.UPDATE)])
    return graph


@pytest.mark.parametrize("policy", ["heft", "auto"])
def test_planning_reports_each_step_and_the_end(policy: str) -> None:
    told: ProgressSteps = []
    platform = syclsched.describe(["max1550", "a770"])
    syclsched.plan(small_graph(), platform, policy=policy, progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == list(range(len(told)))
    assert all(done < total for done, total, _ in told[:-1])
    assert told[-1] == (len(told) - 1, len(told) - 1, "")
    steps = [step for _, _, step in told]
    assert "policy heft" in steps and "plan of heft" in steps and "verification" in steps


def test_an_exception_of_the_callable_ends_the_call() -> None:
    def stop(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        syclsched.plan(small_graph(), syclsched.describe(["max1550"]), policy="heft", progress=stop)


def test_unannounced_steps_raise_the_total() -> None:
    told: ProgressSteps = []
    steps = StepCounter(lambda *step: told.append(step))
    steps.expect(1)
    for name in "ab":
        steps.begin(name)
    steps.end()
    assert told == [(0, 1, "a"), (1, 2, "b"), (2, 2, "")]


class RecordingHandler(logging.Handler):
    """A log handler that keeps messages, and sets an event at the first."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []
        self.come = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.come.set()


def test_slow_calls_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(progress, "_FIRST_S", 0.0)
    caplog.set_level(logging.INFO, logger="syclsched")
    logger, heard, told = logging.getLogger("syclsched"), RecordingHandler(), ProgressSteps()
    logger.addHandler(heard)
    try:
        with reported("planning of 'small'", lambda *step: told.append(step)) as tell:
            assert tell is not None
            tell(1, 3, "search")
            assert heard.come.wait(60)
    finally:
        logger.removeHandler(heard)
    assert told == [(1, 3, "search")]
    assert any(m.startswith("planning of 'small' takes 0 s so far") for m in heard.messages)


def test_a_disabled_logger_starts_no_thread() -> None:
    before = threading.active_count()

    def tell(done: int, total: int, step: str, /) -> None:
        raise AssertionError("it is not called")

    with reported("planning", tell) as given:
        assert given is tell
        assert threading.active_count() == before


def compiled_graph(load: Callable[[Signature], OpenCLSource], name: str = "new") -> syclsched.TaskGraph:
    """Return a graph of one kernel that no other test has compiled, as its source has a unique name."""
    implementation = Implementation("opencl-c", "opencl-c", load, lambda s, _: Launch(s.shapes["x"]))
    add = syclsched.Operation(name, (Parameter("x", AccessMode.UPDATE),), (implementation,), lambda s: Work(8, 64))
    graph = syclsched.TaskGraph("compiled")
    graph.kernel(add, x=graph.array("x", data=np.zeros(8, np.float32)))
    return graph


def new_source(_: Signature) -> OpenCLSource:
    name = f"k{uuid.uuid4().hex}"
    return OpenCLSource(f"kernel void {name}(global float *x) {{ x[get_global_id(0)] += 1; }}", name)


@pytest.mark.sycl
@pytest.mark.parametrize("way", ["run", "run debug", "run dynamic", "bind"])
def test_compilation_of_a_given_plan_reports_progress(way: str) -> None:
    graph, told = compiled_graph(new_source), ProgressSteps()
    platform = syclsched.discover("cpu")
    plan = syclsched.plan(graph, platform)

    def tell(done: int, total: int, step: str, /) -> None:
        told.append((done, total, step))

    if way == "bind":
        with syclsched.bind(graph, plan=plan, progress=tell) as runner:
            found = runner()["x"]
    else:
        options: dict[str, Any] = {
            "run": {"plan": plan},
            "run debug": {"plan": plan, "debug": True},
            "run dynamic": {"platform": platform, "dynamic": "eager", "calibrate": False, "deadline_s": 600.0},
        }[way]
        with syclsched.run(graph, progress=tell, **options) as run:
            found = run.result("x")
    np.testing.assert_array_equal(found, np.ones(8))
    assert told == [(0, 1, "compiling new (opencl-c)"), (1, 1, "")]


@pytest.mark.sycl
def test_a_run_reports_compilation_after_planning() -> None:
    graph, steps = compiled_graph(new_source, "never timed"), list[str]()
    platform = syclsched.discover("cpu")
    with syclsched.run(graph, platform, calibrate=False, reuse=False, progress=lambda *told: steps.append(told[2])):
        pass
    assert steps.index("verification") < steps.index("compiling never timed (opencl-c) on cpu")


@pytest.mark.sycl
def test_a_slow_compilation_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    logger, heard = logging.getLogger("syclsched"), RecordingHandler()

    def slow_source(signature: Signature) -> OpenCLSource:
        assert heard.come.wait(60)
        return new_source(signature)

    graph = compiled_graph(slow_source)
    plan = syclsched.plan(graph, syclsched.discover("cpu"))
    monkeypatch.setattr(progress, "_FIRST_S", 0.0)
    caplog.set_level(logging.INFO, logger="syclsched")
    logger.addHandler(heard)
    try:
        with syclsched.run(graph, plan=plan) as run:
            run.wait()
    finally:
        logger.removeHandler(heard)
    assert heard.messages[0].startswith("compilation of plan 'compiled' takes 0 s so far")


def test_a_compilation_without_steps_reports_nothing() -> None:
    told: ProgressSteps = []
    StepCounter(lambda *step: told.append(step)).end()
    assert not told


class Display:
    """A mock of IPython that keeps the displayed contents of the cell's output, and their updates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        self.come = threading.Event()
        package, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        shell = types.SimpleNamespace(kernel=object())
        vars(package).update(get_ipython=lambda: shell, display=display)
        vars(display).update(HTML=str, display=self.display)
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, text: str, *, display_id: bool) -> Display:
        assert display_id
        self.update(text)
        return self

    def update(self, text: str) -> None:
        self.shown.append(text)
        self.come.set()


def test_a_notebook_shows_a_bar_and_then_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Display(monkeypatch)
    monkeypatch.setattr(progress, "_SHOWN_S", 0.0)
    monkeypatch.setattr(progress, "_CHANGED_S", 0.0)
    with reported("planning of '<b>'") as tell:
        assert tell is not None
        assert notebook.come.wait(60)
        tell(1, 3, "search")
    assert '<progress value="1" max="3"></progress> planning of &#x27;&lt;b&gt;&#x27;: search' in notebook.shown[1]
    assert len(notebook.shown) == 3
    assert re.search(r"planning of .*: \d+\.\d s</div>", notebook.shown[2])


def test_short_calls_false_and_callables_show_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Display(monkeypatch)
    with reported("planning") as tell:
        assert tell is not None
        tell(0, 1, "search")
    monkeypatch.setattr(progress, "_SHOWN_S", 0.0)
    with reported("planning", False) as tell:
        assert tell is None
    with reported("planning", lambda *_: None):
        pass
    assert not notebook.shown


def test_scripts_show_a_progress_bar_on_standard_error_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    with reported("planning") as tell:
        assert tell is None
    with terminal_bar("planning [now]", Console(file=sys.stderr, force_terminal=True, width=100)) as told:
        told(1, 3, "search")
    assert "planning [now]" in capsys.readouterr().err
    graph = small_graph()
    assert len(syclsched.plan(graph, syclsched.describe(["max1550"]), policy="heft", progress=True).tasks) == 3
    assert not capsys.readouterr().out
