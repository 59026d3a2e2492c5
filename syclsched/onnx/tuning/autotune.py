# SPDX-License-Identifier: Apache-2.0
"""Autotuning of a model: the plan by the library alone and plans with kernels are run, and the fastest is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from syclsched.costs import CostModel
from syclsched.devices.submission.native_run import TRIALS, WAYS
from syclsched.errors import CapabilityError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.report import OperatorTime, measured_times
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.tuning.implementations import on_devices, without_dominated, without_untimed
from syclsched.onnx.tuning.kernel_selection import (
    CLEAR_SHARE,
    COMPARED_ROUNDS,
    COMPARED_TRIES,
    LEAST_TRACED_RUNS,
    LIBRARY,
    LONG_S,
    MIDDLE_S,
    ROUNDS,
    SHORT_S,
    TRACED_RUNS,
    TRACED_S,
    WORTH_TRYING,
    is_known,
    measure_undisturbed,
    predicted_kernels,
    record_corrections,
    record_times,
    sample_inputs,
    samples,
    saved_share,
    select_kernels,
    task_times,
    whole_s,
)
from syclsched.onnx.tuning.plan_comparison import (
    CLEARLY,
    NO_SLOWER,
    SHORT_PAUSES_S,
    comparison_key,
    is_known_faster,
    measure_is_faster,
    time_alternating,
)

if TYPE_CHECKING:
    from syclsched.costs.history import HistoryKey, RunKind
    from syclsched.devices import OpenDevices
    from syclsched.execution import Runner
    from syclsched.model.platform import Device
    from syclsched.planning_session import ChosenPlan, PlanningSession
    from syclsched.profiling.calibration import RecordingHistory

_LOGGER = logging.getLogger("syclsched")

#: Share of a memory limit for which a plan is made if one for all of it is not replayed. A plan on one lane takes up to
#: 0.2 % more than its peak.
_LAID_OUT: Final = 0.995
#: Runs of each of two short plans before they are compared: more than those that try the ways to make a run.
SHORT_WARM_UPS: Final = WAYS * TRIALS + 2


class VariantMaker(Protocol):
    """A function that plans and binds a variant, which is closed if another one is kept."""

    def __call__(self, tried: TaskGraph, *, calibrate: bool = True) -> BoundModel:
        """Return the variant; its implementations are timed unless that has been done."""
        ...


@dataclass(frozen=True, slots=True)
class VariantBuilder:
    """Calibrates, plans and binds variants of a model's graph on open devices."""

    session: PlanningSession
    live: OpenDevices
    specialised: Specialised
    report_progress: Callable[[str], None]  # called with the next step
    trace: bool | int = False  # whether the variants' own runners record traces
    tries: bool = False  # whether a plan may be one that has to be tried; see `PlanningSession.choose`
    is_limited: bool = False  # whether memory is: only one plan is bound at a time then

    def plan_and_bind(self, graph: TaskGraph, *, calibrate: bool = True) -> BoundModel:
        """Time the implementations of a variant's tasks, plan it and bind it."""
        if calibrate:
            self.report_progress("timing implementations")
            costs = CostModel(self.session.platform, self.session.history)
            if self.session.choices_only:
                graph = without_dominated(graph, costs)
            self.session.calibrate(graph, self.live)
            graph = without_untimed(graph, CostModel(self.session.platform, self.session.history))
        with paused_collection():
            self.report_progress("planning")
            chosen = self.session.choose(graph, tries=self.tries, live=self.live)
            bound = self._bind_chosen(graph, chosen)
            return self._for_less_memory(bound, chosen) if self.is_limited and bound.runner.lacks_memory else bound

    def _for_less_memory(self, bound: BoundModel, chosen: ChosenPlan) -> BoundModel:
        """Plan for a little less memory, and return that plan bound if it can be replayed, else the given one.

        Memory that is laid out before a run has gaps between arrays, so a plan that needs all memory is not replayed.
        """
        graph, platform = bound.specialised.graph, self.session.platform
        spaces = tuple(
            replace(each, capacity_bytes=int(_LAID_OUT * each.capacity_bytes) or each.capacity_bytes)
            for each in platform.spaces
        )
        session = replace(self.session, platform=replace(platform, spaces=spaces))
        try:
            less = session.choose(graph, tries=self.tries, live=self.live)
        except SyclschedError:  # which plans within the whole memory do without
            return bound
        except BaseException:
            bound.close()
            raise
        bound.close()
        try:
            again = self._bind_chosen(graph, replace(less, plan=replace(less.plan, platform=platform)))
            if again.runner.replayed:
                return again
            again.close()
        except SyclschedError as error:
            _LOGGER.info("%s is not bound for less memory: %s: %s", graph.name, type(error).__name__, error)
        return self._bind_chosen(graph, chosen)

    def _bind_chosen(self, graph: TaskGraph, chosen: ChosenPlan) -> BoundModel:
        """Bind a plan; if plans are tried, the makespans of its runs go into the history."""
        return self.bind(graph, chosen.plan, chosen.makespan_key if self.tries else None)

    def bind(
        self, graph: TaskGraph, plan: Plan, makespan_key: Callable[[RunKind], HistoryKey] | None = None
    ) -> BoundModel:
        """Bind a plan of a variant; with a key, the makespans of its runs go into the history."""
        from syclsched.execution import bind

        self.report_progress("building kernels and binding the plan")
        runner = bind(plan, graph, self.live, trace=self.trace, recover=True, measure=True, makespan_key=makespan_key)
        return BoundModel(replace(self.specialised, graph=graph), plan, runner)

    def unbound(self, graph: TaskGraph, plan: Plan) -> BoundModel:
        """Return a plan of a variant that is not bound, for comparisons that do not run it."""
        runner = _NoRunner()
        return BoundModel(replace(self.specialised, graph=graph), plan, runner)  # type: ignore[arg-type]

    def rebind(self, bound: BoundModel, trace: int | Literal["exact"]) -> Runner:
        """Bind a variant's plan again; see the function `rebind`."""
        return rebind(bound, self.live, trace)


