# SPDX-License-Identifier: Apache-2.0
"""Build of a runnable model for known input shapes: specialisation, autotuning, planning, binding."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.onnx.freed_memory import give_back
from syclsched.onnx.loop_plans import plan_bodies
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.specialised import Array, Shapes, Specialised
from syclsched.onnx.tuning.autotune import VariantBuilder, faster_variant, predicted_variant, rebind
from syclsched.onnx.tuning.implementations import (
    chosen_before,
    for_other_shapes,
    is_bound_by_weights,
    on_devices,
    without_implementations,
)
from syclsched.onnx.tuning.kernel_selection import is_worth_mixing, sample_inputs
from syclsched.onnx.tuning.variable_weights import offered_graph
from syclsched.planner.memory_limit import MemoryLimit, with_memory_limit
from syclsched.progress import Progress, shown

if TYPE_CHECKING:
    from syclsched.devices import OpenDevices
    from syclsched.execution import Runner
    from syclsched.frontends.onnx.importing.lengths import CountedAxes
    from syclsched.frontends.onnx.observed_extents import ObservedExtents
    from syclsched.planner import PlanRequest

_LOGGER = logging.getLogger("syclsched")

#: Weights from this size on justify an explicit garbage collection, which takes 0.2 s.
_MUCH_BYTES: Final = 8 << 20


def default_platform(devices: str | None = None) -> Platform:
    """Return the selected devices of this machine, by default all except emulators."""
    from syclsched.api import discover

    return discover(devices)


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
        reuse: bool,
        deterministic: bool,
        without: frozenset[str],
        progress: Progress | bool | None,
        trace: bool | int,
        carried: Mapping[str, str],
    ) -> None:
        self._model = model
        self._carried = carried
        self.platform = platform if memory_limit is None else with_memory_limit(platform, memory_limit)
        self._request = request
        self._without, self._is_limited = without, memory_limit is not None
        self._autotune, self._progress, self._trace = autotune, progress, trace
        self._reuse, self._deterministic = reuse, deterministic
        self._mixes = autotune and is_worth_mixing(platform, request)
        #: Implementations of tasks that were chosen by measurement, for other shapes of the same tasks: of products of
        #: one row, which decoding makes, and of all others.
        self._chosen: dict[bool, dict[str, str | None]] = {True: {}, False: {}}
        self._live: OpenDevices | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._programs = -1  # that the process had when memory was last given back

    def make(
        self,
        shapes: Shapes,
        values: Mapping[str, Array],
        observed: ObservedExtents | None = None,
        counted: CountedAxes | None = None,
    ) -> BoundModel:
        """Return the model planned and bound for these input shapes; see `OnnxModel.specialised`."""
        with shown(f"preparation of {self._model.name!r}", self._progress) as progress:
            specialise = partial(self._model.specialised, shapes, values, self._carried, observed, counted)
            return self._planned_and_bound(specialise, values, progress)

    def _planned_and_bound(
        self, specialise: Callable[[], Specialised], values: Mapping[str, Array], progress: Progress | None
    ) -> BoundModel:
        from syclsched.costs import MemoryHistory
        from syclsched.planning_session import PlanningSession
        from syclsched.profiling import HistoryStore
        from syclsched.profiling.storage.plan_store import PlanStore

        tell_step = partial(self._tell, progress)
        tell_step("making tasks of the model")
        with paused_collection():
            specialised = specialise()
            graph = offered_graph(specialised.graph, self.platform, self._without, mixes=self._mixes)
        is_known = self._is_known(graph)
        specialised = replace(specialised, graph=graph)
        has_rejected = not is_known
        with self._lock, HistoryStore() as history:  # concurrent timings would disturb each other
            try:
                # With one lane, tasks with a single implementation are timed in a run of the model.
                session = PlanningSession(
                    self._request_for(specialised),
                    self.platform,
                    MemoryHistory() if self._deterministic else history,  # type: ignore[arg-type]  # only read
                    progress,
                    self._mixes,
                    plans=PlanStore() if self._reuse else None,
                    tell=partial(_LOGGER.info, "model %r: %s", self._model.name),
                )
                variants = VariantBuilder(
                    session,
                    self._opened(),
                    specialised,
                    tell_step,
                    self._trace,
                    tries=not self._mixes,
                    is_limited=self._is_limited,
                )
                with ExitStack() as unless_bound:
                    bodies = plan_bodies(graph, self.platform, partial(self._bound_body, variants))
                    for each in bodies:
                        unless_bound.callback(each.close)
                    bound, has_rejected = self._bound(variants, graph, values, is_known=is_known)
                    unless_bound.callback(bound.close)
                    bound.runner.build_chains()  # before the compiler's memory is given back
                    unless_bound.pop_all()
                bound.bodies = bodies
                return bound
            finally:
                self._release_unneeded(specialised, has_rejected=has_rejected)

    def _bound_body(self, variants: VariantBuilder, graph: TaskGraph) -> Runner:
        graph = on_devices(without_implementations(graph, self._without, self.platform), self.platform)
        with ExitStack() as unless_built:
            runner = unless_built.enter_context(variants.plan_and_bind(graph, calibrate=self._autotune).runner)
            runner.build_chains()
            unless_built.pop_all()
            return runner

    def _request_for(self, specialised: Specialised) -> PlanRequest:
        if not specialised.stay:
            return self._request
        return replace(self._request, stay=tuple(specialised.stay.items()), rewrite="none")

    def _is_known(self, graph: TaskGraph) -> bool:
        """Return whether the implementations of most tasks were chosen for other shapes."""
        chosen = self._chosen[is_bound_by_weights(graph)]
        return 2 * sum(task.name in chosen for task in graph.tasks) > len(graph)

    def _bound(
        self, variants: VariantBuilder, graph: TaskGraph, values: Mapping[str, Array], *, is_known: bool
    ) -> tuple[BoundModel, bool]:
        """Return the model with the implementations chosen for other shapes, else the fastest; and if others lost."""
        chosen = self._chosen[is_bound_by_weights(graph)]
        if is_known:
            known = chosen_before(graph, self.platform, chosen)
            return variants.plan_and_bind(known, calibrate=False), False
        if not self._mixes:
            return variants.plan_and_bind(on_devices(graph, self.platform), calibrate=self._autotune), True
        predicted = None if self._model.least_gain else predicted_variant(graph, variants)
        if predicted is not None:
            bound = predicted
        else:
            bound = variants.plan_and_bind(on_devices(graph, self.platform))
            bound = faster_variant(bound, graph, values, variants, self._model.least_gain)
        costs = CostModel(self.platform, variants.session.history)
        chosen.update(for_other_shapes(graph, bound.plan, costs))
        return bound, predicted is None

    def _release_unneeded(self, specialised: Specialised, *, has_rejected: bool) -> None:
        """Release memory that calls do not need: devices hold the weights in the chosen layouts."""
        from syclsched.devices.memory.constant_uploads import release_unused
        from syclsched.devices.programs.programs import program_count

        constants = specialised.graph.constants
        if has_rejected and sum(each.nbytes for each in constants) >= _MUCH_BYTES:
            gc.collect()  # frees rejected implementations
        release_unused(constants)
        if specialised.evictable is not None:
            specialised.evictable.evict(constants)
        before, self._programs = self._programs, program_count()
        give_back(library_pages=self._programs != before)

    def _tell(self, progress: Progress | None, what: str) -> None:
        _LOGGER.info("model %r: %s", self._model.name, what)
        if progress is not None:
            progress(0, 0, what)

    def rebind(self, bound: BoundModel, trace: int | Literal["exact"]) -> Runner:
        """Bind a model's plan again; see `syclsched.onnx.tuning.autotune.rebind`."""
        return rebind(bound, self._opened(), trace)

    def another_runner(self, bound: BoundModel) -> Runner | None:
        """Return a further runner of a model's plan, which has run once; None if memory is limited or there is state.

        Weights are shared; inputs, outputs and activations are not.
        """
        from syclsched.execution import bind

        if self._is_limited or bound.plan.residents:
            return None
        specialised = bound.specialised
        with self._lock:
            if self._closed:
                return None
            runner = bind(bound.plan, specialised.graph, self._opened(), trace=False, recover=True)
            try:
                runner(specialised.given(sample_inputs(specialised, {})), specialised.fetched)
            except BaseException:
                runner.close()
                raise
        return runner

    def lost_devices(self) -> tuple[str, ...]:
        """Return the devices that do not respond."""
        from syclsched.execution.recovery.health import lost_devices

        return lost_devices(self._opened())

    def close(self) -> None:
        """Close the devices."""
        with self._lock:
            self._closed = True
            if self._live is not None:
                self._live.close()
                self._live = None

    def _opened(self) -> OpenDevices:
        from syclsched.devices import open_devices

        if self._live is None:
            self._live = open_devices(self.platform)
        return self._live
