# SPDX-License-Identifier: Apache-2.0
"""Time of a bound run by the form of its input: a NumPy array, the caller's USM memory, the runner's own buffer.

Run as ``python benchmarks/inputs.py [MIB ...]``. A run reads the input once, by a kernel on the CPU device; the
variants take turns. In the last two the caller has written the value into the memory that kernels read, which is not
timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
from common import alternating, parser

import syclsched as ss
from syclsched.kernels import get
from syclsched.oneapi.dpctl_interface import usm_arrays

ROUNDS = 40


def graph_of(elements: int, usm: str | None) -> ss.TaskGraph:
    """Return a graph of one kernel that reads an input."""
    graph = ss.TaskGraph("inputs")
    x = graph.array("x", (elements,), "float32", usm=usm)  # type: ignore[arg-type]
    graph.kernel(get("copy"), name="copy", x=x, y=graph.array("y", (elements,), "float32"))
    return graph


def measure(mebibytes: int) -> dict[str, list[float]]:
    """Return milliseconds of runs, by form of the input."""
    elements = (mebibytes << 20) // 4
    data = np.random.default_rng(1).random(elements, "float32")
    platform = ss.discover().select(["cpu"])
    with (
        ss.bind(graph_of(elements, None), platform, policy="single:cpu", trace=False) as copying,
        ss.bind(graph_of(elements, "shared"), platform, policy="single:cpu", trace=False) as given,
        ss.bind(graph_of(elements, "shared"), platform, policy="single:cpu", trace=False) as filled,
    ):
        tensor = usm_arrays()

        usm = tensor.asarray(data, usm_type="shared", device="opencl:cpu")
        np.copyto(filled.buffer("x"), data)
        ways: dict[str, Callable[[], object]] = {
            "NumPy array, copied by the plan": lambda: copying({"x": data}, ()),
            "USM memory of the caller's, in place": lambda: given({"x": usm}, ()),
            "buffer of the runner's, in place": lambda: filled(None, ()),
        }
        found = {way: [s * 1e3 for s in times] for way, times in alternating(ways, ROUNDS, warm_ups=3).items()}
        for runner, value in ((copying, data), (given, usm), (filled, filled.buffer("x"))):
            np.testing.assert_array_equal(runner({"x": value}, ["y"])["y"], data)
    return found


def main() -> None:
    """Print a table."""
    options = parser(__doc__)
    options.add_argument("mebibytes", nargs="*", type=int, default=[1, 16], help="sizes of the input")
    print("| input | way | ms a run, median | quartiles |")
    print("|---|---|---|---|")
    for mebibytes in options.parse_args().mebibytes:
        for way, times in measure(mebibytes).items():
            low, middle, high = statistics.quantiles(times, n=4)
            print(f"| {mebibytes} MiB | {way} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)


if __name__ == "__main__":
    main()
