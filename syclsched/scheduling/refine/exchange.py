# SPDX-License-Identifier: Apache-2.0
"""Replica exchange: searches at several temperatures at once, that swap their states now and then.

What a hot one finds comes down to the cold ones, which work it out, while others go up again and forget: no cooling
ends in a place that was chosen too early, and there is no cooling to be planned. It needs many steps, for each replica
has only its share. The method is that of Swendsen and Wang (1986) as Geyer (1991) and Hukushima and Nemoto (1996) have
it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from syclsched.scheduling.refine.anneal import Best, anneal
from syclsched.scheduling.refine.chains import load
from syclsched.scheduling.refine.critical import critical_path
from syclsched.scheduling.refine.decode import settle_all
from syclsched.scheduling.refine.meter import Meter
from syclsched.scheduling.refine.prepare import prepare
from syclsched.scheduling.refine.records import Search
from syclsched.scheduling.tables import Ints, Tables

#: Replicas, and the lowest and highest of their temperatures in mean steps of the critical path; each is so many times
#: the one below. Found on instances of 40 tasks: a swap is taken in a third to a half of all cases.
REPLICAS, COLDEST, HOTTEST = 10, 0.03, 1.0

#: Steps of each replica between swaps.
BETWEEN = 300

#: A state to begin with: its makespan, the order of the tasks, and the processor of each.
State = tuple[float, Ints, Ints]


def exchange(tables: Tables, starts: Sequence[State], best: Best, meter: Meter, seed: int, bound_s: float) -> None:
    """Search until the budget is over, or the best is at a bound."""
    replicas: list[Search] = []
    current_s: list[float] = []
    for k in range(REPLICAS):
        # Seeds of replicas of different searches must not meet: those are small numbers.
        search = prepare(tables, seed + (k + 1) * 1_000_003)
        _, order, processor = starts[k % len(starts)]
        load(search.nodes, search.lanes, search.order, order.copy(), processor.copy())
        current_s.append(settle_all(search))
        replicas.append(search)
    step_s = current_s[0] / max(1, critical_path(replicas[0]))
    temperatures_s = [step_s * COLDEST * (HOTTEST / COLDEST) ** (k / (REPLICAS - 1)) for k in range(REPLICAS)]
    rng = random.Random(seed)
    turn = 0
    while meter.spent() < 1.0 and best.makespan_s[0] > bound_s:
        for k, search in enumerate(replicas):
            steps = meter.left(BETWEEN)
            current_s[k] = anneal(search, best, current_s[k], temperatures_s[k], steps)
            meter.count(steps)
        # Those of even numbers with the next, then those of odd ones: so a state can go all the way in turns.
        for k in range(turn % 2, REPLICAS - 1, 2):
            colder, hotter = 1.0 / temperatures_s[k], 1.0 / temperatures_s[k + 1]
            gain = (current_s[k] - current_s[k + 1]) * (colder - hotter)
            if gain >= 0.0 or rng.random() < math.exp(gain):
                replicas[k], replicas[k + 1] = replicas[k + 1], replicas[k]
                current_s[k], current_s[k + 1] = current_s[k + 1], current_s[k]
        turn += 1
