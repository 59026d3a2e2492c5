# SPDX-License-Identifier: Apache-2.0
"""Frames, each through a kernel and a function, three at once, in a coroutine."""

import asyncio
from collections import deque

import numba
import numpy as np
import starpu
from problems import stream


@numba.njit(nogil=True)
def soften(frame):
    soft = np.empty_like(frame)
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            value = frame[y, x]
            for _ in range(50):
                value = np.sqrt(value + frame[y, x])
            soft[y, x] = value
    return soft


def means(frame):
    return soften(frame).mean(axis=1)


async def profiles(frames):
    found, pending = [], deque()
    for frame in frames():
        if len(pending) == 3:
            found.append(await pending.popleft())
        pending.append(starpu.task_submit()(means, frame))
    return np.stack(found + [await each for each in pending])


starpu.init()
stream.solve(lambda frames: asyncio.run(profiles(frames)))
starpu.shutdown()
