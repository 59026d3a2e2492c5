# SPDX-License-Identifier: Apache-2.0
"""Choice of the way to divide training steps among devices: all are planned, and the shortest prediction is kept.

Predictions are by the device profiles. Measured times of tasks would favour those graphs that have run before, and
the choice would differ from process to process.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from syclsched.costs import CostModel, History
from syclsched.errors import ArgumentError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.text.units import plural
from syclsched.onnx.tuning.implementations import on_devices, without_implementations
from syclsched.onnx.tuning.plan_comparison import CLEARLY
from syclsched.planner.auto import penalised_makespan_s
from syclsched.planner.plan_request import PlanRequest
from syclsched.training.splitting.balance import line_through, parts_by_speed, samples_by_speed, stage_ends
from syclsched.training.splitting.independence import why_not_in_parts
from syclsched.training.splitting.split_trial import trial_key
from syclsched.training.splitting.splits import AUTO, SplitChoice, SplitKind, StepSplit
from syclsched.training.splitting.task_roles import layers_of, part_of, replica_of

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes
    from syclsched.training.steps.step_model import Division, StepModel

_LOGGER = logging.getLogger("syclsched")

#: The policy of first predictions, and how much longer than the best of them one may be to be planned thoroughly.
_QUICK, _REACH = "heft", 1.25
#: Micro-batches of a pipeline for each of its stages.
_MICRO_BATCHES: Final = 2
#: Replicas of the parameters; each update reads the gradients of all.
_REPLICAS: Final = 4

Shares = tuple[float, ...]
Replicas = tuple[int, ...]


class ModelOf(Protocol):
    """Function that makes the model of a step with a batch cut by shares, whose parts read these replicas."""

    def __call__(self, shares: Shares, replicas: Replicas = ()) -> StepModel:
        """Return the model."""
        ...


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A way to divide steps, and its graph."""

    split: StepSplit
    graph: TaskGraph
    quick_s: float = 0.0  # the first prediction


@dataclass(frozen=True, slots=True)
class SplitPlanner:
    """Chooses how steps of a model are divided among the devices of a platform."""

    platform: Platform  # with at least two devices that compute
    make: ModelOf
    request: PlanRequest
    kind: str = AUTO  # a way that the user wants
    shares: Shares = (1.0,)  # of micro-batches that the user wants
    without: frozenset[str] = frozenset()  # implementations not to use
    history: History | None = None  # refusals of the devices
    _known: dict[object, SplitChoice] = field(default_factory=dict)

    def choose(self, shapes: Shapes) -> SplitChoice:
        """Return the choice for shapes of all inputs of a step; `ArgumentError` if the user's is not possible."""
        key = tuple(sorted(shapes.items()))
        if key not in self._known:
            self._known[key] = _Choosing(self, shapes).choice()
            _LOGGER.info(self._known[key].text)
        return self._known[key]

    def division(self, shapes: Shapes) -> Division:
        """Return the division for shapes of all inputs; see `StepModel.divide`."""
        best = self.choose(shapes).best
        return best.parts, best.replicas, best.stay

    def keep(self, shapes: Shapes, choice: SplitChoice) -> None:
        """Keep another choice for shapes, which was made by measurement."""
        self._known[tuple(sorted(shapes.items()))] = choice

    @property
    def last(self) -> SplitChoice | None:
        """The choice for the newest shapes; None if there is none yet."""
        return next(reversed(self._known.values()), None)


