# SPDX-License-Identifier: Apache-2.0
"""Moves of the evaluator with copy lanes: those of the constrained evaluator, mostly of critical tasks of the plan."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.annealing import annealing_loop
from syclsched.scheduling.search.constrained.moves import propose_for
from syclsched.scheduling.search.incremental.chains import clear_undo_log, undo_moves
from syclsched.scheduling.search.queued.decode import lay_out, run
from syclsched.scheduling.search.queued.state import PATH, STEPS, QueuedState
from syclsched.scheduling.search.random_numbers import random_below, random_unit

#: Share of moves that start with a critical task.
ON_PATH = 0.8


@lean
def propose(s: QueuedState, _: float) -> bool:
    """Make one random move; return False if the drawn move changes nothing."""
    task = random_below(s.words, s.order.size)
    if random_unit(s.words) < ON_PATH:
        task = s.path[random_below(s.words, s.sizes[PATH])]
    return bool(propose_for(s, task))


@lean
def evaluate(s: QueuedState, limit_s: float) -> tuple[float, float]:
    """Return the makespan of the plan, infinity if it exceeds a limit; nothing else is limited."""
    if not lay_out(s):
        return np.inf, 0.0
    # Sums in another order round differently: equal makespans must not be rejected.
    return run(s.nodes, s.steps, s.queues, s.links, s.step_of, s.sizes, limit_s * (1.0 + 1e-12)), 0.0


@lean
def trace_path(s: QueuedState) -> None:
    """Find the critical path of the evaluated state: its tasks, and those that need its copies."""
    last = 0
    for step in range(s.sizes[STEPS]):
        if s.steps[step].finish_s > s.steps[last].finish_s:
            last = step
    length = 0
    while last >= 0 and length < s.path.size:
        s.path[length] = s.steps[last].task
        length += 1
        last = s.steps[last].cause
    s.sizes[PATH] = length


@lean
def accept(s: QueuedState) -> None:
    """Make the changes final."""
    trace_path(s)
    clear_undo_log(s.counts, s.order.size)


@lean
def prepare_moves(_: QueuedState) -> None:
    """Do nothing: `accept` has traced the critical path."""


@lean
def undo(s: QueuedState) -> None:
    """Undo the moves; the evaluated state is replaced by the next."""
    undo_moves(s.nodes, s.lanes, s.order, s.counts, s.moved)
    clear_undo_log(s.counts, s.order.size)


anneal = annealing_loop(propose, evaluate, accept, undo, prepare_moves)
