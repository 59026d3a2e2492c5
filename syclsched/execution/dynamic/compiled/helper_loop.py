# SPDX-License-Identifier: Apache-2.0
"""Compiled loop of a helper thread that waits for the events of CPU devices, one after another, without Python.

See `syclsched.execution.lanes.cpu_helper_thread` for the purpose. The helper polls for new submissions: to wake it
would cost the deciding thread more than all its other work for a task.
"""

from __future__ import annotations

from typing import NamedTuple

from syclsched.backoff import backoff
from syclsched.compiled import call_address, lean
from syclsched.scheduling.tables import Ints

#: Indices of `SubmittedEvents.at`: addresses of C functions and their arguments.
WAIT, SLEEP, WAKEUP, NEW_EVENTS = range(4)
#: Idle back-off, shortest and longest.
_SHORTEST_SLEEP_NS, _LONGEST_SLEEP_NS = 50_000, 1_000_000

#: `backoff` for compiled loops.
compiled_backoff = lean(backoff)


class SubmittedEvents(NamedTuple):
    """Submitted events, as helper threads see them."""

    events: Ints  # events in C layout; their second word is the address of their lane
    batches: Ints  # half the index of the first event, and the number of events, of each submission
    counters: Ints  # number of submissions, and whether the run is over
    at: Ints  # indexed by `WAIT` and following


@lean
def wait_for_events(submitted: SubmittedEvents, lanes: Ints) -> int:
    """Wait for all events of some lanes, in order of submission; return their number."""
    seen, waited, idle_ns = 0, 0, 0
    while seen < submitted.counters[0] or not submitted.counters[1]:
        if seen == submitted.counters[0]:
            sleep_ns = int(compiled_backoff(idle_ns, _SHORTEST_SLEEP_NS, _LONGEST_SLEEP_NS, 1.0))
            call_address(submitted.at[SLEEP], (submitted.at[WAKEUP], 0, sleep_ns))
            idle_ns += sleep_ns
            continue
        idle_ns = 0
        first = 2 * submitted.batches[seen, 0]
        for number in range(first, first + submitted.batches[seen, 1]):
            for lane in lanes:
                if submitted.events[number, 1] == lane:
                    call_address(submitted.at[WAIT], (submitted.at[NEW_EVENTS] + number * 24, 1))
                    waited += 1
        seen += 1
    return waited