class _NoRunner:
    """The runner of a plan that is not bound."""

    def close(self) -> None:
        """Do nothing: there is no memory."""


def rebind(bound: BoundModel, live: OpenDevices, trace: int | Literal["exact"]) -> Runner:
    """Bind a model's plan again, with traces of the last ``trace`` runs, or exact ones."""
    from syclsched.execution import bind

    return bind(bound.plan, bound.specialised.graph, live, trace=trace)


def faster_variant(
    bound: BoundModel, graph: TaskGraph, values: Mapping[str, Any], variants: VariantBuilder, least_gain: float = 0.0
) -> BoundModel:
    """Return the bound model, or a variant with kernels for some of the library's tasks if that is faster.

    If memory is limited, the plan is bound again at the end; see `faster_plan`.
    """
    if variants.is_limited:
        bound.close()
    best = faster_plan(bound, graph, values, variants, least_gain)
    return variants.bind(best.specialised.graph, best.plan) if variants.is_limited else best


def faster_plan(
    bound: BoundModel, graph: TaskGraph, values: Mapping[str, Any], variants: VariantBuilder, least_gain: float = 0.0
) -> BoundModel:
    """Return the given model, or a variant with kernels for some of the library's tasks if that is faster.

    Of a model that is not short, variants that are predicted to save less than a share of the time, ``least_gain``, are
    not made. A variant that fails is dropped without an error. All other bound variants are closed; on an interrupt,
    every one. If memory is limited, the tasks' times decide, and all are closed; the given one need not be bound.
    """
    made, best = [bound], None

    def make(tried: TaskGraph, *, calibrate: bool = True) -> BoundModel:
        made.append(variants.plan_and_bind(tried, calibrate=calibrate))
        if variants.is_limited:
            made[-1].close()
        return made[-1]

    try:
        best = _compare_plans(bound, graph, values, variants, make, least_gain)
    except Exception as error:  # dpctl's errors share no base class
        # A failure of another plan, such as too little memory for both, must not stop this one.
        level = logging.INFO if isinstance(error, SyclschedError) else logging.WARNING
        _LOGGER.log(level, "%s runs by the library alone: %s: %s", graph.name, type(error).__name__, error)
        best = bound
    finally:
        for each in made:
            if each is not best:
                each.close()
    return best


