# SPDX-License-Identifier: Apache-2.0
"""Training steps on the machines of a cluster; parameters and the optimiser's state stay on the workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from syclsched.errors import ExecutionError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.onnx.compiled_model import KEPT
from syclsched.onnx.lru_cache import BoundModelCache
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.planner import plan_graph
from syclsched.training.steps.step_model import StepModel

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes

Array = np.ndarray[Any, Any]


class ConnectedCluster(Protocol):
    """The part of a cluster, as `syclsched.connect` returns it, that steps need."""

    def platform(self) -> Platform:
        """Return the devices of all machines."""
        ...

    def plan(self, graph: TaskGraph, *, policy: str) -> Plan:
        """Plan a graph for all machines."""
        ...

    @property
    def bind(self) -> Callable[..., Any]:
        """Function that sends each machine its part of a plan."""
        ...


@dataclass(frozen=True, slots=True)
class _BoundStep:
    """A step for known shapes, bound on the machines of a cluster."""

    specialised: Specialised
    runner: Any

    def close(self) -> None:
        """Release the machines' memory."""
        self.runner.close()


class ClusterStep:
    """Steps of a model on a cluster: called as a `CompiledModel` is.

    The state of each step is kept as futures on the workers until the next one has ended: a step that fails changes
    nothing. Plans stay bound for so many sets of shapes, the last used ones.
    """

    def __init__(self, model: StepModel, cluster: ConnectedCluster, policy: str, *, keep: int = KEPT) -> None:
        self.model = model
        self._cluster, self._policy = cluster, policy
        self._names = frozenset(model.carried.values())
        #: Values of the carried inputs: arrays, or futures of arrays.
        self._state: dict[str, Any] = {}
        #: For each set of shapes the bound step.
        self._kept: BoundModelCache[_BoundStep] = BoundModelCache(keep)
        self._last: _BoundStep | None = None
        self._closed = False

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs that calls give."""
        return tuple(each for each in self.model.inputs if each.name not in self._names)

    @property
    def plan(self) -> Plan:
        """The plan of the last step."""
        if self._last is None:
            raise ExecutionError("there was no step yet", where=f"model {self.model.name!r}", hint="Call step()")
        found: Plan = self._last.runner.plan
        return found

    def __call__(self, *inputs: Array) -> dict[str, Array]:
        """Do a step; return its results without the carried values."""
        if self._closed:
            raise ExecutionError("it is closed", where=f"model {self.model.name!r}")
        given = dict(zip((each.name for each in self.inputs), inputs, strict=True))
        shapes = {name: value.shape for name, value in given.items()}
        with self._kept.using(tuple(shapes.values()), partial(self._bound_for, shapes)) as self._last:
            specialised = self._last.specialised
            run = self._last.runner.run(specialised.given({**given, **self._state}))
            run.wait()
            made = {
                name: run.result(array) if isinstance(array, str) else array
                for name, array in specialised.outputs.items()
                if name not in self.model.carried
            }
            self._state |= {name: run.future(array) for name, array in specialised.carried.items()}
            return made

    def _bound_for(self, shapes: Shapes) -> _BoundStep:
        specialised = self.model.specialised(shapes, carried=self.model.carried)
        platform = self._cluster.platform()
        graph, stay = on_devices(specialised.graph, platform), tuple(specialised.stay.items())
        plan = (
            plan_graph(graph, platform, policy=self._policy, stay=stay)
            if stay
            else self._cluster.plan(graph, policy=self._policy)
        )
        return _BoundStep(specialised, self._cluster.bind(graph, plan=plan, calibrate=False))

    def reset(self, **values: Any) -> None:
        """Set the carried values, the others to 0."""
        for each in self.model.inputs:
            if each.name in self._names:
                shape, dtype = tuple(map(int, each.dimensions or ())), self.model.dtype(each.name)  # type: ignore[arg-type]
                self._state[each.name] = np.zeros(shape, dtype)
        self._state |= {name: np.array(value) for name, value in values.items()}

    def carried(self) -> dict[str, Array]:
        """Return copies of the carried values."""
        return {
            name: np.array(value if isinstance(value, np.ndarray) else value.result())
            for name, value in self._state.items()
        }

    def close(self) -> None:
        """Release the machines' memory; the cluster stays connected."""
        self._closed, self._state = True, {}
        self._kept.close()
