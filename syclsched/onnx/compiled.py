# SPDX-License-Identifier: Apache-2.0
"""A model that can be called: planned and bound for the input shapes it is given, and kept for the next call."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from syclsched.errors import ArgumentError, ExecutionError, RemadeModelWarning, ValueNeededError
from syclsched.frontends.onnx.model import Declared
from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import MemoryLimit
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.onnx.again import Again, again_for
from syclsched.onnx.kept import Bound, Kept
from syclsched.onnx.making import Maker, usual_platform
from syclsched.onnx.model import GivenShapes, OnnxModel, load
from syclsched.onnx.offering import check_names
from syclsched.onnx.report import OperatorTime, Report, measured_times, planned_times
from syclsched.onnx.specialised import Array, Shapes
from syclsched.scheduling.objectives import minimize as aim_at

if TYPE_CHECKING:
    from syclsched.execution import Run

_Done = TypeVar("_Done")

#: Input shapes a model is kept ready for, the last ones used.
KEPT = 16


def compile(
    model: OnnxModel | str | os.PathLike[str] | bytes | Any,
    platform: Platform | None = None,
    *,
    devices: str | None = None,
    shapes: GivenShapes | None = None,
    minimize: str = "latency",
    policy: str = "auto",
    rewrites: bool | Iterable[str] = True,
    rewrite: str | None = None,
    subject_to: Iterable[str] = (),
    memory_limit: MemoryLimit | None = None,
    autotune: bool = True,
    without: Iterable[str] = (),
    progress: Callable[[int, int, str], None] | None = None,
    keep: int = KEPT,
    trace: bool | int = False,
) -> CompiledModel:
    """Make an ONNX model ready to be called with inputs.

    It is planned and bound when it is first called, and again for every other shape it is called with; or before, by
    `CompiledModel.load`, if the model, or ``shapes``, says its shapes.

    Parameters
    ----------
    model : OnnxModel, path, bytes or onnx.ModelProto
        What to run; see `load`.
    platform : Platform, optional
        Where; by default every usable device of this machine but emulators.
    devices : str, optional
        Instead of a platform: which of this machine's devices, as for `syclsched.discover`.
    shapes, rewrites
        As for `load`; with an `OnnxModel` they have been said.
    minimize : str, optional
        ``latency`` (of one run), ``throughput`` (the time between runs of a stream), ``energy`` or ``memory``.
    policy, rewrite, subject_to, memory_limit
        As for `syclsched.plan`. Tasks are cut and merged only where there is more than one lane, if nothing is said.
    autotune : bool, optional
        Time the implementations there are of every operation on every device, once per shape; they are remembered.
    without : iterable of str, optional
        Implementations that are not to be used, by name: ``["opencl-c-winograd"]``. What has no other keeps them.
    progress : callable, optional
        Called with (done, total, what comes next) while the model is made ready; both are 0 where it is not known how
        much there is to do. The logger ``syclsched`` is told what comes next, too, as INFO.
    keep : int, optional
        For so many sets of input shapes, the last ones used, all that was made stays ready.
    trace : bool or int, optional
        Keep times of runs; see `syclsched.bind`.

    Returns
    -------
    CompiledModel
        Call it; use it in a ``with`` statement, or `CompiledModel.close` it.

    Raises
    ------
    StorageError, ModelError
        As `load`.
    ArgumentError
        If what was said contradicts the model or itself, or names an implementation that there is not.

    Examples
    --------
    >>> import numpy as np, syclsched
    >>> with syclsched.compile("resnet50.onnx", devices="cpu") as classify:  # doctest: +SKIP
    ...     classify(np.zeros((1, 3, 224, 224), "float32"))
    """
    if platform is not None and devices is not None:
        raise ArgumentError("both a platform and devices are given", where="compile()", hint="Leave one of them out")
    if isinstance(without, str):
        raise ArgumentError(f"without={without!r} is one name", where="compile()", hint=f"Give a list: [{without!r}]")
    without = frozenset(without)
    check_names(without)
    subject_to = tuple(subject_to)
    aim_at(minimize).subject_to(*subject_to)  # what is no aim is refused now, not when the model is first called
    if isinstance(model, OnnxModel):
        if shapes is not None or rewrites is not True:
            raise ArgumentError("shapes and rewrites are said when a model is loaded", where="compile()")
        loaded = model
    else:
        loaded = load(model, shapes=shapes, rewrites=rewrites)
    maker = Maker(
        loaded,
        usual_platform(devices) if platform is None else platform,
        policy=policy,
        minimize=minimize,
        rewrite=rewrite,
        subject_to=subject_to,
        memory_limit=memory_limit,
        autotune=autotune,
        without=without,
        progress=progress,
        trace=trace,
    )
    return CompiledModel(loaded, maker, keep=keep)


class CompiledModel:
    """A model that can be called, from any number of threads. Made by `compile`.

    Parameters
    ----------
    model : OnnxModel
        The model.
    maker : Maker
        Plans and binds it.
    keep : int
        As for `compile`.
    """

    def __init__(self, model: OnnxModel, maker: Maker, *, keep: int = KEPT) -> None:
        if keep < 1:
            raise ArgumentError(f"keep={keep} keeps nothing", where="compile()", hint="At least 1")
        self.model = model
        self._maker = maker
        self._names = tuple(each.name for each in model.inputs)
        self._dtypes = {name: model.dtype(name) for name in self._names}
        #: Inputs whose values shapes follow from.
        self._settling: tuple[str, ...] = ()
        self._kept = Kept(keep)
        self._last: Bound | None = None
        #: What calls with the same shapes as the last one begin with, and what was looked at for that.
        self._again: Again | None = None
        self._looked_at: Bound | None = None
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
            By name of the output, in the model's order; the caller's own arrays.

        Raises
        ------
        ArgumentError
            If an input is missing, unknown, of another dtype or shape than the model takes, or has indices that are out
            of range.
        TaskFailedError, ExecutionError
            If the run fails.
        """
        again = self._again
        found = None if again is None or named else again(inputs)
        if found is not None:
            return found
        values = self._values(inputs, named)
        made = self._done_by(_run, values)
        last = self._last
        if last is not None and last is not self._looked_at and not self._settling:
            self._looked_at = last
            self._again = again_for(last, self._dtypes)
        return made

    def start(self, *inputs: Any, **named: Any) -> Run:
        """Start a run and return at once.

        Its results, by the names of the graph's arrays, can be read until the model is next called.

        Parameters
        ----------
        *inputs, **named
            As for a call.
        """
        return self._done_by(_start, self._values(inputs, named))

    def stream(self, inputs: Iterable[Any], *, in_flight: int | None = None) -> Iterator[dict[str, Array]]:
        """Run the model with one input after another, several on their way at once.

        Parameters
        ----------
        inputs : iterable
            Of what a call takes: a mapping, one array, or a tuple of arrays. Where the shapes change, what is on its
            way ends first.
        in_flight : int, optional
            How many are on their way at once; by default what keeps the devices busy.

        Yields
        ------
        dict of str to numpy.ndarray
            As a call returns it, in order.
        """
        waiting = iter(inputs)
        following = self._next(waiting)
        while following is not None:
            with self._using(following, awaited=False) as bound:
                key, first = self._key(following), following
                following = None

                def same(first: dict[str, Any] = first, key: Any = key, bound: Bound = bound) -> Iterator[Any]:
                    nonlocal following
                    value: dict[str, Any] | None = first
                    while value is not None:
                        if self._key(value) != key:
                            following = value
                            return
                        yield bound.specialised.given(value)
                        value = self._next(waiting)

                with bound.runner.stream(same(), in_flight=in_flight, results=bound.specialised.fetched) as stream:
                    for found in stream:
                        assert isinstance(found, dict)  # errors are raised
                        yield bound.specialised.results(found)

    def times(self, *inputs: Any, repeat: int = 5) -> tuple[OperatorTime, ...]:
        """Run the model a few times with tracing, and return how long each of its tasks takes.

        Parameters
        ----------
        *inputs
            As for a call.
        repeat : int, optional
            How often; the medians are returned.
        """
        values = self._values(inputs, {})
        with self._using(values) as bound, self._maker.bound_again(bound, repeat) as runner:
            for _ in range(repeat + 1):
                runner(bound.specialised.given(values), bound.specialised.fetched)
            return measured_times(runner.traces()[-repeat:], bound.plan, bound.specialised.origins)

    # --- looking ----------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[Declared, ...]:
        """What it takes, as the model declares it: name, dtype, dimensions (known, named, or None for open ones)."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[Declared, ...]:
        """What it returns, in the same way."""
        return self.model.outputs

    def load(self) -> None:
        """Plan and bind the model for the shapes it was loaded for, if that was not done yet.

        Raises
        ------
        OpenDimensionError
            If extents are open.
        """
        shapes = self.model.full_shapes()
        with self._bound(tuple(shapes[name] for name in self._names), lambda: shapes, dict):
            pass

    @property
    def plan(self) -> Plan:
        """The plan that was last used; made now, if none was."""
        return self._current().plan

    @property
    def graph(self) -> TaskGraph:
        """The graph of that plan."""
        return self._current().specialised.graph

    @property
    def report(self) -> Report:
        """What has become of the model's operators in that plan."""
        bound = self._current()
        return Report(
            self.model.name,
            planned_times(bound.plan, bound.specialised.origins),
            bound.specialised.rewrites,
            bound.plan.makespan_s,
            dict(bound.plan.peak_bytes),
        )

    @property
    def peak_bytes(self) -> int:
        """Most memory of inputs, outputs and activations at once, on all devices, by that plan."""
        return sum(self._current().plan.peak_bytes.values())

    @property
    def handed_over_ns(self) -> int | None:
        """What the last call cost the host until all was submitted; None if it was not one call of C.

        It is `time.thread_time_ns` of the calling thread when that had submitted what it does, plus the processor time
        that another thread took for the rest.
        """
        return self._current().runner.handed_over_ns

    @property
    def platform(self) -> Platform:
        """Where it runs."""
        return self._maker.platform

    @property
    def kept_shapes(self) -> tuple[Shapes, ...]:
        """The input shapes it is ready for, the last used last."""
        return tuple(bound.specialised.shapes for bound in self._kept.all())

    # --- ending -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Give all memory and the devices back, once no call is on its way; streams that are open end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._again = None
        self._kept.close()
        self._maker.close()

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "closed" if self._closed else f"ready for {len(self._kept.all())} sets of shapes"
        return f"<CompiledModel {self.model.name!r} on {self._maker.platform.name}: {how}>"

    # --- inside -----------------------------------------------------------------------------------

    def _next(self, waiting: Iterator[Any]) -> dict[str, Any] | None:
        for value in waiting:
            return self._values(value if isinstance(value, tuple) else (value,), {})
        return None

    def _values(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every input by name, of the dtype the model takes."""
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            given = {**inputs[0], **named}
        elif len(inputs) > len(self._names):
            raise ArgumentError(
                f"{len(inputs)} inputs are given, and the model takes {len(self._names)}",
                where=f"model {self.model.name!r}",
                hint=f"They are {', '.join(self._names)}",
            )
        else:
            given = {**dict(zip(self._names, inputs, strict=False)), **named}
        missing = [name for name in self._names if name not in given]
        unknown = [str(name) for name in given if name not in self._dtypes]
        if missing or unknown:
            said = [f"no value is given for {', '.join(missing)}"] if missing else []
            said += [f"there is no input {', '.join(unknown)}"] if unknown else []
            raise ArgumentError(
                ", and ".join(said),
                where=f"model {self.model.name!r}",
                hint=f"Its inputs are {', '.join(self._names) or 'none'}",
            )
        return {name: _value(name, given[name], dtype) for name, dtype in self._dtypes.items()}

    def _key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        shapes = tuple(tuple(value.shape) for value in values.values())
        if not self._settling:
            return shapes
        return (*shapes, *(np.asarray(values[name]).tobytes() for name in self._settling))

    def _done_by(self, do: Callable[[Bound, Mapping[str, Any]], _Done], values: Mapping[str, Any]) -> _Done:
        """Return what something returns of what is bound for the shapes of some values."""
        slot = None if self._closed else self._kept.take_ready(self._key(values))
        if slot is None:
            with self._using(values) as bound:
                return do(bound, values)
        try:
            assert slot.bound is not None
            self._last = slot.bound
            return do(slot.bound, values)
        finally:
            self._kept.give(slot)

    @contextmanager
    def _using(self, values: Mapping[str, Any], *, awaited: bool = True) -> Iterator[Bound]:
        """Yield what is bound for the shapes of some values."""

        def shapes() -> Shapes:
            return self.model.full_shapes({name: tuple(value.shape) for name, value in values.items()})

        def settled() -> dict[str, Array]:
            return {name: np.asarray(values[name]) for name in self._settling}

        while True:
            entered = False
            try:
                with self._bound(self._key(values), shapes, settled, awaited=awaited) as bound:
                    entered = True
                    yield bound
                return
            except ValueNeededError as error:
                new = set(error.inputs) - set(self._settling)
                if entered or not new or not set(error.inputs) <= set(self._names):
                    raise
                self._settle(error.inputs)

    def _settle(self, names: Iterable[str]) -> None:
        """Take values of inputs for something that shapes follow from; say so where they hardly come twice."""
        new = [name for name in names if name not in self._settling]
        self._settling = (*self._settling, *dict.fromkeys(new))
        real = [repr(name) for name in new if self._dtypes[name].kind == "f"]
        if real:
            warnings.warn(
                f"model {self.model.name!r} is planned and bound anew for every value of {', '.join(real)}, as shapes "
                "follow from it; export the model with constant shapes if calls are to be quick",
                RemadeModelWarning,
                stacklevel=2,
            )

    @contextmanager
    def _bound(
        self,
        key: tuple[Any, ...],
        shapes: Callable[[], Shapes],
        values: Callable[[], Mapping[str, Array]],
        *,
        awaited: bool = True,
    ) -> Iterator[Bound]:
        if self._closed:
            raise ExecutionError("it is closed", where=f"model {self.model.name!r}")
        with self._kept.using(key, lambda: self._maker.make(shapes(), values()), awaited=awaited) as bound:
            self._last = bound
            yield bound

    def _current(self) -> Bound:
        if self._last is None:
            self.load()
        assert self._last is not None
        return self._last


def _start(bound: Bound, values: Mapping[str, Any]) -> Run:
    return bound.runner.run(bound.specialised.given(values))


def _run(bound: Bound, values: Mapping[str, Any]) -> dict[str, Array]:
    specialised = bound.specialised
    return specialised.results(bound.runner(specialised.given(values), specialised.fetched))


def _value(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        try:
            return np.asarray(value, dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"this is no array of {dtype.name}: {error}", where=f"input {name!r}") from error
    if value.dtype != dtype:
        raise ArgumentError(
            f"its dtype is {value.dtype}, and the model takes {dtype.name}",
            where=f"input {name!r}",
            hint=f"Convert it with astype({dtype.name!r})",
        )
    return value
