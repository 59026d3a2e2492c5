# SPDX-License-Identifier: Apache-2.0
"""Contests of plans in the first runs of a graph: with made-up makespans, and on the CPU device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.planned_graphs import record_planned

import syclsched
from syclsched import workloads
from syclsched.costs.history import HistoryKey, MemoryHistory, Sample, history_key, in_run_key
from syclsched.execution.core.history_feed import FEED
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import OpenCLSource
from syclsched.model.platform import Platform
from syclsched.model.profile import Quantity
from syclsched.planner import PlanRequest
from syclsched.planner.contest import is_single
from syclsched.planner.reuse import are_close
from syclsched.planning_session import ChosenPlan, PlanningSession
from syclsched.profiling import HistoryStore
from syclsched.profiling.storage.plan_store import PlanStore


def cholesky() -> TaskGraph:
    kind = workloads.get("cholesky")
    return kind.build(kind.options(n=256, tile=64)).graph


@pytest.fixture(scope="module")
def described() -> Platform:
    return syclsched.describe(["cpu", "max1550"])


@dataclass
class PlanningHarness:
    """Runs with made-up makespans, and stores of their own."""

    folder: Path
    platform: Platform
    seconds: Callable[[ChosenPlan], float]
    clock_s: float = 0.0
    told: list[str] = field(default_factory=list)

    def session(self, history: HistoryStore, request: PlanRequest | None = None) -> PlanningSession:
        plans = PlanStore(self.folder / "plans")
        return PlanningSession(request or PlanRequest(), self.platform, history, plans=plans, tell=self.told.append)

    def history(self) -> HistoryStore:
        return HistoryStore(self.folder / "history.sqlite3", clock=lambda: self.clock_s)

    def run(self, count: int = 1, *, quiet: bool = True) -> list[str]:
        """Run the graph in this many processes; return the policies of the plans."""
        found = []
        for _ in range(count):
            self.clock_s += 60.0
            with self.history() as history:
                chosen = self.session(history).choose(cholesky())
                assert chosen.makespan_key is not None
                sample = Sample(self.seconds(chosen), self.clock_s, 0.0 if quiet else 0.5, "selection", quiet)
                history.add([(chosen.makespan_key("first"), sample)])
            syclsched.verify(chosen.plan, cholesky())
            found.append(chosen.plan.policy)
        return found


@pytest.fixture
def machine(tmp_path: Path, described: Platform) -> PlanningHarness:
    """A machine on which the plan on a single device is predicted to be the fastest, and is not."""
    return PlanningHarness(tmp_path, described, lambda chosen: 1.0 if is_single(chosen.plan) else 0.1)


def test_first_runs_try_all_plans_and_keep_the_fastest(machine: PlanningHarness) -> None:
    with machine.history() as history:
        predicted = machine.session(history).plan(cholesky())
    assert is_single(predicted), "the test needs a prediction that is wrong"
    policies = machine.run(12)
    assert policies[0] == predicted.policy
    assert len(set(policies)) > 1
    assert len(set(policies[-3:])) == 1
    with machine.history() as history:
        kept = machine.session(history).plan(cholesky())
    assert not is_single(kept)
    assert kept.policy == policies[-1]
    first, *others = kept.trials
    assert (first.kept, first.measured_s) == (True, 0.1)
    assert others and not any(each.kept for each in others)
    assert any("is the fastest of" in line for line in machine.told)


def test_without_a_reason_to_try_the_prediction_decides(machine: PlanningHarness) -> None:
    with machine.history() as history:
        named = machine.session(history, PlanRequest("heft")).choose(cholesky())
        assert (named.makespan_key, named.plan.trials) == (None, ())
        fresh = replace(machine.session(history), plans=None).choose(cholesky())
        assert (fresh.makespan_key, fresh.plan.trials) == (None, ())
        machine.run(3)
        best = fresh.plan
        assert replace(machine.session(history).plan(cholesky()), trials=()) == best
        assert replace(machine.session(history), plans=None).plan(cholesky()) == best


def test_runs_under_load_do_not_decide_at_once(machine: PlanningHarness) -> None:
    machine.run(6, quiet=False)
    with machine.history() as history:
        assert not any(each.kept for each in machine.session(history).plan(cholesky()).trials)


def test_processes_at_once_lose_no_measurement(machine: PlanningHarness) -> None:
    threads = [threading.Thread(target=machine.run, args=(3,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with machine.history() as history:
        measured = [samples for key, samples in history.entries() if key.operation == "plan"]
    assert sum(map(len, measured)) == 9


def test_measurements_are_kept_after_replanning(machine: PlanningHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.run(10)
    made = record_planned(monkeypatch)
    with machine.history() as history:
        kept = machine.session(history).plan(cholesky())
        assert not made
        for task in cholesky().tasks:  # calibrated by now
            for option in kept.options:
                if option.task == task.name and task.operation is not None and task.signature is not None:
                    implementation = task.operation.implementation(option.implementation)
                    key = history_key(
                        machine.platform.device(option.device).key, task.operation, implementation, task.signature
                    )
                    if history.lookup(key) is None:
                        history.record(key, [option.seconds] * 9, load=0.0)
        again = machine.session(history).plan(cholesky())
        assert made == ["cholesky"]
        # With these times other plans are not predicted to be faster than this one was.
        assert again.policy == kept.policy
        machine.session(history).choose(cholesky())
        assert made == ["cholesky"]


@pytest.mark.parametrize(
    ("before", "now", "again"),
    [
        (Quantity(1.0, samples=9), Quantity(1.2, samples=9), False),  # normal for a task between others
        (Quantity(1.0, samples=9), Quantity(1.5, samples=9), True),
        (Quantity(1.5, samples=9), Quantity(1.0, samples=9), True),
        (Quantity(63.8, samples=1, uncertainty=1.0), Quantity(4.9, samples=9), True),  # it was measured under load
        (Quantity(1.0, samples=9), Quantity(1.5, samples=1, uncertainty=0.5), False),  # it may be the same
        (Quantity(1.0, samples=9), Quantity(9.0, samples=1, uncertainty=1.0), True),
        (Quantity(1.0, samples=1, uncertainty=0.5), Quantity(1.0, samples=9), False),  # only more certain
        (None, Quantity(1.0, samples=9), True),
        (None, None, False),
    ],
)
def test_executed_plans_are_replanned_after_large_changes_of_times(
    before: Quantity | None, now: Quantity | None, again: bool
) -> None:
    key = HistoryKey("d", "o", "i", "r", "s")
    read = {key: before, in_run_key(key): None}
    assert are_close(read, MemoryHistory({} if now is None else {key: now})) != again
    # Within runs the time is the same, if it is known.
    read = {key: Quantity(7.0, samples=9), in_run_key(key): before and replace(before, samples=2, uncertainty=0.1)}
    if before is not None and now is not None and not now.uncertainty:
        later = {key: Quantity(8.0, samples=9), in_run_key(key): replace(now, samples=2, uncertainty=0.1)}
        assert are_close(read, MemoryHistory(later)) != again


def test_a_machine_that_changes_decides_again(machine: PlanningHarness) -> None:
    machine.run(12)
    machine.seconds = lambda chosen: 1.0 if is_single(chosen.plan) else 10.0
    policies = machine.run(12)
    assert len(set(policies[-4:])) == 1
    with machine.history() as history:
        kept = machine.session(history).plan(cholesky())
    assert kept.policy == policies[-1]
    assert is_single(kept)


def test_without_a_writable_history_no_trials_are_made(machine: PlanningHarness, described: Platform) -> None:
    (machine.folder / "file").write_text("")
    with HistoryStore(machine.folder / "file" / "history.sqlite3") as history:
        assert history.note is not None
        policies = set()
        for _ in range(3):
            chosen = machine.session(history).choose(cholesky())
            assert chosen.makespan_key is not None
            history.record(chosen.makespan_key("first"), [1.0], load=0.0)
            policies.add(chosen.plan.policy)
    assert len(policies) == 1


# --- on the CPU device ------------------------------------------------------------------------------

_SOURCE = "__kernel void add_one(__global float *x) { x[get_global_id(0)] += 1.0f; }"


def _slowly(x: Any) -> None:
    time.sleep(0.05)
    x += np.float32(1)


ADD_ONE = syclsched.Operation(
    name="add one",
    parameters=(syclsched.Parameter("x", syclsched.AccessMode.UPDATE, ndim=1, dtypes=("float32",)),),
    implementations=(
        syclsched.Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(_SOURCE, "add_one"),
            lambda signature, _: syclsched.Launch((signature.shapes["x"][0],)),
        ),
        syclsched.Implementation("numpy", "host", lambda _: _slowly),
    ),
    work=lambda _: syclsched.Work(flops=64.0, bytes=512.0, dtype="float32", parallelism=64),
)


def chain() -> TaskGraph:
    graph = syclsched.TaskGraph("chain")
    x = graph.array("x", data=np.zeros(64, "float32"))
    for number in range(4):
        graph.kernel(ADD_ONE, x=x, name=f"t{number}")
    return graph


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Platform]:
    """The CPU device, with a history in which the slow function seems to be the faster one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    platform = syclsched.discover("cpu")
    graph = chain()
    with HistoryStore() as history:
        for device in platform.devices:
            name, seconds = ("numpy", 1e-3) if device.is_host else ("opencl-c", 1.2e-3)
            signature = graph.tasks[0].signature
            assert signature is not None
            key = history_key(device.key, ADD_ONE, ADD_ONE.implementation(name), signature)
            history.add((key, Sample(seconds + n * 1e-6, 1.0, 0.0, "calibration")) for n in range(9))
    yield platform
    FEED.flush()


