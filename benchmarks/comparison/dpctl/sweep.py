# SPDX-License-Identifier: Apache-2.0
"""The amplitude of an oscillator for many dampings: a kernel in OpenCL C, a work-item for each."""

import ctypes

import dpctl
import dpctl.program
import dpctl.tensor as dpt
from problems import STEPS, sweep

SOURCE = """
__kernel void amplitude(__global const double *dampings, __global double *found, const int steps) {
    const double damping = dampings[get_global_id(0)];
    double x = 0, v = 0, most = 0;
    for (int step = 0; step < steps; step++) {
        v += 1e-3 * (sin(1e-3 * step) - x - damping * v);
        x += 1e-3 * v;
        if (step > steps / 2)
            most = fmax(most, fabs(x));
    }
    found[get_global_id(0)] = most;
}
"""
queue = dpctl.SyclQueue("cpu")
amplitude = dpctl.program.create_program_from_source(queue, SOURCE).get_sycl_kernel("amplitude")


def run(values):
    dampings = dpt.asarray(values, sycl_queue=queue)
    found = dpt.empty_like(dampings)
    queue.submit(amplitude, [dampings.usm_data, found.usm_data, ctypes.c_int(STEPS)], [dampings.size]).wait()
    return dpt.asnumpy(found)


sweep.solve(run)
