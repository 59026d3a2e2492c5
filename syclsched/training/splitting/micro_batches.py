# SPDX-License-Identifier: Apache-2.0
"""Choice of micro-batches of training steps where a device's memory is short.

The activations of a part of a batch take less memory, so that less is evicted or recomputed; but each part takes longer
for its samples. Steps of the whole batch and of 2, 4 and 8 parts are planned by one policy, and compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from syclsched.costs import History
from syclsched.errors import MemoryLimitError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.text.units import format_seconds
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.onnx.tuning.plan_comparison import CLEARLY
from syclsched.onnx.tuning.variable_weights import offered_graph
from syclsched.planner.auto import repeats_copies_or_tasks
from syclsched.planner.plan_request import PlanRequest
from syclsched.training.splitting.independence import why_not_in_parts

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes
    from syclsched.training.steps.step_model import Division, StepModel

_LOGGER = logging.getLogger("syclsched")

#: Numbers of micro-batches to plan, and the policy of these plans.
_COUNTS: Final = (2, 4, 8)
_POLICY: Final = "heft"
#: Steps take no more memory than this many times the values of the forward pass, and of the parameters.
_OF_FORWARD, _OF_PARAMETERS = 3, 6

Shares = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MicroBatchChoice:
    """The number of micro-batches that was chosen, and the others."""

    count: int
    samples: int  # of a batch
    outcomes: Mapping[int, str]  # the predicted time of a step by number, or why there is none
    why: str = "the shortest prediction within the memory"

    @property
    def text(self) -> str:
        """A line for the choice, and one for each number."""
        what = f"{self.count} micro-batches" if self.count > 1 else "the whole batch at once"
        lines = [f"  {count:<6}  {outcome}" for count, outcome in self.outcomes.items()]
        return "\n".join(
            [f"steps of {self.samples} sample{'' if self.samples == 1 else 's'}: {what}, {self.why}", *lines]
        )


@dataclass(frozen=True, slots=True)
class MicroBatchPlanner:
    """Chooses into how many micro-batches the batches of a model are cut on one device."""

    platform: Platform  # with the memory that there is
    make: Callable[[Shares], StepModel]  # the model with a batch cut by these shares
    request: PlanRequest
    without: frozenset[str] = frozenset()  # implementations not to use
    history: History | None = None  # refusals of the device
    mixes: bool = False  # whether kernels may replace library calls
    _known: dict[object, MicroBatchChoice | None] = field(default_factory=dict)

    def choose(self, shapes: Shapes) -> MicroBatchChoice | None:
        """Return the choice for shapes of all inputs of a step; None where memory is not short."""
        key = tuple(sorted(shapes.items()))
        if key not in self._known:
            found = self._known[key] = self._choice(shapes)
            if found is not None:
                _LOGGER.info(found.text)
        return self._known[key]

    def division(self, shapes: Shapes) -> Division:
        """Return the shares of the parts of a batch, and no devices of tasks; see `StepModel.divide`."""
        found = self.choose(shapes)
        return (1.0,) * (1 if found is None else found.count), (), {}

    @property
    def last(self) -> MicroBatchChoice | None:
        """The choice for the newest shapes; None if there is none yet, or memory is not short."""
        return next(reversed(self._known.values()), None)

    # --- inside -----------------------------------------------------------------------------------

    def _choice(self, shapes: Shapes) -> MicroBatchChoice | None:
        model = self.make((1.0,))
        if not self._may_be_short(model, shapes):
            return None
        plans: dict[int, Plan] = {}
        outcomes: dict[int, str] = {}
        refused = self._tried(1, shapes, plans, outcomes)
        if 1 in plans and not repeats_copies_or_tasks(plans[1]):
            return None
        samples = model.samples(shapes)
        mixing = why_not_in_parts(self.make((1.0, 1.0)), shapes)
        if mixing is not None:
            return MicroBatchChoice(1, samples, outcomes, f"as {mixing}")
        for count in _COUNTS:
            if count <= samples:
                self._tried(count, shapes, plans, outcomes)
            if count in plans and count // 2 in plans and plans[count].makespan_s > plans[count // 2].makespan_s:
                break  # it is longer with more
        if 1 not in plans and plans and isinstance(refused, MemoryLimitError):
            # Another order of tasks may fit.
            self._tried(1, shapes, plans, outcomes, self.request)
        if not plans:
            return None  # to plan the step will tell why
        best = min(plans, key=lambda count: plans[count].makespan_s * (1.0 if count > 1 else CLEARLY))
        return MicroBatchChoice(best, samples, outcomes)

    def _may_be_short(self, model: StepModel, shapes: Shapes) -> bool:
        """Return whether a step may need more than the device's memory; a capacity of 0 means unknown."""
        homes = {device.space for device in self.platform.compute_devices}
        known = [space.capacity_bytes for space in self.platform.spaces if space.name in homes and space.capacity_bytes]
        if not known:
            return False
        values = model.forward(shapes).values.values()
        held = sum(prod(value.shape) * np.dtype(value.dtype).itemsize for value in values)
        initial = model.trained.values
        trained = sum(initial[name].nbytes for name in model.trained.parameters)
        return _OF_FORWARD * held + _OF_PARAMETERS * trained > min(known)

    def _tried(
        self,
        count: int,
        shapes: Shapes,
        plans: dict[int, Plan],
        outcomes: dict[int, str],
        request: PlanRequest | None = None,
    ) -> SyclschedError | None:
        """Plan a step with a number of micro-batches; return why it is refused."""
        from syclsched.planner import plan_graph

        used = replace(self.request, policy=_POLICY) if request is None else request
        try:
            plan = plan_graph(self._graph(count, shapes), self.platform, history=self.history, **asdict(used))
        except SyclschedError as error:
            outcomes[count] = f"not planned ({error})"
            return error
        plans[count] = plan
        outcomes[count] = format_seconds(plan.makespan_s)
        return None

    def _graph(self, count: int, shapes: Shapes) -> TaskGraph:
        model = self.make((1.0,) * count)
        graph = model.specialised(shapes, carried=model.carried).graph
        return on_devices(offered_graph(graph, self.platform, self.without, mixes=self.mixes), self.platform)
