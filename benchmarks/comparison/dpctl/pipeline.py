# SPDX-License-Identifier: Apache-2.0
"""Edges of images: two kernels in OpenCL C, and NumPy on the host."""

import dpctl
import dpctl.program
import dpctl.tensor as dpt
import numpy as np
from problems import pipeline

SOURCE = """
__kernel void blur(__global const float *image, __global float *smooth) {
    const int x = get_global_id(0), y = get_global_id(1), width = get_global_size(0), height = get_global_size(1);
    float total = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            total += image[clamp(y + dy, 0, height - 1) * width + clamp(x + dx, 0, width - 1)];
    smooth[y * width + x] = total / 9;
}
__kernel void edges(__global const float *image, __global float *gradient) {
    const int x = get_global_id(0), y = get_global_id(1), width = get_global_size(0), height = get_global_size(1);
    const float here = image[y * width + x];
    const float below = image[min(y + 1, height - 1) * width + x], right = image[y * width + min(x + 1, width - 1)];
    gradient[y * width + x] = fabs(below - here) + fabs(right - here);
}
"""
queue = dpctl.SyclQueue("cpu")
program = dpctl.program.create_program_from_source(queue, SOURCE)
blur, edges = program.get_sycl_kernel("blur"), program.get_sycl_kernel("edges")


def run(images):
    gradients = []
    for array in images:
        image = dpt.asarray(array, sycl_queue=queue)
        smooth, gradient = dpt.empty_like(image), dpt.empty_like(image)
        blurred = queue.submit(blur, [image.usm_data, smooth.usm_data], list(image.shape))
        queue.submit(edges, [smooth.usm_data, gradient.usm_data], list(image.shape), dEvents=[blurred])
        gradients.append((gradient, smooth, image))
    queue.wait()
    counts = [np.count_nonzero(dpt.asnumpy(gradient) > 0.1) for gradient, *_ in gradients]
    return [*counts, np.argmax(counts)]


pipeline.solve(run)
