# SPDX-License-Identifier: Apache-2.0
"""Compiled models: callables that are planned and bound per set of input shapes, and cached for later calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from operator import methodcaller
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.text.sections import Section, facts, sections_html, sections_text
from syclsched.model.text.units import plural
from syclsched.onnx.cached_call import cached_call_for
from syclsched.onnx.call_inputs import CallInputs, CallValues
from syclsched.onnx.carried_state import CarriedState
from syclsched.onnx.lru_cache import BoundModel, FastPath
from syclsched.onnx.model import OnnxModel, value_text
from syclsched.onnx.model_build import ModelBuilder
from syclsched.onnx.report import OperatorTime, Report, measured_times, planned_times
from syclsched.onnx.shapes.bound_plans import BoundPlans
from syclsched.onnx.shapes.buckets import Buckets
from syclsched.onnx.specialised import Array, ExtentExceededError, Shapes
from syclsched.onnx.started_outputs import StartedOutputs

if TYPE_CHECKING:
    from syclsched.execution import Run
    from syclsched.execution.runner.input_copies import InputCopies

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
    first : Mapping[str, array], optional
        The default values of carried inputs, with which calls begin.
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
        first: Mapping[str, Array] | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        if not isinstance(keep, int) or keep < 1:
            raise ArgumentError(f"{keep!r} is no number of sets of shapes", where="keep", hint="Give at least 1")
        self.model = model
        self._builder, self._buckets = builder, buckets
        #: The values carried from call to call, if any.
        self._state = CarriedState(carried, model, first) if carried else None
        self._inputs = CallInputs(model, self._carried_names)
        self._plans = BoundPlans(model, builder, keep, self._state, buckets)
        #: Fast path for the last input shapes, and the bound model for which it was last built.
        self._cached_call: FastPath | None = None
        self._cached_call_of: BoundModel | None = None

    # --- running ----------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **named: Any) -> dict[str, Array]:
        """Run the model and return its outputs.

        Parameters
        ----------
        *inputs : array-like, or one Mapping[str, array-like]
            In the model's order, those with default values last, or by name.
        **named : array-like
            By name.

        Returns
        -------
        dict of str to numpy.ndarray
            The outputs by name, in the model's order; the caller owns the arrays.

        Raises
        ------
        ArgumentError
            If an input is missing, unknown or given twice, has a dtype or shape that the model does not take, or has
            indices out of range.
        TaskFailedError, ExecutionError
            If the run fails.
        """
        if self._state is None:
            return self._call(inputs, named, self._plans.run)
        with self._state.turn():
            return self._call(inputs, named, self._state.run)

    def _call(
        self,
        inputs: tuple[Any, ...],
        named: Mapping[str, Any],
        run: Callable[[BoundModel, Mapping[str, Any]], dict[str, Array]],
    ) -> dict[str, Array]:
        cached, found = self._cached_call, None
        if self._inputs.are_plain and self._buckets is None:
            try:
                if cached is not None and not (inputs and named):
                    found = cached.run((named,) if named else inputs)
            except ExtentExceededError:
                found = None
            if found is not None:
                return found
            values = self._inputs.values(inputs, named)
        else:
            plain = self._inputs.values(inputs, named)
            values = self._padded(plain)
            with suppress(ExtentExceededError):
                found = None if cached is None else cached.run((dict(values),))
            if found is not None:
                if self._state is not None and self._cached_call_of is not None:
                    self._state.grow(self._cached_call_of, values)
                return values.results(found)
            values = self._with_plan(plain, values)
        if self._state is not None:
            self._state.expect_run()
        made = self._plans.call_with(run, values)
        last = self._plans.last
        if last is not None and last is not self._cached_call_of:
            decided = self._plans.by_value.planned_by(values)
            if not decided or last.key == self._plans.key(values):  # else it is the plan of another thread's call
                self._cached_call_of = last
                self._cached_call = None if self.model.is_composed else self._cached_call_for(last, decided)
        return values.results(made)

    def _cached_call_for(self, bound: BoundModel, decided: Mapping[str, Array]) -> FastPath | None:
        """Return the fast path of a plan; with carried values, for as long as their memory stays where it is.

        ``decided`` has the values for which the plan was made.
        """
        state = self._state
        version = 0 if state is None else state.version
        if bound.cached_call is None or bound.cached_version != version:
            another = self._builder.another_runner if state is None else lambda _: None
            can_repeat = state is None or state.can_repeat(bound)
            dtypes = self._inputs.dtypes_of(bound.specialised.shapes)
            if dtypes and self._buckets is not None:
                dtypes = dtypes | self._buckets.extent_dtypes(bound.specialised.shapes)
            bound.cached_call = cached_call_for(bound, dtypes, another, decided) if can_repeat and dtypes else None
            bound.cached_version = version
        return bound.cached_call

    def reset(self, **values: Any) -> None:
        """Set the values that are carried from call to call to given ones by input, to defaults, or 0; see `compile`.

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

        They can be read after `close`, too.

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

    @property
    def carried_state(self) -> CarriedState | None:
        """The values that are carried from call to call, and where they are; None if there are none."""
        return self._state

    def input_copies(self, names: Collection[str], least_s: float) -> InputCopies | None:
        """Return memory to copy inputs of the next call to devices while one computes; see `Runner.input_copies`.

        The copies can be given in place of the inputs that the graph's are named after, in calls of the last shapes.
        """
        bound = self._plans.last
        is_plain = self._inputs.are_plain and self._buckets is None and not self._plans.by_value.inputs
        if bound is None or self._plans.is_closed or not is_plain:
            return None
        made = bound.specialised
        if made.checks is not None or made.elements or any(made.inputs.get(name, name) != name for name in names):
            return None
        return bound.runner.input_copies(names, least_s)

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
            specialised = bound.specialised
            graph_inputs, another = specialised.given(values), self._builder.another_runner
            run = bound.with_free_runner(lambda runner: runner.run(graph_inputs), another)
            if specialised.is_changed or given.has_host:
                names, again = (
                    (each.name for each in self.outputs),
                    partial(self._plans.outputs_again, bound.key, given),
                )
                run.derive(StartedOutputs(names, specialised, given, again))
            return run

        return self._plans.call_with(begin, given)

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
            with self._plans.using(following, awaited=False) as bound:
                key, first = bound.key, following
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
                        if value is not first and self._plans.key(value) != key:
                            following = value
                            return
                        begun.append(value)
                        yield bound.specialised.given(value)
                        value = self._next(waiting)

                open_stream = methodcaller(
                    "stream", same_shapes(), in_flight=in_flight, results=bound.specialised.fetched
                )
                with bound.with_free_runner(open_stream, self._builder.another_runner) as stream:
                    for outputs in stream:
                        assert isinstance(outputs, dict)  # errors are raised
                        values = begun.popleft()
                        try:
                            found = bound.specialised.results(outputs)
                        except ExtentExceededError as beyond:
                            found = self._plans.results_beyond(key, values, beyond)
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
            with self._reading():
                bound = held.enter_context(self._plans.using(values))
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
        with self._reading():
            self._plans.load(declared)

    @property
    def plan(self) -> Plan:
        """The plan of the last call, also after `close`; made now if there was no call."""
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
    def handed_over_ns(self) -> tuple[int, int] | None:
        """Host times of the last call, in ns: until it was handed over, and until everything was submitted.

        None if these are unknown, as the call was not one of C or took a few microseconds. The first is
        `time.thread_time_ns` of the calling thread at the end of its submissions, the second that plus the processor
        time of another thread for the remaining ones.
        """
        return self._current().runner.handed_over_ns

    @property
    def platform(self) -> Platform:
        """The platform on which the model runs."""
        return self._builder.platform

    def lost_devices(self) -> tuple[str, ...]:
        """Return the names of devices that do not respond, after 5 seconds each."""
        return self._builder.lost_devices()

    @property
    def kept_shapes(self) -> tuple[Shapes, ...]:
        """The cached sets of input shapes, most recently used last."""
        return tuple(bound.specialised.shapes for bound in self._plans.kept.all())

    # --- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Release all memory and the devices once no call is in flight; open streams end."""
        self._cached_call = None
        if self._plans.close():
            self._builder.close()

    def __enter__(self) -> CompiledModel:
        self._plans.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "closed" if self._plans.is_closed else f"ready for {plural(len(self._plans.kept.all()), 'set')} of shapes"
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
        found += [("devices", devices), ("shapes", plural(len(self._plans.kept.all()), "set"))]
        sections = [facts(f"Model {self.model.name}{', closed' if self._plans.is_closed else ''}", found)]
        return [*sections, self.report.section] if self._plans.kept.all() and not self._plans.is_closed else sections

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
        plain = self._inputs.values(inputs, named)
        return self._with_plan(plain, self._padded(plain))

    def _padded(self, plain: CallValues) -> CallValues:
        """Return values of the graph's inputs as large as the plan in which they may run."""
        if self._buckets is None:
            return plain
        carried = self._plans.carried_shapes({name: tuple(value.shape) for name, value in plain.items()})
        return self._buckets.padded(plain, carried)

    def _with_plan(self, plain: CallValues, padded: CallValues) -> CallValues:
        """Return padded values if there can be such a plan, else values as large as that of their own shapes."""
        return padded if self._buckets is None or self._plans.can_grow(padded) else self._padded(plain)

    def _reading(self) -> AbstractContextManager[None]:
        """Hold the carried values, if there are any, without a run that changes them."""
        return nullcontext() if self._state is None else self._state.reading()

    def _check_carries_nothing(self, what: str) -> None:
        if self._state is not None:
            raise ArgumentError(
                "each call begins with what the last one leaves",
                where=f"{what} of model {self.model.name!r}",
                hint="Call it",
            )

    def _current(self) -> BoundModel:
        if self._plans.last is None:
            self.load()
        assert self._plans.last is not None
        return self._plans.last
