# SPDX-License-Identifier: Apache-2.0
"""Arithmetic throughput per dtype: chains of fused multiply-adds with independent accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.errors import MeasurementError
from syclsched.model.platform import Device, backend_facts
from syclsched.model.profile import Quantity
from syclsched.profiling.measure.bench import Bench, event_seconds
from syclsched.profiling.measure.microkernels import fma_flops, fma_operation, fma_reference
from syclsched.profiling.measure.session_budget import SessionBudget
from syclsched.profiling.statistics import rate

#: In order of measurement; a profile needs at least the first.
DTYPES = ("float32", "float64", "int32", "float16")

#: Work-items per compute unit: on a GPU several per vector lane of each thread, on a CPU 32 work-groups.
ITEMS_PER_UNIT = 2048

#: Upper bound of work-items, so that the arrays stay small.
MAX_ITEMS = 1 << 21

#: Multiplier, addend and iterations whose results are small integers: exact in every dtype, float16 included.
_KNOWN_ANSWERS = ((2, 1, 3), (1, 1, 100))

_FIRST_ITERATIONS = 64
_MAX_ITERATIONS = 1 << 26


def measurable_dtypes(device: Device) -> tuple[str, ...]:
    """Return the dtypes whose throughput can be measured on a device.

    Half precision needs a device that takes OpenCL C.
    """
    return tuple(
        d for d in DTYPES if d in device.dtypes and (d != "float16" or backend_facts(device.backend).takes_source)
    )


def _fill_items(device: Device) -> int:
    """Return the number of work-items that fill a device, a multiple of 64."""
    return min(max(device.compute_units, 1) * ITEMS_PER_UNIT, MAX_ITEMS)


class FmaChain:
    """The FMA chain of one dtype on a device, verified on construction."""

    def __init__(self, bench: Bench, dtype: str) -> None:
        self.bench = bench
        self.dtype = dtype
        self.items = _fill_items(bench.device)
        kind = np.dtype(dtype)
        self._host_x = (np.arange(self.items) % 2).astype(kind)
        self._arrays = {
            "x": bench.array(self._host_x),
            "c": bench.array(np.ones(2, dtype=kind)),
            "y": bench.array(np.zeros(self.items, dtype=kind)),
        }
        self._executable = bench.compile(fma_operation(dtype), self._arrays, {"n": 1})
        for multiplier, addend, iterations in _KNOWN_ANSWERS:
            self._verify(np.array([multiplier, addend], dtype=kind), iterations)

    def bind(self, iterations: int) -> Any:
        """Return a submission with this many iterations."""
        return self._executable.bind({**self._arrays, "n": iterations})

    def _verify(self, constants: np.ndarray[Any, Any], iterations: int) -> None:
        self._arrays["c"] = self.bench.array(constants)
        self.bind(iterations).submit(self.bench.queue, [])
        values, which = np.unique(self._host_x, return_inverse=True)  # two: the reference is a loop in Python
        expected = fma_reference(values, constants, iterations)[which]
        if not np.array_equal(self.bench.read(self._arrays["y"]), expected):
            raise MeasurementError(
                f"the FMA chain gives wrong {self.dtype} results", where=f"device {self.bench.device.name!r}"
            )

    def seconds(self, iterations: int) -> float:
        """Run the chain once and return the device's seconds."""
        submission = self.bind(iterations)
        event = submission.submit(self.bench.queue, [])
        event.wait()
        return event_seconds(event)

    def iterations_for(self, seconds: float) -> int:
        """Return the number of iterations that take about this many seconds."""
        iterations = _FIRST_ITERATIONS
        while True:
            self.bench.sampler.check()
            taken = self.seconds(iterations)
            if taken >= seconds / 4 or iterations >= _MAX_ITERATIONS:
                return max(1, min(int(iterations * seconds / max(taken, 1e-9)), _MAX_ITERATIONS))
            iterations *= 4


def measure_throughput(bench: Bench, dtype: str, budget: SessionBudget) -> Quantity:
    """Measure the operations per second of FMA chains; a multiply-add counts as two."""
    chain = FmaChain(bench, dtype)
    iterations = chain.iterations_for(budget.kernel_s)
    seconds = bench.sampler.sample_until(lambda: chain.seconds(iterations), budget.number_s)
    return rate(seconds, fma_flops(chain.items, iterations))