def predicted_variant(graph: TaskGraph, variants: VariantBuilder) -> BoundModel | None:
    """Return a plan that is predicted to be fastest; None if runs must tell, or if it fails."""
    platform, history = variants.session.platform, variants.session.history
    (device,) = platform.compute_devices
    kernels = predicted_kernels(graph, device, CostModel(platform, history), history)
    if kernels is None:
        return None
    try:
        made = variants.plan_and_bind(on_devices(graph, platform, kernels))
    except SyclschedError as error:  # for instance too little memory for the kernels' weights
        _LOGGER.info("%s is not run by predicted kernels: %s: %s", graph.name, type(error).__name__, error)
        return None
    _LOGGER.info("%s: %d tasks run as kernels by prediction", graph.name, len(kernels))
    return made


def compare_all_kernels(
    bound: BoundModel, graph: TaskGraph, values: Mapping[str, Any], variants: VariantBuilder
) -> bool:
    """Time all tasks of a plan by the library, and by kernels, in runs, and store how these compare for other models.

    Returns False, and stores nothing, if other processes use the machine. Raises `CapabilityError` if the library does
    none of the tasks.
    """
    platform, history = variants.session.platform, variants.session.history
    (device,) = platform.compute_devices
    tasks, run = [task.name for task in graph.tasks], _run_of(bound, values)
    if all(each.implementation != LIBRARY for each in bound.plan.schedule.assignments):
        raise CapabilityError(f"{LIBRARY} runs none of the operations here", where=f"device {device.name!r}")
    with closing(variants.plan_and_bind(on_devices(graph, platform, tasks))) as by_kernels:
        found = [(each, list[OperatorTime]()) for each in (bound, by_kernels)]
        for each, times in found * COMPARED_ROUNDS:
            tries = (measure_undisturbed(partial(_traced, each, variants, run)) for _ in range(COMPARED_TRIES))
            undisturbed = next((made for made in tries if made is not None), None)
            if undisturbed is None:
                return False
            times.extend(undisturbed)
        for each, times in found:
            record_times(each.specialised.graph, tasks, device, history, times)
    record_corrections(graph, device, CostModel(platform, history), history)
    return True


def _run_of(bound: BoundModel, values: Mapping[str, Any]) -> Callable[[Runner], None]:
    """Return a function that makes a run of a plan of a model with given values, as calls do."""
    inputs = bound.specialised.given(sample_inputs(bound.specialised, values))

    def run(runner: Runner) -> None:
        kept = runner.zero_copy_inputs.own_donated(runner.plan)  # as in calls, carried values are not copied
        runner({name: value for name, value in inputs.items() if name not in kept}, bound.specialised.fetched)

    return run


def _if_no_slower(
    device: Device,
    history: RecordingHistory,
    tried: TaskGraph,
    make: VariantMaker,
    time_both: Callable[..., Sequence[Sequence[float]]],
) -> BoundModel | None:
    """Return the plan of a variant if it is no slower than the library's; None if it is, or is known to be."""
    between = comparison_key(tried)
    known = is_known_faster(device, history, between, NO_SLOWER)
    if known is False:
        return None
    made = make(tried)
    if known or measure_is_faster(device, history, between, partial(time_both, made, limit=NO_SLOWER), NO_SLOWER):
        return made
    made.close()
    return None


def _traced(tried: BoundModel, variants: VariantBuilder, run: Callable[[Runner], None]) -> Sequence[OperatorTime]:
    """Return the times of a plan's tasks in some runs."""
    with variants.rebind(tried, "exact") as runner:
        run(runner)
        begun = time.perf_counter()
        for count in range(1, TRACED_RUNS + 1):
            run(runner)
            if count >= LEAST_TRACED_RUNS and time.perf_counter() - begun > TRACED_S:
                break
        runs = [measured_times([each], tried.plan, {}) for each in runner.traces()[-count:]]
        return [each for times in runs for each in times]


def _ensure_times(
    tried: BoundModel,
    tasks: Collection[str],
    *,
    graph: TaskGraph,
    variants: VariantBuilder,
    run: Callable[[Runner], None],
) -> bool:
    """Run a plan if the times of some of its tasks are unknown; return whether they are known now."""
    platform, history = variants.session.platform, variants.session.history
    (device,) = platform.compute_devices
    if is_known(tried.specialised.graph, tasks, device, history):
        return True
    variants.report_progress("running the model to time its tasks")
    times = measure_undisturbed(partial(_traced, tried, variants, run))
    if times is None:
        return False
    record_times(tried.specialised.graph, tasks, device, history, times)
    record_corrections(graph, device, CostModel(platform, history), history)
    return True


