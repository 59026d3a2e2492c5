# SPDX-License-Identifier: Apache-2.0
"""Run state of a dynamic policy as flat arrays, for compiled code; the counterpart of `PolicyState`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from syclsched.scheduling.dynamic.compiled.data_directory import DataDirectory, DataDistribution, new_data_directory
from syclsched.scheduling.dynamic.drift import Drift, new_drift
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.static_info import rows as _rows
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints

Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: Indices into `RunState.counters`: the numbers of ready tasks, of started tasks, of commands (tasks and the copies for
#: them) and of decisions, and whether queues are sorted by level.
READY, STARTED, N_COMMANDS, DECIDED, SORTS_QUEUES = range(5)
#: Indices into `RunState.scalars`: time, deviation so far, deviation above which to plan anew; then the lookahead.
NOW, DEVIATION, BOUND, AHEAD_S, FEWEST, MOST = range(6)
#: Columns of `RunState.decided`.
TASK, LANE, STARTS = range(3)


class StaticArrays(NamedTuple):
    """Static information as arrays: those fields of `StaticInfo` that decisions need."""

    seconds: Floats
    kind: Ints
    level: Ints
    planned: Ints  # `NOTHING` without a plan
    device_of: Ints  # the device of each task lane; task lanes come before copy lanes


class RunState(NamedTuple):
    """Run state: T tasks, L lanes of which P run tasks, D devices, and S commands (tasks first, then copies)."""

    known: StaticArrays
    parameters: Floats  # of the policy
    is_host: Flags  # whether a lane is the host's: successors of its tasks wait until these have completed
    #: Dependencies; predecessors may also be copies.
    succ_start: Ints
    succ_task: Ints
    pred_start: Ints
    pred_task: Ints
    drift: Drift  # measured against estimated times
    places: DataDirectory  # locations of data
    #: Number of predecessors not yet submitted, and the lane of the last submitted one.
    waiting: Ints
    released_by: Ints
    ready: Ints  # the first ``counters[READY]`` are ready tasks: by level, then in the order in which they became ready
    bound: Ints  # the lane in whose queue each task is; `NOTHING` if it is in none
    queue: Ints  # tasks bound to each lane
    queued: Ints  # length of each queue
    #: Estimated seconds of the queue, of the commands in flight, and the estimated end of these.
    queued_s: Floats
    ahead_s: Floats
    until_s: Floats
    order: Ints  # with a plan: the tasks of each lane by level, lane by lane
    order_at: Ints  # the first task of each lane that has not started, or an earlier one
    #: The lane of each command and its sequence number there; `NOTHING` before submission. A held task has a lane, but
    #: no sequence number.
    lane: Ints
    place: Ints
    #: Estimated seconds and estimated start of each started task.
    estimate_s: Floats
    start_s: Floats
    #: Number of commands submitted to each lane, and number of those completed.
    submitted: Ints
    done: Ints
    flight: Ints  # commands submitted to each lane, by sequence number
    ordered: Ints  # sequence number of another lane up to which each lane has already waited
    #: Commands on other lanes that each command waits for; then, by lane, the last sequence number that it depends on,
    #: `NOTHING` for none.
    waits: Ints
    waits_count: Ints  # number of these waits
    started: Ints  # commands in order of submission
    unbound: Ints  # scratch: tasks to bind again
    decided: Ints  # decisions of the policy: task, lane, and whether to start it; ``counters[DECIDED]`` of them
    counters: Ints  # see `READY`
    scalars: Floats  # see `NOW`


def new_run_state(
    problem: Problem,
    policy: RulePolicy,
    known: StaticInfo,
    *,
    lanes: int,
    commands: int,
    is_host: Sequence[bool],
    lookahead: tuple[int, int, float],
    before: Sequence[Sequence[int]],
    contexts: Sequence[int] = (),
    spread: DataDistribution | None = None,
    after: Sequence[Sequence[int]] | None = None,
    copies_from: int = 0,
) -> RunState:
    """Return the state of a run that has not started."""
    tables, tasks, processors = problem.tables, len(problem), len(known.device_of)
    earlier_tasks = _rows(tables.pred_start, tables.pred_task) if after is None else after
    listed = [[*earlier_tasks[task], *before[task]] for task in range(tasks)]
    pred_start = np.concatenate(([0], np.cumsum([len(predecessors) for predecessors in listed]))).astype(np.int64)
    earlier = np.array([predecessor for predecessors in listed for predecessor in predecessors], np.int64)
    lane_is_host = np.zeros(lanes, np.bool_)
    lane_is_host[:processors] = is_host
    if not contexts:
        contexts = [NOTHING if host else 0 for host in lane_is_host]
    planned = np.full(tasks, NOTHING) if known.planned is None else np.array(known.planned, np.int64)
    seconds = np.array(known.seconds, np.float64).reshape(tasks, -1)
    level = np.array(known.level, np.int64)
    order = np.lexsort((np.arange(tasks), level, planned)).astype(np.int64)
    fewest, most, ahead_s = lookahead
    return RunState(
        known=StaticArrays(
            seconds, np.array(known.kind, np.int64), level, planned, np.array(known.device_of, np.int64)
        ),
        parameters=np.array(policy.parameters, np.float64),
        is_host=lane_is_host,
        succ_start=tables.succ_start.copy(),
        succ_task=tables.succ_task.copy(),
        pred_start=pred_start,
        pred_task=earlier,
        drift=new_drift(seconds, max(known.kind, default=0) + 1),
        places=new_data_directory(known, spread, lanes=lanes, first_copy=copies_from, contexts=contexts),
        waiting=np.diff(tables.pred_start).astype(np.int64),
        released_by=np.full(tasks, NOTHING),
        ready=np.zeros(tasks, np.int64),
        bound=np.full(tasks, NOTHING),
        queue=np.zeros((processors, tasks), np.int64),
        queued=np.zeros(processors, np.int64),
        queued_s=np.zeros(processors),
        ahead_s=np.zeros(lanes),
        until_s=np.zeros(lanes),
        order=order,
        order_at=np.searchsorted(planned[order], np.arange(processors)).astype(np.int64),
        lane=np.full(commands, NOTHING),
        place=np.full(commands, NOTHING),
        estimate_s=np.zeros(tasks),
        start_s=np.zeros(tasks),
        submitted=np.zeros(lanes, np.int64),
        done=np.zeros(lanes, np.int64),
        flight=np.zeros((lanes, commands), np.int64),
        ordered=np.zeros((lanes, lanes), np.int64),
        waits=np.full((commands, 2 * lanes), NOTHING),
        waits_count=np.zeros(commands, np.int64),
        started=np.zeros(commands, np.int64),
        unbound=np.zeros(tasks, np.int64),
        decided=np.zeros((tasks + processors, 3), np.int64),
        counters=np.array([0, 0, 0, 0, int(policy.sorts_queues)]),
        scalars=np.array([0.0, 0.0, policy.replans_above, ahead_s, float(fewest), float(most)]),
    )


def bytes_between(problem: Problem) -> Floats:
    """Return, for each pair of tasks in the order of successors, the bytes that the later reads of the earlier."""
    tables, tasks = problem.tables, len(problem)
    reader = np.repeat(np.arange(tasks), np.diff(tables.read_start))
    maker = tables.item_producer[tables.read_item]
    made = maker >= 0
    pairs, where = np.unique(maker[made] * tasks + reader[made], return_inverse=True)
    nbytes = np.bincount(where.reshape(-1), weights=tables.item_bytes[tables.read_item[made]], minlength=len(pairs))
    wanted = np.repeat(np.arange(tasks), np.diff(tables.succ_start)) * tasks + tables.succ_task
    if not len(pairs):
        return np.zeros(len(wanted))
    found = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    return np.where(pairs[found] == wanted, nbytes[found], 0.0)
