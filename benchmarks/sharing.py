# SPDX-License-Identifier: Apache-2.0
"""Times of a short graph beside a long one on the CPU device, and of two long graphs with different shares.

Usage: ``python benchmarks/sharing.py [--calls 300] [--seconds 20] [--n 4096]``. The short graph is a product of 256 x
256 numbers in single precision; it is called back to back, and every 10 ms. The long one is a tiled Cholesky
factorisation, repeated. Both goals are for idle machines: a median beside background work of at most 1.5 times
that alone, and work in proportion to the shares where each of two graphs keeps the device busy.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from common import format_quartiles, parser, repeated

import syclsched
from syclsched import TaskGraph
from syclsched.execution import Runner
from syclsched.kernels import get
from syclsched.workloads import get as workload


def short() -> TaskGraph:
    graph = TaskGraph("short")
    ones = np.ones((256, 256), np.float32)
    a, b, c = graph.array("a", data=ones), graph.array("b", data=ones), graph.array("c", (256, 256), "float32")
    graph.kernel(get("gemm"), c=c, a=a, b=b)
    graph.kernel(get("scale"), x=c, alpha=2.0)
    return graph


def products(count: int) -> TaskGraph:
    """Return independent products, which keep the device busy."""
    graph = TaskGraph("products")
    a, b = graph.array("a", data=np.ones((256, 256))), graph.array("b", data=np.ones((256, 256)))
    for number in range(count):
        graph.kernel(get("gemm"), name=f"t{number}", c=graph.array(f"c{number}", (256, 256)), a=a, b=b)
    return graph


@contextmanager
def running(runner: Runner, inputs: Any = None) -> Iterator[list[float]]:
    """Run repeatedly on another thread; yield the times of the runs, in seconds."""
    ended, found = threading.Event(), list[float]()

    def go_on() -> None:
        while not ended.is_set():
            begun_s = time.perf_counter()
            runner.run(inputs).wait()
            found.append(time.perf_counter() - begun_s)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def latencies(runner: Runner, calls: int, pause_s: float) -> list[float]:
    found = []
    for _ in range(calls):
        time.sleep(pause_s)
        begun_s = time.perf_counter()
        runner()
        found.append(1e3 * (time.perf_counter() - begun_s))
    return found


def beside(n: int, calls: int) -> None:
    kind = workload("cholesky")
    long = kind.build(kind.options(n=n, tile=256))
    options: dict[str, dict[str, Any]] = {"an ordinary run": {}, "a run of priority -1": {"priority": -1}}
    print("| calls of the short graph | alone, ms | beside | ms | ratio of medians | a long run, s (alone) |")
    print("|---" * 6 + "|")
    with syclsched.bind(short(), policy="single:cpu", trace=False) as runner:
        latencies(runner, 20, 0.0)
        for name, given in options.items():
            with syclsched.bind(long.graph, policy="single:cpu", **given) as other:
                alone_s = repeated(lambda other=other: other.run(long.inputs).wait(), 9, time.perf_counter)
                for pause_s, how in ((0.0, "back to back"), (0.01, "every 10 ms")):
                    alone: list[float] = []
                    shared: list[float] = []
                    times_s: list[float] = []
                    for _ in range(3):
                        alone += latencies(runner, calls // 3, pause_s)
                        with running(other, long.inputs) as found_s:
                            time.sleep(0.2)  # until it is running
                            shared += latencies(runner, calls // 3, pause_s)
                        times_s += found_s
                    ratio = statistics.median(shared) / statistics.median(alone)
                    took = f"{statistics.median(times_s):.2f} ({statistics.median(alone_s):.2f})"
                    cells = how, format_quartiles(alone), name, format_quartiles(shared), f"{ratio:.2f}", took
                    print(f"| {' | '.join(cells)} |")


def by_share(seconds: float) -> None:
    print("\n| shares | runs of each | ratio |\n|---|---|---|")
    for shares in ((1.0, 1.0), (1.0, 2.0), (1.0, 4.0)):
        runners = [syclsched.bind(products(500), policy="single:cpu", share=share) for share in shares]
        with running(runners[0]) as first, running(runners[1]) as second:
            time.sleep(seconds)
            counts = len(first), len(second)
        print(f"| {shares[0]:g} : {shares[1]:g} | {counts[0]}, {counts[1]} | {counts[1] / counts[0]:.2f} |")
        for runner in runners:
            runner.close()


if __name__ == "__main__":
    arguments = parser(__doc__, calls=300, seconds=20.0, n=4096).parse_args()
    beside(arguments.n, arguments.calls)
    by_share(arguments.seconds)
