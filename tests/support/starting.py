# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests of dynamic runs: policies, devices, and the start of a graph."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from support.opened import live_on
from syclsched.costs import CostModel
from syclsched.devices import open_devices
from syclsched.execution import Run
from syclsched.execution.dynamic.dynamic_start import execute_dynamic, policy_by_name
from syclsched.model.graph import TaskGraph
from syclsched.scheduling import build_problem
from syclsched.scheduling.dynamic import Decision, DynamicPolicy, Hybrid, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING

POLICIES = ("eager", "priority", "dmdas", "stealing", "hybrid", "anywhere")


@dataclass
class Anywhere:
    """A policy that places any task anywhere, in any order: results must not depend on good decisions."""

    seed: int = 0
    name: str = "anywhere"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        return static_info_of(problem, [problem.tables.priority])

    def decide(self, state: PolicyState) -> list[Decision]:
        self.seed += 1
        generator = random.Random(self.seed)
        free = [p for p, lane in enumerate(state.lanes) if lane.running == NOTHING]
        pairs = [(t, p) for t in state.ready for p in free if state.can_run(t, state.known.device_of[p])]
        return [Decision(*generator.choice(pairs), start=True)] if pairs else []


@lru_cache(maxsize=4)
def live_called(where: str) -> Any:
    """Return open devices with two lanes each: ``all``, or with CPU ``parts``; or one space: ``cpu``, ``halves``."""
    platform, live = live_on(2 if where in ("parts", "halves") else None)
    if where in ("all", "parts"):
        return live
    return open_devices(platform.select(lambda device: device.name.partition(".")[0] == "cpu"))


def start(graph: TaskGraph, live: Any, policy: str, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
    """Start a graph under a dynamic policy, with estimates from the profile; the hybrid follows HEFT."""
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    decider: DynamicPolicy
    if policy == "hybrid":
        decider = Hybrid(Heft().schedule(problem))
    else:
        decider = Anywhere() if policy == "anywhere" else policy_by_name(policy)
    return execute_dynamic(graph, problem, live, decider, inputs, **options)
