# SPDX-License-Identifier: Apache-2.0
"""The loop of a thread lent to a device while compiled code submits: waits for one event after another, without Python.

`syclsched.execution.lending` says what for. Waking such a thread would cost the one that decides more than all else it
does for a task: this one looks by itself whether there is more.
"""

from __future__ import annotations

from typing import NamedTuple

from syclsched.compiled import call_at, lean
from syclsched.scheduling.tables import Ints

#: Places of `Lent.at`: functions in C and what they are given.
WAIT, SLEEP, BELL, MADE = range(4)
#: How long is slept when there is nothing to wait for, at least and at most.
_SHORTEST_NAP_NS, _LONGEST_NAP_NS = 50_000, 1_000_000


class Lent(NamedTuple):
    """What was submitted, for whoever waits for it."""

    events: Ints  # events as C has them; their second word is the address of their lane
    batches: Ints  # of each submission, half of where its events begin and how many there are
    counters: Ints  # how many submissions there have been, and whether there will be no more
    at: Ints  # see `WAIT`


@lean
def wait_until_over(lent: Lent, lanes: Ints) -> int:
    """Wait for all events of some lanes, in order of submission; return for how many."""
    seen, waited, nap_ns = 0, 0, _SHORTEST_NAP_NS
    while seen < lent.counters[0] or not lent.counters[1]:
        if seen == lent.counters[0]:
            call_at(lent.at[SLEEP], (lent.at[BELL], 0, nap_ns))
            nap_ns = min(2 * nap_ns, _LONGEST_NAP_NS)
            continue
        nap_ns = _SHORTEST_NAP_NS
        for number in range(2 * lent.batches[seen, 0], 2 * lent.batches[seen, 0] + lent.batches[seen, 1]):
            for lane in lanes:
                if lent.events[number, 1] == lane:
                    call_at(lent.at[WAIT], (lent.at[MADE] + number * 24, 1))
                    waited += 1
        seen += 1
    return waited
