# SPDX-License-Identifier: Apache-2.0
"""Bound plans of a compiled model, found by the shapes of inputs and by values that decide shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    ModelError,
    OpenDimensionError,
    TaskFailedError,
    ValueNeededError,
)
from syclsched.frontends.onnx.importing.lengths import CountedAxes
from syclsched.onnx.call_inputs import CallValues
from syclsched.onnx.carried_state import CarriedState
from syclsched.onnx.lru_cache import BoundModel, BoundModelCache
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.model_build import ModelBuilder
from syclsched.onnx.shapes.buckets import Buckets
from syclsched.onnx.shapes.value_shapes import ValueShapes
from syclsched.onnx.specialised import Array, ExtentExceededError, Shapes

#: The key of a call's plan.
PlanKey = tuple[Any, ...]

_Result = TypeVar("_Result")


class BoundPlans:
    """The plans of a model, made and bound when a call needs them; the least recently used ones are dropped."""

    def __init__(
        self,
        model: OnnxModel,
        builder: ModelBuilder,
        keep: int,
        state: CarriedState | None,
        buckets: Buckets | None,
    ) -> None:
        self._model, self._builder, self._state, self._buckets = model, builder, state, buckets
        #: Number of inputs of calls that give none of those with default values.
        self._least_inputs = len(model.graph_inputs) - (0 if state is None else len(state.names))
        #: The part of shapes that depends on input values.
        self.by_value = ValueShapes(
            model, bounded=buckets is None or not buckets.are_given, carried={} if state is None else state.pairs
        )
        if buckets is not None:
            self.by_value.inputs = buckets.conditions
        self.kept: BoundModelCache[BoundModel] = BoundModelCache(keep)
        #: The plan of the last call.
        self.last: BoundModel | None = None
        self.is_closed = False
        self._lock = threading.Lock()

    def key(self, values: Mapping[str, Any]) -> PlanKey:
        """Return the key of the plan for values of the graph's inputs."""
        return self.by_value.key(self._shapes_key(values), values)

    def call_with(self, do: Callable[[BoundModel, Mapping[str, Any]], _Result], values: Mapping[str, Any]) -> _Result:
        """Call a function with the model bound for the shapes of these values; return its result."""
        by_value = self.by_value
        while True:
            shapes = self._shapes_key(values)
            key, version = by_value.key(shapes, values), by_value.version(shapes)
            try:
                return self._call_planned(do, values, key)
            except ExtentExceededError as beyond:
                by_value.observe(shapes, version, lambda: self._shapes_of(values), values, deciding=beyond.deciding)
            except TaskFailedError:  # maybe since values exceed the plan's extents
                is_checked = self._state is not None or not version  # before the run
                if is_checked or not by_value.is_new(shapes, version, lambda: self._shapes_of(values), values):
                    raise
            self.kept.drop(key)

    def results_beyond(
        self, key: Hashable, values: Mapping[str, Any], beyond: ExtentExceededError | None
    ) -> dict[str, Array]:
        """Return the results for values that exceed the extents of the plan of a key, which is in use."""
        shapes = self._shapes_key(values)
        version = self.by_value.version(shapes)
        if self.by_value.key(shapes, values) == key:
            deciding = () if beyond is None else beyond.deciding
            self.by_value.observe(shapes, version, lambda: self._shapes_of(values), values, deciding=deciding)
        return self.call_with(self.run, values)

    def outputs_again(
        self, key: Hashable, values: CallValues, *, beyond: ExtentExceededError | None
    ) -> dict[str, Any] | None:
        """Return the outputs for values beyond the extents of the plan of a key; None if a run failed otherwise."""
        shapes = self._shapes_key(values)
        version = self.by_value.version(shapes)
        if beyond is None and self.key(values) == key:
            is_new = version and self.by_value.is_new(shapes, version, lambda: self._shapes_of(values), values)
            if not is_new:
                return None
        return values.results(self.results_beyond(key, values, beyond))

    def run(self, bound: BoundModel, values: Mapping[str, Any]) -> dict[str, Array]:
        """Run a bound model; return the results of its graph."""
        specialised = bound.specialised
        given = specialised.given(values)
        found = bound.with_free_runner(lambda runner: runner(given, specialised.fetched), self._builder.another_runner)
        return specialised.results(found)

    @contextmanager
    def using(self, values: Mapping[str, Any], *, awaited: bool = True) -> Iterator[BoundModel]:
        """Yield the model bound for the shapes of these values."""
        by_value = self.by_value
        shapes_key = self._shapes_key(values)

        def make() -> BoundModel:
            shapes, given = self._shapes_of(values), by_value.planned_by(values)
            counted = self._counted(shapes)
            observed = None if counted is not None and counted.extents else by_value.observed(shapes_key)
            return self._builder.make(shapes, given, observed, counted)

        while True:
            entered, version = False, by_value.version(shapes_key)
            try:
                with self._bound(by_value.key(shapes_key, values), make, awaited=awaited) as bound:
                    entered = True
                    by_value.confirm(shapes_key, version)
                    yield bound
                return
            except ValueNeededError as error:
                if entered or (self._buckets is not None and self._buckets.grows(values)):
                    raise
                if self._buckets is not None:
                    self._buckets.check_inputs(error)
                by_value.learn(error, shapes_key, version, lambda: self._shapes_of(values), values)
            except Exception:
                # One call's numbers must not make those after it fail.
                if entered or not by_value.discard(shapes_key, version):
                    raise

    def load(self, declared: Shapes) -> None:
        """Plan and bind the model for shapes of all inputs, if not done yet."""
        carried = () if self._state is None else self._state.names
        own = [name for name in declared if name not in carried]
        shapes = self._full_shapes({name: declared[name] for name in own})
        if self._buckets is not None:
            shapes = self._buckets.planned(shapes)
            own = [name for name in shapes if name not in carried]
        key = self._key_of({name: shapes[name] for name in own})
        with self._bound(key, lambda: self._builder.make(shapes, {}, None, self._counted(shapes))):
            pass

    def carried_shapes(self, shapes: Shapes) -> Shapes:
        """Return the shapes of the carried values with which a call with shapes begins, as far as they are known."""
        if self._state is None:
            return {}
        found = self._state.shapes
        if len(found) < len(self._state.names):
            with suppress(ArgumentError, OpenDimensionError):
                whole = self._model.full_shapes({**shapes, **found})
                return {name: whole[name] for name in self._state.names}
        return found

    def can_grow(self, values: CallValues) -> bool:
        """Return whether there is a plan for values with dimensions that grow; make it if need be."""
        assert self._buckets is not None
        if not self._buckets.grows(values):
            return True
        slot = None if self.is_closed else self.kept.acquire_ready(self.key(values))
        if slot is not None:
            self.kept.release(slot)
            return True
        try:
            with self.using(values):
                return True
        except (ArgumentError, ModelError) as error:
            shapes = {name: tuple(value.shape) for name, value in values.items()}
            self._buckets.refuse_growth({**shapes, **self._carried(shapes)}, error)
            return False

    def check_open(self) -> None:
        """Raise `ExecutionError` if they are closed."""
        if self.is_closed:
            raise ExecutionError("it is closed", where=f"model {self._model.name!r}")

    def close(self) -> bool:
        """Close the plans once none is in use; return whether they were open."""
        with self._lock:
            if self.is_closed:
                return False
            self.is_closed = True
        self.kept.close()
        return True

    # --- internals --------------------------------------------------------------------------------

    def _shapes_key(self, values: Mapping[str, Any]) -> PlanKey:
        return self._key_of({name: tuple(value.shape) for name, value in values.items()})

    def _key_of(self, shapes: Shapes) -> PlanKey:
        is_named = self._model.is_composed or self._buckets is not None or len(shapes) > self._least_inputs
        key: PlanKey = tuple(shapes.items() if is_named else shapes.values())
        if self._state is None:
            return key
        carried = self._carried(shapes)
        if len(carried) < len(self._state.names):
            carried = self._full_shapes(shapes)
        return (*key, *(carried[name] for name in self._state.names))

    def _shapes_of(self, values: Mapping[str, Any]) -> Shapes:
        return self._full_shapes({name: tuple(value.shape) for name, value in values.items()})

    def _full_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs: of a call's and of the carried ones."""
        carried = self._carried(shapes)
        try:
            whole = self._model.full_shapes({**shapes, **carried})
            return whole if self._buckets is None else {**shapes, **whole}
        except OpenDimensionError as error:
            if self._state is not None:
                error.hint = f"{error.hint}; 0 for a carried value that begins empty; or give it to reset()"
            raise
        except ArgumentError as error:
            with suppress(OpenDimensionError):
                self._model.full_shapes(shapes)  # raises an error about the call's own inputs
            raise ArgumentError(
                f"{error.what}; carried values have the shapes of their defaults, or that calls or reset() left",
                where=f"{error.where} of model {self._model.name!r}",
                hint="Call reset() to begin anew",
            ) from error

    def _carried(self, shapes: Shapes) -> Shapes:
        """Return the shapes of the values that calls left, as a plan for shapes of a call's values has them."""
        if self._buckets is None:
            return {} if self._state is None else self._state.shapes
        return self._buckets.carried(shapes, self.carried_shapes(shapes))

    def _counted(self, shapes: Shapes) -> CountedAxes | None:
        return None if self._buckets is None else self._buckets.axes(shapes)

    def _call_planned(
        self, do: Callable[[BoundModel, Mapping[str, Any]], _Result], values: Mapping[str, Any], key: PlanKey
    ) -> _Result:
        slot = None if self.is_closed else self.kept.acquire_ready(key)
        if slot is None:
            with self.using(values) as bound:
                return do(bound, values)
        try:
            assert slot.bound is not None
            self.last = slot.bound
            return do(slot.bound, values)
        finally:
            self.kept.release(slot)

    @contextmanager
    def _bound(self, key: PlanKey, make: Callable[[], BoundModel], *, awaited: bool = True) -> Iterator[BoundModel]:
        self.check_open()

        def made() -> BoundModel:
            bound = make()
            bound.key = key
            return bound

        with self.kept.using(key, made, awaited=awaited) as bound:
            self.last = bound
            yield bound
