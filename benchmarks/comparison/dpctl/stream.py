# SPDX-License-Identifier: Apache-2.0
"""Frames, each through a kernel and a host function, three at once, in a coroutine that polls the events."""

import asyncio

import dpctl
import dpctl.program
import dpctl.tensor as dpt
from problems import stream

SOURCE = """
__kernel void soften(__global const float *frame, __global float *soft) {
    const size_t i = get_global_id(0) + get_global_id(1) * get_global_size(0);
    float value = frame[i];
    for (int k = 0; k < 50; k++)
        value = sqrt(value + frame[i]);
    soft[i] = value;
}
"""
queue = dpctl.SyclQueue("cpu")
soften = dpctl.program.create_program_from_source(queue, SOURCE).get_sycl_kernel("soften")
slots = [tuple(dpt.empty((256, 256), dtype="f4", sycl_queue=queue) for _ in range(2)) for _ in range(3)]


async def means(pixels, event, _):
    while event.execution_status != dpctl.event_status_type.complete:
        await asyncio.sleep(0)
    return dpt.asnumpy(pixels).mean(axis=1)


async def profiles(frames):
    found, pending = [], []
    for number, array in enumerate(frames()):
        if len(pending) == len(slots):
            found.append(await means(*pending.pop(0)))
        frame, soft = slots[number % len(slots)]
        copied = queue.memcpy_async(frame.usm_data, array.view("u1").ravel(), array.nbytes)
        event = queue.submit_async(soften, [frame.usm_data, soft.usm_data], [256, 256], dEvents=[copied])
        pending.append((soft, event, array))  # the copy needs the array until it has completed
    return found + [await means(*each) for each in pending]


stream.solve(lambda frames: asyncio.run(profiles(frames)))
