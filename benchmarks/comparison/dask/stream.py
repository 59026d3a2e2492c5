# SPDX-License-Identifier: Apache-2.0
"""Frames, each through a kernel and a function, three at once, in a coroutine."""

import asyncio
from collections import deque

import numba
import numpy as np
from distributed import Client
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


def means(pixels):
    return pixels.mean(axis=1)


async def opened():
    return await Client(asynchronous=True, processes=False, dashboard_address=None)


async def profiles(frames):
    found, pending = [], deque()
    for frame in frames():
        if len(pending) == 3:
            found.append(await pending.popleft())
        pending.append(client.submit(means, client.submit(soften, frame, pure=False), pure=False))
    return found + [await each for each in pending]


loop = asyncio.new_event_loop()
client = loop.run_until_complete(opened())
stream.solve(lambda frames: loop.run_until_complete(profiles(frames)))
loop.run_until_complete(client.close())