def _told_by_times(share: float, by_library_s: float, *, may_run: bool) -> bool | None:
    """Return whether kernels are kept that save this share by the tasks' times; None if runs must tell."""
    if share < WORTH_TRYING:
        return False
    if by_library_s >= LONG_S or (by_library_s >= MIDDLE_S and share >= CLEAR_SHARE):
        return True
    return None if may_run else share >= CLEAR_SHARE


def _compare_plans(
    bound: BoundModel,
    graph: TaskGraph,
    values: Mapping[str, Any],
    variants: VariantBuilder,
    make: VariantMaker,
    least_gain: float,
) -> BoundModel:
    """Return the faster plan; the loser of each round is closed, so at most two are bound at a time."""
    platform, history = variants.session.platform, variants.session.history
    (device,) = platform.compute_devices
    run = _run_of(bound, values)
    launched = [each for _, each in bound.plan.instructions() if each.kind == "launch" and each.task is not None]
    order = [each.task for each in launched if each.task is not None]
    library = [each.task for each in bound.plan.schedule.assignments if each.implementation == LIBRARY]
    is_estimated = not is_known(bound.specialised.graph, order, device, history)

    def time_both(mixed: BoundModel, limit: float = CLEARLY) -> Sequence[Sequence[float]]:
        variants.report_progress("running the model with kernels for some tasks, and without, to keep the faster")
        with ExitStack() as stack:
            runners = [
                stack.enter_context(variants.rebind(each, 0)) if variants.trace else each.runner
                for each in (bound, mixed)
            ]
            runs = [partial(run, each) for each in runners]
            if whole_s(*seconds()) > SHORT_S:
                return time_alternating(runs, limit=limit)
            for each in runs * SHORT_WARM_UPS:  # their first runs find out whether the calling thread is faster
                each()
            return time_alternating(runs, SHORT_PAUSES_S, limit=limit)

    ensure_times = partial(_ensure_times, graph=graph, variants=variants, run=run)

    def seconds() -> tuple[dict[str, float], dict[str, float]]:
        known = partial(task_times, graph, device, CostModel(platform, history), history)
        return known(by_library=True), known(by_library=False)

    def chosen_kernels() -> frozenset[str]:
        return select_kernels(order, *seconds()).intersection(library)

    def saved(kernels: Collection[str]) -> float:
        return saved_share(order, *seconds(), kernels)

    def is_faster(mixed: BoundModel, share: float, between: str, by_library_s: float) -> bool:
        told = _told_by_times(share, by_library_s, may_run=not variants.is_limited)
        return measure_is_faster(device, history, between, partial(time_both, mixed)) if told is None else told

    def kernels_alone(expected_s: float) -> BoundModel | None:
        if variants.is_limited or not library or expected_s > SHORT_S:  # two plans are compared by runs
            return None
        if not seconds()[1].keys() >= {*library}:
            return None
        return _if_no_slower(device, history, on_devices(graph, platform, library), make, time_both)

    if not ensure_times(bound, order):  # others use the machine: a clear difference counts all the same
        return kernels_alone(bound.plan.expected_s) or bound
    by_library_s = sum(seconds()[0].values())
    found = kernels_alone(whole_s(*seconds()))
    if found is not None:
        return found
    is_long = by_library_s >= MIDDLE_S
    for left in reversed(range(ROUNDS)):
        chosen = chosen_kernels()
        # A plan that is made anyway also gives the times of other kernels.
        sampled = samples(graph, device, CostModel(platform, history), history) if chosen and left else frozenset()
        kernels = chosen | sampled.intersection(library)
        tried = on_devices(graph, platform, kernels)
        between = comparison_key(tried)
        known = is_known_faster(device, history, between)
        share = WORTH_TRYING if is_known(tried, kernels, device, history) else least_gain if is_long else 0.0
        if not chosen or known is False or (share and saved(chosen) < share):
            break
        mixed = make(tried)
        learnt_kernels = ensure_times(mixed, kernels)
        if learnt_kernels and left and chosen_kernels() != kernels:
            mixed.close()
            continue
        if learnt_kernels and (known or is_faster(mixed, saved(kernels), between, by_library_s)):
            return mixed
        break
    # The plan was made with estimated task times, which are measured by now: plan again.
    return make(bound.specialised.graph, calibrate=False) if is_estimated else bound
