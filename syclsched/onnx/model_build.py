# SPDX-License-Identifier: Apache-2.0
"""Build of a runnable model for known input shapes: specialisation, autotuning, planning, binding."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import MemoryLimit, with_memory_limit
from syclsched.model.platform import Device, Platform
from syclsched.onnx.array_types import Array, Shapes
from syclsched.onnx.autotune import AutotuneContext, faster_variant
from syclsched.onnx.implementations import on_devices, without_implementations
from syclsched.onnx.kernel_selection import is_worth_mixing
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.weight_eviction import trim_heap

if TYPE_CHECKING:
    from syclsched.devices import OpenDevices
    from syclsched.execution import Runner
    from syclsched.planner import PlanRequest
    from syclsched.profiling import HistoryStore

_LOGGER = logging.getLogger("syclsched")

#: Weights from this size on justify an explicit garbage collection, which takes 0.2 s.
_MUCH_BYTES: Final = 8 << 20


def default_platform(devices: str | None = None) -> Platform:
    """Return the selected devices of this machine, by default all except emulators.

    Emulators compute on the cores of the CPU device, so they never gain anything beside it.
    """
    from syclsched.api import discover

    return without_emulators(discover()) if devices is None else discover(devices)


def without_emulators(platform: Platform) -> Platform:
    """Return a platform without emulators, if it has other devices."""
    real = [device.name for device in platform.compute_devices if not _emulated(device)]
    return platform.select(real) if real else platform


def _emulated(device: Device) -> bool:
    return device.kind == "accelerator" and "Emulation" in device.description


class ModelBuilder:
    """Builds bound models for input shapes, on devices that are opened once."""

    def __init__(
        self,
        model: OnnxModel,
        platform: Platform,
        request: PlanRequest,
        *,
        memory_limit: MemoryLimit | None,
        autotune: bool,
        without: frozenset[str],
        progress: Callable[[int, int, str], None] | None,
        trace: bool | int,
    ) -> None:
        self._model = model
        self.platform = platform if memory_limit is None else with_memory_limit(platform, memory_limit)
        self._request = request
        self._without = without
        self._autotune, self._progress, self._trace = autotune, progress, trace
        self._mixes = autotune and is_worth_mixing(platform, request, is_limited=memory_limit is not None)
        self._live: OpenDevices | None = None
        self._lock = threading.Lock()

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> BoundModel:
        """Return the model planned and bound for these input shapes."""
        from syclsched.profiling import HistoryStore

        self._tell("making tasks of the model")
        specialised = self._model.specialised(shapes, values)
        specialised = replace(specialised, graph=without_implementations(specialised.graph, self._without))
        with self._lock, HistoryStore() as history:  # concurrent timings would disturb each other
            try:
                return self._build(specialised, values, history)
            finally:
                self._release_unneeded(specialised)

    @staticmethod
    def _release_unneeded(specialised: Specialised) -> None:
        """Release memory that calls do not need: devices hold the weights in the chosen layouts."""
        from syclsched.devices.memory.constant_uploads import release_unused

        constants = specialised.graph.constants
        if sum(each.nbytes for each in constants) >= _MUCH_BYTES:
            gc.collect()  # frees rejected implementations
        release_unused(constants)
        if specialised.evictable is not None:
            specialised.evictable.let_go(constants)
        trim_heap()

    def _build(self, specialised: Specialised, values: Mapping[str, Array], history: HistoryStore) -> BoundModel:
        bound = self._bound(specialised, on_devices(specialised.graph, self.platform), history)
        if not self._mixes:
            return bound
        make = partial(self._bound, specialised, history=history)
        track = AutotuneContext(self.platform, history, make, self.rebind, self._tell, bool(self._trace))
        return faster_variant(bound, specialised.graph, values, track)

    def _bound(self, specialised: Specialised, graph: TaskGraph, history: HistoryStore) -> BoundModel:
        """Autotune, plan and bind a variant of the model's graph."""
        from syclsched.api import plan
        from syclsched.execution import bind

        live = self._opened()
        if self._autotune:
            self._tell("timing implementations")
            self._request.calibrate(graph, self.platform, history, partial(self._calibrate, history=history))
        self._tell("planning")
        planned = plan(graph, self.platform, history=history, **self._request.options())
        self._tell("building kernels and binding the plan")
        runner = bind(planned, graph, live, trace=self._trace, recover=True)
        return BoundModel(replace(specialised, graph=graph), planned, runner)

    def _calibrate(self, graph: TaskGraph, history: HistoryStore) -> None:
        from syclsched.profiling import calibrate

        # With one lane, tasks with a single implementation are timed in a run of the model.
        calibrate(graph, self.platform, self._opened(), history, progress=self._progress, choices_only=self._mixes)

    def _tell(self, what: str) -> None:
        _LOGGER.info("model %r: %s", self._model.name, what)
        if self._progress is not None:
            self._progress(0, 0, what)

    def rebind(self, bound: BoundModel, trace: int | Literal["exact"]) -> Runner:
        """Bind a plan again, with traces of the last ``trace`` runs, or exact ones."""
        from syclsched.execution import bind

        return bind(bound.plan, bound.specialised.graph, self._opened(), trace=trace)

    def close(self) -> None:
        """Close the devices."""
        with self._lock:
            if self._live is not None:
                self._live.close()
                self._live = None

    def _opened(self) -> OpenDevices:
        from syclsched.devices import open_devices

        if self._live is None:
            self._live = open_devices(self.platform)
        return self._live
