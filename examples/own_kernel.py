# SPDX-License-Identifier: Apache-2.0
"""An operation of your own, with a kernel in Python, OpenCL C and a NumPy function; all three must agree."""

from typing import Any

import numpy as np

import syclsched
from syclsched.model.operation import DeviceLimits, OpenCLSource, Signature

SOURCE = """
__kernel void rectify(__global float *x, float slope) {
    size_t i = get_global_id(0);
    x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}
"""


@syclsched.kernel
def rectify(item: Any, x: Any, slope: Any) -> None:
    """Multiply what is negative; compiled for the device by the first task that needs it."""
    i = item.get_id(0)
    if x[i] < 0:
        x[i] = slope * x[i]


def on_host(x: Any, slope: float) -> None:
    """Do the same in NumPy, in place."""
    np.copyto(x, np.where(x < 0, np.float32(slope) * x, x))


def index_space(signature: Signature, limits: DeviceLimits) -> syclsched.Launch:
    """One work-item per element; the runtime chooses the work-group."""
    return syclsched.Launch((signature.shapes["x"][0],))


def work(signature: Signature) -> syclsched.Work:
    """One multiplication per element, which is read and written once."""
    count = signature.shapes["x"][0]
    return syclsched.Work(flops=count, bytes=8.0 * count, dtype="float32", parallelism=count)


RECTIFY = syclsched.Operation(
    name="rectify",
    parameters=(
        syclsched.Parameter("x", syclsched.AccessMode.UPDATE, ndim=1, dtypes=("float32",)),
        syclsched.Parameter("slope", like="x"),
    ),
    implementations=(
        syclsched.Implementation("python", "python", lambda _: rectify, index_space),
        syclsched.Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(SOURCE, "rectify"),
            index_space,
            syclsched.Requirements(backends=("opencl",)),
        ),
        syclsched.Implementation("numpy", "host", lambda _: on_host),
    ),
    work=work,
)


def only(name: str) -> syclsched.Operation:
    """Return the operation with one of its implementations."""
    from dataclasses import replace

    return replace(RECTIFY, implementations=(RECTIFY.implementation(name),))


def main() -> None:
    data = np.linspace(-1, 1, 1001, dtype="float32")
    expected = np.where(data < 0, np.float32(0.1) * data, data)
    graph = syclsched.TaskGraph("three ways")
    arrays = {}
    for implementation in RECTIFY.implementations:
        arrays[implementation.name] = graph.array(f"x by {implementation.name}", data=data)
        graph.kernel(only(implementation.name), x=arrays[implementation.name], slope=0.1)
    with syclsched.run(graph) as run:
        for name, array in arrays.items():
            print(f"{name}: largest difference {np.abs(run.result(array) - expected).max():.1e}")
            np.testing.assert_allclose(run.result(array), expected, rtol=1e-6)


if __name__ == "__main__":
    main()
