# SPDX-License-Identifier: Apache-2.0
"""Frames, each through a kernel and a host function, several at once, in a coroutine."""

import asyncio
import math

import numpy as np
from problems import stream

import syclsched
from syclsched import Read


@syclsched.operation
def soften(item, soft, frame: Read[np.float32]):
    y, x = item.get_id(0), item.get_id(1)
    value = frame[y, x]
    for _ in range(50):
        value = math.sqrt(value + frame[y, x])
    soft[y, x] = value


graph = syclsched.TaskGraph("stream")
frame = graph.array("frame", (256, 256), "float32")
soft = graph.array("soft", frame.shape, frame.dtype)
graph.kernel(soften, soft=soft, frame=frame)
means = graph.submit(lambda pixels: pixels.mean(axis=1), soft, shape=256, dtype="float32", name="means")
runner = syclsched.bind(graph)


async def profiles(frames):
    inputs = ({"frame": frame} for frame in frames())
    return np.stack([each[means.name] async for each in runner.stream(inputs, results=[means.name])])


stream.solve(lambda frames: asyncio.run(profiles(frames)))
