# SPDX-License-Identifier: Apache-2.0
"""Turns of compiled policies, without completions."""

from __future__ import annotations

import numpy as np

from syclsched.scheduling.dynamic import RulePolicy
from syclsched.scheduling.dynamic.compiled.policy_turn import turn_of
from syclsched.scheduling.dynamic.compiled.run_state import RunState


def advance(board: RunState, policy: type[RulePolicy] | RulePolicy, now_s: float) -> int:
    """Start what the policy wants started; return the number of tasks started so far."""
    none = np.zeros(0, np.int64)
    return turn_of(policy.rule)(board, none, none, none, now_s)
