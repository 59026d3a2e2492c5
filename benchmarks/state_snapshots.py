# SPDX-License-Identifier: Apache-2.0
"""Time of training steps with snapshots of the state, on the CPU device as if the host could not reach its memory.

Usage: ``python benchmarks/state_snapshots.py``. Copies take time on the cores that compute the steps, other than on a
GPU, which copies beside its kernels. Settings take turns on one trainer; the ratios of medians are those of wall-clock
time and of the process's processor time, which other work of the machine changes less.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from common import parser

import syclsched
from syclsched.model.platform import HOST
from syclsched.testing.training_models import convolutional, perceptron, transformer
from syclsched.training.state_snapshots import StateSnapshots

MODELS = {"mlp": perceptron, "cnn": convolutional, "transformer": transformer}


def main() -> None:
    given = parser(__doc__, models=["mlp", "cnn", "transformer"], samples=32, steps=20, runs=15).parse_args()
    cpu = syclsched.discover("cpu")
    platform = replace(cpu, spaces=tuple(replace(s, host_accessible=s.name == HOST) for s in cpu.spaces))
    print(f"{'model':12} {'snapshots':12} {'ms a step':>10} {'wall-clock':>11} {'processor':>10} {'snapshots':>10}")
    for name in given.models:
        model = MODELS[name]()
        batch = model.batch(given.samples)
        ways = {"none": StateSnapshots(0), "by default": StateSnapshots(None), "every step": StateSnapshots(1)}
        made = dict.fromkeys(ways, 0)
        wall: dict[str, list[float]] = {what: [] for what in ways}
        processor: dict[str, list[float]] = {what: [] for what in ways}
        with syclsched.train(model.onnx, platform=platform, snapshots=0) as trainer:
            for turn in range(-1, given.runs):
                for what in [*ways][:: 1 if turn % 2 else -1]:
                    trainer._session.snapshots = ways[what]
                    times = time.perf_counter(), time.process_time()
                    for _ in range(given.steps):
                        before = ways[what].last
                        trainer.step(*batch)
                        made[what] += ways[what].last is not before
                    if turn >= 0:
                        wall[what].append(time.perf_counter() - times[0])
                        processor[what].append(time.process_time() - times[1])
        for what in ways:
            ratios = [statistics.median(each[what]) / statistics.median(each["none"]) for each in (wall, processor)]
            ms = statistics.median(wall[what]) / given.steps * 1e3
            done = given.steps * (given.runs + 1)
            print(f"{name:12} {what:12} {ms:10.2f} {ratios[0]:11.3f} {ratios[1]:10.3f} {made[what]:4} of {done}")


if __name__ == "__main__":
    main()
