# SPDX-License-Identifier: Apache-2.0
"""Data of the compiled simulation engine: records of instructions, lanes, devices and channels.

Records keep fields that are used together adjacent in memory, and let compiled functions take few arguments: passing
one array per field costs more than the work itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Records = np.recarray[Any, np.dtype[Any]]

#: Kinds of instruction for the engine: those below `WORK` manage memory and take no time, copies use links, all others
#: compute.
ALLOC, FREE, WORK, COPY = 0, 1, 2, 3

#: Outcome of an instruction: not started, finished, lost with a device while it ran.
NEVER, DONE, LOST = 0, 1, 2

#: An instruction, lane after lane in lane order. An extra one at the end stands for awaited instructions that are not
#: in the plan. ``order``: index in the plan's global order. Its waits are rows ``wait_start`` to ``wait_end``.
#: Of a copy, ``first`` and ``second`` are its channels (-1 for none), ``latency_s`` is the time before data moves and
#: ``bytes_per_s`` the speed after that; it uses ``cores`` of the processors ``source`` and ``target`` (-1 for none).
#: ``lost_s``: time from which it cannot finish. Of an allocation or a free,
#: ``first`` is the space, and ``room_bytes`` what a free releases, or the total that must have been released before an
#: allocation. The other fields are set by the run. ``waiter`` heads the list of waiters: a lane, or -2 minus the index
#: of a free, whose ``second`` is the next waiter.
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("number", "order", "kind", "wait_start", "wait_end", "first", "second")),
        *((name, np.int64) for name in ("source", "target")),
        *((name, np.float64) for name in ("duration_s", "submit_s", "handoff_s", "latency_s", "bytes_per_s", "lost_s")),
        ("cores", np.float64),
        *((name, np.int64) for name in ("room_bytes", "outcome", "waiter")),
        *((name, np.float64) for name in ("start_s", "finish_s")),
    ]
)

#: A lane: its instructions from ``pointer`` (the current one) to ``end``, its device, whether it computes and so slows
#: others down (``mixes``), its processor (-1 for none) and how many cores of it the lane uses while it computes, and
#: how much the submitting thread slows it down (``load``), if it has no processor. Then its state: ``cursor`` is the
#: first wait not known to be done, ``left_s`` the work left at ``since_s``, ``due_s`` the time of its event, ``place``
#: its index in the event queue, ``next_waiter`` the next waiter for the same instruction.
LANE = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                *("pointer", "end", "device", "mixes", "processor", "cores"),
                *("phase", "cursor", "place", "next_waiter"),
            )
        ),
        *((name, np.float64) for name in ("load", "left_s", "since_s", "rate", "speed", "due_s")),
    ]
)

#: A device: the devices that slow it down are rows ``interference_start`` to ``interference_end`` of `INTERFERENCE`.
#: ``running``: number of its lanes that compute. ``slowed``: how many times slower than planned it is.
DEVICE = np.dtype(
    [
        *((name, np.int64) for name in ("interference_start", "interference_end", "running")),
        ("slowed", np.float64),
    ]
)

#: A device that interferes with another, and the interference factor.
INTERFERENCE = np.dtype([("device", np.int64), ("factor", np.float64)])

#: A processor: its number of cores; how many of them the submitting thread uses until everything is submitted; state of
#: the run: how many of them running instructions, and the submitting thread, could use.
PROCESSOR = np.dtype([("cores", np.int64), ("submitting", np.int64), ("wanted", np.float64)])

#: A channel: its bandwidth, and state of the run: whether it is taken, its number of users, its unused bandwidth.
CHANNEL = np.dtype(
    [("bytes_per_s", np.float64), ("taken", np.int64), ("users", np.int64), ("room_bytes_per_s", np.float64)]
)

#: A disturbance: at a time, a device is slower than planned by a factor; device -1 is a failure.
EVENT = np.dtype([("at_s", np.float64), ("device", np.int64), ("factor", np.float64)])


class Machine(NamedTuple):
    """A plan in the engine's form; a run changes it."""

    #: Records, as above; ``events`` by ascending time.
    steps: Records
    lanes: Records
    devices: Records
    interference: Records
    processors: Records
    channels: Records
    events: Records
    waits: Ints  # instructions waited for, by index
    freed_bytes: Ints  # released so far in each memory space; the last element is for unknown spaces
    contention: int  # see `syclsched.simulation.channels`


def records(dtype: np.dtype[Any], count: int, **columns: object) -> Records:
    """Return records with some fields set, all others zero."""
    made = np.zeros(count, dtype=dtype)
    for name, column in columns.items():
        made[name] = column
    return made.view(np.recarray)