class _Choosing:
    """The choice for one set of shapes."""

    def __init__(self, planner: SplitPlanner, shapes: Shapes) -> None:
        self._planner, self._shapes, self._history = planner, dict(shapes), planner.history
        self._platform = planner.platform
        self._devices = [device.name for device in planner.platform.compute_devices]
        model = planner.make(planner.shares)
        self._samples = model.samples(self._shapes)
        self._wanted, self._why = planner.kind, "as asked for"
        if planner.kind == "data" and self._samples == 1 and not model.trained.has_fixed_shapes:
            # Such as the last batch of an epoch.
            self._wanted, self._why = "single", "as a batch of one sample has no parts"
        self._graphs: dict[object, TaskGraph] = {}

    def choice(self) -> SplitChoice:
        wanted = self._wanted
        drawn: list[_Drawn] = []
        refused: list[StepSplit] = []
        ways: Mapping[SplitKind, Callable[[], _Drawn]] = {
            "single": self._single,
            "tasks": self._tasks,
            "data": self._data,
            "stages": self._stages,
        }
        for kind, way in ways.items():
            if wanted in (AUTO, kind) or kind == "single":
                try:
                    drawn.append(way())
                except SyclschedError as error:
                    if kind == wanted:
                        raise
                    refused.append(StepSplit(kind, refused=str(error)))
        return self._best(drawn, refused)

    def _best(self, drawn: Sequence[_Drawn], dropped: list[StepSplit]) -> SplitChoice:
        wanted = self._wanted
        least_s = min((each.quick_s for each in drawn if each.quick_s), default=math.inf)
        planned: list[tuple[float, StepSplit]] = []
        for each in drawn:
            # One device is always planned thoroughly: the choice must not be predicted slower.
            if wanted == AUTO and each.quick_s > _REACH * least_s and each.split.kind != "single":
                dropped.append(replace(each.split, step_s=each.quick_s, is_rough=True))
                continue
            try:
                planned.append(self._planned(each))
            except SyclschedError as error:
                if wanted == each.split.kind:
                    raise
                dropped.append(replace(each.split, refused=str(error)))
        if not planned:
            raise ArgumentError(f"the step cannot be planned: {dropped[0].refused}", where="train()")
        found = [split for _, split in planned]
        forced = next((split for split in found if split.kind == wanted), None)
        if forced is not None:
            return SplitChoice(forced, (*found, *dropped), self._samples, self._why)
        best_s, best = planned[0]
        for worth_s, split in planned[1:]:
            # The simpler ways come first, and are kept unless another one is clearly better.
            if worth_s < best_s * CLEARLY:
                best_s, best = worth_s, split
        graphs = {each.split.kind: each.graph for each in drawn}
        trial = None
        if best.kind != "single" and "single" in graphs:
            trial = trial_key(graphs["single"], graphs[best.kind], best.stay, self._platform)
        return SplitChoice(best, (*found, *dropped), self._samples, trial=trial)

    # --- ways -------------------------------------------------------------------------------------

    def _single(self) -> _Drawn:
        graph = self._graph(self._planner.shares)
        seconds = {device: self._seconds_on(device, graph) for device in self._devices}
        device = min(self._devices, key=seconds.__getitem__)
        if seconds[device] == math.inf:
            CostModel(self._platform, self._history).require(graph.tasks[0])
            raise ArgumentError("no device can do all of it", where="split='single'", hint="Let the planner choose")
        split = StepSplit("single", device, self._planner.shares, _all_on(graph, device))
        return _Drawn(split, graph, seconds[device])

    def _tasks(self) -> _Drawn:
        return _Drawn(StepSplit("tasks", parts=self._planner.shares), self._graph(self._planner.shares))

    def _data(self) -> _Drawn:
        self._check_shapes()
        fixed_s, each_s = self._speeds()
        devices, counts = self._deal_samples(fixed_s, each_s)
        if self._planner.kind == "data" and len(set(devices)) < 2:  # it is wanted, even if it takes longer
            whole_s = [fixed + each * self._samples for fixed, each in zip(fixed_s, each_s, strict=True)]
            # Of devices that are slow, two still get a part: the least part takes no longer than the others elsewhere.
            least = min(counts) if len(self._planner.shares) > 1 else 1
            most_s = 0.99 * min(whole_s) * (self._samples - least) / least
            devices, counts = self._deal_samples(
                [0.0] * len(whole_s), [min(s, most_s) if s < math.inf else s for s in whole_s]
            )
        if sum(map(math.isfinite, each_s)) < 2:
            what = f"no device but {self._devices[devices[0]]} can do all of the step"
            raise ArgumentError(what, where="split='data'", hint="Leave split out, or choose other devices")
        if len(set(devices)) < 2:
            what = f"{self._devices[devices[0]]} ends all before another device ends one sample"
            raise ArgumentError(what, where="split='data'", hint="Take larger batches")
        shares = self._planner.shares if len(self._planner.shares) > 1 else tuple(map(float, counts))
        self._check_parts(shares)
        names = [self._devices[d] for d in devices]
        given = {name: sum(n for n, own in zip(counts, names, strict=True) if own == name) for name in names}
        details = ", ".join(f"{number} on {name}" for name, number in given.items())
        copied = self._on_devices(shares, names, details)
        if not self._may_replicate(given):
            return copied
        try:
            replicated = self._on_devices(shares, names, details, [*dict.fromkeys(names[::-1])])
        except SyclschedError:  # such as too little memory
            return copied
        return replicated if replicated.quick_s < copied.quick_s else copied

    def _on_devices(self, shares: Shares, names: Sequence[str], details: str, homes: Sequence[str] = ()) -> _Drawn:
        """Return a way with each part on its device, which has a replica of the parameters or copies those of the last.

        ``homes`` are the devices of the replicas, if there are any.
        """
        replicas = tuple(homes.index(name) for name in names) if homes else ()
        graph, homes = self._graph(shares, replicas=replicas), homes or names[-1:]
        parts = {task.name: part_of(task.name) for task in graph.tasks}
        stay = {task: homes[replica_of(task)] if part is None else names[part] for task, part in parts.items()}
        how = "a replica of the parameters on each" if replicas else f"summed on {names[-1]}"
        return self._drawn(StepSplit("data", f"{details}; {how}", shares, stay, replicas), graph)

    def _may_replicate(self, names: Collection[str]) -> bool:
        """Return whether devices of this machine have memories of their own, and compute the same bits."""
        devices = [self._platform.device(name) for name in names]
        alike = {(each.description, each.driver_version, each.compute_units) for each in devices}
        spaces = {each.space for each in devices}
        return len(alike) == 1 and len(spaces) == len(devices) <= _REPLICAS and not any(map(machine_of, names))

    def _deal_samples(self, fixed_s: Sequence[float], each_s: Sequence[float]) -> tuple[list[int], list[int]]:
        """Return the device of each part, and its samples."""
        if len(self._planner.shares) > 1:
            counts = [part.count for part in self._planner.make(self._planner.shares).cut(self._shapes)]
            return parts_by_speed(counts, fixed_s, each_s), counts
        numbers = samples_by_speed(self._samples, fixed_s, each_s)
        # The last part's device sums the gradients and updates the parameters: the fastest.
        devices = sorted((d for d, number in enumerate(numbers) if number), key=numbers.__getitem__)
        return devices, [numbers[d] for d in devices]

    def _stages(self) -> _Drawn:
        self._check_shapes()
        shares = self._planner.shares
        if len(shares) == 1:
            shares = (1.0,) * min(_MICRO_BATCHES * len(self._devices), self._samples)
        self._check_parts(shares)
        graph = self._graph(shares)
        nodes = [node.name for node in self._planner.make(shares).cut(self._shapes)[0].network.nodes]
        layers = layers_of(graph, nodes)
        used = sorted(set(layers.values()))
        if len(used) < len(self._devices):
            raise ArgumentError("there are fewer layers than devices", where="split='stages'")
        column = {layer: number for number, layer in enumerate(used)}
        costs, devices = CostModel(self._platform, self._history), self._platform.compute_devices
        seconds = np.zeros((len(devices), len(used)))
        for task in graph.tasks:
            for row, best in enumerate(costs.choices(task, devices)):
                # A device that cannot run a task gets no stage with it, if another can.
                seconds[row, column[layers[task.name]]] += 1e6 if best is None else best[1].seconds
        order, ends = stage_ends(seconds)
        stage = {layer: int(np.searchsorted(ends, number, side="right")) for layer, number in column.items()}
        stay = {task: self._devices[order[stage[layer]]] for task, layer in layers.items()}
        begins = [0, *ends[:-1]]
        spans = [f"{plural(b - a, 'layer')} on {self._devices[d]}" for a, b, d in zip(begins, ends, order, strict=True)]
        details = f"{', '.join(spans)}; {plural(len(shares), 'micro-batch', 'micro-batches')}"
        return self._drawn(StepSplit("stages", details, shares, stay), graph)

    def _check_shapes(self) -> None:
        if self._planner.make(self._planner.shares).trained.has_fixed_shapes:
            raise ArgumentError("the shapes of a task graph are fixed, so that a batch has no parts", where="train()")

    def _check_parts(self, shares: Shares) -> None:
        """Refuse parts that would change the result, unless the user wants parts."""
        if self._planner.kind != AUTO or len(self._planner.shares) > 1:
            return
        why = why_not_in_parts(self._planner.make(shares), self._shapes)
        if why is not None:
            raise ArgumentError(why, where="train()")

    # --- predictions ------------------------------------------------------------------------------

    def _speeds(self) -> tuple[list[float], list[float]]:
        """Return for each device the seconds of a step, and of each sample of it, as its plans predict."""
        samples, fewer = self._samples, self._samples // 2
        if not fewer:
            raise ArgumentError("a batch of one sample has no parts", where="train()")
        whole_s = [self._seconds_on(device, self._graph((1.0,))) for device in self._devices]
        try:
            half = self._graph((1.0,), fewer)
        except SyclschedError:  # such as a model of a fixed number of samples
            return [0.0] * len(whole_s), [seconds / samples for seconds in whole_s]
        lines = [
            line_through((samples, seconds), (fewer, self._seconds_on(device, half)))
            for device, seconds in zip(self._devices, whole_s, strict=True)
        ]
        return [fixed for fixed, _ in lines], [each for _, each in lines]

    def _seconds_on(self, device: str, graph: TaskGraph) -> float:
        try:
            return self._quick(graph, _all_on(graph, device))
        except SyclschedError:
            return math.inf

    def _drawn(self, split: StepSplit, graph: TaskGraph) -> _Drawn:
        return _Drawn(split, graph, self._quick(graph, split.stay))

    def _quick(self, graph: TaskGraph, stay: Mapping[str, str]) -> float:
        from syclsched.planner import plan_graph

        plan = plan_graph(graph, self._platform, policy=_QUICK, history=self._history, stay=tuple(stay.items()))
        return penalised_makespan_s(plan)

    def _planned(self, drawn: _Drawn) -> tuple[float, StepSplit]:
        """Return a way with its predicted time, and the time by which it is compared."""
        from syclsched.planner import plan_graph

        request = replace(self._planner.request, stay=tuple(drawn.split.stay.items()))
        plan = plan_graph(drawn.graph, self._platform, history=self._history, **asdict(request))
        return penalised_makespan_s(plan), replace(drawn.split, step_s=plan.makespan_s)

    def _graph(self, shares: Shares, samples: int | None = None, replicas: Replicas = ()) -> TaskGraph:
        """Return the graph of a step with a batch cut by shares, of all samples or of fewer."""
        key = shares, samples, replicas
        if key not in self._graphs:
            model, shapes = self._planner.make(shares, replicas), self._shapes
            if samples is not None:
                shapes = model.with_samples(shapes, samples)
            graph = model.specialised(shapes, carried=model.carried).graph
            offered = without_implementations(graph, self._planner.without, self._platform)
            self._graphs[key] = on_devices(offered, self._platform)
        return self._graphs[key]


def _all_on(graph: TaskGraph, device: str) -> dict[str, str]:
    return {task.name: device for task in graph.tasks}
