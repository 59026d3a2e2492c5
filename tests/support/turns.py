# SPDX-License-Identifier: Apache-2.0
"""The compiled event loop of a policy with mock C functions of a device: it returns after each turn."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from syclsched.execution.dynamic.compiled.compiled_loop import ALL_DONE, ASKED, CHANGED, WORDS, EventLoop
from syclsched.scheduling.dynamic import RulePolicy
from syclsched.scheduling.dynamic.compiled.run_state import STARTED, RunState


def _function(arguments: int, body: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(body)


class Turns:
    """Turns of a policy on a run's state; all that it starts is submitted, and ends when the test ends it."""

    def __init__(self, run_state: RunState, policy: type[RulePolicy] | RulePolicy) -> None:
        self.run_state, self._now_ns = run_state, 0
        self._functions = [
            _function(1, lambda _: self._now_ns),
            _function(9, lambda *given: given[3]),  # every command is submitted
            _function(10, lambda *_: 0),
            _function(3, lambda *_: 0),
        ]
        names = ("now_address", "submit_address", "completed_address", "wakeup_wait_address")
        addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in self._functions]
        made_up: Any = SimpleNamespace(
            **dict(zip(names, addresses, strict=True)),
            address=0,
            addresses=(0, 0, 0, 0),
            new_event_array=lambda count: (ctypes.c_int64 * (3 * count))(),
            keep=lambda *_: None,
        )
        places, lanes = run_state.places, len(run_state.known.device_of)
        words = np.zeros((len(run_state.waiting), lanes, WORDS), np.int64)
        pieces = np.zeros((len(places.pieces), places.links.shape[0]), np.int64)
        self._loop = EventLoop(run_state, policy.rule, made_up, made_up, made_up, words, pieces, None)
        self._loop.make_ready()

    def take(self, now_ns: int, lane: int = 0, measured_s: Sequence[float] = ()) -> int:
        """End the next tasks of a lane, then start the policy's choice; return the number of started tasks."""
        run_state, machine = self.run_state, self._loop.machine
        self._now_ns = now_ns
        if measured_s:
            machine.counts[lane] = len(measured_s)
            ended = run_state.flight[lane, run_state.done[lane] :][: len(measured_s)]
            machine.end_ns[ended] = np.array(measured_s) * 1e9
        machine.asked[0] = machine.state[CHANGED] = 1
        assert self._loop.drive() in (ASKED, ALL_DONE)
        return int(run_state.counters[STARTED])
