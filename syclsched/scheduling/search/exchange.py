# SPDX-License-Identifier: Apache-2.0
"""Replica exchange: searches at several temperatures in parallel that swap their states.

States found by hot replicas move down to cold ones, which improve them, while others move up and change: no cooling
ends in a region that was chosen too early, and no cooling has to be planned. It needs many steps, as each replica has
only its share. The method is that of Swendsen and Wang (1986) in the form of Geyer (1991) and Hukushima and Nemoto
(1996).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.cooling import Evaluator, Start
from syclsched.scheduling.search.incremental.evaluator import IncrementalEvaluator
from syclsched.scheduling.search.meter import Meter
from syclsched.scheduling.tables import Tables

#: Number of replicas, and lowest and highest temperature in mean steps of the critical path, spaced geometrically.
#: Tuned on instances of 40 tasks: a third to a half of all swaps is accepted.
REPLICAS, COLDEST, HOTTEST = 10, 0.03, 1.0

#: Steps of each replica between swaps.
SWAP_STEPS = 300


def exchange(tables: Tables, starts: Sequence[Start], best: Best, meter: Meter, seed: int, bound_s: float) -> None:
    """Search until the budget is spent, or the best makespan reaches a bound."""
    replicas = [IncrementalEvaluator(tables, replica_seed(seed, k)) for k in range(REPLICAS)]
    rounds = exchange_rounds(replicas, starts, best, meter, seed, SWAP_STEPS)
    while best.cost > bound_s and next(rounds, False):
        pass


def replica_seed(seed: int, replica: int) -> int:
    """Return the seed of a replica: large offsets, so that replicas of searches with different (small) seeds differ."""
    return seed + (replica + 1) * 1_000_003


def exchange_rounds(
    replicas: Sequence[Evaluator], starts: Sequence[Start], best: Best, meter: Meter, seed: int, steps_each: int
) -> Iterator[bool]:
    """Search until the budget is spent; yield after every swap of states.

    Temperatures do not depend on the budget, so that a longer search begins as a shorter one does.
    """
    replicas = list(replicas)
    current_s = [replica.load(*starts[k % len(starts)]) for k, replica in enumerate(replicas)]
    step_s, last = replicas[0].temperature_unit(current_s[0]), len(replicas) - 1
    temperatures_s = [step_s * COLDEST * (HOTTEST / COLDEST) ** (k / last) for k in range(len(replicas))]
    rng = random.Random(seed)
    round_number = 0
    while meter.spent() < 1.0:
        for k, replica in enumerate(replicas):
            steps = meter.left(steps_each)
            current_s[k] = replica.anneal(best, current_s[k], temperatures_s[k], steps)
            meter.count(steps)
        # Even-numbered replicas swap with the next, then odd ones, so that a state can travel the whole range.
        for k in range(round_number % 2, last, 2):
            colder, hotter = 1.0 / temperatures_s[k], 1.0 / temperatures_s[k + 1]
            gain = (current_s[k] - current_s[k + 1]) * (colder - hotter)
            if gain >= 0.0 or rng.random() < math.exp(gain):
                replicas[k], replicas[k + 1] = replicas[k + 1], replicas[k]
                current_s[k], current_s[k + 1] = current_s[k + 1], current_s[k]
        round_number += 1
        yield True
