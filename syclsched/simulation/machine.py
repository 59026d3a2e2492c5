# SPDX-License-Identifier: Apache-2.0
"""What the compiled engine works on: records of instructions, lanes, devices and channels.

Records keep what is used together together in memory, and compiled functions take few arguments: calls with an
array for each field cost more than the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Records = np.recarray[Any, np.dtype[Any]]

#: Kinds of instruction, as the engine sees them: those below `WORK` are about memory and take no time, copies use
#: links, the rest computes.
ALLOC, FREE, WORK, COPY = 0, 1, 2, 3

#: What became of an instruction: not started, finished, lost with a device while it ran.
NEVER, DONE, LOST = 0, 1, 2

#: An instruction, lane after lane in the order of each lane; one more at the end stands for what is waited for and not
#: in the plan. ``order``: position in the plan's global order. Waits: rows ``wait_start`` to ``wait_end``.
#: ``first``, ``second``: the channels of a copy, -1 for none; ``latency_s``: the part of it in which nothing moves;
#: ``bytes_per_s``: its speed after that. ``lost_s``: from when on it cannot finish. Of memory, ``first`` is the space,
#: and ``room_bytes`` what a free gives back, or what must have been given back in all before an allocation is made.
#: Then what the run makes of it; ``waiter`` is the first that waits for it: a lane, or -2 less the place of a free,
#: whose ``second`` is the next.
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("number", "order", "kind", "wait_start", "wait_end", "first", "second")),
        *((name, np.float64) for name in ("duration_s", "submit_s", "handoff_s", "latency_s", "bytes_per_s", "lost_s")),
        *((name, np.int64) for name in ("room_bytes", "outcome", "waiter")),
        *((name, np.float64) for name in ("start_s", "finish_s")),
    ]
)

#: A lane: its instructions from ``pointer`` (that moves on) to ``end``, its device, whether it computes (and so slows
#: others down), and how much the submitting thread slows it down. Then its state: ``cursor`` is the first wait not
#: known to have finished, ``left_s`` the work left at ``since_s``, ``due_s`` the time of its event, ``place`` its place
#: in the queue of events, ``next_waiter`` the next that waits for the same instruction.
LANE = np.dtype(
    [
        *(
            (name, np.int64)
            for name in ("pointer", "end", "device", "mixes", "phase", "cursor", "place", "next_waiter")
        ),
        *((name, np.float64) for name in ("load", "left_s", "since_s", "rate", "speed", "due_s")),
    ]
)

#: A device: those beside it that slow it down are rows ``beside_start`` to ``beside_end``; how many of its lanes
#: compute, and how many times slower than planned it is.
DEVICE = np.dtype(
    [
        *((name, np.int64) for name in ("beside_start", "beside_end", "running")),
        ("slowed", np.float64),
    ]
)

#: A device beside another, and the factor of interference.
BESIDE = np.dtype([("device", np.int64), ("factor", np.float64)])

#: A channel: what it carries, and for the engine's use whether it is taken, how many use it, and what is left of it.
CHANNEL = np.dtype(
    [("bytes_per_s", np.float64), ("taken", np.int64), ("users", np.int64), ("room_bytes_per_s", np.float64)]
)

#: An event from outside: at a time, a device is slower than planned by a factor; device -1: something has failed.
EVENT = np.dtype([("at_s", np.float64), ("device", np.int64), ("factor", np.float64)])


class Machine(NamedTuple):
    """A plan as the engine runs it; a run changes it."""

    #: Records, as above; ``events`` by rising time.
    steps: Records
    lanes: Records
    devices: Records
    beside: Records
    channels: Records
    events: Records
    waits: Ints  # the instructions of other lanes that instructions wait for
    freed_bytes: Ints  # what has been given back in each memory space; the last is for memory of which nothing is known
    contention: int  # how copies share channels: `syclsched.simulation.channels`


def records(dtype: np.dtype[Any], count: int, **columns: object) -> Records:
    """Return records with some of their fields set, the others zero."""
    made = np.zeros(count, dtype=dtype)
    for name, column in columns.items():
        made[name] = column
    return made.view(np.recarray)
