# SPDX-License-Identifier: Apache-2.0
"""Reuse of plans for an equal graph, platform, request and history, and for no other."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.planned_graphs import record_planned

import syclsched
from syclsched import planning_session, workloads
from syclsched.costs import CostModel, MemoryHistory
from syclsched.costs.history import HistoryKey, history_key
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.profile import Quantity
from syclsched.planner import PlanRequest
from syclsched.profiling.storage import plan_store
from syclsched.profiling.storage.plan_store import PlanStore


def cholesky(n: int = 192) -> TaskGraph:
    kind = workloads.get("cholesky")
    return kind.build(kind.options(n=n, tile=64)).graph


def timed(platform: Platform, factor: float = 1.0) -> MemoryHistory:
    """Return a history with the modelled time of each task on each device, times a factor."""
    costs, history = CostModel(platform), MemoryHistory()
    for task in cholesky().tasks:
        for device in platform.devices:
            choice = costs.best(task, device)
            if choice is not None and task.operation is not None and task.signature is not None:
                key = history_key(device.key, task.operation, choice[0], task.signature)
                history[key] = Quantity(choice[1].seconds * factor, samples=9)
    return history


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Record the names of planned graphs, with an empty data folder; every plan is kept."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(planning_session, "_KEPT_FROM_S", 0.0)
    planned = record_planned(monkeypatch)
    yield planned


def platform() -> Platform:
    return syclsched.describe(["cpu", "max1550"])


def test_the_same_request_is_not_planned_again(made: list[str]) -> None:
    plans = [syclsched.plan(cholesky(), platform()) for _ in range(2)]
    assert len(made) == 1
    assert plans[0] == plans[1]
    syclsched.verify(plans[1], cholesky())


def test_another_request_graph_or_platform_is_planned(made: list[str]) -> None:
    syclsched.plan(cholesky(), platform())
    syclsched.plan(cholesky(), platform(), minimize="memory")
    syclsched.plan(cholesky(256), platform())
    syclsched.plan(cholesky(), syclsched.describe(["cpu", "a770"]))
    syclsched.plan(cholesky(), syclsched.api.with_lanes(platform(), 2))
    assert len(made) == 5


def test_any_change_of_a_device_causes_a_new_plan(made: list[str]) -> None:
    first, *others = platform().devices
    profile = first.profile
    assert profile is not None
    slower = replace(profile, triad_bandwidth_bytes_per_s=replace(profile.triad_bandwidth_bytes_per_s, value=1e9))
    changed = (replace(first, local_memory_bytes=1), replace(first, processor="p"), replace(first, profile=slower))
    for count, device in enumerate((first, *changed), 1):
        syclsched.plan(cholesky(), replace(platform(), devices=(device, *others)))
        assert len(made) == count


def test_not_if_not_wanted(made: list[str]) -> None:
    for _ in range(2):
        syclsched.plan(cholesky(), platform(), reuse=False)
    assert len(made) == 2


def test_not_with_a_time_limit_and_not_with_a_named_policy(made: list[str]) -> None:
    for _ in range(2):
        syclsched.plan(cholesky(), platform(), budget_s=0.01)
        syclsched.plan(cholesky(), platform(), policy="heft")
    assert len(made) == 4


def test_a_measured_time_that_changed_is_seen(made: list[str]) -> None:
    for factor, planned in ((1.0, 1), (1.01, 1), (1.5, 2), (1.0, 3)):
        syclsched.plan(cholesky(), platform(), history=timed(platform(), factor))
        assert len(made) == planned, factor


def test_a_time_that_was_not_measured_before_is_seen(made: list[str]) -> None:
    syclsched.plan(cholesky(), platform(), history=MemoryHistory())
    syclsched.plan(cholesky(), platform(), history=timed(platform()))
    assert len(made) == 2


def test_a_noisy_time_may_differ_more(made: list[str]) -> None:
    def noisy(factor: float) -> MemoryHistory:
        found = MemoryHistory()
        for key, time in timed(platform()).items():
            found[key] = replace(time, value=time.value * factor, mad=0.1 * time.value)
        return found

    syclsched.plan(cholesky(), platform(), history=noisy(1.0))
    syclsched.plan(cholesky(), platform(), history=noisy(1.2))
    assert len(made) == 1


def test_quickly_made_plans_are_kept_in_this_process(
    made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning_session, "_KEPT_FROM_S", 1e9)
    plans = [syclsched.plan(cholesky(), platform()) for _ in range(2)]
    assert len(made) == 1
    assert plans[0] == plans[1]
    assert not (tmp_path / "syclsched" / "plans").exists()
    monkeypatch.setattr(plan_store, "_HELD", {})  # as in another process
    syclsched.plan(cholesky(), platform())
    assert len(made) == 2


def test_a_process_reads_a_plan_once(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    syclsched.plan(cholesky(), platform())
    monkeypatch.setattr(plan_store, "_HELD", {})  # as in another process
    plans = [syclsched.plan(cholesky(), platform()) for _ in range(2)]
    assert len(made) == 1
    assert plans[0] is plans[1]


def test_a_file_that_another_process_wrote_is_read_again(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mine = syclsched.plan(cholesky(), platform(), history=timed(platform()))
    held = dict(plan_store._HELD)
    monkeypatch.setattr(plan_store, "_HELD", {})  # the other process plans with other times
    other = syclsched.plan(cholesky(), platform(), history=timed(platform(), 1.5))
    monkeypatch.setattr(plan_store, "_HELD", held)
    assert syclsched.plan(cholesky(), platform(), history=timed(platform(), 1.5)) == other != mine
    assert len(made) == 2


def test_a_removed_plan_file_is_ignored(made: list[str], tmp_path: Path) -> None:
    syclsched.plan(cholesky(), platform())
    (file,) = (tmp_path / "syclsched" / "plans").iterdir()
    file.unlink()
    syclsched.plan(cholesky(), platform())
    assert len(made) == 2


def test_few_plans_are_held(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_session, "_KEPT_FROM_S", 1e9)
    monkeypatch.setattr(plan_store, "_MOST_HELD", 2)
    sizes = (128, 192, 256)
    for n in (*sizes, *reversed(sizes)):
        syclsched.plan(cholesky(n), platform())
    assert len(made) == len(sizes) + 1, "all but the least recently used one were held"


def test_another_state_of_the_package_causes_a_new_plan(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    syclsched.plan(cholesky(), platform())
    monkeypatch.setattr(planning_session, "_version", lambda: "another")
    syclsched.plan(cholesky(), platform())
    assert len(made) == 2


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{}",
        "no JSON",
        '{"format": "syclsched-kept-plan/1", "times": []}\n{}',
        '{"format": "syclsched-kept-plan/2", "times": [], "plans": [["a", "heft", 1.0]]}\n{}',
        '{"format": "syclsched-kept-plan/2", "times": [], "plans": [["a", "heft", 1.0]]}\n{}\n{}',
        '{"format": "syclsched-kept-plan/2", "times": [], "plans": []}',
    ],
)
def test_a_damaged_plan_file_is_ignored(made: list[str], tmp_path: Path, damage: str) -> None:
    syclsched.plan(cholesky(), platform())
    (file,) = (tmp_path / "syclsched" / "plans").iterdir()
    file.write_text(damage)
    syclsched.plan(cholesky(), platform())
    assert len(made) == 2


def test_a_file_with_an_invalid_plan_is_ignored(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syclsched.plan(cholesky(), platform())
    (file,) = (tmp_path / "syclsched" / "plans").iterdir()
    head, *texts = file.read_text().strip().split("\n")
    plans = [json.loads(text) for text in texts]
    for lane in (lane for plan in plans for lane in plan["lanes"]):
        lane["instructions"].pop("waits", None)
    file.write_text("\n".join([head, *map(json.dumps, plans)]))
    monkeypatch.setattr(plan_store, "_HELD", {})  # as in another process
    again = syclsched.plan(cholesky(), platform())
    syclsched.verify(again, cholesky())
    assert len(made) == 2


def test_reuse_of_a_plan_is_reported_in_one_line(made: list[str]) -> None:
    said: list[str] = []
    for _ in range(2):
        session = planning_session.PlanningSession(
            PlanRequest(),
            platform(),
            timed(platform()),
            plans=PlanStore(),
            tell=said.append,  # type: ignore[arg-type]
        )
        session.plan(cholesky())
    assert len(said) == 1 and "used again" in said[0]


def test_the_store_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_store, "_MOST_PLANS", 3)
    store, plan = PlanStore(tmp_path), syclsched.plan(cholesky(), platform(), policy="heft", reuse=False)
    key = HistoryKey("d", "o", "i", "r", "s")
    for number in range(5):
        store.keep(f"{number}", [("a", plan), ("b", plan)], {key: None})
    assert len(list(tmp_path.iterdir())) == 3
    kept = store.find("4")
    assert kept is not None and kept.times == {key: None}
    assert [each.identity for each in kept.plans] == ["a", "b"]
    assert kept.read("a") == kept.read("b") == plan
    assert kept.read("c") is None
    assert store.find("0") is None


def test_planning_works_without_a_writable_folder(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    plan = syclsched.plan(cholesky(), platform(), history=MemoryHistory())
    syclsched.verify(plan, cholesky())
    assert syclsched.plan(cholesky(), platform(), history=MemoryHistory()) is plan, "this process holds it"


def test_a_file_that_may_only_be_read_is_used(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = syclsched.plan(cholesky(), platform(), history=MemoryHistory())
    monkeypatch.setattr(plan_store, "_HELD", {})  # as in another process

    def refuse(*_: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("os.utime", refuse)
    assert syclsched.plan(cholesky(), platform(), history=MemoryHistory()) == plan
    assert made == ["cholesky"]


def test_times_that_become_certain_cause_a_new_plan(made: list[str]) -> None:
    history = timed(platform())
    for uncertainty in (0.9, 0.9, None):
        for key, known in history.items():
            history[key] = replace(known, uncertainty=uncertainty)
        syclsched.plan(cholesky(), platform(), history=history)
    assert len(made) == 2


def test_refused_implementations_are_not_planned_or_reused(made: list[str]) -> None:
    class Refusing(MemoryHistory):
        refused = ""

        def refusals(self) -> dict[HistoryKey, str]:
            return {key: "it has no engine here" for key in self if key.operation == self.refused}

    history = Refusing(timed(platform()))
    assert not syclsched.plan(cholesky(), platform(), history=history).refusals
    history.refused = "gemm"
    plan = syclsched.plan(cholesky(), platform(), history=history)
    assert len(made) == 2
    assert {each.task.partition("(")[0] for each in plan.refusals} == {"gemm"}


def test_held_plans_do_not_keep_constants(made: list[str]) -> None:
    graph = TaskGraph("with a constant")
    x, y = graph.array("x", (64, 64)), graph.array("y", (64, 64))
    weights = syclsched.constant(np.ones((64, 64)))
    graph.kernel(get("add"), x=x, y=weights, z=y)
    syclsched.plan(graph, platform())
    alive = weakref.ref(weights.data)
    del graph, x, y, weights
    gc.collect()
    assert alive() is None
