# SPDX-License-Identifier: Apache-2.0
"""All policies on one problem: valid results under every model of contention, and refusal of invalid ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.instances import TOPCUOGLU_COSTS, TOPCUOGLU_EDGES
from support.strategies import graphs, platforms

from syclsched.costs import CostModel
from syclsched.errors import PlanError, PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Contention, Platform
from syclsched.scheduling import (
    Problem,
    Timetable,
    build_problem,
    candidates,
    problem_from_matrices,
    register,
    registry,
)
from syclsched.scheduling.portfolio import distinct, run_policies, run_policy

PROBLEM = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
MODELS: list[Contention] = ["none", "one-port", "fair"]


@dataclass(frozen=True)
class Hasty:
    """A policy that starts all tasks at once on one processor."""

    name: str = "hasty"

    def schedule(self, problem: Problem) -> Timetable:
        seconds = problem.tables.task_seconds()[:, 0]
        return Timetable(np.zeros(len(problem), dtype=np.int64), np.zeros(len(problem)), seconds.copy())


@pytest.fixture
def hasty() -> Iterator[None]:
    register(Hasty())
    yield
    registry.unregister("hasty")


def test_answers_and_refusals_keep_their_order_and_their_labels() -> None:
    entries, refusals = run_policies(PROBLEM, ["heft", "single:p9", "cpop"], "[p0,p1,p2]")
    assert [(e.label, e.makespan_s) for e in entries] == [("heft[p0,p1,p2]", 80.0), ("cpop[p0,p1,p2]", 86.0)]
    assert [r.label for r in refusals] == ["single:p9[p0,p1,p2]"]
    assert "no device 'p9'" in str(refusals[0].error)


@pytest.mark.usefixtures("hasty")
def test_a_wrong_answer_is_no_answer() -> None:
    with pytest.raises(PlanError, match="timetable by 'hasty'"):
        run_policy(PROBLEM, "hasty")
    entries, refusals = run_policies(PROBLEM, ["hasty", "heft"])
    assert [e.label for e in entries] == ["heft"]
    assert "overlap" in str(refusals[0].error) or "before" in str(refusals[0].error)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(PolicyError, match="no policy 'hefty'"):
        run_policy(PROBLEM, "hefty")


def test_distinct_timetables_are_sorted_by_makespan() -> None:
    heft, cpop = run_policy(PROBLEM, "heft"), run_policy(PROBLEM, "cpop")
    again = replace(heft, policy="heft again")
    assert distinct([cpop, again, heft]) == [again, cpop]
    assert heft.equals_schedule(again)
    assert not heft.equals_schedule(cpop)


def test_the_same_times_on_other_processors_are_another_timetable() -> None:
    problem = problem_from_matrices([[1.0, 1.0]], {})
    one, other = run_policy(problem, "single:p0"), run_policy(problem, "single:p1")
    assert one.makespan_s == other.makespan_s
    assert len(distinct([one, other])) == 2


@given(graphs(), platforms(), st.sampled_from(MODELS), st.data())
def test_every_policy_is_right_by_every_model(
    graph: TaskGraph, platform: Platform, contention: Contention, data: st.DataObject
) -> None:
    platform = replace(platform, contention=contention)
    where = st.dictionaries(st.sampled_from(sorted(graph.arrays)), st.sampled_from([s.name for s in platform.spaces]))
    releases = st.dictionaries(st.sampled_from([t.name for t in graph.tasks]), st.sampled_from([0.0, 1e-4]))
    problem = build_problem(
        graph,
        platform,
        CostModel(platform),
        placed=data.draw(where),
        wanted=data.draw(where),
        release_s=data.draw(releases),
    )
    entries, refusals = run_policies(problem, candidates(problem))
    assert refusals == []
    assert all(e.makespan_s >= e.timetable.makespan_s for e in entries)
