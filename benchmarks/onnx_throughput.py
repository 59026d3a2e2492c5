# SPDX-License-Identifier: Apache-2.0
"""Images a second of a model on one lane and on two: whole batches, batches divided in two, and layers in a pipeline.

    python benchmarks/onnx_throughput.py [--model squeezenet] [--batch 4] [--rounds 5] [--without-onednn]
    python benchmarks/onnx_throughput.py --platform cpu,max1550 [--batch 32]

Lanes are one core of the CPU device each, as far as possible: oneDNN's threads belong to no lane, so
``--without-onednn`` leaves its work to kernels. All variants alternate in one process, three batches in flight for a
stream; "predicted" is the plan's, of tasks timed alone. With ``--platform`` nothing is run: the plans' predictions for
described hardware.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from common import one_core_queues, parser

#: The variants: lanes, options of the plan, and whether batches follow each other as a stream.
WAYS: dict[str, tuple[int, dict[str, str], bool]] = {
    "one lane, batch after batch": (1, {"rewrite": "none"}, False),
    "two lanes, batch after batch": (2, {"rewrite": "none"}, False),
    "two lanes, batches cut": (2, {"rewrite": "split"}, False),
    "one lane, stream": (1, {"rewrite": "none"}, True),
    "two lanes, layers in a pipeline": (2, {"rewrite": "none", "minimize": "throughput"}, True),
    "two lanes, cut and in a pipeline": (2, {"rewrite": "split", "minimize": "throughput"}, True),
}
BATCHES, IN_FLIGHT = 6, 3


def model_of(name: str, batch: int) -> Any:
    """Return a well-known network for batches of images."""
    from syclsched.testing.models import light_model

    model = light_model(name)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    return model


def seconds_a_batch(made: Any, batch: Any, stream: bool) -> float:
    """Run some batches, and return the seconds of one; of a stream, from its steady state to its last result."""
    if not stream:
        begun = time.perf_counter()
        for _ in range(BATCHES):
            made(batch)
        return (time.perf_counter() - begun) / BATCHES
    ends = [time.perf_counter() for _ in made.stream([batch] * (BATCHES + IN_FLIGHT), in_flight=IN_FLIGHT)]
    return (ends[-1] - ends[IN_FLIGHT - 1]) / BATCHES


def predicted(plan: Any, stream: bool) -> float:
    """Return seconds a batch by a plan."""
    return float(plan.interval_s if stream else plan.makespan_s)


def measured(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Run all variants in turns, and yield a line for each."""
    import syclsched

    model = model_of(options.model, options.batch)
    batch = np.random.default_rng(0).standard_normal((options.batch, 3, 224, 224)).astype(np.float32)
    with ExitStack() as stack:
        ways: dict[str, Callable[[], float]] = {}
        plans: dict[str, float] = {}
        for name, (lanes, asked, stream) in WAYS.items():
            platform = syclsched.discover("cpu", lanes=lanes)
            made = stack.enter_context(syclsched.compile(model, platform, **asked))  # type: ignore[arg-type]
            made(batch)
            ways[name] = lambda made=made, stream=stream: seconds_a_batch(made, batch, stream)  # type: ignore[misc]
            plans[name] = predicted(made.plan, stream)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(options.rounds + 1):
            for name, way in ways.items():
                taken_s = way()
                times[name] += [taken_s] if turn else []
    base = next(iter(times.values()))
    for name, found in times.items():
        ratio = statistics.median(base) / statistics.median(found)
        yield (
            name,
            f"{options.batch / statistics.median(found):6.1f} images/s ({options.batch / max(found):.1f} to "
            f"{options.batch / min(found):.1f}), {ratio:.2f} x; predicted {options.batch / plans[name]:6.1f}",
        )


def described(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Plan all variants for described hardware, one device at a time and all, and yield a line for each."""
    import syclsched
    from syclsched.onnx.tuning.implementations import on_devices

    graph = syclsched.onnx.load(model_of(options.model, options.batch)).graph
    names = options.platform.split(",")
    for devices in dict.fromkeys((*((name,) for name in names), tuple(names))):
        platform = syclsched.describe(list(devices))
        for name, (lanes, asked, stream) in WAYS.items():
            if (lanes == 1) != (len(devices) == 1):
                continue
            plan = syclsched.plan(on_devices(graph, platform), platform, **asked)
            label = f"{', '.join(devices)}: {name.split(', ', 1)[1]}"
            yield label, f"{options.batch / predicted(plan, stream):8.1f} images/s predicted"


def main() -> None:
    """Print a line for each variant."""
    arguments = parser(__doc__, model="squeezenet", batch=4, rounds=5, without_onednn=False)
    arguments.add_argument("--platform", default=None)
    options = arguments.parse_args()
    one_core_queues()
    if options.without_onednn:
        from syclsched.costs import capability

        known = capability.installed
        capability.installed = lambda package: package != "onednn" and known(package)  # type: ignore[assignment]
    for name, line in described(options) if options.platform else measured(options):
        print(f"{name:40} {line}", flush=True)


if __name__ == "__main__":
    main()
