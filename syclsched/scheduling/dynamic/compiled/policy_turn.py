# SPDX-License-Identifier: Apache-2.0
"""One turn of a compiled policy: record completions, then carry out decisions until there are none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from syclsched.compiled import specialised
from syclsched.scheduling.dynamic.compiled.run_state import DECIDED, NOW, STARTED, RunState
from syclsched.scheduling.dynamic.compiled.run_state_updates import carry_out, complete, retry_held
from syclsched.scheduling.tables import Ints

Turn = Callable[[RunState, Ints, Ints, Ints, float], int]


@cache
def turn_of(rule: Callable[[Any, Any], None]) -> Turn:
    """Return the turn of a policy with this rule: a function, compiled for the rule, that returns the started tasks."""

    def turn(state: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
        complete(state, counts, start_ns, end_ns, now_s)
        state.scalars[NOW] = now_s
        retry_held(state)
        while True:
            state.counters[DECIDED] = 0
            rule(state, state.parameters)
            if state.counters[DECIDED] == 0:
                return int(state.counters[STARTED])
            carry_out(state)

    return specialised(turn, rule)
