# SPDX-License-Identifier: Apache-2.0
"""Compiled models: callables that are planned and bound per set of input shapes, and cached for later calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from syclsched.errors import ArgumentError, ExecutionError, OpenDimensionError, TaskFailedError, ValueNeededError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.text.sections import Section, facts, sections_html, sections_text
from syclsched.model.text.units import plural
from syclsched.onnx.cached_call import cached_call_for
from syclsched.onnx.call_inputs import CallInputs, CallValues
from syclsched.onnx.carried_state import CarriedState
from syclsched.onnx.lru_cache import BoundModel, BoundModelCache, FastPath
from syclsched.onnx.model import OnnxModel, value_text
from syclsched.onnx.model_build import ModelBuilder
from syclsched.onnx.report import OperatorTime, Report, measured_times, planned_times
from syclsched.onnx.shapes.buckets import Buckets
from syclsched.onnx.shapes.value_shapes import ValueShapes
from syclsched.onnx.specialised import Array, CountedAxes, ExtentExceededError, Shapes
from syclsched.onnx.started_outputs import StartedOutputs

if TYPE_CHECKING:
    from syclsched.execution import Run

_Result = TypeVar("_Result")

#: Number of sets of input shapes in a model's cache, evicted least recently used.
KEPT = 16


class CompiledModel:
    """A model that can be called, from any number of threads. Made by `compile`.

    Parameters
    ----------
    model : OnnxModel
        The model.
    builder : ModelBuilder
        Plans and binds it.
    keep : int
        As for `compile`.
    carried : Mapping[str, str], optional
        For each carried output the input of the next call.
    buckets : Buckets, optional
        The extents of open dimensions for which plans are made.
    """

    def __init__(
        self,
        model: OnnxModel,
        builder: ModelBuilder,
        *,
        keep: int = KEPT,
        carried: Mapping[str, str] | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        if keep < 1:
            raise ArgumentError(f"keep={keep} keeps nothing", where="compile()", hint="At least 1")
        self.model = model
        self._builder, self._buckets = builder, buckets
        #: The values carried from call to call, if any.
        self._state = CarriedState(carried, model) if carried else None
        self._inputs = CallInputs(model, self._carried_names)
        #: What input values decide of shapes.
        self._by_value = ValueShapes(model, bounded=buckets is None, carried=carried or {})
        self._kept: BoundModelCache[BoundModel] = BoundModelCache(keep)
        self._last: BoundModel | None = None
        #: Fast path for the last input shapes, and the bound model for which it was last built.
        self._cached_call: FastPath | None = None
        self._cached_call_of: BoundModel | None = None
        self._closed = False
        self._lock = threading.Lock()

    # --- running ----------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **named: Any) -> dict[str, Array]:
        """Run the model and return its outputs.

        Parameters
        ----------
        *inputs : array-like, or one Mapping[str, array-like]
            In the model's order, or by name.
        **named : array-like
            By name.

        Returns
        -------
        dict of str to numpy.ndarray
            The outputs by name, in the model's order; the caller owns the arrays.

        Raises
        ------
        ArgumentError
            If an input is missing or unknown, has a dtype or shape that the model does not take, or has indices out of
            range.
        TaskFailedError, ExecutionError
            If the run fails.
        """
        if self._state is None:
            return self._call(inputs, named, _run)
        with self._state.turn():
            return self._call(inputs, named, self._state.run)

    def _call(
        self,
        inputs: tuple[Any, ...],
        named: Mapping[str, Any],
        run: Callable[[BoundModel, Mapping[str, Any]], dict[str, Array]],
    ) -> dict[str, Array]:
        cached = self._cached_call
        if self._inputs.are_plain and self._buckets is None:
            try:
                found = None if cached is None or named else cached.run(inputs)
            except ExtentExceededError:
                found = None
            if found is not None:
                return found
            values = self._inputs.values(inputs, named)
        else:
            values = self._values(inputs, named)
            try:
                found = None if cached is None else cached.run((dict(values),))
            except ExtentExceededError:
                found = None
            if found is not None:
                return values.results(found)
        made = self._call_with(run, values)
        last = self._last
        if last is not None and last is not self._cached_call_of and not self._by_value.inputs:
            self._cached_call_of = last
            self._cached_call = None if self.model.is_composed else self._cached_call_for(last)
        return values.results(made)

    def _cached_call_for(self, bound: BoundModel) -> FastPath | None:
        """Return the fast path of a plan; with carried values, for as long as their memory stays where it is."""
        state = self._state
        version = 0 if state is None else state.version
        if bound.cached_call is None or bound.cached_version != version:
            another = self._builder.another_runner if state is None else lambda _: None
            can_repeat = state is None or state.can_repeat(bound)
            dtypes = self._inputs.dtypes
            if self._buckets is not None:
                dtypes = dtypes | self._buckets.extent_dtypes(bound.specialised.shapes)
            bound.cached_call = cached_call_for(bound, dtypes, another) if can_repeat and dtypes else None
            bound.cached_version = version
        return bound.cached_call

    def reset(self, **values: Any) -> None:
        """Set the values that are carried from call to call to 0, or to given ones by input; see `compile`.

        Parameters
        ----------
        **values : array-like
            Values of carried inputs, for instance a cache computed before, of any shape that fits the model.

        Raises
        ------
        ArgumentError
            If a value has a shape that the model does not take, or cannot be converted to the input's dtype; nothing is
            changed then.
        """
        if self._state is None:
            raise ArgumentError("it carries nothing", where=f"model {self.model.name!r}", hint="See compile(carried=)")
        with self._state.lock:
            self._state.reset(values)
            self._cached_call = self._cached_call_of = None  # shapes may change

    def carried(self) -> dict[str, Array]:
        """Return copies of the values that are carried from call to call, by input, as far as there are any yet.

        Raises
        ------
        ArgumentError
            If the model carries nothing.
        ExecutionError
            If a call failed while it updated them.
        """
        if self._state is None:
            raise ArgumentError("it carries nothing", where=f"model {self.model.name!r}", hint="See compile(carried=)")
        return self._state.values()

    def start(self, *inputs: Any, **named: Any) -> Run:
        """Start a run and return at once.

        Its results are those of a call, by the names of the model's outputs; and the graph's arrays, by theirs. They
        can be read until the next call of the model. Where values decide extents, `Run.wait` or `Run.result` computes
        everything once more if they exceed the plan's bounds; the inputs must not change until then.

        Parameters
        ----------
        *inputs, **named
            As for a call.
        """
        self._check_carries_nothing("start()")
        given = self._values(inputs, named)

        def begin(bound: BoundModel, values: Mapping[str, Any]) -> Run:
            key, specialised = self._key(given), bound.specialised
            run = bound.runner.run(specialised.given(values))
            if specialised.is_changed or given.has_host:
                names, again = (each.name for each in self.outputs), partial(self._called_again, key, given)
                run.derive(StartedOutputs(names, specialised, given, again))
            return run

        return self._call_with(begin, given)

    def stream(self, inputs: Iterable[Any], *, in_flight: int | None = None) -> Iterator[dict[str, Array]]:
        """Run the model with one input after another, several runs in flight at once.

        Parameters
        ----------
        inputs : iterable
            Arguments of a call: a mapping, one array, or a tuple of arrays. Where the shapes change, runs in flight
            complete first.
        in_flight : int, optional
            Runs in flight at once; by default enough to keep the devices busy.

        Yields
        ------
        dict of str to numpy.ndarray
            As a call returns it, in order.
        """
        self._check_carries_nothing("stream()")
        waiting = iter(inputs)
        following = self._next(waiting)
        while following is not None:
            with self._using(following, awaited=False) as bound:
                key, first = self._key(following), following
                following = None
                begun: deque[CallValues] = deque()

                def same_shapes(
                    first: CallValues = first,
                    key: Any = key,
                    bound: BoundModel = bound,
                    begun: deque[CallValues] = begun,
                ) -> Iterator[Any]:
                    nonlocal following
                    value: CallValues | None = first
                    while value is not None:
                        if self._key(value) != key:
                            following = value
                            return
                        begun.append(value)
                        yield bound.specialised.given(value)
                        value = self._next(waiting)

                with bound.runner.stream(
                    same_shapes(), in_flight=in_flight, results=bound.specialised.fetched
                ) as stream:
                    for outputs in stream:
                        assert isinstance(outputs, dict)  # errors are raised
                        values = begun.popleft()
                        try:
                            found = bound.specialised.results(outputs)
                        except ExtentExceededError:
                            found = self._call_beyond(key, values)
                        yield values.results(found)

    def times(self, *inputs: Any, repeat: int = 5) -> tuple[OperatorTime, ...]:
        """Run the model a few times with tracing, and return how long each of its tasks takes.

        Parameters
        ----------
        *inputs
            As for a call.
        repeat : int, optional
            Number of runs; the medians are returned.
        """
        values = self._values(inputs, {})
        with ExitStack() as held:
            with self._turn():
                bound = held.enter_context(self._using(values))
                runner = held.enter_context(self._builder.rebind(bound, repeat))
                given = bound.specialised.given(values)
                if self._state is not None:
                    given |= self._state.copies(bound)
            for _ in range(repeat + 1):
                runner(given, bound.specialised.fetched)
            return measured_times(runner.traces()[-repeat:], bound.plan, bound.specialised.origins)

    # --- properties -------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs as the model declares them: name, dtype, dimensions (known, named, or None for open ones)."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[DeclaredValue, ...]:
        """The outputs as the model declares them."""
        return self.model.outputs

    def load(self) -> None:
        """Plan and bind the model for the shapes given when it was loaded, if not done yet.

        Raises
        ------
        OpenDimensionError
            If dimensions of inputs are open.
        """
        declared = self.model.full_shapes()
        with self._turn():
            own = [name for name in declared if name not in self._carried_names]
            shapes = self._full_shapes({name: declared[name] for name in own})
            if self._buckets is not None:
                shapes = self._buckets.planned(shapes)
                own = [name for name in shapes if name not in self._carried_names]
            key = self._key_of({name: shapes[name] for name in own})
            with self._bound(key, lambda: self._builder.make(shapes, {}, None, self._counted(shapes))):
                pass

    @property
    def plan(self) -> Plan:
        """The plan of the last call; made now if there was no call."""
        return self._current().plan

    @property
    def graph(self) -> TaskGraph:
        """The graph of that plan."""
        return self._current().specialised.graph

    @property
    def report(self) -> Report:
        """The tasks of the model's operators in that plan, with predicted times."""
        bound = self._current()
        return Report(
            self.model.name,
            planned_times(bound.plan, bound.specialised.origins),
            bound.specialised.rewrites,
            bound.plan.expected_s,
            dict(bound.plan.peak_bytes),
        )

    @property
    def peak_bytes(self) -> int:
        """Peak memory of inputs, outputs and activations over all devices in that plan, in bytes."""
        return sum(self._current().plan.peak_bytes.values())

    @property
    def handed_over_ns(self) -> int | None:
        """Host time of the last call until everything was submitted, in ns; None if unknown.

        That is so if it was not one call of C, or took a few microseconds.

        It is `time.thread_time_ns` of the calling thread at the end of its submissions, plus the processor time of
        another thread for the remaining ones.
        """
        return self._current().runner.handed_over_ns

    @property
    def platform(self) -> Platform:
        """The platform on which the model runs."""
        return self._builder.platform

    @property
    def kept_shapes(self) -> tuple[Shapes, ...]:
        """The cached sets of input shapes, most recently used last."""
        return tuple(bound.specialised.shapes for bound in self._kept.all())

    # --- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Release all memory and the devices once no call is in flight; open streams end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._cached_call = None
        self._kept.close()
        self._builder.close()

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "closed" if self._closed else f"ready for {plural(len(self._kept.all()), 'set')} of shapes"
        return f"<CompiledModel {self.model.name!r} on {self._builder.platform.name}: {how}>"

    def __str__(self) -> str:
        return sections_text(self._sections())

    def _repr_html_(self) -> str:
        return sections_html(self._sections())

    def _sections(self) -> list[Section]:
        """Return inputs, outputs and devices, and the report of the model's plan for the shapes used last."""
        found = [("input", value_text(each)) for each in self.inputs] + [
            ("output", value_text(each)) for each in self.outputs
        ]
        devices = ", ".join(device.name for device in self._builder.platform.devices)
        found += [("devices", devices), ("shapes", plural(len(self._kept.all()), "set"))]
        sections = [facts(f"Model {self.model.name}{', closed' if self._closed else ''}", found)]
        return [*sections, self.report.section] if self._kept.all() and not self._closed else sections

    # --- internals --------------------------------------------------------------------------------

    @property
    def _carried_names(self) -> tuple[str, ...]:
        return () if self._state is None else self._state.names

    def _next(self, waiting: Iterator[Any]) -> CallValues | None:
        for value in waiting:
            return self._values(value if isinstance(value, tuple) else (value,), {})
        return None

    def _values(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> CallValues:
        """Return the value of every input of the graph, as large as its plan's."""
        values = self._inputs.values(inputs, named)
        return values if self._buckets is None else self._buckets.padded(values)

    def _key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._by_value.key(self._shapes_key(values), values)

    def _shapes_key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._key_of({name: tuple(value.shape) for name, value in values.items()})

    def _key_of(self, shapes: Shapes) -> tuple[Any, ...]:
        key: tuple[Any, ...] = tuple(shapes.items() if self.model.is_composed else shapes.values())
        if self._state is None:
            return key
        carried = self._state.shapes
        if len(carried) < len(self._state.names):
            carried = self._full_shapes(shapes)
        return (*key, *(carried[name] for name in self._state.names))

    def _full_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs: of a call's and of the carried ones."""
        carried = {} if self._state is None else self._state.shapes
        try:
            whole = self.model.full_shapes({**shapes, **carried})
            return whole if self._buckets is None else {**shapes, **whole}
        except ArgumentError as error:
            with suppress(OpenDimensionError):
                self.model.full_shapes(shapes)  # raises what is wrong with the call's own inputs
            raise ArgumentError(
                f"{error.what}; carried values have the shapes that calls or reset() left",
                where=f"{error.where} of model {self.model.name!r}",
                hint="Call reset() to begin anew",
            ) from error

    def _turn(self) -> AbstractContextManager[None]:
        """Hold the carried values, if there are any."""
        return nullcontext() if self._state is None else self._state.turn()

    def _check_carries_nothing(self, what: str) -> None:
        if self._state is not None:
            raise ArgumentError(
                "each call begins with what the last one leaves",
                where=f"{what} of model {self.model.name!r}",
                hint="Call it",
            )

    def _call_with(
        self,
        do: Callable[[BoundModel, Mapping[str, Any]], _Result],
        values: Mapping[str, Any],
    ) -> _Result:
        """Call a function with the model bound for the shapes of these values; return its result."""
        by_value = self._by_value
        while True:
            shapes = self._shapes_key(values)
            key, version = by_value.key(shapes, values), by_value.version(shapes)
            try:
                return self._call_planned(do, values, key)
            except ExtentExceededError:
                by_value.observe(shapes, version, lambda: self._shapes_of(values), values)
            except TaskFailedError:  # maybe since values exceed the plan's extents
                is_checked = self._state is not None or not version  # before the run
                if is_checked or not by_value.is_new(shapes, version, lambda: self._shapes_of(values), values):
                    raise
            self._kept.drop(key)

    def _call_beyond(self, key: tuple[Any, ...], values: Mapping[str, Any]) -> dict[str, Array]:
        """Return the results for values that exceed the extents of the plan of a key, which is in use."""
        shapes = self._shapes_key(values)
        version = self._by_value.version(shapes)
        if self._by_value.key(shapes, values) == key:
            self._by_value.observe(shapes, version, lambda: self._shapes_of(values), values)
        return self._call_with(_run, values)

    def _called_again(self, key: tuple[Any, ...], values: CallValues, *, failed: bool) -> dict[str, Any] | None:
        """Return the outputs for values beyond the extents of the plan of a key; None if a run failed otherwise."""
        shapes = self._shapes_key(values)
        version = self._by_value.version(shapes)
        if failed and self._key(values) == key:
            is_new = version and self._by_value.is_new(shapes, version, lambda: self._shapes_of(values), values)
            if not is_new:
                return None
        return values.results(self._call_beyond(key, values))

    def _call_planned(
        self,
        do: Callable[[BoundModel, Mapping[str, Any]], _Result],
        values: Mapping[str, Any],
        key: tuple[Any, ...],
    ) -> _Result:
        slot = None if self._closed else self._kept.acquire_ready(key)
        if slot is None:
            with self._using(values) as bound:
                return do(bound, values)
        try:
            assert slot.bound is not None
            self._last = slot.bound
            return do(slot.bound, values)
        finally:
            self._kept.release(slot)

    def _shapes_of(self, values: Mapping[str, Any]) -> Shapes:
        return self._full_shapes({name: tuple(value.shape) for name, value in values.items()})

    @contextmanager
    def _using(self, values: Mapping[str, Any], *, awaited: bool = True) -> Iterator[BoundModel]:
        """Yield the model bound for the shapes of these values."""
        by_value = self._by_value
        shapes_key = self._shapes_key(values)

        def make() -> BoundModel:
            shapes, given = self._shapes_of(values), by_value.planned_by(values)
            return self._builder.make(shapes, given, by_value.observed(shapes_key), self._counted(shapes))

        while True:
            entered, version = False, by_value.version(shapes_key)
            try:
                with self._bound(by_value.key(shapes_key, values), make, awaited=awaited) as bound:
                    entered = True
                    yield bound
                return
            except ValueNeededError as error:
                if entered:
                    raise
                if self._buckets is not None:
                    self._buckets.check_inputs(error)
                by_value.learn(error, shapes_key, version, lambda: self._shapes_of(values), values)

    def _counted(self, shapes: Shapes) -> CountedAxes | None:
        return None if self._buckets is None else self._buckets.axes(shapes)

    @contextmanager
    def _bound(
        self, key: tuple[Any, ...], make: Callable[[], BoundModel], *, awaited: bool = True
    ) -> Iterator[BoundModel]:
        if self._closed:
            raise ExecutionError("it is closed", where=f"model {self.model.name!r}")
        with self._kept.using(key, make, awaited=awaited) as bound:
            self._last = bound
            yield bound

    def _current(self) -> BoundModel:
        if self._last is None:
            self.load()
        assert self._last is not None
        return self._last


def _run(bound: BoundModel, values: Mapping[str, Any]) -> dict[str, Array]:
    specialised = bound.specialised
    return specialised.results(bound.runner(specialised.given(values), specialised.fetched))