def used(plan: Any) -> set[str]:
    return {each.implementation for each in plan.schedule.assignments}


@pytest.mark.sycl
def test_a_wrong_prediction_is_found_out_by_runs(cpu: Platform) -> None:
    found = []
    for _ in range(40):  # beside other processes it takes more than the nine runs of an idle machine
        with syclsched.run(chain(), cpu, calibrate=False) as run:
            assert run.result("x").tolist() == [4.0] * 64
            found.append(used(run.plan))
        # It wins, or it is the only plan left once task times of the runs correct the predictions.
        if found[-5:] == [{"opencl-c"}] * 5:
            break
    assert found[0] == {"numpy"}
    assert found[-5:] == [{"opencl-c"}] * 5
    with syclsched.bind(chain(), cpu, calibrate=False) as runner:
        assert used(runner.plan) == {"opencl-c"}


@pytest.mark.sycl
def test_determinism_and_a_given_plan_fix_the_implementations(cpu: Platform) -> None:
    given = syclsched.plan(chain(), cpu)
    assert used(given) == {"numpy"}
    plans = []
    for _ in range(4):
        with syclsched.run(chain(), cpu, plan=given) as run:
            run.wait()
            assert replace(run.plan, trials=()) == given
        with syclsched.run(chain(), cpu, deterministic=True) as run:
            run.wait()
            plans.append(run.plan)
    assert all(plan == plans[0] for plan in plans)
    with HistoryStore() as history:
        assert not [key for key, _ in history.entries() if key.operation == "plan"]


@pytest.mark.sycl
def test_runs_correct_the_prediction_of_a_plan_that_is_kept(cpu: Platform) -> None:
    predicted_s = []
    for _ in range(12):
        with syclsched.run(chain(), cpu, calibrate=False) as run:
            run.wait()
            trace, plan = run.trace(), run.plan
        FEED.flush()
        predicted_s.append(trace.predicted_makespan_s)
        assert trace.predicted_makespan_s == plan.expected_s
        assert max(span.predicted_finish_s for span in trace.spans) == pytest.approx(plan.expected_s)
    assert predicted_s[0] == pytest.approx(4e-3, rel=0.2)  # as the task times say
    own = plan.trials[0]
    assert (own.runs >= 2, predicted_s[-1]) == (True, own.measured_s)
