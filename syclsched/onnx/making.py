# SPDX-License-Identifier: Apache-2.0
"""From a model and input shapes to something that runs: specialised, autotuned, planned and bound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import MemoryLimit, with_memory_limit
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device, Platform
from syclsched.model.task import Task
from syclsched.onnx.fitting import without_room
from syclsched.onnx.kept import Bound
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.specialised import Array, Shapes

if TYPE_CHECKING:
    from syclsched.devices import LiveDevices
    from syclsched.execution import Runner


def usual_platform(devices: str | None = None) -> Platform:
    """Return the devices of this machine that a model runs on if nothing else is said.

    Emulators are left out where there is anything else: they compute on the cores that the CPU device uses, and never
    gain anything.

    Parameters
    ----------
    devices : str, optional
        These, emulators or not; as for `syclsched.discover`.
    """
    from syclsched.api import discover

    return without_emulators(discover()) if devices is None else discover(devices)


def without_emulators(platform: Platform) -> Platform:
    """Return a platform without emulators, if there is anything else."""
    real = [device.name for device in platform.compute_devices if not _emulated(device)]
    return platform.select(real) if real else platform


def on_devices(graph: TaskGraph, platform: Platform) -> TaskGraph:
    """Return a graph whose tasks the host does only if no device can: between devices' tasks it holds all of them up.

    Under a limit on memory there may be tasks that no device has room for (`without_room`). The host does these, too.

    Parameters
    ----------
    graph : TaskGraph
        Of a model.
    platform : Platform
        Where it is to run.
    """
    costs = CostModel(platform)

    def done_by_a_device(task: Task) -> bool:
        return task.operation is not None and any(
            costs.supports(task, each, device) is None
            for each in task.operation.implementations
            if each.kind not in ("host", "cost-only")
            for device in platform.compute_devices
        )

    def done_by_library(task: Task) -> bool:
        return task.operation is not None and all(
            any(
                costs.supports(task, each, device) is None
                for each in task.operation.implementations
                if is_library(each)
            )
            for device in platform.compute_devices
            if device.kind == "cpu"
        )

    def is_library(each: Implementation) -> bool:
        return each.name == "onednn"

    def keep(task: Task, each: Implementation) -> bool:
        if task.name in homeless:
            return each.kind == "host"
        if each.kind == "host":
            return not done_by_a_device(task)
        return is_library(each) or not only_cpus or not done_by_library(task)

    homeless = without_room(graph, platform)
    only_cpus = all(device.kind == "cpu" for device in platform.compute_devices)
    return graph.with_implementations(keep)


def _emulated(device: Device) -> bool:
    return device.kind == "accelerator" and "Emulation" in device.description


class Maker:
    """Makes models ready for input shapes, on devices that are opened once.

    Parameters
    ----------
    model : OnnxModel
        Which.
    platform : Platform
        Where.
    policy, minimize, rewrite, subject_to, memory_limit, autotune, progress, trace
        As for `syclsched.onnx.compile`.
    """

    def __init__(
        self,
        model: OnnxModel,
        platform: Platform,
        *,
        policy: str,
        minimize: str,
        rewrite: str | None,
        subject_to: tuple[str, ...],
        memory_limit: MemoryLimit | None,
        autotune: bool,
        progress: Callable[[int, int, str], None] | None,
        trace: bool | int,
    ) -> None:
        self._model = model
        self.platform = platform if memory_limit is None else with_memory_limit(platform, memory_limit)
        lanes = sum(device.lanes for device in platform.compute_devices)
        self._asked: dict[str, Any] = {
            "policy": policy,
            "minimize": minimize,
            "subject_to": subject_to,
            "rewrite": rewrite if rewrite is not None else "auto" if lanes > 1 and policy == "auto" else "none",
        }
        self._autotune, self._progress, self._trace = autotune, progress, trace
        self._live: LiveDevices | None = None
        self._lock = threading.Lock()

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> Bound:
        """Return the model for shapes of its inputs, ready to run.

        Parameters
        ----------
        shapes : Mapping[str, tuple of int]
            Of every input.
        values : Mapping[str, numpy.ndarray]
            Of those that shapes follow from.
        """
        from syclsched.api import plan
        from syclsched.execution import bind
        from syclsched.planner import graph_to_time
        from syclsched.profiling import HistoryStore, calibrate

        specialised = self._model.specialised(shapes, values)
        specialised = replace(specialised, graph=on_devices(specialised.graph, self.platform))
        with self._lock, HistoryStore() as history:  # timings would disturb each other
            live = self._opened()
            if self._autotune:
                calibrate(specialised.graph, self.platform, live, history, progress=self._progress)
                chunks = graph_to_time(
                    specialised.graph,
                    self.platform,
                    policy=self._asked["policy"],
                    rewrite=self._asked["rewrite"],
                    history=history,
                )
                if chunks is not None:
                    calibrate(chunks, self.platform, live, history, progress=self._progress)
            planned = plan(specialised.graph, self.platform, history=history, **self._asked)
            return Bound(specialised, planned, bind(planned, specialised.graph, live, trace=self._trace, recover=True))

    def bound_again(self, bound: Bound, *, trace: int) -> Runner:
        """Return another runner of a plan, which keeps times of so many runs."""
        from syclsched.execution import bind

        return bind(bound.plan, bound.specialised.graph, self._opened(), trace=trace)

    def close(self) -> None:
        """Close the devices."""
        with self._lock:
            if self._live is not None:
                self._live.close()
                self._live = None

    def _opened(self) -> LiveDevices:
        from syclsched.devices import open_devices

        if self._live is None:
            self._live = open_devices(self.platform)
        return self._live
